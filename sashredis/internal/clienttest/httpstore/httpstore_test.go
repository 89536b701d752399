package httpstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/internal/window"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/httpstore"
)

// onEachStore runs a test on an embedded store and on a real one.
func onEachStore(t *testing.T, test func(t *testing.T, conn sashredis.Conn)) {
	t.Run("miniredis", func(t *testing.T) { test(t, embedded(t)) })
	t.Run("server", func(t *testing.T) { test(t, connect(t, "unix", redistest.Start(t).Addr())) })
}

// embedded returns a connection to a store in this process.
func embedded(t *testing.T) sashredis.Conn { return connect(t, "tcp", miniredis.RunT(t).Addr()) }

func connect(t *testing.T, network, addr string) sashredis.Conn {
	client := redis.NewClient(&redis.Options{Network: network, Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return goredisconn.New(client)
}

// A site is a handler behind a limiter. The handler answers with the status in X-Status.
type site struct {
	*httplimit.Limiter
	handler http.Handler
	events  []httplimit.Event
}

func newSite(t *testing.T, options ...httplimit.Option) *site {
	s := &site{}
	observe := httplimit.WithObserver(func(e httplimit.Event) { s.events = append(s.events, e) })
	var err error
	s.Limiter, err = httplimit.New(append([]httplimit.Option{observe}, options...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.handler = s.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(r.Header.Get("X-Status"))
		if err != nil {
			status = 200
		}
		w.WriteHeader(status)
	}))
	return s
}

// do makes a request. Of headers, each name is followed by its value.
func (s *site) do(path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// codes returns the statuses of that many requests.
func (s *site) codes(times int, path string, headers ...string) (codes []int) {
	for range times {
		codes = append(codes, s.do(path, headers...).Code)
	}
	return codes
}

// takeEvents returns the events since the last call.
func (s *site) takeEvents() []httplimit.Event {
	events := s.events
	s.events = nil
	return events
}

// byUser identifies clients by a header.
var byUser = httplimit.ByHeader("X-User")

// per returns a policy for each user.
func per(name, pattern string, limits ...sash.Limit) httplimit.Policy {
	return httplimit.Policy{Name: name, Pattern: pattern, Limits: limits, Key: byUser}
}

var deny = sashredis.WithFallback(sashredis.FallbackDeny)

// onStore returns the option of a store with patience.
func onStore(conn sashredis.Conn, options ...sashredis.Option) httplimit.Option {
	return httplimit.WithStore(httpstore.New(conn, append([]sashredis.Option{deny, sashredis.WithTimeout(10 * time.Second)}, options...)...))
}

// limit returns a random limit that admits a few units. The parts of a window, and the steps by which
// keys shift them, are whole microseconds, as they are in a store.
func limit(r *rand.Rand) sash.Limit {
	l := sash.Per(1+r.Int64N(6), time.Duration(1+r.IntN(4))*time.Second)
	switch r.IntN(6) {
	case 0:
		return l.Log()
	case 1:
		return l.Counter()
	case 2:
		return l.Buckets(250 * time.Millisecond)
	case 3:
		return l.TokenBucket(1 + r.Int64N(8))
	case 4:
		return sash.Unlimited()
	}
	return sash.Per(20+r.Int64N(20), time.Duration(1+r.IntN(20))*1024*time.Millisecond)
}

// randomPolicies returns policies for overlapping routes. The cost of some is in X-Cost, what must remain
// under some is in X-Leave or half of it, others keep only failures charged, and some are shadows.
func randomPolicies(r *rand.Rand) (options []httplimit.Option) {
	for i := range 1 + r.IntN(4) {
		p := per(fmt.Sprintf("p%d", i), []string{"", "/a", "/b"}[r.IntN(3)])
		p.Key = httplimit.ByHeader(headerOf(i))
		for range 1 + r.IntN(2) {
			p.Limits = append(p.Limits, limit(r))
		}
		if r.IntN(4) == 0 && !slices.ContainsFunc(p.Limits, inParts) { // else its key must have a name to choose
			p.Key = httplimit.Everyone()
		}
		if r.IntN(3) == 0 {
			p.Cost = func(r *http.Request) int64 {
				n, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
				return n
			}
		}
		if r.IntN(2) == 0 {
			part := 1 + r.Int64N(2)
			p.Leave = func(r *http.Request) int64 {
				n, _ := strconv.ParseInt(r.Header.Get("X-Leave"), 10, 64)
				return n / part
			}
		}
		if r.IntN(3) == 0 {
			p.Charge = func(status int) bool { return status == 401 }
		}
		p.Shadow = r.IntN(5) == 0
		options = append(options, p)
	}
	return append(options, httplimit.WithXRateLimit(), httplimit.WithEventIdentities())
}

// headerOf returns the name of the header by which the i-th of randomPolicies knows a user.
func headerOf(i int) string { return fmt.Sprint("X-User-P", i) }

func inParts(l sash.Limit) bool { return l.Algorithm == sash.SlidingParts }

// shiftedAlike returns headers that name the user to each of randomPolicies. The sites a and b have
// different keys for one name, as one of them has a store. The names are such that the parts of both
// keys begin at the same instants.
func shiftedAlike(a, b *site, user string) (headers []string) {
	for i, policy := range a.Policies() {
		r := httptest.NewRequest("GET", "/", nil)
		for n, alike := 0, false; !alike; n++ {
			r.Header.Set(headerOf(i), fmt.Sprint(user, "-", n))
			here, _ := a.KeyFor(policy.Name, r)
			there, _ := b.KeyFor(policy.Name, r)
			alike = window.ShiftOf(here) == window.ShiftOf(there) || !slices.ContainsFunc(policy.Limits, inParts)
		}
		headers = append(headers, headerOf(i), r.Header.Get(headerOf(i)))
	}
	return headers
}

// changedAlike returns policies as they may be after a change that keeps all counts, in a store, too: other Counts, but
// for token buckets, another order, and one policy less.
func changedAlike(r *rand.Rand, policies []httplimit.Policy) []httplimit.Policy {
	for i := range policies {
		for j := range policies[i].Limits {
			if l := &policies[i].Limits[j]; *l != sash.Unlimited() && l.Algorithm != sash.TokenBucket {
				l.Count = max(1, l.Count+r.Int64N(5)-2)
			}
		}
	}
	r.Shuffle(len(policies), func(i, j int) { policies[i], policies[j] = policies[j], policies[i] })
	if len(policies) > 1 && r.IntN(3) == 0 {
		policies = policies[1:]
	}
	return policies
}

// With a store, statuses, headers, bodies and events are those without one, for the same calls
// at the same times, also after the policies have changed.
func TestMiddleware_AnswersAsWithoutAStore(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		seen := map[httplimit.Outcome]int{}
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 2))
			policies, clock := randomPolicies(r), sash.NewManualClock(r.Int64N(1e15)*1000)
			here := newSite(t, append(policies, httplimit.WithClock(clock))...)
			there := newSite(t, append(policies, onStore(conn, sashredis.WithCallerClock(clock), sashredis.WithPrefix(fmt.Sprint(seed, ":"))))...)
			users := [][]string{shiftedAlike(here, there, "0"), shiftedAlike(here, there, "1")}
			for step := range 60 {
				path := []string{"/a", "/b"}[r.IntN(2)]
				headers := append(slices.Clone(users[r.IntN(2)]), "X-Cost", fmt.Sprint(r.IntN(8)-1), "X-Leave", fmt.Sprint(r.IntN(6)*r.IntN(2)-1), "X-Status", []string{"200", "401"}[r.IntN(2)])
				want, got := here.do(path, headers...), there.do(path, headers...)
				about := fmt.Sprintf("seed %d, step %d: %s %v", seed, step, path, headers)
				require.Equal(t, want.Code, got.Code, about)
				require.Equal(t, want.Header(), got.Header(), about)
				require.Equal(t, want.Body.String(), got.Body.String(), about)
				events := there.takeEvents()
				for i := range events {
					require.NoError(t, events[i].Err, about)
					if events[i].Decision.Limit != sash.Unlimited() {
						require.Equal(t, "store", events[i].By, about)
					}
					events[i].By = ""
					seen[events[i].Outcome]++
				}
				require.Equal(t, here.takeEvents(), events, about)
				if r.IntN(3) == 0 {
					clock.Advance(time.Duration(r.IntN(1200)) * time.Millisecond)
				}
				if r.IntN(20) == 0 {
					changed := changedAlike(r, here.Policies())
					require.NoError(t, here.Reconfigure(changed...))
					require.NoError(t, there.Reconfigure(changed...))
				}
			}
		}
		for _, outcome := range []httplimit.Outcome{httplimit.Admitted, httplimit.Denied, httplimit.Withheld, httplimit.GivenBack} {
			require.Greater(t, seen[outcome], 100, outcome)
		}
	})
}

