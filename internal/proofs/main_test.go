package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
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
