package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// A compound is the cell of a key that has several limits, limits of its own, or
// that has had a reservation. It points to its policy, and has a part for each of
// the policy's rules.
//
// Bits of its word (high to low): dead 1 | several 1, always set | locked 1 |
// growing 1 | version 60.
//
// The protocol is that of a log: a caller reads the word, then all parts; if it
// charges nothing, its answer counts once it sees the word unchanged; if it does, it
// locks by a compare-and-swap from the word it has read, writes, and unlocks under a
// new version. So all limits are checked and charged at one instant, and a denial
// takes no lock and writes nothing.
//
// Invariant: parts are written only by who has locked the word, rings are replaced
// only by who has set growing or locked, and all that is no atomic never changes.
type compound struct {
	namedCell
	policy *policy
	parts  []part
}

// A part is what a compound holds under one rule: a window under SlidingCounter,
// else a ring.
type part struct {
	index, prev, curr atomic.Int64
	ring              atomic.Pointer[ring]
	line              uint64 // see booking
}

// lines is the last line that any part has begun.
var lines atomic.Uint64

func newCompound(p *policy) *compound {
	c := &compound{policy: p, parts: make([]part, len(p.rules))}
	line := lines.Add(uint64(len(c.parts)))
	for i := range c.parts {
		c.parts[i].line = line - uint64(i)
	}
	c.word.Store(several)
	return c
}

func (p *part) window() window { return window{p.index.Load(), p.prev.Load(), p.curr.Load()} }

// set makes w the window.
func (p *part) set(w window) {
	p.index.Store(w.index)
	p.prev.Store(w.prev)
	p.curr.Store(w.curr)
}

// put is set for what a charge has made of the window. It stores only what changes:
// a store costs as much as a compare-and-swap, and most charges change curr alone.
func (p *part) put(w window) {
	if p.index.Load() != w.index {
		p.index.Store(w.index)
		p.prev.Store(w.prev)
	}
	p.curr.Store(w.curr)
}

// ask answers q from a compound. If other calls change the compound in each of its
// rounds, it locks the compound instead.
func (c *compound) ask(q query, d *Decision) (allowed, alive bool) {
	q.ahead = false // the limit that decides may be another then
	for round := range optimisticRounds {
		atomic.Round("compound.ask", round+1)
		word, alive := c.current()
		if !alive {
			return false, false
		}
		allowed := c.admits(q)
		switch {
		case !q.stores(allowed):
			if d != nil {
				c.answer(q, allowed, false, d)
			}
			if c.unchanged(word) {
				return allowed, true
			}
		case c.roomy(word, q) && c.lock(word):
			c.answer(q, allowed, true, d)
			c.unlock(word)
			return allowed, true
		}
	}
	return c.policy.askLocked(&c.cell, q, d)
}

// admits reports whether every rule admits q.
func (c *compound) admits(q query) bool {
	for i := range c.parts {
		if !c.policy.rules[i].admitted(&c.parts[i], q) {
			return false
		}
	}
	return true
}

// moment is advance, and shorter where the limiter and the key were last seen in
// one window.
func (r *rule) moment(p *part, t int64) moment {
	index := r.index.Load()
	w := p.window()
	if elapsed, ok := r.within(index, t); ok && w.index == index && w.curr > 0 {
		return moment{w, elapsed}
	}
	return r.advance(w, t)
}

func (r *rule) admitted(p *part, q query) (ok bool) {
	if r.Algorithm == SlidingCounter {
		m := r.moment(p, q.at)
		ok = r.possible(q.n) && r.admits(m.window, m.elapsed(), q.n)
	} else {
		v := p.ring.Load().view()
		_, ok = r.consult(&v, q)
	}
	return ok
}

// answer makes d, unless it is nil, the decision on q, given whether all limits
// admit it, and books what it costs if store is set; c must be locked then.
func (c *compound) answer(q query, admitted, store bool, d *Decision) {
	for i := range c.parts {
		r, p := &c.policy.rules[i], &c.parts[i]
		if d == nil {
			r.answer(p, q, admitted, store, nil)
			continue
		}
		var one Decision
		r.answer(p, q, admitted, store, &one)
		if i == 0 {
			*d = one
		} else {
			d.join(&one, false)
		}
	}
}

func (r *rule) answer(p *part, q query, admitted, store bool, d *Decision) {
	if r.Algorithm == SlidingCounter {
		m := r.moment(p, q.at)
		m.curr = plus(m.curr, r.cost(q, admitted, m.curr))
		if store {
			p.put(m.window)
		}
		if d != nil {
			r.counted(d, m, q, admitted)
		}
		return
	}
	r.answerRing(p.ring.Load(), q, admitted, store, d)
}

// roomy reports whether every ring has room for what q charges. If not, it sees
// to that, and the caller has to look again.
func (c *compound) roomy(word uint64, q query) bool {
	if word&growing != 0 {
		atomic.Pause(&c.word)
		return false
	}
	for i := range c.parts {
		r, p := &c.policy.rules[i], &c.parts[i]
		if r.Algorithm == SlidingCounter {
			continue
		}
		if v := p.ring.Load().view(); r.full(&v, q) {
			if c.reserve(word) {
				p.ring.Store(r.grown(&v))
				c.unlock(word)
			}
			return false
		}
	}
	return true
}

// makeRoomFor gives every ring of c, which the caller has locked, room for what q
// charges.
func (c *compound) makeRoomFor(q query) {
	for i := range c.parts {
		if r := &c.policy.rules[i]; r.Algorithm != SlidingCounter {
			r.makeRoomFor(&c.parts[i].ring, q)
		}
	}
}

// shrink is shrink of a log, for each ring.
func (c *compound) shrink() {
	for i := range c.parts {
		r, p := &c.policy.rules[i], &c.parts[i]
		word, alive := c.current()
		v := p.ring.Load().view()
		if next := r.shrunk(&v); next != nil && alive && c.reserve(word) {
			p.ring.Store(next)
			c.unlock(word)
		}
	}
}

// idle reports whether every part is as good as new at now, and since when.
func (c *compound) idle(now int64) (since int64, ok bool) {
	for i := range c.parts {
		r, p := &c.policy.rules[i], &c.parts[i]
		var from int64
		if r.Algorithm == SlidingCounter {
			from, ok = r.faint(p.window(), now)
		} else {
			v := p.ring.Load().view()
			from, ok = r.expired(&v, now)
		}
		if !ok {
			return 0, false
		}
		if i == 0 || from > since {
			since = from
		}
	}
	return since, true
}
