package offenders

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
)

// A call may have found the counter of its client just before another call takes that over. It
// then counts elsewhere: the sum of all counts stays the number of denials.
func TestSketch_CountsElsewhereOnceACounterIsRetired(t *testing.T) {
	s, e := newSketch(1, 0), &httplimit.Event{}
	first, second := &client{digest: 1}, &client{digest: 2}
	s.add(first, e, 0)
	found := s.counters.find(first)
	require.NotNil(t, found)
	s.add(second, e, 0)
	require.False(t, found.add(0))
	require.False(t, found.add(0), "again")
	s.add(first, e, 0)
	got := s.tally()
	require.EqualValues(t, 3, got.denials)
	require.EqualValues(t, 2, got.unseen)
	require.Len(t, got.rows, 1)
	require.Equal(t, *first, got.rows[0].client)
	require.EqualValues(t, 2, got.rows[0].excess)
}
