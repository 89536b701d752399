package traffic

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readLog reads a log with the flags of a command line.
func readLog(t *testing.T, log string, args ...string) *Traffic {
	t.Helper()
	tr, err := tryLog(t, log, args...)
	require.NoError(t, err)
	assert.Equal(t, tr.Lines, tr.Events+tr.Blank+tr.Unreadable+tr.Headings+tr.Parts, "lines lost")
	return tr
}

func tryLog(t *testing.T, log string, args ...string) (*Traffic, error) {
	t.Helper()
	s, err := settingsOf(args)
	require.NoError(t, err)
	return Read(t.Context(), s, []string{StandardInput}, strings.NewReader(log), io.Discard, func(*Traffic, []Event) error { return nil })
}

// Every format is read behind every two prefixes, and the report names them.
func TestPrefixes_EveryFormatBehindEveryTwo(t *testing.T) {
	names := []string{"", "docker's json-file", "the journal as JSON", "CRI", "syslog (RFC 5424)", "syslog", "kubectl", "docker compose", "--timestamps"}
	for format := range 5 {
		for chain := range 81 {
			line := wrapped(requestOf("x", format), chain)
			inner, outer := chain%9, chain/9
			if format == 4 && (inner == 8 || inner == 0 && outer == 8) {
				continue // it is read as it is: with one field more in front it is a line of the other load balancer
			}
			tr := readLog(t, strings.Repeat(line+"\n", 3), "-key", "addr")
			require.EqualValues(t, 3, tr.Events, "%s %v", line, tr.Faults)
			require.Equal(t, []string{"203.0.113.9"}, tr.Clients, line)
			for _, name := range []string{names[inner], names[outer]} {
				require.Contains(t, tr.Formats[0].Why, name, line)
			}
			if chain == 0 {
				require.NotContains(t, tr.Formats[0].Why, "prefix")
			}
		}
	}
}

// More prefixes than four are not looked for.
func TestPrefixes_Bound(t *testing.T) {
	line := wrapped(requestOf("", 0), 6+9*(6+9*(6+9*6)))
	assert.EqualValues(t, 1, readLog(t, line+"\n").Events)
	tr := readLog(t, "[pod/a/b] "+line+"\n")
	assert.Zero(t, tr.Events)
	assert.Contains(t, tr.Faults[0].Why, "no known format")
}

// What the flags name is looked for behind prefixes, too, unless the lines are so as they are.
func TestPrefixes_WithFlags(t *testing.T) {
	const own = `203.0.113.9|1773144000.5`
	for name, tt := range map[string]struct {
		line string
		args []string
	}{
		"the name of a format":           {"Mar 10 12:00:00 a nginx: " + clf, []string{"-format", "combined"}},
		"a pattern":                      {"2026-03-10T12:00:00.5Z stderr F " + own, []string{"-format", "$remote_addr|$msec"}},
		"a pattern that has the prefix":  {"web-1  | " + own, []string{"-format", "$name | $remote_addr|$msec"}},
		"a pattern behind times":         {"2026-03-10T12:00:00.5Z " + own, []string{"-format", "$remote_addr|$msec"}},
		"a field of JSON":                {`2026-03-10T12:00:00Z stdout F {"when":1773144000,"ip":"203.0.113.9"}`, []string{"-time", "when"}},
		"a field of JSON in docker's":    {`{"log":"{\"when\":1773144000,\"ip\":\"203.0.113.9\"}\n","stream":"stdout","time":"2026-03-10T12:00:00Z"}`, []string{"-time", ".when"}},
		"a column":                       {"when,addr\n1773144000,203.0.113.9", []string{"-time", "when", "-key", "addr"}},
		"a format behind what is no tag": {"<190>Mar 10 12:00:00.250 a@b/c[x]: " + clf, nil},
	} {
		t.Run(name, func(t *testing.T) {
			tr := readLog(t, tt.line+"\n", tt.args...)
			assert.EqualValues(t, 1, tr.Events, tr.Faults)
			assert.Zero(t, tr.Unreadable)
			assert.Contains(t, []string{"203.0.113.9", "192.0.2.1"}, tr.Clients[0])
		})
	}
	// The fields of docker's object may be what is meant.
	tr, err := tryLog(t, `{"log":"x\n","stream":"stdout","time":"2026-03-10T12:00:00Z"}`+"\n", "-time", "time", "-key", "stream")
	require.NoError(t, err)
	assert.Equal(t, []string{"stdout"}, tr.Clients)
}

