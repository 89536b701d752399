package fuzz

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
)

const historyCallers = 3

// historyKeys are those that a history may be about.
var historyKeys = []string{"a", "b", "c"}

// A planner draws what a history is to be.
type planner struct {
	*rand.Rand
	*history
	unit time.Duration // of windows: counters of seconds fit one word, of nanoseconds none
	// moves is whether the clock moves between operations. If so, no reservation is
	// given back whole: a key that has nothing left passes its place in time on to
	// all that hold nothing, and it shows in late readings when they learn of it.
	moves bool
	verbs []verb       // to choose from
	saved []*operation // snapshots from before the callers begin
	one   bool         // key is all that calls of one are about, so that they meet there
	most  int64        // units that a limit has
}

// plan returns the history of that seed, which has yet to be recorded.
func plan(seed uint64) *history {
	p := &planner{Rand: rand.New(rand.NewPCG(seed, 11)), history: &history{seed: seed}}
	p.unit = []time.Duration{1, time.Second}[p.IntN(2)]
	p.moves = p.IntN(3) > 0
	p.chargeDenied = p.IntN(5) == 0
	p.sweeper = []sweeper{nobody, caller, janitor}[p.IntN(3)]
	p.one = p.IntN(2) == 0
	p.most = []int64{5, 20}[p.IntN(2)]
	p.hesitates = p.IntN(2) == 0
	start := p.distance(20)
	p.clock = newSharedClock(start - p.distance(20))
	p.drawLimits()
	p.drawVerbs()
	calls := 2
	if p.IntN(4) == 0 {
		calls = p.duel()
	}
	p.drawCap()
	p.first = p.operations(p.IntN(5))
	if p.IntN(4) > 0 { // let what came first come back
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
	return p.history
}

// distance draws a span of time of up to so many units, sometimes a nanosecond off.
func (p *planner) distance(units int64) int64 {
	return max(0, p.Int64N(units+1)*int64(p.unit)+p.Int64N(3)-1)
}

// drawLimits draws a policy of limits that differ in more than Count, so that it is
// known which of them a change carries on.
func (p *planner) drawLimits() {
	w := time.Duration(4+p.IntN(12)) * p.unit
	shapes := []sash.Limit{
		sash.Per(1, w), sash.Per(1, 3*w), sash.Per(1, w).Log(), sash.Per(1, w/2).Log(),
		sash.Per(1, w).Buckets(w), sash.Per(1, w).Buckets(w/3 + 1),
	}
	p.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	p.limits = p.counted(shapes[:max(1, p.IntN(5)-1)])
}

// counted returns limits like those, of other Counts.
func (p *planner) counted(like []sash.Limit) (limits []sash.Limit) {
	for _, l := range like {
		l.Count = 1 + p.Int64N(p.most)
		limits = append(limits, l)
	}
	return limits
}

// drawVerbs draws what may happen, so that there are histories of a few kinds of
// operations, and of one key each, too.
func (p *planner) drawVerbs() {
	p.verbs = []verb{takes, takes, allows, peeks}
	for _, more := range [][]verb{{takesAll, takesAll, takesAll}, {reserves, reserves}, {resets}, {setsLimits}, {reconfigures}, {snapshots, restores, restores}} {
		if p.IntN(2) == 0 {
			p.verbs = append(p.verbs, more...)
		}
	}
	if p.sweeper == janitor && slices.Contains(p.verbs, restores) {
		p.sweeper = caller // the janitor's timer is of the bubble, where no time passes
	}
}

// drawCap draws whether there is a cap, so low that the keys do not all fit.
func (p *planner) drawCap() {
	if p.one || p.IntN(2) == 0 {
		return
	}
	p.maxKeys = 1 + p.IntN(len(historyKeys)-1)
	p.overflow = []sash.Overflow{sash.EvictLeastUsed, sash.DenyNew, sash.ShareOverflow}[p.IntN(3)]
}

// duel makes it one in which all charge the same key, as often as it admits that.
// It returns how many calls each has at least.
func (p *planner) duel() (calls int) {
	p.one, p.moves, p.sweeper, p.hesitates = true, false, nobody, false
	p.limits, p.most = p.limits[:1+p.IntN(len(p.limits))], 20
	if p.IntN(3) == 0 {
		p.limits = []sash.Limit{sash.Per(1, 10*p.unit)}
	}
	p.limits = p.counted(p.limits)
	p.verbs = []verb{takes, takes, allows, allows, reserves}[:4+p.IntN(2)]
	return 4
}

// operations draws what one caller does.
func (p *planner) operations(n int) (ops []*operation) {
	var open []*operation // that reserved something
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

// fill draws what o is called with: open are the operations whose reservations it can
// settle, and saved those whose snapshots it can restore.
func (p *planner) fill(o *operation, open, saved []*operation) {
	o.units = 1 + p.Int64N(3)
	o.keys = historyKeys[:1]
	if !p.one {
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
		o.of = open[p.IntN(len(open))] // maybe once more
		o.which = p.IntN(len(o.of.keys))
		o.keys = o.of.keys[o.which : o.which+1]
		o.units = p.Int64N(5)
		if p.moves {
			o.units = max(o.units, 1)
		}
		if p.chargeDenied { // then what is given back is not told from what was denied
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

// change draws other Counts for the limits, in another order; or takes those of the
// key away again. Where denied calls are charged, only those of counters: the others
// keep no more of these than the Count they had.
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
