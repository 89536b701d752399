package sash

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

// However a reservation is settled, it gives back all that it held.
func TestAtOnce_AnySettlingReleases(t *testing.T) {
	for name, settle := range map[string]func(r Reservation){
		"released":     Reservation.Release,
		"cancelled":    Reservation.Cancel,
		"used less":    func(r Reservation) { r.Commit(1) },
		"used all":     func(r Reservation) { r.Commit(3) },
		"used more":    func(r Reservation) { r.Commit(100) },
		"settled late": func(r Reservation) { r.Commit(-1); r.Commit(50); r.Release() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newTest(t, AtOnce(5, time.Minute), WithClock(NewManualClock(0)))
			r, d := l.Reserve("k", 3)
			require.Equal(t, Decision{Allowed: true, Limit: AtOnce(5, time.Minute), Remaining: 2, ResetAfter: time.Minute}, d)
			_, d = l.Reserve("k", 3)
			require.False(t, d.Allowed)
			require.Equal(t, time.Minute, d.RetryAfter, "at the latest")
			settle(r)
			require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
			require.Equal(t, 1, l.Sweep(), "a key that holds nothing is idle")
		})
	}
}

// The other limits of a key are charged what was used.
func TestAtOnce_OtherLimitsKeepWhatWasUsed(t *testing.T) {
	for actual, left := range map[int64]int64{0: 10, 2: 8, 3: 7, 6: 4} {
		l := newTest(t, PerMinute(10).Log(), AtOnce(3, time.Hour), WithClock(NewManualClock(0)))
		r, _ := l.Reserve("k", 3)
		require.False(t, l.Allow("k"), "all units are held")
		r.Commit(actual)
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining, "none is held")
		require.NoError(t, l.Reconfigure(PerMinute(10).Log()))
		require.Equal(t, left, l.Peek("k", 0).Remaining, "%d were used", actual)
	}
}

// What was used past a reservation holds nothing, and makes no entry for a key that was evicted.
func TestAtOnce_SpendsNothing(t *testing.T) {
	l := newTest(t, AtOnce(3, time.Minute), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("k", 1)
	require.True(t, l.Reset("k"))
	r.Commit(1000)
	require.Zero(t, l.Len())
	require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
}

// A holder that has died gives its units back by the lease, and no earlier.
func TestAtOnce_ALeaseEnds(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, AtOnce(2, time.Minute), WithClock(clock))
	l.Reserve("k", 1)
	clock.Advance(10 * time.Second)
	require.True(t, l.Allow("k"), "without a handle")
	d := l.Take("k", 1)
	require.Equal(t, 50*time.Second, d.RetryAfter)
	clock.Advance(d.RetryAfter - 1)
	require.False(t, l.Allow("k"))
	clock.Advance(1)
	require.True(t, l.Allow("k"))
	require.False(t, l.Allow("k"), "the other is held for 10 s more")
}

// A holder that comes back after its lease gives back nothing that another holds.
func TestAtOnce_AReleaseAfterTheLeaseIsNone(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, AtOnce(1, time.Minute), WithClock(clock))
	late, _ := l.Reserve("k", 1)
	clock.Advance(time.Minute)
	second, d := l.Reserve("k", 1)
	require.True(t, d.Allowed)
	late.Release()
	require.False(t, l.Allow("k"), "the second holds it")
	second.Release()
	require.True(t, l.Allow("k"))
}

// Units that were reserved at one instant are given back one reservation at a time.
func TestAtOnce_ReservationsOfOneInstant(t *testing.T) {
	l := newTest(t, AtOnce(6, time.Minute), WithClock(NewManualClock(0)))
	var all []Reservation
	for n := range int64(3) {
		r, _ := l.Reserve("k", n+1)
		all = append(all, r)
	}
	for i, left := range []int64{1, 3, 6} {
		all[i].Release()
		all[i].Release() // which has no effect
		require.Equal(t, left, l.Peek("k", 0).Remaining)
	}
}

