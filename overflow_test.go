package sash

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var everyOverflow = map[string]Overflow{"EvictLeastUsed": EvictLeastUsed, "DenyNew": DenyNew, "ShareOverflow": ShareOverflow}

// capped returns a limiter of at most that many keys, and its clock.
func capped(t testing.TB, keys int, overflow Overflow, options ...Option) (*Limiter, *ManualClock) {
	clock := NewManualClock(0)
	return newTest(t, append([]Option{PerMinute(3), WithClock(clock), WithMaxKeys(keys, overflow)}, options...)...), clock
}

func takeTimes(l *Limiter, key string, calls int) {
	for range calls {
		l.Allow(key)
	}
}

func TestMaxKeys_OfBadInput(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		_, err := New(PerSecond(1), WithMaxKeys(n, DenyNew))
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, fmt.Sprintf("WithMaxKeys: n must be from 1 to 1073741823, got %d", n))
	}
	_, err := New(PerSecond(1), WithMaxKeys(0, 3))
	require.ErrorContains(t, err, "got 0")
	require.ErrorContains(t, err, "overflow must be EvictLeastUsed, DenyNew or ShareOverflow, got 3")
}

func TestMaxKeys_IsNeverPassed(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, _ := capped(t, 10, overflow)
			for i := range 100 {
				l.Allow(strconv.Itoa(i))
				require.Equal(t, min(i+1, 10), l.Len())
				require.Equal(t, l.Len(), l.table().size())
			}
			for i := range 100 {
				l.Reset(strconv.Itoa(i))
			}
			require.Zero(t, l.Len())
			require.True(t, l.Allow("one more"))
			require.Equal(t, 1, l.Stats().Keys)
		})
	}
}

// Idle keys make room, whatever the overflow, and that is no loss.
func TestMaxKeys_IdleKeysMakeRoom(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, clock := capped(t, 10, overflow)
			for i := range 10 {
				takeTimes(l, strconv.Itoa(i), 3)
			}
			clock.Advance(2 * time.Minute)
			require.True(t, l.Allow("new"))
			require.EqualValues(t, 2, l.Peek("new", 0).Remaining)
			require.Equal(t, Stats{Keys: 10, Evicted: 1}, l.Stats())
		})
	}
}

func TestEvictLeastUsed_ForgetsTheOneWithMostLeft(t *testing.T) {
	everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.now.Load().cap = newKeyCap(4, EvictLeastUsed)
		for i, calls := range []int{3, 3, 1, 3} {
			takeTimes(l, strconv.Itoa(i), calls)
		}
		require.True(t, l.Allow("new"))
		require.EqualValues(t, 4, l.Len())
		require.EqualValues(t, 1, l.Stats().Displaced)
		require.EqualValues(t, 3, l.Peek("2", 0).Remaining, "forgotten")
		for _, held := range []string{"0", "1", "3"} {
			require.False(t, l.Allow(held), "a flood does not wash it out")
		}
	})
}

// What is left is compared as a part of Count: keys have limits of their own.
func TestEvictLeastUsed_ComparesPartsOfCount(t *testing.T) {
	l, _ := capped(t, 2, EvictLeastUsed, WithLimitsFor(func(key string) []Limit {
		if key == "large" {
			return []Limit{PerMinute(1000)}
		}
		return nil
	}))
	l.AllowN("large", 900) // 100 of 1000 left
	l.AllowN("small", 2)   // 1 of 3
	require.True(t, l.Allow("new"))
	require.EqualValues(t, 100, l.Peek("large", 0).Remaining)
	require.EqualValues(t, 3, l.Peek("small", 0).Remaining)
}

