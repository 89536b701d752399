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
			v := l.Decide(c.Response().Header(), c.Request())
			switch {
			case v.Outcome != httplimit.Admitted:
				l.Refuse(c.Response(), c.Request(), v)
				return nil
			case v.Charges == nil:
				return next(c)
			}
			return serve(v.Charges, c, next)
		}
	}
}

// serve calls next, and settles the charges by the response.
func serve(charges *httplimit.Charges, c echo.Context, next echo.HandlerFunc) (err error) {
	response := c.Response()
	own := response.Writer
	defer func() { response.Writer = own }()
	// The limiter sees what echo's response writes, which is what the client is sent: hooks of
	// the response may change what handlers write.
	charges.Serve(http.HandlerFunc(func(seen http.ResponseWriter, r *http.Request) {
		response.Writer = seen
		c.SetRequest(r)
		if err = next(c); err != nil {
			c.Error(err)
		}
	}), own, c.Request())
	return err
}
