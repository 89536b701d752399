package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash/internal/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestCost_AgainstPlainReferences(t *testing.T) {
	t.Parallel()
	seeds := race.Trials(36)
	var above, givenBack, wrong, denied int64
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 3))
		limits := policy{randomLimit(random, sash.Algorithm(seed%5)), randomLimit(random, sash.Algorithm(random.IntN(5)))}
		for i := range limits {
			limits[i].Count *= 10
			limits[i].Burst *= 10
		}
		lines := randomLines(random)
		for i := range lines {
			lines[i].Charge = traffic.Charge{Asked: random.Int64N(12), Cost: random.Int64N(12)}
		}
		wait := time.Duration(random.Int64N(3)) * time.Duration(random.Int64N(int64(time.Second)))
		want := plainReplay(lines, wait, limits...)
		r := invoke(csvOf(lines), "-json", "-together", "-limit", limits[0].String(), "-limit", limits[1].String(),
			"-time", "when", "-key", "who", "-estimate", "estimate", "-cost", "cost", "-settle", wait.String()).report(t)
		got := r.Limits[0]
		assert.Equal(t, want.counts(), got.counts(), "%v, settled after %v", limits, wait)
		u := got.Units
		assert.Equal(t,
			[]int64{want.asked, want.admitted, want.asked - want.admitted, want.above, want.givenBack, want.sum},
			[]int64{u.Asked, u.Admitted, u.Denied, u.ChargedAbove, u.GivenBack, u.Spent})
		above, givenBack = above+u.ChargedAbove, givenBack+u.GivenBack
		wrong, denied = wrong+got.WronglyAdmitted+got.WronglyDenied, denied+got.Denied
	}
	for _, n := range []int64{above, givenBack, wrong, denied} {
		assert.Greater(t, n, int64(10*seeds), "this traffic tells nothing")
	}
}

func TestCost_SettledWhenItIsDue(t *testing.T) {
	// Calls under 10/m log. The call at 0 reserves 6. Its cost is known when it is
	// settled, and decides whether the next call is admitted.
	tests := []struct {
		name    string
		cost    int64
		settle  string
		ask     int64 // of a call at 5
		denied  int64
		atAsked bool // whether it asks at 0 too, and not at 5
	}{
		{"what is left", 6, "0s", 4, 0, false},
		{"more than is left", 6, "0s", 5, 1, false},
		{"given back", 2, "0s", 8, 0, false},
		{"given back at once, within the instant", 2, "0s", 8, 0, true},
		{"charged at once, within the instant", 9, "0s", 2, 1, true},
		{"given back in time", 2, "5s", 8, 0, false},
		{"given back too late", 2, "5000000001ns", 8, 1, false},
		{"charged by then", 9, "5s", 2, 1, false},
		{"charged later", 9, "5000000001ns", 2, 0, false},
		{"charged past the limit", 60, "5s", 0, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := []line{{0, "a", traffic.Charge{Asked: 6, Cost: tt.cost}}, {5_000_000, "a", traffic.Charge{Asked: tt.ask, Cost: tt.ask}}}
			if tt.atAsked {
				lines[1].micros = 0
			}
			r := invoke(csvOf(lines), "-json", "-limit", "10/m log", "-time", "when", "-key", "who",
				"-estimate", "estimate", "-cost", "cost", "-settle", tt.settle).report(t)
			assert.Equal(t, tt.denied, r.Limits[0].Denied)
		})
	}
}

func TestCost_DueAfterTheLastInstantIsNeverSettled(t *testing.T) {
	const content = "when,estimate,cost\n2262-04-11 23:47:16,6,1\n2262-04-11 23:47:16,5,5\n"
	r := invoke(content, "-json", "-limit", "10/m log", "-time", "when", "-estimate", "estimate", "-cost", "cost", "-settle", "1s").report(t)
	assert.EqualValues(t, 1, r.Limits[0].Denied)
}

// A reservation is charged at two instants: the estimate when it was made, and the units
// above it when it is settled. A window that no longer holds the first still counts the
// second.
func TestCost_ChargedAboveCountsFromItsSettling(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 6, Cost: 10}}, {61_000_000, "a", traffic.Charge{Asked: 7, Cost: 7}}, {61_000_000, "a", traffic.Charge{Asked: 6, Cost: 6}}}
	r := invoke(csvOf(lines), "-json", "-limit", "10/m log", "-time", "when", "-key", "who",
		"-estimate", "estimate", "-cost", "cost", "-settle", "30s").report(t)
	assert.EqualValues(t, 1, r.Limits[0].Denied)
	assert.EqualValues(t, 7, r.Limits[0].Units.Denied)
}

