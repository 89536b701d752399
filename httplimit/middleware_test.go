package httplimit_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A site is a limiter on a manual clock, around a handler that counts its calls.
type site struct {
	*httplimit.Limiter
	clock  *sash.ManualClock
	served atomic.Int64
	answer http.HandlerFunc // nil: writes the status 200
}

func newSite(t testing.TB, options ...httplimit.Option) *site {
	s := &site{clock: sash.NewManualClock(0)}
	l, err := httplimit.New(append(options, httplimit.WithClock(s.clock), httplimit.WithSweepInterval(-1))...)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	s.Limiter = l
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		if s.answer != nil {
			s.answer(w, r)
		} else {
			w.WriteHeader(http.StatusOK)
		}
	})).ServeHTTP(w, r)
}

// do serves a request such as "GET /path" with headers: pairs of name and value.
func (s *site) do(request string, headers ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, newRequest(request, headers...))
	return w
}

// newRequest returns a request such as "GET /path" with headers: pairs of name and value.
func newRequest(request string, headers ...string) *http.Request {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// codes serves n equal requests and returns their statuses.
func (s *site) codes(n int, request string, headers ...string) (codes []int) {
	for range n {
		codes = append(codes, s.do(request, headers...).Code)
	}
	return codes
}

// per returns a policy whose key is the header X-Key.
func per(name, pattern string, limits ...sash.Limit) httplimit.Policy {
	return httplimit.Policy{Name: name, Pattern: pattern, Limits: limits, Key: httplimit.ByHeader("X-Key")}
}

func TestMiddleware_HoldsEachLimitToTheRequestUnder64Connections(t *testing.T) {
	const limit, clients, connections = 25, 4, 64
	s := newSite(t, per("each", "", sash.PerHour(limit).Log()))
	server := httptest.NewServer(s)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()

	var admitted, denied [clients]atomic.Int64
	start := make(chan struct{})
	var g sync.WaitGroup
	for i := range connections {
		g.Go(func() {
			<-start
			for j := range 8 {
				who := (i + j) % clients
				r, err := http.NewRequest("GET", server.URL, nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Key", strconv.Itoa(who))
				switch code := status(t, client, r); code {
				case 200:
					admitted[who].Add(1)
				case 429:
					denied[who].Add(1)
				default:
					t.Errorf("status %d", code)
				}
			}
		})
	}
	close(start)
	g.Wait()
	for who := range clients {
		require.EqualValues(t, limit, admitted[who].Load())
		require.EqualValues(t, connections*8/clients-limit, denied[who].Load())
	}
	require.EqualValues(t, limit*clients, s.served.Load())
}

// status sends r, reads the response to its end and returns its status.
func status(t *testing.T, client *http.Client, r *http.Request) int {
	response, err := client.Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

func TestMiddleware_AdmitsOnceRetryAfterHasPassed(t *testing.T) {
	for _, limit := range []sash.Limit{
		sash.PerMinute(3).Counter(), sash.PerMinute(3).Log(), sash.PerMinute(3).Buckets(7 * time.Second),
		sash.Per(2, 1500*time.Millisecond), sash.Per(1, 10*time.Millisecond).Log(), sash.PerHour(1000),
	} {
		t.Run(limit.String(), func(t *testing.T) {
			s := newSite(t, per("each", "", limit))
			s.clock.Set(int64(12345678901))
			server := httptest.NewServer(s)
			defer server.Close()
			denials := 0
			for denials < 4 {
				r, err := http.NewRequest("GET", server.URL, nil)
				require.NoError(t, err)
				r.Header.Set("X-Key", "a")
				response, err := server.Client().Do(r)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				if response.StatusCode == 200 {
					s.clock.Advance(limit.Window / 7 / time.Duration(limit.Count))
					continue
				}
				denials++
				require.Equal(t, 429, response.StatusCode)
				seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
				require.NoError(t, err)
				require.Positive(t, seconds)
				// Retry-After is not a second too long: one second before it, the request is denied.
				s.clock.Advance(time.Duration(seconds-1) * time.Second)
				if seconds > 1 {
					require.Equal(t, 429, s.do("GET /", "X-Key", "a").Code)
				}
				s.clock.Advance(time.Second)
				require.Equal(t, 200, s.do("GET /", "X-Key", "a").Code)
			}
		})
	}
}

func TestMiddleware_ChargesAllPoliciesOrNone(t *testing.T) {
	s := newSite(t,
		per("all", "", sash.PerHour(5).Log()),
		per("api", "/api/", sash.PerHour(2).Log()),
		per("post", "POST /", sash.PerHour(1).Log()))
	require.Equal(t, []int{200, 200, 429, 429}, s.codes(4, "GET /api/x", "X-Key", "a"))
	require.Equal(t, []int{429}, s.codes(1, "POST /api/x", "X-Key", "a")) // denied by api alone
	require.Equal(t, []int{200, 429}, s.codes(2, "POST /", "X-Key", "a")) // so post was not charged before
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "a"))
	require.Equal(t, []int{200}, s.codes(1, "GET /api/x", "X-Key", "b"))
}

func TestMiddleware_HoldsAllPoliciesUnder64Connections(t *testing.T) {
	charge := func(int) bool { return true }
	for name, edit := range map[string]func(*httplimit.Policy){
		"taken":          func(*httplimit.Policy) {},
		"reserved":       func(p *httplimit.Policy) { p.Charge = charge },
		"of other costs": func(p *httplimit.Policy) { p.Cost = func(*http.Request) int64 { return 2 } },
	} {
		t.Run(name, func(t *testing.T) {
			second := per("b", "", sash.PerHour(200).Log())
			edit(&second)
			s := newSite(t, per("a", "", sash.PerHour(50).Log()), second)
			var g sync.WaitGroup
			for range 64 {
				g.Go(func() { s.codes(3, "GET /", "X-Key", "k") })
			}
			g.Wait()
			require.EqualValues(t, 50, s.served.Load())
			want := int64(150)
			if name == "of other costs" {
				want = 100
			}
			require.Equal(t, want, s.left(t, "b"))
		})
	}
}

func TestMiddleware_ChargesCosts(t *testing.T) {
	cost := func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.Header.Get("Cost"), 10, 64)
		return n
	}
	p := per("units", "", sash.PerHour(10).Log())
	p.Cost = cost
	s := newSite(t, p, per("requests", "", sash.PerHour(4).Log()))
	for _, step := range []struct {
		cost       string
		code       int
		retryAfter string
		violated   string
	}{
		{cost: "7", code: 200},
		{cost: "4", code: 429, retryAfter: "3600", violated: `["units"]`},
		{cost: "3", code: 200},
		{cost: "11", code: 429, violated: `["units"]`}, // never
		{cost: "-1", code: 429, violated: `["units"]`},
		{cost: "0", code: 200},
		{cost: "1", code: 429, retryAfter: "3600", violated: `["units"]`},
		{cost: "0", code: 200},
		{cost: "0", code: 429, retryAfter: "3600", violated: `["requests"]`},
		{cost: "1", code: 429, retryAfter: "3600", violated: `["units","requests"]`},
	} {
		w := s.do("GET /", "X-Key", "a", "Cost", step.cost)
		require.Equal(t, step.code, w.Code, step)
		require.Equal(t, step.retryAfter, w.Header().Get("Retry-After"), step)
		if step.code == 429 {
			require.Contains(t, w.Body.String(), `"violated-policies":`+step.violated, step)
		}
	}
}

