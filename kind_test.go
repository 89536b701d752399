package sash

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limitsOf returns limits under which the entries of a limiter are of that kind.
func limitsOf(t *testing.T, k kind) []Limit {
	t.Helper()
	all := map[kind][]Limit{
		kindCounter: {PerMinute(10).Counter()},
		kindLog:     {PerMinute(10).Log()},
		kindBucket:  {PerMinute(10).TokenBucket(10)},
		kindMulti:   {PerMinute(10).Log(), PerHour(100), PerDay(1000).Buckets(time.Hour)},
	}
	require.Len(t, all, int(kinds), "a new kind needs limits here")
	require.Contains(t, all, k)
	return all[k]
}

func rulesetOf(t *testing.T, k kind) *ruleset {
	t.Helper()
	rs := newOverrides(false, 0).newRuleset(limitsOf(t, k), true)
	require.Equal(t, k, rs.kind)
	return rs
}

// everyKindOfEntry runs test for every kind, with a ruleset that has entries of it.
func everyKindOfEntry(t *testing.T, test func(t *testing.T, rs *ruleset)) {
	t.Helper()
	for k := range kinds {
		t.Run(fmt.Sprint(k), func(t *testing.T) { test(t, rulesetOf(t, k)) })
	}
}

// left returns the units that e admits at an instant.
func (rs *ruleset) left(t *testing.T, e *entry, at int64) int64 {
	t.Helper()
	var d Decision
	_, alive := rs.decide(e, query{at: at}, &d)
	require.True(t, alive)
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
		allowed, alive := rs.decide(e, q, &d)
		require.True(t, allowed && alive)
		require.Equal(t, count-2, d.Remaining)

		word, alive = rs.loadQuiescent(e)
		require.True(t, alive)
		require.True(t, rs.admits(e, word, query{n: count - 2}))
		require.False(t, rs.admits(e, word, query{n: count - 1}))
		require.Equal(t, word, rs.apply(e, word, q, true, false, &d), "nothing is charged")
		require.Equal(t, count-4, d.Remaining)
		require.Equal(t, count-2, rs.left(t, e, 0))

		allowed, alive = rs.decideLocked(e, q, nil)
		require.True(t, allowed && alive)
		require.Equal(t, count-4, rs.left(t, e, 0))
		allowed, ok := rs.tryFast(e, 0, 1, &d, nil)
		require.True(t, allowed && ok)
		require.Equal(t, count-5, d.Remaining)
		require.True(t, rs.peekFast(e, 0, 2, &d))
		require.Equal(t, count-7, d.Remaining)
		require.Equal(t, count-5, rs.left(t, e, 0))
		word, _ = rs.loadQuiescent(e)
		admits, ok := rs.admitsFast(e, word, 0, count-4)
		require.True(t, ok && !admits)
		admits, ok = rs.admitsFast(e, word, 0, 1)
		require.True(t, ok && admits)
		require.True(t, e.tryLock(word))
		var left remainder
		e.Word.Store(rs.applyFast(e, word, 0, 1, true, &left))
		require.Equal(t, count-6, left.remaining)
		require.Equal(t, count-6, rs.left(t, e, 0))

		rs.shrink(e)
		word, _ = rs.loadQuiescent(e)
		_, expired := rs.expired(e, word, 0)
		require.False(t, expired)
		_, idle = rs.checkIdle(e, 0)
		require.False(t, idle)
		require.True(t, rs.validate(e, word))
		for i := range rs.rules {
			v := rs.stateOf(e, word, i)
			held := v.Curr
			if rs.rules[i].form == ringForm {
				held = int64(v.unitsSince(0))
			}
			if r := &rs.rules[i]; r.form == debtForm {
				held = r.bucket.Units(r.bucket.Lack(v.debt, 0))
			}
			require.EqualValues(t, 6, held, "under limit %d", i)
		}

		later := int64(48 * time.Hour)
		since, expired := rs.expired(e, word, later)
		require.True(t, expired)
		require.LessOrEqual(t, since, later)
		word, idle = rs.checkIdle(e, later)
		require.True(t, idle)
		require.Equal(t, since, rs.floor.Load())
		require.True(t, e.tryKill(word))
		_, alive = rs.decide(e, q, nil)
		require.False(t, alive)
		require.Equal(t, rs.kind, rs.kindOf(e.Word.Load()), "after its life too")
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
			for rounds := 0; !rs.ensureRoom(e, word, q); rounds++ {
				require.True(t, rs.kind.resizable())
				require.Less(t, rounds, len(rs.rules), "one round for each ring")
				word, _ = rs.loadQuiescent(e)
			}
			require.True(t, rs.ensureRoom(e, word, q))
			require.True(t, e.tryLock(word))
			e.Word.Store(rs.apply(e, word, q, true, true, new(Decision)))
		}
		require.Equal(t, rs.rules[0].Count-10, rs.left(t, e, 9))

		empty := rs.newEntry("name")
		word, alive := rs.lock(empty)
		require.True(t, alive)
		rs.grow(empty, word, query{n: 1, charge: true})
		empty.Word.Store(rs.apply(empty, word, query{n: 1, charge: true}, true, true, new(Decision)))
		require.Equal(t, rs.rules[0].Count-1, rs.left(t, empty, 0))

		if !rs.kind.resizable() {
			return
		}
		word, _ = rs.loadQuiescent(e)
		require.True(t, e.tryBeginResize(word))
		require.False(t, rs.ensureRoom(e, e.Word.Load(), query{n: 1, charge: true}))
		_, idle := rs.checkIdle(e, math.MaxInt64)
		require.False(t, idle)
		e.unlock(word)
		_, idle = rs.checkIdle(e, math.MaxInt64)
		require.True(t, idle)
	})
}

