package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

var leasable = [][]sash.Limit{
	{sash.PerMinute(100_000).Counter()},
	{sash.PerMinute(100_000).Buckets(time.Second)},
	{sash.PerMinute(100_000).Parts()},
	{sash.PerSecond(10_000).TokenBucket(100_000)},
	{sash.PerMinute(100_000).Counter(), sash.PerHour(1_000_000).Counter()},
}

// Calls that keep coming are admitted from leases, with few round trips.
func TestLease_HandsOutUnitsInProcess(t *testing.T) {
	for _, limits := range leasable {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			s := newStore(t)
			l, local := s.limiter(limits, sashredis.WithLease(10_000, time.Hour))
			ctx := context.Background()
			const calls = 20_000
			for i := range calls {
				d := l.Take(ctx, "k", 1)
				require.True(t, d.Allowed, "call %d: %+v", i, d)
				local.Advance(time.Microsecond)
				s.advance(time.Microsecond)
			}
			stats := l.Stats()
			assert.Equal(t, int64(calls), stats.Store+stats.Lease)
			assert.Less(t, s.count(), 40)
			assert.Greater(t, stats.Leased, stats.Lease-1)

			// The store has charged what was used, and what is leased.
			other, _ := s.limiter(limits)
			used := limits[0].Count - other.Peek(ctx, "k", 0).Remaining
			if limits[0].Algorithm == sash.TokenBucket {
				return // some has flowed back
			}
			assert.Equal(t, stats.Store+stats.Leased, used)
		})
	}
}

// One call alone leases nothing, nor does a key with a log.
func TestLease_NeedsDemand(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithLease(100, time.Second),
		sashredis.WithLimitsFor(func(key string) []sash.Limit {
			if key == "log" {
				return []sash.Limit{sash.PerMinute(1000).Log()}
			}
			return nil
		}))
	ctx := context.Background()
	for range 5 {
		require.True(t, l.Allow(ctx, "slow"))
		local.Advance(10 * time.Second)
	}
	for range 50 {
		require.True(t, l.Allow(ctx, "log"))
	}
	assert.Zero(t, l.Stats().Leased)
}

// A lease that is granted with a call that must leave units leaves no more for that.
func TestLease_LeavesNoMoreForACallThatLeavesUnits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000).Counter()}, sashredis.WithLease(100, time.Hour))
	ctx := context.Background()
	require.True(t, l.Allow(ctx, "k")) // now there is demand
	arrived, release := s.holdUp()
	var calls sync.WaitGroup
	calls.Go(func() { l.Peek(ctx, "k", 1) })
	<-arrived
	calls.Go(func() { assert.True(t, l.Take(ctx, "k", 50).Allowed) })
	eventually(t, "a call waits", func() bool { return waiting(l) == 1 })
	calls.Go(func() { assert.True(t, l.TakeLeaving(ctx, "k", 1, 900).Allowed) })
	eventually(t, "both wait", func() bool { return waiting(l) == 2 })
	release()
	calls.Wait()
	assert.Equal(t, int64(100), l.Stats().Leased)
}

// What several keys are charged at one instant is charged by the store, also if the keys are one.
func TestLease_TakeAllUsesNone(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithLease(100, time.Hour))
	ctx := context.Background()
	for l.Stats().Lease == 0 {
		require.True(t, l.Allow(ctx, "k"))
	}
	before := s.count()
	assert.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By)
	assert.Equal(t, before, s.count())
	assert.Equal(t, sashredis.ByStore, l.TakeAll(ctx, []string{"k"}, 1).By)
	assert.Equal(t, sashredis.ByStore, l.TakeAll(ctx, []string{"k", "k"}, 1).By)
	assert.Equal(t, before+2, s.count())
	_, d := l.Reserve(ctx, "k", 1)
	assert.Equal(t, sashredis.ByStore, d.By)
}

