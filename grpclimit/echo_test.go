package grpclimit

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpctest"
)

// An echo is a service whose methods are functions of a test.
type echo struct {
	say  func(ctx context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error)
	chat func(stream grpc.ServerStream) error
}

const (
	sayMethod  = "/test.Echo/Say"
	chatMethod = "/test.Echo/Chat"
)

var chatDesc = grpc.StreamDesc{StreamName: "Chat", ServerStreams: true, ClientStreams: true,
	Handler: func(srv any, stream grpc.ServerStream) error { return srv.(*echo).chat(stream) }}

// echoDesc is what protoc-gen-go-grpc would generate.
var echoDesc = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Say", Handler: handleSay}},
	Streams:     []grpc.StreamDesc{chatDesc},
}

func handleSay(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
	m := new(wrapperspb.BytesValue)
	if err := decode(m); err != nil {
		return nil, err
	}
	handler := func(ctx context.Context, m any) (any, error) {
		return srv.(*echo).say(ctx, m.(*wrapperspb.BytesValue))
	}
	if interceptor == nil {
		return handler(ctx, m)
	}
	return interceptor(ctx, m, &grpc.UnaryServerInfo{Server: srv, FullMethod: sayMethod}, handler)
}

// says answers with the same message.
func says(_ context.Context, m *wrapperspb.BytesValue) (*wrapperspb.BytesValue, error) { return m, nil }

// chats answers each message with the same message.
func chats(stream grpc.ServerStream) error {
	for {
		m := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := stream.SendMsg(m); err != nil {
			return err
		}
	}
}

// serve serves e through a real connection, and returns its target.
func serve(t *testing.T, e *echo, options ...grpc.ServerOption) (target string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serveOn(t, listener, e, options...)
	return "passthrough:///" + listener.Addr().String()
}

func serveOn(t *testing.T, listener net.Listener, e *echo, options ...grpc.ServerOption) {
	if e.say == nil {
		e.say = says
	}
	if e.chat == nil {
		e.chat = chats
	}
	server := grpc.NewServer(options...)
	server.RegisterService(&echoDesc, e)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
}

// limited returns the options of a server with the interceptors of a limiter.
func limited(l *httplimit.Limiter, options ...Option) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(UnaryServerInterceptor(l, options...)),
		grpc.ChainStreamInterceptor(StreamServerInterceptor(l, options...)),
	}
}

// dial returns a connection to target.
func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient(target, options...)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// dialBuffer serves e on a connection in memory, which works in a bubble of synctest.
func dialBuffer(t *testing.T, e *echo, options ...grpc.ServerOption) *grpc.ClientConn {
	buffer := bufconn.Listen(1 << 16)
	serveOn(t, buffer, e, options...)
	return dial(t, "passthrough:///buffer", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return buffer.DialContext(ctx)
	}))
}

// dialSocket serves e on a Unix socket.
func dialSocket(t *testing.T, e *echo, options ...grpc.ServerOption) *grpc.ClientConn {
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	serveOn(t, socket, e, options...)
	return dial(t, "unix:"+socket.Addr().String())
}

// What the tests share with the tests of connectlimit.
var (
	limiter  = rpctest.Limiter
	outgoing = rpctest.Outgoing
	everyone = rpctest.Everyone
	left     = rpctest.Left
)

// generous is a limit of clients that no test reaches.
var generous = sash.PerSecond(1_000_000)

// message returns a message of that many bytes in binary form.
func message(t testing.TB, size int) *wrapperspb.BytesValue {
	m := &wrapperspb.BytesValue{}
	if size > 0 {
		m.Value = bytes.Repeat([]byte{'x'}, size-2) // the field's number and length
	}
	return m
}

// say calls Say with an empty message.
func say(ctx context.Context, conn *grpc.ClientConn, options ...grpc.CallOption) error {
	return conn.Invoke(ctx, sayMethod, &wrapperspb.BytesValue{}, &wrapperspb.BytesValue{}, options...)
}

// ask asks the interceptor of a limiter, without a connection, on a call whose handler answers.
func ask(ctx context.Context, l *httplimit.Limiter, method string, message, answer any, options ...Option) error {
	_, err := UnaryServerInterceptor(l, options...)(ctx, message, &grpc.UnaryServerInfo{FullMethod: method},
		func(context.Context, any) (any, error) { return answer, nil })
	return err
}

// retryDelay returns the RetryInfo in err.
func retryDelay(err error) (d time.Duration, ok bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.RetryDelay.AsDuration(), true
		}
	}
	return 0, false
}

// violated returns the quotas in the QuotaFailure in err.
func violated(err error) (quotas []string) {
	for _, detail := range status.Convert(err).Details() {
		if failure, ok := detail.(*errdetails.QuotaFailure); ok {
			for _, v := range failure.Violations {
				quotas = append(quotas, v.QuotaId)
			}
		}
	}
	return quotas
}