func TestMiddleware_RetryAfterIsTheLongestOfPoliciesWhoseCostsDiffer(t *testing.T) {
	dear := per("dear", "", sash.PerMinute(2).Log())
	dear.Cost = func(*http.Request) int64 { return 2 }
	for _, policies := range [][]httplimit.Option{
		{dear, per("rare", "", sash.PerHour(1).Log())}, {per("rare", "", sash.PerHour(1).Log()), dear},
	} {
		s := newSite(t, policies...)
		require.Equal(t, 200, s.do("GET /", "X-Key", "a").Code)
		w := s.do("GET /", "X-Key", "a")
		require.Equal(t, 429, w.Code)
		require.Equal(t, "3600", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), "dear")
		require.Contains(t, w.Body.String(), "rare")
	}
}

// A calling is a clock that calls a function whenever it is read.
type calling struct {
	*sash.ManualClock
	call func()
}

func (c *calling) Now() int64 {
	if c.call != nil {
		c.call()
	}
	return c.ManualClock.Now()
}

// An admitted request stays admitted, whatever others charge to its key afterwards.
func TestMiddleware_ReportsWhatWasDecidedWhateverComesAfter(t *testing.T) {
	clock := &calling{ManualClock: sash.NewManualClock(0)}
	var outcomes []httplimit.Outcome
	l := httplimit.Must(httplimit.New(httplimit.WithClock(clock), httplimit.WithSweepInterval(-1),
		per("a", "", sash.PerHour(9).Log()), per("b", "", sash.PerHour(9).Log()),
		httplimit.WithObserver(func(e httplimit.Event) {
			require.True(t, e.Decision.Allowed)
			outcomes = append(outcomes, e.Outcome)
		})))
	defer l.Close()
	r := newRequest("GET /", "X-Key", "k")
	key, _ := l.KeyFor("b", r)
	other, d := l.Sash().Reserve(key, 1)
	require.True(t, d.Allowed)
	reads := 0
	clock.call = func() {
		if reads++; reads == 3 {
			other.Commit(99) // far past the limit
		}
	}
	w := httptest.NewRecorder()
	l.Middleware(http.NotFoundHandler()).ServeHTTP(w, r)
	require.Equal(t, 404, w.Code)
	require.Contains(t, w.Header().Get("RateLimit"), `"b";r=0`)
	require.Equal(t, []httplimit.Outcome{httplimit.Admitted, httplimit.Admitted}, outcomes)
}

