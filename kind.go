package sash

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
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
func (rs *ruleset) newEntry(name string) *entry { return rs.entryOf(rs.kind, nil, name) }

// entryOf returns an entry of those states under rs, with a copy of name. Without states it is empty.
// It is of that kind, or a multi-limit entry if the kind cannot hold the states: only that holds any
// instant, and what was spent past Count.
func (rs *ruleset) entryOf(kind kind, states []limitState, name string) *entry {
	empty := states == nil
	if empty && kind == kindMulti {
		states = make([]limitState, len(rs.rules))
	}
	var first state
	if states != nil {
		first = states[0].load()
	}
	switch kind {
	case kindWord:
		if word, fits := rs.word.pack(first); fits {
			return newWordEntry(word, name)
		}
	case kindParts:
		r := rs.onlyParts()
		if word, fits := r.pack(first); fits {
			e := newPartsEntry(word, r.laneBits(), r.lanesOf(first), name)
			if empty { // hash the copy: the caller may be changing the bytes of name
				e.Word.Store(r.packCharged(state{c: window.ShiftOf(e.Name())}))
			}
			return e
		}
	case kindLog:
		room := 1 // for the charge that an empty entry is made for
		if first.ring != nil {
			room = max(room, first.ring.room())
		}
		e := newLogEntry(first.ring.view(), room, name)
		if !empty {
			e.unlock(e.Word.Load()) // only an unused entry has the first version
		}
		return e
	case kindMulti:
	default:
		panic(unknownKind(kind))
	}
	e := newMultiEntry(rs, states, name)
	if !empty {
		e.unlock(e.Word.Load()) // as above
		return &e.entry
	}
	for i := range states {
		states[i].store(rs.rules[i].begin(e.Name()))
	}
	return &e.entry
}

// unused reports whether an entry, whose word was loaded as given, has been charged nothing since
// it was made without states.
func (rs *ruleset) unused(word uint64) bool {
	if word&multi == 0 && rs.packed != nil {
		return rs.packed.empty(word)
	}
	return word&^(dead|multi|locked|resizing) == 0 // the first version
}

// stateOf returns the state of e under the i-th of its rules, given its word.
func (rs *ruleset) stateOf(e *entry, word uint64, i int) state {
	switch k := rs.kindOf(word); k {
	case kindWord:
		return rs.word.unpack(word)
	case kindParts:
		return rs.onlyParts().stateOf(e, word)
	case kindLog:
		return state{ring: e.ring()}
	case kindMulti:
		return e.asMulti().states[i].load() // word by word: torn, unless e is locked or word validates
	default:
		panic(unknownKind(k))
	}
}

// onlyLog returns the rule of an entry of kindLog.
func (rs *ruleset) onlyLog() *slidingLog { return (*slidingLog)(&rs.rules[0]) }

// onlyParts returns the rule of an entry of kindParts.
func (rs *ruleset) onlyParts() *slidingParts { return (*slidingParts)(&rs.rules[0]) }

// freshEntry returns an entry that is never charged. It answers for the key of that name, which has none.
func (rs *ruleset) freshEntry(name string) *entry {
	if rs.shifted == nil {
		return rs.fresh
	}
	shifted := &rs.shifted[window.ShiftOf(name)]
	if shifted.Load() == nil {
		shifted.CompareAndSwap(nil, rs.newEntry(name)) // unless another call has made it
	}
	return shifted.Load()
}

// decide decides q for e, and charges it if it is to be charged. It makes d the decision unless d is
// nil, and next, unless it is nil, the decision on one unit more than d leaves. Under several
// limits, it clears next. It returns retry if e is dead, and outgrown if e is a log without room for
// the charge: then nothing has happened.
//
// The linearization point is the compare-and-swap that charges or locks the entry. For a call that
// charges nothing it is the load that proves what was read.
func (rs *ruleset) decide(e *entry, q query, d, next *Decision) result {
	if rs.kindOf(e.Word.Load()) == kindWord {
		return rs.decideWord(e, q, d, next)
	}
	return rs.decideVersion(e, q, d, next)
}

