package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// newTestService returns a service that has nothing to export.
func newTestService(t *testing.T, l limits, options ...httplimit.Option) *service {
	return newTestServiceOf(t, config{limits: l}, options...)
}

func newTestServiceOf(t *testing.T, c config, options ...httplimit.Option) *service {
	s, err := newService(c, options...)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestHello_IsLimitedByAddress(t *testing.T) {
	clock, limits := sash.NewManualClock(0), defaultLimits()
	limits.Hello = sash.Per(2, 10*time.Second).Log()
	var log bytes.Buffer
	service := newTestService(t, limits, append(withLog(&log, clock), httplimit.WithClock(clock))...)

	for i, c := range []struct {
		at     time.Duration
		remote string
		status int
		retry  string
	}{
		{0, "203.0.113.7:1", 200, ""},
		{0, "203.0.113.7:2", 200, ""},
		{0, "203.0.113.7:3", 429, "10"},
		{0, "[::ffff:203.0.113.7]:3", 429, "10"}, // the same client
		{0, "[2001:db8::1]:3", 200, ""},
		{0, "[2001:db8::2]:3", 200, ""},
		{0, "[2001:db8::ffff:0:0:3%eth0]:3", 429, "10"}, // of the same /64
		{0, "[2001:db8:0:1::1]:3", 200, ""},
		{1, "203.0.113.7:4", 429, "10"}, // 9.999999999 s rounds up
		{9 * time.Second, "203.0.113.7:5", 429, "1"},
		{10*time.Second - 1, "203.0.113.7:5", 429, "1"},
		{10 * time.Second, "203.0.113.7:6", 200, ""},
		{10 * time.Second, "nonsense", 400, ""},
	} {
		clock.Set(int64(c.at))
		r := httptest.NewRequest("GET", "/hello", nil)
		r.RemoteAddr = c.remote
		r.Header.Set("X-Forwarded-For", "198.51.100.1") // no proxy is trusted
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "request %d", i)
		require.Equal(t, c.retry, w.Header().Get("Retry-After"), "request %d", i)
		if c.status == 429 {
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, `"hello";q=2;w=10`, w.Header().Get("RateLimit-Policy"))
			require.Contains(t, w.Body.String(), `"violated-policies":["hello"]`)
		}
	}
	require.Equal(t, 2, strings.Count(log.String(), `msg="request denied" policy=hello`), "one for each client")
	require.NotContains(t, log.String(), "203.0.113.7")
}

