package httplimit

import (
	"net/http"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// Middleware returns a handler that asks all policies whose Pattern matches a request, and calls next if
// they admit it. It can stand around a whole mux, or around one handler in it. Several handlers of one
// Limiter share its quotas. l.Middleware is a func(http.Handler) http.Handler.
//
// A request is charged to all its policies or, if one denies it, to none. Policies with the same cost are
// charged at one instant. If costs differ, the policies of one cost are charged after the policies of
// another, and a denial gives the earlier charges back. In the meantime, other requests may be denied
// because of them, but never wrongly admitted. A request without a policy goes on unchanged.
//
// Some requests are answered without next:
//
//   - 429 if a policy denies the request, or 503 if [Denial].Err says why.
//   - 400 if the identity cannot be told for a policy. Nothing is charged.
//   - 500 if a function of a policy or the observer panics. The panic goes to the server's error log. If it
//     is [http.ErrAbortHandler], it goes on instead, and ends the connection, unless it is of a shadow.
//     Nothing is charged, unless it was the observer that panicked, or [sash.WithLimitsFor] for the key
//     of a shadow.
//
// A panic after next, such as one in Charge, is only logged.
//
// These answers do not have the Content-Length, ETag and Last-Modified that a handler around this one has
// set for next's answer. Other headers stay, such as the headers of CORS.
//
// The headers report the quota that is left at that moment. All clients that share the quota use it up.
//
// Mount a Limiter once on the way of a request: a request that passes two of its middlewares is charged
// twice, and each of the requests that a handler makes of it, and passes to the mux again, is charged as
// well. A limiter looks for that at some requests, the first among them, and warns once in the server's
// error log. It knows a request by its header map, which copies share.
func (l *Limiter) Middleware(next http.Handler) http.Handler {
	check(next != nil, "Middleware: must not be given nil")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		bare := len(header) == 0 // read before decide sets headers: an empty header describes no content
		var v Verdict
		watch := l.decide(&v, header, r)
		if v.aborted {
			panic(http.ErrAbortHandler)
		}
		if v.Outcome != Admitted {
			if !bare {
				dropContent(header)
			}
			l.refuse(w, r, &v)
			return
		}
		if watch && l.watched.CompareAndSwap(0, headerMap(r)) { // or another request is watched
			defer l.watched.Store(0)
		}
		v.Charges.Serve(next, w, r)
	})
}

// Refuse writes the answer of the middleware to a request that is not admitted: by [WithDenied] or
// [WithUnidentified], or 500 if the request is Failed. Headers must have been set by [Limiter.Decide].
// Refuse deletes Content-Length, ETag and Last-Modified, in which a handler around the caller may have
// described the content of another answer.
//
// It panics if the request is admitted.
func (l *Limiter) Refuse(w http.ResponseWriter, r *http.Request, v Verdict) {
	dropContent(w.Header())
	l.refuse(w, r, &v)
}

func (l *Limiter) refuse(w http.ResponseWriter, r *http.Request, v *Verdict) {
	switch v.Outcome {
	case Denied, Abandoned:
		if l.denied == nil {
			v.Denial.ServeHTTP(w, r)
			return
		}
		w.Header()["Cache-Control"] = []string{"no-store"} // before l.denied, which may override it
		l.denied(w, r, v.Denial)
	case Unidentified:
		l.unidentified.ServeHTTP(w, r)
	case Failed:
		fields.Answer(w, http.StatusInternalServerError)
	default:
		check(false, "Refuse: no request is refused whose Outcome is %q", v.Outcome.String())
	}
}

// dropContent deletes the headers in which a handler around has described content that is not sent.
func dropContent(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
}
