package sash

import "math"

// When the limits of a key change, its cell gives way to another, which begins
// with what the old one knows: each new rule is charged again what was charged
// before, oldest first. Of the old rules it hears the one that differs least, in
// nothing or in Count alone, and then its counts and their places in time are the
// same; else the one that remembers most finely at least as far back as the new
// one can look; else the one that remembers furthest. Where the old rule knows only
// in which window or bucket it charged a unit, the unit is taken for the latest it
// can be: it counts for longer, never for less.

// A charge is what is known of units charged.
type charge struct{ at, units int64 }

// carry puts a cell for k into g in the place of old, which k has in prior.
func (l *Limiter) carry(prior, g *regime, k key, old *cell) {
	now := g.at(l.clock.Now()) // not while it is locked: a clock is the caller's code
	word, alive := prior.policy.acquire(old)
	if alive {
		p := g.policy
		if old.compounded() && old.compound().policy != prior.policy {
			p = old.compound().policy
		}
		next := prior.policy.carried(old, word, p, p.kind, now)
		k := key{k.hash, next.name()}
		g.keys.insert(k, next, func() bool { return true })
		g.reseat(k, old, next)
		old.die(word)
	}
	prior.keys.remove(k, old)
}

// become puts a cell of kind under p in the place of c, which k has in g. It
// reports whether it did; if not, c was dead, and has been removed.
func (l *Limiter) become(g *regime, k key, c *cell, p *policy, kind kind) bool {
	now := g.at(l.clock.Now())
	word, alive := g.policy.acquire(c)
	if !alive {
		g.keys.remove(k, c)
		return false
	}
	next := g.policy.carried(c, word, p, kind, now)
	k.name = next.name()
	g.keys.replace(k, c, next)
	g.reseat(k, c, next)
	c.die(word)
	return true
}

// carried returns a cell under p that begins with what c holds, which is in a
// table of policy from, and locked since word. The cell is of kind, or a compound,
// which what was one remains, and what nothing smaller can hold becomes.
func (from *policy) carried(c *cell, word uint64, p *policy, kind kind, now int64) *cell {
	next, rules := newCompound(p), from.rules
	if word&several != 0 {
		rules, kind = c.compound().policy.rules, compoundCell
	}
	for i := range p.rules {
		source := p.rules[i].source(rules)
		p.rules[i].recharge(&next.parts[i], rules[source].charges(from.holding(c, word, source), now))
		if word&several != 0 && rules[source].alike(p.rules[i].Limit) {
			next.parts[i].line = c.compound().parts[source].line
		}
	}
	return next.reduced(kind, c.name())
}

// source returns the index of the rule that r, which is to come after rules, had
// best hear. Of those alike it is the one with the greatest Count, unless one is
// equal: where denied attempts are charged, the others know only of fewer.
func (r *rule) source(rules []rule) (best int) {
	for i := range rules {
		if rules[i].Limit == r.Limit {
			return i
		}
		if r.tells(&rules[i], &rules[best]) {
			best = i
		}
	}
	return best
}

// alike reports whether l and o differ in nothing but Count.
func (l Limit) alike(o Limit) bool {
	o.Count = l.Count
	return l == o
}

// tells reports whether a has more to tell r than b.
func (r *rule) tells(a, b *rule) bool {
	if like := a.alike(r.Limit); like || b.alike(r.Limit) {
		return like && (!b.alike(r.Limit) || a.Count > b.Count)
	}
	far, asFar := a.memory() >= r.reach(), b.memory() >= r.reach()
	if far && asFar {
		return a.grain() < b.grain()
	}
	return far || !asFar && a.memory() > b.memory()
}

// memory returns how far back r remembers at least, and reach how far it can look.
func (r *rule) memory() int64 {
	if r.Algorithm == SlidingBuckets {
		return (r.span - 1) * r.tick
	}
	return int64(r.Window)
}

func (r *rule) reach() int64 {
	if r.Algorithm == SlidingCounter {
		return plus(int64(r.Window), int64(r.Window))
	}
	return r.life()
}

// grain returns how finely r remembers time.
func (r *rule) grain() int64 {
	if r.Algorithm == SlidingCounter {
		return int64(r.Window)
	}
	return r.tick
}

// A holding is the state of a key under one rule.
type holding struct {
	window
	view
}

