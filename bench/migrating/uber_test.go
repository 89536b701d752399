package migrating_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	uber "go.uber.org/ratelimit"

	"github.com/seed-30da4c49/sash"
)

// A napClock is a clock of uber/ratelimit: a sleep moves it.
type napClock struct{ at time.Time }

func (c *napClock) Now() time.Time        { return c.at }
func (c *napClock) Sleep(d time.Duration) { c.at = c.at.Add(d) }

// uberAgrees holds the waits of a limiter of uber/ratelimit against a token bucket of sash, from which missing is
// taken, since uber's first call has no slack yet.
func uberAgrees(t *testing.T, limit sash.Limit, missing int64, perRequest time.Duration, rate int, options ...uber.Option) {
	clock, l := &napClock{start}, newSash(t, limit)
	rl := uber.New(rate, append(options, uber.WithClock(clock))...)
	require.True(t, l.AllowN("", missing))
	rl.Take()
	require.True(t, l.Allow(""))
	random, waits := rand.New(rand.NewPCG(1, 1)), 0
	for range 2000 {
		idle := time.Duration(random.Int64N(int64(perRequest)))
		if random.IntN(20) == 0 {
			idle *= 20
		}
		clock.Sleep(idle)
		l.clock.Advance(idle)
		rl.Take()
		if d := l.Take("", 1); !d.Allowed { // what Wait does
			waits++
			l.clock.Advance(d.RetryAfter)
			require.True(t, l.Allow(""))
		}
		require.Equal(t, clock.at, l.now())
	}
	require.Greater(t, waits, 200)
}

var uberPeer = peer{
	name: "uber/ratelimit",
	rows: []row{
		{
			have: "`ratelimit.New(100)`", use: "`sash.New(sash.PerSecond(100).TokenBucket(11))`", changes: "the same: a slack of 10 and the call itself. It is there from the start, too",
			check: func(t *testing.T) {
				uberAgrees(t, sash.PerSecond(100).TokenBucket(11), 10, 10*time.Millisecond, 100)
				clock, l := &napClock{start}, newSash(t, sash.PerSecond(100).TokenBucket(11))
				rl := uber.New(100, uber.WithClock(clock))
				require.Equal(t, 1, admits(20, func() bool { return rl.Take().Equal(start) }))
				require.Equal(t, 11, l.admits("", 20))
			},
		},
		{
			have: "`ratelimit.New(100, ratelimit.WithoutSlack)`", use: "`sash.New(sash.PerSecond(100).TokenBucket(1))`", changes: "the same",
			check: func(t *testing.T) {
				uberAgrees(t, sash.PerSecond(100).TokenBucket(1), 0, 10*time.Millisecond, 100, uber.WithoutSlack)
			},
		},
		{
			have: "`ratelimit.New(100, ratelimit.Per(time.Minute), ratelimit.WithSlack(3))`", use: "`sash.New(sash.PerMinute(100).TokenBucket(4))`", changes: "the same",
			check: func(t *testing.T) {
				uberAgrees(t, sash.PerMinute(100).TokenBucket(4), 3, 600*time.Millisecond, 100, uber.Per(time.Minute), uber.WithSlack(3))
			},
		},
		{
			have: "`rl.Take()`", use: "`err := l.Wait(ctx, \"\", 1)`", changes: "ends with ctx, and has taken nothing then",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newSash(t, sash.PerSecond(1).TokenBucket(1))
					require.True(t, l.Allow(""))
					ctx, cancel := context.WithCancel(t.Context())
					done := make(chan error, 1)
					go func() { done <- l.Wait(ctx, "", 1) }()
					synctest.Wait()
					require.Empty(t, done)
					cancel()
					require.ErrorIs(t, <-done, context.Canceled)
					l.clock.Advance(time.Second)
					require.True(t, l.Allow(""))
				})
			},
		},
	},
	breaks: []fault{
		{
			says: "`Take` is its only call. It cannot be cancelled",
			check: func(t *testing.T) {
				limiter := reflect.TypeFor[uber.Limiter]()
				require.Equal(t, 1, limiter.NumMethod())
				require.Zero(t, limiter.Method(0).Type.NumIn())
			},
		},
	},
}
