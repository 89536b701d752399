package httplimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// remaining returns the r that RateLimit has for a quota.
func remaining(t *testing.T, h http.Header, name string) int64 {
	require.Len(t, h["Ratelimit"], 1)
	rest, found := strings.CutPrefix(h["Ratelimit"][0], `"`+name+`";r=`)
	require.True(t, found, h)
	number, _, _ := strings.Cut(rest, ";")
	r, err := strconv.ParseInt(number, 10, 64)
	require.NoError(t, err)
	return r
}

func TestHeaders_AreExact(t *testing.T) {
	bytesPolicy := per("bytes", "PUT /", sash.Per(1000, 1500*time.Millisecond).Log())
	bytesPolicy.Unit = "content-bytes"
	bytesPolicy.Cost = func(r *http.Request) int64 { n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64); return n }
	s := newSite(t, httplimit.WithXRateLimit(),
		per(`say "hi" \o/`, "GET /a", sash.Per(2, time.Minute).Log()),
		per("fast", "GET /b", sash.Per(3, 999*time.Millisecond).Log()),
		per("huge", "GET /c", sash.Per(1<<62, time.Hour).Counter()),
		per("two", "GET /d", sash.PerMinute(2).Log(), sash.PerMinute(3).Log(), sash.Per(4, 1500*time.Millisecond).Log(), sash.PerHour(9).Counter()),
		per("d", "/d", sash.PerDay(100).Log()),
		bytesPolicy,
		per("first", "/e", sash.PerMinute(2).Log()), per("second", "/e", sash.PerSecond(1).Log()))
	for _, c := range []struct {
		at      time.Duration
		request string
		headers string // those whose names begin with RateLimit or Retry
	}{
		{0, "GET /a", `Ratelimit: "say \"hi\" \\o/";r=1;t=60
Ratelimit-Policy: "say \"hi\" \\o/";q=2;w=60
X-Ratelimit-Limit: 2
X-Ratelimit-Remaining: 1
X-Ratelimit-Reset: 60`},
		{time.Millisecond, "GET /a", `Ratelimit: "say \"hi\" \\o/";r=0;t=60
Ratelimit-Policy: "say \"hi\" \\o/";q=2;w=60
X-Ratelimit-Limit: 2
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 60`},
		{2 * time.Second, "GET /a", `Ratelimit: "say \"hi\" \\o/";r=0;t=58
Ratelimit-Policy: "say \"hi\" \\o/";q=2;w=60
Retry-After: 58
X-Ratelimit-Limit: 2
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 59`},
		{59*time.Second + 999999999, "GET /a", `Ratelimit: "say \"hi\" \\o/";r=0;t=1
Ratelimit-Policy: "say \"hi\" \\o/";q=2;w=60
Retry-After: 1
X-Ratelimit-Limit: 2
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 1`},
		{0, "GET /b", `Ratelimit: "fast";r=2;t=1
Ratelimit-Policy: "fast";q=3
X-Ratelimit-Limit: 3
X-Ratelimit-Remaining: 2
X-Ratelimit-Reset: 1`},
		{0, "GET /c", `Ratelimit: "huge";r=999999999999999;t=7200
Ratelimit-Policy: "huge";q=999999999999999;w=3600
X-Ratelimit-Limit: 4611686018427387904
X-Ratelimit-Remaining: 4611686018427387903
X-Ratelimit-Reset: 7200`},
		{0, "GET /d", `Ratelimit: "two-1m";r=1;t=60, "d";r=99;t=86400
Ratelimit-Policy: "two-1m";q=2;w=60, "two-1m-2";q=3;w=60, "two-1.5s";q=4;w=2, "two-1h";q=9;w=3600, "d";q=100;w=86400
X-Ratelimit-Limit: 2
X-Ratelimit-Remaining: 1
X-Ratelimit-Reset: 7200`},
		{0, "PUT / 400", `Ratelimit: "bytes";r=600;t=2
Ratelimit-Policy: "bytes";q=1000;qu="content-bytes";w=2
X-Ratelimit-Limit: 1000
X-Ratelimit-Remaining: 600
X-Ratelimit-Reset: 2`},
		{time.Second, "PUT / 300", `Ratelimit: "bytes";r=300;t=1
Ratelimit-Policy: "bytes";q=1000;qu="content-bytes";w=2
X-Ratelimit-Limit: 1000
X-Ratelimit-Remaining: 300
X-Ratelimit-Reset: 2`},
		// t is until there is more; Retry-After is until there is enough.
		{time.Second, "PUT / 1000", `Ratelimit: "bytes";r=300;t=1
Ratelimit-Policy: "bytes";q=1000;qu="content-bytes";w=2
Retry-After: 2
X-Ratelimit-Limit: 1000
X-Ratelimit-Remaining: 300
X-Ratelimit-Reset: 2`},
		// A cost above the limit is never admitted, so there is no Retry-After.
		{9 * time.Second, "PUT / 1001", `Ratelimit: "bytes";r=1000
Ratelimit-Policy: "bytes";q=1000;qu="content-bytes";w=2
X-Ratelimit-Limit: 1000
X-Ratelimit-Remaining: 1000
X-Ratelimit-Reset: 0`},
		{10 * time.Second, "PUT / 0", `Ratelimit: "bytes";r=1000
Ratelimit-Policy: "bytes";q=1000;qu="content-bytes";w=2
X-Ratelimit-Limit: 1000
X-Ratelimit-Remaining: 1000
X-Ratelimit-Reset: 0`},
		// A policy that would have admitted the request reports what is left, uncharged.
		{11 * time.Second, "GET /e", `Ratelimit: "first";r=1;t=60, "second";r=0;t=1
Ratelimit-Policy: "first";q=2;w=60, "second";q=1;w=1
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 1`},
		{11 * time.Second, "GET /e", `Ratelimit: "first";r=1;t=60, "second";r=0;t=1
Ratelimit-Policy: "first";q=2;w=60, "second";q=1;w=1
Retry-After: 1
X-Ratelimit-Limit: 1
X-Ratelimit-Remaining: 0
X-Ratelimit-Reset: 1`},
	} {
		s.clock.Set(int64(c.at))
		request := strings.Fields(c.request)
		w := s.do(request[0]+" "+request[1], "X-Key", "k", "Cost", append(request, "")[2])
		require.Equal(t, c.headers, rateHeaders(w.Header()), "%v %s", c.at, c.request)
	}
}

