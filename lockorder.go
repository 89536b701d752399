package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// takeAllLocked is takeAll under locks, for each of which it waits. It starts over once
// if the call is admitted and has to make entries, and else only if another call
// replaced or made an entry of one of the keys in the moment before it was locked, and
// only where lockOwn says.
func (l *Limiter) takeAllLocked(targets []target, q *query, d *Decision) {
	var was *regime
	charging := false
	for round := 1; ; round++ {
		atomic.Round("takeAllLocked", round)
		g := l.now.Load()
		if g != was {
			q.at, was = g.at(l.clock.Now()), g
		}
		l.lodge(g, targets)
		if charging && !lodges(targets, none) {
			if l.insertMissing(targets) {
				q.at = g.at(l.clock.Now()) // as in ask
			}
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
	for i := range targets {
		if t := &targets[i]; t.lodging == own && !l.lockOwn(g, t, charging) {
			unlockAll(targets)
			return false
		}
	}
	for i := range targets {
		t := &targets[i]
		if t.lodging != shared {
			continue
		}
		if t.word, t.locked = t.policy.acquire(t.cell); !t.locked {
			unlockAll(targets)
			return false
		}
	}
	if !l.lockAbsent(g, targets) {
		unlockAll(targets)
		return false
	}
	return true
}

// lockOwn locks the cell of t in g, if it has one; and gives it one first if it is
// charging. A cell that another call evicts or resets in the moment before it is locked
// is looked up, or made, once more, while the locks of other cells are held: so no
// stream of such calls makes the whole call start over.
//
// It reports false, with t not locked, if a cell must be made and that takes more than
// the table: the clock or WithLimitsFor, which are the caller's code, or room under
// WithMaxKeys. No call may wait for those while it holds a lock.
func (l *Limiter) lockOwn(g *regime, t *target, charging bool) bool {
	for round := 1; ; round++ {
		atomic.Round("lockOwn", round)
		if t.cell = g.keys.load(t.key); t.cell != nil {
			if t.word, t.locked = g.policy.acquire(t.cell); t.locked {
				t.policy = g.policy
				t.booked = nil
				if t.reserve && t.word&several != 0 {
					t.booked = make([]booking, len(t.cell.compound().parts))
				}
				return true
			}
			g.keys.remove(t.key, t.cell)
			continue
		}
		if l.limitsFor != nil || l.now.Load() != g || g.prior.Load() != nil {
			return !charging && t.standing.regime == g
		}
		t.standing = l.standing(g, t.name)
		t.policy = t.standing.policy
		switch {
		case !charging:
			return true
		case g.cap != nil:
			return false
		case t.reserve:
			l.insertCell(t.standing, t.key, newCompound(t.policy).keep(t.name), nil, false)
		default:
			l.insert(t.standing, t.key, nil)
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
