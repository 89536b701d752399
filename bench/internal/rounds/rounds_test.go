package rounds

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrder_EveryoneOnceAndEveryoneFirst(t *testing.T) {
	const n = 5
	first, pairs := map[int]bool{}, map[[2]int]bool{}
	for round := range 2 * n {
		order := Order(n, round)
		require.Equal(t, []int{0, 1, 2, 3, 4}, slices.Sorted(slices.Values(order)))
		first[order[0]] = true
		for i := 1; i < n; i++ {
			pairs[[2]int{order[i-1], order[i]}] = true
		}
	}
	require.Len(t, first, n)
	for i := range n {
		next := (i + 1) % n
		require.True(t, pairs[[2]int{i, next}] && pairs[[2]int{next, i}], "both orders of %d and %d", i, next)
	}
}

func TestMedian(t *testing.T) {
	require.Equal(t, 3.0, Median([]float64{9, 1, 3}))
	require.Equal(t, 4.0, Median([]float64{4, 1, 3, 9}))
	require.NotEqual(t, Median(nil), Median(nil), "NaN")
}

func TestRatio_IsTakenWithinRounds(t *testing.T) {
	// A machine twice as slow in one round, for both.
	require.Equal(t, 3.0, Ratio([]float64{3, 60, 3.3}, []float64{1, 20, 1.1}))
}
