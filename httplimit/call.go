package httplimit

import (
	"crypto/sha256"
	"encoding/binary"
	"log"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A call is what a limiter works out for one request. Calls are pooled, with the
// buffers that they have grown.
type call struct {
	*Limiter
	takes    []take // those of the enforced policies, then those of shadows
	enforced int    // how many of takes
	keys     []byte // of all takes
	identity []byte // the latest
	names    []string
	spare    spare
	asking   *policy // whose functions are running
	charged  bool    // by reservations
}

// A take is one policy's part of a call.
type take struct {
	*policy
	begin, body, end int    // of its key in keys; the policy's number comes before body
	key              string // that, once all keys are there
	identity         string // if events are to name it
	cost             int64
	decision         sash.Decision
	quota            *quota        // that decided
	own              bool          // whether it is one of the policy's
	next             sash.Decision // on one unit more than remain
	foretold         bool          // whether that is known
	least            *quota        // that has the least left
	more             time.Duration // until it has more than that, or sash.Never
	remaining        int64         // units left, whatever the decision was about
	left             string        // remaining as RateLimit has it, if it is said
	reservation      sash.Reservation
	charged          bool // by reservation
}

type verdict uint8

const (
	admitted verdict = iota
	denied
	unknown // who is calling
	broken  // a function has panicked
)

// release gives c back. The keys of its takes must not be used afterwards. It
// clears as little as it can: what is left names the limiter's own policies, c's own
// keys, and some text of headers.
func (c *call) release() {
	const most = 4 << 10 // who sends a huge header does not get to keep the memory
	if cap(c.keys) > most || cap(c.identity) > most {
		return
	}
	if c.charged || c.naming.identities {
		clear(c.takes)
		c.charged = false
	}
	c.takes, c.enforced = c.takes[:0], 0
	c.keys, c.names = c.keys[:0], c.names[:0]
	c.calls.Put(c)
}

// decide asks all policies of r and sets the headers that tell of them.
func (c *call) decide(h http.Header, r *http.Request) (v verdict, denial Denial) {
	defer func() {
		if fault := recover(); fault != nil {
			c.failed(r, fault)
			v = broken
		}
	}()
	if !c.gather(r) {
		return unknown, Denial{}
	}
	d := sash.Decision{Allowed: true}
	c.admit(&d)
	if d.Allowed {
		c.admitShadows()
	}
	if !d.Allowed || c.headers.any() || c.observer != nil {
		c.inspect(&d)
	}
	if !d.Allowed {
		v, denial = denied, c.denial(&d)
	}
	if c.observer != nil {
		c.report(d.Allowed)
	}
	if c.enforced > 0 {
		c.tell(h, denial)
	}
	return v, denial
}

// failed sees to what a panic leaves to be done: it is heard of, by the observer too
// if it is not its own. A handler that wants its connection aborted is given its way.
func (c *call) failed(r *http.Request, fault any) {
	if fault == http.ErrAbortHandler {
		panic(fault)
	}
	p := c.asking
	logPanic(r, p, fault)
	if c.asking = nil; p != nil {
		defer logPanics(r)
		c.observe(&take{policy: p}, Failed)
	}
}

// logPanics ends a panic of the observer.
func logPanics(r *http.Request) {
	if fault := recover(); fault != nil {
		logPanic(r, nil, fault)
	}
}

// logPanic sees to it that a panic in p, or in the observer if p is nil, is heard of
// as net/http's own are: in the log of the server, and not by the client.
func logPanic(r *http.Request, p *policy, fault any) {
	logf, in := log.Printf, "the observer"
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		logf = server.ErrorLog.Printf
	}
	if p != nil {
		in = "policy " + strconv.Quote(p.Name)
	}
	logf("httplimit: panic in %s: %v\n%s", in, fault, debug.Stack())
}

// gather fills in takes, and reports whether all enforced policies can tell who is
// calling.
func (c *call) gather(r *http.Request) bool {
	matched := c.match(r)
	for _, p := range c.policies[:c.shadows] {
		if matched.has(p.route) && !c.ask(p, r) {
			c.observe(&take{policy: p}, Unidentified)
			return false
		}
	}
	c.enforced = len(c.takes)
	for _, p := range c.policies[c.shadows:] {
		if matched.has(p.route) {
			c.askShadow(p, r)
		}
	}
	all := asString(c.keys) // sash copies what it keeps,
	if c.observed {
		all = string(c.keys) // but hands keys to an observer as they are
	}
	for i := range c.takes {
		t := &c.takes[i]
		t.key = all[t.begin:t.end]
	}
	return true
}

