package sash

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNew_NamesEveryWrongOption(t *testing.T) {
	l, err := New(
		Per(-1, -time.Second),
		Limit{1, time.Second, 9, 0, 0},
		PerSecond(1).Buckets(time.Minute),
		Limit{1, time.Second, SlidingLog, 1, 1},
		WithClock(nil),
		WithSizeHint(-4),
		WithObserver(nil),
		WithMaxWaiters(-1),
		WithLimitsFor(nil),
		nil,
		(*Limit)(nil),
	)
	require.Nil(t, l)
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.ErrorIs(t, err, ErrInvalidOption)
	for _, want := range []string{
		"sash: limit 1: Count must be >= 0, got -1: invalid limit",
		"sash: limit 1: Window must be > 0, got -1s: invalid limit",
		"sash: limit 2: Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket, SlidingParts or Concurrency, got Algorithm(9): invalid limit",
		"sash: limit 3: Precision must be <= Window, got 1m0s and 1s: invalid limit",
		"sash: limit 4: Precision is for SlidingBuckets, must be 0 for SlidingLog, got 1ns: invalid limit",
		"sash: WithClock: clock must not be nil: invalid option",
		"sash: WithSizeHint: keys must be from 0 to 2147483647, got -4: invalid option",
		"sash: WithObserver: f must not be nil: invalid option",
		"sash: WithLimitsFor: f must not be nil: invalid option",
		"sash: WithMaxWaiters: n must be >= 0, got -1: invalid option",
		"sash: option 10: must not be nil: invalid option",
		"sash: option 11: must not be nil: invalid option",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestNew_NeedsALimit(t *testing.T) {
	_, err := New(WithSizeHint(10))
	require.ErrorIs(t, err, ErrNoLimit)
	require.NotErrorIs(t, err, ErrInvalidLimit)
}

func TestMust_PanicsWithTheError(t *testing.T) {
	_, err := New()
	require.PanicsWithError(t, err.Error(), func() { Must(New()) })
}

func TestOptions_LastOfAKindHolds(t *testing.T) {
	first, last := NewManualClock(0), NewManualClock(7)
	l := newTest(t, PerSecond(1), WithClock(first), WithClock(last))
	require.Same(t, last, l.clock)
}

func TestWithObserver_SeesDecisionsAndNotPeeks(t *testing.T) {
	type seen struct {
		key string
		n   int64
		d   Decision
	}
	var calls []seen
	l := newTest(t, PerMinute(3), WithClock(NewManualClock(0)),
		WithObserver(func(key string, n int64, d Decision) { calls = append(calls, seen{key, n, d}) }))

	key := []byte("bytes")
	l.Allow("a")
	l.AllowN("a", 2)
	d := l.Take("a", 1)
	l.AllowBytes(key)
	l.TakeBytes(key, 2)
	l.Take("a", -1)
	key[0] = 'X' // the observer was given a copy
	l.Peek("a", 1)
	l.Take("a", 0)
	l.AllowN("a", 0)
	l.TakeThenPeek("a", 0)
	l.TakeThenPeek("a", 2)

	require.Len(t, calls, 7)
	require.Equal(t, seen{"a", 1, d}, calls[2])
	require.False(t, d.Allowed)
	for i, want := range []struct {
		key     string
		n       int64
		allowed bool
	}{{"a", 1, true}, {"a", 2, true}, {"a", 1, false}, {"bytes", 1, true}, {"bytes", 2, true}, {"a", -1, false}, {"a", 2, false}} {
		require.Equal(t, want.key, calls[i].key)
		require.Equal(t, want.n, calls[i].n)
		require.Equal(t, want.allowed, calls[i].d.Allowed)
		require.Equal(t, PerMinute(3), calls[i].d.Limit)
	}
}
