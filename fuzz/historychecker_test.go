package fuzz

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

func linearizable(h *history) bool { return verdict(h) == porcupine.Ok }

// Calls one after the other, of which one answer is not as it was, be it by a unit
// or a nanosecond.
func TestHistories_WithAnotherAnswerAreRejected(t *testing.T) {
	rejected := 0
	for seed := range uint64(40) {
		h := plan(seed)
		for _, p := range h.plans {
			h.first = append(h.first, p...)
		}
		h.plans, h.sweeper = nil, nobody
		h.record(t)
		require.True(t, linearizable(h), "as it was:\n%v", h)
		for _, o := range h.all() {
			was := o.outcome
			for _, other := range others(o) {
				o.outcome = other
				require.False(t, linearizable(h), "was %+v:\n%v", was, h)
				rejected++
			}
			o.outcome = was
		}
	}
	t.Logf("%d answers were told from the right ones", rejected)
	require.Greater(t, rejected, 1500)
}

// others returns outcomes that o did not have, as near as can be.
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
	return all
}

// Which orders there may be, and which not.
func TestHistories_InNoOrderAreRejected(t *testing.T) {
	limit, more := sash.Per(4, 10).Log(), sash.Per(6, 10).Log()
	at := func(began, ended int64, o operation) *operation {
		o.began, o.ended = began, ended
		return &o
	}
	// left is what a call at instant 0 is told that leaves so many of l's units.
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

// Of many calls at once one was denied, though there was room in any order.
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
