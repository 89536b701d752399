package sash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimits_AreThoseOfTheLatestReconfigure(t *testing.T) {
	l := newTest(t, PerSecond(10).TokenBucket(3), Unlimited(), PerMinute(5))
	first := l.Limits()
	require.Equal(t, []Limit{PerSecond(10).TokenBucket(3), PerMinute(5)}, first)
	require.NoError(t, l.Reconfigure(PerHour(7)))
	require.Error(t, l.Reconfigure())
	require.NoError(t, l.SetLimits("k", PerHour(1)))
	require.Equal(t, []Limit{PerHour(7)}, l.Limits())
	require.NoError(t, l.Reconfigure(Unlimited(), Unlimited()))
	require.Equal(t, []Limit{Unlimited()}, l.Limits())
	require.Len(t, first, 2)
}

func TestLimits_BelongToTheCaller(t *testing.T) {
	l := newTest(t, PerHour(7))
	l.Limits()[0].Count = 0
	require.Equal(t, []Limit{PerHour(7)}, l.Limits())
	require.True(t, l.Allow("k"))
}

// If only Count changes, the units carry over exactly: a call gets the answer of a limiter
// that had the new Count from the start, and was charged the same units.
func TestReconfigure_OfTheCountAloneIsExact(t *testing.T) {
	for _, limit := range []Limit{
		Per(5, 100).Counter(), Per(5, 100).Log(), Per(5, 100).Buckets(7), Per(5, 100).Buckets(100), Per(1e15, time.Microsecond), Per(1e15, time.Microsecond).Counter(), Per(20, 160).Parts(),
	} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 3))
			clock := NewManualClock(rng.Int64N(1000) - 500)
			old, always := newTest(t, limit, WithClock(clock)), newTest(t, Per(2*limit.Count, limit.Window), WithClock(clock))
			wider := limit
			wider.Count *= 2
			require.NoError(t, always.Reconfigure(wider))
			for range 10 {
				clock.Advance(time.Duration(rng.Int64N(40)))
				n := 1 + rng.Int64N(limit.Count)
				if old.Allow("k") {
					always.Allow("k")
				}
				if old.AllowN("other", n) {
					always.AllowN("other", n)
				}
			}
			require.NoError(t, old.Reconfigure(wider))
			for range 30 {
				clock.Advance(time.Duration(rng.Int64N(40)))
				for _, key := range []string{"k", "other", "new"} {
					n := 1 + rng.Int64N(3)
					require.Equal(t, always.Take(key, n), old.Take(key, n), "%v, seed %d", limit, seed)
				}
			}
		}
	}
}

// Under a smaller Count the units admitted before are a debt. Under the old Count again, no
// unit is lost.
func TestReconfigure_ToLessAndBack(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		limit := l.rule().Limit
		clock.Set(int64(10 * time.Second))
		require.True(t, l.AllowN("k", 8))
		less := limit
		if less.Algorithm == TokenBucket {
			less.Burst = 3
		} else {
			less.Count = 3
		}
		require.NoError(t, l.Reconfigure(less))
		d := l.Peek("k", 1)
		require.False(t, d.Allowed)
		require.Equal(t, less, d.Limit)
		clock.Advance(d.RetryAfter - 1)
		require.False(t, l.Peek("k", 1).Allowed)
		clock.Advance(1)
		require.True(t, l.Peek("k", 1).Allowed)
		clock.Set(int64(10 * time.Second))
		require.NoError(t, l.Reconfigure(limit))
		require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
		require.Equal(t, 1, l.Len())
		require.Equal(t, l.Reset("k"), true)
	})
}

