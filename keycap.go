package sash

import (
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A keyCap bounds the keys of a limiter: WithMaxKeys.
//
// Invariant: used is at most max. It is the number of keys that have an entry in the
// limiter's tables, with those that acquireAll has taken room for. A key takes its room
// and gives it back under the lock of its shard, in one step with its entry. So a call
// that holds that lock and finds no entry knows that no room is taken for the key.
type keyCap struct {
	max       int64
	overflow  Overflow
	used      atomic.Int64
	acquiring sync.Mutex    // see acquireAll
	lastSeq   atomic.Uint64 // the number of keys ever inserted: see sampleItem
	slots     []atomic.Pointer[sampleItem]
}

// A sampleItem is a key with its entry, as a sample can find it. It has one of the slots
// until the entry is dead. There are two slots for each key of the bound. So a random slot is as
// likely free as taken, and neither takes long to find.
//
// Invariant: only an item whose entry is dead loses its slot to another key. An item whose
// entry is locked is replaced only by the goroutine that holds the lock.
type sampleItem struct {
	generation *generation
	key        key
	entry      *entry
	seq        uint64 // the order in which keys were inserted; a key keeps it if its entry is replaced
}

// newKeyCap returns a cap of that bound, without keys; nil for no bound.
func newKeyCap(max int64, overflow Overflow) *keyCap {
	if max == 0 {
		return nil
	}
	return &keyCap{max: max, overflow: overflow, slots: make([]atomic.Pointer[sampleItem], 2*max)}
}

func (c *keyCap) randomSlot(random *rand.PCG) *atomic.Pointer[sampleItem] {
	i, _ := bits.Mul64(random.Uint64(), uint64(len(c.slots)))
	return &c.slots[i]
}

// isDead reports whether the slot that i was loaded from is free.
func (i *sampleItem) isDead() bool { return i == nil || i.entry.Word.Load()&dead != 0 }

// nextSeq returns a number greater than the seq of every key inserted so far; 0 without a cap.
func (c *keyCap) nextSeq() uint64 {
	if c == nil {
		return 0
	}
	return c.lastSeq.Load() + 1
}

// purge empties the slots of dead entries, which would keep these in memory.
func (c *keyCap) purge() {
	for i := range c.slots {
		if item := c.slots[i].Load(); item != nil && item.isDead() {
			c.slots[i].CompareAndSwap(item, nil) // unless another key has just taken it
		}
	}
}

// tryAcquire takes room for a key, and reports whether there was any.
func (c *keyCap) tryAcquire() bool {
	if c == nil {
		return true
	}
	for {
		used := c.used.Load()
		if used >= c.max {
			return false
		}
		if c.used.CompareAndSwap(used, used+1) {
			return true
		}
		// Another key took or gave back room in between.
	}
}

// lacks reports whether there is no room for that number of keys more.
func (c *keyCap) lacks(keys int64) bool { return c.used.Load()+keys > c.max }

// holds reports whether there is ever room for that number of keys.
func (c *keyCap) holds(keys int64) bool { return c == nil || keys <= c.max }

// hasRoom reports whether that number of new keys fit: there is room, or evicting keys that are not
// idle makes room. all is the number of keys of the call, the new ones included.
func (c *keyCap) hasRoom(keys, all int64) bool {
	return c.holds(all) && (c == nil || c.evictsBusy() || !c.lacks(keys))
}

// evictsBusy reports whether a key that is not idle is evicted to make room for a new one.
func (c *keyCap) evictsBusy() bool { return c != nil && c.overflow == EvictLeastUsed }

// overflowEntries holds the entries that keys without room share: one for each shard.
// They are multi-limit entries, which can hold units spent past the limit, too.
type overflowEntries struct {
	entries [shards]atomic.Pointer[entry] // nil: not used yet
}
