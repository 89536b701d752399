package connectlimit

import (
	"context"
	"errors"
	"io"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpc"
)

// NewClientInterceptor returns an interceptor for clients. It lets each call wait for its turn
// before it is sent, as t does with requests of HTTP, and holds a key back when the server asks
// for it.
//
//	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(20)))
//	waits := connectlimit.NewClientInterceptor(&httplimit.Transport{Limiter: limiter})
//	client := pingv1connect.NewPingServiceClient(http.DefaultClient, url, connect.WithInterceptors(waits))
//
// All fields of t work as they do there, but for Base, which is not used. Several interceptors,
// and an http.Client, may share one t, and so its quotas. The key of a call, if t.Key is nil, is
// the host of the URL. The request that a KeyFunc and t.Cost are given has that host in its
// URL, the procedure as its path, and the headers of the call; [MessageOf] and [MessageBytes]
// know the message of a unary call. A stream waits when the client first sends a message or
// closes its side. Its messages do not wait.
//
// A server asks to wait by CodeResourceExhausted or CodeUnavailable with the first of these that
// is there:
//
//   - RetryInfo in the details of the error
//   - the trailer Grpc-Retry-Pushback-Ms
//   - the header Retry-After
//
// Calls of that procedure to that host, or of the key that t.Key tells, are then not sent until the
// time has passed. An answer that denies nothing holds back no calls.
//
// A call that is not sent has CodeResourceExhausted if it may not wait, with RetryInfo, or is
// never admitted; CodeCanceled or CodeDeadlineExceeded if its context ends, or must end before
// its turn, with RetryInfo if the server has asked to wait beyond the deadline; and else CodeInternal. The
// error also wraps what t says: a [*httplimit.TurnError], sash.ErrExceedsLimit, the error of the
// context.
//
// Under a limit by sash.AtOnce, a call holds its units until it has ended: a stream until Receive returns an
// error, its response is closed, or its context ends.
//
// The interceptor repeats no call. Calls of handlers pass through it unchanged. It panics if t is
// nil.
func NewClientInterceptor(t *httplimit.Transport) connect.Interceptor {
	rpc.MustNotBeNil("connectlimit: NewClientInterceptor", t == nil)
	return &clientInterceptor{t}
}

type clientInterceptor struct{ transport *httplimit.Transport }

func (i *clientInterceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (i *clientInterceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if !request.Spec().IsClient {
			return next(ctx, request)
		}
		key, release, err := rpc.Admit(ctx, i.transport, &rpc.Description{
			Procedure: request.Spec().Procedure,
			Host:      request.Peer().Addr,
			Header:    request.Header(),
			Message:   request.Any(),
		})
		if err != nil {
			return nil, notSent(err)
		}
		defer release()
		response, err := next(ctx, request)
		i.obey(key, err)
		return response, err
	}
}

func (i *clientInterceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return &clientConn{StreamingClientConn: next(ctx, spec), interceptor: i, ctx: ctx, turn: make(chan struct{})}
	}
}

// obey has the transport obey the error of a call of key. Connect puts the headers and trailers of
// the call into it.
func (i *clientInterceptor) obey(key string, err error) {
	var coded *connect.Error
	if !errors.As(err, &coded) {
		return
	}
	var details []proto.Message
	for _, detail := range coded.Details() {
		if message, fault := detail.Value(); fault == nil { // else it cannot be read
			details = append(details, message)
		}
	}
	rpc.Obey(i.transport, key, uint32(coded.Code()), details, joined(coded.Meta()))
}

// A clientConn is a stream that waits for its turn before it sends anything. Only then are the
// headers of the call complete, and the key may be made of them.
type clientConn struct {
	connect.StreamingClientConn
	interceptor *clientInterceptor
	ctx         context.Context

	// The side that sends waits, and then closes turn. It may send if err is nil. Then release gives back what
	// the stream holds: the side that receives calls it at the end, and so does the end of ctx.
	waited  bool
	turn    chan struct{}
	key     string
	release func()
	err     error

	ended bool // set by Receive, which is called by one goroutine at a time
}

// wait waits for the turn of the stream, once. It is called by the side that sends.
func (c *clientConn) wait() error {
	if c.waited {
		return c.err
	}
	// If a KeyFunc panics, and the caller recovers, the stream must not be sent: it was charged
	// nothing.
	c.waited, c.err = true, connect.NewError(connect.CodeInternal, errPanicked)
	defer close(c.turn)
	key, release, err := rpc.Admit(c.ctx, c.interceptor.transport, &rpc.Description{
		Procedure: c.Spec().Procedure,
		Host:      c.Peer().Addr,
		Header:    c.RequestHeader(),
	})
	if c.key, c.err = key, nil; err != nil {
		c.err = notSent(err)
		return c.err
	}
	stop := context.AfterFunc(c.ctx, release)
	c.release = func() { stop(); release() }
	return nil
}

// errPanicked is why a stream is not sent after a function of the Transport has panicked.
var errPanicked = errors.New("connectlimit: not sent: a function of the Transport has panicked")

// sent returns why the stream is not sent, once that is known. It is called by the side that
// receives.
func (c *clientConn) sent() error {
	select { // what is known holds, even if the context has ended since
	case <-c.turn:
		return c.err
	default:
	}
	select {
	case <-c.turn:
		return c.err
	case <-c.ctx.Done():
		return connect.NewError(connect.Code(codeOf(c.ctx.Err())), c.ctx.Err())
	}
}

func (c *clientConn) Send(message any) error {
	if err := c.wait(); err != nil {
		return err
	}
	return c.StreamingClientConn.Send(message)
}

func (c *clientConn) CloseRequest() error {
	if err := c.wait(); err != nil {
		return err
	}
	return c.StreamingClientConn.CloseRequest()
}

func (c *clientConn) Receive(message any) error {
	if err := c.sent(); err != nil {
		return err
	}
	err := c.StreamingClientConn.Receive(message)
	if err == nil {
		return nil
	}
	c.release()
	// Each call after the end returns the same denial. Its time counts from the first.
	if !errors.Is(err, io.EOF) && !c.ended {
		c.ended = true
		c.interceptor.obey(c.key, err)
	}
	return err
}

func (c *clientConn) ResponseHeader() http.Header {
	if c.sent() != nil {
		return http.Header{}
	}
	return c.StreamingClientConn.ResponseHeader()
}

func (c *clientConn) ResponseTrailer() http.Header {
	if c.sent() != nil {
		return http.Header{}
	}
	return c.StreamingClientConn.ResponseTrailer()
}

func (c *clientConn) CloseResponse() error {
	if c.sent() != nil {
		return nil // nothing is open
	}
	defer c.release()
	return c.StreamingClientConn.CloseResponse()
}

// notSent returns the error of a call that was not sent because of err.
func notSent(err error) error { return newError(rpc.NotSent(err), err) }
