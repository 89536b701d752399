package httplimit_test

import (
	"context"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// warnings returns what the server logs while n requests go through a chain of middleware, the
// innermost first.
func warnings(t *testing.T, n int, chain ...func(http.Handler) http.Handler) string {
	t.Helper()
	var handler http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	for _, around := range chain {
		handler = around(handler)
	}
	var logged strings.Builder
	server := &http.Server{ErrorLog: log.New(&logged, "", 0)}
	r := httptest.NewRequest("GET", "/", nil).WithContext(context.WithValue(t.Context(), http.ServerContextKey, server))
	for range n {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		assert.Equal(t, http.StatusNoContent, w.Code)
	}
	return logged.String()
}

func TestMiddleware_WarnsOnceIfItIsMountedTwice(t *testing.T) {
	limits := []sash.Limit{sash.PerHour(1e6).TokenBucket(1e6)}
	for name, policy := range map[string]httplimit.Policy{
		"plain":   {Name: "p", Limits: limits, Key: httplimit.Everyone()},
		"charge":  {Name: "p", Limits: limits, Key: httplimit.Everyone(), Charge: func(int) bool { return true }},
		"settles": {Name: "p", Limits: limits, Key: httplimit.Everyone(), Settle: httplimit.SettleBytes()},
	} {
		t.Run(name, func(t *testing.T) {
			between := func(next http.Handler) http.Handler { return http.StripPrefix("", next) }
			for _, before := range []int{0, 300} { // the first request is marked, and others later
				l, other := httplimit.Must(httplimit.New(policy)), httplimit.Must(httplimit.New(policy))
				defer l.Close()
				defer other.Close()
				assert.Empty(t, warnings(t, before, l.Middleware, between, other.Middleware))
				logged := warnings(t, before+1, l.Middleware, between, other.Middleware, l.Middleware)
				assert.Equal(t, 1, strings.Count(logged, "\n"), logged)
				assert.Contains(t, logged, "mount the Limiter once")
				assert.Empty(t, warnings(t, 300, l.Middleware, l.Middleware), "it warns again")
			}
		})
	}
}
