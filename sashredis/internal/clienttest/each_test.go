package clienttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	rootbridge "github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

// ofSash are the functions of package sash that it does not export.
var ofSash = rootbridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock, sash.Decision, sash.Reservation]()

// A call for several keys that must leave units of each is decided as by package sash, and so is what each
// key says of it.
func TestEach_EqualsSash(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		for name, algorithms := range kinds {
			t.Run(name, func(t *testing.T) {
				allowed, total := 0, trials(t, 2000)
				for i := range total / 50 {
					r := newTrial(t, "each "+name, uint64(i), conn, algorithms)
					for range 50 {
						if r.each(t, uint64(i)) {
							allowed++
						}
					}
				}
				require.Greater(t, allowed, total/20, "most calls are denied")
				require.Less(t, allowed, total*19/20, "most calls are admitted")
			})
		}
	})
}

// each makes one call for some keys on both sides, and reports whether it was admitted.
func (r *trial) each(t *testing.T, seed uint64) (allowed bool) {
	keys := []string{"a", "b", "c"}
	r.Shuffle(3, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+r.IntN(3)]
	n, leaves := max(r.cost(), -1), make([]int64, len(keys))
	for i := range leaves {
		leaves[i] = max(r.cost(), 0) * r.Int64N(2)
	}
	before := r.clock.Now()
	r.move()
	r.clock.Set(max(before, r.clock.Now())) // a late reading after a refund may find less
	op := bridge.Op(r.IntN(3))
	var want sash.Decision
	var reserved []sash.Reservation
	switch op {
	case bridge.Take:
		want, _ = ofSash.TakeAllOn(r.here, keys, rootbridge.Leaving(leaves), n)
	case bridge.Peek:
		want = ofSash.PeekAllOn(r.here, keys, rootbridge.Leaving(leaves), n)
	case bridge.Reserve:
		reserved, want, _ = ofSash.ReserveAllOn(r.here, keys, rootbridge.Leaving(leaves), n)
	}
	got := internals.Each(r.store, context.Background(), op, keys, n, leaves)
	require.NoError(t, got.Err)
	require.Equal(t, want, got.Decision, "seed %d, limits %v, clock %d: %v of %q, %d, leaving %d", seed, r.limits, r.clock.Now(), op, keys, n, leaves)
	for i, key := range keys {
		now, next := ofSash.NextLeaving(r.here, key, leaves[i])
		now.Allowed, now.RetryAfter = true, 0
		if op == bridge.Peek || !want.Allowed {
			now = ofSash.PeekLeaving(r.here, key, n, leaves[i])
		}
		next.Remaining = max(next.Remaining-leaves[i], 0)
		require.Equal(t, now, got.Keys[i].Decision, "seed %d, limits %v, clock %d: key %q of op %v, %q, %d, leaving %d", seed, r.limits, r.clock.Now(), key, op, keys, n, leaves)
		require.Equal(t, next, got.Keys[i].Next, "seed %d, limits %v, clock %d: after key %q of op %v, %q, %d, leaving %d", seed, r.limits, r.clock.Now(), key, op, keys, n, leaves)
	}
	if op == bridge.Reserve && want.Allowed && r.IntN(2) == 0 {
		for i := range keys {
			actual := r.Int64N(n + 1)
			reserved[i].Commit(actual)
			require.NoError(t, got.Keys[i].Commit(context.Background(), actual))
		}
	}
	return want.Allowed
}

// While the store is away, the shares leave their part of what is to be left of each key, and what a key says
// is by its share.
func TestEach_OfSharesThatLeaveUnits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100).Log()}, sashredis.WithFallback(sashredis.FallbackLocal(1, 8)))
	s.set(func() { s.err = errAway })
	ctx := context.Background()
	keys, leaves := []string{"a", "b"}, []int64{0, 30} // of 12 units, 4 must remain of b
	for i := range int64(8) {
		d := internals.Each(l, ctx, bridge.Take, keys, 1, leaves)
		require.True(t, d.Allowed)
		assert.Equal(t, "fallback", d.By)
		assert.Equal(t, 11-i, d.Keys[1].Remaining)
		assert.Equal(t, 7-i, d.Keys[1].Next.Remaining, "what such a call can have")
		assert.Equal(t, 11-i, d.Keys[0].Next.Remaining)
	}
	for _, op := range []bridge.Op{bridge.Take, bridge.Reserve, bridge.Peek} {
		d := internals.Each(l, ctx, op, keys, 1, leaves)
		assert.False(t, d.Allowed, "%v", op)
		assert.True(t, d.Keys[0].Allowed, "%v", op)
		assert.False(t, d.Keys[1].Allowed, "%v", op)
		assert.Zero(t, d.Keys[1].Next.Remaining, "%v", op)
		assert.Equal(t, int64(4), d.Keys[1].Remaining, "%v", op)
	}
	d := internals.Each(l, ctx, bridge.Reserve, keys, 1, []int64{0, 24})
	require.True(t, d.Allowed)
	for _, k := range d.Keys {
		require.NoError(t, k.Commit(ctx, 0))
	}
	assert.True(t, internals.Each(l, ctx, bridge.Take, keys, 4, nil).Allowed, "urgent calls use all")
}

// The mirror denies a call that must leave units by the key of which they are not there, and tells what such
// a call can have of each.
func TestEach_OfTheMirrorThatLeavesUnits(t *testing.T) {
	for _, limit := range []sash.Limit{sash.PerMinute(10).Counter(), sash.PerMinute(10).Log(), sash.PerMinute(10).TokenBucket(10), sash.PerMinute(10).Parts()} {
		s := newStore(t)
		l, local := s.limiter([]sash.Limit{limit})
		ctx := context.Background()
		keys, leaves := []string{"a", "b"}, []int64{2, 9}
		require.True(t, l.Take(ctx, "b", 1).Allowed)
		d := internals.Each(l, ctx, bridge.Take, keys, 1, leaves)
		require.False(t, d.Allowed)
		sent := s.count()
		local.Advance(time.Millisecond)
		again := internals.Each(l, ctx, bridge.Take, keys, 1, leaves)
		assert.Equal(t, "mirror", again.By, "%v", limit)
		assert.Equal(t, sent, s.count(), "%v: round trips", limit)
		assert.True(t, again.Keys[0].Allowed)
		assert.Equal(t, int64(8), again.Keys[0].Next.Remaining, "%v", limit)
		assert.Zero(t, again.Keys[1].Next.Remaining, "%v", limit)
		assert.True(t, internals.Each(l, ctx, bridge.Take, keys, 1, []int64{9, 8}).Allowed, "%v", limit)
	}
}

// What must remain of a key without limits is not asked of the others.
func TestEach_OfAnUnlimitedKeyThatLeavesUnits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter(nil, sashredis.WithLimitsFor(func(key string) []sash.Limit {
		if key == "free" {
			return []sash.Limit{sash.Unlimited()}
		}
		return []sash.Limit{sash.PerMinute(10).Log()}
	}))
	d := internals.Each(l, context.Background(), bridge.Take, []string{"free", "a"}, 1, []int64{50, 2})
	require.NoError(t, d.Err)
	require.True(t, d.Allowed)
	assert.Equal(t, int64(9), d.Keys[1].Remaining)
	assert.Equal(t, int64(7), d.Keys[1].Next.Remaining)
}
