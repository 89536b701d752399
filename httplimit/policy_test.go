package httplimit_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestNew_NamesEveryFaultOfEveryPolicy(t *testing.T) {
	fine := []sash.Limit{sash.PerSecond(1)}
	_, err := httplimit.New(
		httplimit.Policy{},
		httplimit.Policy{Name: "é", Unit: "\n", Pattern: "GET", Limits: fine, Key: httplimit.Everyone()},
		httplimit.Policy{Name: "bad", Pattern: "/{a}/{a}", Limits: []sash.Limit{{Count: -1, Window: 1}, {Count: 1, Window: -1}}},
		httplimit.Policy{Name: "x", Limits: []sash.Limit{sash.PerHour(1), sash.PerMinute(1)}, Key: httplimit.Everyone()},
		httplimit.Policy{Name: "x-1h", Limits: fine, Key: httplimit.Everyone()},
		httplimit.Policy{Name: "x-1h", Limits: fine, Key: httplimit.Everyone()},
		httplimit.WithClock(nil), httplimit.WithObserver(nil), httplimit.WithDenied(nil), httplimit.WithUnidentified(nil),
		httplimit.WithSizeHint(-1), nil, (*httplimit.Policy)(nil),
		httplimit.WithSash(sash.WithChargeDenied(), fine[0], &fine[0], nil, sash.WithLimits(fine...), (*sash.Limit)(nil)),
		httplimit.WithoutRateLimit(), httplimit.WithPartitionKey(), httplimit.WithEventIdentities(),
	)
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
	require.ErrorIs(t, err, sash.ErrNoLimit)
	require.Equal(t, strings.TrimSpace(`
httplimit: WithClock: clock must not be nil: invalid option
httplimit: WithObserver: f must not be nil: invalid option
httplimit: WithDenied: f must not be nil: invalid option
httplimit: WithUnidentified: h must not be nil: invalid option
httplimit: option 12: must not be nil: invalid option
httplimit: option 13: must not be nil: invalid option
httplimit: WithSash: option 2: limits are given to a Policy: invalid option
httplimit: WithSash: option 3: limits are given to a Policy: invalid option
httplimit: WithSash: option 4: must not be nil: invalid option
httplimit: WithSash: option 5: limits are given to a Policy: invalid option
httplimit: WithSash: option 6: limits are given to a Policy: invalid option
httplimit: WithSizeHint: keys must be at least 0, got -1: invalid option
httplimit: WithPartitionKey: WithoutRateLimit leaves out the fields that it would be in: invalid option
httplimit: WithEventFingerprints and WithEventIdentities need WithObserver: invalid option
httplimit: policy 1: Name must not be empty: invalid option
httplimit: policy 1: Key must not be nil: invalid option
httplimit: policy 1: Limits must not be empty: no limit
httplimit: policy "é": Name must be printable ASCII, got "é": invalid option
httplimit: policy "é": Unit must be printable ASCII, got "\n": invalid option
httplimit: policy "é": Pattern: "GET": at offset 0: host/path missing /: invalid option
httplimit: policy "bad": Key must not be nil: invalid option
httplimit: policy "bad": Pattern: "/{a}/{a}": at offset 5: duplicate wildcard name "a": invalid option
httplimit: policy "bad": limit 1: Count must be >= 0, got -1: invalid limit
httplimit: policy "bad": limit 2: Window must be > 0, got -1ns: invalid limit
httplimit: policies 4 and 5: both have a quota named "x-1h": invalid option
httplimit: policies 5 and 6: both have a quota named "x-1h": invalid option`), err.Error())

	_, err = httplimit.New(per("x", "", fine...), httplimit.WithSash((*sash.Limit)(nil)))
	require.EqualError(t, err, "httplimit: WithSash: option 1: limits are given to a Policy: invalid option")

	many := make([]sash.Limit, 65)
	for i := range many {
		many[i] = sash.Per(1, time.Duration(i+1))
	}
	many[64] = sash.Limit{Count: -1, Window: -1, Algorithm: 9}
	_, err = httplimit.New(per("100%d", "", many...), per("b", "", sash.Limit{Count: 1, Window: 1, Algorithm: sash.SlidingBuckets, Precision: 2}))
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
	require.Equal(t, strings.TrimSpace(`
httplimit: policy "100%d": a key has at most 64 limits, got 65: invalid limit
httplimit: policy "100%d": limit 65: Count must be >= 0, got -1: invalid limit
httplimit: policy "100%d": limit 65: Window must be > 0, got -1ns: invalid limit
httplimit: policy "100%d": limit 65: Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket, SlidingParts or Concurrency, got Algorithm(9): invalid limit
httplimit: policy "b": limit 1: Precision must be <= Window, got 2ns and 1ns: invalid limit`), err.Error())

	_, err = httplimit.New()
	require.EqualError(t, err, "httplimit: New needs a Policy: invalid option")
	_, err = httplimit.New(per("a", "", fine...), httplimit.WithSizeHint(-1))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	_, err = httplimit.New(per("a", "", fine...), httplimit.WithSash(sash.WithSizeHint(-1)))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.Panics(t, func() { httplimit.Must(httplimit.New()) })
	l := httplimit.Must(httplimit.New(per("a", "", fine...)))
	require.Panics(t, func() { l.Middleware(nil) })
	require.NoError(t, l.Close())
}

