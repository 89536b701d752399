package replay

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash/internal/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

const clf = `192.0.2.1 - frank [17/May/2015:10:05:03 +0000] "GET /a.png?size=2 HTTP/1.1" 200 2326`

// read reads files and standard input, and checks that no line was lost.
func read(t *testing.T, key, stdin string, files ...string) readTraffic {
	t.Helper()
	k, err := traffic.ParseKey(key)
	require.NoError(t, err)
	return readWith(t, &traffic.Settings{Key: k}, stdin, files...)
}

// readTraffic is traffic with its events.
type readTraffic struct {
	*traffic.Traffic
	Events []traffic.Event
}

func readWith(t *testing.T, s *traffic.Settings, stdin string, files ...string) (tr readTraffic) {
	t.Helper()
	var err error
	tr.Traffic, err = traffic.Read(t.Context(), s, files, strings.NewReader(stdin), io.Discard, func(_ *traffic.Traffic, events []traffic.Event) error {
		tr.Events = append(tr.Events, events...)
		return nil
	})
	require.NoError(t, err)
	assert.EqualValues(t, tr.Traffic.Events, len(tr.Events))
	assert.Equal(t, tr.Lines, tr.Traffic.Events+tr.LeftOut+tr.Blank+tr.Unreadable+tr.Headings, "lines lost")
	return tr
}

// happened lists the events of tr as time in microseconds and client.
func happened(tr readTraffic) (events []string) {
	for _, e := range tr.Events {
		events = append(events, fmt.Sprintf("%d %s", e.At/1000, tr.Clients[e.Client]))
	}
	return events
}

func TestRead_SameLinesHoweverTheyArrive(t *testing.T) {
	const lines = "1\ta\n2\tb\n3\ta\n"
	want := []string{"1 a", "2 b", "3 a"}
	tests := []struct {
		name    string
		content []byte
	}{
		{"plain", []byte(lines)},
		{"no newline at the end", []byte(strings.TrimSuffix(lines, "\n"))},
		{"lines of a PC", []byte(strings.ReplaceAll(lines, "\n", "\r\n"))},
		{"gzip", zipped(t, lines)},
		{"gzip of two members", append(zipped(t, lines[:7]), zipped(t, lines[7:])...)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The name says nothing about the content.
			assert.Equal(t, want, happened(read(t, "addr", "", file(t, "x.gz", tt.content))))
			assert.Equal(t, want, happened(read(t, "addr", string(tt.content), "-")))
		})
	}
}

func TestRead_SortsByTimeAndKeepsTheOrderOfOneInstant(t *testing.T) {
	tr := read(t, "addr", "5\ta\n3\tb\n5\tc\n4\td\n3\te\n", "-")
	assert.Equal(t, []string{"3 b", "3 e", "4 d", "5 a", "5 c"}, happened(tr))
	assert.EqualValues(t, 3, tr.OutOfOrder)

	// Enough events, in such an order, that an unstable sort would show.
	var lines strings.Builder
	byInstant := make([][]string, 5)
	for i := range 1000 {
		micros := i * i * 31 % len(byInstant)
		fmt.Fprintf(&lines, "%d\t%d\n", micros, i)
		byInstant[micros] = append(byInstant[micros], fmt.Sprintf("%d %d", micros, i))
	}
	assert.Equal(t, slices.Concat(byInstant...), happened(read(t, "addr", lines.String(), "-")))
}

func TestRead_MergesFilesByTime(t *testing.T) {
	first := file(t, "one", []byte("1\ta\n4\ta\n"))
	second := file(t, "two", zipped(t, `h - - [01/Jan/1970:00:00:00 +0000] "GET /" 200 1`))
	tr := read(t, "addr", "2\tb\n4\tb\n", first, "-", second)
	assert.Equal(t, []string{"0 h", "1 a", "2 b", "4 a", "4 b"}, happened(tr))
	assert.Zero(t, tr.OutOfOrder, "each file is in order")
}

