package grpctest

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/connectlimit"
	"github.com/seed-30da4c49/sash/grpclimit"
	"github.com/seed-30da4c49/sash/httplimit"
)

// held returns for how long err, of a call under NoWait, says that its key is held back.
func held(t *testing.T, err error) time.Duration {
	t.Helper()
	var turn *httplimit.TurnError
	require.ErrorAs(t, err, &turn)
	require.True(t, turn.Held)
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
	wait, _, _ := detailsOf(t, err)
	require.Equal(t, turn.RetryAfter, wait)
	return wait
}

// chat opens a stream, and returns how it ends.
func chat(ctx context.Context, c *client) error {
	bidi := c.CallBidiStream(ctx)
	err := bidi.CloseRequest()
	if err == nil {
		_, err = bidi.Receive()
	}
	if fault := bidi.CloseResponse(); fault != nil {
		return fault
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func TestClient_WaitsExactlyAsLongAsTheServerAsks(t *testing.T) {
	for name, options := range protocols {
		for procedure, call := range map[string]func(context.Context, *client) error{sayProcedure: say, chatProcedure: chat} {
			t.Run(name+procedure, func(t *testing.T) {
				l, clock := limiter(t, everyone("all", sash.Per(1, 90*time.Second+7*time.Nanosecond).Log()))
				server := serve(t, &echo{}, limited(l))
				require.NoError(t, say(t.Context(), dial(t, server.URL, sayProcedure)))
				tr := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}
				c := dial(t, server.URL, procedure, append(options, connect.WithInterceptors(connectlimit.NewClientInterceptor(tr)))...)
				err := call(t.Context(), c)
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
				_, _, quotas := detailsOf(t, err)
				require.Equal(t, []string{"all"}, quotas, "of the server")
				require.Equal(t, 90*time.Second+7, held(t, call(t.Context(), c)))
				clock.Advance(90*time.Second + 6)
				require.Equal(t, time.Duration(1), held(t, call(t.Context(), c)))
				clock.Advance(1)
				require.NoError(t, call(t.Context(), c))
				err = call(t.Context(), c)
				require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err), "the RateLimit of an admitted call holds nothing back")
				_, _, quotas = detailsOf(t, err)
				require.Equal(t, []string{"all"}, quotas, "of the server")
			})
		}
	}
}

func TestClient_ObeysServersOfGRPCGo(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.Per(1, time.Minute+time.Nanosecond).Log()))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		m := new(value)
		if err := stream.RecvMsg(m); err != nil {
			return err
		}
		return stream.SendMsg(m)
	}), grpc.StreamInterceptor(grpclimit.StreamServerInterceptor(l)))
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	url := "http://" + listener.Addr().String()
	require.NoError(t, say(t.Context(), dial(t, url, sayProcedure, connect.WithGRPC())))
	tr := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}
	c := dial(t, url, sayProcedure, connect.WithGRPC(), connect.WithInterceptors(connectlimit.NewClientInterceptor(tr)))
	err = say(t.Context(), c)
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
	require.Equal(t, time.Minute+time.Nanosecond, held(t, say(t.Context(), c)))
}

// sends is a stream that is never sent: what it embeds is nil.
type sends struct {
	connect.StreamingClientConn
	header http.Header
}

func (sends) Spec() connect.Spec           { return connect.Spec{Procedure: chatProcedure, IsClient: true} }
func (sends) Peer() connect.Peer           { return connect.Peer{Addr: "api.example"} }
func (s sends) RequestHeader() http.Header { return s.header }

// All goroutines of a bubble end, or the test fails.
func TestClient_GivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		l := sash.Must(sash.New(sash.PerMinute(1).Log(), sash.WithSweepInterval(-1)))
		tr := &httplimit.Transport{Limiter: l, Key: httplimit.Join(httplimit.ByHost(), connectlimit.ByMethod(), httplimit.ByHeader("Tenant"))}
		open := func(ctx context.Context) connect.StreamingClientConn {
			return connectlimit.NewClientInterceptor(tr).WrapStreamingClient(func(context.Context, connect.Spec) connect.StreamingClientConn {
				return sends{header: http.Header{"Tenant": {"a"}}}
			})(ctx, connect.Spec{})
		}
		_, err := tr.Admit(request(t, open(t.Context())))
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		conn := open(ctx)
		received := make(chan error, 1)
		go func() { received <- conn.Receive(new(value)) }()
		sent := make(chan error, 1)
		go func() { sent <- conn.Send(new(value)) }()
		synctest.Wait()
		require.Empty(t, sent)
		cancel()
		err = <-sent
		require.Equal(t, connect.CodeCanceled, connect.CodeOf(err))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, connect.CodeCanceled, connect.CodeOf(<-received))
		require.Error(t, conn.CloseRequest())
		require.NoError(t, conn.CloseResponse())
		require.Empty(t, conn.ResponseHeader())
		require.Empty(t, conn.ResponseTrailer())

		ctx, cancel = context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		err = open(ctx).CloseRequest()
		require.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err))
		require.Equal(t, time.Duration(0), time.Since(start), "at once")

		// One that never sends ends with its context as well.
		conn = open(ctx)
		require.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(conn.Receive(new(value))))
		require.NoError(t, conn.CloseResponse())
	})
}

