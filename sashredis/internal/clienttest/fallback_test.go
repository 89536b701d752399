package clienttest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// After some failures in a row, calls do not wait for the store. One in each pause tries it, and
// its success sends all calls there again.
func TestBreaker_OneCallInEachPauseTriesTheStore(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithBreaker(3, time.Second))
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	for i := range 3 {
		d := l.Take(ctx, "k", 1)
		assert.Equal(t, sashredis.ByFallback, d.By)
		assert.ErrorIs(t, d.Err, errAway, "call %d", i)
	}
	for range 100 {
		d := l.Take(ctx, "other", 1)
		assert.ErrorIs(t, d.Err, sashredis.ErrUnavailable)
		assert.False(t, d.Allowed)
		assert.Equal(t, time.Second, d.RetryAfter, "until a call tries the store")
	}
	assert.ErrorIs(t, l.Reset(ctx, "k"), sashredis.ErrUnavailable)
	assert.Equal(t, 3, s.count())
	assert.True(t, l.Stats().Open)

	local.Advance(time.Second)
	assert.ErrorIs(t, l.Take(ctx, "k", 1).Err, errAway, "the probe")
	assert.ErrorIs(t, l.Take(ctx, "k", 1).Err, sashredis.ErrUnavailable)
	assert.Equal(t, 4, s.count())

	s.set(func() { s.err = nil })
	assert.ErrorIs(t, l.Take(ctx, "k", 1).Err, sashredis.ErrUnavailable)
	local.Advance(time.Second)
	for range 10 {
		d := l.Take(ctx, "k", 1)
		assert.NoError(t, d.Err)
		assert.True(t, d.Allowed)
	}
	assert.Equal(t, int64(4), l.Stats().Failures)
	assert.Equal(t, int64(1), l.Stats().Opened)
	assert.False(t, l.Stats().Open)
}

// Round trips count in the bucket of their time, whether they were answered or not.
func TestStats_HaveTheTimesOfRoundTrips(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(10)})
	took := func(d time.Duration, err error) {
		s.set(func() { s.arrive, s.err = func() { local.Advance(d) }, err })
		l.Peek(context.Background(), "k", 0)
	}
	took(100*time.Microsecond, nil) // a bound belongs to the bucket below it
	took(100*time.Microsecond+1, nil)
	took(time.Second, errAway)
	took(time.Minute, nil)
	assert.Equal(t, [14]int64{0: 1, 1: 1, 12: 1, 13: 1}, l.Stats().Times)
	assert.Equal(t, time.Minute+time.Second+200*time.Microsecond+1, l.Stats().Time)
}

// Only failures in a row open the breaker, and only failures of the store.
func TestBreaker_CountsFailuresInARow(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithBreaker(2, time.Hour))
	ctx := context.Background()
	gone, cancel := context.WithCancel(ctx)
	for range 10 {
		s.set(func() { s.err = errAway })
		require.ErrorIs(t, l.Take(ctx, "k", 1).Err, errAway)
		s.set(func() { s.err, s.before = nil, nil })
		require.NoError(t, l.Take(ctx, "k", 1).Err)
	}
	cancel()
	for range 10 {
		require.ErrorIs(t, l.Take(gone, "k", 1).Err, context.Canceled)
	}
	require.NoError(t, s.server.Set("sash:wrong:p3750000x16", "something else"))
	for range 10 {
		d := l.Take(ctx, "wrong", 1)
		require.ErrorIs(t, d.Err, sashredis.ErrServer)
		require.ErrorContains(t, d.Err, "WithPrefix")
		require.False(t, d.Allowed)
		require.Equal(t, sash.Never, d.RetryAfter)
	}
	assert.True(t, l.Allow(ctx, "k"))
}

