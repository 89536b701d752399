package sash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/window"
)

// table returns the table of the current generation.
func (l *Limiter) table() *sharded { return &l.current.Load().keys }

// own returns the ruleset of the limiter's own limits.
func (l *Limiter) own() *ruleset { return l.current.Load().ruleset }

// rule returns the first rule of own.
func (l *Limiter) rule() *rule { return &l.own().rules[0] }

// put inserts an empty entry for k, and returns it.
func (l *Limiter) put(k key) *entry { return l.insert(l.current.Load().resolve(k.name), k, nil) }

// newTest returns a limiter without a janitor. The test sweeps it. In a bubble, its clock ends a
// call that would try for ever.
func newTest(t testing.TB, options ...Option) *Limiter {
	t.Helper()
	l, err := New(append([]Option{WithSweepInterval(-1)}, options...)...)
	require.NoError(t, err)
	if l.clock == bubbleClock(1) {
		l.clock = &patientClock{bubbleClock: 1}
	}
	return l
}

// A patientClock is the clock of a bubble. It panics if it is read without end while its time stands
// still. Time would never go on then, so the test would never end.
type patientClock struct {
	bubbleClock
	at, readings atomic.Int64
}

func (c *patientClock) Now() int64 {
	const patience = 10_000_000 // thousands of calls that wait read it often
	now := c.bubbleClock.Now()
	if c.at.Swap(now) != now {
		c.readings.Store(0)
	}
	if c.readings.Add(1) > patience {
		panic("a call reads the clock for ever, and does not return")
	}
	return now
}

// thorough returns the number of times to repeat a step of a single goroutine: n, or a tenth
// of it under -short, under the race detector and with yields. The last two are slow, and
// find nothing in one goroutine.
func thorough(n int) int {
	if testing.Short() || race.Enabled || yielding {
		return max(1, n/10)
	}
	return n
}

// steps returns how many steps a random trial of one goroutine takes, or how many trials
// there are: n, but a third of it under -short, and a sixth under the race detector, which
// sees nothing there. With SASH_ALL_STEPS set it is n.
func steps(n int) int {
	if race.Enabled {
		return race.Trials(n)
	}
	return shortened(n)
}

// shortened returns n, but a third of it under -short without SASH_ALL_STEPS.
func shortened(n int) int {
	if testing.Short() && os.Getenv("SASH_ALL_STEPS") == "" {
		return max(1, n/3)
	}
	return n
}

// crowded returns the number of times to repeat a step of several goroutines, or to see an
// event among them: n, but half of it under the race detector, and a tenth with yields. Both
// make each repetition slower, and more likely to find a fault.
func crowded(n int) int {
	switch {
	case yielding:
		return max(1, n/10)
	case race.Enabled:
		return max(1, n/2)
	}
	return n
}

// useMulti makes l keep its keys in multi-limit entries, for any limit.
func useMulti(l *Limiter) *Limiter {
	g := l.current.Load()
	g.fast, l.own().kind = fastRuleset, kindMulti
	l.own().fresh = l.own().newEntry("")
	return l
}

type clockFunc func() int64

func (f clockFunc) Now() int64 { return f() }

// duringReading makes the clock of l call f once, in the middle of its n-th reading from
// now on, so that the caller goes on with a reading from before f. It returns the number of
// readings, which waiting calls increase after the test has returned.
func duringReading(l *Limiter, n int64, f func()) (readings *atomic.Int64) {
	clock := l.clock
	readings = new(atomic.Int64)
	l.clock = clockFunc(func() int64 {
		now := clock.Now()
		if readings.Add(1) == n {
			f()
		}
		return now
	})
	return readings
}

// startBlocked starts f in a goroutine and yields to it so often that it must have
// blocked, on what the caller holds. The returned func waits until f has returned.
func startBlocked(f func()) (wait func()) {
	var begun atomic.Bool
	var g sync.WaitGroup
	g.Go(func() {
		begun.Store(true)
		f()
	})
	for turns := 0; !begun.Load() || turns < 1000; turns++ {
		runtime.Gosched()
	}
	return g.Wait
}