func TestNew_TakesAPointerToAPolicy(t *testing.T) {
	p := per("a", "", sash.PerHour(1))
	s := newSite(t, &p)
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "a"))
}

func TestKeyFor_IsTheKeyOfTheLimiterBelow(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(1).Log()), per("b", "POST /", sash.PerHour(2).Log()))
	r := newRequest("GET /", "X-Key", "k")
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
	key, ok := s.KeyFor("a", r)
	require.True(t, ok)
	require.True(t, s.Sash().Reset(key))
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))

	key, ok = s.KeyFor("b", r)
	require.True(t, ok)
	require.EqualValues(t, 2, s.Sash().Peek(key, 0).Remaining)
	_, ok = s.KeyFor("c", r)
	require.False(t, ok)
	_, ok = s.KeyFor("a", newRequest("GET /"))
	require.False(t, ok)
	_, ok = s.KeyFor("c", newRequest("GET /"))
	require.False(t, ok)
}

func TestSash_KeysWithLimitsOfTheirOwnAreToldOfThem(t *testing.T) {
	s := newSite(t, per("plan", "", sash.PerMinute(2).Log(), sash.PerHour(9).Log()))
	key, _ := s.KeyFor("plan", newRequest("GET /", "X-Key", "k"))
	require.NoError(t, s.Sash().SetLimits(key, sash.PerHour(1).Log()))
	h := s.do("GET /", "X-Key", "k").Header()
	require.Equal(t, []string{`"plan";q=1;w=3600`}, h["Ratelimit-Policy"])
	require.Equal(t, []string{`"plan";r=0;t=3600`}, h["Ratelimit"])
	require.Contains(t, s.do("GET /", "X-Key", "k").Body.String(), `"violated-policies":["plan"]`)
	h = s.do("GET /", "X-Key", "j").Header()
	require.Equal(t, []string{`"plan-1m";q=2;w=60, "plan-1h";q=9;w=3600`}, h["Ratelimit-Policy"])
}

func TestNew_SweepsByTheLongestWindowOfAllPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := httplimit.Must(httplimit.New(per("a", "", sash.Per(1, 1)), per("b", "", sash.PerMinute(1))))
		defer l.Close()
		<-time.After(29 * time.Second)
		require.Zero(t, l.Sash().Stats().Sweeps)
		<-time.After(2 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 1, l.Sash().Stats().Sweeps)
	})
}

func TestPolicies_AreKeptApartHoweverMany(t *testing.T) {
	var options []httplimit.Option
	for i := range 200 {
		p := per(strings.Repeat("p", i+1), "", sash.PerHour(int64(i+10)).Log())
		p.Skip = func(r *http.Request) bool { return len(r.Header.Get("Which")) != i+1 }
		options = append(options, p)
	}
	s := newSite(t, options...)
	for _, i := range []int{0, 1, 63, 64, 127, 128, 199} {
		which := strings.Repeat("p", i+1)
		h := s.do("GET /", "X-Key", "k", "Which", which).Header()
		require.Equal(t, int64(i+9), remaining(t, h, which))
	}
}

func TestWithSash_HandsOptionsOn(t *testing.T) {
	var keys []string
	s := newSite(t, per("short", "", sash.PerMinute(1).Log()), per("long", "", sash.PerHour(9).Log()),
		httplimit.WithSash(sash.WithChargeDenied(), sash.WithObserver(func(key string, _ int64, _ sash.Decision) { keys = append(keys, key) })))
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	s.clock.Advance(59 * time.Second)
	require.Equal(t, "60", s.do("GET /", "X-Key", "k").Header().Get("Retry-After"), "hammering keeps it denied")
	require.EqualValues(t, 7, s.left(t, "long"), "and is charged to all")
	s.clock.Advance(time.Minute)
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.Len(t, keys, 6)
	key, ok := s.KeyFor("short", newRequest("GET /", "X-Key", "k"))
	require.True(t, ok)
	require.Contains(t, keys, key)
}