func TestRead_LinesThatAreTooLong(t *testing.T) {
	long := "2\t" + strings.Repeat("x", traffic.MaxLine)
	longest := "3\t" + strings.Repeat("y", traffic.MaxLine-3)
	for _, content := range []string{
		"1\ta\n" + long + "\n" + longest + "\n4\tb\n",
		"1\ta\n" + long + long + long + "\n" + longest + "\n4\tb\n",
		string(zipped(t, "1\ta\n"+long+"\n"+longest+"\n4\tb\n")),
	} {
		tr := read(t, "addr", content, "-")
		require.Equal(t, 3, len(tr.Events))
		assert.Equal(t, "4 b", happened(tr)[2])
		require.Len(t, tr.Faults, 1)
		assert.EqualValues(t, 2, tr.Faults[0].Line)
		assert.Equal(t, "longer than 262144 bytes", tr.Faults[0].Why)
		assert.Less(t, len(tr.Faults[0].Text), 200)
	}
	tr := read(t, "addr", "1\ta\n"+long, "-") // and no line after it
	assert.EqualValues(t, 1, tr.Unreadable)
	assert.Empty(t, tr.BrokenOff)
}

func TestRead_UnreadableLinesOfAnOtherKind(t *testing.T) {
	long := clf + ` "-" "Agent"`
	tests := []struct {
		name     string
		key      string
		lines    []string
		events   int
		line     int64
		why, not string
	}{
		{"a log line in a .tsv", "addr", []string{"1\ta", clf}, 1, 2, "the line is Common Log Format, the file a .tsv", ""},
		{"a .tsv line in a log", "addr", []string{clf, clf, "1\ta"}, 2, 3, "the line is a .tsv of time and client, the file Common Log Format", ""},
		{"a common line in a combined log", "agent", []string{long, clf, long}, 2, 2, "no agent, which -key wants", ""},
		{"before the format is known", "addr", []string{"x", clf}, 1, 1, "no address", "neither"},
		{"after", "addr", []string{clf, "x"}, 1, 2, "no address", "neither"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := read(t, tt.key, strings.Join(tt.lines, "\n"), "-")
			assert.Len(t, tr.Events, tt.events)
			require.Len(t, tr.Faults, 1)
			assert.Equal(t, tt.line, tr.Faults[0].Line)
			assert.Contains(t, tr.Faults[0].Why, tt.why)
			if tt.not != "" {
				assert.NotContains(t, tr.Faults[0].Why, tt.not)
			}
		})
	}
	// If the key does not need the fields that a line lacks, both log formats are read.
	assert.Len(t, read(t, "addr", long+"\n"+clf, "-").Events, 2)
}

// The virtual host must not be taken for the client: all clients would be one.
func TestReport_VirtualHostsInFrontAreNotClients(t *testing.T) {
	var withPort, without, plain strings.Builder
	for i := range 50 {
		line := fmt.Sprintf(`192.0.2.%d - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1 "-" "Agent"`+"\n", i)
		withPort.WriteString("example.com:443 " + line)
		without.WriteString("example.com " + line)
		plain.WriteString(line)
	}
	for _, log := range []string{withPort.String(), without.String()} {
		r := invoke(log, "-limit", "1/m", "-json").report(t)
		assert.Equal(t, 50, r.Clients)
		assert.Zero(t, r.Unreadable)

		r = invoke(plain.String()+log, "-limit", "1/m", "-json").report(t)
		assert.EqualValues(t, 50, r.Events)
		assert.EqualValues(t, 50, r.Unreadable)
		assert.EqualValues(t, 50, r.Clients)
		require.NotEmpty(t, r.UnreadableLines)
		assert.Contains(t, r.UnreadableLines[0].Text, "example.com")
		assert.Equal(t, "the line is Combined Log Format after a virtual host, the file Combined Log Format", r.UnreadableLines[0].Why)
	}
}

// A server that does not know the client writes "-". Such lines are no client of their own
// for a key with the address, and are readable for another key.
func TestRead_ClientsThatAreNotToldAreNotOne(t *testing.T) {
	lines := clf + "\n" + strings.Replace(clf, "192.0.2.1", "-", 1) + "\n"
	tr := read(t, "addr", lines, "-")
	assert.Equal(t, []string{"192.0.2.1"}, tr.Clients)
	require.Len(t, tr.Faults, 1)
	assert.Equal(t, `no addr, which -key wants: it is "-"`, tr.Faults[0].Why)
	assert.Len(t, read(t, "user", lines, "-").Events, 2)
}

