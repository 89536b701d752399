package main

import (
	"cmp"
	"slices"
	"time"
)

// An admission is a unit that was admitted between two instants of the clock that all processes
// of a machine share, in nanoseconds since 1970. The server's clock is the same one.
type admission struct{ Begin, End int64 }

// within returns how many of all were certainly admitted from one instant to another.
func within(all []admission, from, to int64) (n int64) {
	for _, a := range all {
		if a.Begin >= from && a.End <= to {
			n++
		}
	}
	return n
}

// worst returns the most units that were certainly admitted in a time of that length.
func worst(all []admission, length time.Duration) (most int64) {
	all = sorted(all)
	for i, a := range all {
		var n int64
		for _, b := range all[i:] {
			if b.Begin > a.Begin+int64(length) {
				break
			}
			if b.End <= a.Begin+int64(length) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func sorted(all []admission) []admission {
	return slices.SortedFunc(slices.Values(all), func(a, b admission) int { return cmp.Compare(a.Begin, b.Begin) })
}

// excessOfLog returns by how many units all break the rule that no window has more than Count.
func excessOfLog(all []admission, q quota) int64 {
	return max(worst(all, q.Window)-q.Count, 0)
}

// excessOfFixed is the excess over a fixed window, which begins with a call: two of them may touch a
// window's length.
func excessOfFixed(all []admission, q quota) int64 {
	return max(worst(all, q.Window)-2*q.Count, 0)
}

// excessOfCounter is the excess over a sliding counter: no aligned window has more than Count, and no
// window that ends the fraction f into an aligned one has more than Count*(1+f).
func excessOfCounter(all []admission, q quota) (excess int64) {
	all = sorted(all)
	window := int64(q.Window)
	for _, last := range all {
		end := last.End
		start := end - end%window
		excess = max(excess, within(all, start, start+window-1)-q.Count)
		bound := q.Count + int64(float64(q.Count)*float64(end-start)/float64(window))
		excess = max(excess, within(all, end-window+1, end)-bound)
	}
	return excess
}

// excessOfBucket is the excess over a token bucket that holds Count: no time T has more than
// Count*(1 + T/Window).
func excessOfBucket(all []admission, q quota) (excess int64) {
	all = sorted(all)
	byEnd := slices.SortedFunc(slices.Values(all), func(a, b admission) int { return cmp.Compare(a.End, b.End) })
	for _, first := range all {
		var n int64
		for _, last := range byEnd {
			if last.Begin < first.Begin {
				continue
			}
			n++
			bound := float64(q.Count) * (1 + float64(last.End-first.Begin)/float64(q.Window))
			excess = max(excess, n-int64(bound))
		}
	}
	return excess
}
