package sash

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"strings"
)

// targets appends the keys to all, each once, in the order in which they are locked. If all
// has capacity, it must be on the caller's stack.
func (l *Limiter) targets(all []target, keys []string) []target {
	onStack := len(keys) <= cap(all) // then all stays where the caller has it
	for i, name := range keys {
		if !onStack {
			name = strings.Clone(name)
		}
		k := l.key(name).hidden()
		all = append(all, target{key: k, order: i})
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(a.compare(b.key), a.order-b.order)
	})
	return slices.CompactFunc(all, func(a, b target) bool { return a.key == b.key })
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.hash, o.hash), cmp.Compare(k.name, o.name))
}

// readAll reads the entries of the targets in g, and returns whether all admit q. If it returns retry,
// one was dead, and they must be looked up again.
func (l *Limiter) readAll(g *generation, targets []target, q query) result {
	for i := range targets {
		t := &targets[i]
		if t.entry == nil {
			continue
		}
		word, alive := t.entry.loadUnlocked()
		if !alive {
			g.keys.compareAndDelete(t.key, t.entry) // whatever killed it may not have come to that yet
			return retry
		}
		t.word = word
	}
	return resultOf(admitAll(targets, q))
}

// admitAll reports whether all targets admit q, by the words from which they were read or locked.
func admitAll(targets []target, q query) bool {
	for i := range targets {
		t := &targets[i]
		q.leave = required(targets, i, q.n)
		switch {
		case t.placement == placedWithAnother: // the other target decides for both
		case t.placement == placedNowhere:
			if q.needs() != 0 {
				return false
			}
		case t.entry == nil:
			if fresh := t.ruleset.freshEntry(t.name); !t.ruleset.admits(fresh, fresh.Word.Load(), q) {
				return false
			}
		case !t.ruleset.admits(t.entry, t.word, q):
			return false
		}
	}
	return true
}

// remainingOfAll returns the greatest number of units that all targets admit at an instant, by the words
// from which they were locked.
func remainingOfAll(targets []target, at int64) int64 {
	least := int64(math.MaxInt64)
	for i := range targets {
		t := &targets[i]
		e, word := t.entry, t.word
		switch {
		case t.placement == placedNowhere:
			return 0
		case e == nil:
			e = t.ruleset.freshEntry(t.name)
			word = e.Word.Load()
		}
		least = min(least, t.ruleset.remaining(e, word, at))
	}
	return least
}

// required returns the units that a charge of n units must leave of the target at i. One reason is enough to
// leave a unit, so it is the greatest of the numbers, and not their sum. An entry that keys share must leave
// what each of them must.
func required(targets []target, i int, n int64) (leave int64) {
	t := &targets[i]
	if n < 0 {
		return 0
	}
	leave = max(t.leave, t.claimed)
	if t.placement == placedShared {
		for j := i + 1; j < len(targets); j++ {
			if o := &targets[j]; o.placement == placedWithAnother && o.entry == t.entry {
				leave = max(leave, o.leave, o.claimed)
			}
		}
	}
	return leave
}

// insertMissing makes an entry for each target that has none, and reports whether there was one.
func (l *Limiter) insertMissing(targets []target) (missing bool) {
	for i := range targets {
		if t := &targets[i]; t.needsEntry() {
			// Another call may be first, or the insert fail: the look-up comes again.
			t.made = l.insert(t.resolved, t.key, targets) != nil || t.made
			missing = true
		}
	}
	return missing
}

// removeUnused removes the entries that a call has made for targets which it then did not charge. Such an
// entry is as none, but it takes room.
func (l *Limiter) removeUnused(targets []target) {
	for i := range targets {
		t := &targets[i]
		if !t.made {
			continue
		}
		// Another may have taken its place: the limits have changed, or it was to be reserved from.
		g, e := l.lookup(t.key)
		if e == nil {
			continue
		}
		// Under the lock: another call that has locked it for a moment may not charge it, either. One that
		// charges it after this finds it dead, and makes another.
		word, alive := g.ruleset.lock(e)
		if alive && !(g.ruleset.unused(word) && g.tryKill(t.key, e, word|locked)) {
			e.Word.Store(word)
		}
	}
}

// loadWords loads the words of the entries of the targets, which may be others than those that were read before.
func loadWords(targets []target) {
	for i := range targets {
		if t := &targets[i]; t.entry != nil {
			t.word = t.entry.Word.Load()
		}
	}
}

// ensureHolds reports whether the entries of the targets, by their words, hold a charge at an instant of g, and
// those that are reserved from can give it back. If not, it replaces them by multi-limit
// entries, and the caller must look again.
func (l *Limiter) ensureHolds(g *generation, targets []target, at int64) bool {
	ready := true
	for i := range targets {
		switch t := &targets[i]; {
		case t.entry != nil && t.placement == placedOwn && !t.holds(at):
			l.convert(g, t.key, t.entry, g.ruleset, kindMulti)
			ready = false
		case !t.reserve && !t.holding || t.placement != placedOwn:
			t.origins = nil // an earlier round may have set them for an entry that is gone
		case t.entry != nil:
			t.origins = t.newOrigins() // now: an allocation must not delay others under the lock
		}
	}
	return ready
}

// holds reports whether the entry of t, by its word, holds a charge at an instant, and can give it back
// if that is asked for.
func (t *target) holds(at int64) bool {
	return t.ruleset.holds(t.word, at) && (!t.reserve || t.entry.isMulti())
}

