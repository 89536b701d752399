package httplimit_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// A modelTake is the share of one policy in a request.
type modelTake struct {
	*modelPolicy
	plan, shown string // shown is the identity
	key         string // in the table of package reference
	cost, leave int64
	limits      []sash.Limit // of the key, without what carries its debts
	own         bool         // whether the key was given limits of its own
	reservation reference.Reservation
	changes     bool         // whether the charge may change after the response
	crossed     []sash.Limit // by the charge
}

// holds reports whether the key of t holds units.
func (t *modelTake) holds() bool { return slices.ContainsFunc(t.limits, isHeld) }

// An expectation is what the model knows of an exchange.
type expectation struct {
	takes    []modelTake // of the enforced policies, then of the shadows
	enforced int
	outcome  httplimit.Outcome // Unidentified, Failed, or else Admitted
	missed   []httplimit.Event // of the shadows that cannot decide it
	began    bool              // whether its takes are known
	waits    bool              // whether it waited when the model last looked
	decided  bool              // whether the model has dealt with its decision
	settled  bool              // and with its response
	charged  bool              // whether it was admitted
	overtook map[string]bool   // keys under which later requests were admitted while it waited
}

func (e *expectation) enforcedTakes() []modelTake { return e.takes[:e.enforced] }

// queues reports whether a policy of an exchange has a Queue.
func (e *expectation) queues() bool {
	return slices.ContainsFunc(e.enforcedTakes(), func(t modelTake) bool { return t.Queue.Wait > 0 })
}

// begin finds out which policies x has, and what it costs under each.
func (m *model) begin(x *exchange) {
	e := &x.expected
	*e = expectation{began: true, outcome: httplimit.Admitted, waits: e.waits, overtook: map[string]bool{}}
	for _, shadow := range []bool{false, true} {
		for _, p := range m.policies {
			if p.Shadow != shadow || !m.matches(p.Pattern, x) {
				continue
			}
			t, outcome, skipped := m.take(p, x.request)
			switch {
			case skipped:
			case outcome == httplimit.Admitted:
				e.takes = append(e.takes, t)
			case shadow:
				e.missed = append(e.missed, p.event(outcome))
			default:
				*e = expectation{began: true, outcome: outcome, waits: e.waits, missed: []httplimit.Event{p.event(outcome)}}
				return
			}
		}
		if !shadow {
			e.enforced = len(e.takes)
		}
	}
}

// event returns an event of p without a decision.
func (p *modelPolicy) event(outcome httplimit.Outcome) httplimit.Event {
	return httplimit.Event{Policy: p.Name, Pattern: p.Pattern, Shadow: p.Shadow, Outcome: outcome}
}

// take asks the functions of p.
func (m *model) take(p *modelPolicy, r *http.Request) (t modelTake, outcome httplimit.Outcome, skipped bool) {
	fails := func(function string) bool { return r.Header.Get("X-Panic") == p.Name+" "+function }
	switch {
	case p.Skip != nil && fails("Skip"), p.Plan != nil && fails("Plan") && !p.skips(r):
		return t, httplimit.Failed, false
	case p.skips(r):
		return t, 0, true
	case fails("Key") && !p.everyone:
		return t, httplimit.Failed, false
	}
	t = modelTake{modelPolicy: p, cost: 1, limits: p.Limits}
	var ok bool
	if t.shown, ok = p.identity(r); !ok {
		return t, httplimit.Unidentified, false
	}
	if p.Cost != nil {
		if fails("Cost") {
			return t, httplimit.Failed, false
		}
		t.cost = headerCost(r)
	}
	if p.Leave != nil {
		if fails("Leave") {
			return t, httplimit.Failed, false
		}
		t.leave = max(p.leaves(r), 0)
	}
	if p.Plan != nil {
		if limits, named := p.Plans[r.Header.Get("X-Plan")]; named {
			t.plan, t.limits = r.Header.Get("X-Plan"), limits
		}
	}
	t.key = strings.Join([]string{p.id, t.plan, t.shown}, "\x00")
	m.learnName(t.key, p, r)
	t.limits = m.know(&t, r)
	t.changes = p.Charge != nil || p.ChargeUncertain != nil || p.Settle != nil
	return t, httplimit.Admitted, false
}

// learnName asks by which name the limiter knows a key of the table, which the client that sends r has
// under p. The parts of the key begin at instants that follow from that name.
func (m *model) learnName(key string, p *modelPolicy, r *http.Request) {
	if m.limiterNames[key] != "" {
		return
	}
	name, ok := m.limiter.KeyFor(p.Name, withoutPanic(r))
	if !ok {
		m.failf("KeyFor does not know a client of %s", p.Name)
	}
	m.limiterNames[key] = name
}

