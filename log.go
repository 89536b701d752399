package sash

import (
	"math"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// SlidingLog: n more units are admitted at t iff those charged in (t-W, t] and
// n are at most Count together. Its instants are ticks of a nanosecond; longer
// ticks, one for each bucket, make it SlidingBuckets.

// A log is the log of one key: a ring of runs, oldest first.
//
// Bits of its word (high to low): dead 1 | several 1, never set here | locked 1 |
// growing 1 | version 60.
//
// A caller reads the word, reads the ring, and decides. If it charges nothing,
// its answer counts once it sees the word unchanged. If it does, it locks by a
// compare-and-swap from the word it has read, which proves the same, writes,
// and unlocks under a new version. So denials take no lock, and it is held for a
// few stores. What is read before either proof may be torn: it must not be
// trusted, only survived.
//
// Who needs another ring sets growing, in the same way, and then has all the
// time it takes: nobody else charges meanwhile, or makes a ring too, and whoever
// only reads goes on with the old ring until one store of a pointer makes the
// new one the state.
//
// Invariant: the runs are in order of time, one per instant. They hold every unit
// that is live, or, where denied attempts are charged, the newest Count of them.
// So in a log there are never more than Count runs, and their units together stay
// below 2*Count; a compound's may hold more, spent past Count, and runs that have
// given their units back.
type log struct {
	namedCell
	ring atomic.Pointer[ring] // nil: never used
}

// A run is the units charged at one instant.
type run struct {
	at     int64  // in ticks
	before uint64 // ring.total as it was before this run
}

// A ring holds runs, and keeps their running total instead of their units: how
// many units are newer than a run is then one subtraction, and every question
// a binary search. Its fields are accessed atomically.
type ring struct {
	total uint64 // units ever charged, modulo 2^64
	span  uint64 // index of the oldest run << 32 | number of runs: 64 GB of them
	runs  []run  // never resized: a fuller ring is another ring
}

const firstRuns = 2 // room in a key's first ring: 32 bytes

// A view is a ring as one load of its span saw it.
type view struct {
	*ring
	total       uint64
	head, count int
}

func (g *ring) view() view {
	if g == nil {
		return view{ring: &noRuns}
	}
	span := atomic.LoadUint64(&g.span)
	return view{g, atomic.LoadUint64(&g.total), int(span >> 32), int(span & math.MaxUint32)}
}

var noRuns ring

// slot returns the i-th run's place, 0 <= i <= count; that of count is the next
// free one, if there is any.
func (v *view) slot(i int) *run {
	if i += v.head; i >= len(v.runs) {
		i -= len(v.runs)
	}
	return &v.runs[i]
}

func (v *view) at(i int) int64 { return atomic.LoadInt64(&v.slot(i).at) }

// before returns the running total ahead of the i-th run, 0 <= i <= count.
func (v *view) before(i int) uint64 {
	if i == v.count {
		return v.total
	}
	return atomic.LoadUint64(&v.slot(i).before)
}

// since returns how many units the i-th run and the newer ones hold.
func (v *view) since(i int) uint64 { return v.total - v.before(i) }

// newest returns the instant of the newest run, unless there are no units at
// all: then nothing is remembered.
func (v *view) newest() (at int64, ok bool) {
	if v.count == 0 || v.since(0) == 0 {
		return 0, false
	}
	return v.at(v.count - 1), true
}

// live returns the index of the oldest run in (t-span, t], count if none is.
// No run may be newer than t.
func (v *view) live(t, span int64) int {
	if v.count == 0 || v.counts(0, t, span) { // as of most logs that are not full
		return 0
	}
	return v.search(func(i int) bool { return v.counts(i, t, span) })
}

func (v *view) counts(i int, t, span int64) bool { return uint64(t)-uint64(v.at(i)) < uint64(span) }

// holding returns the index of the oldest run since which there are at most
// units; count if only none at all will do.
func (v *view) holding(units uint64) int {
	return v.search(func(i int) bool { return v.since(i) <= units })
}

// search returns the least i in [0, count] for which ok holds, given that it
// holds from there on. It looks at the newest run, then at the oldest and on from
// there in steps that double: on a busy key and on one long idle the answer is
// found at once, and elsewhere in about as many steps as the answer has bits.
func (v *view) search(ok func(i int) bool) int {
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

// askLog answers q from a log. If other calls change the log in each of its rounds, it
// locks the log instead.
func (p *policy) askLog(c *log, q query, d *Decision) (allowed, alive bool) {
	r := &p.rules[0]
	for round := range optimisticRounds {
		atomic.Round("log.ask", round+1)
		word, alive := c.current()
		if !alive {
			return false, false
		}
		v := c.ring.Load().view()
		a, allowed := r.consult(&v, q)
		a.units = r.cost(q, allowed, a.booked)
		if d != nil {
			r.logged(d, &v, &a, q, allowed)
		}
		switch store := q.charge && a.units > 0; {
		case !store:
			if c.unchanged(word) {
				return allowed, true
			}
		case word&growing != 0:
			atomic.Pause(&c.word)
		case c.charge(word, r, &v, &a):
			return allowed, true
		}
	}
	return p.askLocked(&c.cell, q, d)
}

// An account is what a log says to a query.
type account struct {
	at     int64 // the instant it is answered at, no older than the newest run
	live   int   // index of the oldest run that still counts
	used   int64 // units that count
	merge  bool  // whether the newest run is of that instant,
	booked int64 // and the units it holds
	units  int64 // that the query costs
}

// consult returns what v says to q, and whether it is admitted.
func (r *rule) consult(v *view, q query) (a account, allowed bool) {
	if newest, some := v.newest(); some {
		a.at = max(r.tickOf(q.at), newest)
		a.live = v.live(a.at, r.span)
		a.used = r.sum(v, a.live)
		if a.merge = a.at == newest; a.merge {
			a.booked = r.sum(v, v.count-1)
		}
	} else {
		a.at = r.tickOf(r.start(q.at))
		a.live = v.count
	}
	return a, r.possible(q.n) && q.n <= r.Count-a.used
}

// sum returns how many units count of the i-th run and the newer ones.
func (r *rule) sum(v *view, i int) int64 {
	units := min(v.since(i), math.MaxInt64)
	if r.chargeDenied {
		units = min(units, uint64(r.Count))
	}
	return int64(units)
}

// plan returns how many of the oldest runs are dropped as a is booked, and how
// many there are then.
func (r *rule) plan(v *view, a *account) (drop, count int) {
	drop = a.live
	if r.chargeDenied { // more than Count may be live: keep the newest
		last := v.count
		if a.merge {
			last--
		}
		for total := v.total + uint64(a.units); drop < last && total-v.before(drop+1) >= uint64(r.Count); {
			drop++
		}
	}
	count = v.count - drop
	if !a.merge {
		count++
	}
	return drop, count
}

// charge books a, which v says, unless anything was charged since word.
func (c *log) charge(word uint64, r *rule, v *view, a *account) bool {
	drop, count := r.plan(v, a)
	if count > len(v.runs) {
		c.grow(word, r, v)
		return false
	}
	if !c.lock(word) {
		return false
	}
	v.book(a, drop, count)
	c.unlock(word)
	return true
}

// grow puts a ring with more room in the place of v, unless anything was charged
// since word or somebody else is at it.
func (c *log) grow(word uint64, r *rule, v *view) {
	if c.reserve(word) {
		c.ring.Store(r.grown(v))
		c.unlock(word)
	}
}

// roomy reports whether there is room for what q charges. If not, it sees to that,
// and the caller has to look again.
func (r *rule) roomy(c *log, word uint64, q query) bool {
	if word&growing != 0 {
		atomic.Pause(&c.word)
		return false
	}
	v := c.ring.Load().view()
	if r.full(&v, q) {
		c.grow(word, r, &v)
		return false
	}
	return true
}

// makeRoomFor gives the ring in place, which the caller has locked, room for what q
// charges.
func (r *rule) makeRoomFor(place *atomic.Pointer[ring], q query) {
	if v := place.Load().view(); r.full(&v, q) {
		place.Store(r.grown(&v))
	}
}

// full reports whether v has no room for what q charges.
func (r *rule) full(v *view, q query) bool {
	if v.count < len(v.runs) {
		return false
	}
	a, _ := r.consult(v, q)
	_, count := r.plan(v, &a)
	return count > len(v.runs)
}

// answerRing makes d, unless it is nil, the decision on q, given whether all
// limits admit it, and books what it costs if store is set; the ring's cell must
// be locked then.
func (r *rule) answerRing(g *ring, q query, admitted, store bool, d *Decision) {
	v := g.view()
	a, _ := r.consult(&v, q)
	a.units = r.cost(q, admitted, a.booked)
	if admitted { // spent, maybe, past Count: the sum stays an int64
		a.units = int64(min(uint64(a.units), math.MaxInt64-min(v.since(a.live), math.MaxInt64)))
	}
	if d != nil {
		r.logged(d, &v, &a, q, admitted)
	}
	if store && a.units > 0 {
		drop, count := r.plan(&v, &a)
		v.book(&a, drop, count)
	}
}

// grown returns v with room for more.
func (r *rule) grown(v *view) *ring {
	kept := 1
	for i := range v.count {
		if v.wanted(i) {
			kept++
		}
	}
	return v.without(0, capacity(kept, r.Count))
}

// book writes a into the ring, which must have room for count runs, and be v.
func (v *view) book(a *account, drop, count int) {
	if !a.merge {
		slot := v.slot(v.count)
		atomic.StoreInt64(&slot.at, a.at)
		atomic.StoreUint64(&slot.before, v.total)
	}
	atomic.StoreUint64(&v.ring.total, v.total+uint64(a.units))
	if drop > 0 || count != v.count { // else the store would cost as much as it is worth
		atomic.StoreUint64(&v.ring.span, uint64((v.head+drop)%len(v.runs))<<32|uint64(count))
	}
}

// capacity returns the room to make for count runs, of which most is the usual
// maximum: twice as much, so that as many charges come before the next ring as
// there are runs to copy into this one.
func capacity(count int, most int64) int {
	room := max(2*count, firstRuns)
	if int64(count) <= most {
		room = int(min(int64(room), most))
	}
	return room
}

// without returns a ring with room for size runs that holds those of v but for the
// oldest drop.
func (v *view) without(drop, size int) *ring {
	g := &ring{runs: make([]run, 0, size), total: v.total}
	for i := drop; i < v.count; i++ {
		if v.wanted(i) && len(g.runs) < size { // more only if v is torn
			g.runs = append(g.runs, run{v.at(i), v.before(i)})
		}
	}
	g.span, g.runs = uint64(len(g.runs)), g.runs[:size]
	return g
}

// wanted reports whether the i-th run is worth room in another ring: not if it has
// given all back, unless it is the newest, which is the time that the key has seen.
func (v *view) wanted(i int) bool { return i == v.count-1 || v.before(i) != v.before(i+1) }

// shrunk returns a smaller ring, if no call will ever need most of v, not even
// one whose reading is as old as the newest run; else nil.
func (r *rule) shrunk(v *view) *ring {
	live := v.count
	if newest, some := v.newest(); some {
		live = v.live(newest, r.span)
	}
	size := capacity(v.count-live, r.Count)
	if len(v.runs) <= 4*size {
		return nil
	}
	return v.without(live, size)
}

// shrink gives back the memory of a ring that is far too large by now, so that a
// burst does not cost a busy key its memory for ever.
func (c *log) shrink(r *rule) {
	word, alive := c.current()
	v := c.ring.Load().view()
	if next := r.shrunk(&v); next != nil && alive && c.reserve(word) {
		c.ring.Store(next)
		c.unlock(word)
	}
}

// logged makes d the decision on q that a accounts for, given whether all limits
// admit it.
func (r *rule) logged(d *Decision, v *view, a *account, q query, admitted bool) {
	left := r.Count - a.used - a.units // below 0 only by what is not live, or past Count
	*d = Decision{
		Allowed:    admitted,
		Limit:      r.Limit,
		Remaining:  max(0, left),
		ResetAfter: r.emptied(v, a, q.at),
	}
	if admitted && q.ahead {
		q.n = d.Remaining + 1
	}
	switch {
	case admitted && !q.ahead:
	case !r.possible(q.n):
		d.RetryAfter = Never
	case q.n > left: // else another limit denies it
		d.RetryAfter = r.until(r.frees(v, a, r.Count-q.n-a.units), q.at)
	}
}

// frees returns the instant of the run with whose passing no more than units
// count of what v holds; if even that is too much, of what a charges.
func (r *rule) frees(v *view, a *account, units int64) int64 {
	if units < 0 {
		return a.at
	}
	return v.at(max(0, v.holding(uint64(units))-1))
}

// emptied returns how long after now v holds no unit that counts, a's included.
func (r *rule) emptied(v *view, a *account, now int64) time.Duration {
	if a.units > 0 {
		return r.until(a.at, now)
	}
	if last := v.holding(0) - 1; last >= a.live {
		return r.until(v.at(last), now)
	}
	return 0
}

// expired reports whether nothing of v is left at now, and since when.
func (r *rule) expired(v *view, now int64) (since int64, ok bool) {
	last := v.holding(0) - 1
	if last < 0 {
		return math.MinInt64, true
	}
	tick, newest, units := r.tickOf(now), v.at(v.count-1), v.at(last)
	if tick < newest || uint64(tick)-uint64(units) < uint64(r.span) {
		return 0, false
	}
	return max(newest, units+r.span) * r.tick, true // no later than now, so it fits
}
