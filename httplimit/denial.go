package httplimit

import "github.com/seed-30da4c49/sash"

// denial returns which quotas deny the request, and for how long. d is the decision on all enforced
// takes. If no quota denies, but a store could not decide, it returns the store's error.
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

// deny makes d the decision of the take that decided it. By now no take denies: the clock has advanced,
// or a store was asked at several instants.
func (c *call) deny(d *sash.Decision) {
	t := c.decidingTake(d)
	t.decision = *d
	if c.store == nil && c.behind == nil { // else the look has told what is left: the queue took nothing
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