func TestKinds_EveryOneMigratesToEveryOther(t *testing.T) {
	everyKindOfEntry(t, func(t *testing.T, from *ruleset) {
		for k := range kinds {
			to := rulesetOf(t, k)
			e := from.newEntry("name")
			from.decide(e, query{n: 3, charge: true}, nil)
			word, _ := from.lock(e)
			next := from.migrated(e, word, to, to.kind, 0)
			want := to.kind
			if from.kind == kindMulti {
				want = kindMulti // it may have handed out reservations
			}
			require.Equal(t, want, to.kindOf(next.Word.Load()))
			require.Equal(t, "name", next.Name())
			require.Equal(t, to.rules[0].Count-3, to.left(t, next, 0), "from kind %d to %d", from.kind, to.kind)

			empty := newMultiEntry(to, "").compact(k, "name")
			require.Equal(t, k, to.kindOf(empty.Word.Load()))
			require.Equal(t, to.rules[0].Count, to.left(t, empty, 0))
		}
	})
}

func TestKinds_ThereIsNoOther(t *testing.T) {
	known := rulesetOf(t, kindCounter)
	rs := &ruleset{timeline: known.timeline, rules: known.rules, kind: kinds}
	e := known.newEntry("name")
	q := query{n: 1, charge: true}
	for name, f := range map[string]func(){
		"newEntry":    func() { rs.newEntry("name") },
		"decide":      func() { rs.decide(e, q, nil) },
		"decideFresh": func() { (&ruleset{timeline: rs.timeline, rules: rs.rules, kind: kinds, fresh: e}).decideFresh(q, nil) },
		"tryFast":     func() { rs.tryFast(e, 0, 1, nil, nil) },
		"peekFast":    func() { rs.peekFast(e, 0, 1, nil) },
		"admitsFast":  func() { rs.admitsFast(e, 0, 0, 1) },
		"applyFast":   func() { rs.applyFast(e, 0, 0, 1, true, nil) },
		"resizable":   func() { kinds.resizable() },
		"admits":      func() { rs.admits(e, 0, q) },
		"apply":       func() { rs.apply(e, 0, q, true, true, nil) },
		"grow":        func() { rs.grow(e, 0, q) },
		"ensureRoom":  func() { rs.ensureRoom(e, 0, q) },
		"shrink":      func() { rs.shrink(e) },
		"stateOf":     func() { rs.stateOf(e, 0, 0) },
		"validate":    func() { rs.validate(e, 0) },
		"expired":     func() { rs.expired(e, 0, 0) },
		"compact":     func() { newMultiEntry(known, "").compact(kinds, "name") },
	} {
		require.PanicsWithError(t, "sash: no entry of kind 4", f, name)
	}
}

// ruleOf returns a rule of that form, with an entry that has a state for it.
func ruleOf(t *testing.T, f form) (*rule, *multiEntry) {
	t.Helper()
	all := map[form]Limit{windowForm: PerMinute(10).Counter(), ringForm: PerMinute(10).Log(),
		debtForm: PerMinute(10).TokenBucket(10), noForm: Unlimited()}
	require.Len(t, all, int(forms), "a new form needs a limit here")
	rs := newOverrides(false, 0).newRuleset([]Limit{all[f]}, false)
	require.Equal(t, f, rs.rules[0].form)
	return &rs.rules[0], newMultiEntry(rs, "")
}

