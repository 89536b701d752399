package sash

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var everyOverflow = map[string]Overflow{"EvictLeastUsed": EvictLeastUsed, "DenyNew": DenyNew, "ShareOverflow": ShareOverflow}

// capped returns a limiter of at most keys keys, and its clock.
func capped(t testing.TB, keys int, overflow Overflow, options ...Option) (*Limiter, *ManualClock) {
	clock := NewManualClock(0)
	return newTest(t, append([]Option{PerMinute(3).Counter(), WithClock(clock), WithMaxKeys(keys, overflow)}, options...)...), clock
}

// takeTimes takes 1 unit of key in each of calls calls.
func takeTimes(l *Limiter, key string, calls int) {
	for range calls {
		l.Allow(key)
	}
}

func TestMaxKeys_OfBadInput(t *testing.T) {
	for _, n := range []int{0, -1, math.MinInt} {
		_, err := New(PerSecond(1), WithMaxKeys(n, DenyNew))
		require.ErrorIs(t, err, ErrInvalidOption)
		require.ErrorContains(t, err, fmt.Sprintf("WithMaxKeys: n must be from 1 to 1073741823, got %d", n))
	}
	_, err := New(PerSecond(1), WithMaxKeys(0, 3))
	require.ErrorContains(t, err, "got 0")
	require.ErrorContains(t, err, "overflow must be EvictLeastUsed, DenyNew or ShareOverflow, got 3")
}

func TestMaxKeys_IsNeverExceeded(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, _ := capped(t, 10, overflow)
			for i := range 100 {
				l.Allow(strconv.Itoa(i))
				require.Equal(t, min(i+1, 10), l.Len())
				require.Equal(t, l.Len(), l.table().size())
			}
			for i := range 100 {
				l.Reset(strconv.Itoa(i))
			}
			require.Zero(t, l.Len())
			require.True(t, l.Allow("new"))
			require.Equal(t, 1, l.Stats().Keys)
		})
	}
}

// Idle keys make room under each Overflow. Their eviction does not count as displaced.
func TestMaxKeys_IdleKeysMakeRoom(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, clock := capped(t, 10, overflow)
			for i := range 10 {
				takeTimes(l, strconv.Itoa(i), 3)
			}
			clock.Advance(2 * time.Minute)
			require.True(t, l.Allow("new"))
			require.EqualValues(t, 2, l.Peek("new", 0).Remaining)
			require.Equal(t, Stats{Keys: 10, Evicted: 1}, l.Stats())
		})
	}
}

// Another call has inserted the key, and not charged it yet. If the entry were evicted as
// idle, that call would insert it once more, and evict the entry of this call in turn.
func TestMaxKeys_MakesNoRoomForAKeyOfItself(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		l, _ := capped(t, 1, overflow)
		g, k := l.current.Load(), l.key("k")
		e := l.put(k)
		require.False(t, l.evictFor(g, 1, []target{{key: k}}))
		require.Same(t, e, g.keys.load(k))
		require.True(t, l.evictFor(g, 1, []target{{key: l.key("other")}}), "the key makes room for another key")
		require.Nil(t, g.keys.load(k))

		// WithLimitsFor runs after the call has found no entry, and before it evicts.
		inserted := false
		l, _ = capped(t, 1, overflow, WithLimitsFor(func(string) []Limit {
			if !inserted {
				inserted = true
				l.put(l.key("k"))
			}
			return nil
		}))
		require.True(t, l.Allow("k"))
		require.Equal(t, Stats{Keys: 1}, l.Stats(), "the entry of the other call stays")
	}
}

// So it is for other keys. If each of two calls evicted what the other has inserted, neither would
// ever end.
func TestMaxKeys_EvictsNoKeyInsertedSinceTheCallBegan(t *testing.T) {
	calls := map[string]func(l *Limiter) bool{
		"Take":       func(l *Limiter) bool { return l.Take("k", 1).Allowed },
		"Peek":       func(l *Limiter) bool { return l.Peek("k", 1).Allowed },
		"TakeAll":    func(l *Limiter) bool { return l.TakeAll([]string{"k"}, 1).Allowed },
		"PeekAll":    func(l *Limiter) bool { return l.PeekAll([]string{"k"}, 1).Allowed },
		"ReserveAll": func(l *Limiter) bool { _, d := l.ReserveAll([]string{"k"}, 1); return d.Allowed },
	}
	for name, call := range calls {
		for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
			var l *Limiter
			inserted := false
			l, _ = capped(t, 1, overflow, WithLimitsFor(func(string) []Limit { // runs before the call evicts
				if !inserted {
					inserted = true
					l.put(l.key("another"))
				}
				return nil
			}))
			require.Equal(t, overflow == ShareOverflow, call(l), name)
			require.True(t, l.Peek("another", 1).Allowed, name)
			require.Equal(t, 1, l.Len(), name)
			require.Zero(t, l.Stats().Evicted, name)
			require.True(t, call(l), "%s: the next call evicts it", name)
			require.NotZero(t, l.Stats().Evicted, name)
		}
	}
}

