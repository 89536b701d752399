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
	epochs
	bits uint8  // of prev, and of curr
	mask uint64 // as many bits
}

// epochs says which windows or parts have an epoch in a word: the index, less first, and 2 at least. They
// last from the instant begin to the instant end. There is one to spare after them.
type epochs struct {
	first      int64 // the index of epoch 0
	begin, end int64
}

const minSpan = 365 * int64(day) // of the instants that a word is made for

// epochsOf returns the epochs, of that many bits, of windows of that size for a limiter whose time begins
// at origin, and whether they last for minSpan.
func epochsOf(size int64, bits int, origin int64) (e epochs, fits bool) {
	if bits < 2 {
		return epochs{}, false
	}
	windows := uint64(1)<<bits - 3 // of epochs from 2 on; the last one is to spare
	earliest, _ := window.Divide(math.MinInt64, size)
	latest, _ := window.Divide(math.MaxInt64, size)
	if uint64(latest)-uint64(earliest) < windows {
		return epochs{earliest - 2, math.MinInt64, math.MaxInt64}, true
	}
	// A few readings may be from before the origin.
	from, _ := window.Divide(origin, size)
	from = min(max(window.Plus(from, -int64(windows/8)), earliest+1), latest-int64(windows-1))
	e = epochs{from - 2, from * size, window.Plus((from+int64(windows-1))*size, size-1)}
	return e, uint64(e.end)-uint64(e.begin) >= uint64(minSpan)
}

// holds reports whether a charge at t fits into a word.
func (e *epochs) holds(t int64) bool { return e.begin <= t && t <= e.end }

// layoutOf returns the layout of c for a limiter whose time begins at origin, and whether
// c fits into one word.
func layoutOf(c window.Counter, origin int64) (l layout, fits bool) {
	l.bits = uint8(bits.Len64(uint64(c.Count)))
	l.mask = 1<<l.bits - 1
	l.epochs, fits = epochsOf(c.Window, wordBits-2*int(l.bits), origin)
	if !fits {
		return layout{}, false
	}
	return l, true
}

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

// A partsLayout says where the word of a partsEntry keeps its state. Only its methods shift bits of that
// word.
//
// Bits (high to low): dead 1 | multi 1, never set here | locked 1 | epoch | shift 6 | used 8 or 16.
//
// used is at most Count, and so is what a lane holds. The epoch is the number of the newest part, less
// first. It is 0 until the key is charged, and 2 at least from then on.
//
// A word changes only
//   - to a word of the same epoch with a greater used;
//   - to a word of a later epoch;
//   - to itself locked, and from there to any of these or back;
//   - to dead, and from there never again.
//
// So, as for a layout, a word that is not locked comes back only if nothing has happened in between. Under
// a shift, an instant may lie one part further on: that is the epoch to spare.
//
// bits and mask are of used, and of a lane.
type partsLayout layout

const shiftBits = 6

// partsLayoutOf returns the layout of p under that Count for a limiter whose time begins at origin, and
// whether they fit into a word and lanes. It is a partsLayout.
func partsLayoutOf(p window.Parts, count, origin int64) (l layout, fits bool) {
	switch l.bits = narrowLane; {
	case count > math.MaxUint16:
		return layout{}, false
	case count > math.MaxUint8:
		l.bits = wideLane
	}
	l.mask = 1<<l.bits - 1
	l.epochs, fits = epochsOf(p.Length, wordBits-shiftBits-int(l.bits), origin)
	return l, fits
}

// part returns the newest part of word. A word that is locked, dead, or of a multi-limit entry gives one
// without an epoch: those bits stand above it.
func (l *partsLayout) part(word uint64) int64 {
	return int64(word>>((l.bits+shiftBits)&63)) + l.first
}

func (l *partsLayout) shift(word uint64) int64 { return int64(word >> (l.bits & 63) % window.Shifts) }

func (l *partsLayout) used(word uint64) int64 { return int64(word & l.mask) }

// pack returns the word of a state, and whether it fits into one. It does after a charge at an instant that
// holds reports true for.
func (l *partsLayout) pack(part, used, shift int64) (word uint64, fits bool) {
	if used == 0 {
		return uint64(shift) << l.bits, true
	}
	epoch := uint64(part - l.first)
	fits = epoch >= 2 && epoch <= l.lastEpoch() && uint64(used)>>l.bits == 0
	return (epoch<<shiftBits|uint64(shift))<<l.bits | uint64(used), fits
}

// packCharged is pack after a charge that ruleset.holds has found to fit. If the floor has risen past end
// since then, the charge is dated in the part of the last epoch. That is the first charge of a key, as only
// an empty state goes by the floor. So the lanes are empty, whatever the part.
func (l *partsLayout) packCharged(part, used, shift int64) (word uint64) {
	word, _ = l.pack(min(part, int64(l.lastEpoch())+l.first), used, shift)
	return word
}

func (l *partsLayout) lastEpoch() uint64 { return (locked - 1) >> (l.bits + shiftBits) }

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
