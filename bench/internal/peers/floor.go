package peers

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash"
)

// Floors returns peers that make only the steps of a decision, and decide nothing. Each makes
// one step more than the one before. They show how much faster a decision could be.
func Floors() []Peer {
	return []Peer{
		plainMap("map", "a plain map is read, and nothing else", func(*atomic.Uint64) bool { return true }),
		plainMap("map+cas", "a plain map is read, and a word swapped by compare-and-swap", swap),
		bare("xsync", "none", "an xsync map is read, and nothing else", func(*atomic.Uint64) bool { return true }),
		bare("xsync+cas", "none", "an xsync map is read, and a word swapped by compare-and-swap", swap),
		MapFloor(),
		mapFloor("coarse", sash.CoarseClock(time.Millisecond)),
		bare("xsync+cas+time.Now", "time.Now", "as the floor, with the clock that peers read", func(word *atomic.Uint64) bool {
			return !time.Now().IsZero() && swap(word)
		}),
	}
}

// Floor returns a peer that hashes the key and swaps a word, in a cache line that the hash chooses among
// as many as there are keys. It looks nothing up and reads no clock. No limiter of many keys can do less.
func Floor() Peer {
	return Peer{
		Name: "floor", Clock: "none", Bytes: int64(unsafe.Sizeof(line{})), Free: true,
		Keeps: "the key is hashed, and a word swapped by compare-and-swap in the cache line that the hash chooses, of an array with a line for each key",
		Lacks: "decides nothing, looks nothing up, reads no clock",
		New: func(q Quota) Table {
			lines := make([]line, max(1, q.Keys))
			seed := uintptr(rand.Uint64())
			return Table{
				Allow:   func(key string) bool { return swap(lineOf(lines, seed, key)) },
				Exhaust: func(string) {},
				Close:   func() {},
			}
		},
	}
}

// A line is a word in a cache line of its own.
type line struct {
	word atomic.Uint64
	_    [56]byte
}

// lineOf returns the word of a key.
func lineOf(lines []line, seed uintptr, key string) *atomic.Uint64 {
	hash := memhash(unsafe.Pointer(unsafe.StringData(key)), seed, uintptr(len(key)))
	i, _ := bits.Mul(uint(hash), uint(len(lines)))
	return &lines[i].word
}

// memhash is the hash function by which sash hashes keys.
//
//go:noescape
//go:linkname memhash runtime.memhash
func memhash(p unsafe.Pointer, seed, length uintptr) uintptr

// MapFloor returns a peer that makes the steps of a decision with another map: it reads the clock, loads an
// entry from an xsync map, and swaps the entry's word. The clock is [sash.SystemClock], whose
// readings are in order between cores. A limiter reads it without that order, for about 10
// to 20 ns less on amd64.
func MapFloor() Peer { return mapFloor("system", sash.SystemClock()) }

func mapFloor(name string, clock sash.Clock) Peer {
	return bare("floor", name, "the clock is read, an xsync map too, and a word swapped by compare-and-swap",
		func(word *atomic.Uint64) bool { return clock.Now() >= 0 && swap(word) })
}

// Nothing returns a peer that answers without doing anything. Its calls show the cost of the
// machine, of the schedule and of the keys' garbage.
func Nothing() Peer {
	return Peer{
		Name: "nothing", Clock: "none", Keeps: "no table, and answers at once: what the machine and the schedule take by themselves", Lacks: "decides nothing",
		Free: true, Sweeps: true,
		New: func(Quota) Table {
			return Table{Allow: func(string) bool { return true }, Exhaust: func(string) {}, Close: func() {}}
		},
	}
}

// swap increments word, and reports whether it did. If another goroutine swaps first, it does
// not try again.
func swap(word *atomic.Uint64) bool {
	w := word.Load()
	return word.CompareAndSwap(w, w+1)
}

func bare(name, clock, keeps string, step func(*atomic.Uint64) bool) Peer {
	return Peer{Name: name, Clock: clock, Bytes: 90, Keeps: keeps, Lacks: "decides nothing", Free: true, New: func(Quota) Table {
		entries := xsync.NewMapOf[string, *atomic.Uint64]()
		return Table{
			Allow: func(key string) bool {
				e, ok := entries.Load(key)
				if !ok {
					e, _ = entries.LoadOrStore(key, new(atomic.Uint64))
				}
				return step(e)
			},
			Exhaust: func(string) {},
			Close:   func() {},
		}
	}}
}

func plainMap(name, keeps string, step func(*atomic.Uint64) bool) Peer {
	return Peer{Name: name, Clock: "none", Bytes: 80, Keeps: keeps, Lacks: "decides nothing; cannot be written to while it is read", Free: true, Serial: true, New: func(Quota) Table {
		entries := map[string]*atomic.Uint64{}
		return Table{
			Allow: func(key string) bool {
				e, ok := entries[key]
				if !ok {
					e = new(atomic.Uint64)
					entries[key] = e
				}
				return step(e)
			},
			Exhaust: func(string) {},
			Close:   func() {},
		}
	}}
}
