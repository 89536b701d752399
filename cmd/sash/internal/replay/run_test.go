package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/command"
)

// An outcome is the result of a run of the command.
type outcome struct {
	status         int
	stdout, stderr string
}

func invoke(stdin string, args ...string) outcome {
	return commandFrom(context.Background(), strings.NewReader(stdin), args...)
}

func commandFrom(ctx context.Context, stdin io.Reader, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := Run(ctx, args, stdin, &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// decode returns the reports of a run with -json, and refuses fields that
// report does not document.
func (o outcome) decode(t *testing.T) (reports []report) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(o.stdout))
	d.DisallowUnknownFields()
	for {
		var r report
		err := d.Decode(&r)
		if err == io.EOF {
			return reports
		}
		require.NoError(t, err, o.stderr)
		reports = append(reports, r)
	}
}

// report returns the report of a run with one replay.
func (o outcome) report(t *testing.T) report {
	t.Helper()
	all := o.decode(t)
	require.Len(t, all, 1, o.stderr)
	return all[0]
}

// file writes a new file into a temporary folder.
func file(t *testing.T, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(name, content, 0o600))
	return name
}

func zipped(t *testing.T, s string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, s)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestRun_ExitStatus(t *testing.T) {
	const good = "0\ta\n"
	missing := filepath.Join(t.TempDir(), "missing.log")
	whole := zipped(t, strings.Repeat("0\ta\n", 10_000))
	tests := []struct {
		name   string
		stdin  string
		args   []string
		status int
		stderr []string // all of it is in these
	}{
		{"fine", good, []string{"-limit", "1/s"}, 0, nil},
		{"standard input by name", good, []string{"-limit", "1/s", "-"}, 0, nil},
		{"some unreadable", good + "x\n", []string{"-limit", "1/s"}, 0, nil},
		{"none and all", good, []string{"-limit", "unlimited", "-limit", "0/s"}, 0, nil},
		{"no limit", good, nil, 2, []string{"no -limit"}},
		{"bad limits", good, []string{"-limit", "x", "-limit", "1/s", "-limit", "-1/s"}, 2, []string{`limit "x": no slash`, `limit "-1/s": Count must be >= 0`}},
		{"what is under way", good, []string{"-limit", "1/s", "-limit", "5 at once"}, 2,
			[]string{`-limit "5 at once for 1m0s" bounds what is under way: it needs how long each request took, which -policy reads from logs that have it`}},
		{"bad limit and flag", good, []string{"-limit", "x", "-nonsense"}, 2, []string{`limit "x"`, "-nonsense"}},
		{"bad key and top", good, []string{"-limit", "1/s", "-key", "addr/0", "-top", "-1"}, 2, []string{"-key: addr/0: an address has from 1 to 128 bits", "-top must be >= 0"}},
		{"cost of a log", good, []string{"-limit", "1/s", "-cost", "tokens"}, 1, []string{"-cost tokens: - has no tokens, line 1 is a .tsv"}},
		{"estimate of no cost", good, []string{"-limit", "1/s", "-time", "when", "-estimate", "tokens"}, 2, []string{"-estimate needs -cost"}},
		{"settling no estimate", good, []string{"-limit", "1/s", "-time", "when", "-cost", "tokens", "-settle", "1s"}, 2, []string{"-settle needs -estimate"}},
		{"settling before", good, []string{"-limit", "1/s", "-time", "when", "-cost", "a", "-estimate", "a", "-settle", "-1s"}, 2, []string{"-settle must be >= 0, got -1s"}},
		{"columns without a name", good, []string{"-limit", "1/s", "-time", "when", "-cost", "a++b", "-estimate", "", "-key", "a,,a"}, 2,
			[]string{`-cost: "a++b" has a summand without a name`, `-estimate: "" has a summand`, `-key: "a,,a" has a field without a name`, "a is named twice"}},
		{"time without a name", good, []string{"-limit", "1/s", "-time", " "}, 2, []string{`-time: " " names no field`}},
		{"a number too large", good, []string{"-limit", "1/s", "-time", "when", "-cost", "9223372036854775807+1"}, 2, []string{`-cost: "9223372036854775807+1" is more than 64 bits hold`}},
		{"flag after a file", good, []string{"x.log", "-limit", "1/s"}, 2, []string{"no -limit", "-limit comes after a FILE"}},
		{"standard input twice", good, []string{"-limit", "1/s", "-", "-"}, 2, []string{"named 2 times"}},
		{"missing files", good, []string{"-limit", "1/s", missing, missing + "2", "-"}, 1, []string{missing + ":", missing + "2:"}},
		{"a directory", good, []string{"-limit", "1/s", t.TempDir()}, 1, []string{"is a directory"}},
		{"empty", "", []string{"-limit", "1/s"}, 1, []string{"no event in -\n"}},
		{"blank lines only", "\n \n", []string{"-limit", "1/s"}, 1, []string{"no event in -\n"}},
		{"nothing readable", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n", []string{"-limit", "1/s"}, 1, []string{"nothing readable in -"}},
		{"gzip cut short", string(whole[:len(whole)/2]), []string{"-limit", "1/s"}, 1, []string{"- could be read to line", "unexpected EOF"}},
		{"gzip cut short in its header", string(whole[:5]), []string{"-limit", "1/s"}, 1, []string{"- could be read to line 0 only: unexpected EOF", "nothing readable"}},
		{"gzip with a wrong checksum", string(whole[:len(whole)-8]) + "12345678", []string{"-limit", "1/s"}, 1, []string{"- could be read to line 10000 only: gzip: invalid checksum"}},
		{"field the format lacks", good, []string{"-limit", "1/s", "-key", "addr,path"}, 1, []string{"-key addr,path: - has no path, line 1 is a .tsv"}},
		{"agent of a common log", clf, []string{"-limit", "1/s", "-key", "agent"}, 1, []string{"-key agent: - has no agent, line 1 is Common Log Format"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.stdin, tt.args...)
			assert.Equal(t, tt.status, got.status, got.stderr)
			for _, want := range tt.stderr {
				assert.Contains(t, got.stderr, want)
			}
			assert.Equal(t, tt.stderr == nil, got.stderr == "", got.stderr)
			if tt.status == command.Usage {
				assert.Empty(t, got.stdout)
			}
		})
	}
}

