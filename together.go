package sash

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// TakeAll takes from several keys at once: it charges n units to each of keys if
// all limits of all of them admit that, else to none, at one instant. A key named
// twice counts once, and the order of the keys changes no answer but which of two
// equal limits the Decision names. An n of 0 asks and charges nothing; an n below 0
// is denied with [Never], and so is an empty list: no key has no quota.
//
// It costs what the calls of Take would, and a second compare-and-swap for each
// key; up to 8 tracked keys, it allocates nothing. A denied call takes no lock, and an
// admitted one locks the keys for the few nanoseconds in which it charges them, without
// waiting for a lock.
//
// After four rounds in which other calls interfered, the call locks the keys in one
// order for all callers, waits for each, and decides. So a stream of calls on the same
// keys does not starve it. A call that is not charged although two or more of its keys
// are not tracked, or that is about keys that do not fit under [WithMaxKeys], does this
// at once. Under WithMaxKeys, n should be many times the number of keys in all calls
// that run at one time: a call waits while others have taken all the room.
func (l *Limiter) TakeAll(keys []string, n int64) (d Decision) {
	var few [8]target
	targets := l.targets(few[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, query{n: n, charge: n > 0, denied: l.chargeDenied}, &d)
	l.observe(targets, n, d)
	return d
}

// noKeys returns the decision on a call that names no key.
func (l *Limiter) noKeys() Decision {
	return Decision{Limit: l.now.Load().policy.rules[0].Limit, RetryAfter: Never}
}

// observe tells the observer of d, once for each target.
func (l *Limiter) observe(targets []target, n int64, d Decision) {
	if l.observer == nil || n == 0 {
		return
	}
	for i := range targets {
		l.observer(targets[i].name, n, d)
	}
}

// A target is one of the keys of a TakeAll or a ReserveAll.
type target struct {
	key
	reserve  bool      // whether its charge may be given back, which takes a compound,
	booked   []booking // and where it then was booked
	order    int       // in which it was given
	cell     *cell
	lodging  lodging
	word     uint64   // since which the cell was read or locked
	locked   bool     // whether this call has locked the cell
	policy   *policy  // of the table that the cell is in; of the key, if it has none
	standing standing // of the key, if it has no cell
}

// targets appends the keys to all, each once, in the order to lock them in.
func (l *Limiter) targets(all []target, keys []string) []target {
	for i, name := range keys {
		all = append(all, target{key: l.key(name), order: i})
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(a.compare(b.key), a.order-b.order)
	})
	return slices.CompactFunc(all, func(a, b target) bool { return a.key == b.key })
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.hash, o.hash), strings.Compare(k.name, o.name))
}

// takeAll answers q for all targets, of one state of them all: first without waiting
// for a lock, and if other calls prevent that, under the locks of all of them.
func (l *Limiter) takeAll(targets []target, q query, d *Decision) {
	if g, done := l.tryTakeAll(targets, &q, d); !done {
		l.takeAllLocked(targets, g, &q, d)
	}
}

// tryTakeAll is takeAll without waiting for a lock. What it reads is proven to be of one
// state at the instant at which it holds the locks of all, taken from the words it has
// read; or, if it charges nothing, at which it has read all and none has changed yet.
// It reports false, and has charged nothing, if other calls interfere in each of its
// rounds, or if the answer depends on keys that it cannot lock: several that have no
// cell, or any that does not fit into the table. Then the instant of q is in g.
func (l *Limiter) tryTakeAll(targets []target, q *query, d *Decision) (g *regime, done bool) {
	for round := range optimisticRounds {
		atomic.Round("tryTakeAll", round+1)
		if now := l.now.Load(); now != g {
			g, q.at = now, now.at(l.clock.Now())
		}
		if !l.lodge(g, targets) {
			return g, false
		}
		allowed, alive := l.consult(g, targets, *q)
		switch {
		case !alive:
		case !q.stores(allowed):
			l.answerAll(targets, *q, allowed, false, d)
			if l.unchanged(targets) {
				return g, true
			}
		case l.insertMissing(targets):
			q.at = g.at(l.clock.Now()) // as in ask
		case !l.reservable(g, targets):
		case roomy(targets, *q) && tryLockAll(targets):
			l.answerAll(targets, *q, allowed, true, d)
			return g, true
		}
	}
	return g, false
}

// consult reads the targets' cells in g and reports whether all admit q; and
// whether all were alive, else they have to be looked up again.
func (l *Limiter) consult(g *regime, targets []target, q query) (allowed, alive bool) {
	for i := range targets {
		t := &targets[i]
		if t.cell == nil {
			continue
		}
		if t.word, alive = t.cell.current(); !alive {
			g.keys.remove(t.key, t.cell)
			return false, false
		}
	}
	return admitAll(targets, q), true
}

// admitAll reports whether all targets admit q, by the words they were read or locked
// since.
func admitAll(targets []target, q query) bool {
	for i := range targets {
		t := &targets[i]
		switch {
		case t.lodging == sharing: // the target that it shares with answers for both
		case t.lodging == none:
			if q.n != 0 {
				return false
			}
		case t.cell == nil:
			if !t.policy.admits(t.policy.unseen, t.policy.unseen.word.Load(), q) {
				return false
			}
		case !t.policy.admits(t.cell, t.word, q):
			return false
		}
	}
	return true
}

// insertMissing gives a cell to each target that has none, and reports whether
// there was one.
func (l *Limiter) insertMissing(targets []target) (missing bool) {
	for i := range targets {
		if t := &targets[i]; t.cell == nil {
			l.insert(t.standing, t.key, targets)
			missing = true
		}
	}
	return missing
}