// If the algorithm or the window changes, the units admitted before count for at least as
// long as they would under the new limit from the start. They never count for more units.
func TestReconfigure_ForgetsNothingThatCounts(t *testing.T) {
	limits := []Limit{Per(10, 100).Counter(), Per(10, 100).Log(), Per(10, 100).Buckets(9), Per(10, 60).Log(), Per(10, 130).Counter(), Per(10, 40).Buckets(40), Per(10, 100).TokenBucket(10)}
	for _, from := range limits[:5] { // a fixed window may already have dropped recent units
		for _, to := range limits {
			for seed := range uint64(10) {
				rng := rand.New(rand.NewPCG(seed, 4))
				clock := NewManualClock(1000 + rng.Int64N(300))
				changed, always := newTest(t, from, WithClock(clock)), newTest(t, to, WithClock(clock))
				// All units are recent enough for the old limit to know each of them.
				for range 1 + rng.IntN(6) {
					clock.Advance(time.Duration(rng.Int64N(int64(min(from.Window, to.Window)) / 7)))
					n := 1 + rng.Int64N(2)
					require.Equal(t, changed.AllowN("k", n), always.AllowN("k", n), "all units fit under both limits")
				}
				require.NoError(t, changed.Reconfigure(to))
				for range 40 {
					got, want := changed.Peek("k", 0), always.Peek("k", 0)
					require.LessOrEqual(t, got.Remaining, want.Remaining, "%v to %v, seed %d", from, to, seed)
					require.GreaterOrEqual(t, got.ResetAfter, want.ResetAfter, "%v to %v, seed %d", from, to, seed)
					clock.Advance(time.Duration(rng.Int64N(20)))
				}
				clock.Advance(3 * 130)
				require.Equal(t, Decision{Allowed: true, Limit: to, Remaining: 10}, changed.Peek("k", 0))
			}
		}
	}
}

// Of the old limits, the one that knows most of what the new limit needs is replayed.
func TestReconfigure_ReplaysTheLimitThatKnowsMost(t *testing.T) {
	hour, log := PerHour(100).Counter(), PerMinute(10).Log()
	buckets := PerHour(50).Buckets(time.Minute)
	for _, c := range []struct {
		to   Limit
		want int
	}{
		{PerMinute(7).Log(), 1},               // equal but for Count
		{PerHour(7).Counter(), 0},             // equal but for Count
		{Per(1, 30*time.Second).Counter(), 1}, // the finest that looks back far enough
		{Per(1, 2*time.Minute).Log(), 2},      // the finest of those that look back far enough
		{Per(1, 24*time.Hour).Log(), 0},       // none does: the first that looks back furthest
		{PerHour(7).Buckets(time.Hour), 0},    // the buckets may know of 59 minutes only
	} {
		p := newTest(t, hour, log, buckets).own()
		r := newTest(t, c.to).rule()
		require.Equal(t, c.want, r.source(p.rules, 0), c.to)
	}
}

func TestReconfigure_BetweenOneLimitAndSeveral(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(10).Counter(), WithClock(clock))
	require.True(t, l.AllowN("k", 4))
	require.NoError(t, l.Reconfigure(PerMinute(20), PerSecond(5).Log()))
	d := l.Take("k", 1)
	require.Equal(t, PerSecond(5).Log(), d.Limit, "its 4 units may have been charged just now")
	require.EqualValues(t, 0, d.Remaining)
	clock.Advance(time.Second)
	require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
	require.NoError(t, l.Reconfigure(PerMinute(10).Counter()))
	require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
	require.EqualValues(t, 10, l.Peek("new", 0).Remaining)
	require.Equal(t, kindWord, l.own().kind)
	require.True(t, l.Allow("new"))
	require.Equal(t, 2, l.Len())
	clock.Advance(time.Hour)
	require.Equal(t, 2, l.Sweep())
}

