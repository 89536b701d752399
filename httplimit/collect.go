package httplimit

import (
	"net/http"
	"slices"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// collectTakes fills takes, and reports whether the identity can be told for all enforced policies.
func (c *call) collectTakes(r *http.Request) bool {
	matched := c.routes.Of(r)
	for _, p := range c.policies[:c.firstShadow] {
		if matched.Has(p.route) && !c.addTake(p, r) {
			c.observe(&take{policy: p}, Unidentified)
			return false
		}
	}
	c.enforced = c.takes
	for _, p := range c.policies[c.firstShadow:] {
		if matched.Has(p.route) {
			c.addShadowTake(p, r)
		}
	}
	// Now keys does not move any more. The strings may share its memory, since sash copies the keys that
	// it keeps or passes to an observer.
	all := bridge.AsString(c.keys)
	for _, t := range c.takes {
		t.key = all[t.begin:t.end]
	}
	return true
}

// collectTakesWithin is collectTakes that also begins a section, so that a stream of Reconfigures does
// not make the call start over for ever. Other calls go on.
func (c *call) collectTakesWithin(r *http.Request) (identified bool) {
	c.reconfiguring.RLock()
	defer c.reconfiguring.RUnlock()
	// No Reconfigure is under way, and none begins. So the sections are open, to this table.
	c.startOver()
	return c.collectTakes(r) && c.begin()
}

// addTake appends the take of p, unless p skips r. It reports whether p skips r or the identity can be
// told.
func (c *call) addTake(p *policy, r *http.Request) (ok bool) {
	if c.running = p; p.Skip != nil && p.Skip(r) {
		c.running = nil
		return true
	}
	if p.Plan != nil {
		p = p.under(r)
	}
	begin, body := len(c.keys), 0
	if body, ok = c.appendKey(p, r); ok {
		cost := int64(1)
		if p.Cost != nil {
			cost = p.Cost(r)
		}
		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]
		last := &c.takes[len(c.takes)-1]
		if *last == nil { // otherwise it is a take of an earlier request
			*last = new(take)
		}
		t := *last
		*t = take{} // and then its fields: a literal of them would be made elsewhere, and copied
		t.policy, t.cost = p, cost
		t.begin, t.body, t.end = begin, body, len(c.keys)
		if c.eventFields.identities != 0 && len(c.identity) > maxIdentity {
			t.longIdentity = string(c.identity) // the key has only its digest
		}
	}
	c.running = nil
	return ok
}

// addShadowTake is addTake for a shadow. A panic of its functions must not affect the request.
func (c *call) addShadowTake(p *policy, r *http.Request) {
	defer func() {
		if fault := recover(); fault != nil {
			c.handlePanic(r, fault)
		}
	}()
	if !c.addTake(p, r) { // the request passes without a charge
		c.miss(p, Unidentified)
	}
}

// handlePanic logs a panic and, if a function of a policy has panicked, reports it. It lets
// http.ErrAbortHandler through, by which a handler aborts its connection.
func (c *call) handlePanic(r *http.Request, fault any) {
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	p := c.running // nil: an observer, the store or a function of WithSash has panicked, and there is no event
	logPanic(r, p, fault)
	if c.running = nil; p == nil {
		return
	}
	if p.Shadow {
		c.miss(p, Failed)
		return
	}
	defer logPanics(r)
	c.observe(&take{policy: p}, Failed)
}

// miss notes that a shadow could not decide the call, which may still start over with other policies.
func (c *call) miss(p *policy, outcome Outcome) {
	if c.observed() {
		c.missed = append(c.missed, missed{p, outcome})
	}
}
