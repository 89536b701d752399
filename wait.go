package sash

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/internal/queue"
	"github.com/seed-30da4c49/sash/internal/window"
)

// ErrExceedsLimit is wrapped by the error of [Limiter.Wait], [Limiter.WaitAll], [Limiter.WaitReserve] and
// [Limiter.WaitLeaving] for a call that is never admitted, however long it waits.
var ErrExceedsLimit = errors.New("exceeds the limit")

// ErrTooManyWaiters is wrapped by the error of [Limiter.Wait], [Limiter.WaitAll], [Limiter.WaitReserve] and
// [Limiter.WaitLeaving] for a call that [WithMaxWaiters] does not let wait.
var ErrTooManyWaiters = errors.New("too many waiters")

// Wait blocks until n units are admitted for key, and charges them. Calls that wait for one key are
// admitted in the order in which they came, before calls of [Limiter.WaitLeaving] that are to leave units.
// A Take does not queue, and may be admitted before them.
//
// Wait returns nil once n is charged. On an error, nothing is charged. The error is
//   - the error of ctx, as soon as ctx ends;
//   - [ErrExceedsLimit], at once, if n is negative, or more than the Count of a limit or the
//     Burst of a [TokenBucket];
//   - [ErrInvalidLimit], at once, if [WithLimitsFor] returns wrong limits for the key, with
//     what is wrong;
//   - [ErrTooManyWaiters], at once, if as many calls wait as [WithMaxWaiters] allows;
//   - [context.DeadlineExceeded], at once, if ctx has a deadline and the wait is sure to
//     last longer. That follows from the state of the key, and from the units that the
//     calls before it wait for, unless these calls give up.
//
// Units that are held at a time, as [AtOnce] limits them, may be given back at any time. So no deadline
// refuses a call because of leases. A call that gives units back wakes the next in the queue.
//
// An n of 0 charges nothing and does not queue. It waits only while the key is over its limits.
//
// On a [ManualClock], Wait waits for that clock to be moved. On a clock of your own, it
// waits in real time. It compares the deadline of ctx with the time of the limiter's
// clock, as if both ran alike.
//
// A call that waits costs about 600 bytes, and no goroutine but its own. A key that a call
// waits for may be evicted to make room for another key: under [EvictLeastUsed] always, and
// under the other Overflows if it is idle and the other key is waited for, too. Under
// EvictLeastUsed it then has its whole quota again, and the calls go on at once. Under the
// others, calls that wait for several keys may wait for room again.
func (l *Limiter) Wait(ctx context.Context, key string, n int64) error {
	_, err := l.wait(ctx, []target{{key: l.key(key).hidden()}}, n)
	return err
}

// WaitAll is [Limiter.Wait] for several keys at once. It blocks until n units are admitted
// for all of keys, and charges n units to each of them at one instant, as [Limiter.TakeAll]
// does. A key named twice counts once.
//
// Calls that wait for the same keys are admitted in the order in which they came. A call has its
// turn once no earlier call must go first at any of its keys. Before that, later calls go ahead of
// it, except at the keys where it waits behind an earlier call. During its turn, later calls may
// still take from its other keys, if this does not delay it. So each call is admitted in the end. A
// key at its limit delays the calls that wait for it, and hardly any others.
//
// The errors are the same as for Wait. [ErrExceedsLimit] is also the error of an empty list, and of
// more keys than fit under [WithMaxKeys] at one time, unless they share a quota that admits n.
//
// A call that waits costs about 600 bytes, and 250 more for each key but the first.
//
// Units that are given back wake one call, however many wait for the same keys. More are woken where
// calls share two full keys, and each has a third key of its own. Once the first of them waits for the
// other full key, the others are woken one after the other.
func (l *Limiter) WaitAll(ctx context.Context, keys []string, n int64) error {
	var buf [8]target
	_, err := l.wait(ctx, l.targets(buf[:0], keys), n)
	return err
}

// WaitReserve waits as [Limiter.Wait] does, in the same queue, and returns a reservation of the n
// units to settle, as [Limiter.Reserve] does. It costs as much as both. On an error, it returns the
// zero Reservation, which settles nothing. A reservation of 0 units charges what is committed.
func (l *Limiter) WaitReserve(ctx context.Context, key string, n int64) (Reservation, error) {
	targets := []target{{key: l.key(key).hidden(), reserve: true}}
	d, err := l.wait(ctx, targets, n)
	return l.reservation(&targets[0], n, d), err // none of a decision that is not allowed
}

