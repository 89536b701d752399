package main

import (
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// A policy is the limits of one limiter. All of them must admit an event.
type policy []sash.Limit

// policies returns the policies to replay: one of all limits, or one of each limit.
func (o *options) policies() []policy {
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

// exact reports whether every limit is an exact log.
func (p policy) exact() bool {
	return !slices.ContainsFunc(p, func(l sash.Limit) bool { return l.Algorithm != sash.SlidingLog })
}

// log returns the exact logs of the same counts and windows.
func (p policy) log() policy {
	logs := make(policy, len(p))
	for i, l := range p {
		logs[i] = l.Log()
	}
	return logs
}

// maxCost returns the highest cost of an event that p can admit.
func (p policy) maxCost() int64 {
	cost := p[0].Count
	for _, l := range p {
		cost = min(cost, l.Count)
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
