package sash

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/seed-30da4c49/sash/internal/window"
)

// snapshot returns what l.Snapshot writes.
func snapshot(t testing.TB, l *Limiter) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, l.Snapshot(&b))
	return b.Bytes()
}

// restoredCopy returns a limiter that is restored from a snapshot of l. It has the same
// limits, and a clock that is ahead of the clock of l by offset.
func restoredCopy(t testing.TB, l *Limiter, offset int64, others ...Option) *Limiter {
	t.Helper()
	own := append(options(l.own().limits()), others...)
	if l.chargeDenied {
		own = append(own, WithChargeDenied())
	}
	old := l.clock
	next := newTest(t, append(own, WithClock(clockFunc(func() int64 { return old.Now() + offset })))...)
	wall := time.Now()
	l.wall = func() time.Time { return wall }
	next.wall = l.wall
	require.NoError(t, next.Restore(bytes.NewReader(snapshot(t, l))))
	return next
}

// A limiter is restored over and over from the one before, on clocks of different origins. It
// gives the answers of the reference, which is not restored.
func TestSnapshot_ChangesNoAnswer(t *testing.T) {
	eachTrial(t, func(tr *trial) {
		offset := int64(1e12)
		if tr.limit.Window > 1<<60 { // the clock nears the end of time
			offset = 0
		}
		back := tr.rng.IntN(2) == 0
		for range steps(40) {
			tr.move(back)
			if !back && tr.rng.IntN(5) == 0 {
				tr.l.Sweep()
			}
			if tr.rng.IntN(15) == 0 {
				tr.l = restoredCopy(tr, tr.l, offset/2-tr.rng.Int64N(offset+1))
			}
			tr.call(string(rune('a'+tr.rng.IntN(2))), tr.cost())
		}
	})
}

func TestSnapshot_ChangesNoAnswerUnderSeveralLimits(t *testing.T) {
	eachMultiTrial(t, func(tr *multiTrial) {
		for range steps(60) {
			tr.move(true)
			if tr.rng.IntN(10) == 0 {
				tr.l = restoredCopy(tr, tr.l, 500-tr.rng.Int64N(1000))
			}
			tr.call()
		}
	})
}

// The restored limiter gives the answers of the original, also for what the reference lacks:
//   - keys with limits of their own, and keys above their limits
//   - reservations
//   - changes of limits
func TestSnapshot_AnswersAsTheOriginal(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		clock := NewManualClock(rng.Int64N(2000) - 1000)
		others := []Option{WithLimitsFor(func(key string) []Limit {
			if key == "own" {
				return []Limit{Per(9, 70).Counter(), Per(5, 30).Log()}
			}
			return nil
		})}
		if seed%2 == 1 {
			others = append(others, WithChargeDenied())
		}
		limits := []Limit{randomLimit(rng), randomLimit(rng)}[:1+rng.IntN(2)]
		l := newTest(t, append(append(options(limits), others...), WithClock(clock))...)
		require.NoError(t, l.SetLimits("set", randomLimit(rng), randomLimit(rng)))
		require.NoError(t, l.SetLimits("set and never seen", randomLimit(rng)))
		names := []string{"", "a", "b", "own", "set", "set and never seen", "new"}
		charge := func(l *Limiter, rng *rand.Rand) {
			key, n := names[rng.IntN(len(names)-2)], 1+rng.Int64N(4)
			switch rng.IntN(4) {
			case 0:
				r, _ := l.Reserve(key, n)
				r.Commit(rng.Int64N(12))
			case 1:
				l.TakeAll([]string{key, "a"}, n)
			default:
				l.Take(key, n)
			}
		}
		for range 30 {
			clock.Advance(time.Duration(rng.Int64N(20)))
			charge(l, rng)
		}

		restored := restoredCopy(t, l, rng.Int64N(1000), others...)
		require.Equal(t, l.Len(), restored.Len())
		for i := range 40 {
			clock.Advance(time.Duration(rng.Int64N(20)))
			for _, name := range names {
				require.Equal(t, l.Peek(name, 1), restored.Peek(name, 1), "seed %d, key %q", seed, name)
			}
			same := rng.Uint64()
			charge(l, rand.New(rand.NewPCG(same, 0)))
			charge(restored, rand.New(rand.NewPCG(same, 0)))
			if i == 30 {
				next := randomLimit(rng)
				require.NoError(t, l.Reconfigure(next))
				require.NoError(t, restored.Reconfigure(next))
				require.NoError(t, l.SetLimits("set"))
				require.NoError(t, restored.SetLimits("set"))
			}
			if i == 35 {
				require.Equal(t, l.Sweep(), restored.Sweep())
			}
		}
	}
}

