package sash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-30da4c49/sash/internal/window"
)

// ErrBadSnapshot is wrapped by the error of [Limiter.Restore] if the bytes are not a whole
// snapshot, or not one that this limiter can restore.
var ErrBadSnapshot = errors.New("bad snapshot")

// Restore replaces the state of the limiter, its keys and the limits of
// [Limiter.SetLimits], by the snapshot that r yields. The limiter must have the limits
// under which the [Limiter.Snapshot] was made, in the same order.
//
// From there on, every answer is the one that the other limiter would have given:
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
// On an error, nothing has changed. The error wraps that of r, if there is one. Any other
// error wraps [ErrBadSnapshot] and says which of these is wrong with the snapshot:
//   - It is cut short, or any bit of it has changed.
//   - It is of another version, or was made under other limits.
//   - It has more keys than [WithMaxKeys] allows, or more than 64 limits for one key.
//   - It says that a key was evicted that became idle more than a day ahead.
//
// The checksums find accidents. They are no protection against a snapshot that was made
// up.
func (l *Limiter) Restore(r io.Reader) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	old := l.current.Load()
	limits := old.ruleset.limits()
	s := newSnapshotReader(r)
	begun := s.header(limits)
	if s.err != nil {
		return s.err // before the cost of a table
	}

	// Read everything into a new generation that no other goroutine knows. It has a
	// timeline of its own, and so no override, no cached ruleset and no floor of the old
	// one. On an error it is dropped, and nothing has happened.
	g := l.newGeneration(newTimeline(l.chargeDenied, begun.at), 0, old.cap.emptied(), limits, old.setup, 0)
	l.readRecords(s, g)
	if s.err == nil {
		// Set the shift last: the time that reading took has passed, too.
		now := s.resume(begun, l.wall().UnixNano())
		s.checkFloor(g.floor.Load(), now)
		g.shift = s.shift(now, l.clock.Now())
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
	l.queues.notifyAll()
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
	rs := s.ownRuleset(g, name)
	if rs == nil {
		rs = g.ruleset
	}
	if rs.unlimited() {
		s.fail("key %s is unlimited, and yet tracked", quote(name))
	}
	e := newMultiEntry(rs, "")
	for i := range e.states {
		s.limitState(&rs.rules[i], &e.states[i])
	}
	switch {
	case s.err != nil:
	case !g.cap.tryAcquire():
		s.fail("more keys than the %d of WithMaxKeys", g.cap.max)
	case !l.insertRestored(g, name, e):
		s.fail("key %s twice", quote(name))
	}
}

// insertRestored inserts an entry with the state of e into g, for the key of that name. It
// returns false, and inserts nothing, if the key has an entry already. The caller must
// have acquired room for the key.
func (l *Limiter) insertRestored(g *generation, name string, e *multiEntry) bool {
	next := e.compact(e.ruleset.kind, name)
	k := l.key(next.Name())
	if g.keys.loadOrStoreIf(k, next, func() bool { return true }) != next {
		return false
	}
	g.addSample(k, next)
	return true
}

// A snapshotReader reads a snapshot. After its first error, it reads zeros.
//
// It uses no byte of a block before the checksum of the block is verified. It makes no
// room for a size that the snapshot states before as many bytes have been read.
type snapshotReader struct {
	r      *bufio.Reader
	digest *xxhash.Digest
	offset int64  // of block in the snapshot
	block  []byte // in the buffer of r
	rest   []byte // of the payload of block, not yet read
	err    error  // the first one
}

func newSnapshotReader(r io.Reader) *snapshotReader {
	s := &snapshotReader{r: bufio.NewReaderSize(r, blockHeadSize+maxPayload), digest: xxhash.New()}
	s.block = s.peek(len(magic) + 1)
	switch {
	case s.err != nil:
	case string(s.block[:len(magic)]) != magic:
		s.fail("it does not begin as one")
	case s.block[len(magic)] != version:
		s.fail("it is of version %d, not %d", s.block[len(magic)], version)
	}
	s.digest.Write(s.block)
	return s
}

// fail sets an error that wraps ErrBadSnapshot, unless there is an error already.
func (s *snapshotReader) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("sash: snapshot: "+format+": %w", append(args, ErrBadSnapshot)...)
	}
}