// holding returns what c, a cell in a table of p read since word, holds under
// rule i.
func (p *policy) holding(c *cell, word uint64, i int) (h holding) {
	switch {
	case word&several != 0:
		part := &c.compound().parts[i]
		return holding{part.window(), part.ring.Load().view()}
	case p.kind == counterCell:
		h.window = p.rules[0].layout.unpack(word)
	case p.kind == wideCell:
		h.window = c.wide().window(word)
	case p.kind == logCell:
		h.view = c.log().ring.Load().view()
	}
	return h
}

// charges returns what h tells of under r, oldest first.
// The newest is told even if it has all been given back: it is the time that the
// key has seen.
func (r *rule) charges(h holding, now int64) (past []charge) {
	tell := func(tick, units int64, newest bool) {
		if units > 0 || newest {
			past = append(past, charge{r.latest(tick, now), units})
		}
	}
	switch {
	case r.Algorithm == SlidingCounter && h.prev|h.curr != 0:
		tell(h.index-1, h.prev, false)
		tell(h.index, h.curr, true)
	case r.Algorithm != SlidingCounter && h.view.since(0) != 0:
		for i := range h.view.count {
			tell(h.at(i), int64(min(h.before(i+1)-h.before(i), math.MaxInt64)), i == h.view.count-1)
		}
	}
	return past
}

// latest returns the latest instant, no later than now, that r takes for the one
// of the given number; its beginning if now is before it.
func (r *rule) latest(number, now int64) int64 {
	grain, begin := r.grain(), r.begin(number)
	switch current, _ := divide(now, grain); {
	case current == number:
		return now
	case current < number:
		return begin
	}
	return number*grain + (grain - 1) // before now, so it fits, though the beginning may not
}

// begin returns the first instant of the tick, or window, of that number.
func (r *rule) begin(number int64) int64 {
	begin := number * r.grain()
	if number < 0 && begin > 0 { // before the first instant there is
		return math.MinInt64
	}
	return begin
}

// recharge makes p, which holds nothing, what it is after past.
func (r *rule) recharge(p *part, past []charge) {
	if r.Algorithm != SlidingCounter {
		p.ring.Store(r.ringOf(past))
		return
	}
	var w window
	for i, c := range past {
		switch index, _ := divide(c.at, int64(r.Window)); {
		case i == 0:
			w.index = index
		case index != w.index:
			w = w.moved(index)
		}
		w.curr = plus(w.curr, c.units)
	}
	p.set(w)
}

// ringOf returns the ring of what is live of past at its end; nil for nothing.
func (r *rule) ringOf(past []charge) *ring {
	if len(past) == 0 {
		return nil
	}
	newest := r.tickOf(past[len(past)-1].at)
	var g ring
	for _, c := range past {
		tick := r.tickOf(c.at)
		if uint64(newest)-uint64(tick) >= uint64(r.span) {
			continue
		}
		if last := len(g.runs) - 1; last < 0 || g.runs[last].at != tick {
			g.runs = append(g.runs, run{tick, g.total})
		}
		g.total += uint64(c.units)
	}
	g.span = uint64(len(g.runs))
	return &g
}

// reduced returns c, which nobody else has seen yet, as a cell of kind, if that
// can hold it, with a copy of name.
func (c *compound) reduced(kind kind, name string) *cell {
	r, p := &c.policy.rules[0], &c.parts[0]
	w := p.window()
	switch {
	case kind == logCell:
		log := new(log)
		log.ring.Store(p.ring.Load())
		return log.keep(name)
	case kind == compoundCell || max(w.prev, w.curr) > r.Count:
		return c.keep(name)
	case kind == wideCell:
		wide := new(wideCounter)
		wide.word.Store(wide.put(0, w))
		return wide.keep(name)
	}
	reduced := newCounter(name)
	if w.prev|w.curr != 0 {
		reduced.word.Store(r.layout.pack(w))
	}
	return reduced
}

// plus returns a+b, or the end of int64 that it passes.
func plus(a, b int64) int64 {
	sum, _ := add(a, b)
	return sum
}

// add is plus, and reports whether the sum fits.
func add(a, b int64) (sum int64, fits bool) {
	switch sum = a + b; {
	case b > 0 && sum < a:
		return math.MaxInt64, false
	case b < 0 && sum > a:
		return math.MinInt64, false
	}
	return sum, true
}

// sub is add of a-b.
func sub(a, b int64) (difference int64, fits bool) {
	switch difference = a - b; {
	case b < 0 && difference < a:
		return math.MaxInt64, false
	case b > 0 && difference > a:
		return math.MinInt64, false
	}
	return difference, true
}