// The process is down from 11 am to 8 pm. Each unit is back at the same nanosecond as if it
// had not been down, and buckets end at the same instants.
func TestSnapshot_KeepsADailyQuota(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		back  time.Duration // when the units are back, since midnight
	}{
		"log":     {PerDay(5).Log(), 34 * time.Hour},
		"buckets": {PerDay(5).Buckets(time.Hour), 34 * time.Hour},
		"fixed":   {PerDay(5).Buckets(day), 24 * time.Hour},
		"counter": {PerDay(5).Counter(), 24*time.Hour + day/5},
		"tokens":  {PerDay(1).TokenBucket(5), 34 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			midnight := time.Date(2025, 11, 20, 0, 0, 0, 0, time.UTC)
			clock := NewManualClock(int64(10 * time.Hour))
			l := newTest(t, c.limit, WithClock(clock))
			require.True(t, l.AllowN("k", 5))
			clock.Set(int64(11 * time.Hour))
			l.wall = func() time.Time { return midnight.Add(11 * time.Hour) }
			saved := snapshot(t, l)

			clock = NewManualClock(-77)
			l = newTest(t, c.limit, WithClock(clock))
			l.wall = func() time.Time { return midnight.Add(20 * time.Hour) }
			require.NoError(t, l.Restore(bytes.NewReader(saved)))
			require.Equal(t, c.back-20*time.Hour, l.Peek("k", 1).RetryAfter)
			clock.Advance(c.back - 20*time.Hour - 1)
			require.False(t, l.Allow("k"))
			clock.Advance(1)
			require.True(t, l.Allow("k"))
		})
	}
}

// Snapshot and Restore read the wall clock and the limiter's clock, here the clocks of a bubble.
func TestSnapshot_ReadsTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTest(t, PerMinute(1).Log())
		l.Allow("k")
		<-time.After(10 * time.Second)
		saved := snapshot(t, l)
		<-time.After(20 * time.Second)
		l = newTest(t, PerMinute(1).Log())
		require.NoError(t, l.Restore(bytes.NewReader(saved)))
		require.Equal(t, 30*time.Second, l.Peek("k", 1).RetryAfter)
		start := time.Now()
		require.NoError(t, l.Wait(t.Context(), "k", 1))
		require.Equal(t, 30*time.Second, time.Since(start), "the timer runs in the clock's time")
	})
}

// The snapshot keeps the floor: an evicted key does not start before it became idle.
func TestSnapshot_KeepsTheFloor(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(2).Log(), WithClock(clock))
	require.True(t, l.AllowN("k", 2))
	clock.Set(int64(time.Hour))
	require.Equal(t, 1, l.Sweep())
	restored := restoredCopy(t, l, 1000)
	clock.Set(0)
	for _, l := range []*Limiter{l, restored} {
		require.True(t, l.AllowN("k", 2))
		clock.Set(int64(time.Minute))
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "they count from the floor, at which the key became idle")
		clock.Set(0)
	}
}

func TestSnapshot_OfEntriesOfTheSmallestKind(t *testing.T) {
	l := newTest(t, PerMinute(10).Counter(), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("settled", 3)
	r.Commit(2)
	r, _ = l.Reserve("in debt", 1)
	r.Commit(30)
	restored := restoredCopy(t, l, 0)
	entryOfKey := func(name string) *entry { return restored.find(restored.current.Load(), restored.key(name)) }
	require.False(t, entryOfKey("settled").isMulti())
	require.True(t, entryOfKey("in debt").isMulti(), "a smaller kind cannot hold a debt")
	require.EqualValues(t, 8, restored.Peek("settled", 0).Remaining)
	require.False(t, restored.Peek("in debt", 0).Allowed)
}

// If an entry dies before it is read, the snapshot has its successor, or nothing.
func TestSnapshot_OfEntriesThatDie(t *testing.T) {
	l := newTest(t, PerMinute(10).Counter(), WithClock(NewManualClock(0)))
	g, k := l.current.Load(), l.key("k")
	require.True(t, l.AllowN("k", 2))
	e := l.find(g, k)
	l.Reserve("k", 1) // in a multi-limit entry, which replaces e
	_, alive := e.loadUnlocked()
	require.False(t, alive)
	record, tracked := g.appendKey(nil, k, e)
	require.True(t, tracked)
	require.Equal(t, numbers("k", 0, 0, 3, int64(0)), record)

	e = l.find(g, k)
	word, _ := e.loadUnlocked()
	require.True(t, e.tryKill(word))
	_, tracked = g.appendKey(nil, k, e)
	require.False(t, tracked, "the entry is dead, and still in the table")
	require.False(t, l.Reset("k"))
	_, tracked = g.appendKey(nil, k, e)
	require.False(t, tracked, "the entry is no longer in the table")
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Snapshot holds no lock while the writer writes. The writer may call the limiter itself.
func TestSnapshot_BlocksNoCall(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		const keys = 1_000
		name := func(i int) string { return strings.Repeat("long ", 20) + strconv.Itoa(i) }
		for i := range keys {
			l.Allow(name(i))
		}
		writes, key := 0, 0
		require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
			require.LessOrEqual(t, len(b), blockHeadSize+maxPayload)
			if writes++; writes > 4 {
				return len(b), nil
			}
			for range keys / 2 {
				require.True(t, l.TakeAll([]string{name(key % keys), name(-key)}, 1).Allowed)
				key++
			}
			require.True(t, l.Reset(name(key%keys)))
			l.Sweep()
			return len(b), nil
		})))
		require.Greater(t, writes, 3)
	})
}

