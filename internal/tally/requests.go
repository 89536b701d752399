package tally

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/count"
)

// Requests counts requests and the units that they cost. The zero requests are ready to use, and they are
// safe for concurrent use.
//
// A request of one unit, as most are, takes one addition.
//
// Invariant: each request was added to ones, or both to others and, with its cost, to sum. So neither the
// number nor the units ever fall, but for wrapped.
type requests struct {
	ones   count.Counter // that cost one unit
	others count.Counter // that cost anything else
	sum    count.Counter // of these, the units
}

// MostUnits is the most units that a request counts with: 2^40, a terabyte. Clients may name any cost, as by
// a Content-Length, and are denied. Above 2^53 units, a float64 has no single ones any more.
const MostUnits = 1 << 40

// counted returns the units with which a cost is counted. A request with a cost below 0 is denied, and asks
// for nothing.
func counted(cost int64) int64 { return min(max(cost, 0), MostUnits) }

// wrapped makes a sum of units that has passed 2^63 begin anew at 0.
func wrapped(units int64) int64 { return units & math.MaxInt64 }

// addOther counts a request that does not cost one unit, but that.
func (r *requests) addOther(cost int64) {
	r.others.Add(1)
	r.sum.Add(counted(cost))
}

// number returns the number of requests so far.
func (r *requests) number() int64 { return r.ones.Value() + r.others.Value() }

// units returns the units that they cost.
func (r *requests) units() int64 { return wrapped(r.ones.Value() + r.sum.Value()) }
