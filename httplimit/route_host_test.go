package httplimit_test

import (
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// requestTo returns a request as a server receives it: a CONNECT with an authority
// has no path, and every other request has one.
func requestTo(method, host, target string) *http.Request {
	r := newRequest("GET /")
	r.Method, r.Host, r.URL = method, host, &url.URL{Host: target}
	if strings.HasPrefix(target, "/") {
		r.URL, _ = url.ParseRequestURI(target)
	}
	return r
}

func everyone(pattern string) httplimit.Policy {
	return httplimit.Policy{Name: "p", Pattern: pattern, Limits: []sash.Limit{sash.PerHour(1e9)}, Key: httplimit.Everyone()}
}

func TestPattern_ComparesHostsAsHostNames(t *testing.T) {
	for _, c := range []struct {
		pattern, hosts, others string
	}{
		{
			"example.com/login",
			"example.com EXAMPLE.com example.com. Example.COM. example.com:80 EXAMPLE.COM.:8080 example.com: [example.com]:80",
			"example.org example.com.. .example.com example.com.evil www.example.com [example.com example.com:80:80 .",
		},
		{"EXAMPLE.Com./login", "example.com EXAMPLE.com example.com. example.com:80", "example.org"},
		{"192.0.2.1/login", "192.0.2.1 192.0.2.1:8080 192.0.2.1.", "192.0.2.2"},
		{
			"[2001:db8::a]/login",
			"[2001:db8::a] [2001:DB8::A] [2001:db8::a]:443 [2001:db8:0:0::000a]:443 2001:db8::a",
			"[2001:db8::b] [2001:db8::a]x [2001:db8::a%eth0]",
		},
		{"[FE80:0::1%eth0]/login", "[fe80::1%eth0] [FE80::1%eth0]:80", "[fe80::1] [fe80::1%eth1]"},
		{"2001:db8::a/login", "[2001:db8::a] [2001:db8::a]:80", "[2001:db8::b]"},
	} {
		s := newSite(t, everyone(c.pattern))
		for range 3 { // the third time from memory
			for _, method := range []string{"GET", "POST", "CONNECT"} {
				for _, host := range strings.Fields(c.hosts) {
					require.True(t, limited(s, requestTo(method, host, "/login")), "%s: %s %s", c.pattern, method, host)
				}
				for _, host := range strings.Fields(c.others) {
					require.False(t, limited(s, requestTo(method, host, "/login")), "%s: %s %s", c.pattern, method, host)
				}
			}
		}
	}
}

// A mux sends a CONNECT with a URL to the tree of that URL's host.
func TestPattern_CONNECTToATreeIsOnThePoliciesOfItsHost(t *testing.T) {
	s := newSite(t, everyone("example.com/tree/"))
	for _, host := range []string{"example.com", "EXAMPLE.com:443", "example.com."} {
		r := requestTo("CONNECT", host, "/tree")
		r.URL.Host = host
		require.True(t, limited(s, r), host)
	}
}

// A CONNECT has a host and a port and no path. It is on the policies of its host.
func TestPattern_CONNECTWithAPortIsOnThePoliciesOfItsHost(t *testing.T) {
	for _, pattern := range []string{"example.com/", "CONNECT example.com/", "CONNECT EXAMPLE.com./{any...}", "CONNECT /", "/"} {
		s := newSite(t, everyone(pattern))
		for _, target := range []string{"example.com:443", "EXAMPLE.com:443", "example.com.:8443", "example.com"} {
			require.True(t, limited(s, requestTo("CONNECT", target, target)), "%s: %s", pattern, target)
		}
		require.Equal(t, !strings.Contains(strings.ToLower(pattern), "example"), limited(s, requestTo("CONNECT", "example.org:443", "example.org:443")), pattern)
	}
}

func TestPattern_RefusesAHostThatNoRequestHas(t *testing.T) {
	for pattern, want := range map[string]string{
		"example.com:8080/":     `Pattern: "example.com:8080/": the host must have no port, since ports are ignored: write "example.com/"`,
		"GET [::1]:80/x":        `Pattern: "GET [::1]:80/x": the host must have no port, since ports are ignored: write "GET [::1]/x"`,
		":80/":                  `Pattern: ":80/": the host has no name`,
		"./":                    `Pattern: "./": the host has no name`,
		"CONNECT example.com:/": `Pattern: "CONNECT example.com:/": the host must have no port, since ports are ignored: write "CONNECT example.com/"`,
	} {
		_, err := httplimit.New(everyone(pattern))
		require.EqualError(t, err, `httplimit: policy "p": `+want+`: invalid option`)
		require.ErrorIs(t, err, sash.ErrInvalidOption)
	}
}

// Clients are not charged twice, nor given two quotas, for spellings of one host.
func TestPattern_SpellingsOfAHostShareOneQuota(t *testing.T) {
	p := everyone("example.com/login")
	p.Limits = []sash.Limit{sash.PerHour(3).Log()}
	s := newSite(t, p)
	var codes []int
	for _, host := range []string{"example.com", "EXAMPLE.com", "example.com.", "example.com:443", "Example.com.:80"} {
		codes = append(codes, s.do("POST http://"+host+"/login").Code)
	}
	require.Equal(t, []int{200, 200, 200, 429, 429}, codes)
}

// A foldingRouter reads paths as fiber does, and as chi and echo do with what cleans
// paths and strips slashes before them: it serves all spellings of /login.
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
	} {
		s := newSite(t, everyone(c.pattern), httplimit.WithPathFolding())
		for range 3 { // the third time from memory
			for _, target := range strings.Fields(c.yes) {
				require.True(t, limited(s, requestTo("GET", "h", target)), "%s: %s", c.pattern, target)
			}
			for _, target := range strings.Fields(c.no) {
				require.False(t, limited(s, requestTo("GET", "h", target)), "%s: %s", c.pattern, target)
			}
		}
	}
	s := newSite(t, everyone("h/api/{id}/"), httplimit.WithPathFolding())
	require.True(t, limited(s, requestTo("CONNECT", "h", "/API/a%2Fb")))
}

func TestWithPathFolding_RefusesAPatternThatNoFoldedPathIs(t *testing.T) {
	_, err := httplimit.New(everyone("CONNECT h//x/./y/"), httplimit.WithPathFolding())
	require.EqualError(t, err, `httplimit: policy "p": Pattern: "CONNECT h//x/./y/": WithPathFolding cleans paths: write "CONNECT h/x/y/": invalid option`)
}

// Without the option, a policy is for what a ServeMux would serve: spellings that a
// mux answers 404 are not its requests.
func TestPattern_DoesNotFoldPathsUnlessToldTo(t *testing.T) {
	s := newSite(t, everyone("/login"))
	for _, target := range []string{"/LOGIN", "/login/"} {
		require.False(t, limited(s, requestTo("GET", "h", target)), target)
	}
}

// Only a policy for a host makes a copy of a request whose Host has a port.
func TestPattern_FindingARouteCopiesNoRequestForItsPort(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector makes pools forget")
	}
	h := newSite(t, everyone("/things/"), httplimit.WithoutRateLimit()).Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	allocations := func(host string) float64 {
		r := requestTo("GET", host, "/things/x")
		r.URL.Path = "/things/" + strings.Repeat("x", 300) // too long to be remembered
		return testing.AllocsPerRun(100, func() { h.ServeHTTP(discard{}, r) })
	}
	require.Equal(t, allocations("h"), allocations("h:8080"))
}

type discard struct{}

func (discard) Header() http.Header         { return nil }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
