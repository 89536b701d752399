package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// However a reservation is settled, all of its units are back for every process. The other limits of the
// key are charged what was used.
func TestAtOnce_UnitsAreBackOnceTheyAreSettled(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		settle func(r sashredis.Reservation) error
		used   int
	}{
		"Release":           {func(r sashredis.Reservation) error { return r.Release(ctx) }, 3},
		"Cancel":            {func(r sashredis.Reservation) error { return r.Cancel(ctx) }, 0},
		"Commit of less":    {func(r sashredis.Reservation) error { return r.Commit(ctx, 1) }, 1},
		"Commit of as much": {func(r sashredis.Reservation) error { return r.Commit(ctx, 3) }, 3},
		"Commit of more":    {func(r sashredis.Reservation) error { return r.Commit(ctx, 8) }, 8},
	} {
		for _, rate := range []sash.Limit{sash.PerDay(20).Counter(), sash.PerDay(20).Log(), sash.PerDay(20).TokenBucket(20), sash.PerDay(20).Parts()} {
			s := newStore(t)
			limits := []sash.Limit{rate, sash.AtOnce(3, time.Minute)}
			l, _ := s.limiter(limits)
			other, _ := s.limiter(limits)
			r, d := l.Reserve(ctx, "k", 3)
			require.True(t, d.Allowed)
			require.False(t, other.Allow(ctx, "k"))
			require.NoError(t, c.settle(r), name)
			require.NoError(t, c.settle(r), "only the first does anything")
			all, d := other.Reserve(ctx, "k", 3)
			require.True(t, d.Allowed, "%s: %v", name, rate)
			require.NoError(t, all.Cancel(ctx))
			left := 0
			for {
				r, d := other.Reserve(ctx, "k", 1)
				if !d.Allowed {
					assert.Equal(t, rate, d.Limit)
					break
				}
				require.NoError(t, r.Release(ctx))
				left++
			}
			assert.Equal(t, 20-c.used, left, "%s: %v", name, rate)
		}
	}
	var none sashredis.Reservation
	assert.NoError(t, none.Release(ctx))
}

// A unit that is not given back is held for the lease, by the time of the store, and no longer: one of a
// Take, one whose holder has died, and one of a Reserve or a WaitReserve whose answer was lost.
func TestAtOnce_ALeaseEndsByTheTimeOfTheStore(t *testing.T) {
	ctx := context.Background()
	for name, hold := range map[string]func(s *fakeStore, l *sashredis.Limiter){
		"Take":    func(_ *fakeStore, l *sashredis.Limiter) { require.True(t, l.Allow(ctx, "k")) },
		"a death": func(_ *fakeStore, l *sashredis.Limiter) { _, _ = l.Reserve(ctx, "k", 1) },
		"an answer": func(s *fakeStore, l *sashredis.Limiter) {
			s.set(func() { s.lost = errAway })
			_, d := l.Reserve(ctx, "k", 1)
			require.ErrorIs(t, d.Err, errAway)
			s.set(func() { s.lost = nil })
		},
		"an answer to a WaitReserve": func(s *fakeStore, l *sashredis.Limiter) {
			s.set(func() { s.lost = errAway })
			r, err := l.WaitReserve(ctx, "k", 1)
			require.ErrorIs(t, err, errAway)
			require.ErrorContains(t, err, "it may have been charged")
			s.set(func() { s.lost = nil })
			require.NoError(t, r.Release(ctx), "of nothing")
		},
	} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{sash.AtOnce(1, time.Minute)})
		other, local := s.limiter([]sash.Limit{sash.AtOnce(1, time.Minute)})
		hold(s, l)
		local.Advance(time.Hour) // which nobody asks
		s.advance(time.Minute - time.Microsecond)
		d := other.Take(ctx, "k", 1)
		assert.False(t, d.Allowed, name)
		assert.Equal(t, time.Microsecond, d.RetryAfter, name)
		s.advance(time.Microsecond)
		assert.True(t, other.Allow(ctx, "k"), name)
	}
}

