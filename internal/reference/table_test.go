package reference

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A call is a step for several keys.
type call struct {
	at, n int64
	keys  []string
	want  Answer
}

func runTable(t *testing.T, table *Table, calls []call) {
	t.Helper()
	for i, c := range calls {
		assert.Equal(t, c.want, table.Peek(c.at, c.n, c.keys...), "peek %d at %d", i, c.at)
		assert.Equal(t, c.want, table.Take(c.at, c.n, c.keys...), "take %d at %d", i, c.at)
	}
}

func TestTable_ChargesAllOrNone(t *testing.T) {
	a, ab, b, ba := []string{"a"}, []string{"a", "b"}, []string{"b"}, []string{"b", "a"}
	runTable(t, NewTable([]Limit{{Log: true, Count: 3, Window: 10}, {Log: true, Count: 5, Window: 100}}), []call{
		{0, 2, ab, Answer{Allowed: true, Remaining: 1, ResetAfter: 100, DecidingKey: "a"}},
		{5, 1, a, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "a"}},
		// a holds 3 of 3. Of these, 2 are back at 10. b would admit, and is charged nothing.
		{6, 1, ba, Answer{RetryAfter: 4, ResetAfter: 99, DecidingKey: "a"}},
		// Left are 1 and 1 of b, 0 and 0 of a.
		{10, 2, ba, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "a"}},
		// The short limits admit 2 at 20, both of the long ones at 100.
		{14, 2, ba, Answer{RetryAfter: 86, ResetAfter: 96, Deciding: 1, DecidingKey: "b"}},
		{14, 4, b, Answer{Remaining: 1, RetryAfter: Never, ResetAfter: 96, DecidingKey: "b"}},
		{14, 6, b, Answer{Remaining: 1, RetryAfter: Never, ResetAfter: 96, DecidingKey: "b"}},
		{14, -1, b, Answer{Remaining: 1, RetryAfter: Never, ResetAfter: 96, DecidingKey: "b"}},
		{14, 0, ab, Answer{Allowed: true, ResetAfter: 96, DecidingKey: "a"}},
	})
}

func TestTable_CountsADuplicateKeyOnce(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	runTable(t, table, []call{
		{0, 2, []string{"a", "b", "a"}, Answer{Allowed: true, Remaining: 1, ResetAfter: 10, DecidingKey: "a"}},
	})
}

func TestTable_ChargesDeniedToAll(t *testing.T) {
	runTable(t, NewTable([]Limit{
		{Log: true, Count: 1, Window: 10, ChargeDenied: true},
		{Log: true, Count: 3, Window: 100, ChargeDenied: true},
	}), []call{
		{0, 1, []string{"a"}, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "a"}},
		// c would admit. It is charged all the same, and must then wait as long as a.
		{1, 1, []string{"a", "c"}, Answer{RetryAfter: 10, ResetAfter: 100, DecidingKey: "a"}},
		{1, 0, []string{"c"}, Answer{Allowed: true, ResetAfter: 100, DecidingKey: "c"}},
		{1, 5, []string{"d"}, Answer{RetryAfter: Never, ResetAfter: 100, DecidingKey: "d"}},
		// Of the five, three were charged to the long limit: back at 101.
		{11, 1, []string{"d"}, Answer{RetryAfter: 90, ResetAfter: 100, Deciding: 1, DecidingKey: "d"}},
	})
}

