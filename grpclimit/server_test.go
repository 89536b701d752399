package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func TestServer_AdmitsExactlyTheLimitOf20000Calls(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(7_000).Log()))
	var served atomic.Int64
	target := serve(t, &echo{say: func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		served.Add(1)
		return m, nil
	}}, limited(l)...)
	conn := dial(t, target)
	var admitted, denied, calls atomic.Int64
	var callers sync.WaitGroup
	for range 16 {
		callers.Go(func() {
			for calls.Add(1) <= 20_000 {
				switch err := say(context.Background(), conn); status.Code(err) {
				case codes.OK:
					admitted.Add(1)
				case codes.ResourceExhausted:
					denied.Add(1)
				}
			}
		})
	}
	callers.Wait()
	require.EqualValues(t, 7_000, admitted.Load())
	require.EqualValues(t, 13_000, denied.Load())
	require.EqualValues(t, 7_000, served.Load())
}

func TestServer_TellsTheExactWait(t *testing.T) {
	l, clock := limiter(t,
		everyone("slow", sash.Per(2, 7*time.Second+123*time.Nanosecond).Log()),
		everyone("fast", sash.PerSecond(1000).Counter()))
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	require.NoError(t, say(t.Context(), conn))
	clock.Advance(time.Second + time.Nanosecond)
	require.NoError(t, say(t.Context(), conn))
	clock.Advance(time.Millisecond)

	var header, trailer metadata.MD
	err := say(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, ok := retryDelay(err)
	require.True(t, ok)
	require.Equal(t, 6*time.Second-time.Millisecond+122*time.Nanosecond, wait)
	require.Equal(t, []string{"slow"}, violated(err))
	require.Empty(t, header, "the answer is a trailer alone, so that clients may retry")
	require.Equal(t, []string{"6000"}, trailer["grpc-retry-pushback-ms"], "rounded up")
	require.Equal(t, []string{"6"}, trailer["retry-after"], "rounded up")
	require.Equal(t, []string{`"slow";r=0;t=6, "fast";r=998;t=1`}, trailer["ratelimit"])

	clock.Advance(wait - 1)
	again, ok := retryDelay(say(t.Context(), conn))
	require.True(t, ok, "denied a nanosecond before")
	require.Equal(t, time.Nanosecond, again)
	clock.Advance(1)
	require.NoError(t, say(t.Context(), conn))
}

// A downStore is a store that cannot decide, and denies.
type downStore struct{ httplimit.Store }

func (downStore) Take(context.Context, []string, int64, []int64) httplimit.StoreDecision {
	denial := sash.Decision{Limit: sash.Unlimited(), RetryAfter: 1500 * time.Millisecond}
	return httplimit.StoreDecision{Decision: denial, Keys: []httplimit.KeyDecision{{Decision: denial}}, By: "fallback", Err: errors.New("refused")}
}

func (downStore) Close() error { return nil }

func TestServer_IsUnavailableIfTheStoreCannotDecide(t *testing.T) {
	l := httplimit.Must(httplimit.New(everyone("all", sash.PerSecond(1).Log()), httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) {
		return downStore{}, nil
	})))
	t.Cleanup(func() { l.Close() })
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	var trailer metadata.MD
	err := say(t.Context(), conn, grpc.Trailer(&trailer))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Empty(t, status.Convert(err).Details())
	require.Equal(t, []string{"2"}, trailer["retry-after"], "rounded up")
	require.Empty(t, trailer["grpc-retry-pushback-ms"])
}

