package main

import (
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// A policy is the limits of one limiter, all of which must admit an event.
type policy []sash.Limit

// policies returns what is replayed: all limits as one, or each alone.
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

// log returns the policy with every limit made an exact log.
func (p policy) log() policy {
	logs := make(policy, len(p))
	for i, l := range p {
		logs[i] = l.Log()
	}
	return logs
}

// most returns how many units an event can ask for and be admitted.
func (p policy) most() int64 {
	most := p[0].Count
	for _, l := range p {
		most = min(most, l.Count)
	}
	return most
}

func (p policy) limiter(clock sash.Clock) (*sash.Limiter, error) {
	options := []sash.Option{sash.WithClock(clock), sash.WithSweepInterval(-1)}
	for _, l := range p {
		options = append(options, l)
	}
	return sash.New(options...)
}
