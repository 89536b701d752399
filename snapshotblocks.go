package sash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cespare/xxhash/v2"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A snapshot consists of these bytes:
//
//	magic     8  "sashsnap"
//	version   1
//	blocks
//
// Each block consists of these. Length and checksum are in little endian.
//
//	length    4  of the payload, at most 32 KiB; 0 in the last block
//	checksum  8  XXH64 of the whole snapshot up to the end of this block, without
//	             the checksums
//	payload
//
// So no block can be changed, left out, or taken from another snapshot, and the last
// checksum is of the whole. The payloads, put together, consist of these:
//
//	header    the time at which the snapshot was begun: by the wall clock, in
//	          nanoseconds since 1970 (signed), and as an instant (signed); then the
//	          limiter's own limits
//	records   each one is a byte for its kind, and then
//	     1    of a key: name, limits of its own, or none, and a state for each limit
//	     2    of an override: name, limits
//	     0    of the end: the number of keys, the number of overrides, and the floor
//	          (a signed instant; see timeline and maxAhead)
//	name      length, bytes
//	limits    their number, up to 64, and of each one Count, Window, Algorithm (a
//	          byte), Precision and, under TokenBucket only, Burst
//	state     under SlidingCounter: prev, curr and, unless both are 0, the index
//	          (signed) of the window; under Unlimited: nothing, and only overrides
//	          have it, or the limiter itself; under TokenBucket: the two words of the Lack
//	          (high first) and, unless both are 0, the instant (signed) at which that is so;
//	          under the others: the number of log records,
//	          and of each its tick and its units. The first tick is signed, each other
//	          one is the difference to the tick before. Under SlidingParts they are the parts,
//	          whose instants depend on the name of the key, too
//
// Numbers are varints of encoding/binary. Instants are on the timeline of the generation. Only their
// distance from the instant in the header means anything outside it.
const (
	magic         = "sashsnap"
	version       = 1
	lengthSize    = 4
	blockHeadSize = lengthSize + 8
	maxPayload    = 32 << 10
)

const (
	endRecord = iota
	keyRecord
	overrideRecord
)

// maxAhead is the time by which the floor of a snapshot may be later than the instant of
// the snapshot. The floor is later only if keys were evicted while the snapshot was made,
// or before the clock was set back. A day is enough for the slowest writer, and for a
// clock that was set to another time zone.
const maxAhead = int64(day)

// ErrBadSnapshot is wrapped by the error of [Limiter.Restore] if the bytes are not a whole
// snapshot, or not one that this limiter can restore.
var ErrBadSnapshot = errors.New("bad snapshot")

// A snapshotWriter writes a snapshot, in blocks. After its first error it writes nothing.
type snapshotWriter struct {
	w               io.Writer
	digest          *xxhash.Digest
	block           []byte // the head, still to be filled in, and the payload so far
	record          []byte // of the key or override written last; its memory is reused
	keys, overrides uint64 // written so far
	err             error  // the first one
}

func newSnapshotWriter(w io.Writer) *snapshotWriter {
	s := &snapshotWriter{w: w, digest: xxhash.New(), block: make([]byte, blockHeadSize, blockHeadSize+maxPayload)}
	start := append([]byte(magic), version)
	s.digest.Write(start)
	s.send(start)
	return s
}

// write appends b to the payloads. A block that is full is sent.
func (s *snapshotWriter) write(b []byte) {
	for len(b) > 0 && s.err == nil {
		n := min(len(b), cap(s.block)-len(s.block))
		s.block, b = append(s.block, b[:n]...), b[n:]
		if len(s.block) == cap(s.block) {
			s.flush()
		}
	}
}

// flush fills in the head of the block, sends the block and begins another.
func (s *snapshotWriter) flush() {
	length, payload := s.block[:lengthSize], s.block[blockHeadSize:]
	binary.LittleEndian.PutUint32(length, uint32(len(payload)))
	// The digest goes on from block to block. So each checksum is of all that came before, too.
	s.digest.Write(length)
	s.digest.Write(payload)
	binary.LittleEndian.PutUint64(s.block[lengthSize:], s.digest.Sum64())
	s.send(s.block)
	s.block = s.block[:blockHeadSize]
}

// send writes b to the io.Writer, unless an earlier write has failed.
func (s *snapshotWriter) send(b []byte) {
	if s.err != nil {
		return
	}
	n, err := s.w.Write(b)
	if err == nil && n < len(b) { // a Writer that breaks its contract must not lose a part unnoticed
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = fmt.Errorf("sash: snapshot: %w", err)
	}
}

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

// A snapshotReader reads a snapshot. After its first error, it reads zeros.
//
// It makes no room for a size that the snapshot states before as many bytes have been read.
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

// peek returns the next n bytes without reading them. If there are fewer, it fails and returns nil.
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
// too soon, as a decompressor may say, the snapshot is bad.
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
	// Verify the block before any byte of it is used.
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
	// No byte may follow. A decompressor may find only here that its input was cut short.
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

func (s *snapshotReader) uint() uint64 { return number(s, binary.ReadUvarint) }

func (s *snapshotReader) int() int64 { return number(s, binary.ReadVarint) }

// number reads a number by read, a function of encoding/binary.
func number[N uint64 | int64](s *snapshotReader, read func(io.ByteReader) (N, error)) N {
	n, err := read(s)
	if err != nil {
		s.fail("a number of more than 64 bits") // unless ReadByte has failed, and set another error
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
	return bridge.AsString(b)
}
