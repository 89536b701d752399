package grpclimit

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// waiting returns the options of a client that waits by tr.
func waiting(tr *httplimit.Transport) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(UnaryClientInterceptor(tr)),
		grpc.WithChainStreamInterceptor(StreamClientInterceptor(tr)),
	}
}

// held returns for how long err, of a call under NoWait, says that its key is held back.
func held(t *testing.T, err error) time.Duration {
	t.Helper()
	var turn *httplimit.TurnError
	require.ErrorAs(t, err, &turn)
	require.True(t, turn.Held)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, ok := retryDelay(err)
	require.True(t, ok)
	require.Equal(t, turn.RetryAfter, wait)
	return wait
}

func TestClient_WaitsExactlyAsLongAsTheServerAsks(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.Per(1, 90*time.Second+7*time.Nanosecond).Log()))
	target := serve(t, &echo{}, limited(l)...)
	chat := func(conn *grpc.ClientConn) error {
		stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
		if err != nil {
			return err
		}
		_ = stream.CloseSend()
		if err = stream.RecvMsg(new(wrapperspb.BytesValue)); err == io.EOF {
			return nil
		}
		return err
	}
	for name, call := range map[string]func(*grpc.ClientConn) error{
		"unary":  func(conn *grpc.ClientConn) error { return say(t.Context(), conn) },
		"stream": chat,
	} {
		t.Run(name, func(t *testing.T) {
			tr := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}
			conn := dial(t, target, waiting(tr)...)
			clock.Advance(time.Hour)
			require.NoError(t, say(t.Context(), dial(t, target)))
			err := call(conn)
			require.Equal(t, codes.ResourceExhausted, status.Code(err))
			require.Equal(t, []string{"all"}, violated(err), "of the server")
			require.Equal(t, 90*time.Second+7, held(t, call(conn)))
			clock.Advance(90*time.Second + 6)
			require.Equal(t, time.Duration(1), held(t, call(conn)))
			clock.Advance(1)
			require.NoError(t, call(conn))
		})
	}
}

// The quota that an admitted call reports may be for one user or one method. So a call is held
// back only by a denial of its own method.
func TestClient_IsHeldBackByDenialsOnly(t *testing.T) {
	byUser := httplimit.Policy{Name: "user", Limits: []sash.Limit{sash.PerHour(2).Log()}, Key: httplimit.ByHeader("X-User"), Pattern: sayMethod}
	l, clock := limiter(t, byUser)
	target := serve(t, &echo{}, limited(l)...)
	tr := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}
	conn := dial(t, target, waiting(tr)...)
	as := func(user string) error {
		return say(metadata.AppendToOutgoingContext(t.Context(), "x-user", user), conn)
	}
	chat := func() error {
		stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
		if err != nil {
			return err
		}
		if err := stream.SendMsg(message(t, 10)); err != nil {
			return err
		}
		return stream.RecvMsg(new(wrapperspb.BytesValue))
	}
	require.NoError(t, as("ann"))
	require.NoError(t, as("ann"), "it reports that the quota is used up")
	require.NoError(t, as("bob"))
	require.NoError(t, chat())
	err := as("ann")
	require.Equal(t, []string{"user"}, violated(err), "of the server")
	require.Equal(t, time.Hour, held(t, as("ann")))
	require.NoError(t, chat(), "another method was not denied")

	// With a Key, no other user is held back either.
	tr = &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true, Key: httplimit.ByHeader("X-User")}
	conn = dial(t, target, waiting(tr)...)
	require.Equal(t, []string{"user"}, violated(as("ann")), "of the server")
	require.Equal(t, time.Hour, held(t, as("ann")))
	require.NoError(t, as("bob"))
}

// An obedient client is no slower than one that tries again when the server says.
func TestClient_ObedienceCostsNoTime(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.Per(10, 100*time.Millisecond).Log()))
	target := serve(t, &echo{}, limited(l)...)
	conn := dial(t, target, waiting(&httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true})...)
	for sent := 0; sent < 60; {
		err := say(t.Context(), conn)
		if err == nil {
			sent++
			continue
		}
		wait, ok := retryDelay(err)
		require.True(t, ok)
		clock.Advance(wait)
	}
	require.EqualValues(t, 500*time.Millisecond, clock.Now())
}

