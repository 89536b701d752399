package policyfile

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A leaving is what requests leave of their policy. Its shares follow from the limits of the policy, which
// may stand behind it in the file. The zero leaving leaves nothing.
type leaving struct {
	all      amount
	header   string // which names the class of a request, in canonical form; "": there are no classes
	classes  map[string]amount
	function func(*http.Request) int64 // decides instead; nil: none
}

// An amount is a number of units, or a share of the smallest of the limits that a request has.
type amount struct {
	units   int64
	percent int64 // 0: it is the units
}

// leave reads what requests leave: a number, a share, a name, or a mapping with the amount of each class.
func (r *reader) leave(v value) (l leaving) {
	if v.kind == mapping {
		r.mapping(v, leaveFields(&l)...)
		return l
	}
	if v.kind == number || isShare(v) {
		l.all = r.amount(v)
		return l
	}
	l.function, _ = registered(r, v, "a number, a share such as 20%, a name or a mapping", r.leaves, "WithLeave")
	return l
}

func leaveFields(l *leaving) []field {
	return []field{
		{"header", func(r *reader, v value) { l.header = r.requestHeader(v) }, true},
		{"classes", func(r *reader, v value) { l.classes = r.classes(v) }, true},
	}
}

// classes reads the amount of each class.
func (r *reader) classes(v value) map[string]amount {
	if v.kind != mapping {
		r.fault(v, "must be a mapping of classes to what they leave, got %v", v)
		return nil
	}
	if len(v.entries) == 0 {
		r.fault(v, "must not be empty")
	}
	classes := make(map[string]amount, len(v.entries))
	r.eachEntry(v, func(e entry) {
		if !isPrintable(e.name) {
			r.faultAt(e.place, v.pathOf(e.name), nameError("class", e.name))
		}
		classes[e.name] = r.amount(v.field(e))
	})
	return classes
}

// isShare reports whether v is meant to be a share.
func isShare(v value) bool { return v.kind == text && strings.HasSuffix(v.text, "%") }

// amount reads a number of units, or a share from 1% to 100%.
func (r *reader) amount(v value) (a amount) {
	if !isShare(v) {
		if v.kind == text {
			r.fault(v, "must be a number of units or a share such as 20%%, got %v", v)
			return a
		}
		a.units, _ = r.int(v, 0, 1<<53)
		return a
	}
	a.percent = r.share(v)
	return a
}

// share reads a share from 1% to 100%. It returns 0 if v is none.
func (r *reader) share(v value) (percent int64) {
	digits := strings.TrimSuffix(v.text, "%")
	percent, err := strconv.ParseInt(digits, 10, 64)
	if !isShare(v) || err != nil || strconv.FormatInt(percent, 10) != digits || percent < 1 || percent > 100 {
		r.fault(v, "must be a share from 1%% to 100%%, in whole percent, got %v", v)
		return 0
	}
	return percent
}

// compile returns the Leave of p, which has its other fields by now; nil if it leaves nothing.
func (l *leaving) compile(p *httplimit.Policy) func(*http.Request) int64 {
	if l.function != nil || l.header == "" && l.all == (amount{}) {
		return l.function
	}
	base := smallest(p.Limits)
	byPlan := make(map[string]int64, len(p.Plans))
	for plan, limits := range p.Plans {
		byPlan[plan] = smallest(limits)
	}
	planOf := p.Plan
	return func(r *http.Request) int64 {
		a := l.all
		if l.header != "" {
			a = l.classes[onlyValue(r.Header[l.header])]
		}
		if a.percent == 0 {
			return a.units
		}
		of := base
		if planOf != nil {
			if planned, ok := byPlan[planOf(r)]; ok {
				of = planned
			}
		}
		return window.Share(of, a.percent) // rounded up
	}
}

// smallest returns the most units that all limits admit at once: the least Count or, of a token bucket,
// Burst. It returns 0 if all are unlimited.
func smallest(limits []sash.Limit) (units int64) {
	units = math.MaxInt64
	for _, l := range limits {
		switch {
		case l == sash.Unlimited():
		case l.Algorithm == sash.TokenBucket:
			units = min(units, l.Burst)
		default:
			units = min(units, l.Count)
		}
	}
	if !slices.ContainsFunc(limits, func(l sash.Limit) bool { return l != sash.Unlimited() }) {
		return 0
	}
	return units
}
