package clienttest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// valueOf is the key of the name of a call in its context, and of a round trip in what a hook makes of it.
type valueOf struct{ of string }

func withName(ctx context.Context, of, name string) context.Context {
	return context.WithValue(ctx, valueOf{of}, name)
}

// A Conn sees the values of the context of a call, also if the call has waited for another round trip, and does
// not end with it if others share it. A hook gets the contexts of all.
func TestRoundTripHook_KnowsTheCallsOfARoundTrip(t *testing.T) {
	s := newStore(t)
	type trip struct {
		first string
		calls []any
		err   error
	}
	trips := make(chan *trip, 10)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithRoundTripHook(
		func(ctx context.Context, calls []context.Context) (context.Context, func(error)) {
			made := &trip{first: ctx.Value(valueOf{"call"}).(string)}
			for _, c := range calls {
				made.calls = append(made.calls, c.Value(valueOf{"call"}))
			}
			return withName(ctx, "trip", made.first), func(err error) { made.err = err; trips <- made }
		}))
	seen := make(chan any, 10)
	conn := s.conn
	s.conn = connFunc(func(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
		seen <- ctx.Value(valueOf{"trip"})
		return conn.Run(ctx, script, keys, args)
	})
	call := func(ctx context.Context, name string) (r sashredis.Reservation, d sashredis.Decision) {
		return l.Reserve(withName(ctx, "call", name), "k", 1)
	}

	arrived, release := s.holdUp()
	go call(t.Context(), "alone")
	<-arrived
	givesUp, cancel := context.WithCancel(t.Context())
	go call(givesUp, "first")
	eventually(t, "the first call waits", func() bool { return waiting(l) == 1 })
	done := make(chan sashredis.Decision)
	go func() { _, d := call(t.Context(), "second"); done <- d }()
	eventually(t, "the second call waits", func() bool { return waiting(l) == 2 })
	s.set(func() { s.arrive = cancel }) // the first gives up once it is on its way
	release()
	assert.True(t, (<-done).Allowed)
	assert.Equal(t, &trip{"alone", []any{"alone"}, nil}, <-trips)
	assert.Equal(t, &trip{"first", []any{"first", "second"}, nil}, <-trips)
	assert.Equal(t, []any{"alone", "first"}, []any{<-seen, <-seen})

	// A script that decides no call is made for its caller.
	s.set(func() { s.arrive = nil })
	r, _ := call(t.Context(), "reserves")
	require.NoError(t, r.Cancel(withName(t.Context(), "call", "cancels")))
	<-trips
	assert.Equal(t, &trip{"cancels", []any{"cancels"}, nil}, <-trips)

	// It is told how a round trip has ended.
	s.set(func() { s.err = errAway })
	call(t.Context(), "fails")
	assert.Equal(t, &trip{"fails", []any{"fails"}, errAway}, <-trips)
	s.set(func() { s.arrive = func() { panic(errAway) } })
	assert.PanicsWithValue(t, errAway, func() { call(t.Context(), "panics") })
	assert.EqualError(t, (<-trips).err, "sashredis: the Conn panicked")
}

func TestRoundTripHook_IsNotNil(t *testing.T) {
	_, err := sashredis.New(newStore(t), []sash.Limit{sash.PerSecond(1)}, sashredis.WithFallback(sashredis.FallbackDeny),
		sashredis.WithRoundTripHook(nil))
	assert.True(t, errors.Is(err, sash.ErrInvalidOption))
	assert.ErrorContains(t, err, "WithRoundTripHook: f must not be nil")
}

// What has the context of a call finds no values there once the call has given up: neither the Conn nor a hook.
func TestRoundTripHook_HasNoContextOfACallThatHasReturned(t *testing.T) {
	s := newStore(t)
	hooked := make(chan []context.Context, 10)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithRoundTripHook(
		func(ctx context.Context, calls []context.Context) (context.Context, func(error)) {
			hooked <- append([]context.Context{ctx}, calls...)
			return ctx, func(error) {}
		}))
	arrived, leave := make(chan struct{}), make(chan struct{})
	conn := s.conn
	s.conn = connFunc(func(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
		arrived <- struct{}{}
		<-leave
		return conn.Run(ctx, script, keys, args)
	})
	call := func(ctx context.Context, name string) { l.Take(withName(ctx, "call", name), "k", 1) }

	go call(t.Context(), "alone")
	<-arrived
	givesUp, cancel := context.WithCancel(t.Context())
	var first, second sync.WaitGroup
	first.Go(func() { call(givesUp, "first") })
	eventually(t, "the first call waits", func() bool { return waiting(l) == 1 })
	second.Go(func() { call(t.Context(), "second") })
	eventually(t, "the second call waits", func() bool { return waiting(l) == 2 })
	<-hooked
	leave <- struct{}{}
	<-arrived
	contexts := <-hooked
	names := func() (names []any) {
		for _, ctx := range contexts {
			names = append(names, ctx.Value(valueOf{"call"}))
		}
		return names
	}
	assert.Equal(t, []any{"first", "first", "second"}, names())
	cancel()
	first.Wait()
	assert.Equal(t, []any{nil, nil, "second"}, names())
	leave <- struct{}{}
	second.Wait()
	assert.Equal(t, []any{nil, nil, nil}, names())
}
