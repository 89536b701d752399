package sash

import (
	"slices"
	"strings"
	"time"
)

// An overrides is what keys with limits of their own have in common until a Restore, like the
// timeline.
type overrides struct {
	timeline
	byKey    lazyMap[*override] // of SetLimits
	rulesets lazyMap[*ruleset]  // by cacheKey
}

func newOverrides(chargeDenied bool, origin int64) *overrides {
	o := new(overrides)
	o.timeline.begin(chargeDenied, origin)
	return o
}

// An override is the ruleset that SetLimits gave a key. Each SetLimits makes a new one.
// So a call that finds the same override twice knows that it was there throughout.
type override struct{ ruleset *ruleset }

// newRuleset returns the ruleset of limits. If it is the limiter's own, its entries need
// not point to it, and under a single limit they are smaller.
func (t *timeline) newRuleset(limits []Limit, own bool) *ruleset {
	limits = withoutUnlimited(limits)
	rs := &ruleset{timeline: t, rules: make([]rule, len(limits)), kind: kindMulti}
	for i, l := range limits {
		rs.rules[i].compile(l, t)
		rs.rings = rs.rings || rs.rules[i].form == ringForm
		rs.buckets = rs.buckets || rs.rules[i].form == debtForm
	}
	if own && len(limits) == 1 {
		rs.kind = rs.rules[0].kind()
	}
	rs.fresh = rs.newEntry("")
	rs.neverCharges = rs.unlimited() || rs.admitsNothing()
	return rs
}

// withoutUnlimited returns limits without those that are Unlimited, which have no effect
// next to others. If all are, it returns one of them.
func withoutUnlimited(limits []Limit) []Limit {
	if !slices.Contains(limits, Unlimited()) {
		return limits
	}
	others := slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool { return l == Unlimited() })
	if len(others) == 0 {
		return limits[:1]
	}
	return others
}

// newDenying returns the ruleset that denies in place of wrong limits, of which fault tells
// what is wrong.
func (t *timeline) newDenying(fault error) *ruleset {
	rs := t.newRuleset([]Limit{{Count: 0, Window: time.Second}}, false)
	rs.fault = fault
	return rs
}

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

func cacheKey(limits []Limit) string {
	if len(limits) == 1 {
		return limits[0].String() // that of Unlimited allocates nothing
	}
	var b strings.Builder
	for _, limit := range limits {
		b.WriteString(limit.String())
		b.WriteByte(',')
	}
	return b.String()
}
