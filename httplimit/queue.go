package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A Queue lets requests wait that a [Policy] denies. A request waits until all its policies
// admit it, and then goes on as if it had come then.
//
// Requests of one identity are admitted in the order in which they came, and a new one does
// not overtake those that wait. If several policies have a Queue, a request waits only under those
// that deny it. It holds up others under a policy only as long as that denies it: when the policy
// admits it, and another one does not, others go first there. If the policy then denies it again,
// the request was overtaken, and may wait longer. So that it does not wait for ever, it is
// overtaken there once; after that, it holds up others there until faster policies admit it, too.
// A request is refused at once if
//
//   - a policy without a Queue denies it,
//   - its wait is sure to last longer than Wait, or than its context has left,
//   - or the queue is full.
//
// A request that is denied after it has waited is answered like any other denial. Under several
// policies with a Queue, it waits for the least Wait of them.
//
// A request that waits gives up when its context ends, which mostly means that the client has
// hung up. Its Outcome is Abandoned, and it is charged nothing. The server of net/http notices
// that an HTTP/1 client has hung up once the request's body was read; a request with a body may
// wait, and be served, without its client. The time of waiting counts towards the WriteTimeout of
// an [http.Server]: after that, a request that has waited is charged, and its client gets no
// answer. So the timeout should be longer than Wait. [http.Server.Shutdown] waits for requests that
// wait, unless [Limiter.Close] ends their waiting. A [Limiter.Reconfigure] to policies without a Queue
// ends their waiting, too: each of them is then admitted or denied at once.
//
// A request that waits costs its goroutine, its connection, and about 2 kB. It learns at once of
// units that are given back after a response. It does not learn of units that come back by the
// methods of [Limiter.Sash], and tries again when it would have been admitted without them. Each
// time that it tries, the function of sash.WithObserver is called, and a store is asked. Between
// two times that it asks a store there is at least a millisecond.
type Queue struct {
	// Wait is for how long a request waits at most. With 0, the default, none waits.
	Wait time.Duration
	// Requests is how many requests wait at a time, at least 1: those of all identities
	// together.
	Requests int
	// RequestsEach is how many requests of one identity wait at a time. With 0, the default,
	// there is no bound but Requests, so one client can fill the queue.
	RequestsEach int
	// RequestsPerClient is how many requests of one client wait at a time in a queue that clients
	// share, such as one of a policy for [Everyone]. A client is an identity under any other policy
	// of the request, with or without a Queue; shadows and Everyone do not count. The default, 0,
	// is half of Requests, rounded up. To set no bound, set it to Requests.
	//
	// If no other policy tells clients apart, one client can fill the queue. A policy by which all
	// is admitted tells them apart and costs no memory: its limit is [sash.Unlimited].
	RequestsPerClient int
}

// faults calls fault for each fault of q.
func (q *Queue) faults(fault func(wrapped error, format string, args ...any)) {
	if q.Wait < 0 {
		fault(sash.ErrInvalidOption, "Queue: Wait must not be negative, got %v", q.Wait)
	}
	if q.Wait > 0 && q.Requests < 1 {
		fault(sash.ErrInvalidOption, "Queue: Requests must be at least 1 if there is a Wait, got %d", q.Requests)
	}
	if q.Wait == 0 && (q.Requests != 0 || q.RequestsEach != 0 || q.RequestsPerClient != 0) {
		fault(sash.ErrInvalidOption, "Queue: Wait must be more than 0 if Requests, RequestsEach or RequestsPerClient is set")
	}
	if q.RequestsEach < 0 {
		fault(sash.ErrInvalidOption, "Queue: RequestsEach must not be negative, got %d", q.RequestsEach)
	}
	if q.RequestsPerClient < 0 {
		fault(sash.ErrInvalidOption, "Queue: RequestsPerClient must not be negative, got %d", q.RequestsPerClient)
	}
}

// perClient returns RequestsPerClient, or its default.
func (q *Queue) perClient() int {
	if q.RequestsPerClient > 0 {
		return q.RequestsPerClient
	}
	return q.Requests - q.Requests/2
}

// checkQueues records that a Queue does not work with an option.
func (c *config) checkQueues() {
	queued := slices.ContainsFunc(c.policies, func(p Policy) bool { return p.Queue.Wait > 0 })
	chargesDenied := slices.ContainsFunc(c.forSash, func(o sash.Option) bool {
		return o != nil && internals.Inspect([]sash.Option{o}).ChargeDenied
	})
	if queued && chargesDenied {
		c.fault("WithSash: sash.WithChargeDenied does not work with a Queue: a request that waits would be charged for each attempt")
	}
}

