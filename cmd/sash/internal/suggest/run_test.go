package suggest

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/internal/command"
)

// shop is the recording of the documentation.
const shop = "../../testdata/shop.log.gz"

// An outcome is the result of a run of the command.
type outcome struct {
	status         int
	stdout, stderr string
}

func invoke(stdin string, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := Run(context.Background(), args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// report returns the report of a run with -json, and refuses fields that its types do not
// document.
func (o outcome) report(t *testing.T) (r report) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(o.stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r), o.stderr)
	return r
}

// minutes returns a recording in which client i has one event in each of counts[i] seconds of
// one minute, ten minutes into it. A client "z" has one event at each end of the ten hours.
func minutes(counts ...int) string {
	var b strings.Builder
	line := func(seconds float64, client string) { fmt.Fprintf(&b, "%d\t%s\n", int64(seconds*1e6), client) }
	line(0.5, "z")
	for i, n := range counts {
		for j := range n {
			line(600+float64(j)*59/float64(n), fmt.Sprint("c", i))
		}
	}
	line(36000, "z")
	return b.String()
}

func TestRun_ExitStatus(t *testing.T) {
	folder := t.TempDir()
	missing := filepath.Join(folder, "missing.log")
	tests := []struct {
		name   string
		stdin  string
		args   []string
		status int
		stderr string // contains this
	}{
		{"read", "0\ta\n", nil, command.OK, ""},
		{"help", "", []string{"-h"}, command.OK, ""},
		{"no such file", "", []string{missing}, command.Failed, "missing.log"},
		{"nothing readable", "x\n", nil, command.Failed, "nothing readable in -"},
		{"broken off", "\x1f\x8b\x08", nil, command.Failed, "could be read to line 0 only"},
		{"no such flag", "", []string{"-nonsense"}, command.Usage, "sash suggest: -h explains the flags"},
		{"no place for the picture", "0\ta\n", []string{"-svg", filepath.Join(folder, "none", "a.svg")}, command.Failed, "writing the report: "},
		{"not a window", "", []string{"-window", "ten"}, command.Usage, `-window: "ten" is no length of a window, want one such as 10s, 5m, 24h or 7d`},
		{"a window of nothing", "", []string{"-window", "0s"}, command.Usage, "is no length of a window"},
		{"a window too long", "", []string{"-window", "4000w", "-window", "10000w"}, command.Usage, "-window must be at most "},
		{"a window twice", "", []string{"-window", "1d", "-window", "24h"}, command.Usage, "-window: 1d is given twice"},
		{"a percentile of 0", "", []string{"-percentile", "0"}, command.Usage, "-percentile must be > 0 and <= 100, got 0"},
		{"a percentile above 100", "", []string{"-percentile", "NaN"}, command.Usage, "-percentile must be > 0 and <= 100, got NaN"},
		{"a headroom below 1", "", []string{"-headroom", "0.9"}, command.Usage, "-headroom must be >= 1, got 0.9"},
		{"a negative top", "", []string{"-top", "-1"}, command.Usage, "-top must be >= 0, got -1"},
		{"a separator of a log", "", []string{"-separator", ";"}, command.Usage, "-separator needs -time"},
		{"an empty sum", "", []string{"-time", "a", "-cost", "a+"}, command.Usage, "-cost: "},
		{"no column", "", []string{"-time", " "}, command.Usage, "names no field"},
		{"no field", "", []string{"-key", "addr,"}, command.Usage, "-key: "},
		{"a flag after a file", "", []string{"a", "-json"}, command.Usage, "-json comes after a FILE"},
		{"standard input twice", "", []string{"-", "-"}, command.Usage, "standard input is named 2 times"},
		{"several faults", "", []string{"-top", "-1", "-headroom", "0"}, command.Usage, "sash suggest: -top must be >= 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.stdin, tt.args...)
			assert.Equal(t, tt.status, got.status, got.stderr)
			assert.Contains(t, got.stderr, tt.stderr)
			assert.Equal(t, tt.stderr == "", got.stderr == "", got.stderr)
		})
	}
}

func TestRun_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr bytes.Buffer
	assert.Equal(t, command.Interrupted, Run(ctx, nil, strings.NewReader("0\ta\n"), &stdout, &stderr))
	assert.Empty(t, stdout.String())
	assert.Contains(t, stderr.String(), "interrupted, no report")
}

