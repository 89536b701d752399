package sash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// zeros are limits of every algorithm that admit nothing.
var zeros = []Limit{
	{Count: 0, Window: time.Minute},
	Limit{Count: 0, Window: time.Minute}.Log(),
	Limit{Count: 0, Window: time.Minute}.Buckets(time.Second),
	Limit{Count: 0, Window: time.Minute}.TokenBucket(5),
	{Count: 0, Window: 1}, // it does not fit into a word
	{Count: 0, Window: math.MaxInt64},
}

// eachWay runs test with options under which a key has the limit zero alone, or with others;
// of the limiter's own, or of its own.
func eachWay(t *testing.T, limits []Limit, test func(t *testing.T, limit Limit, l *Limiter, clock *ManualClock), more ...Option) {
	t.Helper()
	for _, limit := range limits {
		for name, options := range map[string][]Option{
			"alone":         {limit},
			"first":         {limit, PerSecond(10).Counter(), PerHour(100).Log()},
			"last":          {PerSecond(10).Counter(), PerHour(100).Log(), limit},
			"WithLimitsFor": {PerSecond(10), WithLimitsFor(func(string) []Limit { return []Limit{limit} })},
		} {
			t.Run(limit.String()+" "+name, func(t *testing.T) {
				clock := NewManualClock(12345)
				test(t, limit, newTest(t, slices.Concat(options, more, []Option{WithClock(clock)})...), clock)
			})
		}
		t.Run(limit.String()+" SetLimits", func(t *testing.T) {
			clock := NewManualClock(12345)
			l := newTest(t, append(more, PerSecond(10), WithClock(clock))...)
			for _, key := range []string{"k", "other", ""} {
				require.NoError(t, l.SetLimits(key, limit))
			}
			test(t, limit, l, clock)
		})
	}
}

func TestCountZero_AdmitsNothingAndStoresNothing(t *testing.T) {
	check := func(t *testing.T, zero Limit, l *Limiter, clock *ManualClock) {
		denied := Decision{Limit: zero, RetryAfter: Never}
		for range 2 {
			require.False(t, l.Allow("k"))
			require.False(t, l.AllowN("k", math.MaxInt64))
			require.False(t, l.AllowBytes([]byte("k")))
			require.Equal(t, denied, l.Take("k", 1))
			require.Equal(t, denied, l.TakeBytes([]byte("k"), 5))
			require.Equal(t, denied, l.Peek("k", 1))
			require.Equal(t, Never, l.Take("k", -1).RetryAfter)
			require.Equal(t, denied, l.TakeAll([]string{"k", "other"}, 1))
			d, next := l.TakeThenPeek("k", 1)
			require.Equal(t, denied, d)
			require.Equal(t, denied, next)

			asked := Decision{Allowed: true, Limit: zero}
			require.Equal(t, asked, l.Peek("k", 0))
			require.Equal(t, asked, l.Take("k", 0))
			d, next = l.TakeThenPeek("k", 0)
			require.Equal(t, asked, d)
			require.Equal(t, denied, next)

			r, d := l.Reserve("k", 1)
			require.Equal(t, denied, d)
			require.Zero(t, r)
			_, d = l.ReserveAll([]string{"other", "k"}, 1)
			require.Equal(t, denied, d)
			r, _ = l.Reserve("k", 0)
			r.Commit(5)
			require.NoError(t, l.Wait(t.Context(), "k", 0))
			err := l.Wait(t.Context(), "k", 1)
			require.EqualError(t, err, fmt.Sprintf("sash: Wait: 1 is more than %v ever admits: exceeds the limit", zero))
			require.ErrorIs(t, err, ErrExceedsLimit)
			clock.Advance(time.Second)
		}
		require.Zero(t, l.Len(), "nothing is stored")
		require.False(t, l.Reset("k"))
		require.Zero(t, l.Stats())
	}
	t.Run("free", func(t *testing.T) { eachWay(t, zeros, check) })
	for _, overflow := range []Overflow{EvictLeastUsed, DenyNew, ShareOverflow} {
		t.Run(fmt.Sprint("capped ", overflow), func(t *testing.T) { eachWay(t, zeros, check, WithMaxKeys(1, overflow)) })
	}
}

// What denied attempts are charged ends at Count, so a limit of nothing charges nothing. The
// other limits of its key are charged.
func TestCountZero_ChargesNothingOfWhatIsDenied(t *testing.T) {
	for _, zero := range zeros {
		l := newTest(t, zero, WithChargeDenied(), WithClock(NewManualClock(0)))
		require.Equal(t, Decision{Limit: zero, RetryAfter: Never}, l.Take("k", 3))
		require.False(t, l.Allow("k"))
		require.Zero(t, l.Len())

		require.NoError(t, l.Reconfigure(zero, PerMinute(10).Log(), PerHour(100).Counter()))
		require.Equal(t, Decision{Limit: zero, RetryAfter: Never, ResetAfter: 2 * time.Hour}, l.Take("k", 3))
		require.False(t, l.TakeAll([]string{"k", "j"}, 1).Allowed)
		r, d := l.Reserve("j", 1)
		require.False(t, d.Allowed)
		require.Zero(t, r)
		_, d = l.ReserveAll([]string{"k", "j"}, 0)
		require.True(t, d.Allowed)
		_, _ = l.Reserve("k", 1)
		require.Equal(t, 2, l.Len())
		require.NoError(t, l.Reconfigure(PerMinute(10).Log(), PerHour(100)))
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		require.EqualValues(t, 8, l.Peek("j", 0).Remaining)
	}
}

