package migrating_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// The servers are no Go modules, or are programs of their own. Their documentation says what they do, and sash is
// run.

// slots are requests that are under way until they are let go.
type slots struct {
	site
	begun, letGo chan bool
	done         chan int
}

// held returns a site whose handler waits.
func held(t *testing.T, p httplimit.Policy) slots {
	s := slots{begun: make(chan bool), letGo: make(chan bool), done: make(chan int)}
	s.site = oursAround(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.begun <- true
		<-s.letGo
		hello(w, r)
	}), p)
	return s
}

// checkAtOnce checks that a site of n at once serves n, then denies, and serves again after one has ended.
func checkAtOnce(n int) func(*testing.T) {
	return func(t *testing.T) {
		s := held(t, policy(sash.AtOnce(int64(n), time.Minute)))
		begin := func() {
			go func() { s.done <- s.get() }()
			<-s.begun
		}
		for range n {
			begin()
		}
		require.Equal(t, 429, s.get())
		s.letGo <- true
		require.Equal(t, 200, <-s.done)
		begin()
		require.Equal(t, 429, s.get())
		for range n {
			s.letGo <- true
			<-s.done
		}
	}
}

// checkProxies checks that an address counts from a proxy, and a forged one does not.
func checkProxies(t *testing.T) {
	p := policy(sash.PerHour(5))
	p.Key = httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	s := ours(t, p)
	for i := range 9 {
		s.get(from("10.0.0.1:1000"), with("X-Forwarded-For", fmt.Sprintf("203.0.113.%d, 198.51.100.1, 10.0.0.2", i)))
	}
	require.Equal(t, 429, s.get(from("10.0.0.1:1000"), with("X-Forwarded-For", "198.51.100.1")))
	require.Equal(t, 200, s.get(from("198.51.100.2:1000"), with("X-Forwarded-For", "198.51.100.1")))
}

// checkShadow checks that a shadow denies nothing, and tells what it would deny.
func checkShadow(t *testing.T) {
	p := policy(sash.PerHour(2))
	p.Shadow = true
	would := 0
	s := ours(t, p, httplimit.WithObserver(func(e httplimit.Event) {
		if !e.Decision.Allowed {
			would++
		}
	}))
	require.Equal(t, 9, s.serves(9))
	require.Equal(t, 7, would)
}

// checkAllOrNone checks that requests that a policy of two denies are not charged to one of five.
func checkAllOrNone(t *testing.T) {
	two := policy(sash.PerHour(2))
	two.Name, two.Pattern = "two", "/login"
	s := ours(t, policy(sash.PerHour(5)), two)
	require.Equal(t, 2, s.serves(9, to("GET", "/login")))
	require.Equal(t, 3, s.serves(9))
}

// checkWindow checks that no more than count are served in any window.
func checkWindow(count int, window time.Duration, limit sash.Limit) func(*testing.T) {
	return func(t *testing.T) {
		s := ours(t, policy(limit))
		served := make([]int, 64) // in steps of a sixteenth
		for i := range served {
			served[i] = s.serves(map[bool]int{true: count, false: 1}[i%11 == 0])
			s.clock.Advance(window / 16)
		}
		for i := range len(served) - 15 {
			n := 0
			for _, of := range served[i : i+16] {
				n += of
			}
			require.LessOrEqual(t, n, count)
		}
	}
}