// A file that the flags fit as it is, and behind a prefix, is not read: words of the collector would be clients.
func TestPrefixes_TwoReadings(t *testing.T) {
	const own = "2026-03-10T12:00:01Z 203.0.113.9 x"
	docker := func(text string) string {
		return fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2026-03-10T12:00:00Z"}`, text+"\n")
	}
	pattern := []string{"-format", "$time $remote_addr $rest", "-key", "addr"}
	for name, tt := range map[string]struct {
		line string
		args []string
		want string // the prefix, or the client if there is no doubt
	}{
		"CRI":                        {"2026-03-10T12:00:00.5Z stdout F " + own, pattern, "CRI"},
		"syslog":                     {"2026-03-10T12:00:00+01:00 web nginx[7]: " + own, pattern, "syslog"},
		"a time":                     {"2026-03-10T12:00:00Z 2026-03-10T12:00:01Z a b", []string{"-format", "$time $user $rest", "-key", "user"}, "--timestamps"},
		"behind two":                 {"2026-03-10T12:00:00.5Z stdout F [pod/a/b] " + own, pattern, "CRI, then kubectl logs --prefix"},
		"behind one of two":          {"[pod/a/b] 2026-03-10T12:00:00.5Z stdout F " + own, pattern, "CRI"},
		"fields of docker's":         {docker(`{"time":"2026-03-10T12:00:01Z","stream":"203.0.113.9"}`), []string{"-time", "time", "-key", "stream"}, "docker's json-file"},
		"one has the field":          {docker(`{"time":"2026-03-10T12:00:01Z","ip":"203.0.113.9"}`), []string{"-time", "time", "-key", "ip"}, ""},
		"one has the address":        {docker(`{"time":"2026-03-10T12:00:01Z","remote_addr":"203.0.113.9"}`), []string{"-time", "time"}, ""},
		"one is of no client":        {"2026-03-10T12:00:00.5Z a@b: " + own, []string{"-format", "$time $remote_addr $rest"}, ""},
		"the pattern has the prefix": {"2026-03-10T12:00:00.5Z stdout F " + own, []string{"-format", "$time stdout F $when $remote_addr $rest", "-key", "addr"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := tryLog(t, tt.line+"\n"+tt.line+"\n", tt.args...)
			if tt.want != "" {
				assert.EqualError(t, err, "-: the flags fit its lines with the prefix of "+tt.want+
					" and without it: nothing tells which is meant. Remove it first, or name fields that are only there with it or without it")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, []string{"203.0.113.9"}, tr.Clients)
			assert.EqualValues(t, 2, tr.Events)
		})
	}
}

// Columns between bars are no prefix of docker compose, whose name is the same in each line, and a few lines that a
// client has sent make no file unreadable.
func TestPrefixes_OfColumnsAndOfMixedLines(t *testing.T) {
	bars := "host | when | n\nweb-1 | 1773144000 | 1\nweb-2 | 1773144001 | 2\n"
	for _, args := range [][]string{{"-time", "when"}, {"-time", "when", "-key", "n"}, {"-time", "when", "-format", "csv", "-cost", "n"}} {
		tr := readLog(t, bars, args...)
		assert.EqualValues(t, 2, tr.Events, args)
		assert.NotContains(t, tr.Formats[0].Why, "prefix")
	}
	tr := readLog(t, "web-1  | when,n\nweb-1  | 1773144000,1\nweb-1  | 1773144001,2\n", "-time", "when", "-key", "n")
	assert.Equal(t, []string{"1", "2"}, tr.Clients)
	tr = readLog(t, "web-1  | when,n\n", "-time", "when", "-key", "n")
	assert.EqualValues(t, 1, tr.Headings)
	_, err := tryLog(t, "web-1 | when | n\nweb-1 | 1773144000 | 1\n", "-time", "when")
	assert.ErrorContains(t, err, "with the prefix of docker compose and without it")

	const cri, own = "2026-03-10T12:00:00.5Z stdout F ", "2026-03-10T12:00:01Z 203.0.113.9 x\n"
	pattern := []string{"-format", "$time stdout F 203.0.113.9 $user $rest", "-key", "user"}
	tr = readLog(t, strings.Repeat(cri+"203.0.113.9 ann x\n", 3)+cri+"2026-03-10T12:00:01Z stdout F 203.0.113.9 eve x\n", pattern...)
	assert.Equal(t, []string{"ann"}, tr.Clients)
	assert.EqualValues(t, 1, tr.Unreadable)
	_, err = tryLog(t, cri+"x\n"+strings.Repeat(cri+own, 2), "-format", "$time $remote_addr $rest", "-key", "addr")
	assert.ErrorContains(t, err, "with the prefix of CRI and without it")
}

