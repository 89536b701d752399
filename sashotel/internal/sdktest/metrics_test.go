package sdktest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashotel"
)

// A site is a handler behind a limiter whose metrics are registered.
type site struct {
	http.Handler
	metrics  *sashotel.Metrics
	provider *sdk.MeterProvider
	reader   *sdk.ManualReader
	limiter  *httplimit.Limiter
}

// newSite returns a site with a policy of two limits, one that gives charges back and lets
// requests wait, one in bytes, and a shadow.
func newSite(t testing.TB, options ...httplimit.Option) *site {
	s := &site{metrics: sashotel.New("api"), reader: sdk.NewManualReader()}
	s.provider = sdk.NewMeterProvider(sdk.WithReader(s.reader))
	key := httplimit.ByHeader("X-Key")
	api := httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerSecond(10).TokenBucket(5), sash.PerHour(100)}, Key: key}
	login := httplimit.Policy{Name: "login", Pattern: "POST /login", Limits: []sash.Limit{sash.PerHour(5)}, Key: key,
		Charge: func(status int) bool { return status == http.StatusUnauthorized },
		Queue:  httplimit.Queue{Wait: time.Second, Requests: 10}}
	upload := httplimit.Policy{Name: "upload", Pattern: "PUT /", Limits: []sash.Limit{sash.PerHour(1000)}, Key: key,
		Cost: func(*http.Request) int64 { return 40 }, Settle: httplimit.SettleHeader("X-Bytes"), Unit: "bytes"}
	trial := httplimit.Policy{Name: "trial", Limits: []sash.Limit{sash.PerMinute(2)}, Key: key, Shadow: true}
	s.limiter = httplimit.Must(httplimit.New(append(options, api, login, upload, trial, httplimit.WithEventFingerprints(httplimit.Denied), httplimit.WithObserver(s.metrics.Observe))...))
	t.Cleanup(func() { s.limiter.Close() })
	require.NoError(t, s.metrics.Register(s.provider, s.limiter))
	s.Handler = s.limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if bytes := r.Header.Get("X-Key"); r.Method == http.MethodPut {
			w.Header().Set("X-Bytes", bytes)
		}
		w.WriteHeader(http.StatusOK)
	}))
	return s
}

func onAManualClock() []httplimit.Option {
	return []httplimit.Option{httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1)}
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

// collect returns the metrics of a collection.
func collect(t testing.TB, reader *sdk.ManualReader) (all []metricdata.Metrics) {
	var data metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &data))
	for _, scope := range data.ScopeMetrics {
		require.Equal(t, "github.com/seed-30da4c49/sash/sashotel", scope.Scope.Name)
		all = append(all, scope.Metrics...)
	}
	return all
}

