package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// takeAllLocked is takeAll under locks, for each of which it waits. It starts over once
// if the call is admitted and has to make entries. Otherwise it does so only if another
// call made or replaced an entry of one of the keys in the moment before it was locked,
// and only where lockOwn says so. Under WithMaxKeys it also does so for as long as other
// calls that run have taken all the room.
//
// The instant of q is in the regime was, or is still to be read if that is another.
func (l *Limiter) takeAllLocked(targets []target, was *regime, q *query, d *Decision) {
	charging := false
	for round := 1; ; round++ {
		g := l.now.Load()
		if g.cap == nil {
			atomic.Round("takeAllLocked", round)
		} else {
			atomic.Round("takeAllLocked under a cap", round)
		}
		if g != was || charging { // a key that is made may have been evicted since
			q.at, was = g.at(l.clock.Now()), g
		}
		l.lodge(g, targets)
		if charging {
			l.reservable(g, targets)
		}
		if !l.lockAll(g, targets, charging) {
			continue
		}
		asked := *q
		if lodges(targets, none) {
			asked.denied = false // a call is not charged for keys that do not fit
		}
		allowed := admitAll(targets, asked)
		store := asked.stores(allowed)
		if store && !chargeable(targets) {
			unlockAbsent(g, targets)
			unlockAll(targets)
			charging = true
			continue
		}
		if store {
			makeRoomForAll(targets, asked)
		}
		l.answerAll(targets, asked, allowed, store, d)
		unlockAbsent(g, targets)
		unlockAll(targets)
		l.count(g, targets, *q)
		return
	}
}

// chargeable reports whether the targets, which are locked, have the cells that a
// charge needs.
func chargeable(targets []target) bool {
	for i := range targets {
		if t := &targets[i]; t.cell == nil || t.reserve && t.lodging == own && t.booked == nil {
			return false
		}
	}
	return true
}

// makeRoomForAll gives all targets, which are locked, room for what q charges.
func makeRoomForAll(targets []target, q query) {
	for i := range targets {
		if t := &targets[i]; t.locked {
			t.policy.makeRoomFor(t.cell, t.word, q)
		}
	}
}

// lockAll locks all that an answer for targets in g depends on, and waits for each
// lock. It reports false, and has locked nothing, if the targets have to be looked up
// again.
//
// All callers take these locks in one order, so that none waits for a caller that waits
// for it: first the cells of the keys, in the order of the keys; then the cells that
// keys share; then the shards of the keys without a cell of their own. Keys are sorted
// by hash, so the last two are in the order of the shards. No call holds a shard while
// it waits for a cell.
func (l *Limiter) lockAll(g *regime, targets []target, charging bool) bool {
	room := int64(0) // entered for cells that are to be made, and are not yet
	if charging && g.cap.displaces() && !lodges(targets, none) {
		for i := range targets {
			if targets[i].cell == nil {
				room++
			}
		}
		if room > 0 && !l.enterAll(g, room, targets) {
			return false
		}
	}
	ok := true
	for i := range targets {
		if t := &targets[i]; ok && t.lodging == own {
			ok = l.lockOwn(g, t, charging, &room)
		}
	}
	g.leave(room)
	for i := range targets {
		if t := &targets[i]; ok && t.lodging == shared {
			t.word, t.locked = t.policy.acquire(t.cell)
			ok = t.locked
		}
	}
	if ok = ok && l.lockAbsent(g, targets); !ok {
		unlockAll(targets)
	}
	return ok
}

// lockOwn locks the cell of t in g, if it has one. If it has none and the call is
// charging, it gets one that is locked from the start, and takes its place from room. A
// cell that another call evicts or resets before it is locked is looked up or made once
// more, while the locks of other cells are held: so no stream of such calls makes the
// whole call start over.
//
// It reports false, with t not locked, if that takes what no call may wait for while it
// holds a lock: WithLimitsFor, which is the caller's code, or more room under
// WithMaxKeys; or if the limits have changed.
func (l *Limiter) lockOwn(g *regime, t *target, charging bool, room *int64) bool {
	for round := 1; ; round++ {
		atomic.Round("lockOwn", round)
		if t.cell = g.keys.load(t.key); t.cell != nil {
			if t.word, t.locked = g.policy.acquire(t.cell); t.locked {
				t.policy, t.booked = g.policy, t.bookings()
				return true
			}
			g.keys.remove(t.key, t.cell)
			continue
		}
		if t.standing.regime != g { // it had a cell when it was looked up
			if l.limitsFor != nil {
				return false
			}
			t.standing = l.standing(g, t.name)
		}
		t.policy = t.standing.policy
		if !charging {
			return true
		}
		c := t.policy.newCell(t.name)
		if t.reserve {
			c = newCompound(t.policy).keep(t.name)
		}
		word := c.word.Load()
		c.word.Store(word | locked)
		switch found, _ := l.place(t.standing, t.key, c, *room > 0); found {
		case c:
			*room = max(0, *room-1)
			t.cell, t.word, t.locked = c, word, true
			t.booked = t.bookings()
			return true
		case nil: // the limits have changed, or there is no room
			return false
		}
	}
}

// lockAbsent locks the shards of the targets that have no cell of their own, and
// reports whether they still have none, the limits that were read for them hold, and,
// if they do not fit into the table, that is still full. If not, it has locked nothing.
func (l *Limiter) lockAbsent(g *regime, targets []target) bool {
	ok, missing, last := true, int64(0), -1
	for i := range targets {
		t := &targets[i]
		if !t.absent() {
			continue
		}
		if shard := t.shard(); shard != last {
			g.keys.shards[shard].freeze(shard)
			last = shard
		}
		missing++
		ok = ok && g.keys.load(t.key) == nil && l.holds(t.standing, t.name)
	}
	if lodges(targets, none) || lodges(targets, shared) {
		ok = ok && !g.cap.fits(missing, int64(len(targets)))
	}
	if !ok {
		unlockAbsent(g, targets)
	}
	return ok
}

// unlockAbsent unlocks what lockAbsent has locked.
func unlockAbsent(g *regime, targets []target) {
	last := -1
	for i := range targets {
		if t := &targets[i]; t.absent() && t.shard() != last {
			last = t.shard()
			g.keys.shards[last].unfreeze()
		}
	}
}

// absent reports whether t has no cell of its own.
func (t *target) absent() bool { return t.cell == nil || t.lodging != own }
