package sashredis

import (
	"errors"
	"strconv"

	"github.com/seed-30da4c49/sash"
)

// By tells who made a [Decision].
type By uint8

const (
	ByStore    By = iota // the store, in a round trip
	ByMirror             // this process, which is sure that the store would deny
	ByLease              // this process, from units that it has leased from the store
	ByFallback           // the fallback, since the store did not answer
)

// String returns "store", "mirror", "lease" or "fallback".
func (b By) String() string {
	if names := [...]string{"store", "mirror", "lease", "fallback"}; int(b) < len(names) {
		return names[b]
	}
	return "By(" + strconv.Itoa(int(b)) + ")"
}

// A Decision is the answer of a [Limiter] to one call.
type Decision struct {
	// Decision is the answer as package sash gives it. Its durations count from the instant of
	// the decision.
	sash.Decision
	// By tells who decided. It is ByStore, too, if no decision was needed: for
	// [sash.Unlimited], without keys, and for limits that are wrong.
	By By
	// Err is why the store did not decide; nil if it did, or did not need to.
	Err error
}

var (
	// ErrUnavailable is wrapped by the Err of a [Decision] that did not wait for the store, since
	// several calls in a row have failed: see [WithBreaker].
	ErrUnavailable = errors.New("the store is not available")

	// ErrServer is wrapped by errors about answers of a server that make no sense: it is not
	// Redis or Valkey, or too old, or the keys hold something else.
	ErrServer = errors.New("unexpected answer of the server")
)

// unlimited returns the decision for n units of a key without limits.
func unlimited(n int64) Decision {
	d := sash.Decision{Allowed: n >= 0, Limit: sash.Unlimited(), Remaining: sash.Unlimited().Count}
	if n < 0 {
		d.RetryAfter = sash.Never
	}
	return Decision{Decision: d}
}

// refused returns the decision on a call that is denied because of err: it is wrong, and is no
// better when it comes again.
func refused(err error) Decision {
	return Decision{Decision: sash.Decision{RetryAfter: sash.Never}, Err: err}
}
