package reference

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash/internal/race"
)

// skipUnderRace skips a test of one goroutine under the race detector, which sees nothing there, and
// makes big integers ten times as slow.
func skipUnderRace(t *testing.T) {
	if race.Enabled {
		t.Skip("all of it happens in one goroutine")
	}
}

const (
	millisecond int64 = 1e6
	second            = 1000 * millisecond
	minute            = 60 * second
	hour              = 60 * minute
)

// A step is a call and its answer: Take at a reading, for n units.
type step struct {
	at, n int64
	want  Answer
}

func run(t *testing.T, k *Key, steps []step) {
	t.Helper()
	for i, s := range steps {
		assert.Equal(t, s.want, k.Peek(s.at, s.n), "peek %d at %d", i, s.at)
		assert.Equal(t, s.want, k.Take(s.at, s.n), "take %d at %d", i, s.at)
	}
}

func TestCounter_DeniesByTheWeightedSum(t *testing.T) {
	run(t, New(Limit{Count: 10, Window: minute}), []step{
		{30 * second, 9, Answer{Allowed: true, Remaining: 1, ResetAfter: 90 * second}},
		// 9*50/60 = 7.5, so two fit; and three more once it weighs 5, at 1:26.667.
		{70 * second, 2, Answer{Allowed: true, ResetAfter: 110 * second}},
		{90 * second, 3, Answer{Allowed: true, Remaining: 0, ResetAfter: 90 * second}},
		// A late reading in the same window: 9*75% + 5 = 11.75. One more fits
		// once the nine weigh 4, after 33.33 s of the minute.
		{75 * second, 1, Answer{RetryAfter: 18_333_333_334, ResetAfter: 105 * second}},
	})
}

func TestCounter_AdmitsByTheWeightedSum(t *testing.T) {
	k := New(Limit{Count: 500, Window: minute})
	// From 22.5 s on 250 fit in addition to the 400: 400*62.5% = 250.
	run(t, k, []step{
		{0, 400, Answer{Allowed: true, Remaining: 100, ResetAfter: 2 * minute}},
		{minute + 22_500*millisecond, 250, Answer{Allowed: true, ResetAfter: 97_500 * millisecond}},
		{minute + 45*second, 1, Answer{Allowed: true, Remaining: 149, ResetAfter: 75 * second}},
	})
	// 251 were charged: alone in the previous window they weigh that much.
	assert.Equal(t, int64(500-251), k.Peek(2*minute, 0).Remaining)
}

func TestCounter_RetriesInTheNextWindow(t *testing.T) {
	run(t, New(Limit{Count: 4, Window: 10}), []step{
		{3, 4, Answer{Allowed: true, ResetAfter: 17}},
		{3, 2, Answer{RetryAfter: 12, ResetAfter: 17}},
		{9, 4, Answer{RetryAfter: 11, ResetAfter: 11}},
		{12, 1, Answer{RetryAfter: 1, ResetAfter: 8}},
		{13, 1, Answer{Allowed: true, ResetAfter: 17}},
	})
}

func TestCounter_StaysAtItsNewestWindow(t *testing.T) {
	run(t, New(Limit{Count: 4, Window: 10}), []step{
		{-11, 2, Answer{Allowed: true, Remaining: 2, ResetAfter: 11}}, // window -2
		{-1, 3, Answer{Allowed: true, Remaining: 0, ResetAfter: 11}},  // window -1
		// All earlier readings count as -10, where 2 + 3 are more than 4.
		{-10, 0, Answer{RetryAfter: 5, ResetAfter: 20}},
		{-15, 0, Answer{RetryAfter: 10, ResetAfter: 25}},
		{-15, 1, Answer{RetryAfter: 15, ResetAfter: 25}},
	})
}

func TestCounter_ChargesDeniedUpToCount(t *testing.T) {
	run(t, New(Limit{Count: 4, Window: 10, ChargeDenied: true}), []step{
		{0, 3, Answer{Allowed: true, Remaining: 1, ResetAfter: 20}},
		{0, 2, Answer{RetryAfter: 15, ResetAfter: 20}}, // now 4, not 5
		{12, math.MaxInt64, Answer{RetryAfter: Never, ResetAfter: 18}},
		{12, -1, Answer{RetryAfter: Never, ResetAfter: 18}},
		{20, 3, Answer{RetryAfter: 17, ResetAfter: 20}}, // 3 more fit once these 3 weigh 1
	})
}

func TestLog_GivesEachUnitBackAfterAWindow(t *testing.T) {
	const sixPM = 18 * hour
	k := New(Limit{Log: true, Count: 240, Window: hour})
	run(t, k, []step{
		{sixPM + 5*minute, 20, Answer{Allowed: true, Remaining: 220, ResetAfter: hour}},
		{sixPM + 30*minute, 220, Answer{Allowed: true, ResetAfter: hour}},
		{sixPM + hour, 20, Answer{RetryAfter: 5 * minute, ResetAfter: 30 * minute}},
		{sixPM + hour + 5*minute - 1, 20, Answer{RetryAfter: 1, ResetAfter: 25*minute + 1}},
		{sixPM + hour + 5*minute, 20, Answer{Allowed: true, ResetAfter: hour}},
	})
}