// ask serves a request, and returns the response and how much it reports to be left.
func ask(s http.Handler, method, target, apiKey, form string) (status int, left string) {
	r := httptest.NewRequest(method, target, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-API-Key", apiKey)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, leftOf(w.Result())
}

// leftOf returns how much a response reports to be left.
func leftOf(response *http.Response) string {
	if found := regexp.MustCompile(`;r=(\d+)`).FindStringSubmatch(response.Header.Get("RateLimit")); found != nil {
		return found[1]
	}
	return ""
}

// A step is a request and its expected answer.
type step struct {
	method, target, key, form string
	status                    int
	left                      string
}

func (s step) check(t *testing.T, service http.Handler) {
	t.Helper()
	status, left := ask(service, s.method, s.target, s.key, s.form)
	require.Equal(t, s.status, status, "%+v", s)
	require.Equal(t, s.left, left, "%+v", s)
}

func TestQuote_IsLimitedByAPIKey(t *testing.T) {
	limits := defaultLimits()
	limits.Quote = sash.Per(2, 10*time.Second).Log()
	service := newTestService(t, limits, httplimit.WithClock(sash.NewManualClock(0)))
	for _, s := range []step{
		{"GET", "/quote", "demo-alice", "", 200, "1"},
		{"HEAD", "/quote", "demo-alice", "", 200, "1"},
		{"GET", "/quote", "demo-alice", "", 200, "0"},
		{"HEAD", "/quote", "demo-alice", "", 200, "0"},
		{"GET", "/quote", "demo-alice", "", 429, "0"},
		{"GET", "/quote", "demo-bob", "", 200, "1"},
		{"GET", "/quote", "", "", 400, ""},
		{"GET", "/quote", "made up", "", 400, ""},
		{"GET", "/limits", "", "", 200, ""},
		{"GET", "/", "", "", 200, ""},
	} {
		s.check(t, service)
	}
}

func TestLogin_IsLimitedByFailures(t *testing.T) {
	const right, wrong = "account=alice&password=sash", "account=alice&password=x"
	limits, clock := defaultLimits(), sash.NewManualClock(0)
	limits.Login = sash.Per(2, 10*time.Second).Log()
	service := newTestService(t, limits, httplimit.WithClock(clock))
	for _, s := range []step{
		{"POST", "/login", "", right, 200, "1"},
		{"POST", "/login", "", wrong, 401, "1"}, // the attempt before was given back
		{"POST", "/login", "", right, 200, "0"},
		{"POST", "/login", "", wrong, 401, "0"},
		{"POST", "/login", "", right, 429, "0"}, // denied, since it may be a guess
	} {
		s.check(t, service)
	}
	clock.Advance(10 * time.Second)
	for range 30 { // the number of successful logins is not limited, even from one address
		require.Equal(t, 200, from(service, "192.0.2.1", "alice", "sash").Code)
	}
	for _, s := range []step{
		{"POST", "/login", "", right, 200, "1"},
		{"POST", "/login?account=alice&password=sash", "", "", 401, "1"},            // a password in the URL is not read
		{"POST", "/login", "", right + "&x=" + strings.Repeat("x", 5000), 401, "0"}, // the form is too long to be read
	} {
		s.check(t, service)
	}
}

// from serves a login attempt from an address.
func from(s http.Handler, address, account, password string) *httptest.ResponseRecorder {
	form := url.Values{"account": {account}, "password": {password}}
	r := httptest.NewRequest("POST", "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = net.JoinHostPort(address, "1234")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// Strangers use up their own attempts on an account, and not the attempts of its owner.
func TestLogin_StrangersCannotLockAnAccount(t *testing.T) {
	service := newTestService(t, defaultLimits(), httplimit.WithClock(sash.NewManualClock(0)))
	for _, stranger := range []string{"203.0.113.7", "203.0.113.8", "2001:db8::1"} {
		for range 5 {
			require.Equal(t, 401, from(service, stranger, "alice", "guess").Code)
		}
		require.Equal(t, 429, from(service, stranger, "alice", "guess").Code)
	}
	require.Equal(t, 200, from(service, "198.51.100.1", "alice", "sash").Code)
	require.Equal(t, 429, from(service, "203.0.113.7", "alice", "sash").Code, "it may be a guess")
}

// Only the right password reveals that an account exists. Status, headers and body of every
// other answer are the same for accounts that do not exist.
func TestLogin_DoesNotTellWhichAccountsExist(t *testing.T) {
	answers := func(accounts ...string) (all []string) {
		service := newTestService(t, defaultLimits(), httplimit.WithClock(sash.NewManualClock(0)))
		for _, account := range accounts {
			for range 7 {
				w := from(service, "203.0.113.7", account, "guess")
				all = append(all, fmt.Sprint(w.Code, w.Header(), w.Body))
			}
		}
		return all
	}
	long := strings.Repeat("long", 500)
	want := answers("nobody", "somebody", "another")
	require.Equal(t, want, answers("alice", "somebody", "another"))
	require.Equal(t, want, answers("nobody", "alice", "another"))
	require.Equal(t, want, answers("nobody", "somebody", "alice"))
	require.Equal(t, want, answers("", long, "Alice"))
}

// A request that is no attempt reveals nothing about attempts, and is charged none.
func TestLogin_TellsNothingToWhoMakesNoAttempt(t *testing.T) {
	service := newTestService(t, defaultLimits(), httplimit.WithClock(sash.NewManualClock(0)))
	ask := func(method string) string {
		r := httptest.NewRequest(method, "/login?account=alice&password=x", nil)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		for name := range w.Header() {
			require.NotContains(t, name, "Ratelimit", method)
			require.NotEqual(t, "Retry-After", name, method)
		}
		return fmt.Sprint(w.Code, w.Header(), w.Body)
	}
	before := map[string]string{}
	for _, method := range []string{"HEAD", "GET", "PUT", "DELETE", "OPTIONS"} {
		before[method] = ask(method)
	}
	for range 6 {
		from(service, "192.0.2.1", "alice", "guess") // the address of httptest's requests
	}
	for method, want := range before {
		require.Equal(t, want, ask(method), method)
	}
	require.Equal(t, 429, from(service, "192.0.2.1", "alice", "guess").Code)
}

// One address cannot guess for many accounts, nor fill the memory with their names.
func TestLogin_LimitsAnAddressOverAllAccounts(t *testing.T) {
	limits := defaultLimits()
	limits.LoginAddress = sash.Per(7, time.Minute).Log()
	service := newTestService(t, limits, httplimit.WithClock(sash.NewManualClock(0)))
	counts := map[int]int{}
	for i := range 1000 {
		counts[from(service, "203.0.113.7", fmt.Sprint("account ", i), "guess").Code]++
	}
	require.Equal(t, map[int]int{401: 7, 429: 993}, counts)
	require.Equal(t, 7+1, service.limiter.Sash().Len(), "seven accounts, and the address")
	require.Equal(t, 200, from(service, "198.51.100.1", "alice", "sash").Code)
}

// Exports hold their units until they have ended: by themselves, by their clients, or by the server.
func TestExport_HoldsUntilItHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(hangUp, stop func())
		whole bool
	}{
		"by itself":             {func(_, _ func()) { time.Sleep(time.Second) }, true},
		"its client hangs up":   {func(hangUp, _ func()) { hangUp() }, false},
		"the server shuts down": {func(_, stop func()) { stop() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clients, hangUp := context.WithCancel(t.Context())
				server, stop := context.WithCancel(t.Context())
				service := newTestServiceOf(t, config{limits: defaultLimits(), report: cleanPanes(server)})
				do := func(ctx context.Context, method string, w *httptest.ResponseRecorder) (fault any) {
					defer func() { fault = recover() }()
					service.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/export", nil))
					return nil
				}
				left := func() string {
					begun, w := time.Now(), httptest.NewRecorder()
					require.Nil(t, do(t.Context(), "HEAD", w))
					require.Equal(t, 200, w.Code)
					require.Empty(t, w.Body)
					require.Equal(t, begun, time.Now(), "no work")
					return w.Header().Get("RateLimit")
				}
				require.Equal(t, `"export";r=3`, left())

				var exports [3]*httptest.ResponseRecorder
				var faults [3]any
				for i := range exports {
					exports[i] = httptest.NewRecorder()
					go func() { faults[i] = do(clients, "GET", exports[i]) }()
				}
				for range 2 {
					synctest.Wait()
					denied := httptest.NewRecorder()
					require.Nil(t, do(t.Context(), "GET", denied))
					require.Equal(t, 429, denied.Code)
					require.Equal(t, "1", denied.Header().Get("Retry-After"))
					require.Equal(t, `"export";q=3;qu="concurrent-requests"`, denied.Header().Get("RateLimit-Policy"))
					require.Equal(t, `"export";r=0;t=1`, left())
					time.Sleep(time.Second)
				}
				synctest.Wait()
				require.Equal(t, `"export";r=0;t=1`, left())
				c.end(hangUp, stop)
				synctest.Wait()
				require.Equal(t, `"export";r=3`, left())
				for i, w := range exports {
					require.True(t, w.Flushed)
					require.Contains(t, w.Body.String(), "pane 4 of 6 is clean")
					require.Equal(t, c.whole, strings.HasSuffix(w.Body.String(), "pane 6 of 6 is clean\n"))
					if c.whole {
						require.Nil(t, faults[i])
					} else {
						require.Equal(t, http.ErrAbortHandler, faults[i], "no part is taken for the whole")
					}
				}
			})
		})
	}
}

