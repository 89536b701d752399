package httplimit_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// planned returns a policy "api" with the plans free and gold. The header X-Plan names the plan.
func planned() httplimit.Policy {
	p := per("api", "", sash.PerHour(3).Log())
	p.Plan = func(r *http.Request) string { return r.Header.Get("X-Plan") }
	p.Plans = map[string][]sash.Limit{
		"free": {sash.PerHour(2).Log()},
		"gold": {sash.PerHour(1000).Log(), sash.PerMinute(100).Log()},
	}
	return p
}

func TestPlans_LimitTheRequestsOfEach(t *testing.T) {
	s := newSite(t, per("first", "", sash.PerHour(50).Log()), planned())
	headers := func(plan string) string {
		w := s.do("GET /", "X-Key", "k", "X-Plan", plan)
		return w.Header().Get("RateLimit-Policy") + " " + w.Header().Get("RateLimit")
	}
	require.Equal(t, `"first";q=50;w=3600, "api";q=2;w=3600 "first";r=49;t=3600, "api";r=1;t=3600`, headers("free"))
	require.Equal(t, `"first";q=50;w=3600, "api-1h";q=1000;w=3600, "api-1m";q=100;w=60 "first";r=48;t=3600, "api-1m";r=99;t=60`, headers("gold"))
	require.Equal(t, `"first";q=50;w=3600, "api";q=3;w=3600 "first";r=47;t=3600, "api";r=2;t=3600`, headers(""))
	require.Equal(t, `"first";q=50;w=3600, "api";q=3;w=3600 "first";r=46;t=3600, "api";r=1;t=3600`, headers("unknown"), "not unlimited")

	// Each has its own counts.
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k", "X-Plan", "free"))
	require.Contains(t, s.do("GET /", "X-Key", "k", "X-Plan", "free").Body.String(), `"violated-policies":["api"]`)
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
	require.Equal(t, 200, s.do("GET /", "X-Key", "k", "X-Plan", "gold").Code)
}

func TestPlans_HaveKeysOfTheirOwn(t *testing.T) {
	for name, options := range map[string][]httplimit.Option{
		"here": {}, "in a store": {httplimit.WithStore(new(localStore).open)},
	} {
		t.Run(name, func(t *testing.T) {
			p := planned()
			p.Plans["free\"\\;"] = p.Plans["free"]
			other := per("apifree", "", sash.PerHour(1))
			l := httplimit.Must(httplimit.New(append(options, p, other)...))
			defer l.Close()
			seen := map[string]bool{}
			for _, plan := range []string{"", "free", "gold", "free\"\\;"} {
				for _, identity := range []string{"k", "free", strings.Repeat("long", 100)} {
					r := newRequest("GET /", "X-Key", identity, "X-Plan", plan)
					key, ok := l.KeyFor("api", r)
					require.True(t, ok)
					require.False(t, seen[key])
					seen[key] = true
					policy, who, ok := l.ParseKey(key)
					require.Equal(t, len(identity) < 128, ok)
					if ok {
						require.Equal(t, []string{"api", identity}, []string{policy, who})
					}
				}
			}
			unknown, _ := l.KeyFor("api", newRequest("GET /", "X-Key", "k", "X-Plan", "unknown"))
			require.True(t, seen[unknown])
		})
	}
}

// The keys of a plan in a store name the plan, and its limits are the plan's.
func TestPlans_OfAStore(t *testing.T) {
	store := new(localStore)
	l := httplimit.Must(httplimit.New(planned(), httplimit.WithStore(store.open)))
	defer l.Close()
	require.Equal(t, [][]sash.Limit{{sash.PerHour(3).Log()}, {sash.PerHour(2).Log()}, {sash.PerHour(1000).Log(), sash.PerMinute(100).Log()}}, store.StoreKeys.Limits)
	key, _ := l.KeyFor("api", newRequest("GET /", "X-Key", "k", "X-Plan", "free"))
	require.Equal(t, "api\x02free\x00k", key)
	require.Equal(t, []sash.Limit{sash.PerHour(2).Log()}, store.StoreKeys.LimitsFor(key))
	require.Equal(t, "k", httplimit.HashTag(key))
	s := &site{Limiter: l}
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k", "X-Plan", "free"))
	require.Equal(t, []int{200, 200, 200, 429}, s.codes(4, "GET /", "X-Key", "k"))
}