func TestLog_ChargesDenied(t *testing.T) {
	run(t, New(Limit{Log: true, Count: 2, Window: minute, ChargeDenied: true}), []step{
		{hour + 1*second, 1, Answer{Allowed: true, Remaining: 1, ResetAfter: minute}},
		{hour + 30*second, 1, Answer{Allowed: true, ResetAfter: minute}},
		// The newest two are now the units of 1:00:30 and 1:00:50.
		{hour + 50*second, 1, Answer{RetryAfter: 40 * second, ResetAfter: minute}},
		{hour + 100*second, 1, Answer{Allowed: true, ResetAfter: minute}},
		{hour + 100*second, 5, Answer{RetryAfter: Never, ResetAfter: minute}},
		{hour + 100*second, 2, Answer{RetryAfter: minute, ResetAfter: minute}},
	})
}

func TestLog_KeepsClientsApart(t *testing.T) {
	limit := Limit{Log: true, Count: 3, Window: minute}
	for _, at := range [][]int64{
		{15733, 21848, 23044, 25920, 28761},
		{72207, 79100, 80117, 81146, 86779, 89344},
	} {
		k := New(limit)
		for i, ms := range at {
			assert.Equal(t, i < 3, k.Take(ms*millisecond, 1).Allowed, "at %d ms", ms)
		}
	}
}

func TestLog_StaysAtItsNewestCharge(t *testing.T) {
	run(t, New(Limit{Log: true, Count: 2, Window: 10}), []step{
		{100, 1, Answer{Allowed: true, Remaining: 1, ResetAfter: 10}},
		{50, 1, Answer{Allowed: true, ResetAfter: 60}}, // charged at 100
		{109, 1, Answer{RetryAfter: 1, ResetAfter: 1}},
		{110, 2, Answer{Allowed: true, ResetAfter: 10}},
	})
}

func TestBuckets_GiveABucketBackAtOnce(t *testing.T) {
	const sixPM = 18 * hour
	run(t, New(Limit{Precision: minute, Count: 240, Window: hour}), []step{
		{sixPM + 5*minute + 30*second, 20, Answer{Allowed: true, Remaining: 220, ResetAfter: hour - 30*second}},
		{sixPM + 30*minute, 220, Answer{Allowed: true, ResetAfter: hour}},
		{sixPM + hour, 20, Answer{RetryAfter: 5 * minute, ResetAfter: 30 * minute}},
		{sixPM + hour + 5*minute - 1, 20, Answer{RetryAfter: 1, ResetAfter: 25*minute + 1}},
		{sixPM + hour + 5*minute, 20, Answer{Allowed: true, ResetAfter: hour}},
	})
}

func TestBuckets_AsWideAsTheWindowAreAFixedWindow(t *testing.T) {
	run(t, New(Limit{Precision: 10, Count: 2, Window: 10}), []step{
		{-1, 1, Answer{Allowed: true, Remaining: 1, ResetAfter: 1}},
		{9, 2, Answer{Allowed: true, ResetAfter: 1}},
		{9, 1, Answer{RetryAfter: 1, ResetAfter: 1}},
		{10, 2, Answer{Allowed: true, ResetAfter: 10}},
	})
}

func TestBuckets_RoundTheWindowUp(t *testing.T) {
	// Four buckets of two count: 8 ns, not 7.
	run(t, New(Limit{Precision: 2, Count: 5, Window: 7}), []step{
		{1, 3, Answer{Allowed: true, Remaining: 2, ResetAfter: 7}},
		{7, 3, Answer{Remaining: 2, RetryAfter: 1, ResetAfter: 1}},
		{8, 3, Answer{Allowed: true, Remaining: 2, ResetAfter: 8}},
	})
}

func TestBuckets_StayAtTheirNewest(t *testing.T) {
	run(t, New(Limit{Precision: 4, Count: 3, Window: 8}), []step{
		{9, 2, Answer{Allowed: true, Remaining: 1, ResetAfter: 7}}, // in 8, back at 16
		{5, 1, Answer{Allowed: true, ResetAfter: 11}},              // in 8 as well
		{3, 1, Answer{RetryAfter: 13, ResetAfter: 13}},
		{15, 3, Answer{RetryAfter: 1, ResetAfter: 1}},
		{16, 3, Answer{Allowed: true, ResetAfter: 8}},
	})
}

func TestBuckets_ChargeDenied(t *testing.T) {
	run(t, New(Limit{Precision: 2, Count: 2, Window: 6, ChargeDenied: true}), []step{
		{0, 1, Answer{Allowed: true, Remaining: 1, ResetAfter: 6}},
		{3, 1, Answer{Allowed: true, ResetAfter: 5}},
		// The newest two are now those in 2 and in 4.
		{5, 1, Answer{RetryAfter: 3, ResetAfter: 5}},
		{5, 0, Answer{Allowed: true, ResetAfter: 5}},
		{5, 9, Answer{RetryAfter: Never, ResetAfter: 5}}, // two in 4, not ten
		{8, 1, Answer{RetryAfter: 2, ResetAfter: 6}},     // one in 8, so one fits at 10
	})
}

func TestKey_EndsOfTime(t *testing.T) {
	for _, l := range []Limit{{}, {Log: true}, {Precision: 1}, {Precision: 3}} {
		l.Count, l.Window = 1, math.MaxInt64
		k := New(l)
		assert.True(t, k.Take(math.MinInt64, 1).Allowed)
		assert.False(t, k.Take(-2, 1).Allowed)
		assert.Equal(t, Never, k.Peek(math.MinInt64, 1).RetryAfter)

		l.Count, l.Window = math.MaxInt64, 3
		k = New(l)
		assert.Equal(t, int64(math.MaxInt64-1), k.Take(math.MaxInt64, 1).Remaining)
		// A reading that is late by all of time: the wait saturates.
		assert.Equal(t, Never, k.Peek(math.MinInt64, math.MaxInt64).RetryAfter)
		assert.Equal(t, Never, k.Peek(math.MinInt64, 1).ResetAfter)
	}
}
