package sash

import (
	"container/list"
	"math"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A waitQueues holds the calls of Wait that block, in one queue for each key.
//
// Only the first waiter of a queue charges. It calls beginAttempt, tries, and calls
// endAttempt if it was denied, or dequeue if it was admitted. The others sleep until they
// are woken.
//
// Invariant:
//   - A key has a queue only while a waiter is in it. The waiters of a queue are in the
//     order in which they came.
//   - While a waiter tries to charge, its units are not in waitQueue.units. So no unit is
//     counted both there and in the state of the key.
//   - A waiter that leaves wakes the waiter that is then first.
//
// mu guards all fields but total.
type waitQueues struct {
	total atomic.Int64 // number of waiters: while it is 0, no other call needs the lock
	mu    sync.Mutex
	byKey map[string]*waitQueue
}

// A waitQueue is the queue of one key.
type waitQueue struct {
	waiters list.List // of *waiter
	units   uint64    // the units of all waiters that are not trying to charge
	version int       // how often units were taken out or put back
}

// A waiter is one call of Wait in a queue.
type waiter struct {
	n       int64         // the units to be charged
	ahead   int64         // waitQueue.units when the waiter was enqueued
	version int           // waitQueue.version at that time
	trying  bool          // whether the waiter is trying to charge
	wake    chan struct{} // of capacity 1: a wake-up is kept until the waiter sleeps
	element *list.Element
}

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

// enqueue appends a waiter for n units to the queue of key.
func (q *waitQueues) enqueue(key string, n int64) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.byKey == nil {
		q.byKey = map[string]*waitQueue{}
	}
	queue := q.byKey[key]
	if queue == nil {
		queue = new(waitQueue)
		q.byKey[key] = queue
	}
	// Read what is ahead before the units of w are added. The version tells later whether
	// it still is ahead.
	ahead := int64(min(queue.units, math.MaxInt64))
	w := &waiter{n: n, ahead: ahead, version: queue.version, wake: make(chan struct{}, 1)}
	w.element = queue.waiters.PushBack(w)
	queue.units += uint64(n)
	q.total.Add(1)
	return w
}

// dequeue takes w out of the queue of key, and wakes the waiter that is then first.
func (q *waitQueues) dequeue(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byKey[key]
	queue.waiters.Remove(w.element)
	queue.setTrying(w, true) // takes its units out, unless they are out already
	q.total.Add(-1)
	if next := queue.waiters.Front(); next != nil {
		next.Value.(*waiter).notify()
	} else {
		delete(q.byKey, key)
	}
}

// beginAttempt begins an attempt of w to charge, if w is first in the queue of key. It
// reports whether it has. The caller must end the attempt by endAttempt or dequeue.
func (q *waitQueues) beginAttempt(key string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	queue := q.byKey[key]
	turn := queue.waiters.Front() == w.element
	if turn {
		// From here on its units may be in the state of the key. So they must not be in
		// the queue any more.
		queue.setTrying(w, true)
	}
	return turn
}

// endAttempt ends an attempt of w that was denied. It has no effect if there is none.
func (q *waitQueues) endAttempt(key string, w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.byKey[key].setTrying(w, false)
}

// changedSince reports whether a waiter in the queue of key may have been admitted since
// w was enqueued.
func (q *waitQueues) changedSince(key string, w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.byKey[key].version != w.version
}

// setTrying takes the units of w out of those of the queue, or puts them back, unless
// that is done already. The caller must hold waitQueues.mu.
func (q *waitQueue) setTrying(w *waiter, trying bool) {
	if w.trying == trying {
		return
	}
	if w.trying = trying; trying {
		q.units -= uint64(w.n)
	} else {
		q.units += uint64(w.n)
	}
	q.version++
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
	for element := q.waiters.Front(); element != nil; element = element.Next() {
		element.Value.(*waiter).notify()
	}
}
