package promtest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

// A site is a handler behind a limiter whose metrics are registered.
type site struct {
	http.Handler
	metrics  *sashprometheus.Metrics
	registry *prometheus.Registry
	limiter  *httplimit.Limiter
}

// newSite returns a site with a policy of two limits, one that gives charges back and lets
// requests wait, one in bytes, and a shadow.
func newSite(t testing.TB) *site {
	key := httplimit.ByHeader("X-Key")
	api := httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerSecond(10).TokenBucket(5), sash.PerHour(100)}, Key: key}
	login := httplimit.Policy{Name: "login", Pattern: "POST /login", Limits: []sash.Limit{sash.PerHour(5)}, Key: key,
		Charge: func(status int) bool { return status == http.StatusUnauthorized },
		Queue:  httplimit.Queue{Wait: time.Second, Requests: 10}}
	upload := httplimit.Policy{Name: "upload", Pattern: "PUT /", Limits: []sash.Limit{sash.PerHour(1000)}, Key: key,
		Cost: func(r *http.Request) int64 { return r.ContentLength }, Settle: httplimit.SettleHeader("X-Bytes"), Unit: "bytes"}
	trial := httplimit.Policy{Name: "trial", Limits: []sash.Limit{sash.PerMinute(2)}, Key: key, Shadow: true, Near: 20}
	return newSiteOf(t, "api", api, login, upload, trial, httplimit.WithEventFingerprints(httplimit.Denied))
}

func newSiteOf(t testing.TB, name string, options ...httplimit.Option) *site {
	s := &site{metrics: sashprometheus.New(name), registry: prometheus.NewPedanticRegistry()}
	s.limiter = httplimit.Must(httplimit.New(append(options, httplimit.WithObserver(s.metrics.Observe),
		httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1))...))
	t.Cleanup(func() { s.limiter.Close() })
	require.NoError(t, s.metrics.Register(s.registry, s.limiter))
	s.Handler = s.limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bytes := r.Header.Get("X-Bytes"); bytes != "" {
			w.Header().Set("X-Bytes", bytes)
		}
		w.WriteHeader(http.StatusOK)
	}))
	return s
}

// upload serves a request that brings some bytes, and costs others.
func (s *site) upload(key string, brings, costs int) {
	r := httptest.NewRequest("PUT", "/", strings.NewReader(strings.Repeat("x", brings)))
	r.Header.Set("X-Key", key)
	r.Header.Set("X-Bytes", fmt.Sprint(costs))
	s.ServeHTTP(httptest.NewRecorder(), r)
}

// wait counts a decision under login on a request that has waited.
func (s *site) wait(outcome httplimit.Outcome, waited time.Duration) {
	s.metrics.Observe(httplimit.Event{Policy: "login", Outcome: outcome, Cost: 1, Waited: waited, Decision: sash.Decision{Limit: sash.PerHour(5)}})
}

// stir makes each metric grow that can.
func (s *site) stir() {
	s.do("GET", "/", "a", 7)
	s.upload("a", 1, 2)
	s.upload("a", 2, 1)
	s.wait(httplimit.Admitted, time.Second)
	s.metrics.ObserveReload(nil)
}