// decideWord is decide for an entry in one word. What a charge makes of the word is one
// compare-and-swap, and a denial writes nothing. It is lock-free while the entry is not
// locked: by a call on several keys, for a few stores, or by one that replaces or evicts the entry or
// settles a reservation. If it charges, e must hold a charge at that instant: see holds.
func (rs *ruleset) decideWord(e *entry, q query, d, next *Decision) result {
	for round := 1; ; round++ {
		atomic.Round("decideWord", round)
		word := e.Word.Load()
		if word&locked != 0 {
			word, _ = e.loadUnlocked()
		}
		if word&dead != 0 {
			return retry
		}
		// The word is the whole state. All that follows is computed from it alone.
		before := rs.word.unpack(word)
		after, o, res := rs.word.apply(before, q, retry, mode(0).tellsTo(d))
		if q.charge && after != before && !e.Word.CompareAndSwap(word, rs.word.packCharged(after)) {
			continue // another call has changed the word, so decide again by its new value
		}
		if d != nil {
			d.set(&rs.rules[0].Limit, res, o)
			rs.tellNext(after, q.at, d, next)
		}
		return res
	}
}

// decideVersion is decide for an entry whose word is the version of its state. If other calls
// change the entry in each of its rounds, it locks the entry instead.
func (rs *ruleset) decideVersion(e *entry, q query, d, next *Decision) result {
	for round := range optimisticRounds {
		atomic.Round("decideVersion", round+1)
		word, alive := e.loadUnlocked()
		if !alive {
			return retry
		}
		res := resultOf(rs.admits(e, word, q))
		switch {
		case !rs.charges(e, word, q, res):
			// Nothing to write. The answer is of one state if no call has locked the
			// entry since the word was loaded.
			if d != nil {
				rs.apply(e, word, q, res, 0, d, next)
			}
			if e.validate(word) {
				return res
			}
		default:
			switch rs.ensureRoom(e, word, q, res) {
			case outgrown:
				return outgrown
			case admitted:
				if e.tryLock(word) {
					// The lock was taken from the word that the states were read under: they
					// still are as they were when all of them admitted q.
					e.Word.Store(rs.apply(e, word, q, res, stores, d, next))
					return res
				}
			}
		}
	}
	return rs.decideLocked(e, q, d, next)
}

// charges reports whether q, whose result is res, changes e, whose word was loaded as given. A denied
// attempt may be charged, and yet cost nothing: all of Count is charged already.
func (rs *ruleset) charges(e *entry, word uint64, q query, res result) bool {
	if res == denied && q.stores(res) && word&multi == 0 {
		return rs.onlyLog().costs(rs.stateOf(e, word, 0), q, res)
	}
	return q.stores(res)
}

// decideLocked is decide for a call that has lost optimisticRounds races. It locks e, so
// nothing can change while it decides. Other calls on e wait for it.
func (rs *ruleset) decideLocked(e *entry, q query, d, next *Decision) result {
	word, alive := rs.lock(e)
	if !alive {
		return retry
	}
	return rs.decideAndUnlock(e, word, q, d, next)
}

// decideUpTo is decide for q.upTo units or, if there are fewer, for as many as there are. It sets q.n to
// that number, which is 1 if there are none. It locks e: between the look at what is left and the charge,
// no other call may charge.
func (rs *ruleset) decideUpTo(e *entry, q *request, d *Decision) result {
	word, alive := rs.lock(e)
	if !alive {
		return retry
	}
	q.fit(rs.remaining(e, word, q.at))
	return rs.decideAndUnlock(e, word, q.query, d, nil)
}

// decideAndUnlock is decide for e, which the caller has locked from word.
func (rs *ruleset) decideAndUnlock(e *entry, word uint64, q query, d, next *Decision) result {
	res, m := resultOf(rs.admits(e, word, q)), mode(0)
	if q.stores(res) {
		if rs.isOutgrown(e, word, q, res) {
			e.Word.Store(word) // nothing has changed
			return outgrown
		}
		m = stores
		rs.grow(e, q, res) // under the lock: ensureRoom would need the unlocked word
	}
	e.Word.Store(rs.apply(e, word, q, res, m, d, next)) // the decision is made: unlock
	return res
}

// tellNext makes next, unless it is nil, the decision on one unit more than d leaves. s is the state
// that d is on, at that instant.
func (rs *ruleset) tellNext(s state, at int64, d, next *Decision) {
	if next != nil {
		_, o, _ := rs.rules[0].algorithm.apply(s, query{at: at, n: d.Remaining + 1}, denied, tells)
		*next = d.oneMore(o.retryAfter)
	}
}

