package sash

import (
	"math"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A call takes all it asks for, then what there is, and then nothing.
func TestTakeUpTo_TakesWhatThereIs(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		for _, c := range []struct{ most, taken, remaining int64 }{{4, 4, 6}, {5, 5, 1}, {9, 1, 0}} {
			taken, d := l.TakeUpTo("k", c.most)
			require.Equal(t, c.taken, taken)
			require.True(t, d.Allowed)
			require.Equal(t, c.remaining, d.Remaining)
			require.Zero(t, d.RetryAfter)
		}
		one := l.Peek("k", 1)
		taken, d := l.TakeUpTo("k", 9)
		require.Zero(t, taken)
		require.Equal(t, one, d, "it is the denial of one unit")
		clock.Advance(d.RetryAfter - 1)
		taken, _ = l.TakeUpTo("k", 9)
		require.Zero(t, taken)
		clock.Advance(1)
		taken, d = l.TakeUpTo("k", 9)
		require.Positive(t, taken)
		require.True(t, d.Allowed)
	})
}

// A key that is not tracked has all there is, which may be less than is asked for.
func TestTakeUpTo_OfANewKey(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		want := l.Peek("k", 10)
		taken, d := l.TakeUpTo("k", math.MaxInt64)
		require.EqualValues(t, 10, taken)
		require.Equal(t, want, d)
	})
}

func TestTakeUpTo_CostsAreAnything(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for _, most := range []int64{0, -1, math.MinInt64} {
			taken, d := l.TakeUpTo("k", most)
			require.Zero(t, taken)
			require.Equal(t, l.Peek("k", most), d)
		}
		require.Zero(t, l.Len())
	})
	l := newTest(t, Unlimited())
	taken, d := l.TakeUpTo("k", math.MaxInt64)
	require.Equal(t, int64(math.MaxInt64), taken)
	require.True(t, d.Allowed)
	taken, d = newTest(t, PerMinute(0)).TakeUpTo("k", 5)
	require.Zero(t, taken)
	require.Equal(t, Never, d.RetryAfter)
}

// The limit that has least left decides, whichever it is.
func TestTakeUpTo_UnderSeveralLimits(t *testing.T) {
	for _, limits := range [][]Limit{
		{PerMinute(3).Log(), PerHour(5).Parts()}, {PerHour(5).Parts(), PerMinute(3).Log()},
		{PerHour(5).Counter(), PerMinute(3).TokenBucket(3)}, {PerMinute(3).Counter(), PerHour(5).TokenBucket(5)},
	} {
		clock := NewManualClock(0)
		l := newTest(t, WithLimits(limits...), WithClock(clock))
		taken, d := l.TakeUpTo("k", 10)
		require.EqualValues(t, 3, taken, "%v", limits)
		require.EqualValues(t, 3, d.Limit.Count)
		clock.Advance(3 * time.Minute)
		taken, d = l.TakeUpTo("k", 10)
		require.EqualValues(t, 2, taken, "%v", limits)
		require.EqualValues(t, 5, d.Limit.Count)
		require.Zero(t, d.Remaining)
	}
}

// A call that takes nothing is charged as one unit that is denied.
func TestTakeUpTo_ChargesADeniedCallOneUnit(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		taken, _ := l.TakeUpTo("k", 20)
		require.EqualValues(t, 10, taken, "a call for more than there is, is not denied")
		clock.Advance(time.Second)
		idle := l.Peek("k", 0).ResetAfter
		want := l.Peek("k", 1)
		taken, d := l.TakeUpTo("k", 20)
		require.Zero(t, taken)
		require.Equal(t, want, d)
		require.Equal(t, want.ResetAfter, l.Peek("k", 0).ResetAfter)
		if l.rule().Algorithm == SlidingLog {
			require.Greater(t, want.ResetAfter, idle, "a unit is charged")
		}
	}, WithChargeDenied())
}

func TestTakeUpTo_TellsTheObserverWhatIsTaken(t *testing.T) {
	var seen []int64
	l := newTest(t, PerMinute(10), WithObserver(func(_ string, n int64, d Decision) { seen = append(seen, n, d.Remaining) }))
	for range 3 {
		l.TakeUpTo("k", 6)
	}
	l.TakeUpTo("k", 0)
	require.Equal(t, []int64{6, 4, 4, 0, 1, 0}, seen)
}