// queues reports whether a request that p denies may wait. A shadow denies none.
func (p *policy) queues() bool { return p.Queue.Wait > 0 && !p.Shadow }

// An admission decides a call: in this process, or by a store.
type admission interface {
	// attempt charges all enforced takes of the call, or none. If it charges none, it sets
	// the decision of each of them.
	attempt() sash.Decision
	// look sets the decision of each enforced take, and charges nothing.
	look()
	// undo gives back what attempt has charged a call that has waited.
	undo()
}

// admitInTurn admits a call under policies of which some have a Queue. It blocks until the call
// is admitted, or is denied for good. If ctx ends before, the call is abandoned: it is denied, too.
//
// If the policies are replaced while the call waits, admitInTurn returns, and has charged
// nothing. The call is not in a section then, and must start over. It keeps its place: that is the
// number of its waiter, by which queues are ordered. Then it is admitted in turn again, even if none
// of its new policies has a Queue, so that it is not served if its client has gone.
func (c *call) admitInTurn(ctx context.Context, a admission) (d sash.Decision) {
	// Read the clock before each attempt, which reads it, too. If time passes between the two, the
	// call wakes early and tries again. Read afterwards, it would oversleep, and on a clock that is
	// not moved again it would never wake.
	clock, takes := c.waitClock(), c.takes[:c.enforced]
	now := clock.Now()

	// If none waits for its keys, try at once. If one does, only look: a new request must not
	// overtake.
	attempted := c.place == 0 && !c.waits.waitsFor(takes)
	if attempted {
		if d = a.attempt(); d.Allowed {
			return d
		}
	}
	if c.place == 0 {
		c.came = now
	}
	until := window.Plus(c.came, int64(leastWait(takes)))
	w := c.waits.newWaiter(takes, c.place)
	c.place = w.number
	defer c.waits.leave(w)
	for {
		turn := attempted
		if !attempted {
			now = clock.Now()
			if turn = c.waits.beginAttempt(w); !turn {
				d = sash.Decision{} // that of an earlier attempt holds no more
				a.look()
			} else if d = a.attempt(); d.Allowed {
				break
			}
		}
		attempted = false

		// The call was denied, or it has not its turn. Is waiting of any use?
		if c.store != nil {
			now = clock.Now() // the wait that a store tells counts from its answer
		}
		soonest, useful := waitOf(ctx, takes, d.RetryAfter, time.Duration(window.Plus(until, -now)))
		if turn && useful {
			c.waits.endAttempt(w, c.denies)
		}
		if useful && w.full == nil && isClosed(c.closing) {
			c.err = http.ErrServerClosed
		}
		if c.full = w.full; c.full != nil || !useful || c.err != nil {
			return c.refusal(w, d)
		}

		// A waiter that has its turn tries again when the first of the policies that deny it may
		// admit it. If the others still deny it then, it leaves the turn there to those behind it.
		// A waiter without a turn is woken when it may have one.
		at := until
		if turn {
			at = min(at, window.Plus(now, int64(soonest)))
		}
		c.slept = true
		stays := c.sleep(ctx, clock, w, at)
		c.waited = max(time.Duration(clock.Now()-c.came), 0) // a clock may go back
		if !stays {
			return d
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() == nil || d.Allowed && !c.slept {
		return d
	}
	// There is no client any more to be served. Give back what was charged in the meantime.
	if c.abandoned = true; d.Allowed {
		a.undo()
		a.look()
	}
	return c.refusal(w, d)
}

// waitOf returns when the first of the takes that deny a call may admit it, and whether waiting is
// of any use: whether all that deny it have a Queue, and it may wait until the last admits it. If
// none of them denies it by itself, together is how long they deny it together.
func waitOf(ctx context.Context, takes []take, together, left time.Duration) (soonest time.Duration, useful bool) {
	soonest, last := sash.Never, time.Duration(0)
	if !anyDenies(takes) {
		soonest, last = together, together
	}
	for i := range takes {
		if t := &takes[i]; !t.decision.Allowed {
			if !t.queues() {
				return 0, false
			}
			soonest, last = min(soonest, t.decision.RetryAfter), max(last, t.decision.RetryAfter)
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return soonest, left > 0 && last <= left
}

// denies reports whether the take of an enforced policy has denied the call. If none of them
// denies it by itself, all together do, but for those that were reserved before.
func (c *call) denies(p *policy) bool {
	takes := c.takes[:c.enforced]
	together := !anyDenies(takes)
	return slices.ContainsFunc(takes, func(t take) bool {
		return t.policy == p && (!t.decision.Allowed || together && !t.reserved)
	})
}

// anyDenies reports whether one of takes denies the call by itself. None does if there is room in
// the table for each of their keys, but not for all, or if they were asked later than all together.
func anyDenies(takes []take) bool {
	return slices.ContainsFunc(takes, func(t take) bool { return !t.decision.Allowed })
}

// refusal returns the decision that refuses the call of w: that of the take that denies it for
// longest. If none does, it is latest, the decision on all together. Before the turn of w, the
// policy in whose queue others are before it denies it, for as short as can be.
func (c *call) refusal(w *waiter, latest sash.Decision) (d sash.Decision) {
	takes := c.takes[:c.enforced]
	d.Allowed = true
	for i := range takes {
		if own := &takes[i].decision; !own.Allowed && (d.Allowed || own.RetryAfter > d.RetryAfter) {
			d = *own
		}
	}
	switch {
	case !d.Allowed:
	case len(takes) == 0: // its policies were taken away, and its client has gone
		d.Allowed, d.RetryAfter = false, 1
	case w.behind == nil && !latest.Allowed:
		d = latest
	default:
		c.behind = w.behind
		d = c.decidingTake(&d).decision
		d.Allowed, d.RetryAfter = false, 1
	}
	return d
}

// mayWait reports whether the call may wait, if a policy denies it.
func (c *call) mayWait() bool {
	return slices.ContainsFunc(c.takes[:c.enforced], func(t take) bool { return t.queues() })
}

// leastWait returns the least Wait of the policies of takes with a Queue; 0 if there are none.
func leastWait(takes []take) (least time.Duration) {
	for i := range takes {
		if t := &takes[i]; t.queues() && (least == 0 || t.Queue.Wait < least) {
			least = t.Queue.Wait
		}
	}
	return least
}

// attempt is that of an admission in this process.
func (c *call) attempt() (d sash.Decision) {
	takes := c.takes[:c.enforced]
	for i := range takes {
		t := &takes[i]
		t.reserved, t.reservation, t.nextKnown = false, sash.Reservation{}, false
	}
	d.Allowed = true
	if c.slept {
		c.reserveByCost(takes, &d) // its client may have gone: then it is undone
	} else {
		c.admit(&d)
	}
	if !d.Allowed {
		c.decideEach(&d)
	}
	return d
}

// look is that of an admission in this process.
func (c *call) look() {
	for i := range c.takes[:c.enforced] {
		c.takes[i].peekOwn(c.limiter, false)
	}
}

// undo is that of an admission in this process.
func (c *call) undo() { c.cancelAll(c.takes[:c.enforced]) }

// waitClock returns the clock that measures how long requests wait.
func (l *Limiter) waitClock() sash.Clock {
	if l.store != nil {
		return sash.SystemClock()
	}
	return l.limiter.Clock()
}

// sleep blocks until w is woken, or clock shows an instant, or ctx ends. It does so outside of a
// section, so that the policies can be replaced meanwhile. If they were, it reports false, and the
// call is not in a section any more.
func (c *call) sleep(ctx context.Context, clock sash.Clock, w *waiter, at int64) bool {
	within := c.within // not if a store decides: then policies are not replaced
	if within {
		c.end()
	}
	if c.store != nil {
		// Nothing wakes it for now. A wake-up is kept.
		blockUntil(ctx, clock, window.Plus(clock.Now(), int64(storePause)), nil, nil, nil)
	}
	blockUntil(ctx, clock, at, w.wake, c.replaced, c.closing)
	return !within || c.begin()
}

// storePause is for how long a request waits at least between two times that it asks a store. So
// no answer makes it ask all the time, not even one that says another thing each time.
const storePause = time.Millisecond

// blockUntil blocks until clock shows an instant, or there is something in wake, or replaced or
// closing is closed, or ctx ends. A channel may be nil.
func blockUntil(ctx context.Context, clock sash.Clock, at int64, wake, replaced, closing <-chan struct{}) {
	due, stop := internals.After(clock, at)
	defer stop()
	select {
	case <-due:
	case <-wake:
	case <-replaced:
	case <-closing:
	case <-ctx.Done():
	}
}

// isClosed reports whether c, on which nothing is sent, is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
