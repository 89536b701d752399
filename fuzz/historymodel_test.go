package fuzz

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A serial is the state of the reference after a sequence of operations.
type serial struct {
	table    *reference.Table
	reserved map[*operation][]reference.Reservation // the reservations that are not settled
	shared   map[*operation][]bool                  // whether each of them is of a shared quota
	shift    int64                                  // the deciding time less the clock's reading
	saved    map[*operation]*save                   // the snapshot of each Snapshot
	saving   *operation                             // a Snapshot that has saved some keys, and not all
	done     opSet                                  // the operations that have been applied
	present  map[string]bool                        // the keys that may have an entry, idle or not
	evicted  uint64                                 // the number of keys evicted that were not idle
	quotas   map[string]string                      // the shared quota of each key, under ShareOverflow
	fixed    *fixed
}

// A save holds the keys that a Snapshot has saved so far.
type save struct {
	table   *reference.Table
	present map[string]bool
	at      int64 // the time at which the Snapshot began
	keys    int   // the number of keys saved
}

// fixed is the part of a model that follows from its history and does not change.
type fixed struct {
	*history
	migrates bool // whether keys may migrate to other entries
	number   map[*operation]int
	earlier  map[*operation]opSet           // the operations that ended before each began
	busy     map[*operation]map[string]bool // the keys of the operations that overlap each
}

// An opSet is a set of operations, by their numbers.
type opSet uint64

func (s opSet) has(number int) bool { return s&(1<<number) != 0 }

// An effect is the part of an operation that happens at one instant. A Snapshot saves each
// key at an instant of its own; any other operation is one effect.
type effect struct {
	*operation
	saves string // the key that a Snapshot saves here
}

// modelsOf returns the models of h: the reference, with the limits of h. There is one for
// each way in which keys may share quotas, and h must be linearizable by one of them. The
// hash of a key chooses its quota. Two keys rarely have the same, so the first model is
// the likeliest.
func modelsOf(h *history) (models []porcupine.Model) {
	f := newFixed(h)
	for _, quotas := range sharings(h) {
		m := porcupine.NondeterministicModel{
			Init: func() []any {
				return []any{&serial{
					table:    table(h.limits, h.chargeDenied),
					reserved: map[*operation][]reference.Reservation{},
					shared:   map[*operation][]bool{},
					saved:    map[*operation]*save{},
					present:  map[string]bool{},
					quotas:   quotas,
					fixed:    f,
				}}
			},
			Step: func(state, input, output any) (next []any) {
				return state.(*serial).step(input.(effect), output.(outcome))
			},
			Equal: func(a, b any) bool { return a.(*serial).equal(b.(*serial)) },
			DescribeOperation: func(input, _ any) string {
				return input.(effect).String()
			},
			DescribeState: func(state any) string { return state.(*serial).String() },
		}
		if h.maxKeys == 0 {
			m.Partition = partition
		}
		models = append(models, m.ToModel())
	}
	return models
}

// verdict returns whether h is linearizable by any of its models.
func verdict(h *history) (result porcupine.CheckResult) {
	for _, m := range modelsOf(h) {
		if result = porcupine.CheckOperationsTimeout(m, operations(h), checkTimeout); result != porcupine.Illegal {
			break
		}
	}
	return result
}

// sharings returns each way in which keys may share quotas, as the quota of each key. A
// quota is a key of the reference that no call names, under the limiter's own limits.
func sharings(h *history) (all []map[string]string) {
	if h.maxKeys == 0 || h.overflow != sash.ShareOverflow {
		return []map[string]string{nil}
	}
	for _, parts := range []string{"abc", "aac", "aba", "abb", "aaa"} {
		quotas := map[string]string{}
		for i, key := range historyKeys {
			quotas[key] = sharedBy + parts[i:i+1]
		}
		all = append(all, quotas)
	}
	return all
}

func newFixed(h *history) *fixed {
	f := &fixed{
		history:  h,
		migrates: h.migrates(),
		number:   map[*operation]int{},
		earlier:  map[*operation]opSet{},
		busy:     map[*operation]map[string]bool{},
	}
	ops := h.all()
	for i, o := range ops {
		f.number[o], f.busy[o] = i, map[string]bool{}
		for j, other := range ops {
			switch {
			case len(other.effects(h)) == 0 || other == o:
			case other.ended < o.began:
				f.earlier[o] |= 1 << j
			case other.began < o.ended:
				f.busy[o] = union(f.busy[o], other.touches())
			}
		}
	}
	return f
}

// touches returns the keys for which o may insert or replace an entry.
func (o *operation) touches() []string {
	if o.verb == reconfigures {
		return historyKeys
	}
	return o.keys
}

// operations returns all effects of h in porcupine's form.
func operations(h *history) (all []porcupine.Operation) {
	for _, o := range h.all() {
		for _, e := range o.effects(h) {
			all = append(all, porcupine.Operation{ClientId: o.caller, Input: e, Output: o.outcome, Call: o.began, Return: o.ended})
		}
	}
	return all
}