func TestSnapshot_ReturnsTheWritersError(t *testing.T) {
	l := newTest(t, PerMinute(10))
	for i := range 1000 {
		l.Allow(strings.Repeat("long ", 20) + strconv.Itoa(i))
	}
	require.NoError(t, l.SetLimits("k", PerMinute(5)))
	whole := len(snapshot(t, l))
	for _, space := range []int{0, 9, 10, 1000, whole / 2, whole - 1} {
		written, failed, full := 0, false, errors.New("disk full")
		err := l.Snapshot(writerFunc(func(b []byte) (int, error) {
			require.False(t, failed, "nothing is written after an error")
			if written += len(b); written > space {
				failed = true
				return 0, full
			}
			return len(b), nil
		}))
		require.ErrorIs(t, err, full)
		require.EqualError(t, err, "sash: snapshot: disk full")
	}
	require.ErrorIs(t, l.Snapshot(writerFunc(func(b []byte) (int, error) { return len(b) - 1, nil })), io.ErrShortWrite)
}

// held returns the units that the key holds under each of the limiter's own limits. Little
// time has passed since it was charged first.
func (l *Limiter) held(name string) (units []int64) {
	g := l.current.Load()
	e := l.find(g, l.key(name))
	if e == nil {
		return []int64{0}
	}
	for i := range g.ruleset.rules {
		h := g.ruleset.stateOf(e, e.Word.Load(), i)
		switch r := g.ruleset.rules[i].algorithm.(type) {
		case *slidingCounter:
			units = append(units, h.window().Prev+h.window().Curr)
		case *slidingLog:
			units = append(units, int64(h.ring.view().unitsSince(0)))
		case *tokenBucket:
			// At instant 0, before all charges, nothing of them has flowed back. But the first
			// was not at 0, so round down.
			lack := r.bucket.Lack(h.debt(), 0).Minus(r.bucket.Cost(1)).Plus(window.Amount{Lo: 1})
			units = append(units, r.bucket.Units(lack))
		}
	}
	return units
}

// Snapshots are taken one after another while calls run. Each snapshot:
//   - holds all units admitted before it began
//   - holds no units admitted after it ended
//   - holds the same units of a key under each limit
func TestRace_SnapshotsHaveWhatWasAdmittedBefore(t *testing.T) {
	const plenty = 1_000_000
	everyCrowd(t, PerMinute(plenty), snapshotsDuringCalls)
	everyCrowd(t, PerMinute(plenty), func(t *testing.T, l *Limiter, c *crowd) {
		require.NoError(t, l.Reconfigure(PerHour(plenty), PerMinute(plenty).Log(), PerDay(plenty).Buckets(time.Minute)))
		snapshotsDuringCalls(t, l, c)
	})
}

