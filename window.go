package sash

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/hashmap"
	"github.com/seed-30da4c49/sash/internal/window"
)

// SlidingCounter: window.Counter is its arithmetic. The state of a key fits into one word
// under all but very large limits. Otherwise it is a wideEntry. Several limits keep it in
// a limitState.

// position returns w advanced to t. An empty w starts no earlier than the floor.
//
// It divides only for the first call in a window: rule.index remembers that window for
// the other calls.
func (r *rule) position(w window.State, t int64) window.Position {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, t)
	if !ok {
		index, elapsed = r.locate(t)
	}
	if w.Index == index && w.Curr > 0 {
		return window.Position{State: w, Offset: elapsed} // as of most calls
	}
	if w.Empty() {
		w.Index = index
		if start := r.clampToFloor(t); start > t {
			w.Index, _ = r.counter.Locate(start)
		}
	}
	return r.counter.Advance(w, t, index, elapsed)
}

// locate returns the window in which t lies, and the time since it began. It remembers
// the window, unless it is the first one, whose beginning an int64 cannot hold.
func (r *rule) locate(t int64) (index, elapsed int64) {
	index, elapsed = r.counter.Locate(t)
	if r.counter.Begins(index) <= t {
		r.index.Store(index)
	}
	return index, elapsed
}

// admits reports whether r admits q by w.
func (r *rule) admits(w window.State, q query) bool {
	p := r.position(w, q.at)
	return q.n >= 0 && r.counter.Admits(p.State, p.Elapsed(), q.n)
}

// charge charges q to w, given whether all limits admit it, and returns the units
// charged. A Commit may spend past Count, up to the end of int64.
func (r *rule) charge(w *window.State, q query, admitted bool) (units int64) {
	units = r.cost(q, admitted, w.Curr)
	w.Curr = int64(min(uint64(w.Curr)+uint64(units), math.MaxInt64))
	return units
}

// counterDecision makes d the decision on q at p, which q has been charged to, given
// whether all limits admit it.
func (r *rule) counterDecision(d *Decision, p window.Position, q query, admitted bool) {
	d.Allowed, d.Limit = admitted, r.Limit
	d.Remaining, d.RetryAfter, d.ResetAfter = r.counter.Remaining(p), 0, r.counter.ResetAfter(p)
	if !admitted { // it stays 0 if another limit denies q
		d.RetryAfter = r.counter.RetryAfter(p, q.n)
	}
	if q.next != nil {
		*q.next = *d
		q.next.Allowed, q.next.RetryAfter = false, r.counter.RetryAfter(p, d.Remaining+1)
	}
}

// applyWindow returns w with q charged to it, given whether all limits admit q. It makes
// d, unless it is nil, the decision on q.
func (r *rule) applyWindow(w window.State, q query, admitted bool, d *Decision) window.State {
	p := r.position(w, q.at)
	r.charge(&p.State, q, admitted)
	if d != nil {
		r.counterDecision(d, p, q, admitted)
	}
	return p.State
}

// decideCounter decides q for a counter in one word. Rotation and charge are one
// compare-and-swap, and a denial writes nothing. It is lock-free, except that it waits
// for calls that take several keys at once.
func (r *rule) decideCounter(e *entry, q query, d *Decision) (allowed, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("decideCounter", round)
		word := e.Word.Load()
		if word&locked != 0 {
			word, _ = e.loadUnlocked()
		}
		if word&dead != 0 {
			return false, false
		}
		// The word is the whole state. All that follows is computed from it alone.
		p := r.position(r.layout.unpack(word), q.at)
		allowed := q.n >= 0 && r.counter.Admits(p.State, p.Elapsed(), q.n)
		units := r.charge(&p.State, q, allowed)
		if q.charge && units > 0 && !e.Word.CompareAndSwap(word, r.layout.pack(p.State)) {
			continue // another call has changed the word, so decide again by its new value
		}
		if d != nil {
			r.counterDecision(d, p, q, allowed)
		}
		return allowed, true
	}
}

