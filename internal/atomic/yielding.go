//go:build yields && !schedules

package atomic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
)

// yieldEvery is the average number of accesses until one yields; 0 if none does. The
// environment variable SASH_YIELD_EVERY sets it when the program starts.
var yieldEvery = parseYieldEvery(os.Getenv("SASH_YIELD_EVERY"))

func parseYieldEvery(text string) uint32 {
	const unset = 24
	if text == "" {
		return unset
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		panic(fmt.Sprintf("atomic: SASH_YIELD_EVERY must be a number of accesses, or 0 for no yields, got %q", text))
	}
	return uint32(n)
}

// yield yields the processor before one access in yieldEvery. It does so up to maxYields
// times in a row, so that another call can make several of its steps, or all of them.
func yield() {
	const maxYields = 3
	if yieldEvery == 0 || rand.Uint32N(yieldEvery) > 0 {
		return
	}
	for range 1 + rand.IntN(maxYields) {
		gosched()
	}
}

var gosched = runtime.Gosched // a test counts its calls

// Spins is how often to load a word again, before Pause, while another goroutine is
// about to change it.
const Spins = 64

// Pause yields the processor. Its caller cannot go on until the word differs from the
// value that the caller last read.
func Pause(*Uint64) { runtime.Gosched() }

type Bool struct{ word atomic.Bool }

func (x *Bool) Load() bool                        { yield(); return x.word.Load() }
func (x *Bool) Store(value bool)                  { yield(); x.word.Store(value) }
func (x *Bool) CompareAndSwap(old, new bool) bool { yield(); return x.word.CompareAndSwap(old, new) }

type Int64 struct{ word atomic.Int64 }

func (x *Int64) Load() int64                        { yield(); return x.word.Load() }
func (x *Int64) Store(value int64)                  { yield(); x.word.Store(value) }
func (x *Int64) Add(delta int64) int64              { yield(); return x.word.Add(delta) }
func (x *Int64) CompareAndSwap(old, new int64) bool { yield(); return x.word.CompareAndSwap(old, new) }

type Uint64 struct{ word atomic.Uint64 }

func (x *Uint64) Load() uint64            { yield(); return x.word.Load() }
func (x *Uint64) Store(value uint64)      { yield(); x.word.Store(value) }
func (x *Uint64) Add(delta uint64) uint64 { yield(); return x.word.Add(delta) }
func (x *Uint64) CompareAndSwap(old, new uint64) bool {
	yield()
	return x.word.CompareAndSwap(old, new)
}

type Pointer[T any] struct{ word atomic.Pointer[T] }

func (x *Pointer[T]) Load() *T       { yield(); return x.word.Load() }
func (x *Pointer[T]) Store(value *T) { yield(); x.word.Store(value) }
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool {
	yield()
	return x.word.CompareAndSwap(old, new)
}

type Mutex struct{ mu sync.Mutex }

func (m *Mutex) Lock()   { yield(); m.mu.Lock() }
func (m *Mutex) Unlock() { yield(); m.mu.Unlock() }

func LoadInt64(addr *int64) int64            { yield(); return atomic.LoadInt64(addr) }
func LoadUint64(addr *uint64) uint64         { yield(); return atomic.LoadUint64(addr) }
func StoreInt64(addr *int64, value int64)    { yield(); atomic.StoreInt64(addr, value) }
func StoreUint64(addr *uint64, value uint64) { yield(); atomic.StoreUint64(addr, value) }
func AddUint64(addr *uint64, delta uint64) uint64 {
	yield()
	return atomic.AddUint64(addr, delta)
}
