package frameworks_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
)

// echoPeer is the RateLimiter of echo's package middleware.
var echoPeer = peer{
	name: "echo's RateLimiter", module: "github.com/labstack/echo/v5", tests: []string{"middleware/rate_limiter_test.go"},
	rows: []behaviour{
		{
			what: "rate and burst", peer: "`Rate: 1, Burst: 3` serves three requests at once, and then one a second",
			sash:  "the same: `sash.PerSecond(1).TokenBucket(3)`",
			tests: []string{"TestRateLimiter", "TestRateLimiterMemoryStore_Allow", "TestRateLimiterMemoryStore_TimeOrdering"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(byID, sash.PerSecond(1).TokenBucket(3)))
				var served []int
				for i := range 24 { // one request each 220 ms, the seventh of another client
					id := "127.0.0.1"
					if i == 6 {
						id = "127.0.0.2"
					}
					if b.get("/", "X-Real-IP", id).status == 200 {
						served = append(served, i)
					}
					b.clock.Advance(220 * time.Millisecond)
				}
				require.Equal(t, []int{0, 1, 2, 5, 6, 10, 14, 19, 23}, served)
			},
		},
		{
			what: "a fraction of a request", peer: "`Rate: 0.5` has a burst of 1",
			sash:  "the same: `sash.Per(1, 2*time.Second).TokenBucket(1)`, in whole numbers",
			tests: []string{"TestRateLimiterMemoryStore_FractionalRateDefaultBurst"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(nil, sash.Per(1, 2*time.Second).TokenBucket(1)))
				require.Equal(t, []int{200, 429}, []int{b.get("/").status, b.get("/").status})
				b.clock.Advance(2*time.Second - 1)
				require.Equal(t, 429, b.get("/").status)
				b.clock.Advance(1)
				require.Equal(t, 200, b.get("/").status)
			},
		},
		{
			what: "defaults", peer: "the burst is the rate, rounded up; a client is forgotten after 3 minutes",
			sash:  "different: nothing is chosen for you that changes what is admitted; a burst of 0 is an error of New",
			tests: []string{"TestNewRateLimiterMemoryStore"},
			check: func(t *testing.T) {
				_, err := httplimit.New(limits(nil, sash.PerSecond(2).TokenBucket(0)))
				require.ErrorIs(t, err, sash.ErrInvalidLimit)
			},
		},
		{
			what: "a configuration without a limit", peer: "without a Store, RateLimiterWithConfig panics, and ToMiddleware returns an error",
			sash:  "the same: New returns an error without a Policy, and Middleware panics without a limiter",
			tests: []string{"TestMustRateLimiterWithConfig_panicBehaviour"},
			check: func(t *testing.T) {
				_, err := httplimit.New()
				require.ErrorIs(t, err, sash.ErrInvalidOption)
				require.Panics(t, func() { echolimit.Middleware(nil) })
				require.NotPanics(t, func() { echolimit.Middleware(newBed(t, echoHello(), limits(nil, sash.PerSecond(1))).limiter) })
			},
		},
		{
			what: "the client", peer: "`c.RealIP()` by default",
			sash:  "the same by `echolimit.ByRealIP()`; a Policy without a Key is an error",
			tests: []string{"TestRateLimiterWithConfig_defaultConfig"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(echolimit.ByRealIP(), sash.PerSecond(1).TokenBucket(3)))
				require.Equal(t, map[int]int{200: 3, 429: 4}, b.times(7))
				_, err := httplimit.New(httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerSecond(1)}})
				require.ErrorContains(t, err, "Key must not be nil")
			},
		},
		{
			what: "the default refusal", peer: "the error `echo.HTTPError` with 429, `rate limit exceeded`, after Retry-After and X-RateLimit-Limit and -Remaining are set",
			sash:  "different: 429 with Retry-After, `RateLimit` and problem details, written by the limiter; an error of yours by WithDenied",
			tests: []string{"TestRateLimiter", "TestRateLimiterWithConfig_defaultConfig", "TestRateLimiterWithConfig_defaultDenyHandler"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(nil, sash.PerHour(1)))
				b.get("/")
				denied := b.get("/")
				require.Equal(t, 429, denied.status)
				require.Equal(t, "application/problem+json", denied.header.Get("Content-Type"))
				require.Equal(t, "3600", denied.header.Get("Retry-After"))
				own := echolimit.WithDenied(func(*echo.Context, httplimit.Denial) error {
					return echo.NewHTTPError(http.StatusTooManyRequests, "rate limit exceeded")
				})
				b = newBed(t, echoHello(own), limits(nil, sash.PerHour(0)))
				require.JSONEq(t, `{"message":"rate limit exceeded"}`, b.get("/").body)
			},
		},
		{
			what: "handlers of refusals", peer: "DenyHandler and ErrorHandler answer in the application's way",
			sash:  "the same: WithDenied and WithUnidentified, after the headers about quotas are set",
			tests: []string{"TestRateLimiterWithConfig"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(
					echolimit.WithDenied(func(c *echo.Context, _ httplimit.Denial) error { return c.JSON(403, nil) }),
					echolimit.WithUnidentified(func(c *echo.Context) error { return c.JSON(400, nil) }),
				), limits(byID, sash.PerSecond(1).TokenBucket(3)))
				var statuses []int
				for _, id := range []string{"a", "a", "a", "a", "", "a", "a"} {
					statuses = append(statuses, b.get("/", "X-Real-IP", id).status)
				}
				require.Equal(t, []int{200, 200, 200, 403, 400, 403, 403}, statuses)
			},
		},
		{
			what: "a client that cannot be told", peer: "403, `error while extracting identifier`, with the error of the extractor",
			sash:  "different: 400, since the request lacks something; the answer tells nothing of your functions. Nothing is charged, as there",
			tests: []string{"TestRateLimiterWithConfig_defaultDenyHandler"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(byID, sash.PerHour(1)))
				unknown := b.get("/")
				require.Equal(t, 400, unknown.status)
				require.Equal(t, "application/problem+json", unknown.header.Get("Content-Type"))
				require.NotContains(t, unknown.body, "identifier")
				require.Zero(t, b.limiter.Sash().Len())
			},
		},
		{
			what: "a skipper", peer: "a request that it skips is served, and neither BeforeFunc nor the extractor sees it",
			sash:  "the same: WithSkipper; no function of a policy is called",
			tests: []string{"TestRateLimiterWithConfig_skipper", "TestRateLimiterWithConfig_skipperNoSkip"},
			check: func(t *testing.T) {
				asked := 0
				counting := echolimit.By(func(*echo.Context) (string, bool) { asked++; return "127.0.0.1", true })
				skip := true
				b := newBed(t, echoHello(echolimit.WithSkipper(func(*echo.Context) bool { return skip })), limits(counting, sash.PerHour(0)))
				require.Equal(t, 200, b.get("/").status)
				require.Zero(t, asked)
				skip = false
				require.Equal(t, 429, b.get("/").status)
				require.Equal(t, 1, asked)
			},
		},
		{
			what: "BeforeFunc", peer: "is called before the extractor, for each request that is not skipped",
			sash:  "different: there is none; a middleware before the limiter does the same, for refused requests too",
			tests: []string{"TestRateLimiterWithConfig_beforeFunc", "TestRateLimiterWithConfig_skipperNoSkip"},
			check: func(t *testing.T) {
				before := 0
				b := newBed(t, func(l *httplimit.Limiter) any {
					e := echo.New()
					e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
						return func(c *echo.Context) error { before++; return next(c) }
					}, echolimit.Middleware(l))
					e.GET("/", func(c *echo.Context) error { return c.String(200, "test") })
					return e
				}, limits(nil, sash.PerHour(1)))
				require.Equal(t, map[int]int{200: 1, 429: 2}, b.times(3))
				require.Equal(t, 3, before)
			},
		},
		{
			what: "clients that are gone", peer: "a client that is not seen for ExpiresIn, 3 minutes, is forgotten, and then has its burst again",
			sash:  "different: a client is forgotten when it has its whole quota again, so that forgetting it gives it nothing",
			tests: []string{"TestRateLimiterMemoryStore_cleanupStaleVisitors"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(nil, sash.PerHour(1).TokenBucket(3)))
				require.Equal(t, map[int]int{200: 3, 429: 1}, b.times(4))
				b.clock.Advance(10 * time.Minute)
				require.Zero(t, b.limiter.Sash().Sweep())
				require.Equal(t, 429, b.get("/").status)
				b.clock.Advance(3 * time.Hour)
				require.Equal(t, 1, b.limiter.Sash().Sweep())
			},
		},
		{
			what: "one reading of the clock", peer: "a request is decided at one reading, so that no time passes within",
			sash:  "the same, once a client is known",
			tests: []string{"TestRateLimiterMemoryStore_TOCTOUFix"},
			check: func(t *testing.T) {
				clock := new(countingClock)
				b := newStoreBed(t, echoHello(), limits(nil, sash.PerSecond(1).TokenBucket(1)), httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))
				b.get("/") // a client that is not known yet takes more readings, and counts from the last
				before := clock.readings.Load()
				b.get("/")
				require.EqualValues(t, 1, clock.readings.Load()-before)
			},
		},
		{
			what: "many requests at once", peer: "some are served and some are denied",
			sash:  "the same: exactly the burst is served",
			tests: []string{"TestRateLimiterMemoryStore_ConcurrentAccess", "TestRateLimiterMemoryStore_RaceDetection"},
			check: func(t *testing.T) {
				b := newBed(t, echoHello(), limits(nil, sash.PerSecond(10).TokenBucket(5)))
				require.Equal(t, map[int]int{200: 5, 429: 95}, b.together(100))
			},
		},
	},
}

// byID keys requests by X-Real-IP.
var byID = echolimit.By(func(c *echo.Context) (string, bool) {
	id := c.Request().Header.Get("X-Real-IP")
	return id, id != ""
})

// echoHello is a service of echo that answers every GET, behind the limiter with these options.
func echoHello(options ...echolimit.Option) func(*httplimit.Limiter) any {
	return func(l *httplimit.Limiter) any {
		e := echo.New()
		e.Use(echolimit.Middleware(l, options...))
		e.GET("/*", func(c *echo.Context) error { return c.String(http.StatusOK, "test") })
		return e
	}
}

// A countingClock counts its readings.
type countingClock struct{ readings atomic.Int64 }

func (c *countingClock) Now() int64 { c.readings.Add(1); return 0 }
