package clienttest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// connect returns a connection to the server at addr by a client, "rueidis" or "go-redis".
func connect(b *testing.B, client, network, addr string) sashredis.Conn {
	if client == "go-redis" {
		c := redis.NewClient(&redis.Options{Network: network, Addr: addr, ContextTimeoutEnabled: true})
		b.Cleanup(func() { _ = c.Close() })
		return goredisconn.New(c)
	}
	options := rueidis.MustParseURL(map[string]string{"unix": "unix://" + addr, "tcp": "redis://" + addr}[network])
	options.DisableCache = true
	options.ForceSingleClient = true
	c, err := rueidis.NewClient(options)
	require.NoError(b, err)
	b.Cleanup(c.Close)
	return rueidisconn.New(c)
}

// benchmarked returns a limiter for a benchmark. No call may be one of the fallback.
func benchmarked(b *testing.B, conn sashredis.Conn, limit sash.Limit, options ...sashredis.Option) *sashredis.Limiter {
	l, err := sashredis.New(conn, []sash.Limit{limit},
		append(options, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(10*time.Second))...)
	require.NoError(b, err)
	b.Cleanup(func() {
		require.NoError(b, l.Close())
		require.Zero(b, l.Stats().Fallback)
	})
	return l
}

// takeEach calls for keys by that many callers, which share the calls that b wants.
func takeEach(b *testing.B, l *sashredis.Limiter, callers int, keys []string, allowed bool) {
	ctx := context.Background()
	var wrong atomic.Int64
	var done sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for caller := range callers {
		done.Go(func() {
			for i := caller; i < b.N; i += callers {
				if l.Take(ctx, keys[i%len(keys)], 1).Allowed != allowed {
					wrong.Add(1)
				}
			}
		})
	}
	done.Wait()
	b.StopTimer()
	require.Zero(b, wrong.Load())
}

// named returns that many keys.
func named(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	return keys
}

var (
	limitsOfMany = []sash.Limit{
		{Count: 1 << 40, Window: 24 * time.Hour},
		{Algorithm: sash.SlidingLog, Count: 1 << 40, Window: 24 * time.Hour},
		{Algorithm: sash.TokenBucket, Count: 1 << 40, Burst: 1 << 40, Window: 24 * time.Hour},
		{Algorithm: sash.SlidingParts, Count: 1 << 40, Window: 24 * time.Hour},
	}
	ofOne = sash.Limit{Count: 1, Window: 24 * time.Hour}
)

// BenchmarkMirror measures denials by the mirror.
func BenchmarkMirror(b *testing.B) {
	for _, limit := range []sash.Limit{
		ofOne,
		{Algorithm: sash.SlidingLog, Count: 1, Window: 24 * time.Hour},
		{Algorithm: sash.SlidingBuckets, Count: 1, Window: 24 * time.Hour, Precision: time.Hour},
		{Algorithm: sash.TokenBucket, Count: 1, Burst: 1, Window: 24 * time.Hour},
		{Algorithm: sash.SlidingParts, Count: 1, Window: 24 * time.Hour},
	} {
		for _, n := range []int{1, 1000} {
			b.Run(label(limit)+"/keys="+strconv.Itoa(n), func(b *testing.B) {
				l := benchmarked(b, connect(b, "go-redis", "tcp", miniredis.RunT(b).Addr()), limit)
				keys := named(n)
				for _, key := range keys {
					require.True(b, l.Allow(b.Context(), key))
					require.False(b, l.Allow(b.Context(), key))
				}
				trips := l.Stats().RoundTrips
				takeEach(b, l, 1, keys, false)
				require.Equal(b, trips, l.Stats().RoundTrips)
			})
		}
	}
}

// BenchmarkWithLimits measures what it takes to get the limiter of limits that are known.
func BenchmarkWithLimits(b *testing.B) {
	l := benchmarked(b, connect(b, "go-redis", "tcp", miniredis.RunT(b).Addr()), ofOne)
	for _, limits := range [][]sash.Limit{{sash.PerMinute(600)}, {sash.PerMinute(600), sash.PerDay(100_000)}} {
		b.Run("limits="+strconv.Itoa(len(limits)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.WithLimits(limits...)
			}
		})
	}
}

// BenchmarkLease measures calls on leased units, with those that lease them.
func BenchmarkLease(b *testing.B) {
	for _, limit := range []sash.Limit{limitsOfMany[0], limitsOfMany[2]} {
		for _, callers := range []int{1, 2} {
			b.Run(label(limit)+"/callers="+strconv.Itoa(callers), func(b *testing.B) {
				conn := connect(b, "rueidis", "unix", redistest.Start(b).Addr())
				l := benchmarked(b, conn, limit, sashredis.WithLease(1<<20, time.Second))
				takeEach(b, l, callers, []string{"hot"}, true)
				b.ReportMetric(float64(l.Stats().RoundTrips)/float64(b.N), "trips/op")
			})
		}
	}
}

// BenchmarkTake measures calls that the store decides.
func BenchmarkTake(b *testing.B) {
	for _, store := range []string{"miniredis", "server"} {
		for _, client := range []string{"rueidis", "go-redis"} {
			if store == "miniredis" && client == "rueidis" {
				continue // what it shows is miniredis
			}
			for _, limit := range limitsOfMany {
				for _, n := range []int{1, 10_000} {
					if n == 1 && limit.Algorithm == sash.SlidingLog {
						continue // the log grows, as long as the benchmark runs
					}
					for _, callers := range []int{1, 256} {
						name := strings.Join([]string{"store=" + store, "client=" + client, label(limit), "keys=" + strconv.Itoa(n), "callers=" + strconv.Itoa(callers)}, "/")
						b.Run(name, func(b *testing.B) { benchmarkTake(b, store, client, limit, n, callers) })
					}
				}
			}
		}
	}
}

func benchmarkTake(b *testing.B, store, client string, limit sash.Limit, keys, callers int) {
	var conn sashredis.Conn
	if store == "miniredis" {
		conn = connect(b, client, "tcp", miniredis.RunT(b).Addr())
	} else {
		conn = connect(b, client, "unix", redistest.Start(b).Addr())
	}
	l := benchmarked(b, conn, limit)
	require.True(b, l.Allow(b.Context(), "warm"))
	takeEach(b, l, callers, named(keys), true)
	b.ReportMetric(float64(l.Stats().RoundTrips)/float64(b.N), "trips/op")
}

// label returns the name of a limit's algorithm in the name of a benchmark.
func label(limit sash.Limit) string { return "algorithm=" + limit.Algorithm.String() }
