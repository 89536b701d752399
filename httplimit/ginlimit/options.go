package ginlimit

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// An Option configures [Middleware]. If one is given twice, the last counts.
type Option func(*options)

type options = adapter.Options[*gin.Context]

// WithSkipper does not limit the requests for which skip returns true, and charges them nothing. It panics if
// skip is nil.
func WithSkipper(skip gin.Skipper) Option {
	adapter.Check(skip != nil, "ginlimit: WithSkipper: skip")
	return func(o *options) { o.Skip = skip }
}

// WithDenied answers denied requests by f, instead of what [httplimit.WithDenied] says. All headers about
// quotas, Retry-After and Cache-Control: no-store are set before f is called, and Abort has been called. If f writes
// nothing, gin answers 200: an f that only calls c.Error needs a handler before it that answers errors. WithDenied
// panics if f is nil.
func WithDenied(f func(*gin.Context, httplimit.Denial)) Option {
	adapter.Check(f != nil, "ginlimit: WithDenied: f")
	return func(o *options) {
		o.Denied = func(c *gin.Context, d httplimit.Denial) error {
			f(c, d)
			return nil
		}
	}
}

// WithUnidentified answers requests whose identity cannot be told by f, instead of what
// [httplimit.WithUnidentified] says. Abort has been called. It panics if f is nil.
func WithUnidentified(f func(*gin.Context)) Option {
	adapter.Check(f != nil, "ginlimit: WithUnidentified: f")
	return func(o *options) {
		o.Unidentified = func(c *gin.Context) error {
			f(c)
			return nil
		}
	}
}

// By keys requests by what a function finds in gin's context, such as an account. The identity cannot be told if
// the function returns false, or if the limiter is not mounted by [Middleware]. The function must not keep
// the context. By panics if identity is nil.
func By(identity func(*gin.Context) (string, bool)) httplimit.KeyFunc {
	adapter.Check(identity != nil, "ginlimit: By: identity")
	return adapter.By(identity)
}

// ByClientIP keys requests by gin's ClientIP, which believes the proxies of Engine.SetTrustedProxies, and the
// headers of Engine.RemoteIPHeaders. By default gin trusts all proxies, and then each client can choose its
// address: set the trusted ones. Addresses are keyed as by [httplimit.ByAddressOf], with its options.
//
// [httplimit.ByAddress] reads X-Forwarded-For by itself, and trusts no proxy that it is not told of.
func ByClientIP(options ...httplimit.AddressOption) httplimit.KeyFunc {
	return adapter.ByAddress((*gin.Context).ClientIP, options)
}

// ContextOf returns gin's context of a request that a function of a policy receives, such as Plan or Cost. It
// returns false if the limiter is not mounted by [Middleware]. The function must not keep the context.
func ContextOf(r *http.Request) (*gin.Context, bool) { return adapter.ContextOf[*gin.Context](r) }
