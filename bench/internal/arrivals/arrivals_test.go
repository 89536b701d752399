package arrivals

import (
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

// The time of a manual clock passes only while a call waits for it, or takes it.
type manual struct{ now int64 }

func (m *manual) Now() int64    { return m.now }
func (m *manual) Wait(at int64) { m.now = max(m.now, at) }

// run makes one call a millisecond. took returns how long each lasts.
func run(calls int, took func(i int) time.Duration) (*hdrhistogram.Histogram, time.Duration) {
	clock := &manual{now: 12345}
	return Schedule{Calls: calls, PerSecond: 1000, Drivers: 1, Key: strconv.Itoa, Call: func(key string) {
		i, _ := strconv.Atoi(key)
		clock.now += int64(took(i))
	}}.Run(clock)
}

func TestSchedule_CallsThatTakeNoLongerThanTheyMay(t *testing.T) {
	times, late := run(100, func(int) time.Duration { return 10 * time.Microsecond })
	require.EqualValues(t, 100, times.TotalCount())
	require.Equal(t, []float64{10_000, 10_000, 10_000, 10_000, 10_000}, rounded(Of(times)))
	require.Equal(t, 10*time.Microsecond, late)
}

// rounded removes the error of a histogram of three digits.
func rounded(values []float64) []float64 {
	for i, v := range values {
		values[i] = float64(int64(v+50) / 100 * 100)
	}
	return values
}

func TestSchedule_AStallIsChargedToAllItDelays(t *testing.T) {
	times, late := run(100, func(i int) time.Duration {
		if i == 50 {
			return 10 * time.Millisecond
		}
		return 0
	})
	// Those due 1 to 9 ms after the one that stalls wait for the rest of it.
	long := int64(0)
	for _, bar := range times.Distribution() {
		if bar.From >= int64(900*time.Microsecond) {
			long += bar.Count
		}
	}
	require.EqualValues(t, 10, long)
	require.InDelta(t, 1e7, float64(times.Max()), 1e4)
	require.InDelta(t, 5e6, float64(times.ValueAtPercentile(95)), 1e4, "the one due 5 ms later")
	require.Zero(t, late, "made up for")
}

func TestSchedule_SaysHowFarBehindItEnds(t *testing.T) {
	times, late := run(100, func(int) time.Duration { return 3 * time.Millisecond })
	require.Equal(t, 100*3*time.Millisecond-99*time.Millisecond, late)
	require.InDelta(t, float64(late), float64(times.Max()), 1e6)
}

func TestSchedule_LongerThanLongestIsThat(t *testing.T) {
	times, _ := run(2, func(int) time.Duration { return time.Hour })
	require.InEpsilon(t, float64(Longest), float64(times.Max()), 0.001)
	require.EqualValues(t, 2, times.TotalCount())
}

func TestSchedule_DriversMakeEveryCallOnce(t *testing.T) {
	const calls = 10_001
	var made [calls]atomic.Int32
	times, _ := Schedule{Calls: calls, PerSecond: 1_000_000_000, Drivers: 3, Key: strconv.Itoa, Call: func(key string) {
		i, _ := strconv.Atoi(key)
		made[i].Add(1)
	}}.Run(Real{})
	require.EqualValues(t, calls, times.TotalCount())
	for i := range made {
		require.EqualValues(t, 1, made[i].Load())
	}
}

func TestSchedule_EndsEarly(t *testing.T) {
	made := 0
	times, _ := Schedule{Calls: 1 << 30, PerSecond: 1, Drivers: 1,
		Key:  strconv.Itoa,
		Call: func(string) { made++ },
		Done: func() bool { return made >= 1000 },
	}.Run(&manual{})
	require.EqualValues(t, made, times.TotalCount())
	require.Equal(t, 1000, made)
}

func TestSchedule_EndsWhileItWaits(t *testing.T) {
	clock := &manual{}
	times, _ := Schedule{Calls: 2, PerSecond: 1, Drivers: 1,
		Key:  strconv.Itoa,
		Call: func(string) {},
		Done: func() bool { return clock.now >= int64(300*time.Millisecond) },
	}.Run(clock)
	require.EqualValues(t, 1, times.TotalCount(), "the second was never due")
	require.Less(t, clock.now, int64(310*time.Millisecond))
}

func TestOf_IsThePercentilesByRank(t *testing.T) {
	h := newHistogram()
	for i := range 100_000 {
		h.RecordValue(int64(i+1) * 1000)
	}
	for i, want := range []float64{50_000e3, 99_000e3, 99_900e3, 99_990e3, 100_000e3} {
		require.InEpsilon(t, want, Of(h)[i], 0.001, Percentiles[i].Name)
	}
}
