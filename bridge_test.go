package sash

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

func TestInspect_ReportsWhatOptionsAskFor(t *testing.T) {
	plain := internals.Inspect([]Option{PerSecond(1), WithClock(NewManualClock(0)), WithLimitsFor(nil), WithObserver(nil)})
	require.Equal(t, bridge.Inspection[Limit]{Limits: true}, plain)

	given := internals.Inspect([]Option{
		WithObserver(func(string, int64, Decision) { t.Error("called") }),
		WithLimitsFor(func(key string) []Limit { return []Limit{PerSecond(int64(len(key)) - 2)} }),
	})
	require.False(t, given.Limits)
	require.True(t, internals.Inspect([]Option{WithLimits(PerSecond(1))}).Limits)
	limitsFor := given.LimitsFor
	require.Equal(t, []Limit{PerSecond(3)}, limitsFor("valid"))
	require.Equal(t, []Limit{PerSecond(-1)}, limitsFor("x"), "sash itself denies what is invalid")
}

func TestLimitFaults_NamesEachFaultOfEachLimit(t *testing.T) {
	require.Empty(t, internals.LimitFaults([]Limit{PerSecond(1), PerHour(1).Log()}))

	var texts []string
	for _, err := range internals.LimitFaults([]Limit{PerSecond(1), {Count: -1, Window: -1}}) {
		require.ErrorIs(t, err, ErrInvalidLimit)
		texts = append(texts, err.Error())
	}
	require.Equal(t, []string{
		"limit 2: Count must be >= 0, got -1: invalid limit",
		"limit 2: Window must be > 0, got -1ns: invalid limit",
	}, texts)
}

func TestSweepInterval_IsHalfTheLongestWindowWithinBounds(t *testing.T) {
	for longest, want := range map[time.Duration]time.Duration{
		1: time.Second, time.Second: time.Second, time.Minute: 30 * time.Second, time.Hour: 10 * time.Minute,
	} {
		require.Equal(t, want, internals.SweepInterval(longest))
	}
}

func TestReconfigure_CanBeRefused(t *testing.T) {
	refused := errors.New("refused")
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)), internals.RefuseReconfigure(refused))
	require.Equal(t, refused, l.Reconfigure(PerSecond(2)))
	require.True(t, l.Allow("k"))
	require.False(t, l.Allow("k"))
}
