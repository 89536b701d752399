package sash

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A crowd runs goroutines that call a limiter at the same time. It is the clock of the
// limiter, and yields after a quarter of the readings. Until enough calls have overlapped, a
// call that is alone waits for another call after it has read the clock. So calls overlap
// under any scheduling, with readings that are late.
type crowd struct {
	*ManualClock
	callers  atomic.Int64 // callers that run has started and that have not returned
	inside   atomic.Int64 // calls under way
	overlaps atomic.Int64 // calls that began while others were under way
	waiting  atomic.Int64 // goroutines in meet
	yields   atomic.Int64 // yields of all goroutines in meet
}

const (
	callers        = 8
	enoughOverlaps = 100
	maxYields      = 1 << 24 // take some seconds, and are reached only if no calls overlap
	maxLooks       = 1 << 26 // of a loop that goes on until others are done: take minutes
)

func (c *crowd) Now() int64 {
	now := c.ManualClock.Now()
	if c.overlaps.Load() <= enoughOverlaps {
		c.meet()
	}
	if rand.IntN(4) == 0 {
		runtime.Gosched()
	}
	return now
}

// meet waits while only one call is under way, until another call begins. It does not wait
// if every caller that has not returned waits here, because then none can begin a call. It
// gives up after maxYields yields of all callers together, so that a test whose calls cannot
// overlap ends.
func (c *crowd) meet() {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	begun := c.overlaps.Load()
	for c.inside.Load() == 1 && c.overlaps.Load() == begun && c.waiting.Load() < c.callers.Load() {
		if c.yields.Add(1) > maxYields {
			return
		}
		runtime.Gosched()
	}
}

// call runs f and counts it as a call.
func (c *crowd) call(f func()) {
	if c.inside.Add(1) > 1 {
		c.overlaps.Add(1)
	}
	f()
	c.inside.Add(-1)
}

// run runs f in every caller and waits for all of them.
func (c *crowd) run(f func(caller int)) { c.runSome(callers, f) }

// runSome is like run, with that number of callers.
func (c *crowd) runSome(callers int, f func(caller int)) {
	c.callers.Add(int64(callers)) // before any caller starts, so that the first waits for the others
	var g errgroup.Group
	for i := range callers {
		g.Go(func() error {
			defer c.callers.Add(-1)
			f(i)
			return nil
		})
	}
	g.Wait() // no caller returns an error
}

// contended fails the test if too few calls have overlapped.
func (c *crowd) contended(t require.TestingT) {
	require.Greater(t, c.overlaps.Load(), int64(enoughOverlaps), "no contention: this test has shown nothing")
}

// everyCrowd runs test for each kind of entry that can keep limit, with a crowd as the clock.
// It fails if too few calls have overlapped.
func everyCrowd(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, c *crowd), options ...Option) {
	t.Helper()
	run := func(t *testing.T, l *Limiter, clock *ManualClock) {
		c := &crowd{ManualClock: clock}
		l.clock = c
		test(t, l, c)
		c.contended(t)
	}
	everyKind(t, limit, run, options...)
	t.Run("observed", func(t *testing.T) { // which keeps all calls off the fast paths
		everyKind(t, limit, run, append([]Option{WithObserver(func(string, int64, Decision) {})}, options...)...)
	})
}

func TestRace_OneKeyAdmitsExactlyCount(t *testing.T) {
	everyCrowd(t, PerMinute(5000), func(t *testing.T, l *Limiter, c *crowd) {
		var admitted atomic.Int64
		c.run(func(int) {
			for range 1000 {
				c.call(func() {
					if l.Allow("k") {
						admitted.Add(1)
					}
				})
			}
		})
		require.EqualValues(t, 5000, admitted.Load())
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
		require.Equal(t, 1, l.Len())
	})
}

