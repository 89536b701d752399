package fuzz

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

func linearizable(h *history) bool { return verdict(h) == porcupine.Ok }

// Sequential histories in which one answer is changed, by a unit or a nanosecond, are
// rejected.
func TestHistories_WithAnotherAnswerAreRejected(t *testing.T) {
	if race.Enabled {
		t.Skip("all of it happens in one goroutine")
	}
	rejected := 0
	for seed := range uint64(40) {
		h := plan(seed)
		for _, p := range h.plans {
			h.first = append(h.first, p...)
		}
		h.plans, h.sweeper = nil, noSweeper
		h.record(t)
		require.True(t, linearizable(h), "as recorded:\n%v", h)
		for _, o := range h.all() {
			if o.verb == peeksAll && h.maxKeys > 0 {
				continue // no charge shows whether its idle keys were tracked, or did not fit
			}
			was := o.outcome
			for _, other := range others(o) {
				o.outcome = other
				require.False(t, linearizable(h), "was %+v:\n%v", was, h)
				rejected++
			}
			o.outcome = was
		}
	}
	t.Logf("%d changed answers were rejected", rejected)
	require.Greater(t, rejected, 1500)
}

// others returns outcomes that differ from o's as little as possible.
func others(o *operation) (all []outcome) {
	switch o.verb {
	case settles, resets, setsLimits, reconfigures, snapshots:
		return nil
	}
	change := func(f func(*sash.Decision)) {
		out := o.outcome
		f(&out.decision)
		all = append(all, out)
	}
	if o.verb == restores {
		return []outcome{{refused: !o.refused}}
	}
	change(func(d *sash.Decision) { d.Allowed = !d.Allowed })
	if o.verb == allows {
		return all
	}
	change(func(d *sash.Decision) { d.Remaining++ })
	change(func(d *sash.Decision) { d.RetryAfter++ })
	change(func(d *sash.Decision) { d.ResetAfter++ })
	change(func(d *sash.Decision) { d.Limit.Count++ })
	if o.verb == takesUpTo {
		out := o.outcome
		out.taken++
		all = append(all, out)
	}
	return all
}

