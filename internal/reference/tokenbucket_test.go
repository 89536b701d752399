package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTokenBucket_AdmitsABurstAndThenTheRate(t *testing.T) {
	run(t, New(Limit{Count: 10, Window: second, Burst: 100}), []step{
		{0, 100, Answer{Allowed: true, ResetAfter: 10 * second}},
		{0, 1, Answer{RetryAfter: 100 * millisecond, ResetAfter: 10 * second}},
		{100*millisecond - 1, 1, Answer{RetryAfter: 1, ResetAfter: 9900*millisecond + 1}},
		{100 * millisecond, 1, Answer{Allowed: true, ResetAfter: 10 * second}}, // full at 10.1 s
		// 89.5 units are owed, so 10.5 are there.
		{1150 * millisecond, 0, Answer{Allowed: true, Remaining: 10, ResetAfter: 8950 * millisecond}},
		{1150 * millisecond, 11, Answer{Remaining: 10, RetryAfter: 50 * millisecond, ResetAfter: 8950 * millisecond}},
		{1150 * millisecond, 101, Answer{Remaining: 10, RetryAfter: Never, ResetAfter: 8950 * millisecond}},
		{1150 * millisecond, -1, Answer{Remaining: 10, RetryAfter: Never, ResetAfter: 8950 * millisecond}},
		{11 * second, 100, Answer{Allowed: true, ResetAfter: 10 * second}}, // nothing is saved up beyond 100
	})
}

func TestTokenBucket_AdmitsBurstAndNotCountAtOnce(t *testing.T) {
	run(t, New(Limit{Count: 10, Window: 100, Burst: 2}), []step{
		{0, 3, Answer{Remaining: 2, RetryAfter: Never}},
		{0, 2, Answer{Allowed: true, ResetAfter: 20}},
		{0, 2, Answer{RetryAfter: 20, ResetAfter: 20}},
		{10, 1, Answer{Allowed: true, ResetAfter: 20}},
	})
}

func TestTokenBucket_ThreeASecondDoNotDrift(t *testing.T) {
	skipUnderRace(t)
	k := New(Limit{Count: 3, Window: second, Burst: 4})
	assert.True(t, k.Take(0, 4).Allowed)
	now := int64(0)
	for i := range int64(3000) {
		now += k.Peek(now, 1).RetryAfter
		assert.True(t, k.Take(now, 1).Allowed)
		// Unit i comes back at (i+1)/3 s, rounded up. No rounding adds to the next.
		assert.Equal(t, ((i+1)*second+2)/3, now)
	}
	assert.Equal(t, 1000*second, now)

	// Nor over 285 years.
	const seconds = 9_000_000_000
	k = New(Limit{Count: 3, Window: second, Burst: 4 * seconds})
	assert.Equal(t, seconds*second, k.Take(0, 3*seconds).ResetAfter)
	assert.Equal(t, seconds*second+333_333_334, k.Take(0, 1).ResetAfter)
	assert.Equal(t, seconds*second+666_666_667, k.Take(0, 1).ResetAfter)
	assert.Equal(t, (seconds+1)*second, k.Take(0, 1).ResetAfter)
}

func TestTokenBucket_OneUnitAYear(t *testing.T) {
	const year, burst int64 = 365 * 24 * hour, 1e15
	k := New(Limit{Count: 1, Window: year, Burst: burst})
	run(t, k, []step{
		{0, 1, Answer{Allowed: true, Remaining: burst - 1, ResetAfter: year}},
		{year / 2, burst, Answer{Remaining: burst - 1, RetryAfter: year / 2, ResetAfter: year / 2}},
		{year, burst, Answer{Allowed: true, ResetAfter: Never}},
		{year, 291, Answer{RetryAfter: 291 * year, ResetAfter: Never}},
		{year, 292, Answer{RetryAfter: 292 * year, ResetAfter: Never}},
		{year, 293, Answer{RetryAfter: Never, ResetAfter: Never}},
		{2*year - 1, 1, Answer{RetryAfter: 1, ResetAfter: Never}},
		{2 * year, 1, Answer{Allowed: true, ResetAfter: Never}},
	})
}

func TestTokenBucket_DecidesALateReadingAtThatReading(t *testing.T) {
	limit := Limit{Count: 1, Window: 10, Burst: 3}
	run(t, New(limit), []step{
		{100, 2, Answer{Allowed: true, Remaining: 1, ResetAfter: 20}},
		{95, 1, Answer{RetryAfter: 5, ResetAfter: 25}}, // 2.5 are owed, and 1 more is over 3
		{100, 1, Answer{Allowed: true, ResetAfter: 30}},
		{70, 0, Answer{RetryAfter: 30, ResetAfter: 60}}, // 6 are owed, so not even 0 fit
		{110, 1, Answer{Allowed: true, ResetAfter: 30}},
	})
	run(t, New(limit), []step{
		{100, 1, Answer{Allowed: true, Remaining: 2, ResetAfter: 10}},
		{95, 1, Answer{Allowed: true, ResetAfter: 25}}, // full at 120, as if at 100
		{100, 1, Answer{Allowed: true, ResetAfter: 30}},
	})
}

