package httplimit

import (
	"context"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A hold is a period that must pass; the zero hold has passed. It is a limiter whose
// only key is over its limit for exactly that period, since only package sash can wait
// on every clock, including a manual one.
type hold struct{ limiter *sash.Limiter }

// newHold returns a hold of d from now.
func newHold(clock sash.Clock, d time.Duration) hold {
	l := sash.Must(sash.New(sash.Per(1, d).Log(), sash.WithClock(clock), sash.WithSweepInterval(-1)))
	r, _ := l.Reserve("", 1)
	r.Commit(2) // one more than the limit, until both units have left the window
	return hold{l}
}

// left returns how much of h is left.
func (h hold) left() time.Duration {
	if h.limiter == nil {
		return 0
	}
	return h.limiter.Peek("", 0).RetryAfter
}

// wait blocks until h has passed. If the deadline of ctx comes first, it returns an
// error at once.
func (h hold) wait(ctx context.Context) error {
	if h.limiter == nil {
		return nil
	}
	return h.limiter.Wait(ctx, "", 0)
}
