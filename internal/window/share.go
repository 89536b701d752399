package window

import "math/bits"

// Share returns that percentage of units, rounded up. Both must be at least 0, and percent at most 100.
func Share(units, percent int64) int64 {
	high, low := bits.Mul64(uint64(units), uint64(percent))
	share, rest := bits.Div64(high, low, 100) // high is less than 50, as units are less than 1<<63
	if rest > 0 {
		share++
	}
	return int64(share)
}
