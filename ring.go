package sash

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A record is the units charged in one tick of a log.
type record struct {
	tick       int64
	cumulative uint64 // ring.total before this record
}

// A ring holds records, oldest first. A record does not hold its units but the running
// total before it. So the units since any record are one subtraction, and every question
// is a binary search.
//
// The fields are accessed atomically. The records are never resized: to make room, the
// ring is replaced by a larger one.
type ring struct {
	total   uint64 // units ever charged, modulo 2^64
	bounds  uint64 // see packBounds
	records []record
}

// packBounds returns the bounds of a ring.
//
// Bits (high to low): index of the oldest record 32 | number of records 32, which is
// 64 GB of them.
func packBounds(head, count int) uint64 { return uint64(head)<<32 | uint64(count) }

func unpackBounds(bounds uint64) (head, count int) {
	return int(bounds >> 32), int(bounds & math.MaxUint32)
}

const minRecords = 2 // the room in the first ring of a key: 32 bytes

// A ringView is a ring as one load of its bounds found it. Unless the entry of the ring
// is locked, the view may be torn: it must not be trusted before the word of the entry
// has been validated. Every method must survive a torn view.
type ringView struct {
	*ring
	total       uint64
	head, count int
}

// view returns a view of g. A nil ring, which a key has before its first charge, is
// empty.
func (g *ring) view() ringView {
	if g == nil {
		return ringView{ring: &emptyRing}
	}
	head, count := unpackBounds(atomic.LoadUint64(&g.bounds))
	return ringView{g, atomic.LoadUint64(&g.total), head, count}
}

var emptyRing ring

// record returns the i-th oldest record, 0 <= i <= count. That at count is the next free
// one, if there is any.
func (v *ringView) record(i int) *record {
	if i += v.head; i >= len(v.records) {
		i -= len(v.records)
	}
	return &v.records[i]
}

func (v *ringView) tick(i int) int64 { return atomic.LoadInt64(&v.record(i).tick) }

// cumulative returns the running total before the i-th record, 0 <= i <= count.
func (v *ringView) cumulative(i int) uint64 {
	if i == v.count {
		return v.total
	}
	return atomic.LoadUint64(&v.record(i).cumulative)
}

// units returns the units of the i-th record.
func (v *ringView) units(i int) uint64 { return v.cumulative(i+1) - v.cumulative(i) }

// unitsSince returns the units of the i-th and all newer records.
func (v *ringView) unitsSince(i int) uint64 { return v.total - v.cumulative(i) }

// isEmpty reports whether v holds no units. Then it remembers nothing, whatever records
// it has.
func (v *ringView) isEmpty() bool { return v.count == 0 || v.unitsSince(0) == 0 }

// newest returns the tick of the newest record, unless v is empty.
func (v *ringView) newest() (tick int64, ok bool) {
	if v.isEmpty() {
		return 0, false
	}
	return v.tick(v.count - 1), true
}

// firstLive returns the index of the oldest record whose units count at tick now for life
// ticks; count if there is none. No record may be newer than now.
func (v *ringView) firstLive(now, life int64) int {
	if v.count == 0 || v.isLive(0, now, life) { // true of most logs that are not full
		return 0
	}
	return v.search(func(i int) bool { return v.isLive(i, now, life) })
}

func (v *ringView) isLive(i int, now, life int64) bool {
	return uint64(now)-uint64(v.tick(i)) < uint64(life)
}

// firstWithin returns the index of the oldest record since which there are at most that
// many units; count if that is so only of none.
func (v *ringView) firstWithin(units uint64) int {
	return v.search(func(i int) bool { return v.unitsSince(i) <= units })
}

