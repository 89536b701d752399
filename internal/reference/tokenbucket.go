package reference

import (
	"math/big"
	"slices"
)

// A tokenBucket is the state of a key under a limit with a Burst. The bucket holds at most
// Burst tokens, one for each unit. A charge takes its units out of the bucket, or owes
// them, and they come back at the rate of Count per Window, in fractions as well.
//
// What matters of all charges is the instant at which the bucket is full again. That is
// an exact rational. A charge of n units at t moves it to max(full, t) + n*Window/Count.
//
// A reservation may give back units of an earlier charge. Then the bucket is full when it
// would be if that charge had been of fewer units, and all others as they were. So the
// bucket keeps each charge that a reservation may still change, and those after it.
type tokenBucket struct {
	limit  Limit
	before debt    // after what is not kept
	events []event // what is kept, oldest first
}

// A debt is what a bucket owes. The zero debt is the debt of a bucket that has always been full.
type debt struct {
	full  *big.Rat // when the bucket is full again, if it was ever charged
	stuck *big.Rat // in place of full if Count is 0: the units owed, which do not come back
}

// An event is a charge, or a change of the limit.
type event struct {
	at          *big.Rat
	units       *big.Rat // charged
	reservation int      // the number of the reservation that may give units back, or 0
	from, to    rate     // those before and after it, which are the same for a charge
}

// A rate is count units in window nanoseconds.
type rate struct{ count, window int64 }

func (b *tokenBucket) rate() rate { return rate{b.limit.Count, b.limit.Window} }

// debt returns the debt after all events.
func (b *tokenBucket) debt() debt {
	d := b.before
	for _, e := range b.events {
		d = e.apply(d)
	}
	return d
}

// owed returns the units owed at t by a bucket of debt d to which they come back at rate r.
func (d debt) owed(t *big.Rat, r rate) *big.Rat {
	switch {
	case d.stuck != nil:
		return d.stuck
	case d.full == nil || d.full.Cmp(t) <= 0:
		return new(big.Rat)
	}
	return over(minus(d.full, t), r.interval())
}

// apply returns the debt after e of a bucket that had debt d before.
func (e event) apply(d debt) debt {
	owed := d.owed(e.at, e.from)
	switch {
	case e.from == e.to && e.to.count == 0:
		return debt{stuck: plus(owed, e.units)}
	case e.from == e.to:
		return debt{full: plus(latest(d.full, e.at), times(e.units, e.to.interval()))}
	case owed.Sign() == 0:
		return debt{}
	case e.to.count == 0:
		return debt{stuck: owed}
	}
	return debt{full: plus(e.at, times(e.to.roundUp(owed), e.to.interval()))}
}

// interval returns the time in which one unit comes back. The count must not be 0.
func (r rate) interval() *big.Rat { return big.NewRat(r.window, r.count) }

// roundUp rounds units up to a number that can be owed at a whole nanosecond at rate r. All
// charges at that rate are of such numbers: the multiples of gcd(count, window)/window. The
// count must not be 0.
func (r rate) roundUp(units *big.Rat) *big.Rat {
	divisor := new(big.Int).GCD(nil, nil, big.NewInt(r.count), big.NewInt(r.window))
	step := over(rat(divisor), rat(big.NewInt(r.window)))
	return times(rat(ceil(over(units, step))), step)
}

// used returns the units owed at t times Window, which is a whole number.
func (b *tokenBucket) used(t *big.Int) *big.Int {
	used := times(b.debt().owed(rat(t), b.rate()), rat(big.NewInt(b.limit.Window)))
	if !used.IsInt() {
		panic("reference: the units owed times Window are not a whole number")
	}
	return used.Num()
}

// charge takes units out of the bucket at t. The reservation of that number may give them
// back, if it is not 0.
func (b *tokenBucket) charge(t *big.Int, units *big.Rat, reservation int) {
	b.events = append(b.events, event{rat(t), units, reservation, b.rate(), b.rate()})
	b.compact()
}

// chargeDenied charges a denied call for that many units: as many as the bucket holds at
// t, even a fraction of one. If that is more than nothing, no earlier charge is given back
// any more: the denied call would have charged more.
func (b *tokenBucket) chargeDenied(t *big.Int, units *big.Rat) {
	held := minus(rat(big.NewInt(b.limit.most())), over(rat(b.used(t)), rat(big.NewInt(b.limit.Window))))
	if held.Sign() <= 0 {
		return
	}
	if units.Cmp(held) > 0 {
		units = held
	}
	b.finish()
	b.charge(t, units, 0)
}

