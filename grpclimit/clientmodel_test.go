package grpclimit

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash/internal/clientmodel"
)

// TestModel_Clients runs the client interceptors against the server interceptors, and against other servers.
func TestModel_Clients(t *testing.T) { clientmodel.Test(t, protocol, 600) }

func TestModel_ObedientClientsAreNotSlower(t *testing.T) { clientmodel.TestThroughput(t, protocol, 60) }

// How a call is made.
const (
	unary          = iota
	streamed       // a message each way
	streamedAnswer // the client sends no message
)

var protocol = &clientmodel.Protocol{
	Kinds: []string{"unary", "stream", "stream of answers"},
	Classes: []clientmodel.Class{clientmodel.OK, clientmodel.OK, clientmodel.OK, clientmodel.Failed, clientmodel.Exhausted,
		clientmodel.Exhausted, clientmodel.Unavailable, clientmodel.TooLarge},
	Path: func(kind, method int) string { return modelMethods[min(kind, streamed)][method] },
	Open: openModel,
}

var modelMethods = [][]string{{"/test.Model/Say0", "/test.Model/Say1"}, {"/test.Model/Chat0", "/test.Model/Chat1"}}

// A modelSession is a server, and a connection for each host.
type modelSession struct {
	world  *clientmodel.World
	server *grpc.Server
	buffer *bufconn.Listener
	done   chan struct{}

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

func openModel(w *clientmodel.World) clientmodel.Session {
	s := &modelSession{world: w, buffer: bufconn.Listen(1 << 16), done: make(chan struct{}), conns: map[string]*grpc.ClientConn{}}
	s.server = grpc.NewServer(
		grpc.UnaryInterceptor(s.serveCalls(UnaryServerInterceptor(w.Limiter))),
		grpc.StreamInterceptor(s.serveStreams(StreamServerInterceptor(w.Limiter))))
	s.server.RegisterService(modelDesc(), s)
	go func() {
		defer close(s.done)
		_ = s.server.Serve(s.buffer)
	}()
	return s
}

// modelDesc describes two methods of each kind. Interceptors answer in place of their handlers.
func modelDesc() *grpc.ServiceDesc {
	desc := &grpc.ServiceDesc{ServiceName: "test.Model", HandlerType: (*any)(nil)}
	for i := range 2 {
		method := modelMethods[unary][i]
		desc.Methods = append(desc.Methods, grpc.MethodDesc{MethodName: name(method),
			Handler: func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
				m := new(wrapperspb.BytesValue)
				if err := decode(m); err != nil {
					return nil, err
				}
				return intercept(ctx, m, &grpc.UnaryServerInfo{FullMethod: method}, nil)
			}})
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: name(modelMethods[streamed][i]), ServerStreams: true, ClientStreams: true,
			Handler: func(any, grpc.ServerStream) error { return nil }})
	}
	return desc
}

// serveCalls answers calls, which limit decides if their host has policies.
func (s *modelSession) serveCalls(limit grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, m any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		answer, limited, err := s.arrive(ctx)
		if err != nil {
			return nil, err
		}
		handler := func(ctx context.Context, _ any) (any, error) {
			return s.answer(&answer, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
		}
		if limited {
			return limit(ctx, m, info, handler)
		}
		return handler(ctx, m)
	}
}

// serveStreams is serveCalls for streams.
func (s *modelSession) serveStreams(limit grpc.StreamServerInterceptor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
		answer, limited, err := s.arrive(stream.Context())
		if err != nil {
			return err
		}
		handler := func(_ any, stream grpc.ServerStream) error {
			m, err := s.answer(&answer, stream.SetTrailer)
			if err != nil {
				return err
			}
			return stream.SendMsg(m)
		}
		if limited {
			return limit(srv, stream, info, handler)
		}
		return handler(srv, stream)
	}
}

func name(method string) string { return method[strings.LastIndexByte(method, '/')+1:] }

// arrive returns what the handler answers, and whether policies decide before.
func (s *modelSession) arrive(ctx context.Context) (answer clientmodel.Answer, limited bool, err error) {
	md, _ := metadata.FromIncomingContext(ctx)
	answer, err = s.world.Arrive(ctx, md.Get(clientmodel.CallHeader)[0])
	return answer, s.world.Limited(md[":authority"][0]), err
}

// answer returns the answer of a handler.
func (s *modelSession) answer(a *clientmodel.Answer, setTrailer func(metadata.MD)) (*wrapperspb.BytesValue, error) {
	md := metadata.MD{}
	for name, told := range map[string]clientmodel.Told{
		"retry-after": a.RetryAfter, "ratelimit": a.RateLimit, "grpc-retry-pushback-ms": a.Pushback,
	} {
		if told.Present() {
			md.Append(name, told.Value())
		}
	}
	setTrailer(md)
	code, fails := modelCodes[a.Class]
	switch {
	case a.Class == clientmodel.TooLarge:
		return &wrapperspb.BytesValue{Value: make([]byte, 2*maxAnswer)}, nil
	case !fails:
		return &wrapperspb.BytesValue{}, nil
	}
	st := status.New(code, "")
	if a.RetryInfo.Present() {
		st, _ = st.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryInfo.Delay)})
	}
	return nil, st.Err()
}