func TestTable_GivesAKeyLimitsOfItsOwn(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 1, Window: 10}})
	table.SetLimits("vip", []Limit{{Log: true, Count: 5, Window: 20}, {Log: true, Count: 4, Window: 30}})
	runTable(t, table, []call{
		{0, 3, []string{"vip"}, Answer{Allowed: true, Remaining: 1, ResetAfter: 30, Deciding: 1, DecidingKey: "vip"}},
		{0, 2, []string{"vip", "a"}, Answer{Remaining: 1, RetryAfter: Never, ResetAfter: 30, DecidingKey: "a"}},
		{0, 1, []string{"vip", "a"}, Answer{Allowed: true, ResetAfter: 30, Deciding: 1, DecidingKey: "vip"}},
	})
	table.SetLimits("vip", nil)
	runTable(t, table, []call{
		{0, 1, []string{"vip"}, Answer{Allowed: true, ResetAfter: 10, DecidingKey: "vip"}},
		{0, 1, []string{"vip"}, Answer{RetryAfter: 10, ResetAfter: 10, DecidingKey: "vip"}},
	})
	table.Reset("vip")
	runTable(t, table, []call{
		{0, 1, []string{"vip"}, Answer{Allowed: true, ResetAfter: 10, DecidingKey: "vip"}},
	})
}

func TestTable_AChangedLimitTakesTheChargesOfOneLikeIt(t *testing.T) {
	bucket := func(count, burst int64) Limit { return Limit{Count: count, Window: 10, Burst: burst} }
	log := func(count int64) Limit { return Limit{Log: true, Count: count, Window: 10} }
	for _, c := range []struct {
		old   []Limit
		to    Limit
		place int
		want  int
	}{
		{[]Limit{log(5), bucket(3, 2)}, bucket(4, 9), 0, 1},
		{[]Limit{bucket(3, 2), bucket(6, 12)}, bucket(6, 12), 0, 1},
		{[]Limit{bucket(3, 2), bucket(6, 12)}, bucket(6, 7), 0, 1},
		{[]Limit{bucket(3, 2), bucket(6, 12)}, bucket(4, 2), 1, 1},
		{[]Limit{bucket(3, 2), bucket(6, 12)}, bucket(4, 2), 2, 0},
		{[]Limit{log(5), log(9), log(7)}, log(6), 0, 1},
		{[]Limit{log(5), log(9), log(7)}, log(7), 0, 2},
	} {
		var old []*Key
		for _, l := range c.old {
			old = append(old, New(l))
		}
		assert.Same(t, old[c.want], New(c.to).source(old, c.place), "%v to %v, number %d", c.old, c.to, c.place)
	}
	assert.Nil(t, New(bucket(3, 2)).source([]*Key{New(log(3))}, 0))
}

// reserve takes n units of the key "a", which must be admitted.
func reserve(t *testing.T, table *Table, at, n int64) Reservation {
	t.Helper()
	r, answer := table.Reserve(at, n, "a")
	require.True(t, answer.Allowed, "reserve %d at %d", n, at)
	return r
}

// peeks checks the answers to Peek on the key "a".
func peeks(t *testing.T, table *Table, steps []step) {
	t.Helper()
	for i, s := range steps {
		s.want.DecidingKey = "a"
		assert.Equal(t, s.want, table.Peek(s.at, s.n, "a"), "peek %d at %d", i, s.at)
	}
}

func TestSettle_GivesBackToTheInstant(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 5, Window: 10}})
	r := reserve(t, table, 0, 3)
	table.Take(4, 2, "a")
	table.Settle(6, r, 1) // one at 0 and two at 4 are left
	left := []step{
		{6, 0, Answer{Allowed: true, Remaining: 2, ResetAfter: 8}},
		{6, 3, Answer{Remaining: 2, RetryAfter: 4, ResetAfter: 8}},
		{6, 4, Answer{Remaining: 2, RetryAfter: 8, ResetAfter: 8}},
	}
	peeks(t, table, left)
	table.Settle(6, r, 0)
	table.Settle(6, r, 9)
	peeks(t, table, left)
}

func TestSettle_GivesBackToTheWindow(t *testing.T) {
	table := NewTable([]Limit{{Count: 4, Window: 10}})
	r := reserve(t, table, 3, 4)
	table.Settle(12, r, 1) // one unit, weighing 0.8
	peeks(t, table, []step{{12, 0, Answer{Allowed: true, Remaining: 3, ResetAfter: 8}}})
}

