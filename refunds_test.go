package sash

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// withDirectRefunds makes few the number of running totals that giveBack changes one by one, until the
// test has ended.
func withDirectRefunds(t testing.TB, few int) {
	before := directRefunds
	directRefunds = few
	t.Cleanup(func() { directRefunds = before })
}

// A listedRing is a ring and, in a plain list, what it should hold. The running total of the ring begins
// just below 2^64.
type listedRing struct {
	ringView
	ticks []int64
	units []uint64
}

func newListedRing(room int) *listedRing {
	g := newRing(room)
	g.slot(0).cumulative = math.MaxUint64 - 5
	return &listedRing{ringView: g.view()}
}

// charge charges units at the tick of the newest record or, if later is set, at a later one. A ring
// without room drops its oldest record.
func (l *listedRing) charge(units int64, later bool) {
	if later {
		if len(l.ticks) == l.room() {
			l.ringView = l.without(1)
			l.ticks, l.units = l.ticks[1:], l.units[1:]
		}
		l.ticks, l.units = append(l.ticks, l.nextTick()), append(l.units, 0)
	}
	newest := len(l.ticks) - 1
	l.charging(l.ticks[newest], !later).charge(units)
	l.ringView = l.view()
	l.units[newest] += uint64(units)
}

func (l *listedRing) nextTick() int64 {
	if len(l.ticks) == 0 {
		return 10
	}
	return l.ticks[len(l.ticks)-1] + 10
}

func (l *listedRing) giveBack(t *testing.T, i int, units int64) {
	back, left := min(uint64(units), l.units[i]), uint64(0)
	wasEmpty := l.isEmpty()
	l.units[i] -= back
	for _, units := range l.units {
		left += units
	}
	require.Equal(t, left == 0 && !wasEmpty, l.ringView.giveBack(i, units))
	l.ringView = l.view()
}

func (l *listedRing) check(t *testing.T) {
	require.Equal(t, l.view(), l.ringView)
	require.Equal(t, len(l.ticks), l.count)
	since := uint64(0)
	for i := l.count - 1; i >= 0; i-- {
		require.Equal(t, l.ticks[i], l.tick(i))
		require.Equal(t, l.units[i], l.ringView.units(i), "record %d of %d", i, l.count)
		since += l.units[i]
		require.Equal(t, since, l.unitsSince(i))
	}
}

// Whatever is charged, merged, dropped and given back, in a ring with refunds or without: each record
// has the units that a plain list has, wherever the ring begins.
func TestRing_GivesBackWhatAListDoes(t *testing.T) {
	for _, few := range []int{0, 1, 3, 32} {
		t.Run(fmt.Sprint(few, " directly"), func(t *testing.T) {
			withDirectRefunds(t, few)
			for seed := range uint64(steps(300)) {
				random := rand.New(rand.NewPCG(uint64(few), seed))
				l := newListedRing(1 + random.IntN(20))
				l.charge(1, true)
				for range 100 {
					switch i := random.IntN(len(l.ticks)); random.IntN(8) {
					case 0, 1, 2:
						l.charge(1+random.Int64N(9), true)
					case 3:
						l.charge(1+random.Int64N(9), false)
					case 4:
						at, found := l.find(l.ticks[i])
						require.True(t, found)
						require.Equal(t, i, at)
						_, found = l.find(l.ticks[i] + 1)
						require.False(t, found)
					default:
						if l.ring.refundWords == 0 && l.isDeep(i) {
							l.ringView = l.copyRefundable().view()
						}
						l.giveBack(t, i, 1+random.Int64N(5))
					}
					l.check(t)
				}
			}
		})
	}
}

// To give back deep in a log changes a few words for each bit of its number of records.
func TestRing_RefundsChangeFewWords(t *testing.T) {
	for _, records := range []int{100, 1000, steps(100_000)} {
		l := newListedRing(records)
		for range records {
			l.charge(1, true)
		}
		l.ringView = l.copyRefundable().view()
		for range records / 2 { // the ring begins in its middle
			l.charge(1, true)
		}
		for i := directRefunds; i < records-directRefunds; i += 1 + records/100 {
			before := l.allWords()
			l.giveBack(t, i, 1)
			changed := 0
			for at, word := range l.allWords() {
				if word != before[at] {
					changed++
				}
			}
			require.NotZero(t, changed)
			require.LessOrEqual(t, changed, 3*bits.Len(uint(l.slots)))
		}
	}
}

// allWords returns the words that giveBack may change.
func (l *listedRing) allWords() (words []uint64) {
	for i := range int(l.slots) {
		words = append(words, l.slot(i).cumulative)
	}
	for i := range int(l.ring.refundWords) {
		words = append(words, *l.refunds().word(i + 1))
	}
	return words
}
