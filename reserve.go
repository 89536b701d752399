package sash

import (
	"slices"
	"sync/atomic"
)

// A Reservation is a charge that may still turn out to be another: see
// [Limiter.Reserve]. It may be copied; its copies are the same reservation. The
// zero Reservation, which is that of a denied call, settles nothing.
type Reservation struct{ of *reservation }

type reservation struct {
	limiter *Limiter
	key     key
	n       int64
	booked  []booking
	settled atomic.Bool
}

// A booking is where the charge was booked under one rule: in which tick, or
// window, of which part's line. A part hands its line on only to one that takes
// its place and knows as well where everything was booked.
type booking struct {
	line uint64
	tick int64
}

// Reserve takes n units from key, an estimate, as [Limiter.Take] does, and returns
// a reservation to settle once the true cost is known; if it is denied, the zero
// one. What is never settled stays charged as estimated.
//
// Giving back undoes the charge where it was booked: in the window, the bucket or
// the instant of the Reserve, so that nothing is gained by it, and nothing at all
// comes back of what no longer counts. If the limits change in between, it is
// given back under those that differ in nothing but Count from one before, and not
// under others, which do not know where it was booked.
//
// It costs what Take does under several limits, and about 150 bytes until it is
// settled; the first one turns the cell of a key into a larger one.
func (l *Limiter) Reserve(key string, n int64) (Reservation, Decision) {
	var d Decision
	r := l.reserve(key, query{l.clock.Now(), n, n > 0, l.chargeDenied}, &d)
	if l.observer != nil && n != 0 {
		l.observer(key, n, d)
	}
	return r, d
}

// Commit settles the reservation to actual units: the difference is given back, or
// charged besides, at the instant of the Commit, even past the limit, since it has
// been spent: later calls wait for it. A negative actual counts as 0. Only the
// first Commit or Cancel does anything.
func (r Reservation) Commit(actual int64) {
	if r.of == nil || !r.of.settled.CompareAndSwap(false, true) {
		return
	}
	switch back := r.of.n - max(actual, 0); {
	case back > 0:
		r.of.giveBack(back)
	case back < 0:
		r.of.limiter.spend(r.of.key, -back)
	}
}

// Cancel settles the reservation to nothing: the whole charge is given back.
func (r Reservation) Cancel() { r.Commit(0) }

// reserve answers q for the key of that name.
func (l *Limiter) reserve(name string, q query, d *Decision) Reservation {
	k := l.key(name)
	for {
		c := l.compounded(k, &q)
		if c == nil { // nothing to charge, or too much
			ask := q
			ask.charge = false
			allowed := l.ask(nil, k, nil, &ask, d)
			if allowed && q.charge {
				continue // not too much any more
			}
			if !allowed {
				return Reservation{}
			}
			return Reservation{&reservation{limiter: l, key: k.kept()}}
		}
		booked := make([]booking, len(c.parts))
		switch allowed, alive := c.book(q, d, booked); {
		case !alive:
		case !allowed:
			return Reservation{}
		default:
			return Reservation{&reservation{limiter: l, key: k.kept(), n: q.n, booked: booked}}
		}
	}
}

// compounded returns the cell of k, made a compound if it is none; nil if there is
// none and q stores nothing.
func (l *Limiter) compounded(k key, q *query) *compound {
	for {
		g, c := l.lookup(k)
		if c == nil {
			s := l.standing(g, k.name)
			if !q.stores(s.policy.possible(q.n)) {
				return nil
			}
			l.insertCell(s, k.kept(), &newCompound(s.policy).cell)
			q.at = l.clock.Now() // as in ask
			continue
		}
		switch word := c.word.Load(); {
		case word&dead != 0:
			g.keys.remove(k, c)
		case word&several != 0:
			return c.compound()
		default:
			l.become(g, k, c, g.policy, compoundCell)
		}
	}
}

// giveBack gives units of the charge back, in the parts that are of its lines.
func (r *reservation) giveBack(units int64) {
	l := r.limiter
	for {
		g, c := l.lookup(r.key)
		if c == nil {
			return
		}
		word, alive := g.policy.settled(c)
		switch {
		case !alive:
			g.keys.remove(r.key, c)
		case word&several == 0:
			return // another life of the key
		case c.lock(word):
			c.compound().giveBack(r.booked, units)
			c.unlock(word)
			l.queues.nudge(r.key.name)
			return
		}
	}
}

// spend charges units to k, whatever its limits say.
func (l *Limiter) spend(k key, units int64) {
	q := query{l.clock.Now(), units, true, true}
	for {
		c := l.compounded(k, &q)
		word, alive := c.current()
		if alive && c.roomy(word, q) && c.lock(word) {
			c.answer(q, true, true, nil)
			c.unlock(word)
			return
		}
	}
}

// book is ask, and fills in where each part has booked what it charged.
func (c *compound) book(q query, d *Decision, booked []booking) (allowed, alive bool) {
	return c.decide(q, d, func() {
		for i := range c.parts {
			p := &c.parts[i]
			booked[i] = booking{p.line, c.policy.rules[i].newest(p)}
		}
	})
}

// newest returns the number of the tick, or window, that p was last charged in.
func (r *rule) newest(p *part) int64 {
	if r.Algorithm == SlidingCounter {
		return p.index.Load()
	}
	v := p.ring.Load().view()
	return v.at(v.count - 1)
}

// giveBack gives units of what was booked back. A part that then holds nothing
// remembers nothing, so the past before it is forgotten, as it is when a key is
// evicted.
func (c *compound) giveBack(booked []booking, units int64) {
	for i := range c.parts {
		r, p := &c.policy.rules[i], &c.parts[i]
		// Once: parts that have followed one and the same share its line.
		at := slices.IndexFunc(booked, func(b booking) bool { return b.line == p.line })
		if at >= 0 && r.giveBack(p, booked[at].tick, units) {
			r.forget(r.begin(r.newest(p)))
		}
	}
}

// giveBack takes units out of p where they were booked, as far as they are still
// there, and reports whether that has left nothing.
func (r *rule) giveBack(p *part, tick, units int64) (emptied bool) {
	if r.Algorithm != SlidingCounter {
		v := p.ring.Load().view()
		return v.giveBack(tick, units)
	}
	w := p.window()
	if w.prev|w.curr == 0 {
		return false
	}
	switch tick {
	case w.index:
		w.curr -= min(units, w.curr)
		p.curr.Store(w.curr)
	case w.index - 1:
		w.prev -= min(units, w.prev)
		p.prev.Store(w.prev)
	}
	return w.prev|w.curr == 0
}

// giveBack takes units out of the run of that tick, and reports whether that has
// left nothing. The totals of the runs up to it are raised, or those after it
// lowered, whichever are fewer.
func (v *view) giveBack(tick, units int64) (emptied bool) {
	i := v.search(func(i int) bool { return v.at(i) >= tick })
	if v.since(0) == 0 || i == v.count || v.at(i) != tick {
		return false
	}
	back := min(uint64(units), v.before(i+1)-v.before(i))
	if i < v.count/2 {
		for j := range i + 1 {
			atomic.AddUint64(&v.slot(j).before, back)
		}
	} else {
		for j := i + 1; j < v.count; j++ {
			atomic.AddUint64(&v.slot(j).before, -back)
		}
		v.total -= back
		atomic.StoreUint64(&v.ring.total, v.total)
	}
	return v.since(0) == 0
}
