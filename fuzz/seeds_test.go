package fuzz

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
)

var writeSeeds = flag.Bool("write-seeds", false, "write the named seeds to testdata")

// A seed is an input of a fuzz target, with a name that tells its purpose.
type seed struct {
	name    string
	program []byte
}

// TestSeeds checks that the files in testdata are the seeds of the tables.
func TestSeeds(t *testing.T) {
	for target, seeds := range map[string][]seed{
		"FuzzSequence": sequenceSeeds, "FuzzPolicy": policySeeds, "FuzzRestore": restoreSeeds,
	} {
		for _, s := range seeds {
			file(t, target, s.name, fmt.Sprintf("[]byte(%q)", s.program))
		}
	}
	for i, s := range limitTexts {
		file(t, "FuzzParseLimit", fmt.Sprintf("text-%02d", i), fmt.Sprintf("string(%q)", s))
	}
}

func file(t *testing.T, target, name, value string) {
	path := filepath.Join("testdata", "fuzz", target, name)
	content := "go test fuzz v1\n" + value + "\n"
	if *writeSeeds {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != content {
		t.Errorf("%s is not the seed of that name: %v", path, err)
	}
}

// The functions below assemble tapes. They write every number as eight bytes.

func number(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{raw}, uint64(n))
}

func limitOf(l sash.Limit, flags byte) []byte {
	numbers := slices.Concat(number(l.Count), number(int64(l.Window)))
	switch l.Algorithm {
	case sash.SlidingLog:
		flags |= inLog
	case sash.SlidingBuckets:
		flags |= inBuckets
		numbers = append(numbers, number(int64(l.Precision))...)
	case sash.TokenBucket:
		flags |= withBurst
		numbers = append(numbers, number(l.Burst)...)
	case sash.SlidingParts:
		flags |= inParts
	case sash.Concurrency:
		flags |= heldAtOnce
	}
	switch {
	case l == sash.Unlimited():
		flags |= unlimited
	case l.Count == 0:
		flags |= ofNothing
	}
	return append([]byte{flags}, numbers...)
}

func sequence(l sash.Limit, flags byte, start int64, steps ...[]byte) []byte {
	return slices.Concat(limitOf(l, flags), number(start), slices.Concat(steps...))
}

// on returns an instruction of a sequence with its number.
func on(key, instruction byte, n int64) []byte {
	return append([]byte{instruction + sequenceInstructions*key, 0}, number(n)...)
}

// wait returns the instruction that moves the clock by d, which may be negative.
func wait(d time.Duration) []byte { return on(0, advance, int64(d)) }

// plain returns an instruction without a number. For allowBytes a byte must follow.
func plain(key, instruction byte) []byte { return []byte{instruction + sequenceInstructions*key} }

func times(n int, steps ...[]byte) []byte {
	return slices.Repeat(slices.Concat(steps...), n)
}

const (
	huge   = math.MaxInt64
	minute = time.Minute
)

