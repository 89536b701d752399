package sash

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLog_Steps(t *testing.T) {
	for name, c := range map[string]struct {
		limit   Limit
		options []Option
		steps   []step
	}{
		"denied attempts are logged too": {PerMinute(2), []Option{WithChargeDenied()}, []step{
			{1 * sec, 1, true, 1, 0, min1},
			{30 * sec, 1, true, 0, 0, min1},
			// Charged, so the unit of :30 has to pass before one more fits.
			{50 * sec, 1, false, 0, 40 * sec, min1},
			{100 * sec, 1, true, 0, 0, min1},
		}},
		"first client": {PerMinute(3), nil, []step{
			{15733 * time.Millisecond, 1, true, 2, 0, min1},
			{21848 * time.Millisecond, 1, true, 1, 0, min1},
			{23044 * time.Millisecond, 1, true, 0, 0, min1},
			{25920 * time.Millisecond, 1, false, 0, (15733 + 60000 - 25920) * time.Millisecond, (23044 + 60000 - 25920) * time.Millisecond},
			{28761 * time.Millisecond, 1, false, 0, (15733 + 60000 - 28761) * time.Millisecond, (23044 + 60000 - 28761) * time.Millisecond},
		}},
		"second client": {PerMinute(3), nil, []step{
			{72207 * time.Millisecond, 1, true, 2, 0, min1},
			{79100 * time.Millisecond, 1, true, 1, 0, min1},
			{80117 * time.Millisecond, 1, true, 0, 0, min1},
			{81146 * time.Millisecond, 1, false, 0, (72207 + 60000 - 81146) * time.Millisecond, (80117 + 60000 - 81146) * time.Millisecond},
			{86779 * time.Millisecond, 1, false, 0, (72207 + 60000 - 86779) * time.Millisecond, (80117 + 60000 - 86779) * time.Millisecond},
			{89344 * time.Millisecond, 1, false, 0, (72207 + 60000 - 89344) * time.Millisecond, (80117 + 60000 - 89344) * time.Millisecond},
		}},
		"20 units taken at 6:05 pm are back at 7:05 pm": {PerHour(240), nil, []step{
			{18*time.Hour + 5*min1, 20, true, 220, 0, time.Hour},
			{18*time.Hour + 30*min1, 220, true, 0, 0, time.Hour},
			{19 * time.Hour, 20, false, 0, 5 * min1, 30 * min1},
			{19*time.Hour + 5*min1 - 1, 20, false, 0, 1, 25*min1 + 1},
			{19*time.Hour + 5*min1, 20, true, 0, 0, time.Hour},
		}},
		"costs wait for as many runs as they need": {PerSecond(10), nil, []step{
			{0, 1, true, 9, 0, sec},
			{100, 2, true, 7, 0, sec},
			{100, 3, true, 4, 0, sec}, // the same instant
			{200, 4, true, 0, 0, sec},
			{300, 1, false, 0, sec - 300, sec - 100},
			{300, 2, false, 0, sec - 200, sec - 100},
			{300, 6, false, 0, sec - 200, sec - 100},
			{300, 7, false, 0, sec - 100, sec - 100},
			{300, 10, false, 0, sec - 100, sec - 100},
			{300, 11, false, 0, Never, sec - 100},
			{sec, 1, true, 0, 0, sec},
		}},
		"a late reading is the time of the newest unit": {PerMinute(2), nil, []step{
			{5 * min1, 1, true, 1, 0, min1},
			{0, 1, true, 0, 0, 6 * min1}, // taken at 5:00
			{4 * min1, 1, false, 0, 2 * min1, 2 * min1},
			{6*min1 - 1, 1, false, 0, 1, 1},
			{6 * min1, 2, true, 0, 0, min1},
		}},
		"before the origin": {PerMinute(1), nil, []step{
			{-30 * sec, 1, true, 0, 0, min1},
			{30*sec - 1, 1, false, 0, 1, 1},
			{30 * sec, 1, true, 0, 0, min1},
		}},
		"the ends of time": {Per(1, math.MaxInt64), nil, []step{
			{math.MinInt64, 1, true, 0, 0, math.MaxInt64},
			{-2, 1, false, 0, 1, 1},
			{-1, 1, true, 0, 0, math.MaxInt64},
			{math.MaxInt64, 1, true, 0, 0, math.MaxInt64},
			{math.MinInt64, 1, false, 0, Never, Never},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			runSteps(t, newTest(t, append(c.options, c.limit.Log(), WithClock(clock))...), clock, c.steps)
		})
	}
}

