package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
)

// newHunt returns a hunt that knows only those tests of each package. It tries one mutant at a time, so that a text
// which several mutants share is compiled once.
func newHunt(t *testing.T, tests string) (h *hunt, report *bytes.Buffer) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	report = new(bytes.Buffer)
	return &hunt{jobs: 1, report: report, progress: progress.On(nil, -1, ""), tests: testsOfAll(t, tests)}, report
}

func testsOfAll(t *testing.T, all string) tests {
	t.Helper()
	root, err := packageDir(t.Context())
	require.NoError(t, err)
	return tests{root: root, all: all}
}

func named(t *testing.T, names ...string) (chosen []mutant) {
	t.Helper()
	for _, name := range names {
		for _, m := range mutants {
			if m.name == name {
				chosen = append(chosen, m)
			}
		}
	}
	require.Len(t, chosen, len(names))
	return chosen
}

// nothingLeft fails the test if a hunt has left anything where temporary files go.
func nothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestMutants_AllCanBeMade(t *testing.T) {
	require.NoError(t, check(testsOfAll(t, "").root, mutants))
	require.GreaterOrEqual(t, len(mutants), 40)
	for _, m := range mutants {
		require.NotEqual(t, m.old, m.new, m.name)
		require.NotEmpty(t, m.tests, m.name)
		require.NotEmpty(t, m.fault, m.name)
	}
}

// Three of the table, as the command tries all of them.
func TestHunt_SaysWhichTestKilledEach(t *testing.T) {
	h, report := newHunt(t, "TestCounter_(Steps|AdvancesAsTheModel)|TestSharded|TestTimeline")
	h.jobs = 2
	require.NoError(t, h.run(t.Context(), named(t, "counter-no-prev", "table-removes-the-successor", "evict-lowers-the-floor")))
	require.Regexp(t, `^\| mutant \| fault \| killed by \| seconds \|
\|---\|---\|---\|---:\|
\| counter-no-prev \| .* \| TestCounter_AdvancesAsTheModel \| \d+\.\d \|
\| table-removes-the-successor \| .* \| TestSharded_DeletesOnlyTheEntryItIsGiven \| \d+\.\d \|
\| evict-lowers-the-floor \| .* \| TestTimeline_FloorOnlyRises \| \d+\.\d \|

3 mutants, 0 alive, 0 not tried, 0 killed late, in .*s
$`, report.String())
	nothingLeft(t)
}

// That another test fails may be luck. The tests that should notice a fault come first, in whatever package.
func TestHunt_TellsALateKill(t *testing.T) {
	h, report := newHunt(t, "TestCounter_AdvancesAsTheModel|TestWait_IsAtMostNever|TestCounter_Steps")
	missed := named(t, "counter-no-prev")[0]
	missed.name, missed.tests = "missed", "TestWait_IsAtMostNever"
	inRoot := missed
	inRoot.name, inRoot.tests = "in the root package", "TestCounter_Steps"
	require.NoError(t, h.run(t.Context(), []mutant{missed, inRoot}))
	require.Regexp(t, `(?m)^\| missed \| .* \| TestCounter_AdvancesAsTheModel, late \| `, report.String())
	require.Regexp(t, `(?m)^\| in the root package \| .* \| TestCounter_Steps \| `, report.String())
	require.Contains(t, report.String(), "0 not tried, 1 killed late, in ")
}

func TestHunt_NoKillWithoutAFailedTest(t *testing.T) {
	h, report := newHunt(t, "TestMust|TestLog_Steps")
	harmless := mutant{
		name: "harmless", file: "ring.go", old: "const few = 4", new: "const few = 3 + 1", tests: "TestMust",
	}
	broken := harmless
	broken.name, broken.new = "broken", "const few = nothing"
	untested := harmless
	untested.name, untested.tests = "untested", "TestOfNothing"
	err := h.run(t.Context(), []mutant{harmless, broken, untested})
	require.ErrorContains(t, err, "broken: does not compile")
	require.ErrorContains(t, err, "undefined: nothing")
	require.ErrorContains(t, err, "untested: no test matches TestOfNothing")
	require.Contains(t, report.String(), "| harmless |  | **alive** |")
	require.Contains(t, report.String(), "| broken |  | **not tried** |")
	require.Contains(t, report.String(), "3 mutants, 1 alive, 2 not tried")

	require.EqualError(t, h.run(t.Context(), []mutant{harmless}), "alive: harmless")
	nothingLeft(t)
}

