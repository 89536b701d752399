package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
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

// A cut ends a stream in which some messages were echoed.
type cut struct {
	name    string
	client  func(stream grpc.ClientStream, cancel func(), connection net.Conn) // by the client
	handler func() error                                                       // by the handler, instead of its next RecvMsg
	certain bool                                                               // whether the client is sent the answer for certain
	code    codes.Code                                                         // that policies are told
}

var cuts = []cut{
	{name: "the client closes", client: func(stream grpc.ClientStream, _ func(), _ net.Conn) { _ = stream.CloseSend() }, certain: true, code: codes.OK},
	{name: "the client cancels", client: func(_ grpc.ClientStream, cancel func(), _ net.Conn) { cancel() }, code: codes.Canceled},
	{name: "the client sends more and cancels", client: func(stream grpc.ClientStream, cancel func(), _ net.Conn) {
		for range 3 {
			_ = stream.SendMsg(&wrapperspb.BytesValue{Value: []byte("more")})
		}
		cancel()
	}, code: codes.Canceled},
	{name: "the connection breaks", client: func(_ grpc.ClientStream, _ func(), connection net.Conn) { connection.Close() }, code: codes.Canceled},
	{name: "the handler returns", handler: func() error { return nil }, certain: true, code: codes.OK},
	{name: "the handler fails", handler: func() error { return status.Error(codes.NotFound, "gone") }, certain: true, code: codes.NotFound},
	{name: "the handler fails by a context", handler: func() error { return context.Canceled }, certain: true, code: codes.Canceled},
	{name: "the handler panics", handler: func() error { panic("fault") }, code: codes.Unknown},
	{name: "the handler aborts", handler: func() error { panic(http.ErrAbortHandler) }, code: codes.Unknown},
}

// perMinute is a limit that no test reaches.
const perMinute = 1_000_000

// TestStream_LeavesTheDocumentedChargesWhereverItIsCut echoes k messages of a stream, each of
// its own size, cuts the stream there, and compares what every kind of policy has charged.
func TestStream_LeavesTheDocumentedChargesWhereverItIsCut(t *testing.T) {
	for _, c := range cuts {
		t.Run(c.name, func(t *testing.T) {
			for k := range 6 {
				testCut(t, c, k)
			}
		})
	}
}

