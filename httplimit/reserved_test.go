package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// heap returns how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A token bucket keeps some bytes for each open reservation. So the limiter closes those that nothing
// will change: under a policy next to one with Charge, under policies with other costs, and after a
// request has waited.
func TestReservations_ThatNothingWillChangeAreClosed(t *testing.T) {
	day := httplimit.Policy{Name: "day", Limits: []sash.Limit{sash.Per(1e6, 24*time.Hour).TokenBucket(1e6)}, Key: httplimit.Everyone()}
	charge, cost, queued := day, day, day
	charge.Name, charge.Charge = "charge", func(int) bool { return true }
	cost.Name, cost.Cost = "cost", func(*http.Request) int64 { return 2 }
	queued.Limits = append(queued.Limits, sash.PerSecond(100).TokenBucket(1))
	queued.Queue = httplimit.Queue{Wait: time.Second, Requests: 10}
	for name, policies := range map[string][]httplimit.Option{
		"beside a charge": {day, charge},
		"of two costs":    {day, cost},
		"after waiting":   {queued},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := httplimit.Must(httplimit.New(policies...))
				defer l.Close()
				h := l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
				r := httptest.NewRequest("GET", "/", nil)
				const requests = 10_000
				before := heap()
				for range requests {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					require.Equal(t, http.StatusNoContent, w.Code)
				}
				require.Less(t, heap()-before, int64(8*requests))
				runtime.KeepAlive(l)
			})
		})
	}
}

// A request is not written to, unless its body or its charge is watched: handlers around may read
// it in goroutines of their own.
func TestMiddleware_LeavesTheRequestAlone(t *testing.T) {
	l := httplimit.Must(httplimit.New(everyone("/"), httplimit.WithSweepInterval(-1)))
	defer l.Close()
	var got *http.Request
	h := l.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	for range 600 {
		r := httptest.NewRequest("GET", "/", nil)
		h.ServeHTTP(httptest.NewRecorder(), r)
		require.Same(t, r, got)
	}
}