// A denied attempt holds nothing, though it is charged to the other limits.
func TestAtOnce_ADeniedAttemptHoldsNothing(t *testing.T) {
	for _, limits := range [][]Limit{{AtOnce(2, time.Minute), PerMinute(100).Log()}, {PerMinute(100).Log(), AtOnce(2, time.Minute)}} {
		l := newTest(t, WithLimits(limits...), WithChargeDenied(), WithClock(NewManualClock(0)))
		r, _ := l.Reserve("k", 2)
		for range 3 {
			require.False(t, l.Allow("k"))
			require.False(t, l.Take("k", 7).Allowed)
			require.False(t, l.TakeAll([]string{"k", "other"}, 2).Allowed)
		}
		r.Release()
		require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
		require.NoError(t, l.Reconfigure(limits[0], limits[1], PerHour(1000).Log()))
		require.NoError(t, l.Reconfigure(PerMinute(100).Log()))
		require.EqualValues(t, 100-2-3*(1+7+2), l.Peek("k", 0).Remaining)
	}
}

// A key whose other limit admits nothing is charged for no denied attempt, since the units would be held.
func TestAtOnce_NextToALimitOfNothing(t *testing.T) {
	l := newTest(t, Per(0, time.Second), AtOnce(2, time.Minute), WithChargeDenied(), WithClock(NewManualClock(0)))
	require.Equal(t, Never, l.Take("k", 1).RetryAfter)
	require.Zero(t, l.Len())
}

func TestAtOnce_NeverAdmitsMoreThanCount(t *testing.T) {
	l := newTest(t, AtOnce(2, time.Minute), WithClock(NewManualClock(0)))
	require.Equal(t, Never, l.Take("k", 3).RetryAfter)
	require.ErrorIs(t, l.Wait(t.Context(), "k", 3), ErrExceedsLimit)
	none := newTest(t, AtOnce(0, time.Minute))
	require.Equal(t, Never, none.Take("k", 1).RetryAfter)
	require.Zero(t, none.Len())
}

// A deadline before the end of the leases refuses no call that waits: the next release admits it.
func TestAtOnce_WaitIsWokenByARelease(t *testing.T) {
	waits := map[string]func(ctx context.Context, l *Limiter) error{
		"Wait":        func(ctx context.Context, l *Limiter) error { return l.Wait(ctx, "k", 1) },
		"WaitAll":     func(ctx context.Context, l *Limiter) error { return l.WaitAll(ctx, []string{"k", "other"}, 1) },
		"WaitLeaving": func(ctx context.Context, l *Limiter) error { return l.WaitLeaving(ctx, "k", 1, 1) },
		"WaitReserve": func(ctx context.Context, l *Limiter) error { _, err := l.WaitReserve(ctx, "k", 1); return err },
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newTest(t, AtOnce(2, time.Hour), PerSecond(100).Log())
				r, _ := l.Reserve("k", 2)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				begun, done := time.Now(), make(chan error)
				go func() { done <- wait(ctx, l) }()
				<-time.After(50 * time.Millisecond)
				synctest.Wait()
				r.Release()
				require.NoError(t, <-done)
				require.Equal(t, 50*time.Millisecond, time.Since(begun))
			})
		})
	}
}

// A deadline still refuses a call that the other limits are sure to deny for longer, also by the calls
// ahead of it.
func TestAtOnce_ADeadlineStillCountsForOtherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		none := newTest(t, AtOnce(2, time.Hour), PerMinute(2).Log(), WithMaxWaiters(0))
		none.Reserve("k", 2)
		require.ErrorIs(t, none.Wait(ctx, "k", 1), context.DeadlineExceeded, "and need not wait to know that")

		l := newTest(t, AtOnce(2, time.Hour), PerMinute(2).Log())
		r, _ := l.Reserve("k", 2)
		r.Release()
		ahead, giveUp := context.WithCancel(t.Context())
		go func() { _ = l.Wait(ahead, "k", 2) }()
		synctest.Wait()
		behind, end := context.WithTimeout(t.Context(), 90*time.Second)
		defer end()
		begun := time.Now()
		require.ErrorIs(t, l.Wait(behind, "k", 1), context.DeadlineExceeded)
		require.Zero(t, time.Since(begun), "at once: two units come first, and then a minute")
		giveUp()
	})
}

