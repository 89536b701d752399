package offenders_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// send sends n requests from an address to a handler.
func send(h http.Handler, n int, address string) {
	for range n {
		r := httptest.NewRequest("POST", "/login", nil)
		r.RemoteAddr = address
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func Example() {
	page := &offenders.Page{Name: offenders.Address} // without Name, it shows fingerprints
	limiter := httplimit.Must(httplimit.New(
		httplimit.WithObserver(page.Observe),
		httplimit.WithEventIdentities(httplimit.Denied),
		httplimit.Policy{Name: "login", Pattern: "POST /login", Limits: []sash.Limit{sash.PerHour(5)}, Key: httplimit.ByAddress()},
	))
	defer limiter.Close()
	site := limiter.Middleware(http.NotFoundHandler())

	operators := http.NewServeMux() // on an address that only operators reach
	operators.Handle("/debug/offenders", page)

	send(site, 12, "203.0.113.7:1024")
	send(site, 105, "[2001:db8::1]:1024")
	send(site, 5, "198.51.100.1:1024")
	for _, c := range page.Report().Clients {
		fmt.Println(c.Policy, "has denied", c.Name, c.Denials, "times")
	}
	// Output:
	// login has denied 2001:db8::/64 100 times
	// login has denied 203.0.113.7 7 times
}

func ExampleLog() {
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	clock := sash.NewManualClock(0)
	log := &offenders.Log{
		Logger: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		Name:   offenders.Address,
		Clock:  clock,
	}
	limiter := httplimit.Must(httplimit.New(
		httplimit.WithClock(clock),
		httplimit.WithObserver(log.Observe),
		httplimit.WithEventIdentities(httplimit.Denied),
		httplimit.Policy{Name: "login", Limits: []sash.Limit{sash.PerHour(5)}, Key: httplimit.ByAddress()},
	))
	defer limiter.Close()
	site := limiter.Middleware(http.NotFoundHandler())

	send(site, 1000, "203.0.113.7:1024")
	// Output:
	// level=INFO msg="request denied" policy=login limit="5/1h0m0s log" client=203.0.113.7 retry_after=1h0m0s
}
