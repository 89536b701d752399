package sashredis

import (
	"fmt"
	"sync/atomic"
)

// A breaker tells whether calls go to the store. It is open after limit failures in a row. Then only
// one call in each pause goes to the store. If the store answers that call, the breaker is closed.
type breaker struct {
	limit, pause int64
	failures     atomic.Int64          // in a row
	probeAt      atomic.Int64          // while it is open: the instant at which the next call goes through
	reason       atomic.Pointer[error] // while it is open: the error of calls that do not go through
}

// allows reports whether a call at that instant goes to the store.
func (b *breaker) allows(now int64) bool {
	if b.failures.Load() < b.limit {
		return true
	}
	// Of all calls that see the pause over, the one that moves probeAt is the probe.
	at := b.probeAt.Load()
	return now >= at && b.probeAt.CompareAndSwap(at, now+b.pause)
}

// failed counts a call to which the store has not answered by then, because of err.
func (b *breaker) failed(now int64, err error) {
	if b.failures.Add(1) >= b.limit {
		// Callers may tell this error by ErrUnavailable alone: it is not one of a call that was
		// sent.
		reason := fmt.Errorf("%w: the latest call that was sent failed: %v", ErrUnavailable, err)
		b.reason.Store(&reason)
		b.probeAt.Store(now + b.pause)
	}
}

// unavailable returns the error of a call that b does not allow.
func (b *breaker) unavailable() error {
	if reason := b.reason.Load(); reason != nil {
		return *reason
	}
	return ErrUnavailable // failed has counted the failure, and is about to note it
}

// succeeded closes b. It writes only if there was a failure, since all calls share b.
func (b *breaker) succeeded() {
	if b.failures.Load() != 0 {
		b.failures.Store(0)
	}
}

// wait returns how long it takes from now until a call goes to the store, and whether b is open.
func (b *breaker) wait(now int64) (left int64, open bool) {
	if b.failures.Load() < b.limit {
		return 0, false
	}
	return max(b.probeAt.Load()-now, 0), true
}
