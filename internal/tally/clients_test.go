package tally

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClients_CountsEachOnce(t *testing.T) {
	var c clients
	require.Zero(t, c.number())
	for range 3 {
		c.add(7)
	}
	require.EqualValues(t, 1, c.number())
	c.add(8)
	c.add(1 << 15)
	require.EqualValues(t, 3, c.number())
}

// The number never falls, and is as near as it says.
func TestClients_EstimatesTheirNumber(t *testing.T) {
	var c clients
	random, last := rand.New(rand.NewPCG(1, 2)), int64(0)
	for n := 1; n <= 500_000; n++ {
		c.add(random.Uint64())
		if n%997 != 0 {
			continue
		}
		got := c.number()
		require.GreaterOrEqual(t, got, last)
		last = got
		bound := 0.07 // three standard errors
		if n <= 300_000 {
			bound = 0.025
		}
		require.LessOrEqual(t, math.Abs(float64(got)-float64(n)), bound*float64(n), n)
	}
}

func TestClients_EndsWhereAllBitsAreSet(t *testing.T) {
	var c clients
	for f := range uint64(clientBits) {
		c.add(f)
	}
	require.EqualValues(t, 726_817, c.number())
}

func TestClients_LosesNone(t *testing.T) {
	var c clients
	var all sync.WaitGroup
	for g := range uint64(4) {
		all.Go(func() {
			for f := range uint64(64) {
				c.add(f*4 + g)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 257, c.number(), "of 256 bits")
}
