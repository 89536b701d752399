package httplimit

import (
	"context"
	"fmt"
	"strings"
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

// wait blocks until h has passed. If the deadline of ctx comes first, it returns an
// error at once.
func (h hold) wait(ctx context.Context) error {
	for left := h.left(); left > 0; left = h.left() { // a manual clock may go back
		if deadline, ok := ctx.Deadline(); ok && left > time.Until(deadline) {
			return fmt.Errorf("for another %v, the context ends in %v: %w", left, time.Until(deadline), context.DeadlineExceeded)
		}
		blockUntil(ctx, h.clock, h.until, nil, nil, nil)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// domainOf returns what the names of one owner have in common: of a host, its last two
// labels, or its last three if these two may be a public suffix such as "co.uk". Other keys,
// and addresses, stand for themselves.
func domainOf(host string) string {
	host, _, _ = strings.Cut(host, "/") // what follows is a method
	name, _, _ := cutPort(host)
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 3 || digits(labels[n-1]) == len(labels[n-1]) || strings.Contains(name, ":") {
		return host
	}
	kept := 2
	if len(labels[n-1]) == 2 && len(labels[n-2]) <= 3 {
		kept = 3
	}
	return strings.Join(labels[n-kept:], ".")
}