// An observer may keep its keys: no later request changes them.
func TestWithSash_ObserversAreGivenKeysThatNeverChange(t *testing.T) {
	reserved := per("reserved", "/reserved/", sash.PerHour(99).Log())
	reserved.Charge = func(int) bool { return true }
	shadow := per("shadow", "", sash.PerHour(1).Log())
	shadow.Shadow = true
	for name, policies := range map[string][]httplimit.Option{
		"one":      {per("one", "", sash.PerHour(99).Log())},
		"several":  {per("one", "", sash.PerHour(99).Log()), per("two", "", sash.PerHour(99).Log()), shadow},
		"reserved": {reserved, shadow},
	} {
		t.Run(name, func(t *testing.T) {
			var given []string
			var want []string
			s := newSite(t, append(policies,
				httplimit.WithSash(sash.WithObserver(func(key string, _ int64, _ sash.Decision) {
					given = append(given, key)
					want = append(want, strings.Clone(key))
				})))...)
			for _, client := range []string{"anna", "bert", "carl", "dora"} {
				s.do("GET /reserved/", "X-Key", client)
			}
			require.Len(t, given, 4*len(policies))
			require.Equal(t, want, given)
		})
	}
}

// Keys are copied only for an observer.
func TestWithSash_OtherOptionsCostNoAllocation(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools drop items")
	}
	allocations := func(options ...httplimit.Option) float64 {
		handler := newSite(t, append(options, per("each", "", sash.PerHour(1e6)))...).Middleware(http.NotFoundHandler())
		r, w := newRequest("GET /", "X-Key", "k"), &bareWriter{http.Header{}}
		return testing.AllocsPerRun(1000, func() {
			clear(w.header)
			handler.ServeHTTP(w, r)
		})
	}
	require.Equal(t, allocations(), allocations(httplimit.WithSash(sash.WithChargeDenied(), sash.WithMaxKeys(10, sash.DenyNew))))
}

// A key's own limits hold instead of its policy's, and the headers report them.
func TestWithSash_LimitsForGivesKeysLimitsOfTheirOwn(t *testing.T) {
	var s *site
	type identity struct{ policy, who string }
	var asked []identity
	plans := map[identity][]sash.Limit{
		{"first", "gold"}:   {sash.PerMinute(3).Log()},
		{"second", "gold"}:  {sash.PerHour(4).Log(), sash.PerMinute(4).Log()},
		{"second", "wrong"}: {sash.PerHour(-1)},
		{"first", "wrong"}:  {sash.PerHour(-1)},
	}
	limitsFor := sash.WithLimitsFor(func(key string) []sash.Limit {
		policy, who, ok := s.ParseKey(key)
		require.True(t, ok)
		asked = append(asked, identity{policy, who})
		return plans[identity{policy, who}]
	})
	first, second := per("first", "/a", sash.PerHour(1).Log()), per("second", "/b", sash.PerHour(2).Log())
	shadow := per("shadow", "/c", sash.PerHour(5).Log())
	shadow.Shadow = true
	for name, policies := range map[string][]httplimit.Option{
		"one policy": {first}, "several": {first, second}, "a shadow before": {shadow, first, second},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			s = newSite(t, append(policies, httplimit.WithSash(limitsFor))...)
			require.Equal(t, []int{200, 429}, s.codes(2, "GET /a", "X-Key", "free"))
			require.Equal(t, []int{429, 429}, s.codes(2, "GET /a", "X-Key", "wrong"))
			require.EqualValues(t, 2, s.Sash().Stats().Invalid)
			h := s.do("GET /a", "X-Key", "gold").Header()
			require.Equal(t, `"first";q=3;w=60`, h.Get("RateLimit-Policy"))
			require.Equal(t, `"first";r=2;t=60`, h.Get("RateLimit"))
			require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /a", "X-Key", "gold"))
			require.Subset(t, asked, []identity{{"first", "free"}, {"first", "wrong"}, {"first", "gold"}})
			if len(policies) == 1 {
				return
			}
			require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /b", "X-Key", "free"))
			require.Equal(t, []int{429, 429}, s.codes(2, "GET /b", "X-Key", "wrong"))
			require.Equal(t, `"second";q=0;w=1`, s.do("GET /b", "X-Key", "wrong").Header().Get("RateLimit-Policy"))
			require.Equal(t, []int{200, 200, 200, 200, 429}, s.codes(5, "GET /b", "X-Key", "gold"))
		})
	}

	_, err := httplimit.New(first, httplimit.WithSash(sash.WithLimitsFor(nil)))
	require.EqualError(t, err, "sash: WithLimitsFor: f must not be nil: invalid option")
}

