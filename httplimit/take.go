package httplimit

import (
	"context"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
)

// A take is one policy's share of a call.
type take struct {
	*policy
	begin, body, end int    // bounds of the key in keys; its identity begins at body
	key              string // set once keys is complete
	longIdentity     string // the identity if the key has only its digest, and events may contain it
	cost             int64
	decision         sash.Decision // its own, whatever the others say
	quota            *quota.Quota  // the quota that has decided
	ownQuota         bool          // whether quota is one of the policy's
	next             sash.Decision // on one unit more than remains
	nextKnown        bool          // whether next is set
	remaining        int64         // units left now
	decided          bool          // whether decision is set
	reservation      reservation
	reserved         bool   // whether the latest attempt has made a reservation
	storedKey        string // in a store; set once that is asked
	by               string // what has decided, as in StoreDecision.By
	err              error  // why the store has not decided; nil: it has
}

// A reservation is a charge that may be changed once. The zero reservation is none.
type reservation struct {
	here   sash.Reservation
	stored func(ctx context.Context, actual int64) error // nil: it is in this process
}

// commit changes the charge to that many units. Only a store returns an error, and is told even if ctx has
// ended, as the client may be gone.
func (r *reservation) commit(ctx context.Context, units int64) error {
	if r.stored != nil {
		return r.stored(context.WithoutCancel(ctx), units)
	}
	r.here.Commit(units)
	return nil
}

// copyIdentity returns a copy of the identity of t, since the memory of keys is reused.
func (t *take) copyIdentity() string {
	if t.longIdentity != "" {
		return t.longIdentity
	}
	return strings.Clone(t.key[t.body-t.begin:])
}

// look sets t's own decision, and charges nothing.
func (t *take) look(l *sash.Limiter) {
	t.peekNext(l)
	t.decision, t.decided = l.Peek(t.key, t.cost), true
}

// lookBack sets t's own decision after a charge to several policies. Whatever others have charged to
// the key since, the call was admitted.
func (t *take) lookBack(l *sash.Limiter) {
	t.decision, t.decided = t.peekNext(l), true
	t.decision.Allowed, t.decision.RetryAfter = true, 0
}

// peekNext sets remaining, and next to the decision on one unit more. It returns the
// decision on no unit.
func (t *take) peekNext(l *sash.Limiter) (now sash.Decision) {
	now, t.next = l.TakeThenPeek(t.key, 0)
	t.nextKnown, t.remaining = true, now.Remaining
	return now
}

// findNext sets next, for a decision that was set without it.
func (t *take) findNext(l *sash.Limiter) {
	if !t.decision.Allowed && t.cost == t.remaining+1 {
		t.next, t.nextKnown = t.decision, true
	} else {
		t.peekNext(l)
	}
}

// leastQuota returns the quota with the least left: it denies one unit more than remains. The quota
// that has decided may be another one, since a request of several units may wait longer for a quota with
// more left.
func (t *take) leastQuota() (q *quota.Quota) {
	if q = t.quota; t.next.Limit != q.Limit {
		q, _ = t.quotaOf(t.next.Limit)
	}
	return q
}

// unlimited reports whether the key of t has no quota.
func (t *take) unlimited() bool { return quota.IsUnlimited(t.decision.Limit) }

// scarcer reports whether t denies for longer than u or, if they deny for equally long, has less left.
func (t *take) scarcer(u *take) bool {
	longer := t.decision.RetryAfter - u.decision.RetryAfter
	return longer > 0 || longer == 0 && t.remaining < u.remaining
}

// anyDenies reports whether one of takes denies the call by itself. None does if there is room in
// the table for each of their keys, but not for all, or if they were asked later than all together.
func anyDenies(takes []take) bool {
	return anyOf(takes, func(t *take) bool { return !t.decision.Allowed })
}

// anyOf reports whether one of takes has a property.
func anyOf(takes []take, has func(*take) bool) bool {
	for i := range takes {
		if has(&takes[i]) {
			return true
		}
	}
	return false
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

// costIsNew reports whether no take before the one of index i has its cost.
func costIsNew(takes []take, i int) bool {
	return !anyOf(takes[:i], func(t *take) bool { return t.cost == takes[i].cost })
}