func TestMiddleware_SkipsWhatAPolicySaysIsNotItsBusiness(t *testing.T) {
	p := per("most", "", sash.PerHour(1).Log())
	p.Skip = func(r *http.Request) bool { return r.URL.Path == "/health" }
	s := newSite(t, p)
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /health")) // nor is a key needed
	require.Empty(t, s.do("GET /health").Header())
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "a"))
}

func TestMiddleware_LetsThroughWhatNoPolicyIsFor(t *testing.T) {
	s := newSite(t, per("api", "/api/", sash.PerHour(1)))
	w := s.do("GET /")
	require.Equal(t, 200, w.Code)
	require.Empty(t, w.Header())
}

func TestMiddleware_ShadowDecidesAndNeverDenies(t *testing.T) {
	var events []string
	shadow := per("tried", "", sash.PerHour(1).Log())
	shadow.Shadow = true
	s := newSite(t, shadow, per("real", "", sash.PerHour(3).Log()), httplimit.WithObserver(func(e httplimit.Event) {
		events = append(events, fmt.Sprintf("%s %v %v", e.Policy, e.Shadow, e.Outcome))
	}))
	var headers []http.Header
	for _, want := range []int{200, 200, 200, 429} {
		w := s.do("GET /", "X-Key", "a")
		require.Equal(t, want, w.Code)
		headers = append(headers, w.Header())
	}
	require.Equal(t, []string{
		"real false admitted", "tried true admitted",
		"real false admitted", "tried true denied",
		"real false admitted", "tried true denied",
		"real false denied", "tried true denied",
	}, events)
	require.Equal(t, []string{`"real";q=3;w=3600`}, headers[0]["Ratelimit-Policy"])
	require.Equal(t, []string{`"real";r=2;t=3600`}, headers[0]["Ratelimit"])
}

func TestMiddleware_ShadowsDoNotStopEachOtherNorChargeForWhatIsDenied(t *testing.T) {
	one, two := per("one", "", sash.PerHour(1).Log()), per("two", "", sash.PerHour(2).Log())
	one.Shadow, two.Shadow = true, true
	two.Charge = func(status int) bool { return status == 200 }
	s := newSite(t, one, two, per("real", "POST /", sash.PerHour(1).Log()))
	require.Equal(t, []int{200, 429, 429}, s.codes(3, "POST /", "X-Key", "k"))
	require.EqualValues(t, 1, s.left(t, "two"))
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"))
	require.EqualValues(t, 0, s.left(t, "one"))
	require.EqualValues(t, 0, s.left(t, "two"))
}