func TestServer_OmitsTheWaitIfNoneWouldDo(t *testing.T) {
	p := everyone("bytes", sash.PerMinute(100).Log())
	p.Cost = MessageBytes
	l, _ := limiter(t, p)
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	var trailer metadata.MD
	err := conn.Invoke(t.Context(), sayMethod, message(t, 101), &wrapperspb.BytesValue{}, grpc.Trailer(&trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, ok := retryDelay(err)
	require.False(t, ok)
	require.Equal(t, []string{"bytes"}, violated(err))
	require.Equal(t, []string{"-1"}, trailer["grpc-retry-pushback-ms"])
	require.NoError(t, conn.Invoke(t.Context(), sayMethod, message(t, 100), &wrapperspb.BytesValue{}))
	require.EqualValues(t, 0, left(t, l, "bytes"))
}

func TestServer_LeavesUnitsToUrgentCalls(t *testing.T) {
	p := everyone("all", sash.PerMinute(4).Log())
	p.Leave = func(r *http.Request) int64 {
		if r.Header.Get("X-Class") == "background" {
			return 1
		}
		return 0
	}
	l, _ := limiter(t, p)
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	background := metadata.AppendToOutgoingContext(t.Context(), "x-class", "background")
	for range 3 {
		require.NoError(t, say(background, conn))
	}
	err := say(background, conn)
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, ok := retryDelay(err)
	require.True(t, ok)
	require.Equal(t, time.Minute, wait)
	require.NoError(t, say(t.Context(), conn))
	require.EqualValues(t, 0, left(t, l, "all"))
}

func TestServer_TellsQuotasInTheHeaderOfAnAdmittedCall(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(100)))
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	var header, trailer metadata.MD
	require.NoError(t, say(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer)))
	require.Equal(t, []string{`"all";q=100;w=60`}, header["ratelimit-policy"])
	require.Len(t, header["ratelimit"], 1)
	require.Empty(t, trailer)

	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message(t, 10)))
	header, err = stream.Header()
	require.NoError(t, err)
	require.Len(t, header["ratelimit"], 1)
	require.NoError(t, stream.CloseSend())
}

func TestServer_TellsQuotasInTheTrailerIfTheHandlerHasSentTheHeader(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(100)))
	sends := func(ctx context.Context) error { return grpc.SendHeader(ctx, metadata.Pairs("a", "1")) }
	conn := dial(t, serve(t, &echo{
		say: func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			return m, sends(ctx)
		},
		chat: func(stream grpc.ServerStream) error { return errors.Join(sends(stream.Context()), chats(stream)) },
	}, limited(l)...))
	var header, trailer metadata.MD
	require.NoError(t, say(t.Context(), conn, grpc.Header(&header), grpc.Trailer(&trailer)))
	require.NotContains(t, header, "ratelimit")
	require.Len(t, trailer["ratelimit"], 1)

	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message(t, 10)))
	require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	require.NoError(t, stream.CloseSend())
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)))
	require.Len(t, stream.Trailer()["ratelimit"], 1)
}

// A retry policy as users of grpc-go have it.
const retries = `{"methodConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"3600s",` +
	`"maxBackoff":"3600s","backoffMultiplier":1,"retryableStatusCodes":["RESOURCE_EXHAUSTED","UNAVAILABLE"]}}]}`

func TestServer_PushesRetriesOfClientsBack(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.Per(1, time.Millisecond).Log()))
	denials := 0
	advance := func(err error) {
		if err != nil {
			denials++
			clock.Advance(time.Millisecond) // which the client waits for, and not an hour
		}
	}
	options := append([]grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			response, err := handler(ctx, m)
			advance(err)
			return response, err
		}),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			err := handler(srv, stream)
			advance(err)
			return err
		}),
	}, limited(l)...)
	conn := dial(t, serve(t, &echo{}, options...), grpc.WithDefaultServiceConfig(retries))
	require.NoError(t, say(t.Context(), conn))
	require.NoError(t, say(t.Context(), conn))
	require.Equal(t, 1, denials)

	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message(t, 10)))
	require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	require.Equal(t, 2, denials)
}

func TestServer_DoesNotKeepClientsFromRetryingCallsThatFail(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(100)))
	fails := func(ctx context.Context) error {
		require.NoError(t, grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "0")))
		return status.Error(codes.Unavailable, "for now")
	}
	attempts := 0
	conn := dial(t, serve(t, &echo{
		say: func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
			if attempts++; attempts < 3 {
				return nil, fails(ctx)
			}
			return m, nil
		},
		chat: func(stream grpc.ServerStream) error {
			if attempts++; attempts < 3 {
				return fails(stream.Context())
			}
			return chats(stream)
		},
	}, limited(l)...), grpc.WithDefaultServiceConfig(retries))
	require.NoError(t, say(t.Context(), conn))
	require.Equal(t, 3, attempts)

	attempts = 0
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.NoError(t, stream.SendMsg(message(t, 10)))
	require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	require.Equal(t, 3, attempts)
}

