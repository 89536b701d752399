package frameworks_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// ululePeer is ulule/limiter with its middleware for gin, net/http and fasthttp, on which fiber is built.
var ululePeer = peer{
	name: "ulule/limiter", module: "github.com/ulule/limiter/v3", tests: []string{"*_test.go", "drivers/middleware/*/*_test.go", "drivers/store/*/*_test.go"},
	rows: []behaviour{
		{
			what: "one after the other", peer: "of 100 requests under `10-M`, the first 10 are served",
			sash:  "the same",
			tests: []string{"TestHTTPMiddleware", "TestFasthttpMiddleware"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(nil, sash.PerMinute(10)))
				require.Equal(t, map[int]int{200: 10}, b.times(10))
				require.Equal(t, map[int]int{429: 90}, b.times(90))
			}),
		},
		{
			what: "many requests at once", peer: "of 100 requests under `10-M`, exactly 10 are served",
			sash:  "the same",
			tests: []string{"TestHTTPMiddleware", "TestFasthttpMiddleware"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(nil, sash.PerMinute(10)))
				require.Equal(t, map[int]int{200: 10, 429: 90}, b.together(100))
			}),
		},
		{
			what: "a key of your own", peer: "`WithKeyGetter`, which is given the framework's context",
			sash:  "the same: By of each adapter; a client that cannot be told is no key, but is answered 400",
			tests: []string{"TestHTTPMiddleware", "TestFasthttpMiddleware"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(hello.by(numbered(1000)), sash.PerMinute(10)))
				require.Equal(t, map[int]int{200: 100}, b.times(100)) // each request has another key
			}),
		},
		{
			what: "keys that are excluded", peer: "`WithExcludedKey` lets the requests of some keys through",
			sash:  "the same: a plan of `sash.Unlimited()` for some clients, or Skip and the skippers of the adapters",
			tests: []string{"TestHTTPMiddleware", "TestFasthttpMiddleware"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				p := limits(hello.by(numbered(2)), sash.PerMinute(10))
				even := false // whether the request has the key 0
				p.Plans = map[string][]sash.Limit{"excluded": {sash.Unlimited()}}
				p.Plan = func(*http.Request) string { return map[bool]string{false: "excluded"}[even] }
				b := newBed(t, hello.plain, p)
				for i := 1; i < 100; i++ {
					even = i%2 == 0
					want := 200
					if even && i > 20 {
						want = 429
					}
					require.Equal(t, want, b.get("/").status, i)
				}
			}),
		},
		{
			what: "a rate in text", peer: "`10-S`, `356-M`, `3-H`, `2000-D`; other texts are errors",
			sash:  "the same with another form: `10/s`, `356/m`, `3/h`, `2000/d`, by ParseLimit",
			tests: []string{"TestRate"},
			check: func(t *testing.T) {
				for text, want := range map[string]sash.Limit{"10/s": sash.PerSecond(10), "356/m": sash.PerMinute(356), "3/h": sash.PerHour(3), "2000/d": sash.PerDay(2000)} {
					l, err := sash.ParseLimit(text)
					require.NoError(t, err)
					require.Equal(t, want, l)
				}
				for _, wrong := range []string{"10 S", "10:S", "AZERTY", "na wak", "H-10"} {
					_, err := sash.ParseLimit(wrong)
					require.ErrorIs(t, err, sash.ErrInvalidLimit)
				}
			},
		},
		{
			what: "headers that a client can write", peer: "are not read, unless `WithTrustForwardHeader` is set",
			sash:  "the same: ByAddress takes the address of the connection",
			tests: []string{"TestGetIP", "TestGetIPKey"},
			check: func(t *testing.T) {
				for _, header := range []string{"", "X-Forwarded-For", "X-Real-IP"} {
					require.Equal(t, "8.8.8.8", addressOf(t, httplimit.ByAddress(), "8.8.8.8:8888", header, "9.9.9.9"))
				}
			},
		},
		{
			what: "X-Forwarded-For that is trusted", peer: "the first address, which the client may have written",
			sash:  "different: the last address that is not of a trusted proxy, which the client cannot have written",
			tests: []string{"TestGetIP", "TestGetIPKey"},
			check: func(t *testing.T) {
				const hops = "9.9.9.9, 7.7.7.7, 6.6.6.6"
				trusted := []netip.Prefix{netip.MustParsePrefix("8.8.8.8/32")}
				require.Equal(t, "6.6.6.6", addressOf(t, httplimit.ByAddress(httplimit.TrustProxies(trusted...)), "8.8.8.8:8888", "X-Forwarded-For", hops))
				trusted = append(trusted, netip.MustParsePrefix("6.6.6.6/32"), netip.MustParsePrefix("7.7.7.7/32"))
				require.Equal(t, "9.9.9.9", addressOf(t, httplimit.ByAddress(httplimit.TrustProxies(trusted...)), "8.8.8.8:8888", "X-Forwarded-For", hops))
				require.Equal(t, "8.8.8.8", addressOf(t, httplimit.ByAddress(httplimit.TrustProxies(trusted...)), "8.8.8.8:8888", "", ""))
			},
		},
		{
			what: "a header of one address", peer: "X-Real-IP, or the one of `WithClientIPHeader`, from everyone",
			sash:  "the same by ReadHeader, from trusted proxies only",
			tests: []string{"TestGetIP", "TestGetIPKey"},
			check: func(t *testing.T) {
				key := httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("8.8.8.8/32")), httplimit.ReadHeader("X-Real-IP"))
				require.Equal(t, "6.6.6.6", addressOf(t, key, "8.8.8.8:8888", "X-Real-IP", "6.6.6.6"))
				require.Equal(t, "5.5.5.5", addressOf(t, key, "5.5.5.5:8888", "X-Real-IP", "6.6.6.6"))
			},
		},
		{
			what: "networks of clients", peer: "`WithIPv4Mask` and `WithIPv6Mask`; by default each address is a client",
			sash:  "the same by IPv4Prefix and IPv6Prefix; by default each /64 of IPv6 is a client, since one client has all of it",
			tests: []string{"TestGetIP", "TestGetIPKey"},
			check: func(t *testing.T) {
				const v6 = "[2001:db8:cafe:1234:beef::fafa]:8888"
				require.Equal(t, "8.8.8.0/24", addressOf(t, httplimit.ByAddress(httplimit.IPv4Prefix(24)), "8.8.8.8:8888", "", ""))
				require.Equal(t, "2001:db8:cafe::/48", addressOf(t, httplimit.ByAddress(httplimit.IPv6Prefix(48)), v6, "", ""))
				require.Equal(t, "2001:db8:cafe:1234::/64", addressOf(t, httplimit.ByAddress(), v6, "", ""))
			},
		},
		{
			what: "look and reset", peer: "`Peek` changes nothing; `Reset` gives a key its whole quota again",
			sash: "the same, by the limiter below: `l.Sash().Peek(key, 0)` and `l.Sash().Reset(key)`, with `l.KeyFor`",
			tests: []string{
				"TestMemoryStoreSequentialAccess", "TestRedisStoreSequentialAccess", "TestCacheGet", "TestCacheReset", "TestCacheIncrementSequential",
			},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(nil, sash.PerMinute(3)))
				key, ok := b.limiter.KeyFor("all", httptest.NewRequest("GET", "/", nil))
				require.True(t, ok)
				left := func() int64 { return b.limiter.Sash().Peek(key, 0).Remaining }
				for i := range int64(6) {
					require.Equal(t, max(3-i, 0), left())
					b.get("/")
				}
				require.True(t, b.limiter.Sash().Reset(key))
				require.EqualValues(t, 3, left())
				require.Equal(t, map[int]int{200: 3, 429: 1}, b.times(4))
			}),
		},
		{
			what: "the end of a window", peer: "a fixed window: 60 s after its first request, a key has its whole quota again",
			sash:  "different: a sliding window, so that no two windows next to each other admit twice the limit",
			tests: []string{"TestCacheIncrementSequential", "TestMemoryStoreSequentialAccess"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(nil, sash.PerMinute(3).Log()))
				require.Equal(t, map[int]int{200: 1}, b.times(1))
				b.clock.Advance(59 * time.Second)
				require.Equal(t, map[int]int{200: 2, 429: 1}, b.times(3))
				b.clock.Advance(time.Second)
				require.Equal(t, map[int]int{200: 1, 429: 1}, b.times(2))
			}),
		},
		{
			what: "X-RateLimit-Reset", peer: "a Unix time",
			sash:  "the same by WithXRateLimitTime; WithXRateLimit has seconds from now, which a wrong clock cannot mislead",
			tests: []string{"TestMemoryStoreSequentialAccess", "TestRedisStoreSequentialAccess"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(nil, sash.PerHour(3)), httplimit.WithXRateLimitTime())
				before := time.Now().Unix()
				reset, err := strconv.ParseInt(b.get("/").header.Get("X-RateLimit-Reset"), 10, 64)
				require.NoError(t, err)
				require.GreaterOrEqual(t, reset, before+3600)
				require.LessOrEqual(t, reset, time.Now().Unix()+3601)
			}),
		},
		{
			what: "many keys and calls at once", peer: "no call fails",
			sash:  "the same: no unit is lost or counted twice",
			tests: []string{"TestMemoryStoreConcurrentAccess", "TestRedisStoreConcurrentAccess", "TestCacheIncrementConcurrent"},
			check: onEachHello(func(t *testing.T, hello hellos) {
				b := newBed(t, hello.plain, limits(hello.by(numbered(10)), sash.PerMinute(1000).Counter()))
				require.Equal(t, map[int]int{200: 200}, b.together(200))
				require.EqualValues(t, 10, b.limiter.Sash().Len())
			}),
		},
	},
	left: map[string]string{
		"TestRedisClientExpiration": "is about its connection to Redis; sashredis has tests with a server",
	},
}