// With a store, requests that are under way hold what they hold without one: by the limits of policies, and by limits
// of a key that only the store knows.
func TestMiddleware_HoldsAsWithoutAStore(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		seen, most := map[httplimit.Outcome]int{}, 0
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 3))
			policies, clock := randomPolicies(r), sash.NewManualClock(r.Int64N(1e15)*1000)
			held := func() []sash.Limit {
				return []sash.Limit{sash.AtOnce(1+r.Int64N(6), time.Duration(1+r.IntN(9))*time.Second)}
			}
			for i := range policies {
				if p, ok := policies[i].(httplimit.Policy); ok && r.IntN(2) == 0 {
					p.Limits = held() // alone: with a store, clients are not told of a rate next to it
					policies[i] = p
				}
			}
			var here, there *site
			own := [][]sash.Limit{held(), nil, {sash.PerMinute(1 + r.Int64N(9)).Log()}, held()}[r.IntN(4)]
			ownOf := func(s **site) func(string) []sash.Limit {
				return func(key string) []sash.Limit {
					if policy, identity, _ := (*s).ParseKey(key); policy == "p0" && strings.HasPrefix(identity, "1") {
						return own
					}
					return nil
				}
			}
			here = newSite(t, append(policies, httplimit.WithClock(clock), httplimit.WithSash(sash.WithLimitsFor(ownOf(&here))))...)
			there = newSite(t, append(policies, onStore(conn, sashredis.WithCallerClock(clock),
				sashredis.WithPrefix(fmt.Sprint("held ", seed, ":")), sashredis.WithLimitsFor(ownOf(&there))))...)
			users := [][]string{shiftedAlike(here, there, "0"), shiftedAlike(here, there, "1")}
			type pair struct{ here, there *httplimit.Charges }
			var open []pair
			for step := range 80 {
				about := fmt.Sprintf("seed %d, step %d", seed, step)
				if len(open) > 0 && r.IntN(2) == 0 {
					i, response := r.IntN(len(open)), httplimit.Response{Status: 200 + 201*r.IntN(2), Uncertain: r.IntN(4) == 0}
					open[i].here.Settle(response)
					open[i].there.Settle(response)
					open = slices.Delete(open, i, i+1)
				} else {
					request := httptest.NewRequest("GET", []string{"/a", "/b"}[r.IntN(2)], nil)
					headers := append(slices.Clone(users[r.IntN(2)]), "X-Cost", fmt.Sprint(r.IntN(5)), "X-Leave", fmt.Sprint(r.IntN(3)*r.IntN(2)))
					for i := 0; i < len(headers); i += 2 {
						request.Header.Set(headers[i], headers[i+1])
					}
					about += fmt.Sprint(" ", headers)
					wantHeader, gotHeader := http.Header{}, http.Header{}
					want, got := here.Decide(wantHeader, request), there.Decide(gotHeader, request)
					require.Equal(t, want.Outcome, got.Outcome, about)
					got.Denial.By = ""
					require.Equal(t, want.Denial, got.Denial, about)
					require.Equal(t, wantHeader, gotHeader, about)
					if want.Outcome == httplimit.Admitted {
						open = append(open, pair{want.Charges, got.Charges})
						most = max(most, len(open))
					}
				}
				events := there.takeEvents()
				for i := range events {
					events[i].By = ""
					seen[events[i].Outcome]++
				}
				require.Equal(t, here.takeEvents(), events, about)
				if r.IntN(4) == 0 {
					clock.Advance(time.Duration(r.IntN(1200)) * time.Millisecond)
				}
			}
		}
		for _, outcome := range []httplimit.Outcome{httplimit.Admitted, httplimit.Denied, httplimit.Withheld, httplimit.GivenBack} {
			require.Greater(t, seen[outcome], 100, outcome)
		}
		require.Greater(t, most, 10)
	})
}

