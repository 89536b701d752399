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

// hashed returns the key of a name, hashed under the seed that all tests share.
func hashed(name string) key { return key{testHasher.hash(name), name} }

var testHasher = newHasher()

func always() bool { return true }

func TestSharded_HoldsOneEntryPerKey(t *testing.T) {
	s := newShards()
	want := map[string]*entry{}
	for i := range 5000 {
		k := hashed(strconv.Itoa(i))
		require.Nil(t, s.load(k))
		e := newWordEntry(0, k.name)
		require.Same(t, e, s.loadOrStoreIf(k, e, always))
		require.Same(t, e, s.loadOrStoreIf(k, newWordEntry(0, k.name), always), "the entry that it holds stays")
		want[k.name] = e
	}
	require.Equal(t, len(want), s.size())
	for name, e := range want {
		k := hashed(name)
		require.Same(t, e, s.load(k))
	}
}

func TestSharded_DeletesOnlyTheEntryItIsGiven(t *testing.T) {
	s := newShards()
	k := hashed("k")
	s.compareAndDelete(k, newWordEntry(0, "k")) // the key has no entry
	old, e := s.loadOrStoreIf(k, newWordEntry(0, "k"), always), newWordEntry(0, "k")
	s.compareAndDelete(k, e)
	require.Equal(t, 1, s.size(), "another entry")
	s.compareAndDelete(k, old)
	require.Equal(t, 0, s.size())
	s.loadOrStoreIf(k, e, always)
	s.compareAndDelete(k, old)
	require.Equal(t, 1, s.size(), "another entry took its place")
}

// Keys with one hash share a bucket and nothing else.
func TestSharded_ComparesWholeKeysForAnyHash(t *testing.T) {
	for _, hash := range []uint64{0, ^uint64(0)} {
		var s sharded
		s.init(0, 0, func(string) uint64 { return hash })
		for i := range 300 {
			k := key{hash, strconv.Itoa(i)}
			require.Nil(t, s.load(k))
			s.loadOrStoreIf(k, newWordEntry(0, k.name), always).Word.Store(uint64(i))
		}
		for i := range 300 {
			require.EqualValues(t, i, s.load(key{hash, strconv.Itoa(i)}).Word.Load())
		}
		require.Nil(t, s.load(key{hash, "300"}))
	}
}

func TestSharded_UsesEveryShardEvenly(t *testing.T) {
	s := newShards()
	const each = 100
	for i := range each * shards {
		k := hashed(fmt.Sprintf("198.51.100.%d", i))
		s.loadOrStoreIf(k, newWordEntry(0, k.name), always)
	}
	for i := range s.shards {
		require.InDelta(t, each, s.shards[i].Size(), 6*10, "shard %d", i) // six deviations
	}
}
