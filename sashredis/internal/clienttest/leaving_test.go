package clienttest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// Work in the background uses only what is above its floor, and waits for just that. Urgent work uses the
// rest.
func TestTakeLeaving_UsesOnlyWhatIsAboveTheFloor(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		clock := sash.NewManualClock(int64(1_800_000_000 * time.Second))
		s := newStore(t)
		l, _ := s.limiter(limits, sashredis.WithCallerClock(clock))
		ctx := context.Background()
		leave := l.Peek(ctx, "k", 0).Remaining / 4
		step := leave / 3
		var d sashredis.Decision
		for d = l.TakeLeaving(ctx, "k", step, leave); d.Allowed; d = l.TakeLeaving(ctx, "k", step, leave) {
			assert.GreaterOrEqual(t, d.Remaining, leave, name)
		}
		assert.Less(t, d.Remaining, leave+step, name)
		assert.Equal(t, l.Peek(ctx, "k", step+leave), d, "%s: a Peek of step+leave units is denied alike", name)
		assert.True(t, l.Take(ctx, "k", d.Remaining).Allowed, "%s: urgent work uses all", name)

		d = l.TakeLeaving(ctx, "k", step, leave)
		clock.Advance(d.RetryAfter - time.Microsecond)
		assert.False(t, l.TakeLeaving(ctx, "k", step, leave).Allowed, name)
		clock.Advance(time.Microsecond)
		assert.True(t, l.TakeLeaving(ctx, "k", step, leave).Allowed, name)
	}
}

func TestTakeLeaving_OfMoreThanIsEverThere(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		s := newStore(t)
		l, _ := s.limiter(limits)
		ctx := context.Background()
		most := l.Peek(ctx, "k", 0).Remaining
		for _, leave := range []int64{most, 1<<51 - 1, math.MaxInt64 - 1, math.MaxInt64} {
			d := l.TakeLeaving(ctx, "k", 1, leave)
			assert.NoError(t, d.Err, name)
			assert.False(t, d.Allowed, "%s: %d", name, leave)
			assert.Equal(t, sash.Never, d.RetryAfter, "%s: %d", name, leave)
		}
		assert.True(t, l.TakeLeaving(ctx, "k", 1, most-1).Allowed, name)
		assert.True(t, l.TakeLeaving(ctx, "k", 1, -1).Allowed, name)
		assert.Equal(t, sash.Never, l.TakeLeaving(ctx, "k", -1, math.MaxInt64).RetryAfter, name)
	}
}

// A call that takes what there is takes all of it, however much it asks for, and then nothing.
func TestTakeUpTo_TakesWhatThereIs(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		for _, most := range []int64{1<<51 - 1, 1 << 51, math.MaxInt64} {
			s := newStore(t)
			l, _ := s.limiter(limits, sashredis.WithMirror(0))
			ctx := context.Background()
			taken, d := l.TakeUpTo(ctx, "k", 7)
			assert.Equal(t, int64(7), taken, name)
			left := d.Remaining
			taken, d = l.TakeUpTo(ctx, "k", most)
			require.NoError(t, d.Err, name)
			assert.Equal(t, left, taken, "%s: %d", name, most)
			assert.Zero(t, d.Remaining)
			taken, d = l.TakeUpTo(ctx, "k", most)
			assert.Zero(t, taken, name)
			assert.Equal(t, l.Take(ctx, "k", 1), d, "%s: it is denied as one unit is", name)
		}
	}
}

func TestTakeUpTo_OfAnUnlimitedKey(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.Unlimited()})
	ctx := context.Background()
	taken, d := l.TakeUpTo(ctx, "k", 9)
	assert.Equal(t, int64(9), taken)
	assert.True(t, d.Allowed)
	taken, d = l.TakeUpTo(ctx, "k", -9)
	assert.Zero(t, taken)
	assert.Equal(t, sash.Never, d.RetryAfter)
	assert.True(t, l.TakeLeaving(ctx, "k", 1, math.MaxInt64).Allowed)
	assert.Zero(t, s.count())
}