// Two limiters on one store admit as much together as one of them alone.
func TestMiddleware_AFleetSharesALimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		policies := []httplimit.Option{per("minute", "", sash.PerHour(100)), per("burst", "/a", sash.PerHour(40).TokenBucket(60)), onStore(conn)}
		var handlers []http.Handler
		for range 2 {
			l := httplimit.Must(httplimit.New(policies...))
			defer l.Close()
			handlers = append(handlers, l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
		}
		admitted := func(path string) int64 {
			var count atomic.Int64
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					for range 50 {
						r := httptest.NewRequest("GET", path, nil)
						r.Header.Set("X-User", "u")
						w := httptest.NewRecorder()
						handlers[i%2].ServeHTTP(w, r)
						if w.Code == 200 {
							count.Add(1)
						}
					}
				})
			}
			all.Wait()
			return count.Load()
		}
		require.EqualValues(t, 60, admitted("/a"), "the bucket admits 60 and denies the rest, which is charged to neither")
		require.EqualValues(t, 40, admitted("/b"), "what is left of 100")
	})
}

// The counts of a policy are found by its name, by processes that have other policies, too.
func TestMiddleware_APolicyIsKnownByItsName(t *testing.T) {
	conn := embedded(t)
	a, b := per("a", "/a", sash.PerHour(3).Log()), per("b", "/b", sash.PerHour(3).Log())
	tried := b
	tried.Shadow = true
	before, after := newSite(t, a, tried, onStore(conn)), newSite(t, b, a, onStore(conn))
	require.Equal(t, []int{200, 200}, before.codes(2, "/a", "X-User", "u"))
	require.Equal(t, []int{200}, before.codes(1, "/b", "X-User", "u"))
	require.Equal(t, []int{200, 429}, after.codes(2, "/a", "X-User", "u"))
	require.Equal(t, []int{200, 200, 429}, after.codes(3, "/b", "X-User", "u"))
}

