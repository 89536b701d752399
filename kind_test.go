package sash

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/window"
)

// ownRulesets returns a ruleset of a limiter's own limits for every kind of entry, and every
// algorithm that a kind may have.
func ownRulesets(t *testing.T) map[string]*ruleset {
	t.Helper()
	all, seen := map[string]*ruleset{}, map[kind]bool{}
	for name, limits := range map[string][]Limit{
		"counter":        {PerMinute(10).Counter()},
		"token bucket":   {PerMinute(10).TokenBucket(10)},
		"log":            {PerMinute(10).Log()},
		"parts":          {PerMinute(10).Parts()},
		"wide parts":     {PerMinute(1000).Parts()},
		"large parts":    {PerMinute(100_000).Parts()},
		"large counter":  {Per(1e15, time.Hour).Counter()},
		"at once":        {AtOnce(10, time.Minute)},
		"several limits": {PerMinute(10).Log(), PerHour(100).Counter(), PerDay(1000).Buckets(time.Hour)},
	} {
		all[name] = newOverrides(false, 0).newRuleset(limits, true)
		seen[all[name].kind] = true
	}
	require.Len(t, seen, int(kinds), "a new kind needs limits here")
	return all
}

// everyKindOfEntry runs test for every kind, with a ruleset that has entries of it.
func everyKindOfEntry(t *testing.T, test func(t *testing.T, rs *ruleset)) {
	t.Helper()
	for name, rs := range ownRulesets(t) {
		t.Run(name, func(t *testing.T) { test(t, rs) })
	}
}

// left returns the units that e admits at an instant.
func (rs *ruleset) left(t *testing.T, e *entry, at int64) int64 {
	t.Helper()
	var d Decision
	require.NotEqual(t, retry, rs.decide(e, query{at: at}, &d, nil))
	return d.Remaining
}

func TestKinds_EveryOneIsDecidedChargedAndFreed(t *testing.T) {
	everyKindOfEntry(t, func(t *testing.T, rs *ruleset) {
		e, count := rs.newEntry("name"), rs.rules[0].Count
		require.Equal(t, "name", e.Name())
		require.Equal(t, rs.kind, rs.kindOf(e.Word.Load()))
		word, idle := rs.checkIdle(e, 0)
		require.True(t, idle)
		require.True(t, rs.validate(e, word))

		q := query{at: 0, n: 2, charge: true}
		var d Decision
		require.Equal(t, admitted, rs.decide(e, q, &d, nil))
		require.Equal(t, count-2, d.Remaining)

		word, alive := rs.loadQuiescent(e)
		require.True(t, alive)
		require.True(t, rs.admits(e, word, query{n: count - 2}))
		require.False(t, rs.admits(e, word, query{n: count - 1}))
		require.Equal(t, word, rs.apply(e, word, q, admitted, 0, &d, nil), "nothing is charged")
		require.Equal(t, count-4, d.Remaining)
		require.Equal(t, count-2, rs.left(t, e, 0))

		if rs.kind != kindWord {
			require.Equal(t, admitted, rs.decideLocked(e, q, nil, nil))
		} else {
			require.Equal(t, admitted, rs.decide(e, q, nil, nil))
		}
		require.Equal(t, count-4, rs.left(t, e, 0))
		word, _ = rs.loadQuiescent(e)
		require.Equal(t, admitted, rs.tryFast(e, word, 0, 1, stores|tells, &d, nil))
		require.Equal(t, count-5, d.Remaining)
		word, _ = rs.loadQuiescent(e)
		require.Equal(t, admitted, rs.tryFast(e, word, 0, 2, tells, &d, nil))
		require.Equal(t, count-7, d.Remaining)
		require.Equal(t, count-5, rs.left(t, e, 0))
		require.Equal(t, denied, rs.tryFast(e, word, 0, count-4, tells, nil, nil))
		require.Equal(t, admitted, rs.tryFast(e, word, 0, 1, tells, nil, nil))
		require.Equal(t, count-5, rs.left(t, e, 0))
		require.True(t, e.tryLock(word))
		var left remainder
		e.Word.Store(rs.chargeTried(e, word, 0, 1, stores, &left))
		require.Equal(t, count-6, left.remaining)
		require.Equal(t, count-6, rs.left(t, e, 0))

		if e.isMulti() {
			e.asMulti().shrink()
		}
		word, _ = rs.loadQuiescent(e)
		_, expired := rs.expired(e, word, 0)
		require.False(t, expired)
		_, idle = rs.checkIdle(e, 0)
		require.False(t, idle)
		require.True(t, rs.validate(e, word))
		for i := range rs.rules {
			past := rs.rules[i].algorithm.history(rs.stateOf(e, word, i), 0)
			require.Equal(t, []charge{{At: 0, Units: 6}}, past, "under limit %d", i)
		}

		later := int64(48 * time.Hour)
		since, expired := rs.expired(e, word, later)
		require.True(t, expired)
		require.LessOrEqual(t, since, later)
		word, idle = rs.checkIdle(e, later)
		require.True(t, idle)
		require.Equal(t, since, rs.floor.Load())
		require.True(t, e.tryKill(word))
		require.Equal(t, retry, rs.decide(e, q, nil, nil))
		require.Equal(t, rs.kind, rs.kindOf(e.Word.Load()), "after its life too")
	})
}

