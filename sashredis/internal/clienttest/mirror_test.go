package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

var oneOfEach = []sash.Limit{
	sash.PerMinute(2).Counter(),
	sash.PerMinute(2).Log(),
	sash.PerMinute(2).Buckets(time.Second),
	sash.PerMinute(2).TokenBucket(2),
	sash.PerMinute(2).Parts(),
}

// A flood of calls on a denied key sends nothing, and each is told the wait that is left.
func TestMirror_DeniesAFloodInProcess(t *testing.T) {
	for _, limit := range oneOfEach {
		t.Run(limit.String(), func(t *testing.T) {
			s := newStore(t)
			l, local := s.limiter([]sash.Limit{limit})
			ctx := context.Background()
			for range 2 {
				require.True(t, l.Allow(ctx, "k"))
			}
			first := l.Take(ctx, "k", 1) // the mirror knows enough after the second call
			require.False(t, first.Allowed)
			sent := s.count()
			for range 10_000 {
				local.Advance(time.Millisecond)
				s.advance(time.Millisecond)
				d := l.Take(ctx, "k", 1)
				require.False(t, d.Allowed)
				require.Equal(t, sashredis.ByMirror, d.By)
				require.Equal(t, limit, d.Limit)
			}
			assert.Equal(t, sent, s.count(), "no round trips")

			// The wait is exact, but for what the clocks may be off.
			d := l.Take(ctx, "k", 1)
			exact := l.Peek(ctx, "k", 1) // also by the mirror
			assert.Equal(t, d.RetryAfter, exact.RetryAfter)
			s.advance(d.RetryAfter)
			local.Advance(d.RetryAfter)
			assert.True(t, l.Allow(ctx, "k"))
		})
	}
}

// After a Commit of more than was reserved, the wait of a denial comes from the store.
func TestMirror_WaitsForWhatACommitHasCharged(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.PerMinute(10).Counter(), sash.PerMinute(10).Log(), sash.PerMinute(10).Buckets(time.Second), sash.PerMinute(10).TokenBucket(10),
		sash.PerMinute(10).Parts(),
	} {
		s := newStore(t)
		l, local := s.limiter([]sash.Limit{limit})
		plain, _ := s.limiter([]sash.Limit{limit}, sashredis.WithMirror(0))
		ctx := context.Background()
		r, d := l.Reserve(ctx, "k", 10)
		require.True(t, d.Allowed)
		for range 2 {
			require.False(t, l.Take(ctx, "k", 8).Allowed)
		}
		s.advance(10 * time.Second)
		local.Advance(10 * time.Second)
		require.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 8).By)
		require.NoError(t, r.Commit(ctx, 15))
		for range 3 {
			s.advance(time.Millisecond)
			local.Advance(time.Millisecond)
			want, got := plain.Take(ctx, "k", 8), l.Take(ctx, "k", 8)
			require.False(t, want.Allowed)
			assert.GreaterOrEqual(t, got.RetryAfter, want.RetryAfter, "%v", limit)
			assert.LessOrEqual(t, got.RetryAfter, want.RetryAfter+10*time.Millisecond, "what the clocks may be off: %v", limit)
			assert.False(t, got.Allowed)
		}
		assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 8).By)
	}
}

// After the clock of the store was set back, the mirror goes on from what the store says now.
func TestMirror_FollowsAClockThatIsSetBack(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(2)}, sashredis.WithMaxAhead(2))
	ctx := context.Background()
	s.advance(time.Hour)
	require.True(t, l.Allow(ctx, "k"))
	s.advance(-time.Hour)
	local.Advance(time.Second)
	for range 2 {
		require.True(t, l.Allow(ctx, "k"))
		local.Advance(time.Millisecond)
		s.advance(time.Millisecond)
	}
	d := l.Take(ctx, "k", 1)
	assert.False(t, d.Allowed)
	assert.Equal(t, sashredis.ByMirror, d.By)
}

// While the store may admit a call, the store is asked, and a call for less than is left.
func TestMirror_AsksWhenItIsNotSure(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(10).Log()})
	ctx := context.Background()
	require.True(t, l.Take(ctx, "k", 4).Allowed)
	s.advance(30 * time.Second)
	local.Advance(30 * time.Second)
	require.True(t, l.Take(ctx, "k", 4).Allowed)

	assert.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 5).By, "the store was not asked yet when the fifth unit is free")
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 5).By)
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 3).By, "the oldest units must go")
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 11).By)
	assert.Equal(t, sash.Never, l.Take(ctx, "k", 11).RetryAfter)
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", -1).By)
	assert.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 2).By)

	// The local clock may be slow by 200 millionths of the 30 s: then the store's shows a minute.
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By)
	local.Advance(30*time.Second - 10*time.Millisecond)
	assert.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By)
	local.Advance(5 * time.Millisecond)
	assert.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 1).By)
}