// tryFast is the fast path of decideCounter. It charges n units, n > 0, in the window in
// which both the limiter and the key were charged last: no division and no calls. If ok is
// false, it had no effect, and the caller must take the slow path.
func (r *rule) tryFast(e *entry, at, n int64) (allowed, ok bool) {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	if !ok {
		return false, false // the limiter was charged last in another window
	}
	word := e.Word.Load()
	if !r.layout.isOf(word, index) {
		return false, false // the key was, or the entry is locked, dead or no counter
	}
	if !r.counter.Admits(r.layout.unpack(word), elapsed, n) {
		return false, !r.chargeDenied // a denial that costs nothing writes nothing
	}
	// curr is in the low bits, and Admits has shown that the sum is at most Count. If
	// another call has changed the word, this fails, and nothing has happened.
	return true, e.Word.CompareAndSwap(word, word+uint64(n))
}

// takeFast is tryFast for a Take with nothing in the previous window. It returns what is left,
// and the time since the window began. If left is below 0, the units are denied, and left is
// what there would have to be more. A processor has the loads of one or two calls under way
// while it waits for the memory of another, so each instruction less counts when there are
// many keys.
func (r *rule) takeFast(e *entry, at, n int64) (left, elapsed int64, ok bool) {
	index := r.index.Load()
	elapsed, ok = r.counter.Within(index, at)
	word := e.Word.Load()
	curr, alone := r.layout.currAlone(word, index)
	left = r.counter.Count - curr - n
	switch {
	case !ok || !alone:
		return 0, 0, false
	case left < 0:
		return left, elapsed, !r.chargeDenied
	}
	return left, elapsed, e.Word.CompareAndSwap(word, word+uint64(n))
}

// deniedFast returns the decision on n units that takeFast has found denied.
func (r *rule) deniedFast(left, elapsed, n int64) Decision {
	p := window.Position{State: window.State{Curr: r.counter.Count - n - left}, Offset: elapsed}
	return Decision{Limit: r.Limit, Remaining: left + n, RetryAfter: r.counter.RetryAfterDenial(p, n), ResetAfter: r.counter.ResetAfter(p)}
}

// decideFast is tryFast that makes d the decision and next, unless it is nil, that on one
// unit more than d leaves. It charges the units only if charge is set. The two are apart
// since Allow would pay for the decision that it does not need.
func (r *rule) decideFast(e *entry, at, n int64, charge bool, d, next *Decision) (ok bool) {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	word := e.Word.Load()
	if !ok || !r.layout.isOf(word, index) {
		return false
	}
	w := r.layout.unpack(word)
	if !r.counter.Admits(w, elapsed, n) {
		r.fastDecision(d, next, window.Position{State: w, Offset: elapsed}, n, false)
		return !r.chargeDenied
	}
	if charge && !e.Word.CompareAndSwap(word, word+uint64(n)) {
		return false
	}
	w.Curr += n
	r.fastDecision(d, next, window.Position{State: w, Offset: elapsed}, n, true)
	return true
}

// windowAdmitsFast reports whether r admits n units, n > 0, by w. It serves the window in which
// both the limiter and the key were charged last. Otherwise ok is false.
func (r *rule) windowAdmitsFast(w window.State, at, n int64) (admits, ok bool) {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	if !ok || w.Index != index || w.Curr == 0 {
		return false, false
	}
	return r.counter.Admits(w, elapsed, n), !r.chargeDenied
}

// fastPosition returns the position at t of w, which a fast path has found or made.
func (r *rule) fastPosition(w window.State, t int64) window.Position {
	elapsed, ok := r.counter.Within(w.Index, t)
	if !ok {
		elapsed = 0 // w is torn, and what follows from it is not used
	}
	return window.Position{State: w, Offset: elapsed}
}

// joinWindow joins to left what w leaves under r at t, once a fast path has charged it. It
// does nothing if left is nil.
func (left *remainder) joinWindow(r *rule, w window.State, t int64) {
	if left != nil {
		p := r.fastPosition(w, t)
		left.join(r, r.counter.Remaining(p), r.counter.ResetAfterCharge(p.Offset))
	}
}

