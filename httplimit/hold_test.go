package httplimit_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// holding returns a policy that admits that many requests at once.
func holding(count int64, more ...sash.Limit) httplimit.Policy {
	return per("api", "", append(more, sash.AtOnce(count, time.Hour))...)
}

// A slot is held while the handler runs, and is free once it has ended, however it ends.
func TestAtOnce_HoldsUntilTheResponseHasEnded(t *testing.T) {
	endings := map[string]http.HandlerFunc{
		"returns": func(http.ResponseWriter, *http.Request) {},
		"answers": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"streams": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
		},
		"panics": func(http.ResponseWriter, *http.Request) { panic("of a test") },
		"aborts": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"exits":  func(http.ResponseWriter, *http.Request) { runtime.Goexit() },
		"hijacks": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		},
		"outlives its client": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, holding(1))
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			var within []int
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				s.answer = nil
				within = append(within, s.do("GET /", "X-Key", "k").Code, s.do("GET /", "X-Key", "other").Code)
				if name == "outlives its client" {
					hangUp()
				}
				end(w, r)
			}
			ended := make(chan struct{})
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				defer close(ended) // a server does not wait for a handler that has hijacked its connection
				s.ServeHTTP(w, r)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Start()
			defer server.Close()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody)
			require.NoError(t, err)
			r.Header.Set("X-Key", "k")
			if response, err := http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
			}
			<-ended
			require.Equal(t, []int{429, 200}, within)
			require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"), "the slot is free")
		})
	}
}

// Whatever else a policy has, its slots are held and free again. The rest is charged as ever.
func TestAtOnce_WithTheRestOfAPolicy(t *testing.T) {
	const count = 5
	both := []sash.Limit{sash.PerMinute(100).Log(), sash.AtOnce(count, time.Hour)}
	for name, c := range map[string]struct {
		change  func(p *httplimit.Policy)
		options []httplimit.Option
		spent   int64 // of the rate, by a request
	}{
		"alone":    {func(p *httplimit.Policy) {}, nil, 1},
		"cost":     {func(p *httplimit.Policy) { p.Cost = func(*http.Request) int64 { return 2 } }, nil, 2},
		"leave":    {func(p *httplimit.Policy) { p.Leave = func(*http.Request) int64 { return 2 } }, nil, 1},
		"settle":   {func(p *httplimit.Policy) { p.Settle = func(*httplimit.Response) int64 { return 7 } }, nil, 7},
		"less":     {func(p *httplimit.Policy) { p.Settle = func(*httplimit.Response) int64 { return 0 } }, nil, 0},
		"estimate": {func(p *httplimit.Policy) { p.Settle = httplimit.SettleEstimate() }, nil, 1},
		"panics":   {func(p *httplimit.Policy) { p.Settle = func(*httplimit.Response) int64 { panic("of a test") } }, nil, 1},
		"charge":   {func(p *httplimit.Policy) { p.Charge = func(status int) bool { return status != 200 } }, nil, 0},
		"shadow":   {func(p *httplimit.Policy) { p.Shadow = true }, nil, 1},
		"queue":    {func(p *httplimit.Policy) { p.Queue = httplimit.Queue{Wait: time.Nanosecond, Requests: 1} }, nil, 1},
		"plan": {func(p *httplimit.Policy) {
			p.Limits, p.Plans = []sash.Limit{sash.PerHour(1)}, map[string][]sash.Limit{"gold": both}
			p.Plan = func(*http.Request) string { return "gold" }
		}, nil, 1},
		"other costs": {func(p *httplimit.Policy) {}, []httplimit.Option{func() httplimit.Policy {
			p := per("dear", "", sash.PerMinute(1000).Log())
			p.Cost = func(*http.Request) int64 { return 10 }
			return p
		}()}, 1},
		"another policy": {func(p *httplimit.Policy) {}, []httplimit.Option{per("other", "", sash.PerMinute(1000).Log())}, 1},
		"a key's own": {func(p *httplimit.Policy) { p.Limits = []sash.Limit{sash.PerHour(1)} }, []httplimit.Option{
			httplimit.WithSash(sash.WithLimitsFor(func(string) []sash.Limit { return both }))}, 1},
		"with a fingerprint": {func(p *httplimit.Policy) {}, []httplimit.Option{
			httplimit.WithObserver(func(httplimit.Event) {}), httplimit.WithEventFingerprints()}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := per("api", "", both...)
			c.change(&p)
			s := newSite(t, append(c.options, p, httplimit.WithXRateLimit())...)
			within := int64(-1)
			key, ok := s.KeyFor("api", newRequest("GET /", "X-Key", "k"))
			require.True(t, ok)
			s.answer = func(w http.ResponseWriter, _ *http.Request) {
				within = s.Sash().Peek(key, 0).Remaining
				w.WriteHeader(http.StatusOK)
			}
			require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
			cost := int64(1)
			if p.Cost != nil {
				cost = 2
			}
			require.Equal(t, count-cost, within, "held")
			require.EqualValues(t, count, s.Sash().Peek(key, 0).Remaining, "free")
			require.NoError(t, s.Sash().SetLimits(key, sash.PerMinute(100).Log()))
			require.Equal(t, 100-c.spent, s.Sash().Peek(key, 0).Remaining, "spent")
		})
	}
}

