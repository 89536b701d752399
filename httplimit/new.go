package httplimit

import (
	"cmp"
	"crypto/aes"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"github.com/seed-30da4c49/sash"
)

// New returns a limiter with every [Policy] among options. The error lists all faults of all of them, and
// wraps [sash.ErrInvalidOption], [sash.ErrInvalidLimit] or [sash.ErrNoLimit].
//
// New starts a goroutine that evicts idle keys. [Limiter.Close] ends it. With [WithStore], it opens the
// store instead.
func New(options ...Option) (*Limiter, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{config: c, closing: make(chan struct{})}
	var key [aes.BlockSize]byte
	_, _ = rand.Read(key[:])            // never fails
	l.secret, _ = aes.NewCipher(key[:]) // a key of that length is right
	l.calls.New = func() any { return &call{Limiter: l, stripe: l.sections.stripe()} }
	// The table needs what these options say, too: limits of keys, and how often to sweep.
	inspection := internals.Inspect(l.forSash)
	l.ownLimitsFor = inspection.LimitsFor
	l.sweepInterval = cmp.Or(inspection.SweepInterval, l.sweepInterval)
	t := newTable(&l.config, nil)
	l.table.Store(t)
	l.sections.init(t)
	if l.openStore == nil {
		l.limiter, err = sash.New(l.sashOptions(t)...)
	} else {
		keys := StoreKeys{LimitsFor: func(key string) []sash.Limit { return l.table.Load().limitsFor(key) }}
		for _, p := range t.variants {
			keys.Limits = append(keys.Limits, p.Limits)
		}
		if l.store, err = l.openStore(keys); err == nil && l.store == nil {
			err = errors.New("open returned neither a store nor an error")
		}
		if err != nil {
			err = fmt.Errorf("httplimit: WithStore: %w", err)
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Must returns l, and panics if err is not nil. It is for policies that are written in the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// sashOptions returns the options of the sash.Limiter. Its own limits are the limits of the first policy,
// as keys under a limiter's own limits have the smallest entries. Other keys get theirs from limitsFor.
func (l *Limiter) sashOptions(t *table) []sash.Option {
	options := []sash.Option{sash.WithSweepInterval(t.sweepInterval(l.sweepInterval)), sash.WithSizeHint(l.sizeHint)}
	if l.clock != nil {
		options = append(options, sash.WithClock(l.clock))
	}
	options = append(options, l.forSash...)
	// Of an option given twice, the last holds. So these go behind the caller's.
	options = append(options, sash.WithLimits(t.base.Limits...))
	if len(t.variants) > 1 || l.ownLimitsFor != nil {
		options = append(options, sash.WithLimitsFor(t.limitsFor))
	}
	if err := t.refusal(); err != nil {
		options = append(options, internals.RefuseReconfigure(err))
	}
	return options
}

// KeyFor returns the key of r under the policy of that name, for the methods of [Limiter.Sash] or of the
// store. It is the key under the Plan of r. ok is false if there is no such policy, or if the identity
// cannot be told. KeyFor does not check the policy's Pattern and does not call its Skip.
func (l *Limiter) KeyFor(policy string, r *http.Request) (key string, ok bool) {
	p := l.table.Load().byName[policy]
	if p == nil || p.Name != policy { // byName has the policies under their plans, too
		return "", false
	}
	p = p.under(r)
	var c call
	if _, ok = c.appendKey(p, r); ok && l.store != nil {
		return p.storedKey(string(c.keys)), true
	}
	return string(c.keys), ok
}

// Close ends the goroutine that evicts idle keys, and the waiting in every [Queue]: each request that
// waits is admitted at once if it can be, or refused. Every other method still works afterwards, but no
// request waits. The error is always nil.
//
// A request that is refused for that is answered 503: its Denial.Err is [http.ErrServerClosed]. So a
// server that closes its limiter when it shuts down does not wait for requests that wait:
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
