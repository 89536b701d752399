package sashredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/queue"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Wait blocks until n units are admitted for key, and charges them. Calls of this process that
// wait for one key are admitted in the order in which they came; calls of other processes, and
// each Take, may be admitted before them.
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
// It asks the store once, and again each time that the wait is over which the answer tells.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// Only the first call for the key asks the store. It claims the key until it leaves the queue,
	// which wakes the second.
	w := &queue.Waiter[string]{Places: []queue.Place[string]{{Key: key, Claim: queue.Claim{Units: queue.Everything}}}}
	l.queues.Enter(w)
	defer l.queues.Leave(w)
	for !l.queues.Begin(w, 0) {
		if err := w.Block(ctx, nil); err != nil {
			return err
		}
	}
	for {
		d := l.Take(ctx, key, n)
		switch {
		case ctx.Err() != nil && (d.By == ByFallback || !d.Allowed):
			return ctx.Err()
		case d.Allowed:
			return nil
		case d.RetryAfter == sash.Never && d.Err != nil && d.By != ByFallback:
			return fmt.Errorf("sashredis: Wait: %w", d.Err)
		case d.RetryAfter == sash.Never:
			return fmt.Errorf("sashredis: Wait: %v never admits %d: %w", d.Limit, n, sash.ErrExceedsLimit)
		case d.By == ByFallback && errors.Is(d.Err, errUnsent):
			return fmt.Errorf("sashredis: Wait: it is not charged: %w", d.Err)
		case d.By == ByFallback && !errors.Is(d.Err, ErrUnavailable):
			return fmt.Errorf("sashredis: Wait: it may have been charged: %w", d.Err)
		}
		if deadline, ok := ctx.Deadline(); ok && l.clock == nil && d.By != ByFallback && d.RetryAfter > time.Until(deadline) {
			return fmt.Errorf("sashredis: Wait: admitted in %v at the earliest, the context ends in %v: %w",
				d.RetryAfter, time.Until(deadline), context.DeadlineExceeded)
		}
		if err := l.sleep(ctx, d.RetryAfter); err != nil {
			return err
		}
	}
}

// sleep blocks for d, by the clock that decides.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	clock := cmp.Or(l.clock, l.local)
	due, stop := internals.After(clock, window.Plus(clock.Now(), int64(d)))
	defer stop()
	select {
	case <-due:
	case <-ctx.Done():
	}
	return ctx.Err()
}
