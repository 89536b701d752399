package sash

import (
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A rule is a Limit, compiled for deciding. It does not change, but for index.
type rule struct {
	Limit
	*timeline
	algorithm    algorithm          // this rule, by the name of its algorithm
	counter      window.Counter     // the arithmetic of a slidingCounter
	ticks        window.Parts       // the arithmetic of a slidingParts, and of a slidingLog, which has no shifts
	bucket       window.TokenBucket // the arithmetic of a tokenBucket
	chargeDenied bool               // whether denied attempts are charged
	held         bool               // whether all units of a reservation are back when it is settled, whatever was used
	layout       layout             // of the word of a slidingCounter; of a slidingParts, if converted to partsLayout
	debts        debtLayout         // of the word of a tokenBucket
	kind         kind               // of the entries: the smallest, or as several limits need it
	fast         fastPath           // if kind is not kindMulti

	// index is the window or part in which an instant was located last: a hint that spares a
	// division. It is written once a window or part, so no other field is within 64 bytes of it: the length
	// of a cache line.
	//
	// Invariant: if kind is not kindMulti, the layout of a slidingCounter or slidingParts has an epoch for it.
	_     [56]byte
	index atomic.Int64
	_     [56]byte
}

// locate returns the window or part of that size in which t lies, and the time since it began. index
// remembers it, unless it is the first of all, whose beginning an int64 cannot hold, or has no epoch.
func (r *rule) locate(size, t int64) (number, elapsed int64) {
	number, elapsed = window.Divide(t, size)
	if number*size <= t && (r.kind == kindMulti || r.layout.holds(t)) {
		// Calls race here, and any of their windows will do: an old one only costs the next call a
		// division.
		r.index.Store(number)
	}
	return number, elapsed
}

// begin returns the state under r of a key of that name that was never charged.
func (r *rule) begin(name string) state {
	if a, ok := r.algorithm.(shiftedAlgorithm); ok {
		return a.begin(window.ShiftOf(name))
	}
	return state{}
}

// early returns by how much earlier the periods of the key of that name begin than its horizon tells.
func (r *rule) early(name string) int64 {
	if a, ok := r.algorithm.(shiftedAlgorithm); ok {
		return a.early(window.ShiftOf(name))
	}
	return 0
}

// satisfiable reports whether l could ever admit n units.
func (l *Limit) satisfiable(n int64) bool { return 0 <= n && n <= l.most() }

// cost returns the units that q is charged under l, if res is its result. A denied attempt fills up
// the units charged in its window or tick to Count.
func (l *Limit) cost(q query, res result, charged int64) int64 {
	switch {
	case res == admitted:
		return q.n
	case q.chargeDenied:
		return min(max(q.n, 0), max(l.Count-charged, 0))
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
	word    wordAlgorithm                         // of the only rule, if kind is kindWord
	packed  packedAlgorithm                       // of the only rule, if kind is kindWord or kindParts
	rings   bool                                  // whether a state under any of the rules is a ring
	settles bool                                  // whether any of the rules is to be told that a reservation was settled: a token bucket, or units are held
	spends  bool                                  // whether units spent past a reservation are charged under any of the rules
	held    bool                                  // whether units are held under any of the rules
	fresh   *entry                                // is never charged: it answers for keys without an entry
	shifted *[window.Shifts]atomic.Pointer[entry] // in place of fresh for each shift; nil: no rule is a shiftedAlgorithm

	// neverCharges is whether no call is ever charged under the ruleset, because it is
	// unlimited or admits nothing. So a key under it gets no entry. It may have one that was
	// charged under former limits, unless it is unlimited.
	neverCharges bool

	fault error // what was wrong with the limits in whose place this ruleset denies; nil: nothing
}

// unlimited reports whether rs admits everything.
func (rs *ruleset) unlimited() bool { return rs.rules[0].Limit == Unlimited() }

// admitsNothing reports whether a rule has a Count of 0, so that no call is charged, and no other rule
// charges denied attempts.
func (rs *ruleset) admitsNothing() bool {
	none, denied := false, false
	for i := range rs.rules {
		r := &rs.rules[i]
		none = none || r.Count == 0
		denied = denied || r.Count > 0 && r.chargeDenied
	}
	return none && !denied
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
		age = max(age, rs.rules[i].algorithm.horizon().looksBack)
	}
	return age
}

// weighted reports whether units come back bit by bit under any of the rules.
func (rs *ruleset) weighted() bool {
	for i := range rs.rules {
		if rs.rules[i].algorithm.horizon().weighted {
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

// join joins to left what the charge of a key leaves under r. In a tie, the key that was named
// first decides, and the limit that was given first.
func (left *remainder) join(r *rule, o outcome) {
	if left.rule == nil || o.remaining < left.remaining || o.remaining == left.remaining && left.key < left.order {
		left.rule, left.order, left.remaining = r, left.key, o.remaining
	}
	left.reset = max(left.reset, o.resetAfter)
}

// decision makes d the decision on the charge that leaves left.
func (left *remainder) decision(d *Decision) {
	*d = Decision{Allowed: true, Limit: left.Limit, Remaining: left.remaining, ResetAfter: left.reset}
}
