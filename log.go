package sash

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// SlidingLog: n more units are admitted at t iff those charged in (t-W, t] and
// n are at most Count together.

// A log is the log of one key: a ring of runs, oldest first.
//
// Bits of its word (high to low): dead 1 | locked 1 | growing 1 | version 61.
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
// Invariant: the runs are in order of time, one per instant, none of more than
// Count units. They hold every unit that is live, or the newest Count of them
// where denied attempts were charged past it. So there are never more than
// Count runs, and their units together stay below 2*Count.
type log struct {
	cell
	ring atomic.Pointer[ring] // nil: never used
}

// A run is the units charged at one instant.
type run struct {
	at     int64
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

const growing = locked >> 1

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

// newest returns the instant of the newest run, if there is one.
func (v *view) newest() (at int64, ok bool) {
	if v.count == 0 {
		return 0, false
	}
	return v.at(v.count - 1), true
}

// live returns the index of the oldest run in (t-window, t], count if none is.
// No run may be newer than t.
func (v *view) live(t int64, window time.Duration) int {
	return v.search(func(i int) bool { return uint64(t)-uint64(v.at(i)) < uint64(window) })
}

// holding returns the index of the oldest run since which there are at most
// units; count if only none at all will do.
func (v *view) holding(units uint64) int {
	return v.search(func(i int) bool { return v.since(i) <= units })
}

// search returns the least i in [0, count] for which ok holds, given that it
// holds from there on. The oldest run is looked at first: on a busy key it is
// the answer.
func (v *view) search(ok func(i int) bool) int {
	if v.count == 0 || ok(0) {
		return 0
	}
	low, high := 1, v.count
	for low < high {
		if mid := int(uint(low+high) / 2); ok(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// askLog answers q from a log.
func (r *rule) askLog(c *log, q query, d *Decision) (allowed, alive bool) {
	for {
		word, alive := c.current()
		if !alive {
			return false, false
		}
		v := c.ring.Load().view()
		a := r.consult(&v, q)
		if d != nil {
			r.logged(d, &v, &a, q)
		}
		switch store := q.charge && a.units > 0; {
		case !store:
			if c.unchanged(word) {
				return a.allowed, true
			}
		case word&growing != 0:
			runtime.Gosched()
		case c.charge(word, r, &v, &a):
			return a.allowed, true
		}
	}
}

// unchanged reports whether what was read since word is one state.
func (c *log) unchanged(word uint64) bool { return c.word.Load() == word }

// lock locks the cell if nothing has been charged since word.
func (c *log) lock(word uint64) bool { return c.word.CompareAndSwap(word, word|locked) }

// unlock ends what lock(word) or reserve(word) began.
func (c *log) unlock(word uint64) { c.word.Store((word + 1) &^ (dead | locked | growing)) }

// reserve makes the caller the one to make another ring, if nothing has been
// charged since word and nobody else is at it.
func (c *log) reserve(word uint64) bool {
	return word&growing == 0 && c.word.CompareAndSwap(word, word|growing)
}

// replace puts next in the place of the ring and ends what reserve(word) began.
func (c *log) replace(word uint64, next *ring) {
	c.ring.Store(next)
	c.unlock(word)
}

// An account is what a log says to a query.
type account struct {
	at      int64 // the instant it is answered at, no older than the newest run
	live    int   // index of the oldest run that still counts
	used    int64 // units that count, at most Count
	allowed bool
	units   int64 // that it costs
	merge   bool  // into the newest run
}

// consult answers q from v.
func (r *rule) consult(v *view, q query) account {
	newest, some := v.newest()
	a := account{at: max(q.at, newest)}
	if !some {
		a.at = r.start(q.at)
	}
	a.merge = some && a.at == newest
	a.live = v.live(a.at, r.Window)
	a.used = int64(min(v.since(a.live), uint64(r.Count)))
	a.allowed = 0 <= q.n && q.n <= r.Count-a.used
	if a.allowed {
		a.units = q.n
	} else if r.chargeDenied {
		var already uint64 // at this very instant
		if a.merge {
			already = min(v.since(v.count-1), uint64(r.Count))
		}
		a.units = min(max(q.n, 0), r.Count-int64(already))
	}
	return a
}

// charge books a, which v says, unless anything was charged since word.
func (c *log) charge(word uint64, r *rule, v *view, a *account) bool {
	total := v.total + uint64(a.units)
	drop := a.live
	for drop < v.count && total-v.before(drop+1) >= uint64(r.Count) {
		drop++
	}
	count := v.count - drop
	if !a.merge {
		count++
	}
	if count > len(v.runs) {
		if !c.reserve(word) {
			return false
		}
		next := v.resized(drop, capacity(count, r.Count))
		next.runs[count-1] = run{a.at, v.total}
		next.total, next.span = total, uint64(count)
		c.replace(word, next)
		return true
	}
	if !c.lock(word) {
		return false
	}
	if !a.merge {
		slot := v.slot(v.count)
		atomic.StoreInt64(&slot.at, a.at)
		atomic.StoreUint64(&slot.before, v.total)
	}
	atomic.StoreUint64(&v.ring.total, total)
	atomic.StoreUint64(&v.ring.span, uint64((v.head+drop)%len(v.runs))<<32|uint64(count))
	c.unlock(word)
	return true
}

// capacity returns the room to make for count runs of which there are never
// more than most: twice as much, so that as many charges come before the next
// ring as there are runs to copy into this one.
func capacity(count int, most int64) int {
	return max(count, int(min(max(2*int64(count), firstRuns), most)))
}

// resized returns a ring with room for size runs that holds those of v but the
// oldest drop.
func (v *view) resized(drop, size int) *ring {
	g := &ring{runs: make([]run, size), total: v.total, span: uint64(v.count - drop)}
	for i := drop; i < v.count; i++ {
		g.runs[i-drop] = run{v.at(i), v.before(i)}
	}
	return g
}

// shrink gives back the memory of a ring most of which no call will ever need,
// not even one whose reading is as old as the newest run: so that a burst does
// not cost a busy key its memory for ever.
func (c *log) shrink(r *rule) {
	word, alive := c.current()
	v := c.ring.Load().view()
	newest, _ := v.newest()
	live := v.live(newest, r.Window)
	if size := capacity(v.count-live, r.Count); alive && len(v.runs) > 4*size && c.reserve(word) {
		c.replace(word, v.resized(live, size))
	}
}

// logged makes d the decision on q that a accounts for.
func (r *rule) logged(d *Decision, v *view, a *account, q query) {
	*d = Decision{
		Allowed:   a.allowed,
		Limit:     r.Limit,
		Remaining: max(0, r.Count-a.used-a.units),
	}
	switch {
	case a.allowed:
	case !r.possible(q.n):
		d.RetryAfter = Never
	default:
		d.RetryAfter = until(r.frees(v, a, r.Count-q.n-a.units), r.Window, q.at)
	}
	if a.units > 0 {
		d.ResetAfter = until(a.at, r.Window, q.at)
	} else if a.live < v.count {
		newest, _ := v.newest()
		d.ResetAfter = until(newest, r.Window, q.at)
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

// until returns how long after now a unit taken at the instant at is back, for
// one that is not back yet.
func until(at int64, window time.Duration, now int64) time.Duration {
	if at <= now {
		return window - time.Duration(now-at)
	}
	return saturate(uint64(at)-uint64(now), uint64(window))
}

func (r *rule) idleLog(c *log, now int64) (word uint64, since int64, ok bool) {
	word, alive := c.current()
	v := c.ring.Load().view()
	newest, some := v.newest()
	switch {
	case !alive || word&growing != 0:
		return word, 0, false
	case !some:
		return word, math.MinInt64, true
	}
	old := newest <= now && uint64(now)-uint64(newest) >= uint64(r.Window)
	return word, newest + int64(r.Window), old
}
