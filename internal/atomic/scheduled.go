//go:build schedules

package atomic

import (
	"sync/atomic"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/schedule"
)

// Spins is 0: loading a word again before another goroutine has written shows nothing
// new.
const Spins = 0

// Pause makes the calling actor wait until another one writes to the word.
func Pause(word *Uint64) { schedule.Pause(unsafe.Pointer(word)) }

type Bool struct{ word atomic.Bool }

func (x *Bool) Load() bool                        { return load(unsafe.Pointer(x), &x.word) }
func (x *Bool) Store(value bool)                  { store(unsafe.Pointer(x), &x.word, value) }
func (x *Bool) CompareAndSwap(old, new bool) bool { return swap(unsafe.Pointer(x), &x.word, old, new) }

type Int64 struct{ word atomic.Int64 }

func (x *Int64) Load() int64           { return load(unsafe.Pointer(x), &x.word) }
func (x *Int64) Store(value int64)     { store(unsafe.Pointer(x), &x.word, value) }
func (x *Int64) Add(delta int64) int64 { return add(unsafe.Pointer(x), &x.word, delta) }
func (x *Int64) CompareAndSwap(old, new int64) bool {
	return swap(unsafe.Pointer(x), &x.word, old, new)
}

type Uint64 struct{ word atomic.Uint64 }

func (x *Uint64) Load() uint64            { return load(unsafe.Pointer(x), &x.word) }
func (x *Uint64) Store(value uint64)      { store(unsafe.Pointer(x), &x.word, value) }
func (x *Uint64) Add(delta uint64) uint64 { return add(unsafe.Pointer(x), &x.word, delta) }
func (x *Uint64) CompareAndSwap(old, new uint64) bool {
	return swap(unsafe.Pointer(x), &x.word, old, new)
}

type Pointer[T any] struct{ word atomic.Pointer[T] }

func (x *Pointer[T]) Load() *T       { return load(unsafe.Pointer(x), &x.word) }
func (x *Pointer[T]) Store(value *T) { store(unsafe.Pointer(x), &x.word, value) }
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool {
	return swap(unsafe.Pointer(x), &x.word, old, new)
}

// A Mutex is a lock on which each attempt to lock, and each unlock, is a step.
type Mutex struct{ locked Uint64 }

func (m *Mutex) Lock() {
	for !m.locked.CompareAndSwap(0, 1) {
		Pause(&m.locked)
	}
}

func (m *Mutex) Unlock() { m.locked.Store(0) }

// A Uint64 and an atomic.Uint64 have the size and alignment of a uint64, and the other
// types likewise. So a pointer to a plain word may be used as a pointer to an atomic.

func LoadInt64(addr *int64) int64            { return (*Int64)(unsafe.Pointer(addr)).Load() }
func LoadUint64(addr *uint64) uint64         { return (*Uint64)(unsafe.Pointer(addr)).Load() }
func StoreInt64(addr *int64, value int64)    { (*Int64)(unsafe.Pointer(addr)).Store(value) }
func StoreUint64(addr *uint64, value uint64) { (*Uint64)(unsafe.Pointer(addr)).Store(value) }
func AddUint64(addr *uint64, delta uint64) uint64 {
	return (*Uint64)(unsafe.Pointer(addr)).Add(delta)
}

// A word is one of the types of package sync/atomic.
type word[T any] interface {
	Load() T
	Store(T)
	CompareAndSwap(old, new T) bool
}

func load[T any](place unsafe.Pointer, w word[T]) (value T) {
	schedule.Access(place, func() schedule.Effect {
		value = w.Load()
		return schedule.Effect{Value: number(value)}
	})
	return value
}

func store[T any](place unsafe.Pointer, w word[T], value T) {
	schedule.Access(place, func() schedule.Effect {
		w.Store(value)
		return schedule.Effect{Wrote: true, Value: number(value)}
	})
}

func add[T any](place unsafe.Pointer, w interface{ Add(T) T }, delta T) (value T) {
	schedule.Access(place, func() schedule.Effect {
		value = w.Add(delta)
		return schedule.Effect{Wrote: true, Value: number(value)}
	})
	return value
}

func swap[T any](place unsafe.Pointer, w word[T], old, new T) (swapped bool) {
	schedule.Access(place, func() schedule.Effect {
		if swapped = w.CompareAndSwap(old, new); swapped {
			return schedule.Effect{Wrote: true, Value: number(new)}
		}
		return schedule.Effect{Lost: true, Value: number(w.Load())}
	})
	return swapped
}

// number returns value if it is a uint64, and else 0.
func number(value any) uint64 {
	n, _ := value.(uint64)
	return n
}