// Calls of different costs, on a log that grows: each admitted cost is charged, and each
// denied cost would not have fitted.
func TestRace_CostsAddUpToWhatIsCharged(t *testing.T) {
	const count = 10_000
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var charged atomic.Int64
		c.run(func(caller int) {
			rng := rand.New(rand.NewPCG(uint64(caller), 1))
			for range 1000 {
				n := 1 + rng.Int64N(7)
				c.call(func() {
					if c.Advance(1); l.Take("k", n).Allowed {
						charged.Add(n)
					}
				})
			}
		})
		require.EqualValues(t, count-charged.Load(), l.Peek("k", 0).Remaining)
		require.Less(t, l.Peek("k", 0).Remaining, int64(7), "no cost was denied that fitted")
	})
}

// Several callers insert each of many new keys while the table grows.
func TestRace_ManyKeysAdmitExactlyCountEach(t *testing.T) {
	const keys, count = 2000, 3
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var admitted [keys]atomic.Int64
		c.run(func(caller int) {
			rng := rand.New(rand.NewPCG(uint64(caller), 2))
			for range 2 {
				for _, i := range rng.Perm(keys) {
					c.call(func() {
						if l.AllowBytes(strconv.AppendInt(nil, int64(i), 10)) {
							admitted[i].Add(1)
						}
					})
				}
			}
		})
		for i := range admitted {
			require.EqualValues(t, count, admitted[i].Load(), "key %d", i)
		}
		require.Equal(t, keys, l.Len())
	})
}

// Each round is at one instant, and sweeps run between its calls. Each round admits exactly
// the units for which the reference has room.
func TestRace_SweepsLoseNothing(t *testing.T) {
	const keys, count = 5, 40
	rounds := shortened(crowded(200))
	evictions := rounds / 4
	if yielding {
		evictions = 0 // a sweep is slow, and hardly reaches an idle key before it is charged
	}
	for _, size := range []time.Duration{time.Minute, 3 * time.Microsecond} {
		t.Run(size.String(), func(t *testing.T) {
			everyCrowd(t, Per(count, size), func(t *testing.T, l *Limiter, c *crowd) {
				model := make([]*reference.Key, keys)
				for i := range model {
					model[i] = reference.Named(modelOf(l.rule().Limit, false), strconv.Itoa(i))
				}
				// Rounds go on until enough sweeps have met a call: how often that is depends on the load.
				evicting := func() bool { return l.Stats().Evicted >= uint64(evictions) }
				for round := 0; round < rounds || !evicting() && round < 20*rounds; round++ {
					c.Advance(time.Duration(rand.Int64N(int64(size)*4) + 1))
					var admitted [keys]atomic.Int64
					c.run(func(caller int) {
						for i, k := range rand.Perm(keys * 8) {
							if (i+caller)%callers == 0 {
								l.Sweep()
							}
							c.call(func() {
								if l.Allow(strconv.Itoa(k % keys)) {
									admitted[k%keys].Add(1)
								}
							})
						}
					})
					for i := range admitted {
						room := model[i].Peek(c.ManualClock.Now(), 0).Remaining
						require.Equal(t, min(room, 8*callers), admitted[i].Load(), "round %d, key %d", round, i)
						model[i].Take(c.ManualClock.Now(), admitted[i].Load())
					}
				}
				require.True(t, evicting(), "no eviction under way: this test has shown nothing")
			})
		})
	}
}

// Over many windows, readings from before another caller moved the clock admit no unit twice.
// If each late reading did, more than the bound would be admitted.
func TestRace_LateReadingsAdmitNothingTwice(t *testing.T) {
	const count, size, windows = 10, 1000, 200
	everyCrowd(t, Per(count, size), func(t *testing.T, l *Limiter, c *crowd) {
		var total atomic.Int64
		c.run(func(int) {
			for c.ManualClock.Now() < windows*size {
				c.call(func() {
					c.Advance(1)
					if l.Allow("k") {
						total.Add(1)
					}
				})
			}
		})
		require.LessOrEqual(t, total.Load(), int64(count*(windows+1)))
		require.Greater(t, total.Load(), int64(count*windows/3))
	})
}

