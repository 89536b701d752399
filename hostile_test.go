package sash

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// twin returns 8 bytes whose XXH64 is sum: of so few bytes it is a bijection, each
// of whose steps can be undone. A limiter keyed by that sum would let whoever sends
// the twin of a key spend its quota.
func twin(sum uint64) string {
	const (
		prime1 = 11400714785074694791
		prime2 = 14029467366897019727
		prime3 = 1609587929392839161
		prime4 = 9650029242287828579
		prime5 = 2870177450012600261
	)
	h := sum
	h ^= h >> 32
	h *= inverse(prime3)
	h ^= h>>29 ^ h>>58
	h *= inverse(prime2)
	h ^= h >> 33
	h = bits.RotateLeft64((h-prime4)*inverse(prime1), -27) ^ (prime5 + 8)
	h = bits.RotateLeft64(h*inverse(prime1), -31) * inverse(prime2)
	return string(binary.LittleEndian.AppendUint64(nil, h))
}

// inverse returns the x with odd*x == 1, by Newton's method.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

// Keys that collide under XXH64 share no quota, nor a place in the table.
func TestHostile_TwinsUnderXXH64ShareNothing(t *testing.T) {
	everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, _ *ManualClock) {
		for i := range 1000 {
			key := fmt.Sprintf("a client's key, number %d", i)
			other := twin(xxhash.Sum64String(key))
			require.Equal(t, xxhash.Sum64String(key), xxhash.Sum64String(other))
			require.NotEqual(t, l.key(key).hash, l.key(other).hash)
			require.True(t, l.AllowN(key, 3))
			require.True(t, l.AllowN(other, 3))
			require.False(t, l.Allow(key))
		}
		require.Equal(t, 2000, l.Len())
	})
}
