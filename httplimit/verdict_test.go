package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Decide, Refuse and Settle by themselves do what the middleware does.
func TestDecide_IsTheMiddlewareWithoutATransport(t *testing.T) {
	policies := func() []httplimit.Option {
		costly := per("costly", "/costly", sash.PerMinute(12).Log())
		costly.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
		panics := per("panics", "/panics", sash.PerHour(9))
		panics.Skip = func(*http.Request) bool { panic("on purpose") }
		shadow := per("shadow", "", sash.PerHour(3))
		shadow.Shadow = true
		return []httplimit.Option{per("all", "", sash.PerMinute(20).Log()), costly, failures(6), panics, shadow, httplimit.WithXRateLimit()}
	}
	served, decided := newSite(t, policies()...), newSite(t, policies()...)
	answer := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Size") == "" {
			w.WriteHeader(404)
			return
		}
		w.WriteHeader(200)
	}
	served.answer = answer
	random := rand.New(rand.NewPCG(1, 17))
	outcomes := make(map[httplimit.Outcome]int)
	for range 3000 {
		target := "GET " + []string{"/", "/costly", "/costly", "/panics"}[random.IntN(4)]
		headers := []string{"X-Size", "xxxx"[random.IntN(5):]}
		if random.IntN(10) > 0 {
			headers = append(headers, "X-Key", fmt.Sprint(random.IntN(3)))
		}
		want := served.do(target, headers...)

		r, got := newRequest(target, headers...), httptest.NewRecorder()
		v := decided.Decide(got.Header(), r)
		outcomes[v.Outcome]++
		if v.Outcome == httplimit.Admitted {
			answer(got, r)
			v.Charges.Settle(httplimit.Response{Status: got.Code})
		} else {
			decided.Refuse(got, r, v)
		}
		require.Equal(t, want.Code, got.Code)
		require.Equal(t, want.Header(), got.Header())
		require.Equal(t, want.Body, got.Body)
		step := time.Duration(random.Int64N(int64(3 * time.Second)))
		served.clock.Advance(step)
		decided.clock.Advance(step)
	}
	require.Len(t, outcomes, 4, "admitted, denied, unidentified and failed")
}

func TestDecide_WorksWithoutAHeader(t *testing.T) {
	s := newSite(t, per("all", "", sash.PerHour(1)))
	r := newRequest("GET /", "X-Key", "k")
	require.Equal(t, httplimit.Verdict{Outcome: httplimit.Admitted}, s.Decide(nil, r))
	v := s.Decide(nil, r)
	require.Equal(t, httplimit.Verdict{Outcome: httplimit.Denied, Denial: httplimit.Denial{Violated: []string{"all"}, RetryAfter: time.Hour}}, v)
}

// A transport need not ask whether there are charges.
func TestCharges_ServeWithoutAny(t *testing.T) {
	var none *httplimit.Charges
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	none.Serve(http.HandlerFunc(func(seen http.ResponseWriter, request *http.Request) {
		require.Same(t, w, seen)
		require.Same(t, r, request)
		seen.WriteHeader(http.StatusTeapot)
	}), w, r)
	require.Equal(t, http.StatusTeapot, w.Code)
}

func TestRefuse_RefusesNoAdmittedRequest(t *testing.T) {
	s := newSite(t, per("all", "", sash.PerHour(1)))
	r := newRequest("GET /", "X-Key", "k")
	require.PanicsWithValue(t, `httplimit: Refuse: no request is refused whose Outcome is "admitted"`, func() {
		s.Refuse(httptest.NewRecorder(), r, s.Decide(nil, r))
	})
}

// The content that a handler around the caller has described is not the refusal's.
func TestRefuse_DropsTheDescriptionOfOtherContent(t *testing.T) {
	s := newSite(t, per("all", "", sash.PerHour(0)))
	w, r := httptest.NewRecorder(), newRequest("GET /", "X-Key", "k")
	for _, name := range []string{"Content-Length", "ETag", "Last-Modified", "Vary"} {
		w.Header().Set(name, "1")
	}
	s.Refuse(w, r, s.Decide(w.Header(), r))
	require.Equal(t, 429, w.Code)
	require.Empty(t, w.Header()["Content-Length"])
	require.Empty(t, w.Header()["Etag"])
	require.Empty(t, w.Header()["Last-Modified"])
	require.Equal(t, "1", w.Header().Get("Vary"))
}
