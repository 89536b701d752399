package httplimit_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// leaving returns a policy whose requests leave what their header X-Leave says.
func leaving(name string, limits ...sash.Limit) httplimit.Policy {
	p := per(name, "", limits[0])
	p.Limits, p.Leave = limits, headerLeave
	return p
}

// quotaOf returns the status of an answer and what its headers say of the quota.
func quotaOf(h http.Header) []string {
	return []string{h.Get("RateLimit"), h.Get("X-RateLimit-Remaining"), h.Get("Retry-After")}
}

// A class that leaves 4 of 10 units has 6, and others have the rest. Each is told of what it may use.
func TestLeave_IsAFloorForItsClass(t *testing.T) {
	var events []httplimit.Event
	s := newSite(t, leaving("api", sash.PerMinute(10).Log()), httplimit.WithXRateLimit(),
		httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	background := func() http.Header { return s.do("GET /", "X-Key", "k", "X-Leave", "4").Header() }
	require.Equal(t, []string{`"api";r=5;t=60`, "5", ""}, quotaOf(background()))
	s.clock.Advance(time.Second)
	require.Equal(t, []string{`"api";r=8;t=59`, "8", ""}, quotaOf(s.do("GET /", "X-Key", "k").Header()))
	require.Equal(t, []int{200, 200, 200, 200, 429}, s.codes(5, "GET /", "X-Key", "k", "X-Leave", "4"))
	last := events[len(events)-1]
	require.Equal(t, httplimit.Denied, last.Outcome)
	require.EqualValues(t, 1, last.Cost)
	require.EqualValues(t, 4, last.Leave)
	require.EqualValues(t, 4, last.Decision.Remaining, "what others may still use")
	require.Equal(t, []string{`"api";r=0;t=59`, "0", "59"}, quotaOf(background()))

	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"))
	require.Equal(t, []string{`"api";r=0;t=60`, "0", "60"}, quotaOf(background()), "until 5 units are there")
	require.Equal(t, []string{`"api";r=1;t=59`, "1", ""}, quotaOf(s.do("GET /", "X-Key", "k").Header()))
}

func TestLeave_NoneIfNegativeAndForGoodIfMoreThanTheLimit(t *testing.T) {
	s := newSite(t, leaving("api", sash.PerMinute(2).Log()))
	require.Equal(t, 429, s.do("GET /", "X-Key", "k", "X-Leave", "2").Code)
	w := s.do("GET /", "X-Key", "k", "X-Leave", "9223372036854775807")
	require.Equal(t, 429, w.Code)
	require.Empty(t, w.Header()["Retry-After"])
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k", "X-Leave", "-9"))
}

// Each policy has a Leave of its own, and each limit of it is left as much. A denial by one charges none.
func TestLeave_OfEachPolicyAndEachLimit(t *testing.T) {
	for name, settle := range map[string]func(*httplimit.Response) int64{"charged": nil, "reserved": httplimit.SettleEstimate()} {
		t.Run(name, func(t *testing.T) {
			both := leaving("both", sash.PerHour(20).Log(), sash.PerMinute(6).Log())
			both.Settle = settle
			s := newSite(t, per("all", "", sash.PerHour(100).Log()), both)
			require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k", "X-Leave", "4"))
			w := s.do("GET /", "X-Key", "k", "X-Leave", "4")
			require.Equal(t, `"all";r=98;t=3600, "both-1m";r=0;t=60`, w.Header().Get("RateLimit"))
			require.Contains(t, w.Body.String(), `"violated-policies":["both-1m"]`)
			require.Equal(t, []int{200, 200, 200, 200, 429}, s.codes(5, "GET /", "X-Key", "k"))
		})
	}
}

// A policy of another cost is charged by a reservation of its own. It is undone if a later one is to leave
// more than there is.
func TestLeave_OfPoliciesOfSeveralCosts(t *testing.T) {
	dear := per("dear", "", sash.PerMinute(100).Log())
	dear.Cost = func(*http.Request) int64 { return 10 }
	s := newSite(t, dear, leaving("api", sash.PerMinute(3).Log()))
	require.Equal(t, []int{200, 429, 429}, s.codes(3, "GET /", "X-Key", "k", "X-Leave", "2"))
	require.Equal(t, `"dear";r=80;t=60, "api";r=1;t=60`, s.do("GET /", "X-Key", "k").Header().Get("RateLimit"))
}

// What a request has cost is charged whatever must be left, and given back likewise.
func TestLeave_IsNotOfASettlement(t *testing.T) {
	p := leaving("api", sash.PerMinute(10).TokenBucket(10))
	p.Settle = httplimit.SettleHeader("X-Units")
	s := newSite(t, p)
	cost := "8"
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Units", cost)
		w.WriteHeader(http.StatusOK)
	}
	require.Equal(t, 200, s.do("GET /", "X-Key", "k", "X-Leave", "5").Code)
	require.Equal(t, 429, s.do("GET /", "X-Key", "k", "X-Leave", "5").Code)
	cost = "0"
	require.Equal(t, 200, s.do("GET /", "X-Key", "k", "X-Leave", "1").Code)
	require.Equal(t, 200, s.do("GET /", "X-Key", "k", "X-Leave", "1").Code, "it was given back")
}

