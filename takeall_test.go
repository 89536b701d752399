package sash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A multiTrial compares a limiter of several limits with the reference: the same calls, for
// one key and for several, must have the same answers.
type multiTrial struct {
	*testing.T
	rng    *rand.Rand
	limits []Limit
	clock  *ManualClock
	l      *Limiter
	table  *reference.Table
}

// randomLimit returns a limit whose window and precision may divide another's, may
// not, and may be equal.
func randomLimit(rng *rand.Rand) Limit {
	l := Per(1+rng.Int64N(12), []time.Duration{1, 7, 60, 60, 100, 1000}[rng.IntN(6)])
	switch rng.IntN(6) {
	case 0:
		return l.Log()
	case 4:
		return l.TokenBucket(1 + rng.Int64N(12))
	case 1:
		return l.Buckets(1 + time.Duration(rng.Int64N(int64(l.Window))))
	case 2:
		return l.Buckets(l.Window)
	case 5:
		return l.Parts()
	}
	return l.Counter()
}

func newMultiTrial(t *testing.T, seed uint64, chargeDenied bool) *multiTrial {
	tr := &multiTrial{T: t, rng: rand.New(rand.NewPCG(seed, 7)), clock: NewManualClock(0)}
	options := []Option{WithClock(tr.clock)}
	if chargeDenied {
		options = append(options, WithChargeDenied())
	}
	var models []reference.Limit
	for range 1 + tr.rng.IntN(4) {
		limit := randomLimit(tr.rng)
		tr.limits = append(tr.limits, limit)
		models = append(models, modelOf(limit, chargeDenied))
		options = append(options, limit)
	}
	tr.l, tr.table = newTest(t, options...), reference.NewTable(models)
	return tr
}

func (tr *multiTrial) move(back bool) {
	switch tr.rng.IntN(8) {
	case 0:
		tr.clock.Advance(time.Duration(tr.rng.Int64N(1200)))
	case 1:
		if back {
			tr.clock.Advance(-time.Duration(tr.rng.Int64N(90)))
		}
	case 2, 3:
	default:
		tr.clock.Advance(time.Duration(tr.rng.Int64N(8)))
	}
}

// cost draws a cost, which in most cases is small and satisfiable.
func (tr *multiTrial) cost() int64 {
	if tr.rng.IntN(12) == 0 {
		return []int64{0, -1, 13, math.MaxInt64, math.MinInt64}[tr.rng.IntN(5)]
	}
	return 1 + tr.rng.Int64N(3)
}

// keys draws one to four keys, at times the same key twice.
func (tr *multiTrial) keys() []string {
	keys := make([]string, 1+tr.rng.IntN(4))
	for i := range keys {
		keys[i] = string(rune('a' + tr.rng.IntN(4)))
	}
	return keys
}

func (tr *multiTrial) same(got Decision, want reference.Answer, format string, args ...any) {
	tr.Helper()
	require.Equal(tr, Decision{
		Allowed: want.Allowed, Limit: tr.limits[want.Deciding], Remaining: want.Remaining,
		RetryAfter: time.Duration(want.RetryAfter), ResetAfter: time.Duration(want.ResetAfter),
	}, got, "%v at %d: %s", tr.limits, tr.clock.Now(), fmt.Sprintf(format, args...))
}

// call makes one random call and compares its answer.
func (tr *multiTrial) call() {
	now, n, keys := tr.clock.Now(), tr.cost(), tr.keys()
	switch key := keys[0]; tr.rng.IntN(6) {
	case 0:
		tr.same(tr.l.Peek(key, n), tr.table.Peek(now, n, key), "Peek(%s, %d)", key, n)
	case 1:
		require.Equal(tr, tr.table.Take(now, n, key).Allowed, tr.l.AllowN(key, n), "%v at %d: AllowN(%s, %d)", tr.limits, now, key, n)
	case 2:
		d := tr.l.Take(key, n)
		tr.same(d, tr.table.Take(now, n, key), "Take(%s, %d)", key, n)
		tr.retry([]string{key}, n, d)
	default:
		tr.same(tr.l.PeekAll(keys, n), tr.table.Peek(now, n, keys...), "PeekAll(%v, %d)", keys, n)
		d := tr.l.TakeAll(keys, n)
		tr.same(d, tr.table.Take(now, n, keys...), "TakeAll(%v, %d)", keys, n)
		tr.retry(keys, n, d)
	}
}

