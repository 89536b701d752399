package sash

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestManualClock_MovesOnlyWhenTold(t *testing.T) {
	c := NewManualClock(-5)
	require.EqualValues(t, -5, c.Now())
	c.Advance(7)
	require.EqualValues(t, 2, c.Now())
	c.Advance(-3)
	require.EqualValues(t, -1, c.Now())
	c.Set(math.MinInt64)
	require.Equal(t, int64(math.MinInt64), c.Now())
}

func TestSystemClock_RunsForward(t *testing.T) {
	c := SystemClock()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		require.GreaterOrEqual(t, now, last)
		last = now
	}
}

func TestSystemClock_KeepsPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := SystemClock()
		before := c.Now()
		<-time.After(3 * time.Second)
		require.Equal(t, 3*time.Second, time.Duration(c.Now()-before))
	})
}

func TestCoarseClock_IsLateByLessThanItsResolution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resolution = 10 * time.Millisecond
		c, exact := newCoarseClock(resolution), SystemClock()
		last := c.Now()
		moved := false
		for range 1000 {
			<-time.After(3 * time.Millisecond)
			now := c.Now()
			late := time.Duration(exact.Now() - now)
			require.GreaterOrEqual(t, late, time.Duration(0), "never early")
			require.LessOrEqual(t, late, resolution)
			require.GreaterOrEqual(t, now, last, "never backwards")
			moved = moved || now > last
			last = now
		}
		require.True(t, moved)
		<-time.After(2 * idleTicks * resolution) // its goroutine ends
	})
}

// The bubble itself is the leak detector: it does not end while the goroutine
// lives.
func TestCoarseClock_EndsWhenNobodyReadsAndStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, exact := newCoarseClock(time.Millisecond), SystemClock()
		for range 3 {
			require.Equal(t, exact.Now(), c.Now(), "the first reading is fresh")
			require.NotEqual(t, int64(asleep), c.reading.Load())
			<-time.After(10 * idleTicks * time.Millisecond)
			require.Equal(t, int64(asleep), c.reading.Load(), "nobody reads")
		}
	})
}

func TestCoarseClock_StartsOneGoroutineForManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, exact := newCoarseClock(time.Millisecond), SystemClock()
		for range 20 {
			var readers sync.WaitGroup
			for range 8 {
				readers.Go(func() {
					if c.Now() != exact.Now() {
						t.Error("stale after waking")
					}
				})
			}
			readers.Wait()
			<-time.After(10 * idleTicks * time.Millisecond)
		}
	})
}

func TestCoarseClock_StaysAwakeWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoarseClock(time.Millisecond)
		for range 10 * idleTicks {
			c.Now()
			<-time.After(time.Millisecond)
			synctest.Wait()
			require.NotEqual(t, int64(asleep), c.reading.Load())
		}
		require.Equal(t, 1, goroutines("sash.(*coarseClock).tick("))
		<-time.After((idleTicks + 1) * time.Millisecond)
		synctest.Wait()
		require.Equal(t, int64(asleep), c.reading.Load())
		require.Zero(t, goroutines("sash.(*coarseClock).tick("))
	})
}

// A reader that saw the clock asleep, and comes when another has woken it.
func TestCoarseClock_IsNotWokenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoarseClock(time.Millisecond)
		require.Equal(t, c.rouse(), c.rouse())
		synctest.Wait()
		require.Equal(t, 1, goroutines("sash.(*coarseClock).tick("))
		<-time.After(2 * idleTicks * time.Millisecond)
	})
}

func TestCoarseClock_IsSharedPerResolution(t *testing.T) {
	require.Same(t, CoarseClock(time.Hour), CoarseClock(time.Hour))
	require.NotSame(t, CoarseClock(time.Hour), CoarseClock(2*time.Hour))
}

func TestCoarseClock_RefusesNoResolution(t *testing.T) {
	require.PanicsWithValue(t, "sash: CoarseClock: resolution must be > 0, got -1s", func() { CoarseClock(-time.Second) })
}