// A name that is an address may be the client, so it is not stripped.
func TestPrefixes_AnAddressIsNotStripped(t *testing.T) {
	rest := strings.TrimPrefix(clf, "192.0.2.1")
	for _, line := range []string{"203.0.113.7  | 192.0.2.1" + rest, "203.0.113.7 | 192.0.2.1" + rest, "Mar 10 12:00:00 web 203.0.113.7: 192.0.2.1" + rest} {
		_, err := tryLog(t, line+"\n"+line+"\n")
		require.Error(t, err, line)
		assert.Contains(t, err.Error(), `-: its lines begin with "203.0.113.7" where `)
		assert.Contains(t, err.Error(), "nothing tells whether it is the client")
	}
	// Nor is an object of a server that has such fields of its own.
	tr := readLog(t, `{"log":"198.51.100.1 - - ","stream":"stdout","time":"2026-03-10T12:00:00Z","remote_addr":"203.0.113.7"}`+"\n", "-key", "addr")
	assert.Equal(t, []string{"203.0.113.7"}, tr.Clients)
	// Two addresses stay as doubtful behind a prefix.
	_, err := tryLog(t, strings.Repeat("Mar 10 12:00:00 web nginx: 203.0.113.7 192.0.2.1"+rest+"\n", 2))
	assert.ErrorContains(t, err, "its lines begin with two addresses")
	// A name before the address is no client, even if the user's name has spaces.
	tr = readLog(t, "Mar 10 12:00:00 web nginx: 192.0.2.1 id "+strings.TrimPrefix(rest, " - ")+"\n", "-key", "addr", "-format", "combined")
	assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
}

// Logs that name their fields in a heading are read behind every prefix, as their headings stand behind it, too.
func TestPrefixes_Headings(t *testing.T) {
	logs := map[string][]string{
		"w3c":  {"#Software: x", "#Fields: date time c-ip sc-status", "2026-03-10 12:00:00 203.0.113.9 200"},
		"zeek": {`#separator \x09`, "#fields\tts\tid.orig_h", "1773144000.5\t203.0.113.9"},
		"gcs":  {`"time_micros","c_ip"`, `"1773144000000000","203.0.113.9"`},
	}
	prefixes := []string{"", "2026-03-10T12:00:00.123456789Z ", "2026-03-10T12:00:00.1Z stdout F ", "web-1  | ", "[pod/a/b] 2026-03-10T12:00:00Z "}
	for format, lines := range logs {
		for _, prefix := range prefixes {
			for _, args := range [][]string{{"-key", "addr"}, {"-key", "addr", "-format", format}} {
				tr := readLog(t, prefix+strings.Join(lines, "\n"+prefix)+"\n", args...)
				require.EqualValues(t, 1, tr.Events, "%s %s %v", prefix, format, tr.Faults)
				require.EqualValues(t, len(lines)-1, tr.Headings)
				require.Equal(t, []string{"203.0.113.9"}, tr.Clients)
				require.Equal(t, format, tr.Formats[0].Format)
				require.Equal(t, prefix != "", strings.Contains(tr.Formats[0].Why, "behind the prefix"))
			}
		}
	}
	// A comment alone tells no format.
	tr := readLog(t, "2026-03-10T12:00:00Z # x\n2026-03-10T12:00:00Z x\n")
	assert.EqualValues(t, 2, tr.Unreadable)
	assert.Empty(t, tr.Formats)
}

