package orders

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
)

func get(h http.Handler, address string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", "/orders", nil)
	r.RemoteAddr = address + ":1000"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// services returns both services, as they are on two machines.
func services(t *testing.T, client *redis.Client) map[string][2]http.Handler {
	all := map[string][2]http.Handler{}
	var before, after [2]http.Handler
	for i := range 2 {
		b, err := Before(client)
		require.NoError(t, err)
		a, limiter, err := After(client)
		require.NoError(t, err)
		t.Cleanup(func() { limiter.Close() })
		before[i], after[i] = b, a
	}
	all["before"], all["after"] = before, after
	return all
}

func newClient(t *testing.T, server *redistest.Server) *redis.Client {
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOrders_ShareTheirCounts(t *testing.T) {
	for name, machines := range services(t, newClient(t, redistest.Start(t))) {
		t.Run(name, func(t *testing.T) {
			for i, remaining := range []string{"2", "1", "0"} {
				w := get(machines[i%2], "192.0.2.1")
				require.Equal(t, 200, w.Code)
				require.Equal(t, "3", w.Header().Get("X-RateLimit-Limit"))
				require.Equal(t, remaining, w.Header().Get("X-RateLimit-Remaining"))
				require.Len(t, w.Header().Get("X-RateLimit-Reset"), len("1800000000"), "a time")
			}
			require.Equal(t, 429, get(machines[1], "192.0.2.1").Code)
			require.Equal(t, 200, get(machines[1], "192.0.2.2").Code)
		})
	}
}

// What was missing: without Redis, each request fails.
func TestOrders_AreTakenWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	all := services(t, newClient(t, server))
	server.Kill()
	require.Equal(t, 200, get(all["after"][0], "192.0.2.1").Code)
	require.Panics(t, func() { get(all["before"][0], "192.0.2.1") })
}
