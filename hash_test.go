package sash

import (
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHasher_IsAFunctionOfTheBytesAndTheSeed(t *testing.T) {
	a, b := newHasher(), newHasher()
	for _, s := range []string{"", "k", "203.0.113.7", strings.Repeat("long", 1000)} {
		require.Equal(t, a.hash(s), a.hash(strings.Clone(s)))
		require.Equal(t, a.hash(s), a.hash(asString([]byte(s))))
		require.NotEqual(t, a.hash(s), b.hash(s), "no two limiters hash alike")
	}
}

// The top bits choose the shard and the rest the bucket: each of them must be
// set for about half of the keys.
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
