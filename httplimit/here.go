package httplimit

import "github.com/seed-30da4c49/sash"

// here is the admission in this process.
type here struct{ *call }

// charge notes the decision on a take that is charged alone. Several of one cost have a decision
// together, so each must be asked for its own.
func (c here) charge(takes []take, how charging) (d sash.Decision) {
	t := &takes[0]
	// A reservation keeps memory of the sash.Limiter alive, so the pooled call must forget it.
	c.unclean = c.unclean || how == reserving
	if !t.Shadow && c.enforced > 1 {
		return c.chargeAll(takes, how)
	}
	switch {
	case how == reserving:
		t.reservation.here, d = c.limiter.Reserve(t.key, t.cost)
		t.reserved = d.Allowed
	case c.headers.any() && !t.Shadow:
		d, t.next = c.limiter.TakeThenPeek(t.key, t.cost)
		t.nextKnown = true
	default:
		d = c.limiter.Take(t.key, t.cost)
	}
	t.decision, t.remaining, t.decided = d, d.Remaining, true
	return d
}

// chargeAll charges all takes that cost as much as the first, or none.
func (c here) chargeAll(takes []take, how charging) sash.Decision {
	cost := takes[0].cost
	c.names = c.names[:0]
	for i := range takes {
		if takes[i].cost == cost {
			c.names = append(c.names, takes[i].key)
		}
	}
	if how == final {
		return c.limiter.TakeAll(c.names, cost)
	}
	// Reservations come in the order of names, or there are none.
	reservations, d := c.limiter.ReserveAll(c.names, cost)
	for i := range takes {
		if t := &takes[i]; d.Allowed && t.cost == cost {
			t.reserved, t.reservation.here = true, reservations[0]
			reservations = reservations[1:]
		}
	}
	return d
}

func (c here) look(takes []take) {
	for i := range takes {
		if t := &takes[i]; t.cost == takes[0].cost {
			t.look(c.limiter)
		}
	}
}
