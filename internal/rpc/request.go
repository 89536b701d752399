// Package rpc is what packages grpclimit and connectlimit share: how a call becomes a request
// that policies decide, what its messages cost, and how a refusal is told and obeyed.
package rpc

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Description describes a call to policies and KeyFuncs.
type Description struct {
	Procedure  string // "/package.Service/Method"
	Host       string // the authority that the client has named, or that a client is about to call
	RemoteAddr string
	LocalAddr  net.Addr // nil if the context has it, or if it is not known
	TLS        *tls.ConnectionState
	Header     http.Header // the metadata
	Message    any         // of a unary call; nil for a stream
}

// Request returns the request that stands for the call of a server.
func (d *Description) Request(ctx context.Context, size func(any) int64) *http.Request {
	return d.request(ctx, "", size)
}

// outgoing returns the request that stands for the call that a client is about to make.
func (d *Description) outgoing(ctx context.Context, size func(any) int64) *http.Request {
	return d.request(ctx, d.Host, size)
}

func (d *Description) request(ctx context.Context, urlHost string, size func(any) int64) *http.Request {
	path := d.Procedure
	if path == "" || path[0] != '/' {
		path = "/" + path // some servers accept a method without the slash; patterns do not
	}
	r := &http.Request{
		Method:     http.MethodPost,
		URL:        &url.URL{Host: urlHost, Path: path},
		Proto:      "HTTP/2.0",
		ProtoMajor: 2,
		Header:     d.Header,
		Body:       http.NoBody,
		Host:       d.Host,
		RemoteAddr: d.RemoteAddr,
		RequestURI: path,
		TLS:        d.TLS,
	}
	return r.WithContext(&callContext{ctx, path, d.Message, size, d.LocalAddr})
}

// A callContext is the context of a request that stands for a call or a message. Handlers are
// not given it.
type callContext struct {
	context.Context
	method  string // of a call, with a slash before it
	message any
	size    func(any) int64
	local   net.Addr
}

// messageKey is the key under which a callContext finds itself.
type messageKey struct{}

func (c *callContext) Value(key any) any {
	switch {
	case key == messageKey{}:
		return c
	case key == bridge.Method{} && c.method != "":
		return c.method
	case key == http.LocalAddrContextKey && c.local != nil:
		return c.local
	}
	return c.Context.Value(key)
}

// withMessage returns the request of a message that belongs to the call of r.
func withMessage(ctx context.Context, r *http.Request, message any, size func(any) int64) *http.Request {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return r.WithContext(&callContext{Context: ctx, message: message, size: size, local: local})
}

// MessageOf returns the message that the request with that context stands for, or nil.
func MessageOf(ctx context.Context) any {
	if c, ok := ctx.Value(messageKey{}).(*callContext); ok {
		return c.message
	}
	return nil
}

// MessageBytes returns the size of the message that r stands for, or 0.
func MessageBytes(r *http.Request) int64 {
	c, ok := r.Context().Value(messageKey{}).(*callContext)
	if !ok || c.message == nil {
		return 0
	}
	return c.size(c.message)
}

// Size returns the size of a message in the binary form of protobuf. The size of any other
// value is what its method Size returns, or 0.
func Size(message any) int64 {
	switch m := message.(type) {
	case proto.Message:
		return int64(proto.Size(m))
	case interface{ Size() int }:
		return int64(m.Size())
	case protoadapt.MessageV1:
		return int64(proto.Size(protoadapt.MessageV2Of(m)))
	}
	return 0
}
