package sash

import (
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// Units that are given back lower the running total of their record and of every newer one. Near either
// end of a ring, giveBack does just that. Deep in a large ring these would be too many stores. So such a
// ring is replaced by one with refunds: a Fenwick tree over its slots (Fenwick, "A new data structure for
// cumulative frequency tables", 1994), of one word a slot, in front of the slots. Its sum up to a slot
// is what the running total in that slot is too high by. So a refund takes O(log n) stores, and reading a
// running total takes O(log n) loads. The fast paths do not read such a ring.
//
// A slot that is charged anew keeps whatever the tree sums up to there: the charge stores that much more.
// So nothing is ever cleared.

// directRefunds is the greatest number of running totals that giveBack changes one by one. It is a variable
// for tests of small rings.
var directRefunds = 32

// refund returns the word of the tree with that number, from 1 to the number of slots.
func (g *ring) refund(number int) *uint64 {
	return (*uint64)(unsafe.Add(unsafe.Pointer(g.slot(0)), (number-1-int(g.refunds))*8))
}

// refunded returns by how much the running total in a slot is too high. The ring must have refunds.
//
//go:noinline
func (g *ring) refunded(slot int) (units uint64) {
	for n := slot + 1; n > 0; n &= n - 1 { // word n is the sum of as many slots as its lowest bit, n the last
		units += atomic.LoadUint64(g.refund(n))
	}
	return units
}

// lowerFrom lowers the running totals of that slot and the ones behind it by units. The ring must have
// refunds, and its entry must be locked.
func (g *ring) lowerFrom(slot int, units uint64) {
	for n := slot + 1; n <= int(g.refunds); n += n & -n { // the words that slot is summed up in
		atomic.AddUint64(g.refund(n), units)
	}
}

// totalAt returns the running total in a slot, whose number may be one round too high.
func (g *ring) totalAt(slot int) uint64 {
	slot = g.wrap(slot)
	total := atomic.LoadUint64(&g.slot(slot).cumulative)
	if g.refunds != 0 {
		total -= g.refunded(slot)
	}
	return total
}

// copyRefundable returns a copy of g, which has no refunds, that has. The entry of the ring must be locked.
func (g *ring) copyRefundable() *ring {
	c := ringAt(make([]uint64, int(g.slots)+wordsOfRing(g.room())), g.room())
	c.refunds = c.slots
	for i := range int(g.slots) {
		*c.slot(i) = *g.slot(i)
	}
	c.bounds = g.bounds
	return c
}

// find returns the index of the record of that tick, if there is one.
func (v *ringView) find(tick int64) (i int, found bool) {
	if last := v.count - 1; last >= 0 && v.tick(last) == tick { // nothing was charged since
		return last, true
	}
	i = v.search(func(i int) bool { return v.tick(i) >= tick })
	return i, i < v.count && v.tick(i) == tick
}

// isDeep reports whether the i-th record is far from both ends of v.
func (v *ringView) isDeep(i int) bool { return min(i+1, v.count-i) > directRefunds }

// giveBack takes units out of the i-th record, as far as it still has them. It reports whether that has
// emptied the ring. If the record is deep in it, the ring must have refunds. Its entry must be locked.
// Other calls read without the lock, so giveBack writes atomically: their validation fails afterwards.
func (v *ringView) giveBack(i int, units int64) (emptied bool) {
	left, back := v.unitsSince(0), min(uint64(units), v.units(i))
	slot, newest := v.wrap(v.base+1+i), v.wrap(v.base+v.count)
	switch {
	case v.isDeep(i): // lower its own and the newer ones or, if these go on at the first slot, raise the older ones
		v.lowerFrom(slot, back)
		v.lowerFrom(newest+1, -back)
	case i < v.count/2: // raise the running totals before the record, the base among them
		for j := -1; j < i; j++ {
			atomic.AddUint64(&v.record(j).cumulative, back)
		}
	default: // lower its own and the newer ones
		for j := i; j < v.count; j++ {
			atomic.AddUint64(&v.record(j).cumulative, -back)
		}
	}
	return back > 0 && back == left
}
