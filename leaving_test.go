package sash

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Calls that leave 4 of 10 units get 6, and others get the rest. The RetryAfter of a denial is exact.
func TestTakeLeaving_UsesOnlyWhatIsAboveTheFloor(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		for _, remaining := range []int64{8, 6, 4} { // the first makes the entry, the others find one
			require.Equal(t, remaining, l.TakeLeaving("k", 2, 4).Remaining)
		}
		denied := l.TakeLeaving("k", 1, 4)
		require.False(t, denied.Allowed)
		require.EqualValues(t, 4, denied.Remaining, "what a Take could have")
		require.True(t, l.AllowN("k", 3), "urgent work may use all")

		denied = l.TakeLeaving("k", 1, 4)
		require.False(t, denied.Allowed)
		require.Equal(t, denied.RetryAfter, l.Peek("k", 5).RetryAfter)
		clock.Advance(denied.RetryAfter - 1)
		require.False(t, l.TakeLeaving("k", 1, 4).Allowed)
		clock.Advance(1)
		d := l.TakeLeaving("k", 1, 4)
		require.True(t, d.Allowed)
		require.GreaterOrEqual(t, d.Remaining, int64(4))
	})
}

// A denied call waits for its units and for those it leaves, also where it is not decided on the fast path.
func TestReserveLeaving_WaitsForWhatItLeaves(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 4))
		clock.Advance(15 * time.Second)
		require.True(t, l.AllowN("k", l.Peek("k", 0).Remaining))
		want := l.TakeLeaving("k", 1, 4)
		_, d := l.ReserveLeaving("k", 1, 4)
		require.Equal(t, want, d)
		clock.Advance(d.RetryAfter - 1)
		_, d = l.ReserveLeaving("k", 1, 4)
		require.False(t, d.Allowed)
		clock.Advance(1)
		_, d = l.ReserveLeaving("k", 1, 4)
		require.True(t, d.Allowed)
	})
}

func TestTakeLeaving_IsNeverAdmittedAboveCount(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for _, c := range []struct{ n, leave int64 }{{7, 4}, {1, 10}, {11, 1}, {1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {0, 11}} {
			d := l.TakeLeaving("k", c.n, c.leave)
			require.False(t, d.Allowed, "%+v", c)
			require.Equal(t, Never, d.RetryAfter, "%+v", c)
		}
		require.Zero(t, l.Len(), "nothing is charged, so nothing is tracked")
		require.True(t, l.TakeLeaving("k", 6, 4).Allowed)
	})
}

// Count is the greatest number that there is, so n+leave is not.
func TestTakeLeaving_OfTheGreatestCount(t *testing.T) {
	for _, limit := range []Limit{PerMinute(math.MaxInt64).Log(), PerMinute(math.MaxInt64).Parts(), Per(math.MaxInt64, 9).TokenBucket(math.MaxInt64), Per(math.MaxInt64, 9).Counter()} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		for range 2 { // without an entry, and with one
			d := l.TakeLeaving("k", math.MaxInt64, 1)
			require.False(t, d.Allowed, "%v", limit)
			require.Equal(t, Never, d.RetryAfter, "%v", limit)
			require.True(t, l.TakeLeaving("k", 1, math.MaxInt64-2).Allowed, "%v", limit)
		}
		require.Equal(t, int64(math.MaxInt64-2), l.Peek("k", 0).Remaining, "%v", limit)
	}
}

func TestTakeLeaving_CostsAndLeavesAreAnything(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for _, leave := range []int64{0, -1, math.MinInt64} {
			require.Equal(t, l.Peek("k", 3), l.TakeLeaving("k", 3, leave), "it is a Take")
		}
		require.Equal(t, l.Peek("k", 0), l.TakeLeaving("k", 0, 1), "one unit is there")
		require.False(t, l.TakeLeaving("k", 0, 2).Allowed, "two are not")
		d := l.TakeLeaving("k", -5, 6)
		require.False(t, d.Allowed)
		require.Equal(t, Never, d.RetryAfter)
		require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
	})
	l := newTest(t, Unlimited())
	require.Equal(t, Decision{Allowed: true, Limit: Unlimited(), Remaining: math.MaxInt64}, l.TakeLeaving("k", 5, math.MaxInt64))
	require.Equal(t, Never, l.TakeLeaving("k", -5, 5).RetryAfter)
	require.Equal(t, Never, newTest(t, PerMinute(0)).TakeLeaving("k", 0, 1).RetryAfter)
}