// A reservation whose lease is over gives nothing back that another one holds.
func TestAtOnce_ALateReleaseGivesNothingBack(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.AtOnce(1, time.Minute)})
	late, d := l.Reserve(ctx, "k", 1)
	require.True(t, d.Allowed)
	s.advance(time.Minute)
	_, d = l.Reserve(ctx, "k", 1)
	require.True(t, d.Allowed)
	require.NoError(t, late.Release(ctx))
	assert.False(t, l.Allow(ctx, "k"))

	// Nor does one whose key was reset, at the same microsecond, even if it has cost more.
	l, _ = s.limiter([]sash.Limit{sash.PerHour(100).Counter(), sash.AtOnce(1, time.Hour)})
	for _, actual := range []int64{1, 5} {
		late, d = l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		require.NoError(t, l.Reset(ctx, "k"))
		at, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		require.NoError(t, late.Commit(ctx, actual))
		assert.False(t, l.Allow(ctx, "k"))
		require.NoError(t, at.Release(ctx))
	}
}

// What another process gives back is there for a call that a mirror knows to have been denied. Denials by
// the other limits of a key, and by Count, are still certain.
func TestAtOnce_AMirrorDeniesByOtherLimitsAlone(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	limits := []sash.Limit{sash.AtOnce(2, time.Hour), sash.Per(5, time.Minute).Log()}
	l, _ := s.limiter(limits)
	other, _ := s.limiter(limits)
	r, d := other.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	for range 3 {
		d := l.Take(ctx, "k", 1)
		require.False(t, d.Allowed)
		assert.Equal(t, sashredis.ByStore, d.By)
		assert.Equal(t, time.Hour, d.RetryAfter)
		d = l.TakeAll(ctx, []string{"k", "another"}, 1)
		require.False(t, d.Allowed)
		assert.Equal(t, sashredis.ByStore, d.By)
	}
	require.NoError(t, r.Release(ctx))
	require.True(t, l.Take(ctx, "k", 1).Allowed, "at once, wherever it was given back")
	require.True(t, l.Allow(ctx, "another"))
	d = l.Take(ctx, "another", 3)
	assert.Equal(t, sashredis.ByMirror, d.By, "three are never admitted")
	assert.Equal(t, sash.Never, d.RetryAfter)

	// Now the rate is used up.
	r, d = other.Reserve(ctx, "k", 1)
	require.True(t, d.Allowed)
	require.NoError(t, r.Release(ctx))
	r, d = other.Reserve(ctx, "k", 1)
	require.True(t, d.Allowed)
	want := l.Take(ctx, "k", 1)
	require.False(t, want.Allowed)
	sent := s.count()
	for range 3 {
		d := l.Take(ctx, "k", 1)
		assert.Equal(t, sashredis.ByMirror, d.By)
		assert.InDelta(t, want.RetryAfter, d.RetryAfter, float64(2*time.Microsecond), "both deny it, as far as this process knows")
		assert.Equal(t, want.Limit, d.Limit)
	}
	require.NoError(t, r.Release(ctx))
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By, "the rate denies it still")
	assert.Equal(t, sent+1, s.count(), "but for the Release, nothing was sent")
}

// Units that may be held are not leased, alone or next to a limit that has leases.
func TestAtOnce_HasNoLeasesOfQuota(t *testing.T) {
	ctx := context.Background()
	for _, limits := range [][]sash.Limit{{sash.AtOnce(10_000, time.Hour)}, {sash.PerHour(10_000).Counter(), sash.AtOnce(5000, time.Hour)}} {
		s := newStore(t)
		l, _ := s.limiter(limits, sashredis.WithLease(100, time.Hour))
		for range 50 {
			require.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 1).By)
		}
		assert.Zero(t, l.Stats().Leased, "%v", limits)
	}
}

