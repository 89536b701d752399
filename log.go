package sash

import (
	"math"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/hashmap"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A logEntry is the entry of a key whose only limit is a SlidingLog or SlidingBuckets. Its ring lies
// directly in front of the entry, so a call reads both at once.
//
// Bits of its word (high to low): dead 1 | multi 1, never set here | locked 1 |
// resizing 1 | version 60.
//
// A call loads the word, reads the ring, and decides.
//   - If it charges nothing, its answer counts once the word has been validated.
//   - If it charges, it locks the entry by a compare-and-swap from the word that it has
//     loaded, which proves the same. It writes, and unlocks under the next version.
//
// So a denial takes no lock, unless it has lost optimisticRounds races. What is read
// before either proof may be torn: it must not be trusted, only survived.
//
// A ring never gets larger, and it is in one object with the entry. So a log that needs more room is
// replaced by another: see generation.resizeLog.
//
// Invariant: the records are in order of their ticks, and no two have the same tick. They
// hold every unit that counts or, where denied attempts are charged, the newest Count of
// these units. So the charges under this limit leave at most Count records, and less than
// 2*Count units. A ring may hold more: what it took over from other limits. The ring of a multi-limit
// entry may also hold units spent past Count, and records that have given their units back.

// newLogEntry returns a logEntry with a copy of name and room for that many records. It holds the records
// of v.
func newLogEntry(v ringView, room int, name string) *entry {
	e := entryOf(hashmap.NewAfter(wordsOfRing(room), name))
	e.ring().slots = uint32(room + 1)
	v.copyTo(e.ring())
	return e
}

// ring returns the ring of e, a logEntry.
func (e *entry) ring() *ring { return (*ring)(unsafe.Pointer(e.header().Before(ringWords))) }

// slidingLog is the algorithm of SlidingLog and SlidingBuckets. The state of a key is a ring. The two
// differ in the length of their ticks alone: see window.Ticks.
type slidingLog rule

func (r *slidingLog) horizon() horizon {
	if r.Algorithm != SlidingBuckets {
		size := int64(r.Window)
		return horizon{resolution: 1, remembers: size, looksBack: size, life: size, dated: true}
	}
	life := int64(window.Wait(0, uint64(r.ticks.Life)*uint64(r.ticks.Length)))
	return horizon{resolution: r.ticks.Length, remembers: (r.ticks.Life - 1) * r.ticks.Length, looksBack: life, life: life, dated: true}
}

func (r *slidingLog) admits(s state, q query) bool {
	v := s.ring.view()
	_, res := r.evaluate(&v, q, retry)
	return res == admitted
}

// apply charges q to the ring itself.
func (r *slidingLog) apply(s state, q query, res result, m mode) (after state, o outcome, decided result) {
	v := s.ring.view()
	p, res := r.evaluate(&v, q, res)
	if res == admitted { // a Commit may spend past Count: keep the sum an int64
		p.units = int64(min(uint64(p.units), math.MaxInt64-min(v.unitsSince(p.firstLive), math.MaxInt64)))
	}
	if m&tells != 0 {
		o = r.outcome(&v, &p, q, res)
	}
	if m&stores != 0 && p.units > 0 {
		drop, _ := r.trim(&v, &p)
		v.without(drop).charging(p.tick, p.merge).charge(p.units)
	}
	return s, o, res
}

// fastCharging returns a charge of n units to g at an instant, for the fast paths, and used,
// the units that are there before it: those that count, if exact is set. Otherwise older ones
// may be among them, as long as n units are admitted nevertheless and have room. So most calls
// look at one old record at most, and drop it.
//
// ok is false of an empty ring, which must begin at the floor, of an instant before the
// newest record, where many records are to be dropped, where units were given back deep in the ring, and
// where denied attempts are charged.
func (r *slidingLog) fastCharging(g *ring, at, n int64, exact bool) (c charging, used int64, ok bool) {
	const most = 16 // records that are dropped here
	if g == nil || g.refundWords != 0 || r.chargeDenied {
		return c, 0, false
	}
	tick := r.ticks.Of(at)
	base, newest := unpackBounds(atomic.LoadUint64(&g.bounds))
	last := atomic.LoadInt64(&g.slot(newest).tick)
	total := atomic.LoadUint64(&g.slot(newest).cumulative)
	used = int64(total - atomic.LoadUint64(&g.slot(base).cumulative))
	slot := newest
	if tick != last {
		slot = g.wrap(newest + 1)
	}
	if tick < last || used == 0 {
		return c, 0, false
	}
	for dropped := 0; (exact || used > r.Count-n || slot == base) && base != newest; dropped++ {
		oldest := g.wrap(base + 1)
		if r.ticks.Counts(atomic.LoadInt64(&g.slot(oldest).tick), tick) {
			break
		}
		if dropped == most {
			return c, 0, false
		}
		base, used = oldest, int64(total-atomic.LoadUint64(&g.slot(oldest).cumulative))
	}
	return charging{g, packBounds(base, slot), total, tick}, used, uint64(used) <= uint64(r.Count)
}

// chargeRing is chargeTried for a ring. Without tells, used may include expired units, and o is not
// set.
func (r *slidingLog) chargeRing(g *ring, at, n int64, m mode) (o outcome) {
	c, used, _ := r.fastCharging(g, at, n, m&tells != 0)
	if m&stores != 0 {
		c.charge(n)
	}
	if m&tells != 0 {
		o = outcome{remaining: r.Count - used - n, resetAfter: r.ticks.Until(c.tick, at)}
	}
	return o
}

func (r *slidingLog) try(s *limitState, at, n int64, m mode) result {
	c, used, ok := r.fastCharging(s.ring.Load(), at, n, m&tells != 0)
	admits := n <= r.Count-used
	if !ok || admits && !c.hasRoom() {
		return retry
	}
	return resultOf(admits)
}

func (r *slidingLog) chargeTried(s *limitState, at, n int64, m mode) outcome {
	return r.chargeRing(s.ring.Load(), at, n, m)
}

// tryFast is ruleset.tryFast for e, a logEntry unless its word says otherwise.
func (r *slidingLog) tryFast(e *entry, word uint64, at, n int64, m mode, d, next *Decision) result {
	if word&(dead|multi|locked|resizing) != 0 {
		return retry
	}
	c, used, ok := r.fastCharging(e.ring(), at, n, m&tells != 0)
	admits := n <= r.Count-used
	if !ok || admits && !c.hasRoom() {
		return retry
	}
	switch {
	case d == nil:
	case admits && next == nil:
		*d = Decision{Allowed: true, Limit: r.Limit, Remaining: r.Count - used - n, ResetAfter: r.ticks.Until(c.tick, at)}
	default:
		v, p := c.before(), logPosition{tick: c.tick, used: used}
		if admits {
			p.units = n
		}
		d.set(&r.Limit, resultOf(admits), r.outcome(&v, &p, query{at: at, n: n}, resultOf(admits)))
		if next != nil {
			*next = d.oneMore(r.retryAfter(&v, &p, d.Remaining+1, at))
		}
	}
	if admits && m&stores != 0 {
		if !e.tryLock(word) {
			return retry
		}
		// The lock was taken from the word that the ring was read under: it is the state.
		c.charge(n)
		e.unlock(word)
		return admitted
	}
	if !e.validate(word) {
		return retry
	}
	return resultOf(admits)
}

// A logPosition is a ring as a query finds it.
type logPosition struct {
	tick        int64 // at which the query is decided, no older than the newest record
	firstLive   int   // index of the oldest record that counts
	used        int64 // units that count
	merge       bool  // whether the newest record is of that tick
	newestUnits int64 // the units of that record, if merge is set
	units       int64 // that the query costs
}

// evaluate returns the position of q in v, and its result. That is res or, given retry, what v decides.
func (r *slidingLog) evaluate(v *ringView, q query, res result) (p logPosition, decided result) {
	if newest, ok := v.newest(); ok {
		p.tick = max(r.ticks.Of(q.at), newest)
		p.firstLive = v.firstLive(p.tick, r.ticks.Life)
		p.used = r.usedSince(v, p.firstLive)
		if p.merge = p.tick == newest; p.merge {
			p.newestUnits = r.usedSince(v, v.count-1)
		}
	} else {
		// An empty log starts no earlier than the floor: its past may have been evicted.
		p.tick = r.ticks.Of(r.clampToFloor(q.at))
		p.firstLive = v.count
	}
	if res == retry {
		needs := q.needs()
		res = resultOf(r.satisfiable(needs) && needs <= r.Count-p.used)
	}
	q.chargeDenied = q.chargeDenied && r.chargeDenied
	p.units = r.cost(q, res, p.newestUnits)
	return p, res
}

// usedSince returns how many units of the i-th and newer records count against the
// limit. Of attempts that were denied and charged, no more than Count count.
func (r *slidingLog) usedSince(v *ringView, i int) int64 {
	units := min(v.unitsSince(i), math.MaxInt64)
	if r.chargeDenied {
		units = min(units, uint64(r.Count))
	}
	return int64(units)
}

// trim returns how many of the oldest records are dropped when p is charged, and how many
// records there are then.
func (r *slidingLog) trim(v *ringView, p *logPosition) (drop, count int) {
	drop = p.firstLive
	for r.held && drop < v.count-1 && v.units(drop) == 0 { // as mostly: the oldest units were given back first
		drop++
	}
	if r.chargeDenied { // more than Count units may count: keep the newest Count
		last := v.count
		if p.merge {
			last--
		}
		for total := v.total + uint64(p.units); drop < last && total-v.before(drop+1) >= uint64(r.Count); {
			drop++
		}
	}
	count = v.count - drop
	if !p.merge {
		count++
	}
	return drop, count
}

// costs reports whether any unit is charged to s by q, whose result is res.
func (r *slidingLog) costs(s state, q query, res result) bool {
	v := s.ring.view()
	p, _ := r.evaluate(&v, q, res)
	return p.units > 0
}

func (r *slidingLog) needsRoom(s state, q query, res result) bool {
	v := s.ring.view()
	if v.count < v.room() {
		return false
	}
	p, _ := r.evaluate(&v, q, res)
	_, count := r.trim(&v, &p)
	return p.units > 0 && count > v.room()
}

func (r *slidingLog) grown(g *ring) *ring {
	kept, room := r.larger(g.view())
	return kept.copyRing(room)
}

func (r *slidingLog) shrunk(g *ring) *ring {
	kept, room := r.smaller(g.view())
	if room == 0 {
		return nil
	}
	return kept.copyRing(room)
}

// larger returns what is kept of v in a ring with more room, and that room.
func (r *slidingLog) larger(v ringView) (kept ringView, room int) {
	count, usual := v.keptRecords(), r.Count
	if count < v.count { // records whose units were given back come on top of the Count that may have some
		usual = math.MaxInt64
	}
	return v, ringRoom(count, usual)
}

// smaller returns what is kept of v in a smaller ring, and the room of that. It is 0 if v is not far too
// large.
func (r *slidingLog) smaller(v ringView) (kept ringView, room int) {
	kept = v.current(r.ticks.Life)
	if room = ringRoom(kept.count, r.Count); v.room() <= 4*room {
		return kept, 0
	}
	return kept, room
}

// outcome returns the outcome of q at p, once its units are charged. res is the result of the whole
// call.
func (r *slidingLog) outcome(v *ringView, p *logPosition, q query, res result) outcome {
	left := r.Count - p.used - p.units // below 0 only by units that no longer count, or were spent past Count
	o := outcome{remaining: max(0, left), resetAfter: r.resetAfter(v, p, q.at)}
	if needs := q.needs(); res == denied && (!r.satisfiable(needs) || needs > left) { // else another limit denies it
		o.retryAfter = r.retryAfter(v, p, needs, q.at)
	}
	return o
}

// retryAfter returns how long after now n units are admitted that p, once its units
// are charged, denies.
func (r *slidingLog) retryAfter(v *ringView, p *logPosition, n, now int64) time.Duration {
	if !r.satisfiable(n) {
		return Never
	}
	return r.ticks.Until(r.freedAt(v, p, r.Count-n-p.units), now)
}

// freedAt returns the tick of the newest record that must expire before at most units
// units of v count. If units is below 0, it is the tick in which p is charged.
func (r *slidingLog) freedAt(v *ringView, p *logPosition, units int64) int64 {
	switch {
	case units < 0:
		return p.tick
	case p.used > units && v.unitsSince(p.firstLive+1) <= uint64(units):
		return v.tick(p.firstLive) // as mostly: the oldest units that count are enough
	}
	return v.tick(max(0, v.firstWithin(uint64(units))-1))
}

// resetAfter returns how long after now no unit of v counts, nor of the charge of p.
func (r *slidingLog) resetAfter(v *ringView, p *logPosition, now int64) time.Duration {
	if p.units > 0 {
		return r.ticks.Until(p.tick, now)
	}
	if last := v.firstWithin(0) - 1; last >= p.firstLive {
		return r.ticks.Until(v.tick(last), now)
	}
	return 0
}

func (r *slidingLog) expired(s state, now int64) (since int64, ok bool) {
	v := s.ring.view()
	last := v.firstWithin(0) - 1
	if last < 0 {
		return math.MinInt64, true
	}
	tick, newest, charged := r.ticks.Of(now), v.tick(v.count-1), v.tick(last)
	if tick < newest || r.ticks.Counts(charged, tick) {
		return 0, false
	}
	return max(newest, charged+r.ticks.Life) * r.ticks.Length, true // at most now, so it fits
}

func (r *slidingLog) reserve(s state, _ *lineage) int64 {
	v := s.ring.view()
	return v.tick(v.count - 1)
}

func (r *slidingLog) note(*lineage, state, state, int64, result) {}

// giveBack gives units back in the ring itself or, if they are deep in it, in a copy that has refunds.
func (r *slidingLog) giveBack(s state, _ *lineage, number, units int64) (after state, seen int64, emptied bool) {
	v := s.ring.view()
	if i, found := v.find(number); found {
		if v.refundWords == 0 && v.isDeep(i) && units > 0 {
			s.ring = v.copyRefundable()
			v = s.ring.view()
		}
		emptied = v.giveBack(i, units)
	}
	return s, r.horizon().beginningOf(v.tick(v.count - 1)), emptied
}

func (r *slidingLog) history(s state, now int64) (past []charge) {
	v, h := s.ring.view(), r.horizon()
	for current, i := v.current(r.ticks.Life), 0; i < current.count; i++ {
		units := int64(min(current.units(i), math.MaxInt64))
		if units > 0 || i == current.count-1 {
			past = append(past, charge{At: h.latestInstant(current.tick(i), now), Units: units})
		}
	}
	return past
}

// replay returns a ring of those charges that count at the end of the past; none for none.
func (r *slidingLog) replay(s state, past []charge) state {
	if len(past) == 0 {
		return s
	}
	newest := r.ticks.Of(past[len(past)-1].At)
	var records []record
	var total uint64
	for _, c := range past {
		tick := r.ticks.Of(c.At)
		if !r.ticks.Counts(tick, newest) {
			continue
		}
		if last := len(records) - 1; last < 0 || records[last].tick != tick {
			records = append(records, record{tick: tick})
		}
		total += uint64(c.Units)
		records[len(records)-1].cumulative = total
	}
	s.ring = newRingOf(records)
	return s
}

func (r *slidingLog) appendState(b []byte, s state) []byte {
	v := s.ring.view()
	current := v.current(r.ticks.Life)
	return appendRecords(b, &current)
}

func (r *slidingLog) readState(s state, from *snapshotReader) state {
	if records := from.records(r.ticks.Of(math.MinInt64), r.ticks.Of(math.MaxInt64)); len(records) > 0 {
		s.ring = newRingOf(records)
	}
	return s
}
