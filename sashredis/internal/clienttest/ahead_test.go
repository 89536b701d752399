package clienttest

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
)

// limitsAhead are limits of each kind, and some together.
var limitsAhead = [][]sash.Limit{
	{sash.PerMinute(10).Counter()}, {sash.PerMinute(10).Log()}, {sash.PerMinute(10).Buckets(10 * time.Second)},
	{sash.AtOnce(10, time.Minute)}, {sash.PerMinute(10).TokenBucket(10)}, {sash.PerMinute(10).Parts()}, {sash.PerMinute(10).Log(), sash.PerMinute(10).Counter(), sash.PerHour(300).TokenBucket(20)},
}

// A key that was charged while the store's clock was ahead waits until the clock has caught up.
// With a bound it begins anew, if it is further ahead than that.
func TestMaxAhead_AKeyBeginsAnew(t *testing.T) {
	for _, limits := range limitsAhead {
		for _, bound := range []int{0, 2, 100} {
			s := newStore(t)
			options := []sashredis.Option{sashredis.WithMirror(0)}
			if bound > 0 {
				options = append(options, sashredis.WithMaxAhead(bound))
			}
			l, _ := s.limiter(limits, options...)
			ctx := context.Background()
			s.advance(time.Hour)
			r, d := l.Reserve(ctx, "k", 3)
			require.True(t, d.Allowed)
			for range 2 { // several instants
				s.advance(time.Second)
				require.True(t, l.Allow(ctx, "k"))
			}
			s.advance(-time.Hour)
			admitted := 0
			for range 7 {
				s.advance(8 * time.Minute)
				want := l.Peek(ctx, "fresh", 10) // it has the same shift as "k"
				if got := l.Peek(ctx, "k", 10); bound == 2 {
					require.Equal(t, want, got, "%v", limits)
				}
				for range 11 {
					want, got := l.Take(ctx, "fresh", 1), l.Take(ctx, "k", 1)
					if got.Allowed {
						admitted++
					}
					if bound == 2 {
						require.Equal(t, want, got, "%v", limits)
					}
				}
				require.NoError(t, r.Cancel(ctx)) // of a key that began anew, it gives nothing back
			}
			if bound == 2 {
				assert.GreaterOrEqual(t, admitted, 70, "%v", limits)
			} else {
				assert.LessOrEqual(t, admitted, 10+3, "%v", limits)
			}
		}
	}
}

// What is spent past a reservation counts, although nothing else counts any more of a key that begins anew then.
func TestMaxAhead_WhatIsSpentWhenAKeyBeginsAnewCounts(t *testing.T) {
	ctx := context.Background()
	for _, rate := range []sash.Limit{
		sash.PerMinute(10).Counter(), sash.PerMinute(10).Log(), sash.PerMinute(10).TokenBucket(10), sash.PerMinute(10).Parts(),
	} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{rate, sash.AtOnce(10, time.Minute)}, sashredis.WithMirror(0), sashredis.WithMaxAhead(2))
		s.advance(time.Hour)
		r, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		s.advance(-time.Hour)
		require.NoError(t, r.Commit(ctx, 5))
		assert.Equal(t, int64(6), l.Peek(ctx, "k", 0).Remaining, "%v", rate)
		r, d = l.Reserve(ctx, "k", 6)
		require.True(t, d.Allowed, "nothing is held")
		assert.Zero(t, d.Remaining, "%v", rate)
		require.NoError(t, r.Release(ctx))
	}
}

// A key that is ahead by no more than the bound goes on.
func TestMaxAhead_AKeyThatIsNotFurtherGoesOn(t *testing.T) {
	for _, limits := range limitsAhead {
		s := newStore(t)
		bounded, _ := s.limiter(limits, sashredis.WithMirror(0), sashredis.WithMaxAhead(3))
		plain, _ := s.limiter(limits, sashredis.WithMirror(0), sashredis.WithPrefix("plain:"))
		ctx := context.Background()
		both := func(n int64) {
			require.Equal(t, plain.Take(ctx, "k", n), bounded.Take(ctx, "k", n), "%v", limits)
		}
		s.advance(3 * time.Minute)
		both(4)
		s.advance(-3 * time.Minute)
		both(1)
		both(10)
		both(5)
	}
}

// A key keeps nothing of a lease or of members that were ahead.
func TestMaxAhead_NothingIsLeft(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, limits := range limitsAhead {
			ctx := context.Background()
			clock := sash.NewManualClock(0)
			l, err := sashredis.New(goredisconn.New(client), limits, sashredis.WithFallback(sashredis.FallbackDeny),
				sashredis.WithCallerClock(clock), sashredis.WithMaxAhead(2), sashredis.WithTimeout(10*time.Second))
			require.NoError(t, err)
			charge := func(key string) {
				r, d := l.Reserve(ctx, key, 2)
				require.True(t, d.Allowed)
				clock.Advance(time.Second)
				require.True(t, l.Allow(ctx, key))
				require.NoError(t, r.Commit(ctx, 1))
			}
			clock.Advance(time.Hour)
			charge("aa")
			clock.Set(0)
			charge("aa")
			clock.Set(0)
			charge("bb")
			value := func(key string) any {
				key = client.Keys(ctx, "*"+key+"*").Val()[0]
				if members, err := client.ZRange(ctx, key, 1, -1).Result(); err == nil { // the first has the token
					return members
				}
				return regexp.MustCompile(";[^;]*;;$").ReplaceAllString(client.Get(ctx, key).Val(), "")
			}
			assert.Equal(t, value("bb"), value("aa"), "%v", limits)
			client.FlushAll(ctx)
		}
	})
}