func TestFallback_DeniesOrAdmits(t *testing.T) {
	for _, f := range []sashredis.Fallback{sashredis.FallbackDeny, sashredis.FallbackAdmit} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithFallback(f))
		s.set(func() { s.err = errAway })
		ctx := context.Background()
		for _, d := range []sashredis.Decision{l.Take(ctx, "k", 1), l.TakeAll(ctx, []string{"k", "j"}, 1), l.Peek(ctx, "k", 1)} {
			assert.Equal(t, f == sashredis.FallbackAdmit, d.Allowed, "%v", f)
			assert.Equal(t, sash.PerMinute(10), d.Limit)
			assert.Equal(t, sashredis.ByFallback, d.By)
			assert.ErrorIs(t, d.Err, errAway)
		}
		assert.False(t, l.Take(ctx, "k", -1).Allowed)
		assert.Equal(t, sash.Never, l.Take(ctx, "k", -1).RetryAfter)
		r, d := l.Reserve(ctx, "k", 5)
		assert.Equal(t, f == sashredis.FallbackAdmit, d.Allowed)
		assert.NoError(t, r.Cancel(ctx))
	}
}

// While the store is away, each process decides by its share, and what was used before counts.
func TestFallbackLocal_GoesOnFromWhatTheStoreSaid(t *testing.T) {
	for _, limits := range [][]sash.Limit{
		{sash.PerMinute(40).Counter()}, {sash.PerMinute(40).Log()}, {sash.PerMinute(40).Buckets(10 * time.Second)},
		{sash.PerMinute(40).TokenBucket(40)}, {sash.PerMinute(40).Parts()}, {sash.PerHour(400).Log(), sash.PerMinute(40).Counter()},
	} {
		s := newStore(t)
		l, local := s.limiter(limits, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)), sashredis.WithBreaker(2, time.Second))
		ctx := context.Background()
		require.True(t, l.Take(ctx, "k", 21).Allowed)
		s.set(func() { s.err = errAway })

		// A quarter of 40 is 10. Of those, a quarter of 21, rounded up, counts as used: 6.
		d := l.Take(ctx, "k", 1)
		assert.Equal(t, sashredis.ByFallback, d.By)
		assert.True(t, d.Allowed)
		assert.Equal(t, int64(3), d.Remaining, "%v", limits)
		assert.Equal(t, int64(10), d.Limit.Count)
		assert.True(t, l.Take(ctx, "k", 3).Allowed)
		assert.False(t, l.Allow(ctx, "k"))
		assert.Equal(t, int64(9), l.Take(ctx, "unknown", 1).Remaining)
		assert.True(t, l.TakeAll(ctx, []string{"unknown", "other"}, 9).Allowed)

		// Its time goes on.
		local.Advance(2 * time.Minute)
		assert.True(t, l.Take(ctx, "k", 10).Allowed)

		// The store is back, and goes on from where it was: 21 are used there.
		s.set(func() { s.err = nil })
		local.Advance(time.Second)
		assert.Equal(t, int64(18), l.Take(ctx, "k", 1).Remaining)
		// What was decided without it still counts, when it is away again.
		s.set(func() { s.err = errAway })
		assert.False(t, l.Allow(ctx, "k"))
		local.Advance(2 * time.Minute)
		assert.Equal(t, int64(9), l.Take(ctx, "k", 1).Remaining)
	}
}

// A process that has given units back, or spent more than it had reserved, knows as much of the key as before. But
// none of that denies what the store admits.
func TestFallbackLocal_GoesOnFromWhatWasSettled(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.PerHour(1000).Counter(), sash.PerHour(1000).Log(), sash.PerHour(1000).Buckets(time.Minute), sash.PerHour(1000).TokenBucket(1000), sash.PerHour(1000).Parts(),
	} {
		for name, c := range map[string]struct {
			times, reserved, used int64
			most                  int64 // that may be left of a share of 500
			admits                bool  // the store admits 100 more
		}{
			"given back":   {100, 10, 9, 50, true},
			"all of it":    {1, 1000, 0, 500, true},
			"spent beyond": {1, 1, 5000, 0, false},
			"spent often":  {10, 1, 60, 200, true},
		} {
			s := newStore(t)
			l, local := s.limiter([]sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
			pass := func() {
				s.advance(time.Microsecond)
				local.Advance(time.Microsecond)
			}
			ctx := t.Context()
			for range c.times {
				pass()
				r, d := l.Reserve(ctx, "k", c.reserved)
				require.True(t, d.Allowed)
				pass()
				require.NoError(t, r.Commit(ctx, c.used))
			}
			s.set(func() { s.err = errAway })
			require.LessOrEqual(t, l.Peek(ctx, "k", 0).Remaining, c.most, "%s: %v", name, limit)
			s.set(func() { s.err = nil })
			d := l.Peek(ctx, "k", 100)
			require.Equal(t, sashredis.ByStore, d.By)
			require.Equal(t, c.admits, d.Allowed, "%s: %v", name, limit)
		}
	}
}

