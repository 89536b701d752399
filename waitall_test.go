package sash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

// A waitTest is a limiter in a bubble with calls that wait. It records when each is
// admitted, in time since the beginning.
type waitTest struct {
	*testing.T
	l        *Limiter
	start    time.Time
	admitted map[string]time.Duration
	order    []string
	mu       sync.Mutex
}

// waiting runs f on a limiter of the given limits of keys. Other keys have PerHour(1000).
func waiting(t *testing.T, limits map[string]Limit, f func(w *waitTest), options ...Option) {
	synctest.Test(t, func(t *testing.T) {
		w := &waitTest{T: t, l: newTest(t, append(options, PerHour(1000).Log())...), start: time.Now(), admitted: map[string]time.Duration{}}
		for key, limit := range limits {
			require.NoError(t, w.l.SetLimits(key, limit))
		}
		f(w)
		synctest.Wait()
		requireNoneWaits(t, w.l)
	})
}

// exhaust takes all units of key.
func (w *waitTest) exhaust(key string) { w.l.Take(key, w.l.Peek(key, 0).Remaining) }

// wait starts a call that waits, and returns once it sleeps or has ended.
func (w *waitTest) wait(name string, n int64, keys ...string) {
	w.waitIn(w.Context(), name, n, keys...)
}

func (w *waitTest) waitIn(ctx context.Context, name string, n int64, keys ...string) {
	w.goOn()
	go func() {
		err := w.l.WaitAll(ctx, keys, n)
		w.mu.Lock()
		defer w.mu.Unlock()
		switch {
		case err == nil:
			w.admitted[name] = time.Since(w.start)
			w.order = append(w.order, name)
		case ctx.Err() == nil:
			w.Errorf("%s: %v", name, err)
		}
	}()
	synctest.Wait()
}

// goOn makes what the test has read so far come before what calls record later.
func (w *waitTest) goOn() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// queues returns the number of keys, and of groups of keys, that calls wait for.
func (w *waitTest) queues() int {
	_, keys, _ := w.l.queues.Size()
	return keys
}

// requireNoneWaits fails if a call waits, or a queue is left without any.
func requireNoneWaits(t *testing.T, l *Limiter) {
	waiters, keys, _ := l.queues.Size()
	require.Zero(t, waiters)
	require.Zero(t, keys)
}

// enqueue adds a waiter for n units of each of keys.
func enqueue(l *Limiter, n int64, keys ...string) *waiter {
	w := newWaiter(l.targets(nil, keys), n)
	l.queues.Enter(w)
	return w
}

// until lets time pass until d after the start.
func (w *waitTest) until(d time.Duration) {
	w.goOn()
	<-time.After(time.Until(w.start.Add(d)))
	synctest.Wait()
}

func TestWaitAll_ChargesAllOrNone(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerHour(3).Log(), "b": PerMinute(3).Log()}, func(w *waitTest) {
		require.NoError(t, w.l.WaitAll(w.Context(), []string{"a", "b", "a"}, 2))
		require.EqualValues(t, 1, w.l.Peek("a", 0).Remaining, "a key named twice counts once")
		w.wait("both", 1, "b", "a")
		require.Len(t, w.admitted, 1)
		require.True(t, w.l.Reset("a"))
		w.wait("later", 2, "a", "b")
		require.EqualValues(t, 3, w.l.Peek("a", 0).Remaining, "b admits none, so nothing is charged to a either")
		w.until(time.Minute)
		require.Equal(t, time.Minute, w.admitted["later"])
		require.EqualValues(t, 1, w.l.Peek("a", 0).Remaining)
		require.EqualValues(t, 1, w.l.Peek("b", 0).Remaining)
	})
}

func TestWaitAll_FailsAtOnce(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)))
	both := []string{"a", "b"}
	require.NoError(t, l.SetLimits("b", PerHour(2).Log()))
	for _, none := range [][]string{nil, {}} {
		require.ErrorIs(t, l.WaitAll(t.Context(), none, 1), ErrExceedsLimit)
		require.ErrorIs(t, l.WaitAll(t.Context(), none, 0), ErrExceedsLimit)
	}
	require.ErrorIs(t, l.WaitAll(t.Context(), both, -1), ErrExceedsLimit)
	require.EqualError(t, l.WaitAll(t.Context(), both, 3), "sash: Wait: 3 is more than 2/1h0m0s log ever admits: exceeds the limit")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.WaitAll(ended, both, 1), context.Canceled)
	require.Zero(t, l.Len(), "nothing was charged")

	l.AllowN("b", 2)
	short, cancel := context.WithTimeout(t.Context(), 59*time.Minute)
	defer cancel()
	require.ErrorIs(t, l.WaitAll(short, both, 1), context.DeadlineExceeded)
	require.NoError(t, short.Err())
	requireNoneWaits(t, l)
	require.EqualValues(t, 3, l.Peek("a", 0).Remaining)
}

// The wait is at least as long as the calls before it on any of the keys take.
func TestWaitAll_ForecastsTheTurnsOnEachKey(t *testing.T) {
	waiting(t, map[string]Limit{"b": PerSecond(2).Log()}, func(w *waitTest) {
		w.exhaust("b")
		for range 4 {
			w.wait("before", 1, "b")
		}
		short, cancel := context.WithTimeout(w.Context(), 3*time.Second-time.Millisecond)
		defer cancel()
		require.ErrorIs(t, w.l.WaitAll(short, []string{"a", "b"}, 1), context.DeadlineExceeded)
		require.Zero(t, time.Since(w.start))
		long, cancel := context.WithTimeout(w.Context(), 3*time.Second+time.Millisecond)
		defer cancel()
		w.waitIn(long, "both", 1, "a", "b")
		w.until(3 * time.Second)
		require.Equal(t, 3*time.Second, w.admitted["both"])
	})
}

