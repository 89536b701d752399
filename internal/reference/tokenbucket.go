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
	full   *big.Rat // when it is full again after what is not kept; nil if that was nothing
	events []event  // what is kept, oldest first
}

// An event is a charge, or a change of the limit.
type event struct {
	at          *big.Rat
	units       *big.Rat // charged
	reservation int      // the number of the reservation that may give units back, or 0
	from, to    Limit    // the limits before and after it, which are the same for a charge
}

// fullAt returns the instant at which the bucket is full again; nil if it has always been
// full.
func (b *tokenBucket) fullAt() *big.Rat {
	full := b.full
	for _, e := range b.events {
		full = e.apply(full)
	}
	return full
}

// apply returns the instant at which a bucket is full after e that was to be full at that
// instant.
func (e event) apply(full *big.Rat) *big.Rat {
	if e.from == e.to {
		return plus(latest(full, e.at), times(e.units, e.to.interval()))
	}
	if e.finds(full) {
		return nil // nothing is owed
	}
	owed := over(minus(full, e.at), e.from.interval())
	return plus(e.at, times(e.to.roundUp(owed), e.to.interval()))
}

// finds reports whether e finds a bucket full that is full from that instant on. Then it
// makes no difference what was before e.
func (e event) finds(full *big.Rat) bool { return full == nil || full.Cmp(e.at) <= 0 }

// interval returns the time in which one unit comes back. Count must not be 0.
func (l Limit) interval() *big.Rat { return big.NewRat(l.Window, l.Count) }

// roundUp rounds units up to a number that l can owe at a whole nanosecond. All charges
// under l are of such numbers: the multiples of gcd(Count, Window)/Window.
func (l Limit) roundUp(units *big.Rat) *big.Rat {
	step := over(rat(new(big.Int).GCD(nil, nil, big.NewInt(l.Count), big.NewInt(l.Window))), rat(big.NewInt(l.Window)))
	return times(rat(ceil(over(units, step))), step)
}

// used returns the units owed at t times Window, which is a whole number.
func (b *tokenBucket) used(t *big.Int) *big.Int {
	full := b.fullAt()
	if full == nil || full.Cmp(rat(t)) <= 0 {
		return new(big.Int)
	}
	used := times(minus(full, rat(t)), rat(big.NewInt(b.limit.Count)))
	if !used.IsInt() {
		panic("reference: the units owed times Window are not a whole number")
	}
	return used.Num()
}

// charge takes units out of the bucket at t. The reservation of that number may give them
// back, if it is not 0.
func (b *tokenBucket) charge(t *big.Int, units *big.Rat, reservation int) {
	if b.limit.Count == 0 {
		return // nothing would ever come back, and nothing is admitted
	}
	b.events = append(b.events, event{rat(t), units, reservation, b.limit, b.limit})
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

// change replaces the limit at t. The units owed then stay owed.
func (b *tokenBucket) change(t *big.Int, to Limit) {
	from := b.limit
	b.limit = to
	if to.Count == 0 {
		b.full, b.events = nil, nil // nothing is kept where nothing is admitted
		return
	}
	b.events = append(b.events, event{rat(t), new(big.Rat), 0, from, to})
	b.compact()
}

// compact forgets events where that makes no difference to any answer, now or after
// charges are given back.
func (b *tokenBucket) compact() {
	// What came before an event that found the bucket full makes no difference. Had units
	// of it been given back, the bucket would have been full even earlier.
	full, first := b.full, -1
	for i, e := range b.events {
		if e.finds(full) {
			first = i
		}
		full = e.apply(full)
	}
	if first >= 0 {
		b.full, b.events = nil, b.events[first:]
	}
	// What came before all that can be given back is known.
	for len(b.events) > 0 && b.events[0].reservation == 0 {
		b.full, b.events = b.events[0].apply(b.full), b.events[1:]
	}
	// Two charges of which nothing can be given back act as one. Of n units at s and m at
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

// isFinal reports whether e is a charge of which nothing can be given back.
func (e event) isFinal() bool { return e.reservation == 0 && e.from == e.to }

func (b *tokenBucket) clone() *tokenBucket {
	c := *b
	c.events = slices.Clone(b.events)
	return &c
}

// equal reports whether b and o are in the same state.
func (b *tokenBucket) equal(o *tokenBucket) bool {
	return b.limit == o.limit && same(b.full, o.full) && slices.EqualFunc(b.events, o.events, func(a, b event) bool {
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
