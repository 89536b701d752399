package sash

import (
	"math"
	"time"
)

// Never is the RetryAfter of a call that no wait would admit: one that asks for
// more than Count units, or for fewer than none.
const Never time.Duration = math.MaxInt64

// A Decision is what a limiter answers. Its durations are measured from the
// clock reading the decision was made at, exact to the nanosecond, and [Never]
// where they would pass 292 years.
type Decision struct {
	// Allowed reports whether the call may go on.
	Allowed bool
	// Limit is the limit that decided.
	Limit Limit
	// Remaining is how many units could still be taken at this instant, after
	// what this call was charged.
	Remaining int64
	// RetryAfter is 0 if Allowed, else the exact wait: the same call is denied
	// a nanosecond earlier and admitted then, if nothing else is charged.
	RetryAfter time.Duration
	// ResetAfter is how long until the key is indistinguishable from one never
	// seen, if nothing else is charged; 0 if it already is.
	ResetAfter time.Duration
}
