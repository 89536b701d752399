//go:build schedules || yields

package atomic

import (
	"sync"
	"sync/atomic"
)

// highest maps the name of each loop to the highest round recorded, an *atomic.Int64.
var highest sync.Map

// Round records that the loop of that name is in its nth round. It is no step of a
// schedule, and does not yield.
func Round(loop string, n int) {
	seen, ok := highest.Load(loop)
	if !ok {
		seen, _ = highest.LoadOrStore(loop, new(atomic.Int64))
	}
	raise(seen.(*atomic.Int64), int64(n))
}

// raise stores n in x unless x is greater. A swap fails only if another goroutine has
// raised x, so the loop ends.
func raise(x *atomic.Int64, n int64) {
	for old := x.Load(); old < n && !x.CompareAndSwap(old, n); old = x.Load() {
	}
}

// Rounds returns the highest round recorded since the program started, for each loop
// that has recorded one.
func Rounds() map[string]int {
	rounds := map[string]int{}
	highest.Range(func(loop, n any) bool {
		rounds[loop.(string)] = int(n.(*atomic.Int64).Load())
		return true
	})
	return rounds
}
