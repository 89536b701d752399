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
)

// ErrBadSnapshot is wrapped by the error of a [Limiter.Restore] from what is no
// snapshot, or not the whole of one, or one of another limiter.
var ErrBadSnapshot = errors.New("bad snapshot")

// Restore puts what a [Limiter.Snapshot] wrote in the place of all that the limiter
// holds: its keys, and the limits of [Limiter.SetLimits]. The limiter must have the
// limits that the snapshot was made under, in the same order.
//
// Time goes on where the snapshot stood, and the time that has passed since then
// counts as passed, by the wall clock, which is read once by Snapshot and once by
// Restore; if it has been set back in between, none has. From there on every answer
// is what the other limiter's would have been: windows lie as they did there,
// whatever the two clocks' origins. Keys with limits of their own come back with
// those, whatever [WithLimitsFor] says by now, until they are evicted or reset.
//
// A call that runs at the same time is decided by what was there before, and is
// then gone with that, or by what is restored. What was reserved before has nothing
// to give back any more; waiting calls ask again. Until all of the snapshot is read
// and found right, calls go on with what is there, and SetLimits, Reconfigure,
// Snapshot and another Restore wait; r must not call them.
//
// It reads r to its end, and needs a moment per key and no more memory than is in
// proportion to what it has read; the room of [WithSizeHint] is not made again. An
// error means that nothing has changed. It wraps [ErrBadSnapshot] and says what is
// wrong where the snapshot is cut short, changed in any bit, of another version or
// other limits, of more keys than [WithMaxKeys] allows or more than 64 limits for one
// key, or forgets a past that ends more than a day ahead; any other error is that of
// r. The checksums find accidents: whoever can write a snapshot can write any.
func (l *Limiter) Restore(r io.Reader) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	prior := l.now.Load()
	limits := prior.policy.limits()
	s := newSnapshotReader(r)
	begun := s.header(limits)
	if s.err != nil { // else it would cost what the table does
		return s.err
	}
	g := l.newRegime(newTerms(l.chargeDenied), 0, prior.cap.empty(), limits, 0)
	l.readRecords(s, g)
	if s.err == nil {
		now := s.resume(begun, l.wall().UnixNano())
		s.checkForgotten(g.forgotten.Load(), now)
		g.shift = s.shift(now, l.clock.Now())
	}
	if s.err != nil {
		return s.err
	}
	l.now.Store(g)
	l.queues.nudgeAll()
	return nil
}

// readRecords puts what the records of s tell of into g, which nobody else knows yet.
func (l *Limiter) readRecords(s *snapshotReader, g *regime) {
	var keys, overrides uint64
	for s.err == nil {
		switch record := s.byte(); record {
		case keyRecord:
			l.readKey(s, g)
			keys++
		case overrideRecord:
			s.override(g)
			overrides++
		case endRecord:
			if s.uint() != keys || s.uint() != overrides {
				s.fail("not as many keys and overrides as it says")
			}
			g.forgotten.Store(s.int())
			s.end()
			return
		default:
			s.fail("a record of unknown kind %d", record)
		}
	}
}

func (l *Limiter) readKey(s *snapshotReader, g *regime) {
	name := s.name()
	p := s.ownPolicy(g, name)
	if p == nil {
		p = g.policy
	}
	c := newCompound(p)
	for i := range c.parts {
		s.part(&p.rules[i], &c.parts[i])
	}
	switch {
	case s.err != nil:
	case !g.cap.enter():
		s.fail("more keys than the %d of WithMaxKeys", g.cap.most)
	case !l.adopt(g, name, c):
		s.fail("key %s twice", quote(name))
	}
}

// adopt gives the key of that name a cell in g that holds what c does, unless it has
// one already, and reports whether it did.
func (l *Limiter) adopt(g *regime, name string, c *compound) bool {
	next := c.reduced(c.policy.kind, name)
	k := l.key(next.name())
	if g.keys.insert(k, next, func() bool { return true }) != next {
		return false
	}
	g.seat(k, next)
	return true
}

// A snapshotReader reads what a snapshotWriter has written. It fails for good with its
// first error, and then reads zeros. Nothing is believed of a block before its
// checksum is found right, and nothing that is said about sizes before as much has
// been read.
type snapshotReader struct {
	r      *bufio.Reader
	digest *xxhash.Digest
	offset int64  // of block
	block  []byte // as it lies in r's buffer
	rest   []byte // what is left of its payload
	err    error
}