// The answer to a Commit comes after the answer to a later call, from which the fallback goes on.
func TestFallbackLocal_GoesOnFromTheLatestAnswer(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerHour(100).Log()}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
	ctx := t.Context()
	pass := func() {
		s.advance(time.Microsecond)
		local.Advance(time.Microsecond)
	}
	r, d := l.Reserve(ctx, "k", 50)
	require.True(t, d.Allowed)
	pass()
	s.set(func() {
		s.after = func() {
			s.set(func() { s.after = nil })
			pass()
			require.True(t, l.Take(ctx, "k", 50).Allowed)
			pass()
		}
	})
	require.NoError(t, r.Commit(ctx, 40))
	s.set(func() { s.err = errAway })
	require.EqualValues(t, 5, l.Peek(ctx, "k", 0).Remaining)
}

// The parts of a window may be longer in the store, where they are whole microseconds. What was charged
// there counts here for at least as long as any charge in parts does: fifteen sixteenths of the window.
func TestFallbackLocal_CountsWhatWasChargedInLongerParts(t *testing.T) {
	const window = 10*time.Second + 2*time.Microsecond // six parts in the store, and sixteen here
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.Per(40, window).Parts()}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)), sashredis.WithBreaker(1, time.Hour))
	pass := func(d time.Duration) {
		local.Advance(d)
		s.advance(d)
	}
	ctx := context.Background()
	for i := range 60 {
		key := fmt.Sprint(i)
		pass(2*time.Hour + time.Duration(i)*97*time.Millisecond) // the store is back
		s.set(func() { s.err = nil })
		require.True(t, l.Take(ctx, key, 21).Allowed)
		s.set(func() { s.err = errAway })
		require.Equal(t, int64(4), l.Peek(ctx, key, 0).Remaining)
		pass(window*15/16 - time.Millisecond)
		require.Equal(t, int64(4), l.Peek(ctx, key, 0).Remaining, "call %d", i)
		pass(window/6 + window/16 + 2*time.Millisecond)
		require.Equal(t, int64(10), l.Peek(ctx, key, 0).Remaining, "call %d", i)
	}
}

// mirrorOrNone are mirrors of limiters whose fallback is to go on from what it has admitted, with and
// without what the store said.
var mirrorOrNone = []sashredis.Option{sashredis.WithMirror(1000), sashredis.WithMirror(0)}

// However often the store goes away, a process admits its share in a window, and all together at
// most the share more than the Count.
func TestFallbackLocal_AdmitsItsShareOverSeveralOutages(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.Per(100, 10*time.Second).Counter(), sash.Per(100, 10*time.Second).Log(),
		sash.Per(100, 10*time.Second).Buckets(time.Second), sash.Per(100, 10*time.Second).Parts(), sash.PerHour(100).TokenBucket(100),
	} {
		for _, mirror := range mirrorOrNone {
			s := newStore(t)
			l, local := s.limiter([]sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)), sashredis.WithBreaker(1, 900*time.Millisecond), mirror)
			ctx := context.Background()
			require.True(t, l.Peek(ctx, "k", 1).Allowed) // it knows the time of the store
			admitted := map[sashredis.By]int{}
			for range 10 { // outages in 9 s
				s.set(func() { s.err = errAway })
				for range 60 {
					if d := l.Take(ctx, "k", 1); d.Allowed {
						admitted[d.By]++
					}
				}
				local.Advance(900 * time.Millisecond)
				s.advance(900 * time.Millisecond)
				s.set(func() { s.err = nil })
				for range 20 {
					if d := l.Take(ctx, "k", 1); d.Allowed {
						admitted[d.By]++
					}
				}
			}
			assert.Equal(t, map[sashredis.By]int{sashredis.ByStore: 100, sashredis.ByFallback: 50}, admitted, "%v", limit)
		}
	}
}

