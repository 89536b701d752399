package sash

import (
	"math"
	"runtime"
	"strings"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A cell is what a key holds. It is one word that callers and the janitor agree
// on, and is all there is to a counter but the name, which lies right behind it; the
// cells of other kinds begin with a namedCell and go on (see kind).
//
// Bits that mean the same in every kind (high to low): dead 1 | several 1 |
// locked 1. A dead cell has left, or is about to leave, the table, and nothing is
// ever charged to it again. several says that it is a compound, for all its life
// and after. Who has set locked is at work on the cell, for a few stores, or,
// seldom, for as long as it takes to put another cell in its place.
//
// Invariant: a cell dies by one compare-and-swap from the word that it was
// judged by, or by who has locked it, so nothing that was charged in between is
// lost; and only once dead is it removed from the table.
type cell struct {
	word   atomic.Uint64
	length uint64 // of the name; or elsewhere
}

// A namedCell is a cell whose name is in another object.
type namedCell struct {
	cell
	text string
}

const elsewhere = math.MaxUint64

const (
	dead    = 1 << 63
	several = dead >> 1
	locked  = several >> 1
	growing = locked >> 1 // of a log and a compound only: see log
)

// A kind says which type a cell is the beginning of.
type kind uint8

const (
	counterCell  kind = iota // cell itself: a window in one word
	wideCell                 // wideCounter
	logCell                  // log
	compoundCell             // compound
)

func (c *cell) wide() *wideCounter  { return (*wideCounter)(unsafe.Pointer(c)) }
func (c *cell) log() *log           { return (*log)(unsafe.Pointer(c)) }
func (c *cell) compound() *compound { return (*compound)(unsafe.Pointer(c)) }

// compounded reports whether c is a compound.
func (c *cell) compounded() bool { return c.word.Load()&several != 0 }

// current returns the word once nobody has locked the cell, and whether the cell
// is alive. Who has locked it may have lost its core, and then gets this
// caller's. A word that is to be killed is better asked of settled.
func (c *cell) current() (word uint64, alive bool) {
	const spins = atomic.Spins
	for i := 0; ; i++ {
		word = c.word.Load()
		if word&locked == 0 {
			return word, word&dead == 0
		}
		if i >= spins {
			atomic.Pause(&c.word)
		}
	}
}

// unchanged reports whether what was read since word is one state.
func (c *cell) unchanged(word uint64) bool { return c.word.Load() == word }

// lock locks c if nothing has happened to it since word.
func (c *cell) lock(word uint64) bool { return c.word.CompareAndSwap(word, word|locked) }

// kill makes c dead if its word still is word.
func (c *cell) kill(word uint64) bool { return c.word.CompareAndSwap(word, dead|word&several) }

// die makes c dead, which the caller has locked since word.
func (c *cell) die(word uint64) { c.word.Store(dead | word&several) }

// A cell whose state is more than a word, a log or a compound, counts its states
// in the low bits of the word: each has its version.

// unlock ends what lock(word) or reserve(word) began, under a new version.
func (c *cell) unlock(word uint64) { c.word.Store(newer(word)) }

// reserve makes the caller the one to make room, if nothing has been charged
// since word and nobody else is at it.
func (c *cell) reserve(word uint64) bool {
	return word&growing == 0 && c.word.CompareAndSwap(word, word|growing)
}

// newer returns the word of the version after that of word.
func newer(word uint64) uint64 { return (word + 1) &^ (dead | locked | growing) }

// newCell returns a cell of p, with a copy of name, that holds nothing.
func (p *policy) newCell(name string) *cell {
	switch p.kind {
	case counterCell:
		return newCounter(name)
	case wideCell:
		return new(wideCounter).keep(name)
	case logCell:
		return new(log).keep(name)
	}
	return newCompound(p).keep(name)
}

// newCounter returns a cell with a copy of name right behind it: one object for the
// heap, in which the garbage collector has nothing to look for, and, for most names,
// one cache line for a look-up.
func newCounter(name string) *cell {
	const header, word = int(unsafe.Sizeof(cell{})), 8
	words := make([]uint64, (header+max(1, len(name))+word-1)/word) // for "", too: no pointer may point past its object
	c := (*cell)(unsafe.Pointer(&words[0]))
	c.length = uint64(len(name))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), len(words)*word)[header:], name)
	return c
}

// keep gives c, which nobody else has seen yet, a copy of name.
func (c *namedCell) keep(name string) *cell {
	c.length, c.text = elsewhere, strings.Clone(name)
	return &c.cell
}

// name returns the name of the key that c is a cell of.
func (c *cell) name() string {
	if c.length == elsewhere {
		return (*namedCell)(unsafe.Pointer(c)).text
	}
	return unsafe.String((*byte)(c.behind()), c.length)
}

// named reports whether c is a cell of the key of that name.
func (c *cell) named(name string) bool {
	if c.length == uint64(len(name)) {
		return same(c.behind(), name)
	}
	return c.length == elsewhere && (*namedCell)(unsafe.Pointer(c)).text == name
}

// behind returns where the name is, unless it is elsewhere.
func (c *cell) behind() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(c), unsafe.Sizeof(*c)) }

// same reports whether at a there are the bytes of b. Names of 4 to 16 bytes, as
// addresses have, it compares as two words that may overlap, and calls nothing.
func same(a unsafe.Pointer, b string) bool {
	n, p := len(b), unsafe.Pointer(unsafe.StringData(b))
	if wordwise && uint(n-8) <= 8 {
		return *(*uint64)(a) == *(*uint64)(p) && *(*uint64)(unsafe.Add(a, n-8)) == *(*uint64)(unsafe.Add(p, n-8))
	}
	if wordwise && uint(n-4) <= 4 {
		return *(*uint32)(a) == *(*uint32)(p) && *(*uint32)(unsafe.Add(a, n-4)) == *(*uint32)(unsafe.Add(p, n-4))
	}
	return unsafe.String((*byte)(a), n) == b
}

// wordwise is whether a word may lie at any address.
const wordwise = runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64"

// optimisticRounds is how often a call reads several words and then checks that they
// are of one state, before it locks them instead. One other goroutine that writes all
// the time could make it start over for ever.
const optimisticRounds = 4

// acquire locks c, a cell under p, once no other call is at work on it, and returns
// the word to unlock it from. It reports false, and has locked nothing, if c is dead.
//
// A round is lost only to a compare-and-swap of another call between the load and the
// compare-and-swap here. Nothing is read or computed in between, so no stream of calls
// takes that moment each time.
func (p *policy) acquire(c *cell) (word uint64, alive bool) {
	for round := 1; ; round++ {
		atomic.Round("acquire", round)
		word, alive = p.settled(c)
		if !alive || c.lock(word) {
			return word, alive
		}
	}
}

// settled returns the word of c, a cell under p, once no writer is at work on it
// at all, and whether c is alive.
func (p *policy) settled(c *cell) (word uint64, alive bool) {
	for {
		word, alive = c.current()
		if word&growing == 0 || word&several == 0 && p.kind != logCell {
			return word, alive
		}
		atomic.Pause(&c.word)
	}
}