func newSnapshotReader(r io.Reader) *snapshotReader {
	s := &snapshotReader{r: bufio.NewReaderSize(r, blockHead+mostPayload), digest: xxhash.New()}
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

// fail makes it the error, unless there is one, that the snapshot is bad.
func (s *snapshotReader) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("sash: snapshot: "+format+": %w", append(args, ErrBadSnapshot)...)
	}
}

// peek returns the next n bytes without reading them, nil if there are fewer.
func (s *snapshotReader) peek(n int) []byte {
	b, err := s.r.Peek(n)
	switch {
	case err == nil:
		return b
	case errors.Is(err, io.EOF):
		s.fail("it ends after %d bytes", s.offset+int64(len(b)))
	default:
		s.broken(err)
	}
	return nil
}

// broken makes err, which is that of the reader, the error. It may say itself that
// something ends too soon.
func (s *snapshotReader) broken(err error) {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		s.fail("after %d bytes: %v", s.offset, err)
		return
	}
	s.err = fmt.Errorf("sash: snapshot: %w", err)
}

// leave is done with the block.
func (s *snapshotReader) leave() {
	s.r.Discard(len(s.block)) // all of which lies in the buffer
	s.offset += int64(len(s.block))
	s.block, s.rest = nil, nil
}

// next goes on to the next block. That of the end has no payload.
func (s *snapshotReader) next() {
	s.leave()
	head := s.peek(blockHead)
	if s.err != nil {
		return
	}
	length, sum := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint64(head[lengthSize:])
	if length > mostPayload {
		s.fail("the block at byte %d has a length of %d, more than %d", s.offset, length, mostPayload)
		return
	}
	block := s.peek(blockHead + int(length))
	if s.err != nil {
		return
	}
	s.digest.Write(block[:lengthSize])
	s.digest.Write(block[blockHead:])
	if s.digest.Sum64() != sum {
		s.fail("the block at byte %d, or one before it, is not as it was written", s.offset)
		return
	}
	s.block, s.rest = block, block[blockHead:]
}

// more reports whether there is more of the payloads, and sees to it that rest holds
// some of it.
func (s *snapshotReader) more() bool {
	if s.err == nil && len(s.rest) == 0 {
		s.next()
	}
	return s.err == nil && len(s.rest) > 0
}

// end checks that nothing follows.
func (s *snapshotReader) end() {
	if s.more() {
		s.fail("more records after the last")
	}
	if s.err != nil {
		return
	}
	s.leave()
	switch b, err := s.r.Peek(1); {
	case len(b) > 0:
		s.fail("more after its %d bytes", s.offset)
	case !errors.Is(err, io.EOF):
		s.broken(err)
	}
}

