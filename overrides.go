package sash

import (
	"encoding/binary"
	"math"
)

// An overrides is what keys with limits of their own have in common until a Restore, like the
// timeline.
type overrides struct {
	timeline
	byKey    lazyMap[*override] // of SetLimits
	rulesets lazyMap[*ruleset]  // by cacheKey
}

// newOverrides returns one without keys, whose timeline begins at the instant origin.
func newOverrides(chargeDenied bool, origin int64) *overrides {
	o := &overrides{timeline: timeline{chargeDenied: chargeDenied, origin: origin}}
	o.floor.Store(math.MinInt64)
	return o
}

// An override is the ruleset that SetLimits gave a key. Each SetLimits makes a new one.
// So a call that finds the same override twice knows that it was there throughout.
type override struct{ ruleset *ruleset }

// cachedRuleset returns the ruleset of keys that have limits of their own. It is the same
// for the same limits, so that a million keys of one plan share it.
func (o *overrides) cachedRuleset(limits []Limit) *ruleset {
	const maxCached = 4096 // a caller that makes up limits for each key pays for each
	name := cacheKey(limits)
	if rs, ok := o.rulesets.load(name); ok {
		return rs
	}
	rs := o.newRuleset(limits, false)
	if o.rulesets.forWriting().Size() < maxCached {
		rs, _ = o.rulesets.forWriting().LoadOrStore(name, rs) // another call may have been first
	}
	return rs
}

// cacheKey returns a text that no other limits have.
func cacheKey(limits []Limit) string {
	if len(limits) == 1 && limits[0] == Unlimited() {
		return unlimitedText // it allocates nothing
	}
	b := make([]byte, 0, 12*len(limits))
	for _, l := range limits {
		for _, field := range []int64{l.Count, int64(l.Window), int64(l.Algorithm), int64(l.Precision), l.Burst} {
			b = binary.AppendVarint(b, field)
		}
	}
	return string(b)
}