func TestRace_ResetsAndPeeksBetween(t *testing.T) {
	const count = 40 // fewer than the calls of caller 0 after its last reset
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var admitted, resets atomic.Int64
		c.run(func(caller int) {
			for i := range 1000 {
				c.call(func() {
					switch {
					case caller == 0 && i%50 == 0:
						if l.Reset("k") {
							resets.Add(1)
						}
					case caller == 1:
						d := l.Peek("k", 1)
						if d.Remaining < 0 || d.Remaining > count-1 || d.Allowed == (d.RetryAfter > 0) {
							t.Errorf("torn: %+v", d)
						}
					case l.Allow("k"):
						admitted.Add(1)
					}
				})
			}
		})
		// Each quota that a reset ended may have been used up or not; the last one is.
		require.LessOrEqual(t, admitted.Load(), count*(resets.Load()+1))
		require.GreaterOrEqual(t, admitted.Load(), int64(count))
		require.Greater(t, resets.Load(), int64(1))
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	})
}

// Denied attempts are charged up to Count, and not above. The clock stands still.
func TestRace_ChargeDeniedSaturates(t *testing.T) {
	everyCrowd(t, PerMinute(100), func(t *testing.T, l *Limiter, c *crowd) {
		var admitted atomic.Int64
		c.run(func(int) {
			for range 500 {
				c.call(func() {
					if l.Take("k", 1).Allowed {
						admitted.Add(1)
					}
				})
			}
		})
		require.EqualValues(t, 100, admitted.Load())
		d := l.Peek("k", 0)
		require.EqualValues(t, 0, d.Remaining)
		require.True(t, d.Allowed, "charged up to Count, not above: %v", d)
	}, WithChargeDenied())
}

// Most of the calls follow each other without a pause, so that some contend for the word
// itself. An admission after a lost compare-and-swap would not be charged.
func TestRace_TightLoopsLoseNoAdmission(t *testing.T) {
	const count, calls = 100_000, 20_000
	enough := int64(crowded(20_000))
	everyKind(t, Per(count, 365*24*time.Hour), func(t *testing.T, l *Limiter, _ *ManualClock) {
		var last, turns atomic.Int64 // turns: times that another caller had called since
		for round := 0; round < 500 && turns.Load() < enough; round++ {
			var c crowd
			var admitted atomic.Int64
			key := strconv.Itoa(round)
			c.run(func(caller int) {
				n := int64(0)
				for i := range calls {
					admitted := false
					switch i % 3 {
					case 0:
						admitted = l.Allow(key)
					case 1:
						admitted = l.Take(key, 1).Allowed
					default: // it has no fast path
						d, _ := l.TakeThenPeek(key, 1)
						admitted = d.Allowed
					}
					if admitted {
						n++
					}
					if i%64 > 0 {
						continue
					}
					if last.Swap(int64(caller)) != int64(caller) {
						turns.Add(1)
					}
					runtime.Gosched() // to the other callers, if there is one core
				}
				admitted.Add(n)
			})
			require.EqualValues(t, count, admitted.Load())
		}
		require.GreaterOrEqual(t, turns.Load(), enough, "no contention: this test has shown nothing")
	})
}