var modelCodes = map[clientmodel.Class]codes.Code{
	clientmodel.Failed: codes.Aborted, clientmodel.Exhausted: codes.ResourceExhausted, clientmodel.Unavailable: codes.Unavailable,
}

// maxAnswer is the size of the largest answer that clients read.
const maxAnswer = 1 << 10

// conn returns the connection to a host.
func (s *modelSession) conn(host string) *grpc.ClientConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns[host] == nil {
		conn, err := grpc.NewClient("passthrough:///"+host,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return s.buffer.DialContext(ctx) }),
			grpc.WithChainUnaryInterceptor(UnaryClientInterceptor(s.world.Transport)),
			grpc.WithChainStreamInterceptor(StreamClientInterceptor(s.world.Transport)),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
		if err != nil {
			panic(err)
		}
		s.conns[host] = conn
	}
	return s.conns[host]
}

func (s *modelSession) Close() {
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.server.Stop()
	<-s.done
}

func (s *modelSession) Do(ctx context.Context, c *clientmodel.Call) clientmodel.Reply {
	clientmodel.SetHeaders(c, func(name, value string) { ctx = metadata.AppendToOutgoingContext(ctx, name, value) })
	conn, method := s.conn(s.world.Hosts[c.Host]), protocol.Path(c.Kind, c.Method)
	if c.Kind == unary {
		return modelReply(conn.Invoke(ctx, method, new(wrapperspb.BytesValue), new(wrapperspb.BytesValue)))
	}
	stream, err := conn.NewStream(ctx, &chatDesc, method)
	if err != nil {
		return modelReply(err)
	}
	opened := time.Now()
	if c.Kind == streamed {
		_ = stream.SendMsg(new(wrapperspb.BytesValue))
	}
	_ = stream.CloseSend()
	time.Sleep(c.Late - time.Since(opened)) // of the bubble
	for err = nil; err == nil; {
		err = stream.RecvMsg(new(wrapperspb.BytesValue))
	}
	reply := modelReply(err)
	if c.Again > 0 && reply.Kind == clientmodel.Answered {
		time.Sleep(c.Again) // of the bubble
		if again := modelReply(stream.RecvMsg(new(wrapperspb.BytesValue))); again != reply {
			reply.Note = "the end of the stream changes"
		}
	}
	return reply
}

// modelReply returns what the end of a call says.
func modelReply(err error) (reply clientmodel.Reply) {
	if err == nil || err == io.EOF {
		return reply
	}
	code := status.Code(err)
	wait, _ := retryDelay(err)
	reply.Wait = wait
	if notSent := new(notSentError); errors.As(err, &notSent) {
		reply, _ = clientmodel.UnsentBy(err)
		if reply.Kind == clientmodel.Answered {
			reply.Kind = clientmodel.Unsent
		}
		if want := unsentCodes[reply.Kind]; code != want || wait != reply.Wait {
			reply.Note = "code " + code.String() + ", RetryInfo " + wait.String()
		}
		return reply
	}
	switch code {
	case codes.DeadlineExceeded:
		reply.Kind = clientmodel.Deadline
	case codes.Canceled:
		reply.Kind = clientmodel.Canceled
	default:
		for class, c := range modelCodes {
			if c == code {
				reply.Class = class
			}
		}
		if reply.Class == clientmodel.OK {
			reply.Note = err.Error()
		}
	}
	return reply
}

var unsentCodes = map[clientmodel.ReplyKind]codes.Code{
	clientmodel.Turn: codes.ResourceExhausted, clientmodel.Exceeds: codes.ResourceExhausted, clientmodel.Deadline: codes.DeadlineExceeded,
	clientmodel.Canceled: codes.Canceled, clientmodel.Unsent: codes.Internal,
}

// All that the package exports is in the model, or is of servers.
func TestModel_ClientsCrossAllCalls(t *testing.T) {
	calls := []string{"UnaryClientInterceptor", "StreamClientInterceptor", "UnaryServerInterceptor", "StreamServerInterceptor"}
	servers := []string{"LimitReceived", "LimitSent", "MessageSize", "RecordMetadata", "MessageOf", "MessageBytes", "ByMethod"}
	exported, err := clientmodel.Exported(".")
	require.NoError(t, err)
	require.ElementsMatch(t, exported, slices.Concat(calls, servers))
}
