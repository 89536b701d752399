package peers

import (
	"context"
	"math"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
)

var throttledGCRA = Peer{
	Name: "throttled", Clock: "system", Module: "github.com/throttled/throttled/v2", Bytes: 330,
	Keeps: "GCRA by compare-and-swap; a map and list of least recent use behind one mutex",
	Lacks: "eviction of idle keys: a table is full, or grows; twice the limit within a window; gives up with an error after ten lost swaps, which counts as a denial here",
	New: func(q Quota) Table {
		quota := throttled.RateQuota{MaxRate: throttled.PerDuration(1, q.refill()), MaxBurst: int(q.Count) - 1}
		if q.plenty() {
			// It keeps the time at which all units are back, which must be before the
			// year 2262. One unit is back twelve minutes after a key's first call.
			quota = throttled.RateQuota{MaxRate: throttled.PerDuration(1, 12*time.Minute), MaxBurst: 9_900_000}
		}
		// The table is so large that no key is evicted. It allocates nothing in advance.
		l := must(throttled.NewGCRARateLimiterCtx(must(memstore.NewCtx(math.MaxInt32)), quota))
		ctx := context.Background()
		take := func(key string) bool {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return err == nil && !limited
		}
		return Table{
			Allow: take, Take: take,
			Compose: func(first, second string) bool { return take(first + second) },
			Exhaust: func(key string) {
				_, state, _ := l.RateLimitCtx(ctx, key, 0)
				l.RateLimitCtx(ctx, key, state.Remaining)
			},
			Close: func() {},
		}
	},
}
