package sashredis

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Fallback decides calls that the store does not: it does not answer in time or is known to be
// away, or the context of the call has ended. It must be chosen with [WithFallback]. The zero
// Fallback is none.
type Fallback struct {
	mode     fallbackMode
	num, den int64
}

type fallbackMode uint8

const (
	noFallback fallbackMode = iota
	denyMode
	admitMode
	localMode
)

var (
	// FallbackDeny denies. RetryAfter is then the time until a call tries the store again. It is
	// for limits that guard something that must not be overrun: money, a login, a partner's API.
	FallbackDeny = Fallback{mode: denyMode}

	// FallbackAdmit admits everything that the limits could ever admit: for limits that are a
	// courtesy.
	FallbackAdmit = Fallback{mode: admitMode}
)

// FallbackLocal decides in this process, with the share num/den of each Count and Burst, rounded
// down, but at least 1. With a share of 1/N, a fleet of N processes admits no more than Count
// together, as long as Count is at least N. Under a [sash.TokenBucket], its Burst must be at least N,
// too: with a smaller one, each process still has a burst of 1.
//
// A key does not get a fresh window: the share of what was used when the store was heard of last
// counts as used, as far as the mirror knows the key. That is so under each limit by itself, and each
// time that the store is away. Units that this process has given back after that still count, and units
// that it has spent past a reservation count from then on. What is admitted here counts here until it
// leaves the window, also if the store comes back and goes again. If that is more than the share of what
// was used, it counts in its place. It is not charged to the store.
// So in a window in which the store is away, once or more often, both may admit: at most Count and
// the shares.
//
// Under [sash.AtOnce], the share of what was held in the store when it was heard of last is held here until
// its leases have ended, but for what this process has given back since. What this process holds here is given
// back here, by its reservation.
//
// If [WithLimitsFor] gives a key other limits, or calls bring others, each call is decided by the share of its own.
// As in the store, limits that differ in Count or Burst alone share what is used.
func FallbackLocal(num, den int64) Fallback { return Fallback{localMode, num, den} }

// String returns the name of f, such as "FallbackLocal(1, 4)".
func (f Fallback) String() string {
	switch f.mode {
	case denyMode:
		return "FallbackDeny"
	case admitMode:
		return "FallbackAdmit"
	case localMode:
		return fmt.Sprintf("FallbackLocal(%d, %d)", f.num, f.den)
	}
	return "no fallback"
}

// share returns the share of units, rounded down, but at least 1 of any.
func (f Fallback) share(units int64) int64 {
	part, _ := f.part(units)
	return max(part, min(units, 1))
}

// shareUp returns the share of units, rounded up.
func (f Fallback) shareUp(units int64) int64 {
	part, rest := f.part(units)
	return part + int64(min(rest, 1))
}

// part divides the share of units into whole units and a rest.
func (f Fallback) part(units int64) (part int64, rest uint64) {
	hi, lo := bits.Mul64(uint64(units), uint64(f.num))
	whole, rest := bits.Div64(hi, lo, uint64(f.den)) // num <= den, so it does not overflow
	return int64(whole), rest
}

// limit returns l with the share of its units.
func (f Fallback) limit(l sash.Limit) sash.Limit {
	l.Count, l.Burst = f.share(l.Count), f.share(l.Burst)
	return l
}

// A storeClock is the time of the store, as far as it is known, in nanoseconds since 1970. Once it
// is in use, it does not follow a clock of the store that is set: what was charged before would
// leave its window early, or late.
type storeClock struct {
	local  sash.Clock
	offset atomic.Int64
	used   atomic.Bool
}

// maxClockStep is by how much a storeClock in use is moved at a time, at most.
const maxClockStep = int64(time.Second)

// Now returns the time. It may run back by what the store's clock turns out to be off.
func (c *storeClock) Now() int64 { return c.local.Now() + c.offset.Load() }

// follow notes that the store's clock is off the local one by offset.
func (c *storeClock) follow(offset int64) {
	if !c.used.Load() || c.near(offset) {
		c.offset.Store(offset)
	}
}

// near reports whether offset differs from the offset of c by less than maxClockStep, as two
// measurements of one clock may.
func (c *storeClock) near(offset int64) bool {
	step := offset - c.offset.Load()
	return -maxClockStep < step && step < maxClockStep
}

