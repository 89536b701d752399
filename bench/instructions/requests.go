package main

import (
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// requestRows returns the rows of requests through httplimit, with the handler, which writes two
// bytes.
func requestRows() []row {
	return []row{
		requests("one policy", false, onePolicy), requests("one policy, denied", true, onePolicy),
		requests("two policies", false, twoPolicies), requests("two policies, denied", true, twoPolicies),
		requests("observed", false, observed), requests("observed, denied", true, observed),
	}
}

// onePolicy returns a policy that admits count requests an hour.
func onePolicy(count int64, _ *tally.Tally) []httplimit.Option {
	return []httplimit.Option{httplimit.Policy{
		Name: "all", Limits: []sash.Limit{sash.PerHour(count).Counter()}, Key: httplimit.ByAddress(),
	}}
}

// observed returns one policy, with metrics and a page of offenders. The modules with metrics call a
// tally.Tally.
func observed(count int64, metrics *tally.Tally) []httplimit.Option {
	page := &offenders.Page{Clock: sash.NewManualClock(0)}
	return append(onePolicy(count, nil),
		httplimit.WithObserver(func(e httplimit.Event) { metrics.Observe(&e) }), httplimit.WithObserver(page.Observe),
		httplimit.WithEventFingerprints(httplimit.Denied))
}

// twoPolicies returns two policies with different keys. One admits count requests an hour, the other a day.
func twoPolicies(count int64, _ *tally.Tally) []httplimit.Option {
	return append(onePolicy(count, nil), httplimit.Policy{
		Name: "api", Pattern: "/api/", Limits: []sash.Limit{sash.PerDay(count).Counter()}, Key: httplimit.ByHeader("X-Key"),
	})
}

// requests returns the row of requests of one client, whose keys are tracked.
func requests(name string, denies bool, policies func(count int64, metrics *tally.Tally) []httplimit.Option) row {
	return row{name: "httplimit, " + name, denies: denies, prepare: func() func() int {
		count := int64(2 * callsARow)
		if denies {
			count = 1
		}
		clock, metrics := sash.NewManualClock(int64(1000*24*time.Hour)), new(tally.Tally)
		l := httplimit.Must(httplimit.New(append(policies(count, metrics), httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))...))
		if err := metrics.WatchPolicies(l); err != nil {
			panic(err) // metrics are of no other limiter
		}
		handler := l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("ok"))
		}))
		r, err := http.NewRequest(http.MethodGet, "http://example.com/api/orders", nil)
		if err != nil {
			panic(err) // the request is a constant
		}
		r.RemoteAddr = "192.0.2.7:1234"
		r.Header.Set("X-Key", "abc")
		serve(handler, r)
		return func() (admitted int) {
			for range callsARow {
				if serve(handler, r) {
					admitted++
				}
			}
			return admitted
		}
	}}
}

// serve has handler answer r, and reports whether the request was admitted.
func serve(handler http.Handler, r *http.Request) bool {
	w := writer{header: make(http.Header, 8), status: http.StatusOK}
	handler.ServeHTTP(&w, r)
	return w.status == http.StatusOK
}

// A writer keeps the header and the status of an answer.
type writer struct {
	header http.Header
	status int
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) Write(b []byte) (int, error) { return len(b), nil }
func (w *writer) WriteHeader(status int)      { w.status = status }
