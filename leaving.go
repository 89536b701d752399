package sash

import "context"

// TakeLeaving is [Limiter.Take] that is admitted only if at least leave units remain after it, under
// every limit of the key. So calls of several priorities share one count: work in the background uses
// only what is above a floor, and urgent work, which leaves nothing, may use all. It charges n units
// alone.
//
// RetryAfter is exact for n+leave units: if nothing else is charged, the same call is admitted after it,
// and denied a nanosecond earlier. It is [Never] if n+leave is above Count, or above the Burst of a
// [TokenBucket], however large leave is. Remaining is what a Take could still have: it is at least leave
// if the call is admitted.
//
// A leave of 0 or less is a Take. An n of 0 charges nothing, and tells whether leave units are there. An
// n below 0 is denied with Never. Under [WithChargeDenied], a denied call is charged as a denied Take of n
// units. An [Unlimited] key admits any n and leave.
//
// It costs one and a half to two times as much as Take, and so if it is denied.
func (l *Limiter) TakeLeaving(key string, n, leave int64) (d Decision) {
	if n < 0 || leave <= 0 {
		return l.Take(key, n)
	}
	g, k := l.current.Load(), l.key(key)
	q := request{query: query{at: g.instant(l.clock.Now()), n: n, leave: leave, charge: n > 0, chargeDenied: l.chargeDenied}}
	e := g.keys.load(k)
	if e == nil || !g.ruleset.tryLeaving(e, q.query, &d) {
		l.decide(g, k, e, &q, &d, nil)
	}
	if l.observer != nil && n != 0 {
		l.observe(k, n, d)
	}
	return d
}

// tryLeaving is the fast path of TakeLeaving. If it reports false, it had no effect.
func (rs *ruleset) tryLeaving(e *entry, q query, d *Decision) bool {
	if q.n <= 0 || q.needs() <= 0 {
		return false
	}
	// The first try asks whether there is enough, and the second charges, or tells the denial. Both are by one
	// word: what the second finds is the state that the first has found, or it has no effect.
	word, res := e.Word.Load(), retry
	switch rs.tryFast(e, word, q.at, q.needs(), 0, nil, nil) {
	case admitted:
		res = rs.tryFast(e, word, q.at, q.n, stores|tells, d, nil)
		return res == admitted
	case denied:
		res = rs.tryFast(e, word, q.at, q.needs(), tells, d, nil)
		return res == denied
	}
	return false
}

// ReserveLeaving is [Limiter.Reserve] that is admitted only if at least leave units remain after it, as
// [Limiter.TakeLeaving] is. To settle the reservation, nothing need remain.
func (l *Limiter) ReserveLeaving(key string, n, leave int64) (Reservation, Decision) {
	targets := []target{{key: l.key(key), leave: max(leave, 0)}}
	d := l.reserve(targets, n)
	return l.reservation(&targets[0], n, d), d
}

// WaitLeaving is [Limiter.Wait] that is admitted only once at least leave units remain after it, as
// [Limiter.TakeLeaving] is. Its error is [ErrExceedsLimit] if n+leave is above the Count of a limit, or
// above the Burst of a [TokenBucket].
//
// Of the calls that wait for one key, those that leave less go first, and of equal ones those that came
// first. So urgent calls do not queue behind calls in the background. As long as urgent calls take all
// there is, calls in the background wait.
func (l *Limiter) WaitLeaving(ctx context.Context, key string, n, leave int64) error {
	_, err := l.wait(ctx, []target{{key: l.key(key).hidden(), leave: max(leave, 0)}}, n)
	return err
}

// peekLeaving returns the decision that TakeLeaving would return, as after the charge, and charges nothing.
func (l *Limiter) peekLeaving(key string, n, leave int64) (d Decision) {
	if n < 0 || leave <= 0 {
		return l.Peek(key, n)
	}
	l.decideNow(key, &request{query: query{n: n, leave: leave, chargeDenied: l.chargeDenied}}, &d)
	return d
}

// nextLeaving returns the decision on no unit of key, and the decision on one unit more than a call that
// leaves units can have. It charges nothing.
func (l *Limiter) nextLeaving(key string, leave int64) (now, next Decision) {
	// One unit more than is left is also one more than is left above the floor, unless less than that is
	// left: then the call can have none.
	if now, next = l.TakeThenPeek(key, 0); now.Remaining < leave {
		next, _ = l.look(key, query{n: 1, leave: leave})
	}
	return now, next
}
