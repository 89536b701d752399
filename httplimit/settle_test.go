package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// settled returns a policy of 10,000 units an hour whose estimate is 10.
func settled(settle func(*httplimit.Response) int64) httplimit.Policy {
	p := per("p", "", sash.PerHour(10_000))
	p.Cost = func(*http.Request) int64 { return 10 }
	p.Settle = settle
	return p
}

// spent returns what one request of the client k, with that handler, is charged.
func spent(t *testing.T, method string, p httplimit.Policy, answer http.HandlerFunc) int64 {
	s := newSite(t, p)
	s.answer = answer
	func() {
		defer func() { _ = recover() }() // some handlers panic
		s.do(method+" /", "X-Key", "k")
	}()
	require.EqualValues(t, 1, s.served.Load())
	return 10_000 - s.left(t, "p")
}

func TestSettle_ByTheResponse(t *testing.T) {
	text := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("four"))
		_, _ = io.WriteString(w, "fives")
	}
	header := func(values ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Cost"] = values
			w.WriteHeader(204)
		}
	}
	twice := func(r *httplimit.Response) int64 {
		return 2*r.Estimate + int64(r.Status) + int64(len(r.Request.URL.Path))
	}
	for name, c := range map[string]struct {
		settle func(*httplimit.Response) int64
		answer http.HandlerFunc
		want   int64
	}{
		"bytes":             {httplimit.SettleBytes(), text, 9},
		"bytes of a copy":   {httplimit.SettleBytes(), func(w http.ResponseWriter, _ *http.Request) { io.Copy(w, strings.NewReader("eleven char")) }, 11},
		"bytes beyond":      {httplimit.SettleBytes(), func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1234)) }, 1234},
		"no bytes":          {httplimit.SettleBytes(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }, 0},
		"header":            {httplimit.SettleHeader("x-cost"), header(" 37 "), 37},
		"header, 0":         {httplimit.SettleHeader("X-Cost"), header("0"), 0},
		"header, absent":    {httplimit.SettleHeader("X-Cost"), header(), 10},
		"header, malformed": {httplimit.SettleHeader("X-Cost"), header("1e3"), 10},
		"header, negative":  {httplimit.SettleHeader("X-Cost"), header("-5"), 10},
		"header, too large": {httplimit.SettleHeader("X-Cost"), header("99999999999999999999"), 10_000},
		"header, an announced trailer": {httplimit.SettleHeader("x-cost"), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			w.Header().Set(http.TrailerPrefix+"X-Cost", "37")
		}, 37},
		"estimate": {httplimit.SettleEstimate(), text, 10},
		"own":      {twice, text, 20 + 200 + 1},
		"negative": {func(*httplimit.Response) int64 { return math.MinInt64 }, text, 10},
		"panics":   {func(*httplimit.Response) int64 { panic("on purpose") }, text, 10},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, spent(t, "GET", settled(c.settle), c.answer))
		})
	}
}

// The client of a HEAD request is sent no body.
func TestSettle_AHeadHasNoBytes(t *testing.T) {
	require.Zero(t, spent(t, "HEAD", settled(httplimit.SettleBytes()), func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("body")) }))
}

// An http.TimeoutHandler around the middleware takes a body that net/http drops afterwards.
func TestSettle_AResponseThatMayHaveNoBodyHasNoBytes(t *testing.T) {
	for _, status := range []int{204, 304} {
		s := newSite(t, settled(httplimit.SettleBytes()))
		s.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			w.Write([]byte("body"))
		}
		http.TimeoutHandler(s, time.Hour, "").ServeHTTP(httptest.NewRecorder(), newRequest("GET /", "X-Key", "k"))
		require.EqualValues(t, 1, s.served.Load())
		require.EqualValues(t, 10_000, s.left(t, "p"), status)
	}
}

