package grpclimit

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpc"
)

// UnaryClientInterceptor returns an interceptor that lets each call wait for its turn before it
// is sent, as t does with requests of HTTP, and holds a key back when the server asks for it.
//
//	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(20)))
//	t := &httplimit.Transport{Limiter: limiter}
//	grpc.NewClient(target,
//		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(t)),
//		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(t)))
//
// All fields of t work as they do there, but for Base, which is not used. Several interceptors,
// and an http.Client, may share one t, and so its quotas. The key of a call, if t.Key is nil, is
// the address in the target of its connection. The request that a KeyFunc and t.Cost are
// given has the target as the host of its URL, the method as its path, and the outgoing
// metadata as its header; [MessageOf] and [MessageBytes] know the message of a unary call.
//
// A server asks to wait by RESOURCE_EXHAUSTED or UNAVAILABLE with the first of these that is
// there:
//
//   - RetryInfo in the details of the status
//   - the trailer grpc-retry-pushback-ms
//   - the metadata retry-after
//
// Calls of that method to that target, or of the key that t.Key tells, are then not sent until the
// time has passed. An answer that denies nothing holds back no calls.
//
// A call that is not sent has a status of RESOURCE_EXHAUSTED if it may not wait, with RetryInfo,
// or is never admitted; CANCELLED or DEADLINE_EXCEEDED if its context ends, or must end before
// its turn, with RetryInfo if the server has asked to wait beyond the deadline; and else INTERNAL. The error
// also wraps what t says: a [*httplimit.TurnError], sash.ErrExceedsLimit, the error of the context.
//
// Under a limit by sash.AtOnce, a call holds its units until it has ended: a stream as long as it lasts.
//
// The interceptor repeats no call. Attempts that grpc-go itself repeats, by the retry policy of
// a service config, are below the interceptor, and charged once. UnaryClientInterceptor panics if
// t is nil.
func UnaryClientInterceptor(t *httplimit.Transport) grpc.UnaryClientInterceptor {
	rpc.MustNotBeNil("grpclimit: UnaryClientInterceptor", t == nil)
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		key, release, err := rpc.Admit(ctx, t, describeOutgoing(ctx, method, conn, request))
		if err != nil {
			return notSent(err)
		}
		defer release()
		var header, trailer metadata.MD
		options = append(options[:len(options):len(options)], grpc.Header(&header), grpc.Trailer(&trailer))
		err = invoke(ctx, method, request, reply, conn, options...)
		obey(t, key, err, header, trailer)
		return err
	}
}

// StreamClientInterceptor is [UnaryClientInterceptor] for streams. A stream waits before it is
// opened. Its messages do not wait.
func StreamClientInterceptor(t *httplimit.Transport) grpc.StreamClientInterceptor {
	rpc.MustNotBeNil("grpclimit: StreamClientInterceptor", t == nil)
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		key, release, err := rpc.Admit(ctx, t, describeOutgoing(ctx, method, conn, nil))
		if err != nil {
			return nil, notSent(err)
		}
		opened := false
		defer func() {
			if !opened {
				release()
			}
		}()
		// grpc-go alone knows of every end of a stream: its handler may stop to receive, and its context may end.
		options = append(options[:len(options):len(options)], grpc.OnFinish(func(error) { release() }))
		stream, err := open(ctx, desc, conn, method, options...)
		if err != nil {
			obey(t, key, err)
			return nil, err
		}
		opened = true
		return &clientStream{ClientStream: stream, transport: t, key: key}, nil
	}
}

// A clientStream is a stream that was opened. It obeys the server if the stream ends with a
// denial.
type clientStream struct {
	grpc.ClientStream
	transport *httplimit.Transport
	key       string
	ended     bool // set by RecvMsg, which is called by one goroutine at a time
}

func (s *clientStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	// Each call after the end returns the same denial. Its time counts from the first.
	if err != nil && err != io.EOF && !s.ended {
		s.ended = true
		header, _ := s.Header() // does not block: the stream has ended
		obey(s.transport, s.key, err, header, s.Trailer())
	}
	return err
}

// describeOutgoing describes a call that is about to be made.
func describeOutgoing(ctx context.Context, method string, conn *grpc.ClientConn, message any) *rpc.Description {
	md, _ := metadata.FromOutgoingContext(ctx)
	d := &rpc.Description{Procedure: method, Header: headerOf(md), Message: message}
	if conn != nil {
		d.Host = endpoint(conn.CanonicalTarget())
	}
	return d
}

// endpoint returns the address in a target such as "dns:///example.com:443" or "unix:path".
func endpoint(target string) string {
	_, rest, _ := strings.Cut(target, ":")
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		_, rest, _ = strings.Cut(authority, "/")
	}
	return rest
}

// obey has t obey what a server has answered.
func obey(t *httplimit.Transport, key string, err error, answer ...metadata.MD) {
	s := status.Convert(err)
	var details []proto.Message
	for _, detail := range s.Details() {
		if message, ok := detail.(proto.Message); ok { // else it cannot be read
			details = append(details, message)
		}
	}
	rpc.Obey(t, key, uint32(s.Code()), details, headerOf(metadata.Join(answer...)))
}

// A notSentError is the error of a call that was not sent.
type notSentError struct {
	error
	status *status.Status
}

func (e *notSentError) Unwrap() error { return e.error }

// GRPCStatus is for package status of grpc-go.
func (e *notSentError) GRPCStatus() *status.Status { return e.status }

// notSent returns the error of a call that was not sent because of err.
func notSent(err error) error { return &notSentError{err, statusOf(rpc.NotSent(err))} }