func TestDenyNew_DeniesWhatDoesNotFit(t *testing.T) {
	l, clock := capped(t, 2, DenyNew)
	require.True(t, l.Allow("a"))
	require.True(t, l.Allow("b"))
	want := Decision{Limit: PerMinute(3), RetryAfter: 30 * time.Second}
	require.Equal(t, want, l.Peek("c", 1))
	require.Zero(t, l.Stats().Refused, "a Peek is no call that was lost")
	require.Equal(t, want, l.Take("c", 1))
	require.False(t, l.Allow("c"))
	require.EqualValues(t, 2, l.Stats().Refused)
	require.Equal(t, Decision{Allowed: true, Limit: PerMinute(3)}, l.Peek("c", 0), "nothing asked, nothing left")
	require.Equal(t, Never, l.Take("c", 4).RetryAfter)
	require.True(t, l.Allow("a"), "those that fit are served")

	require.True(t, l.Reset("a"))
	require.True(t, l.Allow("c"))
	require.False(t, l.Allow("a"))
	clock.Advance(2 * time.Minute)
	require.True(t, l.Allow("a"))
	require.Zero(t, l.Stats().Displaced)
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
	require.True(t, l.Allow(a), "what was tracked has become idle, and makes room")
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "a quota of its own")
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
	everyAlgorithm := []Limit{PerMinute(3), PerMinute(3).Log(), PerMinute(3).Buckets(time.Second), PerMinute(1e9)}
	for _, from := range everyAlgorithm {
		clock := NewManualClock(0)
		l := newTest(t, from, WithClock(clock), WithMaxKeys(1, ShareOverflow))
		l.Allow("tracked")
		l.AllowN("a", 2)
		for _, count := range []int64{5, 4, 7} {
			to := from
			to.Count = count
			require.NoError(t, l.Reconfigure(to))
			require.EqualValues(t, count-2, l.Peek("a", 0).Remaining, "%v", from)
			require.EqualValues(t, count-1, l.Peek("tracked", 0).Remaining)
		}
	}
}

func TestTakeAll_OfKeysThatDoNotFit(t *testing.T) {
	l, _ := capped(t, 2, DenyNew)
	require.True(t, l.TakeAll([]string{"a"}, 1).Allowed)
	d := l.TakeAll([]string{"a", "b", "c"}, 1)
	require.Equal(t, Decision{Limit: PerMinute(3), RetryAfter: Never, ResetAfter: 2 * time.Minute}, d, "more than there can be")
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
		require.True(t, l.TakeAll([]string{a, b, a}, 1).Allowed, "neither makes room for the other")
		require.EqualValues(t, 2, l.Peek(a, 0).Remaining)
		require.EqualValues(t, 2, l.Peek(b, 0).Remaining)
		require.Equal(t, 3, l.Len())
	}
	require.False(t, l.TakeAll([]string{"a", "b", "c", "d"}, 1).Allowed, "more than there can be")

	l, _ = capped(t, 1, ShareOverflow)
	l.Allow("tracked")
	a, b := sameShard(l)
	d = l.TakeAll([]string{a, b, "tracked"}, 1)
	require.True(t, d.Allowed)
	require.EqualValues(t, 1, d.Remaining)
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "keys that share count once")
	require.EqualValues(t, 1, l.Stats().Shared)
}

// A call of 0 units is denied like any other by a key that is past its limit, also if
// another key does not fit, in whatever order the two are looked at.
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
		want := Decision{Allowed: true, Limit: PerMinute(3)}
		require.Equal(t, want, l.TakeAll([]string{"new", "newer"}, 0), "nothing asked, nothing left")
		require.Zero(t, l.Stats().Refused)
	}
}