// Of denied attempts that are charged, the newest Count units count, in as
// little room, whatever they cost and however many they are.
func TestLog_ChargesDeniedInBoundedRoom(t *testing.T) {
	for _, count := range []int64{1, 2, 10, math.MaxInt64} {
		clock := NewManualClock(0)
		l := newTest(t, Per(count, time.Second).Log(), WithChargeDenied(), WithClock(clock))
		for i := range 1000 {
			clock.Advance(time.Duration(i % 3))
			l.Take("k", []int64{1, count, math.MaxInt64, 2}[i%4])
			require.EqualValues(t, 0, min(l.Peek("k", 0).Remaining, int64(i)))
		}
		require.Equal(t, sec, l.Take("k", count).RetryAfter)
		g := ringOf(l, "k")
		require.LessOrEqual(t, int64(len(g.runs)), count)
		require.LessOrEqual(t, len(g.runs), 1000)
		clock.Advance(sec)
		require.True(t, l.AllowN("k", count))
	}
}

func ringOf(l *Limiter, name string) *ring {
	k := l.key(name)
	c := l.table().load(k)
	return c.log().ring.Load()
}

func TestLog_GrowsWithUseAndIsBoundedByCount(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), WithClock(clock))
	for used := 1; used <= 10_000; used++ {
		clock.Advance(1)
		require.True(t, l.Allow("k"))
		require.LessOrEqual(t, len(ringOf(l, "k").runs), 2*used)
	}
	require.Equal(t, 10_000, len(ringOf(l, "k").runs))
	require.False(t, l.Allow("k"))

	clock.Advance(time.Hour / 2)
	require.Equal(t, 0, l.Sweep())
	require.Equal(t, 10_000, len(ringOf(l, "k").runs), "all of it is live")
	clock.Advance(time.Hour)
	require.True(t, l.Allow("k"))
	require.Equal(t, 0, l.Sweep())
	require.Equal(t, firstRuns, len(ringOf(l, "k").runs), "a burst is not kept for ever")
	require.EqualValues(t, 9_999, l.Peek("k", 0).Remaining)
}

// Shrinking keeps what any reading may need, one as old as the newest run too.
func TestLog_ShrinksToWhatIsLive(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), WithClock(clock))
	for range 100 {
		clock.Advance(1)
		require.True(t, l.Allow("k"))
	}
	clock.Advance(time.Hour - 3)
	require.True(t, l.Allow("k"))
	require.EqualValues(t, 10_000-4, l.Peek("k", 0).Remaining)
	full, before, each := ringOf(l, "k"), l.Peek("k", 10_000), l.Peek("k", 9_998)
	require.Equal(t, 0, l.Sweep())
	require.Less(t, len(ringOf(l, "k").runs), len(full.runs))
	require.Equal(t, before, l.Peek("k", 10_000))
	require.Equal(t, each, l.Peek("k", 9_998))

	same := ringOf(l, "k")
	require.Equal(t, 0, l.Sweep())
	require.Same(t, same, ringOf(l, "k"), "not again")
}

func TestLog_DoesNotShrinkADeadCellBackToLife(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), WithClock(clock))
	for range 100 {
		clock.Advance(1)
		l.Allow("k")
	}
	clock.Advance(2 * time.Hour)
	l.Allow("k")
	k := l.key("k")
	c := l.table().load(k)
	word, _ := c.current()
	require.True(t, c.kill(word))
	c.log().shrink(l.rule())
	_, alive := c.current()
	require.False(t, alive)
}

