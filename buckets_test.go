package sash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A key that has used every second of a day holds nothing after a day's pause, and
// says so at its newest bucket; half a day later it holds the newer half.
func TestBuckets_AfterADaysPause(t *testing.T) {
	const day = 24 * time.Hour
	clock := NewManualClock(0)
	limit := PerDay(86_400).Buckets(time.Second)
	l := newTest(t, limit, WithClock(clock))
	for range 86_400 {
		require.True(t, l.Allow("k"))
		clock.Advance(time.Second)
	}
	clock.Advance(day/2 - time.Second)
	require.EqualValues(t, 43_200, l.Peek("k", 0).Remaining)
	clock.Advance(day / 2)
	require.Equal(t, Decision{Allowed: true, Limit: limit, Remaining: 86_400}, l.Peek("k", 0))
	require.EqualValues(t, 86_399, l.Take("k", 1).Remaining)
	require.Equal(t, 0, l.Sweep(), "it is in use")
	require.LessOrEqual(t, len(ringOf(l, "k").runs), 8, "and small again")
}
