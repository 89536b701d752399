package sash

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// asSnapshot returns a snapshot with that payload, valid or not.
func asSnapshot(payload []byte) []byte {
	var b bytes.Buffer
	s := newSnapshotWriter(&b)
	s.write(payload)
	if len(s.block) > blockHeadSize {
		s.flush()
	}
	s.flush()
	return b.Bytes()
}

// payloadOf returns the payload of a snapshot.
func payloadOf(t testing.TB, saved []byte) (payload []byte) {
	s := newSnapshotReader(bytes.NewReader(saved))
	for s.ensurePayload() {
		payload, s.rest = append(payload, s.rest...), nil
	}
	require.NoError(t, s.err)
	return payload
}

// numbers returns a payload of bytes, strings and signed (int64) and unsigned (int)
// numbers.
func numbers(parts ...any) (b []byte) {
	for _, part := range parts {
		switch part := part.(type) {
		case byte:
			b = append(b, part)
		case string:
			b = appendName(b, part)
		case int:
			b = binary.AppendUvarint(b, uint64(part))
		case uint64:
			b = binary.AppendUvarint(b, part)
		case int64:
			b = binary.AppendVarint(b, part)
		case []byte:
			b = append(b, part...)
		}
	}
	return b
}

// filledLimiter returns a limiter that holds limits and keys of every kind.
func filledLimiter(t testing.TB) *Limiter {
	clock := NewManualClock(12345)
	l := newTest(t, PerMinute(10).Counter(), PerHour(50).Log(), PerDay(70).Buckets(time.Hour), WithClock(clock))
	require.NoError(t, l.SetLimits("set", PerSecond(3).Log()))
	require.NoError(t, l.SetLimits("absent", PerSecond(4).Counter()))
	for i := range 12 {
		clock.Advance(7 * time.Second)
		l.Take("a", 2)
		l.Take("set", 1)
		l.Take(strconv.Itoa(i%4), 1)
	}
	return l
}

// answersOf returns the answers for several keys and costs.
func answersOf(l *Limiter) (answers []Decision) {
	for _, key := range []string{"", "a", "set", "absent", "0", "1", "2", "3", "new"} {
		answers = append(answers, l.Peek(key, 0), l.Peek(key, 1), l.Peek(key, 5))
	}
	return answers
}

// Restore refuses a snapshot in which any bit is flipped, or whose end is cut off anywhere.
// Then nothing has changed.
func TestRestore_RefusesEveryFlipAndCut(t *testing.T) {
	saved := snapshot(t, filledLimiter(t))
	l := newTest(t, options(filledLimiter(t).own().limits())...)
	l.clock = NewManualClock(0)
	l.Take("a", 5)
	require.NoError(t, l.SetLimits("set", PerSecond(9)))
	before, generation := answersOf(l), l.current.Load()
	for i := range saved {
		for bit := range 8 {
			bad := slices.Clone(saved)
			bad[i] ^= 1 << bit
			require.ErrorIs(t, l.Restore(bytes.NewReader(bad)), ErrBadSnapshot, "bit %d of byte %d", bit, i)
		}
		require.ErrorIs(t, l.Restore(bytes.NewReader(saved[:i])), ErrBadSnapshot, "the first %d bytes", i)
	}
	require.ErrorIs(t, l.Restore(bytes.NewReader(append(slices.Clone(saved), 0))), ErrBadSnapshot)
	require.Equal(t, before, answersOf(l))
	require.Same(t, generation, l.current.Load())
	require.NoError(t, l.Restore(bytes.NewReader(saved)))
	require.NotEqual(t, before, answersOf(l))
}

// corrupt makes a few random changes to b.
func corrupt(rng *rand.Rand, b []byte) []byte {
	b = slices.Clone(b)
	for range 1 + rng.IntN(4) {
		if len(b) == 0 {
			break
		}
		at := rng.IntN(len(b))
		end := min(len(b), at+1+rng.IntN(8))
		switch rng.IntN(6) {
		case 0:
			b[at] ^= 1 << rng.IntN(8)
		case 1:
			b[at] = byte(rng.Uint32())
		case 2:
			b[at] = []byte{0, 1, 2, 127, 128, 255}[rng.IntN(6)]
		case 3:
			b = slices.Delete(b, at, end)
		case 4:
			b = slices.Insert(b, at, b[at:end]...)
		case 5:
			b = slices.Insert(b, at, bytes.Repeat([]byte{255}, rng.IntN(10))...)
		}
	}
	return b
}

