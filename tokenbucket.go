package sash

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// decideBucket decides q for a token bucket in one word. A charge is one compare-and-swap, and
// a denial writes nothing. It is lock-free, except that it waits for calls that take several
// keys at once. If it charges, e must hold a charge at that instant: see ruleset.holds.
func (r *rule) decideBucket(e *entry, q query, d *Decision) (allowed, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("decideBucket", round)
		word := e.Word.Load()
		if word&locked != 0 {
			word, _ = e.loadUnlocked()
		}
		if word&dead != 0 {
			return false, false
		}
		// The word is the whole state. All that follows is computed from it alone.
		before := r.debts.unpack(r.bucket, word)
		allowed := r.admitsDebt(before, q)
		after := r.applyDebt(before, q, allowed, d)
		if q.charge && after != before && !e.Word.CompareAndSwap(word, r.debts.packCharged(r.bucket, after)) {
			continue // another call has changed the word, so decide again by its new value
		}
		return allowed, true
	}
}

// admitsDebt reports whether r admits q to a bucket of debt d.
func (r *rule) admitsDebt(d window.Debt, q query) bool {
	return r.bucket.Admits(r.bucket.Lack(d, q.at), q.n)
}

// applyDebt returns d with q charged to it, given whether all limits admit q. It makes made,
// unless that is nil, the decision on q. A bucket that was never charged is charged at the
// floor or later.
func (r *rule) applyDebt(d window.Debt, q query, admitted bool, made *Decision) window.Debt {
	at := q.at
	if d.Empty() {
		at = r.clampToFloor(at)
	}
	d = r.bucket.Charge(d, at, r.debtCost(q, admitted, r.bucket.Lack(d, q.at)))
	if made != nil {
		r.debtDecision(made, r.bucket.Lack(d, q.at), q, admitted)
	}
	return d
}

// debtCost returns what q is charged by a bucket with that lack, given whether all limits admit
// it. A denied attempt empties the bucket at most.
func (r *rule) debtCost(q query, admitted bool, lack window.Amount) window.Amount {
	cost := r.bucket.Cost(max(q.n, 0))
	switch {
	case admitted:
		return cost
	case q.chargeDenied:
		if left := r.bucket.Cost(r.bucket.Burst).Minus(lack); left.Less(cost) {
			return left
		}
		return cost
	}
	return window.Amount{}
}

// debtDecision makes d the decision on q by a bucket with that lack, which has q charged to it,
// given whether all limits admit it.
func (r *rule) debtDecision(d *Decision, lack window.Amount, q query, admitted bool) {
	d.Allowed, d.Limit = admitted, r.Limit
	d.Remaining, d.RetryAfter, d.ResetAfter = r.bucket.Remaining(lack), 0, r.bucket.ResetAfter(lack)
	if !admitted { // it stays 0 if another limit denies q
		d.RetryAfter = r.bucket.RetryAfter(lack, q.n)
	}
	if q.next != nil {
		*q.next = *d
		q.next.Allowed, q.next.RetryAfter = false, r.bucket.RetryAfter(lack, d.Remaining+1)
	}
}

// debtOf returns the debt after the charges of the past.
func (r *rule) debtOf(past []charge) (d window.Debt) {
	for _, c := range past {
		if c.units > 0 {
			d = r.bucket.Charge(d, c.at, r.bucket.Cost(c.units))
		}
	}
	return d
}

// A lineage tells states that follow from one another by charges from all others, and knows
// what a token bucket can give back. A state gets one with its first reservation.
//
// If a charge had been less by some amount, the bucket would lack less by that amount at each
// later charge, but no bucket lacks less than nothing. So no more can be given back than the
// least that the bucket lacked when a later charge came. lows holds that least for each open
// reservation: the first low after the charge of the reservation.
//
// Invariant: charge numbers and lacks of lows increase, and each low is the first one after the
// charges of its open reservations, of which there is at least one. So there are at most as
// many lows as open reservations.
type lineage struct {
	root    *lineage // the first of the lineage: itself, or one of a state that it follows
	charges int64    // their number since the first reservation
	lows    []low
	open    int // reservations after whose charge none came
}

