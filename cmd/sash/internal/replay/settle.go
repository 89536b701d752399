package replay

import (
	"math"
	"time"

	"github.com/seed-30da4c49/sash"
)

// pending holds the reservations that are not settled, in the order in which they were
// made. They are due in the same order, because all wait equally long.
type pending struct {
	wait  time.Duration
	queue []unsettled
}

type unsettled struct {
	due         int64
	reservation sash.Reservation
	cost        int64
}

// add adds a reservation made at an instant, with its actual cost.
func (p *pending) add(at int64, r sash.Reservation, cost int64) {
	due := at + int64(p.wait)
	if due < at {
		due = math.MaxInt64
	}
	p.queue = append(p.queue, unsettled{due, r, cost})
}

// settle settles the reservations due by an instant. For each it sets the clock to the time
// at which it is due.
func (p *pending) settle(by int64, clock *sash.ManualClock) {
	for len(p.queue) > 0 && p.queue[0].due <= by {
		first := p.queue[0]
		p.queue = p.queue[1:]
		clock.Set(first.due)
		first.reservation.Commit(first.cost)
	}
}
