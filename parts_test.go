package sash

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/internal/window"
)

// partsTraffic calls f with random limits that Per keeps in parts, and a random walk of the clock for each.
func partsTraffic(f func(limit Limit, rng *rand.Rand, move func(late bool) int64)) {
	for seed := range uint64(thorough(2500)) {
		rng := rand.New(rand.NewPCG(seed, 28))
		size := []time.Duration{time.Minute, time.Second, time.Hour, 16, 1000, 3 * time.Millisecond, 7 * time.Second}[rng.IntN(7)]
		count := []int64{17, 100, 255, 256, 1000, 65535, 65536, 1 << 40}[rng.IntN(8)]
		now := rng.Int64N(int64(day)) - int64(day)/2
		f(Per(count, size), rng, func(late bool) int64 {
			switch rng.IntN(40) {
			case 0:
				now += rng.Int64N(int64(size))
			case 1:
				now += rng.Int64N(int64(size)/8 + 1)
			default:
				now += rng.Int64N(int64(size)/200 + 2)
			}
			if late && rng.IntN(20) == 0 {
				return now - rng.Int64N(int64(size))
			}
			return now
		})
	}
}

// partsCost draws a cost: one unit, or a part of Count.
func partsCost(limit Limit, rng *rand.Rand) int64 {
	switch rng.IntN(4) {
	case 0:
		return 1 + rng.Int64N(limit.Count)
	case 1:
		return 1 + rng.Int64N(limit.Count/10+1)
	}
	return 1 + limit.Count/300
}

// What a log admits keeps to Count in any Window. The default admits it, too.
func TestPer_AConformingClientIsNeverDenied(t *testing.T) {
	t.Parallel()
	partsTraffic(func(limit Limit, rng *rand.Rand, move func(bool) int64) {
		clock := NewManualClock(0)
		log, parts := newTest(t, limit.Log(), WithClock(clock)), newTest(t, limit, WithClock(clock))
		key := strconv.Itoa(rng.IntN(1000))
		for range 2000 {
			clock.Set(move(true))
			n := partsCost(limit, rng)
			if log.AllowN(key, n) {
				require.True(t, parts.AllowN(key, n), "%v, key %s, %d units at %d", limit, key, n, clock.Now())
			}
		}
	})
}

// What each algorithm denies of three clients that never send more than 100 in any minute, for 100 minutes.
func TestConformingClients_AreDeniedByTheCounterAlone(t *testing.T) {
	t.Parallel()
	const count, minutes = 100, 100
	limit := PerMinute(count)
	rng := rand.New(rand.NewPCG(28, 1))
	clients := map[string][]int64{} // the instants of their requests
	for i := range int64(count * minutes) {
		clients["steady"] = append(clients["steady"], i*int64(time.Minute)/count)
		clients["at once"] = append(clients["at once"], i/count*int64(time.Minute))
	}
	clock := NewManualClock(0)
	exact := newTest(t, limit.Log(), WithClock(clock))
	for i := range int64(count * minutes) { // 100 a minute on average, without those that would be too many
		clock.Set(max(clock.Now(), i*int64(time.Minute)/count+rng.Int64N(int64(30*time.Second))))
		if exact.Allow("k") {
			clients["at random"] = append(clients["at random"], clock.Now())
		}
	}
	for client, instants := range clients {
		for _, l := range []Limit{limit.Counter(), limit.Log(), limit.Parts(), limit.TokenBucket(count)} {
			clock := NewManualClock(0)
			limiter, denied := newTest(t, l, WithClock(clock)), 0
			for _, at := range instants {
				clock.Set(at)
				if !limiter.Allow("k") {
					denied++
				}
			}
			t.Logf("%s: %v denies %d of %d", client, l, denied, len(instants))
			if l.Algorithm == SlidingCounter {
				require.Positive(t, denied)
			} else {
				require.Zero(t, denied, "%s: %v", client, l)
			}
		}
	}
}