func TestLeave_OfAShadow(t *testing.T) {
	var outcomes []httplimit.Outcome
	p := leaving("tried", sash.PerMinute(2).Log())
	p.Shadow = true
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { outcomes = append(outcomes, e.Outcome) }))
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k", "X-Leave", "1"))
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []httplimit.Outcome{httplimit.Admitted, httplimit.Denied, httplimit.Admitted}, outcomes)
}

func TestLeave_APanicIsAnswered500(t *testing.T) {
	p := leaving("api", sash.PerMinute(2).Log())
	p.Leave = func(*http.Request) int64 { panic("of a test") }
	var outcomes []httplimit.Outcome
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { outcomes = append(outcomes, e.Outcome) }))
	require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []httplimit.Outcome{httplimit.Failed}, outcomes)
}

// A store is told what must remain of each key, and what it says of a class is told to that class.
func TestLeave_WithAStore(t *testing.T) {
	for name, settle := range map[string]func(*httplimit.Response) int64{"charged": nil, "reserved": httplimit.SettleEstimate()} {
		t.Run(name, func(t *testing.T) {
			store, both := &localStore{}, leaving("both", sash.PerHour(20).Log(), sash.PerMinute(6).Log())
			both.Settle = settle
			s := newStoreSite(t, store, per("all", "", sash.PerHour(100).Log()), both, httplimit.WithXRateLimit())
			background := func() http.Header { return s.do("GET /", "X-Key", "k", "X-Leave", "4").Header() }
			require.Equal(t, []string{`"all";r=99;t=3600, "both-1m";r=1;t=60`, "1", ""}, quotaOf(background()))
			require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k", "X-Leave", "4"))
			require.Equal(t, []string{`"all";r=98;t=3600, "both-1m";r=0;t=60`, "0", "60"}, quotaOf(background()))
			require.Equal(t, []int{200, 200, 200, 200, 429}, s.codes(5, "GET /", "X-Key", "k"))
			require.Nil(t, store.left[len(store.left)-1], "nothing must remain")
			s.do("GET /", "X-Key", "k", "X-Leave", "2")
			require.Equal(t, []int64{0, 4}, store.left[0], "of each key, also once other requests leave others")
		})
	}
}

// An urgent request overtakes those in the background, which wait since they must leave more.
func TestLeave_UrgentRequestsGoFirstInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leaving("api", sash.PerMinute(3).Log())
		p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 10, RequestsPerClient: 10}
		l := newLobby(t, p)
		l.send("background", "GET /", "X-Key", "k", "X-Leave", "1")
		l.clock.Advance(time.Second)
		for _, name := range []string{"b", "c"} {
			l.send(name, "GET /", "X-Key", "k", "X-Leave", "1")
		}
		require.Equal(t, []string{"background served", "b served"}, l.happened(), "c waits, as a unit must be left")
		l.clock.Advance(time.Second)
		l.send("urgent", "GET /", "X-Key", "k")
		require.Equal(t, []string{"urgent served"}, l.happened())
		l.send("late", "GET /", "X-Key", "k")
		require.Empty(t, l.happened(), "nothing is left")

		l.clock.Advance(time.Minute - 2*time.Second) // the unit of the first request is back
		require.Equal(t, []string{"late served"}, l.happened())
		l.clock.Advance(time.Second) // and b's, which c must leave
		require.Empty(t, l.happened())
		l.clock.Advance(time.Second)
		require.Equal(t, []string{"c served"}, l.happened(), "when the unit of the urgent one is back, too")
	})
}

// Of requests that leave as much, none overtakes those that wait, even if there is enough for it.
func TestLeave_RequestsOfOneClassGoInOrderInAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leaving("api", sash.PerMinute(3).Log())
		p.Cost = headerCost
		p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 10, RequestsPerClient: 10}
		l := newLobby(t, p)
		l.send("first", "GET /", "X-Key", "k", "X-Leave", "1")
		l.send("dear", "GET /", "X-Key", "k", "X-Leave", "1", "X-Cost", "2")
		l.send("cheap", "GET /", "X-Key", "k", "X-Leave", "1")
		require.Equal(t, []string{"first served"}, l.happened())
		l.send("urgent", "GET /", "X-Key", "k")
		require.Equal(t, []string{"urgent served"}, l.happened())
		l.clock.Advance(time.Minute)
		require.Equal(t, []string{"dear served"}, l.happened())
		l.clock.Advance(time.Minute)
		require.Equal(t, []string{"cheap served"}, l.happened())
	})
}
