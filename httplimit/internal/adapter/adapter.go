// Package adapter has what the adapters of frameworks share.
package adapter

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/seed-30da4c49/sash/httplimit"
)

// An own is the key under which a request has its framework's context, of type C.
type own[C any] struct{}

// With returns a context of the request by which a limiter decides on c.
func With[C any](ctx context.Context, c C) context.Context {
	return context.WithValue(ctx, own[C]{}, c)
}

// ShareBody gives own, the request of the server, the body and the form of r, which is a copy of own. A body can be
// read only once, so handlers must find the form that a policy has read, or the body that it has put back. And the
// server deletes only the files that own knows.
func ShareBody(own, r *http.Request) {
	own.Body, own.Form, own.PostForm, own.MultipartForm = r.Body, r.Form, r.PostForm, r.MultipartForm
}

// A lent is a framework's context that the framework takes back, to use it for other requests.
type lent[C any] struct {
	context C
	back    atomic.Bool
}

// Lend is With for a context of the framework that TakeBack ends.
func Lend[C any](ctx context.Context, c C) context.Context {
	return context.WithValue(ctx, own[C]{}, &lent[C]{context: c})
}

// TakeBack lets ContextOf find nothing in r any more, nor in its copies. The context of r must have come from Lend.
func TakeBack[C any](r *http.Request) {
	r.Context().Value(own[C]{}).(*lent[C]).back.Store(true)
}

// ContextOf returns the framework's context of a request whose context has come from With or Lend.
func ContextOf[C any](r *http.Request) (c C, ok bool) {
	found := r.Context().Value(own[C]{})
	if l, isLent := found.(*lent[C]); isLent && !l.back.Load() {
		return l.context, true
	}
	c, ok = found.(C)
	return c, ok
}

// By is the function By of an adapter.
func By[C any](identity func(C) (string, bool)) httplimit.KeyFunc {
	return httplimit.By(func(r *http.Request) (string, bool) {
		c, ok := ContextOf[C](r)
		if !ok {
			return "", false
		}
		return identity(c)
	})
}

// ByAddress keys requests as httplimit.ByAddressOf does, by an address that the framework has found.
func ByAddress[C any](address func(C) string, options []httplimit.AddressOption) httplimit.KeyFunc {
	return httplimit.ByAddressOf(func(r *http.Request) (string, bool) {
		c, ok := ContextOf[C](r)
		if !ok {
			return "", false
		}
		return address(c), true
	}, options...)
}

// Options are the options of an adapter. Those that are not given are nil.
type Options[C any] struct {
	Skip         func(C) bool
	Denied       func(C, httplimit.Denial) error
	Unidentified func(C) error
}

// Configure returns the options that were given to the function of that name. It panics if one is nil.
func Configure[C any, O ~func(*Options[C])](function string, given []O) *Options[C] {
	o := new(Options[C])
	for i, option := range given {
		Check(option != nil, fmt.Sprintf("%s: option %d", function, i+1))
		option(o)
	}
	return o
}

// Check panics if what of that name was not given.
func Check(given bool, name string) {
	if !given {
		panic(name + ": must not be nil")
	}
}

// A Header is the header of a response.
type Header interface {
	Set(name, value string)
	Del(name string)
}

// Skips reports whether c is not limited.
func (o *Options[C]) Skips(c C) bool { return o.Skip != nil && o.Skip(c) }

// Refuse answers a request that v does not admit: by the options, or else as the limiter does, by limiter. The
// header of the response is h.
func (o *Options[C]) Refuse(c C, v httplimit.Verdict, h Header, limiter func()) error {
	switch {
	case v.Outcome == httplimit.Unidentified && o.Unidentified != nil:
		dropContent(h)
		return o.Unidentified(c)
	case (v.Outcome == httplimit.Denied || v.Outcome == httplimit.Abandoned) && o.Denied != nil:
		dropContent(h)
		h.Set("Cache-Control", "no-store")
		return o.Denied(c, v.Denial)
	}
	limiter()
	return nil
}

// dropContent deletes the headers that httplimit.Limiter.Refuse deletes.
func dropContent(h Header) {
	for _, name := range [...]string{"Content-Length", "Etag", "Last-Modified"} {
		h.Del(name)
	}
}
