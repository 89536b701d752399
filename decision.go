package sash

import (
	"math"
	"time"
)

// Never is the RetryAfter of a call that is not admitted however long it waits. Such a
// call asks for more units than the Count of a limit, or the Burst of a [TokenBucket], for
// fewer than 0 units, or for no key; or [WithLimitsFor] returned wrong limits for its key.
const Never time.Duration = math.MaxInt64

// A Decision is the answer of a limiter to one call.
//
// Its durations count from the clock reading at which the decision was made. They are
// exact to the nanosecond. A duration of more than 292 years is [Never].
type Decision struct {
	// Allowed reports whether the call is admitted.
	Allowed bool
	// Limit is the limit that decided. If the call is denied, that is the limit with the longest
	// RetryAfter. If it is allowed, that is the limit with the least Remaining. Of equal limits it
	// is the one given first; of several keys, the limit of the key named first.
	Limit Limit
	// Remaining is the number of units that could still be taken at this instant, after
	// the charge of this call. With several limits, it is the least of them all. Under
	// [Unlimited] it is math.MaxInt64.
	Remaining int64
	// RetryAfter is 0 if Allowed. Otherwise it is the exact wait: if nothing else is
	// charged, the same call is admitted after it, and denied a nanosecond earlier. Where units are held
	// at a time, as by AtOnce, it is the longest wait: they may be given back before.
	RetryAfter time.Duration
	// ResetAfter is the time until the key is idle, if nothing else is charged or given back. It is 0
	// if the key is idle already.
	ResetAfter time.Duration
}

// join merges o into d. Both are decisions on the same call, by different limits or keys,
// and have the same Allowed. It returns whether the limit of o decides. In a tie, the limit of
// o decides if first is set.
func (d *Decision) join(o *Decision, first bool) bool {
	decides := o.Remaining < d.Remaining || first && o.Remaining == d.Remaining
	if !d.Allowed { // then the limit decides that has to be waited for longest
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

// clear makes d, unless it is nil, the zero Decision.
func (d *Decision) clear() {
	if d != nil {
		*d = Decision{}
	}
}

// oneMore returns the decision on one unit more than d leaves, which is denied for that time.
func (d *Decision) oneMore(retryAfter time.Duration) Decision {
	more := *d
	more.Allowed, more.RetryAfter = false, retryAfter
	return more
}