// A call is not sure to wait for the units of an earlier one that waits for another key.
func TestWaitAll_IsNotForecastForCallsThatMayGoFirst(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerMinute(2).Log(), "b": PerHour(2).Log()}, func(w *waitTest) {
		w.exhaust("b")
		w.wait("both", 2, "a", "b")
		short, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		require.NoError(t, w.l.Wait(short, "a", 1))
		w.until(time.Hour)
		require.Equal(t, time.Hour, w.admitted["both"])
	})
}

// Calls for the same keys are admitted in the order in which they came.
func TestWaitAll_FirstComeFirstServed(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerSecond(10).Log(), "b": PerSecond(5).Log()}, func(w *waitTest) {
		for i := range 100 {
			w.wait(strconv.Itoa(i), 1, []string{"a", "b"}[i%2], []string{"b", "a"}[i%2])
		}
		w.until(time.Minute)
		require.Len(t, w.order, 100)
		for i := range 100 {
			require.Equal(t, time.Duration(i/5)*time.Second, w.admitted[strconv.Itoa(i)], "call %d", i)
		}
		require.True(t, slices.IsSortedFunc(w.order, func(a, b string) int {
			return int(w.admitted[a] - w.admitted[b])
		}))
	})
}

// However many calls wait for one of its keys, a call for both is admitted as soon as the
// other key admits it; and until then, they are not held up.
func TestWaitAll_IsNotStarvedByAStream(t *testing.T) {
	for name, c := range map[string]struct {
		a      Limit
		before int // the number of calls for a that are admitted before the call for both
	}{
		"units are left":          {PerHour(5).Log(), 4},
		"units come back in time": {PerSecond(1).Log(), 59},
		"fixed windows":           {PerSecond(1).Buckets(time.Second), 59},
		"a counter":               {Limit{Count: 1, Window: time.Second}, 29},
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, map[string]Limit{"a": c.a, "b": PerMinute(1).Log()}, func(w *waitTest) {
				w.exhaust("b")
				w.wait("both", 1, "a", "b")
				ctx, cancel := context.WithCancel(w.Context())
				for i := range 80 {
					w.waitIn(ctx, strconv.Itoa(i), 1, "a")
				}
				w.until(time.Minute)
				require.Equal(t, time.Minute, w.admitted["both"])
				require.Equal(t, c.before, slices.Index(w.order, "both"))
				w.until(2 * time.Minute)
				cancel()
			})
		})
	}
}

// A call that came before a call for both keys is admitted as if there were no such call.
func TestWaitAll_DelaysNoEarlierCall(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerSecond(1).Log(), "b": PerMinute(1).Log()}, func(w *waitTest) {
		w.exhaust("a")
		for i := range 5 {
			w.wait(strconv.Itoa(i), 1, "a")
		}
		w.wait("both", 1, "a", "b")
		w.wait("after", 1, "a")
		w.until(time.Minute)
		require.Equal(t, []string{"0", "1", "2", "3", "4", "both", "after"}, w.order)
		require.Equal(t, 6*time.Second, w.admitted["both"])
		require.Equal(t, 7*time.Second, w.admitted["after"])
	})
}

// A tenant at its limit does not hold up other tenants, though all share a key; and none
// of its own calls is forgotten.
func TestWaitAll_OneFullKeyHoldsUpNoOtherKey(t *testing.T) {
	for _, shared := range []Limit{PerSecond(100), PerHour(1000).Log(), PerSecond(1).Log()} {
		waiting(t, map[string]Limit{"all": shared, "full": PerHour(2).Log()}, func(w *waitTest) {
			w.exhaust("full")
			for i := range 10 {
				w.wait("full "+strconv.Itoa(i), 1, "full", "all")
			}
			for i := range 20 {
				w.wait("free "+strconv.Itoa(i), 1, "free", "all")
			}
			w.until(30 * time.Second)
			require.Len(t, w.order, 20, "%v", shared)
			w.until(6 * time.Hour)
			require.Len(t, w.order, 30)
			for i := range 10 {
				slack := time.Duration(i) * 2 * time.Second // where the shared key admits few
				require.InDelta(t, time.Duration(i/2+1)*time.Hour, w.admitted["full "+strconv.Itoa(i)], float64(slack))
			}
		})
	}
}

// A call whose turn has not come at one key does not hold up those behind it at the other,
// though that key admits it later than the first could.
func TestWaitAll_IsWaitedForWhereItHasNoTurn(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerMinute(2).Log(), "b": PerMinute(1).Log()}, func(w *waitTest) {
		w.exhaust("b")
		w.wait("first on b", 1, "b")
		w.wait("second on b", 1, "b")
		w.until(time.Second)
		w.exhaust("a")
		w.wait("both", 1, "a", "b")
		w.wait("on a", 1, "a")
		w.until(5 * time.Minute)
		require.Equal(t, map[string]time.Duration{"first on b": time.Minute, "second on b": 2 * time.Minute,
			"on a": time.Minute + time.Second, "both": 3 * time.Minute}, w.admitted)
	})
}

