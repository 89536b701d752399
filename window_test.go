package sash

import (
	"math"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A step is a call of Take at an instant, and what is wanted of it.
type step struct {
	at        time.Duration
	n         int64
	allowed   bool
	remaining int64
	retry     time.Duration
	reset     time.Duration
}

func runSteps(t *testing.T, l *Limiter, clock *ManualClock, steps []step) {
	t.Helper()
	for i, s := range steps {
		clock.Set(int64(s.at))
		d := l.Take("k", s.n)
		require.Equal(t, Decision{s.allowed, l.rule().Limit, s.remaining, s.retry, s.reset}, d, "step %d: %+v", i, s)
	}
}

// counters runs test on l and on the same limit in wide cells.
func counters(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, clock *ManualClock), options ...Option) {
	t.Helper()
	options = append(options, limit)
	clock := NewManualClock(0)
	t.Run("counter", func(t *testing.T) { test(t, newTest(t, append(options, WithClock(clock))...), clock) })
	t.Run("wide", func(t *testing.T) { test(t, widen(newTest(t, append(options, WithClock(clock))...)), clock) })
}

const sec, min1 = time.Second, time.Minute

func TestCounter_Steps(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		steps []step
	}{
		// 9 in the first minute, 5 in the second: 9*75% + 5 = 11.75 > 10 at 1:15.
		"nine then five": {PerMinute(10), []step{
			{30 * sec, 9, true, 1, 0, 90 * sec},
			// 9*(60-e)/60 + 5 <= 10 from e = 26 2/3 s on.
			{min1 + 15*sec, 5, false, 3, 11*sec + 666666667, 45 * sec},
			{min1 + 26*sec + 666666667, 5, true, 0, 0, 33333333333 + min1},
			{min1 + 45*sec, 1, true, 1, 0, 75 * sec},
		}},
		// 400*25% + 250 = 350, and one more is 351.
		"500 a minute": {PerMinute(500), []step{
			{0, 400, true, 100, 0, 2 * min1},
			{min1 + 45*sec, 250, true, 150, 0, 75 * sec},
			{min1 + 45*sec, 1, true, 149, 0, 75 * sec},
		}},
		// Back exactly at the end of the window but one: curr becomes prev.
		"a full window weighs on the whole next one": {PerMinute(2), []step{
			{0, 2, true, 0, 0, 2 * min1},
			{59 * sec, 1, false, 0, 31 * sec, 61 * sec},
			{min1, 1, false, 0, 30 * sec, min1},
			{90*sec - 1, 1, false, 0, 1, 30*sec + 1},
			{90 * sec, 1, true, 0, 0, 90 * sec},
			{90 * sec, 2, false, 0, 90 * sec, 90 * sec},
		}},
		"idle for long": {PerMinute(2), []step{
			{0, 2, true, 0, 0, 2 * min1},
			{2*min1 - 1, 2, false, 1, 1, 1},
			{2 * min1, 2, true, 0, 0, 2 * min1},
			{1000 * time.Hour, 2, true, 0, 0, 2 * min1},
		}},
		"a late reading is the beginning of the newest window": {PerMinute(2), []step{
			{5 * min1, 1, true, 1, 0, 2 * min1},
			{5*min1 + 30*sec, 1, true, 0, 0, 90 * sec},
			{0, 1, false, 0, 6*min1 + 30*sec, 7 * min1},
			{4 * min1, 1, false, 0, 2*min1 + 30*sec, 3 * min1},
			{6 * min1, 1, false, 0, 30 * sec, min1},
		}},
		"before the origin": {PerMinute(2), []step{
			{-90 * sec, 2, true, 0, 0, 90 * sec},
			{-31 * sec, 1, false, 0, 1 * sec, 31 * sec},
			{-30 * sec, 1, true, 0, 0, 90 * sec},
			{0, 1, true, 0, 0, 2 * min1},
		}},
		"never": {PerMinute(2), []step{
			{0, 3, false, 2, Never, 0},
			{0, -1, false, 2, Never, 0},
			{0, 1, true, 1, 0, 2 * min1},
			{0, 0, true, 1, 0, 2 * min1},
			{0, math.MaxInt64, false, 1, Never, 2 * min1},
			{0, math.MinInt64, false, 1, Never, 2 * min1},
		}},
		"the end of time": {PerMinute(2), []step{
			{math.MaxInt64, 2, true, 0, 0, 2*min1 - math.MaxInt64%min1},
			{math.MinInt64, 1, false, 0, Never, Never},
			{math.MaxInt64, 1, false, 0, min1 - math.MaxInt64%min1 + 30*sec, 2*min1 - math.MaxInt64%min1},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			counters(t, c.limit, func(t *testing.T, l *Limiter, clock *ManualClock) { runSteps(t, l, clock, c.steps) })
		})
	}
}

