package sash

import "github.com/seed-30da4c49/sash/internal/atomic"

// A timeline is what all rulesets of a limiter have in common until a Restore, which
// begins another one.
type timeline struct {
	chargeDenied bool
	origin       int64 // the instant at which it began

	// floor is the instant before which an empty entry never starts. Otherwise a late
	// reading of the clock could charge a period whose entries were evicted, and find the
	// quota of that period again.
	//
	// Invariant: floor only rises. It is at least the instant at which each evicted key had
	// become idle, and it rises before the entry is dead. So a call that finds the entry
	// dead finds the floor raised. It may be higher: the eviction may fail in the end.
	floor atomic.Int64
}

// clampToFloor returns the instant at which an empty entry starts, for a call at that instant.
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
