package httplimit

import (
	"cmp"
	"container/heap"
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
// A waiter holds up only those that it competes with. So it leaves a queue, and its turn there,
//   - when the policy of the queue admits it, but another one denies it,
//   - and when it is the first there, but has no turn elsewhere.
//
// No waiter starves by that. Once it was overtaken under a policy, it insists there: it keeps its
// turn while only faster policies deny it. A waiter that insists gets what it needs of its slowest
// policy first, keeps that, and so on to the fastest.
//
// A waiter calls beginAttempt, tries to charge if it has its turn, and then calls endAttempt if
// it was denied. Then it sleeps until it is woken, or until the first of the policies that deny it
// may admit it. In the end, however it ends, it calls leave.
//
// Invariant:
//   - A queue is there only while a waiter is in it.
//   - The first waiter of a queue is woken when it becomes the first. It may have its turn then.
type waitQueues struct {
	total    atomic.Int64 // number of waiters: while it is 0, no request needs the lock
	mu       sync.Mutex   // guards what follows, and the places of all waiters
	came     uint64       // number of waiters that there were
	byKey    map[string]*waitQueue
	byPolicy map[string]int   // number of places in queues, by the name of the policy
	byClient map[identity]int // of those, of requests that have a key under another policy
	compared int              // how often the order of two waiters was asked for, which tests count
}

// An identity is a key that a request has under another policy than the one with the Queue.
type identity struct{ queue, key string }

// A waitQueue is the queue of one key: a heap, whose first waiter is the one that came first.
type waitQueue struct {
	*waitQueues
	places []*place
}

// A waiter is one request in the queues of its keys.
type waiter struct {
	number uint64 // in the order in which waiters came
	places []place
	keys   []string      // under all its policies that tell clients apart
	behind *policy       // one in whose queue others were before it at its latest beginAttempt; nil: none
	full   *policy       // one whose queue had no room for it: the waiter gives up; nil: none
	wake   chan struct{} // of capacity 1: a wake-up is kept until the waiter sleeps
}

// A place is that of a waiter under one policy.
type place struct {
	*policy
	waiter    *waiter
	key       string
	in        *waitQueue // the queue of key; nil: the waiter is not in it
	index     int        // in that
	yielded   bool       // whether the policy has admitted the waiter when another one denied it
	overtaken bool       // whether the policy has denied it after that
}

// notify wakes w, or makes its next sleep end at once.
func (w *waiter) notify() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// waitsFor reports whether a request waits for a key of takes. Then a new one must not overtake it.
func (q *waitQueues) waitsFor(takes []take) bool {
	if q.total.Load() == 0 {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range takes {
		if t := &takes[i]; t.queues() && q.byKey[t.key] != nil {
			return true
		}
	}
	return false
}

// newWaiter returns a waiter of takes that is in no queue yet. number is that of the waiter whose
// place it takes; 0: none.
func (q *waitQueues) newWaiter(takes []take, number uint64) *waiter {
	w := &waiter{number: number, wake: make(chan struct{}, 1), places: make([]place, 0, len(takes))}
	for i := range takes {
		t := &takes[i]
		key := strings.Clone(t.key)
		if t.body < t.end { // only Everyone has an empty identity
			w.keys = append(w.keys, key)
		}
		if t.queues() {
			w.places = append(w.places, place{policy: t.policy, waiter: w, key: key})
		}
	}
	q.total.Add(1)
	if number == 0 {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.came++
		w.number = q.came
	}
	return w
}

// beginAttempt reports whether w has its turn. If it has not, w is then in the queues of all
// keys for which an earlier waiter waits, unless one of these has no room for it: see waiter.full.
// It is in no other queue, so that it holds none up.
func (q *waitQueues) beginAttempt(w *waiter) (turn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.behind = nil
	for i := range w.places {
		if p := &w.places[i]; q.isBehind(p) {
			w.behind = p.policy
		}
	}
	if w.behind == nil {
		return true
	}
	for i := range w.places {
		p := &w.places[i]
		switch {
		case !q.isBehind(p):
			q.part(p)
		case !q.join(p):
			w.behind = p.policy
			return false
		}
	}
	return false
}

// isBehind reports whether an earlier waiter is in the queue of p. mu is held.
func (q *waitQueues) isBehind(p *place) bool {
	in := q.byKey[p.key]
	return in != nil && in.places[0].waiter.number < p.waiter.number
}

// endAttempt ends an attempt of w that was denied. w is then in the queues of the policies that
// deny it, unless one of these has no room for it: see waiter.full. Of the other queues, it is in
// those in which it insists.
//
// The next sleep of a waiter that has joined a queue ends at once. Units may have been given back
// since its attempt, when no queue held it.
func (q *waitQueues) endAttempt(w *waiter, denies func(*policy) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range w.places {
		p := &w.places[i]
		if denies(p.policy) {
			p.overtaken = p.yielded
		} else if p.yielded = true; !p.insists(denies) {
			q.part(p)
			continue
		}
		if p.in != nil {
			continue // it is in the queue already
		}
		if !q.join(p) {
			return
		}
		w.notify()
	}
}

// insists reports whether the waiter of p, which the policy of p admits, holds up others there all
// the same: it was overtaken there, and only faster policies deny it.
func (p *place) insists(denies func(*policy) bool) bool {
	if !p.overtaken {
		return false
	}
	for i := range p.waiter.places {
		if other := p.waiter.places[i].policy; denies(other) && !p.slower(other) {
			return false
		}
	}
	return true
}

// slower orders policies: p comes before other if its windows are longer or, if they are as long,
// it admits less.
func (p *policy) slower(other *policy) bool {
	return cmp.Or(
		cmp.Compare(other.pace.Window, p.pace.Window),
		cmp.Compare(p.pace.Count, other.pace.Count),
		cmp.Compare(p.number, other.number)) < 0
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

// join puts the waiter of p into the queue of p, unless it is there, and reports whether there is
// room. If there is none, it notes that in the waiter. mu is held.
func (q *waitQueues) join(p *place) bool {
	if p.in != nil {
		return true
	}
	in := q.byKey[p.key]
	if !q.hasRoom(in, p) {
		p.waiter.full = p.policy
		return false
	}
	if q.byKey == nil {
		q.byKey, q.byPolicy, q.byClient = make(map[string]*waitQueue), make(map[string]int), make(map[identity]int)
	}
	if in == nil {
		in = &waitQueue{waitQueues: q}
		q.byKey[p.key] = in
	}
	p.in = in
	heap.Push(in, p)
	q.count(p, 1)
	return true
}

// hasRoom reports whether there is room for p in the queue of its key; nil: there is none yet. mu is
// held.
func (q *waitQueues) hasRoom(in *waitQueue, p *place) bool {
	if q.byPolicy[p.Name] >= p.Queue.Requests {
		return false
	}
	if in != nil && p.Queue.RequestsEach > 0 && len(in.places) >= p.Queue.RequestsEach {
		return false
	}
	for _, key := range p.waiter.keys {
		if q.byClient[identity{p.Name, key}] >= p.Queue.perClient() {
			return false
		}
	}
	return true
}

// count adds n to the numbers of places that p is one of. mu is held.
func (q *waitQueues) count(p *place, n int) {
	if q.byPolicy[p.Name] += n; q.byPolicy[p.Name] == 0 {
		delete(q.byPolicy, p.Name)
	}
	for _, key := range p.waiter.keys {
		if key == p.key {
			continue // RequestsEach is its bound
		}
		of := identity{p.Name, key}
		if q.byClient[of] += n; q.byClient[of] == 0 {
			delete(q.byClient, of)
		}
	}
}

// part takes a waiter out of the queue of p. If it was the first, the next one is woken. mu is held.
func (q *waitQueues) part(p *place) {
	in, first := p.in, p.index == 0
	if in == nil {
		return
	}
	heap.Remove(in, p.index)
	p.in = nil
	q.count(p, -1)
	switch {
	case len(in.places) == 0:
		delete(q.byKey, p.key)
	case first:
		in.places[0].waiter.notify()
	}
}

// notify wakes the first waiter for key, to which units were given back by the waiter with that number;
// 0: by none. A waiter does not wake itself: it would only try again for ever.
func (q *waitQueues) notify(key string, by uint64) {
	if q.total.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if in := q.byKey[key]; in != nil && in.places[0].waiter.number != by {
		in.places[0].waiter.notify()
	}
}

// A waitQueue is a heap.Interface. waitQueues.mu must be held.

func (q *waitQueue) Len() int { return len(q.places) }

func (q *waitQueue) Less(i, j int) bool {
	q.compared++
	return q.places[i].waiter.number < q.places[j].waiter.number
}

func (q *waitQueue) Swap(i, j int) {
	q.places[i], q.places[j] = q.places[j], q.places[i]
	q.places[i].index, q.places[j].index = i, j
}

// Push appends a *place.
func (q *waitQueue) Push(last any) {
	p := last.(*place)
	p.index = len(q.places)
	q.places = append(q.places, p)
}

// Pop takes the last place away.
func (q *waitQueue) Pop() any {
	n := len(q.places) - 1
	p := q.places[n]
	q.places[n], q.places = nil, q.places[:n]
	return p
}