func TestCost_WithoutAnEstimateIsTaken(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 1, Cost: 6}}, {1, "a", traffic.Charge{Asked: 1, Cost: 5}}, {2, "a", traffic.Charge{Asked: 1, Cost: 4}}, {3, "b", traffic.Charge{Asked: 1, Cost: 11}}, {4, "b", traffic.Charge{Asked: 1, Cost: 0}}}
	r := invoke(csvOf(lines), "-json", "-limit", "10/m", "-time", "when", "-key", "who", "-cost", "cost").report(t)
	assert.EqualValues(t, 2, r.Limits[0].Denied)
	assert.Equal(t, &account{
		Asked: 26, Admitted: 10, Denied: 16, DeniedShare: 16. / 26, Spent: 10,
		MostAtOnce: 10, TooLarge: 1,
		Peaks: []peak{{sash.PerMinute(10), 10, 1, "a", time.UnixMicro(2).UTC()}},
	}, r.Limits[0].Units)
	assert.Empty(t, r.Estimate)
}

// Of a token bucket, what it holds bounds a cost, and what it admits in a window is what it
// holds and what flows into it.
func TestCost_OfATokenBucket(t *testing.T) {
	const second = 1_000_000
	lines := []line{
		{0, "a", traffic.Charge{Asked: 100, Cost: 100}},
		{1, "a", traffic.Charge{Asked: 1, Cost: 1}},            // denied: a unit takes 100 ms
		{second / 2, "a", traffic.Charge{Asked: 5, Cost: 5}},   // what has flowed back
		{second / 2, "a", traffic.Charge{Asked: 1, Cost: 1}},   // denied
		{second / 2, "b", traffic.Charge{Asked: 101, Cost: 1}}, // denied for ever
		{second, "b", traffic.Charge{Asked: 11, Cost: 11}},     // more than Count
	}
	args := []string{"-limit", "10/s burst 100", "-time", "when", "-key", "who", "-estimate", "estimate", "-cost", "cost"}
	r := invoke(csvOf(lines), append(args, "-json")...).report(t)
	bucket := sash.PerSecond(10).TokenBucket(100)
	assert.True(t, r.Limits[0].Exact)
	assert.EqualValues(t, 3, r.Limits[0].Denied)
	assert.EqualValues(t, 3, r.Limits[0].ExactDenied)
	assert.Zero(t, r.Limits[0].WronglyAdmitted+r.Limits[0].WronglyDenied)
	assert.Equal(t, &account{
		Asked: 219, Admitted: 116, Denied: 103, DeniedShare: 103. / 219, Spent: 116,
		MostAtOnce: 100, TooLarge: 1,
		Peaks: []peak{{bucket, 105, 105. / 110, "a", time.UnixMicro(second / 2).UTC()}},
	}, r.Limits[0].Units)

	// Next to a log, the less of both bounds a cost.
	r = invoke(csvOf(lines), append(args, "-json", "-together", "-limit", "90/m log")...).report(t)
	assert.EqualValues(t, 90, r.Limits[0].Units.MostAtOnce)
	assert.EqualValues(t, 2, r.Limits[0].Units.TooLarge)

	text := invoke(csvOf(lines), args...).stdout
	assert.Contains(t, text, "1 event denied for asking more than 100 at once, which 10/1s burst 100 never admits")
	assert.Contains(t, text, "95.455%")
}

func TestInWindow_IsWhatALimitIsMeantToAdmit(t *testing.T) {
	for limit, want := range map[sash.Limit]int64{
		sash.PerSecond(10):                               10,
		sash.PerSecond(10).TokenBucket(3):                13,
		sash.PerSecond(math.MaxInt64 - 3).TokenBucket(3): math.MaxInt64,
		sash.PerSecond(math.MaxInt64 - 3).TokenBucket(4): math.MaxInt64,
		sash.Unlimited():                                 math.MaxInt64,
	} {
		assert.Equal(t, want, inWindow(limit), limit)
	}
}

// A bucket with a Count of 0 admits nothing, whatever it would hold.
func TestCost_OfATokenBucketThatNeverFills(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 1, Cost: 1}}}
	r := invoke(csvOf(lines), "-json", "-limit", "0/s burst 5", "-time", "when", "-key", "who", "-cost", "cost").report(t)
	assert.EqualValues(t, 1, r.Limits[0].Denied)
	assert.EqualValues(t, 1, r.Limits[0].Units.TooLarge)
	assert.Zero(t, r.Limits[0].Units.MostAtOnce)
}