func TestRun_ReportsWhatItCannotWrite(t *testing.T) {
	var stderr bytes.Buffer
	assert.Equal(t, command.Failed, Run(context.Background(), nil, strings.NewReader("0\ta\n"), failing{}, &stderr))
	assert.Contains(t, stderr.String(), "writing the report: full")
}

// A long log took long to read, so its report is not lost with the picture.
func TestRun_ReportsWithoutThePictureThatCannotBeWritten(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-svg", filepath.Join(t.TempDir(), "none", "limits.svg")}
	assert.Equal(t, command.Failed, Run(context.Background(), args, strings.NewReader("0\ta\n"), &stdout, &stderr))
	assert.Contains(t, stdout.String(), "-: 1 event by 1 client")
	assert.Contains(t, stderr.String(), "writing the report: open ")
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// What the report says of candidates, and of the suggested policy, is what sash itself
// decides when the recording is replayed through it.
func TestReport_TellsWhatSashDecides(t *testing.T) {
	r := invoke("", "-json", "-percentile", "99.8", shop).report(t)
	require.Len(t, r.Windows, 3)
	args := []string{"-json", "-top", "0"}
	var want []candidate
	for _, v := range r.Windows {
		require.NotNil(t, v.Suggested)
		for i, c := range v.Candidates {
			if i%6 > 0 && c.Limit != v.Suggested.Limit {
				continue // all of them are in TestGauge_TellsWhatALogDenies
			}
			args = append(args, "-limit", c.Limit.String())
			want = append(want, c)
		}
	}
	require.Greater(t, len(want), 8)
	got := replayed(t, append(args, shop)...)
	require.Len(t, got.Limits, len(want))
	for i, c := range want {
		assert.Equal(t, c.Denied, got.Limits[i].Denied, c.Limit)
		assert.Equal(t, c.Clients, got.Limits[i].DeniedClients, c.Limit)
	}

	args = []string{"-json", "-top", "0", "-together"}
	for _, l := range r.Policy.Limits {
		args = append(args, "-limit", l.String())
	}
	assert.Equal(t, r.Policy.Clients, replayed(t, append(args, shop)...).Limits[0].DeniedClients)
}

// verdicts is the part of a report of sash replay that the tests compare.
type verdicts struct {
	Limits []struct {
		Denied        int64 `json:"denied"`
		DeniedClients int   `json:"denied_clients"`
	} `json:"limits"`
}

func replayed(t *testing.T, args ...string) (v verdicts) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.Equal(t, command.OK, replay.Run(context.Background(), args, strings.NewReader(""), &stdout, &stderr), stderr.String())
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &v))
	return v
}

// The commands that the report tells to run are accepted, and read the same events.
func TestNext_CommandsRun(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "it's a $log.csv")
	var csv strings.Builder
	csv.WriteString("when,who,in,out\n")
	for i := range 400 {
		fmt.Fprintf(&csv, "2026-03-10 00:%02d:%02d.5,c%d,%d,%d\n", i/60, i%60, i%7, 10+i%5, i%3)
	}
	require.NoError(t, os.WriteFile(file, []byte(csv.String()), 0o600))
	access := filepath.Join(folder, "access.log")
	var log strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&log, "192.0.2.%d - - [10/Mar/2026:00:%02d:%02d +0000] \"GET /%d HTTP/1.1\" 200 1\n", i%200, i/60, i%60, i%3)
	}
	require.NoError(t, os.WriteFile(access, []byte(log.String()), 0o600))
	for _, args := range [][]string{
		{"-time", "when", "-key", "who", "-cost", "in+out", "-window", "1s", "-window", "90s", file},
		{"-key", "addr,path", access},
	} {
		r := invoke("", append([]string{"-json"}, args...)...).report(t)
		require.Len(t, r.Next, 3)
		commands := strings.Split(strings.TrimSuffix(r.Next[0].Code, "\n"), "\n")
		assert.LessOrEqual(t, len(commands), 2)
		for _, line := range commands {
			words := shellWords(t, line)
			require.Equal(t, []string{"sash", "replay"}, words[:2])
			var v struct {
				Events int64 `json:"events"`
			}
			var stdout, stderr bytes.Buffer
			require.Equal(t, command.OK, replay.Run(context.Background(), append([]string{"-json"}, words[2:]...), strings.NewReader(""), &stdout, &stderr), stderr.String())
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &v))
			assert.Equal(t, r.Events, v.Events)
			for _, arg := range args {
				if arg == "-cost" || arg == "-time" || arg == "-key" {
					assert.Contains(t, words, arg)
				}
			}
		}
	}
}

