package httplimit_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
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
		for _, method := range []string{"GET", "POST", "CONNECT"} {
			request := func(host string) *http.Request { return requestTo(method, host, "/login") }
			requireMatches(t, s, c.pattern, request, strings.Fields(c.hosts), strings.Fields(c.others))
		}
	}
}

// A mux routes a CONNECT with a URL by the host of the URL.
func TestPattern_CONNECTToATreeIsOnThePoliciesOfItsHost(t *testing.T) {
	s := newSite(t, everyone("example.com/tree/"))
	for _, host := range []string{"example.com", "EXAMPLE.com:443", "example.com."} {
		r := requestTo("CONNECT", host, "/tree")
		r.URL.Host = host
		require.True(t, limited(s, r), host)
	}
}

// A CONNECT has a host and a port and no path. The policies of its host apply.
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

// All spellings of a host share one quota, and a client is charged once per request.
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

// A request whose Host has a port is copied only if a policy is for a host.
func TestPattern_FindingARouteCopiesNoRequestForItsPort(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools drop items")
	}
	h := newSite(t, everyone("/things/"), httplimit.WithoutRateLimit()).Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w := &bareWriter{http.Header{}}
	allocations := func(host string) float64 {
		r := requestTo("GET", host, "/things/x")
		r.URL.Path = "/things/" + strings.Repeat("x", 300) // too long to be cached
		return testing.AllocsPerRun(100, func() { h.ServeHTTP(w, r) })
	}
	require.Equal(t, allocations("h"), allocations("h:8080"))
}