// What the store has answered since an earlier outage counts as used, if it is more than what was
// admitted here.
func TestFallbackLocal_LearnsFromTheStoreBetweenOutages(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.PerHour(100).Counter(), sash.PerHour(100).Log(), sash.PerHour(100).Buckets(time.Minute), sash.PerHour(100).Parts(), sash.PerHour(100).TokenBucket(100),
	} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
		ctx := context.Background()
		require.True(t, l.Peek(ctx, "k", 1).Allowed) // it knows the time of the store
		s.set(func() { s.err = errAway })
		assert.Equal(t, int64(45), l.Take(ctx, "k", 5).Remaining, "%v", limit)
		s.set(func() { s.err = nil })
		require.True(t, l.Take(ctx, "k", 6).Allowed)
		s.set(func() { s.err = errAway })
		assert.Equal(t, int64(44), l.Take(ctx, "k", 1).Remaining, "a share of 3 is less than the 5")
		s.set(func() { s.err = nil })
		require.True(t, l.Take(ctx, "k", 81).Allowed)
		s.set(func() { s.err = errAway })
		assert.Equal(t, int64(5), l.Take(ctx, "k", 1).Remaining, "a share of 44 is more than the 6: %v", limit)
		assert.Equal(t, int64(4), l.Take(ctx, "k", 1).Remaining, "it counts once")
	}
}

// Each time that the store is away, what it has counted until then is carried over under each limit by itself: a
// limit that leaves less hides no other.
func TestFallbackLocal_LearnsUnderEachLimit(t *testing.T) {
	const day = 24 * time.Hour
	others := [][]sash.Limit{
		nil, {sash.AtOnce(10, time.Hour)}, {sash.PerSecond(10).Counter()}, {sash.PerSecond(10).Log(), sash.AtOnce(10, time.Hour)},
		{sash.Per(1000, 2*day).Counter()}, {sash.PerSecond(10).TokenBucket(10), sash.Unlimited()},
	}
	for i, rate := range []sash.Limit{
		sash.Per(100, day).Counter(), sash.Per(100, day).Log(), sash.Per(100, day).Buckets(time.Hour), sash.Per(100, day).Parts(), sash.Per(100, day).TokenBucket(100),
	} {
		for j, others := range others {
			limits := append([]sash.Limit{rate}, others...)
			learnsUnderEachLimit(t, limits, (i+j)%2 == 0)
		}
	}
}

// learnsUnderEachLimit is the test of limits that admit 100 units a day. They may be the key's own.
func learnsUnderEachLimit(t *testing.T, limits []sash.Limit, own bool) {
	options, general := []sashredis.Option{sashredis.WithFallback(sashredis.FallbackLocal(1, 2))}, limits
	if own {
		options = append(options, sashredis.WithLimitsFor(func(string) []sash.Limit { return limits }))
		general = []sash.Limit{sash.PerSecond(1)}
	}
	s := newStore(t)
	l, local := s.limiter(general, options...)
	pass := func(d time.Duration) {
		s.advance(d)
		local.Advance(d)
	}
	// admits returns how many calls are admitted one after the other within half a minute, or most.
	admits := func(by sashredis.By, most int64) (n int64) {
		s.set(func() {
			if s.err = nil; by == sashredis.ByFallback {
				s.err = errAway
			}
		})
		for denied := 0; denied < 30 && n < most; {
			r, d := l.Reserve(t.Context(), "k", 1)
			if pass(time.Microsecond); d.Allowed {
				require.Equal(t, by, d.By)
				require.NoError(t, r.Release(t.Context()))
				n++
			} else {
				pass(time.Second)
				denied++
			}
		}
		pass(time.Second)
		return n
	}
	require.EqualValues(t, 1, admits(sashredis.ByFallback, 1))
	require.EqualValues(t, 60, admits(sashredis.ByStore, 60))
	require.EqualValues(t, 5, admits(sashredis.ByFallback, 5), "of 50, a share of 30 is used: %v", limits)
	require.EqualValues(t, 2, admits(sashredis.ByStore, 2))
	require.EqualValues(t, 15, admits(sashredis.ByFallback, 100), "a share of 31 is less than the 35: %v", limits)
	require.EqualValues(t, 38, admits(sashredis.ByStore, 100))
	require.Zero(t, admits(sashredis.ByFallback, 1), "%v", limits)
}

