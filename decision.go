package sash

import (
	"math"
	"time"
)

// Never is the RetryAfter of a call that no wait would admit: one that asks for
// more than the Count of a limit, for fewer than no units, or for no key.
const Never time.Duration = math.MaxInt64

// A Decision is what a limiter answers. Its durations are measured from the
// clock reading the decision was made at, exact to the nanosecond, and [Never]
// where they would pass 292 years.
type Decision struct {
	// Allowed reports whether the call may go on.
	Allowed bool
	// Limit is the limit that decided: if denied, the one with the longest
	// RetryAfter; if allowed, the one with the least Remaining. Of equals it is the
	// one given first, and of several keys that of the key named first.
	Limit Limit
	// Remaining is how many units could still be taken at this instant, after
	// what this call was charged: the least over the limits.
	Remaining int64
	// RetryAfter is 0 if Allowed, else the exact wait: the same call is denied
	// a nanosecond earlier and admitted then, if nothing else is charged.
	RetryAfter time.Duration
	// ResetAfter is how long until the key is indistinguishable from one never
	// seen, if nothing else is charged; 0 if it already is.
	ResetAfter time.Duration
}

// join makes d, one decision on a call, that of o as well, which has the same
// answer. It reports whether o's limit decides: also in a tie, if first is set.
func (d *Decision) join(o *Decision, first bool) bool {
	decides := o.Remaining < d.Remaining || first && o.Remaining == d.Remaining
	if !d.Allowed {
		decides = o.RetryAfter > d.RetryAfter || first && o.RetryAfter == d.RetryAfter
	}
	if decides {
		d.Limit = o.Limit
	}
	d.Remaining = min(d.Remaining, o.Remaining)
	d.RetryAfter = max(d.RetryAfter, o.RetryAfter)
	d.ResetAfter = max(d.ResetAfter, o.ResetAfter)
	return decides
}