// The units charged before still count when a limit is lowered to nothing and raised again.
func TestCountZero_KeepsWhatWasCharged(t *testing.T) {
	for name, limit := range map[string]Limit{"counter": PerMinute(10).Counter(), "large": Per(1e15, time.Minute).Counter(), "parts": PerMinute(100), "log": PerMinute(10).Log(), "buckets": PerMinute(10).Buckets(time.Second), "token bucket": PerMinute(10).TokenBucket(10)} {
		for _, chargeDenied := range []bool{false, true} {
			t.Run(fmt.Sprint(name, chargeDenied), func(t *testing.T) {
				clock, own := NewManualClock(0), []Option{limit}
				if chargeDenied {
					own = append(own, WithChargeDenied())
				}
				own = append(own, WithClock(clock))
				l := newTest(t, own...)
				l.wall = func() time.Time { return time.Unix(0, 0) } // it stands still
				zero := limit
				zero.Count = 0
				for _, change := range []func(...Limit) error{
					l.Reconfigure,
					func(limits ...Limit) error { return l.SetLimits("k", limits...) },
				} {
					l.Reset("k")
					r, _ := l.Reserve("k", 3)
					clock.Advance(time.Second)
					require.NoError(t, change(zero))
					d := l.Take("k", 1)
					require.False(t, d.Allowed)
					require.Equal(t, Never, d.RetryAfter)
					require.Equal(t, zero, d.Limit)
					require.Positive(t, d.ResetAfter)
					require.False(t, l.Allow("k"))
					if !chargeDenied { // of a log, no more than Count units count then
						require.False(t, l.TakeAll([]string{"k", "l"}, 1).Allowed)
						require.False(t, l.Peek("k", 0).Allowed, "it is over its limit")
					}
					require.Equal(t, 1, l.Len())

					var saved bytes.Buffer
					require.NoError(t, l.Snapshot(&saved))
					restored := newTest(t, append(slices.Clone(own[1:]), l.current.Load().ruleset.rules[0].Limit)...)
					restored.wall = l.wall
					require.NoError(t, restored.Restore(&saved))
					require.Equal(t, l.Peek("k", 1), restored.Peek("k", 1))

					require.NoError(t, change(limit))
					require.Equal(t, limit.Count-3, l.Peek("k", 0).Remaining)
					r.Commit(2)
					require.Equal(t, limit.Count-2, l.Peek("k", 0).Remaining)
					require.NoError(t, change(zero))
					r, _ = l.Reserve("k", 0)
					r.Commit(4)
					require.NoError(t, change(limit))
					require.Equal(t, limit.Count-2, l.Peek("k", 0).Remaining, "where nothing is admitted, nothing is spent")
					clock.Advance(2 * time.Minute)
					require.NoError(t, change(zero))
					require.Equal(t, 1, l.Sweep())
					require.NoError(t, change(limit))
				}
			})
		}
	}
}

func TestCountZero_DeniesACallOnOtherKeys(t *testing.T) {
	l, _ := capped(t, 2, DenyNew)
	require.NoError(t, l.SetLimits("banned", PerMinute(0)))
	require.True(t, l.Allow("a"))
	require.True(t, l.Allow("b"))
	require.Equal(t, Decision{Limit: PerMinute(0), RetryAfter: Never, ResetAfter: 2 * time.Minute}, l.TakeAll([]string{"a", "banned", "b"}, 1))
	require.EqualValues(t, 2, l.Peek("a", 0).Remaining)
	require.True(t, l.TakeAll([]string{"a", "banned", "b"}, 0).Allowed, "the key that takes no room fits")
	require.Zero(t, l.Stats().Refused)
	require.Equal(t, Decision{Limit: PerMinute(3).Counter(), RetryAfter: l.current.Load().sweepInterval()}, l.Take("c", 1))
	require.EqualValues(t, 1, l.Stats().Refused)
}

