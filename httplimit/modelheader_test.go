package httplimit_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// checkHeader checks the header fields of the answer to x, and its Denial.
func (m *model) checkHeader(x *exchange, at int64) {
	h := x.header
	if h == nil {
		return // Decide was given none
	}
	var takes []*modelTake // with quotas
	for i := range x.expected.enforcedTakes() {
		if t := &x.expected.takes[i]; !isUnlimited(t.limits) {
			takes = append(takes, t)
		}
	}
	known := x.expected.outcome == httplimit.Admitted
	if behind := known && !x.admitted && !slices.ContainsFunc(takes, func(t *modelTake) bool { return !m.admits(t, at, t.cost) }); behind {
		return // the policy that others wait for tells what would be left
	}
	m.checkQuotas(x, takes, known && !m.withoutRateLimit, at)
	m.checkOlder(x, takes, known && m.xRateLimit, at)
	m.checkRetryAfter(x, at)
}

// field returns the value of a field as one list.
func (x *exchange) value(name string) string { return strings.Join(x.header[name], ", ") }

var partitionKey = regexp.MustCompile(`;pk=:[A-Za-z0-9+/=]+:`)

// checkQuotas checks RateLimit-Policy and RateLimit.
func (m *model) checkQuotas(x *exchange, takes []*modelTake, sent bool, at int64) {
	policies, quotas := x.value("Ratelimit-Policy"), x.value("Ratelimit")
	if !sent || len(takes) == 0 {
		if policies+quotas != "" {
			m.failf("exchange %d: it has no quotas, but %q and %q", x.number, policies, quotas)
		}
		return
	}
	if keys := len(partitionKey.FindAllString(quotas, -1)); m.partition && keys != len(takes) || !m.partition && keys > 0 {
		m.failf("exchange %d: %d partition keys in %q", x.number, keys, quotas)
	}
	policies, quotas = partitionKey.ReplaceAllString(policies, ""), partitionKey.ReplaceAllString(quotas, "")
	var want []string
	for _, t := range takes {
		if !slices.Equal(t.limits, t.planned()) {
			want = append(want, "a quota of its own") // that which decides
			continue
		}
		for i := range t.limits {
			want = append(want, t.quotaField(i))
		}
	}
	if !slices.Contains(want, "a quota of its own") && policies != strings.Join(want, ", ") {
		m.failf("exchange %d: RateLimit-Policy is %q, want %q", x.number, policies, strings.Join(want, ", "))
	}
	members := strings.Split(quotas, ", ")
	if len(members) != len(takes) {
		m.failf("exchange %d: RateLimit is %q, of %d policies", x.number, quotas, len(takes))
	}
	for i, t := range takes {
		m.checkQuota(x, t, members[i], at)
	}
}

// planned returns the limits of the policy under the plan of the request.
func (t *modelTake) planned() []sash.Limit {
	if t.plan != "" {
		return t.Plans[t.plan]
	}
	return t.Limits
}

// quotaName returns the name of a limit of t, as documented with Policy.Name.
func (t *modelTake) quotaName(i int) string {
	l := t.limits[i]
	if len(t.limits) == 1 || !slices.Contains(t.planned(), l) {
		return t.Name
	}
	if len(t.planned()) == 1 {
		return t.Name
	}
	same := 0
	for _, other := range t.limits[:i+1] {
		if isHeld(other) == isHeld(l) && (isHeld(l) || other.Window == l.Window) {
			same++
		}
	}
	name := t.Name + "-" + labels[l.Window]
	if isHeld(l) {
		name = t.Name + "-at-once"
	}
	if same > 1 {
		name += "-" + strconv.Itoa(same)
	}
	return name
}

