// Package hashmap is the concurrent hash map of one shard, with the part of the
// entries that it reads.
//
// A [Map] holds at most one [Entry] for each name. The owner of the Map makes the
// entries and hashes the names. Every method that takes a hash and a name must be given
// the hash of that name.
//
// A hash has 64 bits. The top [ShardBits] choose the shard, so all names in one Map share
// them. The other bits give three positions:
//   - The home bucket comes from the low bits.
//   - The home slot, the preferred one in every bucket, comes from the 16 bits above the
//     low 32.
//   - The h2, a byte that a bucket stores for each of its slots, comes from the bits below
//     the top ShardBits.
//
// Costs:
//   - A look-up takes no lock, writes nothing and does not retry. It waits for memory
//     twice: for a bucket, and for the entry, directly behind which the name lies.
//   - An update locks the Map, so updates of one Map run one after another.
//   - An update that makes the Map grow or shrink reads and hashes every name. Other
//     updates wait for it, and look-ups do not.
//   - A bucket of seven slots takes one cache line. A Map of the first shard grows when
//     half of its slots are in use, one of the last shard when five sixths are.
package hashmap

import (
	"math"
	"math/bits"
	"slices"
	_ "sync/atomic" // else the compiler does not inline what internal/atomic only renames

	"github.com/seed-30da4c49/sash/internal/atomic"
)

const (
	// ShardBits is how many of the top bits of a hash choose the shard. A Map does not
	// use them to place an entry.
	ShardBits = 8
	// Shards is the number of maps that together hold all names.
	Shards = 1 << ShardBits
)

// A Map is a concurrent hash map from names to entries. Use Init before any other
// method. All other methods are safe for concurrent use.
//
// A look-up reads the table that it loads, and an update locks it. To grow or shrink, an
// update fills another table and stores it in place of the old one. Nothing writes to the
// old one after that, so the look-ups that have loaded it can finish there.
type Map struct{ table atomic.Pointer[Table] }

// A Table is the storage of a Map: an array of buckets, and the lock for updates. The
// number of buckets is a power of two.
//
// An entry is in its home bucket if that had a free slot when the entry was added. Else
// it is in the next bucket that had one. Each full bucket on the way counts the entry in
// its overflow count.
//
// Invariant: every bucket on the way from the home bucket of a name to the bucket of its
// entry has an overflow count above 0; the latter need not. So a look-up may stop at a
// bucket whose overflow count is 0, whatever has been removed since.
//
// Invariant: an entry does not move within a table. So a look-up finds an entry that is
// there throughout.
type Table struct {
	mask    uint64 // the number of buckets, less one
	buckets []bucket
	_       [32]byte // look-ups read the cache line that ends here, and updates write the next

	mu         atomic.Mutex
	size       atomic.Int64 // the number of entries; written under mu
	growAbove  int64        // the size above which the map grows; 0 for the empty table
	minBuckets int          // the number of buckets below which the map does not shrink
	hash       func(name string) uint64
	_          [24]byte // two cache lines in all, so that no table shares one with another
}

// A bucket is seven slots in one cache line. Bits of meta (high to low): overflow count
// 8 | h2 of each slot 7 * 8, 0 for a free slot. The overflow count is the number of
// entries in other buckets that found no free slot here.
//
// Invariant: one store to a slot adds, replaces or removes an entry. That store is the
// linearization point. The h2 is there before the entry and until after it. So once a
// look-up has found an entry, all later ones find it, until another store to the slot.
type bucket struct {
	meta  atomic.Uint64
	slots [slotsPerBucket]atomic.Pointer[Entry]
}

const (
	slotsPerBucket = 7
	overflowOne    = 1 << (8 * slotsPerBucket) // an overflow count of one, in meta
	// A saturated overflow count stays as it is: how many entries it stands for is lost.
	overflowSaturated = math.MaxUint8
)

// NewEmptyTable returns a table without room, for Init. Many maps may begin with one, so
// that each is small while it is empty. A map replaces it by a table of its own when its
// first entry is added. That table, and all later ones, have the same hash function.
func NewEmptyTable(hash func(name string) uint64) *Table {
	return &Table{buckets: make([]bucket, 1), minBuckets: 1, hash: hash}
}

// newTable returns a table of n buckets for a map of that shard.
func newTable(n, minBuckets, shard int, hash func(name string) uint64) *Table {
	return &Table{mask: uint64(n - 1), buckets: make([]bucket, n), growAbove: capacityOf(n, shard), minBuckets: minBuckets, hash: hash}
}

// bucketsFor returns the number of buckets that a map of that shard needs for keys
// entries.
func bucketsFor(keys, shard int) (n int) {
	for n = 1; capacityOf(n, shard) < int64(keys); n *= 2 {
	}
	return n
}

// capacityOf returns the number of entries above which a map of that shard outgrows a
// table of n buckets. It is half of the slots for the first shard, and rises to five
// sixths for the last. This has two reasons:
//   - Enough slots are free for most entries to be in their home bucket.
//   - Shards fill alike. With different bounds they grow one after another, not all at
//     the same moment.
func capacityOf(n, shard int) int64 {
	return int64(n) * slotsPerBucket * int64(3*Shards+2*shard) / (6 * Shards)
}

