package sash

import (
	"math/bits"
	"time"
)

// SlidingBuckets: time is cut into buckets of P, aligned to instant 0. At t the
// current bucket, number floor(t/P), and the ceil(W/P)-1 before it count; n more
// units are admitted iff what was charged in them and n are at most Count
// together. It is known as a sliding window with sub-windows; with P == W as a
// fixed window.
//
// So it is a log on a clock that ticks once per bucket: all that is charged in
// one bucket is one run, which is back when the bucket is ceil(W/P) ticks old.
// Memory is one run for each bucket in use, and however many have passed since a
// key was last seen, that it holds nothing is seen at its newest run.

// ticks returns the nanoseconds of a tick of l's log, and how many ticks a unit
// counts for, that of its charge included.
func ticks(l Limit) (tick, span int64) {
	if l.Algorithm != SlidingBuckets {
		return 1, int64(l.Window)
	}
	return int64(l.Precision), int64((l.Window-1)/l.Precision) + 1
}

// tickOf returns the number of the tick in which t lies.
func (r *rule) tickOf(t int64) int64 {
	tick, _ := r.since(t)
	return tick
}

// since returns the number of the tick in which t lies, and how far into it.
func (r *rule) since(t int64) (tick, elapsed int64) {
	if r.tick == 1 {
		return t, 0
	}
	return divide(t, r.tick)
}

// until returns how long after now a unit taken in tick at is back, for one that
// is not back yet.
func (r *rule) until(at, now int64) time.Duration {
	tick, elapsed := r.since(now)
	ticks := uint64(r.span) + uint64(at) - uint64(tick)
	if at > tick && ticks < uint64(r.span) { // more than 64 bits
		return Never
	}
	hi, lo := bits.Mul64(ticks, uint64(r.tick))
	if hi > 0 || lo-uint64(elapsed) > uint64(Never) {
		return Never
	}
	return time.Duration(lo - uint64(elapsed))
}