// held returns how many units of a policy's key are held, of count.
func (s *site) held(t *testing.T, policy string, count int64) int64 { return count - s.left(t, policy) }

// A request that is denied holds nothing, whichever policy denies it, in whatever order they stand.
func TestAtOnce_AllOrNothing(t *testing.T) {
	slots, rate := holding(2), per("rate", "", sash.PerMinute(1).Log())
	dear := rate
	dear.Cost = func(*http.Request) int64 { return 3 }
	dear.Limits = []sash.Limit{sash.PerMinute(3).Log()}
	for name, policies := range map[string][]httplimit.Option{
		"slots first": {slots, rate}, "slots last": {rate, slots}, "dear first": {dear, slots}, "dear last": {slots, dear},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, policies...)
			require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
			require.Zero(t, s.held(t, "api", 2))
			s.clock.Advance(time.Minute)
			full := []*httplimit.Charges{s.Decide(nil, newRequest("GET /", "X-Key", "k")).Charges}
			s.clock.Advance(time.Minute)
			full = append(full, s.Decide(nil, newRequest("GET /", "X-Key", "k")).Charges)
			s.clock.Advance(time.Minute)
			require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code, "both slots are held")
			full[0].Settle(httplimit.Response{})
			require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code, "the rate was charged nothing")
		})
	}
}

// A slot is lost for its lease if the panic of an observer, or of a function for a shadow, ends the request.
func TestAtOnce_APanicWithinLeavesNothingHeld(t *testing.T) {
	t.Run("an observer", func(t *testing.T) {
		for name, fault := range map[string]func(){"panics": func() { panic("of a test") }, "aborts": func() { panic(http.ErrAbortHandler) }} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, holding(2), httplimit.WithObserver(func(httplimit.Event) { fault() }))
				func() {
					defer func() { _ = recover() }()
					require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
				}()
				require.Zero(t, s.held(t, "api", 2))
			})
		}
	})
	t.Run("an observer of package sash", func(t *testing.T) {
		other := per("other", "", sash.PerHour(9).Log())
		for name, policies := range map[string][]httplimit.Option{"alone": {holding(2)}, "with another": {other, holding(2)}} {
			t.Run(name, func(t *testing.T) {
				s := newSite(t, append(policies, httplimit.WithSash(sash.WithObserver(func(string, int64, sash.Decision) { panic("of a test") })))...)
				require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
				require.Zero(t, s.held(t, "api", 2))
			})
		}
	})
	t.Run("a function of a shadow, with a store", func(t *testing.T) {
		shadow, store := per("shadow", "", sash.PerHour(9).Log()), new(localStore)
		shadow.Shadow = true
		s := newStoreSite(t, store, holding(1), shadow, httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
			if key == "shadow\x00k" {
				panic("of a test")
			}
			return nil
		})))
		require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
		require.EqualValues(t, 1, store.Limiter.Peek("api\x00k", 0).Remaining)
	})
	t.Run("a function of a shadow", func(t *testing.T) {
		first, second := holding(2), holding(3)
		first.Name, second.Name, first.Shadow, second.Shadow = "first", "second", true, true
		panics := false
		s := newSite(t, first, second, holding(2), httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
			if panics && key[0] == 4 { // the third policy
				panic("of a test")
			}
			return nil
		})))
		panics = true
		require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
		panics = false
		for _, name := range []string{"first", "api"} {
			require.Zero(t, s.held(t, name, 2), name)
		}
	})
}