// do serves n requests of that key; the empty key is none.
func (s *site) do(method, path, key string, n int) {
	for range n {
		r := httptest.NewRequest(method, path, nil)
		if key != "" {
			r.Header.Set("X-Key", key)
		}
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// exposition returns the page of metrics.
func (s *site) exposition() string {
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

// values returns the samples of an exposition that are not 0, without comments and the label of
// the limiter.
func values(exposition string) string {
	var all strings.Builder
	for line := range strings.Lines(exposition) {
		if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, " 0\n") {
			all.WriteString(strings.NewReplacer(`{limiter="api"}`, "", `limiter="api",`, "").Replace(line))
		}
	}
	return all.String()
}

func TestMetrics_TellWhatTheLimiterDoes(t *testing.T) {
	s := newSite(t)
	s.do("GET", "/", "a", 7)       // api's bucket admits 5
	s.do("POST", "/login", "b", 2) // and gives the charges of login back
	s.do("GET", "/", "", 3)
	require.Equal(t, `sash_decisions_total{limit="",policy="api",result="unidentified"} 3
sash_decisions_total{limit="10/1s burst 5",policy="api",result="admitted"} 7
sash_decisions_total{limit="10/1s burst 5",policy="api",result="denied"} 2
sash_decisions_total{limit="2/1m0s log",policy="trial",result="admitted"} 4
sash_decisions_total{limit="2/1m0s log",policy="trial",result="shadow_denied"} 5
sash_decisions_total{limit="5/1h0m0s log",policy="login",result="admitted"} 2
sash_denied_clients_total{policy="api"} 1
sash_denied_clients_total{policy="trial"} 1
sash_keys 5
sash_limit_burst_units{limit="10/1s burst 5",policy="api"} 5
sash_limit_units{limit="10/1s burst 5",policy="api"} 10
sash_limit_units{limit="100/1h0m0s",policy="api"} 100
sash_limit_units{limit="1000/1h0m0s",policy="upload"} 1000
sash_limit_units{limit="2/1m0s log",policy="trial"} 2
sash_limit_units{limit="5/1h0m0s log",policy="login"} 5
sash_limit_window_seconds{limit="10/1s burst 5",policy="api"} 1
sash_limit_window_seconds{limit="100/1h0m0s",policy="api"} 3600
sash_limit_window_seconds{limit="1000/1h0m0s",policy="upload"} 3600
sash_limit_window_seconds{limit="2/1m0s log",policy="trial"} 60
sash_limit_window_seconds{limit="5/1h0m0s log",policy="login"} 3600
sash_near_limit_total{limit="2/1m0s log",policy="trial"} 2
sash_refunds_total{policy="login"} 2
`, values(s.exposition()))
	require.Equal(t, 1, testutil.CollectAndCount(s.metrics, "sash_limit_burst_units"), "of token buckets only")
}

// samples returns the samples of metrics whose names have that prefix.
func (s *site) samples(prefix string) string {
	var all strings.Builder
	for line := range strings.Lines(values(s.exposition())) {
		if strings.HasPrefix(line, prefix) {
			all.WriteString(line)
		}
	}
	return all.String()
}

// What is charged is 70 admitted, less 15 given back, and 20 more.
func TestMetrics_CountUnits(t *testing.T) {
	s := newSite(t)
	s.upload("a", 40, 60)
	s.upload("b", 20, 5)
	s.upload("c", 10, 10)
	s.upload("d", 1001, 0)
	require.Equal(t, `sash_units_total{limit="1000/1h0m0s",policy="upload",result="admitted",unit="bytes"} 70
sash_units_total{limit="1000/1h0m0s",policy="upload",result="denied",unit="bytes"} 1001
`, s.samples("sash_units"))
	require.Equal(t, "sash_refunded_units_total{policy=\"upload\",unit=\"bytes\"} 15\n", s.samples("sash_refunded"))
	require.Equal(t, "sash_surcharged_units_total{policy=\"upload\",unit=\"bytes\"} 20\n", s.samples("sash_surcharged"))
}

func TestMetrics_HaveTheTimeInQueues(t *testing.T) {
	s := newSite(t)
	require.Contains(t, s.exposition(), `sash_time_in_queue_seconds_count{limiter="api",policy="login",result="abandoned"} 0`)
	s.wait(httplimit.Admitted, 0) // has not waited
	s.wait(httplimit.Admitted, 20*time.Millisecond)
	s.wait(httplimit.Admitted, 2*time.Second)
	s.wait(httplimit.Admitted, 2*time.Minute)
	require.Equal(t, `sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="0.025"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="0.05"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="0.1"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="0.25"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="0.5"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="1"} 1
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="2.5"} 2
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="5"} 2
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="10"} 2
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="30"} 2
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="60"} 2
sash_time_in_queue_seconds_bucket{policy="login",result="admitted",le="+Inf"} 3
sash_time_in_queue_seconds_sum{policy="login",result="admitted"} 122.02
sash_time_in_queue_seconds_count{policy="login",result="admitted"} 3
`, s.samples("sash_time_in_queue"))
}

func TestMetrics_TellOfReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		s := newSite(t)
		require.Empty(t, s.samples("sash_policy"))
		s.metrics.ObserveReload(io.ErrUnexpectedEOF)
		require.Contains(t, s.exposition(), "\nsash_policy_last_reload_successful{limiter=\"api\"} 0\n")
		require.Equal(t, "sash_policy_reloads_total{result=\"failed\"} 1\n", s.samples("sash_policy"))
		s.metrics.ObserveReload(nil)
		require.Equal(t, `sash_policy_last_reload_success_timestamp_seconds 9.466848e+08
sash_policy_last_reload_successful 1
sash_policy_reloads_total{result="failed"} 1
sash_policy_reloads_total{result="loaded"} 1
`, s.samples("sash_policy"))
	})
}

