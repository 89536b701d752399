package httplimit

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Limiter holds policies and what has been charged to them. Make one with [New]
// and put it before a handler with [Limiter.Middleware]. All its methods are safe
// for concurrent use.
//
// It is one [sash.Limiter] for all policies, whose keys are a policy and an
// identity, so that a request can be charged to all its policies at one instant.
type Limiter struct {
	config
	policies     []*policy
	shadows      int // index of the first; they stand behind the others
	routes       []*route
	byHost       bool    // whether a route has a host
	memory       *memory // of routes; nil: there is only the one of every request
	limiter      *sash.Limiter
	observed     bool                      // whether an observer is given the keys of limiter
	ownLimitsFor func(string) []sash.Limit // of keys, before those of their policies; nil: none
	secret       [32]byte                  // of fingerprints
	calls        sync.Pool
}

// New returns a limiter with every [Policy] among options. The error names every
// fault of all of them, and wraps [sash.ErrInvalidOption], [sash.ErrInvalidLimit] or
// [sash.ErrNoLimit].
//
// It starts a goroutine that evicts idle keys; [Limiter.Close] ends it.
func New(options ...Option) (*Limiter, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c}
	_, _ = rand.Read(l.secret[:]) // never fails
	l.calls.New = func() any { return &call{Limiter: l} }
	shadow := func(p Policy) bool { return p.Shadow }
	given := slices.Concat(without(c.policies, shadow), only(c.policies, shadow))
	l.shadows = len(given) - len(only(given, shadow))
	for i, p := range given {
		l.policies = append(l.policies, newPolicy(p, i, l.routeFor(p.Pattern)))
	}
	if len(l.routes) > 1 || l.routes[0].mux != nil {
		l.memory = new(memory)
	}
	below := bridge.Inspect(l.below)
	l.observed = below.Observed
	l.ownLimitsFor, _ = below.LimitsFor.(func(string) []sash.Limit)
	if l.limiter, err = sash.New(l.sashOptions()...); err != nil {
		return nil, err
	}
	return l, nil
}

// Must returns l, and panics if err is not nil. It is for policies that are written
// in the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

func only(policies []Policy, want func(Policy) bool) (kept []Policy) {
	for _, p := range policies {
		if want(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

func without(policies []Policy, unwanted func(Policy) bool) []Policy {
	return only(policies, func(p Policy) bool { return !unwanted(p) })
}

// routeFor returns the index of the route of a pattern that has been validated.
func (l *Limiter) routeFor(pattern string) int {
	i := slices.IndexFunc(l.routes, func(t *route) bool { return t.pattern == pattern })
	if i >= 0 {
		return i
	}
	t, err := newRoute(pattern, l.foldPaths)
	if err != nil {
		panic(err) // validate has made one
	}
	l.routes = append(l.routes, t)
	l.byHost = l.byHost || t.hosted
	return len(l.routes) - 1
}

// sashOptions returns what the limiter below is made of. Its own limits are those
// of the first policy, whose keys so take the smallest cells; keys of the others
// have limits of their own.
func (l *Limiter) sashOptions() []sash.Option {
	options := []sash.Option{sash.WithSweepInterval(l.interval()), sash.WithSizeHint(l.sizeHint)}
	if l.clock != nil {
		options = append(options, sash.WithClock(l.clock))
	}
	options = append(options, l.below...)
	for _, limit := range l.policies[0].Limits {
		options = append(options, limit)
	}
	if len(l.policies) > 1 || l.ownLimitsFor != nil {
		options = append(options, sash.WithLimitsFor(l.limitsFor))
	}
	if n := len(l.policies); n > 1 {
		err := fmt.Errorf("httplimit: Reconfigure does not say which of %d policies the limits are for; "+
			"SetLimits gives limits to a key of KeyFor: %w", n, errors.ErrUnsupported)
		options = append(options, bridge.RefuseReconfigure(err).(sash.Option))
	}
	return options
}

func (l *Limiter) limitsFor(key string) []sash.Limit {
	if l.ownLimitsFor != nil {
		if limits := l.ownLimitsFor(key); len(limits) > 0 {
			return limits
		}
	}
	if i, _, _, ok := numberOf(key); ok && 0 < i && i < len(l.policies) {
		return l.policies[i].Limits
	}
	return nil
}

// interval returns how often to sweep: as sash would choose, but by the windows of
// all policies.
func (l *Limiter) interval() time.Duration {
	if l.sweepInterval != 0 {
		return l.sweepInterval
	}
	var longest time.Duration
	for _, p := range l.policies {
		for _, limit := range p.Limits {
			longest = max(longest, limit.Window)
		}
	}
	return min(max(longest/2, time.Second), 10*time.Minute)
}

// Sash returns the limiter below, to look at a key, forget it, or give it limits of
// its own: with a key that [Limiter.KeyFor] returns. Clients are told of such limits
// under the policy's name. [sash.Limiter.Reconfigure] replaces the limits of the only
// policy. If there are several, it changes nothing and returns an error that wraps
// [errors.ErrUnsupported].
func (l *Limiter) Sash() *sash.Limiter { return l.limiter }

// KeyFor returns the key of r under the policy of that name, for the methods of
// [Limiter.Sash]. It is false if there is no such policy or the identity cannot be
// told. Pattern and Skip are not asked.
func (l *Limiter) KeyFor(policy string, r *http.Request) (key string, ok bool) {
	for _, p := range l.policies {
		if p.Name == policy {
			var c call
			_, ok = c.identify(p, r)
			return string(c.keys), ok
		}
	}
	return "", false
}

// ParseKey returns the policy's name and the identity that a key of [Limiter.Sash] is
// made of: what [Limiter.KeyFor] and the functions of [sash.WithLimitsFor] and
// [sash.WithObserver] know as a key. It is false if key is not one of l's, or its
// identity was longer than 128 bytes, of which only a digest is kept.
func (l *Limiter) ParseKey(key string) (policy, identity string, ok bool) {
	number, identity, digest, ok := numberOf(key)
	if !ok || digest || number >= len(l.policies) {
		return "", "", false
	}
	return l.policies[number].Name, identity, true
}

// Close ends the goroutine that evicts idle keys. Every other method still works
// afterwards. The error is always nil.
func (l *Limiter) Close() error { return l.limiter.Close() }