// quotaField returns a limit of t as RateLimit-Policy has it.
func (t *modelTake) quotaField(i int) string {
	l := t.limits[i]
	n, within := l.Count, int64(l.Window)
	if l.Algorithm == sash.TokenBucket {
		n, within = l.Burst, (l.Burst*within+l.Count-1)/l.Count // in which an empty bucket fills
	}
	field := fmt.Sprintf("%q;q=%d", t.quotaName(i), n)
	switch {
	case t.Unit != "":
		field += fmt.Sprintf(";qu=%q", t.Unit)
	case isHeld(l):
		field += `;qu="concurrent-requests"`
	}
	if within >= 1_000_000_000 && !isHeld(l) {
		field += fmt.Sprintf(";w=%d", (within+999_999_999)/1_000_000_000)
	}
	return field
}

var quotaMember = regexp.MustCompile(`^"([!-~]+)";r=(\d+)(?:;t=(\d+))?$`)

// checkQuota checks the member of RateLimit about t.
func (m *model) checkQuota(x *exchange, t *modelTake, member string, at int64) {
	parts := quotaMember.FindStringSubmatch(member)
	if parts == nil {
		m.failf("exchange %d: RateLimit has %q", x.number, member)
	}
	left, _ := strconv.ParseInt(parts[2], 10, 64)
	if left > 0 && !m.admits(t, at, left) || m.admits(t, at, left+1) {
		m.failf("exchange %d: RateLimit has %q, but %d are left", x.number, member, m.table.Peek(at, 0, t.key).Remaining)
	}
	m.checkSeconds(x, "RateLimit: "+member, parts[3], func(seconds int64) bool { return m.admitsAsTold(t, at, seconds*1_000_000_000, left+1) })
	names := make([]string, len(t.limits))
	for i := range t.limits {
		names[i] = t.quotaName(i)
	}
	if t.mayOwe() {
		_, of := debtBuckets(t.limits)
		for _, i := range of { // debts are told by the name of the limit
			names = append(names, names[i])
		}
	}
	if len(names) > 1 && !m.chargesDenied && m.random.IntN(4) == 0 { // a search takes long
		names = names[m.leaving(t).Peek(at, left+1, t.key).Deciding:][:1]
	}
	if !slices.Contains(names, parts[1]) {
		m.failf("exchange %d: RateLimit has %q, want one of %q", x.number, member, names)
	}
}

// admitsAsTold reports whether clients are told that n units of the key of t are admitted after that time. Where
// units are held, that is at most a second, unless the other limits deny the units for longer.
func (m *model) admitsAsTold(t *modelTake, at, after, n int64) bool {
	const soon = 1_000_000_000
	switch {
	case m.admits(t, at+after, n):
		return true
	case !t.holds() || after < soon:
		return false
	}
	v := m.leaving(t).Foresee(at, n, t.key)
	if m.store != nil { // it tells of the limit alone that denies for longest
		a := v.Answer()
		return a.RetryAfter < reference.Never && isHeld(t.allLimits()[a.Deciding])
	}
	return v.LeastWait() <= after
}

// checkSeconds checks that something holds after that many whole seconds and not earlier, or, without
// any, never.
func (m *model) checkSeconds(x *exchange, what, digits string, holds func(seconds int64) bool) {
	const ever = 100 * 3600
	seconds, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case digits == "" && holds(ever):
		m.failf("exchange %d: %s has no time", x.number, what)
	case digits != "" && (err != nil || seconds < 1 || !holds(seconds) || holds(seconds-1)):
		m.failf("exchange %d: %s has the wrong time", x.number, what)
	}
}

