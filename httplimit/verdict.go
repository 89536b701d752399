package httplimit

import (
	"net/http"
	"strconv"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// A Verdict is the answer of [Limiter.Decide] to one request.
type Verdict struct {
	// Outcome is Admitted, Denied, Unidentified, Failed or Abandoned. A request is Failed if a
	// function of a policy, or an observer, has panicked. It is Abandoned if it was denied, and
	// its context has ended while it waited in a Queue.
	Outcome Outcome
	// Denial says which quotas deny the request, and for how long, if it is Denied or Abandoned.
	// It names none in two cases: the store of [WithStore] denies it since it cannot decide, or
	// [Limiter.Reconfigure] has taken away all policies of a request that is Abandoned.
	Denial Denial
	// Charges are those of the request that its response may change. They are nil if there
	// are none, and then none of their methods does anything.
	Charges *Charges
}

// Decide asks all policies whose Pattern matches r, and charges r to all of them or to none.
// It is what [Limiter.Middleware] does before it calls a handler, for transports that have no
// handler of net/http: an RPC, a framework, a queue. Such a transport describes its request by
// an [http.Request]. The policies look at
//
//   - Method, Host and URL, which Patterns match; URL must not be nil,
//   - Header, RemoteAddr and TLS, as far as the functions of the policies do,
//   - the context, in which the caller may put an identity that it knows.
//
// Decide sets the headers that report quotas, and Retry-After, in h. If h is nil, it sets none.
//
// A request that is Admitted may go on. Once it is answered, the caller must settle
// Verdict.Charges by [Charges.Settle]; for an [http.Handler], [Charges.Serve] does both. Any
// other request must be refused; for an [http.ResponseWriter], that is [Limiter.Refuse].
//
// Decide blocks while the request waits in a [Queue], and while a store decides.
//
// Decide keeps nothing of r but what Charges need, until they are settled. It is safe for
// concurrent use.
func (l *Limiter) Decide(h http.Header, r *http.Request) (v Verdict) {
	_ = l.decide(&v, h, r)
	return v
}

// decide is Decide that sets v, which is the zero Verdict. It reports whether to watch the
// request, if it is admitted.
func (l *Limiter) decide(v *Verdict, h http.Header, r *http.Request) (watch bool) {
	c := l.calls.Get().(*call)
	l.warnOfSecond(r)
	watch = c.watches()
	c.table = l.table.Load()
	if l.store == nil {
		c.decideHere(v, h, r)
	} else {
		c.decideByStore(v, h, r)
	}
	// Serving the request may take long, so another request gets the call first.
	c.release()
	return watch
}

// Refuse writes the answer of the middleware to a request that is not admitted: that of
// [WithDenied] or [WithUnidentified], or 500 if the request is Failed. Headers must have been
// set by [Limiter.Decide]. Refuse deletes Content-Length, ETag and Last-Modified, in which a
// handler around the caller may have described the content of another answer.
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
		w.Header()["Cache-Control"] = []string{"no-store"}
		l.denied(w, r, v.Denial)
	case Unidentified:
		l.unidentified.ServeHTTP(w, r)
	case Failed:
		fields.AnswerFailed(w)
	default:
		panic("httplimit: Refuse: no request is refused whose Outcome is " + strconv.Quote(v.Outcome.String()))
	}
}

// dropContent deletes the headers in which a handler around the middleware has
// described the content of the response, since another content is sent.
func dropContent(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
}