// A response that is cut short costs the estimate at least, and what was written.
func TestSettle_UncertainResponsesCostTheEstimateAtLeast(t *testing.T) {
	writes := func(n int, then func()) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, n)); then() }
	}
	fails := func() { panic("on purpose") }
	for name, c := range map[string]struct {
		settle func(*httplimit.Response) int64
		answer http.HandlerFunc
		want   int64
	}{
		"panic":       {httplimit.SettleBytes(), writes(1, fails), 10},
		"panic, more": {httplimit.SettleBytes(), writes(1000, fails), 1000},
		"abort":       {httplimit.SettleBytes(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 10},
		"nothing":     {httplimit.SettleBytes(), func(http.ResponseWriter, *http.Request) {}, 10},
		"header": {httplimit.SettleHeader("X-Cost"), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Cost", "37")
			fails()
		}, 37},
		"negative": {func(*httplimit.Response) int64 { return -1 }, writes(1000, fails), 10},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, spent(t, "GET", settled(c.settle), c.answer))
		})
	}
}

// A client that half-closes its connection is sent the response all the same, and one that leaves is
// sent a part of it.
func TestSettle_AClientThatHangsUpPaysForWhatItWasSent(t *testing.T) {
	for name, hangUp := range map[string]func(w *wire) (received int64, err error){
		"half-closes": func(w *wire) (int64, error) {
			if err := w.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				return 0, err
			}
			return io.Copy(io.Discard, w.in)
		},
		"leaves": func(w *wire) (received int64, err error) {
			received, err = io.CopyN(io.Discard, w.in, 20<<20)
			return received, errors.Join(err, w.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := settled(httplimit.SettleBytes())
			p.Key, p.Limits = httplimit.Everyone(), []sash.Limit{sash.PerHour(1 << 30)}
			s, done := newSite(t, p), make(chan struct{})
			s.answer = large(200)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(done)
				s.ServeHTTP(w, r)
			}))
			defer server.Close()
			w := dial(t, server)
			_, err := io.WriteString(w, "GET / HTTP/1.0\r\n\r\n") // so that the body is not chunked
			require.NoError(t, err)
			received, err := hangUp(w)
			require.NoError(t, err)
			require.GreaterOrEqual(t, received, int64(20<<20))
			<-done
			key, _ := s.KeyFor("p", &http.Request{})
			const headers = 1 << 10
			require.LessOrEqual(t, s.Sash().Peek(key, 0).Remaining, int64(1<<30)-received+headers)
		})
	}
}

// A handler of net/http that writes nothing has answered 200. So a login that succeeds like that
// is not charged like one that has failed.
func TestCharge_AHandlerThatWritesNothingHasAnswered200(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		s := newSite(t, loginPolicy())
		s.answer = func(http.ResponseWriter, *http.Request) {}
		server := httptest.NewUnstartedServer(s)
		if server.EnableHTTP2 = http2; http2 {
			server.StartTLS()
		} else {
			server.Start()
		}
		defer server.Close()
		for range 20 {
			response, err := server.Client().Post(server.URL+"/login", "", nil)
			require.NoError(t, err)
			require.Equal(t, 200, response.StatusCode)
			require.NoError(t, response.Body.Close())
		}
	}
}

// A writer of another package may write the response where httplimit does not see it, or 200 if
// the handler writes nothing. The charge stays, and is reported.
func TestCharge_StaysAndIsReportedIfAWriterOfAnotherPackageShowsNoResponse(t *testing.T) {
	type foreign struct{ http.ResponseWriter }
	var outcomes []httplimit.Outcome
	s := newSite(t, loginPolicy(), httplimit.WithObserver(func(e httplimit.Event) {
		require.Equal(t, "login", e.Policy)
		outcomes = append(outcomes, e.Outcome)
	}))
	post := func(ctx context.Context, answer http.HandlerFunc) {
		s.answer = answer
		defer func() { _ = recover() }()
		s.ServeHTTP(foreign{httptest.NewRecorder()}, httptest.NewRequestWithContext(ctx, "POST", "/login", nil))
	}
	nothing := func(http.ResponseWriter, *http.Request) {}
	post(t.Context(), nothing)
	require.Equal(t, []httplimit.Outcome{httplimit.Admitted, httplimit.Unseen}, outcomes)
	key, _ := s.KeyFor("login", httptest.NewRequest("POST", "/login", nil))
	require.EqualValues(t, 4, s.Sash().Peek(key, 0).Remaining)

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, after := range map[string]func(){
		"written":    func() { post(t.Context(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }) },
		"a panic":    func() { post(t.Context(), func(http.ResponseWriter, *http.Request) { panic("on purpose") }) },
		"a hang-up":  func() { post(gone, nothing) },
		"given back": func() { post(t.Context(), func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }) },
	} {
		outcomes = nil
		after()
		require.NotContains(t, outcomes, httplimit.Unseen, name)
	}
}

