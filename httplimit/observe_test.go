package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func TestObserver_IsToldWhatEachPolicyMakesOfARequest(t *testing.T) {
	var events []httplimit.Event
	all := per("all", "", sash.PerHour(5).Log())
	api := per("api", "/api/", sash.PerHour(1).Log())
	s := newSite(t, all, api, httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	s.codes(2, "GET /api/", "X-Key", "secret")
	s.do("GET /")
	require.Equal(t, []httplimit.Event{
		{Policy: "all", Outcome: httplimit.Admitted, Cost: 1, Decision: sash.Decision{
			Allowed: true, Limit: all.Limits[0], Remaining: 4, ResetAfter: 3600e9}},
		{Policy: "api", Pattern: "/api/", Outcome: httplimit.Admitted, Cost: 1, Decision: sash.Decision{
			Allowed: true, Limit: api.Limits[0], Remaining: 0, ResetAfter: 3600e9}},
		{Policy: "all", Outcome: httplimit.Withheld, Cost: 1, Decision: sash.Decision{
			Allowed: true, Limit: all.Limits[0], Remaining: 3, ResetAfter: 3600e9}},
		{Policy: "api", Pattern: "/api/", Outcome: httplimit.Denied, Cost: 1, Decision: sash.Decision{
			Limit: api.Limits[0], RetryAfter: 3600e9, ResetAfter: 3600e9}},
		{Policy: "all", Outcome: httplimit.Unidentified},
	}, events)
	require.NotContains(t, fmt.Sprintf("%+v", events), "secret")
}

func TestObserver_IsToldWhoIsCallingIfItAsks(t *testing.T) {
	var events []httplimit.Event
	p := per("each", "", sash.PerHour(1).Log())
	p.Charge = func(int) bool { return false }
	s := newSite(t, p, httplimit.WithEventIdentities(), httplimit.WithEventFingerprints(),
		httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	long := strings.Repeat("long", 99)
	for _, key := range []string{"a", "b", "a", long} {
		s.do("GET /", "X-Key", key)
	}
	var names []string
	prints := map[uint64]bool{}
	for _, e := range events {
		names = append(names, e.Identity+" "+e.Outcome.String())
		prints[e.Fingerprint] = true
	}
	require.Equal(t, []string{
		"a admitted", "a given back", "b admitted", "b given back",
		"a admitted", "a given back", long + " admitted", long + " given back",
	}, names)
	require.Len(t, prints, 3)
	require.NotContains(t, prints, uint64(0))
}

// Who makes an admitted request is not computed if only denials tell it.
func TestObserver_IsToldWhoIsCallingInEventsOfThoseOutcomes(t *testing.T) {
	long := strings.Repeat("long", 99)
	for _, c := range []struct {
		name         string
		fingerprints []httplimit.Outcome
		identities   []httplimit.Outcome
		want         string
	}{
		{"fingerprints of denials", []httplimit.Outcome{httplimit.Denied}, nil, "admitted - -; given back - -; admitted - -; failed - -; denied # -"},
		{"identities of denials", nil, []httplimit.Outcome{httplimit.Denied}, "admitted - -; given back - -; admitted - -; failed - -; denied - *"},
		{"of what Charge gives back", []httplimit.Outcome{httplimit.GivenBack}, []httplimit.Outcome{httplimit.GivenBack},
			"admitted - -; given back # *; admitted - -; failed - -; denied - -"},
		{"of a Charge that panics", []httplimit.Outcome{httplimit.Failed}, []httplimit.Outcome{httplimit.Failed},
			"admitted - -; given back - -; admitted - -; failed # *; denied - -"},
		{"of several", []httplimit.Outcome{httplimit.Admitted, httplimit.Denied}, []httplimit.Outcome{httplimit.Denied, httplimit.Failed},
			"admitted # -; given back - -; admitted # -; failed - *; denied # *"},
	} {
		for _, key := range []string{"key", long} {
			captureLog(t)
			var seen []string
			p := per("each", "", sash.PerHour(1).Log())
			p.Charge = func(status int) bool {
				if status == http.StatusAccepted {
					panic("of Charge")
				}
				return false
			}
			options := []httplimit.Option{p, httplimit.WithObserver(func(e httplimit.Event) {
				print, identity := "-", "-"
				if e.Fingerprint != 0 {
					print = "#"
				}
				if e.Identity == key {
					identity = "*"
				}
				seen = append(seen, e.Outcome.String()+" "+print+" "+identity)
			})}
			for _, o := range c.fingerprints {
				options = append(options, httplimit.WithEventFingerprints(o))
			}
			if len(c.identities) > 0 {
				options = append(options, httplimit.WithEventIdentities(c.identities...))
			}
			s := newSite(t, options...)
			status := http.StatusOK
			s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
			request := func() { s.do("GET /", "X-Key", key) }
			request() // given back
			status = http.StatusAccepted
			request() // stays charged, since Charge panics
			request()
			require.Equal(t, c.want, strings.Join(seen, "; "), c.name)
		}
	}
}

func TestObservers_AreCalledInOrder(t *testing.T) {
	var calls []string
	observer := func(name string) httplimit.Option {
		return httplimit.WithObserver(func(e httplimit.Event) { calls = append(calls, name+" "+e.Outcome.String()) })
	}
	p := per("each", "", sash.PerHour(1).Log())
	p.Charge = func(int) bool { return false }
	s := newSite(t, observer("first"), p, observer("second"), observer("third"))
	s.do("GET /", "X-Key", "a")
	require.Equal(t, []string{
		"first admitted", "second admitted", "third admitted",
		"first given back", "second given back", "third given back",
	}, calls)
}

func TestObservers_AfterOneThatPanicsMissTheEvent(t *testing.T) {
	var calls []string
	s := newSite(t, per("each", "", sash.PerHour(1).Log()),
		httplimit.WithObserver(func(httplimit.Event) { calls = append(calls, "first") }),
		httplimit.WithObserver(func(httplimit.Event) { panic("second") }),
		httplimit.WithObserver(func(httplimit.Event) { calls = append(calls, "third") }))
	captureLog(t)
	require.Equal(t, 500, s.do("GET /", "X-Key", "a").Code)
	require.Equal(t, []string{"first"}, calls)
}

func TestEventFields_MustBeOfOutcomes(t *testing.T) {
	_, err := httplimit.New(per("each", "", sash.PerHour(1)), httplimit.WithObserver(func(httplimit.Event) {}),
		httplimit.WithEventFingerprints(httplimit.Denied, 9), httplimit.WithEventIdentities(255))
	require.ErrorIs(t, err, sash.ErrInvalidOption)
	require.EqualError(t, err, "httplimit: WithEventFingerprints: no Outcome has the number 9: invalid option\n"+
		"httplimit: WithEventIdentities: no Outcome has the number 255: invalid option")
}

// Identities of any length that differ anywhere have different fingerprints.
func TestObserver_TellsAnyTwoIdentitiesApartByFingerprints(t *testing.T) {
	prints := make(map[uint64]string)
	var identity string
	s := newSite(t, httplimit.WithEventFingerprints(), httplimit.WithObserver(func(e httplimit.Event) { prints[e.Fingerprint] = identity }),
		httplimit.Policy{Name: "each", Limits: []sash.Limit{sash.PerHour(9)}, Key: httplimit.By(func(*http.Request) (string, bool) { return identity, true })})
	sent := 0
	for length := range 150 {
		same := strings.Repeat("\x00", length)
		for _, identity = range []string{same + "\x00", same + "b", "b" + same + "\x00"} {
			sent++
			s.do("GET /")
		}
	}
	require.Equal(t, sent, len(prints)) // a map in binary is no message
}

func TestOutcome_HasALabel(t *testing.T) {
	for o, want := range []string{"admitted", "denied", "withheld", "given back", "unidentified", "failed", "settled", "abandoned", "unseen", "unknown"} {
		require.Equal(t, want, httplimit.Outcome(o).String())
	}
}

func TestEvent_HasADecisionWhereAPolicyHasDecided(t *testing.T) {
	for o := httplimit.Admitted; o <= httplimit.Unseen; o++ {
		require.Equal(t, o == httplimit.Admitted || o == httplimit.Denied || o == httplimit.Withheld || o == httplimit.Abandoned, httplimit.Decided(o), o)
	}
	require.False(t, httplimit.Decided(httplimit.Unseen+1))
}

func TestObserver_SeesNothingOfSkippedRequests(t *testing.T) {
	p := per("each", "POST /", sash.PerHour(1))
	p.Skip = func(*http.Request) bool { return true }
	s := newSite(t, p, httplimit.WithObserver(func(httplimit.Event) { t.Error("called") }))
	s.do("POST /")
	s.do("GET /")
}

// A request without an identity has an event without a decision.
func TestEvent_OfAnyOutcomeMarshalsInJSON(t *testing.T) {
	var events []httplimit.Event
	s := newSite(t, per("all", "", sash.PerMinute(1)), httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }))
	s.do("GET /")
	s.codes(2, "GET /", "X-Key", "a")
	require.Len(t, events, 3)
	var outcomes []string
	for _, e := range events {
		text, err := json.Marshal(e)
		require.NoError(t, err, e.Outcome)
		var fields struct{ Outcome string }
		require.NoError(t, json.Unmarshal(text, &fields))
		outcomes = append(outcomes, fields.Outcome)
		var back httplimit.Event
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, e, back)
	}
	require.Equal(t, []string{"unidentified", "admitted", "denied"}, outcomes)
}

