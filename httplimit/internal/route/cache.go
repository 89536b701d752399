package route

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"
)

// A cache caches which routes match a request, since a mux takes about as long for
// one route as the limiter takes to decide. Each target has one slot, chosen by its
// hash. So the cache has a fixed size, whatever clients ask for.
//
// A target is cached at its second miss in a row in its slot. So a path that is
// requested only once takes no slot, and evicts no target.
type cache struct {
	slots [512]cacheSlot
}

// cacheSeed is secret, so that a client cannot choose paths that share a slot.
var cacheSeed = maphash.MakeSeed()

// A cacheSlot holds one target. Concurrent requests may both miss and store their
// targets; the last one stays, and each stored target is valid.
type cacheSlot struct {
	cached   atomic.Pointer[target]
	lastMiss atomic.Uint64 // hash of the last target that was not cached
}

// A target is the part of a request that a mux reads, and the routes that match it. It
// is immutable.
type target struct {
	method, host, path, rawPath, urlHost string
	routes                               Set
}

// matches reports whether t is the target of r.
func (t *target) matches(r *http.Request) bool {
	return t.path == r.URL.Path && t.rawPath == r.URL.RawPath &&
		t.method == r.Method && t.host == r.Host && t.urlHost == r.URL.Host
}

// lookUp returns the routes of r. On a miss, it calls find.
func (c *cache) lookUp(r *http.Request, find func(*http.Request) Set) Set {
	hash := hashTarget(r)
	slot := &c.slots[hash%uint64(len(c.slots))]
	if t := slot.cached.Load(); t != nil && t.matches(r) {
		return t.routes
	}
	routes := find(r)
	// A longer target than that is unlikely to be requested often. The check bounds the
	// memory of the cache.
	const maxSize = 256 // bytes
	size := len(r.Method) + len(r.Host) + len(r.URL.Path) + len(r.URL.RawPath) + len(r.URL.Host)
	if slot.lastMiss.Swap(hash) == hash && size <= maxSize {
		slot.cached.Store(newTarget(r, routes))
	}
	return routes
}

// hashTarget hashes the parts in which targets commonly differ. For methods, the length
// and the first letter are enough: methods of the same length begin with different
// letters.
func hashTarget(r *http.Request) uint64 {
	hash := maphash.String(cacheSeed, r.URL.Path) + 3*maphash.String(cacheSeed, r.Host)
	if r.Method != "" {
		hash += 31*uint64(len(r.Method)) + uint64(r.Method[0])
	}
	return hash
}

// newTarget returns the target of r. It copies the strings, which would otherwise keep
// the whole header of the request alive.
func newTarget(r *http.Request, routes Set) *target {
	return &target{
		method: strings.Clone(r.Method), host: strings.Clone(r.Host),
		path: strings.Clone(r.URL.Path), rawPath: strings.Clone(r.URL.RawPath),
		urlHost: strings.Clone(r.URL.Host), routes: routes,
	}
}
