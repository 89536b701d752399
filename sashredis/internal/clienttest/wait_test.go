package clienttest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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

// A call that is behind another one that sleeps fails at once, as the first does, if it is sure to fail. It asks
// the store once at most for that, and charges nothing.
func TestWait_FailsAtOnceBehindAnother(t *testing.T) {
	for name, wait := range waits {
		for _, mirror := range mirrorOrNone {
			synctest.Test(t, func(t *testing.T) {
				s := newBubbleStore()
				l := newOn(t, s, []sash.Limit{sash.PerHour(3).Log()}, mirror)
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
					began, trips := time.Now(), s.trips()
					require.ErrorIs(t, wait(soon, c.l, c.n), c.want, name)
					require.Equal(t, began, time.Now(), "%s of %d units", name, c.n)
					require.LessOrEqual(t, s.trips(), trips+1)
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

// A call that is behind others looks once, however often it is woken. The mirror answers that for nothing.
func TestWait_LooksOnceBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleStore()
		l := newOn(t, s, []sash.Limit{sash.PerHour(1).Log()})
		require.True(t, l.Allow(t.Context(), "k"))
		var o line
		o.wait(t, l, "first", 1, 0)
		trips, before := s.trips(), l.Stats()
		o.wait(t, l, "second", 1, 0)
		o.wait(t, l, "third", 1, 0)
		require.Equal(t, trips, s.trips())
		require.Equal(t, before.Mirror+2, l.Stats().Mirror, "each look counts as a Peek")
		time.Sleep(3*time.Hour + time.Second)
		names, _ := o.admitted()
		require.Equal(t, []string{"first", "second", "third"}, names)
		asked := func(s sashredis.Stats) int64 { return s.Store + s.Mirror }
		require.Equal(t, asked(before)+7, asked(l.Stats()), "the first asks once more, and each other twice after its look")
	})
}

// What the store does not answer says nothing of a call that is behind others, but that no limit ever admits it.
func TestWait_BehindOthersOfAStoreThatIsAway(t *testing.T) {
	for _, f := range []sashredis.Fallback{sashredis.FallbackDeny, sashredis.FallbackLocal(1, 2)} {
		s := newStore(t)
		l, local := s.limiter([]sash.Limit{sash.PerHour(2).Log()}, sashredis.WithFallback(f), sashredis.WithBreaker(1, time.Hour))
		s.set(func() { s.err = errAway })
		l.Take(t.Context(), "k", 1) // all of the share
		first, leave := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- l.Wait(first, "k", 1) }()
		eventually(t, "it waits", func() bool { return inside(l).Queued == 1 && l.Stats().Fallback == 2 })
		require.ErrorIs(t, l.Wait(t.Context(), "k", 3), sash.ErrExceedsLimit, "%v", f)
		soon, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		second := make(chan error)
		go func() { second <- l.Wait(soon, "k", 1) }()
		eventually(t, "it has looked", func() bool { return inside(l).Queued == 2 && l.Stats().Fallback == 4 })
		s.set(func() { s.err = nil })
		local.Advance(time.Hour) // the store is asked again; the first may be admitted now
		leave()
		<-ended
		require.NoError(t, <-second, "%v", f)
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
	eventually(t, "it has looked", func() bool { return asked() == before+2 })
	leave()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, <-second)
}

// A context that ends while a call looks ends the call.
func TestWait_EndsWhileItLooks(t *testing.T) {
	for name, wait := range waits {
		synctest.Test(t, func(t *testing.T) {
			s := &slowStore{memoryStore{store: newScriptStore(), began: time.Now()}, 20 * time.Millisecond}
			l := newOn(t, s, []sash.Limit{sash.PerHour(2).Log()}, sashredis.WithMirror(0))
			go func() { assert.NoError(t, l.Wait(t.Context(), "k", 2)) }()
			synctest.Wait()
			for _, n := range []int64{1, 5} {
				began := time.Now()
				short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				require.Equal(t, context.DeadlineExceeded, wait(short, l, n), name)
				require.Equal(t, 5*time.Millisecond, time.Since(began))
				cancel()
			}
			time.Sleep(time.Second)
			require.Zero(t, inside(l).Queued)
		})
	}
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
