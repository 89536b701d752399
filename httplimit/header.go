package httplimit

import (
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
)

// setHeaders sets the headers of a call that has been decided in h, unless that is nil.
func (c *call) setHeaders(h http.Header, denial *Denial) {
	if h == nil || len(c.enforced) == 0 {
		return
	}
	c.buffer.EnsureText()
	limited := slices.ContainsFunc(c.enforced, func(t *take) bool { return !t.unlimited() })
	if c.headers.standard && limited {
		fields.AddRateLimit(h, c.rateLimitPolicyValue(), c.rateLimitValue())
	}
	if c.headers.xRateLimit && limited {
		c.setXRateLimit(h)
	}
	if (len(denial.Violated) > 0 || denial.Err != nil) && denial.RetryAfter != sash.Never {
		h["Retry-After"] = c.buffer.NumberValue(fields.Seconds(denial.RetryAfter))
	}
}

// rateLimitPolicyValue returns RateLimit-Policy: all quotas of the enforced policies.
func (c *call) rateLimitPolicyValue() []string {
	if t := c.enforced[0]; len(c.enforced) == 1 && t.ownQuota && !c.headers.partition {
		// It is the same for all requests, so it is made once, with the policy.
		return c.buffer.Value(t.policyField)
	}
	text := c.buffer.Text
	for _, t := range c.enforced {
		quotas := t.quotas
		switch {
		case t.unlimited():
			continue
		case !t.ownQuota: // of a key with limits of its own, the one that has decided
			quotas = []*quota.Quota{t.quota}
		}
		for _, q := range quotas {
			text = c.appendPartitionKey(append(append(text, comma...), q.Policy...), t)
		}
	}
	return c.buffer.TextValue(text[len(comma):])
}

// rateLimitValue returns RateLimit: of each policy, the quota with the least left, and when it has more.
func (c *call) rateLimitValue() []string {
	text := c.buffer.Text
	for _, t := range c.enforced {
		if t.unlimited() {
			continue
		}
		text = append(append(text, comma...), t.leastQuota().Quoted...)
		text = fields.AppendInteger(append(text, ";r="...), t.remaining)
		if more := t.next.RetryAfter; more != sash.Never {
			text = fields.AppendInteger(append(text, ";t="...), fields.Seconds(more))
		}
		text = c.appendPartitionKey(text, t)
	}
	return c.buffer.TextValue(text[len(comma):])
}

// comma stands before each member of a list while it is written, and is then cut off the first one.
const comma = ", "

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

// resetValue returns the value of X-RateLimit-Reset: the seconds of a duration, or the time when it has passed.
func (c *call) resetValue(d time.Duration) int64 {
	if !c.headers.resetTime {
		return fields.Seconds(d)
	}
	now := time.Now()
	part := time.Duration(now.Nanosecond())
	return now.Unix() + fields.Seconds(min(d, sash.Never-part)+part) // rounded up as a whole
}

// setXRateLimit sets the X-RateLimit headers, about the scarcest policy that is not unlimited.
func (c *call) setXRateLimit(h http.Header) {
	var scarcest *take
	for _, t := range c.enforced {
		if !t.unlimited() && (scarcest == nil || t.scarcer(scarcest)) {
			scarcest = t
		}
	}
	least, reset := scarcest.leastQuota(), scarcest.decision.ResetAfter
	if quota.IsHeld(least.Limit) {
		reset = min(reset, heldWait)
	}
	h["X-Ratelimit-Limit"] = c.buffer.Value(least.Units)
	h["X-Ratelimit-Remaining"] = c.buffer.NumberValue(scarcest.remaining)
	h["X-Ratelimit-Reset"] = c.buffer.NumberValue(c.resetValue(reset))
}
