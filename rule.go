package sash

import (
	"fmt"
	"slices"
	"strings"
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

	// index is the window in which an instant was located last: a hint that spares a
	// division. It is written once a window, so it has a cache line of its own.
	_     [64]byte
	index atomic.Int64
	_     [64]byte
}

// A horizon is how far into the past a rule knows of charges, in nanoseconds.
type horizon struct {
	resolution int64 // the length of the period to which a charge is dated
	remembers  int64 // the age up to which every charge is known
	looksBack  int64 // the age up to which a charge may count
	life       int64 // the least time between a unit and the unit Count units later; not of a debtForm
}

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
		r.layout, _ = layoutOf(r.counter)
	case SlidingLog:
		r.form, r.ticks = ringForm, window.Instants(size)
	case SlidingBuckets:
		r.form, r.ticks = ringForm, window.Buckets(size, int64(l.Precision))
	case TokenBucket:
		r.form, r.bucket = debtForm, window.TokenBucket{Count: l.Count, Window: size, Burst: l.most()}
		r.debts, _ = debtLayoutOf(r.bucket, t.origin)
	default:
		panic(unknownAlgorithm(l.Algorithm))
	}
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

// An unknownAlgorithm is what a switch panics with that has no case for an Algorithm.
type unknownAlgorithm Algorithm

func (a unknownAlgorithm) Error() string { return fmt.Sprintf("sash: no rule for %v", Algorithm(a)) }

// kind returns the smallest kind of entry that holds the state of a key under r alone.
func (r *rule) kind() kind {
	switch r.form {
	case windowForm:
		if _, fits := layoutOf(r.counter); fits {
			return kindCounter
		}
		return kindWide
	case ringForm:
		return kindLog
	case debtForm:
		if _, fits := debtLayoutOf(r.bucket, r.origin); fits {
			return kindBucket
		}
		return kindMulti
	case noForm:
		return kindMulti
	}
	panic(unknownForm(r.form))
}

// satisfiable reports whether r could ever admit n units.
func (r *rule) satisfiable(n int64) bool { return 0 <= n && n <= r.most() }

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

// newRuleset returns the ruleset of limits. If it is the limiter's own, its entries need
// not point to it, and under a single limit they are smaller.
func (t *timeline) newRuleset(limits []Limit, own bool) *ruleset {
	limits = withoutUnlimited(limits)
	rs := &ruleset{timeline: t, rules: make([]rule, len(limits)), kind: kindMulti}
	for i, l := range limits {
		rs.rules[i].compile(l, t)
		rs.rings = rs.rings || rs.rules[i].form == ringForm
		rs.buckets = rs.buckets || rs.rules[i].form == debtForm
	}
	if own && len(limits) == 1 {
		rs.kind = rs.rules[0].kind()
	}
	rs.fresh = rs.newEntry("")
	rs.neverCharges = rs.unlimited() || rs.admitsNothing()
	return rs
}

// withoutUnlimited returns limits without those that are Unlimited, which have no effect
// next to others. If all are, it returns one of them.
func withoutUnlimited(limits []Limit) []Limit {
	if !slices.Contains(limits, Unlimited()) {
		return limits
	}
	others := slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool { return l == Unlimited() })
	if len(others) == 0 {
		return limits[:1]
	}
	return others
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

// newDenying returns the ruleset that denies in place of wrong limits, of which fault tells
// what is wrong.
func (t *timeline) newDenying(fault error) *ruleset {
	rs := t.newRuleset([]Limit{{Count: 0, Window: time.Second}}, false)
	rs.fault = fault
	return rs
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

// cachedRuleset returns the ruleset of keys that have limits of their own. It is the same
// for the same limits, so that a million keys of one plan share it.
func (t *timeline) cachedRuleset(limits []Limit) *ruleset {
	const maxCached = 4096 // a caller that makes up limits for each key pays for each
	name := cacheKey(limits)
	if rs, ok := t.rulesetCache.load(name); ok {
		return rs
	}
	rs := t.newRuleset(limits, false)
	if t.rulesetCache.forWriting().Size() < maxCached {
		rs, _ = t.rulesetCache.forWriting().LoadOrStore(name, rs) // another call may have been first
	}
	return rs
}

func cacheKey(limits []Limit) string {
	if len(limits) == 1 {
		return limits[0].String() // that of Unlimited allocates nothing
	}
	var b strings.Builder
	for _, limit := range limits {
		b.WriteString(limit.String())
		b.WriteByte(',')
	}
	return b.String()
}
