package sash

import (
	"github.com/seed-30da4c49/sash/internal/window"
)

// When the limits of a key change, its entry is replaced by another one. Each new rule
// takes its charges from one old rule, and they are replayed oldest first. That old rule
// is, in this order of preference:
//   - the old rule that is equal, or equal but for Count and Burst: the counts and their
//     instants then stay exactly as they are;
//   - of those that remember as far back as the new rule looks, the one with the finest
//     resolution;
//   - the one that remembers furthest back.
//
// Units that are held are carried over to limits of units that are held, with any lease, and to no
// others. What was charged under other limits holds nothing.
//
// Of old token buckets with its Window, a new one prefers one of its own rate, and then the
// one at its own place among the rules. It prefers any token bucket to a rule that does not
// remember as far back as it looks.
//
// If the old rule knows only the window or bucket in which a unit was charged, the unit is
// dated at the end of that window or bucket. It may count longer than it should, but
// never shorter. A token bucket knows what it lacks, but not since when: these units are dated
// now. One that takes its charges from another lacks as many units as that one.

// migrate replaces e, the entry of k in old, by an entry for k in g. It gets none if it is
// unlimited in g, or if WithLimitsFor returns wrong limits for it there.
func (l *Limiter) migrate(old, g *generation, k key, e *entry) {
	// Not while e is locked: WithLimitsFor and a clock are the caller's code. Other calls may
	// migrate the key at the same time, and WithLimitsFor may tell each of them something else. The
	// call that locks e while it is alive migrates it, by what it was told.
	rs := l.rulesetAfter(old, g, k, e)
	word, now, alive := l.lockNow(old.ruleset, e, g)
	switch {
	case !alive:
	case rs.unlimited() || rs.fault != nil:
		old.tryKill(k, e, word|locked) // the kill succeeds: no other goroutine changes a locked word
	default:
		// While e is locked, every other call on k waits for it. So none can decide by
		// both entries, and no charge is lost between them.
		next := old.ruleset.migrated(e, word, rs, rs.kind, now)
		k := key{k.hash, next.Name()}
		// g has no entry of k yet: a call inserts there only after it has found none in old.
		g.keys.loadOrStoreIf(k, next, func() bool { return true })
		g.replaceSample(k, e, next)
		// Only now may a waiting call go on. It finds e dead, looks again, and finds next.
		e.markDead(word)
	}
	old.keys.compareAndDelete(k, e)
}

// rulesetAfter returns the ruleset that k, whose entry in old is e, has in g.
//
// If the setup has changed, the limits of the key are resolved anew. As long as e is alive, its
// override stays the same: a SetLimits waits until the last key has been migrated. WithLimitsFor may
// return something else each time: see migrate.
func (l *Limiter) rulesetAfter(old, g *generation, k key, e *entry) *ruleset {
	own := old.ruleset.of(e)
	switch {
	case g.setup != old.setup:
		return g.resolve(k.name).ruleset
	case own != old.ruleset:
		return own // the key keeps them
	}
	return g.ruleset
}

// convert replaces e, the entry of k in g, by an entry of that kind under rs; by none if rs
// is unlimited. It reports false if e was dead; then e is no longer in g.
func (l *Limiter) convert(g *generation, k key, e *entry, rs *ruleset, kind kind) bool {
	if rs.unlimited() {
		return g.forget(k, e)
	}
	word, now, alive := l.lockNow(g.ruleset, e, g)
	if !alive {
		g.keys.compareAndDelete(k, e)
		return false
	}
	g.replace(k, e, word, g.ruleset.migrated(e, word, rs, kind, now))
	return true
}

// lockNow locks e, an entry in a table of rs, as ruleset.lock does. now is the time of the clock in g:
// no earlier than any charge to e, so that none is dated too early. The clock is the caller's code, so
// lockNow reads it before the lock. If a charge comes in between in each of optimisticRounds, such
// charges may be dated earlier by the time between the reading and the lock.
func (l *Limiter) lockNow(rs *ruleset, e *entry, g *generation) (word uint64, now int64, alive bool) {
	for range optimisticRounds {
		word, alive = rs.loadQuiescent(e)
		now = g.instant(l.clock.Now())
		// The lock is taken from the word that was loaded before the reading: no charge is in between.
		if !alive || e.tryLock(word) {
			return word, now, alive
		}
	}
	word, alive = rs.lock(e)
	return word, now, alive
}

