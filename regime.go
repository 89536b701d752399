package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A regime is a limiter's own limits with the table of keys under them.
//
// Reconfigure puts a new regime in the place of the old one, which is its prior
// until every key has been carried over: by whoever asks for the key first, or by
// Reconfigure.
//
// Invariant: a key has at most one cell that is alive, in one table. A cell is
// inserted only while its regime is the limiter's (see Limiter.insert), and
// whoever does not find a key's cell there looks for it in the prior one, under
// the same lock as an insert. So a call that still is under way in the old regime
// either comes before the key was carried over, and is carried with it, or finds
// the cell dead, or is not let in, and asks again in the new one.
//
// Restore puts a new regime there that has no prior. Who still is under way in the
// old one then comes before the Restore, and is forgotten with its table.
type regime struct {
	*terms
	shift   int64 // see at; like the terms, it stays until a Restore
	policy  *policy
	counter *rule // of policy, if calls may be quick: its cells are counters in one word, and nobody observes
	keys    sharded
	prior   atomic.Pointer[regime]
	cap     *keyCap  // nil: none
	commons *commons // under ShareOverflow
}

func (l *Limiter) newRegime(t *terms, shift int64, c *keyCap, limits []Limit, keys int) *regime {
	g := &regime{terms: t, shift: shift, policy: t.newPolicy(limits, true), cap: c}
	if c != nil && c.overflow == ShareOverflow {
		g.commons = new(commons)
	}
	if g.policy.kind == counterCell && l.observer == nil {
		g.counter = &g.policy.rules[0]
	}
	g.keys.init(keys, l.sizeHint, l.hasher.hash)
	return g
}

// at returns the instant at which a call is decided in g, when the clock shows
// reading. All instants in g, and in its keys, are on that timeline: the clock's,
// but shifted so that it goes on from that of the snapshot, if one was restored.
// So whoever is sent on to another regime reads the clock again.
func (g *regime) at(reading int64) int64 {
	if g.shift == 0 {
		return reading
	}
	return plus(reading, g.shift)
}

// reading is the inverse of at.
func (g *regime) reading(at int64) int64 {
	reading, _ := sub(at, g.shift)
	return reading
}

// key returns name as a key of every regime.
func (l *Limiter) key(name string) key { return key{l.hasher.hash(name), name} }

// lookup returns the limiter's regime, and the cell of k in it; nil for none, at
// an instant at which that was the regime.
func (l *Limiter) lookup(k key) (g *regime, c *cell) {
	for round := 1; ; round++ {
		atomic.Round("lookup", round)
		g = l.now.Load()
		if c = l.find(g, k); c != nil || l.now.Load() == g {
			return g, c
		}
	}
}

// find returns the cell of k in g; nil if it has none there, which says nothing
// once g no longer is the limiter's regime.
func (l *Limiter) find(g *regime, k key) *cell {
	for round := 1; ; round++ {
		atomic.Round("find", round)
		prior := g.prior.Load() // first: once it is nil, all keys are in g
		if c := g.keys.load(k); c != nil {
			return c
		}
		if prior == nil {
			return nil
		}
		old := prior.keys.seek(k)
		if old == nil { // somebody may just have carried it over
			return g.keys.load(k)
		}
		l.carry(prior, g, k, old)
	}
}

// A standing is what a key that has no cell is entitled to.
type standing struct {
	regime   *regime
	override *override // by SetLimits, nil for none
	policy   *policy   // what follows from these, and WithLimitsFor
}

// standing returns that of a key that has no cell in g.
func (l *Limiter) standing(g *regime, name string) standing {
	s := standing{regime: g, policy: g.policy}
	if s.override, _ = g.overrides.get(name); s.override != nil {
		s.policy = s.override.policy
	} else if plan := l.planFor(g, name); plan != nil {
		s.policy = plan
	}
	return s
}

// holds reports whether nothing has changed that s followed from.
func (l *Limiter) holds(s standing, name string) bool {
	override, _ := s.regime.overrides.get(name)
	return l.now.Load() == s.regime && override == s.override
}

// absent reports whether k had no cell at an instant at which s held: that of the
// look-up, since s held before it and holds after it, and neither a regime nor an
// override that was replaced comes again.
//
// An insert that checked an older standing cannot publish its cell after the look-up:
// the standing changed under the lock that the insert held from its check on.
func (l *Limiter) absent(s standing, k key) bool {
	return l.find(s.regime, k) == nil && l.holds(s, k.name)
}

// insert makes a new cell that of k, unless it has one, and returns the one it
// has; or nil if s no longer holds, or there is no room. None of the spared is
// evicted to make room.
//
// The name is copied: the caller may reuse its bytes, and a small part of a large
// string does not keep the rest alive.
func (l *Limiter) insert(s standing, k key, spared []target) *cell {
	return l.insertCell(s, k, s.policy.newCell(k.name), spared, s.regime.cap.displaces())
}

func (l *Limiter) insertCell(s standing, k key, c *cell, spared []target, displace bool) *cell {
	self := [1]target{{key: k}}
	if spared == nil {
		spared = self[:] // another call may make k in the meantime
	}
	for round := 1; ; round++ {
		atomic.Round("insert", round)
		found, full := l.place(s, k, c, false)
		if !full {
			return found
		}
		if !l.makeRoom(s.regime, 1, spared, displace) {
			return nil
		}
	}
}

// place makes c the cell of k, unless it has one, and returns the one it has; or nil if
// s no longer holds. If the caller has not entered for k, that happens here, under the
// lock of the insert: so each place in the table is that of a key with a cell, and calls
// that make one key at once take one place. It reports whether there was none.
func (l *Limiter) place(s standing, k key, c *cell, entered bool) (found *cell, full bool) {
	g := s.regime
	k.name = c.name() // the caller may reuse its own
	found = g.keys.insert(k, c, func() bool {
		if !l.holds(s, k.name) {
			return false
		}
		full = !entered && !g.cap.enter()
		return !full
	})
	if found == c {
		g.seat(k, c)
	}
	return found, full
}

// planFor returns the policy in g that WithLimitsFor gives a key, nil for none.
func (l *Limiter) planFor(g *regime, name string) *policy {
	if limits := l.askLimitsFor(name); len(limits) > 0 {
		return g.plan(limits)
	}
	return nil
}

// askLimitsFor returns the limits that WithLimitsFor gives a key; none for none, or
// for wrong ones.
func (l *Limiter) askLimitsFor(name string) []Limit {
	if l.limitsFor == nil {
		return nil
	}
	return validOrNone(l.limitsFor(strings.Clone(name)))
}

// validOrNone returns limits, or nil if one of them is invalid.
func validOrNone(limits []Limit) []Limit {
	if validate(limits) != nil {
		return nil
	}
	return limits
}