// fastDecision makes d the decision on n units at p, which has them if they are allowed. It
// makes next, unless it is nil, the decision on one unit more than that leaves. It is
// counterDecision in the window in which the limiter and the key were charged last.
func (r *rule) fastDecision(d, next *Decision, p window.Position, n int64, allowed bool) {
	d.Allowed, d.Limit = allowed, r.Limit
	d.Remaining, d.RetryAfter, d.ResetAfter = r.counter.Remaining(p), 0, r.counter.ResetAfterCharge(p.Offset)
	if !allowed {
		d.RetryAfter = r.counter.RetryAfterDenial(p, n)
		if p.Curr == 0 {
			d.ResetAfter = r.counter.ResetAfter(p)
		}
	}
	if next != nil {
		*next = *d
		next.Allowed, next.RetryAfter = false, r.counter.RetryAfterDenial(p, d.Remaining+1)
	}
}

// A wideEntry is the entry of a counter whose limit is too large for one word. It is just
// as exact.
//
// Bits of its word (high to low): dead 1 | multi 1, never set here | locked 1 |
// version 39 | low 22.
//
// Invariant: index, prev and base are written only by a goroutine that holds the lock,
// and unlocking begins a version. So within one version they stand still, and the state
// is (index, prev, base+low).
//
// A charge is one compare-and-swap that adds to low, and proves the version. Only the
// first charge in a window, and one at which low overflows, take the lock, for four
// stores. A denial writes nothing. It only needs the version to be the same after it has
// read the state as before. What is read before either proof may be torn, that is, of several
// states: it must not be used, and must not cause a panic.
//
// A version comes again after 2^39 lockings of one key, which take hours. A call is misled
// only if exactly 2^39 lockings happen while it is suspended.
type wideEntry struct {
	index, prev, base atomic.Int64
	entry
}

func newWideEntry(name string) *wideEntry { return hashmap.NewIn(name, (*wideEntry).header) }

func (e *entry) asWide() *wideEntry {
	return (*wideEntry)(e.ownerAt(unsafe.Offsetof(wideEntry{}.entry)))
}

const (
	lowBits = 22
	lowMask = 1<<lowBits - 1
)

// lowRoom returns how many more units the low bits of word can hold.
func lowRoom(word uint64) uint64 { return lowMask - word&lowMask }

// sameVersion reports whether a and b are words of one version, of the same lock and life.
func sameVersion(a, b uint64) bool { return (a^b)>>lowBits == 0 }

// nextWideVersion returns the first word of the version after that of word, unlocked.
func nextWideVersion(word uint64) uint64 {
	return (word>>lowBits + 1) << lowBits &^ (dead | multi | locked)
}

// decideWide decides q for a wideEntry.
func (r *rule) decideWide(e *wideEntry, q query, d *Decision) (allowed, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("decideWide", round)
		word, alive := e.loadUnlocked()
		if !alive {
			return false, false
		}
		before := e.state(word)
		p := r.position(before, q.at)
		allowed := q.n >= 0 && r.counter.Admits(p.State, p.Elapsed(), q.n)
		units := r.charge(&p.State, q, allowed)
		// Until here the state may be torn. tryStore and validateVersion prove that it
		// is not: the version has not changed since word was loaded.
		if q.charge && units > 0 {
			if !e.tryStore(word, before, p.State) {
				continue
			}
		} else if !e.validateVersion(word) {
			continue
		}
		if d != nil {
			r.counterDecision(d, p, q, allowed)
		}
		return allowed, true
	}
}

// fastWideState returns the word of e and its state as a wideEntry, for the fast paths. ok is
// false if it was not charged last in the window of number index, and if it is locked or dead.
// An empty state is left to the slow path: it must start at the floor.
func (e *entry) fastWideState(index int64) (w window.State, word uint64, ok bool) {
	word = e.Word.Load()
	if word&(dead|multi|locked) == 0 { // else it may not even be a wideEntry
		w = e.asWide().state(word)
	}
	return w, word, w.Index == index && w.Curr > 0
}