// The keys that were inserted since may have become idle again: charged long ago, or given back, or restored
// after a call began.
func TestMaxKeys_EvictsKeysThatHaveBecomeIdleSince(t *testing.T) {
	events := map[string]func(t *testing.T, l *Limiter, clock *ManualClock){
		"charged": func(_ *testing.T, l *Limiter, clock *ManualClock) {
			l.Allow("b")
			l.TakeAll([]string{"c"}, 1)
			clock.Advance(time.Hour)
		},
		"given back": func(_ *testing.T, l *Limiter, _ *ManualClock) {
			for _, key := range []string{"b", "c"} {
				r, _ := l.Reserve(key, 1)
				r.Cancel()
			}
		},
		"restored": func(t *testing.T, l *Limiter, clock *ManualClock) {
			from := newTest(t, append(options(l.Limits()), WithClock(clock))...)
			from.Allow("b")
			from.Allow("c")
			clock.Advance(time.Hour)
			require.NoError(t, l.Restore(bytes.NewReader(snapshot(t, from))))
		},
	}
	for name, happens := range events {
		for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
			for _, limit := range []Limit{PerMinute(3).Counter(), PerMinute(3).Log(), PerMinute(100), PerMinute(3).TokenBucket(3), PerMinute(1e9)} {
				var l *Limiter
				clock, once := NewManualClock(0), false
				l = newTest(t, limit, WithClock(clock), WithMaxKeys(2, overflow), WithLimitsFor(func(string) []Limit {
					if !once {
						once = true
						happens(t, l, clock)
					}
					return nil
				}))
				require.True(t, l.Allow("a"), "%s, %v", name, limit)
				require.Zero(t, l.Stats().Shared, "%s, %v", name, limit)
			}
		}
	}
}

// A call on several keys has read one that was charged after the last room was taken. Then the
// others must not fit by an earlier look.
func TestMaxKeys_SeveralKeysFitAtOneInstant(t *testing.T) {
	for _, overflow := range []Overflow{DenyNew, ShareOverflow} {
		l, _ := capped(t, 2, overflow)
		l.Allow("a")
		g, targets := l.current.Load(), l.targets(nil, []string{"a", "new"})
		_, fit := l.placeAll(g, targets)
		require.True(t, fit)
		l.Allow("third")
		require.NotEqual(t, retry, l.readAll(g, targets, query{n: 1}))
		require.False(t, l.validateAll(targets))
		require.False(t, l.lockAll(g, targets, false))
		l.Reset("third")
		require.True(t, l.validateAll(targets))
		require.True(t, l.lockAll(g, targets, false))
		unlockAbsent(g, targets)
		unlockAll(targets)
	}
}

func TestMaxKeys_SurvivesReconfigure(t *testing.T) {
	l, _ := capped(t, 5, EvictLeastUsed)
	for i := range 5 {
		takeTimes(l, strconv.Itoa(i), 3)
	}
	require.NoError(t, l.Reconfigure(PerMinute(4).Counter()))
	require.NoError(t, l.SetLimits("1", PerHour(3).Counter()))
	require.Equal(t, 5, l.Len())
	takeTimes(l, "0", 1)
	for i := range 50 {
		require.True(t, l.Allow("new "+strconv.Itoa(i)))
		require.Equal(t, 5, l.Len())
	}
	require.False(t, l.Allow("0"), "the key is still at its limit")
	require.EqualValues(t, 50, l.Stats().Displaced)
}

// A sweep frees the sample slots of the keys that it evicts.
func TestMaxKeys_SampleSlotsAreFreed(t *testing.T) {
	l, clock := capped(t, 100, DenyNew)
	for i := range 100 {
		l.Allow(strconv.Itoa(i))
	}
	clock.Advance(2 * time.Minute)
	require.Equal(t, 100, l.Sweep())
	for i := range l.current.Load().cap.slots {
		require.Nil(t, l.current.Load().cap.slots[i].Load())
	}
}

