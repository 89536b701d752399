package httplimit

import (
	"context"
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

// A gate is the place where the requests of one key wait. It exists while a request
// waits, and while the key is held back. Its fields are guarded by the Transport's mu.
type gate struct {
	hold     hold
	domain   string // of the hold
	requests int    // number of requests that wait

	// changed ends when the key is held back, or held for longer. The requests that wait
	// then start over. Otherwise the Limiter would admit them while the key is held back.
	// Both are nil while none waits.
	changed context.Context
	notify  context.CancelFunc // ends changed
}

// idle reports whether g is equivalent to no gate. It must be called with mu held.
func (g *gate) idle() bool { return g.requests == 0 && g.hold.left() == 0 }
