package httplimit

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// A table is all that a limiter makes of its policies. It does not change: Reconfigure makes
// another one. A call has one table from its beginning to its end, or starts over.
type table struct {
	given       []Policy      // in the order in which they were given
	policies    []*policy     // the enforced ones, then the shadows
	firstShadow int           // index in policies
	mayQueue    bool          // whether a policy has a Queue
	replaced    chan struct{} // closed once another table has replaced this one: requests that wait start over

	routes route.Table

	// Keys of the sash.Limiter begin with the number of a variant.
	variants []*policy                     // the policies and, for each of their plans, another one
	numbers  map[variant]int               // of variants
	byNumber map[int]*policy               // the inverse of numbers
	next     int                           // no number from here on was ever given
	base     *policy                       // whose limits are the own limits of the sash.Limiter
	own      func(key string) []sash.Limit // the caller's sash.WithLimitsFor; nil: none
}

// A variant names a policy under one plan. The empty plan is the policy's own Limits.
type variant struct{ policy, plan string }

// stored returns how a key in a store begins that belongs to v. It is the same in all
// processes. A Name and the name of a plan are printable, so no two variants begin alike.
func (v variant) stored() string {
	if v.plan == "" {
		return v.policy
	}
	return v.policy + storedPlan + v.plan
}

// newTable compiles valid policies. former is the table that the new one is to replace; nil for
// none. A variant that is in both has the same number in both, and so keeps its keys. No other
// number is used twice. So a policy that was taken away and comes again begins anew, even if
// requests that were charged under it before are still being served.
func newTable(policies []Policy, paths route.Paths, own func(string) []sash.Limit, former *table) *table {
	if former == nil {
		former = new(table)
	}
	t := &table{
		given: clonePolicies(policies), own: own, routes: route.NewTable(paths),
		numbers: make(map[variant]int), byNumber: make(map[int]*policy), next: former.next,
		replaced: make(chan struct{}),
	}
	for _, shadow := range []bool{false, true} {
		t.firstShadow = len(t.policies)
		for _, p := range t.given {
			if p.Shadow == shadow {
				t.policies = append(t.policies, t.newVariant(p, "", t.routes.Add(p.Pattern), former))
			}
		}
	}
	for _, p := range t.policies {
		t.mayQueue = t.mayQueue || p.queues()
		t.addPlans(p, former)
	}
	if t.base = t.policies[0]; former.base != nil {
		if still := t.byNumber[former.base.number]; still != nil {
			t.base = still // its keys need not be converted
		}
	}
	return t
}

// newVariant compiles a policy under one plan. It has the Limits of the plan.
func (t *table) newVariant(p Policy, plan string, route int, former *table) *policy {
	name := variant{p.Name, plan}
	number, stays := former.numbers[name]
	if !stays { // a number that no key has ever had
		number = t.next
		t.next++
	}
	made := newPolicy(p, number, route)
	made.storedName = name.stored()
	t.variants = append(t.variants, made)
	t.numbers[name], t.byNumber[number] = number, made
	return made
}

// addPlans compiles the plans of p.
func (t *table) addPlans(p *policy, former *table) {
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) { // sorted, so that numbers are the same in each process
		under := p.Policy
		under.Limits = p.Plans[plan]
		if p.plans == nil {
			p.plans = make(map[string]*policy)
		}
		p.plans[plan] = t.newVariant(under, plan, p.route, former)
	}
}

// policy returns the policy of that name, nil if there is none.
func (t *table) policy(name string) *policy {
	i := slices.IndexFunc(t.policies, func(p *policy) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return t.policies[i]
}

// limitsFor returns the limits of a key, from the caller's sash.WithLimitsFor or from its policy. None
// means the limiter's own limits, which base has.
//
// The keys of a policy that was taken away are unlimited. So they are not tracked any more: the
// Reconfigure drops them.
func (t *table) limitsFor(key string) []sash.Limit {
	if t.gone(key) {
		return []sash.Limit{sash.Unlimited()}
	}
	if t.own != nil { // limits of a key's own go before the policy's
		if limits := t.own(key); len(limits) > 0 {
			return limits
		}
	}
	if p, _, _ := t.cutKey(key); p != nil && p != t.base {
		return p.Limits
	}
	return nil
}

// gone reports whether key is one of a policy, or plan, that was taken away.
func (t *table) gone(key string) bool {
	number, _, form := cutKeyPrefix(key)
	return form != foreign && t.byNumber[number] == nil && number < t.next
}

// cutKey returns the policy of a key of the sash.Limiter, and the identity or its digest. p is nil if
// the key is foreign. A key of a policy that was taken away is foreign, too.
func (t *table) cutKey(key string) (p *policy, identity string, form keyForm) {
	number, identity, form := cutKeyPrefix(key)
	if p = t.byNumber[number]; p == nil || form == foreign {
		return nil, "", foreign
	}
	return p, identity, form
}

// cutStoredKey is cutKey of a key in a store.
func (t *table) cutStoredKey(key string) (p *policy, identity string, form keyForm) {
	end := strings.IndexAny(key, storedIdentity+storedDigest)
	i := slices.IndexFunc(t.variants, func(p *policy) bool { return end >= 0 && p.storedName == key[:end] })
	if i < 0 {
		return nil, "", foreign
	}
	if form = whole; key[end] == storedDigest[0] {
		form = digested
	}
	return t.variants[i], key[end+1:], form
}

// sweepInterval returns how often to sweep, if the caller has not said. That is the default of
// sash for the longest window of all policies: sash itself knows only the limits of base.
func (t *table) sweepInterval() time.Duration {
	var longest time.Duration
	for _, p := range t.variants {
		for _, limit := range p.Limits {
			_, window := quota.UnitsAndWindow(limit)
			longest = max(longest, window)
		}
	}
	return internals.SweepInterval(longest)
}

// refusal returns why sash.Limiter.Reconfigure of the limiter below is refused; nil if it is not.
func (t *table) refusal() error {
	n := len(t.variants)
	if n == 1 {
		return nil
	}
	return fmt.Errorf("httplimit: sash.Limiter.Reconfigure does not say which of %d policies and plans the limits are for; "+
		"Limiter.Reconfigure replaces policies, and SetLimits gives limits to a key of KeyFor: %w", n, errors.ErrUnsupported)
}