// A lease leaves others at least as much as it takes, for each process that has one.
func TestLease_LeavesOthersTheirPart(t *testing.T) {
	s := newStore(t)
	limits := []sash.Limit{sash.PerMinute(1000)}
	ctx := context.Background()
	var processes []*sashredis.Limiter
	for range 4 {
		l, _ := s.limiter(limits, sashredis.WithLease(1000, time.Second))
		for range 30 {
			require.True(t, l.Allow(ctx, "k"))
		}
		processes = append(processes, l)
	}
	for i, l := range processes {
		stats := l.Stats()
		assert.Positive(t, stats.Leased, "process %d", i)
	}
	other, _ := s.limiter(limits)
	assert.Greater(t, other.Peek(ctx, "k", 0).Remaining, int64(200))
}

// What is not used is given back when the time of a lease is over, and by Close.
func TestLease_GivesBackWhatIsNotUsed(t *testing.T) {
	for _, limits := range leasable {
		s := newStore(t)
		l, _ := s.limiter(limits, sashredis.WithLease(1000, time.Hour))
		ctx := context.Background()
		for range 100 {
			require.True(t, l.Allow(ctx, "k"))
		}
		require.Positive(t, l.Stats().Leased)
		require.NoError(t, l.Close())
		other, _ := s.limiter(limits)
		d := other.Peek(ctx, "k", 0)
		most := d.Limit.Count
		if d.Limit.Burst > 0 {
			most = d.Limit.Burst
		}
		assert.Equal(t, most-100, d.Remaining, "%v", limits)
		assert.True(t, l.Allow(ctx, "k"), "it works on, without leases")
		stats := l.Stats()
		assert.Equal(t, int64(100), stats.Store+stats.Leased-stats.Returned-1)
		assert.NoError(t, l.Close())
	}
}

// A lease is gone at the latest when the window or the part ends in which it was charged, by any clock.
func TestLease_EndsWithItsWindow(t *testing.T) {
	const part = time.Minute / 16
	for limit, end := range map[sash.Limit]time.Duration{
		sash.PerMinute(100_000).Counter(): time.Minute,
		sash.PerMinute(100_000):           part - 35*(part/64).Truncate(time.Microsecond), // the shift of "k" is 35
	} {
		s := newStore(t) // at the beginning of a minute
		l, local := s.limiter([]sash.Limit{limit}, sashredis.WithLease(100_000, time.Hour))
		ctx := context.Background()
		for range 100 {
			require.True(t, l.Allow(ctx, "k"))
		}
		require.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By)
		local.Advance(end - end/5000 - 100*time.Microsecond) // the store's clock may be ahead by end/5000
		require.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By, limit)
		local.Advance(200 * time.Microsecond)
		assert.Equal(t, sashredis.ByStore, l.Take(ctx, "k", 1).By, limit)
	}
}

// Reset ends the lease of this process: its units belong to what is forgotten.
func TestLease_EndsWithReset(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithLease(1000, time.Minute))
	ctx := context.Background()
	for range 100 {
		require.True(t, l.Allow(ctx, "k"))
	}
	require.NoError(t, l.Reset(ctx, "k"))
	d := l.Take(ctx, "k", 1)
	assert.Equal(t, sashredis.ByStore, d.By)
	assert.Equal(t, int64(999), d.Remaining)
}

// A Reset that panics with a function of the user forgets nothing: the lease goes on.
func TestLease_OutlastsAResetThatPanics(t *testing.T) {
	s := newStore(t)
	fault := ""
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1000)}, sashredis.WithLease(1000, time.Minute),
		sashredis.WithLimitsFor(func(string) []sash.Limit {
			if fault != "" {
				panic(fault)
			}
			return nil
		}))
	ctx := context.Background()
	for range 100 {
		require.True(t, l.Allow(ctx, "k"))
	}
	fault = "of the user"
	require.PanicsWithValue(t, fault, func() { _ = l.Reset(ctx, "k") })
	fault = ""
	assert.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By)
}

