package sash

import (
	"cmp"
	"time"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// Allow reports whether one more unit is admitted for key, and charges it if so. It is
// shorthand for Take(key, 1).Allowed, and a little faster.
//
// A key that is composed for the call, as in Allow("ip:" + address), stays on the stack: it
// allocates nothing, if it is tracked. This holds for all calls but the reservations, which
// keep the key, and calls that have to wait.
func (l *Limiter) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN is shorthand for Take(key, n).Allowed, and a little faster.
func (l *Limiter) AllowN(key string, n int64) bool {
	// The fast path serves a limiter without an observer, and a key in the slot where most
	// are found. Under a counter, it serves the window in which both were charged last;
	// under a log, an instant that is not before the newest record. Under parts, it also serves a part
	// that begins. In every other case, and
	// if another call changes the entry at the same time, it has no effect, and the slow path
	// decides from the beginning.
	g, k := l.current.Load(), l.key(key)
	at := g.instant(l.clock.Now())
	if n > 0 && g.fast != fastNone {
		h := g.keys.shard(k).Guess(k.hash, key)
		if h != nil && h.HasInlineLen(len(key)) && h.InlineNameIs(key) { // HasName, without a call
			// The word of a dead, locked or multi-limit entry makes charge return retry. Any other
			// is charged or locked by one swap, which fails if the janitor kills the entry first.
			var res result
			switch e, r := entryOf(h), g.rule; g.fast {
			case fastCounter:
				_, _, _, res = (*slidingCounter)(r).charge(e, e.Word.Load(), at, n)
			case fastLog:
				res = (*slidingLog)(r).tryFast(e, e.Word.Load(), at, n, stores, nil, nil)
			case fastBucket:
				_, _, _, res = (*tokenBucket)(r).charge(e, e.Word.Load(), at, n)
			case fastParts:
				if _, _, res = (*slidingParts)(r).charge(e, e.Word.Load(), at, n); res == retry {
					res = (*slidingParts)(r).tryTurn(e, e.Word.Load(), at, n, stores, nil, nil)
				}
			default:
				res = g.ruleset.tryFast(e, e.Word.Load(), at, n, stores, nil, nil)
			}
			if res != retry {
				return res == admitted
			}
		}
	}
	return l.allowSlow(g, k, at, n)
}

// allowSlow is the slow path of AllowN.
func (l *Limiter) allowSlow(g *generation, k key, at, n int64) bool {
	if g.fast == fastNone {
		return l.takeSlow(g, k, at, n).Allowed // the observer gets the decision
	}
	e := g.keys.load(k)
	if e != nil && n > 0 {
		if res := g.ruleset.tryFast(e, e.Word.Load(), at, n, stores, nil, nil); res != retry {
			return res == admitted
		}
	}
	return l.decide(g, k, e, &request{query: query{at: at, n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, nil, nil)
}

// AllowBytes is [Limiter.Allow] for a key in a byte slice. The slice is not kept: it may
// be reused after the call.
func (l *Limiter) AllowBytes(key []byte) bool { return l.AllowN(bridge.AsString(key), 1) }

// Take charges n units to key if all its limits admit them, else nothing, and returns the
// decision with what is left. An n of 0 is a [Limiter.Peek]. An n below 0 is denied with
// [Never], and so is an n above Count, or above the Burst of a [TokenBucket].
//
// It costs one reading of the clock, one look-up and, if it charges, one
// compare-and-swap. A key that is new, or was evicted, also costs an insert and another
// reading. That stores a copy of the key, and 35 to 50 bytes under one [SlidingCounter] or
// [TokenBucket]; more under a very large limit, other algorithms or several limits.
func (l *Limiter) Take(key string, n int64) (d Decision) {
	// The fast path is the same as in AllowN. It is shortest for a counter with nothing in the
	// previous window.
	g, k := l.current.Load(), l.key(key)
	at := g.instant(l.clock.Now())
	h := g.keys.shard(k).Guess(k.hash, key)
	if h != nil && h.HasInlineLen(len(key)) && h.InlineNameIs(key) && n > 0 && g.fast != fastNone { // HasName, without a call
		var res result
		switch e, r := entryOf(h), g.rule; g.fast {
		case fastCounter:
			var prev, curr, elapsed int64
			c := (*slidingCounter)(r)
			prev, curr, elapsed, res = c.charge(e, e.Word.Load(), at, n)
			if res == admitted && prev == 0 { // as for most calls: nothing is divided
				d.set(&r.Limit, admitted, outcome{remaining: r.Count - curr, resetAfter: r.counter.ResetAfterCharge(elapsed)})
				return d
			}
			if res != retry {
				d.set(&r.Limit, res, c.outcome(prev, curr, elapsed, n, res))
			}
		case fastBucket:
			var lack int64
			b := (*tokenBucket)(r)
			_, lack, _, res = b.charge(e, e.Word.Load(), at, n)
			if res == admitted {
				d.set(&r.Limit, admitted, outcome{remaining: r.debts.remaining(uint64(lack)), resetAfter: r.debts.time(uint64(lack))})
				return d
			}
			if res != retry {
				d.set(&r.Limit, res, b.outcome(0, lack, 0, n, res))
			}
		case fastParts:
			p := (*slidingParts)(r)
			word := e.Word.Load()
			used, elapsed, done := p.charge(e, word, at, n)
			switch done {
			case admitted:
				d.set(&r.Limit, admitted, outcome{remaining: r.Count - used, resetAfter: r.Window - time.Duration(elapsed)})
				return d
			case denied:
				if o, ok := p.denial(e, word, used, elapsed, n); ok {
					d.set(&r.Limit, denied, o)
					return d
				}
			}
			res = p.tryTurn(e, e.Word.Load(), at, n, stores|tells, &d, nil)
		case fastLog:
			res = (*slidingLog)(r).tryFast(e, e.Word.Load(), at, n, stores|tells, &d, nil)
		default:
			res = g.ruleset.tryFast(e, e.Word.Load(), at, n, stores|tells, &d, nil)
		}
		if res != retry {
			return d
		}
	}
	return l.takeSlow(g, k, at, n)
}

// takeSlow is the slow path of Take.
func (l *Limiter) takeSlow(g *generation, k key, at, n int64) (d Decision) {
	e := g.keys.load(k)
	if e != nil && n > 0 && g.fast != fastNone {
		if g.ruleset.tryFast(e, e.Word.Load(), at, n, stores|tells, &d, nil) != retry {
			return d
		}
	}
	l.decide(g, k, e, &request{query: query{at: at, n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, &d, nil)
	if l.observer != nil && n != 0 {
		l.observe(k, n, d)
	}
	return d
}

// TakeBytes is [Limiter.Take] for a key in a byte slice. The slice is not kept: it may be
// reused after the call.
func (l *Limiter) TakeBytes(key []byte, n int64) Decision { return l.Take(bridge.AsString(key), n) }

// Peek returns the decision that [Limiter.Take] would return, as after the charge. It
// charges nothing and stores nothing. Peek(key, 0) is the state of the key as it is.
//
// It allocates only for a key that is not tracked under [WithLimitsFor], for a key that it must move
// because the limits are changing, and at most 64 times for keys that are not tracked under
// [SlidingParts].
func (l *Limiter) Peek(key string, n int64) (d Decision) {
	g, k := l.current.Load(), l.key(key)
	at := g.instant(l.clock.Now())
	e := g.keys.load(k)
	if e != nil && n > 0 && g.ruleset.tryFast(e, e.Word.Load(), at, n, tells, &d, nil) != retry {
		return d
	}
	l.decide(g, k, e, &request{query: query{at: at, n: n, chargeDenied: l.chargeDenied}}, &d, nil)
	return d
}

// TakeThenPeek is [Limiter.Take], and also returns the decision on one unit more than that
// leaves, which is not charged. So next.RetryAfter is how long until more can be taken if
// no other call takes any, and next.Limit is the limit that has so little left. It is for
// telling clients, as the RateLimit header does.
//
// Most calls cost little more than Take, and decide both at one instant. So next is denied. That is
// always so for a key that has only the limiter's one limit, which is a log, is in parts or fits into one
// word, and had no reservation. For the others, it is not so for a call that is denied, is the first of a
// window, or loses a race. Then next is d itself if d denies one unit more than is left. Otherwise it is a
// [Limiter.Peek] right after the Take. It shows what time and other calls have done in between, and may
// be allowed.
func (l *Limiter) TakeThenPeek(key string, n int64) (d, next Decision) {
	g, k := l.current.Load(), l.key(key)
	at := g.instant(l.clock.Now())
	e := g.keys.load(k)
	if e == nil || n <= 0 || g.ruleset.tryFast(e, e.Word.Load(), at, n, stores|tells, &d, &next) == retry {
		l.decide(g, k, e, &request{query: query{at: at, n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, &d, &next)
	}
	switch {
	case next.Limit.Window > 0: // it has been told
	case !d.Allowed && n > 0 && n-1 == d.Remaining:
		next = d
	default:
		// The caller has not made this attempt. So do not charge it, even if denied attempts
		// are charged.
		more := request{query: query{n: d.Remaining + 1}}
		if d.Limit == Unlimited() {
			more.n = d.Remaining // no more can be asked for
		}
		l.decideNow(key, &more, &next)
	}
	if l.observer != nil && n != 0 {
		l.observe(k, n, d)
	}
	return d, next
}

// decideNow decides q for the key of that name at the time of the clock, to which it sets q.at.
func (l *Limiter) decideNow(name string, q *request, d *Decision) bool {
	g, k := l.current.Load(), l.key(name)
	q.at = g.instant(l.clock.Now())
	return l.decide(g, k, g.keys.load(k), q, d, nil)
}

// decide decides q for k, whose entry in g, as found, is e; nil for none. It leaves in
// q.at the instant that q is decided for. d and next are as for ruleset.decide.
func (l *Limiter) decide(g *generation, k key, e *entry, q *request, d, next *Decision) bool {
	before := uint64(0) // see evictFor
	for round := 1; ; round++ {
		atomic.Round("decide", round)
		if e == nil {
			was := g
			if g, e = l.lookup(k); g != was {
				q.at = g.instant(l.clock.Now()) // after a Restore, the same reading is another instant
			}
		}
		if e == nil {
			if q.upTo > 0 {
				q.fit(0) // what an entry had left in an earlier round counts no more
			}
			before = cmp.Or(before, g.cap.nextSeq())
			self := [1]target{{key: k, before: before}}
			r := g.resolve(k.name)
			if !r.ruleset.neverCharges && !l.evictFor(g, 1, self[:]) {
				next.clear() // a shared entry has several limits
				return l.decideUnplaced(g, k, before, q, d)
			}
			if r.ruleset.neverCharges || !q.stores(resultOf(r.ruleset.satisfiable(q.needs()))) {
				// Nothing to store, so the key gets no entry. The answer counts if the
				// key had none at an instant at which its limits were these.
				if l.confirmAbsent(r, k) {
					l.countInvalid(r.ruleset, q)
					return l.decideFresh(r.ruleset, k, q, d, next)
				}
				continue
			}
			// Another call may insert first: then this is its entry. It is nil if the limits have
			// changed, or if there is no room.
			if e = l.insert(r, k, self[:]); e != nil {
				k = g.keys.keyOf(e)
			}
			// The entry that the key had may have been evicted after q.at was read. Read
			// the clock again, so that q.at is not before that eviction.
			q.at = g.instant(l.clock.Now())
		}
		if e != nil && q.charge && !g.ruleset.holds(e.Word.Load(), q.at) {
			// The word of e has no bits for this instant. A multi-limit entry replaces it. Look again.
			l.convert(g, k, e, g.ruleset, kindMulti)
			e = nil
			continue
		}
		if e != nil {
			res := retry
			if q.upTo > 0 {
				res = g.ruleset.decideUpTo(e, q, d)
			} else {
				res = g.ruleset.decide(e, q.query, d, next)
			}
			switch res {
			case retry:
				// The entry was evicted, reset or replaced since the look-up. Take it out of
				// the table, if that is not done yet, and look again.
				g.keys.compareAndDelete(k, e)
			case outgrown:
				g.enlarge(k, e)
			default:
				return res == admitted
			}
			e = nil
		}
	}
}

// decideFresh decides q for k, which has no entry and need not get one: q is not charged under rs.
func (l *Limiter) decideFresh(rs *ruleset, k key, q *request, d, next *Decision) (allowed bool) {
	e := rs.freshEntry(k.name)
	if q.upTo > 0 {
		q.fit(rs.remaining(e, e.Word.Load(), q.at))
	}
	fresh := q.query
	fresh.charge = false
	return rs.decide(e, fresh, d, next) == admitted
}

// decideUnplaced decides q for a key that has no room in g. q.at is an instant of g. The call is
// decided as a call on several keys is: under the locks of all that the answer depends on. These are
// the entry that the key shares, and the shard in which it has none. before is as in a target.
func (l *Limiter) decideUnplaced(g *generation, k key, before uint64, q *request, d *Decision) (allowed bool) {
	if d == nil {
		d = new(Decision)
	}
	targets := []target{{key: k.hidden(), before: before, leave: q.leave}}
	l.takeAllLocked(targets, g, q, d)
	l.countInvalid(targets[0].ruleset, q)
	return d.Allowed
}
