package sashredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/queue"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Wait blocks until n units are admitted for key, and charges them. Calls of this process that
// wait for one key are admitted in the order in which they came, before those of [Limiter.WaitLeaving] that
// are to leave units. Calls of other processes, and each Take, may be admitted before them.
//
// Wait returns nil once n is charged. The error is
//   - the error of ctx, as soon as ctx ends; a call that has been sent may then have been charged;
//   - [sash.ErrExceedsLimit], at once, if n is negative, or more than a limit ever admits;
//   - what is wrong, at once, if WithLimitsFor returns wrong limits for the key, or the store
//     refuses the call as wrong;
//   - why the store did not answer, at once, if the fallback denies a call that was sent: it may
//     have been charged, and is never sent again. A call that has waited for one for the same
//     key that failed so is not sent, nor charged: the error says so;
//   - [context.DeadlineExceeded], at once, if ctx has a deadline and the wait is sure to last
//     longer, by what the store has answered.
//
// While calls are not sent to the store, as [WithBreaker] says, the fallback decides:
// [FallbackDeny] waits for the store, as long as ctx allows. On a [sash.ManualClock], Wait waits
// for that clock to be moved.
//
// It asks the store once, and again each time that the wait is over which the answer tells. A call that finds
// others ahead of it fails at once, too, by its limits or by what the mirror knows.
//
// Units that are held at a time, as [sash.AtOnce] limits them, may be given back at any time. So no deadline
// ends a Wait at once because of them. What this process gives back wakes the call that is first. For what
// others give back, that call asks the store again after 5 ms, and then each time after twice as long, up to
// 250 ms; but not before the other limits of the key admit it, nor later than the leases end. What a Wait
// itself was admitted for is held until its lease ends: use [Limiter.WaitReserve] to give it back.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
	_, err := l.wait(ctx, key, request{op: take, n: n})
	return err
}

// WaitReserve waits as [Limiter.Wait] does, in the same queue, and returns a reservation of the n units to
// settle, as [Limiter.Reserve] does. Units that are held at a time, as [sash.AtOnce] limits them, are held
// until it is settled, or until their lease ends. A reservation of 0 units charges what is committed.
//
// The errors are the same as for Wait. With an error, it returns the zero Reservation, which settles nothing.
// If ctx ends while the store decides, WaitReserve returns at once. Units that the store then admits are given
// back in another round trip, once the answer is there. If the answer is lost, or they cannot be given back,
// they stay charged, and those that are held at a time are held until their lease ends.
//
// It costs one round trip each time that it asks: no lease decides, and the mirror only tells whether the
// deadline of ctx is too early. If the fallback admits it, the reservation is one of the fallback: it settles
// nothing in the store.
func (l *Limiter) WaitReserve(ctx context.Context, key string, n int64) (Reservation, error) {
	return l.wait(ctx, key, request{op: reserve, n: n})
}

// WaitLeaving is [Limiter.Wait] that is admitted only once at least leave units remain after it, as
// [Limiter.TakeLeaving] is. Its error is [sash.ErrExceedsLimit] if n+leave is more than a limit ever admits.
//
// Of the calls of this process that wait for one key, those that leave less go first, and of equal ones
// those that came first. So urgent calls do not queue behind calls in the background. As long as urgent calls
// take all there is, calls in the background wait. There is no order between processes: a call in the
// background waits there as long as those of all processes leave it nothing.
//
// A call ahead of which another has gone asks the store again when that is admitted.
func (l *Limiter) WaitLeaving(ctx context.Context, key string, n, leave int64) error {
	_, err := l.wait(ctx, key, leaving(take, n, leave))
	return err
}

// wait waits until r, a call for key, is admitted. The reservation is the zero one unless r reserves.
func (l *Limiter) wait(ctx context.Context, key string, r request) (none Reservation, _ error) {
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if err := l.look(ctx, key, r); err != nil { // before it queues: others may sleep ahead of it for long
		return none, err
	}
	pause := shortestPause
	// Only the first call for the key asks the store. It claims the key until it leaves the queue,
	// which wakes the second. One that leaves less may come ahead of it.
	everything := queue.Claim{Units: queue.Everything}
	w := &queue.Waiter[string]{Yields: r.leave(0), Places: []queue.Place[string]{{Key: key, Claim: everything}}}
	l.queues.Enter(w)
	defer l.queues.Leave(w)
	for {
		// Look again at each attempt whether it is the first: while it has slept, others may have come
		// ahead of it.
		for !l.queues.Begin(w, 0) {
			if err := w.Block(ctx, nil); err != nil {
				return none, err
			}
		}
		var a answer
		t := l.callOrGiveBack(ctx, key, r, &a)
		d := &a.Decision
		switch {
		case ctx.Err() != nil && (d.By == ByFallback || !d.Allowed):
			l.giveBack(ctx, t, &a) // what the fallback has reserved here
			return none, ctx.Err()
		case d.Allowed:
			return l.reservation(t, 0, &a), nil
		}
		if err := l.hopeless(ctx, &a, &r); err != nil {
			return none, err
		}
		switch {
		case d.By == ByFallback && errors.Is(d.Err, errUnsent):
			return none, fmt.Errorf("sashredis: Wait: it is not charged: %w", d.Err)
		case d.By == ByFallback && !errors.Is(d.Err, ErrUnavailable):
			return none, fmt.Errorf("sashredis: Wait: it may have been charged: %w", d.Err)
		}
		l.queues.End(w, []queue.Claim{everything})
		if err := l.sleep(ctx, w, a.pauseOf(t, &pause)); err != nil {
			return none, err
		}
	}
}

