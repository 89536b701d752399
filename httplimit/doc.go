// Package httplimit puts the limits of package sash around any [net/http] handler, and behind any
// [http.Client].
//
//	limiter := httplimit.Must(httplimit.New(
//		httplimit.Policy{
//			Name:   "all",
//			Limits: []sash.Limit{sash.PerMinute(300)},
//			Key:    httplimit.ByAddress(),
//		},
//		httplimit.Policy{
//			Name:    "login",
//			Pattern: "POST /login",
//			Limits:  []sash.Limit{sash.PerHour(5)},
//			Key:     httplimit.ByAddress(),
//			Charge:  func(status int) bool { return status == http.StatusUnauthorized },
//		},
//	))
//	defer limiter.Close()
//	http.ListenAndServe(":8080", limiter.Middleware(mux))
//
// Where other middleware or a framework wraps the ResponseWriter, a handler that succeeds must write its
// 200. Otherwise it is charged like a failed login: see [Policy].Charge.
//
// For the requests that a program sends, see [Transport]. For calls of gRPC and Connect, see the module
// grpclimit.
//
// # Policies
//
// A [Policy] consists of a name, a pattern of requests in the syntax of [http.ServeMux], limits, and a
// function that returns the identity of the client. A request may have several policies, and is charged
// to all of them or none. The other fields of a Policy are optional:
//
//   - Cost makes requests cost more or less than one unit.
//   - Leave keeps a part of the quota for urgent requests.
//   - Near tells the observer when little is left.
//   - Skip exempts requests.
//   - Plan and Plans give requests other limits, by the plan of the customer.
//   - Charge keeps the charges of requests by the status of the answer.
//   - Settle charges what a request has cost, once it is answered.
//   - Queue lets requests wait instead of refusing them.
//   - Shadow tries a policy out without denying anything.
//
// A limit by [sash.AtOnce] bounds the requests that are under way. It stands alone, or next to rates:
//
//	Limits: []sash.Limit{sash.PerMinute(100), sash.AtOnce(5, time.Minute)}
//
// A request holds its place until its handler has returned, or for the lease, whichever is shorter. So the
// lease must be longer than any handler runs.
//
// Some routers serve /LOGIN or /login/ as /login. With those, give [WithPathFolding], or a client gets
// past a policy by another spelling.
//
// # Identities
//
// A [KeyFunc] returns the identity of a client. There is no default, since a wrong one limits either no
// client or all clients together. A request whose identity cannot be told is answered 400, and never
// admitted uncounted.
//
// [ByAddress] takes the address of the connection, and its options describe the proxies before the
// server:
//
//   - proxies with known addresses: [TrustProxies], and [TrustUnixSocket]
//   - proxies whose number alone is known: [TrustHops]
//   - proxies that put the client into a header of its own: [TrustProxies] with [ReadHeader]
//   - any other source of the address: [ByAddressOf]
//
// [ByHeader], [ByRoute] and [By] take other identities. [Join] and [FirstOf] combine them.
//
// # Costs known after the response
//
// A policy with Settle charges its Cost as an estimate when a request arrives, and what the request has
// cost once it is answered: the bytes of the response by [SettleBytes], a number in a header by
// [SettleHeader], or what a function of yours makes of the [Response]. The handler may say it, too:
//
//	charge := httplimit.ChargeOf(r.Context(), "tokens")
//	charge.Commit(usage.TotalTokens) // it has cost that much
//	charge.Add(5)                    // 5 more than the policy says
//	charge.Cancel()                  // nothing
//	charge.Keep()                    // the estimate, as for a login that has failed
//
// # Waiting instead of refusing
//
// A policy with a [Queue] lets a request wait that it denies, first come, first served, for a bounded
// time and in bounded number:
//
//	Queue: httplimit.Queue{Wait: 2 * time.Second, Requests: 100, RequestsEach: 5}
//
// # Plans
//
// A policy has limits for each plan of your customers. A function of yours names the plan of a request:
//
//	Limits: []sash.Limit{sash.PerMinute(60)}, // without a plan
//	Plan:   func(r *http.Request) string { return customerOf(r.Context()).Plan },
//	Plans:  map[string][]sash.Limit{"gold": {sash.PerMinute(1000)}},
//
// # Priorities
//
// Requests of several classes share one count. Less urgent requests leave a part of it to the others:
//
//	Limits: []sash.Limit{sash.PerMinute(100)},
//	Leave: func(r *http.Request) int64 {
//		if r.Header.Get("X-Priority") == "background" { // a header that a proxy of yours overwrites
//			return 20
//		}
//		return 0
//	},
//
// # Little left
//
// A policy with Near tells the observer of the request that leaves less than a percentage of a limit: once for
// each crossing, and not for each request after it. It is for a log line, a metric or a mail:
//
//	Near: 20,
//
//	httplimit.WithObserver(func(e httplimit.Event) {
//		for _, limit := range e.Near {
//			log.Printf("%s: less than 20 %% of %v is left", e.Policy, limit)
//		}
//	})
//
// # Policies that change
//
// [Limiter.Reconfigure] replaces the policies while requests are decided. Policies whose Name stays keep
// their counts, and no request is decided by half a configuration.
//
// # Other transports
//
// [Limiter.Decide] decides a request without a handler of net/http, and [Charges.Settle] settles it. The
// middleware is a thin layer over both.
//
// # Headers
//
// Every response to a request that has a policy carries RateLimit-Policy and RateLimit, as in
// draft-ietf-httpapi-ratelimit-headers-11:
//
//	RateLimit-Policy: "login";q=5;w=3600
//	RateLimit: "login";r=4;t=3600
//
// If a policy has several limits, RateLimit names the one with the least left or, of several, the one
// that takes longest until it has more. That time is t. If the request must leave units, r is what such a
// request may still use, and t is the time until it may use one more.
//
// The quota q of a limit is its Count, and w is its Window in seconds, rounded up. There is no w if that
// is under a second. A token bucket is described by what it holds: q is its Burst, and w is the time in
// which an empty bucket fills, Burst*Window/Count. So 10 a second with bursts of 100 is
//
//	RateLimit-Policy: "api";q=100;w=10
//
// A client that spends at most q units in any w seconds is never denied by a token bucket.
//
// A limit by [sash.AtOnce] has no w, and its t and Retry-After are a second, as in [Denial].RetryAfter:
//
//	RateLimit-Policy: "api";q=5;qu="concurrent-requests"
//	RateLimit: "api";r=0;t=1
//
// A denied request is answered 429 with Retry-After, Cache-Control: no-store and problem details (RFC
// 9457) that name the violated quotas. No answer contains anything of the request, or about the client.
//
// # Browsers of other origins
//
// A browser sends a preflight, an OPTIONS request, before some requests of pages of other origins (CORS).
// A policy counts preflights like any other request that its Pattern matches. A preflight carries no
// cookie, no credentials and no custom header. So [ByHeader] cannot tell its identity, and the browser
// gives up at the answer 400.
//
// So put the handler that answers preflights around the middleware. Preflights then cost nothing, and its
// headers are on denials too; without them, the browser hides the status 429 from the page. Let the
// handler list the headers that pages may read, together with the headers of [WithXRateLimit] if they are
// sent:
//
//	Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
//
// # Routers and frameworks
//
// Put the middleware around the whole router: limiter.Middleware(router). That works for the ServeMux of
// net/http, the routers of chi and gorilla/mux, the Engine of gin and the Echo of echo. For fiber, it is
// limiter.Middleware(adaptor.FiberApp(app)). There it limits every request, and calls Charge for every
// answer.
//
// It can also be mounted inside of them. The adapters of gin, echo and fiber are modules, such as
// github.com/seed-30da4c49/sash/httplimit/ginlimit:
//
//   - chi: r.Use(limiter.Middleware). It works as around the router.
//   - gorilla/mux: r.Use(limiter.Middleware). Requests that match no route are not limited.
//   - gin: e.Use(ginlimit.Middleware(limiter)).
//   - echo: e.Use(echolimit.Middleware(limiter)), or echo4limit for its version 4.
//   - fiber: app.Use(fiberlimit.New(limiter)), with [WithPathFolding]. It works without net/http.
//
// What wraps any middleware of net/http does not show it the responses. Examples are echo.WrapMiddleware,
// under which the errors of handlers are answered later, fiber's adaptor.HTTPMiddleware, and an adapter
// for gin that leaves gin its own writer. A response that is written past the middleware, or after it, is
// uncertain in the sense of [Policy].Charge: the request stays charged, and is reported as [Unseen].
// Denials work everywhere.
//
// # Cost
//
// A request costs the time of its decision in [sash] and about as much again for the headers. The routes
// of recent requests are cached, and a request on a cached route allocates nothing. A request on another
// one also takes the time of [http.ServeMux]. A charge that may change takes some hundred bytes while the
// request is under way, and as many more if the request has a body. Its key takes more for good, as
// [sash.Limiter.Reserve] says. The same holds for a request that has waited in a [Queue].
package httplimit