// waitHolding is WaitReserve if units of key are held at a time when the call is admitted, and else Wait.
func (l *Limiter) waitHolding(ctx context.Context, key string, n int64) (Reservation, error) {
	targets := []target{{key: l.key(key).hidden(), holding: true}}
	d, err := l.wait(ctx, targets, n)
	return l.reservation(&targets[0], n, d), err // none of a key that holds nothing
}

// wait waits until n units of all targets are charged. On an error, the decision is not allowed.
func (l *Limiter) wait(ctx context.Context, targets []target, n int64) (Decision, error) {
	d, err := l.waitUnobserved(ctx, targets, n)
	if err != nil {
		return Decision{}, err
	}
	// The observer is the caller's code: call it once the call is not in a queue any more.
	l.observeReserved(targets, n, d)
	return d, nil
}

func (l *Limiter) waitUnobserved(ctx context.Context, targets []target, n int64) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	if len(targets) == 0 {
		return Decision{}, fmt.Errorf("sash: Wait: no key is given: %w", ErrExceedsLimit)
	}

	// Without a queue, charge at once. With a queue, only look: a new call must not
	// overtake those that wait. A cost of 0 takes nothing from them, so it need not queue.
	alone := n == 0 || !l.isWaitedFor(targets)
	d, _ := l.attempt(targets, n, alone)
	if alone && d.Allowed {
		return d, nil
	}
	if err := l.waitError(ctx, targets, n, d.RetryAfter); err != nil {
		return Decision{}, err
	}

	for i := range targets {
		targets[i].waits = true
	}
	w := newWaiter(targets, n)
	// Enter before the forecast: a change from here on wakes w, so none is missed.
	if !l.queues.EnterBelow(w, l.maxWaiters) {
		return Decision{}, fmt.Errorf("sash: Wait: %d calls wait, as many as WithMaxWaiters allows: %w",
			l.maxWaiters, ErrTooManyWaiters)
	}
	defer l.queues.Leave(w)
	if err := tooLate(ctx, l.forecast(w, targets, n)); err != nil {
		return Decision{}, err
	}
	for {
		// Try before the first sleep, too. What happened to the keys or the queues before
		// w entered has not woken w.
		at := l.current.Load().instant(l.clock.Now())
		turn := l.queues.Begin(w, at)
		for i := range targets {
			targets[i].claimed = w.Places[i].Claimed
		}
		if turn {
			if d, at = l.attempt(targets, n, true); d.Allowed {
				return d, nil
			}
		}
		longest, due := l.endAttempt(w, targets, n)

		// The limits of a key may have changed, so n may not be admitted any more: by a key, or by all
		// together, if more of them need room than there ever is.
		if err := l.waitError(ctx, targets, n, longest); err != nil {
			return Decision{}, err
		}
		if d.RetryAfter == Never {
			if err := l.neverAdmitted(targets, n); err != nil {
				return Decision{}, err
			}
		}
		due = min(due, window.Plus(at, int64(l.retryAfter(targets, d))))
		if err := l.sleep(ctx, w, turn, due); err != nil {
			return Decision{}, err
		}
	}
}

// A waiter is a call of Wait, WaitAll, WaitReserve or WaitLeaving that blocks.
type waiter = queue.Waiter[string]

// newWaiter returns a waiter for n units of each of targets.
//
// A waiter for several keys takes its units at a time that is not known: later waiters may go before
// it. So no forecast counts its units.
func newWaiter(targets []target, n int64) *waiter {
	w := &waiter{Places: make([]queue.Place[string], len(targets)), Undemanding: n == 0, Yields: mostToLeave(targets)}
	if len(targets) > 1 {
		w.Group = setName(targets)
	}
	for i := range targets {
		p := &w.Places[i]
		p.Key = strings.Clone(targets[i].name)
		p.Claim.Units = queue.Everything // until it is known which key admits w last
		if len(targets) == 1 {
			p.Units = n
		}
	}
	return w
}

// mostToLeave returns the most units that a call must leave of any of its targets.
func mostToLeave(targets []target) (most int64) {
	for i := range targets {
		most = max(most, targets[i].leave)
	}
	return most
}

// setName returns a name of the set of targets, which no other set has.
func setName(targets []target) string {
	var name []byte
	for i := range targets { // sorted, each once
		name = binary.AppendUvarint(name, uint64(len(targets[i].name)))
		name = append(name, targets[i].name...)
	}
	return string(name)
}

