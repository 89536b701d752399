package sash

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A record is the units charged in one tick of a log.
type record struct {
	tick       int64
	cumulative uint64 // the units charged until then, the units of the record included, modulo 2^64
}

// A ring holds records, oldest first. A record does not hold its units but the running total. So
// the units since any record are one subtraction, and every question is a binary search. The slot
// before the oldest record is the base. Only its running total counts.
//
// Units that are given back lower the running total of their record and of every newer one. Near either
// end of a ring, giveBack does just that. Deep in a large ring these would be too many stores. So such a
// ring is replaced by one with refunds, in front of its slots, which the fast paths do not read.
//
// The slots lie in front of the ring, the last of them next to it. They are one object of the heap
// without pointers, which the garbage collector does not scan. The ring of a log is in one object
// with its entry, too: see newLogEntry. The fields are accessed atomically, but for slots and refundWords,
// which never change: to make room, the ring is replaced by a larger one.
type ring struct {
	bounds      uint64 // see packBounds
	slots       uint32 // how many slots lie in front of the ring, the base among them
	refundWords uint32 // how many words of refunds lie in front of the slots: one for each, or none
}

// Records must be aligned to 8 bytes on any platform, as they are accessed atomically.
var _ [0]struct{} = [ringHeader % 8]struct{}{}

const (
	ringHeader = unsafe.Sizeof(ring{})
	recordSize = unsafe.Sizeof(record{})
	ringWords  = int(ringHeader / 8)
)

// wordsOfRing returns how many words a ring with room for that many records takes.
func wordsOfRing(room int) int { return ringWords + (room+1)*int(recordSize/8) }

// newRing returns a ring with room for that many records.
func newRing(room int) *ring {
	words := make([]uint64, wordsOfRing(room))
	return ringAt(words, room)
}

// ringAt returns the ring with room for that many records that the words end with.
func ringAt(words []uint64, room int) *ring {
	g := (*ring)(unsafe.Pointer(&words[len(words)-ringWords]))
	g.slots = uint32(room + 1)
	return g
}

// newRingOf returns a ring of those records, whose running total begins at 0.
func newRingOf(records []record) *ring {
	g := newRing(len(records))
	for i, r := range records {
		*g.slot(i + 1) = r
	}
	g.bounds = packBounds(0, len(records))
	return g
}

// room returns for how many records g has room.
func (g *ring) room() int { return int(g.slots) - 1 }

// slot returns the record in the i-th slot, i >= 0.
func (g *ring) slot(i int) *record {
	i -= int(g.slots) // from the end, where g lies
	if i >= 0 {       // an i below 0 would be in front of the slots: no caller has one, whatever is torn
		panic("sash: no such slot of a ring")
	}
	return (*record)(unsafe.Add(unsafe.Pointer(g), i*int(recordSize)))
}

// newLanes returns a ring whose slots are lanes of that many bits: see lanes. Two words are a slot.
func newLanes(bits uint) *ring { return newRing(int(wordsOf(bits)+1)/2 - 1) }

// lanes returns the lanes that are in the slots of g. Their number tells how wide the lanes are.
func (g *ring) lanes() lanes {
	bits := uint(fullLane)
	switch g.slots {
	case uint32(wordsOf(narrowLane) / 2):
		bits = narrowLane
	case uint32(wordsOf(wideLane) / 2):
		bits = wideLane
	}
	return lanes{(*uint64)(unsafe.Pointer(g.slot(0))), bits}
}

// wrap returns the slot of a number that may be one round too high.
func (g *ring) wrap(slot int) int {
	if over := slot - int(g.slots); over >= 0 {
		slot = over
	}
	return slot
}

// refunds returns the refunds of g. There are none unless refundWords is set.
func (g *ring) refunds() refunds {
	count := int(g.refundWords)
	return refunds{(*uint64)(unsafe.Add(unsafe.Pointer(g.slot(0)), -8*count)), count}
}

// totalAt returns the running total in a slot, whose number may be one round too high.
func (g *ring) totalAt(slot int) uint64 {
	slot = g.wrap(slot)
	total := atomic.LoadUint64(&g.slot(slot).cumulative)
	if g.refundWords != 0 {
		total -= g.refunds().upTo(slot)
	}
	return total
}

// packBounds returns the bounds of a ring, given the slots of its base and of its newest
// record. In a ring without records, they are the same.
//
// Bits (high to low): slot of the base 32 | slot of the newest record 32, so there may be
// 64 GB of them.
func packBounds(base, newest int) uint64 { return uint64(base)<<32 | uint64(newest) }

func unpackBounds(bounds uint64) (base, newest int) {
	return int(bounds >> 32), int(bounds & math.MaxUint32)
}

// A ringView is a ring as one load of its bounds found it. Unless the entry of the ring
// is locked, the view may be torn: it must not be trusted before the word of the entry
// has been validated. Every method must survive a torn view.
type ringView struct {
	*ring
	base, count int
	total       uint64 // the running total of the newest record
}