func TestReconfigure_KeepsLimitsOfKeysAndReservations(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(10).Log(), WithClock(clock), WithLimitsFor(func(key string) []Limit {
		if key == "gold" {
			return []Limit{PerMinute(1000).Log()}
		}
		return nil
	}))
	require.NoError(t, l.SetLimits("set", PerMinute(3).Log()))
	for _, key := range []string{"gold", "set", "plain"} {
		require.True(t, l.AllowN(key, 2))
	}
	r, _ := l.Reserve("plain", 5)
	clock.Advance(time.Second)
	require.NoError(t, l.Reconfigure(PerMinute(20).Log()))
	require.EqualValues(t, 998, l.Peek("gold", 0).Remaining)
	require.EqualValues(t, 1, l.Peek("set", 0).Remaining)
	require.EqualValues(t, 13, l.Peek("plain", 0).Remaining)
	r.Commit(1)
	require.EqualValues(t, 17, l.Peek("plain", 0).Remaining)

	r, _ = l.Reserve("plain", 5)
	require.NoError(t, l.Reconfigure(PerMinute(20))) // another algorithm
	require.EqualValues(t, 12, l.Peek("plain", 0).Remaining)
	r.Cancel()
	require.EqualValues(t, 12, l.Peek("plain", 0).Remaining, "the counter does not know at which tick the units were charged")
}

func TestReconfigure_OfBadInputChangesNothing(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	l.Allow("k")
	before := l.Peek("k", 0)
	require.ErrorIs(t, l.Reconfigure(), ErrNoLimit)
	err := l.Reconfigure(PerSecond(-1), Per(1, -1))
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.ErrorContains(t, err, "limit 1: Count must be >= 0, got -1")
	require.ErrorContains(t, err, "limit 2: Window must be > 0, got -1ns")
	err = l.SetLimits("k", PerSecond(1), Per(2, 0))
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.ErrorContains(t, err, "limit 2: Window must be > 0, got 0s")
	require.Equal(t, before, l.Peek("k", 0))
}

func TestReconfigure_ChoosesTheSweepIntervalAnew(t *testing.T) {
	l := newTest(t, PerSecond(10))
	l.current.Load().setup.interval = 0
	require.Equal(t, time.Second, l.current.Load().sweepInterval())
	require.NoError(t, l.Reconfigure(PerMinute(10), PerSecond(1)))
	require.Equal(t, 30*time.Second, l.current.Load().sweepInterval())
}

// At the ends of time a window is cut off, and the units carry over all the same.
func TestReconfigure_AtTheEndsOfTime(t *testing.T) {
	for _, at := range []int64{math.MinInt64, math.MinInt64 + 59, math.MaxInt64 - 70, math.MaxInt64} {
		for _, from := range []Limit{Per(10, 60).Counter(), Per(10, 60).Log(), Per(10, 60).Buckets(7), Per(10, 60).TokenBucket(10)} {
			for _, to := range []Limit{Per(20, 60), Per(20, 100).Log(), Per(20, 100).Buckets(9), Per(20, 61), Per(20, 60).TokenBucket(20)} {
				clock := NewManualClock(at)
				l := newTest(t, from, WithClock(clock))
				require.True(t, l.AllowN("k", 4))
				require.NoError(t, l.Reconfigure(to))
				require.EqualValues(t, 16, l.Peek("k", 0).Remaining, "%v to %v at %d", from, to, at)
			}
		}
	}
}

func TestSetLimits_SurvivesEvictionAndReset(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		require.NoError(t, l.SetLimits("k", PerMinute(5).Log(), PerHour(100)))
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
		require.EqualValues(t, 10, l.Peek("other", 0).Remaining)
		require.True(t, l.Reset("k"))
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		require.False(t, l.Take("k", 6).Allowed)
		require.Equal(t, 0, l.Len())
		require.True(t, l.Allow("k"))
		clock.Advance(24 * time.Hour)
		require.Equal(t, 1, l.Sweep())
		require.EqualValues(t, 4, l.Take("k", 1).Remaining)

		require.NoError(t, l.SetLimits("k"))
		require.EqualValues(t, 9, l.Peek("k", 0).Remaining, "under the limiter's own limits again")
		require.NoError(t, l.SetLimits("k"))
		require.NoError(t, l.SetLimits("untracked"))
	})
}