// Each limit must have the units left, the second as well as the first.
func TestTakeLeaving_LeavesUnitsUnderEachLimit(t *testing.T) {
	for _, limits := range [][]Limit{
		{PerMinute(10).Log(), PerHour(100).Parts()}, {PerHour(100).Parts(), PerMinute(10).Log()},
		{PerHour(100).Counter(), PerMinute(10).TokenBucket(10)}, {PerHour(100).TokenBucket(100), PerMinute(10).Counter()},
	} {
		l := newTest(t, WithLimits(limits...), WithClock(NewManualClock(0)))
		for range 6 {
			require.True(t, l.TakeLeaving("k", 1, 4).Allowed, "%v", limits)
		}
		d := l.TakeLeaving("k", 1, 4)
		require.False(t, d.Allowed, "%v", limits)
		require.EqualValues(t, 10, d.Limit.Count)
		require.EqualValues(t, 4, d.Remaining)
		_, slow := l.ReserveLeaving("k", 1, 4)
		require.Equal(t, d, slow, "not on the fast path")
	}
}

// A call that is denied is charged as a Take of as many units, not of those that it should have left.
func TestTakeLeaving_ChargesADeniedCallItsOwnUnits(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.False(t, l.TakeLeaving("k", 2, 9).Allowed)
		require.EqualValues(t, 8, l.Peek("k", 0).Remaining)
		d := l.TakeLeaving("k", 2, 7)
		require.False(t, d.Allowed)
		require.EqualValues(t, 6, d.Remaining)
		clock.Advance(d.RetryAfter)
		require.True(t, l.TakeLeaving("k", 2, 7).Allowed)
	}, WithChargeDenied())
}

func TestTakeLeaving_TellsTheObserverItsOwnUnits(t *testing.T) {
	var seen []int64
	l := newTest(t, PerMinute(10), WithObserver(func(_ string, n int64, d Decision) { seen = append(seen, n, d.Remaining) }))
	l.TakeLeaving("k", 2, 5)
	l.TakeLeaving("k", 4, 5)
	l.TakeLeaving("k", 0, 5)
	require.Equal(t, []int64{2, 8, 4, 8}, seen)
}

// A key without room is denied, or shares a quota, which leaves units as its own would.
func TestTakeLeaving_OfAKeyWithoutRoom(t *testing.T) {
	l := newTest(t, PerMinute(10), WithMaxKeys(1, DenyNew), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("a"))
	require.Equal(t, l.Peek("b", 1), l.TakeLeaving("b", 1, 4))
	require.Equal(t, Never, l.TakeLeaving("b", 7, 4).RetryAfter)
	require.False(t, l.TakeLeaving("b", 0, 4).Allowed, "there are none")

	l = newTest(t, PerMinute(10), WithMaxKeys(1, ShareOverflow), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("a"))
	require.EqualValues(t, 4, l.TakeLeaving("b", 6, 4).Remaining)
	require.False(t, l.TakeLeaving("b", 1, 4).Allowed)
	require.True(t, l.AllowN("b", 4))
}

func TestReserveLeaving_CommitsWhateverRemains(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		r, d := l.ReserveLeaving("k", 5, 4)
		require.True(t, d.Allowed)
		none, d := l.ReserveLeaving("k", 2, 4)
		require.False(t, d.Allowed)
		require.Equal(t, Reservation{}, none)
		require.Equal(t, l.Peek("k", 6).RetryAfter, d.RetryAfter)
		r.Commit(8)
		require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
		_, d = l.ReserveLeaving("k", 1, -4)
		require.True(t, d.Allowed, "it is a Reserve")
	})
}