func TestTokenBucket_ChargesDeniedAsFarAsItHoldsAnything(t *testing.T) {
	run(t, New(Limit{Count: 1, Window: 10, Burst: 3, ChargeDenied: true}), []step{
		{0, 2, Answer{Allowed: true, Remaining: 1, ResetAfter: 20}},
		{0, 2, Answer{RetryAfter: 20, ResetAfter: 30}}, // the third unit
		// It holds half a unit, and then nothing.
		{5, 1, Answer{RetryAfter: 10, ResetAfter: 30}},
		{14, 1, Answer{RetryAfter: 10, ResetAfter: 30}},
		{14, 3, Answer{RetryAfter: 30, ResetAfter: 30}},
		{24, 1, Answer{Allowed: true, ResetAfter: 30}},
		{24, math.MaxInt64, Answer{RetryAfter: Never, ResetAfter: 30}},
		{34, -1, Answer{Remaining: 1, RetryAfter: Never, ResetAfter: 20}},
		{34, math.MaxInt64, Answer{RetryAfter: Never, ResetAfter: 30}},
		// A late call finds more owed than three, and charges nothing.
		{30, 1, Answer{RetryAfter: 14, ResetAfter: 34}},
	})
	// Two of three are owed, and a call for one is denied by another limit.
	table := NewTable([]Limit{{Count: 1, Window: 10, Burst: 3, ChargeDenied: true}, {Count: 1, Window: 10, Burst: 1, ChargeDenied: true}})
	runTable(t, table, []call{
		{0, 1, []string{"a"}, Answer{Allowed: true, ResetAfter: 10, Deciding: 1, DecidingKey: "a"}},
		{0, 1, []string{"a"}, Answer{RetryAfter: 10, ResetAfter: 20, Deciding: 1, DecidingKey: "a"}},
	})
}

func TestTokenBucket_WithACountOfZeroAdmitsNothing(t *testing.T) {
	for _, denied := range []bool{false, true} {
		k := New(Limit{Count: 0, Window: 10, Burst: 3, ChargeDenied: denied})
		run(t, k, []step{
			{0, 1, Answer{RetryAfter: Never}},
			{0, 0, Answer{Allowed: true}},
			{5, 4, Answer{RetryAfter: Never}},
		})
		assert.True(t, k.equal(New(k.limit)))
	}
	// What is spent all the same does not come back.
	table := NewTable([]Limit{{Count: 0, Window: 10, Burst: 3, ChargeDenied: true}, {Count: 2, Window: 10, Burst: 3, ChargeDenied: true}})
	table.Spend(0, 2, "a")
	table.Spend(5, 1, "a")
	never := Answer{RetryAfter: Never, ResetAfter: Never}
	peeks(t, table, []step{{5, 0, never}, {math.MaxInt64, 0, never}})
	some := Limit{Count: 1, Window: 10, Burst: 3, ChargeDenied: true}
	table.ReconfigureAt(100, []Limit{some})
	peeks(t, table, []step{{100, 0, Answer{Allowed: true, ResetAfter: 30}}})

	// Nor does it with an open reservation from before.
	table.Reset("a")
	r := reserve(t, table, 100, 3)
	table.ReconfigureAt(100, []Limit{{Count: 0, Window: 10, Burst: 3, ChargeDenied: true}, {Log: true, Count: 1, Window: 10, ChargeDenied: true}})
	table.Spend(100, 1, "a")
	table.Spend(105, 1, "a")
	table.Settle(105, r, 2)
	table.ReconfigureAt(110, []Limit{some})
	peeks(t, table, []step{{110, 0, Answer{RetryAfter: 10, ResetAfter: 40}}})
}

func TestTokenBucket_EndsOfTime(t *testing.T) {
	k := New(Limit{Count: 1, Window: math.MaxInt64, Burst: 1})
	assert.True(t, k.Take(math.MinInt64, 1).Allowed)
	assert.False(t, k.Take(-2, 1).Allowed)
	assert.True(t, k.Peek(-1, 1).Allowed)
	assert.Equal(t, Never, k.Peek(math.MinInt64, 1).RetryAfter)

	k = New(Limit{Count: math.MaxInt64, Window: 3, Burst: math.MaxInt64})
	assert.Equal(t, Answer{Allowed: true, Remaining: math.MaxInt64 - 1, ResetAfter: 1}, k.Take(math.MaxInt64, 1))
	assert.Equal(t, Never, k.Peek(math.MinInt64, math.MaxInt64).RetryAfter)
	assert.Equal(t, Never, k.Peek(math.MinInt64, 1).ResetAfter)

	k = New(Limit{Count: math.MaxInt64, Window: math.MaxInt64, Burst: math.MaxInt64})
	assert.Equal(t, Answer{Allowed: true, ResetAfter: math.MaxInt64}, k.Take(math.MinInt64, math.MaxInt64))
	assert.True(t, k.Peek(-1, math.MaxInt64).Allowed)
	assert.Equal(t, int64(1), k.Peek(-2, math.MaxInt64).RetryAfter)
}

