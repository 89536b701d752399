package suggest

import "slices"

// candidates are the counts that are tried as limits: numbers that people choose. Up to
// 100,000 there are ten or fewer in each power of ten. Above it there are three, for limits
// in bytes or tokens.
//
// There are 64, so that a word has a bit for each.
var candidates = [64]int64{
	1, 2, 3, 4, 5, 6, 8,
	10, 12, 15, 20, 25, 30, 40, 50, 60, 80,
	100, 120, 150, 200, 250, 300, 400, 500, 600, 800,
	1_000, 1_200, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000, 6_000, 8_000,
	10_000, 12_000, 15_000, 20_000, 25_000, 30_000, 40_000, 50_000, 60_000, 80_000,
	1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 1e11,
}

// atLeast returns the index of the first candidate that is n or more. It is len(candidates)
// if all of them are less.
func atLeast(n int64) int {
	i, _ := slices.BinarySearch(candidates[:], n)
	return i
}