func TestMetrics_OfALimiterWithoutPolicies(t *testing.T) {
	metrics, registry := sashprometheus.New("jobs"), prometheus.NewPedanticRegistry()
	limiter := sash.Must(sash.New(sash.PerHour(2), sash.WithClock(sash.NewManualClock(0)), sash.WithObserver(metrics.ObserveTake),
		sash.WithMaxKeys(1, sash.DenyNew)))
	defer limiter.Close()
	require.NoError(t, metrics.RegisterLimits(registry, limiter))
	for range 5 {
		limiter.Allow("a")
	}
	limiter.Allow("b") // which does not fit
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP sash_decisions_total Requests by their result under each of their policies.
# TYPE sash_decisions_total counter
sash_decisions_total{limit="",limiter="jobs",policy="",result="failed"} 0
sash_decisions_total{limit="",limiter="jobs",policy="",result="unidentified"} 0
sash_decisions_total{limit="2/1h0m0s log",limiter="jobs",policy="",result="admitted"} 2
sash_decisions_total{limit="2/1h0m0s log",limiter="jobs",policy="",result="denied"} 4
sash_decisions_total{limit="2/1h0m0s log",limiter="jobs",policy="",result="withheld"} 0
# HELP sash_refused_calls_total Calls that were denied as their key did not fit into the table.
# TYPE sash_refused_calls_total counter
sash_refused_calls_total{limiter="jobs"} 1
`), "sash_decisions_total", "sash_refused_calls_total"))
}

func TestMetrics_KeepTheConventions(t *testing.T) {
	s := newSite(t)
	s.stir()
	problems, err := testutil.GatherAndLint(s.registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestPromtool_AcceptsTheMetrics(t *testing.T) {
	promtool := lookUp(t, "promtool")
	s := newSite(t)
	s.stir()
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(s.exposition())
	out, err := check.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(bytes.TrimSpace(out)))
}

// lookUp returns the path of a program of Debian's package prometheus.
func lookUp(t *testing.T, program string) string {
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("SASH_PROMETHEUS") == "required" {
		t.Fatalf("%s is not in PATH, and SASH_PROMETHEUS=required", program)
	}
	if err != nil {
		t.Skipf("%s is not in PATH", program)
	}
	return path
}

// Whatever clients send, there are as many series as before.
func TestMetrics_AreBoundedWhateverClientsSend(t *testing.T) {
	s := newSite(t)
	series := func() int {
		n, err := testutil.GatherAndCount(s.registry)
		require.NoError(t, err)
		return n
	}
	s.do("GET", "/", "a", 6) // the first denied client adds a series
	before := series()
	for i := range 500 {
		s.do("GET", fmt.Sprint("/", i), fmt.Sprint("key ", i), 1)
	}
	require.Equal(t, before, series())
}

func TestRegister_SaysWhatIsWrong(t *testing.T) {
	s := newSite(t)
	other := newSiteOf(t, "other", httplimit.Policy{Name: "p", Limits: []sash.Limit{sash.PerHour(1)}, Key: httplimit.Everyone()})
	twin := sashprometheus.New("api")

	const again = `sashprometheus: limiter "api": the Registerer has metrics of a limiter with this name; ` +
		`register once, and give each limiter a name of its own: duplicate metrics collector registration attempted`
	for want, err := range map[string]error{
		again: s.metrics.Register(s.registry, s.limiter),
		`sashprometheus: limiter "api": these metrics are of another limiter already; make new ones for each limiter`: s.metrics.Register(prometheus.NewRegistry(), other.limiter),
		`sashprometheus: limiter "": New needs a name for the limiter`:                                                sashprometheus.New("").Register(s.registry, s.limiter),
		`sashprometheus: limiter "x": the limiter must not be nil`:                                                    sashprometheus.New("x").Register(s.registry, nil),
		`sashprometheus: limiter "y": the limiter must not be nil`:                                                    sashprometheus.New("y").RegisterLimits(s.registry, nil),
		`sashprometheus: limiter "z": the Registerer must not be nil; try prometheus.DefaultRegisterer`:               sashprometheus.New("z").Register(nil, s.limiter),
	} {
		require.EqualError(t, err, want)
	}

	err := twin.RegisterLimits(s.registry, other.limiter.Sash())
	require.EqualError(t, err, again)
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
	require.ErrorContains(t, sashprometheus.New("\xff").Register(s.registry, s.limiter), "not valid UTF-8")
}

// Several limiters share a registry, and one limiter can be in several.
func TestRegister_WorksForSeveralLimitersAndRegistries(t *testing.T) {
	a := newSite(t)
	b := newSiteOf(t, "b", httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerHour(1)}, Key: httplimit.Everyone()})
	require.NoError(t, b.metrics.Register(a.registry, b.limiter))
	b.do("GET", "/", "", 4)
	for _, s := range []*site{a, b} {
		require.Contains(t, s.exposition(), `sash_decisions_total{limit="1/1h0m0s log",limiter="b",policy="api",result="denied"} 3`)
	}
	require.True(t, a.registry.Unregister(b.metrics))
	require.NotContains(t, a.exposition(), `limiter="b"`)
	require.NoError(t, b.metrics.Register(a.registry, b.limiter))
}

func TestCollect_OfMetricsThatAreNotRegisteredIsEmpty(t *testing.T) {
	m := sashprometheus.New("api")
	m.Observe(httplimit.Event{Policy: "api"})
	m.ObserveTake("key", 1, sash.Decision{})
	require.Zero(t, testutil.CollectAndCount(m))
}

// Two goroutines count requests of one client, under a policy of two limits.
//
//	go test -run ^$ -bench Observe -cpu 1,2 .
func BenchmarkObserve(b *testing.B) {
	s := newSite(b)
	for _, result := range []httplimit.Outcome{httplimit.Admitted, httplimit.Denied} {
		b.Run("result="+result.String(), func(b *testing.B) {
			e := httplimit.Event{Policy: "api", Outcome: result, Decision: sash.Decision{Limit: sash.PerHour(100)}}
			b.ReportAllocs()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					s.metrics.Observe(e)
				}
			})
		})
	}
}