// Leases of one key end together in the store. A process uses no lease for longer than its own
// WithLease says, though others lease for longer.
func TestLease_IsForNoLongerThanItMay(t *testing.T) {
	for _, limit := range []sash.Limit{sash.Per(1000, 24*time.Hour).Counter(), sash.Per(1000, 24*time.Hour).TokenBucket(1000)} {
		s := newStore(t)
		ctx := context.Background()
		long, _ := s.limiter([]sash.Limit{limit}, sashredis.WithLease(100, time.Hour))
		for range 50 {
			require.True(t, long.Allow(ctx, "k"))
		}
		require.Positive(t, long.Stats().Leased)
		short, local := s.limiter([]sash.Limit{limit}, sashredis.WithLease(100, time.Minute), sashredis.WithMirror(0))
		for short.Stats().Lease == 0 {
			require.True(t, short.Allow(ctx, "k"))
		}
		leased := short.Stats().Lease
		require.Greater(t, short.Stats().Leased, leased, "%v", limit)
		local.Advance(time.Minute)
		s.advance(time.Minute)
		require.True(t, short.Allow(ctx, "k"))
		assert.Equal(t, leased, short.Stats().Lease, "%v", limit)
	}
}

// Whatever several processes with leases admit, the exact rule admits, fed with what they have
// used alone: however the round trips go, however the clocks run apart within 200 parts per
// million, and whatever is given back.
func TestLease_AdmitsNothingThatTheRuleWouldNot(t *testing.T) {
	ctx := context.Background()
	for _, limits := range [][]sash.Limit{
		{sash.Per(400, 50*time.Millisecond).Counter()},
		{sash.Per(400, 50*time.Millisecond).Buckets(10 * time.Millisecond)},
		{sash.Per(400, 102400*time.Microsecond).Parts()}, // of whole microseconds, as is a step
		{sash.Per(400, 50*time.Millisecond).TokenBucket(200)},
		{sash.Per(100, 10*time.Millisecond).Counter(), sash.Per(5000, time.Second).Counter(), sash.Per(900, 100*time.Millisecond).TokenBucket(300)},
	} {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 3))
			s := newStore(t)
			rates := []float64{1 + 190e-6, 1 - 190e-6, 1}
			sides, locals := make([]*sashredis.Limiter, len(rates)), make([]*sash.ManualClock, len(rates))
			for i := range sides {
				sides[i], locals[i] = s.limiter(limits, sashredis.WithLease(int64(10+rng.IntN(100)), time.Duration(1+rng.IntN(20))*time.Millisecond))
			}
			clock := sash.NewManualClock(s.now.UnixNano())
			rule := sash.Must(sash.New(sash.WithLimits(limits...), sash.WithClock(clock)))
			defer rule.Close()
			pass := func(d time.Duration) {
				s.advance(d)
				clock.Advance(d)
				for i := range locals {
					locals[i].Advance(time.Duration(float64(d) * rates[i]))
				}
			}
			used, leased, calls := 0, 0, trials(t, 8000)
			for range calls {
				switch rng.IntN(40) {
				case 0:
					pass(time.Duration(rng.IntN(60)) * time.Millisecond)
				case 1, 2, 3, 4, 5:
					pass(time.Duration(rng.IntN(2000)) * time.Microsecond)
				}
				n := 1 + rng.Int64N(3)
				// The instant of a decision is when the script ran, or the call was made.
				d := sides[rng.IntN(len(sides))].Take(ctx, "k", n)
				require.NoError(t, d.Err)
				if d.Allowed {
					used++
					require.True(t, rule.Take("k", n).Allowed, "by the %v: %+v", d.By, d)
				}
				if d.By == sashredis.ByLease {
					leased++
				}
			}
			assert.Greater(t, used, calls/10)
			assert.Greater(t, leased, used/10)
		})
	}
}

// Only calls that are charged lease units, and only units that were admitted count as demand.
func TestLease_IsForUnitsThatAreAdmitted(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(1000)}, sashredis.WithLease(1000, time.Minute), sashredis.WithMirror(0))
	ctx := context.Background()
	require.True(t, l.Allow(ctx, "k"))
	for range 5 {
		require.True(t, l.Peek(ctx, "k", 1).Allowed)
		require.True(t, l.Take(ctx, "k", 0).Allowed)
		require.False(t, l.Take(ctx, "k", 1_000_000).Allowed)
		require.False(t, l.Take(ctx, "k", 1000).Allowed)
	}
	assert.Zero(t, l.Stats().Leased)
}

