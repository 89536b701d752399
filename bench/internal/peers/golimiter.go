package peers

import (
	"context"

	"github.com/sethvargo/go-limiter/memorystore"
)

var goLimiter = Peer{
	Name: "go-limiter", Clock: "system", Module: "github.com/sethvargo/go-limiter", Bytes: 180, Sweeps: true,
	Keeps: "fixed window from a key's first call; one map behind a RWMutex, a mutex for each key",
	Lacks: "up to twice the limit in a window; a cost of 1 only; a sweep locks out all calls, and forgets what is charged meanwhile",
	New: func(q Quota) Table {
		config := &memorystore.Config{Tokens: uint64(q.Count), Interval: q.Window}
		if q.Sweep > 0 {
			config.SweepInterval, config.SweepMinTTL = q.Sweep, 2*q.Window
		}
		s := must(memorystore.New(config))
		ctx := context.Background()
		take := func(key string) bool {
			_, _, _, ok, _ := s.Take(ctx, key)
			return ok
		}
		return Table{
			Allow: take, Take: take,
			Compose: func(first, second string) bool { return take(first + second) },
			Exhaust: func(key string) {
				_, left, _ := s.Get(ctx, key)
				s.Burst(ctx, key, -left) // adds -left, which is meant to wrap
			},
			// Its Close empties the map key by key, so nothing waits for it.
			Close: func() { go s.Close(ctx) },
		}
	},
}
