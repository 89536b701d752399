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

// A cacheSlot holds one target, and the routes that match it. Concurrent requests may both miss and store
// their targets; the last one stays, and each stored target is valid.
type cacheSlot struct {
	cached   atomic.Pointer[cached]
	lastMiss atomic.Uint64 // hash of the last target that was not cached
}

// A cached is what a slot holds. It is immutable.
type cached struct {
	target
	routes Set
}

// A target is the part of a request that a mux reads.
type target struct{ method, host, path, rawPath, urlHost string }

// lookUp returns the routes of r. On a miss, it calls find.
func (c *cache) lookUp(r *http.Request, find func(*http.Request) Set) Set {
	hash, asked := hashTarget(r), target{r.Method, r.Host, r.URL.Path, r.URL.RawPath, r.URL.Host}
	slot := &c.slots[hash%uint64(len(c.slots))]
	if hit := slot.cached.Load(); hit != nil && hit.target == asked {
		return hit.routes
	}
	routes := find(r)
	// A longer target than that is unlikely to be requested often. The check bounds the
	// memory of the cache.
	const maxSize = 256 // bytes
	size := len(asked.method) + len(asked.host) + len(asked.path) + len(asked.rawPath) + len(asked.urlHost)
	if slot.lastMiss.Swap(hash) == hash && size <= maxSize {
		for _, s := range []*string{&asked.method, &asked.host, &asked.path, &asked.rawPath, &asked.urlHost} {
			*s = strings.Clone(*s) // or it would keep the whole header of the request alive
		}
		slot.cached.Store(&cached{asked, routes})
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