// Random changes to a snapshot are found by its checksums. If the checksums are recomputed,
// there are two outcomes:
//   - Restore finds the fault.
//   - The snapshot is valid. Then the limiter works, and so does the snapshot that it writes.
func TestRestore_SurvivesRandomCorruptions(t *testing.T) {
	corruptions := thorough(100_000)
	rng := rand.New(rand.NewPCG(1, 13))
	saved := snapshot(t, filledLimiter(t))
	payload := payloadOf(t, saved)
	require.Equal(t, saved, asSnapshot(payload))
	clock := NewManualClock(0)
	own := append(options(filledLimiter(t).own().limits()), WithClock(clock))
	l := newTest(t, own...)
	refused, accepted := 0, 0
	for i := range corruptions {
		var bad []byte
		if i%2 == 0 {
			bad = corrupt(rng, saved)
		} else {
			bad = asSnapshot(corrupt(rng, payload))
		}
		before := l.current.Load()
		if err := l.Restore(bytes.NewReader(bad)); err != nil {
			require.ErrorIs(t, err, ErrBadSnapshot)
			require.Same(t, before, l.current.Load())
			refused++
			continue
		}
		require.True(t, i%2 == 1 || bytes.Equal(bad, saved), "a change that no checksum has found")
		accepted++
		again := newTest(t, own...)
		again.wall = func() time.Time { return time.Unix(0, math.MinInt64) }
		require.NoError(t, again.Restore(bytes.NewReader(snapshot(t, l))))
		again.current.Load().shift = l.current.Load().shift // as if no time had passed
		for range 2 {
			require.Equal(t, answersOf(l), answersOf(again))
			for _, l := range []*Limiter{l, again} {
				l.Take("a", 1)
				l.TakeAll([]string{"0", "1", "new"}, 2)
				r, _ := l.Reserve("2", 3)
				r.Commit(5)
				l.Sweep()
			}
			clock.Advance(time.Duration(rng.Int64N(int64(time.Hour))))
		}
		require.Equal(t, answersOf(l), answersOf(again))
	}
	t.Logf("%d refused, %d accepted", refused, accepted)
	require.Greater(t, refused, corruptions/2)
	require.Greater(t, accepted, corruptions/1000)
}