// everyKind runs test for each kind of entry that can keep limit.
func everyKind(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, clock *ManualClock), options ...Option) {
	t.Helper()
	for name, limiter := range map[string]func(clock Clock) *Limiter{
		"counter": func(c Clock) *Limiter { return newTest(t, append(options, limit.Counter(), WithClock(c))...) },
		"log":     func(c Clock) *Limiter { return newTest(t, append(options, limit.Log(), WithClock(c))...) },
		"bucket": func(c Clock) *Limiter {
			return newTest(t, append(options, limit.TokenBucket(limit.Count), WithClock(c))...)
		},
		"parts": func(c Clock) *Limiter { return newTest(t, append(options, limit.Parts(), WithClock(c))...) },
		"multi parts": func(c Clock) *Limiter {
			return useMulti(newTest(t, append(options, limit.Parts(), WithClock(c))...))
		},
		"multi bucket": func(c Clock) *Limiter {
			return useMulti(newTest(t, append(options, limit.TokenBucket(limit.Count), WithClock(c))...))
		},
		"multi counter": func(c Clock) *Limiter {
			return useMulti(newTest(t, append(options, limit.Counter(), WithClock(c))...))
		},
		"multi log": func(c Clock) *Limiter {
			return useMulti(newTest(t, append(options, limit.Log(), WithClock(c))...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			test(t, limiter(clock), clock)
		})
	}
}

func TestLimiter_KeysAreAnythingAndKeptApart(t *testing.T) {
	everyKind(t, PerMinute(2), func(t *testing.T, l *Limiter, _ *ManualClock) {
		keys := []string{"", "a", "A", "\xff\xfe", "a\x00", "日本", strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<20) + "y"}
		for _, k := range keys {
			require.True(t, l.Allow(k))
			require.True(t, l.AllowBytes([]byte(k)), "the same key")
			require.False(t, l.Allow(k))
			require.False(t, l.AllowBytes([]byte(k)))
		}
		require.False(t, l.AllowBytes(nil), "nil is the empty key")
		require.Equal(t, len(keys), l.Len())
	})
}

func TestLimiter_DoesNotKeepTheCallersBytes(t *testing.T) {
	everyKind(t, PerMinute(1), func(t *testing.T, l *Limiter, _ *ManualClock) {
		key := []byte("old")
		require.True(t, l.AllowBytes(key))
		copy(key, "new")
		require.True(t, l.TakeBytes(key, 1).Allowed)
		require.False(t, l.Allow("old"))
		require.False(t, l.Allow("new"))
	})
}

func TestLimiter_CostsAreAnything(t *testing.T) {
	for _, denied := range []bool{false, true} {
		var options []Option
		if denied {
			options = append(options, WithChargeDenied())
		}
		t.Run(fmt.Sprintf("chargeDenied=%v", denied), func(t *testing.T) {
			everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
				for _, n := range []int64{-1, math.MinInt64} {
					d := l.Take("k", n)
					require.Equal(t, Decision{Limit: d.Limit, Remaining: 10, RetryAfter: Never}, d)
					require.False(t, l.AllowN("k", n))
				}
				d := l.Take("k", 0)
				require.Equal(t, Decision{Allowed: true, Limit: d.Limit, Remaining: 10}, d)
				require.True(t, l.AllowN("k", 0))
				require.Equal(t, 0, l.Len(), "nothing was charged")

				require.Equal(t, Never, l.Peek("k", 11).RetryAfter)
				require.Equal(t, Never, l.Take("k", 11).RetryAfter)
				require.False(t, l.AllowN("k", math.MaxInt64))
				if denied {
					require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "saturated")
					return
				}
				require.Equal(t, 0, l.Len())
				require.True(t, l.AllowN("k", 10))
				require.Equal(t, Never, l.Take("k", -5).RetryAfter)
				require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
			}, options...)
		})
	}
}

func TestPeek_AnswersWhatTakeWouldAndStoresNothing(t *testing.T) {
	for _, option := range []Option{WithSweepInterval(-1), WithChargeDenied()} {
		everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, clock *ManualClock) {
			for step := range 60 {
				clock.Advance(time.Duration(step) * 700 * time.Millisecond)
				n := int64(step % 8)
				before := l.Peek("k", 0)
				peeked := l.Peek("k", n)
				require.Equal(t, before, l.Peek("k", 0), "unchanged by a peek")
				require.Equal(t, peeked, l.Take("k", n))
			}
			l.Peek("other", 1)
			require.Equal(t, 1, l.Len())
		}, option)
	}
}