// An export may have a rate as its limit, or next to what is under way.
func TestExport_UnderARate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := defaultLimits()
		limits.Export = sash.PerMinute(2).Log()
		service := newTestServiceOf(t, config{limits: limits, report: cleanPanes(t.Context())})
		for _, s := range []step{
			{"GET", "/export", "", "", 200, "1"},
			{"HEAD", "/export", "", "", 200, "1"},
			{"GET", "/export", "", "", 200, "0"},
			{"GET", "/export", "", "", 429, "0"},
		} {
			s.check(t, service)
		}
	})
}

// The log names a client once a window, and not all clients, so that denied clients cannot
// fill it.
func TestLog_IsNoLineForEachDenial(t *testing.T) {
	limits, clock := defaultLimits(), sash.NewManualClock(0)
	limits.Hello = sash.PerHour(1).Log()
	var log bytes.Buffer
	service := newTestService(t, limits, append(withLog(&log, clock), httplimit.WithClock(clock))...)
	lines := func() int { return strings.Count(log.String(), "\n") }
	for range 1001 {
		helloFrom(service, "203.0.113.7:1")
	}
	require.Equal(t, 1, lines(), "1,000 denials of one client")
	require.Contains(t, log.String(), "policy=hello")
	require.NotContains(t, log.String(), "203.0.113.7")
	clock.Advance(time.Hour)
	for range 2 {
		helloFrom(service, "203.0.113.7:1")
	}
	require.Equal(t, 2, lines())

	clock.Advance(time.Hour)
	for i := range 1000 {
		for range 2 {
			helloFrom(service, fmt.Sprintf("[2001:db8:0:%x::1]:1", i))
		}
	}
	require.Equal(t, 2+maxLogged, lines(), "1,000 clients that are denied")
}