// The mirror denies a call that is to leave units which are not there, and no other.
func TestMirror_KnowsWhatIsToBeLeft(t *testing.T) {
	for _, limit := range oneOfEach {
		s := newStore(t)
		l, _ := s.limiter([]sash.Limit{limit})
		ctx := context.Background()
		require.True(t, l.Allow(ctx, "k"))
		d := l.TakeLeaving(ctx, "k", 1, 1)
		assert.False(t, d.Allowed, "%v", limit)
		sent := s.count()
		again := l.TakeLeaving(ctx, "k", 1, 1)
		assert.Equal(t, sashredis.ByMirror, again.By, "%v", limit)
		assert.Equal(t, d.RetryAfter, again.RetryAfter-(again.RetryAfter-d.RetryAfter).Truncate(2*time.Microsecond))
		assert.Equal(t, sash.Never, l.TakeLeaving(ctx, "k", 1, 2).RetryAfter, "%v", limit)
		assert.Equal(t, sent, s.count(), "%v: round trips", limit)
		taken, d := l.TakeUpTo(ctx, "k", 2)
		assert.Equal(t, sashredis.ByStore, d.By, "%v: two units are not there, and one is", limit)
		assert.Equal(t, int64(1), taken, "%v", limit)
		sent = s.count()
		taken, d = l.TakeUpTo(ctx, "k", 2)
		assert.Zero(t, taken)
		assert.Equal(t, sashredis.ByMirror, d.By, "%v", limit)
		assert.Equal(t, sent, s.count(), "%v: round trips", limit)
	}
}

// What is leased does not remain, and what there is is what the store has left.
func TestLease_NoneForCallsThatLeaveUnits(t *testing.T) {
	for _, limits := range leasable {
		s := newStore(t)
		l, _ := s.limiter(limits, sashredis.WithLease(100, time.Hour))
		ctx := context.Background()
		require.True(t, l.Allow(ctx, "k"))
		for range 50 {
			require.True(t, l.TakeLeaving(ctx, "k", 1, 5).Allowed)
			_, d := l.TakeUpTo(ctx, "k", 1)
			require.True(t, d.Allowed)
		}
		assert.Zero(t, l.Stats().Leased, "%v", limits)
		require.True(t, l.Allow(ctx, "k"))
		assert.Less(t, l.Stats().Leased, int64(10), "%v: the demand is two units", limits)

		for l.Stats().Lease == 0 {
			require.True(t, l.Allow(ctx, "k"))
		}
		left := l.Peek(ctx, "k", 0).Remaining
		assert.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By, "%v", limits)
		d := l.TakeLeaving(ctx, "k", 1, 5)
		assert.Equal(t, sashredis.ByStore, d.By, "%v", limits)
		assert.Equal(t, left-1, d.Remaining, "%v", limits)
		assert.False(t, l.TakeLeaving(ctx, "k", 1, left-1).Allowed, "%v: leased units remain", limits)
		taken, d := l.TakeUpTo(ctx, "k", math.MaxInt64)
		assert.Equal(t, sashredis.ByStore, d.By)
		assert.Equal(t, left-1, taken, "%v", limits)
		assert.Equal(t, sashredis.ByLease, l.Take(ctx, "k", 1).By, "%v", limits)
	}
}