// reservable reports whether the cells that are reserved from are compounds. If not,
// it puts compounds in their place, and the caller has to look again.
func (l *Limiter) reservable(g *regime, targets []target) bool {
	ready := true
	for i := range targets {
		switch t := &targets[i]; {
		case !t.reserve || t.lodging != own:
			t.booked = nil // it may have had a cell of its own before
		case t.cell == nil:
		case !t.cell.compounded():
			l.become(g, t.key, t.cell, g.policy, compoundCell)
			ready = false
		default: // now, not under the lock
			t.booked = t.bookings()
		}
	}
	return ready
}

// bookings returns room for where the charge to t is booked, nil if it is not to be
// given back or if the cell of t cannot tell.
func (t *target) bookings() []booking {
	if !t.reserve || !t.cell.compounded() {
		return nil
	}
	return make([]booking, len(t.cell.compound().parts))
}

// unchanged reports whether what was read of all targets is of one instant: that of
// the look-up of the one that has no cell. It reports false if there are several: no
// one instant is known at which all of them had none.
func (l *Limiter) unchanged(targets []target) bool {
	absent := 0
	for i := range targets {
		if t := &targets[i]; t.cell == nil {
			if absent++; absent > 1 || !l.absent(t.standing, t.key) {
				return false
			}
		}
	}
	for i := range targets {
		if t := &targets[i]; t.cell != nil && !t.cell.unchanged(t.word) {
			return false
		}
	}
	return true
}

// roomy reports whether all targets have room for what q charges. If not, it makes
// room, and the caller has to look again.
func roomy(targets []target, q query) bool {
	ready := true
	for i := range targets {
		t := &targets[i]
		ready = t.policy.roomy(t.cell, t.word, q) && ready
	}
	return ready
}

// tryLockAll locks all targets, unless anything has happened to one of them.
func tryLockAll(targets []target) bool {
	for i := range targets {
		t := &targets[i]
		if t.locked = t.cell.lock(t.word); !t.locked {
			unlockAll(targets)
			runtime.Gosched()
			return false
		}
	}
	return true
}

// unlockAll unlocks those targets that are locked, and of which nothing has changed.
func unlockAll(targets []target) {
	for i := range targets {
		if t := &targets[i]; t.locked {
			t.unlock(t.word)
		}
	}
}

// unlock makes next the word of t, which is locked.
func (t *target) unlock(next uint64) {
	t.locked = false
	t.cell.word.Store(next)
}

// answerAll makes d the decision on q, given whether all limits admit it. If store
// is set, it books what q costs and unlocks the targets, which must be locked.
func (l *Limiter) answerAll(targets []target, q query, admitted, store bool, d *Decision) {
	first := 0
	for i := range targets {
		t := &targets[i]
		if t.lodging == sharing {
			continue
		}
		one := l.answerOne(t, len(targets)-1, q, admitted, store)
		if i == 0 {
			*d, first = one, t.order
		} else if d.join(&one, t.order < first) {
			first = t.order
		}
	}
}

func (l *Limiter) answerOne(t *target, others int, q query, admitted, store bool) (d Decision) {
	c := t.cell
	switch {
	case t.lodging == none:
		return l.refused(t.standing, q, others, admitted)
	case c == nil:
		c = t.policy.unseen
		t.word = c.word.Load()
	}
	next := t.policy.answer(c, t.word, q, admitted, store, &d)
	if store {
		if t.booked != nil {
			c.compound().bookings(t.booked)
		}
		t.unlock(next)
	}
	return d
}

// admits reports whether c, read since word, admits q.
func (p *policy) admits(c *cell, word uint64, q query) (ok bool) {
	if word&several != 0 {
		return c.compound().admits(q)
	}
	switch r := &p.rules[0]; p.kind {
	case counterCell:
		_, ok = r.judge(r.layout.unpack(word), q)
	case wideCell:
		_, ok = r.judge(c.wide().window(word), q)
	case logCell:
		v := c.log().ring.Load().view()
		_, ok = r.consult(&v, q)
	}
	return ok
}

// answer makes d the decision on q of c, read or locked since word, given whether
// all limits of all keys admit it. If store is set, it books what q costs, and
// returns the word that unlocks c.
func (p *policy) answer(c *cell, word uint64, q query, admitted, store bool, d *Decision) (next uint64) {
	next = word
	if store { // the next version of a log or a compound
		next = newer(word)
	}
	if word&several != 0 {
		c.compound().answer(q, admitted, store, d)
		return next
	}
	r := &p.rules[0]
	if p.kind == logCell {
		r.answerRing(c.log().ring.Load(), q, admitted, store, d)
		return next
	}
	w := r.layout.unpack(word)
	if p.kind == wideCell {
		w = c.wide().window(word)
	}
	m, _ := r.judge(w, q)
	m.curr += r.cost(q, admitted, m.curr)
	r.counted(d, m, q, admitted)
	switch {
	case !store:
		return word
	case p.kind == wideCell:
		return c.wide().put(word, m.window)
	}
	return r.layout.pack(m.window)
}

// makeRoomFor gives c, which the caller has locked since word, room for what q charges.
func (p *policy) makeRoomFor(c *cell, word uint64, q query) {
	switch {
	case word&several != 0:
		c.compound().makeRoomFor(q)
	case p.kind == logCell:
		p.rules[0].makeRoomFor(&c.log().ring, q)
	}
}

// roomy is roomy of a compound, or of a log.
func (p *policy) roomy(c *cell, word uint64, q query) bool {
	if word&several != 0 {
		return c.compound().roomy(word, q)
	}
	return p.kind != logCell || p.rules[0].roomy(c.log(), word, q)
}