// helloFrom asks for /hello from an address.
func helloFrom(service *service, remote string) {
	r := httptest.NewRequest("GET", "/hello", nil)
	r.RemoteAddr = remote
	service.ServeHTTP(httptest.NewRecorder(), r)
}

func TestOffenders_AreShownByFingerprints(t *testing.T) {
	limits := defaultLimits()
	limits.Hello = sash.PerHour(2)
	service := newTestService(t, limits, httplimit.WithClock(sash.NewManualClock(0)))
	for range 5 {
		helloFrom(service, "203.0.113.7:1")
	}
	get := func(accept string) string {
		r := httptest.NewRequest("GET", "/debug/offenders", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
		require.Empty(t, w.Header().Get("RateLimit"), "the page has no policy")
		require.NotContains(t, w.Body.String(), "203.0.113.7")
		return w.Body.String()
	}
	require.Contains(t, get("text/html"), "3 denials")
	var report offenders.Report
	require.NoError(t, json.Unmarshal([]byte(get("application/json")), &report))
	require.Len(t, report.Clients, 1)
	c := report.Clients[0]
	require.Equal(t, "hello", c.Policy)
	require.EqualValues(t, 3, c.Denials)
	require.Regexp(t, "^[0-9a-f]{16}$", c.Name)
}

func TestPage_LoadsNothingFromElsewhere(t *testing.T) {
	server := httptest.NewServer(newTestService(t, defaultLimits()))
	defer server.Close()
	for path, kind := range map[string]string{
		"/": "text/html", "/style.css": "text/css", "/script.js": "text/javascript", "/icon.svg": "image/svg+xml",
	} {
		response, err := http.Get(server.URL + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, 200, response.StatusCode, path)
		require.Contains(t, response.Header.Get("Content-Type"), kind)
		require.Contains(t, response.Header.Get("Content-Security-Policy"), "default-src 'self'")
		for _, found := range regexp.MustCompile(`https?://\S+`).FindAllString(string(body), -1) {
			require.Contains(t, found, "http://www.w3.org/2000/svg", "in %s: a name, which is not loaded", path)
		}
	}
}

// A token bucket of an address admits its burst over all accounts, and then its rate. Logins
// that succeed take nothing.
func TestLogin_LimitsAnAddressByATokenBucket(t *testing.T) {
	limits, clock := defaultLimits(), sash.NewManualClock(0)
	require.Equal(t, sash.PerSecond(1).TokenBucket(20), limits.LoginAddress)
	service := newTestService(t, limits, httplimit.WithClock(clock))
	tried := 0
	guess := func() (status int, headers http.Header) {
		tried++
		w := from(service, "203.0.113.7", fmt.Sprint("account ", tried), "guess")
		return w.Code, w.Header()
	}
	for range 20 {
		status, headers := guess()
		require.Equal(t, 401, status)
		require.Equal(t, `"login";q=5;w=20, "login-address";q=20;w=20`, headers.Get("RateLimit-Policy"))
	}
	for range 10 {
		status, headers := guess()
		require.Equal(t, 429, status)
		require.Equal(t, "1", headers.Get("Retry-After"))
		clock.Advance(time.Second)
		status, _ = guess()
		require.Equal(t, 401, status)
	}
	clock.Advance(time.Second)
	for range 30 {
		require.Equal(t, 200, from(service, "203.0.113.7", "alice", "sash").Code)
	}
	status, _ := guess()
	require.Equal(t, 401, status)
}

// What the server prints to try asks for more requests than are admitted at one instant.
func TestAdmits_IsWhatALimitAdmits(t *testing.T) {
	for limit, want := range map[sash.Limit]int64{
		sash.PerSecond(3): 3, sash.PerMinute(90).Buckets(time.Second): 90, sash.PerSecond(2).TokenBucket(20): 20,
		sash.AtOnce(3, time.Minute): 3, sash.Unlimited(): mostTried, sash.PerSecond(2).TokenBucket(1e9): mostTried,
	} {
		require.Equal(t, want, admits(limit))
	}
}

// The server runs on a free port until it is interrupted.
func TestRun(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	address, ended := startRun(ctx, t, "-hello", "3/h log")
	for i := range 5 {
		response, err := http.Get(address + "hello")
		require.NoError(t, err)
		response.Body.Close()
		if i < 3 {
			require.Equal(t, http.StatusOK, response.StatusCode)
		} else {
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.NotEmpty(t, response.Header.Get("Retry-After"))
		}
	}
	response, err := http.PostForm(address+"login", url.Values{"account": {"alice"}, "password": {"sash"}})
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, http.StatusOK, response.StatusCode)
	interrupt()
	require.NoError(t, <-ended)
}