// The lines about formats name each prefix, and the fields of each JSON, also of later files.
func TestFormatLines_OfSeveralFiles(t *testing.T) {
	line := func(addr string) string { return `{"ts":1773144000,"` + addr + `":"192.0.2.1"}` + "\n" }
	for _, tt := range []struct{ logs, want []string }{
		{[]string{clf + "\n", "web-1  | " + clf + "\n", "web-1  | " + clf + "\n"}, []string{
			"0 read as combined: it reads 1 of the first 1 lines",
			"1 read as combined: it reads 1 of the first 1 lines, behind the prefix of docker compose"}},
		{[]string{"Mar 10 12:00:00 a nginx: " + clf + "\n", "web-1  | " + clf + "\n"}, []string{
			"0 read as combined: it reads 1 of the first 1 lines, behind the prefix of syslog",
			"1 read as combined: it reads 1 of the first 1 lines, behind the prefix of docker compose"}},
		{[]string{clf + "\n" + clf + "\n", clf + "\n"}, []string{"read as combined: it reads 2 of the first 2 lines"}},
		{[]string{line("remote_addr"), "web-1  | " + line("remote_addr"), line("client_ip")}, []string{
			"0 read as json: it reads 1 of the first 1 lines, time from ts, addr from remote_addr",
			"1 read as json: it reads 1 of the first 1 lines, behind the prefix of docker compose, time from ts, addr from remote_addr",
			"2 read as json: it reads 1 of the first 1 lines, time from ts, addr from client_ip"}},
	} {
		_, tr := readAll(t, &Settings{}, tt.logs...)
		lines := FormatLines(tr.Formats)
		for i := range lines { // the folders of the files differ
			if at := strings.Index(lines[i], " read as "); at >= 0 {
				lines[i] = lines[i][at-1:]
			}
		}
		assert.Equal(t, tt.want, lines)
	}
}

// A line without the prefix of its file is unreadable: without it, or with another, it may have another client.
func TestPrefixes_EveryLineHasIt(t *testing.T) {
	prefixed := "Mar 10 12:00:00 web nginx[7]: " + clf + "\n"
	other := strings.Replace(clf, "192.0.2.1", "203.0.113.7", 1) + "\n"
	tr := readLog(t, prefixed+prefixed+other+"\n"+"-- Boot 17 --\nweb-1  | "+other+prefixed+prefixed, "-key", "addr")
	assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
	assert.EqualValues(t, 4, tr.Events)
	assert.EqualValues(t, 3, tr.Unreadable)
	assert.EqualValues(t, 1, tr.Blank)
	assert.Contains(t, tr.Faults[0].Why, "no prefix of syslog, which the file has")
	assert.Contains(t, tr.Faults[0].Text, "203.0.113.7")

	tr = readLog(t, clf+"\n"+clf+"\n"+strings.Replace(prefixed, "192.0.2.1", "203.0.113.7", 1), "-key", "addr")
	assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
	assert.EqualValues(t, 1, tr.Unreadable)
}