// Two keys that share a quota are asked and charged as one, whatever their entry is.
func TestTakeAll_OfKeysThatShareAQuota(t *testing.T) {
	for _, limit := range []Limit{PerMinute(3), Per(1<<40, time.Hour), PerMinute(3).Log()} {
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

// Keys that are tracked already do not make room for others of the same call.
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

// The last key that was missing comes into the last place by another call, while
// this one looks for room for it: there is none to be made, nor needed.
func TestTakeAll_OfAsManyKeysAsTheCapBesideAnother(t *testing.T) {
	l, clock := capped(t, 2, EvictLeastUsed)
	takeTimes(l, "a", 2)
	l.Allow("other")
	readings := 0
	l.clock = clockFunc(func() int64 {
		if readings++; readings == 2 { // that for a look at others
			require.True(t, l.Allow("b"))
		}
		return clock.Now()
	})
	require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
	require.EqualValues(t, 0, l.Peek("a", 0).Remaining)
	require.EqualValues(t, 1, l.Peek("b", 0).Remaining)
	require.EqualValues(t, 1, l.Stats().Displaced)
}

// Calls that need every place there is, for keys in common or not, all come through.
func TestRace_TakeAllOfAsManyKeysAsTheCap(t *testing.T) {
	for _, most := range []int{1, 2, 3} {
		c := &crowd{ManualClock: NewManualClock(0)}
		l := newTest(t, PerHour(1<<20), WithClock(c), WithMaxKeys(most, EvictLeastUsed))
		var denied atomic.Int64
		c.run(func(caller int) {
			for i := range 300 {
				keys := make([]string, most)
				for j := range keys {
					keys[j] = strconv.Itoa((caller + i + j) % (most + 2))
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
		require.LessOrEqual(t, l.Len(), most)
		require.Positive(t, l.Stats().Displaced)
	}
}

func TestReserve_OfKeysThatDoNotFit(t *testing.T) {
	l, _ := capped(t, 1, ShareOverflow)
	l.Allow("tracked")
	r, d := l.Reserve("a", 2)
	require.True(t, d.Allowed)
	r.Cancel()
	require.EqualValues(t, 1, l.Peek("a", 0).Remaining, "what is shared is not given back")
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

// Units that have been spent are charged to their key even if it was evicted before the
// Commit and the table is full by then.
func TestCommit_OfAKeyThatLostItsPlace(t *testing.T) {
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
				require.EqualValues(t, 0, l.Peek("held", 0).Remaining, "the least used made room")
				free.Commit(2)
				require.False(t, l.Peek("spender", 0).Allowed, "1 more than the limit")
				require.Equal(t, Stats{Keys: 2, Evicted: 1, Displaced: 1}, l.Stats())
			}, WithMaxKeys(2, overflow))
		})
	}
}

// A reservation of nothing has no place in a full table, but what is then spent has.
func TestCommit_OfAKeyThatNeverHadAPlace(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	l.Allow("tracked")
	r, d := l.Reserve("spender", 0)
	require.True(t, d.Allowed)
	r.Commit(5)
	require.False(t, l.Peek("spender", 0).Allowed)
	require.Equal(t, Stats{Keys: 1, Displaced: 1}, l.Stats())
}

// What was reserved from a shared quota is settled there, and takes no place from a key.
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
	require.False(t, l.Peek(b, 0).Allowed, "3 and 2")
	require.EqualValues(t, 2, l.Peek("tracked", 0).Remaining)
	require.Zero(t, l.Stats().Displaced)
}

// A key may have lost its own cell, and the place with it, between two looks of a
// ReserveAll: nothing is left then of what was made ready for the first.
func TestReserve_OfAKeyThatLosesItsPlaceMeanwhile(t *testing.T) {
	l, clock := capped(t, 2, ShareOverflow)
	a, b := "a", "b"
	if l.key(a).compare(l.key(b)) > 0 {
		a, b = b, a // in the order in which they are looked at
	}
	r, _ := l.Reserve(a, 1)
	r.Cancel()
	l.Allow(b)
	readings := 0
	l.clock = clockFunc(func() int64 {
		if readings++; readings == 2 { // that for another cell for b
			require.True(t, l.Reset(a))
			l.Allow("another")
		}
		return clock.Now()
	})
	all, d := l.ReserveAll([]string{a, b}, 1)
	require.Greater(t, readings, 2)
	require.True(t, d.Allowed)
	require.EqualValues(t, 1, l.Stats().Shared)
	for _, r := range all {
		r.Cancel()
	}
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "what is shared is not given back")
	require.EqualValues(t, 2, l.Peek(b, 0).Remaining, "but what is its own")
}

