package suggest

import (
	"cmp"
	"math"
	"slices"
)

// A border parts clients of two kinds: those with high or more, and all others, with low or less.
type border struct {
	low, high int64
	above     int   // the number of clients with high or more
	events    int64 // all events of those
}

const (
	// wideGap is the ratio of two neighbours from which on they are clients of two kinds.
	wideGap = 2
	// apart is the least difference of such neighbours, and the least width of a valley.
	apart = 10
	// leastCrowd is the least number of clients of another kind that are more than one in ten.
	// Among few clients a gap is likely to be chance.
	leastCrowd = 5
)

// A ranking is the values of all clients, in ascending order.
type ranking struct {
	distribution
	events []int64 // of all clients from a rank on
}

// border returns the border of two kinds of clients that is at or below the percentile p of their
// values. It reports false if there is none. A valley parts larger crowds than a gap does, so it has
// precedence.
func (s *study) border(values []int64, p float64, mostEvents bool) (b border, found bool) {
	r := s.rank(values)
	if b, found = r.valley(p); found {
		return b, found
	}
	return r.gap(p, mostEvents)
}

func (s *study) rank(values []int64) ranking {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(values[x], values[y]) })
	r := ranking{make(distribution, len(order)), make([]int64, len(order)+1)}
	for i := len(order) - 1; i >= 0; i-- {
		r.distribution[i] = values[order[i]]
		r.events[i] = r.events[i+1] + s.on.Counts[order[i]]
	}
	return r
}

// at returns the border below the i-th client.
func (r ranking) at(i int) border {
	return border{r.distribution[i-1], r.distribution[i], len(r.distribution) - i, r.events[i]}
}

// gap returns the widest gap from the median to the percentile p: two neighbouring values with the
// greatest ratio. Above 90% of the clients any wide gap is one. Below, the clients above the gap
// must be a crowd with most of all events, as a botnet is. If mostEvents is set, that holds everywhere.
func (r ranking) gap(p float64, mostEvents bool) (b border, found bool) {
	d, widest := r.distribution, 0.
	for i := d.rank(p); i > d.rank(50); i-- {
		low, high := d[i-1], d[i]
		crowd := len(d)-i >= leastCrowd && 2*r.events[i] > r.events[0]
		ratio := float64(high) / float64(max(1, low))
		switch {
		case high-low < apart, high < wideGap*low, ratio < widest: // of equal gaps, the lowest is taken
		case crowd, i > d.rank(90) && !mostEvents:
			widest, b, found = ratio, r.at(i), true
		}
	}
	return b, found
}

const (
	// hill is how many times the clients of a valley are on each side of it, and leastHill how many
	// more than that. Neither ordinary recordings nor samples of common distributions have such valleys.
	hill      = 3
	leastHill = 10
	// largeShare is the part of all events, as a divisor, that the clients above a valley have at least.
	largeShare = 4
)

// valley returns the deepest valley at or below the percentile p: values from x to less than twice x
// that few clients have, while many have values of an octave below, and many of an octave above. It
// is the border of two kinds even if the clients of each are spread so that no gap is between
// them. The clients above it are at most three in four, with a quarter of all events or more.
func (r ranking) valley(p float64) (b border, found bool) {
	d := r.distribution
	above := make([]int, len(d)+1) // most clients that an octave has from a rank on
	for i := len(d) - 1; i >= 0; i-- {
		above[i] = max(above[i+1], d.octave(d[i]))
	}
	deepest, below, next := 0., 0, 0 // below is the most clients of an octave up to x
	for i := 1; i <= d.rank(p); i++ {
		x := max(d[i-1]+1, apart)
		if d[i] < x {
			continue
		}
		for ; twice(d[next]) <= x; next++ {
			below = max(below, d.octave(d[next]))
		}
		within := d.octave(x)
		crowd := min(below, above[i+within])
		if i < d.rank(25) || crowd < hill*within+leastHill || r.events[i] < r.events[0]/largeShare {
			continue
		}
		if depth := float64(crowd) / float64(within+1); depth > deepest {
			deepest, b, found = depth, r.at(i), true
		}
	}
	return b, found
}

// octave returns the number of clients with from or more, and less than twice that.
func (d distribution) octave(from int64) int {
	return d.above(from-1) - d.above(twice(from)-1)
}

// twice returns 2n, or the greatest number if that is less.
func twice(n int64) int64 {
	if n > math.MaxInt64/2 {
		return math.MaxInt64
	}
	return 2 * n
}

// leaves returns the percentile that leaves the clients above b out, of n in all.
func (b border) leaves(n int) float64 {
	return math.Floor(1000*float64(n-b.above)/float64(n)) / 10
}