// No more than Count is admitted in any 15/16 of a Window.
func TestParts_AdmitNoMoreThanCountInFifteenSixteenths(t *testing.T) {
	t.Parallel()
	partsTraffic(func(limit Limit, rng *rand.Rand, move func(bool) int64) {
		r := newTest(t, limit).rule()
		covered := (r.ticks.Life - 1) * r.ticks.Length // 15/16 of Window, if sixteen divide it
		clock := NewManualClock(0)
		l := newTest(t, limit, WithClock(clock))
		key := strconv.Itoa(rng.IntN(1000))
		var admitted []charge
		sum, first := int64(0), 0 // of the charges in the last 15/16
		for range 2000 {
			clock.Set(move(false))
			n := partsCost(limit, rng)
			if !l.AllowN(key, n) {
				continue
			}
			admitted = append(admitted, charge{At: clock.Now(), Units: n})
			for sum += n; admitted[first].At <= clock.Now()-covered; first++ {
				sum -= admitted[first].Units
			}
			require.LessOrEqual(t, sum, limit.Count, "%v at %d", limit, clock.Now())
		}
	})
}

// Keys have parts that begin at different instants, and the same in every process.
func TestParts_EachKeyHasAShiftOfItsOwn(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(100).Parts(), WithClock(clock))
	resets := map[time.Duration]int{}
	for i := range 1000 {
		resets[l.Take(strconv.Itoa(i), 1).ResetAfter]++
	}
	require.Len(t, resets, window.Shifts)
	for reset, keys := range resets {
		require.Greater(t, reset, time.Minute*15/16)
		require.LessOrEqual(t, reset, time.Minute)
		require.InDelta(t, 1000/window.Shifts, keys, 20)
	}
	// The hash of "k" is 35 modulo 64: 35/64 of a part of 3.75 s have passed at instant 0.
	require.EqualValues(t, 35, window.ShiftOf("k"))
	require.Equal(t, time.Minute-35*(time.Minute/16/64), l.Take("k", 1).ResetAfter)
}

// A patient is a client that takes until it is denied, and then waits for as long as it was told.
type patient struct {
	at  int64
	key string
}

type patients []patient

func (w patients) Len() int           { return len(w) }
func (w patients) Less(i, j int) bool { return w[i].at < w[j].at }
func (w patients) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *patients) Push(x any)        { *w = append(*w, x.(patient)) }
func (w *patients) Pop() any {
	old := *w
	last := old[len(old)-1]
	*w = old[:len(old)-1]
	return last
}

// herd returns how many times the mean of the admitted units the busiest 100 ms has, of 1,000 clients that
// spend 100 a minute, begin at random instants and wait as told.
func herd(t *testing.T, limit Limit) float64 {
	const clients, warm = 1000, 3 * int64(time.Minute)
	end := warm + int64(steps(10))*int64(time.Minute)
	clock := NewManualClock(0)
	l := newTest(t, limit, WithClock(clock))
	rng := rand.New(rand.NewPCG(1, 28))
	var all patients
	for i := range clients {
		heap.Push(&all, patient{rng.Int64N(int64(time.Minute)), fmt.Sprintf("10.0.%d.%d", i/256, i%256)})
	}
	busy, total := map[int64]int{}, 0
	for all[0].at < end {
		next := &all[0]
		clock.Set(next.at)
		d := l.Take(next.key, 1)
		for ; d.Allowed; d = l.Take(next.key, 1) {
			if next.at >= warm {
				busy[next.at/int64(100*time.Millisecond)]++
				total++
			}
		}
		next.at += int64(d.RetryAfter)
		heap.Fix(&all, 0)
	}
	most := 0
	for _, n := range busy {
		most = max(most, n)
	}
	return float64(most) / (float64(total) / float64((end-warm)/int64(100*time.Millisecond)))
}

