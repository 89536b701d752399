package httplimit

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A route is the requests that one pattern matches. It has a ServeMux of its own: one
// mux for all patterns would report only the most specific match, and would refuse
// patterns that conflict.
type route struct {
	pattern string         // as in the policy
	mux     *http.ServeMux // nil: every request
	hosted  bool           // whether the pattern has a host
}

// catchAll is the pattern under which the mux of a route has all other requests.
const catchAll = "/"

// newRoute returns the route of a pattern. The mux of the route has the pattern with
// the host in its canonical spelling and, if folded is true, with the path folded.
func newRoute(pattern string, folded bool) (*route, error) {
	if pattern == "" {
		return &route{}, nil
	}
	// Register the pattern as it was given first, so that the error quotes it.
	if err := register(http.NewServeMux(), pattern); err != nil {
		return nil, err
	}
	method, host, path := splitPattern(pattern)
	name := canonicalHost(host)
	if err := checkPattern(pattern, name, folded); err != nil {
		return nil, err
	}
	if folded {
		path = foldPattern(path)
	}
	mux := http.NewServeMux()
	if err := register(mux, method+name+path); err != nil {
		return nil, err
	}
	if pattern != catchAll {
		// Without a match, a mux computes for each request which methods it would have
		// served. The catch-all saves that. A mux refuses it next to a pattern such as
		// "/{any...}", which leaves no other requests.
		_ = register(mux, catchAll)
	}
	return &route{pattern, mux, host != ""}, nil
}

// checkPattern returns why a pattern that a mux accepts is none of a policy. name is
// the canonical spelling of its host.
func checkPattern(pattern, name string, folded bool) error {
	method, host, path := splitPattern(pattern)
	switch bare, _, found := cutPort(host); {
	case host != "" && name == "":
		return fmt.Errorf("%.200q: the host has no name", pattern)
	case found:
		return fmt.Errorf("%.200q: the host must have no port, since ports are ignored: write %.200q", pattern, method+bare+path)
	}
	if clean := cleanPath(path); folded && path != clean {
		return fmt.Errorf("%.200q: WithPathFolding cleans paths: write %.200q", pattern, method+host+clean)
	}
	return nil
}

// splitPattern splits a pattern that a mux accepts. The method includes the white space
// after it.
func splitPattern(pattern string) (method, host, path string) {
	begin := 0
	if space := strings.IndexAny(pattern, " \t"); space >= 0 {
		begin = len(pattern) - len(strings.TrimLeft(pattern[space:], " \t"))
	}
	slash := begin + strings.IndexByte(pattern[begin:], '/')
	return pattern[:begin], pattern[begin:slash], pattern[slash:]
}

// register registers a pattern, and returns an error where a mux panics.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%.200q: %.200s", pattern, patternFault(fault))
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// patternFault returns the fault of a pattern, cut from the panic of a mux.
func patternFault(fault any) string {
	s := fmt.Sprint(fault)
	if _, reason, found := strings.Cut(s, `": `); found && strings.HasPrefix(s, "parsing ") {
		return reason
	}
	return s
}

// matches reports whether the pattern matches one of the readings of a request.
func (t *route) matches(readings []*http.Request) bool {
	for _, r := range readings {
		if t.mux == nil || t.serves(r) {
			return true
		}
	}
	return false
}

// serves reports whether the mux of t would serve or redirect r under t's pattern.
func (t *route) serves(r *http.Request) bool {
	_, pattern := t.mux.Handler(r)
	return pattern == t.pattern || pattern != catchAll && pattern != ""
}

// A routeSet tells which of a limiter's routes match a request, by index.
type routeSet []bool

func (s routeSet) has(route int) bool { return s[route] }

// everyRequest is the routeSet of a limiter whose only route is every request.
var everyRequest = routeSet{true}

// routesOf returns the routes that match r. The result is shared: it must not be
// changed.
func (t *table) routesOf(r *http.Request) routeSet {
	if t.routeCache == nil {
		return everyRequest
	}
	return t.routeCache.lookUp(r, t.findRoutes)
}

// findRoutes matches r with each route.
func (t *table) findRoutes(r *http.Request) routeSet {
	set := make(routeSet, len(t.routes))
	var buf [4]*http.Request
	readings := t.readings(buf[:0], r)
	for i, route := range t.routes {
		set[i] = route.matches(readings)
	}
	return set
}

// readings appends all readings of the host and path of r. A route matches a request if
// it matches one of them, so that no spelling gets past a policy to a handler that
// reads it in another way:
//
//   - Hosts are compared as names.
//   - A path may hold escapes, such as %2F, that a mux distinguishes and other handlers
//     do not. It is read with its escapes and without them.
//   - A path may hold "//", "." and "..", which a mux cleans and other handlers do not. It
//     is read cleaned and as it is.
//   - A folded path is read with a trailing slash and without one, and in the readings
//     of otherTargets.
func (t *table) readings(all []*http.Request, r *http.Request) []*http.Request {
	if t.byHost || !strings.HasPrefix(r.URL.Path, "/") {
		r = canonicalRequest(r)
	}
	if t.foldPaths {
		for _, other := range otherTargets(r) {
			all = t.appendFoldings(all, other)
		}
		return t.appendFoldings(all, r)
	}
	all = append(all, r)
	if r.URL.RawPath != "" {
		all = append(all, withPath(r, r.URL.Path, ""))
	}
	if unclean(r.URL.Path) {
		all = t.appendUnclean(all, r)
	}
	return all
}

// canonicalRequest returns r with its hosts in canonical spelling, and with a path that
// begins with a slash. A mux does not clean the host and the path of a CONNECT.
func canonicalRequest(r *http.Request) *http.Request {
	host, urlHost := canonicalHost(r.Host), canonicalHost(r.URL.Host)
	rooted := strings.HasPrefix(r.URL.Path, "/")
	if host == r.Host && urlHost == r.URL.Host && rooted {
		return r
	}
	c := withPath(r, r.URL.Path, r.URL.RawPath)
	c.Host, c.URL.Host = host, urlHost
	if !rooted {
		c.URL.Path, c.URL.RawPath = "/"+c.URL.Path, ""
	}
	return c
}

// withPath returns a request with another path, and with the other fields of r that a
// mux reads.
func withPath(r *http.Request, path, rawPath string) *http.Request {
	return &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Host: r.URL.Host, Path: path, RawPath: rawPath}}
}
