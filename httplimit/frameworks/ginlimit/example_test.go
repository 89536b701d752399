package ginlimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/frameworks/ginlimit"
)

// Only failed logins count.
func ExampleMiddleware() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:    "login",
		Pattern: "POST /login",
		Limits:  []sash.Limit{sash.PerHour(2)},
		Key:     httplimit.ByAddress(),
		Charge:  func(status int) bool { return status == http.StatusUnauthorized },
	}))
	defer limiter.Close()

	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(ginlimit.Middleware(limiter))
	e.POST("/login", func(c *gin.Context) {
		if c.Query("password") != "secret" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.String(http.StatusOK, "welcome")
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
