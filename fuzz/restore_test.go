package fuzz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-30da4c49/sash"
)

// FuzzRestore restores what may be a snapshot. Bytes as they are pass no checksum, so
// most inputs are the records of a snapshot that is sealed here, after what package
// sash says of its format. What is refused has changed nothing; what is taken makes
// a limiter whose own snapshot restores to one that answers alike.
func FuzzRestore(f *testing.F) {
	for _, s := range restoreSeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		// In a bubble the wall clock stands still: no time passes between snapshots.
		synctest.Test(t, func(t *testing.T) { restore(t, &tape{program}) })
	})
}

// What the first byte of a program says, besides which of restoreLimits it is under.
const (
	restoreDenied = 16 // denied calls are charged
	unsealed      = 32
)

var restoreLimits = [][]sash.Limit{
	{sash.PerMinute(10)},
	{sash.Per(1e15, 1000)},
	{sash.Per(10, 60).Log()},
	{sash.Per(10, 60).Buckets(7)},
	{sash.Per(10, 60), sash.Per(20, 100).Log(), sash.Per(30, 1000).Buckets(100)},
	{sash.Per(math.MaxInt64, math.MaxInt64)},
	{sash.Per(math.MaxInt64, math.MaxInt64).Log(), sash.Per(1, 1)},
}

const restoredAt = 1000 // the instant of a snapshot's header

func restore(t *testing.T, tape *tape) {
	flags := tape.byte()
	limits := restoreLimits[int(flags%restoreDenied)%len(restoreLimits)]
	saved := tape.rest
	if flags&unsealed == 0 {
		saved = seal(append(restoreHeader(limits, time.Now()), tape.rest...))
	}
	clock, later := sash.NewManualClock(0), sash.NewManualClock(-1e6)
	l := limiter(limits, flags&restoreDenied != 0, clock)
	l.Take("a", 1)
	before := l.Peek("a", 1)
	if err := l.Restore(bytes.NewReader(saved)); err != nil {
		t.Logf("refused: %v", err)
		if !errors.Is(err, sash.ErrBadSnapshot) {
			t.Errorf("%v is no ErrBadSnapshot", err)
		}
		if after := l.Peek("a", 1); after != before || l.Len() != 1 {
			t.Errorf("%+v has become %+v, of %d keys", before, after, l.Len())
		}
		return
	}
	var own bytes.Buffer
	if err := l.Snapshot(&own); err != nil {
		t.Fatal(err)
	}
	next := limiter(limits, flags&restoreDenied != 0, later)
	if err := next.Restore(&own); err != nil {
		t.Fatalf("its own snapshot is refused: %v", err)
	}
	for _, d := range []time.Duration{0, 1, 6, 30, 60, 900, time.Second, time.Minute, time.Hour} {
		clock.Advance(d)
		later.Advance(d)
		alike(t, l, next)
	}
}

// alike checks that two limiters answer alike, and charges both.
func alike(t *testing.T, a, b *sash.Limiter) {
	if a.Len() != b.Len() {
		t.Errorf("%d keys, and %d", a.Len(), b.Len())
	}
	for _, name := range []string{"", "a", "b", "new"} {
		for _, n := range []int64{0, 1, 7, math.MaxInt64} {
			if one, other := a.Peek(name, n), b.Peek(name, n); one != other {
				t.Errorf("Peek(%q, %d) is %+v, and %+v", name, n, one, other)
			}
		}
		r, one := a.Reserve(name, 2)
		s, other := b.Reserve(name, 2)
		if one != other {
			t.Errorf("Reserve(%q, 2) is %+v, and %+v", name, one, other)
		}
		r.Commit(1)
		s.Commit(1)
	}
	keys := []string{"a", "b"}
	if one, other := a.TakeAll(keys, 1), b.TakeAll(keys, 1); one != other {
		t.Errorf("TakeAll is %+v, and %+v", one, other)
	}
	if one, other := a.Sweep(), b.Sweep(); one != other {
		t.Errorf("%d evicted, and %d", one, other)
	}
}