// ask appends p's take, unless p skips r, and reports whether p can tell who is
// calling.
func (c *call) ask(p *policy, r *http.Request) bool {
	c.asking = p
	skipped, identified := p.Skip != nil && p.Skip(r), false
	if !skipped {
		begin, body := len(c.keys), 0
		if body, identified = c.identify(p, r); identified {
			cost := p.cost(r)
			t := c.another()
			*t = take{policy: p, begin: begin, body: body, end: len(c.keys), cost: cost}
			if c.naming.identities {
				t.identity = string(c.identity)
			}
		}
	}
	c.asking = nil
	return skipped || identified
}

// another returns a place for one more take, which must be overwritten whole.
func (c *call) another() *take {
	if len(c.takes) == cap(c.takes) {
		c.takes = slices.Grow(c.takes, 1)
	}
	c.takes = c.takes[:len(c.takes)+1]
	return &c.takes[len(c.takes)-1]
}

// askShadow is ask for a policy that must not hurt the request.
func (c *call) askShadow(p *policy, r *http.Request) {
	defer func() {
		if fault := recover(); fault != nil {
			c.failed(r, fault)
		}
	}()
	if !c.ask(p, r) {
		c.observe(&take{policy: p}, Unidentified)
	}
}

// identify appends a key to keys: p's number and who is calling. It returns where
// the latter begins. The identity is made apart, so that a KeyFunc which forgets to
// append cannot forge a key; a long one is kept as its digest, so that a client
// cannot fill the memory with a few.
func (c *call) identify(p *policy, r *http.Request) (body int, ok bool) {
	const most = 128
	if c.identity, ok = p.Key(c.identity[:0], r); !ok {
		return 0, false
	}
	long := len(c.identity) > most
	c.keys = appendNumber(c.keys, p.number, long)
	body = len(c.keys)
	if long {
		digest := sha256.Sum256(c.identity)
		c.keys = append(c.keys, digest[:]...)
	} else {
		c.keys = append(c.keys, c.identity...)
	}
	return body, true
}

// admit charges all enforced policies, or none, and makes d the decision.
func (c *call) admit(d *sash.Decision) {
	takes := c.takes[:c.enforced]
	switch {
	case len(takes) == 0:
	case settled(takes) || !alike(takes):
		c.reserve(takes, d)
	case len(takes) == 1 && c.headers.any():
		t := &takes[0]
		*d, t.next = c.limiter.TakeThenPeek(t.key, t.cost)
		t.foretold = true
	case len(takes) == 1:
		*d = c.limiter.Take(takes[0].key, takes[0].cost)
	default:
		for i := range takes {
			c.names = append(c.names, takes[i].key)
		}
		*d = c.limiter.TakeAll(c.names, takes[0].cost)
	}
}

// settled reports whether a charge may be given back.
func settled(takes []take) bool {
	for i := range takes {
		if takes[i].givesBack() {
			return true
		}
	}
	return false
}

// alike reports whether all cost the same.
func alike(takes []take) bool {
	for i := range takes {
		if takes[i].cost != takes[0].cost {
			return false
		}
	}
	return true
}

// reserve is admit for charges that may be given back, and for policies whose costs
// differ: those of one cost are charged at one instant, then those of the next; if
// these deny, the former are given back.
func (c *call) reserve(takes []take, d *sash.Decision) {
	for i := range takes {
		if takes[i].charged {
			continue
		}
		if *d = c.reserveAll(takes[i:], takes[i].cost); !d.Allowed {
			giveBack(takes)
			return
		}
	}
}

// reserveAll charges those of takes that cost so much, or none of them.
func (c *call) reserveAll(takes []take, cost int64) sash.Decision {
	c.names, c.charged = c.names[:0], true
	for i := range takes {
		if takes[i].cost == cost {
			c.names = append(c.names, takes[i].key)
		}
	}
	reservations, d := c.limiter.ReserveAll(c.names, cost)
	for i := range takes {
		if d.Allowed && takes[i].cost == cost {
			takes[i].charged, takes[i].reservation = true, reservations[0]
			reservations = reservations[1:]
		}
	}
	return d
}

