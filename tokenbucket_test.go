package sash

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Three a second is exactly three a second: a client that always waits RetryAfter is never
// more than a nanosecond behind, however long it goes on.
func TestTokenBucket_DoesNotDrift(t *testing.T) {
	clock := NewManualClock(12345)
	l := newTest(t, PerSecond(3).TokenBucket(2), WithClock(clock))
	require.True(t, l.Allow("k"))
	for i := range int64(30_000) {
		want := 12345 + (i*int64(time.Second)+2)/3 // rounded up
		if d := l.Take("k", 1); !d.Allowed {
			clock.Advance(d.RetryAfter - 1)
			require.False(t, l.Allow("k"))
			clock.Advance(1)
			require.True(t, l.Allow("k"))
		}
		require.Equal(t, want, clock.Now(), "unit %d", i)
	}
}

// In any interval of length T, at most Burst + Count*T/Window units are admitted.
func TestTokenBucket_AdmitsNoMoreThanItsBound(t *testing.T) {
	type admission struct{ at, units int64 }
	for seed := range uint64(steps(60)) {
		rng := rand.New(rand.NewPCG(seed, 14))
		limit := Per(1+rng.Int64N(20), time.Duration(1+rng.Int64N(1000))).TokenBucket(1 + rng.Int64N(30))
		clock := NewManualClock(rng.Int64N(1000))
		l := newTest(t, limit, WithClock(clock))
		var admitted []admission
		total := new(big.Rat)
		for range 300 {
			switch rng.IntN(4) {
			case 0:
				clock.Advance(time.Duration(rng.Int64N(int64(limit.Window) * 2)))
			case 1:
				clock.Advance(l.Peek("k", 1).RetryAfter)
			}
			if n := 1 + rng.Int64N(limit.Burst); l.AllowN("k", n) {
				admitted = append(admitted, admission{clock.Now(), n})
			}
			total.Add(total, big.NewRat(1, 1))
		}
		for i := range admitted {
			units := int64(0)
			for _, a := range admitted[i:] {
				units += a.units
				// units <= Burst + Count*T/Window
				require.LessOrEqual(t, (units-limit.Burst)*int64(limit.Window), limit.Count*(a.at-admitted[i].at), "%v, seed %d", limit, seed)
			}
		}
		require.NotEmpty(t, admitted)
	}
}

// A reading that is later than the span of a word, or earlier, is answered as exactly as any
// other: the key gets an entry that holds it.
func TestTokenBucket_OutsideTheSpanOfItsWord(t *testing.T) {
	limit := Per(3, time.Second).TokenBucket(7)
	origin := int64(1_000_000)
	layout, fits := debtLayoutOf(window.TokenBucket{Count: 3, Window: int64(time.Second), Burst: 7}, origin)
	require.True(t, fits)
	require.Greater(t, layout.span, 20*minSpan)
	for name, take := range map[string]func(l *Limiter, n int64) Decision{
		"Take":    func(l *Limiter, n int64) Decision { return l.Take("k", n) },
		"TakeAll": func(l *Limiter, n int64) Decision { return l.TakeAll([]string{"k", "k"}, n) },
		"locked": func(l *Limiter, n int64) (d Decision) {
			l.takeAllLocked(l.targets(nil, []string{"k"}), nil, &request{query: query{n: n, charge: true}}, &d)
			return d
		},
		"Reserve": func(l *Limiter, n int64) Decision { _, d := l.Reserve("k", n); return d },
	} {
		for _, at := range []int64{math.MinInt64, math.MinInt64 + 1, -1, layout.base - 1, layout.base, layout.base + 1, origin,
			layout.base + layout.span, layout.base + layout.span + 1, math.MaxInt64 - int64(time.Minute)} {
			for _, before := range []bool{false, true} { // whether the key has an entry in one word
				clock := NewManualClock(origin)
				l := newTest(t, limit, WithClock(clock))
				model := reference.New(modelOf(limit, false))
				if before {
					model.Take(origin, 2)
					require.True(t, l.AllowN("k", 2))
					require.False(t, l.find(l.current.Load(), l.key("k")).isMulti())
				}
				clock.Set(at)
				want := model.Peek(at, 2)
				require.Equal(t, want.Remaining, l.Peek("k", 2).Remaining)
				charged := false
				for range 5 {
					d, want := take(l, 2), model.Take(at, 2)
					require.Equal(t, want.Allowed, d.Allowed, "%s at %d", name, at)
					require.Equal(t, want.Remaining, d.Remaining)
					require.EqualValues(t, want.RetryAfter, d.RetryAfter)
					require.EqualValues(t, want.ResetAfter, d.ResetAfter)
					charged = charged || d.Allowed
				}
				outside := at <= layout.base || at > layout.base+layout.span
				if isMulti := l.find(l.current.Load(), l.key("k")).isMulti(); charged || !outside {
					require.Equal(t, outside || name == "Reserve" && charged, isMulti, "%s at %d", name, at)
				}
				require.Equal(t, 1, l.Len())
			}
		}
	}
}

