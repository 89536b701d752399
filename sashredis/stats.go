package sashredis

import "github.com/puzpuzpuz/xsync/v3"

// Stats counts what a limiter has done since New.
type Stats struct {
	Store    int64 // calls that the store decided
	Mirror   int64 // calls that were denied in-process
	Lease    int64 // calls that were admitted from a lease
	Fallback int64 // calls that the fallback decided

	RoundTrips int64 // scripts sent to the store
	Failures   int64 // of them, those that failed
	Combined   int64 // calls that went to the store together with an earlier one

	Leased   int64 // units leased from the store
	Returned int64 // of them, those that were not used and given back, or had flowed back into their token bucket
	Invalid  int64 // calls denied because WithLimitsFor returned wrong limits
}

// counters are what Stats is read from. Those of calls in-process are striped: all cores would
// share one.
type counters struct {
	by               [ByFallback + 1]*xsync.Counter
	trips, failures  *xsync.Counter
	combined         *xsync.Counter
	leased, returned *xsync.Counter
	invalid          *xsync.Counter
}

func newCounters() counters {
	n := xsync.NewCounter
	return counters{
		by: [...]*xsync.Counter{n(), n(), n(), n()}, trips: n(), failures: n(), combined: n(),
		leased: n(), returned: n(), invalid: n(),
	}
}

// Stats returns the limiter's figures. They are read one after the other while calls may run.
func (l *Limiter) Stats() Stats {
	c := &l.stats
	return Stats{
		Store: c.by[ByStore].Value(), Mirror: c.by[ByMirror].Value(), Lease: c.by[ByLease].Value(), Fallback: c.by[ByFallback].Value(),
		RoundTrips: c.trips.Value(), Failures: c.failures.Value(), Combined: c.combined.Value(),
		Leased: c.leased.Value(), Returned: c.returned.Value(), Invalid: c.invalid.Value(),
	}
}
