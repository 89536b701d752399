package sash

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// acquireAll takes room for that number of new keys in g, and evicts keys that are not idle if it
// must. It reports false, and has taken none, if the caller must look again, as makeRoom says.
func (l *Limiter) acquireAll(g *generation, keys int64, pinned []target) bool {
	// Keep the room that there is while more is made: other calls must not take it in between. Calls that
	// do this take turns. So none waits for room that another keeps.
	g.cap.acquiring.Lock()
	defer g.cap.acquiring.Unlock()
	acquired := int64(0)
	defer func() {
		if acquired < keys { // there is not enough, or a clock has panicked
			g.release(acquired)
		}
	}()
	for ; acquired < keys; acquired++ {
		for !g.cap.tryAcquire() {
			if !l.makeRoom(g, 1, pinned, true) {
				return false
			}
		}
	}
	return true
}

// evictFor reports whether an insert of that number of new keys into g may go on. It evicts idle
// keys until there is room, if busy ones are not evicted. The bound must hold the pinned keys. The
// keys of the call must be pinned: another call may have made an entry for one in between, and not
// charged it yet.
//
// No key is evicted that was inserted since the call began, as pinned[0].before says, and is unused:
// the call that has inserted it has not charged it yet, and would insert it again. So each round that a
// call loses to such evictions is lost to a call that began later, and two calls cannot go on for ever.
// A key that its call leaves unused, as another key denied it, stays until that call ends.
func (l *Limiter) evictFor(g *generation, keys int64, pinned []target) bool {
	// If busy keys are evicted, the insert makes room itself: it must have it when it publishes the entry.
	all := roomFor(pinned)
	return g.cap.hasRoom(keys, all) || g.cap.holds(all) && l.makeRoom(g, keys, pinned, false)
}

// makeRoom evicts keys, none of the pinned ones, until there is room for that number of
// new keys, and reports whether there is. It evicts idle keys and, if evictBusy is set,
// others. If it reports false although evictBusy is set, the caller must look again: a
// pinned key may have taken the last room.
func (l *Limiter) makeRoom(g *generation, keys int64, pinned []target, evictBusy bool) bool {
	c := g.cap
	for lost := 0; c.lacks(keys); {
		atomic.Round("makeRoom", lost+1)
		evicted, least := l.sample(g, pinned, evictBusy)
		switch {
		case evicted:
		case !evictBusy:
			return false
		case least.sampleItem == nil:
			runtime.Gosched() // all keys are pinned, or being made
			return false
		case !least.tryEvict(keys, lost >= optimisticRounds):
			lost++
			runtime.Gosched() // it is being charged, or there is room now
		default:
			least.slot.CompareAndSwap(least.sampleItem, nil)
			l.displaced.Add(1)
			l.queues.Free(least.key.name, 0)
		}
	}
	return true
}

// A candidate is a sampleItem with the quota that is left to it, by the state of that
// word. A key that is admitted nothing counts as having all of it left.
type candidate struct {
	*sampleItem
	slot        *atomic.Pointer[sampleItem]
	word        uint64
	left, count int64 // left of count units
}

const (
	sampleKeys  = 16  // keys in a sample, if any of them has quota left
	sampleSlots = 128 // slots that a sample inspects at most
)

// sample inspects slots at random, or all of them if they are few, until it has found
// sampleKeys keys. It evicts the first idle key, which changes no answer, and reports
// that. If there is none and evictBusy is set, it returns the candidate to be evicted;
// with a nil sampleItem if it has found none.
func (l *Limiter) sample(g *generation, pinned []target, evictBusy bool) (evicted bool, least candidate) {
	c, now := g.cap, g.instant(l.clock.Now())
	waits, before := false, uint64(math.MaxUint64)
	if len(pinned) > 0 {
		waits = pinned[0].waits
		if pinned[0].before > 0 && !evictBusy {
			before = pinned[0].before
		}
	}
	random, all, seen := rand.NewPCG(rand.Uint64(), 0), len(c.slots) <= sampleSlots, 0
	for i := range min(sampleSlots, len(c.slots)) {
		// While no candidate has any quota left, go on. So keys held at their limit stay even where they
		// are most of the table.
		if !all && seen >= sampleKeys && (least.sampleItem == nil || least.left > 0) {
			break
		}
		// Draw each slot by itself. If neighbouring slots were sampled, a key after a run of free slots
		// would be found too often, and its eviction would make the run longer.
		slot := c.randomSlot(random)
		if all {
			slot = &c.slots[i]
		}
		item := slot.Load()
		if item.isDead() || slices.ContainsFunc(pinned, func(t target) bool { return t.key == item.key }) {
			continue
		}
		if item.seq >= before && item.generation.ruleset.unused(item.entry.Word.Load()) {
			continue
		}
		seen++
		if l.evict(item.generation, item.key, item.entry, now, waits) {
			slot.CompareAndSwap(item, nil)
			return true, candidate{}
		}
		if !evictBusy {
			continue
		}
		if next, alive := item.candidate(now); alive && (least.sampleItem == nil || next.evictBefore(least)) {
			least, least.slot = next, slot
		}
	}
	return false, least
}

// candidate returns i with the quota that is left to it at now, and whether it is alive.
func (i *sampleItem) candidate(now int64) (c candidate, alive bool) {
	rs := i.generation.ruleset
	word, alive := rs.loadQuiescent(i.entry)
	if !alive {
		return candidate{}, false
	}
	var d Decision
	alive = rs.decide(i.entry, query{at: now}, &d, nil) != retry
	c = candidate{sampleItem: i, word: word, left: d.Remaining, count: d.Limit.most()}
	if c.count == 0 {
		c.left, c.count = 1, 1 // it is denied with and without its charges: nothing is lost with them
	}
	return c, alive
}

// tryEvict evicts c to make room for that number of keys, and reports whether it did. Unless wait is
// set, it does not if c has been charged since it was sampled.
func (c *candidate) tryEvict(keys int64, wait bool) bool {
	word := c.word
	if wait {
		// Several swaps were lost to charges: all keys are busy. Under the lock, none can come first.
		unlocked, alive := c.generation.ruleset.lock(c.entry)
		if !alive {
			return false
		}
		defer c.entry.Word.CompareAndSwap(unlocked|locked, unlocked) // unless it is dead by then
		word = unlocked | locked
	}
	// Other calls may have given back room since the caller found none. At this look the
	// entry is as it was sampled, or locked: tryKill fails unless it still is. So no busy
	// key is evicted from a table that has room.
	return c.generation.cap.lacks(keys) && c.generation.tryKill(c.key, c.entry, word)
}

// evictBefore reports whether c is to be evicted rather than o: if a greater part of its
// Count is left to it or, of equals, if it was inserted later.
func (c candidate) evictBefore(o candidate) bool {
	// Compare c.left/c.count with o.left/o.count, without a division.
	hi, lo := bits.Mul64(uint64(c.left), uint64(o.count))
	otherHi, otherLo := bits.Mul64(uint64(o.left), uint64(c.count))
	return cmp.Or(cmp.Compare(hi, otherHi), cmp.Compare(lo, otherLo), cmp.Compare(c.seq, o.seq)) > 0
}