func TestMiddleware_ShadowThatFailsHurtsNobody(t *testing.T) {
	var events []string
	lost, panics := per("lost", "", sash.PerHour(1)), per("panics", "", sash.PerHour(1))
	lost.Key, lost.Shadow = httplimit.ByHeader("X-Absent"), true
	panics.Cost, panics.Shadow = func(*http.Request) int64 { panic("secret") }, true
	s := newSite(t, lost, panics, per("real", "", sash.PerHour(9)), httplimit.WithObserver(func(e httplimit.Event) {
		events = append(events, fmt.Sprintf("%s %v", e.Policy, e.Outcome))
	}))
	logged := captureLog(t)
	require.Equal(t, []int{200}, s.codes(1, "GET /", "X-Key", "a"))
	require.Equal(t, []string{"lost unidentified", "panics failed", "real admitted"}, events)
	require.Contains(t, logged.String(), `panic in policy "panics": secret`)
}

// captureLog collects the output of the standard logger until the test ends.
func captureLog(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	log.SetOutput(&b)
	t.Cleanup(func() { log.SetOutput(io.Discard) })
	return &b
}

func TestMiddleware_AnswersWhoCannotBeTold(t *testing.T) {
	p := per("each", "", sash.PerHour(1).Log())
	s := newSite(t, p, per("other", "", sash.PerHour(1).Log()))
	for _, headers := range [][]string{nil, {"X-Key", ""}, {"X-Key", "a", "X-Key", "b"}} {
		w := s.do("GET /", headers...)
		require.Equal(t, 400, w.Code)
		require.Equal(t, http.Header{"Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"}}, w.Header())
		require.JSONEq(t, `{"type":"about:blank","title":"Bad Request","status":400,"detail":"The request does not tell who is making it."}`, w.Body.String())
	}
	require.Zero(t, s.served.Load())
	require.Zero(t, s.Sash().Len())

	own := newSite(t, p, httplimit.WithUnidentified(http.RedirectHandler("/login", http.StatusSeeOther)))
	require.Equal(t, 303, own.do("GET /").Code)

	p.Key = httplimit.FirstOf(p.Key, httplimit.Everyone())
	shared := newSite(t, p)
	require.Equal(t, []int{200, 429}, shared.codes(2, "GET /"))
	require.Equal(t, []int{200, 429}, shared.codes(2, "GET /", "X-Key", "a"))
}

func TestMiddleware_AnswersPanicsWithoutDetailsAndChargesNothing(t *testing.T) {
	for name, edit := range map[string]func(*httplimit.Policy){
		"Key":  func(p *httplimit.Policy) { p.Key = func([]byte, *http.Request) ([]byte, bool) { panic("secret") } },
		"Cost": func(p *httplimit.Policy) { p.Cost = func(*http.Request) int64 { panic("secret") } },
		"Skip": func(p *httplimit.Policy) { p.Skip = func(*http.Request) bool { panic("secret") } },
	} {
		t.Run(name, func(t *testing.T) {
			var events []string
			faulty := per("faulty", "", sash.PerHour(1))
			edit(&faulty)
			s := newSite(t, per("fine", "", sash.PerHour(1)), faulty, httplimit.WithObserver(func(e httplimit.Event) {
				events = append(events, fmt.Sprintf("%s %v", e.Policy, e.Outcome))
			}))
			var logged bytes.Buffer
			server := httptest.NewUnstartedServer(s)
			server.Config.ErrorLog = log.New(&logged, "", 0)
			server.Start()
			r, err := http.NewRequest("GET", server.URL, nil)
			require.NoError(t, err)
			r.Header.Set("X-Key", "a")
			response, err := server.Client().Do(r)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			server.Close()

			require.Equal(t, 500, response.StatusCode)
			require.Equal(t, "application/problem+json", response.Header.Get("Content-Type"))
			require.Equal(t, "no-store", response.Header.Get("Cache-Control"))
			require.JSONEq(t, `{"type":"about:blank","title":"Internal Server Error","status":500}`, string(body))
			require.Contains(t, logged.String(), `httplimit: panic in policy "faulty": secret`)
			require.Contains(t, logged.String(), "middleware_test.go")
			require.Equal(t, []string{"faulty failed"}, events)
			require.Zero(t, s.served.Load())
			require.Zero(t, s.Sash().Len())
		})
	}
}

