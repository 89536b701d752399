package promtest

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

// BenchmarkObservers measures what the metrics add to a request, and what they add together with a page of
// offenders. The floor is what one that counts all and another that counts by client cannot do without: two
// events, a fingerprint, and one addition each. An iteration is a round, in which each handler answers requests of the same clients. The time of
// a handler is the first decile of its rounds, so it is hardly of those in which the machine did other work.
//
//	go test -run ^$ -bench Observers -cpu 1 -benchtime 3000x .
func BenchmarkObservers(b *testing.B) {
	for _, c := range []struct {
		result  string
		limit   sash.Limit
		clients []int
	}{
		{"admitted", sash.PerSecond(1 << 50), []int{1, 1000}}, // of more, where a table lies in memory decides
		{"denied", sash.PerHour(0), []int{1, 1000, 1_000_000}},
	} {
		for _, clients := range c.clients {
			b.Run(fmt.Sprintf("result=%s/clients=%d", c.result, clients), func(b *testing.B) {
				subjects := newSubjects(b, c.limit, clients)
				all := rand.Perm(clients)
				for _, s := range subjects {
					s.serve(addressesOf(all)) // so that the keys are tracked
				}
				for round := range b.N {
					addresses := addressesOf(turn(all, round))
					for i := range subjects {
						s := subjects[(round+i)%len(subjects)]
						s.ns = append(s.ns, float64(s.serve(addresses))/float64(len(addresses)))
					}
				}
				without := subjects[0].decile()
				b.ReportMetric(without, "without-ns")
				for _, s := range subjects[1:] {
					b.ReportMetric(s.decile()-without, s.name+"-ns")
				}
				b.ReportMetric(0, "ns/op") // which means nothing
			})
		}
	}
}

// A subject is a handler with some observers.
type subject struct {
	name    string
	handler http.Handler
	ns      []float64 // for a request, by round
}

// newSubjects returns the subjects, the one without observers first.
func newSubjects(b *testing.B, limit sash.Limit, clients int) (all []*subject) {
	var total atomic.Int64
	var each [1 << 12]atomic.Int64 // by client
	metrics, both, page := sashprometheus.New("site"), sashprometheus.New("site"), new(offenders.Page)
	for _, s := range []struct {
		name    string
		metrics *sashprometheus.Metrics
		options []httplimit.Option
	}{
		{"none", nil, nil},
		{"floor", nil, []httplimit.Option{
			httplimit.WithObserver(func(httplimit.Event) { total.Add(1) }),
			httplimit.WithObserver(func(e httplimit.Event) { each[e.Fingerprint%uint64(len(each))].Add(1) }),
			httplimit.WithEventFingerprints(httplimit.Denied),
		}},
		{"metrics", metrics, []httplimit.Option{httplimit.WithObserver(metrics.Observe)}},
		{"metrics+page", both, []httplimit.Option{
			httplimit.WithObserver(both.Observe), httplimit.WithObserver(page.Observe), httplimit.WithEventFingerprints(httplimit.Denied),
		}},
	} {
		policy := httplimit.Policy{Name: "all", Limits: []sash.Limit{limit}, Key: httplimit.ByAddress()}
		limiter := httplimit.Must(httplimit.New(append(s.options, policy, httplimit.WithSizeHint(clients))...))
		b.Cleanup(func() { limiter.Close() })
		if s.metrics != nil {
			require.NoError(b, s.metrics.Register(prometheus.NewRegistry(), limiter)) // it counts nothing before
		}
		all = append(all, &subject{name: s.name, handler: limiter.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))})
	}
	return all
}

// turn returns the clients of the requests of a round.
func turn(clients []int, round int) []int {
	const requests = 1000
	all := make([]int, requests)
	for i := range all {
		all[i] = clients[(round*requests+i)%len(clients)]
	}
	return all
}

// serve serves one request of each address, and returns how long that took.
func (s *subject) serve(addresses []string) time.Duration {
	r, w := httptest.NewRequest("GET", "/", nil), blank{http.Header{}}
	begin := time.Now()
	for _, address := range addresses {
		clear(w.header)
		r.RemoteAddr = address
		s.handler.ServeHTTP(w, r)
	}
	return time.Since(begin)
}

// decile returns how long a request takes.
func (s *subject) decile() float64 { return slices.Sorted(slices.Values(s.ns))[len(s.ns)/10] }

// addressesOf returns the addresses of clients.
func addressesOf(clients []int) []string {
	all := make([]string, len(clients))
	for i, n := range clients {
		address := netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
		all[i] = netip.AddrPortFrom(address, 1234).String()
	}
	return all
}
