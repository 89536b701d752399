package orders

import (
	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/httpstore"
)

// After returns a service whose clients have three requests a minute, counted by this client. Close the limiter when
// the service ends.
func After(client redis.UniversalClient) (*gin.Engine, *httplimit.Limiter, error) {
	limiter, err := httplimit.New(
		httplimit.Policy{Name: "orders", Limits: []sash.Limit{sash.PerMinute(3)}, Key: ginlimit.ByClientIP()},
		httplimit.WithStore(httpstore.New(goredisconn.New(client), sashredis.WithFallback(sashredis.FallbackAdmit))),
		httplimit.WithXRateLimitTime(),
	)
	if err != nil {
		return nil, nil, err
	}
	e := newEngine()
	e.Use(ginlimit.Middleware(limiter))
	addRoutes(e)
	return e, limiter, nil
}
