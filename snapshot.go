package sash

import (
	"encoding/binary"
	"fmt"
	"io"
	"runtime"

	"github.com/cespare/xxhash/v2"
	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A snapshot is the bytes
//
//	magic     8  "sashsnap"
//	version   1
//	blocks
//
// and each block
//
//	length    4  of its payload, at most 32 KiB; 0 in the last one
//	checksum  8  XXH64 of all of the snapshot up to the end of this block, less
//	             the checksums
//	payload
//
// with length and checksum in little endian. So no block can be changed, left out,
// or taken from elsewhere, and the last checksum is one of the whole. The payloads,
// put together, are
//
//	header    the wall time, in nanoseconds since 1970 (signed), and the instant
//	          (signed) at which the snapshot was begun; the limiter's limits
//	records   each of them a byte that says which, and then
//	     1    of a key: name, the limits of its own, or none, and a part for each
//	     2    of an override: name, limits
//	     0    of the end: how many keys and overrides there were, and the instant
//	          (signed) up to which the past is forgotten (see terms and maxAhead)
//	name      length, bytes
//	limits    how many, up to 64, and of each Count, Window, Algorithm (a byte), Precision
//	part      under SlidingCounter prev, curr, and unless both are 0 the index
//	          (signed) of the window; else how many runs, and of each its tick (the
//	          first one signed, the others less the one before) and units
//
// Numbers are varints of encoding/binary. Instants are those of the regime, and
// say nothing outside it but how far they lie from that of the header.
const (
	magic       = "sashsnap"
	version     = 1
	lengthSize  = 4
	blockHead   = lengthSize + 8
	mostPayload = 32 << 10
)

const (
	endRecord = iota
	keyRecord
	overrideRecord
)

// Snapshot writes what the limiter holds to w, for [Limiter.Restore]: its limits,
// all keys with what they were charged and limits of their own, and those of
// [Limiter.SetLimits]. Waiting calls are not in it, nor what keys share under
// [ShareOverflow], and reservations that are not settled yet are in it as charged.
//
// Calls go on meanwhile. What was charged by a call that has returned before
// Snapshot begins is in it; a call that runs at the same time is in it wholly or not
// at all as far as one key goes, but a [Limiter.TakeAll] may be in it with some of
// its keys. No call waits for it, but for admissions on a log of many entries that
// changes faster than it can be copied: they wait for that, as while it makes room;
// and calls that make or evict a key, while 1/256 of the keys are listed.
// SetLimits, Reconfigure, Restore and another Snapshot wait until it is done, so w
// must not call them.
//
// It reads every key and writes some 10 bytes and the name for each, and for a log
// or buckets some 5 more for each entry, in blocks of at most 32 KiB, each one
// Write. Keys are written as they are: what reads the snapshot learns who was
// limited. Under [WithMaxKeys] it takes 48 bytes for each key until it is done. The
// error is that of w.
func (l *Limiter) Snapshot(w io.Writer) error {
	l.changes.Lock()
	defer l.changes.Unlock()
	g := l.now.Load()
	s := newSnapshotWriter(w)
	begun := g.at(l.clock.Now())
	s.header(l.wall().UnixNano(), begun, g.policy.rules)
	s.allKeys(g)
	g.overrides.each(s.override)
	// Load forgotten last: it covers the keys that were evicted meanwhile. If the clock
	// was far ahead once and set back, write no more than Restore accepts.
	s.end(min(g.forgotten.Load(), plus(begun, maxAhead)))
	return s.err
}

// A snapshotWriter cuts what is written to it into blocks.
type snapshotWriter struct {
	w               io.Writer
	digest          *xxhash.Digest
	block           []byte // its head, still to be filled in, and its payload
	record          []byte // reused
	keys, overrides uint64
	err             error // the first; after it nothing is written
}

func newSnapshotWriter(w io.Writer) *snapshotWriter {
	s := &snapshotWriter{w: w, digest: xxhash.New(), block: make([]byte, blockHead, blockHead+mostPayload)}
	start := append([]byte(magic), version)
	s.digest.Write(start)
	s.send(start)
	return s
}

func (s *snapshotWriter) header(wall, at int64, rules []rule) {
	b := binary.AppendVarint(nil, wall)
	b = binary.AppendVarint(b, at)
	s.write(appendLimits(b, rules))
}

// allKeys writes what every key in g holds. Under a cap the roll is called first:
// keys come and go meanwhile, so those that are met on the way may be more than the
// cap at any one time. Of those in the roll, no more than that are alive at its end.
func (s *snapshotWriter) allKeys(g *regime) {
	if g.cap == nil {
		g.keys.each(func(k key, c *cell) bool { return s.key(g, k, c) })
		return
	}
	roll := make([]resident, 0, g.cap.used.Load())
	g.keys.each(func(k key, c *cell) bool {
		roll = append(roll, resident{regime: g, key: k, cell: c})
		return true
	})
	var dead []resident // there may be another cell in its place, or in another life
	for _, r := range roll {
		if r.gone() {
			dead = append(dead, r)
		} else if !s.key(g, r.key, r.cell) {
			return
		}
	}
	for _, r := range dead {
		if s.keys == uint64(g.cap.most) || !s.key(g, r.key, r.cell) {
			return
		}
	}
}

// key writes what k, which has c in g, holds. It reports whether to go on.
func (s *snapshotWriter) key(g *regime, k key, c *cell) bool {
	if b, tracked := g.appendKey(append(s.record[:0], keyRecord), k, c); tracked {
		s.record = b
		s.keys++
		s.write(b)
	}
	return s.err == nil
}

func (s *snapshotWriter) override(name string, o *override) bool {
	s.overrides++
	b := appendName(append(s.record[:0], overrideRecord), name)
	s.record = appendLimits(b, o.policy.rules)
	s.write(s.record)
	return s.err == nil
}

// end writes the last record, and the block without a payload that follows it.
func (s *snapshotWriter) end(forgotten int64) {
	b := binary.AppendUvarint([]byte{endRecord}, s.keys)
	b = binary.AppendUvarint(b, s.overrides)
	s.write(binary.AppendVarint(b, forgotten))
	if len(s.block) > blockHead {
		s.flush()
	}
	s.flush()
}

func (s *snapshotWriter) write(b []byte) {
	for len(b) > 0 && s.err == nil {
		n := min(len(b), cap(s.block)-len(s.block))
		s.block, b = append(s.block, b[:n]...), b[n:]
		if len(s.block) == cap(s.block) {
			s.flush()
		}
	}
}

// flush sends the block and begins another.
func (s *snapshotWriter) flush() {
	length, payload := s.block[:lengthSize], s.block[blockHead:]
	binary.LittleEndian.PutUint32(length, uint32(len(payload)))
	s.digest.Write(length)
	s.digest.Write(payload)
	binary.LittleEndian.PutUint64(s.block[lengthSize:], s.digest.Sum64())
	s.send(s.block)
	s.block = s.block[:blockHead]
}

func (s *snapshotWriter) send(b []byte) {
	if s.err != nil {
		return
	}
	n, err := s.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		s.err = fmt.Errorf("sash: snapshot: %w", err)
	}
}

