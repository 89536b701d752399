package suggest

import (
	"math"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A study measures all clients in windows of several lengths.
type study struct {
	windows  []time.Duration
	gauge    *gauge
	bursts   *bucketGauge // nil: events have costs, for which there are no rates to try
	calendar calendar
	on       *traffic.Traffic // once all of it is taken
}

// newStudy returns a study of windows. An event asks for no fewer than least units, and costs one unless it has
// costs.
func newStudy(windows []time.Duration, least int64, costs bool) *study {
	s := &study{windows: windows, gauge: newGauge(windows, least)}
	if !costs {
		s.bursts = new(bucketGauge)
	}
	return s
}

// take counts events, which are in the order of time.
func (s *study) take(_ *traffic.Traffic, events []traffic.Event) error {
	for _, e := range events {
		s.calendar.add(e)
		s.gauge.add(e.Client, e.At, e.Cost)
		if s.bursts != nil {
			s.bursts.add(e.Client, e.At)
		}
	}
	return nil
}

// span returns the time from the first event to the last, which is 292 years at most.
func (s *study) span() time.Duration {
	first, last := s.on.Span()
	return last.Sub(first)
}

// rounding is more than a product with a decimal fraction may be too high: 0.28 percent of 2500
// clients are 7, and 7.000000000000001 in floating point.
const rounding = 1e-9

// A distribution is the units of the busiest window of each client, in ascending order.
type distribution []int64

// distribution returns the distribution for the i-th window.
func (s *study) distribution(i int) distribution {
	d := distribution(s.gauge.unitsIn(i))
	slices.Sort(d)
	return d
}

// percentile returns the least value that p percent of the clients do not exceed.
func (d distribution) percentile(p float64) int64 {
	if len(d) == 0 {
		return 0
	}
	return d[d.rank(p)]
}

// rank returns the index of the percentile p.
func (d distribution) rank(p float64) int {
	at := int(math.Ceil(float64(len(d))*p/100 - rounding))
	return min(max(at, 1), len(d)) - 1
}

// above returns the number of clients whose busiest window holds more than count: those that a
// log of count denies at least once.
func (d distribution) above(count int64) int {
	i, _ := slices.BinarySearch(d, count+1)
	return len(d) - i
}

// below returns the greatest value of at most count, and 0 if there is none.
func (d distribution) below(count int64) int64 {
	if within := len(d) - d.above(count); within > 0 {
		return d[within-1]
	}
	return 0
}