// Clients that wait as told do not all come back at one instant.
func TestParts_AreNoHerd(t *testing.T) {
	if race.Enabled {
		t.Skip("all of it happens in one goroutine")
	}
	t.Parallel()
	of := map[string]float64{}
	for name, limit := range map[string]Limit{
		"log": PerMinute(100).Log(), "counter": PerMinute(100).Counter(), "parts": PerMinute(100).Parts(),
		"aligned parts": PerMinute(100).Buckets(time.Minute / 16), "token bucket": PerMinute(100).TokenBucket(100),
	} {
		of[name] = herd(t, limit)
	}
	t.Logf("the busiest 100 ms, as a multiple of the mean: %v", of)
	require.LessOrEqual(t, of["parts"], 5.0)
	require.Greater(t, of["aligned parts"], 20.0, "no herd to avoid")
}

// Lanes of every width equal numbers in a slice.
func TestLanes_EqualASlice(t *testing.T) {
	for trial := range uint64(thorough(3000)) {
		rng := rand.New(rand.NewPCG(trial, 3))
		kept := 1 + rng.IntN(maxLanes)
		bits := []uint{narrowLane, wideLane, fullLane}[rng.IntN(3)]
		most := uint64(math.MaxUint64)>>(64-bits) - 1
		l := newLanes(bits).lanes()
		model := make([]uint64, kept)
		for range 30 {
			sum := uint64(0)
			for _, units := range model {
				sum += units
			}
			require.Equal(t, sum, l.sumFrom(0))
			n, units := 1+rng.IntN(window.MaxParts), min(rng.Uint64N(20), most-min(sum, most))
			if rng.IntN(10) == 0 {
				units = most - min(sum, most)
			}
			l.turn(n, kept, units)
			model = append(make([]uint64, n), model...)[:kept]
			if n <= kept {
				model[n-1] = units
			}
			i := rng.IntN(kept)
			require.Equal(t, model[i], l.units(i), "lane %d of %d", i, kept)
			from, latest := uint64(0), -1
			for j, units := range model {
				if j >= i {
					from += units
				}
				if latest < 0 && units > 0 {
					latest = j
				}
			}
			require.Equal(t, from, l.sumFrom(i))
			require.Equal(t, latest, l.latest(kept))
			needed := 1 + rng.Uint64N(40)
			freeing := -1
			for j, held := kept-1, uint64(0); j >= 0 && freeing < 0; j-- {
				if held += model[j]; held >= needed {
					freeing = j
				}
			}
			require.Equal(t, freeing, l.freeing(kept, needed), "%d units of %v", needed, model)
			back := rng.Uint64N(model[i] + 1)
			l.take(i, back)
			model[i] -= back
		}
		newest, enough := rng.Uint64N(40), 1+rng.Uint64N(80)
		sum := newest
		for i, units := range model {
			if sum >= enough {
				model[i] = 0
			} else {
				sum += units
			}
		}
		require.Equal(t, sum, l.keep(newest, enough, kept))
		for i, units := range model {
			require.Equal(t, units, l.units(i), "lane %d, when %d units are needed", i, enough)
		}
	}
}

// A call that reads lanes without a lock may find halves of two states. Its answer is not used then, but it
// must end without a panic.
func TestLanes_SurviveWhatIsTorn(t *testing.T) {
	for trial := range uint64(thorough(3000)) {
		rng := rand.New(rand.NewPCG(trial, 4))
		limit := []Limit{PerMinute(100), PerMinute(10_000), PerMinute(1 << 30), Per(100, 17), Per(100, 3)}[rng.IntN(5)].Parts()
		rs := newOverrides(false, 0).newRuleset([]Limit{limit}, true)
		r, e := rs.onlyParts(), rs.newEntry("k")
		words := rs.stateOf(e, e.Word.Load(), 0)
		for i := range wordsOf(r.lanesOf(words).bits) {
			*r.lanesOf(words).word(i) = rng.Uint64() >> rng.IntN(64)
		}
		at, n := rng.Int64()>>rng.IntN(64), 1+rng.Int64N(limit.Count)
		r.index.Store(rng.Int64() >> rng.IntN(64))
		s := state{a: rng.Int64() >> rng.IntN(64), b: rng.Int64() >> rng.IntN(64), c: words.c, ring: words.ring}
		require.NotPanics(t, func() {
			q := query{at: at, n: n}
			r.admits(s, q)
			for _, res := range []result{retry, denied, admitted} {
				r.apply(s, q, res, tells)
			}
			r.expired(s, at)
			r.history(s, at)
			r.appendState(nil, s)
			if rs.kind == kindParts {
				word := rng.Uint64() >> 3
				e.Word.Store(word)
				r.tryFast(e, word, at, n, tells, new(Decision), new(Decision))
				r.denial(e, word, s.b, at, n)
			}
		}, "trial %d", trial)
	}
}

