package sash

import (
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A Reservation is a charge that may still change: see [Limiter.Reserve]. It may be
// copied; its copies are the same reservation. The zero Reservation, which a call that is
// denied or [Unlimited] returns, settles nothing.
type Reservation struct{ of *reservation }

type reservation struct {
	limiter *Limiter
	key     key
	n       int64
	origins []origin
	shared  bool // whether the key had no room, and shared a quota
	settles bool // whether a limit is to be told that it was settled, even if no unit is left over
	held    bool // whether its units are held until then
	settled atomic.Bool
}

// Reserve takes n units from key, an estimate, as [Limiter.Take] does. It returns a
// reservation to settle once the true cost is known; if it is denied, or the key is
// [Unlimited], the zero one. What is never settled stays charged as estimated.
//
// Giving back undoes the charge where it was recorded: in the window, the bucket or the
// instant of the Reserve. So nothing is gained by it, and nothing comes back of units that
// no longer count. If the limits change in between, units are given back under the limits
// that differ from an old one in nothing but Count and Burst, and units that are held under those that
// hold units. Other limits do not know where the units were recorded, and keep them.
//
// Under a [TokenBucket], the key then has what it would have if the units had never been
// charged: nothing more, if the bucket was full when a later call came. It has nothing more
// if, under [WithChargeDenied], a denied attempt was charged in between.
//
// It costs what Take does under several limits, and about 150 bytes until it is settled.
// The first reservation of a key turns its entry into a larger one, by about 100 bytes.
//
// Under a [SlidingLog] or [SlidingBuckets], giving back takes time logarithmic in the number of
// records. A log of more than 64 records is copied when units are first given back in its middle, and
// again after it has grown. The copy takes 8 bytes more a record, and calls on the key take longer.
//
// Under a [TokenBucket], a reservation costs up to 64 bytes more while it is open. Settling it takes
// time proportional to the number of open reservations that were made after it, and other calls on
// the key wait for that long. One that is never settled takes no memory any more once a later charge
// has found the bucket as full as it was then.
func (l *Limiter) Reserve(key string, n int64) (Reservation, Decision) {
	targets := []target{{key: l.key(key)}}
	d := l.reserve(targets, n)
	return l.reservation(&targets[0], n, d), d
}

// ReserveAll reserves n units from several keys at once, all or nothing as [Limiter.TakeAll] does.
// It returns a reservation for each of keys, in their order, each to be settled by itself. A key
// named twice has the same one twice. If it is denied, all are zero.
func (l *Limiter) ReserveAll(keys []string, n int64) ([]Reservation, Decision) {
	targets := l.targets(nil, keys)
	if len(targets) == 0 {
		return nil, l.noKeys()
	}
	return l.reserveAll(targets, keys, n)
}

// reserveAll is ReserveAll of keys, whose targets are given.
func (l *Limiter) reserveAll(targets []target, keys []string, n int64) ([]Reservation, Decision) {
	d := l.reserve(targets, n)
	return l.reservations(targets, keys, n, d), d
}

// reservations returns the reservations of what d says was taken from targets, in the order of keys.
func (l *Limiter) reservations(targets []target, keys []string, n int64, d Decision) []Reservation {
	made := make([]Reservation, len(targets))
	for i := range targets {
		made[i] = l.reservation(&targets[i], n, d)
	}
	all := make([]Reservation, len(keys))
	for i, name := range keys {
		at, found := slices.BinarySearchFunc(targets, l.key(name), func(t target, k key) int { return t.key.compare(k) })
		if found { // else the bytes of the name have changed
			all[i] = made[at]
		}
	}
	return all
}

func (l *Limiter) reserve(targets []target, n int64) (d Decision) {
	for i := range targets {
		targets[i].reserve = true
	}
	l.takeAll(targets, nil, &request{query: query{n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, &d)
	l.observeReserved(targets, n, d)
	return d
}

// observeReserved is observeAll for a call that returns the reservations of targets. If the observer does not
// return, no caller has them. Then the charges stay, and units that are held are given back.
func (l *Limiter) observeReserved(targets []target, n int64, d Decision) {
	if l.observer == nil {
		return
	}
	returned := false
	defer func() {
		for i := range targets {
			if !returned {
				l.reservation(&targets[i], n, d).Release()
			}
		}
	}()
	l.observeAll(targets, n, d)
	returned = true
}

// reservation returns the reservation of what d says was taken from t.
func (l *Limiter) reservation(t *target, n int64, d Decision) Reservation {
	rs := t.ruleset
	if t.entry != nil {
		rs = rs.of(t.entry)
	}
	if !d.Allowed || rs.unlimited() || t.holding && t.origins == nil {
		return Reservation{}
	}
	return Reservation{&reservation{limiter: l, key: l.key(strings.Clone(t.name)), n: n, origins: t.origins,
		shared: t.placement == placedShared || t.placement == placedWithAnother, settles: rs.settles, held: rs.held}}
}

// Commit settles the reservation to actual units. If that is less than was reserved, the
// difference is given back. If it is more, the difference is charged at the instant of the
// Commit, even past the limit, since it has been spent: later calls wait for it. A [TokenBucket] carries such a
// debt until it is paid; the other algorithms forget it after a Window, and [SlidingCounter] after two at
// most. Units that are held at a time, as by [AtOnce], are all given back, whatever actual is.
//
// If the key was evicted in between and the table of [WithMaxKeys] is full, another key
// makes room. Nothing more is charged to a key that is now Unlimited or has a limit of Count
// 0; but under [WithChargeDenied], the other limits of the latter are charged all the same. A negative
// actual counts as 0. Only the first Commit or Cancel does anything.
func (r Reservation) Commit(actual int64) { r.commit(actual, 0) }

// commit is Commit. It returns the limits that a charge beyond the reservation has crossed, as
// ruleset.crossings does.
func (r Reservation) commit(actual, near int64) (crossed []Limit) {
	if r.of == nil || !r.of.settled.CompareAndSwap(false, true) {
		return nil // of several that settle it at once, one goes on
	}
	left := r.of.n - max(actual, 0)
	if left < 0 {
		var settled bool
		if crossed, settled = r.of.spend(-left, near); settled {
			return crossed
		}
	}
	if left > 0 || r.of.settles && r.of.origins != nil {
		r.of.giveBack(max(left, 0))
	}
	return nil
}

// Release is shorthand for Commit of all that was reserved. It is for limits of units that are held at a
// time, as [AtOnce] makes them, which it gives back. The other limits keep their charges.
func (r Reservation) Release() {
	if r.of != nil {
		r.Commit(r.of.n)
	}
}

// Cancel settles the reservation to nothing: the whole charge is given back.
func (r Reservation) Cancel() { r.Commit(0) }

// giveBack gives units of the charge, or none, back in the states of its lineages, where it is
// no longer open; and all of them where they are held.
func (r *reservation) giveBack(units int64) {
	l := r.limiter
	for round := 1; ; round++ {
		atomic.Round("giveBack", round)
		g, e := l.lookup(r.key)
		if e == nil {
			return // evicted: none of the units counts any more
		}
		word, alive := g.ruleset.lock(e)
		switch {
		case !alive:
			g.keys.compareAndDelete(r.key, e)
		case word&multi == 0:
			e.Word.Store(word) // unlock: the key was evicted and inserted again
			return
		default:
			freed := e.asMulti().giveBack(r.origins, r.n, units)
			e.unlock(word)
			if freed {
				l.queues.Free(r.key.name, 0) // calls that wait for the key may go on
			}
			return
		}
	}
}

// spend charges units to the key, whatever its limits say. If the key has no entry, it
// gets one, and another key makes room for it. If the reservation is of a shared quota and
// there still is no room, the units are charged to that quota. Where no call is ever
// charged, spend has no effect: a key must not answer otherwise once it was evicted. Nor has it where units
// are held: holding is not using. It returns the limits that it has crossed, as ruleset.crossings does.
//
// If it charges anything, it also settles the reservation, at the same instant, and reports that.
func (r *reservation) spend(units, near int64) (crossed []Limit, settled bool) {
	l, k := r.limiter, r.key
	q := query{n: units, charge: true, chargeDenied: true, spent: true}
	self := [1]target{{key: k, before: l.current.Load().cap.nextSeq()}}
	for round := 1; ; round++ {
		atomic.Round("spend", round)
		g, e := l.lookup(k)
		q.at = g.instant(l.clock.Now())
		switch {
		case e != nil:
			if own := g.ruleset.of(e); own.neverCharges || !own.spends {
				return nil, false
			}
		case r.shared && !l.evictFor(g, 1, self[:]):
			e = l.sharedEntry(g, k)
		default:
			s := g.resolve(k.name)
			if s.ruleset.neverCharges || !s.ruleset.spends {
				if l.confirmAbsent(s, k) {
					return nil, false
				}
				continue
			}
			l.insertEntry(s, k, s.ruleset.entryOf(kindMulti, nil, k.name), nil, true)
			continue
		}
		if !e.isMulti() { // only a multi-limit entry can hold units past the limit
			l.convert(g, k, e, g.ruleset, kindMulti)
			continue
		}
		word, alive := g.ruleset.lock(e)
		if !alive {
			g.keys.compareAndDelete(k, e)
			continue
		}
		g.ruleset.grow(e, q, admitted)
		set := g.ruleset.crossings(e, word, q, near) // under the lock, by what is left before the charge
		e.asMulti().apply(q, admitted, stores, nil)
		freed := e.asMulti().giveBack(r.origins, r.n, 0)
		e.unlock(word)
		if freed {
			l.queues.Free(k.name, 0)
		}
		return set.of(g.ruleset, e), true
	}
}
