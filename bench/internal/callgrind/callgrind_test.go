package callgrind

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCount_RunsWhatItCounts(t *testing.T) {
	if Running() {
		t.Skip("under valgrind")
	}
	n := 0
	Count("a", func() { n++ })
	require.Equal(t, 1, n)
}
