// Package frameworks has the adapters of package httplimit for frameworks, each in a package of
// its own:
//
//	e.Use(ginlimit.Middleware(limiter))   // gin
//	e.Use(echolimit.Middleware(limiter))  // echo, version 5
//	e.Use(echo4limit.Middleware(limiter)) // echo, version 4
//	app.Use(fiberlimit.New(limiter))      // fiber, version 3
//
// The routers of net/http, chi and gorilla/mux need none: limiter.Middleware is middleware of
// theirs. The package itself is empty. Its tests mount the limiter in all of them. It is a module
// of its own, so that sash does not require these frameworks.
package frameworks
