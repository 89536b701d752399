package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// key returns name as a key of every generation.
func (l *Limiter) key(name string) key { return key{l.hasher.hash(name), name} }

// lookup returns the current generation, and the entry of k in it. If the entry is nil,
// the key had none at an instant at which that was the current generation.
func (l *Limiter) lookup(k key) (g *generation, e *entry) {
	for round := 1; ; round++ {
		atomic.Round("lookup", round)
		g = l.current.Load()
		// g may have been replaced before find looked in it. Then its nil proves nothing.
		// Start over with the current generation.
		if e = l.find(g, k); e != nil || l.current.Load() == g {
			return g, e
		}
	}
}

// find returns the entry of k in g, or nil if it has none there. The nil proves nothing once g is
// not the current generation any more. An entry in the old generation is migrated first.
func (l *Limiter) find(g *generation, k key) *entry {
	for round := 1; ; round++ {
		atomic.Round("find", round)
		// Load old before the look-up in g: once it is nil, all keys are in g.
		old := g.old.Load()
		if e := g.keys.load(k); e != nil {
			return e
		}
		if old == nil {
			return nil
		}
		// The key is in the old table, or another call has just migrated it, or it has no
		// entry. The lock keeps an insert in the old table from coming in between.
		e := old.keys.loadLocked(k)
		if e == nil {
			return g.keys.load(k)
		}
		l.migrate(old, g, k, e)
	}
}

// stillValid reports whether the generation and the override that r follows from are
// still the current ones.
func (l *Limiter) stillValid(r resolved, name string) bool {
	override, _ := r.generation.byKey.load(name)
	return l.current.Load() == r.generation && override == r.override
}

// confirmAbsent reports whether k had no entry at an instant at which r was valid. That
// instant is the look-up: r was valid before it and is valid after it, and neither a
// generation nor an override that was replaced comes again.
//
// An insert that has checked an older r cannot publish its entry after the look-up. It
// holds the lock of the shard from its check on, and r changed under that lock.
func (l *Limiter) confirmAbsent(r resolved, k key) bool {
	return l.find(r.generation, k) == nil && l.stillValid(r, k.name)
}

// insert makes a new entry for k, unless it has one, and returns the one it has. It returns nil if
// r is not valid any more, or if there is no room. No pinned key is evicted to make room.
//
// The name is copied: the caller may reuse its bytes, and a small part of a large string
// must not keep the rest alive.
func (l *Limiter) insert(r resolved, k key, pinned []target) *entry {
	return l.insertEntry(r, k, r.ruleset.newEntry(k.name), pinned, r.generation.cap.evictsBusy())
}

// insertEntry is insert of e. If evictBusy is set, it makes room by evicting keys that are
// not idle, too.
func (l *Limiter) insertEntry(r resolved, k key, e *entry, pinned []target, evictBusy bool) *entry {
	self := [1]target{{key: k}}
	if pinned == nil {
		pinned = self[:] // another call may make an entry for k in between
	}
	for round := 1; ; round++ {
		atomic.Round("insertEntry", round)
		// Room may be taken again between makeRoom and the next try. So start over until one try has both.
		found, full := l.tryInsert(r, k, e, false)
		if !full {
			return found
		}
		if !l.makeRoom(r.generation, 1, pinned, evictBusy) {
			return nil
		}
	}
}

// tryInsert makes e the entry of k, and returns it. If k has an entry already, it returns that one.
// It returns nil if r is not valid any more. full reports whether there was no room.
func (l *Limiter) tryInsert(r resolved, k key, e *entry, hasRoom bool) (found *entry, full bool) {
	g := r.generation
	own := l.key(e.Name()) // the bytes of the caller's name may have changed since they were hashed
	found = g.keys.loadOrStoreIf(own, e, func() bool {
		// SetLimits changes the override under this lock, and a new generation is published before its keys
		// are migrated under it. So an r that is not valid any more is seen here.
		if !l.stillValid(r, own.name) {
			return false
		}
		full = !hasRoom && !g.cap.tryAcquire()
		return !full
	})
	if found == e {
		// After the insert: a sample may miss the key for a moment, but finds no entry outside the table.
		g.addSample(own, e)
	}
	return found, full
}

// countInvalid counts in Stats a call that was denied because of wrong limits, those in
// whose place rs denies. A call that waits is counted once, when it gives up: see neverAdmitted.
func (l *Limiter) countInvalid(rs *ruleset, q *request) {
	if rs.fault != nil && q.charge && !q.waits {
		l.invalid.Add(1)
	}
}
