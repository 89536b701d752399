package httplimit_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A nearSite is a site that notes each crossing that its observer is told.
type nearSite struct {
	*site
	crossings []string
}

func newNearSite(t *testing.T, policies ...httplimit.Policy) *nearSite {
	n := new(nearSite)
	var options []httplimit.Option
	for _, p := range policies {
		options = append(options, p)
	}
	n.site = newSite(t, append(options, httplimit.WithObserver(n.observe))...)
	return n
}

func (n *nearSite) observe(e httplimit.Event) {
	for _, l := range e.Near {
		n.crossings = append(n.crossings, e.Policy+" "+l.String()+" "+e.Outcome.String())
	}
}

// told returns the crossings since the last time.
func (n *nearSite) told() []string {
	told := n.crossings
	n.crossings = nil
	return told
}

// near returns a policy that tells when less than 20 % is left.
func near(name string, limits ...sash.Limit) httplimit.Policy {
	p := per(name, "", limits[0])
	p.Limits, p.Near, p.Cost = limits, 20, headerCost
	return p
}

func TestNear_IsToldOnceForEachCrossing(t *testing.T) {
	n := newNearSite(t, near("api", sash.PerMinute(10).Log()))
	n.codes(8, "GET /", "X-Key", "k")
	require.Empty(t, n.told(), "20 % are left")
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "3")
	require.Empty(t, n.told(), "it is denied")
	n.codes(1, "GET /", "X-Key", "k")
	require.Equal(t, []string{"api 10/1m0s log admitted"}, n.told())
	n.codes(3, "GET /", "X-Key", "k")
	require.Empty(t, n.told(), "it was told")
	n.codes(1, "GET /", "X-Key", "another", "X-Cost", "10")
	require.Equal(t, []string{"api 10/1m0s log admitted"}, n.told())
	n.clock.Advance(time.Minute)
	n.codes(9, "GET /", "X-Key", "k")
	require.Equal(t, []string{"api 10/1m0s log admitted"}, n.told(), "all was there again")
}

// A limit with much left is crossed, too, and so is each policy.
func TestNear_OfEachLimitOfEachPolicy(t *testing.T) {
	n := newNearSite(t, near("api", sash.PerSecond(10).Log(), sash.PerDay(100).Log()), near("all", sash.PerHour(1000).Log()))
	for range 10 {
		n.codes(1, "GET /", "X-Key", "k", "X-Cost", "8")
		n.clock.Advance(time.Second)
	}
	require.Empty(t, n.told())
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "1")
	require.Equal(t, []string{"api 100/24h0m0s log admitted"}, n.told())
	n.clock.Advance(24 * time.Hour)
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "9")
	require.Equal(t, []string{"api 10/1s log admitted"}, n.told())
	n.clock.Advance(24 * time.Hour)
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "9999")
	require.Empty(t, n.told())
}

// Policies of several costs are charged one after the other, and each crosses for itself.
func TestNear_OfPoliciesOfSeveralCosts(t *testing.T) {
	first, last := near("first", sash.PerMinute(10).Log()), near("last", sash.PerMinute(10).Log())
	dear := near("dear", sash.PerMinute(20).Log())
	dear.Cost = func(*http.Request) int64 { return 17 }
	n := newNearSite(t, first, dear, last)
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "9")
	require.Equal(t, []string{"first 10/1m0s log admitted", "dear 20/1m0s log admitted", "last 10/1m0s log admitted"}, n.told())
}

// A charge that is undone, as a later policy denies the request, is not told, and leaves nothing crossed.
func TestNear_NotOfAChargeThatIsUndone(t *testing.T) {
	dear := near("dear", sash.PerMinute(10).Log())
	dear.Cost = func(*http.Request) int64 { return 9 }
	n := newNearSite(t, dear, near("api", sash.PerMinute(10).Log()))
	n.codes(1, "GET /", "X-Key", "k", "X-Cost", "11")
	require.Empty(t, n.told())
	n.codes(1, "GET /", "X-Key", "k")
	require.Equal(t, []string{"dear 10/1m0s log admitted"}, n.told())
}

// What an attempt in a queue has crossed is not told by a later one that crosses nothing.
func TestNear_OfTheAttemptThatIsAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		dear := near("dear", sash.PerHour(11).Log())
		dear.Cost = func(r *http.Request) int64 {
			if r.Header.Get("X-Cheap") != "" {
				return 1
			}
			return 2
		}
		api := per("api", "", sash.PerMinute(2).Log())
		api.Skip = func(r *http.Request) bool { return r.Header.Get("X-Cheap") != "" }
		for _, p := range []*httplimit.Policy{&dear, &api} {
			p.Queue = httplimit.Queue{Wait: time.Hour, Requests: 10, RequestsPerClient: 10}
		}
		l := newLobby(t, dear, api, httplimit.WithObserver(func(e httplimit.Event) {
			for _, limit := range e.Near {
				told = append(told, limit.String())
			}
		}))
		l.send("first", "GET /", "X-Key", "k")
		l.send("second", "GET /", "X-Key", "k")
		for range 3 {
			l.send("cheap", "GET /", "X-Key", "k", "X-Cheap", "1")
		}
		require.Empty(t, told, "4 of 11 are left")
		l.send("waits", "GET /", "X-Key", "k") // its attempt crosses, and is undone
		require.Empty(t, told)
		l.send("cheap", "GET /", "X-Key", "k", "X-Cheap", "1")
		l.send("crosses", "GET /", "X-Key", "k", "X-Cheap", "1")
		require.Equal(t, []string{"11/1h0m0s log"}, told)
		l.happened()
		l.clock.Advance(time.Minute)
		require.Equal(t, []string{"waits served"}, l.happened())
		require.Len(t, told, 1, "the request that has waited finds it crossed")
	})
}