// The numbers may be as large as a year and 1e15 units, and larger.
func TestTokenBucket_OfHugeNumbers(t *testing.T) {
	const year = 365 * day
	clock := NewManualClock(-5)
	l := newTest(t, Per(1, year).TokenBucket(1e15), WithClock(clock))
	d := l.Take("k", 1e15)
	require.True(t, d.Allowed)
	require.Equal(t, Never, d.ResetAfter, "in a million times a billion years")
	d = l.Take("k", 1)
	require.Equal(t, year, d.RetryAfter)
	clock.Advance(year - 1)
	require.False(t, l.Allow("k"))
	clock.Advance(1)
	require.True(t, l.Allow("k"))

	l = newTest(t, Per(1e15, year).TokenBucket(1e15), WithClock(clock))
	require.True(t, l.AllowN("k", 1e15))
	d = l.Take("k", 31_709_792) // a nanosecond is worth 0.0317 units
	require.EqualValues(t, 1_000_000_001, d.RetryAfter)
	clock.Advance(d.RetryAfter - 1)
	require.False(t, l.AllowN("k", 31_709_792))
	clock.Advance(1)
	require.True(t, l.AllowN("k", 31_709_792))
}

// What a Cancel gives back is what the key would have without the charge, and no more.
func TestTokenBucket_GivesBackWhatWouldHaveBeenLeft(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(1).TokenBucket(10), WithClock(clock))
	sec := func(s float64) { clock.Set(int64(s * float64(time.Second))) }

	r, _ := l.Reserve("at once", 10)
	r.Cancel()
	require.EqualValues(t, 10, l.Peek("at once", 0).Remaining)

	r, _ = l.Reserve("in part", 10)
	sec(0.5)
	r.Commit(4)
	require.Equal(t, 3500*time.Millisecond, l.Peek("in part", 0).ResetAfter)

	sec(0)
	r, _ = l.Reserve("later", 10)
	sec(9.5)
	require.True(t, l.Allow("later"), "it lacks half a unit")
	r.Cancel()
	require.Equal(t, time.Second, l.Peek("later", 0).ResetAfter, "as of the last unit alone")

	sec(0)
	r, _ = l.Reserve("full since", 10)
	sec(10)
	require.True(t, l.AllowN("full since", 4))
	r.Cancel()
	require.EqualValues(t, 6, l.Peek("full since", 0).Remaining)

	// A late reading finds it full no earlier than it was.
	sec(0)
	require.True(t, l.AllowN("late", 10))
	sec(10)
	r, _ = l.Reserve("late", 10)
	sec(5)
	r.Cancel()
	require.EqualValues(t, 5, l.Peek("late", 0).Remaining)

	// Two refunds of one bucket, the later charge first.
	sec(20)
	a, _ := l.Reserve("both", 4)
	b, _ := l.Reserve("both", 5)
	require.True(t, l.Allow("both"))
	b.Cancel()
	a.Commit(1)
	require.EqualValues(t, 8, l.Peek("both", 0).Remaining)
}

