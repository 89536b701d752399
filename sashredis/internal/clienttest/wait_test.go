package clienttest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// waits are the ways to wait for units of the key "k".
var waits = map[string]func(ctx context.Context, l *sashredis.Limiter, n int64) error{
	"Wait":        func(ctx context.Context, l *sashredis.Limiter, n int64) error { return l.Wait(ctx, "k", n) },
	"WaitLeaving": func(ctx context.Context, l *sashredis.Limiter, n int64) error { return l.WaitLeaving(ctx, "k", n, 1) },
	"WaitReserve": func(ctx context.Context, l *sashredis.Limiter, n int64) error {
		_, err := l.WaitReserve(ctx, "k", n)
		return err
	},
}

// A call that is behind another one that sleeps fails at once, as the first does, if this process knows that it is
// sure to fail. It asks no store for that, and charges nothing.
func TestWait_FailsAtOnceBehindAnother(t *testing.T) {
	for name, wait := range waits {
		for _, keys := range []int{0, 100} {
			synctest.Test(t, func(t *testing.T) {
				s := newBubbleStore()
				l := newOn(t, s, []sash.Limit{sash.PerHour(3).Log()}, sashredis.WithMirror(keys))
				require.True(t, l.Take(t.Context(), "k", 3).Allowed)
				var o line
				o.wait(t, l, "first", 1, 0)
				soon, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				for _, c := range []struct {
					l    *sashredis.Limiter
					n    int64
					want error
				}{
					{l, 5, sash.ErrExceedsLimit}, {l, -1, sash.ErrExceedsLimit}, {l, 1, context.DeadlineExceeded},
					{l.WithLimits(sash.Limit{Count: 5, Window: 1}), 1, sash.ErrInvalidLimit},
				} {
					if c.want == context.DeadlineExceeded && keys == 0 {
						continue // only the store knows
					}
					began, trips := time.Now(), s.trips()
					require.ErrorIs(t, wait(soon, c.l, c.n), c.want, name)
					require.Equal(t, began, time.Now(), "%s of %d units", name, c.n)
					require.Equal(t, trips, s.trips())
				}
				require.Equal(t, 1, inside(l).Queued)
				time.Sleep(time.Hour)
				names, _ := o.admitted()
				require.Equal(t, []string{"first"}, names)
				require.EqualValues(t, 2, l.Peek(t.Context(), "k", 0).Remaining)
			})
		}
	}
}

// The units of a lease are there for a call that is behind a larger one, although the store has none.
func TestWait_BehindOthersForUnitsOfALease(t *testing.T) {
	s := newStore(t)
	limits := []sash.Limit{sash.PerHour(1000).Counter()}
	l, _ := s.limiter(limits, sashredis.WithLease(100, time.Hour))
	other, _ := s.limiter(limits)
	for l.Stats().Leased == 0 {
		require.True(t, l.Allow(t.Context(), "k"))
	}
	require.True(t, other.Take(t.Context(), "k", other.Peek(t.Context(), "k", 0).Remaining).Allowed)
	asked := func() int64 { return l.Stats().Store + l.Stats().Mirror }
	before := asked()
	first, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- l.Wait(first, "k", 900) }()
	eventually(t, "it has asked", func() bool { return asked() == before+1 })
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	second := make(chan error)
	go func() { second <- l.Wait(soon, "k", 1) }()
	eventually(t, "it waits", func() bool { return inside(l).Queued == 2 })
	leave()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, <-second)
}

// A lateContext has a deadline that is over, and has not ended yet, as its timer is late.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// An error of a deadline does not tell that a context ends in less than no time.
func TestWait_WhoseTimerIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newOn(t, newBubbleStore(), []sash.Limit{sash.PerHour(1).Log()})
		require.True(t, l.Allow(t.Context(), "k"))
		err := l.Wait(lateContext{t.Context()}, "k", 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the context ends in 0s: ")
	})
}
