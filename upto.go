package sash

// TakeUpTo charges as many units to key as there are, at most the given number, in one step. It
// returns how many it has charged: most, or the least that any limit of the key has left. No other call
// comes between the look at what is left and the charge.
//
// Its Decision is the Decision of [Limiter.Take] for the units taken. If there are none, it is denied,
// and its Decision is the Decision of Take for one unit: RetryAfter is exact for that, and under
// [WithChargeDenied] the attempt is charged as one unit. An observer is told of the units taken, or of
// that one unit. A most of 0 is a [Limiter.Peek], and a most below 0 is denied with [Never]. Of an
// [Unlimited] key, it takes most.
//
// It costs about a third more than Take if all of most is there, and about twice as much if nothing is.
// Otherwise, for a new key and in the cases in which Take is slow, it locks the key for the few
// nanoseconds in which it decides.
func (l *Limiter) TakeUpTo(key string, most int64) (taken int64, d Decision) {
	if most <= 0 {
		return 0, l.Take(key, most)
	}
	g, k := l.current.Load(), l.key(key)
	q := request{query: query{at: g.instant(l.clock.Now()), n: 1, charge: true, chargeDenied: l.chargeDenied}, upTo: most}
	e := g.keys.load(k)
	if e == nil || !g.ruleset.tryUpTo(e, &q, &d) {
		l.decide(g, k, e, &q, &d, nil)
	}
	if l.observer != nil {
		l.observe(k, q.n, d)
	}
	if !d.Allowed {
		return 0, d
	}
	return q.n, d
}

// tryUpTo is the fast path of TakeUpTo. If it reports false, it had no effect.
func (rs *ruleset) tryUpTo(e *entry, q *request, d *Decision) bool {
	// Each try is by one state of e, and has no effect unless it admits the units. If all are there, they
	// are charged. If not even one is there, nothing is. In between, the number depends on the state: only
	// a call that locks e can count what is left and charge as much. So does one that charges a denial.
	if rs.tryFast(e, e.Word.Load(), q.at, q.upTo, stores|tells, d, nil) == admitted {
		q.n = q.upTo
		return true
	}
	return rs.tryFast(e, e.Word.Load(), q.at, 1, tells, d, nil) == denied
}
