package main

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

const hostileKeys = 1 << 17

// ofOneSum returns n keys of 64 bytes that have the same sum under XXH64. Each of the four
// lanes of XXH64 consumes two words of 64 bytes. For every first word there is a second one
// that brings the lane to the same end.
func ofOneSum(n int) []string {
	const (
		prime1 = 11400714785074694791
		prime2 = 14029467366897019727
		size   = 64
		lane   = 8  // the offset of the second lane, which starts with prime2 (plus the seed, 0)
		second = 32 // the offset of the second words
	)
	consume := func(lane, word uint64) uint64 { return bits.RotateLeft64(lane+word*prime2, 31) * prime1 }
	inverse := uint64(prime2) // of prime2, by Newton's method
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	end := consume(prime2, 0)
	keys := make([]string, n)
	for i := range keys {
		var key [size]byte
		binary.LittleEndian.PutUint64(key[lane:], uint64(i))
		binary.LittleEndian.PutUint64(key[lane+second:], (end-consume(prime2, uint64(i)))*inverse)
		keys[i] = string(key[:])
	}
	return keys
}

// ofAnySum returns n keys of 64 random bytes.
func ofAnySum(n int) []string {
	random := rand.NewChaCha8([32]byte{1})
	keys := make([]string, n)
	for i := range keys {
		var key [64]byte
		random.Read(key[:])
		keys[i] = string(key[:])
	}
	return keys
}

// Keys with the same sum have quotas and entries of their own.
func TestHostile_KeysOfOneSumShareNothing(t *testing.T) {
	l := sash.Must(sash.New(sash.PerMinute(1), sash.WithClock(sash.NewManualClock(0))))
	defer l.Close()
	keys := ofOneSum(hostileKeys)
	sum := xxhash.Sum64String(keys[0])
	for _, key := range keys {
		require.Equal(t, sum, xxhash.Sum64String(key))
		require.True(t, l.Allow(key))
		require.False(t, l.Allow(key))
	}
	require.Equal(t, hostileKeys, l.Len())
}

// BenchmarkHostile makes calls for 131,072 keys with the same sum under XXH64, which anyone
// can compute, and for as many random keys of the same length. The two take turns in rounds:
// for tracked keys, and for new ones. A table keyed by that sum would
// search all of them in each call.
//
//	go test -run '^$' -bench Hostile -benchtime 31x ./bench
func BenchmarkHostile(b *testing.B) {
	hostile, ordinary := ofOneSum(hostileKeys), ofAnySum(hostileKeys)
	b.Run("tracked", func(b *testing.B) {
		hostilely(b, tracked(b, hostile), tracked(b, ordinary))
	})
	b.Run("insert", func(b *testing.B) {
		hostilely(b, inserting(hostile), inserting(ordinary))
	})
}

// hostilely lets calls for hostile and for ordinary keys take turns, and reports their times.
// Garbage is collected between turns.
func hostilely(b *testing.B, hostile, ordinary func() float64) {
	times := make([][]float64, 2)
	for range b.N {
		for i, turn := range []func() float64{hostile, ordinary} {
			runtime.GC()
			times[i] = append(times[i], turn())
		}
	}
	reportTimes(b, []string{"hostile", "ordinary"}, times, []string{"ordinary"})
}

// tracked returns a function that makes a call for each key of a limiter that tracks them. It
// returns the nanoseconds per call.
func tracked(b *testing.B, keys []string) func() float64 {
	l := sash.Must(sash.New(sash.PerHour(plenty).Counter()))
	b.Cleanup(func() { l.Close() })
	allow := func() float64 { return allowed(l, keys) }
	allow()
	return allow
}

// inserting returns a function as tracked does, but with a new limiter each time.
func inserting(keys []string) func() float64 {
	return func() float64 {
		l := sash.Must(sash.New(sash.PerHour(plenty).Counter()))
		defer l.Close()
		return allowed(l, keys)
	}
}

// allowed makes a call for each key, and returns the nanoseconds per call.
func allowed(l *sash.Limiter, keys []string) float64 {
	start := time.Now()
	for _, key := range keys {
		l.Allow(key)
	}
	return float64(time.Since(start)) / float64(len(keys))
}

// reportTimes reports the median times, and the ratios of all times to the times of bases.
func reportTimes(b *testing.B, names []string, times [][]float64, bases []string) {
	b.ReportMetric(0, "ns/op") // the time of a whole round has no meaning
	for i, name := range names {
		b.ReportMetric(rounds.Median(times[i]), name+"-ns")
		for j, other := range names {
			if i != j && slices.Contains(bases, other) {
				b.ReportMetric(rounds.Ratio(times[i], times[j]), name+"/"+other)
			}
		}
	}
}
