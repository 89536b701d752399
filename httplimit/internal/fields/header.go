// Package fields reads and writes header fields and problem details.
package fields

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// AddRateLimit adds a line to each of RateLimit-Policy and RateLimit, which are lists. A limiter around
// this one may have written to them before.
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