// isWaitedFor reports whether a call that waits, and goes before a new one, claims units of any of targets.
func (l *Limiter) isWaitedFor(targets []target) bool {
	return slices.ContainsFunc(targets, func(t target) bool { return l.queues.Claims(t.name, t.leave) })
}

// attempt decides n units for all targets at the time of the clock, and charges them if
// turn is set and they are admitted. An attempt that is denied is never charged, not even
// under WithChargeDenied. It returns the instant of the decision.
func (l *Limiter) attempt(targets []target, n int64, turn bool) (d Decision, at int64) {
	q := request{query: query{n: n, charge: turn && n > 0}, waits: true}
	if t := &targets[0]; len(targets) > 1 || t.reserve || t.holding || t.waits {
		l.takeAll(targets, nil, &q, &d)
	} else {
		q.leave = required(targets, 0, n)
		l.decideNow(t.name, &q, &d) // as Take does, which is faster
	}
	return d, q.at
}

// look decides q, which charges nothing, for key at the time of the clock. It returns the instant of the
// decision.
func (l *Limiter) look(key string, q query) (d Decision, at int64) {
	r := request{query: q}
	l.decideNow(key, &r, &d)
	return d, r.at
}

// endAttempt ends an attempt of w that was not admitted, and looks how long each of its keys denies
// it. It returns how long the longest of them denies it. One key wakes w: due is when that key admits it, if no units
// are given back or taken until then. Before it admits w, nothing that happens to the other keys is of use.
func (l *Limiter) endAttempt(w *waiter, targets []target, n int64) (longest time.Duration, due int64) {
	// The place at the key that admits w last, and when it does: without what earlier waiters claim, and with it.
	last, readyAt, due := queue.Nowhere, int64(math.MinInt64), int64(math.MaxInt64)
	for i := range w.Places {
		key, leave := w.Places[i].Key, targets[i].leave
		d, at := l.look(key, query{n: n, leave: leave})
		longest = max(longest, d.RetryAfter)
		if w.Behind != queue.Nowhere {
			continue // it has no turn, and claims what it claimed in the last one
		}
		wait := d.RetryAfter
		if d.Allowed {
			// Does it also leave what the waiters before w claim?
			d, _ := l.look(key, query{n: n, leave: max(leave, targets[i].claimed)})
			if wait = d.RetryAfter; d.Allowed && len(targets) > 1 {
				continue
			}
		}
		if admitsAt := window.Plus(at, int64(d.RetryAfter)); last == queue.Nowhere || admitsAt > readyAt {
			last, readyAt, due = i, admitsAt, int64(math.MaxInt64)
			if wait > 0 { // or it has just begun to admit w, and has woken it if units were given back
				due = window.Plus(at, int64(wait))
			}
		}
	}
	if w.Behind == queue.Nowhere {
		l.queues.End(w, l.claimsOf(w, targets, n, last))
	}
	return longest, due
}

// claimsOf returns what a waiter for n units of each of targets claims that has had its turn. The key of the
// place last admits it as the last of them; Nowhere: all admit it.
//
// It claims everything of that key, and is woken for that key alone: until it admits w, no other is of
// use to w. Of each other key it claims the units that it waits for, and those only from the instant on
// from which a charge may still count when the last key admits w, at the earliest. Until then, and as long
// as the claim is left, later calls go first.
//
// Of several claims to a key the greatest must be left, not the sum: however many waiters one full
// key has, they do not use up their other keys. No waiter starves by that. The waiters before it
// are finite in number, unless it is to leave units and others that leave less come for ever. So it gets
// its turn. During its turn, a key that admits it goes on to do so
// until an earlier waiter, or a call that does not wait, is charged.
func (l *Limiter) claimsOf(w *waiter, targets []target, n int64, last int) []queue.Claim {
	claims, readyAt := make([]queue.Claim, len(w.Places)), int64(math.MinInt64)
	if last != queue.Nowhere && len(claims) > 1 {
		d, at := l.look(w.Places[last].Key, query{n: n, leave: targets[last].leave, certain: true})
		readyAt = window.Plus(at, int64(d.RetryAfter))
	}
	for i := range claims {
		c := &claims[i]
		if i == last {
			c.Units = queue.Everything
			continue
		}
		c.Units, c.Waits = n, last == queue.Nowhere // all keys admit it: it may wait for any
		c.From, _ = window.Sub(readyAt, l.rulesetOf(w.Places[i].Key).looksBack())
	}
	return claims
}

