package sashredis

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash/internal/count"
	"github.com/seed-30da4c49/sash/internal/storestats"
)

// Stats counts what a limiter has done since New.
type Stats struct {
	Store    int64 // calls that the store decided
	Mirror   int64 // calls that were denied in-process
	Lease    int64 // calls that were admitted from a lease
	Fallback int64 // calls that the fallback decided

	RoundTrips int64 // scripts sent to the store
	Failures   int64 // of them, those that failed
	Combined   int64 // calls that went to the store together with an earlier one

	// Times is a histogram of how long round trips took, also those that failed. The bounds of its buckets are
	// 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250 and 500 ms, and 1 s. Each counts round trips that took as
	// long or less, and longer than the bound before. The last counts those that took longer than a second.
	Times [14]int64
	Time  time.Duration // that all round trips took, one after the other; one that just ends may be missing

	Open   bool  // whether calls do not wait for the store now: see WithBreaker
	Opened int64 // how often that has begun

	Leased   int64 // units leased from the store
	Returned int64 // of them, those that were not used and given back, or had flowed back into their token bucket
	Invalid  int64 // calls denied because WithLimitsFor or the call gave wrong limits
}

var _ storestats.Stats = Stats{} // which the modules with metrics read it as

// counters are what Stats is read from. The zero counters are ready to use.
type counters struct {
	by               [ByFallback + 1]count.Counter
	trips, failures  count.Counter
	combined         count.Counter
	times            times
	opened           atomic.Int64
	leased, returned count.Counter
	invalid          count.Counter
}

// times is a histogram of how long round trips take. Two atomic additions are little for a round trip, so there
// are no stripes.
type times struct {
	buckets [len(Stats{}.Times)]atomic.Int64
	sum     atomic.Int64 // nanoseconds
}

func (t *times) add(d time.Duration) {
	i, _ := slices.BinarySearch(storestats.Bounds[:], d)
	t.buckets[i].Add(1)
	t.sum.Add(int64(d))
}

// Stats returns the limiter's figures. They are read one after the other while calls may run.
func (l *Limiter) Stats() Stats {
	c := &l.stats
	s := Stats{
		Store: c.by[ByStore].Value(), Mirror: c.by[ByMirror].Value(), Lease: c.by[ByLease].Value(), Fallback: c.by[ByFallback].Value(),
		RoundTrips: c.trips.Value(), Failures: c.failures.Value(), Combined: c.combined.Value(),
		Time: time.Duration(c.times.sum.Load()), Open: l.breaker.open(), Opened: c.opened.Load(),
		Leased: c.leased.Value(), Returned: c.returned.Value(), Invalid: c.invalid.Value(),
	}
	for i := range s.Times {
		s.Times[i] = c.times.buckets[i].Load()
	}
	return s
}