func TestTakeThenPeek_IsATakeAndSaysWhenThereIsMore(t *testing.T) {
	for name, option := range map[string]Option{"": WithSweepInterval(-1), "denied attempts are charged": WithChargeDenied()} {
		check := func(t *testing.T, l *Limiter, clock *ManualClock) {
			random := rand.New(rand.NewPCG(1, 2))
			denied, twin := 0, "0"
			for i := 1; window.ShiftOf(twin) != window.ShiftOf("k"); i++ { // so that all instants are the same for both
				twin = strconv.Itoa(i)
			}
			for step := range thorough(2000) {
				clock.Advance(time.Duration(random.Int64N(int64(20 * time.Second))))
				if step == 150 { // both keys get multi-limit entries
					for _, key := range []string{twin, "k"} {
						reservation, _ := l.Reserve(key, 1)
						reservation.Commit(2)
					}
				}
				n := random.Int64N(8) - 1
				taken := l.Take(twin, n)
				d, next := l.TakeThenPeek("k", n)
				require.Equal(t, taken, d)
				require.Equal(t, Decision{Limit: next.Limit, Remaining: d.Remaining, RetryAfter: next.RetryAfter, ResetAfter: d.ResetAfter}, next)
				if name == "" {
					require.Equal(t, l.Peek("k", d.Remaining+1), next)
				}
				if d.Remaining == 5 {
					require.Equal(t, Never, next.RetryAfter, "all of Count remains")
					continue
				}
				denied++
				now := clock.Now()
				clock.Advance(next.RetryAfter - 1)
				require.False(t, l.Peek("k", d.Remaining+1).Allowed)
				clock.Advance(1)
				require.True(t, l.Peek("k", d.Remaining+1).Allowed)
				clock.Set(now)
			}
			require.NotZero(t, denied)
		}
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(5), check, option)
			clock := NewManualClock(0)
			check(t, newTest(t, PerMinute(5).Counter(), PerHour(1000).Log(), Per(5, 30*time.Second).Buckets(time.Second), option, WithClock(clock)), clock)
		})
	}
}

func TestTakeThenPeek_AtTheEnds(t *testing.T) {
	everyKind(t, Per(math.MaxInt64, time.Hour), func(t *testing.T, l *Limiter, _ *ManualClock) {
		d, next := l.TakeThenPeek("k", 0)
		require.EqualValues(t, int64(math.MaxInt64), d.Remaining)
		require.Equal(t, Never, next.RetryAfter)
		d, next = l.TakeThenPeek("k", -1)
		require.Equal(t, Never, d.RetryAfter)
		require.Equal(t, Never, next.RetryAfter)
	})
	_, next := newTest(t, Unlimited()).TakeThenPeek("k", math.MinInt64) // which is one more than all that is left, but for the overflow
	require.True(t, next.Allowed)
	l := newTest(t, PerMinute(5), WithClock(NewManualClock(0)), WithMaxKeys(1, DenyNew))
	require.True(t, l.Allow("k"))
	for n := range int64(2) {
		d, next := l.TakeThenPeek("another", n)
		require.Equal(t, l.Peek("another", n), d)
		require.Equal(t, l.Peek("another", 1), next)
	}
}

// On a clock that moves with each reading: a call that denies one unit more than is left has
// made both decisions, at one instant.
func TestTakeThenPeek_ADenialUnderSeveralLimitsIsBothDecisions(t *testing.T) {
	now := int64(0)
	l := newTest(t, Per(1, 3*time.Second).Log(), PerHour(100).Log(), WithClock(clockFunc(func() int64 {
		now += int64(time.Second)
		return now
	})))
	require.True(t, l.Allow("k"))
	d, next := l.TakeThenPeek("k", 1)
	require.False(t, d.Allowed)
	require.Equal(t, d, next)
}