// A call that waits behind others at one key does not delay later calls at its other key,
// whether those others wait for one key or for several. Once it has its turn, it is admitted,
// though later calls go on to take from the other key.
func TestWaitAll_DelaysNoOtherKeyBeforeItsTurn(t *testing.T) {
	for _, ahead := range [][]string{{"full"}, {"full", "third"}} {
		waiting(t, map[string]Limit{"full": PerMinute(1).Log(), "free": PerMinute(1).Log()}, func(w *waitTest) {
			w.exhaust("full")
			for i := range 5 {
				w.wait("ahead "+strconv.Itoa(i), 1, ahead...)
			}
			w.wait("both", 1, "full", "free")
			w.wait("on free", 1, "free")
			require.Equal(t, []string{"on free"}, w.order)
			for i := range 10 {
				w.wait("later on free "+strconv.Itoa(i), 1, "free")
			}
			w.until(5*time.Minute - 1)
			require.Len(t, w.order, 9, "four on each key, and the first")
			w.until(time.Hour)
			require.LessOrEqual(t, w.admitted["both"], 7*time.Minute)
			require.Len(t, w.order, 17)
		})
	}
}

// A call that waits for its turn at one key is not woken for what happens at another.
func TestWaitAll_IsNotWokenWhereItDoesNotMatter(t *testing.T) {
	waiting(t, nil, func(w *waitTest) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		w.exhaust("full")
		for range 3 {
			w.waitIn(ctx, "", 1, "full", "free")
		}
		last := enqueue(w.l, 1, "full", "free")
		require.False(t, w.l.queues.Begin(last, 0))
		w.waitIn(ctx, "on free", 1, "free")
		require.Equal(t, []string{"on free"}, w.order)
		require.Empty(t, last.Woken())
		cancel()
		synctest.Wait()
		require.Len(t, last.Woken(), 1)
		w.l.queues.Leave(last)
		delete(w.admitted, "")
	})
}

// However many calls wait, and whatever for, a unit that is given back makes few of them look: those
// whose key has admitted them, and the one behind each that goes on.
func TestWaitAll_AUnitWakesFewHoweverManyWait(t *testing.T) {
	n := 1000
	if testing.Short() || race.Enabled {
		n = 100
	}
	hour, days := PerHour(10).Log(), Per(10, 48*time.Hour).Log()
	own := func(i int) string { return "own " + strconv.Itoa(i) }
	for name, c := range map[string]struct {
		units int64
		keys  func(i int) []string
	}{
		"one key":                              {1, func(int) []string { return []string{"a"} }},
		"the same keys":                        {1, func(int) []string { return []string{"a", "b"} }},
		"no units":                             {0, func(int) []string { return []string{"a", "b"} }},
		"a key of its own":                     {1, func(i int) []string { return []string{"a", "free" + strconv.Itoa(i)} }},
		"a full key of its own":                {1, func(i int) []string { return []string{"a", own(i)} }},
		"a full key of its own, and more of a": {5, func(i int) []string { return []string{"a", own(i)} }},
	} {
		limits := map[string]Limit{"a": hour, "b": hour}
		for i := range n {
			limits[own(i)] = days
		}
		waiting(t, limits, func(w *waitTest) {
			clock := w.l.clock.(*patientClock)
			back := map[string][]Reservation{}
			for _, key := range []string{"a", "b"} {
				for range 10 {
					r, d := w.l.Reserve(key, 1)
					require.True(w, d.Allowed)
					back[key] = append(back[key], r)
				}
				if c.units == 0 {
					back[key][9].Commit(10) // so that it is over its limit to the end
				}
			}
			for i := range n {
				w.exhaust(own(i))
			}
			ctx, cancel := context.WithCancel(w.Context())
			for i := range n {
				w.waitIn(ctx, strconv.Itoa(i), c.units, c.keys(i)...)
			}
			for i := range 4 {
				for _, key := range [][]string{{"a", "b"}, {"b", "a"}}[i%2] {
					before := clock.readings.Load()
					back[key][i].Cancel()
					synctest.Wait()
					require.Less(w, clock.readings.Load()-before, int64(40), "%s: a unit of %s", name, key)
				}
			}
			cancel()
			synctest.Wait()
		})
	}
}

// A call that one key denies for its time, and the other for a claim of an earlier call, is admitted as
// soon as neither does.
func TestWaitAll_WaitsForOneOfItsKeysAfterTheOther(t *testing.T) {
	for _, gone := range []time.Duration{time.Second, 2 * time.Minute} {
		waiting(t, map[string]Limit{"a": PerHour(5).Log(), "b": PerMinute(1).Log(), "c": PerHour(3).Log()}, func(w *waitTest) {
			w.l.Take("a", 2)
			w.exhaust("b")
			w.exhaust("c")
			ctx, cancel := context.WithCancel(w.Context())
			w.waitIn(ctx, "gives up", 3, "a", "c") // for an hour, and claims the units of a that are left
			w.wait("both", 1, "a", "b")
			w.until(gone)
			cancel()
			synctest.Wait()
			w.until(5 * time.Minute)
			require.Equal(t, map[string]time.Duration{"both": max(gone, time.Minute)}, w.admitted)
		})
	}
}