// Calls in the background wait until the units that they must leave are there, too. Urgent calls that
// come later go before them.
func TestWaitLeaving_UrgentCallsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(10).Log())
		start := time.Now()
		var order []string
		var at []time.Duration
		var mu sync.Mutex // several are admitted at one instant
		wait := func(name string, n, leave int64) {
			go func() {
				if err := l.WaitLeaving(t.Context(), "k", n, leave); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order, at = append(order, name), append(at, time.Since(start))
			}()
			synctest.Wait()
		}
		l.Take("k", 6)
		time.Sleep(10 * time.Second)
		l.Take("k", 3) // one is left; 6 come back at 60 s, and 3 at 70 s
		wait("background", 1, 4)
		wait("further in the background", 1, 6)
		wait("urgent, at once", 1, 0)
		require.Equal(t, []string{"urgent, at once"}, order, "it is not behind the others")
		wait("urgent", 4, 0)
		wait("also urgent", 1, 0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		slices.Sort(order[1:3]) // both are admitted at one instant
		require.Equal(t, []string{"urgent, at once", "also urgent", "urgent", "background", "further in the background"}, order)
		require.Equal(t, []time.Duration{10 * time.Second, time.Minute, time.Minute, 70 * time.Second, 120 * time.Second}, at)
		requireNoneWaits(t, l)
	})
}

func TestWaitLeaving_Fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(10).Log(), WithMaxWaiters(1))
		err := l.WaitLeaving(t.Context(), "k", 7, 4)
		require.ErrorIs(t, err, ErrExceedsLimit)
		require.EqualError(t, err, "sash: Wait: 7 and the 4 to be left are more than 10/1m0s log ever admits: exceeds the limit")
		require.ErrorIs(t, l.WaitLeaving(t.Context(), "k", 2, math.MaxInt64), ErrExceedsLimit)
		require.ErrorIs(t, l.WaitLeaving(t.Context(), "k", -1, 4), ErrExceedsLimit)
		require.NoError(t, l.WaitLeaving(t.Context(), "k", 6, 4))

		// A minute is the least wait, of one unit and the four that are left.
		short, cancel := context.WithTimeout(t.Context(), time.Minute-1)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, l.WaitLeaving(short, "k", 1, 4), context.DeadlineExceeded)
		require.Equal(t, began, time.Now(), "it fails at once")
		require.NoError(t, l.WaitLeaving(short, "k", 1, -4), "it is a Wait")

		var ended atomic.Bool
		go func() {
			defer ended.Store(true)
			if err := l.WaitLeaving(t.Context(), "k", 1, 5); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		require.False(t, ended.Load())
		require.ErrorIs(t, l.WaitLeaving(t.Context(), "k", 1, 5), ErrTooManyWaiters)
		require.NoError(t, l.Wait(t.Context(), "k", 1), "it goes before the call that waits, and need not wait")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.True(t, ended.Load())
	})
	l := newTest(t, Unlimited())
	require.NoError(t, l.WaitLeaving(t.Context(), "k", 5, math.MaxInt64))
}

// Ten units come back in a minute. The call before takes five, so those that the other takes and leaves are
// there a minute later.
func TestWaitLeaving_FailsAtOnceBehindOthers(t *testing.T) {
	waiting(t, map[string]Limit{"k": PerMinute(10).Log()}, func(w *waitTest) {
		w.exhaust("k")
		w.wait("before", 5, "k")
		short, cancel := context.WithTimeout(w.Context(), 90*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, w.l.WaitLeaving(short, "k", 3, 5), context.DeadlineExceeded)
		require.Equal(t, began, time.Now())
		require.NoError(t, w.l.WaitLeaving(w.Context(), "k", 3, 5))
		require.Equal(t, 2*time.Minute, time.Since(began))
	})
}

