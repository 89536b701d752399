// Package rounds compares what takes turns: what disturbs a machine for longer than a
// round disturbs all of one round alike, so that ratios within rounds hold where times
// of one after the other do not.
package rounds

import (
	"math"
	"slices"
)

// Order returns the order in which n contenders take their turns in a round: each
// round another begins, and every other round goes the other way, so that nobody
// always follows the same one.
func Order(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}

// Median returns the middle one of values, and NaN of none. Of an even number it is
// the greater of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Ratio returns the median of how many times b a is in each round.
func Ratio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for round := range a {
		ratios[round] = a[round] / b[round]
	}
	return Median(ratios)
}
