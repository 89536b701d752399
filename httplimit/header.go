package httplimit

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash"
)

// headers is which headers clients are told of their quotas by.
type headers struct {
	standard  bool // RateLimit-Policy and RateLimit
	older     bool // X-RateLimit-…
	partition bool // pk in the standard ones
}

func (h headers) any() bool { return h.standard || h.older }

// The names as http.Header has them.
const (
	rateLimitPolicy     = "Ratelimit-Policy"
	rateLimit           = "Ratelimit"
	retryAfter          = "Retry-After"
	xRateLimitLimit     = "X-Ratelimit-Limit"
	xRateLimitRemaining = "X-Ratelimit-Remaining"
	xRateLimitReset     = "X-Ratelimit-Reset"
)

// tell sets the headers of an answered call.
func (c *call) tell(h http.Header, denial Denial) {
	c.spare.prepare()
	if c.headers.any() {
		for i := range c.takes[:c.enforced] {
			c.takes[i].findLeast(c.limiter)
		}
	}
	if c.headers.standard {
		first := len(h) == 0 // then there is nothing to add to
		addTo(h, rateLimitPolicy, c.policiesOf(), first)
		addTo(h, rateLimit, c.quotasOf(), first)
	}
	if c.headers.older {
		c.tellOlder(h)
	}
	if len(denial.Violated) > 0 && denial.RetryAfter != sash.Never {
		h[retryAfter] = c.spare.number(seconds(denial.RetryAfter))
	}
}

// addTo adds to a field that is a list, to which a limiter around this one may have
// written.
func addTo(h http.Header, name string, value []string, first bool) {
	if !first {
		if before := h[name]; len(before) > 0 {
			value = append(slices.Clip(before), value...)
		}
	}
	h[name] = value
}

// A spare is memory for the headers of the next responses: text for their values,
// and slots for the slices that hold them. Nothing of it is ever used twice, since
// nobody knows how long a header lives; but one allocation is enough for many.
type spare struct {
	text  []byte // empty, but for its capacity
	slots []string
}

// prepare makes sure of slots for all fields, and of room for a usual text. A longer
// one gets memory of its own, by append.
func (s *spare) prepare() {
	const fields, usual = 6, 128
	if len(s.slots) < fields {
		s.slots = make([]string, 16*fields)
	}
	if cap(s.text) < usual {
		s.text = make([]byte, 0, 16*usual)
	}
}

// one returns a slice of that value. Whoever appends to it gets another.
func (s *spare) one(value string) []string {
	slot := s.slots[:1:1]
	s.slots = s.slots[1:]
	slot[0] = value
	return slot
}

// keep returns a slice of that text, which must have been appended to s.text.
func (s *spare) keep(text []byte) []string {
	s.text = text[len(text):]
	return s.one(asString(text))
}

// asString returns text, which nobody changes any more, as a string.
func asString(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

func (s *spare) number(n int64) []string { return s.keep(strconv.AppendInt(s.text, n, 10)) }

// policiesOf states all quotas of the policies.
func (c *call) policiesOf() []string {
	if t := &c.takes[0]; c.enforced == 1 && t.own && !c.headers.partition {
		return c.spare.one(t.stated)
	}
	text := c.spare.text
	for i := range c.takes[:c.enforced] {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = c.appendPolicy(text, &c.takes[i])
	}
	return c.spare.keep(text)
}

func (c *call) appendPolicy(text []byte, t *take) []byte {
	if !t.own {
		return c.appendPartition(append(text, t.quota.stated...), t)
	}
	if !c.headers.partition {
		return append(text, t.stated...)
	}
	for i, q := range t.quotas {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = c.appendPartition(append(text, q.stated...), t)
	}
	return text
}

// quotasOf says of each policy which quota has the least left, how much that is, and
// when there will be more.
func (c *call) quotasOf() []string {
	text := c.spare.text
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i]
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, t.least.quoted...)
		text = append(text, ";r="...)
		begin := len(text)
		text = appendInteger(text, t.remaining)
		if t.remaining <= mostInteger {
			t.left = asString(text[begin:])
		}
		if t.more != sash.Never {
			text = append(text, ";t="...)
			text = appendInteger(text, seconds(t.more))
		}
		text = c.appendPartition(text, t)
	}
	return c.spare.keep(text)
}

func (c *call) appendPartition(text []byte, t *take) []byte {
	if !c.headers.partition {
		return text
	}
	var fingerprint [8]byte
	binary.BigEndian.PutUint64(fingerprint[:], c.fingerprint(t))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, fingerprint[:])
	return append(text, ':')
}

// tellOlder tells of the policy that is nearest to its end.
func (c *call) tellOlder(h http.Header) {
	nearest := &c.takes[0]
	for i := 1; i < c.enforced; i++ {
		if t := &c.takes[i]; t.nearer(nearest) {
			nearest = t
		}
	}
	h[xRateLimitLimit] = c.spare.one(nearest.least.count)
	if nearest.left != "" {
		h[xRateLimitRemaining] = c.spare.one(nearest.left)
	} else {
		h[xRateLimitRemaining] = c.spare.number(nearest.remaining)
	}
	h[xRateLimitReset] = c.spare.number(seconds(nearest.decision.ResetAfter))
}

// nearer reports whether t has denied for longer than u, or has less left.
func (t *take) nearer(u *take) bool {
	if t.decision.RetryAfter != u.decision.RetryAfter {
		return t.decision.RetryAfter > u.decision.RetryAfter
	}
	return t.remaining < u.remaining
}

// appendQuota appends parameters to the name of a quota, as RateLimit-Policy has
// them. A window under a second cannot be said; others are rounded up, so that
// whoever keeps to them keeps to the limit.
func appendQuota(name []byte, l sash.Limit, unit string) []byte {
	text := appendInteger(append(name, ";q="...), l.Count)
	if unit != "" {
		text = appendString(append(text, ";qu="...), unit)
	}
	if l.Window >= time.Second {
		text = appendInteger(append(text, ";w="...), seconds(l.Window))
	}
	return text
}

// seconds returns d in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return s
}

const mostInteger = 999_999_999_999_999

// appendInteger appends an Integer of RFC 9651, which has at most 15 digits.
func appendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), mostInteger), 10)
}

// appendString appends a String of RFC 9651; s must be printable.
func appendString(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

// printable reports whether a String of RFC 9651 can be s.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