func TestRestore_NamesWhatIsWrong(t *testing.T) {
	limit := Per(10, 60).Counter()
	header := numbers(int64(math.MaxInt64), int64(2), 1, 10, 60, byte(SlidingCounter), 0) // the wall time lies ahead, so that no time has passed
	end := numbers(byte(endRecord), 0, 0, int64(math.MinInt64))
	key := numbers(byte(keyRecord), "k", 0, 0, 3, int64(0))
	own := func(part ...any) []byte { // a key with a limit of its own in a log
		return numbers(header, byte(keyRecord), "k", 1, 10, 60, byte(SlidingLog), 0, numbers(part...), byte(endRecord), 1, 0, int64(0))
	}
	whole := snapshot(t, newTest(t, limit))
	otherVersion := slices.Clone(whole)
	otherVersion[len(magic)]++
	longBlock := slices.Clone(whole)
	longBlock[len(magic)+1+3] = 1
	for _, c := range []struct {
		saved []byte
		want  string
	}{
		{nil, "it ends after 0 bytes"},
		{whole[:20], "it ends after 20 bytes"},
		{[]byte("no snapshot"), "it does not begin as one"},
		{otherVersion, "it is of version 2, not 1"},
		{longBlock, "the block at byte 9 has a length of 16777"},
		{append(slices.Clone(whole), 7), "more after its"},
		{asSnapshot(numbers(header, end, byte(7))), "more records after the last"},
		{asSnapshot(numbers(header, end))[:len(asSnapshot(numbers(header, end)))-1], "it ends after"},
		{asSnapshot(header), "its last record is not whole"},
		{asSnapshot(numbers(header, key)), "its last record is not whole"},
		{asSnapshot(numbers(header, byte(keyRecord), 5, byte('k'))), "its last record is not whole"},
		{asSnapshot(numbers(header, key[:5], end)), "not as many keys and overrides as it says"},
		{asSnapshot(numbers(header, byte(9))), "a record of unknown kind 9"},
		{asSnapshot(numbers(header, key, end)), "not as many keys and overrides as it says"},
		{asSnapshot(numbers(header, key, key, end)), `key "k" twice`},
		{asSnapshot(numbers(int64(1), int64(2), 1, 11, 60, byte(0), 0, end)), "its limits are [11/60ns counter], the limiter's are [10/60ns counter]"},
		{asSnapshot(numbers(int64(1), int64(2), 2, 10, 60, byte(0), 0, 5, 5, byte(1), 0, end)), "its limits are [10/60ns counter 5/5ns log], the limiter's are [10/60ns counter]"},
		{asSnapshot(numbers(int64(1), int64(math.MaxInt64), 1, 10, 60, byte(0), 0, end)), "its instant 9223372036854775807, and "},
		{asSnapshot(numbers(header, end)), "its instant 2 is more than 64 bits away from the clock's -9223372036854775808"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 1, 10, 0, byte(0), 0)), `key "k" has the limits [10/0s counter], which cannot be`},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 1, 1, 60, byte(9), 0)), `key "k" has the limits [1/60ns Algorithm(9)], which cannot be`},
		{asSnapshot(numbers(header, byte(overrideRecord), "k", 0)), `key "k" has an override without limits`},
		{asSnapshot(numbers(header, bytes.Repeat(numbers(byte(overrideRecord), "k", 1, 5, 60, byte(0), 0), 2))), `key "k" has two overrides`},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 0, 0, uint64(1<<63))), "a count of 9223372036854775808"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 0, bytes.Repeat([]byte{255}, 11))), "a number of more than 64 bits"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 0, 0, 3, int64(math.MaxInt64/60+1))), "a window of number 153722867280912931, which is outside of time"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 0, 0, 3, int64(math.MinInt64/60-2))), "a window of number -153722867280912932, which is outside of time"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 0, 1, 3, int64(math.MinInt64/60-1))), "a window of number -153722867280912931, which is outside of time"},
		{asSnapshot(numbers(header, byte(keyRecord), "k", 65, bytes.Repeat(numbers(1, 1, byte(0), 0), 65))), "65 limits of one key, more than 64"},
		{asSnapshot(numbers(header, byte(overrideRecord), "k", 65, bytes.Repeat(numbers(1, 1, byte(0), 0), 65))), "65 limits of one key, more than 64"},
		{asSnapshot(numbers(int64(1), int64(2), 65)), "65 limits of one key, more than 64"},
		{asSnapshot(own(uint64(1<<32), int64(0), 1)), "a log of 4294967296 entries"},
		{asSnapshot(own(2, int64(5), 1, 0, 1)), "an entry 0 ticks after that at 5"},
		{asSnapshot(own(2, int64(5), 1, uint64(math.MaxInt64), 1)), "an entry 9223372036854775807 ticks after that at 5"},
		{asSnapshot(own(2, int64(5), uint64(math.MaxUint64), 1, 1)), "a log of more than 64 bits of units"},
	} {
		l := newTest(t, limit, WithClock(NewManualClock(math.MinInt64)))
		err := l.Restore(bytes.NewReader(c.saved))
		require.ErrorIs(t, err, ErrBadSnapshot, c.want)
		require.ErrorContains(t, err, "sash: snapshot: "+c.want)
	}
	l := newTest(t, limit, WithClock(NewManualClock(0)))
	require.NoError(t, l.Restore(bytes.NewReader(asSnapshot(numbers(header, key, byte(endRecord), 1, 0, int64(math.MinInt64))))))
	require.EqualValues(t, 7, l.Peek("k", 0).Remaining)
	require.NoError(t, l.Restore(bytes.NewReader(asSnapshot(own(2, int64(-5), 1, 5, 3)))))
	require.EqualValues(t, 6, l.Peek("k", 0).Remaining)
}