// A fault in internal/reference meets the tests of that package, then the tests of the root
// package.
func TestHunt_TriesTheTestsOfTheFilesPackageAndThenThoseOfTheRoot(t *testing.T) {
	h, report := newHunt(t, "TestLog_ChargesDenied|TestMust")
	own := mutant{
		name: "own", file: "internal/reference/reference.go",
		old: "k.window, !l.Log && !l.Parts && l.Precision == 0", new: "k.window, false",
		tests: "TestCounter_DeniesByTheWeightedSum",
	}
	root := own
	root.name, root.tests = "root", "TestAnswers_EqualTheReferences"
	untested := own
	untested.name, untested.tests = "untested", "TestOfNothing"
	require.NoError(t, check(h.tests.root, []mutant{own, root}))
	require.EqualError(t, h.run(t.Context(), []mutant{own, root, untested}), "not tried:\nuntested: no test matches TestOfNothing")
	require.Contains(t, report.String(), "| own |  | TestCounter_DeniesByTheWeightedSum |")
	require.Contains(t, report.String(), "| root |  | TestAnswers_EqualTheReferences |")
	require.Contains(t, report.String(), "3 mutants, 0 alive, 1 not tried")
	nothingLeft(t)
}

// canceling cancels a hunt when it begins to report.
type canceling struct {
	io.Writer
	cancel func()
}

func (c canceling) Write(text []byte) (int, error) {
	c.cancel()
	return c.Writer.Write(text)
}

func TestHunt_LeavesNothingWhenInterrupted(t *testing.T) {
	h, report := newHunt(t, "TestMust")
	ctx, cancel := context.WithCancel(t.Context())
	h.report = canceling{report, cancel}
	require.ErrorIs(t, h.run(ctx, named(t, "counter-two-steps", "counter-hint-without-an-epoch", "log-rewinds")), context.Canceled)
	require.NotContains(t, report.String(), "counter-two-steps")
	nothingLeft(t)
}

func TestCheck_NamesEveryTextThatIsNotThereOnce(t *testing.T) {
	dir := testsOfAll(t, "").root
	twice := mutant{name: "twice", file: "window.go", old: "func "}
	gone := mutant{name: "gone", file: "window.go", old: "no such text"}
	lost := mutant{name: "lost", file: "nowhere.go", old: "x"}
	homeless := mutant{name: "homeless", file: "internal/nowhere/nowhere.go", old: "x"}
	untested := mutant{name: "untested", file: "httplimit/internal/quota/quota.go", old: "package quota\n"}
	fine := named(t, "counter-no-prev")[0]
	err := check(dir, []mutant{twice, gone, lost, homeless, untested, fine, fine})
	require.ErrorContains(t, err, "mutant twice: its text must stand in window.go once, but does ")
	require.ErrorContains(t, err, "mutant gone: its text must stand in window.go once, but does 0 times")
	require.ErrorContains(t, err, "mutant lost: ")
	require.ErrorContains(t, err, "mutant homeless: ")
	require.ErrorContains(t, err, "mutant untested: there are no tests in httplimit/internal/quota\n")
	require.ErrorContains(t, err, "mutant counter-no-prev: another one has that name")
	require.NoError(t, check(dir, []mutant{fine}))
}

