package fields

import (
	"net/http"
	"sync"
)

// AnswerQuotaExceeded answers a request that the quotas of those names deny.
func AnswerQuotaExceeded(w http.ResponseWriter, names []string) {
	p := newProblem(`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Request cannot be satisfied as assigned quota has been exceeded",` +
		`"status":429,"violated-policies":[`)
	for i, name := range names {
		if i > 0 {
			p.body = append(p.body, ',')
		}
		p.body = AppendString(p.body, name) // of printable ASCII, it is a string of JSON too
	}
	p.body = append(p.body, "]}"...)
	p.write(w, http.StatusTooManyRequests)
}

// AnswerUnavailable answers a request that is denied, but not because a quota is exceeded.
func AnswerUnavailable(w http.ResponseWriter) {
	newProblem(`{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",`+
		`"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`).
		write(w, http.StatusServiceUnavailable)
}

// AnswerUnidentified answers a request whose identity cannot be told.
func AnswerUnidentified(w http.ResponseWriter, _ *http.Request) {
	newProblem(`{"type":"about:blank","title":"Bad Request","status":400,`+
		`"detail":"The request does not tell who is making it."}`).write(w, http.StatusBadRequest)
}

// AnswerFailed answers a request that cannot be decided, because of a panic.
func AnswerFailed(w http.ResponseWriter) {
	newProblem(`{"type":"about:blank","title":"Internal Server Error","status":500}`).write(w, http.StatusInternalServerError)
}

// A problem is an answer with problem details (RFC 9457). It is pooled with its memory, which may be used
// again once it is written: a Writer keeps nothing of what it is given.
type problem struct {
	body    []byte
	headers Buffer
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
	h["Cache-Control"] = p.headers.Value("no-store")
	h["Content-Type"] = p.headers.Value("application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(p.body)
	problems.Put(p)
}