// One unit comes back every 10 ns, and the bucket holds 10.
var tenOfTen = Limit{Count: 1, Window: 10, Burst: 10}

func TestTokenBucket_GivesBack(t *testing.T) {
	none := func(*Table) {}
	take := func(at, n int64) func(*Table) { return func(t *Table) { t.Take(at, n, "a") } }
	for name, c := range map[string]struct {
		reserved int64 // five units at that time
		then     func(*Table)
		actual   int64
		at, left int64 // what is left after the settlement, ResetAfter included
		reset    int64
	}{
		"all":                               {0, none, 0, 0, 10, 0},
		"a part":                            {0, none, 2, 0, 8, 20},
		"what has come back already":        {0, none, 0, 30, 10, 0},
		"nothing":                           {0, none, 5, 0, 5, 50},
		"a call for nothing in between":     {0, take(50, 0), 0, 20, 10, 0},
		"it was nearly empty":               {0, take(1, 5), 3, 1, 2, 79},      // 30, and so 80
		"nearly empty, and full without":    {0, take(1, 5), 0, 1, 5, 50},      // not 1 + 49
		"it was nearly full":                {0, take(47, 1), 0, 47, 9, 10},    // of 3 ns
		"nearly full, and a part":           {0, take(47, 1), 4, 47, 9, 10},    // full at 40 without one
		"full, and so nothing comes back":   {0, take(50, 5), 0, 50, 5, 50},    //
		"full after a part was given back":  {0, take(49, 5), 4, 49, 5, 50},    //
		"a charge at a late reading after":  {100, take(90, 1), 0, 100, 9, 10}, // from 100 on
		"a part, and a late reading":        {100, take(90, 1), 2, 100, 7, 30},
		"a denied call far back in time":    {100, take(59, 1), 0, 100, 10, 0}, // 9.1 were owed
		"a debt":                            {0, none, 12, 0, 0, 120},
		"a debt, later":                     {0, take(50, 5), 8, 60, 3, 70}, // 100 and three
		"after several charges":             {0, func(t *Table) { take(10, 1)(t); take(55, 1)(t) }, 0, 55, 9, 10},
		"after several charges without gap": {0, func(t *Table) { take(10, 1)(t); take(45, 1)(t); take(60, 1)(t) }, 0, 60, 9, 10},
	} {
		table := NewTable([]Limit{tenOfTen})
		r := reserve(t, table, c.reserved, 5)
		c.then(table)
		table.Settle(c.at, r, c.actual)
		table.Settle(c.at, r, 0) // has no effect
		want := Answer{Allowed: c.reset <= 100, Remaining: c.left, ResetAfter: c.reset, DecidingKey: "a"}
		if !want.Allowed {
			want.RetryAfter = c.reset - 100
		}
		assert.Equal(t, want, table.Peek(c.at, 0, "a"), name)
		assert.Empty(t, table.keys["a"][0].tokens.events, name)
	}
}

func TestTokenBucket_GivesBackInAnyOrder(t *testing.T) {
	// Full at 50, at 100 and at 110, with 10 and 45 owed when the later two came.
	of := func() (*Table, [3]Reservation) {
		table := NewTable([]Limit{tenOfTen})
		return table, [3]Reservation{reserve(t, table, 0, 5), reserve(t, table, 40, 5), reserve(t, table, 55, 1)}
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		table, all := of()
		for _, i := range order {
			table.Settle(60, all[i], []int64{1, 2, 1}[i]) // full at 10, at 60, at 70
		}
		assert.Equal(t, int64(15), table.Peek(55, 0, "a").ResetAfter, order)
	}
	// The third found 50 owed, and then 0. So the first gives back no more.
	table := NewTable([]Limit{tenOfTen})
	first, second := reserve(t, table, 0, 5), reserve(t, table, 40, 5)
	table.Take(50, 1, "a")
	table.Settle(50, second, 0) // full at 50, at 50 and at 60
	assert.Equal(t, int64(10), table.Peek(50, 0, "a").ResetAfter)
	table.Settle(50, first, 0)
	assert.Equal(t, int64(10), table.Peek(50, 0, "a").ResetAfter)

	table, all := of()
	table.Settle(60, all[0], 0) // of 50, only 10 make a difference: full at 40, 90 and 100
	assert.Equal(t, int64(40), table.Peek(60, 0, "a").ResetAfter)
	table.Settle(60, all[1], 0) // 40, and so 55 + 10
	assert.Equal(t, int64(5), table.Peek(60, 0, "a").ResetAfter)
	table.Settle(60, all[2], 0)
	assert.True(t, table.Idle(60, "a"))
}

