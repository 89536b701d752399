package connectlimit

import (
	"context"
	"net/http"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpc"
)

// An Option configures [NewInterceptor].
type Option func(*rpc.Server)

// LimitReceived has l decide each message that a stream receives, in addition to the stream
// itself. The request of a message is the request of its stream, with the message in the context: see
// [MessageOf]. A message that is denied is not given to the handler, and ends the stream. If a
// policy of l has a Queue, the message waits, and the stream receives nothing until then.
//
// A unary call has one message, whose cost its own policies can tell. LimitReceived does not
// concern it. Without LimitReceived, messages cost nothing. It panics if l is nil.
func LimitReceived(l *httplimit.Limiter) Option {
	rpc.MustNotBeNil("connectlimit: LimitReceived", l == nil)
	return func(s *rpc.Server) { s.Received = l }
}

// LimitSent has l decide each message that a stream sends, as [LimitReceived] does with those
// that it receives. A message that is denied is not sent, and ends the stream. It panics if l
// is nil.
func LimitSent(l *httplimit.Limiter) Option {
	rpc.MustNotBeNil("connectlimit: LimitSent", l == nil)
	return func(s *rpc.Server) { s.Sent = l }
}

// MessageSize returns the bytes of a message, for [MessageBytes] and httplimit.Response, in
// place of the default: the size of a protobuf message in binary form, and of any other value
// what its method Size() int returns, or 0. It is for codecs of other kinds. It is not given nil.
// A panic of it counts as one of the policy that asks for the size, or of the handler that sends
// the message. MessageSize panics if size is nil.
func MessageSize(size func(message any) int64) Option {
	rpc.MustNotBeNil("connectlimit: MessageSize", size == nil)
	return func(s *rpc.Server) { s.Size = size }
}

// MessageOf returns the message that a request stands for, given the request's context, in a
// function of a policy: the request of a unary call, or a message under [LimitReceived] and
// [LimitSent]. It is nil when a stream begins, and in the contexts of handlers. A policy must
// not change the message, nor keep it.
func MessageOf(ctx context.Context) any { return rpc.MessageOf(ctx) }

// MessageBytes is a Cost of httplimit.Policy by which a call or a message costs its bytes, as
// [MessageSize] counts them. A message of no bytes costs 0, and so does the beginning of a
// stream.
func MessageBytes(r *http.Request) int64 { return rpc.MessageBytes(r) }

// ByMethod keys calls by their method, "/package.Service/Method", so that each has a quota of
// its own. In a client, httplimit.Join(httplimit.ByHost(), connectlimit.ByMethod()) is a quota
// for each method of each host.
func ByMethod() httplimit.KeyFunc {
	return func(key []byte, r *http.Request) ([]byte, bool) { return append(key, r.URL.Path...), true }
}
