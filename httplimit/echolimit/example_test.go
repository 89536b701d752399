package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v5"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
)

// Only failed logins count, also if the handler returns an error.
func ExampleMiddleware() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:    "login",
		Pattern: "POST /login",
		Limits:  []sash.Limit{sash.PerHour(2)},
		Key:     httplimit.ByAddress(),
		Charge:  func(status int) bool { return status == http.StatusUnauthorized },
	}))
	defer limiter.Close()

	e := echo.New()
	e.Use(echolimit.Middleware(limiter))
	e.POST("/login", func(c *echo.Context) error {
		if c.QueryParam("password") != "secret" {
			return echo.ErrUnauthorized
		}
		return c.String(http.StatusOK, "welcome")
	})

	for _, password := range []string{"secret", "guess", "secret", "another", "secret"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Println(password, w.Code)
	}
	// Output:
	// secret 200
	// guess 401
	// secret 200
	// another 401
	// secret 429
}

// Each account has two requests an hour, and is refused by echo's HTTPErrorHandler. A route of probes is not
// limited.
func ExampleWithDenied() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "accounts",
		Limits: []sash.Limit{sash.PerHour(2)},
		Key: echolimit.By(func(c *echo.Context) (string, bool) {
			account, ok := c.Get("account").(string)
			return account, ok
		}),
	}))
	defer limiter.Close()

	e := echo.New()
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("account", c.Request().Header.Get("X-Account")) // yours checks a token
			return next(c)
		}
	}
	e.Use(authenticate, echolimit.Middleware(limiter,
		echolimit.WithSkipper(func(c *echo.Context) bool { return c.Path() == "/health" }),
		echolimit.WithDenied(func(*echo.Context, httplimit.Denial) error {
			return echo.NewHTTPError(http.StatusTooManyRequests, "slow down")
		}),
	))
	hello := func(c *echo.Context) error { return c.String(http.StatusOK, "hello") }
	e.GET("/", hello)
	e.GET("/health", hello)

	for _, path := range []string{"/", "/health", "/", "/", "/health"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Account", "a")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(path, w.Code, strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// / 200 hello
	// /health 200 hello
	// / 200 hello
	// / 429 {"message":"slow down"}
	// /health 200 hello
}
