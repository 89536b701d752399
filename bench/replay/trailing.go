package main

import "github.com/seed-30da4c49/sash"

// trailing keeps the sum of what each client has spent in the window of a limit
// that ends now, and remembers where there was most. It is exact, whatever the
// limit's algorithm, so it says how far past the limit a client came.
type trailing struct {
	limit   sash.Limit
	clients map[uint32]*spending

	most   int64 // units in one window of one client, and 0 if none were spent
	client uint32
	end    int64 // the first instant at which that window held them
}

// spending is what one client has spent in its window.
type spending struct {
	live []spent // oldest first
	sum  int64
}

type spent struct{ at, units int64 }

func newTrailing(l sash.Limit) *trailing {
	return &trailing{limit: l, clients: make(map[uint32]*spending)}
}

// add adds units spent by an event, none of which is older than those before it.
func (t *trailing) add(e event, units int64) {
	c := t.clients[e.client]
	if c == nil {
		c = &spending{}
		t.clients[e.client] = c
	}
	c.live = append(c.live, spent{e.at, units})
	c.sum += units
	for uint64(e.at)-uint64(c.live[0].at) >= uint64(t.limit.Window) { // at most 64 bits apart
		c.sum -= c.live[0].units
		c.live = c.live[1:]
	}
	if c.sum > t.most {
		t.most, t.client, t.end = c.sum, e.client, e.at
	}
}
