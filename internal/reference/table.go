package reference

import "math/big"

// An Answer is the state of the keys after the call, as seen at its reading.
type Answer struct {
	Allowed    bool
	Remaining  int64 // the least of all limits
	RetryAfter int64 // the longest of all limits; 0 if Allowed
	ResetAfter int64 // the longest of all limits

	// The limit that decided, as an index into those of DecidingKey. Denied, it
	// is the one with the longest RetryAfter; allowed, the one with the least
	// Remaining; of several, the first limit of the first key given.
	Deciding    int
	DecidingKey string
}

// A Table keeps the keys of one limiter. Make one with [NewTable].
type Table struct {
	limits    []Limit
	overrides map[string][]Limit
	keys      map[string][]*Key // a key's state under each of its limits
}

// NewTable returns a table without keys. A key has at least one limit.
func NewTable(limits []Limit) *Table {
	return &Table{limits: limits, overrides: map[string][]Limit{}, keys: map[string][]*Key{}}
}

// Take charges n units to every limit of every key if all of them admit n;
// else to those that charge denied calls. There must be a key; a key named
// twice counts once.
func (t *Table) Take(now, n int64, keys ...string) Answer {
	return take(t.members(keys), now, n)
}

// Peek answers what Take would, and charges nothing.
func (t *Table) Peek(now, n int64, keys ...string) Answer {
	members := t.members(keys)
	for i, m := range members {
		members[i].Key = m.clone()
	}
	return take(members, now, n)
}

// Reset forgets the key.
func (t *Table) Reset(key string) { delete(t.keys, key) }

// SetLimits gives the key limits of its own, or without any takes them away
// again, and forgets what it was charged.
func (t *Table) SetLimits(key string, limits []Limit) {
	t.Reset(key)
	t.overrides[key] = limits
}

// A Reservation is a charge made for a cost not known yet. One that was denied
// is empty: there is nothing to settle.
type Reservation struct{ *booking }

type booking struct {
	key     string
	units   int64
	places  []place
	settled bool
}

// A place is where a booking was charged under one limit. A key that was
// forgotten since has another state, so this one concerns nobody any more.
type place struct {
	state *Key
	slot  *big.Int
}

// Reserve takes n units, to be settled when the actual cost is known.
func (t *Table) Reserve(now, n int64, key string) (Reservation, Answer) {
	members := t.members([]string{key})
	answer := take(members, now, n)
	if !answer.Allowed {
		return Reservation{}, answer
	}
	b := &booking{key: key, units: n}
	for _, m := range members {
		b.places = append(b.places, place{m.Key, m.slot(m.instant(now, 0))})
	}
	return Reservation{b}, answer
}

// Settle corrects a reservation to its actual cost, once. What was not needed
// is given back where it was booked, so that it counts as never taken; what
// was needed beyond is charged anew, even past Count, for later calls to pay.
func (t *Table) Settle(now int64, r Reservation, actual int64) {
	if r.booking == nil || r.settled {
		return
	}
	r.settled = true
	actual = max(actual, 0)
	if actual < r.units {
		for _, p := range r.places {
			p.state.giveBack(now, p.slot, big.NewInt(r.units-actual))
		}
	}
	if actual > r.units {
		for _, m := range t.members([]string{r.key}) {
			m.charge(m.instant(now, 0), big.NewInt(actual-r.units))
		}
	}
}

// A member is one limit of one key of a call.
type member struct {
	*Key
	name  string
	index int
}

// members returns every limit of every distinct key, in the order given.
func (t *Table) members(keys []string) []member {
	var members []member
	seen := map[string]bool{}
	for _, name := range keys {
		if seen[name] {
			continue
		}
		seen[name] = true
		for i, k := range t.key(name) {
			members = append(members, member{k, name, i})
		}
	}
	return members
}

// key returns the state of a key under each of its limits. One that was never
// charged answers like one never seen, so it does not matter that it is kept.
func (t *Table) key(name string) []*Key {
	if t.keys[name] == nil {
		limits := t.overrides[name]
		if len(limits) == 0 {
			limits = t.limits
		}
		for _, l := range limits {
			t.keys[name] = append(t.keys[name], New(l))
		}
	}
	return t.keys[name]
}

// take asks all limits before it charges any.
func take(members []member, now, n int64) Answer {
	allowed := true
	for _, m := range members {
		allowed = allowed && m.admits(m.instant(now, 0), n)
	}
	for _, m := range members {
		m.book(now, n, allowed)
	}
	return combine(members, now, n, allowed)
}

func combine(members []member, now, n int64, allowed bool) Answer {
	a := Answer{Allowed: allowed}
	for i, m := range members {
		remaining, retryAfter := m.remaining(now), int64(0)
		if !allowed {
			retryAfter = m.retryAfter(now, n)
		}
		if i == 0 || (allowed && remaining < a.Remaining) || retryAfter > a.RetryAfter {
			a.Deciding, a.DecidingKey = m.index, m.name
		}
		if i == 0 || remaining < a.Remaining {
			a.Remaining = remaining
		}
		a.RetryAfter = max(a.RetryAfter, retryAfter)
		a.ResetAfter = max(a.ResetAfter, m.resetAfter(now))
	}
	return a
}
