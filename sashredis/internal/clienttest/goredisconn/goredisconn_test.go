package goredisconn_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
	"github.com/seed-30da4c49/sash/sashredis/internal/conntest"
)

// network returns the network of addr.
func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial returns a function that connects to a single server.
func dial(o redis.Options) conntest.Dial {
	return func(t testing.TB, addr string) (sashredis.Conn, func()) {
		o := o
		o.Network, o.Addr = network(addr), addr
		o.ReadTimeout, o.WriteTimeout = conntest.Patience, conntest.Patience
		client := redis.NewClient(&o)
		return goredisconn.New(client), func() { client.Close() }
	}
}

func TestConn_ClientWithDefaults(t *testing.T) { conntest.Single(t, dial(redis.Options{})) }

func TestConn_ClientWithContextTimeout(t *testing.T) {
	conntest.Single(t, dial(redis.Options{ContextTimeoutEnabled: true}))
}

func TestConn_Ring(t *testing.T) {
	conntest.Single(t, func(t testing.TB, addr string) (sashredis.Conn, func()) {
		client := redis.NewRing(&redis.RingOptions{
			Addrs: map[string]string{"a": addr}, HeartbeatFrequency: time.Hour, ReadTimeout: conntest.Patience, WriteTimeout: conntest.Patience,
		})
		return goredisconn.New(client), func() { client.Close() }
	})
}

func TestConn_Miniredis(t *testing.T) {
	conntest.Replies(t, dial(redis.Options{}), miniredis.RunT(t).Addr())
}

func TestConn_Cluster(t *testing.T) {
	conntest.Cluster(t, func(t testing.TB, addr string) (sashredis.Conn, func()) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ReadTimeout: conntest.Patience, WriteTimeout: conntest.Patience})
		return goredisconn.New(client), func() { client.Close() }
	})
}

func TestConn_ClusterOfOne(t *testing.T) {
	conntest.SingleNode(t, func(t testing.TB, addr string) (sashredis.Conn, func()) {
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{addr}, ReadTimeout: conntest.Patience, WriteTimeout: conntest.Patience,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, network(addr), addr)
			},
		})
		return goredisconn.New(client), func() { client.Close() }
	})
}

func TestConn_RingRefusesKeysOfSeveralTags(t *testing.T) {
	a, b := miniredis.RunT(t), miniredis.RunT(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	defer client.Close()
	conn := goredisconn.New(client)
	s := bridge.Of[sashredis.Limiter, sashredis.Option, sashredis.Script]().Script("return redis.call('INCR', KEYS[1]) .. ''")
	for _, keys := range [][]string{{"a", "b"}, {"{a}", "b"}, {"{a}1", "{a}2", "{b}1"}, {"{}a", "{}b"}, {"{a", "{a}"}} {
		_, err := conn.Run(context.Background(), s, keys, nil)
		assert.ErrorContains(t, err, "CROSSSLOT", "%q", keys)
	}
	for _, keys := range [][]string{{"a"}, {"b", "b"}, {"b", "{b}"}, {"x{a}1", "{a}2{c}", "{a}3"}} {
		_, err := conn.Run(context.Background(), s, keys, nil)
		assert.NoError(t, err, "%q", keys)
	}
}

func BenchmarkRun(b *testing.B) {
	s := redistest.Start(b)
	conn, closeClient := dial(redis.Options{ContextTimeoutEnabled: true})(b, s.Addr())
	defer closeClient()
	conntest.Benchmark(b, conn)
}

func TestRun_Allocations(t *testing.T) {
	conn, closeClient := dial(redis.Options{})(t, redistest.Start(t).Addr())
	defer closeClient()
	forever, deadline := conntest.Allocations(t, conn)
	require.LessOrEqual(t, forever, 11.0)
	require.LessOrEqual(t, deadline, 13.0)
}

// A server is so far away that a call ends before a connection is made. The connection is there for
// the calls after it.
func TestConn_ReachesADistantServer(t *testing.T) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr())
	proxy.SetDelay(70 * time.Millisecond)
	client := redis.NewClient(&redis.Options{Network: proxy.Network(), Addr: proxy.Addr(), ContextTimeoutEnabled: true})
	defer client.Close()
	l, err := sashredis.New(goredisconn.New(client), []sash.Limit{sash.PerHour(1_000_000)},
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(200*time.Millisecond), sashredis.WithBreaker(5, time.Millisecond))
	require.NoError(t, err)
	defer l.Close()
	for l.Take(t.Context(), "k", 1).By != sashredis.ByStore {
		require.Less(t, l.Stats().Failures, int64(200), "each of them has thrown its connection away")
	}
}
