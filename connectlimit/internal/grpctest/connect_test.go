package grpctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/connectlimit"
	"github.com/seed-30da4c49/sash/grpclimit"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpctest"
)

type (
	value  = wrapperspb.BytesValue
	stream = connect.BidiStream[value, value]
	client = connect.Client[value, value]
)

const (
	sayProcedure  = "/test.Echo/Say"
	chatProcedure = "/test.Echo/Chat"
)

// An echo is a service whose procedures are functions of a test.
type echo struct {
	say  func(ctx context.Context, request *connect.Request[value]) (*connect.Response[value], error)
	chat func(ctx context.Context, stream *stream) error
}

func says(_ context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
	return connect.NewResponse(request.Msg), nil
}

func chats(_ context.Context, stream *stream) error {
	for {
		m, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.Send(m); err != nil {
			return err
		}
	}
}

// serve serves e through real connections, HTTP/1 and HTTP/2 without TLS.
func serve(t *testing.T, e *echo, options ...connect.HandlerOption) *httptest.Server {
	if e.say == nil {
		e.say = says
	}
	if e.chat == nil {
		e.chat = chats
	}
	mux := http.NewServeMux()
	mux.Handle(sayProcedure, connect.NewUnaryHandler(sayProcedure, func(ctx context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
		return e.say(ctx, request)
	}, append(options, connect.WithIdempotency(connect.IdempotencyNoSideEffects))...))
	mux.Handle(chatProcedure, connect.NewBidiStreamHandler(chatProcedure, func(ctx context.Context, stream *stream) error {
		return e.chat(ctx, stream)
	}, options...))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// protocols are the options of a client for each protocol.
var protocols = map[string][]connect.ClientOption{
	"Connect":      nil,
	"Connect JSON": {connect.WithProtoJSON()},
	"gRPC":         {connect.WithGRPC()},
	"gRPC-Web":     {connect.WithGRPCWeb()},
}

// dial returns a client of a procedure through HTTP/2.
func dial(t *testing.T, url, procedure string, options ...connect.ClientOption) *client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return connect.NewClient[value, value](&http.Client{Transport: transport}, url+procedure, options...)
}

// message returns a message of that many bytes in binary form.
func message(size int) *value {
	return &value{Value: bytes.Repeat([]byte{'x'}, size-2)} // the field's number and length
}

func say(ctx context.Context, c *client) error {
	_, err := c.CallUnary(ctx, connect.NewRequest(message(10)))
	return err
}

// What the tests share with the tests of grpclimit.
var (
	limiter  = rpctest.Limiter
	outgoing = rpctest.Outgoing
	everyone = rpctest.Everyone
	left     = rpctest.Left
)

// generous is a limit of clients that no test reaches.
var generous = sash.PerSecond(1_000_000)

// limited returns the option of a handler with the interceptor of a limiter.
func limited(l *httplimit.Limiter, options ...connectlimit.Option) connect.HandlerOption {
	return connect.WithInterceptors(connectlimit.NewInterceptor(l, options...))
}

// detailsOf returns the RetryInfo, if there is one, and the quotas of the QuotaFailure.
func detailsOf(t *testing.T, err error) (wait time.Duration, waits bool, quotas []string) {
	var coded *connect.Error
	require.ErrorAs(t, err, &coded)
	for _, detail := range coded.Details() {
		m, fault := detail.Value()
		require.NoError(t, fault)
		switch m := m.(type) {
		case *errdetails.RetryInfo:
			wait, waits = m.RetryDelay.AsDuration(), true
		case *errdetails.QuotaFailure:
			for _, v := range m.Violations {
				quotas = append(quotas, v.QuotaId)
			}
		}
	}
	return wait, waits, quotas
}

func TestHandler_AdmitsExactlyTheLimitOf20000Calls(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := limiter(t, everyone("all", sash.PerMinute(1_700).Log()))
			c := dial(t, serve(t, &echo{}, limited(l)).URL, sayProcedure, options...)
			var admitted, denied, calls atomic.Int64
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for calls.Add(1) <= 5_000 {
						switch err := say(context.Background(), c); {
						case err == nil:
							admitted.Add(1)
						case connect.CodeOf(err) == connect.CodeResourceExhausted:
							denied.Add(1)
						}
					}
				})
			}
			callers.Wait()
			require.EqualValues(t, 1_700, admitted.Load())
			require.EqualValues(t, 3_300, denied.Load())
		})
	}
}

