package sashredis

import (
	"context"
	"fmt"
	"sync"
)

// An examiner runs one examination of the store at a time.
type examiner struct {
	mu       sync.Mutex // guards the fields below
	underway bool
	closed   bool

	running sync.WaitGroup // Go is called with mu held, and not once it is closed
}

// start runs f in a goroutine, unless an examination is under way or e is closed.
func (e *examiner) start(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.underway || e.closed {
		return
	}
	e.underway = true
	e.running.Go(func() {
		defer e.end()
		f()
	})
}

func (e *examiner) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.underway = false
}

// close waits for the examination that is under way. None begins afterwards.
func (e *examiner) close() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.running.Wait()
}

// examine asks the server of keys, in a goroutine, whether it answers within the time-out. The
// breaker counts the answer as that to a call. So a store that hangs is noticed although the
// deadlines of all callers end before the time-out, and one that answers is in use again although
// the deadline of the call that has tried it was too short.
func (l *Limiter) examine(keys []string) {
	l.examiner.start(func() {
		ctx, cancel := context.WithTimeout(context.Background(), l.timeout)
		defer cancel()
		l.stats.trips.Inc()
		if err := l.ping(ctx, keys[0]); err == nil || isMisuse(err) {
			l.breaker.succeeded()
		} else {
			l.failed(explain(err))
		}
	})
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
