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
		LocalClock:   func(clock sash.Clock) Option { return optionFunc(func(c *config) { c.local = clock }) },
		Inside:       func(l *Limiter) bridge.Insider { return inside{l} },
	})
}

// An inside is what tests see of a Limiter. They are in a module of their own, with the clients
// that they need.
type inside struct{ *Limiter }

// Flights returns for how many keys a round trip is under way, and how many calls wait for one.
func (l inside) Flights() (keys, calls int) {
	for i := range l.flights.shards {
		s := &l.flights.shards[i]
		s.mu.Lock()
		keys += len(s.waiting)
		for _, waiting := range s.waiting {
			calls += len(waiting)
		}
		s.mu.Unlock()
	}
	return keys, calls
}

// Queued returns how many calls wait for their keys.
func (l inside) Queued() int {
	waiters, _, _ := l.queues.Size()
	return waiters
}

// Closed reports whether Close has begun.
func (l inside) Closed() bool { return l.closing.Err() != nil }

// FailUse asks the lease of key for n units, again and again, until it has ended.
func (l inside) FailUse(key string, n int64) {
	const most = 1 << 20 // if it never seems to end, the caller's check fails
	e, _ := l.lessees.byKey.Load(key)
	held := e.lease.Load()
	for i := 0; i < most && held != nil && held.left.Load() != ended; i++ {
		held.use(n)
	}
}
