//go:build !schedules && !yields

// Package atomic provides the part of sync/atomic that package sash uses. Two build
// tags change it for tests:
//
//   - Under schedules, each access is a step, and package schedule decides which
//     goroutine makes the next one. Tests run small cases through every order of their
//     steps.
//   - Under yields, accesses yield the processor at random, so that tests reach
//     interleavings that otherwise need a preemption within a few nanoseconds. One access
//     in 24 yields. The environment variable SASH_YIELD_EVERY sets another number.
package atomic

import (
	"runtime"
	"sync"
	"sync/atomic"
)

type (
	Bool           = atomic.Bool
	Int64          = atomic.Int64
	Uint64         = atomic.Uint64
	Pointer[T any] = atomic.Pointer[T]
	Mutex          = sync.Mutex
)

func LoadInt64(addr *int64) int64                     { return atomic.LoadInt64(addr) }
func LoadUint64(addr *uint64) uint64                  { return atomic.LoadUint64(addr) }
func StoreInt64(addr *int64, value int64)             { atomic.StoreInt64(addr, value) }
func StoreUint64(addr *uint64, value uint64)          { atomic.StoreUint64(addr, value) }
func AddUint64(addr *uint64, delta uint64) (n uint64) { return atomic.AddUint64(addr, delta) }

// Spins is how often to load a word again, before Pause, while another goroutine is
// about to change it.
const Spins = 64

// Pause yields the processor. Its caller cannot go on until the word differs from the
// value that the caller last read.
func Pause(*Uint64) { runtime.Gosched() }

// Round records that the loop of that name is in its nth round, under the build tags
// schedules and yields. Here it does nothing, and is inlined to nothing.
func Round(loop string, n int) {}
