package sash

import (
	"math"
	"math/bits"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// lanes are the units of the parts before the newest part of a state of slidingParts: one lane for each,
// the latest first. They lie side by side in words, from the low bits up, as one long number. So a part
// that begins is a shift of that number.
//
// The words are in front of a partsEntry. In a multi-limit entry they are the room of a ring. They are written
// only under the lock of the entry. A call that reads them without the lock may find them torn: what
// follows must not be used before the word of the entry is validated.
//
// Invariant: the sum of all lanes fits into a lane. So a sum is one multiplication for each word.
type lanes struct {
	first *uint64 // the first word; nil: no units
	bits  uint    // of a lane: narrowLane, wideLane or fullLane
}

const (
	maxLanes   = window.MaxParts - 1
	narrowLane = 8
	wideLane   = 16
	fullLane   = 64
)

// bitsFor returns the bits of the smallest lane that holds that many units.
func bitsFor(units uint64) uint {
	switch {
	case units <= math.MaxUint8:
		return narrowLane
	case units <= math.MaxUint16:
		return wideLane
	}
	return fullLane
}

// wordsOf returns how many words lanes of that many bits take.
func wordsOf(bits uint) uint { return (maxLanes*bits + 63) / 64 }

// word returns the i-th word.
func (l lanes) word(i uint) *uint64 { return (*uint64)(unsafe.Add(unsafe.Pointer(l.first), i*8)) }

func (l lanes) load(i uint) uint64 { return atomic.LoadUint64(l.word(i)) }

// units returns the units of the i-th lane.
func (l lanes) units(i int) uint64 {
	if l.first == nil {
		return 0
	}
	at := uint(i) * l.bits
	return l.load(at/64) >> (at % 64) & (1<<l.bits - 1)
}

// sumFrom returns the units of the i-th and all later lanes.
func (l lanes) sumFrom(i int) (sum uint64) {
	if l.first == nil {
		return 0
	}
	at, ones := uint(i)*l.bits, l.ones()
	skipped := at % 64
	for w := at / 64; w < wordsOf(l.bits); w++ {
		sum += l.sumOf(l.load(w)>>skipped, ones)
		skipped = 0
	}
	return sum
}

// ones returns a word of lanes of one unit each.
func (l lanes) ones() uint64 {
	switch l.bits {
	case narrowLane:
		return 0x0101010101010101
	case wideLane:
		return 0x0001000100010001
	}
	return 1
}

// sumOf returns the sum of the lanes in word, which is the highest lane of their product with ones. It must
// fit into a lane.
func (l lanes) sumOf(word, ones uint64) uint64 { return word * ones >> ((64 - l.bits) % 64) }

// latest returns the lowest of the first n lanes that is not empty, or -1.
func (l lanes) latest(n int) int {
	for i := range n {
		if l.units(i) > 0 {
			return i
		}
	}
	return -1
}

// freeing returns the highest of the first n lanes which, with those above it, holds that many units, or -1.
// So these units are the oldest, and come back with that lane. units is more than 0.
func (l lanes) freeing(n int, units uint64) int {
	if l.first == nil || n == 0 {
		return -1
	}
	last := uint(n-1) * l.bits // where the last lane begins
	unused := 64 - l.bits - last%64
	for w := last/64 + 1; w > 0; unused = 0 {
		w--
		for word := l.load(w) << unused >> unused; word != 0; {
			at := uint(63-bits.LeadingZeros64(word)) &^ (l.bits - 1) // where the highest lane that is not empty begins
			held := word >> at
			if held >= units {
				return int(w*64+at) >> bits.TrailingZeros(l.bits)
			}
			units -= held
			word &= 1<<at - 1
		}
	}
	return -1
}

// turn makes the part that comes n parts later the newest: each lane becomes the one n lanes further on. The
// part that was newest, with that many units, gets a lane, too. kept is how many lanes there are. The caller
// must hold the lock of the entry, unless no other goroutine knows it yet.
func (l lanes) turn(n, kept int, units uint64) {
	words, shift := uint(n)*l.bits/64, uint(n)*l.bits%64
	at, end := uint(n-1)*l.bits, uint(kept)*l.bits
	// From the last word down, as each is made of the words before it.
	for w := wordsOf(l.bits); w > 0; {
		w--
		var next uint64
		if w >= words {
			next = l.load(w-words) << shift
		}
		if w > words {
			next |= l.load(w-words-1) >> 1 >> (63 - shift) // nothing if shift is 0
		}
		if w == at/64 {
			next |= units << (at % 64)
		}
		if end < w*64+64 { // drop what has moved past the last lane
			next &= 1<<(max(end, w*64)-w*64) - 1
		}
		l.store(w, next)
	}
}

// store makes next the i-th word. A store costs as much as a compare-and-swap, and most leave a word as
// it is.
func (l lanes) store(i uint, next uint64) {
	if l.load(i) != next {
		atomic.StoreUint64(l.word(i), next)
	}
}

// take takes units out of the i-th lane. The caller must hold the lock of the entry.
func (l lanes) take(i int, units uint64) {
	at := uint(i) * l.bits
	atomic.StoreUint64(l.word(at/64), l.load(at/64)-units<<(at%64))
}

// keep empties the lanes that are not needed for most units, and returns the sum of the others. newest are
// the units of the newest part, and kept is how many lanes there are. The caller must hold the lock of the
// entry.
func (l lanes) keep(newest, most uint64, kept int) (sum uint64) {
	sum = newest
	for i := range kept {
		units := l.units(i)
		if sum >= most {
			l.take(i, units)
		} else {
			sum += units
		}
	}
	return sum
}

// copy makes l, which are empty and wide enough, hold the units of others.
func (l lanes) copy(others lanes) {
	if others.sumFrom(0) > 0 {
		for i := maxLanes - 1; i >= 0; i-- {
			l.turn(1, maxLanes, others.units(i)) // the oldest part comes first
		}
	}
}