func TestHandler_TellsTheExactWait(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			l, clock := limiter(t,
				everyone("slow", sash.Per(2, 7*time.Second+123*time.Nanosecond).Log()),
				everyone("fast", sash.PerSecond(1000)))
			server := serve(t, &echo{}, limited(l))
			c := dial(t, server.URL, sayProcedure, options...)
			response, err := c.CallUnary(t.Context(), connect.NewRequest(message(10)))
			require.NoError(t, err)
			require.Contains(t, response.Header().Get("RateLimit"), `"slow";r=1;t=8, `)
			clock.Advance(time.Second + time.Nanosecond)
			bidi := dial(t, server.URL, chatProcedure, options...).CallBidiStream(t.Context())
			require.NoError(t, bidi.Send(message(10)))
			require.Contains(t, bidi.ResponseHeader().Get("RateLimit"), `"slow";r=0;t=7, `)
			require.NoError(t, bidi.CloseRequest())
			require.NoError(t, bidi.CloseResponse())
			clock.Advance(time.Millisecond)

			err = say(t.Context(), c)
			require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
			wait, _, quotas := detailsOf(t, err)
			require.Equal(t, 6*time.Second-time.Millisecond+122*time.Nanosecond, wait)
			require.Equal(t, []string{"slow"}, quotas)
			meta := err.(*connect.Error).Meta()
			require.Equal(t, []string{"6000"}, meta["Grpc-Retry-Pushback-Ms"], "rounded up")
			require.Equal(t, []string{"6"}, meta["Retry-After"], "rounded up")
			require.Len(t, meta["Ratelimit"], 1)
			require.Contains(t, meta["Ratelimit"][0], `"slow";r=0;t=6, `)

			bidi = dial(t, server.URL, chatProcedure, options...).CallBidiStream(t.Context())
			require.NoError(t, bidi.CloseRequest())
			_, err = bidi.Receive()
			require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
			streamWait, _, _ := detailsOf(t, err)
			require.Equal(t, wait, streamWait)
			require.NoError(t, bidi.CloseResponse())

			clock.Advance(wait - 1)
			again, _, _ := detailsOf(t, say(t.Context(), c))
			require.Equal(t, time.Nanosecond, again, "denied a nanosecond before")
			clock.Advance(1)
			require.NoError(t, say(t.Context(), c))
		})
	}
}

func TestHandler_OmitsTheWaitIfNoneWouldDo(t *testing.T) {
	p := everyone("bytes", sash.PerMinute(100).Log())
	p.Cost = connectlimit.MessageBytes
	l, _ := limiter(t, p)
	c := dial(t, serve(t, &echo{}, limited(l)).URL, sayProcedure)
	_, err := c.CallUnary(t.Context(), connect.NewRequest(message(101)))
	_, waits, quotas := detailsOf(t, err)
	require.False(t, waits)
	require.Equal(t, []string{"bytes"}, quotas)
	require.Equal(t, "-1", err.(*connect.Error).Meta().Get("Grpc-Retry-Pushback-Ms"))
}

func TestHandler_LeavesUnitsToUrgentCalls(t *testing.T) {
	p := everyone("all", sash.PerMinute(4).Log())
	p.Leave = func(r *http.Request) int64 {
		if r.Header.Get("X-Class") == "background" {
			return 1
		}
		return 0
	}
	l, _ := limiter(t, p)
	c := dial(t, serve(t, &echo{}, limited(l)).URL, sayProcedure)
	background := func() error {
		request := connect.NewRequest(message(10))
		request.Header().Set("X-Class", "background")
		_, err := c.CallUnary(t.Context(), request)
		return err
	}
	for range 3 {
		require.NoError(t, background())
	}
	wait, waits, quotas := detailsOf(t, background())
	require.True(t, waits)
	require.Equal(t, time.Minute, wait)
	require.Equal(t, []string{"all"}, quotas)
	require.NoError(t, say(t.Context(), c))
	require.EqualValues(t, 0, left(t, l, "all"))
}

