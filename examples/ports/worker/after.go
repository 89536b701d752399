package worker

import (
	"github.com/redis/go-redis/v9"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
)

// NewAfter returns a limiter whose Wait(ctx, customer, 1) returns when a call for a customer may be made. Close it
// when the worker ends.
func NewAfter(client redis.UniversalClient) (*sashredis.Limiter, error) {
	return sashredis.New(goredisconn.New(client), []sash.Limit{sash.PerSecond(10).TokenBucket(10)},
		sashredis.WithFallback(sashredis.FallbackLocal(1, 1)))
}
