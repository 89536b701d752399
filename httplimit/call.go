package httplimit

import (
	"context"
	"crypto/aes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A call is the state of one request in a limiter. Calls are pooled with the buffers that they have
// grown. One goroutine at a time owns a call.
type call struct {
	*Limiter
	*table                       // of the limiter when the call began, or started over
	stripe   *atomic.Int64       // at which it counts itself while it is in a section
	within   bool                // whether it is in a section
	takes    []*take             // of the enforced policies, then of the shadows; they stay with c
	enforced []*take             // the former of these
	allowed  bool                // whether these admit it
	together sash.Decision       // on several of them, if there is one
	keys     []byte              // keys of all takes, one after the other
	identity []byte              // of the latest take
	mac      [aes.BlockSize]byte // of a fingerprint; here, as it would escape
	names    []string
	buffer   fields.Buffer
	running  *policy         // policy whose functions are running; nil: none
	ctx      context.Context // of the request
	missed   []missed        // shadows that could not decide it, to be reported
	reserves bool            // whether any reservation was made, which may still be open
	onTerms  bool            // whether any take must leave units, or is to tell which limits it crosses
	terms    []bridge.Terms  // of the takes, in the order of names
	decided  uint64          // number of requests so far that had this call

	waiting
}

// Waiting is how a call has waited. It is zero if it has not.
type waiting struct {
	came      int64         // instant at which it began to wait
	place     int64         // number of its waiter, by which it waits again when it starts over; 0: none
	slept     bool          // whether its charges may be undone, as it has waited
	waited    time.Duration // in queues
	abandoned bool          // whether its context has ended there
	full      *policy       // whose queue had no room for it; nil: none
	err       error         // why it must not wait; nil: it may
	behind    *policy       // in whose queue others were before it, if that alone has refused it; nil: none
}

// A missed is a shadow that could not decide a call.
type missed struct {
	*policy
	outcome Outcome // Unidentified or Failed
}

// release returns c to the pool. The keys of its takes must not be used afterwards. What it does not
// clear refers only to the limiter's own policies, the call's own keys, and some text of headers.
func (c *call) release() {
	c.ctx = nil
	const maxBuffer = 4 << 10 // bytes; a huge header must not occupy memory for good
	if cap(c.keys) > maxBuffer || cap(c.identity) > maxBuffer {
		return
	}
	c.waiting = waiting{}
	c.clear()
	c.calls.Put(c)
}

// clear takes all takes away from c. It zeroes them, so that they can be used again and keep nothing alive.
func (c *call) clear() {
	for _, t := range c.takes {
		*t = take{}
	}
	c.takes, c.enforced, c.missed = c.takes[:0], nil, nil
	c.keys, c.names = c.keys[:0], c.names[:0]
	c.onTerms, c.reserves = false, false
}

// startOver makes c a call with the limiter's table as it is now, without any takes.
func (c *call) startOver() {
	c.table = c.Limiter.table.Load()
	c.clear()
}

// begin begins a section, or reports false if the limiter has another table: the call must start over.
func (c *call) begin() bool { return c.tryBegin() || c.beginLater() }

// tryBegin counts c, and then begins a section if it can.
func (c *call) tryBegin() bool {
	c.stripe.Add(1) // before the load: a Reconfigure that closes the sections after it waits for c
	c.within = c.sections.opened.Load() == c.table
	return c.within
}

// beginLater is begin if the sections were closed, or the table was replaced.
func (c *call) beginLater() bool {
	const rounds = 10 // a Reconfigure may close the sections several times until its table is published
	for range rounds {
		// Reconfigure waits until c is counted no more. Only then does it open the sections again.
		c.stripe.Add(-1)
		c.sections.reopened.RLock()
		//lint:ignore SA2001 nothing is to be done while they are open
		c.sections.reopened.RUnlock()
		if c.Limiter.table.Load() != c.table {
			return false
		}
		if c.tryBegin() {
			return true
		}
	}
	c.stripe.Add(-1)
	return false
}

// end ends the section.
func (c *call) end() {
	c.within = false
	c.stripe.Add(-1)
}

// maxIdentity is the length in bytes up to which a key holds the identity. The key of a longer one holds
// its digest, so that a client cannot fill the memory with a few requests.
const maxIdentity = 128

// appendKey appends to keys the key of r under p, and returns the index at which the identity begins. The
// KeyFunc appends to a buffer of its own, so that it cannot forge the key of another policy.
func (c *call) appendKey(p *policy, r *http.Request) (body int, ok bool) {
	if c.identity, ok = p.Key(c.identity[:0], r); !ok {
		return 0, false
	}
	identity, prefix := c.identity, uint64(p.number)<<1
	if len(identity) > maxIdentity { // the call keeps the identity itself, for events
		digest := sha256.Sum256(identity)
		identity, prefix = digest[:], prefix|1
	}
	c.keys = binary.AppendUvarint(c.keys, prefix)
	body = len(c.keys)
	c.keys = append(c.keys, identity...)
	return body, true
}

// fingerprint returns the CBC-MAC of t's identity, by AES with a secret key. Without the key, an identity
// cannot be told from it, not even by trying all addresses. With the length first, it is pseudorandom for
// messages of any length. A fast seeded hash can be inverted, and a digest takes several times as long.
func (c *call) fingerprint(t *take) uint64 {
	mac, rest := c.mac[:], c.keys[t.body:t.end]
	clear(mac)
	begin := binary.PutUvarint(mac, uint64(len(rest)))
	rest = rest[copy(mac[begin:], rest):]
	c.secret.Encrypt(mac, mac)
	for len(rest) > 0 {
		rest = rest[subtle.XORBytes(mac, mac, rest):] // of the last block, what is missing is zeros
		c.secret.Encrypt(mac, mac)
	}
	return binary.BigEndian.Uint64(mac)
}

// A take is one policy's share of a call.
type take struct {
	*policy
	begin, body, end int    // bounds of the key in keys; its identity begins at body
	key              string // set once keys is complete
	longIdentity     string // the identity if the key has only its digest, and events may contain it
	cost             int64
	leave            int64         // units that must remain after it, at least 0
	holds            bool          // whether the limits of its key hold units, when it was last charged
	crossed          []sash.Limit  // limits that its charge has crossed, if its policy has a Near
	decision         sash.Decision // its own, whatever the others say
	quota            *quota.Quota  // the quota that has decided
	ownQuota         bool          // whether quota is one of the policy's
	next             sash.Decision // on one unit more than remaining, which leaves as much
	nextKnown        bool          // whether next is set
	remaining        int64         // units left now, above those that must remain
	decided          bool          // whether decision is set
	wait             time.Duration // for which decision denies it, as clients are told
	sureWait         time.Duration // for which it does at least
	reservation      reservation   // that is still open
	reserved         bool          // whether the latest attempt has made a reservation
	storedKey        string        // in a store; set once that is asked
	by               string        // what has decided, as in StoreDecision.By
	err              error         // why the store has not decided; nil: it has
}

// peekNext sets now to the decision on no unit, remaining by that, and next to the decision on one unit more.
func (t *take) peekNext(l *sash.Limiter, now *sash.Decision) {
	if t.leave > 0 {
		*now, t.next = internals.NextLeaving(l, t.key, t.leave)
	} else {
		*now, t.next = l.TakeThenPeek(t.key, 0)
	}
	t.setRemaining(now)
	t.nextKnown = true
}

// setRemaining sets remaining by what d, a decision on the key of t, says that is left.
func (t *take) setRemaining(d *sash.Decision) { t.remaining = max(d.Remaining-t.leave, 0) }

// findNext sets next, for a decision that was set without it.
func (t *take) findNext(l *sash.Limiter) {
	if !t.decision.Allowed && t.cost == t.remaining+1 {
		t.next, t.nextKnown = t.decision, true
	} else {
		var now sash.Decision
		t.peekNext(l, &now)
	}
}

// leastQuota returns the quota with the least left: it denies one unit more than remains. Another one may
// have decided, as a request of several units may wait longer for a quota with more left.
func (t *take) leastQuota() (q *quota.Quota) {
	if q = t.quota; t.next.Limit != q.Limit {
		q, _ = t.quotaOf(t.next.Limit)
	}
	return q
}

// heldWait is after what time to ask again for units that others hold, which may come back at any time.
const heldWait = time.Second

// waitOf returns for how long a call is told to wait for n units of the key of t that d denies, and for how
// long it has to wait at least. The two differ where units are held. With a store, l is nil.
func (t *take) waitOf(l *sash.Limiter, d *sash.Decision, n int64) (told, least time.Duration) {
	return waitFor(l, d, t.key, n, t.leave)
}

// waitFor is take.waitOf for n units of a key, which must leave more units.
func waitFor(l *sash.Limiter, d *sash.Decision, key string, n, leave int64) (told, least time.Duration) {
	if d.Allowed || d.RetryAfter == sash.Never || !quota.IsHeld(d.Limit) {
		return d.RetryAfter, d.RetryAfter
	}
	if l != nil { // a store does not tell
		least = internals.SureWait(l, key, n, leave)
	}
	return min(d.RetryAfter, max(least, heldWait)), least
}

// setWait sets for how long decision denies t.
func (t *take) setWait(l *sash.Limiter) {
	t.wait, t.sureWait = t.decision.RetryAfter, t.decision.RetryAfter
	if t.decision.Limit.Algorithm == sash.Concurrency { // else there is nothing more to ask, as mostly
		t.wait, t.sureWait = t.waitOf(l, &t.decision, t.cost)
	}
}

// setNextWait makes the wait of next what clients are told.
func (t *take) setNextWait(l *sash.Limiter) {
	if t.next.Limit.Algorithm == sash.Concurrency {
		t.next.RetryAfter, _ = t.waitOf(l, &t.next, t.remaining+1)
	}
}

// unlimited reports whether the key of t has no quota.
func (t *take) unlimited() bool { return quota.IsUnlimited(t.decision.Limit) }

// scarcer reports whether t denies for longer than u or, if they deny for equally long, has less left.
func (t *take) scarcer(u *take) bool {
	longer := t.wait - u.wait
	return longer > 0 || longer == 0 && t.remaining < u.remaining
}

// anyDenies reports whether one of takes denies the call by itself. None does if there is room in the
// table for each of their keys, but not for all, or if they were asked later than all together.
func anyDenies(takes []*take) bool {
	return slices.ContainsFunc(takes, func(t *take) bool { return !t.decision.Allowed })
}

// leastWait returns the least Wait of the policies of takes with a Queue; 0 if there are none.
func leastWait(takes []*take) (least time.Duration) {
	for _, t := range takes {
		if t.queues() && (least == 0 || t.Queue.Wait < least) {
			least = t.Queue.Wait
		}
	}
	return least
}
