// Package httplimit puts sliding-window limits of package sash before any
// [net/http] handler, and behind any [http.Client].
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
//			Limits:  []sash.Limit{sash.PerHour(5).Log()},
//			Key:     httplimit.ByAddress(),
//			Charge:  func(status int) bool { return status == http.StatusUnauthorized },
//		},
//	))
//	defer limiter.Close()
//	http.ListenAndServe(":8080", limiter.Middleware(mux))
//
// # Policies
//
// A [Policy] is a name, the requests that it is for, in the patterns of
// [http.ServeMux], their limits, and who they are counted for. A request may have
// several, and is charged to all of them or none. Further fields make requests cost
// more or less, skip some, charge only those that were answered in a certain way,
// or try a policy out without denying anything: Cost, Skip, Charge and Shadow.
//
// Hosts are compared as names, and paths as [http.ServeMux] compares them. Some
// routers serve /LOGIN or /login/ as /login: with those, give [WithPathFolding], or a
// client gets past a policy by another spelling.
//
// # Who is calling
//
// A [KeyFunc] says; there is no default, for a wrong one either limits nobody or
// everybody at once. [ByAddress] takes the address of the connection, and believes
// X-Forwarded-For or Forwarded only as far as networks vouch for it that you name.
// Its options fit it to what stands before the server:
//
//   - proxies whose addresses are known: [TrustProxies], and [TrustUnixSocket];
//   - proxies of which only the number is known: [TrustHops];
//   - proxies that name the client in a header of its own, such as CF-Connecting-IP
//     or X-Real-IP: [TrustProxies] with [ReadHeader];
//   - anything else that finds the address: [ByAddressOf].
//
// [ByHeader], [ByRoute] and [By] take something else, [Join] and [FirstOf] combine.
// A request that does not tell is answered 400, and never let through uncounted.
//
// # What clients are told
//
// RateLimit-Policy and RateLimit, as draft-ietf-httpapi-ratelimit-headers-11 has
// them, on every response under a policy:
//
//	RateLimit-Policy: "login";q=5;w=3600
//	RateLimit: "login";r=4;t=3600
//
// Of a policy with several limits, RateLimit names the one that has the least left,
// of equal ones the one that has more last. t is when it has. A denied request is answered 429 with
// Retry-After, Cache-Control: no-store and problem details (RFC 9457) that name the
// quotas it violates. No answer holds anything of the request, or of who made it.
//
// # Browsers of other origins
//
// A browser asks by a preflight, an OPTIONS request, before it sends some requests of
// pages of other origins (CORS). A policy counts preflights like any other request:
// those without a Pattern and with "/api/" are for OPTIONS too, while "POST /login" is
// not. A preflight bears no cookie, no credentials and no header of its own, so that
// [ByHeader] cannot tell who is calling, and the browser gives up on the answer 400.
//
// So put the handler that answers preflights around the middleware. Preflights then
// cost nothing, and its headers are on denials too; without them the page is not shown
// the status 429. Let it name the headers that pages may read:
//
//	Access-Control-Expose-Headers: RateLimit, RateLimit-Policy, Retry-After
//
// with the three of [WithXRateLimit] if they are sent.
//
// # Routers and frameworks
//
// Put the middleware around the whole router: limiter.Middleware(router), for the
// ServeMux of net/http, the routers of chi and gorilla/mux, the Engine of gin and the
// Echo of echo; for fiber, limiter.Middleware(adaptor.FiberApp(app)). There it limits
// every request, and Charge is asked of every answer.
//
// Inside of them it can also be mounted so:
//
//   - chi: r.Use(limiter.Middleware). It works as around the router.
//   - gorilla/mux: r.Use(limiter.Middleware). Requests that match no route are not
//     limited.
//   - gin: e.Use(adapter.Wrap(limiter.Middleware)), of github.com/gwatts/gin-adapter.
//     An adapter that is written by hand must call Abort when the middleware does not
//     call its handler. If it leaves gin its own writer, responses are written past
//     the middleware.
//   - echo: e.Use(echo.WrapMiddleware(limiter.Middleware)). An error that a handler
//     returns is made a response after the middleware has returned.
//   - fiber: app.Use(adaptor.HTTPMiddleware(limiter.Middleware)). All handlers run
//     after the middleware has returned.
//
// A response that is written past the middleware, or after it, is not certain in the
// sense of [Policy].Charge: the request stays charged. Denials work everywhere.
//
// # What it costs
//
// Beside what [sash] costs, about as much again for making the headers, and, with
// the routes of recent requests remembered, no allocation for each request. A route
// that is not remembered takes what [http.ServeMux] does. A charge that may be given
// back costs some hundred bytes while the request is under way.
package httplimit
