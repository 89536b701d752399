package main

import (
	"math"
	"time"

	"github.com/seed-30da4c49/sash"
)

// pending is the reservations that are not settled yet, in the order they were
// made in. It is the order in which they are due, since all wait equally long.
type pending struct {
	wait  time.Duration
	queue []unsettled
}

type unsettled struct {
	due         int64
	reservation sash.Reservation
	cost        int64
}

// add adds what was reserved at an instant, and will turn out to cost as much.
func (p *pending) add(at int64, r sash.Reservation, cost int64) {
	due := at + int64(p.wait)
	if due < at {
		due = math.MaxInt64
	}
	p.queue = append(p.queue, unsettled{due, r, cost})
}

// settle settles, each at its own time by the clock, what is due by an instant.
func (p *pending) settle(by int64, clock *sash.ManualClock) {
	for len(p.queue) > 0 && p.queue[0].due <= by {
		first := p.queue[0]
		p.queue = p.queue[1:]
		clock.Set(first.due)
		first.reservation.Commit(first.cost)
	}
}