// Histories are accepted if there is a valid order of their calls, and else rejected.
func TestHistories_InNoOrderAreRejected(t *testing.T) {
	limit, more := sash.Per(4, 10).Log(), sash.Per(6, 10).Log()
	at := func(began, ended int64, o operation) *operation {
		o.began, o.ended = began, ended
		return &o
	}
	// left is the outcome of a call at instant 0 that leaves that many units of l.
	left := func(l sash.Limit, units int64) outcome {
		d := sash.Decision{Allowed: true, Limit: l, Remaining: units}
		if units < l.Count {
			d.ResetAfter = 10
		}
		return outcome{decision: d}
	}
	call := func(v verb, leaves int64, keys ...string) operation {
		return operation{verb: v, keys: keys, units: 1, readings: []int64{0}, outcome: left(limit, leaves)}
	}
	peek := func(key string, leaves int64) operation {
		o := call(peeks, leaves, key)
		o.units = 0
		return o
	}
	reads := func(o operation, readings ...int64) operation {
		o.readings = readings
		return o
	}
	reserve := at(1, 2, call(reserves, 3, "a"))
	back := operation{verb: settles, keys: []string{"a"}, of: reserve}
	second := at(1, 2, call(reserves, 2, "a"))
	again := operation{verb: settles, keys: []string{"a"}, of: second}
	change := operation{verb: setsLimits, keys: []string{"a"}, limits: []sash.Limit{more}}
	reset := operation{verb: resets, keys: []string{"a"}, outcome: outcome{tracked: true}}
	resetNothing := operation{verb: resets, keys: []string{"a"}}
	after := peek("a", 5)
	after.outcome = left(more, 5)

	for name, c := range map[string]struct {
		ops  []*operation
		want bool
	}{
		"a charge is seen":                           {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, peek("a", 3))}, true},
		"a charge is not seen":                       {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, peek("a", 4))}, false},
		"not yet":                                    {[]*operation{at(1, 3, call(takes, 3, "a")), at(2, 4, peek("a", 4))}, true},
		"before it was made":                         {[]*operation{at(3, 4, call(takes, 3, "a")), at(1, 2, peek("a", 3))}, false},
		"seen, and then no more":                     {[]*operation{at(1, 6, call(takes, 3, "a")), at(2, 3, peek("a", 3)), at(4, 5, peek("a", 4))}, false},
		"two have the same unit":                     {[]*operation{at(1, 3, call(takes, 3, "a")), at(2, 4, call(takes, 3, "a"))}, false},
		"each has its own":                           {[]*operation{at(1, 3, call(takes, 2, "a")), at(2, 4, call(takes, 3, "a"))}, true},
		"the second key is not charged":              {[]*operation{at(1, 2, call(takesAll, 3, "a", "b")), at(3, 4, peek("b", 4))}, false},
		"one key is charged before the other":        {[]*operation{at(1, 6, call(takesAll, 3, "a", "b")), at(2, 3, peek("a", 3)), at(4, 5, peek("b", 4))}, false},
		"the keys are charged between":               {[]*operation{at(1, 6, call(takesAll, 3, "a", "b")), at(2, 3, peek("a", 4)), at(4, 5, peek("b", 3))}, true},
		"two each before the other":                  {[]*operation{at(1, 5, call(takesAll, 2, "a", "b")), at(2, 6, call(takes, 3, "a")), at(3, 7, call(takes, 2, "b"))}, true},
		"two in a circle":                            {[]*operation{at(1, 6, call(takesAll, 2, "a", "b")), at(2, 3, call(takes, 2, "a")), at(4, 5, call(takes, 3, "b"))}, false},
		"a reading that it did not take":             {[]*operation{at(1, 2, reads(call(takes, 3, "a"), 0)), at(3, 4, reads(peek("a", 3), 1))}, false},
		"not the last reading":                       {[]*operation{at(1, 2, reads(call(takes, 3, "a"), 0, 7)), at(3, 4, peek("a", 3))}, false},
		"the last reading":                           {[]*operation{at(1, 2, reads(call(takes, 3, "a"), -7, 0)), at(3, 4, peek("a", 3))}, true},
		"what was given back is back":                {[]*operation{reserve, at(3, 4, back), at(5, 6, peek("a", 4))}, true},
		"it is not":                                  {[]*operation{reserve, at(3, 4, back), at(5, 6, peek("a", 3))}, false},
		"it comes back twice":                        {[]*operation{at(-1, 0, call(takes, 3, "a")), second, at(3, 4, again), at(5, 6, again), at(7, 8, peek("a", 4))}, false},
		"it comes back once":                         {[]*operation{at(-1, 0, call(takes, 3, "a")), second, at(3, 4, again), at(5, 6, again), at(7, 8, peek("a", 3))}, true},
		"the new limits after a change":              {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, change), at(5, 6, after)}, true},
		"the old ones":                               {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, change), at(5, 6, peek("a", 3))}, false},
		"the new ones before it, and then the old":   {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 8, change), at(4, 5, after), at(6, 7, peek("a", 3))}, false},
		"a key that was reset is new":                {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, reset), at(5, 6, peek("a", 4))}, true},
		"it is not, though it was reset":             {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, reset), at(5, 6, peek("a", 3))}, false},
		"a key that was charged had nothing to lose": {[]*operation{at(1, 2, call(takes, 3, "a")), at(3, 4, resetNothing)}, false},
	} {
		h := &history{limits: []sash.Limit{limit}, first: c.ops}
		require.Equal(t, c.want, linearizable(h), "%s:\n%v", name, h)
	}
}

// A script is a list of calls with their answers, under a limit of 4 units in 10 ns.
type script struct{ ops []*operation }

var scriptLimit = sash.Per(4, 10).Log()

// add adds o, which lasts from began to ended, and whose only clock reading is reading.
func (s *script) add(began, ended, reading int64, o operation) *operation {
	o.began, o.ended, o.until, o.readings = began, ended, reading, []int64{reading}
	s.ops = append(s.ops, &o)
	return &o
}

// take adds a call for one unit of each key at instant 0. It leaves that many units of the
// key that has the fewest left.
func (s *script) take(began, ended, leaves int64, keys ...string) *operation {
	return s.add(began, ended, 0, operation{verb: takesAll, keys: keys, units: 1, outcome: leaving(leaves)})
}

// peek adds a call for no units.
func (s *script) peek(began, ended, leaves int64, key string) *operation {
	return s.add(began, ended, 0, operation{verb: peeks, keys: []string{key}, outcome: leaving(leaves)})
}

func (s *script) snapshot(began, ended int64) *operation {
	return s.add(began, ended, 0, operation{verb: snapshots, keys: historyKeys})
}

func (s *script) restore(began, ended, reading int64, of *operation) *operation {
	return s.add(began, ended, reading, operation{verb: restores, keys: historyKeys, of: of})
}

// leaving returns the outcome of a call that leaves that many units.
func leaving(units int64) outcome {
	d := sash.Decision{Allowed: true, Limit: scriptLimit, Remaining: units}
	if units < scriptLimit.Count {
		d.ResetAfter = 10
	}
	return outcome{decision: d}
}