func TestCost_WhatNoWaitAdmits(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 11, Cost: 1}}, {0, "a", traffic.Charge{Asked: 10, Cost: 10}}, {0, "a", traffic.Charge{Asked: 5, Cost: 99}}, {0, "b", traffic.Charge{Asked: 5, Cost: 99}}}
	args := []string{"-limit", "20/m", "-limit", "10/s", "-time", "when", "-key", "who", "-estimate", "estimate", "-cost", "cost"}
	r := invoke(csvOf(lines), append(args, "-json")...).report(t)
	assert.Zero(t, r.Limits[0].Units.TooLarge)
	assert.EqualValues(t, 1, r.Limits[1].Units.TooLarge, "by what it asks, not by its cost")
	assert.EqualValues(t, 10, r.Limits[1].Units.MostAtOnce)

	r = invoke(csvOf(lines), append(args, "-json", "-together")...).report(t)
	assert.EqualValues(t, 1, r.Limits[0].Units.TooLarge)
	assert.EqualValues(t, 10, r.Limits[0].Units.MostAtOnce, "the least Count of all")

	assert.Contains(t, invoke(csvOf(lines), args...).stdout,
		"\n1 event denied for asking more than 10 at once, which 10/1s log never admits\n")
}

func TestCost_TextReport(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 600, Cost: 900}}, {1_000_000, "a", traffic.Charge{Asked: 300, Cost: 500}}, {2_000_000, "b", traffic.Charge{Asked: 800, Cost: 100}}, {2_000_000, "a", traffic.Charge{Asked: 2000, Cost: 1}}, {3_000_000, "b", traffic.Charge{Asked: 900, Cost: 1000}}}
	args := []string{"-limit", "1000/m", "-time", "when", "-key", "who", "-estimate", "estimate", "-cost", "cost"}
	got := invoke(csvOf(lines), append(args, "-settle", "1s", "-top", "0")...)
	assert.Equal(t, command.OK, got.status, got.stderr)
	assert.Equal(t, `-: 5 events by 2 clients, told apart by who
from 1970-01-01 00:00:00 to 1970-01-01 00:00:03 UTC, 3s
read as csv: -time names a column of its header

  denied  of events  clients denied  exactly denied  wrongly admitted  wrongly denied  wrong of events  limit
       2    40.000%               1               2                 0               0           0.000%  1000/1m0s

in units of cost
asked, admitted and denied as estimated by estimate, settled 1s later
  asked  admitted  denied  of units  charged above  given back  spent  limit
  4,600     2,300   2,300   50.000%            400         700  2,000  1000/1m0s
1 event denied for asking more than 1,000 at once, which 1000/1m0s never admits

most units that a client spent in one window, times in UTC
  spent  of the limit                until      limit  client
  1,100      110.000%  1970-01-01 00:00:03  1000/1m0s  b
`, got.stdout)
	assert.Contains(t, invoke(csvOf(lines), args...).stdout, "\nasked, admitted and denied as estimated by estimate, settled at once\n")
	assert.NotContains(t, invoke(csvOf(lines), args[:6]...).stdout, "units")
}

func TestCost_JSONNamesFieldsAsDocumented(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 6, Cost: 7}}, {0, "a", traffic.Charge{Asked: 11, Cost: 1}}}
	got := invoke(csvOf(lines), "-json", "-together", "-top", "0", "-limit", "10/s log", "-limit", "40/m log",
		"-time", "when", "-estimate", "estimate", "-cost", "cost", "-settle", "1m")
	assert.JSONEq(t, `{
		"files": ["-"], "key": "", "lines": 3, "events": 2, "clients": 1,
		"first": "1970-01-01T00:00:00Z", "last": "1970-01-01T00:00:00Z",
		"blank": 0, "cut_short": 0, "out_of_order": 0, "unreadable": 0, "headings": 1,
		"unreadable_lines": [], "unreadable_lines_cap": 1000, "broken_off": [],
		"formats": [{"file": "-", "format": "csv", "why": "-time names a column of its header"}],
		"warnings": ["all times are whole seconds, so the requests of a second seem to come at once: in windows of 1s the denials, and the errors of a counter, are partly those of the clock; log fractions of a second, such as $msec of nginx"],
		"cost": "cost", "estimate": "estimate", "settle": "1m0s",
		"limits": [{
			"together": [
				{"limit": "10/1s log", "denied": 1, "denied_share": 1},
				{"limit": "40/1m0s log", "denied": 0, "denied_share": 0}
			],
			"denied": 1, "denied_share": 0.5, "denied_clients": 1,
			"exact": true, "exact_denied": 1, "wrongly_admitted": 0, "wrongly_denied": 0, "error_share": 0,
			"units": {
				"asked": 17, "admitted": 6, "denied": 11, "denied_share": 0.6470588235294118,
				"charged_above_estimate": 1, "given_back": 0, "spent": 7,
				"most_at_once": 10, "too_large": 1,
				"most_in_window": [
					{"limit": "10/1s log", "units": 7, "of_count": 0.7, "client": "all", "end": "1970-01-01T00:00:00Z"},
					{"limit": "40/1m0s log", "units": 7, "of_count": 0.175, "client": "all", "end": "1970-01-01T00:00:00Z"}
				]
			},
			"top": []
		}]
	}`, got.stdout)
}

