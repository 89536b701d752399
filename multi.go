package sash

import (
	"slices"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/hashmap"
)

// A multiEntry is the entry of a key that has several limits, limits of its own, or has
// had a reservation. It points to its ruleset, and has a state for each rule.
//
// Bits of its word (high to low): dead 1 | multi 1, always set | locked 1 | resizing 1 |
// version 60.
//
// The protocol is that of a logEntry. A call loads the word, and reads all states.
//   - If it charges nothing, its answer counts once the word has been validated.
//   - If it charges, it locks the entry by a compare-and-swap from the word that it has
//     loaded, writes, and unlocks under the next version.
//
// So all limits are checked and charged at one instant. A denial takes no lock and writes
// nothing, unless it has lost optimisticRounds races.
//
// Invariant: states are written only by a goroutine that holds the lock. Rings are
// replaced only by one that has set resizing or holds the lock. All fields that are not
// atomic never change.
type multiEntry struct {
	ruleset *ruleset
	states  []limitState
	entry
}

// newMultiEntry returns an empty entry under rs, with a copy of name.
func newMultiEntry(rs *ruleset, name string) *multiEntry {
	return multiEntryOf(rs, make([]limitState, len(rs.rules)), name)
}

// multiEntryOf returns an entry of those states under rs, with a copy of name.
func multiEntryOf(rs *ruleset, states []limitState, name string) *multiEntry {
	e := hashmap.NewIn(name, (*multiEntry).header)
	e.ruleset, e.states = rs, states
	e.Word.Store(multi)
	return e
}

func (e *entry) asMulti() *multiEntry {
	return (*multiEntry)(e.ownerAt(unsafe.Offsetof(multiEntry{}.entry)))
}

// decide decides q. If other calls change the entry in each of its rounds, it locks the
// entry instead.
func (e *multiEntry) decide(q query, d *Decision) (allowed, alive bool) {
	q.dropNext() // not known: another limit may decide then
	for round := range optimisticRounds {
		atomic.Round("multi.decide", round+1)
		word, alive := e.loadUnlocked()
		if !alive {
			return false, false
		}
		allowed := e.admits(q)
		switch {
		case !q.stores(allowed):
			// Nothing to write. The answer is that of one state if no call has locked the
			// entry since the word was loaded.
			if d != nil {
				e.apply(q, allowed, false, d)
			}
			if e.validate(word) {
				return allowed, true
			}
		case e.ensureRoom(word, q) && e.tryLock(word):
			// The lock was taken from the word that the states were read under: they
			// still are as they were when all of them admitted q.
			e.apply(q, allowed, true, d)
			e.unlock(word)
			return allowed, true
		}
	}
	return e.ruleset.decideLocked(&e.entry, q, d)
}

// tryFast is the fast path of decide for n units, n > 0. It serves a call that all limits
// admit, and one that need not be told when they will. word is that of e, not locked and not
// dead. Unless d is nil, it makes d the decision.
func (e *multiEntry) tryFast(word uint64, at, n int64, d *Decision) (allowed, ok bool) {
	if admits, ok := e.admitsFast(word, at, n, d != nil); !admits || !ok {
		return false, ok && d == nil && e.validate(word)
	}
	if !e.tryLock(word) {
		return false, false
	}
	// The lock was taken from the word that the states were read under: they still are as
	// they were when all of them admitted the units.
	if d == nil {
		e.applyFast(at, n, true, nil)
	} else {
		var left remainder
		e.applyFast(at, n, true, &left)
		left.decision(d)
	}
	e.unlock(word)
	return true, true
}

// admitsFast reports whether every rule admits n units, n > 0, and every state has room for
// them and, if exact is set, can tell what they leave. If ok is false, the caller must take the
// slow path.
func (e *multiEntry) admitsFast(word uint64, at, n int64, exact bool) (admits, ok bool) {
	rules, states := e.ruleset.rules, e.states
	if word&resizing != 0 || len(rules) < len(states) { // it is not, and then the loop needs no checks
		return false, false
	}
	for i := range states {
		if admits, ok = rules[i].stateAdmitsFast(&states[i], at, n, exact); !admits || !ok {
			break
		}
	}
	return admits, ok
}

// applyFast joins to left, unless that is nil, what n units leave that admitsFast has
// admitted at that instant, with exact set unless left is nil. If store is set, it charges
// them. Then the caller must hold the lock.
func (e *multiEntry) applyFast(at, n int64, store bool, left *remainder) {
	for i := range e.states {
		e.ruleset.rules[i].applyStateFast(&e.states[i], at, n, store, left)
	}
}

// admits reports whether every rule admits q.
func (e *multiEntry) admits(q query) bool {
	for i := range e.states {
		if !e.ruleset.rules[i].admitsState(&e.states[i], q) {
			return false
		}
	}
	return true
}

