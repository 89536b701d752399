package main

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// A contender is a limiter with a name.
type contender struct {
	name  string
	allow func(key string) bool
}

const plenty = 1e12 // a Count that is never exhausted

// BenchmarkPolicies compares several limits with one, and one call for two keys with one
// for a single key. All take turns of a few milliseconds, and it reports each one's median
// time per decision, and the median of its ratios within rounds to one limit. What
// disturbs the machine for longer than a round disturbs all alike, so the ratios hold
// where the times do not:
//
//	go test -run '^$' -bench Policies -cpu 1,2 -benchtime 61x ./bench
func BenchmarkPolicies(b *testing.B) {
	counter := []sash.Limit{sash.PerHour(plenty)}
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
				{"one-limit-system", of(counter).Allow},
				{"three-counters-system", of(counters).Allow},
				{"three-mixed-system", of(mixed).Allow},
				{"one-limit-take-system", taking(of(counter))},
				{"three-counters-take-system", taking(of(counters))},
				{"three-mixed-take-system", taking(of(mixed))},
				{"one-limit-two-keys-system", takingTwo(of(counter))},
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

// under returns a limiter of limits; or, if count is not plenty, of limits with that Count.
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

// takeTurns lets contenders take turns over n tracked keys, and reports their times.
func takeTurns(b *testing.B, contenders []contender, n int, bases ...string) {
	names := make([]string, len(contenders))
	turns := make([]func() float64, len(contenders))
	for i, c := range contenders {
		names[i] = c.name
		turns[i] = turnOver(c.allow, n)
	}
	times := make([][]float64, len(contenders)) // for each contender, by round
	for round := range b.N {
		for _, i := range rounds.Order(len(turns), round) {
			times[i] = append(times[i], turns[i]())
		}
	}
	reportTimes(b, names, times, bases)
}

// turnOver returns a function that makes decisions for n tracked keys in GOMAXPROCS
// goroutines. It returns the nanoseconds per decision.
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

// reportTimes reports the median times, and the ratios of all times to those of bases.
func reportTimes(b *testing.B, names []string, times [][]float64, bases []string) {
	b.ReportMetric(0, "ns/op") // the time of a whole round has no meaning
	for i, name := range names {
		b.ReportMetric(rounds.Median(times[i]), name+"-ns")
		for j, other := range names {
			if i != j && slices.Contains(bases, other) {
				b.ReportMetric(rounds.Ratio(times[i], times[j]), name+"/"+other)
			}
		}
	}
}
