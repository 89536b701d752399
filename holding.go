package sash

import (
	"slices"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// takeHolding is TakeLeaving. If units of key are held, it also returns the reservation of what it has charged.
// It may set next, if that is not nil, to the decision on one unit more than is left.
//
// Whether they are held is a fact of the entry that is charged, whose limits do not change. So no SetLimits or
// Reconfigure comes between the look and the charge, which would hold units without a reservation.
func (l *Limiter) takeHolding(name string, n, leave int64, next *Decision) (_ Reservation, d Decision) {
	g, k := l.current.Load(), l.key(name)
	q := query{at: g.instant(l.clock.Now()), n: n, leave: max(leave, 0), charge: n > 0, chargeDenied: l.chargeDenied}
	if e := g.keys.load(k); e == nil || !g.ruleset.tryUnheld(e, q, &d, next) {
		buf := [1]target{{key: k.hidden(), leave: q.leave, holding: true}}
		targets := buf[:]
		q.leave = 0 // the target says it
		l.takeAll(targets, g, &request{query: q}, &d)
		l.observeReserved(targets, n, d)
		return l.reservation(&targets[0], n, d), d
	}
	if l.observer != nil && n != 0 {
		l.observe(k, n, d)
	}
	return Reservation{}, d
}

// tryUnheld is the fast path of takeHolding. If it reports false, it had no effect.
func (rs *ruleset) tryUnheld(e *entry, q query, d, next *Decision) bool {
	switch {
	case q.n <= 0 || rs.of(e).held:
		return false
	case q.leave > 0:
		return rs.tryLeaving(e, q, d)
	}
	return rs.tryFast(e, e.Word.Load(), q.at, q.n, stores|tells, d, next) != retry
}

// takeAllHolding is takeAllOn, or TakeAll if terms is nil. If units of any of the keys are held, it also returns
// the reservations of these keys, as takeHolding does.
func (l *Limiter) takeAllHolding(keys []string, terms []bridge.Terms, n int64) (held []Reservation, d Decision, crossings []bridge.Crossing[Limit]) {
	var g *generation // the one that q.at belongs to; nil: the clock is still to be read
	q := request{query: query{n: n, charge: n > 0, chargeDenied: l.chargeDenied}}
	switch {
	case terms == nil:
		g = l.current.Load()
		if q.at = g.instant(l.clock.Now()); l.tryTakeAllUnheld(g, keys, q.at, n, &d) {
			return nil, d, nil
		}
	case len(keys) == 1 && terms[0].Leave <= 0:
		if d, crossings, ok := l.tryTakeOn(keys[0], terms[0].Near, n); ok { // of an entry that holds nothing
			return nil, d, crossings
		}
	}
	var buf [8]target
	targets := l.targetsOn(buf[:0], keys, terms)
	for i := range targets {
		targets[i].holding = true
	}
	l.takeAll(targets, g, &q, &d)
	if slices.ContainsFunc(targets, func(t target) bool { return t.origins != nil }) {
		held = l.reservations(targets, keys, n, d)
	}
	l.observeReserved(targets, n, d)
	return held, d, crossingsOf(targets)
}

// tryTakeAllUnheld is the fast path of TakeAll at an instant of g, if no key of them holds units. If it
// reports false, it had no effect.
func (l *Limiter) tryTakeAllUnheld(g *generation, keys []string, at, n int64, d *Decision) bool {
	if g.fast == fastNone {
		return false
	}
	var fast fastTargets
	switch fast.gather(l, g, keys, at, n) {
	case denied:
		return fast.deny(g, at, n, d)
	case admitted:
		all := fast.all[:fast.count]
		held := slices.ContainsFunc(all, func(t fastTarget) bool { return g.ruleset.of(t.entry).held })
		return !held && fast.charge(g, at, n, d)
	}
	return false
}
