package httplimit_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"testing/synctest"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// settle waits until nothing moves, and compares what has happened with what should have.
func (m *model) settle() {
	m.sleep(0)
	if m.store != nil {
		m.sleep(5 * time.Millisecond) // requests that wait ask a store a millisecond later
	}
	for _, c := range m.clients {
		if !c.gone {
			c.receive()
		}
	}
	m.compare()
	m.checkWaiting()
	m.audit()
}

// sleep lets time pass, and then waits until nothing moves. What the model has done until now comes
// before all that happens meanwhile. The lock orders them: noting an event locks mu, too.
func (m *model) sleep(d time.Duration) {
	m.mu.Lock()
	//lint:ignore SA2001 the order is all that matters
	m.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
}

// A happening is a decision on an exchange, or its settlement.
type happening struct {
	*exchange
	moment
	settles bool
}

// happenings returns what has happened since the last time, in order.
func (m *model) happenings() (all []happening) {
	for _, x := range m.exchanges {
		e := &x.expected
		if x.request != nil && !e.began {
			m.begin(x)
		}
		if x.decided.order > 0 && !e.decided {
			all = append(all, happening{x, x.decided, false})
		}
		if x.settled.order > 0 && !e.settled {
			all = append(all, happening{x, x.settled, true})
		}
	}
	slices.SortFunc(all, func(a, b happening) int { return a.order - b.order })
	return all
}

// compare applies what has happened to the table of package reference, and compares the two.
func (m *model) compare() {
	all := m.happenings()
	exact := isOrdered(all)
	if m.store != nil {
		m.store.checkReserved()
	}
	var want []wantedEvent
	for _, h := range all {
		if h.settles {
			h.expected.settled = true
			want = append(want, m.settled(h.exchange, h.at)...)
			continue
		}
		h.expected.decided = true
		want = append(want, m.decided(h.exchange, h.at, exact)...)
		h.expected.waits = false
	}
	if !exact {
		for i := range want {
			want[i].verdict, want[i].anyNear = nil, true
		}
	}
	m.mu.Lock()
	got := m.events
	m.events = nil
	m.mu.Unlock()
	if m.observed {
		m.compareEvents(want, got)
		m.checkTally()
	}
}

// isOrdered reports whether all happened one after the other, as far as anything depends on it: no
// request that has waited was decided while others were.
func isOrdered(all []happening) bool {
	waited, decisions, settled := false, 0, map[*modelClient]bool{}
	for _, h := range all {
		if h.settles {
			settled[h.client] = true
			continue
		}
		decisions++
		waited = waited || h.expected.waits
	}
	return !waited || decisions == 1 && len(all) <= 2
}

// settled applies the response of x.
func (m *model) settled(x *exchange, at int64) []wantedEvent {
	if !x.expected.charged {
		return nil
	}
	r, unseen := responseOf(x)
	if x.answer != nil {
		r, unseen = *x.answer, false
	}
	for name, estimate := range x.did.estimates {
		if i := slices.IndexFunc(x.expected.takes, func(t modelTake) bool { return t.Name == name }); i >= 0 && estimate != 0 && estimate != x.expected.takes[i].cost {
			m.failf("exchange %d: its estimate under %s is %d, want %d", x.number, name, estimate, x.expected.takes[i].cost)
		}
	}
	return m.withWait(x, m.expectSettled(x, r, unseen, at))
}

// decided applies the decision on x.
func (m *model) decided(x *exchange, at int64, exact bool) (want []wantedEvent) {
	e := &x.expected
	waited := e.waits
	switch {
	case e.outcome == httplimit.Admitted && !x.admitted && (e.queues() || waited):
		want = m.expectRefusal(x, at, exact)
	default:
		if exact && x.admitted {
			m.checkOvertaking(x, at)
		}
		want = m.expectDecision(x, at)
	}
	if exact && !(waited && !x.admitted) {
		m.checkHeader(x, at)
	}
	if exact || !m.closed {
		m.checkStatus(x)
	}
	return m.withWait(x, want)
}

// withWait adds to events how long x has waited.
func (m *model) withWait(x *exchange, want []wantedEvent) []wantedEvent {
	for i := range want {
		w := &want[i]
		w.Waited = time.Duration(x.decided.at - x.arrived.at)
		if m.store != nil && w.take != nil {
			w.By = "store"
		}
	}
	return want
}

