package sash

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// seed makes pasts count for the key of that name. A key without an entry gets one, which begins with the
// charges of each of its limits. Then units are charged under each limit, until no more remain than its past
// leaves.
//
// What the key was charged by calls counts as a part of its past. So a past that is told again charges nothing,
// nor is a unit given back for one that leaves more. Each limit is charged by itself: what is used under one
// tells nothing about another, and holds nothing.
func (l *Limiter) seed(name string, pasts []bridge.Past[Limit]) {
	k := l.key(name)
	for round := 1; ; round++ {
		atomic.Round("seed", round)
		g, e := l.lookup(k)
		switch {
		case e == nil:
			r := g.resolve(name)
			if r.ruleset.neverCharges {
				return
			}
			begun := r.ruleset.entryOf(kindMulti, r.ruleset.replayed(name, pasts), name)
			if l.insertEntry(r, k, begun, nil, false) == nil && g.cap != nil {
				return // there is no room
			}
			// Another call may have been first, or the limits may have changed: look again.
		case !e.isMulti(): // only a multi-limit entry holds what each limit was charged by itself
			l.convert(g, k, e, g.ruleset, kindMulti)
		default:
			left := g.ruleset.of(e).leftBy(pasts)
			// No call charges the key between the look at what remains and the charge.
			word, now, alive := l.lockNow(g.ruleset, e, g)
			if alive {
				e.asMulti().drain(now, left)
				e.unlock(word)
				return
			}
			g.keys.compareAndDelete(k, e)
		}
	}
}

// replayed returns the states under rs of a key of that name, with the charges of pasts and no others.
func (rs *ruleset) replayed(name string, pasts []bridge.Past[Limit]) []limitState {
	states := make([]limitState, len(rs.rules))
	for i := range rs.rules {
		r := &rs.rules[i]
		states[i].store(r.algorithm.replay(r.begin(name), r.pastOf(pasts, i).Charges))
	}
	return states
}

// leftBy returns how many units pasts leave under each rule of rs.
func (rs *ruleset) leftBy(pasts []bridge.Past[Limit]) []int64 {
	left := make([]int64, len(rs.rules))
	for i := range rs.rules {
		left[i] = rs.rules[i].pastOf(pasts, i).Left
	}
	return left
}

// pastOf returns the past of r, a rule at that place. The key may have other limits than pasts are of, if its
// limits have changed. Then nothing tells what r was charged, and no more is to be left than any of pasts leaves
// that holds units if r does.
func (r *rule) pastOf(pasts []bridge.Past[Limit], place int) bridge.Past[Limit] {
	if place < len(pasts) && pasts[place].Limit == r.Limit {
		return pasts[place]
	}
	other := bridge.Past[Limit]{Limit: r.Limit, Left: math.MaxInt64}
	for _, p := range pasts {
		if r.held == (p.Limit.Algorithm == Concurrency) {
			other.Left = min(other.Left, p.Left)
		}
	}
	return other
}

// drain charges units under each rule, until no more remain at an instant than left says at its index. The
// caller must hold the lock.
func (e *multiEntry) drain(at int64, left []int64) {
	for i := range e.states {
		a, s := e.ruleset.rules[i].algorithm, &e.states[i]
		before := s.load()
		_, o, _ := a.apply(before, query{at: at}, retry, tells)
		q := query{at: at, n: max(o.remaining-left[i], 0), charge: true}
		e.grow(i, q, admitted)
		// Lineages number one charge under all rules, even if it is of no unit here.
		before = s.load()
		after, _, _ := a.apply(before, q, admitted, stores)
		if g := s.lineage.Load(); g != nil {
			a.note(g, before, after, at, admitted)
		}
		s.store(after)
	}
}