// Long lines come in parts, which other lines may stand between.
func TestPrefixes_PartsOfLines(t *testing.T) {
	cri := func(stream, tag, text string) string {
		return "2026-03-10T12:00:00.1Z " + stream + " " + tag + " " + text + "\n"
	}
	docker := func(stream, text string) string {
		quoted, _ := json.Marshal(text)
		return fmt.Sprintf(`{"log":%s,"stream":%q,"time":"2026-03-10T12:00:00.1Z"}`+"\n", quoted, stream)
	}
	other := strings.Replace(clf, "192.0.2.1", "203.0.113.7", 1)
	long := strings.Repeat("x", MaxLine/2)
	tests := []struct {
		name, log                 string
		events, parts, unreadable int64
		why                       string
		clients                   []string
	}{
		{"CRI", cri("stdout", "P", clf[:7]) + cri("stderr", "F", other) + cri("stdout", "P", clf[7:30]) + cri("stdout", "F", clf[30:]), 2, 2, 0, "", []string{"203.0.113.7", "192.0.2.1"}},
		{"docker", docker("stdout", clf[:7]) + docker("stderr", other+"\n") + docker("stdout", clf[7:]+"\r\n"), 2, 1, 0, "", []string{"203.0.113.7", "192.0.2.1"}},
		{"tags", cri("stdout", "P:x", clf[:40]) + cri("stdout", "F:x", clf[40:]), 1, 1, 0, "", []string{"192.0.2.1"}},
		{"an empty last part", cri("stdout", "P", clf) + "2026-03-10T12:00:00.1Z stdout F\n", 1, 1, 0, "", []string{"192.0.2.1"}},
		{"an empty line", cri("stdout", "F", clf) + "2026-03-10T12:00:00.1Z stdout F \n", 1, 0, 0, "", []string{"192.0.2.1"}},
		{"the rest does not come", cri("stdout", "F", clf) + cri("stdout", "P", other) + cri("stdout", "P", other), 1, 0, 2, "the rest of the line does not come", []string{"192.0.2.1"}},
		{"a line that is too long", cri("stdout", "F", clf) + cri("stdout", "P", clf+long) + cri("stdout", "P", long) + cri("stdout", "P", other) + cri("stdout", "F", other) + cri("stdout", "F", clf), 2, 0, 4, "longer than 262144 bytes", []string{"192.0.2.1"}},
		{"compose", "web-1     | " + clf + "\nweb-1     |\nlonger-1  | " + clf + "\n", 2, 0, 0, "", []string{"192.0.2.1"}},
		{"several lines in one", docker("stdout", clf+"\n") + docker("stdout", clf+"\n"+other+"\n") + docker("stdout", clf+"\n"), 2, 0, 1, "several lines in one", []string{"192.0.2.1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := readLog(t, tt.log, "-key", "addr")
			assert.Equal(t, tt.events, tr.Events)
			assert.Equal(t, tt.parts, tr.Parts)
			assert.Equal(t, tt.unreadable, tr.Unreadable)
			assert.ElementsMatch(t, tt.clients, tr.Clients)
			if tt.why != "" {
				require.NotEmpty(t, tr.Faults)
				assert.Contains(t, tr.Faults[0].Why, tt.why)
			}
		})
	}
}

// The journal writes what is not valid UTF-8 as an array of bytes, and nothing for what is too long.
func TestPrefixes_JournalOfBytes(t *testing.T) {
	bytes, _ := json.Marshal([]int{'1', '9', '2', '.', '0', '.', '2', '.', '1'})
	entry := `{"__REALTIME_TIMESTAMP":"1","MESSAGE":` + strings.TrimSuffix(string(bytes), "]")
	for _, c := range []byte(strings.TrimPrefix(clf, "192.0.2.1") + ` "-" "` + "\xff" + `"`) {
		entry += fmt.Sprint(",", c)
	}
	entry += "]}\n"
	tr := readLog(t, entry+entry+`{"__REALTIME_TIMESTAMP":"1","MESSAGE":null}`+"\n", "-key", "addr,agent")
	assert.Equal(t, []string{`192.0.2.1 "\xff"`}, tr.Clients)
	assert.EqualValues(t, 1, tr.Unreadable)
	assert.Contains(t, tr.Faults[0].Why, "its MESSAGE is no text")
}

