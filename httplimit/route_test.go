package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// limited reports whether a policy of s is for r.
func limited(s *site, r *http.Request) bool {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return len(w.Header()["Ratelimit"]) > 0
}

// everyone returns a policy for that pattern, under which all clients share a large quota.
func everyone(pattern string) httplimit.Policy {
	return httplimit.Policy{Name: "p", Pattern: pattern, Limits: []sash.Limit{sash.PerHour(1e9)}, Key: httplimit.Everyone()}
}

// requireMatches fails unless the pattern of s matches the requests of yes and not those
// of no. It serves each of them six times, of which the last ones find their route in the
// cache.
func requireMatches(t *testing.T, s *site, pattern string, request func(string) *http.Request, yes, no []string) {
	t.Helper()
	check := func(want bool, texts []string) {
		for _, text := range texts {
			for range 2 { // in a row, so that the cache takes the route
				require.Equal(t, want, limited(s, request(text)), "%s: %s", pattern, text)
			}
		}
	}
	for range 3 {
		check(true, yes)
		check(false, no)
	}
}

func TestPattern_MeansWhatItMeansToAMux(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no string // requests
	}{
		{"", "GET /|POST /x/y|OPTIONS *", ""},
		{"/", "GET /|POST /x/y|GET //|OPTIONS *", ""},
		{"/{any...}", "GET /|POST /x/y", ""},
		{"GET /{any...}", "GET /|HEAD /x", "POST /"},
		{"/{$}", "GET /|GET //", "GET /x"},
		{"POST /login", "POST /login|POST //login|POST /x/../login|POST /%6cogin|POST /%6Cogin|POST /%2Flogin", "GET /login|POST /login/|POST /login/x|POST /Login"},
		{"GET /a", "GET /a|HEAD /a", "POST /a"},
		{"/api/", "GET /api/|GET /api/x/y|PUT /api|GET /api//x|GET /api%2Fx", "GET /apis|GET /x/api/"},
		{"/api/", "GET /api/..|GET /api//..|GET /api/x/../..|GET /api%2F..|GET /%61pi/%2e%2e|CONNECT /api/..|GET /x/../api|CONNECT /x/../api/|CONNECT /x/%2e%2e/%61pi", "GET /x/..|GET /../x/api/|GET /api../x|CONNECT /x/.."},
		{"/api/{id}/x", "CONNECT /y/../api/a%2Fb/x|GET /api//x|GET /api/./x|GET /api/../x|GET /api/%2f/x", "GET //api/x|GET /api//y|GET /x/..//"},
		{"/\x00", "GET /%00|GET //%00", "GET //|GET /%2F"},
		{"/-", "GET /-|GET //-", "GET //|GET /%2F"},
		{"/%2e%2e/x", "GET /../x|GET /%2e%2e/x|CONNECT /../x", "GET /x"},
		{"/{$}", "GET //|GET /..|GET /x/../..//", "GET //x"},
		{"GET /a", "GET /a/../a|HEAD /b/../a", "POST /b/../a|GET /a/../b"},
		{"/api/{id}", "GET /api/1|GET /api/a%2Fb", "GET /api/|GET /api/1/2"},
		{"/api/{id}/x", "GET /api/1/x|GET /api/a%2Fb/x", "GET /api/1/y"},
		{"example.com/a", "GET http://example.com/a|GET http://example.com:80/a", "GET http://example.org/a"},
	} {
		request := func(text string) *http.Request { return newRequest(text) }
		requireMatches(t, newSite(t, everyone(c.pattern)), c.pattern, request, split(c.yes), split(c.no))
	}
}

func split(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == '|' })
}

func TestPattern_CONNECT(t *testing.T) {
	s := newSite(t, everyone("/tree/"))
	for path, want := range map[string]bool{"/tree/x": true, "/tree": true, "/other": false, "": false} {
		r := newRequest("CONNECT example.com:443")
		r.URL = &url.URL{Path: path, Host: "example.com:443"}
		require.Equal(t, want, limited(s, r), path)
	}
}

// However often and in whatever order requests come, the cache gives them the routes that
// a new limiter finds.
func TestRouteCache_ChangesNothing(t *testing.T) {
	patterns := []string{"GET /a/{id}", "/a/", "POST /", "h/a/", "/{one}", ""}
	fresh := func() *site {
		var options []httplimit.Option
		for i, pattern := range patterns {
			p := everyone(pattern)
			p.Name = strconv.Itoa(i)
			options = append(options, p)
		}
		return newSite(t, options...)
	}
	stated := func(s *site, r *http.Request) string {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Header().Get("Ratelimit-Policy")
	}
	var requests []func() *http.Request
	want := map[int]string{}
	for _, method := range []string{"GET", "POST", "PUT"} {
		for _, host := range []string{"h", "i"} {
			for _, path := range []string{"/", "/a", "/a/", "/a/1", "/a/2", "/b%2Fa", "/a%2F1", "/" + strings.Repeat("x", 300)} {
				make := func() *http.Request {
					r := newRequest(method + " " + path)
					r.Host = host
					return r
				}
				want[len(requests)] = stated(fresh(), make())
				requests = append(requests, make)
			}
		}
	}
	s := fresh()
	for times := range 4 {
		for i, r := range requests {
			for range times {
				require.Equal(t, want[i], stated(s, r()), "%s %s", r().Method, r().URL)
			}
		}
	}
}
