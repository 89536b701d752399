package echo4limit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
)

// A download costs its bytes. Each client has ten an hour.
func ExampleMiddleware() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "downloads",
		Limits: []sash.Limit{sash.PerHour(10)},
		Key:    httplimit.ByAddress(),
		Unit:   "content-bytes",
		Settle: httplimit.SettleBytes(),
	}))
	defer limiter.Close()

	e := echo.New()
	e.GET("/files/:name", func(c echo.Context) error {
		return c.String(http.StatusOK, "content")
	}, echo4limit.Middleware(limiter))

	for range 3 {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", "/files/a", nil))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 429
}

// Each account has two requests an hour, and is refused by echo's HTTPErrorHandler. A route of probes is not
// limited.
func ExampleWithDenied() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "accounts",
		Limits: []sash.Limit{sash.PerHour(2)},
		Key: echo4limit.By(func(c echo.Context) (string, bool) {
			account, ok := c.Get("account").(string)
			return account, ok
		}),
	}))
	defer limiter.Close()

	e := echo.New()
	authenticate := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			c.Set("account", c.Request().Header.Get("X-Account")) // yours checks a token
			return next(c)
		}
	}
	e.Use(authenticate, echo4limit.Middleware(limiter,
		echo4limit.WithSkipper(func(c echo.Context) bool { return c.Path() == "/health" }),
		echo4limit.WithDenied(func(echo.Context, httplimit.Denial) error {
			return echo.NewHTTPError(http.StatusTooManyRequests, "slow down")
		}),
	))
	hello := func(c echo.Context) error { return c.String(http.StatusOK, "hello") }
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
