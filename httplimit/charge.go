package httplimit

import (
	"context"
	"net/http"
	"sync"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Charges are the charges of one admitted request that its response may change, under policies with Charge,
// ChargeUncertain or Settle, or that hold units until then, under limits by [sash.AtOnce]. All methods may be
// called on nil, which is no charges. They are safe for concurrent use.
type Charges struct {
	limiter *Limiter
	request *http.Request
	all     []Charge
	single  [1]Charge // the memory of all, if it is one
	settled sync.Once
}

// Context returns a context of the request with c, for [ChargeOf].
func (c *Charges) Context(ctx context.Context) context.Context {
	if c == nil {
		return ctx
	}
	ctx, _ = c.context(ctx)
	return ctx
}

// context is Context, and reports whether ChargeOf finds any of c.
func (c *Charges) context(ctx context.Context) (with context.Context, found bool) {
	for i := range c.all {
		if charge := &c.all[i]; charge.policy.Settle != nil { // ChargeOf finds it
			ctx, found = context.WithValue(ctx, charge.policy.chargeKey, charge), true
		}
	}
	return ctx, found
}

// Settle changes the charges to what the request has cost, by its response and by what its handler has
// said, and gives back all units that they hold. It must be called once the request is answered, or will not
// be. Only the first call has an effect; without one, the charges stay, and units are held for their lease.
func (c *Charges) Settle(r Response) {
	if c == nil {
		return
	}
	// A transport may see a response end in several ways, and settle at each.
	c.settled.Do(func() {
		r.Request = c.request
		defer c.wake()
		c.limiter.settleAll(c.all, r)
	})
}

// wake lets others go on that wait for what c has given back. It comes after the last charge: so a request that waits
// under one policy finds what is back under all.
func (c *Charges) wake() {
	for i := range c.all {
		if charge := &c.all[i]; charge.frees {
			c.limiter.waits.Free(charge.key, 0)
		}
	}
}

// Serve calls next, and settles the charges by what next writes to its ResponseWriter, as the middleware
// does. It is for frameworks whose handlers write to an [http.ResponseWriter]. The request that next is
// given has the context for [ChargeOf]. A panic of next passes through after the charges are settled.
func (c *Charges) Serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	if c == nil {
		next.ServeHTTP(w, r)
		return
	}
	rec := &recorder{ResponseWriter: w, ctx: r.Context()}
	// Settle also if next panics or ends its goroutine. Then the response is uncertain.
	defer func() { c.Settle(rec.response(r)) }()
	ctx, found := c.context(rec.ctx)
	rec.serve(next, r, ctx, found)
	rec.returned = true
}

// A Charge is what a request is charged under one policy. Its methods let the handler of the request say
// what it has cost. What the handler says holds whatever the response is, even if the client hangs up or
// the handler panics. It takes effect when the handler returns. After that, the methods do nothing: a
// goroutine that outlives the handler comes too late, and so does a handler that runs on after its
// [http.TimeoutHandler], behind the middleware, has answered.
//
// All methods may be called on nil, on which they do nothing. So a handler works without a limiter, too.
// They are safe for concurrent use.
type Charge struct {
	policy      *policy
	estimate    int64
	reservation reservation
	holds       bool   // whether it holds units
	frees       bool   // whether it was settled and units are back that others wait for
	key         string // of waiters, if the policy has a Queue, or it holds units
	event       Event  // to be reported if the charge changes

	mu    sync.Mutex
	said  bool  // whether the handler has said what the request costs
	units int64 // that cost
	more  int64 // what the handler has added to the cost
}

// A reservation is a charge that may be changed once. The zero reservation is none.
type reservation struct {
	here   sash.Reservation
	stored func(ctx context.Context, actual int64) error // nil: it is in this process
}

// isOpen reports whether r is a charge that was not changed yet.
func (r *reservation) isOpen() bool { return r.stored != nil || r.here != sash.Reservation{} }

// commit changes the charge to that many units, gives back all that it holds, and makes r none. A store is
// told even if ctx has ended, and may fail. It returns the limits that this has crossed, by the near of a
// policy; 0 tells none.
func (r *reservation) commit(ctx context.Context, units, near int64) (crossed []sash.Limit, err error) {
	open := *r
	if *r = (reservation{}); open.stored != nil {
		return nil, open.stored(context.WithoutCancel(ctx), units)
	}
	return internals.CommitNear(open.here, units, near), nil
}

// ChargeOf returns the charge of a request under the policy of that name, for the handler of the request,
// whose context ctx is. It returns nil if the policy does not apply to the request, or if its Settle is
// nil. So it also returns nil for a misspelt name.
//
//	httplimit.ChargeOf(r.Context(), "tokens").Commit(usage.TotalTokens)
func ChargeOf(ctx context.Context, policy string) *Charge {
	c, _ := ctx.Value(chargeKey(policy)).(*Charge)
	return c
}

