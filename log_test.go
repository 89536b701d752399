package sash

import (
	"math"
	"math/rand/v2"
	"runtime"
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
		"costs wait for as many records as they need": {PerSecond(10), nil, []step{
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

// If denied attempts are charged, only the newest Count units count. So the ring holds at
// most Count records, for any costs and any number of attempts.
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
		r := ringOf(l, "k")
		require.LessOrEqual(t, int64(r.room()), count)
		require.LessOrEqual(t, r.room(), 1000)
		clock.Advance(sec)
		require.True(t, l.AllowN("k", count))
	}
}

// ringOf returns the ring of the key of that name, whose first limit is a log.
func ringOf(l *Limiter, name string) *ring {
	e := l.table().load(l.key(name))
	if e.isMulti() {
		return e.asMulti().states[0].ring.Load()
	}
	return e.ring()
}

func TestLog_GrowsWithUseAndIsBoundedByCount(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), WithClock(clock))
	for used := 1; used <= 10_000; used++ {
		clock.Advance(1)
		require.True(t, l.Allow("k"))
		require.LessOrEqual(t, ringOf(l, "k").room(), 2*used)
	}
	require.Equal(t, 10_000, ringOf(l, "k").room())
	require.False(t, l.Allow("k"))

	clock.Advance(time.Hour / 2)
	require.Equal(t, 0, l.Sweep())
	require.Equal(t, 10_000, ringOf(l, "k").room(), "every record is live")
	clock.Advance(time.Hour)
	require.True(t, l.Allow("k"))
	require.Equal(t, 0, l.Sweep())
	require.Equal(t, 2, ringOf(l, "k").room(), "the records of the burst have expired")
	require.EqualValues(t, 9_999, l.Peek("k", 0).Remaining)
}

// Shrinking keeps the records that any clock reading may need, also a reading as old as the
// newest record.
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
	require.Less(t, ringOf(l, "k").room(), full.room())
	require.Equal(t, before, l.Peek("k", 10_000))
	require.Equal(t, each, l.Peek("k", 9_998))

	same := ringOf(l, "k")
	require.Equal(t, 0, l.Sweep())
	require.Same(t, same, ringOf(l, "k"), "it does not shrink again")
}

func TestLog_DoesNotShrinkADeadEntryBackToLife(t *testing.T) {
	doesNotShrinkBackToLife(t)
	doesNotShrinkBackToLife(t, PerDay(1_000_000).Counter())
}

func doesNotShrinkBackToLife(t *testing.T, others ...Option) {
	clock := NewManualClock(0)
	l := newTest(t, append([]Option{Per(10_000, time.Hour).Log(), WithClock(clock)}, others...)...)
	for range 100 {
		clock.Advance(1)
		l.Allow("k")
	}
	clock.Advance(2 * time.Hour)
	l.Allow("k")
	k := l.key("k")
	e := l.table().load(k)
	word, _ := e.loadUnlocked()
	require.True(t, e.tryKill(word))
	l.current.Load().shrink(k, e)
	_, alive := e.loadUnlocked()
	require.False(t, alive)
	require.Same(t, e, l.table().load(k), "nothing alive takes its place")
}

// A call that reads a log while another one takes its place waits, and reads the other. Otherwise it
// could miss a charge to that. A call that charges it finds all that the log held.
func TestLog_IsNotReadWhileAnotherTakesItsPlace(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(clock))
	require.True(t, l.Allow("k"))
	g, k := l.current.Load(), l.key("k")
	e, wait := g.keys.load(k), func() {}
	g.keys.update(k, func(found *entry) *entry { // holds the lock of the shard, which resizeLog needs last
		wait = startBlocked(func() { g.enlarge(k, e) })
		for turns := 0; e.Word.Load()&(dead|locked) == 0 && turns < 1_000_000; turns++ {
			runtime.Gosched() // until it waits for that lock
		}
		require.Equal(t, uint64(locked), e.Word.Load()&(dead|locked))
		return found
	})
	wait()
	require.NotZero(t, e.Word.Load()&dead)
	require.NotSame(t, e, g.keys.load(k))
	require.False(t, g.ruleset.unused(g.keys.load(k).Word.Load()))
	require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
}

// While one call makes room in an entry, other calls read it. They charge nothing, make no
// room themselves, and do not evict the entry.
func TestLog_WhileItGrows(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(clock))
	l.Allow("k")
	k := l.key("k")
	e := l.table().load(k)
	word, _ := e.loadUnlocked()
	require.True(t, e.tryBeginResize(word))
	grown, _ := e.loadUnlocked()

	require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
	require.False(t, l.AllowN("k", 100))
	require.False(t, e.tryBeginResize(grown))
	clock.Advance(time.Hour)
	require.Equal(t, 0, l.Sweep(), "the entry is being resized")

	e.unlock(word)
	require.True(t, l.Allow("k"))
	require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
	require.True(t, l.Reset("k"))
}

