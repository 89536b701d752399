package httplimit

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Gates are where requests wait, each at the gate of its key. The zero gates are ready to use.
type gates struct {
	mu        sync.Mutex
	byKey     map[string]*gate // guarded by mu, as are the fields below
	holds     int              // number of gates with a hold, passed or not
	perDomain map[string]int   // of these, by domain
	purgeAt   int              // number of holds at which those that have passed are purged
}

// A gate is where the requests of one key wait. It exists while a request waits, and while the key is
// held back. Its fields are guarded by the mu of the gates.
type gate struct {
	until    int64  // instant until which the key is held back, or notHeld
	domain   string // of the hold
	requests int    // number of requests that wait

	// changed ends when the key is held back, or held for longer: then the requests that wait start over,
	// so that the Limiter does not admit them. Both are nil while none waits.
	changed context.Context
	notify  context.CancelFunc // ends changed
}

// notHeld stands for a key that is not held back. It is before any instant that a clock shows.
const notHeld = math.MinInt64

// timeLeft returns how much time is left until an instant, at least 0.
func timeLeft(clock sash.Clock, until int64) time.Duration {
	if until == notHeld {
		return 0 // as for most keys: the clock is not read
	}
	return time.Duration(max(window.Plus(until, -clock.Now()), 0))
}

// gate returns the gate of key, and makes one if there is none. It must be called with mu held.
func (s *gates) gate(key string) *gate {
	g := s.byKey[key]
	if g == nil {
		g = &gate{until: notHeld}
		if s.byKey == nil {
			s.byKey, s.perDomain = map[string]*gate{}, map[string]int{}
		}
		s.byKey[key] = g
	}
	return g
}

// enter adds a request to those that wait at the gate of key.
func (s *gates) enter(key string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gate(key)
	if g.requests++; g.requests == 1 {
		g.changed, g.notify = context.WithCancel(context.Background())
	}
	return g
}

// leave removes a request from those that wait at g, the gate of key.
func (s *gates) leave(key string, g *gate, clock sash.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.requests--; g.requests == 0 {
		g.notify() // frees changed; none waits on it any more
		g.changed, g.notify = nil, nil
	}
	s.left(key, g, clock)
}

// holdOf returns until when g is held, and the context that ends when that changes.
func (s *gates) holdOf(g *gate) (until int64, changed context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.until, g.changed
}

// heldFor returns for how long key is still held back.
func (s *gates) heldFor(key string, clock sash.Clock) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.byKey[key]; g != nil {
		return s.left(key, g, clock)
	}
	return 0
}

// left returns for how long g, the gate of key, is still held. It deletes g, without waiting for a purge,
// if that is equivalent to no gate. It must be called with mu held.
func (s *gates) left(key string, g *gate, clock sash.Clock) time.Duration {
	left := timeLeft(clock, g.until)
	if g.requests == 0 && left == 0 {
		s.endHold(key, g)
	}
	return left
}

// hold holds key, of a domain, back for d from now, unless that shortens a hold: responses may arrive in
// another order than the server has sent them. Of all keys, it holds no more than most.
func (s *gates) hold(key, domain string, clock sash.Clock, d time.Duration, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	until := window.Plus(now, int64(d))
	g := s.byKey[key]
	if g != nil && g.until >= until {
		return
	}
	if g == nil || g.until == notHeld {
		if !s.ensureRoom(domain, now, until, most) {
			return
		}
		g = s.gate(key)
		g.domain = domain
		s.holds++
		s.perDomain[domain]++
	}
	// Set the hold before the notification, and both under mu: a request that starts over must find the
	// new hold and the context that follows it.
	g.until = until
	if g.requests > 0 {
		g.notify()
		g.changed, g.notify = context.WithCancel(context.Background())
	}
}

// ensureRoom makes room for one more hold, in domain and until then, and reports whether there is any. It
// must be called with mu held.
func (s *gates) ensureRoom(domain string, now, until int64, most int) bool {
	const minPurgeAt = 32
	// A purge visits all gates. So purge when there are twice as many holds as the last purge has left,
	// which costs each new hold a few visits, amortized. If there are as many as there may be, purge each
	// time, and end one.
	if s.holds < min(max(s.purgeAt, minPurgeAt), most) {
		return true
	}
	for key, g := range s.byKey {
		if g.until <= now {
			s.endHold(key, g)
		}
	}
	s.purgeAt = 2 * s.holds
	return s.holds < most || s.endFirst(domain, until)
}

// endFirst makes room for a new hold, which is in domain and would pass at until. It looks at the domain
// with the most holds, the new one included, and there at the hold that would pass first. If that is an
// old one, it ends it. If that is the new one, it reports false. So the names of one domain end no holds
// of domains that have fewer. It must be called with mu held.
func (s *gates) endFirst(domain string, until int64) bool {
	s.perDomain[domain]++ // counts the new hold, until this returns
	defer func() { s.removeFrom(domain) }()
	most := 0
	for _, n := range s.perDomain {
		most = max(most, n)
	}
	stays := s.perDomain[domain] < most // the new hold: only an old one of a fuller domain may end
	var first *gate
	var firstKey string
	for key, g := range s.byKey {
		if g.until != notHeld && (stays || g.until < until) && s.perDomain[g.domain] == most {
			first, firstKey, until, stays = g, key, g.until, false
		}
	}
	if first != nil {
		s.endHold(firstKey, first)
	}
	return first != nil
}

// removeFrom counts one hold less in domain. It must be called with mu held.
func (s *gates) removeFrom(domain string) {
	if s.perDomain[domain]--; s.perDomain[domain] == 0 {
		delete(s.perDomain, domain)
	}
}

// endHold ends the hold of g, and deletes g unless requests wait there, which keep waiting for the hold
// that they have read. It must be called with mu held.
func (s *gates) endHold(key string, g *gate) {
	if g.until != notHeld {
		g.until = notHeld
		s.holds--
		s.removeFrom(g.domain)
	}
	if g.requests == 0 {
		delete(s.byKey, key)
	}
}