func TestCounter_ChargesDeniedUpToCount(t *testing.T) {
	counters(t, PerMinute(4), func(t *testing.T, l *Limiter, clock *ManualClock) {
		runSteps(t, l, clock, []step{
			{0, 3, true, 1, 0, 2 * min1},
			// Charged one more: 4 in this window, which weigh 2 half way into the next.
			{10 * sec, 2, false, 0, 80 * sec, 110 * sec},
			{20 * sec, 100, false, 0, Never, 100 * sec},
			// Hammering keeps it denied: now 4 in the next window too.
			{min1, 4, false, 0, 2 * min1, 2 * min1},
			{2*min1 + 30*sec - 1, 2, false, 0, 30*sec + 1, 90*sec + 1},
		})
	}, WithChargeDenied())
}

// A flood that fills the end of one window and the beginning of the next shows
// the proven bound, and that it is not passed: L(1+f) < 2L in any W.
func TestCounter_AdmitsLessThanTwiceCountInAnyWindow(t *testing.T) {
	const count, size = 100, 1000
	counters(t, Per(count, size), func(t *testing.T, l *Limiter, clock *ManualClock) {
		var admitted []int64 // by instant
		for at := range int64(20 * size) {
			clock.Set(at)
			n := int64(0)
			if at%(5*size) >= size-1 { // idle, then flooded from the last instant of a window on
				for l.Allow("k") {
					n++
				}
			}
			admitted = append(admitted, n)
		}
		var trailing, worst, aligned int64
		for at, n := range admitted {
			if trailing += n; at >= size {
				trailing -= admitted[at-size]
			}
			if at%size == 0 {
				aligned = 0
			}
			aligned += n
			require.LessOrEqual(t, aligned, int64(count), "in an aligned window")
			worst = max(worst, trailing)
		}
		require.Less(t, worst, int64(2*count))
		require.Greater(t, worst, int64(count*3/2), "the flood did reach far past Count")
	})
}

func TestLayout_PacksAndUnpacks(t *testing.T) {
	for _, l := range []Limit{PerSecond(1), PerMinute(10), PerDay(1 << 20), Per(1, time.Hour*24*365), Per(3, time.Microsecond), Per(1<<25-1, 365*24*time.Hour)} {
		layout, fits := layoutOf(l)
		require.True(t, fits, l)
		first, _ := divide(math.MinInt64, int64(l.Window))
		last, _ := divide(math.MaxInt64, int64(l.Window))
		seen := map[uint64]bool{}
		for _, index := range []int64{first, first + 1, -1, 0, 1, last - 1, last} {
			for _, prev := range []int64{0, 1, l.Count} {
				for _, curr := range []int64{0, 1, l.Count} {
					w := window{index, prev, curr}
					word := layout.pack(w)
					require.Equal(t, w, layout.unpack(word))
					require.Less(t, word, uint64(locked), "flags are free")
					seen[word] = true
				}
			}
		}
		require.False(t, seen[0], "0 is a key never used")
		require.Zero(t, layout.unpack(0).curr|layout.unpack(0).prev)
		require.Less(t, layout.pack(window{last, 0, 0}), uint64(locked))
	}
}

func TestLayout_TakesTheWideCellWhereEpochsWouldNotFit(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		fits  bool
	}{
		{PerSecond(10), true},
		{PerSecond(8191), true},
		{PerSecond(8192), false},
		{PerMinute(65535), true},
		{PerMinute(65536), false},
		{PerDay(1<<21 - 1), true},
		{PerDay(1 << 21), false},
		{Per(7, time.Microsecond), true},
		{Per(8, time.Microsecond), false},
		{Per(1, 1), false},
		{Per(1, 2), false},
		{Per(1, 32), false},
		{Per(1, 33), true},
		{Per(1e15, time.Microsecond), false},
		{Per(1e15, 365*24*time.Hour), false},
		{Per(math.MaxInt64, math.MaxInt64), false},
		{Per(1<<29-1, math.MaxInt64), true},
	} {
		_, fits := layoutOf(c.limit)
		require.Equal(t, c.fits, fits, c.limit)
		// The same by counting: every window of int64 has an epoch of its own.
		first, _ := divide(math.MinInt64, int64(c.limit.Window))
		last, _ := divide(math.MaxInt64, int64(c.limit.Window))
		room := 61 - 2*bits.Len64(uint64(c.limit.Count))
		require.Equal(t, room > 0 && float64(last)-float64(first)+2 < math.Pow(2, float64(room)), fits, c.limit)
	}
}