// What was made ready to note where a charge is booked is for as many limits as the
// key's own cell had. The quota that the key shares afterwards may have more.
func TestReserve_OfAKeyWithFewerLimitsThatLosesItsPlaceMeanwhile(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(3), WithClock(clock), WithMaxKeys(2, ShareOverflow))
	a, b := inOrder(l) // in the order in which they are looked at
	r, _ := l.Reserve(a, 1)
	r.Cancel()
	l.Allow(b)
	readings := 0
	l.clock = clockFunc(func() int64 {
		if readings++; readings == 2 { // that for another cell for b
			require.NoError(t, l.Reconfigure(PerMinute(3), PerHour(100)))
			require.True(t, l.Reset(a))
			l.Allow("another")
		}
		return clock.Now()
	})
	all, d := l.ReserveAll([]string{a, b}, 1)
	require.Greater(t, readings, 2)
	require.True(t, d.Allowed)
	require.EqualValues(t, 1, l.Stats().Shared)
	for _, r := range all {
		r.Cancel()
	}
	require.EqualValues(t, 2, l.Peek(a, 0).Remaining, "what is shared is not given back")
	require.EqualValues(t, 2, l.Peek(b, 0).Remaining, "but what is its own")
}

// A refusal is no promise of how long: a call that waits is not sent away for it.
func TestWait_ForAPlace(t *testing.T) {
	l, _ := capped(t, 1, DenyNew)
	l.Allow("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // real time, and far less than RetryAfter
	defer cancel()
	waited := make(chan error)
	go func() { waited <- l.Wait(ctx, "b", 1) }()
	for l.queues.total.Load() == 0 {
	}
	l.Reset("a")
	l.queues.nudgeAll()
	require.NoError(t, <-waited)
}

// A key that was displaced is as good as new, and who waits for it is told.
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
		require.Len(t, waited, 1, "though the clock stands still")
		require.NoError(t, <-waited)
		require.EqualValues(t, 2, l.Stats().Displaced, "a, and b for a")
	})
}

func TestMaxKeys_SurvivesReconfigure(t *testing.T) {
	l, _ := capped(t, 5, EvictLeastUsed)
	for i := range 5 {
		takeTimes(l, strconv.Itoa(i), 3)
	}
	require.NoError(t, l.Reconfigure(PerMinute(4)))
	require.NoError(t, l.SetLimits("1", PerHour(3)))
	require.Equal(t, 5, l.Len())
	takeTimes(l, "0", 1)
	for i := range 50 {
		require.True(t, l.Allow("new "+strconv.Itoa(i)))
		require.Equal(t, 5, l.Len())
	}
	require.False(t, l.Allow("0"), "still held")
	require.EqualValues(t, 50, l.Stats().Displaced)
}

// A sweep frees what the dead held.
func TestMaxKeys_SeatsAreFreed(t *testing.T) {
	l, clock := capped(t, 100, DenyNew)
	for i := range 100 {
		l.Allow(strconv.Itoa(i))
	}
	clock.Advance(2 * time.Minute)
	require.Equal(t, 100, l.Sweep())
	for i := range l.now.Load().cap.seats {
		require.Nil(t, l.now.Load().cap.seats[i].Load())
	}
}

// What makes room frees the seat, too: a flood does not keep twice as many keys in
// memory, nor a change of limits the table before.
func TestMaxKeys_TheDeadAreNotKept(t *testing.T) {
	seated := func(l *Limiter) (seated int) {
		g := l.now.Load()
		for i := range g.cap.seats {
			if r := g.cap.seats[i].Load(); r != nil {
				require.Same(t, g, r.regime)
				seated++
			}
		}
		return seated
	}
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, clock := capped(t, 20, overflow)
			for i := range 200 {
				l.Allow(strconv.Itoa(i))
				if overflow != EvictLeastUsed {
					clock.Advance(10 * time.Second) // so that there are idle ones
				}
			}
			require.Equal(t, l.Len(), seated(l))
			require.NoError(t, l.Reconfigure(PerMinute(4)))
			require.Equal(t, l.Len(), seated(l))
			stats := l.Stats()
			require.Greater(t, stats.Displaced+stats.Evicted, uint64(100))
		})
	}
}

// sizeAtOnce returns how many keys have a cell in s at one instant, at which it holds the
// locks of all shards. Each shard must have had room from the start, as empty ones share
// a lock. A sum of sizes that are read one after another is no size at any instant: a key
// that leaves a shard already read, and one that comes to a shard not yet read, count twice.
func sizeAtOnce(s *sharded) (size int) {
	var lockFrom func(shard int)
	lockFrom = func(shard int) {
		if shard == shards {
			size = s.size()
			return
		}
		s.shards[shard].update(key{hash: uint64(shard) << (64 - shardBits)}, func(found *cell) *cell {
			lockFrom(shard + 1)
			return found // no update: it is called for its lock
		})
	}
	lockFrom(0)
	return size
}