var nginx = peer{
	name: "nginx", manual: "https://nginx.org/en/docs/http/ngx_http_limit_req_module.html",
	rows: []row{
		{
			have: "`limit_req_zone $binary_remote_addr zone=one:10m rate=10r/s`, `limit_req zone=one`", use: "a policy with `sash.PerSecond(10).TokenBucket(1)` and `httplimit.ByAddress()`",
			changes: "the same; IPv6 counts by /64",
			quote:   "By default, the maximum burst size is equal to zero.",
			check: func(t *testing.T) {
				s := ours(t, policy(sash.PerSecond(10).TokenBucket(1)))
				for range 3 {
					require.Equal(t, 1, s.serves(9))
					s.clock.Advance(100*time.Millisecond - 1)
					require.Zero(t, s.serves(9))
					s.clock.Advance(1)
				}
				require.Equal(t, 200, s.get(from("[2001:db8::1]:1000")))
				require.Equal(t, 429, s.get(from("[2001:db8::2]:1000")))
			},
		},
		{
			have: "`limit_req zone=one burst=20 nodelay`", use: "`sash.PerSecond(10).TokenBucket(21)`",
			changes: "the same: a Burst counts its first request, too",
			quote:   "If delaying of excessive requests while requests are being limited is not desired, the parameter nodelay should be used",
			check: func(t *testing.T) {
				s := ours(t, policy(sash.PerSecond(10).TokenBucket(21)))
				require.Equal(t, 21, s.serves(40))
				s.clock.Advance(time.Second)
				require.Equal(t, 10, s.serves(40))
			},
		},
		{
			have: "`limit_req zone=one burst=20`, which delays", use: "`TokenBucket(1)` and `Queue: httplimit.Queue{Wait: 2 * time.Second, Requests: 1000, RequestsEach: 20}`",
			changes: "the same, with a bound for all clients together",
			quote:   "Excessive requests are delayed until their number exceeds the maximum burst size in which case the request is terminated with an error",
			check: func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := policy(sash.PerSecond(10).TokenBucket(1))
					p.Queue = httplimit.Queue{Wait: 2 * time.Second, Requests: 1000, RequestsEach: 20}
					s := ours(t, p)
					codes := make(chan int, 30)
					for range 30 {
						go func() { codes <- s.get() }()
						synctest.Wait()
					}
					require.Len(t, codes, 10) // one is served, and nine are more than 20
					for i := range 20 {
						s.clock.Advance(100 * time.Millisecond)
						synctest.Wait()
						require.Len(t, codes, 11+i)
					}
					counts := map[int]int{}
					for range 30 {
						counts[<-codes]++
					}
					require.Equal(t, map[int]int{200: 21, 429: 9}, counts)
				})
			},
		},
		{
			have: "several `limit_req`", use: "several policies, or several `Limits`", changes: "charged to all, or to none",
			quote: "There could be several limit_req directives.",
			check: checkAllOrNone,
		},
		{
			have: "`limit_req_status 429`", use: "nothing; another status by `httplimit.WithDenied`", changes: "429 is the default, with Retry-After",
			quote: "Default: limit_req_status 503",
			check: func(t *testing.T) {
				s := ours(t, policy(sash.PerHour(1)))
				require.Equal(t, 200, s.get())
				w := s.send()
				require.Equal(t, []any{429, "3600"}, []any{w.Code, w.Header().Get("Retry-After")})
			},
		},
		{
			have: "`limit_req_dry_run on`", use: "`Shadow: true`", changes: "the same; `httplimit.WithObserver` is told",
			quote: "In this mode, requests processing rate is not limited, however, in the shared memory zone, the number of excessive requests is accounted as usual.",
			check: checkShadow,
		},
		{
			have: "`set_real_ip_from 10.0.0.0/8`, `real_ip_header X-Forwarded-For`, `real_ip_recursive on`", use: "`httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix(\"10.0.0.0/8\")))`", changes: "the same",
			quote: "If recursive search is enabled, the original client address that matches one of the trusted addresses is replaced by the last non-trusted address sent in the request header field.",
			check: checkProxies,
		},
		{
			have: "a zone that is full", use: "`httplimit.WithSash(sash.WithMaxKeys(n, sash.EvictLeastUsed))`", changes: "keeps the keys that are held at their limit, whenever they were used",
			quote: "If the zone storage is exhausted, the least recently used state is removed.",
			check: checkFlood,
		},
		{
			have: "`limit_conn addr 5`", use: "`Limits: []sash.Limit{sash.AtOnce(5, time.Minute)}`", changes: "requests that are under way, too; a unit is held for a minute at most, so let no handler run for longer",
			quote: "A connection is counted only if it has a request being processed by the server and the whole request header has already been read.",
			check: checkAtOnce(5),
		},
	},
}

// checkFlood checks that a flood of new keys frees none that is held.
func checkFlood(t *testing.T) {
	s := ours(t, policy(sash.PerHour(5)), httplimit.WithSash(sash.WithMaxKeys(100, sash.EvictLeastUsed)))
	require.Equal(t, 5, s.serves(9))
	for i := range 1000 {
		require.Equal(t, 200, s.get(from(fmt.Sprintf("198.51.%d.%d:1000", i/250, i%250))))
	}
	require.Zero(t, s.serves(9))
	require.LessOrEqual(t, s.limiter.Sash().Len(), 100)
}

