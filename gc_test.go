package sash

import (
	"bytes"
	"math"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

func TestSweep_EvictsExactlyIdleKeys(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		for i := range 100 {
			l.Allow(strconv.Itoa(i))
		}
		clock.Advance(10 * sec)
		l.Allow("later")
		reset := func(key string) time.Duration { return l.Peek(key, 0).ResetAfter }
		tracked := []string{"later"}
		for i := range 100 {
			tracked = append(tracked, strconv.Itoa(i))
		}
		for len(tracked) > 0 { // a counter forgets all keys at once, and under parts each has instants of its own
			next := reset(tracked[0])
			for _, key := range tracked {
				next = min(next, reset(key))
			}
			clock.Advance(next - 1)
			require.Equal(t, 0, l.Sweep())
			require.Equal(t, len(tracked), l.Len())
			clock.Advance(1)
			idle := len(tracked)
			tracked = slices.DeleteFunc(tracked, func(key string) bool { return reset(key) == 0 })
			idle -= len(tracked)
			require.Positive(t, idle)
			require.Equal(t, idle, l.Sweep())
		}
		require.Equal(t, Stats{Keys: 0, Evicted: 101, Sweeps: l.Stats().Sweeps}, l.Stats())
		require.GreaterOrEqual(t, l.Stats().Sweeps, uint64(2))
	})
}

// A call reads the clock, is preempted, and then finds that its key was evicted. Its units
// count from the time at which it goes on, not from its reading.
func TestEvict_UnderACallChargesNothingBelowTheFloor(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		duringReading(l, 1, func() {
			clock.Advance(5 * min1)
			require.Equal(t, 1, l.sweep(nil))
		})
		require.True(t, l.AllowN("k", 2), "the key was idle long before")
		require.False(t, l.Allow("k"), "its units count from now on")
		clock.Advance(29 * sec)
		require.False(t, l.Allow("k"))
	})
}

// The same holds for a call for several keys, and for a Commit of more than was reserved.
func TestEvict_UnderAnyOtherCallChargesNothingBelowTheFloor(t *testing.T) {
	for name, prepare := range map[string]func(l *Limiter) (call func()){
		"TakeAll":    func(l *Limiter) func() { return func() { l.TakeAll([]string{"k", "other"}, 2) } },
		"ReserveAll": func(l *Limiter) func() { return func() { l.ReserveAll([]string{"other", "k"}, 2) } },
		"Commit": func(l *Limiter) func() {
			r, _ := l.Reserve("k", 1)
			return func() { r.Commit(3) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
				require.True(t, l.Allow("k"))
				call := prepare(l)
				duringReading(l, 1, func() {
					clock.Advance(5 * min1)
					require.Equal(t, 1, l.sweep(nil))
				})
				call()
				d := l.Peek("k", 0)
				require.EqualValues(t, 1, d.Remaining)
				clock.Advance(d.ResetAfter - 1)
				require.False(t, l.AllowN("k", 3))
			})
		})
	}
}

// A call on a clock that was set back charges at the floor, too, also if it finds an empty
// entry that another call has just inserted.
func TestEvict_OnAClockSetBackChargesAtTheFloor(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		fresh := int64(l.Peek("k", 0).ResetAfter)
		clock.Set(fresh + int64(time.Hour))
		require.Equal(t, 1, l.Sweep())

		clock.Set(0)
		k := l.key("k")
		l.put(k)
		require.True(t, l.AllowN("k", 2))
		require.False(t, l.Allow("k"))
		clock.Set(fresh)
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "they count from the floor, at which the key became idle")
		clock.Set(fresh + int64(29*sec))
		require.False(t, l.Allow("k"))
	})
}

