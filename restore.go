package sash

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// Restore replaces the state of the limiter, its keys and the limits of
// [Limiter.SetLimits], by the snapshot that r yields. The limiter must have the limits
// under which the [Limiter.Snapshot] was made, in the same order.
//
// From there on, every answer is the one that the other limiter would have given, but that no unit is held:
//   - Time goes on where it stood in the snapshot. The time since then counts as passed.
//     It is measured by the wall clock, which Snapshot and Restore each read once. If
//     that clock was set back in between, no time has passed.
//   - Windows and buckets are aligned as they were there, whatever the origins of the two
//     clocks.
//   - A key with limits of its own comes back with them, whatever [WithLimitsFor] returns
//     by now, until it is evicted or reset.
//
// Restore reads r to its end, and replaces the state only then, at once. Until then, calls
// go on with the old state. A call that runs at the same time is decided by the old state,
// and its charge is lost with that, or by the new one. A [Reservation] made before has
// nothing to give back any more. Waiting calls try again. SetLimits, Reconfigure, Snapshot
// and another Restore wait until Restore is done. So r must not call them.
//
// Restore takes a moment for each key. Its memory is in proportion to the bytes read. It
// does not make the room of [WithSizeHint] again.
//
// On an error, nothing has changed. The error wraps the error of r, if there is one. Any other
// error wraps [ErrBadSnapshot] and says which of these is wrong with the snapshot:
//   - It is cut short, or any bit of it has changed.
//   - It is of another version, or was made under other limits.
//   - It has more keys than [WithMaxKeys] allows, or more than 64 limits for one key.
//   - It says that a key was evicted that became idle more than a day ahead.
//
// The checksums find accidents. They are no protection against a snapshot that was made up.
func (l *Limiter) Restore(r io.Reader) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	old := l.current.Load()
	limits, bound := old.ruleset.limits(), (*keyCap)(nil)
	s := newSnapshotReader(r)
	wall, begun := s.int(), s.int()
	if theirs := s.limits(); !slices.Equal(theirs, limits) {
		s.fail("its limits are %s, the limiter's are %s", listed(theirs), listed(limits))
	}
	if s.err != nil {
		return s.err // before the cost of a table
	}
	if old.cap != nil {
		bound = newKeyCap(old.cap.max, old.cap.overflow)
	}

	// Read everything into a new generation that no other goroutine knows. It has a
	// timeline of its own, and so no override, no cached ruleset and no floor of the old
	// one. On an error it is dropped, and nothing has happened.
	g := l.newGeneration(newOverrides(l.chargeDenied, begun), 0, bound, limits, old.setup, 0)
	l.readRecords(s, g)
	if s.err == nil {
		// Set the shift last: the time that reading took has passed, too.
		down, _ := window.Sub(l.wall().UnixNano(), wall)
		s.resume(g, begun, down, l.clock.Now())
	}
	if s.err != nil {
		return s.err
	}

	// Publish. It has no old generation: a call that loads g finds only what was restored.
	// A call that is still under way in the old generation may charge an entry there,
	// which comes before this store and is forgotten with the old table. It cannot insert
	// one: inserts check that their generation is the current one.
	l.current.Store(g)

	// The timers of waiting calls are set by the old timeline.
	l.queues.ChangeAll()
	return nil
}

// readRecords reads all records into g, which no other goroutine knows yet.
func (l *Limiter) readRecords(s *snapshotReader, g *generation) {
	var keys, overrides uint64
	for s.err == nil {
		switch record := s.byte(); record {
		case keyRecord:
			l.readKey(s, g)
			keys++
		case overrideRecord:
			s.readOverride(g)
			overrides++
		case endRecord:
			// The end says how many there were. So a snapshot that has lost records fails, too.
			if s.uint() != keys || s.uint() != overrides {
				s.fail("not as many keys and overrides as it says")
			}
			g.floor.Store(s.int())
			s.end()
			return
		default:
			s.fail("a record of unknown kind %d", record)
		}
	}
}