var sequenceSeeds = []seed{
	{"ten-a-minute", sequence(sash.PerMinute(10).Counter(), 0, 0,
		on(0, take, 9), wait(75*time.Second), on(0, take, 5), on(0, take, 3), on(0, peek, 3))},
	{"leaving-and-up-to", sequence(sash.PerMinute(10).Parts(), 0, 0,
		on(0, takeLeaving, 3), []byte{0}, number(5), on(0, takeLeaving, 3), []byte{0}, number(5), on(0, takeUpTo, 4), on(0, takeUpTo, 9),
		on(0, takeUpTo, 1), wait(minute), on(0, takeUpTo, huge), on(0, takeLeaving, 1), []byte{0}, number(huge), on(0, takeLeaving, 0), []byte{0}, number(1))},
	{"five-hundred-a-minute", sequence(sash.PerMinute(500).Counter(), 0, 0,
		on(0, take, 400), wait(105*time.Second), on(0, take, 250), on(0, take, 1), on(0, take, 151), on(0, take, 149))},
	{"log-charges-denied", sequence(sash.PerMinute(2).Log(), denied, int64(time.Hour+time.Second),
		on(0, take, 1), wait(29*time.Second), on(0, take, 1), wait(20*time.Second), on(0, take, 1), wait(50*time.Second), on(0, take, 1))},
	{"log-two-clients", sequence(sash.PerMinute(3).Log(), 0, 15_733e6,
		on(0, take, 1), wait(6115e6), on(0, take, 1), wait(1196e6), on(0, take, 1), wait(2876e6), on(0, take, 1),
		wait(46_287e6), times(4, on(1, take, 1), wait(4e9)))},
	{"window-edges", sequence(sash.Per(4, 10).Counter(), 0, 9,
		on(0, take, 4), wait(1), on(0, take, 1), wait(2), on(0, take, 1), wait(1), on(0, take, 1),
		wait(7), on(0, take, 1), wait(9), on(0, take, 4), wait(1), on(0, take, 4), wait(20), on(0, take, 4))},
	{"window-edges-below-zero", sequence(sash.Per(4, 10).Counter(), 0, -11,
		on(0, take, 3), wait(1), on(0, take, 2), wait(9), on(0, take, 2), wait(1), on(0, take, 2), wait(10), on(0, take, 4))},
	{"log-edges", sequence(sash.Per(2, 10).Log(), 0, -5,
		on(0, take, 1), wait(9), on(0, take, 2), wait(1), on(0, take, 2), wait(8), on(0, take, 1), wait(1), on(0, take, 1), wait(10), on(0, take, 2))},
	{"late-clock", sequence(sash.Per(4, 10).Counter(), 0, 19,
		on(0, take, 2), wait(1), on(0, take, 2), wait(-1), on(0, take, 1), wait(-9), on(0, take, 1), wait(-100), on(0, take, 1), on(0, peek, 0), on(1, take, 4))},
	{"late-clock-log", sequence(sash.Per(4, 10).Log(), 0, 19,
		on(0, take, 2), wait(5), on(0, take, 1), wait(-1), on(0, take, 1), wait(-100), on(0, take, 1), wait(105), on(0, take, 2), wait(5), on(0, take, 2))},
	{"late-clock-denied", sequence(sash.Per(4, 10).Counter(), denied, 15,
		on(0, take, 4), wait(10), on(0, take, 3), wait(-11), on(0, take, 2), on(0, take, huge), on(0, take, 0))},
	{"ring-grows", sequence(sash.Per(100, 1000).Log(), 0, 0,
		times(40, on(0, take, 1), wait(7)), on(0, take, 61), on(0, take, 60), wait(800), times(20, on(0, take, 1), wait(11)))},
	{"ring-turns", sequence(sash.Per(5, 100).Log(), 0, 0, times(40, on(0, take, 1), wait(23)))},
	{"ring-shrinks", sequence(sash.Per(100, 1000).Log(), 0, 0,
		times(40, on(0, take, 2), wait(1)), wait(990), times(3, on(0, take, 1), plain(0, sweep), wait(13)), wait(1000), plain(0, sweep))},
	{"ring-of-denied", sequence(sash.Per(5, 100).Log(), denied, 0, times(20, on(0, take, 2), wait(3), on(0, take, 9), wait(3)), wait(100), on(0, take, 5))},
	{"wide-by-count", sequence(sash.PerHour(1e15).Counter(), 0, -1,
		on(0, take, 1e15-1), on(0, take, 2), on(0, take, 1), wait(1), on(0, take, 1), wait(minute), on(0, take, 1e13), wait(time.Hour), on(0, take, 5e14))},
	{"wide-by-window", sequence(sash.Per(3, 1).Counter(), 0, 0, times(10, on(0, take, 2), on(0, take, 2), wait(1)))},
	{"wide-low-overflows", sequence(sash.PerSecond(1<<24).Counter(), 0, 0,
		on(0, take, 1<<22-1), on(0, take, 1), on(0, take, 1<<22), wait(time.Second/2), on(0, take, 1<<22-1), wait(time.Second), on(0, take, 1<<22))},
	{"wide-charges-denied", sequence(sash.PerSecond(1e15).Counter(), denied, 0,
		on(0, take, 1e15-1), on(0, take, 2), wait(time.Second), on(0, take, huge), wait(time.Second), on(0, take, 1), wait(2*time.Second), on(0, take, 1))},
	{"huge", sequence(sash.Per(huge, huge-1).Counter(), 0, math.MinInt64,
		on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, 1), wait(huge), on(0, take, huge), wait(math.MinInt64), on(0, take, 1))},
	{"huge-log-charges-denied", sequence(sash.Per(huge, huge-1).Log(), denied, math.MinInt64,
		on(0, take, huge), wait(huge-1), on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, huge))},
	{"ends-of-time", sequence(sash.PerSecond(2).Counter(), 0, huge-2,
		on(0, take, 2), wait(1), on(0, take, 1), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1), on(1, take, 1))},
	{"ends-of-time-log", sequence(sash.PerSecond(2).Log(), 0, math.MinInt64,
		on(0, take, 2), wait(huge), on(0, take, 2), wait(huge), on(0, take, 2), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1))},
	{"two-hundred-and-forty-an-hour", sequence(sash.PerHour(240).Buckets(minute), 0, int64(5*time.Minute),
		on(0, take, 20), wait(time.Hour-1), on(0, take, 221), wait(1), on(0, take, 240), on(0, take, 1))},
	{"fixed-windows", sequence(sash.Per(4, 10).Buckets(10), 0, -11,
		on(0, take, 4), on(0, take, 1), wait(1), on(0, take, 4), wait(9), on(0, take, 1), wait(1), on(0, take, 4), wait(9), plain(0, sweep), wait(1), plain(0, sweep))},
	{"buckets-of-a-broken-window", sequence(sash.Per(4, 10).Buckets(3), 0, 2,
		on(0, take, 1), wait(1), on(0, take, 3), wait(7), on(0, take, 1), wait(1), on(0, take, 1), on(0, take, 2), wait(2), on(0, take, 2), wait(1), on(0, take, 3))},
	{"buckets-charge-denied", sequence(sash.Per(5, 100).Buckets(7), denied, 0,
		times(20, on(0, take, 2), wait(3), on(0, take, 9), wait(3)), wait(100), on(0, take, 5))},
	{"late-clock-buckets", sequence(sash.Per(4, 10).Buckets(4), 0, 19,
		on(0, take, 2), wait(5), on(0, take, 1), wait(-1), on(0, take, 1), wait(-100), on(0, take, 1), wait(105), on(0, take, 2), wait(5), on(0, take, 2))},
	{"ends-of-time-buckets", sequence(sash.Per(2, 1000).Buckets(7), 0, math.MinInt64,
		on(0, take, 2), wait(huge), on(0, take, 2), wait(huge), on(0, take, 2), on(0, take, 1), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1))},
	{"huge-buckets", sequence(sash.Per(huge, huge-1).Buckets(huge-1), 0, math.MinInt64,
		on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, 1), wait(huge), on(0, take, huge))},
	{"parts", sequence(sash.Per(20, 160).Parts(), 0, 3,
		on(0, take, 12), on(1, take, 20), wait(9), on(0, take, 8), on(0, take, 1), wait(140), on(0, take, 1), wait(11), on(0, take, 12), wait(-5), on(0, take, 2), wait(8), on(0, take, 8), wait(300), plain(0, sweep), on(0, take, 21))},
	{"wide-parts-of-minutes", sequence(sash.PerHour(1000).Parts(), 0, int64(minute),
		times(20, on(0, take, 60), wait(3*time.Minute+1)), on(0, take, 900), wait(-time.Hour), on(0, take, 5))},
	{"parts-charge-denied", sequence(sash.Per(20, 160).Parts(), denied, 0,
		times(20, on(0, take, 7), wait(3), on(0, take, 19), wait(9)), wait(160), on(0, take, 20))},
	{"ends-of-time-parts", sequence(sash.Per(20, 1000).Parts(), 0, math.MinInt64,
		on(0, take, 20), wait(huge), on(0, take, 20), wait(huge), on(0, take, 20), on(0, take, 1), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1))},
	{"token-bucket", sequence(sash.PerSecond(3).TokenBucket(5), 0, 7,
		on(0, take, 5), on(0, take, 1), wait(time.Second/3), on(0, take, 1), wait(1), on(0, take, 1), wait(2*time.Second), on(0, take, 6), on(0, take, 5), wait(5*time.Second), plain(0, sweep), wait(-3*time.Second), on(0, take, 1), on(1, take, 2))},
	{"token-bucket-charges-denied", sequence(sash.Per(7, 10).TokenBucket(3), denied, 0,
		on(0, take, 2), on(0, take, 2), times(9, wait(1), on(0, take, 1)), wait(2), on(0, take, 1), wait(5), on(0, take, 9))},
	{"token-bucket-late", sequence(sash.Per(10, 100).TokenBucket(20), 0, 500,
		on(0, take, 11), wait(-60), on(0, take, 1), on(0, take, 9), on(0, take, 3), wait(30), on(0, take, 2), wait(-400), on(0, take, 1), wait(1000), on(0, take, 20))},
	{"huge-token-bucket", sequence(sash.Per(1, time.Duration(year)).TokenBucket(1e15), 0, math.MinInt64,
		on(0, take, 1e15), on(0, take, 1), wait(time.Duration(year)), on(0, take, 1), wait(huge), on(0, take, 300), wait(huge), on(0, take, 300))},
	{"ends-of-time-token-bucket", sequence(sash.Per(huge, huge-1).TokenBucket(huge), 0, math.MinInt64,
		on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, huge-5), wait(huge), on(0, take, huge), wait(math.MinInt64), on(0, take, 1))},
	{"odd-costs", sequence(sash.PerSecond(7).Counter(), 0, 0,
		on(0, take, 0), on(0, take, -1), on(0, take, math.MinInt64), on(0, take, 8), on(0, take, huge), plain(0, forget),
		on(0, takeBytes, 3), plain(0, allowBytes), []byte{1}, on(0, allow, 4), on(0, allow, 3), plain(0, forget), on(0, allow, 7))},
	{"of-nothing", sequence(sash.Per(0, 10).Log(), 0, 5,
		on(0, take, 1), on(0, take, 0), on(0, peek, huge), on(1, allow, 1), plain(0, sweep), wait(20), on(0, take, -1), plain(0, forget))},
	{"of-nothing-charges-denied", sequence(sash.Per(0, 10).Counter(), denied, 5,
		on(0, take, 1), on(0, take, 0), on(0, peek, huge), on(1, allow, 1), plain(0, sweep), wait(20), on(0, take, -1), plain(0, forget))},
	{"unlimited", sequence(sash.Unlimited(), denied, 5,
		on(0, take, huge), on(0, take, huge), on(0, take, 0), on(0, take, -1), on(1, allow, 1), on(0, peek, 5), plain(0, sweep), wait(20), plain(0, forget))},
	{"sweeps", sequence(sash.Per(4, 10).Counter(), 0, 5,
		on(0, take, 4), on(1, take, 1), plain(0, sweep), wait(9), on(1, take, 1), plain(0, sweep), wait(11), plain(0, sweep), wait(-50), on(0, take, 4), wait(50), plain(0, sweep))},
	{"sweeps-at-the-end-of-time", sequence(sash.Per(2, 1).Counter(), 0, huge,
		on(0, take, 2), plain(0, sweep), on(0, take, 1))},
	{"sweeps-at-the-beginning-of-time", sequence(sash.Per(2, 1).Counter(), 0, math.MinInt64,
		on(0, take, 2), wait(1), plain(0, sweep), on(0, take, 2), wait(1), plain(0, sweep), wait(1), plain(0, sweep))},
	{"sweeps-log", sequence(sash.Per(4, 10).Log(), 0, 5,
		on(0, take, 4), wait(9), plain(0, sweep), on(0, take, 1), wait(1), plain(0, sweep), on(0, take, 4), wait(-9), on(0, take, 1))},
}

