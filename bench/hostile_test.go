package main

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

const hostileKeys = 1 << 17

// ofOneSum returns n keys of 64 bytes that have one sum under XXH64. Of 64 bytes,
// each of its four lanes hears two words, one after the other: whatever the first of
// them is, there is a second one that brings the lane to where it is to end.
func ofOneSum(n int) []string {
	const (
		prime1 = 11400714785074694791
		prime2 = 14029467366897019727
		size   = 64
		lane   = 8  // the second, which begins with prime2, or the seed and that
		second = 32 // begins the second word of the first lane
	)
	heard := func(lane, word uint64) uint64 { return bits.RotateLeft64(lane+word*prime2, 31) * prime1 }
	inverse := uint64(prime2) // of prime2, by Newton's method
	for range 6 {
		inverse *= 2 - prime2*inverse
	}
	end := heard(prime2, 0)
	keys := make([]string, n)
	for i := range keys {
		var key [size]byte
		binary.LittleEndian.PutUint64(key[lane:], uint64(i))
		binary.LittleEndian.PutUint64(key[lane+second:], (end-heard(prime2, uint64(i)))*inverse)
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

// Keys of one sum have each a quota of its own, and a place in the table.
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

// BenchmarkHostile makes calls on 131,072 keys of one sum under XXH64, which anybody
// can write down, and on as many random ones of the same length, by turns, as in
// BenchmarkRounds: on keys that are tracked, and to insert them. A table keyed by
// that sum would look through all of them at each call.
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

// hostilely lets calls on hostile and on ordinary keys take turns, and reports how
// long they take. Nobody pays for another's garbage.
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

// tracked returns a function that calls on each key once, and returns how many
// nanoseconds a call took.
func tracked(b *testing.B, keys []string) func() float64 {
	l := sash.Must(sash.New(sash.PerHour(plenty)))
	b.Cleanup(func() { l.Close() })
	allow := func() float64 { return allowed(l, keys) }
	allow()
	return allow
}

// inserting is tracked into a new limiter each time.
func inserting(keys []string) func() float64 {
	return func() float64 {
		l := sash.Must(sash.New(sash.PerHour(plenty)))
		defer l.Close()
		return allowed(l, keys)
	}
}

func allowed(l *sash.Limiter, keys []string) float64 {
	start := time.Now()
	for _, key := range keys {
		l.Allow(key)
	}
	return float64(time.Since(start)) / float64(len(keys))
}