func snapshotsDuringCalls(t *testing.T, l *Limiter, c *crowd) {
	const keys = 100
	snapshots := 6
	if yielding {
		snapshots = 2 // the logs grow during a slow snapshot, so the next one is slower
	}
	var begun, ended [keys]atomic.Int64
	var over atomic.Bool
	during := 0 // keys that were charged during a snapshot
	c.run(func(caller int) {
		rng := rand.New(rand.NewPCG(uint64(caller), 12))
		for caller > 0 && !over.Load() {
			i, n := rng.IntN(keys), 1+rng.Int64N(3)
			key := strconv.Itoa(i)
			c.call(func() {
				begun[i].Add(n)
				switch rng.IntN(8) {
				case 0:
					l.Reserve(key, n) // so that entries replace others
				case 1:
					l.TakeAll([]string{key}, n)
				default:
					c.Advance(1)
					l.AllowN(key, n)
				}
				ended[i].Add(n)
			})
		}
		if caller > 0 {
			return
		}
		defer over.Store(true)
		for taken := 0; taken < snapshots || taken < 10_000 && (c.overlaps.Load() <= 100 || during <= snapshots); taken++ {
			var before, after [keys]int64
			for i := range ended {
				before[i] = ended[i].Load()
			}
			var saved bytes.Buffer
			require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
				runtime.Gosched() // to the other callers, if there is one core
				return saved.Write(b)
			})))
			for i := range begun {
				after[i] = begun[i].Load()
			}
			restored := newTest(t, options(l.own().limits())...)
			require.NoError(t, restored.Restore(&saved))
			for i := range keys {
				units := restored.held(strconv.Itoa(i))
				for _, n := range units {
					require.GreaterOrEqual(t, n, before[i], "key %d", i)
					require.LessOrEqual(t, n, after[i], "key %d", i)
					require.Equal(t, units[0], n, "key %d", i)
				}
				if after[i] > before[i] {
					during++
				}
			}
		}
	})
	require.Greater(t, during, snapshots, "too few keys were charged during snapshots: this test has shown nothing")
}

// Each window is charged a different number of units. So a torn read, half of one window and
// half of the next, would be found.
func TestRace_SnapshotsOfWindowsThatMove(t *testing.T) {
	const size, maxUnits = 1000, 1000
	enough := shortened(500)
	units := func(index int64) int64 { return 1 + index%maxUnits }
	everyCounter(t, Per(2*maxUnits, size), func(t *testing.T, l *Limiter, clock *ManualClock) {
		clock.Set(0)
		require.True(t, l.AllowN("k", units(0)))
		g := l.current.Load()
		e := l.find(g, l.key("k"))
		var over atomic.Bool
		var mover errgroup.Group
		mover.Go(func() error {
			for index := int64(1); !over.Load(); index++ {
				clock.Set(index * size)
				l.AllowN("k", units(index))
			}
			return nil
		})
		moves, last := 0, int64(0)
		for round := 0; round < 10_000_000 && moves < enough && !t.Failed(); round++ {
			record, alive := g.ruleset.appendEntry(nil, e)
			require.True(t, alive)
			s := &snapshotReader{rest: record}
			require.Zero(t, s.uint(), "limits of its own")
			w := g.ruleset.rules[0].algorithm.readState(state{}, s).window()
			if w.Curr != units(w.Index) || w.Index > 0 && w.Prev != units(w.Index-1) {
				t.Errorf("torn: %+v", w)
			}
			if w.Index != last {
				moves, last = moves+1, w.Index
			} else {
				runtime.Gosched() // to the goroutine that moves the clock, if there is one core
			}
		}
		over.Store(true)
		mover.Wait()
		require.GreaterOrEqual(t, moves, enough, "the window moved too few times: this test has shown too little")
	})
}

// A snapshot ends even if a log changes faster than it can be read. Here a read takes longer
// than a goroutine runs without preemption.
func TestRace_SnapshotsOfABusyLogEnd(t *testing.T) {
	const records = 200_000
	clock := NewManualClock(records)
	l := newTest(t, Per(records, records).Log(), WithClock(clock))
	long := newRing(records)
	long.bounds = packBounds(0, records-1)
	for i := 1; i < records; i++ {
		*long.slot(i) = record{int64(i + 1), uint64(i)}
	}
	l.current.Load().resizeLog(l.key("k"), l.put(l.key("k")), func(ringView) (kept ringView, room int) {
		return long.view(), long.room()
	})
	require.True(t, l.Allow("k"))
	require.Zero(t, l.Peek("k", 0).Remaining)

	var charged atomic.Int64
	var over atomic.Bool
	var g errgroup.Group
	for range 2 {
		g.Go(func() error {
			for !over.Load() {
				clock.Advance(1)
				l.Allow("k")
				charged.Add(1)
			}
			return nil
		})
	}
	busy := 0 // snapshots during which the log was charged
	for taken := 0; taken < 1000 && busy < 2; taken++ {
		before := charged.Load()
		snapshot(t, l)
		if charged.Load() > before {
			busy++
		}
	}
	over.Store(true)
	g.Wait()
	require.Equal(t, 2, busy, "nothing was charged during a snapshot: this test has shown nothing")
}

