package migrating_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofiber/fiber/v3"
	fiberlimiter "github.com/gofiber/fiber/v3/middleware/limiter"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// oursIn is ours for a limiter that mount puts into a framework.
func oursIn(t *testing.T, mount func(*httplimit.Limiter) http.Handler, p httplimit.Policy) site {
	s := ours(t, p, httplimit.WithPathFolding())
	s.Handler = mount(s.limiter)
	return s
}

// inEcho mounts a middleware in echo.
func inEcho(m echo.MiddlewareFunc) http.Handler {
	e := echo.New()
	e.Use(m)
	e.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
	return e
}

func echoSash(l *httplimit.Limiter) http.Handler { return inEcho(echolimit.Middleware(l)) }

// newEcho returns a site that echo's RateLimiter limits.
func newEcho(config middleware.RateLimiterMemoryStoreConfig) site {
	return site{Handler: inEcho(middleware.RateLimiter(middleware.NewRateLimiterMemoryStoreWithConfig(config)))}
}

// byEchoIP is a policy for each address that echo tells.
func byEchoIP(limits ...sash.Limit) httplimit.Policy {
	p := policy(limits...)
	p.Key = echolimit.ByRealIP()
	return p
}

var echoPeer = peer{
	name: "echo's RateLimiter",
	rows: []row{
		{
			have: "`middleware.RateLimiterMemoryStoreConfig{Rate: 8, Burst: 30}`", use: "`sash.PerSecond(8).TokenBucket(30)`, `echolimit.ByRealIP()`", changes: "the same is admitted; IPv6 counts by /64",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					theirs := newEcho(middleware.RateLimiterMemoryStoreConfig{Rate: 8, Burst: 30})
					sashs := oursIn(t, echoSash, byEchoIP(sash.PerSecond(8).TokenBucket(30)))
					random := rand.New(rand.NewPCG(1, 1))
					for range 500 {
						pass(sashs.clock, time.Duration(random.IntN(8))*time.Second/8)
						n := random.IntN(12)
						require.Equal(t, theirs.serves(n), sashs.serves(n))
					}
					for _, s := range []site{theirs, sashs} {
						require.Equal(t, 30, s.serves(40, from("[2001:db8::1]:1000")))
					}
					another := from("[2001:db8::2]:1000")
					require.Equal(t, []int{30, 0}, []int{theirs.serves(40, another), sashs.serves(40, another)})
				})
			},
		},
		{
			have: "`ExpiresIn`, by default 3 minutes", use: "nothing", changes: "a client is forgotten once its bucket is full; there, after that time, and it has its burst again",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					theirs := newEcho(middleware.RateLimiterMemoryStoreConfig{Rate: 1.0 / 3600, Burst: 5})
					sashs := oursIn(t, echoSash, byEchoIP(sash.PerHour(1).TokenBucket(5)))
					require.Equal(t, []int{5, 5}, []int{theirs.serves(9), sashs.serves(9)})
					pass(sashs.clock, 3*time.Minute+1)
					sashs.limiter.Sash().Sweep()
					another := from("192.0.2.9:1000") // whose request has the store forget others
					require.Equal(t, []int{200, 200}, []int{theirs.get(another), sashs.get(another)})
					require.Equal(t, []int{5, 0}, []int{theirs.serves(9), sashs.serves(9)})
				})
			},
		},
		{
			have: "`middleware.RateLimiter(store)`", use: "`echolimit.Middleware(limiter)`", changes: "the same: 429 with Retry-After; here with `RateLimit`, too",
			check: func(t *testing.T) {
				theirs := newEcho(middleware.RateLimiterMemoryStoreConfig{Rate: 1.0 / 3600, Burst: 1})
				for _, s := range []site{theirs, oursIn(t, echoSash, byEchoIP(sash.PerHour(1).TokenBucket(1)))} {
					require.Equal(t, 200, s.get())
					w := s.send()
					require.Equal(t, 429, w.Code)
					require.Equal(t, "3600", w.Header().Get("Retry-After"))
					require.Equal(t, s.limiter != nil, w.Header().Get("RateLimit") != "")
				}
			},
		},
	},
}

// inFiber mounts a middleware in fiber, as an http.Handler.
func inFiber(t *testing.T, m fiber.Handler) http.Handler {
	app := fiber.New()
	app.Use(m)
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("hello") })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := app.Test(r, fiber.TestConfig{Timeout: time.Minute})
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
	})
}

// byFiberIP is a policy for each address that fiber tells.
func byFiberIP(limits ...sash.Limit) httplimit.Policy {
	p := policy(limits...)
	p.Key = fiberlimit.ByIP()
	return p
}

// fiberSash mounts sash in fiber.
func fiberSash(t *testing.T) func(*httplimit.Limiter) http.Handler {
	return func(l *httplimit.Limiter) http.Handler { return inFiber(t, fiberlimit.New(l)) }
}

var fiberPeer = peer{
	name: "fiber's limiter",
	rows: []row{
		{
			have: "`limiter.New(limiter.Config{Max: 20, Expiration: time.Hour})`", use: "`fiberlimit.New(l)`, with `sash.PerHour(20).Log()` and `fiberlimit.ByIP()`", changes: "at most 20 in any hour, and not in each of fixed ones",
			check: func(t *testing.T) {
				theirs := site{Handler: inFiber(t, fiberlimiter.New(fiberlimiter.Config{Max: 20, Expiration: time.Hour}))}
				sashs := oursIn(t, fiberSash(t), byFiberIP(sash.PerHour(20).Log()))
				require.Equal(t, []int{20, 1}, []int{theirs.serves(25), sashs.serves(1)})
				sashs.clock.Advance(59 * time.Minute)
				require.Equal(t, 19, sashs.serves(25))
				sashs.clock.Advance(time.Minute)
				require.Equal(t, 1, sashs.serves(25))
			},
		},
		{
			have: "`LimiterMiddleware: limiter.SlidingWindow{}`", use: "`sash.PerHour(20)`", changes: "a client that keeps to its limit is never denied",
			check: func(t *testing.T) {
				theirs := site{Handler: inFiber(t, fiberlimiter.New(fiberlimiter.Config{Max: 20, Expiration: time.Hour, LimiterMiddleware: fiberlimiter.SlidingWindow{}}))}
				sashs := oursIn(t, fiberSash(t), byFiberIP(sash.PerHour(20)))
				require.Equal(t, []int{20, 20}, []int{theirs.serves(25), sashs.serves(25)})
				sashs.clock.Advance(time.Hour)
				require.Equal(t, 20, sashs.serves(25))
			},
		},
	},
}
