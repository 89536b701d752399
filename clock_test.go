package sash

import (
	"bytes"
	"math"
	"runtime/pprof"
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

// newBubbledCoarseClock returns a clock whose goroutine ticks by the time of the
// bubble that the caller is in.
func newBubbledCoarseClock(resolution time.Duration) *coarseClock {
	c := newCoarseClock(resolution)
	c.exact, c.foreign = bubbleClock{}, func() bool { return false }
	return c
}

func TestCoarseClock_IsLateByLessThanItsResolution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const resolution = 10 * time.Millisecond
		c, exact := newBubbledCoarseClock(resolution), SystemClock()
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
		c, exact := newBubbledCoarseClock(time.Millisecond), SystemClock()
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
		c, exact := newBubbledCoarseClock(time.Millisecond), SystemClock()
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

// ticking returns how many goroutines in a bubble keep a coarse clock. Those outside are
// of clocks that other tests have read.
func ticking() (n int) {
	var stacks bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	for stack := range bytes.SplitSeq(stacks.Bytes(), []byte("\n\n")) {
		if bytes.Contains(stack, []byte("synctest bubble")) && bytes.Contains(stack, []byte("sash.(*coarseClock).tick(")) {
			n++
		}
	}
	return n
}

func TestCoarseClock_StaysAwakeWhileItIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBubbledCoarseClock(time.Millisecond)
		for range 10 * idleTicks {
			c.Now()
			<-time.After(time.Millisecond)
			synctest.Wait()
			require.NotEqual(t, int64(asleep), c.reading.Load())
		}
		require.Equal(t, 1, ticking())
		<-time.After((idleTicks + 1) * time.Millisecond)
		synctest.Wait()
		require.Equal(t, int64(asleep), c.reading.Load())
		require.Zero(t, ticking())
	})
}

// A reader that saw the clock asleep, and comes when another has woken it.
func TestCoarseClock_IsNotWokenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBubbledCoarseClock(time.Millisecond)
		require.Equal(t, c.rouse(), c.rouse())
		synctest.Wait()
		require.Equal(t, 1, ticking())
		<-time.After(2 * idleTicks * time.Millisecond)
	})
}

func TestCoarseClock_IsSharedPerResolution(t *testing.T) {
	require.Same(t, CoarseClock(time.Hour), CoarseClock(time.Hour))
	require.NotSame(t, CoarseClock(time.Hour), CoarseClock(2*time.Hour))
}

// The bubble ends while the clock is in use.
func TestCoarseClock_InABubbleIsTheBubblesAndLeavesNoGoroutine(t *testing.T) {
	const resolution = 10 * time.Millisecond
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			clock, exact := CoarseClock(resolution), SystemClock()
			require.Equal(t, clock, CoarseClock(resolution))
			moved, last := 0, clock.Now()
			for range 100 {
				<-time.After(3 * time.Millisecond)
				now := clock.Now()
				late := time.Duration(exact.Now() - now)
				require.GreaterOrEqual(t, late, time.Duration(0), "never early")
				require.Less(t, late, resolution)
				require.GreaterOrEqual(t, now, last, "never backwards")
				if now > last {
					moved++
				}
				last = now
			}
			require.Equal(t, 30, moved)
		})
	}
}

func TestCoarseClock_InABubbleLetsALimiterWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(1).Log(), WithClock(CoarseClock(time.Second)))
		require.True(t, l.Allow("k"))
		require.False(t, l.Allow("k"))
		<-time.After(time.Minute)
		require.True(t, l.Allow("k"))
		begun := time.Now()
		<-time.After(500 * time.Millisecond)
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		require.Equal(t, time.Minute+500*time.Millisecond, time.Since(begun), "late by less than the resolution")
	})
}

// Clocks of one resolution, one outside and one in a bubble, before and after.
func TestCoarseClock_OutsideIsNotMovedByABubble(t *testing.T) {
	const resolution = 7 * time.Hour // longer than the test, so it does not tick
	inBubble := func(t *testing.T) {
		clock := CoarseClock(resolution)
		start := clock.Now()
		<-time.After(3 * resolution)
		require.EqualValues(t, 3*resolution, clock.Now()-start)
	}
	synctest.Test(t, inBubble)
	outside := CoarseClock(resolution)
	limiter := newTest(t, PerHour(1).Log(), WithClock(outside))
	require.True(t, limiter.Allow("k"))
	first := outside.Now()
	require.GreaterOrEqual(t, first, int64(0), "the process began then")
	require.LessOrEqual(t, first, sinceStart())
	synctest.Test(t, inBubble)
	require.Equal(t, first, outside.Now())
	require.False(t, limiter.Allow("k"), "no hour has passed here")
}

// A package may keep the clock in a variable, and read it in a bubble in its tests.
func TestCoarseClock_MadeOutsideKeepsRealTimeInABubble(t *testing.T) {
	const resolution = 8 * time.Hour // longer than the test, so it does not tick
	clock := newCoarseClock(resolution)
	var last int64
	inBubble := func(t *testing.T) {
		for range 3 {
			before := sinceStart()
			now := clock.Now()
			require.GreaterOrEqual(t, now, before, "exact")
			require.LessOrEqual(t, now, sinceStart())
			require.GreaterOrEqual(t, now, last)
			require.Equal(t, int64(asleep), clock.reading.Load(), "no goroutine was started")
			last = now
			<-time.After(2 * resolution)
		}
	}
	synctest.Test(t, inBubble)
	synctest.Test(t, inBubble)

	outside := clock.Now() // wakes it
	require.GreaterOrEqual(t, outside, last)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(100 * resolution)
		require.Equal(t, outside, clock.Now())
	})
	require.Equal(t, outside, clock.Now())
}

// That is against the docs, but must not end the process.
func TestClocks_OfABubbleShowTheWallTimeOutside(t *testing.T) {
	var clocks []Clock
	synctest.Test(t, func(t *testing.T) {
		clocks = []Clock{SystemClock(), CoarseClock(time.Millisecond)}
	})
	for _, clock := range clocks {
		before := time.Since(bubbleStart)
		now := time.Duration(clock.Now())
		require.GreaterOrEqual(t, now, before-time.Millisecond)
		require.LessOrEqual(t, now, time.Since(bubbleStart))
	}
}

func TestCoarseClock_RefusesNoResolution(t *testing.T) {
	require.PanicsWithValue(t, "sash: CoarseClock: resolution must be > 0, got -1s", func() { CoarseClock(-time.Second) })
}
