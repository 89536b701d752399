package httplimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Policy says which requests share a quota, and how large it is. It is an
// [Option]: give it to [New]. Name, Limits and Key are required.
type Policy struct {
	// Name is what clients, problem details and events call the policy: at least
	// one character, all of them printable ASCII, and no other policy's. If there
	// is one limit, its quota bears this name. If there are several, each quota is
	// called by Name and window, as in "api-1m" and "api-1h", with -2 and so on
	// where windows are the same; those names must be unique, too.
	Name string

	// Pattern says which requests the policy is for, in the words of
	// [http.ServeMux]: "POST /login", "/api/", "GET example.com/files/{name}". It
	// is matched by a ServeMux, so it means what it means there: the requests that
	// a mux would serve, or redirect, where the pattern is the only one. A request
	// may match several policies; see [Limiter.Middleware]. Empty is every request.
	Pattern string

	// Limits are those that each identity has under this policy: from 1 to 64.
	Limits []sash.Limit

	// Key says who is calling. There is no default.
	Key KeyFunc

	// Cost is how many units a request costs; nil is 1. A cost of 0 is admitted
	// and charged nothing. A negative one is denied, and never admitted later.
	Cost func(*http.Request) int64

	// Unit is what a unit of Cost is, said to clients as "qu": "content-bytes", or
	// any printable ASCII. Empty is requests, and nothing is said.
	Unit string

	// Skip reports whether a request is none of this policy's business, although
	// it matches Pattern: it is then not charged, and clients are told nothing of
	// the policy. Nil skips none. Policies that skip each other's requests are how
	// customers of several plans get different limits.
	Skip func(*http.Request) bool

	// Charge reports whether a request that was answered with that status is to be
	// charged. It is charged when it arrives, so that requests under way count, and
	// given back once it is answered if Charge reports false. A handler that panics
	// counts as status 500, a hijacked connection as 101. If Charge itself panics,
	// the charge stays, and the answer too. Nil charges all.
	Charge func(status int) bool

	// Shadow is whether the policy is only tried out: it decides, is charged for
	// what the other policies admit, and is reported to the observer, but never
	// denies a request and is never told to clients. A shadow whose functions panic
	// or cannot tell who is calling lets the request pass.
	Shadow bool
}

func (p Policy) apply(c *config) { c.policies = append(c.policies, p) }

// faults returns every fault of p, the policy of that number from 1.
func (p *Policy) faults(number int) (faults []error) {
	called := "policy " + strconv.Itoa(number)
	if p.Name != "" {
		called = "policy " + strconv.Quote(p.Name)
	}
	fault := func(wrapped error, format string, args ...any) {
		faults = append(faults, fmt.Errorf("httplimit: %s: %s: %w", called, fmt.Sprintf(format, args...), wrapped))
	}
	if p.Name == "" {
		fault(sash.ErrInvalidOption, "Name must not be empty")
	}
	if !printable(p.Name) {
		fault(sash.ErrInvalidOption, "Name must be printable ASCII, got %q", p.Name)
	}
	if !printable(p.Unit) {
		fault(sash.ErrInvalidOption, "Unit must be printable ASCII, got %q", p.Unit)
	}
	if p.Key == nil {
		fault(sash.ErrInvalidOption, "Key must not be nil")
	}
	if _, err := newRoute(p.Pattern); err != nil {
		fault(sash.ErrInvalidOption, "Pattern: %v", err)
	}
	if len(p.Limits) == 0 {
		fault(sash.ErrNoLimit, "Limits must not be empty")
	}
	for _, f := range limitFaults(p.Limits) {
		fault(sash.ErrInvalidLimit, "%s", f)
	}
	return faults
}

// limitFaults returns every fault of limits, in the words of the limiter that would
// be made of them.
func limitFaults(limits []sash.Limit) (faults []string) {
	options := []sash.Option{sash.WithSweepInterval(-1)}
	for _, l := range limits {
		options = append(options, l)
	}
	_, err := sash.New(options...)
	if err == nil || len(limits) == 0 {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "sash: ")
		faults = append(faults, strings.TrimSuffix(line, ": "+sash.ErrInvalidLimit.Error()))
	}
	return faults
}