// The number of a bucket must lie within time, unlike the instant of a log's record.
func TestRestore_RefusesBucketsOutsideOfTime(t *testing.T) {
	limit := Per(10, 60).Buckets(20)
	for tick, ok := range map[int64]bool{
		math.MaxInt64 / 20: true, math.MaxInt64/20 + 1: false, math.MinInt64/20 - 1: true, math.MinInt64/20 - 2: false,
	} {
		l := newTest(t, limit, WithClock(NewManualClock(0)))
		err := l.Restore(bytes.NewReader(asSnapshot(numbers(int64(1), int64(2), 1, 10, 60, byte(SlidingBuckets), 20,
			byte(keyRecord), "k", 0, 1, tick, 4, byte(endRecord), 1, 0, int64(0)))))
		require.Equal(t, ok, err == nil, "%d: %v", tick, err)
	}
}

// Restore allocates memory in proportion to what it has read, not to the lengths that the
// snapshot claims.
func TestRestore_TakesMemoryForWhatItHasRead(t *testing.T) {
	header := numbers(int64(1), int64(2), 1, 10, 60, byte(SlidingLog), 0)
	var minimal, manyEach []byte
	for i := range 20_000 {
		minimal = append(minimal, numbers(byte(keyRecord), strconv.Itoa(i), 1, 1+i, 60, byte(0), 0, 0, 0)...)
	}
	for i := range 300 {
		manyEach = append(manyEach, numbers(byte(keyRecord), strconv.Itoa(i), 64)...)
		for j := range 64 {
			manyEach = append(manyEach, numbers(1+64*i+j, 60, byte(0), 0)...)
		}
		manyEach = append(manyEach, make([]byte, 2*64)...)
	}
	for name, payload := range map[string][]byte{
		"a name":              numbers(header, byte(keyRecord), uint64(1<<62), byte('x')),
		"a log":               numbers(header, byte(keyRecord), "k", 0, uint64(math.MaxUint32), int64(0), 1),
		"limits":              numbers(int64(1), int64(2), uint64(1<<62), 10, 60, byte(0), 0),
		"limits of keys":      numbers(header, byte(keyRecord), "k", uint64(1<<62), 10, 60, byte(0), 0),
		"keys":                numbers(header, byte(endRecord), uint64(1<<62), 0, int64(0)),
		"small records":       numbers(header, minimal),
		"a long log":          numbers(header, byte(keyRecord), "k", 0, 1_000_000, int64(0), bytes.Repeat([]byte{1, 1}, 500_000)),
		"many limits":         numbers(header, byte(keyRecord), "k", 20_000, bytes.Repeat([]byte{1, 1, 0, 0}, 20_000)),
		"keys of many limits": numbers(header, manyEach),
	} {
		saved := asSnapshot(payload)
		l := newTest(t, Per(10, 60).Log(), WithSizeHint(100_000))
		allocated := allocatedBy(func() { require.ErrorIs(t, l.Restore(bytes.NewReader(saved)), ErrBadSnapshot) })
		t.Logf("%s: %d bytes allocated for %d", name, allocated, len(saved))
		require.Less(t, allocated, uint64(128<<10+80*len(saved)), name)
	}
}

// A key under a great many limits would cost far more memory than its part of the file, and
// each call for it a loop over all limits. It is refused before its limits are read.
func TestRestore_RefusesTooManyLimitsOfOneKey(t *testing.T) {
	const limits = 100_000
	payload := numbers(int64(1), int64(2), 1, 10, 60, byte(SlidingCounter), 0, byte(keyRecord), "k", limits,
		bytes.Repeat(numbers(1, 1, byte(SlidingCounter), 0), limits), bytes.Repeat(numbers(0, 0), limits),
		byte(endRecord), 1, 0, int64(0))
	saved := asSnapshot(payload)
	l := newTest(t, Per(10, 60).Counter())
	var err error
	allocated := allocatedBy(func() { err = l.Restore(bytes.NewReader(saved)) })
	require.ErrorIs(t, err, ErrBadSnapshot)
	require.EqualError(t, err, "sash: snapshot: 100000 limits of one key, more than 64: bad snapshot")
	require.Less(t, allocated, uint64(256<<10), "of a file of %d bytes", len(saved))
	require.Equal(t, 0, l.Len())
}

