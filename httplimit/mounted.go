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
	marked := r.WithContext(&passedContext{ctx, l})
	defer func() {
		*r = *marked.WithContext(ctx)
		l.marked.Add(-1)
	}()
	charges.Serve(next, w, marked)
}

// warnOfSecond warns, once, if r is marked: then l has admitted it before. The look at its context
// is worth its cost only while a marked request is served.
func (l *Limiter) warnOfSecond(r *http.Request) {
	if l.marked.Load() > 0 && hasPassed(r.Context(), l) && !l.warned.Swap(true) {
		logfOf(r)("httplimit: a request has passed the same Limiter twice, and is charged twice: " +
			"mount the Limiter once on the way of a request")
	}
}

// passedKey is the key of the innermost passedContext of a request.
type passedKey struct{}

// A passedContext is the context of a request that a limiter has admitted. The context in it may
// be that of a limiter around.
type passedContext struct {
	context.Context
	limiter *Limiter
}

func (c *passedContext) Value(key any) any {
	if key == (passedKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// hasPassed reports whether ctx is marked as that of a request that l has admitted.
func hasPassed(ctx context.Context, l *Limiter) bool {
	for {
		in, ok := ctx.Value(passedKey{}).(*passedContext)
		if !ok || in.limiter == l {
			return ok
		}
		ctx = in.Context
	}
}