func testCut(t *testing.T, c cut, k int) {
	var told atomic.Int64
	told.Store(-1)
	policy := func(name string, charge, uncertain func(int) bool, settle func(*httplimit.Response) int64) httplimit.Policy {
		p := everyone(name, sash.PerMinute(perMinute).Log())
		p.Cost = func(*http.Request) int64 { return 1000 }
		p.Charge, p.ChargeUncertain, p.Settle = charge, uncertain, settle
		return p
	}
	never := func(int) bool { return false }
	hears := func(code int) bool { told.Store(int64(code)); return true }
	calls, _ := limiter(t,
		policy("plain", nil, nil, nil),
		policy("told", hears, hears, nil),
		policy("free", never, nil, nil),
		policy("back", never, never, nil),
		policy("bytes", nil, nil, httplimit.SettleBytes()),
		policy("handler", nil, nil, httplimit.SettleEstimate()),
		everyone("held", sash.AtOnce(perMinute, time.Hour)))
	received, _ := limiter(t, everyone("count", sash.PerMinute(perMinute).Log()))
	bytes := everyone("bytes", sash.PerMinute(perMinute).Log())
	bytes.Cost = MessageBytes
	sent, _ := limiter(t, bytes)

	held := int64(-1)                // while the handler runs
	var got, answered, handled int64 // messages, bytes, and units that the handler declares
	echo := &echo{chat: func(stream grpc.ServerStream) error {
		held = perMinute - left(t, calls, "held")
		for i := 0; ; i++ {
			if c.handler != nil && i == k {
				return c.handler()
			}
			m := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(m); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			got++
			answered += sizeOf(m)
			handled += 3
			httplimit.ChargeOf(stream.Context(), "handler").Commit(handled)
			if err := stream.SendMsg(m); err != nil {
				return err
			}
		}
	}}
	settled := make(chan struct{})
	target := serve(t, echo, grpc.ChainStreamInterceptor(
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer close(settled)
			defer recovers(&err)
			return handler(srv, stream)
		}, StreamServerInterceptor(calls, LimitReceived(received), LimitSent(sent))))
	var connection net.Conn
	conn := dial(t, target, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		var err error
		connection, err = new(net.Dialer).DialContext(ctx, "tcp", address)
		return connection, err
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := conn.NewStream(ctx, &chatDesc, chatMethod)
	require.NoError(t, err)
	for i := range k {
		require.NoError(t, stream.SendMsg(message(t, 10+i)))
		require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	}
	if k == 0 && c.client != nil {
		// Until a message is echoed, the stream may be cut before the server sees it.
		require.NoError(t, stream.SendMsg(message(t, 10)))
		require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	}
	if c.client != nil {
		c.client(stream, cancel, connection)
	}
	<-settled

	charged := func(l *httplimit.Limiter, policy string) int64 { return perMinute - left(t, l, policy) }
	at := fmt.Sprintf("cut after %d messages", k)
	require.EqualValues(t, 1, held, at)
	require.Zero(t, charged(calls, "held"), at)
	require.EqualValues(t, 1000, charged(calls, "plain"), at)
	require.EqualValues(t, 1000, charged(calls, "told"), at)
	require.EqualValues(t, c.code, told.Load(), at)
	require.EqualValues(t, 0, charged(calls, "back"), at)
	if c.certain {
		require.EqualValues(t, 0, charged(calls, "free"), at)
		require.EqualValues(t, answered, charged(calls, "bytes"), at)
	} else {
		require.EqualValues(t, 1000, charged(calls, "free"), at)
		require.EqualValues(t, 1000, charged(calls, "bytes"), "%s: the estimate stays", at)
	}
	if handled > 0 {
		require.EqualValues(t, handled, charged(calls, "handler"), at)
	} else {
		require.EqualValues(t, 1000, charged(calls, "handler"), at)
	}
	require.GreaterOrEqual(t, got, int64(k), at)
	require.Equal(t, got, charged(received, "count"), "%s: the messages that the handler has got", at)
	require.Equal(t, answered, charged(sent, "bytes"), "%s: the messages that the handler has sent", at)
}

// sizeOf returns the size of m in binary form.
func sizeOf(m *wrapperspb.BytesValue) int64 {
	if len(m.Value) == 0 {
		return 0
	}
	return int64(len(m.Value)) + 2
}

// A limit of messages ends the stream at each message in turn, in both directions.
func TestStream_EndsAtAMessageThatIsDenied(t *testing.T) {
	for _, direction := range []string{"received", "sent"} {
		for k := range 5 {
			t.Run(fmt.Sprint(direction, " after ", k), func(t *testing.T) { testDeniedMessage(t, direction, k) })
		}
	}
}

func testDeniedMessage(t *testing.T, direction string, k int) {
	opening := everyone("calls", sash.PerMinute(10).Log())
	opening.Charge = func(code int) bool { return codes.Code(code) != codes.ResourceExhausted }
	opening.ChargeUncertain = func(code int) bool { panic("the end is certain") }
	calls, _ := limiter(t, opening)
	messages, clock := limiter(t, everyone("messages", sash.Per(max(int64(k), 1), time.Minute+time.Nanosecond).Log()))
	if k == 0 {
		messages.Sash().Allow(mustKey(t, messages, "messages"))
	}
	option := LimitReceived(messages)
	if direction == "sent" {
		option = LimitSent(messages)
	}
	var after, cause error
	got, settled := 0, make(chan struct{})
	e := &echo{chat: func(stream grpc.ServerStream) error {
		for {
			m := new(wrapperspb.BytesValue)
			err := stream.RecvMsg(m)
			if err == nil {
				got++
				err = stream.SendMsg(m)
			}
			if err != nil {
				<-stream.Context().Done()
				cause, after = err, errors.Join(stream.SendMsg(m), stream.RecvMsg(m))
				return nil // which is not the answer
			}
		}
	}}
	conn := dial(t, serve(t, e, grpc.ChainStreamInterceptor(
		func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			defer close(settled)
			return handler(srv, stream)
		}, StreamServerInterceptor(calls, option))))
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	for range k {
		require.NoError(t, stream.SendMsg(message(t, 10)))
		require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	}
	clock.Advance(time.Second)
	require.NoError(t, stream.SendMsg(message(t, 10)))
	err = stream.RecvMsg(new(wrapperspb.BytesValue))
	<-settled
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, _ := retryDelay(err)
	require.Equal(t, 59*time.Second+time.Nanosecond, wait)
	require.Equal(t, []string{"messages"}, violated(err))
	require.Equal(t, []string{"59001"}, stream.Trailer()["grpc-retry-pushback-ms"])
	require.Equal(t, codes.ResourceExhausted, status.Code(cause))
	require.Equal(t, codes.ResourceExhausted, status.Code(after), "the stream is over in both directions")
	if direction == "received" {
		require.Equal(t, k, got, "the handler does not get the message")
	}
	require.EqualValues(t, 0, left(t, messages, "messages"))
	require.EqualValues(t, 10, left(t, calls, "calls"), "given back, by the code of the answer")
}

