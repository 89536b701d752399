package traffic

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash"
)

func TestTrailing_AgainstACountOfEveryWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		random := rand.New(rand.NewPCG(seed, 4))
		limit := sash.Per(1, time.Duration(1+random.IntN(2000))*time.Millisecond)
		w := NewTrailing(limit)
		type use struct {
			event Event
			units int64
		}
		var uses []use
		var want Trailing
		at := -int64(time.Minute)
		for range 1500 {
			at += random.Int64N(int64(limit.Window) / 4)
			u := use{Event{At: at, Client: uint32(random.IntN(5))}, random.Int64N(20)}
			uses = append(uses, u)
			w.Add(u.event, u.units)
			var sum int64
			for _, v := range uses {
				if v.event.Client == u.event.Client && v.event.At > u.event.At-int64(limit.Window) {
					sum += v.units
				}
			}
			if sum > want.Most {
				want.Most, want.Client, want.End = sum, u.event.Client, u.event.At
			}
		}
		assert.Equal(t, [3]int64{want.Most, int64(want.Client), want.End}, [3]int64{w.Most, int64(w.Client), w.End})
	}
}

func TestTrailing_AUnitIsGoneAfterExactlyAWindow(t *testing.T) {
	for apart, want := range map[time.Duration]int64{time.Second - 1: 5, time.Second: 3} {
		w := NewTrailing(sash.PerSecond(1))
		w.Add(Event{At: -1}, 3)
		w.Add(Event{At: -1 + int64(apart)}, 2)
		assert.Equal(t, want, w.Most)
	}
}

func TestTrailing_OverAllOfTime(t *testing.T) {
	w := NewTrailing(sash.PerSecond(1))
	w.Add(Event{At: -1 << 63}, 1)
	w.Add(Event{At: 1<<63 - 1}, 2)
	assert.EqualValues(t, 2, w.Most)
}
