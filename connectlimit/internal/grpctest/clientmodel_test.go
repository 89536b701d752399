package grpctest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-30da4c49/sash/connectlimit"
	"github.com/seed-30da4c49/sash/internal/clientmodel"
)

// TestModel_Clients runs the client interceptor against the handler interceptor, and against other handlers.
func TestModel_Clients(t *testing.T) { clientmodel.Test(t, protocol, 400) }

func TestModel_ObedientClientsAreNotSlower(t *testing.T) { clientmodel.TestThroughput(t, protocol, 60) }

// How a call is made. Each protocol of Connect has a unary kind and two kinds of streams.
const (
	unary    = iota
	streamed // a message each way
	apart    // a stream that another goroutine receives, from before it is opened
	perProtocol
)

var modelProtocols = []string{"Connect", "gRPC", "gRPC-Web"}

var protocol = &clientmodel.Protocol{
	Kinds: modelKinds(),
	Classes: []clientmodel.Class{clientmodel.OK, clientmodel.OK, clientmodel.OK, clientmodel.Failed, clientmodel.Exhausted,
		clientmodel.Exhausted, clientmodel.Unavailable, clientmodel.TooLarge},
	Path: func(kind, method int) string { return modelMethods[min(kind%perProtocol, streamed)][method] },
	Open: openModel,
}

func modelKinds() (kinds []string) {
	for _, name := range modelProtocols {
		kinds = append(kinds, "unary, "+name, "stream, "+name, "stream received apart, "+name)
	}
	return kinds
}

var modelMethods = [][]string{{"/test.Model/Say0", "/test.Model/Say1"}, {"/test.Model/Chat0", "/test.Model/Chat1"}}

// A modelSession is a server of HTTP/2, and a client.
type modelSession struct {
	world     *clientmodel.World
	server    *http.Server
	listener  *clientmodel.Listener
	transport *http.Transport
}

func openModel(w *clientmodel.World) clientmodel.Session {
	s := &modelSession{world: w, listener: clientmodel.Listen()}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s.transport = &http.Transport{DialContext: s.listener.Dial, Protocols: protocols}
	open := modelHandler(arrivals{w})
	policies := modelHandler(arrivals{w}, connectlimit.NewInterceptor(w.Limiter))
	s.server = &http.Server{Protocols: protocols, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.Limited(r.Host) {
			policies.ServeHTTP(rw, r)
		} else {
			open.ServeHTTP(rw, r)
		}
	})}
	go func() { _ = s.server.Serve(s.listener) }()
	return s
}

func (s *modelSession) Close() {
	s.transport.CloseIdleConnections()
	_ = s.server.Close()
}

// modelHandler returns a handler of all methods.
func modelHandler(interceptors ...connect.Interceptor) http.Handler {
	mux := http.NewServeMux()
	for i := range 2 {
		say, chat := modelMethods[unary][i], modelMethods[streamed][i]
		mux.Handle(say, connect.NewUnaryHandler(say, func(ctx context.Context, _ *connect.Request[value]) (*connect.Response[value], error) {
			response := connect.NewResponse(new(value))
			m, err := modelAnswer(ctx, response.Trailer())
			response.Msg = m
			return response, err
		}, connect.WithInterceptors(interceptors...)))
		mux.Handle(chat, connect.NewBidiStreamHandler(chat, func(ctx context.Context, stream *stream) error {
			m, err := modelAnswer(ctx, stream.ResponseTrailer())
			if err != nil {
				return err
			}
			return stream.Send(m)
		}, connect.WithInterceptors(interceptors...)))
	}
	return mux
}

// arrivals is an interceptor that tells a world of calls that arrive.
type arrivals struct{ world *clientmodel.World }

type answerKey struct{}

func (a arrivals) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		answer, err := a.world.Arrive(ctx, request.Header().Get(clientmodel.CallHeader))
		if err != nil {
			return nil, err
		}
		return next(context.WithValue(ctx, answerKey{}, answer), request)
	}
}

func (a arrivals) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (a arrivals) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		answer, err := a.world.Arrive(ctx, conn.RequestHeader().Get(clientmodel.CallHeader))
		if err != nil {
			return err
		}
		return next(context.WithValue(ctx, answerKey{}, answer), conn)
	}
}

// modelAnswer returns the answer of a handler.
func modelAnswer(ctx context.Context, trailer http.Header) (*value, error) {
	a := ctx.Value(answerKey{}).(clientmodel.Answer)
	code, fails := modelCodes[a.Class]
	refusal := connect.NewError(code, errors.New("refused"))
	if fails {
		trailer = refusal.Meta()
	}
	for name, told := range map[string]clientmodel.Told{
		"Retry-After": a.RetryAfter, "RateLimit": a.RateLimit, "Grpc-Retry-Pushback-Ms": a.Pushback,
	} {
		if told.Present() {
			trailer.Set(name, told.Value())
		}
	}
	if a.RetryInfo.Present() {
		detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(a.RetryInfo.Delay)})
		if err != nil {
			return nil, err
		}
		refusal.AddDetail(detail)
	}
	switch {
	case fails:
		return nil, refusal
	case a.Class == clientmodel.TooLarge:
		return message(2 * maxAnswer), nil
	}
	return new(value), nil
}

