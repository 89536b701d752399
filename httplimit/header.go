package httplimit

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// headers tells which headers report quotas to clients.
type headers struct {
	standard   bool // RateLimit-Policy and RateLimit
	xRateLimit bool // X-RateLimit-…
	partition  bool // pk in the standard ones
}

// any reports whether any header reports quotas.
func (h headers) any() bool { return h.standard || h.xRateLimit }

// Names of headers, in the canonical form of http.Header.
const (
	rateLimitPolicy     = "Ratelimit-Policy"
	rateLimit           = "Ratelimit"
	retryAfter          = "Retry-After"
	xRateLimitLimit     = "X-Ratelimit-Limit"
	xRateLimitRemaining = "X-Ratelimit-Remaining"
	xRateLimitReset     = "X-Ratelimit-Reset"
)

// setHeaders sets the headers of a call that has been decided in h, unless that is nil.
func (c *call) setHeaders(h http.Header, denial *Denial) {
	if h == nil || c.enforced == 0 {
		return
	}
	c.buffer.ensureText()
	limited := false // whether there is a quota to report
	if c.headers.any() {
		for i := range c.takes[:c.enforced] {
			c.takes[i].setLeastQuota()
			limited = limited || !c.takes[i].unlimited()
		}
	}
	if c.headers.standard && limited {
		empty := len(h) == 0
		addToList(h, rateLimitPolicy, c.rateLimitPolicyValue(), empty)
		addToList(h, rateLimit, c.rateLimitValue(), empty)
	}
	if c.headers.xRateLimit && limited {
		c.setXRateLimit(h)
	}
	if (len(denial.Violated) > 0 || denial.Err != nil) && denial.RetryAfter != sash.Never {
		h[retryAfter] = c.buffer.numberValue(seconds(denial.RetryAfter))
	}
}

// addToList adds a line to a header that is a list. A limiter around this one may have
// written to it before. empty reports whether h was empty, which saves the lookup.
func addToList(h http.Header, name string, line []string, empty bool) {
	if !empty {
		if before := h[name]; len(before) > 0 {
			line = append(slices.Clip(before), line...)
		}
	}
	h[name] = line
}

// A headerBuffer provides the memory for the headers of the next responses: text for
// their values, and slots for the slices that hold them. One allocation serves many
// responses.
//
// Invariant: no byte and no slot is used twice, since a header may outlive its
// response.
type headerBuffer struct {
	text  []byte // empty; its capacity is the text still unused
	slots []string
}

// ensureText makes sure that there is room for the text of one response, of the usual length.
// A longer text gets memory of its own, by append.
func (b *headerBuffer) ensureText() {
	const usual, responses = 128, 16
	if cap(b.text) < usual {
		b.text = make([]byte, 0, responses*usual)
	}
}

// value returns a slice that holds value. Its capacity is 1, so that an append to it
// copies.
func (b *headerBuffer) value(value string) []string {
	if len(b.slots) == 0 {
		b.slots = make([]string, 96) // for 16 responses or more
	}
	slot := b.slots[:1:1]
	b.slots = b.slots[1:]
	slot[0] = value
	return slot
}

// textValue returns a slice that holds text, which must have been appended to b.text.
// The text is then in use, and b.text begins behind it.
func (b *headerBuffer) textValue(text []byte) []string {
	b.text = text[len(text):]
	return b.value(bridge.AsString(text))
}

// numberValue returns a slice that holds n in digits.
func (b *headerBuffer) numberValue(n int64) []string {
	return b.textValue(strconv.AppendInt(b.text, n, 10))
}

// rateLimitPolicyValue returns RateLimit-Policy: all quotas of the enforced policies.
func (c *call) rateLimitPolicyValue() []string {
	if t := &c.takes[0]; c.enforced == 1 && t.ownQuota && !c.headers.partition {
		return c.buffer.value(t.policyField)
	}
	text := c.buffer.text
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; !t.unlimited() {
			text = c.appendPolicyQuotas(appendComma(text), t)
		}
	}
	return c.buffer.textValue(text)
}

// appendPolicyQuotas appends the quotas of one policy. If the limits of the key are not
// those of the policy, it appends the one quota that has decided.
func (c *call) appendPolicyQuotas(text []byte, t *take) []byte {
	if !t.ownQuota {
		return c.appendPartitionKey(append(text, t.quota.policyField...), t)
	}
	if !c.headers.partition {
		return append(text, t.policyField...)
	}
	for i, q := range t.quotas {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = c.appendPartitionKey(append(text, q.policyField...), t)
	}
	return text
}

// rateLimitValue returns RateLimit. For each policy, it names the quota that has the
// least left, how much that is, and when there will be more.
func (c *call) rateLimitValue() []string {
	text := c.buffer.text
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i]
		if t.unlimited() {
			continue
		}
		text = append(appendComma(text), t.leastQuota.quoted...)
		text = append(text, ";r="...)
		begin := len(text)
		text = appendInteger(text, t.remaining)
		if t.remaining <= maxInteger {
			t.remainingText = bridge.AsString(text[begin:])
		}
		if t.moreAfter != sash.Never {
			text = append(text, ";t="...)
			text = appendInteger(text, seconds(t.moreAfter))
		}
		text = c.appendPartitionKey(text, t)
	}
	return c.buffer.textValue(text)
}

// appendComma appends what separates two members of a list, unless text is empty.
func appendComma(text []byte) []byte {
	if len(text) == 0 {
		return text
	}
	return append(text, ", "...)
}

// unlimited reports whether the key of t has no quota.
func (t *take) unlimited() bool { return isUnlimited(t.decision.Limit) }

// appendPartitionKey appends the pk parameter, if it is asked for.
func (c *call) appendPartitionKey(text []byte, t *take) []byte {
	if !c.headers.partition {
		return text
	}
	var fingerprint [8]byte
	binary.BigEndian.PutUint64(fingerprint[:], c.fingerprint(t))
	text = append(text, ";pk=:"...)
	text = base64.StdEncoding.AppendEncode(text, fingerprint[:])
	return append(text, ':')
}

// setXRateLimit sets the X-RateLimit headers to those of the scarcest policy. There must be
// one that is not unlimited.
func (c *call) setXRateLimit(h http.Header) {
	var scarcest *take
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; !t.unlimited() && (scarcest == nil || t.scarcer(scarcest)) {
			scarcest = t
		}
	}
	h[xRateLimitLimit] = c.buffer.value(scarcest.leastQuota.unitsText)
	if scarcest.remainingText != "" {
		h[xRateLimitRemaining] = c.buffer.value(scarcest.remainingText)
	} else {
		h[xRateLimitRemaining] = c.buffer.numberValue(scarcest.remaining)
	}
	h[xRateLimitReset] = c.buffer.numberValue(seconds(scarcest.decision.ResetAfter))
}

// scarcer reports whether t denies for longer than u or, if they deny for equally long,
// has less left.
func (t *take) scarcer(u *take) bool {
	if t.decision.RetryAfter != u.decision.RetryAfter {
		return t.decision.RetryAfter > u.decision.RetryAfter
	}
	return t.remaining < u.remaining
}

// appendQuota appends the parameters that RateLimit-Policy has for a quota to its name.
// They cannot express a window under a second, so there is then no w. Other windows are
// rounded up: a client that keeps to a longer window keeps to the limit.
func appendQuota(name []byte, units int64, window time.Duration, unit string) []byte {
	text := appendInteger(append(name, ";q="...), units)
	if unit != "" {
		text = appendString(append(text, ";qu="...), unit)
	}
	if window >= time.Second {
		text = appendInteger(append(text, ";w="...), seconds(window))
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