// Units that calls ahead wait for may be given back at once, too. So they refuse no call.
func TestAtOnce_NoCallAheadRefusesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, AtOnce(2, time.Hour))
		r, _ := l.Reserve("k", 2)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				r, err := l.WaitReserve(ctx, "k", 2)
				require.NoError(t, err)
				r.Release()
			})
			synctest.Wait()
		}
		r.Release()
		all.Wait()
	})
}

// Calls that wait for a held key and another one get their turn, though others take the other key at any
// time: they claim it while they wait.
func TestAtOnce_WaitAllIsNotStarvedAtItsOtherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, WithLimitsFor(func(key string) []Limit {
			if key == "held" {
				return []Limit{AtOnce(1, time.Hour)}
			}
			return nil
		}), PerSecond(1).Log())
		r, _ := l.Reserve("held", 1)
		done := make(chan error)
		go func() { done <- l.WaitAll(t.Context(), []string{"held", "k"}, 1) }()
		synctest.Wait()
		go func() {
			for t.Context().Err() == nil {
				_ = l.Wait(t.Context(), "k", 1)
			}
		}()
		<-time.After(10500 * time.Millisecond)
		begun := time.Now()
		r.Release()
		require.NoError(t, <-done)
		require.Zero(t, time.Since(begun), "the unit of the other key was kept")
	})
}

// One release wakes one of ten thousand calls that wait, the first.
func TestAtOnce_AReleaseWakesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiters := thorough(10_000)
		l := newTest(t, AtOnce(1, 100*time.Hour))
		r, _ := l.Reserve("k", 1)
		ctx, giveUp := context.WithCancel(t.Context())
		admitted := make(chan Reservation)
		var order []int
		for i := range waiters {
			go func() {
				if r, err := l.WaitReserve(ctx, "k", 1); err == nil {
					order = append(order, i)
					admitted <- r
				}
			}()
			if i < 3 {
				synctest.Wait() // until this one is in the queue
			}
		}
		synctest.Wait()
		for i := range 3 {
			r.Release()
			r = <-admitted
			synctest.Wait()
			require.Len(t, order, i+1)
		}
		require.Equal(t, []int{0, 1, 2}, order)
		require.Equal(t, waiters-3, l.Stats().Waiters)
		giveUp()
		synctest.Wait()
	})
}

func TestReconfigure_OfUnitsThatAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		to          []Limit
		left, freed int64 // before and after the release
	}{
		"more":             {[]Limit{AtOnce(7, time.Minute)}, 4, 7},
		"fewer":            {[]Limit{AtOnce(2, time.Minute)}, 0, 2},
		"a longer lease":   {[]Limit{AtOnce(5, time.Hour)}, 2, 5},
		"a shorter lease":  {[]Limit{AtOnce(5, 31*time.Second)}, 2, 5},
		"an ended lease":   {[]Limit{AtOnce(5, 30*time.Second)}, 5, 5},
		"next to another":  {[]Limit{PerHour(20).Log(), AtOnce(5, time.Minute)}, 2, 5},
		"behind another":   {[]Limit{AtOnce(3, time.Hour), AtOnce(5, time.Minute)}, 0, 3},
		"into a log":       {[]Limit{PerMinute(5).Log()}, 5, 5},
		"into a bucket":    {[]Limit{PerMinute(5).TokenBucket(5)}, 5, 5},
		"into a counter":   {[]Limit{PerMinute(5).Counter()}, 5, 5},
		"into three parts": {[]Limit{PerMinute(5).Parts()}, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			l := newTest(t, AtOnce(5, time.Minute), WithClock(clock))
			r, _ := l.Reserve("k", 3)
			clock.Advance(30 * time.Second)
			require.NoError(t, l.Reconfigure(c.to...))
			require.Equal(t, c.left, l.Peek("k", 0).Remaining)
			r.Release()
			require.Equal(t, c.freed, l.Peek("k", 0).Remaining)
		})
	}
}

