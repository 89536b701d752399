package clientmodel

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

// Test runs programs against the clients and servers of a protocol, and compares each call with
// what the reference says.
//
// Under -short fewer run, unless SASH_ALL_STEPS is set. SASH_MODEL_PROGRAMS is how many programs run, in place of the given number. SASH_MODEL_SEED is
// the seed of the only one that runs, and that logs its calls.
func Test(t *testing.T, p *Protocol, programs int64) {
	if seed := number(t, "SASH_MODEL_SEED"); seed > 0 {
		program := Generate(p, seed)
		t.Log(program)
		fault, got := check(t, p, program)
		t.Logf("ambiguous: %v", program.ambiguous)
		for i, c := range got {
			t.Logf("call %d: %v", i, &c.Outcome)
		}
		if fault != "" {
			t.Fatal(fault)
		}
		return
	}
	if testing.Short() && os.Getenv("SASH_ALL_STEPS") == "" {
		programs /= 4
	}
	if race.Enabled {
		programs /= 2
	}
	if n := number(t, "SASH_MODEL_PROGRAMS"); n > 0 {
		programs = n
	}
	var next, failed atomic.Int64
	c, name := newCoverage(), t.Name()
	t.Run("programs", func(t *testing.T) {
		for i := range runtime.GOMAXPROCS(0) {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= programs && failed.Load() == 0; seed = next.Add(1) {
					program := Generate(p, seed)
					fault, got := check(t, p, program)
					if fault != "" && failed.Add(1) == 1 {
						report(t, name, p, program, fault)
					}
					c.add(p, program, got)
				}
			})
		}
	})
	c.log(t, p)
}

// number returns the number in a variable of the environment, or 0.
func number(t *testing.T, name string) int64 {
	text := os.Getenv(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// check runs a program, and returns the first call that does not go as the reference says.
func check(t *testing.T, p *Protocol, program *Program) (fault string, got []*real) {
	want := simulate(p, program)
	synctest.Test(t, func(*testing.T) { got = run(p, program) })
	if program.ambiguous {
		return "", got
	}
	for i, c := range got {
		if d := differ(&c.Outcome, want[i]); d != "" {
			return fmt.Sprintf("call %d\n%s", i, d), got
		}
	}
	return "", got
}

// report fails with a program that has fewer calls, if it fails with these as well.
func report(t *testing.T, name string, p *Protocol, program *Program, fault string) {
	for again := true; again; {
		again = false
		for i := range program.Calls {
			fewer := *program
			fewer.Calls = slices.Delete(slices.Clone(program.Calls), i, i+1)
			for j := range fewer.Calls {
				fewer.Calls[j].ID = j
			}
			if f, _ := check(t, p, &fewer); f != "" {
				program, fault, again = &fewer, f, true
				break
			}
		}
	}
	t.Errorf("seed %d, with the calls that it takes:\n%v%s\nrepeat it: SASH_MODEL_SEED=%d go test -run '%s'",
		program.Seed, program, fault, program.Seed, name)
}

// A coverage counts what programs have crossed.
type coverage struct {
	mu                         sync.Mutex
	programs, ambiguous, calls int
	pairs                      map[string]int
	replies                    map[ReplyKind]int
}

func newCoverage() *coverage { return &coverage{pairs: map[string]int{}, replies: map[ReplyKind]int{}} }

func (c *coverage) add(p *Protocol, program *Program, got []*real) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.programs++
	if program.ambiguous {
		c.ambiguous++
	}
	features := program.features()
	for _, call := range got {
		c.calls++
		c.replies[call.Reply.Kind]++
		all := slices.Concat(features, call.features(p))
		for i, a := range all {
			for _, b := range all[:i] {
				c.pairs[b+" × "+a]++
			}
		}
	}
}

func (c *coverage) log(t *testing.T, p *Protocol) {
	t.Logf("%d programs, %d of them without a verdict, %d calls, %d pairs of options and calls; replies %v",
		c.programs, c.ambiguous, c.calls, len(c.pairs), c.replies)
	if c.programs >= 100 && c.ambiguous*20 > c.programs {
		t.Errorf("%d of %d programs have no verdict", c.ambiguous, c.programs)
	}
}

// features returns what is special about a program.
func (p *Program) features() []string {
	names := p.Settings.features()
	if slices.ContainsFunc(p.Policies, func(policy Policy) bool { return policy.Limit.Algorithm == sash.SlidingParts }) {
		names = append(names, "policy of parts")
	}
	if slices.ContainsFunc(p.Policies, func(policy Policy) bool { return policy.Limit.Algorithm == sash.Concurrency }) {
		names = append(names, "policy that holds")
	}
	return names
}

// features returns the settings that are not the default.
func (s *Settings) features() (names []string) {
	for name, set := range map[string]bool{
		"Store": s.Store, "slow Store": s.Lag > 0, "Key": s.Key != "", "Cost": s.Cost, "NoWait": s.NoWait, "MaxHold": s.MaxHold != 0, "MaxHeld": s.MaxHeld != 0,
		"Base": s.Base, "Limiter that denies": s.Limits[0] != generous,
		"Limiter that holds": s.holdsUnits(),
		"Limiter of parts":   s.Limits[0] != generous && s.Limits[0].Algorithm == sash.SlidingParts,
	} {
		if set {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// features returns what is special about a call.
func (c *Call) features(p *Protocol) []string {
	names := []string{p.Kinds[c.Kind], c.Answer.Class.String()}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"Deadline", c.Deadline > 0}, {"Cancel", c.Cancel > 0}, {"Ended", c.Cancel < 0}, {"Late", c.Late > 0}, {"Again", c.Again > 0}, {"Body", c.Body > 0},
		{"RetryInfo", c.Answer.RetryInfo.Present()}, {"Pushback", c.Answer.Pushback.Present()},
		{"RetryAfter", c.Answer.RetryAfter.Present()}, {"RateLimit", c.Answer.RateLimit.Present()}, {"policies", c.Host%2 == 0},
	} {
		if f.set {
			names = append(names, f.name)
		}
	}
	return names
}
