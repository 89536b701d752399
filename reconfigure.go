package sash

import (
	"fmt"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// SetLimits gives key limits of its own. They replace the limiter's own limits, and those of
// [WithLimitsFor]. Without limits, SetLimits takes the limits of a former SetLimits away again.
//
// The limits stay until then, even while the key is evicted or reset. They cost about 100
// bytes and the bytes of the key. There may be up to 64.
//
// The units charged to the key before still count, as in [Limiter.Reconfigure]. Once
// SetLimits has returned, no call is decided by the old limits. A call that runs at the
// same time is decided by the old limits or by the new ones, never by some of each.
//
// A key that becomes [Unlimited] is not tracked any more, and what was charged to it is forgotten.
//
// The error names every wrong limit and wraps [ErrInvalidLimit]. Without limits, these are
// those that [WithLimitsFor] returns for the key. On an error, nothing has changed.
func (l *Limiter) SetLimits(key string, limits ...Limit) error {
	if err := validate(limits); err != nil {
		return err
	}
	own, err := l.lockChanges(key, limits)
	if err != nil {
		return err
	}
	// While this lock is held, the generation stays, and all keys are in its table: a
	// Reconfigure holds the lock until it has moved the last one.
	defer l.changes.Unlock()
	g, k := l.current.Load(), l.key(key)
	rs := g.ruleset
	if len(own) > 0 {
		rs = g.cachedRuleset(own)
	}

	// Publish the override under the lock of the key's shard. Inserts check the override
	// under this lock, too. So an insert that has not seen this change has published its
	// entry before, and loadLocked below finds it.
	g.keys.update(k, func(found *entry) *entry {
		if len(limits) > 0 {
			g.byKey.forWriting().Store(strings.Clone(key), &override{rs})
		} else {
			g.byKey.delete(key)
		}
		return found
	})

	// Replace the entry that the key has under the old limits. An entry that dies before
	// it is locked was evicted, reset or replaced: look again. An entry that is inserted
	// from here on has the new limits, and replacing it does no harm.
	for e := g.keys.loadLocked(k); e != nil && !l.convert(g, k, e, rs, rs.kind); {
		e = g.keys.loadLocked(k)
	}

	// Waiting calls may be admitted by the new limits, or exceed them.
	l.queues.Change(key)
	return nil
}

// follow gives a tracked key of that name limits, which WithLimitsFor returns for it now, unless it has them. To
// compare them costs less than to resolve them.
func (l *Limiter) follow(name string, limits []Limit) {
	g, e := l.lookup(l.key(name))
	if e != nil && !g.ruleset.of(e).has(limits) {
		_ = l.SetLimits(name) // wrong limits change nothing
	}
}

// has reports whether the rules of rs are limits.
func (rs *ruleset) has(limits []Limit) bool {
	for i := range rs.rules {
		if i >= len(limits) || rs.rules[i].Limit != limits[i] {
			return false
		}
	}
	return len(limits) == len(rs.rules)
}

// lockChanges locks changes for a SetLimits of key, and returns the limits that the key then
// has. If the SetLimits gives it none, these are what WithLimitsFor returns, or none for the
// limiter's own. On an error it has locked nothing.
func (l *Limiter) lockChanges(key string, limits []Limit) ([]Limit, error) {
	for round := 1; ; round++ {
		atomic.Round("lockChanges", round)
		s, own := l.current.Load().setup, limits
		if len(limits) == 0 {
			var fault error
			if own, fault = s.callLimitsFor(key); fault != nil { // not under the lock: it runs the caller's code
				return nil, fmt.Errorf("sash: %w", fault)
			}
		}
		l.changes.Lock()
		if len(limits) > 0 || l.current.Load().setup == s {
			return own, nil
		}
		l.changes.Unlock() // another WithLimitsFor counts by now: ask that
	}
}

// Reconfigure replaces the limiter's own limits while it runs. Keys with limits of their
// own keep those. There may be up to 64 limits.
//
// Counts carry over: the units charged to a key before still count. Each new limit takes
// them from one of the old limits:
//   - If an old limit has the algorithm, window and precision of the new one, all counts
//     stay exact. Each unit is back at the instant at which it would have been back
//     before, whatever the Count. A [TokenBucket] lacks as many units as before, whatever
//     the Count and Burst. Of several such limits it takes an equal one. If there is none,
//     it takes the one with the greatest Count. A TokenBucket takes one of its own rate,
//     or else the one at its own place in the list, or else the last.
//   - Otherwise, the units that an old limit remembers are charged to the new limit
//     again, oldest first. That old limit is the one with the finest resolution of those
//     that remember as far back as the new limit looks. If none does, it is the one that
//     remembers furthest back.
//
// Units that are held, as under [AtOnce], stay held under new limits that hold units, and end with the
// new lease. No other limit is charged them, and what was charged under other limits is not held.
//
// If that old limit knows only the window or bucket in which a unit was charged, the unit
// is dated at the end of that window or bucket, or now if that is earlier. It may count
// longer than it should, but never shorter. A [TokenBucket] does not know when the units
// that it lacks were charged: they are dated now, which is too early on a clock that is set
// back. Units older than the old limits remember are lost. Others that have ceased to count
// may count again under a longer window, if the key was not evicted in between. If the new
// limit is [Unlimited], all units are lost: the keys are not tracked any more.
//
// Once Reconfigure has returned, no call is decided by the old limits. A call that runs at
// the same time is decided by the old limits or by the new ones, never by some of each.
// Such calls do not wait for Reconfigure: each moves its own key to the new limits, if
// that is not done yet. Reconfigure takes a moment for each tracked key, and until it
// returns, the keys take up to twice their memory.
//
// The error names every wrong limit, and wraps [ErrInvalidLimit], or [ErrNoLimit] if there
// is none. On an error, nothing has changed. The limiter below an httplimit.Limiter of
// several policies always returns an error.
func (l *Limiter) Reconfigure(limits ...Limit) error {
	if len(limits) == 0 {
		return fmt.Errorf("sash: Reconfigure needs a Limit, such as PerSecond(10): %w", ErrNoLimit)
	}
	if err := validate(limits); err != nil {
		return err
	}
	// Until the last key is moved, no other change may come: it would find keys in two tables.
	l.changes.Lock()
	defer l.changes.Unlock()
	old := l.current.Load()
	if err := old.setup.noReconfigure; err != nil {
		return err
	}
	g := l.successor(old, limits, old.setup)
	l.publish(old, g)
	l.migrateAll(old, g)
	return nil
}

// replace is Reconfigure of valid limits that replaces the setup, too: at the same instant,
// the generation that publish makes current has both. The keys that are tracked get the
// limits that they have under the new setup.
//
// replace calls switchOver, which calls publish while it keeps calls away from l that must
// not see one configuration after the other. publish does not wait. It reports false, and
// has done nothing, if another change is going on. Then switchOver must let the calls go on
// and return, and replace calls it again. So calls that are kept away wait neither for a
// Snapshot, nor for a SetLimits that waits for them, nor for the keys to be migrated.
func (l *Limiter) replace(limits []Limit, s *setup, switchOver func(publish func() bool)) {
	var old, g *generation
	for published := false; !published; {
		// Wait for the other change. Then make the table, which may take milliseconds, before
		// any call is kept away.
		l.changes.Lock()
		if current := l.current.Load(); current != old {
			old, g = current, l.successor(current, limits, s)
		}
		l.changes.Unlock()

		switchOver(func() bool {
			if !l.changes.TryLock() {
				return false
			}
			// Another change may have come in between, and ended. Then g is not the successor
			// of the current generation.
			if published = l.current.Load() == old; !published {
				l.changes.Unlock()
				return false
			}
			l.publish(old, g) // and keep the lock
			return true
		})
	}
	defer l.changes.Unlock()
	l.migrateAll(old, g)
}

// successor returns a generation that is to follow old, with an empty table.
func (l *Limiter) successor(old *generation, limits []Limit, s *setup) *generation {
	return l.newGeneration(old.overrides, old.shift, old.cap, limits, s, max(l.sizeHint, old.keys.size()))
}

// publish makes g, the successor of old, the current generation. changes is held.
func (l *Limiter) publish(old, g *generation) {
	// Forget the rulesets of limits that a former setup gave to keys. Keys get theirs when
	// they are migrated. Otherwise a limiter whose limits change often would fill the cache
	// with limits that no key has any more.
	if g.setup != old.setup {
		g.rulesets.clear()
	}

	// Link the old generation before the new one is published. A call that finds no entry
	// in g must know where else to look, or it would take a tracked key for a new one.
	g.old.Store(old)

	// Publish. From here on, no insert into the old table succeeds: inserts check, under
	// the lock of the shard, that their generation is the current one. Calls in g move
	// their keys themselves, and race with migrateAll. The lock of the old entry decides
	// which of them moves it.
	l.current.Store(g)
}

// migrateAll moves all keys of old to g, which has been published. changes is held.
func (l *Limiter) migrateAll(old, g *generation) {
	// Move all keys. rangeAll lists each shard under its lock, after the publication, so it misses
	// no insert. A call that is still under way in the old generation may replace an entry there by
	// another one, as a Reserve does. So go on with a key until it has no entry in the old table.
	old.keys.rangeAll(func(k key, _ *entry) bool {
		for e := old.keys.loadLocked(k); e != nil; e = old.keys.loadLocked(k) {
			l.migrate(old, g, k, e)
		}
		return true
	})
	if g.overflow != nil {
		for i := range g.overflow.entries {
			l.migrateShared(old, g, i)
		}
	}

	// All entries are in g. Unlink the old generation, so that look-ups need not search it
	// and its memory is freed. The sample items of its dead entries refer to it as well.
	g.old.Store(nil)
	if g.cap != nil {
		g.cap.purge()
	}

	// Waiting calls may be admitted by the new limits, or exceed them.
	l.queues.ChangeAll()
}
