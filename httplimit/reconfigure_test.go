package httplimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestReconfigure_CountsOfPoliciesThatStayCarryOver(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(10).Log()), per("b", "", sash.PerHour(20).Log()), per("c", "", sash.PerHour(30).Log()))
	require.Equal(t, []int{200, 200, 200}, s.codes(3, "GET /", "X-Key", "k"))
	shadow := per("a", "", sash.PerHour(5).Log(), sash.PerMinute(4).Log())
	shadow.Shadow = true

	// a becomes a shadow, b is gone, c is another's first, and d is new.
	require.NoError(t, s.Reconfigure(per("d", "", sash.PerHour(40).Log()), shadow, per("c", "/x", sash.PerHour(31).Log())))
	require.Equal(t, []int64{1, 28, 40}, []int64{s.left(t, "a"), s.left(t, "c"), s.left(t, "d")})
	require.Equal(t, 2, s.Sash().Len(), "the keys of b are gone")
	w := s.do("GET /", "X-Key", "k")
	require.Equal(t, `"d";q=40;w=3600`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"d";r=39;t=3600`, w.Header().Get("RateLimit"))
	require.Equal(t, `"d";q=40;w=3600, "c";q=31;w=3600`, s.do("GET /x", "X-Key", "k").Header().Get("RateLimit-Policy"))
	require.Equal(t, []int64{0, 27, 38}, []int64{s.left(t, "a"), s.left(t, "c"), s.left(t, "d")}, "the shadow denies nothing")

	// b comes again, and begins anew.
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(10).Log()), per("b", "", sash.PerHour(20).Log())))
	require.Equal(t, []int64{6, 20}, []int64{s.left(t, "a"), s.left(t, "b")})
	require.Equal(t, []int{200, 200, 200, 200, 200, 200, 429}, s.codes(7, "GET /", "X-Key", "k"))
	require.Equal(t, []int64{0, 14}, []int64{s.left(t, "a"), s.left(t, "b")})
}

func TestReconfigure_OfTheOnlyPolicy(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(10).Log()))
	s.codes(3, "GET /", "X-Key", "k")
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(5).Log())))
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))
	require.NoError(t, s.Sash().Reconfigure(sash.PerHour(7).Log()))
	require.Equal(t, []sash.Limit{sash.PerHour(7).Log()}, s.Policies()[0].Limits)
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))

	require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(2).Log())))
	require.Equal(t, 0, s.Sash().Len())
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))
	require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(2)), per("a", "", sash.PerHour(5))))
	require.ErrorIs(t, s.Sash().Reconfigure(sash.PerHour(7)), errors.ErrUnsupported)
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(5).Log())))
	require.NoError(t, s.Sash().Reconfigure(sash.PerHour(1).Log()))
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /", "X-Key", "k"))
}

// Limits that keys were given stay with the policies.
func TestReconfigure_KeepsLimitsOfKeys(t *testing.T) {
	gold := func(key string) []sash.Limit {
		if strings.HasSuffix(key, "gold") {
			return []sash.Limit{sash.PerHour(1000).Log()}
		}
		return nil
	}
	a, b := per("a", "", sash.PerHour(10).Log()), per("b", "", sash.PerHour(10).Log())
	s := newSite(t, a, b, httplimit.WithSash(sash.WithLimitsFor(gold)))
	s.codes(1, "GET /", "X-Key", "gold")
	for _, policy := range []string{"a", "b"} {
		key, _ := s.KeyFor(policy, newRequest("GET /", "X-Key", "k"))
		require.NoError(t, s.Sash().SetLimits(key, sash.PerHour(100).Log()))
	}
	s.codes(1, "GET /", "X-Key", "k")
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(20).Log()), per("c", "", sash.PerHour(10).Log())))
	require.EqualValues(t, 99, s.left(t, "a"))
	require.Equal(t, `"a";q=1000;w=3600, "c";q=1000;w=3600`, s.do("GET /", "X-Key", "gold").Header().Get("RateLimit-Policy"))
	require.NoError(t, s.Reconfigure(a, b))
	require.EqualValues(t, 99, s.left(t, "a"))
	require.EqualValues(t, 10, s.left(t, "b"), "it was gone in between")
}

// Limits that keys of a policy were given are forgotten with it, and so are these keys.
func TestReconfigure_ForgetsLimitsOfKeysOfPoliciesThatAreGone(t *testing.T) {
	a, b := per("a", "", sash.PerHour(10)), per("b", "", sash.PerHour(10))
	b.Plan, b.Plans = func(r *http.Request) string { return r.Header.Get("X-Plan") }, map[string][]sash.Limit{"gold": {sash.PerHour(20)}}
	s := newSite(t, a, b)
	for i := range 100 {
		for _, plan := range []string{"", "gold"} {
			for _, policy := range []string{"a", "b"} {
				key, _ := s.KeyFor(policy, newRequest("GET /", "X-Key", strconv.Itoa(i), "X-Plan", plan))
				require.NoError(t, s.Sash().SetLimits(key, sash.PerHour(30).Counter()))
			}
		}
		require.Equal(t, 200, s.do("GET /", "X-Key", strconv.Itoa(i)).Code)
	}
	require.NoError(t, s.Sash().SetLimits("\xff not of a policy", sash.PerHour(30).Counter()))
	require.Equal(t, 301, s.KeysWithLimits())
	require.Equal(t, 200, s.Sash().Len())
	b.Plan, b.Plans = nil, nil
	require.NoError(t, s.Reconfigure(b, a))
	require.Equal(t, 201, s.KeysWithLimits(), "the plan is gone")
	require.NoError(t, s.Reconfigure(b))
	require.Equal(t, 101, s.KeysWithLimits())
	require.Equal(t, 100, s.Sash().Len())
	require.Equal(t, `"b";r=28;t=5400`, s.do("GET /", "X-Key", "0").Header().Get("RateLimit"))
}

func TestReconfigure_KeysNameTheirPolicy(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(10)), per("b", "", sash.PerHour(10)))
	r := newRequest("GET /", "X-Key", "k")
	ofA, _ := s.KeyFor("a", r)
	ofB, _ := s.KeyFor("b", r)
	require.NoError(t, s.Reconfigure(per("c", "", sash.PerHour(10)), per("b", "", sash.PerHour(10))))
	_, ok := s.KeyFor("a", r)
	require.False(t, ok)
	_, _, ok = s.ParseKey(ofA)
	require.False(t, ok)
	name, identity, ok := s.ParseKey(ofB)
	require.Equal(t, []any{"b", "k", true}, []any{name, identity, ok})
	ofC, _ := s.KeyFor("c", r)
	require.NotEqual(t, ofA, ofC)
	require.True(t, s.Sash().AllowN(ofA, 1000), "nobody's key has no limit")
	require.Equal(t, 0, s.Sash().Len())
}

func TestReconfigure_OfWrongPoliciesChangesNothing(t *testing.T) {
	queued := queued("a", "", sash.PerHour(10), httplimit.Queue{Wait: time.Second, Requests: 1})
	s := newSite(t, per("a", "", sash.PerHour(10)), httplimit.WithSash(sash.WithChargeDenied()))
	s.codes(3, "GET /", "X-Key", "k")
	require.EqualError(t, s.Reconfigure(), "httplimit: Reconfigure needs a Policy: invalid option")
	err := s.Reconfigure(per("b", "", sash.PerHour(-1)), per("", ""), queued, per("b", "GET"))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
	require.ErrorIs(t, err, sash.ErrNoLimit)
	require.Equal(t, strings.TrimSpace(`
httplimit: WithSash: sash.WithChargeDenied does not work with a Queue: a request that waits would be charged for each attempt: invalid option
httplimit: policy "b": limit 1: Count must be >= 0, got -1: invalid limit
httplimit: policy 2: Name must not be empty: invalid option
httplimit: policy 2: Limits must not be empty: no limit
httplimit: policy "b": Pattern: "GET": at offset 0: host/path missing /: invalid option
httplimit: policy "b": Limits must not be empty: no limit
httplimit: policies 1 and 4: both have a quota named "b": invalid option`), err.Error())
	require.Equal(t, "a", s.Policies()[0].Name)
	require.EqualValues(t, 7, s.left(t, "a"))
}

// A checkingStore refuses limits of more than 100 units. It answers a Take only when it may.
type checkingStore struct {
	localStore
	asked, may chan struct{} // nil: it may
}

func (s *checkingStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	_, err := s.localStore.open(keys)
	return s, err
}

func (s *checkingStore) CheckLimits(limits []sash.Limit) error {
	for _, l := range limits {
		if l.Count > 100 {
			return fmt.Errorf("%v is too much", l)
		}
	}
	return nil
}

func (s *checkingStore) Take(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	if s.may != nil {
		s.asked <- struct{}{}
		<-s.may
	}
	// This store asks for limits at each call, as it must.
	for _, key := range keys {
		if err := s.Limiter.SetLimits(key, s.LimitsFor(key)...); err != nil {
			panic(err)
		}
	}
	return s.localStore.Take(ctx, keys, n, leave)
}

func TestReconfigure_WithAStore(t *testing.T) {
	store := &checkingStore{}
	s := newStoreSite(t, store, per("a", "", sash.PerHour(2).Log()), per("b", "/b", sash.PerHour(9).Log()))
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(3).Log()), per("c", "/c", sash.PerHour(5).Log())))
	w := s.do("GET /c", "X-Key", "k")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `"a";r=0;t=3600, "c";r=4;t=3600`, w.Header().Get("RateLimit"), "a has its counts")
	require.Equal(t, []int{429}, s.codes(1, "GET /c", "X-Key", "k"))
	require.Empty(t, store.LimitsFor("b\x00k"), "b is gone")
	key, ok := s.KeyFor("c", newRequest("GET /", "X-Key", "k"))
	require.True(t, ok)
	require.Equal(t, []sash.Limit{sash.PerHour(5).Log()}, store.LimitsFor(key))
}

func TestReconfigure_ToLimitsThatTheStoreRefusesChangesNothing(t *testing.T) {
	store := &checkingStore{}
	s := newStoreSite(t, store, per("a", "", sash.PerHour(2).Log()))
	plans := per("b", "", sash.PerHour(100).Log())
	plans.Plan, plans.Plans = func(*http.Request) string { return "" }, map[string][]sash.Limit{"big": {sash.PerDay(101).Log()}}
	require.EqualError(t, s.Reconfigure(per("a", "", sash.PerHour(101).Log()), plans),
		"httplimit: policy \"a\": 101/1h0m0s log is too much\nhttplimit: policy \"b\": 101/24h0m0s log is too much")
	require.Len(t, s.Policies(), 1)
	require.Equal(t, []int{200, 200, 429}, s.codes(3, "GET /", "X-Key", "k"))
}

// A request that the store is deciding has the limits, the headers and the policies that it began with.
func TestReconfigure_WaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkingStore{asked: make(chan struct{}), may: make(chan struct{})}
		s := newStoreSite(t, store, per("a", "", sash.PerHour(2).Log()))
		answers := make(chan string, 1)
		get := func() { answers <- s.do("GET /", "X-Key", "k").Header().Get("RateLimit-Policy") }
		go get()
		<-store.asked
		changed := make(chan error, 1)
		go func() { changed <- s.Reconfigure(per("b", "", sash.PerHour(7).Log())) }()
		time.Sleep(time.Millisecond) // of the bubble: Reconfigure looks for the end of the call again and again
		require.Equal(t, []sash.Limit{sash.PerHour(2).Log()}, store.LimitsFor("a\x00k"))
		store.may <- struct{}{}
		require.Equal(t, `"a";q=2;w=3600`, <-answers)
		require.NoError(t, <-changed)
		go get()
		<-store.asked
		store.may <- struct{}{}
		require.Equal(t, `"b";q=7;w=3600`, <-answers)
	})
}

func TestReconfigure_PoliciesBelongToTheCaller(t *testing.T) {
	p := per("a", "", sash.PerHour(10))
	p.Plan, p.Plans = func(*http.Request) string { return "x" }, map[string][]sash.Limit{"x": {sash.PerHour(5)}}
	s := newSite(t, per("z", "", sash.PerHour(1)))
	require.NoError(t, s.Reconfigure(p))
	p.Limits[0], p.Plans["x"][0] = sash.PerHour(0), sash.PerHour(0)
	s.Policies()[0].Limits[0] = sash.PerHour(0)
	s.Policies()[0].Plans["x"][0] = sash.PerHour(0)
	delete(s.Policies()[0].Plans, "x")
	require.EqualValues(t, 5, s.left(t, "a"))
	require.Equal(t, []sash.Limit{sash.PerHour(10)}, s.Policies()[0].Limits)
}

// The keys of all policies are swept as the longest window of the new ones asks for. DenyNew
// tells the interval.
func TestReconfigure_SweepsByTheNewWindows(t *testing.T) {
	for want, options := range map[time.Duration][]httplimit.Option{
		0:               nil,
		7 * time.Minute: {httplimit.WithSweepInterval(7 * time.Minute)},
		8 * time.Minute: {httplimit.WithSash(sash.WithSweepInterval(8 * time.Minute))},
	} {
		l := httplimit.Must(httplimit.New(append(options, per("a", "", sash.PerMinute(10)),
			httplimit.WithSash(sash.WithMaxKeys(1, sash.DenyNew), sash.WithClock(sash.NewManualClock(0))))...))
		defer l.Close()
		l.Sash().Allow("full")
		check := func(interval time.Duration) {
			if want > 0 {
				interval = want
			}
			require.Equal(t, interval, l.Sash().Take("new", 1).RetryAfter)
		}
		check(30 * time.Second)
		require.NoError(t, l.Reconfigure(per("a", "", sash.PerMinute(10)), per("b", "", sash.PerHour(10))))
		check(10 * time.Minute)
		require.NoError(t, l.Reconfigure(per("a", "", sash.PerSecond(10))))
		check(time.Second)
	}
}

// What a request was charged is settled by the policy that has charged it.
func TestReconfigure_WhileARequestIsServed(t *testing.T) {
	back := per("a", "", sash.PerHour(10).Log())
	back.Charge = func(int) bool { return false }
	gone := back
	gone.Name = "gone"
	s := newSite(t, back, gone)
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(20).Log())))
		require.EqualValues(t, 19, s.left(t, "a"))
		w.WriteHeader(200)
	}
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.EqualValues(t, 20, s.left(t, "a"))
	require.Equal(t, 1, s.Sash().Len(), "the key of a, and no other")
}

// A request whose policies are replaced while it looks for its keys starts over.
func TestReconfigure_WhileARequestIsAboutToBeDecided(t *testing.T) {
	var s *site
	calls := 0
	first := per("first", "", sash.PerHour(1).Log())
	first.Key = func(key []byte, r *http.Request) ([]byte, bool) {
		calls++
		require.NoError(t, s.Reconfigure(per("second", "", sash.PerHour(2).Log()), per("third", "", sash.PerHour(3).Log())))
		return append(key, "some identity"...), true
	}
	s = newSite(t, first)
	w := s.do("GET /", "X-Key", "k")
	require.Equal(t, 200, w.Code)
	require.Equal(t, `"second";q=2;w=3600, "third";q=3;w=3600`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, 1, calls)
	require.Equal(t, []int64{1, 2}, []int64{s.left(t, "second"), s.left(t, "third")})
	require.Equal(t, 2, s.Sash().Len(), "nothing is charged to the first")
}

// Replacing the policies all the time does not make a request start over for ever.
func TestReconfigure_StartsARequestOverAFewTimes(t *testing.T) {
	for what, end := range map[string]func() bool{
		"decided":      func() bool { return true },
		"unidentified": func() bool { return false },
		"failed":       func() bool { panic("it fails") },
	} {
		var s *site
		rounds := 0
		p := per("a", "", sash.PerHour(9).Log())
		p.Key = func(key []byte, _ *http.Request) ([]byte, bool) {
			rounds++
			require.Less(t, rounds, 100, "it starts over for ever")
			if !s.Reconfigurable() {
				return key, end()
			}
			require.NoError(t, s.Reconfigure(p))
			return key, true
		}
		s = newSite(t, p)
		v := s.Decide(nil, newRequest("GET /"))
		require.Equal(t, what == "decided", v.Outcome == httplimit.Admitted, what)
		require.Equal(t, 5, rounds)
		require.True(t, s.Reconfigurable(), what)
		require.Equal(t, what == "decided", s.Sash().Len() == 1)
		require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(9))), "it waits for nothing")
	}
}

// The policies are not replaced at once while other limits change. A request that finds the
// sections closed over and over starts over, too.
func TestReconfigure_RequestsWaitForItAFewTimes(t *testing.T) {
	s := newSite(t, per("a", "", sash.PerHour(9).Log()))
	require.False(t, s.BeginsWhileClosed())
	require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(9))), "it is not counted as within")
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
}

// A request that starts over is reported by the policies that decide it, and by no others.
func TestReconfigure_ReportsTheNewPoliciesOnly(t *testing.T) {
	var s *site
	var events []string
	shadow := func(name string, key httplimit.KeyFunc) httplimit.Policy {
		p := per(name, "", sash.PerHour(1))
		p.Shadow, p.Key = true, key
		return p
	}
	nobody := func(key []byte, _ *http.Request) ([]byte, bool) { return key, false }
	fails := func([]byte, *http.Request) ([]byte, bool) { panic("shadow") }
	replaces := func(key []byte, _ *http.Request) ([]byte, bool) {
		require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(9)), shadow("b1", nobody), shadow("b2", fails)))
		return key, true
	}
	s = newSite(t, per("a", "", sash.PerHour(9)), shadow("a1", nobody), shadow("a2", fails), shadow("a3", replaces),
		httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e.Policy+" "+e.Outcome.String()) }))
	require.Equal(t, []int{200, 200}, s.codes(2, "GET /", "X-Key", "k"))
	once := []string{"b1 unidentified", "b2 failed", "b admitted"}
	require.Equal(t, append(once, once...), events)
}

// While a request is being charged, the policies stay. Requests that come meanwhile are decided
// by the new ones. What tells of the policies does not wait.
func TestReconfigure_WaitsForRequestsThatAreBeingCharged(t *testing.T) {
	var s *site
	var once sync.Once
	var replaced atomic.Bool
	var others sync.WaitGroup
	var other *httptest.ResponseRecorder
	s = newSite(t, per("a", "", sash.PerHour(10).Log()), per("b", "", sash.PerHour(10).Log()),
		httplimit.WithSash(sash.WithObserver(func(key string, _ int64, _ sash.Decision) {
			once.Do(func() {
				others.Go(func() {
					require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(20).Log())))
					replaced.Store(true)
				})
				for !s.Exchanging() && !replaced.Load() {
					runtime.Gosched()
				}
				others.Go(func() { other = s.do("GET /", "X-Key", "k") })
				for range 1000 {
					runtime.Gosched()
				}
				require.False(t, replaced.Load())
				require.Len(t, s.Policies(), 2)
				_, _, ok := s.ParseKey(key)
				require.True(t, ok)
				require.NoError(t, s.Sash().SetLimits("whatever", sash.PerHour(1)), "it does not wait for itself")
			})
		})))
	w := s.do("GET /", "X-Key", "k")
	others.Wait()
	require.Equal(t, `"a";q=10;w=3600, "b";q=10;w=3600`, w.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"a";r=9;t=3600, "b";r=9;t=3600`, w.Header().Get("RateLimit"))
	require.Equal(t, `"b";q=20;w=3600`, other.Header().Get("RateLimit-Policy"))
	require.Equal(t, `"b";r=18;t=3600`, other.Header().Get("RateLimit"))
}

