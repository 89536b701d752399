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

// open reports whether b is open.
func (b *breaker) open() bool { return b.failures.Load() >= b.limit }

// allow returns nil if a call at that instant goes to the store, and else the error of the call.
func (b *breaker) allow(now int64) error {
	if !b.open() {
		return nil
	}
	// Of all calls that see the pause over, the one that moves probeAt is the probe.
	at := b.probeAt.Load()
	if now >= at && b.probeAt.CompareAndSwap(at, now+b.pause) {
		return nil
	}
	if reason := b.reason.Load(); reason != nil {
		return *reason
	}
	return ErrUnavailable // failed has counted the failure, and is about to note it
}

// failed counts that the store has not answered a call, because of err.
func (l *Limiter) failed(err error) {
	l.stats.failures.Add(1)
	b := &l.breaker
	failures := b.failures.Add(1)
	if failures == b.limit { // one call alone finds it so, until an answer closes b
		l.stats.opened.Add(1)
	}
	if failures >= b.limit {
		// Callers may tell this error by ErrUnavailable alone: it is not one of a call that was
		// sent.
		reason := fmt.Errorf("%w: the latest call that was sent failed: %v", ErrUnavailable, err)
		b.reason.Store(&reason)
		b.probeAt.Store(l.local.Now() + b.pause)
	}
}

// examine asks the server of keys, in a goroutine, whether it answers within the time-out, unless that is
// being asked already, or l is closed. The breaker counts the answer. So a store that hangs is noticed
// although the deadlines of all callers end before the time-out, and one that answers is in use again
// although the deadline of the call that has tried it was too short.
func (l *Limiter) examine(keys []string) {
	if !l.examining.TryLock() {
		return
	}
	go func() {
		defer l.examining.Unlock()
		if l.closing.Err() != nil {
			return // Close waits for the lock
		}
		// What Close has ended says nothing about the store.
		if err := l.ping(keys[:1]); err != nil && l.closing.Err() == nil {
			l.failed(err)
		}
	}()
}

// ping asks the server of a key for the time, until Close. The error says that the Conn has panicked.
func (l *Limiter) ping(key []string) (err error) {
	defer recoverConn(&err)
	_, _ = l.run(l.closing, pingScript, key, []string{""}) // run tells the breaker
	return nil
}

// recoverConn recovers from a panic of the Conn, and makes err say so. It is deferred where no
// caller could recover from it.
func recoverConn(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("sashredis: the Conn panicked: %v", fault)
	}
}
