package httplimit

import (
	"net/http"
	"time"
)

// A Denial is why a request is answered 429.
type Denial struct {
	// Violated are the names of the quotas that denied it, at least one: of each
	// policy that did, the one that takes longest to admit it.
	Violated []string
	// RetryAfter is how long to wait, to the nanosecond: [sash.Never] if no wait
	// would do, because the request costs more than a limit ever admits.
	RetryAfter time.Duration
}

// ServeHTTP writes the answer: status 429, and the problem details of the current
// draft of the RateLimit fields (type quota-exceeded) which name the quotas. All
// headers but Content-Type were set before. It sends nothing of the request or of
// who made it.
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

const quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
	`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
	`"status":429,"violated-policies":[`

// unidentified answers requests whose identity cannot be told.
var unidentified = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusBadRequest, []byte(`{"type":"about:blank","title":"Bad Request","status":400,`+
		`"detail":"The request does not tell who is making it."}`))
})

// fail answers requests on which a function of a policy has panicked.
func fail(w http.ResponseWriter) {
	writeProblem(w, http.StatusInternalServerError,
		[]byte(`{"type":"about:blank","title":"Internal Server Error","status":500}`))
}

func writeProblem(w http.ResponseWriter, status int, body []byte) {
	values := []string{"no-store", "application/problem+json"}
	h := w.Header()
	h["Cache-Control"], h["Content-Type"] = values[0:1:1], values[1:2:2]
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