// toNear returns what to add to an instant of the store's clock, which is off the local one by offset,
// to have it by c. It is 0 unless the store's clock was set, so that windows stay aligned.
func (c *storeClock) toNear(offset int64) int64 {
	if c.near(offset) {
		return 0
	}
	return c.offset.Load() - offset
}

// openShares makes the limiter of FallbackLocal, if that is the fallback.
func (l *Limiter) openShares() (err error) {
	f, clock := l.fallback, l.clock
	if f.mode != localMode {
		return nil
	}
	if clock == nil {
		l.storeClock = &storeClock{local: l.local}
		l.storeClock.offset.Store(time.Now().UnixNano() - l.local.Now())
		clock = l.storeClock
	}
	l.borrowers = &borrowers{byShare: xsync.NewMapOf[string, borrower]()}
	l.shares, err = sash.New(sash.WithClock(clock), sash.WithLimitsFor(l.borrowers.limitsOf),
		sash.Limit{Window: time.Second}) // which admits nothing: each share has limits of its own
	return err
}

// share returns the name of t in the shares. As in the store, limits that keep their states differently have
// shares of their own.
func (t target) share() string { return t.name + t.suffix }

// borrowers are the shares that calls are asking, and the limits that these calls have resolved or brought.
// Package sash asks for the limits of a share in the goroutine of a call, and only if it does not track the
// share. Calls whose limits differ in Count or Burst ask the same share, one after the other, and the share
// follows: so each is decided by its own limits.
//
// Invariant: a share is in the map while calls ask it, and all of these have the same limits.
type borrowers struct {
	underway sync.RWMutex // held by each call; for writing, by one whose limits differ from others'
	byShare  *xsync.MapOf[string, borrower]
}

type borrower struct {
	*ruleset
	calls int // that are under way
}

// borrow runs call, which asks the shares of targets, while these have the limits of targets.
func (l *Limiter) borrow(targets []target, call func(shares []string)) {
	shares := make([]string, len(targets))
	for i := range targets {
		shares[i] = targets[i].share()
	}
	b := l.borrowers
	b.underway.RLock()
	unlock := b.underway.RUnlock
	if !b.begin(shares, targets) {
		// Calls under other limits ask one of the shares. Once they have all ended, ask it alone.
		b.underway.RUnlock()
		b.underway.Lock()
		unlock = b.underway.Unlock
		b.begin(shares, targets)
	}
	defer unlock()
	defer b.end(shares)
	for i := range targets {
		internals.Follow(l.shares, shares[i], targets[i].shares)
	}
	call(shares)
}

// begin notes a call for targets, and reports true, unless calls under other limits are asking one of the shares.
func (b *borrowers) begin(shares []string, targets []target) bool {
	for i := range targets {
		same := true
		b.byShare.Compute(shares[i], func(of borrower, known bool) (borrower, bool) {
			if !known {
				of.ruleset = targets[i].ruleset
			}
			if same = of.limits == targets[i].limits; same {
				of.calls++
			}
			return of, false
		})
		if !same {
			b.end(shares[:i])
			return false
		}
	}
	return true
}

// end notes that a call, which begin has noted, has ended.
func (b *borrowers) end(shares []string) {
	for _, share := range shares {
		b.byShare.Compute(share, func(of borrower, _ bool) (borrower, bool) {
			of.calls--
			return of, of.calls == 0
		})
	}
}

// limitsOf returns the limits of a share that a call is asking; none: no call is.
func (b *borrowers) limitsOf(share string) (limits []sash.Limit) {
	if of, known := b.byShare.Load(share); known {
		limits = of.shares
	}
	return limits
}

// decideAway returns the answer of the fallback to r, a call that the store has not decided because of
// err. A call whose context was canceled is denied: its caller does not wait for an answer, and
// must not take one that is charged nowhere.
func (l *Limiter) decideAway(targets []target, r request, err error) (a answer) {
	a.By, a.Err, a.call.request = ByFallback, err, r
	hopeless := false
	for i := range targets {
		hopeless = hopeless || targets[i].neverAdmits(r.needs(i))
	}
	d, canceled := &a.Decision.Decision, errors.Is(err, context.Canceled)
	switch {
	case canceled || hopeless || l.fallback.mode == denyMode:
	case l.fallback.mode == admitMode:
		d.Allowed, d.Limit = true, targets[0].rules[0].Limit
		if r.op == upTo {
			a.call.n = min(r.n, targets[0].most)
		}
		return a
	default:
		l.borrow(targets, func(shares []string) { l.decideLocally(targets, shares, &a) })
	}
	switch {
	case hopeless:
		d.Limit, d.RetryAfter = targets[0].rules[0].Limit, sash.Never
	case !d.Allowed && (d.RetryAfter == 0 || d.RetryAfter == sash.Never): // the store may admit it
		d.Limit, d.RetryAfter = targets[0].rules[0].Limit, l.tryAfter()
	}
	return a
}

