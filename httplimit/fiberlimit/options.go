package fiberlimit

import (
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// An Option configures [New]. If one is given twice, the last counts.
type Option func(*options)

type options = adapter.Options[fiber.Ctx]

// WithNext does not limit the requests for which next returns true, and charges them nothing. It is what fiber's
// own middlewares call Next. WithNext panics if next is nil.
func WithNext(next func(fiber.Ctx) bool) Option {
	adapter.Check(next != nil, "fiberlimit: WithNext: next")
	return func(o *options) { o.Skip = next }
}

// WithDenied answers denied requests by f, instead of what [httplimit.WithDenied] says. An error that f returns
// goes the way of all errors, to the ErrorHandler of the app. All headers about quotas, Retry-After and
// Cache-Control: no-store are set before f is called. It panics if f is nil.
func WithDenied(f func(fiber.Ctx, httplimit.Denial) error) Option {
	adapter.Check(f != nil, "fiberlimit: WithDenied: f")
	return func(o *options) { o.Denied = f }
}

// WithUnidentified answers requests whose identity cannot be told by f, instead of what
// [httplimit.WithUnidentified] says. An error that f returns goes the way of all errors. It panics if f is nil.
func WithUnidentified(f func(fiber.Ctx) error) Option {
	adapter.Check(f != nil, "fiberlimit: WithUnidentified: f")
	return func(o *options) { o.Unidentified = f }
}

// By keys requests by what a function finds in fiber's context, such as an account; what it returns is copied.
// The identity cannot be told if the function returns false, or if the limiter is not mounted by [New]. The
// function must not keep the context. By panics if identity is nil.
func By(identity func(fiber.Ctx) (string, bool)) httplimit.KeyFunc {
	adapter.Check(identity != nil, "fiberlimit: By: identity")
	return adapter.By(identity)
}

// ByIP keys requests by fiber's IP, which is the address of the connection, or what the proxies of
// fiber.Config.TrustProxyConfig write into its ProxyHeader. Addresses are keyed as by
// [httplimit.ByAddressOf], with its options.
//
// [httplimit.ByAddress] reads X-Forwarded-For by itself, and trusts no proxy that it is not told of.
func ByIP(options ...httplimit.AddressOption) httplimit.KeyFunc {
	return adapter.ByAddress(fiber.Ctx.IP, options)
}

// ContextOf returns fiber's context of a request that a function of a policy receives, such as Plan or Cost. It
// returns false if the limiter is not mounted by [New]. It also returns false in a Settle of a streamed response, a
// file or a hijacked connection: fiber uses its context for other requests by then. The function must not keep the
// context.
func ContextOf(r *http.Request) (fiber.Ctx, bool) { return adapter.ContextOf[fiber.Ctx](r) }
