package httplimit

import (
	"math"

	"github.com/seed-30da4c49/sash"
)

// carried returns the limits by which p decides, given those of the policy or of a plan.
//
// Under Settle, a request may cost more than is left. A token bucket then denies until all of
// it is paid. The other algorithms forget what they have counted after a window, however much
// it was. So each of them gets a token bucket of the same rate next to it, which carries the
// debt. See carrier for why the bucket denies nothing else.
func (p *Policy) carried(limits []sash.Limit) []sash.Limit {
	all := limits
	for _, l := range limits {
		if p.Settle != nil && forgetsDebts(l) {
			all = append(all[:len(all):len(all)], carrier(l))
		}
	}
	return all
}

// forgetsDebts reports whether l forgets after a window what was charged beyond it. A limit
// of Count 0 admits nothing that could be charged.
func forgetsDebts(l sash.Limit) bool {
	return l.Algorithm != sash.TokenBucket && l.Count > 0 && !isUnlimited(l)
}

// carrier returns the token bucket that carries the debts of l. It has the rate of l, and
// holds two quotas. In any time T, l admits at most 2*Count + Count*T/Window units: at most
// Count in each of the windows that T touches. A bucket of two quotas admits as much.
func carrier(l sash.Limit) sash.Limit {
	return l.TokenBucket(2 * min(l.Count, math.MaxInt64/2))
}