// Hundreds of reservations are open at once, and are settled in any order: after each, the key has
// what the reference says, and the bucket remembers no more charges than reservations are open.
func TestTokenBucket_GivesBackToAnyNumberOfOpenReservations(t *testing.T) {
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limit := PerSecond(100).TokenBucket(100_000)
		clock := NewManualClock(0)
		l := newTest(t, limit, WithClock(clock))
		model := reference.NewTable([]reference.Limit{modelOf(limit, false)})
		type open struct {
			reservation Reservation
			model       reference.Reservation
			n           int64
		}
		var all []open
		remembered := func() (lows, open int) {
			g := l.find(l.current.Load(), l.key("k")).asMulti().states[0].lineage.Load()
			open = g.open
			for _, low := range g.lows {
				require.Positive(t, low.open)
				open += low.open
			}
			return len(g.lows), open
		}
		for len(all) < steps(240) {
			n := 1 + rng.Int64N(200)
			r, d := l.Reserve("k", n)
			m, want := model.Reserve(clock.Now(), n, "k")
			require.Equal(t, want.Remaining, d.Remaining)
			if d.Allowed {
				all = append(all, open{r, m, n})
			}
			clock.Advance(time.Duration(rng.Int64N(int64(time.Second))))
		}
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i, o := range all {
			actual := rng.Int64N(o.n + 1 + o.n/10)
			o.reservation.Commit(actual)
			model.Settle(clock.Now(), o.model, actual)
			if i%8 == 0 {
				got, want := l.Peek("k", 0), model.Peek(clock.Now(), 0, "k")
				require.Equal(t, want.Remaining, got.Remaining, "seed %d, %d settled", seed, i+1)
				require.EqualValues(t, want.ResetAfter, got.ResetAfter)
			}
			lows, open := remembered()
			require.Equal(t, len(all)-1-i, open)
			require.LessOrEqual(t, lows, open)
		}
	}
}

// Once a reservation was made, charges without one allocate nothing.
func TestTokenBucket_RemembersChargesWithoutAllocating(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(1).TokenBucket(1_000_000), WithClock(clock))
	for range 100 {
		l.Reserve("k", 1)
		g := l.find(l.current.Load(), l.key("k")).asMulti().states[0].lineage.Load()
		require.Greater(t, cap(g.lows), len(g.lows), "there is room for the low of the next charge")
		l.Allow("k")
	}
}

// What a bucket keeps of reservations is given back once they are settled, in any order.
func TestTokenBucket_ForgetsSettledReservations(t *testing.T) {
	for _, backwards := range []bool{false, true} {
		l := newTest(t, PerSecond(1).TokenBucket(1_000_000), WithClock(NewManualClock(0)))
		var all []Reservation
		for range 2000 {
			r, _ := l.Reserve("k", 1)
			all = append(all, r)
		}
		if backwards {
			slices.Reverse(all)
		}
		for _, r := range all {
			r.Commit(1)
		}
		g := l.find(l.current.Load(), l.key("k")).asMulti().states[0].lineage.Load()
		require.Empty(t, g.lows)
		require.Zero(t, g.open)
		require.LessOrEqual(t, cap(g.lows), 64)
	}
}

// Where denied attempts are charged, nothing is given back of what was charged before one.
func TestTokenBucket_GivesBackNothingFromBeforeADeniedAttempt(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(1).TokenBucket(10), WithClock(clock), WithChargeDenied())
	r, _ := l.Reserve("k", 6)
	require.False(t, l.AllowN("k", 5))
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "the attempt has emptied it")
	r.Cancel()
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
	clock.Advance(5 * time.Second)
	r, _ = l.Reserve("k", 5)
	r.Cancel()
	require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
}

// A key that keeps trying stays denied, down to the fraction of a unit.
func TestTokenBucket_ChargesDeniedAttempts(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(1).TokenBucket(2), WithClock(clock), WithChargeDenied())
	require.True(t, l.AllowN("k", 2))
	for range 100 {
		clock.Advance(999 * time.Millisecond)
		require.False(t, l.Allow("k"))
	}
	clock.Advance(time.Second)
	require.True(t, l.Allow("k"))
}

