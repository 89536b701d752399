// Not published: examples.
module github.com/seed-30da4c49/sash/examples/ports

go 1.25.0

require (
	github.com/gin-gonic/gin v1.12.0
	github.com/go-chi/httprate v0.16.1
	github.com/go-redis/redis_rate/v10 v10.0.1
	github.com/redis/go-redis/v9 v9.22.0
	github.com/seed-30da4c49/sash v0.1.0
	github.com/seed-30da4c49/sash/httplimit/ginlimit v0.1.0
	github.com/seed-30da4c49/sash/sashredis v0.1.0
	github.com/seed-30da4c49/sash/sashredis/goredisconn v0.1.0
	github.com/stretchr/testify v1.11.1
	github.com/ulule/limiter/v3 v3.11.2
	golang.org/x/time v0.14.0
)
