package sash

import (
	"math"
	"math/bits"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// A layout says where the parts of a window.State stand in a word. Only its methods
// shift bits of that word.
//
// Bits (high to low): dead 1 | multi 1, never set here | locked 1 | epoch | prev | curr.
//
// prev and curr have as many bits as Count, since they never exceed it. The epoch has the
// rest. It is the index of the window, less first, and 2 at least. So no epoch ever comes
// again, and the word 0 is of a key never charged.
//
// A word changes only
//   - to a word of the same epoch with a greater curr;
//   - to a word of a later epoch;
//   - to itself locked, and from there to any of these or back;
//   - to dead, and from there never again.
//
// So a word that is not locked comes back only if nothing has happened in between, and a
// compare-and-swap from it proves that.
//
// The epochs last from the instant begin to the instant end: a year at least. Under most limits
// that is all of time. A key that is charged outside of that gets a multi-limit entry first,
// which holds any window. See ruleset.holds.
type layout struct {
	bits       uint8  // of prev, and of curr
	mask       uint64 // as many bits
	first      int64  // index of the window of epoch 0
	begin, end int64
}

const minSpan = 365 * int64(day) // of the instants that a layout or a debtLayout has words for

// layoutOf returns the layout of c for a limiter whose time begins at origin, and whether
// c fits into one word.
func layoutOf(c window.Counter, origin int64) (l layout, fits bool) {
	l.bits = uint8(bits.Len64(uint64(c.Count)))
	l.mask = 1<<l.bits - 1
	epochBits := wordBits - 2*int(l.bits)
	if epochBits < 2 {
		return layout{}, false
	}
	windows := uint64(1)<<epochBits - 3 // of epochs from 2 on; the last one is to spare
	earliest, _ := c.Locate(math.MinInt64)
	latest, _ := c.Locate(math.MaxInt64)
	if uint64(latest)-uint64(earliest) <= windows {
		l.first, l.begin, l.end = earliest-2, math.MinInt64, math.MaxInt64
		return l, true
	}
	// A few readings may be from before the origin.
	from, _ := c.Locate(origin)
	from = min(max(window.Plus(from, -int64(windows/8)), earliest+1), latest-int64(windows-1))
	l.first, l.begin, l.end = from-2, c.Begins(from), window.Plus(c.Begins(from+int64(windows-1)), c.Window-1)
	return l, uint64(l.end)-uint64(l.begin) >= uint64(minSpan)
}

// holds reports whether a charge at t fits into a word.
func (l *layout) holds(t int64) bool { return l.begin <= t && t <= l.end }

// pack returns the word of w, and whether w fits into one. It does after a charge at an
// instant that holds reports true for.
func (l *layout) pack(w window.State) (word uint64, fits bool) {
	if w.Empty() {
		return 0, true
	}
	epoch := uint64(w.Index - l.first)
	fits = epoch >= 2 && epoch <= l.lastEpoch() && uint64(w.Prev|w.Curr)>>(l.bits&63) == 0
	return l.packEpoch(epoch, w), fits
}

// packCharged returns the word of w, the state after a charge that ruleset.holds has found to
// fit. If the floor has risen past end since then, the charge is dated in the window of the last epoch.
func (l *layout) packCharged(w window.State) (word uint64) {
	return l.packEpoch(min(uint64(w.Index-l.first), l.lastEpoch()), w)
}

func (l *layout) packEpoch(epoch uint64, w window.State) (word uint64) {
	return (epoch<<(l.bits&63)|uint64(w.Prev))<<(l.bits&63) | uint64(w.Curr)
}

func (l *layout) lastEpoch() uint64 { return (locked - 1) >> (2 * l.bits & 63) }

// unpack returns the state of word. A word that is locked, dead, or of a multi-limit entry gives a
// window without an epoch: those bits stand above the epoch.
func (l *layout) unpack(word uint64) window.State {
	rest := word >> (l.bits & 63)
	return window.State{
		Index: int64(rest>>(l.bits&63)) + l.first,
		Prev:  int64(rest & l.mask),
		Curr:  int64(word & l.mask),
	}
}

// A debtLayout says how a window.Debt is kept in one word: as the instant at which the bucket
// is full, in steps since base. Only its methods scale that word.
//
// Bits (high to low): dead 1 | multi 1, never set here | locked 1 | steps 61.
//
// Count units in Window nanoseconds are, in lowest terms, rate units in cost nanoseconds. A
// step is 1/rate of a nanosecond. So a nanosecond is rate steps, a unit is cost steps, and no
// charge is ever rounded. The word 0 is of a key never charged: a charge ends after base.
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

const maxSteps = 1<<wordBits - 1

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
	// A Debt without a Lack means never charged. So its instant is a nanosecond before the bucket is
	// full, at least, and otherwise as late as an instant can be.
	since := min(word/l.rate-1, math.MaxInt64-uint64(l.base))
	return window.Debt{At: int64(uint64(l.base) + since), Lack: window.Amount{Lo: word - since*l.rate}.MulDiv(uint64(b.Step()), 1)}
}

// pack returns the word of d, and whether d fits into one. It does after a charge at an instant
// that steps finds to fit.
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
	return word, word >= l.rate // below rate, unpack would find no nanosecond before the bucket is full
}

// packCharged returns the word of d, the debt after a charge that ruleset.holds has found to fit. If
// the floor has risen past the span since then, the charge is dated at the end of the span.
func (l *debtLayout) packCharged(b window.TokenBucket, d window.Debt) (word uint64) {
	word, ok := l.pack(b, d)
	if !ok {
		d.At = window.Plus(l.base, l.span)
		word, _ = l.pack(b, d)
	}
	return word
}

// charge returns the word of a bucket after a charge of n units, 0 < n <= Burst, now in steps, and the
// steps that it lacks then.
func (l *debtLayout) charge(word, now uint64, n int64) (next, lack uint64) {
	next = max(word, now) + uint64(n)*l.cost
	return next, next - now
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

// time returns how many nanoseconds steps are, rounded up.
func (l *debtLayout) time(steps uint64) time.Duration {
	if l.rate > 1 { // which spares most limits a division
		steps = (steps + l.rate - 1) / l.rate
	}
	return time.Duration(steps)
}
