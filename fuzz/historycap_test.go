package fuzz

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// This file models the promise of WithMaxKeys. A charged key that is not idle occupies one
// of the max keys. Any other key occupies one only while a call works on it. So for
// sequential calls it is known exactly which keys fit. While a call runs, the keys of
// overlapping calls may or may not be tracked, and a key that is being evicted may still
// be.

// A placement says where a call is decided: for each of its keys in the key's own state, or
// in the quota that the key shares. The call is denied if a key is refused.
type placement struct {
	keys    []string
	refused []string
}

// placements returns the possible placements of o, which had that outcome.
func (s *serial) placements(o *operation, out outcome) (all []placement) {
	own := placement{keys: o.keys}
	if o.verb == settles && s.shared[o.of][o.which] && s.crowded(o) && !s.tracks(o.keys[0], o) {
		return []placement{own, s.without(o, o.keys)}
	}
	if s.fixed.maxKeys == 0 || !o.decides() {
		return []placement{own}
	}
	targets := distinct(o.keys)
	if s.fixed.overflow == sash.EvictLeastUsed && len(targets) <= s.fixed.maxKeys {
		return []placement{own}
	}
	if s.others(o, false)+len(targets) <= s.fixed.maxKeys {
		all = append(all, own)
	}
	if !s.crowded(o) {
		return all
	}
	// Some keys do not fit. Idle keys of o may have been tracked or not.
	idle := slices.DeleteFunc(targets, func(key string) bool { return s.tracks(key, o) })
	for _, missing := range subsets(idle) {
		all = append(all, s.without(o, missing))
	}
	return all
}

// without returns the placement of o if the missing keys do not fit.
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

// refuse returns the answer to o if the keys refused by p do not fit. Nothing remains of
// them. A call for no units is admitted nevertheless, if the other keys admit it. Then the
// first key with nothing left decides, else the first that is waited for longest.
func (s *serial) refuse(o *operation, at int64, p placement) (a reference.Answer) {
	answers := make([]reference.Answer, len(o.keys))
	a.Allowed = o.units == 0
	for _, key := range o.keys {
		if !slices.Contains(p.refused, key) {
			a.Allowed = a.Allowed && s.table.Peek(at, 0, key).Allowed
		}
	}
	for i, key := range o.keys {
		switch answers[i] = (reference.Answer{DecidingKey: key}); {
		case !slices.Contains(p.refused, key) && a.Allowed:
			answers[i] = s.table.Peek(at, 0, key)
		case !slices.Contains(p.refused, key):
			answers[i] = s.table.Leaving(o.leave).Refuse(at, o.units, key)
		case o.units > 0:
			answers[i].RetryAfter = s.refusal(o, key)
		}
		a.ResetAfter = max(a.ResetAfter, answers[i].ResetAfter)
	}
	decides := slices.MaxFunc(answers, func(a, b reference.Answer) int { return cmp.Compare(a.RetryAfter, b.RetryAfter) })
	if a.Allowed {
		decides = slices.MinFunc(answers, func(a, b reference.Answer) int { return cmp.Compare(a.Remaining, b.Remaining) })
	}
	a.RetryAfter, a.Deciding, a.DecidingKey = decides.RetryAfter, decides.Deciding, decides.DecidingKey
	return a
}

// refusal returns the wait in the answer to o for a key that does not fit: the sweep
// interval, or Never for a call that can never be admitted.
func (s *serial) refusal(o *operation, key string) int64 {
	if len(distinct(o.keys)) > s.fixed.maxKeys {
		return reference.Never
	}
	for _, l := range s.table.Limits(key) {
		if o.needs() > atOnce(l) {
			return reference.Never
		}
	}
	var longest int64
	for _, l := range s.table.Limits("") { // the limiter's own
		if l.Burst > 0 { // until an empty bucket is full
			longest = max(longest, (l.Burst*l.Window-1)/l.Count+1)
		} else {
			longest = max(longest, l.Window)
		}
	}
	if s.fixed.sweeper == janitorSweeps {
		return int64(sweepInterval)
	}
	return max(longest/2, int64(time.Second))
}

