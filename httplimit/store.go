package httplimit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/seed-30da4c49/sash"
)

// A Store decides for a fleet: the processes that use it share their counts. Give it to a
// [Limiter] by [WithStore], or to a [Transport]. Package sashredis/httpstore has one that keeps
// the counts in Redis or Valkey.
//
// All methods must be safe for concurrent use. Take, Peek and Reserve must return in a short
// time, whatever ctx is: the middleware passes them a context that does not end when the client
// hangs up. The keys of one call differ, and the store may keep them.
type Store interface {
	// Take charges n units to each of keys if all of them admit n, at one instant. Else it
	// charges nothing. An n of 0 charges nothing.
	Take(ctx context.Context, keys []string, n int64) StoreDecision

	// Peek returns what Take would, and charges nothing.
	Peek(ctx context.Context, keys []string, n int64) StoreDecision

	// Reserve is Take of charges that may change, by the Commit of each key.
	Reserve(ctx context.Context, keys []string, n int64) StoreDecision

	// Wait blocks until n units are charged to key. Its errors are those of
	// [sash.Limiter.Wait].
	Wait(ctx context.Context, key string, n int64) error

	// Close ends what the store runs in this process. The Limiter that has opened the store
	// closes it.
	Close() error
}

// A StoreDecision is the answer of a [Store] to one call.
type StoreDecision struct {
	// Decision is the answer for all keys together. The RetryAfter of a denial, here and in Keys,
	// is more than 0, or [sash.Never]. If it is not, it counts as 100 ms.
	sash.Decision
	// Keys has an element for each key of the call, in their order.
	Keys []KeyDecision
	// By tells who decided, such as "store" or "fallback".
	By string
	// Err is why the store did not decide, nil if it did. The Decision holds all the same.
	Err error
}

// A KeyDecision is what one key of a call says, whatever the others say.
type KeyDecision struct {
	// Decision is that of a [sash.Limiter.Peek] on this key, at the instant of the call. If the
	// call was admitted, it is that of the charge. If there is an Err, and the Limit of a denial is
	// [sash.Unlimited], no quota denies: the store does not know whether one would.
	sash.Decision
	// Next is the decision on one unit more than is left after the call, as that of
	// [sash.Limiter.TakeThenPeek]. Its RetryAfter is [sash.Never] if the time until more is left
	// is not known.
	Next sash.Decision
	// Commit changes the charge of this key to the units that the call has cost, even if that is
	// more than is left. Only a Reserve that was admitted sets it. It is called once at most, also
	// with the units that were charged: then there is nothing to change.
	Commit func(ctx context.Context, actual int64) error
}

// StoreKeys describes the keys of a [Limiter] to the [Store] that it opens.
type StoreKeys struct {
	// Limits are those of each policy, and of each of its plans.
	Limits [][]sash.Limit
	// LimitsFor returns the limits of a key: those of its policy, or limits of its own by
	// [sash.WithLimitsFor].
	LimitsFor func(key string) []sash.Limit
}

// WithStore lets a store decide, instead of a [sash.Limiter] in this process. So all processes
// with the same policies share their counts. [New] calls open, and [Limiter.Close] closes the
// store. With sashredis/httpstore:
//
//	httplimit.WithStore(httpstore.New(conn, sashredis.WithFallback(sashredis.FallbackDeny)))
//
// A policy is known to other processes by its Name. So Names tell apart the policies of all
// limiters that share a store and its prefix. A new process may add, remove and reorder policies
// while old ones run.
//
// # What is decided how
//
// Decisions, headers and events are the same as without a store, for the same counts. A request
// costs
//   - one call to the store for all policies with the same cost;
//   - one more for each policy that is a shadow;
//   - one more after the answer for each charge that changes then, which the client waits for;
//   - as many again each time that it tries, if it waits in a [Queue];
//   - if it is denied and costs differ, one more for each other cost.
//
// If the store does not answer, its fallback decides, and the request is answered accordingly. If
// it denies whatever comes, as FallbackDeny does, no quota is exceeded: the answer is 503 with
// Retry-After, and names no quota. The By and Err of [Event] and [Denial] tell of it. A client
// cannot choose the fallback by hanging up, since the calls do not end with the context of the
// request. They keep its values.
//
// A call that the store refuses as wrong denies the request, and it is answered 429 without
// Retry-After. So watch Err: a fault in the configuration can look like a limit.
//
// # Clusters
//
// On a Redis cluster, the keys of one call must be in one slot, or the store refuses it. That
// concerns requests that have several policies with the same cost. If their identities are the
// same, such as the address of the client, give the store [HashTag]:
//
//	sashredis.WithHashTag(httplimit.HashTag)
//
// Otherwise, the function must return the same text for all keys of one request. If the
// identities have something in common, that is the text: [Limiter.ParseKey] returns the identity
// of a key. If they have nothing in common, such as an address and an API key, no such function
// exists but a constant one, which puts all keys on one server. Then put these policies into
// two limiters, one around the other. A request that the inner one denies stays charged to the
// outer one.
//
// # Options
//
// Of the options of [WithSash], only [sash.WithLimitsFor] works with a store. [WithClock],
// [WithSizeHint] and [WithSweepInterval] are refused, too: the time is the store's, and this
// process has no table of keys.
func WithStore(open func(StoreKeys) (Store, error)) Option {
	return optionFunc(func(c *config) {
		if open == nil {
			c.fault("WithStore: open must not be nil")
		}
		c.openStore = open
	})
}

