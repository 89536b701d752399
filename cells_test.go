//go:build !schedules

package sash

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// newCells returns a map that nobody has written to, whose names have that hash.
func newCells(hash func(name string) uint64) *cells {
	m := new(cells)
	m.init(newNursery(hash), 0, 0, 0)
	return m
}

// put gives k a new cell, and returns it.
func (m *cells) put(k key) *cell {
	return m.update(k, func(*cell) *cell { return newCounter(k.name) })
}

func (m *cells) drop(k key) { m.update(k, func(*cell) *cell { return nil }) }

// check fails the test if m is not what it says it is, or does not hold want.
func (m *cells) check(t *testing.T, want map[string]*cell) {
	t.Helper()
	g := m.grid.Load()
	passed := make([]uint64, len(g.buckets))
	held := 0
	for i := range g.buckets {
		for place := range places {
			c, tag := g.buckets[i].places[place].Load(), g.buckets[i].tags.Load()>>(8*place)&0xff
			require.Equal(t, c == nil, tag == 0)
			if c == nil {
				continue
			}
			held++
			k := key{g.hasher(c.name()), c.name()}
			require.Same(t, want[k.name], c)
			require.EqualValues(t, k.tag(), tag)
			for at := k.hash & g.mask; at != uint64(i); at = (at + 1) & g.mask {
				passed[at]++
			}
		}
	}
	require.Equal(t, len(want), held)
	require.Equal(t, len(want), m.size())
	for i := range g.buckets {
		if count := g.buckets[i].tags.Load() / onePast; count < manyPast {
			require.Equal(t, passed[i], count, "keys that have passed bucket %d", i)
		}
	}
	for name, c := range want {
		require.Same(t, c, m.load(key{g.hasher(name), name}))
	}
}

// Random updates against a plain map, with hashes that spread keys, and with such that
// send them to few homes, or all to one.
func TestCells_HoldWhatAMapHolds(t *testing.T) {
	for name, hash := range map[string]func(name string) uint64{
		"spread":        testHasher.hash,
		"few homes":     func(name string) uint64 { return testHasher.hash(name) &^ 0xfffd },
		"the last home": func(name string) uint64 { return testHasher.hash(name) | 0xffff },
		"one hash":      func(string) uint64 { return 1<<63 + 7 },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 14))
			m, want := newCells(hash), map[string]*cell{}
			largest, shrunk := 0, 0
			for step := range thorough(60_000) + 3000 {
				// Up to so many keys, which comes and goes: it grows and shrinks.
				name := strconv.Itoa(rng.IntN(1 + (step/500%8)*60))
				k := key{hash(name), name}
				require.Same(t, want[name], m.load(k))
				before := len(m.grid.Load().buckets)
				switch {
				case want[name] == nil:
					want[name] = m.put(k)
				case rng.IntN(3) == 0:
					want[name] = m.put(k) // another in its place
				default:
					m.drop(k)
					delete(want, name)
					require.Nil(t, m.load(k))
				}
				if step/500%8 == 0 {
					for name := range want {
						m.drop(key{hash(name), name})
						delete(want, name)
					}
				}
				largest = max(largest, len(m.grid.Load().buckets))
				if len(m.grid.Load().buckets) < before {
					shrunk++
				}
				if step%97 == 0 {
					m.check(t, want)
				}
			}
			require.Greater(t, largest, 32, "it has grown")
			require.Positive(t, shrunk, "and has shrunk")
		})
	}
}

// Which places may have a tag: all that do, the lowest of them rightly.
func TestCells_TagsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 15))
	for range 200_000 {
		tags, tag := rng.Uint64(), uint64(rng.IntN(256))
		for place := range 8 {
			switch rng.IntN(3) {
			case 0: // the tag, or nearly
				tags = tags&^(0xff<<(8*place)) | (tag^uint64(rng.IntN(2)))<<(8*place)
			case 1:
				tags &^= 0xff << (8 * place)
			}
		}
		found, lowest := tagged(tags, tag), -1
		for place := places - 1; place >= 0; place-- {
			if tags>>(8*place)&0xff == tag {
				lowest = place
				require.NotZero(t, found&(0x80<<(8*place)), "%x in %x", tag, tags)
			}
		}
		require.Zero(t, found>>(8*places))
		if lowest >= 0 {
			require.Equal(t, lowest, bits.TrailingZeros64(found)/8)
		} else {
			require.Zero(t, found)
		}
	}
}

// A bucket is as long as a cache line, and begins where one does in all but grids of a
// few hundred buckets, where the runtime puts a word before them.
func TestCells_BucketsAreCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 4 {
		require.EqualValues(t, 40, unsafe.Sizeof(bucket{}))
		return
	}
	require.EqualValues(t, 64, unsafe.Sizeof(bucket{}))
	for _, n := range []int{1, 2, 4, 8, 1 << 10, 1 << 16} {
		require.Zero(t, uintptr(unsafe.Pointer(&newGrid(n, n, 0, nil).buckets[0]))%64, "of %d", n)
	}
	require.GreaterOrEqual(t, unsafe.Offsetof(grid{}.mu)-unsafe.Offsetof(grid{}.mask), uintptr(64))
}

func TestCells_ATagIsNeverThatOfAFreePlace(t *testing.T) {
	require.EqualValues(t, 1, key{hash: 0}.tag())
	require.EqualValues(t, 1, key{hash: 0xff00_ffff_ffff_ffff}.tag())
	require.EqualValues(t, 0xff, key{hash: ^uint64(0)}.tag())
	require.EqualValues(t, 0xab, key{hash: 0x00ab_0000_0000_0000}.tag())
}