// While an entry is held for a copy, nothing is charged to it. Then it is as it was.
func TestKinds_EveryOneIsHeldForACopy(t *testing.T) {
	everyKindOfEntry(t, func(t *testing.T, rs *ruleset) {
		e, q := rs.newEntry("name"), query{at: 0, n: 2, charge: true}
		require.Equal(t, admitted, rs.decide(e, q, nil, nil))
		word, _ := rs.loadQuiescent(e)
		require.True(t, rs.tryHold(e, word))
		require.False(t, rs.tryHold(e, word), "by another call")
		require.Equal(t, retry, rs.tryFast(e, e.Word.Load(), 0, 1, stores, nil, nil))
		require.False(t, e.tryLock(word))
		rs.release(e, word)
		require.Equal(t, rs.rules[0].Count-2, rs.left(t, e, 0))
		require.Equal(t, admitted, rs.decide(e, q, nil, nil))
	})
}

// An entry whose word says that it is making room is not idle, and not quiescent. For a
// kind that never makes room, the bit is one of its state.
func TestKinds_ThoseThatMakeRoomSaySo(t *testing.T) {
	everyKindOfEntry(t, func(t *testing.T, rs *ruleset) {
		e := rs.newEntry("name")
		for tick := range int64(10) { // a log with one record for each charge
			q := query{at: tick, n: 1, charge: true}
			word, _ := rs.loadQuiescent(e)
			for rounds := 0; rs.ensureRoom(e, word, q, admitted) != admitted; rounds++ {
				require.True(t, rs.kind.resizable())
				require.Less(t, rounds, len(rs.rules), "one round for each ring")
				if rs.kind == kindLog {
					require.Equal(t, outgrown, rs.ensureRoom(e, word, q, admitted))
					require.Equal(t, outgrown, rs.decide(e, q, nil, nil))
					require.Equal(t, outgrown, rs.decideLocked(e, q, nil, nil))
					require.Equal(t, word, e.Word.Load(), "not locked any more")
					kept, room := rs.onlyLog().larger(e.ring().view())
					e = newLogEntry(kept, room, "name")
				}
				word, _ = rs.loadQuiescent(e)
			}
			require.Equal(t, admitted, rs.ensureRoom(e, word, q, admitted))
			require.True(t, e.tryLock(word))
			e.Word.Store(rs.apply(e, word, q, admitted, stores, new(Decision), nil))
		}
		require.Equal(t, rs.rules[0].Count-10, rs.left(t, e, 9))

		empty := rs.newEntry("name")
		word, alive := rs.lock(empty)
		require.True(t, alive)
		rs.grow(empty, query{n: 1, charge: true}, admitted)
		empty.Word.Store(rs.apply(empty, word, query{n: 1, charge: true}, admitted, stores, new(Decision), nil))
		require.Equal(t, rs.rules[0].Count-1, rs.left(t, empty, 0))

		if !rs.kind.resizable() {
			return
		}
		word, _ = rs.loadQuiescent(e)
		require.True(t, e.tryBeginResize(word))
		require.Equal(t, retry, rs.ensureRoom(e, e.Word.Load(), query{n: 1, charge: true}, admitted))
		_, idle := rs.checkIdle(e, math.MaxInt64)
		require.False(t, idle)
		e.unlock(word)
		_, idle = rs.checkIdle(e, math.MaxInt64)
		require.True(t, idle)
	})
}

