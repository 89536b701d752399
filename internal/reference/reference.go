// Package reference says what a limit means, the plain way: every charge is
// kept in a slice, all arithmetic is math/big, and what a limiter derives in
// closed form is found here by search. It is slow on purpose, and shares no
// code with package sash, so that either can be held against the other.
package reference

import (
	"math"
	"math/big"
)

// Never is a wait that does not end, or that would pass MaxInt64 nanoseconds.
const Never int64 = math.MaxInt64

// A Limit admits Count units per Window nanoseconds.
type Limit struct {
	Log           bool // false: two counters, the previous one weighted
	Count, Window int64
	ChargeDenied  bool
}

// An Answer is the state of the key after the call, as seen at its reading.
type Answer struct {
	Allowed                           bool
	Remaining, RetryAfter, ResetAfter int64
}

// A Key is the state of one key: what it was charged, oldest first. Make one
// with [New].
type Key struct {
	limit                 Limit
	count, window, budget *big.Int // budget is Count*Window: see used
	charges               []charge
}

// A charge is what was charged in one slot, at most Count. Slots increase
// strictly along Key.charges.
type charge struct{ slot, units *big.Int }

// New returns a key never seen.
func New(l Limit) *Key {
	k := &Key{limit: l, count: big.NewInt(l.Count), window: big.NewInt(l.Window)}
	k.budget = mul(k.count, k.window)
	return k
}

// Take charges n units at the clock reading now if the limit admits them, and
// if it charges denied calls, then too.
func (k *Key) Take(now, n int64) Answer {
	allowed := n >= 0 && k.admits(k.instant(now, 0), n)
	if n > 0 && (allowed || k.limit.ChargeDenied) {
		k.charge(k.instant(now, 0), n)
	}
	a := Answer{Allowed: allowed, Remaining: k.remaining(now), ResetAfter: k.resetAfter(now)}
	if !allowed {
		a.RetryAfter = k.retryAfter(now, n)
	}
	return a
}

// Peek answers what Take would, and charges nothing.
func (k *Key) Peek(now, n int64) Answer {
	aside := *k
	aside.charges = append([]charge(nil), k.charges...)
	return aside.Take(now, n)
}

// instant returns the time d after the reading now, or the slot of the newest
// charge if that is later: time never runs backwards for a key.
func (k *Key) instant(now, d int64) *big.Int {
	t := add(big.NewInt(now), big.NewInt(d))
	if i := len(k.charges); i > 0 && t.Cmp(k.charges[i-1].slot) < 0 {
		return k.charges[i-1].slot
	}
	return t
}

// slot returns the time under which a charge made at t is kept: for the log t
// itself, for the counter the start of the aligned window around t.
func (k *Key) slot(t *big.Int) *big.Int {
	if k.limit.Log {
		return t
	}
	index := new(big.Int).Div(t, k.window) // rounds down, as Window > 0
	return mul(index, k.window)
}

// used returns how much of the limit is used at t, in units times Window, so
// that the share of a counter's previous window is a whole number.
func (k *Key) used(t *big.Int) *big.Int {
	sum := new(big.Int)
	for _, c := range k.charges {
		sum = add(sum, mul(c.units, k.weight(c.slot, t)))
	}
	if k.limit.Log && sum.Cmp(k.budget) > 0 {
		return k.budget // only the newest Count units count
	}
	return sum
}

// weight returns for how much of Window the units in slot count at t.
func (k *Key) weight(slot, t *big.Int) *big.Int {
	if k.limit.Log {
		if slot.Cmp(sub(t, k.window)) > 0 {
			return k.window
		}
		return new(big.Int)
	}
	current := k.slot(t)
	switch {
	case slot.Cmp(current) == 0:
		return k.window
	case slot.Cmp(sub(current, k.window)) == 0:
		return sub(k.window, sub(t, current))
	}
	return new(big.Int)
}

// admits reports whether n more units fit at t.
func (k *Key) admits(t *big.Int, n int64) bool { return k.fits(k.used(t), n) }

func (k *Key) fits(used *big.Int, n int64) bool {
	return add(used, mul(big.NewInt(n), k.window)).Cmp(k.budget) <= 0
}

// charge books n units at t, which is an instant of k, or as many as the slot
// still takes: a slot saturates at Count.
func (k *Key) charge(t *big.Int, n int64) {
	slot, units := k.slot(t), big.NewInt(n)
	if i := len(k.charges); i > 0 && k.charges[i-1].slot.Cmp(slot) == 0 {
		units = add(units, k.charges[i-1].units)
		k.charges = k.charges[:i-1]
	}
	if units.Cmp(k.count) > 0 {
		units = k.count
	}
	k.charges = append(k.charges, charge{slot, units})
	// No instant of k is before slot from now on, so what is two windows older
	// than that counts no more under either algorithm.
	for old := sub(slot, add(k.window, k.window)); k.charges[0].slot.Cmp(old) <= 0; {
		k.charges = k.charges[1:]
	}
}

// remaining returns the greatest n that is admitted at the reading now, or 0.
func (k *Key) remaining(now int64) int64 {
	used := k.used(k.instant(now, 0))
	low, high := int64(0), k.limit.Count
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

// retryAfter returns the least wait that admits n units, which are denied now.
func (k *Key) retryAfter(now, n int64) int64 {
	if n < 0 || n > k.limit.Count {
		return Never
	}
	return least(func(d int64) bool { return k.admits(k.instant(now, d), n) })
}

// resetAfter returns the least wait until no charge counts for anything.
func (k *Key) resetAfter(now int64) int64 {
	return least(func(d int64) bool {
		t := k.instant(now, d)
		for i := len(k.charges) - 1; i >= 0; i-- {
			if k.weight(k.charges[i].slot, t).Sign() != 0 {
				return false
			}
		}
		return true
	})
}

// least returns the least d >= 0 for which holds is true, or Never. Once true,
// holds must stay so.
func least(holds func(d int64) bool) int64 {
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

func add(a, b *big.Int) *big.Int { return new(big.Int).Add(a, b) }
func sub(a, b *big.Int) *big.Int { return new(big.Int).Sub(a, b) }
func mul(a, b *big.Int) *big.Int { return new(big.Int).Mul(a, b) }
