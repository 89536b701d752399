package policyfile

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// fileFields are the fields of a file.
func fileFields(policies *[]httplimit.Policy) []field {
	return []field{
		{"$schema", func(r *reader, v value) { r.string(v, "the address of a schema") }, false},
		{"parts", (*reader).part, false},
		{"policies", func(r *reader, v value) { *policies = r.policyList(v) }, true},
	}
}

// part checks that no name is given twice in v. The rest is read where an alias stands for it.
func (r *reader) part(v value) {
	for i := range v.items {
		r.part(v.item(i))
	}
	r.eachEntry(v, func(e entry) { r.part(v.field(e)) })
}

func (r *reader) policyList(v value) (policies []httplimit.Policy) {
	if v.kind != list {
		r.fault(v, "must be a list of policies, got %v", v)
		return nil
	}
	r.quotas = map[string]string{}
	r.each(v, false, func(v value) { policies = append(policies, r.policy(v)) })
	return policies
}

func (r *reader) policy(v value) (p httplimit.Policy) {
	var leave leaving
	if !r.mapping(v, policyFields(&p, &leave)...) {
		return p
	}
	p.Leave = leave.compile(&p)
	if v.has("plan") != v.has("plans") {
		r.fault(v, "plan and plans need each other")
	}
	if p.Name != "" {
		r.checkQuotas(v, p)
	}
	return p
}

// policyFields are the fields of a policy, which are read into p, and what its requests leave.
func policyFields(p *httplimit.Policy, leave *leaving) []field {
	return []field{
		{"name", func(r *reader, v value) { p.Name = r.printable(v) }, true},
		{"pattern", func(r *reader, v value) { p.Pattern = r.pattern(v) }, false},
		{"limits", func(r *reader, v value) { p.Limits = r.limits(v) }, true},
		{"plan", func(r *reader, v value) { p.Plan = r.plan(v) }, false},
		{"plans", func(r *reader, v value) { p.Plans = r.plans(v) }, false},
		{"key", func(r *reader, v value) { p.Key = r.key(v) }, true},
		{"cost", func(r *reader, v value) { p.Cost = r.cost(v) }, false},
		{"leave", func(r *reader, v value) { *leave = r.leave(v) }, false},
		{"near", func(r *reader, v value) { p.Near = int(r.share(v)) }, false},
		{"unit", func(r *reader, v value) { p.Unit = r.printable(v) }, false},
		{"skip", func(r *reader, v value) { p.Skip = r.skip(v) }, false},
		{"charge", func(r *reader, v value) { p.Charge = r.charge(v) }, false},
		{"charge-uncertain", func(r *reader, v value) { p.ChargeUncertain = r.chargeUncertain(v) }, false},
		{"settle", func(r *reader, v value) { p.Settle = r.settle(v) }, false},
		{"queue", func(r *reader, v value) { r.mapping(v, queueFields(&p.Queue)...) }, false},
		{"shadow", func(r *reader, v value) { p.Shadow = r.bool(v) }, false},
	}
}

func (r *reader) pattern(v value) string {
	pattern, ok := r.string(v, "a pattern such as POST /login")
	if !ok {
		return ""
	}
	if err := route.Fault(pattern, r.paths); err != nil {
		r.faultAt(v.place, v.path, err)
	}
	return pattern
}

const (
	maxLimits    = 64      // limits of a policy, or of a plan
	maxAllLimits = 1 << 13 // limits of all policies and plans in a file, with each use of an alias counted anew
)

// limits reads one limit or a list of them.
func (r *reader) limits(v value) (limits []sash.Limit) {
	if len(v.items) > maxLimits {
		r.fault(v, "must be at most %d limits, got %d", maxLimits, len(v.items))
		return nil
	}
	before := r.limitCount
	if r.limitCount += max(1, len(v.items)); r.limitCount > maxAllLimits {
		if before <= maxAllLimits { // reported once
			r.fault(v, "more than %d limits in all policies and plans, counting each use of an alias", maxAllLimits)
		}
		return nil
	}
	r.each(v, false, func(v value) {
		s, ok := r.string(v, "a limit such as 100/m")
		if !ok {
			return
		}
		l, err := sash.ParseLimit(s)
		if err != nil {
			r.faultAt(v.place, v.path, err)
		}
		limits = append(limits, l)
	})
	return limits
}

