// Package fields reads and writes header fields and problem details.
package fields

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
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

// AppendInteger appends n as an Integer of RFC 9651: at least 0, and at most the largest Integer.
func AppendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), 999_999_999_999_999), 10)
}

// AppendString appends s, which must be printable, as a String of RFC 9651.
func AppendString(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

// Printable reports whether s is printable ASCII, as a String of RFC 9651 is.
func Printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Trim cuts the white space off both ends of an element of a header.
func Trim(s string) string { return strings.Trim(s, " \t") }

// IsToken reports whether s is a token of RFC 9110.
func IsToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter, digit := 'a' <= r|0x20 && r|0x20 <= 'z', '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// ClosingQuote returns the index of the quote that ends the quoted string at the beginning of s, or -1.
func ClosingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
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

// Answer answers a request with problem details (RFC 9457), not to be cached: 429 if the quotas of those
// names deny it, 503 if it is denied otherwise, 400 without an identity, and 500 after a panic.
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