// HAProxy cuts lines at 1,024 bytes. Client and time are there, and what is cut off is not guessed.
func TestHAProxy_CutLines(t *testing.T) {
	const head = `192.0.2.1:33317 [06/Feb/2009:12:14:14.655] in out/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 {www.example.com} "GET /a`
	whole := head + strings.Repeat("x", 2000) + ` HTTP/1.1"`
	other := strings.Replace(head, "192.0.2.1", "203.0.113.7", 1)
	for _, prefix := range []string{"", "Feb  6 12:14:14 web haproxy[7]: "} {
		for _, n := range []int{900, 976, 1024} {
			tr := readLog(t, prefix+head+` HTTP/1.1"`+"\n"+prefix+whole[:n]+"\n")
			assert.EqualValues(t, 2, tr.Events, tr.Faults)
			assert.EqualValues(t, 1, tr.CutShort)
			assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
		}
		tr := readLog(t, prefix+head+` HTTP/1.1"`+"\n"+prefix+whole[:899]+"\n")
		assert.EqualValues(t, 1, tr.Unreadable, "too short to be cut by its length")
	}
	tr := readLog(t, head+` HTTP/1.1"`+"\n203.0.113.7:33317 ["+strings.Repeat("x", 1000)+"\n", "-key", "addr")
	assert.Equal(t, []string{"192.0.2.1"}, tr.Clients, "no time")
	// Wherever it is cut, it is that client's or unreadable, and no other line is lost in it.
	cookie := strings.Replace(whole, "27 - -", "27 "+strings.Repeat("c", 950)+" -", 1)
	for n := range len(cookie) {
		tr := readLog(t, head+` HTTP/1.1"`+"\n"+cookie[:n]+"\n", "-key", "addr")
		assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
	}
	for _, joined := range []string{whole[:1024] + other, whole[:1024] + other + ` HTTP/1.1"`, whole[:1024] + other[:60]} {
		tr := readLog(t, head+` HTTP/1.1"`+"\n"+joined+"\n", "-key", "addr")
		assert.EqualValues(t, 1, tr.Unreadable, joined)
		assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
	}
	tr = readLog(t, head+` HTTP/1.1"`+"\n"+whole[:1024]+"\n", "-key", "addr,path")
	assert.EqualValues(t, 1, tr.Unreadable)
	assert.Contains(t, tr.Faults[0].Why, "it is cut short before its path, which -key wants")
	assert.EqualValues(t, 2, readLog(t, head+` HTTP/1.1"`+"\n"+whole[:1024]+"\n", "-cost", "size").Events)
}

// A line that another one was written into is no event.
func TestFixed_TwoLinesInOne(t *testing.T) {
	for name, line := range map[string]string{
		"s3":    requestOf("x", 3) + ` h SigV4`,
		"squid": `1386543323.000      4 203.0.113.9 TCP_DENIED/403 4099 GET http://www.example.com/ - HIER_NONE/- text/html`,
	} {
		other := strings.Replace(line, "203.0.113.9", "198.51.100.1", 1)
		address := strings.Index(line, "203.0.113.9")
		for n := range len(line) + 1 {
			tr := readLog(t, line+"\n"+line[:n]+other+"\n", "-format", name, "-key", "addr")
			for _, client := range tr.Clients {
				assert.Contains(t, []string{"203.0.113.9", "198.51.100.1"}, client, line[:n]+other)
			}
			// The other line may be read if only text before the address is left of the first.
			if n > address {
				assert.EqualValues(t, 1, tr.Events, line[:n]+other)
			}
		}
	}
}

// A file that is named twice would count twice.
func TestCheckFiles_Twice(t *testing.T) {
	dir := t.TempDir()
	a, b, link, hard := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "link"), filepath.Join(dir, "hard")
	for _, name := range []string{a, b} {
		require.NoError(t, os.WriteFile(name, []byte(clf+"\n"), 0o600))
	}
	require.NoError(t, os.Symlink(a, link))
	require.NoError(t, os.Link(a, hard))
	opened, err := os.Open(a)
	require.NoError(t, err)
	defer opened.Close()
	for _, tt := range []struct {
		names []string
		stdin io.Reader
		want  string
	}{
		{[]string{a, b}, nil, ""},
		{[]string{a, b, a}, nil, a + " is named twice: each of its requests would count twice"},
		{[]string{a, dir + "/./a"}, nil, "are the same file"},
		{[]string{link, b, a}, nil, link + " and " + a + " are the same file"},
		{[]string{a, hard}, nil, a + " and " + hard + " are the same file"},
		{[]string{"-", b}, opened, ""},
		{[]string{"-", a}, opened, "- and " + a + " are the same file"},
		{[]string{a, "-"}, opened, a + " and - are the same file"},
		{[]string{"-", "-"}, strings.NewReader(""), "- is named twice"},
		{[]string{filepath.Join(dir, "none"), b}, nil, "no such file"},
	} {
		_, err := CheckFiles(tt.names, tt.stdin)
		if tt.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.ErrorContains(t, err, tt.want)
	}
	_, err = Files([]string{"-", "-"})
	assert.ErrorContains(t, err, "standard input is named 2 times")
}

