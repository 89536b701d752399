package httplimit

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// A route is the requests of one pattern. Each has a mux of its own, since one mux
// tells only the most specific of the patterns that a request matches, and refuses
// patterns of which none is.
type route struct {
	pattern string
	mux     *http.ServeMux // nil: every request
}

const rest = "/" // what a route's mux says of requests that are not the route's

func newRoute(pattern string) (*route, error) {
	if pattern == "" {
		return &route{}, nil
	}
	mux := http.NewServeMux()
	if err := handle(mux, pattern); err != nil {
		return nil, err
	}
	if pattern != rest {
		// Without it, the mux looks which methods it would have served, each time.
		// It fails for a pattern like "/{any...}", beside which there is no rest.
		_ = handle(mux, rest)
	}
	return &route{pattern, mux}, nil
}

// handle makes an error of what a mux has to say about a pattern.
func handle(mux *http.ServeMux, pattern string) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%.200q: %.200s", pattern, briefly(fault))
		}
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return nil
}

// briefly returns what is wrong with a pattern, out of what a mux panics with.
func briefly(fault any) string {
	s := fmt.Sprint(fault)
	if _, reason, found := strings.Cut(s, `": `); found && strings.HasPrefix(s, "parsing ") {
		return reason
	}
	return s
}

// matches reports whether r is the route's.
//
// A path may hold escapes that a mux keeps apart and others do not, such as %2F.
// Then it is matched in both readings, so that there is no spelling with which a
// request gets past a policy to a handler that reads it in the other.
func (t *route) matches(r *http.Request) bool {
	if t.mux == nil || t.serves(r) {
		return true
	}
	if r.URL.RawPath == "" {
		return false
	}
	decoded := *r
	decoded.URL = &url.URL{Host: r.URL.Host, Path: r.URL.Path}
	return t.serves(&decoded)
}

func (t *route) serves(r *http.Request) bool {
	_, pattern := t.mux.Handler(r)
	return pattern == t.pattern || pattern != rest && pattern != ""
}

// A routeSet says which of a limiter's routes a request is on.
type routeSet []bool

func (s routeSet) has(route int) bool { return s[route] }

var everyRequest = routeSet{true}

// match returns the routes of r, which must not be changed.
func (l *Limiter) match(r *http.Request) routeSet {
	if l.memory == nil {
		return everyRequest
	}
	return l.memory.recall(r, l.find)
}

// find asks each route.
func (l *Limiter) find(r *http.Request) routeSet {
	set := make(routeSet, len(l.routes))
	for i, t := range l.routes {
		set[i] = t.matches(r)
	}
	return set
}
