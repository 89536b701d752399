package window

import (
	"math"
	"math/bits"
	"time"
)

// A TokenBucket is the limit of Count units per Window on average, and at most Burst at once.
// Count and Burst must be at least 0, Window at least 1.
//
// A bucket holds Burst units when it is full. A charge takes units out, and they flow back at
// the rate of Count per Window. This is the generic cell rate algorithm (ITU-T I.371, 1993;
// virtual scheduling), in exact integers: the interval Window/Count is never divided out.
//
// So at most Burst + Count*T/Window units are admitted in any interval of length T. For the
// bucket never lacks more than Burst units, and what flows back into it in that time is
// Count*T/Window at most.
type TokenBucket struct{ Count, Window, Burst int64 }

// A Debt is what a bucket lacks of being full: Lack at the instant At, less from then on, and
// accordingly more before it. Without any Lack, it is the Debt of a bucket never charged.
//
// What it says is when the bucket will be full: Lack/Count nanoseconds after At. In the
// literature, that is the theoretical arrival time. The same instant has many Debts, all of
// which mean the same. A charge only moves it to later.
type Debt struct {
	At   int64
	Lack Amount
}

// Empty reports whether d is the Debt of a bucket that was never charged.
func (d Debt) Empty() bool { return d.Lack == Amount{} }

// Cost returns n units, n >= 0.
func (b TokenBucket) Cost(n int64) Amount { return multiply(n, b.Window) }

// Lack returns what a bucket of debt d lacks at t. A bucket that was never charged lacks
// nothing.
func (b TokenBucket) Lack(d Debt, t int64) Amount {
	switch {
	case d.Empty():
		return Amount{}
	case t < d.At:
		return d.Lack.Plus(b.flow(uint64(d.At) - uint64(t)))
	}
	return d.Lack.Minus(b.flow(uint64(t) - uint64(d.At)))
}

// flow returns what flows into a bucket in that time.
func (b TokenBucket) flow(time uint64) Amount {
	hi, lo := bits.Mul64(time, uint64(b.Count))
	return Amount{hi, lo}
}

// Admits reports whether a bucket with that lack admits n units.
func (b TokenBucket) Admits(lack Amount, n int64) bool {
	return n >= 0 && n <= b.Burst && !b.Cost(b.Burst-n).Less(lack)
}

// Remaining returns the greatest number of units that a bucket with that lack admits, at
// least 0.
func (b TokenBucket) Remaining(lack Amount) int64 {
	if !lack.Less(b.Cost(b.Burst)) {
		return 0
	}
	missing, rest := bits.Div64(lack.Hi, lack.Lo, uint64(b.Window)) // less than Burst, so it does not overflow
	if rest > 0 {
		missing++
	}
	return b.Burst - int64(missing)
}

// RetryAfter returns how long it takes until a bucket with that lack admits n units: 0 if it
// does, and Never if it never will.
func (b TokenBucket) RetryAfter(lack Amount, n int64) time.Duration {
	if n < 0 || n > b.Burst {
		return Never
	}
	return b.until(lack, b.Cost(b.Burst-n))
}

// ResetAfter returns how long it takes until a bucket with that lack is full.
func (b TokenBucket) ResetAfter(lack Amount) time.Duration { return b.until(lack, Amount{}) }

// until returns how long it takes until a bucket with that lack lacks no more than most.
func (b TokenBucket) until(lack, most Amount) time.Duration {
	return Wait(0, b.timeOf(lack.Minus(most)))
}

// timeOf returns how long it takes, rounded up, until that much has flowed into a bucket. It
// is at most MaxUint64.
func (b TokenBucket) timeOf(a Amount) uint64 {
	switch {
	case a == (Amount{}):
		return 0
	case a.Hi >= uint64(b.Count):
		return math.MaxUint64 // more than 64 bits, or for ever if Count is 0
	}
	time, rest := bits.Div64(a.Hi, a.Lo, uint64(b.Count))
	if rest > 0 && time < math.MaxUint64 {
		time++
	}
	return time
}

// TimeFor returns how long it takes, rounded down, until n units have flowed into a bucket.
func (b TokenBucket) TimeFor(n int64) time.Duration {
	time := b.timeOf(b.Cost(n))
	if b.Cost(n).Less(b.flow(time)) {
		time--
	}
	return Wait(0, time)
}

// Charge returns d after a charge of that cost at t. A cost of 0 changes nothing.
func (b TokenBucket) Charge(d Debt, t int64, cost Amount) Debt {
	if cost == (Amount{}) {
		return d
	}
	if d.Empty() || t > d.At {
		d = Debt{t, b.Lack(d, t)}
	}
	d.Lack = d.Lack.Plus(cost)
	return d
}