// waitError returns an error if a call for n units of all targets, which is denied and is to retry after
// wait, is sure not to be admitted in time.
func (l *Limiter) waitError(ctx context.Context, targets []target, n int64, wait time.Duration) error {
	if n < 0 {
		return fmt.Errorf("sash: Wait: n must be >= 0, got %d: %w", n, ErrExceedsLimit)
	}
	if wait == Never { // or it is longer than a Duration
		if err := l.neverAdmitted(targets, n); err != nil {
			return err
		}
	}
	if tooLate(ctx, wait) == nil {
		return nil
	}
	return tooLate(ctx, l.leastWait(targets, n))
}

// tooLate returns the error of a call that has to wait as long as that at least, if ctx ends before.
func tooLate(ctx context.Context, least time.Duration) error {
	deadline, ok := ctx.Deadline()
	if left := time.Until(deadline); ok && least > left {
		return fmt.Errorf("sash: Wait: admitted in %v at the earliest, the context ends in %v: %w",
			least, max(0, left), context.DeadlineExceeded)
	}
	return nil
}

// leastWait returns how long a call for n units has to wait for targets at least, whatever is given back. A
// key that does not fit may get room at any time.
func (l *Limiter) leastWait(targets []target, n int64) (least time.Duration) {
	for i := range targets {
		if t := &targets[i]; !l.isUnplaced(t.key) {
			d, _ := l.look(t.name, query{n: n, leave: t.leave, certain: true})
			least = max(least, d.RetryAfter)
		}
	}
	return least
}

// leastWaitFor returns how long a Wait for n units of key lasts at least, whatever units that are held are given
// back, or the error of one that is never admitted. It charges nothing.
func (l *Limiter) leastWaitFor(key string, n int64) (time.Duration, error) {
	targets := []target{{key: l.key(key).hidden()}}
	d, _ := l.look(key, query{n: n})
	if err := l.waitError(context.Background(), targets, n, d.RetryAfter); err != nil || d.Allowed {
		return 0, err
	}
	return l.leastWait(targets, n), nil
}

// neverAdmitted returns the error of a call that no wait would admit, or nil if targets may
// admit n units in time.
func (l *Limiter) neverAdmitted(targets []target, n int64) error {
	g, room := l.current.Load(), int64(0)
	for i := range targets {
		rs := l.rulesetOf(targets[i].name)
		if rs.fault != nil {
			if n > 0 {
				l.invalid.Add(1) // an n of 0 charges nothing, and is not counted
			}
			return fmt.Errorf("sash: Wait: %w", rs.fault)
		}
		if !rs.neverCharges {
			room++
		}
		if err := rs.exceededBy(n, targets[i].leave); err != nil {
			return err
		}
	}
	switch {
	case g.cap.holds(room):
		return nil
	case g.overflow != nil: // at least one of the keys shares a quota of the limiter's own limits
		return g.ruleset.exceededBy(n, mostToLeave(targets))
	}
	return fmt.Errorf("sash: Wait: %d keys are more than WithMaxKeys ever tracks: %w", room, ErrExceedsLimit)
}

// exceededBy returns the error of a call for n units, n >= 0, that leave more units, if rs never admits as
// many, or nil.
func (rs *ruleset) exceededBy(n, leave int64) error {
	r := rs.neverAdmits(query{n: n, leave: leave}.needs())
	switch {
	case r == nil || rs.unlimited():
		return nil
	case leave > 0:
		return fmt.Errorf("sash: Wait: %d and the %d to be left are more than %v ever admits: %w", n, leave, r.Limit, ErrExceedsLimit)
	}
	return fmt.Errorf("sash: Wait: %d is more than %v ever admits: %w", n, r.Limit, ErrExceedsLimit)
}

// sleep blocks until the next attempt of w may have another result. That is when w is woken or, if
// w has its turn, at the instant at. It returns the error of ctx if ctx has ended.
func (l *Limiter) sleep(ctx context.Context, w *waiter, turn bool, at int64) error {
	// A waiter without a turn needs no timer. It is woken when it may have its turn.
	//
	// A Restore may have begun another timeline since the attempt. Then the timer is set to a wrong
	// time, but the Restore wakes w. A wake-up since the attempt is not lost: w keeps it.
	var due <-chan struct{}
	if turn {
		var stop func()
		due, stop = after(l.clock, l.current.Load().clockReading(at))
		defer stop()
	}
	return w.Block(ctx, due)
}

