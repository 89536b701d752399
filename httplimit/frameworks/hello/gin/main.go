package main

import (
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

func main() {
	limiter := newLimiter()
	defer limiter.Close()
	log.Fatal(newRouter(limiter).Run(":8080"))
}

// Each account has 100 requests an hour, and 5 of them may be for reports.
func newLimiter() *httplimit.Limiter {
	byAccount := ginlimit.By(func(c *gin.Context) (string, bool) { return c.GetString("account"), true })
	return httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerHour(100)}, Key: byAccount},
		httplimit.Policy{Name: "reports", Pattern: "GET /api/reports", Limits: []sash.Limit{sash.PerHour(5)}, Key: byAccount},
	))
}

func newRouter(limiter *httplimit.Limiter) *gin.Engine {
	router := gin.Default()
	router.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "well") })
	api := router.Group("/api", authenticate, ginlimit.Middleware(limiter, ginlimit.WithDenied(slowDown)))
	api.GET("/hello", func(c *gin.Context) { c.String(http.StatusOK, "hello, "+c.GetString("account")) })
	api.GET("/reports", func(c *gin.Context) { c.String(http.StatusOK, "all is well") })
	return router
}

func authenticate(c *gin.Context) { c.Set("account", c.GetHeader("X-Account")) } // yours checks a token

func slowDown(c *gin.Context, _ httplimit.Denial) {
	c.JSON(http.StatusTooManyRequests, gin.H{"message": "slow down"})
}
