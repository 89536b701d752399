package grpclimit

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/seed-30da4c49/sash/internal/rpc"
)

// describe describes the call of a server.
func describe(ctx context.Context, method string, message any) *rpc.Description {
	d := &rpc.Description{Procedure: method, Message: message}
	md, _ := metadata.FromIncomingContext(ctx)
	if authority := md[":authority"]; len(authority) > 0 {
		d.Host = authority[0]
	}
	d.Header = headerOf(md)
	// Transports within a process, and tests, may have no peer.
	if p, ok := peer.FromContext(ctx); ok {
		if p.Addr != nil {
			d.RemoteAddr = p.Addr.String()
		}
		d.LocalAddr = p.LocalAddr
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			d.TLS = &info.State
		}
	}
	return d
}

// headerOf returns metadata as a header, without pseudo-headers. The header shares the values of
// md, so md must be the caller's own.
func headerOf(md metadata.MD) http.Header {
	h := make(http.Header, len(md))
	for key, values := range md {
		if key == "" || key[0] == ':' {
			continue
		}
		name := textproto.CanonicalMIMEHeaderKey(key)
		if earlier := h[name]; len(earlier) > 0 { // a handler has spelled a key in two ways
			values = append(earlier, values...)
		}
		h[name] = values
	}
	return h
}

// metadataOf returns a header as metadata.
func metadataOf(h http.Header) metadata.MD {
	md := make(metadata.MD, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values
	}
	return md
}

// A recorder is the stream of a transport, and records the metadata that a handler sets. It is
// safe for concurrent use, as the stream is. A nil recorder records nothing.
type recorder struct {
	grpc.ServerTransportStream
	mu sync.Mutex
	md metadata.MD // guarded by mu
}

// record returns a context for a handler whose metadata is recorded. The recorder is nil if no
// transport is below.
func record(ctx context.Context) (context.Context, *recorder) {
	below := grpc.ServerTransportStreamFromContext(ctx)
	if below == nil {
		return ctx, nil
	}
	r := &recorder{ServerTransportStream: below}
	return grpc.NewContextWithServerTransportStream(ctx, r), r
}

func (r *recorder) add(md metadata.MD) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.md = metadata.Join(r.md, md)
}

// header returns what was recorded.
func (r *recorder) header() http.Header {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return headerOf(r.md)
}

func (r *recorder) SetHeader(md metadata.MD) error {
	r.add(md)
	return r.ServerTransportStream.SetHeader(md)
}

func (r *recorder) SendHeader(md metadata.MD) error {
	r.add(md)
	return r.ServerTransportStream.SendHeader(md)
}

func (r *recorder) SetTrailer(md metadata.MD) error {
	r.add(md)
	return r.ServerTransportStream.SetTrailer(md)
}