// tryAfter returns how long it takes until a call may find the store again.
func (l *Limiter) tryAfter() time.Duration {
	if !l.breaker.open() {
		return l.timeout
	}
	return time.Duration(max(l.breaker.probeAt.Load()-l.local.Now(), 1))
}

// decideLocally sets a to the answer to its call by the shares of targets, which borrow keeps under
// their limits. They leave the share of what the call is to leave, rounded up: so all processes together leave
// at least that.
func (l *Limiter) decideLocally(targets []target, shares []string, a *answer) {
	for i, t := range targets {
		l.seed(t, shares[i])
	}
	d, r := &a.Decision.Decision, &a.call.request
	switch leaves := l.leavesOfShares(r); {
	case r.op == upTo:
		a.call.n, *d = l.shares.TakeUpTo(shares[0], r.n)
	case leaves != nil && r.op == reserve:
		a.local, *d, _ = internals.ReserveAllOn(l.shares, shares, leaves, r.n)
	case leaves != nil && r.op == take:
		*d, _ = internals.TakeAllOn(l.shares, shares, leaves, r.n)
	case leaves != nil:
		*d = internals.PeekAllOn(l.shares, shares, leaves, r.n)
	case r.op == reserve:
		a.local, *d = l.shares.ReserveAll(shares, r.n)
	case r.op == take:
		*d = l.shares.TakeAll(shares, r.n)
	default:
		*d = l.shares.PeekAll(shares, r.n)
	}
}

// leavesOfShares returns the terms of r on the shares, which must leave units of each key; nil if there are none.
func (l *Limiter) leavesOfShares(r *request) (leaves []bridge.Terms) {
	for i := range r.leaves {
		leaves = append(leaves, bridge.Terms{Leave: l.fallback.shareUp(r.leave(i))})
	}
	return leaves
}

// seed charges to the share of t its part of what the mirror knows, unless that has been done.
func (l *Limiter) seed(t target, share string) {
	if l.storeClock != nil {
		l.storeClock.used.Store(true)
	}
	if e := l.mirror.get(&t).past(); e != nil {
		e.seeding.run(t.ruleset, func() { l.seedFrom(e, t, share) })
	}
}

// A seeding tells under which limits the share of an answer was charged. Under a limit, no more can be charged
// than its share. So it is done again under a larger one, which then charges the rest.
type seeding struct {
	mu    sync.Mutex              // held while the share is charged
	under atomic.Pointer[ruleset] // nil: it was not charged yet
}

// run runs charge unless it has run under rs, or under limits as large. Of two calls at once, one waits.
func (s *seeding) run(rs *ruleset, charge func()) {
	if rs.within(s.under.Load()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !rs.within(s.under.Load()) {
		charge()
		s.under.Store(rs)
	}
}

// seedFrom charges to the share of t its part of what e tells, under each limit by itself. If calls of an earlier time
// away count here, or the share of an earlier answer, only what is more than those is charged.
func (l *Limiter) seedFrom(e *mirrored, t target, share string) {
	f, v, later := l.fallback, e.view.with(t.ruleset, e.charged), l.storeClock.toNear(e.at-e.received)
	earliest, _ := e.clockBounds(l.local.Now())
	pasts := make([]bridge.Past[sash.Limit], len(t.rules))
	for i := range t.rules {
		r, p := &t.rules[i], &pasts[i]
		p.Limit = t.shares[i]
		for _, c := range r.past(v.states[i], v.at) {
			if c.Units > 0 {
				p.Charges = append(p.Charges, bridge.Charge{At: c.At + later, Units: f.shareUp(c.Units)})
			}
		}
		// The share is rounded down, and what is used of it up: that may be more than the share.
		o, _ := r.decide(&v.states[i], 0, max(earliest, e.at), 0)
		p.Left = max(f.share(r.most)-f.shareUp(r.most-o.remaining), 0)
	}
	internals.Seed(l.shares, share, pasts)
}