func TestRace_NeverMoreKeysThanTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			const callers, calls, most = 8, 1000, 40
			l, clock := capped(t, most, overflow, WithSizeHint(shards)) // no two shards share the lock of an empty one
			var done atomic.Bool
			var watcher sync.WaitGroup
			watcher.Go(func() {
				for !done.Load() {
					if counted, tracked := l.Len(), sizeAtOnce(l.table()); max(counted, tracked) > most {
						t.Errorf("%d keys counted, %d in the table", counted, tracked)
						return
					}
					runtime.Gosched()
				}
			})
			var g sync.WaitGroup
			for c := range callers {
				g.Go(func() {
					for i := range calls {
						key := strconv.Itoa((i*7 + c) % 200)
						switch i % 50 {
						case 0:
							l.Sweep()
						case 1:
							l.Reset(key)
						case 2:
							l.TakeAll([]string{key, strconv.Itoa(i % 200)}, 1)
						case 3:
							clock.Advance(time.Second)
						case 4:
							r, _ := l.Reserve(key, 1)
							r.Commit(2)
						case 5:
							_ = l.SetLimits(key, PerHour(5))
						case 6:
							if c == 0 {
								_ = l.Reconfigure(PerMinute(int64(3 + i%5)))
							}
						default:
							l.Allow(key)
						}
					}
				})
			}
			g.Wait()
			done.Store(true)
			watcher.Wait()
			s := l.Stats()
			require.NotZero(t, s.Displaced+s.Refused+s.Shared, "no contention for room")
			require.Equal(t, l.table().size(), l.Len(), "every key is counted, once")
			for i := range 200 {
				l.Reset(strconv.Itoa(i))
			}
			require.Zero(t, l.Len())
			require.Zero(t, l.table().size())
		})
	}
}

// A key that is charged after it was sampled keeps its place, unless the caller waits for
// it: so a new key gets a place beside keys each of which is charged all the time.
func TestEvictLeastUsed_WaitsForABusyKeyInTheEnd(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.Allow("busy")
		_, least := l.sample(l.now.Load(), nil, true)
		l.Allow("busy")
		require.False(t, least.die(false))
		require.EqualValues(t, 8, l.Peek("busy", 0).Remaining)
		require.True(t, least.die(true))
		require.EqualValues(t, 10, l.Peek("busy", 0).Remaining)
		require.False(t, least.die(true), "it is dead")
	}, WithMaxKeys(4, EvictLeastUsed))
}

// A key that is held at its limit is not washed out by keys never seen: one in a
// hundred is held, and all of a sample would have to be.
func TestEvictLeastUsed_AFloodEvictsItself(t *testing.T) {
	const most, held = 10_000, 100
	flood := thorough(300_000)
	l, _ := capped(t, most, EvictLeastUsed)
	for i := range held {
		takeTimes(l, "held "+strconv.Itoa(i), 3)
	}
	early := 0
	for i := range flood {
		l.Allow("flood " + strconv.Itoa(i))
		if l.Allow("held " + strconv.Itoa(i%held)) {
			early++
		}
	}
	require.Zero(t, early)
	require.Equal(t, most, l.Len())
	require.EqualValues(t, flood+held-most, l.Stats().Displaced)
}

// Keys held at their limit stay when they are half of the table, whether the flood uses
// little or all of the quota of each of its keys.
func TestEvictLeastUsed_KeepsAHalfThatIsHeld(t *testing.T) {
	const most, held = 1000, 500
	flood := thorough(100_000)
	for _, limit := range []Limit{PerMinute(10), PerMinute(10).Log()} {
		for _, uses := range []int{1, 9, 10} {
			t.Run(fmt.Sprintf("%v, %d of 10", limit, uses), func(t *testing.T) {
				l := newTest(t, limit, WithClock(NewManualClock(0)), WithMaxKeys(most, EvictLeastUsed))
				for i := range held {
					require.True(t, l.AllowN("held "+strconv.Itoa(i), 10))
				}
				for i := range flood {
					takeTimes(l, "flood "+strconv.Itoa(i), uses)
				}
				stay := 0
				for i := range held {
					if l.Peek("held "+strconv.Itoa(i), 0).Remaining == 0 {
						stay++
					}
				}
				require.GreaterOrEqual(t, stay, 495)
				require.EqualValues(t, flood+held-most, l.Stats().Displaced)
			})
		}
	}
}