func TestServer_RefusesCallsOfNobodyAndOfBrokenPolicies(t *testing.T) {
	nobody := everyone("keyed", sash.PerMinute(5))
	nobody.Key = httplimit.ByHeader("x-api-key")
	broken := everyone("broken", sash.PerMinute(5))
	broken.Pattern = chatMethod
	broken.Cost = func(*http.Request) int64 { panic(http.ErrAbortHandler) }
	l, _ := limiter(t, nobody, broken)
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	var trailer metadata.MD
	err := say(t.Context(), conn, grpc.Trailer(&trailer))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.NotContains(t, trailer, "grpc-retry-pushback-ms")
	twice := metadata.AppendToOutgoingContext(t.Context(), "X-Api-Key", "a", "x-api-key", "b")
	require.Equal(t, codes.InvalidArgument, status.Code(say(twice, conn)))
	once := metadata.AppendToOutgoingContext(t.Context(), "X-API-Key", "a")
	require.NoError(t, say(once, conn))

	stream, err := conn.NewStream(once, &chatDesc, chatMethod)
	require.NoError(t, err)
	require.Equal(t, codes.Internal, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
}

func TestServer_DescribesCallsToPolicies(t *testing.T) {
	seen := make(chan *http.Request, 1)
	p := everyone("all", sash.PerMinute(100))
	p.Skip = func(r *http.Request) bool { seen <- r; return false }
	say1 := everyone("say", sash.PerMinute(100))
	say1.Pattern = "POST " + sayMethod
	service := everyone("service", sash.PerMinute(100))
	service.Pattern = "/test.Echo/"
	other := everyone("other", sash.PerMinute(100))
	other.Pattern = "/test.Other/"
	host := everyone("host", sash.PerMinute(100))
	host.Pattern = "api.example/"
	l, _ := limiter(t, p, say1, service, other, host)
	conn := dial(t, serve(t, &echo{}, limited(l)...), grpc.WithAuthority("API.example:99"))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "192.0.2.1", "x-forwarded-for", "192.0.2.2", "raw-bin", "\x00\xff")
	require.NoError(t, conn.Invoke(ctx, sayMethod, message(t, 12), new(wrapperspb.BytesValue)))
	r := <-seen
	require.Equal(t, []any{"POST", sayMethod, "API.example:99"}, []any{r.Method, r.URL.Path, r.Host})
	require.Equal(t, []string{"192.0.2.1", "192.0.2.2"}, r.Header["X-Forwarded-For"])
	require.Equal(t, "\x00\xff", r.Header.Get("Raw-Bin"))
	require.NotContains(t, r.Header, ":authority")
	require.Equal(t, "127.0.0.1", netip.MustParseAddrPort(r.RemoteAddr).Addr().String())
	require.Nil(t, r.TLS)
	require.Len(t, MessageOf(r.Context()).(*wrapperspb.BytesValue).Value, 10)
	require.EqualValues(t, 12, MessageBytes(r))
	require.NotNil(t, r.Context().Value(http.LocalAddrContextKey))

	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	require.NoError(t, stream.CloseSend())
	require.Equal(t, io.EOF, stream.RecvMsg(new(wrapperspb.BytesValue)), "the stream is charged by then")
	r = <-seen
	require.Equal(t, chatMethod, r.URL.Path)
	require.Nil(t, MessageOf(r.Context()))
	require.EqualValues(t, 0, MessageBytes(r))
	for name, want := range map[string]int64{"say": 99, "service": 98, "other": 100, "host": 98} {
		require.Equal(t, want, left(t, l, name), name)
	}
}

func TestServer_BelievesTrustedProxiesOnly(t *testing.T) {
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8")))
	direct := everyone("direct", sash.PerMinute(4))
	direct.Key = httplimit.ByAddress()
	l, _ := limiter(t, p, direct)
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	from := func(forwardedFor string) codes.Code {
		return status.Code(say(metadata.AppendToOutgoingContext(t.Context(), "X-Forwarded-For", forwardedFor), conn))
	}
	require.Equal(t, codes.OK, from("198.51.100.1"))
	require.Equal(t, codes.ResourceExhausted, from("203.0.113.9, 198.51.100.1, 10.0.0.7"))
	require.Equal(t, codes.OK, from("198.51.100.2, 10.0.0.7"))
	require.Equal(t, codes.InvalidArgument, from("unknown"))
	require.Equal(t, codes.OK, from("198.51.100.3"))
	require.Equal(t, codes.OK, from("198.51.100.4"))
	require.Equal(t, codes.ResourceExhausted, from("198.51.100.5"), "the proxy itself has used its own quota up")
}

