package sash

import (
	"container/list"
	"math"
	"strings"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A waitQueues holds the waiters: the calls of Wait, WaitAll and WaitReserve that block.
// Each key that is waited for has a queue. A waiter has a place in the queue of each of
// its keys. Only a waiter whose turn it is in all its queues charges.
//
// A place has a claim: the units that the waiters behind it in the queue must leave.
//   - A waiter claims everything of the key that admits it last. So the waiters behind it
//     have no turn there: they are admitted in their order, and need no timer. This is all
//     that happens to waiters of one key.
//   - Of each other key a waiter claims the units that it waits for, and those only from
//     the instant on from which a charge may still count when the last key admits it.
//     Until then, and as long as the claim is left, waiters behind it go first.
//   - A waiter without a turn at one of its keys claims nothing of the others. The waiters
//     before it may need hours. Those behind it at another key do not wait for them.
//
// Of several claims to a key the greatest must be left, not the sum: however many waiters
// one full key has, they do not use up their other keys. No waiter starves by that. The
// waiters before it are finite in number, so it gets its turn. During its turn, a key that
// admits it goes on to do so until an earlier waiter, or a call that does not wait, is charged.
//
// A waiter depends only on waiters that came before it. So none waits in a circle, and the
// wake-ups that follow from one come to an end.
//
// A waiter calls beginAttempt, tries to charge if it has its turn, and then calls
// endAttempt if it was not admitted, or dequeue. Then it sleeps. It has a timer only if it
// has its turn; otherwise it is woken.
//
// Invariant:
//   - A key has a queue only while a waiter is in it. Two waiters that share several keys
//     are in the same order in each of the queues: the order in which they came.
//   - While a waiter tries to charge, its units are not in waitQueue.units. So no unit is
//     counted both there and in the state of the key.
//   - A place that is left, or whose claim shrinks, wakes all waiters for which this may
//     make a difference.
//
// mu guards all fields but total.
type waitQueues struct {
	total atomic.Int64 // number of waiters: while it is 0, no other call needs the lock
	mu    sync.Mutex
	byKey map[string]*waitQueue
}

// A waitQueue is the queue of one key.
type waitQueue struct {
	places  list.List // of *place
	units   uint64    // the units of all waiters of this key alone that are not trying to charge
	version int       // how often units were taken out or put back
}

// A waiter is one call in the queues of its keys.
type waiter struct {
	n       int64         // the units to be charged
	places  []place       // in the order of its targets
	readyAt int64         // the instant before which it is not admitted, by its last attempt
	blocked *place        // where it had no turn in its last attempt; nil: nowhere, or it tries
	trying  bool          // whether the waiter is trying to charge
	wake    chan struct{} // of capacity 1: a wake-up is kept until the waiter sleeps
}

// A place is that of a waiter in one queue.
type place struct {
	*waiter
	key     string
	queue   *waitQueue
	element *list.Element
	ahead   int64 // waitQueue.units when the waiter was enqueued
	version int   // waitQueue.version at that time

	claim int64 // the units that waiters behind it must leave
	from  int64 // the instant from which they must

	// The result of the last look at the key, which belongs to the waiter's goroutine.
	admitsAt int64 // the instant at which the key admits the waiter; MinInt64 if it does
	memory   int64 // how long a charge to the key may count, in nanoseconds
}

// everything is the claim of a place that no waiter behind it may overtake.
const everything = math.MaxInt64

// notify wakes w, or makes its next sleep end at once.
func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// waiting reports whether a call waits for key.
func (q *waitQueues) waiting(key string) bool {
	if q.total.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byKey[key] != nil
}

// waitingForAny reports whether a call waits for any of targets.
func (q *waitQueues) waitingForAny(targets []target) bool {
	for i := range targets {
		if q.waiting(targets[i].name) {
			return true
		}
	}
	return false
}

// enqueue appends a waiter for n units to the queues of targets, in one step.
func (q *waitQueues) enqueue(targets []target, n int64) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey == nil {
		q.byKey = map[string]*waitQueue{}
	}
	w := &waiter{n: n, places: make([]place, len(targets)), readyAt: math.MinInt64, wake: make(chan struct{}, 1)}
	for i := range targets {
		name := strings.Clone(targets[i].name)
		queue := q.byKey[name]
		if queue == nil {
			queue = new(waitQueue)
			q.byKey[name] = queue
		}
		// Read what is ahead before the units of w are added. The version tells later
		// whether it still is ahead.
		p := &w.places[i]
		*p = place{waiter: w, key: name, queue: queue, version: queue.version, from: math.MinInt64}
		p.ahead = int64(min(queue.units, math.MaxInt64))
		if n > 0 {
			p.claim = everything // until it is known which key admits w last
		}
		p.element = queue.places.PushBack(p)
		if len(targets) == 1 {
			queue.units += uint64(n)
		}
	}
	q.total.Add(1)
	return w
}

