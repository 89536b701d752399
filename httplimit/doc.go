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
// # What it costs
//
// Beside what [sash] costs, about as much again for making the headers, and, with
// the routes of recent requests remembered, no allocation for each request. A route
// that is not remembered takes what [http.ServeMux] does. A charge that may be given
// back costs some hundred bytes while the request is under way.
package httplimit