// A change of the rate keeps the units that a bucket lacks, one of the burst also when it will
// be full. Other limits get them as charged now.
func TestTokenBucket_IsChangedWithWhatItLacks(t *testing.T) {
	for name, c := range map[string]struct {
		to        []Limit
		remaining int64
		reset     time.Duration
	}{
		"same":          {[]Limit{PerSecond(10).TokenBucket(100)}, 65, 3500 * time.Millisecond},
		"faster":        {[]Limit{PerSecond(20).TokenBucket(100)}, 65, 1750 * time.Millisecond},
		"another time":  {[]Limit{PerMinute(300).TokenBucket(100)}, 65, 7 * time.Second},
		"larger":        {[]Limit{PerSecond(10).TokenBucket(1000)}, 965, 3500 * time.Millisecond},
		"smaller":       {[]Limit{PerSecond(10).TokenBucket(20)}, 0, 3500 * time.Millisecond},
		"log":           {[]Limit{PerMinute(100).Log()}, 65, time.Minute},
		"with a log":    {[]Limit{PerMinute(50).Log(), PerSecond(10).TokenBucket(100)}, 15, time.Minute},
		"not in a word": {[]Limit{Per(12345, time.Hour).TokenBucket(100)}, 65, 0},
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			l := newTest(t, PerSecond(10).TokenBucket(100), WithClock(clock))
			require.True(t, l.AllowN("k", 50))
			clock.Advance(1500 * time.Millisecond)
			require.NoError(t, l.Reconfigure(c.to...))
			d := l.Peek("k", 0)
			require.Equal(t, c.remaining, d.Remaining)
			if c.reset > 0 {
				require.Equal(t, c.reset, d.ResetAfter)
			}
		})
	}
}

// A reservation from before a change of rate and burst is given back after it.
func TestTokenBucket_GivesBackAfterAChangeOfItsNumbers(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).TokenBucket(100), WithClock(clock))
	r, _ := l.Reserve("k", 60)
	full, _ := l.Reserve("full", 20)
	clock.Advance(2 * time.Second)
	require.NoError(t, l.Reconfigure(PerSecond(20).TokenBucket(200)))
	require.EqualValues(t, 160, l.Peek("k", 0).Remaining)
	require.True(t, l.AllowN("k", 30))
	require.True(t, l.AllowN("full", 30))
	r.Commit(50)
	full.Cancel()
	require.EqualValues(t, 140, l.Peek("k", 0).Remaining)
	require.EqualValues(t, 170, l.Peek("full", 0).Remaining, "it was full when its numbers changed")
}

// The rate changes while reservations are open, and what the bucket lacks is rounded each time. What is
// given back then is what the reference says, to the nanosecond.
func TestTokenBucket_GivesBackAfterAnyChangesOfItsRate(t *testing.T) {
	type open struct {
		reservation Reservation
		model       reference.Reservation
		n           int64
	}
	for seed := range uint64(steps(60)) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limitOf := func() Limit { return Per(1+rng.Int64N(30), time.Microsecond).TokenBucket(1 + rng.Int64N(20)) }
		limit, clock := limitOf(), NewManualClock(0)
		l := newTest(t, limit, WithClock(clock))
		model := reference.NewTable([]reference.Limit{modelOf(limit, false)})
		var all []open
		for range 60 {
			switch rng.IntN(5) {
			case 0, 1:
				n := 1 + rng.Int64N(4)
				r, d := l.Reserve("k", n)
				m, want := model.Reserve(clock.Now(), n, "k")
				require.Equal(t, want.Remaining, d.Remaining, "seed %d", seed)
				if d.Allowed {
					all = append(all, open{r, m, n})
				}
			case 2:
				clock.Advance(time.Duration(rng.Int64N(200)))
			case 3:
				limit = limitOf()
				require.NoError(t, l.Reconfigure(limit))
				model.ReconfigureAt(clock.Now(), []reference.Limit{modelOf(limit, false)})
			case 4:
				if len(all) == 0 {
					continue
				}
				i := rng.IntN(len(all))
				actual := rng.Int64N(all[i].n + 1)
				all[i].reservation.Commit(actual)
				model.Settle(clock.Now(), all[i].model, actual)
				all = slices.Delete(all, i, i+1)
				got, want := l.Peek("k", 0), model.Peek(clock.Now(), 0, "k")
				require.Equal(t, want.Remaining, got.Remaining, "seed %d", seed)
				require.EqualValues(t, want.ResetAfter, got.ResetAfter, "seed %d", seed)
			}
		}
	}
}