// A charge that is given back is given back to all processes.
func TestCharge_GivesBackToTheFleet(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		login := per("login", "", sash.PerHour(2).Log())
		login.Charge = func(status int) bool { return status == 401 }
		address := per("address", "", sash.PerHour(3).Log())
		address.Charge = login.Charge
		a, b := newSite(t, login, address, onStore(conn)), newSite(t, login, address, onStore(conn))
		for range 5 {
			require.Equal(t, 200, a.do("/", "X-User", "u").Code)
			require.Equal(t, 401, b.do("/", "X-User", "v", "X-Status", "401").Code)
			require.Equal(t, `"login";r=1;t=3600, "address";r=2;t=3600`, b.do("/", "X-User", "u").Header().Get("RateLimit"))
			key, ok := a.KeyFor("login", request("v"))
			require.True(t, ok)
			require.NoError(t, a.Store().(*httpstore.Store).Limiter().Reset(t.Context(), key))
			key, _ = a.KeyFor("address", request("v"))
			require.NoError(t, a.Store().(*httpstore.Store).Limiter().Reset(t.Context(), key))
		}
		require.Equal(t, []int{401, 401, 429}, a.codes(3, "/", "X-User", "u", "X-Status", "401"))
		require.Equal(t, 429, b.do("/", "X-User", "u").Code)
		for _, e := range a.takeEvents() {
			require.NoError(t, e.Err)
		}
	})
}

func request(user string) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User", user)
	return r
}

// A client that hangs up does not keep its charge from being given back, nor gets itself decided by
// the fallback.
func TestMiddleware_AClientThatHangsUpChangesNothing(t *testing.T) {
	p := per("p", "", sash.PerHour(2).Log())
	p.Charge = func(int) bool { return true }
	p.ChargeUncertain = func(int) bool { return false }
	s := newSite(t, p, onStore(embedded(t), sashredis.WithFallback(sashredis.FallbackAdmit)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		w := httptest.NewRecorder()
		s.handler.ServeHTTP(w, request("u").WithContext(ctx))
		require.Equal(t, `"p";r=1;t=3600`, w.Header().Get("RateLimit"))
	}
	for i, e := range s.takeEvents() {
		require.NoError(t, e.Err)
		require.Equal(t, "store", e.By)
		require.Equal(t, []httplimit.Outcome{httplimit.Admitted, httplimit.GivenBack}[i%2], e.Outcome)
	}
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "/", "X-User", "u"))
}

// A flood on a denied key is denied in-process, by the same headers.
func TestMiddleware_AFloodSendsNoPackets(t *testing.T) {
	s := newSite(t, per("p", "", sash.PerHour(2).Log(), sash.PerHour(100)), per("q", "", sash.PerHour(50).Log()), onStore(embedded(t)))
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "/", "X-User", "u"))
	trips := s.Store().(*httpstore.Store).Limiter().Stats().RoundTrips
	s.takeEvents()
	for range 1000 {
		w := s.do("/", "X-User", "u")
		require.Equal(t, 429, w.Code)
		require.Equal(t, []string{"3600"}, w.Header()["Retry-After"])
		require.Equal(t, `"p-1h";r=0;t=3600, "q";r=48;t=3600`, w.Header().Get("RateLimit"))
	}
	require.Equal(t, trips, s.Store().(*httpstore.Store).Limiter().Stats().RoundTrips)
	for i, e := range s.takeEvents() {
		require.Equal(t, "mirror", e.By)
		require.Equal(t, []httplimit.Outcome{httplimit.Denied, httplimit.Withheld}[i%2], e.Outcome)
		require.EqualValues(t, []int64{0, 47}[i%2], e.Decision.Remaining, "after the call, if it was admitted")
	}
}