func TestSettle_GivesBackToEachLimitsSlot(t *testing.T) {
	table := NewTable([]Limit{
		{Count: 4, Window: 10}, {Log: true, Count: 4, Window: 10}, {Precision: 5, Count: 4, Window: 10},
	})
	r := reserve(t, table, 7, 3) // charged to slots 0, 7 and 5
	// At 16 the window weighs 0.4 and the instant counts for 1 ns more: both equal
	// the state of a key never seen. The bucket counts no more, so it keeps its units,
	// which a late reading shows.
	table.Settle(16, r, -1)
	peeks(t, table, []step{
		{16, 4, Answer{Allowed: true, ResetAfter: 14}}, // the window from 10 to 20 weighs until 30
		{6, 2, Answer{Remaining: 1, RetryAfter: 9, ResetAfter: 9, Deciding: 2}},
	})
}

func TestSettle_ChargesADebt(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	r := reserve(t, table, 0, 2)
	table.Settle(4, r, 6) // four more at 4
	peeks(t, table, []step{
		{4, 0, Answer{RetryAfter: 10, ResetAfter: 10}},
		{5, 1, Answer{RetryAfter: 9, ResetAfter: 9}},
		{14, 3, Answer{Allowed: true, ResetAfter: 10}},
	})

	table = NewTable([]Limit{{Count: 4, Window: 10}})
	r = reserve(t, table, 0, 4)
	table.Settle(5, r, 10)
	peeks(t, table, []step{
		{5, 0, Answer{RetryAfter: 11, ResetAfter: 15}}, // ten weigh four at 16
		{5, 4, Answer{RetryAfter: 15, ResetAfter: 15}},
	})
}

func TestSettle_TakesLessThanNothingForNothing(t *testing.T) {
	table := NewTable([]Limit{{Precision: 10, Count: 4, Window: 10}})
	reserve(t, table, 0, 2)
	table.Settle(1, reserve(t, table, 1, 1), -5)
	peeks(t, table, []step{{1, 0, Answer{Allowed: true, Remaining: 2, ResetAfter: 9}}})
}

func TestSettle_WhereDeniedCallsAreChargedADebtCountsUpToCount(t *testing.T) {
	// A counter saturates by the window, so there n = 0 must wait.
	for _, l := range []Limit{{}, {Log: true}, {Precision: 10}} {
		l.Count, l.Window, l.ChargeDenied = 4, 10, true
		table := NewTable([]Limit{l})
		table.Settle(0, reserve(t, table, 0, 1), 9)
		counter := !l.Log && l.Precision == 0
		assert.Equal(t, !counter, table.Peek(0, 0, "a").Allowed)
	}
}

func TestSettle_ADeniedCallForgivesNoDebt(t *testing.T) {
	// Three and three of four are six. A denied call adds nothing to that, and
	// takes nothing from it.
	for _, precision := range []int64{0, 10} {
		table := NewTable([]Limit{{Precision: precision, Count: 4, Window: 10, ChargeDenied: true}})
		first, second := reserve(t, table, 0, 1), reserve(t, table, 0, 3)
		table.Settle(1, first, 3)
		assert.False(t, table.Take(2, 1, "a").Allowed)
		table.Settle(3, second, 0)
		assert.Equal(t, int64(1), table.Peek(3, 0, "a").Remaining)
	}
}

func TestSettle_KeepsTheKeysNewestTime(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	table.Take(0, 1, "a")
	r := reserve(t, table, 5, 2)
	table.Settle(5, r, 0)
	peeks(t, table, []step{
		{2, 0, Answer{Allowed: true, Remaining: 2, ResetAfter: 8}},
		{2, 1, Answer{Allowed: true, Remaining: 1, ResetAfter: 13}}, // charged at 5
	})

	table = NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	r = reserve(t, table, 5, 2)
	table.Settle(5, r, 0)
	peeks(t, table, []step{{2, 1, Answer{Allowed: true, Remaining: 2, ResetAfter: 10}}}) // charged at 2
}

