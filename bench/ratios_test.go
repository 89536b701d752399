package main

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/race"
)

// staged returns a stage of n keys.
func staged(t *testing.T, n int) *stage {
	s, err := newStage(t.Context(), n)
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}

func TestStage_AnswersAreThoseMeasured(t *testing.T) {
	for _, n := range []int{1, 2, few, few + 1} {
		s := staged(t, n)
		tracked := keys.Range(n)
		unseen := keys.Range(2 * n)[n:]
		for _, sub := range s.subjects {
			of, want := tracked, int64(n)
			if sub.inserts {
				of = unseen
			}
			if sub.denies {
				want = 0
			}
			require.Equal(t, want, sub.calls(of), "%s with %d keys", sub.name, n)
			if sub.limiter != nil {
				require.Equal(t, n, sub.limiter.Len(), "%s is called for the keys that it tracks", sub.name)
			}
		}
	}
}

func TestStage_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := newStage(ctx, few)
	defer s.close()
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, s.subjects[0].limiter.Len(), "it inserts no key")
}

func TestComparisons_AreOfSubjectsThatExist(t *testing.T) {
	var all, many []string
	for _, sub := range staged(t, 2).subjects {
		require.NotContains(t, all, sub.name)
		all = append(all, sub.name)
	}
	for _, sub := range staged(t, few+1).subjects {
		many = append(many, sub.name)
	}
	for _, c := range comparisons() {
		require.Contains(t, all, c.of)
		require.Contains(t, all, c.by)
		if c.atMost.with(1_000_000) != nil && c.atMost.with(few) == nil {
			require.Contains(t, many, c.of, "it has a bound with many keys only")
			require.Contains(t, many, c.by)
		}
	}
}

func TestBounds_AreByTheNumberOfKeys(t *testing.T) {
	require.Nil(t, bounds(nil).with(1))
	require.Nil(t, bounds{1000: 1.3}.with(1))
	require.Equal(t, 1.3, *bounds{1000: 1.3, 0: 2}.with(1000))
	require.Equal(t, 2.0, *bounds{1000: 1.3, 0: 2}.with(10))
}

func TestRatioRecord_HoldsAsItIsShown(t *testing.T) {
	bound := 1.3
	for value, want := range map[float64]string{1.304: "1.30 ≤ 1.3", 1.306: "**1.31 > 1.3**", 0.1: "0.10 ≤ 1.3"} {
		r := ratioRecord{Unit: "ratio", Value: value, AtMost: &bound}
		require.Equal(t, want, r.cell())
		require.Equal(t, value < 1.305, r.holds(), "%v", value)
	}
	require.False(t, ratioRecord{Value: math.NaN(), AtMost: &bound}.holds())
	require.Equal(t, "7.00", ratioRecord{Unit: "ratio", Value: 7}.cell())
	require.Equal(t, "70*", ratioRecord{Unit: "ns", Value: 70, Wrong: 0.01}.cell())
	require.Equal(t, "150", ratioRecord{Unit: "bytes", Value: 149.8}.cell())
}

func TestRatioTables_ShowEveryRecordAndTheBoundsThatAreNotKept(t *testing.T) {
	bound := 2.0
	records := []ratioRecord{
		{Of: "a", By: "b", Unit: "ratio", Keys: 1, Goroutines: 1, Value: 1.9, AtMost: &bound},
		{Of: "a", By: "b", Unit: "ratio", Keys: 1000, Goroutines: 2, Value: 2.1, AtMost: &bound},
		{Of: "c", By: "b", Unit: "ratio", Keys: 1000, Goroutines: 2, Value: 5},
		{Of: "d", By: "b", Unit: "ratio", Keys: 1, Goroutines: 1, Value: 6},
		{Of: "e", Unit: "bytes", Keys: 1, Value: 30, AtMost: &bound},
	}
	table := verdict(records)
	require.Equal(t, "1 of 3 bounds are kept", table.Title)
	require.Equal(t, [][]string{
		{"keys: 1k, goroutines: 2", "a / b", "ratio", "**2.10 > 2**"},
		{"keys: 1", "e", "bytes", "**30 > 2**"},
	}, table.Rows)
	table = matrix("", records, "ratio")
	require.Equal(t, []string{"ratio", "keys: 1, goroutines: 1", "keys: 1k, goroutines: 2"}, table.Columns)
	require.Equal(t, [][]string{
		{"a / b", "1.90 ≤ 2", "**2.10 > 2**"},
		{"c / b", report.None, "5.00"},
		{"d / b", "6.00", report.None},
	}, table.Rows)
}

