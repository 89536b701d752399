package clienttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// New names every fault at once, and says what was given.
func TestNew_NamesEveryFault(t *testing.T) {
	_, err := sashredis.New(nil, []sash.Limit{
		{Count: -1, Window: time.Second},
	}, sashredis.WithPrefix("a{b"), sashredis.WithTimeout(0), sashredis.WithMirror(-1), sashredis.WithLease(1, 0),
		sashredis.WithBreaker(0, -1), nil, sashredis.WithMaxAhead(0), sashredis.WithHashTag(nil), sashredis.WithLimitsFor(nil), sashredis.WithCallerClock(nil))
	require.Error(t, err)
	for _, part := range []string{
		"conn must not be nil", "Count must be >= 0, got -1", `a prefix must not contain { or }, got "a{b"`, "WithTimeout: d must be > 0, got 0s",
		"WithMirror: keys must be from 0 to 1073741824, got -1", "units must be from 2 to 2^51-1, got 1", "d must be at least 1ms, got 0s",
		"failures must be >= 1, got 0", "WithMaxAhead: windows must be from 1 to 2^20, got 0", "pause must be > 0, got -1ns", "option 6: must not be nil", "WithHashTag: f", "WithLimitsFor: f",
		"WithCallerClock: clock", "New needs WithFallback(FallbackDeny, FallbackAdmit or FallbackLocal)",
	} {
		assert.ErrorContains(t, err, part)
	}
	assert.ErrorIs(t, err, sash.ErrInvalidLimit)
	assert.ErrorIs(t, err, sash.ErrInvalidOption)
	_, err = sashredis.New(newStore(t), nil, sashredis.WithFallback(sashredis.FallbackLocal(3, 2)))
	assert.ErrorIs(t, err, sash.ErrNoLimit)
	assert.ErrorContains(t, err, "a share must be more than 0 and at most 1, got 3/2")
}

// A limit that a store cannot keep exactly is refused, and says why.
func TestNew_RefusesLimitsThatAreNotExact(t *testing.T) {
	conn := newStore(t)
	for limit, fault := range map[sash.Limit]string{
		sash.Per(5, time.Microsecond+1):                            "Window must be whole microseconds, got 1.001µs",
		sash.Per(5, 999*time.Nanosecond).Log():                     "Window must be whole microseconds, got 999ns",
		sash.Per(5, 160*time.Nanosecond).Parts():                   "Window must be whole microseconds, got 160ns",
		sash.Per(5, time.Second).Buckets(time.Microsecond * 3 / 2): "Precision must be whole microseconds, got 1.5µs",
		sash.PerSecond(1 << 51):                                    "Count must be less than 2^51",
		sash.PerSecond(1).TokenBucket(1 << 51):                     "Burst must be less than 2^51",
		sash.Per(5, 72*365*24*time.Hour):                           "Window must be less than 2^51 microseconds",
		sash.Per(1, 365*24*time.Hour).TokenBucket(72):              "a bucket must fill in less than 2^51 microseconds",
	} {
		_, err := sashredis.New(conn, []sash.Limit{sash.PerSecond(1), limit}, sashredis.WithFallback(sashredis.FallbackDeny))
		assert.ErrorIs(t, err, sash.ErrInvalidLimit)
		assert.ErrorContains(t, err, "limit 2: "+fault)
	}
	for _, limit := range []sash.Limit{
		sash.Per(5, time.Microsecond), sash.PerSecond(1<<51 - 1), sash.Per(1, 365*24*time.Hour).TokenBucket(71), sash.Unlimited(), {Window: time.Second},
		sash.Per(1, 71*365*24*time.Hour).Buckets(time.Microsecond), sash.Per(1<<51-1, 71*365*24*time.Hour).Parts(), sash.Per(1, time.Microsecond).Parts(),
	} {
		l, err := sashredis.New(conn, []sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackDeny))
		require.NoError(t, err)
		assert.NoError(t, l.Take(context.Background(), "k", 1).Err, "%v", limit)
	}
}

func TestWithCallerClock_HasNoMirrorAndNoLeases(t *testing.T) {
	_, err := sashredis.New(newStore(t), []sash.Limit{sash.PerSecond(1)}, sashredis.WithFallback(sashredis.FallbackDeny),
		sashredis.WithCallerClock(sash.SystemClock()), sashredis.WithMirror(10), sashredis.WithLease(10, time.Second))
	assert.ErrorContains(t, err, "WithMirror: needs the clock of the store")
	assert.ErrorContains(t, err, "WithLease: needs the clock of the store")
	assert.ErrorIs(t, err, sash.ErrInvalidOption)
}

