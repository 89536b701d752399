package httplimit_test

import (
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// isWaiting reports whether the middleware has x, and has not decided it.
func isWaiting(x *exchange) bool { return x.request != nil && x.decided.order == 0 }

// until returns how long x may wait: the least Wait of its policies.
func until(x *exchange) int64 {
	least := time.Duration(0)
	for _, t := range x.expected.enforcedTakes() {
		if t.Queue.Wait > 0 && (least == 0 || t.Queue.Wait < least) {
			least = t.Queue.Wait
		}
	}
	return x.arrived.at + int64(least)
}

// checkWaiting checks that each request that waits has a reason to.
func (m *model) checkWaiting() {
	now := m.clock.Now()
	waiting := 0
	for _, x := range m.exchanges {
		if isWaiting(x) {
			waiting++
		}
	}
	for _, x := range m.exchanges {
		x.inCrowd.Store(isWaiting(x) && waiting > 1)
		if !isWaiting(x) {
			x.expected.waits = false
			continue
		}
		if m.closed {
			m.failf("exchange %d waits, though the limiter is closed", x.number)
		}
		began := !x.expected.waits
		x.expected.waits = true
		switch {
		case x.ctx.Err() != nil:
			m.failf("exchange %d waits, though its client has gone", x.number)
		case now > until(x):
			m.failf("exchange %d waits for too long", x.number)
		case !m.isHeld(x, now) && (m.store == nil || !m.store.askedLately(x, now)):
			m.failf("exchange %d waits for nothing%s", x.number, m.explain(x, now))
		case began && m.store == nil && now == x.arrived.at && m.isHopeless(x, now):
			m.failf("exchange %d waits in vain%s", x.number, m.explain(x, now))
		}
	}
	m.checkRoom()
}

// isBefore reports whether x has its turn before other: it leaves less, or as much and came earlier.
func isBefore(x, other *exchange) bool {
	if a, b := mostToLeave(x), mostToLeave(other); a != b {
		return a < b
	}
	return x.arrived.order < other.arrived.order
}

// mostToLeave returns the most units that x must leave under a policy with a Queue.
func mostToLeave(x *exchange) (most int64) {
	for _, t := range x.expected.enforcedTakes() {
		if t.Queue.Wait > 0 {
			most = max(most, t.leave)
		}
	}
	return most
}

// isHeld reports whether one of x's own policies denies it, or an earlier request goes first.
func (m *model) isHeld(x *exchange, now int64) bool {
	takes := x.expected.enforcedTakes()
	if slices.ContainsFunc(takes, func(t modelTake) bool { return !m.admits(&t, now, t.cost) }) {
		return true
	}
	for _, earlier := range m.exchanges {
		if earlier != x && isWaiting(earlier) && isBefore(earlier, x) {
			for i := range takes {
				if takes[i].Queue.Wait > 0 && m.goesFirst(earlier, &takes[i], now) {
					return true
				}
			}
		}
	}
	return false
}

// goesFirst reports whether a request that waits holds up others under the key of t: whether t denies
// it, or it waits for faster policies only.
func (m *model) goesFirst(x *exchange, t *modelTake, now int64) bool {
	shares, denied := false, false
	for i := range x.expected.enforcedTakes() {
		own := &x.expected.takes[i]
		shares = shares || own.key == t.key
		denied = denied || pace(own) <= pace(t) && !m.admits(own, now, own.cost)
	}
	return shares && denied
}

// pace is the longest window of a policy.
func pace(t *modelTake) (longest time.Duration) {
	limits := t.Limits
	if t.plan != "" {
		limits = t.Plans[t.plan]
	}
	for _, l := range limits {
		longest = max(longest, l.Window)
	}
	return longest
}

// isHopeless reports whether x is sure to be refused in the end.
func (m *model) isHopeless(x *exchange, now int64) bool {
	return slices.ContainsFunc(x.expected.enforcedTakes(), func(t modelTake) bool {
		if m.admits(&t, now, t.cost) {
			return false
		}
		least := m.leaving(&t).Foresee(now, t.cost, t.key).LeastWait()
		return t.Queue.Wait == 0 || least > until(x)-now
	})
}

// checkOvertaking checks that x, which is admitted, has not overtaken a request that could go first.
// Requests that start over, as policies are replaced, mostly keep their places, but not always. A
// request that another policy has held back until this instant may come too late for its turn.
func (m *model) checkOvertaking(x *exchange, at int64) {
	if m.reconfigured == m.step {
		return
	}
	for _, earlier := range m.exchanges {
		if earlier == x || !isWaiting(earlier) || !earlier.expected.waits || isBefore(x, earlier) {
			continue
		}
		for i := range x.expected.enforcedTakes() {
			t := &x.expected.takes[i]
			shares := slices.ContainsFunc(earlier.expected.enforcedTakes(), func(own modelTake) bool { return own.key == t.key })
			if t.Queue.Wait > 0 && shares && !m.isHeld(earlier, at) && !m.heldApart(earlier, x, at-1) {
				m.failf("exchange %d overtakes exchange %d", x.number, earlier.number)
			}
		}
	}
}

// heldApart reports whether a policy denies x that does not count it together with other.
func (m *model) heldApart(x, other *exchange, at int64) bool {
	return slices.ContainsFunc(x.expected.enforcedTakes(), func(t modelTake) bool {
		shares := slices.ContainsFunc(other.expected.enforcedTakes(), func(own modelTake) bool { return own.key == t.key })
		return !shares && !m.admits(&t, at, t.cost)
	})
}

// checkRoom checks that no queue has more requests than it may. Only those that can be in no other
// queue are counted.
func (m *model) checkRoom() {
	all, each, ofClient := map[string]int{}, map[string]int{}, map[[2]string]int{}
	for _, x := range m.exchanges {
		t, alone := onlyQueue(x)
		if !isWaiting(x) || !alone {
			continue
		}
		all[t.Name]++
		each[t.key]++
		if all[t.Name] > t.Queue.Requests || t.Queue.RequestsEach > 0 && each[t.key] > t.Queue.RequestsEach {
			m.failf("%d requests wait under %s, %d of them for one key", all[t.Name], t.Name, each[t.key])
		}
		for _, own := range x.expected.enforcedTakes() {
			client := [2]string{t.Name, own.key}
			if ofClient[client]++; own.isClient(&t) && ofClient[client] > placesPerClient(&t) {
				m.failf("%d requests of %q under %s wait under %s", ofClient[client], own.shown, own.Name, t.Name)
			}
		}
	}
}

// onlyQueue returns the take of x that has a Queue, and whether it has exactly one.
func onlyQueue(x *exchange) (t modelTake, alone bool) {
	for _, own := range x.expected.enforcedTakes() {
		if own.Queue.Wait > 0 {
			t, alone = own, t.modelPolicy == nil
		}
	}
	return t, alone
}

// isClient reports whether t tells clients apart in the queue of another take.
func (t *modelTake) isClient(queue *modelTake) bool { return !t.everyone && t.key != queue.key }

// placesPerClient returns how many requests of a client may wait in the queue of t.
func placesPerClient(t *modelTake) int {
	if t.Queue.RequestsPerClient == 0 {
		return t.Queue.Requests - t.Queue.Requests/2
	}
	return t.Queue.RequestsPerClient
}

// expectRefusal checks that x, which might have waited or has, was refused rightly, and returns the
// events that must have come of it.
func (m *model) expectRefusal(x *exchange, at int64, exact bool) (want []wantedEvent) {
	may := m.mayRefuse(x, at)
	x.closedOut = m.closed && !x.left && !may
	if exact && !x.left && !may && !m.closed {
		m.failf("exchange %d is refused%s", x.number, m.explain(x, at))
	}
	for _, missed := range x.expected.missed {
		want = append(want, wantedEvent{Event: missed})
	}
	// If its client has gone, the decisions are of an earlier instant. If none of its policies
	// denies it, one of them does for the requests before it.
	loose := !exact || x.left || !slices.ContainsFunc(x.expected.enforcedTakes(), func(t modelTake) bool { return !m.admits(&t, at, t.cost) })
	for i := range x.expected.takes {
		t := &x.expected.takes[i]
		v := m.leaving(t).Consider(at, t.cost, t.key)
		w := wantedEvent{Event: t.event(httplimit.Denied), take: t, verdict: &v}
		w.closedOut = m.closed && (x.closedOut || !exact || x.left)
		if w.Cost, w.Leave = t.cost, t.leave; v.Allowed {
			w.Outcome = httplimit.Withheld
		}
		if loose {
			w.verdict, w.outcomes = nil, []httplimit.Outcome{httplimit.Denied, httplimit.Withheld}
			if x.left && !t.Shadow {
				w.outcomes = append(w.outcomes, httplimit.Abandoned)
			}
		}
		want = append(want, w)
	}
	return want
}

// mayRefuse reports whether x may be refused: it is hopeless, or its time is over, or a queue is full.
func (m *model) mayRefuse(x *exchange, at int64) bool {
	return at >= until(x) || m.isHopeless(x, at) || m.isFull(x)
}

// isFull reports whether there is no room for x in one of its queues.
func (m *model) isFull(x *exchange) bool {
	for _, t := range x.expected.enforcedTakes() {
		all, each, ofClient := 0, 0, 0
		for _, other := range m.exchanges {
			if other == x || !other.expected.waits {
				continue
			}
			for _, own := range other.expected.enforcedTakes() {
				if own.Name == t.Name {
					all++
					if m.shareClient(x, other, &t) {
						ofClient++
					}
				}
				if own.key == t.key {
					each++
				}
			}
		}
		q := t.Queue
		if q.Wait > 0 && (all >= q.Requests || q.RequestsEach > 0 && each >= q.RequestsEach || ofClient >= placesPerClient(&t)) {
			return true
		}
	}
	return false
}

// shareClient reports whether two requests have the same identity under another policy than t's.
func (m *model) shareClient(x, other *exchange, t *modelTake) bool {
	for _, a := range x.expected.enforcedTakes() {
		for _, b := range other.expected.enforcedTakes() {
			if a.key == b.key && a.isClient(t) {
				return true
			}
		}
	}
	return false
}

// reconfigureTo replaces the policies, and the limits of keys in the store before a request that starts over asks it.
func (m *model) reconfigureTo(policies []httplimit.Policy) error {
	if m.store == nil {
		return m.limiter.Reconfigure(policies...)
	}
	m.store.mu.Lock()
	defer m.store.mu.Unlock()
	err := m.limiter.Reconfigure(policies...)
	m.store.follow()
	return err
}

// replace replaces the policies. Requests that wait start over.
func (m *model) replace(next []*modelPolicy) string {
	var policies []httplimit.Policy
	for _, p := range next {
		policies = append(policies, p.Policy)
	}
	if err := m.reconfigureTo(policies); err != nil {
		m.failf("Reconfigure: %v", err)
	}
	for _, key := range slices.Clone(m.names) {
		k := m.keys[key]
		i := slices.IndexFunc(next, func(p *modelPolicy) bool { return p.id == k.take.id })
		if i < 0 {
			m.table.Reset(key)
			delete(m.keys, key)
			m.names = slices.DeleteFunc(m.names, func(name string) bool { return name == key })
			continue
		}
		if limits := next[i].Limits; k.take.plan == "" && !k.take.own && !slices.Equal(limits, k.take.limits) {
			m.setLimits(key, limits)
		}
	}
	m.policies = next
	for i, p := range m.limiter.Policies() {
		if p.Name != next[i].Name || !slices.EqualFunc(p.Limits, next[i].Limits, func(a, b sash.Limit) bool { return a == b }) {
			m.failf("Policies()[%d] is %s %v, want %s %v", i, p.Name, p.Limits, next[i].Name, next[i].Limits)
		}
	}
	for _, x := range m.exchanges {
		if x.expected.waits {
			m.begin(x)
		}
	}
	names := ""
	for _, p := range next {
		names += " " + p.Name
	}
	return names[1:]
}