// A writer repeats the steps that a twin of the limiter has made before. Each answer of the
// readers is the one before a step or the one after it, never one between.
func TestRace_PeeksSeeOneState(t *testing.T) {
	costs := [...]int64{0, 1, 5, 20, 39, 40}
	type step struct {
		at            int64
		before, after [len(costs)]Decision
	}
	peeks := func(l *Limiter) (all [len(costs)]Decision) {
		for i, n := range costs {
			all[i] = l.Peek("k", n)
		}
		return all
	}
	test := func(t *testing.T, twin *Limiter, clock *ManualClock) {
		var now atomic.Pointer[step]
		now.Store(&step{before: peeks(twin), after: peeks(twin)})
		options := []Option{WithClock(clockFunc(func() int64 { return now.Load().at }))}
		for i := range twin.own().rules {
			options = append(options, twin.own().rules[i].Limit)
		}
		l := newTest(t, options...)
		l.own().kind = twin.own().kind
		l.own().fresh = l.own().newEntry("")

		var done atomic.Bool
		var seen atomic.Int64 // answers during a step
		var c crowd
		c.run(func(caller int) {
			if caller == 0 {
				defer done.Store(true)
				for i := 0; i < 1_000_000 && seen.Load() < 10_000 && !t.Failed(); i++ {
					clock.Advance(time.Duration(rand.Int64N([]int64{200, 2500}[rand.IntN(2)])*rand.Int64N(2)) * time.Microsecond)
					s := &step{at: clock.Now(), before: peeks(twin)}
					n := 1 + rand.Int64N(40)
					want := twin.Take("k", n)
					s.after = peeks(twin)
					now.Store(s)
					if got := l.Take("k", n); got != want {
						t.Errorf("Take(%d) at %d: got %+v, want %+v", n, s.at, got, want)
					}
				}
				return
			}
			for looks := 0; looks < maxLooks && !done.Load(); looks++ {
				for i, n := range costs {
					s := now.Load()
					d := l.Peek("k", n)
					if now.Load() != s {
						continue
					}
					if d != s.before[i] && d != s.after[i] {
						t.Errorf("Peek(%d) at %d: got %+v, want %+v or %+v", n, s.at, d, s.before[i], s.after[i])
						return
					}
					if s.before[i] != s.after[i] {
						seen.Add(1)
					}
				}
			}
		})
		if !t.Failed() { // a failure ends the loop early
			require.GreaterOrEqual(t, seen.Load(), int64(10_000), "no contention: this test has shown too little")
		}
	}
	everyKind(t, Per(40, time.Millisecond), test) // parts of a Window below 3.6 microseconds do not fit into a word
	t.Run("several limits", func(t *testing.T) {  // each has the least left while the next is not charged yet
		clock := NewManualClock(0)
		test(t, newTest(t, Per(42, 900*time.Microsecond), Per(41, 1100*time.Microsecond).Log(), Per(40, time.Millisecond), WithClock(clock)), clock)
	})
}

// All callers start each new window together. All units that they take fit.
func TestRace_WindowsStartTogether(t *testing.T) {
	const each = 10
	rounds := crowded(3000)
	const step = 2 * int64(time.Millisecond)
	everyKind(t, Per(callers*each, time.Millisecond), func(t *testing.T, l *Limiter, clock *ManualClock) {
		var c crowd
		var arrived, last, turns atomic.Int64
		c.run(func(caller int) {
			for round := range int64(rounds) {
				// The last caller to arrive moves the clock, on which the others wait.
				if arrived.Add(1) == (round+1)*callers {
					clock.Set((round + 1) * step)
				}
				for clock.Now() < (round+1)*step {
					runtime.Gosched()
				}
				for i := range each {
					if !l.Allow("k") {
						t.Errorf("denied in round %d", round)
					}
					if last.Swap(int64(caller)) != int64(caller) {
						turns.Add(1)
					}
					if i == each/2 {
						runtime.Gosched() // to the other callers, if there is one core
					}
				}
			}
		})
		// If the callers ran one after the other, there would be callers turns in a round.
		require.Greater(t, turns.Load(), int64(callers*rounds+crowded(100)), "no contention: this test has shown nothing")
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	})
}

// Two calls insert the first two keys of one shard at the same time. Neither key is lost in a
// table of the shard that another table has replaced.
func TestRace_ShardsAreMadeOnce(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for range 2000 {
		l := newTest(t, PerMinute(1), WithClock(c))
		names := []string{"0"}
		for i := 1; len(names) < 2; i++ {
			if name := strconv.Itoa(i); l.key(name).shard() == l.key("0").shard() {
				names = append(names, name)
			}
		}
		var ready atomic.Int64
		c.runSome(len(names), func(caller int) {
			for ready.Add(1); ready.Load() < 2; {
				runtime.Gosched()
			}
			c.call(func() { l.Allow(names[caller]) })
		})
		require.Equal(t, 2, l.Len())
	}
	c.contended(t)
}

// Sweeps shrink the ring of a burst while units are charged. No unit is lost.
func TestRace_LogsShrinkDuringCharges(t *testing.T) { shrinkDuringCharges(t) }