func TestOutcome_MarshalsByName(t *testing.T) {
	for o := httplimit.Admitted; o <= httplimit.Unseen; o++ {
		text, err := json.Marshal(map[httplimit.Outcome]httplimit.Outcome{o: o})
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf(`{"%v":"%v"}`, o, o), string(text))
		var back map[httplimit.Outcome]httplimit.Outcome
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, map[httplimit.Outcome]httplimit.Outcome{o: o}, back)
	}
	_, err := (httplimit.Unseen + 1).MarshalText()
	require.EqualError(t, err, "httplimit: no Outcome has the number 9")
	o := httplimit.Denied
	require.EqualError(t, o.UnmarshalText([]byte("unknown")),
		`httplimit: Outcome must be admitted, denied, withheld, given back, unidentified, failed, settled, abandoned or unseen, got "unknown"`)
	require.Equal(t, httplimit.Denied, o, "unchanged by an error")
}

// A charge whose policy fails may still change, by what its handler says. Its second event tells of the client
// what its outcome is to tell, whatever the first does.
func TestWithEventIdentities_OfASettlementAfterAFailure(t *testing.T) {
	var events []httplimit.Event
	p := per("api", "", sash.PerMinute(10).Log())
	p.Charge = func(int) bool { panic("of a test") }
	p.Settle = httplimit.SettleEstimate()
	s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e) }),
		httplimit.WithEventIdentities(httplimit.Settled), httplimit.WithEventFingerprints(httplimit.Settled))
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		httplimit.ChargeOf(r.Context(), "api").Add(2)
		w.WriteHeader(http.StatusOK)
	}
	require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
	require.Len(t, events, 3)
	require.Equal(t, httplimit.Failed, events[1].Outcome)
	require.Empty(t, events[1].Identity)
	require.Equal(t, httplimit.Settled, events[2].Outcome)
	require.Equal(t, "k", events[2].Identity)
	require.NotZero(t, events[2].Fingerprint)
}
