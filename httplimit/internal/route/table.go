// Package route finds the patterns, in the syntax of net/http's ServeMux, that match a request.
package route

import (
	"net/http"
	"slices"
	"strings"
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
