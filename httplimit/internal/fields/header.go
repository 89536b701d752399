// Package fields reads and writes header fields and problem details.
package fields

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// AddRateLimit adds a line to RateLimit-Policy and RateLimit. A limiter around may have written some.
func AddRateLimit(h http.Header, policy, left []string) {
	if len(h) > 0 { // most headers are empty, and need no look-ups
		policy, left = joined(h["Ratelimit-Policy"], policy), joined(h["Ratelimit"], left)
	}
	h["Ratelimit-Policy"], h["Ratelimit"] = policy, left
}

// joined returns before, and then line. If both have lines, the result shares no memory with before.
func joined(before, line []string) []string {
	if len(before) == 0 {
		return line
	}
	return append(slices.Clip(before), line...)
}

// A Buffer provides the memory for the headers of the next responses: text for their values, and slots
// for the slices that hold them. One allocation serves many responses.
//
// Invariant: no byte and no slot is used twice, since a header may outlive its response.
type Buffer struct {
	Text  []byte // empty; its capacity is the text still unused
	slots []string
}

// EnsureText makes room for the usual text of one response. A longer one gets memory by append.
func (b *Buffer) EnsureText() {
	const usual, responses = 128, 16
	if cap(b.Text) < usual {
		b.Text = make([]byte, 0, responses*usual)
	}
}

// Value returns a slice that holds value. Its capacity is 1, so that an append to it copies.
func (b *Buffer) Value(value string) []string {
	if len(b.slots) == 0 {
		b.slots = make([]string, 96) // for 16 responses or more
	}
	slot := b.slots[:1:1]
	b.slots = b.slots[1:]
	slot[0] = value
	return slot
}

// TextValue returns a slice that holds text, which was appended to b.Text. b.Text then begins behind it.
func (b *Buffer) TextValue(text []byte) []string {
	b.Text = text[len(text):]
	return b.Value(bridge.AsString(text))
}

// NumberValue returns a slice that holds n in digits.
func (b *Buffer) NumberValue(n int64) []string {
	return b.TextValue(strconv.AppendInt(b.Text, n, 10))
}

// Seconds returns d in whole seconds, rounded up.
func Seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

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
