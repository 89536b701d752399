package sash

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A step is a call of Take at an instant, and the decision wanted.
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

// everyCounter runs test with the counter of limit in entries of one word and in multi-limit entries.
func everyCounter(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, clock *ManualClock), options ...Option) {
	t.Helper()
	options = append(options, limit.Counter())
	clock := NewManualClock(0)
	t.Run("counter", func(t *testing.T) { test(t, newTest(t, append(options, WithClock(clock))...), clock) })
	t.Run("multi", func(t *testing.T) { test(t, useMulti(newTest(t, append(options, WithClock(clock))...)), clock) })
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
			everyCounter(t, c.limit, func(t *testing.T, l *Limiter, clock *ManualClock) { runSteps(t, l, clock, c.steps) })
		})
	}
}

func TestCounter_ChargesDeniedUpToCount(t *testing.T) {
	everyCounter(t, PerMinute(4), func(t *testing.T, l *Limiter, clock *ManualClock) {
		runSteps(t, l, clock, []step{
			{0, 3, true, 1, 0, 2 * min1},
			// Charged one more: 4 in this window, which weigh 2 half way into the next.
			{10 * sec, 2, false, 0, 80 * sec, 110 * sec},
			{20 * sec, 100, false, 0, Never, 100 * sec},
			// Further attempts keep it denied: now the next window holds 4, too.
			{min1, 4, false, 0, 2 * min1, 2 * min1},
			{2*min1 + 30*sec - 1, 2, false, 0, 30*sec + 1, 90*sec + 1},
		})
	}, WithChargeDenied())
}

