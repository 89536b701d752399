package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/bench/internal/arrivals"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

// A memoryUse is the cost of a table of many keys.
type memoryUse struct {
	peer           peers.Peer
	bytes, objects float64   // per key, with its name
	live           float64   // the live bytes that a collection finds
	collection     float64   // the CPU seconds of one collection
	percentiles    []float64 // of the calls made during collections, in nanoseconds
	calls          int64     // the number of these calls
}

const (
	garbage          = 1 << 10                // the bytes allocated by each call during collections
	collections      = 3                      // the least number of collections,
	longEnough       = 3 * time.Second        // unless they take longer than this
	shortest         = 500 * time.Millisecond // the least duration of the collections
	garbagePerSecond = 100_000_000            // the garbage for which the collector's share is computed
	collectorCPU     = "/cpu/classes/gc/total:cpu-seconds"
)

func planMemory(l *lab) (p plan) {
	n := slices.Max(l.keys)
	var found []*memoryUse
	all, notes := l.fitting(n, l.field(), "with "+keys.Label(n)+" keys")
	for _, peer := range all {
		p.steps = append(p.steps, step{fillCost(n) + collectCost(n), func(ctx context.Context) error {
			h, err := l.use(ctx, peer, n)
			if err == nil {
				found = append(found, h)
			}
			return err
		}})
	}
	p.result = func() (report.Result, error) {
		r := memoryResult(found, n)
		r.Notes = append(notes,
			keys.Label(n)+" keys of "+strconv.FormatFloat(meanLength(n), 'f', 1, 64)+" bytes each, which are included; a limiter that keeps only a hash of the key saves them. The heap holds only the table. It is collected before and after the table is filled.",
			fmt.Sprintf("The column of a collection shows the mean processor time of one collection. It averages the collections of half a second, or %d if these take no longer than %v. During the measurement %s calls a second arrive by a schedule, and each leaves %d bytes of garbage. The share of the machine is that time divided by the time of all cores between two collections, with GOGC=100 and %s of garbage a second. A larger heap is collected less often.",
				collections, longEnough, humanize.Comma(int64(l.loadRate())), garbage, humanize.Bytes(garbagePerSecond)),
			"Percentiles are of the calls that arrive during collections, for tracked keys. Their time runs from the instant at which they were due. The collections are explicit, so that goroutines which allocate need not assist them, as they would in a service. *nothing* answers without a table. Figures near to its own show the machine, not the limiter.")
		r.Notes = append(r.Notes, notesOn(append(l.field(), peers.Nothing()))...)
		return r, nil
	}
	return p
}

// loadRate returns the number of calls that arrive each second during collections. The calls
// alone must not fill the cores.
func (l *lab) loadRate() int { return max(1, l.rate/5) }

// use fills a table and measures its cost.
func (l *lab) use(ctx context.Context, peer peers.Peer, n int) (*memoryUse, error) {
	before := heap()
	table := peer.New(peers.Plenty)
	defer table.Close()
	if peer.Bytes > 0 { // else it keeps none
		if err := fill(ctx, peer, table, n); err != nil {
			return nil, err
		}
	}
	after := heap()
	h := &memoryUse{
		peer:    peer,
		bytes:   (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n),
		objects: (float64(after.HeapObjects) - float64(before.HeapObjects)) / float64(n),
		live:    float64(after.HeapAlloc),
	}
	return h, l.collect(ctx, h, table, n)
}

// heap collects all garbage and returns the statistics of the memory left.
func heap() (m runtime.MemStats) {
	debug.FreeOSMemory()
	runtime.GC() // frees what finalizers have released
	runtime.ReadMemStats(&m)
	return m
}

