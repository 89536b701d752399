package httplimit

import (
	"crypto/cipher"
	"log"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
	"github.com/seed-30da4c49/sash/internal/queue"
)

// A Limiter holds policies and the state of their keys. Make one with [New], and put it before a handler
// with [Limiter.Middleware]. All its methods are safe for concurrent use.
//
// It has one [sash.Limiter] for all policies. Each key consists of a policy and an identity. So a request
// can be charged to all its policies at one instant.
type Limiter struct {
	config
	table         atomic.Pointer[table] // never nil
	sections      sections              // while none is under way and they are closed, the table changes
	reconfiguring sync.RWMutex          // locked to replace the table
	limiter       *sash.Limiter
	secret        cipher.Block // of fingerprints, with a key that never leaves the process
	calls         sync.Pool
	waits         queue.Queues[string]
	closing       chan struct{} // closed by Close
	closeOnce     sync.Once
	watched       atomic.Uintptr // the headerMap of the request that is watched; 0: none
	warned        atomic.Bool    // whether it has warned of a request that it decides twice
	store         Store          // decides instead of limiter, which is nil then; nil: none
}

// Sash returns the [sash.Limiter] below, to peek at a key, reset it, or give it limits of its own.
// [Limiter.KeyFor] returns its keys. Clients are told of a key's own limits under the name of the policy.
//
// [Limiter.Reconfigure] replaces the limits of any policy. [sash.Limiter.Reconfigure] replaces the limits
// of the only policy. If there are several policies, or plans, it changes nothing and returns an error
// that wraps [errors.ErrUnsupported].
//
// Its [sash.Limiter.Snapshot] is for a limiter that was given policies of the same names and plans in the
// same order, by the same calls of New and Reconfigure.
//
// With [WithStore], there is none, and Sash returns nil: see [Limiter.Store].
func (l *Limiter) Sash() *sash.Limiter { return l.limiter }

// Store returns the store of [WithStore], nil if there is none. [Limiter.KeyFor] returns its keys.
func (l *Limiter) Store() Store { return l.store }

// Policies returns the policies in the order in which [New], or the latest [Limiter.Reconfigure], was
// given them. If there is only one, without plans, it has the Limits of the latest
// [sash.Limiter.Reconfigure]. The caller may change the slice, the Limits and the Plans.
func (l *Limiter) Policies() []Policy {
	t := l.table.Load()
	policies := clonePolicies(t.given)
	if len(t.variants) == 1 && l.limiter != nil {
		limits := l.limiter.Limits()
		// Under another table by now, they may be the limits of another policy.
		if l.table.Load() == t && !slices.Equal(limits, t.base.Limits) {
			policies[0].Limits = limits
		}
	}
	return policies
}

// ParseKey returns the policy's name and the identity in a key of [Limiter.Sash], or of the store. Such
// keys are returned by [Limiter.KeyFor], and passed to the functions of [sash.WithLimitsFor] and
// [sash.WithObserver]. ok is false if key is not one of l's, or if its identity was longer than 128
// bytes, since the key then holds only a digest.
func (l *Limiter) ParseKey(key string) (policy, identity string, ok bool) {
	p, identity, digested := l.table.Load().cutKey(key)
	if p == nil || digested {
		return "", "", false
	}
	return p.Name, identity, true
}

// FoldsPaths reports whether l was given [WithPathFolding]. Adapters of routers that serve several
// spellings of a path alike ask for it.
func (l *Limiter) FoldsPaths() bool { return l.paths == route.Folded }

// logPanics recovers from a panic of the observer, and logs it. It must be deferred.
func logPanics(r *http.Request) {
	if fault := recover(); fault != nil {
		logPanic(r, nil, fault)
	}
}

// logfOf returns the function that writes to the error log of the server of r.
func logfOf(r *http.Request) func(format string, args ...any) {
	if server, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ErrorLog != nil {
		return server.ErrorLog.Printf
	}
	return log.Printf
}

// logPanic logs a panic in p, or in an observer or the store if p is nil, to the error log of the server.
func logPanic(r *http.Request, p *policy, fault any) {
	in := "an observer or the store"
	if p != nil {
		in = "policy " + strconv.Quote(p.Name)
	}
	logfOf(r)("httplimit: panic in %s: %v\n%s", in, fault, debug.Stack())
}