func TestWithLimitsFor_IsAskedWhenAKeyIsFirstSeen(t *testing.T) {
	asked := map[string]int{}
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(10), WithClock(clock), WithLimitsFor(func(key string) []Limit {
		asked[key]++
		switch key {
		case "gold":
			return []Limit{PerSecond(100), PerMinute(1000).Buckets(time.Second)}
		case "wrong":
			return []Limit{PerSecond(-1)}
		}
		return nil
	}))
	name := []byte("gold")
	for range 3 {
		require.True(t, l.AllowBytes(name))
	}
	copy(name, "XXXX")
	require.EqualValues(t, 97, l.Peek("gold", 0).Remaining)
	require.Equal(t, PerSecond(100), l.Peek("gold", 0).Limit)
	require.EqualValues(t, 9, l.Take("plain", 1).Remaining)
	require.False(t, l.Allow("wrong"))
	require.EqualValues(t, 8, l.TakeAll([]string{"plain", "gold"}, 1).Remaining)
	require.Equal(t, map[string]int{"gold": 1, "plain": 1, "wrong": 1}, asked)

	require.NoError(t, l.SetLimits("gold", PerSecond(5)))
	require.EqualValues(t, 1, l.Peek("gold", 0).Remaining, "4 were taken in this second")
	require.NoError(t, l.SetLimits("gold"))
	require.EqualValues(t, 96, l.Peek("gold", 0).Remaining)
	clock.Advance(time.Hour)
	require.Equal(t, 2, l.Sweep())
	require.True(t, l.Allow("gold"))
	require.Equal(t, 3, asked["gold"], "again after it was evicted")
}

// Keys with equal limits share a ruleset. If each key has limits of its own, the cache of
// rulesets stays bounded.
func TestWithLimitsFor_KeysOfOnePlanShareARuleset(t *testing.T) {
	l := newTest(t, PerMinute(10), WithLimitsFor(func(key string) []Limit {
		if key[0] == 'g' {
			return []Limit{PerSecond(100)}
		}
		var n int64
		fmt.Sscanf(key, "own %d", &n)
		return []Limit{Per(1+n, time.Minute)}
	}))
	rulesetOfKey := func(key string) *ruleset {
		l.Allow(key)
		k := l.key(key)
		e := l.table().load(k)
		return e.asMulti().ruleset
	}
	require.Same(t, rulesetOfKey("gold 1"), rulesetOfKey("gold 2"))
	for i := range 5000 {
		require.EqualValues(t, i, l.Take(fmt.Sprint("own ", i), 1).Remaining)
	}
	require.LessOrEqual(t, l.current.Load().rulesets.forWriting().Size(), 4096)
}

// If denied attempts are charged, limits that are equal but for Count may hold different
// numbers of units. The largest is replayed.
func TestReconfigure_ReplaysTheLargestOfLimitsEqualButForCount(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(5).Log(), PerMinute(100).Log(), WithChargeDenied(), WithClock(clock))
	for range 50 {
		l.Allow("k")
		clock.Advance(1)
	}
	require.NoError(t, l.Reconfigure(PerMinute(100).Log()))
	require.EqualValues(t, 50, l.Peek("k", 0).Remaining)
	require.NoError(t, l.Reconfigure(PerMinute(200).Log(), PerMinute(100).Log()))
	require.EqualValues(t, 50, l.Peek("k", 0).Remaining)

	for _, limits := range [][]Option{{PerMinute(5).Log(), PerMinute(100).Log()}, {PerMinute(100).Log(), PerMinute(5).Log()}} {
		l := newTest(t, append(limits, WithChargeDenied(), WithClock(clock))...)
		for range 50 {
			l.Allow("k")
			clock.Advance(1)
		}
		require.NoError(t, l.Reconfigure(PerMinute(150).Log()), "a Count that neither limit has")
		require.EqualValues(t, 100, l.Peek("k", 0).Remaining)
	}
}

