package window

import (
	"math/bits"
	"time"
)

// Ticks is how a log keeps time. Time is cut into ticks of Length nanoseconds. A unit
// that is charged in tick i counts in ticks i to i+Life-1.
//
// A log of single instants has ticks of 1 ns. A log of buckets has one tick for each
// bucket: then a unit counts in its own bucket and in the ceil(W/P)-1 buckets after it.
// This is known as a sliding window with sub-windows, and for P == W as a fixed window.
type Ticks struct{ Length, Life int64 }

// Instants returns the ticks of a SlidingLog: n more units are admitted at t iff they and
// the units charged in (t-W, t] are at most Count.
func Instants(window int64) Ticks { return Ticks{1, window} }

// Buckets returns the ticks of SlidingBuckets of that precision: n more units are
// admitted at t iff they and the units charged in the bucket of t and the ceil(W/P)-1
// buckets before it are at most Count.
func Buckets(window, precision int64) Ticks { return Ticks{precision, (window-1)/precision + 1} }

// Split returns the number of the tick in which t lies, and the time since it began.
func (k Ticks) Split(t int64) (tick, elapsed int64) {
	if k.Length == 1 {
		return t, 0
	}
	return Divide(t, k.Length)
}

// Of returns the number of the tick in which t lies.
func (k Ticks) Of(t int64) int64 {
	tick, _ := k.Split(t)
	return tick
}

// Counts reports whether a unit charged in tick counts in the tick now, which must be
// tick or a later one.
func (k Ticks) Counts(tick, now int64) bool { return uint64(now)-uint64(tick) < uint64(k.Life) }

// Until returns how long after now a unit charged in tick stops counting. It must still
// count. The tick may be later than now.
func (k Ticks) Until(tick, now int64) time.Duration {
	current, elapsed := k.Split(now)
	return k.UntilFrom(tick, current, elapsed)
}

// UntilFrom is Until for the instant that lies in the tick current, elapsed after its beginning.
func (k Ticks) UntilFrom(tick, current, elapsed int64) time.Duration {
	left := uint64(k.Life) + uint64(tick) - uint64(current)
	if tick > current && left < uint64(k.Life) { // more than 64 bits
		return Never
	}
	hi, lo := bits.Mul64(left, uint64(k.Length))
	if hi > 0 || lo-uint64(elapsed) > uint64(Never) {
		return Never
	}
	return time.Duration(lo - uint64(elapsed))
}