// peek returns the next n bytes without reading them. If there are fewer, it fails and
// returns nil.
func (s *snapshotReader) peek(n int) []byte {
	b, err := s.r.Peek(n)
	switch {
	case err == nil:
		return b
	case errors.Is(err, io.EOF):
		s.fail("it ends after %d bytes", s.offset+int64(len(b)))
	default:
		s.readError(err)
	}
	return nil
}

// readError sets the error to err, an error of the reader. If err is that the reader ended
// too soon, as that of a decompressor may be, the snapshot is bad.
func (s *snapshotReader) readError(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.fail("after %d bytes: %v", s.offset, err)
		return
	}
	s.err = fmt.Errorf("sash: snapshot: %w", err)
}

// discardBlock reads past the block.
func (s *snapshotReader) discardBlock() {
	s.r.Discard(len(s.block)) // cannot fail: all of it is in the buffer
	s.offset += int64(len(s.block))
	s.block, s.rest = nil, nil
}

// next goes on to the next block, and verifies it. The last block has no payload.
func (s *snapshotReader) next() {
	s.discardBlock()
	head := s.peek(blockHeadSize)
	if s.err != nil {
		return
	}
	length, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint64(head[lengthSize:])
	if length > maxPayload {
		s.fail("the block at byte %d has a length of %d, more than %d", s.offset, length, maxPayload)
		return
	}
	block := s.peek(blockHeadSize + int(length))
	if s.err != nil {
		return
	}
	s.digest.Write(block[:lengthSize])
	s.digest.Write(block[blockHeadSize:])
	if s.digest.Sum64() != sum {
		s.fail("the block at byte %d, or one before it, is not as it was written", s.offset)
		return
	}
	s.block, s.rest = block, block[blockHeadSize:]
}

// ensurePayload goes on to the next block if all of this one is read. It returns whether
// rest holds a byte: it returns false after the last block and on an error.
func (s *snapshotReader) ensurePayload() bool {
	if s.err == nil && len(s.rest) == 0 {
		s.next()
	}
	return s.err == nil && len(s.rest) > 0
}

// end fails unless this is the end of the payloads and of the bytes.
func (s *snapshotReader) end() {
	if s.ensurePayload() {
		s.fail("more records after the last")
	}
	if s.err != nil {
		return
	}
	s.discardBlock()
	switch b, err := s.r.Peek(1); {
	case len(b) > 0:
		s.fail("more after its %d bytes", s.offset)
	case !errors.Is(err, io.EOF):
		s.readError(err)
	}
}

