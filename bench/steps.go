package main

import (
	"sync/atomic"

	"github.com/seed-30da4c49/sash"
)

// A cell is words in a cache line of their own, as the state of a key is.
type cell struct {
	_                   [64]byte
	word, first, second atomic.Uint64
	_                   [64]byte
}

// swapEach swaps the word of c for each key. That is all that a charge of one counter writes.
func swapEach(c *cell) func(keys []string) int64 {
	return func(keys []string) int64 {
		for range keys {
			for word := c.word.Load(); !c.word.CompareAndSwap(word, word+2); word = c.word.Load() {
			}
		}
		return int64(len(keys))
	}
}

// lockEach locks c by its word, stores two others, and unlocks c, for each key. A charge of a log, or
// under two limits, writes no less.
func lockEach(c *cell) func(keys []string) int64 {
	return func(keys []string) int64 {
		for range keys {
			word := c.word.Load()
			for ; word&1 != 0 || !c.word.CompareAndSwap(word, word|1); word = c.word.Load() {
			}
			c.first.Store(c.first.Load() + 1)
			c.second.Store(c.second.Load() + 1)
			c.word.Store(word + 2)
		}
		return int64(len(keys))
	}
}

// allowAndStoreEach is Allow, and the stores of lockEach, to a line that no other core uses.
func allowAndStoreEach(l *sash.Limiter) func(keys []string) int64 {
	return func(keys []string) (yes int64) {
		var c cell
		for _, key := range keys {
			if l.Allow(key) {
				yes++
			}
			c.first.Store(c.first.Load() + 1)
			c.second.Store(c.second.Load() + 1)
			c.word.Store(c.word.Load() + 2)
		}
		return yes
	}
}