// An eviction frees the sample slot, too. So a flood does not keep twice as many keys in
// memory, and a change of limits does not keep the old table.
func TestMaxKeys_DeadEntriesAreNotKept(t *testing.T) {
	items := func(l *Limiter) (items int) {
		g := l.current.Load()
		for i := range g.cap.slots {
			if item := g.cap.slots[i].Load(); item != nil {
				require.Same(t, g, item.generation)
				items++
			}
		}
		return items
	}
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			l, clock := capped(t, 20, overflow)
			for i := range 200 {
				l.Allow(strconv.Itoa(i))
				if overflow != EvictLeastUsed {
					clock.Advance(10 * time.Second) // so that there are idle keys
				}
			}
			require.Equal(t, l.Len(), items(l))
			require.NoError(t, l.Reconfigure(PerMinute(4).Counter()))
			require.Equal(t, l.Len(), items(l))
			stats := l.Stats()
			require.Greater(t, stats.Displaced+stats.Evicted, uint64(100))
		})
	}
}

// sizeAtOnce returns the number of keys that have an entry in s at one instant. At that
// instant it holds the locks of all shards. Each shard must have had room from the start,
// because empty shards share a lock. A sum of sizes that are read one after another would not
// do: a key that leaves a shard already read, and a key that enters a shard not yet read,
// would both count.
func sizeAtOnce(s *sharded) (size int) {
	var lockFrom func(shard int)
	lockFrom = func(shard int) {
		if shard == shards {
			size = s.size()
			return
		}
		s.update(key{hash: uint64(shard) << (64 - shardBits)}, func(found *entry) *entry {
			lockFrom(shard + 1)
			return found // no update: it is called to hold the lock
		})
	}
	lockFrom(0)
	return size
}

// Of two calls that insert one key, the second finds the entry of the first, and takes no room.
func TestMaxKeys_OfAKeyThatIsInsertedTwice(t *testing.T) {
	l, _ := capped(t, 2, DenyNew)
	g, k := l.current.Load(), l.key("k")
	r := g.resolve(k.name)
	first := r.ruleset.newEntry(k.name)
	for _, e := range []*entry{first, r.ruleset.newEntry(k.name)} {
		found, full := l.tryInsert(r, k, e, false)
		require.False(t, full)
		require.True(t, found == first)
	}
	require.Equal(t, 1, l.Len())
}

func TestRace_NeverMoreKeysThanTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			const callers, calls, maxKeys = 8, 1000, 40
			l, clock := capped(t, maxKeys, overflow, WithSizeHint(shards)) // so that no two shards share the lock of the empty table
			var done atomic.Bool
			var watcher sync.WaitGroup
			watcher.Go(func() {
				for looks := 0; looks < maxLooks && !done.Load(); looks++ {
					if counted, tracked := l.Len(), sizeAtOnce(l.table()); max(counted, tracked) > maxKeys {
						t.Errorf("%d keys counted, %d in the table", counted, tracked)
						return
					}
					runtime.Gosched()
				}
			})
			var g sync.WaitGroup
			for c := range callers {
				g.Go(func() {
					for i := range calls {
						key := strconv.Itoa((i*7 + c) % 200)
						switch i % 50 {
						case 0:
							l.Sweep()
						case 1:
							l.Reset(key)
						case 2:
							l.TakeAll([]string{key, strconv.Itoa(i % 200)}, 1)
						case 3:
							clock.Advance(time.Second)
						case 4:
							r, _ := l.Reserve(key, 1)
							r.Commit(2)
						case 5:
							_ = l.SetLimits(key, PerHour(5))
						case 6:
							if c == 0 {
								_ = l.Reconfigure(PerMinute(int64(3 + i%5)).Counter())
							}
						default:
							l.Allow(key)
						}
					}
				})
			}
			g.Wait()
			done.Store(true)
			watcher.Wait()
			s := l.Stats()
			require.NotZero(t, s.Displaced+s.Refused+s.Shared, "no contention for room")
			require.Equal(t, l.table().size(), l.Len(), "every key is counted once")
			for i := range 200 {
				l.Reset(strconv.Itoa(i))
			}
			require.Zero(t, l.Len())
			require.Zero(t, l.table().size())
		})
	}
}

