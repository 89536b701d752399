package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A sample is one measurement of a client under load.
type sample struct {
	answers  float64 // calls that were decided
	admitted float64
	failed   float64 // calls that were not
	elapsed  time.Duration
	callers  int

	mallocs, allocated float64 // objects and bytes, in this process
	flow
	cpu, commands, scripts float64 // of the server

	times *hdrhistogram.Histogram // of all calls, in nanoseconds; nil: none were taken
	err   error                   // of one of the calls that failed
}

// perSecond returns the decisions per second.
func (s *sample) perSecond() float64 { return s.answers / s.elapsed.Seconds() }

// nsPerCall returns how long a caller waited for a call, on average.
func (s *sample) nsPerCall() float64 {
	return float64(s.elapsed) * float64(s.callers) / (s.answers + s.failed)
}

// A load is callers that call as soon as they have the answer to the last call: a closed loop.
type load struct {
	callers int
	keys    []string // each caller calls for every so-manyth of them, over and over
	lasts   time.Duration
	timed   bool // whether the time of each call is taken
}

// apply puts the load on c, once to warm up and once to measure.
func (l load) apply(ctx context.Context, s *server, w *wire, c *client) (sample, error) {
	warm := l
	warm.lasts = max(l.lasts/5, 20*time.Millisecond)
	if _, err := warm.run(ctx, c, 0); err != nil {
		return sample{}, err
	}
	before, err := s.read(ctx)
	if err != nil {
		return sample{}, err
	}
	var memory, memoryAfter runtime.MemStats
	runtime.ReadMemStats(&memory)
	flow := w.flow()
	got, err := l.run(ctx, c, len(l.keys)/2)
	if err != nil {
		return sample{}, err
	}
	got.flow = w.flow().since(flow)
	runtime.ReadMemStats(&memoryAfter)
	got.mallocs = float64(memoryAfter.Mallocs - memory.Mallocs)
	got.allocated = float64(memoryAfter.TotalAlloc - memory.TotalAlloc)
	after, err := s.read(ctx)
	got.cpu, got.commands, got.scripts = after.cpu-before.cpu, after.commands-before.commands, after.scripts-before.scripts
	return got, err
}

// run runs the callers, from the first-th key on.
func (l load) run(ctx context.Context, c *client, first int) (sample, error) {
	total := sample{callers: l.callers}
	var over atomic.Bool
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	all := make([]tally, l.callers)
	ready.Add(l.callers)
	for g := range all {
		if l.timed {
			all[g].times = newHistogram()
		}
		done.Go(func() {
			ready.Done()
			<-begin
			all[g].calls(l, c, first+g, &over)
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	select {
	case <-ctx.Done():
	case <-time.After(l.lasts):
	}
	over.Store(true)
	done.Wait()
	total.elapsed = time.Since(start)
	if l.timed {
		total.times = newHistogram()
	}
	for _, t := range all {
		total.answers += float64(t.answers)
		total.admitted += float64(t.admitted)
		total.failed += float64(t.failed)
		if t.err != nil {
			total.err = t.err
		}
		if l.timed {
			total.times.Merge(t.times)
		}
	}
	if total.answers == 0 && ctx.Err() == nil {
		return total, fmt.Errorf("no call was decided: %w", total.err)
	}
	return total, ctx.Err()
}

// newHistogram returns a histogram of nanoseconds, exact to two digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(time.Minute), 2) }

// A tally is what one caller has counted.
type tally struct {
	answers, admitted, failed int64
	times                     *hdrhistogram.Histogram
	err                       error
	_                         [64]byte // of another cache line
}

// calls calls for every so-manyth key, from the i-th on, until it is over.
func (t *tally) calls(l load, c *client, i int, over *atomic.Bool) {
	var now time.Time
	if l.timed {
		now = time.Now()
	}
	for !over.Load() {
		yes, err := c.take(l.keys[i%len(l.keys)])
		i += l.callers
		switch {
		case err != nil:
			t.failed++
			t.err = err
		case yes:
			t.admitted++
			fallthrough
		default:
			t.answers++
		}
		if l.timed {
			last := now
			now = time.Now()
			_ = t.times.RecordValue(min(int64(now.Sub(last)), int64(time.Minute)))
		}
	}
}