// retry checks that a denied call is denied until a nanosecond before RetryAfter, and
// admitted then. It asks the reference, so that the clock need not move.
func (tr *multiTrial) retry(keys []string, n int64, d Decision) {
	now := tr.clock.Now()
	if d.Allowed || d.RetryAfter == Never {
		return
	}
	require.False(tr, tr.table.Peek(now+int64(d.RetryAfter)-1, n, keys...).Allowed)
	require.True(tr, tr.table.Peek(now+int64(d.RetryAfter), n, keys...).Allowed)
}

// eachMultiTrial runs trials of several limits, in parallel with other tests.
func eachMultiTrial(t *testing.T, run func(tr *multiTrial)) {
	t.Parallel()
	for _, chargeDenied := range []bool{false, true} {
		t.Run(fmt.Sprintf("chargeDenied=%v", chargeDenied), func(t *testing.T) {
			for seed := range uint64(steps(25)) {
				run(newMultiTrial(t, seed, chargeDenied))
			}
		})
	}
}

func TestSeveralLimits_EqualTheReference(t *testing.T) {
	eachMultiTrial(t, func(tr *multiTrial) {
		for range steps(150) {
			tr.move(true)
			if tr.rng.IntN(60) == 0 {
				key := tr.keys()[0]
				tr.l.Reset(key)
				tr.table.Reset(key)
			}
			tr.call()
		}
	})
}

// On a clock that does not run back past what was evicted, sweeps change nothing.
func TestSeveralLimits_AreTheSameWhateverIsSwept(t *testing.T) {
	evicted := 0
	eachMultiTrial(t, func(tr *multiTrial) {
		for range steps(150) {
			tr.move(false)
			if tr.rng.IntN(3) == 0 {
				evicted += tr.l.Sweep()
			}
			tr.call()
		}
	})
	require.Greater(t, evicted, steps(steps(1000))*4/5, "too few keys were evicted")
}

// The limits are 10 a second, 120 a minute and 240 an hour, for a user and an address at once.
func TestTakeAll_ChargesAllOrNone(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).Buckets(time.Second), PerMinute(120).Log(), PerHour(240).Buckets(time.Minute), WithClock(clock))
	both := []string{"user:7", "203.0.113.7"}
	require.True(t, l.TakeAll(both, 5).Allowed)
	require.True(t, l.Take("203.0.113.7", 3).Allowed)

	d := l.TakeAll(both, 3)
	require.Equal(t, Decision{
		Limit: PerSecond(10).Buckets(time.Second), Remaining: 2, RetryAfter: time.Second, ResetAfter: time.Hour,
	}, d)
	require.EqualValues(t, 5, l.Peek("user:7", 0).Remaining, "nothing was charged to the key that had room")
	require.EqualValues(t, 2, l.Peek("203.0.113.7", 0).Remaining)
	require.True(t, l.TakeAll([]string{both[1], both[0], both[1]}, 2).Allowed, "a key named twice counts once")
	require.EqualValues(t, 3, l.Peek("user:7", 0).Remaining)
}

func TestTakeAll_OfBadInput(t *testing.T) {
	l := newTest(t, PerSecond(3), PerMinute(5).Log(), WithClock(NewManualClock(0)))
	for name, d := range map[string]Decision{
		"no keys":           l.TakeAll(nil, 1),
		"no keys, no units": l.TakeAll([]string{}, 0),
		"negative":          l.TakeAll([]string{"a", "b"}, -1),
		"too much":          l.TakeAll([]string{"a", "b"}, 4),
		"far too much":      l.TakeAll([]string{"a", "b"}, math.MaxInt64),
	} {
		require.False(t, d.Allowed, name)
		require.Equal(t, Never, d.RetryAfter, name)
		require.Equal(t, PerSecond(3), d.Limit, name)
	}
	require.True(t, l.TakeAll([]string{"a", "b"}, 0).Allowed)
	require.Equal(t, 0, l.Len(), "nothing was stored")
}

