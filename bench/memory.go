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

// A holding is what a table of many keys costs.
type holding struct {
	peer           peers.Peer
	bytes, objects float64 // for each key, its name included
	live           float64 // bytes that a collection finds alive
	collection     float64 // CPU seconds of one
	percentiles    []float64
	calls          int64 // that they are of
}

// What allocates while garbage is collected, and what the collector's share is said of.
const (
	garbage      = 1 << 10 // bytes for each call
	collections  = 3       // at least, if that takes no longer than
	longEnough   = 3 * time.Second
	shortest     = 500 * time.Millisecond // but at least so long
	garbageASec  = 100_000_000
	collectorCPU = "/cpu/classes/gc/total:cpu-seconds"
)

func planMemory(l *lab) (p plan) {
	n := slices.Max(l.keys)
	var found []*holding
	all, notes := l.fitting(n, l.field(), "with "+keys.Label(n)+" keys")
	for _, peer := range all {
		p.steps = append(p.steps, step{fillCost(n) + collectCost(n), func(ctx context.Context) error {
			h, err := l.hold(ctx, peer, n)
			if err == nil {
				found = append(found, h)
			}
			return err
		}})
	}
	p.result = func() (report.Result, error) {
		r := memoryResult(found, n)
		r.Notes = append(notes,
			keys.Label(n)+" keys of "+strconv.FormatFloat(meanLength(n), 'f', 1, 64)+" bytes each, which are counted in; a limiter that keeps a hash of the key does without. The table is alone in the heap, which is collected before and after it is filled.",
			fmt.Sprintf("A collection: processor time of one, the mean of as many as half a second holds, but at least %d, if that takes no longer than %v, while %s calls a second arrive by a schedule and each leaves %d bytes of garbage. The share of the machine: that time, as often as with GOGC=100 and %s of garbage a second it is due, over all cores. A larger heap is collected more seldom.",
				collections, longEnough, humanize.Comma(int64(l.loadRate())), garbage, humanize.Bytes(garbageASec)),
			"Percentiles are of the calls that arrive meanwhile, on keys that are tracked; their time runs from when they were to arrive. Collections are asked for, so that nobody who makes garbage has to help with them, as he had in a service. *nothing* answers without a table: what is near to its figures says nothing of the limiter.")
		r.Notes = append(r.Notes, notesOn(append(l.field(), peers.Nothing()))...)
		return r, nil
	}
	return p
}

// loadRate is how many calls arrive a second while garbage is collected: few enough
// that it is not the calls themselves that fill the cores.
func (l *lab) loadRate() int { return max(1, l.rate/5) }

// hold fills a table and measures what it costs.
func (l *lab) hold(ctx context.Context, peer peers.Peer, n int) (*holding, error) {
	before := heap()
	table := peer.New(peers.Plenty)
	defer table.Close()
	if peer.Bytes > 0 { // else it keeps none
		if err := fill(ctx, peer, table, n); err != nil {
			return nil, err
		}
	}
	after := heap()
	h := &holding{
		peer:    peer,
		bytes:   (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / float64(n),
		objects: (float64(after.HeapObjects) - float64(before.HeapObjects)) / float64(n),
		live:    float64(after.HeapAlloc),
	}
	return h, l.collect(ctx, h, table, n)
}

// heap collects all garbage and returns what is left.
func heap() (m runtime.MemStats) {
	debug.FreeOSMemory()
	runtime.GC() // which ends what finalizers have let go
	runtime.ReadMemStats(&m)
	return m
}

// collect measures calls while garbage is collected some times over.
func (l *lab) collect(ctx context.Context, h *holding, table peers.Table, n int) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // none but those that are counted
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
	if ctx.Err() != nil { // and a collection is under way, which takes its time
		return ctx.Err()
	}
	h.collection, h.percentiles, h.calls = <-took, arrivals.Of(times), times.TotalCount()
	return nil
}

// collectCost is about how long collect takes with n keys.
func collectCost(n int) time.Duration {
	return min(longEnough, shortest+time.Duration(n)*collections*150*time.Nanosecond)
}

// share returns the collector's share of all cores.
func (h *holding) share() float64 {
	return h.collection * garbageASec / h.live / float64(runtime.GOMAXPROCS(0))
}

// meanLength returns how many bytes a name has.
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

func memoryResult(found []*holding, n int) (r report.Result) {
	records := []memoryRecord{}
	held := report.Table{Title: "what " + keys.Label(n) + " keys take", Columns: []string{"limiter", "keeps the key", "bytes a key", "× sash", "objects a key", "a collection", "share of the machine"}}
	meanwhile := report.Table{Title: "calls while garbage is collected, with " + keys.Label(n) + " keys", Columns: []string{"limiter", "calls"}}
	bars := report.Plot{Title: "bytes a key, with " + keys.Label(n) + " keys", Y: "bytes", Bars: true, Series: []report.Series{{Name: "bytes a key"}}}
	lines := report.Plot{Name: "collecting", Title: meanwhile.Title, X: "of all calls", Y: "ns"}
	for _, p := range arrivals.Percentiles {
		meanwhile.Columns = append(meanwhile.Columns, p.Name)
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
			bars.Places = append(bars.Places, h.peer.Label())
			bars.Series[0].Values = append(bars.Series[0].Values, h.bytes)
		}
		cells := []string{h.peer.Label(), humanize.Comma(h.calls)}
		for k, p := range arrivals.Percentiles {
			record.Ns[p.Name] = h.percentiles[k]
			cells = append(cells, duration(h.percentiles[k]))
		}
		meanwhile.Rows = append(meanwhile.Rows, cells)
		records = append(records, record)
		lines.Series = append(lines.Series, report.Series{Name: h.peer.Label(), Values: h.percentiles})
	}
	return report.Result{Records: records, Tables: []report.Table{held, meanwhile}, Plots: []report.Plot{bars, lines}}
}
