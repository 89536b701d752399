package httplimit_test

import (
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
)

// A foldingRouter serves all spellings of a route. It reads paths like fiber, and like
// chi and echo behind middleware that cleans paths and strips slashes.
type foldingRouter struct{ escaped bool }

func (f foldingRouter) serves(r *http.Request, route string) bool {
	p := r.URL.Path
	if f.escaped {
		p = r.URL.EscapedPath()
	}
	return strings.EqualFold(path.Clean("/"+p), route)
}

func TestWithPathFolding_LeavesNoSpellingThatGetsPast(t *testing.T) {
	const route = "/users/login"
	spellings := map[string]bool{}
	for _, p := range []string{route, "/USERS/LOGIN", "/Users/Login", "/uſerſ/login", "/%75sers/login", "/U%53ers/%6Cog%49n", "/us%65rs/LOGIN"} {
		for _, prefix := range []string{"", "/", "//", "/x/..", "/./", "/x/%2e%2e", "/%2E"} {
			for _, suffix := range []string{"", "/", "//", "/.", "/./", "/x/..", "/x/../", "%2F", "%2f%2F/", "/%2e/"} {
				spellings[prefix+p+suffix] = true
			}
		}
	}
	for _, pattern := range []string{route, route + "/", route + "/{$}", "/Users/LOGIN", "/{any}/login", "/users/", "POST " + route, "h/users/{x...}", "h/users/login/", "/%55sers/login"} {
		folding, plain := newSite(t, everyone(pattern), httplimit.WithPathFolding()), newSite(t, everyone(pattern))
		served := 0
		for spelling := range spellings {
			for _, method := range []string{"POST", "CONNECT"} {
				if method == "CONNECT" && strings.HasPrefix(pattern, "POST") {
					continue
				}
				r := requestTo(method, "h", spelling)
				if (foldingRouter{}).serves(r, route) || (foldingRouter{escaped: true}).serves(r, route) {
					served++
					require.True(t, limited(folding, r), "%s: %s %s", pattern, method, spelling)
				}
				if limited(plain, r) {
					require.True(t, limited(folding, r), "%s: %s %s: it takes no policy off", pattern, method, spelling)
				}
			}
		}
		require.Greater(t, served, 100)
		for _, other := range []string{"/", "/user", "/users-login", "/other/users/login/x"} {
			require.False(t, limited(folding, requestTo("POST", "h", other)), "%s: %s", pattern, other)
		}
	}
}

func TestWithPathFolding_MeansWhatItSays(t *testing.T) {
	for _, c := range []struct {
		pattern, yes, no string
	}{
		{"/", "/ /x /X/", ""},
		{"/{$}", "/ // /. /x/..", "/x"},
		{"/API/{id}/Posts", "/api/1/posts /Api/A/POSTS/ /api/a%2FB/posts /api/%2e%2e/posts", "/api/posts /api/1/2/posts"},
		{"/api/{rest...}", "/API /api/ /API/x/Y/", "/apis"},
		{"/a%2Fb", "/a%2Fb /A%2fB/", "/a/b"},
		{"/%2e%2e/x", "/%2e%2e/X", "/x"},
		{"/É/%zz", "/é/%25ZZ/ /%c3%a9/%25zz /%C3%89/%25zz", "/e/%25zz"},

		// Fiber ends a path at a "#", and takes the text after a leading "//" for the host.
		{"/login", "/login#x /LOGIN/#/y //other/login //other/login/ //o/%6Cogin#x", "/x#/login // //o //other/x/login /login%23x"},
		{"/login/{id}", "//o/login/1%2F2 /login/1#", "//o/p/login/1"},
		{"/{$}", "/# // //o //o#/x", "/x# //o/x"},
		{"h/login", "//o/login //H.:80/login //u@h/login", ""},
		{"other/login", "//other/login //OTHER.:80/login //u@other/login", "/login //o/login"},
	} {
		s := newSite(t, everyone(c.pattern), httplimit.WithPathFolding())
		request := func(target string) *http.Request { return requestTo("GET", "h", target) }
		requireMatches(t, s, c.pattern, request, strings.Fields(c.yes), strings.Fields(c.no))
	}
	s := newSite(t, everyone("h/api/{id}/"), httplimit.WithPathFolding())
	require.True(t, limited(s, requestTo("CONNECT", "h", "/API/a%2Fb")))
}

func TestWithPathFolding_RefusesAPatternThatNoFoldedPathIs(t *testing.T) {
	_, err := httplimit.New(everyone("CONNECT h//x/./y/"), httplimit.WithPathFolding())
	require.EqualError(t, err, `httplimit: policy "p": Pattern: "CONNECT h//x/./y/": WithPathFolding cleans paths: write "CONNECT h/x/y/": invalid option`)
}

// Without the option, a policy is for the requests that a ServeMux would serve. A mux
// answers 404 to these spellings.
func TestPattern_DoesNotFoldPathsUnlessToldTo(t *testing.T) {
	s := newSite(t, everyone("/login"))
	for _, target := range []string{"/LOGIN", "/login/"} {
		require.False(t, limited(s, requestTo("GET", "h", target)), target)
	}
}
