package httplimit

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A hold is the instant until which a key is held back; the zero hold has passed.
type hold struct {
	clock sash.Clock
	until int64
}

// left returns how much of h is left.
func (h hold) left() time.Duration {
	if h.clock == nil {
		return 0
	}
	return time.Duration(max(h.until-h.clock.Now(), 0))
}

// wait blocks until h has passed. If the deadline of ctx comes first, it returns a TurnError
// at once.
func (h hold) wait(ctx context.Context) error {
	for left := h.left(); left > 0; left = h.left() { // a manual clock may go back
		if deadline, ok := ctx.Deadline(); ok && left > time.Until(deadline) {
			return &TurnError{RetryAfter: left, Held: true, Err: context.DeadlineExceeded}
		}
		blockUntil(ctx, h.clock, h.until, nil, nil, nil)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
		}
	}
	return nil
}
