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

// A seed is a fuzz target's input, and what it is for.
type seed struct {
	name    string
	program []byte
}

// TestSeeds checks that the files of the named seeds are those of the tables.
func TestSeeds(t *testing.T) {
	for target, seeds := range map[string][]seed{"FuzzSequence": sequenceSeeds, "FuzzConcurrent": concurrentSeeds} {
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

// The assembler: what a tape is to hold, written out. Numbers are always raw.

func number(n int64) []byte {
	return binary.BigEndian.AppendUint64([]byte{raw}, uint64(n))
}

func limitOf(l sash.Limit, flags byte) []byte {
	if l.Algorithm == sash.SlidingLog {
		flags |= inLog
	}
	return slices.Concat([]byte{flags}, number(l.Count), number(int64(l.Window)))
}

func sequence(l sash.Limit, flags byte, start int64, steps ...[]byte) []byte {
	return slices.Concat(limitOf(l, flags), number(start), slices.Concat(steps...))
}

// on is an instruction with the number that it takes.
func on(key, instruction byte, n int64) []byte {
	return append([]byte{instruction + instructions*key, 0}, number(n)...)
}

// wait moves the clock, back if d is negative.
func wait(d time.Duration) []byte { return on(0, advance, int64(d)) }

// plain is an instruction without a number; allowBytes reads a byte as well.
func plain(key, instruction byte) []byte { return []byte{instruction + instructions*key} }

func times(n int, steps ...[]byte) []byte {
	return slices.Repeat(slices.Concat(steps...), n)
}

const (
	huge   = math.MaxInt64
	minute = time.Minute
)

var sequenceSeeds = []seed{
	{"ten-a-minute", sequence(sash.PerMinute(10), 0, 0,
		on(0, take, 9), wait(75*time.Second), on(0, take, 5), on(0, take, 3), on(0, peek, 3))},
	{"five-hundred-a-minute", sequence(sash.PerMinute(500), 0, 0,
		on(0, take, 400), wait(105*time.Second), on(0, take, 250), on(0, take, 1), on(0, take, 151), on(0, take, 149))},
	{"log-charges-denied", sequence(sash.PerMinute(2).Log(), denied, int64(time.Hour+time.Second),
		on(0, take, 1), wait(29*time.Second), on(0, take, 1), wait(20*time.Second), on(0, take, 1), wait(50*time.Second), on(0, take, 1))},
	{"log-two-clients", sequence(sash.PerMinute(3).Log(), 0, 15_733e6,
		on(0, take, 1), wait(6115e6), on(0, take, 1), wait(1196e6), on(0, take, 1), wait(2876e6), on(0, take, 1),
		wait(46_287e6), times(4, on(1, take, 1), wait(4e9)))},
	{"window-edges", sequence(sash.Per(4, 10), 0, 9,
		on(0, take, 4), wait(1), on(0, take, 1), wait(2), on(0, take, 1), wait(1), on(0, take, 1),
		wait(7), on(0, take, 1), wait(9), on(0, take, 4), wait(1), on(0, take, 4), wait(20), on(0, take, 4))},
	{"window-edges-below-zero", sequence(sash.Per(4, 10), 0, -11,
		on(0, take, 3), wait(1), on(0, take, 2), wait(9), on(0, take, 2), wait(1), on(0, take, 2), wait(10), on(0, take, 4))},
	{"log-edges", sequence(sash.Per(2, 10).Log(), 0, -5,
		on(0, take, 1), wait(9), on(0, take, 2), wait(1), on(0, take, 2), wait(8), on(0, take, 1), wait(1), on(0, take, 1), wait(10), on(0, take, 2))},
	{"late-clock", sequence(sash.Per(4, 10), 0, 19,
		on(0, take, 2), wait(1), on(0, take, 2), wait(-1), on(0, take, 1), wait(-9), on(0, take, 1), wait(-100), on(0, take, 1), on(0, peek, 0), on(1, take, 4))},
	{"late-clock-log", sequence(sash.Per(4, 10).Log(), 0, 19,
		on(0, take, 2), wait(5), on(0, take, 1), wait(-1), on(0, take, 1), wait(-100), on(0, take, 1), wait(105), on(0, take, 2), wait(5), on(0, take, 2))},
	{"late-clock-denied", sequence(sash.Per(4, 10), denied, 15,
		on(0, take, 4), wait(10), on(0, take, 3), wait(-11), on(0, take, 2), on(0, take, huge), on(0, take, 0))},
	{"ring-grows", sequence(sash.Per(100, 1000).Log(), 0, 0,
		times(40, on(0, take, 1), wait(7)), on(0, take, 61), on(0, take, 60), wait(800), times(20, on(0, take, 1), wait(11)))},
	{"ring-turns", sequence(sash.Per(5, 100).Log(), 0, 0, times(40, on(0, take, 1), wait(23)))},
	{"ring-shrinks", sequence(sash.Per(100, 1000).Log(), 0, 0,
		times(40, on(0, take, 2), wait(1)), wait(990), times(3, on(0, take, 1), plain(0, sweep), wait(13)), wait(1000), plain(0, sweep))},
	{"ring-of-denied", sequence(sash.Per(5, 100).Log(), denied, 0, times(20, on(0, take, 2), wait(3), on(0, take, 9), wait(3)), wait(100), on(0, take, 5))},
	{"wide-by-count", sequence(sash.PerHour(1e15), 0, -1,
		on(0, take, 1e15-1), on(0, take, 2), on(0, take, 1), wait(1), on(0, take, 1), wait(minute), on(0, take, 1e13), wait(time.Hour), on(0, take, 5e14))},
	{"wide-by-window", sequence(sash.Per(3, 1), 0, 0, times(10, on(0, take, 2), on(0, take, 2), wait(1)))},
	{"wide-low-overflows", sequence(sash.PerSecond(1<<24), 0, 0,
		on(0, take, 1<<22-1), on(0, take, 1), on(0, take, 1<<22), wait(time.Second/2), on(0, take, 1<<22-1), wait(time.Second), on(0, take, 1<<22))},
	{"wide-charges-denied", sequence(sash.PerSecond(1e15), denied, 0,
		on(0, take, 1e15-1), on(0, take, 2), wait(time.Second), on(0, take, huge), wait(time.Second), on(0, take, 1), wait(2*time.Second), on(0, take, 1))},
	{"huge", sequence(sash.Per(huge, huge), 0, math.MinInt64,
		on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, 1), wait(huge), on(0, take, huge), wait(math.MinInt64), on(0, take, 1))},
	{"huge-log-charges-denied", sequence(sash.Per(huge, huge).Log(), denied, math.MinInt64,
		on(0, take, huge), wait(huge-1), on(0, take, huge), on(0, take, 1), wait(huge), on(0, take, huge))},
	{"ends-of-time", sequence(sash.PerSecond(2), 0, huge-2,
		on(0, take, 2), wait(1), on(0, take, 1), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1), on(1, take, 1))},
	{"ends-of-time-log", sequence(sash.PerSecond(2).Log(), 0, math.MinInt64,
		on(0, take, 2), wait(huge), on(0, take, 2), wait(huge), on(0, take, 2), wait(math.MinInt64), wait(math.MinInt64), on(0, take, 1))},
	{"odd-costs", sequence(sash.PerSecond(7), 0, 0,
		on(0, take, 0), on(0, take, -1), on(0, take, math.MinInt64), on(0, take, 8), on(0, take, huge), plain(0, forget),
		on(0, takeBytes, 3), plain(0, allowBytes), []byte{1}, on(0, allow, 4), on(0, allow, 3), plain(0, forget), on(0, allow, 7))},
	{"sweeps", sequence(sash.Per(4, 10), 0, 5,
		on(0, take, 4), on(1, take, 1), plain(0, sweep), wait(9), on(1, take, 1), plain(0, sweep), wait(11), plain(0, sweep), wait(-50), on(0, take, 4), wait(50), plain(0, sweep))},
	{"sweeps-log", sequence(sash.Per(4, 10).Log(), 0, 5,
		on(0, take, 4), wait(9), plain(0, sweep), on(0, take, 1), wait(1), plain(0, sweep), on(0, take, 4), wait(-9), on(0, take, 1))},
}