// Another call turns to a new part after a call has loaded the word of the key. Then the call tells and charges
// nothing by that word: the lanes are of another state.
func TestParts_ATurnAfterTheWordWasLoadedIsNoticed(t *testing.T) {
	for _, count := range []int64{100, 1000} {
		rs := newOverrides(false, 0).newRuleset([]Limit{PerMinute(count).Parts()}, true)
		r, e := rs.onlyParts(), rs.newEntry("k")
		require.Equal(t, admitted, rs.decide(e, query{n: count / 2, charge: true}, nil, nil))
		word := e.Word.Load()
		used, elapsed, res := r.charge(e, word, 0, count)
		require.Equal(t, denied, res)
		_, ok := r.denial(e, word, used, elapsed, count)
		require.True(t, ok)
		require.Equal(t, denied, r.tryFast(e, word, 0, count, stores|tells, new(Decision), nil))
		require.Equal(t, admitted, r.tryFast(e, word, 0, 1, tells, new(Decision), nil))

		later := int64(5 * time.Second)
		require.Equal(t, admitted, rs.decide(e, query{at: later, n: 1, charge: true}, nil, nil))
		turned := e.Word.Load()
		_, ok = r.denial(e, word, used, elapsed, count)
		require.False(t, ok)
		for _, at := range []int64{0, later, 2 * later} {
			require.Equal(t, retry, r.tryFast(e, word, at, count, stores|tells, new(Decision), nil))
			asked := retry
			if at == 0 {
				asked = admitted // in the newest part, the word alone tells: as it was when it was loaded
			}
			require.Equal(t, asked, r.tryFast(e, word, at, 1, tells, new(Decision), nil))
			require.Equal(t, retry, r.tryFast(e, word, at, 1, stores, nil, nil))
			require.Equal(t, retry, r.tryFast(e, word, at, 1, stores|tells, new(Decision), new(Decision)))
		}
		require.Equal(t, turned, e.Word.Load(), "nothing is charged")
		require.EqualValues(t, count/2, r.lanesOf(rs.stateOf(e, turned, 0)).sumFrom(0))
	}
}

// Outside the epochs of its word, a key gets a multi-limit entry.
func TestParts_CountBeforeAndAfterTheirEpochs(t *testing.T) {
	for _, limit := range []Limit{Per(255, 33*time.Microsecond).Parts(), Per(65535, 9*time.Millisecond).Parts()} {
		r := newTest(t, limit).rule()
		require.Equal(t, kindParts, r.kind, "%v", limit)
		size := int64(limit.Window)
		for _, from := range []int64{math.MinInt64, r.layout.begin - 2*size, r.layout.end - 2*size, math.MaxInt64 - 10*size} {
			for _, key := range []string{"a", "b", "c", "k"} {
				clock := NewManualClock(0)
				l := newTest(t, limit, WithClock(clock))
				clock.Set(from)
				model := reference.Named(modelOf(limit, false), key)
				for step := range int64(60) {
					clock.Advance(time.Duration(size / 7))
					n := 1 + step*step%limit.Count/3
					require.Equal(t, model.Take(clock.Now(), n).Allowed, l.AllowN(key, n))
					require.Equal(t, model.Peek(clock.Now(), 0).Remaining, l.Peek(key, 0).Remaining, "from %d, step %d", from, step)
				}
				require.Equal(t, 1, l.Len())
			}
		}
	}
}