// shardOf returns the shard that hash chooses.
func shardOf(hash uint64) int { return int(hash >> (64 - ShardBits)) }

// h2Of returns the h2 of hash, which is never 0. Its bits do not choose the shard. They do
// not choose the home bucket either, unless the table has more than 2^48 buckets.
func h2Of(hash uint64) uint8 { return max(1, uint8(hash>>(64-ShardBits-8))) }

// slotOf returns the home slot of hash.
func slotOf(hash uint64) int { return int(hash >> 32 & math.MaxUint16 * slotsPerBucket >> 16) }

const (
	eachSlot = 0x0001_0101_0101_0101 // 1 in the byte of each slot
	highBits = eachSlot << 7
)

// match returns a mask with the high bit set in the byte of each slot whose h2 in meta is
// h2. It may report false positives, but the lowest slot that it reports is never one.
// Callers must compare names.
func match(meta, h2 uint64) uint64 {
	differ := meta ^ eachSlot*h2
	return (differ - eachSlot) &^ differ & highBits
}

// Init makes m an empty map of that shard, with the hash function of the table empty. The
// map has room for keys entries at once, and never shrinks to less than room for minKeys.
// If keys is 0, it begins with the table empty, and minKeys counts for nothing.
func (m *Map) Init(empty *Table, shard, keys, minKeys int) {
	if keys > 0 {
		empty = newTable(bucketsFor(keys, shard), bucketsFor(minKeys, shard), shard, empty.hash)
	}
	m.table.Store(empty)
}

// Load returns the entry of name, nil for none. It takes no lock.
func (m *Map) Load(hash uint64, name string) *Entry {
	// Most entries are in their home slot.
	if e := m.Guess(hash, name); e != nil && e.HasName(name) {
		return e
	}
	_, _, e := m.table.Load().find(hash, name)
	return e
}

// Guess returns the entry in the home slot of hash, in the home bucket, if its h2 is that
// of hash. Else it returns nil. For most names that have an entry, it returns that entry.
// But it does not read name, so it may return the entry of another: callers must compare
// the names.
//
// The address of that slot follows from the hash alone, so a processor knows it before it
// has read meta. The body takes up the compiler's whole budget for inlining, so a wrapper
// of Guess would not be inlined.
func (m *Map) Guess(hash uint64, _ string) *Entry {
	t, slot := m.table.Load(), slotOf(hash)
	b := &t.buckets[hash&t.mask]
	if uint8(b.meta.Load()>>(8*slot)) == h2Of(hash) {
		return b.slots[slot].Load()
	}
	return nil
}

// Update calls f with the entry of name, nil for none. It makes the result of f the entry
// of name, nil for none, and returns it. The result must have that name. Update holds the
// lock of m while f runs, so f must not update or lock m.
func (m *Map) Update(hash uint64, name string, f func(found *Entry) (next *Entry)) *Entry {
	t := m.lock()
	// Only we can write to t now, so the position stays valid.
	bucket, slot, found := t.find(hash, name)
	next := f(found)
	switch {
	case next == found:
	case found == nil:
		// Make room first, as add needs a free slot.
		t = m.resize(t, t.size.Load()+1, shardOf(hash))
		t.add(hash, next)
	case next == nil:
		// Remove first, so that the entry is not copied to a smaller table.
		t.remove(hash, bucket, slot)
		t = m.resize(t, t.size.Load(), shardOf(hash))
	default:
		// Both entries have one name, and so one h2. A look-up finds the one or the
		// other.
		t.buckets[bucket].slots[slot].Store(next)
	}
	t.mu.Unlock()
	return next
}

// lock locks the table of m and returns it.
func (m *Map) lock() *Table {
	for round := 1; ; round++ {
		atomic.Round("hashMap.lock", round)
		t := m.table.Load()
		t.mu.Lock()
		// Double-check what we saw: while we waited, another update may have stored
		// another table in place of t. No look-up would find what we wrote to t then.
		if m.table.Load() == t {
			return t
		}
		t.mu.Unlock()
	}
}

// Lock locks m, which must be the map of that shard. Updates and AppendEntries wait until
// Unlock, and look-ups do not. All goroutines that lock several maps must lock them in the
// same order.
func (m *Map) Lock(shard int) {
	if t := m.lock(); t.growAbove == 0 {
		// Many maps share the empty table, and its lock with it. A goroutine that locked
		// two of them would wait for itself. So give m a table of its own.
		m.resize(t, 1, shard)
	}
}

// Unlock undoes Lock. No update can have replaced the table that Lock has locked.
func (m *Map) Unlock() { m.table.Load().mu.Unlock() }

