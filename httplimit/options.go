package httplimit

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// An Option configures a [Limiter] in [New]. A [Policy] is one; the others are made by the functions that
// begin with With. Of an option given twice, the last holds, unless it says otherwise.
type Option interface{ apply(*config) }

func (p Policy) apply(c *config) { c.policies = append(c.policies, p) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// given returns the option that applies set if so, and else is a fault.
func given(so bool, fault string, set func(*config)) Option {
	return optionFunc(func(c *config) {
		if c.require(so, "%s", fault); so {
			set(c)
		}
	})
}

// config is the options of one New.
type config struct {
	policies      []Policy
	clock         sash.Clock // nil: sash's default
	sizeHint      int
	sweepInterval time.Duration
	forSash       []sash.Option                 // more options of the sash.Limiter
	ownLimitsFor  func(key string) []sash.Limit // of sash.WithLimitsFor among them; nil: none
	paths         route.Paths
	headers       headers
	observers     []func(Event)
	fingerprints  outcomeSet                                       // of the events that have a Fingerprint
	identities    outcomeSet                                       // of the events that have an Identity
	denied        func(http.ResponseWriter, *http.Request, Denial) // nil: Denial.ServeHTTP
	unidentified  http.Handler
	openStore     func(StoreKeys) (Store, error) // nil: there is no store
	review
}

// headers tells which headers report quotas to clients.
type headers struct {
	standard   bool // RateLimit-Policy and RateLimit
	xRateLimit bool // X-RateLimit-…
	resetTime  bool // X-RateLimit-Reset is a time
	partition  bool // pk in the standard ones
}

// any reports whether any header reports quotas.
func (h headers) any() bool { return h.standard || h.xRateLimit }

// emit reports e to all observers, with an outcome and what its events tell of the client. It leaves e as it
// is: a charge may have several events, which tell different things.
func (c *config) emit(e *Event, outcome Outcome) {
	one := *e
	c.complete(&one, outcome)
	for _, observe := range c.observers {
		observe(one)
	}
}

// complete sets the outcome of e, and leaves out what its events do not tell of the client.
func (c *config) complete(e *Event, outcome Outcome) {
	e.Outcome = outcome
	if !c.fingerprints.has(outcome) {
		e.Fingerprint = 0
	}
	if !c.identities.has(outcome) {
		e.Identity = ""
	}
}

// WithClock sets the clock of the limiter. The default is [sash.SystemClock].
func WithClock(clock sash.Clock) Option {
	return given(clock != nil, "WithClock: clock must not be nil", func(c *config) { c.clock = clock })
}

// WithSizeHint makes room for that number of keys, of all policies together, from the start; see
// [sash.WithSizeHint]. The default is 0.
func WithSizeHint(keys int) Option {
	return optionFunc(func(c *config) { c.sizeHint = keys })
}

// WithSweepInterval sets how often idle keys are evicted; see [sash.WithSweepInterval]. The default, 0,
// chooses from the windows of all policies. A negative d never evicts.
func WithSweepInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.sweepInterval = d })
}

// WithSash passes options to the [sash.Limiter] below. They go before WithClock, WithSizeHint and
// WithSweepInterval. The effect of some of them here:
//
//   - A [sash.Limit] and [sash.WithLimits] are refused: policies have the limits.
//   - [sash.WithLimitsFor] gives keys limits of their own. If it returns none for a key, the limits of
//     its policy hold. If it returns a wrong limit, the key is denied.
//   - Under [sash.WithChargeDenied], a denied request is charged to each of its policies that has the
//     same cost as one that denied it.
//   - [sash.WithObserver] costs one allocation for each request, in which its keys are copied.
//
// The functions of [sash.WithLimitsFor] and [sash.WithObserver] receive the keys of [Limiter.KeyFor],
// which contain identities as they are. [Limiter.ParseKey] returns the policy and the identity of a key.
// The functions may keep the keys, which never change. They must not call [Limiter.Reconfigure], which
// waits for them, and must not decide other requests of this Limiter.
func WithSash(options ...sash.Option) Option {
	return optionFunc(func(c *config) {
		for i, o := range options {
			c.require(o != nil, "WithSash: option %d: must not be nil", i+1)
			limit, ok := o.(*sash.Limit)
			isNil := ok && limit == nil
			limits := isNil || o != nil && internals.Inspect([]sash.Option{o}).Limits
			c.require(!limits, "WithSash: option %d: limits are given to a Policy", i+1)
			if isNil {
				o = nil // the pointer would panic in Inspect
			}
			c.forSash = append(c.forSash, o)
		}
	})
}

