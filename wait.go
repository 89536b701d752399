package sash

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// ErrExceedsLimit is wrapped by the error of a [Limiter.Wait] for a cost that no
// wait would admit.
var ErrExceedsLimit = errors.New("exceeds the limit")

// Wait blocks until n units are admitted for key, and charges them. Calls that
// wait for one key are admitted in the order in which they came; a Take does not
// queue, and may be admitted before them.
//
// It returns nil once n is charged. Else nothing is, and the error is that of ctx
// as soon as ctx ends; [ErrExceedsLimit] at once if n is negative or more than the
// Count of a limit; [context.DeadlineExceeded] at once if ctx has a deadline and
// the wait is sure to last longer, by the key's state and, unless they give up, by
// what the calls before it wait for. An n of 0 charges nothing and queues for
// nothing; it waits only while the key is over its limits.
//
// On a [ManualClock] it waits for that clock to be moved; on a clock of your own
// it waits in real time. The deadline of ctx is compared with the time by the
// limiter's clock as if both ran alike. A call that waits costs about 300 bytes and
// no goroutine but its own, and a key that is waited for is not evicted, unless
// it makes room for another as [EvictLeastUsed] says: then it has its whole quota
// again, and the calls go on at once.
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
	alone := n == 0 || !l.queues.waiting(key)
	d, _ := l.attempt(key, n, alone)
	if alone && d.Allowed {
		return d, nil
	}
	if err := l.hopeless(ctx, key, n, d); err != nil {
		return Decision{}, err
	}
	w := l.queues.join(key, n)
	defer l.queues.leave(key, w)
	if err := l.hopeless(ctx, key, n, l.queueing(key, w)); err != nil {
		return Decision{}, err
	}
	for {
		first := n == 0 || l.queues.first(key, w)
		d, at := l.attempt(key, n, first)
		if first && d.Allowed {
			return d, nil
		}
		l.queues.denied(key, w)
		if err := l.hopeless(ctx, key, n, d); err != nil {
			return Decision{}, err
		}
		if err := l.sleep(ctx, w, first, at, d.RetryAfter); err != nil {
			return Decision{}, err
		}
	}
}

// attempt answers for n units, charging them if it is the caller's turn. That they
// are denied costs nothing, whatever the options say. It returns the instant that
// the decision is for.
func (l *Limiter) attempt(key string, n int64, turn bool) (d Decision, at int64) {
	q := query{n: n, charge: turn && n > 0}
	l.answer(key, &q, &d)
	return d, q.at
}

// hopeless returns the error of a wait for n units of key, which d denies, if it is
// sure not to end in time.
func (l *Limiter) hopeless(ctx context.Context, key string, n int64, d Decision) error {
	if n < 0 {
		return fmt.Errorf("sash: Wait: n must be >= 0, got %d: %w", n, ErrExceedsLimit)
	}
	if d.RetryAfter == Never { // of this cost, or just too long for a Duration
		if r := l.policyOf(key).forbids(n); r != nil {
			return fmt.Errorf("sash: Wait: %d is more than %v ever admits: %w", n, r.Limit, ErrExceedsLimit)
		}
	}
	if deadline, ok := ctx.Deadline(); ok && d.RetryAfter > time.Until(deadline) && !l.refuses(key) {
		return fmt.Errorf("sash: Wait: admitted in %v at the earliest, the context ends in %v: %w",
			d.RetryAfter, time.Until(deadline), context.DeadlineExceeded)
	}
	return nil
}