// migrated returns an entry under rs that begins with the charges of e, an entry in a
// table of from, locked from word. It is of that kind, unless only a multi-limit entry can hold the
// charges, or e is one that must stay one: it has several or its own limits, or was reserved from.
func (from *ruleset) migrated(e *entry, word uint64, rs *ruleset, kind kind, now int64) *entry {
	rules := from.rules
	isMulti := from.kindOf(word) == kindMulti
	if isMulti {
		m := e.asMulti()
		rules = m.ruleset.rules
		// Its lineages say where open reservations were charged, and a smaller entry has none.
		if m.ruleset != from || len(rules) > 1 || m.states[0].lineage.Load() != nil {
			kind = kindMulti
		}
	}
	if from.unused(word) { // so that the call that has made it still knows it for unused
		return rs.entryOf(kind, nil, e.Name())
	}
	states := make([]limitState, len(rs.rules))
	for i := range rs.rules {
		r, s := &rs.rules[i], &states[i]
		source := r.source(rules, i)
		if source < 0 {
			s.store(r.begin(e.Name()))
			continue
		}
		inherited, roundedUp := r.inherit(r.begin(e.Name()), &rules[source], from.stateOf(e, word, source), now)
		s.store(inherited)
		if isMulti && r.findsAgain(&rules[source]) {
			s.lineage.Store(e.asMulti().states[source].lineage.Load().next(r.bucket, roundedUp))
		}
	}
	return rs.entryOf(kind, states, e.Name())
}

// source returns the index of the rule whose charges r, a rule at that place, takes over; -1 for none.
// Another one replaces the rule at the same place only if it is better.
func (r *rule) source(rules []rule, place int) (best int) {
	best = min(place, len(rules)-1)
	if !r.holdsAs(&rules[best]) {
		best = -1
	}
	for i := range rules {
		if rules[i].Limit == r.Limit {
			return i
		}
		if r.holdsAs(&rules[i]) && (best < 0 || r.informsBetter(&rules[i], &rules[best])) {
			best = i
		}
	}
	return best
}

// holdsAs reports whether units are held under both rules or under neither.
func (r *rule) holdsAs(o *rule) bool { return r.held == o.held }

// findsAgain reports whether r, which takes over the charges of from, finds them where they were recorded
// there. Then it can give them back.
func (r *rule) findsAgain(from *rule) bool {
	return from.equalButAmounts(r.Limit) || from.held // at an instant, whatever the lease
}

// inherit returns the state under r that follows from s, a state under from. It begins with own, the state
// of the key before its first charge. A bucket that takes the place of another with its Window may lack
// more by roundedUp.
func (r *rule) inherit(own state, from *rule, s state, now int64) (after state, roundedUp window.Amount) {
	if to, ok := r.algorithm.(concurrency); ok {
		return to.inherit(from.algorithm.(concurrency), own, s, now), window.Amount{}
	}
	of, isBucket := from.algorithm.(*tokenBucket)
	if to, ok := r.algorithm.(*tokenBucket); ok && isBucket {
		return to.inherit(of, s, now)
	}
	if since, full := from.algorithm.expired(s, now); isBucket && full {
		r.raiseFloor(since) // as after an eviction: what follows cannot tell when the bucket was full
	}
	return r.algorithm.replay(own, from.algorithm.history(s, now)), window.Amount{}
}

// equalButAmounts reports whether l and o differ in nothing, or in Count and Burst alone.
func (l Limit) equalButAmounts(o Limit) bool {
	o.Count, o.Burst = l.Count, l.Burst
	return l == o
}

// informsBetter reports whether r should take its charges from a rather than from b.
func (r *rule) informsBetter(a, b *rule) bool {
	if equal := a.equalButAmounts(r.Limit); equal || b.equalButAmounts(r.Limit) {
		return equal && (!b.equalButAmounts(r.Limit) || r.sourceBefore(a, b))
	}
	ofA, ofB, own := a.algorithm.horizon(), b.algorithm.horizon(), r.algorithm.horizon()
	needed := own.looksBack
	if !own.dated && ofA.dated != ofB.dated {
		// A bucket knows what it lacks, and that is better than part of the past.
		return !ofA.dated && ofB.remembers < needed || ofA.dated && ofA.remembers >= needed
	}
	if ofA.remembers >= needed && ofB.remembers >= needed {
		return ofA.resolution < ofB.resolution
	}
	return ofA.remembers > ofB.remembers
}

// sourceBefore reports whether a is preferred to b as the source of r. All are equal but for
// Count and Burst.
func (r *rule) sourceBefore(a, b *rule) bool {
	if !r.algorithm.horizon().dated {
		return a.Count == r.Count && b.Count != r.Count // at the same rate, as many units came back
	}
	return a.Count > b.Count // with charged denials, the smaller Count has recorded fewer of them
}