func TestHandler_AnswersClientsOfGRPCGo(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.Per(1, time.Minute+time.Nanosecond).Log()))
	server := serve(t, &echo{}, limited(l))
	dialGRPC := func(options ...grpc.DialOption) func() error {
		conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(server.URL, "http://"),
			append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return func() error { return conn.Invoke(t.Context(), sayProcedure, message(10), new(value)) }
	}
	waits := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}
	call, waiting := dialGRPC(), dialGRPC(grpc.WithUnaryInterceptor(grpclimit.UnaryClientInterceptor(waits)))
	require.NoError(t, call())
	err := waiting()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.Equal(t, time.Minute+time.Nanosecond, status.Convert(err).Details()[0].(*errdetails.RetryInfo).RetryDelay.AsDuration())
	clock.Advance(time.Minute)
	var turn *httplimit.TurnError
	require.ErrorAs(t, waiting(), &turn)
	require.Equal(t, time.Nanosecond, turn.RetryAfter)
	clock.Advance(1)
	require.NoError(t, waiting())
}

func TestHandler_RefusesCallsOfNobodyAndOfBrokenPolicies(t *testing.T) {
	nobody := everyone("keyed", sash.PerMinute(5))
	nobody.Key = httplimit.ByHeader("X-Api-Key")
	broken := everyone("broken", sash.PerMinute(5))
	broken.Pattern = chatProcedure
	broken.Cost = func(*http.Request) int64 { panic(http.ErrAbortHandler) }
	l, _ := limiter(t, nobody, broken)
	server := serve(t, &echo{}, limited(l))
	c := dial(t, server.URL, sayProcedure)
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(say(t.Context(), c)))
	request := connect.NewRequest(message(10))
	request.Header().Set("X-API-Key", "a")
	_, err := c.CallUnary(t.Context(), request)
	require.NoError(t, err)

	bidi := dial(t, server.URL, chatProcedure).CallBidiStream(t.Context())
	bidi.RequestHeader().Set("X-API-Key", "a")
	require.NoError(t, bidi.CloseRequest())
	_, err = bidi.Receive()
	require.Equal(t, connect.CodeInternal, connect.CodeOf(err))
}

func TestHandler_DescribesCallsToPolicies(t *testing.T) {
	seen := make(chan *http.Request, 1)
	p := everyone("all", sash.PerMinute(100))
	p.Skip = func(r *http.Request) bool { seen <- r; return false }
	posts := everyone("posts", sash.PerMinute(100))
	posts.Pattern = "POST /test.Echo/"
	client := everyone("client", sash.PerMinute(1))
	client.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("127.0.0.0/8")))
	l, _ := limiter(t, p, posts, client)
	c := dial(t, serve(t, &echo{}, limited(l)).URL, sayProcedure, connect.WithHTTPGet(), connect.WithIdempotency(connect.IdempotencyNoSideEffects))
	request := connect.NewRequest(message(12))
	request.Header().Set("X-Forwarded-For", "192.0.2.1")
	_, err := c.CallUnary(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, "GET", request.HTTPMethod())
	r := <-seen
	require.Equal(t, []any{"POST", sayProcedure}, []any{r.Method, r.URL.Path})
	require.Len(t, connectlimit.MessageOf(r.Context()).(*value).Value, 10)
	require.EqualValues(t, 12, connectlimit.MessageBytes(r))
	require.EqualValues(t, 99, left(t, l, "posts"), "GET is no way around a policy for POST")
	_, err = c.CallUnary(t.Context(), request)
	<-seen
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
	request.Header().Set("X-Forwarded-For", "192.0.2.2")
	_, err = c.CallUnary(t.Context(), request)
	<-seen
	require.NoError(t, err)
}