// A slot is free again, too, if an observer panics that is told of a panic in the policy.
func TestAtOnce_APanicOfTheObserverOfAPanic(t *testing.T) {
	p := holding(1)
	p.Settle = func(*httplimit.Response) int64 { panic("of a test") }
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) {
		if e.Outcome == httplimit.Failed {
			panic("of the observer")
		}
	}))
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"))
	require.Zero(t, s.held(t, "api", 1))
}

// Slots are free again, too, if what is called after a response ends its goroutine, as a check of a test does.
func TestAtOnce_TheGoroutineEndsAtASettlement(t *testing.T) {
	for name, change := range map[string]func(p *httplimit.Policy){
		"in Charge":   func(p *httplimit.Policy) { p.Charge = func(int) bool { runtime.Goexit(); return true } },
		"in Settle":   func(p *httplimit.Policy) { p.Settle = func(*httplimit.Response) int64 { runtime.Goexit(); return 0 } },
		"an observer": func(p *httplimit.Policy) { p.Settle = func(*httplimit.Response) int64 { return 2 } },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := holding(1), holding(1)
			first.Name = "first"
			change(&first)
			s := newSite(t, first, second, httplimit.WithObserver(func(e httplimit.Event) {
				if e.Outcome == httplimit.Settled {
					runtime.Goexit()
				}
			}))
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.do("GET /", "X-Key", "k")
			}()
			<-ended
			for _, policy := range []string{"first", "api"} {
				require.Zero(t, s.held(t, policy, 1), policy)
			}
		})
	}
}

// A store that panics when a reservation is closed of which nothing may change is a fault like any other.
func TestAtOnce_AStoreThatPanicsWhileItCloses(t *testing.T) {
	s := newStoreSite(t, &panickingStore{new(localStore)}, holding(1), per("other", "", sash.PerHour(9).Log()))
	require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
}

// A panickingStore is a localStore whose commits panic.
type panickingStore struct{ *localStore }

func (s *panickingStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	_, err := s.localStore.open(keys)
	return s, err
}

func (s *panickingStore) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	d := s.localStore.Reserve(ctx, keys, n, leave)
	for i := range d.Keys {
		d.Keys[i].Commit = func(context.Context, int64) error { panic("of a test") }
	}
	return d
}

// A shadow holds slots, and denies none. A request that it would deny holds none of it.
func TestAtOnce_OfAShadow(t *testing.T) {
	var outcomes []httplimit.Outcome
	p := holding(1)
	p.Shadow = true
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { outcomes = append(outcomes, e.Outcome) }))
	first := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 1, s.held(t, "api", 1))
	first.Charges.Settle(httplimit.Response{})
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []httplimit.Outcome{httplimit.Admitted, httplimit.Denied, httplimit.Admitted}, outcomes)
	require.Zero(t, s.held(t, "api", 1))
}

// A policy that holds and settles nothing tells of no settlement, also if its handler shows no response.
func TestAtOnce_TellsOfNoSettlement(t *testing.T) {
	var events []httplimit.Event
	s := newSite(t, holding(1), httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	s.answer = func(http.ResponseWriter, *http.Request) {}
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	s.answer = func(http.ResponseWriter, *http.Request) { require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code) }
	s.do("GET /", "X-Key", "k")
	require.Len(t, events, 3)
	denied := events[2]
	require.Equal(t, httplimit.Denied, denied.Outcome)
	require.Equal(t, "1 at once for 1h0m0s", denied.Decision.Limit.String())
	require.Equal(t, time.Hour, denied.Decision.RetryAfter, "at the latest")
}

