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

// page returns the metrics with that prefix, and another value than 0, that a scrape reads.
func page(registry *prometheus.Registry, prefix string) string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) && !strings.HasSuffix(line, " 0\n") {
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
	fmt.Print(page(registry, "sash_decisions_total"))
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
	fmt.Print(page(registry, "sash_decisions_total"))
	// Output:
	// sash_decisions_total{limit="2/1m0s log",limiter="jobs",policy="",result="admitted"} 2
	// sash_decisions_total{limit="2/1m0s log",limiter="jobs",policy="",result="denied"} 3
}

// Policies that are refused leave the former ones in force, which nothing tells from outside but a metric.
func ExampleMetrics_ObserveReload() {
	registry := prometheus.NewRegistry()
	metrics := sashprometheus.New("api")
	policy := httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerMinute(2)}, Key: httplimit.ByAddress()}
	limiter := httplimit.Must(httplimit.New(policy, httplimit.WithObserver(metrics.Observe)))
	defer limiter.Close()
	if err := metrics.Register(registry, limiter); err != nil {
		panic(err)
	}

	policy.Limits = []sash.Limit{sash.PerMinute(3)}
	metrics.ObserveReload(limiter.Reconfigure(policy))
	policy.Limits = nil // a policy needs a limit
	metrics.ObserveReload(limiter.Reconfigure(policy))
	fmt.Print(page(registry, "sash_policy_reloads_total"))
	// Output:
	// sash_policy_reloads_total{limiter="api",result="failed"} 1
	// sash_policy_reloads_total{limiter="api",result="loaded"} 1
}
