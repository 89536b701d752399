package httplimit

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/seed-30da4c49/sash"
)

// A storeHandler is a next handler behind a limiter with a store. It is what handler is without
// one; the two are apart so that a decision in this process does not pay for the store.
type storeHandler struct {
	*Limiter
	next http.Handler
}

func (h *storeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := storeCall{call: h.calls.Get().(*call), ctx: context.WithoutCancel(r.Context())}
	header := w.Header()
	bare := len(header) == 0
	v, denial := c.decide(header, r)
	var charges storeCharges
	if v == verdictAdmitted {
		charges = c.pendingCharges()
	} else if !bare {
		dropContent(header)
	}
	// The handler may run for long, so another request gets the call first.
	c.release()
	switch v {
	case verdictAdmitted:
		if charges == nil {
			h.next.ServeHTTP(w, r)
		} else {
			charges.serve(h.next, w, r)
		}
	case verdictDenied:
		header["Cache-Control"] = []string{"no-store"}
		h.denied(w, r, denial)
	case verdictUnidentified:
		h.unidentified.ServeHTTP(w, r)
	case verdictFailed:
		answerPanic(w)
	default:
		panic("httplimit: no verdict has the number " + strconv.Itoa(int(v)))
	}
}

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
	cancel func(context.Context) error
}

// ask lets the store decide the takes of those indices, which have the same cost, all or none. It
// sets what each of them says.
func (c *storeCall) ask(ask func(context.Context, []string, int64) StoreDecision, indices []int) sash.Decision {
	keys := make([]string, len(indices))
	for i, index := range indices {
		keys[i] = c.stored[index].key
	}
	answer := ask(c.ctx, keys, c.takes[indices[0]].cost)
	for i, index := range indices {
		t, stored, key := &c.takes[index], &c.stored[index], &answer.Keys[i]
		t.decision, t.next, t.nextKnown = key.Decision, key.Next, true
		t.remaining = key.Next.Remaining
		stored.by, stored.err, stored.cancel = answer.By, answer.Err, key.Cancel
	}
	return answer.Decision
}

// decide is call.decide with a store.
func (c *storeCall) decide(h http.Header, r *http.Request) (v verdict, denial Denial) {
	defer func() {
		if fault := recover(); fault != nil {
			c.handlePanic(r, fault)
			v = verdictFailed
		}
	}()
	if !c.collectTakes(r) {
		return verdictUnidentified, Denial{}
	}
	c.stored = make([]storedTake, len(c.takes))
	for i := range c.takes {
		c.stored[i].key = c.takes[i].storedKey(c.takes[i].key)
	}
	d := c.admit()
	c.askShadows(d.Allowed)
	// The call is decided. The rest only reports it.
	if !d.Allowed {
		c.ensureDenial(&d)
	}
	for i := range c.takes[:c.enforced] {
		c.takes[i].setQuota()
	}
	if !d.Allowed {
		v, denial = verdictDenied, c.denial(&d)
	}
	if c.observer != nil {
		c.report(d.Allowed)
	}
	if c.enforced > 0 {
		c.setHeaders(h, denial)
	}
	return v, denial
}

// admit charges all enforced policies, or none. The takes of one cost are charged at one instant,
// then those of the next cost.
func (c *storeCall) admit() (d sash.Decision) {
	takes, ask := c.takes[:c.enforced], c.store.Take
	if anyGivesBack(takes) || !sameCost(takes) {
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
		if cancel := c.stored[i].cancel; cancel != nil {
			_ = cancel(c.ctx)
		}
	}
}

// askShadows charges each shadow by itself if the call is admitted. If it is denied, it asks what
// they would have said, which only the observer wants to know.
func (c *storeCall) askShadows(allowed bool) {
	for i := c.enforced; i < len(c.takes); i++ {
		switch {
		case allowed && c.takes[i].givesBack():
			c.ask(c.store.Reserve, []int{i})
		case allowed:
			c.ask(c.store.Take, []int{i})
		case c.observer != nil:
			c.ask(c.store.Peek, []int{i})
		}
	}
}

// ensureDenial makes sure that an enforced take denies: the one that decided d, if each by itself
// says otherwise. That may be if they were not asked at the same instant.
func (c *storeCall) ensureDenial(d *sash.Decision) {
	takes := c.takes[:c.enforced]
	if !slices.ContainsFunc(takes, func(t take) bool { return !t.decision.Allowed }) {
		c.decidingTake(d).decision = *d
	}
}

// report is call.report with a store.
func (c *storeCall) report(allowed bool) {
	for i := range c.takes {
		t := &c.takes[i]
		e := c.newEvent(t, t.outcome(allowed))
		e.By, e.Err = c.stored[i].by, c.stored[i].err
		c.observer(e)
	}
}

// storeCharges are the charges of one request in a store that may be given back after its answer.
type storeCharges []storeCharge

// A storeCharge is a pendingCharge in a store.
type storeCharge struct {
	pendingCharge
	cancel func(context.Context) error
}

// pendingCharges is call.pendingCharges with a store.
func (c *storeCall) pendingCharges() (all storeCharges) {
	for i := range c.takes {
		t := &c.takes[i]
		if !t.givesBack() || !t.decision.Allowed {
			continue
		}
		one := storeCharge{pendingCharge{policy: t.policy, observer: c.observer, eventFields: c.eventFields}, c.stored[i].cancel}
		if c.observer != nil {
			one.event = c.newPendingEvent(t)
			one.event.By = c.stored[i].by
		}
		all = append(all, one)
	}
	return all
}

// serve is pendingCharges.serve with a store.
func (all storeCharges) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, ctx: r.Context()}
	returned := false
	defer func() {
		certain := returned && rec.certain()
		for i := range all {
			all[i].settle(r, rec.status, certain)
		}
	}()
	rec.serve(next, r)
	returned = true
}

// settle keeps c or gives it back. It recovers from a panic of the observer or of the store: the
// answer is already written, and the other charges must be settled too.
func (c *storeCharge) settle(r *http.Request, status int, certain bool) {
	defer logPanics(r)
	if c.askPolicy(r, status, certain) {
		return
	}
	if c.cancel != nil {
		c.event.Err = c.cancel(context.WithoutCancel(r.Context())) // the client may be gone by now
	}
	c.observe(GivenBack)
}