func TestChargeOf_TheHandlerSaysTheCost(t *testing.T) {
	type charge = httplimit.Charge
	refundsAll := func(int) bool { return false }
	for name, c := range map[string]struct {
		charge func(int) bool // of the policy
		say    func(*charge)
		want   int64
		panics int64 // what is wanted if the handler then panics, so that Charge is not asked
	}{
		"nothing":                {nil, func(*charge) {}, 10, 10},
		"commit":                 {nil, func(c *charge) { c.Commit(7) }, 7, 7},
		"commit more":            {nil, func(c *charge) { c.Commit(700) }, 700, 700},
		"commit a negative":      {nil, func(c *charge) { c.Commit(-1) }, 0, 0},
		"cancel":                 {nil, (*charge).Cancel, 0, 0},
		"add":                    {nil, func(c *charge) { c.Add(5) }, 15, 15},
		"add twice":              {nil, func(c *charge) { c.Add(5); c.Add(-2) }, 13, 13},
		"add less than nothing":  {nil, func(c *charge) { c.Add(-50) }, 0, 0},
		"cancel, then add":       {nil, func(c *charge) { c.Cancel(); c.Add(3) }, 3, 3},
		"the last holds":         {nil, func(c *charge) { c.Cancel(); c.Commit(4) }, 4, 4},
		"keep":                   {refundsAll, (*charge).Keep, 10, 10},
		"keep, then add":         {refundsAll, func(c *charge) { c.Keep(); c.Add(1) }, 11, 11},
		"not kept":               {refundsAll, func(*charge) {}, 0, 10},
		"not kept, but added to": {refundsAll, func(c *charge) { c.Add(2) }, 2, 12},
		"estimate":               {refundsAll, func(c *charge) { c.Commit(2 * c.Estimate()) }, 20, 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := settled(httplimit.SettleEstimate())
			p.Charge = c.charge
			says := func(w http.ResponseWriter, r *http.Request) {
				c.say(httplimit.ChargeOf(r.Context(), "p"))
				w.WriteHeader(200)
			}
			require.Equal(t, c.want, spent(t, "GET", p, says))
			require.Equal(t, c.panics, spent(t, "GET", p, func(w http.ResponseWriter, r *http.Request) {
				says(w, r)
				panic("on purpose")
			}))
		})
	}
}

// A handler works without a limiter, and does not find what is not there.
func TestChargeOf_IsNilWithoutSuchACharge(t *testing.T) {
	plain, charged := per("plain", "", sash.PerHour(5)), failures(5)
	skipped := settled(httplimit.SettleEstimate())
	skipped.Name, skipped.Skip = "skipped", func(*http.Request) bool { return true }
	s := newSite(t, plain, charged, skipped, settled(httplimit.SettleEstimate()))
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"plain", "failures", "skipped", "unknown", ""} {
			require.Nil(t, httplimit.ChargeOf(r.Context(), name), name)
		}
		require.NotNil(t, httplimit.ChargeOf(r.Context(), "p"))
	}
	s.do("GET /", "X-Key", "k")
	require.EqualValues(t, 1, s.served.Load())

	c := httplimit.ChargeOf(t.Context(), "p")
	require.Nil(t, c)
	c.Commit(1)
	c.Cancel()
	c.Keep()
	c.Add(1)
	require.Zero(t, c.Estimate())
	var none *httplimit.Charges
	none.Settle(httplimit.Response{})
	require.Equal(t, t.Context(), none.Context(t.Context()))
}

// A handler behind two limiters finds the charges of both.
func TestChargeOf_FindsTheChargesOfLimitersAround(t *testing.T) {
	inner, outer := newSite(t, settled(httplimit.SettleEstimate())), newSite(t, func() httplimit.Option {
		p := settled(httplimit.SettleEstimate())
		p.Name = "outer"
		return p
	}())
	outer.answer = inner.ServeHTTP
	inner.answer = func(w http.ResponseWriter, r *http.Request) {
		httplimit.ChargeOf(r.Context(), "p").Commit(1)
		httplimit.ChargeOf(r.Context(), "outer").Commit(2)
		w.WriteHeader(200)
	}
	require.Equal(t, 200, outer.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 9999, inner.left(t, "p"))
	require.EqualValues(t, 9998, outer.left(t, "outer"))
}