func TestHandler_ChargesByTheCodeOfTheAnswer(t *testing.T) {
	e := &echo{}
	p := everyone("login", sash.PerMinute(100).Log())
	p.Charge = func(code int) bool { return connect.Code(code) == connect.CodeUnauthenticated }
	all := everyone("all", sash.PerMinute(100).Log())
	codes := make(chan int, 1)
	all.Charge = func(code int) bool { codes <- code; return true }
	l, _ := limiter(t, p, all)
	c := dial(t, serve(t, e, limited(l)).URL, sayProcedure)
	want := int64(100)
	for code := connect.Code(0); code <= connect.CodeUnauthenticated; code++ {
		e.say = func(ctx context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
			if code == 0 {
				return says(ctx, request)
			}
			return nil, fmt.Errorf("wrapped: %w", connect.NewError(code, errors.New("fault")))
		}
		if code == connect.CodeUnauthenticated {
			want--
		}
		_ = say(t.Context(), c)
		require.Equal(t, int(code), <-codes)
		require.Equal(t, want, left(t, l, "login"), code)
	}
	for _, answer := range []struct {
		err  error
		code int
	}{
		{context.Canceled, int(connect.CodeCanceled)},
		{context.DeadlineExceeded, int(connect.CodeDeadlineExceeded)},
		{errors.New("fault"), int(connect.CodeUnknown)},
		{connect.NewNotModifiedError(nil), 0},
	} {
		e.say = func(context.Context, *connect.Request[value]) (*connect.Response[value], error) {
			return nil, answer.err
		}
		_ = say(t.Context(), c)
		require.Equal(t, answer.code, <-codes)
	}
}

func TestHandler_SettlesByTheBytesTheHandlerAndItsHeaders(t *testing.T) {
	by := func(name string, settle func(*httplimit.Response) int64) httplimit.Policy {
		p := everyone(name, sash.PerMinute(10_000).Log())
		p.Settle, p.Cost = settle, func(*http.Request) int64 { return 100 }
		return p
	}
	e := &echo{}
	l, _ := limiter(t, by("bytes", httplimit.SettleBytes()), by("header", httplimit.SettleHeader("X-Cost")), by("handler", httplimit.SettleEstimate()))
	c := dial(t, serve(t, e, connect.WithRecover(func(context.Context, connect.Spec, http.Header, any) error {
		return connect.NewError(connect.CodeInternal, errors.New("recovered"))
	}), limited(l)).URL, sayProcedure, connect.WithGRPC())
	e.say = func(ctx context.Context, _ *connect.Request[value]) (*connect.Response[value], error) {
		httplimit.ChargeOf(ctx, "handler").Commit(7)
		response := connect.NewResponse(message(50))
		response.Trailer().Set("X-Cost", "3")
		return response, nil
	}
	require.NoError(t, say(t.Context(), c))
	require.EqualValues(t, 10_000-50, left(t, l, "bytes"))
	require.EqualValues(t, 10_000-3, left(t, l, "header"))
	require.EqualValues(t, 10_000-7, left(t, l, "handler"))

	e.say = func(ctx context.Context, _ *connect.Request[value]) (*connect.Response[value], error) {
		httplimit.ChargeOf(ctx, "handler").Cancel()
		panic("fault")
	}
	require.Equal(t, connect.CodeInternal, connect.CodeOf(say(t.Context(), c)))
	require.EqualValues(t, 10_000-50-100, left(t, l, "bytes"), "the estimate stays")
	require.EqualValues(t, 10_000-3-100, left(t, l, "header"))
	require.EqualValues(t, 10_000-7, left(t, l, "handler"), "what the handler says holds")
}

// A unary call holds its slot until it ends, and a denial tells to come again soon.
func TestHandler_ACallHoldsItsSlotUntilItEnds(t *testing.T) {
	for name, end := range map[string]func() error{
		"returns": func() error { return nil },
		"fails":   func() error { return connect.NewError(connect.CodeNotFound, errors.New("gone")) },
		"panics":  func() error { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := limiter(t, everyone("calls", sash.AtOnce(1, time.Hour)))
			var within error
			var c *client
			server := serve(t, &echo{say: func(ctx context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
				if within == nil {
					within = say(ctx, c)
				}
				return connect.NewResponse(request.Msg), end()
			}}, limited(l))
			c = dial(t, server.URL, sayProcedure)
			_ = say(t.Context(), c)
			server.Close() // which waits until the handler has ended
			require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(within))
			wait, waits, _ := detailsOf(t, within)
			require.True(t, waits)
			require.Equal(t, time.Second, wait)
			require.EqualValues(t, 1, left(t, l, "calls"))
		})
	}
}

