package clienttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/vectors"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A store gives each call the answer of its vector.
func TestVectors_AreAnsweredAlike(t *testing.T) {
	all := vectors.Read(t, "../../..")
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		var l *sashredis.Limiter
		clock := sash.NewManualClock(0)
		answered, denied := 0, 0
		for i, v := range all {
			if i == 0 || all[i-1].Seq != v.Seq {
				var err error
				var limits []sash.Limit
				for _, l := range v.Limits {
					limits = append(limits, sash.Per(l.Count, l.Window).Buckets(l.Precision))
				}
				l, err = sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithCallerClock(clock),
					sashredis.WithPrefix(strconv.Itoa(i)+":"), sashredis.WithTimeout(10*time.Second))
				require.NoError(t, err)
			}
			clock.Set(int64(v.Now))
			d := l.TakeAll(context.Background(), v.Keys, v.Weight)
			require.NoError(t, d.Err)
			require.Equal(t, v.Over == 0, d.Allowed, "call %d: %+v", i+1, v)
			answered++
			denied += v.Over
		}
		t.Logf("%d calls answered alike, %d of them denied", answered, denied)
		require.Equal(t, 7490, answered)
	})
}

// A connFunc is a Conn.
type connFunc func(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error)

func (f connFunc) Run(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	return f(ctx, s, keys, args)
}

