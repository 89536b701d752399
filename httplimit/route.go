package httplimit

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
)

// A route is the requests of one pattern. Each has a mux of its own, since one mux
// tells only the most specific of the patterns that a request matches, and refuses
// patterns of which none is.
type route struct {
	pattern string         // as the policy has it
	mux     *http.ServeMux // nil: every request
	hosted  bool           // whether the pattern has a host
}

const rest = "/" // what a route's mux says of requests that are not the route's

// newRoute returns the route of a pattern. Its mux is given the pattern with the one
// spelling of the host and, if paths are folded, of the path.
func newRoute(pattern string, folded bool) (*route, error) {
	if pattern == "" {
		return &route{}, nil
	}
	if err := handle(http.NewServeMux(), pattern); err != nil {
		return nil, err // about the pattern as it was given
	}
	method, host, path := splitPattern(pattern)
	name := nameOf(host)
	switch bare, _, found := cutPort(host); {
	case host != "" && name == "":
		return nil, fmt.Errorf("%.200q: the host has no name", pattern)
	case found:
		return nil, fmt.Errorf("%.200q: the host must have no port, since ports are ignored: write %.200q", pattern, method+bare+path)
	}
	if clean := cleanPattern(path); folded && path != clean {
		return nil, fmt.Errorf("%.200q: WithPathFolding cleans paths: write %.200q", pattern, method+host+clean)
	}
	if folded {
		path = foldPattern(path)
	}
	mux := http.NewServeMux()
	if err := handle(mux, method+name+path); err != nil {
		return nil, err
	}
	if pattern != rest {
		// Without it, the mux looks which methods it would have served, each time.
		// It fails for a pattern like "/{any...}", beside which there is no rest.
		_ = handle(mux, rest)
	}
	return &route{pattern, mux, host != ""}, nil
}

// splitPattern splits a pattern that a mux accepts. The method keeps the white space
// behind it.
func splitPattern(pattern string) (method, host, path string) {
	begin := 0
	if space := strings.IndexAny(pattern, " \t"); space >= 0 {
		begin = len(pattern) - len(strings.TrimLeft(pattern[space:], " \t"))
	}
	slash := begin + strings.IndexByte(pattern[begin:], '/')
	return pattern[:begin], pattern[begin:slash], pattern[slash:]
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

// matches reports whether a request with those readings is the route's.
func (t *route) matches(readings []*http.Request) bool {
	for _, r := range readings {
		if t.mux == nil || t.serves(r) {
			return true
		}
	}
	return false
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
	var some [4]*http.Request
	readings := l.readings(some[:0], r)
	for i, t := range l.routes {
		set[i] = t.matches(readings)
	}
	return set
}

// readings appends all ways to read the host and path of r. A request is on a route
// if one of them is, so that no spelling gets past a policy to a handler that reads
// it in another way.
//
// Hosts are compared by name. A path may hold escapes that a mux keeps apart and
// other handlers do not, such as %2F: it is read with them and without them. A folded
// path is read with a trailing slash and without one.
func (l *Limiter) readings(all []*http.Request, r *http.Request) []*http.Request {
	if l.byHost || !strings.HasPrefix(r.URL.Path, "/") {
		r = canonical(r)
	}
	if !l.foldPaths {
		if all = append(all, r); r.URL.RawPath != "" {
			all = append(all, withPath(r, r.URL.Path, ""))
		}
		return all
	}
	all = appendFolded(all, r, path.Clean("/"+fold(r.URL.Path)), "")
	if r.URL.RawPath != "" {
		escaped := foldEscaped(path.Clean("/" + r.URL.EscapedPath()))
		all = appendFolded(all, r, unescape(escaped), escaped)
	}
	return all
}

// canonical returns r with the one spelling of its hosts, and with a path that begins
// with a slash. A mux reads the host and the path of a CONNECT as they are.
func canonical(r *http.Request) *http.Request {
	host, urlHost := nameOf(r.Host), nameOf(r.URL.Host)
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

// withPath returns what a mux looks at in r, with another path.
func withPath(r *http.Request, path, rawPath string) *http.Request {
	return &http.Request{Method: r.Method, Host: r.Host, URL: &url.URL{Host: r.URL.Host, Path: path, RawPath: rawPath}}
}
