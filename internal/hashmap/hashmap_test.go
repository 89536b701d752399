//go:build !schedules

package hashmap

import (
	"hash/maphash"
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

var testSeed = maphash.MakeSeed()

// testHash spreads names over all of a hash.
func testHash(name string) uint64 { return maphash.String(testSeed, name) }

// thorough returns n, or a tenth of it in short tests.
func thorough(n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

// newMap returns an empty map that begins with the empty table.
func newMap(hash func(name string) uint64) *Map {
	m := new(Map)
	m.Init(NewEmptyTable(hash), 0, 0, 0)
	return m
}

// put gives name a new entry, and returns that.
func (m *Map) put(hash uint64, name string) *Entry {
	return m.Update(hash, name, func(*Entry) *Entry { return New(name) })
}

// drop removes the entry of name.
func (m *Map) drop(hash uint64, name string) {
	m.Update(hash, name, func(*Entry) *Entry { return nil })
}

// check fails the test if m breaks one of its invariants, or does not hold exactly want.
func (m *Map) check(t *testing.T, want map[string]*Entry) {
	t.Helper()
	table := m.table.Load()
	passed := make([]uint64, len(table.buckets)) // the entries that found no free slot in each bucket
	held := 0
	for i := range table.buckets {
		for slot := range slotsPerBucket {
			e, h2 := table.buckets[i].slots[slot].Load(), table.buckets[i].meta.Load()>>(8*slot)&0xff
			if (e == nil) != (h2 == 0) {
				t.Fatalf("slot %d of bucket %d has %p and h2 %x", slot, i, e, h2)
			}
			if e == nil {
				continue
			}
			held++
			hash := table.hash(e.Name())
			if want[e.Name()] != e || uint64(h2Of(hash)) != h2 {
				t.Fatalf("slot %d of bucket %d has %p of %q and h2 %x, want %p and %x", slot, i, e, e.Name(), h2, want[e.Name()], h2Of(hash))
			}
			for at := hash & table.mask; at != uint64(i); at = (at + 1) & table.mask {
				passed[at]++
			}
		}
	}
	require.Equal(t, len(want), held)
	require.Equal(t, len(want), m.Size())
	require.LessOrEqual(t, len(want), m.Capacity())
	for i := range table.buckets {
		if count := table.buckets[i].meta.Load() / overflowOne; count < overflowSaturated && count != passed[i] {
			t.Fatalf("the overflow count of bucket %d is %d, want %d", i, count, passed[i])
		}
	}
	for name, e := range want {
		if got := m.Load(table.hash(name), name); got != e {
			t.Fatalf("%q is found as %p, want %p", name, got, e)
		}
	}
}

// Random updates against a plain map, with hashes that spread names, and with such that
// send them to few home buckets or to one.
func TestMap_HoldsWhatAGoMapHolds(t *testing.T) {
	for name, hash := range map[string]func(name string) uint64{
		"spread":        testHash,
		"few homes":     func(name string) uint64 { return testHash(name) &^ 0xfffd },
		"the last home": func(name string) uint64 { return testHash(name) | 0xffff },
		"one hash":      func(string) uint64 { return 1<<63 + 7 },
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 14))
			m, want := newMap(hash), map[string]*Entry{}
			largest, shrunk := 0, 0
			for step := range thorough(60_000) + 3000 {
				// The range of names grows and begins anew, so that the map grows and
				// shrinks.
				name := strconv.Itoa(rng.IntN(1 + (step/500%8)*60))
				h := hash(name)
				if got := m.Load(h, name); got != want[name] {
					t.Fatalf("%q is found as %p, want %p", name, got, want[name])
				}
				before := len(m.table.Load().buckets)
				switch {
				case want[name] == nil:
					want[name] = m.put(h, name)
				case rng.IntN(3) == 0:
					want[name] = m.put(h, name) // another in its place
				default:
					m.drop(h, name)
					delete(want, name)
					require.Nil(t, m.Load(h, name))
				}
				if step/500%8 == 0 {
					for name := range want {
						m.drop(hash(name), name)
						delete(want, name)
					}
				}
				largest = max(largest, len(m.table.Load().buckets))
				if len(m.table.Load().buckets) < before {
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

// AppendEntries appends each entry once, to what is there.
func TestMap_AppendsEveryEntry(t *testing.T) {
	m := newMap(testHash)
	require.Empty(t, m.AppendEntries(nil))
	want := []*Entry{New("before")}
	for i := range 100 {
		name := strconv.Itoa(i)
		want = append(want, m.put(testHash(name), name))
	}
	got := m.AppendEntries(want[:1:1])
	require.Same(t, want[0], got[0])
	require.ElementsMatch(t, want, got)
}

// While m is locked, look-ups find what there is, and an update waits.
func TestMap_UpdatesWaitForUnlock(t *testing.T) {
	empty := NewEmptyTable(testHash)
	var m, other Map
	m.Init(empty, 0, 0, 0)
	other.Init(empty, 1, 0, 0)
	m.Lock(0)
	other.Lock(1) // does not wait: Lock gives each map a table of its own
	var updated errgroup.Group
	var done atomic.Bool
	hash := testHash("k")
	updated.Go(func() error {
		m.put(hash, "k")
		done.Store(true)
		return nil
	})
	for range 100 {
		runtime.Gosched()
		require.Nil(t, m.Load(hash, "k"))
		require.False(t, done.Load())
	}
	other.Unlock()
	m.Unlock()
	require.NoError(t, updated.Wait())
	require.NotNil(t, m.Load(hash, "k"))
	require.Zero(t, other.Size())
}

// match reports every slot with that h2, and the lowest that it reports has it.
func TestMap_MatchFindsEverySlot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 15))
	for range 200_000 {
		meta, h2 := rng.Uint64(), uint64(rng.IntN(256))
		for slot := range 8 {
			switch rng.IntN(3) {
			case 0: // that h2, or nearly
				meta = meta&^(0xff<<(8*slot)) | (h2^uint64(rng.IntN(2)))<<(8*slot)
			case 1:
				meta &^= 0xff << (8 * slot)
			}
		}
		found, lowest := match(meta, h2), -1
		for slot := slotsPerBucket - 1; slot >= 0; slot-- {
			if meta>>(8*slot)&0xff == h2 {
				lowest = slot
				require.NotZero(t, found&(0x80<<(8*slot)), "%x in %x", h2, meta)
			}
		}
		require.Zero(t, found>>(8*slotsPerBucket))
		if lowest >= 0 {
			require.Equal(t, lowest, bits.TrailingZeros64(found)/8)
		} else {
			require.Zero(t, found)
		}
	}
}

// A bucket is as long as a cache line. It begins with one, but in tables of a few hundred
// buckets, where the runtime puts a word before them.
func TestMap_BucketsAreCacheLines(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) == 4 {
		require.EqualValues(t, 40, unsafe.Sizeof(bucket{}))
		return
	}
	require.EqualValues(t, 64, unsafe.Sizeof(bucket{}))
	for _, n := range []int{1, 2, 4, 8, 1 << 10, 1 << 16} {
		require.Zero(t, uintptr(unsafe.Pointer(&newTable(n, n, 0, nil).buckets[0]))%64, "of %d", n)
	}
	require.GreaterOrEqual(t, unsafe.Offsetof(Table{}.mu)-unsafe.Offsetof(Table{}.mask), uintptr(64))
	require.EqualValues(t, 128, unsafe.Sizeof(Table{}))
}