// A lease that has ended does not go on if it becomes longer, not even for a call whose reading is late.
func TestReconfigure_ToALongerLease(t *testing.T) {
	for _, second := range []time.Duration{0, 30 * time.Second} { // at which another unit is held, if any
		clock := NewManualClock(0)
		l := newTest(t, AtOnce(2, time.Minute), WithClock(clock))
		l.Reserve("k", 2)
		r, _ := l.Reserve("other", 1)
		if second > 0 {
			r.Release()
			clock.Advance(second)
			require.NoError(t, l.Reconfigure(AtOnce(3, time.Minute)))
			l.Reserve("k", 1)
		}
		clock.Set(int64(time.Minute))
		require.NoError(t, l.Reconfigure(AtOnce(3, time.Hour)))
		want := int64(3)
		if second > 0 {
			want = 2
		}
		require.Equal(t, want, l.Peek("k", 0).Remaining)
		clock.Set(int64(59 * time.Second))
		require.True(t, l.Allow("k"))
		clock.Set(int64(time.Minute + time.Hour - 1))
		require.Less(t, l.Peek("k", 0).Remaining, int64(3), "it was decided as of the end of the lease")
		clock.Set(int64(time.Minute + time.Hour))
		require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
	}
}

// Of two limits that take over from one, each gives back at the instant at which it recorded a late call.
func TestReconfigure_IntoTwoLeases(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, AtOnce(2, 10), WithClock(clock))
	l.Reserve("k", 1)
	clock.Set(20)
	require.NoError(t, l.Reconfigure(AtOnce(2, 10), AtOnce(2, 100)))
	clock.Set(15)
	r, _ := l.Reserve("k", 1)
	r.Release()
	require.EqualValues(t, 2, l.Peek("k", 0).Remaining)
}

// What was charged under other limits holds nothing.
func TestReconfigure_FromOtherLimitsHoldsNothing(t *testing.T) {
	for _, from := range []Limit{PerMinute(5).Log(), PerMinute(5).Counter(), PerMinute(5).Parts(), PerMinute(5).TokenBucket(5), PerMinute(5).Buckets(time.Second)} {
		l := newTest(t, from, WithClock(NewManualClock(0)))
		r, _ := l.Reserve("k", 2)
		l.Take("k", 1)
		l.Take("small", 1)
		require.NoError(t, l.Reconfigure(AtOnce(5, time.Minute), from))
		for key, left := range map[string]int64{"k": 2, "small": 4} {
			require.Equal(t, left, l.Peek(key, 0).Remaining, "by %v", from)
		}
		require.NoError(t, l.Reconfigure(AtOnce(5, time.Minute)))
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		r.Release()
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
	}
}

// A snapshot has what was charged to the other limits, and nothing that is held.
func TestSnapshot_OfUnitsThatAreHeld(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), AtOnce(5, time.Minute), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("k", 4)
	var b bytes.Buffer
	require.NoError(t, l.Snapshot(&b))
	require.NoError(t, l.Restore(&b))
	require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
	require.False(t, l.Peek("k", 6).Allowed)
	r.Release()
	require.NoError(t, l.Reconfigure(PerMinute(10).Log()))
	require.EqualValues(t, 6, l.Peek("k", 0).Remaining)
}

// Records of units that were given back take no room for long, though an old one is still held.
func TestAtOnce_TakesRoomForWhatIsHeld(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, AtOnce(4, time.Hour), WithClock(clock))
	l.Reserve("k", 1) // for long
	var held []Reservation
	for i := range 10_000 {
		clock.Advance(time.Millisecond)
		r, d := l.Reserve("k", 1)
		require.True(t, d.Allowed)
		if held = append(held, r); len(held) == 3 {
			held[i%2].Release()
			held = append(held[:i%2], held[i%2+1:]...)
		}
	}
	_, e := l.lookup(l.key("k"))
	require.LessOrEqual(t, e.asMulti().states[0].ring.Load().room(), 9)
}

