package sash

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A rule is a Limit as cells want it.
type rule struct {
	Limit
	*terms
	layout     layout // of a counterCell
	tick, span int64  // of a log: the nanoseconds of a tick, and the ticks that a unit counts for

	// index is that of the window that a counter was last located in: a hint,
	// on a cache line of its own since it is written once a window.
	_     [64]byte
	index atomic.Int64
	_     [64]byte
}

// A policy is the limits of a key, all of which must admit what it takes. It
// never changes: a key that is to have other limits gets another cell.
//
// kind is that of its cells. Those of the limiter's own policy are of its kind,
// but for those that hold what only a compound can.
type policy struct {
	*terms
	rules  []rule
	kind   kind
	unseen *cell // holds nothing, ever: it answers for keys that have no cell
}

// terms are what the policies of a limiter have in common, until a Restore: then it
// has new ones, on another timeline (see regime.at).
type terms struct {
	chargeDenied bool
	overrides    lazyMap[*override] // by SetLimits, by key
	plans        lazyMap[*policy]   // of keys' own limits, by planName

	// forgotten is the latest instant at which a key judged idle had become fresh.
	// What holds nothing yet starts no earlier, so that a late reading books nothing
	// into a past of which the table has lost its record.
	forgotten atomic.Int64
}

func newTerms(chargeDenied bool) *terms {
	t := &terms{chargeDenied: chargeDenied}
	t.forgotten.Store(math.MinInt64)
	return t
}

// newPolicy returns the policy of limits. If it is shared by every key that has
// no other, its cells need not point to it, and a single limit makes do with less.
func (t *terms) newPolicy(limits []Limit, shared bool) *policy {
	p := &policy{terms: t, rules: make([]rule, len(limits)), kind: compoundCell}
	for i, l := range limits {
		r := &p.rules[i]
		r.Limit, r.terms = l, t
		r.layout, _ = layoutOf(l)
		r.tick, r.span = ticks(l)
	}
	if shared && len(limits) == 1 {
		p.kind = p.rules[0].kind()
	}
	p.unseen = p.newCell("")
	return p
}

func (p *policy) limits() []Limit {
	limits := make([]Limit, len(p.rules))
	for i := range p.rules {
		limits[i] = p.rules[i].Limit
	}
	return limits
}

// kind returns that of a cell under nothing but r.
func (r *rule) kind() kind {
	if r.Algorithm != SlidingCounter {
		return logCell
	}
	if _, fits := layoutOf(r.Limit); fits {
		return counterCell
	}
	return wideCell
}

// possible reports whether n units could ever be admitted.
func (r *rule) possible(n int64) bool { return 0 <= n && n <= r.Count }

func (p *policy) possible(n int64) bool { return p.forbids(n) == nil }

// forbids returns a rule that will never admit n units, nil if there is none.
func (p *policy) forbids(n int64) *rule {
	for i := range p.rules {
		if !p.rules[i].possible(n) {
			return &p.rules[i]
		}
	}
	return nil
}

// start returns the instant at which what holds nothing decides.
func (r *rule) start(at int64) int64 { return max(at, r.forgotten.Load()) }

// forget moves forgotten on to since.
func (t *terms) forget(since int64) {
	for round := 1; ; round++ {
		atomic.Round("forget", round)
		old := t.forgotten.Load()
		if since <= old || t.forgotten.CompareAndSwap(old, since) {
			return
		}
	}
}

// A query is one question to a cell: may n units go on at instant at? It is
// answered as if they were charged, which happens only if charge is set.
type query struct {
	at, n  int64
	charge bool
	denied bool // whether a denied attempt costs its units too
	ahead  bool // whether a single limit that admits n sets RetryAfter to that of one unit more than remain
}

// stores reports whether q, once decided, is to be booked.
func (q query) stores(admitted bool) bool { return q.charge && (admitted || q.denied) }

// cost returns the units that q is charged by r, given whether all limits admit
// it. Of a denied one these fill up what is booked in its place to Count.
func (r *rule) cost(q query, admitted bool, booked int64) int64 {
	switch {
	case admitted:
		return q.n
	case q.denied:
		return min(max(q.n, 0), max(r.Count-booked, 0))
	}
	return 0
}

// ask answers q, charges what q is to be, and, unless d is nil, makes d the whole
// decision. It reports whether the cell was alive; if not, nothing has happened.
// Its linearization point is the compare-and-swap that charges or locks, else the
// load that proves what it answers from.
func (p *policy) ask(c *cell, q query, d *Decision) (allowed, alive bool) {
	if c.compounded() {
		return c.compound().ask(q, d)
	}
	switch r := &p.rules[0]; p.kind {
	case counterCell:
		return r.askCounter(c, q, d)
	case wideCell:
		return r.askWide(c.wide(), q, d)
	case logCell:
		return p.askLog(c.log(), q, d)
	}
	return false, false // there is no cell of another kind
}

// askLocked is ask for a call that has lost optimisticRounds races: it locks c, so that
// nothing can change while it decides. Calls on c wait for it.
func (p *policy) askLocked(c *cell, q query, d *Decision) (allowed, alive bool) {
	word, alive := p.acquire(c)
	if !alive {
		return false, false
	}
	if d == nil {
		d = new(Decision)
	}
	q.ahead = q.ahead && word&several == 0 // as in compound.ask
	allowed = p.admits(c, word, q)
	store := q.stores(allowed)
	if store {
		p.makeRoomFor(c, word, q)
	}
	c.word.Store(p.answer(c, word, q, allowed, store, d))
	return allowed, true
}

// askUnseen answers q for a key that has no cell, and gets none.
func (p *policy) askUnseen(q query, d *Decision) bool {
	q.charge = false
	allowed, _ := p.ask(p.unseen, q, d)
	return allowed
}

// idle reports whether, at now, the cell's state equals a fresh one's; since
// when; and the word it was judged by. A cell that is dead, or at which a writer
// is at work, is not idle.
func (p *policy) idle(c *cell, now int64) (word uint64, since int64, ok bool) {
	word = c.word.Load()
	switch r := &p.rules[0]; {
	case word&(dead|locked) != 0:
		return word, 0, false
	case word&several != 0:
		since, ok = c.compound().idle(now)
		return word, since, ok && word&growing == 0
	case p.kind == counterCell:
		since, ok = r.faint(r.layout.unpack(word), now)
	case p.kind == wideCell:
		since, ok = r.faint(c.wide().window(word), now)
	case p.kind == logCell:
		v := c.log().ring.Load().view()
		since, ok = r.expired(&v, now)
		return word, since, ok && word&growing == 0
	}
	return word, since, ok
}

// condemn reports whether c is idle at now, by which word, and forgets the past
// before it is fresh. That comes before the kill: whoever then finds c dead finds
// the past forgotten.
func (p *policy) condemn(c *cell, now int64) (word uint64, ok bool) {
	word, since, ok := p.idle(c, now)
	// What was read of more than a word may be torn, and the kill then fails: it
	// must not have moved the past on.
	if ok && c.unchanged(word) {
		p.forget(since)
	}
	return word, ok
}

// shrink gives back what memory c has in excess.
func (p *policy) shrink(c *cell) {
	if c.compounded() {
		c.compound().shrink()
	} else if p.kind == logCell {
		c.log().shrink(&p.rules[0])
	}
}
