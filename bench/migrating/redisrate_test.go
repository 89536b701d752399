package migrating_test

import (
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
)

// newRedis returns both limiters on a server, or on a proxy of it. Its time cannot be set, so windows are long.
func newRedis(t *testing.T, network, address string) (*redis_rate.Limiter, *sashredis.Limiter) {
	client := redis.NewClient(&redis.Options{Network: network, Addr: address, MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	l, err := sashredis.New(goredisconn.New(client), []sash.Limit{sash.PerSecond(0)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 1)))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return redis_rate.NewLimiter(client), l
}

// onRedis is a check of both on a server of its own.
func onRedis(check func(*testing.T, *redis_rate.Limiter, *sashredis.Limiter)) func(*testing.T) {
	return func(t *testing.T) {
		server := redistest.Start(t)
		theirs, l := newRedis(t, server.Network(), server.Addr())
		check(t, theirs, l)
	}
}

var (
	tenAnHour     = redis_rate.PerHour(10)
	tenAnHourSash = sash.PerHour(10).TokenBucket(10)
)

var redisRate = peer{
	name: "redis_rate",
	rows: []row{
		{
			have: "`redis_rate.NewLimiter(client)`", use: "`sashredis.New(goredisconn.New(client), []sash.Limit{sash.PerSecond(0)}, sashredis.WithFallback(…))`",
			changes: "a call that brings no limit is denied; without Redis, the fallback decides",
			check: onRedis(func(t *testing.T, theirs *redis_rate.Limiter, l *sashredis.Limiter) {
				require.False(t, l.Allow(t.Context(), "a"))
				require.True(t, l.TakeLimits(t.Context(), "a", 1, tenAnHourSash).Allowed)
			}),
		},
		{
			have: "`redis_rate.PerHour(10)`", use: "`sash.PerHour(10).TokenBucket(10)`", changes: "the same; `sash.PerHour(10).Log()` admits 10 in any hour, and a bucket nearly 20",
			check: onRedis(func(t *testing.T, theirs *redis_rate.Limiter, l *sashredis.Limiter) {
				for i := range 15 {
					res, err := theirs.Allow(t.Context(), "a", tenAnHour)
					require.NoError(t, err)
					require.Equal(t, i < 10, res.Allowed == 1)
					require.Equal(t, i < 10, l.TakeLimits(t.Context(), "a", 1, tenAnHourSash).Allowed)
				}
				for limit, want := range map[sash.Limit]int{tenAnHourSash: 19, sash.PerHour(10).Log(): 10} {
					m, n := newSash(t, limit), 0
					for range 60 {
						n += m.admits("a", 20)
						m.clock.Advance(time.Minute)
					}
					require.Equal(t, want, n)
				}
			}),
		},
		{
			have: "`res, err := limiter.AllowN(ctx, key, limit, n)`, `res.Allowed > 0`", use: "`d := l.TakeLimits(ctx, key, n, limit)`, `d.Allowed`", changes: "all or nothing, too; an admitted call has a `RetryAfter` of 0, and not -1, and a denied one a `Remaining`, and not 0",
			check: onRedis(func(t *testing.T, theirs *redis_rate.Limiter, l *sashredis.Limiter) {
				for _, n := range []int{7, 4, 3} {
					res, err := theirs.AllowN(t.Context(), "a", tenAnHour, n)
					require.NoError(t, err)
					d := l.TakeLimits(t.Context(), "a", int64(n), tenAnHourSash)
					require.Equal(t, res.Allowed > 0, d.Allowed)
					if d.Allowed {
						require.Equal(t, int64(res.Remaining), d.Remaining)
						require.Equal(t, time.Duration(-1), res.RetryAfter)
						require.Zero(t, d.RetryAfter)
					} else {
						require.Zero(t, res.Remaining)
						require.Equal(t, int64(3), d.Remaining)
						require.InDelta(t, res.RetryAfter.Minutes(), d.RetryAfter.Minutes(), 1)
					}
					require.InDelta(t, res.ResetAfter.Minutes(), d.ResetAfter.Minutes(), 1)
				}
			}),
		},
		{
			have: "`limiter.AllowAtMost(ctx, key, limit, 5)`", use: "`taken, d := l.WithLimits(limit).TakeUpTo(ctx, key, 5)`", changes: "the same; in one process, `l.TakeUpTo(key, 5)` of a `sash.Limiter`",
			check: onRedis(func(t *testing.T, theirs *redis_rate.Limiter, l *sashredis.Limiter) {
				m := newSash(t, tenAnHourSash)
				for _, want := range []int{4, 4, 2, 0} {
					res, err := theirs.AllowAtMost(t.Context(), "a", tenAnHour, 4)
					require.NoError(t, err)
					taken, d := l.WithLimits(tenAnHourSash).TakeUpTo(t.Context(), "a", 4)
					require.NoError(t, d.Err)
					here, _ := m.TakeUpTo("a", 4)
					require.Equal(t, []int{want, want, want}, []int{res.Allowed, int(taken), int(here)})
				}
			}),
		},
		{
			have: "`err`, if Redis does not answer", use: "`d.Err`", changes: "the fallback has decided: `d.Allowed` holds",
			check: func(t *testing.T) {
				server := redistest.Start(t)
				theirs, l := newRedis(t, server.Network(), server.Addr())
				server.Kill()
				_, err := theirs.Allow(t.Context(), "a", tenAnHour)
				require.Error(t, err)
				for i := range 15 {
					d := l.TakeLimits(t.Context(), "a", 1, tenAnHourSash)
					require.Error(t, d.Err)
					require.Equal(t, i < 10, d.Allowed)
				}
			},
		},
	},
	breaks: []fault{
		{
			says: "Each denied call asks Redis; here, a denial that is certain is told in the process",
			check: func(t *testing.T) {
				server := redistest.Start(t)
				proxy := redistest.StartProxy(t, server.Addr())
				theirs, l := newRedis(t, proxy.Network(), proxy.Addr())
				deny := func(call func()) int64 {
					call() // which takes all
					call()
					before := proxy.Counts().Requests
					for range 100 {
						call()
					}
					return proxy.Counts().Requests - before
				}
				require.Equal(t, int64(100), deny(func() {
					_, err := theirs.AllowN(t.Context(), "a", tenAnHour, 10)
					require.NoError(t, err)
				}))
				require.Zero(t, deny(func() { l.TakeLimits(t.Context(), "a", 10, tenAnHourSash) }))
			},
		},
	},
}
