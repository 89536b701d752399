package httplimit

import (
	"net/http"
	"reflect"
)

// watches reports whether to watch the request of c: the first of each pooled call, and then one of 251, a
// prime, so that it is not always the inner one of several passes.
func (c *call) watches() bool {
	c.decided++
	return c.decided%251 == 1
}

// serveWatched is Charges.Serve that watches r, unless l watches another request. While it runs,
// warnOfSecond finds out if r comes to l again.
func (l *Limiter) serveWatched(next http.Handler, w http.ResponseWriter, r *http.Request, charges *Charges) {
	if l.watched.CompareAndSwap(0, headerMap(r)) {
		defer l.watched.Store(0)
	}
	charges.Serve(next, w, r)
}

// warnOfSecond warns, once, if l watches r: then l has admitted r before.
func (l *Limiter) warnOfSecond(r *http.Request) {
	if watched := l.watched.Load(); watched != 0 && watched == headerMap(r) && !l.warned.Swap(true) {
		logfOf(r)("httplimit: a request has passed the same Limiter twice, and is charged twice: " +
			"mount the Limiter once on the way of a request")
	}
}

// headerMap returns what r has in common with its copies alone: its header map, or 0 if there is none.
func headerMap(r *http.Request) uintptr { return reflect.ValueOf(r.Header).Pointer() }
