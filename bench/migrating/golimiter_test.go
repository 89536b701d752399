package migrating_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter"
	theirlimit "github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// newStore returns a store of go-limiter. Its clock cannot be set, so its intervals are long.
func newStore(t *testing.T, config memorystore.Config) limiter.Store {
	store, err := memorystore.New(&config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
	return store
}

func takes(store limiter.Store, key string, n int) int {
	return admits(n, func() bool {
		_, _, _, ok, err := store.Take(context.Background(), key)
		return ok && err == nil
	})
}

var goLimiter = peer{
	name: "go-limiter",
	rows: []row{
		{
			have: "`memorystore.New(&memorystore.Config{Tokens: 100, Interval: time.Minute})`", use: "`sash.New(sash.PerMinute(100).Log())`",
			changes: "at most 100 in any minute; `sash.PerMinute(100)`, with less memory, in any 56.25 s",
			check: func(t *testing.T) {
				require.Equal(t, 100, takes(newStore(t, memorystore.Config{Tokens: 100, Interval: time.Hour}), "a", 110))
				most := func(limit sash.Limit, within time.Duration) int { // of calls each quarter of a second
					l := newSash(t, limit)
					admitted, greatest := []time.Duration{}, 0
					for range 4 * 300 {
						if at := time.Duration(l.clock.Now()); at < 55*time.Second || at > 70*time.Second { // as much as can be around a window's end
							l.clock.Advance(time.Second / 4)
							continue
						}
						for range l.admits("a", 100) {
							admitted = append(admitted, time.Duration(l.clock.Now()))
						}
						l.clock.Advance(time.Second / 4)
					}
					for i, first := range admitted {
						n := 0
						for _, at := range admitted[i:] {
							if at-first < within {
								n++
							}
						}
						greatest = max(greatest, n)
					}
					return greatest
				}
				require.Equal(t, 100, most(sash.PerMinute(100).Log(), time.Minute))
				require.Equal(t, 100, most(sash.PerMinute(100), time.Minute*15/16))
			},
		},
		{
			have: "`tokens, remaining, reset, ok, err := store.Take(ctx, key)`", use: "`d := l.Take(key, 1)`: `d.Limit.Count`, `d.Remaining`, `d.RetryAfter`, `d.Allowed`",
			changes: "no error; `reset` is the end of the window, and `RetryAfter` the wait of this call",
			check: func(t *testing.T) {
				store, l := newStore(t, memorystore.Config{Tokens: 2, Interval: time.Hour}), newSash(t, sash.PerHour(2).Log())
				resets := map[uint64]bool{}
				for i := range 3 {
					tokens, remaining, reset, ok, err := store.Take(t.Context(), "a")
					require.NoError(t, err)
					resets[reset] = true
					d := l.Take("a", 1)
					require.Equal(t, []any{int64(tokens), int64(remaining), ok}, []any{d.Limit.Count, d.Remaining, d.Allowed})
					if i < 2 {
						l.clock.Advance(time.Minute)
					} else {
						require.Equal(t, 58*time.Minute, d.RetryAfter)
					}
				}
				require.Len(t, resets, 1)
			},
		},
		{
			have: "`store.Get(ctx, key)`", use: "`l.Peek(key, 0)`", changes: "an unknown key has its whole quota; there 0 of 0",
			check: func(t *testing.T) {
				store, l := newStore(t, memorystore.Config{Tokens: 5, Interval: time.Hour}), newSash(t, sash.PerHour(5).Log())
				tokens, remaining, err := store.Get(t.Context(), "a")
				require.NoError(t, err)
				require.Zero(t, tokens+remaining)
				require.Equal(t, int64(5), l.Peek("a", 0).Remaining)
				require.Equal(t, []int{2, 2}, []int{takes(store, "a", 2), l.admits("a", 2)})
				_, remaining, err = store.Get(t.Context(), "a")
				require.NoError(t, err)
				require.Equal(t, int64(remaining), l.Peek("a", 0).Remaining)
			},
		},
		{
			have: "`store.Set(ctx, key, tokens, interval)`", use: "`l.SetLimits(key, sash.Per(count, window))`",
			changes: "what was charged stays; there, it is forgotten. `l.Reset(key)` forgets it here",
			check: func(t *testing.T) {
				store, l := newStore(t, memorystore.Config{Tokens: 5, Interval: time.Hour}), newSash(t, sash.PerHour(5))
				require.Equal(t, []int{5, 5}, []int{takes(store, "a", 9), l.admits("a", 9)})
				require.NoError(t, store.Set(t.Context(), "a", 8, time.Hour))
				require.NoError(t, l.SetLimits("a", sash.Per(8, time.Hour)))
				require.Equal(t, []int{8, 3}, []int{takes(store, "a", 9), l.admits("a", 9)})
				l.Reset("a")
				require.Equal(t, 8, l.admits("a", 9))
			},
		},
		{
			have: "`SweepInterval`, `SweepMinTTL`", use: "nothing", changes: "only idle keys are evicted; there, a `SweepMinTTL` below `Interval` gives held keys their tokens again",
			check: func(t *testing.T) {
				store := newStore(t, memorystore.Config{Tokens: 1, Interval: time.Hour, SweepInterval: time.Millisecond, SweepMinTTL: time.Nanosecond})
				require.Equal(t, 1, takes(store, "a", 1))
				for takes(store, "a", 1) == 0 { // until the sweep
				}
				l := newSash(t, sash.PerHour(1))
				require.Equal(t, 1, l.admits("a", 9))
				l.clock.Advance(time.Hour - 1)
				require.Zero(t, l.Sweep())
				require.Zero(t, l.admits("a", 9))
				l.clock.Advance(1)
				require.Equal(t, 1, l.Sweep())
			},
		},
		{
			have: "`httplimit.IPKeyFunc(\"X-Forwarded-For\")`", use: "`httplimit.ByAddress(httplimit.TrustProxies(networks…))`", changes: "headers count from your proxies only, and there from everyone",
			check: func(t *testing.T) {
				m, err := theirlimit.NewMiddleware(newStore(t, memorystore.Config{Tokens: 5, Interval: time.Hour}), theirlimit.IPKeyFunc("X-Forwarded-For"))
				require.NoError(t, err)
				p := policy(sash.PerHour(5))
				p.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
				forged := func(s site) (served int) {
					for i := range 9 {
						served += s.serves(1, with("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)))
					}
					return served
				}
				require.Equal(t, []int{9, 5}, []int{forged(site{Handler: m.Handle(hello)}), forged(ours(t, p))})
			},
		},
	},
	breaks: []fault{
		{
			says: "its windows are fixed, from a key's first call on, so around the end of one a key has more than Tokens within an Interval",
			check: func(t *testing.T) {
				const interval = 40 * time.Millisecond // its clock is the system's; a slow machine tries again
				for attempt := range 1000 {
					store, key := newStore(t, memorystore.Config{Tokens: 5, Interval: interval}), fmt.Sprint(attempt)
					_, _, reset, _, _ := store.Take(t.Context(), key)
					until := func(ns uint64) {
						for uint64(time.Now().UnixNano()) < ns {
						}
					}
					until(reset - uint64(interval/4))
					first := time.Now()
					n := takes(store, key, 4)
					until(reset)
					n += takes(store, key, 9)
					if time.Since(first) < interval && n == 9 {
						return
					}
				}
				t.Fatal("no interval had more than 5")
			},
		},
	},
}
