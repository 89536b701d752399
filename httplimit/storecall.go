package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A storeCall is a call that a store decides.
type storeCall struct {
	*call
	ctx    context.Context // of the request, but it does not end with that
	stored []storedTake    // of the takes
}

// A storedTake is what belongs to a take of a storeCall only.
type storedTake struct {
	key    string // in the store
	by     string
	err    error
	commit func(ctx context.Context, actual int64) error
}

// ask lets the store decide the takes of those indices, which have the same cost, all or none. It
// sets what each of them says.
func (c *storeCall) ask(ask func(context.Context, []string, int64) StoreDecision, indices []int) sash.Decision {
	keys := make([]string, len(indices))
	for i, index := range indices {
		keys[i] = c.stored[index].key
	}
	answer := ask(c.ctx, keys, c.takes[indices[0]].cost)
	ensureRetryAfter(&answer.Decision)
	for i, index := range indices {
		t, stored, key := &c.takes[index], &c.stored[index], &answer.Keys[i]
		ensureRetryAfter(&key.Decision)
		t.decision, t.next, t.nextKnown = key.Decision, key.Next, true
		t.remaining = key.Next.Remaining
		stored.by, stored.err, stored.commit = answer.By, answer.Err, key.Commit
	}
	return answer.Decision
}

// unknownWait stands for the RetryAfter of a store that denies and does not say for how long.
const unknownWait = 100 * time.Millisecond

// ensureRetryAfter makes the RetryAfter of a denial by a store positive.
func ensureRetryAfter(d *sash.Decision) {
	if !d.Allowed && d.RetryAfter <= 0 {
		d.RetryAfter = unknownWait
	}
}

// decideByStore is Limiter.decide with a store.
func (of *call) decideByStore(v *Verdict, h http.Header, r *http.Request) {
	defer of.recoverInto(v, r)
	c := storeCall{call: of, ctx: context.WithoutCancel(r.Context())}
	if !c.collectTakes(r) {
		v.Outcome = Unidentified
		return
	}
	c.stored = make([]storedTake, len(c.takes))
	for i := range c.takes {
		c.stored[i].key = c.takes[i].storedKey(c.takes[i].key)
	}
	var d sash.Decision
	if c.mayQueue && c.mayWait() {
		d = c.admitInTurn(r.Context(), &c)
	} else {
		d = c.admit()
	}
	c.askShadows(d.Allowed)
	// The call is decided. The rest only reports it.
	if !d.Allowed {
		c.ensureDenial(&d)
	}
	for i := range c.takes[:c.enforced] {
		c.takes[i].setQuota()
	}
	if !d.Allowed {
		v.Outcome, v.Denial = c.refused(), c.denial(&d)
		c.explain(&v.Denial)
	}
	c.report(d.Allowed)
	c.setHeaders(h, &v.Denial)
	if d.Allowed {
		c.closeFinal()
		v.Charges = c.newCharges(r, c.stored)
	}
}

// admit charges all enforced policies, or none. The takes of one cost are charged at one instant,
// then those of the next cost.
func (c *storeCall) admit() (d sash.Decision) {
	takes, ask := c.takes[:c.enforced], c.store.Take
	if c.slept || anySettles(takes) || !sameCost(takes) { // a call that has waited may be undone
		ask = c.store.Reserve
	}
	d.Allowed = true
	groups := groupByCost(takes)
	for i, group := range groups {
		if d = c.ask(ask, group); d.Allowed {
			continue
		}
		// Give all groups before back, and only then ask what is left of them, and of those that
		// were not asked.
		for _, before := range groups[:i] {
			c.cancel(before)
		}
		for j, other := range groups {
			if j != i {
				c.ask(c.store.Peek, other)
			}
		}
		return d
	}
	return d
}

// attempt is that of an admission by a store.
func (c *storeCall) attempt() sash.Decision { return c.admit() }

// look is that of an admission by a store.
func (c *storeCall) look() {
	for _, group := range groupByCost(c.takes[:c.enforced]) {
		c.ask(c.store.Peek, group)
	}
}

// undo is that of an admission by a store.
func (c *storeCall) undo() {
	for _, group := range groupByCost(c.takes[:c.enforced]) {
		c.cancel(group)
	}
}

// groupByCost returns the indices of takes, those of one cost together.
func groupByCost(takes []take) (groups [][]int) {
	for i := range takes {
		g := slices.IndexFunc(groups, func(group []int) bool { return takes[group[0]].cost == takes[i].cost })
		if g < 0 {
			g, groups = len(groups), append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return groups
}

// cancel gives back what the takes of those indices have reserved. If that fails, it stays
// charged: the request is denied either way.
func (c *storeCall) cancel(indices []int) {
	for _, i := range indices {
		if commit := c.stored[i].commit; commit != nil {
			_ = commit(c.ctx, 0)
			c.waits.notify(c.takes[i].key)
		}
	}
}

// closeFinal tells the store of the reservations that no response changes.
func (c *storeCall) closeFinal() {
	for i := range c.takes[:c.enforced] {
		if t, commit := &c.takes[i], c.stored[i].commit; commit != nil && !t.settles {
			_ = commit(c.ctx, t.cost) // there is nothing to change
		}
	}
}

// askShadows charges each shadow by itself if the call is admitted. If it is denied, it asks what
// they would have said, which only the observer wants to know.
func (c *storeCall) askShadows(allowed bool) {
	for i := c.enforced; i < len(c.takes); i++ {
		switch {
		case allowed && c.takes[i].settles:
			c.ask(c.store.Reserve, []int{i})
		case allowed:
			c.ask(c.store.Take, []int{i})
		case c.observed():
			c.ask(c.store.Peek, []int{i})
		}
	}
}

// ensureDenial makes sure that an enforced take denies: the one that decided d, if each by itself
// says otherwise. That may be if they were not asked at the same instant.
func (c *storeCall) ensureDenial(d *sash.Decision) {
	if !anyDenies(c.takes[:c.enforced]) {
		c.decidingTake(d).decision = *d
	}
}

// explain sets who has denied the call. If the store could not decide, and no quota denies, it
// takes the names of the quotas from d, and sets why.
func (c *storeCall) explain(d *Denial) {
	var violated []string
	var undecided error
	for i := range c.takes[:c.enforced] {
		t, stored := &c.takes[i], &c.stored[i]
		switch {
		case t.decision.Allowed:
			continue
		case t.unlimited() && stored.err != nil:
			undecided = stored.err
		default:
			violated = append(violated, t.quota.Name)
		}
		d.By = stored.by
	}
	if d.Violated = violated; len(violated) == 0 {
		d.Err = undecided
	}
}

// report is call.report with a store.
func (c *storeCall) report(allowed bool) {
	if !c.observed() {
		return
	}
	c.reportMissed()
	for i := range c.takes {
		t := &c.takes[i]
		var e Event
		c.describe(&e, t, c.outcome(t, allowed))
		e.By, e.Err = c.stored[i].by, c.stored[i].err
		c.emit(&e)
	}
}
