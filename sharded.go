package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/xsync"
)

const (
	shardBits = xsync.ShardBits
	shards    = 1 << shardBits
)

// A key is a caller's key with its hash, so that it is hashed once: the top
// bits choose the shard, the shard takes the hash as it is, and equality still
// compares the whole name.
type key struct {
	hash uint64
	name string
}

// A shard is a map, and the counters in it that are found faster.
type shard struct {
	cells   *xsync.MapOf[key, *cell]
	recents [1 << recentBits]recent
}

// A sharded is a concurrent map from keys to their cells. It is cut into shards
// because a map stalls its writers while it grows, and 1/256 of a map stalls
// them for 1/256 as long.
//
// Only insert, replace and remove write to the maps; all that happens to a key's
// state happens in its cell. A cell is removed only once it is dead, and found by its
// pointer, so one that took its place is never removed for it.
type sharded struct {
	sizeHint int // keys in one shard
	shards   [shards]atomic.Pointer[shard]
}

// noKeys stands for every shard that no key has fallen into yet, unless a size
// was given, so that a limiter with few keys is small. Nothing is ever inserted
// into it.
var noKeys = newShard(0)

func newShard(sizeHint int) *shard {
	return &shard{cells: xsync.NewMapOfWithHasher[key, *cell](
		func(k key, _ uint64) uint64 { return k.hash },
		xsync.WithPresize(sizeHint),
	)}
}

func (s *sharded) init(sizeHint int) {
	s.sizeHint = (sizeHint + shards - 1) / shards
	for i := range s.shards {
		if sizeHint > 0 {
			s.shards[i].Store(newShard(s.sizeHint))
		} else {
			s.shards[i].Store(noKeys)
		}
	}
}

func (k key) shard() int { return int(k.hash >> (64 - shardBits)) }

// shard returns the shard that holds the cell of k, if k has one. Neither its recall
// nor the Load of its cells takes a lock. (There is no method that does both: it
// would be too large to inline.)
func (s *sharded) shard(k key) *shard { return s.shards[k.shard()].Load() }

// The map's Compute stores the key that it is called with, even where it finds
// that key: so none of these may be given a name that the caller will reuse.

// kept returns k with a name of its own.
func (k key) kept() key { return key{k.hash, strings.Clone(k.name)} }

// insert makes c the cell of k, unless it has one or may no longer have one, and
// returns the one it has, or nil. It locks one bucket of one shard, and asks
// whether it still may under that lock. The name of k must be the table's to keep.
func (s *sharded) insert(k key, c *cell, still func() bool) *cell {
	if s.shard(k) == noKeys {
		s.shards[k.shard()].CompareAndSwap(noKeys, newShard(s.sizeHint))
	}
	found, _ := s.shard(k).cells.Compute(k, func(found *cell, loaded bool) (*cell, bool) {
		if loaded {
			return found, false
		}
		return c, !still()
	})
	return found
}

// seek returns the cell of k, nil for none. Unlike a Load it takes the lock of an
// insert: what it does not find, no insert whose still came before will put there.
func (s *sharded) seek(k key) *cell {
	found, _ := s.shard(k).cells.Compute(k.kept(), func(found *cell, loaded bool) (*cell, bool) {
		return found, !loaded
	})
	return found
}

// replace puts next in the place of c, which must be the cell of k and locked. The
// name of k must be the table's to keep.
func (s *sharded) replace(k key, c, next *cell) {
	s.shard(k).cells.Compute(k, func(found *cell, loaded bool) (*cell, bool) {
		if found == c {
			found = next
		}
		return found, !loaded
	})
	s.shard(k).forget(k, c)
}

// remove removes c, which must be dead, from k, unless that already is done.
func (s *sharded) remove(k key, c *cell) {
	s.shard(k).cells.Compute(k.kept(), func(found *cell, loaded bool) (*cell, bool) {
		return found, !loaded || found == c
	})
	s.shard(k).forget(k, c)
}

// each calls f for the cell of every key, dead ones included, until f returns false:
// for every key that has one all the time, and at most once. While it copies the
// entries of a bucket, it holds its lock.
func (s *sharded) each(f func(k key, c *cell) bool) {
	more := true
	for i := range s.shards {
		if m := s.shards[i].Load(); more && m != noKeys {
			m.cells.Range(func(k key, c *cell) bool {
				more = f(k, c)
				return more
			})
		}
	}
}

// size returns how many keys have a cell.
func (s *sharded) size() int {
	n := 0
	for i := range s.shards {
		n += s.shards[i].Load().cells.Size()
	}
	return n
}
