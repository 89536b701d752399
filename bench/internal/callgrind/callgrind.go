// Package callgrind talks to callgrind, the tool of valgrind that counts instructions, from the
// program that runs under it. Without callgrind, and on other processors than amd64, its requests do
// nothing.
//
// A request to valgrind is a sequence of instructions that has no effect. Valgrind, which
// translates all instructions before they run, recognizes it.
package callgrind

import (
	"runtime"
	"unsafe"
)

// The requests, as valgrind.h and callgrind.h number them.
const (
	runningOnValgrind = 0x1001
	toggleCollect     = 'C'<<24 | 'T'<<16 | 2
	dumpStatsAt       = 'C'<<24 | 'T'<<16 | 3
)

// Running reports whether this program runs under valgrind.
func Running() bool { return request(&[6]uintptr{runningOnValgrind}) != 0 }

// Count runs f. Callgrind, started with --collect-atstart=no, counts the instructions of f and writes
// them to a file of their own, with name as the trigger. It counts the thread that runs f, and no
// other thread of the runtime.
func Count(name string, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Whether to collect is a state of each thread. A request changes it for the one that makes it.
	request(&[6]uintptr{toggleCollect})
	f()
	request(&[6]uintptr{toggleCollect})
	// Writing the counts sets them to zero, so the next file has only what is counted next.
	// Its name is passed as an address, so it must not move: request grows no stack.
	text := append([]byte(name), 0)
	request(&[6]uintptr{dumpStatsAt, uintptr(unsafe.Pointer(&text[0]))})
	runtime.KeepAlive(text)
}
