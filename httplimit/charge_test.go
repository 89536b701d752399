package httplimit_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

// failures returns a policy that charges requests answered with a status of 400 or more.
func failures(count int64) httplimit.Policy {
	p := per("failures", "", sash.PerHour(count).Log())
	p.Charge = func(status int) bool { return status >= 400 }
	return p
}

// left returns the units that remain to the client k under a policy.
func (s *site) left(t *testing.T, policy string) int64 {
	key, ok := s.KeyFor(policy, newRequest("GET /", "X-Key", "k"))
	require.True(t, ok)
	return s.Sash().Peek(key, 0).Remaining
}

func TestCharge_LimitsLoginsByFailures(t *testing.T) {
	s := newSite(t, failures(2))
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Password") != "right" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(http.StatusOK)
	}
	login := func(password string) int { return s.do("POST /", "X-Key", "k", "Password", password).Code }
	for range 5 {
		require.Equal(t, 200, login("right"))
	}
	require.Equal(t, 401, login("wrong"))
	require.Equal(t, 200, login("right"))
	require.Equal(t, 401, login("wrong"))
	require.Equal(t, 429, login("wrong"))
	require.Equal(t, 429, login("right"))
	require.EqualValues(t, 8, s.served.Load())
}

// Requests under way count, so that no more guesses run at once than may fail.
func TestCharge_CountsRequestsUnderWay(t *testing.T) {
	s := newSite(t, failures(3))
	var waiting sync.WaitGroup
	release := make(chan struct{})
	waiting.Add(3)
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			waiting.Done()
			<-release
		}
		w.WriteHeader(http.StatusOK)
	}
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() { s.do("GET /slow", "X-Key", "k") })
	}
	waiting.Wait()
	require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code)
	close(release)
	g.Wait()
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 3, s.left(t, "failures"))
}

func TestCharge_SeesTheStatus(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   int
	}{
		"written":       {func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("x")); w.WriteHeader(500) }, 200},
		"string":        {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x"); w.WriteHeader(500) }, 200},
		"explicit":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) }, 404},
		"informational": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(103); w.WriteHeader(403) }, 403},
		"flushed": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(500)
		}, 200},
		"controlled": {func(w http.ResponseWriter, _ *http.Request) {
			if err := http.NewResponseController(w).Flush(); err != nil {
				panic(err)
			}
			w.WriteHeader(500)
		}, 200},
		"copied": {func(w http.ResponseWriter, _ *http.Request) {
			w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
			w.WriteHeader(500)
		}, 200},
		// Nothing is written, so the status is still open.
		"copied nothing": {func(w http.ResponseWriter, _ *http.Request) {
			w.(io.ReaderFrom).ReadFrom(strings.NewReader(""))
			w.WriteHeader(401)
		}, 401},
		"hijacked": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			conn.Close()
		}, 101},
		"hijacked by a controller": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			conn.Close()
		}, 101},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan int, 1)
			p := per("each", "", sash.PerHour(5))
			p.Charge = func(status int) bool { got <- status; return false }
			s := newSite(t, p)
			s.answer = c.answer
			server := httptest.NewServer(s)
			defer server.Close()
			r, err := http.NewRequest("GET", server.URL, nil)
			require.NoError(t, err)
			r.Header.Set("X-Key", "k")
			if response, err := server.Client().Do(r); err == nil {
				_, _ = io.Copy(io.Discard, response.Body) // to close an unread body is to hang up
				response.Body.Close()
			}
			require.Equal(t, c.want, <-got)
		})
	}
}

// An unwrappingWriter is a usual wrapper of a middleware: http.ResponseController finds all
// other methods below it.
type unwrappingWriter struct{ http.ResponseWriter }