func TestSettle_AllKeysOfAReservation(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	all, answer := table.ReserveAll(0, 2, "b", "a", "b")
	require.True(t, answer.Allowed)
	require.Equal(t, all[0], all[2])
	table.Settle(1, all[0], 0)
	table.Settle(1, all[2], 0) // the same one
	require.Equal(t, int64(3), table.Peek(1, 0, "b").Remaining)
	peeks(t, table, []step{{1, 0, Answer{Allowed: true, Remaining: 1, ResetAfter: 9}}})
	all, answer = table.ReserveAll(1, 2, "b", "a")
	require.False(t, answer.Allowed)
	require.Equal(t, []Reservation{{}, {}}, all)
	require.Equal(t, int64(3), table.Peek(1, 0, "b").Remaining)
}

func TestReconfigure_MigratesWhatDiffersOnlyInCount(t *testing.T) {
	table := NewTable([]Limit{{Count: 4, Window: 10}, {Log: true, Count: 4, Window: 10}, {Precision: 5, Count: 4, Window: 10}})
	r := reserve(t, table, 3, 3)
	table.Reconfigure([]Limit{{Log: true, Count: 2, Window: 10}, {Count: 9, Window: 10}})
	peeks(t, table, []step{{4, 1, Answer{RetryAfter: 9, ResetAfter: 16}}})
	table.SetLimits("a", []Limit{{Count: 7, Window: 10}, {Log: true, Count: 5, Window: 10}, {Precision: 5, Count: 4, Window: 10}})
	peeks(t, table, []step{{4, 0, Answer{Allowed: true, Remaining: 2, ResetAfter: 16, Deciding: 1}}})
	table.Settle(4, r, 1) // not to the buckets: they are not the buckets of the reservation
	peeks(t, table, []step{
		{4, 4, Answer{Allowed: true, ResetAfter: 16, Deciding: 1}},
		{4, 0, Answer{Allowed: true, Remaining: 4, ResetAfter: 16, Deciding: 1}},
	})
	table.SetLimits("a", nil)
	peeks(t, table, []step{{4, 1, Answer{Allowed: true, ResetAfter: 16}}})
	require.Equal(t, []Limit{{Log: true, Count: 2, Window: 10}, {Count: 9, Window: 10}}, table.Limits("a"))
}

func TestReconfigure_LeavesKeysWithLimitsOfTheirOwn(t *testing.T) {
	log := Limit{Log: true, Count: 4, Window: 10}
	table := NewTable([]Limit{log})
	own, less := log, log
	own.Count, less.Count = 9, 2
	table.SetLimits("a", []Limit{own})
	table.Take(0, 3, "a", "b")
	table.Reconfigure([]Limit{less})
	require.Equal(t, int64(6), table.Peek(0, 0, "a").Remaining)
	require.Equal(t, int64(10), table.Peek(0, 0, "b").RetryAfter)
}

func TestCopy_IsEqualUntilEitherGoesOn(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 4, Window: 10}, {Count: 4, Window: 10}})
	r := reserve(t, table, 0, 2)
	table.SetLimits("b", []Limit{{Count: 1, Window: 1}})
	for name, goOn := range map[string]func(t *Table){
		"Take":        func(t *Table) { t.Take(5, 1, "a") },
		"another key": func(t *Table) { t.Take(5, 1, "c") },
		"Settle":      func(t *Table) { t.Settle(5, r, 1) },
		"back to 0":   func(t *Table) { t.Settle(5, r, 0) },
		"Reset":       func(t *Table) { t.Reset("a") },
		"SetLimits":   func(t *Table) { t.SetLimits("b", nil) },
		"Reconfigure": func(t *Table) { t.Reconfigure([]Limit{{Count: 4, Window: 10}}) },
	} {
		next := table.Copy()
		require.True(t, next.Equal(table) && table.Equal(next), name)
		goOn(next)
		require.False(t, next.Equal(table) || table.Equal(next), name)
		require.True(t, table.Copy().Equal(table), name)
		require.Equal(t, int64(2), table.Peek(5, 0, "a").Remaining, name)
	}
	asked := table.Copy()
	asked.Peek(0, 1, "c")
	require.True(t, asked.Equal(table) && table.Equal(asked), "a key that was asked for alone is as one never seen")
}