// Histories with an impossible snapshot, or an impossible state after a Restore, are
// rejected.
func TestHistories_WithAnotherSnapshotAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		write func(s *script)
		want  bool
	}{
		"what was charged before is restored": {func(s *script) {
			s.take(1, 2, 3, "a")
			saved := s.snapshot(3, 4)
			s.take(5, 6, 2, "a")
			s.restore(7, 8, 0, saved)
			s.peek(9, 10, 3, "a")
		}, true},
		"it is not": {func(s *script) {
			s.take(1, 2, 3, "a")
			s.restore(7, 8, 0, s.snapshot(3, 4))
			s.peek(9, 10, 4, "a")
		}, false},
		"what was charged afterwards stays": {func(s *script) {
			saved := s.snapshot(1, 2)
			s.take(3, 4, 3, "a")
			s.restore(5, 6, 0, saved)
			s.peek(7, 8, 3, "a")
		}, false},
		"a call at the same time is in it": {func(s *script) {
			s.take(1, 4, 3, "a")
			s.restore(5, 6, 0, s.snapshot(2, 3))
			s.peek(7, 8, 3, "a")
		}, true},
		"or is not": {func(s *script) {
			s.take(1, 4, 3, "a")
			s.restore(5, 6, 0, s.snapshot(2, 3))
			s.peek(7, 8, 4, "a")
		}, true},
		"or with one of its keys": {func(s *script) {
			s.take(1, 4, 3, "a", "b")
			s.restore(5, 6, 0, s.snapshot(2, 3))
			s.peek(7, 8, 3, "a")
			s.peek(9, 10, 4, "b")
		}, true},
		"one of two calls is in it, and the one before is not": {func(s *script) {
			s.take(2, 3, 3, "a")
			s.take(4, 5, 3, "b")
			s.restore(7, 8, 0, s.snapshot(1, 6))
			s.peek(9, 10, 4, "a")
			s.peek(11, 12, 3, "b")
		}, true}, // each key has an instant of its own
		"a change of limits comes between its keys": {func(s *script) {
			own := []sash.Limit{sash.Per(6, 10).Log()}
			s.add(2, 3, 0, operation{verb: setsLimits, keys: []string{"a"}, limits: own})
			s.add(4, 5, 0, operation{verb: setsLimits, keys: []string{"b"}, limits: own})
			s.restore(7, 8, 0, s.snapshot(1, 6))
			s.peek(9, 10, 4, "a")
			s.peek(11, 12, 6, "b").outcome.decision = sash.Decision{Allowed: true, Limit: own[0], Remaining: 6}
		}, false},
		"both changes come before": {func(s *script) {
			own := []sash.Limit{sash.Per(6, 10).Log()}
			s.add(2, 3, 0, operation{verb: setsLimits, keys: []string{"a"}, limits: own})
			s.add(4, 5, 0, operation{verb: setsLimits, keys: []string{"b"}, limits: own})
			s.restore(7, 8, 0, s.snapshot(1, 6))
			s.peek(9, 10, 6, "a").outcome.decision = sash.Decision{Allowed: true, Limit: own[0], Remaining: 6}
			s.peek(11, 12, 6, "b").outcome.decision = sash.Decision{Allowed: true, Limit: own[0], Remaining: 6}
		}, true},
		"time goes on where it was": {func(s *script) {
			s.take(1, 2, 3, "a")
			s.restore(5, 6, 7, s.snapshot(3, 4))
			s.peek(7, 8, 3, "a").readings[0] = 7
		}, true},
		"time has passed": {func(s *script) {
			s.take(1, 2, 3, "a")
			s.restore(5, 6, 7, s.snapshot(3, 4))
			late := s.peek(7, 8, 3, "a")
			late.readings[0], late.outcome.decision.ResetAfter = 7, 3
		}, false},
		"a charge from before is given back": {func(s *script) {
			of := s.take(1, 2, 3, "a")
			of.verb = reserves
			s.restore(5, 6, 0, s.snapshot(3, 4))
			s.add(7, 8, 0, operation{verb: settles, keys: []string{"a"}, of: of})
			s.peek(9, 10, 4, "a")
		}, false},
		"nothing of it is given back": {func(s *script) {
			of := s.take(1, 2, 3, "a")
			of.verb = reserves
			s.restore(5, 6, 0, s.snapshot(3, 4))
			s.add(7, 8, 0, operation{verb: settles, keys: []string{"a"}, of: of})
			s.peek(9, 10, 3, "a")
		}, true},
		"it is refused without a reason": {func(s *script) {
			s.restore(3, 4, 0, s.snapshot(1, 2)).outcome.refused = true
		}, false},
		"it is refused under other limits": {func(s *script) {
			saved := s.snapshot(1, 2)
			s.add(3, 4, 0, operation{verb: reconfigures, limits: []sash.Limit{sash.Per(5, 10).Log()}})
			s.restore(5, 6, 0, saved).outcome.refused = true
		}, true},
		"it is taken under other limits": {func(s *script) {
			saved := s.snapshot(1, 2)
			s.add(3, 4, 0, operation{verb: reconfigures, limits: []sash.Limit{sash.Per(5, 10).Log()}})
			s.restore(5, 6, 0, saved)
		}, false},
	} {
		var s script
		c.write(&s)
		h := &history{limits: []sash.Limit{scriptLimit}, first: s.ops}
		require.Equal(t, c.want, linearizable(h), "%s:\n%v", name, h)
	}
}