// readKey reads the record of a key into g.
func (l *Limiter) readKey(s *snapshotReader, g *generation) {
	name := s.name()
	rs := cmp.Or(s.ownRuleset(g, name), g.ruleset)
	if rs.unlimited() {
		s.fail("key %s is unlimited, and yet tracked", quote(name))
	}
	states := make([]limitState, len(rs.rules))
	for i := range states {
		r := &rs.rules[i]
		states[i].store(r.algorithm.readState(r.begin(name), s))
	}
	if s.err == nil && !g.cap.tryAcquire() {
		s.fail("more keys than the %d of WithMaxKeys", g.cap.max)
	}
	if s.err != nil {
		return // before an entry is made of zeros
	}
	e := rs.entryOf(rs.kind, states, name)
	k := l.key(e.Name())
	if g.keys.loadOrStoreIf(k, e, func() bool { return true }) != e {
		s.fail("key %s twice", quote(name))
	}
	g.addSample(k, e)
}

// limits reads the limits of a key. It does not validate them.
func (s *snapshotReader) limits() (limits []Limit) {
	n := s.uint()
	// Check first: limits take far more memory than their bytes in the snapshot.
	if n > maxLimits {
		s.fail("%d limits of one key, more than %d", n, maxLimits)
	}
	for ; n > 0 && s.err == nil; n-- {
		l := Limit{
			Count:     s.count(),
			Window:    time.Duration(s.count()),
			Algorithm: Algorithm(s.byte()),
			Precision: time.Duration(s.count()),
		}
		if l.Algorithm == TokenBucket {
			l.Burst = s.count()
		}
		limits = append(limits, l)
	}
	return limits
}

// resume makes the timeline of g go on from the instant begun, at which the snapshot was begun. By the
// wall clock, down has passed since then. The limiter's clock shows reading.
func (s *snapshotReader) resume(g *generation, begun, down, reading int64) {
	now, fits := window.Add(begun, max(down, 0)) // the timeline never goes back
	if !fits {
		s.fail("its instant %d, and %v since, is more than 64 bits", begun, time.Duration(down))
	}
	// An empty entry never starts before the floor. So the units charged to new keys would not be back
	// for as long as the floor is ahead.
	floor := g.floor.Load()
	if ahead, _ := window.Sub(floor, now); ahead > maxAhead {
		s.fail("the past is forgotten up to instant %d, which is %v ahead, more than %v",
			floor, time.Duration(ahead), time.Duration(maxAhead))
	}
	if g.shift, fits = window.Sub(now, reading); !fits {
		s.fail("its instant %d is more than 64 bits away from the clock's %d", now, reading)
	}
}

// readOverride reads the record of an override into g.
func (s *snapshotReader) readOverride(g *generation) {
	name := s.name()
	rs := s.ownRuleset(g, name)
	if rs == nil {
		s.fail("key %s has an override without limits", quote(name))
		return
	}
	if _, twice := g.byKey.forWriting().LoadOrStore(name, &override{rs}); twice {
		s.fail("key %s has two overrides", quote(name))
	}
}

// ownRuleset reads the limits that a key has of its own, and returns their ruleset; nil for none.
func (s *snapshotReader) ownRuleset(g *generation, name string) *ruleset {
	limits := s.limits()
	if validate(limits) != nil {
		s.fail("key %s has the limits %s, which cannot be", quote(name), listed(limits))
	}
	if len(limits) == 0 || s.err != nil {
		return nil
	}
	return g.cachedRuleset(limits)
}

// listed returns limits as text for an error message. It cuts off what is too long.
func listed(limits []Limit) string {
	const maxLength = 256
	text := fmt.Sprint(limits)
	if len(text) > maxLength {
		return text[:maxLength] + "..."
	}
	return text
}