func TestServer_KnowsUnixSocketsAndTransportsWithoutAddresses(t *testing.T) {
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.ByAddress(httplimit.TrustUnixSocket())
	l, _ := limiter(t, p)
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	serveOn(t, socket, &echo{}, limited(l)...)
	conn := dial(t, "unix:"+socket.Addr().String())
	require.Equal(t, codes.InvalidArgument, status.Code(say(t.Context(), conn)))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "198.51.100.1")
	require.NoError(t, say(ctx, conn))
	require.Equal(t, codes.ResourceExhausted, status.Code(say(ctx, conn)))

	require.Equal(t, codes.InvalidArgument, status.Code(say(ctx, dialBuffer(t, &echo{}, limited(l)...))))
}

// Where no proxy is trusted, those who call without an address are one client.
func TestServer_LimitsUnixSocketsAndBuffersByAddress(t *testing.T) {
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.ByAddress()
	l, _ := limiter(t, p)
	conn := dialBuffer(t, &echo{}, limited(l)...)
	require.NoError(t, say(t.Context(), conn))
	require.Equal(t, codes.ResourceExhausted, status.Code(say(t.Context(), conn)))

	l, _ = limiter(t, p)
	conn = dialSocket(t, &echo{}, limited(l)...)
	require.NoError(t, say(t.Context(), conn))
	require.Equal(t, codes.ResourceExhausted, status.Code(say(t.Context(), conn)))
}

// A message comes from where its stream comes from.
func TestStream_LimitsMessagesOnUnixSocketsAndBuffersByAddress(t *testing.T) {
	calls, _ := limiter(t, everyone("calls", sash.PerMinute(100)))
	for name, option := range map[string]func(*httplimit.Limiter) Option{"received": LimitReceived, "sent": LimitSent} {
		t.Run(name, func(t *testing.T) {
			check := func(serve func(options ...grpc.ServerOption) *grpc.ClientConn) {
				p := everyone("messages", sash.PerMinute(1))
				p.Key = httplimit.ByAddress()
				messages, _ := limiter(t, p)
				stream, err := serve(limited(calls, option(messages))...).NewStream(t.Context(), &chatDesc, chatMethod)
				require.NoError(t, err)
				for _, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
					require.NoError(t, stream.SendMsg(message(t, 10)))
					require.Equal(t, want, status.Code(stream.RecvMsg(new(wrapperspb.BytesValue))))
				}
			}
			check(func(options ...grpc.ServerOption) *grpc.ClientConn { return dialBuffer(t, &echo{}, options...) })
			check(func(options ...grpc.ServerOption) *grpc.ClientConn { return dialSocket(t, &echo{}, options...) })
		})
	}
}

// A transport within the process may call interceptors with a bare context.
func TestServer_WorksWithoutAPeerMetadataOrTransport(t *testing.T) {
	l, _ := limiter(t, everyone("all", sash.PerMinute(1)))
	require.NoError(t, ask(t.Context(), l, "no/slash", "no protobuf", nil, RecordMetadata()))
	require.Equal(t, codes.ResourceExhausted, status.Code(ask(t.Context(), l, "", "no protobuf", nil, RecordMetadata())))

	address := everyone("all", sash.PerMinute(1))
	address.Key = httplimit.ByAddress()
	l, _ = limiter(t, address)
	require.Equal(t, codes.InvalidArgument, status.Code(ask(t.Context(), l, "/a/b", nil, nil)))
}

func TestServer_KnowsNoOtherSpellingOfAMethod(t *testing.T) {
	p := everyone("all", sash.PerMinute(2))
	p.Pattern, p.Key = "/test.Echo/", ByMethod()
	l, _ := limiter(t, p)
	call := func(method string) codes.Code { return status.Code(ask(t.Context(), l, method, nil, nil)) }
	require.Equal(t, codes.OK, call("/test.Echo/Say"))
	require.Equal(t, codes.OK, call("test.Echo/Say"))
	require.Equal(t, codes.ResourceExhausted, call("test.Echo/Say"))
	require.Equal(t, codes.OK, call("/test.Echo/Chat"))
}

