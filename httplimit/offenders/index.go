package offenders

import (
	"math/bits"
	"sync/atomic"
)

// An index finds the counters of a sketch by their clients. It is a hash table of chains, with at least
// as many chains as counters, and mostly twice as many. Its methods other than find are called by the
// holder of the sketch's lock.
//
// find takes no lock, and copies nothing. It is sure of a counter that it returns, which may be retired. It
// may miss one that is being added, and any while the table grows: then the caller asks again with the lock.
//
// Invariant: each counter of the index is in the chain of its hash. A counter that was taken out still
// leads to the rest of the chain in which it was, so a find that stands on it misses nothing.
type index struct {
	chains atomic.Pointer[[]atomic.Pointer[counter]] // their first counters; the length is a power of two
	size   int                                       // number of counters
}

// find returns the counter of client, or nil.
func (x *index) find(client *client) *counter {
	for c := chainOf(*x.chains.Load(), client).Load(); c != nil; c = c.next.Load() {
		if c.digest == client.digest && c.policy == client.policy && c.identity == client.identity {
			return c
		}
	}
	return nil
}

// chainOf returns where the chain of client begins.
func chainOf(chains []atomic.Pointer[counter], client *client) *atomic.Pointer[counter] {
	return &chains[client.hash()&uint64(len(chains)-1)]
}

// add adds c, whose client has no counter in x.
func (x *index) add(c *counter) {
	if chains := *x.chains.Load(); 2*x.size >= len(chains) {
		x.grow(2 * len(chains))
	}
	x.size++
	push(*x.chains.Load(), c)
}

// push makes c the first of its chain.
func push(chains []atomic.Pointer[counter], c *counter) {
	first := chainOf(chains, &c.client)
	c.next.Store(first.Load())
	first.Store(c) // a find sees it from here on
}

// grow makes the chains at least n, which is more than 0, and moves all counters there.
func (x *index) grow(n int) {
	to := make([]atomic.Pointer[counter], 1<<bits.Len(uint(n-1)))
	if from := x.chains.Load(); from != nil {
		for i := range *from {
			// A find that stands on a counter that has moved goes on in the new chain. All counters there
			// have moved before, so it comes to an end.
			for c := (*from)[i].Load(); c != nil; {
				next := c.next.Load()
				push(to, c)
				c = next
			}
		}
	}
	x.chains.Store(&to)
}

// remove takes out c, which is in x.
func (x *index) remove(c *counter) {
	at := chainOf(*x.chains.Load(), &c.client)
	for at.Load() != c {
		at = &at.Load().next
	}
	at.Store(c.next.Load())
	x.size--
}