// A stream is cut after each number of messages, by the client or by the handler.
func TestHandler_LeavesTheDocumentedChargesWhereverAStreamIsCut(t *testing.T) {
	for name, options := range protocols {
		for _, ending := range []string{"close", "cancel", "return", "fail", "panic"} {
			t.Run(name+" "+ending, func(t *testing.T) {
				for k := 1; k < 5; k++ {
					testCut(t, options, ending, k)
				}
			})
		}
	}
}

func testCut(t *testing.T, options []connect.ClientOption, ending string, k int) {
	const perMinute = 1_000_000
	policy := func(name string) httplimit.Policy {
		p := everyone(name, sash.PerMinute(perMinute).Log())
		p.Cost = func(*http.Request) int64 { return 1000 }
		return p
	}
	free, back, settles := policy("free"), policy("back"), policy("bytes")
	free.Charge = func(int) bool { return false }
	back.ChargeUncertain = func(int) bool { return false }
	settles.Settle = httplimit.SettleBytes()
	calls, _ := limiter(t, free, back, settles, everyone("held", sash.AtOnce(perMinute, time.Hour)))
	received, _ := limiter(t, everyone("count", sash.PerMinute(perMinute).Log()))
	sizes := everyone("bytes", sash.PerMinute(perMinute).Log())
	sizes.Cost = connectlimit.MessageBytes
	sent, _ := limiter(t, sizes)

	var got, answered, held int64
	e := &echo{chat: func(ctx context.Context, stream *stream) error {
		held = perMinute - left(t, calls, "held")
		for i := 0; ; i++ {
			if i == k {
				switch ending {
				case "return":
					return nil
				case "fail":
					return connect.NewError(connect.CodeNotFound, errors.New("gone"))
				case "panic":
					panic("fault")
				}
			}
			m, err := stream.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			got++
			answered += int64(len(m.Value)) + 2
			if err := stream.Send(m); err != nil {
				return err
			}
		}
	}}
	settled := make(chan struct{})
	server := serve(t, e, connect.WithInterceptors(recovers{settled}, connectlimit.NewInterceptor(calls, connectlimit.LimitReceived(received), connectlimit.LimitSent(sent))))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	bidi := dial(t, server.URL, chatProcedure, options...).CallBidiStream(ctx)
	for i := range k {
		require.NoError(t, bidi.Send(message(10+i)))
		_, err := bidi.Receive()
		require.NoError(t, err)
	}
	switch ending {
	case "close":
		require.NoError(t, bidi.CloseRequest())
	case "cancel":
		cancel()
		_ = bidi.CloseResponse() // the transport of net/http notices that the context is done
	}
	<-settled
	charged := func(l *httplimit.Limiter, policy string) int64 { return perMinute - left(t, l, policy) }
	switch ending {
	case "cancel", "panic":
		require.EqualValues(t, 1000, charged(calls, "free"))
		require.EqualValues(t, 0, charged(calls, "back"))
		require.EqualValues(t, 1000, charged(calls, "bytes"))
	default:
		require.EqualValues(t, 0, charged(calls, "free"))
		require.EqualValues(t, 1000, charged(calls, "back"))
		require.EqualValues(t, answered, charged(calls, "bytes"))
	}
	require.EqualValues(t, 1, held)
	require.Zero(t, charged(calls, "held"))
	require.EqualValues(t, k, got)
	require.Equal(t, got, charged(received, "count"))
	require.Equal(t, answered, charged(sent, "bytes"))
}

// recovers recovers from panics of a stream, and tells when the stream has ended.
type recovers struct{ settled chan struct{} }

func (recovers) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }
func (recovers) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}
func (r recovers) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		defer close(r.settled)
		defer func() {
			if fault := recover(); fault != nil {
				err = connect.NewError(connect.CodeInternal, errors.New("recovered"))
			}
		}()
		return next(ctx, conn)
	}
}