// plans reads the limits of each plan.
func (r *reader) plans(v value) map[string][]sash.Limit {
	if v.kind != mapping {
		r.fault(v, "must be a mapping of plans to their limits, got %v", v)
		return nil
	}
	if len(v.entries) == 0 {
		r.fault(v, "must not be empty")
	}
	plans := make(map[string][]sash.Limit, len(v.entries))
	r.eachEntry(v, func(e entry) {
		if !isPrintable(e.name) {
			r.faultAt(e.place, v.pathOf(e.name), nameError("plan", e.name))
		}
		plans[e.name] = r.limits(v.field(e))
	})
	return plans
}

// nameError returns the fault of a name of that kind that is not printable.
func nameError(kind, name string) error {
	return fmt.Errorf("the name of a %s must be %s, got %s", kind, printableText, quote(name))
}

// plan reads how the plan of a request is found.
func (r *reader) plan(v value) (plan func(*http.Request) string) {
	if v.kind == mapping {
		r.mapping(v, planFields(&plan)...)
		return plan
	}
	plan, _ = registered(r, v, "a name or a mapping", r.plansOf, "WithPlan")
	return plan
}

func planFields(plan *func(*http.Request) string) []field {
	return []field{
		{"header", func(r *reader, v value) {
			if name := r.requestHeader(v); name != "" {
				*plan = func(r *http.Request) string { return onlyValue(r.Header[name]) }
			}
		}, true},
	}
}

// requestHeader returns the name of a header of requests in canonical form, "" if v is none.
func (r *reader) requestHeader(v value) string {
	name, ok := r.token(v, "the name of a header")
	if name = http.CanonicalHeaderKey(name); name == "Host" {
		r.fault(v, "requests have no header %v", v)
	}
	if !ok {
		return ""
	}
	return name
}

// onlyValue returns the value of a header that is given once, and otherwise "".
func onlyValue(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// cost reads a number of units, or the name of a function.
func (r *reader) cost(v value) func(*http.Request) int64 {
	if v.kind != number {
		cost, _ := registered(r, v, "a number or a name", r.costs, "WithCost")
		return cost
	}
	units, _ := r.int(v, 0, 1<<53)
	return func(*http.Request) int64 { return units }
}

// settle reads how a policy is settled.
func (r *reader) settle(v value) (settle func(*httplimit.Response) int64) {
	if v.kind == mapping {
		r.mapping(v, settleFields(&settle)...)
		return settle
	}
	switch {
	case v.kind == text && v.text == "bytes":
		return httplimit.SettleBytes()
	case v.kind == text && v.text == "estimate":
		return httplimit.SettleEstimate()
	}
	settle, _ = registered(r, v, "a name or a mapping", r.settles, "WithSettle", "bytes", "estimate")
	return settle
}

func settleFields(settle *func(*httplimit.Response) int64) []field {
	return []field{
		{"header", func(r *reader, v value) {
			if name, ok := r.token(v, "the name of a header"); ok {
				*settle = httplimit.SettleHeader(name)
			}
		}, true},
	}
}

// maxWaiting is how many requests a queue may be said to hold.
const maxWaiting = 1 << 30

func queueFields(q *httplimit.Queue) []field {
	return []field{
		{"wait", func(r *reader, v value) { q.Wait = r.duration(v) }, true},
		{"requests", func(r *reader, v value) { q.Requests = r.waiting(v, 1) }, true},
		{"requests-each", func(r *reader, v value) { q.RequestsEach = r.waiting(v, 0) }, false},
		{"requests-per-client", func(r *reader, v value) { q.RequestsPerClient = r.waiting(v, 0) }, false},
	}
}

func (r *reader) waiting(v value, least int64) int {
	n, _ := r.int(v, least, maxWaiting)
	return int(n)
}

// Statuses that a file may name.
const (
	leastStatus = 100
	endOfStatus = 1000
	noStatus    = 0 // stands for a request without an answer
)

// codes are the names of the codes of gRPC, and of Connect, which has the same, by their numbers.
var codes = [...]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE",
	"DATA_LOSS", "UNAUTHENTICATED",
}