// A key with as many limits as New and SetLimits accept is restored.
func TestRestore_TakesAsManyLimitsAsAKeyMayHave(t *testing.T) {
	var limits []Limit
	for i := range int64(64) {
		limits = append(limits, Per(100+i, time.Hour))
	}
	l := newTest(t, append(options(limits), WithClock(NewManualClock(0)))...)
	require.NoError(t, l.SetLimits("set", limits[1:]...))
	require.True(t, l.AllowN("k", 40))
	require.True(t, l.AllowN("set", 40))
	next := newTest(t, append(options(limits), WithClock(NewManualClock(0)))...)
	require.NoError(t, next.Restore(bytes.NewReader(snapshot(t, l))))
	require.EqualValues(t, 60, next.Peek("k", 0).Remaining)
	require.EqualValues(t, 61, next.Peek("set", 0).Remaining)
}

// The floor is the earliest instant at which an empty entry starts. A floor far ahead would
// start all new keys in the future.
func TestRestore_RefusesAFloorFarAhead(t *testing.T) {
	const instant, wall = int64(1000), int64(5000)
	restore := func(l *Limiter, floor int64) error {
		return l.Restore(bytes.NewReader(asSnapshot(numbers(wall, instant, 1, 5, uint64(time.Hour), byte(SlidingLog), 0,
			byte(endRecord), 0, 0, floor))))
	}
	for _, c := range []struct {
		name   string
		passed time.Duration // since the snapshot, by the wall clock
		floor  int64
		ok     bool
	}{
		{"never", 0, math.MinInt64, true},
		{"then", 0, instant, true},
		{"while the snapshot was taken", 0, instant + int64(time.Second), true},
		{"the furthest", 0, instant + int64(24*time.Hour), true},
		{"further", 0, instant + int64(24*time.Hour) + 1, false},
		{"the end of time", 0, math.MaxInt64, false},
		{"now, after a while", 30 * time.Hour, instant + int64(30*time.Hour), true},
		{"the furthest, after a while", 30 * time.Hour, instant + int64(54*time.Hour), true},
		{"further, after a while", 30 * time.Hour, instant + int64(54*time.Hour) + 1, false},
		{"the wall clock was set back", -30 * time.Hour, instant + int64(24*time.Hour), true},
		{"further, and the wall clock was set back", -30 * time.Hour, instant + int64(24*time.Hour) + 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := NewManualClock(77)
			l := newTest(t, PerHour(5).Log(), WithClock(clock))
			l.wall = func() time.Time { return time.Unix(0, wall).Add(c.passed) }
			require.True(t, l.Allow("k"))
			err := restore(l, c.floor)
			if c.ok {
				require.NoError(t, err)
				require.Equal(t, c.floor, l.own().floor.Load())
				return
			}
			require.ErrorIs(t, err, ErrBadSnapshot)
			require.ErrorContains(t, err, "sash: snapshot: the past is forgotten up to instant "+strconv.FormatInt(c.floor, 10)+", ")
			require.EqualValues(t, 4, l.Peek("k", 0).Remaining, "nothing has changed")
			require.True(t, l.AllowN("new", 5))
			clock.Advance(time.Hour)
			require.True(t, l.AllowN("new", 5), "the units are back after their window")
		})
	}
}

// A limiter whose clock was far ahead for a while writes a snapshot that can be restored.
func TestSnapshot_CapsTheFloorAtWhatRestoreAccepts(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerHour(5).Log(), WithClock(clock))
	clock.Set(int64(1000 * time.Hour))
	require.True(t, l.Allow("k"))
	clock.Advance(time.Hour)
	require.Equal(t, 1, l.Sweep())
	clock.Set(0)
	restored := restoredCopy(t, l, 0)
	require.EqualValues(t, 24*time.Hour, restored.own().floor.Load())
	clock.Set(int64(1001 * time.Hour))
	require.EqualValues(t, 1001*time.Hour, restoredCopy(t, l, 0).own().floor.Load(), "once its time has come")
}

func TestRestore_OfNoSnapshotMakesNoTable(t *testing.T) {
	const keys = 1 << 20
	l := newTest(t, PerMinute(1), WithMaxKeys(keys, DenyNew))
	allocated := allocatedBy(func() {
		require.ErrorIs(t, l.Restore(strings.NewReader("no snapshot")), ErrBadSnapshot)
	})
	require.Less(t, allocated, uint64(keys))
}

