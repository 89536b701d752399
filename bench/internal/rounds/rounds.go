// Package rounds compares contenders that take turns in rounds. A disturbance of the machine
// that lasts longer than a round disturbs all contenders alike. So the ratios within rounds
// hold, where the times of separate measurements do not.
package rounds

import (
	"math"
	"slices"
)

// Order returns the order in which n contenders take their turns in a round. Each round
// begins with another contender, and every other round has the reverse order. So no
// contender always follows the same one.
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

// Median returns the median of values; NaN if there are none. Of an even number of values it
// is the greater of the two in the middle.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// Ratio returns the median of the ratios of a to b within rounds.
func Ratio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for round := range a {
		ratios[round] = a[round] / b[round]
	}
	return Median(ratios)
}