func TestEvict_FindsTheEntryChangedOrDead(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.Allow("k"))
		k := l.key("k")
		e := l.table().load(k)
		clock.Advance(time.Hour)

		word, idle := l.own().checkIdle(e, clock.Now())
		require.True(t, idle)
		require.True(t, l.Allow("k")) // between checkIdle and tryKill
		require.False(t, e.tryKill(word))
		require.False(t, l.evict(l.current.Load(), k, e, clock.Now(), false))

		clock.Advance(time.Hour)
		word, idle = l.own().checkIdle(e, clock.Now())
		require.True(t, idle)
		require.True(t, e.tryKill(word)) // the dead entry stays in the table
		require.Equal(t, 1, l.Len())
		require.False(t, l.evict(l.current.Load(), k, e, clock.Now(), false))
		require.Equal(t, Decision{Allowed: true, Limit: l.rule().Limit, Remaining: 2}, l.Peek("k", 0), "like a key never seen")
		require.False(t, l.Reset("k"))
		require.True(t, l.AllowN("k", 2))
		again := l.table().load(k)
		require.NotSame(t, e, again)
		require.False(t, l.Allow("k"))
		require.Equal(t, 1, l.Len())
	})
}

// The floor is raised before the entry is killed. So a call that observes the entry dead, and
// charges at a late reading, observes the new floor.
func TestEvict_RaisesTheFloorBeforeItKills(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		fresh := int64(l.Peek("k", 0).ResetAfter)
		k := l.key("k")
		e := l.table().load(k)
		clock.Set(fresh + int64(time.Hour))

		word, ok := l.own().checkIdle(e, clock.Now())
		require.True(t, ok)
		require.Equal(t, fresh, l.own().floor.Load(), "the instant at which the key became idle, not the time of the sweep")
		require.True(t, e.tryKill(word))
	})
}

// The decisions about a key that starts at the floor are exact.
func TestEvict_LeavesExactAnswersAtTheFloor(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.AllowN("k", 2)
		fresh := l.Peek("k", 0).ResetAfter
		clock.Set(int64(fresh + time.Hour))
		require.Equal(t, 1, l.Sweep())
		clock.Set(0)
		l.put(l.key("k"))

		life := 2 * min1
		if l.rule().Algorithm != SlidingCounter {
			life = min1
		}
		require.Equal(t, fresh+life, l.Take("k", 2).ResetAfter)
		d := l.Take("k", 1)
		clock.Advance(d.RetryAfter - 1)
		require.False(t, l.Allow("k"))
		clock.Advance(1)
		require.True(t, l.Allow("k"))
	})
}

func TestSweep_OnAClockSetBackEvictsNothing(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		clock.Set(int64(time.Hour))
		require.True(t, l.AllowN("k", 2))
		clock.Set(0)
		require.Equal(t, 0, l.Sweep())
		require.False(t, l.Allow("k"))
	})
}

// An entry that a call has inserted and not charged yet is empty. A sweep may evict it, and
// the call inserts another one.
func TestSweep_EvictsAnEmptyEntry(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, _ *ManualClock) {
		k := l.key("k")
		e := l.put(k)
		require.Equal(t, 1, l.Sweep())
		require.Equal(t, int64(math.MinInt64), l.own().floor.Load(), "the floor is as it was")
		_, alive := l.own().loadQuiescent(e)
		require.False(t, alive)
	})
}

func TestTimeline_FloorOnlyRises(t *testing.T) {
	l := newTest(t, PerSecond(1))
	r := l.rule()
	require.Equal(t, int64(math.MinInt64), r.clampToFloor(math.MinInt64))
	r.raiseFloor(5)
	r.raiseFloor(3)
	require.EqualValues(t, 5, r.clampToFloor(4))
	require.EqualValues(t, 6, r.clampToFloor(6))
}

func TestJanitor_EvictsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Must(New(PerSecond(1).Counter()))
		defer l.Close()
		l.Allow("k")
		<-time.After(time.Second)
		require.Equal(t, 1, l.Len(), "its unit still counts")
		<-time.After(2500 * time.Millisecond)
		require.Equal(t, 0, l.Len())
		require.EqualValues(t, 1, l.Stats().Evicted)
		require.EqualValues(t, 3, l.Stats().Sweeps, "each second, by default")
	})
}