// What is held in the store when it goes away again is held here, next to limits that are used in other ways.
func TestFallbackLocal_LearnsWhatIsHeld(t *testing.T) {
	ctx := context.Background()
	held := sash.AtOnce(10, time.Minute)
	for _, limits := range [][]sash.Limit{{held}, {sash.PerHour(100).Counter(), held}, {held, sash.PerHour(100).Log(), sash.PerSecond(100)}} {
		s := newStore(t)
		l, local := s.limiter(limits, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
		s.set(func() { s.err = errAway })
		mine, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		s.set(func() { s.err = nil })
		_, d = l.Reserve(ctx, "k", 7)
		require.True(t, d.Allowed)
		s.set(func() { s.err = errAway })
		assert.Equal(t, int64(1), l.Peek(ctx, "k", 0).Remaining, "of 5, a share of 4 is held: %v", limits)
		require.NoError(t, mine.Release(ctx))
		assert.Equal(t, int64(2), l.Peek(ctx, "k", 0).Remaining, "what was held here is back: %v", limits)
		local.Advance(time.Minute + time.Second)
		assert.Equal(t, int64(5), l.Peek(ctx, "k", 0).Remaining, "the leases are over: %v", limits)
	}
}

// A share is rounded down, and what is used of it up. So all of a share is used before all of the limit is.
func TestFallbackLocal_LearnsThatMoreThanAShareIsUsed(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(10)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)))
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	require.Equal(t, int64(1), l.Take(ctx, "k", 1).Remaining)
	s.set(func() { s.err = nil })
	require.True(t, l.Take(ctx, "k", 10).Allowed)
	s.set(func() { s.err = errAway })
	assert.False(t, l.Allow(ctx, "k"))
}

// A store whose clock is set does not give a process its share anew, nor take it away for longer
// than a window.
func TestFallbackLocal_CountsByASteadyClock(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.PerMinute(100).Counter(), sash.PerMinute(100).Log(), sash.PerMinute(100).Buckets(time.Second), sash.PerMinute(100).Parts(), sash.PerMinute(100).TokenBucket(100),
	} {
		for _, step := range []time.Duration{-time.Hour, time.Hour} {
			countsByASteadyClock(t, limit, step, sashredis.WithMirror(1000), 39) // a share of 20 is used
			countsByASteadyClock(t, limit, step, sashredis.WithMirror(0), 49)    // it is not known
		}
	}
}

func countsByASteadyClock(t *testing.T, limit sash.Limit, step time.Duration, mirror sashredis.Option, left int64) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)), mirror)
	ctx := context.Background()
	require.True(t, l.Take(ctx, "other", 1).Allowed) // it knows the time of the store
	s.set(func() { s.err = errAway })
	require.True(t, l.Take(ctx, "k", 50).Allowed)
	s.advance(step)
	s.set(func() { s.err = nil })
	require.True(t, l.Take(ctx, "k", 20).Allowed)
	require.True(t, l.Take(ctx, "new", 20).Allowed)
	s.set(func() { s.err = errAway })
	assert.False(t, l.Allow(ctx, "k"), "%v, %v", limit, step)
	assert.Equal(t, left, l.Take(ctx, "new", 1).Remaining, "%v, %v", limit, step)
	local.Advance(2 * time.Minute)
	assert.Equal(t, int64(49), l.Take(ctx, "k", 1).Remaining, "%v, %v", limit, step)
}

// A reservation that the fallback has made is settled with the fallback.
func TestFallbackLocal_Reserves(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(40)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	r, d := l.Reserve(ctx, "k", 15)
	require.True(t, d.Allowed)
	require.False(t, l.Take(ctx, "k", 10).Allowed)
	require.NoError(t, r.Commit(ctx, 5))
	assert.Equal(t, int64(5), l.Take(ctx, "k", 10).Remaining)
}