// Estimate returns the units that were charged when the request arrived: its Cost.
func (c *Charge) Estimate() int64 {
	if c == nil {
		return 0
	}
	return c.estimate
}

// Commit says what the request costs, in units, in place of what the policy says. The last Commit, Cancel
// or Keep holds. A negative number counts as 0. The cost may be more than is left of the quota: then the
// client is denied until it is paid off.
func (c *Charge) Commit(units int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said, c.units = true, max(units, 0)
}

// Cancel says that the request costs nothing.
func (c *Charge) Cancel() { c.Commit(0) }

// Keep says that the request costs its estimate. It is for a handler that answers a login which has
// failed by a status that [Policy].Charge does not keep.
func (c *Charge) Keep() { c.Commit(c.Estimate()) }

// Add says that the request costs that many units more than the policy, or the handler by the other
// methods, says. Several calls add up. A negative number lowers the cost, down to 0.
func (c *Charge) Add(units int64) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more = window.Plus(c.more, units)
}

// settleAll settles all charges, also if a function of the user ends the goroutine at one of them.
func (l *Limiter) settleAll(charges []Charge, r Response) {
	if len(charges) > 0 {
		defer l.settleAll(charges[1:], r)
		l.settle(&charges[0], r)
	}
}

// settle changes c to what the request has cost. The response is written already, and the other charges
// must be settled, too, so it recovers from a panic of an observer or of the store.
func (l *Limiter) settle(c *Charge, r Response) {
	defer logPanics(r.Request)
	defer func() {
		if c.reservation.isOpen() { // a function of the policy has ended the goroutine: the estimate stays
			l.change(r.Request.Context(), c, c.estimate)
		}
	}()
	r.Estimate = c.estimate
	c.mu.Lock() // the handler may have left goroutines behind, which still call Add
	said, cost, more := c.said, c.units, c.more
	c.mu.Unlock()
	if !said {
		cost = l.costByPolicy(c, &r)
	}
	cost = max(window.Plus(cost, more), 0)
	l.change(r.Request.Context(), c, cost) // to the estimate, too: the reservation is no longer open then
	outcome := Settled
	switch c.event.Cost = cost; {
	case cost == c.estimate && (said || !r.unseen || !c.policy.settles):
		return
	case cost == c.estimate:
		outcome = Unseen
	case cost == 0:
		c.event.Cost, outcome = c.estimate, GivenBack
	}
	l.emit(&c.event, outcome)
}

// change changes the charge of c to cost.
func (l *Limiter) change(ctx context.Context, c *Charge, cost int64) {
	c.frees = cost < c.estimate || c.holds // also if a store panics
	crossed, err := c.reservation.commit(ctx, cost, c.policy.near)
	c.event.Err, c.event.Near, c.event.Estimate = err, l.known(c.policy, crossed), c.estimate
}

// known returns those of the limits that a settlement under p has crossed that clients know. They may be the
// limits of policies that have replaced p.
func (l *Limiter) known(p *policy, crossed []sash.Limit) []sash.Limit {
	if crossed = p.known(crossed); len(crossed) == 0 {
		return nil
	}
	// The limits of a Reconfigure are in force shortly before its table is published, while the sections are
	// closed. So wait until they are open: then the table is at least as new as the limits.
	l.sections.reopened.RLock()
	//lint:ignore SA2001 nothing is to be done while they are open
	l.sections.reopened.RUnlock()
	if next := l.table.Load().byNumber[p.number]; next != nil {
		crossed = next.known(crossed)
	}
	return crossed
}

// costByPolicy asks the policy of c. If one of its functions panics, the estimate stays.
func (l *Limiter) costByPolicy(c *Charge, r *Response) (cost int64) {
	defer func() {
		if fault := recover(); fault != nil {
			logPanic(r.Request, c.policy, fault)
			cost = c.estimate
			defer logPanics(r.Request) // of an observer: the charge is still to be settled
			l.emit(&c.event, Failed)
		}
	}()
	stays := c.policy.Charge
	if r.Uncertain {
		stays = c.policy.ChargeUncertain
	}
	switch {
	case stays != nil && !stays(r.Status):
		return 0
	case c.policy.Settle == nil || r.Status == http.StatusSwitchingProtocols: // a hijacked connection goes on
		return c.estimate
	}
	cost = c.policy.Settle(r)
	if cost < 0 || r.Uncertain && cost < c.estimate {
		return c.estimate
	}
	return cost
}
