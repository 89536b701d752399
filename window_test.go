package sash

import (
	"math"
	"math/bits"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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

// everyCounter runs test with the counter of limit in packed entries and in wide entries.
func everyCounter(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, clock *ManualClock), options ...Option) {
	t.Helper()
	options = append(options, limit.Counter())
	clock := NewManualClock(0)
	t.Run("counter", func(t *testing.T) { test(t, newTest(t, append(options, WithClock(clock))...), clock) })
	t.Run("wide", func(t *testing.T) { test(t, useWide(newTest(t, append(options, WithClock(clock))...)), clock) })
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
	for _, l := range []Limit{PerSecond(1), PerMinute(10), PerDay(1 << 20), Per(1, time.Hour*24*365), Per(3, time.Microsecond), Per(1<<25-1, 365*24*time.Hour)} {
		layout, fits := layoutOf(counterOf(l))
		require.True(t, fits, l)
		first, _ := window.Divide(math.MinInt64, int64(l.Window))
		last, _ := window.Divide(math.MaxInt64, int64(l.Window))
		seen := map[uint64]bool{}
		for _, index := range []int64{first, first + 1, -1, 0, 1, last - 1, last} {
			for _, prev := range []int64{0, 1, l.Count} {
				for _, curr := range []int64{0, 1, l.Count} {
					w := window.State{Index: index, Prev: prev, Curr: curr}
					word := layout.pack(w)
					require.Equal(t, w, layout.unpack(word))
					require.Less(t, word, uint64(locked), "the flags are 0")
					seen[word] = true
				}
			}
		}
		require.False(t, seen[0], "0 is a key never used")
		require.Zero(t, layout.unpack(0).Curr|layout.unpack(0).Prev)
		require.Less(t, layout.pack(window.State{Index: last}), uint64(locked))
	}
}

func TestLayout_TakesTheWideEntryWhereEpochsWouldNotFit(t *testing.T) {
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
		{Per(math.MaxInt64, math.MaxInt64-1), false},
		{Per(1<<29-1, math.MaxInt64), true},
	} {
		_, fits := layoutOf(counterOf(c.limit))
		require.Equal(t, c.fits, fits, c.limit)
		// The limit fits if every window of int64 has an epoch of its own.
		first, _ := window.Divide(math.MinInt64, int64(c.limit.Window))
		last, _ := window.Divide(math.MaxInt64, int64(c.limit.Window))
		room := 61 - 2*bits.Len64(uint64(c.limit.Count))
		require.Equal(t, room > 0 && float64(last)-float64(first)+2 < math.Pow(2, float64(room)), fits, c.limit)
	}
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

func TestWideCounter_CountsPastItsLowBits(t *testing.T) {
	const count = 10 * lowMask
	clock := NewManualClock(0)
	l := newTest(t, Per(count, time.Hour), WithClock(clock))
	require.Equal(t, kindWide, l.own().kind)
	left := int64(count)
	for _, n := range []int64{1, lowMask - 1, 1, 1, lowMask, lowMask + 1, 3 * lowMask, 5, lowMask} {
		left -= n
		require.Equal(t, left, l.Take("k", n).Remaining)
	}
	for ; left > 0; left -= lowMask / 3 { // on the fast path
		require.Equal(t, left >= lowMask/3, l.AllowN("k", lowMask/3))
	}
}

func TestWideEntry_CarriesOutOfItsLowBits(t *testing.T) {
	const count = 10 * lowMask
	for low := range int64(8) {
		l := newTest(t, Per(count, time.Hour), WithClock(NewManualClock(0)))
		require.True(t, l.Allow("k"))
		require.True(t, l.AllowN("k", low))
		require.True(t, l.AllowN("k", lowMask+1-5))
		require.EqualValues(t, count-1-low-(lowMask+1-5), l.Peek("k", 0).Remaining)
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

// A window that was read is valid as long as units are only added to the word. It is not
// valid once the entry has been locked, even if the same window was stored again.
func TestWideCounter_ValidatesItsReads(t *testing.T) {
	var e wideEntry
	e.Word.Store(e.put(0, window.State{Index: 7, Prev: 1, Curr: 2}))
	word := e.Word.Load()
	w := e.state(word)
	require.Equal(t, window.State{Index: 7, Prev: 1, Curr: 2}, w)
	require.True(t, e.tryStore(word, w, window.State{Index: 7, Prev: 1, Curr: 5}))
	require.True(t, e.validateVersion(word))
	require.Equal(t, window.State{Index: 7, Prev: 1, Curr: 2}, e.state(word))

	held := e.Word.Load()
	require.True(t, e.tryLock(held))
	require.False(t, e.validateVersion(word))
	e.Word.Store(e.put(held, window.State{Index: 7, Prev: 1, Curr: 2}))
	require.False(t, e.validateVersion(word))
	require.False(t, e.tryStore(word, w, window.State{Index: 7, Prev: 1, Curr: 3}), "a charge based on the old read fails")
	require.Equal(t, window.State{Index: 7, Prev: 1, Curr: 2}, e.state(e.Word.Load()))
}

// The fast path leaves an entry alone that is dead or locked.
func TestTryFast_LeavesAnEntryThatIsDeadOrLocked(t *testing.T) {
	everyCounter(t, PerMinute(2), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		k := l.key("k")
		e := l.table().load(k)
		word := e.Word.Load()
		e.Word.Store(word | locked)
		var ok bool
		if l.own().kind == kindWide {
			_, ok = l.rule().tryFastWide(e, 0, 1, nil, nil)
		} else {
			_, ok = l.rule().tryFast(e, 0, 1)
			require.False(t, l.rule().decideFast(e, 0, 1, true, new(Decision), nil))
		}
		require.False(t, ok)
		require.Equal(t, word|locked, e.Word.Load())
		e.Word.Store(word)
		require.True(t, e.tryKill(word)) // the dead entry stays in the table
		require.True(t, l.AllowN("k", 2))
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	})
}
