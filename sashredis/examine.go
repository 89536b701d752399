package sashredis

import (
	"context"
	"fmt"
)

// examine asks the server of keys, in a goroutine, whether it answers within the time-out. It does not
// if that is being asked already, or l is closed. The breaker counts the answer as that to a call. So a
// store that hangs is noticed although the deadlines of all callers end before the time-out, and one
// that answers is in use again although the deadline of the call that has tried it was too short.
func (l *Limiter) examine(keys []string) {
	if !l.examining.TryLock() {
		return
	}
	go func() {
		defer l.examining.Unlock()
		if l.closing.Err() != nil {
			return // Close waits for the lock
		}
		ctx, cancel := context.WithTimeout(l.closing, l.timeout)
		defer cancel()
		l.stats.trips.Inc()
		switch err := l.ping(ctx, keys[0]); {
		case err == nil || isMisuse(err):
			l.breaker.succeeded()
		case l.closing.Err() == nil: // else it says nothing about the store
			l.failed(explain(err))
		}
	}()
}

// ping asks the server of key for the time.
func (l *Limiter) ping(ctx context.Context, key string) (err error) {
	defer recoverConn(&err)
	_, err = l.conn.Run(ctx, pingScript, []string{key}, []string{""})
	return err
}

// recoverConn recovers from a panic of the Conn, and makes err say so. It is deferred where no
// caller could recover from it.
func recoverConn(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("sashredis: the Conn panicked: %v", fault)
	}
}

// failed counts that the store has not answered, because of err.
func (l *Limiter) failed(err error) {
	l.stats.failures.Inc()
	l.breaker.failed(l.local.Now(), err)
}
