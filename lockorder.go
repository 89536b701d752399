package sash

import (
	"slices"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// reordered returns the targets in the order in which they are locked. They are in that order
// already, unless lockOwn has found that the bytes of a name have changed. Then two targets may
// have become one key. The second of the two is not among those that are returned.
func reordered(targets []target) []target {
	slices.SortStableFunc(targets, func(a, b target) int { return a.compare(b.key) })
	for i := len(targets) - 1; i > 0; i-- {
		if targets[i].key == targets[i-1].key {
			second := targets[i] // it stays in the slice of the caller, who may look there for a reservation
			copy(targets[i:], targets[i+1:])
			targets[len(targets)-1] = second
			targets = targets[:len(targets)-1]
		}
	}
	return targets
}

// chargeable reports whether the targets, which are locked, have the entries that a
// charge needs at that instant.
func chargeable(targets []target, at int64) bool {
	return !slices.ContainsFunc(targets, func(t target) bool {
		return t.needsEntry() || t.placement == placedOwn && (!t.holds(at) || t.reserve && t.origins == nil)
	})
}

// markOutgrown marks the targets whose entry, which is locked, is a log without room for the charge of q,
// whose result is res. It reports whether there are any.
func markOutgrown(targets []target, q query, res result) (found bool) {
	for i := range targets {
		t := &targets[i]
		t.outgrown = t.locked && t.ruleset.isOutgrown(t.entry, t.word, q, res)
		found = found || t.outgrown
	}
	return found
}

// enlargeMarked makes room in the entries of the targets that markOutgrown has marked. None may be locked.
func enlargeMarked(g *generation, targets []target) {
	for i := range targets {
		if t := &targets[i]; t.outgrown {
			g.enlarge(t.key, t.entry)
		}
	}
}

// growAll makes room in all targets, which are locked, for the charge of q, whose result is res.
func growAll(targets []target, q query, res result) {
	for i := range targets {
		if t := &targets[i]; t.locked {
			t.ruleset.grow(t.entry, q, res)
		}
	}
}

// lockAll locks all that a decision on targets in g depends on, and waits for each lock.
// If it reports false, it has locked nothing, and the targets must be looked up again.
//
// All calls take these locks in one order, so that no two wait for each other:
//   - the entries of the keys, in the order of the keys;
//   - the entries that keys share;
//   - the shards of the keys without an entry of their own.
//
// Keys are sorted by hash. So the last two are in the order of the shards. No call holds
// a shard while it waits for an entry.
func (l *Limiter) lockAll(g *generation, targets []target, charging bool) bool {
	// Take room before any lock: makeRoom locks entries of other keys, in no order.
	room := int64(0) // taken for entries that are still to be made
	if charging && g.cap.evictsBusy() && !anyPlaced(targets, placedNowhere) {
		for i := range targets {
			if targets[i].needsEntry() {
				room++
			}
		}
		if room > 0 && !l.acquireAll(g, room, targets) {
			return false
		}
	}
	ok := true
	for i := range targets {
		if t := &targets[i]; ok && t.placement == placedOwn {
			ok = l.lockOwn(g, t, charging, &room)
		}
	}
	g.release(room) // give back what was not needed before waiting below: another call may need it
	// Own entries are locked now. Shared ones come next, for every call.
	for i := range targets {
		if t := &targets[i]; ok && t.placement == placedShared {
			t.word, t.locked = t.ruleset.lock(t.entry)
			ok = t.locked
		}
	}
	if ok = ok && l.lockAbsent(g, targets); !ok {
		unlockAll(targets)
	}
	return ok
}

// lockOwn locks the entry of t in g, if it has one. If it has none and the call is
// charging, t gets one that is locked from the start, and takes its room from room.
//
// If another call evicts or resets the entry before it is locked, lockOwn looks it up or
// makes it again, while it holds the locks of other entries. So no stream of such calls
// makes the whole call start over.
//
// It reports false, with t not locked, if the limits or the bytes of the name have changed; or if
// it would have to wait for what no call may wait for while it holds a lock. That is WithLimitsFor,
// which is the caller's code, and more room under WithMaxKeys.
func (l *Limiter) lockOwn(g *generation, t *target, charging bool, room *int64) bool {
	for round := 1; ; round++ {
		atomic.Round("lockOwn", round)
		if t.entry = g.keys.load(t.key); t.entry != nil {
			if t.word, t.locked = g.ruleset.lock(t.entry); t.locked {
				t.ruleset, t.origins = g.ruleset, t.newOrigins()
				return true
			}
			g.keys.compareAndDelete(t.key, t.entry)
			continue
		}
		if t.resolved.generation != g { // it had an entry when it was looked up
			if g.setup.limitsFor != nil {
				return false
			}
			t.resolve(l, g)
		}
		t.ruleset = t.resolved.ruleset
		if !charging || t.placement == placedFresh {
			return true // lockAbsent checks that there still is none
		}
		kind := t.ruleset.kind
		if t.reserve {
			kind = kindMulti
		}
		e := t.ruleset.entryOf(kind, nil, t.name)
		if own := l.key(e.Name()); own.hash != t.hash {
			t.key = own // the bytes of the caller's name have changed: look up again by the copy
			return false
		}
		// Lock it before it is published: no other call can charge it first.
		word := e.Word.Load()
		e.Word.Store(word | locked)
		switch found, _ := l.tryInsert(t.resolved, t.key, e, *room > 0); found {
		case e:
			*room = max(0, *room-1)
			t.entry, t.made, t.word, t.locked = e, true, word, true
			t.origins = t.newOrigins()
			return true
		case nil: // the limits have changed, or there is no room
			return false
		}
		// Another call has made one: lock that.
	}
}

// lockAbsent locks the shards of the targets without an entry of their own. It reports
// whether that still is so, their rulesets are still valid, and they still fit, or do not fit, as
// placeAll has found. If not, it has locked nothing.
func (l *Limiter) lockAbsent(g *generation, targets []target) bool {
	// Lock first, then check: an insert would need this lock, so the answers hold until the unlock.
	ok, missing, last := true, int64(0), -1
	for i := range targets {
		t := &targets[i]
		if !t.hasNoEntry() {
			continue
		}
		if shard := t.shard(); shard != last {
			g.keys.shards[shard].Lock(shard)
			last = shard
		}
		if t.placement != placedFresh {
			missing++
		}
		ok = ok && g.keys.load(t.key) == nil && l.stillValid(t.resolved, t.name)
	}
	if missing > 0 {
		// Other calls may have freed room, or taken it.
		fit := !anyPlaced(targets, placedNowhere) && !anyPlaced(targets, placedShared)
		ok = ok && fit == g.cap.hasRoom(missing, roomFor(targets))
	}
	if !ok {
		unlockAbsent(g, targets)
	}
	return ok
}

// unlockAbsent unlocks what lockAbsent has locked.
func unlockAbsent(g *generation, targets []target) {
	last := -1
	for i := range targets {
		if t := &targets[i]; t.hasNoEntry() && t.shard() != last {
			last = t.shard()
			g.keys.shards[last].Unlock()
		}
	}
}

// hasNoEntry reports whether t has no entry of its own.
func (t *target) hasNoEntry() bool { return t.entry == nil || t.placement != placedOwn }
