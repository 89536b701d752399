package traffic

import "github.com/seed-30da4c49/sash"

// Trailing sums the units that each client has spent in the window of a limit that ends
// now, and records the greatest sum. It is exact for every algorithm, so it shows how far a
// client went past the limit.
type Trailing struct {
	Limit   sash.Limit
	clients map[uint32]*spending

	Most   int64 // the most units of one client in one window; 0 if none were spent
	Client uint32
	End    int64 // the first instant at which that window held them
}

// spending holds the units that one client has spent in its window.
type spending struct {
	live []spent // oldest first
	sum  int64
}

type spent struct{ at, units int64 }

// NewTrailing returns a Trailing with nothing spent.
func NewTrailing(l sash.Limit) *Trailing {
	return &Trailing{Limit: l, clients: make(map[uint32]*spending)}
}

// Add adds the units spent by an event. Events must be added in the order of time.
func (t *Trailing) Add(e Event, units int64) {
	c := t.clients[e.Client]
	if c == nil {
		c = &spending{}
		t.clients[e.Client] = c
	}
	c.live = append(c.live, spent{e.At, units})
	c.sum += units
	for uint64(e.At)-uint64(c.live[0].at) >= uint64(t.Limit.Window) { // at most 64 bits apart
		c.sum -= c.live[0].units
		c.live = c.live[1:]
	}
	if c.sum > t.Most {
		t.Most, t.Client, t.End = c.sum, e.Client, e.At
	}
}
