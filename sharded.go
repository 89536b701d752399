package sash

const shards = 1 << shardBits

// A key is a caller's key with its hash, so that it is hashed once: the top bits
// choose the shard, others the place in it, and equality still compares the whole
// name.
type key struct {
	hash uint64
	name string
}

// A sharded is a concurrent map from keys to their cells. It is cut into shards
// because a map stalls its writers while it grows, and 1/256 of a map stalls
// them for 1/256 as long.
//
// Only insert, replace and remove write to the maps; all that happens to a key's
// state happens in its cell. A cell is removed only once it is dead, and found by its
// pointer, so one that took its place is never removed for it.
type sharded struct {
	hasher func(name string) uint64
	shards [shards]shard
}

// init makes room for so many keys, and for never less than least. Without, a limiter
// with few keys is small.
func (s *sharded) init(keys, least int, hasher func(name string) uint64) {
	s.hasher = hasher
	nursery := newNursery(hasher)
	for i := range s.shards {
		s.shards[i].init(nursery, i, eachShard(keys), eachShard(least))
	}
}

func eachShard(keys int) int { return keys/shards + min(1, keys%shards) }

func (k key) shard() int { return int(k.hash >> (64 - shardBits)) }

func (s *sharded) shard(k key) *shard { return &s.shards[k.shard()] }

// load returns the cell of k, nil for none. It takes no lock.
func (s *sharded) load(k key) *cell { return s.shard(k).load(k) }

// insert makes c, which has the name of k, the cell of k, unless it has one or may no
// longer have one, and returns the one it has, or nil. It locks a shard, and asks
// whether it still may under that lock.
func (s *sharded) insert(k key, c *cell, still func() bool) *cell {
	return s.update(k, func(found *cell) *cell {
		if found == nil && still() {
			return c
		}
		return found
	})
}

// seek returns the cell of k, nil for none. Unlike load it takes the lock of an
// insert: what it does not find, no insert whose still came before will put there.
func (s *sharded) seek(k key) *cell {
	return s.update(k, func(found *cell) *cell { return found })
}

// update makes what f returns, given the cell of k, nil for none, the cell of k. It
// locks a shard while f runs.
func (s *sharded) update(k key, f func(found *cell) (next *cell)) *cell {
	return s.shard(k).update(k, f)
}

// replace puts next, which has the name of k, in the place of c, which must be the
// cell of k and locked.
func (s *sharded) replace(k key, c, next *cell) {
	s.update(k, func(found *cell) *cell {
		if found == c {
			return next
		}
		return found
	})
}

// remove removes c, which must be dead, from k, unless that already is done.
func (s *sharded) remove(k key, c *cell) {
	s.update(k, func(found *cell) *cell {
		if found == c {
			return nil
		}
		return found
	})
}

// each calls f for the cell of every key, dead ones included, until f returns false:
// for every key that has one all the time, and at most once. While it copies the
// cells of a shard, it holds its lock.
func (s *sharded) each(f func(k key, c *cell) bool) {
	var some []*cell
	for i := range s.shards {
		some = s.shards[i].all(some[:0])
		for _, c := range some {
			if !f(s.keyOf(c), c) {
				return
			}
		}
	}
}

// keyOf returns the key that c is a cell of.
func (s *sharded) keyOf(c *cell) key {
	name := c.name()
	return key{s.hasher(name), name}
}

// size returns how many keys have a cell.
func (s *sharded) size() int {
	n := 0
	for i := range s.shards {
		n += s.shards[i].size()
	}
	return n
}