// tryFastWide is the fast path of decideWide, as tryFast is that of decideCounter. Unless
// they are nil, it makes d the decision, and next that on one unit more than d leaves.
func (r *rule) tryFastWide(e *entry, at, n int64, d, next *Decision) (allowed, ok bool) {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	w, word, recent := e.fastWideState(index)
	if !ok || !recent || uint64(n) > lowRoom(word) {
		return false, false
	}
	if !r.counter.Admits(w, elapsed, n) {
		if d != nil {
			r.fastDecision(d, next, window.Position{State: w, Offset: elapsed}, n, false)
		}
		return false, !r.chargeDenied && e.asWide().validateVersion(word)
	}
	if !e.Word.CompareAndSwap(word, word+uint64(n)) {
		return false, false
	}
	if d != nil {
		w.Curr += n
		r.fastDecision(d, next, window.Position{State: w, Offset: elapsed}, n, true)
	}
	return true, true
}

// takeFastWide is takeFast for a wideEntry.
func (r *rule) takeFastWide(e *entry, at, n int64) (left, elapsed int64, ok bool) {
	index := r.index.Load()
	elapsed, ok = r.counter.Within(index, at)
	w, word, recent := e.fastWideState(index)
	left = r.counter.Count - w.Curr - n
	switch {
	case !ok || !recent || w.Prev != 0 || uint64(n) > lowRoom(word):
		return 0, 0, false
	case left < 0:
		return left, elapsed, !r.chargeDenied && sameVersion(e.Word.Load(), word)
	}
	return left, elapsed, e.Word.CompareAndSwap(word, word+uint64(n))
}

// state returns the state of e, given its word. It may be torn until the version of the
// word has been validated.
func (e *wideEntry) state(word uint64) window.State {
	return window.State{Index: e.index.Load(), Prev: e.prev.Load(), Curr: e.base.Load() + int64(word&lowMask)}
}

// validateVersion reports whether all that was read since word was loaded is one state.
func (e *wideEntry) validateVersion(word uint64) bool { return sameVersion(e.Word.Load(), word) }

// tryStore replaces before, which was read since word was loaded, by after. It reports
// false, and has changed nothing, if the entry has changed since.
func (e *wideEntry) tryStore(word uint64, before, after window.State) bool {
	more := uint64(after.Curr) - uint64(before.Curr)
	if after.Index == before.Index && more <= lowRoom(word) {
		return e.Word.CompareAndSwap(word, word+more)
	}
	if !e.tryLock(word) {
		return false
	}
	e.Word.Store(e.put(word, after))
	return true
}

// put makes after the state of e, which has been locked from word, and returns the word
// that unlocks it. A call that reads in between finds the lock, or another version
// afterwards. So the order of the stores does not matter.
func (e *wideEntry) put(word uint64, after window.State) (next uint64) {
	e.index.Store(after.Index)
	e.prev.Store(after.Prev)
	e.base.Store(after.Curr)
	return nextWideVersion(word)
}

// appendWindow appends the state of a windowForm.
func appendWindow(b []byte, w window.State) []byte {
	b = binary.AppendUvarint(b, uint64(w.Prev))
	b = binary.AppendUvarint(b, uint64(w.Curr))
	if !w.Empty() {
		b = binary.AppendVarint(b, w.Index)
	}
	return b
}

// window reads the state of a windowForm.
func (s *snapshotReader) window(r *rule) window.State {
	w := window.State{Prev: s.count(), Curr: s.count()}
	if w.Empty() {
		return w
	}
	w.Index = s.int()
	first, _ := r.counter.Locate(math.MinInt64)
	last, _ := r.counter.Locate(math.MaxInt64)
	if w.Index < first || w.Index > last || w.Index == first && w.Prev > 0 {
		s.fail("a window of number %d, which is outside of time", w.Index)
		return window.State{}
	}
	return w
}
