// Package route finds the patterns, in the syntax of net/http's ServeMux, that match a request.
package route

import (
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

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
	Paths  Paths
	routes []*route
	byHost bool // whether a route has a host
	depth  int  // number of segments of the pattern that has most
	// nameless stands for segments without a name. It is longer than each pattern, so no pattern names it.
	nameless string
	cache    *cache // nil: the only route is every request
}

// Add returns the index of the route of a valid pattern, which it appends unless there is one.
func (t *Table) Add(pattern string) int {
	i := slices.IndexFunc(t.routes, func(r *route) bool { return r.pattern == pattern })
	if i >= 0 {
		return i
	}
	r, err := newRoute(pattern, t.Paths)
	if err != nil {
		panic(err) // Fault has made the same route
	}
	t.routes = append(t.routes, r)
	t.byHost = t.byHost || r.hosted
	t.depth = max(t.depth, strings.Count(pattern, "/"))
	t.nameless = strings.Repeat("-", max(len(t.nameless), len(pattern)+1))
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

// everyRequest is the Set of a Table whose only route is every request.
var everyRequest = Set{true}

// Of returns the routes that match r. The result is shared: it must not be changed.
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

// A route is the requests that one pattern matches. It has a ServeMux of its own: one for all patterns
// would report only the most specific match, and would refuse patterns that conflict.
type route struct {
	pattern string         // as in the policy
	mux     *http.ServeMux // nil: every request
	hosted  bool           // whether the pattern has a host
}

// catchAll is the pattern under which the mux of a route has all other requests.
const catchAll = "/"

// newRoute returns the route of a pattern, with its host canonical and, under Folded, its path folded.
func newRoute(pattern string, paths Paths) (*route, error) {
	if pattern == "" {
		return &route{}, nil
	}
	// Register the pattern as it was given first, so that the error quotes it.
	if err := register(http.NewServeMux(), pattern); err != nil {
		return nil, err
	}
	method, host, path := splitPattern(pattern)
	name := hostname.Canonical(host)
	switch bare, _, found := hostname.CutPort(host); {
	case host != "" && name == "":
		return nil, fmt.Errorf("%.200q: the host has no name", pattern)
	case found:
		return nil, fmt.Errorf("%.200q: the host must have no port, since ports are ignored: write %.200q", pattern, method+bare+path)
	}
	if paths == Folded {
		if clean := cleanPath(path); path != clean {
			return nil, fmt.Errorf("%.200q: WithPathFolding cleans paths: write %.200q", pattern, method+host+clean)
		}
		path = foldSegments(path)
	}
	mux := http.NewServeMux()
	if err := register(mux, method+name+path); err != nil {
		return nil, err
	}
	if pattern != catchAll {
		// Without a match, a mux computes for each request which methods it would have served, unless it
		// has this. It refuses it next to a pattern such as "/{any...}", which leaves no other requests.
		_ = register(mux, catchAll)
	}
	return &route{pattern, mux, host != ""}, nil
}

// splitPattern splits a pattern that a mux accepts. The method includes the white space after it.
func splitPattern(pattern string) (method, host, path string) {
	begin := 0
	if space := strings.IndexAny(pattern, " \t"); space >= 0 {
		begin = len(pattern) - len(strings.TrimLeft(pattern[space:], " \t"))
	}
	slash := begin + strings.IndexByte(pattern[begin:], '/')
	return pattern[:begin], pattern[begin:slash], pattern[slash:]
}

// register registers a pattern, and returns an error where a mux panics, with its reason alone.
func register(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			text := fmt.Sprint(fault)
			if _, reason, found := strings.Cut(text, `": `); found && strings.HasPrefix(text, "parsing ") {
				text = reason
			}
			err = fmt.Errorf("%.200q: %.200s", pattern, text)
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// matches reports whether the mux of t would serve or redirect r under the pattern.
func (t *route) matches(r *http.Request) bool {
	if t.mux == nil {
		return true
	}
	_, pattern := t.mux.Handler(r)
	return pattern == t.pattern || pattern != catchAll && pattern != ""
}

// A cache caches which routes match a request, since a mux takes about as long as the limiter. Each
// target has one slot, by its hash. It is cached at its second miss in a row there, so that a path that
// is requested once evicts no target.
type cache [512]cacheSlot

// cacheSeed is secret, so that a client cannot choose paths that share a slot.
var cacheSeed = maphash.MakeSeed()

// A cacheSlot holds one target. Of concurrent requests that store theirs, the last one's stays.
type cacheSlot struct {
	cached   atomic.Pointer[target]
	lastMiss atomic.Uint64 // hash of the last target that was not cached
}

// A target is the part of a request that a mux reads, and the routes that match it. It is immutable.
type target struct {
	method, host, path, rawPath, urlHost string
	routes                               Set
}

// lookUp returns the routes of r. On a miss, it calls find.
func (c *cache) lookUp(r *http.Request, find func(*http.Request) Set) Set {
	u := r.URL
	// Hash what targets commonly differ in. Methods of one length differ in their first letter.
	hash := maphash.String(cacheSeed, u.Path) + 3*maphash.String(cacheSeed, r.Host)
	if r.Method != "" {
		hash += 31*uint64(len(r.Method)) + uint64(r.Method[0])
	}
	slot := &c[hash%uint64(len(c))]
	if t := slot.cached.Load(); t != nil && t.path == u.Path && t.rawPath == u.RawPath &&
		t.method == r.Method && t.host == r.Host && t.urlHost == u.Host {
		return t.routes
	}
	routes := find(r)
	const maxSize = 256 // bytes; a longer target is unlikely to be requested often, and memory is bounded
	size := len(r.Method) + len(r.Host) + len(u.Path) + len(u.RawPath) + len(u.Host)
	if slot.lastMiss.Swap(hash) == hash && size <= maxSize {
		of := strings.Clone // or the strings would keep the whole header of the request alive
		slot.cached.Store(&target{of(r.Method), of(r.Host), of(u.Path), of(u.RawPath), of(u.Host), routes})
	}
	return routes
}