// A transport may make several contexts of the same charges, one of another, and at the same time.
func TestChargeOf_EndsInEachContextOfTheSameCharges(t *testing.T) {
	v := newSite(t, settled(httplimit.SettleEstimate())).Decide(nil, newRequest("GET /", "X-Key", "k"))
	var made [2]context.Context
	var g sync.WaitGroup
	for i := range made {
		g.Go(func() { made[i] = v.Charges.Context(v.Charges.Context(t.Context())) })
	}
	g.Wait()
	for _, ctx := range made {
		require.NotNil(t, httplimit.ChargeOf(ctx, "p"))
		require.Nil(t, httplimit.ChargeOf(ctx, "another"))
	}
}

// A cost above the quota is charged all the same, and must be paid off.
func TestSettle_MayExceedTheQuota(t *testing.T) {
	p := settled(httplimit.SettleEstimate())
	p.Limits = []sash.Limit{sash.PerHour(100).Log()}
	s := newSite(t, p)
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		httplimit.ChargeOf(r.Context(), "p").Commit(250)
		w.WriteHeader(200)
	}
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
}

func TestSettle_TakesEffectOnce(t *testing.T) {
	settlements := 0
	s := newSite(t, settled(httplimit.SettleBytes()), httplimit.WithObserver(func(e httplimit.Event) {
		if e.Outcome == httplimit.Settled {
			settlements++
		}
	}))
	v := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, httplimit.Admitted, v.Outcome)
	v.Charges.Settle(httplimit.Response{Status: 200, Bytes: 3})
	v.Charges.Settle(httplimit.Response{Status: 200, Bytes: 300})
	require.EqualValues(t, 9997, s.left(t, "p"))
	require.Equal(t, 1, settlements)
}

// The writer of a real server takes a copy by ReadFrom.
func TestSettle_CountsWhatIsCopied(t *testing.T) {
	s := newSite(t, settled(httplimit.SettleBytes()))
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		n, err := w.(io.ReaderFrom).ReadFrom(strings.NewReader("eleven char"))
		require.NoError(t, err)
		require.EqualValues(t, 11, n)
	}
	done := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		s.ServeHTTP(w, r)
	}))
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, nil)
	require.NoError(t, err)
	r.Header.Set("X-Key", "k")
	response, err := server.Client().Do(r)
	require.NoError(t, err)
	response.Body.Close()
	<-done
	require.EqualValues(t, 9989, s.left(t, "p"))
}

func TestSettle_IsObserved(t *testing.T) {
	var events []httplimit.Event
	s := newSite(t, settled(httplimit.SettleEstimate()),
		httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }), httplimit.WithEventIdentities())
	for _, cost := range []int64{25, 10, 0} {
		s.answer = func(w http.ResponseWriter, r *http.Request) {
			httplimit.ChargeOf(r.Context(), "p").Commit(cost)
			w.WriteHeader(200)
		}
		s.do("GET /", "X-Key", "k")
	}
	type seen struct {
		outcome  httplimit.Outcome
		cost     int64
		identity string
	}
	var got []seen
	for _, e := range events {
		got = append(got, seen{e.Outcome, e.Cost, e.Identity})
	}
	require.Equal(t, []seen{
		{httplimit.Admitted, 10, "k"}, {httplimit.Settled, 25, "k"},
		{httplimit.Admitted, 10, "k"},
		{httplimit.Admitted, 10, "k"}, {httplimit.GivenBack, 10, "k"},
	}, got)
}

func TestSettle_OfAStore(t *testing.T) {
	store := new(localStore)
	s := newStoreSite(t, store, settled(httplimit.SettleBytes()))
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("seven b")) }
	s.do("GET /", "X-Key", "k")
	require.Equal(t, []string{"reserve p\x00k", "commit p\x00k 7"}, store.calls)
	require.EqualValues(t, 9993, store.Limiter.Peek("p\x00k", 0).Remaining)
}

