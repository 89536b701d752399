package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/bench/internal/callgrind"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

// Under callgrind this test is the program that it tests. It reads the processor's ticks first. The runtime
// reads them only when a thread sleeps on one of its locks, which a test cannot bring about.
func TestMain(m *testing.M) {
	if callgrind.Running() {
		readTicks()
		main()
		return
	}
	os.Exit(m.Run())
}

// readTicks makes the runtime read the ticks of the processor, by profiling a goroutine that blocks. Without the
// setting of countIn, the program dies here on a processor that has no RDTSCP.
func readTicks() {
	runtime.SetBlockProfileRate(1)
	defer runtime.SetBlockProfileRate(0)
	done := make(chan struct{})
	go close(done)
	<-done
}

// of returns counts of this version of Go.
func of(rows ...count) counts { return counts{here(), rows} }

func TestCompare_NamesEachRowThatGrows(t *testing.T) {
	before := of(count{"a", 1000}, count{"b", 200}, count{"c", 10})
	for _, tt := range []struct {
		name  string
		after []count
		want  []string
	}{
		{"the same", before.rows, nil},
		{"less", []count{{"a", 500}, {"b", 1}, {"c", 9}}, nil},
		{"3.0 %", []count{{"a", 1030}, {"b", 206}, {"c", 10.3}}, nil},
		{"3.1 %", []count{{"a", 1031}, {"b", 200}, {"c", 10}},
			[]string{"a: 1000.0 -> 1031.0 instructions, +3.10 %, and at most +3 % is allowed"}},
		{"two", []count{{"a", 2000}, {"b", 1}, {"c", 10.4}},
			[]string{"a: 1000.0 -> 2000.0 instructions, +100.00 %", "c: 10.0 -> 10.4 instructions, +4.00 %"}},
		{"a row is missing", []count{{"a", 1000}, {"c", 10}}, []string{"b: it is in the file, and there is no such row"}},
		{"a row is new", append([]count{{"d", 1}}, before.rows...), []string{"d: it is not in the file; -update writes it"}},
	} {
		err := compare(before, of(tt.after...))
		if tt.want == nil {
			require.NoError(t, err, tt.name)
			continue
		}
		require.Error(t, err, tt.name)
		lines := bytes.Split([]byte(err.Error()), []byte("\n"))
		require.Len(t, lines, len(tt.want), tt.name)
		for i, want := range tt.want {
			require.Contains(t, string(lines[i]), want, tt.name)
		}
	}
}

func TestCounts_AreReadAsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	want := of(count{"counter, Allow", 238.6}, count{"httplimit, two policies, denied", 15238.5})
	require.NoError(t, want.write(file))
	got, err := readCounts(file)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, line := range []string{"counter, Allow", "12.0", "0 a", "-1 a", "NaN a"} {
		require.NoError(t, os.WriteFile(file, []byte("# a comment\ngo1.26.8\n"+line+"\n"), 0o600))
		_, err := readCounts(file)
		require.ErrorContains(t, err, file+":3: want a number of instructions > 0 and the name of a row", line)
	}
}

// Rows that were not counted keep their counts, and rows that are gone lose them.
func TestCounts_AreWrittenInTheOrderOfTheRows(t *testing.T) {
	file := of(count{"gone", 1}, count{"counter, Take", 2}, count{"counter, Allow", 3}, count{"log, Take", 4})
	matching, others := file.split(regexp.MustCompile("counter"))
	require.Equal(t, []count{{"counter, Take", 2}, {"counter, Allow", 3}}, matching.rows)
	got := of(count{"counter, Take", 20}, count{"counter, Allow", 30}).join(others)
	require.Equal(t, []count{{"counter, Allow", 30}, {"counter, Take", 20}, {"log, Take", 4}}, got.rows)
}

func TestRows_AnswerAsTheirNamesSay(t *testing.T) {
	if race.Enabled {
		t.Skip("one goroutine makes all calls")
	}
	seen := map[string]bool{}
	for _, r := range rows() {
		require.False(t, seen[r.name], r.name)
		seen[r.name] = true
		admitted := r.prepare()()
		require.NoError(t, r.check(admitted))
		require.ErrorContains(t, r.check(callsARow-admitted), r.name)
	}
}

