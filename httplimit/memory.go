package httplimit

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"
)

// A memory remembers which routes requests are on, since a mux takes about as long
// to tell of one route as the limiter does to decide. It has one place for each hash
// of a target, and so is bounded, whatever clients ask for.
//
// A target gets a place when it is asked for twice with no other between that
// belongs there: paths that are asked for once do not cost a place, nor those before
// them theirs.
type memory struct {
	places [512]place
}

// seed is nobody's to know, so that nobody can choose paths of one place.
var seed = maphash.MakeSeed()

type place struct {
	known atomic.Pointer[target]
	last  atomic.Uint64 // hash of the latest target that was not known
}

// A target is what a mux looks at in a request.
type target struct {
	method, host, path, rawPath, urlHost string
	routes                               routeSet
}

func (t *target) is(r *http.Request) bool {
	return t.path == r.URL.Path && t.rawPath == r.URL.RawPath &&
		t.method == r.Method && t.host == r.Host && t.urlHost == r.URL.Host
}

// recall returns the routes of r, as find has found them.
func (m *memory) recall(r *http.Request, find func(*http.Request) routeSet) routeSet {
	hash := hashOf(r)
	p := &m.places[hash%uint64(len(m.places))]
	if t := p.known.Load(); t != nil && t.is(r) {
		return t.routes
	}
	routes := find(r)
	const most = 256 // bytes; more is no path of a route that is often asked for
	size := len(r.Method) + len(r.Host) + len(r.URL.Path) + len(r.URL.RawPath) + len(r.URL.Host)
	if p.last.Swap(hash) == hash && size <= most {
		p.known.Store(newTarget(r, routes))
	}
	return routes
}

// hashOf tells targets apart by all that they commonly differ in. Methods that are as
// long begin with different letters.
func hashOf(r *http.Request) uint64 {
	hash := maphash.String(seed, r.URL.Path) + 3*maphash.String(seed, r.Host)
	if r.Method != "" {
		hash += 31*uint64(len(r.Method)) + uint64(r.Method[0])
	}
	return hash
}

// newTarget copies the strings, which are parts of all that the request said.
func newTarget(r *http.Request, routes routeSet) *target {
	return &target{
		method: strings.Clone(r.Method), host: strings.Clone(r.Host),
		path: strings.Clone(r.URL.Path), rawPath: strings.Clone(r.URL.RawPath),
		urlHost: strings.Clone(r.URL.Host), routes: routes,
	}
}
