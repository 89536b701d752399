package bench

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
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
			names := make([]string, len(contenders))
			turns := make([]func() float64, len(contenders))
			for i, c := range contenders {
				names[i] = c.impl + "-" + c.clock
				turns[i] = turn(c.allow(b, row.count), row.keys, row.count)
			}
			times := make([][]float64, len(contenders)) // of each contender, by round
			for range b.N {
				for i, t := range turns {
					times[i] = append(times[i], t())
				}
			}
			report(b, names, times)
		})
	}
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

// report writes the median times, and those of the others over sash's on the
// same clock.
func report(b *testing.B, names []string, times [][]float64) {
	b.ReportMetric(0, "ns/op") // of a whole round: says nothing
	for i, name := range names {
		b.ReportMetric(median(times[i]), name+"-ns")
		for j, other := range names {
			if other == "sash-system" || other == "sash-coarse" {
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