// statuses are the statuses of HTTP and the codes of gRPC for which a request stays charged.
type statuses [endOfStatus]bool

func (s *statuses) has(status int) bool { return 0 <= status && status < len(s) && s[status] }

// charge reads for which statuses a request stays charged.
func (r *reader) charge(v value) func(status int) bool {
	kept := new(statuses)
	r.each(v, false, func(v value) { r.status(v, kept) })
	return kept.has
}

// chargeUncertain reads for which statuses a request stays charged if its answer is uncertain.
func (r *reader) chargeUncertain(v value) func(status int) bool {
	kept := new(statuses)
	r.each(v, true, func(v value) {
		if v.kind == text && v.text == "none" {
			kept[noStatus] = true
			return
		}
		r.status(v, kept)
	})
	return kept.has
}

// status adds the statuses that v names, such as 401, 4xx or UNAUTHENTICATED.
func (r *reader) status(v value, to *statuses) {
	if code := slices.Index(codes[:], v.text); v.kind == text && code >= 0 {
		to[code] = true
		return
	}
	if v.kind == text && len(v.text) == 3 && '1' <= v.text[0] && v.text[0] <= '9' && strings.EqualFold(v.text[1:], "xx") {
		first := 100 * int(v.text[0]-'0')
		for status := first; status < first+100; status++ {
			to[status] = true
		}
		return
	}
	if v.kind != number {
		r.fault(v, "must be a status such as 401, without quotes, a class such as 4xx, or a code of gRPC such as UNAUTHENTICATED, got %v%s", v, suggestion(v.text, codes[:]))
		return
	}
	if status, ok := r.int(v, leastStatus, endOfStatus-1); ok {
		to[status] = true
	}
}

// A skipping is what a policy skips.
type skipping struct {
	methods  map[string]bool
	networks networks
	address  []httplimit.AddressOption
	function func(*http.Request) bool
}

// skip reads which requests a policy skips.
func (r *reader) skip(v value) func(*http.Request) bool {
	if v.kind != mapping {
		function, _ := registered(r, v, "a name or a mapping", r.skips, "WithSkip")
		return function
	}
	var s skipping
	faults := r.count
	r.mapping(v, skipFields(&s)...)
	if len(v.entries) == 0 {
		r.fault(v, "must not be empty: its fields are %s", names(skipFields(&s)))
	}
	if v.has("address") && !v.has("networks") {
		r.fault(v, "address has no effect without networks")
	}
	if r.count > faults {
		return nil
	}
	return s.compile()
}

func skipFields(s *skipping) []field {
	return []field{
		{"methods", func(r *reader, v value) { s.methods = r.methods(v) }, false},
		{"networks", func(r *reader, v value) { s.networks = r.networks(v) }, false},
		{"address", func(r *reader, v value) { r.byAddress(v, &s.address, sourceFields(&s.address)) }, false},
		{"function", func(r *reader, v value) { s.function, _ = registered(r, v, "a name", r.skips, "WithSkip") }, false},
	}
}

// compile returns a function that reports whether a request has one of the methods of s, comes
// from one of its networks, or is skipped by its function.
func (s *skipping) compile() func(*http.Request) bool {
	inside := func(*http.Request) bool { return false }
	if len(s.networks) > 0 {
		inside = s.networks.hold(s.address)
	}
	return func(r *http.Request) bool {
		return s.methods[r.Method] || inside(r) || s.function != nil && s.function(r)
	}
}

// standardMethods are the methods that are written in capitals.
var standardMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

// methods reads one method or a list of them.
func (r *reader) methods(v value) map[string]bool {
	methods := map[string]bool{}
	r.each(v, false, func(v value) {
		method, ok := r.token(v, "a method such as OPTIONS")
		for _, standard := range standardMethods {
			if ok && method != standard && strings.EqualFold(method, standard) {
				r.faultAt(v.place, v.path, fmt.Errorf("no client sends %q: methods are written in capitals", method))
			}
		}
		methods[method] = true
	})
	return methods
}