func TestTokenBucket_GivesNothingBackFromBeforeAChargedDenial(t *testing.T) {
	limit := tenOfTen
	limit.ChargeDenied = true
	table := NewTable([]Limit{limit})
	before := reserve(t, table, 0, 8)
	assert.False(t, table.Take(0, 3, "a").Allowed) // charged two
	after := reserve(t, table, 10, 1)
	table.Settle(10, before, 0)
	peeks(t, table, []step{{10, 0, Answer{Allowed: true, ResetAfter: 100}}})
	table.Settle(10, after, 0)
	peeks(t, table, []step{{10, 0, Answer{Allowed: true, Remaining: 1, ResetAfter: 90}}})

	// A denied call that had nothing to charge changes nothing. Nor does one for an
	// impossible number of units below 0.
	for _, denied := range []int64{1, math.MaxInt64, -1} {
		table = NewTable([]Limit{limit})
		r := reserve(t, table, 0, 10)
		assert.False(t, table.Take(0, denied, "a").Allowed)
		table.Settle(0, r, 4)
		peeks(t, table, []step{{0, 0, Answer{Allowed: true, Remaining: 6, ResetAfter: 40}}})
	}
}

func TestTokenBucket_GivesBackToEachLimitAndKey(t *testing.T) {
	table := NewTable([]Limit{tenOfTen, {Count: 1, Window: 5, Burst: 7}, {Log: true, Count: 8, Window: 50}})
	all, answer := table.ReserveAll(0, 5, "b", "a", "b")
	require.Equal(t, Answer{Allowed: true, Remaining: 2, ResetAfter: 50, Deciding: 1, DecidingKey: "b"}, answer)
	require.Equal(t, all[0], all[2])
	table.Take(20, 1, "a")      // 60, 30, and the log at 20
	table.Settle(20, all[1], 1) // 10 and so 30; 5 and so 25
	peeks(t, table, []step{
		{20, 7, Answer{Remaining: 6, RetryAfter: 30, ResetAfter: 50, Deciding: 2}},
		{21, 0, Answer{Allowed: true, Remaining: 6, ResetAfter: 49, Deciding: 1}},
	})
	assert.Equal(t, int64(10), New(tenOfTen).Peek(0, 0).Remaining)
	assert.Equal(t, int64(9), table.keys["a"][0].remaining(20))
	assert.Equal(t, int64(6), table.keys["a"][1].remaining(20))
	assert.Equal(t, int64(6), table.keys["a"][2].remaining(20))
	assert.Equal(t, int64(7), table.keys["b"][0].remaining(20), "another key")

	table.Reset("b")
	table.Take(20, 1, "b")
	table.Settle(20, all[0], 0)
	assert.Equal(t, int64(9), table.keys["b"][0].remaining(20), "from before the Reset")
}

func TestTokenBucket_SeveralKeys(t *testing.T) {
	runTable(t, NewTable([]Limit{{Count: 1, Window: 10, Burst: 3}, {Log: true, Count: 4, Window: 100}}), []call{
		{0, 2, []string{"a", "b"}, Answer{Allowed: true, Remaining: 1, ResetAfter: 100, DecidingKey: "a"}},
		{5, 1, []string{"a"}, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "a"}}, // 30
		{6, 1, []string{"b", "a"}, Answer{RetryAfter: 4, ResetAfter: 99, DecidingKey: "a"}},
		{10, 1, []string{"b", "a"}, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "a"}},
		{20, 1, []string{"b", "a"}, Answer{RetryAfter: 80, ResetAfter: 90, Deciding: 1, DecidingKey: "a"}},
		{20, 4, []string{"a"}, Answer{RetryAfter: Never, ResetAfter: 90, DecidingKey: "a"}},
	})
}