// checkOlder checks the X-RateLimit fields of an exchange with one policy. Those of several are about
// one of them.
func (m *model) checkOlder(x *exchange, takes []*modelTake, sent bool, at int64) {
	limit, left, reset := x.value("X-Ratelimit-Limit"), x.value("X-Ratelimit-Remaining"), x.value("X-Ratelimit-Reset")
	if !sent || len(takes) == 0 {
		if limit+left+reset != "" {
			m.failf("exchange %d: it has X-RateLimit fields", x.number)
		}
		return
	}
	fits := func(t *modelTake) bool {
		n, err := strconv.ParseInt(left, 10, 64)
		if err != nil || n > 0 && !m.admits(t, at, n) || m.admits(t, at, n+1) {
			return false
		}
		s, err := strconv.ParseInt(reset, 10, 64)
		const never = 8_000_000_000
		until := time.Duration(min(s, never)) * time.Second
		if m.resetTime && s <= never {
			until -= time.Duration(x.decided.wall)
		}
		idle := func(d time.Duration) bool { return s > never || m.table.Idle(at+int64(d), t.key) }
		withheld := !x.admitted && m.admits(t, at, t.cost) // it tells when it would be full if it were charged
		if soon := t.holds() && until <= 2*time.Second && !idle(until); err != nil || !m.chargesDenied && !withheld && !soon && (!idle(until) || until >= time.Second && s <= never && idle(until-time.Second)) {
			return false
		}
		return slices.ContainsFunc(t.limits, func(l sash.Limit) bool {
			return limit == strconv.FormatInt(l.Count, 10) && l.Burst == 0 || limit == strconv.FormatInt(l.Burst, 10)
		})
	}
	if !slices.ContainsFunc(takes, fits) {
		m.failf("exchange %d: X-RateLimit is %s, %s, %s, of no policy", x.number, limit, left, reset)
	}
}

// checkRetryAfter checks Retry-After, and the Denial.
func (m *model) checkRetryAfter(x *exchange, at int64) {
	text := x.value("Retry-After")
	if x.admitted || x.expected.outcome != httplimit.Admitted {
		if text != "" {
			m.failf("exchange %d: it is not denied, but has Retry-After: %s", x.number, text)
		}
		return
	}
	admitted := func(t *modelTake, after int64) bool { return m.admitsAsTold(t, at, after, t.cost) }
	all := func(after int64) bool {
		return !slices.ContainsFunc(x.expected.enforcedTakes(), func(t modelTake) bool { return !admitted(&t, after) })
	}
	switch {
	case x.closedOut:
		return // it would have waited until its turn
	case all(0):
		if text != "1" {
			m.failf("exchange %d: others are before it, but it has Retry-After: %s", x.number, text)
		}
		return
	case m.chargesDenied && x.expected.enforced > 1:
		return // each policy tells for how long it would deny one more attempt
	}
	m.checkSeconds(x, "Retry-After: "+text, text, func(s int64) bool { return all(s * 1_000_000_000) })
	if x.denial == nil {
		return
	}
	if d := int64(x.denial.RetryAfter); d < int64(sash.Never) && (!all(d) || all(d-1)) {
		m.failf("exchange %d: its Denial is %+v", x.number, *x.denial)
	}
	m.checkViolated(x, x.denial.Violated, at)
}

// checkViolated checks the names of the quotas that deny x: one of each policy that does.
func (m *model) checkViolated(x *exchange, names []string, at int64) {
	for _, t := range x.expected.enforcedTakes() {
		if m.admits(&t, at, t.cost) {
			continue
		}
		i := slices.IndexFunc(names, func(name string) bool {
			for i := range t.limits {
				if t.quotaName(i) == name {
					return true
				}
			}
			return false
		})
		if i < 0 {
			m.failf("exchange %d: %q are violated, but %s denies it, too", x.number, names, t.Name)
		}
		names = slices.Delete(slices.Clone(names), i, i+1)
	}
	if len(names) > 0 {
		m.failf("exchange %d: %q are said to be violated", x.number, names)
	}
}

// checkProblem checks the body of a denial.
func (m *model) checkProblem(x *exchange, h http.Header, body []byte) {
	var problem struct {
		Type, Title string
		Status      int
		Violated    []string `json:"violated-policies"`
	}
	err := json.Unmarshal(body, &problem)
	if err != nil || problem.Status != http.StatusTooManyRequests || len(problem.Violated) == 0 || problem.Title == "" ||
		problem.Type != "https://iana.org/assignments/http-problem-types#quota-exceeded" {
		m.failf("exchange %d: its problem is %s", x.number, body)
	}
	if h.Get("Content-Type") != "application/problem+json" || h.Get("Cache-Control") != "no-store" {
		m.failf("exchange %d: its problem has the header %v", x.number, h)
	}
}
