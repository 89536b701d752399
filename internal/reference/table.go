package reference

import (
	"maps"
	"math/big"
	"slices"
)

// An Answer is the answer to a call, and the state of its keys after it, at the
// call's reading.
type Answer struct {
	Allowed    bool
	Remaining  int64 // the least of all limits
	RetryAfter int64 // the longest of all limits; 0 if Allowed
	ResetAfter int64 // the longest of all limits

	// Deciding is the limit that decided, as an index into the limits of DecidingKey. Of
	// a denied call it is the limit with the longest RetryAfter, and of an allowed
	// one that with the least Remaining. Of equals it is the first limit of the
	// first key given.
	Deciding    int
	DecidingKey string
}

// A Table keeps the keys of one limiter. [NewTable] makes one.
type Table struct {
	// NameOf returns the name by which a key of the table is known to the limiter, if that is
	// another; nil: all have the same.
	NameOf func(key string) string

	limits    []Limit
	overrides map[string][]Limit
	keys      map[string][]*Key  // a key's state under each of its limits
	lineages  map[string]int     // how often each key has begun anew: its Key.lineage
	made      map[string]int     // how many reservations each key has had
	open      map[*reserved]bool // reservations that are not settled
	leave     int64              // units that a call must leave: see Leaving
	leaveOf   map[string]int64   // units that it must leave of each key: see LeavingOf
}

// NewTable returns a table without keys. There must be at least one limit.
func NewTable(limits []Limit) *Table {
	return &Table{
		limits:    limits,
		overrides: map[string][]Limit{},
		keys:      map[string][]*Key{},
		lineages:  map[string]int{},
		made:      map[string]int{},
		open:      map[*reserved]bool{},
	}
}

// Leaving returns t itself, for calls that are admitted only if that many units remain after them. It shares
// all keys with t.
func (t *Table) Leaving(units int64) *Table {
	same := *t
	same.leave = units
	return &same
}

// LeavingOf is Leaving of another number for each key; 0 for keys that units does not have.
func (t *Table) LeavingOf(units map[string]int64) *Table {
	same := *t
	same.leaveOf = units
	return &same
}

// Copy returns a table in the same state. An open reservation can be settled in each
// of the two.
func (t *Table) Copy() *Table {
	c := *t
	c.overrides, c.lineages = maps.Clone(t.overrides), maps.Clone(t.lineages)
	c.made, c.open = maps.Clone(t.made), maps.Clone(t.open)
	c.keys = make(map[string][]*Key, len(t.keys))
	for name, states := range t.keys {
		for _, k := range states {
			c.keys[name] = append(c.keys[name], k.clone())
		}
	}
	return &c
}

// Equal reports whether t and o are in the same state. It ignores reservations, but for
// what a token bucket keeps of them: the charges that they may give back.
func (t *Table) Equal(o *Table) bool {
	for _, keys := range []map[string][]*Key{t.keys, o.keys} {
		for name := range keys {
			if !slices.EqualFunc(t.key(name), o.key(name), (*Key).equal) {
				return false
			}
		}
	}
	return slices.Equal(t.limits, o.limits) && maps.EqualFunc(t.overrides, o.overrides, slices.Equal) && maps.Equal(t.lineages, o.lineages)
}

// Take charges n units to every limit of every key if all of them admit n. Otherwise
// it charges the limits that charge denied calls. There must be at least one key. A
// key named twice counts once.
func (t *Table) Take(now, n int64, keys ...string) Answer {
	return take(t.members(keys), now, n)
}

// Peek returns the answer of Take, and charges nothing.
func (t *Table) Peek(now, n int64, keys ...string) Answer {
	return take(clones(t.members(keys)), now, n)
}

// Refuse returns the answer to a call for n units that is denied for another reason
// than these keys. It charges nothing.
func (t *Table) Refuse(now, n int64, keys ...string) Answer {
	return combine(t.members(keys), now, n, false)
}

// Idle reports whether no charge of the key counts at the reading now.
func (t *Table) Idle(now int64, key string) bool {
	return !slices.ContainsFunc(t.keys[key], func(k *Key) bool { return !k.idle(k.instant(now, 0)) })
}

// Reset forgets the key. Reservations made before have nothing to give back.
func (t *Table) Reset(key string) {
	delete(t.keys, key)
	t.lineages[key]++
}

// Limits returns the limits of the key.
func (t *Table) Limits(key string) []Limit {
	if own := t.overrides[key]; own != nil {
		return own
	}
	return t.limits
}

// unlimited reports whether the key is admitted everything.
func (t *Table) unlimited(key string) bool {
	return !slices.ContainsFunc(t.Limits(key), func(l Limit) bool { return !l.Unlimited })
}

