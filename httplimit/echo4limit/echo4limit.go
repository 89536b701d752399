// Package echo4limit puts a limiter of [httplimit] into echo, version 4:
//
//	e := echo.New()
//	e.Use(echo4limit.Middleware(limiter))
//
// For version 5, see package echolimit, whose documentation holds here, too.
package echo4limit

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
	"github.com/seed-30da4c49/sash/httplimit/internal/eitherecho"
)

// Middleware returns a middleware that limits the requests that echo passes to it. It panics if
// l or an option is nil.
//
// It sets Request.Pattern to the path of echo's route, such as "/users/:id", so
// [httplimit.ByRoute] keys requests by their route. Requests that no route matches have none;
// to count them together, use httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone()).
//
// If the status decides what a request is charged, echo's HTTPErrorHandler answers an error of
// a handler at once, and must do nothing if the response is committed.
//
// A request costs what [httplimit.Limiter.Decide] does, and the copy of an [http.Request], by which policies
// find echo's context.
func Middleware(l *httplimit.Limiter, options ...Option) echo.MiddlewareFunc {
	adapter.Check(l != nil, "echo4limit: Middleware: limiter")
	m := &eitherecho.Mount[echo.Context]{Version: version, Limiter: l, Options: adapter.Configure("echo4limit: Middleware", options)}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if m.Skips(c) {
				return next(c)
			}
			if route := c.Path(); route != "" {
				c.Request().Pattern = route
			}
			for i, name := range c.ParamNames() {
				c.Request().SetPathValue(name, c.ParamValues()[i])
			}
			return m.Serve(c, c.Response(), next)
		}
	}
}

var version = eitherecho.Version[echo.Context]{
	Writer: func(c echo.Context) *http.ResponseWriter { return &c.Response().Writer },
	Answer: func(c echo.Context, err error) { c.Error(err) },
}