// A share leaves its part of what is to be left, so that all shares together leave at least that.
func TestFallbackLocal_LeavesItsShare(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100)}, sashredis.WithFallback(sashredis.FallbackLocal(1, 8)))
	s.set(func() { s.err = errAway })
	ctx := context.Background()
	used := 0
	for l.TakeLeaving(ctx, "k", 1, 30).Allowed { // of 12, an eighth of 30 are to be left: 4
		used++
	}
	assert.Equal(t, 8, used)
	_, d := l.ReserveLeaving(ctx, "k", 1, 30)
	assert.False(t, d.Allowed)
	r, d := l.ReserveLeaving(ctx, "k", 2, 16)
	assert.True(t, d.Allowed)
	require.NoError(t, r.Cancel(ctx))
	taken, d := l.TakeUpTo(ctx, "k", 50)
	assert.Equal(t, int64(4), taken)
	assert.Equal(t, sashredis.ByFallback, d.By)
	assert.True(t, d.Allowed)
	taken, d = l.TakeUpTo(ctx, "k", 50)
	assert.Zero(t, taken)
	assert.False(t, d.Allowed)
	assert.Equal(t, sash.Never, l.TakeLeaving(ctx, "k", 1, 100).RetryAfter)
	assert.NotEqual(t, sash.Never, l.TakeLeaving(ctx, "k", 1, 99).RetryAfter, "the store may admit it")
}

func TestFallbackAdmit_TakesWhatIsEverAdmitted(t *testing.T) {
	s := newStore(t)
	l, _ := s.limiter([]sash.Limit{sash.PerMinute(100), sash.PerSecond(50).TokenBucket(30)}, sashredis.WithFallback(sashredis.FallbackAdmit))
	s.set(func() { s.err = errAway })
	ctx := context.Background()
	taken, _ := l.TakeUpTo(ctx, "k", 7)
	assert.Equal(t, int64(7), taken)
	taken, d := l.TakeUpTo(ctx, "k", 70)
	assert.Equal(t, int64(30), taken)
	assert.True(t, d.Allowed)
	assert.True(t, l.TakeLeaving(ctx, "k", 1, 29).Allowed)
	assert.Equal(t, sash.Never, l.TakeLeaving(ctx, "k", 1, 30).RetryAfter)
}

// What a reservation was to leave need not remain when it is settled.
func TestReserveLeaving_EqualsThatOfSash(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		clock := sash.NewManualClock(int64(1_800_000_000 * time.Second))
		here := sash.Must(sash.New(sash.WithLimits(limits...), sash.WithClock(clock)))
		s := newStore(t)
		l, _ := s.limiter(limits, sashredis.WithCallerClock(clock))
		ctx := context.Background()
		most := here.Peek("k", 0).Remaining
		ours, want := here.ReserveLeaving("k", most/2, most/4)
		theirs, got := l.ReserveLeaving(ctx, "k", most/2, most/4)
		assert.Equal(t, want, got.Decision, name)
		require.True(t, got.Allowed, name)
		_, want = here.ReserveLeaving("k", most/2, most/4)
		_, got = l.ReserveLeaving(ctx, "k", most/2, most/4)
		assert.Equal(t, want, got.Decision, name)
		assert.False(t, got.Allowed, name)
		here.TakeUpTo("k", most)
		l.TakeUpTo(ctx, "k", most)
		ours.Commit(most / 3)
		require.NoError(t, theirs.Commit(ctx, most/3))
		assert.Equal(t, here.Peek("k", 1), l.Peek(ctx, "k", 1).Decision, name)
	}
}

// A call that leaves units, and one that takes all for which it asks, run the commands of a Take.
func TestScripts_LeavingUnitsTakesNoMoreCommands(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		s := watch(t)
		l := s.limiter(t, limits)
		ctx := context.Background()
		commands := func(d sashredis.Decision) map[string]int {
			require.NoError(t, d.Err, name)
			require.True(t, d.Allowed, name)
			delete(s.commands, "evalsha")
			delete(s.commands, "eval")
			return s.commands
		}
		require.True(t, l.Allow(ctx, "k"))
		most := commands(l.Take(ctx, "k", 2))
		check := func(call string, d sashredis.Decision) {
			for command, times := range commands(d) {
				assert.LessOrEqual(t, times, most[command], "%s: %s: %s", name, call, command)
			}
		}
		check("TakeLeaving", l.TakeLeaving(ctx, "k", 2, 9))
		_, d := l.TakeUpTo(ctx, "k", 2)
		check("TakeUpTo", d)
	}
}