// ReadByte makes s an io.ByteReader.
func (s *snapshotReader) ReadByte() (byte, error) {
	if !s.more() {
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

// count reads a number that is no less than 0.
func (s *snapshotReader) count() int64 {
	n := s.uint()
	if n > math.MaxInt64 {
		s.fail("a count of %d", n)
		return 0
	}
	return int64(n)
}

func (s *snapshotReader) name() string {
	var b []byte
	n := s.uint()
	for n > 0 && s.more() {
		part := s.rest[:min(n, uint64(len(s.rest)))]
		b, s.rest = append(b, part...), s.rest[len(part):]
		n -= uint64(len(part))
	}
	if n > 0 {
		s.fail("its last record is not whole")
	}
	return asString(b)
}

func (s *snapshotReader) limits() (limits []Limit) {
	n := s.uint()
	if n > maxLimits {
		s.fail("%d limits of one key, more than %d", n, maxLimits)
	}
	for ; n > 0 && s.err == nil; n-- {
		limits = append(limits, Limit{
			Count:     s.count(),
			Window:    time.Duration(s.count()),
			Algorithm: Algorithm(s.byte()),
			Precision: time.Duration(s.count()),
		})
	}
	return limits
}

// A stamp is one moment, by the wall clock and on the timeline of a limiter.
type stamp struct{ wall, at int64 }

// header reads when the snapshot was begun, and checks that it was under limits.
func (s *snapshotReader) header(limits []Limit) (begun stamp) {
	begun = stamp{s.int(), s.int()}
	if theirs := s.limits(); !slices.Equal(theirs, limits) {
		s.fail("its limits are %s, the limiter's are %s", listed(theirs), listed(limits))
	}
	return begun
}

// resume returns the instant at which the timeline of the snapshot goes on: it has
// moved on from begun as far as the wall clock has, which now shows wall.
func (s *snapshotReader) resume(begun stamp, wall int64) (now int64) {
	down, _ := sub(wall, begun.wall)
	now, fits := add(begun.at, max(down, 0))
	if !fits {
		s.fail("its instant %d, and %v since, is more than 64 bits", begun.at, time.Duration(down))
	}
	return now
}

// maxAhead is how far the instant up to which the past is forgotten may lie after the
// instant of a snapshot. It lies after it at all if keys were evicted while the
// snapshot was taken, or before the clock was set back. A day is enough for the
// slowest writer, and for a clock that was set to another time zone.
const maxAhead = int64(day)

// checkForgotten refuses an instant, up to which the past is forgotten, that lies too
// far after now. A key that holds nothing starts no earlier than at that instant, so
// what it is charged would not come back for as long.
func (s *snapshotReader) checkForgotten(forgotten, now int64) {
	if ahead, _ := sub(forgotten, now); ahead > maxAhead {
		s.fail("the past is forgotten up to instant %d, which is %v ahead, more than %v",
			forgotten, time.Duration(ahead), time.Duration(maxAhead))
	}
}

// shift returns the shift of a timeline that has reached now when the limiter's clock
// shows reading.
func (s *snapshotReader) shift(now, reading int64) int64 {
	shift, fits := sub(now, reading)
	if !fits {
		s.fail("its instant %d is more than 64 bits away from the clock's %d", now, reading)
	}
	return shift
}

func (s *snapshotReader) override(g *regime) {
	name := s.name()
	p := s.ownPolicy(g, name)
	if p == nil {
		s.fail("key %s has an override without limits", quote(name))
		return
	}
	if _, twice := g.overrides.all().LoadOrStore(name, &override{p}); twice {
		s.fail("key %s has two overrides", quote(name))
	}
}

// ownPolicy reads limits of a key's own and returns the policy of them, nil for none.
func (s *snapshotReader) ownPolicy(g *regime, name string) *policy {
	limits := s.limits()
	if validate(limits) != nil {
		s.fail("key %s has the limits %s, which cannot be", quote(name), listed(limits))
	}
	if len(limits) == 0 || s.err != nil {
		return nil
	}
	return g.plan(limits)
}

// listed lists limits for an error message, cut to a length that a log can bear.
func listed(limits []Limit) string {
	const most = 256
	text := fmt.Sprint(limits)
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}

// part reads what p, which holds nothing, is to hold under r.
func (s *snapshotReader) part(r *rule, p *part) {
	if r.Algorithm == SlidingCounter {
		p.set(s.window(r))
	} else {
		p.ring.Store(s.ring(r))
	}
}

func (s *snapshotReader) window(r *rule) window {
	w := window{prev: s.count(), curr: s.count()}
	if w.prev|w.curr == 0 {
		return w
	}
	w.index = s.int()
	first, _ := divide(math.MinInt64, int64(r.Window))
	last, _ := divide(math.MaxInt64, int64(r.Window))
	if w.index < first || w.index > last || w.index == first && w.prev > 0 {
		s.fail("a window of number %d, which is outside of time", w.index)
		return window{}
	}
	return w
}

func (s *snapshotReader) ring(r *rule) *ring {
	count := s.uint()
	if count > math.MaxUint32 {
		s.fail("a log of %d entries", count)
	}
	if count == 0 || s.err != nil {
		return nil
	}
	at, last := s.int(), r.tickOf(math.MaxInt64)
	if at < r.tickOf(math.MinInt64) || at > last {
		s.fail("an entry at tick %d, which is outside of time", at)
	}
	var g ring
	for s.err == nil {
		units := s.uint()
		g.runs = append(g.runs, run{at, g.total})
		if g.total += units; g.total < units {
			s.fail("a log of more than 64 bits of units")
		}
		if uint64(len(g.runs)) == count {
			break
		}
		later := s.uint()
		if later == 0 || later > uint64(last)-uint64(at) {
			s.fail("an entry %d ticks after that at %d", later, at)
		}
		at += int64(later)
	}
	g.span, g.runs = uint64(len(g.runs)), g.runs[:cap(g.runs)]
	return &g
}