// PeekAll returns what TakeAll would, and has no effect at all.
func TestPeekAll_ChargesAndStoresNothing(t *testing.T) {
	l := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)), WithChargeDenied(), WithMaxKeys(3, EvictLeastUsed),
		WithObserver(func(string, int64, Decision) { t.Error("a look was observed") }))
	for _, keys := range [][]string{nil, {}, {"a"}, {"a", "b", "a"}, {"a", "b", "c", "d"}} {
		for _, n := range []int64{-1, 0, 1, 3, 4, math.MaxInt64} {
			fresh := newTest(t, PerMinute(3).Log(), WithClock(NewManualClock(0)), WithChargeDenied(), WithMaxKeys(3, EvictLeastUsed))
			require.Equal(t, fresh.TakeAll(keys, n), l.PeekAll(keys, n), "%q, %d", keys, n)
		}
	}
	require.Zero(t, l.Len())
	require.Equal(t, Stats{}, l.Stats())
}

func TestPeekAll_TakesNothingOfTrackedKeys(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.TakeAll([]string{"a", "b"}, 2)
		for range 3 {
			require.EqualValues(t, 7, l.PeekAll([]string{"a", "b"}, 1).Remaining)
			require.False(t, l.PeekAll([]string{"b", "a"}, 9).Allowed)
		}
		require.EqualValues(t, 8, l.Peek("a", 0).Remaining)
		require.EqualValues(t, 8, l.Peek("b", 0).Remaining)
	})
}

func TestTakeAll_OfManyKeys(t *testing.T) {
	l := newTest(t, PerSecond(3), WithClock(NewManualClock(0)))
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprint("key ", i%60))
	}
	require.EqualValues(t, 2, l.TakeAll(keys, 1).Remaining)
	require.Equal(t, 60, l.Len())
	require.True(t, l.Take("key 59", 2).Allowed)
	require.False(t, l.TakeAll(keys, 1).Allowed)
	require.EqualValues(t, 2, l.Peek("key 0", 0).Remaining)
}

func TestTakeAll_EveryKindOfEntry(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		for i := range 3 { // so that logs grow
			clock.Advance(1)
			require.EqualValues(t, 8-2*i, l.TakeAll([]string{"a", "b"}, 2).Remaining)
		}
		require.True(t, l.AllowN("a", 4))
		d := l.TakeAll([]string{"b", "a"}, 1)
		require.False(t, d.Allowed)
		require.EqualValues(t, 0, d.Remaining)
		require.EqualValues(t, 4, l.Peek("b", 0).Remaining)
		clock.Advance(d.RetryAfter - 1)
		require.False(t, l.TakeAll([]string{"b", "a"}, 1).Allowed)
		clock.Advance(1)
		require.True(t, l.TakeAll([]string{"b", "a"}, 1).Allowed)
	})
}

func TestTakeAll_IsObservedOncePerKey(t *testing.T) {
	var seen []string
	l := newTest(t, PerSecond(3), WithClock(NewManualClock(0)), WithObserver(func(key string, n int64, d Decision) {
		seen = append(seen, fmt.Sprint(key, " ", n, " ", d.Allowed))
	}))
	l.TakeAll([]string{"a", "b", "a"}, 2)
	l.TakeAll([]string{"a", "b"}, 0)
	require.ElementsMatch(t, []string{"a 2 true", "b 2 true"}, seen)
}

func TestSeveralLimits_NameTheOneThatDecides(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).Counter(), PerMinute(10).Log(), PerHour(20).Buckets(time.Minute), WithClock(clock))
	require.Equal(t, PerSecond(10).Counter(), l.Take("k", 9).Limit, "of equal limits the first")
	clock.Advance(2 * time.Second)
	require.Equal(t, PerMinute(10).Log(), l.Take("k", 1).Limit, "the limit with the least remaining")
	d := l.Take("k", 1)
	require.Equal(t, PerMinute(10).Log(), d.Limit, "the limit with the longest wait")
	require.Equal(t, 58*time.Second, d.RetryAfter)
	require.Equal(t, Never, l.Take("k", 15).RetryAfter)
}

func TestSeveralLimits_ReportEveryFault(t *testing.T) {
	_, err := New(PerSecond(-1), PerMinute(5), Per(3, time.Minute).Buckets(time.Hour))
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.Equal(t, 2, strings.Count(err.Error(), "invalid limit"), err)
	require.ErrorContains(t, err, "limit 1: Count must be >= 0, got -1")
	require.ErrorContains(t, err, "limit 3: Precision must be <= Window, got 1h0m0s and 1m0s")
}