// A call that waits for several keys claims a unit of a key. The units that a call in the background
// leaves are the same: it need not leave one more.
func TestWaitLeaving_ClaimedUnitsAreAmongThoseLeft(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerHour(2).Log(), "b": PerHour(1).Log()}, func(w *waitTest) {
		w.exhaust("b")
		w.wait("both", 1, "a", "b")
		began := time.Now()
		require.NoError(t, w.l.WaitLeaving(w.Context(), "a", 1, 1))
		require.Equal(t, began, time.Now(), "it need not wait")
		w.until(2 * time.Hour)
		require.Equal(t, []string{"both"}, w.order)
	})
}

// meet has two callers call f with each of some numbers at the same time.
func meet(rounds int64, f func(caller int, round int64)) {
	var arrived atomic.Int64
	var all sync.WaitGroup
	for caller := range 2 {
		all.Go(func() {
			for round := range rounds {
				for arrived.Add(1); arrived.Load() < 2*(round+1); {
					runtime.Gosched()
				}
				f(caller, round)
			}
		})
	}
	all.Wait()
}

// A wordAlgorithmThatWaits calls during after it has computed a charge that it does not make.
type wordAlgorithmThatWaits struct {
	wordAlgorithm
	during func()
}

func (a wordAlgorithmThatWaits) charge(e *entry, word uint64, at, n int64) (x, y, z int64, res result) {
	if e == nil {
		defer a.during()
	}
	return a.wordAlgorithm.charge(e, word, at, n)
}

// If another call comes between the look at what is there and the charge, there is another look.
func TestTakeLeaving_LooksAndChargesAtOneInstant(t *testing.T) {
	for _, limit := range []Limit{PerMinute(3).Counter(), PerMinute(3).TokenBucket(3)} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		require.True(t, l.Allow("k"))
		rs, looks := l.own(), 0
		rs.word = wordAlgorithmThatWaits{rs.word, func() {
			if looks++; looks == 1 {
				require.True(t, l.Allow("k"))
			}
		}}
		require.False(t, l.TakeLeaving("k", 1, 1).Allowed, "%v", limit)
		require.Positive(t, looks, "%v", limit)
		require.EqualValues(t, 1, l.Peek("k", 0).Remaining, "%v", limit)
	}
}

// Two calls come at once, and there is room for one. One of them is admitted.
func TestRace_TwoCallsDoNotTakeOfTheFloor(t *testing.T) {
	everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, _ *ManualClock) {
		rounds := int64(crowded(10_000))
		var admitted atomic.Int64
		for round := range rounds {
			l.Take(strconv.FormatInt(round, 10), 1)
		}
		meet(rounds, func(_ int, round int64) {
			if d := l.TakeLeaving(strconv.FormatInt(round, 10), 1, 1); d.Allowed {
				admitted.Add(1)
			}
		})
		require.Equal(t, rounds, admitted.Load())
	})
}

// Calls of two priorities share one count. Background calls leave a tenth of it, also if they come first.
func TestRace_CallsInTheBackgroundLeaveTheFloor(t *testing.T) {
	const count, floor = 3000, 300
	everyCrowd(t, PerMinute(count), func(t *testing.T, l *Limiter, c *crowd) {
		var admitted [callers]atomic.Int64
		c.run(func(caller int) {
			for i := range int64(1000) {
				n := 1 + i%3
				c.call(func() {
					d := l.TakeLeaving("k", n, floor)
					if d.Allowed {
						admitted[caller].Add(n)
						if d.Remaining < floor {
							t.Errorf("%d remain", d.Remaining)
						}
					}
				})
			}
		})
		total := int64(0)
		for i := range admitted {
			total += admitted[i].Load()
		}
		require.LessOrEqual(t, total, int64(count-floor))
		require.Greater(t, total, int64(count-floor-3))
		require.EqualValues(t, count-total, l.Peek("k", 0).Remaining)
	})
}
