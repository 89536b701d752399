// Package route finds the patterns, in the syntax of net/http's ServeMux, that match a request.
package route

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
)

// Paths says how paths are compared with patterns.
type Paths uint8

const (
	Exact  Paths = iota // as a ServeMux does
	Folded              // as routers do that serve several spellings of a path alike
)

// A Table is the routes of several patterns. Once all are added, it is safe for concurrent use.
type Table struct {
	paths  Paths
	routes []*route
	byHost bool   // whether a route has a host
	depth  int    // number of segments of the longest pattern
	cache  *cache // nil: the only route is every request
}

// NewTable returns a table without routes.
func NewTable(paths Paths) Table { return Table{paths: paths} }

// Add returns the index of the route of a valid pattern. It appends the route unless there is one
// of that pattern.
func (t *Table) Add(pattern string) int {
	i := slices.IndexFunc(t.routes, func(r *route) bool { return r.pattern == pattern })
	if i >= 0 {
		return i
	}
	r, err := newRoute(pattern, t.paths)
	if err != nil {
		panic(err) // Fault has made the same route
	}
	t.routes = append(t.routes, r)
	t.byHost = t.byHost || r.hosted
	t.depth = max(t.depth, strings.Count(pattern, "/"))
	if t.cache == nil && (len(t.routes) > 1 || r.mux != nil) {
		t.cache = new(cache)
	}
	return len(t.routes) - 1
}

// Fault returns why a table with those paths cannot have pattern, or nil.
func Fault(pattern string, paths Paths) error {
	_, err := newRoute(pattern, paths)
	return err
}

// A Set says which of a Table's routes match a request, by index.
type Set []bool

// Has reports whether the route of that index is in s.
func (s Set) Has(route int) bool { return s[route] }

// everyRequest is the Set of a Table whose only route is every request.
var everyRequest = Set{true}

// Of returns the routes that match r. The result is shared: it must not be
// changed.
func (t *Table) Of(r *http.Request) Set {
	if t.cache == nil {
		return everyRequest
	}
	return t.cache.lookUp(r, t.findRoutes)
}

// findRoutes matches r with each route.
func (t *Table) findRoutes(r *http.Request) Set {
	set := make(Set, len(t.routes))
	var buf [4]*http.Request
	readings := t.readings(buf[:0], r)
	for i, route := range t.routes {
		set[i] = slices.ContainsFunc(readings, route.matches)
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
func (t *Table) readings(all []*http.Request, r *http.Request) []*http.Request {
	if t.byHost || !strings.HasPrefix(r.URL.Path, "/") {
		r = canonicalRequest(r)
	}
	if t.paths == Folded { // foldings include the other readings of a path
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
	host, urlHost := hostname.Canonical(r.Host), hostname.Canonical(r.URL.Host)
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