func TestRace_LogsUnderSeveralLimitsShrinkDuringCharges(t *testing.T) {
	shrinkDuringCharges(t, Per(1<<29, time.Hour).Counter())
}

func shrinkDuringCharges(t *testing.T, others ...Option) {
	const count, burst = int64(1000), 100
	clock := NewManualClock(0)
	l := newTest(t, append([]Option{Per(count, 1000).Log(), WithClock(clock)}, others...)...)
	var done atomic.Bool
	var shrunk int
	var g errgroup.Group
	defer g.Wait()
	defer done.Store(true) // also if the test fails
	g.Go(func() error {
		for looks := 0; looks < maxLooks && !done.Load(); looks++ {
			l.Sweep()
		}
		return nil
	})
	for round := 0; round < 3000 || round < 300_000 && shrunk <= 20; round++ {
		for range burst {
			clock.Advance(1)
			l.Allow("k")
		}
		full := ringOf(l, "k").room()
		clock.Advance(1000)
		for i := range int64(40) {
			clock.Advance(1)
			require.True(t, l.Allow("k"))
			require.Equal(t, count-i-1, l.Peek("k", 0).Remaining)
			if i%8 == 0 {
				runtime.Gosched() // to the sweeper, if there is one core
			}
		}
		if ringOf(l, "k").room() < full {
			shrunk++
		}
	}
	require.Greater(t, shrunk, 20, "no ring shrank: this test has shown nothing")
}

// Eight callers make random calls under random limits, for sets of keys, and settle
// reservations to more and to less. At the end each limit of each key holds exactly the sum
// of the units admitted and not given back.
func TestRace_EveryLimitHoldsTheSumOfWhatWasAdmitted(t *testing.T) {
	const keys = 5
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := &crowd{ManualClock: NewManualClock(500)}
		options := []Option{WithClock(c)}
		limits := 1 + rng.IntN(4)
		for range limits {
			limit := randomLimit(rng)
			limit.Count = 500 + rng.Int64N(3000)
			options = append(options, limit)
		}
		l := newTest(t, options...)
		var admitted [keys]atomic.Int64
		var denied atomic.Int64
		c.run(func(caller int) {
			rng := rand.New(rand.NewPCG(seed, uint64(100+caller)))
			for range 60 {
				key, n := rng.IntN(keys), 1+rng.Int64N(5)
				c.call(func() {
					switch rng.IntN(4) {
					case 0:
						if l.AllowN(strconv.Itoa(key), n) {
							admitted[key].Add(n)
						}
					case 1:
						r, d := l.Reserve(strconv.Itoa(key), n)
						actual := rng.Int64N(8)
						if r.Commit(actual); d.Allowed {
							admitted[key].Add(actual)
						}
					default:
						set := rng.Perm(keys)[:1+rng.IntN(keys)]
						names := make([]string, len(set))
						for i, key := range set {
							names[i] = strconv.Itoa(key)
						}
						if !l.TakeAll(names, n).Allowed {
							denied.Add(1)
							return
						}
						for _, key := range set {
							admitted[key].Add(n)
						}
					}
				})
				if rng.IntN(50) == 0 {
					l.Sweep()
				}
			}
		})
		for key := range admitted {
			k := l.key(strconv.Itoa(key))
			e := l.find(l.current.Load(), k)
			for i := range l.own().rules {
				held := int64(0)
				for _, charge := range l.own().rules[i].algorithm.history(l.own().stateOf(e, e.Word.Load(), i), c.Now()) {
					held += charge.Units
				}
				require.Equal(t, admitted[key].Load(), held, "seed %d, key %d, limit %v", seed, key, l.own().rules[i].Limit)
			}
		}
		c.contended(t)
	}
}

