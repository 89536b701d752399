package clienttest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A Release wakes the call of its process that waits next, at once. Calls of WaitReserve and of Wait are in
// one queue.
func TestWaitReserve_AReleaseWakesTheNextOfItsProcess(t *testing.T) {
	inBubble(t, []sash.Limit{sash.AtOnce(1, time.Hour)}, func(t *testing.T, m *memoryStore, l, _ *sashredis.Limiter) {
		ctx := t.Context()
		r, d := l.Reserve(ctx, "k", 1)
		require.True(t, d.Allowed)
		admitted := make(chan sashredis.Reservation, 3)
		for range 2 {
			go func() {
				r, err := l.WaitReserve(ctx, "k", 1)
				assert.NoError(t, err)
				admitted <- r
			}()
			synctest.Wait()
		}
		go func() {
			assert.NoError(t, l.Wait(ctx, "k", 1))
			admitted <- sashredis.Reservation{}
		}()
		for last := range 3 {
			time.Sleep(2*time.Second + 7*time.Millisecond)
			require.Empty(t, admitted)
			began := time.Now()
			require.NoError(t, r.Release(ctx))
			r = <-admitted
			require.Equal(t, began, time.Now(), "it did not wait for its next look")
			require.Equal(t, last == 2, r == sashredis.Reservation{}, "they are admitted in their order")
		}
		require.Zero(t, inside(l).Queued)
	})
}

// A unit that another process gives back admits a WaitReserve at its next look. The unit is then held until it
// is released.
func TestWaitReserve_SeesWhatAnotherProcessGivesBack(t *testing.T) {
	inBubble(t, []sash.Limit{sash.AtOnce(1, time.Hour)}, func(t *testing.T, m *memoryStore, l, other *sashredis.Limiter) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, _ := other.Reserve(ctx, "k", 1)
		m.times()
		time.AfterFunc(30*time.Millisecond, func() { assert.NoError(t, r.Release(t.Context())) })
		r, err := l.WaitReserve(ctx, "k", 1)
		require.NoError(t, err)
		var asked []int64
		for _, at := range m.times() {
			asked = append(asked, at.Milliseconds())
		}
		require.Equal(t, []int64{0, 5, 15, 30, 35}, asked)
		require.False(t, other.Allow(ctx, "k"))
		require.NoError(t, r.Release(ctx))
		require.True(t, other.Allow(ctx, "k"))
	})
}

// A slowStore answers late.
type slowStore struct {
	memoryStore
	late time.Duration
}

func (s *slowStore) Run(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
	reply, err := s.memoryStore.Run(ctx, script, keys, args)
	select {
	case <-time.After(s.late):
		return reply, err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// If ctx ends while the store decides, the call ends at once. All that it was admitted for is given back, and
// the next call that waits goes on.
func TestWaitReserve_GivesBackWhatComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{memoryStore{store: newScriptStore(), began: time.Now()}, 20 * time.Millisecond}
		l := newOn(t, s, []sash.Limit{sash.PerHour(10).Log(), sash.AtOnce(3, time.Hour)})
		short, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		next := make(chan sashredis.Reservation, 1)
		time.AfterFunc(time.Millisecond, func() {
			r, err := l.WaitReserve(t.Context(), "k", 2)
			assert.NoError(t, err)
			next <- r
		})
		r, err := l.WaitReserve(short, "k", 3)
		require.Equal(t, context.DeadlineExceeded, err)
		require.Equal(t, 5*time.Millisecond, time.Since(s.began))
		require.Equal(t, sashredis.Reservation{}, r)
		require.Len(t, s.times(), 1, "it was sent")
		r = <-next
		require.Less(t, time.Since(s.began), time.Second, "it was woken, and did not wait for a lease")
		require.NoError(t, r.Release(t.Context()))
		time.Sleep(time.Second)
		d := l.Peek(t.Context(), "k", 3)
		require.True(t, d.Allowed, "nothing is held")
		require.Equal(t, int64(3), d.Limit.Count)
		_, d = l.Reserve(t.Context(), "k", 3)
		require.True(t, d.Allowed)
		require.Equal(t, int64(0), d.Remaining)
	})
}