// SetLimits may give a key slots, or take them away, at any time.
func TestAtOnce_OfAKeyByItself(t *testing.T) {
	s := newSite(t, per("api", "", sash.PerMinute(100).Log()))
	key, _ := s.KeyFor("api", newRequest("GET /", "X-Key", "k"))
	require.NoError(t, s.Sash().SetLimits(key, sash.AtOnce(2, time.Hour)))
	first := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.EqualValues(t, 1, s.held(t, "api", 2))
	require.Equal(t, []int{200, 200, 200}, s.codes(3, "GET /", "X-Key", "k"))
	first.Charges.Settle(httplimit.Response{})
	require.Zero(t, s.held(t, "api", 2))
	require.Nil(t, s.Decide(nil, newRequest("GET /", "X-Key", "other")).Charges, "nothing of it may change")
	require.NoError(t, s.Sash().SetLimits(key))
	require.Nil(t, s.Decide(nil, newRequest("GET /", "X-Key", "k")).Charges)
}

// A request that is charged just when its key comes to hold units gives them back, however it is charged.
func TestAtOnce_LimitsThatComeWithTheCharge(t *testing.T) {
	slots := []sash.Limit{sash.PerMinute(100).Log(), sash.AtOnce(2, time.Hour)}
	for name, c := range map[string]struct {
		change func(p *httplimit.Policy)
		more   []httplimit.Option
	}{
		"alone":           {func(*httplimit.Policy) {}, nil},
		"without headers": {func(*httplimit.Policy) {}, []httplimit.Option{httplimit.WithoutRateLimit()}},
		"leave":           {func(p *httplimit.Policy) { p.Leave = func(*http.Request) int64 { return 1 } }, nil},
		"near":            {func(p *httplimit.Policy) { p.Near = 20 }, []httplimit.Option{httplimit.WithObserver(func(httplimit.Event) {})}},
		"another policy":  {func(*httplimit.Policy) {}, []httplimit.Option{per("other", "", sash.PerMinute(100).Log())}},
		"another with a leave": {func(p *httplimit.Policy) { p.Leave = func(*http.Request) int64 { return 1 } },
			[]httplimit.Option{per("other", "", sash.PerMinute(100).Log())}},
		"another that settles": {func(*httplimit.Policy) {}, []httplimit.Option{settling(per("other", "", sash.PerMinute(100).Log()))}},
		"shadow":               {func(p *httplimit.Policy) { p.Shadow = true }, nil},
	} {
		for _, tracked := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				clock := &calling{ManualClock: sash.NewManualClock(0)}
				p := per("api", "", sash.PerMinute(100).Log())
				c.change(&p)
				l := httplimit.Must(httplimit.New(append(c.more, p, httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))...))
				defer l.Close()
				r := newRequest("GET /", "X-Key", "k")
				key, _ := l.KeyFor("api", r)
				h := l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					require.EqualValues(t, 1, l.Sash().Peek(key, 0).Remaining, "held")
					w.WriteHeader(http.StatusOK)
				}))
				if tracked {
					l.Decide(nil, r)
				}
				clock.call = func() {
					clock.call = nil
					require.NoError(t, l.Sash().SetLimits(key, slots...))
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				require.Equal(t, 200, w.Code)
				require.EqualValues(t, 2, l.Sash().Peek(key, 0).Remaining, "free")
			})
		}
	}
}

