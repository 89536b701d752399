package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
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
		answer string
		keys   int
		count  int64
	}{
		{"admitted", 1, plenty},
		{"admitted", 1000, plenty},
		{"denied", 1, 1},
		{"denied", 1000, 1},
	} {
		b.Run(fmt.Sprintf("answer=%s/keys=%d", row.answer, row.keys), func(b *testing.B) {
			rounds(b, contenders, row.keys, row.count, "sash-system", "sash-coarse")
		})
	}
}

// BenchmarkPolicies is of what several limits cost beside one, and several keys
// beside as many calls, in rounds like those of BenchmarkRounds.
func BenchmarkPolicies(b *testing.B) {
	one := []sash.Limit{sash.PerHour(plenty)}
	counters := []sash.Limit{sash.PerSecond(plenty), sash.PerMinute(plenty), sash.PerHour(plenty)}
	mixed := []sash.Limit{sash.Per(plenty, 10*time.Microsecond).Log(), sash.PerMinute(plenty).Buckets(time.Second), sash.PerHour(plenty)}
	policies := []contender{
		{"one-limit", "system", allowing(one)},
		{"three-counters", "system", allowing(counters)},
		{"three-mixed", "system", allowing(mixed)},
		{"one-limit-take", "system", taking(one)},
		{"three-counters-take", "system", taking(counters)},
		{"three-mixed-take", "system", taking(mixed)},
		{"one-limit-two-keys", "system", takingTwo(one)},
		{"three-counters-two-keys", "system", takingTwo(counters)},
	}
	for _, row := range []struct {
		answer string
		count  int64
	}{{"admitted", plenty}, {"denied", 1}} {
		b.Run("answer="+row.answer, func(b *testing.B) {
			rounds(b, policies, 1000, row.count, "one-limit-system", "one-limit-take-system")
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

func allowing(limits []sash.Limit) func(b testing.TB, count int64) func(key string) bool {
	return func(b testing.TB, count int64) func(key string) bool { return under(b, limits, count).Allow }
}

func taking(limits []sash.Limit) func(b testing.TB, count int64) func(key string) bool {
	return func(b testing.TB, count int64) func(key string) bool {
		l := under(b, limits, count)
		return func(key string) bool { return l.Take(key, 1).Allowed }
	}
}

func takingTwo(limits []sash.Limit) func(b testing.TB, count int64) func(key string) bool {
	return func(b testing.TB, count int64) func(key string) bool {
		l := under(b, limits, count)
		return func(key string) bool { return l.TakeAll([]string{key, "user:7"}, 1).Allowed }
	}
}

// rounds lets contenders take turns over n keys, and reports on them.
func rounds(b *testing.B, contenders []contender, n int, count int64, bases ...string) {
	names := make([]string, len(contenders))
	turns := make([]func() float64, len(contenders))
	for i, c := range contenders {
		names[i] = c.impl + "-" + c.clock
		turns[i] = turn(c.allow(b, count), n, count)
	}
	times := make([][]float64, len(contenders)) // of each contender, by round
	for range b.N {
		for i, t := range turns {
			times[i] = append(times[i], t())
		}
	}
	report(b, names, times, bases)
}

// turn returns a function that makes many decisions on tracked keys in each of
// GOMAXPROCS goroutines and returns how many nanoseconds one took.
func turn(allow func(key string) bool, n int, count int64) func() float64 {
	const decisions = 100_000
	for _, k := range names(n) {
		for range min(count, 2) {
			allow(k)
		}
	}
	keys := names(n)
	return func() float64 {
		var g sync.WaitGroup
		start := time.Now()
		for range runtime.GOMAXPROCS(0) {
			g.Go(func() {
				for i, j := 0, 0; i < decisions; i++ {
					allow(keys[j])
					if j++; j == n {
						j = 0
					}
				}
			})
		}
		g.Wait()
		return float64(time.Since(start)) / decisions / float64(runtime.GOMAXPROCS(0))
	}
}

// report writes the median times, and those of all others over those of bases.
func report(b *testing.B, names []string, times [][]float64, bases []string) {
	b.ReportMetric(0, "ns/op") // of a whole round: says nothing
	for i, name := range names {
		b.ReportMetric(median(times[i]), name+"-ns")
		for j, other := range names {
			if slices.Contains(bases, other) {
				ratios := make([]float64, len(times[i]))
				for round := range ratios {
					ratios[round] = times[i][round] / times[j][round]
				}
				if i != j {
					b.ReportMetric(median(ratios), name+"/"+other)
				}
			}
		}
	}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