// withoutPanic returns r without what lets functions of policies panic.
func withoutPanic(r *http.Request) *http.Request {
	r = r.Clone(r.Context())
	r.Header.Del("X-Panic")
	return r
}

func (p *modelPolicy) skips(r *http.Request) bool {
	return p.Skip != nil && strings.Contains(r.Header.Get("X-Skip"), p.Name)
}

// A knownKey is a key that requests have had.
type knownKey struct {
	policy  string
	request *http.Request // one that has it
	take    modelTake
}

// know returns the limits of the key of t, and begins to keep it.
func (m *model) know(t *modelTake, r *http.Request) []sash.Limit {
	if m.keys[t.key] == nil {
		t.own = m.ownLimits != nil && !t.opaque && len(t.shown) <= 128 && m.hasOwnLimits(t.shown)
		if t.own {
			t.limits = m.ownLimits
		}
		m.keys[t.key] = &knownKey{policy: t.Name, request: withoutPanic(r), take: *t}
		m.names = append(m.names, t.key)
		m.setLimits(t.key, t.limits)
	}
	t.own = m.keys[t.key].take.own
	return m.keys[t.key].take.limits
}

// setLimits sets the limits of a key in the table of package reference.
func (m *model) setLimits(key string, limits []sash.Limit) {
	k := m.keys[key]
	k.take.limits = limits
	if !k.take.own && k.take.Settle != nil {
		buckets, _ := debtBuckets(limits)
		limits = append(slices.Clone(limits), buckets...)
	}
	var made []reference.Limit
	for _, l := range limits {
		made = append(made, referenceLimit(l, m.chargesDenied))
	}
	m.table.SetLimitsAt(m.clock.Now(), key, made)
}

// hasOwnLimits reports whether sash.WithLimitsFor gives limits to a key with that text.
func (m *model) hasOwnLimits(key string) bool { return strings.Contains(key, "carl") }

func isUnlimited(limits []sash.Limit) bool {
	return !slices.ContainsFunc(limits, func(l sash.Limit) bool { return l != sash.Unlimited() })
}

// admits reports whether the key of t admits n units at an instant.
func (m *model) admits(t *modelTake, at, n int64) bool {
	return m.leaving(t).Consider(at, n, t.key).Allowed
}

// leaving returns the table for calls that leave what t must.
func (m *model) leaving(t *modelTake) *reference.Table { return m.table.Leaving(t.leave) }

// A wantedEvent is an event that the observers must have been told.
type wantedEvent struct {
	httplimit.Event
	take      *modelTake
	verdict   *reference.Verdict // on the decision; nil: any
	closedOut bool               // it may tell that the limiter is closed
	anyNear   bool               // it may tell any crossing
	// outcomes are those that it may have; nil: only its own. It may then tell that a queue is full.
	outcomes []httplimit.Outcome
}

// charge charges x at an instant to all enforced policies, or to none. It takes policies of one cost
// together.
func (m *model) charge(x *exchange, at int64) (allowed bool, verdict reference.Verdict) {
	takes := x.expected.enforcedTakes()
	var done []*modelTake
	for i := range takes {
		if slices.Contains(done, &takes[i]) {
			continue
		}
		var keys []string
		var group []*modelTake
		leaves := map[string]int64{}
		for j := i; j < len(takes); j++ {
			if takes[j].cost == takes[i].cost {
				keys, group = append(keys, takes[j].key), append(group, &takes[j])
				leaves[takes[j].key] = takes[j].leave
			}
		}
		had := make([][]bool, len(group))
		for j, t := range group {
			had[j] = m.hasNear(t, at)
		}
		reservations, v := m.table.LeavingOf(leaves).DecideReserve(at, takes[i].cost, keys...)
		for j, t := range group {
			t.crossed = m.crossedSince(t, at, had[j])
		}
		if verdict = v; !v.Allowed {
			for _, t := range done {
				m.table.Settle(at, t.reservation, 0)
			}
			return false, verdict
		}
		for j, t := range group {
			t.reservation = reservations[j]
		}
		done = append(done, group...)
	}
	return true, verdict
}

// expectDecision applies the decision on x to the table, and returns the events that must have come of
// it. whole is the verdict on the whole request.
func (m *model) expectDecision(x *exchange, at int64) (want []wantedEvent) {
	e := &x.expected
	for _, missed := range e.missed {
		want = append(want, wantedEvent{Event: missed})
	}
	if e.outcome != httplimit.Admitted {
		return want
	}
	allowed, whole := m.charge(x, at)
	if allowed != x.admitted {
		m.failf("exchange %d: admitted: %t, want %t%s", x.number, x.admitted, allowed, m.explain(x, at))
	}
	e.charged = allowed
	for i := range e.takes {
		want = append(want, m.expectTake(x, i, at, allowed, &whole))
	}
	return want
}

