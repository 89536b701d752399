package fuzz

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// FuzzPattern compares policies with an http.ServeMux that has only their pattern. A policy
// must apply to the requests that the mux serves or redirects, by the path as it was sent
// or with its escapes undone, and cleaned or not. Hosts are compared as names.
func FuzzPattern(f *testing.F) {
	for _, s := range [][4]string{
		{"POST /login", "POST", "h", "/login"}, {"/api/", "GET", "h", "/api"}, {"/api/", "CONNECT", "h", "/api"},
		{"GET h/{x}/y", "HEAD", "h:80", "/%2F/y"}, {"/{any...}", "GET", "", "//x/../y"}, {"/{$}", "PUT", "h", "/"},
		{"GET", "GET", "h", "/"}, {"", "GET", "h", "*"}, {"/a%2Fb", "GET", "h", "/a%2Fb"}, {"/", "GET", "h", ""},
		{"/api/", "GET", "h", "/api/x/../.."}, {"PUT /a/{x}/b", "PUT", "h", "/a//b"}, {"h/%2e%2e/{x}", "CONNECT", "h", "/../%2f"}, {"/a/", "CONNECT", "h", "/x/%2e./%61"}, {"//", "GET", "h", "/%2f"}, {"/\x00", "GET", "h", "/%2f"},
		{"H.example./", "GET", "h.EXAMPLE.:80", "/"}, {"[::1]/", "CONNECT", "[0::1]:443", "http://[::1]:1"}, {"h:80/", "GET", "h:80", "/"}, {"./", "GET", ".", "/"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, pattern, method, host, target string) {
		l, err := httplimit.New(policyFor(pattern), httplimit.WithSweepInterval(-1))
		mux, fault := muxOf(pattern)
		if (err == nil) != (fault == nil) {
			t.Fatalf("%q: %v, but the mux says %v", pattern, err, fault)
		}
		if err != nil {
			return
		}
		r := requestFor(method, host, target)
		if r == nil {
			return
		}
		for range 3 { // the third time from the cache
			if got, want := hasLimit(l, r), serves(mux, r) || servesUnclean(pattern, r); got != want {
				t.Fatalf("%q: %s %q %q: %v, want %v", pattern, method, host, target, got, want)
			}
		}
	})
}

// FuzzPathFolding checks that a policy with folded paths applies to every request that it
// applies to without folding, and to every other spelling of the path.
func FuzzPathFolding(f *testing.F) {
	for _, s := range [][3]string{
		{"POST /login", "POST", "/LOGIN/"}, {"h/Api/", "CONNECT", "/api/%2e%2e/x"}, {"h/0", "CONNECT", "*"}, {"/{x}/É", "GET", "/%2F/%c3%a9"}, {"/%2e/x", "GET", "/%2e/x"},
		{"/{x}/", "GET", "//"}, {"/{x}/{y}/{$}", "GET", "/%2F//"},
	} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, pattern, method, target string) {
		plain, err := httplimit.New(policyFor(pattern), httplimit.WithSweepInterval(-1))
		r := requestFor(method, "h", target)
		if err != nil || r == nil {
			return
		}
		folding, err := httplimit.New(policyFor(pattern), httplimit.WithSweepInterval(-1), httplimit.WithPathFolding())
		if unclean := regexp.MustCompile(`/\.?\.?/|/\.\.?$`); err != nil && unclean.MatchString(pattern) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		if !hasLimit(folding, r) {
			if hasLimit(plain, r) {
				t.Fatalf("%q: %s %q: only without folding", pattern, method, target)
			}
			return
		}
		escaped := r.URL.EscapedPath()
		if !strings.HasPrefix(escaped, "/") || strings.HasPrefix(escaped, "//") || strings.Contains(r.URL.RawPath, "#") {
			return // other spellings of these cannot be read in all the same ways
		}
		if clean := r.Clone(r.Context()); hasUnclean(r) {
			clean.URL = parseTarget(path.Clean(r.URL.EscapedPath()))
			if !hasLimit(folding, clean) {
				return // it applies to this path as it is, but not to all paths that are cleaned alike
			}
		}
		for _, other := range []string{swapCase(escaped), escaped + "/", strings.TrimSuffix(escaped, "/"), "/" + escaped, "/x/.." + escaped, escaped + "/."} {
			changed := r.Clone(r.Context())
			changed.URL.RawPath = other
			if changed.URL.Path, err = url.PathUnescape(other); err != nil {
				t.Fatal(err)
			}
			if !hasLimit(folding, changed) {
				t.Fatalf("%q: %s %q, but not %q", pattern, method, target, other)
			}
		}
	})
}

// swapCase swaps the case of all letters of an escaped path, except in its escapes.
func swapCase(escaped string) string {
	swapped, after := []byte(escaped), 0
	for i, c := range swapped {
		if after--; c == '%' {
			after = 3
		}
		if letter := c | 0x20; after <= 0 && 'a' <= letter && letter <= 'z' {
			swapped[i] = c ^ 0x20
		}
	}
	return string(swapped)
}

func policyFor(pattern string) httplimit.Policy {
	return httplimit.Policy{Name: "p", Pattern: pattern, Limits: []sash.Limit{sash.PerHour(1e9)}, Key: httplimit.Everyone()}
}

