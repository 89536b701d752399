package fuzz

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
)

const historyCallers = 3

// historyKeys are the keys of all histories.
var historyKeys = []string{"a", "b", "c"}

// A planner plans a history at random.
type planner struct {
	*rand.Rand
	*history
	unit time.Duration // of windows; counters of seconds fit one word, counters of nanoseconds do not
	// moves is whether the clock moves between operations. If so, no reservation is
	// given back whole. A key that loses its last unit raises the floor of all empty
	// keys, and late readings would show at which time they see the new floor.
	moves    bool
	verbs    []verb       // to choose from
	saved    []*operation // the snapshots taken before the callers begin
	oneKey   bool         // whether calls for a single key are all for the same one
	maxCount int64        // the greatest Count of a limit
}

// plan returns the history of that seed. It is not recorded yet.
func plan(seed uint64) *history {
	p := &planner{Rand: rand.New(rand.NewPCG(seed, 11)), history: &history{seed: seed}}
	p.unit = []time.Duration{1, time.Second}[p.IntN(2)]
	p.moves = p.IntN(3) > 0
	p.chargeDenied = p.IntN(5) == 0
	p.sweeper = []sweeper{noSweeper, callerSweeps, janitorSweeps}[p.IntN(3)]
	p.oneKey = p.IntN(2) == 0
	p.maxCount = []int64{5, 20}[p.IntN(2)]
	p.hesitates = p.IntN(2) == 0
	start := p.distance(20)
	p.clock = newSharedClock(start - p.distance(20))
	p.drawLimits()
	p.drawVerbs()
	if holds(p.limits) && slices.Contains(p.verbs, reserves) {
		p.moves = false // what is held is always given back whole
	}
	calls := 2
	if p.IntN(4) == 0 {
		calls = p.duel()
	}
	p.drawCap()
	p.first = p.operations(p.IntN(5))
	if p.IntN(4) > 0 { // give the units charged first time to come back
		p.first = append(p.first, &operation{verb: peeks, keys: historyKeys[:1], after: p.distance(60)})
	}
	for _, o := range p.first {
		if o.verb == snapshots {
			p.saved = append(p.saved, o)
		}
	}
	if p.maxKeys > 0 {
		// A call that makes room evicts the keys that are idle at its own reading. A call
		// with an earlier reading can tell such a key from one never seen.
		p.moves = false
	}
	for range historyCallers {
		n := calls + p.IntN(4)
		if slices.Contains(p.verbs, restores) {
			n = min(n, 3) // a Snapshot may have saved any of the states that its keys were in
		}
		p.plans = append(p.plans, p.operations(n))
	}
	for _, key := range historyKeys {
		p.last = append(p.last, &operation{verb: peeks, keys: []string{key}, units: 1})
	}
	if slices.Contains(p.verbs, takesAll) && !slices.Contains(p.verbs, restores) {
		p.addPeeks()
	}
	p.drawLeaving()
	p.drawNoneAndAll()
	return p.history
}

// addPeeks has each caller look at several keys in between.
func (p *planner) addPeeks() {
	for i, ops := range p.plans {
		o := &operation{verb: peeksAll, keys: [][]string{{"a", "b"}, {"c", "a"}, {"a", "b", "c"}}[p.IntN(3)], units: p.Int64N(4)}
		p.plans[i] = slices.Insert(ops, p.IntN(len(ops)+1), o)
	}
}

// drawLeaving makes some of the calls that charge one key leave units, or take what there is. It draws from
// numbers of its own.
func (p *planner) drawLeaving() {
	random := rand.New(rand.NewPCG(p.seed, 13))
	if random.IntN(3) == 0 {
		return
	}
	for _, o := range p.all() {
		switch {
		case random.IntN(2) == 0:
		case o.verb == reserves:
			o.leave = random.Int64N(4)
		case o.verb == takes && random.IntN(2) == 0:
			o.verb, o.leave = takesLeaving, random.Int64N(4)
		case o.verb == takes:
			o.verb, o.units = takesUpTo, o.units+random.Int64N(3)
		}
	}
}

// drawNoneAndAll makes some limits of some histories Unlimited, or gives them a Count of 0.
// It draws from numbers of its own, so that the rest of a history does not depend on it.
// There is no cap then: the model of caps knows only keys that take room.
func (p *planner) drawNoneAndAll() {
	random := rand.New(rand.NewPCG(p.seed, 12))
	if p.maxKeys > 0 || random.IntN(2) == 0 {
		return
	}
	change := func(limits []sash.Limit) []sash.Limit {
		switch i := random.IntN(10); {
		case len(limits) == 0 || i > 5:
			return limits
		case i > 3:
			return append(slices.Clone(limits), sash.Unlimited())
		case i > 1:
			return []sash.Limit{sash.Unlimited()}
		}
		limits = slices.Clone(limits)
		if l := &limits[random.IntN(len(limits))]; l.Algorithm != sash.TokenBucket { // see counted
			l.Count = 0
		}
		return limits
	}
	if random.IntN(3) == 0 {
		p.limits = change(p.limits)
	}
	for _, o := range p.all() {
		o.limits = change(o.limits)
	}
}

// distance draws a time of at most that many units, sometimes a nanosecond off.
func (p *planner) distance(units int64) int64 {
	return max(0, p.Int64N(units+1)*int64(p.unit)+p.Int64N(3)-1)
}

