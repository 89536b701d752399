package sash

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// Reservations are settled to less, to more or to nothing: soon, windows later, or never.
// Other calls come between. The clock does not run back, unlike in the next test.
func TestReserve_EqualsTheReference(t *testing.T) {
	type pending struct {
		ours   Reservation
		theirs reference.Reservation
	}
	settled := 0
	for seed := range uint64(steps(30)) {
		tr := newMultiTrial(t, seed, false)
		var open []pending
		for range 150 {
			tr.move(false)
			now := tr.clock.Now()
			switch tr.rng.IntN(5) {
			case 0, 1:
				key, n := tr.keys()[0], tr.cost()
				r, d := tr.l.Reserve(key, n)
				want, answer := tr.table.Reserve(now, n, key)
				tr.same(d, answer, "Reserve(%s, %d)", key, n)
				open = append(open, pending{r, want})
			case 2, 3:
				if len(open) == 0 {
					continue
				}
				p, actual := open[tr.rng.IntN(len(open))], tr.rng.Int64N(8)-1 // may be settled already
				p.ours.Commit(actual)
				tr.table.Settle(now, p.theirs, actual)
				settled++
				for _, key := range []string{"a", "b", "c", "d"} {
					tr.same(tr.l.Peek(key, 1), tr.table.Peek(now, 1, key), "Peek(%s) after a settlement", key)
				}
			default:
				if tr.rng.IntN(20) == 0 {
					tr.l.Reset("a")
					tr.table.Reset("a")
				}
				tr.call()
			}
		}
	}
	require.Greater(t, settled, steps(1000))
}

// In any window of a log, at most Count units were admitted and not given back, for any
// reservations, settlements, evictions and late readings.
func TestReserve_OnAnyClockAdmitsNoMoreThanTheLimit(t *testing.T) {
	const count, window = 10, 100
	given, full := int64(0), false
	for seed := range uint64(40) {
		tr := newMultiTrial(t, seed, false)
		l := newTest(t, Per(count, window).Log(), Per(2*count, 3*window), WithClock(tr.clock))
		kept := map[int64]int64{} // units by the tick at which they were charged
		for range 300 {
			tr.move(true)
			if tr.rng.IntN(4) == 0 {
				l.Sweep()
			}
			r, d := l.Reserve("k", 1+tr.rng.Int64N(4))
			if !d.Allowed {
				full = true
				continue
			}
			tick, keep := r.of.origins[0].number, r.of.n
			if tr.rng.IntN(2) == 0 {
				keep = tr.rng.Int64N(keep + 1)
				given += r.of.n - keep
				r.Commit(keep)
			}
			kept[tick] += keep
			for end := range kept {
				sum := int64(0)
				for tick, n := range kept {
					if tick <= end && end-tick < window {
						sum += n
					}
				}
				require.LessOrEqual(t, sum, int64(count), "in the window that ends at %d", end)
			}
		}
	}
	require.Greater(t, given, int64(100))
	require.True(t, full)
}

func TestReserve_SettlesOnce(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)))
	r, d := l.Reserve("k", 6)
	require.True(t, d.Allowed)
	require.EqualValues(t, 4, d.Remaining)
	again := r
	r.Commit(2)
	require.EqualValues(t, 8, l.Peek("k", 0).Remaining)
	again.Commit(9)
	r.Cancel()
	again.Cancel()
	require.EqualValues(t, 8, l.Peek("k", 0).Remaining)
}

func TestReserve_OfBadInput(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)))
	var zero Reservation
	zero.Commit(5)
	zero.Cancel()

	r, d := l.Reserve("k", -1)
	require.Equal(t, Decision{Limit: PerMinute(10).Log(), Remaining: 10, RetryAfter: Never}, d)
	r.Commit(5)
	r, d = l.Reserve("k", 11)
	require.False(t, d.Allowed)
	r.Commit(5)
	require.Equal(t, 0, l.Len(), "a denied reservation settles nothing")

	r, _ = l.Reserve("k", 4)
	r.Commit(-3)
	require.EqualValues(t, 10, l.Peek("k", 0).Remaining, "less than 0 counts as 0")

	r, d = l.Reserve("free", 0)
	require.True(t, d.Allowed)
	require.EqualValues(t, 10, d.Remaining)
	r.Commit(3)
	require.EqualValues(t, 7, l.Peek("free", 0).Remaining, "an estimate of 0, and a cost of 3")
}