// effects returns the effects of o.
func (o *operation) effects(h *history) (all []effect) {
	if o.verb == snapshots {
		if !slices.ContainsFunc(h.all(), func(other *operation) bool { return other.of == o }) {
			return nil // nothing depends on the snapshot
		}
		for _, key := range historyKeys {
			all = append(all, effect{operation: o, saves: key})
		}
		return all
	}
	return []effect{{operation: o}}
}

// partition returns the operations of each key. If an operation concerns several keys, it
// returns all operations in one part.
func partition(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	byKey := map[string][]porcupine.Operation{}
	for _, op := range history {
		e := op.Input.(effect)
		if len(e.keys) != 1 || e.verb == reconfigures {
			return [][]porcupine.Operation{history}
		}
		byKey[e.keys[0]] = append(byKey[e.keys[0]], op)
	}
	return slices.Collect(maps.Values(byKey))
}

// step returns the states in which s may be after e, whose operation had that outcome. An
// eviction by a running operation shows in the next effect at the latest, so step tries
// all that may have happened before e.
func (s *serial) step(e effect, out outcome) (next []any) {
	for _, before := range s.evictions() {
		if e.saves != "" {
			next = append(next, before.save(e.operation, e.saves)...)
		} else {
			next = append(next, before.finish(e.operation, out)...)
		}
	}
	return next
}

// finish returns the states in which s may be after o, which had that outcome.
func (s *serial) finish(o *operation, out outcome) (next []any) {
	if s.saving != nil && slices.Contains([]verb{setsLimits, reconfigures, restores}, o.verb) {
		return nil // these wait for the Snapshot
	}
	for _, at := range s.decidedBy(o) {
		for _, p := range s.placements(o, out) {
			if after := s.copy(); after.do(o, out, at, p) && after.fits(o) {
				after.done |= 1 << s.fixed.number[o]
				after.markPresent(o)
				next = append(next, after)
			}
		}
	}
	return next
}

// decidedBy returns the times that may have decided o:
//
//   - normally the time of its last reading, since an operation that finds its key evicted
//     reads the clock again;
//   - the time of any reading where keys may migrate to other entries, since the clock is
//     read for that as well;
//   - an arbitrary time for an operation without readings, which does not depend on it.
func (s *serial) decidedBy(o *operation) (times []int64) {
	if len(o.readings) == 0 {
		return []int64{math.MinInt64}
	}
	readings := slices.Compact(slices.Clone(o.readings))
	if !s.fixed.migrates {
		readings = readings[len(readings)-1:]
	}
	for _, reading := range readings {
		times = append(times, reading+s.shift)
	}
	return times
}

// do applies o to s at that time and placement, and reports whether the outcome is out.
func (s *serial) do(o *operation, out outcome, at int64, p placement) bool {
	switch o.verb {
	case takesUpTo:
		// As many units as are left, or one that is denied, are what is decided.
		left := int64(0)
		if len(p.refused) == 0 {
			left = s.table.Peek(at, 0, p.keys...).Remaining
		}
		taken := min(o.units, left)
		take := &operation{verb: takes, keys: o.keys, units: max(taken, 1)}
		answer := s.decide(take, at, p)
		delete(s.reserved, take) // which it has if it is refused
		delete(s.shared, take)
		return taken == out.taken && s.answers(o, out, answer)
	case takes, takesLeaving, allows, takesAll, peeks, peeksAll, reserves, reservesAll:
		return s.answers(o, out, s.decide(o, at, p))
	case settles:
		s.settle(o, at, p.keys[0])
	case resets:
		if !out.tracked && s.tracks(o.keys[0], o) {
			return false
		}
		s.reset(o.keys[0])
	case setsLimits:
		s.table.SetLimits(o.keys[0], models(o.limits, s.chargesDenied()))
	case reconfigures:
		s.table.Reconfigure(models(o.limits, s.chargesDenied()))
	case restores:
		return s.restore(o, out, at)
	}
	return true
}

// reset removes the key.
func (s *serial) reset(key string) {
	s.table.Reset(key)
	delete(s.present, key)
}

// decide charges the call o at that placement, and returns the answer.
func (s *serial) decide(o *operation, at int64, p placement) (answer reference.Answer) {
	switch {
	case len(p.refused) > 0:
		s.reserved[o], s.shared[o] = make([]reference.Reservation, len(o.keys)), make([]bool, len(o.keys))
		return s.refuse(o, at, p)
	case o.verb == peeks || o.verb == peeksAll:
		return s.table.Peek(at, o.units, p.keys...)
	case o.verb == reserves || o.verb == reservesAll:
		var all []reference.Reservation
		all, answer = s.table.Leaving(o.leave).ReserveAll(at, o.units, p.keys...)
		s.reserved[o], s.shared[o] = all, make([]bool, len(all))
		for i, key := range o.keys {
			s.shared[o][i] = p.keys[i] != key
		}
		return answer
	}
	return s.table.Leaving(o.leave).Take(at, o.units, p.keys...)
}