// compareEvents compares the events that came with those that should have come.
func (m *model) compareEvents(want []wantedEvent, got []httplimit.Event) {
	matched, unexpected := match(len(want), len(got), func(w, e int) bool { return m.isWanted(&want[w], got[e]) })
	if unexpected >= 0 {
		m.failf("event %+v was not expected, but\n%s", got[unexpected], describeEvents(want))
	}
	for i := range want {
		w := &want[i]
		if matched[i] < 0 {
			m.failf("no event\n%s", describeEvents(want[i:i+1]))
		}
		e := got[matched[i]]
		m.checkIdentity(w.take, e)
		if e.Fingerprint == 0 || slices.ContainsFunc(want, func(o wantedEvent) bool { return o.client() != w.client() && m.isWanted(&o, e) }) {
			continue // it may be an event of another client
		}
		if print, known := m.prints[w.client()]; known && print != e.Fingerprint {
			m.failf("event %+v has another fingerprint than %d", e, print)
		}
		m.prints[w.client()] = e.Fingerprint
	}
}

// match gives each event one that was wanted, if there is a way to: several may fit. It returns the
// event of each that was wanted, -1 for none, and an event for which there is none left, -1 if there is
// no such event.
func match(wanted, events int, fits func(w, e int) bool) (eventOf []int, unexpected int) {
	eventOf = slices.Repeat([]int{-1}, wanted)
	var tried []bool
	var give func(e int) bool
	give = func(e int) bool {
		for w := range eventOf {
			if tried[w] || !fits(w, e) {
				continue
			}
			tried[w] = true
			if eventOf[w] < 0 || give(eventOf[w]) { // the event that had w gets another one
				eventOf[w] = e
				return true
			}
		}
		return false
	}
	for e := range events {
		if tried = make([]bool, wanted); !give(e) {
			return eventOf, e
		}
	}
	return eventOf, -1
}

// describeEvents tells the events that should have come.
func describeEvents(all []wantedEvent) (text string) {
	for _, w := range all {
		text += fmt.Sprintf("\t%+v", w.Event)
		if w.verdict != nil {
			text += fmt.Sprintf(" %+v", w.verdict.Answer())
		}
		text += "\n"
	}
	return text
}

// isWanted reports whether e is the event w.
func (m *model) isWanted(w *wantedEvent, e httplimit.Event) bool {
	d, fingerprint := e.Decision, e.Fingerprint
	print, known := m.prints[w.client()]
	if w.take != nil && !w.take.opaque && e.Identity != "" && e.Identity != w.take.shown {
		return false
	}
	e.Decision, e.Fingerprint, e.Identity = sash.Decision{}, 0, ""
	if slices.Contains(w.outcomes, e.Outcome) {
		e.Outcome = w.Outcome
	}
	if w.take != nil && w.take.Queue.Wait > 0 && e.Outcome != httplimit.Admitted {
		e.QueueFull = false // whether it is right is checked with the refusal
	}
	if w.closedOut && e.Err == http.ErrServerClosed {
		e.Err = nil
	}
	if w.anyNear {
		e.Near = w.Near
	}
	if e.Err != nil || !reflect.DeepEqual(e, w.Event) || known && fingerprint != 0 && fingerprint != print {
		return false
	}
	for name, print := range m.prints {
		if print == fingerprint && name != w.client() {
			return false
		}
	}
	if !httplimit.Decided(w.Outcome) {
		return d == sash.Decision{}
	}
	return w.verdict == nil || w.take == nil || m.confirms(*w.verdict, w.take, w.take.toldLimits(), d)
}

// confirms reports whether d is the decision of v on the key of t, where names are what its limits are told by.
func (m *model) confirms(v reference.Verdict, t *modelTake, names []sash.Limit, d sash.Decision) bool {
	if isUnlimited(t.limits) {
		return d.Allowed == (t.cost >= 0)
	}
	for place, name := range names {
		if name == d.Limit && v.Confirms(answerOf(d, t, place)) {
			return true
		}
	}
	return false
}

// answerOf returns d, by the limit at that place, as package reference has it.
func answerOf(d sash.Decision, t *modelTake, place int) reference.Answer {
	return reference.Answer{
		Allowed: d.Allowed, Remaining: d.Remaining, RetryAfter: int64(d.RetryAfter), ResetAfter: int64(d.ResetAfter),
		Deciding: place, DecidingKey: t.key,
	}
}

// checkIdentity checks what an event tells of the client.
func (m *model) checkIdentity(t *modelTake, e httplimit.Event) {
	named := func(outcomes []httplimit.Outcome) bool {
		return t != nil && outcomes != nil && (len(outcomes) == 0 || slices.Contains(outcomes, e.Outcome))
	}
	if named(m.identities) {
		if !t.opaque && e.Identity != t.shown {
			m.failf("the identity is %q, want %q", e.Identity, t.shown)
		}
	} else if e.Identity != "" {
		m.failf("event %+v tells the identity", e)
	}
	if named(m.fingerprints) != (e.Fingerprint != 0) {
		m.failf("event %+v has a wrong fingerprint", e)
	}
}

