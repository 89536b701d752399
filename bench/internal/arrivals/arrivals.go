// Package arrivals measures calls that arrive by a schedule which does not wait for
// answers, as those of a service's clients do. A call's time runs from when it was to
// arrive: so one that stalls is charged to all that it delays, and not to itself alone.
package arrivals

import (
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Longest is the longest time that is told apart; a longer one counts as that.
const Longest = time.Minute

// A Schedule is calls that arrive evenly, PerSecond of them. Several drivers share
// them, as cards are dealt.
type Schedule struct {
	Calls     int
	PerSecond int
	Drivers   int
	// Key returns the key of the i-th call, before it is due.
	Key func(i int) string
	// Call is what is measured.
	Call func(key string)
	// Done is asked about once a millisecond, and ends it early. Nil: never.
	Done func() bool
}

// A Clock is read, and waited on. Wait returns not before Now reads at, in nanoseconds.
type Clock interface {
	Now() int64
	Wait(at int64)
}

// Drivers returns how many goroutines are to make the calls: as many as leave a core to
// the garbage collector and to janitors, at most four. If they took all cores, what is
// measured were their own waiting for one.
func Drivers() int { return max(1, min(4, runtime.GOMAXPROCS(0)-1)) }

// Run makes all calls and returns how long they took, and how long after the last was
// due all were answered.
func (s Schedule) Run(clock Clock) (times *hdrhistogram.Histogram, late time.Duration) {
	all := make([]*hdrhistogram.Histogram, s.Drivers)
	for d := range all {
		all[d] = newHistogram()
	}
	const start = time.Millisecond // enough for all drivers to be there
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

// due returns when the i-th call arrives.
func (s Schedule) due(begin int64, i int) int64 {
	return begin + int64(float64(i)*float64(time.Second)/float64(s.PerSecond))
}

// drive makes every call that falls to driver d.
func (s Schedule) drive(clock Clock, begin int64, d int, times *hdrhistogram.Histogram) {
	const look = int64(time.Millisecond) // between two looks at whether it is over
	looked := begin
	for i := d; i < s.Calls; i += s.Drivers {
		key, at := s.Key(i), s.due(begin, i)
		for now := clock.Now(); ; now = clock.Now() {
			if s.Done != nil && now-looked >= look {
				if s.Done() {
					return
				}
				looked = now
			}
			if now >= at {
				break
			}
			clock.Wait(min(at, now+look))
		}
		s.Call(key)
		times.RecordValue(min(max(0, clock.Now()-at), int64(Longest)))
	}
}

// newHistogram returns one of nanoseconds to three digits.
func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, int64(Longest), 3) }

// Real is the time of this process.
type Real struct{}

var processStart = time.Now()

// Now returns the nanoseconds since the process began.
func (Real) Now() int64 { return int64(time.Since(processStart)) }

// Wait gives its core to whoever wants it until then. It does not sleep: a timer is
// late by more than what is measured here.
func (r Real) Wait(at int64) {
	for r.Now() < at {
		runtime.Gosched()
	}
}

// Percentiles are those that are reported, and their names.
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