// view returns a view of g. A nil ring, which a key has before its first charge, is empty.
func (g *ring) view() ringView {
	if g == nil {
		g = emptyRing
	}
	bounds := atomic.LoadUint64(&g.bounds) // one load, so they are of one instant
	_, newest := unpackBounds(bounds)
	return g.viewOf(bounds, g.totalAt(newest))
}

// viewOf returns a view of g within bounds, whose newest record has that running total.
func (g *ring) viewOf(bounds, total uint64) ringView {
	base, newest := unpackBounds(bounds)
	if newest < base {
		newest += int(g.slots)
	}
	return ringView{g, base, newest - base, total}
}

var emptyRing = newRing(0)

// record returns the i-th oldest record, -1 <= i <= count. That at -1 is the base, and
// that at count is the next free one, if there is any.
func (v ringView) record(i int) *record {
	return v.slot(v.wrap(v.base + 1 + i))
}

func (v ringView) tick(i int) int64 { return atomic.LoadInt64(&v.record(i).tick) }

// before returns the running total before the i-th record, 0 <= i <= count.
func (v ringView) before(i int) uint64 { return v.totalAt(v.base + i) }

// units returns the units of the i-th record.
func (v ringView) units(i int) uint64 { return v.before(i+1) - v.before(i) }

// unitsSince returns the units of the i-th and all newer records.
func (v ringView) unitsSince(i int) uint64 { return v.total - v.before(i) }

// isEmpty reports whether v holds no units. Then it remembers nothing, whatever records it has.
func (v ringView) isEmpty() bool { return v.count == 0 || v.unitsSince(0) == 0 }

// newest returns the tick of the newest record, unless v is empty.
func (v ringView) newest() (tick int64, ok bool) {
	if v.isEmpty() {
		return 0, false
	}
	return v.tick(v.count - 1), true
}

// firstLive returns the index of the oldest record whose units count at tick now for life
// ticks; count if there is none. No record may be newer than now.
func (v ringView) firstLive(now, life int64) int {
	const few = 4 // in most calls, no more have expired since the last one
	for i := range min(v.count, few) {
		if v.isLive(i, now, life) {
			return i
		}
	}
	return v.search(func(i int) bool { return v.isLive(i, now, life) })
}

func (v ringView) isLive(i int, now, life int64) bool {
	return uint64(now)-uint64(v.tick(i)) < uint64(life)
}

// firstWithin returns the index of the oldest record since which there are at most that
// many units; count if that is so only of none.
func (v *ringView) firstWithin(units uint64) int {
	return v.search(func(i int) bool { return v.unitsSince(i) <= units })
}

// search returns the least i in [0, count] for which ok holds, given that ok holds from there on.
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

// without returns v without the n oldest records, which stay in the ring.
func (v ringView) without(n int) ringView {
	return ringView{v.ring, v.wrap(v.base + n), v.count - n, v.total}
}

// current returns v without the records that had expired at the newest one. No call needs
// them; a ring keeps some until it needs their room. If the other records have given back all
// their units, current returns v unchanged. A ring without units is empty, and an empty ring
// does not remember the tick of its newest record.
func (v ringView) current(life int64) ringView {
	newest, ok := v.newest()
	if !ok {
		return v.without(v.count)
	}
	if c := v.without(v.firstLive(newest, life)); !c.isEmpty() {
		return c
	}
	return v
}

// A charging is what a charge writes to a ring. It has as few fields as the compiler keeps in
// registers.
type charging struct {
	*ring
	bounds uint64 // of the ring once it is charged: the base, and the record that is charged
	total  uint64 // the running total before the charge; in a ring with refunds, and what the slot is too high by
	tick   int64  // of the charge
}

// charging returns a charge to v, at that tick, which leaves the records of v in the ring. If
// merge is set, that is the tick of the newest record.
func (v ringView) charging(tick int64, merge bool) charging {
	slot, total := v.wrap(v.base+v.count), v.total
	if !merge {
		slot = v.wrap(slot + 1)
	}
	if v.refundWords != 0 { // the slot keeps its refunds, from whatever record, so the charge stores that much more
		total += v.refunds().upTo(slot)
	}
	return charging{v.ring, packBounds(v.base, slot), total, tick}
}

// before returns the view of the records that the charge leaves in the ring, as they are before it. The
// ring must have no refunds.
func (c charging) before() ringView {
	// Its newest record is that before the charge, or the view is torn.
	v := c.viewOf(atomic.LoadUint64(&c.ring.bounds), c.total)
	base, _ := unpackBounds(c.bounds)
	dropped := base - v.base
	if dropped < 0 {
		dropped += int(c.slots)
	}
	// Another call may have charged the ring since c was made, and dropped more than c. Then the view
	// is torn, and may have fewer records than were dropped.
	return ringView{c.ring, base, max(0, v.count-dropped), v.total}
}

