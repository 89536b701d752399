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

// A field is a header to set: to a constant value, or to a part of a call's text.
type field struct {
	name       string
	constant   string
	begin, end int
}

// tell sets the headers of an answered call. All their values are written into one
// text, so that they are one string.
func (c *call) tell(h http.Header, denial Denial) {
	c.spare.prepare()
	c.text = c.spare.text
	if c.headers.standard {
		c.tellPolicies()
		c.tellQuotas()
	}
	if c.headers.older {
		c.tellOlder()
	}
	if len(denial.Violated) > 0 && denial.RetryAfter != sash.Never {
		c.add(retryAfter, strconv.AppendInt(c.text, seconds(denial.RetryAfter), 10))
	}
	c.set(h)
}

// set sets the fields, each to a slice of its own and a string within text.
func (c *call) set(h http.Header) {
	n, empty := len(c.fields), len(h) == 0
	text, slots := unsafe.String(unsafe.SliceData(c.text), len(c.text)), c.spare.slots[:n:n]
	c.spare.text, c.spare.slots = c.text[len(c.text):], c.spare.slots[n:]
	for i, f := range c.fields {
		value := slots[i : i+1 : i+1] // whoever appends to it gets another
		if value[0] = f.constant; f.constant == "" {
			value[0] = text[f.begin:f.end]
		}
		if !empty && (f.name == rateLimit || f.name == rateLimitPolicy) {
			// They are lists, to which a limiter around this one may have written.
			value = append(slices.Clip(h[f.name]), value...)
		}
		h[f.name] = value
	}
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

// add adds a field, whose value is what text has more than c.text.
func (c *call) add(name string, text []byte) {
	c.fields = append(c.fields, field{name: name, begin: len(c.text), end: len(text)})
	c.text = text
}

// tellPolicies states all quotas of the policies.
func (c *call) tellPolicies() {
	if c.enforced == 1 && !c.headers.partition {
		if t := &c.takes[0]; t.own {
			c.fields = append(c.fields, field{name: rateLimitPolicy, constant: t.stated})
			return
		}
	}
	text := c.text
	for i := range c.takes[:c.enforced] {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = c.appendPolicy(text, &c.takes[i])
	}
	c.add(rateLimitPolicy, text)
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

// tellQuotas says of each policy what is left of the quota that decides, and when
// more will be.
func (c *call) tellQuotas() {
	text := c.text
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i]
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, t.quota.quoted...)
		text = append(text, ";r="...)
		text = appendInteger(text, t.remaining)
		if more := c.more(t); more != sash.Never {
			text = append(text, ";t="...)
			text = appendInteger(text, seconds(more))
		}
		text = c.appendPartition(text, t)
	}
	c.add(rateLimit, text)
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
func (c *call) tellOlder() {
	nearest := &c.takes[0]
	for i := 1; i < c.enforced; i++ {
		if t := &c.takes[i]; t.nearer(nearest) {
			nearest = t
		}
	}
	c.add(xRateLimitLimit, strconv.AppendInt(c.text, nearest.decision.Limit.Count, 10))
	c.add(xRateLimitRemaining, strconv.AppendInt(c.text, nearest.remaining, 10))
	c.add(xRateLimitReset, strconv.AppendInt(c.text, seconds(nearest.decision.ResetAfter), 10))
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

// appendInteger appends an Integer of RFC 9651, which has at most 15 digits.
func appendInteger(text []byte, n int64) []byte {
	const most = 999_999_999_999_999
	return strconv.AppendInt(text, min(max(n, 0), most), 10)
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
