package queue

import (
	"math"
	"math/rand/v2"

	"github.com/seed-30da4c49/sash/internal/window"
)

// A line is the places at one key, in the order of the turns of their waiters. It is a treap: a
// binary tree in that order, in which each place has a higher rank than those below it. Ranks are
// random, so the depth is about the logarithm of the number of places.
//
// To read or change a place, a call takes it out of the tree. That leaves a tree of the places before
// it, and a tree of the places after it. Then the call puts it back.
type line[K comparable] struct{ root *Place[K] }

// A node is what makes a place part of a line.
type node[K comparable] struct {
	line        *line[K]
	left, right *Place[K]
	rank        uint64
	sum         summary
}

// A summary is what the places of a tree have in common.
type summary struct {
	units      int64 // of the places whose waiters do not try
	everything int   // number of places that claim Everything
	claims     bool  // whether any of them claims something
	most       int64 // the most units, less than Everything, of a claim that is in force
	from       int64 // the earliest From of a claim of such units that is not in force
	hears      bool  // whether any of them hears
}

// own returns the summary of p alone.
func (p *Place[K]) own() summary {
	s := summary{claims: p.Claim.Units > 0, from: math.MaxInt64, hears: p.hears}
	if !p.trying {
		s.units = p.Units
	}
	switch {
	case p.Claim.Units == Everything:
		s.everything = 1
	case p.inForce:
		s.most = p.Claim.Units
	case p.Claim.Units > 0:
		s.from = p.Claim.From
	}
	return s
}

// whole returns the summary of the tree p; nil has no place.
func (p *Place[K]) whole() summary {
	if p == nil {
		return summary{from: math.MaxInt64}
	}
	return p.sum
}

// plus returns the summary of the places of s and t.
func (s summary) plus(t summary) summary {
	return summary{
		units:      window.Plus(s.units, t.units),
		everything: s.everything + t.everything,
		claims:     s.claims || t.claims,
		most:       max(s.most, t.most),
		from:       min(s.from, t.from),
		hears:      s.hears || t.hears,
	}
}

// summarized returns p, whose sub-trees are right, with the summary of its tree.
func (p *Place[K]) summarized() *Place[K] {
	p.sum = p.left.whole().plus(p.own()).plus(p.right.whole())
	return p
}

// change takes p out of its line, calls f with the trees of the places before and after it, and puts p
// back. f may change p. If p is new, it is only put in. mu is held.
func (q *Queues[K]) change(p *Place[K], f func(before, after *Place[K])) {
	before, after := q.takeOut(p)
	f(before, after)
	if p.rank == 0 {
		p.rank = rand.Uint64() | 1
	}
	p.line.root = q.merge(q.merge(before, p.summarized()), after)
}

// takeOut splits the line of p, and returns what is before p and what is after it. mu is held.
func (q *Queues[K]) takeOut(p *Place[K]) (before, after *Place[K]) {
	mine := p.waiter.turn()
	before, after = q.split(p.line.root, mine)
	_, after = q.split(after, turn{mine.yields, mine.number + 1})
	return before, after
}

// A turn is what orders waiters.
type turn struct{ yields, number int64 }

func (w *Waiter[K]) turn() turn { return turn{w.Yields, w.Number} }

// isBefore reports whether t comes before o.
func (t turn) isBefore(o turn) bool {
	return t.yields < o.yields || t.yields == o.yields && t.number < o.number
}

// split splits a tree in two: the places of the waiters before t, and all others. The caller holds mu.
func (q *Queues[K]) split(p *Place[K], t turn) (before, others *Place[K]) {
	if p == nil {
		return nil, nil
	}
	q.steps++
	if p.waiter.turn().isBefore(t) {
		p.right, others = q.split(p.right, t)
		return p.summarized(), others
	}
	before, p.left = q.split(p.left, t)
	return before, p.summarized()
}

// merge returns one tree of the places of two. Every place of the tree before is ahead of every place of
// the tree after. The caller holds mu.
func (q *Queues[K]) merge(before, after *Place[K]) *Place[K] {
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	}
	q.steps++
	if before.rank > after.rank {
		before.right = q.merge(before.right, after)
		return before.summarized()
	}
	after.left = q.merge(before, after.left)
	return after.summarized()
}

// enforce puts the claims of the tree p in force whose From is not after now. Each of them then stays in
// force until its place claims something else, even if a clock goes back. So a claim is visited once. The
// caller holds mu.
func (q *Queues[K]) enforce(p *Place[K], now int64) {
	if p == nil || p.sum.from > now {
		return
	}
	q.steps++
	q.enforce(p.left, now)
	p.inForce = p.inForce || p.Claim.Units > 0 && p.Claim.From <= now
	q.enforce(p.right, now)
	p.summarized()
}

// claimed returns the most units that any place of the tree p claims now.
func (p *Place[K]) claimed() int64 {
	s := p.whole()
	if s.everything > 0 {
		return Everything
	}
	return s.most
}

// wake wakes the waiters of the tree p that hear, up to the first that claims Everything. It leaves out
// the waiter with the number by. It reports whether a place of p claims Everything.
func (p *Place[K]) wake(by int64) (stopped bool) {
	if !p.whole().hears { // and so none claims Everything
		return false
	}
	if p.left.wake(by) {
		return true
	}
	if p.hears && p.waiter.Number != by {
		p.waiter.Wake()
	}
	return p.Claim.Units == Everything || p.right.wake(by)
}

// each calls f for the waiters of the tree p, in their order.
func (p *Place[K]) each(f func(*Waiter[K])) {
	if p != nil {
		p.left.each(f)
		f(p.waiter)
		p.right.each(f)
	}
}