// limits assembles the first byte of a policy, flags and the number of limits, and the
// limits.
func limits(flags byte, limits ...sash.Limit) []byte {
	tape := []byte{flags + furtherLimits*byte(len(limits)-1)}
	for _, l := range limits {
		tape = append(tape, limitOf(l, 0)...)
	}
	return tape
}

func program(limits []byte, start int64, steps ...[]byte) []byte {
	return slices.Concat(limits, number(start), slices.Concat(steps...))
}

// by returns an instruction of a policy's program with its number.
func by(key, instruction byte, n int64) []byte {
	return append([]byte{instruction + policyInstructions*key, 0}, number(n)...)
}

// all returns the instruction that takes n units of each key.
func all(n int64, key byte, others ...byte) []byte {
	return slices.Concat([]byte{takeAll + policyInstructions*key, among(others...), 0}, number(n))
}

// reserved returns the instruction that reserves n units of each key.
func reserved(n int64, key byte, others ...byte) []byte {
	return slices.Concat([]byte{reserveAll + policyInstructions*key, among(others...), 0}, number(n))
}

// among returns the byte that stands for the other keys of a call.
func among(others ...byte) (b byte) {
	for i, key := range others {
		b |= key << (2 * (i + 1))
	}
	return b | byte(len(others))
}