// expectTake returns the event of one policy.
func (m *model) expectTake(x *exchange, i int, at int64, allowed bool, whole *reference.Verdict) wantedEvent {
	e := &x.expected
	t := &e.takes[i]
	w := wantedEvent{Event: t.event(httplimit.Admitted), take: t, verdict: whole}
	w.Cost, w.Leave = t.cost, t.leave
	var own reference.Verdict
	switch shadow := i >= e.enforced; {
	case shadow && allowed:
		had := m.hasNear(t, at)
		reservations, v := m.leaving(t).DecideReserve(at, t.cost, t.key)
		t.reservation, own, t.crossed = reservations[0], v, m.crossedSince(t, at, had)
	case shadow, !allowed:
		own = m.leaving(t).Consider(at, t.cost, t.key)
	default:
		own = m.table.Consider(at, 0, t.key)
		own.Allowed = true
	}
	if e.enforced != 1 || i >= e.enforced {
		w.verdict = &own
	}
	switch {
	case !own.Allowed:
		w.Outcome = httplimit.Denied
		t.changes = t.changes && !t.Shadow
	case !allowed:
		w.Outcome = httplimit.Withheld
	default:
		w.Near = t.crossed
		m.bill(t, t.cost)
	}
	return w
}

// explain tells what each policy of x says.
func (m *model) explain(x *exchange, at int64) (text string) {
	for i := range x.expected.takes {
		t := &x.expected.takes[i]
		text += fmt.Sprintf("\n\t%s %q costs %d and leaves %d: admits %t", t.Name, t.shown, t.cost, t.leave, m.admits(t, at, t.cost))
	}
	return text
}

// expectSettled applies the response to x to the table, and returns the events that must have come of
// it.
func (m *model) expectSettled(x *exchange, r httplimit.Response, unseen bool, at int64) (want []wantedEvent) {
	for i := range x.expected.takes {
		t := &x.expected.takes[i]
		if t.holds() && !t.changes {
			m.table.Settle(at, t.reservation, t.cost) // which a denied shadow has not
		}
		if !t.changes {
			continue
		}
		r.Estimate = t.cost
		cost, failed := m.cost(x, t, r)
		s := x.did.said[t.Name]
		said := s.whole && t.Settle != nil
		if said {
			cost, failed = max(s.cost, 0), false
		}
		if t.Settle != nil {
			cost = saturate(cost, s.more)
		}
		cost = max(cost, 0)
		w := wantedEvent{Event: t.event(httplimit.Failed), take: t}
		w.Cost, w.Leave = t.cost, t.leave
		if failed {
			want = append(want, w)
		}
		w.Estimate = t.cost
		had := m.hasNear(t, at)
		m.table.Settle(at, t.reservation, cost)
		w.Near = m.crossedSince(t, at, had)
		m.bill(t, min(cost, tally.MostUnits)-t.cost)
		switch {
		case cost == t.cost && unseen && !said:
			w.Outcome = httplimit.Unseen
		case cost == t.cost:
			continue
		case cost == 0:
			w.Outcome = httplimit.GivenBack
		default:
			w.Outcome, w.Cost = httplimit.Settled, cost
		}
		want = append(want, w)
	}
	return want
}

// saturate returns a + b.
func saturate(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// cost returns what x has cost under the policy of t, unless its handler says otherwise.
func (m *model) cost(x *exchange, t *modelTake, r httplimit.Response) (cost int64, failed bool) {
	defer func() {
		if recover() != nil { // a function of the policy
			cost, failed = t.cost, true
		}
	}()
	stays := t.Charge
	if r.Uncertain {
		stays = t.ChargeUncertain
	}
	if stays != nil && !stays(r.Status) {
		return 0, false
	}
	if t.Settle == nil || r.Status == http.StatusSwitchingProtocols {
		return t.cost, false
	}
	for _, f := range settleFunctions {
		if f.name == t.settleName {
			cost = f.answer(x, &r)
		}
	}
	if cost < 0 || r.Uncertain && cost < t.cost {
		return t.cost, false
	}
	return cost, false
}

// responseOf returns the response of the handler of x, as far as it is known.
func responseOf(x *exchange) (r httplimit.Response, unseen bool) {
	did := &x.did
	returned := !did.panicked
	status := did.status
	if status == 0 && returned && !x.foreign && !did.gone {
		status = http.StatusOK // net/http answers so
	}
	sent := did.bytes
	if x.method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		sent = 0
	}
	intact := returned && !did.failed && !did.gone
	return httplimit.Response{Status: status, Bytes: sent, Header: did.header, Uncertain: !intact || status == 0}, intact && status == 0
}
