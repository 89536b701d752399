package sash

import (
	"math"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/hashmap"
	"github.com/seed-30da4c49/sash/internal/window"
)

// slidingParts is the algorithm of SlidingParts: window.Parts is its arithmetic. The state of a key is
//   - a: the number of the newest part in which units were charged;
//   - b: the units of all parts that count in it, that part included; 0: the key was never charged;
//   - c: the shift of the key, which never changes, and whether the state is in a partsEntry;
//   - lanes: the units of each of the parts before it. The ring is their room or, in a partsEntry, where
//     they are in front of it: see lanesOf.
//
// So a charge in the newest part changes b alone.
type slidingParts rule

var _ shiftedAlgorithm = (*slidingParts)(nil)

// A partsEntry is an entry whose only limit is a SlidingParts of a moderate Count. The words of its lanes lie
// in front of it. Its own word is the rest of the state: see partsLayout.
//
// A charge in the newest part is one compare-and-swap of the word. The first charge in a later part is one,
// too, if no lane holds a unit before or after it. Otherwise it locks the entry while it stores the lanes,
// and so does a call that has lost a few races to others.
//
// The word is the version of the lanes, too: they change only with the number of the newest part, which
// only grows. So what was read of them is of one state if the word has not changed.

// newPartsEntry returns a partsEntry of that word and the units of other lanes, with a copy of name.
func newPartsEntry(word uint64, bits uint, units lanes, name string) *entry {
	e := entryOf(hashmap.NewAfter(int(wordsOf(bits)), name))
	e.Word.Store(word)
	e.lanes(bits).copy(units)
	return e
}

// lanes returns the lanes of e, a partsEntry whose lanes have that many bits.
func (e *entry) lanes(bits uint) lanes { return lanes{e.header().Before(int(wordsOf(bits))), bits} }

// inEntry says in c that the ring of a state is no ring, but the first word of the lanes of a partsEntry. A
// field of its own would make a state larger, and the first call in a window slower under every algorithm.
const inEntry = window.Shifts

func (s state) shift() int64 { return s.c % window.Shifts }

// lanesOf returns the lanes of s.
func (r *slidingParts) lanesOf(s state) lanes {
	first := (*uint64)(unsafe.Pointer(s.ring))
	switch {
	case s.c&inEntry != 0:
		return lanes{first, r.laneBits()}
	case first == nil:
		return lanes{}
	}
	return s.ring.lanes()
}

// packing says where the word of a partsEntry keeps its state.
func (r *slidingParts) packing() *partsLayout { return (*partsLayout)(&r.layout) }

// laneBits returns the bits of a lane of a partsEntry.
func (r *slidingParts) laneBits() uint { return uint(r.layout.bits) }

func (r *slidingParts) horizon() horizon {
	size := int64(r.Window)
	return horizon{resolution: r.ticks.Length, remembers: size - r.ticks.Length, looksBack: size, life: size, dated: true}
}

// begin returns a state with lanes for Count units. They grow if units are spent past it.
func (r *slidingParts) begin(shift int64) state {
	bits := bitsFor(uint64(r.Count))
	if r.chargeDenied {
		bits = fullLane // a part may hold Count units of denied attempts, in addition to those before it
	}
	return state{c: shift, ring: newLanes(bits)}
}

func (r *slidingParts) early(shift int64) int64 { return shift * r.ticks.Step }

func (r *slidingParts) needsRoom(s state, q query, res result) bool {
	if res != admitted || q.n <= 0 {
		return false
	}
	bits := r.lanesOf(s).bits
	if bitsFor(uint64(s.b)+uint64(q.n)) <= bits {
		return false // whatever of b still counts
	}
	return bitsFor(r.position(s, q.at).used+uint64(q.n)) > bits
}

// grown returns a copy of g with full lanes.
func (r *slidingParts) grown(g *ring) *ring {
	next := newLanes(fullLane)
	next.lanes().copy(g.lanes())
	return next
}

func (r *slidingParts) shrunk(*ring) *ring { return nil }

// A partsPosition is a state of slidingParts as a query finds it.
type partsPosition struct {
	part         int64  // in which the query is decided: no earlier than the newest part of the state
	turned       int    // how many parts that is after it
	used         uint64 // units that count in that part
	now, elapsed int64  // the part in which the instant of the query lies, and the time since it began
}