// Requests that are under way while the policies are replaced give their slots back.
func TestAtOnce_ReconfigureWhileRequestsAreUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		to         []httplimit.Policy
		held, free int64 // units that are left before and after the response
	}{
		"more slots":        {[]httplimit.Policy{holding(9)}, 8, 9},
		"a rate, too":       {[]httplimit.Policy{holding(5, sash.PerHour(50))}, 4, 5},
		"another order":     {[]httplimit.Policy{per("other", "", sash.PerHour(5)), holding(5)}, 4, 5},
		"a settling policy": {[]httplimit.Policy{settling(holding(5))}, 4, 5},
		"no slots":          {[]httplimit.Policy{per("api", "", sash.PerHour(5))}, 5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, holding(5))
			first := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
			require.NoError(t, s.Reconfigure(c.to...))
			require.Equal(t, c.held, s.left(t, "api"))
			first.Charges.Settle(httplimit.Response{})
			require.Equal(t, c.free, s.left(t, "api"))
		})
	}
	t.Run("away and back", func(t *testing.T) {
		s := newSite(t, holding(5), per("other", "", sash.PerHour(5)))
		first := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
		require.NoError(t, s.Reconfigure(per("other", "", sash.PerHour(5))))
		require.NoError(t, s.Reconfigure(per("other", "", sash.PerHour(5)), holding(5)))
		second := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
		first.Charges.Settle(httplimit.Response{})
		require.EqualValues(t, 1, s.held(t, "api", 5), "the second's own")
		second.Charges.Settle(httplimit.Response{})
		require.Zero(t, s.held(t, "api", 5))
	})
}

// settling returns p with a Settle.
func settling(p httplimit.Policy) httplimit.Policy {
	p.Settle = httplimit.SettleEstimate()
	return p
}

// A handler that outlasts its lease holds nothing any more, and takes nobody's slot when it ends.
func TestAtOnce_AHandlerThatOutlastsItsLease(t *testing.T) {
	s := newSite(t, holding(1))
	late := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	s.clock.Advance(time.Hour)
	second := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, httplimit.Admitted, second.Outcome)
	late.Charges.Settle(httplimit.Response{})
	require.EqualValues(t, 1, s.held(t, "api", 1))
}

