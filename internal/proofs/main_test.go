package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

const sample = `# Promises

<!-- figures proofs -->
None was run.

| promise | shown by | size | took | elsewhere |
|---|---|---|---|---|
| **Answers** | | | | |
| exact | ` + "`go test -run A .`, `go test -run B .`; the option `-v`" + ` | 1 test | 9 s | nothing |
| at once | ` + "`go run ./b`" + ` | | | [rate](https://example.com) |
<!-- /figures -->

The end.
`

// invoke runs the command on a page, with these outputs of commands, and returns the page after it.
func invoke(t *testing.T, text string, outputs map[string]string, args ...string) (status int, stdout, stderr, after string) {
	t.Helper()
	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte(text), 0o600))
	var out, errs bytes.Buffer
	status = run(t.Context(), append([]string{"-page", page}, args...), func(_ context.Context, line string) (string, error) {
		if strings.HasPrefix(line, "git status ") {
			return outputs["git status"], nil
		}
		output, found := outputs[line]
		if !found {
			return "no such test\n", errors.New("exit status 1")
		}
		return output, nil
	}, &out, &errs)
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	return status, out.String(), errs.String(), string(b)
}

func TestRun_WritesWhatWasRunIntoItsRows(t *testing.T) {
	status, _, stderr, after := invoke(t, sample, map[string]string{
		"go test -run A .": "=== RUN   TestA\n--- PASS: TestA (0.00s)\n    --- PASS: TestA/sub (0.00s)\n",
		"go test -run B .": "--- PASS: TestB (0.00s)\n",
		"go run ./b":       "x: 1,000 programs\ny: 234 programs of 7 steps\n",
	})
	require.Equal(t, command.OK, status, stderr)
	require.Contains(t, after, "\n| exact | `go test -run A .`, `go test -run B .`; the option `-v` | 2 tests | 0 s | nothing |\n")
	require.Contains(t, after, "\n| at once | `go run ./b` | 1,234 programs | 0 s | [rate](https://example.com) |\n")
	require.Contains(t, after, "\n| **Answers** | | | | |\n")
	require.Regexp(t, `(?m)^All 2 rows were run at commit \S+, with go1\.\S+ on \d+ cores of .+\.$`, after)
	require.Contains(t, after, "<!-- /figures -->\n\nThe end.\n")
}

func TestRun_LeavesOtherRowsAlone(t *testing.T) {
	outputs := map[string]string{"go run ./b": "5 schedules, longest 7\n"}
	status, _, stderr, after := invoke(t, sample, outputs, "-run", "at once")
	require.Equal(t, command.OK, status, stderr)
	require.Contains(t, after, "the option `-v` | 1 test | 9 s | nothing |\n")
	require.Contains(t, after, "| 5 schedules | 0 s |")
	require.Contains(t, after, "\n1 of 2 rows were last run at commit ")

	status, _, stderr, after = invoke(t, sample, outputs)
	require.Equal(t, command.Failed, status)
	require.Contains(t, stderr, "proofs: go test -run A .: exit status 1\nproofs: no such test\n")
	require.Contains(t, after, "the option `-v` | 1 test | 9 s | nothing |\n")
	require.Contains(t, after, "| 5 schedules | 0 s |")
}

// A test that is gone, or skipped, proves nothing. A command that does not count keeps the size that was written.
func TestRun_NeedsAProofOfEachTest(t *testing.T) {
	for _, nothing := range []string{"ok x 0.1s [no tests to run]\n", "--- SKIP: TestB (0.00s)\n"} {
		status, _, stderr, after := invoke(t, sample, map[string]string{
			"go test -run A .": "--- PASS: TestA (0.00s)\n", "go test -run B .": nothing, "go run ./b": "done\n",
		})
		require.Equal(t, command.Failed, status)
		require.Contains(t, stderr, "go test -run B .: no test has passed")
		require.Contains(t, after, "the option `-v` | 1 test | 9 s | nothing |\n")
	}
	kept := strings.Replace(sample, "`go run ./b` | | |", "`go run ./b` | 4 million keys | 2 s |", 1)
	_, _, _, after := invoke(t, kept, map[string]string{"go run ./b": "done\n"}, "-run", "at once")
	require.Contains(t, after, "| at once | `go run ./b` | 4 million keys | 0 s |")
}