// apply makes d, unless it is nil, the decision on q, given whether all limits admit it.
// If store is set, it charges q. Then the caller must hold the lock.
func (e *multiEntry) apply(q query, admitted, store bool, d *Decision) {
	for i := range e.states {
		r, s := &e.ruleset.rules[i], &e.states[i]
		if d == nil {
			r.applyState(s, q, admitted, store, nil)
			continue
		}
		var one Decision
		r.applyState(s, q, admitted, store, &one)
		if i == 0 {
			*d = one
		} else {
			d.join(&one, false)
		}
	}
}

// ensureRoom reports whether every state has room for the charge of q. If one has not, it
// makes room, and the caller must look again.
func (e *multiEntry) ensureRoom(word uint64, q query) bool {
	if word&resizing != 0 {
		atomic.Pause(&e.Word) // another call is making room
		return false
	}
	if !e.ruleset.rings {
		return true
	}
	for i := range e.states {
		r, s := &e.ruleset.rules[i], &e.states[i]
		if !s.needsGrowth(r, q) {
			continue
		}
		if e.tryBeginResize(word) {
			// From here on no call charges, so the copy is complete.
			v := s.ring.Load().view()
			s.ring.Store(v.grown(r.Count))
			e.unlock(word)
		}
		return false
	}
	return true
}

// grow makes room for the charge of q. The caller must hold the lock.
func (e *multiEntry) grow(q query) {
	for i := range e.states {
		if r, s := &e.ruleset.rules[i], &e.states[i]; s.needsGrowth(r, q) {
			v := s.ring.Load().view()
			s.ring.Store(v.grown(r.Count))
		}
	}
}

// shrink gives back the memory of rings that are far too large by now.
func (e *multiEntry) shrink() {
	for i := range e.states {
		word, alive := e.loadUnlocked()
		if next := e.states[i].shrunkRing(&e.ruleset.rules[i]); next != nil && alive && e.tryBeginResize(word) {
			// Nothing has been charged since the word was loaded, so next is complete.
			e.states[i].ring.Store(next)
			e.unlock(word)
		}
	}
}

// expired reports whether no unit of any state counts at now, and since which instant.
func (e *multiEntry) expired(now int64) (since int64, ok bool) {
	for i := range e.states {
		v := e.stateOf(i)
		one, ok := v.expired(&e.ruleset.rules[i], now)
		if !ok {
			return 0, false
		}
		if i == 0 || one > since {
			since = one
		}
	}
	return since, true
}

// stateOf returns the state under the i-th rule.
func (e *multiEntry) stateOf(i int) stateView {
	s := &e.states[i]
	return stateView{s.window(), s.ring.Load().view(), s.debt()}
}

// An origin is where a charge was recorded under one rule: the window or tick, or the number
// of the charge, and the root of the lineage of the state.
//
// A state hands its lineage on only to a state that replaces it and knows just as well
// where everything was recorded: under a rule that is equal but for Count and Burst.
type origin struct {
	lineage *lineage
	number  int64
}

// reserved makes origins those of the charge that e was charged last, which can be given back
// from there. Each has a lineage for a state that has none yet. The caller must hold the lock.
func (e *multiEntry) reserved(origins []origin) {
	for i := range e.states {
		s := &e.states[i]
		if s.lineage.Load() == nil {
			s.lineage.Store(origins[i].lineage)
		}
		origins[i] = origin{s.lineage.Load().root, s.reserved(&e.ruleset.rules[i])}
	}
}

// giveBack gives units, or none, back to the states in which they were charged, those of the
// lineages in origins. The reservation is no longer open. The caller must hold the lock.
func (e *multiEntry) giveBack(origins []origin, units int64) {
	for i := range e.states {
		r, s := &e.ruleset.rules[i], &e.states[i]
		g := s.lineage.Load()
		if g == nil {
			continue
		}
		// Two states of one lineage began as one: give back to each lineage once.
		at := slices.IndexFunc(origins, func(o origin) bool { return o.lineage == g.root })
		if at < 0 {
			continue
		}
		if seen, emptied := s.giveBack(r, origins[at].number, units); emptied {
			// An empty state remembers nothing. So the past before it must not be
			// charged any more, as after an eviction.
			r.raiseFloor(seen)
		}
	}
}

// compact returns e, which no other goroutine knows yet, as an entry of the smallest kind
// that holds it, but none smaller than kind, with a copy of name.
func (e *multiEntry) compact(kind kind, name string) *entry {
	r, s := &e.ruleset.rules[0], &e.states[0]
	switch kind { // only a multiEntry can hold what was spent past Count, and any instant
	case kindCounter:
		w := s.window()
		if word, fits := r.layout.pack(w); fits && max(w.Prev, w.Curr) <= r.Count {
			return newWordEntry(word, name)
		}
	case kindBucket:
		if word, fits := r.debts.pack(r.bucket, s.debt()); fits {
			return newWordEntry(word, name)
		}
	case kindLog:
		log := newLogEntry(name)
		log.ring.Store(s.ring.Load())
		return &log.entry
	case kindMulti:
	default:
		panic(unknownKind(kind))
	}
	return &multiEntryOf(e.ruleset, e.states, name).entry
}