// Versions of a program whose limits differ in Count hold units of one number. With another lease, each
// version has its own, and with another algorithm: nothing that was charged there is held.
func TestAtOnce_IsSharedByVersionsOfAProgram(t *testing.T) {
	ctx := context.Background()
	held := sash.AtOnce(10, time.Minute)
	for _, c := range []struct {
		before, after []sash.Limit
		left          int64
	}{
		{[]sash.Limit{held}, []sash.Limit{sash.AtOnce(6, time.Minute)}, 2},
		{[]sash.Limit{held}, []sash.Limit{sash.AtOnce(3, time.Minute)}, 0},
		{[]sash.Limit{held}, []sash.Limit{sash.AtOnce(10, time.Hour)}, 10},
		{[]sash.Limit{sash.PerMinute(10).Log()}, []sash.Limit{held}, 10},
		{[]sash.Limit{held}, []sash.Limit{sash.PerMinute(10).Log()}, 10},
		{[]sash.Limit{sash.PerMinute(10).Log(), held}, []sash.Limit{held, sash.PerMinute(10).Log()}, 10},
	} {
		s := newStore(t)
		before, _ := s.limiter(c.before)
		after, _ := s.limiter(c.after)
		r, d := before.Reserve(ctx, "k", 4)
		require.True(t, d.Allowed)
		assert.Equal(t, c.left, after.Peek(ctx, "k", 0).Remaining, "from %v to %v", c.before, c.after)
		require.NoError(t, r.Release(ctx)) // by the version that has reserved
		assert.Equal(t, c.after[0].Count, after.Peek(ctx, "k", 0).Remaining, "from %v to %v", c.before, c.after)
	}
}

// Limits of a key's own are limits of what it holds, too.
func TestAtOnce_OfKeysOfTheirOwn(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(10)}, sashredis.WithLimitsFor(func(key string) []sash.Limit {
		if key == "plan" {
			return []sash.Limit{sash.AtOnce(2, time.Hour)}
		}
		return nil
	}))
	r, d := l.Reserve(ctx, "plan", 2)
	require.True(t, d.Allowed)
	require.False(t, l.TakeAll(ctx, []string{"other", "plan"}, 1).Allowed)
	require.NoError(t, r.Release(ctx))
	require.True(t, l.TakeAll(ctx, []string{"other", "plan"}, 1).Allowed)
	assert.Equal(t, int64(9), l.Peek(ctx, "other", 0).Remaining)
	assert.Equal(t, int64(1), l.Peek(ctx, "plan", 0).Remaining)
}

// A release is settled again if it was certainly not sent, and only then.
func TestAtOnce_AReleaseIsTriedAgainOnlyIfItWasNotSent(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.AtOnce(2, time.Minute)}, sashredis.WithBreaker(1, time.Second))
	r, _ := l.Reserve(ctx, "k", 1)
	s.set(func() { s.err = errAway })
	require.Error(t, l.Reset(ctx, "other"))
	assert.ErrorIs(t, r.Release(ctx), sashredis.ErrUnavailable)
	s.set(func() { s.err = nil })
	local.Advance(time.Second)
	require.NoError(t, r.Release(ctx))
	assert.Equal(t, int64(2), l.Peek(ctx, "k", 0).Remaining)

	r, _ = l.Reserve(ctx, "k", 1)
	s.set(func() { s.lost = errAway })
	require.ErrorIs(t, r.Release(ctx), errAway)
	s.set(func() { s.lost = nil })
	local.Advance(time.Second)
	_, d := l.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	require.NoError(t, r.Release(ctx), "it is not sent again")
	assert.Zero(t, l.Peek(ctx, "k", 0).Remaining)
}

// While the store is away, a process holds at most its share, less the share of what was held in the store.
func TestAtOnce_ByItsShareWhileTheStoreIsAway(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.AtOnce(8, time.Minute)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
	ofStore, d := l.Reserve(ctx, "k", 3)
	require.True(t, d.Allowed)
	s.set(func() { s.err = errAway })
	first, d := l.Reserve(ctx, "k", 2) // of 4, the share of 3 is 2
	require.True(t, d.Allowed)
	require.Equal(t, sashredis.ByFallback, d.By)
	require.False(t, l.Allow(ctx, "k"))
	require.NoError(t, first.Release(ctx))
	_, d = l.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	assert.Error(t, ofStore.Release(ctx))
	require.False(t, l.Allow(ctx, "k"))
	local.Advance(time.Minute + time.Second)
	_, d = l.Reserve(ctx, "k", 4)
	assert.True(t, d.Allowed, "the leases are over")
}