// checkStore records the options that do not work with a store.
func (c *config) checkStore() {
	if c.openStore == nil {
		return
	}
	if c.clock != nil {
		c.fault("WithClock does not work with WithStore: the time is the store's")
	}
	if c.sizeHint != 0 {
		c.fault("WithSizeHint does not work with WithStore: there is no table of keys in this process")
	}
	if c.sweepInterval != 0 {
		c.fault("WithSweepInterval does not work with WithStore: there is no table of keys in this process")
	}
	for i, o := range c.forSash {
		if o != nil && internals.Inspect([]sash.Option{o}).LimitsFor == nil {
			c.fault("WithSash: option %d: of the options of sash, only WithLimitsFor works with WithStore", i+1)
		}
	}
}

// open opens the store of l.
func (l *Limiter) open(t *table) (err error) {
	keys := StoreKeys{LimitsFor: l.limitsForStored}
	for _, p := range t.variants {
		keys.Limits = append(keys.Limits, p.Limits)
	}
	if l.store, err = l.openStore(keys); err != nil {
		return fmt.Errorf("httplimit: WithStore: %w", err)
	}
	if l.store == nil {
		return fmt.Errorf("httplimit: WithStore: %w", errNoStore)
	}
	return nil
}

var errNoStore = errors.New("open returned neither a store nor an error")

// Store returns the store that [WithStore] has opened, nil if there is none. Its keys are those
// of [Limiter.KeyFor].
func (l *Limiter) Store() Store { return l.store }

// limitsForStored is limitsFor of a key in a store. It returns none for a key that is not one of
// l's.
func (l *Limiter) limitsForStored(key string) []sash.Limit {
	if l.ownLimitsFor != nil {
		if limits := l.ownLimitsFor(key); len(limits) > 0 {
			return limits
		}
	}
	if p, _, _ := l.cutStored(key); p != nil {
		return p.Limits
	}
	return nil
}

// The bytes after the names of the policy and of the plan in a key of a store. No name contains
// them, since names are printable.
const (
	storedIdentity = "\x00" // what follows is the identity
	storedDigest   = "\x01" // what follows is the digest of an identity that was too long
	storedPlan     = "\x02" // what follows, up to one of the others, is the plan
)

// storedKey returns the key in a store of a key under p. It begins with the names of the policy
// and of the plan, which are the same in all processes, and not with a number. It shares no memory with key.
func (p *policy) storedKey(key string) string {
	_, identity, digest, _ := cutKeyPrefix(key)
	if digest {
		return p.storedName + storedDigest + identity
	}
	return p.storedName + storedIdentity + identity
}

// cutStored returns the policy and the identity in a key of a store. p is nil if key is not one
// of l's. If digest is true, identity is the digest of the identity.
func (l *Limiter) cutStored(key string) (p *policy, identity string, digest bool) {
	end := strings.IndexAny(key, storedIdentity+storedDigest)
	if end < 0 {
		return nil, "", false
	}
	for _, p := range l.table.Load().variants {
		if p.storedName == key[:end] {
			return p, key[end+1:], key[end] == storedDigest[0]
		}
	}
	return nil, "", false
}

// HashTag returns the identity in a key of a [Limiter] with a [Store]: the key without the name
// of its policy. It is for policies that identify clients alike, on a Redis cluster: the keys of
// one client under all of them are then in one slot. See [WithStore].
func HashTag(key string) string {
	return key[strings.IndexAny(key, storedIdentity+storedDigest)+1:]
}