// A word of every epoch that an old word could be mistaken in: none is.
func TestCounter_IdleForAsLongAsAnyEpochFieldWouldWrap(t *testing.T) {
	limit := Per(1, time.Microsecond)
	clock := NewManualClock(math.MinInt64)
	l := newTest(t, limit, WithClock(clock))
	require.True(t, l.Allow("k"))
	for shift := 2; shift < 54; shift++ {
		clock.Set(math.MinInt64 + int64(limit.Window)<<shift)
		require.True(t, l.Allow("k"), "2^%d windows later", shift)
		require.False(t, l.Allow("k"))
	}
}

func TestWideCounter_CountsPastItsLowBits(t *testing.T) {
	const count = 10 * lowMask
	clock := NewManualClock(0)
	l := newTest(t, Per(count, time.Hour), WithClock(clock))
	require.Equal(t, wideCell, l.own().kind)
	left := int64(count)
	for _, n := range []int64{1, lowMask - 1, 1, 1, lowMask, lowMask + 1, 3 * lowMask, 5, lowMask} {
		left -= n
		require.Equal(t, left, l.Take("k", n).Remaining)
	}
	for ; left > 0; left -= lowMask / 3 { // the quick way
		require.Equal(t, left >= lowMask/3, l.AllowN("k", lowMask/3))
	}
}

func TestWideCounter_CarriesOutOfItsLowBits(t *testing.T) {
	const count = 10 * lowMask
	for low := range int64(8) {
		l := newTest(t, Per(count, time.Hour), WithClock(NewManualClock(0)))
		require.True(t, l.Allow("k"))
		require.True(t, l.AllowN("k", low))
		require.True(t, l.AllowN("k", lowMask+1-5))
		require.EqualValues(t, count-1-low-(lowMask+1-5), l.Peek("k", 0).Remaining)
	}
}

// A call that finds the cell in somebody's hands waits for that one, and changes
// nothing meanwhile.
func TestTake_AwaitsWhoHoldsTheCell(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		c := l.table().seek(l.key("k"))
		word, _ := c.current()
		require.True(t, c.lock(word))
		var begun atomic.Bool
		var g sync.WaitGroup
		g.Go(func() {
			begun.Store(true)
			l.Take("k", 1)
		})
		for turns := 0; !begun.Load() || turns < 1000; turns++ {
			runtime.Gosched()
		}
		held := c.word.Load()
		c.word.Store(word)
		g.Wait()
		require.Equal(t, word|locked, held)
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
	})
}

// What was read of a window is one state as long as units are only added to its
// word; not once somebody has had it locked, not even for the window it had before.
func TestWideCounter_KnowsWhatItHasReadAsOneState(t *testing.T) {
	var c wideCounter
	c.word.Store(c.put(0, window{index: 7, prev: 1, curr: 2}))
	word := c.word.Load()
	w := c.window(word)
	require.Equal(t, window{7, 1, 2}, w)
	require.True(t, c.store(word, w, window{7, 1, 5}))
	require.True(t, c.sameGeneration(word))
	require.Equal(t, window{7, 1, 2}, c.window(word))

	held := c.word.Load()
	require.True(t, c.lock(held))
	require.False(t, c.sameGeneration(word))
	c.word.Store(c.put(held, window{7, 1, 2}))
	require.False(t, c.sameGeneration(word))
	require.False(t, c.store(word, w, window{7, 1, 3}), "nor is it charged by what was read")
	require.Equal(t, window{7, 1, 2}, c.window(c.word.Load()))
}

// The quick way is only for a cell that is alive, and in nobody's hands.
func TestQuick_LeavesACellThatIsDeadOrHeld(t *testing.T) {
	counters(t, PerMinute(2), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		k := l.key("k")
		c := l.table().load(k)
		word := c.word.Load()
		c.word.Store(word | locked)
		var sure bool
		if l.own().kind == wideCell {
			_, sure = l.rule().quickWide(c.wide(), 0, 1)
		} else {
			_, sure = l.rule().quick(c, 0, 1)
		}
		require.False(t, sure)
		require.Equal(t, word|locked, c.word.Load())
		c.word.Store(word)
		require.True(t, c.kill(word)) // and left in the table
		require.True(t, l.AllowN("k", 2))
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	})
}