// commits returns the instruction that settles the i-th reservation.
func commits(i byte, actual int64) []byte { return slices.Concat([]byte{commit, i, 0}, number(actual)) }

// cancels returns the instruction that gives back all of the i-th reservation.
func cancels(i byte) []byte { return []byte{cancel, i} }

var (
	article  = []sash.Limit{sash.PerSecond(10).Buckets(time.Second), sash.PerMinute(120).Log(), sash.PerHour(240).Buckets(minute)}
	mixed    = []sash.Limit{sash.Per(5, 10).Counter(), sash.Per(8, 30).Log(), sash.Per(9, 40).Buckets(7), sash.Per(12, 100).Buckets(100)}
	counters = []sash.Limit{sash.Per(5, 10).Counter(), sash.Per(8, 100).Counter()}
)

var policySeeds = []seed{
	{"user-and-address", program(limits(0, article...), int64(time.Hour),
		all(5, 0, 1), by(1, take, 3), all(3, 0, 1), all(2, 1, 0), wait(time.Second), times(30, all(10, 0, 1), wait(time.Second)), wait(time.Hour), all(10, 0, 1))},
	{"charges-every-limit", program(limits(0, counters...), 0,
		by(0, take, 5), by(0, take, 1), wait(20), by(0, take, 3), by(0, take, 1), wait(200), by(0, take, 5))},
	{"charges-none-if-one-denies", program(limits(0, counters...), 0,
		by(0, take, 3), by(0, take, 3), by(0, take, 2), wait(20), by(0, take, 4), by(0, take, 3))},
	{"waits-for-the-longest", program(limits(0, sash.Per(2, 10).Log(), sash.Per(2, 100).Log(), sash.Per(2, 50).Log()), 0,
		by(0, take, 2), by(0, take, 1), wait(60), by(0, take, 1), wait(40), by(0, take, 1))},
	{"a-key-twice-counts-once", program(limits(0, counters...), 0,
		all(2, 0, 0), all(1, 0, 1, 0, 1), all(3, 1, 0, 1), all(2, 1, 0, 1), by(0, peek, 0), by(1, peek, 0))},
	{"all-or-none", program(limits(0, mixed...), 5,
		by(1, take, 4), all(2, 0, 1, 2), by(0, peek, 5), by(2, peek, 5), all(1, 2, 1, 0), by(0, take, 4), by(2, take, 5))},
	{"all-of-one-limit", program(limits(0, sash.PerMinute(4).Counter()), 0,
		by(1, take, 3), all(2, 0, 1), all(1, 0, 1), by(0, take, 3), wait(90*time.Second), all(3, 1, 0), all(1, 0, 2))},
	{"all-of-one-log", program(limits(0, sash.PerMinute(4).Log()), 0,
		by(1, take, 3), wait(1), all(2, 0, 1), times(3, all(1, 0, 1, 2), wait(1)), wait(minute-3), all(3, 1, 0))},
	{"all-of-wide-counters", program(limits(0, sash.Per(1e15, 10).Counter()), 0,
		by(1, take, 1e15-1), all(2, 0, 1), all(1, 0, 1), wait(10), all(1, 0, 1), wait(5), all(4e14, 0, 1))},
	{"equal-limits", program(limits(0, sash.Per(4, 10).Log(), sash.Per(4, 10).Counter(), sash.Per(4, 10).Buckets(10), sash.Per(4, 10).Log()), 3,
		by(0, take, 3), all(2, 1, 0), all(1, 1, 0), by(0, take, 1), wait(7), by(0, take, 1), wait(3), by(0, take, 4))},
	{"broken-buckets", program(limits(0, sash.Per(4, 10).Buckets(3), sash.Per(6, 20).Buckets(9)), 0,
		by(0, take, 4), wait(9), by(0, take, 1), wait(2), by(0, take, 1), wait(1), by(0, take, 4), wait(15), by(0, take, 1))},
	{"charges-denied", program(limits(deniedCharged, mixed...), 0,
		by(0, take, 4), by(0, take, 4), all(6, 1, 0), wait(12), all(1, 0, 1), all(20, 0, 2), by(2, take, 1), wait(200), all(5, 0, 1, 2), plain(0, sweep))},
	{"late", program(limits(0, mixed...), 95,
		by(0, take, 3), wait(10), all(2, 0, 1), wait(-30), all(1, 2, 0), all(1, 1, 2), wait(-200), by(0, take, 1), wait(250), all(5, 0, 1))},
	{"late-charges-denied", program(limits(deniedCharged, mixed...), 95,
		by(0, take, 3), wait(10), all(4, 0, 1), wait(-30), all(5, 2, 0), wait(-200), by(0, take, 1), wait(250), all(5, 0, 1))},
	{"late-reservations", program(limits(0, mixed...), 95,
		by(0, reserve, 3), wait(10), by(0, reserve, 1), wait(-30), commits(0, 0), by(0, reserve, 1), cancels(1), wait(-200), by(0, take, 1))},
	{"sweeps-policies", program(limits(0, counters...), 0,
		all(4, 0, 1), wait(25), by(1, take, 1), plain(0, sweep), wait(175), plain(0, sweep), wait(1), plain(0, sweep), by(0, take, 5), wait(100), plain(0, sweep))},
	{"gives-back-where-charged", program(limits(givingBack, sash.Per(10, 60).Counter(), sash.Per(20, 60).Log(), sash.Per(30, 60).Buckets(20)), 0,
		by(0, reserve, 4), wait(15), by(0, reserve, 3), wait(35), by(0, take, 2), wait(12), by(0, take, 1), cancels(0), wait(10), commits(1, 1), wait(30), by(0, take, 9), wait(20), by(0, take, 9))},
	{"gives-back-nothing-that-is-past", program(limits(givingBack, sash.Per(5, 10).Counter(), sash.Per(50, 100).Log()), 0,
		by(0, reserve, 5), wait(25), by(0, take, 5), cancels(0), by(0, take, 1), wait(100), by(0, take, 5), by(0, peek, 5))},
	{"gives-all-back", program(limits(givingBack, mixed...), 0,
		by(0, reserve, 5), cancels(0), by(0, reserve, 5), wait(3), commits(1, -1), plain(0, sweep), by(0, take, 5), by(1, reserve, 2), cancels(0), cancels(2), all(5, 1, 2))},
	{"idle-once-given-back", program(limits(givingBack, sash.Per(5, 10).Counter(), sash.Per(5, 20).Log()), 0,
		by(0, take, 1), wait(10), by(0, reserve, 1), cancels(0), wait(10), plain(0, sweep))},
	{"holds", program(limits(givingBack, sash.AtOnce(6, 60), sash.Per(10, 60).Log()), 0,
		by(0, reserve, 4), by(0, reserve, 3), commits(0, 9), by(0, reserve, 1), wait(59), by(0, take, 5), wait(1), by(0, reserve, 6), cancels(1), commits(2, 6), by(0, take, 7))},
	{"holds-charges-denied", program(limits(deniedCharged, sash.Per(10, 60).Log(), sash.AtOnce(2, 100)), 0,
		by(0, reserve, 2), by(0, reserve, 2), by(0, take, 7), commits(0, 2), wait(60), by(0, reserve, 2), wait(99), by(0, take, 1), wait(1), by(0, take, 2))},
	{"settles-once", program(limits(givingBack, sash.Per(10, 60).Log()), 0,
		by(0, reserve, 6), commits(0, 2), commits(0, 9), cancels(0), by(0, reserve, 8), by(0, reserve, 1), cancels(2), by(0, reserve, 0), commits(3, 3), by(0, take, 1))},
	{"debt", program(limits(givingBack, sash.Per(10, 60).Counter(), sash.Per(10, 60).Log(), sash.Per(10, 60).Buckets(20)), 0,
		by(0, reserve, 5), commits(0, 30), by(0, take, 1), by(0, reserve, 0), wait(60), by(0, take, 1), wait(42), by(0, take, 1), by(0, reserve, 1), commits(2, 10))},
	{"debt-of-a-key-never-charged", program(limits(givingBack, mixed...), 0,
		by(1, reserve, 0), commits(0, 7), all(1, 0, 1), all(1, 0, 2), wait(10), all(1, 1, 0), plain(0, sweep), wait(200), plain(0, sweep))},
	{"debt-late", program(limits(settling, mixed...), 50,
		by(0, reserve, 2), wait(13), commits(0, 9), wait(-20), by(0, take, 1), all(1, 0, 1), by(1, reserve, 1), commits(1, 20), wait(30), all(1, 0, 1))},
	{"debt-charges-denied", program(limits(settling+deniedCharged, mixed...), 50,
		by(0, reserve, 2), commits(0, 9), by(0, take, 3), by(0, reserve, 4), commits(1, 5), wait(30), by(0, reserve, 0), commits(2, 40), all(2, 0, 1), wait(100), all(5, 1, 0))},
	{"reserves-from-all", program(limits(givingBack, mixed...), 3,
		by(1, take, 2), reserved(4, 0, 1), reserved(3, 1, 0, 1), commits(0, 1), wait(9), cancels(1), reserved(2, 0, 2), commits(2, 6), all(1, 1, 0), wait(30), commits(3, 0), all(4, 2, 0))},
	{"reserves-from-all-of-one-limit", program(limits(givingBack, sash.PerMinute(10).Counter()), 0,
		by(0, take, 3), reserved(5, 1, 0), wait(75*time.Second), by(0, take, 2), cancels(0), commits(1, 2), reserved(9, 2, 1), all(1, 2, 0))},
	{"reserves-from-all-charges-denied", program(limits(deniedCharged, sash.PerMinute(10).Log(), sash.PerHour(20).Counter()), 0,
		by(0, take, 3), reserved(8, 1, 0), reserved(2, 1, 0), wait(minute), reserved(5, 0, 1), commits(0, 5))},
	{"of-nothing-next-to-others", program(slices.Concat(limits(ownLimits, counters...), limits(0, sash.Per(0, 10), sash.Per(6, 60).Log())), 0,
		by(2, take, 1), all(3, 0, 2), by(0, peek, 0), by(2, reserve, 0), commits(0, 3), all(0, 0, 2), by(2, peek, 0), all(3, 0, 1), plain(0, sweep))},
	{"of-nothing-next-to-others-charges-denied", program(slices.Concat(limits(ownLimits+deniedCharged, counters...), limits(0, sash.Per(0, 10).Buckets(3), sash.Per(6, 60).Log())), 0,
		by(2, take, 4), all(3, 0, 2), by(0, peek, 0), by(2, reserve, 0), commits(0, 3), all(1, 0, 1), wait(30), by(2, peek, 1), wait(40), plain(0, sweep))},
	{"unlimited-next-to-others", program(slices.Concat(limits(ownLimits+givingBack, sash.Unlimited(), counters[0], counters[1]), limits(0, sash.Unlimited(), sash.Unlimited())), 0,
		by(2, take, 9), all(3, 0, 2), by(0, take, 3), all(3, 2, 0), by(2, reserve, 5), cancels(0), reserved(2, 0, 2), commits(1, 1), commits(2, 9), all(1, 2, 0, 1), wait(20), all(-1, 2, 0), plain(0, sweep))},
	{"unlimited-with-others", program(slices.Concat(limits(ownLimits+deniedCharged, sash.Unlimited()), limits(0, sash.Per(5, 60).Log())), 0,
		by(0, take, 9), all(3, 0, 1), all(3, 1, 2), all(3, 0, 2), by(2, take, 1), all(3, 2, 0, 1), wait(70), all(5, 0, 2), plain(0, sweep))},
	{"another-life", program(limits(givingBack, counters...), 0,
		by(0, reserve, 4), []byte{forget}, by(0, take, 3), cancels(0), by(0, take, 3), by(0, reserve, 2), wait(300), plain(0, sweep), by(0, take, 4), cancels(1), by(0, take, 2))},
	{"reserves-what-was-taken-from", program(limits(givingBack, sash.PerMinute(10).Counter()), 0,
		by(0, take, 3), all(2, 1, 0), wait(10*time.Second), by(0, reserve, 4), by(0, take, 2), cancels(0), all(5, 0, 1), wait(65*time.Second), all(6, 1, 0))},
	{"reserves-from-a-log", program(limits(givingBack, sash.PerMinute(10).Log()), 0,
		times(3, by(0, take, 1), wait(1)), times(4, by(0, reserve, 1), wait(1)), cancels(1), commits(2, 4), wait(minute-6), times(4, by(0, take, 1), wait(1)))},
	{"limits-of-its-own", program(slices.Concat(limits(ownLimits, sash.PerMinute(10).Counter()), limits(0, sash.Per(3, 10).Log(), sash.Per(6, 60).Counter())), 0,
		all(3, 0, 2), all(1, 2, 1), wait(10), all(3, 1, 2), all(1, 1, 2), by(1, take, 7), wait(20), all(1, 1, 2), plain(0, sweep), wait(200), plain(0, sweep), all(4, 2, 0), all(3, 2, 0))},
	{"limits-of-its-own-reserved", program(slices.Concat(limits(ownLimits+givingBack, counters...), limits(0, sash.Per(3, 10).Buckets(4))), 0,
		by(2, reserve, 3), all(1, 0, 2), wait(12), cancels(0), all(3, 0, 2), by(2, reserve, 0), commits(1, 9), all(1, 2, 0), wait(9), all(1, 2, 0))},
	{"ends-of-time-for-all", program(limits(0, sash.Per(2, 1000).Buckets(7), sash.PerSecond(3).Counter(), sash.PerSecond(3).Log()), math.MinInt64,
		all(2, 0, 1), wait(huge), all(2, 0, 1), wait(huge), all(2, 0, 1), all(1, 1, 2), wait(math.MinInt64), wait(math.MinInt64), all(1, 0, 1))},
	{"token-buckets", program(limits(0, sash.Per(3, 10).TokenBucket(5), sash.Per(7, 60).TokenBucket(20), sash.Per(9, 40).Log()), 95,
		by(0, take, 5), all(2, 1, 0), wait(4), all(2, 1, 0), by(1, take, 3), wait(-20), all(1, 2, 0), wait(60), all(5, 0, 1, 2), by(0, take, 1), wait(17), plain(0, sweep), wait(100), plain(0, sweep))},
	{"token-bucket-gives-back", program(limits(givingBack, sash.Per(1, 10).TokenBucket(10)), 0,
		by(0, reserve, 4), wait(3), by(0, reserve, 5), by(0, take, 1), cancels(1), wait(15), by(0, take, 2), commits(0, 1), by(1, reserve, 10), wait(95), by(1, take, 1), cancels(2), by(1, peek, 0), wait(300), by(1, reserve, 3), commits(3, 30), by(1, take, 1))},
	{"token-bucket-gives-back-charges-denied", program(limits(givingBack+deniedCharged, sash.Per(1, 10).TokenBucket(10), sash.Per(30, 100).Counter()), 0,
		by(0, reserve, 4), by(0, take, 7), cancels(0), wait(50), by(0, reserve, 3), commits(1, 0), all(2, 0, 1), by(0, reserve, 2), by(0, take, 9), commits(2, 1))},
	{"odd-costs-for-all", program(limits(0, mixed...), 0,
		all(0, 0, 1), all(-1, 0, 1), all(math.MinInt64, 0, 1), all(6, 0, 1), all(huge, 0, 1), by(0, reserve, huge), by(0, reserve, -1), all(5, 0, 1), all(0, 0, 1))},
}