// retryAfter returns how long a call on targets sleeps after an attempt that was denied by d. A
// key that shares a quota may get room of its own before that quota admits the call, if it ever
// does: the key may have other limits. No call wakes the waiter when a key becomes idle, so look now and
// then.
func (l *Limiter) retryAfter(targets []target, d Decision) time.Duration {
	if anyPlaced(targets, placedShared) {
		return min(d.RetryAfter, l.current.Load().sweepInterval())
	}
	return d.RetryAfter
}

// forecast returns how long w has to wait at least, if no call ahead of it gives up.
func (l *Limiter) forecast(w *waiter, targets []target, n int64) (least time.Duration) {
	for i := range w.Places {
		if !l.isUnplaced(targets[i].key) {
			least = max(least, l.forecastAt(&w.Places[i], n, targets[i].leave))
		}
	}
	return least
}

// forecastAt returns how long the waiter of p, which is for n units that leave more units, has to wait for
// the key at least. When it is admitted, the units that it leaves could be charged at once, too. So the wait
// is at least the wait for them all.
//
// It counts the units ahead of p of waiters for this key alone: no other waiter is sure to be admitted
// first.
//
// Every Count units need one further window. So the wait is at least the wait for the
// first units, up to Count of them, and one window for each full Count that follows. Under a
// TokenBucket, it is the wait for the first Burst units, and for the others to flow in.
func (l *Limiter) forecastAt(p *queue.Place[string], n, leave int64) time.Duration {
	g, ahead := l.current.Load(), l.queues.Ahead(p)
	d, now := l.look(p.Key, query{n: n, leave: leave, certain: true})
	if ahead == 0 || d.RetryAfter == Never {
		return d.RetryAfter
	}
	least, rs := d.RetryAfter, l.rulesetOf(p.Key)
	for i := range rs.rules {
		r := &rs.rules[i]
		if r.held {
			continue // what is held may be given back now
		}
		if r.Count == 0 {
			return d.RetryAfter // it admits nothing: the limits have just changed
		}
		units := window.Plus(ahead, window.Plus(n, leave))
		first := r.firstOf(units)
		// The first units are admitted no earlier than they would be as one charge. A
		// counter may admit them earlier if they come one by one, and units flow into a bucket
		// while it waits for other limits, so there only now is certain.
		firstAt := now
		if !rs.weighted() && (r.algorithm.horizon().dated || len(rs.rules) == 1) {
			next, at := l.look(p.Key, query{n: first, certain: true})
			if next.RetryAfter != Never {
				firstAt = window.Plus(at, int64(next.RetryAfter))
			}
		}
		lastAt := max(r.readmitsAt(p.Key, firstAt, units-first), now)
		least = max(least, window.Wait(0, uint64(lastAt)-uint64(now)))
	}
	// The answer counts only if the same units are still ahead. If a waiter has been admitted since,
	// its units would count twice: as units ahead, and in the state of the key. And a Restore must not
	// have begun another timeline, on which now is another time.
	if l.queues.Ahead(p) != ahead || l.current.Load().overrides != g.overrides {
		return d.RetryAfter
	}
	return least
}

// firstOf returns how many of units r may admit without a further wait. The others are full
// Counts of units, or what has to flow into a bucket, which readmitsAt is for.
func (r *rule) firstOf(units int64) int64 {
	if !r.algorithm.horizon().dated {
		return min(units, r.Burst)
	}
	return (units-1)%r.Count + 1
}

// readmitsAt returns the earliest instant at which r can admit a unit for the key of that name, if the
// unit that came that many units before it is admitted at the given instant. Of units that are Count
// apart, the later one is admitted at least horizon.life later, in whole windows, ticks or parts.
func (r *rule) readmitsAt(name string, at, units int64) int64 {
	h := r.algorithm.horizon()
	if !h.dated {
		return window.Plus(at, int64(r.bucket.TimeFor(units)))
	}
	windows := units / r.Count
	if windows >= int64(Never)/h.life {
		return at // too far away to tell: a bound all the same
	}
	early := r.early(name)
	number, _ := window.Divide(window.Plus(at, early), h.resolution)
	number = window.Plus(number, windows*(h.life/h.resolution))
	if number > math.MaxInt64/h.resolution {
		return math.MaxInt64
	}
	return max(at, window.Plus(h.beginningOf(number), -early))
}

// rulesetOf returns the ruleset of the key of that name. If the key has no entry, that is
// the one under which it would get an entry now.
func (l *Limiter) rulesetOf(name string) *ruleset {
	g, e := l.lookup(l.key(name))
	if e == nil {
		return g.resolve(name).ruleset
	}
	return g.ruleset.of(e)
}