// Units that are given back after an attempt, and before the call looks which key denies it, wake it. It cannot
// tell of which key they are: all admit it by now.
func TestWaitAll_IsWokenForAnyKeyThatHasJustComeToAdmitIt(t *testing.T) {
	for _, key := range []string{"a", "b"} {
		l := newTest(t, PerHour(1).Log(), WithClock(NewManualClock(0)))
		w, targets := enqueue(l, 1, "a", "b"), l.targets(nil, []string{"a", "b"})
		r, _ := l.Reserve(key, 1)
		require.True(t, l.queues.Begin(w, 0))
		d, _ := l.attempt(targets, 1, true)
		require.False(t, d.Allowed)
		r.Cancel()
		<-w.Woken()
		l.endAttempt(w, targets, 1)
		l.queues.Free(key, 0) // which another Cancel had not come to yet
		require.Len(t, w.Woken(), 1)
		l.queues.Leave(w)
	}
}

// Sets of other keys are never taken for the same, whatever bytes the keys consist of.
func TestWaitAll_TellsSetsOfKeysApart(t *testing.T) {
	l := newTest(t, PerHour(1).Log())
	seen := map[string][]string{}
	for _, keys := range [][]string{{"ab", "c"}, {"a", "bc"}, {"abc", ""}, {"a", "b", "c"}, {"a\x01b", "c"}, {"a", "\x01bc"}, {"\x01", "\x01a"}, {"\x01\x01", "a"}} {
		name := setName(l.targets(nil, keys))
		require.NotContains(t, seen, name, "%q", keys)
		seen[name] = keys
		slices.Reverse(keys)
		require.Equal(t, name, setName(l.targets(nil, keys)), "%q", keys)
	}
}

// Calls for the same keys, others for one of them alone, and all leave in any order: none is forgotten, and
// none is overtaken by a later one for the same keys.
func TestWaitAll_ForgetsNoneThatWaitForTheSameKeys(t *testing.T) {
	for round := range thorough(60) {
		random := rand.New(rand.NewPCG(uint64(round), 8))
		waiting(t, map[string]Limit{"a": PerMinute(2).Log(), "b": PerHour(30).Log()}, func(w *waitTest) {
			w.exhaust("a")
			w.l.Take("b", random.Int64N(31))
			var stay int
			for i := range 40 {
				keys := [][]string{{"a", "b"}, {"a", "b"}, {"b", "a"}, {"a"}, {"b"}}[random.IntN(5)]
				name := strings.Join(slices.Sorted(slices.Values(keys)), "") + strconv.Itoa(i)
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if random.IntN(2) == 0 {
					time.AfterFunc(time.Duration(random.IntN(600))*time.Second, cancel)
				} else {
					stay++
				}
				w.waitIn(ctx, name, 1, keys...)
			}
			w.until(100 * time.Hour)
			require.GreaterOrEqual(t, len(w.order), stay)
			for _, keys := range []string{"ab", "a", "b"} {
				last := time.Duration(0) // of several at one instant, any may be recorded first
				for i := range 40 {
					if at, ok := w.admitted[keys+strconv.Itoa(i)]; ok {
						require.GreaterOrEqual(t, at, last)
						last = at
					}
				}
			}
		})
	}
}

// A call that turns out to wait for another key lets those behind it go on.
func TestWaitAll_LetsOthersGoOnceItWaitsForAnotherKey(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerMinute(3).Log()}, func(w *waitTest) {
		w.exhaust("a")
		w.wait("both", 1, "a", "b")
		w.wait("on a", 1, "a")
		w.exhaust("b")
		w.until(2 * time.Hour)
		require.Equal(t, map[string]time.Duration{"on a": time.Minute, "both": time.Hour}, w.admitted)
	})
}

// A call that gives up had held back a call that is not the next behind it.
func TestWaitAll_GivesUpForAllBehindIt(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerHour(3).Log()}, func(w *waitTest) {
		w.exhaust("b")
		w.exhaust("c")
		ctx, cancel := context.WithCancel(w.Context())
		w.waitIn(ctx, "gives up", 2, "a", "b")
		w.wait("next", 1, "a", "c")
		w.wait("on a", 2, "a")
		require.Empty(t, w.order, "a has 3 units left, and 2 are claimed")
		cancel()
		synctest.Wait()
		require.Equal(t, []string{"on a"}, w.order)
		w.until(time.Hour)
		require.Equal(t, time.Hour, w.admitted["next"])
	})
}

// Calls that wait for each other's keys in a circle are admitted in their order.
func TestWaitAll_InACircle(t *testing.T) {
	minute := PerMinute(1).Log()
	waiting(t, map[string]Limit{"a": minute, "b": minute, "c": minute}, func(w *waitTest) {
		for _, key := range []string{"a", "b", "c"} {
			w.exhaust(key)
		}
		w.wait("ab", 1, "a", "b")
		w.wait("bc", 1, "b", "c")
		w.wait("ca", 1, "c", "a")
		w.wait("abc", 1, "c", "b", "a")
		w.until(5 * time.Minute)
		require.Equal(t, map[string]time.Duration{"ab": time.Minute, "bc": 2 * time.Minute, "ca": 3 * time.Minute, "abc": 4 * time.Minute}, w.admitted)
	})
}

