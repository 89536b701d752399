package httplimit_test

import (
	"slices"

	"github.com/seed-30da4c49/sash"
)

// debtBuckets returns the token buckets that carry the debts of limits, as documented with
// Policy.Settle, and the indices of those limits.
func debtBuckets(limits []sash.Limit) (buckets []sash.Limit, of []int) {
	for i, l := range limits {
		if l.Algorithm != sash.TokenBucket && !isHeld(l) && l.Count > 0 && l != sash.Unlimited() {
			buckets, of = append(buckets, l.TokenBucket(2*l.Count)), append(of, i)
		}
	}
	return buckets, of
}

// mayOwe reports whether the key of t carries debts. One with limits of its own does not.
func (t *modelTake) mayOwe() bool { return t.Settle != nil && !t.own }

// toldLimits returns the limits that observers are told of when the limits of allLimits decide.
func (t *modelTake) toldLimits() []sash.Limit {
	told := slices.Clone(t.limits)
	if t.mayOwe() {
		_, of := debtBuckets(t.limits)
		for _, i := range of {
			told = append(told, t.limits[i])
		}
	}
	return told
}

// allLimits returns the limits of the key of t, those that carry debts among them.
func (t *modelTake) allLimits() []sash.Limit {
	all := slices.Clone(t.limits)
	if t.mayOwe() {
		buckets, _ := debtBuckets(t.limits)
		all = append(all, buckets...)
	}
	return all
}
