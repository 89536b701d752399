package httplimit

import (
	"context"
	"net/http"
)

// marks reports whether to mark the request of c. A mark costs a context and a copy of the request.
// So the first request of each pooled call has one, and one of 251 after that. That is a prime, so
// that the mark does not always miss the outer one of two or more passes.
func (c *call) marks() bool {
	c.decided++
	return c.decided%251 == 1
}

// serveMarked is Charges.Serve with a marked copy of r. Afterwards, all of the copy but the mark is
// copied back: the server deletes the files of a form, and handlers around this one may read the
// Pattern, or pass r to l once more.
func (l *Limiter) serveMarked(next http.Handler, w http.ResponseWriter, r *http.Request, charges *Charges) {
	l.marked.Add(1)
	ctx := r.Context()
	marked := r.WithContext(context.WithValue(ctx, passedKey{l}, true))
	defer func() {
		*r = *marked.WithContext(ctx)
		l.marked.Add(-1)
	}()
	charges.Serve(next, w, marked)
}

// warnOfSecond warns, once, if r is marked: then l has admitted it before. The look at its context
// is worth its cost only while a marked request is served.
func (l *Limiter) warnOfSecond(r *http.Request) {
	if l.marked.Load() > 0 && r.Context().Value(passedKey{l}) != nil && !l.warned.Swap(true) {
		logfOf(r)("httplimit: a request has passed the same Limiter twice, and is charged twice: " +
			"mount the Limiter once on the way of a request")
	}
}

// A passedKey is the key of the mark that a limiter leaves in the context of a request that it has
// admitted.
type passedKey struct{ *Limiter }