// What is left of a lease and is too little for a call does not keep the key from the next lease.
func TestLease_IsReplacedIfTooLittleIsLeft(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerHour(1_000_000)}, sashredis.WithLease(1000, 10*time.Second))
	ctx := context.Background()
	const calls = 5000
	for range calls {
		require.True(t, l.Take(ctx, "k", 3).Allowed)
		local.Advance(time.Microsecond)
		s.advance(time.Microsecond)
	}
	stats := l.Stats()
	assert.Less(t, stats.Store, int64(100))
	// A call for more than a lease ever holds leaves it alone.
	require.True(t, l.Take(ctx, "k", 3).Allowed)
	before := l.Stats()
	require.True(t, l.Take(ctx, "k", 5000).Allowed)
	require.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 3).By)
	assert.Equal(t, before.Store+1, l.Stats().Store)
}

// A key whose limits change while calls run gets no unit of other limits.
func TestLease_OfChangingLimits(t *testing.T) {
	s := newStore(t)
	plans := [][]sash.Limit{{sash.PerHour(100_000)}, {sash.PerHour(100_000), sash.PerDay(1_000_000), sash.PerMinute(50_000)}}
	var turn atomic.Int64
	l, _ := s.limiter(nil, sashredis.WithLease(100, time.Minute),
		sashredis.WithLimitsFor(func(string) []sash.Limit { return plans[turn.Add(1)/7%2] }))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if d := l.Take(context.Background(), "k", 1); !assert.True(t, d.Allowed) || !assert.NoError(t, d.Err) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// Reservations that are given back while units of a token bucket are leased do not let more units
// through than the bucket would.
func TestLease_WithReservationsOfABucket(t *testing.T) {
	s := newStore(t)
	limits := []sash.Limit{sash.PerSecond(1).TokenBucket(40)}
	l, local := s.limiter(limits, sashredis.WithLease(5, 10*time.Second), sashredis.WithMirror(0))
	other, _ := s.limiter(limits, sashredis.WithMirror(0))
	clock := sash.NewManualClock(s.now.UnixNano())
	rule := sash.Must(sash.New(sash.WithLimits(limits...), sash.WithClock(clock)))
	defer rule.Close()
	ctx := context.Background()
	take := func(l *sashredis.Limiter, n int64) {
		if d := l.Take(ctx, "k", n); d.Allowed {
			require.True(t, rule.Take("k", n).Allowed, "%d units by the %v", n, d.By)
		}
	}
	r, d := other.Reserve(ctx, "k", 10)
	require.True(t, d.Allowed)
	here, _ := rule.Reserve("k", 10)
	take(l, 1)
	take(l, 1)
	require.Positive(t, l.Stats().Leased)
	s.advance(7 * time.Second)
	local.Advance(7 * time.Second)
	clock.Advance(7 * time.Second)
	take(other, 4)
	require.NoError(t, r.Cancel(ctx))
	here.Cancel()
	for range 60 {
		take(other, 1)
	}
	for range 5 {
		take(l, 1)
	}
}

// Close ends all leases before it gives anything back, so none is used while the store is away.
func TestLease_CloseEndsAll(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(100_000)}, sashredis.WithLease(100, time.Minute), sashredis.WithBreaker(2, time.Second))
	ctx := context.Background()
	for i := range 10 {
		for range 20 {
			require.True(t, l.Allow(ctx, fmt.Sprint(i)))
		}
	}
	s.set(func() { s.err = errAway })
	assert.ErrorIs(t, l.Close(), errAway)
	for i := range 10 {
		assert.NotEqual(t, sashredis.ByLease, l.Take(ctx, fmt.Sprint(i), 1).By)
	}
	assert.NoError(t, l.Close())
}

// A lease that is granted while calls wait for the next round trip outlives that round trip.
func TestLease_IsKeptByCallsThatHaveWaited(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(100_000)}, sashredis.WithLease(100, time.Minute))
	ctx := context.Background()
	require.True(t, l.Allow(ctx, "k")) // the next call leases
	arrived, release := s.holdUp()
	var taken sync.WaitGroup
	for range 2 {
		taken.Go(func() { assert.True(t, l.Allow(ctx, "k")) })
	}
	<-arrived
	eventually(t, "the other call waits", func() bool { return waiting(l) == 1 })
	release()
	taken.Wait()
	leased := l.Stats().Leased
	require.Positive(t, leased)
	assert.Equal(t, sashredis.ByLease, l.Take(ctx, "k", leased).By, "all of it is left")
	assert.Zero(t, l.Stats().Returned)
}