// The next decision may have been made by an entry that was replaced, before the call came
// to an entry with several limits. These make none, and must not leave that one.
func TestTakeThenPeek_LeavesNoDecisionOfAnotherEntry(t *testing.T) {
	l := newTest(t, PerHour(3), PerMinute(5).Log(), WithClock(NewManualClock(0)))
	e := l.put(l.key("k"))
	for name, decide := range map[string]func(q query, d, next *Decision) result{
		"decide":       func(q query, d, next *Decision) result { return l.own().decide(e, q, d, next) },
		"decideLocked": func(q query, d, next *Decision) result { return l.own().decideLocked(e, q, d, next) },
	} {
		stale := Decision{Limit: PerSecond(1), RetryAfter: 1}
		var d Decision
		require.Equal(t, admitted, decide(query{n: 1, charge: true}, &d, &stale))
		require.Zero(t, stale, name)
	}
	// So it is with an entry that keys without room share.
	full, _ := capped(t, 1, ShareOverflow)
	require.True(t, full.Allow("a"))
	g, k := full.current.Load(), full.key("b")
	stale := Decision{Limit: PerSecond(1), RetryAfter: 1}
	var of Decision
	full.decide(g, k, nil, &request{query: query{n: 1, charge: true}}, &of, &stale)
	require.Zero(t, stale)

	d, next := l.TakeThenPeek("k", 0)
	require.Equal(t, PerHour(3), d.Limit)
	require.Equal(t, l.Peek("k", d.Remaining+1), next)
}

func TestTakeThenPeek_OfAKeyThatSharesAQuota(t *testing.T) {
	l := newTest(t, PerHour(3), PerMinute(5), WithClock(NewManualClock(0)), WithMaxKeys(1, ShareOverflow))
	require.True(t, l.Allow("k"))
	d, next := l.TakeThenPeek("another", 1)
	require.EqualValues(t, 2, d.Remaining)
	require.Equal(t, l.Peek("another", 3), next)
}

func TestReset_ForgetsOneKey(t *testing.T) {
	everyKind(t, PerMinute(1), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.False(t, l.Reset("a"))
		require.True(t, l.Allow("a"))
		require.True(t, l.Allow("b"))
		require.True(t, l.Reset("a"))
		require.False(t, l.Reset("a"))
		require.True(t, l.Allow("a"))
		require.False(t, l.Allow("b"))
		require.Equal(t, 2, l.Len())
	})
}

func TestTake_ADenialOfAnUnseenKeyTracksNothing(t *testing.T) {
	everyKind(t, PerMinute(1), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for i := range 100 {
			require.False(t, l.AllowN(fmt.Sprint(i), 2))
		}
		require.Equal(t, 0, l.Len())
	})
}

// A decision reads the clock once. The call that inserts a key reads it twice.
func TestTake_ReadsTheClockOnce(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		clock := &countingClock{}
		l.clock = clock
		for _, c := range []struct {
			call func()
			want int
		}{
			{func() { l.Allow("k") }, 2},
			{func() { l.Allow("k") }, 1},
			{func() { l.Take("k", 1) }, 1},
			{func() { l.Take("k", 9) }, 1},
			{func() { l.Take("other", 9) }, 1},
			{func() { l.Peek("k", 1) }, 1},
			{func() { l.TakeThenPeek("k", 1) }, 1},
			{func() { l.Peek("other", 1) }, 1},
		} {
			clock.readings = 0
			c.call()
			require.Equal(t, c.want, clock.readings)
		}
	})
}

type countingClock struct{ readings int }

func (c *countingClock) Now() int64 { c.readings++; return 0 }

func TestLimiter_KeepsACopyOfTheName(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for _, name := range []string{"", "k", "sevenby", "eightbyt", "nine byte", "2001:db8::a:b:c:d"} {
			large := []byte("a large header: " + name + "; and on")
			part := large[16 : 16+len(name)]
			l.AllowBytes(part)
			clear(large)
			require.EqualValues(t, 9, l.Peek(name, 0).Remaining, "%q", name)
			kept := false
			l.table().rangeAll(func(k key, _ *entry) bool {
				if k.name == name && name != "" {
					require.NotSame(t, &part[0], unsafe.StringData(k.name))
				}
				kept = kept || k.name == name
				return true
			})
			require.True(t, kept, "under a name that was not cleared: %q", name)
		}
		require.Equal(t, 6, l.Len())
	})
}

func TestClock_IsTheOneThatDecides(t *testing.T) {
	clock := NewManualClock(0)
	l := Must(New(PerSecond(1), WithClock(clock), WithSweepInterval(-1)))
	require.Same(t, clock, l.Clock())
	l = Must(New(PerSecond(1), WithSweepInterval(-1)))
	require.Equal(t, SystemClock(), l.Clock())
}
