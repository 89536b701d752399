package migrating_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/seed-30da4c49/sash"
)

// newThrottled returns a limiter of throttled with the time of now.
func newThrottled(t *testing.T, maxKeys int, quota throttled.RateQuota, now func() time.Time) *throttled.GCRARateLimiterCtx {
	store, err := memstore.New(maxKeys)
	require.NoError(t, err)
	store.SetTimeNow(now)
	lim, err := throttled.NewGCRARateLimiterCtx(throttled.WrapStoreWithContext(store), quota)
	require.NoError(t, err)
	return lim
}

func throttledAdmits(t *testing.T, lim *throttled.GCRARateLimiterCtx, key string, n int) int {
	return admits(n, func() bool {
		limited, _, err := lim.RateLimitCtx(t.Context(), key, 1)
		require.NoError(t, err)
		return !limited
	})
}

// A busyStore is one in which another call has always been first.
type busyStore struct{ throttled.GCRAStoreCtx }

func (busyStore) CompareAndSwapWithTTL(context.Context, string, int64, int64, time.Duration) (bool, error) {
	return false, nil
}

func (busyStore) SetIfNotExistsWithTTL(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

var throttledPeer = peer{
	name: "throttled",
	rows: []row{
		{
			have: "`throttled.RateQuota{MaxRate: throttled.PerMin(60), MaxBurst: 5}`", use: "`sash.PerMinute(60).TokenBucket(6)`",
			changes: "the same is admitted: a Burst counts its first unit, too",
			check: func(t *testing.T) {
				l := newSash(t, sash.PerMinute(60).TokenBucket(6))
				lim := newThrottled(t, 0, throttled.RateQuota{MaxRate: throttled.PerMin(60), MaxBurst: 5}, l.now)
				random, denied := rand.New(rand.NewPCG(1, 1)), 0
				for range 2000 {
					l.clock.Advance(time.Duration(random.Int64N(3e9)))
					n := 1 + random.IntN(4)
					limited, _, err := lim.RateLimitCtx(t.Context(), "a", n)
					require.NoError(t, err)
					require.Equal(t, !limited, l.AllowN("a", int64(n)))
					if limited {
						denied++
					}
				}
				require.Greater(t, denied, 200)
			},
		},
		{
			have: "`limited, r, err := lim.RateLimitCtx(ctx, key, n)`", use: "`d := l.Take(key, n)`, `!d.Allowed`", changes: "no error; `RetryAfter` is 0 if the call is admitted, and `sash.Never` if n exceeds the Burst: both are -1 there",
			check: func(t *testing.T) {
				l := newSash(t, sash.PerMinute(60).TokenBucket(6))
				lim := newThrottled(t, 0, throttled.RateQuota{MaxRate: throttled.PerMin(60), MaxBurst: 5}, l.now)
				for _, c := range []struct {
					n            int
					theirs, sash time.Duration
				}{{7, -1, sash.Never}, {5, -1, 0}, {3, 2 * time.Second, 2 * time.Second}} {
					limited, r, err := lim.RateLimitCtx(t.Context(), "a", c.n)
					require.NoError(t, err)
					d := l.Take("a", int64(c.n))
					require.Equal(t, []any{!limited, int64(r.Remaining), r.ResetAfter}, []any{d.Allowed, d.Remaining, d.ResetAfter})
					require.Equal(t, []time.Duration{c.theirs, c.sash}, []time.Duration{r.RetryAfter, d.RetryAfter})
				}
			},
		},
		{
			have: "`lim.RateLimitCtx(ctx, key, 0)`", use: "`d := l.Peek(key, 1)`", changes: "`d.Allowed` is what `Take` would answer; there, a look is never limited",
			check: func(t *testing.T) {
				l := newSash(t, sash.PerHour(1).TokenBucket(1))
				lim := newThrottled(t, 0, throttled.RateQuota{MaxRate: throttled.PerHour(1)}, l.now)
				require.Equal(t, []int{1, 1}, []int{throttledAdmits(t, lim, "a", 9), l.admits("a", 9)})
				limited, r, err := lim.RateLimitCtx(t.Context(), "a", 0)
				require.NoError(t, err)
				d := l.Peek("a", 1)
				require.False(t, limited)
				require.False(t, d.Allowed)
				require.Equal(t, r.RetryAfter, d.RetryAfter)
			},
		},
		{
			have: "`memstore.NewCtx(65536)`, an LRU", use: "`sash.WithMaxKeys(65536, sash.EvictLeastUsed)`", changes: "a flood of new keys does not free those that are held at their limit",
			check: func(t *testing.T) {
				l := newSash(t, sash.PerHour(5).TokenBucket(5), sash.WithMaxKeys(100, sash.EvictLeastUsed))
				lim := newThrottled(t, 100, throttled.RateQuota{MaxRate: throttled.PerHour(5), MaxBurst: 4}, l.now)
				require.Equal(t, []int{5, 5}, []int{throttledAdmits(t, lim, "a", 9), l.admits("a", 9)})
				for i := range 1000 {
					throttledAdmits(t, lim, fmt.Sprint(i), 1)
					l.admits(fmt.Sprint(i), 1)
				}
				require.Equal(t, []int{5, 0}, []int{throttledAdmits(t, lim, "a", 9), l.admits("a", 9)})
				require.LessOrEqual(t, l.Len(), 100)
			},
		},
	},
	breaks: []fault{
		{
			says: "A call that loses ten compare-and-swaps to others returns an error",
			check: func(t *testing.T) {
				store, err := memstore.NewCtx(0)
				require.NoError(t, err)
				lim, err := throttled.NewGCRARateLimiterCtx(busyStore{store}, throttled.RateQuota{MaxRate: throttled.PerHour(5), MaxBurst: 4})
				require.NoError(t, err)
				_, _, err = lim.RateLimitCtx(t.Context(), "a", 1)
				require.ErrorContains(t, err, "after 10 attempts")
			},
		},
	},
}
