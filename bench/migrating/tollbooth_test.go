package migrating_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/didip/tollbooth/v8/limiter"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// booth mounts tollbooth, which keys requests by the address of the connection unless edit changes that.
func booth(h http.Handler, lmt *limiter.Limiter) site {
	return site{Handler: tollbooth.HTTPMiddleware(lmt)(h)}
}

func byConnection(lmt *limiter.Limiter) *limiter.Limiter {
	return lmt.SetIPLookup(limiter.IPLookup{Name: "RemoteAddr"})
}

// slow is a limiter of tollbooth with 5 requests, and one more in a day.
func slow() *limiter.Limiter {
	return byConnection(tollbooth.NewLimiter(1.0/86400, nil).SetBurst(5))
}

// boothAgrees holds tollbooth against a policy of sash.
func boothAgrees(t *testing.T, lmt *limiter.Limiter, limit sash.Limit) {
	synctest.Test(t, func(t *testing.T) {
		theirs, sashs := booth(hello, byConnection(lmt)), ours(t, policy(limit))
		random, served := rand.New(rand.NewPCG(1, 1)), 0
		for range 1000 {
			pass(sashs.clock, time.Duration(random.IntN(8))*time.Second/8)
			n := random.IntN(12)
			got := theirs.serves(n)
			require.Equal(t, got, sashs.serves(n))
			served += got
		}
		require.Greater(t, served, 100)
	})
}

var tollboothPeer = peer{
	name: "tollbooth",
	rows: []row{
		{
			have: "`tollbooth.NewLimiter(8, nil)`, `tollbooth.HTTPMiddleware(lmt)`", use: "`sash.PerSecond(8).TokenBucket(8)` in a `httplimit.Policy`, `l.Middleware`", changes: "the same is admitted",
			check: func(t *testing.T) {
				boothAgrees(t, tollbooth.NewLimiter(8, nil), sash.PerSecond(8).TokenBucket(8))
			},
		},
		{
			have: "`lmt.SetMax(0.5).SetBurst(3)`", use: "`sash.Per(1, 2*time.Second).TokenBucket(3)`", changes: "the same, in whole numbers",
			check: func(t *testing.T) {
				boothAgrees(t, tollbooth.NewLimiter(1, nil).SetMax(0.5).SetBurst(3), sash.Per(1, 2*time.Second).TokenBucket(3))
			},
		},
		{
			have: "`limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}`", use: "nothing", changes: "a key is evicted once its bucket is full; there, an hour after its first request, and it has its burst again",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lmt := byConnection(tollbooth.NewLimiter(1.0/86400, &limiter.ExpirableOptions{DefaultExpirationTTL: time.Hour}).SetBurst(5))
					theirs, sashs := booth(hello, lmt), ours(t, policy(sash.PerDay(1).TokenBucket(5)))
					require.Equal(t, []int{5, 5}, []int{theirs.serves(9), sashs.serves(9)})
					pass(sashs.clock, time.Hour+1)
					sashs.limiter.Sash().Sweep()
					require.Equal(t, []int{5, 0}, []int{theirs.serves(9), sashs.serves(9)})
				})
			},
		},
		{
			have: "`limiter.IPLookup{Name: \"X-Forwarded-For\", IndexFromRight: 0}`", use: "`httplimit.ByAddress(httplimit.TrustHops(1))`", changes: "without the header 400; there, without a limit",
			check: func(t *testing.T) {
				p := policy(sash.PerDay(1).TokenBucket(5))
				p.Key = httplimit.ByAddress(httplimit.TrustHops(1))
				theirs, sashs := booth(hello, slow().SetIPLookup(limiter.IPLookup{Name: "X-Forwarded-For"})), ours(t, p)
				for _, s := range []site{theirs, sashs} {
					require.Equal(t, 5, s.serves(9, with("X-Forwarded-For", "203.0.113.9, 198.51.100.1")))
					require.Zero(t, s.serves(9, with("X-Forwarded-For", "203.0.113.8, 198.51.100.1")))
				}
				require.Equal(t, 9, theirs.serves(9))
				require.Equal(t, 400, sashs.get())
			},
		},
		{
			have: "the path as a part of each key, without `SetIgnoreURL(true)`", use: "`httplimit.Join(httplimit.ByAddress(), httplimit.ByRouteOf(mux))`", changes: "the key is the pattern, not the path, so clients cannot invent keys",
			check: func(t *testing.T) {
				mux := http.NewServeMux()
				mux.Handle("/users/{id}", hello)
				p := policy(sash.PerDay(1).TokenBucket(5))
				p.Key = httplimit.Join(httplimit.ByAddress(), httplimit.ByRouteOf(mux))
				invented := func(s site) (served int) {
					for i := range 9 {
						served += s.serves(1, to("GET", fmt.Sprint("/users/", i)))
					}
					return served
				}
				require.Equal(t, []int{9, 5}, []int{invented(booth(mux, slow())), invented(oursAround(t, mux, p))})
			},
		},
		{
			have: "`lmt.SetHeader(\"X-API-Key\", nil)`", use: "`httplimit.Join(httplimit.ByAddress(), httplimit.ByHeader(\"X-API-Key\"))`", changes: "without the header 400; there, without a limit",
			check: func(t *testing.T) {
				p := policy(sash.PerDay(1).TokenBucket(5))
				p.Key = httplimit.Join(httplimit.ByAddress(), httplimit.ByHeader("X-API-Key"))
				theirs, sashs := booth(hello, slow().SetHeader("X-API-Key", nil)), ours(t, p)
				for _, s := range []site{theirs, sashs} {
					require.Equal(t, []int{5, 5}, []int{s.serves(9, with("X-API-Key", "a")), s.serves(9, with("X-API-Key", "b"))})
				}
				require.Equal(t, []int{200, 400}, []int{theirs.get(), sashs.get()})
			},
		},
		{
			have: "`RateLimit-Limit`, -Remaining, and -Reset, which is 1", use: "nothing", changes: "`RateLimit` of the newest draft, and Retry-After, the least wait",
			check: func(t *testing.T) {
				theirs, sashs := booth(hello, slow()), ours(t, policy(sash.PerDay(1).TokenBucket(5)))
				require.Equal(t, []int{5, 5}, []int{theirs.serves(5), sashs.serves(5)})
				denied := theirs.send()
				require.Equal(t, 429, denied.Code)
				require.Equal(t, "1", denied.Header().Get("RateLimit-Reset"))
				require.Empty(t, denied.Header().Get("Retry-After"))
				denied = sashs.send()
				require.Equal(t, "86400", denied.Header().Get("Retry-After"))
				require.NotEmpty(t, denied.Header().Get("RateLimit"))
			},
		},
	},
	breaks: []fault{
		{
			says: "By default it keeps the bucket of each address and path for ten years",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					theirs := booth(hello, byConnection(tollbooth.NewLimiter(1e-9, nil)))
					require.Equal(t, 1, theirs.serves(9))
					time.Sleep(87_600*time.Hour - 1) // of the bubble
					require.Zero(t, theirs.serves(9))
					time.Sleep(2 * time.Nanosecond)
					require.Equal(t, 1, theirs.serves(9))
				})
			},
		},
	},
}
