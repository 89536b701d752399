package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	ginlimiter "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/store/memory"
)

func main() { log.Fatal(newRouter().Run(":8080")) }

// limit admits that number of requests an hour, of each account.
func limit(requests int64) gin.HandlerFunc {
	return ginlimiter.NewMiddleware(
		limiter.New(memory.NewStore(), limiter.Rate{Period: time.Hour, Limit: requests}),
		ginlimiter.WithKeyGetter(func(c *gin.Context) string { return c.GetString("account") }),
		ginlimiter.WithLimitReachedHandler(slowDown),
	)
}

func newRouter() *gin.Engine {
	router := gin.Default()
	router.GET("/health", func(c *gin.Context) { c.String(http.StatusOK, "well") })
	api := router.Group("/api", authenticate, limit(100))
	api.GET("/hello", func(c *gin.Context) { c.String(http.StatusOK, "hello, "+c.GetString("account")) })
	api.GET("/reports", limit(5), func(c *gin.Context) { c.String(http.StatusOK, "all is well") })
	return router
}

func authenticate(c *gin.Context) { c.Set("account", c.GetHeader("X-Account")) }

func slowDown(c *gin.Context) { c.JSON(http.StatusTooManyRequests, gin.H{"message": "slow down"}) }
