package sashredis

import (
	"context"
	"slices"
)

// TakeLeaving is [Limiter.Take] that is admitted only if at least leave units remain after it, under
// every limit of the key. So calls of several priorities share one count: work in the background uses
// only what is above a floor, and urgent work, which leaves nothing, may use all. It charges n units
// alone.
//
// RetryAfter is exact for n+leave units: if nothing else is charged, the same call is admitted after it.
// It is [sash.Never] if n+leave is above Count, or above the Burst of a [sash.TokenBucket]. Remaining is
// what a Take could still have: it is at least leave if the call is admitted. A leave of 0 or less is a
// Take. An n of 0 charges nothing, and tells whether leave units are there.
//
// It costs what a Take costs that the store decides, and may be denied in-process. It takes no units of a
// lease, and leased units that are not used do not remain: see [WithLease]. A [FallbackLocal] leaves its
// share of leave, rounded up.
func (l *Limiter) TakeLeaving(ctx context.Context, key string, n, leave int64) Decision {
	var a answer
	l.callOne(ctx, key, leaving(take, n, leave), &a)
	return a.Decision
}

// leaving returns the request for n units that leaves more of each key.
func leaving(op op, n int64, leaves ...int64) request {
	r := request{op: op, n: n}
	if slices.ContainsFunc(leaves, func(leave int64) bool { return leave > 0 }) {
		r.leaves = leaves
	}
	return r
}

// TakeUpTo charges as many units to key as there are, at most the given number, in one step. It returns
// how many it has charged: most, or the least that any limit of the key has left. No other call comes
// between the look at what is left and the charge.
//
// Its Decision is the Decision of [Limiter.Take] for the units taken. If there are none, it is denied, and
// its Decision is the Decision of Take for one unit. A most of 0 is a [Limiter.Peek], and a most below 0
// is denied with [sash.Never]. Of an Unlimited key, it takes most.
//
// It costs what a Take costs that the store decides, and may be denied in-process. It takes no units of a
// lease: see [WithLease]. [FallbackAdmit] admits what the limits admit at once, and [FallbackLocal] what
// is left of the share. An Err says that the store has not decided: units may have been charged there.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, most int64) (taken int64, d Decision) {
	if most <= 0 {
		return 0, l.Take(ctx, key, most)
	}
	var a answer
	l.callOne(ctx, key, request{op: upTo, n: most}, &a)
	if !a.Allowed {
		return 0, a.Decision
	}
	return a.call.n, a.Decision
}
