package peers

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
)

var httpRate = Peer{
	Name: "httprate", Clock: "system", Module: "github.com/go-chi/httprate", Bytes: 60, Hashes: true, Sweeps: true,
	Keeps: "two-counter sliding window in floats; two maps of 64-bit hashes behind one mutex",
	Lacks: "the key itself: keys of one hash share a quota, and can be made; a late call clears all counters; asked as its middleware asks, which puts figures for headers into text though there are none to say; no sweep, but all counters are dropped as a window ends",
	New: func(q Quota) Table {
		// With this counter its windows begin at multiples of the window, so that
		// Exhaust knows them.
		windows := httprate.NewLocalLimitCounter(q.Window)
		l := httprate.NewRateLimiter(int(q.Count), q.Window,
			httprate.WithLimitCounter(windows), httprate.WithResponseHeaders(httprate.ResponseHeaders{}))
		request := must(http.NewRequest(http.MethodGet, "/", nil))
		return Table{
			Allow:   func(key string) bool { return !l.OnLimit(nil, request, key) },
			Compose: func(first, second string) bool { return !l.OnLimit(nil, request, first+second) },
			Exhaust: func(key string) {
				windows.IncrementBy(key, time.Now().UTC().Truncate(q.Window), int(q.Count))
			},
			Close: func() {},
		}
	},
}
