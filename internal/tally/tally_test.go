package tally_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/tally"
)

func policy(name string, limits ...sash.Limit) httplimit.Policy {
	return httplimit.Policy{Name: name, Limits: limits, Key: httplimit.ByHeader("X-Key")}
}

// A site is a handler behind a limiter whose decisions are counted.
type site struct {
	tally   tally.Tally
	limiter *httplimit.Limiter
	clock   *sash.ManualClock
}

func newSite(t testing.TB, options ...httplimit.Option) *site {
	s := &site{clock: sash.NewManualClock(0)}
	var err error
	s.limiter, err = httplimit.New(append(options, httplimit.WithClock(s.clock), httplimit.WithSweepInterval(-1),
		httplimit.WithObserver(func(e httplimit.Event) { s.tally.Observe(&e) }))...)
	require.NoError(t, err)
	t.Cleanup(func() { s.limiter.Close() })
	require.NoError(t, s.tally.WatchPolicies(s.limiter))
	return s
}

// do serves n requests of that key; the empty key is none.
func (s *site) do(key string, n int) {
	h := s.limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	for range n {
		r := httptest.NewRequest("GET", "/", nil)
		if key != "" {
			r.Header.Set("X-Key", key)
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// lines returns the counts that are not 0 as text.
func lines(counts []tally.Count) (all []string) {
	for _, c := range counts {
		if c.N != 0 {
			all = append(all, fmt.Sprintf("%s %s %v %d", c.Policy, c.Limit, c.Result, c.N))
		}
	}
	return all
}

// others returns the counts beside the decisions as text.
func others(f tally.Figures) (all []string) {
	for _, c := range f.Others {
		all = append(all, fmt.Sprintf("%s %s %d", c.Policy, c.Name, c.N))
	}
	return all
}

func TestTally_CountsWhatEachPolicyMakesOfARequest(t *testing.T) {
	shadow := policy("shadow", sash.PerHour(1))
	shadow.Shadow = true
	s := newSite(t, policy("all", sash.PerHour(100), sash.PerMinute(3)), policy("few", sash.PerHour(2)), shadow)
	s.do("a", 5) // few admits 2
	s.do("", 4)
	require.Equal(t, []string{
		"all 3/1m0s log admitted 2", "all 3/1m0s log withheld 3", "all  unidentified 4",
		"few 2/1h0m0s log admitted 2", "few 2/1h0m0s log denied 3",
		"shadow 1/1h0m0s log admitted 1", "shadow 1/1h0m0s log shadow_denied 4",
	}, lines(s.tally.Read().Decisions))
}

// What is denied since others are under way is told apart from what a rate denies.
func TestTally_TellsWhatIsHeldApart(t *testing.T) {
	s := newSite(t, policy("export", sash.AtOnce(2, time.Minute), sash.PerHour(3)))
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Key", "a")
	first, second := s.limiter.Decide(nil, r), s.limiter.Decide(nil, r)
	s.do("a", 1)
	first.Charges.Settle(httplimit.Response{})
	second.Charges.Settle(httplimit.Response{})
	s.do("a", 2)
	require.Equal(t, []string{
		"export 2 at once for 1m0s admitted 2", "export 2 at once for 1m0s denied 1",
		"export 3/1h0m0s log admitted 1", "export 3/1h0m0s log denied 1",
	}, lines(s.tally.Read().Decisions))
}

// Each limit that a request crosses is counted, whichever has least left.
func TestTally_CountsCrossingsOfEachLimit(t *testing.T) {
	near := policy("near", sash.PerMinute(2), sash.PerHour(3))
	near.Near = 50
	s := newSite(t, near, policy("all", sash.PerHour(100)))
	require.Equal(t, []tally.NearCount{{"near", "2/1m0s log", 0}, {"near", "3/1h0m0s log", 0}}, s.tally.Read().Nears)
	s.do("a", 1)
	require.Equal(t, []tally.NearCount{{"near", "2/1m0s log", 0}, {"near", "3/1h0m0s log", 0}}, s.tally.Read().Nears)
	s.do("a", 5)
	require.Equal(t, []tally.NearCount{{"near", "2/1m0s log", 1}, {"near", "3/1h0m0s log", 1}}, s.tally.Read().Nears)
	key, _ := s.limiter.KeyFor("near", &http.Request{Header: http.Header{"X-Key": {"b"}}})
	require.NoError(t, s.limiter.Sash().SetLimits(key, sash.PerHour(1)))
	s.do("b", 1)
	require.Contains(t, s.tally.Read().Nears, tally.NearCount{"near", tally.OtherLimit, 1})
	near.Near = 0
	require.NoError(t, s.limiter.Reconfigure(near))
	require.Len(t, s.tally.Read().Nears, 3, "what was counted stays")
}

// A count that begins at 0 shows its first increase.
func TestTally_FindsEachOfManyPolicies(t *testing.T) {
	var options []httplimit.Option
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("policy %d", i)
		options = append(options, policy(name, sash.PerHour(10)))
		want = append(want, name+" 10/1h0m0s log admitted 3")
	}
	s := newSite(t, options...)
	s.do("a", 3)
	require.Equal(t, want, lines(s.tally.Read().Decisions))
}

func TestTally_BeginsWithAllCountsThatCanIncrease(t *testing.T) {
	shadow := policy("shadow", sash.PerHour(1))
	shadow.Shadow = true
	waits := policy("waits", sash.PerHour(1))
	waits.Queue = httplimit.Queue{Wait: time.Second, Requests: 1}
	f := newSite(t, policy("all", sash.PerHour(1)), waits, shadow).tally.Read()
	require.Equal(t, []tally.Count{
		{"all", "1/1h0m0s log", tally.Admitted, 0, nil}, {"all", "1/1h0m0s log", tally.Denied, 0, nil}, {"all", "1/1h0m0s log", tally.Withheld, 0, nil},
		{"all", "", tally.Unidentified, 0, nil}, {"all", "", tally.Failed, 0, nil},
		{"waits", "1/1h0m0s log", tally.Admitted, 0, nil}, {"waits", "1/1h0m0s log", tally.Denied, 0, nil}, {"waits", "1/1h0m0s log", tally.Withheld, 0, nil},
		{"waits", "1/1h0m0s log", tally.Abandoned, 0, nil}, {"waits", "", tally.Unidentified, 0, nil}, {"waits", "", tally.Failed, 0, nil},
		{"shadow", "1/1h0m0s log", tally.Admitted, 0, nil}, {"shadow", "1/1h0m0s log", tally.ShadowDenied, 0, nil}, {"shadow", "1/1h0m0s log", tally.Withheld, 0, nil},
		{"shadow", "", tally.Unidentified, 0, nil}, {"shadow", "", tally.Failed, 0, nil},
	}, f.Decisions)
	require.Equal(t, []string{"all refunds 0", "all settlements 0", "waits refunds 0", "waits settlements 0", "waits full_queues 0",
		"shadow refunds 0", "shadow settlements 0"}, others(f))
}

// A request that a full queue denies is counted as denied, too. What was counted stays when the
// policy has no Queue any more.
func TestTally_CountsFullQueuesApart(t *testing.T) {
	p := policy("p", sash.PerHour(1))
	p.Queue = httplimit.Queue{Wait: time.Second, Requests: 1}
	s := newSite(t, p)
	event := httplimit.Event{Policy: "p", Outcome: httplimit.Denied, Decision: sash.Decision{Limit: p.Limits[0]}}
	s.tally.Observe(&event)
	event.QueueFull = true
	s.tally.Observe(&event)
	want := []string{"p refunds 0", "p settlements 0", "p full_queues 1"}
	require.Equal(t, want, others(s.tally.Read()))
	require.NoError(t, s.limiter.Reconfigure(policy("p", sash.PerHour(1))))
	f := s.tally.Read()
	require.Equal(t, want, others(f))
	require.Equal(t, []string{"p 1/1h0m0s log denied 2"}, lines(f.Decisions))
}

// Only a policy that looks at responses begins with a count of those that were not seen.
func TestTally_CountsUnseenResponses(t *testing.T) {
	login := policy("login", sash.PerHour(1))
	login.Charge = func(status int) bool { return status == 401 }
	s := newSite(t, policy("all", sash.PerHour(1)), login)
	want := []string{"all refunds 0", "all settlements 0", "login refunds 0", "login settlements 0"}
	require.Equal(t, append(want, "login unseen_responses 0"), others(s.tally.Read()))
	s.tally.Observe(&httplimit.Event{Policy: "login", Outcome: httplimit.Unseen})
	require.Equal(t, append(want, "login unseen_responses 1"), others(s.tally.Read()))
}

func TestTally_CountsRefundsApart(t *testing.T) {
	p := policy("p", sash.PerHour(1))
	p.Charge = func(int) bool { return false }
	s := newSite(t, p)
	s.do("a", 3)
	f := s.tally.Read()
	require.Equal(t, []string{"p 1/1h0m0s log admitted 3"}, lines(f.Decisions))
	require.Equal(t, []string{"p refunds 3", "p settlements 0", "p unseen_responses 0"}, others(f))
}

// Clients and customers cannot add labels.
func TestTally_HasOneLabelForLimitsOfKeys(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)), httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
		return []sash.Limit{sash.PerMinute(int64(len(key)))}
	})))
	before := len(s.tally.Read().Decisions)
	for key := "a"; len(key) < 50; key += "a" {
		s.do(key, 1)
	}
	f := s.tally.Read()
	require.Equal(t, []string{"p other admitted 49"}, lines(f.Decisions))
	require.Len(t, f.Decisions, before+1)
}

