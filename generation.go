package sash

import (
	"errors"
	"math/rand/v2"
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A generation is a limiter's own limits with the table of keys under them.
//
// Reconfigure makes a new generation the current one. The one before stays its old generation until
// every key has been migrated, by the first call that looks for the key or by Reconfigure itself.
//
// Invariant: a key has at most one entry that is neither dead nor locked. An entry is inserted only
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
// limiter's own limits from one generation, and the limits of a key from another.
type generation struct {
	*overrides
	shift    int64 // see instant; until a Restore it is the same in all generations
	ruleset  *ruleset
	rule     *rule // the first of ruleset: the only one, if fast names its algorithm
	fast     fastPath
	keys     sharded
	old      atomic.Pointer[generation] // nil: none, or no key is left there
	cap      *keyCap                    // nil: none
	overflow *overflowEntries           // under ShareOverflow
	setup    *setup
}

// instant returns the instant at which a call is decided in g when the clock shows reading. All
// instants in g and its entries are on that timeline. It is the timeline of the clock, unless a
// snapshot was restored. Then it is shifted, so that it goes on from the timeline of the snapshot.
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

// callLimitsFor returns the limits that WithLimitsFor gives a key, none for none, and what
// is wrong with them.
func (s *setup) callLimitsFor(name string) (limits []Limit, fault error) {
	if s.limitsFor == nil {
		return nil, nil
	}
	limits = s.limitsFor(strings.Clone(name)) // it may keep the name
	return limits, errors.Join(limitFaults("WithLimitsFor: ", limits)...)
}

// A resolved is the ruleset that a key without an entry has, and what it follows from.
type resolved struct {
	generation *generation
	override   *override // of SetLimits; nil for none
	ruleset    *ruleset  // of the override, of WithLimitsFor, or the limiter's own
}

// resolve returns the ruleset that a key without an entry has in g. For wrong limits of
// WithLimitsFor, it is one that denies.
func (g *generation) resolve(name string) resolved {
	r := resolved{generation: g, ruleset: g.ruleset}
	if r.override, _ = g.byKey.load(name); r.override != nil {
		r.ruleset = r.override.ruleset
		return r
	}
	// A SetLimits may come while this runs the caller's code. Then r is not valid, as stillValid finds.
	switch limits, fault := g.setup.callLimitsFor(name); {
	case fault != nil:
		r.ruleset = g.newDenying(fault)
	case len(limits) > 0:
		r.ruleset = g.cachedRuleset(limits)
	}
	return r
}

// forget removes e, the entry of k in g, with what was charged to it. It reports false if
// e was dead; then e is no longer in g.
func (g *generation) forget(k key, e *entry) bool {
	word, alive := g.ruleset.lock(e)
	if !alive {
		g.keys.compareAndDelete(k, e)
		return false
	}
	g.tryKill(k, e, word|locked) // it succeeds: no other goroutine changes a locked word
	return true
}

// addSample gives e, the new entry of k in g, a slot.
func (g *generation) addSample(k key, e *entry) {
	if g.cap == nil {
		return
	}
	item := &sampleItem{g, k, e, g.cap.lastSeq.Add(1)}
	for random := rand.NewPCG(k.hash, 0); ; { // half of the slots are free, so this ends soon
		slot := g.cap.randomSlot(random)
		// Only a free slot may be taken. The swap fails if another key has just taken it.
		if old := slot.Load(); old.isDead() && slot.CompareAndSwap(old, item) {
			return
		}
	}
}

// replaceSample gives the slot of old to next, which replaces it as the entry of k in g.
// The caller must have locked old. The key keeps its order among the others.
func (g *generation) replaceSample(k key, old, next *entry) {
	if g.cap == nil {
		return
	}
	// addSample took the first free slot of this sequence. So the slot of old is among the
	// first few, unless the goroutine that inserted old has not reached addSample yet.
	const tries = 64
	random := rand.NewPCG(k.hash, 0)
	for range tries {
		slot := g.cap.randomSlot(random)
		if item := slot.Load(); item != nil && item.entry == old {
			slot.Store(&sampleItem{g, k, next, item.seq}) // old is locked: no other goroutine stores here
			return
		}
	}
	g.addSample(k, next)
}

// replace makes next the entry of k in g, in place of e, which was locked from word.
func (g *generation) replace(k key, e *entry, word uint64, next *entry) {
	// The new entry is in the table before the old one is dead. So a call that finds e dead finds next.
	own := key{k.hash, next.Name()}
	// e is alive and locked, so it still is the entry of k, and the swap succeeds.
	g.keys.compareAndSwap(own, e, next)
	g.replaceSample(own, e, next)
	e.markDead(word)
}

// enlarge makes room in e, the entry of k in g, a log that is outgrown.
func (g *generation) enlarge(k key, e *entry) { g.resizeLog(k, e, g.ruleset.onlyLog().larger) }

// shrink gives back the memory of e, the entry of k in g, if that is far too large by now. Otherwise a
// busy key would keep the memory of one burst for ever.
func (g *generation) shrink(k key, e *entry) {
	switch kind := g.ruleset.kindOf(e.Word.Load()); kind {
	case kindWord, kindParts: // always of one size
	case kindLog:
		r := g.ruleset.onlyLog()
		if _, room := r.smaller(e.ring().view()); room > 0 {
			g.resizeLog(k, e, r.smaller)
		}
	case kindMulti:
		e.asMulti().shrink()
	default:
		panic(unknownKind(kind))
	}
}

// resizeLog replaces e, the entry of k in g, a log, by one with another room. size returns which records
// of e are kept, and that room, 0 to leave e as it is. The caller must look again.
func (g *generation) resizeLog(k key, e *entry, size func(v ringView) (kept ringView, room int)) {
	word, alive := g.ruleset.beginResize(e)
	if !alive {
		return
	}
	// From here on no call charges e, so the copy is complete. Calls that read go on.
	kept, room := size(e.ring().view())
	if room == 0 {
		e.unlock(word)
		return
	}
	next := newLogEntry(kept, room, e.Name())
	next.unlock(next.Word.Load()) // only an unused entry has the first version
	// From here on they wait, until e is dead. Otherwise one could read e after another has charged next.
	e.Word.Store(word | locked)
	g.replace(k, e, word, next)
}

// tryKill makes e, the entry of k in g, dead if its word still is word. Then it takes e
// out of the table, and gives back its room, in the same step. It reports whether it has.
func (g *generation) tryKill(k key, e *entry, word uint64) (killed bool) {
	own := key{k.hash, e.Name()} // as in compareAndDelete
	// Kill, unlink and free the room under one lock. So a call that finds no entry knows that no room is
	// taken.
	g.keys.update(own, func(found *entry) *entry {
		if killed = found == e && e.tryKill(word); !killed {
			return found
		}
		g.release(1)
		return nil
	})
	return killed
}

// release gives back the room of that number of keys of g.
func (g *generation) release(keys int64) {
	if g.cap != nil {
		g.cap.used.Add(-keys)
	}
}