// A stream is not sent after a KeyFunc has panicked, even if the caller recovers and goes on.
func TestClient_SendsNoStreamWhoseKeyPanics(t *testing.T) {
	tr := &httplimit.Transport{
		Limiter: outgoing(t, generous, sash.WithClock(sash.NewManualClock(0))),
		Key:     func([]byte, *http.Request) ([]byte, bool) { panic("fault") },
	}
	conn := connectlimit.NewClientInterceptor(tr).WrapStreamingClient(func(context.Context, connect.Spec) connect.StreamingClientConn {
		return sends{header: http.Header{}}
	})(t.Context(), connect.Spec{})
	require.PanicsWithValue(t, "fault", func() { _ = conn.Send(new(value)) })
	require.Equal(t, connect.CodeInternal, connect.CodeOf(conn.Send(new(value))))
	require.Equal(t, connect.CodeInternal, connect.CodeOf(conn.Receive(new(value))))
}

// request returns the request by which a stream is keyed.
func request(t *testing.T, conn connect.StreamingClientConn) *http.Request {
	r, err := http.NewRequest("POST", "http://"+conn.Peer().Addr+conn.Spec().Procedure, nil)
	require.NoError(t, err)
	r.Header = conn.RequestHeader()
	return r
}

func TestClient_TellsWhyACallIsNotSent(t *testing.T) {
	tr := &httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(sash.NewManualClock(0))), Cost: func(*http.Request) int64 { return 2_000_000 }}
	c := dial(t, "http://api.example", sayProcedure, connect.WithInterceptors(connectlimit.NewClientInterceptor(tr)))
	err := say(t.Context(), c)
	require.Equal(t, connect.CodeResourceExhausted, connect.CodeOf(err))
	require.ErrorIs(t, err, sash.ErrExceedsLimit)
	c = dial(t, "http://api.example", sayProcedure, connect.WithInterceptors(connectlimit.NewClientInterceptor(new(httplimit.Transport))))
	require.Equal(t, connect.CodeInternal, connect.CodeOf(say(t.Context(), c)))
}

// A list of interceptors may be shared by clients and handlers.
func TestInterceptors_LeaveTheOtherSideAlone(t *testing.T) {
	l, clock := limiter(t, everyone("all", sash.PerMinute(1).Log()))
	both := connect.WithInterceptors(connectlimit.NewInterceptor(l), connectlimit.NewClientInterceptor(&httplimit.Transport{Limiter: outgoing(t, generous, sash.WithClock(clock)), NoWait: true}))
	server := serve(t, &echo{}, both)
	require.NoError(t, say(t.Context(), dial(t, server.URL, sayProcedure, both)))
	require.EqualValues(t, 0, left(t, l, "all"))
	require.Error(t, say(t.Context(), dial(t, server.URL, sayProcedure, both)))
	require.Equal(t, time.Minute, held(t, say(t.Context(), dial(t, server.URL, sayProcedure, both))))
}

// A call of a client holds its units until it has ended, a stream for as long as it lasts, however it ends.
func TestClient_ACallHoldsItsUnitsUntilItEnds(t *testing.T) {
	type bidi = connect.BidiStreamForClient[value, value]
	for name, end := range map[string]func(s *bidi, cancel func()){
		"the server ends it": func(s *bidi, _ func()) {
			require.NoError(t, s.CloseRequest())
			_, err := s.Receive()
			require.ErrorIs(t, err, io.EOF)
		},
		"the client closes": func(s *bidi, _ func()) { _, _ = s.CloseRequest(), s.CloseResponse() },
		"its context ends":  func(_ *bidi, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			l := outgoing(t, sash.AtOnce(1, time.Hour))
			tr := &httplimit.Transport{Limiter: l, Key: httplimit.Everyone()}
			left := func() int64 { return l.Peek("", 0).Remaining }
			answer := error(nil)
			server := serve(t, &echo{say: func(_ context.Context, request *connect.Request[value]) (*connect.Response[value], error) {
				require.Zero(t, left())
				return connect.NewResponse(request.Msg), answer
			}})
			held := connect.WithInterceptors(connectlimit.NewClientInterceptor(tr))
			for _, answer = range []error{nil, connect.NewError(connect.CodeNotFound, errors.New("gone"))} {
				err := say(t.Context(), dial(t, server.URL, sayProcedure, held))
				require.Equal(t, answer == nil, err == nil)
				require.EqualValues(t, 1, left())
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream := dial(t, server.URL, chatProcedure, held).CallBidiStream(ctx)
			require.NoError(t, stream.Send(message(10)))
			_, err := stream.Receive()
			require.NoError(t, err)
			require.Zero(t, left())
			end(stream, cancel)
			require.Eventually(t, func() bool { return left() == 1 }, time.Minute, time.Millisecond)
			_ = stream.CloseResponse() // so the server can close: the transport of net/http notices that the context is done
		})
	}
}