// dequeue takes w out of its queues, and wakes the waiters that this concerns.
func (q *waitQueues) dequeue(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.setTrying(true) // takes its units out, unless they are out already
	q.total.Add(-1)
	for i := range w.places {
		p := &w.places[i]
		p.wakeBehind()
		if p.queue.places.Remove(p.element); p.queue.places.Len() == 0 {
			delete(q.byKey, p.key)
		}
	}
}

// beginAttempt begins an attempt of w at instant now, if it has its turn in all its queues,
// and reports whether it has. It sets what the waiters before it claim of targets. The
// caller must end the attempt by endAttempt or dequeue.
//
// A waiter for 0 units takes nothing from the others, so it always has its turn.
func (q *waitQueues) beginAttempt(w *waiter, targets []target, now int64) (turn bool) {
	if w.n == 0 {
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, w.blocked = true, nil // from here on any change concerns it
	for i := range w.places {
		targets[i].claimed, _ = w.places[i].before(now)
		turn = turn && targets[i].claimed != everything
	}
	if turn {
		// From here on its units may be in the state of the key. So they must not be in
		// the queue any more.
		w.setTrying(true)
	}
	return turn
}

// endAttempt ends an attempt of w that was not admitted. From the last looks at its keys
// follows what w claims.
func (q *waitQueues) endAttempt(w *waiter) {
	if w.n == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.setTrying(false)
	// Find the place that w has to wait for longest. How long those before it need is known
	// only at least, so a place without a turn comes after any other.
	last, blocked := &w.places[0], false
	w.readyAt = math.MinInt64
	for i := range w.places {
		p := &w.places[i]
		_, blocker := p.before(math.MaxInt64)
		if blocker != nil {
			p.admitsAt = max(p.admitsAt, blocker.readyAt)
		}
		w.readyAt = max(w.readyAt, p.admitsAt)
		if behind := blocker != nil; behind && !blocked || behind == blocked && p.admitsAt > last.admitsAt {
			last, blocked = p, behind
		}
	}
	if blocked {
		w.blocked = last
	}
	for i := range w.places {
		switch p := &w.places[i]; {
		case p == last && w.readyAt > math.MinInt64:
			p.setClaim(everything, math.MinInt64)
		case blocked:
			p.setClaim(0, math.MaxInt64)
		default:
			from, _ := window.Sub(w.readyAt, p.memory)
			p.setClaim(w.n, from)
		}
	}
}

// changedSince reports whether a waiter of the key of p alone may have been admitted since
// p was enqueued.
func (q *waitQueues) changedSince(p *place) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.queue.version != p.version
}

// setTrying takes the units of w out of those of its queue, or puts them back, unless that
// is done already. Those of a waiter for several keys are never there: the waiters behind
// it may be admitted before it. The caller must hold waitQueues.mu.
func (w *waiter) setTrying(trying bool) {
	if w.trying == trying || len(w.places) > 1 {
		return
	}
	queue := w.places[0].queue
	if w.trying = trying; trying {
		queue.units -= uint64(w.n)
	} else {
		queue.units += uint64(w.n)
	}
	queue.version++
}

// before returns what the places before p claim at now: the most units that any of them
// does. If that is everything, p has no turn, and blocker is the nearest place that
// claims it. The caller must hold waitQueues.mu.
func (p *place) before(now int64) (claimed int64, blocker *place) {
	for element := p.element.Prev(); element != nil; element = element.Prev() {
		other := element.Value.(*place)
		if other.claim == everything {
			return everything, other
		}
		if now >= other.from {
			claimed = max(claimed, other.claim)
		}
	}
	return claimed, nil
}

// setClaim makes p claim that many units from that instant on. The caller must hold
// waitQueues.mu.
func (p *place) setClaim(claim, from int64) {
	shrinks := claim < p.claim || from > p.from
	if p.claim, p.from = claim, from; shrinks {
		p.wakeBehind()
	}
}

// wakeBehind wakes the waiters behind p for which the claim of p may make a difference:
// those up to the first that claims everything, behind which none has a turn, unless they
// wait for their turn at another key. The caller must hold waitQueues.mu.
func (p *place) wakeBehind() {
	for element := p.element.Next(); element != nil; element = element.Next() {
		other := element.Value.(*place)
		if other.blocked == nil || other.blocked == other {
			other.notify()
		}
		if other.claim == everything {
			return
		}
	}
}

// notify wakes all waiters of key. A call that may make a key admit more than before, such
// as a Reset, must call it once the change can be seen.
func (q *waitQueues) notify(key string) {
	// A waiter that is not in total yet looks at the key after it has been enqueued, so it
	// finds the change.
	if q.total.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byKey[key].notify()
}

// notifyAll wakes all waiters of all keys.
func (q *waitQueues) notifyAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, queue := range q.byKey {
		queue.notify()
	}
}

// notify wakes all waiters of q. A nil queue has none.
func (q *waitQueue) notify() {
	if q == nil {
		return
	}
	for element := q.places.Front(); element != nil; element = element.Next() {
		element.Value.(*place).notify()
	}
}
