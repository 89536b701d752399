package main

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

// BenchmarkFlood floods a table capped at 100,000 keys, 1,000 of which are held at
// their limit, with 10 million distinct keys (-short: 300,000 under a cap of 10,000,
// 100 of them held). One call in eleven is one on a held key, by a client that does
// not give up. It reports
//
//   - early-%: how many of the held keys got a call through before their window had
//     passed, having been displaced,
//   - displaced: how many keys were,
//   - heap-full-MB, heap-half-MB and heap-end-MB: live bytes once the table is full,
//     after half of the flood, and after all of it. What is displaced may stay in
//     memory until its seat is taken again, so the first is less than the others,
//   - p50-ns, p99.99-ns and their ratio tail/p50: of single calls, on the flood's keys
//     and the held ones, with what the two readings of the clock take. A call that is
//     preempted, or waits for the collector, counts as long as it took.
//
// One caller at a time: what it measures is what a call costs, not what a machine
// with other work to do adds to it.
//
//	go test -run '^$' -bench Flood -benchtime 1x ./bench
func BenchmarkFlood(b *testing.B) {
	flood, most, held := 10_000_000, 100_000, 1000
	if testing.Short() {
		flood, most, held = 300_000, 10_000, 100
	}
	for b.Loop() {
		f := newFlood(b, most, held)
		f.fill(most - held)
		full := liveBytes()
		f.run(flood / 2)
		half := liveBytes()
		f.run(flood - flood/2)
		b.ReportMetric(100*float64(len(f.early))/float64(held), "early-%")
		b.ReportMetric(float64(f.limiter.Stats().Displaced), "displaced")
		b.ReportMetric(full/1e6, "heap-full-MB")
		b.ReportMetric(half/1e6, "heap-half-MB")
		b.ReportMetric(liveBytes()/1e6, "heap-end-MB")
		p50, tail := f.calls.ValueAtPercentile(50), f.calls.ValueAtPercentile(99.99)
		b.ReportMetric(float64(p50), "p50-ns")
		b.ReportMetric(float64(tail), "p99.99-ns")
		b.ReportMetric(float64(tail)/float64(p50), "tail/p50")
		require.Equal(b, most, f.limiter.Len())
		f.limiter.Close()
	}
	b.ReportMetric(0, "ns/op") // of a whole flood: says nothing
}

type flood struct {
	limiter *sash.Limiter
	held    []string
	early   map[string]bool // held keys that got a call through
	serial  int
	key     []byte
	calls   *hdrhistogram.Histogram
}

// newFlood returns a limiter with keys held at their limit, on a clock that stands
// still, so that none of their calls is to be admitted.
func newFlood(b *testing.B, most, held int) *flood {
	f := &flood{
		limiter: sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(sash.NewManualClock(0)),
			sash.WithMaxKeys(most, sash.EvictLeastUsed))),
		early: map[string]bool{},
		calls: hdrhistogram.New(1, int64(time.Minute), 3),
	}
	for i := range held {
		f.held = append(f.held, "held "+strconv.Itoa(i))
		for f.limiter.Allow(f.held[i]) {
		}
	}
	require.Equal(b, held, f.limiter.Len())
	return f
}

// next returns a key never seen.
func (f *flood) next() []byte {
	f.serial++
	f.key = strconv.AppendInt(append(f.key[:0], "flood "...), int64(f.serial), 10)
	return f.key
}

func (f *flood) fill(keys int) {
	for range keys {
		f.limiter.AllowBytes(f.next())
	}
}

// run floods the table, and has the held keys try again all the while.
func (f *flood) run(keys int) {
	for i := range keys {
		key := f.next()
		start := time.Now()
		f.limiter.AllowBytes(key)
		f.calls.RecordValue(int64(time.Since(start)))
		if i%10 == 0 {
			f.try(f.held[rand.IntN(len(f.held))])
		}
	}
	for _, key := range f.held {
		f.try(key)
	}
}

func (f *flood) try(key string) {
	start := time.Now()
	allowed := f.limiter.Allow(key)
	f.calls.RecordValue(int64(time.Since(start)))
	if allowed {
		f.early[key] = true
	}
}

// liveBytes returns how many bytes live objects take.
func liveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
