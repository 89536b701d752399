// Package arrivals measures calls that arrive by a schedule. Like the clients of a service,
// the schedule does not wait for answers. The time of a call runs from the instant at which
// it was due, so a call that stalls also lengthens the calls that it delays.
package arrivals

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Longest is the longest time that is recorded. A longer time is recorded as Longest.
const Longest = time.Minute

// A Schedule is a number of calls that arrive evenly, PerSecond of them each second. The
// drivers make the calls in turn.
type Schedule struct {
	Calls     int
	PerSecond int
	Drivers   int
	// Key returns the key of the i-th call, before it is due.
	Key func(i int) string
	// Call makes the call that is measured.
	Call func(key string)
	// Done reports whether to end early. It is called about once a millisecond. It may be
	// nil.
	Done func() bool
}

// A Clock shows the time in nanoseconds. Wait returns once Now is at least at.
type Clock interface {
	Now() int64
	Wait(at int64)
}

// Drivers returns the number of goroutines that should make the calls. It leaves one core to
// the garbage collector and to janitors, and is at most four. Drivers on all cores would
// measure their own waiting for a core.
func Drivers() int { return max(1, min(4, runtime.GOMAXPROCS(0)-1)) }

// Run makes all calls. It returns the times that they took, and the time from the instant at
// which the last call was due until all were answered.
func (s Schedule) Run(clock Clock) (times *hdrhistogram.Histogram, late time.Duration) {
	all := make([]*hdrhistogram.Histogram, s.Drivers)
	for d := range all {
		all[d] = newHistogram()
	}
	const start = time.Millisecond // enough for all drivers to start
	begin := clock.Now() + int64(start)
	var drivers sync.WaitGroup
	for d := range all {
		drivers.Go(func() { s.drive(clock, begin, d, all[d]) })
	}
	drivers.Wait()
	late = time.Duration(clock.Now() - s.due(begin, s.Calls-1))
	times = newHistogram()
	for _, h := range all {
		times.Merge(h)
	}
	return times, max(0, late)
}

// due returns the instant at which the i-th call is due.
func (s Schedule) due(begin int64, i int) int64 {
	return begin + int64(float64(i)*float64(time.Second)/float64(s.PerSecond))
}

// drive makes the calls of driver d.
func (s Schedule) drive(clock Clock, begin int64, d int, times *hdrhistogram.Histogram) {
	const interval = int64(time.Millisecond) // between two calls of s.Done
	checked := begin
	for i := d; i < s.Calls; i += s.Drivers {
		key, at := s.Key(i), s.due(begin, i)
		for now := clock.Now(); ; now = clock.Now() {
			if s.Done != nil && now-checked >= interval {
				if s.Done() {
					return
				}
				checked = now
			}
			if now >= at {
				break
			}
			clock.Wait(min(at, now+interval))
		}
		s.Call(key)
		times.RecordValue(min(max(0, clock.Now()-at), int64(Longest)))
	}
}

// newHistogram returns a histogram of nanoseconds, exact to three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(Longest), 3) }

// Real is the clock of this process.
type Real struct{}

var processStart = time.Now()

// Now returns the nanoseconds since the process began.
func (Real) Now() int64 { return int64(time.Since(processStart)) }

// Wait yields the processor until then. It does not sleep, since a timer is late by more
// than the times measured here.
func (r Real) Wait(at int64) {
	for r.Now() < at {
		runtime.Gosched()
	}
}

// Percentiles are the percentiles that are reported.
var Percentiles = []struct {
	Name string
	At   float64
}{{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}, {"max", 100}}

// Of returns the Percentiles of times, in nanoseconds.
func Of(times *hdrhistogram.Histogram) (values []float64) {
	for _, p := range Percentiles {
		values = append(values, float64(times.ValueAtPercentile(p.At)))
	}
	return values
}
