package sash

import (
	"encoding/binary"
	"io"
	"runtime"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Snapshot writes the state of the limiter to w, for [Limiter.Restore]. The snapshot contains:
//   - the limiter's own limits;
//   - every tracked key, with the units charged to it, and its own limits if it has any;
//   - the limits of [Limiter.SetLimits].
//
// It does not contain waiting calls, nor the quotas that keys share under
// [ShareOverflow], nor units that are held at a time, as by [AtOnce]: their holders are gone when it is
// restored. A reservation that is not settled yet is in it as charged, to the other limits.
//
// The units charged by calls that returned before Snapshot was called are in the snapshot. The
// charge of a call that runs at the same time to one key is in it as a whole or not at all. The
// charge of a [Limiter.TakeAll] may be in it for some of its keys only.
//
// Calls on the limiter go on while Snapshot runs, with these exceptions:
//   - A call that inserts or evicts a key, or makes a log grow, may wait while 1/256 of the keys are
//     listed.
//   - If a large log changes faster than it can be copied, admissions on it wait for one
//     copy, as they do while a log makes room.
//   - SetLimits, Reconfigure, Restore and another Snapshot wait until Snapshot is done. So
//     w must not call them.
//
// Snapshot reads every key. For each key it writes the name and some 10 bytes, and for a log or
// buckets some 5 bytes more for each record. It writes in blocks of at most 32 KiB, each of them in
// one Write. Under [WithMaxKeys] it takes 48 bytes of memory for each key until it is done.
//
// Keys are written as they are: a reader of the snapshot learns which keys were limited.
// The error is the error of w.
func (l *Limiter) Snapshot(w io.Writer) error {
	// While this lock is held, the generation and the overrides stay, and all keys are in
	// the table of g.
	l.changes.Lock()
	defer l.changes.Unlock()
	g := l.current.Load()
	s := newSnapshotWriter(w)
	begun := g.instant(l.clock.Now())
	head := binary.AppendVarint(nil, l.wall().UnixNano())
	s.write(appendLimits(binary.AppendVarint(head, begun), g.ruleset.rules))
	s.writeKeys(g)
	g.byKey.rangeAll(s.writeOverride)
	// Load the floor last. A key that was evicted before it could be written is not in the
	// snapshot, but its eviction raised the floor first, so the floor covers it. If the
	// clock was far ahead once and was set back, write no more than Restore accepts.
	s.writeEnd(min(g.floor.Load(), window.Plus(begun, maxAhead)))
	return s.err
}

// writeKeys writes the state of every key in g, and no more keys than a cap allows.
func (s *snapshotWriter) writeKeys(g *generation) {
	if g.cap == nil {
		g.keys.rangeAll(func(k key, e *entry) bool { return s.writeKey(g, k, e) })
		return
	}

	// Keys are inserted and evicted while this runs. So the keys seen on one way through
	// the table may be more than the cap. List them first: once the list is complete, at
	// most as many of its entries as the cap allows are alive.
	listed := make([]sampleItem, 0, g.cap.used.Load())
	g.keys.rangeAll(func(k key, e *entry) bool {
		listed = append(listed, sampleItem{generation: g, key: k, entry: e})
		return true
	})
	var moved []sampleItem
	for _, item := range listed {
		switch word := item.entry.Word.Load(); {
		case word&(dead|replaced) == dead|replaced:
			moved = append(moved, item)
		case word&dead != 0: // evicted: if its key was inserted again, it need not be in the snapshot
		case !s.writeKey(g, item.key, item.entry):
			return
		}
	}

	// Another entry has taken the place of each of these, as when a log grows. That must be in the snapshot.
	// It may have been evicted since, and its key inserted again. So stop at the cap.
	for _, item := range moved {
		if s.keys == uint64(g.cap.max) || !s.writeKey(g, item.key, item.entry) {
			return
		}
	}
}

// writeKey writes the state of k, whose entry in g is or was e, if k is still tracked. It returns
// false once writing has failed.
func (s *snapshotWriter) writeKey(g *generation, k key, e *entry) bool {
	if b, tracked := g.appendKey(append(s.record[:0], keyRecord), k, e); tracked {
		s.record = b
		s.keys++
		s.write(b)
	}
	return s.err == nil
}

// writeOverride writes an override. It returns false once writing has failed.
func (s *snapshotWriter) writeOverride(name string, o *override) bool {
	s.overrides++
	b := appendName(append(s.record[:0], overrideRecord), name)
	s.record = appendLimits(b, o.ruleset.rules)
	s.write(s.record)
	return s.err == nil
}

// writeEnd writes the last record, and the block without a payload that follows it.
func (s *snapshotWriter) writeEnd(floor int64) {
	b := binary.AppendUvarint([]byte{endRecord}, s.keys)
	b = binary.AppendUvarint(b, s.overrides)
	s.write(binary.AppendVarint(b, floor))
	// Send what is left, and then the empty block: without it the snapshot was cut short.
	if len(s.block) > blockHeadSize {
		s.flush()
	}
	s.flush()
}

func appendLimits(b []byte, rules []rule) []byte {
	b = binary.AppendUvarint(b, uint64(len(rules)))
	for i := range rules {
		l := rules[i].Limit
		b = binary.AppendUvarint(b, uint64(l.Count))
		b = binary.AppendUvarint(b, uint64(l.Window))
		b = append(b, byte(l.Algorithm))
		b = binary.AppendUvarint(b, uint64(l.Precision))
		if l.Algorithm == TokenBucket {
			b = binary.AppendUvarint(b, uint64(l.Burst))
		}
	}
	return b
}

// appendKey appends the name and the state of k, whose entry in g is or was e. If tracked
// is false, k has been evicted or reset in between.
func (g *generation) appendKey(b []byte, k key, e *entry) (record []byte, tracked bool) {
	b = appendName(b, k.name)
	for round := 1; ; round++ {
		atomic.Round("appendKey", round)
		if record, alive := g.ruleset.appendEntry(b, e); alive {
			return record, true
		}
		// e is dead. An entry that replaces another is in the table before the other is
		// dead. So if e was replaced, load finds the new entry, or one after it. If e was
		// evicted or reset, load finds e, nothing, or an entry whose charges are all later
		// than the begin of this snapshot, and may be in it or not.
		next := g.keys.load(k)
		if next == nil || next == e {
			return nil, false
		}
		e = next
	}
}

// appendEntry appends the state of e, an entry in a table of rs, as it is at one instant.
// If alive is false, e is dead, and nothing is appended.
func (rs *ruleset) appendEntry(b []byte, e *entry) (record []byte, alive bool) {
	const tries = 4
	for i := 0; ; i++ {
		atomic.Round("appendEntry", i+1)
		word, alive := e.loadUnlocked()
		if !alive {
			return nil, false
		}
		// Copy first, then validate that nothing was charged while the copy was made. If
		// that fails too often, hold e first. Then no call charges e until it is unlocked, so
		// the copy is of one state: the state at word.
		held := i >= tries && rs.tryHold(e, word)
		record = rs.appendStates(b, e, word)
		switch {
		case held:
			rs.release(e, word)
			return record, true
		case rs.validate(e, word):
			return record, true
		}
		runtime.Gosched() // let the calls that charge e go on
	}
}

// tryHold keeps other calls from charging e, whose word was loaded as given, and reports whether it does.
// Calls that only read a log or several limits go on: the caller needs as long as a copy of them. An entry
// in one word needs no hold.
func (rs *ruleset) tryHold(e *entry, word uint64) bool {
	if rs.kindOf(word).resizable() {
		return e.tryBeginResize(word)
	}
	return e.tryLock(word) // for a few words
}

// release ends what tryHold began.
func (rs *ruleset) release(e *entry, word uint64) {
	if rs.kindOf(word).resizable() {
		e.unlock(word)
	} else {
		e.Word.Store(word) // nothing has changed
	}
}

// appendStates appends the limits of e, if it has its own, and its states, read after word
// was loaded. They may be torn: the caller must validate word, or hold e.
func (rs *ruleset) appendStates(b []byte, e *entry, word uint64) []byte {
	// An entry never gets another ruleset. So this is right even if e is dead by now.
	own, limits := rs.of(e), []rule(nil)
	if own != rs {
		limits = own.rules
	}
	b = appendLimits(b, limits)
	for i := range own.rules {
		b = own.rules[i].algorithm.appendState(b, rs.stateOf(e, word, i))
	}
	return b
}