// inOrder returns two names, in the order in which l locks their keys.
func inOrder(l *Limiter) (first, second string) {
	if l.key("x").hash < l.key("y").hash {
		return "x", "y"
	}
	return "y", "x"
}

// A denial is correct at one instant, for the keys that have entries and for those that have
// none. Here the second key is taken from, or the limits change, after the first key was not
// found.
func TestTakeAll_ReadsAllKeysAtOneInstant(t *testing.T) {
	var l *Limiter
	var first, second string
	var between func()
	limitsFor := func(key string) []Limit {
		if key != first {
			return nil
		}
		if now := between; now != nil {
			between = nil
			now()
		}
		return []Limit{PerHour(1).Log()}
	}
	l = newTest(t, PerMinute(1).Log(), WithClock(NewManualClock(0)), WithLimitsFor(limitsFor))
	first, second = inOrder(l)
	between = func() { l.Allow(first); l.Allow(second) }
	require.Equal(t, time.Hour, l.TakeAll([]string{first, second}, 1).RetryAfter, "at no instant was only the second full")

	require.True(t, l.Reset(first))
	require.True(t, l.Reset(second))
	between = func() { l.Allow(first); l.Allow(second) }
	require.Equal(t, time.Hour, l.PeekAll([]string{first, second}, 1).RetryAfter, "nor for a look")

	require.True(t, l.Reset(first))
	between = func() { require.NoError(t, l.Reconfigure(PerMinute(1).Log())) }
	require.EqualValues(t, 0, l.TakeAll([]string{first, second}, 0).Remaining, "the second is full before and after the change")
}

// Each key is a target once. Names are compared whole, so keys of equal hashes stay apart.
func TestTakeAll_TellsKeysApartForAnyHash(t *testing.T) {
	l := newTest(t, PerMinute(1), WithClock(NewManualClock(0)))
	twin := key{l.key("a").hash, "twin of a"}
	all := l.targets([]target{{key: twin, order: 3}}, []string{"a", "b", "a"})
	var got []string
	for i := range all {
		got = append(got, all[i].name)
	}
	require.ElementsMatch(t, []string{"a", "b", "twin of a"}, got)
}

// The first key is full when it is found, and has its unit back before the second key is not
// found.
func TestTakeAll_IsNotDeniedByUnitsThatWereGivenBack(t *testing.T) {
	everyKind(t, PerMinute(1), func(t *testing.T, l *Limiter, _ *ManualClock) {
		first, second := inOrder(l)
		r, d := l.Reserve(first, 1)
		require.True(t, d.Allowed)
		l.current.Load().setup.limitsFor = func(key string) []Limit {
			if key == second {
				r.Cancel()
			}
			return nil
		}
		require.True(t, l.TakeAll([]string{first, second}, 1).Allowed)
		require.EqualValues(t, 0, l.Peek(first, 0).Remaining)
		require.EqualValues(t, 0, l.Peek(second, 0).Remaining)
	})
}

// A read of several keys is valid only if none of them has changed since.
func TestTakeAll_ValidatesItsReads(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.TakeAll([]string{"a", "b"}, 1)
		for _, changed := range []string{"a", "b", "new"} {
			targets := l.targets(nil, []string{"a", "b", "new"})
			g := l.current.Load()
			l.placeAll(g, targets)
			require.NotEqual(t, retry, l.readAll(g, targets, query{n: 1}))
			require.True(t, l.validateAll(targets))
			require.True(t, l.Allow(changed))
			require.False(t, l.validateAll(targets), changed)
			l.Reset("new")
		}
	})
}

// An entry that has changed since it was read is not locked, and the other entries do not
// stay locked.
func TestTakeAll_UnlocksWhatItCannotLockTogether(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.TakeAll([]string{"a", "b", "c"}, 1)
		targets := l.targets(nil, []string{"a", "b", "c"})
		l.placeAll(l.current.Load(), targets)
		require.Equal(t, admitted, l.readAll(l.current.Load(), targets, query{n: 1, charge: true}))
		require.True(t, l.Allow(targets[2].name))
		require.False(t, tryLockAll(targets))
		for i := range targets {
			require.Zero(t, targets[i].entry.Word.Load()&locked)
		}
		require.EqualValues(t, 8, l.TakeAll([]string{targets[0].name, targets[1].name}, 1).Remaining)
		require.EqualValues(t, 7, l.Take(targets[2].name, 1).Remaining)
	})
}