// What another limit has used while the store was there holds nothing when it is away again.
func TestAtOnce_WhatARateHasUsedHoldsNothing(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	limits := []sash.Limit{sash.PerHour(100).Log(), sash.AtOnce(100, 24*time.Hour)}
	l, local := s.limiter(limits, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
	away := func(is bool) {
		s.set(func() {
			if s.err = nil; is {
				s.err = errAway
			}
		})
	}
	releases := func(n int64) sashredis.Decision {
		r, d := l.Reserve(ctx, "k", n)
		require.NoError(t, r.Release(ctx))
		return d
	}
	away(true)
	require.True(t, releases(10).Allowed)
	away(false)
	r, d := l.Reserve(ctx, "k", 60)
	require.True(t, d.Allowed)
	s.advance(time.Microsecond) // at the same one, it would not be known which came first
	require.NoError(t, r.Release(ctx))
	away(true)
	assert.Equal(t, int64(20), l.Peek(ctx, "k", 0).Remaining, "a share of 30 is used")
	local.Advance(time.Hour)
	s.advance(time.Hour)
	assert.Equal(t, int64(50), l.Peek(ctx, "k", 0).Remaining, "and nothing is held")
}

// A Release is no fresh window: what other limits have used still counts when the store is away, and what others
// still hold is held. What this process has given back is not.
func TestAtOnce_AfterAReleaseAShareGoesOn(t *testing.T) {
	ctx := context.Background()
	for _, rate := range []sash.Limit{sash.PerHour(100).Counter(), sash.PerHour(100).Log(), sash.PerHour(100).TokenBucket(100), sash.PerHour(100).Parts()} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{rate, sash.AtOnce(12, time.Minute)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
		for i := range int64(9) {
			r, d := l.Reserve(ctx, "k", 10)
			require.True(t, d.Allowed)
			s.advance(time.Microsecond)
			require.NoError(t, r.Release(ctx))
			s.advance(time.Microsecond)
			require.Equal(t, rate.Count-10*(i+1) < 12, !l.Peek(ctx, "k", 12).Allowed)
		}
		held, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		r, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		s.advance(time.Microsecond)
		require.NoError(t, r.Release(ctx))
		s.set(func() { s.err = errAway })
		// Of 50, the share of 92 is 46. Of 6, the share of 1, rounded up, is 1.
		_, d = l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		assert.Equal(t, int64(3), d.Remaining, "%v", rate)
		assert.Equal(t, int64(50), d.Limit.Count)
		assert.Error(t, held.Release(ctx))

		// Without a rate, what has been released is not held.
		l, _ = s.limiter([]sash.Limit{sash.AtOnce(12, time.Minute)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
		s.set(func() { s.err = nil })
		_, d = l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		for _, settle := range []func(sashredis.Reservation) error{
			func(r sashredis.Reservation) error { return r.Release(ctx) },
			func(r sashredis.Reservation) error { return r.Cancel(ctx) },
		} {
			r, d = l.Reserve(ctx, "k", 11)
			require.True(t, d.Allowed)
			s.advance(time.Microsecond)
			require.NoError(t, settle(r))
		}
		s.set(func() { s.err = errAway })
		assert.Equal(t, int64(5), l.Peek(ctx, "k", 0).Remaining)
	}
}

// A memoryStore is a store in this process, at the time of a bubble of testing/synctest. It notes when it
// was asked.
type memoryStore struct {
	mu    sync.Mutex
	store *scriptStore
	began time.Time
	asked []time.Duration // since it began
}

func (m *memoryStore) Run(_ context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, time.Since(m.began))
	m.store.now = time.Now().UnixMicro()
	return m.store.run(s, keys, args)
}

// times returns when m was asked since the latest call of times.
func (m *memoryStore) times() (asked []time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	asked, m.asked = m.asked, nil
	return asked
}

// inBubble runs a test with the limiters of two processes, in a bubble of testing/synctest.
func inBubble(t *testing.T, limits []sash.Limit, test func(t *testing.T, m *memoryStore, l, other *sashredis.Limiter)) {
	synctest.Test(t, func(t *testing.T) {
		m := &memoryStore{store: newScriptStore(), began: time.Now()}
		deny := sashredis.WithFallback(sashredis.FallbackDeny)
		l, other := sashredis.Must(sashredis.New(m, limits, deny)), sashredis.Must(sashredis.New(m, limits, deny))
		test(t, m, l, other)
	})
}

// A Wait looks again soon for what another process gives back, and then less and less often. It is not
// refused by a deadline before the lease ends.
func TestAtOnce_AWaitLooksForWhatOthersGiveBack(t *testing.T) {
	inBubble(t, []sash.Limit{sash.AtOnce(1, time.Hour)}, func(t *testing.T, m *memoryStore, l, other *sashredis.Limiter) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _ := other.Reserve(ctx, "k", 1)
		m.times()
		time.AfterFunc(1100*time.Millisecond, func() { assert.NoError(t, r.Release(t.Context())) })
		require.NoError(t, l.Wait(ctx, "k", 1))
		var asked []string
		for _, at := range m.times() {
			asked = append(asked, at.String())
		}
		assert.Equal(t, "0s 5ms 15ms 35ms 75ms 155ms 315ms 565ms 815ms 1.065s 1.1s 1.315s", strings.Join(asked, " "))
		assert.ErrorIs(t, l.Wait(ctx, "k", 1), context.DeadlineExceeded)
		assert.Equal(t, 10*time.Second, time.Since(m.began), "nothing says that it is admitted no earlier")
	})
}

// What this process gives back wakes the call that waits first, at once, and that one alone.
func TestAtOnce_AReleaseWakesTheFirstThatWaits(t *testing.T) {
	inBubble(t, []sash.Limit{sash.AtOnce(1, time.Hour)}, func(t *testing.T, m *memoryStore, l, _ *sashredis.Limiter) {
		r, _ := l.Reserve(t.Context(), "k", 1)
		admitted := make(chan int, 2)
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 2 {
			go func() {
				if l.Wait(ctx, "k", 1) == nil {
					admitted <- i
				}
			}()
			synctest.Wait()
		}
		time.Sleep(2*time.Second + 7*time.Millisecond)
		m.times()
		require.NoError(t, r.Release(ctx))
		synctest.Wait()
		require.Len(t, admitted, 1)
		assert.Equal(t, 0, <-admitted)
		assert.Len(t, m.times(), 3, "the Release, the call that it wakes, and the next in turn")
		cancel()
		synctest.Wait()
	})
}

// A Wait does not look for units that are held before the other limits of the key admit it. Nor does it
// wait if these are sure to deny it until its deadline.
func TestAtOnce_AWaitKnowsWhatIsCertain(t *testing.T) {
	inBubble(t, []sash.Limit{sash.Per(1, time.Minute).Log(), sash.AtOnce(2, time.Hour)}, func(t *testing.T, m *memoryStore, l, other *sashredis.Limiter) {
		_, d := other.Reserve(t.Context(), "k", 1)
		require.True(t, d.Allowed)
		soon, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		require.ErrorIs(t, l.Wait(soon, "k", 1), context.DeadlineExceeded)
		require.Zero(t, time.Since(m.began))
		asked := l.Stats().Store + l.Stats().Mirror
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		assert.LessOrEqual(t, l.Stats().Store+l.Stats().Mirror, asked+3)
		assert.InDelta(t, time.Minute, time.Since(m.began), float64(100*time.Millisecond))
	})
}

// A lease that ends admits a Wait as soon as it does, whatever its pauses are.
func TestAtOnce_AWaitSeesALeaseEnd(t *testing.T) {
	inBubble(t, []sash.Limit{sash.AtOnce(1, 1001*time.Millisecond)}, func(t *testing.T, m *memoryStore, l, other *sashredis.Limiter) {
		_, d := other.Reserve(t.Context(), "k", 1)
		require.True(t, d.Allowed)
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		assert.Equal(t, 1001*time.Millisecond, time.Since(m.began))
	})
}

// Giving back costs the server a few commands, however many units are held. The members of a key grow with
// what is held, and not with what was given back.
func TestScripts_AReleaseTouchesFewMembers(t *testing.T) {
	ctx := context.Background()
	commands := map[int]int{}
	for _, holders := range []int{10, 2000} {
		s := watch(t)
		l := s.limiter(t, []sash.Limit{sash.AtOnce(1<<30, time.Hour)})
		fill, err := sashredis.New(s.Conn, []sash.Limit{sash.AtOnce(1<<30, time.Hour)}, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(20*time.Second))
		require.NoError(t, err)
		var open []sashredis.Reservation
		for range holders {
			r, d := fill.Reserve(ctx, "a", 1)
			require.True(t, d.Allowed)
			open = append(open, r)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 500 { // places are taken and given back
			r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			require.NoError(t, open[0].Release(ctx))
			var d sashredis.Decision
			open[0], d = l.Reserve(ctx, "a", 1)
			require.True(t, d.Allowed)
		}
		assert.LessOrEqual(t, s.Command("ZCARD", s.key(t)).(int64), int64(4*holders+5))
		for i := range 10 {
			own, d := l.Reserve(ctx, "a", 1)
			require.True(t, d.Allowed)
			for range i {
				require.True(t, fill.Allow(ctx, "a"))
			}
			require.NoError(t, own.Release(ctx))
			total := 0
			for command, n := range s.commands {
				if strings.HasPrefix(command, "z") {
					total += n
				}
			}
			commands[holders] = max(commands[holders], total)
		}
	}
	assert.LessOrEqual(t, commands[2000], 40, "commands for a release next to 2,000 holders")
	assert.LessOrEqual(t, commands[2000], commands[10]+10, fmt.Sprint(commands))
}

// However many holders have come and gone while some unit was held all the time, a call costs the server what it
// cost at first, and the key takes as many members.
func TestScripts_HoldersThatComeAndGoCostAlike(t *testing.T) {
	ctx := context.Background()
	for name, atOnce := range map[string]int{"each goes before the next comes": 1, "each goes after the next has come": 2} {
		s := watch(t)
		l := s.limiter(t, []sash.Limit{sash.AtOnce(10, time.Hour)})
		var open []sashredis.Reservation
		round := func() (commands int) {
			count := func() {
				for command, n := range s.commands {
					if strings.HasPrefix(command, "z") {
						commands += n
					}
				}
			}
			r, d := l.Reserve(ctx, "a", 1)
			require.True(t, d.Allowed)
			count()
			if open = append(open, r); len(open) == atOnce {
				require.NoError(t, open[0].Release(ctx))
				count()
				open = open[1:]
			}
			return commands
		}
		if atOnce == 1 {
			_, d := l.Reserve(ctx, "a", 1) // which stays
			require.True(t, d.Allowed)
		}
		at := map[int]int{}
		for i := range 400 {
			at[i] = round()
		}
		assert.LessOrEqual(t, at[399], at[9]+4, name)
		assert.LessOrEqual(t, s.Command("ZCARD", s.key(t)).(int64), int64(5), name)
	}
}

// The newest units may be given back and end. Then they are the newest that do not count, whatever was before.
func TestScripts_TheNewestUnitsAreGivenBackAndEnd(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.AtOnce(10, time.Minute)})
	require.True(t, l.Allow(ctx, "k"))
	s.advance(time.Second)
	r, d := l.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	require.NoError(t, r.Release(ctx))
	s.advance(time.Hour)
	require.Equal(t, int64(6), l.Take(ctx, "k", 4).Remaining)
	require.Equal(t, int64(6), l.Peek(ctx, "k", 0).Remaining)
}