func newOn(t *testing.T, conn sashredis.Conn, limits []sash.Limit, options ...sashredis.Option) *sashredis.Limiter {
	t.Helper()
	l, err := sashredis.New(conn, limits, append([]sashredis.Option{sashredis.WithFallback(sashredis.FallbackDeny)}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// A round trip whose answer is lost may have charged. It is not made again.
func TestExact_ARoundTripIsNotRepeated(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	runs, lost := 0, errors.New("the answer is lost")
	l := newOn(t, connFunc(func(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
		runs++
		_, err := s.Run(ctx, script, keys, args)
		require.NoError(t, err)
		return "", lost
	}), []sash.Limit{sash.PerHour(10)}, sashredis.WithTimeout(10*time.Second), sashredis.WithBreaker(100, time.Second))
	other, _ := s.limiter([]sash.Limit{sash.PerHour(10)})
	for i, call := range []func() error{
		func() error { return l.Take(ctx, "a", 1).Err },
		func() error { return l.TakeAll(ctx, []string{"a"}, 1).Err },
		func() error { _, d := l.Reserve(ctx, "a", 1); return d.Err },
	} {
		require.ErrorIs(t, call(), lost)
		assert.Equal(t, i+1, runs)
		assert.Equal(t, int64(10-i-1), other.Peek(ctx, "a", 0).Remaining)
	}
	require.ErrorIs(t, l.Reset(ctx, "a"), lost)
	assert.Equal(t, 4, runs)
}

// Each round trip has a deadline, even if its caller has none.
func TestExact_ARoundTripEnds(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	trips := 0
	l := newOn(t, connFunc(func(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
		trips++
		deadline, ok := ctx.Deadline()
		assert.True(t, ok)
		assert.LessOrEqual(t, time.Until(deadline), 10*time.Second)
		return s.Run(ctx, script, keys, args)
	}), []sash.Limit{sash.PerHour(100).Counter()}, sashredis.WithTimeout(10*time.Second), sashredis.WithLease(10, time.Hour))
	for l.Stats().Leased == 0 {
		require.True(t, l.Allow(ctx, "a"))
	}
	require.NoError(t, l.Close())
	require.True(t, l.TakeAll(ctx, []string{"a", "b"}, 1).Allowed)
	r, _ := l.Reserve(ctx, "a", 2)
	require.NoError(t, r.Commit(ctx, 1))
	r, _ = l.Reserve(ctx, "a", 2)
	require.NoError(t, r.Commit(ctx, 3))
	require.NoError(t, l.Reset(ctx, "a"))
	require.NoError(t, l.Wait(ctx, "a", 1))
	assert.Greater(t, trips, 8)
}

// An error says that the time-out is over, and that it was not the caller's.
func TestExact_ATimeoutIsNamed(t *testing.T) {
	l := newOn(t, connFunc(func(ctx context.Context, _ *sashredis.Script, _, _ []string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}), []sash.Limit{sash.PerHour(100)}, sashredis.WithTimeout(time.Millisecond))
	err := l.Take(t.Context(), "a", 1).Err
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "no answer within 1ms (see WithTimeout)")
}

// A reading of a caller's clock is rounded down to microseconds, also below zero.
func TestExact_ACallersClockIsRoundedDown(t *testing.T) {
	s := newStore(t)
	clock := sash.NewManualClock(0)
	var reading string
	l := newOn(t, connFunc(func(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
		reading = args[0]
		return s.Run(ctx, script, keys, args)
	}), []sash.Limit{sash.PerHour(100)}, sashredis.WithCallerClock(clock), sashredis.WithTimeout(10*time.Second))
	for now, want := range map[int64]string{0: "0", 999: "0", 1000: "1", 1999: "1", -1: "-1", -999: "-1", -1000: "-1", -1001: "-2"} {
		clock.Set(now)
		l.Peek(context.Background(), "a", 1)
		assert.Equal(t, want, reading, "%d", now)
	}
}

// A fallback charges what is admitted, and no Peek. It admits no negative cost.
func TestExact_AFallbackChargesNoPeek(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	local, _ := s.limiter([]sash.Limit{sash.PerHour(10)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 1)))
	for range 3 {
		assert.Equal(t, int64(6), local.Peek(ctx, "a", 4).Remaining)
		assert.Equal(t, int64(6), local.PeekAll(ctx, []string{"a", "b"}, 4).Remaining)
	}
	for _, f := range []sashredis.Fallback{sashredis.FallbackAdmit, sashredis.FallbackDeny, sashredis.FallbackLocal(1, 1)} {
		l, _ := s.limiter([]sash.Limit{sash.PerHour(10)}, sashredis.WithFallback(f))
		d := l.Take(ctx, "a", -1)
		assert.Equal(t, sashredis.ByFallback, d.By, "%v", f)
		assert.False(t, d.Allowed, "%v", f)
		assert.Equal(t, sash.Never, d.RetryAfter, "%v", f)
	}
}

// A lease ends with its window by the store's clock, which may run faster than the local one
// and be further than when its answer came.
func TestExact_ALeaseEndsAtTheLatestTimeOfTheStore(t *testing.T) {
	s := newStore(t) // its time is the beginning of a minute
	ctx := context.Background()
	limits := []sash.Limit{sash.PerMinute(10_000).Counter()}
	l, local := s.limiter(limits, sashredis.WithLease(1000, time.Hour))
	s.set(func() { s.after = func() { local.Advance(5 * time.Second) } }) // the answer takes long
	var sent int64
	for l.Stats().Leased == 0 {
		sent = local.Now()
		require.True(t, l.Take(ctx, "a", 50).Allowed)
	}
	drift := int64(time.Minute) / 5000
	local.Set(sent + int64(time.Minute) - drift - 2)
	assert.Equal(t, sashredis.ByLease, l.Take(ctx, "a", 1).By)
	local.Set(sent + int64(time.Minute) - drift - 1)
	assert.Equal(t, sashredis.ByStore, l.Take(ctx, "a", 1).By)
}

// A lease holds no more than WithLease says.
func TestExact_ALeaseHoldsNoMoreThanItMay(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10_000).Counter()}, sashredis.WithLease(20, time.Hour))
	for before := int64(0); l.Stats().Lease < 100; {
		require.True(t, l.Take(context.Background(), "a", 4).Allowed)
		now := l.Stats().Leased
		require.LessOrEqual(t, now-before, int64(20))
		before = now
	}
}