func giveBack(takes []take) {
	for i := range takes {
		if takes[i].charged {
			takes[i].reservation.Cancel()
		}
	}
}

// admitShadows charges each shadow by itself: none stops another.
func (c *call) admitShadows() {
	for i := c.enforced; i < len(c.takes); i++ {
		t := &c.takes[i]
		if t.givesBack() {
			c.charged = true
			t.reservation, t.decision = c.limiter.Reserve(t.key, t.cost)
		} else {
			t.decision = c.limiter.Take(t.key, t.cost)
		}
	}
}

// inspect fills in what each policy says, given the decision d of all.
func (c *call) inspect(d *sash.Decision) {
	if c.enforced == 1 {
		t := &c.takes[0]
		t.decision, t.remaining = *d, d.Remaining
	} else {
		for i := range c.takes[:c.enforced] {
			c.takes[i].peek(c.limiter, d.Allowed)
		}
	}
	for i := range c.takes[:c.enforced] {
		c.takes[i].findQuota()
	}
	if d.Allowed {
		return // the shadows have been asked
	}
	for i := c.enforced; i < len(c.takes); i++ {
		c.takes[i].peek(c.limiter, false)
	}
}

// peek asks for the policy's own part in what was decided of several.
func (t *take) peek(l *sash.Limiter, charged bool) {
	now := t.look(l)
	if charged {
		t.decision = now
		t.decision.Allowed, t.decision.RetryAfter = true, 0
	} else {
		t.decision = l.Peek(t.key, t.cost)
	}
}

// look fills in what remains now, and the decision on one unit more.
func (t *take) look(l *sash.Limiter) (now sash.Decision) {
	now, t.next = l.TakeThenPeek(t.key, 0)
	t.foretold, t.remaining = true, now.Remaining
	return now
}

// denial says which quotas have denied the request, whose decision is d.
func (c *call) denial(d *sash.Decision) Denial {
	result := Denial{RetryAfter: d.RetryAfter}
	for i := range c.takes[:c.enforced] {
		if t := &c.takes[i]; !t.decision.Allowed {
			result.Violated = append(result.Violated, t.quota.name)
			result.RetryAfter = max(result.RetryAfter, t.decision.RetryAfter)
		}
	}
	if len(result.Violated) > 0 {
		return result
	}
	// Time has gone on since d, and all would admit it now. Name what was said.
	t := c.deciding(d)
	t.decision, t.remaining, t.foretold = *d, d.Remaining, false
	t.findQuota()
	result.Violated = append(result.Violated, t.quota.name)
	return result
}

// deciding returns the take whose limit has decided d.
func (c *call) deciding(d *sash.Decision) *take {
	for i := range c.takes[:c.enforced] {
		if _, own := c.takes[i].quotaOf(d.Limit); own {
			return &c.takes[i]
		}
	}
	return &c.takes[0]
}

// findQuota fills in the quota that has decided.
func (t *take) findQuota() { t.quota, t.own = t.quotaOf(t.decision.Limit) }

// report tells the observer of all takes.
func (c *call) report(allowed bool) {
	for i := range c.takes {
		t := &c.takes[i]
		outcome := Admitted
		switch {
		case !t.decision.Allowed:
			outcome = Denied
		case !allowed:
			outcome = Withheld
		}
		c.observe(t, outcome)
	}
}

// fingerprint returns what stands for t's identity in this process. It is a digest
// with a secret: a seeded hash that is only fast can be computed backwards, so that
// who knows one identity and its hash knows the seed, and can try all addresses.
func (c *call) fingerprint(t *take) uint64 {
	c.identity = append(append(c.identity[:0], c.secret[:]...), t.key[t.body-t.begin:]...)
	digest := sha256.Sum256(c.identity)
	return binary.BigEndian.Uint64(digest[:])
}

// findLeast fills in which quota has the least left, and when it has more: the one
// that denies one unit more than remains. It need not be the one that has decided: a
// request of several units may have to wait longer for one that has more left.
func (t *take) findLeast(l *sash.Limiter) {
	switch {
	case t.foretold:
	case !t.decision.Allowed && t.cost == t.remaining+1:
		t.next = t.decision
	default:
		t.look(l)
	}
	t.least, t.more = t.quota, t.next.RetryAfter
	if t.next.Limit != t.quota.limit {
		t.least, _ = t.quotaOf(t.next.Limit)
	}
}
