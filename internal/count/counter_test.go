package count

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCounter_HasWhatWasCountedBeforeAndAfterItHasStripes(t *testing.T) {
	var c Counter
	require.Zero(t, c.Value())
	c.Add(1)
	c.Add(1)
	require.EqualValues(t, 2, c.Value())
	require.Nil(t, c.stripes.Load(), "no calls have met")
	c.addStriped(1)
	require.EqualValues(t, 3, c.Value())
	c.addStriped(1)
	c.Add(1)
	require.EqualValues(t, 5, c.Value())
	require.EqualValues(t, 2, c.word.Load(), "stripes stay")
}

func TestCounter_CountsEachCallOfManyAtOnce(t *testing.T) {
	const goroutines, calls = 8, 10_000
	var c Counter
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range calls {
				c.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, goroutines*calls, c.Value())
}
