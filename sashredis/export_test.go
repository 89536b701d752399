package sashredis

import "github.com/seed-30da4c49/sash"

// SetLocalClock makes l take clock for the time of this process. l must not be in use.
func (l *Limiter) SetLocalClock(clock sash.Clock) {
	l.local = clock
	if l.away.clock != nil {
		l.away.clock.local = clock
	}
}

// Waiting returns how many calls wait for a round trip that is under way.
func (l *Limiter) Waiting() (n int) {
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
func (l *Limiter) Flights() (n int) {
	for i := range l.flights.shards {
		s := &l.flights.shards[i]
		s.mu.Lock()
		n += len(s.waiting)
		s.mu.Unlock()
	}
	return n
}

// Queued returns how many calls wait for key.
func (l *Limiter) Queued(key string) int {
	l.turns.mu.Lock()
	defer l.turns.mu.Unlock()
	if queue := l.turns.byKey[key]; queue != nil {
		return queue.calls
	}
	return 0
}

// Closed reports whether Close has begun.
func (l *Limiter) Closed() bool { return l.lessees.closed.Load() }

// FailUse asks the lease of key for n units, again and again, until it has ended.
func (l *Limiter) FailUse(key string, n int64) {
	const most = 1 << 20 // if it never seems to end, the caller's check fails
	e, _ := l.lessees.byKey.Load(key)
	held := e.lease.Load()
	for i := 0; i < most && held != nil && held.left.Load() != ended; i++ {
		held.use(n)
	}
}

// TakeScript returns the script that takes under limits of those kinds.
func TakeScript(kinds string) string { return scriptsOf[kinds].take.text }
