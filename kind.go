package sash

import (
	"github.com/seed-30da4c49/sash/internal/atomic"
)

// kindOf returns the kind of an entry in a table of rs, given its word. A multi-limit
// entry says so itself, for all its life and after. All others are of the kind of rs.
func (rs *ruleset) kindOf(word uint64) kind {
	if word&multi != 0 {
		return kindMulti
	}
	return rs.kind
}

// newEntry returns an empty entry under rs, with a copy of name.
func (rs *ruleset) newEntry(name string) *entry {
	switch rs.kind {
	case kindCounter, kindBucket:
		return newWordEntry(0, name)
	case kindLog:
		return &newLogEntry(name).entry
	case kindMulti:
		return &newMultiEntry(rs, name).entry
	}
	panic(unknownKind(rs.kind))
}

// decide decides q for e, charges it if it is to be charged, and makes d the decision
// unless d is nil. If e is dead, nothing has happened, and alive is false.
//
// The linearization point is the compare-and-swap that charges or locks the entry. For a
// call that charges nothing it is the load that proves what was read.
func (rs *ruleset) decide(e *entry, q query, d *Decision) (allowed, alive bool) {
	switch r, k := &rs.rules[0], rs.kindOf(e.Word.Load()); k {
	case kindCounter:
		return r.decideCounter(e, q, d)
	case kindLog:
		return rs.decideLog(e.asLog(), q, d)
	case kindBucket:
		return r.decideBucket(e, q, d)
	case kindMulti:
		return e.asMulti().decide(q, d)
	default:
		panic(unknownKind(k))
	}
}

// tryFast is the fast path of decide for n units, n > 0. If ok is false, it had no effect,
// and the caller must take the slow path. Unless d is nil, it makes d the decision, and
// next, unless it is nil, the decision on one unit more than d leaves. An entry with
// several limits leaves next as it is.
func (rs *ruleset) tryFast(e *entry, at, n int64, d, next *Decision) (allowed, ok bool) {
	word := e.Word.Load()
	if word&(dead|locked) != 0 {
		return false, false
	}
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		if d == nil {
			return r.tryFast(e, at, n)
		}
		ok = r.decideFast(e, at, n, true, d, next)
		return d.Allowed, ok
	case kindLog:
		return r.tryFastLog(e, at, n, d, next)
	case kindBucket:
		return r.tryFastBucket(e, at, n, d, next)
	case kindMulti:
		return e.asMulti().tryFast(word, at, n, d)
	default:
		panic(unknownKind(k))
	}
}

// admitsFast reports whether e, whose word was loaded as given, admits n units, n > 0, has
// room for them, and can tell what they leave. If ok is false, the caller must take the slow
// path. word must not be locked or dead.
func (rs *ruleset) admitsFast(e *entry, word uint64, at, n int64) (admits, ok bool) {
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		return r.windowAdmitsFast(r.layout.unpack(word), at, n)
	case kindLog:
		admits, ok = r.ringAdmitsFast(e.asLog().ring.Load(), at, n, true)
		return admits, ok && word&resizing == 0
	case kindBucket:
		return r.bucketAdmitsFast(word, at, n)
	case kindMulti:
		return e.asMulti().admitsFast(word, at, n, true)
	default:
		panic(unknownKind(k))
	}
}

// peekFast makes d the decision on n units, n > 0, without charging them. If it reports
// false, the caller must take the slow path.
func (rs *ruleset) peekFast(e *entry, at, n int64, d *Decision) bool {
	word := e.Word.Load()
	if word&(dead|locked) != 0 {
		return false
	}
	if rs.kindOf(word) == kindCounter {
		return rs.rules[0].decideFast(e, at, n, false, d, nil)
	}
	if admits, ok := rs.admitsFast(e, word, at, n); !admits || !ok {
		return false
	}
	var left remainder
	rs.applyFast(e, word, at, n, false, &left)
	left.decision(d)
	return rs.validate(e, word)
}

