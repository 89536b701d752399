package replay

import (
	"slices"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// pending holds what is settled later than it is decided, by the clock of the log.
//
// Invariant: the queue is in the order of the instants at which its items are due, and of one instant in
// the order in which they were added.
type pending[T any] struct {
	settle func(T)
	queue  []due[T]
}

type due[T any] struct {
	at   int64
	item T
}

// add adds an item that is due some time after an instant, in nanoseconds.
func (p *pending[T]) add(at, wait int64, item T) {
	d := due[T]{window.Plus(at, wait), item}
	// Most items are due after all that wait.
	i := len(p.queue)
	for i > 0 && p.queue[i-1].at > d.at {
		i--
	}
	p.queue = slices.Insert(p.queue, i, d)
}

// settleBy settles the items due by an instant. For each it sets the clock to the time at which it is due.
func (p *pending[T]) settleBy(by int64, clock *sash.ManualClock) {
	for len(p.queue) > 0 && p.queue[0].at <= by {
		first := p.queue[0]
		p.queue = p.queue[1:]
		clock.Set(first.at)
		p.settle(first.item)
	}
}