// client returns whom the event is about; empty if it tells of none. Events of one instant may be
// alike but for the client. One is known by its fingerprint, once that was seen without doubt.
func (w *wantedEvent) client() string {
	switch {
	case w.take == nil:
		return ""
	case w.take.opaque:
		return "address " + w.take.shown
	}
	return w.take.shown
}

// realKey returns the key of the limiter for a key of the table. ok is false if its policy is gone.
func (m *model) realKey(key string) (real string, ok bool) {
	k := m.keys[key]
	if !slices.ContainsFunc(m.policies, func(p *modelPolicy) bool { return p.id == k.take.id }) {
		return "", false
	}
	real, ok = m.limiter.KeyFor(k.policy, k.request)
	if !ok {
		m.failf("KeyFor does not know %q", key)
	}
	policy, identity, known := m.limiter.ParseKey(real)
	if long := len(k.take.shown) > 128; known == long || known && (policy != k.policy || !k.take.opaque && identity != k.take.shown) {
		m.failf("ParseKey(%q) is %q, %q, %t", real, policy, identity, known)
	}
	return real, true
}

// peek asks the limiter.
func (m *model) peek(key string, n int64) sash.Decision {
	real, ok := m.realKey(key)
	switch {
	case !ok:
		return sash.Decision{}
	case m.store != nil:
		return m.store.Limiter.Peek(real, n)
	}
	return m.limiter.Sash().Peek(real, n)
}

// audit compares a key with the table of package reference.
func (m *model) audit() {
	if len(m.names) > 0 {
		m.auditKey(pick(m.random, m.names))
	}
}

func (m *model) auditKey(key string) {
	if _, ok := m.realKey(key); !ok {
		return
	}
	n := m.random.Int64N(4)
	now, d, t := m.clock.Now(), m.peek(key, n), m.keys[key].take
	t.cost = n
	v := m.table.Consider(now, n, key)
	if !m.confirms(v, &t, t.allLimits(), d) {
		m.failf("key %q at %v: %d units: %+v, want %+v", key, time.Duration(now), n, d, v.Answer())
	}
}

// finish ends the program: every request is answered, and all keys are compared.
func (m *model) finish() {
	m.random = m.randomOf(m.step)
	isPaused := func(x *exchange) bool { return x.did.paused }
	for i := slices.IndexFunc(m.exchanges, isPaused); i >= 0; i = slices.IndexFunc(m.exchanges, isPaused) {
		m.exchanges[i].goOn()
		m.settle()
	}
	for _, c := range m.clients {
		m.checkReplies(c)
	}
	for _, key := range m.names {
		m.auditKey(key)
	}
	if m.store != nil {
		m.store.checkOpen()
	}
	if seen := m.seen.Load(); seen != m.told {
		m.failf("the second observer was told %d events, want %d", seen, m.told)
	}
}

// checkReplies compares what a client has received with what the server has sent.
func (m *model) checkReplies(c *modelClient) {
	for _, r := range c.replies() {
		x := r.exchange
		if x.request == nil {
			continue // the server has not read it
		}
		if x.admitted && r.bytes > x.did.bytes {
			m.failf("exchange %d: the client has %d bytes, of %d", x.number, r.bytes, x.did.bytes)
		}
		if r.response == nil {
			continue
		}
		want := x.status
		if x.admitted {
			want = x.did.wrote
		}
		if want != 0 && r.response.StatusCode != want {
			m.failf("exchange %d: the status is %d, want %d", x.number, r.response.StatusCode, want)
		}
		if whole := r.bytes == r.response.ContentLength && x.method != http.MethodHead; whole && !x.admitted && r.response.StatusCode == http.StatusTooManyRequests {
			m.checkProblem(x, r.response.Header, r.body)
		}
		for _, name := range []string{"Ratelimit", "Ratelimit-Policy", "Retry-After", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
			if got, want := r.response.Header[name], x.header[name]; !slices.Equal(got, want) {
				m.failf("exchange %d: %s is %q, want %q", x.number, name, got, want)
			}
		}
	}
}

// checkStatus finds out by which status x must be refused.
func (m *model) checkStatus(x *exchange) {
	e := &x.expected
	want := 0
	switch {
	case e.outcome == httplimit.Unidentified:
		want = m.unidentifiedBy
	case e.outcome == httplimit.Failed:
		want = http.StatusInternalServerError
	case !x.admitted && m.closed && x.left:
		// Whether its client left before it was refused makes the difference.
	case !x.admitted:
		want = m.deniedBy
		if x.closedOut && m.deniedBy == http.StatusTooManyRequests {
			want = http.StatusServiceUnavailable
		}
	}
	if x.verdict != nil && want != 0 && x.status != want {
		m.failf("exchange %d: Refuse has answered %d, want %d", x.number, x.status, want)
	}
	x.status = want
}