// concurrently assembles a batch; calls are as deal reads them.
func concurrently(flags byte, l sash.Limit, limitFlags byte, start int64, preload []byte, ones bool, calls []byte) []byte {
	costs := byte(1)
	if ones {
		costs = 0
	}
	return slices.Concat([]byte{flags}, limitOf(l, limitFlags), number(start), preload, []byte{costs}, calls)
}

var nothing = []byte{0, 0} // preloaded, and the clock stays

// charged preloads n units of the first key, and then moves the clock.
func charged(n, on int64) []byte {
	return slices.Concat([]byte{1, 0, 0}, number(n), number(on), []byte{0})
}

// bothWays asks for the first key, by AllowN and by Take.
var bothWays = []byte{0, 48, 0, 0, 48}

// ask is a call of mixed costs.
func ask(key byte, n int64) []byte { return append([]byte{key, 0}, number(n)...) }

var concurrentSeeds = []seed{
	{"ones", concurrently(0, sash.PerSecond(10), 0, 0, nothing, true, []byte{0, 0, 1, 2})},
	{"ones-of-four", concurrently(2*moreWorkers, sash.PerSecond(100), 0, 0, nothing, true, bothWays)},
	{"ones-of-a-log", concurrently(2*moreWorkers, sash.PerSecond(100).Log(), 0, 0, nothing, true, bothWays)},
	{"ones-wide", concurrently(2*moreWorkers, sash.PerSecond(1e15), 0, 0, charged(1e15-50, 1), true, bothWays)},
	{"previous-window", concurrently(moreWorkers, sash.PerMinute(60), 0, 0, charged(50, int64(75*time.Second)), true, bothWays)},
	{"previous-window-wide", concurrently(moreWorkers, sash.Per(60, 10), 0, 0, charged(50, 14), true, bothWays)},
	{"mixed", concurrently(moreWorkers, sash.PerMinute(40), 0, 0, nothing, false, slices.Concat(ask(0, 3), ask(0, 5), ask(1, 2), ask(0, 1), ask(0, 0)))},
	{"mixed-log-denied", concurrently(moreWorkers, sash.PerMinute(40).Log(), denied, 0, charged(20, 5), false, slices.Concat(ask(0, 3), ask(0, 5), ask(0, 1)))},
	{"mixed-wide", concurrently(moreWorkers, sash.PerMinute(1<<24), 0, 0, nothing, false, slices.Concat(ask(0, 1<<20), ask(0, 1<<21), ask(0, 1<<22-1)))},
	{"new-keys-while-swept", concurrently(2*moreWorkers, sash.Per(3, 10), 0, 0, charged(3, 20), true, []byte{0, sweepCall, 48, 2})},
	{"late", concurrently(0, sash.PerSecond(9), 0, 0,
		slices.Concat([]byte{1, 0, 0}, number(4), number(1e9), []byte{goBack}, number(2e9)), true, []byte{0, 0, 1})},
	{"moving", concurrently(moving+2*moreWorkers, sash.Per(5, 10), 0, 0, nothing, true,
		slices.Concat([]byte{advanceCall}, number(3), bothWays))},
	{"moving-log", concurrently(moving+2*moreWorkers, sash.Per(5, 10).Log(), 0, 0, nothing, true,
		slices.Concat([]byte{advanceCall}, number(3), bothWays, []byte{sweepCall}))},
	{"moving-wide", concurrently(moving+moreWorkers, sash.Per(5, 1), 0, -9, nothing, true,
		slices.Concat([]byte{advanceCall}, number(1), bothWays, []byte{sweepCall}))},
}
