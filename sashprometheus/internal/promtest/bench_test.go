package promtest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

// BenchmarkRequest measures a request through the middleware, without an observer, with the
// metrics, and with the metrics and a page of offenders.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct {
		result string
		limit  sash.Limit
	}{{"admitted", sash.PerSecond(1 << 50)}, {"denied", sash.PerHour(0)}} {
		for _, observers := range []struct {
			name    string
			options func(*sashprometheus.Metrics, *offenders.Page) []httplimit.Option
		}{
			{"none", func(*sashprometheus.Metrics, *offenders.Page) []httplimit.Option { return nil }},
			{"metrics", func(m *sashprometheus.Metrics, _ *offenders.Page) []httplimit.Option {
				return []httplimit.Option{httplimit.WithObserver(m.Observe)}
			}},
			{"metrics+page", func(m *sashprometheus.Metrics, p *offenders.Page) []httplimit.Option {
				return []httplimit.Option{
					httplimit.WithObserver(m.Observe),
					httplimit.WithObserver(p.Observe),
					httplimit.WithEventFingerprints(httplimit.Denied),
				}
			}},
		} {
			b.Run("result="+c.result+"/observers="+observers.name, func(b *testing.B) {
				policy := httplimit.Policy{Name: "all", Limits: []sash.Limit{c.limit}, Key: httplimit.ByAddress()}
				metrics, page := sashprometheus.New("site"), new(offenders.Page)
				limiter := httplimit.Must(httplimit.New(append(observers.options(metrics, page), policy)...))
				defer limiter.Close()
				require.NoError(b, metrics.Register(prometheus.NewRegistry(), limiter)) // it counts nothing before
				handler := limiter.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
				b.ReportAllocs()
				b.RunParallel(func(p *testing.PB) {
					r, w := httptest.NewRequest("GET", "/", nil), blank{http.Header{}}
					for p.Next() {
						clear(w.header)
						handler.ServeHTTP(w, r)
					}
				})
				if observers.name != "none" {
					require.Equal(b, float64(b.N), counted(b, metrics), "requests that the metrics count")
				}
			})
		}
	}
}

// counted returns the number of requests that the metrics have counted.
func counted(b *testing.B, metrics *sashprometheus.Metrics) (n float64) {
	registry := prometheus.NewRegistry()
	require.NoError(b, registry.Register(metrics))
	families, err := registry.Gather()
	require.NoError(b, err)
	for _, f := range families {
		if f.GetName() != "sash_decisions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

// blank is a ResponseWriter that keeps nothing but the header.
type blank struct{ header http.Header }

func (w blank) Header() http.Header         { return w.header }
func (w blank) Write(b []byte) (int, error) { return len(b), nil }
func (w blank) WriteHeader(int)             {}