// Close waits for what is being given back: whoever calls it closes the client next.
func TestLease_CloseWaitsForWhatIsGivenBack(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(100_000)}, sashredis.WithLease(100, time.Minute))
	ctx := context.Background()
	for l.Stats().Leased == 0 {
		require.True(t, l.Take(ctx, "k", 2).Allowed)
	}
	require.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By)
	before := l.Stats()
	arrived, release := s.holdUp()
	var taken, closed sync.WaitGroup
	taken.Go(func() { l.Take(ctx, "k", before.Leased) }) // more than is left: it replaces the lease
	<-arrived
	<-arrived // one of them gives back
	var returned int64
	closed.Go(func() {
		assert.NoError(t, l.Close())
		returned = l.Stats().Returned
	})
	eventually(t, "Close ends the leases", func() bool { return inside(l).Closed })
	release()
	closed.Wait()
	taken.Wait()
	assert.Positive(t, returned)
}

// Close waits for a lease that is being granted, and has its units given back. The call is not held
// up by that.
func TestLease_GrantedWhileClosing(t *testing.T) {
	s := newStore(t)
	limits := []sash.Limit{sash.PerHour(100_000)}
	l, _ := s.limiter(limits, sashredis.WithLease(100, time.Minute))
	ctx := context.Background()
	require.True(t, l.Allow(ctx, "k")) // the next call leases
	arrived, release := s.holdUp()
	var taken, closed sync.WaitGroup
	taken.Go(func() { assert.True(t, l.Allow(ctx, "k")) })
	<-arrived
	closed.Go(func() { assert.NoError(t, l.Close()) })
	eventually(t, "Close ends the leases", func() bool { return inside(l).Closed })
	releaseSettle := make(chan struct{})
	s.set(func() { s.hold = releaseSettle }) // for the next round trip, which gives back
	release()
	taken.Wait()
	close(releaseSettle)
	closed.Wait()
	stats := l.Stats()
	assert.Positive(t, stats.Leased)
	assert.Equal(t, stats.Leased, stats.Returned)
	other, _ := s.limiter(limits)
	assert.Equal(t, int64(100_000-2), other.Peek(ctx, "k", 0).Remaining)
}

// A call that needs more than is left takes nothing, not for a moment: a lease that ends meanwhile
// gives back all of it.
func TestLease_AFailedUseTakesNothing(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	for range 300 {
		l, _ := s.limiter([]sash.Limit{sash.PerHour(100_000_000)}, sashredis.WithLease(10, time.Hour), sashredis.WithMirror(0))
		for l.Stats().Leased == 0 {
			require.True(t, l.Take(ctx, "k", 4).Allowed)
		}
		granted := l.Stats().Leased
		require.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By)
		var taken sync.WaitGroup
		began := make(chan struct{})
		taken.Go(func() {
			close(began)
			internals.FailUse(l, "k", granted)
		})
		<-began // else Close is often over first
		require.NoError(t, l.Close())
		taken.Wait()
		require.Equal(t, granted-1, l.Stats().Returned)
	}
}

// Many leases are given back together.
func TestLease_CloseGivesBackManyTogether(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(100_000)}, sashredis.WithLease(100, time.Minute))
	const keys = 20
	for key := range keys {
		for range 2 {
			require.True(t, l.Allow(context.Background(), fmt.Sprint(key)))
		}
	}
	require.Positive(t, l.Stats().Leased)
	arrived, release := s.holdUp()
	var closed sync.WaitGroup
	closed.Go(func() { assert.NoError(t, l.Close()) })
	for range keys {
		<-arrived // none has an answer yet
	}
	release()
	closed.Wait()
	assert.Equal(t, l.Stats().Leased, l.Stats().Returned)
}