func TestForms_EveryOneIsChargedReplayedAndGivenBack(t *testing.T) {
	for f := range noForm {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			r, e := ruleOf(t, f)
			s, minute := &e.states[0], int64(time.Minute)
			s.lineage.Store(newLineage())
			q := query{at: minute, n: 3, charge: true}
			require.Less(t, r.kind(), kindMulti)
			require.True(t, r.admitsState(s, q))
			e.grow(q)
			require.False(t, s.needsGrowth(r, q))
			var d Decision
			r.applyState(s, q, true, false, &d)
			require.EqualValues(t, 7, d.Remaining)
			require.True(t, r.admitsState(s, query{at: minute, n: 10}), "nothing is charged")
			r.applyState(s, q, true, true, nil)
			require.False(t, r.admitsState(s, query{at: minute, n: 8}))
			require.Nil(t, s.shrunkRing(r))
			charged := s.reserved(r)
			if f == debtForm {
				require.EqualValues(t, 1, charged, "charges are numbered")
			} else {
				require.Equal(t, minute, r.beginningOf(charged))
				_, emptied := s.giveBack(r, charged+1, 3)
				require.False(t, emptied, "it was charged before")
			}

			v := e.stateOf(0)
			_, expired := v.expired(r, minute)
			require.False(t, expired)
			_, expired = v.expired(r, 3*minute)
			require.True(t, expired)
			past := r.history(v, minute)
			require.Equal(t, []charge{{minute, 3}}, past)

			for name, fill := range map[string]func(s *limitState){
				"replay":     func(s *limitState) { r.replay(s, past) },
				"limitState": func(s *limitState) { (&snapshotReader{rest: r.appendState(nil, &v)}).limitState(r, s) },
			} {
				_, again := ruleOf(t, f)
				fill(&again.states[0])
				require.Equal(t, past, r.history(again.stateOf(0), minute), name)
			}

			_, emptied := s.giveBack(r, charged, 1)
			require.False(t, emptied)
			require.True(t, r.admitsState(s, query{at: minute, n: 8}))
			rest := int64(5) // more than there is
			if f == debtForm {
				rest = 2 // it does not know how much a charge was
			}
			s.reserved(r)
			seen, emptied := s.giveBack(r, charged, rest)
			require.Equal(t, f != debtForm, emptied, "a bucket still knows when it was full")
			if emptied {
				require.Equal(t, minute, seen)
			}
			require.Empty(t, r.history(e.stateOf(0), minute))
		})
	}
}

func TestForms_NoneKeepsNothing(t *testing.T) {
	r, e := ruleOf(t, noForm)
	s, q := &e.states[0], query{at: 5, n: math.MaxInt64, charge: true}
	require.Equal(t, kindMulti, r.kind())
	for range 3 {
		require.True(t, r.admitsState(s, q))
		require.False(t, s.needsGrowth(r, q))
		var d Decision
		r.applyState(s, q, true, true, &d)
		r.applyState(s, q, true, true, nil)
		require.Equal(t, Decision{Allowed: true, Limit: Unlimited(), Remaining: math.MaxInt64}, d)
	}
	require.False(t, r.admitsState(s, query{n: -1}))
	require.Nil(t, s.shrunkRing(r))
	_, emptied := s.giveBack(r, s.newest(r), 1)
	require.False(t, emptied)

	v := e.stateOf(0)
	since, expired := v.expired(r, math.MinInt64)
	require.True(t, expired)
	require.EqualValues(t, int64(math.MinInt64), since)
	require.Empty(t, r.appendState(nil, &v))
	reader := &snapshotReader{rest: []byte{1}}
	reader.limitState(r, s)
	require.Len(t, reader.rest, 1, "nothing is read")
	r.replay(s, []charge{{0, 1}})
	require.Empty(t, r.history(e.stateOf(0), 0))
}

func TestForms_ThereIsNoOther(t *testing.T) {
	known, e := ruleOf(t, windowForm)
	r := &rule{Limit: known.Limit, timeline: known.timeline, form: forms, counter: known.counter}
	s, v := &e.states[0], e.stateOf(0)
	q := query{n: 1, charge: true}
	for name, f := range map[string]func(){
		"kind":            func() { r.kind() },
		"admitsState":     func() { r.admitsState(s, q) },
		"applyState":      func() { r.applyState(s, q, true, true, nil) },
		"stateAdmitsFast": func() { r.stateAdmitsFast(s, 0, 1, true) },
		"applyStateFast":  func() { r.applyStateFast(s, 0, 1, true, nil) },
		"needsGrowth":     func() { s.needsGrowth(r, q) },
		"shrunkRing":      func() { s.shrunkRing(r) },
		"newest":          func() { s.newest(r) },
		"giveBack":        func() { s.giveBack(r, 0, 1) },
		"expired":         func() { v.expired(r, 0) },
		"history":         func() { r.history(v, 0) },
		"replay":          func() { r.replay(s, nil) },
		"appendState":     func() { r.appendState(nil, &v) },
		"limitState":      func() { new(snapshotReader).limitState(r, s) },
	} {
		require.PanicsWithError(t, "sash: no state of form 4", f, name)
	}
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
		require.PanicsWithError(t, fmt.Sprintf("sash: no rule for Algorithm(%d)", a), func() {
			new(rule).compile(Limit{Count: 1, Window: 1, Algorithm: a}, &newOverrides(false, 0).timeline)
		})
	}
	require.Equal(t, 4, accepted)
}

// useEverything calls what a limiter can do, under limits of which the least admits 10
// units.
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
	require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
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
