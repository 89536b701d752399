package sash

import (
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
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
	shared  bool // whether the key had no place, and shared a quota
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
	targets := []target{{key: l.key(key)}}
	d := l.reserve(targets, n)
	return l.reservation(&targets[0], n, d), d
}

// ReserveAll reserves n units from several keys at once, all or nothing as
// [Limiter.TakeAll] does, and returns a reservation for each of keys, in their
// order, to be settled each for itself; the same one for a key named twice. If it
// is denied, all are zero.
func (l *Limiter) ReserveAll(keys []string, n int64) ([]Reservation, Decision) {
	targets := l.targets(nil, keys)
	if len(targets) == 0 {
		return nil, l.noKeys()
	}
	d := l.reserve(targets, n)
	made := make([]Reservation, len(targets))
	for i := range targets {
		made[i] = l.reservation(&targets[i], n, d)
	}
	all := make([]Reservation, len(keys))
	for i, name := range keys {
		at, _ := slices.BinarySearchFunc(targets, l.key(name), func(t target, k key) int { return t.key.compare(k) })
		all[i] = made[at]
	}
	return all, d
}

func (l *Limiter) reserve(targets []target, n int64) (d Decision) {
	for i := range targets {
		targets[i].reserve = true
	}
	l.takeAll(targets, query{n: n, charge: n > 0, denied: l.chargeDenied}, &d)
	l.observe(targets, n, d)
	return d
}

// reservation returns that of what was reserved from t.
func (l *Limiter) reservation(t *target, n int64, d Decision) Reservation {
	if !d.Allowed {
		return Reservation{}
	}
	return Reservation{&reservation{limiter: l, key: key{t.hash, strings.Clone(t.name)}, n: n, booked: t.booked,
		shared: t.lodging == shared || t.lodging == sharing}}
}

// Commit settles the reservation to actual units: the difference is given back, or
// charged besides, at the instant of the Commit, even past the limit, since it has
// been spent: later calls wait for it. If the key was evicted meanwhile and the table
// of [WithMaxKeys] is full, another key makes room. A negative actual counts as 0. Only
// the first Commit or Cancel does anything.
func (r Reservation) Commit(actual int64) {
	if r.of == nil || !r.of.settled.CompareAndSwap(false, true) {
		return
	}
	switch back := r.of.n - max(actual, 0); {
	case back > 0:
		r.of.giveBack(back)
	case back < 0:
		r.of.spend(-back)
	}
}

// Cancel settles the reservation to nothing: the whole charge is given back.
func (r Reservation) Cancel() { r.Commit(0) }

// giveBack gives units of the charge back, in the parts that are of its lines.
func (r *reservation) giveBack(units int64) {
	l := r.limiter
	for round := 1; ; round++ {
		atomic.Round("giveBack", round)
		g, c := l.lookup(r.key)
		if c == nil {
			return
		}
		word, alive := g.policy.acquire(c)
		switch {
		case !alive:
			g.keys.remove(r.key, c)
		case word&several == 0:
			c.word.Store(word)
			return // another life of the key
		default:
			c.compound().giveBack(r.booked, units)
			c.unlock(word)
			l.queues.nudge(r.key.name)
			return
		}
	}
}

// spend charges units to the key, whatever its limits say. If the key has no cell, it
// gets one, and another key makes room for it. If what was reserved is in a quota that
// keys share and there still is no room, the units are charged to that quota.
func (r *reservation) spend(units int64) {
	l, k := r.limiter, r.key
	q := query{n: units, charge: true, denied: true}
	for round := 1; ; round++ {
		atomic.Round("spend", round)
		g, c := l.lookup(k)
		q.at = g.at(l.clock.Now())
		switch {
		case c != nil:
		case r.shared && l.fullFor(g, k):
			c = l.sharedCell(g, k)
		default:
			s := l.standing(g, k.name)
			l.insertCell(s, k, newCompound(s.policy).keep(k.name), nil, true)
			continue
		}
		if !c.compounded() {
			l.become(g, k, c, g.policy, compoundCell)
			continue
		}
		word, alive := g.policy.acquire(c)
		if !alive {
			g.keys.remove(k, c)
			continue
		}
		c.compound().makeRoomFor(q)
		c.compound().answer(q, true, true, nil)
		c.unlock(word)
		return
	}
}

// bookings fills in where each part has booked what it was charged last.
func (c *compound) bookings(booked []booking) {
	for i := range c.parts {
		p := &c.parts[i]
		booked[i] = booking{p.line, c.policy.rules[i].newest(p)}
	}
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
