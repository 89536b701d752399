package httplimit

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Verdict is the answer of [Limiter.Decide] to one request.
type Verdict struct {
	// Outcome is Admitted, Denied, Unidentified, Failed or Abandoned. A request is Failed if a function
	// of a policy, or an observer, has panicked. It is Abandoned if it was denied, and its context has
	// ended while it waited in a Queue.
	Outcome Outcome
	// Denial says which quotas deny the request, and for how long, if it is Denied or Abandoned. It names
	// none in two cases: the store of [WithStore] denies it since it cannot decide, or
	// [Limiter.Reconfigure] has taken away all policies of a request that is Abandoned.
	Denial Denial
	// Charges are the charges that the response may change. They are nil if there are none, and then none
	// of their methods does anything.
	Charges *Charges

	aborted bool // whether the panic of a Failed request was http.ErrAbortHandler
}

// Decide asks all policies whose Pattern matches r, and charges r to all of them or to none. It is what
// [Limiter.Middleware] does before it calls a handler, for transports that have no handler of net/http:
// an RPC, a framework, a queue. Such a transport describes its request by an [http.Request]. The policies
// look at
//
//   - Method, Host and URL, which Patterns match; URL must not be nil,
//   - Header, RemoteAddr and TLS, as far as the functions of the policies do,
//   - the context, in which the caller may put an identity that it knows.
//
// Decide sets the headers that report quotas, and Retry-After, in h. If h is nil, it sets none.
//
// A request that is Admitted may go on. Once it is answered, the caller must settle Verdict.Charges by
// [Charges.Settle]; for an [http.Handler], [Charges.Serve] does both. Any other request must be refused;
// for an [http.ResponseWriter], that is [Limiter.Refuse].
//
// Decide blocks while the request waits in a [Queue], and while a store decides. It recovers from all panics,
// also from [http.ErrAbortHandler], since only the server of net/http recovers from that.
//
// Decide keeps nothing of r but what Charges need, until they are settled. It is safe for concurrent use.
func (l *Limiter) Decide(h http.Header, r *http.Request) (v Verdict) {
	_ = l.decide(&v, h, r)
	return v
}

// decide is Decide that sets v, which is zero. It reports whether to watch the request.
func (l *Limiter) decide(v *Verdict, h http.Header, r *http.Request) (watch bool) {
	c := l.calls.Get().(*call)
	l.warnOfSecond(r)
	// Watch the first request of each pooled call, and then one of 251. That is a prime, so that it is not
	// always the inner one of several passes.
	c.decided++
	watch = c.decided%251 == 1
	c.table, c.ctx = l.table.Load(), r.Context()
	c.decide(v, h, r)
	// Serving the request may take long, so another request gets the call first.
	c.release()
	return watch
}

// decide sets v to the verdict on r.
func (c *call) decide(v *Verdict, h http.Header, r *http.Request) {
	defer c.recoverInto(v, r)
	d, identified := c.admitUnderOneTable(r)
	if !identified {
		v.Outcome = Unidentified
		return
	}
	c.admitShadows()
	// The rest only reports what is decided.
	if !c.allowed || c.headers.any() || len(c.observers) > 0 {
		c.decideEach()
	}
	if !c.allowed {
		v.Outcome, v.Denial = c.refused(), c.denial(d)
	}
	c.end() // observers may take their time
	if len(c.observers) > 0 {
		c.report()
	}
	c.setHeaders(h, &v.Denial)
	if c.allowed {
		v.Charges = c.openCharges(r)
	}
	if c.reserves { // as for few requests
		c.close()
	}
}

// admitUnderOneTable finds the takes of r, and charges all enforced ones, or none. If the table is
// replaced before, it starts over. c is then in a section, unless the identity cannot be told.
func (c *call) admitUnderOneTable(r *http.Request) (d *sash.Decision, identified bool) {
	const freeRounds = 4 // after which it keeps Reconfigure waiting
	for round := 1; ; round++ {
		if round <= freeRounds {
			identified = c.collectTakes(r)
		} else {
			identified = c.collectTakesWithin(r)
		}
		if !identified {
			return d, false
		}
		// The functions of the policies have run outside of a section, so that none of them keeps
		// Reconfigure waiting. Within it, these policies are in force.
		if c.within || c.tryBegin() || c.beginLater() {
			if c.place == 0 && leastWait(c.enforced) == 0 { // it may not wait
				return c.admit(), true
			}
			if c.together = c.admitInTurn(r.Context()); c.within {
				c.allowed = c.together.Allowed
				return &c.together, true
			}
		}
		c.startOver() // the policies were replaced
	}
}

