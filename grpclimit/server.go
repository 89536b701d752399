package grpclimit

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/rpc"
)

// UnaryServerInterceptor returns an interceptor that asks all policies of l whose Pattern
// matches a call, and calls the handler if they admit it. The package's documentation says what
// a refused call is answered, and what an admitted one is charged in the end.
//
// grpc-go calls interceptors once it has read the message of a call. A call whose message it
// cannot read is answered without them, and charged nothing.
//
// UnaryServerInterceptor panics if l or an option is nil.
func UnaryServerInterceptor(l *httplimit.Limiter, options ...Option) grpc.UnaryServerInterceptor {
	s := rpc.NewServer("grpclimit: UnaryServerInterceptor", l, options, errorOf)
	return func(ctx context.Context, message any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (response any, err error) {
		call, refusal := s.Begin(ctx, describe(ctx, info.FullMethod, message))
		if refusal != nil {
			_ = grpc.SetTrailer(ctx, trailerOf(refusal)) // fails only if no transport is below
			return nil, errorOf(refusal)
		}
		handled, recorded := call.Context(), (*recorder)(nil)
		if s.RecordMetadata {
			handled, recorded = record(handled)
		}
		returned := false
		defer func() { call.Settle(codeOf(err), recorded.header, returned) }()
		response, err = handler(handled, message)
		if err == nil {
			call.NoteSent(response, nil)
		}
		returned = true
		report(ctx, metadataOf(call.RateLimit), err)
		return response, err
	}
}

// report tells the quotas of a unary call whose handler has returned err. A call that has failed
// has no header, so that clients may retry it: see trailerOf. Nor can a header be set if the
// handler has sent the headers itself.
func report(ctx context.Context, quotas metadata.MD, err error) {
	if err != nil || grpc.SetHeader(ctx, quotas) != nil {
		_ = grpc.SetTrailer(ctx, quotas) // fails if no transport is below
	}
}

// StreamServerInterceptor is [UnaryServerInterceptor] for streams. A stream is decided when it
// begins. [LimitReceived] and [LimitSent] decide its messages as well.
func StreamServerInterceptor(l *httplimit.Limiter, options ...Option) grpc.StreamServerInterceptor {
	s := rpc.NewServer("grpclimit: StreamServerInterceptor", l, options, errorOf)
	return func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
		call, refusal := s.BeginStream(ss.Context(), describe(ss.Context(), info.FullMethod, nil))
		if refusal != nil {
			ss.SetTrailer(trailerOf(refusal))
			return errorOf(refusal)
		}
		stream := &serverStream{ServerStream: ss, call: call, handled: call.Context()}
		if s.RecordMetadata {
			stream.handled, stream.recorded = record(stream.handled)
		}
		returned := false
		defer func() { call.Settle(codeOf(err), stream.recorded.header, returned) }()
		err = handler(srv, stream)
		returned = true
		if refusal := call.Refusal(); refusal != nil {
			ss.SetTrailer(trailerOf(refusal))
			err = errorOf(refusal)
		}
		stream.finish(err)
		return err
	}
}

// codeOf returns the code that grpc-go answers for a handler's error.
func codeOf(err error) uint32 {
	s, ok := status.FromError(err)
	if !ok {
		s = status.FromContextError(err)
	}
	return uint32(s.Code())
}

// errorOf returns a refusal as an error with a status.
func errorOf(r *rpc.Refusal) error { return statusOf(r).Err() }

// statusOf returns a refusal as a status.
func statusOf(r *rpc.Refusal) *status.Status {
	s := status.New(codes.Code(r.Code), r.Message)
	details := make([]protoadapt.MessageV1, len(r.Details))
	for i, detail := range r.Details {
		details[i] = protoadapt.MessageV1Of(detail)
	}
	if detailed, err := s.WithDetails(details...); err == nil {
		s = detailed
	}
	return s
}

// trailerOf returns the metadata of a refusal. It belongs into the trailer, since grpc-go
// retries no call that was sent a header. The answer to a call that is refused at once has only
// a trailer, which is then the header of the HTTP response.
func trailerOf(r *rpc.Refusal) metadata.MD {
	md := metadataOf(r.Header)
	if r.Pushback != "" {
		md.Set(rpc.Pushback, r.Pushback)
	}
	return md
}