// decides reports whether o is a call that a limiter decides.
func (o *operation) decides() bool {
	return slices.Contains([]verb{takes, takesLeaving, takesUpTo, allows, takesAll, peeks, peeksAll, reserves, reservesAll}, o.verb)
}

// needs returns how many units must be there for o.
func (o *operation) needs() int64 {
	if o.verb == takesUpTo {
		return 1
	}
	return o.units + o.leave
}

// save returns the states in which s may be after the Snapshot o has saved the key.
func (s *serial) save(o *operation, key string) []any {
	if s.saving != nil && s.saving != o {
		return nil // Snapshots do not overlap
	}
	after, saved := s.copy(), save{at: o.readings[0] + s.shift, present: map[string]bool{}}
	if so := s.saved[o]; so != nil {
		saved.table, saved.present, saved.keys = so.table.Copy(), maps.Clone(so.present), so.keys
	} else {
		saved.table = reference.NewTable(s.table.Limits(""))
	}
	s.table.Save(key, saved.table)
	if s.present[key] {
		saved.present[key] = true
	}
	saved.keys++
	after.saved[o], after.saving = &saved, o
	if saved.keys == len(historyKeys) {
		after.saving = nil
		after.done |= 1 << s.fixed.number[o]
	}
	return []any{after}
}

// restore applies the Restore o, and reports whether the outcome is out. The snapshot is
// refused if the limiter has other limits now, but for Unlimited, which has no effect next to
// others. Time continues from the beginning of the
// Snapshot.
func (s *serial) restore(o *operation, out outcome, at int64) bool {
	saved := s.saved[o.of]
	limits := func(t *reference.Table) []reference.Limit {
		return slices.DeleteFunc(slices.Clone(t.Limits("")), func(l reference.Limit) bool { return l.Unlimited })
	}
	if refused := !slices.Equal(limits(s.table), limits(saved.table)); refused || out.refused {
		return refused && out.refused
	}
	s.table.Restore(saved.table)
	s.present = maps.Clone(saved.present)
	s.shift += saved.at - at
	return true
}

// answers reports whether the answer a of the reference agrees with the outcome of o.
func (s *serial) answers(o *operation, out outcome, a reference.Answer) bool {
	if o.verb == allows {
		return out.decision.Allowed == a.Allowed
	}
	decided := s.table.Limits(a.DecidingKey)[a.Deciding]
	return out.decision.Allowed == a.Allowed &&
		out.decision.Remaining == a.Remaining &&
		out.decision.RetryAfter == time.Duration(a.RetryAfter) &&
		out.decision.ResetAfter == time.Duration(a.ResetAfter) &&
		models([]sash.Limit{out.decision.Limit}, decided.ChargeDenied)[0] == decided
}

// settle applies the settlement o.
//
//   - Units are given back without reading the clock: they come back as long as the key
//     itself can show them.
//   - Nothing is given back to a shared quota.
//   - Units above the estimate of a shared reservation are charged to the key, or to the
//     quota if the key does not fit.
func (s *serial) settle(o *operation, at int64, key string) {
	all := slices.Clone(s.reserved[o.of])
	switch r := all[o.which]; {
	case o.units <= o.of.units:
		if !s.shared[o.of][o.which] {
			s.table.Settle(math.MinInt64, r, o.units)
		}
	case s.shared[o.of][o.which] && !r.Equal(reference.Reservation{}):
		s.table.Spend(at, o.units-o.of.units, key)
	default:
		s.table.Settle(at, r, o.units)
	}
	for i, key := range o.of.keys {
		if key == o.keys[0] {
			all[i] = reference.Reservation{}
		}
	}
	s.reserved[o.of] = all
}

func (s *serial) chargesDenied() bool {
	return slices.ContainsFunc(s.table.Limits(""), func(l reference.Limit) bool { return l.ChargeDenied })
}

func (s *serial) copy() *serial {
	c := *s
	c.table, c.reserved, c.shared = s.table.Copy(), maps.Clone(s.reserved), maps.Clone(s.shared)
	c.saved, c.present = maps.Clone(s.saved), maps.Clone(s.present)
	return &c
}

func (s *serial) equal(o *serial) bool {
	return s.shift == o.shift && s.saving == o.saving && s.done == o.done && s.evicted == o.evicted &&
		s.table.Equal(o.table) && maps.Equal(s.present, o.present) &&
		maps.EqualFunc(s.saved, o.saved, func(a, b *save) bool {
			return a.at == b.at && a.keys == b.keys && maps.Equal(a.present, b.present) && a.table.Equal(b.table)
		}) &&
		maps.EqualFunc(s.shared, o.shared, slices.Equal) &&
		maps.EqualFunc(s.reserved, o.reserved, func(a, b []reference.Reservation) bool {
			return slices.EqualFunc(a, b, reference.Reservation.Equal)
		})
}

// String returns the state of each key, as a call at the newest time that it has seen
// would find it.
func (s *serial) String() (text string) {
	for _, key := range historyKeys {
		text += fmt.Sprintf("%s: %+v\n", key, s.table.Copy().Peek(math.MinInt64, 0, key))
	}
	return text
}