var modelCodes = map[clientmodel.Class]connect.Code{
	clientmodel.Failed: connect.CodeAborted, clientmodel.Exhausted: connect.CodeResourceExhausted, clientmodel.Unavailable: connect.CodeUnavailable,
}

// maxAnswer is the size of the largest answer that clients read.
const maxAnswer = 1 << 10

func (s *modelSession) Do(ctx context.Context, c *clientmodel.Call) clientmodel.Reply {
	options := []connect.ClientOption{
		connect.WithInterceptors(connectlimit.NewClientInterceptor(s.world.Transport)), connect.WithReadMaxBytes(maxAnswer),
	}
	options = append(options, protocols[modelProtocols[c.Kind/perProtocol]]...)
	one := connect.NewClient[value, value](&http.Client{Transport: s.transport},
		"http://"+s.world.Hosts[c.Host]+protocol.Path(c.Kind, c.Method), options...)
	if c.Kind%perProtocol == unary {
		request := connect.NewRequest(new(value))
		clientmodel.SetHeaders(c, request.Header().Set)
		_, err := one.CallUnary(ctx, request)
		return modelReply(err)
	}
	conn := one.CallBidiStream(ctx)
	clientmodel.SetHeaders(c, conn.RequestHeader().Set)
	defer conn.CloseResponse()
	opened := make(chan struct{})
	sent := false
	open := func() {
		defer close(opened)
		err := conn.Send(new(value)) // that it is not sent, Receive says as well
		sent = err == nil || errors.Is(err, io.EOF)
		_ = conn.CloseRequest()
	}
	if c.Kind%perProtocol == apart {
		go open()
	} else {
		open()
	}
	if c.Late > 0 {
		if <-opened; sent {
			time.Sleep(c.Late)
		}
	}
	reply := receive(conn, c)
	<-opened
	return reply
}

// receive receives a stream to its end.
func receive(conn *connect.BidiStreamForClient[value, value], c *clientmodel.Call) clientmodel.Reply {
	var err error
	for err == nil {
		_, err = conn.Receive()
	}
	reply := modelReply(err)
	if c.Again > 0 && reply.Kind == clientmodel.Answered {
		time.Sleep(c.Again)
		if _, err = conn.Receive(); err == nil {
			reply.Note = "the stream goes on after its end"
		}
	}
	return reply
}

// modelReply returns what the end of a call says.
func modelReply(err error) (reply clientmodel.Reply) {
	if err == nil || errors.Is(err, io.EOF) {
		return reply
	}
	code, wait := connect.CodeOf(err), retryDelay(err)
	reply, ok := clientmodel.UnsentBy(err)
	if !ok && strings.Contains(err.Error(), "httplimit: ") {
		reply.Kind, ok = clientmodel.Unsent, true
	}
	if ok {
		if want := unsentCodes[reply.Kind]; code != want || wait != reply.Wait {
			reply.Note = "code " + code.String() + ", RetryInfo " + wait.String()
		}
		return reply
	}
	reply.Wait = wait
	switch code {
	case connect.CodeDeadlineExceeded:
		reply.Kind = clientmodel.Deadline
	case connect.CodeCanceled:
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

// retryDelay returns the RetryInfo in err, or 0.
func retryDelay(err error) time.Duration {
	var coded *connect.Error
	if errors.As(err, &coded) {
		for _, detail := range coded.Details() {
			if m, fault := detail.Value(); fault == nil {
				if info, ok := m.(*errdetails.RetryInfo); ok {
					return info.RetryDelay.AsDuration()
				}
			}
		}
	}
	return 0
}

var unsentCodes = map[clientmodel.ReplyKind]connect.Code{
	clientmodel.Turn: connect.CodeResourceExhausted, clientmodel.Exceeds: connect.CodeResourceExhausted, clientmodel.Deadline: connect.CodeDeadlineExceeded,
	clientmodel.Canceled: connect.CodeCanceled, clientmodel.Unsent: connect.CodeInternal,
}

// All that connectlimit exports is in the model, or is of handlers.
func TestModel_ClientsCrossAllCalls(t *testing.T) {
	calls := []string{"NewClientInterceptor", "NewInterceptor"}
	handlers := []string{"LimitReceived", "LimitSent", "MessageSize", "MessageOf", "MessageBytes", "ByMethod"}
	exported, err := clientmodel.Exported("../..")
	require.NoError(t, err)
	require.ElementsMatch(t, exported, slices.Concat(calls, handlers))
}