// startRun runs the server on a free port until ctx is done, and returns its URL.
func startRun(ctx context.Context, t *testing.T, args ...string) (address string, ended <-chan error) {
	printed, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), stdout, io.Discard)
		stdout.Close()
	}()
	for lines := bufio.NewScanner(printed); address == "" && lines.Scan(); {
		address = regexp.MustCompile(`http://\S+/`).FindString(lines.Text())
	}
	go io.Copy(io.Discard, printed)
	require.NotEmpty(t, address)
	return address, done
}

// A server that shuts down does not wait for exports, and their clients learn that a part is missing.
func TestRun_BreaksExportsOff(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	address, ended := startRun(ctx, t)
	response, err := http.Get(address + "export")
	require.NoError(t, err)
	defer response.Body.Close()
	body := bufio.NewReader(response.Body)
	line, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "pane 1 of 6 is clean\n", line)
	interrupt()
	_, err = io.Copy(io.Discard, body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, <-ended)
}

func TestRun_NamesWrongInput(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-hello", "5/fortnight", `window "fortnight" is not a duration`},
		{"-quote", "-1/s", "Count must be >= 0, got -1"},
		{"-login", "5/h buckets 2h", "Precision must be"},
		{"-login", "5/h burst 0", "Burst must be >= 1, got 0"},
		{"-login-address", "5", "no slash"},
		{"-export", "3 at once for 0s", "Window must be"},
		{"-addr", "127.0.0.1:99999", "invalid port"},
	} {
		err := run(t.Context(), []string{c.flag, c.value}, io.Discard, io.Discard)
		require.ErrorContains(t, err, c.want)
	}
}

func TestRun_RefusesArguments(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop() // a server that starts all the same ends at once
	var stderr strings.Builder
	require.ErrorIs(t, run(ctx, []string{"-addr", "127.0.0.1:0", "5/s"}, io.Discard, &stderr), errUsage)
	require.Equal(t, "server: \"5/s\" is no flag\n", stderr.String())
}
