package sash

import (
	"slices"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/hashmap"
)

// A multiEntry is the entry of a key that has several limits, limits of its own, or has had a
// reservation; and of a key whose state does not fit into a word. It points to its ruleset, and has
// a state for each rule.
//
// Bits of its word (high to low): dead 1 | multi 1, always set | locked 1 | resizing 1 |
// version 60.
//
// The protocol is the same as for a logEntry, for all states at once. So all limits are checked
// and charged at one instant.
//
// Invariant: states are written only by a goroutine that holds the lock. Rings are replaced only by
// one that has set resizing or holds the lock. All fields that are not atomic never change.
type multiEntry struct {
	ruleset *ruleset
	states  []limitState
	entry
}

// newMultiEntry returns an entry of those states, one for each rule of rs, with a copy of name.
func newMultiEntry(rs *ruleset, states []limitState, name string) *multiEntry {
	e := hashmap.NewIn(name, (*multiEntry).header)
	e.ruleset, e.states = rs, states
	e.Word.Store(multi)
	return e
}

func (e *entry) asMulti() *multiEntry {
	return (*multiEntry)(e.ownerAt(unsafe.Offsetof(multiEntry{}.entry)))
}

// tryFast is ruleset.tryFast for e. word is not locked and not dead.
func (e *multiEntry) tryFast(word uint64, at, n int64, m mode, d, next *Decision) result {
	res := e.try(word, at, n, m)
	charges := res == admitted && m&stores != 0
	if res == retry || charges && !e.tryLock(word) {
		return retry
	}
	// With a charge, the lock was taken from the word that the states were read under: they still are
	// as they were when all of them admitted the units.
	switch {
	case res == denied && d != nil:
		e.apply(query{at: at, n: n}, denied, 0, d)
	case d != nil:
		var left remainder
		e.chargeTried(at, n, m, &left)
		left.decision(d)
	case charges:
		e.chargeTried(at, n, m, nil)
	}
	if charges {
		if next != nil { // before the unlock, so that both decisions are of one instant
			e.apply(query{at: at, n: d.Remaining + 1}, denied, 0, next)
		}
		e.unlock(word)
	} else if !e.validate(word) { // nothing is written, so the answer counts if nothing has changed
		return retry
	}
	return res
}

// try reports whether every rule admits n units, n > 0, and every state has room for them and, if
// m has tells, can tell what they leave. If it returns retry, the caller must take the slow path.
func (e *multiEntry) try(word uint64, at, n int64, m mode) (res result) {
	rules, states := e.ruleset.rules, e.states
	if word&resizing != 0 || len(rules) < len(states) { // never shorter: it lets the compiler drop the checks of the loop
		return retry
	}
	for i := range states {
		// The states may be torn. What follows from them counts once the caller has validated word.
		if res = rules[i].algorithm.try(&states[i], at, n, m); res != admitted {
			break
		}
	}
	return res
}

// ensureRoom is ruleset.ensureRoom for e, whose word is not resizing.
func (e *multiEntry) ensureRoom(word uint64, q query, res result) result {
	for i := 0; e.ruleset.rings && i < len(e.states); i++ {
		a, ok := e.ruleset.rules[i].algorithm.(ringAlgorithm)
		if !ok || !a.needsRoom(e.states[i].load(), q, res) {
			continue
		}
		if e.tryBeginResize(word) {
			// From here on no call charges, so the copy is complete. Calls that read go on
			// with the old ring, which stays as it is.
			at := &e.states[i].ring
			at.Store(a.grown(at.Load()))
			e.unlock(word)
		}
		return retry
	}
	return admitted
}

// grow makes room for the charge of q, whose result is res, under the i-th rule. The caller must hold the lock.
func (e *multiEntry) grow(i int, q query, res result) {
	s := &e.states[i]
	if a, ok := e.ruleset.rules[i].algorithm.(ringAlgorithm); ok && a.needsRoom(s.load(), q, res) {
		s.ring.Store(a.grown(s.ring.Load()))
	}
}

