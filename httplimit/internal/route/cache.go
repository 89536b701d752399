package route

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"
)

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