// Units spent above the limit are a debt: later calls are denied for as long as it counts.
func TestCommit_PastTheLimitIsADebt(t *testing.T) {
	for name, c := range map[string]struct {
		limit  Limit
		denied time.Duration // until 1 unit is admitted
	}{
		"log":     {PerMinute(10).Log(), time.Minute},
		"buckets": {PerMinute(10).Buckets(20 * time.Second), time.Minute},
		"tokens":  {PerMinute(10).TokenBucket(10), 21 * 6 * time.Second},
		"counter": {PerMinute(10).Counter(), 2*time.Minute - 18*time.Second}, // 30 units count as 9 with 3/10 of the window left
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			l := newTest(t, c.limit, WithClock(clock))
			r, _ := l.Reserve("k", 5)
			r.Commit(30)
			d := l.Take("k", 1)
			require.False(t, d.Allowed)
			require.EqualValues(t, 0, d.Remaining)
			require.Equal(t, c.denied, d.RetryAfter)
			require.False(t, l.Peek("k", 0).Allowed, "not even 0 units are allowed")
			clock.Advance(c.denied - 1)
			require.False(t, l.Allow("k"))
			clock.Advance(1)
			require.True(t, l.Allow("k"))
		})
	}
}

func TestCommit_OfAsMuchAsCanBe(t *testing.T) {
	for _, limit := range []Limit{PerMinute(10).Log(), PerMinute(10).Counter(), PerMinute(10).Buckets(time.Second), Per(math.MaxInt64, time.Minute), Per(math.MaxInt64, time.Minute).Log(),
		Per(math.MaxInt64, time.Minute).TokenBucket(math.MaxInt64)} {
		clock := NewManualClock(0)
		l := newTest(t, limit, WithClock(clock))
		for range 5 {
			r, _ := l.Reserve("k", 0)
			s, _ := l.Reserve("k", 0)
			r.Commit(math.MaxInt64)
			s.Commit(math.MaxInt64)
			clock.Advance(1)
		}
		require.False(t, l.Allow("k"))
		require.Zero(t, l.Peek("k", 1).Remaining)
		clock.Advance(l.Peek("k", 1).ResetAfter)
		require.Equal(t, Decision{Allowed: true, Limit: limit, Remaining: limit.Count}, l.Peek("k", 0))
	}
}

// A charge that no longer counts is not given back. No charge is given back to another window
// or bucket.
func TestCancel_GivesBackWhereItWasCharged(t *testing.T) {
	clock := NewManualClock(0)
	counter := newTest(t, PerMinute(10).Counter(), WithClock(clock))
	buckets := newTest(t, PerMinute(10).Buckets(20*time.Second), WithClock(clock))
	log := newTest(t, PerMinute(10).Log(), WithClock(clock))
	reserve := func(l *Limiter) Reservation { r, _ := l.Reserve("k", 4); return r }
	a, b, c := reserve(counter), reserve(buckets), reserve(log)
	late := []Reservation{reserve(counter), reserve(buckets), reserve(log)}

	clock.Set(int64(59 * time.Second))
	for _, l := range []*Limiter{counter, buckets, log} {
		require.EqualValues(t, 0, l.Take("k", 2).Remaining)
	}
	clock.Set(int64(75 * time.Second)) // a quarter into the next window
	require.EqualValues(t, 2, counter.Peek("k", 0).Remaining, "10 units count as 7.5")
	a.Cancel()
	require.EqualValues(t, 5, counter.Peek("k", 0).Remaining, "6 units count as 4.5")
	require.EqualValues(t, 8, buckets.Peek("k", 0).Remaining)
	b.Cancel()
	require.EqualValues(t, 8, buckets.Peek("k", 0).Remaining, "its bucket has left the window")
	require.EqualValues(t, 8, log.Peek("k", 0).Remaining)
	c.Cancel()
	require.EqualValues(t, 8, log.Peek("k", 0).Remaining)

	clock.Set(int64(time.Hour))
	for i, l := range []*Limiter{counter, buckets, log} {
		l.Sweep()
		require.True(t, l.AllowN("k", 8))
		late[i].Cancel()
		require.EqualValues(t, 2, l.Peek("k", 0).Remaining, "the key was evicted since")
	}
}