// A frailWriter is the ResponseWriter of one request, which may be hijacked, and whose writes
// may fail.
type frailWriter struct {
	http.ResponseWriter
	broken bool
}

var errBroken = errors.New("the client has gone")

func (w *frailWriter) Write(b []byte) (int, error) {
	if w.broken {
		return 0, errBroken
	}
	return w.ResponseWriter.Write(b)
}

func (w *frailWriter) Flush() {}

func (w *frailWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	here, there := net.Pipe()
	there.Close()
	return here, nil, nil
}

// After many requests that end in all ways, exactly what they have cost is charged.
func TestSettle_ChargesToTheUnit(t *testing.T) {
	const requests, workers, estimate = 100_000, 8, 10
	l := newSite(t, httplimit.Policy{
		Name: "p", Limits: []sash.Limit{sash.PerHour(1 << 40)}, Key: httplimit.ByHeader("X-Key"),
		Cost:   func(*http.Request) int64 { return estimate },
		Charge: func(status int) bool { return status != 500 },
		Settle: httplimit.SettleBytes(),
	})
	var mu sync.Mutex
	totals := make(map[string]int64)
	var g sync.WaitGroup
	for worker := range workers {
		g.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 17))
			for range requests / workers {
				key := strconv.Itoa(random.IntN(10))
				cost := serveSomehow(l.Limiter, key, estimate, random)
				mu.Lock()
				totals[key] += cost
				mu.Unlock()
			}
		})
	}
	g.Wait()
	for key, total := range totals {
		of, ok := l.KeyFor("p", newRequest("GET /", "X-Key", key))
		require.True(t, ok)
		require.Equal(t, total, 1<<40-l.Sash().Peek(of, 0).Remaining, "client %s", key)
	}
}

// serveSomehow serves a request that ends in one of several ways, and returns what it costs.
func serveSomehow(l *httplimit.Limiter, key string, estimate int64, random *rand.Rand) (cost int64) {
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	r := newRequest("GET /", "X-Key", key).WithContext(ctx)
	w := &frailWriter{ResponseWriter: httptest.NewRecorder()}
	size, says := random.IntN(1000), random.IntN(3) == 0
	answer := func(w http.ResponseWriter, r *http.Request) { w.Write(make([]byte, size)) }
	switch random.IntN(7) {
	case 0: // it is answered in several writes
		answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Write(make([]byte, size/3))
			io.WriteString(w, strings.Repeat("x", size-size/3))
		}
		cost = int64(size)
	case 1:
		cost = int64(size)
	case 2: // it fails, which Charge gives back
		answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); w.Write(make([]byte, size)) }
	case 3: // the handler panics in the middle
		answer = func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)); panic("on purpose") }
		cost = max(estimate, int64(size))
	case 4: // the connection is hijacked
		answer = func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := w.(http.Hijacker).Hijack()
			conn.Close()
		}
		cost = estimate
	case 5: // the client hangs up
		answer = func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, size)); hangUp() }
		cost = max(estimate, int64(size))
	case 6: // a write fails
		w.broken = true
		cost = estimate
	}
	serve := answer
	if says {
		cost = int64(size) + 3
		answer = func(w http.ResponseWriter, r *http.Request) {
			httplimit.ChargeOf(r.Context(), "p").Commit(int64(size))
			httplimit.ChargeOf(r.Context(), "p").Add(3)
			serve(w, r)
		}
	}
	defer func() { _ = recover() }()
	l.Middleware(http.HandlerFunc(answer)).ServeHTTP(w, r)
	return cost
}

// A request costs what its handler adds, too, if an observer panics that is told of a panic in the policy.
func TestSettle_APanicOfTheObserverOfAPanic(t *testing.T) {
	p := per("api", "", sash.PerHour(10).Log())
	p.Settle = func(*httplimit.Response) int64 { panic("of a test") }
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) {
		if e.Outcome == httplimit.Failed {
			panic("of the observer")
		}
	}))
	s.answer = func(_ http.ResponseWriter, r *http.Request) { httplimit.ChargeOf(r.Context(), "api").Add(2) }
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 7, s.left(t, "api"))
}
