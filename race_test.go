package sash

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A crowd is a number of goroutines that call a limiter at once. It lends its
// clock to the limiter, which gives up the core after each reading: so calls
// do overlap, with readings that are late, on one core as on many.
type crowd struct {
	*ManualClock
	inside   atomic.Int64 // calls under way
	overlaps atomic.Int64 // calls that found others under way
}

const callers = 8

func (c *crowd) Now() int64 {
	now := c.ManualClock.Now()
	if rand.IntN(4) == 0 {
		runtime.Gosched()
	}
	return now
}

// call counts f as a call.
func (c *crowd) call(f func()) {
	if c.inside.Add(1) > 1 {
		c.overlaps.Add(1)
	}
	f()
	c.inside.Add(-1)
}

// run runs f in every caller and waits for all of them.
func (c *crowd) run(f func(caller int)) {
	var g errgroup.Group
	for i := range callers {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	g.Wait() // nobody returns an error
}

// contended fails the test if the callers came one after the other.
func (c *crowd) contended(t *testing.T) {
	t.Helper()
	require.Greater(t, c.overlaps.Load(), int64(100), "no contention: this test has shown nothing")
}

func everyCrowd(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, c *crowd), options ...Option) {
	t.Helper()
	everyKind(t, limit, func(t *testing.T, l *Limiter, clock *ManualClock) {
		c := &crowd{ManualClock: clock}
		l.clock = c
		test(t, l, c)
		c.contended(t)
	}, options...)
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

// Costs, and a log that grows: whatever is admitted is charged, and what was
// denied would not have fitted.
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
		require.Less(t, l.Peek("k", 0).Remaining, int64(7), "nothing was refused that fitted")
	})
}

// New keys from all sides while the table grows, each of them by several.
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

// Rounds at one instant each, with sweeps among the calls: in each round exactly
// as many are admitted as the reference has room for.
func TestRace_SweepsLoseNothing(t *testing.T) {
	const keys, count = 5, 40
	for _, size := range []time.Duration{time.Minute, 3 * time.Microsecond} {
		t.Run(size.String(), func(t *testing.T) {
			everyCrowd(t, Per(count, size), func(t *testing.T, l *Limiter, c *crowd) {
				model := make([]*reference.Key, keys)
				for i := range model {
					model[i] = reference.New(reference.Limit{Log: l.rule.kind == logCell, Count: count, Window: int64(size)})
				}
				for round := range 200 {
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
				require.Greater(t, l.Stats().Evicted, uint64(50), "no eviction under way: this test has shown nothing")
			})
		})
	}
}

// Readings taken before others moved the clock on, over many windows: never
// more than the bound. With a re-admission for each late reading it would be.
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

// Denied attempts that are charged: with a frozen clock all of them are, and
// the key is saturated, not past it.
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
		require.True(t, d.Allowed, "saturated at Count, not past it: %v", d)
	}, WithChargeDenied())
}

// The first calls of all to a fresh limiter meet while its shards are made.
func TestRace_FirstKeys(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for i := range 100 {
		l := newTest(t, PerMinute(1), WithClock(c))
		var admitted atomic.Int64
		c.run(func(int) {
			for j := range 5 {
				c.call(func() {
					if l.Allow(fmt.Sprint(i, j)) {
						admitted.Add(1)
					}
				})
			}
		})
		require.EqualValues(t, 5, admitted.Load())
		require.Equal(t, 5, l.Len())
	}
	c.contended(t)
}