// Each unit that is leased is used once, or given back once, also if the lease ends while it is
// used.
func TestExact_ALeaseIsUsedOrReturned(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	for i := range 300 {
		l, local := s.limiter([]sash.Limit{sash.PerHour(1 << 40).Counter()}, sashredis.WithLease(1<<30, time.Hour))
		for l.Stats().Leased == 0 {
			require.True(t, l.Take(ctx, "a", 1<<20).Allowed)
		}
		var callers sync.WaitGroup
		begun := make(chan struct{}, 2)
		for range 2 {
			callers.Go(func() {
				for i := range 2000 {
					if i == 100 {
						begun <- struct{}{}
					}
					if l.Take(ctx, "a", 1).By != sashredis.ByLease {
						return
					}
				}
			})
		}
		<-begun
		if i%10 == 0 {
			local.Advance(2 * time.Hour)
			l.Take(ctx, "a", 1) // ends the lease
		}
		require.NoError(t, l.Close())
		callers.Wait()
		eventually(t, "the lease is given back", func() bool {
			stats := l.Stats()
			return stats.Returned >= stats.Leased-stats.Lease
		})
		stats := l.Stats()
		require.Equal(t, stats.Leased-stats.Lease, stats.Returned)
	}
}

// The last unit that fits is admitted, and one more is not, however large the numbers are.
func TestExact_TheLastUnitThatFits(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		ctx := context.Background()
		const year = 365 * 24 * time.Hour
		rng := rand.New(rand.NewPCG(1, 1))
		limits := []sash.Limit{
			sash.Per(1<<51-1, year).Counter(), sash.Per(1<<50+1, year/7+time.Microsecond).Counter(), sash.Per(1<<26, year/9).Counter(),
			sash.Per(1<<51-1, year).TokenBucket(1<<51 - 1), sash.Per(1<<50+1, year/7+time.Microsecond).TokenBucket(1<<49 + 3), sash.Per(3, time.Second).TokenBucket(1<<26 + 1),
		}
		for i, l := range limits {
			limits[i].Window = l.Window.Truncate(time.Microsecond)
		}
		exact := 0
		for trial := range steps(t, 600) {
			l := limits[trial%len(limits)]
			clock := sash.NewManualClock(int64(time.Duration(rng.Int64N(int64(30 * year))).Truncate(time.Microsecond)))
			here := sash.Must(sash.New(l, sash.WithClock(clock), sash.WithSweepInterval(-1)))
			there := newOn(t, conn, []sash.Limit{l}, sashredis.WithCallerClock(clock), sashredis.WithPrefix(strconv.Itoa(trial)+":"), sashredis.WithTimeout(10*time.Second))
			take := func(n int64) sash.Decision {
				want, got := here.Take("a", n), there.Take(ctx, "a", n)
				require.NoError(t, got.Err)
				require.Equal(t, want, got.Decision, "%v at %d: Take(%d)", l, clock.Now(), n)
				return want
			}
			most := l.Count
			if l.Burst > 0 {
				most = l.Burst
			}
			take(most - rng.Int64N(most/2))
			clock.Advance(time.Duration(rng.Int64N(int64(l.Window))).Truncate(time.Microsecond))
			left := here.Peek("a", 0).Remaining
			require.False(t, take(left+1).Allowed)
			if left > 0 {
				require.True(t, take(left).Allowed)
				exact++
			}
			if !take(1).Allowed {
				clock.Advance(here.Peek("a", 1).RetryAfter.Truncate(time.Microsecond))
				take(1)
				clock.Advance(time.Microsecond)
				take(1)
			}
		}
		require.Greater(t, exact, steps(t, 600)/3)
	})
}

// A hookedClock is a clock that runs a function once, before its next reading.
type hookedClock struct {
	sash.Clock
	hook atomic.Pointer[func()]
}

func (c *hookedClock) Now() int64 {
	if hook := c.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return c.Clock.Now()
}