// newOrigins returns room for where the charge to t is recorded, with lineages for those
// states that have none. It is nil if the charge is not to be given back, or if the entry
// of t cannot tell.
func (t *target) newOrigins() []origin {
	if !t.entry.isMulti() {
		return nil
	}
	e := t.entry.asMulti()
	if !t.reserve && !(t.holding && e.ruleset.held) {
		return nil
	}
	origins := make([]origin, len(e.states))
	for i := range origins {
		if e.states[i].lineage.Load() == nil {
			origins[i].lineage = newLineage() // for reserved to store: the entry is not locked yet
		}
	}
	return origins
}

// validateAll reports whether all that was read of the targets is of one instant, at which those
// without an entry fit into the table. At most one may have none.
//
// If one has no entry, that is the instant of its look-up here or, if it had an entry when there was
// room, the instant at which it lost that. An entry gives back its room as it leaves the table.
func (l *Limiter) validateAll(targets []target) bool {
	// Look for room and for the missing entry first. The words compared below prove that the others had
	// not changed then.
	for i := range targets {
		if t := &targets[i]; t.entry == nil {
			fits := t.placement == placedFresh || t.resolved.generation.cap.hasRoom(1, roomFor(targets))
			if !fits || !l.confirmAbsent(t.resolved, t.key) {
				return false
			}
		}
	}
	for i := range targets {
		if t := &targets[i]; t.entry != nil && !t.entry.validate(t.word) {
			return false
		}
	}
	return true
}

// ensureRoomForAll reports whether all targets have room for the charge of q. If one has
// not, it makes room, and the caller must look again.
func ensureRoomForAll(g *generation, targets []target, q query, res result) bool {
	ready := true
	for i := range targets {
		t := &targets[i]
		if t.entry == nil {
			continue
		}
		room := t.ruleset.ensureRoom(t.entry, t.word, q, res)
		if room == outgrown {
			g.enlarge(t.key, t.entry)
		}
		ready = ready && room == admitted
	}
	return ready
}

// tryLockAll locks all targets from the words from which they were read. If one has
// changed, it unlocks the others, and reports false.
func tryLockAll(targets []target) bool {
	for i := range targets {
		t := &targets[i]
		if t.entry == nil {
			continue // placedFresh
		}
		if t.locked = t.entry.tryLock(t.word); !t.locked {
			unlockAll(targets)
			runtime.Gosched() // another call has come first, and may need the core to finish
			return false
		}
	}
	return true
}

// confirmFresh reports whether those targets that are not charged still have no entry, and
// the limits for which they need none. All others must be locked. If not, it unlocks
// these, and the targets must be looked up again.
//
// It looks up all keys before it checks any limits. No insert for one of them is valid
// under these limits. So between the look-ups and the checks none of them had an entry:
// that is the instant of the call. It takes no lock, unlike confirmAbsent.
func (l *Limiter) confirmFresh(g *generation, targets []target) bool {
	// All look-ups come before all checks. An insert in between needs other limits, and the checks would
	// see them.
	ok := true
	for i := range targets {
		if t := &targets[i]; t.placement == placedFresh {
			ok = ok && g.keys.load(t.key) == nil
		}
	}
	for i := range targets {
		if t := &targets[i]; t.placement == placedFresh {
			ok = ok && l.stillValid(t.resolved, t.name)
		}
	}
	if !ok {
		unlockAll(targets)
	}
	return ok
}

// unlockAll unlocks the targets that are locked, and to which nothing was charged.
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
	t.entry.Word.Store(next)
}

// applyAll makes d the decision on q, whose result is res. If m has stores, it charges q and unlocks
// the targets, which must be locked.
func (l *Limiter) applyAll(targets []target, q query, res result, m mode, d *Decision) {
	first := 0                          // the order of the target that the limit of d is of
	others := int(roomFor(targets)) - 1 // keys with room, without the one that is applied
	for i := range targets {
		t := &targets[i]
		if t.placement == placedWithAnother {
			continue
		}
		if res == admitted && m&stores != 0 && (t.near != 0 || t.placement == placedShared) {
			noteCrossings(targets, i, q)
		}
		q.leave = required(targets, i, q.n) // tell how long until the units that it must leave are there, too
		one, order := l.applyOne(t, others, q, res, m), t.order
		if t.placement == placedShared {
			order = sharedOrder(t, targets)
		}
		if i == 0 {
			*d, first = one, order
		} else if d.join(&one, order < first) {
			first = order
		}
	}
}

// noteCrossings notes which limits the charge of q is about to cross, in the target at i and in those that share
// its entry, as far as they ask for it. The entry must be locked, and q admitted.
func noteCrossings(targets []target, i int, q query) {
	e, word := targets[i].entry, targets[i].word
	for j := i; e != nil && j < len(targets); j++ {
		if t := &targets[j]; t.near != 0 && t.entry == e {
			t.crossed = t.ruleset.crossings(e, word, q, int64(t.near))
		}
	}
}

// sharedOrder returns the order of the first of the keys that share the entry of t.
func sharedOrder(t *target, targets []target) int {
	order := t.order
	for i := range targets {
		if o := &targets[i]; o.placement == placedWithAnother && o.entry == t.entry {
			order = min(order, o.order)
		}
	}
	return order
}

// applyOne is applyAll for t, one of the targets of a call that has others.
func (l *Limiter) applyOne(t *target, others int, q query, res result, m mode) (d Decision) {
	e := t.entry
	switch {
	case t.placement == placedNowhere:
		return l.refused(t.resolved, q, others, res)
	case e == nil:
		e, m = t.ruleset.freshEntry(t.name), 0
		t.word = e.Word.Load()
	}
	next := t.ruleset.apply(e, t.word, q, res, m, &d, nil)
	if m&stores != 0 {
		if res == admitted && t.origins != nil {
			e.asMulti().reserved(t.origins)
		}
		t.unlock(next)
	}
	return d
}