// Keys that take no room do not count against the bound.
func TestUnlimited_TakesNoRoom(t *testing.T) {
	l, clock := capped(t, 1, DenyNew)
	require.NoError(t, l.SetLimits("free", Unlimited()))
	require.NoError(t, l.SetLimits("banned", PerMinute(0)))
	require.True(t, l.TakeAll([]string{"free", "k"}, 1).Allowed)
	require.Equal(t, Decision{Limit: PerMinute(3).Counter(), RetryAfter: l.current.Load().sweepInterval()}, l.TakeAll([]string{"free", "new"}, 1),
		"the other key is denied for lack of room, not for ever")
	require.EqualValues(t, 1, l.Stats().Refused)
	clock.Advance(time.Hour)
	require.True(t, l.Allow("free"))
	require.False(t, l.Allow("banned"))
	require.Equal(t, 1, l.Len(), "no idle key makes room")
	require.Zero(t, testing.AllocsPerRun(10, func() { l.Allow("free") }))

	l, _ = capped(t, 1, ShareOverflow)
	require.NoError(t, l.SetLimits("banned", PerMinute(0)))
	require.True(t, l.Allow("k"))
	require.Equal(t, Never, l.TakeAll([]string{"banned", "new"}, 1).RetryAfter, "only keys that need room share a quota")
	require.True(t, l.AllowN("new", 3), "nothing was charged to it")
}

// The call finds the table full. Before it is decided, another key is reset.
func TestUnlimited_NoticesThatThereIsRoomForOthers(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	require.NoError(t, l.SetLimits("free", Unlimited()))
	require.True(t, l.Allow("held"))
	readings := 0
	l.clock = clockFunc(func() int64 {
		if readings++; readings == 3 { // under the locks
			require.True(t, l.Reset("held"))
		}
		return 0
	})
	require.True(t, l.TakeAll([]string{"free", "new"}, 1).Allowed)
	require.Zero(t, l.Stats().Refused)
}

// A call that locks all of its keys makes room for those that need it. A key that becomes
// unlimited while the call makes room gets no entry.
func TestUnlimited_UnderLocks(t *testing.T) {
	underLocks := func(l *Limiter, keys ...string) (d Decision) {
		l.takeAllLocked(l.targets(nil, keys), l.current.Load(), &request{query: query{n: 1, charge: true}}, &d)
		return d
	}
	l, _ := capped(t, 2, EvictLeastUsed)
	require.NoError(t, l.SetLimits("free", Unlimited()))
	require.True(t, l.Allow("held"))
	require.True(t, l.Allow("other"))
	require.EqualValues(t, 2, underLocks(l, "free", "new").Remaining)
	require.EqualValues(t, 1, l.Stats().Displaced)
	require.Equal(t, 2, l.Len())

	for i := range 20 { // so that either key is first in the order of the locks
		freed := fmt.Sprint("freed", i)
		l, _ = capped(t, 2, EvictLeastUsed)
		require.True(t, l.Allow(freed))
		require.True(t, l.Allow("held"))
		readings := 0
		l.clock = clockFunc(func() int64 {
			if readings++; readings == 2 { // to find a key to evict
				require.NoError(t, l.SetLimits(freed, Unlimited()))
			}
			return 0
		})
		require.EqualValues(t, 2, underLocks(l, freed, "new").Remaining)
		require.False(t, l.Reset(freed), "it is not tracked")
		require.Equal(t, 2, l.Len())
		require.Zero(t, l.Stats().Displaced, "it has left its room")
	}
}

// A key that is denied in any case loses nothing when it is evicted.
func TestCountZero_IsEvictedFirst(t *testing.T) {
	for _, order := range [][]string{{"held", "banned"}, {"banned", "held"}} {
		l, _ := capped(t, 2, EvictLeastUsed)
		for _, key := range order {
			l.AllowN(key, 3)
		}
		require.NoError(t, l.SetLimits("banned", PerMinute(0)))
		require.True(t, l.Allow("new"))
		require.False(t, l.Allow("held"))
		require.False(t, l.Allow("banned"))
		require.EqualValues(t, 1, l.Stats().Displaced)
	}
}

// A call that waits fails once its key is admitted nothing. A call for no units goes on.
func TestCountZero_EndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(1).Log())
		require.True(t, l.Allow("k"))
		failed := make(chan error, 2)
		for range 2 {
			go func() { failed <- l.Wait(t.Context(), "k", 1) }()
		}
		synctest.Wait()
		require.NoError(t, l.Reconfigure(PerMinute(0).Log()))
		require.ErrorIs(t, <-failed, ErrExceedsLimit)
		require.ErrorIs(t, <-failed, ErrExceedsLimit)

		// A call for no units that comes behind such a call, before that has noticed.
		enqueue(l, 5, "k")
		require.Equal(t, l.Peek("k", 0).RetryAfter, l.forecast(enqueue(l, 0, "k"), make([]target, 1), 0))
		require.Equal(t, Never, l.forecast(enqueue(l, 1, "k"), make([]target, 1), 1))
	})
}

