package sash

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// An algorithm is what a rule counts, and how. Each is a rule by another name: slidingCounter,
// slidingLog, slidingParts, tokenBucket and unlimited, and concurrency, which is a slidingLog with a
// difference. A compiled Limit has one, and nothing else depends on
// which one that is.
//
// It decides by a state that was read from an entry. Unless the entry is locked, that state may be
// torn: what follows from it must not be used before it is validated, and must not cause a panic.
type algorithm interface {
	// admits reports whether q is admitted by s.
	admits(s state, q query) bool
	// apply returns s with q charged to it. res is the result of the whole call: denied if any limit
	// of any key denies it. Given retry, s alone decides. If m has stores, a ring is charged itself:
	// its entry must be locked, and must have room. If m has tells, o is the outcome of q.
	apply(s state, q query, res result, m mode) (after state, o outcome, decided result)

	// try reports whether n units, n > 0, are admitted by s, which has room for them, and can tell
	// what they leave if m has tells. If it returns retry, the caller must take the slow path.
	try(s *limitState, at, n int64, m mode) result
	// chargeTried returns what n units leave. try must have admitted them at the same instant. If m
	// has stores, it charges them: the entry of s must have been locked from the word that s was
	// read under.
	chargeTried(s *limitState, at, n int64, m mode) outcome

	// horizon returns how far into the past charges are known.
	horizon() horizon
	// expired reports whether no unit of s counts at now, and since which instant.
	expired(s state, now int64) (since int64, ok bool)

	// reserve returns where the last charge of s is found again: the number of its window or tick.
	// For a token bucket it is the number of the charge in g, the lineage of s. The charge stays
	// open there until it is settled.
	reserve(s state, g *lineage) int64
	// note notes in g a charge at that instant, which turned before into after.
	note(g *lineage, before, after state, at int64, res result)
	// giveBack returns s without units of the charge of that number, as far as they are still there: those
	// that were not used, or all that were reserved if units are held.
	// If that has emptied s, seen is the newest time that s knew. The entry of s must be locked.
	giveBack(s state, g *lineage, number, units int64) (after state, seen int64, emptied bool)

	// history returns the charges that s knows of, oldest first. The newest is among them even
	// if it was given back: it is the time that the key has seen.
	history(s state, now int64) []charge
	// replay returns s, the state of a key that was never charged, after the charges of the past.
	replay(s state, past []charge) state

	// appendState appends s to a record of a snapshot, and readState reads it again. It is given the
	// state of a key that was never charged.
	appendState(b []byte, s state) []byte
	readState(s state, r *snapshotReader) state
}

// A shiftedAlgorithm decides for each key by instants of its own.
type shiftedAlgorithm interface {
	algorithm
	// begin returns the state of a key of that shift that was never charged.
	begin(shift int64) state
	// early returns by how much earlier than under a shift of 0 the periods of a key of that shift begin.
	early(shift int64) int64
}

// A ringAlgorithm keeps the state of a key in a ring, which may have to grow.
type ringAlgorithm interface {
	algorithm
	// needsRoom reports whether the ring of s, nil before the first charge, has no room for the charge of
	// q, whose result is res.
	needsRoom(s state, q query, res result) bool
	// grown returns a copy of g with more room.
	grown(g *ring) *ring
	// shrunk returns a smaller copy of g, or nil if g is not far too large.
	shrunk(g *ring) *ring
}

// A wordAlgorithm keeps the state of a key in one word, where it fits. Nothing but the word is the state,
// so all that follows from it is of one instant.
type wordAlgorithm interface {
	packedAlgorithm
	// charge charges n units, n > 0, to e by one compare-and-swap from word, if e is not nil. If it
	// returns retry, it had no effect, and the caller must take the slow path: word is locked or
	// dead, or of a multi-limit entry, among others. The three numbers are what outcome needs.
	charge(e *entry, word uint64, at, n int64) (x, y, z int64, res result)
	// retryAfter returns how long more units wait that the call of outcome, for n units, denies after it.
	retryAfter(x, y, z, n, more int64) time.Duration
	// charged returns word with n units charged to it, which charge has admitted at that instant.
	charged(word uint64, at, n int64) (next uint64, o outcome)
	// outcome returns the outcome of n units that charge has admitted or denied.
	outcome(x, y, z, n int64, res result) outcome
}

