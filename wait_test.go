package sash

import (
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/window"
)

func TestWait_AdmitsAtOnceWhatFits(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)))
	require.NoError(t, l.Wait(t.Context(), "k", 2))
	require.NoError(t, l.Wait(t.Context(), "k", 0))
	require.EqualValues(t, 1, l.Peek("k", 0).Remaining)
}

// A thousand waiters on one key are admitted in the order of their arrival, and at the rate of
// the limit, to the nanosecond of the bubble's clock.
func TestWait_FirstComeFirstServed(t *testing.T) {
	const waiters = 1000
	for name, limit := range map[string]Limit{"log": PerSecond(10).Log(), "buckets": PerSecond(10).Buckets(100 * time.Millisecond), "counter": PerSecond(10).Counter(), "tokens": PerSecond(10).TokenBucket(10)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTest(t, limit)
				var at [waiters]time.Time // times of admission, in the order of arrival
				for i := range waiters {
					go func() {
						require.NoError(t, l.Wait(t.Context(), "k", 1))
						at[i] = time.Now()
					}()
					synctest.Wait() // until this waiter is in the queue
				}
				<-time.After(waiters * time.Second)
				synctest.Wait()
				for i := range at {
					require.False(t, at[i].IsZero(), "waiter %d", i)
					require.False(t, i > 0 && at[i].Before(at[i-1]), "waiter %d", i)
					if limit.Algorithm == SlidingLog && i >= 10 {
						require.Equal(t, time.Second, at[i].Sub(at[i-10]), "waiter %d", i)
					}
				}
				took := at[waiters-1].Sub(at[0])
				require.Greater(t, took, (waiters/10-2)*time.Second)
				require.Less(t, took, waiters/10*1150*time.Millisecond, "a counter rounds up the weight of the window before")
				requireNoneWaits(t, l)
			})
		})
	}
}

func TestWait_EndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(1).Log())
		l.Allow("k")
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var ended [3]error
		for i := range ended {
			go func() {
				ended[i] = l.Wait(ctx, "k", 1)
				if time.Since(start) != 10*time.Second {
					ended[i] = nil
				}
			}()
		}
		patient := make(chan error)
		synctest.Wait()
		go func() { patient <- l.Wait(t.Context(), "k", 1) }()
		<-time.After(10 * time.Second)
		cancel()
		synctest.Wait()
		for _, err := range ended {
			require.ErrorIs(t, err, context.Canceled)
		}
		require.NoError(t, <-patient)
		require.Equal(t, time.Minute, time.Since(start), "the waiters that left have charged nothing")
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining)

		require.ErrorIs(t, l.Wait(ctx, "free", 1), context.Canceled, "the context has ended, though there is room")
		require.EqualValues(t, 1, l.Peek("free", 0).Remaining)
	})
}

func TestWait_FailsAtOnceIfItIsNotAdmittedInTime(t *testing.T) {
	l := newTest(t, PerSecond(2).Log(), PerMinute(3).Log(), WithClock(NewManualClock(0)))
	require.ErrorIs(t, l.Wait(t.Context(), "k", 3), ErrExceedsLimit)
	require.EqualError(t, l.Wait(t.Context(), "k", 3), "sash: Wait: 3 is more than 2/1s log ever admits: exceeds the limit")
	require.EqualError(t, l.Wait(t.Context(), "k", -1), "sash: Wait: n must be >= 0, got -1: exceeds the limit")
	require.Equal(t, 0, l.Len(), "nothing was charged")

	l.AllowN("k", 2)
	ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
	defer cancel()
	err := l.Wait(ctx, "k", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, ctx.Err(), "it failed before the deadline")
	require.ErrorContains(t, err, "sash: Wait: admitted in 1s at the earliest")
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	require.ErrorContains(t, l.Wait(pastDeadline{t.Context()}, "k", 1), "the context ends in 0s")
}

// A pastDeadline is a context whose deadline has passed, and whose timer is late.
type pastDeadline struct{ context.Context }