// A call begins to wait behind another one, just as the key has become unlimited.
func TestUnlimited_ForecastsNoWait(t *testing.T) {
	l := newTest(t, PerMinute(1), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	enqueue(l, 5, "k")
	require.NoError(t, l.SetLimits("k", Unlimited()))
	require.Zero(t, l.forecast(enqueue(l, 1, "k"), make([]target, 1), 1))
}

func TestUnlimited_Text(t *testing.T) {
	require.Equal(t, "unlimited", Unlimited().String())
	for _, text := range []string{"unlimited", " unlimited\n", "9223372036854775807/2562047h47m16.854775807s"} {
		l, err := ParseLimit(text)
		require.NoError(t, err)
		require.Equal(t, Unlimited(), l)
	}
	for _, text := range []string{"Unlimited", "UNLIMITED "} {
		_, err := ParseLimit(text)
		require.ErrorIs(t, err, ErrInvalidLimit)
		require.ErrorContains(t, err, `did you mean "unlimited"?`)
	}
	for _, text := range []string{"unlimited log", "unlimited/s", "none"} {
		_, err := ParseLimit(text)
		require.ErrorIs(t, err, ErrInvalidLimit, text)
	}
	text, err := json.Marshal(Decision{Limit: Unlimited()})
	require.NoError(t, err)
	require.Contains(t, string(text), `"Limit":"unlimited"`)
	var d Decision
	require.NoError(t, json.Unmarshal(text, &d))
	require.Equal(t, Unlimited(), d.Limit)
	require.Equal(t, Unlimited(), Unlimited().Log())
	require.Equal(t, Unlimited(), Unlimited().Buckets(time.Second))
	for _, near := range []Limit{
		Per(math.MaxInt64, math.MaxInt64-1), Per(math.MaxInt64-1, math.MaxInt64), Per(math.MaxInt64, math.MaxInt64-1).Counter(),
		{Count: math.MaxInt64, Window: math.MaxInt64, Algorithm: SlidingLog},
	} {
		parsed, err := ParseLimit(near.String())
		require.NoError(t, err)
		require.Equal(t, near, parsed)
		l := newTest(t, near, WithClock(NewManualClock(0)))
		require.Equal(t, near.Count-5, l.Take("k", 5).Remaining, "a limit like any other")
	}
}

// unlimitedDecision is the decision of every call that Unlimited admits.
var unlimitedDecision = Decision{Allowed: true, Limit: Unlimited(), Remaining: math.MaxInt64}

// useUnlimited checks that a key is admitted everything by every method, and not tracked.
func useUnlimited(t *testing.T, l *Limiter, key string) {
	t.Helper()
	before := l.Len()
	for _, n := range []int64{0, 1, 7, math.MaxInt64, math.MaxInt64} {
		require.True(t, l.Allow(key))
		require.True(t, l.AllowN(key, n))
		require.True(t, l.AllowBytes([]byte(key)))
		require.Equal(t, unlimitedDecision, l.Take(key, n))
		require.Equal(t, unlimitedDecision, l.TakeBytes([]byte(key), n))
		require.Equal(t, unlimitedDecision, l.Peek(key, n))
		require.Equal(t, unlimitedDecision, l.TakeAll([]string{key, key}, n))
		d, next := l.TakeThenPeek(key, n)
		require.Equal(t, unlimitedDecision, d)
		require.Equal(t, unlimitedDecision, next)
		require.NoError(t, l.Wait(t.Context(), key, n))
		r, d := l.Reserve(key, n)
		require.Equal(t, unlimitedDecision, d)
		require.Zero(t, r)
		r.Commit(9)
		r.Cancel()
		all, d := l.ReserveAll([]string{key, key}, n)
		require.Equal(t, unlimitedDecision, d)
		require.Equal(t, make([]Reservation, 2), all)
	}
	denied := unlimitedDecision
	denied.Allowed, denied.RetryAfter = false, Never
	require.Equal(t, denied, l.Take(key, -1))
	require.Equal(t, denied, l.Peek(key, math.MinInt64))
	require.Equal(t, denied, l.TakeAll([]string{key}, -1))
	d, next := l.TakeThenPeek(key, -1)
	require.Equal(t, denied, d)
	require.Equal(t, unlimitedDecision, next)
	require.ErrorIs(t, l.Wait(t.Context(), key, -1), ErrExceedsLimit)
	require.Equal(t, before, l.Len())
	require.False(t, l.Reset(key), "it is not tracked")
}

func TestUnlimited_AdmitsEverythingAndTracksNothing(t *testing.T) {
	for name, options := range map[string][]Option{
		"own":            {Unlimited()},
		"twice":          {Unlimited(), Unlimited()},
		"charges denied": {Unlimited(), WithChargeDenied()},
		"WithLimitsFor":  {PerSecond(1), WithLimitsFor(func(string) []Limit { return []Limit{Unlimited()} })},
		"at a cap":       {Unlimited(), WithMaxKeys(1, DenyNew)},
		"at a full cap": {PerSecond(1), WithMaxKeys(1, DenyNew), WithLimitsFor(func(key string) []Limit {
			if key == "other" {
				return nil
			}
			return []Limit{Unlimited(), Unlimited()}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTest(t, append(options, WithClock(NewManualClock(0)))...)
			l.Allow("other")
			useUnlimited(t, l, "k")
			require.Zero(t, l.Stats().Refused)
		})
	}
	for _, overflow := range []Overflow{EvictLeastUsed, DenyNew, ShareOverflow} {
		l, _ := capped(t, 1, overflow)
		require.True(t, l.AllowN("held", 2))
		require.NoError(t, l.SetLimits("k", Unlimited()))
		useUnlimited(t, l, "k")
		require.EqualValues(t, 1, l.Peek("held", 0).Remaining, "it takes no room")
		require.Equal(t, Decision{Allowed: true, Limit: PerMinute(3).Counter(), Remaining: 0, ResetAfter: 2 * time.Minute}, l.TakeAll([]string{"k", "held"}, 1))
		require.Equal(t, Stats{Keys: 1}, l.Stats())
	}
}

func TestUnlimited_AddsNothingToOtherLimits(t *testing.T) {
	limits := []Limit{PerMinute(5).Counter(), PerHour(7).Log()}
	for _, with := range [][]Limit{
		{Unlimited(), limits[0], limits[1]}, {limits[0], Unlimited(), limits[1], Unlimited()}, {limits[0], limits[1], Unlimited()},
	} {
		given := slices.Clone(with)
		clock := NewManualClock(0)
		plain, l := newTest(t, WithLimits(limits...), WithClock(clock)), newTest(t, WithLimits(with...), WithClock(clock))
		l.wall = func() time.Time { return time.Unix(0, 0) } // it stands still
		plain.wall = l.wall
		same := func() {
			for range 4 {
				for _, n := range []int64{1, 2, 0} {
					require.Equal(t, plain.Take("k", n), l.Take("k", n))
				}
				clock.Advance(20 * time.Second)
			}
		}
		same()
		var saved bytes.Buffer
		require.NoError(t, l.Snapshot(&saved))
		require.NoError(t, plain.Restore(&saved), "they are the same limits")
		same()
		require.NoError(t, plain.SetLimits("k", PerHour(9).Log(), PerMinute(5).Counter()))
		require.NoError(t, l.SetLimits("k", PerHour(9).Log(), Unlimited(), PerMinute(5).Counter()))
		same()
		require.Equal(t, given, with, "the caller's slice is not changed")
	}
	l := newTest(t, PerMinute(5).Counter(), Unlimited())
	require.Equal(t, kindWord, l.current.Load().ruleset.kind, "one limit has the smallest entries")
}

// A key that becomes unlimited is forgotten; one that is limited again begins anew.
func TestUnlimited_IsNoLongerTracked(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, clock *ManualClock) {
		limit := l.current.Load().ruleset.rules[0].Limit
		r, _ := l.Reserve("k", 3)
		l.Allow("other")
		require.NoError(t, l.SetLimits("k", Unlimited()))
		require.Equal(t, 1, l.Len())
		useUnlimited(t, l, "k")
		r.Commit(1)
		require.Equal(t, 1, l.Len())
		require.NoError(t, l.SetLimits("k"))
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		r.Cancel()

		require.True(t, l.AllowN("k", 3))
		r, _ = l.Reserve("k", 1)
		require.NoError(t, l.SetLimits("own", PerMinute(3)))
		require.True(t, l.AllowN("own", 2))
		require.NoError(t, l.Reconfigure(Unlimited()))
		require.Equal(t, 1, l.Len(), "the key with limits of its own")
		useUnlimited(t, l, "k")
		require.EqualValues(t, 1, l.Peek("own", 0).Remaining)
		require.EqualValues(t, 1, l.TakeAll([]string{"own", "k"}, 0).Remaining)
		r.Commit(4)
		require.Equal(t, 1, l.Len())

		require.NoError(t, l.Reconfigure(limit))
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		require.EqualValues(t, 0, l.Take("own", 1).Remaining)
		clock.Advance(5 * time.Minute)
		require.Equal(t, 1, l.Sweep())
		require.Zero(t, l.Len())
	}, WithMaxKeys(10, EvictLeastUsed))
}

