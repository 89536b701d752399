package sash

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// leaves are the terms of keys that must leave so much each.
func leaves(units ...int64) (terms []bridge.Terms) {
	for _, n := range units {
		terms = append(terms, bridge.Terms{Leave: n})
	}
	return terms
}

// Keys that share a quota leave there what each of them must, whichever of them is locked first.
func TestTakeAllOn_KeysThatShareAQuotaLeaveTheMost(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)), WithMaxKeys(1, ShareOverflow))
	require.True(t, l.Allow("tracked"))
	a, b := sameShard(l)
	d, _ := internals.TakeAllOn(l, []string{a, b}, leaves(0, 4), 6)
	require.True(t, d.Allowed)
	for _, terms := range [][]bridge.Terms{leaves(0, 4), leaves(4, 0)} {
		d, _ := internals.TakeAllOn(l, []string{a, b}, terms, 1)
		require.False(t, d.Allowed, "terms %v", terms)
		require.Equal(t, l.Peek(a, 5).RetryAfter, d.RetryAfter)
	}
	require.True(t, l.TakeAll([]string{a, b}, 4).Allowed)
}

// near20 takes n units from one key, and returns the limits of which the charge leaves less than 20 %.
func near20(l *Limiter, key string, n int64) (crossed []Limit) {
	_, crossings := internals.TakeAllOn(l, []string{key}, []bridge.Terms{{Near: 20}}, n)
	for _, c := range crossings {
		crossed = append(crossed, c.Limit)
	}
	return crossed
}

// A charge crosses a limit if the share is there before it, and not after it.
func TestTakeAllOn_TellsACrossingOnce(t *testing.T) {
	for _, limit := range []Limit{PerMinute(10).Counter(), PerMinute(10).Log(), PerMinute(10).Parts(), PerMinute(10).Buckets(time.Second), Per(3, time.Minute).TokenBucket(10), PerMinute(10 << 36)} {
		clock := NewManualClock(int64(time.Hour))
		l := newTest(t, limit, WithClock(clock))
		unit := limit.most() / 10
		require.Empty(t, near20(l, "k", 7*unit), "%v", limit)
		require.Empty(t, near20(l, "k", unit), "%v: 20 %% are left", limit)
		require.Empty(t, near20(l, "k", 3*unit), "%v: it is denied", limit)
		require.Equal(t, []Limit{limit}, near20(l, "k", 1), "%v", limit)
		require.Empty(t, near20(l, "k", 1), "%v: it was crossed before", limit)
		require.Empty(t, near20(l, "k", 0), "%v", limit)
		require.Equal(t, []Limit{limit}, near20(l, "another", 9*unit), "%v", limit)
		clock.Advance(time.Hour)
		require.Equal(t, []Limit{limit}, near20(l, "k", 9*unit), "%v: it is full again", limit)
	}
	l := newTest(t, PerMinute(1), WithClock(NewManualClock(0)))
	require.Len(t, near20(l, "k", 1), 1, "a share is rounded up")
}

// Each limit of each key is crossed for itself, also one that has most left.
func TestTakeAllOn_TellsEachLimitOfEachKey(t *testing.T) {
	small, large := PerMinute(10).Counter(), PerHour(30).Log()
	l := newTest(t, small, WithLimits(large), WithClock(NewManualClock(0)))
	require.Empty(t, near20(l, "a", 8))
	require.Equal(t, []Limit{small}, near20(l, "a", 1))
	l.clock.(*ManualClock).Advance(2 * time.Minute)
	require.Equal(t, []Limit{small}, near20(l, "a", 9))
	l.clock.(*ManualClock).Advance(2 * time.Minute)
	require.Empty(t, near20(l, "a", 6))
	require.Equal(t, []Limit{large}, near20(l, "a", 1), "3 are left of the small one, and 5 of the large")
	l.clock.(*ManualClock).Advance(2 * time.Hour)
	_, crossings := internals.TakeAllOn(l, []string{"a", "b", "c"}, []bridge.Terms{{Near: 100}, {}, {Near: 100, Leave: 3}}, 1)
	require.ElementsMatch(t, []bridge.Crossing[Limit]{{Key: 0, Limit: small}, {Key: 0, Limit: large}, {Key: 2, Limit: small}, {Key: 2, Limit: large}}, crossings)
}