func TestServer_KnowsTheTLSOfACall(t *testing.T) {
	certified := httptest.NewTLSServer(nil) // for its certificate
	defer certified.Close()
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.By(func(r *http.Request) (string, bool) {
		if r.TLS == nil {
			return "", false
		}
		return r.TLS.ServerName, true
	})
	l, _ := limiter(t, p)
	target := serve(t, &echo{}, append(limited(l), grpc.Creds(credentials.NewServerTLSFromCert(&certified.TLS.Certificates[0])))...)
	call := func(name string) codes.Code {
		trusted := certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		return status.Code(say(t.Context(), dial(t, target, grpc.WithTransportCredentials(credentials.NewClientTLSFromCert(trusted, name)))))
	}
	require.Equal(t, codes.OK, call("a.example.com"))
	require.Equal(t, codes.ResourceExhausted, call("a.example.com"))
	require.Equal(t, codes.OK, call("b.example.com"))
}

// settled serves calls whose handler is a function of the test, and tells what they were
// charged once they are settled.
type settled struct {
	*echo
	conn    *grpc.ClientConn
	limiter *httplimit.Limiter
	done    chan struct{} // a call is settled
}

// recovers answers a panic as a server does that recovers.
func recovers(err *error) {
	if fault := recover(); fault != nil {
		*err = status.Error(codes.Internal, fmt.Sprint(fault))
	}
}

func newSettled(t *testing.T, options []Option, policies ...httplimit.Option) *settled {
	s := &settled{echo: &echo{}, done: make(chan struct{}, 1)}
	s.limiter, _ = limiter(t, policies...)
	target := serve(t, s.echo,
		grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
			defer func() { s.done <- struct{}{} }()
			defer recovers(&err)
			return handler(ctx, m)
		}, UnaryServerInterceptor(s.limiter, options...)),
		grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
			defer func() { s.done <- struct{}{} }()
			defer recovers(&err)
			return handler(srv, stream)
		}, StreamServerInterceptor(s.limiter, options...)))
	s.conn = dial(t, target)
	return s
}

// call makes a call whose handler is say, and returns what is then left of a policy.
func (s *settled) call(t *testing.T, policy string, say func(context.Context) (*wrapperspb.BytesValue, error)) int64 {
	s.say = func(ctx context.Context, _ *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return say(ctx) }
	_ = s.conn.Invoke(t.Context(), sayMethod, message(t, 10), new(wrapperspb.BytesValue))
	<-s.done
	return left(t, s.limiter, policy)
}

func TestServer_ChargesByTheCodeOfTheAnswer(t *testing.T) {
	p := everyone("login", sash.PerMinute(100).Log())
	p.Charge = func(code int) bool { return codes.Code(code) == codes.Unauthenticated }
	s := newSettled(t, nil, p)
	want := int64(100)
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if code == codes.Unauthenticated {
			want--
		}
		require.Equal(t, want, s.call(t, "login", func(context.Context) (*wrapperspb.BytesValue, error) {
			return message(t, 0), status.Error(code, "")
		}), code)
	}
	want--
	require.Equal(t, want, s.call(t, "login", func(context.Context) (*wrapperspb.BytesValue, error) {
		return nil, fmt.Errorf("wrapped: %w", status.Error(codes.Unauthenticated, ""))
	}))
	require.Equal(t, want, s.call(t, "login", func(context.Context) (*wrapperspb.BytesValue, error) {
		return nil, fmt.Errorf("wrapped: %w", context.DeadlineExceeded) // of the handler's own; grpc-go answers DEADLINE_EXCEEDED
	}))
	want--
	require.Equal(t, want, s.call(t, "login", func(context.Context) (*wrapperspb.BytesValue, error) { panic("fault") }),
		"the answer of a panic is uncertain")
}

