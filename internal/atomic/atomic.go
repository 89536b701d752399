//go:build !schedules && !yields

// Package atomic is sync/atomic, as far as package sash uses it. Under the build
// tag schedules, each access is a step that package schedule hands out the turns
// for, so that tests run small cases through every order of their steps. Under the
// build tag yields, accesses give their core away at random, so that tests meet
// interleavings that otherwise need a preemption within a few nanoseconds: one access
// in 24, or in as many as the environment variable SASH_YIELD_EVERY says.
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

// Spins is how often to look again for what another goroutine is about to do,
// before Pause.
const Spins = 64

// Pause gives the core to another goroutine, for a caller that cannot go on until
// the word is another than it last read.
func Pause(*Uint64) { runtime.Gosched() }

// Round notes that the loop of that name is in its nth round, under the build tags
// schedules and yields. Here it does nothing, and is inlined to nothing.
func Round(loop string, n int) {}