type readerFunc func(b []byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestRestore_FromAnyReader(t *testing.T) {
	from := filledLimiter(t)
	for i := range 1000 {
		from.Allow(strings.Repeat("long ", 20) + strconv.Itoa(i))
	}
	saved := snapshot(t, from)
	l := newTest(t, append(options(from.own().limits()), WithClock(NewManualClock(0)))...)
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "error with the data": iotest.DataErrReader,
	} {
		require.NoError(t, l.Restore(wrap(bytes.NewReader(saved))), name)
		require.Equal(t, from.Len(), l.Len())
	}
	broken := errors.New("broken")
	for _, n := range []int{0, 5, 9, 30, 40_000, len(saved) - 1, len(saved)} {
		generation := l.current.Load()
		for err, want := range map[error]string{broken: "sash: snapshot: broken", io.ErrUnexpectedEOF: "unexpected EOF: bad snapshot"} {
			got := l.Restore(io.MultiReader(bytes.NewReader(saved[:n]), iotest.ErrReader(err)))
			require.ErrorContains(t, got, want, "after %d bytes", n)
			require.Equal(t, err == io.ErrUnexpectedEOF, errors.Is(got, ErrBadSnapshot))
			require.Equal(t, err == broken, errors.Is(got, broken))
		}
		stuck := readerFunc(func([]byte) (int, error) { return 0, nil })
		require.ErrorIs(t, l.Restore(io.MultiReader(bytes.NewReader(saved[:n]), stuck)), io.ErrNoProgress)
		require.Same(t, generation, l.current.Load())
	}
}

// While r is read, calls are decided by the state from before.
func TestRestore_BlocksNoCall(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		saved := snapshot(t, l)
		left := int64(10)
		reader := readerFunc(func(b []byte) (int, error) {
			if left > 0 {
				left--
				require.Equal(t, left, l.Take("k", 1).Remaining)
				l.Sweep()
			}
			n := copy(b[:1], saved)
			saved = saved[n:]
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		})
		require.NoError(t, l.Restore(reader))
		require.EqualValues(t, 0, left)
		require.EqualValues(t, 10, l.Peek("k", 0).Remaining)
		require.Equal(t, 0, l.Len())
	})
}

func TestRestore_LeavesNothingToGiveBack(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		less, _ := l.Reserve("k", 4)
		more, _ := l.Reserve("k", 2)
		require.NoError(t, l.Restore(bytes.NewReader(snapshot(t, l))))
		require.EqualValues(t, 4, l.Peek("k", 0).Remaining)
		less.Cancel()
		require.EqualValues(t, 4, l.Peek("k", 0).Remaining)
		more.Commit(5)
		require.EqualValues(t, 1, l.Peek("k", 0).Remaining, "the units spent above the estimate are charged")
	})
}

// Limits by SetLimits are replaced by the limits of the snapshot, for tracked keys and for others.
func TestRestore_ReplacesLimitsOfKeys(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	require.NoError(t, l.SetLimits("tracked", PerMinute(3)))
	require.NoError(t, l.SetLimits("absent", PerMinute(4)))
	l.Allow("tracked")
	saved := snapshot(t, l)
	require.NoError(t, l.SetLimits("tracked"))
	require.NoError(t, l.SetLimits("absent", PerMinute(40)))
	require.NoError(t, l.SetLimits("later", PerMinute(5)))
	require.NoError(t, l.Restore(bytes.NewReader(saved)))
	require.EqualValues(t, 2, l.Peek("tracked", 0).Remaining)
	require.EqualValues(t, 4, l.Peek("absent", 0).Remaining)
	require.EqualValues(t, 10, l.Peek("later", 0).Remaining)
	require.True(t, l.Reset("tracked"))
	require.EqualValues(t, 3, l.Peek("tracked", 0).Remaining)
	require.NoError(t, l.SetLimits("tracked"))
	require.EqualValues(t, 10, l.Peek("tracked", 0).Remaining)
}

