package httplimit

import (
	"context"

	"github.com/seed-30da4c49/sash"
)

// byStore is the admission by a store.
type byStore struct{ *call }

func (c byStore) charge(takes []take, how charging) *sash.Decision {
	if how == reserving {
		c.together = c.ask(c.store.Reserve, takes)
	} else {
		c.together = c.ask(c.store.Take, takes)
	}
	return &c.together
}

func (c byStore) look(takes []take) { c.ask(c.store.Peek, takes) }

// ask asks the store about all takes that cost as much as the first, and notes what it says of each.
func (c byStore) ask(ask func(context.Context, []string, int64) StoreDecision, takes []take) sash.Decision {
	c.unclean = true
	keys := make([]string, 0, len(takes)) // which the store may keep
	for i := range takes {
		if t := &takes[i]; t.cost == takes[0].cost {
			if t.storedKey == "" {
				t.storedKey = t.policy.storedKey(t.key)
			}
			keys = append(keys, t.storedKey)
		}
	}
	// A client that hangs up must not end the call, or it could choose the fallback.
	answer := ask(context.WithoutCancel(c.ctx), keys, takes[0].cost)
	ensureRetryAfter(&answer.Decision)
	each := answer.Keys
	for i := range takes {
		if t := &takes[i]; t.cost == takes[0].cost {
			ensureRetryAfter(&each[0].Decision)
			t.decision, t.decided = each[0].Decision, true
			t.next, t.nextKnown, t.remaining = each[0].Next, true, each[0].Next.Remaining
			t.reservation.stored, t.reserved = each[0].Commit, each[0].Commit != nil && answer.Allowed
			t.by, t.err = answer.By, answer.Err
			each = each[1:]
		}
	}
	return answer.Decision
}