func TestTokenBucket_ChangedLimitsInheritWhatIsOwed(t *testing.T) {
	for name, c := range map[string]struct {
		to           Limit
		at           int64
		left, resets int64
	}{
		"the same":              {tenOfTen, 15, 6, 35},
		"more":                  {Limit{Count: 2, Window: 10, Burst: 10}, 15, 6, 18}, // 3.5 owed, so 17.5
		"a larger burst":        {Limit{Count: 1, Window: 10, Burst: 20}, 15, 16, 35},
		"a smaller burst":       {Limit{Count: 1, Window: 10, Burst: 3}, 15, 0, 35},
		"rounded up":            {Limit{Count: 5, Window: 10, Burst: 10}, 15, 6, 7},  // to halves
		"rounded up by a bit":   {Limit{Count: 5, Window: 10, Burst: 10}, 16, 6, 7},  // 3.4, so 3.5
		"rounded up to a whole": {Limit{Count: 10, Window: 10, Burst: 10}, 16, 6, 4}, // 3.4, so 4
		"not rounded":           {Limit{Count: 3, Window: 10, Burst: 10}, 16, 6, 12}, // 3.4, so 11.33
		"nothing is owed":       {Limit{Count: 3, Window: 10, Burst: 10}, 50, 10, 0}, //
		"a bit is owed":         {Limit{Count: 10, Window: 10, Burst: 10}, 49, 9, 1}, // 0.1, so 1
		"to a Count of 0":       {Limit{Count: 0, Window: 10, Burst: 10}, 15, 0, Never},
		"to another window":     {Limit{Count: 1, Window: 11, Burst: 10}, 15, 10, 0}, // begins anew
		"to another algorithm":  {Limit{Log: true, Count: 1, Window: 10}, 15, 1, 0},  // begins anew
		"to denied ones":        {Limit{Count: 1, Window: 10, Burst: 10, ChargeDenied: true}, 15, 10, 0},
	} {
		for own := range 2 {
			table := NewTable([]Limit{tenOfTen})
			table.Take(0, 5, "a")
			if own == 0 {
				table.ReconfigureAt(c.at, []Limit{c.to})
			} else {
				table.SetLimitsAt(c.at, "a", []Limit{c.to})
			}
			a := table.Peek(c.at, 0, "a")
			assert.Equal(t, []int64{c.left, c.resets}, []int64{a.Remaining, a.ResetAfter}, name)
		}
	}
	table := NewTable([]Limit{tenOfTen})
	table.Take(0, 5, "a")
	table.SetLimits("a", []Limit{tenOfTen})
	assert.Equal(t, int64(50), table.Peek(0, 0, "a").ResetAfter, "the same limit, at whatever time")
	table.SetLimits("a", []Limit{{Count: 2, Window: 10, Burst: 10}})
	assert.True(t, table.Idle(0, "a"), "another limit, at an unknown time")
	table.Take(0, 5, "a")
	table.SetLimitsAt(10, "a", nil)
	assert.Equal(t, int64(30), table.Peek(10, 0, "a").ResetAfter, "3 of 5 are owed")
	table.SetLimitsAt(60, "a", []Limit{tenOfTen})
	assert.Equal(t, int64(30), table.Peek(10, 0, "a").ResetAfter, "the same limit, once nothing is owed")
	table.SetLimitsAt(10, "a", []Limit{tenOfTen, tenOfTen})
	table.Take(10, 1, "a")
	assert.Equal(t, int64(40), table.Peek(10, 0, "a").ResetAfter, "each of two has a bucket of its own")
	table.SetLimitsAt(10, "a", nil)
	assert.Equal(t, int64(40), table.Peek(10, 0, "a").ResetAfter)

	counter := Limit{Count: 10, Window: 10}
	table.ReconfigureAt(10, []Limit{counter})
	assert.True(t, table.Idle(10, "a"), "a counter begins anew")
	r := reserve(t, table, 10, 5)
	table.ReconfigureAt(10, []Limit{tenOfTen})
	assert.True(t, table.Idle(10, "a"), "and so does a bucket after it")
	table.Take(10, 5, "a")
	table.Settle(10, r, 0)
	assert.Equal(t, int64(50), table.Peek(10, 0, "a").ResetAfter)
	table.SetLimits("a", []Limit{{Count: 1, Window: 10, Burst: 3}})
	assert.Equal(t, int64(50), table.Peek(10, 0, "a").ResetAfter, "another burst, at whatever time")

	// Under a Count of 0 nothing comes back.
	table.ReconfigureAt(22, []Limit{{Count: 0, Window: 10, Burst: 10}}) // for the other keys
	table.SetLimitsAt(22, "a", nil)                                     // 3.8 are owed
	peeks(t, table, []step{
		{22, 0, Answer{RetryAfter: Never, ResetAfter: Never}},
		{1000, 1, Answer{RetryAfter: Never, ResetAfter: Never}},
	})
	assert.False(t, table.Idle(1000, "a"))
	table.ReconfigureAt(1000, []Limit{{Count: 0, Window: 10, Burst: 7}})
	table.ReconfigureAt(1000, []Limit{tenOfTen})
	assert.Equal(t, int64(38), table.Peek(1000, 0, "a").ResetAfter)
	table.ReconfigureAt(1040, []Limit{{Count: 0, Window: 10, Burst: 10}})
	assert.True(t, table.Idle(1040, "a"), "nothing is owed")
}

