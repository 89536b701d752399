package sash

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// slidingCounter is the algorithm of SlidingCounter: window.Counter is its arithmetic. The state of
// a key is a window.State. It fits into one word under all but very large limits.
type slidingCounter rule

func (r *slidingCounter) horizon() horizon {
	size := int64(r.Window)
	return horizon{resolution: size, remembers: size, looksBack: window.Plus(size, size), life: size, dated: true, weighted: true}
}

// position returns w advanced to t. An empty w starts no earlier than the floor.
//
// It divides only for the first call in a window: rule.index remembers that window for
// the other calls.
func (r *slidingCounter) position(w window.State, t int64) window.Position {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, t)
	if !ok {
		index, elapsed = (*rule)(r).locate(int64(r.Window), t)
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

func (r *slidingCounter) admits(s state, q query) bool {
	p := r.position(s.window(), q.at)
	return r.admitsAt(p, q.needs())
}

func (r *slidingCounter) admitsAt(p window.Position, n int64) bool {
	return n >= 0 && r.counter.Admits(p.State, p.Elapsed(), n)
}

// apply charges q. A Commit may spend past Count, up to the end of int64.
func (r *slidingCounter) apply(s state, q query, res result, m mode) (after state, o outcome, decided result) {
	p := r.position(s.window(), q.at)
	if res == retry {
		res = resultOf(r.admitsAt(p, q.needs()))
	}
	if units := r.cost(q, res, p.Curr); units > 0 {
		p.Curr = int64(min(uint64(p.Curr)+uint64(units), math.MaxInt64))
		s = stateOfWindow(p.State)
	}
	if m&tells != 0 {
		o = outcome{remaining: r.counter.Remaining(p), resetAfter: r.counter.ResetAfter(p)}
		if res == denied { // it stays 0 if another limit denies q
			o.retryAfter = r.counter.RetryAfter(p, q.needs())
		}
	}
	return s, o, res
}

// charge charges n units in the window in which both the limiter and the key were charged last: no
// division and no calls. The three numbers are prev, curr as after the charge, and the time since the
// window began.
func (r *slidingCounter) charge(e *entry, word uint64, at, n int64) (prev, curr, elapsed int64, res result) {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	w := r.layout.unpack(word)
	if !ok || w.Index != index {
		return 0, 0, 0, retry // one was charged last in another window; or the entry is locked, dead or no counter
	}
	if !r.counter.Admits(w, elapsed, n) {
		if r.chargeDenied {
			return 0, 0, 0, retry
		}
		return w.Prev, w.Curr, elapsed, denied // a denial that costs nothing writes nothing
	}
	// curr is in the low bits, and Admits has shown that the sum is at most Count. If
	// another call has changed the word, this fails, and nothing has happened.
	if e != nil && !e.Word.CompareAndSwap(word, word+uint64(n)) {
		return 0, 0, 0, retry
	}
	return w.Prev, w.Curr + n, elapsed, admitted
}

func (r *slidingCounter) charged(word uint64, at, n int64) (next uint64, o outcome) {
	w := r.layout.unpack(word)
	w.Curr += n
	return word + uint64(n), r.outcomeAfter(w, at)
}

// outcomeAfter returns the outcome of a charge at t, which a fast path has found admitted, and which
// leaves w.
func (r *slidingCounter) outcomeAfter(w window.State, t int64) outcome {
	elapsed, ok := r.counter.Within(w.Index, t)
	if !ok {
		elapsed = 0 // w is torn, and what follows from it is not used
	}
	p := window.Position{State: w, Offset: elapsed}
	return outcome{remaining: r.counter.Remaining(p), resetAfter: r.counter.ResetAfterCharge(elapsed)}
}

func (r *slidingCounter) outcome(prev, curr, elapsed, n int64, res result) outcome {
	p := window.Position{State: window.State{Prev: prev, Curr: curr}, Offset: elapsed}
	o := outcome{remaining: r.counter.Remaining(p), resetAfter: r.counter.ResetAfterCharge(elapsed)}
	if res == denied {
		o.retryAfter = r.retryAfter(prev, curr, elapsed, n, n)
		if curr == 0 {
			o.resetAfter = r.counter.ResetAfter(p)
		}
	}
	return o
}

func (r *slidingCounter) retryAfter(prev, curr, elapsed, _, more int64) time.Duration {
	return r.counter.RetryAfterDenial(window.Position{State: window.State{Prev: prev, Curr: curr}, Offset: elapsed}, more)
}

// try serves the window in which both the limiter and the key were charged last.
func (r *slidingCounter) try(s *limitState, at, n int64, _ mode) result {
	index := r.index.Load()
	elapsed, ok := r.counter.Within(index, at)
	w := s.window()
	if !ok || w.Index != index || w.Curr == 0 || r.chargeDenied {
		return retry
	}
	return resultOf(r.counter.Admits(w, elapsed, n))
}

func (r *slidingCounter) chargeTried(s *limitState, at, n int64, m mode) (o outcome) {
	w := s.window()
	w.Curr += n
	if m&stores != 0 {
		// try has found the window to be the current one, so index and prev stay.
		s.words[2].Store(w.Curr)
	}
	if m&tells != 0 {
		o = r.outcomeAfter(w, at)
	}
	return o
}

func (r *slidingCounter) unpack(word uint64) state { return stateOfWindow(r.layout.unpack(word)) }

// pack says that units past Count do not fit: only a Commit can have spent them.
func (r *slidingCounter) pack(s state) (word uint64, fits bool) {
	word, fits = r.layout.pack(s.window())
	return word, fits && max(s.b, s.c) <= r.Count
}

func (r *slidingCounter) packCharged(s state) (word uint64) { return r.layout.packCharged(s.window()) }

func (r *slidingCounter) empty(word uint64) bool { return word&^locked == 0 }

func (r *slidingCounter) holds(at int64) bool { return r.layout.holds(at) }

func (r *slidingCounter) expired(s state, now int64) (since int64, ok bool) {
	return r.counter.Expired(s.window(), now)
}

func (r *slidingCounter) reserve(s state, _ *lineage) int64 { return s.a }

func (r *slidingCounter) note(*lineage, state, state, int64, result) {}

func (r *slidingCounter) giveBack(s state, _ *lineage, number, units int64) (after state, seen int64, emptied bool) {
	w := s.window()
	if w.Empty() {
		return s, 0, false
	}
	switch number {
	case w.Index:
		w.Curr -= min(units, w.Curr)
	case w.Index - 1:
		w.Prev -= min(units, w.Prev)
	} // units of an older window count no more
	return stateOfWindow(w), r.horizon().beginningOf(w.Index), w.Empty()
}

func (r *slidingCounter) history(s state, now int64) (past []charge) {
	w, h := s.window(), r.horizon()
	if w.Empty() {
		return nil
	}
	if w.Prev > 0 {
		past = append(past, charge{At: h.latestInstant(w.Index-1, now), Units: w.Prev})
	}
	return append(past, charge{At: h.latestInstant(w.Index, now), Units: w.Curr})
}

// replay returns a state that may hold more than Count.
func (r *slidingCounter) replay(_ state, past []charge) state {
	var w window.State
	for i, c := range past {
		switch index, _ := r.counter.Locate(c.At); {
		case i == 0:
			w.Index = index
		case index != w.Index:
			w = w.Rotate(index)
		}
		w.Curr = window.Plus(w.Curr, c.Units)
	}
	return stateOfWindow(w)
}

func (r *slidingCounter) appendState(b []byte, s state) []byte {
	w := s.window()
	b = binary.AppendUvarint(b, uint64(w.Prev))
	b = binary.AppendUvarint(b, uint64(w.Curr))
	if !w.Empty() {
		b = binary.AppendVarint(b, w.Index)
	}
	return b
}

func (r *slidingCounter) readState(_ state, from *snapshotReader) state {
	w := window.State{Prev: from.count(), Curr: from.count()}
	if w.Empty() {
		return state{}
	}
	w.Index = from.int()
	first, _ := r.counter.Locate(math.MinInt64)
	last, _ := r.counter.Locate(math.MaxInt64)
	if w.Index < first || w.Index > last || w.Index == first && w.Prev > 0 {
		from.fail("a window of number %d, which is outside of time", w.Index)
		return state{}
	}
	return stateOfWindow(w)
}
