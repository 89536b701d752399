package sash

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recall returns the counter that l remembers for name, nil for none.
func (l *Limiter) recall(name string) *cell {
	k := l.key(name)
	return l.table().shard(k).recall(k)
}

// sameRecent returns two names that share a place.
func sameRecent(l *Limiter) (a, b string) {
	seen := map[*recent]string{}
	for i := range 1 << 20 {
		name := "key:" + strings.Repeat("x", i%7) + time.Duration(i).String()
		k := l.key(name)
		l.table().insert(k, new(cell), func() bool { return false }) // so that there is a shard
		place := l.table().shard(k).recent(k)
		if other, ok := seen[place]; ok {
			return other, name
		}
		seen[place] = name
	}
	return "", ""
}

func TestRecent_IsTheCellInTheMap(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(5), WithClock(clock))
	for _, name := range []string{"", "a", "a\x00", "203.0.113.7", strings.Repeat("x", 255)} {
		require.Nil(t, l.recall(name))
		require.True(t, l.Allow(name))
		found := l.table().seek(l.key(name))
		require.NotNil(t, found)
		require.Same(t, found, l.recall(name), name)
	}
}

// The race detector looks at pointers, too: one behind a counter without a name must
// not point into another object.
func TestRecent_OfTheEmptyName(t *testing.T) {
	for range 100 { // small objects lie two by two
		l := newTest(t, PerMinute(1), WithClock(NewManualClock(0)), WithSweepInterval(-1))
		require.True(t, l.Allow(""))
		require.False(t, l.Allow(""))
		require.NotNil(t, l.recall(""))
	}
}

// A name whose length a byte does not hold is never taken for another.
func TestRecent_OfALongName(t *testing.T) {
	l := newTest(t, PerMinute(1), WithClock(NewManualClock(0)))
	for _, length := range []int{256, 257, 300, 512} {
		name := strings.Repeat("x", length)
		require.True(t, l.Allow(name))
		require.False(t, l.Allow(name))
		require.Nil(t, l.recall(name))
	}
}

func TestRecent_ComparesWholeNamesWhateverTheHash(t *testing.T) {
	s := newShards()
	a, b := key{1, "a"}, key{1, "b"}
	c, kept := newNamedCell(a.name)
	s.insert(key{1, kept}, c, always)
	s.shard(a).remember(a, c)
	require.Same(t, c, s.shard(a).recall(a))
	require.Nil(t, s.shard(b).recall(b))
	require.Nil(t, s.shard(a).recall(key{1 << 25, "a"}))
	require.Nil(t, s.shard(a).recall(key{1, ""}))
	require.Nil(t, s.shard(a).recall(key{1, "aa"}))
	// A byte holds the length of both.
	short, long := key{3, "x"}, key{3, strings.Repeat("x", 257)}
	c, _ = newNamedCell(long.name)
	s.insert(long, c, always)
	s.shard(long).remember(long, c)
	require.Nil(t, s.shard(short).recall(short))
}

// Whoever is at it has it for himself, and nobody reads what he has half written.
func TestRecent_IsNotReadWhileItIsWritten(t *testing.T) {
	s := newShards()
	a, b := key{1, "a"}, key{1, "a longer name"}
	c, _ := newNamedCell(a.name)
	s.insert(a, c, always)
	m := s.shard(a)
	m.remember(a, c)
	before := m.recent(a).tag.Load()
	m.recent(a).tag.Store(before | busyTag)
	require.Nil(t, m.recall(a))
	other, _ := newNamedCell(b.name)
	m.remember(b, other)
	require.Same(t, c, m.recent(a).counter.Load(), "somebody else writes")
	m.recent(a).tag.Store(before)
	m.remember(b, other)
	require.Same(t, other, m.recall(b))
	require.Nil(t, m.recall(a))
	m.remember(a, c)
	require.Same(t, c, m.recall(a))
	require.NotEqual(t, before, m.recent(a).tag.Load(), "another version")
}

func TestRecent_IsForgottenWithTheKey(t *testing.T) {
	for name, end := range map[string]func(l *Limiter, clock *ManualClock){
		"Reset": func(l *Limiter, _ *ManualClock) { require.True(t, l.Reset("k")) },
		"Sweep": func(l *Limiter, clock *ManualClock) {
			clock.Advance(2 * time.Minute)
			require.Equal(t, 1, l.Sweep())
		},
		"SetLimits": func(l *Limiter, _ *ManualClock) { require.NoError(t, l.SetLimits("k", PerHour(7))) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewManualClock(0)
			l := newTest(t, PerMinute(5), WithClock(clock))
			require.True(t, l.Allow("k"))
			old := l.recall("k")
			end(l, clock)
			require.Nil(t, l.recall("k"))

			// Remembered late, by a caller that lost its core, it does no harm.
			l.table().shard(l.key("k")).remember(l.key("k"), old)
			left := l.Peek("k", 0).Remaining
			require.Nil(t, l.recall("k"), "found dead")
			require.True(t, l.Allow("k"))
			require.Equal(t, left-1, l.Peek("k", 0).Remaining)
			require.Equal(t, 1, l.Len())
		})
	}
}

// Of two keys with one place that of the newest window has it, until the next.
func TestRecent_GivesWayToWhatMovesOn(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(5), WithClock(clock))
	a, b := sameRecent(l)
	l.Allow(a)
	l.Allow(b)
	require.NotNil(t, l.recall(b))
	for range 10 { // admitted and denied
		l.Allow(a)
		l.Take(a, 1)
		l.Peek(a, 1)
		require.NotNil(t, l.recall(b), "not with every call")
	}
	clock.Advance(time.Minute)
	l.Take(a, 5)
	require.NotNil(t, l.recall(b), "a denial remembers nothing")
	clock.Advance(30 * time.Second)
	require.True(t, l.Allow(a))
	require.NotNil(t, l.recall(a))
	require.Nil(t, l.recall(b))
}

// Counters that were carried over into new limits know their names, too.
func TestRecent_OfCarriedCounters(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(5), WithClock(clock))
	for _, name := range []string{"a", "another"} {
		l.Allow(name)
	}
	require.NoError(t, l.Reconfigure(PerMinute(7)))
	require.NoError(t, l.SetLimits("a", PerHour(3)))
	require.NoError(t, l.SetLimits("a"))
	clock.Advance(time.Minute)
	for _, name := range []string{"a", "another"} {
		l.Allow(name)
	}
	require.Nil(t, l.recall("a"), "a compound, which it stays")
	require.Same(t, l.table().seek(l.key("another")), l.recall("another"))
	require.EqualValues(t, 5, l.Peek("another", 0).Remaining)
}
