package sashredis

import (
	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

func init() {
	bridge.Export(&bridge.Internals[Limiter, Option, Script]{
		Script:       scriptOf,
		Each:         (*Limiter).decideEach,
		PolicyLimits: policyLimits,
		CheckLimits:  validate,
		LocalClock:   func(clock sash.Clock) Option { return optionFunc(func(c *config) { c.local = clock }) },
		Inside:       (*Limiter).inside,
		FailUse:      (*Limiter).failUse,
	})
}

// inside returns what tests see of l. They are in a module of their own, with the clients that they
// need.
func (l *Limiter) inside() (in bridge.Inside) {
	for i := range l.flights.shards {
		s := &l.flights.shards[i]
		s.mu.Lock()
		in.Flights += len(s.waiting)
		for _, waiting := range s.waiting {
			in.Waiting += len(waiting)
		}
		s.mu.Unlock()
	}
	in.Queued, _, _ = l.queues.Size()
	in.Closed = l.closing.Err() != nil
	return in
}

// failUse asks the lease of key for n units, again and again, until it has ended.
func (l *Limiter) failUse(key string, n int64) {
	const most = 1 << 20 // if it never seems to end, the caller's check fails
	e, _ := l.lessees.byKey.Load(key)
	held := e.lease.Load()
	for i := 0; i < most && held != nil && held.left.Load() != ended; i++ {
		held.use(n)
	}
}