func TestMap_H2IsNeverThatOfAFreeSlot(t *testing.T) {
	require.EqualValues(t, 1, h2Of(0))
	require.EqualValues(t, 1, h2Of(0xff00_ffff_ffff_ffff))
	require.EqualValues(t, 0xff, h2Of(^uint64(0)))
	require.EqualValues(t, 0xab, h2Of(0x00ab_0000_0000_0000))
}

// More entries have found no free slot in a bucket than it can count. Look-ups still go on
// from there.
func TestMap_ManyNamesOfOneHome(t *testing.T) {
	hash := func(string) uint64 { return 5 }
	m, want := newMap(hash), map[string]*Entry{}
	for i := range 600 {
		name := strconv.Itoa(i)
		want[name] = m.put(5, name)
	}
	m.check(t, want)
	for i := range 590 {
		name := strconv.Itoa(i)
		m.drop(5, name)
		delete(want, name)
		if i%50 == 0 {
			m.check(t, want)
		}
	}
	m.check(t, want)
	require.Nil(t, m.Load(5, "0"))
}

// A look-up ends even if every bucket has an overflow count above 0.
func TestMap_LookUpsEndThoughEveryBucketOverflowed(t *testing.T) {
	m := newMap(func(string) uint64 { return 0 })
	table := newTable(4, 1, 0, m.table.Load().hash)
	for i := range table.buckets {
		table.buckets[i].meta.Store(overflowOne)
	}
	m.table.Store(table)
	require.Nil(t, m.Load(2, "absent"))
	e := m.put(2, "present")
	require.Same(t, e, m.Load(2, "present"))
}