// applyFast joins to left, unless that is nil, what n units leave that admitsFast has
// admitted at that instant. If store is set, e must have been locked from word: applyFast
// charges the units, and returns the word that unlocks e. Otherwise it returns word.
func (rs *ruleset) applyFast(e *entry, word uint64, at, n int64, store bool, left *remainder) (next uint64) {
	next = word
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		charged := word + uint64(n) // as in rule.tryFast
		left.joinWindow(r, r.layout.unpack(charged), at)
		if store {
			next = charged
		}
	case kindLog:
		if r.applyRingFast(e.asLog().ring.Load(), at, n, store, left); store {
			next = nextVersion(word)
		}
	case kindBucket:
		if charged := r.applyBucketFast(word, at, n, left); store {
			next = charged
		}
	case kindMulti:
		if e.asMulti().applyFast(at, n, store, left); store {
			next = nextVersion(word)
		}
	default:
		panic(unknownKind(k))
	}
	return next
}

// admits reports whether e, whose word was loaded or locked as given, admits q.
func (rs *ruleset) admits(e *entry, word uint64, q query) (ok bool) {
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		ok = r.admits(r.layout.unpack(word), q)
	case kindLog:
		v := e.asLog().ring.Load().view()
		_, ok = r.evaluateLog(&v, q)
	case kindBucket:
		ok = r.admitsDebt(r.debts.unpack(r.bucket, word), q)
	case kindMulti:
		ok = e.asMulti().admits(q)
	default:
		panic(unknownKind(k))
	}
	return ok
}

// apply makes d the decision on q for e, whose word was loaded or locked as given. It is
// given whether all limits of all keys admit q. If store is set, e must be locked: apply
// charges q, and returns the word that unlocks e. Otherwise it returns word.
func (rs *ruleset) apply(e *entry, word uint64, q query, admitted, store bool, d *Decision) (next uint64) {
	next = word
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		if w := r.applyWindow(r.layout.unpack(word), q, admitted, d); store {
			next = r.layout.packCharged(w)
		}
	case kindLog:
		if r.applyRing(e.asLog().ring.Load(), q, admitted, store, d); store {
			next = nextVersion(word)
		}
	case kindBucket:
		before := r.debts.unpack(r.bucket, word)
		if after := r.applyDebt(before, q, admitted, d); store && after != before {
			next = r.debts.packCharged(r.bucket, after)
		}
	case kindMulti:
		if e.asMulti().apply(q, admitted, store, d); store {
			next = nextVersion(word)
		}
	default:
		panic(unknownKind(k))
	}
	return next
}

// grow makes room in e for the charge of q. The caller must hold the lock of e, which it
// took from word.
func (rs *ruleset) grow(e *entry, word uint64, q query) {
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter, kindBucket:
	case kindLog:
		r.growRing(&e.asLog().ring, q)
	case kindMulti:
		e.asMulti().grow(q)
	default:
		panic(unknownKind(k))
	}
}

// ensureRoom reports whether e, whose word was loaded as given, has room for the charge
// of q. If not, it makes room, and the caller must look again.
func (rs *ruleset) ensureRoom(e *entry, word uint64, q query) bool {
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter, kindBucket:
		return true
	case kindLog:
		return e.asLog().ensureRoom(r, word, q)
	case kindMulti:
		return e.asMulti().ensureRoom(word, q)
	default:
		panic(unknownKind(k))
	}
}

// shrink gives back memory of e that is far too much by now.
func (rs *ruleset) shrink(e *entry) {
	switch r, k := &rs.rules[0], rs.kindOf(e.Word.Load()); k {
	case kindCounter, kindBucket:
	case kindLog:
		e.asLog().shrink(r)
	case kindMulti:
		e.asMulti().shrink()
	default:
		panic(unknownKind(k))
	}
}

// resizable reports whether entries of kind k can make room: whether a bit of their words
// is resizing.
func (k kind) resizable() bool {
	switch k {
	case kindCounter, kindBucket:
		return false
	case kindLog, kindMulti:
		return true
	}
	panic(unknownKind(k))
}

// stateOf returns the state of e under the i-th rule, given its word.
func (rs *ruleset) stateOf(e *entry, word uint64, i int) (v stateView) {
	switch k := rs.kindOf(word); k {
	case kindCounter:
		v.State = rs.rules[0].layout.unpack(word)
	case kindLog:
		v.ringView = e.asLog().ring.Load().view()
	case kindBucket:
		v.debt = rs.rules[0].debts.unpack(rs.rules[0].bucket, word)
	case kindMulti:
		v = e.asMulti().stateOf(i)
	default:
		panic(unknownKind(k))
	}
	return v
}

