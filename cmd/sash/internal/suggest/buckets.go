package suggest

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

// bucketRates are the rates of the token buckets that are tried, in units a minute.
var bucketRates = [...]int64{1, 3, 10, 30, 100, 300, 1000}

// A bucketGauge measures which burst each client needs under each of bucketRates: the least Burst of a token
// bucket of that rate that denies none of its events.
//
// What a client has spent flows back at the rate. A bucket denies an event if what has not flowed back yet, with
// what the event asks for, is more than its Burst. As long as it has denied nothing, that is what it says of all
// events: so a bucket denies a client at least once if and only if the client needs more than its Burst.
type bucketGauge struct{ clients []bucketClient }

// A bucketClient is what a client has spent, in parts of a unit. A client that needs more than 307
// million units is taken to need that many.
type bucketClient struct {
	last  int64                    // the time of the last event
	spent [len(bucketRates)]uint64 // what had not flowed back then, and what that event took
	most  [len(bucketRates)]uint64 // the most of all events
}

// unitParts is the parts of a unit: at n units a minute, n parts flow back in a nanosecond.
const unitParts = uint64(time.Minute)

// add counts an event of a client, which takes one unit. Clients are numbered from 0, and events come in the
// order of time.
func (g *bucketGauge) add(client uint32, at int64) {
	if int(client) >= len(g.clients) {
		g.clients = append(g.clients, make([]bucketClient, int(client)+1-len(g.clients))...)
	}
	c := &g.clients[client]
	gap := uint64(at) - uint64(c.last) // which is at most 64 bits
	for i, rate := range bucketRates {
		left := uint64(0)
		if hi, back := bits.Mul64(gap, uint64(rate)); hi == 0 && back < c.spent[i] {
			left = c.spent[i] - back
		}
		c.spent[i] = min(left, math.MaxUint64-unitParts) + unitParts
		c.most[i] = max(c.most[i], c.spent[i])
	}
	c.last = at
}

// need returns the burst that a client needs under the i-th rate.
func (g *bucketGauge) need(client, i int) int64 {
	most := g.clients[client].most[i]
	units := most / unitParts
	if most%unitParts > 0 {
		units++
	}
	return int64(units)
}

// A bucket is a token bucket that leaves the clients at the percentile alone, with headroom.
type bucket struct {
	Limit        sash.Limit `json:"limit"`
	Clients      int        `json:"clients"` // denied at least once
	ClientsShare float64    `json:"clients_share"`
	AtPercentile int64      `json:"at_percentile"` // the Burst that the client at the percentile needs
}

// buckets returns a token bucket for each rate that is of use. A higher rate is of none if the Burst is not
// smaller, nor a rate at which a bucket fills in more than a part of the recording.
func (s *study) buckets(o *options) (all []bucket) {
	for i, rate := range bucketRates {
		d := make(distribution, len(s.bursts.clients))
		for client := range s.bursts.clients {
			d[client] = s.bursts.need(client, i)
		}
		slices.Sort(d)
		base := d.percentile(o.percentile)
		at := atLeast(int64(min(math.Ceil(float64(base)*o.headroom), math.MaxInt64/2)))
		if base == 0 || at == len(candidates) {
			continue
		}
		burst := candidates[at]
		if len(all) > 0 && burst >= all[len(all)-1].Limit.Burst {
			break
		}
		if float64(burst)/float64(rate)*float64(time.Minute) > float64(s.span())/enoughWindows {
			continue
		}
		clients := d.above(burst)
		all = append(all, bucket{sash.PerMinute(rate).TokenBucket(burst), clients, output.Share(int64(clients), int64(len(d))), base})
	}
	return all
}
