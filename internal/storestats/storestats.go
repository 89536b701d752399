// Package storestats describes the figures of a limiter of package sashredis to the modules with metrics, which
// do not require that module.
package storestats

import "time"

// Bounds are the bounds of the buckets for the times of round trips, ascending. A round trip is in the first
// bucket whose bound is not below its time, or else in the last, which has none.
var Bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second,
}

// Stats are the fields of sashredis.Stats, which says what they mean.
type Stats = struct {
	Store, Mirror, Lease, Fallback int64

	RoundTrips, Failures, Combined int64

	Times [len(Bounds) + 1]int64
	Time  time.Duration

	Open   bool
	Opened int64

	Leased, Returned, Invalid int64
}

// Like is sashredis.Stats, or another type with these fields.
type Like interface{ ~Stats }

// A Figure is one of Stats. Its Name consists of words with underscores, to which exporters add what their
// conventions ask for.
type Figure struct {
	Name, Unit, Help string
	By               string // who decided; empty: it is no count of decisions
	Counter          bool   // else it is a gauge
	Value            int64
}

// Figures returns all figures but the times. Figures of one Name follow each other, and differ in By.
func Figures(s Stats) []Figure {
	open := int64(0)
	if s.Open {
		open = 1
	}
	all := []Figure{
		{Name: "breaker_open", Unit: "breaker", Help: "Whether calls do not wait for the store, as it has failed too often in a row.", Value: open},
	}
	count := func(name, unit, help, by string, n int64) {
		all = append(all, Figure{Name: name, Unit: unit, Help: help, By: by, Counter: true, Value: n})
	}
	for _, d := range []struct {
		by string
		n  int64
	}{{"store", s.Store}, {"mirror", s.Mirror}, {"lease", s.Lease}, {"fallback", s.Fallback}} {
		count("decisions", "call", "Calls by who decided: the store, the mirror, a lease or the fallback.", d.by, d.n)
	}
	count("round_trips", "round_trip", "Scripts that were sent to the store.", "", s.RoundTrips)
	count("round_trip_failures", "round_trip", "Scripts that the store did not answer.", "", s.Failures)
	count("combined_calls", "call", "Calls that went to the store together with an earlier one.", "", s.Combined)
	count("breaker_openings", "opening", "Times that calls began not to wait for the store.", "", s.Opened)
	count("leased_units", "unit", "Units that were leased from the store.", "", s.Leased)
	count("returned_units", "unit", "Leased units that were not used and were given back, or had flowed back.", "", s.Returned)
	count("invalid_calls", "call", "Calls that were denied as their limits were wrong.", "", s.Invalid)
	return all
}
