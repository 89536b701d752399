package httplimit

import "github.com/seed-30da4c49/sash"

// admit charges all enforced takes, or none. The takes of one cost are charged at one instant, and then
// the takes of the next cost.
func (c *call) admit() (d *sash.Decision) {
	takes, how := c.takes[:c.enforced], final
	if c.slept {
		how = reserving // its client may have gone: then it is undone
	}
	for i := range takes {
		if takes[i].settles || takes[i].cost != takes[0].cost {
			how = reserving
		}
	}
	if len(takes) == 0 {
		c.together = sash.Decision{Allowed: true}
		d = &c.together
	}
	for i := range takes {
		if i > 0 && !costIsNew(takes, i) {
			continue
		}
		if d = c.admission.charge(takes[i:], how); !d.Allowed {
			c.undo() // all of it, before it is asked what is left
			break
		}
	}
	c.allowed = d.Allowed
	return d
}

// attempt is admit of a call that may wait. If it charges nothing, it sets the decision of each
// enforced take.
func (c *call) attempt() sash.Decision {
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i] // forget what an earlier attempt has left
		t.reserved, t.reservation, t.nextKnown, t.decided = false, reservation{}, false, false
	}
	d := c.admit()
	if !c.allowed {
		c.decideEach()
	}
	return *d
}

// decideEach sets the decision and the quota of each enforced take.
func (c *call) decideEach() {
	takes := c.takes[:c.enforced]
	for i := range takes {
		t := &takes[i]
		switch {
		case t.decided:
		case c.allowed:
			t.lookBack(c.limiter) // a store has told
		default:
			c.admission.look(takes[i:])
		}
		if !t.nextKnown && c.headers.any() {
			t.findNext(c.limiter)
		}
		t.setQuota()
	}
}

// look sets the decision of each enforced take, and charges nothing.
func (c *call) look() {
	takes := c.takes[:c.enforced]
	for i := range takes {
		if costIsNew(takes, i) {
			c.admission.look(takes[i:])
		}
	}
}

// undo gives back what the latest attempt has reserved. If a store fails, the charge stays: the request
// is denied either way.
func (c *call) undo() {
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; t.reserved {
			_ = t.reservation.commit(c.ctx, 0)
			t.reservation, t.decided = reservation{}, false
			c.waits.Free(t.key, c.place)
		}
	}
}

// admitShadows charges each shadow by itself if the call is admitted: a shadow that denies stops no
// other one. If the call is denied, it asks what they would have said, which only observers want to
// know.
func (c *call) admitShadows() {
	for i := c.enforced; i < len(c.takes); i++ {
		one := c.takes[i : i+1]
		switch {
		case c.allowed && one[0].settles:
			c.admission.charge(one, reserving)
		case c.allowed:
			c.admission.charge(one, final)
		case c.observed(): // or it is of no use
			c.admission.look(one)
		}
	}
}

// closeFinal settles the reservations that no response changes. While they are open, the limiter or
// the store keeps what it needs to give them back.
func (c *call) closeFinal() {
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; t.reserved && !t.settles {
			_ = t.reservation.commit(c.ctx, t.cost) // there is nothing to change
		}
	}
}
