package clienttest

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/sashredis"
)

// Calls under limits that share a state share the counts of a key, and each is decided by its own limits.
func TestTakeLimits_DecidesByTheLimitsOfTheCall(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithLimitsFor(func(string) []sash.Limit {
		return []sash.Limit{sash.PerMinute(5).Counter()}
	}))
	ctx := context.Background()
	small, large, other := sash.PerMinute(20).Counter(), sash.PerMinute(50).Counter(), sash.PerHour(50).Counter()
	d := l.TakeLimits(ctx, "k", 18, small)
	assert.Equal(t, sash.Decision{Allowed: true, Limit: small, Remaining: 2, ResetAfter: d.ResetAfter}, d.Decision)
	assert.False(t, l.TakeLimits(ctx, "k", 3, small).Allowed)
	assert.Equal(t, int64(29), l.TakeLimits(ctx, "k", 3, large).Remaining)
	assert.False(t, l.Take(ctx, "k", 1).Allowed, "WithLimitsFor shares these counts")
	assert.Equal(t, int64(49), l.TakeLimits(ctx, "k", 1, other).Remaining, "another window counts for itself")
	assert.Equal(t, int64(49), l.TakeLimits(ctx, "k", 1, other, large).Remaining, "and so do several limits")
	assert.True(t, l.TakeLimits(ctx, "k", 1<<40, sash.Unlimited()).Allowed)
}

// All methods work under limits that are given, and what they share is one.
func TestWithLimits_IsTheSameLimiterUnderOtherLimits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1)})
	ctx := context.Background()
	v := l.WithLimits(sash.PerMinute(10).Counter())
	assert.Same(t, v, l.WithLimits(sash.PerMinute(10).Counter()))
	assert.Same(t, v, v.WithLimits(sash.PerMinute(7), sash.PerDay(7)).WithLimits(sash.PerMinute(10).Counter()))

	require.True(t, v.TakeLeaving(ctx, "k", 3, 7).Allowed)
	taken, _ := v.TakeUpTo(ctx, "k", 5)
	assert.Equal(t, int64(5), taken)
	r, d := v.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	assert.False(t, v.Allow(ctx, "k"))
	require.NoError(t, r.Cancel(ctx))
	require.NoError(t, v.Wait(ctx, "k", 1))
	assert.Equal(t, int64(1), v.Peek(ctx, "k", 0).Remaining)
	require.NoError(t, v.Reset(ctx, "k"))
	assert.Equal(t, int64(10), v.Peek(ctx, "k", 0).Remaining)
	assert.True(t, l.Allow(ctx, "k"), "the limits of New are as they were")
	assert.Equal(t, l.Stats(), v.Stats())
	assert.Equal(t, int64(s.count()), v.Stats().RoundTrips)
	require.NoError(t, v.Close())
	assert.True(t, inside(l).Closed)
}

// Wrong limits deny a call, and nothing is charged or sent.
func TestWithLimits_DeniesWrongLimits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1)})
	ctx := context.Background()
	counter := sash.PerSecond(5).Counter()
	precise := counter
	precise.Precision = time.Millisecond // its text does not tell
	require.NoError(t, l.TakeLimits(ctx, "k", 0, counter, counter).Err)
	before := s.count()
	for what, limits := range map[string][]sash.Limit{
		"limit 2: Window must be whole microseconds": {sash.PerSecond(5), {Count: 5, Window: 1}},
		"limit 2: Precision is for SlidingBuckets":   {counter, precise},
		"limit 1: Count must be >= 0":                {{Count: -1, Window: time.Second}},
	} {
		v := l.WithLimits(limits...)
		for _, d := range []sashredis.Decision{l.TakeLimits(ctx, "k", 1, limits...), v.TakeAll(ctx, []string{"k", "j"}, 1), v.Peek(ctx, "k", 0)} {
			assert.False(t, d.Allowed)
			assert.Equal(t, sash.Never, d.RetryAfter)
			assert.ErrorIs(t, d.Err, sash.ErrInvalidLimit)
			assert.ErrorContains(t, d.Err, "WithLimits: key \"k\": sashredis: "+what)
		}
		assert.ErrorIs(t, v.Wait(ctx, "k", 1), sash.ErrInvalidLimit)
		assert.ErrorIs(t, v.Reset(ctx, "k"), sash.ErrInvalidLimit)
	}
	d := l.TakeLimits(ctx, "k", 1)
	assert.ErrorIs(t, d.Err, sash.ErrNoLimit)
	assert.Equal(t, sash.Never, d.RetryAfter)
	assert.Equal(t, int64(13), l.Stats().Invalid)
	assert.Equal(t, before, s.count())
}

