package sash

import "slices"

// refused returns the decision on q for a key without room in the table. others is the number of the
// other keys of the call, and res the result of the whole call: one of 0 units may be denied by
// another key.
func (l *Limiter) refused(r resolved, q query, others int, res result) Decision {
	d := Decision{Allowed: res == admitted, Limit: r.ruleset.rules[0].Limit}
	switch {
	case !r.ruleset.satisfiable(q.needs()) || q.needs() > 0 && int64(others) >= r.generation.cap.max:
		d.RetryAfter = Never
	case q.needs() > 0:
		// Use the generation that decides. A Reconfigure may have published the next one since, and
		// an answer must not have its Limit from one and its RetryAfter from the other.
		d.RetryAfter = r.generation.sweepInterval()
	}
	return d
}

// isUnplaced reports whether k has no entry while keys may be denied room. Then a denial may come from the
// full table, or from a quota that the key shares. That may be over at any time.
func (l *Limiter) isUnplaced(k key) bool {
	g, e := l.lookup(k) // of one look-up: the entry and the cap must be of one generation
	return e == nil && g.cap != nil && !g.cap.evictsBusy()
}

// sharedEntry returns the entry that k shares in g. It is dead once g is not the current
// generation any more.
func (l *Limiter) sharedEntry(g *generation, k key) *entry {
	i := k.shard()
	if old := g.old.Load(); old != nil {
		// Move the old quota first. A call that makes a new one would forget what was charged.
		l.migrateShared(old, g, i)
	}
	shared := &g.overflow.entries[i]
	if shared.Load() == nil {
		shared.CompareAndSwap(nil, g.ruleset.entryOf(kindMulti, nil, "")) // unless another call has made it
	}
	return shared.Load()
}

// migrateShared migrates the i-th shared entry of old to g, and leaves a dead one.
func (l *Limiter) migrateShared(old, g *generation, i int) {
	// If it was never used, put a dead entry there: a call that has begun in old must not
	// make one any more.
	tombstone := old.ruleset.newEntry("")
	tombstone.markDead(tombstone.Word.Load())
	if old.overflow.entries[i].CompareAndSwap(nil, tombstone) {
		return
	}
	e := old.overflow.entries[i].Load()
	if word, now, alive := l.lockNow(old.ruleset, e, g); alive {
		// As in migrate: the new entry is in its place before the old one is dead, so a call that finds
		// e dead finds the new one. It stays a multi-limit entry.
		g.overflow.entries[i].Store(old.ruleset.migrated(e, word, g.ruleset, kindMulti, now))
		e.markDead(word)
	}
}

// placeAll finds the entries of targets in g. If those without an entry do not all fit,
// they share one or are refused. It returns how many have none, and whether they fit.
func (l *Limiter) placeAll(g *generation, targets []target) (absent int, fit bool) {
	// Find all entries before any key is evicted: only then is it known how much room is needed.
	missing := int64(0)
	for i := range targets {
		t := &targets[i]
		t.ruleset, t.placement, t.resolved.generation, t.origins = g.ruleset, placedOwn, nil, nil
		if t.entry = l.find(g, t.key); t.entry == nil {
			absent++
			t.resolve(l, g)
			if t.needsEntry() {
				missing++
			}
		}
	}
	if missing == 0 || l.evictFor(g, missing, targets) {
		return absent, true
	}
	for i := range targets {
		switch t := &targets[i]; {
		case !t.needsEntry():
		case g.overflow == nil:
			t.placement = placedNowhere
		default:
			t.ruleset, t.entry, t.placement = g.ruleset, l.sharedEntry(g, t.key), placedShared
			if slices.ContainsFunc(targets[:i], func(o target) bool { return o.entry == t.entry }) {
				t.placement = placedWithAnother
			}
		}
	}
	return absent, false
}

// resolve resolves the ruleset of t, which has no entry in g.
func (t *target) resolve(l *Limiter, g *generation) {
	t.resolved, t.placement = g.resolve(t.name), placedOwn
	if t.ruleset = t.resolved.ruleset; t.ruleset.neverCharges {
		t.placement = placedFresh
	}
}

// countOverflow counts in Stats what a call lost because its targets did not fit.
func (l *Limiter) countOverflow(g *generation, targets []target, q query) {
	switch {
	case g.cap == nil || !q.charge: // a Peek loses nothing
	case anyPlaced(targets, placedNowhere):
		l.refusals.Add(1)
	case anyPlaced(targets, placedShared):
		l.shared.Add(1)
	}
}
