package sash

import (
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/hashmap"
)

// An entry is the state of a key: one word, by which calls and the janitor agree on the state, and
// behind it the name of the key. A counter consists of nothing else. The entries of other kinds end
// with an entry, and keep the rest of the state in front of it (see kind).
//
// Bits of the word that mean the same in every kind (high to low): dead 1 | multi 1 | locked 1.
//   - dead: the entry has left the table, or is about to leave it. Nothing is ever
//     charged to it again.
//   - multi: this is a multi-limit entry. The bit never changes, not even when the entry
//     dies.
//   - locked: one goroutine is changing the entry. It makes a few stores, or, rarely, puts
//     another entry in its place.
//
// Invariant: an entry dies by a compare-and-swap from the word that it was judged by, or
// by a store of the goroutine that has locked it. So no charge in between is lost. Only a
// dead entry is removed from the table. A locked one may be replaced by its successor before it is dead.
type entry struct{ hashmap.Entry }

const (
	dead     = 1 << 63
	multi    = dead >> 1
	locked   = multi >> 1
	resizing = locked >> 1 // of a log and a multi-limit entry only: a call makes room in it
	wordBits = 61          // below locked: what a counter or a token bucket keeps its state in
)

// newWordEntry returns a counter or a token bucket of that word, with a copy of name.
func newWordEntry(word uint64, name string) *entry {
	e := entryOf(hashmap.New(name))
	e.Word.Store(word)
	return e
}

// entryOf returns the entry that h is the beginning of, nil for nil. The shards of a
// limiter hold headers of entries only.
func entryOf(h *hashmap.Entry) *entry { return (*entry)(unsafe.Pointer(h)) }

// header returns the beginning of e, nil for nil. It is the inverse of entryOf.
func (e *entry) header() *hashmap.Entry { return (*hashmap.Entry)(unsafe.Pointer(e)) }

// ownerAt returns the struct in which e is at that offset.
func (e *entry) ownerAt(offset uintptr) unsafe.Pointer {
	return unsafe.Add(unsafe.Pointer(e), -int(offset))
}

// isMulti reports whether e is a multi-limit entry.
func (e *entry) isMulti() bool { return e.Word.Load()&multi != 0 }

// loadUnlocked spins until e is not locked. It returns the word of e, and whether e is alive. A
// caller that kills e by its word must call loadQuiescent instead: it also waits until no call makes
// room in e.
func (e *entry) loadUnlocked() (word uint64, alive bool) {
	const spins = atomic.Spins
	for i := 0; ; i++ {
		word = e.Word.Load()
		if word&locked == 0 {
			return word, word&dead == 0
		}
		// The goroutine that holds the lock needs a few stores, so it is worth spinning.
		// But it may have been preempted: then yield, so that it can run.
		if i >= spins {
			atomic.Pause(&e.Word)
		}
	}
}

// optimisticRounds is how often a call reads several words and then validates that they
// are of one state, before it locks them instead. Without a bound, one other goroutine
// that writes all the time could make it start over for ever.
const optimisticRounds = 4

// validate reports whether the word of e still is word. If so, all that the caller has
// read of e since it read word is of one state.
func (e *entry) validate(word uint64) bool { return e.Word.Load() == word }

// tryLock locks e and reports true, if its word still is word.
func (e *entry) tryLock(word uint64) bool { return e.Word.CompareAndSwap(word, word|locked) }

// tryKill marks e dead and reports true, if its word still is word.
func (e *entry) tryKill(word uint64) bool { return e.Word.CompareAndSwap(word, dead|word&multi) }

// replaced is set in the word of an entry that died because another took its place.
const replaced = 1

// markDead marks e dead, once another has taken its place. The caller has locked e, whose word was word
// before.
func (e *entry) markDead(word uint64) { e.Word.Store(dead | replaced | word&multi) }

// The state of a log or a multi-limit entry is more than its word. The low bits of the
// word are the version of that state.

// unlock unlocks e, or ends what tryBeginResize began, and begins a new version. The word
// of e was word before that.
func (e *entry) unlock(word uint64) { e.Word.Store(nextVersion(word)) }

// tryBeginResize gives the caller the sole right to make room in e, and reports true. It reports
// false, without effect, if the word of e is not word any more or another goroutine has that right.
func (e *entry) tryBeginResize(word uint64) bool {
	return word&resizing == 0 && e.Word.CompareAndSwap(word, word|resizing)
}

// nextVersion returns the word, unlocked and alive, of the version that follows the version of word.
func nextVersion(word uint64) uint64 { return (word + 1) &^ (dead | locked | resizing) }
