package grpclimit

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/seed-30da4c49/sash/internal/rpc"
)

// A serverStream is the stream of an admitted call, as its handler sees it.
type serverStream struct {
	grpc.ServerStream
	call     *rpc.Call
	handled  context.Context
	recorded *recorder   // nil: metadata is not recorded
	reported atomic.Bool // whether the quotas were reported
}

func (s *serverStream) Context() context.Context { return s.handled }

func (s *serverStream) RecvMsg(m any) error { return s.call.Receive(m, s.ServerStream.RecvMsg) }

func (s *serverStream) SendMsg(m any) error { return s.call.Send(m, s.send) }

// send sends a message that is admitted.
func (s *serverStream) send(m any) error {
	s.report()
	return s.ServerStream.SendMsg(m)
}

func (s *serverStream) SetHeader(md metadata.MD) error {
	s.recorded.add(md)
	return s.ServerStream.SetHeader(md)
}

func (s *serverStream) SendHeader(md metadata.MD) error {
	s.report()
	s.recorded.add(md)
	return s.ServerStream.SendHeader(md)
}

func (s *serverStream) SetTrailer(md metadata.MD) {
	s.recorded.add(md)
	s.ServerStream.SetTrailer(md)
}

// report sets the headers that report quotas, before the headers are sent. If the handler has
// sent them by grpc.SendHeader, the trailer reports the quotas.
func (s *serverStream) report() {
	if !s.reported.CompareAndSwap(false, true) {
		return
	}
	quotas := metadataOf(s.call.RateLimit)
	if s.ServerStream.SetHeader(quotas) != nil {
		s.ServerStream.SetTrailer(quotas)
	}
}

// finish reports quotas if nothing was sent. A call that has failed has no header then, so that
// clients may retry it: see trailerOf.
func (s *serverStream) finish(err error) {
	if err == nil {
		s.report()
	} else if !s.reported.Load() {
		s.ServerStream.SetTrailer(metadataOf(s.call.RateLimit))
	}
}
