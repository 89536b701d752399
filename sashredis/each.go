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
	op      bridge.Op
	call    call
	targets []target
	says    []*bridge.KeyAnswer // of the targets
}

// decideEach is Take, Peek or Reserve for several keys, all or nothing, and tells what each of
// them says. The keys must differ. It costs one round trip, as TakeAll does, and one more for
// each key of which the answer does not tell when more is left: one with a log or buckets that
// was charged past its limit.
func (l *Limiter) decideEach(ctx context.Context, op bridge.Op, keys []string, n int64) (a bridge.Answer) {
	e := &each{Limiter: l, op: op, call: call{n: n, charge: n > 0 && op != bridge.Peek}}
	a.Keys = make([]bridge.KeyAnswer, len(keys))
	var d Decision
	for i, key := range keys {
		t, err := l.target(key)
		switch {
		case err != nil:
			l.stats.invalid.Inc()
			d = refused(err)
			d.Limit = sash.Limit{Window: time.Second} // which admits nothing
			a.Decision, a.By, a.Err = d.Decision, d.By.String(), d.Err
			for i := range a.Keys {
				a.Keys[i] = bridge.KeyAnswer{Decision: d.Decision, Next: d.Decision}
			}
			return a
		case t.unlimited:
			d := unlimited(n).Decision
			a.Keys[i] = bridge.KeyAnswer{Decision: d, Next: d}
		default:
			e.targets, e.says = append(e.targets, t), append(e.says, &a.Keys[i])
		}
	}
	switch {
	case len(keys) == 0:
		d = refused(nil)
	case len(e.targets) == 0:
		d = unlimited(n)
	default:
		d = e.decide(ctx)
		l.stats.by[d.By].Inc()
	}
	a.Decision, a.By, a.Err = d.Decision, d.By.String(), d.Err
	return a
}

// decide returns the decision for all targets, and sets what each of them says.
func (e *each) decide(ctx context.Context) Decision {
	if e.op != bridge.Reserve {
		if d, ok := e.decideHere(); ok {
			return d
		}
	}
	token := ""
	if e.op == bridge.Reserve {
		token = e.newToken()
	}
	c := e.newWaiting(e.targets, e.call.n, e.call.charge, token)
	d, err := Decision{}, e.attempt(ctx, c)
	switch {
	case err == nil:
		d = e.fromStore(ctx, &c.call)
	case isMisuse(err):
		d = e.refused(refused(err))
	default:
		return e.fromFallback(err) // c may be in a batch
	}
	e.release(c)
	return d
}

// refused lets all targets say d, a denial because of an error.
func (e *each) refused(d Decision) Decision {
	d.Limit = e.targets[0].rules[0].Limit
	for i, t := range e.targets {
		own := d.Decision
		own.Limit = t.rules[0].Limit
		*e.says[i] = bridge.KeyAnswer{Decision: own, Next: own}
	}
	return d
}

// fromStore returns the answer to c, which the store has decided.
func (e *each) fromStore(ctx context.Context, c *call) Decision {
	a := c.answer()
	if a.Err != nil {
		return e.refused(a.Decision)
	}
	for i, t := range e.targets {
		own, next, known := c.ofKey(i, a.Allowed)
		if !known {
			// What c was answered does not tell. If nothing does, next.RetryAfter stays Never.
			if d := e.Peek(ctx, t.name, next.Remaining+1); d.Err == nil {
				next = d.Decision
			}
		}
		*e.says[i] = bridge.KeyAnswer{Decision: own, Next: next}
		if a.Allowed && e.op == bridge.Reserve {
			e.says[i].Commit = Reservation{e.reservation(t, c.n, &a.views[i])}.Commit
		}
	}
	return a.Decision
}

// ofKey returns what the key of that index says to c, and the decision on one unit more than is
// left of it then. If the answer of the store does not tell the latter, known is false.
func (c *call) ofKey(index int, allowed bool) (own, next sash.Decision, known bool) {
	v, rs, charged := &c.batch.views[index], c.batch.targets[index].ruleset, c.before()
	var d joined
	if !allowed && v.decide(rs, v.at, charged, c.n, &d) && d.denied {
		own = d.Decision
	} else { // it admits the call, even if another key denies it
		own = v.left(rs, v.at, charged+c.n).Decision
		if allowed && c.charge {
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

// unknownNext returns the decision on one unit more than d leaves if it is not known when more is
// left.
func unknownNext(d sash.Decision) sash.Decision {
	return sash.Decision{Limit: d.Limit, Remaining: d.Remaining, RetryAfter: sash.Never, ResetAfter: d.ResetAfter}
}

// decideHere decides without the store, if that is exact.
func (e *each) decideHere() (d Decision, ok bool) {
	if e.call.charge && e.lessees != nil && len(e.targets) == 1 {
		if d, ok = e.lessees.take(e.targets[0], e.call.n); ok {
			*e.says[0] = bridge.KeyAnswer{Decision: d.Decision, Next: unknownNext(d.Decision)}
			return d, true
		}
	}
	if e.mirror == nil {
		return Decision{}, false
	}
	now := e.local.Now()
	if d, ok = e.mirror.denyAll(e.targets, e.call.n, now); ok {
		for i, t := range e.targets {
			*e.says[i] = e.mirror.ofKey(t, e.call.n, now, d.Decision)
		}
	}
	return d, ok
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
	if !own.denied { // another key denies
		left = e.left(t.ruleset, latest, e.charged).Decision
		own.Decision = left
		own.Remaining -= n
	}
	if !e.decide(t.ruleset, latest, e.charged, left.Remaining+1, &more) {
		return bridge.KeyAnswer{Decision: own.Decision, Next: unknownNext(left)}
	}
	return bridge.KeyAnswer{Decision: own.Decision, Next: more.Decision}
}

// fromFallback returns the answer of the fallback to a call that the store has not decided
// because of err.
func (e *each) fromFallback(err error) Decision {
	f := &e.away
	a := f.decide(e.targets, e.call.n, e.call.charge, e.op == bridge.Reserve, err)
	switch {
	case f.mode == localMode:
		e.saySharesOf(&a)
	case a.Allowed: // everything, so there is no limit to tell of
		own := unlimited(e.call.n).Decision
		for i := range e.says {
			*e.says[i] = bridge.KeyAnswer{Decision: own, Next: own}
		}
	case a.RetryAfter == sash.Never: // it costs more than is ever admitted
		e.refused(a.Decision)
	default: // no limit denies it
		own := a.Decision.Decision
		own.Limit = sash.Unlimited()
		for i := range e.says {
			*e.says[i] = bridge.KeyAnswer{Decision: own, Next: own}
		}
	}
	return a.Decision
}

// saySharesOf sets what each target says by the shares of this process, which have answered a.
func (e *each) saySharesOf(a *answer) {
	shares := e.away.shares
	for i, t := range e.targets {
		own, next := shares.TakeThenPeek(t.name, 0)
		if !a.Allowed || !e.call.charge {
			own = shares.Peek(t.name, e.call.n)
		}
		if !a.Allowed { // what is more than a share may be admitted by the store
			own.RetryAfter = min(own.RetryAfter, a.RetryAfter)
		}
		*e.says[i] = bridge.KeyAnswer{Decision: own, Next: next}
		if a.Allowed && i < len(a.local) {
			e.says[i].Commit = func(_ context.Context, actual int64) error { a.local[i].Commit(actual); return nil }
		}
	}
}