// Waiters are admitted one interval apart once the burst is used up, and a deadline that cannot
// be met fails at once.
func TestTokenBucket_PacesWaitingCalls(t *testing.T) {
	limit := PerSecond(3).TokenBucket(2)
	r := newTest(t, limit).rule()
	for units, want := range map[int64]time.Duration{1: 0, 2: 0, 3: 333_333_333, 5: time.Second, 3_000_002: 1_000_000 * time.Second} {
		first := r.firstOf(units)
		require.EqualValues(t, want, r.readmitsAt("k", 0, units-first), "%d units", units)
	}
}

// A refund that leaves the bucket to lack less at a later charge than at an earlier one counts
// for what was charged before both.
func TestTokenBucket_GivesBackNoMoreAfterAnotherRefund(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(1).TokenBucket(20), WithClock(clock))
	first, _ := l.Reserve("k", 5)
	second, _ := l.Reserve("k", 6)
	clock.Advance(5 * time.Second)
	require.True(t, l.Allow("k"))
	second.Cancel()
	first.Cancel()
	require.EqualValues(t, 19, l.Peek("k", 0).Remaining, "the bucket would have been full when the last unit was taken")
}

// Two limits that began as one give back alike, however many denied attempts only one of them
// was charged.
func TestTokenBucket_GivesBackToEachOfTwoThatBeganAsOne(t *testing.T) {
	for _, limits := range [][]Limit{
		{PerSecond(20).TokenBucket(1000), PerSecond(10).TokenBucket(100)},
		{PerSecond(10).TokenBucket(100), PerSecond(20).TokenBucket(100)},
	} {
		clock := NewManualClock(0)
		l := newTest(t, PerSecond(10).TokenBucket(100), WithClock(clock))
		l.Reserve("k", 1)
		require.NoError(t, l.SetLimits("k", limits...))
		clock.Set(int64(100 * time.Second))
		r, _ := l.Reserve("k", 50)
		clock.Set(int64(200 * time.Second))
		require.True(t, l.AllowN("k", 10), "both are full")
		r.Cancel()
		require.EqualValues(t, 90, l.Peek("k", 0).Remaining)
		clock.Set(int64(300 * time.Second))
		r, _ = l.Reserve("k", 50)
		r.Cancel()
		require.EqualValues(t, 100, l.Peek("k", 0).Remaining)
	}

	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).TokenBucket(100), WithClock(clock), WithChargeDenied())
	l.Reserve("k", 1)
	require.NoError(t, l.SetLimits("k", PerSecond(10).TokenBucket(100), PerSecond(10).TokenBucket(5)))
	require.True(t, l.AllowN("k", 4))
	for range 10 {
		require.False(t, l.AllowN("k", 5))
	}
	clock.Set(int64(100 * time.Second))
	r, _ := l.Reserve("k", 5)
	clock.Set(int64(200 * time.Second))
	require.True(t, l.AllowN("k", 5))
	r.Cancel()
	require.EqualValues(t, 0, l.Peek("k", 0).Remaining)
}

// A call after a reservation allocates nothing, however many follow.
func TestTokenBucket_AllocatesNothingAfterAReservation(t *testing.T) {
	l := newTest(t, PerSecond(1).TokenBucket(1_000_000), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("k", 1)
	r.Cancel()
	require.Zero(t, testing.AllocsPerRun(1, func() {
		for range 300 {
			l.Allow("k")
		}
	}))
}

// On a clock that was far ahead once, keys that are new start at the floor, which may lie
// outside the span of a word.
func TestTokenBucket_StartsAtAFloorOutsideTheSpan(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(37).TokenBucket(5), WithClock(clock))
	span := l.rule().debts.span
	clock.Set(span + 1)
	require.True(t, l.Allow("old"))
	clock.Advance(time.Hour)
	require.Equal(t, 1, l.Sweep())
	clock.Set(0)
	for _, take := range map[string]func() bool{
		"Allow":   func() bool { return l.Allow("a") },
		"TakeAll": func() bool { return l.TakeAll([]string{"b", "c"}, 1).Allowed },
	} {
		require.True(t, take())
		require.False(t, take(), "what it has taken is back after the floor")
	}

	// The floor may rise in the middle of a call.
	bucket := l.rule().bucket
	for _, origin := range []int64{0, math.MaxInt64} {
		layout, _ := debtLayoutOf(bucket, origin)
		word := layout.packCharged(bucket, window.Debt{At: math.MinInt64, Lack: bucket.Cost(1)}) // which does not fit
		require.NotZero(t, word)
		require.Equal(t, bucket.Cost(1), bucket.Lack(layout.unpack(bucket, word), window.Plus(layout.base, layout.span)))
	}
}

