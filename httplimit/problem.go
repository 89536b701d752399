package httplimit

import (
	"net/http"
	"sync"
	"time"
)

// A Denial says why a request is answered 429 or 503.
type Denial struct {
	// Violated is the names of the quotas that denied the request, at least one. For each
	// policy that denied it, it names the quota that takes longest to admit it. It is empty if
	// the store of [WithStore] denied the request without knowing of a quota that does.
	Violated []string
	// RetryAfter is the time to wait, exact to the nanosecond. It is [sash.Never] if no
	// wait would do, because the request costs more than a limit ever admits.
	RetryAfter time.Duration
	// By tells who denied the request, under [WithStore] only: see [Event].By.
	By string
	// Err is nil if the request is answered 429. Otherwise it is answered 503, and Err is the reason:
	//   - [http.ErrServerClosed] if the request would have waited in a [Queue] but for [Limiter.Close].
	//   - Why the store of [WithStore] did not decide, if Violated is empty.
	Err error
}

// ServeHTTP writes the answer of a denial: status 429 and problem details of the type
// quota-exceeded, as in the current draft of the RateLimit fields, which name the
// quotas. If there is an Err, the status is 503 and the type temporary-reduced-capacity, and
// the details do not tell Err. It sets Content-Type and Cache-Control; the other headers must
// have been set before. The answer contains nothing of the request and nothing about the client.
func (d Denial) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if d.Err != nil {
		newProblem(unavailable).write(w, http.StatusServiceUnavailable)
		return
	}
	p := newProblem(quotaExceeded)
	for i, name := range d.Violated {
		if i > 0 {
			p.body = append(p.body, ',')
		}
		p.body = appendString(p.body, name) // of printable ASCII, it is a string of JSON too
	}
	p.body = append(p.body, "]}"...)
	p.write(w, http.StatusTooManyRequests)
}

// quotaExceeded is the problem details of a denial, up to the names of the quotas.
const quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
	`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
	`"status":429,"violated-policies":[`

// unavailable is the problem details of a denial that has a reason but quotas.
const unavailable = `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
	`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`

// answerUnidentified answers requests whose identity cannot be told.
var answerUnidentified = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	newProblem(`{"type":"about:blank","title":"Bad Request","status":400,`+
		`"detail":"The request does not tell who is making it."}`).write(w, http.StatusBadRequest)
})

// answerPanic answers requests on which a function of a policy, or the observer, has
// panicked.
func answerPanic(w http.ResponseWriter) {
	newProblem(`{"type":"about:blank","title":"Internal Server Error","status":500}`).write(w, http.StatusInternalServerError)
}

// A problem is an answer with problem details (RFC 9457). It is pooled with its memory, which
// may be used again once it is written: a Writer keeps nothing of what it is given.
type problem struct {
	body    []byte
	headers headerBuffer
}

var problems = sync.Pool{New: func() any { return new(problem) }}

// newProblem returns a problem whose body begins with text.
func newProblem(text string) *problem {
	p := problems.Get().(*problem)
	p.body = append(p.body[:0], text...)
	return p
}

// write writes the answer, which must not be cached. p must not be used afterwards.
func (p *problem) write(w http.ResponseWriter, status int) {
	h := w.Header()
	h["Cache-Control"] = p.headers.value("no-store")
	h["Content-Type"] = p.headers.value("application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(p.body)
	problems.Put(p)
}
