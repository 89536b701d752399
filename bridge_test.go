package sash

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

func TestInspect_TellsWhatOptionsAskFor(t *testing.T) {
	none := bridge.Inspect([]Option{PerSecond(1), WithClock(NewManualClock(0)), WithLimitsFor(nil), WithObserver(nil)})
	require.Equal(t, bridge.Inspection{}, none)

	given := bridge.Inspect([]Option{
		WithObserver(func(string, int64, Decision) { t.Error("called") }),
		WithLimitsFor(func(key string) []Limit { return []Limit{PerSecond(int64(len(key)) - 2)} }),
	})
	require.True(t, given.Observed)
	limitsFor := given.LimitsFor.(func(string) []Limit)
	require.Equal(t, []Limit{PerSecond(3)}, limitsFor("valid"))
	require.Nil(t, limitsFor("x"), "a Count of -1 is invalid")
}

func TestReconfigure_CanBeRefused(t *testing.T) {
	refused := errors.New("refused")
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)), bridge.RefuseReconfigure(refused).(Option))
	require.Equal(t, refused, l.Reconfigure(PerSecond(2)))
	require.True(t, l.Allow("k"))
	require.False(t, l.Allow("k"))
}
