package httplimit

import "github.com/seed-30da4c49/sash"

// admit charges all enforced policies, or none, and sets d to the decision.
func (c *call) admit(d *sash.Decision) {
	takes := c.takes[:c.enforced]
	switch {
	case len(takes) == 0:
	case anySettles(takes) || !sameCost(takes):
		c.reserveByCost(takes, d)
	case len(takes) == 1 && c.headers.any():
		t := &takes[0]
		*d, t.next = c.limiter.TakeThenPeek(t.key, t.cost)
		t.nextKnown = true
	case len(takes) == 1:
		*d = c.limiter.Take(takes[0].key, takes[0].cost)
	default:
		for i := range takes {
			c.names = append(c.names, takes[i].key)
		}
		*d = c.limiter.TakeAll(c.names, takes[0].cost)
	}
}

// anySettles reports whether a charge of takes may change after the response.
func anySettles(takes []take) bool {
	for i := range takes {
		if takes[i].settles {
			return true
		}
	}
	return false
}

// sameCost reports whether all takes have the same cost.
func sameCost(takes []take) bool {
	for i := range takes {
		if takes[i].cost != takes[0].cost {
			return false
		}
	}
	return true
}

// reserveByCost is admit for charges that may change after the response, and for policies whose
// costs differ. The takes of one cost are charged at one instant, then those of the
// next cost. If one group is denied, the groups before it are given back.
func (c *call) reserveByCost(takes []take, d *sash.Decision) {
	for i := range takes {
		if takes[i].reserved {
			continue
		}
		if *d = c.reserveCost(takes[i:], takes[i].cost); !d.Allowed {
			c.cancelAll(takes)
			return
		}
	}
}

// reserveCost charges all takes of that cost, or none of them.
func (c *call) reserveCost(takes []take, cost int64) sash.Decision {
	c.names, c.reserved = c.names[:0], true
	for i := range takes {
		if takes[i].cost == cost {
			c.names = append(c.names, takes[i].key)
		}
	}
	reservations, d := c.limiter.ReserveAll(c.names, cost)
	for i := range takes {
		if d.Allowed && takes[i].cost == cost {
			takes[i].reserved, takes[i].reservation = true, reservations[0]
			reservations = reservations[1:]
		}
	}
	return d
}

// cancelAll gives all reservations of takes back.
func (c *call) cancelAll(takes []take) {
	for i := range takes {
		if t := &takes[i]; t.reserved {
			t.reservation.Cancel()
			c.waits.notify(t.key)
		}
	}
}

// closeFinal settles the reservations of charges that no response changes. While they are open, the
// limiter keeps what it needs to give them back.
func (c *call) closeFinal() {
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; t.reserved && !t.settles {
			t.reservation.Commit(t.cost)
		}
	}
}

// admitShadows charges each shadow by itself: a shadow that denies stops no other one.
func (c *call) admitShadows() {
	for i := c.enforced; i < len(c.takes); i++ {
		t := &c.takes[i]
		if t.settles {
			c.reserved = true
			t.reservation, t.decision = c.limiter.Reserve(t.key, t.cost)
		} else {
			t.decision = c.limiter.Take(t.key, t.cost)
		}
	}
}
