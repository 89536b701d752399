// Package window is the arithmetic of sliding windows, in exact integers: what a limit
// admits, how much of it is left, and when there will be more. It knows no entries, no
// clocks and no locks, so that stores outside a process can share it.
//
// An instant is a number of nanoseconds since a fixed, arbitrary instant 0. It may be
// any int64. Windows, buckets and ticks are aligned to instant 0: one begins there.
package window

import (
	"math"
	"time"
)

// Never is the wait for what no wait would admit, and for waits of more than 292 years.
const Never time.Duration = math.MaxInt64

// Divide returns floor(t/d) and the remainder, which is in [0, d). d must be more than 0.
func Divide(t, d int64) (quotient, remainder int64) {
	quotient = t / d
	if remainder = t - quotient*d; remainder < 0 {
		quotient, remainder = quotient-1, remainder+d
	}
	return quotient, remainder
}

// Plus returns a+b, or the end of int64 that the sum passes.
func Plus(a, b int64) int64 {
	sum, _ := Add(a, b)
	return sum
}

// Add is Plus, and reports whether the sum fits.
func Add(a, b int64) (sum int64, fits bool) {
	switch sum = a + b; {
	case b > 0 && sum < a:
		return math.MaxInt64, false
	case b < 0 && sum > a:
		return math.MinInt64, false
	}
	return sum, true
}

// Sub is Add of a-b.
func Sub(a, b int64) (difference int64, fits bool) {
	switch difference = a - b; {
	case b < 0 && difference < a:
		return math.MaxInt64, false
	case b > 0 && difference > a:
		return math.MinInt64, false
	}
	return difference, true
}

// Wait returns a+b nanoseconds, or Never if that is more. a must be at most Never.
func Wait(a, b uint64) time.Duration {
	if b > uint64(Never)-a {
		return Never
	}
	return time.Duration(a + b)
}