func mustKey(t *testing.T, l *httplimit.Limiter, policy string) string {
	key, ok := l.KeyFor(policy, &http.Request{})
	require.True(t, ok)
	return key
}

func TestStream_MessagesCostTheirBytesByMethodAndClient(t *testing.T) {
	p := httplimit.Policy{
		Name:    "upload",
		Pattern: "/test.Echo/Chat",
		Limits:  []sash.Limit{sash.PerMinute(100).Log()},
		Key:     httplimit.Join(httplimit.ByHeader("tenant"), ByMethod()),
		Cost:    MessageBytes,
		Unit:    "content-bytes",
	}
	bytes, _ := limiter(t, p)
	calls, _ := limiter(t, everyone("calls", sash.PerMinute(100)))
	conn := dial(t, serve(t, &echo{}, limited(calls, LimitReceived(bytes))...))
	send := func(tenant string, size int) error {
		stream, err := conn.NewStream(metadata.AppendToOutgoingContext(t.Context(), "tenant", tenant), &chatDesc, chatMethod)
		require.NoError(t, err)
		require.NoError(t, stream.SendMsg(message(t, size)))
		require.NoError(t, stream.CloseSend())
		for err == nil {
			err = stream.RecvMsg(new(wrapperspb.BytesValue))
		}
		return err
	}
	require.Equal(t, io.EOF, send("a", 60))
	require.Equal(t, io.EOF, send("b", 100))
	require.Equal(t, codes.ResourceExhausted, status.Code(send("a", 41)))
	require.Equal(t, io.EOF, send("a", 40))
	require.NoError(t, say(metadata.AppendToOutgoingContext(t.Context(), "tenant", "a"), conn), "a unary call is none of a stream")
}

// A stream that cannot send or receive a message has an uncertain end, though its context is not
// done: the client causes it by what it sends.
func TestStream_KeepsItsChargeIfAMessageFails(t *testing.T) {
	for name, sizes := range map[string][2]int{"received": {101, 10}, "sent": {10, 101}} {
		t.Run(name, func(t *testing.T) {
			kept := everyone("kept", sash.PerMinute(100).Log())
			kept.Charge = func(int) bool { return false }
			calls, _ := limiter(t, kept)
			received, _ := limiter(t, everyone("messages", sash.PerMinute(100).Log()))
			back := everyone("messages", sash.PerMinute(100).Log())
			back.ChargeUncertain = func(int) bool { return false }
			sent, _ := limiter(t, back)
			settled := make(chan struct{})
			e := &echo{chat: func(stream grpc.ServerStream) error {
				if err := stream.RecvMsg(new(wrapperspb.BytesValue)); err != nil {
					return err
				}
				return stream.SendMsg(message(t, sizes[1]))
			}}
			conn := dial(t, serve(t, e, grpc.MaxRecvMsgSize(100), grpc.MaxSendMsgSize(100), grpc.ChainStreamInterceptor(
				func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
					defer close(settled)
					return handler(srv, stream)
				}, StreamServerInterceptor(calls, LimitReceived(received), LimitSent(sent)))))
			stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
			require.NoError(t, err)
			require.NoError(t, stream.SendMsg(message(t, sizes[0])))
			require.Equal(t, codes.ResourceExhausted, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
			<-settled
			require.EqualValues(t, 99, left(t, calls, "kept"))
			require.EqualValues(t, 100, left(t, sent, "messages"), "given back, since nothing was sent")
			if name == "received" {
				require.EqualValues(t, 100, left(t, received, "messages"), "the handler has got no message")
			} else {
				require.EqualValues(t, 99, left(t, received, "messages"))
			}
		})
	}
}