// Limits beyond those that a limiter keeps work as well.
func TestWithLimits_WorksForAnyNumberOfLimits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1)})
	for n := range int64(5000) {
		l.WithLimits(sash.PerMinute(1000 + n))
	}
	assert.Equal(t, int64(5998), l.TakeLimits(context.Background(), "k", 1, sash.PerMinute(5999)).Remaining)
}

// The mirror denies by the limits of the call what it knows by calls under other limits.
func TestTakeLimits_IsDeniedByTheMirror(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1)})
	ctx, small, large := context.Background(), sash.PerMinute(20).Counter(), sash.PerMinute(50).Counter()
	require.True(t, l.TakeLimits(ctx, "k", 20, large).Allowed)
	d := l.TakeLimits(ctx, "k", 1, small)
	assert.Equal(t, sashredis.ByMirror, d.By)
	assert.Equal(t, small, d.Limit)
	assert.True(t, l.TakeLimits(ctx, "k", 30, large).Allowed)
	if race.Enabled {
		return
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { l.TakeLimits(ctx, "k", 1, small) }))
}

// Units are leased under the limits of calls. Calls under other limits do not use them, and a Reset under
// others leaves them.
func TestTakeLimits_LeasesForCallsUnderTheSameLimits(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(1)}, sashredis.WithLease(10, time.Second))
	ctx, limit, larger := context.Background(), sash.PerMinute(1000).Counter(), sash.PerMinute(2000).Counter()
	for range 2 {
		require.Equal(t, sashredis.ByStore, l.TakeLimits(ctx, "k", 2, limit).By)
		local.Advance(time.Millisecond)
	}
	require.Positive(t, l.Stats().Leased)
	require.NoError(t, l.WithLimits(sash.PerHour(9)).Reset(ctx, "k"))
	assert.Equal(t, sashredis.ByLease, l.TakeLimits(ctx, "k", 1, limit).By)
	assert.Equal(t, sashredis.ByStore, l.TakeLimits(ctx, "k", 1, larger).By)
	require.NoError(t, l.Close())
	assert.Equal(t, l.Stats().Leased-1, l.Stats().Returned)
	assert.Equal(t, int64(2000-6), l.WithLimits(larger).Peek(ctx, "k", 0).Remaining)
}

// FallbackLocal decides by a share of the limits that the call brings. Limits that differ in Count alone share
// what is used, as they do in the store.
func TestTakeLimits_HasAShareOfTheLimits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)))
	ctx, limit, larger := context.Background(), sash.PerMinute(80).Counter(), sash.PerMinute(160).Counter()
	require.True(t, l.TakeLimits(ctx, "known", 40, limit).Allowed)
	s.set(func() { s.err = errAway })
	d := l.TakeLimits(ctx, "new", 1, limit)
	assert.Equal(t, sashredis.ByFallback, d.By)
	assert.Equal(t, sash.PerMinute(20).Counter(), d.Limit)
	assert.Equal(t, int64(19), d.Remaining)
	assert.Equal(t, int64(38), l.TakeLimits(ctx, "new", 1, larger).Remaining, "of 40, 2 are used")
	assert.Equal(t, int64(17), l.TakeLimits(ctx, "new", 1, limit).Remaining)
	assert.Equal(t, int64(24), l.TakeLimits(ctx, "new", 1, sash.PerSecond(100)).Remaining, "these have a share of their own")
	assert.Equal(t, int64(16), l.TakeLimits(ctx, "new", 1, limit).Remaining)
	assert.Equal(t, int64(39), l.TakeLimits(ctx, "third", 1, larger).Remaining)
	assert.Equal(t, int64(9), l.TakeLimits(ctx, "known", 1, limit).Remaining, "goes on from the mirror")
	assert.Equal(t, int64(249), l.Take(ctx, "own", 1).Remaining)
	require.Error(t, l.WithLimits(limit).Reset(ctx, "new"))
	assert.Equal(t, int64(39), l.TakeLimits(ctx, "new", 1, larger).Remaining, "it has begun anew")
	assert.Equal(t, int64(23), l.TakeLimits(ctx, "new", 1, sash.PerSecond(100)).Remaining, "and this has not")

	// What is spent past a reservation is charged under the same limits, if the key was forgotten.
	v := l.WithLimits(limit)
	r, d := v.Reserve(ctx, "spent", 1)
	require.True(t, d.Allowed)
	require.Error(t, v.Reset(ctx, "spent"))
	require.NoError(t, r.Commit(ctx, 4))
	assert.Equal(t, int64(17), v.Peek(ctx, "spent", 0).Remaining)
}