func TestTally_KnowsTheLimitsOfReconfigure(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)))
	s.do("a", 1)
	require.NoError(t, s.limiter.Sash().Reconfigure(sash.PerHour(3), sash.Unlimited()))
	s.do("a", 1) // not known yet
	f := s.tally.Read()
	require.Equal(t, []tally.Limit{{"p", "3/1h0m0s log", sash.PerHour(3)}}, f.Limits)
	s.do("a", 2)
	require.Equal(t, []string{"p 1/1h0m0s log admitted 1", "p 3/1h0m0s log admitted 1", "p 3/1h0m0s log denied 1", "p other admitted 1"},
		lines(s.tally.Read().Decisions))
}

func TestTally_BoundsTheLimitsOfReconfigure(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)))
	for count := range int64(300) {
		require.NoError(t, s.limiter.Sash().Reconfigure(sash.PerHour(count)))
		s.tally.Read()
	}
	s.do("a", 1)
	f := s.tally.Read()
	require.Equal(t, []string{"p other admitted 1"}, lines(f.Decisions))
	require.Len(t, f.Decisions, 128*3+1+2)
	require.Len(t, f.Limits, 1)
}

func TestTally_ListsEachLimitOnceAndNoUnlimited(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(7), sash.Unlimited(), sash.PerHour(7)), policy("q", sash.Unlimited()))
	s.do("a", 1)
	f := s.tally.Read()
	require.Equal(t, []tally.Limit{{"p", "7/1h0m0s log", sash.PerHour(7)}}, f.Limits)
	require.Equal(t, []string{"p 7/1h0m0s log admitted 1", "q unlimited admitted 1"}, lines(f.Decisions))
}