// A denied attempt that costs nothing, since Count units are charged in its tick, changes nothing.
func TestLog_ADenialThatCostsNothingWritesNothing(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithChargeDenied(), WithClock(NewManualClock(0)))
	for range 4 {
		l.Allow("k")
	}
	e := l.table().loadLocked(l.key("k"))
	word := e.Word.Load()
	require.False(t, l.Allow("k"))
	require.False(t, l.Take("k", 2).Allowed)
	require.Equal(t, word, e.Word.Load())
}

// While a call copies a log to make room, others read it. Those that charge it wait, and none of
// their units is lost.
func TestLog_IsNotChargedWhileItIsCopied(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(clock))
	require.True(t, l.Allow("k"))
	e := l.table().loadLocked(l.key("k"))
	word, _ := e.loadUnlocked()
	require.Equal(t, outgrown, l.own().ensureRoom(e, word, query{at: 2, n: 1, charge: true}, admitted))
	var wait func()
	l.current.Load().resizeLog(l.key("k"), e, func(v ringView) (kept ringView, room int) {
		wait = startBlocked(func() { l.Allow("k") }) // in the same record
		require.EqualValues(t, 99, l.Peek("k", 0).Remaining)
		return l.own().onlyLog().larger(v)
	})
	wait()
	require.NotZero(t, e.Word.Load()&dead)
	require.Equal(t, 2, ringOf(l, "k").room())
	require.EqualValues(t, 98, l.Peek("k", 0).Remaining)
}

// A call that makes room under several limits copies the ring that it has read. If units were charged
// since, it changes nothing.
func TestSeveralLimits_GrowOnlyFromTheStateThatWasRead(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(100, time.Hour).Log(), PerDay(1000).Counter(), WithClock(clock))
	require.True(t, l.Allow("k"))
	e, full := l.table().loadLocked(l.key("k")), ringOf(l, "k")
	word, _ := e.loadUnlocked()
	require.True(t, l.Allow("k")) // in the same record
	charged, _ := e.loadUnlocked()
	require.Equal(t, retry, l.own().ensureRoom(e, word, query{at: 2, n: 1, charge: true}, admitted))
	require.Same(t, full, ringOf(l, "k"))
	require.Equal(t, charged, e.Word.Load())
	require.EqualValues(t, 98, l.Peek("k", 0).Remaining)
}

// A ringAlgorithmThatWaits calls during after it has copied a ring to a smaller one.
type ringAlgorithmThatWaits struct {
	ringAlgorithm
	during func()
}

func (a ringAlgorithmThatWaits) shrunk(g *ring) *ring {
	defer a.during()
	return a.ringAlgorithm.shrunk(g)
}

// A sweep has copied a ring when a call charges it. The ring stays, since the copy lacks the charge, and the
// next sweep shrinks it.
func TestSeveralLimits_ShrinkOnlyFromTheStateThatWasRead(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(10_000, time.Hour).Log(), PerDay(1_000_000).Counter(), WithClock(clock))
	for range 100 {
		clock.Advance(1)
		require.True(t, l.Allow("k"))
	}
	clock.Advance(2 * time.Hour)
	require.True(t, l.Allow("k"))
	full, charges := ringOf(l, "k"), 0
	r := &l.own().rules[0]
	r.algorithm = ringAlgorithmThatWaits{r.algorithm.(ringAlgorithm), func() {
		if charges++; charges == 1 {
			require.True(t, l.Allow("k"))
		}
	}}
	l.Sweep()
	require.Equal(t, 1, charges)
	require.EqualValues(t, 9_998, l.Peek("k", 0).Remaining)
	require.Same(t, full, ringOf(l, "k"))

	l.Sweep()
	require.Less(t, ringOf(l, "k").room(), full.room())
	require.EqualValues(t, 9_998, l.Peek("k", 0).Remaining)
}