// resize makes m as large as keys entries need. t must be the table of m, locked. resize
// returns the table of m after that, locked: t if it fits, or else another in its place.
func (m *Map) resize(t *Table, keys int64, shard int) *Table {
	n := len(t.buckets)
	switch {
	case keys > t.growAbove && t.growAbove == 0:
		// t is the empty table. One of the same size that is m's own has room.
	case keys > t.growAbove:
		n *= 2
	case n > t.minBuckets && 8*keys < t.growAbove:
		n /= 2
	default:
		return t
	}
	next := newTable(n, t.minBuckets, shard, t.hash)
	next.addAll(t)
	// Lock next before other goroutines can see it: the caller is not done, and no other
	// update may come between.
	next.mu.Lock()
	// Publish next only now that it is filled, so that a look-up which loads it finds every
	// entry. A look-up that has loaded t finds there what m has held until this store.
	m.table.Store(next)
	// The updates that wait for t get its lock, see that it has been replaced, and start
	// over.
	t.mu.Unlock()
	return next
}

// find returns the entry of name and its position, or nil if there is none. The position
// stays valid only while the caller holds the lock.
func (t *Table) find(hash uint64, name string) (bucket uint64, slot int, e *Entry) {
	h2 := uint64(h2Of(hash))
	// Every overflow count may be above 0, so stop after a round of all buckets.
	for i := range uint64(len(t.buckets)) {
		bucket = (hash + i) & t.mask
		b := &t.buckets[bucket]
		// If the entry is here throughout, its h2 is in meta.
		meta := b.meta.Load()
		for found := match(meta, h2); found != 0; found &= found - 1 {
			slot = bits.TrailingZeros64(found) / 8
			// The slot may be empty: an update stores the h2 before the entry, and clears
			// it after. Or it may hold the entry of another name.
			if e = b.slots[slot].Load(); e != nil && e.HasName(name) {
				return bucket, slot, e
			}
		}
		if meta < overflowOne {
			break // no entry has gone on from here
		}
	}
	return 0, 0, nil
}

// add puts e into the first bucket with a free slot, from the home bucket of hash on.
// There must be one. The caller holds the lock, or t is not published yet.
func (t *Table) add(hash uint64, e *Entry) {
	for i := hash & t.mask; ; i = (i + 1) & t.mask {
		b := &t.buckets[i]
		meta := b.meta.Load()
		if free := match(meta, 0); free != 0 {
			slot := slotOf(hash)
			if meta>>(8*slot)&math.MaxUint8 != 0 {
				// The home slot is taken. The lowest slot that match reports is free, as
				// it is no false positive.
				slot = bits.TrailingZeros64(free) / 8
			}
			t.size.Add(1)
			// First the h2, then the entry. A look-up that reads only the h2 finds an
			// empty slot. In the other order, one that has read the h2 of an older entry
			// could find e, and the next one could miss it.
			b.meta.Store(meta | uint64(h2Of(hash))<<(8*slot))
			b.slots[slot].Store(e)
			return
		}
		// b is full. Count e here before it is in its slot, so that no look-up stops here
		// once another has found e.
		if meta/overflowOne < overflowSaturated {
			b.meta.Store(meta + overflowOne)
		}
	}
}

// addAll adds all entries of old, which must be locked. No other goroutine may know t yet.
//
// It takes several buckets at a time, and finds the names of all their entries before it
// hashes the first. So the processor waits for the memory of all of them at once.
func (t *Table) addAll(old *Table) {
	const maxBuckets = 8
	var buf [maxBuckets * slotsPerBucket]*Entry
	var names [maxBuckets * slotsPerBucket]string
	for buckets := range slices.Chunk(old.buckets, maxBuckets) {
		entries := appendEntries(buf[:0], buckets)
		for i, e := range entries {
			names[i] = e.Name()
		}
		for i, e := range entries {
			t.add(t.hash(names[i]), e)
		}
	}
}

// remove removes the entry at that position, whose name has that hash. The caller holds
// the lock.
func (t *Table) remove(hash, bucket uint64, slot int) {
	b := &t.buckets[bucket]
	// First the entry, then its h2, then the overflow counts: the reverse of add. While a
	// look-up can find the entry, it can find the way there.
	b.slots[slot].Store(nil)
	b.meta.Store(b.meta.Load() &^ (math.MaxUint8 << (8 * slot)))
	t.size.Add(-1)
	for i := hash & t.mask; i != bucket; i = (i + 1) & t.mask {
		overflowed := &t.buckets[i].meta
		if meta := overflowed.Load(); meta/overflowOne < overflowSaturated {
			overflowed.Store(meta - overflowOne)
		}
	}
}

// AppendEntries appends all entries to buf and returns the extended slice. They are those
// of one instant. Updates wait while it copies.
func (m *Map) AppendEntries(buf []*Entry) []*Entry {
	t := m.lock()
	defer t.mu.Unlock()
	return appendEntries(buf, t.buckets)
}

// appendEntries appends the entries in buckets to buf.
func appendEntries(buf []*Entry, buckets []bucket) []*Entry {
	for i := range buckets {
		for j := range buckets[i].slots {
			if e := buckets[i].slots[j].Load(); e != nil {
				buf = append(buf, e)
			}
		}
	}
	return buf
}

// Size returns the number of entries. It takes no lock.
func (m *Map) Size() int { return int(m.table.Load().size.Load()) }

// Capacity returns the number of entries above which m grows. It is 0 for a map that
// still has the table of NewEmptyTable.
func (m *Map) Capacity() int { return int(m.table.Load().growAbove) }