// points returns the data points as lines without the namespace, sorted. zeros tells whether to
// include values of 0.
func points(metrics []metricdata.Metrics, zeros bool) string {
	var lines []string
	add := func(m metricdata.Metrics, attributes attribute.Set, kind string, value any) {
		if zeros || fmt.Sprint(value) != "0" {
			line := fmt.Sprintf("%s %s %s {%s} %v", kind, m.Name, m.Unit, attributes.Encoded(attribute.DefaultEncoder()), value)
			lines = append(lines, strings.ReplaceAll(line, "sash.rate_limiting.", ""))
		}
	}
	for _, m := range metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			kind := "updown"
			if data.IsMonotonic {
				kind = "counter"
			}
			for _, p := range data.DataPoints {
				add(m, p.Attributes, kind, p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				add(m, p.Attributes, "histogram", fmt.Sprint(p.Sum, p.Bounds, p.BucketCounts))
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				add(m, p.Attributes, "gauge", p.Value)
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				add(m, p.Attributes, "gauge", p.Value)
			}
		default:
			panic(fmt.Sprintf("%T", data))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestMetrics_TellWhatTheLimiterDoes(t *testing.T) {
	s := newSite(t, onAManualClock()...)
	s.do("GET", "/", "a", 7)       // api's bucket admits 5
	s.do("POST", "/login", "b", 2) // and gives the charges of login back
	s.do("GET", "/", "", 3)
	require.Equal(t, `counter denied_clients {client} {limiter=api,policy=api} 1
counter denied_clients {client} {limiter=api,policy=trial} 1
counter refunds {request} {limiter=api,policy=login} 2
counter requests {request} {limit=10/1s burst 5,limiter=api,policy=api,result=admitted} 7
counter requests {request} {limit=10/1s burst 5,limiter=api,policy=api,result=denied} 2
counter requests {request} {limit=2/1m0s log,limiter=api,policy=trial,result=admitted} 4
counter requests {request} {limit=2/1m0s log,limiter=api,policy=trial,result=shadow_denied} 5
counter requests {request} {limit=5/1h0m0s log,limiter=api,policy=login,result=admitted} 2
counter requests {request} {limiter=api,policy=api,result=unidentified} 3
gauge limit.burst {unit} {limit=10/1s burst 5,limiter=api,policy=api} 5
gauge limit.units {unit} {limit=10/1s burst 5,limiter=api,policy=api} 10
gauge limit.units {unit} {limit=100/1h0m0s,limiter=api,policy=api} 100
gauge limit.units {unit} {limit=1000/1h0m0s,limiter=api,policy=upload} 1000
gauge limit.units {unit} {limit=2/1m0s log,limiter=api,policy=trial} 2
gauge limit.units {unit} {limit=5/1h0m0s log,limiter=api,policy=login} 5
gauge limit.window s {limit=10/1s burst 5,limiter=api,policy=api} 1
gauge limit.window s {limit=100/1h0m0s,limiter=api,policy=api} 3600
gauge limit.window s {limit=1000/1h0m0s,limiter=api,policy=upload} 3600
gauge limit.window s {limit=2/1m0s log,limiter=api,policy=trial} 60
gauge limit.window s {limit=5/1h0m0s log,limiter=api,policy=login} 3600
updown keys {key} {limiter=api} 5`, points(collect(t, s.reader), false))
}

// near is a policy that tells when less than 20 % is left.
var near = httplimit.Policy{Name: "near", Pattern: "/near", Limits: []sash.Limit{sash.PerHour(5)}, Key: httplimit.Everyone(), Near: 20}

func TestMetrics_CountCrossings(t *testing.T) {
	s := newSite(t, append(onAManualClock(), near)...)
	require.Contains(t, points(collect(t, s.reader), true), "counter near_limit {request} {limit=5/1h0m0s log,limiter=api,policy=near} 0\n")
	s.do("GET", "/near", "a", 6)
	require.Contains(t, points(collect(t, s.reader), true), "counter near_limit {request} {limit=5/1h0m0s log,limiter=api,policy=near} 1\n")
}

func TestMetrics_AreNamedAndDescribed(t *testing.T) {
	s := newSite(t, append(onAManualClock(), near)...)
	s.do("GET", "/", "a", 6)
	s.wait(httplimit.Admitted, time.Second)
	s.metrics.ObserveReload(nil)
	var names []string
	for _, m := range collect(t, s.reader) {
		name, ok := strings.CutPrefix(m.Name, "sash.rate_limiting.")
		require.True(t, ok, m.Name)
		require.True(t, strings.HasSuffix(m.Description, "."), m.Name)
		require.NotEmpty(t, m.Unit, m.Name)
		names = append(names, name)
	}
	require.ElementsMatch(t, []string{"requests", "units", "refunds", "refunded_units", "settlements", "surcharged_units", "near_limit", "denied_clients",
		"request.time_in_queue", "policy_reloads", "policy_last_reload.successful", "policy_last_reload.success_time", "full_queues", "unseen_responses", "limit.units", "limit.burst", "limit.window", "keys", "waiting_calls",
		"evicted_keys", "sweeps", "displaced_keys", "refused_calls", "shared_calls", "invalid_calls"}, names)
}

func TestMetrics_OfALimiterWithoutPolicies(t *testing.T) {
	metrics, reader := sashotel.New("jobs"), sdk.NewManualReader()
	limiter := sash.Must(sash.New(sash.PerHour(2), sash.WithClock(sash.NewManualClock(0)), sash.WithObserver(metrics.ObserveTake),
		sash.WithMaxKeys(1, sash.DenyNew)))
	defer limiter.Close()
	require.NoError(t, metrics.RegisterLimits(sdk.NewMeterProvider(sdk.WithReader(reader)), limiter))
	for range 5 {
		limiter.Allow("a")
	}
	limiter.Allow("b") // which does not fit
	require.Equal(t, `counter refused_calls {call} {limiter=jobs} 1
counter requests {request} {limit=2/1h0m0s log,limiter=jobs,result=admitted} 2
counter requests {request} {limit=2/1h0m0s log,limiter=jobs,result=denied} 4
counter units {unit} {limit=2/1h0m0s log,limiter=jobs,result=admitted} 2
counter units {unit} {limit=2/1h0m0s log,limiter=jobs,result=denied} 4
gauge limit.units {unit} {limit=2/1h0m0s log,limiter=jobs} 2
gauge limit.window s {limit=2/1h0m0s log,limiter=jobs} 3600
updown keys {key} {limiter=jobs} 1`, points(collect(t, reader), false))
}

// wait counts a decision under login on a request that has waited.
func (s *site) wait(outcome httplimit.Outcome, waited time.Duration) {
	s.metrics.Observe(httplimit.Event{Policy: "login", Outcome: outcome, Cost: 1, Waited: waited, Decision: sash.Decision{Limit: sash.PerHour(5)}})
}

// of returns the points that are not 0 of instruments whose names contain that part, as lines.
func (s *site) of(t testing.TB, part string) (lines []string) {
	for line := range strings.Lines(points(collect(t, s.reader), false)) {
		if strings.Contains(strings.Fields(line)[1], part) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// What is charged is 120 admitted, less 35 given back, and 20 more.
func TestMetrics_CountUnits(t *testing.T) {
	s := newSite(t, onAManualClock()...)
	s.do("PUT", "/", "60", 1) // the key is what the request costs
	s.do("PUT", "/", "5", 1)
	s.do("PUT", "/", "40", 1)
	require.Equal(t, []string{
		"counter refunded_units {unit} {limiter=api,policy=upload,unit=bytes} 35",
		"counter surcharged_units {unit} {limiter=api,policy=upload,unit=bytes} 20",
		"counter units {unit} {limit=1000/1h0m0s,limiter=api,policy=upload,result=admitted,unit=bytes} 120",
	}, slices.DeleteFunc(s.of(t, "units"), func(line string) bool { return strings.HasPrefix(line, "gauge") }))
}

func TestMetrics_HaveTheTimeInQueues(t *testing.T) {
	s := newSite(t, onAManualClock()...)
	s.wait(httplimit.Admitted, 0) // has not waited
	require.Empty(t, s.of(t, "time_in_queue"))
	s.wait(httplimit.Admitted, 20*time.Millisecond)
	s.wait(httplimit.Admitted, 2*time.Minute)
	s.wait(httplimit.Denied, time.Second)
	s.wait(httplimit.Settled, time.Second) // was counted when it was admitted
	const bounds = "[0.001 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 30 60]"
	want := []string{
		"histogram request.time_in_queue s {limiter=api,policy=login,result=admitted} 120.02 " + bounds + " [0 0 0 1 0 0 0 0 0 0 0 0 0 0 1]",
		"histogram request.time_in_queue s {limiter=api,policy=login,result=denied} 1 " + bounds + " [0 0 0 0 0 0 0 0 1 0 0 0 0 0 0]",
	}
	require.Equal(t, want, s.of(t, "time_in_queue"))
	require.NoError(t, s.metrics.Unregister())
	s.wait(httplimit.Denied, time.Second)
	require.Equal(t, want, s.of(t, "time_in_queue"), "it is not recorded, and stays")
	require.NoError(t, s.metrics.Register(s.provider, s.limiter))
	s.wait(httplimit.Abandoned, time.Second)
	require.Len(t, s.of(t, "time_in_queue"), 3)
}

func TestMetrics_TellOfReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // in which it is the year 2000
		s := newSite(t, onAManualClock()...)
		reloads := func() (all []string) {
			for line := range strings.Lines(points(collect(t, s.reader), true)) {
				if strings.Contains(line, " policy_") {
					all = append(all, strings.TrimSpace(line))
				}
			}
			return all
		}
		require.Empty(t, reloads())
		s.metrics.ObserveReload(io.ErrUnexpectedEOF)
		require.Equal(t, []string{
			"counter policy_reloads {reload} {limiter=api,result=failed} 1", "counter policy_reloads {reload} {limiter=api,result=loaded} 0",
			"gauge policy_last_reload.successful {success} {limiter=api} 0",
		}, reloads())
		s.metrics.ObserveReload(nil)
		require.Equal(t, []string{
			"counter policy_reloads {reload} {limiter=api,result=failed} 1", "counter policy_reloads {reload} {limiter=api,result=loaded} 1",
			"gauge policy_last_reload.success_time s {limiter=api} 9.466848e+08", "gauge policy_last_reload.successful {success} {limiter=api} 1",
		}, reloads())
	})
}

// Whatever clients send, there are as many points as before.
func TestMetrics_AreBoundedWhateverClientsSend(t *testing.T) {
	s := newSite(t, onAManualClock()...)
	count := func() int { return strings.Count(points(collect(t, s.reader), true), "\n") }
	s.do("GET", "/", "a", 6) // the first denied client adds a point
	before := count()
	for i := range 500 {
		s.do("GET", fmt.Sprint("/", i), fmt.Sprint("key ", i), 1)
	}
	require.Equal(t, before, count())
}

func TestMetrics_TellThatTheStoreDoesNotDecide(t *testing.T) {
	s := newSite(t, httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return absent{}, nil }))
	s.do("GET", "/", "a", 3)
	text := points(collect(t, s.reader), false)
	require.Contains(t, text, "counter store_errors {error} {limiter=api,policy=api} 3")
	require.NotContains(t, text, "keys", "the keys are elsewhere")
}

