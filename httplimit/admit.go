package httplimit

import (
	"context"
	"slices"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// admit charges all enforced takes, one cost after the other, or none.
func (c *call) admit() (d *sash.Decision) {
	takes := c.enforced
	d, c.together.Allowed = &c.together, true // without any takes
	// If it has slept, its client may have gone: then it is undone.
	reserve := c.slept
	for _, t := range takes {
		reserve = c.mayChange(t) || t.cost != takes[0].cost || reserve
	}
	for i := range takes {
		if slices.ContainsFunc(takes[:i], func(t *take) bool { return t.cost == takes[i].cost }) {
			continue // it was charged with that one
		}
		if d = c.charge(takes[i:], reserve); !d.Allowed {
			c.undo() // all of it, before it is asked what is left
			break
		}
	}
	c.allowed = d.Allowed
	return d
}

// mayChange reports whether the charge of t may change after the response, or holds units until then. Without a
// store, hold notes if a key has limits of its own that do.
func (c *call) mayChange(t *take) bool {
	t.holds = c.keyHolds(t)
	return t.settles || t.holds
}

// keyHolds reports whether the limits of t's key hold units: the limits of its policy or, in a store, its own.
func (c *call) keyHolds(t *take) bool {
	if c.store == nil || c.own == nil {
		return t.policy.holds
	}
	limits := c.own(t.policy.storedKey(t.key))
	return len(limits) == 0 && t.policy.holds || slices.ContainsFunc(limits, quota.IsHeld)
}

// charge charges all takes that cost as much as the first, or none, at one instant. If reserve is set,
// their reservations may change the charges. It returns the decision on all of them, which the next
// charge overwrites. Without a store, decideEach must look at each of several.
func (c *call) charge(takes []*take, reserve bool) *sash.Decision {
	t := takes[0]
	c.reserves = c.reserves || reserve
	switch {
	case c.store != nil && reserve:
		c.together = c.ask(c.store.Reserve, takes)
		return &c.together
	case c.store != nil:
		c.together = c.ask(c.store.Take, takes)
		return &c.together
	case !t.Shadow && len(c.enforced) > 1:
		return c.chargeAll(takes, reserve)
	case c.onTerms && (t.leave > 0 || t.near > 0):
		c.chargeOnTerms(takes, reserve)
		return &t.decision
	case reserve:
		t.reservation.here, t.decision = c.limiter.Reserve(t.key, t.cost)
		t.reserved = t.decision.Allowed
	default:
		next := &t.next
		if !c.headers.any() || t.Shadow {
			next = nil
		}
		t.reservation.here, t.decision = internals.TakeHolding(c.limiter, t.key, t.cost, 0, next)
		t.nextKnown = t.next.Limit.Window > 0
	}
	c.hold(t)
	t.remaining, t.decided = t.decision.Remaining, true
	return &t.decision
}

// chargeOnTerms is charge of one take alone, which must leave units, or is to tell which limits it crosses.
func (c *call) chargeOnTerms(takes []*take, reserve bool) {
	t := takes[0]
	switch {
	case t.near > 0:
		c.setNames(takes)
		var reservations []sash.Reservation
		reservations, t.decision = c.takeOnTerms(takes, reserve)
		if len(reservations) > 0 {
			t.reservation.here = reservations[0]
		}
	case reserve:
		t.reservation.here, t.decision = c.limiter.ReserveLeaving(t.key, t.cost, t.leave)
	default:
		t.reservation.here, t.decision = internals.TakeHolding(c.limiter, t.key, t.cost, t.leave, nil)
	}
	t.reserved = reserve && t.decision.Allowed
	c.hold(t)
	t.setRemaining(&t.decision)
	t.decided = true
}

// hold notes whether the charge of t holds units: by the limits that were charged, which may be the key's own.
func (c *call) hold(t *take) {
	if internals.Held(t.reservation.here) {
		t.reserved, t.holds, c.reserves = true, true, true
	}
}

// takeOnTerms charges all takes that cost as much as the first, whose keys are names, on terms, or none. It notes
// which limits the charge has crossed. It returns the reservations: if reserve is not set, only of keys that hold
// units after all.
func (c *call) takeOnTerms(takes []*take, reserve bool) (reservations []sash.Reservation, d sash.Decision) {
	var crossings []bridge.Crossing[sash.Limit]
	if reserve {
		reservations, d, crossings = internals.ReserveAllOn(c.limiter, c.names, c.terms, takes[0].cost)
	} else {
		reservations, d, crossings = internals.TakeAllHolding(c.limiter, c.names, c.terms, takes[0].cost)
	}
	for _, t := range takes {
		if t.cost != takes[0].cost {
			continue // it is charged before or after these
		}
		t.crossed = nil // by an earlier attempt, which was undone
		for _, crossing := range crossings {
			if c.names[crossing.Key] == t.key {
				t.crossed = append(t.crossed, crossing.Limit)
			}
		}
	}
	return reservations, d
}

// chargeAll is charge of several takes in this process.
func (c *call) chargeAll(takes []*take, reserve bool) *sash.Decision {
	c.setNames(takes)
	cost := takes[0].cost
	// Reservations come in the order of names. If they are denied, all are zero.
	var reservations []sash.Reservation
	switch {
	case c.onTerms:
		reservations, c.together = c.takeOnTerms(takes, reserve)
	case reserve:
		reservations, c.together = c.limiter.ReserveAll(c.names, cost)
	default:
		reservations, c.together, _ = internals.TakeAllHolding(c.limiter, c.names, nil, cost)
	}
	for _, t := range takes {
		if c.together.Allowed && t.cost == cost && len(reservations) > 0 {
			t.reserved, t.reservation.here = reserve, reservations[0]
			c.hold(t)
			reservations = reservations[1:]
		}
	}
	return &c.together
}

// setNames sets names to the keys of all takes that cost as much as the first, and their terms, if any has some.
func (c *call) setNames(takes []*take) {
	c.names, c.terms = c.names[:0], c.terms[:0]
	for _, t := range takes {
		if t.cost != takes[0].cost {
			continue
		}
		c.names = append(c.names, t.key)
		if c.onTerms {
			c.terms = append(c.terms, bridge.Terms{Leave: t.leave, Near: t.near})
		}
	}
}

// ask asks the store about all takes that cost as much as the first, and notes what it says of each.
func (c *call) ask(ask func(context.Context, []string, int64, []int64) StoreDecision, takes []*take) sash.Decision {
	keys, leave := make([]string, 0, len(takes)), []int64(nil) // which the store may keep
	for _, t := range takes {
		if t.cost == takes[0].cost {
			if t.storedKey == "" {
				t.storedKey = t.policy.storedKey(t.key)
			}
			keys = append(keys, t.storedKey)
			if c.onTerms {
				leave = append(leave, t.leave)
			}
		}
	}
	// A client that hangs up must not end the call, or it could choose the fallback.
	answer := ask(context.WithoutCancel(c.ctx), keys, takes[0].cost, leave)
	ensureRetryAfter(&answer.Decision)
	each := answer.Keys
	for _, t := range takes {
		if t.cost == takes[0].cost {
			ensureRetryAfter(&each[0].Decision)
			t.decision, t.decided = each[0].Decision, true
			t.next, t.nextKnown, t.remaining = each[0].Next, true, each[0].Next.Remaining
			t.reservation.stored, t.reserved = each[0].Commit, each[0].Commit != nil && answer.Allowed
			t.holds, c.reserves = t.holds || each[0].Holds, c.reserves || t.reserved // it may have reserved by itself
			t.by, t.err = answer.By, answer.Err
			each = each[1:]
		}
	}
	return answer.Decision
}

// lookAt sets the decision of all takes that cost as much as the first, and charges nothing.
func (c *call) lookAt(takes []*take) {
	if c.store != nil {
		c.ask(c.store.Peek, takes)
		return
	}
	for _, t := range takes {
		if t.cost == takes[0].cost {
			t.peekNext(c.limiter, &t.decision)
			if t.decided = true; t.leave > 0 {
				t.decision = internals.PeekLeaving(c.limiter, t.key, t.cost, t.leave)
			} else {
				t.decision = c.limiter.Peek(t.key, t.cost)
			}
		}
	}
}

// attempt is admit of a call that may wait, if it has its turn. A denied call has its takes decided.
func (c *call) attempt(turn bool) (d sash.Decision) {
	for _, t := range c.enforced { // forget what an earlier attempt has left
		t.reserved, t.reservation, t.nextKnown, t.decided = false, reservation{}, false, false
	}
	if c.allowed = false; turn {
		d = *c.admit()
	}
	if !c.allowed {
		c.decideEach()
	}
	return d
}

// decideEach sets the decision and the quota of each enforced take.
func (c *call) decideEach() {
	for i, t := range c.enforced {
		switch {
		case t.decided:
		case c.allowed:
			// Whatever others have charged to the key since, the call was admitted. A store has told.
			t.peekNext(c.limiter, &t.decision)
			t.decision.Allowed, t.decision.RetryAfter, t.decided = true, 0, true
		default:
			c.lookAt(c.enforced[i:])
		}
		if !t.nextKnown && c.headers.any() {
			t.findNext(c.limiter)
		}
		t.quota, t.ownQuota = t.quotaOf(t.decision.Limit)
		t.setWait(c.limiter)
		t.setNextWait(c.limiter)
	}
}

// undo gives back what the latest attempt has reserved. If a store fails, the charge stays. Those who wait go on
// once all is given back.
func (c *call) undo() {
	for _, t := range c.enforced {
		if t.reserved {
			_, _ = t.reservation.commit(c.ctx, 0, 0)
			t.decided = false
		}
	}
	for _, t := range c.enforced {
		if t.reserved {
			c.waits.Free(t.key, c.place)
		}
	}
}

// close settles all reservations that are left to the units that were charged: no response will. Those who wait go
// on once all are settled.
func (c *call) close() {
	var held []*take
	for _, t := range c.takes {
		if t.reservation.isOpen() {
			_, _ = t.reservation.commit(c.ctx, t.cost, 0)
			if t.holds {
				held = append(held, t)
			}
		}
	}
	for _, t := range held {
		c.waits.Free(t.key, 0)
	}
}

// admitShadows charges each shadow by itself if the call is admitted: a shadow that denies stops no other
// one. If the call is denied, it asks what they would have said, which only observers want to know.
func (c *call) admitShadows() {
	for i := len(c.enforced); i < len(c.takes); i++ {
		one := c.takes[i : i+1]
		switch {
		case c.allowed:
			c.charge(one, c.mayChange(one[0]))
		case len(c.observers) > 0: // or it is of no use
			c.lookAt(one)
		}
	}
}