// Clients are told of no quota that does not exist, and of one of 0 as of any other.
func TestHeaders_OfUnlimitedAndOfNothing(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(),
		per("free", "/free", sash.Unlimited()),
		per("some", "/some", sash.Unlimited(), sash.PerMinute(3).Log(), sash.Unlimited()),
		per("two", "/two", sash.PerMinute(3).Log(), sash.Unlimited(), sash.PerHour(4).Log()),
		per("never", "/never", sash.PerMinute(0)),
		per("all", "/some/all", sash.PerMinute(9).Log()), per("free too", "/some/all", sash.Unlimited()))
	some := "Ratelimit-Policy: \"some\";q=3;w=60\nX-Ratelimit-Limit: 3\nX-Ratelimit-Remaining: 2\nX-Ratelimit-Reset: 60"
	for _, c := range []struct {
		request string
		status  int
		headers string
	}{
		{"GET /free", 200, ""},
		{"GET /some", 200, "Ratelimit: \"some\";r=2;t=60\n" + some},
		{"GET /two", 200, "Ratelimit: \"two-1m\";r=2;t=60\nRatelimit-Policy: \"two-1m\";q=3;w=60, \"two-1h\";q=4;w=3600\n" +
			"X-Ratelimit-Limit: 3\nX-Ratelimit-Remaining: 2\nX-Ratelimit-Reset: 3600"},
		{"GET /never", 429, "Ratelimit: \"never\";r=0\nRatelimit-Policy: \"never\";q=0;w=60\n" +
			"X-Ratelimit-Limit: 0\nX-Ratelimit-Remaining: 0\nX-Ratelimit-Reset: 0"},
		{"GET /some/all", 200, "Ratelimit: \"all\";r=8;t=60\nRatelimit-Policy: \"all\";q=9;w=60\n" +
			"X-Ratelimit-Limit: 9\nX-Ratelimit-Remaining: 8\nX-Ratelimit-Reset: 60"},
	} {
		w := s.do(c.request, "X-Key", "k")
		require.Equal(t, c.status, w.Code, c.request)
		require.Equal(t, c.headers, rateHeaders(w.Header()), c.request)
	}

	// A key of its own limits is exempt; a policy before and after it is not.
	s = newSite(t, httplimit.WithXRateLimit(), httplimit.WithPartitionKey(),
		per("first", "", sash.PerMinute(1).Log()), per("second", "", sash.PerMinute(5).Log()))
	exempt := func(policy string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Key", "k")
		key, ok := s.KeyFor(policy, r)
		require.True(t, ok)
		require.NoError(t, s.Sash().SetLimits(key, sash.Unlimited()))
	}
	exempt("first")
	for left := 4; left >= 0; left-- {
		w := s.do("GET /", "X-Key", "k")
		require.Equal(t, 200, w.Code)
		require.Regexp(t, fmt.Sprintf(`^"second";r=%d;t=60;pk=:[^ ,]+:$`, left), w.Header().Get("RateLimit"))
		require.Regexp(t, `^"second";q=5;w=60;pk=:[^ ,]+:$`, w.Header().Get("RateLimit-Policy"))
		require.Equal(t, fmt.Sprint(left), w.Header().Get("X-RateLimit-Remaining"))
	}
	require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code)
	exempt("second")
	for range 9 {
		w := s.do("GET /", "X-Key", "k")
		require.Equal(t, 200, w.Code)
		require.Empty(t, rateHeaders(w.Header()))
	}
}