// A client whose deadline comes first is told not to retry, and to wait no longer.
func TestServer_PushesNothingBackBeyondTheDeadline(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(1).Log()))
	target := serve(t, &echo{}, limited(l)...)
	conn := dial(t, target, grpc.WithDefaultServiceConfig(`{"methodConfig":[{"name":[{}],"retryPolicy":
		{"maxAttempts":5,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED"]}}]}`))
	require.NoError(t, say(t.Context(), conn))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the pushback would be a minute
	defer cancel()
	err := say(ctx, conn)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, ok := retryDelay(err)
	require.True(t, ok)
	require.Equal(t, time.Minute, wait)
}

// A pushback is rounded up to a millisecond, which must not lead beyond the deadline either.
func TestServer_PushesNothingBackBeyondTheDeadlineByRounding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := httplimit.Must(httplimit.New(everyone("all", sash.PerMinute(1).Log()), httplimit.WithSweepInterval(-1)))
		defer l.Close()
		conn := dialBuffer(t, &echo{}, limited(l)...)
		require.NoError(t, say(t.Context(), conn))
		time.Sleep(900 * time.Microsecond) // of the bubble
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute-500*time.Microsecond)
		defer cancel()
		var trailer metadata.MD
		require.Equal(t, codes.ResourceExhausted, status.Code(say(ctx, conn, grpc.Trailer(&trailer))))
		require.Equal(t, []string{"-1"}, trailer.Get("grpc-retry-pushback-ms"))
	})
}

// answers is the end of a call without a connection: it sets the trailer and returns a status.
func answers(code codes.Code, trailer metadata.MD, details ...protoadapt.MessageV1) grpc.UnaryInvoker {
	return func(_ context.Context, _ string, _, _ any, _ *grpc.ClientConn, options ...grpc.CallOption) error {
		for _, option := range options {
			if o, ok := option.(grpc.TrailerCallOption); ok {
				*o.TrailerAddr = trailer
			}
		}
		s, err := status.New(code, "").WithDetails(details...)
		if err != nil {
			return status.Error(code, "")
		}
		return s.Err()
	}
}

func TestClient_ObeysWhatServersAskFor(t *testing.T) {
	wait := func(d time.Duration) *errdetails.RetryInfo {
		return &errdetails.RetryInfo{RetryDelay: durationpb.New(d)}
	}
	pushback := func(ms string) metadata.MD { return metadata.Pairs("grpc-retry-pushback-ms", ms) }
	all := metadata.Join(pushback("7000"), metadata.Pairs("retry-after", "9"), metadata.Pairs("ratelimit", `"a";r=0;t=11`))
	for name, c := range map[string]struct {
		invoke grpc.UnaryInvoker
		held   time.Duration
	}{
		"exhausted":               {answers(codes.ResourceExhausted, nil, wait(5*time.Second)), 5 * time.Second},
		"unavailable":             {answers(codes.Unavailable, nil, wait(5*time.Second+1)), 5*time.Second + 1},
		"a transaction":           {answers(codes.Aborted, nil, wait(5*time.Second)), 0},
		"RetryInfo goes first":    {answers(codes.ResourceExhausted, all, wait(5*time.Second)), 5 * time.Second},
		"then pushback":           {answers(codes.ResourceExhausted, all), 7 * time.Second},
		"then retry-after":        {answers(codes.ResourceExhausted, metadata.Join(all, pushback("8000"))), 9 * time.Second},
		"not ratelimit":           {answers(codes.ResourceExhausted, metadata.Pairs("ratelimit", `"a";r=0;t=11`)), 0},
		"no denial":               {answers(codes.NotFound, all), 0},
		"RetryInfo of no time":    {answers(codes.Unavailable, pushback("1"), wait(0)), time.Millisecond},
		"a negative time":         {answers(codes.Unavailable, pushback("-1"), wait(-time.Hour)), 0},
		"no number":               {answers(codes.Unavailable, pushback("soon")), 0},
		"a number of 33 bits":     {answers(codes.Unavailable, pushback("4294967296")), 0},
		"longer than MaxHold":     {answers(codes.Unavailable, nil, wait(1000*time.Hour)), time.Hour},
		"beyond a Duration":       {answers(codes.Unavailable, nil, &errdetails.RetryInfo{RetryDelay: &durationpb.Duration{Seconds: 1 << 60}}), time.Hour},
		"RetryInfo without delay": {answers(codes.Unavailable, nil, &errdetails.RetryInfo{}), 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := sash.NewManualClock(0)
			interceptor := UnaryClientInterceptor(&httplimit.Transport{
				Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true, Key: ByMethod()})
			require.Error(t, interceptor(t.Context(), "/a/b", nil, nil, nil, c.invoke))
			sends := func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { return nil }
			err := interceptor(t.Context(), "/a/b", nil, nil, nil, sends)
			if c.held == 0 {
				require.NoError(t, err)
			} else {
				require.Equal(t, c.held, held(t, err))
			}
			require.NoError(t, interceptor(t.Context(), "/a/other", nil, nil, nil, sends), "another key")
		})
	}
}