// requestFor returns a request with this target, or nil if no request can have it.
func requestFor(method, host, target string) *http.Request {
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	return &http.Request{Method: method, Host: host, URL: u, RequestURI: target}
}

// hasLimit reports whether the policy of l applies to r.
func hasLimit(l *httplimit.Limiter, r *http.Request) bool {
	w := httptest.NewRecorder()
	l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
	return w.Header()["Ratelimit"] != nil
}

// muxOf returns a mux with one pattern, or an error if the pattern is invalid. For the empty
// pattern, which is for every request, the mux is nil.
func muxOf(pattern string) (mux *http.ServeMux, fault error) {
	if pattern == "" {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Errorf("%v", p)
		}
	}()
	nothing := func(http.ResponseWriter, *http.Request) {}
	http.NewServeMux().HandleFunc(pattern, nothing)
	if _, host, rest := parts(pattern); host != "" {
		name, port := hostAndPort(host)
		if name == "" || port {
			return nil, fmt.Errorf("no name or a port: %q", host)
		}
		pattern = strings.TrimSuffix(pattern, host+rest) + name + rest
	}
	mux = http.NewServeMux()
	mux.HandleFunc(pattern, nothing)
	return mux, nil
}

// parts splits a pattern of a mux.
func parts(pattern string) (method, host, rest string) {
	found := regexp.MustCompile(`(?s)^([^ \t]*[ \t]+)?([^/]*)(/.*)$`).FindStringSubmatch(pattern)
	return found[1], found[2], found[3]
}

// hostAndPort returns the name of a host, and whether it has a port.
func hostAndPort(host string) (name string, port bool) {
	bracketed := regexp.MustCompile(`(?s)^\[(.*)\](:[^:\]]*)?$`)
	plain := regexp.MustCompile(`(?s)^([^:\[]|[^:\[][^:]*)?(:[^:]*)$`)
	name = host
	if found := bracketed.FindStringSubmatch(host); found != nil && !strings.Contains(found[2], "]") {
		name, port = found[1], found[2] != ""
	} else if found := plain.FindStringSubmatch(host); found != nil {
		name, port = found[1], true
	}
	if !strings.Contains(name, ":") {
		return strings.ToLower(strings.TrimSuffix(name, ".")), port
	}
	text, zone, zoned := strings.Cut(name, "%")
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return strings.ToLower(name), port
	case zoned:
		return addr.String() + "%" + zone, port
	}
	return addr.String(), port
}

// serves reports whether the mux of muxOf serves or redirects r.
func serves(mux *http.ServeMux, r *http.Request) bool {
	if mux == nil {
		return true
	}
	asked := r.Clone(r.Context())
	asked.Host, _ = hostAndPort(r.Host)
	asked.URL.Host, _ = hostAndPort(r.URL.Host)
	if !strings.HasPrefix(asked.URL.Path, "/") {
		asked.URL.Path = "/" + asked.URL.Path
	}
	if _, pattern := mux.Handler(asked); pattern != "" {
		return true
	}
	asked.URL.RawPath = ""
	_, pattern := mux.Handler(asked)
	return strings.Contains(r.URL.EscapedPath(), "%") && pattern != ""
}

// hasUnclean reports whether the path of r is not clean, without its escapes.
func hasUnclean(r *http.Request) bool { return cleanPath(r.URL.Path) != r.URL.Path }

// servesUnclean reports whether a mux for a pattern would serve or redirect r if it read a
// path as it is, or cleaned, whatever the method of r. A mux does not clean the path of a
// CONNECT.
func servesUnclean(pattern string, r *http.Request) bool {
	if pattern == "" || !hasUnclean(r) {
		return false
	}
	method, host, patternPath := parts(pattern)
	method = strings.TrimSpace(method)
	if method != "" && method != r.Method && (method != "GET" || r.Method != "HEAD") {
		return false
	}
	mux, fault := muxOf("CONNECT " + host + patternPath)
	if fault != nil {
		panic(fault)
	}
	slash := regexp.MustCompile("(?i)/%2f(/|$)") // no wildcard of a mux matches it
	readable := func(escaped string) *url.URL {
		for slash.MatchString(escaped) {
			escaped = slash.ReplaceAllString(escaped, "/-a-slash-$1")
		}
		return parseTarget(escaped)
	}
	name, _ := hostAndPort(r.Host)
	for _, reading := range []*url.URL{
		{Path: r.URL.Path}, {Path: cleanPath(r.URL.Path)}, readable(r.URL.EscapedPath()), readable(cleanPath(r.URL.EscapedPath())),
	} {
		reading.Host = name
		if _, served := mux.Handler(&http.Request{Method: "CONNECT", Host: name, URL: reading}); served != "" {
			return true
		}
	}
	return false
}

// parseTarget returns the URL of a path with escapes.
func parseTarget(escaped string) *url.URL {
	plain, err := url.PathUnescape(escaped)
	if err != nil {
		panic(err)
	}
	return &url.URL{Path: plain, RawPath: escaped}
}

// cleanPath cleans a path as a mux does.
func cleanPath(p string) string {
	clean := path.Clean(p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}