// The newest part of a key may have given back all its units. Then the key is not restored to an entry whose
// denials rely on it that there are some.
func TestParts_TheNewestPartIsGivenBack(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(20).Parts(), WithClock(clock))
	require.True(t, l.AllowN("k", 10))
	clock.Advance(20 * time.Second)
	reservation, _ := l.Reserve("k", 10)
	reservation.Cancel()
	d := l.Take("k", 11)
	require.Less(t, d.ResetAfter, 40*time.Second)
	restored := restoredCopy(t, l, 0)
	require.Equal(t, d, restored.Take("k", 11))
	require.NoError(t, l.Reconfigure(PerMinute(20).Parts(), PerHour(1000)))
	require.NoError(t, l.Reconfigure(PerMinute(20).Parts()))
	require.Equal(t, d, l.Take("k", 11))
}

// Under several limits, lanes are as narrow as Count allows. Reservations may spend more, and a key may
// come from limits under which it has.
func TestParts_LanesGrowWithWhatIsSpent(t *testing.T) {
	hour := PerHour(math.MaxInt64).Counter()
	run := func(limit Limit, most int64, moves bool) {
		clock, part := NewManualClock(0), limit.Window/window.MaxParts
		l := newTest(t, limit, hour, WithClock(clock))
		spent := []int64{100, 1, most, 7} // in one part each
		all := make([]Reservation, len(spent))
		for i := range spent {
			all[i], _ = l.Reserve("k", 0) // before the key is full
		}
		for i, units := range spent {
			all[i].Commit(units)
			clock.Advance(part)
		}
		if moves {
			require.NoError(t, l.Reconfigure(limit, hour, PerDay(math.MaxInt64).Counter()))
		}
		clock.Set(int64(limit.Window - part)) // the last part in which all of them count
		for _, left := range []int64{108 + most, 8 + most, 7 + most, 7, 0} {
			require.Equal(t, max(limit.Count-left, 0), l.Peek("k", 0).Remaining, "%v: %d", limit, most)
			clock.Advance(part)
		}
	}
	for _, limit := range []Limit{PerMinute(200).Parts(), PerMinute(60_000).Parts(), PerMinute(1 << 40).Parts()} {
		for _, most := range []int64{1, 160, 255, 256, 65_535, 65_536, 1 << 41} {
			run(limit, most, false)
			run(limit, most, true)
		}
	}
}

// Units that count no more take no room.
func TestParts_LanesStayNarrow(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(200).Parts(), PerHour(1<<40).Counter(), WithClock(clock))
	for range 3 {
		reservation, _ := l.Reserve("k", 200)
		reservation.Commit(200)
		clock.Advance(2 * time.Minute)
	}
	require.Equal(t, uint(narrowLane), l.table().load(l.key("k")).asMulti().states[0].load().ring.lanes().bits)
}

// The first part of time has no beginning that an int64 holds. The last part is not taken for it.
func TestParts_FromOneEndOfTimeToTheOther(t *testing.T) {
	for _, limit := range []Limit{PerMinute(100).Parts(), PerMinute(1 << 40).Parts()} {
		clock := NewManualClock(math.MinInt64)
		l := newTest(t, limit, WithClock(clock))
		require.True(t, l.AllowN("k", limit.Count))
		clock.Set(math.MaxInt64)
		require.True(t, l.AllowN("k", limit.Count))
		require.True(t, l.AllowN("new", limit.Count))
		clock.Set(math.MaxInt64 - int64(10*time.Second))
		for _, key := range []string{"k", "new"} {
			require.False(t, l.Allow(key), "%v: %s is full", limit, key)
		}
	}
}