func TestCost_NothingSpent(t *testing.T) {
	lines := []line{{0, "a", traffic.Charge{Asked: 11, Cost: 11}}, {0, "a", traffic.Charge{Asked: 0, Cost: 0}}}
	args := []string{"-limit", "10/s", "-time", "when", "-cost", "cost"}
	assert.Empty(t, invoke(csvOf(lines), append(args, "-json")...).report(t).Limits[0].Units.Peaks)
	assert.NotContains(t, invoke(csvOf(lines), args...).stdout, "most units")
}

// The figures come from an independent implementation of all four algorithms.
func TestCost_OfRecordedCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		estimate, settle string
		limits           []string
		denied           []int64
		above, givenBack []int64
		spent, most      []int64
	}{
		{"ContextTokens", "0s", []string{"600000/1m counter", "600000/1m log", "600000/1m buckets 1s", "600000/1m"}, []int64{302, 440, 494, 530},
			[]int64{4_062_084, 4_033_550, 4_023_034, 4_012_599}, []int64{0, 0, 0, 0},
			[]int64{25_359_878, 25_318_821, 25_339_406, 25_396_203}, []int64{626_124, 600_403, 613_792, 626_512}},
		{"ContextTokens", "5s", []string{"600000/1m counter", "600000/1m log", "600000/1m buckets 1s", "600000/1m"}, []int64{293, 392, 460, 530},
			[]int64{4_064_850, 4_040_677, 4_031_785, 4_014_097}, []int64{0, 0, 0, 0},
			[]int64{25_364_507, 25_319_922, 25_340_889, 25_395_129}, []int64{629_563, 603_746, 614_769, 625_613}},
		{"ContextTokens+300", "5s", []string{"600000/1m counter", "600000/1m log", "600000/1m buckets 1s", "600000/1m"}, []int64{325, 437, 474, 523},
			[]int64{816_719, 810_559, 807_580, 807_192}, []int64{2_468_927, 2_456_155, 2_451_941, 2_445_455},
			[]int64{25_293_889, 25_261_231, 25_279_158, 25_343_710}, []int64{623_037, 596_525, 606_945, 620_218}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.estimate, " ", tt.settle), func(t *testing.T) {
			args := []string{"-json", "-time", "TIMESTAMP", "-estimate", tt.estimate, "-cost", "ContextTokens+GeneratedTokens", "-settle", tt.settle}
			for _, l := range tt.limits {
				args = append(args, "-limit", l)
			}
			r := invoke("", append(args, recordedFile(t, "azure_llm_conv.csv.gz"))...).report(t)
			assert.EqualValues(t, 19_366, r.Events)
			assert.Zero(t, r.Unreadable+r.OutOfOrder+r.Blank)
			require.Len(t, r.Limits, len(tt.limits))
			for i, v := range r.Limits {
				u := v.Units
				assert.EqualValues(t, 22_361_870+strings.Count(tt.estimate, "300")*300*19_366, u.Asked)
				require.Len(t, u.Peaks, 1)
				assert.Equal(t,
					[]int64{tt.denied[i], tt.denied[1], tt.above[i], tt.givenBack[i], tt.spent[i], tt.most[i]},
					[]int64{v.Denied, v.ExactDenied, u.ChargedAbove, u.GivenBack, u.Spent, u.Peaks[0].Units}, tt.limits[i])
			}
		})
	}
}