// GiveBack returns d with that much, which was charged to it, given back.
func (b TokenBucket) GiveBack(d Debt, back Amount) Debt {
	if !back.Less(d.Lack) {
		// It was full before At, or is full there. Without a Lack, d would be the Debt of a bucket
		// never charged. So move At back to where there is some.
		earlier := b.timeOf(back.Minus(d.Lack).Plus(Amount{0, 1}))
		if earlier > uint64(d.At)-1<<63 {
			return Debt{} // it was full at the first instant that there is
		}
		d = Debt{int64(uint64(d.At) - earlier), d.Lack.Plus(b.flow(earlier))}
	}
	d.Lack = d.Lack.Minus(back)
	return d
}

// Expired reports whether a bucket of debt d is full at now, and since which instant.
func (b TokenBucket) Expired(d Debt, now int64) (since int64, ok bool) {
	if d.Empty() {
		return math.MinInt64, true
	}
	if b.Lack(d, now) != (Amount{}) {
		return 0, false
	}
	return b.FullAt(d), true // at most now, so it fits
}

// FullAt returns the first instant, rounded up and at most MaxInt64, at which a bucket of
// debt d is full.
func (b TokenBucket) FullAt(d Debt) int64 {
	wait := b.timeOf(d.Lack)
	if wait > math.MaxInt64-uint64(d.At) {
		return math.MaxInt64
	}
	return int64(uint64(d.At) + wait)
}

// Inherit returns the debt of a bucket of b that has just replaced one of other with debt d:
// it lacks as many units at now, rounded up to whole steps. If it lacks none, it has been full
// since the same instant, rounded up. If the rates are equal, it is d.
func (b TokenBucket) Inherit(other TokenBucket, d Debt, now int64) Debt {
	if d.Empty() || b.SameRate(other) {
		return d
	}
	if since, full := other.Expired(d, now); full {
		if since == math.MinInt64 {
			return Debt{}
		}
		return Debt{since - 1, b.flow(1)}
	}
	lack := other.Lack(d, now).MulDiv(uint64(b.Window), uint64(other.Window))
	step := uint64(b.Step())
	return Debt{now, lack.MulDiv(1, step).MulDiv(step, 1)}
}

// WholeSteps returns a rounded down to whole steps.
func (b TokenBucket) WholeSteps(a Amount) Amount {
	step := uint64(b.Step())
	return a.Minus(Amount{0, step - 1}).MulDiv(1, step).MulDiv(step, 1)
}

// SameRate reports whether units flow into b as fast as into other.
func (b TokenBucket) SameRate(other TokenBucket) bool {
	return b.Count == other.Count && b.Window == other.Window
}

// Step returns the greatest amount that divides every Lack in which only charges at whole
// nanoseconds and their flow have a part: the greatest common divisor of Count and Window. With
// a Count of 0, nothing is charged, and a Lack stays as it is: it returns 1.
func (b TokenBucket) Step() int64 {
	if b.Count == 0 {
		return 1
	}
	x, y := b.Count, b.Window
	for x > 0 {
		x, y = y%x, x
	}
	return y
}

// An Amount is a number of units in units of 1/Window, in 128 bits. As Count flow in each
// nanosecond, nothing is ever rounded.
type Amount struct{ Hi, Lo uint64 }

func multiply(a, b int64) Amount {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return Amount{hi, lo}
}

// Less reports whether a is less than o.
func (a Amount) Less(o Amount) bool { return a.Hi < o.Hi || a.Hi == o.Hi && a.Lo < o.Lo }

// Plus returns a+o, or the greatest Amount if that is more.
func (a Amount) Plus(o Amount) Amount {
	lo, carry := bits.Add64(a.Lo, o.Lo, 0)
	hi, carry := bits.Add64(a.Hi, o.Hi, carry)
	if carry > 0 {
		return Amount{math.MaxUint64, math.MaxUint64}
	}
	return Amount{hi, lo}
}

// Minus returns a-o, or 0 if that is less.
func (a Amount) Minus(o Amount) Amount {
	if a.Less(o) {
		return Amount{}
	}
	lo, borrow := bits.Sub64(a.Lo, o.Lo, 0)
	hi, _ := bits.Sub64(a.Hi, o.Hi, borrow)
	return Amount{hi, lo}
}

// MulDiv returns a*m/d rounded up, or the greatest Amount if that is more. d must be more
// than 0.
func (a Amount) MulDiv(m, d uint64) Amount {
	// The product, in three words.
	high, middle := bits.Mul64(a.Hi, m)
	carryOver, low := bits.Mul64(a.Lo, m)
	middle, carry := bits.Add64(middle, carryOver, 0)
	high += carry
	if high >= d {
		return Amount{math.MaxUint64, math.MaxUint64}
	}
	hi, rest := bits.Div64(high, middle, d)
	lo, rest := bits.Div64(rest, low, d)
	quotient := Amount{hi, lo}
	if rest > 0 {
		return quotient.Plus(Amount{0, 1})
	}
	return quotient
}

// Units returns how many whole units of b are at least a, at most MaxInt64.
func (b TokenBucket) Units(a Amount) int64 {
	units := a.MulDiv(1, uint64(b.Window))
	if units.Hi > 0 {
		return math.MaxInt64
	}
	return int64(min(units.Lo, math.MaxInt64))
}