func TestTally_CountsTheCallsOfALimiterWithoutPolicies(t *testing.T) {
	var n tally.Tally
	l := sash.Must(sash.New(sash.PerHour(2), sash.WithClock(sash.NewManualClock(0)), sash.WithObserver(
		func(_ string, units int64, d sash.Decision) { n.ObserveTake(units, &d) })))
	defer l.Close()
	require.NoError(t, n.WatchLimits(l))
	for range 5 {
		l.Allow("a")
	}
	f := n.Read()
	require.Equal(t, []string{" 2/1h0m0s log admitted 2", " 2/1h0m0s log denied 3"}, lines(f.Decisions))
	require.Equal(t, "keys", f.Stats[0].Name)
	require.EqualValues(t, 1, f.Stats[0].Value)

	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error)
	go func() { waited <- l.Wait(ctx, "a", 1) }()
	for l.Stats().Waiters == 0 {
		runtime.Gosched()
	}
	require.Equal(t, "waiting_calls", n.Read().Stats[1].Name)
	require.EqualValues(t, 1, n.Read().Stats[1].Value)
	cancel()
	require.ErrorIs(t, <-waited, context.Canceled)
	require.Zero(t, n.Read().Stats[1].Value)
}

func TestTally_ReadsTheStats(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)), httplimit.WithSash(sash.WithMaxKeys(1, sash.DenyNew)))
	s.do("a", 1)
	s.do("b", 1) // refused
	s.clock.Advance(2 * time.Hour)
	s.limiter.Sash().Sweep()
	got := map[string]float64{}
	for _, f := range s.tally.Read().Stats {
		got[f.Name] = f.Value
	}
	require.Equal(t, map[string]float64{"keys": 0, "waiting_calls": 0, "evicted_keys": 1, "sweeps": 1, "displaced_keys": 0, "refused_calls": 1,
		"shared_calls": 0, "invalid_calls": 0}, got)
}