// A low is the least that a bucket has lacked when a charge came, from the charge of that
// number on.
type low struct {
	charge int64
	lack   window.Amount
	open   int // reservations of charges from the low before, or from the first, until this one
}

// newLineage returns the first lineage of a state.
func newLineage() *lineage {
	g := new(lineage)
	g.root = g
	return g
}

// next returns the lineage of a state that replaces the state of g, and knows as well where
// everything was charged; nil for nil. The new state is a bucket of b, or has no lows.
//
// At another rate, what the bucket lacks is rounded up to whole steps: by roundedUp. Had it lacked
// less by a low, it would have been rounded to a step, too. So the low, in whole steps, is what can be
// given back from now on.
func (g *lineage) next(b window.TokenBucket, roundedUp window.Amount) *lineage {
	if g == nil {
		return nil
	}
	n := &lineage{g.root, g.charges, make([]low, 0, len(g.lows)+1), g.open}
	for _, l := range g.lows {
		l.lack = b.WholeSteps(l.lack.Plus(roundedUp))
		l.open += n.dropFrom(len(n.lows), l.lack)
		n.lows = append(n.lows, l)
	}
	return n
}

// charged numbers a charge.
func (g *lineage) charged() {
	if g != nil {
		g.charges++ // also of a state that it does not change: states of one root count alike
	}
}

// reserved makes the last charge of a bucket an open reservation. It makes room for one more
// low, so that a charge without a reservation does not allocate.
func (g *lineage) reserved() {
	g.open++
	g.lows = slices.Grow(g.lows, 1)
}

// note notes what a bucket lacked when the last charge came. If that was of a denied attempt,
// nothing can be given back of what was charged before: had that been less, the attempt might
// have been admitted.
func (g *lineage) note(lack window.Amount, admitted bool) {
	if g == nil {
		return
	}
	if !admitted {
		lack = window.Amount{}
	}
	open := g.open + g.dropFrom(len(g.lows), lack)
	if open == 0 {
		return // no reservation would look here
	}
	g.lows = append(g.lows, low{g.charges, lack, open})
	g.open = 0
}

// dropFrom removes those of the first n lows whose lack is not less than lack: they are no lows
// any more once there is a later one with that lack. It returns their open reservations.
func (g *lineage) dropFrom(n int, lack window.Amount) (open int) {
	from := n
	for from > 0 && !g.lows[from-1].lack.Less(lack) {
		from--
		open += g.lows[from].open
	}
	g.lows = slices.Delete(g.lows, from, n)
	return open
}

// settle ends the open reservation of the charge of that number. It returns how much of cost
// the bucket gets back, and lowers the lows of later charges by that.
func (g *lineage) settle(number int64, cost window.Amount) window.Amount {
	later, _ := slices.BinarySearchFunc(g.lows, number+1, func(l low, charge int64) int { return cmp.Compare(l.charge, charge) })
	if later == len(g.lows) {
		g.open--
		return cost
	}
	if least := g.lows[later].lack; least.Less(cost) {
		cost = least
	}
	for i := range g.lows[later:] { // at each of these charges, the bucket would have lacked less
		g.lows[later+i].lack = g.lows[later+i].lack.Minus(cost)
	}
	kept := len(g.lows) - later
	open := g.dropFrom(later, g.lows[later].lack) - 1
	later = len(g.lows) - kept
	if g.lows[later].open += open; g.lows[later].open == 0 {
		g.lows = slices.Delete(g.lows, later, later+1)
	}
	g.shrink()
	return cost
}

// shrink gives back the memory of lows if there have been far more.
func (g *lineage) shrink() {
	const least = 64
	if n := len(g.lows); cap(g.lows) > max(least, 4*n) {
		g.lows = append(make([]low, 0, 2*n+1), g.lows...)
	}
}

