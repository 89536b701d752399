package replay

import (
	"math"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// A policy is the limits of one limiter. All of them must admit an event.
type policy []sash.Limit

// alternatives returns the policies to replay: one of all limits, or one of each limit.
func (o *options) alternatives() []policy {
	if o.together {
		return []policy{o.limits}
	}
	var alone []policy
	for _, l := range o.limits {
		alone = append(alone, policy{l})
	}
	return alone
}

func (p policy) String() string {
	names := make([]string, len(p))
	for i, l := range p {
		names[i] = l.String()
	}
	return strings.Join(names, " and ")
}

// exact reports whether every limit is exact.
func (p policy) exact() bool {
	return !slices.ContainsFunc(p, func(l sash.Limit) bool { return exactly(l) != l })
}

// exactly returns the limits of p, each as it is if it is exact.
func (p policy) exactly() policy {
	all := make(policy, len(p))
	for i, l := range p {
		all[i] = exactly(l)
	}
	return all
}

// exactly returns the limit that answers exactly as l is meant to: a token bucket itself, and
// the log of the same Count and Window for all others. A bucket admits a burst on purpose, so
// the answers of a log say nothing about its errors.
func exactly(l sash.Limit) sash.Limit {
	if l.Algorithm == sash.TokenBucket {
		return l
	}
	return l.Log()
}

// atOnce returns the highest cost of an event that l can admit.
func atOnce(l sash.Limit) int64 {
	if l.Algorithm == sash.TokenBucket && l.Count > 0 {
		return l.Burst
	}
	return l.Count
}

// inWindow returns the most units that l is meant to admit in one Window. A token bucket
// admits what it holds and what flows into it.
func inWindow(l sash.Limit) int64 {
	if l.Burst > math.MaxInt64-l.Count {
		return math.MaxInt64
	}
	return l.Count + l.Burst // which is 0 but for a token bucket
}

// maxCost returns the highest cost of an event that p can admit.
func (p policy) maxCost() int64 {
	cost := atOnce(p[0])
	for _, l := range p {
		cost = min(cost, atOnce(l))
	}
	return cost
}

// limiter returns a limiter of p without a janitor.
func (p policy) limiter(clock sash.Clock) (*sash.Limiter, error) {
	options := []sash.Option{sash.WithClock(clock), sash.WithSweepInterval(-1)}
	for _, l := range p {
		options = append(options, l)
	}
	return sash.New(options...)
}
