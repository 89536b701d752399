package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// A wideCounter is a window of a limit too large for one word, just as exact.
//
// Bits of its word (high to low): dead 1 | several 1, never set here | locked 1 |
// generation 39 | low 22.
//
// Invariant: index, prev and base are written only by whoever has locked the
// word, and unlocking begins a generation; so within one they stand still, and
// the window is (index, prev, base+low). An admission is one compare-and-swap
// that adds to low and proves the generation; only the first in a window, and
// the one at which low overflows, take the lock, for four stores. A denial
// writes nothing, and needs only the generation to be the same after it has
// read the window as before. What is read before either proof may be torn: it
// must not be trusted, only survived.
//
// A generation comes again after 2^39 lockings of one key, which take hours; it
// would have to be after precisely so many that a caller goes on.
type wideCounter struct {
	namedCell
	index, prev, base atomic.Int64
}

const (
	lowBits = 22
	lowMask = 1<<lowBits - 1
)

// askWide answers q from a wideCounter.
func (r *rule) askWide(c *wideCounter, q query, d *Decision) (allowed, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("wide.ask", round)
		word, alive := c.current()
		if !alive {
			return false, false
		}
		before := c.window(word)
		m, allowed := r.judge(before, q)
		units := r.cost(q, allowed, m.curr)
		m.curr += units
		store := q.charge && units > 0
		if store && !c.store(word, before, m.window) || !store && !c.sameGeneration(word) {
			continue
		}
		if d != nil {
			r.counted(d, m, q, allowed)
		}
		return allowed, true
	}
}

// quickWide is askWide for the commonest call, as quick is askCounter.
func (r *rule) quickWide(c *wideCounter, at, n int64) (allowed, sure bool) {
	index := r.index.Load()
	elapsed, ok := r.within(index, at)
	word := c.word.Load()
	if !ok || word&(dead|several|locked) != 0 {
		return false, false
	}
	w := c.window(word)
	if w.index != index || w.curr == 0 || uint64(n) > lowMask-word&lowMask {
		return false, false
	}
	if !r.admits(w, elapsed, n) {
		return false, !r.chargeDenied && c.sameGeneration(word)
	}
	return true, c.word.CompareAndSwap(word, word+uint64(n))
}

// window returns the window as word has it.
func (c *wideCounter) window(word uint64) window {
	return window{c.index.Load(), c.prev.Load(), c.base.Load() + int64(word&lowMask)}
}

// sameGeneration reports whether what was read since word is one state.
func (c *wideCounter) sameGeneration(word uint64) bool {
	return (c.word.Load()^word)>>lowBits == 0
}

// store makes after of before, which was read since word, unless the cell has
// changed since.
func (c *wideCounter) store(word uint64, before, after window) bool {
	more := uint64(after.curr) - uint64(before.curr)
	if after.index == before.index && more <= lowMask-word&lowMask {
		return c.word.CompareAndSwap(word, word+more)
	}
	if !c.lock(word) {
		return false
	}
	c.word.Store(c.put(word, after))
	return true
}

// put makes after the window of c, which is locked since word, and returns the
// word that unlocks it: the first of a generation.
func (c *wideCounter) put(word uint64, after window) (next uint64) {
	c.index.Store(after.index)
	c.prev.Store(after.prev)
	c.base.Store(after.curr)
	return (word>>lowBits + 1) << lowBits &^ (dead | several | locked)
}