func TestTokenBucket_GivesBackAfterAChangeOfLimits(t *testing.T) {
	table := NewTable([]Limit{tenOfTen})
	r, late := reserve(t, table, 0, 5), reserve(t, table, 10, 2) // full at 50, at 70
	table.ReconfigureAt(20, []Limit{{Count: 2, Window: 10, Burst: 8}})
	assert.Equal(t, int64(25), table.Peek(20, 0, "a").ResetAfter, "5 are owed")
	table.Take(20, 1, "a")
	table.Settle(20, r, 3) // full at 30, at 50: 3 are owed, and one more
	assert.Equal(t, int64(20), table.Peek(20, 0, "a").ResetAfter)
	table.Settle(20, late, 0)
	assert.Equal(t, int64(10), table.Peek(20, 0, "a").ResetAfter, "1 is owed, and one more")
	assert.Empty(t, table.keys["a"][0].tokens.events)

	// The lineage of the log that is new each time is not the lineage of the bucket.
	table = NewTable([]Limit{tenOfTen})
	r = reserve(t, table, 20, 5)
	table.ReconfigureAt(20, []Limit{tenOfTen, {Log: true, Count: 9, Window: 1}})
	table.ReconfigureAt(20, []Limit{tenOfTen, {Log: true, Count: 9, Window: 2}})
	table.Settle(20, r, 1)
	assert.Equal(t, int64(10), table.Peek(20, 0, "a").ResetAfter)

	r = reserve(t, table, 20, 5)
	table.Reconfigure([]Limit{{Count: 2, Window: 10, Burst: 8}}) // begins anew
	table.Take(20, 1, "a")
	table.Settle(20, r, 0)
	assert.Equal(t, int64(5), table.Peek(20, 0, "a").ResetAfter)

	// Under a Count of 0 as well.
	table = NewTable([]Limit{tenOfTen})
	r, late = reserve(t, table, 20, 5), reserve(t, table, 20, 2)
	table.ReconfigureAt(25, []Limit{{Count: 0, Window: 10, Burst: 10}}) // 6.5 are owed
	table.Settle(25, r, 1)
	table.ReconfigureAt(25, []Limit{tenOfTen})
	assert.Equal(t, int64(25), table.Peek(25, 0, "a").ResetAfter)
	table.Settle(25, late, 0)
	assert.Equal(t, int64(5), table.Peek(25, 0, "a").ResetAfter)
}

func TestTokenBucket_RestoresWhatWasSaved(t *testing.T) {
	table, saved, empty := NewTable([]Limit{tenOfTen}), NewTable([]Limit{tenOfTen}), NewTable([]Limit{tenOfTen})
	r := reserve(t, table, 0, 5)
	table.Save("a", saved)
	settled := reserve(t, table, 0, 1)
	table.Restore(saved)
	table.Settle(0, r, 0)
	table.Settle(0, settled, 0)
	assert.Equal(t, int64(5), table.Peek(0, 0, "a").Remaining, "from before: nothing comes back")
	r = reserve(t, table, 0, 5)
	table.Settle(0, r, 0)
	assert.Equal(t, int64(5), table.Peek(0, 0, "a").Remaining)

	empty.Take(0, 5, "a")
	assert.True(t, saved.Equal(empty), "an open reservation is not saved")
}

func TestTokenBucket_CopyIsEqualUntilEitherGoesOn(t *testing.T) {
	table := NewTable([]Limit{tenOfTen, {Count: 2, Window: 10, Burst: 10}})
	r := reserve(t, table, 0, 2)
	table.Take(1, 1, "a")
	require.Equal(t, int64(7), table.Peek(1, 0, "a").Remaining)
	for name, goOn := range map[string]func(t *Table){
		"Take":          func(t *Table) { t.Take(5, 1, "a") },
		"late Take":     func(t *Table) { t.Take(0, 1, "a") },
		"Settle":        func(t *Table) { t.Settle(5, r, 1) },
		"to the same":   func(t *Table) { t.Settle(5, r, 2) }, // it can be given back no more
		"back to 0":     func(t *Table) { t.Settle(5, r, 0) },
		"Spend":         func(t *Table) { t.Spend(5, 100, "a") },
		"Reset":         func(t *Table) { t.Reset("a") },
		"ReconfigureAt": func(t *Table) { t.ReconfigureAt(5, []Limit{{Count: 3, Window: 10, Burst: 10}, tenOfTen}) },
	} {
		next := table.Copy()
		require.True(t, next.Equal(table) && table.Equal(next), name)
		goOn(next)
		require.False(t, next.Equal(table) || table.Equal(next), name)
		require.True(t, table.Copy().Equal(table), name)
		require.Equal(t, int64(7), table.Peek(1, 0, "a").Remaining, name)
	}
	asked := table.Copy()
	asked.Peek(5, 11, "a")
	asked.Take(5, 0, "a")
	asked.Take(5, 11, "a")
	require.True(t, asked.Equal(table))

	// What a copy reserves is its own.
	next := table.Copy()
	own, _ := next.Reserve(1, 1, "a")
	other, answer := table.Reserve(1, 1, "a")
	require.True(t, answer.Allowed)
	require.True(t, next.Equal(table))
	require.True(t, own.Equal(other))
	again, _ := next.Reserve(1, 1, "a")
	require.False(t, again.Equal(own))
	table.Settle(1, own, 0)
	require.Equal(t, int64(6), table.Peek(1, 0, "a").Remaining)
}

