package main

// ofSuggest are faults of sash suggest at seams: each needs two features at once, such as a proxy
// and the length of a network.
var ofSuggest = []mutant{
	{
		name: "printed-policy-forgets-proxies-of-networks", fault: "the printed Key trusts the proxies of -trust only if -key has addr/64",
		file: "cmd/sash/internal/suggest/next.go", old: "\tif len(trust) > 0 {\n\t\tvar networks", new: "\tif len(trust) > 0 && bits6 == 64 {\n\t\tvar networks",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-policy-has-one-prefix", fault: "the printed Key has the length of IPv4 networks only if the length of IPv6 networks is the default",
		file: "cmd/sash/internal/suggest/next.go", old: "if bits4 != 32 {", new: "if bits4 != 32 && bits6 == 64 {",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-policy-settles-sums", fault: "a sum that begins with size is settled by the bytes alone",
		file: "cmd/sash/internal/suggest/next.go", old: `o.Cost.String() == "size"`, new: `strings.HasPrefix(o.Cost.String(), "size")`,
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-policy-counts-short-windows", fault: "a large limit of less than a second is printed as a counter",
		file: "cmd/sash/internal/suggest/next.go", old: "\tif l.Count > sash.SmallCount {\n\t\tcall", new: "\tif l.Count > sash.SmallCount && l.Window >= time.Second {\n\t\tcall",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "suggest-measures-nothing-where-a-unit-is-asked", fault: "an event without units is not measured as denied",
		file: "cmd/sash/internal/suggest/gauge.go", old: "max(units, g.least)", new: "units",
		tests: "TestGauge_TellsWhatALogDenies",
	},
	{
		name: "printed-policy-rounds-windows", fault: "a window of 90s is printed as one of a minute",
		file: "cmd/sash/internal/suggest/next.go", old: "if d%u.length == 0 {", new: "if d >= u.length {",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-replay-of-several-limits-settles-nothing", fault: "the command for all limits together has no -estimate",
		file: "cmd/sash/internal/suggest/next.go", old: "estimate > 0 {\n\t\t\twords", new: "estimate > 0 && len(flags) == 0 {\n\t\t\twords",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-replay-loses-the-flag-after-one-with-a-value", fault: "of -key=addr -cost size, the command has no -cost",
		file: "cmd/sash/internal/suggest/options.go", old: "if inline || f == nil", new: "if inline && len(given) == 1 || f == nil",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "printed-replay-leaves-dollars-to-the-shell", fault: "a file with a dollar in its name is not the one that the command reads",
		file: "cmd/sash/internal/suggest/next.go", old: "\"\\\"$`", new: "\"\\\"`",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "policy-drops-a-limit-that-a-shorter-one-does-not-imply", fault: "a limit of a shorter window and no higher count replaces the limit of a longer one",
		file: "cmd/sash/internal/suggest/advise.go", old: "return windows*float64(a.Count) <= float64(b.Count)", new: "return windows > 0 && a.Count <= b.Count",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "gauge-keeps-what-is-as-old-as-the-window", fault: "an event that is as old as the window still counts, as it does not in a log",
		file: "cmd/sash/internal/suggest/gauge.go", old: ">= uint64(window)", new: "> uint64(window)",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "suggest-overlooks-a-botnet", fault: "more than one client in ten are never taken for clients of another kind",
		file: "cmd/sash/internal/suggest/border.go", old: "crowd := len(d)-i >= leastCrowd &&", new: "crowd := len(d)-i < leastCrowd &&",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "suggest-overlooks-a-valley", fault: "bots are not found if each makes another number of requests",
		file: "cmd/sash/internal/suggest/border.go", old: "crowd := min(below, above[i+within])", new: "crowd := min(below, above[i+within]) * min(within, 0)",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed|TestWarnings_OfABotnet",
	},
	{
		name: "json-with-a-time-is-of-one-client", fault: "with -time, the events of JSON lines are all one client's",
		file: "cmd/sash/internal/traffic/source.go", old: "s.key = s.settings.keyOf(columns)", new: "s.key = s.settings.keyOf(s.settings.columns())",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "proxies-hide-networks", fault: "behind proxies, IPv4 clients are told apart by whole addresses",
		file: "cmd/sash/internal/traffic/key.go", old: "append(options, httplimit.IPv4Prefix(c.bits4), ", new: "append(options, httplimit.IPv4Prefix(max(c.bits4, 32*min(1, len(options)))), ",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "files-of-one-instant-change-places", fault: "of events of one instant, the file named last comes first",
		file: "cmd/sash/internal/traffic/merge.go", old: "until, inclusive = at, i > first", new: "until, inclusive = at, false",
		tests: "TestModel_PrintedPoliciesDecideAsReplayed",
	},
	{
		name: "ipv6-clients-are-hosts", fault: "lines that begin with the IPv6 addresses of a client and of a proxy are read as lines of a virtual host",
		file: "cmd/sash/internal/traffic/accesslog.go", old: "return isHostName(name) && !isAddress(s) &&", new: "return isHostName(name) &&",
		tests: "TestFormats_TwoAddressesAreNotTakenForAVirtualHost",
	},
	{
		name: "selection-takes-its-end", fault: "an event at the end of a span is left out",
		file: "cmd/sash/internal/traffic/selection.go", old: "at < o.To })", new: "at <= o.To })",
		tests: "TestSelection_|TestModel_Printed",
	},
	{
		name: "selection-after-the-client", fault: "a line that is left out is unreadable if it tells no client",
		file: "cmd/sash/internal/traffic/source.go", old: "	if !s.settings.Selection.has(r.at, s.where, r.values) {", new: "	if _, err := s.appendName(nil, r.values); err == nil && !s.settings.Selection.has(r.at, s.where, r.values) {",
		tests: "TestModel_Printed",
	},
	{
		name: "selection-of-a-port", fault: "a host is another one on each port",
		file: "cmd/sash/internal/traffic/selection.go", old: "value = hostOf(value)", new: "_ = hostOf(value)",
		tests: "TestSelection_OfHosts|TestModel_Printed",
	},
	{
		name: "incident-without-its-beginning", fault: "an incident begins where the first window in it ends",
		file: "cmd/sash/internal/suggest/incident.go", old: "		begin -= int64(window)\n", new: "",
		tests: "TestIncident_",
	},
	{
		name: "incident-of-all", fault: "an incident is what the clients with one request were in, too",
		file: "cmd/sash/internal/suggest/incident.go", old: "least := max(2, v.Suggested.AtPercentile/2)", new: "least := int64(1)",
		tests: "TestIncident_",
	},
	{
		name: "suggest-bursts-flow-back-whole", fault: "a part of a unit that has not flowed back counts as none",
		file: "cmd/sash/internal/suggest/buckets.go", old: "		units++\n", new: "",
		tests: "TestBuckets_TellWhom",
	},
	{
		name: "suggest-bursts-flow-back-by-units", fault: "a part of a unit that flows back is forgotten",
		file: "cmd/sash/internal/suggest/buckets.go", old: "left = c.spent[i] - back", new: "left = c.spent[i] - back/unitParts*unitParts",
		tests: "TestBuckets_TellWhom",
	},
	{
		name: "suggest-bursts-do-not-flow-back-in-years", fault: "what flows back in a gap of more than 64 bits is the low bits of it",
		file: "cmd/sash/internal/suggest/buckets.go", old: "hi == 0 && back < c.spent[i] {", new: "hi <= unitParts && back < c.spent[i] {",
		tests: "TestBuckets_FlowBack",
	},
	{
		name: "gauge-leaves-a-window-where-it-was", fault: "when old events are dropped, the longest window alone begins at its oldest event",
		file: "cmd/sash/internal/suggest/gauge.go", old: "			all[i].first -= gone", new: "			all[i].first -= gone * ((i + 1) / len(all))",
		tests: "TestGauge_TellsWhatALogDenies",
	},
	{
		name: "gauge-forgets-no-denial", fault: "units that a candidate denied are as if they were in the window for ever",
		file: "cmd/sash/internal/suggest/gauge.go", old: "			d.units[c] -= d.events[0].units", new: "			d.units[c] -= 0 * d.events[0].units",
		tests: "TestGauge_TellsWhatALogDenies",
	},
	{
		name: "gauge-joins-denials-of-different-candidates", fault: "all events of an instant are as if the candidates that deny the first had denied them",
		file: "cmd/sash/internal/suggest/gauge.go", old: " && d.events[last].by == e.by {", new: " && len(d.units) > 0 {",
		tests: "TestGauge_TellsWhatALogDenies",
	},
	{
		name: "gauge-keeps-what-was-asked", fault: "an event without units fills later windows by one",
		file: "cmd/sash/internal/suggest/gauge.go", old: "		t.units += units //", new: "		t.units += asked //",
		tests: "TestGauge_TellsWhatALogDenies",
	},
	{
		name: "gauge-sweeps-by-the-shortest-window", fault: "a client loses the events that are still in a longer window",
		file: "cmd/sash/internal/suggest/gauge.go", old: "isOutside(now, g.windows[n-1])", new: "isOutside(now, g.windows[0])",
		tests: "TestGauge_",
	},
	{
		name: "gauge-sweeps-without-the-sums", fault: "a client that was idle still has the units of its last window",
		file: "cmd/sash/internal/suggest/gauge.go", old: "*t = trailing{busiest: t.busiest}", new: "t.first = 0",
		tests: "TestGauge_|TestModel_Printed",
	},
	{
		name: "suggest-groups-share-clients", fault: "a client of two groups has the number of the whole log in each",
		file: "cmd/sash/internal/traffic/part.go", old: "n = uint32(len(p.Clients))\n", new: "n = e.Client\n",
		in: "cmd/sash/internal/traffic", tests: "TestPart_HasItsEventsAlone",
	},
	{
		name: "suggest-groups-of-a-second-by-have-values-of-the-first", fault: "each -by reads the values of the first one's fields",
		file: "cmd/sash/internal/suggest/groups.go", old: "		from += len(by)\n", new: "",
		in: "cmd/sash/internal/suggest", tests: "TestModel_GroupsAreWhatWhereChooses",
	},
	{
		name: "suggest-groups-forget-what-waits", fault: "the last events of a group that has a study are not studied",
		file: "cmd/sash/internal/suggest/groups.go", old: "	if len(g.wait) > 0 {\n", new: "	if g.study == nil {\n",
		in: "cmd/sash/internal/suggest", tests: "TestModel_GroupsAreWhatWhereChooses",
	},
	{
		name: "suggest-groups-lose-the-flags-of-the-user", fault: "the commands for a group have its conditions, and not those given",
		file: "cmd/sash/internal/suggest/groups.go", old: "c.Where = append(slices.Clone(g.where), o.Where...)", new: "c.Where = slices.Clone(g.where)",
		in: "cmd/sash/internal/suggest", tests: "TestModel_GroupsAreWhatWhereChooses",
	},
	{
		name: "suggest-groups-say-what-where-reads-otherwise", fault: "a path that ends with an asterisk is said to be a tree",
		file: "cmd/sash/internal/traffic/by.go", old: `strings.HasSuffix(text, "*") && !many, `, new: `text == "*" && !many, `,
		in: "cmd/sash/internal/suggest", tests: "TestModel_GroupsAreWhatWhereChooses",
	},
	{
		name: "suggest-group-of-a-tree-has-its-root", fault: "/users is in the group /users/*, whose pattern is not for it",
		file: "cmd/sash/internal/traffic/by.go", old: "		if i < 0 {\n			return \"\"\n", new: "		if i < 0 {\n			return path + \"/\"\n",
		in: "cmd/sash/internal/suggest", tests: "TestModel_GroupsAreWhatWhereChooses",
	},
	{
		name: "suggest-implied-conditions-imply-each-other", fault: "of two equal conditions neither is in the policy",
		file: "cmd/sash/internal/suggest/scope.go", old: "(j < i || !all[i].Implies(&all[j]))", new: "true",
		in: "cmd/sash/internal/suggest", tests: "TestScope_",
	},
	{
		name: "suggest-policies-of-groups-have-queries", fault: "a path with a query becomes a pattern, which matches no request",
		file: "cmd/sash/internal/suggest/scope.go", old: `"*{} ?"`, new: `"*{} "`,
		in: "cmd/sash/internal/suggest", tests: "TestScope_",
	},
	{
		name: "replay-sweeps-as-if-keys-were-clients", fault: "a replay of policies with many keys sweeps all of them time and again",
		file: "cmd/sash/internal/replay/sweep.go", old: "		s.in = max(s.in, l.Len())\n", new: "",
		tests: "TestReplay_SweepsAreRare",
	},
	{
		name: "suggest-incident-fails-a-minute-later", fault: "an incident is looked for in the minutes after the busiest windows",
		file: "cmd/sash/internal/suggest/incident.go", old: "	return c[i:]\n", new: "	return c[min(i+1, len(c)-1):]\n",
		in: "cmd/sash/internal/suggest", tests: "TestIncident_",
	},
	{
		name: "suggest-groups-without-policies-have-a-file", fault: "the report says to replay a file that was not written",
		file: "cmd/sash/internal/suggest/groups.go", old: `g.Policy != nil && (o.file == nil || g.policyText != "")`, new: "g.Policy != nil",
		in: "cmd/sash/internal/suggest", tests: "TestGroups_SayWhichGetNoPolicy",
	},
	{
		name: "suggest-groups-hide-that-where-cannot-say-them", fault: "groups without conditions have no command, and the report does not say why",
		file: "cmd/sash/internal/suggest/groupstext.go", old: "return len(g.Where) == 0 })", new: "return g.Where == nil })",
		in: "cmd/sash/internal/suggest", tests: "TestGroups_SayWhichGetNoPolicy",
	},
	{
		name: "suggest-table-begins-above-the-suggestion", fault: "a low percentile suggests a limit that its table does not show",
		file: "cmd/sash/internal/suggest/text.go", old: "first = min(first, v.Suggested.Limit.Count)", new: "first = max(first, v.Suggested.Limit.Count)",
		in: "cmd/sash/internal/suggest", tests: "TestRows_FewCandidates",
	},
	{
		name: "suggest-policies-have-broken-escapes", fault: "a path that no server takes becomes a pattern, which matches no request",
		file: "cmd/sash/internal/suggest/scope.go", old: "	case err != nil:\n", new: "	case err != nil && tree:\n",
		in: "cmd/sash/internal/suggest", tests: "TestGroups_SayWhichGetNoPolicy",
	},
	{
		name: "csv-paths-have-queries", fault: "the path of a CSV has its query, and -where path=/login misses requests",
		file: "cmd/sash/internal/traffic/columns.go", old: "		case Path:\n			s.part = withoutQuery\n", new: "",
		tests: "TestModel_PoliciesOfGroupsAreEnforced",
	},
	{
		name: "suggest-makes-a-file-for-all", fault: "a new file of policies may be written by all, whatever the umask",
		file: "cmd/sash/internal/suggest/policyfile.go", old: "	_, err = file.Write(text)\n", new: "	file.Chmod(0o666)\n	_, err = file.Write(text)\n",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_HasTheMode",
	},
	{
		name: "suggest-loses-an-edit", fault: "an edit of the file of policies is lost if it is made while the log is read",
		file: "cmd/sash/internal/suggest/policyfile.go", old: " || !bytes.Equal(now, f.data) ||", new: " || now == nil ||",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsLeftAlone",
	},
	{
		name: "suggest-replaces-a-file-made-since", fault: "a file of policies that is made while the log is read is replaced",
		file: "cmd/sash/internal/suggest/policyfile.go", old: "err = f.link(temporary, f.path)", new: "err = os.Rename(temporary, f.path)",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsLeftAlone",
	},
	{
		name: "suggest-makes-a-file-in-place", fault: "a process that is killed leaves a part of a new file of policies",
		file: "cmd/sash/internal/suggest/policyfile.go", old: "err := writeNew(temporary, text)", new: "err := errors.ErrUnsupported",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsWhole",
	},
	{
		name: "suggest-follows-another-link", fault: "policies are added to a file that the link of -policy leads to no more",
		file: "cmd/sash/internal/suggest/policyfile.go", old: " || target(f.given) != f.path {", new: " {",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsTheOne",
	},
	{
		name: "suggest-makes-no-file-without-links", fault: "on a file system without hard links, no file of policies is made",
		file: "cmd/sash/internal/suggest/policyfile.go", old: "if err != nil && !errors.Is(err, fs.ErrExist) {", new: "if false {",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsMadeWithoutLinks",
	},
	{
		name: "suggest-writes-half", fault: "a policy is written though a part of the log could not be read",
		file: "cmd/sash/internal/suggest/run.go", old: "if !complete {", new: "if false {",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsNotMadeOfHalfALog",
	},
	{
		name: "suggest-makes-a-file-invalid", fault: "a policy is added to a file of policies that does not load with it",
		file: "cmd/sash/internal/suggest/policyfile.go", old: "policies.Faults(f.given, text); err != nil {", new: "policies.Faults(f.given, text); text == nil {",
		in: "cmd/sash/internal/suggest", tests: "TestPolicyFile_IsNotMadeInvalid",
	},
}
