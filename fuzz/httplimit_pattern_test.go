package fuzz

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// FuzzPattern holds policies to what a mux with nothing but their patterns serves,
// or redirects: of the path as it was sent, or as it reads with all escapes undone.
func FuzzPattern(f *testing.F) {
	for _, s := range [][4]string{
		{"POST /login", "POST", "h", "/login"}, {"/api/", "GET", "h", "/api"}, {"/api/", "CONNECT", "h", "/api"},
		{"GET h/{x}/y", "HEAD", "h:80", "/%2F/y"}, {"/{any...}", "GET", "", "//x/../y"}, {"/{$}", "PUT", "h", "/"},
		{"GET", "GET", "h", "/"}, {"", "GET", "h", "*"}, {"/a%2Fb", "GET", "h", "/a%2Fb"}, {"/", "GET", "h", ""},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, pattern, method, host, path string) {
		l, err := httplimit.New(httplimit.Policy{
			Name: "p", Pattern: pattern, Limits: []sash.Limit{sash.PerHour(100)}, Key: httplimit.Everyone(),
		}, httplimit.WithSweepInterval(-1))
		mux, fault := muxOf(pattern)
		if (err == nil) != (fault == nil) {
			t.Fatalf("%q: %v, but the mux says %v", pattern, err, fault)
		}
		if err != nil {
			return
		}
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := &http.Request{Method: method, Host: host, URL: u, RequestURI: path}
		h := l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for range 3 { // the third time from memory
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if got, want := w.Header()["Ratelimit"] != nil, serves(mux, r); got != want {
				t.Fatalf("%q: %s %q %q: %v, want %v", pattern, method, host, path, got, want)
			}
		}
	})
}

// muxOf returns a mux for one pattern, or what it panics with; nil for every request.
func muxOf(pattern string) (mux *http.ServeMux, fault error) {
	if pattern == "" {
		return nil, nil
	}
	defer func() {
		if p := recover(); p != nil {
			fault = fmt.Errorf("%v", p)
		}
	}()
	mux = http.NewServeMux()
	mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
	return mux, nil
}

func serves(mux *http.ServeMux, r *http.Request) bool {
	if mux == nil {
		return true
	}
	if _, pattern := mux.Handler(r); pattern != "" {
		return true
	}
	plain := r.Clone(r.Context())
	plain.URL.RawPath = ""
	_, pattern := mux.Handler(plain)
	return strings.Contains(r.URL.EscapedPath(), "%") && pattern != ""
}