// A call that has found a lease, which ends before it takes its units, takes none.
func TestExact_ALeaseThatEndsDuringAUse(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	clock := &hookedClock{Clock: sash.NewManualClock(0)}
	l, _ := s.limiter([]sash.Limit{sash.PerHour(1000).Counter()}, sashredis.WithLease(100, time.Hour), internals.LocalClock(clock))
	used := int64(0)
	for ; l.Stats().Leased == 0; used++ {
		require.True(t, l.Take(ctx, "a", 1).Allowed)
	}
	closes := func() { require.NoError(t, l.Close()) }
	clock.hook.Store(&closes)
	d := l.Take(ctx, "a", 1)
	require.Nil(t, clock.hook.Load())
	assert.Equal(t, sashredis.ByStore, d.By)
	assert.Equal(t, 1000-used-1, d.Remaining)
}

// A key whose limits change is not denied by what the mirror has of it under the old ones.
func TestExact_TheMirrorKnowsItsLimits(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	own := []sash.Limit{sash.PerDay(1)}
	l, _ := s.limiter([]sash.Limit{sash.PerHour(5)}, sashredis.WithLimitsFor(func(string) []sash.Limit { return own }))
	require.True(t, l.Allow(ctx, "a"))
	require.Equal(t, sashredis.ByMirror, l.Take(ctx, "a", 1).By)
	for _, other := range [][]sash.Limit{
		{sash.PerHour(1)}, {sash.PerHour(100).TokenBucket(1)}, {sash.PerDay(1).Counter(), sash.PerHour(1).Buckets(time.Minute)}, nil,
	} {
		own = other
		d := l.Take(ctx, "a", 1)
		assert.Equal(t, sashredis.ByStore, d.By)
		assert.True(t, d.Allowed, "%v", other)
	}
}

// While one call probes a store that was away, others do not wait for it.
func TestExact_OneCallProbes(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	l, local := s.limiter([]sash.Limit{sash.PerHour(50)}, sashredis.WithBreaker(2, time.Second))
	s.set(func() { s.err = errAway })
	for range 2 {
		require.ErrorIs(t, l.Take(ctx, "a", 1).Err, errAway)
	}
	s.set(func() { s.err = nil })
	local.Advance(2 * time.Second)
	arrived, release := s.holdUp()
	probe := make(chan sashredis.Decision)
	go func() { probe <- l.Take(ctx, "a", 1) }()
	<-arrived
	bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, key := range []string{"a", "b", "c"} {
		require.ErrorIs(t, l.Take(bounded, key, 1).Err, sashredis.ErrUnavailable, key)
	}
	release()
	require.True(t, (<-probe).Allowed)
	require.Equal(t, sashredis.ByStore, l.Take(ctx, "b", 1).By)
}

// A call whose caller gives up says nothing about the store.
func TestExact_CallersThatGiveUpAreNoFailures(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(50)}, sashredis.WithBreaker(2, time.Hour))
	arrived, release := s.holdUp()
	for range 10 {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan sashredis.Decision)
		go func() { done <- l.Take(ctx, "a", 1) }()
		select {
		case <-arrived:
		case d := <-done:
			require.Fail(t, "it was not sent", "%+v", d)
		}
		cancel()
		require.ErrorIs(t, (<-done).Err, context.Canceled)
	}
	release()
	require.Equal(t, sashredis.ByStore, l.Take(context.Background(), "a", 1).By)
	require.Zero(t, l.Stats().Failures)
}

// A verdict that does not follow from the state that comes with it is none.
func TestExact_AVerdictFollowsFromItsState(t *testing.T) {
	var reply string
	l := newOn(t, connFunc(func(context.Context, *sashredis.Script, []string, []string) (string, error) { return reply, nil }),
		[]sash.Limit{sash.PerHour(100).Counter()}, sashredis.WithMirror(0))
	for _, c := range []struct {
		reply string
		valid bool
	}{
		{"1800000000000000|1|0 0||500000 0 99", true},
		{"1800000000000000|0|0 0||500000 0 100", true},
		{"1800000000000000|0|0 0||500000 0 99", false},
	} {
		reply = c.reply
		d := l.Take(context.Background(), "a", 1)
		assert.Equal(t, c.valid, d.Err == nil, "%q: %+v", reply, d)
		if !c.valid {
			assert.False(t, d.Allowed)
			assert.ErrorIs(t, d.Err, sashredis.ErrServer)
		}
	}
}
