package sash

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/tsc"
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

// The zero ManualClock fires timers like a clock that NewManualClock returned.
func TestManualClock_ZeroValueHasTimers(t *testing.T) {
	var clock ManualClock
	due, stop := clock.after(5)
	defer stop()
	clock.Set(5)
	<-due
	past, _ := clock.after(4)
	<-past
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

// A limiter reads the clock without the instruction that orders readings, which it does not
// need.
func TestSystemClock_ALimiterReadsItWithoutOrder(t *testing.T) {
	clock := tsc.Shared()
	l := newTest(t, PerSecond(1), WithClock(clock))
	require.Same(t, clock.Unordered(), l.clock)
	require.Same(t, clock, l.Clock())
}

// An operator may distrust the counter. The test runs itself again as a process that is told so,
// and as one that is not. On a machine without a counter, the two do the same.
func TestSystemClock_SASH_CLOCKRulesTheCounterOut(t *testing.T) {
	const again = "SASH_CLOCK_TEST_AGAIN"
	if os.Getenv(again) != "" {
		var clock Clock = systemClock{}
		if tsc.Usable() {
			clock = tsc.Shared()
		}
		require.Equal(t, clock, SystemClock())
		require.Equal(t, unordered(clock), newTest(t, PerSecond(1)).clock)
		fmt.Println(tsc.Description())
		return
	}
	program, err := os.Executable()
	require.NoError(t, err)
	for _, setting := range []string{"", "system"} {
		process := exec.Command(program, "-test.run=^"+t.Name()+"$")
		process.Env = append(os.Environ(), again+"=yes", tsc.Setting+"="+setting)
		out, err := process.CombinedOutput()
		require.NoError(t, err, "%s", out)
		ruledOut := strings.HasPrefix(string(out), "system clock") && strings.Contains(string(out), "; SASH_CLOCK=system)\n")
		require.Equal(t, setting == "system", ruledOut, "%s", out)
	}
}

func TestSystemClock_InABubbleIsTheBubbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := SystemClock()
		l := newTest(t, PerMinute(1))
		require.True(t, l.Allow("k"))
		start := clock.Now()
		<-time.After(2 * time.Minute)
		require.EqualValues(t, 2*time.Minute, clock.Now()-start)
		require.True(t, l.Allow("k"))
	})
}

// A bubble's clock stays the bubble's, also once the bubble has reached the present.
func TestSystemClock_InABubbleThatHasReachedThePresentIsTheBubbles(t *testing.T) {
	present := time.Now().Round(0) // by the wall clock: a bubble has another monotonic one
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(present))
		clock := SystemClock()
		start := clock.Now()
		<-time.After(time.Hour)
		require.EqualValues(t, time.Hour, clock.Now()-start)
	})
}

func TestSystemClock_InABubbleStartsAt0(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			require.Zero(t, SystemClock().Now())
		})
	}
}

func TestSystemClock_MadeOutsideKeepsRealTimeInABubble(t *testing.T) {
	const tolerance = int64(200 * time.Microsecond) // the time-stamp clock may be off by as much
	for name, clock := range map[string]Clock{"default": SystemClock(), "without a counter": systemClock{}} {
		synctest.Test(t, func(t *testing.T) {
			<-time.After(time.Hour)
			before := tsc.SystemNow()
			now := clock.Now()
			require.GreaterOrEqual(t, now, before-tolerance, name)
			require.LessOrEqual(t, now, tsc.SystemNow()+tolerance, name)
		})
	}
}

// newBubbledCoarseClock returns a coarse clock that is renewed in the time of the caller's
// bubble.
func newBubbledCoarseClock(resolution time.Duration) *coarseClock {
	c := newCoarseClock(resolution)
	c.exact, c.foreign = bubbleClock(1), func() bool { return false }
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
		<-time.After(2 * idleTicks * resolution) // until its goroutine has ended
	})
}

// The bubble detects leaks: it does not end before the goroutines in it have ended.
// A program may ask for its clock in each place that makes a limiter.
func TestCoarseClock_IsFoundAgainWithoutAllocating(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	c := CoarseClock(time.Hour)
	require.Zero(t, testing.AllocsPerRun(100, func() { c = CoarseClock(time.Hour) }))
	require.Same(t, c, CoarseClock(time.Hour))
}

func TestCoarseClock_SleepsWithoutReadersAndStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, exact := newBubbledCoarseClock(time.Millisecond), SystemClock()
		for range 3 {
			require.Equal(t, exact.Now(), c.Now(), "the first reading is fresh")
			require.NotEqual(t, int64(asleep), c.reading.Load())
			<-time.After(10 * idleTicks * time.Millisecond)
			require.Equal(t, int64(asleep), c.reading.Load(), "there was no reader")
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

// ticking returns the number of goroutines in a bubble that renew a coarse clock. The
// goroutines outside of bubbles belong to clocks that other tests have read.
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

// The second call stands for a reader that saw the clock asleep before another reader woke
// it.
func TestCoarseClock_IsNotWokenTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newBubbledCoarseClock(time.Millisecond)
		require.Equal(t, c.wake(), c.wake())
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

// The clocks of one resolution outside and in two bubbles are different clocks. One bubble
// ends before the clock outside is made, the other begins after.
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
	require.GreaterOrEqual(t, first, int64(0), "the process began at 0")
	require.LessOrEqual(t, first, tsc.SystemNow())
	synctest.Test(t, inBubble)
	require.Equal(t, first, outside.Now())
	require.False(t, limiter.Allow("k"), "no hour has passed here")
}

// A package may keep the clock in a variable, and its tests may read it in a bubble.
func TestCoarseClock_MadeOutsideKeepsRealTimeInABubble(t *testing.T) {
	const resolution = 8 * time.Hour // longer than the test, so it does not tick
	clock := newCoarseClock(resolution)
	var last int64
	inBubble := func(t *testing.T) {
		for range 3 {
			before := tsc.SystemNow()
			now := clock.Now()
			require.GreaterOrEqual(t, now, before, "exact")
			require.LessOrEqual(t, now, tsc.SystemNow())
			require.GreaterOrEqual(t, now, last)
			require.Equal(t, int64(asleep), clock.reading.Load(), "no goroutine was started")
			last = now
			<-time.After(2 * resolution)
		}
	}
	synctest.Test(t, inBubble)
	synctest.Test(t, inBubble)

	outside := clock.Now() // wakes the clock
	require.GreaterOrEqual(t, outside, last)
	synctest.Test(t, func(t *testing.T) {
		<-time.After(100 * resolution)
		require.Equal(t, outside, clock.Now())
	})
	require.Equal(t, outside, clock.Now())
}

// The documentation forbids this use, but it must not crash the process.
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