// More keys have passed a bucket than it can count. It goes on to send on who looks.
func TestCells_ManyOfOneHome(t *testing.T) {
	hash := func(string) uint64 { return 5 }
	m, want := newCells(hash), map[string]*cell{}
	for i := range 600 {
		name := strconv.Itoa(i)
		want[name] = m.put(key{5, name})
	}
	m.check(t, want)
	for i := range 590 {
		name := strconv.Itoa(i)
		m.drop(key{5, name})
		delete(want, name)
		if i%50 == 0 {
			m.check(t, want)
		}
	}
	m.check(t, want)
	require.Nil(t, m.load(key{5, "0"}))
}

// Every bucket has been passed, and nobody who looks for what is not there goes round
// for ever.
func TestCells_AllBucketsPassed(t *testing.T) {
	m := newCells(func(string) uint64 { return 0 })
	g := newGrid(4, 1, 0, m.grid.Load().hasher)
	for i := range g.buckets {
		g.buckets[i].tags.Store(onePast)
	}
	m.grid.Store(g)
	require.Nil(t, m.load(key{2, "nobody"}))
	c := m.put(key{2, "somebody"})
	require.Same(t, c, m.load(key{2, "somebody"}))
}

// Keys that are there all the time are found all the time, whole, while others come and
// go, and the map grows and shrinks.
func TestRace_CellsThatStayAreFound(t *testing.T) {
	const staying, writers = 50, 3
	hash := func(name string) uint64 { return testHasher.hash(name) & 0xffff_0000_0000_00ff } // so that homes are full
	m := newCells(hash)
	of := func(name string) key { return key{hash(name), name} }
	stay := map[string]*cell{}
	for i := range staying {
		name := "stays " + strconv.Itoa(i)
		stay[name] = m.put(of(name))
	}
	var over, grids, looks atomic.Int64
	var readers, churn errgroup.Group
	for range 2 {
		readers.Go(func() error {
			for last := m.grid.Load(); over.Load() == 0; {
				for name, c := range stay {
					if m.load(of(name)) != c {
						t.Errorf("%s is not found, or another", name)
						return nil
					}
				}
				if g := m.grid.Load(); g != last {
					last = g
					grids.Add(1)
				}
				looks.Add(1)
			}
			return nil
		})
	}
	for w := range writers {
		churn.Go(func() error {
			for round := 0; round < crowded(40) || grids.Load() < int64(crowded(20)) && round < 10_000; round++ {
				for i := range 1000 {
					k := of(strconv.Itoa(w) + " " + strconv.Itoa(i))
					c := m.put(k)
					if got := m.load(k); got != c { // nobody else writes to it
						t.Errorf("%s is not found at once", k.name)
					}
				}
				for i := range 1000 {
					k := of(strconv.Itoa(w) + " " + strconv.Itoa(i))
					m.drop(k)
					if m.load(k) != nil {
						t.Errorf("%s is found for ever", k.name)
					}
				}
				runtime.Gosched()
			}
			return nil
		})
	}
	churn.Wait()
	over.Store(1)
	readers.Wait()
	m.check(t, stay)
	require.Greater(t, grids.Load(), int64(10), "it hardly changed its size meanwhile: this test has shown nothing")
	require.Positive(t, looks.Load(), "nobody looked: this test has shown nothing")
}

// Two that write to shards that nobody has written to share their first lock, and
// nothing else.
func TestRace_ShardsBeginTogether(t *testing.T) {
	for range 50 {
		s := newShards()
		var writers errgroup.Group
		for w := range 4 {
			writers.Go(func() error {
				for i := range 300 {
					k := hashed(strconv.Itoa(i) + " of " + strconv.Itoa(w))
					s.insert(k, newCounter(k.name), always)
				}
				return nil
			})
		}
		writers.Wait()
		require.Equal(t, 1200, s.size())
		n := 0
		s.each(func(k key, c *cell) bool {
			require.Same(t, c, s.load(k))
			n++
			return true
		})
		require.Equal(t, 1200, n)
	}
}

// Shards that fill alike do not grow at the same moment, which would stall all writers
// one after the other: of a hundredth more keys at most a twentieth of them do.
func TestSharded_ShardsGrowInTurn(t *testing.T) {
	const from, to = 100 * shards, 1000 * shards
	var s sharded
	s.init(0, 0, func(name string) uint64 {
		i, err := strconv.Atoi(name)
		require.NoError(t, err)
		return uint64(i%shards)<<(64-shardBits) | uint64(i)*0x9e3779b97f4a7c15>>shardBits
	})
	was, last, grown, all := map[int]*grid{}, from, 0, 0
	for i := range to {
		k := s.keyOf(newCounter(strconv.Itoa(i)))
		s.insert(k, newCounter(k.name), always)
		if shard := k.shard(); i >= from-shards && s.shards[shard].grid.Load() != was[shard] {
			was[shard] = s.shards[shard].grid.Load()
			if i >= from {
				grown++
				all++
			}
		}
		if i > last+last/100 {
			require.LessOrEqual(t, grown, shards/20, "with %d keys", i)
			last, grown = i, 0
		}
	}
	require.Greater(t, all, 3*shards, "each has, three times or more")
}

func TestWithSizeHint_MakesRoomAtOnce(t *testing.T) {
	l := newTest(t, PerSecond(1), WithSizeHint(1_000_000))
	for i := range l.table().shards {
		require.GreaterOrEqual(t, l.table().shards[i].grid.Load().most, int64(1_000_000/shards))
	}
	require.Equal(t, 0, l.Len())
	require.Zero(t, newTest(t, PerSecond(1)).table().shards[0].grid.Load().most)
	require.Positive(t, newTest(t, PerSecond(1), WithSizeHint(1)).table().shards[0].grid.Load().most)
}
