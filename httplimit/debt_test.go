package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// debtors are limits of count units an hour, by each algorithm.
func debtors(count int64) map[string]sash.Limit {
	hourly := sash.PerHour(count)
	return map[string]sash.Limit{
		"log": hourly.Log(), "counter": hourly.Counter(), "parts": hourly.Parts(), "fixed window": hourly.Buckets(time.Hour),
		"buckets": hourly.Buckets(10 * time.Minute), "token bucket": hourly.TokenBucket(count),
	}
}

// obedient sends requests of that cost to s until that much time has passed, each of them as
// soon as it may, and returns what they have cost together.
func (s *site) obedient(t *testing.T, cost int64, during time.Duration) (spent int64) {
	t.Helper()
	for s.clock.Now() < int64(during) {
		v := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
		if v.Outcome != httplimit.Admitted {
			require.Equal(t, httplimit.Denied, v.Outcome)
			require.Less(t, v.Denial.RetryAfter, during)
			s.clock.Advance(v.Denial.RetryAfter)
			continue
		}
		v.Charges.Settle(httplimit.Response{Status: 200, Bytes: cost})
		spent += cost
	}
	return spent
}

// A client whose requests cost far more than is left gets, in the long run, the units of the
// limit and no more.
func TestSettle_CarriesDebtsPastTheWindow(t *testing.T) {
	const count, cost, hours = 4, 64, 2000
	for name, limit := range debtors(count) {
		for _, also := range []sash.Limit{sash.Unlimited(), sash.Per(count, 10*time.Millisecond), sash.PerDay(1000 * count)} {
			p := per("p", "", limit, also)
			p.Settle = httplimit.SettleBytes()
			spent := newSite(t, p).obedient(t, cost, hours*time.Hour)
			require.LessOrEqual(t, spent, int64(2*count+count*hours+cost), "%s and %v", name, also)
			require.GreaterOrEqual(t, spent, int64(count*hours-cost), "%s and %v", name, also)
		}
	}
}

// Under a plan, after another configuration, and by a store, debts are carried, too.
func TestSettle_CarriesDebtsUnderPlansAndReconfigure(t *testing.T) {
	p := per("p", "", sash.PerHour(1))
	p.Settle = httplimit.SettleBytes()
	p.Plan, p.Plans = func(*http.Request) string { return "gold" }, map[string][]sash.Limit{"gold": {sash.PerHour(4)}}
	other := per("other", "/other", sash.PerHour(1))
	s := newSite(t, other, p)
	require.LessOrEqual(t, s.obedient(t, 64, 1000*time.Hour), int64(8+4000+64))
	p.Plans["gold"][0] = sash.PerHour(8).Counter()
	require.NoError(t, s.Reconfigure(p))
	require.LessOrEqual(t, s.obedient(t, 64, 2000*time.Hour), int64(16+8000+2*64))

	store := &localStore{}
	newStoreSite(t, store, p)
	require.Equal(t, [][]sash.Limit{
		{sash.PerHour(1), sash.PerHour(1).TokenBucket(2)}, {sash.PerHour(8).Counter(), sash.PerHour(8).TokenBucket(16)},
	}, store.StoreKeys.Limits)
}

// As long as no request costs more than its estimate, a policy with Settle decides as its limit
// alone does: what carries debts denies nothing.
func TestSettle_DecidesLikeTheLimitWithoutDebts(t *testing.T) {
	for name, limit := range debtors(20) {
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 1))
			p := per("p", "", limit)
			cost := int64(0)
			p.Cost, p.Settle = func(*http.Request) int64 { return cost }, httplimit.SettleBytes()
			s := newSite(t, p)
			alone := sash.Must(sash.New(limit, sash.WithClock(s.clock), sash.WithSweepInterval(-1)))
			key := keyOf(t, s) // parts begin at instants of the key's own
			type open struct {
				charges     *httplimit.Charges
				reservation sash.Reservation
				cost        int64
			}
			var under []open
			for step := range 200 {
				switch d, until := time.Duration(random.Int64N(int64(20*time.Minute))), alone.Peek(key, 1).RetryAfter; {
				case random.IntN(3) == 0 && until > 0:
					s.clock.Advance(until) // to the very instant
				case random.IntN(2) == 0:
					s.clock.Advance(d)
				}
				cost = random.Int64N(12)
				v := s.Decide(http.Header{}, newRequest("GET /", "X-Key", "k"))
				reservation, want := alone.Reserve(key, cost)
				require.Equal(t, want.Allowed, v.Outcome == httplimit.Admitted, "%s, seed %d, step %d", name, seed, step)
				require.Equal(t, want.RetryAfter, v.Denial.RetryAfter, "%s, seed %d, step %d", name, seed, step)
				require.Equal(t, want.Remaining, s.Sash().Peek(key, 0).Remaining, "%s, seed %d, step %d", name, seed, step)
				if want.Allowed {
					under = append(under, open{v.Charges, reservation, cost})
				}
				if len(under) > random.IntN(5) {
					i := random.IntN(len(under))
					actual := random.Int64N(under[i].cost + 1)
					under[i].charges.Settle(httplimit.Response{Status: 200, Bytes: actual})
					under[i].reservation.Commit(actual)
					under = append(under[:i], under[i+1:]...)
				}
			}
		}
	}
}

func keyOf(t *testing.T, s *site) string {
	key, ok := s.KeyFor("p", newRequest("GET /", "X-Key", "k"))
	require.True(t, ok)
	return key
}

// Clients and observers are told of the limit, and of nothing that carries its debts.
func TestSettle_TellsDebtsByTheNameOfTheLimit(t *testing.T) {
	p := per("p", "", sash.PerHour(4), sash.PerDay(1000))
	p.Settle = httplimit.SettleBytes()
	var last httplimit.Event
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { last = e }))
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 44)) }
	s.do("GET /", "X-Key", "k")
	s.clock.Advance(2 * time.Hour) // the window forgets all 44, and 36 of them are owed
	w := s.do("GET /", "X-Key", "k")
	require.Equal(t, http.StatusTooManyRequests, w.Code)
	require.Equal(t, `"p-1h";q=4;w=3600, "p-24h";q=1000;w=86400`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"p-1h";r=0;t=26100`, w.Header().Get("RateLimit"), "7 of 8 units must be there of a bucket that lacks 36")
	require.Equal(t, "26100", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"violated-policies":["p-1h"]`)
	require.Equal(t, httplimit.Denied, last.Outcome)
	require.Equal(t, sash.PerHour(4), last.Decision.Limit)
	require.Equal(t, p.Limits, s.Policies()[0].Limits)

	require.NoError(t, s.Sash().Reconfigure(sash.PerHour(7)))
	require.Equal(t, []sash.Limit{sash.PerHour(7)}, s.Policies()[0].Limits)
}

func TestSettle_NeedsRoomForWhatCarriesDebts(t *testing.T) {
	p := per("p", "")
	for i := range 33 {
		p.Limits = append(p.Limits, sash.PerHour(int64(i+1)))
	}
	_, err := httplimit.New(p)
	require.NoError(t, err)
	p.Settle = httplimit.SettleBytes()
	_, err = httplimit.New(p)
	require.EqualError(t, err, `httplimit: policy "p": a key has at most 64 limits, got 66: invalid limit`)
	p.Limits = append(p.Limits[:30:30], sash.Per(0, time.Hour), sash.Unlimited(), sash.PerHour(1).TokenBucket(1)) // which need none
	_, err = httplimit.New(p)
	require.NoError(t, err)
}