// All goroutines of a bubble end, or the test fails.
func TestClient_WaitsInOrderAndGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := sash.Must(sash.New(sash.PerSecond(1).Log(), sash.WithSweepInterval(-1)))
		tr := &httplimit.Transport{Limiter: l, Key: ByMethod()}
		interceptor, streams := UnaryClientInterceptor(tr), StreamClientInterceptor(tr)
		var mu sync.Mutex
		var sent []time.Duration
		call := func(ctx context.Context, invoke grpc.UnaryInvoker) error {
			return interceptor(ctx, "/a/b", nil, nil, nil, func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, options ...grpc.CallOption) error {
				mu.Lock()
				sent = append(sent, time.Since(start))
				mu.Unlock()
				return invoke(ctx, method, request, reply, conn, options...)
			})
		}
		ok := answers(codes.OK, nil)
		require.NoError(t, call(t.Context(), ok))
		require.NoError(t, call(t.Context(), answers(codes.OK, nil)))

		// Calls that wait already are held back as well, by an answer that comes meanwhile.
		for range 2 {
			go func() { require.NoError(t, call(t.Context(), ok)) }()
			synctest.Wait()
		}
		cancelled, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- call(cancelled, ok) }()
		synctest.Wait()
		tr.HoldBack("/a/b", 10*time.Second)
		synctest.Wait()
		cancel()
		err := <-gaveUp
		require.Equal(t, codes.Canceled, status.Code(err))
		require.ErrorIs(t, err, context.Canceled)

		deadline, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		_, err = streams(deadline, &chatDesc, nil, "/a/b", nil)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start), "at once")

		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, time.Second, 11 * time.Second, 12 * time.Second}, sent)
	})
}

func TestClient_TellsWhyACallIsNotSent(t *testing.T) {
	tr := &httplimit.Transport{Limiter: outgoing(t, sash.PerMinute(1).Log(), sash.WithClock(sash.NewManualClock(0))), NoWait: true,
		Key: ByMethod(), Cost: MessageBytes}
	call := func(tr *httplimit.Transport, size int) error {
		return UnaryClientInterceptor(tr)(t.Context(), "/a/b", message(t, size), nil, nil,
			func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error { panic("sent") })
	}
	err := call(tr, 10)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorIs(t, err, sash.ErrExceedsLimit)
	_, ok := retryDelay(err)
	require.False(t, ok)

	err = call(new(httplimit.Transport), 10)
	require.Equal(t, codes.Internal, status.Code(err))
	require.Contains(t, err.Error(), "Transport.Limiter must not be nil")

	tr.Cost = nil
	require.Panics(t, func() { _ = call(tr, 10) })
	err = call(tr, 10)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, _ := retryDelay(err)
	require.Equal(t, time.Minute, wait)
	require.False(t, errors.Is(err, sash.ErrExceedsLimit))
}

