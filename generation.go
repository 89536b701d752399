package sash

import (
	"errors"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A generation is a limiter's own limits with the table of keys under them.
//
// Reconfigure makes a new generation the current one. The one before stays its old
// generation until every key has been migrated, by the first call that looks for the key
// or by Reconfigure itself.
//
// Invariant: a key has at most one live entry, in one table. An entry is inserted only
// while its generation is the current one. A call that finds no entry of its key there
// looks in the old generation, under the lock that an insert takes. So a call that has
// begun in the old generation either
//   - comes before its key is migrated, and its charge is migrated too; or
//   - finds the entry dead, or may not insert one, and starts over in the new generation.
//
// Restore makes a generation without an old one the current one. A call that has begun in
// the generation before comes before the Restore, and is forgotten with its table.
//
// What WithLimitsFor returns belongs to a generation, too: see setup. So a call never has the
// limiter's own limits from one generation, and those of a key from another.
type generation struct {
	*timeline
	shift    int64 // see instant; until a Restore it is the same in all generations
	ruleset  *ruleset
	counter  *rule // the rule of ruleset, if that is one counter
	fastRule *rule // the same, if it is in one word
	log      *rule // the rule of ruleset, if that is one log
	bucket   *rule // the same, if it is one token bucket in one word
	observed bool  // whether the limiter has an observer, which the fast paths do not call
	keys     sharded
	old      atomic.Pointer[generation] // nil: none, or no key is left there
	cap      *keyCap                    // nil: none
	overflow *overflowEntries           // under ShareOverflow
	setup    *setup
}

// A setup is what may be replaced together with the limiter's own limits: see
// Limiter.replace. It does not change. A Reconfigure and a Restore keep it.
type setup struct {
	limitsFor     func(key string) []Limit // of WithLimitsFor; nil: none
	interval      time.Duration            // between sweeps; 0: chosen from the limiter's own limits
	noReconfigure error                    // why Reconfigure is refused; nil: it is not
}

func (l *Limiter) newGeneration(t *timeline, shift int64, c *keyCap, limits []Limit, s *setup, keys int) *generation {
	g := &generation{timeline: t, shift: shift, ruleset: t.newRuleset(limits, true), cap: c, observed: l.observer != nil, setup: s}
	if c != nil && c.overflow == ShareOverflow {
		g.overflow = new(overflowEntries)
	}
	switch r := &g.ruleset.rules[0]; g.ruleset.kind {
	case kindCounter:
		g.counter, g.fastRule = r, r
	case kindWide:
		g.counter = r
	case kindLog:
		g.log = r
	case kindBucket:
		g.bucket = r
	}
	g.keys.init(keys, l.sizeHint, l.hasher.hash)
	return g
}

// instant returns the instant at which a call is decided in g when the clock shows
// reading. All instants in g and its entries are on that timeline. It is the timeline of
// the clock, unless a snapshot was restored. Then it is shifted, so that it goes on from
// the timeline of the snapshot.
//
// So a call that goes on in another generation must read the clock again.
func (g *generation) instant(reading int64) int64 {
	if g.shift == 0 {
		return reading
	}
	return window.Plus(reading, g.shift)
}

// clockReading is the inverse of instant.
func (g *generation) clockReading(at int64) int64 {
	reading, _ := window.Sub(at, g.shift)
	return reading
}

// key returns name as a key of every generation.
func (l *Limiter) key(name string) key { return key{l.hasher.hash(name), name} }

// lookup returns the current generation, and the entry of k in it. If the entry is nil,
// the key had none at an instant at which that was the current generation.
func (l *Limiter) lookup(k key) (g *generation, e *entry) {
	for round := 1; ; round++ {
		atomic.Round("lookup", round)
		g = l.current.Load()
		// g may have been replaced before find looked in it. Then its nil proves nothing.
		// Start over with the current generation.
		if e = l.find(g, k); e != nil || l.current.Load() == g {
			return g, e
		}
	}
}

// find returns the entry of k in g, or nil if it has none there. The nil proves nothing
// once g is not the current generation any more. An entry in the old generation is
// migrated first.
func (l *Limiter) find(g *generation, k key) *entry {
	for round := 1; ; round++ {
		atomic.Round("find", round)
		// Load old before the look-up in g: once it is nil, all keys are in g.
		old := g.old.Load()
		if e := g.keys.load(k); e != nil {
			return e
		}
		if old == nil {
			return nil
		}
		// The key is in the old table, or another call has just migrated it, or it has no
		// entry. The lock keeps an insert in the old table from coming in between.
		e := old.keys.loadLocked(k)
		if e == nil {
			return g.keys.load(k)
		}
		l.migrate(old, g, k, e)
	}
}

// A resolved is the ruleset that a key without an entry has, and what it follows from.
type resolved struct {
	generation *generation
	override   *override // of SetLimits; nil for none
	ruleset    *ruleset  // of the override, of WithLimitsFor, or the limiter's own
}

// resolve returns the ruleset that a key without an entry has in g.
func (l *Limiter) resolve(g *generation, name string) resolved {
	r := resolved{generation: g, ruleset: g.ruleset}
	if r.override, _ = g.overrides.load(name); r.override != nil {
		r.ruleset = r.override.ruleset
	} else if own := g.rulesetFor(name); own != nil {
		r.ruleset = own
	}
	return r
}

// stillValid reports whether the generation and the override that r follows from are
// still the current ones.
func (l *Limiter) stillValid(r resolved, name string) bool {
	override, _ := r.generation.overrides.load(name)
	return l.current.Load() == r.generation && override == r.override
}

// confirmAbsent reports whether k had no entry at an instant at which r was valid. That
// instant is the look-up: r was valid before it and is valid after it, and neither a
// generation nor an override that was replaced comes again.
//
// An insert that has checked an older r cannot publish its entry after the look-up. It
// holds the lock of the shard from its check on, and r changed under that lock.
func (l *Limiter) confirmAbsent(r resolved, k key) bool {
	return l.find(r.generation, k) == nil && l.stillValid(r, k.name)
}

// insert makes a new entry for k, unless it has one, and returns the one it has. It
// returns nil if r is not valid any more, or if there is no room. No pinned key is
// evicted to make room.
//
// The name is copied: the caller may reuse its bytes, and a small part of a large string
// must not keep the rest alive.
func (l *Limiter) insert(r resolved, k key, pinned []target) *entry {
	return l.insertEntry(r, k, r.ruleset.newEntry(k.name), pinned, r.generation.cap.evictsBusy())
}

// insertEntry is insert of e. If evictBusy is set, it makes room by evicting keys that are
// not idle, too.
func (l *Limiter) insertEntry(r resolved, k key, e *entry, pinned []target, evictBusy bool) *entry {
	self := [1]target{{key: k}}
	if pinned == nil {
		pinned = self[:] // another call may make an entry for k in between
	}
	for round := 1; ; round++ {
		atomic.Round("insertEntry", round)
		found, full := l.tryInsert(r, k, e, false)
		if !full {
			return found
		}
		if !l.makeRoom(r.generation, 1, pinned, evictBusy) {
			return nil
		}
	}
}

// tryInsert makes e the entry of k, unless it has one, and returns the one it has; or nil
// if r is not valid any more. full reports whether there was no room.
//
// Unless hasRoom says that the caller has taken room for k, tryInsert takes it under the
// lock of the insert. So each place that is taken is that of a key with an entry, and
// calls that insert one key at once take one place.
func (l *Limiter) tryInsert(r resolved, k key, e *entry, hasRoom bool) (found *entry, full bool) {
	g := r.generation
	own := l.key(e.Name()) // the bytes of the caller's name may have changed since they were hashed
	found = g.keys.loadOrStoreIf(own, e, func() bool {
		if !l.stillValid(r, own.name) {
			return false
		}
		full = !hasRoom && !g.cap.tryAcquire()
		return !full
	})
	if found == e {
		g.addSample(own, e)
	}
	return found, full
}

// rulesetFor returns the ruleset that WithLimitsFor gives a key in g; nil for none. For
// wrong limits, it is one that denies.
func (g *generation) rulesetFor(name string) *ruleset {
	limits, fault := g.setup.callLimitsFor(name)
	switch {
	case fault != nil:
		return g.newDenying(fault)
	case len(limits) > 0:
		return g.cachedRuleset(limits)
	}
	return nil
}

// callLimitsFor returns the limits that WithLimitsFor gives a key, none for none, and what
// is wrong with them.
func (s *setup) callLimitsFor(name string) (limits []Limit, fault error) {
	if s.limitsFor == nil {
		return nil, nil
	}
	limits = s.limitsFor(strings.Clone(name))
	return limits, errors.Join(limitFaults("WithLimitsFor: ", limits)...)
}

// countInvalid counts in Stats a call that was denied because of wrong limits, those in
// whose place rs denies. A call that waits is counted once, when it gives up: see neverAdmitted.
func (l *Limiter) countInvalid(rs *ruleset, q *query) {
	if rs.fault != nil && q.charge && !q.waits {
		l.invalid.Add(1)
	}
}