func (w unwrappingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A timidWriter has a Flush that does nothing.
type timidWriter struct{ http.ResponseWriter }

func (timidWriter) Flush()            {}
func (timidWriter) FlushError() error { return http.ErrNotSupported }

func TestCharge_SeesTheStatusThatAControllerFlushes(t *testing.T) {
	for name, c := range map[string]struct {
		around func(http.ResponseWriter) http.ResponseWriter
		want   int // status that the client is sent
	}{
		"past a writer that cannot flush": {func(w http.ResponseWriter) http.ResponseWriter { return unwrappingWriter{w} }, 200},
		"by a writer that fails to":       {func(w http.ResponseWriter) http.ResponseWriter { return timidWriter{w} }, 401},
		"nowhere":                         {func(w http.ResponseWriter) http.ResponseWriter { return plainWriter{w} }, 401},
	} {
		t.Run(name, func(t *testing.T) {
			got := 0
			p := per("each", "", sash.PerHour(5))
			p.Charge = func(status int) bool { got = status; return false }
			s := newSite(t, p)
			s.answer = func(w http.ResponseWriter, _ *http.Request) {
				_, flushes := w.(http.Flusher)
				require.Equal(t, name == "by a writer that fails to", flushes)
				_ = http.NewResponseController(w).Flush()
				w.WriteHeader(401)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(c.around(w), newRequest("GET /", "X-Key", "k"))
			require.Equal(t, c.want, w.Code)
			require.Equal(t, c.want, got)
		})
	}
}

func TestCharge_GivesNothingBackForADenial(t *testing.T) {
	s := newSite(t, failures(2), per("all", "", sash.PerHour(3).Log()))
	require.Equal(t, []int{200, 200, 200, 429, 429}, s.codes(5, "GET /", "X-Key", "k"))
	require.EqualValues(t, 2, s.left(t, "failures"))
	require.EqualValues(t, 0, s.left(t, "all")) // it has no Charge, so its charges stay
}

func TestCharge_GivesBackEachPolicyItsOwn(t *testing.T) {
	cheap, dear := failures(10), per("dear", "", sash.PerHour(10).Log())
	cheap.Cost = func(*http.Request) int64 { return 2 }
	dear.Cost = func(*http.Request) int64 { return 3 }
	dear.Charge = func(status int) bool { return status < 400 }
	var events []string
	s := newSite(t, cheap, dear, per("all", "", sash.PerHour(9).Log()), httplimit.WithObserver(func(e httplimit.Event) {
		require.Equal(t, e.Outcome == httplimit.GivenBack, e.Decision == sash.Decision{})
		events = append(events, fmt.Sprintf("%s %v %d", e.Policy, e.Outcome, e.Cost))
	}))
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }
	require.Equal(t, 404, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []int64{8, 7, 7}, []int64{s.left(t, "failures"), s.left(t, "dear"), s.left(t, "all")})
	require.Equal(t, []string{
		"failures admitted 2", "dear admitted 3", "all admitted 1", "failures given back 2",
		"failures admitted 2", "dear admitted 3", "all admitted 1", "dear given back 3",
	}, events)
}

func TestCharge_GivesNothingBackThatAShadowDenied(t *testing.T) {
	shadow := failures(1)
	shadow.Shadow = true
	var events []string
	s := newSite(t, shadow, httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e.Outcome.String()) }))
	s.answer = func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(len(r.URL.Path) * 200) }
	s.do("GET /x", "X-Key", "k") // 400
	s.do("GET /", "X-Key", "k")  // 200
	require.Equal(t, []string{"admitted", "denied"}, events)
}

func TestCharge_LeavesNoTraceOfACostThatAnotherPolicyDenies(t *testing.T) {
	first, second := per("first", "", sash.PerHour(9).Log()), per("second", "", sash.PerHour(1).Log())
	first.Cost = func(*http.Request) int64 { return 4 }
	for _, policies := range [][]httplimit.Option{{first, second}, {second, first}} {
		s := newSite(t, policies...)
		require.Equal(t, []int{200, 429, 429}, s.codes(3, "GET /", "X-Key", "k"))
		require.EqualValues(t, 5, s.left(t, "first"))
		s.clock.Advance(1) // the charges given back do not delay Retry-After
		require.Equal(t, "3600", s.do("GET /", "X-Key", "k").Header().Get("Retry-After"))
	}
}