func TestClient_DescribesCallsToKeyFuncs(t *testing.T) {
	seen := make(chan *http.Request, 1)
	tr := &httplimit.Transport{Limiter: outgoing(t, generous), Cost: func(r *http.Request) int64 { seen <- r; return 1 }}
	target := serve(t, &echo{})
	conn := dial(t, target, waiting(tr)...)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "X-Tenant", "a")
	require.NoError(t, conn.Invoke(ctx, sayMethod, message(t, 12), new(wrapperspb.BytesValue)))
	r := <-seen
	require.Equal(t, sayMethod, r.URL.Path)
	require.Equal(t, "a", r.Header.Get("X-Tenant"))
	require.EqualValues(t, 12, MessageBytes(r))
	key, ok := httplimit.ByHost()(nil, r)
	require.True(t, ok)
	require.Equal(t, target, "passthrough:///"+string(key))
}

func TestClient_KeysCallsByTheAddressOfTheTarget(t *testing.T) {
	for target, want := range map[string]string{
		"dns:///api.example:443":             "api.example:443",
		"dns://192.0.2.53/API.example.:443":  "api.example:443",
		"dns:api.example":                    "api.example",
		"passthrough:///[2001:db8::1]:50051": "[2001:db8::1]:50051",
	} {
		key, ok := httplimit.ByHost()(nil, &http.Request{URL: &url.URL{Host: endpoint(target)}})
		require.True(t, ok, target)
		require.Equal(t, want, string(key), target)
	}
	require.Equal(t, "tmp/socket", endpoint("unix:///tmp/socket"))
	require.Equal(t, "socket", endpoint("unix:socket"))
}

// A call of a client holds its units until it has ended, a stream for as long as it lasts, however it ends.
func TestClient_ACallHoldsItsUnitsUntilItEnds(t *testing.T) {
	for name, end := range map[string]func(stream grpc.ClientStream, cancel func(), conn *grpc.ClientConn){
		"the client closes": func(stream grpc.ClientStream, _ func(), _ *grpc.ClientConn) {
			_ = stream.CloseSend()
			require.ErrorIs(t, stream.RecvMsg(new(wrapperspb.BytesValue)), io.EOF)
		},
		"its context ends":      func(_ grpc.ClientStream, cancel func(), _ *grpc.ClientConn) { cancel() },
		"its connection closes": func(_ grpc.ClientStream, _ func(), conn *grpc.ClientConn) { conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := sash.Must(sash.New(sash.AtOnce(1, time.Hour), sash.WithSweepInterval(-1)))
				tr := &httplimit.Transport{Limiter: l, Key: httplimit.Everyone()}
				conn := dialBuffer(t, new(echo))
				left := func() int64 { return l.Peek("", 0).Remaining }
				unary := UnaryClientInterceptor(tr)
				for _, answer := range []error{nil, status.Error(codes.NotFound, "gone")} {
					err := unary(t.Context(), sayMethod, nil, nil, conn, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
						require.Zero(t, left())
						return answer
					})
					require.Equal(t, status.Code(answer), status.Code(err))
					require.EqualValues(t, 1, left())
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				open := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
					return conn.NewStream(ctx, desc, method, options...)
				}
				stream, err := StreamClientInterceptor(tr)(ctx, &chatDesc, conn, chatMethod, open)
				require.NoError(t, err)
				require.NoError(t, stream.SendMsg(message(t, 10)))
				require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
				require.Zero(t, left())
				end(stream, cancel, conn)
				synctest.Wait()
				require.EqualValues(t, 1, left())
				_, err = StreamClientInterceptor(tr)(t.Context(), &chatDesc, conn, chatMethod,
					func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
						require.Zero(t, left())
						return nil, io.ErrUnexpectedEOF
					})
				require.Error(t, err)
				require.EqualValues(t, 1, left())
			})
		})
	}
}
