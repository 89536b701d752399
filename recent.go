package sash

import (
	"math"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A recent is a counter in one word that was lately made or moved on to a new
// window: a shard has places for a few of them, where they are found in half the
// time that the map takes.
//
// Bits of its tag (high to low): part of the hash 39 | busy 1 | version 16 | length
// of the name 8. Who has set busy writes the counter, and then a tag of the next
// version. So whoever finds the same tag before and after it reads the counter
// knows how long a name stands behind that one, and compares the whole of it. (A
// version comes again after 2^16 writes, between two loads.)
//
// It is a hint. The counter may be dead: then it is dealt with as if the map, in
// which it was when it was remembered, had not lost it yet. Only a charge that moves
// a counter on writes one: keys that share a place do not take it from each other
// with every call, and a denial writes nothing.
type recent struct {
	tag     atomic.Uint64
	counter atomic.Pointer[cell]
}

const (
	recentBits  = 3
	longestName = 1<<8 - 1
	busyTag     = 1 << 24
	oneVersion  = 1 << 8
	versionMask = busyTag - oneVersion
	hashMask    = math.MaxUint64 &^ (1<<25 - 1)
)

// tag returns that of a recent of k, in its version 0.
func (k key) tag() uint64 { return k.hash&hashMask | uint64(len(k.name)&longestName) }

// recent returns the place of k.
func (s *shard) recent(k key) *recent {
	return &s.recents[k.hash>>(64-shardBits-recentBits)%(1<<recentBits)]
}

// recall returns the counter of k, nil if it is not remembered.
func (s *shard) recall(k key) *cell {
	r := s.recent(k)
	tag := r.tag.Load()
	if tag&^versionMask == k.tag() {
		if c := r.counter.Load(); c != nil && r.tag.Load() == tag && c.name(tag&longestName) == k.name {
			return c
		}
	}
	return nil
}

// remember makes c, a counter that is in the map, the one that recall finds for k.
func (s *shard) remember(k key, c *cell) {
	r := s.recent(k)
	tag := r.tag.Load()
	if len(k.name) <= longestName && r.counter.Load() != c && tag&busyTag == 0 && r.tag.CompareAndSwap(tag, tag|busyTag) {
		r.counter.Store(c)
		r.tag.Store(k.tag() | (tag+oneVersion)&versionMask)
	}
}

// forget makes recall find c no more.
func (s *shard) forget(k key, c *cell) { s.recent(k).counter.CompareAndSwap(c, nil) }

// newNamedCell returns a cell with a copy of name right behind its word: one object
// for the heap and, for most names, one cache line for a look-up. There is a word
// for the empty name, too: no pointer may point past its object.
func newNamedCell(name string) (c *cell, kept string) {
	const word = int(unsafe.Sizeof(cell{}))
	words := make([]uint64, 1+max(1, (len(name)+word-1)/word))
	if len(name) > 0 {
		behind := unsafe.Slice((*byte)(unsafe.Pointer(&words[1])), len(name))
		kept = unsafe.String(&behind[0], copy(behind, name))
	}
	return (*cell)(unsafe.Pointer(&words[0])), kept
}

// name returns the name of that length that newNamedCell put behind the word of c.
func (c *cell) name(length uint64) string {
	return unsafe.String((*byte)(unsafe.Add(unsafe.Pointer(c), unsafe.Sizeof(*c))), int(length))
}

// epoch returns a number that changes when c, if it is a counter in one word, moves
// on to another window, and never if it is not.
func (p *policy) epoch(c *cell) uint64 {
	word := c.word.Load()
	if p.kind != counterCell || word&several != 0 {
		return 0
	}
	return word &^ locked >> (2 * p.rules[0].layout.count & 63)
}
