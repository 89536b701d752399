package echolimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

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
