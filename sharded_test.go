package sash

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func newShards() *sharded {
	var s sharded
	s.init(0)
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
		_, ok := s.shard(k).cells.Load(k)
		require.False(t, ok)
		c := new(cell)
		require.Same(t, c, s.insert(k, c, always))
		require.Same(t, c, s.insert(k, new(cell), always), "the one it has stays")
		want[k.name] = c
	}
	require.Equal(t, len(want), s.size())
	for name, c := range want {
		k := hashed(name)
		got, ok := s.shard(k).cells.Load(k)
		require.True(t, ok)
		require.Same(t, c, got)
	}
}

func TestSharded_RemovesOnlyTheCellItIsGiven(t *testing.T) {
	s := newShards()
	k := hashed("k")
	s.remove(k, new(cell)) // not there, nor any shard
	require.Same(t, noKeys, s.shard(k))
	old, c := s.insert(k, new(cell), always), new(cell)
	s.remove(k, c)
	require.Equal(t, 1, s.size(), "another cell")
	s.remove(k, old)
	require.Equal(t, 0, s.size())
	s.insert(k, c, always)
	s.remove(k, old)
	require.Equal(t, 1, s.size(), "another cell took its place")
	require.Equal(t, 0, noKeys.cells.Size())
}

// What only looks a key up, or removes another cell from it, leaves the name that the
// table keeps as it is.
func TestSharded_KeepsNoNameThatItIsOnlyAskedFor(t *testing.T) {
	s := newShards()
	k := hashed("k")
	c := s.insert(k, new(cell), always)
	for what, ask := range map[string]func(key){
		"seek":   func(k key) { require.Same(t, c, s.seek(k)) },
		"remove": func(k key) { s.remove(k, new(cell)) },
	} {
		name := []byte(k.name)
		ask(key{k.hash, asString(name)})
		name[0] = 'x' // as its owner may
		found, _ := s.shard(k).cells.Load(k)
		require.Same(t, c, found, what)
	}
}

// Keys with one hash share a bucket and nothing else.
func TestSharded_ComparesWholeKeysWhateverTheHash(t *testing.T) {
	for _, hash := range []uint64{0, ^uint64(0)} {
		s := newShards()
		for i := range 300 {
			k := key{hash, strconv.Itoa(i)}
			_, ok := s.shard(k).cells.Load(k)
			require.False(t, ok)
			s.insert(k, new(cell), always).word.Store(uint64(i))
		}
		for i := range 300 {
			k := key{hash, strconv.Itoa(i)}
			c, ok := s.shard(k).cells.Load(k)
			require.True(t, ok)
			require.EqualValues(t, i, c.word.Load())
		}
		k := key{hash ^ 1<<20, "7"}
		_, ok := s.shard(k).cells.Load(k)
		require.False(t, ok)
	}
}

func TestSharded_UsesEveryShardEvenly(t *testing.T) {
	s := newShards()
	const each = 100
	for i := range each * shards {
		s.insert(hashed(fmt.Sprintf("198.51.100.%d", i)), new(cell), always)
	}
	for i := range s.shards {
		require.InDelta(t, each, s.shards[i].Load().cells.Size(), 6*10, "shard %d", i) // six deviations
	}
}