// settle gives back units of the charge of the reservation of that number, if it still
// makes a difference. The rest of the charge is final.
func (b *tokenBucket) settle(reservation int, units *big.Rat) {
	for i := range b.events {
		if e := &b.events[i]; e.reservation == reservation {
			e.units, e.reservation = minus(e.units, units), 0
		}
	}
	b.compact()
}

// finish makes all charges final.
func (b *tokenBucket) finish() {
	for i := range b.events {
		b.events[i].reservation = 0
	}
	b.compact()
}

// change replaces the limit at t. The units owed then stay owed. If Count stays the same, so
// does all that is owed at any time, and t may be nil.
func (b *tokenBucket) change(t *big.Int, to Limit) {
	from := b.rate()
	b.limit = to
	if b.rate() != from {
		b.events = append(b.events, event{rat(t), new(big.Rat), 0, from, b.rate()})
		b.compact()
	}
}

// compact forgets events where that makes no difference to any answer, now or after
// charges are given back.
func (b *tokenBucket) compact() {
	// What came before an event that found the bucket full makes no difference. Had units
	// of it been given back, the bucket would have been full even earlier.
	d, first := b.before, -1
	for i, e := range b.events {
		if d.owed(e.at, e.from).Sign() == 0 {
			first = i
		}
		d = e.apply(d)
	}
	if first >= 0 {
		b.before, b.events = debt{}, b.events[first:]
	}
	// What came before all that can be given back is known.
	for len(b.events) > 0 && b.events[0].reservation == 0 {
		b.before, b.events = b.events[0].apply(b.before), b.events[1:]
	}
	// Two charges act as one if nothing of them can be given back. Of n units at s and m at
	// t, that is one of n+m at the later of s and t - n*Window/Count.
	var kept []event
	for _, e := range b.events {
		if i := len(kept) - 1; i >= 0 && kept[i].isFinal() && e.isFinal() {
			n := kept[i].units
			e.at, e.units = latest(kept[i].at, minus(e.at, times(n, e.to.interval()))), plus(n, e.units)
			kept = kept[:i]
		}
		kept = append(kept, e)
	}
	b.events = kept
}

// isFinal reports whether nothing of the charge e can be given back, though units
// come back to the bucket.
func (e event) isFinal() bool { return e.reservation == 0 && e.from == e.to && e.to.count > 0 }

func (b *tokenBucket) clone() *tokenBucket {
	c := *b
	c.events = slices.Clone(b.events)
	return &c
}

// equal reports whether b and o are in the same state.
func (b *tokenBucket) equal(o *tokenBucket) bool {
	return b.limit == o.limit && same(b.before.full, o.before.full) && same(b.before.stuck, o.before.stuck) && slices.EqualFunc(b.events, o.events, func(a, b event) bool {
		return same(a.at, b.at) && same(a.units, b.units) && a.reservation == b.reservation && a.from == b.from && a.to == b.to
	})
}

// same reports whether a and b are the same, or both nil.
func same(a, b *big.Rat) bool { return a == b || a != nil && b != nil && a.Cmp(b) == 0 }

// latest returns the later of a, which may be nil, and b.
func latest(a, b *big.Rat) *big.Rat {
	if a == nil || a.Cmp(b) < 0 {
		return b
	}
	return a
}

// ceil returns the least whole number that is not less than a.
func ceil(a *big.Rat) *big.Int {
	down, rest := new(big.Int).DivMod(a.Num(), a.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		return add(down, big.NewInt(1))
	}
	return down
}

func rat(a *big.Int) *big.Rat      { return new(big.Rat).SetInt(a) }
func plus(a, b *big.Rat) *big.Rat  { return new(big.Rat).Add(a, b) }
func minus(a, b *big.Rat) *big.Rat { return new(big.Rat).Sub(a, b) }
func times(a, b *big.Rat) *big.Rat { return new(big.Rat).Mul(a, b) }
func over(a, b *big.Rat) *big.Rat  { return new(big.Rat).Quo(a, b) }