// A key that was charged past its limit tells when it admits one unit, which no answer to a call for
// several units contains.
func TestMiddleware_AKeyPastItsLimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		clock, p := sash.NewManualClock(0), per("p", "", sash.PerHour(4).Log())
		p.Cost = func(*http.Request) int64 { return 2 }
		here := newSite(t, p, httplimit.WithClock(clock))
		there := newSite(t, p, onStore(conn, sashredis.WithCallerClock(clock)))
		for range 6 { // the last four by a Commit of more than was reserved
			key, _ := here.KeyFor("p", request("u"))
			r, _ := here.Sash().Reserve(key, 0)
			r.Commit(1)
			key, _ = there.KeyFor("p", request("u"))
			reserved, _ := there.Store().(*httpstore.Store).Limiter().Reserve(t.Context(), key, 0)
			require.NoError(t, reserved.Commit(t.Context(), 1))
			clock.Advance(time.Minute)
		}
		for range 70 {
			want, got := here.do("/", "X-User", "u"), there.do("/", "X-User", "u")
			require.Equal(t, want.Code, got.Code)
			require.Equal(t, want.Header(), got.Header())
			clock.Advance(time.Minute)
		}
	})
}

// The fallback knows what the store has said of a key, also of one whose charges may be given back.
func TestMiddleware_TheFallbackKnowsWhatWasUsed(t *testing.T) {
	for _, charge := range []func(int) bool{nil, func(int) bool { return true }} {
		conn, p := &flaky{Conn: embedded(t)}, per("p", "", sash.PerHour(3).Log())
		p.Charge = charge
		s := newSite(t, p, onStore(conn, sashredis.WithFallback(sashredis.FallbackLocal(1, 1))))
		require.Equal(t, []int{200, 200}, s.codes(2, "/", "X-User", "u"))
		conn.cut.Store(true)
		require.Equal(t, []int{200, 429}, s.codes(2, "/", "X-User", "u"))
	}
}

// Units of a lease are told of, without the time at which there are more.
func TestMiddleware_Leases(t *testing.T) {
	s := newSite(t, per("p", "", sash.PerHour(1000)), onStore(embedded(t), sashredis.WithLease(100, 10*time.Second)))
	for i := range 500 {
		w := s.do("/", "X-User", "u")
		require.Equal(t, 200, w.Code)
		require.Regexp(t, fmt.Sprintf(`^"p";r=%d(;t=\d+)?$`, 999-i), w.Header().Get("RateLimit"))
	}
	stats := s.Store().(*httpstore.Store).Limiter().Stats()
	require.Positive(t, stats.Lease)
	require.Less(t, stats.RoundTrips, int64(100))
}

// broken is a connection to a store that does not answer.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Run(context.Context, *sashredis.Script, []string, []string) (string, error) {
	return "", errBroken
}

