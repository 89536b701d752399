package httplimit

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
	"github.com/seed-30da4c49/sash/internal/window"
)

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
		g.notify() // frees changed; none waits on it any more
		g.changed, g.notify = nil, nil
	}
	if t.idle(g) {
		t.endHold(key, g)
	}
}

// holdOf returns until when g is held, and the context that ends when that changes.
func (t *Transport) holdOf(g *gate) (until int64, news context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.until, g.changed
}

// idle reports whether g is equivalent to no gate. It must be called with mu held.
func (t *Transport) idle(g *gate) bool { return g.requests == 0 && t.left(g.until) == 0 }

// left returns how much time is left until an instant, at least 0.
func (t *Transport) left(until int64) time.Duration {
	if until == notHeld {
		return 0 // as for most keys: the clock is not read
	}
	return time.Duration(max(window.Plus(until, -t.clock().Now()), 0))
}

// waitHold blocks until that instant. If the deadline of ctx comes first, it returns a TurnError at
// once.
func (t *Transport) waitHold(ctx context.Context, until int64) error {
	for left := t.left(until); left > 0; left = t.left(until) { // a manual clock may go back
		if deadline, ok := ctx.Deadline(); ok && left > time.Until(deadline) {
			return &TurnError{RetryAfter: left, Held: true, Err: context.DeadlineExceeded}
		}
		blockUntil(ctx, t.clock(), until, nil, nil, nil)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
		}
	}
	return nil
}

// gate returns the gate of key, and makes one if there is none. It must be called with
// mu held.
func (t *Transport) gate(key string) *gate {
	g := t.gates[key]
	if g == nil {
		g = &gate{until: notHeld}
		if t.gates == nil { // the zero Transport is ready to use
			t.gates, t.perDomain = map[string]*gate{}, map[string]int{}
		}
		t.gates[key] = g
	}
	return g
}

// holdBack holds key back for d from now. It never shortens a hold, since responses may
// arrive in another order than the server has sent them.
func (t *Transport) holdBack(key string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock().Now()
	until := window.Plus(now, int64(d))
	g := t.gates[key]
	if g != nil && g.until >= until {
		return
	}
	if g == nil || g.until == notHeld {
		domain := t.domain(key)
		if !t.ensureRoom(domain, now, until) {
			return
		}
		g = t.gate(key)
		g.domain = domain
		t.holds++
		t.perDomain[domain]++
	}
	// Set the hold before the notification, and both under mu: a request that starts over
	// must find the new hold and the context that follows it.
	g.until = until
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
	host, _, _ := strings.Cut(key, "/") // what follows is a method
	return hostname.Domain(host)
}

// ensureRoom makes room for one more hold, in domain and until then, and reports whether
// there is any. It must be called with mu held.
//
// It purges the holds that have passed whenever there are twice as many holds as it
// left the last time. So the cost for each new hold is a few visits, amortized. At
// MaxHeld holds, it visits all of them each time, and ends one.
func (t *Transport) ensureRoom(domain string, now, until int64) bool {
	const minPurgeAt = 32
	limit := t.MaxHeld
	if limit <= 0 {
		limit = defaultMaxHeld
	}
	// Purge only now and then: a purge visits all gates.
	if t.holds < min(max(t.purgeAt, minPurgeAt), limit) {
		return true
	}
	for key, g := range t.gates {
		if g.until <= now {
			t.endHold(key, g)
		}
	}
	t.purgeAt = 2 * t.holds
	return t.holds < limit || t.endFirst(domain, until)
}

// endFirst makes room for a new hold, which is in domain and would pass at until. It looks at the
// domain with the most holds, the new one included, and there at the hold that would pass first. If
// that is an old one, it ends it. If that is the new one, it reports false. So the names of one domain
// end no holds of domains that have fewer. It must be called with mu held.
func (t *Transport) endFirst(domain string, until int64) bool {
	t.perDomain[domain]++ // counts the new hold, until this returns
	defer func() { t.removeFrom(domain) }()
	most := 0
	for _, n := range t.perDomain {
		most = max(most, n)
	}
	stays := t.perDomain[domain] < most // the new hold: only an old one of a fuller domain may end
	var first *gate
	var firstKey string
	for key, g := range t.gates {
		if g.until != notHeld && (stays || g.until < until) && t.perDomain[g.domain] == most {
			first, firstKey, until, stays = g, key, g.until, false
		}
	}
	if first != nil {
		t.endHold(firstKey, first)
	}
	return first != nil
}

// removeFrom counts one hold less in domain. It must be called with mu held.
func (t *Transport) removeFrom(domain string) {
	if t.perDomain[domain]--; t.perDomain[domain] == 0 {
		delete(t.perDomain, domain)
	}
}

// endHold ends the hold of g, and deletes g unless requests wait there. Those requests
// have read their hold before, and keep waiting for it. It must be called with mu held.
func (t *Transport) endHold(key string, g *gate) {
	if g.until != notHeld {
		g.until = notHeld
		t.holds--
		t.removeFrom(g.domain)
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
	left := t.left(g.until)
	if t.idle(g) { // so a key that is asked for again does not wait for a purge
		t.endHold(key, g)
	}
	return left
}