// collectTakes fills takes, and reports whether the identity can be told for all enforced policies.
func (c *call) collectTakes(r *http.Request) bool {
	matched := c.routes.Of(r)
	for _, p := range c.policies[:c.firstShadow] {
		if matched[p.route] && !c.addTake(p, r) {
			c.observe(&take{policy: p}, Unidentified)
			return false
		}
	}
	c.enforced = c.takes
	for _, p := range c.policies[c.firstShadow:] {
		if matched[p.route] {
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

// addTake appends the take of p, unless p skips r. It reports false if the identity cannot be told.
func (c *call) addTake(p *policy, r *http.Request) (ok bool) {
	if c.running = p; p.Skip != nil && p.Skip(r) {
		c.running = nil
		return true
	}
	p = p.under(r)
	begin, body := len(c.keys), 0
	if body, ok = c.appendKey(p, r); ok {
		cost, leave := int64(1), int64(0)
		if p.onTerms { // most policies have neither a Cost, nor a Leave, nor a Near
			cost, leave = c.termsOf(p, r)
		}
		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]
		last := &c.takes[len(c.takes)-1]
		if *last == nil { // otherwise it is a take of an earlier request
			*last = new(take)
		}
		t := *last // which is zero
		t.policy, t.cost, t.leave = p, cost, leave
		t.begin, t.body, t.end = begin, body, len(c.keys)
		if c.identities != 0 && len(c.identity) > maxIdentity {
			t.longIdentity = string(c.identity) // the key has only its digest
		}
	}
	c.running = nil
	return ok
}

// termsOf returns what r costs under p, and how many units must remain after it.
func (c *call) termsOf(p *policy, r *http.Request) (cost, leave int64) {
	cost = 1
	if p.Cost != nil {
		cost = p.Cost(r)
	}
	if p.Leave != nil {
		leave = max(p.Leave(r), 0)
	}
	c.onTerms = c.onTerms || leave > 0 || p.near > 0
	return cost, leave
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

// handlePanic logs a panic, unless it is http.ErrAbortHandler, which net/http does not log either. It reports a
// panic in a policy to the observers.
func (c *call) handlePanic(r *http.Request, fault any) {
	p := c.running // nil: an observer, the store or a function of WithSash has panicked, and there is no event
	if fault != http.ErrAbortHandler {
		logPanic(r, p, fault)
	}
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
	if len(c.observers) > 0 {
		c.missed = append(c.missed, missed{p, outcome})
	}
}

// recoverInto makes v Failed if a function of a policy or an observer has panicked. It must be deferred.
func (c *call) recoverInto(v *Verdict, r *http.Request) {
	fault := recover()
	if c.within { // a function that WithSash was given, or the store, has panicked or ended its goroutine
		c.end()
		if c.store == nil { // a store that panics cannot be asked to give anything back
			c.undo()
		}
	}
	if c.reserves { // what stays charged must not stay held, as far as a store may be asked
		c.closeLogged(r)
	}
	if fault != nil {
		c.handlePanic(r, fault)
		*v = Verdict{Outcome: Failed, aborted: fault == http.ErrAbortHandler}
	}
}

// closeLogged is close after a panic, if there was one. It logs a panic of the store, as the first one is still
// to be dealt with.
func (c *call) closeLogged(r *http.Request) {
	defer logPanics(r)
	c.close()
}

// openCharges returns the charges that the response to r may change or ends, with all that they need, or
// nil. What is left is to be closed, or the limiter or the store would keep what it needs to give it back.
func (c *call) openCharges(r *http.Request) (charges *Charges) {
	for _, t := range c.takes {
		if !t.settles && !t.holds || !t.decision.Allowed && t.Shadow {
			continue
		}
		if charges == nil { // most requests have no such charge, and allocate nothing
			charges = &Charges{limiter: c.Limiter, request: r}
			charges.all = charges.single[:0]
		}
		charges.all = append(charges.all, Charge{policy: t.policy, estimate: t.cost, reservation: t.reservation, holds: t.holds})
		charge := &charges.all[len(charges.all)-1]
		t.reservation = reservation{} // it is the charge's
		if len(c.observers) > 0 {
			c.describe(&charge.event, t, pendingOutcomes)
		}
		if t.queues() || t.holds { // the memory of t.key is the next call's
			charge.key = strings.Clone(t.key)
		}
	}
	return charges
}

// warnOfSecond warns, once, if l watches r: then l has admitted r before.
func (l *Limiter) warnOfSecond(r *http.Request) {
	if watched := l.watched.Load(); watched != 0 && watched == headerMap(r) && !l.warned.Swap(true) {
		logfOf(r)("httplimit: a request has passed the same Limiter twice, and is charged twice: " +
			"mount the Limiter once on the way of a request")
	}
}

// headerMap returns what r has in common with its copies alone: its header map, or 0 if there is none.
func headerMap(r *http.Request) uintptr { return reflect.ValueOf(r.Header).Pointer() }
