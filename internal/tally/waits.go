package tally

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash/httplimit"
)

// WaitBounds are the bounds of the buckets for the time in queues, ascending. A wait is in the first bucket
// whose bound is not below it, or else in the last, which has none.
var WaitBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
}

// Waits is a histogram of the time that requests have waited in queues. The zero waits are ready to use, and
// they are safe for concurrent use. A request that has waited does not mind if calls meet here, so there
// are no stripes.
type waits struct {
	buckets [len(WaitBounds) + 1]atomic.Int64 // requests
	sum     atomic.Int64                      // nanoseconds
}

func (w *waits) add(d time.Duration) {
	i, _ := slices.BinarySearch(WaitBounds[:], d)
	w.buckets[i].Add(1)
	w.sum.Add(int64(d))
}

// A Wait is the time that requests with one result have waited in queues, since the limiter is watched.
// Requests that did not wait are not among them.
type Wait struct {
	Policy  string
	Result  Result
	Buckets [len(WaitBounds) + 1]int64 // requests in each bucket
	Sum     time.Duration              // a request that is just being added may be missing
}

// canWait are the results that a request which has waited can have.
var canWait = [...]Result{Admitted, Denied, Withheld, Abandoned}

// addWaits adds the time that requests of p have waited, if p has or had a Queue.
func (f *Figures) addWaits(p *policy) {
	if p.waits == nil {
		return
	}
	for _, r := range canWait {
		w := Wait{Policy: p.name, Result: r, Sum: time.Duration(p.waits[r].sum.Load())}
		for i := range w.Buckets {
			w.Buckets[i] = p.waits[r].buckets[i].Load()
		}
		f.Waits = append(f.Waits, w)
	}
}

// WaitOf returns the result under which the time counts that a request has waited in queues. ok is false if
// it does not count: the request has not waited, or its policy has no Queue. It is for exporters that keep
// histograms of their own.
func (t *Tally) WaitOf(e *httplimit.Event) (r Result, ok bool) {
	table := t.table.Load()
	if table == nil || e.Waited <= 0 {
		return 0, false
	}
	p := table.find(e.Policy)
	if p == nil || !p.queued {
		return 0, false
	}
	r = resultOf(e)
	return r, r != numResults
}