// The first line with the fields tells their names in JSON. Under other names, an address may be the address of
// something else.
func TestJSON_NamesThatChange(t *testing.T) {
	line := func(time, addr, rest string) string {
		return fmt.Sprintf(`{"%s":"2026-03-10T12:00:00Z","%s":"203.0.113.9"%s}`+"\n", time, addr, rest)
	}
	log := line("time", "remote_addr", "") + line("time", "client_ip", "") + line("ts", "remote_addr", "") + line("time", "remote_addr", `,"client_ip":"198.51.100.1"`) + line("time", "x", "")
	tr := readLog(t, log, "-key", "addr")
	assert.Equal(t, []string{"203.0.113.9"}, tr.Clients)
	assert.EqualValues(t, 2, tr.Events)
	assert.EqualValues(t, 3, tr.Unreadable)
	assert.Equal(t, "no remote_addr, as the lines before it: it has client_ip, so split the file where the names change", tr.Faults[0].Why)
	assert.Equal(t, "no time, as the lines before it: it has ts, so split the file where the names change", tr.Faults[1].Why)
	assert.Equal(t, "no remote_addr", tr.Faults[2].Why)
}

// How long a request took is not when it came.
func TestJSON_DurationsAreNoTimes(t *testing.T) {
	for _, field := range []string{`"request_time":0.005`, `"requestTime":12`, `"duration":7`} {
		tr := readLog(t, `{`+field+`,"remote_addr":"203.0.113.9"}`+"\n")
		assert.Zero(t, tr.Events, field)
		assert.Contains(t, tr.Faults[0].Why, "JSON without a time known by its name")
	}
	assert.EqualValues(t, 1, readLog(t, `{"requestTime":1773144000,"remote_addr":"203.0.113.9"}`+"\n", "-time", "requestTime").Events)
}

// The reason names the nearest format, and the first place where a line differs from it.
func TestNearest(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{strings.Replace(clf, "200 2326", "OK 1", 1), `nearest to combined, but after the request, at column 77, it has "OK" where the status is expected`},
		{strings.Replace(clf, "2326", "2kB", 1), `nearest to combined, but after the status, at column 81, it has "2kB" where the size is expected`},
		{strings.Replace(clf, "+0000", "CET", 1), `nearest to combined, but after the user, at column 20, it has "17/May/2015:10:05:03 CET" where a time is expected`},
		{"www.example.com " + strings.Replace(clf, " 200", " OK", 1), `nearest to vhost_combined, but after the request, at column 93, it has "OK" where the status is expected`},
		{strings.Replace(requestOf("x", 2), " 200 ", " OK ", 1), `nearest to haproxy, but after the timers, at column 63, it has "OK" where the status is expected`},
		{strings.Replace(requestOf("x", 3), "203.0.113.9", "?", 1), `nearest to s3, but after the time, at column 34, it has "?" where an address is expected`},
		{strings.Replace(requestOf("x", 4), "203.0.113.9:2817", "x", 1), `nearest to elb, but after the elb, at column 32, it has "x" where an address with a port is expected`},
		{"web-1  | " + strings.Replace(clf, "200 2326", "OK 1", 1), `behind the prefix of docker compose: it is nearest to combined, but after the request, at column 86, it has "OK"`},
		{`{"when":1}`, "no known format: JSON without a time known by its name: name it by -time, the fields are"},
		{"a b", "no known format: see -format and -time"},
	} {
		tr := readLog(t, tt.line+"\n")
		require.Len(t, tr.Faults, 1, tt.line)
		assert.Contains(t, tr.Faults[0].Why, tt.want, tt.line)
	}
}