// A log that has changed when its turn comes to be resized may need it no more. Then it stays.
func TestLog_ThatFitsIsNotResized(t *testing.T) {
	l := newTest(t, Per(100, time.Hour).Log(), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	e := l.table().loadLocked(l.key("k"))
	l.current.Load().resizeLog(l.key("k"), e, l.own().onlyLog().smaller)
	require.Same(t, e, l.table().loadLocked(l.key("k")))
	require.True(t, l.Allow("k"))
}

// A Reset waits while another call makes room in the entry. If it killed the entry before,
// the store at the end of the resize would bring the entry back to life.
func TestReset_AwaitsACallThatMakesRoom(t *testing.T) {
	everyKind(t, PerHour(100), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.Allow("k"))
		e := l.table().loadLocked(l.key("k"))
		if l.own().kind != kindLog && !e.isMulti() {
			return // such an entry is never resized
		}
		word, _ := e.loadUnlocked()
		require.True(t, e.tryBeginResize(word))
		wait := startBlocked(func() { l.Reset("k") })
		require.Equal(t, word|resizing, e.Word.Load())
		e.unlock(word)
		wait()
		require.NotZero(t, e.Word.Load()&dead)
		require.Equal(t, 0, l.Len())
	})
}

// Each new ring has room for as many new records as it copied. So few rings are made.
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

	for range 1000 { // at one instant: one record
		require.True(t, l.Allow("burst"))
	}
	require.Equal(t, 1, ringOf(l, "burst").room())
}

func TestLog_OneUnitAndManyRecordsKeepTheirOrder(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(7, 100).Log(), WithClock(clock))
	for range 1000 { // which wraps around the ring many times
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

// Only the record of the tick changes, in whichever half of the ring it is, and wherever
// the ring begins. The running total passes 2^64 on the way.
func TestRing_GivesBackToTheRecordOfItsTick(t *testing.T) {
	for count := 1; count < 8; count++ {
		for base := range count + 1 {
			for i := range count {
				g, total := newRing(count), uint64(math.MaxUint64-5)
				g.bounds = packBounds(base, (base+count)%(count+1))
				g.slot(base).cumulative = total
				want, left := make([]uint64, count), uint64(0)
				for j := range want {
					want[j] = uint64(j + 1)
					total += want[j]
					*g.slot((base + 1 + j) % (count + 1)) = record{int64(10 * j), total}
					left += want[j]
				}
				v := g.view()
				_, found := v.find(int64(10*i + 1))
				require.False(t, found, "no record is of that tick")
				for units := int64(1); units <= 4; units++ { // the last of them as far as there are any
					back := min(uint64(units), want[i])
					want[i], left = want[i]-back, left-back
					require.Equal(t, left == 0, v.giveBack(i, units))
					v = g.view()
					for j := range want {
						require.Equal(t, want[j], v.units(j), "%d of %d, given back to %d", j, count, i)
					}
					if left == 0 {
						break
					}
				}
			}
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
		for admitted[at] <= 50 && l.Allow("k") { // the bound ends it under any fault
			admitted[at]++
		}
		if trailing += admitted[at]; at >= 1000 {
			trailing -= admitted[at-1000]
		}
		require.LessOrEqual(t, trailing, 50)
	}
}

// A key that was charged in every second of a day holds the newer half of its units after
// half a day, and none after a day.
func TestBuckets_AfterADaysPause(t *testing.T) {
	const day = 24 * time.Hour
	clock := NewManualClock(0)
	limit := PerDay(86_400).Buckets(time.Second)
	l := newTest(t, limit, WithClock(clock))
	for range 86_400 {
		require.True(t, l.Allow("k"))
		clock.Advance(time.Second)
	}
	clock.Advance(day/2 - time.Second)
	require.EqualValues(t, 43_200, l.Peek("k", 0).Remaining)
	clock.Advance(day / 2)
	require.Equal(t, Decision{Allowed: true, Limit: limit, Remaining: 86_400}, l.Peek("k", 0))
	require.EqualValues(t, 86_399, l.Take("k", 1).Remaining)
	require.Equal(t, 0, l.Sweep(), "the key was charged again")
	require.LessOrEqual(t, ringOf(l, "k").room(), 8, "the ring has shrunk")
}

// Records that had expired at the newest one are left out of a snapshot, unless they alone
// have units: an empty log would forget the time of the newest record.
func TestRing_CurrentKeepsTheTimeThatTheKeyHasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		records []record
		want    int
	}{
		"expired":                    {[]record{{1, 3}, {100, 4}}, 1},
		"expired, the newest empty":  {[]record{{1, 3}, {100, 3}}, 2},
		"live":                       {[]record{{50, 3}, {100, 4}}, 2},
		"live, the newest empty":     {[]record{{50, 3}, {100, 3}}, 2},
		"empty":                      {[]record{{50, 0}, {100, 0}}, 0},
		"one, with units":            {[]record{{100, 1}}, 1},
		"expired, and nothing newer": {[]record{{1, 1}}, 1},
	} {
		v := newRingOf(c.records).view()
		require.Equal(t, c.want, v.current(60).count, name)
	}
}

