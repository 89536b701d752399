package httplimit

import "github.com/seed-30da4c49/sash"

// here is the admission in this process.
type here struct{ *call }

// charge sets the decision of a take that is charged alone. Several takes get one decision together, so
// decideEach looks at each.
func (c here) charge(takes []take, how charging) *sash.Decision {
	t := &takes[0]
	if !t.Shadow && c.enforced > 1 {
		return c.chargeAll(takes, how)
	}
	switch {
	case how == reserving:
		c.unclean = true // a reservation keeps memory alive, so the pooled call must forget it
		t.reservation.here, t.decision = c.limiter.Reserve(t.key, t.cost)
		t.reserved = t.decision.Allowed
	case c.headers.any() && !t.Shadow:
		t.decision, t.next = c.limiter.TakeThenPeek(t.key, t.cost)
		t.nextKnown = true
	default:
		t.decision = c.limiter.Take(t.key, t.cost)
	}
	t.remaining, t.decided = t.decision.Remaining, true
	return &t.decision
}

// chargeAll charges all takes that cost as much as the first, or none.
func (c here) chargeAll(takes []take, how charging) *sash.Decision {
	cost := takes[0].cost
	c.names = c.names[:0]
	for i := range takes {
		if takes[i].cost == cost {
			c.names = append(c.names, takes[i].key)
		}
	}
	if how == final {
		c.together = c.limiter.TakeAll(c.names, cost)
		return &c.together
	}
	c.unclean = true
	// Reservations come in the order of names, or there are none.
	var reservations []sash.Reservation
	reservations, c.together = c.limiter.ReserveAll(c.names, cost)
	for i := range takes {
		if t := &takes[i]; c.together.Allowed && t.cost == cost {
			t.reserved, t.reservation.here = true, reservations[0]
			reservations = reservations[1:]
		}
	}
	return &c.together
}

func (c here) look(takes []take) {
	for i := range takes {
		if t := &takes[i]; t.cost == takes[0].cost {
			t.look(c.limiter)
		}
	}
}
