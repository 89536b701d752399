package main

// ofTraffic are faults of how logs are read, where a line would get the client of another, or count twice.
var ofTraffic = []mutant{
	{
		name: "prefix-of-an-address-is-stripped", fault: "an address before a bar is taken for the name of a container",
		file: "cmd/sash/internal/traffic/collectors.go", old: "if isAddress(name) {", new: "if isAddress(name) && of == \"syslog\" {",
		tests: "TestPrefixes_AnAddressIsNotStripped", in: ofLogs,
	},
	{
		name: "prefix-is-optional", fault: "a line without the prefix of its file is read as it is",
		file: "cmd/sash/internal/traffic/prefix.go", old: "\t\tp, err := l.strip(line)\n\t\tif err != nil {", new: "\t\tp, err := l.strip(line)\n\t\tif err == errNoPrefix {\n\t\t\tcontinue\n\t\t}\n\t\tif err != nil {",
		tests: "TestPrefixes_EveryLineHasIt", in: ofLogs,
	},
	{
		name: "prefix-is-told-after-the-format", fault: "the format is detected before sure prefixes are stripped",
		file: "cmd/sash/internal/traffic/prefix.go", old: "(!p.sure || s.settings.namesFields())", new: "(!p.sure || p.sure)",
		tests: "TestPrefixes_EveryFormatBehindEveryTwo|TestPrefixes_AnAddressIsNotStripped", in: ofLogs,
	},
	{
		name: "prefix-hides-a-pattern", fault: "a pattern that has the prefix itself is looked for behind it",
		file: "cmd/sash/internal/traffic/prefix.go", old: "(!p.sure || s.settings.namesFields())", new: "!p.sure",
		tests: "TestPrefixes_WithFlags", in: ofLogs,
	},
	{
		name: "prefix-or-pattern", fault: "a pattern that fits with the prefix and without it reads a word of the collector as the client",
		file: "cmd/sash/internal/traffic/prefix.go", old: "case !s.suits(inner):", new: "case !s.suits(inner) || s.suits(lines):",
		tests: "TestPrefixes_TwoReadings", in: ofLogs,
	},
	{
		name: "prefix-or-column", fault: "the first of columns between bars is taken for docker compose's prefix",
		file: "cmd/sash/internal/traffic/prefix.go", old: "case s.suits(lines) && asColumn:", new: "case s.suits(lines) && asColumn && p == nil:",
		tests: "TestPrefixes_OfColumns", in: ofLogs,
	},
	{
		name: "prefix-by-one-line", fault: "one line that fits with the prefix and without it makes a whole file unreadable",
		file: "cmd/sash/internal/traffic/prefix.go", old: "return 2*n > of || of == 0", new: "return n > 0 || of == 0",
		tests: "TestPrefixes_OfColumns", in: ofLogs,
	},
	{
		name: "headings-behind-times-are-not-read", fault: "a log whose heading names its fields is not found behind --timestamps",
		file: "cmd/sash/internal/traffic/prefix.go", old: "if l.why != \"\" || isBlank(l.text) {\n\t\t\t\treturn false", new: "if l.why != \"\" || isBlank(l.text) || strings.HasPrefix(l.text, \"#\") {\n\t\t\t\treturn false",
		tests: "TestPrefixes_Headings", in: ofLogs,
	},
	{
		name: "prefixes-without-a-bound", fault: "five prefixes are stripped",
		file: "cmd/sash/internal/traffic/prefix.go", old: "const maxPrefixes = 4", new: "const maxPrefixes = 5",
		tests: "TestPrefixes_Bound", in: ofLogs,
	},
	{
		name: "parts-of-all-streams-are-joined", fault: "a part of a line is continued by the other stream of the container",
		file: "cmd/sash/internal/traffic/collectors.go", old: "return part{text: text, stream: stream, more: tag == \"P\"}, nil", new: "return part{text: text, more: tag == \"P\"}, nil",
		tests: "TestPrefixes_PartsOfLines", in: ofLogs,
	},
	{
		name: "the-rest-of-a-long-line-is-a-line", fault: "what follows the part with which a line got too long is read as a line of its own",
		file: "cmd/sash/internal/traffic/prefix.go", old: "long := was.long || len(p.text) > MaxLine", new: "long := len(p.text) > MaxLine",
		tests: "TestPrefixes_PartsOfLines", in: ofLogs,
	},
	{
		name: "several-lines-in-one-entry", fault: "an entry of docker with several lines is read as the first",
		file: "cmd/sash/internal/traffic/collectors.go", old: "if strings.ContainsAny(p.text, \"\\r\\n\") {", new: "if strings.ContainsAny(p.text, \"\\r\\n\") && p.stream == \"\" {",
		tests: "TestPrefixes_PartsOfLines", in: ofLogs,
	},
	{
		name: "docker-hides-an-address", fault: "an object with an address of its own is taken for an entry of docker",
		file: "cmd/sash/internal/traffic/collectors.go", old: "case f.name != \"time\" && f.name != \"attrs\":", new: "case f.name != \"time\" && f.name != \"attrs\" && f.name != \"remote_addr\":",
		tests: "TestPrefixes_AnAddressIsNotStripped", in: ofLogs,
	},
	{
		name: "user-hides-an-address", fault: "a user's name may have an address in it, as in a line with a prefix that is not known",
		file: "cmd/sash/internal/traffic/accesslog.go", old: "return w == \"-\" || isAddress(w)", new: "return w == \"-\"",
		tests: "TestParseLine_SaysWhatIsWrong", in: ofLogs,
	},
	{
		name: "haproxy-cuts-short-lines", fault: "a line of HAProxy may be cut anywhere",
		file: "cmd/sash/internal/traffic/fixed.go", old: "f.longest > 0 && len(line) >= f.longest", new: "f.longest > 0",
		tests: "TestHAProxy_CutLines", in: ofLogs,
	},
	{
		name: "haproxy-cut-line-hides-another", fault: "a line that is joined to a cut one is lost without notice",
		file: "cmd/sash/internal/traffic/fixed.go", old: "if f.joined(rest) {", new: "if len(rest) < 0 {",
		tests: "TestHAProxy_CutLines", in: ofLogs,
	},
	{
		name: "haproxy-cut-path-is-a-path", fault: "the path of a cut line is taken for its path",
		file: "cmd/sash/internal/traffic/fixed.go", old: "if s.index >= n && f.fields[i].flag != \"\" {", new: "if s.index > n && f.fields[i].flag != \"\" {",
		tests: "TestHAProxy_CutLines", in: ofLogs,
	},
	{
		name: "pattern-ends-early", fault: "a line may end inside the last field of a pattern, such as a time",
		file: "cmd/sash/internal/traffic/pattern.go", old: "i+1 < t.required || i+1 == len(t.variables)", new: "i+1 < t.required",
		tests: "TestApacheTime|TestPattern_EmptyFields", in: ofLogs,
	},
	{
		name: "s3-joined-lines", fault: "a line of S3 in another is lost without notice",
		file: "cmd/sash/internal/traffic/fixed.go", old: "hasBracketed(rest, zonedTime) }", new: "len(rest) < 0 }",
		tests: "TestFixed_TwoLinesInOne", in: ofLogs,
	},
	{
		name: "files-by-name-only", fault: "a file that is given by two names counts twice",
		file: "cmd/sash/internal/traffic/input.go", old: "!info.IsDir() && os.SameFile(was, info)", new: "!info.IsDir() && was == info",
		tests: "TestCheckFiles_Twice", in: ofLogs,
	},
	{
		name: "standard-input-is-no-file", fault: "a file that is given as standard input, too, counts twice",
		file: "cmd/sash/internal/traffic/input.go", old: "if f, ok := stdin.(*os.File); ok {", new: "if f, ok := stdin.(*os.File); ok && f == nil {",
		tests: "TestCheckFiles_Twice", in: ofLogs,
	},
	{
		name: "json-takes-any-name", fault: "a line of JSON without the field of the lines before it is read by another name",
		file: "cmd/sash/internal/traffic/json.go", old: "\tif err == nil {\n\t\treturn v, nil\n\t}\n\tnames :=", new: "\tif err == nil {\n\t\treturn v, nil\n\t}\n\tif p, found := find(line, namesOf(Addr)); found && i > 0 {\n\t\treturn value(line, p)\n\t}\n\tnames :=",
		tests: "TestJSON_NamesThatChange", in: ofLogs,
	},
	{
		name: "apache-fraction-is-lost", fault: "a fraction of the second that Apache writes apart is lost",
		file: "cmd/sash/internal/traffic/apachetime.go", old: "case p.fraction == nil || f.width > p.fraction.width:", new: "case p.fraction != nil && f.width > p.fraction.width:",
		tests: "TestRealLogs", in: ofLogs,
	},
	{
		name: "unescaped-formats-are-believed", fault: "an address that a client can write is believed",
		file: "cmd/sash/internal/traffic/config.go", old: "strings.HasPrefix(v, \"http_\"), strings", new: "strings",
		tests: "TestRealLogs", in: ofLogs,
	},
	{
		name: "an-empty-format-is-a-name", fault: "an empty -format is looked for among the names",
		file: "cmd/sash/internal/traffic/format.go", old: "if strings.TrimSpace(format) == \"\" {", new: "if false {",
		tests: "TestFormats_ErrorsSayWhatToTry", in: "cmd/sash/internal/replay",
	},
	{
		name: "server-takes-arguments", fault: "the example server ignores what is no flag, such as a limit without one",
		file: "examples/server/main.go", old: "if flags.NArg() > 0 {", new: "if false {",
		tests: "TestRun_RefusesArguments", in: "examples/server",
	},
	{
		name: "flags-name-nanoseconds", fault: "a field that a flag names as duration is in nanoseconds",
		file: "cmd/sash/internal/traffic/format.go", old: "case name == lasting:", new: "case name == lasting || name == duration:",
		tests: "TestDuration_NamedByAFlag", in: ofLogs,
	},
	{
		name: "envoy-lasts-seconds", fault: "the milliseconds of Envoy's JSON are read as seconds",
		file: "cmd/sash/internal/traffic/json.go", old: "p.part, p.unit = inWholeMilliseconds,", new: "p.part, p.unit = inSeconds,",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "envoy-dates-ends", fault: "the start_time of Envoy's JSON is taken for the end of the request",
		file: "cmd/sash/internal/traffic/json.go", old: "name == startTime || strings", new: "strings",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "envoy-is-any-start-time", fault: "seconds of a server that logs start_time and response_code are read as Envoy's milliseconds",
		file: "cmd/sash/internal/traffic/json.go", old: "{\"downstream_remote_address\", ", new: "{\"response_code\", \"downstream_remote_address\", ",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "envoy-has-decimals", fault: "seconds with decimals are read as Envoy's milliseconds",
		file: "cmd/sash/internal/traffic/json.go", old: "lasts.Raw, \".\")", new: "lasts.Raw, \"s\")",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "envoy-has-no-duration", fault: "a line of nginx with a name of Envoy's is dated at its beginning",
		file: "cmd/sash/internal/traffic/json.go", old: "return lasts.Exists() && ", new: "return ",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "envoy-begins-under-one-name", fault: "the beginning of Envoy's request is taken for its end, unless it is called start_time",
		file: "cmd/sash/internal/traffic/json.go", old: "|| envoy && !gjson", new: "|| envoy && line == \"\" && !gjson",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "apache-ends-are-beginnings", fault: "a number with the prefix end: of Apache is taken for the beginning of the request",
		file: "cmd/sash/internal/traffic/pattern.go", old: "return strings.HasPrefix(p.variables[p.time], \"end_\") ||", new: "return",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "apache-texts-of-ends-are-beginnings", fault: "a text with the prefix end: of Apache is taken for the beginning of the request",
		file: "cmd/sash/internal/traffic/pattern.go", old: "		return p.parts.response\n", new: "		return false\n",
		tests: "TestLasting_OfEachServer", in: ofLogs,
	},
	{
		name: "reorder-zero-is-the-default", fault: "-reorder 0 puts lines in order as without the flag",
		file: "cmd/sash/internal/traffic/settings.go", old: "if s.Reorder = int(n); n == 0 {", new: "if s.Reorder = int(n); n < 0 {",
		tests: "TestRead_PutsNothingInOrder", in: ofLogs,
	},
	{
		name: "nothing-is-sorted-and-said-to-be", fault: "with -reorder 0 the report says that late lines were sorted by time",
		file: "cmd/sash/internal/replay/report.go", old: "sorted: o.Reorder != traffic.InOrder", new: "sorted: true",
		tests: "TestRun_NothingIsSorted", in: "cmd/sash/internal/replay",
	},
	{
		name: "reorder-in-decimals", fault: "-reorder 0x400 is refused",
		file: "cmd/sash/internal/traffic/settings.go", old: "strconv.ParseInt(v, 0, strconv.IntSize)", new: "strconv.ParseInt(v, 10, strconv.IntSize)",
		tests: "TestSettings_RefusesRoom", in: ofLogs,
	},
	{
		name: "costs-are-formats", fault: "lines that are refused for their cost are said to be of another format",
		file: "cmd/sash/internal/output/output.go", old: "if len(s.Formats) == 0 {", new: "if s.Lines > 0 {",
		tests: "TestRun_CostsThatAreNoWholeNumbers", in: "cmd/sash/internal/replay",
	},
	{
		name: "columns-are-lasting", fault: "a column with the name that messages have for durations cannot be named",
		file: "cmd/sash/internal/traffic/duration.go", old: "\"\\x00duration of", new: "\"duration of",
		tests: "TestDuration_OfAColumn", in: ofLogs,
	},
	{
		name: "reorder-without-a-bound", fault: "a -reorder that no machine has memory for panics",
		file: "cmd/sash/internal/traffic/settings.go", old: "n < 0 || n > maxReorder", new: "n < 0",
		tests: "TestSettings_RefusesRoom", in: ofLogs,
	},
	{
		name: "lines-change-places-without-room", fault: "with -reorder 0, lines that are read at once are put in order",
		file: "cmd/sash/internal/traffic/merge.go", old: "if s.room > 0 && !slices", new: "if !slices",
		tests: "TestRead_PutsNothingInOrder", in: ofLogs,
	},
	{
		name: "no-bytes-are-no-size", fault: "a size that Apache writes as a dash is no number in a pattern",
		file: "cmd/sash/internal/traffic/pattern.go", old: "if cost && values[i] == \"-\"", new: "if cost && values[i] == \"\"",
		tests: "TestSize_OfNoBytes", in: ofLogs,
	},
	{
		name: "unreadable-files-go-unnoticed", fault: "a file without a readable line is no fault if another file has one",
		file: "cmd/sash/internal/traffic/traffic.go", old: "if !s.counted && s.unread != nil &&", new: "if s.counted && s.unread != nil &&",
		tests: "TestRun_FilesOfWhichNothingIsRead", in: "cmd/sash/internal/replay",
	},
	{
		name: "files-without-a-cost-go-unnoticed", fault: "a file whose lines are all refused for their cost does not count, if others can be read",
		file: "cmd/sash/internal/traffic/traffic.go", old: "if !s.counted && s.unread != nil &&", new: "if !s.known && s.unread != nil &&",
		tests: "TestRun_FilesOfWhichEachLineIsRefused", in: "cmd/sash/internal/replay",
	},
	{
		name: "headings-alone-are-unreadable", fault: "a file that has only headings so far makes the command fail",
		file: "cmd/sash/internal/traffic/source.go", old: " && !strings.HasPrefix(s.bare(line), \"#\") {", new: " {",
		tests: "TestRun_FilesOfWhichNothingIsRead", in: "cmd/sash/internal/replay",
	},
	{
		name: "columns-of-addresses-have-ports", fault: "the port in a column of addresses makes another client",
		file: "cmd/sash/internal/traffic/columns.go", old: "s.part = withoutPort", new: "s.part = nil",
		tests: "TestKey_OfAColumnNamedAddr", in: ofLogs,
	},
	{
		name: "columns-of-addresses-have-anybody", fault: "a row without an address is an event of a client",
		file: "cmd/sash/internal/traffic/columns.go", old: "return c.checkKey(r.values)", new: "return nil",
		tests: "TestKey_OfAColumnNamedAddr", in: ofLogs,
	},
	{
		name: "columns-of-addresses-lose-text", fault: "text after a colon in a column named addr is lost though it is no port of an address",
		file: "cmd/sash/internal/traffic/columns.go", old: "if _, err := netip.ParseAddrPort(v); err != nil {", new: "if _, err := netip.ParseAddr(hostOf(v)); err != nil {",
		tests: "TestKey_OfAColumnNamedAddr", in: ofLogs,
	},
	{
		name: "prefixes-of-later-files-are-not-said", fault: "the report names the prefixes of the first file of a format alone",
		file: "cmd/sash/internal/traffic/traffic.go", old: "return g.Format != f.Format || g.how != f.how }", new: "return g.Format != f.Format }",
		tests: "TestFormatLines", in: ofLogs,
	},
	{
		name: "port-is-after-the-first-colon", fault: "a port is looked for after the first colon of an address",
		file: "cmd/sash/internal/traffic/pattern.go", old: "return beforePort(rest, t.literals[i+2])", new: "return strings.Index(rest, after)",
		tests: "TestPattern_AddressesBeforeColons", in: ofLogs,
	},
}

// ofLogs is the package of the tests of ofTraffic.
const ofLogs = "cmd/sash/internal/traffic"