// The first command replays each limit alone: the log that is suggested and, where that is another
// limit, what sash.Per chooses. The second replays the logs together.
func TestNext_CommandsReplayLogsAndDefaults(t *testing.T) {
	r := invoke("", "-json", shop).report(t)
	var alone, together []sash.Limit
	for _, l := range r.Policy.Limits {
		require.Equal(t, l.Log(), l)
		alone, together = append(alone, l), append(together, l)
		if chosen := sash.Per(l.Count, l.Window); chosen != l {
			require.Equal(t, l.Parts(), chosen)
			alone = append(alone, chosen)
		}
	}
	require.Greater(t, len(alone), len(together), "all of them are small")
	require.Less(t, len(alone), 2*len(together), "none of them is small")
	commands := strings.Split(strings.TrimSuffix(r.Next[0].Code, "\n"), "\n")
	require.Len(t, commands, 2)
	for i, want := range [][]sash.Limit{alone, together} {
		var got []sash.Limit
		words := shellWords(t, commands[i])
		for j, word := range words {
			if word == "-limit" {
				l, err := sash.ParseLimit(words[j+1])
				require.NoError(t, err)
				got = append(got, l)
			}
		}
		require.Equal(t, want, got, commands[i])
	}
}

func TestRun_TextIsThatOfTheJSON(t *testing.T) {
	args := []string{"-percentile", "99", "-headroom", "2", shop}
	text := invoke("", args...).stdout
	r := invoke("", append([]string{"-json"}, args...)...).report(t)
	for _, v := range r.Windows {
		assert.Contains(t, text, rate(v.Suggested.Limit)+": "+v.Suggested.Reason+"\n")
		assert.Contains(t, text, v.Busiest.String())
	}
	for _, w := range r.Warnings {
		assert.Contains(t, text, "  - "+w.Text+"\n")
	}
	for i, s := range r.Next {
		assert.Contains(t, text, fmt.Sprintf("  %d. %s\n", i+1, s.Text))
	}
	for _, c := range r.Top {
		assert.Contains(t, text, c.Client)
	}
}

func TestRun_WindowsInTheirOrder(t *testing.T) {
	r := invoke(minutes(1), "-json", "-window", "1d", "-window", "90s", "-window", "10s").report(t)
	var windows []string
	for _, v := range r.Windows {
		windows = append(windows, v.Window)
	}
	assert.Equal(t, []string{"10s", "1m30s", "24h0m0s"}, windows)
}

func TestRun_ReadsStandardInputAsItsFile(t *testing.T) {
	content := minutes(1, 2, 3)
	file := filepath.Join(t.TempDir(), "a.tsv")
	require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	assert.Equal(t, strings.ReplaceAll(invoke("", file).stdout, file, "-"), invoke(content).stdout)
}

func TestRun_TellsUnreadableLines(t *testing.T) {
	got := invoke("0\ta\nx\n")
	assert.Contains(t, got.stdout, "1 of 2 lines unreadable, skipped; sash replay lists more:\n  -:2: ")
	assert.EqualValues(t, 1, invoke("0\ta\nx\n", "-json").report(t).Unreadable)
	broken := invoke("\x1f\x8b\x08")
	assert.Contains(t, broken.stdout, "NOT COMPLETE: - could be read to line 0 only")
}

func TestRun_FailsIfTheInputDoes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	in := io.MultiReader(strings.NewReader("0\ta\n1\ta\n"), iotest.ErrReader(errors.New("gone")))
	assert.Equal(t, command.Failed, Run(context.Background(), nil, in, &stdout, &stderr))
	assert.Contains(t, stderr.String(), "gone")
	assert.Contains(t, stdout.String(), "2 events")
}

