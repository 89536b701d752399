// Package worker calls a partner's API from many machines, at a rate that they share in Redis: with redis_rate, and
// with sashredis.
package worker

import (
	"context"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"
)

// A Before lets each customer of the partner have 10 calls a second.
type Before struct {
	shared *redis_rate.Limiter
	local  *rate.Limiter // while Redis does not answer
}

// NewBefore returns a Before that shares its counts by this client.
func NewBefore(client redis.UniversalClient) *Before {
	return &Before{redis_rate.NewLimiter(client), rate.NewLimiter(10, 10)}
}

// Wait returns when a call for a customer may be made, or with the error of ctx.
func (b *Before) Wait(ctx context.Context, customer string) error {
	for {
		result, err := b.shared.Allow(ctx, customer, redis_rate.PerSecond(10))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return b.local.Wait(ctx)
		case result.Allowed > 0:
			return nil
		}
		timer := time.NewTimer(result.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}
