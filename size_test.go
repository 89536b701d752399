package sash

import (
	"encoding/binary"
	"runtime"
	"strconv"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

func TestAllocs_NoneOnATrackedKey(t *testing.T) {
	everyKind(t, PerSecond(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
		key, bytes := "203.0.113.7", []byte("203.0.113.7")
		fill := func() { // so that a log's ring is as large as it gets
			for range 3 {
				clock.Advance(1)
				l.Allow(key)
			}
		}
		fill()
		for name, call := range map[string]func(){
			"Allow":                func() { l.Allow(key) },
			"AllowN":               func() { l.AllowN(key, 2) },
			"AllowBytes":           func() { l.AllowBytes(bytes) },
			"Take":                 func() { l.Take(key, 1) },
			"TakeBytes":            func() { l.TakeBytes(bytes, 1) },
			"Peek":                 func() { l.Peek(key, 1) },
			"TakeThenPeek":         func() { l.TakeThenPeek(key, 1) },
			"Peek of an untracked": func() { l.Peek("untracked", 1) },
			"Take of too much":     func() { l.Take("untracked", 4) },
		} {
			require.Zero(t, testing.AllocsPerRun(100, call), "%s, denied", name)
			require.Zero(t, testing.AllocsPerRun(100, func() { clock.Advance(700 * time.Millisecond); call() }), "%s, admitted and denied", name)
			require.Zero(t, testing.AllocsPerRun(100, func() { clock.Advance(time.Hour); call() }), "%s, after a pause", name)
			fill()
		}
	})
}

func TestSizes_ArePinned(t *testing.T) {
	require.EqualValues(t, 16, unsafe.Sizeof(entry{}))
	require.EqualValues(t, 16, unsafe.Sizeof(record{}))
	if unsafe.Sizeof(uintptr(0)) == 8 {
		require.EqualValues(t, 16, unsafe.Sizeof(ring{}))
		require.EqualValues(t, 24, unsafe.Sizeof(key{}))
		require.EqualValues(t, 48, unsafe.Sizeof(multiEntry{}))
		require.EqualValues(t, 40, unsafe.Sizeof(limitState{}))
	}
}

// allocatedBy returns the number of bytes that f allocates, freed or not.
func allocatedBy(f func()) (bytes uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// heapOf returns the number of bytes and of objects by which build made the heap grow, and
// the result of build, which the caller keeps alive.
func heapOf[T any](build func() T) (bytes, objects int64, built T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	built = build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), int64(after.HeapObjects) - int64(before.HeapObjects), built
}

func TestMemory_PerKey(t *testing.T) {
	if race.Enabled {
		t.Skip("fills limiters in one goroutine, and so slowly")
	}
	const nameBytes = 16
	for name, c := range map[string]struct {
		limits     []Option
		keys       int
		charges    int
		maxBytes   float64 // per key, without the bytes of its name
		maxObjects float64
	}{
		"counter":        {[]Option{PerMinute(100).Counter()}, thorough(1_000_000), 1, 48, 1},
		"large counter":  {[]Option{PerMinute(1e9).Counter()}, 100_000, 1, 144, 2},
		"token bucket":   {[]Option{PerMinute(100).TokenBucket(100)}, thorough(1_000_000), 1, 48, 1},
		"large bucket":   {[]Option{Per(12345, time.Minute).TokenBucket(100)}, 100_000, 1, 144, 2},
		"log, one unit":  {[]Option{PerMinute(10)}, thorough(1_000_000), 1, 96, 1},
		"log, five":      {[]Option{PerMinute(10)}, 100_000, 5, 160, 1},
		"log, 16":        {[]Option{PerMinute(16)}, 100_000, 16, 336, 1},
		"buckets":        {[]Option{PerDay(100).Buckets(time.Second)}, 100_000, 1, 96, 1},
		"parts":          {[]Option{PerMinute(100)}, thorough(1_000_000), 1, 64, 1},
		"wide parts":     {[]Option{PerMinute(1000)}, thorough(1_000_000), 1, 80, 1},
		"large parts":    {[]Option{PerMinute(100_000).Parts()}, 100_000, 1, 300, 3},
		"held, one unit": {[]Option{AtOnce(10, time.Minute)}, 100_000, 1, 190, 3},
		"held, five":     {[]Option{AtOnce(10, time.Minute)}, 100_000, 5, 256, 3},
		"two in parts":   {[]Option{PerSecond(10).Parts(), PerMinute(100).Parts()}, 100_000, 1, 240, 4},
		"two counters":   {[]Option{PerSecond(10).Counter(), PerMinute(100).Counter()}, 100_000, 1, 176, 2},
		"three counters": {[]Option{PerSecond(10).Counter(), PerMinute(100).Counter(), PerHour(200).Counter()}, 100_000, 1, 224, 2},
	} {
		t.Run(name, func(t *testing.T) {
			bytes, objects, l := heapOf(func() *Limiter {
				clock := NewManualClock(0)
				l := newTest(t, append(c.limits, WithClock(clock))...)
				name := make([]byte, 0, nameBytes)
				for range c.charges {
					clock.Advance(1)
					for i := range int64(c.keys) { // from key:100000000000 on
						l.AllowBytes(strconv.AppendInt(append(name, "key:"...), 100_000_000_000+i, 10))
					}
				}
				return l
			})
			require.Equal(t, c.keys, l.Len())
			perKey, objectsPerKey := float64(bytes)/float64(c.keys), float64(objects)/float64(c.keys)
			t.Logf("%.1f bytes per key, %d of them its name, and %.2f objects", perKey, nameBytes, objectsPerKey)
			require.LessOrEqual(t, perKey-nameBytes, c.maxBytes)
			require.Less(t, objectsPerKey, c.maxObjects+0.1, "with the objects of the table")
		})
	}
}

// A key is one object: its word, its name, and what the allocator adds to reach the next size.
func TestMemory_ByTheLengthOfTheName(t *testing.T) {
	if race.Enabled || testing.Short() {
		t.Skip("fills limiters with a million keys each")
	}
	for _, c := range []struct {
		name  string
		limit Limit
		keys  uint64
		units int     // charged to each key
		most  float64 // bytes more than the name
	}{
		{"a counter", PerMinute(100).Counter(), 1_000_000, 1, 51},
		{"a token bucket", PerMinute(100).TokenBucket(100), 1_000_000, 1, 51},
		{"parts of a byte", PerMinute(255), 1_000_000, 1, 67},
		{"parts of two bytes", PerMinute(65_535), 1_000_000, 1, 83},
		{"a log with one unit", PerMinute(10), 1_000_000, 1, 100},
		{"a log with 5 units", PerMinute(10), 100_000, 5, 170},
		{"a log with 50 units", PerMinute(100).Log(), 20_000, 50, 1840},
		{"a log with 100 units", PerMinute(100).Log(), 20_000, 100, 1840},
	} {
		for _, length := range []int{8, 12, 16, 20, 24, 32, 40, 49} {
			bytes, _, l := heapOf(func() *Limiter {
				clock := NewManualClock(0)
				l := newTest(t, c.limit, WithClock(clock))
				name := make([]byte, length)
				for range c.units {
					clock.Advance(1)
					for i := range c.keys {
						binary.BigEndian.PutUint64(name, i)
						l.AllowBytes(name)
					}
				}
				return l
			})
			require.Equal(t, int(c.keys), l.Len())
			perKey := float64(bytes)/float64(c.keys) - float64(length)
			t.Logf("%s and a name of %d bytes: %.1f bytes more", c.name, length, perKey)
			require.LessOrEqual(t, perKey, c.most, "%s, %d", c.name, length)
		}
	}
}

func TestMemory_OfALimiterWithoutKeys(t *testing.T) {
	const limiters = 100 // so that what the runtime allocates meanwhile hardly counts
	bytes, _, built := heapOf(func() (built [limiters]*Limiter) {
		for i := range built {
			built[i] = newTest(t, PerMinute(100))
		}
		return built
	})
	require.Less(t, bytes/limiters, int64(4096))
	require.True(t, built[0].Allow("k"))
}

func TestAllocs_NoneUnderSeveralLimits(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerSecond(10).Counter(), PerMinute(120).Log(), PerHour(240).Buckets(time.Minute), WithClock(clock))
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for range 120 { // so that rings are as large as they get
		clock.Advance(150 * time.Millisecond)
		l.TakeAll(keys, 1)
	}
	for name, call := range map[string]func(){
		"Take":               func() { l.Take("a", 1) },
		"AllowN":             func() { l.AllowN("a", 2) },
		"Peek":               func() { l.Peek("a", 1) },
		"TakeThenPeek":       func() { l.TakeThenPeek("a", 2) },
		"TakeAll of two":     func() { l.TakeAll(keys[:2], 1) },
		"TakeAll of eight":   func() { l.TakeAll(keys, 1) },
		"TakeAll of too few": func() { l.TakeAll(keys[:3], 11) },
	} {
		require.Zero(t, testing.AllocsPerRun(100, call), "%s, denied", name)
		require.Zero(t, testing.AllocsPerRun(100, func() { clock.Advance(time.Second); call() }), "%s, admitted and denied", name)
		require.Zero(t, testing.AllocsPerRun(100, func() { clock.Advance(time.Minute); call() }), "%s, after a pause", name)
	}
}

// TakeAll does not allocate on entries of any kind.
func TestAllocs_NoneForTakeAllOfTrackedKeys(t *testing.T) {
	everyKind(t, PerSecond(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
		keys := []string{"a", "b"}
		for range 3 {
			clock.Advance(1)
			l.TakeAll(keys, 1)
		}
		require.Zero(t, testing.AllocsPerRun(100, func() { clock.Advance(700 * time.Millisecond); l.TakeAll(keys, 1) }))
	})
}