func TestRestore_KeepsToTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			from, _ := capped(t, 5, overflow)
			for i := range 5 {
				takeTimes(from, strconv.Itoa(i), 3)
			}
			var snapshot bytes.Buffer
			require.NoError(t, from.Snapshot(&snapshot))

			small, _ := capped(t, 4, overflow)
			small.Allow("kept")
			err := small.Restore(bytes.NewReader(snapshot.Bytes()))
			require.ErrorIs(t, err, ErrBadSnapshot)
			require.ErrorContains(t, err, "more keys than the 4 of WithMaxKeys")
			require.EqualValues(t, 2, small.Peek("kept", 0).Remaining)
			require.Equal(t, 1, small.Len())

			same, clock := capped(t, 5, overflow)
			same.Allow("gone")
			require.NoError(t, same.Restore(bytes.NewReader(snapshot.Bytes())))
			require.Equal(t, 5, same.Len())
			require.False(t, same.Allow("3"))
			clock.Advance(2 * time.Minute)
			require.True(t, same.Allow("new"), "a restored key is evicted once it is idle")
			require.Equal(t, 5, same.Len())
		})
	}
}

// Keys come and go while a snapshot is written. It still holds no more keys than the cap, so
// that a limiter of the same cap can be restored from it.
func TestSnapshot_OfAFullTableKeepsToTheCap(t *testing.T) {
	for name, overflow := range everyOverflow {
		t.Run(name, func(t *testing.T) {
			const maxKeys, held, each = 200, 20, 10
			long := strings.Repeat("x", 2<<10) // 16 keys to a block, and calls between them
			l, _ := capped(t, maxKeys, overflow)
			for i := range held {
				takeTimes(l, "held "+strconv.Itoa(i), 3)
			}
			names, late := make([]string, maxKeys-held), []string(nil)
			for i := range names {
				names[i] = long + strconv.Itoa(i)
				l.Allow(names[i])
			}
			slices.SortFunc(names, func(a, b string) int { return l.key(a).compare(l.key(b)) })
			for i := 0; len(late) < len(names); i++ {
				if name := long + "late" + strconv.Itoa(i); l.key(name).shard() >= shards*3/4 {
					late = append(late, name)
				}
			}
			came := 0
			var saved bytes.Buffer
			require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
				if len(b) > maxPayload && came < len(late) {
					for range each { // a key that is written goes, and a key comes that is written later
						require.True(t, l.Reset(names[came]))
						require.True(t, l.Allow(late[came]))
						came++
					}
				}
				return saved.Write(b)
			})))
			require.Greater(t, came, maxKeys/4, "too few keys came")

			to, _ := capped(t, maxKeys, overflow)
			require.NoError(t, to.Restore(&saved))
			require.LessOrEqual(t, to.Len(), maxKeys)
			for i := range held {
				require.False(t, to.Allow("held "+strconv.Itoa(i)), "the key is still at its limit")
			}
		})
	}
}

func TestEvictLeastUsed_EvictsTheKeyWithMostLeft(t *testing.T) {
	everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
		l.current.Load().cap = newKeyCap(4, EvictLeastUsed)
		for i, calls := range []int{3, 3, 1, 3} {
			takeTimes(l, strconv.Itoa(i), calls)
		}
		require.True(t, l.Allow("new"))
		require.EqualValues(t, 4, l.Len())
		require.EqualValues(t, 1, l.Stats().Displaced)
		require.EqualValues(t, 3, l.Peek("2", 0).Remaining, "it was evicted")
		for _, held := range []string{"0", "1", "3"} {
			require.False(t, l.Allow(held), "a key at its limit stays")
		}
	})
}

// Keys may have limits of their own, so their remaining units are compared as parts of Count.
func TestEvictLeastUsed_ComparesPartsOfCount(t *testing.T) {
	l, _ := capped(t, 2, EvictLeastUsed, WithLimitsFor(func(key string) []Limit {
		if key == "large" {
			return []Limit{PerMinute(1000)}
		}
		return nil
	}))
	l.AllowN("large", 900) // 100 of 1000 left
	l.AllowN("small", 2)   // 1 of 3
	require.True(t, l.Allow("new"))
	require.EqualValues(t, 100, l.Peek("large", 0).Remaining)
	require.EqualValues(t, 3, l.Peek("small", 0).Remaining)
}

