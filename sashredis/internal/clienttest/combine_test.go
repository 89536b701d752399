package clienttest

import (
	"context"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// All calls for a key that come while a round trip is under way make one more together, and each
// has an answer of its own.
func TestTake_CallsForAKeyShareARoundTrip(t *testing.T) {
	for _, count := range []int64{50, 200} { // some calls are denied, or none
		for _, limit := range []sash.Limit{
			sash.PerMinute(count).Counter(), sash.PerMinute(count).Log(), sash.PerMinute(count).Buckets(time.Second), sash.PerMinute(count).TokenBucket(count),
			sash.PerMinute(count).Parts(),
		} {
			t.Run(limit.String(), func(t *testing.T) { shareARoundTrip(t, limit) })
		}
	}
}

func shareARoundTrip(t *testing.T, limit sash.Limit) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{limit})
	arrived, release := s.holdUp()

	const calls = 101
	decisions := make(chan sashredis.Decision, calls)
	take := func() { decisions <- l.Take(context.Background(), "k", 1) }
	go take()
	<-arrived
	for range calls - 1 {
		go take()
	}
	eventually(t, "all other calls wait", func() bool { return waiting(l) == calls-1 })
	release()

	left := map[int64]int{}
	denied := int64(0)
	for range calls {
		if d := <-decisions; d.Allowed {
			left[d.Remaining]++
		} else {
			assert.NoError(t, d.Err)
			assert.Equal(t, sashredis.ByStore, d.By)
			denied++
		}
	}
	assert.Equal(t, 2, s.count(), "round trips")
	assert.Equal(t, max(calls-limit.Count, 0), denied)
	for i := range calls - denied {
		assert.Equal(t, 1, left[limit.Count-1-i], "calls that left %d", limit.Count-1-i)
	}
	assert.Equal(t, max(limit.Count-calls, 0), l.Peek(context.Background(), "k", 0).Remaining)
	assert.Equal(t, int64(calls-1), l.Stats().Combined)
	eventually(t, "the flight ends", func() bool { return flights(l) == 0 })
}

// Calls of different costs, Peeks, and calls that leave units or take what there is, are decided in the
// order in which they came, as in round trips of their own.
func TestTake_CallsOfARoundTripAreDecidedInOrder(t *testing.T) {
	type made struct {
		verb     string
		n, leave int64
	}
	calls := []made{
		{"Take", 1, 0}, {"Take", 1, 0}, {"Peek", 1, 0}, {"TakeUpTo", 1, 0}, {"Peek", 3, 0}, {"Take", 9, 0}, {"TakeLeaving", 1, 5}, {"TakeLeaving", 1, 5},
		{"TakeLeaving", 1, 5}, {"TakeLeaving", 1, 4}, {"TakeLeaving", 0, 5}, {"TakeLeaving", 0, 4}, {"TakeLeaving", 6, 5}, {"TakeLeaving", -1, 5},
		{"Take", 1, 0}, {"Take", -1, 0}, {"TakeUpTo", 2, 0}, {"TakeUpTo", 2, 0}, {"TakeUpTo", 2, 0}, {"Take", 0, 0}, {"Take", 1, 0}, {"Peek", 1, 0},
	}
	for _, limit := range []sash.Limit{sash.PerMinute(10).Counter(), sash.PerMinute(10).Log(), sash.PerMinute(10).Buckets(time.Second), sash.PerMinute(10).TokenBucket(10), sash.PerMinute(10).Parts()} {
		s, alone := newStore(t), newStore(t)
		l, _ := s.limiter([]sash.Limit{limit, sash.PerHour(100)}, sashredis.WithMirror(0))
		reference, _ := alone.limiter([]sash.Limit{limit, sash.PerHour(100)}, sashredis.WithMirror(0))
		arrived, release := s.holdUp()
		go l.Peek(context.Background(), "k", 1)
		<-arrived

		type answer struct {
			sashredis.Decision
			taken int64
		}
		got := make([]answer, len(calls))
		var wg sync.WaitGroup
		call := func(l *sashredis.Limiter, c made) (a answer) {
			ctx := context.Background()
			switch c.verb {
			case "Take":
				a.Decision = l.Take(ctx, "k", c.n)
			case "Peek":
				a.Decision = l.Peek(ctx, "k", c.n)
			case "TakeLeaving":
				a.Decision = l.TakeLeaving(ctx, "k", c.n, c.leave)
			case "TakeUpTo":
				a.taken, a.Decision = l.TakeUpTo(ctx, "k", c.n)
			}
			return a
		}
		for i, c := range calls {
			wg.Go(func() { got[i] = call(l, c) })
			eventually(t, "the call waits", func() bool { return waiting(l) == i+1 })
		}
		release()
		wg.Wait()
		assert.Equal(t, 2, s.count(), "round trips")
		for i, c := range calls {
			assert.Equal(t, call(reference, c), got[i], "%v: call %d: %v", limit, i, c)
		}
	}
}

