// Package quota describes limits to clients, and makes limits that carry debts.
package quota

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A Quota is one limit in the form that clients see.
type Quota struct {
	Limit  sash.Limit
	Name   string
	Quoted string // Name as a String of RFC 9651
	Policy string // the quota as in RateLimit-Policy, without pk
	Units  string // in digits
}

// New returns the quota of a limit under that name, for costs in that unit.
func New(l sash.Limit, name, unit string) *Quota {
	quoted := fields.AppendString(nil, name)
	units, within := UnitsAndWindow(l)
	policy := fields.AppendInteger(append(quoted, ";q="...), units)
	if unit == "" && IsHeld(l) {
		unit = "concurrent-requests"
	}
	if unit != "" {
		policy = fields.AppendString(append(policy, ";qu="...), unit)
	}
	// There is no w for a window under a second, nor for a lease, which is not the client's business. Other
	// windows are rounded up: a client that keeps to a longer window keeps to the limit.
	if within >= time.Second && !IsHeld(l) {
		policy = fields.AppendInteger(append(policy, ";w="...), fields.Seconds(within))
	}
	return &Quota{l, name, string(quoted), string(policy), strconv.FormatInt(units, 10)}
}

// Of returns the quotas of the limits of a policy, all but sash.Unlimited.
func Of(policy string, limits []sash.Limit, unit string) (all []*Quota) {
	limits = limited(limits)
	names := namesOf(policy, limits)
	for i, l := range limits {
		all = append(all, New(l, names[len(names)-len(limits)+i], unit))
	}
	return all
}

// Names returns the names that clients see under each plan of a policy. These are the policy's name and,
// if there are several limits, a name for each. Some occur several times.
func Names(policy string, limits []sash.Limit, plans map[string][]sash.Limit) []string {
	names := namesOf(policy, limited(limits))
	for _, plan := range slices.Sorted(maps.Keys(plans)) {
		names = append(names, namesOf(policy, limited(plans[plan]))...)
	}
	return names
}

// namesOf returns the name of a policy and, if it has several limits, the name of each.
func namesOf(policy string, limits []sash.Limit) []string {
	names := []string{policy}
	if len(limits) < 2 {
		return names
	}
	of := map[string]int{} // how many limits there are of each kind
	for _, l := range limits {
		kind := shortDuration(l.Window)
		if IsHeld(l) {
			kind = "at-once"
		}
		name := policy + "-" + kind
		if of[kind]++; of[kind] > 1 {
			name += "-" + strconv.Itoa(of[kind])
		}
		names = append(names, name)
	}
	return names
}

// limited returns limits without sash.Unlimited.
func limited(limits []sash.Limit) []sash.Limit {
	return slices.DeleteFunc(slices.Clone(limits), IsUnlimited)
}

// IsUnlimited reports whether l admits everything.
func IsUnlimited(l sash.Limit) bool { return l == sash.Unlimited() }

// IsHeld reports whether l is a limit of units that are held at a time.
func IsHeld(l sash.Limit) bool { return l.Algorithm == sash.Concurrency }

// shortDuration writes a window in its shortest form: 1m and not 1m0s.
func shortDuration(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return strings.ReplaceAll(d.String(), "µ", "u") // names are ASCII
}

// UnitsAndWindow returns the quota that l is to clients: units, and the time in which a client that has
// spent them has as many again. These are Count and Window, except for a token bucket. It grants Burst
// units at once, and an empty bucket fills in Burst*Window/Count: rounded up, and at most sash.Never.
func UnitsAndWindow(l sash.Limit) (units int64, within time.Duration) {
	if l.Algorithm != sash.TokenBucket || l.Count == 0 { // a Count of 0 grants nothing
		return l.Count, l.Window
	}
	b := window.TokenBucket{Count: l.Count, Window: int64(l.Window), Burst: l.Burst}
	return l.Burst, b.ResetAfter(b.Cost(l.Burst))
}

// WithCarriers returns limits, with a token bucket of the same rate next to each that forgets after a
// window what was charged beyond it. See carrier for why that denies nothing but debts.
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

// forgetsDebts reports whether l forgets after a window what was charged beyond it. Units that are held are
// not used, and so never owed.
func forgetsDebts(l sash.Limit) bool {
	return l.Algorithm != sash.TokenBucket && !IsHeld(l) && !IsUnlimited(l) && l.Count > 0 // or it admits nothing
}

// carrier returns the token bucket that carries the debts of l. It has the rate of l, and holds two
// quotas. In any time T, l admits at most 2*Count + Count*T/Window units: Count in each window that T
// touches. The bucket admits as much.
func carrier(l sash.Limit) sash.Limit {
	return l.TokenBucket(2 * min(l.Count, math.MaxInt64/2))
}
