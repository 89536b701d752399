package sash

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// compile makes r the rule of l. It is the list of all algorithms. A new one is at home in a
// multi-limit entry.
func (r *rule) compile(l Limit, t *timeline) {
	r.Limit, r.timeline, r.kind = l, t, kindMulti
	r.chargeDenied = t.chargeDenied
	if l == Unlimited() {
		r.algorithm = (*unlimited)(r)
		return
	}
	fits, size := false, int64(l.Window) // fits: into one word
	smallest := kindWord                 // if it fits
	switch l.Algorithm {
	case SlidingCounter:
		r.algorithm, r.fast = (*slidingCounter)(r), fastCounter
		r.counter = window.Counter{Count: l.Count, Window: size}
		r.layout, fits = layoutOf(r.counter, t.origin)
		earliest, _ := r.counter.Locate(math.MinInt64)
		index, _ := r.counter.Locate(t.origin)
		r.index.Store(max(index, earliest+1)) // any that has an epoch, and a beginning
	case SlidingLog, SlidingBuckets:
		r.algorithm, r.fast, r.kind = (*slidingLog)(r), fastLog, kindLog
		r.ticks.Ticks = window.Instants(size)
		if l.Algorithm == SlidingBuckets {
			r.ticks.Ticks = window.Buckets(size, int64(l.Precision))
		}
	case Concurrency: // at home in a multi-limit entry, which knows what to give back
		r.algorithm, r.chargeDenied, r.held = concurrency{(*slidingLog)(r)}, false, true
		r.ticks.Ticks = window.Instants(size)
	case TokenBucket:
		r.algorithm, r.fast = (*tokenBucket)(r), fastBucket
		r.bucket = window.TokenBucket{Count: l.Count, Window: size, Burst: l.most()}
		r.debts, fits = debtLayoutOf(r.bucket, t.origin)
	case SlidingParts:
		r.algorithm, r.fast, smallest = (*slidingParts)(r), fastParts, kindParts
		r.ticks = window.PartsOf(size)
		r.layout, fits = partsLayoutOf(r.ticks, l.Count, t.origin)
		fits = fits && !r.chargeDenied // a denied attempt may take units out of the lanes
		earliest, _ := r.ticks.Locate(math.MinInt64, 0)
		index, _ := r.ticks.Locate(t.origin, 0)
		r.index.Store(max(index, earliest+1))
	default:
		panic(fmt.Sprintf("sash: no rule for %v", l.Algorithm))
	}
	if fits {
		r.kind = smallest
	}
}

// newRuleset returns the ruleset of limits. If it is the limiter's own, its entries need
// not point to it, and under a single limit they are smaller.
func (t *timeline) newRuleset(limits []Limit, own bool) *ruleset {
	limits = withoutUnlimited(limits)
	rs := &ruleset{timeline: t, rules: make([]rule, len(limits)), kind: kindMulti}
	for i, l := range limits {
		rs.rules[i].compile(l, t)
		_, isRing := rs.rules[i].algorithm.(ringAlgorithm)
		rs.rings = rs.rings || isRing
		rs.settles = rs.settles || !rs.rules[i].algorithm.horizon().dated || rs.rules[i].held
		rs.spends = rs.spends || !rs.rules[i].held
		rs.held = rs.held || rs.rules[i].held
		if _, ok := rs.rules[i].algorithm.(shiftedAlgorithm); ok {
			rs.shifted = new([window.Shifts]atomic.Pointer[entry])
		}
	}
	if own && len(limits) == 1 {
		rs.kind = rs.rules[0].kind
	}
	if rs.kind == kindWord || rs.kind == kindParts {
		rs.packed = rs.rules[0].algorithm.(packedAlgorithm)
		rs.word, _ = rs.packed.(wordAlgorithm)
	}
	for i := range rs.rules {
		rs.rules[i].kind = rs.kind
	}
	rs.fresh = rs.newEntry("")
	rs.neverCharges = rs.unlimited() || rs.admitsNothing()
	return rs
}

// withoutUnlimited returns limits without those that are Unlimited, which have no effect
// next to others. If all are, it returns one of them.
func withoutUnlimited(limits []Limit) []Limit {
	if !slices.Contains(limits, Unlimited()) {
		return limits
	}
	others := slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool { return l == Unlimited() })
	if len(others) == 0 {
		return limits[:1]
	}
	return others
}

// newDenying returns the ruleset that denies in place of wrong limits. fault says what is wrong with
// them.
func (t *timeline) newDenying(fault error) *ruleset {
	rs := t.newRuleset([]Limit{{Count: 0, Window: time.Second}}, false)
	rs.fault = fault
	return rs
}
