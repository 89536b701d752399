package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
)

// neverAdmits finds requests that no wait would admit, whatever the program says.
func neverAdmits(file *policies.File, i int) string {
	p := &file.Policies[i]
	if p.Shadow {
		return "" // it denies nothing
	}
	cost, costs := leastCost(p)
	amounts := map[string]string{"": p.Leave.Amount}
	maps.Copy(amounts, p.Leave.Classes)
	for _, plan := range slices.Concat([]string{""}, slices.Sorted(maps.Keys(p.Plans))) {
		limits, under := p.Limits, ""
		if plan != "" {
			limits, under = p.Plans[plan], fmt.Sprintf(" under %q", plan)
		}
		holds, least := smallest(limits)
		if holds == 0 || holds == math.MaxInt64 {
			continue // a limit of 0 admits nothing on purpose, and the others are unlimited
		}
		if cost > holds {
			return fmt.Sprintf("no request is ever admitted%s: each costs %d, and %v holds %d", under, cost, least, holds)
		}
		for _, class := range slices.Sorted(maps.Keys(amounts)) {
			if leaves := unitsOf(amounts[class], holds); leaves > holds-cost {
				of := "no request"
				if class != "" {
					of = fmt.Sprintf("no request of the class %q", class)
				}
				return fmt.Sprintf("%s is ever admitted%s: it leaves %s%s, and %v holds %d", of, under, amounts[class], costs, least, holds)
			}
		}
	}
	return ""
}

// leastCost returns the least that a request costs, and the words for it. They are "" if the program tells
// the cost, which may be 0.
func leastCost(p *policies.Policy) (cost int64, words string) {
	cost = 1
	switch {
	case p.Cost != nil:
		cost = *p.Cost
	case p.Policy.Cost != nil:
		return 0, ""
	}
	return cost, fmt.Sprintf(" and costs %d", cost)
}

// smallest returns the limit that holds least, and what it holds at once.
func smallest(limits []sash.Limit) (holds int64, least sash.Limit) {
	holds = math.MaxInt64
	for _, l := range limits {
		at := l.Count
		if l.Algorithm == sash.TokenBucket {
			at = l.Burst
		}
		if l != sash.Unlimited() && at < holds {
			holds, least = at, l
		}
	}
	return holds, least
}

// unitsOf returns an amount in units, where a share is of what a limit holds, rounded up.
func unitsOf(amount string, holds int64) int64 {
	if share, found := strings.CutSuffix(amount, "%"); found {
		percent, _ := strconv.ParseInt(share, 10, 64)
		return holds/100*percent + (holds%100*percent+99)/100
	}
	units, _ := strconv.ParseInt(amount, 10, 64)
	return units
}

func counter(file *policies.File, i int) string {
	for _, l := range file.Policies[i].AllLimits() {
		if l.Algorithm == sash.SlidingCounter && l != sash.Unlimited() {
			return fmt.Sprintf("%v may deny a client that keeps to it: without the word counter, it never does, and takes more memory", l)
		}
	}
	return ""
}

// leastLease is the lease under which a limit of what is at once is taken for a mistake.
const leastLease = 5 * time.Second

func shortLease(file *policies.File, i int) string {
	for _, l := range file.Policies[i].AllLimits() {
		if l.Algorithm == sash.Concurrency && l.Window < leastLease {
			return fmt.Sprintf("under %v, a request that lasts longer than %s does not count any more: the lease must be longer than any handler runs", l, output.Short(l.Window))
		}
	}
	return ""
}