// While time goes on, held keys take each unit that they get back, and so are charged later
// than many a key of the flood. They stay all the same: they were there before.
func TestEvictLeastUsed_KeepsHeldKeysThatGoOn(t *testing.T) {
	const most, held, calls = 1000, 500, 10
	for _, limit := range []Limit{PerMinute(10), PerMinute(10).Log()} {
		for _, uses := range []int{1, 9} {
			t.Run(fmt.Sprintf("%v, %d of 10", limit, uses), func(t *testing.T) {
				clock := NewManualClock(0)
				l := newTest(t, limit, WithClock(clock), WithMaxKeys(most, EvictLeastUsed))
				for i := range 30 * held { // each once in 6 s
					l.Allow("held " + strconv.Itoa(i%held))
					clock.Advance(6 * time.Second / held)
				}
				gone := map[int]bool{}
				for i := range thorough(20_000) {
					takeTimes(l, "flood "+strconv.Itoa(i), uses)
					for j := range calls {
						at := (calls*i + j) % held
						if d := l.Take("held "+strconv.Itoa(at), 1); d.Allowed && d.Remaining > 3 {
							gone[at] = true
						}
					}
					clock.Advance(5 * time.Millisecond)
				}
				require.LessOrEqual(t, len(gone), 5)
			})
		}
	}
}

// Of keys that have the same part of their quota left, the one that was inserted last makes
// room. A key keeps its place in that order when its limits change or it is reserved from.
func TestEvictLeastUsed_OfEqualsForgetsTheLastInserted(t *testing.T) {
	const most = 30
	for name, change := range map[string]func(l *Limiter){
		"no change":   func(l *Limiter) { l.Allow("0") },
		"Reserve":     func(l *Limiter) { l.Reserve("0", 1) },
		"SetLimits":   func(l *Limiter) { l.Allow("0"); _ = l.SetLimits("0", PerHour(3)) },
		"Reconfigure": func(l *Limiter) { l.Allow("0"); _ = l.Reconfigure(l.rule().Limit) },
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
				l.AllowN("0", 2)
				for i := 1; i < most; i++ {
					l.AllowN(strconv.Itoa(i), 3)
				}
				change(l)
				for _, last := range []string{strconv.Itoa(most - 1), "new 0", "new 1"} {
					displaced := l.Stats().Displaced
					require.True(t, l.AllowN(fmt.Sprintf("new %d", displaced), 3))
					require.EqualValues(t, displaced+1, l.Stats().Displaced)
					require.EqualValues(t, 3, l.Peek(last, 0).Remaining, "%q made room", last)
				}
				for i := range most - 1 {
					require.Zero(t, l.Peek(strconv.Itoa(i), 0).Remaining, "%d still is held", i)
				}
			}, WithMaxKeys(most, EvictLeastUsed))
		})
	}
}

// A call for a key that does not fit only looks for idle keys: it waits for none that another
// call is charging.
func TestOverflow_WaitsForNoTrackedKey(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		l, _ := capped(t, 2, overflow)
		l.Allow("a")
		l.Allow("b")
		for _, key := range []string{"a", "b"} {
			c := l.table().load(l.key(key))
			word, _ := c.current()
			require.True(t, c.lock(word))
			defer c.word.Store(word)
		}
		require.Equal(t, overflow == ShareOverflow, l.Allow("new"))
	}
}

