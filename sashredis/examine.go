package sashredis

import (
	"context"
	"fmt"
	"sync"
)

// An examiner runs one examination of the store at a time.
type examiner struct {
	free    chan struct{}   // has an element unless an examination is under way, or e is closed
	closing context.Context // of all examinations
	cancel  context.CancelFunc
	once    sync.Once // guards close
}

func (e *examiner) init() {
	e.free = make(chan struct{}, 1)
	e.free <- struct{}{}
	e.closing, e.cancel = context.WithCancel(context.Background())
}

// start runs f in a goroutine, unless an examination is under way or e is closed.
func (e *examiner) start(f func()) {
	select {
	case <-e.free:
		go func() {
			defer func() { e.free <- struct{}{} }()
			if e.closing.Err() == nil { // close may be waiting already
				f()
			}
		}()
	default:
	}
}

// close ends the examination that is under way, and waits for it. None begins afterwards.
func (e *examiner) close() {
	e.once.Do(func() {
		e.cancel()
		<-e.free
	})
}

// examine asks the server of keys, in a goroutine, whether it answers within the time-out. The
// breaker counts the answer as that to a call. So a store that hangs is noticed although the
// deadlines of all callers end before the time-out, and one that answers is in use again although
// the deadline of the call that has tried it was too short.
func (l *Limiter) examine(keys []string) {
	l.examiner.start(func() {
		ctx, cancel := context.WithTimeout(l.examiner.closing, l.timeout)
		defer cancel()
		l.stats.trips.Inc()
		switch err := l.ping(ctx, keys[0]); {
		case err == nil || isMisuse(err):
			l.breaker.succeeded()
		case l.examiner.closing.Err() != nil: // that says nothing about the store
		default:
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