// seal makes a snapshot of payload, whatever that says.
func seal(payload []byte) []byte {
	const most = 32 << 10
	b := []byte("sashsnap\x01")
	sum := xxhash.New()
	sum.Write(b)
	for ended := false; !ended; {
		block := payload[:min(len(payload), most)]
		payload = payload[len(block):]
		ended = len(block) == 0
		length := binary.LittleEndian.AppendUint32(nil, uint32(len(block)))
		sum.Write(length)
		sum.Write(block)
		b = binary.LittleEndian.AppendUint64(append(b, length...), sum.Sum64())
		b = append(b, block...)
	}
	return b
}

// The records of a snapshot, written out.

func restoreHeader(limits []sash.Limit, wall time.Time) []byte {
	b := binary.AppendVarint(nil, wall.UnixNano())
	b = binary.AppendVarint(b, restoredAt)
	return append(b, limitList(limits...)...)
}

func limitList(limits ...sash.Limit) []byte {
	b := binary.AppendUvarint(nil, uint64(len(limits)))
	for _, l := range limits {
		b = binary.AppendUvarint(b, uint64(l.Count))
		b = binary.AppendUvarint(b, uint64(l.Window))
		b = append(b, byte(l.Algorithm))
		b = binary.AppendUvarint(b, uint64(l.Precision))
	}
	return b
}

// windowPart is a part under a counter, and runsPart one under a log or buckets, of
// ticks and units in turn, each tick but the first less the one before.
func windowPart(prev, curr uint64, index int64) []byte {
	b := binary.AppendUvarint(nil, prev)
	b = binary.AppendUvarint(b, curr)
	if prev|curr == 0 {
		return b
	}
	return binary.AppendVarint(b, index)
}

