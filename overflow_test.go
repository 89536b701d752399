package sash

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDenyNew_DeniesWhatDoesNotFit(t *testing.T) {
	l, clock := capped(t, 2, DenyNew)
	require.True(t, l.Allow("a"))
	require.True(t, l.Allow("b"))
	want := Decision{Limit: PerMinute(3).Counter(), RetryAfter: 30 * time.Second}
	require.Equal(t, want, l.Peek("c", 1))
	require.Zero(t, l.Stats().Refused, "a Peek is not counted as refused")
	require.Equal(t, want, l.Take("c", 1))
	require.False(t, l.Allow("c"))
	require.EqualValues(t, 2, l.Stats().Refused)
	require.Equal(t, Decision{Allowed: true, Limit: PerMinute(3).Counter()}, l.Peek("c", 0), "0 units are allowed, and none remain")
	require.Equal(t, Never, l.Take("c", 4).RetryAfter)
	require.True(t, l.Allow("a"), "tracked keys are served")

	require.True(t, l.Reset("a"))
	require.True(t, l.Allow("c"))
	require.False(t, l.Allow("a"))
	clock.Advance(2 * time.Minute)
	require.True(t, l.Allow("a"))
	require.Zero(t, l.Stats().Displaced)
}

// The answer to a key that does not fit follows from one set of limits, also if the limits
// change during the call.
func TestDenyNew_AnswersByOneSetOfLimits(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	require.True(t, l.Allow("a"))
	before := l.Peek("new", 1)
	old := l.current.Load().resolve("new")
	require.NoError(t, l.Reconfigure(PerHour(3).Counter()))
	require.Equal(t, before, l.refused(old, query{n: 1}, 0, denied))
	require.Equal(t, Decision{Limit: PerHour(3).Counter(), RetryAfter: 10 * time.Minute}, l.Peek("new", 1))
}

func TestShareOverflow_SharesOneQuotaPerShard(t *testing.T) {
	l, clock := capped(t, 1, ShareOverflow)
	require.True(t, l.Allow("tracked"))
	a, b := sameShard(l)
	require.True(t, l.Allow(a))
	require.EqualValues(t, 1, l.Take(b, 1).Remaining)
	require.Equal(t, l.Peek(a, 1), l.Peek(b, 1))
	require.True(t, l.Allow(a))
	require.False(t, l.Allow(b))
	require.False(t, l.Allow(a))
	require.EqualValues(t, 5, l.Stats().Shared)
	require.Equal(t, 1, l.Len())
	require.EqualValues(t, 2, l.Peek("tracked", 0).Remaining)

	clock.Advance(2 * time.Minute)
	require.True(t, l.Allow(a), "the tracked key is idle, and makes room")
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "the key has a quota of its own")
}

// Of keys that share a quota, the one that was named first counts where several limits are equal.
func TestShareOverflow_TheFirstKeyThatSharesDecides(t *testing.T) {
	l, _ := capped(t, 1, ShareOverflow)
	require.NoError(t, l.SetLimits("tracked", PerHour(2).Log()))
	require.True(t, l.Allow("tracked"))
	a, b := sameShard(l)
	for _, keys := range [][]string{{a, "tracked", b}, {b, "tracked", a}} {
		require.Equal(t, l.Limits()[0], l.TakeAll(keys, 4).Limit)
		require.Equal(t, PerHour(2).Log(), l.TakeAll([]string{"tracked", keys[0], keys[2]}, 4).Limit)
	}
}

// sameShard returns two names of one shard.
func sameShard(l *Limiter) (a, b string) {
	for i := 1; ; i++ {
		if name := strconv.Itoa(i); l.key(name).shard() == l.key("0").shard() {
			return "0", name
		}
	}
}

func TestShareOverflow_CarriesOverToOtherLimits(t *testing.T) {
	everyAlgorithm := []Limit{PerMinute(3).Counter(), PerMinute(3).Log(), PerMinute(3).Buckets(time.Second), PerMinute(1e9), PerMinute(1e9).Counter(), PerMinute(3).TokenBucket(3)}
	for _, from := range everyAlgorithm {
		clock := NewManualClock(0)
		l := newTest(t, from, WithClock(clock), WithMaxKeys(1, ShareOverflow))
		l.Allow("tracked")
		l.AllowN("a", 2)
		for _, count := range []int64{5, 4, 7} {
			to := from
			to.Count = count
			if to.Algorithm == TokenBucket {
				to.Burst = count
			}
			require.NoError(t, l.Reconfigure(to))
			require.EqualValues(t, count-2, l.Peek("a", 0).Remaining, "%v", from)
			require.EqualValues(t, count-1, l.Peek("tracked", 0).Remaining)
		}
		// The quota still holds what is spent past it.
		r, d := l.Reserve("a", 1)
		require.True(t, d.Allowed)
		r.Commit(6)
		require.False(t, l.Peek("a", 0).Allowed, "%v", from)
	}
}