// charges reports whether a call can be charged to the key: whether its limits admit
// anything, or charge what they deny, and keep it.
func (t *Table) charges(key string) bool {
	some, none, denied := false, false, false
	for _, l := range t.Limits(key) {
		if l.Unlimited {
			continue
		}
		none = none || l.Count == 0
		some = some || l.Count > 0
		denied = denied || l.Count > 0 && l.ChargeDenied
	}
	return some && (!none || denied)
}

// SetLimits gives the key limits of its own; without limits it removes them. The
// key's charges migrate as in [Table.Reconfigure].
func (t *Table) SetLimits(key string, limits []Limit) {
	t.override(key, limits)
	t.migrate(key, nil)
}

// SetLimitsAt is SetLimits at the clock reading now. The key's charges migrate as in
// [Table.ReconfigureAt].
func (t *Table) SetLimitsAt(now int64, key string, limits []Limit) {
	t.override(key, limits)
	t.migrate(key, big.NewInt(now))
}

func (t *Table) override(key string, limits []Limit) {
	if len(limits) > 0 {
		t.overrides[key] = limits
	} else {
		delete(t.overrides, key)
	}
}

// Reconfigure replaces the limits of all keys without limits of their own. The charges
// under a limit migrate to a new limit that differs from it only in Count. If there are
// several, source tells which. Under any other limit the key begins anew, since how much a
// limiter knows there is not defined here. A token bucket of another Count begins anew as
// well, since what it keeps depends on the time: see [Table.ReconfigureAt].
func (t *Table) Reconfigure(limits []Limit) {
	t.limits = limits
	for name := range t.keys {
		t.migrate(name, nil)
	}
}

// ReconfigureAt is Reconfigure at the clock reading now. A token bucket keeps the units
// that it owes at that time if its limit changes only in Count and Burst.
func (t *Table) ReconfigureAt(now int64, limits []Limit) {
	t.limits = limits
	for name := range t.keys {
		t.migrate(name, big.NewInt(now))
	}
}

// migrate moves the key from the limits that it had to its present ones, at the reading
// now if it is known.
func (t *Table) migrate(name string, now *big.Int) {
	old := t.keys[name]
	if old == nil {
		return
	}
	delete(t.keys, name)
	if t.unlimited(name) {
		t.lineages[name]++ // nothing is kept of it
		return
	}
	for place, k := range t.key(name) {
		if o := k.source(old, place); o == nil || !k.inherit(o, now) {
			k.lineage++
			t.lineages[name] = k.lineage
		}
	}
}

// source returns the one of old whose charges k, the state under the limit at that place,
// begins with; nil if it has none. It is one under an equal limit if there is one. A token
// bucket then prefers one of its own rate, and then the one at its place. Any other limit
// prefers the greatest Count. Where units are held, one of its own Window comes first, then one that has
// held them as long, or for longer than others, and then the one at its place.
func (k *Key) source(old []*Key, place int) (best *Key) {
	rank := func(i int) []int64 {
		o := old[i].limit
		switch {
		case o == k.limit:
			return []int64{3}
		case k.limit.Held && o.Window == k.limit.Window:
			return []int64{2, o.Count}
		case k.limit.Held && i == place:
			return []int64{1, min(o.Window, k.limit.Window), 1}
		case k.limit.Held:
			return []int64{1, min(o.Window, k.limit.Window)}
		case k.tokens == nil:
			return []int64{0, o.Count}
		case o.Count == k.limit.Count:
			return []int64{2}
		case i == place:
			return []int64{1}
		}
		return []int64{0}
	}
	var highest []int64
	for i, o := range old {
		if r := rank(i); k.limit.equalButCount(o.limit) && slices.Compare(r, highest) > 0 {
			best, highest = o, r
		}
	}
	return best
}

// inherit begins k, a key without charges, with the charges of o. It reports false if they
// depend on the time and now is nil, and then does nothing.
func (k *Key) inherit(o *Key, now *big.Int) bool {
	switch {
	case k.tokens == nil && k.limit.Window == o.limit.Window:
		k.charges = o.charges
	case now == nil && (k.tokens == nil || k.limit.Count != o.limit.Count):
		return false
	case k.tokens == nil: // what is still held is held on
		for _, c := range o.charges {
			if o.weight(c.slot, o.instant(now.Int64(), 0)).Sign() > 0 {
				k.charges = append(k.charges, c)
			}
		}
	default:
		k.tokens = o.tokens.clone()
		k.tokens.change(now, k.limit)
	}
	k.lineage = o.lineage
	return true
}

// Save copies the state and the limits of the key into saved.
func (t *Table) Save(key string, saved *Table) {
	if own := t.overrides[key]; own != nil {
		saved.overrides[key] = own
	}
	for _, k := range t.keys[key] {
		c := k.clone()
		if c.tokens != nil {
			c.tokens.finish() // no reservation is restored
		}
		if c.limit.Held {
			c.charges = nil // nor what it holds
		}
		saved.keys[key] = append(saved.keys[key], c)
	}
}

