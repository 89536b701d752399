package httplimit

import "net/http"

// Middleware returns a handler that asks all policies whose Pattern matches a
// request, and calls next if they admit it. l.Middleware is a
// func(http.Handler) http.Handler. It can stand around a whole mux, or around one
// handler in it; several handlers of one Limiter share its quotas.
//
// A request is charged to all its policies or, if one denies it, to none, at one
// instant if they cost the same. If they do not, those of one cost are charged
// after those of another; while that is so, others may be denied by what is given
// back then, but never admitted by it. A request without a policy goes on as it is.
//
// A denied request is answered 429; one of which a policy cannot tell who makes it,
// 400; and one on which a function of a policy or the observer panics, 500, with
// the panic in the server's error log. The latter two are charged nothing, unless
// it was the observer, and next is called in none of the three. What panics after
// next, such as a Charge, is logged only.
//
// An answer that is given instead of next's bears no Content-Length, ETag and
// Last-Modified that a handler around this one has set for next's. Other headers
// stay, such as those of CORS.
//
// What clients are told is what is left at that moment, for them and all else who
// share their quota.
func (l *Limiter) Middleware(next http.Handler) http.Handler {
	mustNotBeNil("Middleware", next == nil)
	return &handler{l, next}
}

type handler struct {
	*Limiter
	next http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := h.calls.Get().(*call)
	header := w.Header()
	bare := len(header) == 0
	v, denial := c.decide(header, r)
	var charges charges
	if v == admitted {
		charges = c.charges()
	} else if !bare {
		dropContent(header)
	}
	c.release()
	switch v {
	case admitted:
		if charges == nil {
			h.next.ServeHTTP(w, r)
		} else {
			charges.serve(h.next, w, r)
		}
	case denied:
		header["Cache-Control"] = []string{"no-store"}
		h.denied(w, r, denial)
	case unknown:
		h.unidentified.ServeHTTP(w, r)
	case broken:
		fail(w)
	}
}

// dropContent deletes what a handler around the middleware has said of the content of
// the response, which is answered with another.
func dropContent(h http.Header) {
	for _, name := range [...]string{"Content-Length", "Etag", "Last-Modified"} {
		delete(h, name)
	}
}
