package migrating_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-chi/httprate"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// byIP keys requests by the address of the connection.
//
//lint:ignore SA1019 its users have it
var byIP = httprate.KeyByIP

// byRealIP keys requests by headers.
//
//lint:ignore SA1019 its users have it
var byRealIP = httprate.KeyByRealIP

// chi mounts httprate.
func chi(h http.Handler, limits ...func(http.Handler) http.Handler) site {
	for i := range limits {
		h = limits[len(limits)-1-i](h)
	}
	return site{Handler: h}
}

var httpRate = peer{
	name: "httprate",
	rows: []row{
		{
			have: "`httprate.LimitBy(100, time.Minute, key)`", use: "`httplimit.New(httplimit.Policy{…})` with `sash.PerMinute(100)`, then `l.Middleware`",
			changes: "a client that keeps to its limit is never denied",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					theirs, sashs := chi(hello, httprate.LimitBy(100, time.Minute, byIP)), ours(t, policy(sash.PerMinute(100)))
					require.Equal(t, []int{100, 100}, []int{theirs.serves(110), sashs.serves(110)})
					pass(sashs.clock, time.Minute)
					require.Equal(t, []int{0, 100}, []int{theirs.serves(100), sashs.serves(100)})
				})
			},
		},
		{
			have: "`httprate.KeyByIP`", use: "`httplimit.ByAddress()`", changes: "the same: IPv6 counts by /64",
			check: func(t *testing.T) {
				theirs, sashs := chi(hello, httprate.LimitBy(5, time.Hour, byIP)), ours(t, policy(sash.PerHour(5)))
				for _, s := range []site{theirs, sashs} {
					served := 0
					for i := range 9 {
						served += s.serves(1, from(fmt.Sprintf("[2001:db8::%x]:1000", i)))
					}
					require.Equal(t, 5, served)
					require.Equal(t, 5, s.serves(9, from("[2001:db8:0:1::1]:1000")))
				}
			},
		},
		{
			have: "`httprate.KeyByRealIP`", use: "`httplimit.ByAddress(httplimit.TrustProxies(networks…))`",
			changes: "headers count from your proxies only, and there from everyone",
			check: func(t *testing.T) {
				p := policy(sash.PerHour(5))
				p.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
				theirs, sashs := chi(hello, httprate.LimitBy(5, time.Hour, byRealIP)), ours(t, p)
				forged := func(s site) (served int) {
					for i := range 9 {
						served += s.serves(1, with("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i)))
					}
					return served
				}
				require.Equal(t, []int{9, 5}, []int{forged(theirs), forged(sashs)})
				require.Equal(t, 5, sashs.serves(9, from("10.0.0.1:1000"), with("X-Forwarded-For", "198.51.100.1")))
			},
		},
		{
			have: "`httprate.KeyByEndpoint`", use: "`httplimit.ByRouteOf(mux)`",
			changes: "the key is the pattern, not the path, so clients cannot invent keys",
			check: func(t *testing.T) {
				mux := http.NewServeMux()
				mux.Handle("/users/{id}", hello)
				p := policy(sash.PerHour(5))
				p.Key = httplimit.ByRouteOf(mux)
				invented := func(s site) (served int) {
					for i := range 9 {
						served += s.serves(1, to("GET", fmt.Sprint("/users/", i)))
					}
					return served
				}
				require.Equal(t, 9, invented(chi(mux, httprate.LimitBy(5, time.Hour, httprate.KeyByEndpoint))))
				require.Equal(t, 5, invented(oursAround(t, mux, p)))
			},
		},
		{
			have: "`httprate.JoinKeys(a, b)`", use: "`httplimit.Join(a, b)`", changes: "no part can be taken for another; there, `x:` and `y` are `x` and `:y`",
			check: func(t *testing.T) {
				part := func(name string) httprate.KeyFunc {
					return func(r *http.Request) (string, error) { return r.Header.Get(name), nil }
				}
				p := policy(sash.PerHour(5))
				p.Key = httplimit.Join(httplimit.ByHeader("A"), httplimit.ByHeader("B"))
				alike := func(s site) int {
					return s.serves(5, with("A", "x:"), with("B", "y")) + s.serves(5, with("A", "x"), with("B", ":y"))
				}
				require.Equal(t, 5, alike(chi(hello, httprate.LimitBy(5, time.Hour, httprate.JoinKeys(part("A"), part("B"))))))
				require.Equal(t, 10, alike(ours(t, p)))
			},
		},
		{
			have: "a KeyFunc that returns an error", use: "a KeyFunc that returns false", changes: "400, and not 428 with the text of the error",
			check: func(t *testing.T) {
				p := policy(sash.PerHour(5))
				p.Key = httplimit.By(func(*http.Request) (string, bool) { return "", false })
				theirs := chi(hello, httprate.LimitBy(5, time.Hour, func(*http.Request) (string, error) { return "", errors.New("of the database") }))
				require.Equal(t, 428, theirs.get())
				require.Contains(t, theirs.send().Body.String(), "of the database")
				require.Equal(t, 400, ours(t, p).get())
			},
		},
		{
			have: "X-RateLimit-Limit, -Remaining and -Reset, Retry-After", use: "`httplimit.WithXRateLimitTime()`",
			changes: "Retry-After is the least wait, and not the whole window",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					theirs, sashs := chi(hello, httprate.LimitBy(5, time.Minute, byIP)), ours(t, policy(sash.PerMinute(5)), httplimit.WithXRateLimitTime())
					for i := range 5 {
						for _, s := range []site{theirs, sashs} {
							h := s.send().Header()
							require.Equal(t, "5", h.Get("X-RateLimit-Limit"))
							require.Equal(t, fmt.Sprint(4-i), h.Get("X-RateLimit-Remaining"))
							require.NotEmpty(t, h.Get("X-RateLimit-Reset"))
						}
					}
					pass(sashs.clock, 45*time.Second)
					require.Equal(t, "60", theirs.send().Header().Get("Retry-After"))
					require.Equal(t, "15", sashs.send().Header().Get("Retry-After"))
				})
			},
		},
		{
			have: "`httprate.WithIncrement(ctx, n)`", use: "`Cost` of the policy", changes: "the same",
			check: func(t *testing.T) {
				inner := httprate.LimitBy(10, time.Hour, byIP)(hello)
				theirs := site{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					inner.ServeHTTP(w, r.WithContext(httprate.WithIncrement(r.Context(), 4)))
				})}
				p := policy(sash.PerHour(10))
				p.Cost = func(*http.Request) int64 { return 4 }
				require.Equal(t, []int{2, 2}, []int{theirs.serves(9), ours(t, p).serves(9)})
			},
		},
		{
			have: "`httprate.WithRequestLimit(ctx, n)` on a count of 100", use: "`Leave`, which returns 100-n; for other limits of a client, `Plan`",
			changes: "the same: requests under n leave the rest to others",
			check: func(t *testing.T) {
				under := func(r *http.Request) int { // the n of a request
					if r.Header.Get("Batch") != "" {
						return 20
					}
					return 100
				}
				inner := httprate.LimitBy(100, time.Hour, byIP)(hello)
				theirs := site{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					inner.ServeHTTP(w, r.WithContext(httprate.WithRequestLimit(r.Context(), under(r))))
				})}
				p := policy(sash.PerHour(100))
				p.Leave = func(r *http.Request) int64 { return int64(100 - under(r)) }
				for _, s := range []site{theirs, ours(t, p)} {
					require.Equal(t, []int{20, 80, 0}, []int{s.serves(200, with("Batch", "1")), s.serves(200), s.serves(9, with("Batch", "1"))})
				}
				p.Leave = nil
				p.Plan, p.Plans = func(r *http.Request) string { return r.Header.Get("Plan") }, map[string][]sash.Limit{"gold": {sash.PerHour(500)}}
				s := ours(t, p)
				require.Equal(t, []int{500, 100}, []int{s.serves(600, with("Plan", "gold")), s.serves(200)})
			},
		},
		{
			have: "several `r.Use(httprate…)`", use: "several policies of one limiter", changes: "a request that one denies is charged to none; there, to those before it",
			check: func(t *testing.T) {
				inner := httprate.LimitBy(1, time.Hour, byIP)(hello)
				theirs := chi(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/login" {
						inner.ServeHTTP(w, r)
						return
					}
					hello(w, r)
				}), httprate.LimitBy(5, time.Hour, byIP))
				logins := policy(sash.PerHour(1))
				logins.Name, logins.Pattern = "logins", "/login"
				sashs := ours(t, policy(sash.PerHour(5)), logins)
				for _, s := range []site{theirs, sashs} {
					require.Equal(t, 1, s.serves(5, to("GET", "/login")))
				}
				require.Equal(t, []int{0, 4}, []int{theirs.serves(9), sashs.serves(9)})
			},
		},
	},
	breaks: []fault{
		{
			says: "One call that is late by two windows clears the counts of all keys",
			check: func(t *testing.T) {
				counter := httprate.NewLocalLimitCounter(time.Minute)
				now := time.Now().UTC().Truncate(time.Minute)
				require.NoError(t, counter.IncrementBy("a", now, 5))
				require.NoError(t, counter.IncrementBy("b", now.Add(-2*time.Minute), 1))
				require.NoError(t, counter.IncrementBy("b", now, 1))
				count, _, err := counter.Get("a", now, now.Add(-time.Minute))
				require.NoError(t, err)
				require.Zero(t, count)
				l := newSash(t, sash.PerMinute(5))
				l.clock.Set(int64(2 * time.Minute))
				require.Equal(t, 5, l.admits("a", 9))
				l.clock.Set(0)
				l.admits("b", 1)
				l.clock.Set(int64(2 * time.Minute))
				require.Zero(t, l.admits("a", 9))
			},
		},
	},
}
