package sash

import (
	"cmp"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// TakeAll takes from several keys at once. If all limits of all of keys admit n units, it
// charges n units to each key, else to none, at one instant.
//
// A key named twice counts once. The order of the keys changes no answer, except which of
// two equal limits the Decision names. An n of 0 asks and charges nothing. An n below 0 is
// denied with [Never], and so is an empty list.
//
// It costs about what the calls of Take would, and one more atomic store for each key. Up to
// 8 tracked keys, it allocates nothing. A denied call takes no lock. An admitted call locks
// the keys for the few nanoseconds in which it charges them, without waiting for a lock.
//
// If other calls interfere in each of its five rounds, the call locks the keys in one order
// for all callers, waits for each, and decides. So a stream of calls on the same keys does
// not starve it. It does this at once if it does not charge and two or more of its keys are
// not tracked, or if keys do not fit under [WithMaxKeys].
//
// Under WithMaxKeys, the bound should be many times the number of keys in all calls that
// run at one time: a call waits while others have taken all the room.
func (l *Limiter) TakeAll(keys []string, n int64) (d Decision) {
	g := l.current.Load()
	at := g.instant(l.clock.Now())
	var fast fastTargets
	if !g.observed && fast.gather(l, g, keys, at, n) && fast.lock() {
		// Each lock was taken from the word that was read. So all entries still are as they
		// were when they admitted the units.
		fast.apply(g, at, n, true, &d)
		return d
	}
	var buf [8]target
	targets := l.targets(buf[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, g, &query{at: at, n: n, charge: n > 0, chargeDenied: l.chargeDenied}, &d)
	l.observeAll(targets, n, d)
	return d
}

// PeekAll returns the decision that [Limiter.TakeAll] would return, as after the charge,
// by the state of all keys at one instant. It charges nothing and stores nothing.
// PeekAll(keys, 0) is the state of the keys as it is. An n below 0 and an empty list are
// denied, as by TakeAll.
//
// It costs about what the calls of [Limiter.Peek] would. Up to 8 tracked keys, it allocates
// nothing. It takes no lock, unless two or more of its keys are not tracked, keys do not
// fit under [WithMaxKeys], or other calls change the keys in each of its five rounds.
func (l *Limiter) PeekAll(keys []string, n int64) (d Decision) {
	g := l.current.Load()
	at := g.instant(l.clock.Now())
	var fast fastTargets
	if fast.gather(l, g, keys, at, n) {
		fast.apply(g, at, n, false, &d)
		if fast.validate() {
			return d
		}
	}
	var buf [8]target
	targets := l.targets(buf[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, g, &query{at: at, n: n, chargeDenied: l.chargeDenied}, &d)
	return d
}

// fastTargets are the keys of a TakeAll or PeekAll on its fast path: up to 8 tracked keys,
// all of which admit the units. They are in the order in which all calls lock keys.
type fastTargets struct {
	all   [8]fastTarget
	count int
}

// A fastTarget is one of fastTargets.
type fastTarget struct {
	hash  uint64
	entry *entry
	word  uint64 // from which the entry was read and locked
	order int    // among the keys, as the caller gave them
}

// gather makes f the targets of keys, whose instant at is of g, and reports whether the fast
// path serves them.
func (f *fastTargets) gather(l *Limiter, g *generation, keys []string, at, n int64) bool {
	if n <= 0 || len(keys) == 0 || len(keys) > len(f.all) {
		return false
	}
	for i, name := range keys {
		k := l.key(name)
		t := fastTarget{hash: k.hash, entry: g.keys.load(k), order: i}
		if t.entry == nil {
			return false
		}
		if t.word = t.entry.Word.Load(); t.word&(dead|locked) != 0 {
			return false
		}
		if admits, ok := g.ruleset.admitsFast(t.entry, t.word, at, n); !admits || !ok {
			return false
		}
		j := i
		for ; j > 0 && f.all[j-1].hash >= k.hash; j-- {
			if f.all[j-1].hash == k.hash {
				return false // named twice, or another key of the same hash
			}
			f.all[j] = f.all[j-1]
		}
		f.all[j] = t
	}
	f.count = len(keys)
	return true
}

// lock locks all targets from the words from which they were read. If one has changed, it
// unlocks the others, and reports false.
func (f *fastTargets) lock() bool {
	for i := range f.all[:f.count] {
		if t := &f.all[i]; !t.entry.tryLock(t.word) {
			for _, t := range f.all[:i] {
				t.entry.Word.Store(t.word)
			}
			return false
		}
	}
	return true
}

// validate reports whether all that was read of the targets is of one instant: none of their
// words has changed since all of them were read.
func (f *fastTargets) validate() bool {
	for _, t := range f.all[:f.count] {
		if !t.entry.validate(t.word) {
			return false
		}
	}
	return true
}

// apply makes d the decision on n units, which all targets admit. If store is set, it charges
// them and unlocks the targets, which must be locked.
func (f *fastTargets) apply(g *generation, at, n int64, store bool, d *Decision) {
	var left remainder
	for i := range f.all[:f.count] {
		t := &f.all[i]
		left.key = t.order
		if next := g.ruleset.applyFast(t.entry, t.word, at, n, store, &left); store {
			t.entry.Word.Store(next)
		}
	}
	left.decision(d)
}

// noKeys returns the decision on a call that names no key.
func (l *Limiter) noKeys() Decision {
	return Decision{Limit: l.current.Load().ruleset.rules[0].Limit, RetryAfter: Never}
}

// observeAll calls the observer with d, once for each target.
func (l *Limiter) observeAll(targets []target, n int64, d Decision) {
	if l.observer == nil || n == 0 {
		return
	}
	for i := range targets {
		l.observe(targets[i].key, n, d)
	}
}

// A target is one of the keys of a call on several.
type target struct {
	key
	order     int      // among the keys, as the caller gave them
	claimed   int64    // units that the charge must leave, for calls that wait
	reserve   bool     // whether the charge may be given back, which takes a multi-limit entry
	waits     bool     // whether it is of a call that has waited: see evict
	origins   []origin // then: where the charge was recorded
	entry     *entry   // nil: none
	word      uint64   // from which the entry was read or locked
	locked    bool     // whether this call has locked the entry
	placement placement
	resolved  resolved // of a key without an entry
	ruleset   *ruleset // of the table that the entry is in, or of the key if it has none
}

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

// takeAll decides q for all targets, by one state of them all. It first tries to without
// waiting for a lock. If other calls prevent that, it locks all of them. q.at is an instant
// of g, or is still to be read if g is nil. On return, it is the instant that q is decided
// for.
func (l *Limiter) takeAll(targets []target, g *generation, q *query, d *Decision) {
	g, done := l.tryTakeAll(targets, g, q, d)
	if !done {
		l.takeAllLocked(targets, g, q, d)
	}
	for i := range targets {
		if targets[i].ruleset.fault != nil {
			l.countInvalid(targets[i].ruleset, q)
			break // a call counts once
		}
	}
}

// tryTakeAll is takeAll without waiting for a lock.
//
// If it charges, all that it has read is of one state at the instant at which it holds
// all the locks: each was taken from the word that was read. If it charges nothing, the
// instant is that at which it has read everything and nothing has changed yet.
//
// It reports false, and has charged nothing, if other calls interfere in each of its
// rounds; or if the answer depends on what it cannot lock: several keys without an entry,
// or any that does not fit into the table. On return, q.at is an instant of current.
func (l *Limiter) tryTakeAll(targets []target, g *generation, q *query, d *Decision) (current *generation, done bool) {
	for round := range optimisticRounds {
		atomic.Round("tryTakeAll", round+1)
		if current = l.current.Load(); current != g {
			g, q.at = current, current.instant(l.clock.Now())
		}
		if !l.placeAll(g, targets) {
			return g, false
		}
		allowed, alive := l.readAll(g, targets, *q)
		switch {
		case !alive: // look up again
		case !q.stores(allowed):
			l.applyAll(targets, *q, allowed, false, d)
			if l.validateAll(targets) {
				return g, true
			}
		case l.insertMissing(targets):
			q.at = g.instant(l.clock.Now()) // as in decide: charge now
		case !l.ensureHolds(g, targets, q.at):
		case ensureRoomForAll(targets, *q) && tryLockAll(targets) && l.confirmFresh(g, targets):
			l.applyAll(targets, *q, allowed, true, d)
			return g, true
		}
	}
	return g, false
}

// readAll reads the entries of the targets in g. It reports whether all admit q, and
// whether all were alive; else they must be looked up again.
func (l *Limiter) readAll(g *generation, targets []target, q query) (allowed, alive bool) {
	for i := range targets {
		t := &targets[i]
		if t.entry == nil {
			continue
		}
		if t.word, alive = t.entry.loadUnlocked(); !alive {
			g.keys.compareAndDelete(t.key, t.entry)
			return false, false
		}
	}
	return admitAll(targets, q), true
}

// admitAll reports whether all targets admit q, by the words from which they were read or
// locked.
func admitAll(targets []target, q query) bool {
	for i := range targets {
		t := &targets[i]
		q := t.required(q)
		switch {
		case t.placement == placedWithAnother: // the other target decides for both
		case t.placement == placedNowhere:
			if q.n != 0 {
				return false
			}
		case t.entry == nil:
			if !t.ruleset.admits(t.ruleset.fresh, t.ruleset.fresh.Word.Load(), q) {
				return false
			}
		case !t.ruleset.admits(t.entry, t.word, q):
			return false
		}
	}
	return true
}

// required returns q for as many units as t must admit, so that q leaves what is claimed.
func (t *target) required(q query) query {
	q.n = window.Plus(q.n, t.claimed)
	return q
}

// insertMissing makes an entry for each target that has none, and reports whether there
// was one.
func (l *Limiter) insertMissing(targets []target) (missing bool) {
	for i := range targets {
		if t := &targets[i]; t.needsEntry() {
			l.insert(t.resolved, t.key, targets)
			missing = true
		}
	}
	return missing
}

// ensureHolds reports whether the entries of the targets hold a charge at an instant of g, and
// those that are reserved from can give it back. If not, it replaces them by multi-limit
// entries, and the caller must look again.
func (l *Limiter) ensureHolds(g *generation, targets []target, at int64) bool {
	ready := true
	for i := range targets {
		switch t := &targets[i]; {
		case t.entry != nil && t.placement == placedOwn && !t.holds(at):
			l.convert(g, t.key, t.entry, g.ruleset, kindMulti)
			ready = false
		case !t.reserve || t.placement != placedOwn:
			t.origins = nil // it may have had an entry of its own before
		case t.entry != nil:
			t.origins = t.newOrigins() // now: an allocation must not delay others under the lock
		}
	}
	return ready
}

// holds reports whether the entry of t holds a charge at an instant, and can give it back if
// that is asked for.
func (t *target) holds(at int64) bool {
	return t.ruleset.holds(t.entry, at) && (!t.reserve || t.entry.isMulti())
}

// newOrigins returns room for where the charge to t is recorded, with lineages for those
// states that have none. It is nil if the charge is not to be given back, or if the entry
// of t cannot tell.
func (t *target) newOrigins() []origin {
	if !t.reserve || !t.entry.isMulti() {
		return nil
	}
	e := t.entry.asMulti()
	origins := make([]origin, len(e.states))
	for i := range origins {
		if e.states[i].lineage.Load() == nil {
			origins[i].lineage = newLineage()
		}
	}
	return origins
}

// validateAll reports whether all that was read of the targets is of one instant. If one
// has no entry, that is the instant of its look-up here. So it is looked up before the
// words of the others are compared: none of them had changed by then. It reports false if
// several have none: no instant is known at which all of them had none.
func (l *Limiter) validateAll(targets []target) bool {
	absent := 0
	for i := range targets {
		if t := &targets[i]; t.entry == nil {
			if absent++; absent > 1 || !l.confirmAbsent(t.resolved, t.key) {
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
func ensureRoomForAll(targets []target, q query) bool {
	ready := true
	for i := range targets {
		if t := &targets[i]; t.entry != nil {
			ready = t.ruleset.ensureRoom(t.entry, t.word, q) && ready
		}
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

// unlockAll unlocks those targets that are locked, and that nothing was charged to.
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

// applyAll makes d the decision on q, given whether all limits admit it. If store is set,
// it charges q and unlocks the targets, which must be locked.
func (l *Limiter) applyAll(targets []target, q query, admitted, store bool, d *Decision) {
	first := 0                          // the order of the target that the limit of d is of
	others := int(roomFor(targets)) - 1 // of a target that has or needs room
	for i := range targets {
		t := &targets[i]
		if t.placement == placedWithAnother {
			continue
		}
		one, order := l.applyOne(t, others, q, admitted, store), t.order
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
func (l *Limiter) applyOne(t *target, others int, q query, admitted, store bool) (d Decision) {
	e := t.entry
	if !admitted {
		q = t.required(q)
	}
	switch {
	case t.placement == placedNowhere:
		return l.refused(t.resolved, q, others, admitted)
	case e == nil:
		e, store = t.ruleset.fresh, false
		t.word = e.Word.Load()
	}
	next := t.ruleset.apply(e, t.word, q, admitted, store, &d)
	if store {
		if admitted && t.origins != nil {
			e.asMulti().reserved(t.origins)
		}
		t.unlock(next)
	}
	return d
}
