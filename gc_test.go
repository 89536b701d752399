package sash

import (
	"bytes"
	"math"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"
)

func TestSweep_EvictsExactlyWhatIsAsGoodAsNew(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		for i := range 100 {
			l.Allow(strconv.Itoa(i))
		}
		clock.Advance(10 * sec)
		l.Allow("later")
		reset := l.Peek("0", 0).ResetAfter
		clock.Advance(reset - 1)
		require.Equal(t, 0, l.Sweep())
		require.Equal(t, 101, l.Len())
		clock.Advance(1)
		later := l.Peek("later", 0).ResetAfter
		if later == 0 { // a counter forgets by the window
			require.Equal(t, 101, l.Sweep())
		} else {
			require.Equal(t, 100, l.Sweep())
			require.Equal(t, 1, l.Len())
			clock.Advance(later)
			require.Equal(t, 1, l.Sweep())
		}
		require.Equal(t, Stats{Keys: 0, Evicted: 101, Sweeps: l.Stats().Sweeps}, l.Stats())
		require.GreaterOrEqual(t, l.Stats().Sweeps, uint64(2))
	})
}

// A call that read the clock, lost its core, and finds its key evicted: its
// units count from the time it goes on, not from its reading.
func TestEvict_UnderACallChargesNothingToTheForgottenPast(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		first := true
		l.clock = clockFunc(func() int64 {
			now := clock.Now()
			if first { // while the caller sleeps on its reading
				first = false
				clock.Advance(5 * min1)
				require.Equal(t, 1, l.sweep(nil))
			}
			return now
		})
		require.True(t, l.AllowN("k", 2), "that key is long free again")
		require.False(t, l.Allow("k"), "and now is not")
		clock.Advance(29 * sec)
		require.False(t, l.Allow("k"))
	})
}

// Nor does a call for several keys, or one that settles to more than was reserved.
func TestEvict_UnderAnyOtherCallChargesNothingToTheForgottenPast(t *testing.T) {
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
				first := true
				l.clock = clockFunc(func() int64 {
					now := clock.Now()
					if first { // while the caller sleeps on its reading
						first = false
						clock.Advance(5 * min1)
						require.Equal(t, 1, l.sweep(nil))
					}
					return now
				})
				call()
				require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
				clock.Advance(min1 - 1)
				require.False(t, l.AllowN("k", 3))
			})
		})
	}
}

type clockFunc func() int64

func (f clockFunc) Now() int64 { return f() }

// Nor does one whose clock runs back, nor one that finds the empty cell another
// caller is about to charge.
func TestEvict_LeavesNoWayBackBeforeIt(t *testing.T) {
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
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "they count from when the key was fresh")
		clock.Set(fresh + int64(30*sec))
		require.False(t, l.Allow("k"))
	})
}

func TestEvict_FindsTheCellChangedOrDead(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.Allow("k"))
		k := l.key("k")
		c := l.table().load(k)
		clock.Advance(time.Hour)

		word, _, idle := l.own().idle(c, clock.Now())
		require.True(t, idle)
		require.True(t, l.Allow("k")) // between the judgement and the kill
		require.False(t, c.kill(word))
		require.False(t, l.evict(l.now.Load(), k, c, clock.Now()))

		clock.Advance(time.Hour)
		word, _, idle = l.own().idle(c, clock.Now())
		require.True(t, idle)
		require.True(t, c.kill(word)) // dead, and still in the table
		require.Equal(t, 1, l.Len())
		require.False(t, l.evict(l.now.Load(), k, c, clock.Now()))
		require.Equal(t, Decision{Allowed: true, Limit: l.rule().Limit, Remaining: 2}, l.Peek("k", 0), "as one never seen")
		require.False(t, l.Reset("k"))
		require.True(t, l.AllowN("k", 2))
		again := l.table().load(k)
		require.NotSame(t, c, again)
		require.False(t, l.Allow("k"))
		require.Equal(t, 1, l.Len())
	})
}

// The past is forgotten before the kill: whoever finds the cell dead, and books
// on a late reading, finds that too.
func TestEvict_ForgetsBeforeItKills(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		fresh := int64(l.Peek("k", 0).ResetAfter)
		k := l.key("k")
		c := l.table().load(k)
		clock.Set(fresh + int64(time.Hour))

		word, ok := l.own().condemn(c, clock.Now())
		require.True(t, ok)
		require.Equal(t, fresh, l.own().forgotten.Load(), "since when it was fresh, not since the sweep")
		require.True(t, c.kill(word))
	})
}