func TestServer_SettlesByTheBytesTheHandlerAndItsMetadata(t *testing.T) {
	by := func(name string, settle func(*httplimit.Response) int64) httplimit.Policy {
		p := everyone(name, sash.PerMinute(10_000).Log())
		p.Settle, p.Cost = settle, func(*http.Request) int64 { return 100 }
		return p
	}
	s := newSettled(t, []Option{RecordMetadata()},
		by("bytes", httplimit.SettleBytes()), by("header", httplimit.SettleHeader("x-cost")), by("handler", httplimit.SettleEstimate()))
	require.EqualValues(t, 10_000-50, s.call(t, "bytes", func(ctx context.Context) (*wrapperspb.BytesValue, error) {
		httplimit.ChargeOf(ctx, "handler").Commit(7)
		return message(t, 50), grpc.SetTrailer(ctx, metadata.Pairs("x-cost", "3"))
	}))
	require.EqualValues(t, 10_000-3, left(t, s.limiter, "header"))
	require.EqualValues(t, 10_000-7, left(t, s.limiter, "handler"))

	require.EqualValues(t, 10_000-50-100, s.call(t, "bytes", func(ctx context.Context) (*wrapperspb.BytesValue, error) {
		httplimit.ChargeOf(ctx, "handler").Cancel()
		panic("fault")
	}), "the estimate stays")
	require.EqualValues(t, 10_000-3-100, left(t, s.limiter, "header"))
	require.EqualValues(t, 10_000-7, left(t, s.limiter, "handler"), "what the handler says holds")

	require.EqualValues(t, 10_000-50-100, s.call(t, "bytes", func(ctx context.Context) (*wrapperspb.BytesValue, error) {
		require.NoError(t, grpc.SendHeader(ctx, metadata.Pairs("x-cost", "9")))
		return message(t, 50), status.Error(codes.NotFound, "")
	}), "no message was sent")
	require.EqualValues(t, 10_000-3-100-9, left(t, s.limiter, "header"))
}

func TestServer_KeepsTheChargeOfACallThatItsClientAborts(t *testing.T) {
	p := everyone("kept", sash.PerMinute(100).Log())
	p.Charge = func(int) bool { return false }
	back := everyone("back", sash.PerMinute(100).Log())
	var uncertain atomic.Int64
	back.ChargeUncertain = func(code int) bool { uncertain.Store(int64(code)); return false }
	s := newSettled(t, nil, p, back)
	ctx, cancel := context.WithCancel(t.Context())
	s.say = func(handled context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
		cancel()
		<-handled.Done()
		return m, nil
	}
	require.Equal(t, codes.Canceled, status.Code(say(ctx, s.conn)))
	<-s.done
	require.EqualValues(t, 99, left(t, s.limiter, "kept"))
	require.EqualValues(t, 100, left(t, s.limiter, "back"))
	require.EqualValues(t, codes.Canceled, uncertain.Load())

	// A client that sets a deadline cancels the call as well, so a server may see either.
	ctx, cancel = context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	require.NoError(t, ask(ctx, s.limiter, sayMethod, nil, message(t, 10)))
	require.EqualValues(t, 98, left(t, s.limiter, "kept"))
	require.EqualValues(t, 100, left(t, s.limiter, "back"))
	require.EqualValues(t, codes.DeadlineExceeded, uncertain.Load())
}

func TestServer_LetsCallsAndMessagesWaitInAQueue(t *testing.T) {
	asked := make(chan struct{}, 4)
	p := everyone("queue", sash.PerMinute(1).Log())
	p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 5}
	p.Cost = func(*http.Request) int64 { asked <- struct{}{}; return 1 }
	s := newSettled(t, nil, p)
	clock := s.limiter.Sash().Clock().(*sash.ManualClock)
	answered := make(chan error, 1)
	require.NoError(t, say(t.Context(), s.conn))
	<-s.done
	<-asked

	go func() { answered <- say(t.Context(), s.conn) }()
	<-asked
	clock.Advance(time.Minute)
	require.NoError(t, <-answered)
	<-s.done

	ctx, cancel := context.WithCancel(t.Context())
	go func() { answered <- say(ctx, s.conn) }()
	<-asked
	cancel()
	require.Equal(t, codes.Canceled, status.Code(<-answered))
	<-s.done
	clock.Advance(time.Minute)
	require.EqualValues(t, 1, left(t, s.limiter, "queue"), "a call whose client has gone is charged nothing")

	calls, _ := limiter(t, everyone("calls", sash.PerMinute(100)))
	conn := dial(t, serve(t, &echo{}, limited(calls, LimitReceived(s.limiter))...))
	stream, err := conn.NewStream(t.Context(), &chatDesc, chatMethod)
	require.NoError(t, err)
	for i := range 3 {
		require.NoError(t, stream.SendMsg(message(t, 10)))
		<-asked
		if i > 0 {
			clock.Advance(time.Minute)
		}
		require.NoError(t, stream.RecvMsg(new(wrapperspb.BytesValue)))
	}
}

