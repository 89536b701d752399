package main

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// BenchmarkRounds lets all contenders take turns, a few milliseconds each, and
// reports the median of each one's time per decision, and by how much the others
// were slower than sash in the same round. What disturbs a machine for longer
// than that disturbs all of them alike, so the ratios hold where the times of
// whole benchmarks, run one after the other, do not:
//
//	go test -bench Rounds -cpu 1,2 -benchtime 101x .
func BenchmarkRounds(b *testing.B) {
	for _, row := range []struct {
		answer     string
		keys       int
		quota      peers.Quota
		contenders []peers.Peer
	}{
		{"admitted", 1, peers.Plenty, slices.Concat(contenders, large)},
		{"admitted", 1000, peers.Plenty, slices.Concat(contenders, large)},
		{"denied", 1, one, contenders},
		{"denied", 1000, one, contenders},
	} {
		b.Run(fmt.Sprintf("answer=%s/keys=%d", row.answer, row.keys), func(b *testing.B) {
			var taking []contender
			for _, p := range row.contenders {
				table := start(p, row.keys, row.quota)
				b.Cleanup(table.Close)
				taking = append(taking, contender{p.Name + "-" + p.Clock, table.Allow})
			}
			takeTurns(b, taking, row.keys, "sash-system", "sash-coarse")
		})
	}
}

// A contender makes decisions under a name of its own.
type contender struct {
	name  string
	allow func(key string) bool
}

const plenty = 1e12 // a count that nobody exhausts

// BenchmarkPolicies is of what several limits cost beside one, and several keys
// beside as many calls, in rounds like those of BenchmarkRounds.
func BenchmarkPolicies(b *testing.B) {
	one := []sash.Limit{sash.PerHour(plenty)}
	counters := []sash.Limit{sash.PerSecond(plenty), sash.PerMinute(plenty), sash.PerHour(plenty)}
	mixed := []sash.Limit{sash.Per(plenty, 10*time.Microsecond).Log(), sash.PerMinute(plenty).Buckets(time.Second), sash.PerHour(plenty)}
	for _, row := range []struct {
		answer string
		count  int64
	}{{"admitted", plenty}, {"denied", 1}} {
		b.Run("answer="+row.answer, func(b *testing.B) {
			of := func(limits []sash.Limit) *sash.Limiter { return under(b, limits, row.count) }
			const n = 1000
			policies := []contender{
				{"one-limit-system", of(one).Allow},
				{"three-counters-system", of(counters).Allow},
				{"three-mixed-system", of(mixed).Allow},
				{"one-limit-take-system", taking(of(one))},
				{"three-counters-take-system", taking(of(counters))},
				{"three-mixed-take-system", taking(of(mixed))},
				{"one-limit-two-keys-system", takingTwo(of(one))},
				{"three-counters-two-keys-system", takingTwo(of(counters))},
			}
			for _, c := range policies {
				for i := range n {
					c.allow(keys.New(i))
				}
			}
			takeTurns(b, policies, n, "one-limit-system", "one-limit-take-system")
		})
	}
}

// under returns a limiter of limits, or of one unit each.
func under(b testing.TB, limits []sash.Limit, count int64) *sash.Limiter {
	var options []sash.Option
	for _, limit := range limits {
		if count != plenty {
			limit.Count, limit.Window = count, max(limit.Window, time.Hour)
		}
		options = append(options, limit)
	}
	l := sash.Must(sash.New(options...))
	b.Cleanup(func() { l.Close() })
	return l
}

func taking(l *sash.Limiter) func(key string) bool {
	return func(key string) bool { return l.Take(key, 1).Allowed }
}

func takingTwo(l *sash.Limiter) func(key string) bool {
	return func(key string) bool { return l.TakeAll([]string{key, "user:7"}, 1).Allowed }
}

// takeTurns lets contenders take turns over n keys that all of them track, and
// reports on them.
func takeTurns(b *testing.B, contenders []contender, n int, bases ...string) {
	names := make([]string, len(contenders))
	turns := make([]func() float64, len(contenders))
	for i, c := range contenders {
		names[i] = c.name
		turns[i] = turnOver(c.allow, n)
	}
	times := make([][]float64, len(contenders)) // of each contender, by round
	for round := range b.N {
		for _, i := range rounds.Order(len(turns), round) {
			times[i] = append(times[i], turns[i]())
		}
	}
	reportTimes(b, names, times, bases)
}

// turnOver returns a function that makes many decisions on n tracked keys in each of
// GOMAXPROCS goroutines and returns how many nanoseconds one took.
func turnOver(allow func(key string) bool, n int) func() float64 {
	const decisions = 100_000
	own := keys.Range(n)
	return func() float64 {
		took := together(runtime.GOMAXPROCS(0), func(int) {
			for i, j := 0, 0; i < decisions; i++ {
				allow(own[j])
				if j++; j == n {
					j = 0
				}
			}
		})
		return float64(took) / decisions / float64(runtime.GOMAXPROCS(0))
	}
}

// reportTimes writes the median times, and those of all others over those of bases.
func reportTimes(b *testing.B, names []string, times [][]float64, bases []string) {
	b.ReportMetric(0, "ns/op") // of a whole round: says nothing
	for i, name := range names {
		b.ReportMetric(rounds.Median(times[i]), name+"-ns")
		for j, other := range names {
			if i != j && slices.Contains(bases, other) {
				b.ReportMetric(rounds.Ratio(times[i], times[j]), name+"/"+other)
			}
		}
	}
}
