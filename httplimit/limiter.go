package httplimit

import (
	"crypto/cipher"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// A Limiter holds policies and the state of their keys. Make one with [New], and put it
// before a handler with [Limiter.Middleware]. All its methods are safe for concurrent
// use.
//
// It has one [sash.Limiter] for all policies. Each key consists of a policy and an
// identity. So a request can be charged to all its policies at one instant.
type Limiter struct {
	config
	table         atomic.Pointer[table] // never nil
	sections      sections              // while none is under way and they are closed, the table changes
	reconfiguring sync.RWMutex          // locked to replace the table
	limiter       *sash.Limiter
	ownLimitsFor  func(string) []sash.Limit // limits of keys, instead of their policy's; nil: none
	secret        cipher.Block              // of fingerprints
	calls         sync.Pool
	waits         waitQueues
	closing       chan struct{} // closed by Close
	closeOnce     sync.Once
	watched       atomic.Uintptr // the headerMap of the request that is watched; 0: none
	warned        atomic.Bool    // whether it has warned of a request that it decides twice
	store         Store          // decides instead of limiter, which is nil then; nil: none
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
	l := &Limiter{config: c, secret: newSecret(), closing: make(chan struct{})}
	l.calls.New = func() any { return &call{Limiter: l, stripe: l.sections.stripe()} }
	inspection := internals.Inspect(l.forSash)
	l.ownLimitsFor = inspection.LimitsFor
	if inspection.SweepInterval != 0 {
		l.sweepInterval = inspection.SweepInterval
	}
	t := newTable(c.policies, l.paths, l.ownLimitsFor, nil)
	l.table.Store(t)
	l.sections.init(t)
	if l.openStore != nil {
		err = l.open(t)
	} else {
		l.limiter, err = sash.New(l.sashOptions(t)...)
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

// sashOptions returns the options of the sash.Limiter. Its own limits are those of the
// first policy, since keys under a limiter's own limits have the smallest entries. The
// keys of other policies get their limits from limitsFor.
func (l *Limiter) sashOptions(t *table) []sash.Option {
	options := []sash.Option{sash.WithSweepInterval(l.janitorInterval(t)), sash.WithSizeHint(l.sizeHint)}
	if l.clock != nil {
		options = append(options, sash.WithClock(l.clock))
	}
	options = append(options, l.forSash...)
	options = append(options, sash.WithLimits(t.base.Limits...))
	if len(t.variants) > 1 || l.ownLimitsFor != nil {
		options = append(options, sash.WithLimitsFor(t.limitsFor))
	}
	if err := t.refusal(); err != nil {
		options = append(options, internals.RefuseReconfigure(err))
	}
	return options
}

// janitorInterval returns how often to sweep under t.
func (l *Limiter) janitorInterval(t *table) time.Duration {
	if l.sweepInterval != 0 {
		return l.sweepInterval
	}
	return t.sweepInterval()
}

// Sash returns the [sash.Limiter] below, to peek at a key, reset it, or give it limits
// of its own. Its keys are those of [Limiter.KeyFor]. Clients are told of a key's own
// limits under the name of the policy.
//
// [Limiter.Reconfigure] replaces limits of policies. [sash.Limiter.Reconfigure] replaces those
// of the only policy. If there are several policies, or plans, it changes nothing and returns an
// error that wraps [errors.ErrUnsupported].
//
// Its [sash.Limiter.Snapshot] is for a limiter that was given policies of the same names and
// plans in the same order, by the same calls of New and Reconfigure.
//
// With [WithStore], there is none, and Sash returns nil: see [Limiter.Store].
func (l *Limiter) Sash() *sash.Limiter { return l.limiter }

// Policies returns the policies in the order in which [New], or the latest
// [Limiter.Reconfigure], was given them. If there is only one, without plans, its Limits are
// those of the latest [sash.Limiter.Reconfigure]. The caller may change the slice, the Limits and
// the Plans.
func (l *Limiter) Policies() []Policy {
	t := l.table.Load()
	policies := clonePolicies(t.given)
	if len(t.variants) == 1 && l.limiter != nil {
		limits := l.limiter.Limits()
		// Under another table by now, they may be those of another policy.
		if l.table.Load() == t && !slices.Equal(limits, t.base.Limits) {
			policies[0].Limits = limits
		}
	}
	return policies
}

// KeyFor returns the key of r under the policy of that name, for the methods of
// [Limiter.Sash] or of the store. It is the key under the Plan of r. ok is false if there is no
// such policy, or if the identity cannot be told. KeyFor does not check the policy's Pattern and
// does not call its Skip.
func (l *Limiter) KeyFor(policy string, r *http.Request) (key string, ok bool) {
	p := l.table.Load().policy(policy)
	if p == nil {
		return "", false
	}
	p = p.under(r)
	var c call
	if _, ok = c.appendKey(p, r); ok && l.store != nil {
		return p.storedKey(string(c.keys)), true
	}
	return string(c.keys), ok
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
	p := l.table.Load().byNumber[number]
	if !ok || digest || p == nil {
		return "", "", false
	}
	return p.Name, identity, true
}

// Close ends the goroutine that evicts idle keys, and the waiting in every [Queue]: each request that
// waits is admitted at once if it can be, or refused. Every other method still works afterwards, but
// no request waits. The error is always nil.
//
// A request that is refused for that is answered 503: its Denial.Err is [http.ErrServerClosed]. So
// a server that closes its limiter when it shuts down does not wait for requests that wait:
//
//	server.RegisterOnShutdown(func() { limiter.Close() })
//
// With [WithStore], it closes the store, and returns the error of that.
func (l *Limiter) Close() error {
	l.closeOnce.Do(func() { close(l.closing) })
	if l.store != nil {
		return l.store.Close()
	}
	return l.limiter.Close()
}

// FoldsPaths reports whether l was given [WithPathFolding]. Adapters of routers that serve
// several spellings of a path alike ask for it.
func (l *Limiter) FoldsPaths() bool { return l.paths == route.Folded }