func TestFile_HasEveryRow(t *testing.T) {
	file, err := readCounts("counts.txt")
	require.NoError(t, err)
	require.Regexp(t, `^go1\.\d+`, file.version)
	var names, want []string
	for _, c := range file.rows {
		names = append(names, c.row)
	}
	for _, r := range rows() {
		want = append(want, r.name)
	}
	require.Equal(t, want, names, "go run ./bench/instructions -update writes the file")
}

// invoke returns the exit status and the output of a run.
func invoke(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, err bytes.Buffer
	status = run(ctx, args, &out, &err)
	return status, out.String(), err.String()
}

func TestRun_SaysWhyItDoesNotCount(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, of(count{"counter, Allow", 1}).write(file))
	other := filepath.Join(t.TempDir(), "counts")
	require.NoError(t, counts{"go1.2", nil}.write(other))
	t.Setenv("PATH", t.TempDir())
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"-file", other}, command.Failed, "the file has the counts of go1.2, and this is " + here() +
			", which compiles the code otherwise: compare with GOTOOLCHAIN=go1.2 in"},
		{[]string{"-file", other, "-update", "-run", "log"}, command.Failed, "the file has the counts of go1.2, and"},
		{[]string{"-file", file + "s"}, command.Failed, "run this in the root of the repository, or give -file"},
		{[]string{"-file", file, "-run", "no such row"}, command.Failed, `no row matches "no such row"`},
		{[]string{"-run", "("}, command.Usage, "missing closing )"},
		{[]string{"log"}, command.Usage, `"log" is no flag`},
	} {
		status, stdout, stderr := invoke(t.Context(), tt.args...)
		require.Equal(t, tt.status, status, stderr)
		require.Contains(t, stderr, tt.want)
		require.Empty(t, stdout)
	}
	status, _, stderr := invoke(t.Context(), "-file", file)
	require.Equal(t, command.Failed, status)
	require.Regexp(t, "install the package valgrind|linux/amd64 only|no AVX2", stderr)
	status, stdout, _ := invoke(t.Context(), "-h")
	require.Equal(t, command.OK, status)
	require.Contains(t, stdout, "-update")
	require.Contains(t, stdout, "-history")
}

func TestRun_CountsUnderCallgrind(t *testing.T) {
	needCallgrind(t)
	const row = "bucket, Allow"
	file, args := filepath.Join(t.TempDir(), "counts"), []string{"-run", "^" + row + "$"}
	args = append(args, "-file", file)
	status, _, stderr := invoke(t.Context(), append(args, "-update")...)
	require.Equal(t, command.OK, status, stderr)
	status, stdout, stderr := invoke(t.Context(), args...)
	require.Equal(t, command.OK, status, stderr)
	require.Contains(t, stdout, row)

	c, err := readCounts(file)
	require.NoError(t, err)
	require.Len(t, c.rows, 1)
	c.rows[0].instructions /= 1.04
	require.NoError(t, c.write(file))
	status, _, stderr = invoke(t.Context(), args...)
	require.Equal(t, command.Failed, status)
	require.Contains(t, stderr, "instructions: "+row+": ")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status, _, _ = invoke(ctx, args...)
	require.Equal(t, command.Interrupted, status)
}

// needCallgrind skips a test that needs it. A program with the race detector does not run under it.
func needCallgrind(t *testing.T) {
	if err := countable(); err != nil {
		t.Skip(err)
	}
	if race.Enabled {
		t.Skip("with the race detector")
	}
}

func TestCountIn_TellsFaultsOfTheProcess(t *testing.T) {
	needCallgrind(t)
	_, err := countIn(t.Context(), []string{"no such row"})
	require.ErrorContains(t, err, "valgrind: exit status 1: ")
	require.ErrorContains(t, err, `instructions: there is no row "no such row"`)
}

func TestParseDump_NamesTheRow(t *testing.T) {
	const head = "# callgrind format\nversion: 1\npid: 7\n\ndesc: Timerange: Basic block 0 - 21\n"
	name, n, found := parseDump([]byte(head + "desc: Trigger: Client Request: log, Take, denied\n\nevents: Ir\nsummary: 974722\n\n"))
	require.True(t, found)
	require.Equal(t, "log, Take, denied", name)
	require.Equal(t, 974722.0, n)
	for _, text := range []string{
		head + "desc: Trigger: Program termination\nevents: Ir\nsummary: 0\n",
		head + "desc: Trigger: Client Request: a\nevents: Ir\n",
		"",
	} {
		_, _, found := parseDump([]byte(text))
		require.False(t, found, text)
	}
}