// Histories in which keys that do not fit are treated wrongly are rejected.
func TestHistories_UnderAnotherCapAreRejected(t *testing.T) {
	refused := func(s *script, began, ended int64, keys ...string) *operation {
		o := s.take(began, ended, 0, keys...)
		o.outcome.decision = sash.Decision{Limit: scriptLimit, RetryAfter: time.Second}
		return o
	}
	for name, c := range map[string]struct {
		maxKeys   int
		overflow  sash.Overflow
		displaced uint64
		write     func(s *script)
		want      bool
	}{
		"a key does not fit, and is refused": {1, sash.DenyNew, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			refused(s, 3, 4, "b")
		}, true},
		"it is admitted": {1, sash.DenyNew, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
		}, false},
		"it fits, and is refused": {2, sash.DenyNew, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			refused(s, 3, 4, "b")
		}, false},
		"the other key may have come before": {1, sash.DenyNew, 0, func(s *script) {
			s.take(1, 4, 3, "a")
			refused(s, 2, 3, "b")
		}, true},
		"refused because of itself": {1, sash.DenyNew, 0, func(s *script) {
			s.take(1, 4, 3, "a")
			refused(s, 2, 3, "a")
		}, false},
		"refused, and charged to the other key": {1, sash.DenyNew, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			refused(s, 3, 4, "a", "b").outcome.decision.ResetAfter = 10
			s.peek(5, 6, 2, "a")
		}, false},
		"a key shares a quota": {1, sash.ShareOverflow, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.take(5, 6, 2, "b")
		}, true},
		"two keys share one": {1, sash.ShareOverflow, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.take(5, 6, 2, "c")
			s.take(7, 8, 1, "b")
		}, true},
		"they do, and then do not": {1, sash.ShareOverflow, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.take(5, 6, 2, "c")
			s.take(7, 8, 2, "b")
		}, false},
		"a key makes room": {1, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.peek(5, 6, 4, "a")
		}, true},
		"it makes room, and is still there": {1, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.peek(5, 6, 3, "a")
		}, false},
		"it is gone, and nothing has counted it": {1, sash.EvictLeastUsed, 0, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.peek(5, 6, 4, "a")
		}, false},
		"it is gone, though there was room": {2, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 3, "b")
			s.peek(5, 6, 4, "a")
		}, false},
		"a call evicts its own key": {1, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 4, 3, "a")
			s.take(2, 3, 3, "a")
		}, false},
		"the key with more left makes room": {2, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 2, "a")
			s.take(5, 6, 3, "b")
			s.take(7, 8, 3, "c")
			s.peek(9, 10, 2, "a")
		}, true},
		"the key with less left makes room": {2, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 4, 2, "a")
			s.take(5, 6, 3, "b")
			s.take(7, 8, 3, "c")
			s.peek(9, 10, 3, "b")
		}, false},
		"a key makes room for a call that has yet to charge": {1, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.take(3, 8, 3, "b")
			s.peek(4, 5, 4, "a")
			s.peek(6, 7, 4, "b")
		}, true},
		"it makes room before the call has begun": {1, sash.EvictLeastUsed, 1, func(s *script) {
			s.take(1, 2, 3, "a")
			s.peek(3, 4, 4, "a")
			s.take(5, 6, 3, "b")
		}, false},
	} {
		var s script
		c.write(&s)
		h := &history{limits: []sash.Limit{scriptLimit}, maxKeys: c.maxKeys, overflow: c.overflow, sweeper: noSweeper, first: s.ops}
		h.stats.Displaced = c.displaced
		require.Equal(t, c.want, linearizable(h), "%s:\n%v", name, h)
	}
}

// A history of many concurrent calls is rejected if one was denied that every order
// admits.
func TestHistories_OfManyCallsAtOnceAreRejected(t *testing.T) {
	h := &history{limits: []sash.Limit{sash.Per(20, time.Hour).Log()}}
	for i := range int64(12) {
		o := &operation{verb: allows, keys: []string{"a"}, units: 1, readings: []int64{0}, began: i, ended: 100 + i}
		o.decision.Allowed = i != 5
		h.first = append(h.first, o)
	}
	require.False(t, linearizable(h))
	h.first[5].decision.Allowed = true
	require.True(t, linearizable(h))
}