func TestKinds_EveryOneMigratesToEveryOther(t *testing.T) {
	everyKindOfEntry(t, func(t *testing.T, from *ruleset) {
		for name, to := range ownRulesets(t) {
			e := from.newEntry("name")
			from.decide(e, query{n: 3, charge: true}, nil, nil)
			word, _ := from.lock(e)
			next := from.migrated(e, word, to, to.kind, 0)
			want := to.kind
			if len(from.rules) > 1 {
				want = kindMulti
			}
			require.Equal(t, want, to.kindOf(next.Word.Load()))
			require.Equal(t, "name", next.Name())
			carried := int64(0)
			if from.rules[0].holdsAs(&to.rules[0]) { // else what was used holds nothing, or the reverse
				carried = 3
			}
			require.Equal(t, to.rules[0].Count-carried, to.left(t, next, 0), "to %s", name)

			empty := to.entryOf(to.kind, make([]limitState, len(to.rules)), "name")
			require.Equal(t, to.kind, to.kindOf(empty.Word.Load()))
			require.Equal(t, to.rules[0].Count, to.left(t, empty, 0))
		}
	})
}

func TestKinds_ThereIsNoOther(t *testing.T) {
	known := ownRulesets(t)["counter"]
	rs := &ruleset{timeline: known.timeline, rules: known.rules, kind: kinds}
	e := known.newEntry("name")
	q := query{n: 1, charge: true}
	for name, f := range map[string]func(){
		"newEntry":    func() { rs.newEntry("name") },
		"decide":      func() { rs.decide(e, q, nil, nil) },
		"tryFast":     func() { rs.tryFast(e, 0, 0, 1, stores, nil, nil) },
		"chargeTried": func() { rs.chargeTried(e, 0, 0, 1, stores, nil) },
		"admits":      func() { rs.admits(e, 0, q) },
		"apply":       func() { rs.apply(e, 0, q, admitted, stores, nil, nil) },
		"stateOf":     func() { rs.stateOf(e, 0, 0) },
		"expired":     func() { rs.expired(e, 0, 0) },
		"entryOf":     func() { rs.entryOf(kinds, make([]limitState, 1), "name") },
	} {
		require.PanicsWithError(t, "sash: no entry of kind 4", f, name)
	}
}

// algorithmOf returns the algorithm of a limit, with an entry that has a state for it.
func algorithmOf(l Limit) (algorithm, *multiEntry) {
	rs := newOverrides(false, 0).newRuleset([]Limit{l}, true)
	return rs.rules[0].algorithm, rs.entryOf(kindMulti, nil, "").asMulti()
}