func TestUnlimited_LetsOthersSettle(t *testing.T) {
	l := newTest(t, Unlimited(), WithClock(NewManualClock(0)))
	require.NoError(t, l.SetLimits("k", PerMinute(10)))
	r, d := l.Reserve("k", 4)
	require.EqualValues(t, 6, d.Remaining)
	r.Commit(1)
	require.EqualValues(t, 9, l.Peek("k", 0).Remaining)
	all, _ := l.ReserveAll([]string{"free", "k"}, 2)
	require.Zero(t, all[0])
	all[1].Commit(5)
	require.EqualValues(t, 4, l.Peek("k", 0).Remaining)
}

// The floor of a limiter that is unlimited holds for the keys that are not.
func TestUnlimited_ForgetsNoEviction(t *testing.T) {
	l := newTest(t, Unlimited(), WithClock(NewManualClock(0)))
	clock := l.Clock().(*ManualClock)
	require.NoError(t, l.SetLimits("k", PerMinute(3).Log()))
	require.True(t, l.AllowN("k", 3))
	clock.Advance(time.Minute)
	require.Equal(t, 1, l.Sweep())
	clock.Set(0)
	d := l.Take("k", 3)
	require.True(t, d.Allowed)
	require.Equal(t, 2*time.Minute, d.ResetAfter, "it is charged where the eviction was")
}