// A debtLayout says how a window.Debt is kept in one word: as the instant at which the bucket
// is full, in steps since base. Only its methods scale that word.
//
// Bits (high to low): dead 1 | multi 1, never set here | locked 1 | steps 61.
//
// Count units in Window nanoseconds are, in lowest terms, rate units in cost nanoseconds. A
// step is 1/rate of a nanosecond. So a nanosecond is rate steps, a unit is cost steps, and no
// charge is ever rounded. The word 0 is that of a key never charged: a charge ends after base.
//
// A word changes only to a greater one; to itself locked, and from there to a greater one or
// back; and to dead. So a word that is not locked comes back only if nothing has happened in
// between, and a compare-and-swap from it proves that.
//
// The steps last for span nanoseconds after base: a year at least; if rate is 1, 73 years less
// the time in which a bucket fills. A key that is charged outside of that gets a multi-limit
// entry first, which holds any Debt. See ruleset.holds.
type debtLayout struct {
	base, span       int64
	rate, cost, full uint64 // the steps of a nanosecond, of a unit, and of Burst units
}

const (
	stepBits = 61
	maxSteps = 1<<stepBits - 1
	minSpan  = 365 * int64(day)
)

// debtLayoutOf returns the layout of b for a limiter whose time begins at origin, and whether
// the debts of b fit into one word.
func debtLayoutOf(b window.TokenBucket, origin int64) (l debtLayout, fits bool) {
	step := b.Step()
	l.rate, l.cost = uint64(b.Count/step), uint64(b.Window/step)
	hi, full := bits.Mul64(uint64(b.Burst), l.cost)
	if hi > 0 || full > maxSteps || l.rate == 0 {
		return debtLayout{}, false
	}
	l.full, l.span = full, int64((maxSteps-full)/l.rate)
	l.base = window.Plus(origin, -l.span/8) // a few readings may be from before the origin
	return l, l.span >= minSpan
}

// steps returns the steps from base to t, and whether a charge at t fits into a word.
func (l *debtLayout) steps(t int64) (steps uint64, ok bool) {
	since := uint64(t) - uint64(l.base)
	return since * l.rate, t > l.base && since <= uint64(l.span)
}

// unpack returns the debt of word.
func (l *debtLayout) unpack(b window.TokenBucket, word uint64) window.Debt {
	if word == 0 {
		return window.Debt{}
	}
	// As late as an instant can be, but a nanosecond before it is full, at least: a Debt
	// without a Lack is that of a bucket never charged.
	since := min(word/l.rate-1, math.MaxInt64-uint64(l.base))
	return window.Debt{At: int64(uint64(l.base) + since), Lack: l.amount(b, word-since*l.rate)}
}

// pack returns the word of d, and whether d fits into one. It does after a charge at an instant
// of which steps says so.
func (l *debtLayout) pack(b window.TokenBucket, d window.Debt) (word uint64, ok bool) {
	if d.Empty() {
		return 0, true
	}
	since := uint64(d.At) - uint64(l.base)
	lack := d.Lack.MulDiv(1, uint64(b.Step())) // a whole number of steps
	if d.At < l.base || since > maxSteps/l.rate || lack.Hi > 0 || lack.Lo > maxSteps-since*l.rate {
		return 0, false
	}
	word = since*l.rate + lack.Lo
	return word, word >= l.rate // else it is full before base, where unpack has no word for it
}

// packCharged returns the word of d, the debt after a charge of which ruleset.holds has said
// that it fits. If the floor has risen past the span since then, the charge is dated at the end
// of the span.
func (l *debtLayout) packCharged(b window.TokenBucket, d window.Debt) (word uint64) {
	word, ok := l.pack(b, d)
	if !ok {
		d.At = window.Plus(l.base, l.span)
		word, _ = l.pack(b, d)
	}
	return word
}

// holds reports whether a key with the entry e, which is in a table of rs, can be charged there
// at an instant. If not, e must be replaced by a multi-limit entry first.
func (rs *ruleset) holds(e *entry, at int64) bool {
	if rs.kind != kindBucket || e.isMulti() {
		return true
	}
	if e.Word.Load()&^locked == 0 { // never charged: it starts at the floor
		at = rs.clampToFloor(at)
	}
	_, ok := rs.rules[0].debts.steps(at)
	return ok
}