// position returns the position of a query at an instant. An empty state starts no earlier than the floor.
func (r *slidingParts) position(s state, at int64) (p partsPosition) {
	p.now, p.elapsed = r.locate(at, s.shift())
	if s.b == 0 {
		p.part = p.now
		if start := r.clampToFloor(at); start > at {
			p.part, _ = r.ticks.Locate(start, s.shift())
		}
		return p
	}
	p.part, p.used = s.a, uint64(s.b)
	if p.now > s.a {
		p.part, p.turned = p.now, int(min(uint64(p.now)-uint64(s.a), window.MaxParts))
		p.used -= r.lanesOf(s).sumFrom(r.lanesAfter(p.turned))
		if p.turned >= int(r.ticks.Life) {
			p.used = 0
		}
	}
	return p
}

// lanesAfter returns how many lanes count once that many parts more have begun.
func (r *slidingParts) lanesAfter(turned int) int { return max(0, int(r.ticks.Life)-1-turned) }

// locate returns the part in which an instant lies, and the time since it began. It divides only for the
// first call in a part: rule.index remembers that part, under a shift of 0, for the other calls.
func (r *slidingParts) locate(at, shift int64) (part, elapsed int64) {
	index, elapsed, ok := r.within(at)
	if !ok {
		index, elapsed = (*rule)(r).locate(r.ticks.Length, at)
	}
	return r.ticks.Shift(index, elapsed, shift)
}

// within reports whether an instant lies in the part that rule.index remembers, and how long after it began.
func (r *slidingParts) within(at int64) (index, elapsed int64, ok bool) {
	index = r.index.Load()
	begin := index * r.ticks.Length
	elapsed = at - begin
	return index, elapsed, at >= begin && uint64(elapsed) < uint64(r.ticks.Length)
}

// newest returns the units of the newest part of s.
func (r *slidingParts) newest(s state) uint64 { return uint64(s.b) - r.lanesOf(s).sumFrom(0) }

// counted returns how many of used units count. Of attempts that were denied and charged, no more than
// Count count.
func (r *slidingParts) counted(used uint64) int64 {
	if r.chargeDenied {
		return int64(min(used, uint64(r.Count)))
	}
	return int64(min(used, math.MaxInt64)) // Commits under other limits may have spent more
}

func (r *slidingParts) admits(s state, q query) bool {
	return r.admitsAt(r.position(s, q.at), q.needs())
}

func (r *slidingParts) admitsAt(p partsPosition, n int64) bool {
	return r.satisfiable(n) && n <= r.Count-r.counted(p.used)
}

// apply charges the lanes themselves.
func (r *slidingParts) apply(s state, q query, res result, m mode) (after state, o outcome, decided result) {
	p := r.position(s, q.at)
	if res == retry {
		res = resultOf(r.admitsAt(p, q.needs()))
	}
	units := q.n
	if res == denied {
		charged := int64(0) // in the part of p
		if q.chargeDenied && p.turned == 0 {
			charged = int64(min(r.newest(s), math.MaxInt64))
		}
		units = r.cost(q, res, charged)
	}
	if res == admitted { // a Commit may spend past Count: keep the sum an int64
		units = int64(min(uint64(units), math.MaxInt64-min(p.used, math.MaxInt64)))
	}
	if m&tells != 0 {
		o = r.outcome(s, p, q, units, res)
	}
	if m&stores != 0 && units > 0 {
		s = r.charged(s, p, units)
	}
	return s, o, res
}

// charged charges units to s at p. It writes to the lanes of s, so its entry must be locked.
func (r *slidingParts) charged(s state, p partsPosition, units int64) (after state) {
	lanes, newest := r.lanesOf(s), uint64(units)
	if p.turned > 0 {
		lanes.turn(p.turned, r.lanesAfter(0), r.newest(s))
	} else if r.chargeDenied {
		newest += r.newest(s)
	}
	s.a, s.b = p.part, int64(p.used+uint64(units))
	if r.chargeDenied { // more than Count units may count: keep the newest Count
		s.b = int64(lanes.keep(newest, uint64(r.Count), r.lanesAfter(0)))
	}
	return s
}

// without returns s without units of the i-th lane, which it takes out of the lane. The entry must be locked.
func (r *slidingParts) without(s state, i int, units uint64) state {
	r.lanesOf(s).take(i, units)
	s.b -= int64(units)
	return s
}

