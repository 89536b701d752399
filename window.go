package sash

import (
	"encoding/binary"
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// SlidingCounter: window.Counter is its arithmetic. The state of a key fits into one word
// under all but very large limits. Otherwise, and under several limits, it is in a limitState.

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

// locate returns the window in which t lies, and the time since it began. It remembers the
// window, unless that is the first of all, whose beginning an int64 cannot hold, or has no epoch.
func (r *rule) locate(t int64) (index, elapsed int64) {
	index, elapsed = r.counter.Locate(t)
	if r.counter.Begins(index) <= t && (!r.inWord || r.layout.holds(t)) {
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
// for calls that take several keys at once. If it charges, e must hold a charge at that instant:
// see ruleset.holds.
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
		if q.charge && units > 0 && !e.Word.CompareAndSwap(word, r.layout.packCharged(p.State)) {
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
