package httplimit

import (
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
)

// report reports the outcomes of all takes to the observer.
func (c *call) report() {
	for _, m := range c.missed {
		c.observe(&take{policy: m.policy}, m.outcome)
	}
	for _, t := range c.takes {
		outcome := Admitted
		switch {
		case !t.decision.Allowed && t.Shadow:
			outcome = Denied
		case !t.decision.Allowed:
			outcome = c.refused()
		case !c.allowed:
			outcome = Withheld
		}
		c.observe(t, outcome)
	}
}

// refused returns the outcome of a call that is not allowed.
func (c *call) refused() Outcome {
	if c.abandoned {
		return Abandoned
	}
	return Denied
}

// observe reports the outcome of a take.
func (c *call) observe(t *take, outcome Outcome) {
	var e Event
	c.describe(&e, t, 1<<outcome)
	e.QueueFull = c.full == t.policy
	if e.Err = t.err; outcome == Denied && e.Err == nil {
		e.Err = c.err
	}
	if decidedOutcomes.has(outcome) {
		e.Decision = t.decision
		if t.Settle != nil {
			e.Decision.Limit = t.knownAs(t.decision.Limit)
		}
	}
	if len(t.crossed) > 0 && outcome == Admitted { // else the charge was undone
		e.Near = t.known(t.crossed)
	}
	c.complete(&e, outcome)
	for _, observe := range c.observers {
		observe(e)
	}
}

// describe sets what all events of t have, and what those outcomes tell of the client.
func (c *call) describe(e *Event, t *take, outcomes outcomeSet) {
	e.Policy, e.Pattern, e.Shadow = t.Name, t.Pattern, t.Shadow
	e.Cost, e.Leave, e.By, e.Waited = t.cost, t.leave, t.by, c.waited
	if t.key == "" {
		return // the identity is not known
	}
	if c.fingerprints&outcomes != 0 {
		e.Fingerprint = c.fingerprint(t)
	}
	if c.identities&outcomes != 0 {
		if e.Identity = t.longIdentity; e.Identity == "" {
			e.Identity = strings.Clone(t.key[t.body-t.begin:]) // the memory of keys is reused
		}
	}
}

// denial returns which quotas deny the request, and for how long, where d is the decision on all enforced
// takes. If no quota denies, but a store could not decide, it has the store's error.
func (c *call) denial(d *sash.Decision) Denial {
	if !anyDenies(c.enforced) && len(c.enforced) > 0 {
		// By now no take denies: the clock has advanced, or a store was asked at several instants.
		t := c.decidingTake(d)
		t.decision = *d
		if c.store == nil && c.behind == nil { // else the look has told what is left: the queue took nothing
			t.setRemaining(d)
			t.findNext(c.limiter)
			t.setNextWait(c.limiter)
		}
		t.setWait(c.limiter)
		t.quota, t.ownQuota = t.quotaOf(t.decision.Limit)
	}
	result := Denial{Err: c.err}
	if len(c.enforced) == 0 || !quota.IsHeld(d.Limit) { // else what clients are told is less
		result.RetryAfter = d.RetryAfter
	}
	var undecided error
	for _, t := range c.enforced {
		switch {
		case t.decision.Allowed:
			continue
		case t.unlimited() && t.err != nil: // a fallback denies whatever comes
			undecided = t.err
		default:
			result.Violated = append(result.Violated, t.quota.Name)
		}
		result.RetryAfter, result.By = max(result.RetryAfter, t.wait), t.by
	}
	if len(result.Violated) == 0 && undecided != nil {
		result.Err = undecided
	}
	return result
}

// decidingTake returns the take whose limit, or queue, has decided d.
func (c *call) decidingTake(d *sash.Decision) *take {
	for _, t := range c.enforced {
		_, own := t.quotaOf(d.Limit)
		if c.behind != nil { // its queue has decided, and not a limit
			own = t.policy == c.behind
		}
		if own {
			return t
		}
	}
	return c.enforced[0]
}