func TestCancel_AfterAResetGivesNothingBack(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		r, _ := l.Reserve("k", 6)
		require.True(t, l.Reset("k"))
		require.True(t, l.AllowN("k", 3))
		later, _ := l.Reserve("k", 4) // so that the key knows of reservations again
		r.Cancel()
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
		later.Cancel()
		require.EqualValues(t, 7, l.Peek("k", 0).Remaining)
	})
}

// The first reservation gives a key a multi-limit entry, which holds the units taken before.
func TestReserve_CarriesOverTheUnitsTaken(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.AllowN("k", 3)
		clock.Advance(time.Second)
		r, d := l.Reserve("k", 5)
		require.EqualValues(t, 2, d.Remaining)
		require.True(t, l.AllowN("k", 2))
		r.Cancel()
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		require.Equal(t, 1, l.Len())
	})
}

// Reserve deletes a dead entry from the table, like Take.
func TestReserve_FindsTheEntryDead(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for range 2 { // first with an entry of its kind, then with a multi-limit entry
			l.Reserve("k", 1)
			e := l.find(l.current.Load(), l.key("k"))
			require.True(t, e.tryKill(e.Word.Load()))
			_, d := l.Reserve("k", 1)
			require.EqualValues(t, 9, d.Remaining)
			require.Equal(t, 1, l.Len())
		}
	})
}

// Records whose units were all given back are dropped.
func TestCancel_LeavesNoRecordsBehind(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerHour(2).Log(), WithClock(clock))
	l.Allow("k")
	for range 5000 {
		clock.Advance(1)
		r, d := l.Reserve("k", 1)
		require.True(t, d.Allowed)
		r.Cancel()
	}
	e := l.find(l.current.Load(), l.key("k")).asMulti()
	require.LessOrEqual(t, e.states[0].ring.Load().room(), 8)
	require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
}

// After a change of limits, a Cancel gives nothing back of a charge that has expired, nor of a
// charge whose tick the new limit does not know.
func TestCancel_AfterOtherLimitsGivesNothingOfOthersBack(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).Log(), WithClock(clock))
	r, _ := l.Reserve("k", 10)
	clock.Set(int64(5 * time.Second))
	require.True(t, l.AllowN("k", 10))
	require.NoError(t, l.Reconfigure(PerMinute(10).Log()))
	r.Cancel()
	require.False(t, l.Allow("k"))

	s, _ := l.Reserve("other", 10)
	require.NoError(t, l.Reconfigure(PerMinute(10).Counter()))
	clock.Advance(3 * time.Minute)
	require.True(t, l.AllowN("other", 10))
	s.Cancel()
	require.False(t, l.Allow("other"))
	require.NoError(t, l.Reconfigure(PerMinute(10).Log()))
	s.Cancel()
	require.False(t, l.Allow("other"))
}

// Two new limits are both replayed from the same old limit. A reservation from before is
// given back once under each.
func TestCancel_UnderLimitsThatFollowOne(t *testing.T) {
	l := newTest(t, PerMinute(10).Counter(), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("k", 3)
	require.NoError(t, l.Reconfigure(PerMinute(20).Counter(), PerMinute(30).Counter()))
	s, _ := l.Reserve("k", 4)
	require.True(t, l.AllowN("k", 5))
	r.Cancel()
	require.EqualValues(t, 11, l.Peek("k", 0).Remaining)
	s.Cancel()
	require.EqualValues(t, 15, l.Peek("k", 0).Remaining)
}

// The limits rise during a Reserve, between its look-up and its decision. Here the function of
// WithLimitsFor raises them.
func TestReserve_WhileItsLimitsRise(t *testing.T) {
	var l *Limiter
	var once sync.Once
	l = newTest(t, PerMinute(10).Counter(), WithClock(NewManualClock(0)), WithLimitsFor(func(string) []Limit {
		once.Do(func() { l.SetLimits("k", PerMinute(100)) })
		return nil
	}))
	r, d := l.Reserve("k", 20)
	require.True(t, d.Allowed)
	r.Commit(15)
	require.EqualValues(t, 85, l.Peek("k", 0).Remaining)
}

func TestReserveAll_SettlesEachKeyForItself(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.AllowN("b", 3))
		all, d := l.ReserveAll([]string{"b", "a", "b"}, 4)
		require.True(t, d.Allowed)
		require.EqualValues(t, 3, d.Remaining)
		require.Equal(t, all[0], all[2], "equal keys have equal reservations")
		all[1].Cancel()
		require.EqualValues(t, 10, l.Peek("a", 0).Remaining)
		require.EqualValues(t, 3, l.Peek("b", 0).Remaining)
		all[0].Commit(1)
		all[2].Cancel()
		require.EqualValues(t, 6, l.Peek("b", 0).Remaining)

		all, d = l.ReserveAll([]string{"a", "b"}, 7)
		require.False(t, d.Allowed)
		require.Equal(t, []Reservation{{}, {}}, all)
		require.EqualValues(t, 10, l.Peek("a", 0).Remaining, "nothing was charged")
		all, d = l.ReserveAll(nil, 1)
		require.Empty(t, all)
		require.Equal(t, Never, d.RetryAfter)
	})
}

