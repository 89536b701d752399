package httplimit

// report reports the outcomes of all takes to the observer.
func (c *call) report() {
	c.reportMissed()
	for i := range c.takes {
		t := &c.takes[i]
		c.observe(t, c.outcome(t))
	}
}

// outcome returns the outcome of t.
func (c *call) outcome(t *take) Outcome {
	switch {
	case !t.decision.Allowed && t.Shadow:
		return Denied
	case !t.decision.Allowed:
		return c.refused()
	case !c.allowed:
		return Withheld
	}
	return Admitted
}

// refused returns the outcome of a call that is not allowed.
func (c *call) refused() Outcome {
	if c.abandoned {
		return Abandoned
	}
	return Denied
}

// reportMissed reports the shadows that could not decide the call.
func (c *call) reportMissed() {
	all := c.missed
	c.missed = nil
	for _, m := range all {
		c.observe(&take{policy: m.policy}, m.outcome)
	}
}

// observe reports the outcome of a take.
func (c *call) observe(t *take, outcome Outcome) {
	if !c.observed() {
		return
	}
	var e Event
	c.describe(&e, t, outcome)
	c.emit(&e)
}

// describe sets e, which is the zero Event, to the event of a take. It identifies the client as far as
// the options ask.
func (c *call) describe(e *Event, t *take, outcome Outcome) {
	e.Policy, e.Pattern, e.Shadow, e.Outcome = t.Name, t.Pattern, t.Shadow, outcome
	e.Cost, e.Waited, e.QueueFull = t.cost, c.waited, c.full == t.policy
	if e.By, e.Err = t.by, t.err; outcome == Denied && e.Err == nil {
		e.Err = c.err
	}
	if outcome.decided() {
		e.Decision = t.decision
	}
	c.identify(e, t, 1<<outcome)
}

// newPendingEvent returns the event of a take whose charge may change. Its outcome may
// become another of pendingOutcomes: then eventFields.restrict drops what was not asked for.
func (c *call) newPendingEvent(t *take) Event {
	e := Event{Policy: t.Name, Pattern: t.Pattern, Shadow: t.Shadow, Cost: t.cost, By: t.by, Waited: c.waited}
	c.identify(&e, t, pendingOutcomes)
	return e
}

// identify sets the fields of e that tell the client of t, if events of one of those outcomes
// have them.
func (c *call) identify(e *Event, t *take, outcomes outcomeSet) {
	if t.key == "" {
		return // the identity is not known
	}
	if c.eventFields.fingerprints&outcomes != 0 {
		e.Fingerprint = c.fingerprint(t)
	}
	if c.eventFields.identities&outcomes != 0 {
		e.Identity = t.copyIdentity()
	}
}