// A function below that panics, or ends its goroutine, does not hold Reconfigure up.
func TestReconfigure_AfterAPanicBelow(t *testing.T) {
	fail := func() { panic("below") }
	s := newSite(t, per("a", "", sash.PerHour(10)), httplimit.WithSash(sash.WithObserver(func(string, int64, sash.Decision) { fail() })))
	require.Equal(t, 500, s.do("GET /", "X-Key", "k").Code)
	require.NoError(t, s.Reconfigure(per("b", "", sash.PerHour(10))))
	fail = runtime.Goexit
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.do("GET /", "X-Key", "k")
	}()
	<-ended
	require.NoError(t, s.Reconfigure(per("a", "", sash.PerHour(10))))
}

// An observation is what a request was told: by the headers, the answer and the events.
type observation struct {
	Code               int
	Policies, Violated string
	Events             string
}

// No request is decided by some of one set of policies and some of another: each answer is one
// that one of the sets gives. Whatever is admitted is charged, and carries over.
func TestReconfigure_NoRequestIsDecidedByHalfOfIt(t *testing.T) {
	const plenty = 1_000_000
	cost := func(p httplimit.Policy, units int64) httplimit.Policy {
		p.Cost = func(*http.Request) int64 { return units }
		return p
	}
	kept := func(p httplimit.Policy) httplimit.Policy { // charged by a reservation
		p.Charge = func(int) bool { return true }
		return p
	}
	shadow := per("shadow", "", sash.PerHour(plenty+7).Log())
	shadow.Shadow = true
	x := func(more int64) httplimit.Policy { return per("x", "", sash.PerHour(plenty+more)) }
	sets := []struct {
		policies []httplimit.Policy
		charged  int64 // units of x for an admitted request
	}{
		{[]httplimit.Policy{x(1), per("first denies", "", sash.PerHour(0))}, 0},
		{[]httplimit.Policy{per("second denies", "", sash.PerHour(0)), x(2)}, 0},
		{[]httplimit.Policy{x(3), per("y", "", sash.PerHour(plenty))}, 1},
		{[]httplimit.Policy{per("y", "", sash.PerHour(plenty+1)), cost(x(4), 2), shadow}, 2},
		{[]httplimit.Policy{kept(x(5))}, 1},
		{[]httplimit.Policy{cost(x(6), 3)}, 3},
		{[]httplimit.Policy{per("y", "/other", sash.PerHour(0)), x(7)}, 1},
		{[]httplimit.Policy{x(8), cost(per("first denies", "", sash.PerHour(0)), 5)}, 0},
	}

	const senders = 8
	events := make([][]string, senders)
	l := httplimit.Must(httplimit.New(httplimit.WithClock(yieldingClock{}), httplimit.WithSweepInterval(-1), x(0),
		httplimit.WithEventIdentities(), httplimit.WithObserver(func(e httplimit.Event) {
			sender, _ := strconv.Atoi(e.Identity) // this runs in the goroutine of the sender
			events[sender] = append(events[sender], e.Policy+" "+e.Outcome.String()+" "+e.Decision.Limit.String())
		})))
	defer l.Close()
	h := l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }))
	observe := func(sender int) (o observation) {
		events[sender] = nil
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newRequest("GET /", "X-Key", strconv.Itoa(sender)))
		o.Code, o.Policies, o.Events = w.Code, w.Header().Get("RateLimit-Policy"), strings.Join(events[sender], ", ")
		if w.Code == 429 {
			var problem struct {
				Violated []string `json:"violated-policies"`
			}
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
			o.Violated = strings.Join(problem.Violated, ", ")
		}
		return o
	}
	charges := map[observation]int64{}
	for _, set := range sets {
		require.NoError(t, l.Reconfigure(set.policies...))
		charges[observe(0)] = set.charged
	}
	require.Len(t, charges, len(sets))

	require.NoError(t, l.Reconfigure(per("none", "", sash.PerHour(1)))) // forgets what was charged so far
	require.NoError(t, l.Reconfigure(sets[0].policies...))
	var charged [senders]int64
	var seen [senders]map[observation]bool
	var over atomic.Bool
	var all sync.WaitGroup
	for sender := range senders {
		seen[sender] = map[observation]bool{}
		all.Go(func() {
			for !over.Load() {
				o := observe(sender)
				units, known := charges[o]
				if !known {
					t.Errorf("no set of policies answers so: %+v", o)
					return
				}
				charged[sender] += units
				seen[sender][o] = true
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	enough := 400
	if race.Enabled {
		enough = 100
	}
	for range enough {
		require.NoError(t, l.Reconfigure(sets[rng.IntN(len(sets))].policies...))
		for range rng.IntN(40) {
			runtime.Gosched()
		}
	}
	over.Store(true)
	all.Wait()
	require.NoError(t, l.Reconfigure(x(9)))
	answers := map[observation]bool{}
	for sender := range senders {
		key, _ := l.KeyFor("x", newRequest("GET /", "X-Key", strconv.Itoa(sender)))
		require.EqualValues(t, plenty+9-charged[sender], l.Sash().Peek(key, 0).Remaining)
		for o := range seen[sender] {
			answers[o] = true
		}
	}
	require.Greater(t, len(answers), len(sets)/2, "hardly any change was seen: this test has shown nothing")
}

// A yieldingClock stands still. Whoever reads it lets others run.
type yieldingClock struct{}

func (yieldingClock) Now() int64 {
	runtime.Gosched()
	return 0
}

// A Queue that gets smaller keeps the requests that have waited longest. They start over one after the
// other, and a later one may be faster, but not on one processor.
func TestReconfigure_ToASmallerQueueKeepsTheFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, smaller := range []httplimit.Queue{{Requests: 3}, {Requests: 10, RequestsEach: 3}} {
		synctest.Test(t, func(t *testing.T) {
			policy := func(q httplimit.Queue) httplimit.Policy {
				q.Wait = time.Minute
				return queued("p", "", sash.PerSecond(1).Log(), q)
			}
			l := newLobby(t, policy(httplimit.Queue{Requests: 10}))
			for _, name := range []string{"0", "1", "2", "3", "4", "5", "6"} {
				l.send(name, "GET /", "X-Key", "k")
			}
			require.Equal(t, []string{"0 served"}, l.happened())
			require.NoError(t, l.Reconfigure(policy(smaller)))
			require.Equal(t, []string{"4 429 1", "5 429 1", "6 429 1"}, sorted(l.happened()))
			for _, name := range []string{"1", "2", "3"} {
				require.Equal(t, []string{name + " served"}, l.after(time.Second))
			}
		})
	}
}

// Requests that wait start over under the new policies, with the time that they have waited.
func TestReconfigure_WhileRequestsWait(t *testing.T) {
	q := httplimit.Queue{Wait: time.Hour, Requests: 9}
	policy := func(count int64) httplimit.Policy { return queued("a", "", sash.PerMinute(count).Log(), q) }
	waiting := func(t *testing.T) *lobby {
		l := newLobby(t, policy(1))
		for _, name := range []string{"1", "2", "3", "4"} {
			l.send(name, "GET /", "X-Key", "k")
		}
		require.Equal(t, []string{"1 served"}, l.happened())
		return l
	}
	synctest.Test(t, func(t *testing.T) { // higher limits admit them at once
		l := waiting(t)
		require.NoError(t, l.Reconfigure(policy(3)))
		// They start over one after the other, and mostly keep their places, but not always.
		log := l.happened()
		require.Len(t, log, 2)
		require.Equal(t, []string{"2 served", "3 served", "4 served"}, sorted(append(log, l.after(time.Minute)...)))
		require.Equal(t, 0, l.Waiting())
	})
	// They keep their order, though the first to start over is the last to wait again.
	synctest.Test(t, func(t *testing.T) {
		l := waiting(t)
		var began atomic.Int64
		slow := policy(1)
		slow.Cost = func(*http.Request) int64 {
			time.Sleep(time.Second / time.Duration(began.Add(1))) // of the bubble
			return 1
		}
		for range 5 { // an odd number, since two turns would bring them back into order
			began.Store(0)
			require.NoError(t, l.Reconfigure(slow, per("b", "/b", sash.PerHour(1))))
			time.Sleep(time.Second) // of the bubble
			require.Empty(t, l.happened())
		}
		for _, want := range []string{"2 served", "3 served", "4 served"} {
			require.Equal(t, []string{want}, l.after(time.Minute))
		}
	})
	synctest.Test(t, func(t *testing.T) { // without a Queue, they are denied
		l := waiting(t)
		require.NoError(t, l.Reconfigure(per("a", "", sash.PerMinute(2).Log())))
		log := l.happened()
		require.Len(t, log, 3)
		require.Equal(t, 1, len(slices.DeleteFunc(log, func(s string) bool { return !strings.HasSuffix(s, "served") })))
		require.Equal(t, 0, l.Waiting())
	})
	synctest.Test(t, func(t *testing.T) { // the time that they have waited counts
		l := waiting(t)
		shorter := policy(1)
		l.clock.Advance(30 * time.Second)
		shorter.Queue.Wait = 40 * time.Second // from when they came, which ends before the minute does
		require.NoError(t, l.Reconfigure(shorter))
		require.Len(t, l.happened(), 3, "all are denied")
	})
	synctest.Test(t, func(t *testing.T) { // the time that they have waited is told
		l := waiting(t)
		l.clock.Advance(30 * time.Second)
		l.events = nil
		require.NoError(t, l.Reconfigure(per("a", "", sash.PerMinute(9).Log())))
		require.Len(t, l.happened(), 3)
		for _, e := range l.events {
			require.Equal(t, 30*time.Second, e.Waited)
		}
	})
	for range 10 {
		synctest.Test(t, func(t *testing.T) { // without a Queue, those that policies deny together are denied
			b := per("b", "", sash.PerHour(9))
			l := newLobby(t, policy(1), b, httplimit.WithSash(sash.WithMaxKeys(3, sash.DenyNew)))
			key, _ := l.KeyFor("b", newRequest("GET /", "X-Key", "other"))
			require.True(t, l.Sash().Allow(key))
			l.send("1", "GET /", "X-Key", "k")
			l.send("2", "GET /", "X-Key", "k")
			require.NoError(t, l.Reconfigure(b, per("c", "", sash.PerHour(1)), per("d", "", sash.PerHour(1))))
			require.Len(t, l.happened(), 2, "there is room for the keys of c and d each, but not for both")
			require.Equal(t, 0, l.Waiting())
		})
	}
	// A client that goes when its policies have been replaced is not served, and not charged.
	leaving := func(t *testing.T, change func(p *httplimit.Policy, leave func())) []httplimit.Event {
		var events []httplimit.Event
		synctest.Test(t, func(t *testing.T) {
			l := newLobby(t, policy(1))
			l.send("1", "GET /", "X-Key", "k")
			gone := l.send("2", "GET /", "X-Key", "k")
			l.happened()
			l.events = nil
			p := per("a", "", sash.PerMinute(9).Log())
			change(&p, gone)
			require.NoError(t, l.Reconfigure(p))
			require.Equal(t, "429", strings.Fields(l.happened()[0])[1])
			require.EqualValues(t, 8, l.left(t, "a"))
			events = l.events
		})
		return events
	}
	events := leaving(t, func(p *httplimit.Policy, leave func()) {
		p.Cost = func(*http.Request) int64 { leave(); return 1 }
	})
	require.Len(t, events, 1)
	require.Equal(t, httplimit.Abandoned, events[0].Outcome)
	leaving(t, func(p *httplimit.Policy, leave func()) { // no policy is left
		p.Skip = func(*http.Request) bool { leave(); return true }
	})
	leaving(t, func(p *httplimit.Policy, leave func()) { // but for a shadow
		p.Shadow = true
		p.Cost = func(*http.Request) int64 { leave(); return 1 }
	})
	synctest.Test(t, func(t *testing.T) { // a client that has gone is not served
		l := newLobby(t, policy(1))
		l.send("1", "GET /", "X-Key", "k")
		gone := l.send("2", "GET /", "X-Key", "k")
		l.happened()
		gone()
		require.NoError(t, l.Reconfigure(policy(9)))
		require.NotContains(t, l.happened(), "2 served")
		require.EqualValues(t, 8, l.left(t, "a"))
	})
}