// A snapshot of a million keys holds all of them, while other calls charge other keys and
// peek at these.
func TestSnapshot_OfAMillionKeysDuringCalls(t *testing.T) {
	keys := thorough(1_000_000)
	clock := NewManualClock(0)
	l := newTest(t, PerHour(1000), WithClock(clock), WithSizeHint(keys))
	for i := range keys {
		l.AllowN(strconv.Itoa(i), int64(1+i%999))
	}
	restored := newTest(t, PerHour(1000), WithClock(NewManualClock(5)))
	restored.Allow("gone")
	var over atomic.Bool
	var calls int64 // charge only other keys, so that the state of all keys is still the same
	var g errgroup.Group
	g.Go(func() error {
		for i := 0; !over.Load(); i++ {
			l.Allow("other " + strconv.Itoa(i%5000))
			l.Peek(strconv.Itoa(i%keys), 1)
			restored.Allow("gone, too")
			calls++
		}
		return nil
	})
	wall := time.Now()
	l.wall = func() time.Time { return wall }
	restored.wall = l.wall
	saved := snapshot(t, l)
	require.NoError(t, restored.Restore(bytes.NewReader(saved)))
	over.Store(true)
	g.Wait()
	t.Logf("%d keys in %d bytes, during %d calls", keys, len(saved), calls)
	require.Greater(t, calls, int64(10), "no calls: this test has shown nothing")
	require.GreaterOrEqual(t, restored.Len(), keys)
	for _, at := range []time.Duration{0, 61 * time.Minute, 90*time.Minute + 1} {
		clock.Set(int64(at))
		restored.clock = clockFunc(func() int64 { return 5 + int64(at) })
		for i := range keys {
			key := strconv.Itoa(i)
			if l.Peek(key, 1) != restored.Peek(key, 1) {
				require.Equal(t, l.Peek(key, 1), restored.Peek(key, 1), "key %s", key)
			}
		}
	}
	require.EqualValues(t, 1000, restored.Peek("gone", 0).Remaining)
}

// options returns limits as options of New.
func options(limits []Limit) (options []Option) {
	for _, limit := range limits {
		options = append(options, limit)
	}
	return options
}

// manyKeys returns a limiter of a million keys. A goroutine calls it until b ends.
func manyKeys(b *testing.B) *Limiter {
	const keys = 1_000_000
	l := newTest(b, PerHour(1000))
	for i := range keys {
		l.AllowN("key:"+strconv.Itoa(i), int64(1+i%999))
	}
	var over atomic.Bool
	var g errgroup.Group
	g.Go(func() error {
		for i := 0; !over.Load(); i++ {
			l.Allow("key:" + strconv.Itoa(i%keys))
		}
		return nil
	})
	b.Cleanup(func() {
		over.Store(true)
		g.Wait()
	})
	return l
}

// One operation is a snapshot of a million keys, while another goroutine calls the limiter
// without a pause.
func BenchmarkSnapshot(b *testing.B) {
	l := manyKeys(b)
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, l.Snapshot(io.Discard))
	}
}

func BenchmarkRestore(b *testing.B) {
	l := manyKeys(b)
	saved := snapshot(b, l)
	b.SetBytes(int64(len(saved)))
	b.ReportAllocs()
	for b.Loop() {
		require.NoError(b, l.Restore(bytes.NewReader(saved)))
	}
}