// outcome returns the outcome of q at p, once its units are charged. s is the state before that, and res
// the result of the whole call.
func (r *slidingParts) outcome(s state, p partsPosition, q query, units int64, res result) outcome {
	left := r.Count - r.counted(p.used) - units // below 0 only by units spent past Count, or of denied attempts
	o := outcome{remaining: max(0, left)}
	last, counts := p.part, true
	if units == 0 {
		last, counts = r.lastOf(s, p)
	}
	if counts {
		o.resetAfter = r.ticks.UntilFrom(last, p.now, p.elapsed)
	}
	if needs := q.needs(); res == denied && (!r.satisfiable(needs) || needs > left) { // else another limit denies it
		o.retryAfter = r.retryAfter(s, p, units, needs)
	}
	return o
}

// lastOf returns the newest part of s whose units count at p, and whether there is one.
func (r *slidingParts) lastOf(s state, p partsPosition) (part int64, ok bool) {
	if p.used == 0 {
		return 0, false
	}
	if r.newest(s) > 0 {
		return s.a, true
	}
	lane := r.lanesOf(s).latest(r.lanesAfter(p.turned))
	return s.a - 1 - int64(lane), lane >= 0
}

// retryAfter returns how long n units wait that p, once its units are charged, denies.
func (r *slidingParts) retryAfter(s state, p partsPosition, units, n int64) time.Duration {
	if !r.satisfiable(n) {
		return Never
	}
	freed := p.part // the newest part whose units must come back
	if most := r.Count - n - units; most >= 0 {
		freed = r.freedAt(s, p, p.used-uint64(most))
	}
	return r.ticks.UntilFrom(freed, p.now, p.elapsed)
}

// freedAt returns the part with which the last of that many of the oldest units that count at p is back.
func (r *slidingParts) freedAt(s state, p partsPosition, units uint64) (part int64) {
	return s.a - 1 - int64(r.lanesOf(s).freeing(r.lanesAfter(p.turned), units)) // without a lane, it is s.a
}

// charge charges n units in the newest part, if both the limiter and the key were charged in it last: no
// division, no calls, and no lane is read. used is the units that count then, and elapsed the time since
// the part began. If e is nil, it charges nothing. If it returns retry, it had no effect.
func (r *slidingParts) charge(e *entry, word uint64, at, n int64) (used, elapsed int64, res result) {
	index, elapsed, ok := r.within(at)
	part, elapsed := r.ticks.Shift(index, elapsed, r.packing().shift(word))
	if !ok || r.packing().part(word) != part {
		return 0, 0, retry // the newest part is another; or the entry is locked, dead or no partsEntry
	}
	if used = r.packing().used(word); n > r.Count-used {
		return used, elapsed, denied
	}
	// used is in the low bits, and the sum is at most Count. If another call has changed the word, this
	// fails, and nothing has happened.
	if e != nil && !e.Word.CompareAndSwap(word, word+uint64(n)) {
		return 0, 0, retry
	}
	return used + n, elapsed, admitted
}

// denial returns the outcome of n units that charge has denied for e by that word. It reads the lanes: if ok
// is false, they may be of another state, and the caller must decide again.
func (r *slidingParts) denial(e *entry, word uint64, used, elapsed, n int64) (o outcome, ok bool) {
	// The newest part has units: see pack. It is the part of the call.
	o = outcome{remaining: r.Count - used, retryAfter: Never, resetAfter: r.Window - time.Duration(elapsed)}
	if n <= r.Count {
		last := r.lanesAfter(0) // how many parts count after the newest
		lane := e.lanes(r.laneBits()).freeing(last, uint64(used+n-r.Count))
		o.retryAfter = time.Duration(int64(last-lane)*r.ticks.Length - elapsed)
	}
	return o, e.validate(word)
}

// tryFast is ruleset.tryFast for e, a partsEntry unless its word says otherwise.
func (r *slidingParts) tryFast(e *entry, word uint64, at, n int64, m mode, d, next *Decision) result {
	if res := r.tryNewest(e, word, at, n, m, d, next); res != retry {
		return res
	}
	return r.tryTurn(e, word, at, n, m, d, next)
}

// tryNewest is tryFast where charge serves: in the newest part.
func (r *slidingParts) tryNewest(e *entry, word uint64, at, n int64, m mode, d, next *Decision) result {
	used, elapsed, res := r.charge(nil, word, at, n)
	if res == retry {
		return retry
	}
	// The last of these steps proves that the lanes, if any were read, are of the state of word.
	o, valid := outcome{remaining: r.Count - used, resetAfter: r.Window - time.Duration(elapsed)}, true
	if d != nil && res == denied {
		o, valid = r.denial(e, word, used, elapsed, n)
	}
	if d != nil {
		d.set(&r.Limit, res, o)
	}
	if next != nil {
		o, valid = r.denial(e, word, used, elapsed, d.Remaining+1)
		*next = d.oneMore(o.retryAfter)
	}
	if res == admitted && m&stores != 0 {
		valid = e.Word.CompareAndSwap(word, word+uint64(n)) // as in charge
	}
	if !valid {
		return retry
	}
	return res
}

