package offenders

import (
	"sync"
	"sync/atomic"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A sketch counts the denials of the clients that are denied most, by the Space-Saving algorithm
// (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data
// Streams, 2005). It has a fixed number of counters. A client without one takes over the least
// counter, with its count, which may then be that much too high.
//
// Invariant: the sum of all counts is N, the number of denials that were added. So the least of
// size counts is at most N/size. It never falls. So unseen is at most N/size, too, and so are
//
//   - the true count of a client that has no counter,
//   - and how much too high the count of any other is.
//
// A client that has a counter adds to it without a lock. The heap of the counters is not
// told: it is ordered by the counts that were known when each was last looked at, and put right
// when the least is asked for. Each step of that was paid for by a denial since.
type sketch struct {
	size     int
	start    int64 // on the clock
	counters index

	mu     sync.Mutex
	heap   []place // guarded by mu: the one with the least known count is first
	unseen int64   // guarded by mu: the count of the counter that was retired last, which never falls
}

// A counter counts the denials of one client.
//
// Only the holder of the sketch's lock retires a counter. It does so by one compare-and-swap from
// the count that the next counter begins with. So a denial is either in that count, or it finds
// the counter retired and goes elsewhere: none is lost, and none is counted twice.
type counter struct {
	// A denial looks at these alone, which fill one cache line.
	client
	next  atomic.Pointer[counter] // in its chain of the index
	count atomic.Int64            // from retired on, the counter is no longer in use
	last  atomic.Int64            // when it was last added to

	limit  sash.Limit // that denied first
	shadow bool
	first  int64 // when it began, on the clock
	excess int64 // how much count is too high, at most
}

// A place is an element of the heap: a counter, and what the heap knows of its count.
type place struct {
	known int64 // at most the counter's count
	*counter
}

// retired is a count that no counter in use reaches.
const retired = 1 << 62

func newSketch(size int, start int64) *sketch {
	s := &sketch{size: size, start: start}
	s.counters.grow(min(size, 64))
	return s
}

// add counts the denial e of client, at an instant.
func (s *sketch) add(client *client, e *httplimit.Event, at int64) {
	if c := s.counters.find(client); c != nil && c.add(at) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Another call may have begun a counter first. If there is one now, it is in use: only
	// the holder of the lock retires it.
	if c := s.counters.find(client); c != nil {
		c.add(at)
		return
	}
	if len(s.heap) < s.size {
		// All known counts are 1 until the heap is full, so it needs no order yet.
		s.heap = append(s.heap, place{1, s.newCounter(client, e, at, 0)})
		return
	}
	s.retireLeast()
	s.heap[0] = place{s.unseen + 1, s.newCounter(client, e, at, s.unseen)}
	s.siftDown()
}

// newCounter returns the counter of a client that has none, after a denial. The caller holds the
// lock.
func (s *sketch) newCounter(client *client, e *httplimit.Event, at, excess int64) *counter {
	c := &counter{client: client.clone(), limit: e.Decision.Limit, shadow: e.Shadow, first: at, excess: excess}
	c.count.Store(excess + 1)
	c.last.Store(at)
	// The counter is complete: from here on, other calls add to it.
	s.counters.add(c)
	return c
}

// add counts one denial, and reports whether c was in use.
func (c *counter) add(at int64) bool {
	if c.count.Add(1) > retired {
		return false
	}
	// A late reading may overwrite a newer one that was stored in between. They differ by the
	// time between two lines of this function.
	if c.last.Load() < at {
		c.last.Store(at)
	}
	return true
}

// retireLeast retires the counter with the least count, and sets unseen to that. The place of the
// counter, the first of the heap, is for the next one.
func (s *sketch) retireLeast() {
	for {
		c := &s.heap[0]
		// No other counter has less than is known of it, which is at least c.known. So if the
		// count is still c.known, it is the least.
		if c.count.CompareAndSwap(c.known, retired) {
			s.counters.remove(c.counter)
			s.unseen = c.known
			return
		}
		c.known = c.count.Load()
		s.siftDown()
	}
}

// siftDown moves the first counter of the heap to its place.
func (s *sketch) siftDown() {
	c, i := s.heap[0], 0
	for {
		child := 2*i + 1
		if child+1 < len(s.heap) && s.heap[child+1].known < s.heap[child].known {
			child++
		}
		if child >= len(s.heap) || s.heap[child].known >= c.known {
			s.heap[i] = c
			return
		}
		s.heap[i] = s.heap[child]
		i = child
	}
}

// A tally is what a sketch says at one time.
type tally struct {
	start   int64
	denials int64 // N
	unseen  int64 // the most that a client without a counter may have been denied
	rows    []row
}

// A row is a counter as it was read.
type row struct {
	client
	limit               sash.Limit
	shadow              bool
	count, excess       int64
	firstSeen, lastSeen int64
}

// tally reads all counters. Calls may add to them at the same time: each count is one that the counter
// had, at most N/size too high for the N of the tally.
func (s *sketch) tally() tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := tally{start: s.start, unseen: s.unseen, rows: make([]row, len(s.heap))}
	for i, c := range s.heap {
		n := c.count.Load()
		t.rows[i] = row{client: c.client, limit: c.limit, shadow: c.shadow,
			count: n, excess: c.excess, firstSeen: c.first, lastSeen: c.last.Load()}
		t.denials += n
	}
	return t
}
