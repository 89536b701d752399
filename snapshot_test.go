package sash

import (
	"bytes"
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
)

// snapshot returns what l.Snapshot writes.
func snapshot(t testing.TB, l *Limiter) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, l.Snapshot(&b))
	return b.Bytes()
}

// reborn returns a limiter of the same limits, on a clock that reads by offset more
// than that of l, with what l holds.
func reborn(t testing.TB, l *Limiter, offset int64, others ...Option) *Limiter {
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

// A limiter that is restored over and over from the one before, whatever its clock's
// origin, answers as the reference does that knows nothing of it.
func TestSnapshot_ChangesNoAnswer(t *testing.T) {
	eachTrial(t, func(tr *trial) {
		offset := int64(1e12)
		if tr.limit.Window > 1<<60 { // the clock nears the end of time
			offset = 0
		}
		back := tr.rng.IntN(2) == 0
		for range 40 {
			tr.move(back)
			if !back && tr.rng.IntN(5) == 0 {
				tr.l.Sweep()
			}
			if tr.rng.IntN(15) == 0 {
				tr.l = reborn(tr, tr.l, offset/2-tr.rng.Int64N(offset+1))
			}
			tr.call(string(rune('a'+tr.rng.IntN(2))), tr.cost())
		}
	})
}

func TestSnapshot_ChangesNoAnswerUnderSeveralLimits(t *testing.T) {
	eachPolicyTrial(t, func(tr *policyTrial) {
		for range 60 {
			tr.move(true)
			if tr.rng.IntN(10) == 0 {
				tr.l = reborn(tr, tr.l, 500-tr.rng.Int64N(1000))
			}
			tr.call()
		}
	})
}

// What no reference has: keys with limits of their own, and past their limits,
// reservations, changes of limits. The restored limiter answers as the original,
// which has gone on while nobody was there.
func TestSnapshot_AnswersAsTheOriginal(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 11))
		clock := NewManualClock(rng.Int64N(2000) - 1000)
		others := []Option{WithLimitsFor(func(key string) []Limit {
			if key == "own" {
				return []Limit{Per(9, 70), Per(5, 30).Log()}
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

		restored := reborn(t, l, rng.Int64N(1000), others...)
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

// The process is down from 11 am to 8 pm: to the nanosecond, 5 a day are back when
// they would have been, and a day of buckets ends when it would have.
func TestSnapshot_KeepsADailyQuota(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		back  time.Duration // since midnight
	}{
		"log":     {PerDay(5).Log(), 34 * time.Hour},
		"buckets": {PerDay(5).Buckets(time.Hour), 34 * time.Hour},
		"fixed":   {PerDay(5).Buckets(day), 24 * time.Hour},
		"counter": {PerDay(5), 24*time.Hour + day/5},
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

// With a bubble's clocks, which are both read.
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
		require.Equal(t, 30*time.Second, time.Since(start), "the alarm is in the clock's time")
	})
}

// An evicted key is as one never seen, but not at a reading before it was so.
func TestSnapshot_KnowsWhatIsForgotten(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(2).Log(), WithClock(clock))
	require.True(t, l.AllowN("k", 2))
	clock.Set(int64(time.Hour))
	require.Equal(t, 1, l.Sweep())
	restored := reborn(t, l, 1000)
	clock.Set(0)
	for _, l := range []*Limiter{l, restored} {
		require.True(t, l.AllowN("k", 2))
		clock.Set(int64(time.Minute))
		require.EqualValues(t, 0, l.Peek("k", 0).Remaining, "they count from when the key was fresh")
		clock.Set(0)
	}
}

func TestSnapshot_OfCellsOfTheSmallestKind(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("settled", 3)
	r.Commit(2)
	r, _ = l.Reserve("in debt", 1)
	r.Commit(30)
	restored := reborn(t, l, 0)
	cellOf := func(name string) *cell { return restored.find(restored.now.Load(), restored.key(name)) }
	require.False(t, cellOf("settled").compounded())
	require.True(t, cellOf("in debt").compounded(), "as nothing smaller holds it")
	require.EqualValues(t, 8, restored.Peek("settled", 0).Remaining)
	require.False(t, restored.Peek("in debt", 0).Allowed)
}

// A cell that dies before it is read has left a successor, or nothing.
func TestSnapshot_OfCellsThatDie(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	g, k := l.now.Load(), l.key("k")
	require.True(t, l.AllowN("k", 2))
	c := l.find(g, k)
	l.Reserve("k", 1) // in a larger one
	_, alive := c.current()
	require.False(t, alive)
	record, tracked := g.appendKey(nil, k, c)
	require.True(t, tracked)
	require.Equal(t, numbers("k", 0, 0, 3, int64(0)), record)

	c = l.find(g, k)
	word, _ := c.current()
	require.True(t, c.kill(word))
	_, tracked = g.appendKey(nil, k, c)
	require.False(t, tracked, "dead, and still in the table")
	require.False(t, l.Reset("k"))
	_, tracked = g.appendKey(nil, k, c)
	require.False(t, tracked, "and no more")
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// Nothing that a caller would wait for is held while w writes: it may call the
// limiter itself.
func TestSnapshot_HoldsUpNobody(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, _ *ManualClock) {
		const keys = 1_000
		name := func(i int) string { return strings.Repeat("long ", 20) + strconv.Itoa(i) }
		for i := range keys {
			l.Allow(name(i))
		}
		writes, key := 0, 0
		require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
			require.LessOrEqual(t, len(b), blockHead+mostPayload)
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
	for _, most := range []int{0, 9, 10, 1000, whole / 2, whole - 1} {
		written, failed, full := 0, false, errors.New("disk full")
		err := l.Snapshot(writerFunc(func(b []byte) (int, error) {
			require.False(t, failed, "nothing is written after an error")
			if written += len(b); written > most {
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

// held returns the units that the key of that name holds under each of its limits.
func (l *Limiter) held(name string) (units []int64) {
	g := l.now.Load()
	c := l.find(g, l.key(name))
	if c == nil {
		return []int64{0}
	}
	for i := range g.policy.rules {
		h := g.policy.holding(c, c.word.Load(), i)
		if g.policy.rules[i].Algorithm == SlidingCounter {
			units = append(units, h.prev+h.curr)
		} else {
			units = append(units, int64(h.view.since(0)))
		}
	}
	return units
}

// Callers at work while one snapshot is taken after the other: each has all that was
// admitted before it began, nothing that was after it ended, and of each key the
// same under every limit.
func TestRace_SnapshotsHaveWhatWasAdmittedBefore(t *testing.T) {
	const plenty = 1_000_000
	everyCrowd(t, PerMinute(plenty), snapshotsBesideCalls)
	everyCrowd(t, PerMinute(plenty), func(t *testing.T, l *Limiter, c *crowd) {
		require.NoError(t, l.Reconfigure(PerHour(plenty), PerMinute(plenty).Log(), PerDay(plenty).Buckets(time.Minute)))
		snapshotsBesideCalls(t, l, c)
	})
}

func snapshotsBesideCalls(t *testing.T, l *Limiter, c *crowd) {
	const keys = 100
	snapshots := 6
	if yielding {
		snapshots = 2 // while one is slow, the logs grow, and the next one is slower
	}
	var begun, ended [keys]atomic.Int64
	var over atomic.Bool
	during := 0 // keys that were charged while a snapshot was taken
	c.run(func(caller int) {
		rng := rand.New(rand.NewPCG(uint64(caller), 12))
		for caller > 0 && !over.Load() {
			i, n := rng.IntN(keys), 1+rng.Int64N(3)
			key := strconv.Itoa(i)
			c.call(func() {
				begun[i].Add(n)
				switch rng.IntN(8) {
				case 0:
					l.Reserve(key, n) // so that cells take the place of others
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
			var least, most [keys]int64
			for i := range ended {
				least[i] = ended[i].Load()
			}
			var saved bytes.Buffer
			require.NoError(t, l.Snapshot(writerFunc(func(b []byte) (int, error) {
				runtime.Gosched() // to the others, if there is one core
				return saved.Write(b)
			})))
			for i := range begun {
				most[i] = begun[i].Load()
			}
			restored := newTest(t, options(l.own().limits())...)
			require.NoError(t, restored.Restore(&saved))
			for i := range keys {
				units := restored.held(strconv.Itoa(i))
				for _, n := range units {
					require.GreaterOrEqual(t, n, least[i], "key %d", i)
					require.LessOrEqual(t, n, most[i], "key %d", i)
					require.Equal(t, units[0], n, "key %d", i)
				}
				if most[i] > least[i] {
					during++
				}
			}
		}
	})
	require.Greater(t, during, snapshots, "hardly a key was charged meanwhile: this test has shown nothing")
}

// Each window is charged a number of its own, so that one read while it gives way to
// the next, half the one and half the other, would show.
func TestRace_SnapshotsOfWindowsThatMove(t *testing.T) {
	const size, most, enough = 1000, 1000, 500
	units := func(index int64) int64 { return 1 + index%most }
	counters(t, Per(2*most, size), func(t *testing.T, l *Limiter, clock *ManualClock) {
		clock.Set(0)
		require.True(t, l.AllowN("k", units(0)))
		g := l.now.Load()
		c := l.find(g, l.key("k"))
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
			record, alive := g.policy.appendCell(nil, c)
			require.True(t, alive)
			s := &snapshotReader{rest: record}
			require.Zero(t, s.uint(), "limits of its own")
			w := s.window(&g.policy.rules[0])
			if w.curr != units(w.index) || w.index > 0 && w.prev != units(w.index-1) {
				t.Errorf("torn: %+v", w)
			}
			if w.index != last {
				moves, last = moves+1, w.index
			} else {
				runtime.Gosched() // to the mover, if there is one core
			}
		}
		over.Store(true)
		mover.Wait()
		require.GreaterOrEqual(t, moves, enough, "the window hardly moved: this test has shown too little")
	})
}

// A log that changes faster than it can be read is read all the same: here reading it
// takes longer than a goroutine runs at a stretch.
func TestRace_SnapshotsOfABusyLogEnd(t *testing.T) {
	const runs = 200_000
	clock := NewManualClock(runs)
	l := newTest(t, Per(runs, runs).Log(), WithClock(clock))
	long := &ring{total: runs - 1, span: runs - 1, runs: make([]run, runs)}
	for i := range long.runs {
		long.runs[i] = run{int64(i + 2), uint64(i)}
	}
	l.put(l.key("k")).log().ring.Store(long)
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
	require.Equal(t, 2, busy, "nothing was charged meanwhile: this test has shown nothing")
}

// All keys of a million, while calls go on, on their own keys and on these.
func TestSnapshot_OfAMillionKeysBesideCalls(t *testing.T) {
	keys := thorough(1_000_000)
	clock := NewManualClock(0)
	l := newTest(t, PerHour(1000), WithClock(clock), WithSizeHint(keys))
	for i := range keys {
		l.AllowN(strconv.Itoa(i), int64(1+i%999))
	}
	restored := newTest(t, PerHour(1000), WithClock(NewManualClock(5)))
	restored.Allow("gone")
	var over atomic.Bool
	var calls int64 // on other keys, and of no cost on these, so that all are still the same
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
	t.Logf("%d keys in %d bytes, beside %d calls", keys, len(saved), calls)
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

// options returns limits as New wants them.
func options(limits []Limit) (options []Option) {
	for _, limit := range limits {
		options = append(options, limit)
	}
	return options
}

// manyKeys returns a limiter of a million keys, and a caller that goes on until b ends.
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

// One operation is a million keys, beside a caller that never pauses.
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