func TestAlgorithms_EveryOneIsChargedReplayedAndGivenBack(t *testing.T) {
	for name, limit := range map[string]Limit{"counter": PerMinute(10).Counter(), "log": PerMinute(10).Log(), "bucket": PerMinute(10).TokenBucket(10), "parts": PerMinute(10).Parts(), "at once": AtOnce(10, time.Minute)} {
		t.Run(name, func(t *testing.T) {
			r, e := algorithmOf(limit)
			s, minute := &e.states[0], int64(time.Minute)
			own := func() state { return e.ruleset.rules[0].begin("") }
			dated, held := r.horizon().dated, e.ruleset.rules[0].held
			g := newLineage()
			s.lineage.Store(g)
			q := query{at: minute, n: 3, charge: true}
			require.Equal(t, held, e.ruleset.kind == kindMulti, "a single one is mostly kept in a smaller entry")
			require.True(t, r.admits(s.load(), q))
			e.ruleset.grow(&e.entry, q, admitted)
			if a, ok := r.(ringAlgorithm); ok {
				require.False(t, a.needsRoom(s.load(), q, admitted))
				require.Nil(t, a.shrunk(s.load().ring))
			}
			_, o, _ := r.apply(s.load(), q, admitted, tells)
			require.EqualValues(t, 7, o.remaining)
			require.True(t, r.admits(s.load(), query{at: minute, n: 10}), "nothing is charged")
			e.apply(q, admitted, stores, nil)
			require.False(t, r.admits(s.load(), query{at: minute, n: 8}))
			charged := r.reserve(s.load(), g)
			if !dated {
				require.EqualValues(t, 1, charged, "charges are numbered")
			} else {
				begins := r.horizon().beginningOf(charged)
				if p, ok := r.(*slidingParts); ok {
					begins = p.ticks.Begins(charged, own().c)
				}
				minute = begins
				_, _, emptied := r.giveBack(s.load(), g, charged+1, 3)
				require.False(t, emptied, "it was charged before")
			}

			_, expired := r.expired(s.load(), minute)
			require.False(t, expired)
			_, expired = r.expired(s.load(), 3*minute)
			require.True(t, expired)
			past := r.history(s.load(), minute)
			require.Equal(t, []charge{{At: minute, Units: 3}}, past)
			require.Equal(t, past, r.history(r.replay(own(), past), minute))
			read := r.readState(own(), &snapshotReader{rest: r.appendState(nil, s.load())})
			if held {
				require.Empty(t, r.history(read, minute), "the holders are gone")
			} else {
				require.Equal(t, past, r.history(read, minute))
			}

			giveBack := func(units int64) (seen int64, emptied bool) {
				after, seen, emptied := r.giveBack(s.load(), g, charged, units)
				s.store(after)
				return seen, emptied
			}
			_, emptied := giveBack(1)
			require.False(t, emptied)
			require.True(t, r.admits(s.load(), query{at: minute, n: 8}))
			rest := int64(5) // more than there is
			if !dated {
				rest = 2 // it does not know how much a charge was
			}
			r.reserve(s.load(), g)
			seen, emptied := giveBack(rest)
			require.Equal(t, dated, emptied, "a bucket still knows when it was full")
			if emptied {
				require.Equal(t, minute, seen)
			}
			for _, c := range r.history(s.load(), minute) {
				require.Zero(t, c.Units)
			}
		})
	}
}

func TestAlgorithms_UnlimitedKeepsNothing(t *testing.T) {
	r, e := algorithmOf(Unlimited())
	s, q := &e.states[0], query{at: 5, n: math.MaxInt64, charge: true}
	require.Equal(t, kindMulti, e.ruleset.kind)
	for range 3 {
		require.True(t, r.admits(s.load(), q))
		var d Decision
		e.apply(q, admitted, stores, &d)
		e.apply(q, admitted, stores, nil)
		require.Equal(t, Decision{Allowed: true, Limit: Unlimited(), Remaining: math.MaxInt64}, d)
		require.Equal(t, admitted, r.try(s, 0, 1, tells))
		require.EqualValues(t, int64(math.MaxInt64), r.chargeTried(s, 0, 1, tells|stores).remaining)
	}
	require.False(t, r.admits(s.load(), query{n: -1}))
	g := newLineage()
	r.note(g, s.load(), s.load(), 0, admitted)
	_, _, emptied := r.giveBack(s.load(), g, r.reserve(s.load(), g), 1)
	require.False(t, emptied)

	since, expired := r.expired(s.load(), math.MinInt64)
	require.True(t, expired)
	require.EqualValues(t, int64(math.MinInt64), since)
	require.Empty(t, r.appendState(nil, s.load()))
	reader := &snapshotReader{rest: []byte{1}}
	require.Zero(t, r.readState(state{}, reader))
	require.Len(t, reader.rest, 1, "nothing is read")
	require.Zero(t, r.replay(state{}, []charge{{At: 0, Units: 1}}))
	require.Empty(t, r.history(s.load(), 0))
	require.True(t, r.horizon().dated)
}

