package tally

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounter_HasWhatWasCountedBeforeAndAfterItHasStripes(t *testing.T) {
	var c counter
	require.Zero(t, c.value())
	c.add(1)
	c.add(1)
	require.EqualValues(t, 2, c.value())
	require.Nil(t, c.stripes.Load(), "no calls have met")
	c.addStriped(1)
	require.EqualValues(t, 3, c.value())
	c.addStriped(1)
	c.add(1)
	require.EqualValues(t, 5, c.value())
	require.EqualValues(t, 2, c.word.Load(), "stripes stay")
}

func TestCounter_CountsEachCallOfManyAtOnce(t *testing.T) {
	const goroutines, calls = 8, 10_000
	var c counter
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range calls {
				c.add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, goroutines*calls, c.value())
}
