package sash

import (
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// refunds are the units given back deep in a ring, as a Fenwick tree over its slots (Fenwick, "A new data
// structure for cumulative frequency tables", 1994). Its sum up to a slot is what the running total in
// that slot is too high by. So a refund takes O(log n) stores, and reading a running total O(log n) loads.
//
// There is one word a slot, which is accessed atomically. Word n is the sum of as many slots as the lowest
// bit of n says, and slot n-1 is the last of them.
type refunds struct {
	first *uint64 // word 1
	count int     // of words
}

func (f refunds) word(n int) *uint64 { return (*uint64)(unsafe.Add(unsafe.Pointer(f.first), (n-1)*8)) }

// upTo returns by how much the running total in a slot is too high. It is not inlined, so that its callers
// are, where there are no refunds.
//
//go:noinline
func (f refunds) upTo(slot int) (units uint64) {
	for n := slot + 1; n > 0; n &= n - 1 {
		units += atomic.LoadUint64(f.word(n))
	}
	return units
}

// lowerFrom lowers the running totals of that slot and the later ones by units. The entry of the ring must
// be locked.
func (f refunds) lowerFrom(slot int, units uint64) {
	for n := slot + 1; n <= f.count; n += n & -n { // the words that the slot is summed up in
		atomic.AddUint64(f.word(n), units)
	}
}
