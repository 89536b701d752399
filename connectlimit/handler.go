package connectlimit

import (
	"context"
	"errors"
	"net/http"

	"connectrpc.com/connect"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpc"
)

// NewInterceptor returns an interceptor for handlers. It asks all policies of l whose Pattern
// matches a call, and calls the handler if they admit it. The package's documentation says what
// a refused call is answered, and what an admitted one is charged in the end. Calls of clients
// pass through it unchanged.
//
// Connect calls interceptors once it has read the message of a unary call. A call whose message
// it cannot read is answered without them, and charged nothing.
//
// NewInterceptor panics if l or an option is nil.
func NewInterceptor(l *httplimit.Limiter, options ...Option) connect.Interceptor {
	return &interceptor{rpc.NewServer("connectlimit: NewInterceptor", l, options, errorOf)}
}

// An interceptor is for handlers.
type interceptor struct{ server *rpc.Server }

func (i *interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

func (i *interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (response connect.AnyResponse, err error) {
		if request.Spec().IsClient {
			return next(ctx, request)
		}
		call, refusal := i.server.Begin(ctx, &rpc.Description{
			Procedure:  request.Spec().Procedure,
			RemoteAddr: request.Peer().Addr,
			Header:     request.Header(),
			Message:    request.Any(),
		})
		info, _ := connect.CallInfoForHandlerContext(ctx)
		if refusal != nil {
			setHeaders(info, refusal.Header)
			return nil, errorOf(refusal)
		}
		setHeaders(info, call.RateLimit)
		returned := false
		defer func() {
			call.Settle(codeOf(err), func() http.Header { return unaryHeader(info, response) }, returned)
		}()
		response, err = next(call.Context(), request)
		if err == nil {
			call.NoteSent(response.Any(), nil)
		}
		returned = true
		return response, err
	}
}

func (i *interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) (err error) {
		call, refusal := i.server.BeginStream(ctx, &rpc.Description{
			Procedure:  conn.Spec().Procedure,
			RemoteAddr: conn.Peer().Addr,
			Header:     conn.RequestHeader(),
		})
		if refusal != nil {
			addHeaders(conn.ResponseHeader(), refusal.Header)
			return errorOf(refusal)
		}
		addHeaders(conn.ResponseHeader(), call.RateLimit)
		returned := false
		defer func() {
			call.Settle(codeOf(err), func() http.Header { return joined(conn.ResponseHeader(), conn.ResponseTrailer()) }, returned)
		}()
		err = next(call.Context(), &handlerConn{conn, call})
		returned = true
		if refusal := call.Refusal(); refusal != nil {
			err = errorOf(refusal)
		}
		return err
	}
}

// A handlerConn is the stream of an admitted call, as its handler sees it.
type handlerConn struct {
	connect.StreamingHandlerConn
	call *rpc.Call
}

func (c *handlerConn) Receive(message any) error {
	return c.call.Receive(message, c.StreamingHandlerConn.Receive)
}

func (c *handlerConn) Send(message any) error {
	if message == nil { // Connect sends the headers, and no message
		err := c.StreamingHandlerConn.Send(nil)
		c.call.NoteSent(nil, err)
		return err
	}
	return c.call.Send(message, c.StreamingHandlerConn.Send)
}

// errorOf returns a refusal as an error of Connect.
func errorOf(r *rpc.Refusal) error { return newError(r, errors.New(r.Message)) }

// newError returns a refusal as an error of Connect that wraps why.
func newError(r *rpc.Refusal, why error) *connect.Error {
	err := connect.NewError(connect.Code(r.Code), why)
	for _, message := range r.Details {
		if detail, fault := connect.NewErrorDetail(message); fault == nil {
			err.AddDetail(detail)
		}
	}
	if r.Pushback != "" {
		err.Meta().Set(rpc.Pushback, r.Pushback)
	}
	return err
}

// codeOf returns the code that Connect answers for a handler's error.
func codeOf(err error) uint32 {
	var coded *connect.Error
	switch {
	case err == nil, connect.IsNotModifiedError(err):
		return rpc.OK
	case errors.As(err, &coded):
		return uint32(coded.Code())
	case errors.Is(err, context.Canceled):
		return rpc.Canceled
	case errors.Is(err, context.DeadlineExceeded):
		return rpc.DeadlineExceeded
	}
	return rpc.Unknown
}

// setHeaders sets headers of a unary response. info is nil in a test that calls the function of
// WrapUnary without a handler.
func setHeaders(info connect.CallInfo, h http.Header) {
	if info != nil && len(h) > 0 {
		addHeaders(info.ResponseHeader(), h)
	}
}

// addHeaders adds headers h to a response.
func addHeaders(to, h http.Header) {
	for name, values := range h {
		to[name] = append(to[name], values...)
	}
}

// unaryHeader returns the headers and trailers of a unary response.
func unaryHeader(info connect.CallInfo, response connect.AnyResponse) http.Header {
	var all []http.Header
	if info != nil {
		all = append(all, info.ResponseHeader(), info.ResponseTrailer())
	}
	if response != nil {
		all = append(all, response.Header(), response.Trailer())
	}
	return joined(all...)
}

// joined returns all headers in one.
func joined(all ...http.Header) http.Header {
	h := http.Header{}
	for _, each := range all {
		addHeaders(h, each)
	}
	return h
}
