package sash

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/stretchr/testify/require"
)

func TestHasher_IsAFunctionOfTheBytesAndTheSeed(t *testing.T) {
	a, b := newHasher(), newHasher()
	for _, s := range []string{"", "k", "203.0.113.7", strings.Repeat("long", 1000)} {
		require.Equal(t, a.hash(s), a.hash(strings.Clone(s)))
		require.Equal(t, a.hash(s), a.hash(bridge.AsString([]byte(s))))
		require.NotEqual(t, a.hash(s), b.hash(s), "each limiter has a seed of its own")
	}
}

// Each bit of the hash is set for about half of the keys: the top bits choose the shard,
// and the others the bucket.
func TestHasher_SpreadsSimilarKeysOverEveryBit(t *testing.T) {
	h := newHasher()
	var ones [64]int
	const keys = 10_000
	for i := range keys {
		for v := h.hash("10.0.0." + strconv.Itoa(i)); v != 0; v &= v - 1 {
			ones[bits.TrailingZeros64(v)]++
		}
	}
	for bit, n := range ones {
		require.InDelta(t, keys/2, n, keys/20, "bit %d", bit)
	}
}

// twin returns 8 bytes whose XXH64 is sum. XXH64 of 8 bytes is a bijection, and each of its
// steps can be undone. Under a limiter keyed by XXH64, a client that sends the twin of a key
// would spend the quota of that key.
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

// Keys that collide under XXH64 share neither a quota nor a hash.
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
