package httplimit

import "github.com/seed-30da4c49/sash"

// decideEach sets the decision of each take, given the decision d of the whole call.
func (c *call) decideEach(d *sash.Decision) {
	if c.enforced == 1 {
		t := &c.takes[0]
		t.decision, t.remaining = *d, d.Remaining
		if !t.nextKnown && c.headers.any() {
			t.ensureNext(c.limiter)
		}
	} else {
		for i := range c.takes[:c.enforced] {
			c.takes[i].peekOwn(c.limiter, d.Allowed)
		}
	}
	for i := range c.takes[:c.enforced] {
		c.takes[i].setQuota()
	}
	if d.Allowed {
		return // admitShadows has set the decisions of the shadows
	}
	for i := c.enforced; i < len(c.takes); i++ {
		c.takes[i].peekOwn(c.limiter, false)
	}
}

// peekOwn sets t's own decision, where the whole call was decided over several
// policies.
func (t *take) peekOwn(l *sash.Limiter, charged bool) {
	now := t.peekNext(l)
	if charged {
		// The call was admitted, whatever others have charged to the key since.
		t.decision = now
		t.decision.Allowed, t.decision.RetryAfter = true, 0
	} else {
		t.decision = l.Peek(t.key, t.cost)
	}
}

// peekNext sets remaining, and next to the decision on one unit more. It returns the
// decision on no unit.
func (t *take) peekNext(l *sash.Limiter) (now sash.Decision) {
	now, t.next = l.TakeThenPeek(t.key, 0)
	t.nextKnown, t.remaining = true, now.Remaining
	return now
}

// ensureNext sets next, for a decision that was set without it.
func (t *take) ensureNext(l *sash.Limiter) {
	if !t.decision.Allowed && t.cost == t.remaining+1 {
		t.next, t.nextKnown = t.decision, true
	} else {
		t.peekNext(l)
	}
}

// denial returns which quotas have denied the request, and for how long. d is the
// decision of the whole call.
func (c *call) denial(d *sash.Decision) Denial {
	result := Denial{RetryAfter: d.RetryAfter, Err: c.err}
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; !t.decision.Allowed {
			result.Violated = append(result.Violated, t.quota.Name)
			result.RetryAfter = max(result.RetryAfter, t.decision.RetryAfter)
		}
	}
	if len(result.Violated) > 0 || c.enforced == 0 {
		return result
	}
	// The clock has advanced since d, and by now every policy would admit the request.
	// Report d as it was decided.
	t := c.decidingTake(d)
	t.decision, t.remaining = *d, d.Remaining
	t.ensureNext(c.limiter)
	t.setQuota()
	result.Violated = append(result.Violated, t.quota.Name)
	return result
}

// decidingTake returns the take whose limit, or queue, has decided d.
func (c *call) decidingTake(d *sash.Decision) *take {
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i]
		_, own := t.quotaOf(d.Limit)
		if c.behind != nil {
			own = t.policy == c.behind
		}
		if own {
			return t
		}
	}
	return &c.takes[0]
}

// setQuota sets the quota that has decided.
func (t *take) setQuota() { t.quota, t.ownQuota = t.quotaOf(t.decision.Limit) }

// setLeastQuota sets the quota with the least left, and the time until it has more: it
// is the quota that denies one unit more than remains. The quota that has decided may
// be another one, since a request of several units may wait longer for a quota with
// more left.
func (t *take) setLeastQuota() {
	t.leastQuota, t.moreAfter = t.quota, t.next.RetryAfter
	if t.next.Limit != t.quota.Limit {
		t.leastQuota, _ = t.quotaOf(t.next.Limit)
	}
}

// report reports the outcomes of all takes to the observer.
func (c *call) report(allowed bool) {
	c.reportMissed()
	for i := range c.takes {
		t := &c.takes[i]
		c.observe(t, c.outcome(t, allowed))
	}
}

// outcome returns the outcome of t in a call that is allowed or not.
func (c *call) outcome(t *take, allowed bool) Outcome {
	switch {
	case !t.decision.Allowed && t.Shadow:
		return Denied
	case !t.decision.Allowed:
		return c.refused()
	case !allowed:
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