// Clients are told of slots, and to ask again soon: not for how long a slot may be held.
func TestAtOnce_Headers(t *testing.T) {
	for _, c := range []struct {
		name              string
		limits            []sash.Limit
		unit              string
		held              int // requests that are under way
		policy            string
		limit, reset      string
		quota, retryAfter string
		violated          string
	}{
		{"free", []sash.Limit{sash.AtOnce(5, time.Minute)}, "", 0,
			`"api";q=5;qu="concurrent-requests"`, "5", "1", `"api";r=4;t=1`, "", ""},
		{"full", []sash.Limit{sash.AtOnce(2, time.Minute)}, "", 2,
			`"api";q=2;qu="concurrent-requests"`, "2", "1", `"api";r=0;t=1`, "1", `["api"]`},
		{"its unit", []sash.Limit{sash.AtOnce(2, time.Minute)}, "content-bytes", 0,
			`"api";q=2;qu="content-bytes"`, "2", "1", `"api";r=1;t=1`, "", ""},
		{"next to a rate", []sash.Limit{sash.PerMinute(9).Log(), sash.AtOnce(2, time.Hour)}, "", 1,
			`"api-1m";q=9;w=60, "api-at-once";q=2;qu="concurrent-requests"`, "2", "1", `"api-at-once";r=0;t=1`, "", ""},
		{"two of them", []sash.Limit{sash.AtOnce(3, time.Hour), sash.AtOnce(2, time.Minute)}, "", 2,
			`"api-at-once";q=3;qu="concurrent-requests", "api-at-once-2";q=2;qu="concurrent-requests"`, "2", "1",
			`"api-at-once-2";r=0;t=1`, "1", `["api-at-once-2"]`},
		{"and a rate that denies for longer", []sash.Limit{sash.PerMinute(2).Log(), sash.AtOnce(2, time.Hour)}, "", 2,
			`"api-1m";q=2;w=60, "api-at-once";q=2;qu="concurrent-requests"`, "2", "1", `"api-at-once";r=0;t=60`, "60", `["api-at-once"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := per("api", "", c.limits...)
			p.Unit = c.unit
			s := newSite(t, p, httplimit.WithXRateLimit())
			for range c.held {
				v := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
				require.Equal(t, httplimit.Admitted, v.Outcome)
			}
			w := s.do("GET /", "X-Key", "k")
			h := w.Header()
			require.Equal(t, c.policy, h.Get("RateLimit-Policy"))
			require.Equal(t, c.quota, h.Get("RateLimit"))
			require.Equal(t, []string{c.limit, c.reset}, []string{h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Reset")})
			require.Equal(t, c.retryAfter, h.Get("Retry-After"))
			if c.violated != "" {
				require.Contains(t, w.Body.String(), `"violated-policies":`+c.violated)
			}
		})
	}
}

// A lease that ends within the second tells when, and a cost that never fits tells nothing.
func TestAtOnce_RetryAfterIsTheLeastKnown(t *testing.T) {
	p := per("api", "", sash.AtOnce(1, 300*time.Millisecond))
	p.Cost = headerCost
	s := newSite(t, p)
	s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, 300*time.Millisecond, s.Decide(nil, newRequest("GET /", "X-Key", "k")).Denial.RetryAfter)
	require.Equal(t, sash.Never, s.Decide(nil, newRequest("GET /", "X-Key", "k", "X-Cost", "2")).Denial.RetryAfter)
	other := newSite(t, per("api", "", sash.AtOnce(1, time.Hour)), per("rate", "", sash.PerMinute(1).Log()))
	other.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, time.Minute, other.Decide(nil, newRequest("GET /", "X-Key", "k")).Denial.RetryAfter, "the other policy's")
}

// A store is asked to reserve, and told of the end of each response, also if nothing else of it changes.
func TestAtOnce_WithAStore(t *testing.T) {
	store := &localStore{}
	s := newStoreSite(t, store, holding(1), per("other", "", sash.PerHour(9).Log()))
	s.answer = func(http.ResponseWriter, *http.Request) { require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code) }
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.Equal(t, []string{
		"reserve api\x00k other\x00k", "commit other\x00k 1", "reserve api\x00k other\x00k",
		"commit api\x00k 1",
	}, store.calls)
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
}

// The limits of a key's own are asked for if there is a store, too.
func TestAtOnce_OfAKeyByItselfWithAStore(t *testing.T) {
	store := &localStore{}
	s := newStoreSite(t, store, per("api", "", sash.PerHour(9).Log()), httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
		if key == "api\x00k" {
			return []sash.Limit{sash.AtOnce(1, time.Hour)}
		}
		return nil
	})))
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"))
	require.Equal(t, 200, s.do("GET /", "X-Key", "other").Code)
	require.Equal(t, "take api\x00other", store.calls[len(store.calls)-1])
}

// A store may know of limits that the Limiter does not. Then its Take is a Reserve, and says so of each key.
func TestAtOnce_OfAKeyThatOnlyTheStoreKnowsToHold(t *testing.T) {
	panics := true
	store := &knowingStore{new(localStore)}
	s := newStoreSite(t, store, per("other", "", sash.PerHour(9).Log()), per("api", "", sash.PerHour(9).Log()),
		httplimit.WithObserver(func(httplimit.Event) {
			if panics {
				panic("of a test")
			}
		}))
	left := func() int64 { return store.Limiter.Peek("api\x00k", 0).Remaining }
	require.NoError(t, store.Limiter.SetLimits("api\x00k", sash.AtOnce(1, time.Hour)))
	require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 1, left(), "the panic of an observer leaves nothing held")
	panics, store.calls = false, nil
	v := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
	require.Equal(t, httplimit.Admitted, v.Outcome)
	require.Zero(t, left())
	v.Charges.Settle(httplimit.Response{Status: 200})
	require.EqualValues(t, 1, left())
	require.Equal(t, []string{"reserve other\x00k api\x00k", "commit other\x00k 1", "commit api\x00k 1"}, store.calls)
}

// A knowingStore is a localStore that knows the keys of api to hold units.
type knowingStore struct{ *localStore }

func (s *knowingStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	_, err := s.localStore.open(keys)
	return s, err
}

func (s *knowingStore) Take(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	d := s.Reserve(ctx, keys, n, leave)
	for i, key := range keys {
		d.Keys[i].Holds = key[:3] == "api"
	}
	return d
}