// Connect sends the headers alone if a handler sends nil.
func TestHandler_HeadersAreNoMessage(t *testing.T) {
	for name, options := range protocols {
		t.Run(name, func(t *testing.T) {
			settles := everyone("bytes", sash.PerMinute(100).Log())
			settles.Settle = httplimit.SettleBytes()
			calls, _ := limiter(t, settles)
			sent, _ := limiter(t, everyone("messages", sash.PerMinute(1).Log()))
			size := connectlimit.MessageSize(func(m any) int64 { return int64(len(m.(*value).Value)) })
			e := &echo{chat: func(ctx context.Context, stream *stream) error {
				return errors.Join(stream.Send(nil), chats(ctx, stream))
			}}
			bidi := dial(t, serve(t, e, limited(calls, connectlimit.LimitSent(sent), size)).URL, chatProcedure, options...).CallBidiStream(t.Context())
			require.NoError(t, bidi.Send(nil))
			require.NotEmpty(t, bidi.ResponseHeader().Get("RateLimit"))
			require.EqualValues(t, 1, left(t, sent, "messages"))
			require.NoError(t, bidi.Send(message(12)))
			_, err := bidi.Receive()
			require.NoError(t, err)
			require.NoError(t, bidi.CloseRequest())
			_, err = bidi.Receive()
			require.ErrorIs(t, err, io.EOF)
			require.EqualValues(t, 90, left(t, calls, "bytes"))
			require.NoError(t, bidi.CloseResponse())
		})
	}
}

// A stream that cannot send or receive a message has an uncertain end.
func TestHandler_KeepsTheChargeOfAStreamIfAMessageFails(t *testing.T) {
	for name, sizes := range map[string][2]int{"received": {101, 10}, "sent": {10, 101}} {
		t.Run(name, func(t *testing.T) {
			kept := everyone("kept", sash.PerMinute(100).Log())
			kept.Charge = func(int) bool { return false }
			codes := make(chan int, 1)
			kept.ChargeUncertain = func(code int) bool { codes <- code; return true }
			calls, _ := limiter(t, kept)
			failed := make(chan error, 1)
			e := &echo{chat: func(_ context.Context, stream *stream) error {
				_, err := stream.Receive()
				if err == nil {
					err = stream.Send(message(sizes[1]))
				}
				failed <- err
				return err
			}}
			bidi := dial(t, serve(t, e, limited(calls), connect.WithReadMaxBytes(100), connect.WithSendMaxBytes(100), connect.WithCompressMinBytes(1000)).URL, chatProcedure).CallBidiStream(t.Context())
			require.NoError(t, bidi.Send(message(sizes[0])))
			_, err := bidi.Receive()
			require.Error(t, err)
			require.Equal(t, int(connect.CodeOf(<-failed)), <-codes)
			require.EqualValues(t, 99, left(t, calls, "kept"))
			require.NoError(t, bidi.CloseRequest())
			require.NoError(t, bidi.CloseResponse())
		})
	}
}

func TestHandler_EndsAStreamAtAMessageThatIsDenied(t *testing.T) {
	for name, options := range protocols {
		for _, direction := range []string{"received", "sent"} {
			t.Run(name+" "+direction, func(t *testing.T) {
				opening := everyone("calls", sash.PerMinute(10).Log())
				opening.Charge = func(code int) bool { return connect.Code(code) != connect.CodeResourceExhausted }
				calls, _ := limiter(t, opening)
				messages, _ := limiter(t, everyone("messages", sash.Per(2, time.Minute+time.Nanosecond).Log()))
				option := connectlimit.LimitReceived(messages)
				if direction == "sent" {
					option = connectlimit.LimitSent(messages)
				}
				e := &echo{chat: func(ctx context.Context, stream *stream) error {
					err := chats(ctx, stream)
					<-ctx.Done()
					if connect.CodeOf(stream.Send(message(10))) != connect.CodeResourceExhausted {
						return errors.New("the stream is not over")
					}
					return fmt.Errorf("hidden: %v", err) // which is not the answer
				}}
				bidi := dial(t, serve(t, e, limited(calls, option)).URL, chatProcedure, options...).CallBidiStream(t.Context())
				for range 2 {
					require.NoError(t, bidi.Send(message(10)))
					_, err := bidi.Receive()
					require.NoError(t, err)
				}
				require.NoError(t, bidi.Send(message(10)))
				_, err := bidi.Receive()
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
				wait, _, quotas := detailsOf(t, err)
				require.Equal(t, time.Minute+time.Nanosecond, wait)
				require.Equal(t, []string{"messages"}, quotas)
				require.EqualValues(t, 10, left(t, calls, "calls"), "given back, by the code of the answer")
				require.NoError(t, bidi.CloseRequest())
				require.NoError(t, bidi.CloseResponse())
			})
		}
	}
}
