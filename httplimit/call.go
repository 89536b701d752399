package httplimit

import (
	"log"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A call is the state of one request in a limiter. Calls are pooled with the buffers
// that they have grown. One goroutine at a time owns a call.
type call struct {
	*Limiter
	*table                 // of the limiter when the call began, or started over
	stripe   *atomic.Int64 // at which it counts itself while it is in a section
	within   bool          // whether it is in a section
	takes    []take        // of the enforced policies, then of the shadows
	enforced int           // number of takes of enforced policies
	keys     []byte        // keys of all takes, one after the other
	identity []byte        // of the latest take
	names    []string
	buffer   fields.Buffer
	running  *policy  // policy whose functions are running; nil: none
	reserved bool     // whether a take has a reservation
	missed   []missed // shadows that could not decide it, to be reported
	decided  uint64   // number of requests so far that had this call

	came      int64         // instant at which it began to wait, if it did
	place     uint64        // number of its waiter, by which it waits again when it starts over; 0: none
	slept     bool          // whether it has waited, so that its charges may be undone
	waited    time.Duration // in queues
	abandoned bool          // whether its context has ended there
	full      *policy       // whose queue had no room for it; nil: none
	err       error         // why it must not wait; nil: it may
	behind    *policy       // in whose queue others were before it, if that alone has refused it; nil: none
}

// A take is one policy's share of a call: its key, its cost and its decision.
type take struct {
	*policy
	begin, body, end int    // bounds of the key in keys; its identity begins at body
	key              string // set once keys is complete
	longIdentity     string // the identity if the key has only its digest, and events may contain it
	cost             int64
	decision         sash.Decision
	quota            *quota.Quota  // the quota that has decided
	ownQuota         bool          // whether quota is one of the policy's
	next             sash.Decision // on one unit more than remains
	nextKnown        bool          // whether next is set
	leastQuota       *quota.Quota  // the quota with the least left
	moreAfter        time.Duration // until leastQuota has more left, or sash.Never
	remaining        int64         // units left now
	remainingText    string        // remaining in digits, if RateLimit has it
	reservation      sash.Reservation
	reserved         bool // whether the charge is a reservation
}

// release returns c to the pool. The keys of its takes must not be used afterwards.
//
// It clears as little as possible. What stays refers only to the limiter's own
// policies, the call's own keys, and some text of headers.
func (c *call) release() {
	const maxBuffer = 4 << 10 // bytes; a huge header must not occupy memory for good
	if cap(c.keys) > maxBuffer || cap(c.identity) > maxBuffer {
		return
	}
	if c.reserved || c.eventFields.identities != 0 {
		clear(c.takes)
		c.reserved = false
	}
	c.takes, c.enforced = c.takes[:0], 0
	if c.place != 0 {
		c.place, c.slept, c.waited, c.abandoned, c.full, c.err, c.behind = 0, false, 0, false, nil, nil, nil
	}
	c.keys, c.names = c.keys[:0], c.names[:0]
	c.calls.Put(c)
}

// decideHere is Limiter.decide without a store.
func (c *call) decideHere(v *Verdict, h http.Header, r *http.Request) {
	defer c.recoverInto(v, r)
	d := sash.Decision{Allowed: true}
	for round := 1; ; round++ {
		var identified bool
		if round <= freeRounds {
			identified = c.collectTakes(r)
		} else {
			identified = c.collectTakesWithin(r)
		}
		if !identified {
			v.Outcome = Unidentified
			return
		}
		if c.within || c.tryBegin() || c.beginLater() {
			if c.place == 0 && (!c.mayQueue || !c.mayWait()) {
				c.admit(&d)
				break
			}
			if d = c.admitInTurn(r.Context(), c); c.within {
				break
			}
		}
		c.startOver() // the policies were replaced
	}
	if d.Allowed && c.enforced < len(c.takes) {
		c.admitShadows()
	}
	// The call is decided. The rest only reports it.
	if !d.Allowed || c.headers.any() || c.observed() {
		c.decideEach(&d)
	}
	if !d.Allowed {
		v.Outcome, v.Denial = c.refused(), c.denial(&d)
	}
	c.end() // observers may take their time
	if c.observed() {
		c.report(d.Allowed)
	}
	c.setHeaders(h, &v.Denial)
	if d.Allowed {
		c.closeFinal()
		v.Charges = c.newCharges(r, nil)
	}
}

// recoverInto recovers from a panic of a function of a policy or of an observer, of which v is
// then the verdict. It must be deferred.
func (c *call) recoverInto(v *Verdict, r *http.Request) {
	if c.within { // a function that WithSash was given has panicked, or ended its goroutine
		c.end()
		c.cancelAll(c.takes[:c.enforced])
	}
	if fault := recover(); fault != nil {
		c.missed = nil
		c.handlePanic(r, fault)
		*v = Verdict{Outcome: Failed}
	}
}

// handlePanic logs a panic and, if a function of a policy has panicked, reports it to
// the observer. It lets http.ErrAbortHandler through, by which a handler aborts its
// connection.
func (c *call) handlePanic(r *http.Request, fault any) {
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	p := c.running
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

// A missed is a shadow that could not decide a call.
type missed struct {
	*policy
	outcome Outcome // Unidentified or Failed
}

// miss notes that a shadow could not decide the call. It is reported with the other outcomes,
// since the call may still start over with other policies.
func (c *call) miss(p *policy, outcome Outcome) {
	if c.observed() {
		c.missed = append(c.missed, missed{p, outcome})
	}
}

// reportMissed reports the shadows that could not decide the call.
func (c *call) reportMissed() {
	all := c.missed
	c.missed = nil
	for _, m := range all {
		c.observe(&take{policy: m.policy}, m.outcome)
	}
}

// logPanics recovers from a panic of the observer, and logs it. It must be deferred.
func logPanics(r *http.Request) {
	if fault := recover(); fault != nil {
		logPanic(r, nil, fault)
	}
}

// logfOf returns the function that writes to the error log of the server of r.
func logfOf(r *http.Request) func(format string, args ...any) {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		return server.ErrorLog.Printf
	}
	return log.Printf
}

// logPanic logs a panic in p, or in an observer or the store if p is nil. Like net/http, it writes
// to the error log of the server, and sends nothing to the client.
func logPanic(r *http.Request, p *policy, fault any) {
	in := "an observer or the store"
	if p != nil {
		in = "policy " + strconv.Quote(p.Name)
	}
	logfOf(r)("httplimit: panic in %s: %v\n%s", in, fault, debug.Stack())
}

// collectTakes fills takes, and reports whether the identity can be told for all
// enforced policies.
func (c *call) collectTakes(r *http.Request) bool {
	matched := c.routes.Of(r)
	for _, p := range c.policies[:c.firstShadow] {
		if matched.Has(p.route) && !c.addTake(p, r) {
			c.observe(&take{policy: p}, Unidentified)
			return false
		}
	}
	c.enforced = len(c.takes)
	for _, p := range c.policies[c.firstShadow:] {
		if matched.Has(p.route) {
			c.addShadowTake(p, r)
		}
	}
	// Now keys does not move any more. The strings may share its memory, since sash copies
	// the keys that it keeps or passes to an observer.
	all := bridge.AsString(c.keys)
	for i := range c.takes {
		t := &c.takes[i]
		t.key = all[t.begin:t.end]
	}
	return true
}

// freeRounds is how often a request starts over until it keeps Reconfigure waiting.
const freeRounds = 4

// collectTakesWithin is collectTakes that begins a section, too. A Reconfigure waits meanwhile, so
// that a stream of them does not make the call start over for ever. Other calls go on.
func (c *call) collectTakesWithin(r *http.Request) (identified bool) {
	c.reconfiguring.RLock()
	defer c.reconfiguring.RUnlock()
	// No Reconfigure is under way, and none begins. So the sections are open, to this table.
	c.startOver()
	return c.collectTakes(r) && c.begin()
}

// addTake appends the take of p, unless p skips r. It reports whether p skips r or the
// identity can be told.
func (c *call) addTake(p *policy, r *http.Request) bool {
	c.running = p
	skipped, identified := p.Skip != nil && p.Skip(r), false
	if !skipped {
		if p.Plan != nil {
			p = p.under(r)
		}
		begin, body := len(c.keys), 0
		if body, identified = c.appendKey(p, r); identified {
			cost := p.cost(r)
			t := c.newTake()
			*t = take{} // and then its fields: a literal of them would be made elsewhere, and copied
			t.policy, t.cost = p, cost
			t.begin, t.body, t.end = begin, body, len(c.keys)
			if c.eventFields.identities != 0 && len(c.identity) > maxIdentity {
				t.longIdentity = string(c.identity) // the key has only its digest
			}
		}
	}
	c.running = nil
	return skipped || identified
}

// newTake appends a take, which still holds old values: the caller must overwrite all
// of it.
func (c *call) newTake() *take {
	if len(c.takes) == cap(c.takes) {
		c.takes = slices.Grow(c.takes, 1)
	}
	c.takes = c.takes[:len(c.takes)+1]
	return &c.takes[len(c.takes)-1]
}

// addShadowTake is addTake for a shadow, which must not affect the request. It recovers
// from a panic of the shadow's functions.
func (c *call) addShadowTake(p *policy, r *http.Request) {
	defer func() {
		if fault := recover(); fault != nil {
			c.handlePanic(r, fault)
		}
	}()
	if !c.addTake(p, r) {
		c.miss(p, Unidentified)
	}
}
