package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A localStore is a store in this process: a sash.Limiter.
type localStore struct {
	*sash.Limiter
	httplimit.StoreKeys
	err      error     // of all calls, if it is set
	calls    []string  // their names and keys
	left     [][]int64 // what must remain after each
	ended    bool      // whether a call had a context that has ended
	tampered func(*httplimit.StoreDecision)
	closed   bool
}

// open is for WithStore.
func (s *localStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	s.StoreKeys = keys
	s.Limiter = sash.Must(sash.New(keys.Limits[0][0], sash.WithLimitsFor(keys.LimitsFor), sash.WithClock(sash.NewManualClock(0)), sash.WithSweepInterval(-1)))
	return s, nil
}

func (s *localStore) decide(ctx context.Context, call string, keys []string, leave []int64, d sash.Decision) httplimit.StoreDecision {
	s.calls = append(s.calls, strings.Join(append([]string{call}, keys...), " "))
	s.ended = s.ended || ctx.Err() != nil
	answer := httplimit.StoreDecision{Decision: d, By: "test", Err: s.err}
	for i, key := range keys {
		own, next := ofSash.NextLeaving(s.Limiter, key, leave[i])
		next.Remaining = max(next.Remaining-leave[i], 0)
		peeked := ofSash.PeekLeaving(s.Limiter, key, 1, leave[i])
		if own.Allowed = d.Allowed || peeked.Allowed; !own.Allowed {
			own = peeked
		}
		answer.Keys = append(answer.Keys, httplimit.KeyDecision{Decision: own, Next: next})
	}
	if s.tampered != nil {
		s.tampered(&answer)
	}
	return answer
}

func (s *localStore) Take(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.left = append(s.left, leave)
	leave = leavesOf(keys, leave)
	d, _ := ofSash.TakeAllOn(s.Limiter, keys, bridge.Leaving(leave), n)
	return s.decide(ctx, "take", keys, leave, d)
}

func (s *localStore) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.left = append(s.left, leave)
	leave = leavesOf(keys, leave)
	return s.decide(ctx, "peek", keys, leave, ofSash.PeekAllOn(s.Limiter, keys, bridge.Leaving(leave), n))
}

func (s *localStore) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.left = append(s.left, leave)
	leave = leavesOf(keys, leave)
	reservations, d, _ := ofSash.ReserveAllOn(s.Limiter, keys, bridge.Leaving(leave), n)
	answer := s.decide(ctx, "reserve", keys, leave, d)
	for i := range answer.Keys {
		if d.Allowed {
			answer.Keys[i].Commit = func(ctx context.Context, actual int64) error {
				s.calls = append(s.calls, fmt.Sprint("commit ", keys[i], " ", actual))
				s.ended = s.ended || ctx.Err() != nil
				reservations[i].Commit(actual)
				return s.err
			}
		}
	}
	return answer
}

func (s *localStore) Wait(ctx context.Context, key string, n int64) error {
	return s.Limiter.Wait(ctx, key, n)
}

func (s *localStore) Close() error {
	s.closed = true
	return errors.Join(s.Limiter.Close(), s.err)
}

// newStoreSite returns a site whose store is s.
func newStoreSite(t *testing.T, s interface {
	open(httplimit.StoreKeys) (httplimit.Store, error)
}, options ...httplimit.Option) *site {
	l, err := httplimit.New(append(options, httplimit.WithStore(s.open))...)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return &site{Limiter: l}
}

