package sash

import (
	"sync/atomic"
)

// A Reservation is a charge that may still turn out to be another: see
// [Limiter.Reserve]. It may be copied; its copies are the same reservation. The
// zero Reservation, which is that of a denied call, settles nothing.
type Reservation struct{ of *reservation }

type reservation struct {
	limiter *Limiter
	key     key
	n, at   int64
	settled atomic.Bool

	// Where the charge was booked: serial says in which life of the key, since a
	// compound hands its own on only to one that takes its place; ticks in which
	// tick, or window, of each of policy's rules.
	serial uint64
	policy *policy
	ticks  []int64
}

// Reserve takes n units from key, an estimate, as [Limiter.Take] does, and returns
// a reservation to settle once the true cost is known; if it is denied, the zero
// one. What is never settled stays charged as estimated.
//
// Giving back undoes the charge where it was booked: in the window, the bucket or
// the instant of the Reserve, so that nothing is gained by it, and nothing at all
// comes back of what no longer counts. The limits may change in between.
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
		g, c := l.compounded(k, &q)
		if c == nil {
			if !l.ask(g, k, nil, &q, d) {
				return Reservation{}
			}
			return Reservation{&reservation{limiter: l, key: k.kept(), at: q.at}}
		}
		ticks := make([]int64, len(c.policy.rules))
		allowed, alive := c.book(q, d, ticks)
		if !alive {
			continue
		}
		if !allowed {
			return Reservation{}
		}
		return Reservation{&reservation{
			limiter: l, key: k.kept(), n: q.n, at: q.at,
			serial: c.serial, policy: c.policy, ticks: ticks,
		}}
	}
}

// compounded returns the cell of k, made a compound if it is none; nil if there is
// none and q stores nothing.
func (l *Limiter) compounded(k key, q *query) (*regime, *compound) {
	for {
		g, version := l.now.Load(), l.version.Load()
		c := l.find(g, k)
		if c == nil {
			p := l.policyFor(g, k.name)
			if !q.stores(p.possible(q.n)) {
				return g, nil
			}
			c = l.insertCell(g, version, k.kept(), &newCompound(p).cell)
			q.at = l.clock.Now() // as in ask
		}
		switch {
		case c == nil:
		case c.compounded():
			return g, c.compound()
		default:
			l.become(g, k, c, g.policy, compoundCell)
		}
	}
}

// giveBack gives units of the charge back.
func (r *reservation) giveBack(units int64) {
	l := r.limiter
	for {
		g := l.now.Load()
		c := l.find(g, r.key)
		if c == nil {
			return
		}
		word, alive := g.policy.settled(c)
		switch {
		case !alive:
			g.keys.remove(r.key, c)
		case word&several == 0 || c.compound().serial != r.serial:
			return // another life of the key
		case c.lock(word):
			c.compound().giveBack(r, units)
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
		_, c := l.compounded(k, &q)
		word, alive := c.current()
		if alive && c.roomy(word, q) && c.lock(word) {
			c.answer(q, true, true, nil)
			c.unlock(word)
			return
		}
	}
}

// book is ask, and fills in the ticks in which each part has booked it.
func (c *compound) book(q query, d *Decision, ticks []int64) (allowed, alive bool) {
	return c.decide(q, d, func() {
		for i := range c.parts {
			ticks[i] = c.policy.rules[i].newest(&c.parts[i])
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

// giveBack gives units of the reservation back under every rule: where it was
// booked under that rule; or, if there was none like it, from the oldest that may
// be part of it. A part that then holds nothing remembers nothing, so the past
// before it is forgotten, as it is when a key is evicted.
func (c *compound) giveBack(r *reservation, units int64) {
	for i := range c.parts {
		rule, part := &c.policy.rules[i], &c.parts[i]
		tick, exact := r.tick(rule)
		var emptied bool
		if rule.Algorithm == SlidingCounter {
			emptied = part.giveBack(tick, units, exact)
		} else {
			v := part.ring.Load().view()
			emptied = v.giveBack(tick, units, exact)
		}
		if emptied {
			rule.forget(rule.begin(rule.newest(part)))
		}
	}
}

// tick returns in which of rule's ticks, or windows, the charge was booked, and
// whether that is certain.
func (r *reservation) tick(rule *rule) (tick int64, exact bool) {
	for i := range r.policy.rules {
		if r.policy.rules[i].alike(rule.Limit) {
			return r.ticks[i], true
		}
	}
	tick, _ = divide(r.at, rule.grain())
	return tick, false
}

// giveBack takes units out of the window of that number, or, unless it is exact,
// out of that and the later ones. It reports whether that has left nothing.
func (p *part) giveBack(number, units int64, exact bool) (emptied bool) {
	if p.prev.Load()|p.curr.Load() == 0 {
		return false
	}
	index := p.index.Load()
	if number == index-1 || !exact && number < index {
		back := min(units, p.prev.Load())
		p.prev.Add(-back)
		units -= back
	}
	if number == index || !exact && number < index {
		p.curr.Add(-min(units, p.curr.Load()))
	}
	return p.prev.Load()|p.curr.Load() == 0
}

// giveBack takes units out of the run of that tick, or, unless it is exact, out of
// that and the later ones. The totals of the runs before are raised, or those
// after lowered, whichever are fewer. It reports whether that has left nothing.
func (v *view) giveBack(tick, units int64, exact bool) (emptied bool) {
	if v.since(0) == 0 {
		return false
	}
	i := v.search(func(i int) bool { return v.at(i) >= tick })
	for ; i < v.count && units > 0 && (v.at(i) == tick || !exact); i++ {
		back := min(uint64(units), v.before(i+1)-v.before(i))
		units -= int64(back)
		if i < v.count/2 {
			for j := range i + 1 {
				atomic.AddUint64(&v.slot(j).before, back)
			}
			continue
		}
		for j := i + 1; j < v.count; j++ {
			atomic.AddUint64(&v.slot(j).before, -back)
		}
		v.total -= back
		atomic.StoreUint64(&v.ring.total, v.total)
	}
	return v.since(0) == 0
}