// Requests of all plans of a policy wait in one queue: its bounds count them together.
func TestPlans_ShareTheRoomOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := sash.PerMinute(1).Log()
		p := queued("p", "", limit, httplimit.Queue{Wait: time.Hour, Requests: 1})
		p.Plan = func(r *http.Request) string { return r.Header.Get("X-Plan") }
		p.Plans = map[string][]sash.Limit{"gold": {limit}}
		l := newLobby(t, p)
		for _, plan := range []string{"", "gold"} {
			l.send("first of "+plan, "GET /", "X-Key", "k", "X-Plan", plan)
		}
		l.send("waits", "GET /", "X-Key", "k")
		require.Equal(t, []string{"first of  served", "first of gold served"}, l.happened())
		l.send("full", "GET /", "X-Key", "k", "X-Plan", "gold")
		require.Equal(t, []string{"full 429 60"}, l.happened())
	})
}

func TestPlans_AreValidated(t *testing.T) {
	p, free, none := planned(), planned(), planned()
	p.Name, free.Name, none.Name = "p", "free", "none"
	p.Plans = map[string][]sash.Limit{
		"": {sash.PerHour(1)}, "é": {sash.PerHour(1)}, "empty": {}, "wrong": {sash.PerHour(1), sash.PerHour(-1)}, "fine": {sash.PerHour(1)},
	}
	free.Plan = nil
	none.Plans = nil
	of := planned()
	_, err := httplimit.New(p, free, none, of, per("api-1m", "", sash.PerHour(1)))
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
	require.ErrorIs(t, err, sash.ErrNoLimit)
	require.Equal(t, strings.TrimSpace(`
httplimit: policy "p": Plans: the plan "" is Limits, and must not be among Plans: invalid option
httplimit: policy "p": plan "empty": its limits must not be empty: no limit
httplimit: policy "p": plan "wrong": limit 2: Count must be >= 0, got -1: invalid limit
httplimit: policy "p": Plans: the name of a plan must be printable ASCII, got "é": invalid option
httplimit: policy "free": Plan must not be nil if there are Plans: invalid option
httplimit: policies 4 and 5: both have a quota named "api-1m": invalid option`), err.Error())

	_, err = httplimit.New(per("api-1m", "", sash.PerHour(1)), planned())
	require.EqualError(t, err, `httplimit: policies 1 and 2: both have a quota named "api-1m": invalid option`)
}

func TestPlans_APanicIsThatOfThePolicy(t *testing.T) {
	p := planned()
	p.Plan = func(*http.Request) string { panic("plan") }
	var outcomes []httplimit.Outcome
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { outcomes = append(outcomes, e.Outcome) }))
	require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []httplimit.Outcome{httplimit.Failed}, outcomes)
	require.Equal(t, 0, s.Sash().Len())
}

// Skip comes first, and Plan is asked once.
func TestPlans_AreAskedForOnce(t *testing.T) {
	p, asked := planned(), 0
	p.Skip = func(r *http.Request) bool { return r.Header.Get("X-Plan") == "" }
	p.Plan = func(r *http.Request) string { asked++; return r.Header.Get("X-Plan") }
	s := newSite(t, p)
	s.codes(4, "GET /", "X-Key", "k")
	require.Equal(t, 0, asked)
	s.codes(2, "GET /", "X-Key", "k", "X-Plan", "free")
	require.Equal(t, 2, asked)
}

func TestReconfigure_OfPlans(t *testing.T) {
	s := newSite(t, planned())
	for _, plan := range []string{"", "free", "gold"} {
		s.codes(1, "GET /", "X-Key", "k", "X-Plan", plan)
	}
	p := planned()
	delete(p.Plans, "gold")
	p.Plans["free"] = []sash.Limit{sash.PerHour(10).Log()}
	p.Plans["new"] = []sash.Limit{sash.PerHour(20).Log()}
	require.NoError(t, s.Reconfigure(p))
	require.Equal(t, 2, s.Sash().Len(), "the keys of gold are gone")
	left := map[string]string{}
	for _, plan := range []string{"", "free", "new", "gold"} {
		left[plan] = s.do("GET /", "X-Key", "k", "X-Plan", plan).Header().Get("RateLimit")
	}
	require.Equal(t, map[string]string{
		"": `"api";r=1;t=3600`, "free": `"api";r=8;t=3600`, "new": `"api";r=19;t=3600`, "gold": `"api";r=0;t=3600`,
	}, left)
}