// rateHeaders returns the headers about quotas, one a line.
func rateHeaders(h http.Header) string {
	var lines []string
	for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Retry-After", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		for _, v := range h[name] {
			lines = append(lines, name+": "+v)
		}
	}
	return strings.Join(lines, "\n")
}

func TestHeaders_OfADenial(t *testing.T) {
	s := newSite(t, per(`all "of" \ it`, "", sash.PerMinute(1).Log()), per("two", "/x", sash.PerHour(1).Log(), sash.PerDay(5).Log()))
	server := httptest.NewServer(s)
	defer server.Close()
	for range 2 {
		r, err := http.NewRequest("GET", server.URL+"/x", nil)
		require.NoError(t, err)
		r.Header.Set("X-Key", "k")
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Len(t, response.Header["Ratelimit"], 1)
		if response.StatusCode == 200 {
			require.Empty(t, response.Header["Cache-Control"])
			continue
		}
		response.Header.Del("Date")
		require.Equal(t, http.Header{
			"Cache-Control":    {"no-store"},
			"Content-Length":   {strconv.Itoa(len(body))},
			"Content-Type":     {"application/problem+json"},
			"Ratelimit":        {`"all \"of\" \\ it";r=0;t=60, "two-1h";r=0;t=3600`},
			"Ratelimit-Policy": {`"all \"of\" \\ it";q=1;w=60, "two-1h";q=1;w=3600, "two-24h";q=5;w=86400`},
			"Retry-After":      {"3600"},
		}, response.Header)
		require.JSONEq(t, `{
			"type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"title": "Request cannot be satisfied as assigned quota has been exceeded",
			"status": 429,
			"violated-policies": ["all \"of\" \\ it", "two-1h"]
		}`, string(body))
	}
}

// A nesting is a writer that serves another request while it is given the body.
type nesting struct {
	http.ResponseWriter
	serve func()
}

func (w nesting) Write(b []byte) (int, error) {
	w.serve()
	return w.ResponseWriter.Write(b)
}

// Answers share memory, one after the other. What is done to a header does not show in another.
func TestDenial_IsNotChangedByOthers(t *testing.T) {
	answer := func(name string, meanwhile func()) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		httplimit.Denial{Violated: []string{name}}.ServeHTTP(nesting{w, meanwhile}, nil)
		return w
	}
	var headers []http.Header
	for range 100 {
		w := answer("first", func() { answer("other", func() {}) })
		require.Contains(t, w.Body.String(), `"violated-policies":["first"]`)
		headers = append(headers, w.Header())
	}
	for _, h := range headers {
		for _, values := range h {
			_ = append(values, "added by a handler around it")
		}
	}
	for _, h := range headers {
		require.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}, h)
		h["Cache-Control"][0], h["Content-Type"][0] = "changed by one", "likewise"
	}
}

func TestHeaders_TheOlderOnesAreOfTheQuotaNearestToItsEnd(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(),
		per("minute", "", sash.PerMinute(3).Log()), per("hour", "", sash.PerHour(4).Log()), per("day", "/x", sash.PerDay(2).Log()))
	for _, c := range []struct{ request, limit, remaining, reset string }{
		{"GET /x", "2", "1", "86400"}, // the day has less, though it was given later
		{"GET /", "3", "1", "60"},
		{"GET /x", "3", "0", "60"},    // the day has no more, but was given later
		{"GET /x", "2", "0", "86400"}, // denied by both, and by the day for longer
		{"GET /", "3", "0", "60"},
	} {
		h := s.do(c.request, "X-Key", "k").Header()
		require.Equal(t, []string{c.limit, c.remaining, c.reset},
			[]string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset")}, c.request)
	}
}

