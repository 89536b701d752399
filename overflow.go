package sash

import (
	"slices"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// An Overflow says what becomes of a key that does not fit under [WithMaxKeys].
type Overflow uint8

const (
	// EvictLeastUsed makes room by evicting the sampled key that has the greatest part
	// of its quota left; of equals, the one that was inserted last. So a flood of new
	// keys evicts its own keys, even if it uses up the quota of each, and not the keys
	// that are being held at their limits.
	//
	// A sample is 16 keys, drawn at random from a table of 2 slots for each key of the
	// bound. While no key in the sample has any quota left, it goes on to more keys. It
	// inspects at most 128 slots; up to a bound of 64 keys, these are all there are.
	EvictLeastUsed Overflow = iota
	// DenyNew denies keys that do not fit. RetryAfter then is the interval at which
	// idle keys are evicted: an estimate, as no decision's is else.
	DenyNew
	// ShareOverflow lets keys that do not fit share quotas of the limiter's own
	// limits, 256 of them, by hash. What is reserved from one is not given back; what
	// is spent beyond it is charged to the shared quota.
	ShareOverflow
)

// refused returns the decision on q for a key that has no place beside so many others
// of the call, given whether the call is admitted: a key without a place admits 0 units,
// but another key of the call may not.
func (l *Limiter) refused(s standing, q query, others int, admitted bool) Decision {
	d := Decision{Allowed: admitted, Limit: s.policy.rules[0].Limit}
	switch {
	case !s.policy.possible(q.n) || q.n > 0 && int64(others) >= s.regime.cap.most:
		d.RetryAfter = Never
	case q.n > 0:
		d.RetryAfter = l.sweepInterval()
	}
	return d
}

// refuses reports whether what a call for key is denied by may be that it does not
// fit, which may be over at any time.
func (l *Limiter) refuses(key string) bool {
	g, c := l.lookup(l.key(key))
	return c == nil && g.cap != nil && g.cap.overflow == DenyNew
}

// askFull answers q, whose instant is in g, for a key that had no place there. It is
// answered as a call on several keys is, under the locks of all that the answer depends
// on: the cell that the key shares, and that it still has none of its own.
func (l *Limiter) askFull(g *regime, k key, q *query, d *Decision) (allowed bool) {
	if d == nil {
		d = new(Decision)
	}
	q.ahead = false // as in compound.ask
	l.takeAllLocked([]target{{key: k}}, g, q, d)
	return d.Allowed
}

// A commons holds the cells that keys without a place share: one for each shard. They
// are compounds, which hold what was spent past the limit, too.
type commons struct {
	carrying sync.Mutex
	cells    [shards]atomic.Pointer[cell]
}

// sharedCell returns the cell that k shares in g, which is dead once g no longer
// is the limiter's.
func (l *Limiter) sharedCell(g *regime, k key) *cell {
	i := k.shard()
	if prior := g.prior.Load(); prior != nil {
		l.carryShared(prior, g, i)
	}
	seat := &g.commons.cells[i]
	if seat.Load() == nil {
		c := newCompound(g.policy).keep("")
		seat.CompareAndSwap(nil, c)
	}
	return seat.Load()
}

// carryShared carries what keys share in prior over into g, and leaves a dead cell.
func (l *Limiter) carryShared(prior, g *regime, i int) {
	now := g.at(l.clock.Now()) // not under the lock: a clock is the caller's code
	g.commons.carrying.Lock()
	defer g.commons.carrying.Unlock()
	gone := prior.policy.newCell("")
	gone.die(gone.word.Load())
	if prior.commons.cells[i].CompareAndSwap(nil, gone) {
		return
	}
	old := prior.commons.cells[i].Load()
	if word, alive := prior.policy.acquire(old); alive {
		next := prior.policy.carried(old, word, g.policy, g.policy.kind, now)
		g.commons.cells[i].Store(next)
		old.die(word)
	}
}

// A lodging is what cell a target of a TakeAll has.
type lodging uint8

const (
	own     lodging = iota // its own, or one that it is to get
	shared                 // one that keys without a place share
	sharing                // the same as a target before it: both count once
	none                   // no place, nor will it get one
)

// lodge finds the cells of targets in g. Those that have none share one, or are to
// be refused, if they do not all fit. It reports whether they do.
func (l *Limiter) lodge(g *regime, targets []target) (fit bool) {
	missing := int64(0)
	for i := range targets {
		t := &targets[i]
		t.policy, t.lodging, t.standing.regime = g.policy, own, nil
		if t.cell = l.find(g, t.key); t.cell == nil {
			t.standing = l.standing(g, t.name)
			t.policy = t.standing.policy
			missing++
		}
	}
	if missing == 0 || !l.full(g, missing, targets) {
		return true
	}
	for i := range targets {
		switch t := &targets[i]; {
		case t.cell != nil:
		case g.commons == nil:
			t.lodging = none
		default:
			t.policy, t.cell, t.lodging = g.policy, l.sharedCell(g, t.key), shared
			if slices.ContainsFunc(targets[:i], func(o target) bool { return o.cell == t.cell }) {
				t.lodging = sharing
			}
		}
	}
	return false
}

// lodges reports whether any target has that lodging.
func lodges(targets []target, in lodging) bool {
	for i := range targets {
		if targets[i].lodging == in {
			return true
		}
	}
	return false
}

// count counts what was lost by a call because its targets did not fit.
func (l *Limiter) count(g *regime, targets []target, q query) {
	switch {
	case g.cap == nil || !q.charge:
	case lodges(targets, none):
		l.refusals.Add(1)
	case lodges(targets, shared):
		l.shared.Add(1)
	}
}
