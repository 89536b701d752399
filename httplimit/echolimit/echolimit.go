// Package echolimit puts a limiter of [httplimit] into echo, version 5:
//
//	e := echo.New()
//	e.Use(echolimit.Middleware(limiter))
//
// All that the documentation of [httplimit.Limiter.Middleware] says holds. Handlers find the
// charges of a request, for [httplimit.ChargeOf], in c.Request().Context().
//
// # Where to mount it
//
// Echo.Use limits all requests, also those that no route matches. Groups and single routes may
// have limiters of their own. With Echo.Pre it comes before the router, and before the
// middleware that rewrites paths. If RemoveTrailingSlash or Rewrite are used, mount the limiter
// by Use, or give it [httplimit.WithPathFolding].
//
// Compression may stand before it or behind it. Before it, [httplimit.SettleBytes] counts the bytes
// that handlers write; behind it, those that are sent.
//
// # What policies know
//
// The functions of a policy receive the request of net/http. Its Pattern is the path of echo's route, and its
// PathValue returns the parameters of the path, so [httplimit.ByRoute] and [httplimit.ByPathValue] work. What
// echo alone knows, such as the account that an earlier middleware has put into the context, is found by
// [By] and [ContextOf]:
//
//	Key: echolimit.By(func(c *echo.Context) (string, bool) {
//		account, ok := c.Get("account").(string)
//		return account, ok
//	})
//
// # Errors
//
// Refusals are problem details, unless the limiter or [WithDenied] says otherwise. An error that WithDenied
// returns goes to echo's HTTPErrorHandler:
//
//	echolimit.Middleware(limiter, echolimit.WithDenied(func(*echo.Context, httplimit.Denial) error {
//		return echo.NewHTTPError(http.StatusTooManyRequests, "slow down")
//	}))
//
// If the status decides what a request is charged, the middleware has echo's HTTPErrorHandler
// answer an error of a handler at once, so that the limiter sees the status that the client is
// sent. It then returns the error, as echo's RequestLogger does. An HTTPErrorHandler of yours
// must do nothing if the response is committed, as echo's own. Middleware that makes another
// error or another response of an error belongs after this one.
package echolimit

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
	"github.com/seed-30da4c49/sash/httplimit/internal/eitherecho"
)

// Middleware returns a middleware that limits the requests that echo passes to it. It panics if
// l or an option is nil.
//
// Behind the router, Request.Pattern is the path of echo's route, such as "/users/:id", so
// [httplimit.ByRoute] keys requests by their route. Requests that no route matches have none;
// to count them together, use httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone()).
//
// A request costs what [httplimit.Limiter.Decide] does, and the copy of an [http.Request], by which policies
// find echo's context.
func Middleware(l *httplimit.Limiter, options ...Option) echo.MiddlewareFunc {
	adapter.Check(l != nil, "echolimit: Middleware: limiter")
	m := &eitherecho.Mount[*echo.Context]{Version: version, Limiter: l, Options: adapter.Configure("echolimit: Middleware", options)}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			if m.Skips(c) {
				return next(c)
			}
			for _, p := range c.PathValues() {
				c.Request().SetPathValue(p.Name, p.Value)
			}
			return m.Serve(c, c.Response(), next)
		}
	}
}

var version = eitherecho.Version[*echo.Context]{
	Writer: func(c *echo.Context) *http.ResponseWriter { return &responseOf(c).ResponseWriter },
	Answer: func(c *echo.Context, err error) { c.Echo().HTTPErrorHandler(c, err) },
}

// responseOf returns echo's response of c. If another middleware has replaced it by a writer of its
// own, another response is made around that writer, as by echo.WrapMiddleware: echo's own one may
// not know of what handlers write before that middleware returns.
func responseOf(c *echo.Context) *echo.Response {
	if response, ok := c.Response().(*echo.Response); ok {
		return response
	}
	response := echo.NewResponse(c.Response(), c.Logger())
	c.SetResponse(response)
	return response
}