// Callers name the same keys in different orders. Each call ends, and the sums are right. A
// deadlock would end the test by its timeout.
func TestRace_TakeAllInAnyOrder(t *testing.T) {
	everyCrowd(t, PerMinute(4000), func(t *testing.T, l *Limiter, c *crowd) {
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		var admitted atomic.Int64
		c.run(func(caller int) {
			rng := rand.New(rand.NewPCG(uint64(caller), 6))
			for range 700 {
				mine := slices.Clone(names)
				rng.Shuffle(len(mine), func(i, j int) { mine[i], mine[j] = mine[j], mine[i] })
				c.call(func() {
					if l.TakeAll(mine, 1).Allowed {
						admitted.Add(1)
					}
				})
			}
		})
		require.EqualValues(t, 4000, admitted.Load(), "all units that fit")
		for _, name := range names {
			require.EqualValues(t, 0, l.Peek(name, 0).Remaining)
		}
	})
}

// Limits change while calls run and the table is swept. All units admitted are charged, in
// each generation.
func TestRace_ChangingLimitsLosesNothing(t *testing.T) {
	const keys, plenty = 20, 1_000_000
	everyCrowd(t, PerMinute(plenty), func(t *testing.T, l *Limiter, c *crowd) {
		limit := l.rule().Limit
		var admitted [keys]atomic.Int64
		changes := 0
		c.run(func(caller int) {
			rng := rand.New(rand.NewPCG(uint64(caller), 8))
			for i := range 300 {
				if caller == 0 {
					changes++
					next := limit
					next.Count += rng.Int64N(1000)
					switch i % 3 {
					case 0:
						limits := []Limit{next, PerHour(plenty)}
						require.NoError(t, l.Reconfigure(limits[:1+rng.IntN(2)]...))
					case 1:
						replaceWith(l, byPrefix(map[string]Limit{strconv.Itoa(rng.IntN(10)): next}), limit)
					default:
						require.NoError(t, l.SetLimits(strconv.Itoa(rng.IntN(keys)), []Limit{next, next}[:rng.IntN(3)]...))
					}
					continue
				}
				key, n := rng.IntN(keys), 1+rng.Int64N(3)
				c.call(func() {
					switch rng.IntN(3) {
					case 0:
						r, _ := l.Reserve(strconv.Itoa(key), n)
						kept := rng.Int64N(n + 1)
						r.Commit(kept)
						admitted[key].Add(kept)
					case 1:
						other := (key + 1) % keys
						l.TakeAll([]string{strconv.Itoa(key), strconv.Itoa(other)}, n)
						admitted[key].Add(n)
						admitted[other].Add(n)
					default:
						l.AllowN(strconv.Itoa(key), n)
						admitted[key].Add(n)
					}
				})
				if rng.IntN(40) == 0 {
					l.Sweep()
				}
			}
		})
		replaceWith(l, nil, limit)
		for key := range admitted {
			require.NoError(t, l.SetLimits(strconv.Itoa(key)))
			require.EqualValues(t, plenty-admitted[key].Load(), l.Peek(strconv.Itoa(key), 0).Remaining, "key %d", key)
		}
		require.Equal(t, keys, l.Len())
		require.Equal(t, 300, changes)
	})
}

// Once a change of limits has returned, no call is decided by the limits from before. The
// Count of a limit tells how new it is.
func TestRace_NoCallIsDecidedByOldLimits(t *testing.T) {
	const plenty = 1_000_000
	for name, change := range map[string]func(l *Limiter, limit Limit) error{
		"Reconfigure": func(l *Limiter, limit Limit) error { return l.Reconfigure(limit) },
		"SetLimits":   func(l *Limiter, limit Limit) error { return l.SetLimits("k", limit) },
		"replace": func(l *Limiter, limit Limit) error {
			replaceWith(l, byPrefix(map[string]Limit{"k": limit}), PerMinute(3))
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyCrowd(t, PerMinute(plenty), func(t *testing.T, l *Limiter, c *crowd) {
				limit := l.rule().Limit
				var newest atomic.Int64 // Count of the newest limit whose change has returned
				newest.Store(plenty)
				c.run(func(caller int) {
					rng := rand.New(rand.NewPCG(uint64(caller), 8))
					for i := range 200 {
						if caller == 0 {
							next := limit
							next.Count = plenty + int64(i) + 1
							require.NoError(t, change(l, next))
							newest.Store(next.Count)
							continue
						}
						c.call(func() {
							before := newest.Load()
							var d Decision
							switch rng.IntN(5) {
							case 0:
								l.Reset("k") // so that the key is new again
							case 1:
								_, d = l.Reserve("k", 1)
							case 2:
								d = l.Peek("k", 1)
							case 3:
								d = l.TakeAll([]string{"k"}, 1)
							}
							if d.Limit.Count == 0 {
								d = l.Take("k", 1)
							}
							require.GreaterOrEqual(t, d.Limit.Count, before)
						})
					}
				})
			})
		})
	}
}