// A waiting call tries again in the restored state, and is woken at its time.
func TestRestore_WakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, admitted := range []time.Duration{0, 25 * time.Second} {
			full, clock := newTest(t, PerMinute(1).Log()), NewManualClock(0)
			if admitted > 0 {
				full.clock = clock
				full.Allow("k")
				clock.Advance(time.Minute - admitted)
			}
			saved := snapshot(t, full)
			l := newTest(t, PerMinute(1).Log())
			l.Allow("k")
			ended := make(chan error)
			go func() { ended <- l.Wait(t.Context(), "k", 1) }()
			synctest.Wait()
			start := time.Now()
			require.NoError(t, l.Restore(bytes.NewReader(saved)))
			require.NoError(t, <-ended)
			require.Equal(t, admitted, time.Since(start))
		}
	})
}

// A call that has read the clock for the state from before reads it again.
func TestRestore_WhileACallIsUnderWay(t *testing.T) {
	clock := NewManualClock(int64(time.Hour))
	full := newTest(t, PerMinute(1).Log(), WithClock(clock))
	full.wall = func() time.Time { return time.Unix(0, math.MaxInt64) }
	require.True(t, full.Allow("k"))
	clock.Advance(10 * time.Second)
	saved := snapshot(t, full)
	for name, call := range map[string]func(l *Limiter) Decision{
		"Take":               func(l *Limiter) Decision { return l.Take("k", 1) },
		"TakeAll":            func(l *Limiter) Decision { return l.TakeAll([]string{"k"}, 1) },
		"TakeAll of nothing": func(l *Limiter) Decision { return l.TakeAll([]string{"k"}, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newTest(t, PerMinute(1).Log(), WithClock(NewManualClock(0)))
			duringReading(l, 1, func() { require.NoError(t, l.Restore(bytes.NewReader(saved))) })
			d := call(l)
			require.EqualValues(t, 0, d.Remaining)
			require.Equal(t, 50*time.Second, d.ResetAfter)
		})
	}
}

// A waiting call does not mix instants of two timelines.
func TestRestore_WhileACallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := newTest(t, PerMinute(1).Log(), WithClock(NewManualClock(int64(1000*time.Hour))))
		saved := snapshot(t, far)
		l := newTest(t, PerMinute(1).Log())
		l.Allow("k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- l.Wait(ctx, "k", 1) }()
		synctest.Wait()
		duringReading(l, 2, func() { require.NoError(t, l.Restore(bytes.NewReader(saved))) }) // as it forecasts the turn of the first
		go func() { ended <- l.Wait(ctx, "k", 1) }()
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		require.NotZero(t, l.current.Load().shift, "nothing was restored")
	})
}

// Calls that begin after a Restore has returned are decided by the restored state.
func TestRace_NoCallIsDecidedByWhatWasBeforeARestore(t *testing.T) {
	everyCrowd(t, PerMinute(5), func(t *testing.T, l *Limiter, c *crowd) {
		require.True(t, l.AllowN("k", 5))
		require.True(t, l.AllowN("reserved", 5))
		full := snapshot(t, l)
		var epoch, checked atomic.Int64 // epoch is odd while the keys are full
		c.run(func(caller int) {
			if caller == 0 {
				defer epoch.Store(-1)
				for i := 0; i < 150 || i < 15_000 && checked.Load() <= 100; i++ {
					l.Reset("k")
					l.Reset("reserved")
					runtime.Gosched()
					c.Advance(1)
					require.NoError(t, l.Restore(bytes.NewReader(full)))
					epoch.Add(1)
					for range 20 {
						runtime.Gosched()
					}
					epoch.Add(1)
				}
				return
			}
			for {
				before := epoch.Load()
				if before < 0 {
					return
				}
				c.call(func() {
					var allowed bool
					switch rand.IntN(4) {
					case 0:
						allowed = l.TakeAll([]string{"k", "other"}, 1).Allowed
					case 1:
						r, d := l.Reserve("reserved", 1)
						r.Cancel()
						allowed = d.Allowed
					case 2:
						l.Sweep()
					default:
						allowed = l.Allow("k")
					}
					if before%2 == 1 && epoch.Load() == before {
						require.False(t, allowed)
						checked.Add(1)
					}
				})
			}
		})
		require.Greater(t, checked.Load(), int64(crowded(100)), "no calls after a Restore: this test has shown nothing")
	})
}