func TestTakeAll_OfKeysThatDoNotFit(t *testing.T) {
	l, _ := capped(t, 2, DenyNew)
	require.True(t, l.TakeAll([]string{"a"}, 1).Allowed)
	d := l.TakeAll([]string{"a", "b", "c"}, 1)
	require.Equal(t, Decision{Limit: PerMinute(3).Counter(), RetryAfter: Never, ResetAfter: 2 * time.Minute}, d, "more keys than the cap")
	require.EqualValues(t, 2, l.Peek("a", 0).Remaining, "nothing was charged")
	require.Equal(t, 1, l.Len())
	require.EqualValues(t, 1, l.Stats().Refused)
	require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)

	l, _ = capped(t, 3, EvictLeastUsed)
	for _, held := range []string{"x", "y", "z"} {
		takeTimes(l, held, 3)
	}
	for i := range 100 {
		a, b := strconv.Itoa(2*i), strconv.Itoa(2*i+1)
		require.True(t, l.TakeAll([]string{a, b, a}, 1).Allowed, "neither key is evicted for the other")
		require.EqualValues(t, 2, l.Peek(a, 0).Remaining)
		require.EqualValues(t, 2, l.Peek(b, 0).Remaining)
		require.Equal(t, 3, l.Len())
	}
	require.False(t, l.TakeAll([]string{"a", "b", "c", "d"}, 1).Allowed, "more keys than the cap")

	l, _ = capped(t, 1, ShareOverflow)
	l.Allow("tracked")
	a, b := sameShard(l)
	d = l.TakeAll([]string{a, b, "tracked"}, 1)
	require.True(t, d.Allowed)
	require.EqualValues(t, 1, d.Remaining)
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "keys that share a quota count once")
	require.EqualValues(t, 1, l.Stats().Shared)
}

// A call of 0 units is denied by a key that is above its limit, also if another key does not
// fit. The order of the two keys makes no difference.
func TestTakeAll_OfNothingIsDeniedByADebt(t *testing.T) {
	for i := range 40 { // each limiter hashes under a seed of its own
		l, _ := capped(t, 1, DenyNew)
		r, _ := l.Reserve("debt", 1)
		r.Commit(5)
		debt := l.Peek("debt", 0)
		require.False(t, debt.Allowed)
		for _, keys := range [][]string{{"debt", "new"}, {"new", "debt"}} {
			require.Equal(t, debt, l.TakeAll(keys, 0), "limiter %d", i)
			all, d := l.ReserveAll(keys, 0)
			require.Equal(t, debt, d)
			require.Equal(t, []Reservation{{}, {}}, all)
		}
		want := Decision{Allowed: true, Limit: PerMinute(3).Counter()}
		require.Equal(t, want, l.TakeAll([]string{"new", "newer"}, 0), "0 units are allowed, and none remain")
		require.Zero(t, l.Stats().Refused)
	}
}

// Two keys that share a quota are charged as one, in an entry of any kind.
func TestTakeAll_OfKeysThatShareAQuota(t *testing.T) {
	for _, limit := range []Limit{PerMinute(3).Counter(), Per(1<<40, time.Hour).Counter(), PerMinute(3).Log()} {
		l := newTest(t, limit, WithClock(NewManualClock(0)), WithMaxKeys(1, ShareOverflow))
		l.Allow("tracked")
		a, b := sameShard(l)
		for taken := int64(1); taken <= 3; taken++ {
			d := l.TakeAll([]string{a, b}, 1)
			require.True(t, d.Allowed, "%v", limit)
			require.Equal(t, limit.Count-taken, d.Remaining, "%v", limit)
		}
	}
}

// Of keys that share a quota, the first is locked, and its word decides. The word of another is one that the key had
// before it came to share, or none.
func TestAdmitAll_AsksOneOfTheKeysThatShare(t *testing.T) {
	l := newTest(t, PerMinute(3).Counter(), WithClock(NewManualClock(0)))
	takeTimes(l, "k", 3)
	g, e := l.lookup(l.key("k"))
	full, one := e.Word.Load(), query{n: 1}
	first := target{ruleset: g.ruleset, entry: e, placement: placedShared}
	other := target{ruleset: g.ruleset, entry: e, placement: placedWithAnother}
	other.word = full
	require.True(t, admitAll([]target{first, other}, one))
	first.word, other.word = full, 0
	require.False(t, admitAll([]target{first, other}, one))
}