// ReadByte reads a byte of the payloads. It makes s an io.ByteReader.
func (s *snapshotReader) ReadByte() (byte, error) {
	if !s.ensurePayload() {
		s.fail("its last record is not whole")
		return 0, s.err
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b, nil
}

func (s *snapshotReader) byte() byte {
	b, _ := s.ReadByte()
	return b
}

func (s *snapshotReader) uint() uint64 {
	n, err := binary.ReadUvarint(s)
	if err != nil {
		s.fail("a number of more than 64 bits")
		return 0
	}
	return n
}

func (s *snapshotReader) int() int64 {
	n, err := binary.ReadVarint(s)
	if err != nil {
		s.fail("a number of more than 64 bits")
		return 0
	}
	return n
}

// count reads a number that must fit into an int64, and is at least 0.
func (s *snapshotReader) count() int64 {
	n := s.uint()
	if n > math.MaxInt64 {
		s.fail("a count of %d", n)
		return 0
	}
	return int64(n)
}

// name reads the name of a key.
func (s *snapshotReader) name() string {
	var b []byte
	n := s.uint()
	// Copy it in parts: n may be a lie, and a name may cross the end of a block.
	for n > 0 && s.ensurePayload() {
		part := s.rest[:min(n, uint64(len(s.rest)))]
		b, s.rest = append(b, part...), s.rest[len(part):]
		n -= uint64(len(part))
	}
	if n > 0 {
		s.fail("its last record is not whole")
	}
	return asString(b)
}

// limits reads the limits of a key. It does not validate them.
func (s *snapshotReader) limits() (limits []Limit) {
	n := s.uint()
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

// A startTime is the time at which a snapshot was begun, by the wall clock and as an
// instant of its timeline.
type startTime struct{ wall, at int64 }

// header reads the time at which the snapshot was begun. It fails unless the limits of the
// snapshot are the given ones.
func (s *snapshotReader) header(limits []Limit) (begun startTime) {
	begun = startTime{s.int(), s.int()}
	if theirs := s.limits(); !slices.Equal(theirs, limits) {
		s.fail("its limits are %s, the limiter's are %s", listed(theirs), listed(limits))
	}
	return begun
}

// resume returns the instant at which the timeline of the snapshot goes on, now that the
// wall clock shows wall. It has moved on from begun as far as the wall clock, but not back.
func (s *snapshotReader) resume(begun startTime, wall int64) (now int64) {
	down, _ := window.Sub(wall, begun.wall)
	now, fits := window.Add(begun.at, max(down, 0))
	if !fits {
		s.fail("its instant %d, and %v since, is more than 64 bits", begun.at, time.Duration(down))
	}
	return now
}

// maxAhead is the time by which the floor of a snapshot may be later than the instant of
// the snapshot. The floor is later only if keys were evicted while the snapshot was made,
// or before the clock was set back. A day is enough for the slowest writer, and for a
// clock that was set to another time zone.
const maxAhead = int64(day)

// checkFloor fails if the floor is too far ahead of now. An empty entry never starts before
// the floor, so the units charged to new keys would not be back for as long.
func (s *snapshotReader) checkFloor(floor, now int64) {
	if ahead, _ := window.Sub(floor, now); ahead > maxAhead {
		s.fail("the past is forgotten up to instant %d, which is %v ahead, more than %v",
			floor, time.Duration(ahead), time.Duration(maxAhead))
	}
}

// shift returns the shift of a timeline that stands at now when the limiter's clock shows
// reading.
func (s *snapshotReader) shift(now, reading int64) int64 {
	shift, fits := window.Sub(now, reading)
	if !fits {
		s.fail("its instant %d is more than 64 bits away from the clock's %d", now, reading)
	}
	return shift
}

// readOverride reads the record of an override into g.
func (s *snapshotReader) readOverride(g *generation) {
	name := s.name()
	rs := s.ownRuleset(g, name)
	if rs == nil {
		s.fail("key %s has an override without limits", quote(name))
		return
	}
	if _, twice := g.overrides.forWriting().LoadOrStore(name, &override{rs}); twice {
		s.fail("key %s has two overrides", quote(name))
	}
}

// ownRuleset reads the limits that a key has of its own. It returns their ruleset, or nil
// if there are none.
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

// listed returns limits as text for an error message. It cuts off what is too long for a
// line of a log.
func listed(limits []Limit) string {
	const maxLength = 256
	text := fmt.Sprint(limits)
	if len(text) > maxLength {
		return text[:maxLength] + "..."
	}
	return text
}

// window reads the state of a windowForm.
func (s *snapshotReader) window(r *rule) window.State {
	w := window.State{Prev: s.count(), Curr: s.count()}
	if w.Empty() {
		return w
	}
	w.Index = s.int()
	first, _ := r.counter.Locate(math.MinInt64)
	last, _ := r.counter.Locate(math.MaxInt64)
	if w.Index < first || w.Index > last || w.Index == first && w.Prev > 0 {
		s.fail("a window of number %d, which is outside of time", w.Index)
		return window.State{}
	}
	return w
}

// debt reads the state of a debtForm.
func (s *snapshotReader) debt() (d window.Debt) {
	if d.Lack = (window.Amount{Hi: s.uint(), Lo: s.uint()}); !d.Empty() {
		d.At = s.int()
	}
	return d
}

// ring reads the state of a ringForm.
func (s *snapshotReader) ring(r *rule) *ring {
	count := s.uint()
	if count > math.MaxUint32 {
		s.fail("a log of %d entries", count)
	}
	if count == 0 || s.err != nil {
		return nil
	}
	tick, last := s.int(), r.ticks.Of(math.MaxInt64)
	if tick < r.ticks.Of(math.MinInt64) || tick > last {
		s.fail("an entry at tick %d, which is outside of time", tick)
	}
	var records []record
	var total uint64
	for s.err == nil {
		units := s.uint()
		if total += units; total < units {
			s.fail("a log of more than 64 bits of units")
		}
		records = append(records, record{tick, total})
		if uint64(len(records)) == count {
			break
		}
		later := s.uint()
		if later == 0 || later > uint64(last)-uint64(tick) {
			s.fail("an entry %d ticks after that at %d", later, tick)
		}
		tick += int64(later)
	}
	return newRingOf(records)
}
