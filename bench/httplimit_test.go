package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/go-chi/httprate"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
	"github.com/seed-30da4c49/sash/httplimit"
)

// BenchmarkMiddleware measures how much longer a handler takes with a middleware around it.
// The requests are of 1,000 clients and none is denied; or, in answer=denied, of one client
// and all but the first are. The handler sets a header and writes two bytes, without
// net/http's own part of a request. All contenders take turns in rounds.
// Garbage is collected as rarely as in a server with a larger heap. With the few megabytes
// of a benchmark, the collector would take half of the time.
//
//	go test -run '^$' -bench Middleware -cpu 1 -benchtime 301x .
func BenchmarkMiddleware(b *testing.B) {
	b.Run("answer=admitted", func(b *testing.B) { middlewareRounds(b, middlewares(b, plentyHere), 1000) })
	b.Run("answer=denied", func(b *testing.B) { middlewareRounds(b, middlewares(b, 1), 1) })
}

func middlewareRounds(b *testing.B, all []middleware, clients int) {
	const requests = 10_000 // of a turn
	defer debug.SetGCPercent(debug.SetGCPercent(1000))
	times := make([][]float64, len(all))
	handlers := make([]http.Handler, len(all))
	from, w := requestsOf(clients), newWriter()
	for i, m := range all {
		handlers[i] = m.wrap(http.HandlerFunc(answer))
		w.serve(handlers[i], from[0])
	}
	for round := range b.N {
		for _, i := range rounds.Order(len(handlers), round) {
			runtime.GC() // before the turn, so that it collects only its own garbage
			h, start := handlers[i], time.Now()
			for j := range requests {
				w.serve(h, from[j%clients])
			}
			times[i] = append(times[i], float64(time.Since(start))/requests)
		}
	}
	reportOver(b, all, times)
}

// reportOver reports how much longer each takes than the first, and the ratio of that to the
// same of the second.
func reportOver(b *testing.B, all []middleware, times [][]float64) {
	b.ReportMetric(0, "ns/op") // the time of a whole round has no meaning
	over := make([][]float64, len(all))
	for i := range all {
		for round, t := range times[i] {
			over[i] = append(over[i], t-times[0][round])
		}
		if i == 0 {
			b.ReportMetric(rounds.Median(times[0]), all[0].name+"-ns")
			continue
		}
		b.ReportMetric(rounds.Median(over[i]), "over-"+all[i].name+"-ns")
		if i > 1 {
			b.ReportMetric(rounds.Ratio(over[i], over[1]), all[i].name+"/"+all[1].name)
		}
	}
}

// TestMiddleware_CostsAtMostThreeAllocations measures requests with all headers.
func TestMiddleware_CostsAtMostThreeAllocations(t *testing.T) {
	var bare float64
	for i, m := range middlewares(t, plentyHere) {
		handler, r, w := m.wrap(http.HandlerFunc(answer)), requestsOf(1)[0], newWriter()
		allocations := testing.AllocsPerRun(1000, func() { w.serve(handler, r) })
		t.Logf("%s: %v", m.name, allocations)
		if i == 0 {
			bare = allocations
		}
		if m.name != "httprate" && allocations > bare+3 {
			t.Errorf("%s: %v allocations, and %v without", m.name, allocations, bare)
		}
	}
}

type middleware struct {
	name string
	wrap func(http.Handler) http.Handler
}

const plentyHere = 60_000 // per minute: more than a client requests

// middlewares returns the contenders. All key by the address of the connection. httprate
// sends X-RateLimit-Limit, -Remaining and -Reset. httplimit sends RateLimit-Policy and
// RateLimit, and the X- headers as well if the name ends in +X. Its limits are in parts, the default,
// unless the name says counter.
func middlewares(tb testing.TB, count int64) []middleware {
	every := httplimit.Policy{Name: "all", Key: httplimit.ByAddress(), Limits: []sash.Limit{sash.PerMinute(count).Parts()}}
	route := httplimit.Policy{Name: "api", Pattern: "GET /v1/", Key: httplimit.ByAddress(), Limits: every.Limits}
	counter := httplimit.Policy{Name: "all", Key: httplimit.ByAddress(), Limits: []sash.Limit{sash.PerMinute(count).Counter()}}
	return []middleware{
		{"bare", func(next http.Handler) http.Handler { return next }},
		{"httplimit+X", limited(tb, every, httplimit.WithXRateLimit())},
		{"httplimit", limited(tb, every)},
		{"httplimit-counter+X", limited(tb, counter, httplimit.WithXRateLimit())},
		{"httplimit-route+X", limited(tb, route, httplimit.WithXRateLimit())},
		{"httplimit-two+X", limited(tb, every, route, httplimit.WithXRateLimit())},
		{"httprate", httprate.LimitBy(int(count), time.Minute, byAddress)},
	}
}

// byAddress does what httprate's former KeyByIP did.
func byAddress(r *http.Request) (string, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return httprate.CanonicalizeIP(host), err
}

func limited(tb testing.TB, options ...httplimit.Option) func(http.Handler) http.Handler {
	l, err := httplimit.New(options...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { l.Close() })
	return l.Middleware
}

func answer(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = plain
	w.Write(ok)
}

var plain, ok = []string{"text/plain"}, []byte("ok")

func requestsOf(clients int) (requests []*http.Request) {
	for i := range clients {
		r := httptest.NewRequest(http.MethodGet, "/v1/things", nil)
		r.RemoteAddr = fmt.Sprintf("192.0.%d.%d:12345", i/256, i%256)
		requests = append(requests, r)
	}
	return requests
}

// A writer is a ResponseWriter that keeps only the header. It makes a new one for each
// request, as a server does.
type writer struct{ header http.Header }

func newWriter() *writer { return &writer{} }

func (w *writer) serve(h http.Handler, r *http.Request) {
	w.header = http.Header{}
	h.ServeHTTP(w, r)
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { return len(b), nil }
func (w *writer) WriteHeader(int)             {}
