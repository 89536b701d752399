// Package reference defines what a limit means in the plainest way:
//
//   - it keeps every charge in a slice,
//   - it computes with math/big,
//   - it searches for what a limiter derives in closed form.
//
// It is slow on purpose. It shares no code with package sash, so tests compare the
// answers of the two.
package reference

import (
	"math"
	"math/big"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Never is a wait that does not end, or one of more than MaxInt64 nanoseconds.
const Never int64 = math.MaxInt64

// A Limit admits Count units per Window nanoseconds. With neither Log nor Parts nor
// Precision nor Burst it counts in aligned windows, and weights the previous one.
type Limit struct {
	Unlimited     bool  // everything is admitted, and nothing kept; the other fields mean nothing
	Log           bool  // every unit counts for exactly Window
	Held          bool  // with Log: a unit counts until its reservation is settled, and no longer than Window
	Parts         bool  // it counts in parts of Window, which begin at instants of the key's own
	Micros        bool  // these parts, and the steps between those instants, are whole microseconds
	Precision     int64 // if > 0, and without Log: the width of a bucket, at most Window
	Burst         int64 // if > 0, and without both: the size of a token bucket
	Count, Window int64
	ChargeDenied  bool
}

// A Key is the state of one key under one limit. [New] makes one.
type Key struct {
	limit                 Limit
	count, window, budget *big.Int     // budget is the most units at once, times Window: see used
	width                 *big.Int     // of a slot; a log's slots are instants
	ahead                 *big.Int     // how long before a multiple of width a slot begins
	weighted              bool         // whether the slot that is a Window old counts in part
	charges               []charge     // oldest first
	tokens                *tokenBucket // in place of charges, if the limit has a Burst
	index                 int          // of the limit among the limits of the key

	// lineage numbers how often the key has begun anew in its Table. A reservation
	// made under another lineage has nothing to give back.
	lineage int
}

// A charge is the units charged in one slot.
//
// Invariant: slots increase strictly along Key.charges. The newest slot is the
// earliest time that the key can still be at, even after all of its units were given
// back.
type charge struct{ slot, units *big.Int }

// New returns the state of a key never seen, whose name is empty.
func New(l Limit) *Key { return Named(l, "") }

// Named returns the state of a key of that name never seen.
func Named(l Limit, name string) *Key {
	k := &Key{limit: l, count: big.NewInt(l.Count), window: big.NewInt(l.Window), ahead: new(big.Int)}
	k.budget = mul(big.NewInt(l.most()), k.window)
	k.width, k.weighted = k.window, !l.Log && !l.Parts && l.Precision == 0
	if l.Parts {
		// The most parts up to 16 that divide Window. A key of hash h begins h mod 64 steps early, each of
		// which is a 64th of a part, rounded down.
		parts, unit := int64(16), big.NewInt(1)
		if l.Micros {
			unit = big.NewInt(1000)
		}
		units := new(big.Int).Div(k.window, unit).Int64()
		for units%parts != 0 {
			parts--
		}
		k.width = mul(big.NewInt(units/parts), unit)
		steps := new(big.Int).Mod(new(big.Int).SetUint64(xxhash.Sum64String(name)), big.NewInt(64))
		k.ahead = mul(steps, mul(big.NewInt(units/parts/64), unit))
	}
	if l.Precision > 0 {
		k.width = big.NewInt(l.Precision)
	}
	if l.Burst > 0 {
		k.tokens = &tokenBucket{limit: l}
	}
	return k
}

// most returns the greatest number of units that the limit ever admits at once.
func (l Limit) most() int64 {
	if l.Burst > 0 && l.Count > 0 {
		return l.Burst
	}
	return l.Count
}

// Take charges n units at the clock reading now if the limit admits them. If the
// limit charges denied calls, it charges those as well.
func (k *Key) Take(now, n int64) Answer { return take([]member{{Key: k}}, now, n) }

// Peek returns the answer of Take, and charges nothing.
func (k *Key) Peek(now, n int64) Answer { return k.clone().Take(now, n) }

func (k *Key) clone() *Key {
	c := *k
	c.charges = append([]charge(nil), k.charges...)
	if k.tokens != nil {
		c.tokens = k.tokens.clone()
	}
	return &c
}

// equal reports whether k and o are in the same state under the same limit.
func (k *Key) equal(o *Key) bool {
	return k.limit == o.limit && k.lineage == o.lineage && slices.EqualFunc(k.charges, o.charges, func(a, b charge) bool {
		return a.slot.Cmp(b.slot) == 0 && a.units.Cmp(b.units) == 0
	}) && (k.tokens == nil || k.tokens.equal(o.tokens))
}

// instant returns the later of two times: d after the reading now, and the slot of
// the newest charge. The time of a key never runs backwards. A token bucket has no
// slots. It decides a late reading at that reading, where it owes more.
func (k *Key) instant(now, d int64) *big.Int {
	t := add(big.NewInt(now), big.NewInt(d))
	if i := len(k.charges); i > 0 && t.Cmp(k.charges[i-1].slot) < 0 {
		return k.charges[i-1].slot
	}
	return t
}

// slot returns the time under which a charge made at t is kept. That is t for a log
// and a token bucket, and else the start of the aligned bucket or window that contains t.
func (k *Key) slot(t *big.Int) *big.Int {
	if k.limit.Log || k.tokens != nil {
		return t
	}
	index := new(big.Int).Div(add(t, k.ahead), k.width) // rounds down, as width > 0
	return sub(mul(index, k.width), k.ahead)
}

// used returns how much of the limit is used at t, in units times Window. In that
// measure the share of a counter's previous window is a whole number, and so is what a
// token bucket owes.
func (k *Key) used(t *big.Int) *big.Int {
	if k.tokens != nil {
		return k.tokens.used(t)
	}
	sum := new(big.Int)
	for _, c := range k.charges {
		sum = add(sum, mul(c.units, k.weight(c.slot, t)))
	}
	if k.limit.ChargeDenied && !k.weighted && sum.Cmp(k.budget) > 0 {
		return k.budget // only the newest Count units count
	}
	return sum
}

// weight returns the part of Window for which the units in slot count at t. Slots
// less than a Window older than the current one count in full. There are
// Window/Precision such buckets, rounded up.
func (k *Key) weight(slot, t *big.Int) *big.Int {
	current := k.slot(t)
	switch order := slot.Cmp(sub(current, k.window)); {
	case order > 0:
		return k.window
	case order == 0 && k.weighted:
		return sub(k.window, sub(t, current))
	}
	return new(big.Int)
}

// admits reports whether the limit admits n more units at t.
func (k *Key) admits(t *big.Int, n int64) bool {
	return n >= 0 && (k.limit.Unlimited || k.fits(k.used(t), n))
}

func (k *Key) fits(used *big.Int, n int64) bool {
	return add(used, mul(big.NewInt(n), k.window)).Cmp(k.budget) <= 0
}

// chargeCall charges the cost of a call for n units, which was allowed or denied. An
// allowed call may have made a reservation, of that number, which is otherwise 0.
func (k *Key) chargeCall(now, n int64, allowed bool, reservation int) {
	t, units := k.instant(now, 0), big.NewInt(n)
	switch {
	case n <= 0, k.limit.Unlimited:
	case k.tokens != nil && allowed:
		k.tokens.charge(t, rat(units), reservation)
	case k.tokens != nil && k.limit.ChargeDenied:
		k.tokens.chargeDenied(t, rat(units))
	case k.tokens != nil:
	case allowed:
		k.charge(t, units)
	case k.limit.ChargeDenied:
		if units = least(units, k.room(k.slot(t))); units.Sign() > 0 {
			k.charge(t, units)
		}
	}
}

// room returns how many units denied calls can still be charged in slot. They fill
// the slot up to Count, and add nothing where it already holds more.
func (k *Key) room(slot *big.Int) *big.Int {
	room := k.count
	for _, c := range k.charges {
		if c.slot.Cmp(slot) == 0 {
			room = sub(room, least(room, c.units))
		}
	}
	return room
}

// charge adds units to the slot of t, which is an instant of k.
func (k *Key) charge(t, units *big.Int) {
	if k.tokens != nil {
		k.tokens.charge(t, rat(units), 0)
		return
	}
	slot := k.slot(t)
	if i := len(k.charges); i > 0 && k.charges[i-1].slot.Cmp(slot) == 0 {
		units = add(units, k.charges[i-1].units)
		k.charges = k.charges[:i-1]
	}
	k.charges = append(k.charges, charge{slot, units})
	// No later instant of k is before slot. So charges two windows older than slot
	// count no more under any limit, because Precision <= Window.
	for old := sub(slot, add(k.window, k.window)); k.charges[0].slot.Cmp(old) <= 0; {
		k.charges = k.charges[1:]
	}
	if k.limit.ChargeDenied && !k.weighted {
		k.keepNewest()
	}
}

// keepNewest forgets the oldest charges, as long as the others have Count units or more. Where
// denied calls are charged, no others count. They do not count again if newer units are given
// back.
func (k *Key) keepNewest() {
	units := new(big.Int)
	for i := len(k.charges) - 1; i >= 0; i-- {
		if units = add(units, k.charges[i].units); units.Cmp(k.count) >= 0 {
			k.charges = k.charges[i:]
			return
		}
	}
}

// giveBack takes units out of slot, or as many as the slot still holds. It does
// nothing if the slot no longer counts at the reading now.
func (k *Key) giveBack(now int64, slot, units *big.Int) {
	if k.weight(slot, k.instant(now, 0)).Sign() == 0 {
		return
	}
	for i, c := range k.charges {
		if c.slot.Cmp(slot) == 0 {
			k.charges[i].units = sub(c.units, least(c.units, units))
		}
	}
	// A key that uses nothing at the time of its newest charge equals a key never
	// seen. It forgets that time as well.
	if i := len(k.charges); i > 0 && k.used(k.charges[i-1].slot).Sign() == 0 {
		k.charges = nil
	}
}

// remaining returns the greatest n that the limit admits at the reading now, or 0.
func (k *Key) remaining(now int64) int64 {
	if k.limit.Unlimited {
		return math.MaxInt64
	}
	used := k.used(k.instant(now, 0))
	low, high := int64(0), k.limit.most()
	for low < high {
		middle := high - (high-low)/2
		if k.fits(used, middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// resetAfter returns the least wait until no charge counts for anything.
func (k *Key) resetAfter(now int64) int64 {
	return soonest(func(d int64) bool { return k.idle(k.instant(now, d)) })
}

// idle reports whether no charge counts for anything at t.
func (k *Key) idle(t *big.Int) bool {
	if k.tokens != nil {
		return k.used(t).Sign() == 0
	}
	for i := len(k.charges) - 1; i >= 0; i-- {
		c := k.charges[i]
		if c.units.Sign() != 0 && k.weight(c.slot, t).Sign() != 0 {
			return false
		}
	}
	return true
}

// soonest returns the least d >= 0 for which holds is true, or Never. If holds is true
// for some d, it must be true for every greater one.
func soonest(holds func(d int64) bool) int64 {
	low, high := int64(0), Never
	for low < high {
		middle := low + (high-low)/2
		if holds(middle) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
}

func least(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
func mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