// sleep returns once there may be something new for w: it is first in its queue
// and at+wait has come, or something has happened to the queue or the key; or with
// the error of ctx, when that ends.
func (l *Limiter) sleep(ctx context.Context, w *waiter, first bool, at int64, wait time.Duration) error {
	var due <-chan struct{}
	if first {
		var stop func()
		due, stop = alarm(l.clock, l.now.Load().reading(plus(at, int64(wait))))
		defer stop()
	}
	select {
	case <-due:
	case <-w.news:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// queueing returns a decision on w that reckons with the calls before it: its
// RetryAfter is no more than the wait, if none of them gives up.
func (l *Limiter) queueing(key string, w *waiter) Decision {
	g := l.now.Load()
	d, now := l.attempt(key, w.n, false)
	if w.ahead == 0 || d.RetryAfter == Never {
		return d
	}
	own, p := d, l.policyOf(key)
	for i := range p.rules {
		// Of all units in the order of their admission, the last of each Count more is
		// not admitted before what was admitted with those has come back. The first
		// some are admitted when they would be as one charge, at the earliest, or now:
		// counters admit them sooner if they come one by one.
		r := &p.rules[i]
		times := (plus(w.ahead, w.n) - 1) / r.Count
		some := now
		if !p.counts() {
			first, at := l.attempt(key, plus(w.ahead, w.n)-times*r.Count, false)
			if first.RetryAfter != Never {
				some = plus(at, int64(first.RetryAfter))
			}
		}
		if times < int64(Never)/r.life() {
			last := max(r.back(some, times), now)
			d.RetryAfter = max(d.RetryAfter, saturate(0, uint64(last)-uint64(now)))
		}
	}
	// What was before it may be in the key's state by now, or the time another.
	if l.queues.moved(key, w) || l.now.Load().terms != g.terms {
		return own
	}
	return d
}

// counts reports whether p has a SlidingCounter.
func (p *policy) counts() bool {
	for i := range p.rules {
		if p.rules[i].Algorithm == SlidingCounter {
			return true
		}
	}
	return false
}

// life returns for how long a unit counts: a counter's at least until its window
// ends, and that long after a whole one.
func (r *rule) life() int64 {
	if r.Algorithm == SlidingCounter {
		return int64(r.Window)
	}
	return int64(saturate(0, uint64(r.span)*uint64(r.tick)))
}

// back returns the earliest instant at which units are admitted that do not fit
// together with those admitted at the given instant, and so times over.
func (r *rule) back(at, times int64) int64 {
	grain := r.grain()
	number, _ := divide(at, grain)
	number = plus(number, times*(r.life()/grain))
	if number > math.MaxInt64/grain {
		return math.MaxInt64
	}
	return max(at, r.begin(number))
}

// policyOf returns the policy of the key of that name.
func (l *Limiter) policyOf(name string) *policy {
	g, c := l.lookup(l.key(name))
	switch {
	case c == nil:
		return l.standing(g, name).policy
	case c.compounded():
		return c.compound().policy
	}
	return g.policy
}

// queues are the calls that wait, by key.
//
// Invariant: a queue is there only while somebody is in it, in the order in which
// they came; only the first charges, and while it tries to, its units are not among
// those waited for, so that nobody finds them there and in the key's state. Whoever
// leaves first place tells the next.
type queues struct {
	total atomic.Int64 // of waiters, so that whoever does not wait need not lock
	mu    sync.Mutex
	byKey map[string]*queue
}

type queue struct {
	waiters list.List // of *waiter
	units   uint64    // that those who do not try to charge wait for
	moves   int       // how often units were taken out or put back
}

type waiter struct {
	n, ahead int64         // the units it waits for, and those before it did when it came
	moves    int           // of the queue, then
	trying   bool          // to charge
	news     chan struct{} // of capacity 1
	place    *list.Element
}

func (w *waiter) tell() {
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// waiting reports whether anybody waits for key.
func (q *queues) waiting(key string) bool {
	if q.total.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byKey[key] != nil
}

// join appends a waiter for n units to the queue of key.
func (q *queues) join(key string, n int64) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey == nil {
		q.byKey = map[string]*queue{}
	}
	one := q.byKey[key]
	if one == nil {
		one = new(queue)
		q.byKey[key] = one
	}
	w := &waiter{n: n, ahead: int64(min(one.units, math.MaxInt64)), moves: one.moves, news: make(chan struct{}, 1)}
	w.place = one.waiters.PushBack(w)
	one.units += uint64(n)
	q.total.Add(1)
	return w
}

// leave takes w out of the queue of key.
func (q *queues) leave(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byKey[key]
	one.waiters.Remove(w.place)
	one.try(w, true)
	q.total.Add(-1)
	if next := one.waiters.Front(); next != nil {
		next.Value.(*waiter).tell()
	} else {
		delete(q.byKey, key)
	}
}

// first reports whether it is w's turn in the queue of key. If so, it is to try to
// charge, and to say if it was denied.
func (q *queues) first(key string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	one := q.byKey[key]
	turn := one.waiters.Front() == w.place
	if turn {
		one.try(w, true)
	}
	return turn
}

func (q *queues) denied(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byKey[key].try(w, false)
}

// moved reports whether anybody in the queue of key may have charged since w came.
func (q *queues) moved(key string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byKey[key].moves != w.moves
}

// try takes the units of w out of those that are waited for, or puts them back.
func (q *queue) try(w *waiter, trying bool) {
	if w.trying == trying {
		return
	}
	if w.trying = trying; trying {
		q.units -= uint64(w.n)
	} else {
		q.units += uint64(w.n)
	}
	q.moves++
}

// nudge tells all who wait for key that it may have changed, other than by time.
func (q *queues) nudge(key string) {
	if q.total.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byKey[key].nudge()
}

// nudgeAll is nudge for every key.
func (q *queues) nudgeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, one := range q.byKey {
		one.nudge()
	}
}

func (q *queue) nudge() {
	if q == nil {
		return
	}
	for e := q.waiters.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).tell()
	}
}
