package sash

import (
	"strings"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/queue"
)

// A Limiter decides, per key, whether a call may go on. Make one with [New]. All its
// methods are safe for concurrent use, and none of them panics on a key or a cost.
//
// A decision on a tracked key allocates nothing, with two exceptions: a call that is admitted by a
// log that outgrows its room, and the first call on a key after the limits have changed.
//
// Keys are any strings, the empty one included. Each is kept whole, and two keys never
// share a quota.
type Limiter struct {
	current atomic.Pointer[generation]
	hasher  hasher
	clock   Clock
	wall    func() time.Time // of snapshots

	chargeDenied bool
	observer     func(key string, n int64, d Decision)
	changes      sync.Mutex // held to change limits, and to write or restore a snapshot

	queues     queue.Queues[string] // of the calls that wait
	maxWaiters int
	sizeHint   int

	janitor         *janitor // nil: none
	closing         sync.Once
	evicted, sweeps atomic.Uint64

	displaced, refusals, shared, invalid atomic.Uint64 // see Stats
}

// A janitor sweeps a limiter in the background.
type janitor struct {
	stop chan struct{} // closed to end it
	done chan struct{} // closed when it has ended
}

func (l *Limiter) newGeneration(o *overrides, shift int64, c *keyCap, limits []Limit, s *setup, keys int) *generation {
	g := &generation{overrides: o, shift: shift, ruleset: o.newRuleset(limits, true), cap: c, setup: s}
	g.rule = &g.ruleset.rules[0]
	if g.ruleset.kind != kindMulti {
		g.fast = g.rule.fast
	}
	if l.observer != nil {
		g.fast = fastNone
	}
	if c != nil && c.overflow == ShareOverflow {
		g.overflow = new(overflowEntries)
	}
	g.keys.init(keys, l.sizeHint, l.hasher.hash)
	return g
}

// observe calls the observer with the decision on n units of k. It may keep the key, so it
// gets the copy of the entry or, if k has none, one of its own.
func (l *Limiter) observe(k key, n int64, d Decision) {
	var name string
	if e := l.current.Load().keys.load(k); e != nil {
		name = e.Name()
	} else {
		name = strings.Clone(k.name)
	}
	l.observer(name, n, d)
}