func TestRun_Help(t *testing.T) {
	got := invoke("", "-h")
	assert.Equal(t, command.OK, got.status)
	assert.Empty(t, got.stderr)
	for _, want := range []string{"Usage: ", "-limit", "-together", "-key", "-time", "-cost", "-estimate", "-settle", "-json", "-top", "-each", "addr user method path status", "-format", "-trust", "-unit", "-separator", "-reorder", "-policy", "-shadow", "-route"} {
		assert.Contains(t, got.stdout, want)
	}
}

func TestRun_InterruptedWhileInputIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	silent, w := io.Pipe()
	defer w.Close()
	go func() {
		io.WriteString(w, "0\ta\n") // returns once it has been read
		cancel()
	}()
	got := commandFrom(ctx, silent, "-limit", "1/s")
	assert.Equal(t, outcome{command.Interrupted, "", "sash replay: interrupted, no report\n"}, got)
}

func TestRun_InterruptedBeforeReplaying(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	got := commandFrom(ctx, strings.NewReader("0\ta\n"), "-limit", "1/s")
	assert.Equal(t, outcome{command.Interrupted, "", "sash replay: interrupted, no report\n"}, got)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestRun_ReportThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	status := Run(context.Background(), []string{"-limit", "1/s"}, strings.NewReader("0\ta\n"), fullDisk{}, &stderr)
	assert.Equal(t, command.Failed, status)
	assert.Equal(t, "sash replay: writing the report: no space left\n", stderr.String())
}

func TestRun_InputThatFails(t *testing.T) {
	stdin := io.MultiReader(strings.NewReader("0\ta\n1\tabc"), iotest.ErrReader(errors.New("cable pulled")))
	got := commandFrom(context.Background(), stdin, "-limit", "1/s", "-json")
	assert.Equal(t, command.Failed, got.status)
	r := got.report(t)
	assert.EqualValues(t, 1, r.Events)
	assert.Equal(t, []traffic.FaultyLine{{File: "-", Line: 2, Why: "the file breaks off in it", Text: `"1\tabc"`}}, r.UnreadableLines)
	assert.Equal(t, []traffic.FaultyLine{{File: "-", Line: 2, Why: "cable pulled"}}, r.BrokenOff)
}

func TestRun_TextReport(t *testing.T) {
	stdin := strings.Join([]string{
		"1500000\tb", // 1.5 s
		"0\ta", "0\ta", "500000\ta", "1000000\ta",
		"", "oops", "61000000\ta", "61000000\ta",
	}, "\n")
	got := invoke(stdin, "-limit", "1/s log", "-limit", "1/s counter")
	assert.Equal(t, command.OK, got.status, got.stderr)
	assert.Equal(t, `-: 7 events by 2 clients, told apart by addr/64
from 1970-01-01 00:00:00 to 1970-01-01 00:01:01 UTC, 1m1s
read as micros: it reads 7 of the first 8 lines
4 lines out of order, older than one before in the same file: replayed sorted by time
1 blank line skipped
1 of 9 lines unreadable, skipped:
  -:7: no tab after the time: "oops"

  denied  of events  clients denied  exactly denied  wrongly admitted  wrongly denied  wrong of events  limit
       3    42.857%               1               3                 0               0           0.000%  1/1s log
       4    57.143%               1               3                 0               1          14.286%  1/1s counter

denied most under 1/1s log, times in UTC
  denied  of its events         first denied          last denied    busiest minute  denied in it  client
       3              6  1970-01-01 00:00:00  1970-01-01 00:01:01  1970-01-01 00:00             2  a

denied most under 1/1s counter, times in UTC
  denied  of its events         first denied          last denied    busiest minute  denied in it  client
       4              6  1970-01-01 00:00:00  1970-01-01 00:01:01  1970-01-01 00:00             3  a
`, got.stdout)
	assert.Equal(t, got, invoke(stdin, "-limit", "1/s log", "-limit", "1/s counter"), "not the same twice")
}