// A time is what clients of other APIs know. It is rounded up, as the seconds are.
func TestHeaders_TheOlderResetCanBeATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Unix(1_800_000_000, 1))) // of the bubble
		s := newSite(t, httplimit.WithXRateLimitTime(), per("minute", "", sash.PerMinute(3).Log()))
		for _, want := range []string{"1800000061", "1800000061"} {
			require.Equal(t, want, s.do("GET /", "X-Key", "k").Header().Get("X-RateLimit-Reset"))
		}
		s.clock.Advance(time.Minute - 1)
		require.Equal(t, "1800000061", s.do("GET /", "X-Key", "k").Header().Get("X-RateLimit-Reset"), "a nanosecond later the first is out")
	})
}

func TestHeaders_CanBeLeftOut(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(1).Log()), httplimit.WithoutRateLimit())
	require.Empty(t, s.do("GET /", "X-Key", "k").Header())
	w := s.do("GET /", "X-Key", "k")
	require.Equal(t, 429, w.Code)
	require.Equal(t, http.Header{"Retry-After": {"3600"}, "Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}, w.Header())
}

func TestHeaders_ThePartitionKeyIsAFingerprint(t *testing.T) {
	policies := []httplimit.Option{
		httplimit.WithPartitionKey(),
		per("a", "", sash.PerHour(2), sash.PerDay(2)), per("b", "", sash.PerHour(2)),
	}
	var seen uint64
	s := newSite(t, append(policies, httplimit.WithEventFingerprints(), httplimit.WithObserver(func(e httplimit.Event) { seen = e.Fingerprint }))...)
	first := s.do("GET /", "X-Key", "secret").Header()
	require.Regexp(t, `^"a-1h";q=2;w=3600;pk=:(.{11}=):, "a-24h";q=2;w=86400;pk=:(.{11}=):, "b";q=2;w=3600;pk=:(.{11}=):$`, first.Get("Ratelimit-Policy"))
	require.Regexp(t, `^"a-24h";r=1;t=86400;pk=:(.{11}=):, "b";r=1;t=3600;pk=:(.{11}=):$`, first.Get("Ratelimit"))
	pks := regexp.MustCompile("pk=:[^:]+:").FindAllString(first.Get("Ratelimit-Policy")+first.Get("Ratelimit"), -1)
	require.Len(t, pks, 5)
	require.Len(t, slices.Compact(pks), 1, "one identity has one fingerprint, whatever the policy")
	mine := seen
	require.NotZero(t, mine)
	require.NotContains(t, fmt.Sprint(first), "secret")

	require.Equal(t, first["Ratelimit-Policy"], s.do("GET /", "X-Key", "secret").Header()["Ratelimit-Policy"])
	require.Equal(t, mine, seen)
	require.NotEqual(t, first["Ratelimit-Policy"], s.do("GET /", "X-Key", "other").Header()["Ratelimit-Policy"])
	require.NotEqual(t, mine, seen)
	again := newSite(t, policies...)
	require.NotEqual(t, first["Ratelimit-Policy"], again.do("GET /", "X-Key", "secret").Header()["Ratelimit-Policy"])
}

// Two limiters around each other both add a line to the headers.
func TestHeaders_OfLimitersAroundEachOther(t *testing.T) {
	inner := newSite(t, per("inner", "", sash.PerHour(1).Log()))
	outer := newSite(t, per("outer", "", sash.PerHour(2).Log()))
	outer.answer = inner.ServeHTTP
	w := outer.do("GET /", "X-Key", "k")
	require.Equal(t, []string{`"outer";r=1;t=3600`, `"inner";r=0;t=3600`}, w.Header()["Ratelimit"])
	require.Equal(t, []string{`"outer";q=2;w=3600`, `"inner";q=1;w=3600`}, w.Header()["Ratelimit-Policy"])
}

// A handler that changes its headers does not change another request's.
func TestHeaders_AreEachRequestsOwn(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(100).Counter()), httplimit.WithXRateLimit())
	vandalize := true
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if vandalize {
			h := w.Header()
			for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
				h[name][0] = "spoilt"
				h[name] = append(h[name], "more")
			}
		}
	}
	kept := s.do("GET /", "X-Key", "k").Header()
	vandalize = false
	for i := range 100 {
		h := s.do("GET /", "X-Key", "k").Header()
		require.Equal(t, []string{`"each";q=100;w=3600`}, h["Ratelimit-Policy"])
		require.Equal(t, []string{"100"}, h["X-Ratelimit-Limit"])
		require.Equal(t, []string{"7200"}, h["X-Ratelimit-Reset"])
		if i < 99 {
			require.Equal(t, int64(98-i), remaining(t, h, "each"))
			require.Equal(t, []string{strconv.Itoa(98 - i)}, h["X-Ratelimit-Remaining"])
		}
	}
	require.Equal(t, []string{"spoilt", "more"}, kept["Ratelimit"])
}

