package httplimit

import (
	"container/list"
	"strings"
	"sync"
	"sync/atomic"
)

// A waitQueues holds the waiters: the requests that wait instead of being refused, under
// policies with a Queue. A key that is waited for has a queue. A waiter has a place for each
// of its policies with a Queue, and is in the queues of those that have made it wait.
//
// A waiter has its turn if no earlier one is in the queue of any of its keys. Only then does it
// try to charge. The earliest of all waiters is first wherever it is, so some waiter always has
// its turn, and none waits in a circle.
//
// A waiter calls beginAttempt, tries to charge if it has its turn, and then calls endAttempt if
// it was denied. Then it sleeps until it is woken, or until its policies may admit it. In the
// end, however it ends, it calls leave.
//
// Invariant:
//   - A queue is in the order in which its waiters came, and is there only while one is in it.
//   - The first waiter of a queue is woken when it becomes the first. It may have its turn then.
type waitQueues struct {
	total    atomic.Int64 // number of waiters: while it is 0, no request needs the lock
	mu       sync.Mutex   // guards what follows, and the places of all waiters
	came     uint64       // number of waiters that there were
	byKey    map[string]*list.List
	byPolicy map[string]int // number of places in queues, by the name of the policy
}

// A waiter is one request in the queues of its keys.
type waiter struct {
	number uint64 // in the order in which waiters came
	places []place
	behind *policy       // one in whose queue others were before it at its latest beginAttempt; nil: none
	full   *policy       // one whose queue had no room for it: the waiter gives up; nil: none
	wake   chan struct{} // of capacity 1: a wake-up is kept until the waiter sleeps
}

// A place is that of a waiter under one policy.
type place struct {
	*policy
	key     string
	element *list.Element // in the queue of key; nil: the waiter is not in it
}

// notify wakes w, or makes its next sleep end at once.
func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// none reports whether no request waits.
func (q *waitQueues) none() bool { return q.total.Load() == 0 }

// newWaiter returns a waiter of takes that is in no queue yet. number is that of the waiter whose
// place it takes; 0: none.
func (q *waitQueues) newWaiter(takes []take, number uint64) *waiter {
	w := &waiter{wake: make(chan struct{}, 1)}
	for i := range takes {
		if t := &takes[i]; t.queues() {
			w.places = append(w.places, place{policy: t.policy, key: strings.Clone(t.key)})
		}
	}
	q.total.Add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.number = number; number == 0 {
		q.came++
		w.number = q.came
	}
	return w
}

// beginAttempt reports whether w has its turn. If it has not, w is then in the queues of all
// keys for which an earlier waiter waits, unless one of these has no room for it: see waiter.full.
func (q *waitQueues) beginAttempt(w *waiter) (turn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	turn, w.behind = true, nil
	for i := range w.places {
		p := &w.places[i]
		if in := q.byKey[p.key]; in == nil || in.Front().Value.(*waiter).number >= w.number {
			continue
		}
		turn, w.behind = false, p.policy
		if !q.join(w, p) {
			break
		}
	}
	return turn
}

// endAttempt ends an attempt of w that was denied. w is then in the queues of the policies that
// deny it, and in no other, unless one of these has no room for it: see waiter.full.
//
// The next sleep of a waiter that has joined a queue ends at once. Units may have been given back
// since its attempt, when no queue held it.
func (q *waitQueues) endAttempt(w *waiter, denies func(*policy) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range w.places {
		p := &w.places[i]
		switch {
		case !denies(p.policy):
			q.part(p)
		case p.element != nil: // it is in the queue already
		case !q.join(w, p):
			return
		default:
			w.notify()
		}
	}
}

// leave takes w out of all queues.
func (q *waitQueues) leave(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range w.places {
		q.part(&w.places[i])
	}
	q.total.Add(-1)
}

// join puts w into the queue of p, unless it is there, and reports whether there is room. If
// there is none, it notes that in w. mu is held.
func (q *waitQueues) join(w *waiter, p *place) bool {
	if p.element != nil {
		return true
	}
	in := q.byKey[p.key]
	each := 0
	if in != nil {
		each = in.Len()
	}
	if q.byPolicy[p.Name] >= p.Queue.Requests || p.Queue.RequestsEach > 0 && each >= p.Queue.RequestsEach {
		w.full = p.policy
		return false
	}
	if q.byKey == nil {
		q.byKey, q.byPolicy = make(map[string]*list.List), make(map[string]int)
	}
	if in == nil {
		in = list.New()
		q.byKey[p.key] = in
	}
	q.byPolicy[p.Name]++
	// A waiter mostly comes last. It comes earlier if it has waited elsewhere before.
	for after := in.Back(); after != nil; after = after.Prev() {
		if after.Value.(*waiter).number < w.number {
			p.element = in.InsertAfter(w, after)
			return true
		}
	}
	p.element = in.PushFront(w)
	return true
}

// part takes a waiter out of the queue of p, and wakes the one that is first then. mu is held.
func (q *waitQueues) part(p *place) {
	if p.element == nil {
		return
	}
	in := q.byKey[p.key]
	in.Remove(p.element)
	p.element = nil
	if q.byPolicy[p.Name]--; q.byPolicy[p.Name] == 0 {
		delete(q.byPolicy, p.Name)
	}
	if in.Len() == 0 {
		delete(q.byKey, p.key)
		return
	}
	in.Front().Value.(*waiter).notify()
}

// notify wakes the first waiter for key, to which units were given back.
func (q *waitQueues) notify(key string) {
	if q.none() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if in := q.byKey[key]; in != nil {
		in.Front().Value.(*waiter).notify()
	}
}

// notifyAll wakes all waiters: their policies were replaced.
func (q *waitQueues) notifyAll() {
	if q.none() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, in := range q.byKey {
		for e := in.Front(); e != nil; e = e.Next() {
			e.Value.(*waiter).notify()
		}
	}
}