// tryTurn is tryFast where a new part begins for the key, or for the limiter.
func (r *slidingParts) tryTurn(e *entry, word uint64, at, n int64, m mode, d, next *Decision) result {
	s := r.stateOf(e, word)
	if word&(dead|multi|locked) != 0 || s.b == 0 || !r.packing().holds(at) { // an empty state must begin at the floor
		return retry
	}
	p := r.position(s, at)
	if p.turned == 0 {
		return r.tryNewest(e, word, at, n, m, d, next) // the limiter remembers the part now; a late call takes the slow path
	}
	if n > r.Count-int64(p.used) {
		if d != nil {
			d.set(&r.Limit, denied, r.outcome(s, p, query{at: at, n: n}, 0, denied))
			if next != nil {
				*next = d.oneMore(r.retryAfter(s, p, 0, d.Remaining+1))
			}
		}
		if !e.validate(word) {
			return retry // what was read of the lanes may be torn
		}
		return denied
	}
	if d != nil {
		d.set(&r.Limit, admitted, r.outcome(s, p, query{at: at, n: n}, n, admitted))
	}
	if m&stores == 0 {
		if !e.validate(word) {
			return retry
		}
		return admitted
	}
	if next == nil && p.turned >= int(r.ticks.Life) && r.lanesOf(s).sumFrom(0) == 0 {
		// No lane holds a unit, and none comes to hold one: the units of the newest part count no more.
		// So the word is all that changes. Lanes that another call has written since make the swap fail.
		s.a, s.b = p.part, n
		if !e.Word.CompareAndSwap(word, r.packCharged(s)) {
			return retry
		}
		return admitted
	}
	if !e.tryLock(word) {
		return retry
	}
	// The lock was taken from the word that the lanes were read under: they are of one state.
	s = r.charged(s, p, n)
	if next != nil {
		p.turned, p.used = 0, p.used+uint64(n)
		*next = d.oneMore(r.retryAfter(s, p, 0, d.Remaining+1))
	}
	e.Word.Store(r.packCharged(s))
	return admitted
}

// chargeEntry is ruleset.chargeTried for e, a partsEntry.
func (r *slidingParts) chargeEntry(e *entry, word uint64, at, n int64, m mode) (next uint64, o outcome) {
	if used, elapsed, res := r.charge(nil, word, at, n); res == admitted {
		return word + uint64(n), outcome{remaining: r.Count - used, resetAfter: r.Window - time.Duration(elapsed)}
	}
	s := r.stateOf(e, word) // a new part begins
	p := r.position(s, at)
	o = r.outcome(s, p, query{at: at, n: n}, n, admitted)
	if m&stores != 0 {
		word = r.packCharged(r.charged(s, p, n))
	}
	return word, o
}

func (r *slidingParts) try(s *limitState, at, n int64, _ mode) result {
	now := s.load()
	if r.chargeDenied || now.b == 0 {
		return retry
	}
	p := r.position(now, at)
	return resultOf(n <= r.Count-r.counted(p.used))
}

func (r *slidingParts) chargeTried(s *limitState, at, n int64, m mode) (o outcome) {
	now := s.load()
	p := r.position(now, at)
	if m&tells != 0 {
		o = r.outcome(now, p, query{at: at, n: n}, n, admitted)
	}
	if m&stores != 0 {
		s.store(r.charged(now, p, n))
	}
	return o
}

// stateOf returns the state of e, a partsEntry, given its word.
func (r *slidingParts) stateOf(e *entry, word uint64) state {
	s := r.unpack(word)
	s.c |= inEntry
	s.ring = (*ring)(unsafe.Pointer(e.lanes(r.laneBits()).first))
	return s
}

func (r *slidingParts) unpack(word uint64) state {
	return state{a: r.packing().part(word &^ (dead | multi | locked)), b: r.packing().used(word), c: r.packing().shift(word)}
}

// pack returns the word of s. A state does not fit that only a Commit can have spent past Count, or whose
// newest part has given back all its units: denial relies on it that there are some.
func (r *slidingParts) pack(s state) (word uint64, fits bool) {
	word, fits = r.packing().pack(s.a, s.b, s.shift())
	return word, fits && s.b <= r.Count && (s.b == 0 || r.newest(s) > 0)
}

