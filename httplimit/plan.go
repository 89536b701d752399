package httplimit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// stored returns how a key in a store begins that belongs to v. It is the same in all
// processes. A Name and the name of a plan are printable, so no two variants begin alike.
func (v variant) stored() string {
	if v.plan == "" {
		return v.policy
	}
	return v.policy + storedPlan + v.plan
}

// under returns p under the plan of r.
func (p *policy) under(r *http.Request) *policy {
	if p.Plan == nil {
		return p
	}
	if planned := p.plans[p.Plan(r)]; planned != nil {
		return planned
	}
	return p
}

// planFaults calls fault, or add with the whole error, for each fault of the plans of p, which
// is called so.
func (p *Policy) planFaults(called string, fault func(wrapped error, format string, args ...any), add func(error)) {
	if len(p.Plans) > 0 && p.Plan == nil {
		fault(sash.ErrInvalidOption, "Plan must not be nil if there are Plans")
	}
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) {
		switch limits := p.Plans[plan]; {
		case plan == "":
			fault(sash.ErrInvalidOption, `Plans: the plan "" is Limits, and must not be among Plans`)
		case !fields.Printable(plan):
			fault(sash.ErrInvalidOption, "Plans: the name of a plan must be printable ASCII, got %q", plan)
		case len(limits) == 0:
			fault(sash.ErrNoLimit, "plan %q: its limits must not be empty", plan)
		default:
			for _, err := range internals.LimitFaults(p.deciding(limits)) {
				add(fmt.Errorf("httplimit: %s: plan %q: %w", called, plan, err))
			}
		}
	}
}