// If the store does not answer, the fallback decides, and the events say so.
func TestMiddleware_TheFallbackDecides(t *testing.T) {
	plain := per("plain", "/plain", sash.PerHour(8).Log())
	refunded := per("refunded", "/refunded", sash.PerHour(8).Log())
	refunded.Charge = func(status int) bool { return status == 401 }
	other := per("other", "", sash.PerHour(32).Log())
	options := func(f sashredis.Fallback) []httplimit.Option {
		return []httplimit.Option{plain, refunded, other, httplimit.WithStore(httpstore.New(broken{}, sashredis.WithFallback(f)))}
	}
	check := func(t *testing.T, s *site) {
		t.Helper()
		for _, e := range s.takeEvents() {
			require.Equal(t, "fallback", e.By)
			if e.Outcome != httplimit.GivenBack {
				require.Error(t, e.Err)
			}
		}
	}
	t.Run("deny", func(t *testing.T) {
		s := newSite(t, options(sashredis.FallbackDeny)...)
		for _, path := range []string{"/plain", "/refunded", "/"} {
			w := s.do(path, "X-User", "u")
			require.Equal(t, 503, w.Code)
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
			require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity","status":503,
				"title":"Request cannot be satisfied due to temporary server capacity constraints"}`, w.Body.String())
			require.Empty(t, w.Header().Get("RateLimit"), "nobody knows what is left")
			require.ErrorIs(t, s.events[0].Err, errBroken)

			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("X-User", "u")
			v := s.Decide(nil, r)
			require.Equal(t, httplimit.Denied, v.Outcome)
			require.Empty(t, v.Denial.Violated)
			require.Equal(t, "fallback", v.Denial.By)
			require.ErrorContains(t, v.Denial.Err, errBroken.Error())
			check(t, s)
		}
	})
	t.Run("admit", func(t *testing.T) {
		s := newSite(t, options(sashredis.FallbackAdmit)...)
		for _, path := range []string{"/plain", "/refunded", "/"} {
			for range 30 {
				w := s.do(path, "X-User", "u")
				require.Equal(t, 200, w.Code)
				require.Empty(t, w.Header().Get("RateLimit"), "nobody knows what is left")
			}
			check(t, s)
		}
	})
	t.Run("local", func(t *testing.T) {
		s := newSite(t, options(sashredis.FallbackLocal(1, 4))...)
		w := s.do("/plain", "X-User", "u")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"plain";r=1;t=3600, "other";r=7;t=3600`, w.Header().Get("RateLimit"))
		require.Equal(t, []int{200, 429}, s.codes(2, "/plain", "X-User", "u"))
		require.Equal(t, httplimit.Withheld, s.events[5].Outcome)
		require.EqualValues(t, 5, s.events[5].Decision.Remaining, "6 are left, and this call would take one")
		require.Equal(t, []int{200, 200, 200}, s.codes(3, "/refunded", "X-User", "u"), "each is given back")
		require.Equal(t, []int{401, 401, 429}, s.codes(3, "/refunded", "X-User", "u", "X-Status", "401"))
		w = s.do("/", "X-User", "u")
		require.Equal(t, 200, w.Code)
		require.Equal(t, `"other";r=0;t=3600`, w.Header().Get("RateLimit"))
		require.Equal(t, []int{429}, s.codes(1, "/", "X-User", "u"))
		check(t, s)
	})
}

// A request that costs more than the share of this process is told to come again when the store
// may admit it.
func TestMiddleware_MoreThanTheShareOfAProcess(t *testing.T) {
	for _, charge := range []func(int) bool{nil, func(int) bool { return true }} {
		p := per("p", "", sash.PerHour(8).Log())
		p.Charge = charge
		p.Cost = func(r *http.Request) int64 {
			n, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
			return n
		}
		s := newSite(t, p, httplimit.WithStore(httpstore.New(broken{}, sashredis.WithFallback(sashredis.FallbackLocal(1, 4)))))
		for cost, retry := range map[string]string{"3": "1", "9": ""} {
			w := s.do("/", "X-User", "u", "X-Cost", cost)
			require.Equal(t, 429, w.Code)
			require.Equal(t, retry, w.Header().Get("Retry-After"), "cost %s of 8, with a share of 2", cost)
		}
		require.Equal(t, []int{200, 429}, s.codes(2, "/", "X-User", "u", "X-Cost", "2"))
	}
}

// flaky is a connection that can be cut.
type flaky struct {
	sashredis.Conn
	cut atomic.Bool
}

func (c *flaky) Run(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	if c.cut.Load() {
		return "", errBroken
	}
	return c.Conn.Run(ctx, s, keys, args)
}

// A charge that cannot be given back is reported, and the answer is not affected.
func TestCharge_AStoreThatIsAwayKeepsTheCharge(t *testing.T) {
	conn := &flaky{Conn: embedded(t)}
	p := per("p", "", sash.PerHour(2).Log())
	p.Charge = func(int) bool { conn.cut.Store(true); return false }
	s := newSite(t, p, onStore(conn))
	require.Equal(t, 200, s.do("/", "X-User", "u").Code)
	events := s.takeEvents()
	require.Equal(t, httplimit.GivenBack, events[1].Outcome)
	require.ErrorIs(t, events[1].Err, errBroken)
	conn.cut.Store(false)
	require.Equal(t, `"p";r=0;t=3600`, s.do("/", "X-User", "u").Header().Get("RateLimit"))
}

