package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// Each client has two requests an hour for each route of a group.
func ExampleMiddleware() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "routes",
		Limits: []sash.Limit{sash.PerHour(2)},
		Key:    httplimit.Join(httplimit.ByAddress(), httplimit.ByRoute()),
	}))
	defer limiter.Close()

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	api := e.Group("/api", ginlimit.Middleware(limiter))
	hello := func(c *gin.Context) { c.String(http.StatusOK, "hello") }
	api.GET("/users/:id", hello)
	api.GET("/orders", hello)

	for _, path := range []string{"/api/users/1", "/api/users/2", "/api/users/3", "/api/orders"} {
		w := httptest.NewRecorder()
		e.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /api/users/1 200
	// /api/users/2 200
	// /api/users/3 429
	// /api/orders 200
}

// Each account has two requests an hour, and is refused in the words of the application. A route of probes is not
// limited.
func ExampleWithDenied() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "accounts",
		Limits: []sash.Limit{sash.PerHour(2)},
		Key:    ginlimit.By(func(c *gin.Context) (string, bool) { return c.GetString("account"), true }),
	}))
	defer limiter.Close()

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(
		func(c *gin.Context) { c.Set("account", c.GetHeader("X-Account")) }, // yours checks a token
		ginlimit.Middleware(limiter,
			ginlimit.WithSkipper(func(c *gin.Context) bool { return c.FullPath() == "/health" }),
			ginlimit.WithDenied(func(c *gin.Context, d httplimit.Denial) {
				c.JSON(http.StatusTooManyRequests, gin.H{"message": "slow down", "quotas": d.Violated})
			}),
		),
	)
	hello := func(c *gin.Context) { c.String(http.StatusOK, "hello") }
	e.GET("/", hello)
	e.GET("/health", hello)

	for _, path := range []string{"/", "/health", "/", "/", "/health"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Account", "a")
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		fmt.Println(path, w.Code, w.Body)
	}
	// Output:
	// / 200 hello
	// /health 200 hello
	// / 200 hello
	// / 429 {"message":"slow down","quotas":["accounts"]}
	// /health 200 hello
}