func TestRead_CutShortAndBlank(t *testing.T) {
	tr := read(t, "addr", clf+" \"-\" \"Agen\n\n \t\r\n"+clf+"\n\n", "-")
	assert.Len(t, tr.Events, 2)
	assert.EqualValues(t, 1, tr.CutShort)
	assert.EqualValues(t, 3, tr.Blank)
	assert.EqualValues(t, 5, tr.Lines)
}

func TestReport_UnreadableLinesByNumber(t *testing.T) {
	var stdin strings.Builder
	stdin.WriteString("1\ta\n")
	for i := range traffic.MaxFaults + 50 {
		stdin.WriteString("x\n")
		if i == 19 {
			stdin.WriteString("1\ta\n")
		}
	}
	got := invoke(stdin.String(), "-limit", "1/s")
	assert.Contains(t, got.stdout, "1,050 of 1,052 lines unreadable, skipped:\n")
	assert.Equal(t, shownFaults, strings.Count(got.stdout, ": no tab after the time: "))
	assert.Contains(t, got.stdout, "\n  - also: 12-21, 23-1002\n  and 50 after these, not listed\n")

	r := invoke(stdin.String(), "-limit", "1/s", "-json").report(t)
	assert.EqualValues(t, 1050, r.Unreadable)
	assert.Equal(t, traffic.MaxFaults, r.UnreadableLinesCap)
	require.Len(t, r.UnreadableLines, traffic.MaxFaults)
	assert.Equal(t, traffic.FaultyLine{File: "-", Line: 1002, Why: "no tab after the time", Text: `"x"`}, r.UnreadableLines[traffic.MaxFaults-1])
}

func TestStretches(t *testing.T) {
	lines := []traffic.FaultyLine{{File: "a", Line: 1}, {File: "a", Line: 3}, {File: "a", Line: 4}, {File: "b", Line: 5}, {File: "b", Line: 6}, {File: "b", Line: 7}}
	assert.Equal(t, []string{"a also: 1, 3-4", "b also: 5-7"}, stretches(lines))
	assert.Empty(t, stretches(nil))
}

func TestRun_BrokenGzipIsReplayedAsFarAsItGoes(t *testing.T) {
	var lines bytes.Buffer
	for i := range 20_000 {
		fmt.Fprintf(&lines, "%d\t%d\n", i, i*7919%1000)
	}
	whole := zipped(t, lines.String())
	name := file(t, "broken.gz", whole[:len(whole)/2])
	got := invoke("", "-limit", "1/s", "-json", name)
	assert.Equal(t, command.Failed, got.status)
	r := got.report(t)
	assert.Greater(t, r.Events, int64(1000))
	assert.Less(t, r.Events, int64(20_000))
	require.Len(t, r.BrokenOff, 1)
	assert.Equal(t, traffic.FaultyLine{File: name, Line: r.Lines, Why: "unexpected EOF"}, r.BrokenOff[0])
	assert.Contains(t, invoke("", "-limit", "1/s", name).stdout, "NOT COMPLETE: "+name)
}