// search returns the least i in [0, count] for which ok holds, given that ok holds from
// there on.
//
// It looks at the newest record first, and then from the oldest on in steps that double.
// On a busy key and on one that was idle for long, the answer is found at once.
// Elsewhere the steps are about as many as the bits of the answer.
func (v *ringView) search(ok func(i int) bool) int {
	if v.count == 0 || !ok(v.count-1) {
		return v.count
	}
	low, high := 0, 0
	for high < v.count-1 && !ok(high) {
		low, high = high+1, min(2*high+1, v.count-1)
	}
	for low < high {
		if mid := int(uint(low+high) / 2); ok(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// append charges units in a tick that is the newest or, if merge is set, that of the
// newest record. It drops the oldest records, so that count are left. The entry of the
// ring must be locked, v must be of that state, and there must be room. A call that reads
// in between fails to validate the word, so the order of the stores does not matter.
func (v *ringView) append(tick, units int64, merge bool, drop, count int) {
	if !merge {
		next := v.record(v.count)
		atomic.StoreInt64(&next.tick, tick)
		atomic.StoreUint64(&next.cumulative, v.total)
	}
	atomic.StoreUint64(&v.ring.total, v.total+uint64(units))
	if drop > 0 || count != v.count { // a store costs as much as a compare-and-swap
		atomic.StoreUint64(&v.ring.bounds, packBounds((v.head+drop)%len(v.records), count))
	}
}

// giveBack takes units out of the record of that tick, as far as it still has them. It
// reports whether that has emptied the ring. The entry of the ring must be locked.
func (v *ringView) giveBack(tick, units int64) (emptied bool) {
	i := v.search(func(i int) bool { return v.tick(i) >= tick })
	if v.isEmpty() || i == v.count || v.tick(i) != tick {
		return false
	}
	back := min(uint64(units), v.units(i))
	// Raise the running totals up to the record, or lower those after it, whichever are
	// fewer.
	if i < v.count/2 {
		for j := range i + 1 {
			atomic.AddUint64(&v.record(j).cumulative, back)
		}
	} else {
		for j := i + 1; j < v.count; j++ {
			atomic.AddUint64(&v.record(j).cumulative, -back)
		}
		v.total -= back
		atomic.StoreUint64(&v.ring.total, v.total)
	}
	return v.isEmpty()
}

// ringCapacity returns the capacity of a new ring for count records: twice count, but no
// more than usual if count is at most usual. So at least as many charges come before the
// next ring as records are copied into this one, until a ring has the usual size.
func ringCapacity(count int, usual int64) int {
	room := max(2*count, minRecords)
	if int64(count) <= usual {
		room = int(min(int64(room), usual))
	}
	return room
}

// isKept reports whether the i-th record is copied to another ring. A record that has
// given all its units back is not, unless it is the newest: that is the time that the
// key has seen.
func (v *ringView) isKept(i int) bool { return i == v.count-1 || v.units(i) != 0 }

// keptRecords returns the number of records that are copied to another ring.
func (v *ringView) keptRecords() (n int) {
	for i := range v.count {
		if v.isKept(i) {
			n++
		}
	}
	return n
}

// copyRing returns a ring with room for size records that holds those of v, without the
// oldest drop.
func (v *ringView) copyRing(drop, size int) *ring {
	g := &ring{records: make([]record, 0, size), total: v.total}
	for i := drop; i < v.count; i++ {
		if v.isKept(i) && len(g.records) < size { // there are more only if v is torn
			g.records = append(g.records, record{v.tick(i), v.cumulative(i)})
		}
	}
	g.bounds, g.records = packBounds(0, len(g.records)), g.records[:size]
	return g
}

// grown returns a copy of v with room for more records. usual is their number in most
// logs.
func (v *ringView) grown(usual int64) *ring {
	return v.copyRing(0, ringCapacity(v.keptRecords()+1, usual))
}

// shrunk returns a smaller copy of v, or nil if v is not far too large. It leaves out
// records that no call will need, not even a call whose reading is as old as the newest
// record.
func (v *ringView) shrunk(life, usual int64) *ring {
	live := v.count
	if newest, ok := v.newest(); ok {
		live = v.firstLive(newest, life)
	}
	size := ringCapacity(v.count-live, usual)
	if len(v.records) <= 4*size {
		return nil
	}
	return v.copyRing(live, size)
}