func TestTakeAllOn_TellsNoCrossingOfADenial(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)), WithChargeDenied())
	require.Empty(t, near20(l, "k", 11))
	require.Empty(t, near20(l, "k", 5))
	require.Empty(t, near20(l, "k", 6), "it is charged, and denied")
	unlimited := newTest(t, Unlimited())
	require.Empty(t, near20(unlimited, "k", 1<<62))
}

// Keys that share a quota are each told of its limit.
func TestTakeAllOn_TellsKeysThatShareAQuota(t *testing.T) {
	for name, terms := range map[string][]bridge.Terms{"first": {{Near: 20}, {}}, "second": {{}, {Near: 20}}, "both": {{Near: 20}, {Near: 20}}} {
		l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)), WithMaxKeys(1, ShareOverflow))
		require.True(t, l.Allow("tracked"))
		a, b := sameShard(l)
		_, crossings := internals.TakeAllOn(l, []string{a, b}, terms, 9)
		want := 0
		for i, of := range terms {
			if of.Near > 0 {
				want++
				require.Contains(t, crossings, bridge.Crossing[Limit]{Key: i, Limit: PerMinute(10).Log()}, name)
			}
		}
		require.Len(t, crossings, want, name)
	}
}

// Of requests that race, exactly one crosses.
func TestTakeAllOn_OneOfThoseThatRaceCrosses(t *testing.T) {
	for _, limit := range []Limit{PerMinute(200).Counter(), PerMinute(200).Log(), PerMinute(200).TokenBucket(200)} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		var crossed atomic.Int64
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for range 100 {
					if g == 0 {
						r, _, crossings := internals.ReserveAllOn(l, []string{"k"}, []bridge.Terms{{Near: 20}}, 1)
						crossed.Add(int64(len(crossings)))
						r[0].Commit(1)
						continue
					}
					crossed.Add(int64(len(near20(l, "k", 1))))
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, crossed.Load(), "%v", limit)
	}
}

// What a request has cost beyond its estimate crosses limits, too. What is given back crosses none.
func TestCommitNear_TellsACrossing(t *testing.T) {
	for _, limit := range []Limit{PerMinute(10).Counter(), PerMinute(10).Log(), PerMinute(10).TokenBucket(10)} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		reserve := func(n int64) Reservation {
			r, d := l.Reserve("k", n)
			require.True(t, d.Allowed)
			return r
		}
		r := reserve(1)
		require.Empty(t, internals.CommitNear(r, 8, 20), "%v", limit)
		r = reserve(1)
		require.Empty(t, internals.CommitNear(r, 5, 20), "%v: the reservation has crossed", limit)
		l.Reset("k")
		r = reserve(3)
		require.Empty(t, internals.CommitNear(r, 1, 90), "%v", limit)
		require.Equal(t, []Limit{limit}, internals.CommitNear(reserve(1), 40, 20), "%v", limit)
		require.Empty(t, internals.CommitNear(r, 40, 20), "%v: it is settled", limit)
		l.Reset("k")
		require.Empty(t, internals.CommitNear(reserve(1), 40, 0), "%v", limit)
	}
}

// A limit that admits nothing has nothing left before a charge, so nothing crosses it.
func TestCommitNear_OfALimitOfNothing(t *testing.T) {
	some, none := PerMinute(10).Log(), PerHour(0).Log()
	l := newTest(t, some, none, WithChargeDenied(), WithClock(NewManualClock(0)))
	r, d := l.Reserve("k", 0)
	require.True(t, d.Allowed)
	require.Equal(t, []Limit{some}, internals.CommitNear(r, 40, 20))
}