// WithStore lets a store decide, instead of a [sash.Limiter] in this process. So all processes with the
// same policies share their counts. [New] calls open, and [Limiter.Close] closes the store. With
// sashredis/httpstore:
//
//	httplimit.WithStore(httpstore.New(conn, sashredis.WithFallback(sashredis.FallbackDeny)))
//
// A policy is known to other processes by its Name. So Names tell apart the policies of all limiters that
// share a store and its prefix. A new process may add, remove and reorder policies while old ones run, and so may
// [Limiter.Reconfigure].
//
// # What is decided how
//
// Decisions, headers and events are the same as without a store, for the same counts. A request costs
//   - one call to the store for all policies with the same cost;
//   - one more for each policy that is a shadow;
//   - one more after the answer for each charge that changes then, which the client waits for;
//   - as many again each time that it tries, if it waits in a [Queue];
//   - if it is denied and costs differ, one more for each other cost.
//
// If the store does not answer, its fallback decides, and the request is answered accordingly. If it
// denies whatever comes, as FallbackDeny does, no quota is exceeded: the answer is 503 with Retry-After,
// and names no quota. If it decides by a share of the limits, the headers have the one that decides, under the
// Name of the policy. The By and Err of [Event] and [Denial] tell of it. A client cannot choose the
// fallback by hanging up, since the calls do not end with the context of the request. They keep its
// values.
//
// A call that the store refuses as wrong denies the request, and it is answered 429 without Retry-After.
// So watch Err: a fault in the configuration can look like a limit.
//
// # Clusters
//
// On a Redis cluster, the keys of one call must be in one slot, or the store refuses it. That concerns
// requests that have several policies with the same cost. If their identities are the same, such as the
// address of the client, give the store [HashTag]:
//
//	sashredis.WithHashTag(httplimit.HashTag)
//
// Otherwise, the function must return the same text for all keys of one request. If the identities have
// something in common, that is the text: [Limiter.ParseKey] returns the identity of a key. If they have
// nothing in common, such as an address and an API key, no such function exists but a constant one, which
// puts all keys on one server. Then put these policies into two limiters, one around the other. A request
// that the inner one denies stays charged to the outer one.
//
// # Options
//
// Of the options of [WithSash], only [sash.WithLimitsFor] works with a store. [WithClock], [WithSizeHint]
// and [WithSweepInterval] are refused, too: the time is the store's, and this process has no table of
// keys.
func WithStore(open func(StoreKeys) (Store, error)) Option {
	return given(open != nil, "WithStore: open must not be nil", func(c *config) { c.openStore = open })
}

// WithPathFolding matches paths with the Patterns of all policies like a router that serves several
// spellings of a path alike. Such routers are fiber as it comes, chi behind StripSlashes or CleanPath,
// and echo behind RemoveTrailingSlash. A policy for "POST /login" then also counts POST /LOGIN and POST
// /login/. The default is to match as [http.ServeMux] does.
//
//   - Letters are equal as under [strings.EqualFold].
//   - Trailing slashes do not matter.
//   - Fiber parses the target of a request by rules of its own, and serves /login#x and //host/login?://
//     as /login. So a "#" ends the path, and the text after a leading "//" may be the host.
//
// A policy keeps every request that it has without the option. The path of a Pattern must be clean.
func WithPathFolding() Option {
	return optionFunc(func(c *config) { c.paths = route.Folded })
}

// WithoutRateLimit omits RateLimit-Policy and RateLimit. By default, they are on every response to a
// request that has a policy. They have no quota for a key that is [sash.Unlimited], and are omitted if
// there is no other.
func WithoutRateLimit() Option {
	return optionFunc(func(c *config) { c.headers.standard = false })
}

// WithXRateLimit also sends the older headers X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset. They are about the policy that denies for longest, else the one with the least left,
// and its quota with the least left. Limit is the Count of that quota, or the Burst of a token bucket.
// Reset is in whole seconds from now, rounded up, until all quotas of that policy are full again. About a
// quota by [sash.AtOnce], it is at most 1: what is held may be given back at any time.
func WithXRateLimit() Option {
	return optionFunc(func(c *config) { c.headers.xRateLimit = true })
}

// WithXRateLimitTime is [WithXRateLimit] with another X-RateLimit-Reset: the time at which all quotas are full
// again, in Unix seconds, rounded up. It is for clients of an API that has sent that before, as GitHub's does.
// The time is of the system's clock, so a client whose clock is wrong is misled; seconds from now mislead no one.
func WithXRateLimitTime() Option {
	return optionFunc(func(c *config) { c.headers.xRateLimit, c.headers.resetTime = true, true })
}

// WithPartitionKey also sends a fingerprint of the identity that a quota belongs to, as the parameter pk
// of RateLimit-Policy and RateLimit. The fingerprint differs in every process, and does not reveal the
// identity.
func WithPartitionKey() Option {
	return optionFunc(func(c *config) { c.headers.partition = true })
}

// WithObserver calls f with an [Event] for each policy of each request, before the request goes on. It
// calls f once more if a charge is changed after the answer.
//
// Given several times, it calls each f, in the order in which they are given.
//
// f runs in the goroutine of the request and must be safe for concurrent use; its time is added to the
// request's. A panic in f before the request goes on is answered 500, like one in a KeyFunc; a later one
// is only logged. Observers after the one that panics do not receive that event.
func WithObserver(f func(Event)) Option {
	return given(f != nil, "WithObserver: f must not be nil", func(c *config) {
		c.observers = append(c.observers, f)
	})
}

