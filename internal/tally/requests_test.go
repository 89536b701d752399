package tally_test

import (
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// A bill is what the units of a policy come to.
type bill struct{ admitted, refused, refunded, surcharged int64 }

// charged returns the units that its keys must hold, as long as none has left the window.
func (b bill) charged() int64 { return b.admitted - b.refunded + b.surcharged }

// billOf returns the units of a policy.
func billOf(f *tally.Figures, policy string) (b bill) {
	for _, c := range f.Decisions {
		switch {
		case c.Policy != policy || c.Units == nil:
		case c.Result == tally.Admitted:
			b.admitted += c.Sum
		default:
			b.refused += c.Sum
		}
	}
	for _, o := range f.Others {
		switch {
		case o.Policy != policy:
		case o.Name == "refunded_units":
			b.refunded += o.N
		case o.Name == "surcharged_units":
			b.surcharged += o.N
		}
	}
	return b
}

// random is a program of requests with random costs, under policies whose charges change after the answer.
type random struct {
	*site
	*rand.Rand
	policies []string
	keys     map[string]map[string]bool // of each policy
	asked    map[string]int64           // units for which its requests have asked
}

// unitsOf asks for the units that a header names.
func unitsOf(header string) func(*http.Request) int64 {
	return func(r *http.Request) int64 {
		n, _ := strconv.ParseInt(r.Header.Get(header), 10, 64)
		return n
	}
}

func newRandom(t *testing.T, seed uint64) *random {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), keys: map[string]map[string]bool{}, asked: map[string]int64{}}
	of := func(name string, count int64, change func(*httplimit.Policy)) httplimit.Option {
		p := policy(name, sash.PerHour(count).Log())
		p.Cost = unitsOf("X-" + name)
		change(&p)
		r.policies = append(r.policies, name)
		r.keys[name] = map[string]bool{}
		return p
	}
	kept := func(status int) bool { return status == http.StatusOK }
	r.site = newSite(t,
		of("bytes", 300, func(p *httplimit.Policy) { p.Settle, p.Unit = httplimit.SettleEstimate(), "bytes" }),
		of("tokens", 200, func(p *httplimit.Policy) { p.Settle, p.Charge = httplimit.SettleEstimate(), kept }),
		of("plain", 100, func(*httplimit.Policy) {}),
		of("trial", 50, func(p *httplimit.Policy) { p.Settle, p.Charge, p.Shadow = httplimit.SettleEstimate(), kept, true }))
	return r
}

// request serves one request.
func (p *random) request() {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Key", strconv.Itoa(p.IntN(3)))
	for _, name := range p.policies {
		cost := p.Int64N(12) - 1
		r.Header.Set("X-"+name, strconv.FormatInt(cost, 10))
		p.asked[name] += max(cost, 0)
		key, _ := p.limiter.KeyFor(name, r)
		p.keys[name][key] = true
	}
	p.limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range p.policies {
			if charge := httplimit.ChargeOf(r.Context(), name); charge != nil && p.IntN(3) > 0 {
				// What is above the limit would be a debt, and what is left cannot tell it.
				key, _ := p.limiter.KeyFor(name, r)
				most := charge.Estimate() + p.limiter.Sash().Peek(key, 0).Remaining
				charge.Commit(min(p.Int64N(2*charge.Estimate()+2), most))
			}
		}
		w.WriteHeader([]int{http.StatusOK, http.StatusTeapot}[p.IntN(2)])
	})).ServeHTTP(httptest.NewRecorder(), r)
}

// held returns the units that the keys of a policy hold.
func (p *random) held(policy string) (units int64) {
	for key := range p.keys[policy] {
		d := p.limiter.Sash().Peek(key, 0)
		units += d.Limit.Count - d.Remaining
	}
	return units
}