// hasRoom reports whether the ring has room for the charge: whether its record is not the base.
func (c charging) hasRoom() bool {
	base, slot := unpackBounds(c.bounds)
	return slot != base
}

// charge charges units. The caller must have locked the entry of the ring from the word that
// c was read under, and the ring must have room. The order of the stores does not matter: a
// call that reads in between fails to validate the word.
//
// It stores only what has changed: a store costs as much as a compare-and-swap.
func (c charging) charge(units int64) {
	_, slot := unpackBounds(c.bounds)
	charged := c.slot(slot)
	if charged.tick != c.tick {
		atomic.StoreInt64(&charged.tick, c.tick)
	}
	atomic.StoreUint64(&charged.cumulative, c.total+uint64(units))
	if c.ring.bounds != c.bounds {
		atomic.StoreUint64(&c.ring.bounds, c.bounds)
	}
}

// copyRefundable returns a copy of g, which has no refunds, that has. The entry of the ring must be locked.
func (g *ring) copyRefundable() *ring {
	c := ringAt(make([]uint64, int(g.slots)+wordsOfRing(g.room())), g.room())
	c.refundWords = c.slots
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

// directRefunds is the greatest number of running totals that giveBack changes one by one. It is a variable
// for tests of small rings.
var directRefunds = 32

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
		v.refunds().lowerFrom(slot, back)
		v.refunds().lowerFrom(newest+1, -back)
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

// ringRoom returns the room of a new ring for the given number of records and one more:
// about twice their number, but no more than usual if they are fewer. So nearly as many
// charges come before the next ring as records are copied into this one. The rooms are 1,
// 2, 5, 11 and so on: rings of 48, 64, 112 and 208 bytes, which is as Go allocates them. An entry with a
// name of up to 16 bytes, in one object with its ring, takes 32 more.
func ringRoom(count int, usual int64) int {
	room := max(1, 2*count)
	if count > 1 {
		room++
	}
	if int64(count) < usual {
		room = int(min(int64(room), usual))
	}
	return room
}

// isKept reports whether the i-th record is copied to another ring. A record that has given all its
// units back is not, unless it is the newest: that is the time that the key has seen.
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

// copyRing returns a ring with that room that holds the records of v.
func (v *ringView) copyRing(room int) *ring {
	g := newRing(room)
	v.copyTo(g)
	return g
}

// copyTo makes g, a new ring, hold the records of v.
func (v *ringView) copyTo(g *ring) {
	kept, total := 0, v.before(0)
	g.slot(0).cumulative = total
	for i := range v.count {
		before := total
		total = v.before(i + 1)
		if (total != before || i == v.count-1) && kept < g.room() { // there are more only if v is torn
			kept++
			*g.slot(kept) = record{v.tick(i), total}
		}
	}
	g.bounds = packBounds(0, kept)
}

// A recordWriter appends the records of a log to a snapshot, oldest first: their number, and of each its
// tick and its units.
type recordWriter struct {
	b     []byte
	begun bool
	last  int64 // the tick of the record before
}

func newRecordWriter(b []byte, count int) recordWriter {
	return recordWriter{b: binary.AppendUvarint(b, uint64(count))}
}

func (w *recordWriter) add(tick, units int64) {
	if w.begun {
		w.b = binary.AppendUvarint(w.b, uint64(tick)-uint64(w.last))
	} else {
		w.b = binary.AppendVarint(w.b, tick)
	}
	w.b = binary.AppendUvarint(w.b, uint64(units))
	w.begun, w.last = true, tick
}

// appendRecords appends the records of v, those that are copied to another ring.
func appendRecords(b []byte, v *ringView) []byte {
	if v.isEmpty() {
		return newRecordWriter(b, 0).b
	}
	w := newRecordWriter(b, v.keptRecords())
	for i := range v.count {
		if v.isKept(i) {
			w.add(v.tick(i), int64(v.units(i)))
		}
	}
	return w.b
}

// records reads the records of a log, whose ticks may be from first to last.
func (s *snapshotReader) records(first, last int64) (records []record) {
	count := s.uint()
	if count > math.MaxUint32 {
		s.fail("a log of %d entries", count)
	}
	if count == 0 || s.err != nil {
		return nil
	}
	tick := s.int()
	if tick < first || tick > last {
		s.fail("an entry at tick %d, which is outside of time", tick)
	}
	var total uint64
	for s.err == nil {
		units := s.uint()
		if total += units; total < units {
			s.fail("a log of more than 64 bits of units")
		}
		records = append(records, record{tick, total})
		if uint64(len(records)) == count {
			break
		}
		later := s.uint()
		if later == 0 || later > uint64(last)-uint64(tick) {
			s.fail("an entry %d ticks after that at %d", later, tick)
		}
		tick += int64(later)
	}
	return records
}