// While one generation replaces another over and over, a full key stays full, and a
// cancelled reservation is given back.
func TestRace_ReconfigureHidesNoKey(t *testing.T) {
	everyCrowd(t, PerMinute(5), func(t *testing.T, l *Limiter, c *crowd) {
		limit := l.rule().Limit
		require.True(t, l.AllowN("full", 5))
		var over atomic.Bool
		c.run(func(caller int) {
			if caller == 0 {
				for i := 0; i < 60 || i < 6000 && c.overlaps.Load() < enoughOverlaps; i++ {
					switch i % 4 {
					case 1: // the key has limits of its own, and then the limiter's again
						replaceWith(l, byPrefix(map[string]Limit{"full": limit}), limit)
					case 2:
						replaceWith(l, nil, limit)
					default:
						require.NoError(t, l.Reconfigure(limit))
					}
				}
				over.Store(true)
				return
			}
			for !over.Load() {
				c.call(func() {
					require.EqualValues(t, 0, l.Peek("full", 0).Remaining)
					require.False(t, l.TakeAll([]string{"full", "other"}, 1).Allowed)
					r, _ := l.Reserve("reserved", 1)
					r.Cancel()
				})
			}
		})
		require.EqualValues(t, 5, l.Peek("reserved", 0).Remaining, "all units were given back")
		require.EqualValues(t, 5, l.Peek("other", 0).Remaining)
	})
}

// A tracked key is reset even if its entry is migrated at the same time.
func TestRace_ResetsFindTheirKeyWhileLimitsChange(t *testing.T) {
	l := newTest(t, PerMinute(5).Counter(), WithClock(&crowd{ManualClock: NewManualClock(0)}))
	const callers, calls, enough = 3, 10_000, 300
	var busy, migrated atomic.Int64 // migrated: calls during which the limits changed
	var g errgroup.Group
	for caller := range callers {
		busy.Add(1)
		g.Go(func() error {
			defer busy.Add(-1)
			for i := 0; i < calls || i < 100*calls && migrated.Load() < enough; i++ {
				key := strconv.Itoa(caller) + " " + strconv.Itoa(i%100)
				was := l.current.Load()
				if l.Allow(key); !l.Reset(key) {
					t.Errorf("%s was tracked, and is not found", key)
				}
				if l.current.Load() != was {
					migrated.Add(1)
				}
			}
			return nil
		})
	}
	for busy.Load() > 0 {
		require.NoError(t, l.Reconfigure(PerMinute(5).Counter()))
		runtime.Gosched() // to the callers, if there is one core
	}
	g.Wait()
	require.GreaterOrEqual(t, migrated.Load(), int64(enough), "no limits changed during a call: this test has shown nothing")
}

func TestRace_SweepIntervalWhileLimitsChange(t *testing.T) {
	l := newTest(t, PerSecond(1))
	l.current.Load().setup.interval = 0
	var c crowd
	var over atomic.Bool
	c.run(func(caller int) {
		switch caller {
		case 0:
			for range 300 {
				c.call(func() {
					c.meet() // so that calls of other callers come between
					require.NoError(t, l.Reconfigure(PerSecond(1), PerMinute(10), PerHour(100)))
					require.NoError(t, l.Reconfigure(PerSecond(1)))
				})
			}
			over.Store(true)
		case 1, 2:
			for !over.Load() {
				c.call(func() { l.current.Load().sweepInterval() })
			}
		}
	})
	c.contended(t)
}