// Tables are equal that answer alike from now on, however they have come there.
func TestTokenBucket_KeepsNoMoreThanMatters(t *testing.T) {
	of := func(calls ...func(*Table)) *Table {
		table := NewTable([]Limit{tenOfTen})
		for _, c := range calls {
			c(table)
		}
		return table
	}
	take := func(at, n int64) func(*Table) { return func(t *Table) { t.Take(at, n, "a") } }
	settled := func(at, n, actual int64) func(*Table) {
		return func(table *Table) { table.Settle(at, reserve(t, table, at, n), actual) }
	}
	reserved := func(at, n int64) func(*Table) { return func(table *Table) { reserve(t, table, at, n) } }
	three := of(take(0, 3))
	for name, table := range map[string]*Table{
		"one by one":     of(take(0, 1), take(0, 2)),
		"settled":        of(settled(0, 5, 3)),
		"to the same":    of(settled(0, 3, 3)),
		"late":           of(take(0, 1), take(-5, 2)),
		"later":          of(take(0, 1), take(5, 2)),
		"given back all": of(take(0, 3), settled(0, 4, 0)),
	} {
		require.True(t, table.Equal(three), name)
	}
	require.False(t, of(take(0, 1), take(11, 2)).Equal(three))
	require.False(t, of(reserved(0, 3)).Equal(three))
	require.False(t, of(reserved(0, 3)).Equal(of(reserved(1, 3))))
	require.False(t, of(reserved(0, 3), take(1, 1)).Equal(of(reserved(0, 3), reserved(1, 1))))
	require.True(t, of(take(0, 1), reserved(10, 3)).Equal(of(reserved(10, 3))), "full at that time")
	require.False(t, of(take(0, 1), reserved(9, 3)).Equal(of(reserved(9, 3))))
	changed := func(count int64) func(*Table) {
		return func(t *Table) { t.ReconfigureAt(5, []Limit{{Count: count, Window: 10, Burst: 10}}) }
	}
	require.False(t, of(take(0, 3), changed(0)).Equal(of(take(0, 4), changed(0))))
	require.True(t, of(take(0, 3), changed(2)).Equal(of(take(0, 2), take(0, 1), changed(2))))
	require.False(t, of(reserved(0, 3), changed(3), changed(2)).Equal(of(reserved(0, 3), changed(4), changed(2))))
	require.True(t, of(reserved(0, 3), take(30, 1)).Equal(of(take(30, 1))), "full in between")
	require.False(t, of(reserved(0, 3), take(29, 1)).Equal(of(take(0, 3), take(29, 1))))
	require.True(t, of(reserved(0, 3), take(5, 1), take(6, 1)).Equal(of(reserved(0, 3), take(5, 2))))
	require.True(t, of(reserved(0, 3), take(6, 1), take(5, 1)).Equal(of(reserved(0, 3), take(6, 2))))

	table := of(reserved(0, 3))
	for i := range int64(30) {
		table.Take(11*i, 1, "a")
		require.Len(t, table.keys["a"][0].tokens.events, 2)
	}
	table.Take(11*30, 1, "a")
	require.Empty(t, table.keys["a"][0].tokens.events, "full at 30 + 30*10")
	table = NewTable([]Limit{{Count: 1, Window: 10, Burst: 5000}})
	reserve(t, table, 0, 3)
	for i := range int64(1000) {
		table.Take(i, 1, "a")
	}
	require.Len(t, table.keys["a"][0].tokens.events, 2)
}

// A tank defines a token bucket in another way: as the units owed at every nanosecond, in
// units times Window. There Count of it drains a nanosecond.
type tank struct {
	first Limit // in force before all calls
	calls []tankCall
}

// A tankCall is a charge, or a change of limits.
type tankCall struct {
	at, cost int64
	final    bool
	to       *Limit
}

const tankBegin, tankEnd = -100, 1500

