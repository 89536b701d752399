//go:build schedules || yields

package atomic

import (
	"sync"
	"sync/atomic"
)

// highest holds the highest round noted so far, an *atomic.Int64, by the loop's name.
var highest sync.Map

// Round notes that the loop of that name is in its nth round. It is no step of a
// schedule, and does not yield.
func Round(loop string, n int) {
	seen, ok := highest.Load(loop)
	if !ok {
		seen, _ = highest.LoadOrStore(loop, new(atomic.Int64))
	}
	raise(seen.(*atomic.Int64), int64(n))
}

// raise makes x at least n. Each failed swap has raised x, so it ends.
func raise(x *atomic.Int64, n int64) {
	for old := x.Load(); old < n && !x.CompareAndSwap(old, n); old = x.Load() {
	}
}

// Rounds returns the highest round noted since the program started, for each loop
// that has noted one.
func Rounds() map[string]int {
	rounds := map[string]int{}
	highest.Range(func(loop, n any) bool {
		rounds[loop.(string)] = int(n.(*atomic.Int64).Load())
		return true
	})
	return rounds
}