func TestTakeUpTo_OfAKeyWithoutRoom(t *testing.T) {
	l := newTest(t, PerMinute(10), WithMaxKeys(1, DenyNew), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("a"))
	taken, d := l.TakeUpTo("b", 5)
	require.Zero(t, taken)
	require.Equal(t, l.Peek("b", 1), d)
	require.EqualValues(t, 1, l.Stats().Refused)

	l = newTest(t, PerMinute(10), WithMaxKeys(1, ShareOverflow), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("a"))
	for _, want := range []int64{7, 3, 0} {
		taken, d := l.TakeUpTo("b", 7)
		require.Equal(t, want, taken)
		require.Equal(t, want > 0, d.Allowed)
	}
}

// Whatever was charged before, under whatever limits, a Take of as many units would be admitted, and of one
// more would not. The answer is the reference's for the units taken.
func TestTakeUpTo_OneMoreUnitWouldBeDenied(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	kinds := []func(l Limit) Limit{
		Limit.Counter, Limit.Log, Limit.Parts,
		func(l Limit) Limit { return l.Buckets(1 + l.Window/7) },
		func(l Limit) Limit { return l.TokenBucket(1 + l.Count/2) },
	}
	taken, partly, none := 0, 0, 0
	for range steps(600) {
		var limits []Limit
		var models []reference.Limit
		for range 1 + rng.IntN(3) {
			l := kinds[rng.IntN(len(kinds))](Per(1+rng.Int64N(12), time.Duration(16+rng.Int64N(500))))
			limits, models = append(limits, l), append(models, modelOf(l, false))
		}
		clock := NewManualClock(rng.Int64N(1000))
		l, table := newTest(t, WithLimits(limits...), WithClock(clock)), reference.NewTable(models)
		for range 20 {
			now, most := clock.Now(), 1+rng.Int64N(8)
			before := table.Copy()
			n, d := l.TakeUpTo("k", most)
			if n > 0 {
				require.True(t, before.Foresee(now, n, "k").Allowed, "%v", limits)
				taken++
			}
			if n < most {
				require.False(t, before.Foresee(now, n+1, "k").Allowed, "%v", limits)
				partly++
			}
			if n == 0 {
				none++
			}
			require.Equal(t, n > 0, d.Allowed)
			a := table.Take(now, max(n, 1), "k")
			require.Equal(t, Decision{Allowed: a.Allowed, Limit: limits[a.Deciding], Remaining: a.Remaining,
				RetryAfter: time.Duration(a.RetryAfter), ResetAfter: time.Duration(a.ResetAfter)}, d, "%v", limits)
			clock.Advance(time.Duration(rng.Int64N(200)))
		}
	}
	require.Greater(t, min(taken, partly-none, none), steps(300), "each comes about")
}

// However many take at once, each unit is taken by one of them, and none is left.
func TestRace_TakeUpToTakesEachUnitOnce(t *testing.T) {
	const count = 5003
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var total atomic.Int64
		c.run(func(int) {
			for i := range int64(1000) {
				c.call(func() {
					most := 1 + i%7
					taken, d := l.TakeUpTo("k", most)
					if taken < 0 || taken > most || d.Allowed != (taken > 0) || taken < most && d.Remaining > 0 {
						t.Errorf("%d of %d are taken: %+v", taken, most, d)
					}
					total.Add(taken)
				})
			}
		})
		require.EqualValues(t, count, total.Load())
	})
}

// Two calls at once take all there is, though it is not enough for both.
func TestRace_TwoCallsTakeAllThereIs(t *testing.T) {
	everyKind(t, PerMinute(4), func(t *testing.T, l *Limiter, _ *ManualClock) {
		rounds := int64(crowded(10_000))
		for round := range rounds {
			l.Take(strconv.FormatInt(round, 10), 1)
		}
		var total atomic.Int64
		meet(rounds, func(caller int, round int64) {
			most := 2 + 2*int64(caller)
			taken, d := l.TakeUpTo(strconv.FormatInt(round, 10), most)
			total.Add(taken)
			if taken < most && d.Remaining > 0 {
				t.Errorf("%d are taken: %+v", taken, d)
			}
		})
		require.Equal(t, 3*rounds, total.Load())
	})
}

// Calls that take what there is and calls that leave a floor meet at one key.
func TestRace_TakeUpToAndTakeLeaving(t *testing.T) {
	const count, floor = 4000, 500
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var total, background atomic.Int64
		c.run(func(caller int) {
			for range 1000 {
				c.call(func() {
					if caller%2 == 0 {
						taken, _ := l.TakeUpTo("k", 2)
						total.Add(taken)
					} else if d := l.TakeLeaving("k", 1, floor); d.Allowed {
						total.Add(1)
						background.Add(1)
					}
				})
			}
		})
		require.EqualValues(t, count, total.Load())
		require.LessOrEqual(t, background.Load(), int64(count-floor))
	})
}