// What starts at the forgotten instant is exact from there on.
func TestEvict_LeavesExactAnswersBehind(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.AllowN("k", 2)
		fresh := l.Peek("k", 0).ResetAfter
		clock.Set(int64(fresh + time.Hour))
		require.Equal(t, 1, l.Sweep())
		clock.Set(0)
		l.put(l.key("k"))

		life := 2 * min1
		if l.rule().Algorithm == SlidingLog {
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

// A cell that a caller has inserted and not charged yet holds nothing: it may go,
// and the caller makes another.
func TestSweep_EvictsACellThatHoldsNothing(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, _ *ManualClock) {
		k := l.key("k")
		c := l.put(k)
		require.Equal(t, 1, l.Sweep())
		require.Equal(t, int64(math.MinInt64), l.own().forgotten.Load(), "nothing was forgotten")
		_, alive := l.own().settled(c)
		require.False(t, alive)
	})
}

func TestRule_ForgottenOnlyMovesOn(t *testing.T) {
	l := newTest(t, PerSecond(1))
	r := l.rule()
	require.Equal(t, int64(math.MinInt64), r.start(math.MinInt64))
	r.forget(5)
	r.forget(3)
	require.EqualValues(t, 5, r.start(4))
	require.EqualValues(t, 6, r.start(6))
}

func TestJanitor_EvictsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Must(New(PerSecond(1)))
		defer l.Close()
		l.Allow("k")
		<-time.After(time.Second)
		require.Equal(t, 1, l.Len(), "it still counts")
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
		l.interval = 0
		require.Equal(t, want, l.sweepInterval())
	}
}

// The bubble is a leak detector: it panics if a goroutine outlives it.
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

func janitors() int { return goroutines("sash.(*janitor).run(") }

// goroutines counts those in the whole process that are in a function.
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
		for range 100 { // a collection may be under way that began before
			if runtime.GC(); dropped.Value() == nil {
				break
			}
		}
		require.Nil(t, dropped.Value(), "its janitor holds it")
		<-time.After(time.Second)
		synctest.Wait()
		require.Zero(t, janitors())
	})
}

func TestClose_WaitsForTheJanitorWhoeverCalls(t *testing.T) {
	l := Must(New(PerSecond(1)))
	var closers sync.WaitGroup
	for range 4 {
		closers.Go(func() {
			l.Close()
			select {
			case <-l.janitor.done:
			default:
				t.Error("closed, and the janitor goes on")
			}
		})
	}
	closers.Wait()
}

// Close does not wait for the rest of a sweep: here the clock, which a sweep
// reads first, closes the janitor's channel as Close does.
func TestJanitor_StopsInTheMiddleOfASweep(t *testing.T) {
	l := newTest(t, PerSecond(1), WithClock(NewManualClock(0)))
	l.Allow("k")
	j := &janitor{make(chan struct{}), make(chan struct{})}
	l.clock = clockFunc(func() int64 { close(j.stop); return int64(time.Hour) })
	_, goesOn := j.sweep(l)
	require.True(t, goesOn)
	require.Equal(t, 1, l.Len())
	require.EqualValues(t, 0, l.Stats().Sweeps)
}

func TestSweep_StopsHalfWayWhenTold(t *testing.T) {
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

// Of several limits, the past is forgotten up to where the last of them was fresh.
func TestEvict_ForgetsUntilTheLastLimitIsFresh(t *testing.T) {
	for _, limits := range [][]Option{{PerMinute(2).Log(), PerHour(2).Log()}, {PerHour(2).Log(), PerMinute(2).Log()}} {
		clock := NewManualClock(0)
		l := newTest(t, append(limits, WithClock(clock))...)
		require.True(t, l.Allow("k"))
		clock.Set(int64(time.Hour) - 1)
		require.Equal(t, 0, l.Sweep())
		clock.Set(int64(3 * time.Hour))
		require.Equal(t, 1, l.Sweep())
		require.Equal(t, int64(time.Hour), l.own().forgotten.Load())
	}
}

// A counter whose newest window has given all back is as good as new when the one
// before no longer weighs.
func TestSweep_EvictsWhatWasGivenBack(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(5, 10), WithClock(clock))
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

// The past that is forgotten may end in the midst of a window, where the key that
// was evicted had limits of its own, or several: what starts in it is exact, too.
func TestEvict_ForgetsUpToTheMidstOfAWindow(t *testing.T) {
	clock := NewManualClock(7)
	l := newTest(t, Per(2, 100), WithClock(clock))
	require.NoError(t, l.SetLimits("log", Per(1, 35).Log()))
	require.True(t, l.Allow("log"))
	clock.Set(45)
	require.Equal(t, 1, l.Sweep()) // fresh since 42
	clock.Set(41)
	require.Equal(t, time.Duration(200-41), l.Peek("k", 1).ResetAfter)
	require.Equal(t, time.Duration(200-41), l.Take("k", 2).ResetAfter)
	require.Equal(t, time.Duration(150-41), l.Take("k", 1).RetryAfter)
	clock.Set(41 - 100)
	require.Equal(t, time.Duration(200-41+100), l.Peek("new", 1).ResetAfter)
}