func TestStream_RecordsTheMetadataOfTheHandler(t *testing.T) {
	p := everyone("all", sash.PerMinute(100).Log())
	got := make(chan http.Header, 1)
	p.Settle = func(r *httplimit.Response) int64 { got <- r.Header; return 1 }
	l, _ := limiter(t, p)
	e := &echo{chat: func(stream grpc.ServerStream) error {
		stream.SetTrailer(metadata.Pairs("a", "1"))
		return errors.Join(stream.SetHeader(metadata.Pairs("b", "2")), grpc.SetHeader(stream.Context(), metadata.Pairs("c", "3")),
			grpc.SetTrailer(stream.Context(), metadata.Pairs("a", "4")), stream.SendHeader(metadata.Pairs("d", "5")))
	}}
	conn := dial(t, serve(t, e, limited(l, RecordMetadata())...))
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))
	require.Equal(t, http.Header{"A": {"1", "4"}, "B": {"2"}, "C": {"3"}, "D": {"5"}}, <-got)
	header, err := stream.Header()
	require.NoError(t, err)
	require.Equal(t, []string{"5"}, header["d"])
	require.Len(t, header["ratelimit"], 1)
}

func TestServer_SizesOfOtherCodecs(t *testing.T) {
	p := everyone("all", sash.PerMinute(100_000).Log())
	p.Cost = MessageBytes
	p.Settle = func(r *httplimit.Response) int64 { return 1000*r.Bytes + r.Estimate }
	call := func(message, answer any, options ...Option) (charged int64) {
		l, _ := limiter(t, p)
		require.NoError(t, ask(t.Context(), l, "/a/b", message, answer, options...))
		return 100_000 - left(t, l, "all")
	}
	require.EqualValues(t, 3005, call("12345", "123", MessageSize(func(m any) int64 { return int64(len(m.(string))) })))
	require.EqualValues(t, 5, call("12345", nil, MessageSize(func(m any) int64 { return int64(len(m.(string))) })), "which nil is not given to")
	require.EqualValues(t, 9009, call(sized{}, sized{}))
	require.EqualValues(t, 0, call("12345", "123"))
}

func TestServer_KeepsTheEstimateIfTheSizeOfTheAnswerPanics(t *testing.T) {
	p := everyone("all", sash.PerMinute(100).Log())
	p.Cost, p.Settle = func(*http.Request) int64 { return 10 }, httplimit.SettleBytes()
	l, _ := limiter(t, p)
	require.PanicsWithValue(t, "fault", func() {
		_ = ask(t.Context(), l, "/a/b", nil, "answer", MessageSize(func(any) int64 { panic("fault") }))
	})
	require.EqualValues(t, 90, left(t, l, "all"))
}

// sized is a message of a codec whose messages know their size, as messages of gogo/protobuf do.
type sized struct{}

func (sized) Size() int { return 9 }

func TestStream_FollowsPoliciesThatAreReplacedMeanwhile(t *testing.T) {
	opening := everyone("calls", sash.PerMinute(10).Log())
	opening.Charge = func(int) bool { return false }
	calls, _ := limiter(t, opening)
	messages, _ := limiter(t, everyone("messages", sash.PerMinute(100).Log()))
	conn := dial(t, serve(t, &echo{}, limited(calls, LimitReceived(messages))...))
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	echo := func() error {
		require.NoError(t, stream.SendMsg(message(t, 10)))
		return stream.RecvMsg(new(wrapperspb.BytesValue))
	}
	require.NoError(t, echo())
	require.NoError(t, calls.Reconfigure(everyone("other", sash.PerMinute(10).Log())))
	require.NoError(t, messages.Reconfigure(everyone("messages", sash.PerMinute(2).Log())))
	require.NoError(t, echo())
	err = echo()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, _ := retryDelay(err)
	require.Equal(t, time.Minute, wait)
	require.EqualValues(t, 10, left(t, calls, "other"))
}

