package main

import (
	"log"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"golang.org/x/time/rate"
)

func main() { log.Fatal(newServer().Start(":8080")) }

// limit admits that number of requests at once, and an hour, of each account.
func limit(requests int) echo.MiddlewareFunc {
	return middleware.RateLimiterWithConfig(middleware.RateLimiterConfig{
		Skipper: isHealth,
		Store: middleware.NewRateLimiterMemoryStoreWithConfig(middleware.RateLimiterMemoryStoreConfig{
			Rate: rate.Limit(requests) / 3600, Burst: requests, ExpiresIn: time.Hour,
		}),
		IdentifierExtractor: func(c echo.Context) (string, error) { return c.Get("account").(string), nil },
		DenyHandler:         slowDown,
	})
}

func newServer() *echo.Echo {
	e := echo.New()
	e.Use(authenticate, limit(100))
	e.GET("/health", func(c echo.Context) error { return c.String(http.StatusOK, "well") })
	api := e.Group("/api")
	api.GET("/hello", func(c echo.Context) error { return c.String(http.StatusOK, "hello, "+c.Get("account").(string)) })
	api.GET("/reports", func(c echo.Context) error { return c.String(http.StatusOK, "all is well") }, limit(5))
	return e
}

func authenticate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set("account", c.Request().Header.Get("X-Account"))
		return next(c)
	}
}

func isHealth(c echo.Context) bool { return c.Path() == "/health" }

func slowDown(echo.Context, string, error) error {
	return echo.NewHTTPError(http.StatusTooManyRequests, "slow down")
}