// absent is a store that cannot be reached. Its fallback admits.
type absent struct{}

func (absent) Take(_ context.Context, keys []string, _ int64, _ []int64) httplimit.StoreDecision {
	d := sash.Decision{Allowed: true, Limit: sash.PerHour(100)}
	return httplimit.StoreDecision{Decision: d, Keys: slices.Repeat([]httplimit.KeyDecision{{Decision: d}}, len(keys)), By: "fallback", Err: io.ErrUnexpectedEOF}
}

func (a absent) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return a.Take(ctx, keys, n, leave)
}

func (a absent) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return a.Take(ctx, keys, n, leave)
}

func (absent) Wait(context.Context, string, int64) error { return nil }
func (absent) Close() error                              { return nil }

func TestRegister_SaysWhatIsWrong(t *testing.T) {
	s, other := newSite(t), newSite(t)
	const again = `sashotel: limiter "api": these metrics are registered already; Unregister them first, or make new ones for another limiter`
	for i, c := range []struct {
		want string
		err  error
	}{
		{again, s.metrics.Register(s.provider, s.limiter)},
		{again, s.metrics.RegisterLimits(s.provider, s.limiter.Sash())},
		{`sashotel: limiter "": New needs a name for the limiter`, sashotel.New("").Register(s.provider, s.limiter)},
		{`sashotel: limiter "x": the limiter must not be nil`, sashotel.New("x").Register(s.provider, nil)},
		{`sashotel: limiter "y": the limiter must not be nil`, sashotel.New("y").RegisterLimits(s.provider, nil)},
		{`sashotel: limiter "z": the MeterProvider must not be nil; try otel.GetMeterProvider()`, sashotel.New("z").Register(nil, s.limiter)},
	} {
		require.EqualError(t, c.err, c.want, i)
	}
	require.NoError(t, s.metrics.Unregister())
	require.EqualError(t, s.metrics.Register(s.provider, other.limiter),
		`sashotel: limiter "api": these metrics are of another limiter already; make new ones for each limiter`)
}

func TestUnregister_EndsTheCollection(t *testing.T) {
	s := newSite(t)
	require.NoError(t, s.metrics.Unregister())
	require.Empty(t, points(collect(t, s.reader), true))
	require.NoError(t, s.metrics.Unregister())
	s.do("GET", "/", "", 3)
	require.NoError(t, s.metrics.Register(s.provider, s.limiter))
	require.Contains(t, points(collect(t, s.reader), false), "counter requests {request} {limiter=api,policy=api,result=unidentified} 3")
}

func TestRegister_WorksWithoutAnSDK(t *testing.T) {
	s := newSite(t)
	require.NoError(t, s.metrics.Unregister())
	require.NoError(t, s.metrics.Register(noop.NewMeterProvider(), s.limiter))
}

// Two goroutines count requests of one client, under a policy of two limits.
//
//	go test -run ^$ -bench Observe -cpu 1,2 .
func BenchmarkObserve(b *testing.B) {
	s := newSite(b)
	e := httplimit.Event{Policy: "api", Outcome: httplimit.Denied, Decision: sash.Decision{Limit: sash.PerHour(100)}}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			s.metrics.Observe(e)
		}
	})
}