// Keys that are tracked already are not evicted for other keys of the same call.
func TestTakeAll_OfMoreKeysThanTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, _ := capped(t, 2, overflow)
			l.Allow("a")
			d := l.TakeAll([]string{"a", "b", "c"}, 1)
			require.Equal(t, overflow == ShareOverflow, d.Allowed)
			require.Equal(t, overflow != ShareOverflow, d.RetryAfter == Never)
			require.Equal(t, 1, l.Len())
			require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
			require.Equal(t, 2, l.Len())
		})
	}
}

// While the call looks for room for its last missing key, another call inserts that key and
// fills the table. Then the call needs no more room, and evicts no key.
func TestTakeAll_OfAsManyKeysAsTheCapDuringAnother(t *testing.T) {
	l, _ := capped(t, 2, EvictLeastUsed)
	takeTimes(l, "a", 2)
	l.Allow("other")
	duringReading(l, 2, func() { // the one for the look at other keys
		require.True(t, l.Allow("b"))
	})
	require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
	require.EqualValues(t, 0, l.Peek("a", 0).Remaining)
	require.EqualValues(t, 1, l.Peek("b", 0).Remaining)
	require.EqualValues(t, 1, l.Stats().Displaced)
}

// Calls whose keys fill the whole table all succeed, with and without keys in common.
func TestRace_TakeAllOfAsManyKeysAsTheCap(t *testing.T) {
	for _, maxKeys := range []int{1, 2, 3} {
		c := &crowd{ManualClock: NewManualClock(0)}
		l := newTest(t, PerHour(1<<20), WithClock(c), WithMaxKeys(maxKeys, EvictLeastUsed))
		var denied atomic.Int64
		c.run(func(caller int) {
			for i := range 300 {
				keys := make([]string, maxKeys)
				for j := range keys {
					keys[j] = strconv.Itoa((caller + i + j) % (maxKeys + 2))
				}
				c.call(func() {
					if !l.TakeAll(keys, 1).Allowed {
						denied.Add(1)
					}
				})
			}
		})
		c.contended(t)
		require.Zero(t, denied.Load())
		require.LessOrEqual(t, l.Len(), maxKeys)
		require.Positive(t, l.Stats().Displaced)
	}
}

func TestReserve_OfKeysThatDoNotFit(t *testing.T) {
	l, _ := capped(t, 1, ShareOverflow)
	l.Allow("tracked")
	r, d := l.Reserve("a", 2)
	require.True(t, d.Allowed)
	r.Cancel()
	require.EqualValues(t, 1, l.Peek("a", 0).Remaining, "a shared quota gets nothing back")
	r, _ = l.Reserve("a", 1)
	r.Commit(1000)
	require.Zero(t, l.Peek("a", 0).Remaining)
	all, d := l.ReserveAll([]string{"a", "tracked"}, 1)
	require.False(t, d.Allowed)
	require.Equal(t, []Reservation{{}, {}}, all)

	l, _ = capped(t, 1, DenyNew)
	l.Allow("tracked")
	r, d = l.Reserve("a", 1)
	require.False(t, d.Allowed)
	require.Zero(t, r)
}

// Units spent are charged to their key even if it was evicted before the Commit and the table
// is full by then.
func TestCommit_OfAKeyThatWasEvicted(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
				r, d := l.Reserve("spender", 1)
				require.True(t, d.Allowed)
				free, d := l.Reserve("spender", 0)
				require.True(t, d.Allowed)
				clock.Advance(2 * time.Minute)
				takeTimes(l, "held", 3)
				takeTimes(l, "light", 1)
				require.Equal(t, Stats{Keys: 2, Evicted: 1}, l.Stats())

				r.Commit(3)
				require.EqualValues(t, 1, l.Peek("spender", 0).Remaining, "2 more than reserved")
				require.Equal(t, Stats{Keys: 2, Evicted: 1, Displaced: 1}, l.Stats())
				require.EqualValues(t, 0, l.Peek("held", 0).Remaining, "the least used key was evicted")
				free.Commit(2)
				require.False(t, l.Peek("spender", 0).Allowed, "1 more than the limit")
				require.Equal(t, Stats{Keys: 2, Evicted: 1, Displaced: 1}, l.Stats())
			}, WithMaxKeys(2, overflow))
		})
	}
}