func TestJanitor_KeepsTheIntervalItIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Must(New(PerSecond(1), WithSweepInterval(time.Minute)))
		never := Must(New(PerSecond(1), WithSweepInterval(-1)))
		<-time.After(10*time.Minute + time.Second)
		require.EqualValues(t, 10, l.Stats().Sweeps)
		require.EqualValues(t, 0, never.Stats().Sweeps)
		require.NoError(t, l.Close())
		require.NoError(t, l.Close(), "again")
		<-time.After(time.Hour)
		require.EqualValues(t, 10, l.Stats().Sweeps)
		require.NoError(t, never.Close())
		require.True(t, l.Allow("k"), "every other method still works")
		require.Equal(t, 0, l.Sweep())
	})
}

func TestSweepInterval_IsChosenFromTheWindow(t *testing.T) {
	for window, want := range map[time.Duration]time.Duration{
		time.Microsecond: time.Second,
		10 * time.Second: 5 * time.Second,
		24 * time.Hour:   10 * time.Minute,
	} {
		l := newTest(t, Per(1, window), Per(1, window/2))
		l.current.Load().setup.interval = 0
		require.Equal(t, want, l.current.Load().sweepInterval())
	}
}

// The bubble detects leaks: it panics if a goroutine outlives it.
func TestJanitor_EndsWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 10 {
			l := Must(New(PerSecond(1)))
			l.Allow("k")
			require.NoError(t, l.Close())
		}
		synctest.Wait()
		require.Zero(t, janitors())
	})
}

// janitors returns the number of janitors in the whole process.
func janitors() int { return goroutines("sash.(*janitor).run(") }

// goroutines returns the number of goroutines in the whole process that run function.
func goroutines(function string) int {
	var stacks bytes.Buffer
	pprof.Lookup("goroutine").WriteTo(&stacks, 2)
	return bytes.Count(stacks.Bytes(), []byte(function))
}

func TestJanitor_EndsOnceItsLimiterIsGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dropped := func() weak.Pointer[Limiter] {
			l := Must(New(PerSecond(1)))
			l.Allow("k")
			return weak.Make(l)
		}()
		synctest.Wait()
		require.Equal(t, 1, janitors())
		for range 100 { // the first call may only finish a collection that began before
			if runtime.GC(); dropped.Value() == nil {
				break
			}
		}
		require.Nil(t, dropped.Value(), "the janitor keeps it alive")
		<-time.After(time.Second)
		synctest.Wait()
		require.Zero(t, janitors())
	})
}

func TestClose_WaitsForTheJanitorInEveryCaller(t *testing.T) {
	l := Must(New(PerSecond(1)))
	var closers sync.WaitGroup
	for range 4 {
		closers.Go(func() {
			l.Close()
			select {
			case <-l.janitor.done:
			default:
				t.Error("Close has returned, and the janitor runs")
			}
		})
	}
	closers.Wait()
}

// Close does not wait for the rest of a sweep. Here the clock, which a sweep reads first,
// closes the janitor's channel like Close.
func TestJanitor_StopsInTheMiddleOfASweep(t *testing.T) {
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)))
	l.Allow("k")
	j := &janitor{make(chan struct{}), make(chan struct{})}
	l.clock = clockFunc(func() int64 { close(j.stop); return int64(time.Hour) })
	require.NotZero(t, j.sweep(l), "it goes on")
	require.Equal(t, 1, l.Len())
	require.EqualValues(t, 0, l.Stats().Sweeps)
}

func TestSweep_StopsHalfWayOnceItIsTold(t *testing.T) {
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)))
	for i := range 1000 {
		l.Allow(strconv.Itoa(i))
	}
	l.clock.(*ManualClock).Advance(time.Hour)
	stop := make(chan struct{})
	close(stop)
	require.Equal(t, 0, l.sweep(stop))
	require.EqualValues(t, 0, l.Stats().Sweeps)
	require.Equal(t, 1000, l.Sweep())
}