// owed returns what is owed at each instant from tankBegin on.
func (k *tank) owed() []int64 {
	owed := make([]int64, tankEnd-tankBegin)
	count := k.first.Count
	for _, c := range k.calls {
		at := c.at - tankBegin
		level := owed[at] + c.cost
		if c.to != nil {
			if count == c.to.Count {
				continue
			}
			count = c.to.Count
			for step := gcd(count, c.to.Window); count > 0 && level%step != 0; {
				level++
			}
			if level == 0 {
				clear(owed)
				continue
			}
		}
		owed[at] = level
		for i := at + 1; i < int64(len(owed)); i++ {
			owed[i] = max(owed[i-1]-count, 0)
		}
		for i := at - 1; i >= 0; i-- {
			owed[i] = owed[i+1] + count
		}
	}
	return owed
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// answer returns the answer to a call for n units under l.
func (k *tank) answer(l Limit, at, n int64, allowed bool) Answer {
	owed, budget := k.owed()[at-tankBegin:], l.most()*l.Window
	until := func(most int64) int64 {
		if i := slices.IndexFunc(owed, func(owed int64) bool { return owed <= most }); i >= 0 {
			return int64(i)
		}
		return Never // tankEnd is far enough away
	}
	a := Answer{Allowed: allowed, ResetAfter: until(0), DecidingKey: "a"}
	for owed[0]+(a.Remaining+1)*l.Window <= budget {
		a.Remaining++
	}
	switch {
	case !allowed && n < 0:
		a.RetryAfter = Never
	case !allowed:
		a.RetryAfter = until(budget - n*l.Window)
	}
	return a
}

// TestTokenBucket_AnswersAreThoseOfATank makes random calls, settlements and changes of
// limits.
func TestTokenBucket_AnswersAreThoseOfATank(t *testing.T) {
	skipUnderRace(t)
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 1))
		draw := func(window int64) Limit {
			return Limit{Count: max(rng.Int64N(9)-1, 0), Window: window, Burst: 1 + rng.Int64N(6), ChargeDenied: seed%3 == 0}
		}
		l := draw(1 + rng.Int64N(12))
		type open struct {
			Reservation
			call    int // its index among the calls of the tank, or -1 if it was for nothing
			n       int64
			settled bool
		}
		table, tank, reservations := NewTable([]Limit{l}), tank{first: l}, []*open{}
		now := int64(0)
		for range 40 {
			now = max(now+rng.Int64N(12)-3, tankBegin/2)
			switch rng.IntN(8) {
			case 0:
				l = draw(l.Window)
				if l == table.limits[0] {
					continue
				}
				to := l
				table.ReconfigureAt(now, []Limit{to})
				tank.calls = append(tank.calls, tankCall{at: now, to: &to})
			case 1, 2:
				if len(reservations) == 0 {
					continue
				}
				r := reservations[rng.IntN(len(reservations))]
				actual := rng.Int64N(r.n + 2)
				table.Settle(now, r.Reservation, actual)
				if !r.settled && actual < r.n && r.call >= 0 && !tank.calls[r.call].final {
					tank.calls[r.call].cost -= (r.n - actual) * l.Window
				}
				if !r.settled && actual > r.n && l.Count > 0 {
					tank.calls = append(tank.calls, tankCall{at: now, cost: (actual - r.n) * l.Window})
				}
				r.settled = true
			default:
				n := rng.Int64N(l.Burst+3) - 1
				owed := tank.owed()[now-tankBegin]
				allowed := n >= 0 && owed+n*l.Window <= l.most()*l.Window
				cost := int64(0)
				if allowed {
					cost = n * l.Window
				} else if l.ChargeDenied && n > 0 {
					cost = min(n*l.Window, max(l.most()*l.Window-owed, 0))
				}
				if cost > 0 {
					for i := range tank.calls {
						tank.calls[i].final = tank.calls[i].final || !allowed
					}
					tank.calls = append(tank.calls, tankCall{at: now, cost: cost})
				}
				want := tank.answer(l, now, n, allowed)
				require.Equal(t, want, table.Peek(now, n, "a"), "seed %d: peek %d at %d under %+v", seed, n, now, l)
				if rng.IntN(2) == 0 {
					require.Equal(t, want, table.Take(now, n, "a"))
					continue
				}
				r, answer := table.Reserve(now, n, "a")
				require.Equal(t, want, answer)
				if allowed {
					o := &open{Reservation: r, call: -1, n: n}
					if n > 0 {
						o.call = len(tank.calls) - 1
					}
					reservations = append(reservations, o)
				}
			}
			want := tank.answer(l, now, 0, tank.owed()[now-tankBegin] <= l.most()*l.Window)
			require.Equal(t, want, table.Peek(now, 0, "a"), "seed %d: at %d under %+v", seed, now, l)
			require.Equal(t, want.ResetAfter == 0, table.Idle(now, "a"))
		}
	}
}

// In any interval of length T, at most Burst + Count*T/Window units are admitted. Readings
// that are late do not change that.
func TestTokenBucket_AdmitsNoMoreThanBurstAndTheRate(t *testing.T) {
	skipUnderRace(t)
	tightest := int64(math.MaxInt64)
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 2))
		l := Limit{Count: 1 + rng.Int64N(7), Window: 1 + rng.Int64N(20), Burst: 1 + rng.Int64N(9)}
		k, admitted := New(l), []step{}
		for now := int64(0); len(admitted) < 60; now = max(0, now+rng.Int64N(6)-2) {
			if n := 1 + rng.Int64N(min(l.Burst, 3)); k.Take(now, n).Allowed {
				admitted = append(admitted, step{at: now, n: n})
			}
		}
		for _, first := range admitted {
			for _, last := range admitted {
				if first.at > last.at {
					continue
				}
				sum := int64(0)
				for _, s := range admitted {
					if first.at <= s.at && s.at <= last.at {
						sum += s.n
					}
				}
				left := (l.Burst-sum)*l.Window + l.Count*(last.at-first.at)
				require.GreaterOrEqual(t, left, int64(0), "seed %d: %d units from %d to %d", seed, sum, first.at, last.at)
				tightest = min(tightest, left)
			}
		}
	}
	require.Zero(t, tightest, "the bound is reached")
}