// While one caller makes room, the others read on, charge nothing, make no room
// too, and do not take the cell away.
func TestLog_WhileItGrows(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(clock))
	l.Allow("k")
	k := l.key("k")
	c := l.table().load(k)
	word, _ := c.current()
	require.True(t, c.log().reserve(word))
	grown, _ := c.current()

	require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
	require.False(t, l.AllowN("k", 100))
	require.False(t, c.log().reserve(grown))
	clock.Advance(time.Hour)
	require.Equal(t, 0, l.Sweep(), "in use")

	v := c.log().ring.Load().view()
	c.log().ring.Store(v.without(0, 8))
	c.unlock(word)
	require.True(t, l.Allow("k"))
	require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
	require.True(t, l.Reset("k"))
}

// What makes room starts from what it has read: if anything was charged since, it
// leaves that be.
func TestLog_GrowsOnlyFromTheStateItHasRead(t *testing.T) {
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	c := l.table().seek(l.key("k"))
	word, _ := c.current()
	v := c.log().ring.Load().view()
	require.True(t, l.Allow("k"))
	charged, _ := c.current()
	c.log().grow(word, l.rule(), &v)
	require.Same(t, v.ring, c.log().ring.Load())
	require.Equal(t, charged, c.word.Load())
	require.EqualValues(t, 98, l.Peek("k", 0).Remaining)
}

// Nor does a Reset take a cell away while a caller makes room: that one's store
// would bring it back to life.
func TestReset_AwaitsWhoMakesRoom(t *testing.T) {
	everyKind(t, PerHour(100), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		c := l.table().seek(l.key("k"))
		if l.own().kind != logCell && !c.compounded() {
			return // it never makes room
		}
		word, _ := c.current()
		require.True(t, c.reserve(word))
		var begun atomic.Bool
		var g sync.WaitGroup
		g.Go(func() {
			begun.Store(true)
			l.Reset("k")
		})
		for turns := 0; !begun.Load() || turns < 1000; turns++ {
			runtime.Gosched()
		}
		require.Equal(t, word|growing, c.word.Load())
		c.unlock(word)
		g.Wait()
		require.NotZero(t, c.word.Load()&dead)
		require.Equal(t, 0, l.Len())
	})
}

// Each new ring has room for as many charges as it copied: few rings are made.
func TestLog_MakesFewRings(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), WithClock(clock))
	rings := map[*ring]bool{}
	for range 10_000 {
		clock.Advance(1)
		l.Allow("k")
		rings[ringOf(l, "k")] = true
	}
	require.LessOrEqual(t, len(rings), 14)

	for range 1000 { // at one instant: one run
		require.True(t, l.Allow("one"))
	}
	require.Len(t, ringOf(l, "one").runs, firstRuns)
}

func TestLog_OneUnitAndManyRunsKeepTheirOrder(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(7, 100).Log(), WithClock(clock))
	for range 1000 { // round and round the ring
		clock.Advance(13)
		d := l.Take("k", 1)
		require.Equal(t, d.Allowed, d.RetryAfter == 0)
		if !d.Allowed {
			clock.Advance(d.RetryAfter - 1)
			require.False(t, l.Peek("k", 1).Allowed)
			clock.Advance(1)
			require.True(t, l.Allow("k"))
		}
	}
}

func TestLog_AdmitsAtMostCountInAnyWindow(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(50, 1000).Log(), WithClock(clock))
	var admitted [20000]int
	trailing := 0
	for at := range admitted {
		clock.Set(int64(at))
		for l.Allow("k") {
			admitted[at]++
		}
		if trailing += admitted[at]; at >= 1000 {
			trailing -= admitted[at-1000]
		}
		require.LessOrEqual(t, trailing, 50)
	}
}
