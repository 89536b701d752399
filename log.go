package sash

import (
	"math"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/hashmap"
)

// A logEntry is the entry of a key whose only limit is a SlidingLog or SlidingBuckets.
// The two differ in the length of their ticks alone: see window.Ticks.
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
// A call that needs another ring sets resizing by a compare-and-swap. Then no other call
// charges or makes a ring, and those that only read go on with the old ring. One store of
// the pointer makes the new ring the state.
//
// Invariant: the records are in order of their ticks, and no two have the same tick. They
// hold every unit that counts or, where denied attempts are charged, the newest Count of
// these units. So there are at most Count records, and their units stay below 2*Count. A
// multi-limit entry may have more: units spent past Count, and records that have given
// their units back.
type logEntry struct {
	ring atomic.Pointer[ring] // nil: never charged
	entry
}

func newLogEntry(name string) *logEntry { return hashmap.NewIn(name, (*logEntry).header) }

func (e *entry) asLog() *logEntry { return (*logEntry)(e.ownerAt(unsafe.Offsetof(logEntry{}.entry))) }

// decideLog decides q for a log. If other calls change the log in each of its rounds, it
// locks the log instead.
func (rs *ruleset) decideLog(e *logEntry, q query, d *Decision) (allowed, alive bool) {
	r := &rs.rules[0]
	for round := range optimisticRounds {
		atomic.Round("decideLog", round+1)
		word, alive := e.loadUnlocked()
		if !alive {
			return false, false
		}
		v := e.ring.Load().view()
		p, allowed := r.evaluateLog(&v, q)
		p.units = r.cost(q, allowed, p.newestUnits)
		if d != nil {
			r.logDecision(d, &v, &p, q, allowed)
		}
		switch {
		case !q.charge || p.units == 0:
			// Nothing to write. The answer is that of one state if no call has locked
			// the entry since the word was loaded.
			if e.validate(word) {
				return allowed, true
			}
		case word&resizing != 0:
			atomic.Pause(&e.Word) // another call is making room
		case e.tryAppend(word, r, &v, &p):
			return allowed, true
		}
	}
	return rs.decideLocked(&e.entry, q, d)
}

// tryAppend charges p, which is the position of a query in v. It reports false, and has
// charged nothing, if another call has charged the entry since word was loaded, or if
// there was no room. Then it makes room.
func (e *logEntry) tryAppend(word uint64, r *rule, v *ringView, p *logPosition) bool {
	drop, count := r.trim(v, p)
	if count > v.room() {
		e.tryGrow(word, r, v)
		return false
	}
	if !e.tryLock(word) {
		return false
	}
	// The lock was taken from the word that v was read under: v is the state.
	v.without(drop).charging(p.tick, p.merge).charge(p.units)
	e.unlock(word)
	return true
}

// tryGrow replaces the ring of v by a larger one, unless the entry has been charged since
// word was loaded or another call is making room.
func (e *logEntry) tryGrow(word uint64, r *rule, v *ringView) {
	if e.tryBeginResize(word) {
		// From here on no call charges, so the copy is complete. Calls that read go on
		// with the old ring, which stays as it is.
		e.ring.Store(v.grown(r.Count))
		e.unlock(word)
	}
}

// ensureRoom reports whether there is room for the charge of q. If not, it makes room,
// and the caller must look again.
func (e *logEntry) ensureRoom(r *rule, word uint64, q query) bool {
	if word&resizing != 0 {
		atomic.Pause(&e.Word) // another call is making room
		return false
	}
	v := e.ring.Load().view()
	if r.needsGrowth(&v, q) {
		e.tryGrow(word, r, &v)
		return false
	}
	return true
}

// shrink gives back the memory of a ring that is far too large by now. Otherwise a busy
// key would keep the memory of one burst for ever.
func (e *logEntry) shrink(r *rule) {
	word, alive := e.loadUnlocked()
	v := e.ring.Load().view()
	if next := v.shrunk(r.ticks.Life, r.Count); next != nil && alive && e.tryBeginResize(word) {
		// Nothing has been charged since the word was loaded, so v was the state.
		e.ring.Store(next)
		e.unlock(word)
	}
}

