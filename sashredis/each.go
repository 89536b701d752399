package sashredis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

// policyLimits returns the option of bridge.Internals.PolicyLimits.
func policyLimits(limits [][]sash.Limit, limitsFor func(key string) []sash.Limit) Option {
	return optionFunc(func(c *config) {
		for i, of := range limits {
			if err := validate(of); err != nil {
				c.faults = append(c.faults, fmt.Errorf("policy %d: %w", i+1, err))
			}
		}
		own := c.limitsFor
		c.limitsFor = func(key string) []sash.Limit {
			if own != nil {
				if limits := own(key); len(limits) > 0 {
					return limits
				}
			}
			return limitsFor(key)
		}
	})
}

// decideEach is Take, Peek or Reserve for several keys, all or nothing, and tells what each of
// them says. The keys must differ. Of each, as many units must remain as leaves has at its index; nil stands
// for none. A Take is a Reserve if any of the keys holds units. It costs one round trip, as TakeAll does. A key
// with a log, buckets or parts may cost one more if it was charged past its limit, or has less than must remain:
// the first answer may not tell when there are units for such a call again.
func (l *Limiter) decideEach(ctx context.Context, op op, keys []string, n int64, leaves []int64) bridge.Answer {
	targets, d := l.targets(keys, n)
	if d.Err != nil {
		d.Limit = sash.Limit{Window: time.Second} // which admits nothing
	}
	a := answer{Decision: d}
	if len(targets) > 0 {
		a = answer{}
		if op == take && slices.ContainsFunc(targets, func(t target) bool { return t.holds }) {
			op = reserve // the caller may not know the limits, and could give nothing back
		}
		l.call(ctx, targets, leaving(op, n, leavesOf(targets, keys, leaves)...), &a)
		if a.By == ByStore && a.Err != nil {
			a.Limit = targets[0].rules[0].Limit
		}
	}
	says, next := make([]bridge.KeyAnswer, len(keys)), 0
	for i, key := range keys {
		says[i] = always(d.Decision) // without limits, or if the limits of a key are wrong
		if next < len(targets) && targets[next].name == key {
			says[i] = l.ofKey(ctx, &a, targets[next], next)
			next++
		}
	}
	return bridge.Answer{Decision: a.Decision.Decision, By: a.By.String(), Err: a.Err, Keys: says}
}

// leavesOf returns the elements of leaves, which has one for each of keys or is nil, for targets. These are
// some of keys, in their order.
func leavesOf(targets []target, keys []string, leaves []int64) (of []int64) {
	for i, leave := range leaves {
		if len(of) < len(targets) && targets[len(of)].name == keys[i] {
			of = append(of, leave)
		}
	}
	return of
}

// always returns what a key says whose decision on every call is d.
func always(d sash.Decision) bridge.KeyAnswer { return bridge.KeyAnswer{Decision: d, Next: d} }

// unknown returns what a key says by d, where the wait for more than d leaves is not known.
func unknown(d sash.Decision) bridge.KeyAnswer {
	next := d
	next.Allowed, next.RetryAfter = false, sash.Never
	return bridge.KeyAnswer{Decision: d, Next: next}
}

// ofKey returns what t, the target of that index, says to a call with the answer a.
func (l *Limiter) ofKey(ctx context.Context, a *answer, t target, index int) (k bridge.KeyAnswer) {
	leave := a.call.leave(index)
	if a.By == ByFallback && l.shares != nil {
		leave = l.fallback.shareUp(leave)
	}
	k = l.found(ctx, a, t, index, leave)
	if a.Allowed && a.call.op == reserve {
		k.Commit, k.Holds = l.reservation(t, index, a).Commit, t.holds
	}
	// What must remain is not there for such a call.
	k.Next.Remaining = max(k.Next.Remaining-leave, 0)
	return k
}

// found is ofKey without the Commit. leave is how many units must remain, and the Remaining of Next is what
// is left with them.
func (l *Limiter) found(ctx context.Context, a *answer, t target, index int, leave int64) bridge.KeyAnswer {
	own := a.Decision.Decision
	switch {
	case a.By == ByLease:
		return unknown(own)
	case a.By == ByMirror: // it is as exact as the mirror is
		var b basis
		if !l.mirror.basis(&t, a.at, &b) {
			return unknown(own) // it has forgotten t since
		}
		k, _ := b.ofKey(a, index)
		return k
	case a.By == ByFallback && l.shares != nil:
		return l.ofShare(a, t, leave)
	case a.By == ByFallback && a.Allowed: // everything, so there is no limit to tell of
		return always(unlimited(a.call.n).Decision)
	case a.By == ByFallback && a.RetryAfter != sash.Never: // no limit denies it
		own.Limit = sash.Unlimited()
		return always(own)
	case a.Err != nil: // it is wrong, or costs more than is ever admitted
		own.Limit = t.rules[0].Limit
		return always(own)
	}
	b := a.call.basis(index)
	k, known := b.ofKey(a, index)
	if !known {
		// The answer does not tell. If nothing does, RetryAfter stays Never.
		if d := l.Peek(ctx, t.name, oneMore(k.Next.Remaining, leave)); d.Err == nil {
			k.Next = d.Decision
		}
	}
	return k
}

// oneMore returns how many units must be there for one unit more than a call can have that is to leave
// units, where so many are left.
func oneMore(left, leave int64) int64 { return window.Plus(max(left, leave), 1) }

// ofKey returns what the key of b, of that index, says to a call with the answer a. If b does not tell the
// wait for one unit more than such a call can have then, known is false.
func (b *basis) ofKey(a *answer, index int) (k bridge.KeyAnswer, known bool) {
	if !a.Allowed && !b.decide(a.call.needs(index), &k.Decision) {
		return unknown(a.Decision.Decision), false
	}
	left := b.left()
	switch {
	case k.RetryAfter > 0: // it denies the call
	case a.By == ByMirror: // another key denies the call; a charge to b would date from its view, not from now
		k.Decision = left
		k.Remaining -= a.call.n
	default: // it admits the call, even if another key denies it
		after := *b
		after.charged += a.call.n
		k.Decision = after.left()
		if a.Allowed && a.call.charges() {
			b, left = &after, k.Decision
		}
	}
	if !b.decide(oneMore(left.Remaining, a.call.leave(index)), &k.Next) {
		k.Next = unknown(left).Next
		return k, false
	}
	return k, true
}

// ofShare returns what t says by its share in this process, which has answered a, and must leave units.
func (l *Limiter) ofShare(a *answer, t target, leave int64) (k bridge.KeyAnswer) {
	l.borrow([]target{t}, func(shares []string) {
		k.Decision, k.Next = internals.NextLeaving(l.shares, shares[0], leave)
		if !a.Allowed || a.call.op == peek || a.call.n <= 0 {
			k.Decision = internals.PeekLeaving(l.shares, shares[0], a.call.n, leave)
		}
	})
	if !a.Allowed { // what is more than a share may be admitted by the store
		k.RetryAfter = min(k.RetryAfter, a.RetryAfter)
	}
	return k
}