// Wrong limits of a key deny it, and nothing is charged or sent.
func TestWithLimitsFor_DeniesWrongLimits(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter(nil, sashredis.WithLimitsFor(func(key string) []sash.Limit {
		switch key {
		case "wrong":
			return []sash.Limit{sash.PerSecond(5), {Count: 5, Window: 1}}
		case "free":
			return []sash.Limit{sash.Unlimited()}
		}
		return nil
	}))
	ctx := context.Background()
	for _, d := range []sashredis.Decision{l.Take(ctx, "wrong", 1), l.TakeAll(ctx, []string{"free", "wrong"}, 1), l.Peek(ctx, "wrong", 0)} {
		assert.False(t, d.Allowed)
		assert.Equal(t, sash.Never, d.RetryAfter)
		assert.ErrorIs(t, d.Err, sash.ErrInvalidLimit)
		assert.ErrorContains(t, d.Err, `key "wrong"`)
	}
	assert.ErrorIs(t, l.Take(ctx, "unknown", 1).Err, sash.ErrNoLimit)
	assert.ErrorIs(t, l.Wait(ctx, "wrong", 1), sash.ErrInvalidLimit)
	assert.ErrorIs(t, l.Reset(ctx, "wrong"), sash.ErrInvalidLimit)
	assert.Equal(t, int64(5), l.Stats().Invalid)

	free := l.Take(ctx, "free", 1)
	assert.Equal(t, sash.Must(sash.New(sash.Unlimited())).Take("free", 1), free.Decision)
	assert.False(t, l.TakeAll(ctx, nil, 1).Allowed)
	assert.True(t, l.TakeAll(ctx, []string{"free"}, 1).Allowed)
	assert.Zero(t, s.count())
}

// A limit keeps its counts if only its Count or Burst changes.
func TestLimits_KeepTheirCounts(t *testing.T) {
	for _, c := range []struct {
		from, to sash.Limit
		left     int64
	}{
		{sash.PerMinute(100).Counter(), sash.PerMinute(150).Counter(), 140}, {sash.PerMinute(100).Log(), sash.PerMinute(50).Log(), 40},
		{sash.PerMinute(100).Buckets(time.Second), sash.PerMinute(8).Buckets(time.Second), 0},
		{sash.PerMinute(100).TokenBucket(50), sash.PerMinute(100).TokenBucket(30), 20},
		{sash.PerMinute(100).Parts(), sash.PerMinute(50).Parts(), 40},
		{sash.PerMinute(100).Parts(), sash.PerMinute(100).Buckets(time.Minute / 16), 100},
		{sash.PerMinute(100).Counter(), sash.PerHour(100).Counter(), 100}, {sash.PerMinute(100).Counter(), sash.PerMinute(100).Log(), 100},
	} {
		s := newStore(t)
		before, _ := s.limiter([]sash.Limit{c.from})
		after, _ := s.limiter([]sash.Limit{c.to})
		require.True(t, before.Take(context.Background(), "k", 10).Allowed)
		assert.Equal(t, c.left, after.Peek(context.Background(), "k", 0).Remaining, "from %v to %v", c.from, c.to)
	}
}

// No key reaches another key's counts by its name, whatever is in it.
func TestKeys_DoNotMeet(t *testing.T) {
	s := newStore(t)
	names := []string{"", "a", "b", "a:c60000000", "{a}", "a}b", "}", "{}", "a\x00", "a|b", "a b", "a;", "x}a", string([]byte{0xff})}
	for _, options := range [][]sashredis.Option{
		{sashredis.WithPrefix("1:")},
		{sashredis.WithPrefix("2:"), sashredis.WithHashTag(func(key string) string { return key[:len(key)/2] })},
		{sashredis.WithPrefix("3:"), sashredis.WithHashTag(func(key string) string { return "}" })},
	} {
		l, _ := s.limiter([]sash.Limit{sash.PerMinute(10).Counter()}, options...)
		for i, name := range names {
			assert.Equal(t, int64(10-1), l.Take(context.Background(), name, 1).Remaining, "%q is like one before", name)
			assert.Equal(t, int64(10-2), l.TakeAll(context.Background(), []string{name, name}, 1).Remaining, "%d", i)
		}
	}
}

