package migrating_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// newUlule returns a limiter in memory, without the goroutine that cleans it.
func newUlule(t *testing.T, rate string) *ulule.Limiter {
	r, err := ulule.NewRateFromFormatted(rate)
	require.NoError(t, err)
	return ulule.New(memory.NewStoreWithOptions(ulule.StoreOptions{}), r)
}

// A brokenStore fails.
type brokenStore struct{ ulule.Store }

func (brokenStore) Get(context.Context, string, ulule.Rate) (ulule.Context, error) {
	return ulule.Context{}, errors.New("away")
}

var ululePeer = peer{
	name: "ulule/limiter",
	rows: []row{
		{
			have: "`limiter.NewRateFromFormatted(\"100-M\")`", use: "`sash.ParseLimit(\"100/m log\")`",
			changes: "at most 100 in any minute; there, 200 around the end of a window, which begins with a key's first request",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limit, err := sash.ParseLimit("100/m log")
					require.NoError(t, err)
					lim, l := newUlule(t, "100-M"), newSash(t, limit)
					get := func() bool {
						c, err := lim.Get(t.Context(), "a")
						require.NoError(t, err)
						return !c.Reached
					}
					require.True(t, get())
					require.True(t, l.Allow("a"))
					pass(l.clock, time.Minute-time.Millisecond)
					theirs, sashs := admits(200, get), l.admits("a", 200)
					pass(l.clock, 2*time.Millisecond)
					require.Equal(t, []int{199, 100}, []int{theirs + admits(200, get), sashs + l.admits("a", 200)})
				})
			},
		},
		{
			have: "`c, err := lim.Get(ctx, key)`, `c.Reached`, `c.Reset`", use: "`d := l.Take(key, 1)`, `!d.Allowed`, `d.RetryAfter`",
			changes: "no error; a wait, and not a Unix time",
			check: func(t *testing.T) {
				lim, l := newUlule(t, "5-H"), newSash(t, sash.PerHour(5).Log())
				for range 9 {
					c, err := lim.Get(t.Context(), "a")
					require.NoError(t, err)
					d := l.Take("a", 1)
					require.Equal(t, []any{c.Reached, c.Remaining}, []any{!d.Allowed, d.Remaining})
					if !d.Allowed {
						require.Equal(t, time.Hour, d.RetryAfter)
						require.InDelta(t, time.Now().Add(time.Hour).Unix(), c.Reset, 600)
					}
				}
			},
		},
		{
			have: "`lim.Increment(ctx, key, n)`", use: "`l.Take(key, n)`", changes: "n units or none; there, a call that is denied uses up what was left",
			check: func(t *testing.T) {
				lim, l := newUlule(t, "5-H"), newSash(t, sash.PerHour(5))
				c, err := lim.Increment(t.Context(), "a", 9)
				require.NoError(t, err)
				require.True(t, c.Reached)
				require.False(t, l.Take("a", 9).Allowed)
				c, err = lim.Get(t.Context(), "a")
				require.NoError(t, err)
				require.True(t, c.Reached)
				require.Equal(t, 5, l.admits("a", 9))
			},
		},
		{
			have: "`stdlib.NewMiddleware(lim)`", use: "`httplimit.New(httplimit.Policy{…}, httplimit.WithXRateLimitTime())`", changes: "Retry-After and `RateLimit` next to X-RateLimit; IPv6 by /64, and not by address",
			check: func(t *testing.T) {
				theirs := site{Handler: stdlib.NewMiddleware(newUlule(t, "1-H")).Handler(hello)}
				sashs := ours(t, policy(sash.PerHour(1)), httplimit.WithXRateLimitTime())
				for _, s := range []site{theirs, sashs} {
					require.Equal(t, 200, s.get(from("[2001:db8::1]:1000")))
					w := s.send(from("[2001:db8::1]:1000"))
					require.Equal(t, 429, w.Code)
					require.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"))
					require.Equal(t, s.limiter != nil, w.Header().Get("Retry-After") != "")
					require.Equal(t, s.limiter != nil, w.Header().Get("RateLimit") != "")
				}
				require.Equal(t, []int{200, 429}, []int{theirs.get(from("[2001:db8::2]:1000")), sashs.get(from("[2001:db8::2]:1000"))})
			},
		},
	},
	breaks: []fault{
		{
			says: "When the store fails, its middleware panics",
			check: func(t *testing.T) {
				lim := newUlule(t, "5-H")
				lim.Store = brokenStore{}
				require.Panics(t, func() { site{Handler: stdlib.NewMiddleware(lim).Handler(hello)}.get() })
			},
		},
	},
}