// In each round all subjects have the same keys, those that insert have keys of their own,
// and no key is new twice.
func TestCrowd_CallsForTheKeysThatItSays(t *testing.T) {
	last := 10
	unseen := func() int { last++; return last }
	c := &crowd{keys: 10, goroutines: 2}
	tracked := keys.Range(10)
	seen := map[string]bool{}
	for round := range 3 {
		known, inserted := c.turn(500, round, nil), c.turn(500, round, unseen)
		require.Equal(t, known, c.turn(500, round, nil))
		require.Equal(t, known.decisions(), inserted.decisions())
		require.Len(t, inserted.scripts, 2)
		for _, s := range slices.Concat(known.warming, known.scripts) {
			for _, key := range s[0] {
				require.Contains(t, tracked, key)
			}
		}
		for _, s := range slices.Concat(inserted.warming, inserted.scripts) {
			for _, key := range s[0] {
				require.NotContains(t, tracked, key)
				require.False(t, seen[key], "%s was new before", key)
				seen[key] = true
			}
		}
	}
}

func TestSubjectTimes_CountWrongAnswers(t *testing.T) {
	half := func(keys []string) int64 { return int64(len(keys) / 2) }
	c := &crowd{keys: 10, goroutines: 1}
	for _, denies := range []bool{false, true} {
		x := &subjectTimes{}
		x.measure(subject{calls: half, denies: denies}, c.turn(1000, 0, nil))
		require.Len(t, x.ns, 1)
		require.Equal(t, 0.5, x.wrong)
	}
	x := &subjectTimes{}
	x.measure(subject{calls: func(keys []string) int64 { return int64(len(keys)) }}, c.turn(1000, 0, nil))
	require.Zero(t, x.wrong)
}

var kept []*[64]byte

func TestAllocations_OfACall(t *testing.T) {
	of := make([]string, 10_000)
	require.Equal(t, 0.0, math.Round(allocations(func(keys []string) int64 { return 0 }, of)))
	require.InDelta(t, 2, allocations(func(keys []string) int64 {
		for range keys {
			kept = append(kept[:0], new([64]byte), new([64]byte))
		}
		return 0
	}, of), 0.05)
}

// The bytes of a key are without its name. A counter takes 16 bytes and the name, in one
// object, and a slot of a bucket; parts take two words more, and a large counter some 100 bytes.
func TestHolding_MeasuresOnlyTheKeys(t *testing.T) {
	if race.Enabled {
		t.Skip("fills limiters in one goroutine, and so slowly")
	}
	const n = 100_000
	of := map[string]*holding{}
	for _, h := range holdings(n) {
		require.NoError(t, h.measure(t.Context()))
		require.Len(t, h.records(), 2)
		of[h.records()[0].Of] = h
	}
	small, multi := of["one word, units: 1"], of["large, units: 1"]
	require.InDelta(t, 1, small.objects, 0.1)
	require.InDelta(t, 35, small.bytes, 15)
	require.InDelta(t, 1, of["parts, units: 1"].objects, 0.1)
	require.InDelta(t, small.bytes+16, of["parts, units: 1"].bytes, 8)
	require.Greater(t, multi.bytes, small.bytes+64)
	require.Greater(t, of["log, units: 5"].bytes, of["log, units: 1"].bytes+16)
}