// The fast paths drop a few old records only. With more of them, every call still decides, and
// tells what is left, as one that has no old records.
func TestLog_ManyOldRecordsChangeNoAnswer(t *testing.T) {
	log := PerSecond(100).Log()
	want := Decision{Allowed: true, Limit: log, Remaining: 99, ResetAfter: time.Second}
	for name, limits := range map[string][]Limit{"alone": {log}, "with another": {log, PerHour(1_000_000)}} {
		for old := 1; old <= 60; old++ {
			for call, take := range map[string]func(l *Limiter) Decision{
				"Take":         func(l *Limiter) Decision { return l.Take("k", 1) },
				"TakeAll":      func(l *Limiter) Decision { return l.TakeAll([]string{"k", "j"}, 1) },
				"TakeAll of 1": func(l *Limiter) Decision { return l.TakeAll([]string{"k"}, 1) },
				"PeekAll":      func(l *Limiter) Decision { return l.PeekAll([]string{"k"}, 1) },
				"Peek":         func(l *Limiter) Decision { return l.Peek("k", 1) },
				"TakeThenPeek": func(l *Limiter) Decision { d, _ := l.TakeThenPeek("k", 1); return d },
				"Allow":        func(l *Limiter) Decision { l.Allow("k"); return l.Peek("k", 0) },
			} {
				clock := NewManualClock(0)
				options := []Option{WithClock(clock)}
				for _, l := range limits {
					options = append(options, l)
				}
				l := newTest(t, options...)
				for range old {
					clock.Advance(time.Millisecond)
					require.True(t, l.Allow("k"))
					require.True(t, l.Allow("j"))
				}
				clock.Advance(5 * time.Second)
				d := take(l)
				if len(limits) > 1 {
					d.ResetAfter = time.Second // the hour's is longer
				}
				require.True(t, d.Allowed)
				require.Equal(t, want.Limit, d.Limit, "%s, %s, %d", name, call, old)
				require.Equal(t, want.Remaining, d.Remaining, "%s, %s, %d", name, call, old)
				require.Equal(t, want.ResetAfter, d.ResetAfter, "%s, %s, %d", name, call, old)
				require.True(t, l.Allow("k"), "no lock is left behind")
			}
		}
	}
}

// A call reads a log while others charge it. What it has read may be halves of two states, and
// then its answer is not used. But it must not panic.
func TestLog_SurvivesWhatIsTorn(t *testing.T) {
	rs := newOverrides(false, 0).newRuleset([]Limit{Limit{Count: 6, Window: 8}.Log()}, true)
	r := rs.onlyLog()
	for trial := range uint64(20_000) {
		random := rand.New(rand.NewPCG(1, trial))
		g := newRing(1 + random.IntN(6))
		if trial%2 == 0 {
			g = g.copyRefundable()
		}
		change := func() { // as any number of other calls may
			for i := range int(g.refundWords) {
				*g.refunds().word(i + 1) = random.Uint64N(16)
			}
			for i := range int(g.slots) {
				*g.slot(i) = record{random.Int64N(24), random.Uint64N(16)}
			}
			g.bounds = packBounds(random.IntN(int(g.slots)), random.IntN(int(g.slots)))
		}
		at, n := random.Int64N(24), 1+random.Int64N(7)
		change()
		c, used, _ := r.fastCharging(g, at, n, true)
		v, q := g.view(), query{at: at, n: n, charge: true}
		p, _ := r.evaluate(&v, q, retry)
		change()
		require.NotPanics(t, func() {
			if c.ring != nil {
				left, fast := c.before(), logPosition{tick: c.tick, used: used}
				require.GreaterOrEqual(t, left.count, 0, "a method would look in front of the ring")
				r.outcome(&left, &fast, q, denied)
				r.retryAfter(&left, &fast, n, at)
			}
			r.outcome(&v, &p, q, admitted)
			r.outcome(&v, &p, q, denied)
			r.trim(&v, &p)
			r.larger(v)
			r.smaller(v)
			appendRecords(nil, &v)
		}, "trial %d", trial)
		change()
		s := state{ring: g}
		require.NotPanics(t, func() {
			r.admits(s, q)
			r.apply(s, q, denied, tells)
			r.costs(s, q, denied)
			r.needsRoom(state{ring: g}, q, admitted)
			r.grown(g)
			r.shrunk(g)
			r.expired(s, at)
			r.history(s, at)
			r.appendState(nil, s)
		}, "trial %d", trial)
	}
}
