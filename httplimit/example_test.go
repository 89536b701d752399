package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func Example() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:   "all",
			Limits: []sash.Limit{sash.PerMinute(2)},
			Key:    httplimit.ByAddress(),
		},
		httplimit.WithClock(sash.NewManualClock(0)), // for the example: time stands still
	))
	defer limiter.Close()

	handler := limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	for range 3 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "all";r=1;t=60 ""
	// 200 "all";r=0;t=60 ""
	// 429 "all";r=0;t=60 "60"
}

// A policy tells when less than 20 % of a limit is left. A client that hovers there has one line an hour.
func ExamplePolicy_near() {
	clock := sash.NewManualClock(0) // for the example: time stands still
	lines := sash.Must(sash.New(sash.PerHour(1), sash.WithClock(clock)))
	defer lines.Close()
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:   "api",
			Limits: []sash.Limit{sash.PerSecond(5), sash.PerDay(1000)},
			Key:    httplimit.ByHeader("X-Account"),
			Near:   20,
		},
		httplimit.WithEventIdentities(httplimit.Admitted),
		httplimit.WithObserver(func(e httplimit.Event) {
			for _, limit := range e.Near {
				if lines.Allow(e.Policy + " " + limit.String() + " " + e.Identity) {
					fmt.Printf("%s: %s has little left of %v\n", e.Policy, e.Identity, limit)
				}
			}
		}),
		httplimit.WithClock(clock),
	))
	defer limiter.Close()

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Account", "ann")
	for range 250 {
		for range 5 { // the fifth of each second leaves nothing of it, and the 801st nearly nothing of the day
			limiter.Decide(nil, r)
		}
		clock.Advance(time.Second)
	}
	// Output:
	// api: ann has little left of 5/1s log
	// api: ann has little left of 1000/24h0m0s
}

// Policies can be read from a file, since limits are texts in JSON.
func ExampleNew() {
	var file map[string]struct {
		Pattern string
		Limits  []sash.Limit
	}
	err := json.Unmarshal([]byte(`{
		"api":   {"Pattern": "/api/", "Limits": ["10/s", "240/h buckets 1m"]},
		"login": {"Pattern": "PUT login", "Limits": ["-1/h log"]}
	}`), &file)
	fmt.Println(err)

	_, err = httplimit.New(
		httplimit.Policy{Name: "login", Pattern: "PUT login", Limits: []sash.Limit{sash.PerHour(-1)}})
	fmt.Println(err)
	// Output:
	// sash: limit "-1/h log": Count must be >= 0, got -1: invalid limit
	// httplimit: policy "login": Key must not be nil: invalid option
	// httplimit: policy "login": Pattern: "PUT login": at offset 4: host/path missing /: invalid option
	// httplimit: policy "login": limit 1: Count must be >= 0, got -1: invalid limit
}

// Only failed logins are charged. So clients that know the password use up no quota.
func ExamplePolicy_charge() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:    "login",
		Pattern: "POST /login",
		Limits:  []sash.Limit{sash.PerHour(2)},
		Key:     httplimit.ByAddress(),
		Charge:  func(status int) bool { return status == http.StatusUnauthorized },
	}))
	defer limiter.Close()

	handler := limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "sesame" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, "welcome")
	}))
	for _, password := range []string{"sesame", "sesame", "sesame", "guess", "guess", "guess"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("POST", "/login?password="+password, nil))
		fmt.Print(w.Code, " ")
	}
	// Output:
	// 200 200 200 401 401 429
}

// Customers who pay have a larger quota: there is one policy for each plan, which skips the
// requests of the other plans.
func ExamplePolicy_skip() {
	pays := map[string]bool{"alice": true} // in practice the result of a handler around this one
	plan := func(paid bool, name string, limit sash.Limit) httplimit.Policy {
		return httplimit.Policy{
			Name:   name,
			Limits: []sash.Limit{limit},
			Key:    httplimit.ByHeader("X-API-Key"),
			Skip:   func(r *http.Request) bool { return pays[r.Header.Get("X-API-Key")] != paid },
		}
	}
	limiter := httplimit.Must(httplimit.New(
		plan(false, "free", sash.PerHour(10)), plan(true, "paid", sash.PerHour(10_000))))
	defer limiter.Close()

	handler := limiter.Middleware(http.NotFoundHandler())
	for _, key := range []string{"alice", "bob"} {
		r, w := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
		r.Header.Set("X-API-Key", key)
		handler.ServeHTTP(w, r)
		fmt.Println(w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// "paid";q=10000;w=3600
	// "free";q=10;w=3600
}

// A request is charged to all its policies, or to none.
func ExampleLimiter_Middleware() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerMinute(100)}, Key: httplimit.ByAddress()},
		httplimit.Policy{Name: "search", Pattern: "GET /search", Limits: []sash.Limit{sash.PerMinute(1)}, Key: httplimit.ByAddress()},
	))
	defer limiter.Close()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /search", func(http.ResponseWriter, *http.Request) {})
	handler := limiter.Middleware(mux)
	for range 2 {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/search?q=sash", nil))
		fmt.Println(w.Code)
		fmt.Print(w.Body)
	}
	// Output:
	// 200
	// 429
	// {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"violated-policies":["search"]}
}