// Of several old limits, a bucket takes what it lacks from one of its own rate, else from the
// one at its own place, and else from another bucket, rather than from a limit that does not
// look back far enough.
func TestTokenBucket_InheritsFromTheLimitThatKnowsMost(t *testing.T) {
	slow, fast, log := PerSecond(1).TokenBucket(1000), PerSecond(100).TokenBucket(100), PerSecond(10).Log()
	for _, c := range []struct {
		old   []Limit
		to    Limit
		place int
		want  int
	}{
		{[]Limit{slow, fast}, PerSecond(1).TokenBucket(1001), 1, 0},
		{[]Limit{fast, slow}, PerSecond(1).TokenBucket(1001), 0, 1},
		{[]Limit{fast, slow}, PerSecond(7).TokenBucket(1001), 0, 0},
		{[]Limit{fast, slow}, PerSecond(7).TokenBucket(1001), 1, 1},
		{[]Limit{log, fast, slow}, PerSecond(7).TokenBucket(1001), 0, 1},
		{[]Limit{log, fast, slow}, PerSecond(7).TokenBucket(1001), 5, 2},
		{[]Limit{log, slow}, Per(1, 30*time.Second).TokenBucket(100), 0, 1},
		{[]Limit{log, slow}, Per(100, 30*time.Second).TokenBucket(2), 1, 0}, // it fills within what the log remembers
	} {
		r := newTest(t, c.to).rule()
		require.Equal(t, c.want, r.source(newTest(t, WithLimits(c.old...)).own().rules, c.place), "%v to %v, number %d", c.old, c.to, c.place)
	}
}

// Units flow into a bucket while its waiters wait for other limits. So a forecast says no more
// than is sure.
func TestTokenBucket_ForecastsNoMoreThanIsSureUnderOtherLimits(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, Per(3, 1000*time.Second).Log(), Per(1, 50*time.Second).TokenBucket(2), WithClock(clock))
	require.True(t, l.Allow("k"))
	clock.Set(int64(900 * time.Second))
	require.True(t, l.AllowN("k", 2))
	clock.Set(int64(950 * time.Second))
	var last *waiter
	for range 3 {
		last = enqueue(l, 1, "k")
	}
	require.LessOrEqual(t, l.forecast(last, make([]target, 1), 1), 950*time.Second, "the third is admitted then")
}

// When another limit takes the place of a bucket that is full, the time at which it was full is
// not forgotten.
func TestTokenBucket_IsReplacedOnceItIsFull(t *testing.T) {
	replaced := func(to Limit) *Limiter {
		clock := NewManualClock(0)
		l := newTest(t, PerSecond(10).TokenBucket(10), WithClock(clock))
		require.True(t, l.AllowN("k", 10))
		clock.Set(int64(5 * time.Second))
		require.NoError(t, l.SetLimits("k", to))
		clock.Set(int64(500 * time.Millisecond)) // half a second before it was full
		return l
	}
	for to, remaining := range map[Limit]int64{
		PerSecond(10).TokenBucket(20):  15,
		PerMinute(600).TokenBucket(10): 5,
		PerSecond(5).TokenBucket(10):   7,
	} {
		require.Equal(t, remaining, replaced(to).Peek("k", 0).Remaining, to)
	}
	l := replaced(PerSecond(10).Log())
	require.EqualValues(t, time.Second, l.current.Load().floor.Load(), "as after an eviction")
}