// If giving back fails, or the Conn panics, the units are held until their lease ends, and the program goes on.
func TestWaitReserve_WhatCannotBeGivenBackIsHeld(t *testing.T) {
	for name, fails := range map[string]func(){"an error": func() {}, "a panic": func() { panic("the Conn is at fault") }} {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{sash.AtOnce(1, time.Minute)})
		ctx, cancel := context.WithCancel(context.Background())
		tried := make(chan struct{})
		s.set(func() {
			s.after = func() {
				cancel()
				eventually(t, "the call has ended", func() bool { return inside(l).Queued == 0 })
				s.set(func() {
					s.after, s.err = nil, errAway
					s.arrive = func() {
						defer close(tried)
						fails()
					}
				})
			}
		})
		_, err := l.WaitReserve(ctx, "k", 1)
		require.Equal(t, context.Canceled, err, name)
		<-tried
		s.set(func() { s.arrive, s.err = nil, nil })
		require.False(t, l.Allow(context.Background(), "k"), name)
		s.advance(time.Minute)
		require.True(t, l.Allow(context.Background(), "k"), name)
	}
}

// What the store does not answer to is decided by the fallback. Its share is held and given back here.
func TestWaitReserve_OfAShare(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.AtOnce(4, time.Minute)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)),
		sashredis.WithBreaker(1, time.Hour))
	ctx := context.Background()
	s.set(func() { s.err = errAway })
	r, err := l.WaitReserve(ctx, "k", 2)
	require.NoError(t, err)
	require.False(t, l.Allow(ctx, "k"))
	next := make(chan error)
	go func() {
		_, err := l.WaitReserve(ctx, "k", 2)
		next <- err
	}()
	eventually(t, "it waits", func() bool { return inside(l).Queued == 1 })
	sent := s.count()
	require.NoError(t, r.Release(ctx))
	require.NoError(t, <-next)
	require.Equal(t, sent, s.count())
	require.False(t, l.Allow(ctx, "k"))
}

// An endedContext may have ended although its channel is not closed yet.
type endedContext struct {
	context.Context
	ended atomic.Bool
}

func (c *endedContext) Err() error {
	if c.ended.Load() {
		return context.DeadlineExceeded
	}
	return c.Context.Err()
}

// A call whose context has ended does not take what the fallback admits: that is given back.
func TestWaitReserve_DoesNotHoldAShareWhenItHasEnded(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.AtOnce(4, time.Minute)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 2)))
	inner, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx := &endedContext{Context: inner}
	s.set(func() { s.err, s.arrive = errAway, func() { ctx.ended.Store(true) } })
	_, err := l.WaitReserve(ctx, "k", 2)
	require.Equal(t, context.DeadlineExceeded, err)
	require.True(t, l.Take(context.Background(), "k", 2).Allowed)
}

func TestWaitReserve_Fails(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerHour(2).Log(), sash.AtOnce(5, time.Minute)}, sashredis.WithLimitsFor(func(key string) []sash.Limit {
		switch key {
		case "wrong":
			return []sash.Limit{{Count: 5, Window: 1}}
		case "free":
			return []sash.Limit{sash.Unlimited()}
		}
		return nil
	}))
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	soon, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := l.WaitReserve(ctx, "k", 0)
	require.NoError(t, err)
	require.NoError(t, r.Commit(ctx, 2), "which charges both")
	for _, c := range []struct {
		ctx  context.Context
		key  string
		n    int64
		want error
	}{
		{ctx, "k", 3, sash.ErrExceedsLimit},
		{ctx, "k", -1, sash.ErrExceedsLimit},
		{ctx, "free", -1, sash.ErrExceedsLimit},
		{ctx, "wrong", 1, sash.ErrInvalidLimit},
		{ended, "k", 1, context.Canceled},
		{ended, "free", 1, context.Canceled},
		{soon, "k", 1, context.DeadlineExceeded}, // for an hour, it is sure to be denied
		{ctx, "free", 1 << 60, nil},
	} {
		began := s.count()
		r, err := l.WaitReserve(c.ctx, c.key, c.n)
		assert.Equal(t, sashredis.Reservation{}, r, "%+v", c)
		assert.True(t, errors.Is(err, c.want), "%+v: %v", c, err)
		assert.LessOrEqual(t, s.count(), began+1)
		assert.NoError(t, r.Release(ctx))
	}
	require.Zero(t, inside(l).Queued)
}