// Writers with some of the methods of net/http's writers.
type (
	plainWriter struct{ http.ResponseWriter }
	flushWriter struct {
		http.ResponseWriter
		http.Flusher
	}
	pushWriter struct {
		flushWriter
		http.Pusher
	}
	hijackWriter struct {
		flushWriter
		http.Hijacker
	}
	readWriter struct {
		hijackWriter
		io.ReaderFrom
	}
	// The same with CloseNotify, as in net/http.
	plainNotifier struct {
		plainWriter
		closeNotifier
	}
	flushNotifier struct {
		flushWriter
		closeNotifier
	}
	pushNotifier struct {
		pushWriter
		closeNotifier
	}
	hijackNotifier struct {
		hijackWriter
		closeNotifier
	}
	readNotifier struct {
		readWriter
		closeNotifier
	}
)

type closeNotifier interface{ CloseNotify() <-chan bool } // of http.CloseNotifier, which is deprecated

// everything has all methods of net/http's writers, and records its calls.
type everything struct{ calls []string }

func (e *everything) CloseNotify() <-chan bool {
	e.calls = append(e.calls, "notify")
	return nil
}

func (e *everything) Flush() { e.calls = append(e.calls, "flush") }
func (e *everything) Push(string, *http.PushOptions) error {
	e.calls = append(e.calls, "push")
	return nil
}
func (e *everything) ReadFrom(io.Reader) (int64, error) {
	e.calls = append(e.calls, "read")
	return 0, nil
}
func (e *everything) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	e.calls = append(e.calls, "hijack")
	return nil, nil, nil
}

func TestCharge_HandsOnWhatAWriterCanDoAndNoMore(t *testing.T) {
	e := new(everything)
	w := httptest.NewRecorder()
	plain := plainWriter{w}
	flush := flushWriter{plain, e}
	push, hijack := pushWriter{flush, e}, hijackWriter{flush, e}
	read := readWriter{hijack, e}
	for name, c := range map[string]struct {
		writer                                 http.ResponseWriter
		flushes, pushes, hijacks, in, notifies bool
	}{
		"plain":           {writer: plain},
		"flush":           {writer: flush, flushes: true},
		"push":            {writer: push, flushes: true, pushes: true},
		"hijack":          {writer: hijack, flushes: true, hijacks: true},
		"read":            {writer: read, flushes: true, hijacks: true, in: true},
		"plain notifies":  {writer: plainNotifier{plain, e}, notifies: true},
		"flush notifies":  {writer: flushNotifier{flush, e}, flushes: true, notifies: true},
		"HTTP/2":          {writer: pushNotifier{push, e}, flushes: true, pushes: true, notifies: true},
		"hijack notifies": {writer: hijackNotifier{hijack, e}, flushes: true, hijacks: true, notifies: true},
		"HTTP/1":          {writer: readNotifier{read, e}, flushes: true, hijacks: true, in: true, notifies: true},
	} {
		t.Run(name, func(t *testing.T) {
			e.calls = nil
			var want []string
			s := newSite(t, failures(1))
			s.answer = func(w http.ResponseWriter, _ *http.Request) {
				flusher, ok := w.(http.Flusher)
				require.Equal(t, c.flushes, ok)
				if ok {
					flusher.Flush()
					want = append(want, "flush")
				}
				pusher, ok := w.(http.Pusher)
				require.Equal(t, c.pushes, ok)
				if ok {
					require.NoError(t, pusher.Push("/", nil))
					want = append(want, "push")
				}
				from, ok := w.(io.ReaderFrom)
				require.Equal(t, c.in, ok)
				if ok {
					_, err := from.ReadFrom(nil)
					require.NoError(t, err)
					want = append(want, "read")
				}
				notifier, ok := w.(closeNotifier)
				require.Equal(t, c.notifies, ok)
				if ok {
					notifier.CloseNotify()
					want = append(want, "notify")
				}
				hijacker, ok := w.(http.Hijacker)
				require.Equal(t, c.hijacks, ok)
				if ok {
					_, _, err := hijacker.Hijack()
					require.NoError(t, err)
					want = append(want, "hijack")
				}
				_, err := w.Write([]byte("x"))
				require.NoError(t, err)
				unwrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
				require.True(t, ok)
				require.Equal(t, c.writer, unwrapper.Unwrap())
			}
			s.ServeHTTP(c.writer, newRequest("GET /", "X-Key", "k"))
			require.Equal(t, want, e.calls)
			require.EqualValues(t, 1, s.served.Load())
		})
	}
}