// collect measures calls while garbage is collected several times.
func (l *lab) collect(ctx context.Context, h *memoryUse, table peers.Table, n int) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // no collections other than those counted
	asked := keys.Script(min(n, 1<<16), keys.Chooser(keys.Uniform, n, 1))
	var over atomic.Bool
	took := make(chan float64, 1)
	go func() {
		before, begin, made := readMetric(collectorCPU), time.Now(), 0
		for ctx.Err() == nil {
			since := time.Since(begin)
			if since >= longEnough || since >= shortest && made >= collections {
				break
			}
			runtime.GC()
			made++
		}
		over.Store(true)
		took <- (readMetric(collectorCPU) - before) / float64(made)
	}()
	var sink [2]atomic.Pointer[[garbage]byte]
	times, _ := arrivals.Schedule{
		Calls: math.MaxInt32, PerSecond: l.loadRate(), Drivers: arrivals.Drivers(),
		Key: func(i int) string {
			sink[i%len(sink)].Store(new([garbage]byte))
			return asked[i%len(asked)]
		},
		Call: func(key string) { table.Allow(key) },
		Done: func() bool { return over.Load() || ctx.Err() != nil },
	}.Run(arrivals.Real{})
	if ctx.Err() != nil { // does not wait for a running collection
		return ctx.Err()
	}
	h.collection, h.percentiles, h.calls = <-took, arrivals.Of(times), times.TotalCount()
	return nil
}

// collectCost estimates the duration of collect with n keys.
func collectCost(n int) time.Duration {
	return min(longEnough, shortest+time.Duration(n)*collections*150*time.Nanosecond)
}

// share returns the collector's share of the time of all cores.
func (h *memoryUse) share() float64 {
	return h.collection * garbagePerSecond / h.live / float64(runtime.GOMAXPROCS(0))
}

// meanLength returns the mean number of bytes of a name.
func meanLength(n int) float64 {
	total, of := 0, min(n, 10_000)
	for i := range of {
		total += len(keys.New(i))
	}
	return float64(total) / float64(of)
}

// A memoryRecord is one peer, in JSON.
type memoryRecord struct {
	Keys       int                `json:"keys"`
	Impl       string             `json:"impl"`
	Clock      string             `json:"clock"`
	Hashes     bool               `json:"keeps_only_a_hash"`
	Bytes      float64            `json:"bytes_per_key"`
	Objects    float64            `json:"objects_per_key"`
	Collection float64            `json:"collection_cpu_seconds"`
	Share      float64            `json:"collector_share"`
	Calls      int64              `json:"calls_while_collecting"`
	Ns         map[string]float64 `json:"ns_while_collecting"`
}

func memoryResult(found []*memoryUse, n int) (r report.Result) {
	records := []memoryRecord{}
	held := report.Table{Title: "what " + keys.Label(n) + " keys take", Columns: []string{"limiter", "keeps the key", "bytes a key", "× sash", "objects a key", "a collection", "share of the machine"}}
	during := report.Table{Title: "calls while garbage is collected, with " + keys.Label(n) + " keys", Columns: []string{"limiter", "calls"}}
	bars := report.Plot{Title: "bytes a key, with " + keys.Label(n) + " keys", Y: "bytes a key", Bars: true}
	lines := report.Plot{Name: "collecting", Title: during.Title, X: "of all calls", Y: "time of a call", Format: duration}
	for _, p := range arrivals.Percentiles {
		during.Columns = append(during.Columns, p.Name)
		lines.Places = append(lines.Places, p.Name)
	}
	for _, h := range found {
		record := memoryRecord{n, h.peer.Name, h.peer.Clock, h.peer.Hashes, h.bytes, h.objects, h.collection, h.share(), h.calls, map[string]float64{}}
		keeps := "yes"
		if h.peer.Hashes {
			keeps = "its hash"
		}
		if !h.peer.Free {
			held.Rows = append(held.Rows, []string{h.peer.Label(), keeps, figure(h.bytes), times(h.bytes / found[0].bytes),
				strconv.FormatFloat(h.objects, 'f', 2, 64), duration(h.collection * 1e9), fmt.Sprintf("%.1f %%", 100*h.share())})
			bars.Series = append(bars.Series, series(h.peer, []float64{h.bytes}))
		}
		cells := []string{h.peer.Label(), humanize.Comma(h.calls)}
		for k, p := range arrivals.Percentiles {
			record.Ns[p.Name] = h.percentiles[k]
			cells = append(cells, duration(h.percentiles[k]))
		}
		during.Rows = append(during.Rows, cells)
		records = append(records, record)
		lines.Series = append(lines.Series, series(h.peer, h.percentiles))
	}
	return report.Result{Records: records, Tables: []report.Table{held, during}, Plots: []report.Plot{bars, lines}}
}