func TestCheck_NamesEveryPatternThatMatchesNoTest(t *testing.T) {
	dir := testsOfAll(t, "").root
	fine := named(t, "counter-no-prev")[0]
	with := func(name, tests string) mutant {
		m := fine
		m.name, m.tests = name, tests
		return m
	}
	err := check(dir, []mutant{
		with("gone", "TestOfNothing"), with("half-gone", "TestCounter|TestOfNothing|TestNoMore/case"),
		with("escaped", `TestCounter\|TestLog`), with("tagged", "TestSchedules"), with("broken", "TestCounter("), with("none", ""), fine,
	})
	require.ErrorContains(t, err, "mutant gone: no test matches TestOfNothing\n")
	require.ErrorContains(t, err, "mutant half-gone: no test matches TestOfNothing, TestNoMore/case\n")
	require.ErrorContains(t, err, `mutant escaped: no test matches TestCounter\|TestLog`)
	require.ErrorContains(t, err, "mutant tagged: no test matches TestSchedules\n", "it is not built without its tag")
	require.ErrorContains(t, err, "mutant broken: error parsing regexp: missing closing )")
	require.ErrorContains(t, err, "mutant none: names no test")
	require.NotContains(t, err.Error(), fine.name)
}

// The documents say that there are more than some number of mutants.
func TestMutants_AreAsManyAsTheDocumentsSay(t *testing.T) {
	guarantees, err := os.ReadFile(filepath.Join(testsOfAll(t, "").root, "docs", "guarantees.md"))
	require.NoError(t, err)
	said := regexp.MustCompile(`go run \./fuzz/mutants -list.* \| ([\d,]+) mutants \|`).FindSubmatch(guarantees)
	require.NotNil(t, said, "the guarantees no longer say how many mutants there are")
	n, err := strconv.Atoi(strings.ReplaceAll(string(said[1]), ",", ""))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(mutants), n)
}

func TestFailed_IsTheFirstOrTheOneInWhichItCrashed(t *testing.T) {
	for want, out := range map[string]string{
		"TestB":   "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/x\n--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/x (0.00s)\nFAIL\n",
		"TestC":   "=== RUN   TestB\n--- PASS: TestB (0.00s)\n=== RUN   TestC\n=== RUN   TestC/x\nfatal error: all goroutines are asleep - deadlock!\n",
		"TestD":   "=== RUN   TestD\npanic: test timed out after 1m0s\n\trunning tests:\n\t\tTestD (1m0s)\n",
		"no test": "panic: in an init\n",
	} {
		require.Equal(t, want, failed([]byte(out)))
	}
}

func TestRun_ExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"-list", "-run", "^counter-no-prev$"}, command.OK, "curr does not become prev"},
		{[]string{"-h"}, command.OK, "-race"},
		{[]string{"-run", "("}, command.Usage, "missing closing"},
		{[]string{"-j", "0"}, command.Usage, "-j must be at least 1, got 0"},
		{[]string{"all"}, command.Usage, "no arguments are wanted, got all"},
		{[]string{"-run", "^none$"}, command.Failed, "no mutant's name matches ^none$"},
	} {
		var out bytes.Buffer
		require.Equal(t, c.want, run(t.Context(), c.args, &out, &out), c.args)
		require.Contains(t, out.String(), c.says)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, command.Interrupted, run(ctx, nil, io.Discard, io.Discard))
}

// A hang of a few quick tests is not waited for as long as all tests may take.
func TestTests_HangByTheTimeOfThoseThatRun(t *testing.T) {
	var original tests
	require.Equal(t, 10*time.Minute, original.timeout("."), "no time is known yet")
	original.took = times([]byte("=== RUN   TestSlow\n--- PASS: TestSlow (20.50s)\n    --- PASS: TestSlow/part (19.00s)\n--- PASS: TestQuick (0.10s)\n"))
	require.Equal(t, 103*time.Second, original.timeout("."))
	require.Equal(t, 102500*time.Millisecond, original.timeout("Slow"))
	require.Equal(t, time.Minute, original.timeout("^TestQuick$"))
}
