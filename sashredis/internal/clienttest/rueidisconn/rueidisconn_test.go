package rueidisconn_test

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/conntest"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// network returns the network of addr.
func network(addr string) string {
	if strings.HasPrefix(addr, "/") {
		return "unix"
	}
	return "tcp"
}

// dial returns a function that connects to a single server, or to the cluster that it is of.
func dial(o rueidis.ClientOption) conntest.Dial {
	return func(t testing.TB, addr string) (sashredis.Conn, func()) {
		o := o
		o.InitAddress, o.ConnWriteTimeout = []string{addr}, conntest.Patience
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, network(addr), addr)
		}
		client, err := rueidis.NewClient(o)
		require.NoError(t, err)
		return rueidisconn.New(client), client.Close
	}
}

func TestConn_ClientWithDefaults(t *testing.T) { conntest.Single(t, dial(rueidis.ClientOption{})) }

func TestConn_ClientThatAlwaysPipelines(t *testing.T) {
	conntest.Single(t, dial(rueidis.ClientOption{AlwaysPipelining: true, DisableCache: true}))
}

func TestConn_ClientThatNeverPipelines(t *testing.T) {
	conntest.Single(t, dial(rueidis.ClientOption{DisableAutoPipelining: true}))
}

func TestConn_Miniredis(t *testing.T) {
	conntest.Replies(t, dial(rueidis.ClientOption{DisableCache: true}), miniredis.RunT(t).Addr())
}

func TestConn_Cluster(t *testing.T) {
	conntest.Cluster(t, dial(rueidis.ClientOption{ShuffleInit: true}))
}

func TestConn_ClusterOfOne(t *testing.T) {
	conntest.SingleNode(t, func(t testing.TB, addr string) (sashredis.Conn, func()) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{addr}, ConnWriteTimeout: conntest.Patience,
			DialCtxFn: func(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				return d.DialContext(ctx, network(addr), addr)
			},
		})
		require.NoError(t, err)
		require.Equal(t, rueidis.ClientModeCluster, client.Mode())
		return rueidisconn.New(client), client.Close
	})
}

func BenchmarkRun(b *testing.B) {
	s := redistest.Start(b)
	conn, closeClient := dial(rueidis.ClientOption{})(b, s.Addr())
	defer closeClient()
	conntest.Benchmark(b, conn)
}

func TestRun_Allocations(t *testing.T) {
	conn, closeClient := dial(rueidis.ClientOption{})(t, redistest.Start(t).Addr())
	defer closeClient()
	forever, deadline := conntest.Allocations(t, conn)
	require.LessOrEqual(t, forever, 3.0)
	require.LessOrEqual(t, deadline, 5.0)
}
