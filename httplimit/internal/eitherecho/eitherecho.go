// Package eitherecho has what the adapters of both versions of echo share.
package eitherecho

import (
	"net/http"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// A Context is what the Contexts of both versions have.
type Context interface {
	Request() *http.Request
	SetRequest(*http.Request)
}

// A Version is what a version of echo, whose Context is C, does in its own way.
type Version[C Context] struct {
	// Writer returns where echo's response of a context has the writer below it.
	Writer func(C) *http.ResponseWriter
	// Answer answers an error of a handler.
	Answer func(C, error)
}

// A Mount is a limiter where it is mounted.
type Mount[C Context] struct {
	Version[C]
	Limiter *httplimit.Limiter
	*adapter.Options[C]
}

// Serve refuses the request of c, whose response is w, or calls next and settles the charges.
func (m *Mount[C]) Serve(c C, w http.ResponseWriter, next func(C) error) error {
	request := c.Request()
	r := request.WithContext(adapter.With(request.Context(), c))
	c.SetRequest(r) // whose form a policy may read by c, too
	decided := m.Limiter.Decide(w.Header(), r)
	c.SetRequest(request)
	adapter.ShareBody(request, r)
	switch {
	case decided.Outcome != httplimit.Admitted:
		return m.Refuse(c, decided, w.Header(), func() { m.Limiter.Refuse(w, r, decided) })
	case decided.Charges == nil:
		return next(c)
	}
	var err error // not a result, which would allocate above, too
	writer := m.Writer(c)
	own := *writer
	defer func() { *writer = own }()
	defer adapter.ShareBody(request, r) // also if a handler panics
	// The limiter sees what echo's response writes, which is what the client is sent: hooks of the
	// response may change what handlers write.
	decided.Charges.Serve(http.HandlerFunc(func(seen http.ResponseWriter, r *http.Request) {
		*writer = seen
		c.SetRequest(r)
		if err = next(c); err != nil {
			m.Answer(c, err)
		}
	}), own, r)
	return err
}