// A call that gives up before it was sent is not charged. The others have their answers.
func TestTake_ACallThatGivesUpInTimeIsNotSent(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)})
	arrived, release := s.holdUp()
	var wg sync.WaitGroup
	wg.Go(func() { assert.True(t, l.Allow(context.Background(), "k")) })
	<-arrived

	ctx, cancel := context.WithCancel(context.Background())
	var gaveUp sashredis.Decision
	first := make(chan struct{})
	go func() { gaveUp = l.Take(ctx, "k", 1); close(first) }()
	eventually(t, "the first waits", func() bool { return waiting(l) == 1 })
	wg.Go(func() { assert.Equal(t, int64(8), l.Take(context.Background(), "k", 1).Remaining) })
	eventually(t, "both wait", func() bool { return waiting(l) == 2 })
	cancel()
	<-first
	release()
	wg.Wait()

	assert.False(t, gaveUp.Allowed)
	assert.Equal(t, sashredis.ByFallback, gaveUp.By)
	assert.ErrorIs(t, gaveUp.Err, context.Canceled)
	assert.Equal(t, int64(8), l.Peek(context.Background(), "k", 0).Remaining)
}

// The caller that makes a round trip may give up: those that wait do not depend on it.
func TestTake_ACallerThatGivesUpHoldsUpNobody(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)})
	arrived, release := s.holdUp()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		d := l.Take(ctx, "k", 1)
		assert.ErrorIs(t, d.Err, context.Canceled)
	})
	<-arrived
	wg.Go(func() { assert.Equal(t, int64(9), l.Take(context.Background(), "k", 1).Remaining) })
	eventually(t, "the other waits", func() bool { return waiting(l) == 1 })
	cancel()
	<-arrived // the round trip of the other
	release()
	wg.Wait()
	assert.Equal(t, int64(0), l.Stats().Failures, "a caller that gives up says nothing about the store")
}

// A Conn that panics takes down its caller alone.
func TestTake_AConnThatPanicsHoldsUpNobody(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)})
	s.set(func() { s.before = func() { s.set(func() { s.before = nil }); panic("test") } })
	assert.PanicsWithValue(t, "test", func() { l.Allow(context.Background(), "k") })
	require.Zero(t, flights(l))
	assert.True(t, l.Allow(context.Background(), "k"))

	// So do those that share a round trip, each in its own goroutine.
	arrived, release := s.holdUp()
	go l.Allow(context.Background(), "k")
	<-arrived
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { assert.PanicsWithValue(t, "test", func() { l.Allow(context.Background(), "k") }) })
	}
	eventually(t, "they wait", func() bool { return waiting(l) == 3 })
	s.set(func() { s.before = func() { panic("test") } }) // the first has read what to do
	release()
	wg.Wait()
	s.set(func() { s.before = nil })
	eventually(t, "the flight ends", func() bool { return flights(l) == 0 })
	assert.True(t, l.Allow(context.Background(), "k"))
}

// A Conn that ends its goroutine fails the calls that share its round trip, and no others.
func TestTake_AConnThatEndsItsGoroutine(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithFallback(sashredis.FallbackAdmit))
	arrived, release := s.holdUp()
	decisions := make(chan sashredis.Decision, 10)
	call := func() { decisions <- l.Take(t.Context(), "k", 1) }
	go call()
	<-arrived
	go call()
	go call()
	eventually(t, "two calls wait", func() bool { return waiting(l) == 2 })
	s.set(func() {
		s.arrive = func() {
			go call() // waits for the round trip that ends so
			eventually(t, "a call waits", func() bool { return waiting(l) == 1 })
			s.set(func() { s.arrive = nil })
			runtime.Goexit()
		}
	})
	release()
	var faults []string
	for range 4 {
		if d := <-decisions; d.By == sashredis.ByFallback {
			faults = append(faults, d.Err.Error())
		} else {
			assert.Equal(t, sashredis.ByStore, d.By)
		}
	}
	const ended = "sashredis: the Conn has ended its goroutine"
	assert.ElementsMatch(t, []string{ended, ended, "not sent, as an earlier call for the key has failed: " + ended}, faults)
	assert.Equal(t, sashredis.ByStore, l.Take(t.Context(), "k", 1).By)
}

// So does a WithHashTag that panics, also for calls that share a round trip.
func TestTake_AHashTagThatPanicsTakesDownItsCallerAlone(t *testing.T) {
	s := newStore(t)
	var panics atomic.Bool
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithHashTag(func(key string) string {
		if panics.Load() {
			panic("tag")
		}
		return key
	}))
	arrived, release := s.holdUp()
	first := make(chan bool)
	go func() { first <- l.Allow(context.Background(), "k") }()
	<-arrived
	second := make(chan bool)
	go func() { second <- l.Allow(context.Background(), "k") }()
	eventually(t, "it waits", func() bool { return waiting(l) == 1 })
	panics.Store(true) // no goroutine but a caller's may find out
	release()
	assert.True(t, <-first)
	assert.True(t, <-second)
	assert.PanicsWithValue(t, "tag", func() { l.Allow(context.Background(), "k") })
	panics.Store(false)
	assert.True(t, l.Allow(context.Background(), "k"))
}