// A key whose limits change while it is first seen gets no entry under the old ones.
func TestWithLimitsFor_WhileTheLimitsChange(t *testing.T) {
	for name, change := range map[string]func(l *Limiter, limit Limit) error{
		"SetLimits":   func(l *Limiter, limit Limit) error { return l.SetLimits("k", limit) },
		"Reconfigure": func(l *Limiter, limit Limit) error { return l.Reconfigure(limit) },
	} {
		t.Run(name, func(t *testing.T) {
			var l *Limiter
			changed := false
			l = newTest(t, PerMinute(5), WithLimitsFor(func(string) []Limit {
				if !changed {
					changed = true
					require.NoError(t, change(l, PerHour(3)))
				}
				return nil
			}))
			d := l.Take("k", 1)
			require.Equal(t, PerHour(3), d.Limit)
			require.EqualValues(t, 2, d.Remaining)
			require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
		})
	}
}

// While a call looks for a key, another call takes from the key and then changes its limits.
// The first call does not decide as if the key were new under those limits.
func TestSetLimits_OfAKeyTakenFromWhileAnotherLooksForIt(t *testing.T) {
	l := newTest(t, PerMinute(5))
	read := 0
	l.clock = clockFunc(func() int64 {
		switch read++; read {
		case 1: // the call must look up its key once more, and then reads the clock again
			require.NoError(t, l.Reconfigure(PerMinute(6)))
		case 2:
			require.True(t, l.AllowN("k", 2))
			require.NoError(t, l.SetLimits("k", PerMinute(7)))
		}
		return 0
	})
	d := l.Peek("k", 1)
	require.Equal(t, PerMinute(7), d.Limit)
	require.EqualValues(t, 4, d.Remaining)
	require.Greater(t, read, 2, "the limits did not change")
}

// A call may charge a key after the change of its limits has read the clock, and before it has locked the
// key. Units that are known by their window alone are not dated before they were charged, so they count
// no shorter under the new limits.
func TestMigrate_DatesNoChargeBeforeItWasMade(t *testing.T) {
	toLog := PerMinute(10).Log()
	charge := func(l *Limiter, g *generation, find func() *entry) {
		q := query{at: l.clock.Now(), n: 1, charge: true} // this may charge the key, too, and so replace its entry
		require.Equal(t, admitted, g.ruleset.decide(find(), q, nil, nil))
	}
	for name, change := range map[string]func(l *Limiter) (charge func(), change func()){
		"Reconfigure": func(l *Limiter) (func(), func()) {
			// The call has begun before it, so it goes on in the old generation.
			g, k := l.current.Load(), l.key("k")
			return func() {
				charge(l, g, func() *entry {
					if g.ruleset.kind == kindLog {
						g.enlarge(k, g.keys.load(k)) // the log has no room for a second record
					}
					return g.keys.load(k)
				})
			}, func() { require.NoError(t, l.Reconfigure(toLog)) }
		},
		"SetLimits": func(l *Limiter) (func(), func()) {
			return func() { require.True(t, l.Allow("k")) }, func() { require.NoError(t, l.SetLimits("k", toLog)) }
		},
		"a shared entry": func(l *Limiter) (func(), func()) {
			require.True(t, l.Reset("k"))
			require.True(t, l.Allow("other"))
			require.True(t, l.Allow("k"))
			old, k := l.current.Load(), l.key("k")
			e := l.sharedEntry(old, k)
			return func() { charge(l, old, func() *entry { return e }) }, func() {
				// As Reconfigure does it, without the keys that have an entry: they would read the clock first.
				g := l.newGeneration(old.overrides, old.shift, old.cap, []Limit{toLog}, old.setup, 0)
				g.old.Store(old)
				l.current.Store(g)
				l.sharedEntry(g, k)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
				require.True(t, l.Allow("k"))
				charge, change := change(l)
				lost := 0
				l.clock = clockFunc(func() int64 {
					now := clock.Now()
					if lost < optimisticRounds-1 {
						lost++
						clock.Advance(10 * time.Second)
						charge()
					}
					return now
				})
				change()
				require.Equal(t, optimisticRounds-1, lost)
				require.True(t, l.Allow("other")) // so that it keeps the only room
				// One unit at 0 s, and one at each of 10, 20 and 30 s. No more than the first may be back.
				clock.Set(int64(70*time.Second - 1))
				require.LessOrEqual(t, l.Peek("k", 0).Remaining, int64(10-(optimisticRounds-1)))
			}, WithMaxKeys(1, ShareOverflow))
		})
	}
}

