package sash

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// ErrExceedsLimit is wrapped by the error of [Limiter.Wait] for a cost that is never
// admitted, however long the call waits.
var ErrExceedsLimit = errors.New("exceeds the limit")

// Wait blocks until n units are admitted for key, and charges them. Calls that wait for
// one key are admitted in the order in which they came. A Take does not queue, and may be
// admitted before them.
//
// Wait returns nil once n is charged. On an error, nothing is charged. The error is
//   - that of ctx, as soon as ctx ends;
//   - [ErrExceedsLimit], at once, if n is negative or more than the Count of a limit;
//   - [ErrInvalidLimit], at once, if [WithLimitsFor] returns wrong limits for the key, with
//     what is wrong;
//   - [context.DeadlineExceeded], at once, if ctx has a deadline and the wait is sure to
//     last longer. That follows from the state of the key, and from the units that the
//     calls before it wait for, unless these calls give up.
//
// An n of 0 charges nothing and does not queue. It waits only while the key is over its
// limits.
//
// On a [ManualClock], Wait waits for that clock to be moved. On a clock of your own, it
// waits in real time. It compares the deadline of ctx with the time of the limiter's
// clock, as if both ran alike.
//
// A call that waits costs about 300 bytes, and no goroutine but its own. A key that a call
// waits for is not evicted, with one exception: under [EvictLeastUsed] it may make room
// for another key. Then it has its whole quota again, and the calls go on at once.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
	d, err := l.wait(ctx, key, n)
	if err == nil && l.observer != nil && n != 0 {
		l.observer(key, n, d)
	}
	return err
}

func (l *Limiter) wait(ctx context.Context, key string, n int64) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}

	// Without a queue, charge at once. With a queue, only look: a new call must not
	// overtake those that wait. A cost of 0 takes nothing from them, so it need not queue.
	alone := n == 0 || !l.queues.waiting(key)
	d, _ := l.attempt(key, n, alone)
	if alone && d.Allowed {
		return d, nil
	}
	if err := l.waitError(ctx, key, n, d); err != nil {
		return Decision{}, err
	}

	w := l.queues.enqueue(key, n)
	defer l.queues.dequeue(key, w)
	if err := l.waitError(ctx, key, n, l.forecast(key, w)); err != nil {
		return Decision{}, err
	}
	for {
		// Try before the first sleep, too. What happened to the key or the queue before w
		// was enqueued has not woken w.
		first := n == 0 || l.queues.beginAttempt(key, w)
		d, at := l.attempt(key, n, first)
		if first && d.Allowed {
			return d, nil
		}
		l.queues.endAttempt(key, w)

		// The limits of the key may have changed, so n may not be admitted any more.
		if err := l.waitError(ctx, key, n, d); err != nil {
			return Decision{}, err
		}
		if err := l.sleep(ctx, w, first, at, d.RetryAfter); err != nil {
			return Decision{}, err
		}
	}
}

// attempt decides n units for key at the time of the clock, and charges them if turn is
// set and they are admitted. An attempt that is denied is never charged, not even under
// WithChargeDenied. It returns the instant of the decision.
func (l *Limiter) attempt(key string, n int64, turn bool) (d Decision, at int64) {
	q := query{n: n, charge: turn && n > 0}
	l.decideNow(key, &q, &d)
	return d, q.at
}

// waitError returns an error if a wait for n units of key, which d denies, is sure not to
// end in time.
func (l *Limiter) waitError(ctx context.Context, key string, n int64, d Decision) error {
	if n < 0 {
		return fmt.Errorf("sash: Wait: n must be >= 0, got %d: %w", n, ErrExceedsLimit)
	}
	if d.RetryAfter == Never { // or the wait is longer than a Duration
		rs := l.rulesetOf(key)
		if rs.fault != nil {
			return fmt.Errorf("sash: Wait: %w", rs.fault)
		}
		if r := rs.neverAdmits(n); r != nil {
			return fmt.Errorf("sash: Wait: %d is more than %v ever admits: %w", n, r.Limit, ErrExceedsLimit)
		}
	}
	// The RetryAfter of a key that does not fit under DenyNew is an estimate. There may be
	// room for the key earlier.
	if deadline, ok := ctx.Deadline(); ok && d.RetryAfter > time.Until(deadline) && !l.mayBeRefused(key) {
		return fmt.Errorf("sash: Wait: admitted in %v at the earliest, the context ends in %v: %w",
			d.RetryAfter, time.Until(deadline), context.DeadlineExceeded)
	}
	return nil
}

