package reference

import (
	"maps"
	"math/big"
	"slices"
)

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
	lives     map[string]int    // how often a key has begun anew: its Key.life
	open      map[*booking]bool // that are not settled yet
}

// NewTable returns a table without keys. A key has at least one limit.
func NewTable(limits []Limit) *Table {
	return &Table{
		limits:    limits,
		overrides: map[string][]Limit{},
		keys:      map[string][]*Key{},
		lives:     map[string]int{},
		open:      map[*booking]bool{},
	}
}

// Copy returns a table in the same state. What is reserved can be settled in
// each of the two.
func (t *Table) Copy() *Table {
	c := *t
	c.overrides, c.lives, c.open = maps.Clone(t.overrides), maps.Clone(t.lives), maps.Clone(t.open)
	c.keys = make(map[string][]*Key, len(t.keys))
	for name, states := range t.keys {
		for _, k := range states {
			c.keys[name] = append(c.keys[name], k.clone())
		}
	}
	return &c
}

// Equal reports whether t and o are in the same state, but for what is reserved.
func (t *Table) Equal(o *Table) bool {
	for _, keys := range []map[string][]*Key{t.keys, o.keys} {
		for name := range keys {
			if !slices.EqualFunc(t.key(name), o.key(name), (*Key).equal) {
				return false
			}
		}
	}
	return slices.Equal(t.limits, o.limits) && maps.EqualFunc(t.overrides, o.overrides, slices.Equal) && maps.Equal(t.lives, o.lives)
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

// Refuse answers a call for n units that is denied for another reason than these
// keys, and charges nothing.
func (t *Table) Refuse(now, n int64, keys ...string) Answer {
	return combine(t.members(keys), now, n, false)
}

// Idle reports whether no charge of the key counts for anything at the reading now.
func (t *Table) Idle(now int64, key string) bool {
	return !slices.ContainsFunc(t.keys[key], func(k *Key) bool { return !k.idle(k.instant(now, 0)) })
}

// Reset forgets the key, and what was reserved of it.
func (t *Table) Reset(key string) {
	delete(t.keys, key)
	t.lives[key]++
}

// Limits returns the limits of the key.
func (t *Table) Limits(key string) []Limit {
	if own := t.overrides[key]; own != nil {
		return own
	}
	return t.limits
}

// SetLimits gives the key limits of its own, or without any takes them away
// again. What it was charged carries over as in [Table.Reconfigure].
func (t *Table) SetLimits(key string, limits []Limit) {
	if len(limits) > 0 {
		t.overrides[key] = limits
	} else {
		delete(t.overrides, key)
	}
	t.carry(key)
}

// Reconfigure replaces the limits of all keys without limits of their own. What a
// key was charged carries over, from a limit to one that differs from it in nothing
// but Count. Under any other limit the key begins anew: what a limiter can know
// there is not said here.
func (t *Table) Reconfigure(limits []Limit) {
	t.limits = limits
	for name := range t.keys {
		t.carry(name)
	}
}

// carry puts the key under the limits that it has by now.
func (t *Table) carry(name string) {
	old := t.keys[name]
	if old == nil {
		return
	}
	delete(t.keys, name)
	for _, k := range t.key(name) {
		if i := slices.IndexFunc(old, func(o *Key) bool { return k.limit.alike(o.limit) }); i >= 0 {
			k.charges, k.life = old[i].charges, old[i].life
		} else {
			k.life++
			t.lives[name] = k.life
		}
	}
}

// Save copies the state and the limits of the key into saved.
func (t *Table) Save(key string, saved *Table) {
	if own := t.overrides[key]; own != nil {
		saved.overrides[key] = own
	}
	for _, k := range t.keys[key] {
		saved.keys[key] = append(saved.keys[key], k.clone())
	}
}

// Restore puts the keys and their limits that were saved in the place of all that t
// holds. Each key begins another life.
func (t *Table) Restore(saved *Table) {
	for _, keys := range []map[string][]*Key{t.keys, saved.keys} {
		for name := range keys {
			t.lives[name]++
		}
	}
	restored := saved.Copy()
	t.keys, t.overrides = restored.keys, restored.overrides
	for name, states := range t.keys {
		for _, k := range states {
			k.life = t.lives[name]
		}
	}
}

// alike reports whether l and o differ in nothing but Count.
func (l Limit) alike(o Limit) bool {
	o.Count = l.Count
	return l == o
}

// A Reservation is a charge made for a cost not known yet. One that was denied
// is empty: there is nothing to settle.
type Reservation struct{ *booking }

type booking struct {
	key    string
	units  int64
	places []place
}

// A place is where a booking was charged, under one limit of a key in one life.
type place struct {
	limit Limit
	life  int
	slot  *big.Int
}

// Equal reports whether r and o are of the same charge.
func (r Reservation) Equal(o Reservation) bool {
	if r.booking == nil || o.booking == nil {
		return r == o
	}
	return r.key == o.key && r.units == o.units && slices.EqualFunc(r.places, o.places, func(a, b place) bool {
		return a.limit == b.limit && a.life == b.life && a.slot.Cmp(b.slot) == 0
	})
}

// Reserve takes n units, to be settled when the actual cost is known.
func (t *Table) Reserve(now, n int64, key string) (Reservation, Answer) {
	all, answer := t.ReserveAll(now, n, key)
	return all[0], answer
}

// ReserveAll takes n units of each of the keys, as Take does, and returns a
// reservation for each of them, in their order: for a key named twice the same.
func (t *Table) ReserveAll(now, n int64, keys ...string) ([]Reservation, Answer) {
	members, all := t.members(keys), make([]Reservation, len(keys))
	answer := take(members, now, n)
	if !answer.Allowed {
		return all, answer
	}
	bookings := map[string]*booking{}
	for i, name := range keys {
		if bookings[name] == nil {
			bookings[name] = &booking{key: name, units: n}
			t.open[bookings[name]] = true
		}
		all[i] = Reservation{bookings[name]}
	}
	for _, m := range members {
		b := bookings[m.name]
		b.places = append(b.places, place{m.limit, m.life, m.slot(m.instant(now, 0))})
	}
	return all, answer
}

// Settle corrects a reservation to its actual cost, once. What was not needed
// is given back where it was booked, so that it counts as never taken; what
// was needed beyond is charged anew, even past Count, for later calls to pay.
func (t *Table) Settle(now int64, r Reservation, actual int64) {
	if !t.open[r.booking] {
		return
	}
	delete(t.open, r.booking)
	actual = max(actual, 0)
	if actual < r.units {
		t.giveBack(now, r, big.NewInt(r.units-actual))
	}
	if actual > r.units {
		t.Spend(now, actual-r.units, r.key)
	}
}

// Spend charges n units to the key, whatever its limits say.
func (t *Table) Spend(now, n int64, key string) {
	for _, m := range t.members([]string{key}) {
		m.charge(m.instant(now, 0), big.NewInt(n))
	}
}

// giveBack gives units back wherever r was booked and its key still is in that life.
func (t *Table) giveBack(now int64, r Reservation, units *big.Int) {
	for _, k := range t.keys[r.key] {
		for _, p := range r.places {
			if !k.limit.alike(p.limit) || k.life != p.life {
				continue
			}
			k.giveBack(now, p.slot, units)
			break
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
		for _, l := range t.Limits(name) {
			k := New(l)
			k.life = t.lives[name]
			t.keys[name] = append(t.keys[name], k)
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
