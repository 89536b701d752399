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
		Inside:       func(l *Limiter) bridge.Insider { return inside{l} },
	})
}

// An inside is what tests see of a Limiter. They are in a module of their own, with the clients
// that they need.
type inside struct{ *Limiter }

// SetLocalClock makes l take clock for the time of this process. l must not be in use.
func (l inside) SetLocalClock(clock sash.Clock) {
	l.local = clock
	if l.away.clock != nil {
		l.away.clock.local = clock
	}
}

// Waiting returns how many calls wait for a round trip that is under way.
func (l inside) Waiting() (n int) {
	for i := range l.flights.shards {
		s := &l.flights.shards[i]
		s.mu.Lock()
		for _, calls := range s.waiting {
			n += len(calls)
		}
		s.mu.Unlock()
	}
	return n
}

// Flights returns for how many keys a round trip is under way.
func (l inside) Flights() (n int) {
	for i := range l.flights.shards {
		s := &l.flights.shards[i]
		s.mu.Lock()
		n += len(s.waiting)
		s.mu.Unlock()
	}
	return n
}

// Queued returns how many calls wait for key.
func (l inside) Queued(key string) int {
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	if queue := l.turns.byKey[key]; queue != nil {
		return queue.calls
	}
	return 0
}

// Closed reports whether Close has begun.
func (l inside) Closed() bool { return l.lessees.closed.Load() }

// FailUse asks the lease of key for n units, again and again, until it has ended.
func (l inside) FailUse(key string, n int64) {
	const most = 1 << 20 // if it never seems to end, the caller's check fails
	e, _ := l.lessees.byKey.Load(key)
	held := e.lease.Load()
	for i := 0; i < most && held != nil && held.left.Load() != ended; i++ {
		held.use(n)
	}
}