func TestServer_TellsNothingAboutTheClient(t *testing.T) {
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.ByHeader("token")
	l, _ := limiter(t, p)
	conn := dial(t, serve(t, &echo{}, limited(l)...))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "token", "secret-of-alice")
	require.NoError(t, say(ctx, conn))
	var trailer metadata.MD
	err := say(ctx, conn, grpc.Trailer(&trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.NotContains(t, strings.ToLower(fmt.Sprint(status.Convert(err).Proto(), trailer)), "secret")
}

func TestServer_KeysCallsByTheAddressOfEachKindOfPeer(t *testing.T) {
	p := everyone("all", sash.PerMinute(1))
	p.Key = httplimit.ByAddress()
	l, _ := limiter(t, p)
	call := func(address string) codes.Code {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))})
		return status.Code(ask(ctx, l, sayMethod, nil, nil))
	}
	for address, same := range map[string]string{
		"192.0.2.1:1":         "[::ffff:192.0.2.1]:2",
		"[2001:db8::1]:1":     "[2001:db8::2]:2", // of one subnet
		"[fe80::1%eth0]:1":    "[fe80::1%eth0]:2",
		"[2001:db8:0:1::]:99": "[2001:db8:0:1:ffff::]:1",
	} {
		require.Equal(t, codes.OK, call(address), address)
		require.Equal(t, codes.ResourceExhausted, call(same), same)
	}
}

// A server of net/http may serve gRPC by ServeHTTP.
func TestServer_LimitsCallsThatAServerOfNetHTTPHandsOn(t *testing.T) {
	p := everyone("all", sash.PerMinute(1).Log())
	p.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("127.0.0.0/8")))
	l, _ := limiter(t, p)
	server := grpc.NewServer(limited(l)...)
	server.RegisterService(&echoDesc, &echo{say: says, chat: chats})
	defer server.Stop()
	web := httptest.NewUnstartedServer(server)
	web.Config.Protocols = new(http.Protocols)
	web.Config.Protocols.SetUnencryptedHTTP2(true)
	web.Start()
	t.Cleanup(web.Close)
	conn := dial(t, "passthrough:///"+web.Listener.Addr().String())
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "198.51.100.1", "x-forwarded-for", "127.0.0.2")
	require.NoError(t, say(ctx, conn))
	var trailer metadata.MD
	err := say(ctx, conn, grpc.Trailer(&trailer))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	wait, _ := retryDelay(err)
	require.Equal(t, time.Minute, wait)
	require.Equal(t, []string{"60000"}, trailer["grpc-retry-pushback-ms"])
	require.NoError(t, say(metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-for", "198.51.100.2"), conn))
}

// A unary call holds its slot until its handler has returned, failed or panicked, and a denial tells to come
// again soon.
func TestServer_ACallHoldsItsSlotUntilItEnds(t *testing.T) {
	for name, end := range map[string]func() error{
		"returns": func() error { return nil },
		"fails":   func() error { return status.Error(codes.NotFound, "gone") },
		"panics":  func() error { panic("fault") },
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := limiter(t, everyone("calls", sash.AtOnce(1, time.Hour)))
			var within error
			var conn *grpc.ClientConn
			conn = dialBuffer(t, &echo{say: func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) {
				if within == nil {
					within = say(ctx, conn)
				}
				return m, end()
			}}, grpc.ChainUnaryInterceptor(func(ctx context.Context, m any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (_ any, err error) {
				defer recovers(&err)
				return handler(ctx, m)
			}, UnaryServerInterceptor(l)))
			_ = say(t.Context(), conn)
			require.Equal(t, codes.ResourceExhausted, status.Code(within))
			delay, ok := retryDelay(within)
			require.True(t, ok)
			require.Equal(t, time.Second, delay)
			require.EqualValues(t, 1, left(t, l, "calls"))
		})
	}
}