// A key that is charged after it was sampled is not evicted, unless the caller waits for it.
// So a new key gets room even if each tracked key is charged all the time.
func TestEvictLeastUsed_WaitsForABusyKeyInTheEnd(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.Allow("busy")
		_, least := l.sample(l.current.Load(), nil, true)
		l.Allow("busy")
		require.False(t, least.tryEvict(1, false))
		require.EqualValues(t, 8, l.Peek("busy", 0).Remaining)
		require.True(t, least.tryEvict(1, true))
		require.EqualValues(t, 10, l.Peek("busy", 0).Remaining)
		require.False(t, least.tryEvict(1, true), "the entry is dead")
	}, WithMaxKeys(1, EvictLeastUsed))
}

// The call finds the table full. Before it chooses a key to evict, another key is reset. Then
// there is room, and no key may lose its units.
func TestEvictLeastUsed_DisplacesNoKeyOnceThereIsRoom(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		l.AllowN("held", 5)
		l.AllowN("reset", 5)
		l.clock = clockFunc(func() int64 {
			l.Reset("reset")
			return 0
		})
		require.True(t, l.makeRoom(l.current.Load(), 1, nil, true))
		require.EqualValues(t, 5, l.Peek("held", 0).Remaining)
		require.Zero(t, l.Stats().Displaced)
		require.Equal(t, 1, l.Len())

		_, least := l.sample(l.current.Load(), nil, true)
		require.False(t, least.tryEvict(1, true), "nor if the caller waited for the key")
		require.True(t, l.AllowN("held", 5), "the key is not locked any more")
	}, WithMaxKeys(2, EvictLeastUsed))
}

// Empty slots come in long rows. A key at its limit next to such a row must not be the only
// key sampled.
func TestEvictLeastUsed_LooksBeyondEmptySlots(t *testing.T) {
	const keys = 200
	l := newTest(t, PerMinute(5), WithClock(NewManualClock(0)), WithMaxKeys(keys, EvictLeastUsed))
	for i := range keys {
		require.True(t, l.Allow(strconv.Itoa(i)))
	}
	require.True(t, l.AllowN("0", 4))
	g := l.current.Load()
	var held *sampleItem
	var others []*sampleItem
	for i := range g.cap.slots {
		if item := g.cap.slots[i].Load(); item != nil && item.key.name == "0" {
			held = item
		} else if item != nil {
			others = append(others, item)
		}
		g.cap.slots[i].Store(nil)
	}
	g.cap.slots[0].Store(held)
	for i, item := range others {
		g.cap.slots[len(g.cap.slots)-len(others)+i].Store(item) // in the other half
	}
	alone := 0
	for range 10_000 {
		idle, least := l.sample(g, nil, true)
		require.False(t, idle)
		if least.sampleItem == held {
			alone++
		}
	}
	require.Zero(t, alone)
}

// Of keys that have the same part of their quota left, the key inserted last is evicted. A
// change of its limits or a reservation does not change the place of a key in that order.
func TestEvictLeastUsed_OfEqualsEvictsTheLastInserted(t *testing.T) {
	const maxKeys = 30
	for name, change := range map[string]func(l *Limiter){
		"no change":   func(l *Limiter) { l.Allow("0") },
		"Reserve":     func(l *Limiter) { l.Reserve("0", 1) },
		"SetLimits":   func(l *Limiter) { l.Allow("0"); _ = l.SetLimits("0", PerHour(3)) },
		"Reconfigure": func(l *Limiter) { l.Allow("0"); _ = l.Reconfigure(l.rule().Limit) },
	} {
		t.Run(name, func(t *testing.T) {
			everyKind(t, PerMinute(3), func(t *testing.T, l *Limiter, clock *ManualClock) {
				l.AllowN("0", 2)
				for i := 1; i < maxKeys; i++ {
					l.AllowN(strconv.Itoa(i), 3)
				}
				change(l)
				for _, last := range []string{strconv.Itoa(maxKeys - 1), "new 0", "new 1"} {
					displaced := l.Stats().Displaced
					require.True(t, l.AllowN(fmt.Sprintf("new %d", displaced), 3))
					require.EqualValues(t, displaced+1, l.Stats().Displaced)
					require.EqualValues(t, 3, l.Peek(last, 0).Remaining, "%q was evicted", last)
				}
				for i := range maxKeys - 1 {
					require.Zero(t, l.Peek(strconv.Itoa(i), 0).Remaining, "%d is still at its limit", i)
				}
			}, WithMaxKeys(maxKeys, EvictLeastUsed))
		})
	}
}

