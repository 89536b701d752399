package sash

import (
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/hashmap"
)

const shards = 1 << shardBits

// A key is a caller's key with its hash, which is computed once for each call. The hash
// chooses the shard and the position in it. Only equal names make two keys equal.
type key struct {
	hash uint64
	name string
}

// hidden returns k, and hides from the compiler that the name is the same, for a value that holds k
// no longer than the call, on its stack. The compiler takes it to leave the stack because other
// parts of the value do. On the heap it would be lost when the stack of the caller moves.
func (k key) hidden() key { return key{k.hash, notEscaping(k.name)} }

// A sharded is a concurrent map from keys to their entries, cut into shards. A map stalls its
// updates while it grows. A shard, which is 1/256 of the keys, stalls them for 1/256 as long.
//
// A shard is written to only by hashmap.Map.Update, under its lock. All else that happens
// to a key happens inside its entry. An entry is removed once it is dead, and only if it is
// still the entry of the key. So its successor is not removed by mistake.
type sharded struct {
	hasher func(name string) uint64
	shards [shards]shard
}

// init makes room for keys, and never shrinks to less than room for minKeys. If keys is
// 0, all shards share one empty table, so a limiter with few keys is small.
func (s *sharded) init(keys, minKeys int, hasher func(name string) uint64) {
	s.hasher = hasher
	empty := hashmap.NewEmptyTable(hasher)
	for i := range s.shards {
		s.shards[i].Init(empty, i, perShard(keys), perShard(minKeys))
	}
}

// perShard returns the share of one shard in that many keys, rounded up.
func perShard(keys int) int { return keys/shards + min(1, keys%shards) }

// shard returns the number of the shard of k.
func (k key) shard() int { return int(k.hash >> (64 - shardBits)) }

// shard returns the shard of k.
func (s *sharded) shard(k key) *shard { return &s.shards[k.shard()] }

// load returns the entry of k, nil for none. It takes no lock. With s.shard it would cost
// more than the compiler inlines.
func (s *sharded) load(k key) *entry { return entryOf(s.shards[k.shard()].Load(k.hash, k.name)) }

// update calls f with the entry of k, nil for none, and makes the result the entry of k,
// nil for none. It returns that result. The shard is locked while f runs: f must not update it.
func (s *sharded) update(k key, f func(found *entry) (next *entry)) *entry {
	return entryOf(s.shard(k).Update(k.hash, k.name, func(found *hashmap.Entry) (next *hashmap.Entry) {
		return f(entryOf(found)).header()
	}))
}

// loadOrStoreIf returns the entry of k. If there is none and valid reports true, it first
// makes e, which must have the name of k, the entry of k. If valid reports false, it returns nil.
func (s *sharded) loadOrStoreIf(k key, e *entry, valid func() bool) *entry {
	return s.update(k, func(found *entry) *entry {
		// valid runs under the lock of the shard. So the store is at the same instant as its answer.
		if found == nil && valid() {
			return e
		}
		return found
	})
}

// loadLocked is load under the lock of the shard.
func (s *sharded) loadLocked(k key) *entry {
	// A loadOrStoreIf whose valid ran before has stored its entry by now, or never will.
	return s.update(k, func(found *entry) *entry { return found })
}

// compareAndSwap makes next the entry of k, if that is old. next must have the name of k,
// and the caller must have locked old.
func (s *sharded) compareAndSwap(k key, old, next *entry) {
	s.update(k, func(found *entry) *entry {
		if found == old {
			return next
		}
		return found // another entry has taken the place of old, and stays
	})
}

// compareAndDelete removes the entry of k, if that is old, which must be dead.
func (s *sharded) compareAndDelete(k key, old *entry) {
	// By the name of old: the bytes of the caller's name may have changed since old was found.
	s.compareAndSwap(key{k.hash, old.Name()}, old, nil)
}

// appendEntries appends all entries of the shard of that number to buf, as they are at
// one instant, dead ones included. It locks the shard while it copies.
func (s *sharded) appendEntries(buf []*entry, shard int) []*entry {
	// entryOf, for a slice.
	all := s.shards[shard].AppendEntries(*(*[]*hashmap.Entry)(unsafe.Pointer(&buf)))
	return *(*[]*entry)(unsafe.Pointer(&all))
}

// rangeAll calls f with each key and its entry, dead ones included, until f returns false. It calls
// f at most once for a key, and does so if the key has an entry all the time.
func (s *sharded) rangeAll(f func(k key, e *entry) bool) {
	var buf []*entry
	for i := range s.shards {
		// Copy under the lock, and call f without it: f may update the same shard.
		buf = s.appendEntries(buf[:0], i)
		for _, e := range buf {
			if !f(s.keyOf(e), e) {
				return
			}
		}
	}
}

// keyOf returns the key that e is the entry of.
func (s *sharded) keyOf(e *entry) key {
	name := e.Name()
	return key{s.hasher(name), name}
}

// size returns the number of keys that have an entry. It reads one shard after another.
func (s *sharded) size() int {
	n := 0
	for i := range s.shards {
		n += s.shards[i].Size()
	}
	return n
}
