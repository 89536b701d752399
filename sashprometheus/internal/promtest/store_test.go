package promtest

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashprometheus"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A storeConn stands for a connection to a store that admits each call of one unit. With an err, it does not
// answer.
type storeConn struct {
	took time.Duration
	err  error
}

func (c *storeConn) Run(_ context.Context, _ *sashredis.Script, _, _ []string) (string, error) {
	time.Sleep(c.took) // of the bubble
	return fmt.Sprintf("%d|1|0 0||0 0 0", time.Now().UnixMicro()), c.err
}

func TestStoreCollector_TellsWhatTheLimiterDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &storeConn{took: 3 * time.Millisecond}
		limiter, err := sashredis.New(conn, []sash.Limit{sash.PerMinute(100).Counter()}, sashredis.WithFallback(sashredis.FallbackAdmit),
			sashredis.WithBreaker(2, time.Hour))
		require.NoError(t, err)
		defer limiter.Close()
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(sashprometheus.StoreCollector("api", limiter)))
		page := func() string {
			w := httptest.NewRecorder()
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return values(w.Body.String())
		}
		require.Empty(t, page())

		for range 2 {
			limiter.Take(t.Context(), "k", 1)
		}
		limiter.Take(t.Context(), "k", 1000)    // which the mirror denies
		limiter.TakeLimits(t.Context(), "k", 1) // without limits
		conn.took, conn.err = 2*time.Second, errors.New("the store is away")
		for range 3 {
			limiter.Take(t.Context(), "k", 1)
		}
		require.Equal(t, `sash_store_breaker_open 1
sash_store_breaker_openings_total 1
sash_store_decisions_total{by="fallback",limiter="api"} 3
sash_store_decisions_total{by="mirror",limiter="api"} 1
sash_store_decisions_total{by="store",limiter="api"} 2
sash_store_invalid_calls_total 1
sash_store_round_trip_failures_total 2
sash_store_round_trip_seconds_bucket{le="0.005"} 2
sash_store_round_trip_seconds_bucket{le="0.01"} 2
sash_store_round_trip_seconds_bucket{le="0.025"} 2
sash_store_round_trip_seconds_bucket{le="0.05"} 2
sash_store_round_trip_seconds_bucket{le="0.1"} 2
sash_store_round_trip_seconds_bucket{le="0.25"} 2
sash_store_round_trip_seconds_bucket{le="0.5"} 2
sash_store_round_trip_seconds_bucket{le="1"} 2
sash_store_round_trip_seconds_bucket{le="+Inf"} 4
sash_store_round_trip_seconds_sum 4.006
sash_store_round_trip_seconds_count 4
sash_store_round_trips_total 4
`, page())
		problems, err := testutil.GatherAndLint(registry)
		require.NoError(t, err)
		require.Empty(t, problems)
	})
}

func TestStoreCollector_NeedsANameOfItsOwn(t *testing.T) {
	limiter, err := sashredis.New(&storeConn{}, []sash.Limit{sash.PerMinute(1)}, sashredis.WithFallback(sashredis.FallbackDeny))
	require.NoError(t, err)
	registry := prometheus.NewRegistry()
	require.ErrorContains(t, registry.Register(sashprometheus.StoreCollector("", limiter)), "StoreCollector needs a name for the limiter")
	require.NoError(t, registry.Register(sashprometheus.StoreCollector("api", limiter)))
	require.ErrorAs(t, registry.Register(sashprometheus.StoreCollector("api", limiter)), new(prometheus.AlreadyRegisteredError))
	require.NoError(t, registry.Register(sashprometheus.StoreCollector("jobs", limiter)))
	require.NoError(t, newSite(t).registry.Register(sashprometheus.StoreCollector("api", limiter)), "Metrics may have the name, too")
}
