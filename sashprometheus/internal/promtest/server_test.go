package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

// A server is a Prometheus that scrapes a registry every 100 ms. It ends with the test.
type server struct {
	t   *testing.T
	api string
	log string // a file
}

func startServer(t *testing.T, s *site) *server {
	binary := lookUp(t, "prometheus")
	target := httptest.NewServer(promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	t.Cleanup(func() {
		target.CloseClientConnections()
		target.Close()
	})
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 100ms, scrape_timeout: 100ms}
scrape_configs:
  - job_name: sash
    static_configs: [{targets: [%q]}]
`, target.Listener.Addr()), 0o600))

	address := freeAddress(t)
	p := &server{t, "http://" + address + "/api/v1/query", filepath.Join(dir, "log")}
	log, err := os.Create(p.log)
	require.NoError(t, err)
	process := exec.Command(binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", address)
	process.Stdout, process.Stderr = log, log
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
		log.Close()
	})
	p.until("1", `max(up)`)
	return p
}

// freeAddress returns an address on the loopback interface that is free now.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// until waits until the only sample of a query is the one wanted.
func (p *server) until(want, query string) {
	p.wait(query, func(samples []string) bool { return len(samples) == 1 && samples[0] == want })
}

// wait waits until a query has the samples that are wanted.
func (p *server) wait(query string, wanted func(samples []string) bool) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	var latest []string
	for {
		samples, err := p.query(ctx, query)
		if err == nil && wanted(samples) {
			return
		}
		if err == nil {
			latest = samples
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(p.log)
			p.t.Fatalf("%s: %v, %v\n%s", query, latest, err, log)
		}
	}
}

// query returns the samples of a query at this moment.
func (p *server) query(ctx context.Context, query string) (samples []string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.api+"?query="+url.QueryEscape(query), nil)
	if err != nil {
		return nil, err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil {
		return nil, err
	}
	if w.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", w.Status, body)
	}
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Data.Result {
		samples = append(samples, fmt.Sprint(r.Value[1]))
	}
	return samples, nil
}

func TestPrometheus_ScrapesTheMetrics(t *testing.T) {
	t.Parallel() // a Prometheus finds its targets after 5 s
	s := newSite(t)
	p := startServer(t, s)
	s.do("GET", "/", "a", 7)
	s.do("POST", "/login", "b", 2)
	p.until("2", `sum(sash_decisions_total{limiter="api",policy="api",result="denied"})`)
	p.until("9", `sum(sash_decisions_total{policy="trial"})`)
	p.until("2", `sash_refunds_total{policy="login"}`)
	p.until("5", `sash_keys`)
	// What a key may take in a second, joined by the labels that both metrics have.
	p.until("10", `sash_limit_units{policy="api",limit="10/1s burst 5"} / on (limiter, policy, limit) sash_limit_window_seconds`)
	s.do("GET", "/", "a", 1000)
	p.until("1002", `sum(sash_decisions_total{policy="api",result="denied"})`)
}

// Each query of the dashboard has an answer in a real server.
func TestPrometheus_AnswersTheDashboard(t *testing.T) {
	t.Parallel() // a Prometheus finds its targets after 5 s
	s, d := newSite(t), readDashboard(t)
	stored := newStoreSite(t)
	require.NoError(t, stored.metrics.Register(s.registry, stored.limiter))
	p := startServer(t, s)
	for _, expr := range d.expressions() {
		p.wait(expr, func(samples []string) bool {
			s.stir() // a rate needs an increase
			stored.do("GET", "/", "a", 1)
			return len(samples) > 0 && strings.Join(samples, "") != "NaN"
		})
	}
}

// newStoreSite returns a site whose store never decides.
func newStoreSite(t testing.TB) *site {
	s := &site{metrics: sashprometheus.New("fleet"), registry: prometheus.NewPedanticRegistry()}
	s.limiter = httplimit.Must(httplimit.New(httplimit.Policy{Name: "shared", Limits: []sash.Limit{sash.PerHour(5)}, Key: httplimit.Everyone()},
		httplimit.WithObserver(s.metrics.Observe),
		httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return absent{}, nil })))
	require.NoError(t, s.metrics.Register(s.registry, s.limiter))
	s.Handler = s.limiter.Middleware(http.NotFoundHandler())
	return s
}

// absent is a store that cannot be reached. Its fallback admits.
type absent struct{}

func (absent) Take(_ context.Context, _ []string, _ int64, _ []int64) httplimit.StoreDecision {
	d := sash.Decision{Allowed: true, Limit: sash.PerHour(5)}
	return httplimit.StoreDecision{Decision: d, Keys: []httplimit.KeyDecision{{Decision: d}}, By: "fallback", Err: io.ErrUnexpectedEOF}
}

func (a absent) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return a.Take(ctx, keys, n, leave)
}

func (a absent) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return a.Take(ctx, keys, n, leave)
}

func (absent) Wait(context.Context, string, int64) error { return nil }
func (absent) Close() error                              { return nil }

func TestMetrics_TellThatTheStoreDoesNotDecide(t *testing.T) {
	s := newStoreSite(t)
	s.do("GET", "/", "a", 3)
	text := s.exposition()
	require.Contains(t, text, `sash_store_errors_total{limiter="fleet",policy="shared"} 3`)
	require.Contains(t, text, `sash_decisions_total{limit="5/1h0m0s log",limiter="fleet",policy="shared",result="admitted"} 3`)
	require.NotContains(t, text, "sash_keys", "the keys are elsewhere")
}