// A snapshot outlives the version of sash that wrote it. So its bytes change only together
// with the version of the format.
func TestSnapshot_BytesAreThoseOfItsVersion(t *testing.T) {
	for name, golden := range map[string]struct {
		limits []Limit
		want   string
	}{
		"counter":        {[]Limit{PerMinute(100).Counter()}, "73617368736e617001420000007c3b07e9bcb0f3098080d0e2c6bfce972f80f0ded0cfd501016480b09dc2df01000001036b65790003057a02056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff01000000000f0ea498db749a22"},
		"large counter":  {[]Limit{Per(1e15, time.Hour).Counter()}, "73617368736e6170014900000077b3165a004808de8080d0e2c6bfce972f80f0ded0cfd5010180809aa6eaafe30180c0e285e368000001036b65790000080202056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff01000000000518e230b02aa110"},
		"log":            {[]Limit{PerMinute(100).Log()}, "73617368736e6170014800000091441c3a33ba6b2b8080d0e2c6bfce972f80f0ded0cfd501016480b09dc2df01010001036b6579000180f0ded0cfd5010502056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff010000000024de7da064c6353c"},
		"buckets":        {[]Limit{PerHour(240).Buckets(time.Minute)}, "73617368736e6170014a0000001b5585245507c8268080d0e2c6bfce972f80f0ded0cfd50101f00180c0e285e3680280b09dc2df0101036b657900027803010502056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff0100000000df95c71163287edb"},
		"parts":          {[]Limit{PerMinute(100)}, "73617368736e6170014300000020c1f4c1f1e2b4b58080d0e2c6bfce972f80f0ded0cfd501016480b09dc2df01040001036b65790001a60f0502056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff010000000041a952ddf12a9423"},
		"wide parts":     {[]Limit{PerMinute(1000)}, "73617368736e61700144000000a2860ddfc06afa118080d0e2c6bfce972f80f0ded0cfd50101e80780b09dc2df01040001036b65790001a60f0502056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff010000000094c5835a35eaeba8"},
		"token bucket":   {[]Limit{PerSecond(1).TokenBucket(100)}, "73617368736e61700148000000960ef6f51b887b6c8080d0e2c6bfce972f80f0ded0cfd50101018094ebdc0303006401036b6579000001feb78ef1f4d50102056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff01000000008f70bcf47590842f"},
		"large bucket":   {[]Limit{PerMinute(12_345).TokenBucket(1e6)}, "73617368736e61700151000000c4dc0bf85a9ea7b08080d0e2c6bfce972f80f0ded0cfd50101b96080b09dc2df010300c0843d01036b6579000080f092cbdd0880f0ded0cfd50102056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff01000000004820202df421b7c9"},
		"several limits": {[]Limit{PerSecond(10).Counter(), PerHour(240).Log()}, "73617368736e6170015c00000001da4b59bbe2e31f8080d0e2c6bfce972f80f0ded0cfd501020a8094ebdc030000f00180c0e285e368010001036b6579000005ac39028080c58bc6d1010380f8cce284020502056f7468657201078080bc8ac9d2130000000101ffffffffffffffffff01000000004f89710ff26007ae"},
	} {
		clock := NewManualClock(int64(time.Hour))
		l := newTest(t, append(options(golden.limits), WithClock(clock))...)
		l.wall = func() time.Time { return time.Unix(1.7e9, 0) }
		l.AllowN("key", 3)
		clock.Advance(70 * time.Second)
		l.AllowN("key", 5)
		require.NoError(t, l.SetLimits("other", PerDay(7).Counter()))
		require.Equal(t, golden.want, hex.EncodeToString(snapshot(t, l)), name)

		b, err := hex.DecodeString(golden.want)
		require.NoError(t, err)
		next := newTest(t, append(options(golden.limits), WithClock(clock))...)
		next.wall = l.wall
		require.NoError(t, next.Restore(bytes.NewReader(b)))
		require.Equal(t, l.Peek("key", 0), next.Peek("key", 0), name)
		require.Equal(t, l.Peek("other", 0), next.Peek("other", 0), name)
	}
}

// A hookedWriter calls second at its second Write.
type hookedWriter struct {
	bytes.Buffer
	writes int
	second func()
}

func (w *hookedWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 2 {
		w.second()
	}
	return w.Buffer.Write(p)
}

// A log that grows while a snapshot is written is replaced by another. Under a cap, the snapshot has it all
// the same.
func TestSnapshot_HasALogThatGrowsWhileItIsWritten(t *testing.T) {
	const keys = 400
	clock := NewManualClock(0)
	l := newTest(t, PerHour(1000).Log(), WithClock(clock), WithMaxKeys(keys, DenyNew))
	names := make([]string, keys)
	for i := range names {
		names[i] = strings.Repeat("n", 200) + strconv.Itoa(i) // several blocks of the snapshot
		require.True(t, l.Allow(names[i]))
	}
	out := &hookedWriter{second: func() { // while keys are written
		clock.Advance(1)
		for _, name := range names {
			require.True(t, l.Allow(name))
		}
	}}
	require.NoError(t, l.Snapshot(out))
	o := newTest(t, PerHour(1000).Log(), WithClock(clock), WithMaxKeys(keys, DenyNew))
	require.NoError(t, o.Restore(&out.Buffer))
	require.Equal(t, keys, o.Len())
}
