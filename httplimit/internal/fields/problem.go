package fields

import (
	"net/http"
	"sync"
)

// problemDetails are the bodies of the answers, by status. To the body of a 429, names are appended.
var problemDetails = map[int]string{
	http.StatusBadRequest: `{"type":"about:blank","title":"Bad Request","status":400,` +
		`"detail":"The request does not tell who is making it."}`,
	http.StatusTooManyRequests: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
		`"status":429,"violated-policies":[`,
	http.StatusInternalServerError: `{"type":"about:blank","title":"Internal Server Error","status":500}`,
	http.StatusServiceUnavailable: `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
		`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`,
}

// A problem is the memory of an answer, which is pooled: a Writer keeps nothing of what it is given.
type problem struct {
	body    []byte
	headers Buffer
}

var problems = sync.Pool{New: func() any { return new(problem) }}

// Answer answers a request with problem details (RFC 9457), which must not be cached. The status is 429
// if the quotas of those names deny it, 503 if it is denied for another reason, 400 if its identity
// cannot be told, and 500 if there was a panic.
func Answer(w http.ResponseWriter, status int, violated ...string) {
	p := problems.Get().(*problem)
	p.body = append(p.body[:0], problemDetails[status]...)
	if status == http.StatusTooManyRequests {
		for i, name := range violated {
			if i > 0 {
				p.body = append(p.body, ',')
			}
			p.body = AppendString(p.body, name) // of printable ASCII, it is a string of JSON too
		}
		p.body = append(p.body, "]}"...)
	}
	h := w.Header()
	h["Cache-Control"] = p.headers.Value("no-store")
	h["Content-Type"] = p.headers.Value("application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(p.body)
	problems.Put(p)
}