func runsPart(first int64, rest ...uint64) []byte {
	b := binary.AppendUvarint(nil, uint64(len(rest)+1)/2)
	b = binary.AppendVarint(b, first)
	for _, n := range rest {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func recordOf(kind byte, name string, parts ...[]byte) []byte {
	b := binary.AppendUvarint([]byte{kind}, uint64(len(name)))
	return append(append(b, name...), bytes.Join(parts, nil)...)
}

func keyOf(name string, parts ...[]byte) []byte {
	return recordOf(1, name, append([][]byte{{0}}, parts...)...)
}

func ownKeyOf(name string, limits []sash.Limit, parts ...[]byte) []byte {
	return recordOf(1, name, append([][]byte{limitList(limits...)}, parts...)...)
}

func overrideOf(name string, limits ...sash.Limit) []byte {
	return recordOf(2, name, limitList(limits...))
}

func endOf(keys, overrides uint64, forgotten int64) []byte {
	b := binary.AppendUvarint([]byte{0}, keys)
	b = binary.AppendUvarint(b, overrides)
	return binary.AppendVarint(b, forgotten)
}

// records is a program that restores them.
func records(flags byte, parts ...[]byte) []byte {
	return append([]byte{flags}, bytes.Join(parts, nil)...)
}

var restoreSeeds = []seed{
	{"nothing", records(0, endOf(0, 0, math.MinInt64))},
	{"counters", records(0, keyOf("a", windowPart(0, 10, 0)), keyOf("", windowPart(4, 3, 0)), keyOf("b", windowPart(0, 0, 0)), endOf(3, 0, math.MinInt64))},
	{"past-the-limit", records(0, keyOf("a", windowPart(0, 100, 0)), keyOf("b", windowPart(math.MaxInt64, math.MaxInt64, 0)), endOf(2, 0, math.MinInt64))},
	{"in-the-future", records(0, keyOf("a", windowPart(2, 10, 5)), endOf(1, 0, math.MinInt64))},
	{"first-and-last-window", records(0, keyOf("a", windowPart(0, 7, -153722868)), keyOf("b", windowPart(1, 7, 153722867)), endOf(2, 0, math.MinInt64))},
	{"before-time", records(0, keyOf("a", windowPart(1, 7, -153722868)), endOf(1, 0, math.MinInt64))},
	{"forgotten", records(0, keyOf("a", windowPart(1, 7, 0)), endOf(1, 0, 1e12))},
	{"forgotten-for-ever", records(4, endOf(0, 0, math.MaxInt64))},
	{"forgotten-a-day-ahead", records(4, endOf(0, 0, restoredAt+86_400e9))},
	{"forgotten-further-ahead", records(4, endOf(0, 0, restoredAt+86_400e9+1))},
	{"wide", records(1, keyOf("a", windowPart(1e14, 1e15, 1)), endOf(1, 0, 0))},
	{"log", records(2, keyOf("a", runsPart(950, 3, 10, 1, 30, 5)), keyOf("b", runsPart(990, 10)), keyOf("", []byte{0}), endOf(3, 0, 940))},
	{"log-past-the-limit", records(2, keyOf("a", runsPart(950, 30, 10, 100)), endOf(1, 0, 0))},
	{"log-given-back", records(2, keyOf("a", runsPart(950, 3, 10, 0, 5, 2, 5, 0)), keyOf("b", runsPart(950, 0)), endOf(2, 0, 0))},
	{"log-of-all-units", records(2, keyOf("a", runsPart(950, math.MaxUint64-1, 1, 1)), endOf(1, 0, 0))},
	{"log-of-too-many-units", records(2, keyOf("a", runsPart(950, math.MaxUint64, 1, 1)), endOf(1, 0, 0))},
	{"log-at-the-ends-of-time", records(2, keyOf("a", runsPart(math.MinInt64, 3, math.MaxUint64, 2)), endOf(1, 0, 0))},
	{"log-out-of-order", records(2, keyOf("a", runsPart(950, 3, 0, 2)), endOf(1, 0, 0))},
	{"log-of-claimed-length", records(2, recordOf(1, "a", []byte{0}, binary.AppendUvarint(nil, math.MaxUint32), []byte{2, 1}))},
	{"buckets", records(3, keyOf("a", runsPart(135, 3, 2, 1, 5, 5)), endOf(1, 0, 0))},
	{"buckets-outside-of-time", records(3, keyOf("a", runsPart(math.MaxInt64, 3)), endOf(1, 0, 0))},
	{"several-limits", records(4, keyOf("a", windowPart(3, 2, 16), runsPart(950, 3, 20, 2), runsPart(9, 5)), endOf(1, 0, 0))},
	{"largest", records(5, keyOf("a", windowPart(0, math.MaxInt64, 0)), endOf(1, 0, 0))},
	{"largest-log", records(6, keyOf("a", runsPart(0, math.MaxInt64), windowPart(0, 1, 1000)), endOf(1, 0, 0))},
	{"denied-charged", records(2|restoreDenied, keyOf("a", runsPart(950, 9, 10, 8)), endOf(1, 0, 0))},
	{"overrides", records(0, overrideOf("a", sash.Per(5, 50)), overrideOf("new", sash.Per(2, 10).Log()),
		ownKeyOf("a", []sash.Limit{sash.Per(5, 50)}, windowPart(2, 3, 20)), endOf(1, 2, 0))},
	{"own-limits", records(0, ownKeyOf("a", []sash.Limit{sash.Per(5, 50), sash.Per(6, 60).Log()}, windowPart(2, 3, 20), runsPart(990, 5)), endOf(1, 0, 0))},
	{"own-limits-that-cannot-be", records(0, ownKeyOf("a", []sash.Limit{sash.Per(0, 50)}, windowPart(2, 3, 20)), endOf(1, 0, 0))},
	{"as-many-limits-as-can-be", records(0, ownKeyOf("a", slices.Repeat([]sash.Limit{sash.Per(5, 50)}, 64), make([]byte, 2*64)), endOf(1, 0, 0))},
	{"too-many-limits", records(0, ownKeyOf("a", slices.Repeat([]sash.Limit{sash.Per(5, 50)}, 65), make([]byte, 2*65)), endOf(1, 0, 0))},
	{"override-without-limits", records(0, overrideOf("a"), endOf(0, 1, 0))},
	{"twice", records(0, keyOf("a", windowPart(0, 1, 0)), keyOf("a", windowPart(0, 1, 0)), endOf(2, 0, 0))},
	{"miscounted", records(0, keyOf("a", windowPart(0, 1, 0)), endOf(2, 0, 0))},
	{"no-end", records(0, keyOf("a", windowPart(0, 1, 0)))},
	{"more", records(0, endOf(0, 0, 0), endOf(0, 0, 0))},
	{"name-of-claimed-length", records(0, []byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 'a'})},
	{"long-name", records(0, keyOf(string(bytes.Repeat([]byte("a"), 1000)), windowPart(0, 1, 0)), endOf(1, 0, 0))},
	{"whole", append([]byte{unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))...)},
	{"cut", append([]byte{unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))[:30]...)},
	{"of-other-limits", append([]byte{1 | unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))...)},
	{"empty", []byte{unsealed}},
}
