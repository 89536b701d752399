package clienttest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/sashredis"
)

// Random programs of processes that share a store are answered by the exact model.
//
// A program draws its limits, its processes with their options, and steps: all calls of the
// package, alone and at once, with all kinds of contexts, and what happens around them. Round trips
// are late, lost, cut before and after the script has run, run twice, or a Conn panics. The store
// forgets keys, or its clock is set, and it runs faster or slower than the clock of the processes. Limits
// change, and functions of the user panic. Time is simulated. The rules are:
//   - Each script does, at the time of the store, what the exact model does. Each answer that
//     the store gave is the model's, in all its fields.
//   - What the mirror denies, the store would deny, and its wait is long enough, unless the key has
//     become less by what WithMirror names.
//   - Units of a lease are used once, before its end, or given back once. What is used is within
//     the exact rule by itself.
//   - What a fallback admits is within the exact rule of its shares.
//   - Each charge belongs to one call: one that was admitted, or that may have been by its error.
//   - Each call ends by its context and its time-outs, to the nanosecond.
//   - The breaker is open only after as many failures of the store in a row. Deadlines of callers
//     are none. A store that answers is in use again.
//   - A panic of a function of the user, or of the Conn, reaches the caller.
//   - The memory of a request is not kept, although keys are parts of it.
//
// It does not reach the clients, their adapters and clusters, which the faults and losses of this
// package test. No key is so far ahead of the store's clock that it begins anew: see TestMaxAhead. Of
// a token bucket that was leased, or was given back units while the clock was late, only what is used
// is checked. What a fallback admits is not checked once the store's clock was set.
func TestModel(t *testing.T) {
	if text := os.Getenv("SASH_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		result := runProgram(t, seed, nil, true)
		t.Logf("%s\n%s", strings.Join(result.log, "\n"), result.settings)
		require.Empty(t, result.fault)
		return
	}
	programs := 600
	if race.Enabled || testing.Short() && os.Getenv("SASH_ALL_STEPS") == "" {
		programs = 150
	}
	if text := os.Getenv("SASH_MODEL_PROGRAMS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		programs = n
	}
	s := runPrograms(t, uint64(programs))
	t.Log(s)
	if !t.Failed() && programs >= 600 {
		s.requireAll(t)
	}
}

// A survey is what some programs have done.
type survey struct {
	mu       sync.Mutex
	programs int
	crossed  map[string]int
	decided  [4]int64
}

// runPrograms runs the programs of seeds 1 to n, several at once.
func runPrograms(t *testing.T, n uint64) *survey {
	s := &survey{crossed: map[string]int{}}
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1); seed <= n && !t.Failed(); seed = next.Add(1) {
				result := runProgram(t, seed, nil, false)
				if result.fault != "" {
					explainFault(t, seed, result.fault)
				}
				s.add(result)
			}
		})
	}
	workers.Wait()
	return s
}

func (s *survey) add(r *result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.programs++
	for what, n := range r.crossed {
		s.crossed[what] += n
	}
	for by, n := range r.decided {
		s.decided[by] += n
	}
}

func (s *survey) String() string {
	calls, pairs := 0, 0
	var verbs []string
	for _, what := range sortedKeys(s.crossed) {
		if strings.Contains(what, "×") {
			pairs++
			continue
		}
		calls += s.crossed[what]
		verbs = append(verbs, fmt.Sprintf("%s %d", what, s.crossed[what]))
	}
	return fmt.Sprintf("%d programs of %d steps: %s; %d pairs of steps and options of %d; decided by the store %d, the mirror %d, leases %d, fallbacks %d",
		s.programs, calls, strings.Join(verbs, ", "), pairs, len(modelCalls)*len(modelOptions), s.decided[0], s.decided[1], s.decided[2], s.decided[3])
}

// requireAll requires that each step was crossed with each option.
func (s *survey) requireAll(t *testing.T) {
	for verb := range modelCalls {
		for option := range modelOptions {
			require.Positive(t, s.crossed[verb+" × "+option], "%s with %s: not tested", verb, option)
		}
	}
	for by, n := range s.decided {
		require.Greater(t, n, int64(100), "decided by %v", sashredis.By(by))
	}
}

// A result is how a program has ended.
type result struct {
	fault    string
	log      []string
	settings string
	steps    []step
	crossed  map[string]int
	decided  [4]int64
}

// runProgram runs the program of a seed, with its steps, or some of them.
func runProgram(t *testing.T, seed uint64, steps []step, verbose bool) (r *result) {
	r = &result{}
	var p *program
	defer func() {
		if fault := recover(); fault != nil { // as when no call of a bubble goes on
			r.fault = fmt.Sprint(fault)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		p = newProgram(seed)
		p.verbose = verbose
		if all := p.steps(); steps == nil {
			steps = all
		}
		p.run(steps)
	})
	r.fault, r.log, r.steps, r.crossed = p.fault, p.log, steps, p.crossed
	for _, q := range p.processes {
		r.settings += fmt.Sprintf("%s: %+v\n", q.name, q.settings)
		for by, n := range q.decided {
			r.decided[by] += n
		}
	}
	if r.fault == "" {
		r.fault = p.keeps()
	}
	return r
}

// explainFault reports how the program of a seed fails, with as few steps as are found to.
func explainFault(t *testing.T, seed uint64, fault string) {
	worst := runProgram(t, seed, nil, true)
	if worst.fault == "" {
		t.Errorf("the program of seed %d: %s\nIt did not repeat: events of one instant come in any order.", seed, fault)
		return
	}
	steps := worst.steps
	for size := (len(steps) + 1) / 2; size > 0; size /= 2 {
		for i := 0; i+size <= len(steps); {
			fewer := slices.Concat(steps[:i], steps[i+size:])
			if r := runProgram(t, seed, fewer, true); r.fault != "" {
				worst, steps = r, fewer
			} else {
				i += size
			}
		}
	}
	t.Errorf("the program of seed %d: %s\nwith %d steps:\n%s\n%s\nAll of its steps: SASH_MODEL_SEED=%d go test -v -run 'TestModel$' ./sashredis/internal/clienttest",
		seed, worst.fault, len(steps), strings.Join(worst.log[max(len(worst.log)-60, 0):], "\n"), worst.settings, seed)
}

// The model knows each call and each option of the package.
func TestModel_KnowsAllCallsAndOptions(t *testing.T) {
	calls := map[string]bool{}
	for of, prefix := range map[reflect.Type]string{reflect.TypeFor[*sashredis.Limiter](): "", reflect.TypeFor[sashredis.Reservation](): "Reservation."} {
		for i := range of.NumMethod() {
			calls[prefix+of.Method(i).Name] = true
		}
	}
	for call := range calls {
		require.Contains(t, modelCalls, call)
	}
	options := map[string]bool{}
	for _, name := range functionsThatReturn(t, "../..", "Option") {
		options[name] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(options)), slices.Collect(maps.Keys(modelOptions)))
}

// functionsThatReturn returns the exported functions of the package in dir with one result of that type.
func functionsThatReturn(t *testing.T, dir, result string) (names []string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !f.Name.IsExported() || f.Type.Results == nil {
				continue
			}
			if id, ok := f.Type.Results.List[0].Type.(*ast.Ident); ok && id.Name == result {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// keeps returns a fault if the limiters of p keep memory of callers. Now and then, it looks.
func (p *program) keeps() string {
	if p.seed%50 != 0 {
		return ""
	}
	for range 100 { // other programs run meanwhile
		runtime.GC()
		if p.freed.Load() {
			runtime.KeepAlive(p.processes)
			return ""
		}
	}
	return "limiters keep the memory that keys were parts of"
}
