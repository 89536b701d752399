package grpclimit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// dialBuffer serves e on a connection in memory, which works in a bubble of synctest.
func dialBuffer(t *testing.T, e *echo, options ...grpc.ServerOption) *grpc.ClientConn {
	buffer := bufconn.Listen(1 << 16)
	serveOn(t, buffer, e, options...)
	return dial(t, "passthrough:///buffer", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return buffer.DialContext(ctx)
	}))
}

// Every third client gives up while its call waits. All goroutines of a bubble end, or the test
// fails.
func TestServer_ServesQueuedCallsInOrderAndNoneWhoseClientHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := everyone("all", sash.PerSecond(1).Log())
		p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 100}
		l, clock := limiter(t, p, httplimit.WithSweepInterval(-1))
		var served []string
		conn := dialBuffer(t, &echo{say: func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			served = append(served, md["call"]...)
			return m, nil
		}}, limited(l)...)
		call := func(ctx context.Context, i int) error {
			return say(metadata.AppendToOutgoingContext(ctx, "call", fmt.Sprint(i)), conn)
		}
		require.NoError(t, call(t.Context(), 0))

		var calls sync.WaitGroup
		var want []string
		var leave []context.CancelFunc
		for i := 1; i <= 30; i++ {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code := codes.OK
			if i%3 == 0 {
				code, leave = codes.Canceled, append(leave, cancel)
			} else {
				want = append(want, fmt.Sprint(i))
			}
			calls.Go(func() { require.Equal(t, code, status.Code(call(ctx, i))) })
			synctest.Wait() // it waits
		}
		require.Equal(t, []string{"0"}, served)
		for _, cancel := range leave {
			cancel()
		}
		synctest.Wait()
		served = nil
		for i := range want {
			clock.Advance(time.Second)
			synctest.Wait()
			require.Equal(t, want[:i+1], served)
		}
		calls.Wait()
		clock.Advance(time.Second)
		require.NoError(t, call(t.Context(), 0), "none waits any more, and none that has gone was charged")
	})
}
