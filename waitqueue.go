package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/queue"
)

// A waitQueues holds the waiters: the calls of Wait, WaitAll and WaitReserve that block.
type waitQueues struct{ queue.Queues[string] }

// A waiter is one call in the queues of its keys.
type waiter = queue.Waiter[string]

// newWaiter returns a waiter for n units of each of targets.
//
// A waiter for several keys takes its units at a time that is not known: later waiters may go before
// it. So its units are not ahead of theirs.
func newWaiter(targets []target, n int64) *waiter {
	w := &waiter{Places: make([]queue.Place[string], len(targets)), Undemanding: n == 0}
	for i := range targets {
		p := &w.Places[i]
		p.Key = strings.Clone(targets[i].name)
		if n > 0 {
			p.Claim.Units = queue.Everything // until it is known which key admits w last
		}
		if len(targets) == 1 {
			p.Units = n
		}
	}
	return w
}

// claimsAny reports whether a call that waits claims units of any of targets.
func (q *waitQueues) claimsAny(targets []target) bool {
	for i := range targets {
		if q.Claims(targets[i].name) {
			return true
		}
	}
	return false
}

// waiting reports whether a call waits for key.
func (q *waitQueues) waiting(key string) bool { return q.Has(key) }

// notify wakes all waiters of key.
func (q *waitQueues) notify(key string) { q.Change(key) }

// notifyAll wakes all waiters of all keys.
func (q *waitQueues) notifyAll() { q.ChangeAll() }