func (pastDeadline) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// A call that queues behind others fails at once if their turns alone take too long.
func TestWait_ForecastsTheTurnsOfEarlierWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		wait  time.Duration // of the fifth waiter
	}{
		"log":     {PerSecond(2).Log(), 3 * time.Second},
		"buckets": {PerSecond(2).Buckets(time.Second), 2 * time.Second},
		"tokens":  {PerSecond(2).TokenBucket(2), 2500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTest(t, c.limit)
				l.AllowN("k", 2)
				for range 4 {
					go func() { require.NoError(t, l.Wait(t.Context(), "k", 1)) }()
					synctest.Wait()
				}
				short, cancel := context.WithTimeout(t.Context(), c.wait-time.Millisecond)
				defer cancel()
				start := time.Now()
				require.ErrorIs(t, l.Wait(short, "k", 1), context.DeadlineExceeded)
				require.Zero(t, time.Since(start))
				long, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				require.NoError(t, l.Wait(long, "k", 1))
			})
		})
	}
}

// The parts of a key begin at instants of its own, so what came late in a part is back soon after another part of the
// clock begins.
func TestWait_ForecastsByThePartsOfTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, Per(20, 160*time.Second), Per(1, 3*time.Second))
		var key string
		for key = "k"; window.ShiftOf(key) != window.Shifts/2; key += "k" {
		}
		// Its parts begin at 5 s, 15 s and so on.
		_, since := window.Divide(l.clock.Now(), int64(10*time.Second))
		time.Sleep(10*time.Second - time.Duration(since) - time.Second/2) // of the bubble
		require.True(t, l.Allow(key))
		for range 20 {
			go l.Wait(t.Context(), key, 1)
		}
		synctest.Wait()
		// The twentieth is admitted when the unit above and the one of the first, 3 s later, are back.
		back := 155*time.Second + time.Second/2
		short, cancel := context.WithTimeout(t.Context(), back-1)
		defer cancel()
		start := time.Now()
		require.ErrorIs(t, l.Wait(short, key, 1), context.DeadlineExceeded)
		require.Zero(t, time.Since(start))
		long, cancel := context.WithTimeout(t.Context(), back+4*time.Second)
		defer cancel()
		require.NoError(t, l.Wait(long, key, 1))
	})
}

func TestWait_OnAManualClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewManualClock(0)
		l := newTest(t, PerMinute(2).Log(), WithClock(clock))
		l.AllowN("k", 2)
		var admitted atomic.Int64
		for range 3 {
			go func() {
				require.NoError(t, l.Wait(t.Context(), "k", 1))
				admitted.Add(1)
			}()
		}
		for _, step := range []struct {
			advance time.Duration
			want    int64
		}{{0, 0}, {time.Minute - 1, 0}, {-time.Hour, 0}, {time.Hour, 0}, {1, 2}, {time.Minute - 1, 2}, {1, 3}} {
			clock.Advance(step.advance)
			synctest.Wait()
			require.Equal(t, step.want, admitted.Load(), "%+v", step)
		}
		require.Empty(t, clock.timers)
	})
}

// A change to a key that does not come from the clock notifies the calls that wait for it.
func TestWait_NoticesWhatHappensToItsKey(t *testing.T) {
	for name, happen := range map[string]func(l *Limiter, r Reservation){
		"reset":       func(l *Limiter, _ Reservation) { l.Reset("k") },
		"cancel":      func(_ *Limiter, r Reservation) { r.Cancel() },
		"set limits":  func(l *Limiter, _ Reservation) { l.SetLimits("k", PerMinute(9).Log()) },
		"reconfigure": func(l *Limiter, _ Reservation) { l.Reconfigure(PerMinute(9).Log()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTest(t, PerMinute(5).Log(), WithClock(NewManualClock(0)))
				r, _ := l.Reserve("k", 5)
				var admitted atomic.Int64
				for range 2 {
					go func() {
						require.NoError(t, l.Wait(t.Context(), "k", 2))
						admitted.Add(1)
					}()
				}
				synctest.Wait()
				require.Zero(t, admitted.Load())
				happen(l, r)
				synctest.Wait()
				require.EqualValues(t, 2, admitted.Load())
			})
		})
	}
}

func TestWait_FailsOnceItExceedsItsNewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(5).Log(), WithClock(NewManualClock(0)))
		l.AllowN("k", 5)
		var errs [2]error
		for i := range errs {
			go func() { errs[i] = l.Wait(t.Context(), "k", 3) }()
		}
		synctest.Wait()
		require.NoError(t, l.SetLimits("k", PerMinute(2).Log()))
		synctest.Wait()
		require.ErrorIs(t, errs[0], ErrExceedsLimit)
		require.ErrorIs(t, errs[1], ErrExceedsLimit)
	})
}

// A key for which a call waits is not evicted, even if it is idle.
func TestWait_KeepsItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// This clock is not a ManualClock, so it does not wake waiters when it moves.
		manual := NewManualClock(0)
		l := newTest(t, PerMinute(1).Log(), WithClock(clockFunc(manual.Now)))
		l.Allow("k")
		ended := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- l.Wait(ctx, "k", 1) }()
		synctest.Wait()
		manual.Advance(time.Hour)
		require.Equal(t, 0, l.Sweep())
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, 1, l.Sweep())
	})
}

// The attempts of a waiting call are not denied attempts, so they are not charged.
func TestWait_IsNotChargedForWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(2).Counter(), PerMinute(2).Log(), WithChargeDenied())
		l.AllowN("k", 2)
		start := time.Now()
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		require.LessOrEqual(t, time.Since(start), 2*time.Minute)
	})
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(2).Log(), WithChargeDenied())
		l.AllowN("k", 2)
		<-time.After(30 * time.Second)
		start := time.Now()
		require.NoError(t, l.Wait(t.Context(), "k", 2))
		require.Equal(t, 30*time.Second, time.Since(start), "as if it had made no attempts before")
	})
}

// A call that would fit at once waits behind an earlier call that does not fit.
func TestWait_OvertakesNoOtherWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(5).Log())
		l.AllowN("k", 3)
		start := time.Now()
		var took [2]time.Duration
		for i, n := range []int64{3, 1} {
			go func() {
				require.NoError(t, l.Wait(t.Context(), "k", n))
				took[i] = time.Since(start)
			}()
			synctest.Wait()
		}
		require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, [2]time.Duration{time.Minute, time.Minute}, took)
	})
}

func TestWait_IsObservedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []Decision
		l := newTest(t, PerMinute(1).Log(), WithObserver(func(_ string, _ int64, d Decision) { seen = append(seen, d) }))
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		require.Error(t, l.Wait(t.Context(), "k", 2))
		require.Len(t, seen, 2)
		require.True(t, seen[1].Allowed)
	})
}

// An observer is the caller's code, and may take long. The call that it is told of does not wait
// any more, so others that wait for the key go on.
func TestWait_ASlowObserverHoldsUpNoOtherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var seen atomic.Int64
		l := newTest(t, PerMinute(1).Log(), WithObserver(func(string, int64, Decision) {
			if seen.Add(1) > 1 {
				<-release
			}
		}))
		l.Allow("k")
		for range 3 {
			go func() { require.NoError(t, l.Wait(t.Context(), "k", 1)) }()
		}
		for waiters := range int64(3) {
			<-time.After(time.Minute)
			synctest.Wait()
			require.Equal(t, 2+waiters, seen.Load(), "admitted after %d minutes", 1+waiters)
		}
		close(release)
		synctest.Wait()
		requireNoneWaits(t, l)
	})
}

// A waiter that is admitted in time does not fail. Under a counter, earlier waiters are
// admitted sooner one by one than as a single charge.
func TestWait_RefusesNoWaiterThatIsAdmittedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manual := NewManualClock(0)
		l := newTest(t, PerHour(10).Counter(), WithClock(manual))
		require.True(t, l.AllowN("k", 5))
		manual.Set(int64(time.Hour))
		require.True(t, l.AllowN("k", 5))
		ctx, cancel := context.WithTimeout(t.Context(), 102*time.Minute)
		defer cancel()
		var admitted atomic.Int64
		for range 10 {
			go func() {
				require.NoError(t, l.Wait(ctx, "k", 1))
				admitted.Add(1)
			}()
			synctest.Wait()
		}
		for range 102 {
			manual.Advance(time.Minute)
			synctest.Wait()
		}
		require.EqualValues(t, 10, admitted.Load())
	})
}

