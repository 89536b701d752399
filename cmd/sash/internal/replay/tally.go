package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// tallies count the denials of the clients that were denied at least once. Clients are numbered in the
// order in which they appear.
type tallies map[uint32]*tally

// A tally counts the denials of one client under one policy.
type tally struct {
	denied      int64
	first, last int64 // times of the first and last denial

	minute, inMinute   int64 // the minute of the last denial, and denials in it
	busiest, inBusiest int64 // the minute of the most denials so far
}

// add counts a denial at an instant.
func (all tallies) add(client uint32, at int64) {
	c := all[client]
	if c == nil {
		c = &tally{first: at}
		all[client] = c
	}
	c.denied++
	c.last = at
	minute := traffic.Instant(at).Truncate(time.Minute).Unix()
	if minute != c.minute {
		c.minute, c.inMinute = minute, 0
	}
	if c.inMinute++; c.inMinute > c.inBusiest {
		c.busiest, c.inBusiest = minute, c.inMinute
	}
}

// top returns the n clients denied most. Of equals, the one denied first comes first. nameOf returns the
// name of a client, and counts are the numbers of their events.
func (all tallies) top(n int, nameOf func(uint32) string, counts []int64) []denials {
	clients := make([]uint32, 0, len(all))
	for c := range all {
		clients = append(clients, c)
	}
	// Clients are numbered in the order in which they appear, so the order is the same at each run.
	slices.SortFunc(clients, func(a, b uint32) int {
		x, y := all[a], all[b]
		return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(x.first, y.first), cmp.Compare(a, b))
	})
	top := []denials{}
	for _, c := range clients[:min(n, len(clients))] {
		top = append(top, all[c].denials(nameOf(c), counts[c]))
	}
	return top
}

func (c *tally) denials(name string, events int64) denials {
	return denials{
		Client:        name,
		Events:        events,
		Denied:        c.denied,
		First:         traffic.Instant(c.first),
		Last:          traffic.Instant(c.last),
		BusiestMinute: time.Unix(c.busiest, 0).UTC(),
		InBusiest:     c.inBusiest,
	}
}