// The fifth minute is not the fifth hundred seconds.
func TestCancel_MistakesNoWindowForAnother(t *testing.T) {
	clock := NewManualClock(int64(330 * time.Second))
	l := newTest(t, PerMinute(10).Counter(), WithClock(clock))
	r, _ := l.Reserve("k", 4)
	require.NoError(t, l.Reconfigure(Per(10, 100*time.Second).Counter()))
	clock.Set(int64(550 * time.Second))
	require.True(t, l.AllowN("k", 10))
	r.Cancel()
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
}

// A reservation from two windows ago no longer counts. Its Cancel takes no units out of the
// windows that count.
func TestCancel_OfAWindowLongPast(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10, 100).Counter(), WithClock(clock))
	r, _ := l.Reserve("k", 4)
	clock.Set(200)
	require.True(t, l.AllowN("k", 5))
	clock.Set(300)
	require.True(t, l.AllowN("k", 2))
	before := l.Peek("k", 0)
	require.EqualValues(t, 3, before.Remaining)
	r.Cancel()
	require.Equal(t, before, l.Peek("k", 0))
}

// A state whose units were all given back remembers nothing. So it begins again where a key
// that was never seen does, at the floor.
func TestCancel_AnEmptiedStateBeginsAtTheFloor(t *testing.T) {
	for name, options := range map[string][]Option{
		"one limit": {PerMinute(10).Log()},
		"several":   {PerMinute(10).Log(), PerMinute(20).Log()},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			l := newTest(t, append(options, WithClock(clock))...)
			require.True(t, l.Allow("other"))
			var reservations []Reservation
			for at := 48 * sec; at <= 50*sec; at += sec { // three records, so that there is room for more
				clock.Set(at.Nanoseconds())
				reservation, _ := l.Reserve("k", 1)
				reservations = append(reservations, reservation)
			}
			clock.Set(70 * sec.Nanoseconds())
			require.Equal(t, 1, l.Sweep(), "the floor rises to 60 s, where the other key had become idle")

			clock.Set(55 * sec.Nanoseconds())
			for _, reservation := range reservations {
				reservation.Cancel()
			}
			require.Equal(t, l.Take("new", 1), l.Take("k", 1))
			require.Equal(t, 65*sec, l.Peek("k", 0).ResetAfter)
		})
	}
}

// A Commit to what was reserved gives nothing back, so no call that waits looks again.
func TestReserve_AnExactCommitWakesNobody(t *testing.T) {
	for _, limit := range []Limit{PerHour(10).Log(), PerHour(10).TokenBucket(10)} {
		synctest.Test(t, func(t *testing.T) {
			var readings atomic.Int64
			system := SystemClock()
			l := newTest(t, limit, WithClock(clockFunc(func() int64 { readings.Add(1); return system.Now() })))
			r, _ := l.Reserve("k", 10)
			ctx, cancel := context.WithCancel(t.Context())
			var waiters sync.WaitGroup
			for range 10 {
				waiters.Go(func() { _ = l.Wait(ctx, "k", 1) })
			}
			synctest.Wait()
			before := readings.Load()
			r.Commit(10)
			synctest.Wait()
			require.Equal(t, before, readings.Load(), limit)
			cancel()
			waiters.Wait()
		})
	}
}
