package migrating_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/seed-30da4c49/sash"
)

// start is when the clocks of the tests begin.
var start = time.Unix(1_000_000_000, 0)

// now is the time of the clock of l.
func (l clocked) now() time.Time { return start.Add(time.Duration(l.clock.Now())) }

// rateAgrees holds a rate.Limiter against a token bucket of sash, in steps whose tokens floating point has exactly.
func rateAgrees(t *testing.T, lim *rate.Limiter, limit sash.Limit) {
	l := newSash(t, limit)
	random, admitted := rand.New(rand.NewPCG(1, 1)), 0
	for range 2000 {
		l.clock.Advance(time.Duration(random.IntN(8)) * time.Second / 8)
		n := random.IntN(int(limit.Burst) + 1)
		ok := lim.AllowN(l.now(), n)
		require.Equal(t, ok, l.AllowN("a", int64(n)))
		if ok {
			admitted++
		}
	}
	require.Greater(t, admitted, 200)
	require.Less(t, admitted, 2000)
}

var xTimeRate = peer{
	name: "x/time/rate",
	rows: []row{
		{
			have: "`map[string]*rate.Limiter` behind a mutex, with `rate.NewLimiter(10, 100)` for each key", use: "`l, err := sash.New(sash.PerSecond(10).TokenBucket(100))`",
			changes: "the same is admitted",
			check: func(t *testing.T) {
				rateAgrees(t, rate.NewLimiter(10, 100), sash.PerSecond(10).TokenBucket(100))
			},
		},
		{
			have: "a goroutine that deletes limiters which were not used for a while", use: "nothing",
			changes: "a key is evicted once its bucket is full; a limiter that is deleted before has its burst again",
			check: func(t *testing.T) {
				limiters, l := map[string]*rate.Limiter{}, newSash(t, sash.PerHour(1).TokenBucket(5))
				allow := func() bool {
					if limiters["a"] == nil {
						limiters["a"] = rate.NewLimiter(rate.Every(time.Hour), 5)
					}
					return limiters["a"].AllowN(l.now(), 1)
				}
				require.Equal(t, []int{5, 5}, []int{admits(9, allow), l.admits("a", 9)})
				l.clock.Advance(3 * time.Minute)
				delete(limiters, "a")
				require.Zero(t, l.Sweep())
				require.Equal(t, []int{5, 0}, []int{admits(9, allow), l.admits("a", 9)})
				l.clock.Advance(5 * time.Hour)
				require.Equal(t, 1, l.Sweep())
				require.Zero(t, l.Len())
			},
		},
		{
			have: "`rate.NewLimiter(rate.Every(d), b)`, `rate.NewLimiter(2.5, b)`", use: "`sash.Per(1, d).TokenBucket(b)`, `sash.Per(5, 2*time.Second).TokenBucket(b)`",
			changes: "whole numbers: there, an event may come up to a nanosecond before its token is there",
			check: func(t *testing.T) {
				rateAgrees(t, rate.NewLimiter(rate.Every(time.Second/4), 9), sash.Per(1, time.Second/4).TokenBucket(9))
				rateAgrees(t, rate.NewLimiter(2.5, 9), sash.Per(5, 2*time.Second).TokenBucket(9))
				lim, l := rate.NewLimiter(7, 1), newSash(t, sash.PerSecond(7).TokenBucket(1))
				require.True(t, lim.AllowN(l.now(), 1) && l.Allow("a"))
				l.clock.Advance(142_857_142) // a seventh of a second is 142,857,142.9 ns
				require.True(t, lim.AllowN(l.now(), 1))
				require.False(t, l.Allow("a"))
				l.clock.Advance(1)
				require.True(t, l.Allow("a"))
			},
		},
		{
			have: "`lim.AllowN(now, n)`", use: "`l.AllowN(key, n)`",
			changes: "the time is the clock's, of `sash.WithClock`; a negative n is denied, and adds no tokens",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(1, 5), newSash(t, sash.PerSecond(1).TokenBucket(5))
				require.True(t, lim.AllowN(l.now(), 5) && l.AllowN("a", 5))
				require.True(t, lim.AllowN(l.now(), -3))
				require.False(t, l.AllowN("a", -3))
				require.Equal(t, 3.0, lim.TokensAt(l.now()))
				require.Zero(t, l.Peek("a", 0).Remaining)
			},
		},
		{
			have: "`lim.WaitN(ctx, n)`", use: "`l.Wait(ctx, key, n)`",
			changes: "first come, first served, too; when a call gives up, those behind it move up",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lim, l := rate.NewLimiter(1, 1), newSash(t, sash.PerSecond(1).TokenBucket(1))
					require.True(t, lim.Allow() && l.Allow("a"))
					began, ended := time.Now(), map[string]time.Duration{}
					first, giveUp := context.WithCancel(t.Context())
					results := make(chan string)
					wait := func(name string, ctx context.Context, w func(context.Context) error) {
						go func() {
							if w(ctx) == nil {
								results <- name
							}
						}()
						synctest.Wait() // it waits now
					}
					theirs := func(ctx context.Context) error { return lim.Wait(ctx) }
					sashs := func(ctx context.Context) error { return l.Wait(ctx, "a", 1) }
					wait("", first, theirs)
					wait("x/time/rate", t.Context(), theirs)
					wait("", first, sashs)
					wait("sash", t.Context(), sashs)
					giveUp()
					for range 2 {
						pass(l.clock, time.Second)
						synctest.Wait()
						select {
						case name := <-results:
							ended[name] = time.Since(began)
						default:
						}
					}
					require.Equal(t, map[string]time.Duration{"sash": time.Second, "x/time/rate": 2 * time.Second}, ended)
				})
			},
		},
		{
			have: "`r := lim.ReserveN(now, n)`, and a sleep of `r.Delay()`", use: "`r, err := l.WaitReserve(ctx, key, n)`",
			changes: "waits itself; `l.Reserve` takes what is there, and never of the future",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lim, l := rate.NewLimiter(1, 2), newSash(t, sash.PerSecond(1).TokenBucket(2))
					require.True(t, lim.AllowN(time.Now(), 2) && l.AllowN("a", 2))
					require.Equal(t, 2*time.Second, lim.ReserveN(time.Now(), 2).Delay())
					_, d := l.Reserve("a", 2)
					require.False(t, d.Allowed)
					done := make(chan error, 1)
					go func() {
						_, err := l.WaitReserve(t.Context(), "a", 2)
						done <- err
					}()
					synctest.Wait()
					l.clock.Advance(2*time.Second - 1)
					synctest.Wait()
					require.Empty(t, done)
					l.clock.Advance(1)
					require.NoError(t, <-done)
				})
			},
		},
		{
			have: "`r := lim.Reserve()`, `r.Delay()` for Retry-After, `r.Cancel()`", use: "`d := l.Take(key, 1)`, `d.RetryAfter`",
			changes: "a denied call takes nothing, so there is nothing to cancel",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(4, 1), newSash(t, sash.PerSecond(4).TokenBucket(1))
				require.True(t, lim.AllowN(l.now(), 1) && l.Allow("a"))
				r, d := lim.ReserveN(l.now(), 1), l.Take("a", 1)
				require.Equal(t, r.DelayFrom(l.now()), d.RetryAfter)
				require.Equal(t, 250*time.Millisecond, d.RetryAfter)
				require.Equal(t, -1.0, lim.TokensAt(l.now()))
				require.Zero(t, l.Peek("a", 0).Remaining)
				l.clock.Advance(d.RetryAfter)
				require.False(t, lim.AllowN(l.now(), 1)) // the reservation has it
				require.True(t, l.Allow("a"))
			},
		},
		{
			have: "`r.OK()` is false, since n is more than the burst", use: "`d.RetryAfter == sash.Never`; of `Wait`, the error `sash.ErrExceedsLimit`",
			changes: "the same",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(1, 5), newSash(t, sash.PerSecond(1).TokenBucket(5))
				require.False(t, lim.ReserveN(l.now(), 6).OK())
				require.Error(t, lim.WaitN(t.Context(), 6))
				require.Equal(t, sash.Never, l.Take("a", 6).RetryAfter)
				require.ErrorIs(t, l.Wait(t.Context(), "a", 6), sash.ErrExceedsLimit)
			},
		},
		{
			have: "`lim.Tokens()`, `lim.Limit()`, `lim.Burst()`", use: "`d := l.Peek(key, 0)`: `d.Remaining`, `d.Limit`",
			changes: "whole units",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(1, 5), newSash(t, sash.PerSecond(1).TokenBucket(5))
				require.True(t, lim.AllowN(l.now(), 3) && l.AllowN("a", 3))
				l.clock.Advance(time.Second / 2)
				require.Equal(t, 2.5, lim.TokensAt(l.now()))
				d := l.Peek("a", 0)
				require.Equal(t, int64(2), d.Remaining)
				require.Equal(t, sash.PerSecond(1).TokenBucket(5), d.Limit)
			},
		},
		{
			have: "`lim.SetLimit(r)`, `lim.SetBurst(b)`", use: "`l.Reconfigure(limit)`; for one key `l.SetLimits(key, limit)`",
			changes: "keeps what is missing: with 40 of 100 left, a burst of 200 leaves 140, and 40 there",
			check: func(t *testing.T) {
				lim := rate.NewLimiter(10, 100)
				require.True(t, lim.AllowN(start, 60))
				lim.SetBurstAt(start, 200)
				require.Equal(t, 40.0, lim.TokensAt(start))
				for _, set := range []func(*sash.Limiter, sash.Limit) error{
					func(l *sash.Limiter, limit sash.Limit) error { return l.Reconfigure(limit) },
					func(l *sash.Limiter, limit sash.Limit) error { return l.SetLimits("a", limit) },
				} {
					l := newSash(t, sash.PerSecond(10).TokenBucket(100))
					require.True(t, l.AllowN("a", 60))
					require.NoError(t, set(l.Limiter, sash.PerSecond(10).TokenBucket(200)))
					require.Equal(t, int64(140), l.Peek("a", 0).Remaining)
				}
			},
		},
		{
			have: "`rate.NewLimiter(0, b)`", use: "`sash.PerSecond(0)`",
			changes: "admits nothing; there, b events, and then nothing",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(0, 5), newSash(t, sash.PerSecond(0))
				require.Equal(t, 5, admits(9, func() bool { return lim.AllowN(l.now(), 1) }))
				require.Zero(t, l.admits("a", 9))
			},
		},
	},
	breaks: []fault{
		{
			says: "a reading of the clock that is used late sets it back, and the same time gives tokens twice",
			check: func(t *testing.T) {
				lim, l := rate.NewLimiter(1, 10), newSash(t, sash.PerSecond(1).TokenBucket(10))
				require.True(t, lim.AllowN(start, 10) && l.AllowN("a", 10))
				theirs, sashs := 0, 0
				for i := range 20 { // readings of the tenth second, and each time one that is late
					at, n := 10*time.Second, 9
					if i%2 == 1 {
						at, n = 0, 1
					}
					l.clock.Set(int64(at))
					theirs += admits(n, func() bool { return lim.AllowN(start.Add(at), 1) })
					sashs += l.admits("a", n)
				}
				require.Equal(t, 10, sashs)
				require.Equal(t, 100, theirs)
			},
		},
		{
			says: "A bucket admits up to Burst + Count within one Window",
			check: func(t *testing.T) {
				within := func(limit sash.Limit) int { // a minute, from the 30th second of an hour on
					l := newSash(t, limit)
					l.clock.Advance(time.Hour)
					n := 0
					for range 60 {
						n += l.admits("a", 100)
						l.clock.Advance(time.Second)
					}
					return n
				}
				require.Equal(t, 119, within(sash.PerMinute(60).TokenBucket(60)))
				require.Equal(t, 60, within(sash.PerMinute(60).Log()))
			},
		},
	},
}