func TestSettle_GivesBackOnlyWhatTheSlotHolds(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	old := reserve(t, table, 0, 2)
	table.Settle(20, reserve(t, table, 20, 1), 0) // as never seen
	table.Take(0, 1, "a")
	table.Settle(1, old, 0)
	peeks(t, table, []step{{1, 3, Answer{Allowed: true, ResetAfter: 10}}})
}

func TestSettle_AfterReset(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	less, more := reserve(t, table, 0, 1), reserve(t, table, 0, 1)
	table.Reset("a")
	table.Take(0, 1, "a")
	table.Settle(1, less, 0)
	table.Settle(1, more, 2) // one beyond what was reserved
	peeks(t, table, []step{{1, 0, Answer{Allowed: true, Remaining: 1, ResetAfter: 10}}})
}

func TestSettle_ToTheCostReservedForgetsNoTime(t *testing.T) {
	limit := Limit{Log: true, Count: 1, Window: 10, ChargeDenied: true}
	none := limit
	none.Count = 0
	table := NewTable([]Limit{limit})
	r := reserve(t, table, 95, 0)
	table.Take(100, 1, "a")
	table.Reconfigure([]Limit{none}) // no unit counts under it
	table.Settle(100, r, 0)
	table.Reconfigure([]Limit{limit})
	peeks(t, table, []step{{95, 1, Answer{RetryAfter: 15, ResetAfter: 15}}})
}

func TestSettle_ADeniedReservation(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 3, Window: 10}})
	table.Take(0, 2, "a")
	r, answer := table.Reserve(0, 2, "a")
	assert.Equal(t, Answer{Remaining: 1, RetryAfter: 10, ResetAfter: 10, DecidingKey: "a"}, answer)
	table.Settle(0, r, 0)
	table.Settle(0, r, 3)
	peeks(t, table, []step{{0, 0, Answer{Allowed: true, Remaining: 1, ResetAfter: 10}}})
}

// TestTable_AnswersHold makes random calls and settlements under limits of all kinds.
// Every RetryAfter and ResetAfter is exact, and the order of the limits changes only
// which of equals decided.
func TestTable_AnswersHold(t *testing.T) {
	skipUnderRace(t)
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 0))
		denied := seed%2 == 1
		limits := []Limit{
			{Count: 1 + rng.Int64N(9), Window: 1 + rng.Int64N(50), ChargeDenied: denied},
			{Count: 1 + rng.Int64N(9), Window: 1 + rng.Int64N(50), ChargeDenied: denied, Log: true},
			{Count: 1 + rng.Int64N(9), Window: 20 + rng.Int64N(30), ChargeDenied: denied, Precision: 1 + rng.Int64N(20)},
		}
		if seed >= 20 {
			limits[rng.IntN(3)] = Limit{Count: 1 + rng.Int64N(9), Window: 1 + rng.Int64N(50), ChargeDenied: denied, Burst: 4 + rng.Int64N(9)}
		}
		forth, back := NewTable(limits), NewTable([]Limit{limits[2], limits[1], limits[0]})
		now, reserved, settled := int64(0), [][2]Reservation{}, 0
		for range 60 {
			now += rng.Int64N(20) - 4
			n, keys := rng.Int64N(5), []string{"a", "b", "c"}[rng.IntN(3):]
			if rng.IntN(3) > 0 {
				a := forth.Take(now, n, keys...)
				holds(t, forth, a, now, n, keys)
				b := back.Take(now, n, keys...)
				b.Deciding, b.DecidingKey = a.Deciding, a.DecidingKey
				require.Equal(t, a, b)
				continue
			}
			first, _ := forth.Reserve(now, n, keys[0])
			second, _ := back.Reserve(now, n, keys[0])
			reserved = append(reserved, [2]Reservation{first, second})
			if rng.IntN(2) == 0 && settled < len(reserved) {
				actual := rng.Int64N(8)
				forth.Settle(now, reserved[settled][0], actual)
				back.Settle(now, reserved[settled][1], actual)
				settled++
			}
		}
	}
}