// tryFast is the fast path of decide for n units, n > 0, of e, whose word was loaded as given. If m has
// stores, it charges them if they are admitted. If m has tells, it makes d the decision, and next the
// decision on one unit more than d leaves, unless they are nil. Under several limits, it makes next that
// only if it charges. If it returns retry, it had no effect, and the caller must take the slow path.
func (rs *ruleset) tryFast(e *entry, word uint64, at, n int64, m mode, d, next *Decision) result {
	if word&(dead|locked) != 0 {
		return retry
	}
	switch k := rs.kindOf(word); k {
	case kindWord:
		if m&stores == 0 {
			e = nil // charge then computes what it would charge, and swaps nothing
		}
		x, y, z, res := rs.word.charge(e, word, at, n)
		if d != nil && res != retry {
			d.set(&rs.rules[0].Limit, res, rs.word.outcome(x, y, z, n, res))
			if next != nil {
				*next = d.oneMore(rs.word.retryAfter(x, y, z, n, d.Remaining+1))
			}
		}
		return res
	case kindParts:
		return rs.onlyParts().tryFast(e, word, at, n, m, d, next)
	case kindLog:
		return rs.onlyLog().tryFast(e, word, at, n, m, d, next)
	case kindMulti:
		return e.asMulti().tryFast(word, at, n, m, d, next)
	default:
		panic(unknownKind(k))
	}
}

// chargeTried joins to left what n units leave. tryFast, with tells, must have admitted them at the
// same instant. If m has stores, e must have been locked from word: chargeTried charges the units,
// and returns the word that unlocks e.
func (rs *ruleset) chargeTried(e *entry, word uint64, at, n int64, m mode, left *remainder) (next uint64) {
	switch k := rs.kindOf(word); k {
	case kindWord:
		next, o := rs.word.charged(word, at, n)
		left.join(&rs.rules[0], o)
		return next
	case kindParts:
		next, o := rs.onlyParts().chargeEntry(e, word, at, n, m)
		left.join(&rs.rules[0], o)
		return next
	case kindLog:
		left.join(&rs.rules[0], rs.onlyLog().chargeRing(e.ring(), at, n, m|tells))
	case kindMulti:
		e.asMulti().chargeTried(at, n, m, left)
	default:
		panic(unknownKind(k))
	}
	// A call that began to read under word must fail to validate it, so the lock ends with the next one.
	return nextVersion(word)
}

// admits reports whether e, whose word was loaded or locked as given, admits q.
func (rs *ruleset) admits(e *entry, word uint64, q query) bool {
	// Go by word. A call that finds it resizing pauses until the word changes after its last load: another
	// load here could miss that.
	own := rs
	if word&multi != 0 {
		own = e.asMulti().ruleset
	}
	for i := range own.rules {
		if !own.rules[i].algorithm.admits(rs.stateOf(e, word, i), q) {
			return false
		}
	}
	return true
}

// remaining returns the greatest number of units that e, whose word was loaded or locked as given, admits
// at an instant.
func (rs *ruleset) remaining(e *entry, word uint64, at int64) int64 {
	own, least := rs, int64(math.MaxInt64)
	if word&multi != 0 {
		own = e.asMulti().ruleset
	}
	for i := range own.rules {
		_, o, _ := own.rules[i].algorithm.apply(rs.stateOf(e, word, i), query{at: at}, retry, tells)
		least = min(least, o.remaining)
	}
	return least
}

// apply makes d the decision on q for e, and next the decision on one unit more, unless they are
// nil. The word of e was loaded or locked as given. res is the result of the whole call: denied if
// any limit of any key denies it. If m has stores, e must be locked: apply charges q, and returns
// the word that unlocks e. Otherwise it returns word.
func (rs *ruleset) apply(e *entry, word uint64, q query, res result, m mode, d, next *Decision) uint64 {
	if word&multi != 0 {
		e.asMulti().apply(q, res, m, d)
		next.clear() // it is not known: another limit may decide then
	} else {
		r, before := &rs.rules[0], rs.stateOf(e, word, 0)
		after, o, _ := r.algorithm.apply(before, q, res, m.tellsTo(d))
		if d != nil {
			d.set(&r.Limit, res, o)
			rs.tellNext(after, q.at, d, next)
		}
		switch {
		case rs.packed == nil:
		case m&stores != 0 && after != before:
			return rs.packed.packCharged(after)
		default:
			return word
		}
	}
	if m&stores != 0 {
		return nextVersion(word)
	}
	return word
}

