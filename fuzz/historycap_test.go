package fuzz

import (
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// This is what WithMaxKeys promises. A key that has been charged, and is not idle, has
// one of the places; any other key has one only as long as a call is at work on it. So
// it is known exactly which keys fit where calls come one after the other. While a call
// runs, each key that another call is about may have a place, or none, and a key that is
// being evicted may still have its place.

// A placement is where a call is decided: for each of its keys in its own state, or in
// the quota that it shares. The call is denied if a key is refused.
type placement struct {
	keys    []string
	refused []string
}

// placements returns the placements that o, with that outcome, may have had.
func (s *serial) placements(o *operation, out outcome) (all []placement) {
	own := placement{keys: o.keys}
	if o.verb == settles && s.shared[o.of][o.which] && s.crowded(o) && !s.tracks(o.keys[0], o) {
		return []placement{own, s.without(o, o.keys)}
	}
	if s.fixed.maxKeys == 0 || !slices.Contains([]verb{takes, allows, takesAll, peeks, reserves, reservesAll}, o.verb) {
		return []placement{own}
	}
	targets := distinct(o.keys)
	if s.fixed.overflow == sash.EvictLeastUsed && len(targets) <= s.fixed.maxKeys {
		return []placement{own}
	}
	// Whether all keys fit is found out first. By the time at which one of them is found
	// to deny the call, another call may have taken the room.
	late := len(targets) > 1 && !out.decision.Allowed && len(s.fixed.busy[o]) > 0
	if late || s.others(o, false)+len(targets) <= s.fixed.maxKeys {
		all = append(all, own)
	}
	if !s.crowded(o) {
		return all
	}
	// Some keys have no place. Those that are idle may have had one, or not.
	idle := slices.DeleteFunc(targets, func(key string) bool { return s.tracks(key, o) })
	for _, missing := range subsets(idle) {
		all = append(all, s.without(o, missing))
	}
	return all
}

// without returns the placement of o if the missing keys have no place.
func (s *serial) without(o *operation, missing []string) placement {
	if s.fixed.overflow != sash.ShareOverflow {
		return placement{keys: o.keys, refused: missing}
	}
	p := placement{keys: slices.Clone(o.keys)}
	for i, key := range p.keys {
		if slices.Contains(missing, key) {
			p.keys[i] = s.quotas[key]
		}
	}
	return p
}

// refuse returns the answer to o if the keys refused by p have no place.
func (s *serial) refuse(o *operation, at int64, p placement) (a reference.Answer) {
	a.Allowed = o.units == 0
	for i, key := range o.keys {
		one := reference.Answer{DecidingKey: key}
		if !slices.Contains(p.refused, key) {
			one = s.table.Refuse(at, o.units, key)
		} else if o.units > 0 {
			one.RetryAfter = s.refusal(o, key)
		}
		if i == 0 || one.RetryAfter > a.RetryAfter {
			a.RetryAfter, a.Deciding, a.DecidingKey = one.RetryAfter, one.Deciding, one.DecidingKey
		}
		a.ResetAfter = max(a.ResetAfter, one.ResetAfter)
	}
	return a
}

// refusal returns the wait that o is told for a key that has no place: the interval of
// the sweeps, but for what will never be admitted.
func (s *serial) refusal(o *operation, key string) int64 {
	if len(distinct(o.keys)) > s.fixed.maxKeys {
		return reference.Never
	}
	var longest int64
	for _, l := range s.table.Limits(key) {
		if o.units > l.Count {
			return reference.Never
		}
		longest = max(longest, l.Window)
	}
	if s.fixed.sweeper == janitor {
		return int64(sweepInterval)
	}
	return max(longest/2, int64(time.Second))
}

// evictions returns the states in which s may be after operations that are under way
// have evicted keys to make room, or none. Each eviction shows at once, while the call
// that it makes room for may take until later, or find the room taken again.
func (s *serial) evictions() (all []*serial) {
	all = []*serial{s}
	if s.fixed.stats.Displaced == 0 {
		return all
	}
	seen := map[string]bool{}
	for i := 0; i < len(all); i++ {
		for _, key := range historyKeys {
			after := all[i].evict(key)
			if after == nil {
				continue
			}
			if left := after.String(); !seen[left] { // whichever went first
				seen[left] = true
				all = append(all, after)
			}
		}
	}
	return all
}

// evict returns the state in which s is after the key was evicted, if an operation
// under way may have done that; else nil.
func (s *serial) evict(key string) *serial {
	if s.evicted == s.fixed.stats.Displaced {
		return nil
	}
	for o, number := range s.fixed.number {
		if s.done.has(number) || s.fixed.earlier[o]&^s.done != 0 || !s.mayEvict(o, key) {
			continue
		}
		after := s.copy()
		after.reset(key)
		after.evicted++
		return after
	}
	return nil
}

// mayEvict reports whether o may evict the key to make room. It is not idle and not one
// of o's own, and o has passed over no key that has more left, as far as that can be
// known: of a key that another operation is at, it may have been another part.
func (s *serial) mayEvict(o *operation, key string) bool {
	switch {
	case !o.enters(), slices.Contains(o.keys, key), !s.tracks(key, o), !s.crowded(o) && !s.doubled(o),
		o.verb != settles && s.fixed.overflow != sash.EvictLeastUsed:
		return false
	}
	for _, other := range historyKeys {
		if !slices.Contains(o.keys, other) && !s.fixed.busy[o][other] && s.tracks(other, o) && s.left(other, o) > s.left(key, o) {
			return false
		}
	}
	return true
}

// left returns the part of its Count that is left to the key.
func (s *serial) left(key string, o *operation) float64 {
	a := s.table.Peek(o.until+s.shift, 0, key)
	return float64(a.Remaining) / float64(s.table.Limits(key)[a.Deciding].Count)
}

// enter notes that the keys of o may have an entry now.
func (s *serial) enter(o *operation) {
	if s.fixed.maxKeys > 0 && o.enters() {
		union(s.entered, o.keys)
	}
}

// enters reports whether o may make an entry for its keys.
func (o *operation) enters() bool {
	return slices.Contains([]verb{takes, allows, takesAll, reserves, reservesAll, settles}, o.verb)
}

// fits reports whether there are no more keys than there may be when o has ended.
func (s *serial) fits(o *operation) bool {
	if s.fixed.maxKeys == 0 {
		return true
	}
	n := 0
	for _, key := range historyKeys {
		if s.tracks(key, o) {
			n++
		}
	}
	return n <= s.fixed.maxKeys
}

// crowded reports whether the keys of o may not all have found a place.
func (s *serial) crowded(o *operation) bool {
	return s.others(o, true)+len(distinct(o.keys)) > s.fixed.maxKeys
}

// doubled reports whether the keys of o may not all have found a place because another
// call had taken one for the same key, too, until it was found to be there already.
func (s *serial) doubled(o *operation) bool {
	n := s.others(o, true)
	for _, key := range distinct(o.keys) {
		if n++; s.fixed.busy[o][key] {
			n++
		}
	}
	return n > s.fixed.maxKeys
}

// others returns how many keys that o is not about have a place for sure, or may have.
// An idle key has its place until its eviction has ended. Whatever runs at the same time
// as o may be at that.
func (s *serial) others(o *operation, may bool) (n int) {
	alone := len(s.fixed.busy[o]) == 0 && s.fixed.sweeper == nobody
	for _, key := range historyKeys {
		if slices.Contains(o.keys, key) {
			continue
		}
		if s.tracks(key, o) || may && (s.fixed.busy[o][key] || s.entered[key] && !alone) {
			n++
		}
	}
	return n
}

// tracks reports whether the key is not idle when o has ended, so that it has a place.
func (s *serial) tracks(key string, o *operation) bool {
	return !s.table.Idle(o.until+s.shift, key)
}

// union returns set with keys, too.
func union(set map[string]bool, keys []string) map[string]bool {
	for _, key := range keys {
		set[key] = true
	}
	return set
}

// distinct returns keys, each once.
func distinct(keys []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(keys)))
}

// subsets returns all subsets of keys but the empty one.
func subsets(keys []string) (all [][]string) {
	for mask := 1; mask < 1<<len(keys); mask++ {
		var some []string
		for i, key := range keys {
			if mask&(1<<i) != 0 {
				some = append(some, key)
			}
		}
		all = append(all, some)
	}
	return all
}
