package sash

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

// TestModel runs random programs of calls on a limiter, and compares every answer with the answer of
// package reference. A program draws its options from modelOptions and its calls from
// modelCalls, so any of them meet.
//
// A program is a function of its seed. SASH_MODEL_SEED=N in the environment runs the program
// with seed N alone, and logs its steps. SASH_MODEL_PROGRAMS=N runs those with seeds 1 to N.
//
// It does not reach these:
//   - Calls that run at the same time, but for those that wait: see [TestModel_Concurrent].
//   - SystemClock and CoarseClock: time stands still between steps, or a program cannot be
//     repeated.
//   - Tables of more than 64 keys under WithMaxKeys. They are sampled, so it is not known which
//     key is evicted.
//   - The order in which calls that wait for different keys overtake each other. Those that wait
//     for the same keys are admitted in the order in which they came. Any is admitted as soon as
//     its keys admit it, if no earlier call waits for any of them.
//   - What is left of a log, buckets or a counter whose units are given back, or whose Count changes,
//     where denied calls are charged. The reference does not define it.
//   - What limits change into that differ in more than Count and Burst from all that were there
//     before, for a key that is tracked.
func TestModel(t *testing.T) { runModel(t, 5000, runProgram) }

// runModel runs programs, those with the seeds 1 to n by default. It shrinks the first that
// fails.
func runModel(t *testing.T, n int, run func(t *testing.T, p modelProgram) *modelResult) {
	withDirectRefunds(t, 0) // so that small logs have refunds, too
	if text := os.Getenv("SASH_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		if r := run(t, modelProgram{seed: seed}); r.failed() {
			t.Log(strings.Join(r.steps, "\n"))
			t.Fatal(r.failure)
		} else {
			t.Log(strings.Join(r.steps, "\n"))
		}
		return
	}
	programs := uint64(modelPrograms(t, n))
	var next atomic.Uint64
	var mu sync.Mutex
	var failed *modelResult
	crossed := newCrossings()
	t.Run("programs", func(t *testing.T) {
		for worker := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= programs; seed = next.Add(1) {
					r := run(t, modelProgram{seed: seed})
					mu.Lock()
					crossed.add(r)
					if r.failed() && (failed == nil || seed < failed.program.seed) {
						failed = r
						next.Store(programs) // the others end
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Log(crossed)
	if failed != nil {
		shrunk := failed.shrink(t, run)
		t.Fatalf("seed %d: %s\n\nThe program, without the steps that make no difference:\n%s\n\nSASH_MODEL_SEED=%d go test -run '^%s$' .",
			failed.program.seed, shrunk.failure, strings.Join(shrunk.lastSteps(40), "\n"), failed.program.seed, t.Name())
	}
}

// modelPrograms returns the number of programs to run.
func modelPrograms(t *testing.T, n int) int {
	if text := os.Getenv("SASH_MODEL_PROGRAMS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	if race.Enabled || yielding {
		return shortened(n / 5)
	}
	return shortened(n)
}

// A modelProgram is a program, without the steps that are left out.
type modelProgram struct {
	seed    uint64
	without []int // sorted
}

// leaves reports whether the step of that number is left out.
func (p modelProgram) leaves(step int) bool {
	_, left := slices.BinarySearch(p.without, step)
	return left
}

// A modelResult is what became of a program.
type modelResult struct {
	program  modelProgram
	features []string       // the options and algorithms that it drew
	calls    map[string]int // how often it made each call
	ran      []int          // the numbers of its steps
	steps    []string       // what they did, for a reader
	failure  string
}

func (r *modelResult) failed() bool { return r.failure != "" }

func (r *modelResult) lastSteps(n int) []string { return r.steps[max(0, len(r.steps)-n):] }

// shrink leaves steps of a program that fails out, as long as it fails.
func (r *modelResult) shrink(t *testing.T, run func(*testing.T, modelProgram) *modelResult) *modelResult {
	runs := 0
	for size := len(r.ran) / 2; size > 0; size /= 2 {
		for from := 0; from < len(r.ran) && runs < 500; runs++ {
			drop := r.ran[from:min(from+size, len(r.ran))]
			without := append(slices.Clone(r.program.without), drop...)
			slices.Sort(without)
			if next := run(t, modelProgram{r.program.seed, without}); next.failed() {
				r = next
			} else {
				from += size
			}
		}
	}
	return r
}

// A program may make every call, and give every option.
func TestModel_KnowsEveryCallAndOption(t *testing.T) {
	var calls []string
	for _, c := range modelCalls {
		calls = append(calls, c.name)
	}
	calls = append(calls, modelChecks...)
	for _, of := range []reflect.Type{reflect.TypeFor[*Limiter](), reflect.TypeFor[Reservation](), reflect.TypeFor[*ManualClock]()} {
		for i := range of.NumMethod() {
			name := strings.TrimPrefix(strings.TrimPrefix(of.String(), "*"), "sash.") + "." + of.Method(i).Name
			require.Contains(t, calls, name, "no program makes this call")
		}
	}

	var options, constants []string
	for _, o := range modelOptions {
		options = append(options, o.name)
	}
	for a := range modelAlgorithms {
		constants = append(constants, Algorithm(a).String())
	}
	constants = slices.AppendSeq(constants, maps.Values(modelOverflows))
	exported, ofType := exportedOf(t)
	for _, name := range exported {
		require.Contains(t, options, name, "no program gives this option")
	}
	require.ElementsMatch(t, constants, ofType, "no program uses these constants")
}

// exportedOf returns the functions of the package that return an Option, and the constants of the
// types Algorithm and Overflow.
func exportedOf(t *testing.T) (options, constants []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.IsExported() && d.Type.Results != nil && types.ExprString(d.Type.Results.List[0].Type) == "Option" {
					options = append(options, d.Name.Name)
				}
			case *ast.GenDecl:
				constants = append(constants, constantsOf(d)...)
			}
		}
	}
	return options, constants
}

// constantsOf returns the constants of d if the first is of the type Algorithm or Overflow.
func constantsOf(d *ast.GenDecl) (constants []string) {
	first, ok := d.Specs[0].(*ast.ValueSpec)
	if !ok || d.Tok != token.CONST || first.Type == nil || !slices.Contains([]string{"Algorithm", "Overflow"}, types.ExprString(first.Type)) {
		return nil
	}
	for _, spec := range d.Specs {
		for _, name := range spec.(*ast.ValueSpec).Names {
			constants = append(constants, name.Name)
		}
	}
	return constants
}

// crossings counts which calls met which options in the programs.
type crossings struct {
	programs, calls int
	met             map[string]int // "option option" or "option call"
}

func newCrossings() *crossings { return &crossings{met: map[string]int{}} }

func (c *crossings) add(r *modelResult) {
	c.programs++
	for i, feature := range r.features {
		for _, other := range r.features[:i] {
			c.met[other+" "+feature]++
		}
		for call := range r.calls {
			c.met[feature+" "+call]++
		}
	}
	for _, n := range r.calls {
		c.calls += n
	}
}

func (c *crossings) String() string {
	rare := 0
	for _, n := range c.met {
		if n < 10 {
			rare++
		}
	}
	return fmt.Sprintf("%d programs, %d calls; %d pairs of options, or of an option and a call, %d of them in fewer than 10 programs",
		c.programs, c.calls, len(c.met), rare)
}
