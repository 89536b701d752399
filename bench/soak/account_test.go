package main

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash"
)

const second = int64(time.Second)

// at returns a charge of units at an instant that is known exactly, the number-th of its key,
// by a call that began when the charge before was recorded.
func at(instant, units, number int64) charge {
	return charge{earliest: instant, latest: instant, units: units, number: number, begun: number}
}

// low returns c under lowered limits of that number.
func low(c charge, number uint64) charge {
	c.lowered = number
	return c
}

func TestBound_OfATokenBucket(t *testing.T) {
	limit, lowered := sash.PerSecond(3).TokenBucket(10), sash.PerSecond(1).TokenBucket(4)
	third := second/3 + 1 // the least time in which a unit flows back
	bounds := boundsOf(limit, lowered)
	for name, c := range map[string]struct {
		charges []charge
		want    *excess
	}{
		"all at once":           {[]charge{at(0, 4, 0), at(0, 6, 1)}, nil},
		"one more":              {[]charge{at(0, 4, 0), at(0, 7, 1)}, &excess{limit, 0, 0, 11, 10}},
		"what has flowed back":  {[]charge{at(0, 10, 0), at(third, 1, 1)}, nil},
		"a nanosecond too soon": {[]charge{at(0, 10, 0), at(third-1, 1, 1)}, &excess{limit, 0, third - 1, 11, 10}},
		"for long":              {[]charge{at(0, 10, 0), at(10*second, 10, 1), at(20*second, 10, 2), at(30*second, 10, 3)}, nil},
		"a little too fast": {[]charge{at(0, 10, 0), at(second, 3, 1), at(2*second, 3, 2), at(3*second, 4, 3)},
			&excess{limit, 0, 3 * second, 20, 19}},
		"too much late in it": {[]charge{at(0, 1, 0), at(10*second, 5, 1), at(10*second, 6, 2)}, &excess{limit, 10 * second, 10 * second, 11, 10}},
		"uncertain when":      {[]charge{{latest: third, units: 10, number: 0}, {latest: third, units: 1, number: 1}}, nil},
		"recorded in another order": {[]charge{at(0, 5, 1), at(0, 6, 0)},
			&excess{limit, 0, 0, 11, 10}},

		// Lowered to 4 at once, and 1 a second.
		"lowered":             {[]charge{low(at(0, 4, 0), 2), low(at(second, 1, 1), 2)}, nil},
		"lowered, too fast":   {[]charge{low(at(0, 4, 0), 2), low(at(second, 2, 1), 2)}, &excess{limit, 0, second, 6, 5}},
		"raised in between":   {[]charge{low(at(0, 4, 0), 2), low(at(second, 3, 1), 4)}, nil}, // 3 flow in a second
		"raised, at once":     {[]charge{low(at(0, 4, 0), 2), low(at(0, 1, 1), 4)}, &excess{lowered, 0, 0, 5, 4}},
		"lowered later":       {[]charge{at(0, 10, 0), low(at(2*second, 1, 1), 2)}, &excess{lowered, 0, 2 * second, 11, 10}},
		"lowered much later":  {[]charge{at(0, 10, 0), low(at(3*second, 1, 1), 2)}, nil},
		"lowered before that": {[]charge{low(at(second, 4, 0), 2), at(second, 6, 1)}, nil},
		"lowered, of calls at one time": {[]charge{at(0, 10, 0), {latest: 2 * second, units: 1, lowered: 2, number: 1, begun: 0},
			{earliest: 2 * second, latest: 2 * second, units: 1, number: 2, begun: 1}}, nil},
	} {
		a := &account{bounds: bounds, charges: c.charges}
		assert.Equal(t, c.want, a.firstExcess(), name)
	}
}

func TestBound_HeldByATokenBucket(t *testing.T) {
	limit := sash.PerSecond(3).TokenBucket(10)
	b := boundsOf(limit, limit)[0]
	charges := []charge{at(0, 9, 0), at(10*second, 4, 1), at(10*second, 3, 2)}
	for instant, want := range map[int64]int64{
		10 * second:              7,
		10*second + second/3:     7, // less than a unit has flowed back
		10*second + second/3 + 1: 6,
		11 * second:              4,
		13 * second:              0,
		100 * second:             0,
	} {
		assert.Equal(t, want, b.held(charges, instant), instant)
	}
	assert.EqualValues(t, 8, b.held([]charge{at(0, 9, 0), at(second, 2, 1)}, second), "of both")
}

// An account keeps the charges of a token bucket for as long as its bounds look back.
func TestAccount_PrunesWhatIsLongPast(t *testing.T) {
	limit := sash.PerSecond(3).TokenBucket(10) // fills in 3.3 s
	clock := newClock()
	a := newAccount([]sash.Limit{limit}, []sash.Limit{limit}, clock)
	a.charges = []charge{at(0, 1, 0), at(40*second, 1, 1), at(90*second, 1, 2)}
	clock.high.Store(90 * second)
	a.prune()
	assert.Len(t, a.charges, 2)
}

func TestFlow_IsExact(t *testing.T) {
	limit := sash.Per(12345, time.Minute).TokenBucket(1)
	for elapsed, want := range map[int64]int64{
		-1: 0, 0: 0, 4860267: 0, 4860268: 1, 60 * second: 12345, 3600 * second: 740700,
	} {
		assert.Equal(t, want, flow(limit, elapsed), elapsed)
	}
	assert.Equal(t, int64(math.MaxInt64), flow(sash.Per(math.MaxInt64, time.Hour), 3600*second))
}