func (r *slidingParts) packCharged(s state) (word uint64) {
	return r.packing().packCharged(s.a, s.b, s.shift())
}

func (r *slidingParts) empty(word uint64) bool { return r.packing().used(word) == 0 }

func (r *slidingParts) holds(at int64) bool { return r.packing().holds(at) }

func (r *slidingParts) expired(s state, now int64) (since int64, ok bool) {
	p := partsPosition{used: uint64(s.b)}
	last, charged := r.lastOf(s, p)
	if !charged {
		return math.MinInt64, true
	}
	part, _ := r.locate(now, s.shift())
	if part < s.a || r.ticks.Counts(last, part) {
		return 0, false
	}
	return r.ticks.Begins(max(s.a, last+r.ticks.Life), s.shift()), true // at most now, so it fits
}

func (r *slidingParts) reserve(s state, _ *lineage) int64 { return s.a }

func (r *slidingParts) note(*lineage, state, state, int64, result) {}

// giveBack gives units back in the lanes themselves.
func (r *slidingParts) giveBack(s state, _ *lineage, number, units int64) (after state, seen int64, emptied bool) {
	if s.b == 0 {
		return s, 0, false
	}
	switch lane := s.a - 1 - number; {
	case number == s.a:
		s.b -= int64(min(uint64(units), r.newest(s)))
	case 0 <= lane && lane < int64(r.lanesAfter(0)):
		s = r.without(s, int(lane), min(uint64(units), r.lanesOf(s).units(int(lane))))
	} // units of an older part count no more
	return s, r.ticks.Begins(s.a, s.shift()), s.b == 0
}

func (r *slidingParts) history(s state, now int64) (past []charge) {
	if s.b == 0 {
		return nil
	}
	for i := r.lanesAfter(0) - 1; i >= 0; i-- {
		if units := r.lanesOf(s).units(i); units > 0 {
			past = append(past, charge{At: r.latestInstant(s.a-1-int64(i), s.shift(), now), Units: int64(min(units, math.MaxInt64))})
		}
	}
	return append(past, charge{At: r.latestInstant(s.a, s.shift(), now), Units: int64(min(r.newest(s), math.MaxInt64))})
}

// latestInstant returns the latest instant, at most now, of a part. If now is before it, that is its
// beginning.
func (r *slidingParts) latestInstant(part, shift, now int64) int64 {
	return max(r.ticks.Begins(part, shift), min(now, r.ticks.Ends(part, shift)))
}

func (r *slidingParts) replay(s state, past []charge) state {
	for _, c := range past {
		part, _ := r.ticks.Locate(c.At, s.shift())
		s = r.record(s, part, uint64(c.Units))
	}
	return s
}

// record returns s with units charged in a part that is not before its newest one, whatever Count says.
func (r *slidingParts) record(s state, part int64, units uint64) state {
	if bitsFor(uint64(s.b)+min(units, math.MaxUint64-uint64(s.b))) > s.ring.lanes().bits {
		s.ring = r.grown(s.ring)
	}
	if s.b != 0 && part > s.a {
		turned := int(min(uint64(part)-uint64(s.a), window.MaxParts))
		r.lanesOf(s).turn(turned, r.lanesAfter(0), r.newest(s))
		s.b = int64(r.lanesOf(s).sumFrom(0))
	}
	s.a, s.b = part, int64(uint64(s.b)+min(units, math.MaxUint64-uint64(s.b)))
	return s
}

// appendState appends s as a log of buckets is.
func (r *slidingParts) appendState(b []byte, s state) []byte {
	if s.b == 0 {
		return newRecordWriter(b, 0).b
	}
	lanes, count := r.lanesOf(s), 1
	for i := range r.lanesAfter(0) {
		if lanes.units(i) > 0 {
			count++
		}
	}
	w := newRecordWriter(b, count)
	for i := r.lanesAfter(0) - 1; i >= 0; i-- {
		if units := lanes.units(i); units > 0 {
			w.add(s.a-1-int64(i), int64(units))
		}
	}
	w.add(s.a, int64(r.newest(s)))
	return w.b
}

func (r *slidingParts) readState(s state, from *snapshotReader) state {
	first, _ := r.ticks.Locate(math.MinInt64, s.shift())
	last, _ := r.ticks.Locate(math.MaxInt64, s.shift())
	total := uint64(0)
	for _, next := range from.records(first, last) {
		s = r.record(s, next.tick, next.cumulative-total)
		total = next.cumulative
	}
	return s
}