// A cost of 0 does not queue behind other waiters.
func TestWait_ForNothingDoesNotQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(10).Log(), WithClock(NewManualClock(0)))
		l.AllowN("k", 5)
		ctx, cancel := context.WithCancel(t.Context())
		go l.Wait(ctx, "k", 10)
		synctest.Wait()
		require.NoError(t, l.Wait(t.Context(), "k", 0))
		cancel()
	})
}

// A cost above one limit fails at once, even if another limit would make it wait very long.
func TestWait_ExceedsAnyLimit(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(5, math.MaxInt64), PerSecond(2), WithClock(clock))
	l.AllowN("k", 2)
	clock.Advance(time.Minute)
	l.AllowN("k", 2)
	require.ErrorIs(t, l.Wait(t.Context(), "k", 3), ErrExceedsLimit)
}

func TestWait_OnAClockBelowZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewManualClock(-int64(time.Hour))
		l := newTest(t, PerSecond(1).Log(), WithClock(clock))
		l.Allow("k")
		ended := make(chan error)
		go func() { ended <- l.Wait(t.Context(), "k", 1) }()
		synctest.Wait()
		clock.Advance(time.Second)
		require.NoError(t, <-ended)
	})
}

// A call for no units does not queue. So the units of those that wait do not make it fail by
// its deadline.
func TestWait_ForNothingIsNotHeldUpByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewManualClock(0)
		l := newTest(t, PerSecond(2).Log(), WithClock(clock))
		reservation, _ := l.Reserve("k", 2)
		reservation.Commit(3) // over the limit, so that a call for nothing waits, too
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for range 3 {
			go func() { _ = l.Wait(ctx, "k", 2) }()
		}
		synctest.Wait()
		nothing := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
			defer cancel()
			nothing <- l.Wait(ctx, "k", 0)
		}()
		synctest.Wait()
		clock.Advance(time.Second)
		require.NoError(t, <-nothing)
		cancel()
		synctest.Wait()
	})
}

// A waiter that has just charged its units and is still in the queue is not counted twice:
// its units are part of the state of the key, and not of the forecast.
func TestWait_CountsNoWaiterTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewManualClock(0)
		l := newTest(t, PerSecond(2).Log(), WithClock(clock))
		w := enqueue(l, 2, "k")
		require.True(t, l.queues.Begin(w, 0))
		d, _ := l.attempt(l.targets(nil, []string{"k"}), 2, true)
		require.True(t, d.Allowed)
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		second := make(chan error)
		go func() { second <- l.Wait(ctx, "k", 2) }()
		synctest.Wait()
		l.queues.Leave(w)
		clock.Advance(time.Second)
		require.NoError(t, <-second)
	})
}

// Calls of all kinds, for any keys, count together. A call that is admitted at once is not among them,
// nor one that has ended.
func TestWithMaxWaiters_BoundsTheCallsThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(2).Log(), WithMaxWaiters(3))
		for _, key := range []string{"a", "b", "c"} {
			l.AllowN(key, 2)
		}
		over, _ := l.Reserve("over", 1)
		over.Commit(3)
		ctx, cancel := context.WithCancel(t.Context())
		go l.Wait(ctx, "a", 1)
		go l.WaitAll(t.Context(), []string{"b", "free"}, 1)
		go l.WaitReserve(t.Context(), "over", 0)
		synctest.Wait()
		require.Equal(t, 3, l.Stats().Waiters)

		refused := func() {
			t.Helper()
			const text = "sash: Wait: 3 calls wait, as many as WithMaxWaiters allows: too many waiters"
			require.EqualError(t, l.Wait(t.Context(), "c", 1), text)
			require.EqualError(t, l.WaitAll(t.Context(), []string{"c", "free"}, 1), text)
			require.EqualError(t, l.Wait(t.Context(), "over", 0), text)
			require.ErrorIs(t, l.Wait(t.Context(), "a", 1), ErrTooManyWaiters)
			r, err := l.WaitReserve(t.Context(), "c", 1)
			require.ErrorIs(t, err, ErrTooManyWaiters)
			require.Zero(t, r)
			require.Equal(t, 3, l.Stats().Waiters)
		}
		refused()
		require.EqualValues(t, 2, l.Peek("free", 0).Remaining, "nothing is charged")
		require.ErrorIs(t, l.Wait(t.Context(), "c", 3), ErrExceedsLimit, "no call is told to come again in vain")
		require.NoError(t, l.Wait(t.Context(), "new", 2))
		require.NoError(t, l.Reconfigure(PerHour(2).Log(), PerMinute(1000)))
		synctest.Wait()
		refused()

		cancel()
		synctest.Wait()
		require.Equal(t, 2, l.Stats().Waiters)
		go l.Wait(t.Context(), "c", 1)
		synctest.Wait()
		refused()
		<-time.After(2 * time.Hour)
		synctest.Wait()
		require.Zero(t, l.Stats().Waiters)
		requireNoneWaits(t, l)
	})
}