// A handler around the limiter answers the preflights of browsers, so that they cost
// nothing. It also lets pages of other origins read the headers about their quotas.
func ExampleLimiter_Middleware_cors() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name: "api", Pattern: "/api/", Limits: []sash.Limit{sash.PerMinute(1)}, Key: httplimit.ByHeader("X-API-Key"),
	}))
	defer limiter.Close()

	cors := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := w.Header()
			h.Set("Access-Control-Allow-Origin", "https://app.example.com")
			h.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
			if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
				h.Set("Access-Control-Allow-Headers", "X-API-Key")
				w.WriteHeader(http.StatusNoContent)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	handler := cors(limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	})))
	for range 3 {
		preflight := httptest.NewRequest("OPTIONS", "/api/", nil) // a preflight carries no key
		preflight.Header.Set("Access-Control-Request-Method", "GET")
		preflight.Header.Set("Access-Control-Request-Headers", "x-api-key")
		r := httptest.NewRequest("GET", "/api/", nil)
		r.Header.Set("X-API-Key", "alice")
		for _, r := range []*http.Request{preflight, r} {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			fmt.Println(r.Method, w.Code, w.Header().Get("Access-Control-Expose-Headers"))
		}
	}
	// Output:
	// OPTIONS 204 RateLimit, RateLimit-Policy, Retry-After
	// GET 200 RateLimit, RateLimit-Policy, Retry-After
	// OPTIONS 204 RateLimit, RateLimit-Policy, Retry-After
	// GET 429 RateLimit, RateLimit-Policy, Retry-After
	// OPTIONS 204 RateLimit, RateLimit-Policy, Retry-After
	// GET 429 RateLimit, RateLimit-Policy, Retry-After
}

// A load balancer in 10.0.0.0/8 names the client.
func ExampleByAddress() {
	key := httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8")))
	client := func(remote, forwarded string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("X-Forwarded-For", forwarded)
		identity, ok := key(nil, r)
		fmt.Printf("%v %v\n", identity, ok)
	}
	client("10.0.0.1:4711", "6.6.6.6, 198.51.100.7") // the client has made 6.6.6.6 up
	client("198.51.100.7:4711", "6.6.6.6")           // not through the load balancer
	client("10.0.0.1:4711", "unknown")
	// Output:
	// [52 198 51 100 7] true
	// [52 198 51 100 7] true
	// [] false
}

// The platform has one proxy, with an unknown address, which names the client.
func ExampleTrustHops() {
	key := httplimit.ByAddress(httplimit.TrustHops(1))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "6.6.6.6, 198.51.100.7") // the client has made 6.6.6.6 up
	fmt.Println(key(nil, r))
	// Output:
	// [52 198 51 100 7] true
}

// Behind Cloudflare, CF-Connecting-IP names the client. It is believed from no other
// source.
func ExampleReadHeader() {
	cloudflare := []netip.Prefix{netip.MustParsePrefix("173.245.48.0/20"), netip.MustParsePrefix("2400:cb00::/32")} // and more
	key := httplimit.ByAddress(httplimit.TrustProxies(cloudflare...), httplimit.ReadHeader("CF-Connecting-IP"))
	for _, remote := range []string{"173.245.48.9:4711", "203.0.113.5:4711"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		r.Header.Set("CF-Connecting-IP", "198.51.100.7")
		fmt.Println(key(nil, r))
	}
	// Output:
	// [52 198 51 100 7] true
	// [52 203 0 113 5] true
}

// Clients are keyed by their API key or, without one, by their address.
func ExampleFirstOf() {
	limiter := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "api",
		Limits: []sash.Limit{sash.PerMinute(1)},
		Key:    httplimit.FirstOf(httplimit.ByHeader("X-API-Key"), httplimit.ByAddress()),
	}))
	defer limiter.Close()

	handler := limiter.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, key := range []string{"alice", "bob", "", "alice", ""} {
		r := httptest.NewRequest("GET", "/", nil)
		if key != "" {
			r.Header.Set("X-API-Key", key)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Print(w.Code, " ")
	}
	// Output:
	// 200 200 200 429 429
}

// A metric for each policy and outcome contains no address of a client.
func ExampleWithObserver() {
	counts := map[string]int{} // concurrent requests would need a lock
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "strict", Limits: []sash.Limit{sash.PerMinute(2)}, Key: httplimit.ByAddress(), Shadow: true},
		httplimit.Policy{Name: "now", Limits: []sash.Limit{sash.PerMinute(4)}, Key: httplimit.ByAddress()},
		httplimit.WithObserver(func(e httplimit.Event) { counts[e.Policy+" "+e.Outcome.String()]++ }),
	))
	defer limiter.Close()

	handler := limiter.Middleware(http.NotFoundHandler())
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	_ = json.NewEncoder(os.Stdout).Encode(counts)
	// Output:
	// {"now admitted":4,"now denied":1,"strict admitted":2,"strict denied":3}
}

// The quota of an address is reset.
func ExampleLimiter_KeyFor() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerHour(1)}, Key: httplimit.ByAddress()}))
	defer limiter.Close()

	handler := limiter.Middleware(http.NotFoundHandler())
	handler.ServeHTTP(httptest.NewRecorder(), &http.Request{RemoteAddr: "198.51.100.7:4711"})

	key, ok := limiter.KeyFor("all", &http.Request{RemoteAddr: "198.51.100.7"})
	fmt.Println(ok, limiter.Sash().Peek(key, 1).Allowed)
	limiter.Sash().Reset(key)
	fmt.Println(limiter.Sash().Peek(key, 1).Allowed)
	// Output:
	// true false
	// true
}