// Reserving and giving back does not copy the ring again and again: neither if the oldest records are given
// back first, nor if nearly Count units are held.
func TestAtOnce_CopiesFewRings(t *testing.T) {
	for _, c := range []struct {
		limit       Limit
		held, queue int // charges that are held throughout, and before the oldest of the others is given back
	}{
		{AtOnce(5, time.Hour), 0, 3}, {AtOnce(1000, time.Hour), 998, 1}, {PerHour(1000).Log(), 998, 1},
	} {
		clock := NewManualClock(0)
		l := newTest(t, c.limit, WithClock(clock))
		for range c.held {
			clock.Advance(1)
			l.Reserve("k", 1)
		}
		var last *ring
		var queue []Reservation
		copies := 0
		for range 3000 {
			clock.Advance(1)
			r, d := l.Reserve("k", 1)
			require.True(t, d.Allowed)
			if queue = append(queue, r); len(queue) == c.queue {
				queue[0].Cancel()
				queue = queue[1:]
			}
			_, e := l.lookup(l.key("k"))
			if g := e.asMulti().states[0].ring.Load(); g != last {
				last = g
				copies++
			}
		}
		require.LessOrEqual(t, copies, 8, "under %v", c.limit)
	}
}

// Whatever ten thousand programs of holders do that release, die, are cancelled and come back late: at most
// Count units are held at any time, and all are back after the lease.
func TestAtOnce_ProgramsOfHoldersThatDie(t *testing.T) {
	for seed := range uint64(steps(10_000)) {
		synctest.Test(t, func(t *testing.T) { runHolders(t, rand.New(rand.NewPCG(seed, 1))) })
	}
}

// holders judge from outside how many units they hold.
type holders struct {
	mu          sync.Mutex
	count, held int64
	lease       time.Duration
	worst       int64
}

func (h *holders) hold(n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held += n
	h.worst = max(h.worst, h.held)
}

func runHolders(t *testing.T, rng *rand.Rand) {
	h := &holders{count: 1 + rng.Int64N(5), lease: time.Duration(1+rng.IntN(50)) * time.Millisecond}
	l := newTest(t, AtOnce(h.count, h.lease), WithSweepInterval(-1))
	ctx, giveUp := context.WithTimeout(t.Context(), time.Duration(rng.IntN(200))*time.Millisecond)
	defer giveUp()
	var all sync.WaitGroup
	for range 2 + rng.IntN(6) {
		own := rand.New(rand.NewPCG(rng.Uint64(), 2))
		all.Go(func() { h.work(ctx, l, own) })
	}
	all.Wait()
	require.LessOrEqual(t, h.worst, h.count)
	<-time.After(h.lease)
	require.Equal(t, h.count, l.Peek("k", 0).Remaining, "all are back after the lease")
	l.Sweep()
	require.Zero(t, l.Len())
}

// work holds units some times, and ends each time in another way.
func (h *holders) work(ctx context.Context, l *Limiter, rng *rand.Rand) {
	for range 1 + rng.IntN(6) {
		n := 1 + rng.Int64N(h.count)
		r, err := Reservation{}, error(nil)
		if rng.IntN(2) == 0 {
			r, err = l.WaitReserve(ctx, "k", n)
		} else {
			r, _ = l.Reserve("k", n)
		}
		if err != nil || r == (Reservation{}) {
			<-time.After(time.Duration(rng.IntN(10)) * time.Millisecond)
			continue
		}
		h.hold(n)
		<-time.After(time.Duration(rng.Int64N(int64(h.lease)))) // the work
		switch h.hold(-n); rng.IntN(4) {
		case 0:
			r.Release()
		case 1:
			r.Cancel()
		case 2:
			r.Commit(rng.Int64N(2 * n))
		case 3:
			<-time.After(h.lease) // it has died, or comes back late
			if rng.IntN(2) == 0 {
				r.Release()
			}
		}
	}
}

