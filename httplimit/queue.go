package httplimit

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/internal/queue"
	"github.com/seed-30da4c49/sash/internal/window"
)

// admitInTurn admits a call that may wait in a Queue. It blocks until the call is admitted, or is denied
// for good. If ctx ends before, the call is abandoned, and so denied.
//
// If the policies are replaced while the call waits, admitInTurn has charged nothing. The call is not in
// a section then, and must start over. It keeps its place, which is the number of its waiter. Then it is
// admitted in turn again, even without a Queue, so that it is not served if its client has gone.
func (c *call) admitInTurn(ctx context.Context) (d sash.Decision) {
	// Read the clock before each attempt, which reads it, too. If time passes between the two, the call
	// wakes early and tries again. If it read the clock afterwards, it would oversleep.
	clock, takes := clockOf(c.limiter), c.enforced
	now, yields := clock.Now(), mostToLeave(takes)

	// If none waits for its keys, try at once. If one does, only look: a new request must not overtake.
	waitedFor := slices.ContainsFunc(takes, func(t *take) bool { return t.queues() && c.waits.Claims(t.key, yields) })
	attempted := c.place == 0 && !waitedFor
	if attempted {
		if d = c.attempt(true); d.Allowed {
			return d
		}
	}
	if c.place == 0 {
		c.came = now
	}
	until := window.Plus(c.came, int64(leastWait(takes)))
	w := newWaiter(takes, c.place)
	w.Yields = yields // so it is behind all that leave less, however late these come
	c.waits.Enter(&w.Waiter)
	c.place = w.Number
	defer c.waits.Leave(&w.Waiter)
	if attempted {
		w.Wake() // units that were given back since then have not woken it
	}
	for {
		turn := attempted
		if !attempted {
			now = clock.Now()
			turn = c.waits.Begin(&w.Waiter, now)
			if d = c.attempt(turn); d.Allowed {
				break
			}
		}
		attempted = false

		// The call was denied, or it has not its turn. Is waiting of any use?
		if c.store != nil {
			now = clock.Now() // the wait that a store tells counts from its answer
		}
		soonest, useful := waitOf(ctx, takes, d, time.Duration(window.Plus(until, -now)))
		if turn && useful {
			c.waits.End(&w.Waiter, w.claims(c.denies))
		}
		if useful && w.Full == queue.Nowhere {
			select {
			case <-c.closing:
				c.err = http.ErrServerClosed
			default:
			}
		}
		if c.full = w.policyAt(w.Full); c.full != nil || !useful || c.err != nil {
			return c.refusal(w, d)
		}

		// A waiter that has its turn tries again when the first of the policies that deny it may admit
		// it. If the others still deny it then, it leaves the turn there to those behind it. A waiter
		// without a turn is woken when it may have one.
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
		c.undo()
		c.attempt(false)
	}
	return c.refusal(w, d)
}

// mostToLeave returns the most units that a request must leave under any of its takes with a Queue.
//
// One number orders a request in all its queues. With an order of its own in each queue, two requests could
// be behind each other, and neither would have its turn.
func mostToLeave(takes []*take) (most int64) {
	for _, t := range takes {
		if t.queues() {
			most = max(most, t.leave)
		}
	}
	return most
}

// waitOf returns when the first of the takes that deny a call may admit it, and whether waiting is of
// use: all that deny it have a Queue, and it may wait for as long as the last is sure to deny it. If none
// denies it by itself, together is the decision on all of them.
func waitOf(ctx context.Context, takes []*take, together sash.Decision, left time.Duration) (soonest time.Duration, useful bool) {
	soonest, last := sash.Never, time.Duration(0)
	if !anyDenies(takes) {
		if soonest, last = together.RetryAfter, together.RetryAfter; quota.IsHeld(together.Limit) {
			soonest, last = min(soonest, heldWait), 0 // units are back by now, or will be at any time
		}
	}
	for _, t := range takes {
		if !t.decision.Allowed {
			if !t.queues() {
				return 0, false
			}
			soonest, last = min(soonest, t.wait), max(last, t.sureWait)
		}
	}
	if deadline, ok := ctx.Deadline(); ok {
		left = min(left, time.Until(deadline))
	}
	return soonest, left > 0 && last <= left
}

// denies reports whether the take of p has denied the call. If none denies it by itself, all together do,
// but for those that were reserved before.
func (c *call) denies(p *policy) bool {
	together := !anyDenies(c.enforced)
	return slices.ContainsFunc(c.enforced, func(t *take) bool {
		return t.policy == p && (!t.decision.Allowed || together && !t.reserved)
	})
}

// refusal returns the decision that refuses the call of w, by the take that denies it for longest. If
// none does, it is latest, the decision on all together. Before the turn of w, the policy in whose queue
// others are before it denies it, for as short as can be.
func (c *call) refusal(w *waiter, latest sash.Decision) (d sash.Decision) {
	d.Allowed = true
	for _, t := range c.enforced {
		if own := &t.decision; !own.Allowed && (d.Allowed || own.RetryAfter > d.RetryAfter) {
			d = *own
		}
	}
	switch {
	case !d.Allowed:
	case len(c.enforced) == 0: // its policies were taken away, and its client has gone
		d.Allowed, d.RetryAfter = false, 1
	case w.Behind == queue.Nowhere && !latest.Allowed:
		d = latest
	default:
		c.behind = w.policyAt(w.Behind)
		d = c.decidingTake(&d).decision
		d.Allowed, d.RetryAfter = false, 1
	}
	return d
}

