package sashredis

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-30da4c49/sash"
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

// An each is a call for keys with limits, all or nothing, that tells what each of them says.
type each struct {
	*Limiter
	op      op
	n       int64
	targets []target
	says    []*bridge.KeyAnswer // of the targets
}

// decideEach is Take, Peek or Reserve for several keys, all or nothing, and tells what each of
// them says. The keys must differ. It costs one round trip, as TakeAll does. A key with a log or
// buckets that was charged past its limit costs one more, as the first answer does not tell when
// units of it are left again.
func (l *Limiter) decideEach(ctx context.Context, op op, keys []string, n int64) bridge.Answer {
	e, says := &each{Limiter: l, op: op, n: n}, make([]bridge.KeyAnswer, len(keys))
	for i, key := range keys {
		t, err := l.target(key)
		switch {
		case err != nil:
			d := l.refuseLimits(err)
			d.Limit = sash.Limit{Window: time.Second} // which admits nothing
			for i := range says {
				says[i] = always(d.Decision)
			}
			return answerOf(d, says)
		case t.unlimited:
			says[i] = always(unlimited(n).Decision)
		default:
			e.targets, e.says = append(e.targets, t), append(e.says, &says[i])
		}
	}
	switch {
	case len(keys) == 0:
		return answerOf(refused(nil), says)
	case len(e.targets) == 0:
		return answerOf(unlimited(n), says)
	}
	a := l.call(ctx, op, e.targets, n)
	e.say(ctx, &a)
	return answerOf(a.Decision, says)
}

func answerOf(d Decision, says []bridge.KeyAnswer) bridge.Answer {
	return bridge.Answer{Decision: d.Decision, By: d.By.String(), Err: d.Err, Keys: says}
}

// always returns what a key says whose decision on every call is d.
func always(d sash.Decision) bridge.KeyAnswer { return bridge.KeyAnswer{Decision: d, Next: d} }

// say sets what each target says to a call with the answer a.
func (e *each) say(ctx context.Context, a *answer) {
	switch {
	case a.By == ByFallback:
		e.sayFallback(a)
	case a.By == ByLease:
		*e.says[0] = bridge.KeyAnswer{Decision: a.Decision.Decision, Next: unknownNext(a.Decision.Decision)}
	case a.By == ByMirror:
		for i, t := range e.targets {
			*e.says[i] = e.mirror.ofKey(t, e.n, a.at, a.Decision.Decision)
		}
	case a.Err != nil:
		e.sayRefused(a)
	default:
		e.sayStored(ctx, a)
	}
}

// sayRefused lets all targets deny as a does, because of an error.
func (e *each) sayRefused(a *answer) {
	a.Limit = e.targets[0].rules[0].Limit
	for i, t := range e.targets {
		own := a.Decision.Decision
		own.Limit = t.rules[0].Limit
		*e.says[i] = always(own)
	}
}

// sayStored lets each target say what follows from its state in the store.
func (e *each) sayStored(ctx context.Context, a *answer) {
	for i, t := range e.targets {
		own, next, known := a.ofKey(i)
		if !known {
			// The answer does not tell. If nothing does, next.RetryAfter stays Never.
			if d := e.Peek(ctx, t.name, next.Remaining+1); d.Err == nil {
				next = d.Decision
			}
		}
		*e.says[i] = bridge.KeyAnswer{Decision: own, Next: next}
		if a.Allowed && e.op == reserve {
			e.says[i].Commit = e.reservation(t, i, a).Commit
		}
	}
}

// ofKey returns the decision of the key of that index on the call, and its decision on one unit more
// than is left then. If the answer of the store does not tell the latter, known is false.
func (a *answer) ofKey(index int) (own, next sash.Decision, known bool) {
	c := &a.call
	v, rs, charged := &c.batch.views[index], c.batch.targets[index].ruleset, c.before()
	var d joined
	if !a.Allowed && v.decide(rs, v.at, charged, c.n, &d) && d.denied() {
		own = d.Decision
	} else { // it admits the call, even if another key denies it
		own = v.left(rs, v.at, charged+c.n).Decision
		if a.Allowed && c.charges() {
			charged += c.n
		}
	}
	left, more := v.left(rs, v.at, charged), joined{}
	if !v.decide(rs, v.at, charged, left.Remaining+1, &more) {
		return own, unknownNext(left.Decision), false
	}
	return own, more.Decision, true
}

// left returns the decision on no more units by v at an instant, once charged units are charged.
func (v *view) left(rs *ruleset, at, charged int64) (d joined) {
	d.Allowed = true
	v.decide(rs, at, charged, 0, &d)
	return d
}

// unknownNext returns the decision on one unit more than d leaves, where the wait for it is not
// known.
func unknownNext(d sash.Decision) sash.Decision {
	return sash.Decision{Limit: d.Limit, Remaining: d.Remaining, RetryAfter: sash.Never, ResetAfter: d.ResetAfter}
}

// ofKey returns what t says to a call for n units at a reading of the local clock, where the
// mirror has denied all keys of the call by d. It is as exact as the mirror is.
func (m *mirror) ofKey(t target, n, now int64, d sash.Decision) bridge.KeyAnswer {
	var own joined
	e := m.load(t)
	if e == nil || !m.denies(t, n, now, &own) {
		return bridge.KeyAnswer{Decision: d, Next: unknownNext(d)} // it has forgotten t since
	}
	_, latest := e.clockBounds(now)
	left, more := own.Decision, joined{early: own.early}
	if !own.denied() { // another key denies
		left = e.left(t.ruleset, latest, e.charged).Decision
		own.Decision = left
		own.Remaining -= n
	}
	if !e.decide(t.ruleset, latest, e.charged, left.Remaining+1, &more) {
		return bridge.KeyAnswer{Decision: own.Decision, Next: unknownNext(left)}
	}
	return bridge.KeyAnswer{Decision: own.Decision, Next: more.Decision}
}

// sayFallback sets what each target says by the fallback, which has answered a.
func (e *each) sayFallback(a *answer) {
	switch {
	case e.away.mode == localMode:
		e.sayShares(a)
	case a.Allowed: // everything, so there is no limit to tell of
		for i := range e.says {
			*e.says[i] = always(unlimited(e.n).Decision)
		}
	case a.RetryAfter == sash.Never: // it costs more than is ever admitted
		e.sayRefused(a)
	default: // no limit denies it
		own := a.Decision.Decision
		own.Limit = sash.Unlimited()
		for i := range e.says {
			*e.says[i] = always(own)
		}
	}
}

// sayShares sets what each target says by the shares of this process, which have answered a.
func (e *each) sayShares(a *answer) {
	shares := e.away.shares
	for i, t := range e.targets {
		own, next := shares.TakeThenPeek(t.name, 0)
		if !a.Allowed || e.op == peek || e.n <= 0 {
			own = shares.Peek(t.name, e.n)
		}
		if !a.Allowed { // what is more than a share may be admitted by the store
			own.RetryAfter = min(own.RetryAfter, a.RetryAfter)
		}
		*e.says[i] = bridge.KeyAnswer{Decision: own, Next: next}
		if a.Allowed && i < len(a.local) {
			local := a.local[i]
			e.says[i].Commit = func(_ context.Context, actual int64) error { local.Commit(actual); return nil }
		}
	}
}