var haproxy = peer{
	name: "HAProxy", manual: "https://docs.haproxy.org/2.6/configuration.html",
	rows: []row{
		{
			have: "`stick-table type ipv6 size 1m expire 10s store http_req_rate(10s)`, `http-request track-sc0 src`, `http-request deny if { sc_http_req_rate(0) gt 100 }`", use: "a policy with `sash.Per(100, 10*time.Second)` and `httplimit.ByAddress()`",
			changes: "denied requests do not count, so a client that goes on is served again; IPv6 counts by /64",
			quote:   "This includes every started request, valid or not.",
			check: func(t *testing.T) {
				s := ours(t, policy(sash.Per(100, 10*time.Second)))
				require.Equal(t, 100, s.serves(300))
				for range 9 {
					s.clock.Advance(time.Second)
					require.Zero(t, s.serves(300))
				}
				s.clock.Advance(time.Second)
				require.Equal(t, 100, s.serves(300))
			},
		},
		{
			have: "that denied requests count", use: "`httplimit.WithSash(sash.WithChargeDenied())`", changes: "the same: a client that goes on stays denied",
			quote: "This includes every started request, valid or not.",
			check: func(t *testing.T) {
				s := ours(t, policy(sash.Per(100, 10*time.Second)), httplimit.WithSash(sash.WithChargeDenied()))
				require.Equal(t, 100, s.serves(300))
				for range 40 {
					s.clock.Advance(time.Second)
					require.LessOrEqual(t, s.serves(300), 1)
				}
				s.clock.Advance(10 * time.Second)
				require.Equal(t, 100, s.serves(300))
			},
		},
		{
			have: "`http_err_rate(10m)`, `sc_http_err_rate(0) ge 10`", use: "`sash.Per(10, 10*time.Minute)`, `Charge: func(status int) bool { return status/100 == 4 }`", changes: "only errors count, too",
			quote: "This includes the both request errors and 4xx error responses.",
			check: func(t *testing.T) {
				p := policy(sash.Per(10, 10*time.Minute))
				p.Charge = func(status int) bool { return status/100 == 4 }
				s := ours(t, p)
				require.Equal(t, 50, s.serves(50))
				for range 10 {
					require.Equal(t, 404, s.get(with("Answer", "404")))
				}
				require.Equal(t, 429, s.get())
			},
		},
		{
			have: "`conn_cur`, `sc_conn_cur(0) gt 20`", use: "`sash.AtOnce(20, time.Minute)`", changes: "requests, and not connections",
			quote: "Returns the current amount of concurrent connections tracking the same tracked counters.",
			check: checkAtOnce(20),
		},
		{
			have: "`bytes_out_rate(1m)`, `sc_bytes_out_rate(0) gt 1000000`", use: "`sash.PerMinute(1_000_000)`, `Settle: httplimit.SettleBytes()`", changes: "each response is charged once it has ended; a client pays off what it took too much",
			quote: "It may be used to detect users which download too much and too fast.",
			check: func(t *testing.T) {
				p := policy(sash.PerMinute(1_000_000))
				p.Settle = httplimit.SettleBytes()
				s := oursAround(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 600_000)) }), p)
				require.Equal(t, 2, s.serves(9)) // 1,200,000 bytes
				s.clock.Advance(time.Minute + time.Second)
				require.Equal(t, 2, s.serves(9))
			},
		},
	},
}

var envoy = peer{
	name: "envoyproxy/ratelimit", manual: "https://github.com/envoyproxy/ratelimit#readme",
	rows: []row{
		{
			have: "`rate_limit: {unit: minute, requests_per_unit: 10}`", use: "`sash.PerMinute(10).Log()`", changes: "at most 10 in any minute, and not in each minute of the clock",
			quote: "The rate limit block specifies the actual rate limit that will be used when there is a match.",
			check: checkWindow(10, time.Minute, sash.PerMinute(10).Log()),
		},
		{
			have: "`key: remote_address`; `key: path` with a `value`", use: "`Key: httplimit.ByAddress()`; `Pattern: \"/login\"`", changes: "the same, in your process",
			quote: "Each descriptor in a descriptor list must have a key. It can also optionally have a value to enable a more specific match.",
			check: func(t *testing.T) {
				p := policy(sash.PerHour(5))
				p.Pattern = "/login"
				s := ours(t, p)
				require.Equal(t, []int{5, 5, 9}, []int{s.serves(9, to("GET", "/login")), s.serves(9, to("GET", "/login"), from("192.0.2.2:1000")), s.serves(9)})
			},
		},
		{
			have: "several descriptors of a request", use: "several policies", changes: "charged to all, or to none, without `STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`",
			quote: "Setting this to true can prevent the incrementation of other descriptors' counters if any of the descriptors is already over the limit.",
			check: checkAllOrNone,
		},
		{
			have: "`shadow_mode: true`", use: "`Shadow: true`", changes: "the same; `httplimit.WithObserver` is told",
			quote: "whatever the outcome of the evaluation of the rule, the end-result will always be \"OK\"",
			check: checkShadow,
		},
	},
}

var caddy = peer{
	name: "caddy-ratelimit", manual: "https://github.com/mholt/caddy-ratelimit#readme",
	rows: []row{
		{
			have: "`key {http.request.remote.host}`, `events 2`, `window 5s`", use: "`sash.Per(2, 5*time.Second).Log()`, `httplimit.ByAddress()`", changes: "the same count in any window",
			quote: "it works by looking back <window> duration and seeing if <max_events> events have already happened in that timeframe",
			check: checkWindow(2, 5*time.Second, sash.Per(2, 5*time.Second).Log()),
		},
		{
			have: "several zones", use: "several policies", changes: "charged to all, or to none",
			quote: "Multiple zones can be defined.",
			check: checkAllOrNone,
		},
		{
			have: "`ipv6_prefix 64`", use: "nothing; `httplimit.IPv6Prefix(56)` for others", changes: "/64 is the default",
			quote: "when a prefix is not set (or 0), addresses of that family are treated individually as usual",
			check: func(t *testing.T) {
				p := policy(sash.PerHour(5))
				p.Key = httplimit.ByAddress(httplimit.IPv6Prefix(56))
				for want, p := range map[int]httplimit.Policy{9: policy(sash.PerHour(5)), 5: p} {
					s, served := ours(t, p), 0
					for i := range 9 {
						served += s.serves(1, from(fmt.Sprintf("[2001:db8:0:%x::1]:1000", i))) // each in another /64
					}
					require.Equal(t, want, served)
				}
			},
		},
	},
}
