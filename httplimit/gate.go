package httplimit

import (
	"context"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// A gate is the place where the requests of one key wait. It exists while a request
// waits, and while the key is held back. Its fields are guarded by the Transport's mu.
type gate struct {
	hold     hold
	requests int // number of requests that wait

	// changed ends when the key is held back, or held for longer. The requests that wait
	// then start over. Otherwise the Limiter would admit them while the key is held back.
	// Both are nil while none waits.
	changed context.Context
	notify  context.CancelFunc // ends changed
}

// acquireGate adds a request to those that wait at the gate of key.
func (t *Transport) acquireGate(key string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gate(key)
	if g.requests++; g.requests == 1 {
		g.changed, g.notify = context.WithCancel(context.Background())
	}
	return g
}

// releaseGate removes a request from those that wait at g, the gate of key.
func (t *Transport) releaseGate(key string, g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.requests--; g.requests == 0 {
		g.notify()
		g.changed, g.notify = nil, nil
	}
	if g.idle() {
		t.endHold(key, g)
	}
}

// holdOf returns the hold of g, and the context that ends when it changes.
func (t *Transport) holdOf(g *gate) (h hold, news context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.hold, g.changed
}

// gate returns the gate of key, and makes one if there is none. It must be called with
// mu held.
func (t *Transport) gate(key string) *gate {
	g := t.gates[key]
	if g == nil {
		g = new(gate)
		if t.gates == nil {
			t.gates, t.perDomain = map[string]*gate{}, map[string]int{}
		}
		t.gates[key] = g
	}
	return g
}

// idle reports whether g is equivalent to no gate. It must be called with mu held.
func (g *gate) idle() bool { return g.requests == 0 && g.hold.left() == 0 }

// holdBack holds key back for d from now. It never shortens a hold, since responses may
// arrive in another order than the server has sent them.
func (t *Transport) holdBack(key string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g != nil && g.hold.left() >= d {
		return
	}
	if g == nil || g.hold == (hold{}) {
		if !t.ensureRoom(t.domain(key), d) {
			return
		}
		g = t.gate(key)
		t.holds++
		t.perDomain[t.domain(key)]++
	}
	// Set the hold before the notification, and both under mu: a request that starts over
	// must find the new hold and the context that follows it.
	clock := t.clock()
	g.hold = hold{clock, window.Plus(clock.Now(), int64(d))}
	if g.requests > 0 {
		g.notify()
		g.changed, g.notify = context.WithCancel(context.Background())
	}
}

// domain returns the domain of key, by which the holds of one owner are bounded.
func (t *Transport) domain(key string) string {
	if t.Key != nil {
		return key
	}
	return domainOf(key)
}

// ensureRoom makes room for one more hold, of duration d and in domain, and reports whether
// there is any. It must be called with mu held.
//
// It purges the holds that have passed whenever there are twice as many holds as it
// left the last time. So the cost for each new hold is a few visits, amortized. At
// MaxHeld holds, or at half of it in one domain, it visits all of them each time, and ends
// the hold that would pass first: of that domain, if it is the one that is full. So the
// names of one domain end no hold of others before they are half of all.
func (t *Transport) ensureRoom(domain string, d time.Duration) bool {
	const minPurgeAt = 32
	limit := t.MaxHeld
	if limit <= 0 {
		limit = defaultMaxHeld
	}
	each := max(limit/2, 1)
	if t.holds < min(max(t.purgeAt, minPurgeAt), limit) && t.perDomain[domain] < each {
		return true
	}
	full := t.perDomain[domain] >= each
	var first *gate // whose hold passes first, if that is before the new one
	var firstKey string
	for key, g := range t.gates {
		switch left := g.hold.left(); {
		case left == 0:
			t.endHold(key, g)
		case left < d && (!full || t.domain(key) == domain):
			first, firstKey, d = g, key, left
		}
	}
	t.purgeAt = 2 * t.holds
	if t.holds < limit && t.perDomain[domain] < each {
		return true
	}
	if first != nil {
		t.endHold(firstKey, first)
	}
	return first != nil
}

// endHold ends the hold of g, and deletes g unless requests wait there. Those requests
// have read their hold before, and keep waiting for it. It must be called with mu held.
func (t *Transport) endHold(key string, g *gate) {
	if g.hold != (hold{}) {
		g.hold = hold{}
		t.holds--
		domain := t.domain(key)
		if t.perDomain[domain]--; t.perDomain[domain] == 0 {
			delete(t.perDomain, domain)
		}
	}
	if g.requests == 0 {
		delete(t.gates, key)
	}
}

// heldFor returns for how long key is still held back.
func (t *Transport) heldFor(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g == nil {
		return 0
	}
	left := g.hold.left()
	if g.idle() {
		t.endHold(key, g)
	}
	return left
}