// Restore replaces all keys of t, and their limits, by the keys and limits of saved. Each key begins
// another lineage.
func (t *Table) Restore(saved *Table) {
	for _, keys := range []map[string][]*Key{t.keys, saved.keys} {
		for name := range keys {
			t.lineages[name]++
		}
	}
	restored := saved.Copy()
	t.keys, t.overrides = restored.keys, restored.overrides
	for name, states := range t.keys {
		for _, k := range states {
			k.lineage = t.lineages[name]
		}
	}
}

// equalButCount reports whether l and o differ in nothing but Count, or, if both are token
// buckets, Count and Burst; if units are held under both, Count and Window.
func (l Limit) equalButCount(o Limit) bool {
	o.Count = l.Count
	if l.Held && o.Held {
		o.Window = l.Window
	}
	if l.Burst > 0 && o.Burst > 0 {
		o.Burst = l.Burst
	}
	return l == o
}

// A Reservation is a charge whose actual cost is not known yet. The zero Reservation,
// of a denied call, has nothing to settle.
type Reservation struct{ *reserved }

type reserved struct {
	key     string
	units   int64
	origins []origin
}

// An origin is the slot in which units were reserved under one limit of a key, and the
// lineage of the key at that time. Under a token bucket it is the charge of that number.
type origin struct {
	limit   Limit
	lineage int
	slot    *big.Int
	number  int // 0 if the limit is no token bucket
}

// Equal reports whether r and o describe the same charge.
func (r Reservation) Equal(o Reservation) bool {
	if r.reserved == nil || o.reserved == nil {
		return r == o
	}
	return r.key == o.key && r.units == o.units && slices.EqualFunc(r.origins, o.origins, func(a, b origin) bool {
		return a.limit == b.limit && a.lineage == b.lineage && a.number == b.number && a.slot.Cmp(b.slot) == 0
	})
}

// Reserve takes n units, and returns a reservation to settle once the actual cost is
// known.
func (t *Table) Reserve(now, n int64, key string) (Reservation, Answer) {
	all, answer := t.ReserveAll(now, n, key)
	return all[0], answer
}

// ReserveAll takes n units of each key, as Take does. It returns a reservation for each
// key, in their order; a key named twice has the same one twice.
func (t *Table) ReserveAll(now, n int64, keys ...string) ([]Reservation, Answer) {
	all, members, allowed := t.reserveAll(now, n, keys)
	return all, combine(members, now, n, allowed)
}

func (t *Table) reserveAll(now, n int64, keys []string) (all []Reservation, members []member, allowed bool) {
	members, all = t.members(keys), make([]Reservation, len(keys))
	for i := range members {
		members[i].reservation = t.made[members[i].name] + 1
	}
	if !decide(members, now, n) {
		return all, members, false
	}
	t.register(all, members, now, n, keys)
	return all, members, true
}

// Charge charges n units to each of the keys as an admitted call does, whatever their limits say.
// It returns a reservation for each key, as ReserveAll does. It is for calls that are known to
// have been admitted, though not in which order.
func (t *Table) Charge(now, n int64, keys ...string) []Reservation {
	members, all := t.members(keys), make([]Reservation, len(keys))
	for i := range members {
		members[i].reservation = t.made[members[i].name] + 1
	}
	chargeAll(members, now, n, true)
	t.register(all, members, now, n, keys)
	return all
}

// register makes all the open reservations of n units that were just charged to the keys, whose
// members are given.
func (t *Table) register(all []Reservation, members []member, now, n int64, keys []string) {
	byName := map[string]*reserved{}
	for i, name := range keys {
		if t.unlimited(name) {
			continue // nothing to settle
		}
		if byName[name] == nil {
			byName[name] = &reserved{key: name, units: n}
			t.open[byName[name]] = true
			t.made[name]++
		}
		all[i] = Reservation{byName[name]}
	}
	for _, m := range members {
		r := byName[m.name]
		if r == nil {
			continue
		}
		o := origin{limit: m.limit, lineage: m.lineage, slot: m.slot(m.instant(now, 0))}
		if m.tokens != nil {
			o.number = m.reservation
		}
		r.origins = append(r.origins, o)
	}
}

// Settle corrects a reservation to its actual cost. Only the first call for a
// reservation has an effect. It gives unused units back to the slot that they were
// charged in, as if they had never been taken. It charges units above the estimate at
// the reading now, even past Count. Where units are held, it gives all of them back, and charges none.
func (t *Table) Settle(now int64, r Reservation, actual int64) {
	if !t.open[r.reserved] {
		return
	}
	delete(t.open, r.reserved)
	actual = max(actual, 0)
	t.giveBack(now, r, big.NewInt(max(r.units-actual, 0)))
	if actual > r.units {
		t.Spend(now, actual-r.units, r.key)
	}
}

