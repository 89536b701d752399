package httplimit

import (
	"net/http"
	"time"
)

// A Denial says why a request is answered 429.
type Denial struct {
	// Violated is the names of the quotas that denied the request, at least one. For each
	// policy that denied it, it names the quota that takes longest to admit it.
	Violated []string
	// RetryAfter is the time to wait, exact to the nanosecond. It is [sash.Never] if no
	// wait would do, because the request costs more than a limit ever admits.
	RetryAfter time.Duration
}

// ServeHTTP writes the answer of a denial: status 429 and problem details of the type
// quota-exceeded, as in the current draft of the RateLimit fields, which name the
// quotas. It sets Content-Type and Cache-Control; the other headers must have been set
// before. The answer contains nothing of the request and nothing about the client.
func (d Denial) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	body := append(make([]byte, 0, 256), quotaExceeded...)
	for i, name := range d.Violated {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendString(body, name) // of printable ASCII, it is a string of JSON too
	}
	writeProblem(w, http.StatusTooManyRequests, append(body, "]}"...))
}

// quotaExceeded is the problem details of a denial, up to the names of the quotas.
const quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
	`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
	`"status":429,"violated-policies":[`

// answerUnidentified answers requests whose identity cannot be told.
var answerUnidentified = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusBadRequest, []byte(`{"type":"about:blank","title":"Bad Request","status":400,`+
		`"detail":"The request does not tell who is making it."}`))
})

// answerPanic answers requests on which a function of a policy, or the observer, has
// panicked.
func answerPanic(w http.ResponseWriter) {
	writeProblem(w, http.StatusInternalServerError,
		[]byte(`{"type":"about:blank","title":"Internal Server Error","status":500}`))
}

// writeProblem writes an answer with problem details (RFC 9457) that must not be
// cached.
func writeProblem(w http.ResponseWriter, status int, body []byte) {
	values := []string{"no-store", "application/problem+json"}
	h := w.Header()
	h["Cache-Control"], h["Content-Type"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