// A map with room for some keys has it at once, and shrinks to no less than its minimum.
func TestMap_ShrinksToItsMinimum(t *testing.T) {
	var m Map
	m.Init(NewEmptyTable(testHash), 3, 1000, 100)
	require.GreaterOrEqual(t, m.Capacity(), 1000)
	for i := range 1000 {
		m.put(testHash(strconv.Itoa(i)), strconv.Itoa(i))
	}
	require.GreaterOrEqual(t, m.Capacity(), 1000)
	for i := range 1000 {
		m.drop(testHash(strconv.Itoa(i)), strconv.Itoa(i))
	}
	require.GreaterOrEqual(t, m.Capacity(), 100)
	require.Less(t, m.Capacity(), 200)
}

// Entries that are there all the time are found all the time, while others come and go
// and the map grows and shrinks.
func TestRace_EntriesThatStayAreFound(t *testing.T) {
	const staying, writers = 50, 3
	hash := func(name string) uint64 { return testHash(name) & 0xffff_0000_0000_00ff } // so that home buckets are full
	m := newMap(hash)
	stay := map[string]*Entry{}
	for i := range staying {
		name := "stays " + strconv.Itoa(i)
		stay[name] = m.put(hash(name), name)
	}
	var over, tables, rounds atomic.Int64
	var readers errgroup.Group
	for range 2 {
		readers.Go(func() error {
			for last := m.table.Load(); over.Load() == 0; {
				for name, e := range stay {
					if m.Load(hash(name), name) != e {
						t.Errorf("%s is not found, or another", name)
						return nil
					}
				}
				if table := m.table.Load(); table != last {
					last = table
					tables.Add(1)
				}
				rounds.Add(1)
			}
			return nil
		})
	}
	// Writers begin each round together: else what one puts could make up for what another drops,
	// and the map kept its size.
	for round := 0; round < thorough(40) || tables.Load() < 20 && round < 10_000; round++ {
		var churn errgroup.Group
		for w := range writers {
			churn.Go(func() error {
				for i := range 1000 {
					name := strconv.Itoa(w) + " " + strconv.Itoa(i)
					e := m.put(hash(name), name)
					if got := m.Load(hash(name), name); got != e { // no other goroutine writes to it
						t.Errorf("%s is not found at once", name)
					}
				}
				for i := range 1000 {
					name := strconv.Itoa(w) + " " + strconv.Itoa(i)
					m.drop(hash(name), name)
					if m.Load(hash(name), name) != nil {
						t.Errorf("%s is found after it was removed", name)
					}
				}
				return nil
			})
		}
		churn.Wait()
	}
	over.Store(1)
	readers.Wait()
	m.check(t, stay)
	require.Greater(t, tables.Load(), int64(10), "the map rarely changed its size: this test has shown nothing")
	require.Positive(t, rounds.Load(), "no reader looked up a key: this test has shown nothing")
}
