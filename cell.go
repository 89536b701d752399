package sash

import (
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"
)

// A cell is what a key holds under one limit. It is one word that callers and
// the janitor agree on, and is all there is to a counter; the cells of other
// kinds begin with it and go on (see kind).
//
// The top bit says in every kind that the cell is dead: it has left, or is about
// to leave, the table, and nothing is ever charged to it again. The bit below
// says that a writer holds the cell, in those kinds that have more than a word
// to write.
//
// Invariant: a cell dies by one compare-and-swap from the word that it was
// judged by, so nothing that was charged in between is lost; and only once dead
// is it removed from the table.
type cell struct{ word atomic.Uint64 }

const (
	dead   = 1 << 63
	locked = dead >> 1
)

// kill makes c dead if its word still is word.
func (c *cell) kill(word uint64) bool { return c.word.CompareAndSwap(word, dead) }

// current returns the word once no writer holds the cell, and whether the cell
// is alive. A writer holds it for a few stores, and never while it allocates or
// waits; but it may lose its core meanwhile, and then gets this caller's. A word
// that is to be killed is better asked of settled.
func (c *cell) current() (word uint64, alive bool) {
	const spins = 64
	for i := 0; ; i++ {
		word = c.word.Load()
		if word&locked == 0 {
			return word, word&dead == 0
		}
		if i >= spins {
			runtime.Gosched()
		}
	}
}

// A kind says which type a cell is the beginning of.
type kind uint8

const (
	counterCell kind = iota // cell itself: a window in one word
	wideCell                // wideCounter
	logCell                 // log
)

func (c *cell) wide() *wideCounter { return (*wideCounter)(unsafe.Pointer(c)) }
func (c *cell) log() *log          { return (*log)(unsafe.Pointer(c)) }

// A rule is a Limit as cells want it. All cells of a table are of its kind.
type rule struct {
	Limit
	kind         kind
	layout       layout // of a counterCell
	chargeDenied bool

	// forgotten is the latest instant at which a key judged idle had become fresh.
	// A cell that holds nothing yet starts no earlier, so that a late reading
	// books nothing into a past of which the table has lost its record.
	forgotten atomic.Int64

	// index is that of the window that a counter was last located in: a hint,
	// on a cache line of its own since it is written once a window.
	_     [64]byte
	index atomic.Int64
	_     [64]byte
}

// A query is one question to a cell: may n units go on at instant at? It is
// answered as if they were charged, which happens only if charge is set.
type query struct {
	at, n  int64
	charge bool
}

func (r *rule) init(l Limit, chargeDenied bool) {
	r.Limit, r.chargeDenied = l, chargeDenied
	r.forgotten.Store(math.MinInt64)
	layout, fits := layoutOf(l)
	switch {
	case l.Algorithm == SlidingLog:
		r.kind = logCell
	case fits:
		r.kind, r.layout = counterCell, layout
	default:
		r.kind = wideCell
	}
}

// newCell returns a cell that holds nothing, its word being 0 in every kind, and
// a copy of name for the table to keep.
func (r *rule) newCell(name string) (c *cell, kept string) {
	switch r.kind {
	case wideCell:
		return &new(wideCounter).cell, strings.Clone(name)
	case logCell:
		return &new(log).cell, strings.Clone(name)
	}
	return newNamedCell(name)
}

// newNamedCell returns a cell with the copy of name right behind its word: one
// object for the heap and, for most names, one cache line for a look-up.
func newNamedCell(name string) (c *cell, kept string) {
	const word = int(unsafe.Sizeof(cell{}))
	words := make([]uint64, 1+(len(name)+word-1)/word)
	if len(name) > 0 {
		behind := unsafe.Slice((*byte)(unsafe.Pointer(&words[1])), len(name))
		kept = unsafe.String(&behind[0], copy(behind, name))
	}
	return (*cell)(unsafe.Pointer(&words[0])), kept
}

// ask answers q, charges what q is to be, and, unless d is nil, makes d the whole
// decision. It reports whether the cell was alive; if not, nothing has happened.
// Its linearization point is the compare-and-swap that charges, else the load
// that it answers from.
func (r *rule) ask(c *cell, q query, d *Decision) (allowed, alive bool) {
	switch r.kind {
	case wideCell:
		return r.askWide(c.wide(), q, d)
	case logCell:
		return r.askLog(c.log(), q, d)
	}
	return r.askCounter(c, q, d)
}

// idle reports whether, at now, the cell's state equals a fresh one's; since
// when; and the word it was judged by. A dead cell is not idle.
func (r *rule) idle(c *cell, now int64) (word uint64, since int64, ok bool) {
	switch r.kind {
	case wideCell:
		return r.idleWide(c.wide(), now)
	case logCell:
		return r.idleLog(c.log(), now)
	}
	return r.idleCounter(c, now)
}

// settled returns the word of c once no writer is at work on it at all, and
// whether c is alive.
func (r *rule) settled(c *cell) (word uint64, alive bool) {
	for {
		word, alive = c.current()
		if r.kind != logCell || word&growing == 0 {
			return word, alive
		}
		runtime.Gosched()
	}
}

// condemn reports whether c is idle at now, by which word, and forgets the past
// before it is fresh. That comes before the kill: whoever then finds c dead finds
// the past forgotten.
func (r *rule) condemn(c *cell, now int64) (word uint64, ok bool) {
	word, since, ok := r.idle(c, now)
	if ok {
		r.forget(since)
	}
	return word, ok
}

// possible reports whether n units could ever be admitted.
func (r *rule) possible(n int64) bool { return 0 <= n && n <= r.Count }

// start returns the instant at which a cell that holds nothing decides.
func (r *rule) start(at int64) int64 { return max(at, r.forgotten.Load()) }

// forget moves forgotten on to since.
func (r *rule) forget(since int64) {
	for {
		old := r.forgotten.Load()
		if since <= old || r.forgotten.CompareAndSwap(old, since) {
			return
		}
	}
}