// On a cluster, the policies of one request need keys in one slot, which HashTag gives them if
// they identify clients alike. Else the store refuses the call, which denies the request.
func TestHashTag_OnACluster(t *testing.T) {
	var addrs []string
	for _, node := range redistest.StartCluster(t) {
		addrs = append(addrs, node.Addr())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	conn := goredisconn.New(client)

	policies := []httplimit.Option{per("a", "/", sash.PerHour(3).Log()), per("b", "/b", sash.PerHour(2).Log())}
	untagged := newSite(t, append(policies, onStore(conn))...)
	require.Equal(t, []int{200}, untagged.codes(1, "/", "X-User", "u"), "one policy has one key")
	untagged.takeEvents()
	w := untagged.do("/b", "X-User", "u")
	require.Equal(t, 429, w.Code)
	require.Empty(t, w.Header().Get("Retry-After"))
	for _, e := range untagged.takeEvents() {
		require.ErrorContains(t, e.Err, "CROSSSLOT")
		require.ErrorIs(t, e.Err, sashredis.ErrServer)
		require.Equal(t, httplimit.Denied, e.Outcome)
	}

	tagged := newSite(t, append(policies, onStore(conn, sashredis.WithPrefix("tagged:"), sashredis.WithHashTag(httplimit.HashTag)))...)
	for user := range 20 {
		require.Equal(t, []int{200, 200, 429}, tagged.codes(3, "/b", "X-User", fmt.Sprint(user)))
		require.Equal(t, []int{200, 429}, tagged.codes(2, "/", "X-User", fmt.Sprint(user)))
	}
}

// Keys have limits of their own by an option of either package.
func TestLimitsFor(t *testing.T) {
	plans := func(s **site) func(key string) []sash.Limit {
		return func(key string) []sash.Limit {
			switch _, user, _ := (*s).ParseKey(key); user {
			case "gold":
				return []sash.Limit{sash.PerMinute(3).Log()}
			case "wrong":
				return []sash.Limit{sash.PerHour(-1)}
			}
			return nil
		}
	}
	check := func(t *testing.T, s *site) {
		require.Equal(t, []int{200, 429}, s.codes(2, "/", "X-User", "free"))
		require.Equal(t, `"p";q=3;w=60`, s.do("/", "X-User", "gold").Header().Get("RateLimit-Policy"))
		require.Equal(t, []int{200, 200, 429}, s.codes(3, "/", "X-User", "gold"))
		s.takeEvents()
		w := s.do("/", "X-User", "wrong")
		require.Equal(t, 429, w.Code)
		require.Equal(t, `"p";q=0;w=1`, w.Header().Get("RateLimit-Policy"))
		require.ErrorIs(t, s.takeEvents()[0].Err, sash.ErrInvalidLimit)
	}
	policies := []httplimit.Option{per("q", "/q", sash.PerHour(5)), per("p", "", sash.PerHour(1).Log())}
	t.Run("of sash", func(t *testing.T) {
		var s *site
		s = newSite(t, append(policies, onStore(embedded(t)), httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit { return plans(&s)(key) })))...)
		check(t, s)
	})
	t.Run("of sashredis", func(t *testing.T) {
		var s *site
		s = newSite(t, append(policies, onStore(embedded(t), sashredis.WithLimitsFor(func(key string) []sash.Limit { return plans(&s)(key) })))...)
		check(t, s)
	})
}

// Limits that only the store knows may hold units. A request holds them until its response, and no longer, however
// it is charged.
func TestLimitsFor_OfTheStoreMayHoldUnits(t *testing.T) {
	free, given := per("free", "", sash.PerHour(50).Log()), per("given", "", sash.PerHour(50).Log())
	given.Charge = func(int) bool { return false }
	dear := per("dear", "", sash.PerHour(50).Log())
	dear.Cost = func(*http.Request) int64 { return 2 }
	shadow := per("api", "", sash.PerHour(50).Log())
	shadow.Shadow = true
	api := per("api", "", sash.PerHour(50).Log())
	for name, policies := range map[string][]httplimit.Option{
		"alone": {api}, "with another": {api, free}, "with one that gives back": {given, api},
		"with another cost": {api, dear}, "as a shadow": {free, shadow},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, append(policies, onStore(embedded(t), sashredis.WithLimitsFor(func(key string) []sash.Limit {
				if key == "api\x00k" {
					return []sash.Limit{sash.PerHour(50).Log(), sash.AtOnce(2, time.Hour)}
				}
				return nil
			})))...)
			left := func() int64 {
				return s.Store().(*httpstore.Store).Limiter().Peek(context.Background(), "api\x00k", 0).Remaining
			}
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("X-User", "k")
			for range 3 {
				v := s.Decide(nil, r)
				require.Equal(t, httplimit.Admitted, v.Outcome)
				require.EqualValues(t, 1, left(), "held")
				v.Charges.Settle(httplimit.Response{Status: 200, Request: r})
				require.EqualValues(t, 2, left(), "free")
			}
		})
	}
}

