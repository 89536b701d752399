package suggest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A study measures all clients in windows of several lengths.
type study struct {
	windows []time.Duration
	gauges  []*gauge         // by window
	on      *traffic.Traffic // once all of it is taken
}

func newStudy(windows []time.Duration) *study {
	s := &study{windows: windows}
	for _, w := range windows {
		s.gauges = append(s.gauges, &gauge{window: int64(w)})
	}
	return s
}

// take counts events, which are in the order of time.
func (s *study) take(_ *traffic.Traffic, events []traffic.Event) error {
	for _, g := range s.gauges {
		for _, e := range events {
			g.add(e.Client, e.At, e.Cost)
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

// A distribution is the busiest window of each client, in ascending order.
type distribution []int64

func (g *gauge) distribution() distribution {
	d := slices.Clone(g.busiest)
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

// A border parts clients of two kinds: those with high or more, and all others, with low or less.
type border struct {
	low, high int64
	above     int   // the number of clients with high or more
	events    int64 // all events of those
}

const (
	// wideGap is the ratio of two neighbours from which on they are clients of two kinds.
	wideGap = 2
	// apart is the least difference of such neighbours.
	apart = 10
	// leastCrowd is the least number of clients of another kind that are more than one in ten.
	// Among few clients a gap is likely to be chance.
	leastCrowd = 5
)

// border returns the widest gap among the values of all clients, from the median to the percentile
// p: two neighbouring values with the greatest ratio. Above 90% of the clients any wide gap is
// one. Below, the clients above the gap must be a crowd with most of all events, as a botnet is.
// If mostEvents is set, that holds everywhere. It reports false if there is no such gap.
func (s *study) border(values []int64, p float64, mostEvents bool) (b border, found bool) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(values[x], values[y]) })
	d := make(distribution, len(order))
	for i, client := range order {
		d[i] = values[client]
	}
	widest, events := 0., int64(0)
	for i := len(d) - 1; i > d.rank(50); i-- {
		events += s.on.Counts[order[i]]
		low, high, above := d[i-1], d[i], len(d)-i
		crowd := above >= leastCrowd && 2*events > s.on.Events
		ratio := float64(high) / float64(max(1, low))
		switch {
		case i > d.rank(p), high-low < apart, high < wideGap*low, ratio < widest:
		case crowd, i > d.rank(90) && !mostEvents:
			widest, b, found = ratio, border{low, high, above, events}, true
		}
	}
	return b, found
}

// leaves returns the percentile that leaves the clients above b out, of n in all.
func (b border) leaves(n int) float64 {
	return math.Floor(1000*float64(n-b.above)/float64(n)) / 10
}
