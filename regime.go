package sash

import (
	"strings"
	"sync/atomic"
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
type regime struct {
	policy *policy
	keys   sharded
	prior  atomic.Pointer[regime]
}

func (l *Limiter) newRegime(limits []Limit, sizeHint int) *regime {
	g := &regime{policy: l.newPolicy(limits, true)}
	g.keys.init(sizeHint)
	return g
}

// key returns name as a key of every regime.
func (l *Limiter) key(name string) key { return key{l.hasher.hash(name), name} }

// find returns the cell of k in g, nil for none.
func (l *Limiter) find(g *regime, k key) *cell {
	for {
		if c, ok := g.keys.shard(k).Load(k); ok {
			return c
		}
		prior := g.prior.Load()
		if prior == nil {
			return nil
		}
		old := prior.keys.seek(k)
		if old == nil { // somebody may just have carried it over
			c, _ := g.keys.shard(k).Load(k)
			return c
		}
		l.carry(prior, g, k, old)
	}
}

// insert makes a new cell under p that of k, unless it has one, and returns the
// one it has; or nil if since version, and since g was the limiter's regime, the
// limits of any key may have changed: then p may not be what k is to have.
//
// The name is copied: the caller may reuse its bytes, and a small part of a large
// string does not keep the rest alive.
func (l *Limiter) insert(g *regime, version uint64, k key, p *policy) *cell {
	c, kept := p.newCell(k.name)
	return l.insertCell(g, version, key{k.hash, kept}, c)
}

func (l *Limiter) insertCell(g *regime, version uint64, k key, c *cell) *cell {
	return g.keys.insert(k, c, func() bool { return l.now.Load() == g && l.version.Load() == version })
}

// policyFor returns the policy of a key that has no cell in g.
func (l *Limiter) policyFor(g *regime, name string) *policy {
	if p, ok := l.overrides.get(name); ok {
		return p
	}
	if p := l.planFor(name); p != nil {
		return p
	}
	return g.policy
}

// planFor returns the policy that WithLimitsFor gives a key, nil for none.
func (l *Limiter) planFor(name string) *policy {
	if l.limitsFor == nil {
		return nil
	}
	limits := l.limitsFor(strings.Clone(name))
	if len(limits) == 0 || validate(limits) != nil {
		return nil
	}
	return l.plan(limits)
}