func holds(t *testing.T, table *Table, a Answer, now, n int64, keys []string) {
	t.Helper()
	if wait := a.RetryAfter; wait > 0 && wait < Never {
		require.False(t, table.Peek(now+wait-1, n, keys...).Allowed)
		require.True(t, table.Peek(now+wait, n, keys...).Allowed)
	}
	if wait := a.ResetAfter; wait > 0 {
		require.Equal(t, int64(1), table.Peek(now+wait-1, 0, keys...).ResetAfter)
		require.Equal(t, NewTable(table.limits).Peek(now+wait, 0, keys...), table.Peek(now+wait, 0, keys...))
	}
	require.Equal(t, !a.Allowed, a.RetryAfter > 0)
}

func TestTable_RestoresWhatWasSaved(t *testing.T) {
	limit, own := Limit{Log: true, Count: 4, Window: 10}, Limit{Log: true, Count: 6, Window: 10}
	table, saved := NewTable([]Limit{limit}), NewTable([]Limit{limit})
	table.Take(0, 1, "a")
	table.Save("a", saved)
	table.SetLimits("b", []Limit{own})
	table.Take(0, 1, "b")
	table.Save("b", saved)
	table.Take(0, 1, "a", "c") // too late
	reserved, _ := table.Reserve(0, 1, "a")
	reset, _ := table.Reserve(0, 1, "c")
	table.SetLimits("b", nil)

	table.Restore(saved)
	assert.Equal(t, int64(3), table.Peek(0, 0, "a").Remaining)
	assert.Equal(t, int64(5), table.Peek(0, 0, "b").Remaining)
	assert.Equal(t, int64(4), table.Peek(0, 0, "c").Remaining)
	assert.Equal(t, []Limit{own}, table.Limits("b"))
	table.Take(0, 1, "a", "c")
	table.Settle(0, reserved, 0)
	table.Settle(0, reset, 0)
	assert.Equal(t, int64(2), table.Peek(0, 0, "a").Remaining, "from before: nothing comes back")
	assert.Equal(t, int64(3), table.Peek(0, 0, "c").Remaining)

	table.Restore(saved)
	assert.Equal(t, int64(3), table.Peek(0, 0, "a").Remaining, "the saved state is still the same")
}

func TestTable_RefusesForNothing(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 4, Window: 10, ChargeDenied: true}})
	table.Take(0, 3, "a")
	want := Answer{Remaining: 1, RetryAfter: 9, ResetAfter: 9, DecidingKey: "a"}
	assert.Equal(t, want, table.Refuse(1, 2, "a"))
	assert.Equal(t, want, table.Refuse(1, 2, "a"), "it is not charged")
	assert.Equal(t, Answer{Remaining: 1, ResetAfter: 9, DecidingKey: "a"}, table.Refuse(1, 1, "a"), "there is room")
}

func TestTable_KeysAreIdleOnceNothingCounts(t *testing.T) {
	table := NewTable([]Limit{{Log: true, Count: 4, Window: 10}, {Count: 4, Window: 10}})
	assert.True(t, table.Idle(0, "a"))
	table.Spend(0, 9, "a")
	assert.Equal(t, int64(0), table.Peek(0, 0, "a").Remaining)
	assert.False(t, table.Idle(0, "a"))
	assert.False(t, table.Idle(19, "a"), "the counter still weighs it")
	assert.True(t, table.Idle(20, "a"))
	assert.True(t, table.Idle(0, "b"))
}
