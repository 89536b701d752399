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

// FuzzRestore calls Restore with bytes that may be a snapshot. Random bytes pass no
// checksum, so most inputs are the content of a snapshot, to which restore adds a header
// and checksums. A refused snapshot must change nothing. A limiter restored from an
// accepted one must itself write a snapshot from which another limiter is restored that
// answers alike.
func FuzzRestore(f *testing.F) {
	for _, s := range restoreSeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		// In a bubble the wall clock stands still: no time passes between snapshots.
		synctest.Test(t, func(t *testing.T) { restore(t, &tape{program}) })
	})
}

// The flags in the first byte of a program. The bits below them choose one of
// restoreLimits.
const (
	restoreDenied = 16 // denied calls are charged
	unsealed      = 32 // the bytes are the whole snapshot, with header and checksums
)

var restoreLimits = [][]sash.Limit{
	{sash.PerMinute(10).Counter()},
	{sash.Per(1e15, 1000).Counter()},
	{sash.Per(10, 60).Log()},
	{sash.Per(10, 60).Buckets(7)},
	{sash.Per(10, 60).Counter(), sash.Per(20, 100).Log(), sash.Per(30, 1000).Buckets(100)},
	{sash.Per(math.MaxInt64, math.MaxInt64-1).Counter()},
	{sash.Per(math.MaxInt64, math.MaxInt64-1).Log(), sash.Per(1, 1).Counter()},
	{sash.Unlimited()},
	{sash.Per(0, 60).Counter()},
	{sash.Per(10, 60).TokenBucket(7)},
	{sash.Per(100, 160*time.Microsecond).Parts()},
	{sash.Per(10, 61).TokenBucket(1e15), sash.Per(10, 60).Log()},
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
	before, keys := l.Peek("a", 1), l.Len()
	if err := l.Restore(bytes.NewReader(saved)); err != nil {
		t.Logf("refused: %v", err)
		if !errors.Is(err, sash.ErrBadSnapshot) {
			t.Errorf("%v is no ErrBadSnapshot", err)
		}
		if after := l.Peek("a", 1); after != before || l.Len() != keys {
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

// alike checks that two limiters answer alike to the same calls.
func alike(t *testing.T, a, b *sash.Limiter) {
	if a.Len() != b.Len() {
		t.Errorf("%d keys, and %d", a.Len(), b.Len())
	}
	for _, name := range []string{"", "a", "b", "new"} {
		for _, n := range []int64{0, 1, 7, math.MaxInt64} {
			if x, y := a.Peek(name, n), b.Peek(name, n); x != y {
				t.Errorf("Peek(%q, %d) is %+v, and %+v", name, n, x, y)
			}
		}
		r, x := a.Reserve(name, 2)
		s, y := b.Reserve(name, 2)
		if x != y {
			t.Errorf("Reserve(%q, 2) is %+v, and %+v", name, x, y)
		}
		r.Commit(1)
		s.Commit(1)
	}
	keys := []string{"a", "b"}
	if x, y := a.TakeAll(keys, 1), b.TakeAll(keys, 1); x != y {
		t.Errorf("TakeAll is %+v, and %+v", x, y)
	}
	if x, y := a.Sweep(), b.Sweep(); x != y {
		t.Errorf("%d evicted, and %d", x, y)
	}
}

// seal returns a snapshot with the content payload, valid or not.
func seal(payload []byte) []byte {
	const maxBlock = 32 << 10
	b := []byte("sashsnap\x01")
	sum := xxhash.New()
	sum.Write(b)
	for ended := false; !ended; {
		block := payload[:min(len(payload), maxBlock)]
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

// The functions below write the parts of a snapshot.

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
		if l.Algorithm == sash.TokenBucket {
			b = binary.AppendUvarint(b, uint64(l.Burst))
		}
	}
	return b
}

// windowState returns the state of a key under a counter.
func windowState(prev, curr uint64, index int64) []byte {
	b := binary.AppendUvarint(nil, prev)
	b = binary.AppendUvarint(b, curr)
	if prev|curr == 0 {
		return b
	}
	return binary.AppendVarint(b, index)
}

// recordsState returns the state of a key under a log or buckets: ticks and units in
// turn. Each tick but the first is written as its distance from the one before.
func recordsState(first int64, rest ...uint64) []byte {
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

func endOf(keys, overrides uint64, floor int64) []byte {
	b := binary.AppendUvarint([]byte{0}, keys)
	b = binary.AppendUvarint(b, overrides)
	return binary.AppendVarint(b, floor)
}

// content returns a program that restores a snapshot with this content.
func content(flags byte, parts ...[]byte) []byte {
	return append([]byte{flags}, bytes.Join(parts, nil)...)
}

var restoreSeeds = []seed{
	{"nothing", content(0, endOf(0, 0, math.MinInt64))},
	{"counters", content(0, keyOf("a", windowState(0, 10, 0)), keyOf("", windowState(4, 3, 0)), keyOf("b", windowState(0, 0, 0)), endOf(3, 0, math.MinInt64))},
	{"past-the-limit", content(0, keyOf("a", windowState(0, 100, 0)), keyOf("b", windowState(math.MaxInt64, math.MaxInt64, 0)), endOf(2, 0, math.MinInt64))},
	{"in-the-future", content(0, keyOf("a", windowState(2, 10, 5)), endOf(1, 0, math.MinInt64))},
	{"first-and-last-window", content(0, keyOf("a", windowState(0, 7, -153722868)), keyOf("b", windowState(1, 7, 153722867)), endOf(2, 0, math.MinInt64))},
	{"before-time", content(0, keyOf("a", windowState(1, 7, -153722868)), endOf(1, 0, math.MinInt64))},
	{"floor", content(0, keyOf("a", windowState(1, 7, 0)), endOf(1, 0, 1e12))},
	{"floor-at-the-end-of-time", content(4, endOf(0, 0, math.MaxInt64))},
	{"floor-a-day-ahead", content(4, endOf(0, 0, restoredAt+86_400e9))},
	{"floor-further-ahead", content(4, endOf(0, 0, restoredAt+86_400e9+1))},
	{"wide", content(1, keyOf("a", windowState(1e14, 1e15, 1)), endOf(1, 0, 0))},
	{"log", content(2, keyOf("a", recordsState(950, 3, 10, 1, 30, 5)), keyOf("b", recordsState(990, 10)), keyOf("", []byte{0}), endOf(3, 0, 940))},
	{"log-past-the-limit", content(2, keyOf("a", recordsState(950, 30, 10, 100)), endOf(1, 0, 0))},
	{"log-given-back", content(2, keyOf("a", recordsState(950, 3, 10, 0, 5, 2, 5, 0)), keyOf("b", recordsState(950, 0)), endOf(2, 0, 0))},
	{"log-of-all-units", content(2, keyOf("a", recordsState(950, math.MaxUint64-1, 1, 1)), endOf(1, 0, 0))},
	{"log-of-too-many-units", content(2, keyOf("a", recordsState(950, math.MaxUint64, 1, 1)), endOf(1, 0, 0))},
	{"log-at-the-ends-of-time", content(2, keyOf("a", recordsState(math.MinInt64, 3, math.MaxUint64, 2)), endOf(1, 0, 0))},
	{"log-out-of-order", content(2, keyOf("a", recordsState(950, 3, 0, 2)), endOf(1, 0, 0))},
	{"log-of-claimed-length", content(2, recordOf(1, "a", []byte{0}, binary.AppendUvarint(nil, math.MaxUint32), []byte{2, 1}))},
	{"buckets", content(3, keyOf("a", recordsState(135, 3, 2, 1, 5, 5)), endOf(1, 0, 0))},
	{"buckets-outside-of-time", content(3, keyOf("a", recordsState(math.MaxInt64, 3)), endOf(1, 0, 0))},
	{"several-limits", content(4, keyOf("a", windowState(3, 2, 16), recordsState(950, 3, 20, 2), recordsState(9, 5)), endOf(1, 0, 0))},
	{"largest", content(5, keyOf("a", windowState(0, math.MaxInt64, 0)), endOf(1, 0, 0))},
	{"largest-log", content(6, keyOf("a", recordsState(0, math.MaxInt64), windowState(0, 1, 1000)), endOf(1, 0, 0))},
	{"unlimited", content(7, overrideOf("a", sash.Per(5, 50).Counter()), overrideOf("b", sash.Unlimited()),
		ownKeyOf("a", []sash.Limit{sash.Per(5, 50).Counter()}, windowState(2, 3, 20)), endOf(1, 2, 0))},
	{"unlimited-and-tracked", content(7, keyOf("a"), endOf(1, 0, 0))},
	{"of-nothing", content(8, keyOf("a", windowState(3, 4, 16)), overrideOf("b", sash.Per(0, 7).Log(), sash.Unlimited()), endOf(1, 1, 0))},
	{"denied-charged", content(2|restoreDenied, keyOf("a", recordsState(950, 9, 10, 8)), endOf(1, 0, 0))},
	{"overrides", content(0, overrideOf("a", sash.Per(5, 50).Counter()), overrideOf("new", sash.Per(2, 10).Log()),
		ownKeyOf("a", []sash.Limit{sash.Per(5, 50).Counter()}, windowState(2, 3, 20)), endOf(1, 2, 0))},
	{"own-limits", content(0, ownKeyOf("a", []sash.Limit{sash.Per(5, 50).Counter(), sash.Per(6, 60).Log()}, windowState(2, 3, 20), recordsState(990, 5)), endOf(1, 0, 0))},
	{"own-limits-that-cannot-be", content(0, ownKeyOf("a", []sash.Limit{sash.Per(10, 0).Counter()}, windowState(2, 3, 20)), endOf(1, 0, 0))},
	{"as-many-limits-as-can-be", content(0, ownKeyOf("a", slices.Repeat([]sash.Limit{sash.Per(5, 50).Counter()}, 64), make([]byte, 2*64)), endOf(1, 0, 0))},
	{"too-many-limits", content(0, ownKeyOf("a", slices.Repeat([]sash.Limit{sash.Per(5, 50).Counter()}, 65), make([]byte, 2*65)), endOf(1, 0, 0))},
	{"override-without-limits", content(0, overrideOf("a"), endOf(0, 1, 0))},
	{"twice", content(0, keyOf("a", windowState(0, 1, 0)), keyOf("a", windowState(0, 1, 0)), endOf(2, 0, 0))},
	{"miscounted", content(0, keyOf("a", windowState(0, 1, 0)), endOf(2, 0, 0))},
	{"no-end", content(0, keyOf("a", windowState(0, 1, 0)))},
	{"more", content(0, endOf(0, 0, 0), endOf(0, 0, 0))},
	{"name-of-claimed-length", content(0, []byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 'a'})},
	{"long-name", content(0, keyOf(string(bytes.Repeat([]byte("a"), 1000)), windowState(0, 1, 0)), endOf(1, 0, 0))},
	{"whole", append([]byte{unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))...)},
	{"cut", append([]byte{unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))[:30]...)},
	{"of-other-limits", append([]byte{1 | unsealed}, seal(append(restoreHeader(restoreLimits[0], time.Unix(0, 0)), endOf(0, 0, 0)...))...)},
	{"empty", []byte{unsealed}},
}