// If the oldest units that count are given back, those before them that do not count any more may count at a
// late reading. Units that count then are held.
func TestScripts_TheOldestUnitsAreGivenBack(t *testing.T) {
	ctx := context.Background()
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.AtOnce(10, time.Minute)})
	reserve := func(n int64) sashredis.Reservation {
		r, d := l.Reserve(ctx, "k", n)
		require.True(t, d.Allowed)
		return r
	}
	left := func() int64 { return l.Peek(ctx, "k", 0).Remaining }
	reserve(1)
	s.advance(30 * time.Second)
	second := reserve(2)
	s.advance(20 * time.Second)
	third, fourth := reserve(3), reserve(1)
	s.advance(time.Second)
	reserve(1)
	s.advance(14 * time.Second) // the first has ended
	require.Equal(t, int64(3), left())
	require.NoError(t, second.Release(ctx))
	require.Equal(t, int64(5), left())
	s.advance(-10 * time.Second)
	require.Equal(t, int64(4), left(), "the first holds a unit at that time")
	s.advance(20 * time.Second)
	require.NoError(t, third.Release(ctx))
	require.NoError(t, fourth.Release(ctx))
	require.Equal(t, int64(9), left())
	s.advance(-20 * time.Second)
	require.Equal(t, int64(8), left())
	reserve(8)
	require.Zero(t, left())
}
