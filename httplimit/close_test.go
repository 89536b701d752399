package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func TestClose_RefusesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 10}),
			per("q", "/q", sash.PerSecond(1).Log()))
		for i := range 3 {
			l.send(fmt.Sprint(i), "GET /", "X-Key", "k")
		}
		require.NoError(t, l.Close())
		require.Equal(t, []string{"0 served", "1 503 1", "2 503 1"}, sorted(l.happened()))
		require.Zero(t, l.Waiting())
		for _, e := range l.events[1:] {
			require.Equal(t, httplimit.Denied, e.Outcome)
			require.ErrorIs(t, e.Err, http.ErrServerClosed)
		}
		// From now on, none waits.
		l.send("late", "GET /", "X-Key", "k")
		require.Equal(t, []string{"late 503 1"}, l.happened())
		l.send("other", "GET /q", "X-Key", "other")
		l.send("denied", "GET /q", "X-Key", "other")
		require.Equal(t, []string{"other served", "denied 429 1"}, l.happened(), "a policy without a Queue denies it, too")
		l.clock.Advance(time.Second)
		l.send("next", "GET /", "X-Key", "k")
		require.Equal(t, []string{"next served"}, l.happened(), "those that were refused were not charged")
		require.NoError(t, l.Close(), "again")
	})
}

// What waits is admitted if there is room by then, though nothing has woken it yet.
func TestClose_AdmitsWhatItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 10}))
		l.send("0", "GET /", "X-Key", "k")
		l.send("1", "GET /", "X-Key", "k")
		key, _ := l.KeyFor("p", newRequest("GET /", "X-Key", "k"))
		l.Sash().Reset(key)
		require.NoError(t, l.Close())
		require.Equal(t, []string{"0 served", "1 served"}, l.happened())
	})
}

func TestClose_RefusesWhatWaitsForAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []httplimit.Event
		store := new(localStore)
		s := newStoreSite(t, store, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 1}),
			httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
		require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
		done := make(chan int)
		go func() { done <- s.do("GET /", "X-Key", "k").Code }()
		synctest.Wait()
		require.NoError(t, s.Close())
		require.Equal(t, 503, <-done)
		require.Len(t, events, 2)
		require.Equal(t, httplimit.Denied, events[1].Outcome)
		require.ErrorIs(t, events[1].Err, http.ErrServerClosed)

		// From now on, a request makes no attempt after the first one that is denied.
		store.calls = nil
		require.Equal(t, 503, s.do("GET /", "X-Key", "k").Code)
		require.Len(t, store.calls, 1, "%v", store.calls)
	})
}

func TestDenial_WithAReasonIsAnswered503(t *testing.T) {
	w := httptest.NewRecorder()
	httplimit.Denial{Violated: []string{"p"}, RetryAfter: time.Second, Err: http.ErrServerClosed}.ServeHTTP(w, nil)
	require.Equal(t, 503, w.Code)
	require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`, w.Body.String())
}
