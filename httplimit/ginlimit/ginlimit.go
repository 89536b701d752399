// Package ginlimit puts a limiter of [httplimit] into gin:
//
//	e := gin.New()
//	e.Use(ginlimit.Middleware(limiter))
//
// All that the documentation of [httplimit.Limiter.Middleware] says holds. Handlers find the
// charges of a request, for [httplimit.ChargeOf], in c.Request.Context().
//
// # Where to mount it
//
// Engine.Use limits all requests but those that gin's router redirects: /login/ if there is a
// route /login. Groups and single routes may have limiters of their own.
//
// Mount gin.Recovery before it or after it. A panic that passes through the middleware leaves
// the response uncertain in the sense of [httplimit.Policy].Charge; behind it, gin.Recovery
// answers 500.
//
// # What policies know
//
// The functions of a policy receive the request of net/http. Its Pattern is gin's FullPath, such as
// "/users/:id", and its PathValue returns the parameters of the path, so [httplimit.ByRoute] and
// [httplimit.ByPathValue] work. What gin alone knows, such as the account that an earlier handler has
// put into the context, is found by [By] and [ContextOf]:
//
//	Key: ginlimit.By(func(c *gin.Context) (string, bool) { return c.GetString("account"), true })
//
// # Refusals
//
// Refusals are problem details, unless the limiter or [WithDenied] says otherwise:
//
//	ginlimit.Middleware(limiter, ginlimit.WithDenied(func(c *gin.Context, d httplimit.Denial) {
//		c.JSON(http.StatusTooManyRequests, gin.H{"message": "slow down", "quotas": d.Violated})
//	}))
//
// # What it knows of the response
//
// The middleware knows what handlers write to c.Writer, and a status that they set by c.Status
// without writing a body. Handlers before it in the chain, which run on when it has returned,
// may still change the response if nothing is written yet. So it is uncertain, and the request
// stays charged, in these cases:
//
//   - No handler has set a status or written a body.
//   - A handler has only set a status, and has left an error by c.Error, from which a handler
//     before the middleware may make another one. Mount the middleware before that handler.
package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// Middleware returns a handler that limits the requests that gin passes to it. If a request is
// refused, the handler calls Abort and answers it. Middleware panics if l or an option is nil.
//
// It sets Request.Pattern to gin's FullPath, such as "/users/:id", so [httplimit.ByRoute] keys
// requests by their route. Requests that no route matches have none; to count them together,
// use httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone()).
//
// A request costs what [httplimit.Limiter.Decide] does, and the copy of an [http.Request], by which policies
// find gin's context.
func Middleware(l *httplimit.Limiter, options ...Option) gin.HandlerFunc {
	adapter.Check(l != nil, "ginlimit: Middleware: limiter")
	o := adapter.Configure("ginlimit: Middleware", options)
	return func(c *gin.Context) {
		if skips(o, c) {
			return
		}
		own := c.Request
		r := newRequest(c)
		c.Request = r // whose form a policy may read by c, too
		v := l.Decide(c.Writer.Header(), r)
		c.Request = own
		adapter.ShareBody(own, r)
		switch {
		case v.Outcome != httplimit.Admitted:
			// Abort first: if an option panics, a recovery that does not abort must not let the request through.
			c.Abort()
			_ = o.Refuse(c, v, c.Writer.Header(), func() { l.Refuse(c.Writer, r, v) }) // no option returns an error
		case v.Charges != nil:
			defer adapter.ShareBody(own, r) // also if a handler panics
			v.Charges.Serve(&next{c}, c.Writer, r)
		}
	}
}

// skips reports whether c is not limited. If the function of WithSkipper panics, a recovery that does not abort must
// not let the request through.
func skips(o *options, c *gin.Context) (skip bool) {
	returned := false
	defer func() {
		if !returned {
			c.Abort()
		}
	}()
	skip, returned = o.Skips(c), true
	return skip
}

// newRequest returns the request of c as policies see it.
func newRequest(c *gin.Context) *http.Request {
	if route := c.FullPath(); route != "" {
		c.Request.Pattern = route
	}
	for _, p := range c.Params {
		c.Request.SetPathValue(p.Key, p.Value)
	}
	return c.Request.WithContext(adapter.With(c.Request.Context(), c))
}

// A next is the handlers that come after the middleware.
type next struct{ c *gin.Context }

// ServeHTTP calls them, and has them write to seen.
func (n *next) ServeHTTP(seen http.ResponseWriter, r *http.Request) {
	own := n.c.Writer
	defer func() { n.c.Writer = own }() // also for a Recovery before the middleware
	w := &writer{ResponseWriter: own, seen: seen}
	n.c.Writer, n.c.Request = w, r
	n.c.Next()
	if !w.Written() && w.decided() && len(n.c.Errors) == 0 {
		w.showStatus() // gin writes it when all handlers have returned
	}
}

// A writer is gin's writer that shows the limiter what the client is sent.
//
// gin's own writer keeps a status until something is written, and until then another one may
// replace it. So the limiter must not see it earlier.
type writer struct {
	gin.ResponseWriter                     // gin's own
	seen               http.ResponseWriter // writes to gin's own, and is seen by the limiter
	set                bool                // whether a handler has set a status
	shown              bool                // whether the limiter has seen it
}

// decided reports whether the status is more than what gin begins with.
func (w *writer) decided() bool { return w.set || w.Status() != http.StatusOK }

// showStatus shows the limiter the status of gin's writer, which must be final.
func (w *writer) showStatus() {
	if !w.shown {
		w.shown = true
		w.seen.WriteHeader(w.Status())
	}
}

func (w *writer) WriteHeader(status int) {
	w.set = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *writer) WriteHeaderNow() {
	w.showStatus()
	w.ResponseWriter.WriteHeaderNow()
}

func (w *writer) Write(b []byte) (int, error) {
	w.showStatus()
	return w.seen.Write(b)
}

func (w *writer) WriteString(s string) (int, error) {
	w.showStatus()
	return w.seen.(stringWriter).WriteString(s)
}

func (w *writer) Flush() {
	w.showStatus()
	w.seen.(http.Flusher).Flush()
}

// Hijack does not show the status. The limiter sees that the connection is hijacked.
func (w *writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return w.seen.(http.Hijacker).Hijack()
}

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.seen }

// A stringWriter is io.StringWriter, which every writer that the limiter sees is.
type stringWriter interface{ WriteString(string) (int, error) }