// A flood of new keys does not evict a key at its limit. One key in a hundred is at its
// limit, and it would be evicted only from a sample that holds no other keys.
func TestEvictLeastUsed_AFloodEvictsItself(t *testing.T) {
	const maxKeys, held = 10_000, 100
	flood := thorough(300_000)
	l, _ := capped(t, maxKeys, EvictLeastUsed)
	for i := range held {
		takeTimes(l, "held "+strconv.Itoa(i), 3)
	}
	early := 0
	for i := range flood {
		l.Allow("flood " + strconv.Itoa(i))
		if l.Allow("held " + strconv.Itoa(i%held)) {
			early++
		}
	}
	require.Zero(t, early)
	require.Equal(t, maxKeys, l.Len())
	require.EqualValues(t, flood+held-maxKeys, l.Stats().Displaced)
}

// Keys at their limit stay even if they are half of the table, for a flood that uses little
// of the quota of each of its keys and for one that uses all of it.
func TestEvictLeastUsed_KeepsAHalfThatIsHeld(t *testing.T) {
	const maxKeys, held = 1000, 500
	flood := thorough(100_000)
	for _, limit := range []Limit{PerMinute(10).Counter(), PerMinute(10).Log()} {
		for _, uses := range []int{1, 9, 10} {
			t.Run(fmt.Sprintf("%v, %d of 10", limit, uses), func(t *testing.T) {
				l := newTest(t, limit, WithClock(NewManualClock(0)), WithMaxKeys(maxKeys, EvictLeastUsed))
				for i := range held {
					require.True(t, l.AllowN("held "+strconv.Itoa(i), 10))
				}
				for i := range flood {
					takeTimes(l, "flood "+strconv.Itoa(i), uses)
				}
				stayed := 0
				for i := range held {
					if l.Peek("held "+strconv.Itoa(i), 0).Remaining == 0 {
						stayed++
					}
				}
				require.GreaterOrEqual(t, stayed, 495)
				require.EqualValues(t, flood+held-maxKeys, l.Stats().Displaced)
			})
		}
	}
}

// As time passes, keys at their limit take each unit that comes back, so they are charged
// later than many keys of the flood. They stay all the same, because they were inserted
// before.
func TestEvictLeastUsed_KeepsHeldKeysThatGoOn(t *testing.T) {
	const maxKeys, held, calls = 1000, 500, 10
	for _, limit := range []Limit{PerMinute(10).Counter(), PerMinute(10).Log()} {
		for _, uses := range []int{1, 9} {
			t.Run(fmt.Sprintf("%v, %d of 10", limit, uses), func(t *testing.T) {
				clock := NewManualClock(0)
				l := newTest(t, limit, WithClock(clock), WithMaxKeys(maxKeys, EvictLeastUsed))
				for i := range 30 * held { // each once in 6 s
					l.Allow("held " + strconv.Itoa(i%held))
					clock.Advance(6 * time.Second / held)
				}
				evicted := map[int]bool{}
				for i := range thorough(20_000) {
					takeTimes(l, "flood "+strconv.Itoa(i), uses)
					for j := range calls {
						at := (calls*i + j) % held
						if d := l.Take("held "+strconv.Itoa(at), 1); d.Allowed && d.Remaining > 3 {
							evicted[at] = true
						}
					}
					clock.Advance(5 * time.Millisecond)
				}
				require.LessOrEqual(t, len(evicted), 5)
			})
		}
	}
}

// If a clock panics while room is made for several keys, the room that was found is given back.
func TestMaxKeys_AClockThatPanicsLosesNoRoom(t *testing.T) {
	faulty, readings := false, 0
	l := newTest(t, PerHour(5).Log(), WithMaxKeys(4, EvictLeastUsed), WithClock(clockFunc(func() int64 {
		if readings++; faulty && readings > 1 {
			panic("clock")
		}
		return 0
	})))
	for _, name := range []string{"a", "b", "c", "d"} {
		l.Take(name, 1)
	}
	faulty, readings = true, 0
	require.Panics(t, func() { l.acquireAll(l.current.Load(), 2, l.targets(nil, []string{"x", "y"})) })
	require.Equal(t, l.table().size(), l.Len())
}