// What this process has given back or reset is not denied by what it knew before, not even if an
// answer from before comes afterwards.
func TestMirror_ForgetsWhatHasBecomeLess(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(2)})
	ctx := context.Background()
	r, d := l.Reserve(ctx, "k", 2)
	require.True(t, d.Allowed)
	require.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By)
	require.NoError(t, r.Commit(ctx, 1))
	s.advance(time.Microsecond) // at the same one, it would not be known which came first
	assert.True(t, l.Allow(ctx, "k"))
	require.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By)
	require.NoError(t, l.Reset(ctx, "k"))
	assert.True(t, l.Allow(ctx, "k"))

	// An answer is on its way while the key is reset.
	require.True(t, l.Allow(ctx, "k"))
	var late sashredis.Decision
	s.set(func() {
		s.after = func() {
			s.set(func() { s.after = nil })
			require.NoError(t, l.Reset(ctx, "k"))
		}
	})
	_, late = l.Reserve(ctx, "k", 1) // not decided by the mirror
	assert.False(t, late.Allowed)
	assert.True(t, l.Allow(ctx, "k"), "the answer from before the reset is no bound")
}

// The mirror is bounded: keys that have not been heard of for longest make room.
func TestMirror_KeepsTheLatestKeys(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(1)}, sashredis.WithMirror(8))
	ctx := context.Background()
	for i := range 20 {
		local.Advance(time.Microsecond)
		require.True(t, l.Allow(ctx, fmt.Sprint(i)))
	}
	for i := range 12 {
		assert.Equal(t, sashredis.ByStore, l.Take(ctx, fmt.Sprint(11-i), 1).By)
		local.Advance(time.Microsecond)
	}
	sent := s.count()
	for i := range 8 {
		assert.Equal(t, sashredis.ByMirror, l.Take(ctx, fmt.Sprint(i), 1).By)
	}
	assert.Equal(t, sent, s.count())
}

// A TakeAll is denied in-process if all keys are known and one denies.
func TestMirror_DeniesSeveralKeys(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(2)})
	ctx := context.Background()
	require.True(t, l.Take(ctx, "a", 2).Allowed)
	d := l.TakeAll(ctx, []string{"a", "b"}, 1)
	require.Equal(t, sashredis.ByStore, d.By)
	require.False(t, d.Allowed)
	again := l.TakeAll(ctx, []string{"a", "b", "a"}, 1)
	assert.Equal(t, sashredis.ByMirror, again.By)
	assert.False(t, again.Allowed)
	assert.InDelta(t, d.RetryAfter, again.RetryAfter, 2)
	assert.Equal(t, sashredis.ByStore, l.TakeAll(ctx, []string{"b", "c"}, 1).By)
}

// Where the mirror denies a call by one key, another key that admits it has as much left as by the store,
// however long ago the store was asked.
func TestMirror_AKeyThatAdmitsTellsWhatIsLeft(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []sash.Limit{
		sash.Per(9, 10*time.Second).Counter(), sash.Per(9, 10*time.Second).Log(),
		sash.Per(9, 10*time.Second).Buckets(2 * time.Second), sash.Per(9, 10*time.Second).TokenBucket(9),
		sash.Per(9, 10*time.Second).Parts(),
	} {
		s := newStore(t)
		ofKeys := sashredis.WithLimitsFor(func(key string) []sash.Limit {
			if key == "denies" {
				return []sash.Limit{sash.PerHour(1)}
			}
			return []sash.Limit{limit}
		})
		l, local := s.limiter(nil, ofKeys)
		truth, _ := s.limiter(nil, ofKeys, sashredis.WithMirror(0))
		require.True(t, l.Allow(ctx, "denies"))
		require.True(t, l.Take(ctx, "admits", 4).Allowed)
		for range 30 {
			s.advance(time.Second + 100*time.Microsecond)
			local.Advance(time.Second + 100*time.Microsecond)
			keys := []string{"admits", "denies"}
			got, want := internals.Each(l, ctx, bridge.Take, keys, 2, nil), internals.Each(truth, ctx, bridge.Take, keys, 2, nil)
			require.Equal(t, "mirror", got.By)
			require.Equal(t, "store", want.By)
			require.True(t, got.Keys[0].Allowed)
			require.Equal(t, want.Keys[0].Remaining, got.Keys[0].Remaining, "%v", limit)
			require.Equal(t, want.Keys[0].Next.Remaining, got.Keys[0].Next.Remaining, "%v", limit)
		}
	}
}