// A call that gives up leaves nothing behind, and those that waited for its turn go on.
func TestWaitAll_GivesUp(t *testing.T) {
	for name, keys := range map[string][]string{"one": {"a"}, "the first": {"a", "b"}, "the second": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			waiting(t, map[string]Limit{"a": PerHour(5).Log(), "b": PerHour(5).Log()}, func(w *waitTest) {
				w.exhaust("b")
				w.l.Take("a", 3)
				ctx, cancel := context.WithCancel(w.Context())
				w.waitIn(ctx, "gives up", 3, keys...)
				w.wait("on a", 2, "a")
				w.wait("on both", 1, "a", "b")
				require.Empty(t, w.order)
				w.until(time.Second)
				cancel()
				synctest.Wait()
				require.Equal(t, []string{"on a"}, w.order, "a has 2 units left")
				require.Equal(t, time.Second, w.admitted["on a"])
				w.until(time.Hour)
				require.Equal(t, time.Hour, w.admitted["on both"])
				require.NotContains(t, w.admitted, "gives up")
			})
		})
	}
}

// One call after the other gives up, in any order, in any place of the queues.
func TestWaitAll_GivesUpInAnyPlace(t *testing.T) {
	sets := [][]string{{"a", "b"}, {"a"}, {"b", "c"}, {"c", "a"}, {"b"}, {"a", "b", "c"}}
	hour := PerHour(1).Log()
	for round := range thorough(60) {
		gone := rand.New(rand.NewPCG(uint64(round), 6)).Perm(len(sets))
		stay := gone[len(gone)-1]
		waiting(t, map[string]Limit{"a": hour, "b": hour, "c": hour}, func(w *waitTest) {
			for _, key := range []string{"a", "b", "c"} {
				w.exhaust(key)
			}
			var cancels []context.CancelFunc
			for i, keys := range sets {
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				cancels = append(cancels, cancel)
				w.waitIn(ctx, strconv.Itoa(i), 1, keys...)
			}
			for _, i := range gone[:len(gone)-1] {
				cancels[i]()
				synctest.Wait()
			}
			groups := min(1, len(sets[stay])-1) // of those that wait for several keys
			require.Equal(t, len(sets[stay])+groups, w.queues(), "only the queues of the last are left")
			w.until(time.Hour)
			require.Equal(t, map[string]time.Duration{strconv.Itoa(stay): time.Hour}, w.admitted)
		})
	}
}

// Whatever waits for one key after a call for two keys: no call is admitted later than it
// would be without those that came after it.
func TestWaitAll_NoCallDelaysAnEarlierOne(t *testing.T) {
	type arrival struct {
		keys []string
		n    int64
		at   time.Duration
	}
	kinds := []Limit{PerMinute(3).Log(), PerHour(4).Log(), Per(4, 10*time.Minute).Buckets(time.Minute), Per(3, 90*time.Second).Buckets(90 * time.Second), {Count: 3, Window: 4 * time.Minute}, PerMinute(2).TokenBucket(3)}
	for round := range thorough(150) {
		random := rand.New(rand.NewPCG(uint64(round), 7))
		limits := map[string]Limit{"a": kinds[random.IntN(len(kinds))], "b": kinds[random.IntN(len(kinds))]}
		const both = 0 // so that it has its turn from the beginning
		arrivals := make([]arrival, 14)
		at := time.Duration(0)
		for i := range arrivals {
			keys := [][]string{{"a"}, {"b"}}[random.IntN(2)]
			if i == both {
				keys = []string{"a", "b"}
			}
			at += time.Duration(random.IntN(3)) * 20 * time.Second
			arrivals[i] = arrival{keys, 1 + random.Int64N(3), at}
		}
		used := []int64{random.Int64N(5), random.Int64N(5)}
		run := func(count int) (admitted map[string]time.Duration) {
			waiting(t, limits, func(w *waitTest) {
				w.l.Take("a", min(used[0], limits["a"].Count))
				w.l.Take("b", min(used[1], limits["b"].Count))
				for i, arrival := range arrivals[:count] {
					w.until(arrival.at)
					w.wait(strconv.Itoa(i), arrival.n, arrival.keys...)
				}
				w.until(100 * time.Hour)
				require.Len(t, w.admitted, count, "round %d", round)
				admitted = w.admitted
			})
			return admitted
		}
		all := run(len(arrivals))
		for count := 1; count < len(arrivals); count++ {
			last := strconv.Itoa(count - 1)
			require.Equal(t, run(count)[last], all[last], "round %d, call %s, %v, %+v", round, last, limits, arrivals)
		}
	}
}

// Many calls for random keys are all admitted, though some give up. No two calls for the
// same keys change their order.
func TestWaitAll_AdmitsEveryCall(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for round := range thorough(40) {
		random := rand.New(rand.NewPCG(uint64(round), 8))
		limits := map[string]Limit{}
		for _, name := range names {
			limits[name] = []Limit{PerMinute(3).Log(), PerSecond(1).Log(), PerHour(6).Counter(), Per(2, time.Minute).Buckets(20 * time.Second)}[random.IntN(4)]
		}
		waiting(t, limits, func(w *waitTest) {
			sets, patient := map[string][]int{}, 0
			for i := range 60 {
				keys := slices.Clone(names[:1+random.IntN(3)])
				for j := range keys {
					keys[j] = names[random.IntN(len(names))]
				}
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				if random.IntN(4) == 0 {
					go func() {
						<-time.After(time.Duration(random.IntN(100)) * time.Second)
						cancel()
					}()
				} else {
					patient++
					slices.Sort(keys)
					set := strings.Join(slices.Compact(slices.Clone(keys)), ",")
					sets[set] = append(sets[set], i)
				}
				w.waitIn(ctx, strconv.Itoa(i), 1, keys...)
			}
			w.until(1000 * time.Hour)
			for set, calls := range sets {
				for i, call := range calls {
					require.Contains(t, w.admitted, strconv.Itoa(call), "round %d", round)
					if i > 0 {
						before := w.admitted[strconv.Itoa(calls[i-1])]
						require.LessOrEqual(t, before, w.admitted[strconv.Itoa(call)], "round %d, %s", round, set)
					}
				}
			}
			require.GreaterOrEqual(t, len(w.admitted), patient)
		})
	}
}

