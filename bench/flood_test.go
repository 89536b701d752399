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

// BenchmarkFlood floods a table capped at 100,000 keys with 10 million distinct keys. 1,000
// of the keys in the table are held at their limit. With -short, the flood is 300,000 keys
// under a cap of 10,000, with 100 held. One call in eleven is for a held key, by a client
// that does not give up. It reports:
//
//   - early-%: the part of the held keys that got a call through before their window had
//     passed, because they had been displaced;
//   - displaced: the number of displaced keys;
//   - heap-full-MB, heap-half-MB and heap-end-MB: live bytes once the table is full, after
//     half of the flood, and after all of it. A displaced entry may stay in memory until its
//     sample slot is used again, so the first figure is lower than the others;
//   - p50-ns, p99.99-ns and their ratio tail/p50: the times of single calls, for the flood's
//     keys and the held ones, including two clock readings. Preemption and waiting for the
//     garbage collector are included, too.
//
// There is one caller, so that other load of the machine adds little to the cost of a call.
//
//	go test -run '^$' -bench Flood -benchtime 1x ./bench
func BenchmarkFlood(b *testing.B) {
	flood, maxKeys, held := 10_000_000, 100_000, 1000
	if testing.Short() {
		flood, maxKeys, held = 300_000, 10_000, 100
	}
	for b.Loop() {
		f := newFlood(b, maxKeys, held)
		f.fill(maxKeys - held)
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
		require.Equal(b, maxKeys, f.limiter.Len())
		f.limiter.Close()
	}
	b.ReportMetric(0, "ns/op") // the time of a whole flood has no meaning
}

type flood struct {
	limiter *sash.Limiter
	held    []string
	early   map[string]bool // held keys that got a call through
	serial  int
	key     []byte
	calls   *hdrhistogram.Histogram
}

// newFlood returns a flood of a limiter with keys held at their limit. The clock stands still,
// so none of their calls should be admitted.
func newFlood(b *testing.B, maxKeys, held int) *flood {
	f := &flood{
		limiter: sash.Must(sash.New(sash.PerMinute(10).Counter(), sash.WithClock(sash.NewManualClock(0)),
			sash.WithMaxKeys(maxKeys, sash.EvictLeastUsed))),
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

// next returns a new key.
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

// run floods the table, and makes calls for the held keys in between and at the end.
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

// liveBytes returns the bytes of live objects.
func liveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