// Of several limits, RateLimit names the one with the least left, and the time until it
// has more. The request may have to wait longer for another limit.
func TestHeaders_NameTheQuotaThatHasTheLeastLeft(t *testing.T) {
	p := per("two", "", sash.PerMinute(5).Log(), sash.PerHour(8).Log())
	p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("Cost"))) }
	s := newSite(t, p, httplimit.WithXRateLimit())
	for _, c := range []struct {
		cost, quotas, retryAfter, violated, limit string
	}{
		{"4444", `"two-1m";r=1;t=60`, "", "", "5"},
		{"22", `"two-1m";r=1;t=60`, "60", `["two-1m"]`, "5"},
		{"55555", `"two-1m";r=1;t=60`, "3600", `["two-1h"]`, "5"},
		{"666666", `"two-1m";r=1;t=60`, "", `["two-1m"]`, "5"}, // never
	} {
		w := s.do("GET /", "X-Key", "k", "Cost", c.cost)
		h := w.Header()
		require.Equal(t, c.quotas, h.Get("RateLimit"), c)
		require.Equal(t, c.retryAfter, h.Get("Retry-After"), c)
		require.Equal(t, []string{c.limit, "1"}, []string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining")}, c)
		require.Contains(t, w.Body.String(), c.violated, c)
	}
	equal := newSite(t, per("two", "", sash.PerMinute(2).Log(), sash.PerHour(2).Log()))
	for _, want := range []string{`"two-1h";r=1;t=3600`, `"two-1h";r=0;t=3600`, `"two-1h";r=0;t=3600`} {
		require.Equal(t, want, equal.do("GET /", "X-Key", "k").Header().Get("RateLimit"))
	}
}

// t is the time until there is more, for a client that waits. It does not include the
// charge of a denied request that the client could make in the meantime.
func TestHeaders_SayWhenThereIsMoreWhereTheDeniedAreCharged(t *testing.T) {
	one := func() httplimit.Policy {
		p := per("ten", "", sash.PerMinute(10).Counter())
		p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("Cost"))) }
		return p
	}
	outcome := one()
	outcome.Charge = func(int) bool { return true }
	for name, policies := range map[string][]httplimit.Option{
		"one":     {one()},
		"outcome": {outcome},
		"several": {one(), per("plenty", "", sash.PerMinute(100))},
	} {
		for cost, want := range map[string]string{"1": `"ten";r=2;t=5`, "333": `"ten";r=0;t=`, "4444": `"ten";r=0;t=`} {
			s := newSite(t, append(policies, httplimit.WithSash(sash.WithChargeDenied()))...)
			s.do("GET /", "X-Key", "k", "Cost", "999999999")
			s.clock.Set(int64(75 * time.Second))
			h := s.do("GET /", "X-Key", "k", "Cost", cost).Header()
			require.Contains(t, h.Get("RateLimit"), want, "%s, %d", name, len(cost))
			_, after, _ := strings.Cut(h.Get("RateLimit"), ";t=")
			seconds, _, _ := strings.Cut(after, ",")
			wait, err := strconv.Atoi(seconds)
			require.NoError(t, err)
			ask := func() bool {
				d, _ := s.Sash().TakeThenPeek(must(s.KeyFor("ten", newRequest("GET /", "X-Key", "k"))), 0)
				return d.Remaining > remaining(t, h, "ten")
			}
			s.clock.Advance(time.Duration(wait-1) * time.Second)
			require.False(t, ask(), "%s, %d: more before it is said", name, len(cost))
			s.clock.Advance(time.Second)
			require.True(t, ask(), "%s, %d: no more when it is said", name, len(cost))
		}
	}
}

func must(key string, ok bool) string {
	if !ok {
		panic("no key")
	}
	return key
}
