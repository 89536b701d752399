package sash

import (
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/xsync"
)

// A lazyMap is a concurrent map by name that is made when it is first written to. Until
// then, as in most limiters, it costs one word.
type lazyMap[V comparable] struct {
	m atomic.Pointer[xsync.MapOf[string, V]]
}

func (l *lazyMap[V]) load(name string) (found V, ok bool) {
	if m := l.m.Load(); m != nil {
		return m.Load(notEscaping(name))
	}
	return found, false
}

// delete removes name and its value.
func (l *lazyMap[V]) delete(name string) {
	if m := l.m.Load(); m != nil {
		m.Delete(notEscaping(name))
	}
}

// clear removes all names. A call that runs at the same time may still write to the old map.
func (l *lazyMap[V]) clear() { l.m.Store(nil) }

// rangeAll calls f for every name and its value, until f returns false.
func (l *lazyMap[V]) rangeAll(f func(name string, value V) bool) {
	if m := l.m.Load(); m != nil {
		m.Range(f)
	}
}

// forWriting returns the map, which is made if there is none yet.
func (l *lazyMap[V]) forWriting() *xsync.MapOf[string, V] {
	m := l.m.Load()
	for round := 1; m == nil; round++ {
		atomic.Round("forWriting", round)
		if made := xsync.NewMapOf[string, V](); l.m.CompareAndSwap(nil, made) {
			return made
		}
		m = l.m.Load() // another goroutine has made one in between; it may be cleared by now
	}
	return m
}

// notEscaping returns name, and hides from the compiler that it is the same, as noescape
// of package runtime does. A map that hashes through a func value makes the compiler
// believe that it keeps a name that it only looks up. Then each caller would allocate it.
//
//go:nocheckptr
func notEscaping(name string) string {
	// No call is between the conversions. So the stack that name may lie on does not move.
	address := uintptr(unsafe.Pointer(unsafe.StringData(name)))
	return unsafe.String((*byte)(unsafe.Add(nil, address)), len(name))
}