// The units that are admitted, less those given back, and the ones charged afterwards, are what the keys
// hold. The clock stands still, so that nothing leaves the window.
func TestTally_AddsUpToWhatKeysHold(t *testing.T) {
	var seen bill // of all programs
	for seed := range uint64(40) {
		p := newRandom(t, seed)
		for step := range 120 {
			p.request()
			f := p.tally.Read()
			for _, policy := range p.policies {
				b := billOf(&f, policy)
				require.Equal(t, p.held(policy), b.charged(), "seed %d, step %d, %s: %+v", seed, step, policy, b)
				require.Equal(t, p.asked[policy], b.admitted+b.refused, "seed %d, step %d, %s: %+v", seed, step, policy, b)
			}
		}
		f := p.tally.Read()
		b := billOf(&f, "tokens")
		seen = bill{seen.admitted + b.admitted, seen.refused + b.refused, seen.refunded + b.refunded, seen.surcharged + b.surcharged}
	}
	require.Greater(t, min(seen.admitted, seen.refused, seen.refunded, seen.surcharged), int64(1000), "%+v", seen)
}

// unitsIn returns the units of a result; -1 if there are none.
func unitsIn(f tally.Figures, r tally.Result) int64 {
	for _, c := range f.Decisions {
		if c.Result == r && c.Units != nil {
			return c.Sum
		}
	}
	return -1
}

// Requests that cost one unit each have no counts of units, which would be the same again.
func TestTally_HasUnitsWhereCostsDiffer(t *testing.T) {
	p := policy("p", sash.PerHour(100))
	s := newSite(t, p)
	s.do("a", 2)
	require.EqualValues(t, -1, unitsIn(s.tally.Read(), tally.Admitted))
	p.Cost, p.Unit = func(*http.Request) int64 { return 7 }, "bytes"
	require.NoError(t, s.limiter.Reconfigure(p))
	s.do("a", 1) // before any Read takes note of the Cost
	f := s.tally.Read()
	require.EqualValues(t, 9, unitsIn(f, tally.Admitted), "what came before it was known counts")
	require.Equal(t, "bytes", f.Decisions[0].Unit)
	require.Equal(t, []string{"p refunds 0", "p settlements 0", "p refunded_units 0", "p surcharged_units 0"}, others(f))
	p.Cost = nil
	require.NoError(t, s.limiter.Reconfigure(p))
	s.do("a", 1)
	require.EqualValues(t, 10, unitsIn(s.tally.Read(), tally.Admitted), "what was counted stays")
}

func TestTally_CountsTheUnitsOfALimiterWithoutPolicies(t *testing.T) {
	var n tally.Tally
	l := sash.Must(sash.New(sash.PerHour(10), sash.WithClock(sash.NewManualClock(0)), sash.WithObserver(
		func(_ string, units int64, d sash.Decision) { n.ObserveTake(units, &d) })))
	defer l.Close()
	require.NoError(t, n.WatchLimits(l))
	l.AllowN("a", 7)
	l.Allow("a")
	l.AllowN("a", 5)
	f := n.Read()
	require.EqualValues(t, 8, unitsIn(f, tally.Admitted))
	require.EqualValues(t, 5, unitsIn(f, tally.Denied))
}

// A cost that clients choose, such as a Content-Length, neither hides other requests nor ends the count.
func TestTally_BoundsTheUnitsOfARequest(t *testing.T) {
	p := policy("p", sash.PerHour(1))
	p.Cost, p.Settle = func(*http.Request) int64 { return 1 }, httplimit.SettleEstimate()
	s := newSite(t, p)
	event := func(o httplimit.Outcome, cost, estimate int64) {
		s.tally.Observe(&httplimit.Event{Policy: "p", Outcome: o, Cost: cost, Estimate: estimate, Decision: sash.Decision{Limit: p.Limits[0]}})
	}
	event(httplimit.Denied, math.MinInt64, 0)
	require.Zero(t, unitsIn(s.tally.Read(), tally.Denied))
	event(httplimit.Denied, math.MaxInt64, 0)
	require.EqualValues(t, int64(tally.MostUnits), unitsIn(s.tally.Read(), tally.Denied))
	event(httplimit.Admitted, math.MaxInt64, 0)
	event(httplimit.Settled, 1, math.MaxInt64)
	event(httplimit.Admitted, 1, 0)
	event(httplimit.Settled, math.MaxInt64, 1)
	f := s.tally.Read()
	require.Equal(t, bill{tally.MostUnits + 1, tally.MostUnits, tally.MostUnits - 1, tally.MostUnits - 1}, billOf(&f, "p"))
	const rest = 1<<23 - 1
	for range rest {
		event(httplimit.Denied, math.MaxInt64, 0)
	}
	require.Zero(t, unitsIn(s.tally.Read(), tally.Denied), "it begins anew at 2^63")
}
