// Package orders is a service of gin on several machines, which share their counts in Redis: with ulule's limiter,
// and with sash.
package orders

import (
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	mgin "github.com/ulule/limiter/v3/drivers/middleware/gin"
	store "github.com/ulule/limiter/v3/drivers/store/redis"
)

// Before returns a service whose clients have three requests a minute, counted by this client.
func Before(client *redis.Client) (*gin.Engine, error) {
	shared, err := store.NewStoreWithOptions(client, limiter.StoreOptions{Prefix: "orders"})
	if err != nil {
		return nil, err
	}
	rate := limiter.Rate{Period: time.Minute, Limit: 3}
	e := newEngine()
	e.Use(mgin.NewMiddleware(limiter.New(shared, rate)))
	addRoutes(e)
	return e, nil
}