// drawLimits draws limits that differ in more than Count and Burst. So it is known from which limit
// to which a change migrates charges.
func (p *planner) drawLimits() {
	w := time.Duration(4+p.IntN(12)) * p.unit
	shapes := []sash.Limit{
		sash.Per(1, w).Counter(), sash.Per(1, 3*w).Counter(), sash.Per(1, w).Log(), sash.Per(1, w/2).Log(),
		sash.Per(1, w).Buckets(w), sash.Per(1, w).Buckets(w/3 + 1), sash.Per(1, w).Parts(), sash.AtOnce(1, 2*w), sash.Per(1+p.Int64N(p.maxCount), w).TokenBucket(1),
	}
	p.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	p.limits = p.counted(shapes[:max(1, p.IntN(5)-1)])
}

// counted returns the same limits with other Counts, token buckets with other Bursts. What a
// bucket lacks at a change of its Count depends on the instant, which no history knows.
func (p *planner) counted(like []sash.Limit) (limits []sash.Limit) {
	for _, l := range like {
		if l.Algorithm == sash.TokenBucket {
			l.Burst = 1 + p.Int64N(p.maxCount)
		} else {
			l.Count = 1 + p.Int64N(p.maxCount)
		}
		limits = append(limits, l)
	}
	return limits
}

// drawVerbs draws the kinds of operations. So some histories have few kinds, and some have
// only operations for one key each.
func (p *planner) drawVerbs() {
	p.verbs = []verb{takes, takes, allows, peeks}
	for _, more := range [][]verb{{takesAll, takesAll, takesAll}, {reserves, reserves}, {resets}, {setsLimits}, {reconfigures}, {snapshots, restores, restores}} {
		if p.IntN(2) == 0 {
			p.verbs = append(p.verbs, more...)
		}
	}
	if p.sweeper == janitorSweeps && slices.Contains(p.verbs, restores) {
		p.sweeper = callerSweeps // the janitor's timer belongs to the bubble, where no time passes
	}
}

// drawCap draws whether there is a cap. It is too low for all keys.
func (p *planner) drawCap() {
	if p.oneKey || p.IntN(2) == 0 {
		return
	}
	p.maxKeys = 1 + p.IntN(len(historyKeys)-1)
	p.overflow = []sash.Overflow{sash.EvictLeastUsed, sash.DenyNew, sash.ShareOverflow}[p.IntN(3)]
}

// duel makes p a history in which all callers charge one key, about as often as it admits
// that. It returns the least number of calls of a caller.
func (p *planner) duel() (calls int) {
	p.oneKey, p.moves, p.sweeper, p.hesitates = true, false, noSweeper, false
	p.limits, p.maxCount = p.limits[:1+p.IntN(len(p.limits))], 20
	if p.IntN(3) == 0 {
		p.limits = []sash.Limit{sash.Per(1, 10*p.unit).Counter()}
	}
	p.limits = p.counted(p.limits)
	p.verbs = []verb{takes, takes, allows, allows, reserves}[:4+p.IntN(2)]
	return 4
}

// operations draws the operations of one caller.
func (p *planner) operations(n int) (ops []*operation) {
	var open []*operation // the operations that reserved something
	saved := slices.Clone(p.saved)
	for range n {
		o := &operation{verb: p.verbs[p.IntN(len(p.verbs))]}
		if len(open) > 0 && p.IntN(2) == 0 {
			o.verb = settles
		}
		if p.moves && p.IntN(3) == 0 {
			o.after = p.distance(5)
		}
		if o.verb == restores && len(saved) == 0 {
			o.verb = snapshots
		}
		p.fill(o, open, saved)
		switch o.verb {
		case reserves, reservesAll:
			open = append(open, o)
		case snapshots:
			saved = append(saved, o)
		}
		ops = append(ops, o)
	}
	return ops
}

// fill draws the arguments of o. open are the operations whose reservations it can settle,
// and saved those whose snapshots it can restore.
func (p *planner) fill(o *operation, open, saved []*operation) {
	o.units = 1 + p.Int64N(3)
	o.keys = historyKeys[:1]
	if !p.oneKey {
		o.keys = historyKeys[p.IntN(3):][:1]
	}
	switch o.verb {
	case takesAll, reserves:
		if o.verb == takesAll || p.IntN(3) == 0 {
			o.keys = [][]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"b", "a", "b"}, {"c", "b", "a"}}[p.IntN(5)]
		}
		if o.verb == reserves && len(o.keys) > 1 {
			o.verb = reservesAll
		}
	case peeks:
		o.units = p.Int64N(4)
	case settles:
		o.of = open[p.IntN(len(open))] // which may be settled already
		o.which = p.IntN(len(o.of.keys))
		o.keys = o.of.keys[o.which : o.which+1]
		o.units = p.Int64N(5)
		if p.moves {
			o.units = max(o.units, 1)
		}
		if p.chargeDenied { // then units given back cannot be distinguished from denied ones
			o.units = max(o.units, o.of.units)
		}
	case setsLimits, reconfigures:
		p.change(o)
	case snapshots:
		o.keys = historyKeys
	case restores:
		o.keys, o.of = historyKeys, saved[p.IntN(len(saved))]
	}
}

// change draws other Counts for the limits, in another order. Or it removes the key's own
// limits. Where denied calls are charged, it changes only counters: the other algorithms
// keep no more denied units than the Count that they had.
func (p *planner) change(o *operation) {
	if p.chargeDenied {
		for _, l := range p.limits {
			if l.Algorithm != sash.SlidingCounter {
				o.verb, o.units = peeks, 0
				return
			}
		}
	}
	if o.verb == reconfigures || p.IntN(4) > 0 {
		o.limits = p.counted(p.limits)
		p.Shuffle(len(o.limits), func(i, j int) { o.limits[i], o.limits[j] = o.limits[j], o.limits[i] })
	}
}