// A recorder with all methods allocates no more than one with none.
func TestCharge_HandsOnWhatAWriterCanDoWithoutAllocating(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools drop items")
	}
	handler := newSite(t, failures(5)).Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
	r, e := newRequest("GET /", "X-Key", "k"), new(everything)
	allocations := func(w http.ResponseWriter) float64 {
		return testing.AllocsPerRun(1000, func() {
			clear(w.Header())
			handler.ServeHTTP(w, r)
		})
	}
	plain := plainWriter{&bareWriter{http.Header{}}}
	require.Equal(t, allocations(plain), allocations(readNotifier{readWriter{hijackWriter{flushWriter{plain, e}, e}, e}, e}))
}

// Without Charge, handlers receive the writer itself.
// Contexts of such a type must not be compared.
type listContext struct {
	context.Context
	list []int
}

func TestCharge_OfARequestWithAnyContext(t *testing.T) {
	p := per("each", "", sash.PerHour(2))
	p.Charge = func(status int) bool { return status != 200 }
	s := newSite(t, p)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Key", "a")
	r = r.WithContext(listContext{r.Context(), nil})
	for range 3 {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		require.Equal(t, 200, w.Code)
	}
}

func TestMiddleware_WrapsNoWriterThatItNeedNot(t *testing.T) {
	s := newSite(t, per("each", "", sash.PerHour(1)))
	given := http.ResponseWriter(httptest.NewRecorder())
	s.answer = func(w http.ResponseWriter, _ *http.Request) { require.Same(t, given, w) }
	s.ServeHTTP(given, newRequest("GET /", "X-Key", "k"))
	require.EqualValues(t, 1, s.served.Load())
}

// A panic after the handler changes neither its answer nor other charges.
func TestCharge_ThatPanicsStaysChargedAndHurtsNobody(t *testing.T) {
	faulty, fine := per("faulty", "", sash.PerHour(5).Log()), per("fine", "", sash.PerHour(5).Log())
	faulty.Charge = func(int) bool { panic("secret") }
	fine.Charge = func(int) bool { return false }
	faulty.ChargeUncertain, fine.ChargeUncertain = faulty.Charge, fine.Charge
	var events []string
	s := newSite(t, faulty, fine, httplimit.WithObserver(func(e httplimit.Event) {
		events = append(events, fmt.Sprintf("%s %v", e.Policy, e.Outcome))
	}))
	logged := captureLog(t)
	s.answer = func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "welcome") }
	w := s.do("GET /", "X-Key", "k")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "welcome", w.Body.String())
	require.Contains(t, logged.String(), `httplimit: panic in policy "faulty": secret`)
	require.Equal(t, []int64{4, 5}, []int64{s.left(t, "faulty"), s.left(t, "fine")})
	require.Equal(t, []string{"faulty admitted", "fine admitted", "faulty failed", "fine given back"}, events)

	s.answer = func(http.ResponseWriter, *http.Request) { panic("mine") }
	require.PanicsWithValue(t, "mine", func() { s.do("GET /", "X-Key", "k") })
	require.Equal(t, []int64{3, 5}, []int64{s.left(t, "faulty"), s.left(t, "fine")})
}

func TestCharge_IsGivenBackThoughTheObserverPanics(t *testing.T) {
	first, second := failures(5), failures(5)
	second.Name = "second"
	panics := false
	s := newSite(t, first, second, httplimit.WithObserver(func(e httplimit.Event) {
		if panics = e.Outcome == httplimit.GivenBack; panics {
			panic("secret")
		}
	}))
	logged := captureLog(t)
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.True(t, panics)
	require.Contains(t, logged.String(), "httplimit: panic in an observer or the store: secret")
	require.Equal(t, []int64{5, 5}, []int64{s.left(t, "failures"), s.left(t, "second")})
}