// Calls at the same time, under limits that differ in Count, are each decided by the share of their own limits.
func TestTakeLimits_HasItsOwnShareAtTheSameTime(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(0)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)),
		internals.LocalClock(yieldingClock{}))
	s.set(func() { s.err = errAway })
	var calls sync.WaitGroup
	for i := range 8 {
		calls.Go(func() {
			count := int64(100 + 100*(i%2))
			limit := sash.PerMinute(count).Counter()
			for j := range 200 {
				keys := []string{"a", "b"}
				if j%2 == 0 {
					slices.Reverse(keys)
				}
				d := l.WithLimits(limit).TakeAll(context.Background(), keys, 1)
				assert.Equal(t, count/2, d.Limit.Count)
				assert.Less(t, d.Remaining, count/2)
			}
		})
	}
	calls.Wait()
	assert.Zero(t, l.TakeLimits(context.Background(), "a", 0, sash.PerMinute(200).Counter()).Remaining, "all of the larger share is used")
}

// A yieldingClock stands still. A goroutine that reads it lets others go first, so that calls meet half-way.
type yieldingClock struct{}

func (yieldingClock) Now() int64 {
	runtime.Gosched()
	return 0
}

// What the store has counted counts in FallbackLocal under each Count, also if the first call there brings a small
// one, whose share is less than what was used.
func TestTakeLimits_KnowsAllOfThePastAfterASmallShare(t *testing.T) {
	kinds := map[string]func(count int64) sash.Limit{
		"counter": func(count int64) sash.Limit { return sash.PerMinute(count).Counter() },
		"log":     func(count int64) sash.Limit { return sash.PerMinute(count).Log() },
		"parts":   func(count int64) sash.Limit { return sash.PerMinute(count).Parts() },
		"bucket":  func(burst int64) sash.Limit { return sash.PerHour(1).TokenBucket(max(burst, 1)) },
		"held":    func(count int64) sash.Limit { return sash.AtOnce(count, time.Minute) },
	}
	for kind, of := range kinds {
		for _, small := range []int64{0, 1, 10} {
			for _, tracked := range []bool{false, true} {
				s := newStore(t)
				l, local := s.limiter([]sash.Limit{of(100)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
				ctx := context.Background()
				if tracked {
					s.set(func() { s.err = errAway })
					_, d := l.Reserve(ctx, "k", 1)
					require.Equal(t, sashredis.ByFallback, d.By)
					s.set(func() { s.err = nil })
					local.Advance(time.Minute / 2)
				}
				_, d := l.Reserve(ctx, "k", 60)
				require.Equal(t, sashredis.ByStore, d.By)
				s.set(func() { s.err = errAway })
				_, d = l.WithLimits(of(small)).Reserve(ctx, "k", 0)
				assert.Equal(t, sashredis.ByFallback, d.By)
				assert.Equal(t, int64(20), l.Peek(ctx, "k", 0).Remaining, "%s, %d first, tracked: %v", kind, small, tracked)
			}
		}
	}
}