// numbered returns a function that returns 1, 2 and so on, up to n-1, then 0, and so on.
func numbered(n int64) func() (string, bool) {
	var counter atomic.Int64
	return func() (string, bool) { return strconv.FormatInt(counter.Add(1)%n, 10), true }
}

// addressOf returns the address by which a request from remote is keyed, with that header if it has a name.
func addressOf(t *testing.T, key httplimit.KeyFunc, remote, name, value string) string {
	r := httptest.NewRequest("GET", "/", nil)
	if r.RemoteAddr = remote; name != "" {
		r.Header.Set(name, value)
	}
	identity, ok := key(nil, r)
	require.True(t, ok)
	address, ok := httplimit.AddressOfIdentity(string(identity))
	require.True(t, ok)
	return address
}

// hellos are a service of one framework that answers every GET, and the keys that a function returns there.
type hellos struct {
	plain func(*httplimit.Limiter) any
	by    func(func() (string, bool)) httplimit.KeyFunc
}

// onEachHello runs a check with a service of each framework that the peer has a middleware for.
func onEachHello(check func(*testing.T, hellos)) func(*testing.T) {
	return func(t *testing.T) {
		for name, hello := range map[string]hellos{
			"gin": {
				plain: func(l *httplimit.Limiter) any {
					return newGinSite(l, func(c *gin.Context) { c.String(http.StatusOK, "hello") })
				},
				by: func(key func() (string, bool)) httplimit.KeyFunc {
					return ginlimit.By(func(*gin.Context) (string, bool) { return key() })
				},
			},
			"net/http": {
				plain: func(l *httplimit.Limiter) any {
					return l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
				},
				by: func(key func() (string, bool)) httplimit.KeyFunc {
					return httplimit.By(func(*http.Request) (string, bool) { return key() })
				},
			},
			"fasthttp": {
				plain: func(l *httplimit.Limiter) any { return fiberApp(l, fiberStatus) },
				by: func(key func() (string, bool)) httplimit.KeyFunc {
					return fiberlimit.By(func(fiber.Ctx) (string, bool) { return key() })
				},
			},
		} {
			t.Run(name, func(t *testing.T) { check(t, hello) })
		}
	}
}