// What is wrong is refused by New, also of policies after the first.
func TestNew_RefusesWhatAStoreCannotKeep(t *testing.T) {
	odd := per("odd", "", sash.Per(5, 1001))
	_, err := httplimit.New(per("p", "", sash.PerHour(1)), odd, onStore(broken{}))
	require.EqualError(t, err, "httplimit: WithStore: policy 2: sashredis: limit 1: Window must be whole microseconds, got 1.001µs: invalid limit")
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
	_, err = httplimit.New(per("p", "", sash.PerHour(1)), httplimit.WithStore(httpstore.New(broken{})))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.ErrorContains(t, err, "WithFallback")
	_, err = httplimit.New(per("p", "", sash.PerHour(1)), httplimit.WithStore(httpstore.New(nil, deny)))
	require.ErrorContains(t, err, "conn must not be nil")

	s := newSite(t, per("p", "", sash.PerHour(1)), onStore(broken{}))
	require.EqualError(t, s.Reconfigure(per("p", "", sash.PerHour(2)), odd),
		`httplimit: policy "odd": sashredis: limit 1: Window must be whole microseconds, got 1.001µs: invalid limit`)
	require.EqualValues(t, 1, s.Policies()[0].Limits[0].Count)
}

// Transports of two processes keep to one limit together.
func TestTransport_AFleetSharesALimit(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		var sent atomic.Int64
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			sent.Add(1)
			return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
		})
		limits := []sash.Limit{sash.PerHour(20).Log()}
		var transports []*httplimit.Transport
		for range 2 {
			l := sashredis.Must(sashredis.New(conn, limits, deny, sashredis.WithTimeout(10*time.Second)))
			transports = append(transports, &httplimit.Transport{Store: httpstore.Of(l), Base: base, NoWait: true})
		}
		for i := range 20 {
			_, err := transports[i%2].RoundTrip(outgoing(t.Context()))
			require.NoError(t, err)
		}
		var turn *httplimit.TurnError
		for _, transport := range transports {
			_, err := transport.RoundTrip(outgoing(t.Context()))
			require.ErrorAs(t, err, &turn)
			require.InDelta(t, time.Hour, turn.RetryAfter, float64(time.Minute))
			require.NoError(t, turn.Err)
		}
		// Those that wait end at once if their time is sure to be too short.
		waiting := &httplimit.Transport{Store: transports[0].Store, Base: base}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := waiting.RoundTrip(outgoing(ctx))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 20, sent.Load())
	})
}

// A request that waits is sent once the window of the fleet admits it.
func TestTransport_WaitsForTheFleet(t *testing.T) {
	conn, clock := embedded(t), sash.NewManualClock(0)
	l := sashredis.Must(sashredis.New(conn, []sash.Limit{sash.PerHour(1).Log()}, deny, sashredis.WithCallerClock(clock), sashredis.WithTimeout(10*time.Second)))
	require.True(t, l.Allow(t.Context(), "example.com"), "another process")
	sent := make(chan struct{})
	transport := &httplimit.Transport{Store: httpstore.Of(l), Base: roundTripper(func(*http.Request) (*http.Response, error) {
		close(sent)
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	})}
	result := make(chan error, 1)
	go func() {
		_, err := transport.RoundTrip(outgoing(context.Background()))
		result <- err
	}()
	clock.Advance(time.Hour - time.Microsecond)
	select {
	case <-sent:
		t.Fatal("sent before the window has passed")
	case <-time.After(20 * time.Millisecond):
	}
	clock.Advance(time.Microsecond)
	require.NoError(t, <-result)
}

// If the store does not answer, the error of a request that is not sent says so.
func TestTransport_TellsWhyTheStoreDidNotDecide(t *testing.T) {
	l := sashredis.Must(sashredis.New(broken{}, []sash.Limit{sash.PerHour(1)}, deny))
	transport := &httplimit.Transport{Store: httpstore.Of(l), NoWait: true}
	_, err := transport.RoundTrip(outgoing(t.Context()))
	var turn *httplimit.TurnError
	require.ErrorAs(t, err, &turn)
	require.ErrorIs(t, err, errBroken)
	require.Positive(t, turn.RetryAfter)

	wrong := sashredis.Must(sashredis.New(broken{}, nil, deny, sashredis.WithLimitsFor(func(string) []sash.Limit { return nil })))
	for _, noWait := range []bool{true, false} {
		transport := &httplimit.Transport{Store: httpstore.Of(wrong), NoWait: noWait}
		_, err = transport.RoundTrip(outgoing(t.Context()))
		require.ErrorIs(t, err, sash.ErrNoLimit)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func outgoing(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://example.com/", nil)
	if err != nil {
		panic(err)
	}
	return r
}
