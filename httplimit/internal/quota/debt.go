package quota

import (
	"math"

	"github.com/seed-30da4c49/sash"
)

// WithCarriers returns limits that carry debts. Under Settle, a request may cost more than is left. A
// token bucket then denies until all of it is paid, and the other algorithms forget it after a window. So
// each of them gets a token bucket of the same rate next to it. See carrier for why that denies nothing
// else.
func WithCarriers(limits []sash.Limit) []sash.Limit {
	all := limits
	for _, l := range limits {
		if forgetsDebts(l) {
			all = append(all[:len(all):len(all)], carrier(l))
		}
	}
	return all
}

// Carries reports whether carrying is the limit that carries the debts of l.
func Carries(carrying, l sash.Limit) bool { return forgetsDebts(l) && carrier(l) == carrying }

// forgetsDebts reports whether l forgets after a window what was charged beyond it.
func forgetsDebts(l sash.Limit) bool {
	return l.Algorithm != sash.TokenBucket && !IsUnlimited(l) && l.Count > 0 // or it admits nothing
}

// carrier returns the token bucket that carries the debts of l. It has the rate of l, and holds two
// quotas. In any time T, l admits at most 2*Count + Count*T/Window units: Count in each window that T
// touches. The bucket admits as much.
func carrier(l sash.Limit) sash.Limit {
	return l.TokenBucket(2 * min(l.Count, math.MaxInt64/2))
}
