package traffic

import "github.com/seed-30da4c49/sash"

// Trailing keeps the sum of what each client has spent in the window of a limit
// that ends now, and remembers where there was most. It is exact, whatever the
// limit's algorithm, so it says how far past the limit a client came.
type Trailing struct {
	Limit   sash.Limit
	clients map[uint32]*spending

	Most   int64 // units in one window of one client, and 0 if none were spent
	Client uint32
	End    int64 // the first instant at which that window held them
}

// spending is what one client has spent in its window.
type spending struct {
	live []spent // oldest first
	sum  int64
}

type spent struct{ at, units int64 }

// NewTrailing returns one of nothing spent yet.
func NewTrailing(l sash.Limit) *Trailing {
	return &Trailing{Limit: l, clients: make(map[uint32]*spending)}
}

// Add adds units spent by an event, none of which is older than those before it.
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