// A share is rounded down, but is at least one unit. Keys have shares of their own limits.
func TestFallbackLocal_SharesLimits(t *testing.T) {
	s := newStore(t)
	plans := map[string][]sash.Limit{"none": {{Window: time.Minute}}, "free": {sash.Unlimited()}, "small": {sash.PerMinute(3)}, "pro": {sash.PerMinute(1000).TokenBucket(50)}}
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)),
		sashredis.WithLimitsFor(func(key string) []sash.Limit { return plans[key] }))
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	assert.Equal(t, int64(1), l.Take(ctx, "own", 1).Remaining)
	assert.Equal(t, int64(0), l.Take(ctx, "small", 1).Remaining)
	assert.Equal(t, int64(11), l.Take(ctx, "pro", 1).Remaining)
	assert.False(t, l.Allow(ctx, "none"))
	assert.True(t, l.Allow(ctx, "free"))
}

// A store that comes and goes does not give a key its share anew.
func TestFallbackLocal_AdmitsAShareInAWindow(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(100)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)))
	ctx := context.Background()
	admitted := map[sashredis.By]int{}
	for i := range 2000 {
		s.set(func() {
			s.err = errAway
			if i%4 == 0 {
				s.err = nil
			}
		})
		if d := l.Take(ctx, "k", 1); d.Allowed {
			admitted[d.By]++
		}
	}
	assert.Equal(t, 100, admitted[sashredis.ByStore])
	assert.Equal(t, 25-1, admitted[sashredis.ByFallback], "one of the share was used in the store")
}

// What a share never admits, the store may: it is not denied for ever. What the limits never admit
// is, by every fallback.
func TestFallback_KnowsWhatIsNeverAdmitted(t *testing.T) {
	for _, f := range []sashredis.Fallback{sashredis.FallbackDeny, sashredis.FallbackAdmit, sashredis.FallbackLocal(1, 8)} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithFallback(f),
			sashredis.WithLimitsFor(func(key string) []sash.Limit {
				if key == "blocked" {
					return []sash.Limit{{Window: time.Minute}}
				}
				return nil
			}))
		s.set(func() { s.err = errAway })
		ctx := context.Background()
		d := l.Take(ctx, "k", 50)
		assert.Equal(t, f == sashredis.FallbackAdmit, d.Allowed, "%v", f)
		assert.Equal(t, int64(100), d.Limit.Count)
		if !d.Allowed {
			assert.Greater(t, d.RetryAfter, time.Duration(0))
			assert.Less(t, d.RetryAfter, time.Minute)
		}
		for _, d := range []sashredis.Decision{l.Take(ctx, "k", 101), l.Take(ctx, "blocked", 1)} {
			assert.False(t, d.Allowed, "%v", f)
			assert.Equal(t, sash.Never, d.RetryAfter)
		}
	}
}

// A caller that has hung up gets no unit from a fallback.
func TestFallback_DeniesWhatWasCanceled(t *testing.T) {
	for _, f := range []sashredis.Fallback{sashredis.FallbackAdmit, sashredis.FallbackLocal(1, 2)} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithFallback(f))
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		d := l.Take(ctx, "k", 1)
		assert.False(t, d.Allowed)
		assert.Greater(t, d.RetryAfter, time.Duration(0))
		assert.ErrorIs(t, d.Err, context.Canceled)
		assert.ErrorIs(t, l.Wait(ctx, "k", 1), context.Canceled)

		// One whose time is over before the store answers has the answer of the fallback, but a
		// Wait reports the end of its context.
		_, release := s.holdUp()
		short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		assert.True(t, l.Take(short, "k", 1).Allowed)
		assert.ErrorIs(t, l.Wait(short, "k", 1), context.DeadlineExceeded)
		release()
	}
}

// A store that hangs opens the breaker although all callers give up before the time-out.
func TestBreaker_OpensForCallersWithShortDeadlines(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithBreaker(3, time.Hour), sashredis.WithTimeout(5*time.Millisecond))
	_, release := s.holdUp()
	defer release()
	eventually(t, "the breaker is open", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		err := l.Take(ctx, "k", 1).Err
		assert.Error(t, err)
		return errors.Is(err, sashredis.ErrUnavailable)
	})
}