// If the limits of one key cannot be told, what was charged to another one is given back.
func TestMiddleware_ChargesNothingIfTheLimitsOfAKeyPanic(t *testing.T) {
	faulty := true
	limitsFor := func(key string) []sash.Limit {
		if faulty && strings.HasSuffix(key, "second") {
			panic("no plan")
		}
		return nil
	}
	by := func(name string) httplimit.KeyFunc {
		return httplimit.By(func(*http.Request) (string, bool) { return name, true })
	}
	s := newSite(t,
		httplimit.WithSash(sash.WithLimitsFor(limitsFor)),
		httplimit.Policy{Name: "a", Limits: []sash.Limit{sash.PerHour(1)}, Key: by("first")},
		httplimit.Policy{Name: "b", Limits: []sash.Limit{sash.PerHour(10)}, Key: by("second"), Cost: func(*http.Request) int64 { return 2 }})
	for range 3 {
		require.Equal(t, http.StatusInternalServerError, s.do("GET /").Code)
	}
	faulty = false
	require.Equal(t, http.StatusOK, s.do("GET /").Code)
}

func TestMiddleware_APanickingObserverLetsNothingThrough(t *testing.T) {
	captureLog(t)
	s := newSite(t, per("each", "", sash.PerHour(1)), httplimit.WithObserver(func(httplimit.Event) { panic("secret") }))
	w := s.do("GET /", "X-Key", "a")
	require.Equal(t, 500, w.Code)
	require.NotContains(t, w.Body.String(), "secret")
	require.Zero(t, s.served.Load())

	p := per("each", "", sash.PerHour(1)) // it fails, which is reported to the observer
	p.Key = func([]byte, *http.Request) ([]byte, bool) { panic("another secret") }
	s = newSite(t, p, httplimit.WithObserver(func(httplimit.Event) { panic("secret") }))
	require.Equal(t, 500, s.do("GET /").Code)
	require.Zero(t, s.served.Load())
}

func TestMiddleware_LetsAPolicyAbort(t *testing.T) {
	p := per("each", "", sash.PerHour(1))
	p.Skip = func(*http.Request) bool { panic(http.ErrAbortHandler) }
	s := newSite(t, p)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { s.do("GET /", "X-Key", "a") })
	require.Zero(t, s.served.Load())

	p.Shadow = true // it must not affect the request
	var outcomes []httplimit.Outcome
	s = newSite(t, per("real", "", sash.PerHour(1)), p, httplimit.WithObserver(func(e httplimit.Event) {
		outcomes = append(outcomes, e.Outcome)
	}))
	require.Equal(t, 200, s.do("GET /", "X-Key", "a").Code)
	require.ElementsMatch(t, []httplimit.Outcome{httplimit.Admitted, httplimit.Failed}, outcomes)
}

func TestMiddleware_LeavesPanicsOfTheHandlerAlone(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(1).Log()))
	s.answer = func(http.ResponseWriter, *http.Request) { panic("mine") }
	require.PanicsWithValue(t, "mine", func() { s.do("GET /", "X-Key", "a") })
	require.Equal(t, 429, s.do("GET /", "X-Key", "a").Code)
}

func TestMiddleware_KeepsLittleOfHugeKeys(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(1).Log()))
	huge := strings.Repeat("x", 1<<20)
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", huge))
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", huge+"y"))
	key, ok := s.KeyFor("each", newRequest("GET /", "X-Key", huge))
	require.True(t, ok)
	require.LessOrEqual(t, len(key), 40)
	// An identity that is as long as a digest is not taken for one.
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", key[1:]))
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", key))
}

func TestMiddleware_AKeyFuncThatDoesNotAppendReachesNoOtherPolicy(t *testing.T) {
	p := per("a", "", sash.PerHour(1).Log())
	p.Key = func(_ []byte, r *http.Request) ([]byte, bool) { return []byte(r.Header.Get("X-Key")), true }
	s := newSite(t, p, per("b", "", sash.PerHour(2).Log()))
	for _, victim := range []string{"v", ""} {
		key, _ := s.KeyFor("b", newRequest("GET /", "X-Key", "v"+victim))
		s.do("GET /", "X-Key", key)
		require.EqualValues(t, 2, s.Sash().Peek(key, 0).Remaining)
	}
}