// An Algorithm that New accepts works alone and with others. Another one is compiled
// nowhere.
func TestAlgorithms_AreAcceptedIfThereIsARuleForThem(t *testing.T) {
	accepted := 0
	for a := range Algorithm(math.MaxUint8) {
		valid := false
		for _, limit := range []Limit{{}, {Precision: time.Second}, {Burst: 10}} {
			limit.Count, limit.Window, limit.Algorithm = 10, time.Minute, a
			if _, err := New(limit); err != nil {
				require.ErrorIs(t, err, ErrInvalidLimit)
				continue
			}
			valid = true
			useEverything(t, limit)
			useEverything(t, limit, PerHour(1000))
			useEverything(t, PerHour(1000).Log(), limit)
		}
		if valid {
			accepted++
			continue
		}
		require.PanicsWithValue(t, fmt.Sprintf("sash: no rule for Algorithm(%d)", a), func() {
			new(rule).compile(Limit{Count: 1, Window: 1, Algorithm: a}, &newOverrides(false, 0).timeline)
		})
	}
	require.Equal(t, 6, accepted)
}

// useEverything calls what a limiter can do, under limits that admit at least
// 10 units.
func useEverything(t *testing.T, limits ...Limit) {
	t.Helper()
	clock := NewManualClock(0)
	options := []Option{WithClock(clock)}
	for _, limit := range limits {
		options = append(options, limit)
	}
	l := newTest(t, options...)
	require.True(t, l.Allow("k"))
	require.EqualValues(t, 8, l.Take("k", 1).Remaining)
	require.EqualValues(t, 7, l.Peek("k", 1).Remaining)
	d, next := l.TakeThenPeek("k", 1)
	require.EqualValues(t, 7, d.Remaining)
	require.False(t, next.Allowed)
	require.EqualValues(t, 6, l.TakeAll([]string{"k", "other"}, 1).Remaining)
	reservation, d := l.Reserve("k", 3)
	require.EqualValues(t, 3, d.Remaining)
	reservation.Commit(1)
	left := 5
	if slices.ContainsFunc(limits, func(l Limit) bool { return l.Algorithm == Concurrency }) {
		left = 6 // the unit that was used is not held any more
	}
	require.EqualValues(t, left, l.Peek("k", 0).Remaining)
	require.NoError(t, l.SetLimits("k", limits[0], PerDay(500)))
	require.NoError(t, l.Reconfigure(append(limits[:len(limits):len(limits)], PerDay(5000))...))
	require.NoError(t, l.Reconfigure(limits...))

	var snapshot bytes.Buffer
	require.NoError(t, l.Snapshot(&snapshot))
	restored := newTest(t, options...)
	require.NoError(t, restored.Restore(&snapshot))
	for _, l := range []*Limiter{l, restored} {
		require.False(t, l.Peek("k", 1000).Allowed)
		require.Equal(t, 2, l.Len())
		require.True(t, l.Reset("k"))
		clock.Advance(48 * time.Hour)
		require.Equal(t, 1, l.Sweep())
	}
}

// A call reads the words of a state one after another while others store them. What it has read may
// be halves of two states, and then its answer is not used. But it must not panic.
func TestAlgorithms_SurviveWhatIsTorn(t *testing.T) {
	for _, limit := range []Limit{
		PerMinute(10).Counter(), PerSecond(1 << 40).Counter(), {Count: math.MaxInt64, Window: 1},
		PerMinute(10).TokenBucket(10), PerSecond(7).TokenBucket(1 << 40), Per(math.MaxInt64, 3).TokenBucket(math.MaxInt64),
	} {
		r, e := algorithmOf(limit)
		s := &e.states[0]
		instants := []int64{math.MinInt64, -1, 0, 1, int64(time.Second), int64(time.Hour), math.MaxInt64 - 1, math.MaxInt64}
		units := []int64{0, 1, 2, 9, 10, 11, 1 << 40, math.MaxInt64}
		pick := func(random *rand.Rand, from []int64) int64 { return from[random.IntN(len(from))] }
		var whole []state // as calls have left it, from which the halves are
		for _, at := range instants {
			for _, n := range units {
				first, _, _ := r.apply(state{}, query{at: at, n: n, charge: true}, admitted, stores)
				next := window.Plus(at, int64(limit.Window))
				second, _, _ := r.apply(first, query{at: next, n: n, charge: true}, admitted, stores)
				whole = append(whole, first, second)
			}
		}
		for trial := range uint64(5000) {
			random := rand.New(rand.NewPCG(2, trial))
			some := func() state { return whole[random.IntN(len(whole))] }
			torn, later := state{a: some().a, b: some().b, c: some().c}, some()
			at, n := pick(random, instants), pick(random, units)
			require.NotPanics(t, func() {
				s.store(torn)
				q := query{at: at, n: n}
				r.admits(torn, q)
				r.apply(torn, q, denied, tells)
				r.apply(torn, q, admitted, tells)
				r.apply(torn, q, retry, tells)
				if r.try(s, at, max(n, 1), tells) == admitted {
					s.store(later)
					r.chargeTried(s, at, max(n, 1), tells)
				}
				r.expired(torn, at)
				r.history(torn, at)
				r.appendState(nil, torn)
			}, "%v at %d: %d of %+v", limit, at, n, torn)
		}
	}
}

