package sashprometheus_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

// page returns the metrics of the limiter's decisions that a scrape reads.
func page(registry *prometheus.Registry) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "sash_decisions_total") && !strings.HasSuffix(line, " 0\n") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func Example() {
	registry := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	metrics := sashprometheus.New("api")
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerMinute(2)}, Key: httplimit.ByAddress()},
		httplimit.WithObserver(metrics.Observe)))
	defer limiter.Close()
	if err := metrics.Register(registry, limiter); err != nil {
		panic(err)
	}

	handler := limiter.Middleware(http.NotFoundHandler())
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	fmt.Print(page(registry))
	// Output:
	// sash_decisions_total{limit="2/1m0s log",limiter="api",policy="all",result="admitted"} 2
	// sash_decisions_total{limit="2/1m0s log",limiter="api",policy="all",result="denied"} 3
}

// A limiter without policies.
func ExampleMetrics_RegisterLimits() {
	registry := prometheus.NewRegistry()
	metrics := sashprometheus.New("jobs")
	limiter := sash.Must(sash.New(sash.PerMinute(2), sash.WithObserver(metrics.ObserveTake)))
	defer limiter.Close()
	if err := metrics.RegisterLimits(registry, limiter); err != nil {
		panic(err)
	}

	for range 5 {
		limiter.Allow("tenant")
	}
	fmt.Print(page(registry))
	// Output:
	// sash_decisions_total{limit="2/1m0s log",limiter="jobs",policy="",result="admitted"} 2
	// sash_decisions_total{limit="2/1m0s log",limiter="jobs",policy="",result="denied"} 3
}
