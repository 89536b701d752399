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
	"github.com/seed-30da4c49/sash/httplimit/internal/eitherecho"
)

// Middleware returns a middleware that limits the requests that echo passes to it. It panics if
// l is nil.
//
// It sets Request.Pattern to the path of echo's route, such as "/users/:id", so
// [httplimit.ByRoute] keys requests by their route. Requests that no route matches have none;
// to count them together, use httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone()).
//
// If the status decides what a request is charged, echo's HTTPErrorHandler answers an error of
// a handler at once, and must do nothing if the response is committed.
//
// A request that has no charges which its response may change costs nothing more than in
// [httplimit.Limiter.Decide].
func Middleware(l *httplimit.Limiter) echo.MiddlewareFunc {
	if l == nil {
		panic("echo4limit: Middleware: limiter must not be nil")
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if route := c.Path(); route != "" {
				c.Request().Pattern = route
			}
			return version.Serve(l, c, c.Response(), next)
		}
	}
}

var version = eitherecho.Version[echo.Context]{
	Writer: func(c echo.Context) *http.ResponseWriter { return &c.Response().Writer },
	Answer: func(c echo.Context, err error) { c.Error(err) },
}
