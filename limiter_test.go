package sash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// What the tests look into: the table, the limiter's own policy, and its rule.
func (l *Limiter) table() *sharded { return &l.now.Load().keys }
func (l *Limiter) own() *policy    { return l.now.Load().policy }
func (l *Limiter) rule() *rule     { return &l.own().rules[0] }

// put gives k an empty cell.
func (l *Limiter) put(k key) *cell { return l.insert(l.standing(l.now.Load(), k.name), k, nil) }

// newTest returns a limiter without a janitor, for a test to sweep.
func newTest(t testing.TB, options ...Option) *Limiter {
	t.Helper()
	l, err := New(append([]Option{WithSweepInterval(-1)}, options...)...)
	require.NoError(t, err)
	return l
}

// thorough returns how often to repeat what one goroutine does: n times, but a tenth as
// often under -short, and where a slow build sees nothing there: under the race detector,
// and with yields.
func thorough(n int) int {
	if testing.Short() || raceDetector || yielding {
		return max(1, n/10)
	}
	return n
}

// crowded returns how often to repeat what several goroutines do, or how often to meet
// what they are to meet: n times, but a tenth as often with yields, which make it slow
// and each time worth more.
func crowded(n int) int {
	if yielding {
		return max(1, n/10)
	}
	return n
}

// widen makes l keep its counters in wide cells, whatever its limit.
func widen(l *Limiter) *Limiter {
	l.now.Load().counter, l.own().kind = nil, wideCell
	l.own().unseen = l.own().newCell("")
	return l
}

// compounding makes l keep its keys in compounds, whatever its limit.
func compounding(l *Limiter) *Limiter {
	l.now.Load().counter, l.own().kind = nil, compoundCell
	l.own().unseen = l.own().newCell("")
	return l
}

// everyKind runs test for each kind of cell that can keep limit.
func everyKind(t *testing.T, limit Limit, test func(t *testing.T, l *Limiter, clock *ManualClock), options ...Option) {
	t.Helper()
	for name, limiter := range map[string]func(clock Clock) *Limiter{
		"counter": func(c Clock) *Limiter { return newTest(t, append(options, limit, WithClock(c))...) },
		"wide":    func(c Clock) *Limiter { return widen(newTest(t, append(options, limit, WithClock(c))...)) },
		"log":     func(c Clock) *Limiter { return newTest(t, append(options, limit.Log(), WithClock(c))...) },
		"compound counter": func(c Clock) *Limiter {
			return compounding(newTest(t, append(options, limit, WithClock(c))...))
		},
		"compound log": func(c Clock) *Limiter {
			return compounding(newTest(t, append(options, limit.Log(), WithClock(c))...))
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
		key := []byte("one")
		require.True(t, l.AllowBytes(key))
		copy(key, "two")
		require.True(t, l.TakeBytes(key, 1).Allowed)
		require.False(t, l.Allow("one"))
		require.False(t, l.Allow("two"))
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
	for name, option := range map[string]Option{"": WithSweepInterval(-1), "denied are charged": WithChargeDenied()} {
		check := func(t *testing.T, l *Limiter, clock *ManualClock) {
			random := rand.New(rand.NewPCG(1, 2))
			denied := 0
			for step := range thorough(2000) {
				clock.Advance(time.Duration(random.Int64N(int64(20 * time.Second))))
				if step == 150 { // both get cells that hold a reservation, too
					for _, key := range []string{"twin", "k"} {
						reservation, _ := l.Reserve(key, 1)
						reservation.Commit(2)
					}
				}
				n := random.Int64N(8) - 1
				taken := l.Take("twin", n)
				d, next := l.TakeThenPeek("k", n)
				require.Equal(t, taken, d)
				require.Equal(t, Decision{Limit: next.Limit, Remaining: d.Remaining, RetryAfter: next.RetryAfter, ResetAfter: d.ResetAfter}, next)
				if name == "" {
					require.Equal(t, l.Peek("k", d.Remaining+1), next)
				}
				if d.Remaining == 5 {
					require.Equal(t, Never, next.RetryAfter, "there never is more")
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
			check(t, newTest(t, PerMinute(5), PerHour(1000).Log(), Per(5, 30*time.Second).Buckets(time.Second), option, WithClock(clock)), clock)
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
	l := newTest(t, PerMinute(5), WithClock(NewManualClock(0)), WithMaxKeys(1, DenyNew))
	require.True(t, l.Allow("k"))
	for n := range int64(2) {
		d, next := l.TakeThenPeek("another", n)
		require.Equal(t, l.Peek("another", n), d)
		require.Equal(t, l.Peek("another", 1), next)
	}
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

// The one clock reading of a decision, and the second of a call that finds its
// key gone.
func TestTake_ReadsTheClockOnce(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		clock := &countingClock{}
		l.clock = clock
		once := 1
		if l.own().kind == compoundCell {
			once = 2 // as the limit that decides may be another
		}
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
			{func() { l.TakeThenPeek("k", 1) }, once},
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
			l.table().each(func(k key, _ *cell) bool {
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