// validate returns every fault of policies in one error.
func validate(policies []Policy) error {
	var faults []error
	if len(policies) == 0 {
		faults = append(faults, fmt.Errorf("httplimit: New needs a Policy: %w", sash.ErrInvalidOption))
	}
	owner := map[string]int{}
	for i := range policies {
		p := &policies[i]
		faults = append(faults, p.faults(i+1)...)
		for _, name := range p.names() {
			if first, taken := owner[name]; taken && name != "" {
				faults = append(faults, fmt.Errorf("httplimit: policies %d and %d: both have a quota named %q: %w", first, i+1, name, sash.ErrInvalidOption))
			}
			owner[name] = i + 1
		}
	}
	return errors.Join(faults...)
}

// names returns the names that clients are told of: of the policy, if it has one
// limit, and of each limit, if it has several.
func (p *Policy) names() []string {
	names := []string{p.Name}
	if len(p.Limits) < 2 {
		return names
	}
	of := map[time.Duration]int{}
	for _, l := range p.Limits {
		name := p.Name + "-" + short(l.Window)
		if of[l.Window]++; of[l.Window] > 1 {
			name += "-" + strconv.Itoa(of[l.Window])
		}
		names = append(names, name)
	}
	return names
}

// short writes a window as briefly as it can be: 1m and not 1m0s.
func short(d time.Duration) string {
	switch {
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "m"
	}
	return d.String()
}

// A policy is a Policy made ready.
type policy struct {
	Policy
	number int
	route  int // among the limiter's
	quotas []quota
	stated string // all quotas, as RateLimit-Policy has them without pk
}

// A quota is one limit of a policy as clients are told of it.
type quota struct {
	limit  sash.Limit
	name   string
	quoted string // the name as an RFC 9651 String
	stated string // as RateLimit-Policy has it, without pk
	count  string // of limit, in digits
}

func newPolicy(p Policy, number, route int) *policy {
	made := &policy{Policy: p, number: number, route: route}
	names := p.names()
	if len(p.Limits) > 1 {
		names = names[1:]
	}
	for i, l := range p.Limits {
		q := made.newQuota(l, names[i])
		made.quotas = append(made.quotas, *q)
		if i > 0 {
			made.stated += ", "
		}
		made.stated += q.stated
	}
	return made
}

func (p *policy) newQuota(l sash.Limit, name string) *quota {
	quoted := appendString(nil, name)
	return &quota{l, name, string(quoted), string(appendQuota(quoted, l, p.Unit)), strconv.FormatInt(l.Count, 10)}
}

// quotaOf returns the quota of that limit: one of p's own, else one made for a key
// that was given limits of its own by [sash.Limiter.SetLimits].
func (p *policy) quotaOf(l sash.Limit) (q *quota, own bool) {
	for i := range p.quotas {
		if q = &p.quotas[i]; q.limit == l {
			return q, true
		}
	}
	return p.newQuota(l, p.Name), false
}

// cost returns what r costs.
func (p *policy) cost(r *http.Request) int64 {
	if p.Cost == nil {
		return 1
	}
	return p.Cost(r)
}

// Every key begins with the policy's number, twice, plus one if the identity was
// too long and its digest follows instead. A varint is no prefix of another, so no
// identity under one policy is one under another.

// appendNumber begins a key.
func appendNumber(key []byte, policy int, digest bool) []byte {
	n := uint64(policy) << 1
	if digest {
		n |= 1
	}
	return binary.AppendUvarint(key, n)
}

// numberOf returns the policy that a key begins with.
func numberOf(key string) (policy int, ok bool) {
	var n uint64
	for i := 0; i < len(key) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(key[i]&0x7f) << (7 * i)
		if key[i] < 0x80 {
			return int(n >> 1), true
		}
	}
	return 0, false
}
