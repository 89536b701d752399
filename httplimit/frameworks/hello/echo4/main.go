package main

import (
	"log"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
)

func main() {
	limiter := newLimiter()
	defer limiter.Close()
	log.Fatal(newServer(limiter).Start(":8080"))
}

// Each account has 100 requests an hour, and 5 of them may be for reports.
func newLimiter() *httplimit.Limiter {
	byAccount := echo4limit.By(func(c echo.Context) (string, bool) {
		account, ok := c.Get("account").(string)
		return account, ok
	})
	return httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerHour(100)}, Key: byAccount},
		httplimit.Policy{Name: "reports", Pattern: "GET /api/reports", Limits: []sash.Limit{sash.PerHour(5)}, Key: byAccount},
	))
}

func newServer(limiter *httplimit.Limiter) *echo.Echo {
	e := echo.New()
	e.Use(authenticate, echo4limit.Middleware(limiter, echo4limit.WithSkipper(isHealth), echo4limit.WithDenied(slowDown)))
	e.GET("/health", func(c echo.Context) error { return c.String(http.StatusOK, "well") })
	api := e.Group("/api")
	api.GET("/hello", func(c echo.Context) error { return c.String(http.StatusOK, "hello, "+c.Get("account").(string)) })
	api.GET("/reports", func(c echo.Context) error { return c.String(http.StatusOK, "all is well") })
	return e
}

func authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("account", c.Request().Header.Get("X-Account")) // yours checks a token
		return next(c)
	}
}

func isHealth(c echo.Context) bool { return c.Path() == "/health" }

// slowDown leaves the answer to echo's HTTPErrorHandler.
func slowDown(echo.Context, httplimit.Denial) error {
	return echo.NewHTTPError(http.StatusTooManyRequests, "slow down")
}