// A file without a readable line does not go unnoticed among others. An empty file is no fault, and neither is a
// file of headings or comments.
func TestRun_FilesOfWhichNothingIsRead(t *testing.T) {
	good, bad := file(t, "good", []byte("1000000\ta\n")), file(t, "bad", []byte("\nx\ny\n"))
	empty, blank := file(t, "empty", nil), file(t, "blank", []byte("\n\n"))
	why := "no line of " + bad + " can be read; line 2: no known format: see -format and -time\n"

	got := invoke("", "-limit", "1/s", good, empty, bad, blank)
	assert.Equal(t, command.Failed, got.status)
	assert.Equal(t, "sash replay: "+why, got.stderr)
	assert.Contains(t, got.stdout, "1 event by 1 client", "the others are replayed all the same")
	assert.Contains(t, got.stdout, "NOT COMPLETE: "+why)

	r := invoke("", "-json", "-limit", "1/s", good, empty, bad)
	assert.Equal(t, command.Failed, r.status)
	assert.Equal(t, []traffic.FaultyLine{{File: bad, Line: 2, Why: "no known format: see -format and -time", Text: `"x"`}}, r.report(t).NoneRead)

	got = invoke("", "-limit", "1/s", "-from", "2026-03-10", good, bad)
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, "no event is left in ")
	assert.Contains(t, got.stderr, "sash replay: "+why)

	zeek := file(t, "zeek", []byte("#separator \\x09\n#path\thttp\n#close\t2026-03-10\n"))
	w3c := file(t, "w3c", []byte("#Software: IIS\n#Fields: date time c-ip\n"))
	framed := file(t, "framed", []byte("2026-03-10T12:00:00.5Z stdout F # no log yet\n"))
	got = invoke("", "-limit", "1/s", good, empty, blank, zeek, w3c, framed)
	assert.Equal(t, command.OK, got.status, got.stderr)
	assert.NotContains(t, got.stdout, "NOT COMPLETE")
	comments := file(t, "comments", []byte("# a\n#b\nx\n"))
	got = invoke("", "-limit", "1/s", good, comments)
	assert.Equal(t, "sash replay: no line of "+comments+" can be read; line 3: no known format: see -format and -time\n", got.stderr)
}

// A file has no readable line if each one is refused for its cost. A file that is cut off is named once.
func TestRun_FilesOfWhichEachLineIsRefused(t *testing.T) {
	good, bad := file(t, "good.csv", []byte("when,n\n1,1\n")), file(t, "bad.csv", []byte("when,n\n1,x\n2,x\n"))
	got := invoke("", "-limit", "1/s", "-time", "when", "-cost", "n", good, bad)
	assert.Equal(t, command.Failed, got.status)
	assert.Equal(t, "sash replay: no line of "+bad+` can be read; line 2: n "x" is not a whole number of 64 bits, as a cost must be`+"\n", got.stderr)

	for _, none := range []string{"when,n\n", "when,n\n1,1\n1,x\n"} {
		got = invoke("", "-limit", "1/s", "-time", "when", "-cost", "n", good, file(t, "some.csv", []byte(none)))
		assert.Equal(t, command.OK, got.status, got.stderr)
	}
	got = invoke("", "-limit", "1/s", "-time", "when", "-cost", "n", "-to", "1970-01-01T00:00:02", good, file(t, "later.csv", []byte("when,n\n3,1\n1,x\n")))
	assert.Equal(t, command.OK, got.status, got.stderr)

	cut := zipped(t, "x\ny\n")
	broken := file(t, "broken", cut[:len(cut)-1])
	got = invoke("1000000\ta\n", "-limit", "1/s", "-", broken)
	assert.Equal(t, command.Failed, got.status)
	assert.Equal(t, 1, strings.Count(got.stderr, broken), got.stderr)
}

// With -reorder 0, a late line is replayed where it stands, and the report does not say that it was sorted.
func TestRun_NothingIsSorted(t *testing.T) {
	log := file(t, "log", []byte("3000000\ta\n1000000\ta\n"))
	got := invoke("", "-limit", "1/s", "-reorder", "0", log)
	assert.Contains(t, got.stdout, "1 line out of order, older than one before in the same file\n")
	assert.Contains(t, got.stdout, "WARNING: 1 line came too late to be put in order")
	got = invoke("", "-limit", "1/s", log)
	assert.Contains(t, got.stdout, "1 line out of order, older than one before in the same file: replayed sorted by time\n")
}

// The reason for lines that a format reads, and a flag does not, is the flag.
func TestRun_CostsThatAreNoWholeNumbers(t *testing.T) {
	log := `{"ts":10,"duration":0.5,"request":{"remote_ip":"192.0.2.1"}}` + "\n"
	got := invoke(log, "-limit", "1/s", "-cost", "duration")
	assert.Equal(t, command.Failed, got.status)
	assert.Equal(t, `sash replay: nothing readable in -; line 1 of -: duration "0.5" is not a whole number of 64 bits, as a cost must be`+"\n", got.stderr)
}
