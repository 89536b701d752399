package grpclimit

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

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

func TestServer_RefusesACallAtOnceWhoseDeadlineComesBeforeItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := everyone("all", sash.Per(1, 10*time.Second).Log())
		p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 100}
		l, _ := limiter(t, p, httplimit.WithSweepInterval(-1))
		conn := dialBuffer(t, &echo{}, limited(l)...)
		require.NoError(t, say(t.Context(), conn))
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		err := say(ctx, conn)
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		wait, _ := retryDelay(err)
		require.Equal(t, 10*time.Second, wait)
		require.Equal(t, start, time.Now(), "at once")
	})
}

// A handler receives and sends at the same time. A message that it has received waits, and one
// that it sends is denied.
func TestStream_LeavesTheQueueWhenItsOtherDirectionIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := everyone("received", sash.PerMinute(1).Log())
		waits.Queue = httplimit.Queue{Wait: time.Hour, Requests: 100}
		received, clock := limiter(t, waits, httplimit.WithSweepInterval(-1))
		sent, _ := limiter(t, everyone("sent", sash.PerMinute(1).Log()), httplimit.WithSweepInterval(-1))
		calls, _ := limiter(t, everyone("calls", sash.PerMinute(10).Log()), httplimit.WithSweepInterval(-1))
		got := make(chan error, 1)
		conn := dialBuffer(t, &echo{chat: func(stream grpc.ServerStream) error {
			if err := chats1(stream); err != nil {
				return err
			}
			go func() { got <- stream.RecvMsg(new(wrapperspb.BytesValue)) }()
			synctest.Wait() // it waits
			err := stream.SendMsg(message(t, 10))
			require.Equal(t, status.Code(err), status.Code(<-got))
			return nil
		}}, limited(calls, LimitReceived(received), LimitSent(sent))...)
		stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, stream.SendMsg(message(t, 10)))
		}
		require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
		err = stream.RecvMsg(new(wrapperspb.BytesValue))
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.Equal(t, []string{"sent"}, violated(err))
		clock.Advance(time.Minute)
		require.EqualValues(t, 1, left(t, received, "received"), "the message that waited is charged nothing")
	})
}

// chats1 answers one message with the same message.
func chats1(stream grpc.ServerStream) error {
	m := new(wrapperspb.BytesValue)
	if err := stream.RecvMsg(m); err != nil {
		return err
	}
	return stream.SendMsg(m)
}

// GracefulStop waits for calls. A limiter that is closed before refuses those that wait.
func TestServer_CloseRefusesCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := everyone("all", sash.PerSecond(1).Log())
		p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 100}
		l, _ := limiter(t, p, httplimit.WithSweepInterval(-1))
		conn := dialBuffer(t, &echo{}, limited(l)...)
		require.NoError(t, say(t.Context(), conn))
		answer, trailer := make(chan error), metadata.MD{}
		go func() { answer <- say(t.Context(), conn, grpc.Trailer(&trailer)) }()
		synctest.Wait()
		require.NoError(t, l.Close())
		err := <-answer
		require.Equal(t, codes.Unavailable, status.Code(err))
		require.Empty(t, status.Convert(err).Details())
		require.Equal(t, []string{"1"}, trailer["retry-after"])
		require.Empty(t, trailer["grpc-retry-pushback-ms"])
	})
}