// shrink gives back the memory of rings that are far too large by now. Otherwise a busy key would keep
// the memory of one burst for ever.
func (e *multiEntry) shrink() {
	for i := range e.states {
		a, ok := e.ruleset.rules[i].algorithm.(ringAlgorithm)
		if !ok {
			continue
		}
		word, alive := e.loadUnlocked()
		at := &e.states[i].ring
		if next := a.shrunk(at.Load()); next != nil && alive && e.tryBeginResize(word) {
			// Nothing has been charged since the word was loaded, so next is complete.
			at.Store(next)
			e.unlock(word)
		}
	}
}

// chargeTried joins to left, unless that is nil, what n units leave. try must have admitted them at
// the same instant, with tells unless left is nil. If m has stores, it charges them. Then the caller
// must hold the lock.
func (e *multiEntry) chargeTried(at, n int64, m mode, left *remainder) {
	rules, states := e.ruleset.rules, e.states
	if len(rules) < len(states) { // never: it lets the compiler drop the checks of the loops
		return
	}
	if left == nil {
		for i := range states {
			rules[i].algorithm.chargeTried(&states[i], at, n, m)
		}
		return
	}
	for i := range states {
		r := &rules[i]
		left.join(r, r.algorithm.chargeTried(&states[i], at, n, m|tells))
	}
}

// apply makes d, unless it is nil, the decision on q. res is the result of the whole call. If m has
// stores, it charges q. Then the caller must hold the lock.
func (e *multiEntry) apply(q query, res result, m mode, d *Decision) {
	m = m.tellsTo(d)
	for i := range e.states {
		r, s := &e.ruleset.rules[i], &e.states[i]
		before := s.load()
		after, o, _ := r.algorithm.apply(before, q, res, m)
		if m&stores != 0 {
			if g := s.lineage.Load(); g != nil { // the lock guards what is in it, too
				r.algorithm.note(g, before, after, q.at, res)
			}
			s.store(after)
		}
		switch {
		case d == nil:
		case i == 0:
			d.set(&r.Limit, res, o)
		default:
			var one Decision
			one.set(&r.Limit, res, o)
			d.join(&one, false)
		}
	}
}

// An origin is where a charge was recorded under one rule: the window or tick, or the number
// of the charge, and the root of the lineage of the state.
//
// A state hands its lineage on only to a state that replaces it and knows just as well
// where everything was recorded: see rule.findsAgain.
type origin struct {
	lineage *lineage
	number  int64
}

// reserved sets origins to where the last charge of e was recorded, so that it can be given back.
// Each of origins has a lineage for a state that has none yet. The caller must hold the lock.
func (e *multiEntry) reserved(origins []origin) {
	for i := range e.states {
		s := &e.states[i]
		if s.lineage.Load() == nil { // the first reservation: the lock keeps another from being first, too
			s.lineage.Store(origins[i].lineage)
		}
		g := s.lineage.Load()
		origins[i] = origin{g.root, e.ruleset.rules[i].algorithm.reserve(s.load(), g)}
	}
}

// giveBack gives the units of a reservation that were left over, or none, back to the states in which they
// were charged: the states of the lineages in origins. Where they are held, it gives back all that were
// reserved. The reservation is no longer open. It reports whether any unit may be back. The caller must hold
// the lock.
func (e *multiEntry) giveBack(origins []origin, reserved, left int64) (freed bool) {
	for i := range e.states {
		r, s := &e.ruleset.rules[i], &e.states[i]
		g := s.lineage.Load()
		if g == nil {
			continue
		}
		// Two states of one lineage began as one: give back to each lineage once. If both hold units, for leases
		// of different lengths, a late call may be recorded at another instant in each: so its own place first.
		at := i
		if i >= len(origins) || origins[i].lineage != g.root {
			at = slices.IndexFunc(origins, func(o origin) bool { return o.lineage == g.root })
		}
		if at < 0 {
			continue
		}
		units := left
		if r.held {
			units = reserved
		}
		after, seen, emptied := r.algorithm.giveBack(s.load(), g, origins[at].number, units)
		s.store(after)
		freed = freed || units > 0
		if emptied {
			// An empty state remembers nothing. So the past before it must not be
			// charged any more, as after an eviction.
			r.raiseFloor(seen)
		}
	}
	return freed
}

// of returns the ruleset of e, an entry in a table of rs.
func (rs *ruleset) of(e *entry) *ruleset {
	if e.isMulti() {
		return e.asMulti().ruleset
	}
	return rs
}