// A change to any of its keys that does not come from the clock notifies a call.
func TestWaitAll_NoticesWhatHappensToItsKeys(t *testing.T) {
	for _, key := range []string{"a", "b"} {
		for name, happen := range map[string]func(l *Limiter, r Reservation) error{
			"reset":       func(l *Limiter, _ Reservation) error { l.Reset(key); return nil },
			"cancel":      func(_ *Limiter, r Reservation) error { r.Cancel(); return nil },
			"set limits":  func(l *Limiter, _ Reservation) error { return l.SetLimits(key, PerMinute(9).Log()) },
			"reconfigure": func(l *Limiter, _ Reservation) error { return l.Reconfigure(PerMinute(9).Log()) },
		} {
			t.Run(name+" "+key, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newTest(t, PerMinute(5).Log(), WithClock(NewManualClock(0)))
					r, _ := l.Reserve(key, 5)
					ended := make(chan error, 2)
					for range 2 {
						go func() { ended <- l.WaitAll(t.Context(), []string{"a", "b"}, 2) }()
						synctest.Wait()
					}
					require.Empty(t, ended)
					require.NoError(t, happen(l, r))
					synctest.Wait()
					require.Len(t, ended, 2)
					require.NoError(t, errors.Join(<-ended, <-ended))
				})
			})
		}
	}
}

func TestWaitAll_FailsOnceItExceedsItsNewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(5).Log(), WithClock(NewManualClock(0)))
		l.AllowN("b", 5)
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- l.WaitAll(t.Context(), []string{"a", "b"}, 3) }()
		}
		synctest.Wait()
		require.NoError(t, l.SetLimits("a", PerMinute(2).Log()))
		synctest.Wait()
		require.ErrorIs(t, <-ended, ErrExceedsLimit)
		require.ErrorIs(t, <-ended, ErrExceedsLimit)
		requireNoneWaits(t, l)
	})
}

// A call that waits across a Restore goes on by the restored state, with those behind it.
func TestWaitAll_AcrossARestore(t *testing.T) {
	waiting(t, nil, func(w *waitTest) {
		far := newTest(t, PerHour(1000).Log(), WithClock(NewManualClock(int64(1e6*time.Hour))))
		far.Take("b", 1000)
		saved := snapshot(t, far)
		w.exhaust("a")
		w.wait("both", 1, "a", "b")
		w.wait("on b", 1000, "b")
		require.Empty(t, w.order)
		require.NoError(t, w.l.Restore(bytes.NewReader(saved)))
		require.NotZero(t, w.l.current.Load().shift)
		w.until(time.Minute)
		w.wait("on a", 1000, "a")
		require.Empty(t, w.order)
		w.until(3 * time.Hour)
		require.Equal(t, map[string]time.Duration{"both": time.Hour, "on b": 2 * time.Hour, "on a": 2 * time.Hour}, w.admitted)
	})
}

// A cost of 0 waits until none of the keys is over its limits. It holds up no call, and no
// call holds it up.
func TestWaitAll_ForNothing(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerHour(5).Log(), "b": PerHour(5).Log()}, func(w *waitTest) {
		require.NoError(t, w.l.WaitAll(w.Context(), []string{"a", "b"}, 0))
		w.exhaust("a")
		require.NoError(t, w.l.WaitAll(w.Context(), []string{"a", "b"}, 0), "a is at its limit, not over it")
		r, _ := w.l.Reserve("b", 5)
		r.Commit(7)
		w.wait("nothing", 0, "a", "b")
		w.wait("on a", 1, "a")
		require.Empty(t, w.order)
		w.l.Reset("a")
		synctest.Wait()
		require.Equal(t, []string{"on a"}, w.order)
		w.l.Reset("b")
		synctest.Wait()
		require.Equal(t, []string{"on a", "nothing"}, w.order)
	})
}

func TestWaitAll_UnderACap(t *testing.T) {
	for _, overflow := range []Overflow{EvictLeastUsed, DenyNew, ShareOverflow} {
		waiting(t, nil, func(w *waitTest) {
			require.NoError(t, w.l.WaitAll(w.Context(), []string{"a", "b"}, 1))
			ctx, cancel := context.WithTimeout(w.Context(), 100*time.Hour)
			defer cancel()
			switch err := w.l.WaitAll(ctx, []string{"a", "b", "c"}, 1); overflow {
			case ShareOverflow:
				require.NoError(t, err, "they share quotas")
			default:
				require.EqualError(t, err, "sash: Wait: 3 keys are more than WithMaxKeys ever tracks: exceeds the limit")
			}
			// c does not fit under DenyNew, until the others are idle.
			w.wait("c", 1, "a", "c")
			w.wait("a", 1, "a")
			require.Equal(t, overflow == DenyNew, len(w.order) == 1, "%v", w.order)
			require.Contains(t, w.admitted, "a", "it is not held up by one that has no room")
			w.until(time.Hour)
			w.wait("d", 1000, "d", "b")
			w.until(4 * time.Hour)
			require.Len(t, w.order, 3)
		}, WithMaxKeys(2, overflow))
	}
}

