package sash

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func newShards() *sharded {
	var s sharded
	s.init(0, 0, testHasher.hash)
	return &s
}

// hashed returns name as a key; all tests share a seed.
func hashed(name string) key { return key{testHasher.hash(name), name} }

var testHasher = newHasher()

func always() bool { return true }

func TestSharded_HoldsOneCellPerKey(t *testing.T) {
	s := newShards()
	want := map[string]*cell{}
	for i := range 5000 {
		k := hashed(strconv.Itoa(i))
		require.Nil(t, s.load(k))
		c := newCounter(k.name)
		require.Same(t, c, s.insert(k, c, always))
		require.Same(t, c, s.insert(k, newCounter(k.name), always), "the one it has stays")
		want[k.name] = c
	}
	require.Equal(t, len(want), s.size())
	for name, c := range want {
		k := hashed(name)
		require.Same(t, c, s.load(k))
	}
}

func TestSharded_RemovesOnlyTheCellItIsGiven(t *testing.T) {
	s := newShards()
	k := hashed("k")
	s.remove(k, newCounter("k")) // not there, nor any shard
	old, c := s.insert(k, newCounter("k"), always), newCounter("k")
	s.remove(k, c)
	require.Equal(t, 1, s.size(), "another cell")
	s.remove(k, old)
	require.Equal(t, 0, s.size())
	s.insert(k, c, always)
	s.remove(k, old)
	require.Equal(t, 1, s.size(), "another cell took its place")
}

// Keys with one hash share a bucket and nothing else.
func TestSharded_ComparesWholeKeysWhateverTheHash(t *testing.T) {
	for _, hash := range []uint64{0, ^uint64(0)} {
		var s sharded
		s.init(0, 0, func(string) uint64 { return hash })
		for i := range 300 {
			k := key{hash, strconv.Itoa(i)}
			require.Nil(t, s.load(k))
			s.insert(k, newCounter(k.name), always).word.Store(uint64(i))
		}
		for i := range 300 {
			require.EqualValues(t, i, s.load(key{hash, strconv.Itoa(i)}).word.Load())
		}
		require.Nil(t, s.load(key{hash, "300"}))
	}
}

// Two keys of one shard, tag and place: AllowN guesses the cell of the first for both.
func TestAllow_ComparesWholeKeysWhereItGuesses(t *testing.T) {
	l := newTest(t, PerMinute(2), WithClock(NewManualClock(0)))
	seen := map[uint64]string{}
	for i := 1_000_000; ; i++ {
		second := strconv.Itoa(i)
		k := l.key(second)
		at := k.hash>>(64-shardBits-8)<<3 | uint64(k.place())
		first, found := seen[at]
		seen[at] = second
		if !found {
			continue
		}
		require.True(t, l.Allow(first))
		require.Equal(t, l.table().load(l.key(first)), l.table().shard(k).guess(k), "else nothing is tried")
		for range 2 {
			require.True(t, l.Allow(second))
		}
		require.False(t, l.Allow(second))
		require.True(t, l.Allow(first))
		require.False(t, l.Allow(first))
		return
	}
}

func TestSharded_UsesEveryShardEvenly(t *testing.T) {
	s := newShards()
	const each = 100
	for i := range each * shards {
		k := hashed(fmt.Sprintf("198.51.100.%d", i))
		s.insert(k, newCounter(k.name), always)
	}
	for i := range s.shards {
		require.InDelta(t, each, s.shards[i].size(), 6*10, "shard %d", i) // six deviations
	}
}
