package sash

import (
	"math"
	"math/bits"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// SlidingCounter, after the approximation in Cloudflare's "How we built rate
// limiting capable of scaling to millions of domains" (2017), in exact integers.
// Time is cut into windows of W, aligned to instant 0. With e the time since
// the current window began, n more units are admitted iff
//
//	prev*(W-e) + (curr+n)*W <= Count*W

// A window is the state of a key: the units charged in window number index, and
// in the one before. Only charges move it on, so it stays at the newest time a
// charge has seen. One with no units at all remembers nothing.
//
// Invariant: prev and curr are at least 0, and at most Count but in a compound,
// where they may hold what was spent past it.
type window struct {
	index      int64 // floor(t/W)
	prev, curr int64
}

// A moment is an instant as a key sees it: in its window, advanced to it. It is
// as small as the compiler keeps in registers.
type moment struct {
	window
	// offset is the time since the window began, in [0, W); or, negative, by how
	// much the reading is older than that, and the instant then is its beginning.
	offset int64
}

func (m moment) elapsed() int64 { return max(m.offset, 0) }

// late returns by how much the reading was older than what the key had seen, at most
// Never.
func (m moment) late() uint64 { return uint64(-min(m.offset, 0)) }

// judge returns the moment at which q finds w, and whether it is admitted.
func (r *rule) judge(w window, q query) (m moment, allowed bool) {
	m = r.advance(w, q.at)
	return m, r.possible(q.n) && r.admits(m.window, m.elapsed(), q.n)
}

// advance moves w on to t. A t older than w is taken for w's beginning, and one
// that holds nothing is no older than the window in which the past is forgotten.
func (r *rule) advance(w window, t int64) moment {
	index, elapsed := r.locate(t)
	if w.prev|w.curr == 0 {
		w.index = index
		if start := r.start(t); start > t {
			w.index, _ = r.locate(start)
		}
	}
	switch {
	case index == w.index:
		return moment{w, elapsed}
	case index < w.index:
		return moment{w, behind(t, w.index*int64(r.Window))}
	default:
		return moment{w.moved(index), elapsed}
	}
}

// moved returns w as it is in the later window of that index.
func (w window) moved(index int64) window {
	if index-1 == w.index {
		return window{index, w.curr, 0}
	}
	return window{index: index}
}

// behind returns t-start for a t before start, at least -Never.
func behind(t, start int64) int64 {
	return -int64(min(uint64(start)-uint64(t), uint64(Never)))
}

// locate returns in which window t lies, and how far. It divides only for the
// first call in a window: index remembers which that was.
func (r *rule) locate(t int64) (index, elapsed int64) {
	index = r.index.Load()
	if elapsed, ok := r.within(index, t); ok {
		return index, elapsed
	}
	index, elapsed = divide(t, int64(r.Window))
	if index*int64(r.Window) <= t { // not the first window, of which int64 holds only the end
		r.index.Store(index)
	}
	return index, elapsed
}

// within returns how far into the window of the given index t lies, if it does.
// The window must begin at an instant that int64 holds.
func (r *rule) within(index, t int64) (elapsed int64, ok bool) {
	begin := index * int64(r.Window)
	elapsed = t - begin
	return elapsed, t >= begin && uint64(elapsed) < uint64(r.Window)
}

// divide returns floor(t/d) and what is left, for d > 0.
func divide(t, d int64) (quotient, rest int64) {
	quotient = t / d
	if rest = t - quotient*d; rest < 0 {
		quotient, rest = quotient-1, rest+d
	}
	return quotient, rest
}

// admits reports whether n more units fit into w after elapsed of it. n must be
// at least 0, and at most Count if w may hold more than that.
func (r *rule) admits(w window, elapsed, n int64) bool {
	room := r.Count - w.curr - n
	if room < 0 || w.prev == 0 {
		return room >= 0
	}
	hi, lo := bits.Mul64(uint64(w.prev), uint64(r.Window)-uint64(elapsed))
	roomHi, roomLo := bits.Mul64(uint64(room), uint64(r.Window))
	return hi < roomHi || hi == roomHi && lo <= roomLo
}

// counted makes d the decision on q, which found m and has been charged there,
// given whether all limits admit it.
func (r *rule) counted(d *Decision, m moment, q query, admitted bool) {
	d.Allowed, d.Limit = admitted, r.Limit
	d.Remaining, d.RetryAfter, d.ResetAfter = r.remaining(m), 0, r.reset(m)
	if admitted && q.ahead {
		q.n = d.Remaining + 1
	}
	switch {
	case admitted && !q.ahead:
	case !r.possible(q.n):
		d.RetryAfter = Never
	case !r.admits(m.window, m.elapsed(), q.n): // else another limit denies it
		d.RetryAfter = r.wait(m, q.n)
	}
}

// remaining returns the greatest n that m admits.
func (r *rule) remaining(m moment) int64 {
	room := r.Count - m.curr
	if m.prev == 0 || room <= 0 {
		return max(0, room)
	}
	hi, lo := bits.Mul64(uint64(m.prev), uint64(r.Window)-uint64(m.elapsed()))
	weighted, rest := bits.Div64(hi, lo, uint64(r.Window)) // prev < 2^63: no overflow
	if rest > 0 {
		weighted++
	}
	return max(0, room-int64(weighted))
}

// wait returns how long after m the denied n, 0 <= n <= Count, are admitted: in
// this window, as prev fades; or in the next, where curr has become prev; or at
// the latest when that one ends.
func (r *rule) wait(m moment, n int64) time.Duration {
	size, elapsed := uint64(r.Window), uint64(m.elapsed())
	if from := r.faded(m.prev, r.Count-m.curr-n); from < size {
		return saturate(m.late(), from-elapsed)
	}
	return saturate(m.late(), size-elapsed+r.faded(m.curr, r.Count-n))
}

// faded returns how far into a window its prev weighs no more than room units;
// the whole window if only its end will do.
func (r *rule) faded(prev, room int64) uint64 {
	switch {
	case room < 0:
		return uint64(r.Window)
	case room >= prev:
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(r.Window))
	left, _ := bits.Div64(hi, lo, uint64(prev)) // room < prev: no overflow
	return uint64(r.Window) - left
}

// reset returns how long after m nothing is left of it.
func (r *rule) reset(m moment) time.Duration {
	size, elapsed := uint64(r.Window), uint64(m.elapsed())
	switch {
	case m.curr > 0:
		return saturate(m.late(), size-elapsed+size)
	case m.prev > 0:
		return saturate(m.late(), size-elapsed)
	}
	return 0
}

// saturate returns a+b nanoseconds, but no more than Never. No more may be a.
func saturate(a, b uint64) time.Duration {
	if b > uint64(Never)-a {
		return Never
	}
	return time.Duration(a + b)
}

// faint reports whether nothing of w is left at now, and since when.
func (r *rule) faint(w window, now int64) (since int64, ok bool) {
	if w.prev|w.curr == 0 {
		return math.MinInt64, true
	}
	counting := int64(2) // windows, from that of index on
	if w.curr == 0 {     // all of it was given back
		counting = 1
	}
	// Subtracted as they are: at the ends of time both sums would overflow.
	if index, _ := divide(now, int64(r.Window)); index <= w.index || uint64(index)-uint64(w.index) < uint64(counting) {
		return 0, false
	}
	return (w.index + counting) * int64(r.Window), true // no later than now, so it fits
}

// A layout says where a window's parts stand in a counter's word.
//
// Bits (high to low): dead 1 | several 1, never set here | locked 1 | epoch |
// prev | curr.
//
// prev and curr have as many bits as Count, since they never exceed it, and the
// epoch has the rest. It is the window's index, counted from the earliest
// instant an int64 holds, which is epoch 2: so no epoch ever comes again, at
// any clock reading, and the word 0 is a key never used. A limit whose epochs
// do not fit takes a wideCounter.
//
// Legal transitions: to a word of the same epoch with a greater curr; to one of
// a later epoch; to itself locked, and from there to any of these or back; to
// dead; and from dead nowhere. So a word that is not locked comes back only if
// nothing has happened in between, and a compare-and-swap from it proves that.
type layout struct {
	count uint8 // bits of prev and of curr
	first int64 // index of the earliest window, less 2
}

// layoutOf returns the layout of l, and whether l fits one word.
func layoutOf(l Limit) (layout, bool) {
	first, _ := divide(math.MinInt64, int64(l.Window))
	last, _ := divide(math.MaxInt64, int64(l.Window))
	windows := uint64(last) - uint64(first)
	count := bits.Len64(uint64(l.Count))
	fits := windows < locked && bits.Len64(windows+2)+2*count <= bits.Len64(locked-1)
	return layout{uint8(count), first - 2}, fits
}

func (l layout) pack(w window) uint64 {
	epoch := uint64(w.index - l.first)
	return (epoch<<(l.count&63)|uint64(w.prev))<<(l.count&63) | uint64(w.curr)
}

func (l layout) unpack(word uint64) window {
	mask := uint64(1)<<(l.count&63) - 1
	rest := word >> (l.count & 63)
	return window{
		index: int64(rest>>(l.count&63)) + l.first,
		prev:  int64(rest & mask),
		curr:  int64(word & mask),
	}
}

// askCounter answers q from a window in one word: rotation and admission are
// one compare-and-swap, and a denial writes nothing. It is lock-free, but for
// calls that take several cells at once.
func (r *rule) askCounter(c *cell, q query, d *Decision) (allowed, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("counter.ask", round)
		word := c.word.Load()
		if word&locked != 0 {
			word, _ = c.current()
		}
		if word&dead != 0 {
			return false, false
		}
		m, allowed := r.judge(r.layout.unpack(word), q)
		units := r.cost(q, allowed, m.curr)
		m.curr += units
		if q.charge && units > 0 && !c.word.CompareAndSwap(word, r.layout.pack(m.window)) {
			continue
		}
		if d != nil {
			r.counted(d, m, q, allowed)
		}
		return allowed, true
	}
}

// quick is askCounter for the commonest call: of n units, in the window that
// both the limiter and the key were last seen in. It does not divide, calls nothing, and
// knows early all that depends on the word. It is sure unless the call is another, or
// the word changes meanwhile; then nothing has happened.
func (r *rule) quick(c *cell, at, n int64) (allowed, sure bool) {
	index := r.index.Load()
	elapsed, ok := r.within(index, at)
	if !ok {
		return false, false
	}
	word := c.word.Load()
	if word>>(2*r.layout.count&63) != uint64(index-r.layout.first) { // as that of no word with one of the top bits is
		return false, false
	}
	if !r.admits(r.layout.unpack(word), elapsed, n) {
		return false, !r.chargeDenied
	}
	return true, c.word.CompareAndSwap(word, word+uint64(n))
}
