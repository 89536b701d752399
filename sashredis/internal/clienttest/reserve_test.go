package clienttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// An open reservation is one on each side.
type open struct {
	here  sash.Reservation
	store sashredis.Reservation
	n     int64
}

// Reservations give back, and charge more, as reservations of package sash do.
func TestReserve_EqualsThatOfSash(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		ctx := context.Background()
		for name, algorithms := range kinds {
			t.Run(name, func(t *testing.T) {
				settled := 0
				for i := range trials(t, 2000) / 50 {
					r := newTrial(t, name, uint64(i), conn, algorithms)
					var reservations []open
					var calls []string
					for range 50 {
						before := r.clock.Now()
						r.move()
						r.clock.Set(max(before, r.clock.Now())) // a late reading after a refund may find less
						n, key := r.cost(), string("ab"[r.IntN(2)])
						switch {
						case r.IntN(12) == 0:
							calls = append(calls, fmt.Sprintf("%d: Reset(%q)", r.clock.Now(), key))
							r.here.Reset(key)
							require.NoError(t, r.store.Reset(ctx, key))
						case r.IntN(3) == 0 && len(reservations) > 0:
							j := r.IntN(len(reservations))
							o := reservations[j]
							actual := max(o.n+r.Int64N(2*o.n+2)-o.n-1, 0)
							switch r.IntN(4) {
							case 0:
								actual = r.Int64N(o.n + 1)
							case 1: // as Release does
								actual = o.n
							}
							calls = append(calls, fmt.Sprintf("%d: Commit(%d) of %d", r.clock.Now(), actual, o.n))
							o.here.Commit(actual)
							require.NoError(t, o.store.Commit(ctx, actual))
							settled++
						case r.IntN(2) == 0:
							leave := r.cost() * r.Int64N(2)
							calls = append(calls, fmt.Sprintf("%d: ReserveLeaving(%q, %d, %d)", r.clock.Now(), key, n, leave))
							here, want := r.here.ReserveLeaving(key, n, leave)
							store, got := r.store.ReserveLeaving(ctx, key, n, leave)
							require.NoError(t, got.Err)
							require.Equal(t, want, got.Decision, "seed %d, limits %v: %q", i, r.limits, calls)
							if want.Allowed {
								reservations = append(reservations, open{here, store, n})
							}
						}
						if r.IntN(4) == 0 {
							calls = append(calls, fmt.Sprintf("%d: TakeUpTo(%q, %d)", r.clock.Now(), key, n))
							there, want := r.here.TakeUpTo(key, n)
							taken, got := r.store.TakeUpTo(ctx, key, n)
							require.NoError(t, got.Err)
							require.Equal(t, want, got.Decision, "seed %d, limits %v: %q", i, r.limits, calls)
							require.Equal(t, there, taken, "seed %d, limits %v: %q", i, r.limits, calls)
							continue
						}
						leave := r.cost() * r.Int64N(2)
						calls = append(calls, fmt.Sprintf("%d: TakeLeaving(%q, %d, %d)", r.clock.Now(), key, n, leave))
						got := r.store.TakeLeaving(ctx, key, n, leave)
						require.NoError(t, got.Err)
						require.Equal(t, r.here.TakeLeaving(key, n, leave), got.Decision, "seed %d, limits %v: %q", i, r.limits, calls)
					}
				}
				assert.Greater(t, settled, 20)
			})
		}
	})
}

// A Commit that was certainly not sent may be tried again; any other is not.
func TestCommit_IsTriedAgainOnlyIfItWasNotSent(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithBreaker(1, time.Second))
	ctx := context.Background()
	r, d := l.Reserve(ctx, "k", 5)
	require.True(t, d.Allowed)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	assert.ErrorIs(t, r.Cancel(gone), context.Canceled)
	s.set(func() { s.err = errAway })
	require.Error(t, l.Reset(ctx, "other"))
	assert.ErrorIs(t, r.Cancel(ctx), sashredis.ErrUnavailable)
	s.set(func() { s.err = nil })
	local.Advance(time.Second)
	assert.NoError(t, r.Cancel(ctx))
	assert.Equal(t, int64(10), l.Peek(ctx, "k", 0).Remaining)

	r, d = l.Reserve(ctx, "k", 5)
	require.True(t, d.Allowed)
	s.set(func() { s.err = errAway })
	assert.ErrorIs(t, r.Cancel(ctx), errAway)
	s.set(func() { s.err = nil })
	local.Advance(time.Second)
	assert.NoError(t, r.Cancel(ctx))
	assert.Equal(t, int64(5), l.Peek(ctx, "k", 0).Remaining, "it may have been settled, so it was not sent again")
}