// Wait returns once the units are charged, in the order of the calls of this process.
func TestWait_WaitsForTheStoresClock(t *testing.T) {
	s := newStore(t)
	clock := sash.NewManualClock(0)
	l, _ := s.limiter([]sash.Limit{sash.Per(1, time.Second).Log()}, sashredis.WithCallerClock(clock))
	ctx := context.Background()
	require.NoError(t, l.Wait(ctx, "k", 1))

	order := make(chan int, 3)
	for i := range 3 {
		go func() {
			assert.NoError(t, l.Wait(ctx, "k", 1))
			assert.GreaterOrEqual(t, clock.Now(), int64(i+1)*int64(time.Second), "call %d", i)
			order <- i
		}()
		eventually(t, "it is in the queue", func() bool { return inside(l).Queued == i+1 })
	}
	eventually(t, "the first has asked", func() bool { return s.count() > 1 })
	for i := range 3 {
		eventually(t, "the first of them is admitted", func() bool {
			clock.Advance(10 * time.Millisecond)
			time.Sleep(time.Millisecond) // for the one that waits to see it
			return inside(l).Queued == 2-i
		})
		assert.Equal(t, i, <-order)
	}
	assert.Zero(t, inside(l).Queued)
}

func TestWait_EndsAtOnceIfItIsHopeless(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(2)})
	ctx := context.Background()
	assert.ErrorIs(t, l.Wait(ctx, "k", 3), sash.ErrExceedsLimit)
	assert.ErrorIs(t, l.Wait(ctx, "k", -1), sash.ErrExceedsLimit)
	require.NoError(t, l.Wait(ctx, "k", 2))
	soon, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	assert.ErrorIs(t, l.Wait(soon, "k", 1), context.DeadlineExceeded)
	gone, cancel := context.WithCancel(ctx)
	waited := make(chan error)
	go func() { waited <- l.Wait(gone, "k", 1) }()
	eventually(t, "it waits", func() bool { return inside(l).Queued == 1 })
	cancel()
	assert.ErrorIs(t, <-waited, context.Canceled)
	assert.Zero(t, inside(l).Queued)
}

// Wait does not send a call again that may have been charged. It waits as long as calls are not
// sent.
func TestWait_NeverChargesTwice(t *testing.T) {
	s := newStore(t)
	l, local := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithBreaker(1, time.Hour))
	fresh, _ := s.limiter([]sash.Limit{sash.PerMinute(10)}, sashredis.WithMirror(0))
	ctx := context.Background()
	s.set(func() { s.lost = errAway })
	soon, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	assert.ErrorIs(t, l.Wait(soon, "k", 4), errAway)
	assert.Equal(t, 1, s.count())
	s.set(func() { s.lost = nil })
	assert.Equal(t, int64(6), fresh.Peek(ctx, "k", 0).Remaining)

	waited := make(chan error)
	go func() { waited <- l.Wait(ctx, "k", 4) }()
	eventually(t, "it waits", func() bool { return inside(l).Queued == 1 && l.Stats().Fallback == 2 })
	for done := false; !done; { // until the one that waits has seen it
		local.Advance(time.Hour)
		select {
		case err := <-waited:
			assert.NoError(t, err)
			done = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	assert.Equal(t, int64(2), fresh.Peek(ctx, "k", 0).Remaining)
}

// Reset forgets a key for all.
func TestReset_ForgetsTheKey(t *testing.T) {
	for _, limit := range oneOfEach {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{limit})
		other, _ := s.limiter([]sash.Limit{limit}, sashredis.WithMirror(0))
		ctx := context.Background()
		require.True(t, l.Take(ctx, "k", 2).Allowed)
		require.NoError(t, l.Reset(ctx, "k"))
		assert.True(t, other.Take(ctx, "k", 2).Allowed)
	}
}

// An answer that makes no sense is an error, not a decision.
func TestServer_MayAnswerNonsense(t *testing.T) {
	for _, reply := range []string{"", "OK", "1|2|3", "x|1|0 0||0 0 0", "1|1|0 0||0 0", "1|1|0 0||a b c", "1||0 0||0 0 0", "1|1|0||0 0 0", "1|1|0 0|a b|0 0 0", "1|7|0 0||0 0 99", "1|1|5 9||0 0 0", "1|1|-5 9||0 0 0"} {
		l, err := sashredis.New(nonsense(reply), []sash.Limit{sash.PerMinute(10).Counter()}, sashredis.WithFallback(sashredis.FallbackAdmit))
		require.NoError(t, err)
		d := l.Take(context.Background(), "k", 1)
		assert.ErrorIs(t, d.Err, sashredis.ErrServer, "%q", reply)
	}
}

type nonsense string

func (n nonsense) Run(context.Context, *sashredis.Script, []string, []string) (string, error) {
	return string(n), nil
}