func TestParseKey_IsTheInverseOfKeyFor(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(1).Log()), per("b", "POST /", sash.PerHour(2).Log()))
	for _, who := range []string{"k", "\x00", strings.Repeat("x", 128)} {
		for _, policy := range []string{"a", "b"} {
			key, ok := s.KeyFor(policy, newRequest("GET /", "X-Key", who))
			require.True(t, ok)
			gotPolicy, identity, ok := s.ParseKey(key)
			require.True(t, ok)
			require.Equal(t, []string{policy, who}, []string{gotPolicy, identity})
		}
	}
	// A digest is not an identity: another request could have it as its identity.
	long, _ := s.KeyFor("a", newRequest("GET /", "X-Key", strings.Repeat("x", 129)))
	for _, key := range []string{"", "\x04", "\x80", "\x80\x00", "\x80\x80\x80\x80\x20", strings.Repeat("\xff", 20), "\xfe\xff\xff\xff\xff\x7f", long} {
		_, _, ok := s.ParseKey(key)
		require.False(t, ok, "%q", key)
	}
}

func TestPolicies_AreInTheOrderOfNew(t *testing.T) {
	shadow := per("shadow", "", sash.PerHour(9), sash.PerDay(20))
	shadow.Shadow = true
	enforced := per("enforced", "POST /login", sash.PerHour(1))
	s := newSite(t, shadow, enforced)
	for range 2 { // the caller's changes are its own
		policies := s.Policies()
		require.Len(t, policies, 2)
		require.Equal(t, []string{"shadow", "enforced"}, []string{policies[0].Name, policies[1].Name})
		require.Equal(t, []sash.Limit{sash.PerHour(9), sash.PerDay(20)}, policies[0].Limits)
		require.Equal(t, []sash.Limit{sash.PerHour(1)}, policies[1].Limits)
		require.True(t, policies[0].Shadow)
		require.Equal(t, "POST /login", policies[1].Pattern)
		policies[0].Limits[0].Count = 0
		policies[1] = httplimit.Policy{}
	}
}

func TestPolicies_HaveTheLimitsOfReconfigure(t *testing.T) {
	s := newSite(t, per("plan", "", sash.PerHour(1)))
	require.Equal(t, []sash.Limit{sash.PerHour(1)}, s.Policies()[0].Limits)
	require.NoError(t, s.Sash().Reconfigure(sash.PerHour(3), sash.PerDay(30)))
	require.Equal(t, []sash.Limit{sash.PerHour(3), sash.PerDay(30)}, s.Policies()[0].Limits)
}

// With several policies, it would be unclear which limits Reconfigure replaces.
func TestSash_ReconfigureIsForTheOnlyPolicy(t *testing.T) {
	for name, options := range map[string][]httplimit.Option{
		"alone":             nil,
		"with more options": {httplimit.WithSash(sash.WithChargeDenied())},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(options, per("plan", "", sash.PerHour(1).Log()))...)
			require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
			require.NoError(t, s.Sash().Reconfigure(sash.PerHour(3).Log()))
			w := s.do("GET /", "X-Key", "k")
			require.Equal(t, 200, w.Code)
			require.Equal(t, `"plan";q=3;w=3600`, w.Header().Get("RateLimit-Policy"))
			require.Equal(t, []int{200, 200, 200, 429}, s.codes(4, "GET /", "X-Key", "j"))
		})
	}

	shadow := per("b", "", sash.PerHour(9).Log())
	shadow.Shadow = true
	for _, second := range []httplimit.Policy{per("b", "", sash.PerHour(9).Log()), shadow} {
		s := newSite(t, per("a", "", sash.PerHour(1).Log()), second)
		err := s.Sash().Reconfigure(sash.PerHour(3).Log())
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.EqualError(t, err, "httplimit: sash.Limiter.Reconfigure does not say which of 2 policies and plans the limits are for; "+
			"Limiter.Reconfigure replaces policies, and SetLimits gives limits to a key of KeyFor: unsupported operation")
		require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
		key, _ := s.KeyFor("a", newRequest("GET /", "X-Key", "k"))
		require.NoError(t, s.Sash().SetLimits(key, sash.PerHour(3).Log()))
		require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))
	}
}

// A name of a quota is a String of RFC 9651. With another character, clients drop the whole field.
func TestPolicy_NamesQuotasInASCII(t *testing.T) {
	p := per("p", "", sash.Per(5, 250*time.Microsecond).Log())
	p.Limits = append(p.Limits, sash.PerHour(100))
	w := newSite(t, p).do("GET /", "X-Key", "k")
	require.Equal(t, `"p-250us";q=5, "p-1h";q=100;w=3600`, w.Header().Get("RateLimit-Policy"))
}