// Calls under other limits, on other keys, and reservations do not wait for one another.
func TestTake_OnlyLikeCallsShareARoundTrip(t *testing.T) {
	s := newStore(t)
	plan := sash.PerMinute(10).Counter()
	l, _ := s.limiter(nil, sashredis.WithLimitsFor(func(string) []sash.Limit { return []sash.Limit{plan} }))
	arrived, release := s.holdUp()
	var wg sync.WaitGroup
	wg.Go(func() { l.Allow(context.Background(), "k") })
	<-arrived
	wg.Go(func() { l.Allow(context.Background(), "other") })
	<-arrived
	wg.Go(func() { l.Reserve(context.Background(), "k", 1) })
	<-arrived
	wg.Go(func() { l.TakeAll(context.Background(), []string{"k", "other"}, 1) })
	<-arrived
	plan = sash.PerMinute(20).Counter()
	wg.Go(func() { l.Allow(context.Background(), "k") })
	<-arrived
	release()
	wg.Wait()
	assert.Equal(t, 5, s.count())
	assert.Equal(t, int64(16), l.Peek(context.Background(), "k", 0).Remaining, "all count, under the larger limit as well")
}

// No name of a key makes one call take part in the round trip of another.
func TestTakeAll_NoNameIsTakenForSeveral(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(20)}, sashredis.WithMirror(0))
	ctx := context.Background()
	require.True(t, l.TakeAll(ctx, []string{"x", "y"}, 20).Allowed)
	arrived, release := s.holdUp()
	forged := []string{"x:c60000000\x00c 60000000 20;\x00sash:y", "z"}
	var wg sync.WaitGroup
	wg.Go(func() { l.TakeAll(ctx, forged, 1) })
	<-arrived
	wg.Go(func() { l.TakeAll(ctx, forged, 1) })
	eventually(t, "it waits", func() bool { return waiting(l) == 1 })
	wg.Go(func() { assert.False(t, l.TakeAll(ctx, []string{"x", "y", "z"}, 1).Allowed) })
	<-arrived
	release()
	wg.Wait()
}

// If the store does not answer, no call waits for more than the round trip under way and one more,
// however many calls there are and whatever they cost.
func TestTake_AllThatWaitAreToldThatTheStoreDoesNotAnswer(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1_000_000)}, sashredis.WithBreaker(100, time.Second))
	arrived, release := s.holdUp()
	var wg sync.WaitGroup
	wg.Go(func() { l.Allow(context.Background(), "k") })
	<-arrived
	const calls, sent = 2000, 512
	var failed, unsent atomic.Int64
	for i := range calls {
		wg.Go(func() {
			err := l.Take(context.Background(), "k", int64(i+1)).Err
			assert.ErrorIs(t, err, errAway)
			if strings.HasPrefix(err.Error(), "not sent, as an earlier call for the key has failed: ") {
				unsent.Add(1)
			} else {
				failed.Add(1)
			}
		})
	}
	eventually(t, "they wait", func() bool { return waiting(l) == calls })
	s.set(func() { s.err = errAway })
	release()
	wg.Wait()
	assert.Equal(t, 2, s.count())
	assert.Equal(t, int64(sent), failed.Load())
	assert.Equal(t, int64(calls-sent), unsent.Load())
	eventually(t, "the flight ends", func() bool { return flights(l) == 0 })
}

// Many calls may give up at once.
func TestTake_ManyGiveUp(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(1_000_000)})
	arrived, release := s.holdUp()
	var wg sync.WaitGroup
	wg.Go(func() { l.Allow(context.Background(), "k") })
	<-arrived
	ctx, cancel := context.WithCancel(context.Background())
	for range 1000 {
		wg.Go(func() { assert.ErrorIs(t, l.Take(ctx, "k", 1).Err, context.Canceled) })
	}
	wg.Go(func() { assert.True(t, l.Allow(context.Background(), "k")) })
	eventually(t, "they wait", func() bool { return waiting(l) == 1001 })
	cancel()
	release()
	wg.Wait()
	eventually(t, "the flight ends", func() bool { return flights(l) == 0 })
}

// A Wait whose call was not sent, since a call before it failed, says that it is not charged.
func TestWait_ThatWasNotSent(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)})
	hold := make(chan struct{})
	arrived := make(chan struct{}, 10)
	s.set(func() { s.arrived, s.hold = arrived, hold })
	ctx := context.Background()
	var wg sync.WaitGroup
	wg.Go(func() { assert.True(t, l.Take(ctx, "k", 1).Allowed) })
	<-arrived
	wg.Go(func() { assert.ErrorIs(t, l.Take(ctx, "k", 2).Err, errAway) })
	eventually(t, "a call waits", func() bool { return waiting(l) == 1 })
	s.set(func() { s.err = errAway })
	hold <- struct{}{} // the first round trip ends
	<-arrived
	wg.Go(func() {
		err := l.Wait(ctx, "k", 3)
		assert.ErrorIs(t, err, errAway)
		assert.ErrorContains(t, err, "it is not charged: not sent")
	})
	eventually(t, "the Wait waits", func() bool { return waiting(l) == 1 })
	close(hold)
	wg.Wait()
	assert.Equal(t, 2, s.count(), "round trips")
}