// A decision about keys that have no entries is made under the locks of their shards. It
// inserts no entries unless it charges units.
func TestTakeAll_OfKeysWithoutEntriesLocksTheirShards(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		names := []string{"a", "b", "c", "d"}
		require.EqualValues(t, 10, l.TakeAll(names, 0).Remaining)
		require.Zero(t, l.Len(), "a peek stores nothing")
		require.False(t, l.TakeAll(names, 11).Allowed)
		require.Zero(t, l.Len(), "nor does a call above the limit")
		require.True(t, l.Take("e", 10).Allowed)
		require.False(t, l.TakeAll(append(names, "e"), 1).Allowed)
		require.Equal(t, 1, l.Len(), "nor does a denied one")
		require.EqualValues(t, 9, l.TakeAll(names, 1).Remaining)
		require.Equal(t, 5, l.Len())
	})
}

// A PeekAll does not believe keys that it has read at different instants.
func TestPeekAll_ReadsAllKeysAtOneInstant(t *testing.T) {
	everyKind(t, PerMinute(100), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for range 2 { // so that a log has room
			require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
		}
		g := l.current.Load()
		var fast fastTargets
		require.Equal(t, admitted, fast.gather(l, g, []string{"a", "b"}, 0, 1))
		require.True(t, fast.validate())
		require.True(t, l.AllowN("a", 50))
		require.False(t, fast.validate())
	})
}

// A call on several keys that one of them denies does not believe keys that it has read at different
// instants, either.
func TestPeekAll_IsDeniedAtOneInstant(t *testing.T) {
	everyKind(t, PerMinute(100), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for range 2 { // so that a log has room
			require.True(t, l.AllowN("a", 1))
			require.True(t, l.AllowN("b", 50))
		}
		var fast fastTargets
		var d Decision
		g, keys := l.current.Load(), []string{"a", "b"}
		require.Equal(t, denied, fast.gather(l, g, keys, 0, 1))
		require.True(t, fast.deny(g, 0, 1, &d))
		require.Equal(t, l.Peek("b", 1), d)
		require.True(t, l.Allow("a"))
		require.False(t, fast.deny(g, 0, 1, &d))
	})
}

// A denied attempt is charged to all keys, if it is charged at all.
func TestTakeAll_ChargesADeniedAttemptToAllKeys(t *testing.T) {
	everyKind(t, PerMinute(100), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for range 2 {
			require.True(t, l.AllowN("a", 1))
			require.True(t, l.AllowN("b", 50))
		}
		require.False(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
		require.EqualValues(t, 97, l.Peek("a", 0).Remaining)
	}, WithChargeDenied())
}

// What a call has read of a state that another one moves on is not used. It must do no harm.
func TestPeekAll_SurvivesAStateThatMovesOn(t *testing.T) {
	const most = math.MaxInt64
	clock := NewManualClock(math.MinInt64 + 1_000_000)
	l := newTest(t, Limit{Count: 1 << 40, Window: time.Microsecond}, Limit{Count: 1 << 41, Window: time.Microsecond}, WithClock(clock))
	require.True(t, l.AllowN("a", 1<<39))
	g, at := l.current.Load(), clock.Now()
	var fast fastTargets
	require.Equal(t, admitted, fast.gather(l, g, []string{"a"}, at, 1))
	for _, reading := range []int64{most - 1500, most - 500} {
		clock.Set(reading)
		require.True(t, l.AllowN("a", 1<<39))
	}
	var d Decision
	require.NotPanics(t, func() { fast.tell(g, at, 1, &d) })
	require.False(t, fast.validate())
}

// If a call comes between the look at the keys and the charge, none is charged, and none stays locked.
func TestTakeAll_ChargesNothingAfterAChange(t *testing.T) {
	everyKind(t, PerMinute(100), func(t *testing.T, l *Limiter, clock *ManualClock) {
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			require.True(t, l.AllowN(key, 1))
		}
		for _, changed := range keys {
			g, at := l.current.Load(), clock.Now()
			var fast fastTargets
			require.Equal(t, admitted, fast.gather(l, g, keys, at, 5))
			require.True(t, l.AllowN(changed, 1))
			var left []int64
			for _, key := range keys {
				left = append(left, l.Peek(key, 0).Remaining)
			}
			var d Decision
			require.False(t, fast.charge(g, at, 5, &d), changed)
			for i, key := range keys {
				require.False(t, fast.all[i].entry.Word.Load()&locked != 0)
				require.Equal(t, left[i], l.Peek(key, 0).Remaining, "%s, after a change of %s", key, changed)
			}
		}
	})
}