// Goroutines on all processors hold at most Count units together, and none is lost.
func TestAtOnce_HoldsAtMostCountUnderContention(t *testing.T) {
	const count = 3
	l := newTest(t, AtOnce(count, time.Hour), PerHour(1<<40).Counter())
	var held, worst, admissions atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range shortened(20_000) {
				n := int64(1 + (g+i)%count)
				r, d := l.Reserve("k", n)
				if !d.Allowed {
					runtime.Gosched()
					continue
				}
				admissions.Add(1)
				now := held.Add(n)
				for was := worst.Load(); now > was && !worst.CompareAndSwap(was, now); was = worst.Load() {
				}
				if i%16 == 0 {
					runtime.Gosched()
				}
				held.Add(-n)
				r.Commit(int64(i % 5))
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, worst.Load(), int64(count))
	require.Positive(t, admissions.Load())
	require.EqualValues(t, count, l.Peek("k", 0).Remaining)
}

// In many small programs, goroutines reserve and settle in all ways. At no instant
// do they hold more than Count units, and when all have settled, none is held: no unit is lost or given twice.
func TestAtOnce_LosesAndDoublesNothingInManyPrograms(t *testing.T) {
	clock := NewManualClock(0)
	single := newTest(t, AtOnce(2, time.Hour), WithClock(clock))
	several := newTest(t, AtOnce(2, time.Hour), PerHour(1<<40).Counter(), PerHour(1<<40).TokenBucket(1<<40), WithClock(clock))
	programs := crowded(shortened(500_000))
	if race.Enabled {
		programs /= 10
	}
	for program := range programs {
		l, held := single, new(atomic.Int64)
		if program%2 == 0 {
			l = several
		}
		var all sync.WaitGroup
		for g := range 3 {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(program), uint64(g)))
				for range 1 + r.IntN(3) {
					n := 1 + r.Int64N(2)
					reservation, d := l.Reserve("k", n)
					if !d.Allowed {
						continue
					}
					if now := held.Add(n); now > 2 {
						t.Errorf("program %d: %d are held", program, now)
					}
					held.Add(-n)
					switch r.IntN(4) {
					case 0:
						reservation.Release()
					case 1:
						reservation.Cancel()
					default:
						reservation.Commit(r.Int64N(4))
					}
					if r.IntN(4) == 0 {
						reservation.Release() // once more
					}
				}
			})
		}
		all.Wait()
		if left := l.Peek("k", 0).Remaining; left != 2 {
			t.Fatalf("program %d: %d are left", program, left)
		}
		if program%3 == 0 { // else the next one finds what the key keeps
			l.Reset("k")
		}
	}
}

// What a call holds whose observer panics is free again: no caller has the reservation. The charge stays, under a
// rate.
func TestAtOnce_AnObserverThatPanicsHoldsNothing(t *testing.T) {
	for name, call := range map[string]func(l *Limiter){
		"Reserve":        func(l *Limiter) { l.Reserve("k", 2) },
		"ReserveLeaving": func(l *Limiter) { l.ReserveLeaving("k", 2, 1) },
		"ReserveAll":     func(l *Limiter) { l.ReserveAll([]string{"k", "other"}, 2) },
		"WaitReserve":    func(l *Limiter) { _, _ = l.WaitReserve(t.Context(), "k", 2) },
		"of httplimit":   func(l *Limiter) { l.takeHolding("k", 2, 0, nil) },
		"of a Transport": func(l *Limiter) { _, _ = l.waitHolding(t.Context(), "k", 2) },
		"of policies":    func(l *Limiter) { l.takeAllHolding([]string{"k", "other"}, nil, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			panics := true
			l := Must(New(PerDay(10).Log(), AtOnce(3, time.Hour), WithClock(NewManualClock(0)), WithSweepInterval(-1), WithObserver(func(string, int64, Decision) {
				if panics {
					panic("of a test")
				}
			})))
			require.Panics(t, func() { call(l) })
			panics = false
			require.EqualValues(t, 3, l.Peek("k", 0).Remaining)
			require.NoError(t, l.SetLimits("k", PerDay(10).Log()))
			require.EqualValues(t, 8, l.Peek("k", 0).Remaining)
		})
	}
}

func TestRelease_OfNothing(t *testing.T) {
	require.NotPanics(t, func() { Reservation{}.Release() })
}
