package peers

import (
	"context"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

var ulule = Peer{
	Name: "ulule", Clock: "system", Module: "github.com/ulule/limiter/v3", Bytes: 270, Sweeps: true,
	Keeps: "fixed window from a key's first call; a sync.Map, a RWMutex for each key",
	Lacks: "up to twice the limit in a window; denied calls are counted, unasked; a sweep forgets what is charged meanwhile; two allocations a call",
	New: func(q Quota) Table {
		options := limiter.StoreOptions{Prefix: limiter.DefaultPrefix, CleanUpInterval: limiter.DefaultCleanUpInterval}
		if q.Sweep > 0 {
			options.CleanUpInterval = q.Sweep
		}
		l := limiter.New(memory.NewStoreWithOptions(options), limiter.Rate{Period: q.Window, Limit: q.Count})
		ctx := context.Background()
		take := func(key string) bool {
			c, err := l.Get(ctx, key)
			return err == nil && !c.Reached
		}
		return Table{
			Allow: take, Take: take,
			Compose: func(first, second string) bool { return take(first + second) },
			Exhaust: func(key string) { l.Increment(ctx, key, q.Count) },
			Close:   func() {}, // its goroutine ends when it is garbage
		}
	},
}