// A limiter decides after Close as well.
func TestServer_WorksWithALimiterThatIsClosed(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(1).Log()))
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	l.Close()
	require.NoError(t, say(t.Context(), conn))
	require.Equal(t, codes.ResourceExhausted, status.Code(say(t.Context(), conn)))
}

func TestServer_NeverAdmitsNegativeSizes(t *testing.T) {
	p := everyone("all", sash.PerMinute(100).Log())
	p.Cost, p.Settle = MessageBytes, httplimit.SettleBytes()
	l, _ := limiter(t, p)
	call := func(size int64, answer any) error {
		return ask(t.Context(), l, "/a/b", size, answer, MessageSize(func(m any) int64 { return m.(int64) }))
	}
	err := call(-1, int64(1))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, ok := retryDelay(err)
	require.False(t, ok)
	require.Equal(t, codes.ResourceExhausted, status.Code(call(math.MaxInt64, int64(1))))
	require.EqualValues(t, 100, left(t, l, "all"))
	require.NoError(t, call(10, int64(-5)))
	require.EqualValues(t, 90, left(t, l, "all"), "the estimate stays")
	require.NoError(t, call(10, int64(math.MaxInt64)))
	require.EqualValues(t, 0, left(t, l, "all"), "the answer is charged in full")
}

// A handler that sits in RecvMsg is not woken when a message of another goroutine is denied. The
// client is told once the handler has returned.
func TestStream_EndsWhenAHandlerReturnsThatWaitsForAMessage(t *testing.T) {
	calls, _ := limiter(t, everyone("calls", sash.PerMinute(10)))
	messages, _ := limiter(t, everyone("messages", sash.PerMinute(1).Log()))
	messages.Sash().Allow(mustKey(t, messages, "messages"))
	denied, returned := make(chan error, 1), make(chan struct{})
	e := &echo{chat: func(stream grpc.ServerStream) error {
		defer close(returned)
		go func() {
			denied <- stream.SendMsg(message(t, 10))
			<-stream.Context().Done()
			denied <- stream.Context().Err()
		}()
		return stream.RecvMsg(new(wrapperspb.BytesValue))
	}}
	conn := dial(t, serve(t, e, grpc.ChainStreamInterceptor(StreamServerInterceptor(calls, LimitSent(messages)))))
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.Equal(t, codes.ResourceExhausted, status.Code(<-denied))
	require.ErrorIs(t, <-denied, context.Canceled, "the handler may know")
	select {
	case <-returned:
		t.Fatal("nothing has ended RecvMsg")
	default:
	}
	require.NoError(t, stream.CloseSend())
	<-returned
	require.Equal(t, codes.ResourceExhausted, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
}

// A message holds its units until it is sent or received, also if the function of MessageSize panics.
func TestStream_AMessageHoldsItsUnitsUntilItIsSent(t *testing.T) {
	for _, direction := range []string{"received", "sent", "sent, and panics", "received, and panics"} {
		t.Run(direction, func(t *testing.T) {
			messages, _ := limiter(t, everyone("messages", sash.AtOnce(1, time.Hour)))
			option := LimitSent(messages)
			if direction[0] == 'r' {
				option = LimitReceived(messages)
			}
			size := MessageSize(func(any) int64 { return 1 })
			if strings.HasSuffix(direction, "panics") {
				size = MessageSize(func(any) int64 { panic("of a test") })
			}
			calls, _ := limiter(t, everyone("calls", sash.PerMinute(10).Log()))
			ended := make(chan struct{})
			conn := dialBuffer(t, new(echo), grpc.ChainStreamInterceptor(
				func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
					defer close(ended)
					defer recovers(&err)
					return handler(srv, stream)
				}, StreamServerInterceptor(calls, option, size)))
			stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
			require.NoError(t, err)
			for range 3 {
				if stream.SendMsg(message(t, 10)) != nil || stream.RecvMsg(new(wrapperspb.BytesValue)) != nil {
					break
				}
			}
			_ = stream.CloseSend()
			<-ended
			require.EqualValues(t, 1, left(t, messages, "messages"))
		})
	}
}