func TestWithMaxWaiters_OfNoneLetsNoCallWait(t *testing.T) {
	l := newTest(t, PerHour(2).Log(), WithMaxWaiters(0), WithClock(NewManualClock(0)))
	require.NoError(t, l.Wait(t.Context(), "k", 1))
	require.ErrorIs(t, l.Wait(t.Context(), "k", 2), ErrTooManyWaiters)
	require.NoError(t, l.Wait(t.Context(), "k", 1), "nothing was charged, and none waits")
	require.NoError(t, l.Wait(t.Context(), "k", 0))
}

// Many callers come at once, and no more than the bound wait at any time.
func TestRace_WithMaxWaiters(t *testing.T) {
	const callers, most = 50, 7
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(1).Log(), WithMaxWaiters(most))
		l.Allow("k")
		ctx, cancel := context.WithCancel(t.Context())
		var refused atomic.Int64
		for range callers {
			go func() {
				if errors.Is(l.Wait(ctx, "k", 1), ErrTooManyWaiters) {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.Equal(t, most, l.Stats().Waiters)
		require.EqualValues(t, callers-most, refused.Load())
		cancel()
		synctest.Wait()
		requireNoneWaits(t, l)
	})
}

// Those that wait for no units wait one behind the other. Once the key is within its limits again, all
// are admitted.
func TestWait_ForNothingAdmitsAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerHour(2).Log())
		r, _ := l.Reserve("k", 2)
		r.Commit(3)
		var admitted atomic.Int64
		for i := range 20 {
			go func() {
				if l.WaitAll(t.Context(), []string{"k", strconv.Itoa(i % 3)}, 0) == nil {
					admitted.Add(1)
				}
			}()
		}
		synctest.Wait()
		require.Zero(t, admitted.Load())
		require.True(t, l.Reset("k"))
		synctest.Wait()
		require.EqualValues(t, 20, admitted.Load())
	})
}

// A call that hangs in WithLimitsFor when the limits change holds up no other call that waits.
func TestWait_AHangingFunctionHoldsUpNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		goOn := make(chan struct{})
		l := newTest(t, PerMinute(1).Log(), WithLimitsFor(func(key string) []Limit {
			if key == "slow" && hangs.Load() {
				<-goOn
			}
			return nil
		}))
		var ended sync.Map
		wait := func(key string) {
			require.True(t, l.Allow(key))
			go func() {
				require.NoError(t, l.Wait(t.Context(), key, 1))
				ended.Store(key, true)
			}()
			synctest.Wait()
		}
		wait("slow")
		wait("other")
		hangs.Store(true)
		l.Reset("slow") // its call looks again, asks the function, and hangs
		synctest.Wait()
		require.NoError(t, l.SetLimits("slow", PerMinute(1).Log()))
		require.NoError(t, l.SetLimits("other", PerMinute(2).Log()))
		synctest.Wait()
		_, other := ended.Load("other")
		require.True(t, other)
		hangs.Store(false)
		close(goOn)
		time.Sleep(time.Minute) // of the bubble
	})
}