// evictions returns the states in which s may be after running operations have evicted
// any number of keys to make room. An eviction shows at once. The call that makes room may
// decide later, or may find the room taken again.
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
			if left := after.String(); !seen[left] { // in whichever order they were evicted
				seen[left] = true
				all = append(all, after)
			}
		}
	}
	return all
}

// evict returns the state of s after the key was evicted, or nil if no running operation
// may have evicted it.
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

// mayEvict reports whether o may evict the key to make room. The key must not be idle, and
// must not be a key of o. No other key may have a greater part of its Count left. Keys of
// overlapping operations do not count for that, since what is left of them is not known.
func (s *serial) mayEvict(o *operation, key string) bool {
	switch {
	case !o.mayInsert(), slices.Contains(o.keys, key), !s.tracks(key, o), !s.crowded(o) && !s.doubled(o),
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

// left returns the part of its quota that the key has left.
func (s *serial) left(key string, o *operation) float64 {
	a := s.table.Peek(o.until+s.shift, 0, key)
	return float64(a.Remaining) / float64(atOnce(s.table.Limits(key)[a.Deciding]))
}

// atOnce returns the greatest number of units that l, which has a Count, admits at once.
func atOnce(l reference.Limit) int64 {
	if l.Burst > 0 {
		return l.Burst
	}
	return l.Count
}

// markPresent records that the keys of o may have an entry now.
func (s *serial) markPresent(o *operation) {
	if s.fixed.maxKeys > 0 && o.mayInsert() {
		union(s.present, o.keys)
	}
}

// mayInsert reports whether o may insert an entry for its keys.
func (o *operation) mayInsert() bool {
	return o.verb == settles || o.decides() && o.verb != peeks && o.verb != peeksAll
}

// fits reports whether the number of keys is within the cap when o has ended.
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

// crowded reports whether it is possible that not all keys of o fit.
func (s *serial) crowded(o *operation) bool {
	return s.others(o, true)+len(distinct(o.keys)) > s.fixed.maxKeys
}

// doubled reports whether it is possible that not all keys of o fit because another call
// has made room for the same key, and has not yet found out that the key is tracked.
func (s *serial) doubled(o *operation) bool {
	n := s.others(o, true)
	for _, key := range distinct(o.keys) {
		if n++; s.fixed.busy[o][key] {
			n++
		}
	}
	return n > s.fixed.maxKeys
}

// others returns the number of keys, other than the keys of o, that are certainly tracked; or
// with may, that are possibly tracked. An idle key is tracked until its eviction has
// ended, and any operation that overlaps o may be evicting it.
func (s *serial) others(o *operation, may bool) (n int) {
	alone := len(s.fixed.busy[o]) == 0 && s.fixed.sweeper == noSweeper
	for _, key := range historyKeys {
		if slices.Contains(o.keys, key) {
			continue
		}
		if s.tracks(key, o) || may && (s.fixed.busy[o][key] || s.present[key] && !alone) {
			n++
		}
	}
	return n
}

// tracks reports whether the key is not idle when o has ended, and so must be tracked.
func (s *serial) tracks(key string, o *operation) bool {
	return !s.table.Idle(o.until+s.shift, key)
}

// union adds keys to set, and returns it.
func union(set map[string]bool, keys []string) map[string]bool {
	for _, key := range keys {
		set[key] = true
	}
	return set
}

// distinct returns keys without duplicates, in order.
func distinct(keys []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(keys)))
}

// subsets returns all subsets of keys except the empty answer.
func subsets(keys []string) (all [][]string) {
	for mask := 1; mask < 1<<len(keys); mask++ {
		var subset []string
		for i, key := range keys {
			if mask&(1<<i) != 0 {
				subset = append(subset, key)
			}
		}
		all = append(all, subset)
	}
	return all
}