func TestMiddleware_SharesItsQuotasAmongHandlers(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(2).Log()))
	mux := http.NewServeMux()
	mux.Handle("GET /a", s.Middleware(http.NotFoundHandler()))
	mux.Handle("GET /b", s.Middleware(http.NotFoundHandler()))
	var codes []int
	for _, path := range []string{"/a", "/b", "/a"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, newRequest("GET "+path, "X-Key", "a"))
		codes = append(codes, w.Code)
	}
	require.Equal(t, []int{404, 404, 429}, codes)
}

func TestWithDenied_AnswersInstead(t *testing.T) {
	var denial httplimit.Denial
	s := newSite(t, per("short", "", sash.PerMinute(1).Log()), per("long", "", sash.PerHour(1).Log()),
		httplimit.WithDenied(func(w http.ResponseWriter, r *http.Request, d httplimit.Denial) {
			denial = d
			if r.Header.Get("Accept") == "text/html" {
				http.Error(w, "slow down", 420)
				return
			}
			d.ServeHTTP(w, r)
		}))
	s.do("GET /", "X-Key", "a")
	s.clock.Advance(1)
	w := s.do("GET /", "X-Key", "a", "Accept", "text/html")
	require.Equal(t, 420, w.Code)
	require.Equal(t, "slow down\n", w.Body.String())
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "3600", w.Header().Get("Retry-After"))
	require.Equal(t, httplimit.Denial{Violated: []string{"short", "long"}, RetryAfter: time.Hour - 1}, denial)
	require.Equal(t, 429, s.do("GET /", "X-Key", "a").Code)
}

// A handler around the middleware may describe the content of the response that it
// expects. That description is wrong for the answer that the middleware sends instead.
func TestMiddleware_DropsWhatWasSaidOfTheResponseThatItReplaces(t *testing.T) {
	panics := per("each", "", sash.PerHour(1))
	panics.Cost = func(*http.Request) int64 { panic("secret") }
	captureLog(t)
	denied := per("each", "", sash.PerHour(1))
	denied.Cost = func(*http.Request) int64 { return -1 }
	teapot := func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot); io.WriteString(w, "short and stout") }
	for name, c := range map[string]struct {
		key     string
		options []httplimit.Option
		want    int
	}{
		"denied":       {"k", []httplimit.Option{denied}, 429},
		"unidentified": {"", []httplimit.Option{denied}, 400},
		"panic":        {"k", []httplimit.Option{panics}, 500},
		"WithDenied": {"k", []httplimit.Option{denied, httplimit.WithDenied(
			func(w http.ResponseWriter, _ *http.Request, _ httplimit.Denial) { teapot(w) })}, 418},
		"WithUnidentified": {"", []httplimit.Option{denied, httplimit.WithUnidentified(
			http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { teapot(w) }))}, 418},
		"admitted": {"k", []httplimit.Option{per("each", "", sash.PerHour(1))}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, c.options...)
			s.answer = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				h := w.Header()
				h.Set("Content-Length", "5")
				h.Set("ETag", `"hello"`)
				h.Set("Last-Modified", "Tue, 15 Nov 1994 12:45:26 GMT")
				h.Set("Vary", "Origin")
				s.ServeHTTP(w, r)
			}))
			defer server.Close()
			r, err := http.NewRequest("GET", server.URL, nil)
			require.NoError(t, err)
			r.Header.Set("X-Key", c.key)
			response, err := server.Client().Do(r)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, c.want, response.StatusCode)
			require.Equal(t, "Origin", response.Header.Get("Vary"))
			require.EqualValues(t, len(body), response.ContentLength)
			if c.want == 200 {
				require.Equal(t, "hello", string(body))
				require.Equal(t, `"hello"`, response.Header.Get("ETag"))
				require.Equal(t, "Tue, 15 Nov 1994 12:45:26 GMT", response.Header.Get("Last-Modified"))
				return
			}
			require.Greater(t, len(body), 5)
			require.NotContains(t, response.Header, "Etag")
			require.NotContains(t, response.Header, "Last-Modified")
		})
	}
}

