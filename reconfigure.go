package sash

import (
	"fmt"
	"strings"
)

// SetLimits gives key limits of its own, instead of the limiter's and of those of
// [WithLimitsFor]; without limits it takes them away again. They stay until then,
// even while the key is evicted or reset, and cost about 100 bytes and the key.
//
// What the key was charged before still counts, as in [Limiter.Reconfigure]. Once
// SetLimits has returned, no call is decided by the old limits; a call under way
// is decided by the old ones or the new, never by some of each. The error names
// every wrong limit, wraps [ErrInvalidLimit], and means that nothing has changed.
// More than 64 limits are refused, too.
func (l *Limiter) SetLimits(key string, limits ...Limit) error {
	if err := validate(limits); err != nil {
		return err
	}
	own := limits
	if len(limits) == 0 {
		own = l.askLimitsFor(key) // not under the lock: it runs the caller's code
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	g, k := l.now.Load(), l.key(key)
	p := g.policy
	if len(own) > 0 {
		p = g.plan(own)
	}
	g.keys.update(k, func(found *cell) *cell {
		// Inserts check the override under this lock, too. So an insert that has not
		// seen this change has published its cell, where a call that sees the change
		// finds it.
		if len(limits) > 0 {
			g.overrides.all().Store(strings.Clone(key), &override{p})
		} else {
			g.overrides.all().Delete(key)
		}
		return found
	})
	for c := g.keys.seek(k); c != nil && !l.become(g, k, c, p, p.kind); {
		c = g.keys.seek(k)
	}
	l.queues.nudge(key)
	return nil
}

// Reconfigure replaces the limiter's own limits while it runs. Keys with limits of
// their own keep those.
//
// Counts carry over: what a key was charged before still counts. Where a new limit
// has the algorithm, window and precision of an old one, exactly: a unit that was
// to be back at some instant still is, whatever the Count.
//
// Any other new limit is charged again what one of the old limits remembers, oldest
// units first. That is the old limit that remembers most finely among those that look
// as far back as the new one. If none does, it is the one that looks back furthest. If
// it knows only the window or bucket in which a unit was charged, the unit is dated as
// late as it can have been charged. It may count longer than it should, but never
// shorter. Units older than the old limits remember are not known any more.
//
// Once Reconfigure has returned, no call is decided by the old limits; a call
// under way is decided by the old ones or the new, never by some of each. It takes
// a moment per tracked key, and during it twice their memory; other calls go on,
// and carry their key over themselves. The error names every wrong limit, wraps
// [ErrInvalidLimit] or [ErrNoLimit], and means that nothing has changed. More than 64
// limits are refused, too. The limiter below an httplimit.Limiter of several policies
// always returns an error.
func (l *Limiter) Reconfigure(limits ...Limit) error {
	if l.noReconfigure != nil {
		return l.noReconfigure
	}
	if len(limits) == 0 {
		return fmt.Errorf("sash: Reconfigure needs a Limit, such as PerSecond(10): %w", ErrNoLimit)
	}
	if err := validate(limits); err != nil {
		return err
	}
	l.changes.Lock()
	defer l.changes.Unlock()
	prior := l.now.Load()
	g := l.newRegime(prior.terms, prior.shift, prior.cap, limits, max(l.sizeHint, prior.keys.size()))
	g.prior.Store(prior)
	l.now.Store(g)
	prior.keys.each(func(k key, _ *cell) bool {
		for c := prior.keys.seek(k); c != nil; c = prior.keys.seek(k) {
			l.carry(prior, g, k, c)
		}
		return true
	})
	if g.commons != nil {
		for i := range g.commons.cells {
			l.carryShared(prior, g, i)
		}
	}
	g.prior.Store(nil)
	if g.cap != nil {
		g.cap.vacate() // the dead keep the prior regime
	}
	l.queues.nudgeAll()
	return nil
}