// Spend charges n units to the key, even past its limits. Where no call is charged, nothing
// is spent either.
func (t *Table) Spend(now, n int64, key string) {
	if !t.charges(key) {
		return
	}
	for _, m := range t.members([]string{key}) {
		if !m.limit.Held {
			m.charge(m.instant(now, 0), big.NewInt(n))
		}
	}
}

// Add charges n units to the key under the limit of that index alone, at the reading now, whatever it admits.
// No limit before it may be unlimited.
func (t *Table) Add(now, n int64, key string, limit int) {
	k := t.key(key)[limit]
	k.charge(k.instant(now, 0), big.NewInt(n))
}

// Remaining returns how many units the limit of that index leaves of the key, at the reading now. No limit
// before it may be unlimited.
func (t *Table) Remaining(now int64, key string, limit int) int64 {
	return t.key(key)[limit].remaining(now)
}

// HasLeft reports whether the limit of that index has at least that many units left of the key, at the reading
// now. None of the limits before it may be unlimited.
func (t *Table) HasLeft(now, units int64, key string, limit int) bool {
	k := t.key(key)[limit]
	return k.fits(k.used(k.instant(now, 0)), units)
}

// giveBack gives units back, which may be 0, to each origin of r whose limit and lineage
// the key still has.
func (t *Table) giveBack(now int64, r Reservation, units *big.Int) {
	for _, k := range t.keys[r.key] {
		for _, o := range r.origins {
			if !k.limit.equalButCount(o.limit) || k.lineage != o.lineage {
				continue
			}
			switch {
			case k.tokens != nil:
				k.tokens.settle(o.number, rat(units))
			case k.limit.Held:
				k.giveBack(now, o.slot, big.NewInt(r.units))
			case units.Sign() > 0:
				k.giveBack(now, o.slot, units)
			}
			break
		}
	}
}

// A member is one limit of one key of a call.
type member struct {
	*Key
	name        string
	reservation int   // the number of the reservation that the call makes of the key, or 0
	leave       int64 // units that must remain after the call
}

// admits reports whether the limit admits n more units at t, and then has as many left as must remain.
func (m member) admits(t *big.Int, n int64) bool {
	if !m.Key.admits(t, n) {
		return false
	}
	after := add(m.used(t), mul(big.NewInt(n), m.window))
	return m.limit.Unlimited || m.leave <= 0 || m.fits(after, m.leave)
}

// never reports whether the limit admits n units at no time.
func (m member) never(n int64) bool {
	if n < 0 || m.limit.Unlimited {
		return n < 0
	}
	return add(big.NewInt(n), big.NewInt(max(m.leave, 0))).Cmp(big.NewInt(m.limit.most())) > 0
}

// retryAfter returns the least wait after which n units are admitted; 0 if they are admitted now.
func (m member) retryAfter(now, n int64) int64 {
	if m.never(n) {
		return Never
	}
	return soonest(func(d int64) bool { return m.admits(m.instant(now, d), n) })
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
		for _, k := range t.key(name) {
			members = append(members, member{Key: k, name: name, leave: max(t.leave, t.leaveOf[name])})
		}
	}
	return members
}

// key returns the state of a key under each of its limits, and begins to keep it. An
// uncharged key answers like a key never seen, so keeping it changes no answer.
func (t *Table) key(name string) []*Key {
	if t.keys[name] == nil {
		known := name
		if t.NameOf != nil {
			known = t.NameOf(name)
		}
		for i, l := range t.Limits(name) {
			if l.Unlimited && (i > 0 || !t.unlimited(name)) {
				continue // it has no effect next to others
			}
			k := Named(l, known)
			k.index = i
			k.lineage = t.lineages[name]
			t.keys[name] = append(t.keys[name], k)
		}
	}
	return t.keys[name]
}

// take charges n units to the members if all of them admit n, and returns the answer.
func take(members []member, now, n int64) Answer {
	return combine(members, now, n, decide(members, now, n))
}

// decide charges n units to the members if all of them admit n, and reports whether they do. It
// asks all limits before it charges any.
func decide(members []member, now, n int64) (allowed bool) {
	allowed = admit(members, now, n)
	chargeAll(members, now, n, allowed)
	return allowed
}

// admit reports whether all members admit n units.
func admit(members []member, now, n int64) bool {
	return !slices.ContainsFunc(members, func(m member) bool { return !m.admits(m.instant(now, 0), n) })
}

// chargeAll charges the members a call for n units, which was allowed or denied.
func chargeAll(members []member, now, n int64, allowed bool) {
	for _, m := range members {
		m.chargeCall(now, n, allowed, m.reservation)
	}
}

// combine returns the answer to a call, from the state that the members are in after
// it.
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