// charge returns the word of a bucket after a charge of n units at t, 0 < n <= Burst, and the
// steps that it lacks then. If ok is false, the caller must take the slow path: word is locked
// or dead, of a multi-limit entry, or of a bucket that must start at the floor; or the charge
// does not fit.
func (l *debtLayout) charge(word uint64, t, n int64) (next, lack uint64, ok bool) {
	now, ok := l.steps(t)
	next = max(word, now) + uint64(n)*l.cost
	return next, next - now, ok && word-1 < maxSteps
}

// takeFastBucket is the fast path of decideBucket for n units, n > 0, as tryFast is that of
// decideCounter. It returns the steps that the bucket lacks with the units. If they are more
// than full, the units are denied. Nothing is divided for that.
func (r *rule) takeFastBucket(e *entry, at, n int64) (lack uint64, ok bool) {
	word := e.Word.Load()
	charged, lack, ok := r.debts.charge(word, at, n)
	switch {
	case !ok || n > r.Burst:
		return 0, false
	case lack > r.debts.full:
		return lack, !r.chargeDenied // a denial that costs nothing writes nothing
	}
	// If another call has changed the word, this fails, and nothing has happened.
	return lack, e.Word.CompareAndSwap(word, charged)
}

// tryFastBucket is takeFastBucket that makes d, unless it is nil, the decision, and next,
// unless it is nil, that on one unit more than d leaves.
func (r *rule) tryFastBucket(e *entry, at, n int64, d, next *Decision) (allowed, ok bool) {
	lack, ok := r.takeFastBucket(e, at, n)
	if d != nil && ok {
		*d = r.fastBucketDecision(lack, n)
		if next != nil {
			*next = *d
			next.Allowed = false
			left := r.debts.lackOf(lack, n)
			next.RetryAfter = r.bucket.RetryAfter(r.debts.amount(r.bucket, left), d.Remaining+1)
		}
	}
	return lack <= r.debts.full, ok
}

// fastBucketDecision returns the decision on n units. lack is the steps that the bucket lacks
// with them.
func (r *rule) fastBucketDecision(lack uint64, n int64) (d Decision) {
	l := &r.debts
	left := l.lackOf(lack, n)
	d = Decision{Allowed: lack <= l.full, Limit: r.Limit, Remaining: l.remaining(left), ResetAfter: l.time(left)}
	if !d.Allowed {
		d.RetryAfter = l.time(lack - l.full)
	}
	return d
}

// lackOf returns the steps that a bucket lacks after a call for n units: lack with them, and
// less without them if they are denied.
func (l *debtLayout) lackOf(lack uint64, n int64) uint64 {
	if lack > l.full {
		lack -= uint64(n) * l.cost
	}
	return lack
}

// remaining returns how many units a bucket holds that lacks lack steps.
func (l *debtLayout) remaining(lack uint64) int64 {
	if lack >= l.full {
		return 0
	}
	return int64((l.full - lack) / l.cost)
}

// time returns how long steps take, rounded up.
func (l *debtLayout) time(steps uint64) time.Duration {
	if l.rate > 1 { // which spares most limits a division
		steps = (steps + l.rate - 1) / l.rate
	}
	return time.Duration(steps)
}

// amount returns steps as an Amount.
func (l *debtLayout) amount(b window.TokenBucket, steps uint64) window.Amount {
	return window.Amount{Lo: steps}.MulDiv(uint64(b.Step()), 1)
}

// bucketAdmitsFast reports whether r admits n units, n > 0, by word. If ok is false, the caller
// must take the slow path.
func (r *rule) bucketAdmitsFast(word uint64, at, n int64) (admits, ok bool) {
	_, lack, ok := r.debts.charge(word, at, n)
	return lack <= r.debts.full, ok && n <= r.Burst && !r.chargeDenied
}

// applyBucketFast returns word after a charge of n units that bucketAdmitsFast has admitted at
// that instant. It joins to left, unless that is nil, what they leave.
func (r *rule) applyBucketFast(word uint64, at, n int64, left *remainder) (next uint64) {
	next, lack, _ := r.debts.charge(word, at, n)
	if left != nil {
		left.join(r, r.debts.remaining(lack), r.debts.time(lack))
	}
	return next
}