// Of several limits, the one under which the key became idle last determines the floor.
func TestEvict_RaisesTheFloorUntilTheLastLimitIsFresh(t *testing.T) {
	for _, limits := range [][]Option{{PerMinute(2).Log(), PerHour(2).Log()}, {PerHour(2).Log(), PerMinute(2).Log()}} {
		clock := NewManualClock(0)
		l := newTest(t, append(limits, WithClock(clock))...)
		require.True(t, l.Allow("k"))
		clock.Set(int64(time.Hour) - 1)
		require.Equal(t, 0, l.Sweep())
		clock.Set(int64(3 * time.Hour))
		require.Equal(t, 1, l.Sweep())
		require.Equal(t, int64(time.Hour), l.own().floor.Load())
	}
}

// A counter whose newest window is empty again is idle once the window before no longer
// counts.
func TestSweep_EvictsAKeyWhoseUnitsWereGivenBack(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(5, 10).Counter(), WithClock(clock))
	require.True(t, l.Allow("k"))
	clock.Set(10)
	r, _ := l.Reserve("k", 1)
	r.Cancel()
	require.EqualValues(t, 10, l.Peek("k", 0).ResetAfter)
	clock.Set(19)
	require.Equal(t, 0, l.Sweep())
	clock.Set(20)
	require.Zero(t, l.Peek("k", 0).ResetAfter)
	require.Equal(t, 1, l.Sweep())
}

// The floor may lie inside a window, if the evicted key had limits of its own. The decisions
// about a key that starts in that window are exact, too.
func TestEvict_RaisesTheFloorIntoAWindow(t *testing.T) {
	clock := NewManualClock(7)
	l := newTest(t, Per(2, 100).Counter(), WithClock(clock))
	require.NoError(t, l.SetLimits("log", Per(1, 35).Log()))
	require.True(t, l.Allow("log"))
	clock.Set(45)
	require.Equal(t, 1, l.Sweep()) // idle since 42
	clock.Set(41)
	require.Equal(t, time.Duration(200-41), l.Peek("k", 1).ResetAfter)
	require.Equal(t, time.Duration(200-41), l.Take("k", 2).ResetAfter)
	require.Equal(t, time.Duration(150-41), l.Take("k", 1).RetryAfter)
	clock.Set(41 - 100)
	require.Equal(t, time.Duration(200-41+100), l.Peek("new", 1).ResetAfter)
}

// An algorithmThatWaits calls during before it tells whether a state has expired, and after it has told whether
// it admits.
type algorithmThatWaits struct {
	algorithm
	during func()
}

func (a algorithmThatWaits) expired(s state, now int64) (since int64, ok bool) {
	a.during()
	return a.algorithm.expired(s, now)
}

func (a algorithmThatWaits) admits(s state, q query) bool {
	defer a.during()
	return a.algorithm.admits(s, q)
}

// A call may lock a key while the janitor reads it, and unlock it unchanged, as a TakeAll does that
// cannot lock its other key. If the janitor then evicts the key, the floor must have risen.
func TestSweep_EvictsNoKeyThatIsLockedForAMomentWithoutRaisingTheFloor(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.Allow("k")
		clock.Advance(time.Hour)
		e := l.table().load(l.key("k"))
		word := e.Word.Load()
		for i := range l.own().rules {
			r := &l.own().rules[i]
			r.algorithm = algorithmThatWaits{r.algorithm, func() { e.Word.Store(word | locked) }}
		}
		before := l.own().floor.Load()
		read, idle := l.own().checkIdle(e, clock.Now())
		e.Word.Store(word)
		if idle && e.tryKill(read) {
			require.Greater(t, l.own().floor.Load(), before)
		}
	})
}
