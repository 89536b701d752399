package sash

import (
	"cmp"
	"encoding/binary"
	"slices"

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

// appendDebt appends the state of a debtForm.
func appendDebt(b []byte, d window.Debt) []byte {
	b = binary.AppendUvarint(b, d.Lack.Hi)
	b = binary.AppendUvarint(b, d.Lack.Lo)
	if !d.Empty() {
		b = binary.AppendVarint(b, d.At)
	}
	return b
}

// debt reads the state of a debtForm.
func (s *snapshotReader) debt() (d window.Debt) {
	if d.Lack = (window.Amount{Hi: s.uint(), Lo: s.uint()}); !d.Empty() {
		d.At = s.int()
	}
	return d
}
