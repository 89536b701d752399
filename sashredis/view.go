package sashredis

import (
	"context"
	"slices"

	"github.com/seed-30da4c49/sash"
)

// WithLimits returns l with other limits: each key has these, in place of those given to [New] or returned by
// [WithLimitsFor]. It is for limits that the caller knows, such as the limits of a session's plan:
//
//	pro := limiter.WithLimits(sash.PerMinute(600), sash.PerDay(100_000))
//	...
//	d := pro.Take(ctx, customer, 1)
//
// All methods work on it. It shares all but the limits with l: round trips, the mirror, leases, the breaker,
// the fallback, the figures, the calls that wait for a key, and the Close, which closes both.
//
// Each call is decided as if WithLimitsFor had returned limits for the key of that call. So calls under limits
// that differ in nothing but the Count or, for a [sash.TokenBucket], the Burst share the counts of a key, and
// each is admitted if its own limits admit it. Any other two limits count for themselves: one unit may be had
// under each of them. So do PerMinute(10) and PerMinute(600), a log and parts by [sash.SmallCount]; name the
// algorithm, as in PerMinute(10).Parts(), where plans are to share counts. [Limiter.Reset] forgets what the key was charged under these limits.
//
// A lease is for calls under the same limits: if a process makes calls for a key under several, it ends one lease
// for the other. Units that were leased before calls under a larger Count have charged more than the smaller one
// may still be used under that: at most as many as were leased.
//
// Wrong limits are no error here, so that calls can be chained. Each call under them is denied with
// [sash.Never], before any round trip, and its Err wraps [sash.ErrInvalidLimit], or [sash.ErrNoLimit] if there
// are none.
//
// To get the limiter of one limit that was given before is one look-up, and allocates nothing. For several
// limits it takes longer, and allocates: keep the limiter. l keeps what it has returned for the first 4,096
// limits. Others are checked and compiled each time.
func (l *Limiter) WithLimits(limits ...sash.Limit) *Limiter {
	const most = 4096 // a caller that makes up limits for each key pays for each
	if len(limits) == 0 {
		return &Limiter{common: l.common, given: true}
	}
	key := keyOfLimits(limits)
	if v, ok := l.views.Load(key); ok {
		return v
	}
	// The copy is for the faults, which keep it: a call of limits that are known then allocates nothing.
	v := &Limiter{common: l.common, given: true, wrong: validate(slices.Clone(limits))}
	if v.wrong != nil {
		return v
	}
	v.own = l.newRuleset(limits)
	if l.views.Size() < most {
		v, _ = l.views.LoadOrStore(key, v) // another call may have been first
	}
	return v
}

// TakeLimits is [Limiter.Take] under limits that the call brings: see [Limiter.WithLimits], which has the
// other methods, too.
func (l *Limiter) TakeLimits(ctx context.Context, key string, n int64, limits ...sash.Limit) Decision {
	return l.WithLimits(limits...).Take(ctx, key, n)
}

// A limitsKey stands for limits: the first, and all others as text. So one limit costs no text.
type limitsKey struct {
	first  sash.Limit
	others string
}

// keyOfLimits returns the key of limits, which no others have. There is at least one.
func keyOfLimits(limits []sash.Limit) limitsKey {
	key := limitsKey{first: limits[0]}
	if len(limits) > 1 {
		others := append([]sash.Limit(nil), limits[1:]...) // so that limits stay on the stack of the caller
		key.others = internals.LimitsKey(others)
	}
	return key
}