// A packedAlgorithm keeps the state of a key, but for any lanes, in one word, where it fits: layout,
// debtLayout and partsLayout say how.
type packedAlgorithm interface {
	algorithm
	unpack(word uint64) state
	// pack returns the word of s, and whether s fits into one.
	pack(s state) (word uint64, fits bool)
	// packCharged returns the word of s, the state after a charge that ruleset.holds has found to fit.
	packCharged(s state) (word uint64)
	// empty reports whether word, which may be locked, is of a key that was never charged.
	empty(word uint64) bool
	// holds reports whether a charge at that instant fits into a word.
	holds(at int64) bool
}

// A result is what an attempt has come to.
type result uint8

const (
	retry result = iota // nothing has happened, and the caller must try again or another way
	denied
	admitted
	outgrown // nothing has happened: the entry is a log without room for the charge
)

// resultOf returns admitted or denied.
func resultOf(ok bool) result {
	if ok {
		return admitted
	}
	return denied
}

// A mode says what a call is for.
type mode uint8

const (
	tells  mode = 1 << iota // it wants the outcome
	stores                  // it charges
)

// tellsTo returns m with tells, unless d, which the call wants, is nil.
func (m mode) tellsTo(d *Decision) mode {
	if d != nil {
		m |= tells
	}
	return m
}

// An outcome is what a call leaves under one rule: the numbers of a Decision. It has no more fields
// than stay in registers.
type outcome struct {
	remaining              int64
	retryAfter, resetAfter time.Duration
}

// set makes d the decision of l.
func (d *Decision) set(l *Limit, res result, o outcome) {
	// One by one: assigned together, the Limit would be copied twice.
	d.Limit = *l
	d.Allowed = res == admitted
	d.Remaining = o.remaining
	d.RetryAfter = o.retryAfter
	d.ResetAfter = o.resetAfter
}

// A state is what a key was charged under one rule, as it was read: three words, which are a
// window.State or a window.Debt; or a ring; or words and lanes, as slidingParts says. What is not of the
// rule's algorithm is zero.
type state struct {
	a, b, c int64
	ring    *ring
}

func stateOfWindow(w window.State) state { return state{a: w.Index, b: w.Prev, c: w.Curr} }

func (s state) window() window.State { return window.State{Index: s.a, Prev: s.b, Curr: s.c} }

func stateOfDebt(d window.Debt) state {
	return state{a: d.At, b: int64(d.Lack.Hi), c: int64(d.Lack.Lo)}
}

func (s state) debt() window.Debt {
	return window.Debt{At: s.a, Lack: window.Amount{Hi: uint64(s.b), Lo: uint64(s.c)}}
}

// A limitState is what a multi-limit entry holds under one rule: a state, and its lineage.
type limitState struct {
	words   [3]atomic.Int64
	ring    atomic.Pointer[ring]
	lineage atomic.Pointer[lineage] // nil: no reservation was made from it; the lock of the entry guards what is in it
}

func (s *limitState) load() state {
	return state{s.words[0].Load(), s.words[1].Load(), s.words[2].Load(), s.ring.Load()}
}

func (s *limitState) window() window.State {
	return window.State{Index: s.words[0].Load(), Prev: s.words[1].Load(), Curr: s.words[2].Load()}
}

func (s *limitState) debt() window.Debt {
	return window.Debt{At: s.words[0].Load(), Lack: window.Amount{Hi: uint64(s.words[1].Load()), Lo: uint64(s.words[2].Load())}}
}