func appendName(b []byte, name string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(name))), name...)
}

func appendLimits(b []byte, rules []rule) []byte {
	b = binary.AppendUvarint(b, uint64(len(rules)))
	for i := range rules {
		l := rules[i].Limit
		b = binary.AppendUvarint(b, uint64(l.Count))
		b = binary.AppendUvarint(b, uint64(l.Window))
		b = append(b, byte(l.Algorithm))
		b = binary.AppendUvarint(b, uint64(l.Precision))
	}
	return b
}

// appendKey appends k with what it holds, given that it has, or had, the cell c in
// g; unless it has been evicted or reset meanwhile.
func (g *regime) appendKey(b []byte, k key, c *cell) (record []byte, tracked bool) {
	b = appendName(b, k.name)
	for round := 1; ; round++ {
		atomic.Round("appendKey", round)
		if record, alive := g.policy.appendCell(b, c); alive {
			return record, true
		}
		// A cell that took its place was put there before it died. A later one of a new
		// life begins after what this snapshot has to have.
		next := g.keys.load(k)
		if next == nil || next == c {
			return nil, false
		}
		c = next
	}
}

// appendCell appends what c, which is in a table of p, holds, as it is at one
// instant, and reports whether c is alive.
func (p *policy) appendCell(b []byte, c *cell) (record []byte, alive bool) {
	const tries = 4 // after which those who charge c have to wait
	for i := 0; ; i++ {
		atomic.Round("appendCell", i+1)
		word, alive := c.current()
		if !alive {
			return nil, false
		}
		reserved := i >= tries && p.grows(c) && c.reserve(word)
		record = p.appendParts(b, c, word)
		switch {
		case reserved:
			c.unlock(word)
			return record, true
		case p.unchanged(c, word):
			return record, true
		}
		runtime.Gosched()
	}
}

// grows reports whether c is a cell that can be reserved.
func (p *policy) grows(c *cell) bool { return c.compounded() || p.kind == logCell }

// unchanged reports whether what was read of c since word is one state: for a counter
// in one word, what was read is that word.
func (p *policy) unchanged(c *cell, word uint64) bool {
	switch {
	case word&several != 0 || p.kind == logCell:
		return c.unchanged(word)
	case p.kind == wideCell:
		return c.wide().sameGeneration(word)
	}
	return true
}

// appendParts appends what was read of c since word. It may be torn.
func (p *policy) appendParts(b []byte, c *cell, word uint64) []byte {
	of := p
	if word&several != 0 {
		of = c.compound().policy
	}
	if of == p {
		b = appendLimits(b, nil)
	} else {
		b = appendLimits(b, of.rules)
	}
	for i := range of.rules {
		h := p.holding(c, word, i)
		if of.rules[i].Algorithm == SlidingCounter {
			b = appendWindow(b, h.window)
		} else {
			b = appendRuns(b, &h.view)
		}
	}
	return b
}

func appendWindow(b []byte, w window) []byte {
	b = binary.AppendUvarint(b, uint64(w.prev))
	b = binary.AppendUvarint(b, uint64(w.curr))
	if w.prev|w.curr != 0 {
		b = binary.AppendVarint(b, w.index)
	}
	return b
}

// appendRuns appends the runs of v that another ring would hold.
func appendRuns(b []byte, v *view) []byte {
	if v.since(0) == 0 {
		return binary.AppendUvarint(b, 0)
	}
	count := uint64(0)
	for i := range v.count {
		if v.wanted(i) {
			count++
		}
	}
	b = binary.AppendUvarint(b, count)
	var last int64
	for i, first := 0, true; i < v.count; i++ {
		if !v.wanted(i) {
			continue
		}
		at := v.at(i)
		if first {
			b, first = binary.AppendVarint(b, at), false
		} else {
			b = binary.AppendUvarint(b, uint64(at)-uint64(last))
		}
		b = binary.AppendUvarint(b, v.before(i+1)-v.before(i))
		last = at
	}
	return b
}