func TestNear_OfASettlement(t *testing.T) {
	p := near("api", sash.PerMinute(10).Log())
	p.Settle = httplimit.SettleHeader("X-Units")
	n := newNearSite(t, p)
	cost := ""
	n.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Units", cost)
		w.WriteHeader(http.StatusOK)
	}
	for _, c := range []struct {
		cost string
		want []string
	}{{"8", nil}, {"1", []string{"api 10/1m0s log admitted"}}} {
		cost = c.cost
		n.codes(1, "GET /", "X-Key", "k")
		require.Equal(t, c.want, n.told(), cost)
	}
	cost = "30"
	n.codes(1, "GET /", "X-Key", "another")
	require.Equal(t, []string{"api 10/1m0s log settled"}, n.told(), "its debts are not a limit that clients know")
	cost = "0"
	n.codes(1, "GET /", "X-Key", "third")
	require.Empty(t, n.told())
}

// A settlement after a Reconfigure crosses the limits that are in force, and not the ones that carry their debts.
func TestNear_OfASettlementUnderNewLimits(t *testing.T) {
	p := near("api", sash.PerMinute(10).Log())
	p.Near, p.Settle = 50, httplimit.SettleHeader("X-Units")
	n := newNearSite(t, p)
	n.answer = func(w http.ResponseWriter, _ *http.Request) {
		p.Limits = []sash.Limit{sash.PerMinute(20).Log()}
		require.NoError(t, n.Reconfigure(p))
		w.Header().Set("X-Units", "30")
		w.WriteHeader(http.StatusOK)
	}
	n.codes(1, "GET /", "X-Key", "k")
	require.Equal(t, []string{"api 20/1m0s log settled"}, n.told())
}

func TestNear_OfAShadowAndOfUnitsToBeLeft(t *testing.T) {
	tried := near("tried", sash.PerMinute(5).Log())
	tried.Shadow = true
	api := near("api", sash.PerMinute(10).Log())
	api.Leave = headerLeave
	n := newNearSite(t, tried, api)
	n.codes(4, "GET /", "X-Key", "k")
	require.Empty(t, n.told(), "20 % are left")
	n.codes(3, "GET /", "X-Key", "k", "X-Leave", "3")
	require.Equal(t, []string{"tried 5/1m0s log admitted"}, n.told(), "what must be left is left")
	require.Equal(t, []int{429}, n.codes(1, "GET /", "X-Key", "k", "X-Leave", "3"))
	n.codes(2, "GET /", "X-Key", "k")
	require.Equal(t, []string{"api 10/1m0s log admitted"}, n.told())
}

// The share is of the limits that a client has: of its plan, or its own.
func TestNear_IsOfTheLimitsOfTheClient(t *testing.T) {
	p := near("api", sash.PerMinute(10).Log())
	p.Plan = func(r *http.Request) string { return r.Header.Get("X-Plan") }
	p.Plans = map[string][]sash.Limit{"gold": {sash.PerMinute(10).TokenBucket(100)}}
	n := newNearSite(t, p)
	n.codes(1, "GET /", "X-Key", "k", "X-Plan", "gold", "X-Cost", "80")
	require.Empty(t, n.told())
	n.codes(1, "GET /", "X-Key", "k", "X-Plan", "gold")
	require.Equal(t, []string{"api 10/1m0s burst 100 admitted"}, n.told())

	own, _ := n.KeyFor("api", &http.Request{Header: http.Header{"X-Key": {"own"}}})
	require.NoError(t, n.Sash().SetLimits(own, sash.PerMinute(50).Log(), sash.PerHour(100).Log()))
	n.codes(1, "GET /", "X-Key", "own", "X-Cost", "41")
	n.clock.Advance(time.Minute)
	require.Equal(t, []string{"api 50/1m0s log admitted"}, n.told())
	n.codes(1, "GET /", "X-Key", "own", "X-Cost", "40")
	require.Equal(t, []string{"api 100/1h0m0s log admitted"}, n.told())
}

func TestNear_OneOfTheRequestsThatRaceCrosses(t *testing.T) {
	var told atomic.Int64
	both := near("both", sash.PerMinute(100).Log())
	both.Near = 50
	s := newSite(t, near("api", sash.PerMinute(100).Counter()), both, httplimit.WithObserver(func(e httplimit.Event) {
		told.Add(int64(len(e.Near)))
	}))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				s.do("GET /", "X-Key", "k")
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 2, told.Load(), "one for each policy")
}

func TestNear_MustBeAPercentage(t *testing.T) {
	for _, percent := range []int{-1, 101} {
		p := near("api", sash.PerMinute(10))
		p.Near = percent
		_, err := httplimit.New(p)
		require.ErrorIs(t, err, sash.ErrInvalidOption)
		require.ErrorContains(t, err, `httplimit: policy "api": Near must be a percentage from 0 to 100, got `)
	}
	_, err := httplimit.New(near("api", sash.PerMinute(2)), httplimit.WithStore(new(localStore).open))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.ErrorContains(t, err, "httplimit: WithStore does not work with a Near: a store does not tell what is left of each limit")
}
