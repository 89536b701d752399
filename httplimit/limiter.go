package httplimit

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Limiter holds policies and the state of their keys. Make one with [New], and put it
// before a handler with [Limiter.Middleware]. All its methods are safe for concurrent
// use.
//
// It has one [sash.Limiter] for all policies. Each key consists of a policy and an
// identity. So a request can be charged to all its policies at one instant.
type Limiter struct {
	config
	policies     []*policy // the enforced ones, then the shadows
	firstShadow  int       // index in policies
	routes       []*route
	byHost       bool        // whether a route has a host
	routeCache   *routeCache // nil: the only route is every request
	limiter      *sash.Limiter
	ownLimitsFor func(string) []sash.Limit // limits of keys, instead of their policy's; nil: none
	secret       cipher.Block              // of fingerprints
	calls        sync.Pool
	mayQueue     bool // whether a policy has a Queue
	waits        waitQueues
	store        Store // decides instead of limiter, which is nil then; nil: none
}

// New returns a limiter with every [Policy] among options. The error lists all faults
// of all of them, and wraps [sash.ErrInvalidOption], [sash.ErrInvalidLimit] or
// [sash.ErrNoLimit].
//
// New starts a goroutine that evicts idle keys. [Limiter.Close] ends it. With [WithStore], it
// opens the store instead.
func New(options ...Option) (*Limiter, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c, secret: newSecret()}
	l.calls.New = func() any { return &call{Limiter: l} }
	l.compile(c.policies)
	inspection := bridge.Inspect(l.forSash)
	l.ownLimitsFor, _ = inspection.LimitsFor.(func(string) []sash.Limit)
	if l.openStore != nil {
		err = l.open()
	} else {
		l.limiter, err = sash.New(l.sashOptions()...)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Must returns l, and panics if err is not nil. It is for policies that are written in
// the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// compile compiles policies and their routes.
func (l *Limiter) compile(policies []Policy) {
	var enforced, shadows []Policy
	for _, p := range policies {
		if p.Shadow {
			shadows = append(shadows, p)
		} else {
			enforced = append(enforced, p)
		}
	}
	l.firstShadow = len(enforced)
	for i, p := range append(enforced, shadows...) {
		made := newPolicy(p, i, l.routeFor(p.Pattern))
		l.policies, l.mayQueue = append(l.policies, made), l.mayQueue || made.queues()
	}
	if len(l.routes) > 1 || l.routes[0].mux != nil {
		l.routeCache = new(routeCache)
	}
}

// routeFor returns the index of the route of a valid pattern. It appends the route if
// no policy before has had that pattern.
func (l *Limiter) routeFor(pattern string) int {
	i := slices.IndexFunc(l.routes, func(t *route) bool { return t.pattern == pattern })
	if i >= 0 {
		return i
	}
	t, err := newRoute(pattern, l.foldPaths)
	if err != nil {
		panic(err) // validatePolicies has made the same route
	}
	l.routes = append(l.routes, t)
	l.byHost = l.byHost || t.hosted
	return len(l.routes) - 1
}

// sashOptions returns the options of the sash.Limiter. Its own limits are those of the
// first policy, since keys under a limiter's own limits have the smallest entries. The
// keys of other policies get their limits from limitsFor.
func (l *Limiter) sashOptions() []sash.Option {
	options := []sash.Option{sash.WithSweepInterval(l.janitorInterval()), sash.WithSizeHint(l.sizeHint)}
	if l.clock != nil {
		options = append(options, sash.WithClock(l.clock))
	}
	options = append(options, l.forSash...)
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

// limitsFor returns the limits of a key: those of the caller's sash.WithLimitsFor, else
// those of its policy. None means the limits of the first policy.
func (l *Limiter) limitsFor(key string) []sash.Limit {
	if l.ownLimitsFor != nil {
		if limits := l.ownLimitsFor(key); len(limits) > 0 {
			return limits
		}
	}
	if i, _, _, ok := cutKeyPrefix(key); ok && 0 < i && i < len(l.policies) {
		return l.policies[i].Limits
	}
	return nil
}

// janitorInterval returns how often to sweep. The default is that of sash for the
// longest window of all policies, since sash itself knows only the limits of the first
// policy.
func (l *Limiter) janitorInterval() time.Duration {
	if l.sweepInterval != 0 {
		return l.sweepInterval
	}
	var longest time.Duration
	for _, p := range l.policies {
		for _, limit := range p.Limits {
			_, window := unitsAndWindow(limit)
			longest = max(longest, window)
		}
	}
	return bridge.SweepInterval(longest)
}

// Sash returns the [sash.Limiter] below, to peek at a key, reset it, or give it limits
// of its own. Its keys are those of [Limiter.KeyFor]. Clients are told of a key's own
// limits under the name of the policy.
//
// [sash.Limiter.Reconfigure] replaces the limits of the only policy. If there are
// several, it changes nothing and returns an error that wraps [errors.ErrUnsupported].
//
// With [WithStore], there is none, and Sash returns nil: see [Limiter.Store].
func (l *Limiter) Sash() *sash.Limiter { return l.limiter }

// Policies returns the policies in the order in which [New] was given them. If there is only
// one, its Limits are those of the latest [sash.Limiter.Reconfigure]. The caller may change the
// slice and the Limits.
func (l *Limiter) Policies() []Policy {
	policies := slices.Clone(l.config.policies)
	for i := range policies {
		policies[i].Limits = slices.Clone(policies[i].Limits)
	}
	if len(policies) == 1 && l.limiter != nil {
		policies[0].Limits = l.limiter.Limits()
	}
	return policies
}

// KeyFor returns the key of r under the policy of that name, for the methods of
// [Limiter.Sash] or of the store. ok is false if there is no such policy, or if the identity cannot be
// told. KeyFor does not check the policy's Pattern and does not call its Skip.
func (l *Limiter) KeyFor(policy string, r *http.Request) (key string, ok bool) {
	for _, p := range l.policies {
		if p.Name == policy {
			var c call
			if _, ok = c.appendKey(p, r); ok && l.store != nil {
				return p.storedKey(string(c.keys)), true
			}
			return string(c.keys), ok
		}
	}
	return "", false
}

// ParseKey returns the policy's name and the identity in a key of [Limiter.Sash], or of the
// store. Such keys are returned by [Limiter.KeyFor], and passed to the functions of
// [sash.WithLimitsFor] and [sash.WithObserver]. ok is false if key is not one of l's,
// or if its identity was longer than 128 bytes, since the key then holds only a digest.
func (l *Limiter) ParseKey(key string) (policy, identity string, ok bool) {
	if l.openStore != nil {
		p, identity, digest := l.cutStored(key)
		if p == nil || digest {
			return "", "", false
		}
		return p.Name, identity, true
	}
	number, identity, digest, ok := cutKeyPrefix(key)
	if !ok || digest || number >= len(l.policies) {
		return "", "", false
	}
	return l.policies[number].Name, identity, true
}

// Close ends the goroutine that evicts idle keys. Every other method still works
// afterwards. The error is always nil.
//
// With [WithStore], it closes the store, and returns the error of that.
func (l *Limiter) Close() error {
	if l.store != nil {
		return l.store.Close()
	}
	return l.limiter.Close()
}