// clockOf returns the clock of l, or the clock that measures time under a store if there is no l.
func clockOf(l *sash.Limiter) sash.Clock {
	if l == nil {
		return sash.SystemClock()
	}
	return l.Clock()
}

// sleep blocks until w is woken, or clock shows an instant, or ctx ends, outside of a section. If the
// policies are replaced in that time, it reports false, and the call is not in a section any more.
func (c *call) sleep(ctx context.Context, clock sash.Clock, w *waiter, at int64) bool {
	c.end()
	if c.store != nil {
		// Nothing wakes it for now, so that no answer makes it ask all the time. A wake-up is kept.
		const pause = int64(time.Millisecond)
		blockUntil(ctx, clock, window.Plus(clock.Now(), pause), nil, nil)
	}
	blockUntil(ctx, clock, at, w.Woken(), c.closing)
	return c.begin()
}

// blockUntil blocks until clock shows an instant, or there is something in wake, or closing is closed, or
// ctx ends. A channel may be nil.
func blockUntil(ctx context.Context, clock sash.Clock, at int64, wake, closing <-chan struct{}) {
	due, stop := internals.After(clock, at)
	defer stop()
	select {
	case <-due:
	case <-wake:
	case <-closing:
	case <-ctx.Done():
	}
}

// A waiter is a request that waits instead of being refused. It has a place for each of its policies with
// a Queue. It is in the Queue while it claims everything there. If it is denied in its turn, it claims
// everything of the policies that deny it. Under the others, later waiters may go first.
//
// No waiter starves by that. Once it was overtaken under a policy, it insists there: it keeps its turn
// while only faster policies deny it. A waiter that insists gets what it needs of its slowest policy
// first, keeps that, and so on to the fastest.
type waiter struct {
	queue.Waiter[string]
	stands []stand // of its places
}

// A stand is how a waiter has fared under one policy.
type stand struct {
	*policy
	yielded   bool // whether the policy has admitted the waiter when another one denied it
	overtaken bool // whether the policy has denied it after that
}

// newWaiter returns a waiter of takes. number is the Number of the waiter that it replaces; 0: none.
func newWaiter(takes []*take, number int64) *waiter {
	w := &waiter{Waiter: queue.Waiter[string]{Number: number}}
	keys, clients := make([]string, len(takes)), []string(nil) // under all policies; under those that tell clients apart
	for i, t := range takes {
		keys[i] = strings.Clone(t.key)
		if !t.everyone {
			clients = append(clients, keys[i])
		}
	}
	for i, t := range takes {
		if t.queues() {
			p := queue.Place[string]{Key: keys[i]}
			p.Bounds = t.policy.bounds(p.Key, clients)
			w.Places, w.stands = append(w.Places, p), append(w.stands, stand{policy: t.policy})
		}
	}
	return w
}

// bounds returns the bounds of a request in the Queue of p, where key is its key under p, and clients are
// its keys under the policies that tell clients apart. The places of each of these keys are counted.
//
// They are counted by the policy itself, for all its plans, and not by its name. Requests that have the policies of before a Reconfigure
// start over one after the other, and those that still wait do not take the places of the first.
func (p *policy) bounds(key string, clients []string) []queue.Bound {
	type of struct {
		policy *policy
		key    string
	}
	bounds := []queue.Bound{{Of: p.whole, Most: p.Queue.Requests}}
	if p.Queue.RequestsEach > 0 {
		bounds = append(bounds, queue.Bound{Of: of{p.whole, key}, Most: p.Queue.RequestsEach})
	}
	perClient := cmp.Or(p.Queue.RequestsPerClient, p.Queue.Requests-p.Queue.Requests/2)
	for _, client := range clients {
		if client != key { // RequestsEach is its bound
			bounds = append(bounds, queue.Bound{Of: of{p.whole, client}, Most: perClient})
		}
	}
	return bounds
}

// policyAt returns the policy of a place of w; nil if it is Nowhere.
func (w *waiter) policyAt(place int) *policy {
	if place == queue.Nowhere {
		return nil
	}
	return w.stands[place].policy
}

// claims returns what w claims after a denial in its turn.
func (w *waiter) claims(denies func(*policy) bool) []queue.Claim {
	claims := make([]queue.Claim, len(w.stands))
	for i := range w.stands {
		s := &w.stands[i]
		if denies(s.policy) {
			s.overtaken = s.yielded
		} else if s.yielded = true; !w.insists(s, denies) {
			continue
		}
		claims[i].Units = queue.Everything
	}
	return claims
}

// insists reports whether w holds up others under the policy of s, which admits it: it was overtaken
// there, and only faster policies deny it.
func (w *waiter) insists(s *stand, denies func(*policy) bool) bool {
	return s.overtaken && !slices.ContainsFunc(w.stands, func(other stand) bool {
		return denies(other.policy) && !s.slower(other.policy)
	})
}

// slower reports whether p, by longer windows or lower limits, comes before other.
func (p *policy) slower(other *policy) bool {
	return cmp.Or(
		cmp.Compare(other.pace.Window, p.pace.Window),
		cmp.Compare(p.pace.Count, other.pace.Count),
		cmp.Compare(p.number, other.number)) < 0
}