// isOutgrown reports whether e, whose word was loaded or locked as given, is a log without room for the
// charge of q, whose result is res. Then another entry must replace it.
func (rs *ruleset) isOutgrown(e *entry, word uint64, q query, res result) bool {
	return rs.kindOf(word) == kindLog && rs.onlyLog().needsRoom(rs.stateOf(e, word, 0), q, res)
}

// grow makes room in e for the charge of q, whose result is res, unless e is a log. The caller must hold
// the lock of e, and must charge q: the word that it unlocks e from must be another.
func (rs *ruleset) grow(e *entry, q query, res result) {
	if !e.isMulti() {
		return
	}
	m := e.asMulti()
	for i := range m.states { // as multiEntry.grow, whose call would cost each charge
		if a, ok := m.ruleset.rules[i].algorithm.(ringAlgorithm); ok && a.needsRoom(m.states[i].load(), q, res) {
			m.states[i].ring.Store(a.grown(m.states[i].ring.Load()))
		}
	}
}

// ensureRoom returns admitted if e, whose word was loaded as given, has room for the charge of q, whose
// result is res. If it returns retry, it has made room, or another call has, and the caller must look
// again. If it returns outgrown, e is a log, and generation.resizeLog must make room.
func (rs *ruleset) ensureRoom(e *entry, word uint64, q query, res result) result {
	switch k := rs.kindOf(word); {
	case !k.resizable():
		return admitted
	case word&resizing != 0:
		atomic.Pause(&e.Word) // another call is making room
		return retry
	case k == kindMulti:
		return e.asMulti().ensureRoom(word, q, res)
	case !rs.isOutgrown(e, word, q, res):
		return admitted
	case e.validate(word):
		return outgrown
	}
	return retry // what was read may have been torn
}

// resizable reports whether entries of kind k can make room: whether a bit of their words
// is resizing.
func (k kind) resizable() bool { return k == kindLog || k == kindMulti }

// validate reports whether all that was read of e since word was loaded is one state. An entry in
// one word always is. Calls on several keys must compare the words as well.
func (rs *ruleset) validate(e *entry, word uint64) bool {
	return rs.kindOf(word) == kindWord || e.validate(word)
}

// expired reports whether no unit of e, whose word was loaded as given, counts at now,
// and since which instant.
func (rs *ruleset) expired(e *entry, word uint64, now int64) (since int64, ok bool) {
	own := rs.of(e)
	for i := range own.rules {
		one, ok := own.rules[i].algorithm.expired(rs.stateOf(e, word, i), now)
		if !ok {
			return 0, false // one rule that still counts a unit is enough
		}
		if i == 0 || one > since {
			since = one
		}
	}
	return since, true
}

// checkIdle reports whether e is idle at now: whether it has the state of a key never seen. It
// returns the word that it has read. An entry that is dead, or that a goroutine is writing to, is
// not idle.
//
// If e is idle, checkIdle raises the floor first: a goroutine that then finds e dead must
// also find the new floor.
func (rs *ruleset) checkIdle(e *entry, now int64) (word uint64, ok bool) {
	word = e.Word.Load()
	if word&(dead|locked) != 0 || word&resizing != 0 && rs.kindOf(word).resizable() {
		return word, false
	}
	since, ok := rs.expired(e, word, now)
	// What was read of more than a word may be torn, and the floor must not rise for that. Nor may the
	// caller kill e then: a call that has locked it may unlock it unchanged, and the floor has not risen.
	if !ok || !e.validate(word) {
		return word, false
	}
	// Before the caller kills e: a call that finds e dead must not start earlier.
	rs.raiseFloor(since)
	return word, true
}

// holds reports whether an entry in a table of rs, whose word was loaded or locked as given, can store a
// charge at that instant. A word has bits for a limited time only: if it cannot, the entry must be
// replaced by a multi-limit entry first, which stores any instant.
func (rs *ruleset) holds(word uint64, at int64) bool {
	if word&multi != 0 || rs.packed == nil {
		return true
	}
	if rs.packed.empty(word) { // never charged: it starts at the floor
		at = rs.clampToFloor(at)
	}
	return rs.packed.holds(at)
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

// beginResize keeps other calls from charging or resizing e, a log or a multi-limit entry in a table of
// rs. It returns the word that e had. If alive is false, e is dead. It loses a round as lock does.
func (rs *ruleset) beginResize(e *entry) (word uint64, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("beginResize", round)
		word, alive = rs.loadQuiescent(e)
		if !alive || e.tryBeginResize(word) {
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
