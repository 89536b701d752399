package sash

import (
	"cmp"
	"slices"

	"github.com/seed-30da4c49/sash/internal/window"
)

// A lineage tells states that follow from one another by charges from all others, and knows
// what a token bucket can give back. A state gets one with its first reservation.
//
// If a charge had been less by some amount, the bucket would lack less by that amount at each
// later charge, but no bucket lacks less than nothing. So no more can be given back than the
// least that the bucket lacked when a later charge came. lows holds that least for each open
// reservation: the first low after the charge of the reservation.
//
// Invariant: charge numbers and lacks of lows increase, and each low is the first one after the
// charges of its open reservations. There is at least one, so there are at most as many lows as open
// reservations.
type lineage struct {
	root    *lineage // the first of the lineage: itself, or one of a state that it follows
	charges int64    // their number since the first reservation
	lows    []low
	open    int // open reservations made since the last charge
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
// everything was charged; nil for nil. The new state is a bucket of b, or has no lows. At another
// rate, what the bucket lacks is rounded up to whole steps: by roundedUp.
func (g *lineage) next(b window.TokenBucket, roundedUp window.Amount) *lineage {
	if g == nil {
		return nil
	}
	n := &lineage{g.root, g.charges, make([]low, 0, len(g.lows)+1), g.open}
	for _, l := range g.lows {
		// Had the bucket lacked less by a low, it would have been rounded to a step, too. So the low, in
		// whole steps, is what can be given back from now on.
		l.lack = b.WholeSteps(l.lack.Plus(roundedUp))
		l.open += n.dropFrom(len(n.lows), l.lack)
		n.lows = append(n.lows, l)
	}
	return n
}

// charged numbers a charge.
func (g *lineage) charged() {
	if g != nil {
		g.charges++
	}
}

// reserved makes the last charge of a bucket an open reservation.
func (g *lineage) reserved() {
	g.open++
	g.lows = slices.Grow(g.lows, 1) // now: a charge without a reservation must not allocate
}

// note notes what a bucket lacked when the last charge came.
func (g *lineage) note(lack window.Amount) {
	if g == nil {
		return
	}
	open := g.open + g.dropFrom(len(g.lows), lack)
	if open == 0 {
		return // no reservation would look here
	}
	g.lows = append(g.lows, low{g.charges, lack, open})
	g.open = 0
}

// dropFrom removes, of the first n lows, each whose lack is at least lack: a later low with less
// replaces them. It returns their open reservations.
func (g *lineage) dropFrom(n int, lack window.Amount) (open int) {
	from := n // lacks increase: the lows to remove are the last of the n
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
	const least = 64
	if n := len(g.lows); cap(g.lows) > max(least, 4*n) { // there have been far more: give back their memory
		g.lows = append(make([]low, 0, 2*n+1), g.lows...)
	}
	return cost
}
