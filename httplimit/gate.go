package httplimit

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// Gates are where requests wait, each at the gate of its key, and until when keys are held back. The zero
// gates are ready to use.
type gates struct {
	mu        sync.Mutex
	byKey     map[string]*gate // where a request waits; guarded by mu, as are the fields below
	holds     map[string]hold  // by key, passed or not
	perDomain map[string]int   // number of these, by domain
	purgeAt   int              // number of holds at which those that have passed are purged
}

// A gate is where the requests of one key wait. Its fields are guarded by the mu of the gates.
type gate struct {
	requests int // number of requests that wait

	// changed ends when the key is held back, or held for longer: then the requests that wait start over,
	// so that the Limiter does not admit them.
	changed context.Context
	notify  context.CancelFunc // ends changed
}

// A hold keeps a key of a domain back until an instant.
type hold struct {
	until  int64
	domain string
}

// notHeld stands for the until of a key that is not held back. It is before any instant that a clock shows.
const notHeld = math.MinInt64

// timeLeft returns how much time is left until an instant, at least 0.
func timeLeft(clock sash.Clock, until int64) time.Duration {
	if until == notHeld {
		return 0 // as for most keys: the clock is not read
	}
	return time.Duration(max(window.Plus(until, -clock.Now()), 0))
}

// enter adds a request to those that wait at the gate of key.
func (s *gates) enter(key string) *gate {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.byKey[key]
	if g == nil {
		if s.byKey == nil {
			s.byKey = map[string]*gate{}
		}
		g = new(gate)
		g.changed, g.notify = context.WithCancel(context.Background())
		s.byKey[key] = g
	}
	g.requests++
	return g
}

// leave removes a request from those that wait at g, the gate of key.
func (s *gates) leave(key string, g *gate, clock sash.Clock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.requests--; g.requests == 0 {
		g.notify() // frees changed; none waits on it any more
		delete(s.byKey, key)
	}
	s.left(key, clock)
}

// holdOf returns until when key, whose gate is g, is held, and the context that ends when that changes.
func (s *gates) holdOf(key string, g *gate) (until int64, changed context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until(key), g.changed
}

// heldFor returns for how long key is still held back.
func (s *gates) heldFor(key string, clock sash.Clock) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left(key, clock)
}

// until returns until when key is held back, or notHeld. It must be called with mu held.
func (s *gates) until(key string) int64 {
	if h, held := s.holds[key]; held {
		return h.until
	}
	return notHeld
}

// left returns for how long key is still held. It ends a hold that has passed, without waiting for a
// purge, unless a request waits. It must be called with mu held.
func (s *gates) left(key string, clock sash.Clock) time.Duration {
	left := timeLeft(clock, s.until(key))
	if left == 0 && s.byKey[key] == nil {
		s.endHold(key)
	}
	return left
}

// hold holds key, of a domain, back for d from now, unless that shortens a hold: responses may arrive in
// another order than the server has sent them. Of all keys, it holds no more than most.
func (s *gates) hold(key, domain string, clock sash.Clock, d time.Duration, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock.Now()
	former, until := s.until(key), window.Plus(now, int64(d))
	if former >= until {
		return
	}
	if s.holds == nil {
		s.holds, s.perDomain = map[string]hold{}, map[string]int{}
	}
	// Set the hold before the notification, and both under mu: a request that starts over must find the
	// new hold and the context that follows it.
	s.holds[key] = hold{until, domain}
	if former == notHeld {
		s.perDomain[domain]++
		s.bound(key, now, most) // which may end it
	}
	if g := s.byKey[key]; g != nil && s.until(key) == until {
		g.notify()
		g.changed, g.notify = context.WithCancel(context.Background())
	}
}

// bound keeps the number of holds down to most, and frees the memory of those that have passed, after the
// one of the key added has begun. It must be called with mu held.
func (s *gates) bound(added string, now int64, most int) {
	const minPurgeAt = 32
	// A purge visits all holds. So purge when there are more than twice as many as the last purge has
	// left, which costs each new hold a few visits, amortized. If there are more than there may be, purge
	// each time, and end one.
	if len(s.holds) <= min(max(s.purgeAt, minPurgeAt), most) {
		return
	}
	for key, h := range s.holds {
		if h.until <= now {
			s.endHold(key)
		}
	}
	s.purgeAt = 2 * (len(s.holds) - 1)
	if len(s.holds) <= most {
		return
	}
	// In the domain with the most holds, the one that would pass first ends. So the names of one domain
	// end no holds of domains that have fewer. The new one ends if it is among them and none passes before.
	fullest := 0
	for _, n := range s.perDomain {
		fullest = max(fullest, n)
	}
	first, until := added, s.holds[added].until
	stays := s.perDomain[s.holds[added].domain] < fullest // the new one, as its domain has fewer
	for key, h := range s.holds {
		if (stays || h.until < until) && s.perDomain[h.domain] == fullest {
			first, until, stays = key, h.until, false
		}
	}
	s.endHold(first)
}

// endHold ends the hold of key, if any. Requests that have read it keep waiting. mu must be held.
func (s *gates) endHold(key string) {
	if h, held := s.holds[key]; held {
		delete(s.holds, key)
		if s.perDomain[h.domain]--; s.perDomain[h.domain] == 0 {
			delete(s.perDomain, h.domain)
		}
	}
}