// Whatever the mirror denies, the store would deny, at the same time, whatever the round trips
// take and however the clocks run apart within 200 parts per million. And the wait that it tells
// is never too short, nor longer by more than the clocks may be off.
func TestMirror_DeniesOnlyWhatTheStoreWould(t *testing.T) {
	ctx := context.Background()
	for _, limits := range [][]sash.Limit{
		{sash.Per(5, 50*time.Millisecond).Counter()}, {sash.Per(5, 50*time.Millisecond).Log()},
		{sash.Per(5, 50*time.Millisecond).Buckets(7 * time.Millisecond)}, {sash.Per(5, 50*time.Millisecond).TokenBucket(3)},
		{sash.Per(5, 50*time.Millisecond).Parts()},
		{sash.Per(3, 10*time.Millisecond).Counter(), sash.Per(9, time.Second).Log(), sash.Per(7, 300*time.Millisecond).TokenBucket(4)},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			s := newStore(t)
			sides := [2]*sashredis.Limiter{}
			locals := [2]*sash.ManualClock{}
			rates := [2]float64{1 + 190e-6, 1 - 190e-6}
			for i := range sides {
				sides[i], locals[i] = s.limiter(limits)
			}
			truth, _ := s.limiter(limits, sashredis.WithMirror(0))
			pass := func(d time.Duration) {
				s.advance(d)
				for i := range locals {
					locals[i].Advance(time.Duration(float64(d) * rates[i]))
				}
			}
			latency := func() { pass(time.Duration(rng.IntN(300)) * time.Microsecond) }
			denied, asked := 0, 0
			for range trials(t, 2000) {
				switch rng.IntN(20) {
				case 0:
					pass(time.Duration(rng.IntN(100)) * time.Millisecond)
				case 1, 2, 3, 4, 5:
					pass(time.Duration(rng.IntN(5000)) * time.Microsecond)
				}
				s.set(func() { s.before, s.after = latency, latency })
				key, n, side := fmt.Sprint(rng.IntN(2)), 1+rng.Int64N(4), rng.IntN(2)
				d := sides[side].Take(ctx, key, n)
				require.NoError(t, d.Err)
				if d.By != sashredis.ByMirror {
					asked++
					continue
				}
				denied++
				s.set(func() { s.before, s.after = nil, nil })
				want := truth.Peek(ctx, key, n)
				require.False(t, want.Allowed, "%d units of %q", n, key)
				if want.RetryAfter == sash.Never {
					require.Equal(t, want.RetryAfter, d.RetryAfter)
					continue
				}
				if d.Limit == want.Limit && rng.IntN(4) == 0 && side == 0 {
					// Nothing else is charged until then. Counts of others may have grown since
					// the mirror heard of the key, so it may tell too little, never too much.
					require.LessOrEqual(t, d.RetryAfter, want.RetryAfter+2*time.Millisecond)
				}
			}
			assert.Greater(t, denied, 100)
			assert.Greater(t, asked, 100)
		})
	}
}

// A mirror does not tell that more is left than there may be.
func TestMirror_TellsNoMoreThanIsLeft(t *testing.T) {
	s := newStore(t)
	limits := []sash.Limit{sash.Per(10, 10*time.Second).Log()}
	l, local := s.limiter(limits)
	other, otherLocal := s.limiter(limits, sashredis.WithMirror(0))
	pass := func(d time.Duration) {
		s.advance(d)
		local.Advance(d)
		otherLocal.Advance(d)
	}
	ctx := context.Background()
	require.True(t, other.Take(ctx, "k", 1).Allowed)
	pass(5 * time.Second)
	require.True(t, other.Take(ctx, "k", 4).Allowed)
	pass(time.Second)
	require.True(t, other.Take(ctx, "k", 5).Allowed)
	require.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 7).By)
	pass(4010 * time.Millisecond)
	d := l.Take(ctx, "k", 7)
	require.Equal(t, sashredis.ByMirror, d.By)
	assert.Equal(t, int64(1), d.Remaining)
}

// The store rounds its time down to microseconds, so it may be almost one more.
func TestMirror_KnowsThatTimeIsRoundedDown(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.Per(1, time.Millisecond).Log()})
	ctx := context.Background()
	require.True(t, l.Allow(ctx, "k"))
	local.Advance(time.Millisecond - 1500*time.Nanosecond)
	require.Equal(t, sashredis.ByMirror, l.Take(ctx, "k", 1).By)
	local.Advance(time.Microsecond)
	assert.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 1).By)
}

// Keys may be parts of requests. Nothing keeps the whole request.
func TestMirror_KeepsNothingButTheKey(t *testing.T) {
	for name, options := range map[string][]sashredis.Option{"mirror": nil, "mirror and lessees": {sashredis.WithLease(10, time.Second)}} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			l, _ := s.limiter([]sash.Limit{sash.PerHour(100)}, append(options, sashredis.WithMirror(10_000))...)
			heap := func() int64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return int64(m.HeapAlloc)
			}
			before := heap()
			for i := range 100 {
				request := fmt.Sprintf("%09d", i) + strings.Repeat("x", 1<<20)
				for range 3 {
					l.Take(t.Context(), request[:9], 1)
				}
			}
			require.Less(t, heap()-before, int64(20<<20), "100 requests are 100 MiB")
			require.True(t, l.Allow(t.Context(), "000000001"), "l is in use until here")
		})
	}
}