// A key that is not tracked may get room early. What the other keys need is certain all the same.
func TestWaitAll_FailsAtOnceThoughAKeyIsNotTracked(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		waiting(t, nil, func(w *waitTest) {
			w.l.Take("full", 1000)
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			defer cancel()
			require.ErrorIs(t, w.l.WaitAll(ctx, []string{"full", "never seen"}, 1), context.DeadlineExceeded)
			require.NoError(t, ctx.Err(), "it did not wait")
		}, WithMaxKeys(100, overflow))
	}
}

// If not all of the keys fit, one of them shares a quota. If that never admits as many units, waiting
// is of no use.
func TestWaitAll_FailsAtOnceIfTheSharedQuotaIsTooSmall(t *testing.T) {
	large := map[string]Limit{"large": PerHour(2000).Log(), "huge": PerHour(3000).Log()}
	waiting(t, large, func(w *waitTest) {
		err := w.l.WaitAll(w.Context(), []string{"large", "huge"}, 1500)
		require.EqualError(t, err, "sash: Wait: 1500 is more than 1000/1h0m0s log ever admits: exceeds the limit")
		require.NoError(t, w.l.WaitAll(w.Context(), []string{"large", "huge"}, 1000))
	}, WithMaxKeys(1, ShareOverflow))
}

// Calls whose keys are idle make room for one another, although none of the keys is evicted for a
// key that does not wait.
func TestWaitAll_IdleKeysMakeRoomForOthersThatWait(t *testing.T) {
	waiting(t, nil, func(w *waitTest) {
		w.l.Take("a", 1)
		w.l.Take("b", 1)
		w.wait("a and c", 1, "a", "c")
		w.wait("b and c", 1, "b", "c")
		w.wait("d", 1, "d")
		w.until(59 * time.Minute)
		require.Empty(t, w.order)
		require.False(t, w.l.Allow("new"))
		w.until(10 * time.Hour)
		require.ElementsMatch(t, []string{"a and c", "b and c", "d"}, w.order, "at one instant, any of them may be first")
	}, WithMaxKeys(2, DenyNew))
}

// A key of a call that waits is given limits, under which it needs room. With it, the keys are more than
// ever fit.
func TestWaitAll_FailsOnceItsKeysNeedMoreRoomThanThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(3), WithMaxKeys(1, DenyNew))
		require.NoError(t, l.SetLimits("free", Unlimited()))
		require.True(t, l.Allow("other"))
		failed := make(chan error, 1)
		go func() { failed <- l.WaitAll(t.Context(), []string{"new", "free"}, 1) }()
		synctest.Wait()
		require.Empty(t, failed)
		require.NoError(t, l.SetLimits("free", PerHour(240)))
		require.ErrorIs(t, <-failed, ErrExceedsLimit)
	})
}

// A call waits for a key that does not fit, while another waits for all keys that there are.
func TestWait_IdleKeysThatAreWaitedForMakeRoom(t *testing.T) {
	waiting(t, map[string]Limit{"slow": Per(1, 24*time.Hour).Log()}, func(w *waitTest) {
		w.l.Take("slow", 1)
		w.l.Take("a", 1)
		w.wait("slow and a", 1, "slow", "a")
		w.wait("new", 1, "new")
		w.until(23 * time.Hour)
		require.Equal(t, []string{"new"}, w.order)
		w.until(50 * time.Hour)
		require.Equal(t, []string{"new", "slow and a"}, w.order)
	}, WithMaxKeys(2, DenyNew))
}

// A key without room shares a quota that never admits the call. Its own limits do, once an idle
// key makes room.
func TestWait_AKeyThatSharesAQuotaWaitsForRoom(t *testing.T) {
	waiting(t, map[string]Limit{"large": PerHour(2000).Log()}, func(w *waitTest) {
		w.l.Take("a", 1)
		w.wait("large", 1500, "large")
		short, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		w.waitIn(short, "gives up", 1500, "large")
		w.until(59 * time.Minute)
		require.Empty(t, w.order)
		w.until(2 * time.Hour)
		require.Equal(t, []string{"large"}, w.order)
	}, WithMaxKeys(1, ShareOverflow))
}

func TestWaitAll_IsObservedOncePerKey(t *testing.T) {
	seen := make(chan string, 10)
	waiting(t, map[string]Limit{"a": PerHour(1).Log()}, func(w *waitTest) {
		w.exhaust("a")
		require.Equal(t, "a 1 0", <-seen)
		w.wait("both", 1, "a", "b")
		require.Empty(t, seen)
		w.until(time.Hour)
		require.NoError(t, w.l.WaitAll(w.Context(), []string{"a", "b"}, 0))
		require.ElementsMatch(t, []string{"a 1 0", "b 1 0"}, []string{<-seen, <-seen})
		require.Empty(t, seen)
	}, WithObserver(func(key string, n int64, d Decision) {
		seen <- fmt.Sprint(key, " ", n, " ", d.Remaining)
	}))
}

// The attempts of a waiting call are not charged as denied attempts.
func TestWaitAll_IsNotChargedForWaiting(t *testing.T) {
	waiting(t, map[string]Limit{"a": PerMinute(2).Log(), "b": PerHour(2).Log()}, func(w *waitTest) {
		w.exhaust("a")
		w.until(30 * time.Second)
		w.wait("both", 2, "b", "a")
		w.until(time.Minute)
		require.Equal(t, time.Minute, w.admitted["both"])
	}, WithChargeDenied())
}