// Of keys that have equally much left, the one named first decides, whichever is locked first.
func TestTakeAll_NamesTheFirstOfEquals(t *testing.T) {
	l := newTest(t, PerMinute(100), WithClock(NewManualClock(0)))
	for i := range 20 { // so that either is first in the order of the locks
		a, b := fmt.Sprint("a", i), fmt.Sprint("b", i)
		require.NoError(t, l.SetLimits(a, PerMinute(50)))
		require.NoError(t, l.SetLimits(b, PerHour(50)))
		for range 3 { // the first call inserts the keys
			require.Equal(t, PerMinute(50), l.TakeAll([]string{a, b}, 1).Limit)
			require.Equal(t, PerHour(50), l.TakeAll([]string{b, a}, 1).Limit)
			require.Equal(t, PerHour(50), l.PeekAll([]string{b, a}, 1).Limit)
		}
	}
}

// A call that finds a log without room makes room in that alone, whatever other keys of the call share.
func TestTakeAll_GrowsALogAlongWithKeysThatShare(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(100).Log(), WithClock(clock), WithMaxKeys(1, ShareOverflow))
	require.True(t, l.Allow("tracked"))
	a, b := sameShard(l)
	for range 50 {
		clock.Advance(time.Millisecond)
		require.True(t, l.TakeAll([]string{"tracked", a, b}, 1).Allowed)
	}
	require.EqualValues(t, 49, l.Peek("tracked", 0).Remaining)
	require.EqualValues(t, 50, l.Peek(a, 0).Remaining)
}

// A call that makes an entry for one key, and is then denied by another, leaves none. That holds if the
// entry has been replaced in between, too.
func TestTakeAll_LeavesNoKeyThatItDoesNotCharge(t *testing.T) {
	for name, call := range map[string]func(l *Limiter, keys []string) Decision{
		"TakeAll":    func(l *Limiter, keys []string) Decision { return l.TakeAll(keys, 1) },
		"ReserveAll": func(l *Limiter, keys []string) Decision { _, d := l.ReserveAll(keys, 1); return d },
	} {
		for _, reconfigured := range []bool{false, true} {
			t.Run(fmt.Sprint(name, reconfigured), func(t *testing.T) {
				everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
					require.True(t, l.AllowN("a", 4))
					readings := 0
					l.clock = clockFunc(func() int64 {
						if readings++; readings == 2 { // once the entry of the other key is there
							require.Equal(t, 2, l.Len())
							require.True(t, l.AllowN("a", 6))
							if less := l.Limits()[0]; reconfigured {
								less.Count, less.Burst = 9, min(less.Burst, 9)
								require.NoError(t, l.Reconfigure(less))
							}
						}
						return clock.Now()
					})
					require.False(t, call(l, []string{"a", "new"}).Allowed)
					require.Equal(t, 1, l.Len())
					require.True(t, l.Allow("new"))
				})
			})
		}
	}
}

// A key gets limits of its own, and so another entry, while a call for it under its old ones starts over. The call
// replaces no entry but one that cannot hold the charge: that would lose the new limits.
func TestTakeAll_KeepsLimitsThatAKeyGetsInBetween(t *testing.T) {
	for _, limit := range []Limit{Per(1000, time.Millisecond).Counter(), Per(1000, time.Millisecond)} {
		t.Run(limit.String(), func(t *testing.T) {
			var l *Limiter
			now, readings := int64(0), 0
			l = newTest(t, limit, WithMaxKeys(1, ShareOverflow), WithClock(clockFunc(func() int64 {
				if readings++; readings == 2 && now > 0 {
					require.NoError(t, l.SetLimits("a", PerHour(3)))
				}
				return now
			})))
			require.True(t, l.Allow("a"))
			now, readings = 1<<62, 0 // the word of a has no bits for it
			require.True(t, l.TakeAll([]string{"a", "b"}, 1).Allowed)
			require.Greater(t, readings, 1, "the limits have not changed")
			require.Equal(t, PerHour(3), l.Peek("a", 0).Limit)
		})
	}
}
