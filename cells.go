package sash

import (
	"math"
	"math/bits"
	"slices"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A cells is a concurrent map from keys to their cells: one shard of a table. Who
// looks a key up takes no lock and writes nothing, and waits for memory twice: for a
// bucket, and for the cell, behind whose word the name lies.
//
// Writers take turns. Who grows or shrinks it fills another grid and puts that in the
// place of the old one, which then stays as it is for those who still read it.
type cells struct{ grid atomic.Pointer[grid] }

// A grid is buckets, a power of two of them. A key's home is chosen by its hash, and
// so is its place there, or any other if somebody else has that. If its home is full,
// its cell is in the next bucket that was not, and each bucket that was passed by
// counts it.
//
// Invariant: from its home to its cell a key meets no bucket that counts nobody but
// the last. So who looks for it may stop at one that counts nobody, whatever was
// removed meanwhile. A cell does not move; one that is there for as long as a look-up
// takes is found.
type grid struct {
	mask    uint64 // the number of buckets, less one
	buckets []bucket
	_       [32]byte // readers share no line with what writers write

	mu     atomic.Mutex
	size   atomic.Int64 // written under mu
	most   int64        // to grow above
	least  int          // buckets, to shrink to
	hasher func(name string) uint64
	_      [24]byte // nor with those of another grid: as long as this, one begins with a line
}

// A bucket is as long as a cache line. Bits of its tags (high to low): how many keys
// have passed it by 8 | a byte of the hash of each place's key 7 * 8, 0 for a place
// that is free.
//
// Invariant: a key comes and goes with one store to its place. Its tag is there before
// it comes and until it has gone, so whoever meets the key knows that all who come
// later meet it, too.
type bucket struct {
	tags   atomic.Uint64
	places [places]atomic.Pointer[cell]
}

const (
	places   = 7
	onePast  = 1 << (8 * places)
	manyPast = math.MaxUint8 // it stays: nobody knows any more how many there are
)

// newGrid returns a grid of n buckets for that shard.
func newGrid(n, least, shard int, hasher func(name string) uint64) *grid {
	return &grid{mask: uint64(n - 1), buckets: make([]bucket, n), most: mostOf(n, shard), least: least, hasher: hasher}
}

// bucketsFor returns how many buckets so many keys of that shard take.
func bucketsFor(keys, shard int) (n int) {
	for n = 1; mostOf(n, shard) < int64(keys); n *= 2 {
	}
	return n
}

// mostOf returns how many keys so many buckets hold: half of their places in the first
// shard, five sixths in the last. So most keys need not pass a full one by, and shards,
// which fill alike, grow one after the other and not all at the same moment.
func mostOf(buckets, shard int) int64 {
	return int64(buckets) * places * int64(3*shards+2*shard) / (6 * shards)
}

// tag returns a byte of the hash that neither chooses the shard nor, below 2^48
// buckets, the home; never 0.
func (k key) tag() uint8 { return max(1, uint8(k.hash>>(64-shardBits-8))) }

// place returns the place that k takes in a bucket if it is free.
func (k key) place() int { return int(k.hash >> 32 & math.MaxUint16 * places >> 16) }

const (
	eachPlace = 0x0001_0101_0101_0101
	highBits  = eachPlace << 7
)

// tagged returns the places, as the high bits of their bytes, that may have that tag:
// all that do, and now and then one beside.
func tagged(tags, tag uint64) uint64 {
	differ := tags ^ eachPlace*tag
	return (differ - eachPlace) &^ differ & highBits
}

// load returns the cell of k, nil for none.
func (m *cells) load(k key) *cell {
	if c := m.guess(k); c != nil && c.named(k.name) {
		return c
	}
	_, _, c := m.grid.Load().find(k)
	return c
}

// guess returns the cell in k's place, where most are, if it may be that of k, else
// nil. Where that is, a processor knows before it has read the tags.
func (m *cells) guess(k key) *cell {
	g, place := m.grid.Load(), k.place()
	b := &g.buckets[k.hash&g.mask]
	if uint8(b.tags.Load()>>(8*place)) == k.tag() {
		return b.places[place].Load()
	}
	return nil
}

// update puts what f returns, given the cell of k, nil for none, in the place of that,
// and returns it. Meanwhile no other update of m runs. f must not call m.
func (m *cells) update(k key, f func(found *cell) (next *cell)) *cell {
	g := m.lock()
	bucket, place, found := g.find(k)
	next := f(found)
	switch {
	case next == found:
	case found == nil:
		g = m.fit(g, g.size.Load()+1, k.shard())
		g.add(k, next)
	case next == nil:
		g.remove(k, bucket, place)
		g = m.fit(g, g.size.Load(), k.shard())
	default:
		g.buckets[bucket].places[place].Store(next)
	}
	g.mu.Unlock()
	return next
}

// lock returns m's grid, locked.
func (m *cells) lock() *grid {
	for round := 1; ; round++ {
		atomic.Round("cells.lock", round)
		g := m.grid.Load()
		g.mu.Lock()
		if m.grid.Load() == g {
			return g
		}
		g.mu.Unlock() // it has been replaced
	}
}

// freeze keeps m, which is that shard, as it is until unfreeze. A shard that still has
// the nursery gets a grid of its own first: the lock of the nursery is that of many
// shards, and a caller that freezes several must not take one lock twice.
func (m *cells) freeze(shard int) {
	if g := m.lock(); g.most == 0 {
		m.fit(g, 1, shard)
	}
}

func (m *cells) unfreeze() { m.grid.Load().mu.Unlock() }

// fit returns m's grid, locked, with room for that many keys and not much more: g,
// which is that, or another in its place.
func (m *cells) fit(g *grid, keys int64, shard int) *grid {
	n := len(g.buckets)
	switch {
	case keys > g.most && g.most == 0: // nobody's own
	case keys > g.most:
		n *= 2
	case n > g.least && 8*keys < g.most:
		n /= 2
	default:
		return g
	}
	next := newGrid(n, g.least, shard, g.hasher)
	next.addAll(g)
	next.mu.Lock()
	m.grid.Store(next)
	g.mu.Unlock()
	return next
}

// find returns the cell of k, nil for none, and where it is.
func (g *grid) find(k key) (bucket uint64, place int, c *cell) {
	tag := uint64(k.tag())
	for i := range uint64(len(g.buckets)) {
		bucket = (k.hash + i) & g.mask
		b := &g.buckets[bucket]
		tags := b.tags.Load()
		for found := tagged(tags, tag); found != 0; found &= found - 1 {
			place = bits.TrailingZeros64(found) / 8
			if c = b.places[place].Load(); c != nil && c.named(k.name) {
				return bucket, place, c
			}
		}
		if tags < onePast {
			break
		}
	}
	return 0, 0, nil
}

// add puts c into the first bucket with a free place, from the home of k on. There must
// be one.
func (g *grid) add(k key, c *cell) {
	for i := k.hash & g.mask; ; i = (i + 1) & g.mask {
		b := &g.buckets[i]
		tags := b.tags.Load()
		if free := tagged(tags, 0); free != 0 {
			place := k.place()
			if tags>>(8*place)&math.MaxUint8 != 0 {
				place = bits.TrailingZeros64(free) / 8 // the lowest is right
			}
			g.size.Add(1)
			b.tags.Store(tags | uint64(k.tag())<<(8*place))
			b.places[place].Store(c)
			return
		}
		if tags/onePast < manyPast {
			b.tags.Store(tags + onePast)
		}
	}
}

// addAll adds all cells of old. It asks for many names before it needs the first: so the
// processor waits for the memory of all of them at once.
func (g *grid) addAll(old *grid) {
	const many = 8
	var some [many * places]*cell
	var names [many * places]string
	for buckets := range slices.Chunk(old.buckets, many) {
		all := appendCells(some[:0], buckets)
		for i, c := range all {
			names[i] = c.name()
		}
		for i, c := range all {
			g.add(key{hash: g.hasher(names[i])}, c)
		}
	}
}

// remove frees that place, which k has.
func (g *grid) remove(k key, bucket uint64, place int) {
	b := &g.buckets[bucket]
	b.places[place].Store(nil)
	b.tags.Store(b.tags.Load() &^ (math.MaxUint8 << (8 * place)))
	g.size.Add(-1)
	for i := k.hash & g.mask; i != bucket; i = (i + 1) & g.mask {
		passed := &g.buckets[i].tags
		if tags := passed.Load(); tags/onePast < manyPast {
			passed.Store(tags - onePast)
		}
	}
}

// all appends every cell, as they are at one instant, to the others. Writers wait
// meanwhile.
func (m *cells) all(others []*cell) []*cell {
	g := m.lock()
	defer g.mu.Unlock()
	return appendCells(others, g.buckets)
}

// appendCells appends the cells in buckets to the others.
func appendCells(others []*cell, buckets []bucket) []*cell {
	for i := range buckets {
		for j := range buckets[i].places {
			if c := buckets[i].places[j].Load(); c != nil {
				others = append(others, c)
			}
		}
	}
	return others
}

// size returns how many keys have a cell.
func (m *cells) size() int { return int(m.grid.Load().size.Load()) }

// init makes m that shard, with room for so many keys, and never smaller than it takes
// for least; for none, m begins with the nursery.
func (m *cells) init(nursery *grid, shard, keys, least int) {
	if keys > 0 {
		nursery = newGrid(bucketsFor(keys, shard), bucketsFor(least, shard), shard, nursery.hasher)
	}
	m.grid.Store(nursery)
}

// newNursery returns a grid without room, which many may begin with.
func newNursery(hasher func(name string) uint64) *grid {
	return &grid{buckets: make([]bucket, 1), least: 1, hasher: hasher}
}