// A clock that charges the key at each reading, as busy as any other goroutine, does not hold up a change
// of its limits.
func TestMigrate_EndsUnderAnyCharges(t *testing.T) {
	everyKind(t, PerMinute(100), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.Allow("k"))
		reading := false
		l.clock = clockFunc(func() int64 {
			if !reading {
				reading = true
				require.True(t, l.Allow("k"))
				reading = false
			}
			return clock.Now()
		})
		require.NoError(t, l.SetLimits("k", PerMinute(100).Log(), PerHour(1000)))
		require.Less(t, l.Peek("k", 0).Remaining, int64(99))
	})
}

// A change of the limits of some keys does not delay the first call for another key.
func TestSetLimits_OfOthersWhileAKeyIsFirstSeen(t *testing.T) {
	var l *Limiter
	asked := 0
	l = newTest(t, PerMinute(5), WithLimitsFor(func(string) []Limit {
		asked++
		l.SetLimits("other", PerSecond(int64(asked)))
		return nil
	}))
	require.True(t, l.Allow("k"))
	require.Equal(t, 1, asked)
}

// A look-up that finds a key in neither table looks again in the new one: between its two
// looks, another call may have migrated the key.
func TestReconfigure_AKeyThatIsMigratedBetweenTwoLooksIsFound(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		old, k := l.current.Load(), l.key("k")
		g := l.newGeneration(old.overrides, old.shift, old.cap, []Limit{PerMinute(7)}, old.setup, 0)
		g.old.Store(old)
		l.current.Store(g)

		old.keys.shard(k).Lock(k.shard())
		found := make(chan *entry, 1)
		go func() { found <- l.find(g, k) }()
		for len(found) == 0 && goroutines("sash.(*sharded).loadLocked(") == 0 {
			runtime.Gosched() // until it has looked in g, and waits for the lock
		}
		e := g.ruleset.newEntry("k")
		require.Same(t, e, g.keys.loadOrStoreIf(k, e, func() bool { return true }))
		old.keys.shard(k).Unlock()
		require.Same(t, e, <-found)
	})
}

// The latest instant of a key carries over, even if all units charged then were given back.
// So a late reading has the same effect as before.
func TestReconfigure_CarriesTheTimeSeen(t *testing.T) {
	for _, limit := range []Limit{Per(10, 10).Log(), Per(10, 10).Buckets(1), Per(10, 10).Counter()} {
		var answers [2][]Decision
		for i := range answers {
			clock := NewManualClock(90)
			l := newTest(t, limit, WithClock(clock))
			l.AllowN("k", 5)
			clock.Set(96)
			l.Allow("k")
			clock.Set(100)
			r, _ := l.Reserve("k", 1)
			r.Cancel()
			if i == 1 {
				require.NoError(t, l.Reconfigure(limit))
			}
			clock.Set(97) // a late reading
			answers[i] = append(answers[i], l.Take("k", 4), l.Take("k", 5))
			clock.Set(107)
			answers[i] = append(answers[i], l.Peek("k", 10), l.Peek("k", 0))
		}
		require.Equal(t, answers[0], answers[1], limit)
	}
}
