package sash

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

func TestInspect_ReportsWhatOptionsAskFor(t *testing.T) {
	plain := bridge.Inspect([]Option{PerSecond(1), WithClock(NewManualClock(0)), WithLimitsFor(nil), WithObserver(nil)})
	require.Equal(t, bridge.Inspection{Limits: true}, plain)

	given := bridge.Inspect([]Option{
		WithObserver(func(string, int64, Decision) { t.Error("called") }),
		WithLimitsFor(func(key string) []Limit { return []Limit{PerSecond(int64(len(key)) - 2)} }),
	})
	require.False(t, given.Limits)
	require.True(t, bridge.Inspect([]Option{WithLimits(PerSecond(1))}).Limits)
	limitsFor := given.LimitsFor.(func(string) []Limit)
	require.Equal(t, []Limit{PerSecond(3)}, limitsFor("valid"))
	require.Equal(t, []Limit{PerSecond(-1)}, limitsFor("x"), "sash itself denies what is invalid")
}

func TestLimitFaults_NamesEachFaultOfEachLimit(t *testing.T) {
	require.Empty(t, bridge.LimitFaults([]Limit{PerSecond(1), PerHour(1).Log()}))

	var texts []string
	for _, err := range bridge.LimitFaults([]Limit{PerSecond(1), {Count: -1, Window: -1}}) {
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
		require.Equal(t, want, bridge.SweepInterval(longest))
	}
}

func TestReconfigure_CanBeRefused(t *testing.T) {
	refused := errors.New("refused")
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)), bridge.RefuseReconfigure(refused).(Option))
	require.Equal(t, refused, l.Reconfigure(PerSecond(2)))
	require.True(t, l.Allow("k"))
	require.False(t, l.Allow("k"))
}