// Where the limiter's own limits are unlimited, keys of other limits that do not fit share
// that.
func TestUnlimited_IsShared(t *testing.T) {
	l, _ := capped(t, 1, ShareOverflow)
	for i := range 3 {
		require.NoError(t, l.SetLimits(fmt.Sprint(i), PerMinute(2)))
	}
	require.True(t, l.AllowN("0", 2))
	require.EqualValues(t, 2, l.Take("1", 1).Remaining, "of the shared quota")
	require.NoError(t, l.Reconfigure(Unlimited()))
	for range 3 {
		require.Equal(t, unlimitedDecision, l.Take("1", 5))
		r, d := l.Reserve("2", 1)
		require.Equal(t, unlimitedDecision, d)
		require.Zero(t, r)
	}
	require.False(t, l.TakeAll([]string{"1", "0"}, 1).Allowed)
	require.EqualValues(t, 8, l.Stats().Shared)
	require.NoError(t, l.Reconfigure(PerMinute(4)))
	require.EqualValues(t, 3, l.Take("1", 1).Remaining)
}

func TestUnlimited_InSnapshots(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Unlimited(), WithClock(clock))
	require.NoError(t, l.SetLimits("limited", PerMinute(3)))
	require.NoError(t, l.SetLimits("free", Unlimited(), Unlimited()))
	l.Allow("limited")
	l.Allow("free")
	l.Allow("k")
	var saved bytes.Buffer
	require.NoError(t, l.Snapshot(&saved))
	for _, own := range [][]Limit{{Unlimited()}, {Unlimited(), Unlimited()}} {
		restored := newTest(t, WithLimits(own...), WithClock(NewManualClock(7)))
		require.NoError(t, restored.Restore(bytes.NewReader(saved.Bytes())))
		require.Equal(t, 1, restored.Len())
		require.EqualValues(t, 2, restored.Peek("limited", 0).Remaining)
		require.NoError(t, restored.Reconfigure(PerMinute(1)))
		useUnlimited(t, restored, "free")
		require.EqualValues(t, 1, restored.Peek("k", 0).Remaining)
	}
	err := newTest(t, PerSecond(1)).Restore(bytes.NewReader(saved.Bytes()))
	require.ErrorIs(t, err, ErrBadSnapshot)
	require.ErrorContains(t, err, "its limits are [unlimited], the limiter's are [1/1s log]")

	header := numbers(int64(1), int64(2), 1, uint64(math.MaxInt64), uint64(math.MaxInt64), byte(0), 0)
	err = l.Restore(bytes.NewReader(asSnapshot(numbers(header, byte(keyRecord), "k", 0, byte(endRecord), 1, 0, int64(0)))))
	require.EqualError(t, err, `sash: snapshot: key "k" is unlimited, and yet tracked: bad snapshot`)
}

func TestUnlimited_IsObserved(t *testing.T) {
	var seen []string
	l := newTest(t, Unlimited(), WithClock(NewManualClock(0)), WithObserver(func(key string, n int64, d Decision) {
		require.Equal(t, unlimitedDecision, d)
		seen = append(seen, fmt.Sprint(key, n))
	}))
	l.Allow("a")
	l.Take("b", 2)
	l.TakeAll([]string{"c", "d"}, 3)
	l.Reserve("e", 4)
	l.Peek("f", 5)
	require.NoError(t, l.Wait(t.Context(), "g", 6))
	l.TakeThenPeek("h", 7)
	require.ElementsMatch(t, []string{"a1", "b2", "c3", "d3", "e4", "g6", "h7"}, seen)
}

// A call that waits goes on once its key is unlimited.
func TestUnlimited_EndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(1).Log())
		require.True(t, l.Allow("k"))
		waited := make(chan error, 3)
		for range 3 {
			go func() { waited <- l.Wait(t.Context(), "k", 1) }()
		}
		synctest.Wait()
		require.NoError(t, l.SetLimits("k", Unlimited()))
		start := time.Now()
		for range 3 {
			require.NoError(t, <-waited)
		}
		require.Zero(t, time.Since(start))
		require.Zero(t, l.Len())
	})
}

