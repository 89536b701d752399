package sash

import (
	"fmt"
	"math"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A rule is a Limit, compiled for deciding. It does not change, but for index.
type rule struct {
	Limit
	*timeline
	form    form               // of the state that a key has under it
	counter window.Counter     // the arithmetic of a windowForm
	ticks   window.Ticks       // that of a ringForm
	bucket  window.TokenBucket // that of a debtForm
	layout  layout             // of the word of a kindCounter
	debts   debtLayout         // of the word of a kindBucket
	inWord  bool               // whether the state of a key fits into one word

	// index is the window in which an instant was located last: a hint that spares a
	// division. It is written once a window, so it has a cache line of its own.
	//
	// Invariant: if inWord is set, layout has an epoch for it.
	_     [64]byte
	index atomic.Int64
	_     [64]byte
}

// A form is a way to keep what a key was charged under one rule. Every switch over forms is a
// method of rule, limitState, stateView or snapshotReader.
type form uint8

const (
	windowForm form = iota // a window.State: SlidingCounter
	ringForm               // a ring: SlidingLog and SlidingBuckets
	debtForm               // a window.Debt: TokenBucket
	noForm                 // nothing: Unlimited
	forms
)

// An unknownForm is what a switch panics with that has no case for a form.
type unknownForm form

func (f unknownForm) Error() string { return fmt.Sprintf("sash: no state of form %d", form(f)) }

// A kind says which type an entry is the end of. Every switch over kinds is a method of ruleset, or
// is multiEntry.compact, which makes one kind of another.
type kind uint8

const (
	kindCounter kind = iota // entry itself: a window.State in one word
	kindLog                 // logEntry
	kindBucket              // entry itself: a window.Debt in one word
	kindMulti               // multiEntry
	kinds
)

// An unknownKind is what a switch panics with that has no case for a kind.
type unknownKind kind

func (k unknownKind) Error() string { return fmt.Sprintf("sash: no entry of kind %d", kind(k)) }

// compile makes r the rule of l. With horizon, it is all that knows what an Algorithm is
// made of.
func (r *rule) compile(l Limit, t *timeline) {
	r.Limit, r.timeline = l, t
	if l == Unlimited() {
		r.form = noForm
		return
	}
	switch size := int64(l.Window); l.Algorithm {
	case SlidingCounter:
		r.form, r.counter = windowForm, window.Counter{Count: l.Count, Window: size}
		r.layout, r.inWord = layoutOf(r.counter, t.origin)
		earliest, _ := r.counter.Locate(math.MinInt64)
		index, _ := r.counter.Locate(t.origin)
		r.index.Store(max(index, earliest+1)) // any that has an epoch, and a beginning
	case SlidingLog:
		r.form, r.ticks = ringForm, window.Instants(size)
	case SlidingBuckets:
		r.form, r.ticks = ringForm, window.Buckets(size, int64(l.Precision))
	case TokenBucket:
		r.form, r.bucket = debtForm, window.TokenBucket{Count: l.Count, Window: size, Burst: l.most()}
		r.debts, r.inWord = debtLayoutOf(r.bucket, t.origin)
	default:
		panic(unknownAlgorithm(l.Algorithm))
	}
}

// kind returns the smallest kind of entry that holds the state of a key under r alone.
func (r *rule) kind() kind {
	switch r.form {
	case windowForm:
		if r.inWord {
			return kindCounter
		}
		return kindMulti
	case ringForm:
		return kindLog
	case debtForm:
		if r.inWord {
			return kindBucket
		}
		return kindMulti
	case noForm:
		return kindMulti
	}
	panic(unknownForm(r.form))
}

// An unknownAlgorithm is what a switch panics with that has no case for an Algorithm.
type unknownAlgorithm Algorithm

func (a unknownAlgorithm) Error() string { return fmt.Sprintf("sash: no rule for %v", Algorithm(a)) }

// satisfiable reports whether r could ever admit n units.
func (r *rule) satisfiable(n int64) bool { return 0 <= n && n <= r.most() }

// A horizon is how far into the past a rule knows of charges, in nanoseconds.
type horizon struct {
	resolution int64 // the length of the period to which a charge is dated
	remembers  int64 // the age up to which every charge is known
	looksBack  int64 // the age up to which a charge may count
	life       int64 // the least time between a unit and the unit Count units later; not of a debtForm
}

// horizon returns how far into the past r knows of charges.
func (r *rule) horizon() horizon {
	switch size := int64(r.Window); r.Algorithm {
	case SlidingCounter:
		return horizon{resolution: size, remembers: size, looksBack: window.Plus(size, size), life: size}
	case SlidingLog:
		return horizon{resolution: 1, remembers: size, looksBack: size, life: size}
	case SlidingBuckets:
		life := int64(window.Wait(0, uint64(r.ticks.Life)*uint64(r.ticks.Length)))
		return horizon{resolution: r.ticks.Length, remembers: (r.ticks.Life - 1) * r.ticks.Length, looksBack: life, life: life}
	case TokenBucket: // it knows how much was charged, but not when
		return horizon{resolution: 1, looksBack: int64(r.bucket.ResetAfter(r.bucket.Cost(r.bucket.Burst)))}
	default:
		panic(unknownAlgorithm(r.Algorithm))
	}
}

// A charge is units charged at an instant.
type charge struct{ at, units int64 }

// latestInstant returns the latest instant, at most now, that r takes for the window or
// tick of that number. If now is before it, that is its beginning.
func (r *rule) latestInstant(number, now int64) int64 {
	size := r.horizon().resolution
	switch current, _ := window.Divide(now, size); {
	case current == number:
		return now
	case current < number:
		return r.beginningOf(number)
	}
	return number*size + (size - 1) // before now, so it fits, though the beginning may not
}

// beginningOf returns the first instant of the window or tick of that number.
func (r *rule) beginningOf(number int64) int64 {
	begin := number * r.horizon().resolution
	if number < 0 && begin > 0 { // it lies before the first instant of an int64
		return math.MinInt64
	}
	return begin
}

// A query asks an entry whether n units may be charged at an instant. If charge is not
// set, the answer is that of a charge which is not made.
type query struct {
	at, n        int64
	charge       bool
	chargeDenied bool // whether a denied attempt is charged too
	waits        bool // whether it is an attempt of a call that waits, which may make several
	// next, if not nil, is made the decision on one unit more than the decision on this
	// query leaves. An entry with several limits leaves it as it is.
	next *Decision
}

// stores reports whether q is charged, given whether it is admitted.
func (q query) stores(admitted bool) bool { return q.charge && (admitted || q.chargeDenied) }

// dropNext takes next from q, for an entry that does not decide it.
func (q *query) dropNext() {
	if q.next != nil {
		*q.next, q.next = Decision{}, nil
	}
}

// cost returns the units that q is charged by r, given whether all limits admit it. A
// denied attempt fills up the units charged in its window or tick to Count.
func (r *rule) cost(q query, admitted bool, charged int64) int64 {
	switch {
	case admitted:
		return q.n
	case q.chargeDenied:
		return min(max(q.n, 0), max(r.Count-charged, 0))
	}
	return 0
}

// A ruleset is the limits of a key, compiled. A call is admitted if all of them admit it.
//
// A ruleset never changes. A key that is to have other limits gets another entry.
type ruleset struct {
	*timeline
	rules []rule
	// kind is the kind of the entries under it. In a table of the limiter's own limits,
	// those that need more are of kindMulti.
	kind    kind
	rings   bool   // whether a state under any of the rules is a ring
	buckets bool   // whether any of the rules is a token bucket
	fresh   *entry // is never charged: it answers for keys without an entry

	// neverCharges is whether no call is ever charged under the ruleset, because it is
	// unlimited or admits nothing. So a key under it gets no entry. It may have one that was
	// charged under former limits, unless it is unlimited.
	neverCharges bool

	fault error // what was wrong with the limits in whose place this ruleset denies; nil: nothing
}

// unlimited reports whether rs admits everything.
func (rs *ruleset) unlimited() bool { return rs.rules[0].form == noForm }

// admitsNothing reports whether a rule has a Count of 0, so that no call is charged. Denied
// attempts that are charged too are charged to the other rules, if there are any.
func (rs *ruleset) admitsNothing() bool {
	zeros := 0
	for i := range rs.rules {
		if rs.rules[i].Count == 0 {
			zeros++
		}
	}
	return zeros == len(rs.rules) || zeros > 0 && !rs.chargeDenied
}

func (rs *ruleset) limits() []Limit {
	limits := make([]Limit, len(rs.rules))
	for i := range rs.rules {
		limits[i] = rs.rules[i].Limit
	}
	return limits
}

// satisfiable reports whether rs could ever admit n units.
func (rs *ruleset) satisfiable(n int64) bool { return rs.neverAdmits(n) == nil }

// neverAdmits returns a rule that will never admit n units, or nil if there is none.
func (rs *ruleset) neverAdmits(n int64) *rule {
	for i := range rs.rules {
		if !rs.rules[i].satisfiable(n) {
			return &rs.rules[i]
		}
	}
	return nil
}

// looksBack returns the age up to which a charge may count.
func (rs *ruleset) looksBack() (age int64) {
	for i := range rs.rules {
		age = max(age, rs.rules[i].horizon().looksBack)
	}
	return age
}

// hasCounter reports whether rs has a SlidingCounter.
func (rs *ruleset) hasCounter() bool {
	for i := range rs.rules {
		if rs.rules[i].form == windowForm {
			return true
		}
	}
	return false
}

// A remainder is what a charge leaves: the least under several rules and keys.
type remainder struct {
	*rule         // that decides; nil: none yet
	order     int // of the key of rule, as the caller gave them
	key       int // the order of the key that is being charged
	remaining int64
	reset     time.Duration
}

// join joins to left what the charge of the key of that order leaves under r. In a tie, the
// key that was named first decides, and the limit that was given first.
func (left *remainder) join(r *rule, remaining int64, reset time.Duration) {
	if left.rule == nil || remaining < left.remaining || remaining == left.remaining && left.key < left.order {
		left.rule, left.order, left.remaining = r, left.key, remaining
	}
	left.reset = max(left.reset, reset)
}

// decision makes d the decision on the charge that leaves left.
func (left *remainder) decision(d *Decision) {
	*d = Decision{Allowed: true, Limit: left.Limit, Remaining: left.remaining, ResetAfter: left.reset}
}
