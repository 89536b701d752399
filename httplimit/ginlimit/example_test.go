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