// Clients may choose deadlines, as clients of gRPC do. Deadlines that are too short for the store to
// answer do not open the breaker, nor do they hold it open for others.
func TestBreaker_IsNotHeldOpenByShortDeadlines(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithBreaker(1, time.Second))
	late := func(l *sashredis.Limiter) { // the deadline of a caller ends on the way
		ctx, cancel := context.WithCancelCause(context.Background())
		s.set(func() {
			s.before = func() {
				s.set(func() { s.before = nil })
				cancel(nil)
			}
		})
		deadline := deadlineContext{ctx}
		assert.ErrorIs(t, l.Take(deadline, "k", 1).Err, context.DeadlineExceeded)
	}
	for range 5 {
		late(l)
		require.Equal(t, sashredis.ByStore, l.Take(context.Background(), "k", 1).By)
	}
	require.NoError(t, l.Close()) // so that none of its examinations comes any more

	l, local := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithBreaker(1, time.Second))
	s.set(func() { s.err = errAway })
	require.ErrorIs(t, l.Take(context.Background(), "k", 1).Err, errAway)
	require.ErrorIs(t, l.Take(context.Background(), "k", 1).Err, sashredis.ErrUnavailable)
	s.set(func() { s.err = nil })
	local.Advance(time.Second)
	late(l) // it is the one that tries the store
	eventually(t, "the store is in use", func() bool {
		return l.Take(context.Background(), "k", 1).By == sashredis.ByStore
	})
	require.NoError(t, l.Close())
}

// A hangingConn is a store that never answers.
type hangingConn struct{}

func (hangingConn) Run(ctx context.Context, _ *sashredis.Script, _, _ []string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// Close does not wait for a store that hangs to be examined, and does not blame it.
func TestBreaker_CloseEndsAnExamination(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := sashredis.New(hangingConn{}, []sash.Limit{sash.PerMinute(100)},
			sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(10*time.Second))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Take(ctx, "k", 1).Err, context.DeadlineExceeded)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, l.Close())
		assert.Zero(t, time.Since(began))
		assert.Zero(t, l.Stats().Failures)
		assert.Equal(t, int64(2), l.Stats().RoundTrips)
	})
}

// A caller that hangs up while its call tries the store does not hold the breaker open: the store is
// examined without it.
func TestBreaker_IsNotHeldOpenByACallerThatHangsUp(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithBreaker(1, time.Second))
	s.set(func() { s.err = errAway })
	require.ErrorIs(t, l.Take(t.Context(), "k", 1).Err, errAway)
	local.Advance(time.Second)
	ctx, cancel := context.WithCancel(t.Context())
	s.set(func() {
		s.err = nil
		s.before = func() {
			s.set(func() { s.before = nil })
			cancel()
		}
	})
	require.ErrorIs(t, l.Take(ctx, "k", 1).Err, context.Canceled)
	eventually(t, "the store is in use", func() bool { return l.Take(t.Context(), "k", 1).By == sashredis.ByStore })
	require.NoError(t, l.Close())
}

// A deadlineContext is a context that ends as if by its deadline.
type deadlineContext struct{ context.Context }

func (c deadlineContext) Err() error {
	if c.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// Shares decide also after Close, which has ended their goroutine.
func TestFallback_NoGoroutineAfterClose(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)), sashredis.WithBreaker(1, time.Second))
	require.True(t, l.Allow(t.Context(), "k")) // there is a connection now
	s.set(func() { s.err = errAway })
	require.ErrorIs(t, l.Take(t.Context(), "k", 1).Err, errAway)
	require.NoError(t, l.Close())
	before := runtime.NumGoroutine()
	s.set(func() { s.err = nil })
	local.Advance(time.Second)
	require.NoError(t, l.Take(t.Context(), "k", 1).Err)
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
	s.set(func() { s.err = errAway })
	assert.True(t, l.Take(t.Context(), "k", 1).Allowed, "by the shares")
}
