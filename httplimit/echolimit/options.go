package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// An Option configures [Middleware]. If one is given twice, the last counts.
type Option func(*options)

type options = adapter.Options[*echo.Context]

// WithSkipper does not limit the requests for which skip returns true, and charges them nothing. A
// middleware.Skipper is such a function. WithSkipper panics if skip is nil.
func WithSkipper(skip func(*echo.Context) bool) Option {
	adapter.Check(skip != nil, "echolimit: WithSkipper: skip")
	return func(o *options) { o.Skip = skip }
}

// WithDenied answers denied requests by f, instead of what [httplimit.WithDenied] says. An error that f returns
// goes the way of all errors, to echo's HTTPErrorHandler. All headers about quotas, Retry-After and
// Cache-Control: no-store are set before f is called. It panics if f is nil.
func WithDenied(f func(*echo.Context, httplimit.Denial) error) Option {
	adapter.Check(f != nil, "echolimit: WithDenied: f")
	return func(o *options) { o.Denied = f }
}

// WithUnidentified answers requests whose identity cannot be told by f, instead of what
// [httplimit.WithUnidentified] says. An error that f returns goes the way of all errors. It panics if f is nil.
func WithUnidentified(f func(*echo.Context) error) Option {
	adapter.Check(f != nil, "echolimit: WithUnidentified: f")
	return func(o *options) { o.Unidentified = f }
}

// By keys requests by what a function finds in echo's context, such as an account. The identity cannot be told
// if the function returns false, or if the limiter is not mounted by [Middleware]. The function must not keep
// the context. By panics if identity is nil.
func By(identity func(*echo.Context) (string, bool)) httplimit.KeyFunc {
	adapter.Check(identity != nil, "echolimit: By: identity")
	return adapter.By(identity)
}

// ByRealIP keys requests by echo's RealIP, which is what the IPExtractor of the Echo finds. Without one,
// it is the address of the connection.
// Addresses are keyed as by [httplimit.ByAddressOf], with its options.
//
// [httplimit.ByAddress] reads X-Forwarded-For by itself, and trusts no proxy that it is not told of.
func ByRealIP(options ...httplimit.AddressOption) httplimit.KeyFunc {
	return adapter.ByAddress((*echo.Context).RealIP, options)
}

// ContextOf returns echo's context of a request that a function of a policy receives, such as Plan or Cost. It
// returns false if the limiter is not mounted by [Middleware]. The function must not keep the context.
func ContextOf(r *http.Request) (*echo.Context, bool) { return adapter.ContextOf[*echo.Context](r) }