// WithEventFingerprints sets [Event.Fingerprint] in the events of those outcomes, or of all outcomes if
// none is named. By default, it is 0. A fingerprint costs some tens of nanoseconds. An observer that
// looks at denials only needs
//
//	httplimit.WithEventFingerprints(httplimit.Denied)
//
// Given several times, it sets the fingerprints of all outcomes that are named.
func WithEventFingerprints(outcomes ...Outcome) Option {
	return optionFunc(func(c *config) {
		c.fingerprints |= c.outcomes("WithEventFingerprints", outcomes)
	})
}

// WithEventIdentities sets [Event.Identity] in the events of those outcomes, or of all outcomes if none
// is named. By default, it is empty. An identity costs an allocation. Take care where your observer puts
// identities: they may be addresses of people, or secrets.
//
// Given several times, it sets the identities of all outcomes that are named.
func WithEventIdentities(outcomes ...Outcome) Option {
	return optionFunc(func(c *config) {
		c.identities |= c.outcomes("WithEventIdentities", outcomes)
	})
}

// outcomes returns the set of outcomes that were given to the option of that name.
func (c *config) outcomes(option string, outcomes []Outcome) (set outcomeSet) {
	if len(outcomes) == 0 {
		return allOutcomes
	}
	for _, o := range outcomes {
		c.require(int(o) < len(outcomeNames), "%s: no Outcome has the number %d", option, o)
		set |= 1 << o
	}
	return set
}

// WithDenied answers denied requests by f. The default is 429 with a body of application/problem+json,
// which [Denial.ServeHTTP] writes, or 503 if the Denial has an Err. All headers about quotas, Retry-After
// and Cache-Control: no-store are set before f is called.
func WithDenied(f func(http.ResponseWriter, *http.Request, Denial)) Option {
	return given(f != nil, "WithDenied: f must not be nil", func(c *config) { c.denied = f })
}

// WithUnidentified answers requests whose identity cannot be told by h. The default is 400 with a body of
// application/problem+json. Such requests are charged nothing. To admit them counted, give the policy a
// fallback by [FirstOf].
func WithUnidentified(h http.Handler) Option {
	return given(h != nil, "WithUnidentified: h must not be nil", func(c *config) { c.unidentified = h })
}

// configure applies options to the defaults, and returns all their faults in one error.
func configure(options []Option) (config, error) {
	c := config{
		headers: headers{standard: true},
		unidentified: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fields.Answer(w, http.StatusBadRequest)
		}),
	}
	for i, o := range options {
		p, ok := o.(*Policy)
		isNil := o == nil || ok && p == nil
		if c.require(!isNil, "option %d: must not be nil", i+1); !isNil {
			o.apply(&c)
		}
	}
	c.require(c.sizeHint >= 0, "WithSizeHint: keys must be at least 0, got %d", c.sizeHint)
	c.require(c.headers.standard || !c.headers.partition, "WithPartitionKey: WithoutRateLimit leaves out the fields that it would be in")
	c.require(len(c.observers) > 0 || c.fingerprints|c.identities == 0, "WithEventFingerprints and WithEventIdentities need WithObserver")
	if c.openStore != nil {
		c.require(c.clock == nil, "WithClock does not work with WithStore: the time is the store's")
		c.require(c.sizeHint == 0, "WithSizeHint does not work with WithStore: there is no table of keys in this process")
		c.require(c.sweepInterval == 0, "WithSweepInterval does not work with WithStore: there is no table of keys in this process")
		for i, o := range c.forSash {
			c.require(o == nil || internals.Inspect([]sash.Option{o}).LimitsFor != nil,
				"WithSash: option %d: of the options of sash, only WithLimitsFor works with WithStore: leave it out", i+1)
		}
	}
	c.reviewPolicies("New")
	return c, errors.Join(c.faults...)
}

// reviewPolicies records every fault of the policies, which were given to the function of that name.
func (c *config) reviewPolicies(function string) {
	queued := slices.ContainsFunc(c.policies, func(p Policy) bool { return p.Queue.Wait > 0 })
	chargesDenied := slices.ContainsFunc(c.forSash, func(o sash.Option) bool {
		return o != nil && internals.Inspect([]sash.Option{o}).ChargeDenied
	})
	c.require(!queued || !chargesDenied,
		"WithSash: sash.WithChargeDenied does not work with a Queue: a request that waits would be charged for each attempt")
	nears := slices.ContainsFunc(c.policies, func(p Policy) bool { return p.Near != 0 })
	c.require(!nears || c.openStore == nil, "WithStore does not work with a Near: a store does not tell what is left of each limit")
	c.require(len(c.policies) > 0, "%s needs a Policy", function)
	owner := map[string]int{}
	for i := range c.policies {
		p := &c.policies[i]
		c.policy(p, i+1, c.paths)
		for _, name := range quota.Names(p.Name, p.Limits, p.Plans) {
			first, taken := owner[name]
			another := taken && name != "" && first != i+1 // and not another plan of p
			c.require(!another, "policies %d and %d: both have a quota named %q", first, i+1, name)
			owner[name] = i + 1
		}
	}
}