// store makes s hold after. It stores only what has changed: a store costs as much as a
// compare-and-swap, and most charges change a single word.
func (s *limitState) store(after state) {
	if s.words[0].Load() != after.a {
		s.words[0].Store(after.a)
	}
	if s.words[1].Load() != after.b {
		s.words[1].Store(after.b)
	}
	if s.words[2].Load() != after.c {
		s.words[2].Store(after.c)
	}
	if s.ring.Load() != after.ring {
		s.ring.Store(after.ring)
	}
}

// A kind says which type an entry is the end of.
type kind uint8

const (
	kindWord  kind = iota // entry itself: the state in one word
	kindParts             // partsEntry: a word, and the lanes in front of it
	kindLog               // logEntry: a ring
	kindMulti             // multiEntry: a state for each rule
	kinds
)

// An unknownKind is what a switch panics with that has no case for a kind.
type unknownKind kind

func (k unknownKind) Error() string { return fmt.Sprintf("sash: no entry of kind %d", kind(k)) }

// A fastPath says which fast path of AllowN and Take serves the calls in a generation.
type fastPath uint8

const (
	fastRuleset fastPath = iota // ruleset.tryFast, which serves all kinds of entries
	fastCounter                 // slidingCounter.charge: the only limit is a counter in one word
	fastLog                     // slidingLog.tryFast: it is a log
	fastBucket                  // tokenBucket.charge: it is a token bucket in one word
	fastParts                   // slidingParts.charge: it is a SlidingParts in a word and lanes
	fastNone                    // none: the limiter has an observer, which the fast paths do not call
)

// A charge is units charged at an instant.
type charge = bridge.Charge

// A query asks an entry whether n units may be charged at an instant. If charge is not
// set, the answer is the same, but nothing is charged.
//
// Invariant: leave is at least 0, and is 0 if n is negative.
type query struct {
	at, n        int64
	leave        int64 // units that must be left after the charge of n, under each limit
	charge       bool
	chargeDenied bool // whether a denied attempt is charged too
	spent        bool // whether the units were used past a reservation, so that none is held
	certain      bool // whether it is told the least wait, whatever is given back, in place of the greatest
}

// A request is a query, and what no entry need know of it.
type request struct {
	query
	upTo  int64 // the most units to charge: n is set to as many of them as there are; 0: n is given
	waits bool  // whether it is an attempt of a call that waits, which may make several
}

// fit sets the units of q, which has an upTo, given how many are left. Without any, q is for one, which is
// denied.
func (q *request) fit(left int64) { q.n = max(1, min(q.upTo, left)) }

// needs returns how many units must be there for q to be admitted. It is negative if that is more than an
// int64 holds: then no limit admits q but Unlimited.
func (q query) needs() int64 { return q.n + q.leave }

// stores reports whether q is charged, if res is its result.
func (q query) stores(res result) bool { return q.charge && (res == admitted || q.chargeDenied) }

// A horizon is how far into the past a rule knows of charges, in nanoseconds.
type horizon struct {
	resolution int64 // the length of the period to which a charge is dated
	remembers  int64 // the age up to which every charge is known
	looksBack  int64 // the age up to which a charge may count
	life       int64 // the least time from a unit to the unit that comes Count units later, if dated
	dated      bool  // whether the rule knows when units were charged, not just how many
	weighted   bool  // whether part of a unit is back before the rest
}

// latestInstant returns the latest instant, at most now, of the window or tick of that number. If now
// is before it, that is its beginning.
func (h horizon) latestInstant(number, now int64) int64 {
	size := h.resolution
	switch current, _ := window.Divide(now, size); {
	case current == number:
		return now
	case current < number:
		return h.beginningOf(number)
	}
	return number*size + (size - 1) // before now, so it fits, though the beginning may not
}

// beginningOf returns the first instant of the window or tick of that number.
func (h horizon) beginningOf(number int64) int64 {
	begin := number * h.resolution
	if number < 0 && begin > 0 { // it lies before the first instant of an int64
		return math.MinInt64
	}
	return begin
}