// A flood that fills the end of one window and the beginning of the next comes close to the
// proven bound, L(1+f) < 2L in any W, and does not exceed it.
func TestCounter_AdmitsLessThanTwiceCountInAnyWindow(t *testing.T) {
	const count, size = 100, 1000
	everyCounter(t, Per(count, size), func(t *testing.T, l *Limiter, clock *ManualClock) {
		var admitted []int64 // by instant
		for at := range int64(20 * size) {
			clock.Set(at)
			n := int64(0)
			if at%(5*size) >= size-1 { // idle, then flooded from the last instant of a window on
				for n <= 2*count && l.Allow("k") { // the bound ends it under any fault
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
		require.Greater(t, worst, int64(count*3/2), "the flood was admitted far more than Count")
	})
}

func counterOf(l Limit) window.Counter {
	return window.Counter{Count: l.Count, Window: int64(l.Window)}
}

func TestLayout_PacksAndUnpacks(t *testing.T) {
	for _, l := range []Limit{PerSecond(1), PerMinute(10), PerDay(1 << 20), Per(1, time.Hour*24*365), Per(3, time.Microsecond),
		Per(1<<25-1, 365*24*time.Hour), PerSecond(1<<17 - 1), PerMinute(1<<20 - 1), PerHour(1<<23 - 1), Per(1, 1), Per(7, 7), Per(0, 1),
		Per(1, 16), Per(7, 256)} { // of these two, all windows of time nearly fit
		for _, origin := range []int64{0, -1, math.MinInt64, math.MinInt64 + 5, math.MaxInt64, math.MaxInt64 - 5, 1 << 60} {
			layout, fits := layoutOf(counterOf(l), origin)
			require.True(t, fits, l)
			require.True(t, layout.holds(max(origin, math.MinInt64+int64(l.Window))), "but for the first window of all")
			require.GreaterOrEqual(t, float64(layout.end)-float64(layout.begin), float64(minSpan))
			first, _ := window.Divide(layout.begin, int64(l.Window))
			last, _ := window.Divide(layout.end, int64(l.Window))
			seen := map[uint64]bool{}
			for _, index := range []int64{first, first + 1, first + (last-first)/2, last - 1, last} {
				for _, prev := range []int64{0, 1, l.Count} {
					for _, curr := range []int64{1, l.Count} {
						if prev > l.Count || curr == 0 || curr > l.Count {
							continue
						}
						w := window.State{Index: index, Prev: prev, Curr: curr}
						word, fits := layout.pack(w)
						require.True(t, fits, "%v in %v", w, l)
						require.Equal(t, word, layout.packCharged(w))
						require.Equal(t, w, layout.unpack(word))
						require.Less(t, word, uint64(locked), "the flags are 0")
						seen[word] = true
					}
				}
			}
			require.False(t, seen[0], "0 is a key never used")
			require.Zero(t, layout.unpack(0).Curr|layout.unpack(0).Prev)
		}
	}
}

// Outside of its epochs, and past its Count, a word holds no window.
func TestLayout_SaysWhatDoesNotFit(t *testing.T) {
	const size = int64(time.Second)
	layout, _ := layoutOf(window.Counter{Count: 1<<17 - 1, Window: size}, 0)
	first, last := layout.begin/size, layout.end/size
	for _, w := range []window.State{{Index: first - 1, Curr: 1}, {Index: last + 2, Curr: 1}, {Index: 0, Curr: 1 << 17}, {Index: 0, Prev: 1 << 17, Curr: 1}} {
		_, fits := layout.pack(w)
		require.False(t, fits, w)
	}
	require.False(t, layout.holds(layout.begin-1))
	require.False(t, layout.holds(layout.end+1))
	word := layout.packCharged(window.State{Index: last + 1000, Prev: 2, Curr: 3})
	require.Less(t, word, uint64(locked))
	require.Equal(t, int64(3), layout.unpack(word).Curr)
	require.Equal(t, int64(2), layout.unpack(word).Prev)
	require.LessOrEqual(t, layout.unpack(word).Index, last+1)
}

func TestLayout_HoldsAYearOfWindowsAtLeast(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		fits  bool
	}{
		{PerSecond(10), true},
		{PerSecond(1<<17 - 1), true},
		{PerSecond(1 << 17), true}, // 2^25 seconds are 388 days
		{PerSecond(1<<18 - 1), true},
		{PerSecond(1 << 18), false},
		{PerMinute(1<<20 - 1), true},
		{PerMinute(1 << 20), false},
		{PerHour(1<<23 - 1), true},
		{PerHour(1 << 23), false},
		{PerDay(1<<26 - 1), true},
		{PerDay(1 << 26), false},
		{Per(8, time.Microsecond), true},
		{Per(1, 1), true},
		{Per(7, 1), true},
		{Per(8, 1), false},
		{Per(1e15, time.Microsecond), false},
		{Per(1e15, 365*24*time.Hour), false},
		{Per(math.MaxInt64, math.MaxInt64-1), false},
		{Per(1<<29-1, math.MaxInt64), true},
	} {
		_, fits := layoutOf(counterOf(c.limit), 0)
		require.Equal(t, c.fits, fits, c.limit)
	}
}

// Before and after the windows that have an epoch, a counter is as exact as within.
func TestCounter_CountsBeforeAndAfterItsEpochs(t *testing.T) {
	limit := PerSecond(1<<17 - 1).Counter()
	const size = int64(time.Second)
	layout, fits := layoutOf(counterOf(limit), 0)
	require.True(t, fits)
	for _, from := range []int64{math.MinInt64, layout.begin - 2*size, layout.end - 2*size, math.MaxInt64 - 10*size} {
		clock := NewManualClock(0)
		l := newTest(t, limit, WithClock(clock))
		clock.Set(from)
		model := reference.New(modelOf(limit, false))
		for step := range int64(40) {
			clock.Advance(time.Duration(size / 7))
			n := 1 + step*step*20
			require.Equal(t, model.Take(clock.Now(), n).Allowed, l.Take("k", n).Allowed)
			require.Equal(t, model.Peek(clock.Now(), 0).Remaining, l.Peek("k", 0).Remaining, "from %d, step %d", from, step)
		}
		require.Equal(t, 1, l.Len())
	}
}

// The window of an instant without an epoch may have a number that a locked word seems to be of. The
// fast path must not take the one for the other.
func TestCounter_TakesNoLockedWord(t *testing.T) {
	limit := PerSecond(1<<17 - 1).Counter()
	l := newTest(t, limit, WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	e := l.table().load(l.key("k"))
	held := e.Word.Load() | locked
	e.Word.Store(held)
	layout := l.rule().layout
	at := (int64(held>>(2*layout.bits)) + layout.first) * int64(limit.Window)
	counter := (*slidingCounter)(l.rule())
	(*rule)(counter).locate(int64(limit.Window), at)
	_, _, _, res := counter.charge(e, held, at, 1)
	require.Equal(t, retry, res)
	require.Equal(t, held, e.Word.Load())
}

// A key that was charged in an epoch, and is charged next long after the last one, begins anew.
func TestCounter_OutlivesItsEpochs(t *testing.T) {
	limit := PerSecond(1<<17 - 1).Counter()
	layout, _ := layoutOf(counterOf(limit), 0)
	clock := NewManualClock(0)
	l := newTest(t, limit, WithClock(clock))
	require.Equal(t, kindWord, l.own().kind)
	for _, at := range []int64{0, layout.end, layout.end + 1, layout.end + int64(time.Hour)} {
		clock.Set(at)
		before := l.Peek("k", 0).Remaining
		require.Equal(t, before-1, l.Take("k", 1).Remaining)
	}
	require.True(t, l.table().load(l.key("k")).isMulti())
}

// An old word is not taken for a current one after any number of windows at which an epoch
// field of fewer bits would wrap.
func TestCounter_IdleForAsLongAsAnyEpochFieldWouldWrap(t *testing.T) {
	limit := Per(1, time.Microsecond).Counter()
	clock := NewManualClock(math.MinInt64)
	l := newTest(t, limit, WithClock(clock))
	require.True(t, l.Allow("k"))
	for shift := 2; shift < 54; shift++ {
		clock.Set(math.MinInt64 + int64(limit.Window)<<shift)
		require.True(t, l.Allow("k"), "2^%d windows later", shift)
		require.False(t, l.Allow("k"))
	}
}

// A call that finds the entry locked waits until it is unlocked, and changes nothing before.
func TestTake_WaitsForALockedEntry(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		e := l.table().loadLocked(l.key("k"))
		word, _ := e.loadUnlocked()
		require.True(t, e.tryLock(word))
		wait := startBlocked(func() { l.Take("k", 1) })
		held := e.Word.Load()
		e.Word.Store(word)
		wait()
		require.Equal(t, word|locked, held)
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
	})
}

// The fast path leaves an entry alone that is dead or locked.
func TestTryFast_LeavesAnEntryThatIsDeadOrLocked(t *testing.T) {
	l := newTest(t, PerMinute(2).Counter(), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	k := l.key("k")
	e := l.table().load(k)
	word := e.Word.Load()
	e.Word.Store(word | locked)
	_, _, _, res := (*slidingCounter)(l.rule()).charge(e, e.Word.Load(), 0, 1)
	require.Equal(t, retry, res)
	require.Equal(t, word|locked, e.Word.Load())
	e.Word.Store(word)
	require.True(t, e.tryKill(word)) // the dead entry stays in the table
	require.True(t, l.AllowN("k", 2))
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
}