// look returns the error of r, a call for key, if it is sure to fail by what this process knows: the limits of the
// key, and what the mirror denies. It charges nothing, and asks no store. What a lease may admit is not sure to fail.
func (l *Limiter) look(ctx context.Context, key string, r request) error {
	var a answer
	targets := make([]target, 1)
	t := &targets[0]
	switch err := l.resolve(key, t); {
	case err != nil:
		a.Decision = l.refuseLimits(err)
	case t.unlimited:
		a.Decision = unlimited(r.n)
	case t.neverAdmits(r.needs(0)):
		least := slices.MinFunc(t.rules, func(a, b rule) int { return cmp.Compare(a.most, b.most) })
		return exceeds(least.Limit, &r)
	case r.leases() && l.lessees != nil && l.lessees.has(t, r.n):
		return nil
	default:
		a.certain = l.mirror.deny(targets, &r, l.quick.Now(), &a.Decision)
		if a.certain == 0 {
			return nil
		}
	}
	if a.Allowed {
		return nil
	}
	return l.hopeless(ctx, &a, &r)
}

// hopeless returns the error of r if a, a denial of it, tells that it is wrong, is never admitted, or is not before
// the deadline of ctx. Otherwise it returns nil.
func (l *Limiter) hopeless(ctx context.Context, a *answer, r *request) error {
	switch {
	case a.RetryAfter == sash.Never && a.Err != nil && a.By != ByFallback:
		return fmt.Errorf("sashredis: Wait: %w", a.Err)
	case a.RetryAfter == sash.Never:
		return exceeds(a.Limit, r)
	}
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); ok && l.clock == nil && a.By != ByFallback && a.certain > left {
		return fmt.Errorf("sashredis: Wait: admitted in %v at the earliest, the context ends in %v: %w",
			a.certain, max(0, left), context.DeadlineExceeded)
	}
	return nil
}

// callOrGiveBack is callOne for a caller that gives up when ctx ends. The call of a Reserve then goes on, and
// what it is admitted for is given back. Its caller gets no answer: a stays zero.
func (l *Limiter) callOrGiveBack(ctx context.Context, key string, r request, a *answer) target {
	if r.op != reserve || ctx.Done() == nil {
		return l.callOne(ctx, key, r, a)
	}
	// Only the answer tells where the units were charged, so the end of ctx must not end the call. The channel
	// has no buffer: either the caller receives the attempt, or both goroutines see that ctx has ended.
	attempts := make(chan *attempt)
	go func() {
		var of attempt
		of.call(context.WithoutCancel(ctx), l, key, r)
		select {
		case attempts <- &of:
		case <-ctx.Done():
			l.giveBack(ctx, of.target, &of.answer)
		}
	}()
	select {
	case of := <-attempts:
		if of.panicked != nil {
			panic(of.panicked) // in the goroutine of the caller, which may recover from it
		}
		*a = of.answer
		return of.target
	case <-ctx.Done():
		return target{}
	}
}

// An attempt is a call of callOne in a goroutine of its own, and how it has ended.
type attempt struct {
	answer   answer
	target   target
	panicked any // what a function of the user or the Conn has panicked with; nil: none has
}

// call makes the call.
func (of *attempt) call(ctx context.Context, l *Limiter, key string, r request) {
	defer func() { of.panicked = recover() }()
	of.target = l.callOne(ctx, key, r, &of.answer)
}

// giveBack gives back what a has reserved of t, if anything, although ctx has ended. If that fails, the units
// stay charged, as no caller has a reservation to settle.
func (l *Limiter) giveBack(ctx context.Context, t target, a *answer) {
	var err error
	defer recoverConn(&err) // no caller could
	err = l.reservation(t, 0, a).Cancel(context.WithoutCancel(ctx))
}

// These are the pauses between two looks of a Wait for units that other processes may have given back.
const (
	shortestPause = 5 * time.Millisecond
	longestPause  = 250 * time.Millisecond
)

// pauseOf returns for how long a Wait for t sleeps after a, a denial. If units of t are held, that is at most
// pause, which it doubles, unless the other limits are sure to deny the call for longer.
func (a *answer) pauseOf(t target, pause *time.Duration) time.Duration {
	if !t.holds {
		return a.RetryAfter
	}
	d := min(a.RetryAfter, max(a.certain, *pause))
	*pause = min(2**pause, longestPause)
	return d
}

// exceeds returns the error of a call that limit never admits.
func exceeds(limit sash.Limit, r *request) error {
	if leave := r.leave(0); leave > 0 {
		return fmt.Errorf("sashredis: Wait: %v never admits %d and leaves %d: %w", limit, r.n, leave, sash.ErrExceedsLimit)
	}
	return fmt.Errorf("sashredis: Wait: %v never admits %d: %w", limit, r.n, sash.ErrExceedsLimit)
}

// sleep blocks for d, by the clock that decides, or until w is woken: a call that was ahead of it has ended,
// or units that were held are back.
func (l *Limiter) sleep(ctx context.Context, w *queue.Waiter[string], d time.Duration) error {
	clock := cmp.Or(l.clock, l.local)
	due, stop := internals.After(clock, window.Plus(clock.Now(), int64(d)))
	defer stop()
	return w.Block(ctx, due)
}