func TestTally_CountsOneLimiterOnly(t *testing.T) {
	var n tally.Tally
	require.Zero(t, n.Read())
	n.Observe(&httplimit.Event{Policy: "p"}) // not counted, and no harm
	n.ObserveTake(1, &sash.Decision{})
	require.EqualError(t, n.WatchPolicies(nil), "the limiter must not be nil")
	require.EqualError(t, n.WatchLimits(nil), "the limiter must not be nil")

	a, b := newSite(t, policy("p", sash.PerHour(1))), newSite(t, policy("p", sash.PerHour(1)))
	require.NoError(t, n.WatchPolicies(a.limiter))
	require.NoError(t, n.WatchPolicies(a.limiter))
	require.ErrorContains(t, n.WatchPolicies(b.limiter), "another limiter")
	require.ErrorContains(t, n.WatchLimits(b.limiter.Sash()), "another limiter")

	n.Observe(&httplimit.Event{Policy: "unknown"})
	n.ObserveTake(1, &sash.Decision{})
	require.Empty(t, lines(n.Read().Decisions))
}

func TestTally_CountsEachOutcome(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)))
	for o := httplimit.Outcome(0); o.String() != "unknown"; o++ {
		s.tally.Observe(&httplimit.Event{Policy: "p", Outcome: o})
		f, all := s.tally.Read(), 0
		for _, c := range f.Decisions {
			all += int(c.N)
		}
		for _, c := range f.Others {
			all += int(c.N)
		}
		require.Equal(t, int(o)+1, all, o)
	}
}

func TestTally_LosesNothing(t *testing.T) {
	s := newSite(t, policy("p", sash.PerHour(1)))
	const each = 2000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range each {
				s.tally.Observe(&httplimit.Event{Policy: "p", Decision: sash.Decision{Limit: sash.PerHour(1)}})
			}
		})
	}
	for count := range int64(50) { // the table changes meanwhile
		require.NoError(t, s.limiter.Sash().Reconfigure(sash.PerHour(count+2)))
		s.tally.Read()
	}
	wg.Wait()
	require.Equal(t, []string{fmt.Sprint("p 1/1h0m0s log admitted ", 4*each)}, lines(s.tally.Read().Decisions))
}

func TestTally_AllocatesNothing(t *testing.T) {
	s := newSite(t, queued("p"))
	for _, e := range []httplimit.Event{
		{Cost: 1},
		{Cost: 7},
		{Cost: 1, Waited: time.Second},
		{Cost: 1, Outcome: httplimit.Denied, Fingerprint: 1},
		{Cost: 7, Outcome: httplimit.Settled, Estimate: 9},
	} {
		e.Policy, e.Decision.Limit = "p", sash.PerHour(1)
		s.tally.Observe(&e) // the first client that is denied takes memory for all
		if n := testing.AllocsPerRun(1000, func() { s.tally.Observe(&e) }); n != 0 && !race.Enabled {
			t.Errorf("%v allocations for %+v", n, e)
		}
	}
}

// A store admits everything, and says that something else has decided.
type store struct{ err error }

func (s store) Take(_ context.Context, keys []string, _ int64, _ []int64) httplimit.StoreDecision {
	d := sash.Decision{Allowed: true, Limit: sash.PerHour(1)}
	return httplimit.StoreDecision{Decision: d, Keys: []httplimit.KeyDecision{{Decision: d}}, By: "fallback", Err: s.err}
}

