package clienttest

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A bubbleStore is a store in a bubble of testing/synctest, whose time it has.
type bubbleStore struct {
	scriptStore
	mu   sync.Mutex
	runs int
}

func (s *bubbleStore) Run(_ context.Context, script *sashredis.Script, keys, args []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	s.now = time.Now().UnixMicro()
	return s.run(script, keys, args)
}

// trips returns the round trips so far, once no goroutine of the bubble can go on.
func (s *bubbleStore) trips() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func newBubbleStore() *bubbleStore { return &bubbleStore{scriptStore: *newScriptStore()} }

// A line is calls that wait, in the order in which they were admitted, and when.
type line struct {
	mu    sync.Mutex
	names []string
	at    []time.Duration
}

// wait begins a call that waits on l.
func (o *line) wait(t *testing.T, l *sashredis.Limiter, name string, n, leave int64) {
	go func() {
		assert.NoError(t, l.WaitLeaving(t.Context(), "k", n, leave))
		o.mu.Lock()
		defer o.mu.Unlock()
		o.names, o.at = append(o.names, name), append(o.at, time.Since(bubbleBegins).Truncate(time.Second))
	}()
	synctest.Wait()
}

// admitted returns the names of the calls that were admitted, and when, once no goroutine of the bubble can
// go on.
func (o *line) admitted() ([]string, []time.Duration) {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.names), slices.Clone(o.at)
}

var bubbleBegins = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Calls in the background wait until the units that they must leave are there, too. Urgent calls of the
// process that come later go before them.
func TestWaitLeaving_UrgentCallsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleStore()
		l := newOn(t, s, []sash.Limit{sash.PerMinute(10).Log()})
		var o line
		ctx := t.Context()
		require.True(t, l.Take(ctx, "k", 6).Allowed)
		time.Sleep(10 * time.Second)
		require.True(t, l.Take(ctx, "k", 3).Allowed) // one is left; 6 come back at 60 s, and 3 at 70 s
		o.wait(t, l, "background", 1, 4)
		o.wait(t, l, "further in the background", 1, 6)
		o.wait(t, l, "urgent, at once", 1, 0)
		names, _ := o.admitted()
		require.Equal(t, []string{"urgent, at once"}, names, "it is not behind the others")
		o.wait(t, l, "urgent", 4, 0)
		o.wait(t, l, "also urgent", 1, 0)
		time.Sleep(3 * time.Minute)
		names, at := o.admitted()
		slices.Sort(names[1:3]) // both are admitted at one instant
		require.Equal(t, []string{"urgent, at once", "also urgent", "urgent", "background", "further in the background"}, names)
		require.Equal(t, []time.Duration{10 * time.Second, time.Minute, time.Minute, 70 * time.Second, 120 * time.Second}, at)
		require.Zero(t, inside(l).Queued)
	})
}

// A call in the background that has lost its turn to an urgent one asks the store no more until that is
// admitted, although its own wait is over.
func TestWaitLeaving_WithoutItsTurnItDoesNotAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleStore()
		clock := sash.SystemClock()
		l := newOn(t, s, []sash.Limit{sash.PerMinute(10).Log()}, sashredis.WithCallerClock(clock)) // without a mirror
		var o line
		require.True(t, l.Take(t.Context(), "k", 2).Allowed)
		time.Sleep(30 * time.Second)
		require.True(t, l.Take(t.Context(), "k", 7).Allowed) // one is left, 2 come back at 60 s, and 7 at 90 s
		o.wait(t, l, "background", 1, 1)                     // until 60 s
		o.wait(t, l, "urgent", 9, 0)                         // until 90 s
		before := s.trips()
		time.Sleep(50 * time.Second)
		require.Equal(t, before, s.trips())
		names, _ := o.admitted()
		require.Empty(t, names)
		time.Sleep(2 * time.Minute)
		names, at := o.admitted()
		require.Equal(t, []string{"urgent", "background"}, names)
		require.Equal(t, []time.Duration{90 * time.Second, 150 * time.Second}, at)
	})
}

// Between processes there is no order: a call in the background of one waits for as long as the urgent calls
// of another leave it nothing, and no longer.
func TestWaitLeaving_OfSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleStore()
		limits := []sash.Limit{sash.PerMinute(10).TokenBucket(10)} // one unit in 6 s
		l, other := newOn(t, s, limits), newOn(t, s, limits)
		var o line
		require.True(t, l.Take(t.Context(), "k", 10).Allowed)
		o.wait(t, l, "background", 1, 4) // until 5 units are there
		for range 10 {
			time.Sleep(6 * time.Second)
			o.wait(t, other, "urgent", 1, 0)
		}
		names, _ := o.admitted()
		require.Equal(t, slices.Repeat([]string{"urgent"}, 10), names)
		time.Sleep(36 * time.Second)
		names, _ = o.admitted()
		require.Equal(t, "background", names[10:][0])
	})
}

func TestWaitLeaving_Fails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newOn(t, newBubbleStore(), []sash.Limit{sash.PerMinute(10).Log()})
		err := l.WaitLeaving(t.Context(), "k", 7, 4)
		require.ErrorIs(t, err, sash.ErrExceedsLimit)
		require.EqualError(t, err, "sashredis: Wait: 10/1m0s log never admits 7 and leaves 4: exceeds the limit")
		require.ErrorIs(t, l.WaitLeaving(t.Context(), "k", 2, math.MaxInt64), sash.ErrExceedsLimit)
		require.ErrorIs(t, l.WaitLeaving(t.Context(), "k", -1, 4), sash.ErrExceedsLimit)
		require.NoError(t, l.WaitLeaving(t.Context(), "k", 6, 4))

		// A minute is the least wait, of one unit and the four that are left.
		short, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		began := time.Now()
		require.ErrorIs(t, l.WaitLeaving(short, "k", 1, 4), context.DeadlineExceeded)
		require.Equal(t, began, time.Now(), "it fails at once")
		require.NoError(t, l.WaitLeaving(short, "k", 1, -4), "it is a Wait")
		require.Zero(t, inside(l).Queued)
	})
}