// Commits under other limits may have spent more units than an int64 holds. They count as that many.
func TestParts_TakeOverMoreUnitsThanAnInt64Holds(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(100).Counter(), WithClock(clock))
	first, _ := l.Reserve("k", 1)
	second, _ := l.Reserve("k", 1)
	first.Commit(math.MaxInt64)
	clock.Advance(time.Minute)
	second.Commit(math.MaxInt64)
	require.NoError(t, l.Reconfigure(PerMinute(100).Parts()))
	require.False(t, l.Allow("k"))
	require.False(t, l.Take("k", 1).Allowed)
	require.Zero(t, l.Peek("k", 0).Remaining)
	require.False(t, l.TakeAll([]string{"k", "other"}, 1).Allowed)
}

// A new entry has the shift of its name, under one limit and under several.
func TestParts_ANewEntryHasTheShiftOfItsName(t *testing.T) {
	for _, limits := range [][]Limit{{PerMinute(100).Parts()}, {PerMinute(100).Parts(), PerHour(1000).Parts()}} {
		rs := newOverrides(false, 0).newRuleset(limits, true)
		for i := range 100 {
			e := rs.newEntry(strconv.Itoa(i))
			require.Equal(t, window.ShiftOf(e.Name()), rs.stateOf(e, e.Word.Load(), 0).shift())
		}
	}
}

// TakeThenPeek charges in the newest part by one swap: it never locks the key, which others could meet.
func TestParts_TakeThenPeekIsOneSwap(t *testing.T) {
	rs := newOverrides(false, 0).newRuleset([]Limit{PerMinute(100).Parts()}, true)
	r, e := rs.onlyParts(), rs.newEntry("k")
	require.Equal(t, admitted, rs.decide(e, query{n: 60, charge: true}, nil, nil))
	word := e.Word.Load()
	var d, next Decision
	require.Equal(t, admitted, r.tryFast(e, word, 0, 30, stores|tells, &d, &next))
	require.Equal(t, word+30, e.Word.Load())
	require.EqualValues(t, 10, d.Remaining)
	require.Equal(t, rs.denialOf(e, 11), next)
}

// denialOf returns the decision on n units at instant 0, which are denied.
func (rs *ruleset) denialOf(e *entry, n int64) (d Decision) {
	rs.decide(e, query{n: n}, &d, nil)
	return d
}

// All callers start each new part together. Every part that counts holds exactly the units that they took in it.
func TestRace_PartsBeginTogether(t *testing.T) {
	for name, c := range map[string]struct{ count, each int64 }{"narrow": {255, 1}, "wide": {65_535, 300}} {
		t.Run(name, func(t *testing.T) {
			l := newTest(t, PerMinute(c.count).Parts(), WithClock(NewManualClock(0)))
			require.Equal(t, kindParts, l.rule().kind)
			clock, rounds := l.clock.(*ManualClock), int64(crowded(20_000))
			r, length, all := l.own().onlyParts(), l.rule().ticks.Length, uint64(c.each*callers)
			complete := func(parts int64) bool { // the newest of them, as far as they count
				e := l.table().load(l.key("k"))
				s := l.own().stateOf(e, e.Word.Load(), 0)
				for i := range min(int64(r.lanesAfter(0)), parts-1) {
					if r.lanesOf(s).units(int(i)) != all {
						return false
					}
				}
				return r.newest(s) == all
			}
			var crowd crowd
			var arrived, last, turns atomic.Int64
			crowd.run(func(caller int) {
				for round := range rounds {
					// The last caller to arrive looks, and then moves the clock, on which the others wait.
					if arrived.Add(1) == (round+1)*callers {
						if round > 0 && !complete(round) {
							t.Errorf("units were lost in round %d", round-1)
						}
						clock.Set((round + 1) * length)
					}
					for clock.Now() < (round+1)*length {
						runtime.Gosched()
					}
					if !l.AllowN("k", c.each) {
						t.Errorf("denied in round %d", round)
					}
					if last.Swap(int64(caller)) != int64(caller) {
						turns.Add(1)
					}
				}
			})
			require.Greater(t, turns.Load(), rounds, "no contention: this test has shown nothing")
			require.True(t, complete(rounds))
		})
	}
}