func TestUnlimited_AllocatesNothing(t *testing.T) {
	l := newTest(t, PerSecond(10))
	require.NoError(t, l.SetLimits("ip:10.1.2.3", Unlimited()))
	address := strings.Repeat("1", 2)
	for name, limiter := range map[string]*Limiter{"by SetLimits": l, "own": newTest(t, Unlimited(), PerSecond(10), Unlimited()), "all": newTest(t, Unlimited())} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			limiter.Allow("ip:" + address[:1] + "0.1.2.3")
			limiter.Take("ip:"+address[:1]+"0.1.2.3", 2)
			limiter.Peek("ip:"+address[:1]+"0.1.2.3", 1)
		}), name)
	}
	exempt := []Limit{Unlimited()}
	l = newTest(t, PerSecond(10), WithLimitsFor(func(string) []Limit { return exempt }))
	require.EqualValues(t, 1, testing.AllocsPerRun(100, func() { l.Allow("a key") }), "the copy of the key")
}

// A TakeAll charges the other keys only if the key that it does not charge still is unlimited.
// Here it becomes inadmissible while the call looks up a further key. The goroutine that has
// made it so then finds nothing charged yet. So the call comes after it.
func TestTakeAll_NoticesThatAKeyIsNoLongerUnlimited(t *testing.T) {
	const byOverride, toNothing, byPlan = 0, 1, 2 // how the key changes; it gets an entry unless to nothing
	for _, how := range []int{byOverride, toNothing, byPlan} {
		var l *Limiter
		first, second, changed := "", "", false
		l = newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)), WithLimitsFor(func(key string) []Limit {
			if key == second && !changed {
				changed = true
				if how != byPlan {
					require.NoError(t, l.SetLimits(first, PerMinute(int64(1-how))))
				}
				require.Equal(t, how != toNothing, l.Allow(first))
				require.EqualValues(t, 9, l.Peek("tracked", 0).Remaining)
			}
			switch {
			case key == second, key == first && how == byPlan && !changed:
				return []Limit{Unlimited()}
			case key == first:
				return []Limit{PerMinute(1)}
			}
			return nil
		}))
		for i := 0; l.key(first).compare(l.key(second)) >= 0; i++ {
			first, second = fmt.Sprint("first", i), fmt.Sprint("second", i)
		}
		l.Allow("tracked")
		if how != byPlan {
			require.NoError(t, l.SetLimits(first, Unlimited()))
		}
		d := l.TakeAll([]string{"tracked", first, second}, 2)
		require.True(t, changed)
		require.False(t, d.Allowed)
		require.EqualValues(t, 9, l.Peek("tracked", 0).Remaining, "nothing is charged")
		require.NoError(t, l.SetLimits(first, Unlimited()))
		require.True(t, l.TakeAll([]string{"tracked", first, second}, 2).Allowed)
		require.EqualValues(t, 7, l.Peek("tracked", 0).Remaining)
	}
}

// wrongLimits returns a limiter whose WithLimitsFor returns wrong limits for some keys.
func wrongLimits(t *testing.T, options ...Option) *Limiter {
	return newTest(t, append(options, PerMinute(10), WithClock(NewManualClock(0)), WithLimitsFor(func(key string) []Limit {
		switch key {
		case "negative":
			return []Limit{PerMinute(5), PerSecond(-1)}
		case "many":
			return slices.Repeat([]Limit{PerMinute(5)}, 65)
		case "zero value":
			return []Limit{{}}
		}
		return nil
	}))...)
}

func TestWithLimitsFor_WrongLimitsDeny(t *testing.T) {
	for _, options := range [][]Option{{}, {WithChargeDenied()}, {WithMaxKeys(1, DenyNew)}, {WithMaxKeys(1, ShareOverflow)}} {
		for key, want := range map[string]string{
			"negative":   "limit 2: Count must be >= 0, got -1: invalid limit",
			"many":       "a key has at most 64 limits, got 65: invalid limit",
			"zero value": "limit 1: Window must be > 0, got 0s: invalid limit",
		} {
			l := wrongLimits(t, options...)
			require.True(t, l.Allow("fine"))
			denied := Decision{Limit: Limit{Count: 0, Window: time.Second}, RetryAfter: Never}
			require.False(t, l.Allow(key))
			require.Equal(t, denied, l.Take(key, 2))
			require.EqualValues(t, 2, l.Stats().Invalid)
			require.Equal(t, denied, l.Peek(key, 1))
			require.Equal(t, denied, l.Take(key, -1))
			require.EqualValues(t, 2, l.Stats().Invalid, "only calls that would charge count")
			require.True(t, l.Peek(key, 0).Allowed, "no unit is asked for")
			d, next := l.TakeThenPeek(key, 1)
			require.Equal(t, denied, d)
			require.Equal(t, denied, next)
			require.EqualValues(t, 3, l.Stats().Invalid)
			r, d := l.Reserve(key, 1)
			require.Zero(t, r)
			require.Equal(t, denied, d)
			require.EqualValues(t, 4, l.Stats().Invalid)

			denied.ResetAfter = l.Peek("fine", 0).ResetAfter
			before := l.Peek("fine", 0).Remaining
			require.Equal(t, denied, l.TakeAll([]string{"fine", key}, 1))
			require.EqualValues(t, 5, l.Stats().Invalid)
			require.Equal(t, l.chargeDenied, l.Peek("fine", 0).Remaining < before)
			require.False(t, l.TakeAll([]string{"negative", "fine", key, "many"}, 1).Allowed)
			require.EqualValues(t, 6, l.Stats().Invalid, "a call counts once")

			err := l.Wait(t.Context(), key, 1)
			require.ErrorIs(t, err, ErrInvalidLimit)
			require.NotErrorIs(t, err, ErrExceedsLimit)
			require.EqualError(t, err, "sash: Wait: WithLimitsFor: "+want)
			require.EqualValues(t, 7, l.Stats().Invalid)
			require.EqualError(t, l.SetLimits(key), "sash: WithLimitsFor: "+want)
			require.Zero(t, l.Stats().Refused)

			require.Equal(t, 1, l.Len(), "nothing is stored")
			text, err := json.Marshal(d)
			require.NoError(t, err)
			var back Decision
			require.NoError(t, json.Unmarshal(text, &back))
			require.Equal(t, d, back)
		}
	}
}