// sleep blocks until the next attempt of w may have another result. That is when w is
// notified or, if w is first in its queue, at instant at+wait. It returns the error of ctx
// if ctx has ended.
func (l *Limiter) sleep(ctx context.Context, w *waiter, first bool, at int64, wait time.Duration) error {
	// Only the first waiter has a timer. The others are notified when they become first.
	//
	// A Restore may have begun another timeline since at. Then the timer is set to a wrong
	// time, but the Restore notifies w. A notification since the attempt is not lost: it
	// is in w.wake.
	var due <-chan struct{}
	if first {
		var stop func()
		due, stop = after(l.clock, l.current.Load().clockReading(window.Plus(at, int64(wait))))
		defer stop()
	}
	select {
	case <-due:
	case <-w.wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// forecast returns the decision on the units of w, with a RetryAfter that counts the units
// ahead of w in its queue. The RetryAfter is never more than the wait of w, if no call
// ahead gives up.
//
// Every Count units need one further window. So the wait is at least the wait for the
// first units, up to Count of them, and one window for each full Count that follows.
func (l *Limiter) forecast(key string, w *waiter) Decision {
	g := l.current.Load()
	d, now := l.attempt(key, w.n, false)
	if w.ahead == 0 || d.RetryAfter == Never {
		return d
	}
	unqueued, rs := d, l.rulesetOf(key)
	for i := range rs.rules {
		r := &rs.rules[i]
		if r.Count == 0 {
			return unqueued // it admits nothing: the limits have changed, or n is 0
		}
		units := window.Plus(w.ahead, w.n)
		windows := (units - 1) / r.Count
		// The first units are admitted no earlier than they would be as one charge. A
		// counter may admit them earlier if they come one by one, so there only now is
		// certain.
		firstAt := now
		if !rs.hasCounter() {
			first, at := l.attempt(key, units-windows*r.Count, false)
			if first.RetryAfter != Never {
				firstAt = window.Plus(at, int64(first.RetryAfter))
			}
		}
		if windows < int64(Never)/r.horizon().life {
			lastAt := max(r.readmitsAt(firstAt, windows), now)
			d.RetryAfter = max(d.RetryAfter, window.Wait(0, uint64(lastAt)-uint64(now)))
		}
	}
	// The answer counts only if no waiter was admitted since w was enqueued: the units of
	// that waiter would count twice, as units ahead and in the state of the key. And a
	// Restore must not have begun another timeline, on which now is another time.
	if l.queues.changedSince(key, w) || l.current.Load().timeline != g.timeline {
		return unqueued
	}
	return d
}

// readmitsAt returns the earliest instant at which r can admit a unit, if the unit that
// came windows*Count units before it is admitted at the given instant. Of units that are
// Count apart, the later one is admitted at least memory.life later, in whole windows or
// ticks.
func (r *rule) readmitsAt(at, windows int64) int64 {
	size := r.horizon().resolution
	number, _ := window.Divide(at, size)
	number = window.Plus(number, windows*(r.horizon().life/size))
	if number > math.MaxInt64/size {
		return math.MaxInt64
	}
	return max(at, r.beginningOf(number))
}

// rulesetOf returns the ruleset of the key of that name. If the key has no entry, that is
// the one under which it would get an entry now.
func (l *Limiter) rulesetOf(name string) *ruleset {
	g, e := l.lookup(l.key(name))
	if e == nil {
		return l.resolve(g, name).ruleset
	}
	return g.ruleset.of(e)
}