func (s store) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.Take(ctx, keys, n, leave)
}

func (s store) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.Take(ctx, keys, n, leave)
}

func (store) Wait(context.Context, string, int64) error { return nil }
func (store) Close() error                              { return nil }

func TestTally_CountsWhatAStoreDidNotDecide(t *testing.T) {
	s := &site{}
	s.limiter = httplimit.Must(httplimit.New(policy("p", sash.PerHour(1)),
		httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return store{io.ErrUnexpectedEOF}, nil }),
		httplimit.WithObserver(func(e httplimit.Event) { s.tally.Observe(&e) })))
	require.NoError(t, s.tally.WatchPolicies(s.limiter))
	s.do("a", 3)
	s.tally.Observe(&httplimit.Event{Policy: "p", Outcome: httplimit.Denied, Err: http.ErrServerClosed}) // by Close
	f := s.tally.Read()
	require.Equal(t, []string{"p refunds 0", "p settlements 0", "p store_errors 3"}, others(f))
	require.Equal(t, []string{"p 1/1h0m0s log admitted 3", "p other denied 1"}, lines(f.Decisions))
	require.Empty(t, f.Stats, "the keys are elsewhere")
}

// A Reconfigure of policies shows at once in what is counted, and in the figures.
func TestTally_FollowsPoliciesThatAreReplaced(t *testing.T) {
	s := newSite(t, policy("a", sash.PerHour(9)), policy("b", sash.PerHour(9)))
	s.do("k", 1)
	require.NoError(t, s.limiter.Reconfigure(policy("b", sash.PerHour(8)), policy("c", sash.PerHour(7))))
	s.do("k", 2)
	require.Equal(t, []string{"b 8/1h0m0s log admitted 1", "b 9/1h0m0s log admitted 1", "b other admitted 1", "c 7/1h0m0s log admitted 2"},
		sorted(lines(s.tally.Read().Decisions)), "the first after a change finds a limit that is not known yet")
	s.do("k", 1)
	f := s.tally.Read()
	require.Contains(t, lines(f.Decisions), "b 8/1h0m0s log admitted 2")
	require.Equal(t, []tally.Limit{{"b", "8/1h0m0s log", sash.PerHour(8)}, {"c", "7/1h0m0s log", sash.PerHour(7)}}, f.Limits)

	// A policy that is gone is not counted. If it comes again, it begins at 0.
	s.tally.Observe(&httplimit.Event{Policy: "a"})
	require.NoError(t, s.limiter.Reconfigure(policy("a", sash.PerHour(9))))
	require.Empty(t, lines(s.tally.Read().Decisions))
	s.do("k", 1)
	require.Equal(t, []string{"a 9/1h0m0s log admitted 1"}, lines(s.tally.Read().Decisions))
}

func TestTally_CountsPlansUnderTheirLimits(t *testing.T) {
	p := policy("p", sash.PerHour(1))
	p.Plan = func(r *http.Request) string { return r.Header.Get("X-Key") }
	p.Plans = map[string][]sash.Limit{"gold": {sash.PerHour(3)}, "free": {sash.PerHour(1), sash.PerMinute(2)}}
	s := newSite(t, p)
	for _, key := range []string{"gold", "free", "none", "whatever"} {
		s.do(key, 1)
	}
	f := s.tally.Read()
	require.Equal(t, []string{"p 1/1h0m0s log admitted 3", "p 3/1h0m0s log admitted 1"}, lines(f.Decisions))
	require.Equal(t, []tally.Limit{{"p", "1/1h0m0s log", sash.PerHour(1)}, {"p", "2/1m0s log", sash.PerMinute(2)}, {"p", "3/1h0m0s log", sash.PerHour(3)}}, f.Limits)
	free := p
	free.Plans = map[string][]sash.Limit{"gold": {sash.PerHour(4)}}
	require.NoError(t, s.limiter.Reconfigure(free))
	s.tally.Read()
	s.do("gold", 1)
	require.Contains(t, lines(s.tally.Read().Decisions), "p 4/1h0m0s log admitted 1")
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}
