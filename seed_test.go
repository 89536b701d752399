package sash

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// Under each limit, a past charges as many units as leave what it says, and what calls have charged counts. A
// key without an entry begins with its charges. Calls and reservations go on from that.
func TestSeed_EqualsTheReference(t *testing.T) {
	type pending struct {
		ours   Reservation
		theirs reference.Reservation
	}
	fresh, drained := 0, 0
	for trial := range uint64(steps(30)) {
		tr := newMultiTrial(t, trial, false)
		if tr.rng.IntN(2) == 0 {
			tr.limits = append(tr.limits, AtOnce(1+tr.rng.Int64N(12), time.Duration(1+tr.rng.Int64N(100))))
			var models []reference.Limit
			for _, limit := range tr.limits {
				models = append(models, modelOf(limit, false))
			}
			tr.l, tr.table = newTest(t, WithClock(tr.clock), WithLimits(tr.limits...)), reference.NewTable(models)
		}
		// seed tells the key of a random past, in the table as Seed describes it.
		seed := func(key string) {
			now := tr.clock.Now()
			if tr.rng.IntN(4) == 0 {
				tr.l.Reset(key)
				tr.table.Reset(key)
			}
			_, e := tr.l.lookup(tr.l.key(key))
			pasts := make([]bridge.Past[Limit], len(tr.limits))
			for i, limit := range tr.limits {
				p := &pasts[i]
				p.Limit, p.Left = limit, tr.rng.Int64N(limit.most()+1)
				for at := now - tr.rng.Int64N(100); at <= now && tr.rng.IntN(3) > 0; at += 1 + tr.rng.Int64N(30) {
					p.Charges = append(p.Charges, charge{At: at, Units: 1 + tr.rng.Int64N(4)})
				}
				for _, c := range p.Charges {
					if e == nil {
						tr.table.Add(c.At, c.Units, key, i)
						fresh++
					}
				}
				if more := tr.table.Remaining(now, key, i) - p.Left; more > 0 {
					tr.table.Add(now, more, key, i)
					drained++
				}
			}
			tr.l.seed(key, pasts)
		}
		var open []pending
		for range 150 {
			tr.move(false)
			now := tr.clock.Now()
			switch tr.rng.IntN(6) {
			case 0:
				seed(tr.keys()[0])
			case 1, 2:
				key, n := tr.keys()[0], tr.cost()
				r, d := tr.l.Reserve(key, n)
				want, answer := tr.table.Reserve(now, n, key)
				tr.same(d, answer, "Reserve(%s, %d)", key, n)
				open = append(open, pending{r, want})
			case 3:
				if len(open) > 0 {
					p, actual := open[tr.rng.IntN(len(open))], tr.rng.Int64N(5) // may be settled already
					p.ours.Commit(actual)
					tr.table.Settle(now, p.theirs, actual)
				}
			default:
				tr.call()
			}
			key := tr.keys()[0]
			tr.same(tr.l.Peek(key, 1), tr.table.Peek(now, 1, key), "Peek(%s)", key)
		}
	}
	require.Greater(t, fresh, steps(60))
	require.Greater(t, drained, steps(300))
}

// pastsOf returns pasts of limits that leave as many units.
func pastsOf(left []int64, limits ...Limit) (pasts []bridge.Past[Limit]) {
	for i, l := range limits {
		pasts = append(pasts, bridge.Past[Limit]{Limit: l, Left: left[i]})
	}
	return pasts
}

// A past of limits that a key had, or will have, leaves no more than it says where units are counted alike.
func TestSeed_OfOtherLimits(t *testing.T) {
	clock := NewManualClock(0)
	l := newTest(t, PerMinute(100).Log(), AtOnce(50, time.Hour), WithClock(clock))
	require.True(t, l.Allow("k"))
	l.seed("k", pastsOf([]int64{40, 9, 45}, PerHour(70), PerSecond(10), AtOnce(60, time.Hour)))
	require.EqualValues(t, 9, l.Peek("k", 0).Remaining)
	clock.Advance(time.Minute)
	require.EqualValues(t, 45, l.Peek("k", 0).Remaining, "as many are held")
	l.seed("k", pastsOf([]int64{30}, AtOnce(50, time.Hour)))
	require.EqualValues(t, 30, l.Peek("k", 0).Remaining, "at another place")
	l.seed("k", nil)
	require.EqualValues(t, 30, l.Peek("k", 0).Remaining)
	clock.Advance(time.Hour)
	require.EqualValues(t, 50, l.Peek("k", 0).Remaining)
}

// A bucket that was full when it was charged for a past has nothing more once an earlier reservation is given back.
func TestSeed_IsALaterChargeThanAReservation(t *testing.T) {
	clock, limit := NewManualClock(0), PerMinute(10).TokenBucket(10)
	l := newTest(t, limit, WithClock(clock))
	r, _ := l.Reserve("k", 5)
	clock.Advance(time.Minute)
	l.seed("k", pastsOf([]int64{4}, limit))
	r.Cancel()
	require.EqualValues(t, 4, l.Peek("k", 0).Remaining)
}

// A key gets no entry where nothing is ever charged, or if there is no room.
func TestSeed_MakesNoEntryInVain(t *testing.T) {
	of := map[string]Limit{"free": Unlimited(), "blocked": {Window: time.Second}}
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)), WithMaxKeys(1, DenyNew), WithLimitsFor(func(key string) []Limit {
		if own, ok := of[key]; ok {
			return []Limit{own}
		}
		return nil
	}))
	for key := range of {
		l.seed(key, pastsOf([]int64{5}, of[key]))
		require.Zero(t, l.Len())
	}
	l.seed("k", pastsOf([]int64{4}, PerMinute(10)))
	l.seed("other", pastsOf([]int64{4}, PerMinute(10)))
	require.Equal(t, 1, l.Len())
	require.EqualValues(t, 4, l.Peek("k", 0).Remaining)
	require.Equal(t, int64(math.MaxInt64), l.Peek("free", 0).Remaining)
}

// A call that runs at the same time as a seed is charged before or after it, and never in between.
func TestSeed_AmongCalls(t *testing.T) {
	for _, limits := range [][]Limit{
		{PerHour(1000).Counter()}, {PerHour(1000).Log()}, {PerHour(1000).Parts()}, {PerHour(1000).TokenBucket(1000)},
		{PerHour(1000).Counter(), AtOnce(1000, time.Hour)},
	} {
		l := newTest(t, WithLimits(limits...), WithClock(NewManualClock(0)))
		done := make(chan int64)
		for range 2 {
			go func() {
				var admitted int64
				for range 700 {
					if l.Allow("k") {
						admitted++
					}
				}
				done <- admitted
			}()
		}
		for left := int64(900); left >= 100; left -= 100 {
			l.seed("k", pastsOf([]int64{left, left}[:len(limits)], limits...))
			require.LessOrEqual(t, l.Peek("k", 0).Remaining, left)
		}
		require.GreaterOrEqual(t, <-done+<-done, int64(100), "%v", limits)
		require.Zero(t, l.Peek("k", 0).Remaining)
	}
}