// A request costs one call of the store for all policies with the same cost, one for each other
// cost and each shadow. Each reservation is committed once, also to what it has charged.
func TestStore_IsAskedAsSeldomAsCanBe(t *testing.T) {
	a, b, c := per("a", "", sash.PerHour(2).Log()), per("b", "/b", sash.PerHour(5).Log()), per("c", "/c", sash.PerHour(1).Log())
	d, shadow := per("d", "/d", sash.PerHour(9).Log()), per("shadow", "/shadow", sash.PerHour(1).Log())
	c.Cost = func(*http.Request) int64 { return 7 } // which is never admitted
	d.Charge = func(int) bool { return false }
	shadow.Shadow = true
	s := &localStore{}
	site := newStoreSite(t, s, a, b, c, d, shadow)
	for _, step := range []struct {
		request, key string
		code         int
		calls        []string
	}{
		{"GET /", "k", 200, []string{"take a\x00k"}},
		{"GET /b", "l", 200, []string{"take a\x00l b\x00l"}},
		{"GET /c", "m", 429, []string{"reserve a\x00m", "reserve c\x00m", "commit a\x00m 0", "peek a\x00m"}},
		{"GET /c", "l", 429, []string{"reserve a\x00l", "reserve c\x00l", "commit a\x00l 0", "peek a\x00l"}},
		{"GET /d", "l", 200, []string{"reserve a\x00l d\x00l", "commit a\x00l 1", "commit d\x00l 0"}},
		{"GET /c", "l", 429, []string{"reserve a\x00l", "peek c\x00l"}},
		{"GET /shadow", "k", 200, []string{"take a\x00k", "take shadow\x00k"}},
		{"GET /shadow", "k", 429, []string{"take a\x00k"}}, // nobody wants to know of the shadow
	} {
		s.calls = nil
		require.Equal(t, step.code, site.do(step.request, "X-Key", step.key).Code, step)
		require.Equal(t, step.calls, s.calls, step)
	}
	require.EqualValues(t, 9, s.Limiter.Peek("d\x00l", 0).Remaining)
}