// The package documentation describes this.
func TestMiddleware_CountsPreflightsLikeAnyOtherRequest(t *testing.T) {
	everyone := func(name, pattern string) httplimit.Policy {
		p := per(name, pattern, sash.PerHour(9).Log())
		p.Key = httplimit.Everyone()
		return p
	}
	s := newSite(t, everyone("all", ""), everyone("api", "/api/"), everyone("post", "POST /api/"))
	preflight := []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "POST"}
	require.Equal(t, 200, s.do("OPTIONS /api/x", preflight...).Code)
	require.Equal(t, []int64{8, 8, 9}, []int64{s.left(t, "all"), s.left(t, "api"), s.left(t, "post")})

	s = newSite(t, per("keyed", "", sash.PerHour(9)))
	require.Equal(t, 400, s.do("OPTIONS /api/x", preflight...).Code)
}

// A hasty is a clock that advances by a nanosecond whenever it is read.
type hasty struct{ now atomic.Int64 }

func (c *hasty) Now() int64 { return c.now.Add(1) }

// The quotas of a denial are looked up after the decision. The clock may have advanced in
// between so far that all policies would admit the request. The answer still reports the
// decision, and its quota.
func TestMiddleware_SaysWhyItDeniedThoughItWouldAdmitByNow(t *testing.T) {
	const window = time.Hour
	for _, c := range []struct {
		first, second int64
		violated      string
	}{{1, 5, "first"}, {5, 1, "second"}} {
		clock := new(hasty)
		l := httplimit.Must(httplimit.New(httplimit.WithClock(clock), httplimit.WithSweepInterval(-1),
			per("first", "", sash.Per(c.first, window).Log()), per("second", "", sash.Per(c.second, window).Log())))
		h := l.Middleware(http.NotFoundHandler())
		charged := int64(0)
		for at := int64(window) - 20; ; at++ {
			for _, name := range []string{"first", "second"} {
				key, _ := l.KeyFor(name, newRequest("GET /", "X-Key", "k"))
				l.Sash().Reset(key)
			}
			clock.now.Store(0)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, newRequest("GET /", "X-Key", "k"))
			require.Equal(t, 404, w.Code)
			charged++
			clock.now.Store(at)
			w = httptest.NewRecorder()
			h.ServeHTTP(w, newRequest("GET /", "X-Key", "k"))
			if w.Code == 404 {
				break
			}
			require.Equal(t, 429, w.Code)
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.Contains(t, w.Body.String(), `"violated-policies":["`+c.violated+`"]`)
			require.Contains(t, w.Header().Get("RateLimit"), `"`+c.violated+`";r=0;t=1`)
		}
		require.Greater(t, charged, int64(20))
		require.NoError(t, l.Close())
	}
}

func TestMiddleware_AllocatesLittle(t *testing.T) {
	p := per("each", "GET /{what}/{id}", sash.PerHour(1e6))
	p.Key = httplimit.ByAddress(httplimit.TrustProxies(prefix("192.0.2.0/24")))
	s := newSite(t, p, httplimit.Policy{Name: "all", Limits: p.Limits, Key: httplimit.ByAddress()}, httplimit.WithXRateLimit())
	handler := s.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r, w := newRequest("GET /a/b", "X-Forwarded-For", "2001:db8::1, 192.0.2.1"), &bareWriter{http.Header{}}
	serve := func() {
		clear(w.header)
		handler.ServeHTTP(w, r)
	}
	serve() // the first request allocates its state
	serve() // the second one allocates the cached route
	if !race.Enabled {
		require.Zero(t, testing.AllocsPerRun(1000, serve)) // one in 16 requests allocates; the mean is rounded down
	}
	require.Len(t, w.header, 5)
}

// A bareWriter is a ResponseWriter that keeps only the header.
type bareWriter struct{ header http.Header }

func (w *bareWriter) Header() http.Header         { return w.header }
func (w *bareWriter) Write(b []byte) (int, error) { return len(b), nil }
func (w *bareWriter) WriteHeader(int)             {}