// An override goes before wrong limits, and stays if they would take its place. A tracked key
// keeps the limits that it has.
func TestWithLimitsFor_WrongLimitsAndOverrides(t *testing.T) {
	l := wrongLimits(t)
	require.NoError(t, l.SetLimits("negative", PerMinute(2)))
	require.True(t, l.Allow("negative"))
	require.ErrorIs(t, l.SetLimits("negative"), ErrInvalidLimit)
	require.EqualValues(t, 1, l.Peek("negative", 0).Remaining, "on an error nothing has changed")
	require.NoError(t, l.Reconfigure(PerMinute(20)))
	require.True(t, l.Allow("negative"))
	require.False(t, l.Allow("many"))

	var saved bytes.Buffer
	require.NoError(t, l.Snapshot(&saved))
	require.NoError(t, l.Restore(&saved))
	require.EqualValues(t, 0, l.Peek("negative", 0).Remaining)
	require.False(t, l.Allow("many"))
	require.EqualValues(t, 2, l.Stats().Invalid)
	require.Equal(t, 1, l.Len())

	calls := 0
	l = newTest(t, PerMinute(10), WithClock(NewManualClock(0)), WithLimitsFor(func(string) []Limit {
		calls++
		return []Limit{PerMinute(int64(2 - calls))} // 1, 0, -1
	}))
	require.True(t, l.Allow("k"))
	require.False(t, l.Allow("k"))
	require.Equal(t, 1, calls)
	require.Zero(t, l.Stats().Invalid)
}

// The limits become wrong while the table is full.
func TestWithLimitsFor_WrongLimitsOfAKeyThatDoesNotFit(t *testing.T) {
	calls := 0
	l, _ := capped(t, 1, DenyNew, WithLimitsFor(func(key string) []Limit {
		if key != "k" {
			return nil
		}
		calls++
		return []Limit{PerMinute(int64(3 - 2*calls))} // 1, -1
	}))
	require.True(t, l.Allow("held"))
	require.False(t, l.Allow("k"))
	require.EqualValues(t, 1, l.Stats().Invalid)
	require.Zero(t, l.Stats().Refused)
}

func TestWithLimits_AddsToTheOthers(t *testing.T) {
	limits := []Limit{PerHour(5).Log(), PerDay(7)}
	option := WithLimits(limits...)
	limits[0] = PerSecond(1) // the option has its own copy
	l := newTest(t, PerMinute(9), option, PerSecond(8), WithLimits(), WithClock(NewManualClock(0)))
	require.Equal(t, []Limit{PerMinute(9), PerHour(5).Log(), PerDay(7), PerSecond(8)}, l.current.Load().ruleset.limits())
	require.Equal(t, PerHour(5).Log(), l.Take("k", 1).Limit)

	_, err := New(PerSecond(1), WithLimits(PerSecond(2), PerSecond(-3)), PerSecond(-4))
	require.EqualError(t, err, "sash: limit 3: Count must be >= 0, got -3: invalid limit\nsash: limit 4: Count must be >= 0, got -4: invalid limit")
	_, err = New(WithLimits())
	require.ErrorIs(t, err, ErrNoLimit)
	_, err = New(PerSecond(1), WithLimits(slices.Repeat([]Limit{PerSecond(2)}, 64)...))
	require.EqualError(t, err, "sash: a key has at most 64 limits, got 65: invalid limit")
}

func TestUnlimited_WaitHonoursItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, newTest(t, Unlimited()).Wait(ctx, "k", 1), context.Canceled)
}
