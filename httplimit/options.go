package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash"
)

// An Option configures a [Limiter] in [New]. A [Policy] is one; the others are made
// by the functions that begin with With. Where one is given twice, the last holds.
type Option interface{ apply(*config) }

// config is what the options of one New have said.
type config struct {
	policies      []Policy
	clock         sash.Clock // nil: sash's default
	sizeHint      int
	sweepInterval time.Duration
	below         []sash.Option // of the limiter below, besides
	foldPaths     bool
	headers       headers
	observer      func(Event)
	naming        naming
	denied        func(http.ResponseWriter, *http.Request, Denial)
	unidentified  http.Handler
	faults        []error
}

func (c *config) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("httplimit: "+format+": %w", append(args, sash.ErrInvalidOption)...))
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithClock sets the clock that decides; the default is [sash.SystemClock].
func WithClock(clock sash.Clock) Option {
	return optionFunc(func(c *config) {
		if clock == nil {
			c.fault("WithClock: clock must not be nil")
		}
		c.clock = clock
	})
}

// WithSizeHint makes room for so many keys, of all policies together, from the
// start; see [sash.WithSizeHint]. The default is 0.
func WithSizeHint(keys int) Option {
	return optionFunc(func(c *config) { c.sizeHint = keys })
}

// WithSweepInterval sets how often idle keys are evicted; see
// [sash.WithSweepInterval]. 0, the default, chooses from the windows of all
// policies; a negative d never does it.
func WithSweepInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.sweepInterval = d })
}

// WithSash hands options on to the [sash.Limiter] below. With
// [sash.WithChargeDenied], a denied request is charged to all its policies that cost
// the same as one that denied it. What is said here holds before WithClock,
// WithSizeHint and WithSweepInterval. The limits are those of the policies: a
// [sash.Limit] is refused. [sash.WithLimitsFor] gives keys limits of their own; a key
// for which it returns none has those of its policy.
//
// The functions of [sash.WithLimitsFor] and [sash.WithObserver] are given the keys of
// [Limiter.KeyFor], which hold identities as they are. [Limiter.ParseKey] tells policy
// and identity of one. The keys never change. An observer costs one allocation for
// each request, in which they are copied.
func WithSash(options ...sash.Option) Option {
	return optionFunc(func(c *config) {
		for i, o := range options {
			switch o.(type) {
			case nil:
				c.fault("WithSash: option %d: must not be nil", i+1)
			case sash.Limit, *sash.Limit:
				c.fault("WithSash: option %d: limits are given to a Policy", i+1)
			}
		}
		c.below = append(c.below, options...)
	})
}

// WithPathFolding matches paths with the Patterns of all policies as routers do that
// serve several spellings of a path alike. Such routers are fiber as it comes, chi
// behind StripSlashes or CleanPath, and echo behind RemoveTrailingSlash. A policy for
// "POST /login" then also counts POST /LOGIN and POST /login/.
//
// Letters are equal as by [strings.EqualFold]. Trailing slashes do not matter, and
// "//", "." and ".." are cleaned as by [path.Clean]. A policy has every request that
// it has without the option. The path of a Pattern must be clean. The default is to
// match as [http.ServeMux] does.
func WithPathFolding() Option {
	return optionFunc(func(c *config) { c.foldPaths = true })
}

// WithoutRateLimit leaves out RateLimit-Policy and RateLimit, which are else on
// every response to a request that has a policy.
func WithoutRateLimit() Option {
	return optionFunc(func(c *config) { c.headers.standard = false })
}

// WithXRateLimit also sends the older X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset, of the quota that is nearest to its end. Reset is in whole
// seconds from now, rounded up, until all quotas of its policy are whole again.
func WithXRateLimit() Option {
	return optionFunc(func(c *config) { c.headers.older = true })
}

// WithPartitionKey also tells clients which of their identities a quota is for, as
// the pk of RateLimit-Policy and RateLimit: a fingerprint that differs in every
// process, and does not give the identity away.
func WithPartitionKey() Option {
	return optionFunc(func(c *config) { c.headers.partition = true })
}

// WithObserver calls f with what each policy makes of each request, in the
// goroutine of the request, before it goes on, and once more when it has been
// answered if a charge is given back then; f must be safe for concurrent use, and
// its time is the request's. A panic in f is answered as one in a KeyFunc, or, if
// there is an answer, logged like that.
func WithObserver(f func(Event)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.fault("WithObserver: f must not be nil")
		}
		c.observer = f
	})
}

// WithEventFingerprints fills in [Event.Fingerprint].
func WithEventFingerprints() Option {
	return optionFunc(func(c *config) { c.naming.fingerprints = true })
}

// WithEventIdentities fills in [Event.Identity], who is calling. Mind where your
// observer puts it: identities may be addresses of people, or secrets.
func WithEventIdentities() Option {
	return optionFunc(func(c *config) { c.naming.identities = true })
}

// WithDenied answers denied requests by f, instead of 429 with a body of
// application/problem+json. All headers that tell of quotas, Retry-After and
// Cache-Control: no-store are set when f is called; [Denial.ServeHTTP] writes what
// would have been written without f.
func WithDenied(f func(http.ResponseWriter, *http.Request, Denial)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.fault("WithDenied: f must not be nil")
		}
		c.denied = f
	})
}

// WithUnidentified answers requests whose identity cannot be told by h, instead of
// 400 with a body of application/problem+json. Nothing is charged for them: to let
// them through counted, give the policy a fallback by [FirstOf].
func WithUnidentified(h http.Handler) Option {
	return optionFunc(func(c *config) {
		if h == nil {
			c.fault("WithUnidentified: h must not be nil")
		}
		c.unidentified = h
	})
}

// configure gathers options and returns every fault of theirs in one error.
func configure(options []Option) (config, error) {
	c := config{
		headers:      headers{standard: true},
		denied:       func(w http.ResponseWriter, r *http.Request, d Denial) { d.ServeHTTP(w, r) },
		unidentified: unidentified,
	}
	for i, o := range options {
		if p, ok := o.(*Policy); o == nil || ok && p == nil {
			c.fault("option %d: must not be nil", i+1)
			continue
		}
		o.apply(&c)
	}
	if c.sizeHint < 0 {
		c.fault("WithSizeHint: keys must be at least 0, got %d", c.sizeHint)
	}
	if c.headers.partition && !c.headers.standard {
		c.fault("WithPartitionKey: WithoutRateLimit leaves out the fields that it would be in")
	}
	if c.naming != (naming{}) && c.observer == nil {
		c.fault("WithEventFingerprints and WithEventIdentities need WithObserver")
	}
	c.faults = append(c.faults, validate(c.policies, c.foldPaths))
	return c, errors.Join(c.faults...)
}