// A call that reads more than the word of a key does not believe what it has read if another call has
// changed the key. It charges nothing.
func TestTryFast_BelievesNoStateThatHasChanged(t *testing.T) {
	for _, limits := range [][]Limit{
		{PerHour(100).Counter(), PerDay(200).Counter()}, {PerHour(100).Log()}, {PerHour(100).Buckets(time.Minute)},
	} {
		l := newTest(t, WithLimits(limits...), WithClock(NewManualClock(0)))
		require.True(t, l.Allow("k"))
		e := l.table().loadLocked(l.key("k"))
		word := e.Word.Load()
		require.True(t, l.Allow("k"))
		var d Decision
		for _, n := range []int64{1, 98, 99, 1000} { // admitted, and denied
			require.Equal(t, retry, l.own().tryFast(e, word, 0, n, tells, &d, nil), "%v, %d", limits, n)
			require.Equal(t, retry, l.own().tryFast(e, word, 0, n, tells|stores, &d, nil), "%v, %d", limits, n)
			require.Equal(t, retry, l.own().tryFast(e, word, 0, n, stores, nil, nil), "%v, %d", limits, n)
			require.NotEqual(t, retry, l.own().tryFast(e, e.Word.Load(), 0, n, tells, &d, nil), "%v, %d", limits, n)
		}
		require.EqualValues(t, 98, l.Peek("k", 0).Remaining, "%v", limits)
	}
}

// A call charges no word that another call has charged since it was read.
func TestTryFast_ChargesNoWordThatHasChanged(t *testing.T) {
	for _, limit := range []Limit{PerHour(100).Counter(), PerHour(100).TokenBucket(100), PerHour(100).Parts()} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		require.True(t, l.Allow("k"))
		e := l.table().loadLocked(l.key("k"))
		word := e.Word.Load()
		require.True(t, l.Allow("k"))
		var d Decision
		require.Equal(t, retry, l.own().tryFast(e, word, 0, 1, tells|stores, &d, nil), "%v", limit)
		require.Equal(t, retry, l.own().tryFast(e, word, 0, 1, stores, nil, nil), "%v", limit)
		require.EqualValues(t, 98, l.Peek("k", 0).Remaining, "%v", limit)
	}
}

// A call under several limits charges the state that it has looked at, or looks again.
func TestDecideVersion_ChargesNoStateThatHasChanged(t *testing.T) {
	l := newTest(t, PerHour(2).Log(), PerDay(2).Counter(), WithClock(NewManualClock(0)))
	require.True(t, l.Allow("k"))
	rs, e, asked := l.own(), l.table().loadLocked(l.key("k")), 0
	for i := range rs.rules {
		rs.rules[i].algorithm = algorithmThatWaits{rs.rules[i].algorithm, func() {
			if asked++; asked == len(rs.rules) { // all have admitted the call
				require.True(t, l.Allow("k"), "the last unit, in the same record")
			}
		}}
	}
	require.Equal(t, denied, rs.decideVersion(e, query{at: 0, n: 1, charge: true}, nil, nil))
	require.Greater(t, asked, len(rs.rules), "it has looked again")
	require.Zero(t, l.Peek("k", 0).Remaining)
}