func TestRestore_KeepsToTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			from, _ := capped(t, 5, overflow)
			for i := range 5 {
				takeTimes(from, strconv.Itoa(i), 3)
			}
			var snapshot bytes.Buffer
			require.NoError(t, from.Snapshot(&snapshot))

			small, _ := capped(t, 4, overflow)
			small.Allow("kept")
			err := small.Restore(bytes.NewReader(snapshot.Bytes()))
			require.ErrorIs(t, err, ErrBadSnapshot)
			require.ErrorContains(t, err, "more keys than the 4 of WithMaxKeys")
			require.EqualValues(t, 2, small.Peek("kept", 0).Remaining)
			require.Equal(t, 1, small.Len())

			same, clock := capped(t, 5, overflow)
			same.Allow("gone")
			require.NoError(t, same.Restore(bytes.NewReader(snapshot.Bytes())))
			require.Equal(t, 5, same.Len())
			require.False(t, same.Allow("3"))
			clock.Advance(2 * time.Minute)
			require.True(t, same.Allow("new"), "restored keys can be found, to make room")
			require.Equal(t, 5, same.Len())
		})
	}
}

// Keys that come and go while it is written do not make a snapshot one of more keys
// than the cap, which no limiter of that cap could be restored from.
func TestSnapshot_OfAFullTableKeepsToTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			const most, held, each = 200, 20, 10
			long := strings.Repeat("x", 2<<10) // 16 keys to a block, and calls between them
			l, _ := capped(t, most, overflow)
			for i := range held {
				takeTimes(l, "held "+strconv.Itoa(i), 3)
			}
			names, late := make([]string, most-held), []string(nil)
			for i := range names {
				names[i] = long + strconv.Itoa(i)
				l.Allow(names[i])
			}
			slices.SortFunc(names, func(a, b string) int { return l.key(a).compare(l.key(b)) })
			for i := 0; len(late) < len(names); i++ {
				if name := long + "late" + strconv.Itoa(i); l.key(name).shard() >= shards*3/4 {
					late = append(late, name)
				}
			}
			came := 0
			var saved bytes.Buffer
			require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
				if len(b) > mostPayload && came < len(late) {
					for range each { // one that is written goes, and one comes that is still to be met
						require.True(t, l.Reset(names[came]))
						require.True(t, l.Allow(late[came]))
						came++
					}
				}
				return saved.Write(b)
			})))
			require.Greater(t, came, most/4, "else too few came")

			to, _ := capped(t, most, overflow)
			require.NoError(t, to.Restore(&saved))
			require.LessOrEqual(t, to.Len(), most)
			for i := range held {
				require.False(t, to.Allow("held "+strconv.Itoa(i)), "still held")
			}
		})
	}
}

// Empty seats come in long rows, and a key that is held must not be the only one seen.
func TestEvictLeastUsed_LooksBeyondEmptySeats(t *testing.T) {
	const keys = 200
	l := newTest(t, PerMinute(5), WithClock(NewManualClock(0)), WithMaxKeys(keys, EvictLeastUsed))
	for i := range keys {
		require.True(t, l.Allow(strconv.Itoa(i)))
	}
	require.True(t, l.AllowN("0", 4))
	g := l.now.Load()
	var held *resident
	var others []*resident
	for i := range g.cap.seats {
		if r := g.cap.seats[i].Load(); r != nil && r.key.name == "0" {
			held = r
		} else if r != nil {
			others = append(others, r)
		}
		g.cap.seats[i].Store(nil)
	}
	g.cap.seats[0].Store(held)
	for i, r := range others {
		g.cap.seats[len(g.cap.seats)-len(others)+i].Store(r) // the other half
	}
	alone := 0
	for range 10_000 {
		idle, least := l.sample(g, nil, true)
		require.False(t, idle)
		if least.resident == held {
			alone++
		}
	}
	require.Zero(t, alone)
}

// Another call has made the key, and not charged it yet: evicted as an idle key, it would
// be made again, and evicted again by that call.
func TestMaxKeys_MakesNoRoomForAKeyOfItself(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		l, _ := capped(t, 1, overflow)
		g, k := l.now.Load(), l.key("k")
		c := l.put(k)
		require.True(t, l.fullFor(g, k))
		require.Same(t, c, g.keys.load(k))
		require.False(t, l.fullFor(g, l.key("other")), "for another key it makes room")
		require.Nil(t, g.keys.load(k))
	}
}