// validate reports whether all that was read of e since word was loaded is one state. For
// a counter or a token bucket in one word it always is: what was read is that word. It says
// nothing of other keys: for these the words must be the same.
func (rs *ruleset) validate(e *entry, word uint64) bool {
	switch k := rs.kindOf(word); k {
	case kindCounter, kindBucket:
		return true
	case kindLog, kindMulti:
		return e.validate(word)
	default:
		panic(unknownKind(k))
	}
}

// expired reports whether no unit of e, whose word was loaded as given, counts at now,
// and since which instant.
func (rs *ruleset) expired(e *entry, word uint64, now int64) (since int64, ok bool) {
	if rs.kindOf(word) == kindMulti {
		return e.asMulti().expired(now)
	}
	v := rs.stateOf(e, word, 0)
	return v.expired(&rs.rules[0], now)
}

// checkIdle reports whether e is idle at now: whether its state equals that of a key
// never seen. It returns the word that it has read. An entry that is dead, or that a
// goroutine is writing to, is not idle.
//
// If e is idle, checkIdle raises the floor first: a goroutine that then finds e dead must
// also find the new floor.
func (rs *ruleset) checkIdle(e *entry, now int64) (word uint64, ok bool) {
	word = e.Word.Load()
	if word&(dead|locked) != 0 || word&resizing != 0 && rs.kindOf(word).resizable() {
		return word, false
	}
	since, ok := rs.expired(e, word, now)
	// What was read of more than a word may be torn. Then the caller's tryKill fails, and
	// the floor must not have risen for it.
	if ok && e.validate(word) {
		rs.raiseFloor(since)
	}
	return word, ok
}

// decideFresh decides q for a key that has no entry, and gets none.
func (rs *ruleset) decideFresh(q query, d *Decision) bool {
	q.charge = false
	allowed, _ := rs.decide(rs.fresh, q, d)
	return allowed
}

// holds reports whether a key with the entry e, which is in a table of rs, can be charged there
// at an instant. If not, e must be replaced by a multi-limit entry first.
func (rs *ruleset) holds(e *entry, at int64) bool {
	word := e.Word.Load()
	if word&^locked == 0 { // never charged: it starts at the floor
		at = rs.clampToFloor(at)
	}
	switch r, k := &rs.rules[0], rs.kindOf(word); k {
	case kindCounter:
		return r.layout.holds(at)
	case kindBucket:
		_, ok := r.debts.steps(at)
		return ok
	case kindLog, kindMulti:
		return true
	default:
		panic(unknownKind(k))
	}
}

// decideLocked is decide for a call that has lost optimisticRounds races. It locks e, so
// nothing can change while it decides. Other calls on e wait for it.
func (rs *ruleset) decideLocked(e *entry, q query, d *Decision) (allowed, alive bool) {
	word, alive := rs.lock(e)
	if !alive {
		return false, false
	}
	if d == nil {
		d = new(Decision)
	}
	if rs.kindOf(word) == kindMulti {
		q.dropNext() // as in multiEntry.decide
	}
	allowed = rs.admits(e, word, q)
	store := q.stores(allowed)
	if store {
		rs.grow(e, word, q)
	}
	e.Word.Store(rs.apply(e, word, q, allowed, store, d)) // the decision is made: unlock
	return allowed, true
}

// lock locks e, an entry in a table of rs, once no other goroutine is writing to it. It
// returns the word to unlock it from. If alive is false, e is dead, and not locked.
//
// A round is lost only to a compare-and-swap of another call between the load and the
// compare-and-swap here. Nothing is read or computed in between, so no stream of calls
// hits that moment each time.
func (rs *ruleset) lock(e *entry) (word uint64, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("lock", round)
		word, alive = rs.loadQuiescent(e)
		if !alive || e.tryLock(word) {
			return word, alive
		}
	}
}

// loadQuiescent returns the word of e, an entry in a table of rs, once no goroutine is
// writing to it or resizing it, and whether e is alive.
func (rs *ruleset) loadQuiescent(e *entry) (word uint64, alive bool) {
	for {
		word, alive = e.loadUnlocked()
		if word&resizing == 0 || !rs.kindOf(word).resizable() {
			return word, alive
		}
		atomic.Pause(&e.Word) // the goroutine that makes room needs as long as a copy
	}
}