// The page names the commit of all rows that it has run, and says if the code was another.
func TestRun_NamesWhatWasRun(t *testing.T) {
	outputs := map[string]string{"git rev-parse --short HEAD": "abc1234\n", "go run ./b": "5 schedules\n"}
	_, _, _, after := invoke(t, sample, outputs, "-run", "at once")
	require.Contains(t, after, " at commit abc1234, with go1.")
	outputs["git status"] = " M limiter.go\n"
	_, _, _, after = invoke(t, sample, outputs, "-run", "at once")
	require.Contains(t, after, " at commit abc1234 with changes, with go1.")

	page := filepath.Join(t.TempDir(), "page.md")
	require.NoError(t, os.WriteFile(page, []byte(sample), 0o600))
	head := "abc1234"
	var stderr bytes.Buffer
	status := run(t.Context(), []string{"-page", page, "-run", "at once"}, func(_ context.Context, line string) (string, error) {
		switch {
		case strings.HasPrefix(line, "git status"):
			return "", nil
		case strings.HasPrefix(line, "git"):
			return head, nil
		}
		head = "def5678"
		return "5 schedules\n", nil
	}, &bytes.Buffer{}, &stderr)
	require.Equal(t, command.Failed, status)
	require.Contains(t, stderr.String(), "abc1234 was checked out at the beginning, and def5678 is now")
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, sample, string(text))
}

func TestRun_SaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		text, want string
		args       []string
		status     int
	}{
		{"# No table\n", "want a table between", nil, command.Failed},
		{begin + "Run.\n\n| a | `go run .` |\n" + end, "want 5 cells, got \"| a | `go run .` |\"", nil, command.Failed},
		{begin + "Run.\n\n| a | b | c | d | e |\n" + end, "the table has no commands", nil, command.Failed},
		{sample, `no row matches "sashes"`, []string{"-run", "sashes"}, command.Failed},
		{sample, "missing closing )", []string{"-run", "("}, command.Usage},
		{sample, `"x" is no flag`, []string{"x"}, command.Usage},
	} {
		status, _, stderr, after := invoke(t, tt.text, nil, tt.args...)
		require.Equal(t, tt.status, status)
		require.Contains(t, stderr, tt.want)
		require.Equal(t, tt.text, after)
	}
	status, stdout, _, after := invoke(t, sample, nil, "-list")
	require.Equal(t, command.OK, status)
	require.Equal(t, "go test -run A .\ngo test -run B .\ngo run ./b\n", stdout)
	require.Equal(t, sample, after)
}

func TestSizeOf(t *testing.T) {
	for _, tt := range []struct{ output, want string }{
		{"", ""},
		{"--- PASS: TestA (0s)\n--- SKIP: TestB (0s)\n", "1 test"},
		{"--- PASS: TestA (0s)\n    a_test.go:1: 30000 histories of 522,000 operations\n", "30,000 histories"},
		{"1 schedules\n2 schedules, 9 redundant\n", "3 schedules"},
		{"| limiter | calls |\n| a | 1,000 | 7 |\n| all | 2,345 | 7 |\n", "2,345 calls"},
		{"BenchmarkA-2   1   7 ns/op\n--- PASS: TestA (0s)\n", "1 test, 1 benchmark"},
		{"fuzz: elapsed: 0s, gathering\nfuzz: elapsed: 3s, execs: 10 (3/sec)\nfuzz: elapsed: 6s, execs: 1200 (3/sec)\n" +
			"fuzz: elapsed: 0s, gathering\nfuzz: elapsed: 3s, execs: 34 (3/sec)\n", "1,234 inputs"},
	} {
		require.Equal(t, tt.want, sizeOf(tt.output), tt.output)
	}
	require.Equal(t, "119 s", shown(119*time.Second))
	require.Equal(t, "2 min", shown(2*time.Minute))
	require.Equal(t, "1,234,567", grouped(1234567))
}

// The table of the repository is one that can be run.
func TestPage_OfTheRepositoryIsRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/guarantees.md")
	require.NoError(t, err)
	p, err := parsePage(string(text))
	require.NoError(t, err)
	require.Greater(t, len(p.rows), 20)
	require.Equal(t, string(text), p.text())
}