// A reservation of 0 units inserts no key into a full table, but a Commit of more does.
func TestCommit_OfAKeyThatWasNeverTracked(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	l.Allow("tracked")
	r, d := l.Reserve("spender", 0)
	require.True(t, d.Allowed)
	r.Commit(5)
	require.False(t, l.Peek("spender", 0).Allowed)
	require.Equal(t, Stats{Keys: 1, Displaced: 1}, l.Stats())
}

// A reservation from a shared quota is settled there, and no key is evicted for it.
func TestCommit_OfAKeyThatSharesAQuota(t *testing.T) {
	l, _ := capped(t, 1, ShareOverflow)
	l.Allow("tracked")
	a, b := sameShard(l)
	for _, n := range []int64{1, 0} {
		r, d := l.Reserve(a, n)
		require.True(t, d.Allowed)
		r.Commit(n + 1)
	}
	all, d := l.ReserveAll([]string{a, b}, 0)
	require.True(t, d.Allowed)
	require.Zero(t, l.Peek(b, 0).Remaining)
	for _, r := range all {
		r.Commit(1)
	}
	require.False(t, l.Peek(b, 0).Allowed, "5 of 3 units are charged")
	require.EqualValues(t, 2, l.Peek("tracked", 0).Remaining)
	require.Zero(t, l.Stats().Displaced)
}

// A key may lose its entry, and its room under the cap, between two attempts of a
// ReserveAll. Then nothing is left of what the first attempt prepared for the entry. That
// is so too if the shared quota has more limits than the entry had: the place to note the
// charges was made for the limits of the entry.
func TestReserve_OfAKeyThatLosesItsEntry(t *testing.T) {
	for name, reconfigure := range map[string]bool{"the same limits": false, "more limits": true} {
		t.Run(name, func(t *testing.T) {
			l, _ := capped(t, 2, ShareOverflow)
			a, b := inOrder(l)
			r, _ := l.Reserve(a, 1)
			r.Cancel()
			l.Allow(b)
			readings := duringReading(l, 2, func() { // the one for another entry for b
				if reconfigure {
					require.NoError(t, l.Reconfigure(PerMinute(3).Counter(), PerHour(100)))
				}
				require.True(t, l.Reset(a))
				l.Allow("another")
			})
			all, d := l.ReserveAll([]string{a, b}, 1)
			require.Greater(t, readings.Load(), int64(2))
			require.True(t, d.Allowed)
			require.EqualValues(t, 1, l.Stats().Shared)
			for _, r := range all {
				r.Cancel()
			}
			require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "a shared quota gets nothing back")
			require.EqualValues(t, 2, l.Peek(b, 0).Remaining, "a quota of its own does")
		})
	}
}

// The RetryAfter of a key that does not fit is an estimate. So a call that waits does not
// fail because its deadline is earlier.
func TestWait_ForRoomUnderTheCap(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	l.Allow("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // real time, and far less than RetryAfter
	defer cancel()
	waited := make(chan error)
	go func() { waited <- l.Wait(ctx, "b", 1) }()
	for !l.queues.Has("b") {
	}
	l.Reset("a")
	l.queues.ChangeAll()
	require.NoError(t, <-waited)
}

// A displaced key is idle, and calls that wait for it are notified.
func TestWait_ForAKeyThatIsDisplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := capped(t, 1, EvictLeastUsed)
		takeTimes(l, "a", 3)
		waited := make(chan error, 1)
		go func() { waited <- l.Wait(t.Context(), "a", 1) }()
		synctest.Wait()
		require.Empty(t, waited)
		require.True(t, l.Allow("b"))
		synctest.Wait()
		require.Len(t, waited, 1, "though the clock has not moved")
		require.NoError(t, <-waited)
		require.GreaterOrEqual(t, l.Stats().Displaced, uint64(2), "a for b, and b for a; first a again if it came before b")
	})
}

// A call for a key that does not fit only looks for idle keys. It does not wait for a key that
// another call is charging.
func TestOverflow_WaitsForNoTrackedKey(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		l, _ := capped(t, 2, overflow)
		l.Allow("a")
		l.Allow("b")
		for _, key := range []string{"a", "b"} {
			e := l.table().load(l.key(key))
			word, _ := e.loadUnlocked()
			require.True(t, e.tryLock(word))
			defer e.Word.Store(word)
		}
		require.Equal(t, overflow == ShareOverflow, l.Allow("new"))
	}
}
