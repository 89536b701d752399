package sash

import (
	"math"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/xsync"
)

// A timeline is what all rulesets of a limiter have in common until a Restore, which
// begins another one.
type timeline struct {
	chargeDenied bool
	origin       int64              // the instant at which it began
	overrides    lazyMap[*override] // of SetLimits, by key
	rulesetCache lazyMap[*ruleset]  // of keys with limits of their own, by cacheKey

	// floor is the instant before which an empty entry never starts. Otherwise a late
	// reading of the clock could charge a period whose entries were evicted, and find the
	// quota of that period again.
	//
	// Invariant: floor only rises. It is at least the instant at which each evicted key had
	// become idle, and it rises before the entry is dead. So a call that finds the entry
	// dead finds the floor raised. It may be higher: the eviction may fail in the end.
	floor atomic.Int64
}

func newTimeline(chargeDenied bool, origin int64) *timeline {
	t := &timeline{chargeDenied: chargeDenied, origin: origin}
	t.floor.Store(math.MinInt64)
	return t
}

// clampToFloor returns the instant at which an empty entry starts, for a call at t.
func (t *timeline) clampToFloor(at int64) int64 { return max(at, t.floor.Load()) }

// raiseFloor raises the floor to since, if it is lower.
func (t *timeline) raiseFloor(since int64) {
	for round := 1; ; round++ {
		atomic.Round("raiseFloor", round)
		old := t.floor.Load()
		if since <= old || t.floor.CompareAndSwap(old, since) {
			return
		}
		// Another call has raised it in between, perhaps less far.
	}
}

// An override is the ruleset that SetLimits gave a key. Each SetLimits makes a new one.
// So a call that finds the same override twice knows that it was there throughout.
type override struct{ ruleset *ruleset }

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

// clear removes all names. A call that runs at the same time may still write to the map from
// before.
func (l *lazyMap[V]) clear() { l.m.Store(nil) }

// notEscaping returns name, and hides from the compiler that it is the same, as noescape
// of package runtime does. A map that hashes through a func value makes the compiler
// believe that it keeps a name that it only looks up. Then each caller would allocate it.
//
// There is no call between the conversions, so the stack that name may lie on does not
// move in between.
//
//go:nocheckptr
func notEscaping(name string) string {
	address := uintptr(unsafe.Pointer(unsafe.StringData(name)))
	return unsafe.String((*byte)(unsafe.Add(nil, address)), len(name))
}

// rangeAll calls f for every name and its value, until f returns false.
func (l *lazyMap[V]) rangeAll(f func(name string, value V) bool) {
	if m := l.m.Load(); m != nil {
		m.Range(f)
	}
}

// forWriting returns the map, which is made if there is none yet.
func (l *lazyMap[V]) forWriting() *xsync.MapOf[string, V] {
	var made *xsync.MapOf[string, V]
	for round := 1; ; round++ {
		atomic.Round("forWriting", round)
		if m := l.m.Load(); m != nil {
			return m
		}
		if made == nil {
			made = xsync.NewMapOf[string, V]()
		}
		if l.m.CompareAndSwap(nil, made) {
			return made
		}
		// Another goroutine has made one in between. It may be cleared by now, so load it again.
	}
}