// The picture is XML, shows each window with its suggestion, and is the same each time.
func TestPicture_ShowsEachWindow(t *testing.T) {
	draw := func(args ...string) string {
		file := filepath.Join(t.TempDir(), "a.svg")
		got := invoke("", append([]string{"-svg", file}, args...)...)
		require.Equal(t, command.OK, got.status, got.stderr)
		picture, err := os.ReadFile(file)
		require.NoError(t, err)
		return string(picture)
	}
	picture := draw(shop)
	assert.Equal(t, picture, draw(shop))
	d := xml.NewDecoder(strings.NewReader(picture))
	circles := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "circle" {
			circles++
		}
	}
	r := invoke("", "-json", shop).report(t)
	want := 0
	for _, v := range r.Windows {
		want += len(v.Candidates)
		assert.Contains(t, picture, "suggested: "+rate(v.Suggested.Limit)+"<")
		assert.Contains(t, picture, ">in any "+output.Short(sash.Limit(v.Suggested.Limit).Window)+"<")
	}
	assert.Equal(t, want, circles)
	assert.Contains(t, picture, "25,839 events by 3,546 clients")
}

func TestPicture_OfAnything(t *testing.T) {
	for name, content := range map[string]string{
		"one event":           "0\ta\n",
		"costs of 0":          "when,who,in\n2026-03-10 00:00:00,a,0\n",
		"large costs":         "when,who,in\n2026-03-10 00:00:00,a,3\n2026-03-10 10:00:00,b,9223372036854775\n",
		"a name to be quoted": "0\t<a&b>\n",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			file, picture := filepath.Join(folder, "<&>.log"), filepath.Join(folder, "a.svg")
			require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
			args := []string{"-svg", picture, file}
			if strings.HasPrefix(content, "when") {
				args = append([]string{"-time", "when", "-key", "who", "-cost", "in"}, args...)
			}
			got := invoke("", args...)
			require.Equal(t, command.OK, got.status, got.stderr)
			text, err := os.ReadFile(picture)
			require.NoError(t, err)
			require.NoError(t, xml.Unmarshal(text, new(struct{})))
			assert.NotContains(t, string(text), "NaN")
			assert.NotContains(t, string(text), "Inf")
		})
	}
}

// However close the values are, the curve ends at the bottom.
func TestCurve_EndsAtTheBottom(t *testing.T) {
	v := windowReport{distribution: make(distribution, 5000)}
	for i := range v.distribution {
		v.distribution[i] = int64(1_000_000 + i)
	}
	curve := v.curve(scale{1, 2e6, 0, 800}, scale{1, 1e-4, 0, 100})
	assert.Regexp(t, "V100$", curve)
	assert.Less(t, len(curve), 200)
}

// The next command has every flag that says how files are read, as it was given.
func TestInput_KeepsTheFlagsOfReading(t *testing.T) {
	o, err := parseArgs([]string{"-json", "-percentile=99", "--key", "addr/64, path", "-window", "1s", "-trust=10.0.0.0/8", "-trust", "::1/128", "-svg", "a b.svg", "--", "a b.log"})
	require.NoError(t, err)
	assert.Equal(t, []string{"--key", `"addr/64, path"`, "-trust=10.0.0.0/8", "-trust", "::1/128", `"a b.log"`}, o.input())

	// A configuration is printed as the format that it defines, in one line.
	const config = "log_format a '$msec '\n  '$remote_addr=1';\n"
	for _, args := range [][]string{{"-format", config, "a.log"}, {"-format=" + config, "a.log"}} {
		o, err = parseArgs(args)
		require.NoError(t, err)
		assert.Equal(t, "-format $msec $remote_addr=1 a.log", strings.NewReplacer("=$", " $", "'", "").Replace(strings.Join(o.input(), " ")))
	}
}

// shellWords returns the words of a command line, as sh -c takes them apart.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	var word strings.Builder
	quote, open := rune(0), false
	end := func() {
		if open {
			words = append(words, word.String())
		}
		word.Reset()
		open = false
	}
	for i, c := range line {
		switch {
		case quote == 0 && c == ' ':
			end()
		case quote == 0 && c == '\\':
			require.Equal(t, byte('\''), line[i+1], "the only character that is quoted so")
		case quote == 0 && i > 0 && line[i-1] == '\\':
			word.WriteRune(c)
		case c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, open = c, true
		default:
			open = true
			word.WriteRune(c)
		}
	}
	end()
	return words
}
