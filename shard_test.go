//go:build !schedules

package sash

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed-30da4c49/sash/internal/race"
)

// The guess of AllowN returns the entry of another key if both keys have the same shard, home
// bucket, home slot and h2.
func TestAllow_ComparesWholeKeysWhereItGuesses(t *testing.T) {
	for name, allow := range map[string]func(l *Limiter, key string) bool{
		"Allow": (*Limiter).Allow,
		"Take":  func(l *Limiter, key string) bool { return l.Take(key, 1).Allowed },
	} {
		t.Run(name, func(t *testing.T) {
			l := newTest(t, PerMinute(2).Counter(), WithClock(NewManualClock(0)))
			first, second := guessedAlike(t, l)
			for range 2 {
				require.True(t, allow(l, second))
			}
			require.False(t, allow(l, second))
			require.True(t, allow(l, first), "it was charged once before")
			require.False(t, allow(l, first))
		})
	}
}

// guessedAlike charges first, and returns it with a key that is guessed to be first.
func guessedAlike(t *testing.T, l *Limiter) (first, second string) {
	for i := 1_000_000; ; i++ {
		second = strconv.Itoa(i)
		k := l.key(second)
		if guessed := entryOf(l.table().shard(k).Guess(k.hash, second)); guessed != nil {
			require.NotEqual(t, guessed.Name(), second)
			return guessed.Name(), second
		}
		require.True(t, l.Allow(second))
	}
}

// Goroutines that write to empty shards share the lock of the empty table, and no entry is
// lost.
func TestRace_ShardsBeginTogether(t *testing.T) {
	for range 50 {
		s := newShards()
		var writers errgroup.Group
		for w := range 4 {
			writers.Go(func() error {
				for i := range 300 {
					k := hashed(strconv.Itoa(i) + " of " + strconv.Itoa(w))
					s.loadOrStoreIf(k, newWordEntry(0, k.name), always)
				}
				return nil
			})
		}
		writers.Wait()
		require.Equal(t, 1200, s.size())
		n := 0
		s.rangeAll(func(k key, e *entry) bool {
			require.Same(t, e, s.load(k))
			n++
			return true
		})
		require.Equal(t, 1200, n)
	}
}

// Shards that fill at the same rate grow at different times. If they grew together, they
// would stall all writers one after the other. While the number of keys grows by a
// hundredth, at most a twentieth of the shards grow.
func TestSharded_ShardsGrowInTurn(t *testing.T) {
	if race.Enabled {
		t.Skip("all of it happens in one goroutine")
	}
	const from, to = 100 * shards, 1000 * shards
	var s sharded
	s.init(0, 0, func(name string) uint64 {
		i, err := strconv.Atoi(name)
		require.NoError(t, err)
		return uint64(i%shards)<<(64-shardBits) | uint64(i)*0x9e3779b97f4a7c15>>shardBits
	})
	was, last, grown, all := map[int]int{}, from, 0, 0
	for i := range to {
		k := s.keyOf(newWordEntry(0, strconv.Itoa(i)))
		s.loadOrStoreIf(k, newWordEntry(0, k.name), always)
		if shard := k.shard(); i >= from-shards && s.shards[shard].Capacity() != was[shard] {
			was[shard] = s.shards[shard].Capacity()
			if i >= from {
				grown++
				all++
			}
		}
		if i > last+last/100 {
			require.LessOrEqual(t, grown, shards/20, "with %d keys", i)
			last, grown = i, 0
		}
	}
	require.Greater(t, all, 3*shards, "each shard has grown three times or more")
}

func TestWithSizeHint_MakesRoomAtOnce(t *testing.T) {
	l := newTest(t, PerSecond(1), WithSizeHint(1_000_000))
	for i := range l.table().shards {
		require.GreaterOrEqual(t, l.table().shards[i].Capacity(), 1_000_000/shards)
	}
	require.Equal(t, 0, l.Len())
	require.Zero(t, newTest(t, PerSecond(1)).table().shards[0].Capacity())
	require.Positive(t, newTest(t, PerSecond(1), WithSizeHint(1)).table().shards[0].Capacity())
}