// The context of the calls ends with no request, and has its values.
func TestStore_IsAskedThoughTheClientHasGone(t *testing.T) {
	p := per("p", "", sash.PerHour(2).Log())
	p.Charge, p.ChargeUncertain = func(int) bool { return false }, func(int) bool { return false }
	s := &localStore{}
	site := newStoreSite(t, s, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 5 {
		w := httptest.NewRecorder()
		site.ServeHTTP(w, newRequest("GET /", "X-Key", "k").WithContext(ctx))
		require.Equal(t, 200, w.Code)
	}
	require.Len(t, s.calls, 10)
	require.False(t, s.ended)
}

// Events tell who decided, and what went wrong.
func TestStore_EventsTellWhoDecided(t *testing.T) {
	var events []httplimit.Event
	s := &localStore{}
	p, shadow := per("p", "", sash.PerHour(1).Log()), per("shadow", "", sash.PerHour(1).Log())
	p.Charge = func(status int) bool { return status == 200 }
	shadow.Shadow = true
	site := newStoreSite(t, s, p, shadow, httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	site.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }
	s.err = errors.New("away")
	require.Equal(t, 404, site.do("GET /", "X-Key", "k").Code)
	site.answer = nil
	require.Equal(t, []int{200, 429}, site.codes(2, "GET /", "X-Key", "k"))
	var outcomes []httplimit.Outcome
	for _, e := range events {
		require.Equal(t, "test", e.By)
		require.Equal(t, s.err, e.Err)
		outcomes = append(outcomes, e.Outcome)
	}
	require.Equal(t, []httplimit.Outcome{
		httplimit.Admitted, httplimit.Admitted, httplimit.GivenBack, // p, shadow, p
		httplimit.Admitted, httplimit.Denied,
		httplimit.Denied, httplimit.Denied,
	}, outcomes)
	require.ErrorIs(t, site.Close(), s.err)
	require.True(t, s.closed)
}

// A denial names a quota, even if no key by itself denies the request.
func TestStore_EveryDenialNamesAQuota(t *testing.T) {
	s := &localStore{tampered: func(d *httplimit.StoreDecision) {
		d.Decision = sash.Decision{Limit: sash.PerHour(2).Log(), RetryAfter: 90 * time.Second}
	}}
	w := newStoreSite(t, s, per("a", "", sash.PerHour(1).Log()), per("b", "", sash.PerHour(2).Log())).do("GET /", "X-Key", "k")
	require.Equal(t, 429, w.Code)
	require.Equal(t, "90", w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"violated-policies":["b"]`)
}

// A store that panics, or does not answer for each key, admits nothing.
func TestStore_ThatPanicsAdmitsNothing(t *testing.T) {
	site := newStoreSite(t, &localStore{tampered: func(d *httplimit.StoreDecision) { d.Keys = nil }}, per("a", "", sash.PerHour(1)))
	var logged strings.Builder
	server := &http.Server{ErrorLog: log.New(&logged, "", 0)}
	r := newRequest("GET /", "X-Key", "k")
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, server)))
	require.Equal(t, 500, w.Code)
	require.Contains(t, logged.String(), "httplimit: panic")
	require.Zero(t, site.served.Load())
}

// The keys of a store begin with the name of their policy. KeyFor, ParseKey, HashTag and the
// limits know them.
func TestStore_KeysHaveTheNameOfTheirPolicy(t *testing.T) {
	s := &localStore{}
	gold := sash.PerMinute(7).Log()
	var site *site
	site = newStoreSite(t, s, per("a", "", sash.PerHour(1)), per("ab", "", sash.PerHour(2)),
		httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
			if policy, identity, ok := site.ParseKey(key); ok && policy == "ab" && identity == "gold" {
				return []sash.Limit{gold}
			}
			return nil
		})))
	require.Equal(t, [][]sash.Limit{{sash.PerHour(1)}, {sash.PerHour(2)}}, s.StoreKeys.Limits)
	require.Nil(t, site.Sash())
	require.Same(t, s, site.Store())

	long := strings.Repeat("x", 200)
	for _, identity := range []string{"k", "gold", long, "{\x00\x01}"} {
		a, ok := site.KeyFor("a", newRequest("GET /", "X-Key", identity))
		require.True(t, ok)
		ab, _ := site.KeyFor("ab", newRequest("GET /", "X-Key", identity))
		require.NotEqual(t, a, ab)
		require.Equal(t, httplimit.HashTag(a), httplimit.HashTag(ab))
		require.Equal(t, []sash.Limit{sash.PerHour(1)}, s.LimitsFor(a))
		want := sash.PerHour(2)
		if identity == "gold" {
			want = gold
		}
		require.Equal(t, []sash.Limit{want}, s.LimitsFor(ab))
		policy, parsed, ok := site.ParseKey(ab)
		if identity == long {
			require.False(t, ok)
			continue
		}
		require.True(t, ok)
		require.Equal(t, []string{"ab", identity, identity}, []string{policy, parsed, httplimit.HashTag(ab)})
	}
	_, ok := site.KeyFor("a", newRequest("GET /"))
	require.False(t, ok)
	for _, key := range []string{"", "a", "abc\x00k", "\x00k"} {
		_, _, ok := site.ParseKey(key)
		require.False(t, ok, "%q", key)
		require.Empty(t, s.LimitsFor(key), "%q", key)
	}
	require.Equal(t, "other", httplimit.HashTag("other"))
}

// An option that has no effect on a store is refused.
func TestWithStore_RefusesWhatDoesNotWorkWithIt(t *testing.T) {
	p, store := per("p", "", sash.PerHour(1)), httplimit.WithStore(new(localStore).open)
	for want, options := range map[string][]httplimit.Option{
		"httplimit: WithClock does not work with WithStore: the time is the store's: invalid option":                                   {httplimit.WithClock(sash.SystemClock())},
		"httplimit: WithSizeHint does not work with WithStore: there is no table of keys in this process: invalid option":              {httplimit.WithSizeHint(1)},
		"httplimit: WithSweepInterval does not work with WithStore: there is no table of keys in this process: invalid option":         {httplimit.WithSweepInterval(-1)},
		"httplimit: WithSash: option 2: of the options of sash, only WithLimitsFor works with WithStore: leave it out: invalid option": {httplimit.WithSash(sash.WithLimitsFor(func(string) []sash.Limit { return nil }), sash.WithChargeDenied())},
		"httplimit: WithStore: open must not be nil: invalid option":                                                                   {httplimit.WithStore(nil)},
		"httplimit: WithStore: open returned neither a store nor an error":                                                             {httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return nil, nil })},
		"httplimit: WithStore: no such host": {httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return nil, errors.New("no such host") })},
		"httplimit: WithSash: option 1: of the options of sash, only WithLimitsFor works with WithStore: leave it out: invalid option":                                                                              {httplimit.WithSash(sash.WithLimitsFor(nil))},
		"httplimit: WithSash: option 1: limits are given to a Policy: invalid option\nhttplimit: WithSash: option 1: of the options of sash, only WithLimitsFor works with WithStore: leave it out: invalid option": {httplimit.WithSash(sash.PerHour(1))},
	} {
		_, err := httplimit.New(append([]httplimit.Option{p, store}, options...)...)
		require.EqualError(t, err, want)
	}
	_, err := httplimit.New(p, store, httplimit.WithClock(sash.SystemClock()))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
}

// A Transport takes its turn from a store as from a limiter, and has one of them.
func TestTransport_WithAStore(t *testing.T) {
	s := &localStore{}
	_, err := s.open(httplimit.StoreKeys{Limits: [][]sash.Limit{{sash.PerHour(2).Log()}}, LimitsFor: func(string) []sash.Limit { return nil }})
	require.NoError(t, err)
	send := func(tr *httplimit.Transport) error {
		r, err := http.NewRequest("GET", "http://a.example/", nil)
		require.NoError(t, err)
		tr.Base = sent(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 429, Header: http.Header{"Retry-After": {"60"}}, Body: http.NoBody}, nil
		})
		_, err = tr.RoundTrip(r)
		return err
	}
	require.NoError(t, send(&httplimit.Transport{Store: s}))
	holding := &httplimit.Transport{Store: s, NoWait: true}
	require.NoError(t, send(holding))
	var turn *httplimit.TurnError
	require.ErrorAs(t, send(holding), &turn)
	require.True(t, turn.Held, "on the clock of the system")
	require.InDelta(t, time.Minute, turn.RetryAfter, float64(time.Second))

	s.err = errors.New("away")
	err = send(&httplimit.Transport{Store: s, NoWait: true})
	require.ErrorAs(t, err, &turn)
	require.Equal(t, httplimit.TurnError{RetryAfter: time.Hour, Err: s.err}, *turn)
	require.ErrorIs(t, err, s.err)
	require.EqualError(t, err, "httplimit: not sent: the fallback of the store admits it in 1h0m0s: away")
	cost := func(*http.Request) int64 { return 3 }
	require.ErrorIs(t, send(&httplimit.Transport{Store: s, Cost: cost, NoWait: true}), s.err)
	s.err = nil
	require.ErrorIs(t, send(&httplimit.Transport{Store: s, Cost: cost, NoWait: true}), sash.ErrExceedsLimit)
	require.ErrorIs(t, send(&httplimit.Transport{Store: s, Cost: cost}), sash.ErrExceedsLimit)

	require.EqualError(t, send(&httplimit.Transport{Store: s, Limiter: s.Limiter}), "httplimit: Transport must not have both a Limiter and a Store")
	require.EqualError(t, send(&httplimit.Transport{}), "httplimit: Transport.Limiter must not be nil, unless there is a Store")
}

// While a key is held back, a store is not asked, nor is it charged: each call of it may be a round trip.
func TestTransport_AsksNoStoreWhileHeldBack(t *testing.T) {
	for _, noWait := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := &localStore{Limiter: sash.Must(sash.New(sash.PerHour(1).Log(), sash.WithSweepInterval(-1)))}
			defer s.Limiter.Close()
			tr := &httplimit.Transport{Store: s, NoWait: noWait}
			tr.HoldBack("a.example", time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r, err := http.NewRequestWithContext(ctx, "GET", "http://a.example/", nil)
			require.NoError(t, err)
			start := time.Now()
			_, err = tr.Admit(r)
			var turn *httplimit.TurnError
			require.ErrorAs(t, err, &turn)
			require.True(t, turn.Held)
			require.Equal(t, time.Minute, turn.RetryAfter)
			require.Equal(t, start, time.Now(), "at once")
			require.Empty(t, s.calls)
			require.True(t, s.Limiter.Allow("a.example"))
		})
	}
}

// A slowStore returns from Wait some time after its context has ended, as one that waits for an answer does.
type slowStore struct {
	*localStore
	late time.Duration
}

func (s slowStore) Wait(ctx context.Context, _ string, _ int64) error {
	<-ctx.Done()
	time.Sleep(s.late)
	return ctx.Err()
}

// If the context of a request ends while the request starts over, since the server asked to wait, the error
// is the one of its context.
func TestTransport_TellsWhyTheContextEndedThoughTheServerAskedToWait(t *testing.T) {
	for _, late := range []time.Duration{2, time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			l := sash.Must(sash.New(sash.PerHour(1), sash.WithSweepInterval(-1)))
			defer l.Close()
			tr := &httplimit.Transport{Store: slowStore{&localStore{Limiter: l}, late}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			time.AfterFunc(10*time.Second-late/2, func() { tr.HoldBack("a.example", time.Millisecond) })
			r, err := http.NewRequestWithContext(ctx, "GET", "http://a.example/", nil)
			require.NoError(t, err)
			_, err = tr.Admit(r)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, context.Canceled)
		})
	}
}

type sent func(*http.Request) (*http.Response, error)

func (f sent) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A store that denies because it cannot decide is no reason to say that a quota is exceeded.
func TestStore_ThatCannotDecideIsAnswered503(t *testing.T) {
	away := errors.New("the store is away")
	undecided := func(d *httplimit.StoreDecision) {
		*d = httplimit.StoreDecision{Decision: sash.Decision{RetryAfter: 1500 * time.Millisecond}, By: "fallback", Err: away, Keys: d.Keys}
		for i := range d.Keys {
			d.Keys[i] = httplimit.KeyDecision{Decision: d.Decision, Next: d.Decision}
			d.Keys[i].Limit = sash.Unlimited()
		}
	}
	var events []httplimit.Event
	var denials []httplimit.Denial
	options := []httplimit.Option{
		per("a", "", sash.PerHour(1).Log()), per("b", "/b", sash.PerHour(1).Log()), httplimit.WithXRateLimit(),
		httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }),
	}
	s := &localStore{tampered: undecided}
	w := newStoreSite(t, s, options...).do("GET /b", "X-Key", "k")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, http.Header{
		"Retry-After": {"2"}, "Cache-Control": {"no-store"}, "Content-Type": {"application/problem+json"},
	}, w.Header(), "nobody knows what is left")
	require.JSONEq(t, `{"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		"title":"Request cannot be satisfied due to temporary server capacity constraints","status":503}`, w.Body.String())
	require.Len(t, events, 2)
	for _, e := range events {
		require.Equal(t, httplimit.Denied, e.Outcome)
		require.Equal(t, away, e.Err)
	}

	// A function of the caller is told why. A quota that denies goes before.
	site := newStoreSite(t, s, append(options, httplimit.WithDenied(func(_ http.ResponseWriter, _ *http.Request, d httplimit.Denial) {
		denials = append(denials, d)
	}))...)
	site.do("GET /b", "X-Key", "k")
	s.tampered = func(d *httplimit.StoreDecision) {
		undecided(d)
		d.Keys[0].Limit = sash.PerHour(1).Log()
	}
	site.do("GET /b", "X-Key", "k")
	require.Equal(t, []httplimit.Denial{
		{RetryAfter: 1500 * time.Millisecond, By: "fallback", Err: away},
		{RetryAfter: 1500 * time.Millisecond, By: "fallback", Violated: []string{"a"}},
	}, denials)
}

// A client that retries on a context that has ended must not use up the quota of others.
func TestTransport_ChargesNothingOnceTheContextHasEnded(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	s := &localStore{Limiter: sash.Must(sash.New(sash.PerHour(1).Log(), sash.WithClock(sash.NewManualClock(0))))}
	t.Cleanup(func() { s.Limiter.Close() })
	for name, tr := range map[string]*httplimit.Transport{
		"a limiter":             {Limiter: s.Limiter},
		"a limiter, no waiting": {Limiter: s.Limiter, NoWait: true},
		"a store":               {Store: s},
		"a store, no waiting":   {Store: s, NoWait: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(ended, "GET", "http://a.example/", nil)
			require.NoError(t, err)
			_, err = tr.Admit(r)
			require.EqualError(t, err, "httplimit: not sent: context canceled")
			require.ErrorIs(t, err, context.Canceled)
			require.EqualValues(t, 1, s.Limiter.Peek("a.example", 0).Remaining)
			require.Empty(t, s.calls, "of the store")
		})
	}
}