// Calls that wait for a reservation are in the queue of the others, and what they reserve
// may be given back.
func TestWaitReserve_WaitsInTheSameQueue(t *testing.T) {
	waiting(t, map[string]Limit{"k": PerMinute(4).Log()}, func(w *waitTest) {
		w.exhaust("k")
		w.wait("first", 3, "k")
		reserved := make(chan Reservation, 1)
		go func() {
			r, err := w.l.WaitReserve(w.Context(), "k", 2)
			require.NoError(t, err)
			reserved <- r
		}()
		synctest.Wait()
		w.wait("last", 1, "k")
		w.until(time.Minute)
		require.Equal(t, []string{"first"}, w.order, "1 unit is left, and the reservation is first")
		w.until(2 * time.Minute)
		require.Len(t, w.order, 2)
		r := <-reserved
		require.EqualValues(t, 1, w.l.Peek("k", 0).Remaining)
		r.Commit(1)
		require.EqualValues(t, 2, w.l.Peek("k", 0).Remaining)
		r.Cancel()
		require.EqualValues(t, 2, w.l.Peek("k", 0).Remaining, "it is settled already")
	})
}

// What is given back is there for the calls that wait.
func TestWaitReserve_GivesBackToThoseThatWait(t *testing.T) {
	waiting(t, map[string]Limit{"k": PerMinute(4).Log()}, func(w *waitTest) {
		r, err := w.l.WaitReserve(w.Context(), "k", 4)
		require.NoError(t, err)
		w.wait("next", 2, "k")
		require.Empty(t, w.order)
		r.Cancel()
		synctest.Wait()
		require.Equal(t, []string{"next"}, w.order)
	})
}

// On an error there is nothing to settle.
func TestWaitReserve_ReturnsTheZeroReservationOnAnError(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)))
	l.AllowN("k", 2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, c := range []struct {
		ctx  context.Context
		n    int64
		want error
	}{{ended, 1, context.Canceled}, {t.Context(), 4, ErrExceedsLimit}, {t.Context(), -1, ErrExceedsLimit}, {short, 2, context.DeadlineExceeded}} {
		r, err := l.WaitReserve(c.ctx, "k", c.n)
		require.ErrorIs(t, err, c.want)
		require.Zero(t, r)
		r.Commit(1)
		r.Cancel()
	}
	require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
}

// A reservation of nothing can be settled to something, as by Reserve.
func TestWaitReserve_OfNothing(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)))
	r, err := l.WaitReserve(t.Context(), "k", 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
	r.Commit(2)
	require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
}

// Calls run at once, and some of them give up. Each of the others is admitted, all keys are
// charged what they admitted, and nothing is left behind.
func TestRace_WaitAllInAnyOrder(t *testing.T) {
	const callers, calls, names = 8, 60, 4
	clock := NewManualClock(0)
	l := newTest(t, PerHour(callers*calls), PerMinute(5).Log(), WithClock(clock))
	var charged [names]atomic.Int64
	var done sync.WaitGroup
	for caller := range callers {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(caller), 9))
			for i := range calls {
				mine := random.Perm(names)[:1+random.IntN(3)]
				var keys []string
				for _, key := range mine {
					keys = append(keys, strconv.Itoa(key))
				}
				ctx, cancel := context.WithCancel(t.Context())
				if i%4 == 0 {
					go cancel()
				}
				err := l.WaitAll(ctx, keys, 1)
				switch {
				case err == nil:
					for _, key := range mine {
						charged[key].Add(1)
					}
				case i%4 > 0:
					t.Errorf("call %d of %d: %v", i, caller, err)
				}
				cancel()
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		done.Wait()
		close(ended)
	}()
	queued := 0 // the most calls that waited at one time
	for open := true; open; {
		select {
		case <-ended:
			open = false
		default:
			runtime.Gosched()
			if waiting, _, _ := l.queues.Size(); waiting > 0 {
				queued = max(queued, waiting)
				clock.Advance(time.Second)
			}
		}
	}
	require.Greater(t, queued, 2, "no contention: this test has shown nothing")
	requireNoneWaits(t, l)
	for key := range charged {
		require.LessOrEqual(t, charged[key].Load(), 5+clock.Now()/int64(time.Minute)*5)
	}
}

// Calls keep their order at the first instant that a clock can show, too. There, a key that admits a call,
// and would not leave what an earlier one claims, admits it no later than the least instant of all.
func TestWaitAll_KeepsItsOrderAtTheFirstInstant(t *testing.T) {
	clock := NewManualClock(math.MinInt64)
	limit := PerSecond(4).Counter()
	waiting(t, map[string]Limit{"a": limit, "b": limit}, func(w *waitTest) {
		w.l.Take("a", 3)
		w.l.Take("b", 3)
		w.wait("both", 2, "a", "b")
		w.wait("three", 3, "a")
		w.wait("one", 1, "a")
		w.l.Reset("a")
		synctest.Wait()
		w.goOn()
		require.Empty(w, w.order, "the second leaves two units to the first, and the third waits behind it")
		for range 5 {
			clock.Advance(2 * time.Second)
			synctest.Wait()
		}
		w.goOn()
		require.Equal(w, []string{"both", "three", "one"}, w.order)
	}, WithClock(clock))
}
