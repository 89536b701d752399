package httplimit

import "github.com/seed-30da4c49/sash"

// denial returns which quotas have denied the request, and for how long, where d is the decision on
// all enforced takes together. If a store could not decide, and no quota denies, it returns why.
func (c *call) denial(d *sash.Decision) Denial {
	takes := c.takes[:c.enforced]
	if !anyDenies(takes) && len(takes) > 0 {
		c.deny(d)
	}
	result := Denial{RetryAfter: d.RetryAfter, Err: c.err}
	var undecided error
	for i := range takes {
		switch t := &takes[i]; {
		case t.decision.Allowed:
			continue
		case t.unlimited() && t.err != nil: // a fallback denies whatever comes
			undecided = t.err
		default:
			result.Violated = append(result.Violated, t.quota.Name)
		}
		result.RetryAfter, result.By = max(result.RetryAfter, takes[i].decision.RetryAfter), takes[i].by
	}
	if len(result.Violated) == 0 && undecided != nil {
		result.Err = undecided
	}
	return result
}

// deny makes d the decision of the take that has decided it. The clock has advanced since, or a store
// was asked at several instants, and by now every policy would admit the request.
func (c *call) deny(d *sash.Decision) {
	t := c.decidingTake(d)
	t.decision = *d
	if c.store == nil {
		t.remaining = d.Remaining
		t.findNext(c.limiter)
	}
	t.setQuota()
}

// decidingTake returns the take whose limit, or queue, has decided d.
func (c *call) decidingTake(d *sash.Decision) *take {
	for i := range c.takes[:c.enforced] {
		t := &c.takes[i]
		_, own := t.quotaOf(d.Limit)
		if c.behind != nil { // its queue has decided, and not a limit
			own = t.policy == c.behind
		}
		if own {
			return t
		}
	}
	return &c.takes[0]
}