// fastCharging returns a charge of n units to g at an instant, for the fast paths, and used,
// the units that are there before it: those that count, if exact is set. Otherwise older ones
// may be among them, as long as n units are admitted nevertheless and have room. So most calls
// look at one old record at most, and drop it.
//
// ok is false of an empty ring, which must begin at the floor, of an instant before the
// newest record, where many records are to be dropped, and where denied attempts are charged.
func (r *rule) fastCharging(g *ring, at, n int64, exact bool) (c charging, used int64, ok bool) {
	const most = 16 // records that are dropped here
	if g == nil || r.chargeDenied {
		return c, 0, false
	}
	tick := r.ticks.Of(at)
	base, newest := unpackBounds(atomic.LoadUint64(&g.bounds))
	last := atomic.LoadInt64(&g.slot(newest).tick)
	total := atomic.LoadUint64(&g.slot(newest).cumulative)
	used = int64(total - atomic.LoadUint64(&g.slot(base).cumulative))
	slot := newest
	if tick != last {
		slot = g.next(newest)
	}
	if tick < last || used == 0 {
		return c, 0, false
	}
	for dropped := 0; (exact || used > r.Count-n || slot == base) && base != newest; dropped++ {
		oldest := g.next(base)
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

// ringAdmitsFast reports whether r admits n units, n > 0, by g, and g has room for them and, if
// exact is set, can tell what they leave. If ok is false, the caller must take the slow path.
func (r *rule) ringAdmitsFast(g *ring, at, n int64, exact bool) (admits, ok bool) {
	c, used, ok := r.fastCharging(g, at, n, exact)
	admits = n <= r.Count-used
	return admits, ok && (!admits || c.hasRoom())
}

// applyRingFast joins to left, unless that is nil, what n units leave that ringAdmitsFast
// has admitted at that instant, with exact set unless left is nil: otherwise there may be too
// many old records to tell what is left. If store is set, it charges them: the entry of g must
// have been locked from the word that g was read under.
func (r *rule) applyRingFast(g *ring, at, n int64, store bool, left *remainder) {
	c, used, _ := r.fastCharging(g, at, n, left != nil)
	if store {
		c.charge(n)
	}
	if left != nil {
		left.join(r, r.Count-used-n, r.ticks.Until(c.tick, at))
	}
}

// tryFastLog is the fast path of decideLog for n units, n > 0, as tryFast is that of
// decideCounter. Unless they are nil, it makes d the decision, and next that on one unit more
// than d leaves.
func (r *rule) tryFastLog(e *entry, at, n int64, d, next *Decision) (allowed, ok bool) {
	word := e.Word.Load()
	if word&(dead|multi|locked|resizing) != 0 {
		return false, false // with multi set, it is no logEntry
	}
	c, used, ok := r.fastCharging(e.asLog().ring.Load(), at, n, d != nil)
	if !ok {
		return false, false
	}
	allowed = n <= r.Count-used
	switch {
	case d == nil:
	case allowed && next == nil:
		*d = Decision{Allowed: true, Limit: r.Limit, Remaining: r.Count - used - n, ResetAfter: r.ticks.Until(c.tick, at)}
	default:
		v, p := c.before(), logPosition{tick: c.tick, used: used}
		if allowed {
			p.units = n
		}
		r.logDecision(d, &v, &p, query{at: at, n: n, next: next}, allowed)
	}
	if !allowed {
		return false, e.validate(word)
	}
	if !c.hasRoom() || !e.tryLock(word) {
		return false, false
	}
	// The lock was taken from the word that the ring was read under: it is the state.
	c.charge(n)
	e.unlock(word)
	return true, true
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

// evaluateLog returns the position of q in v, and whether q is admitted there.
func (r *rule) evaluateLog(v *ringView, q query) (p logPosition, admitted bool) {
	if newest, ok := v.newest(); ok {
		p.tick = max(r.ticks.Of(q.at), newest)
		p.firstLive = v.firstLive(p.tick, r.ticks.Life)
		p.used = r.usedSince(v, p.firstLive)
		if p.merge = p.tick == newest; p.merge {
			p.newestUnits = r.usedSince(v, v.count-1)
		}
	} else {
		p.tick = r.ticks.Of(r.clampToFloor(q.at))
		p.firstLive = v.count
	}
	return p, r.satisfiable(q.n) && q.n <= r.Count-p.used
}

// usedSince returns how many units of the i-th and newer records count against the
// limit. Of attempts that were denied and charged, no more than Count count.
func (r *rule) usedSince(v *ringView, i int) int64 {
	units := min(v.unitsSince(i), math.MaxInt64)
	if r.chargeDenied {
		units = min(units, uint64(r.Count))
	}
	return int64(units)
}

// trim returns how many of the oldest records are dropped when p is charged, and how many
// records there are then.
func (r *rule) trim(v *ringView, p *logPosition) (drop, count int) {
	drop = p.firstLive
	if r.chargeDenied { // more than Count units may count: keep the newest Count
		last := v.count
		if p.merge {
			last--
		}
		for total := v.before(v.count) + uint64(p.units); drop < last && total-v.before(drop+1) >= uint64(r.Count); {
			drop++
		}
	}
	count = v.count - drop
	if !p.merge {
		count++
	}
	return drop, count
}

// needsGrowth reports whether v has no room for the charge of q.
func (r *rule) needsGrowth(v *ringView, q query) bool {
	if v.count < v.room() {
		return false
	}
	p, _ := r.evaluateLog(v, q)
	_, count := r.trim(v, &p)
	return count > v.room()
}

// growRing replaces the ring at g by a larger one, if it has no room for the charge of q.
// The entry of the ring must be locked.
func (r *rule) growRing(g *atomic.Pointer[ring], q query) {
	if v := g.Load().view(); r.needsGrowth(&v, q) {
		g.Store(v.grown(r.Count))
	}
}

// applyRing makes d, unless it is nil, the decision on q, given whether all limits admit
// it. If store is set, it charges q. Then the entry of the ring must be locked, and there
// must be room.
func (r *rule) applyRing(g *ring, q query, admitted, store bool, d *Decision) {
	v := g.view()
	p, _ := r.evaluateLog(&v, q)
	p.units = r.cost(q, admitted, p.newestUnits)
	if admitted { // a Commit may spend past Count: keep the sum an int64
		p.units = int64(min(uint64(p.units), math.MaxInt64-min(v.unitsSince(p.firstLive), math.MaxInt64)))
	}
	if d != nil {
		r.logDecision(d, &v, &p, q, admitted)
	}
	if store && p.units > 0 {
		drop, _ := r.trim(&v, &p)
		v.without(drop).charging(p.tick, p.merge).charge(p.units)
	}
}

// logDecision makes d the decision on q at p, once its units are charged, given whether
// all limits admit it.
func (r *rule) logDecision(d *Decision, v *ringView, p *logPosition, q query, admitted bool) {
	left := r.Count - p.used - p.units // below 0 only by units that no longer count, or were spent past Count
	d.Allowed, d.Limit = admitted, r.Limit
	d.Remaining, d.RetryAfter, d.ResetAfter = max(0, left), 0, r.logResetAfter(v, p, q.at)
	if !admitted && (!r.satisfiable(q.n) || q.n > left) { // else another limit denies it
		d.RetryAfter = r.logRetryAfter(v, p, q.n, q.at)
	}
	if q.next != nil {
		*q.next = *d
		q.next.Allowed, q.next.RetryAfter = false, r.logRetryAfter(v, p, d.Remaining+1, q.at)
	}
}

// logRetryAfter returns how long after now n units are admitted that p, once its units
// are charged, denies.
func (r *rule) logRetryAfter(v *ringView, p *logPosition, n, now int64) time.Duration {
	if !r.satisfiable(n) {
		return Never
	}
	return r.ticks.Until(r.freedAt(v, p, r.Count-n-p.units), now)
}

// freedAt returns the tick of the newest record that must expire before at most units
// units of v count. If units is below 0, it is the tick in which p is charged.
func (r *rule) freedAt(v *ringView, p *logPosition, units int64) int64 {
	switch {
	case units < 0:
		return p.tick
	case p.used > units && v.unitsSince(p.firstLive+1) <= uint64(units):
		return v.tick(p.firstLive) // as mostly: the oldest units that count are enough
	}
	return v.tick(max(0, v.firstWithin(uint64(units))-1))
}

// logResetAfter returns how long after now no unit of v counts, nor of the charge of p.
func (r *rule) logResetAfter(v *ringView, p *logPosition, now int64) time.Duration {
	if p.units > 0 {
		return r.ticks.Until(p.tick, now)
	}
	if last := v.firstWithin(0) - 1; last >= p.firstLive {
		return r.ticks.Until(v.tick(last), now)
	}
	return 0
}

// ringExpired reports whether no unit of v counts at now, and since which instant.
func (r *rule) ringExpired(v *ringView, now int64) (since int64, ok bool) {
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

// ring reads the state of a ringForm.
func (s *snapshotReader) ring(r *rule) *ring {
	count := s.uint()
	if count > math.MaxUint32 {
		s.fail("a log of %d entries", count)
	}
	if count == 0 || s.err != nil {
		return nil
	}
	tick, last := s.int(), r.ticks.Of(math.MaxInt64)
	if tick < r.ticks.Of(math.MinInt64) || tick > last {
		s.fail("an entry at tick %d, which is outside of time", tick)
	}
	var records []record
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
	return newRingOf(records)
}
