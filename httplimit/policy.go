package httplimit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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
	//
	// Paths are compared as a ServeMux compares them, which tells /login from /LOGIN
	// and /login/. If the router behind the middleware serves those alike, give
	// [WithPathFolding], or clients get past the policy by another spelling. A path
	// with escapes matches in both readings, with the escapes and with what they
	// stand for. An empty path, which a CONNECT may have, is "/".
	//
	// Hosts are compared as names: case, one trailing dot, the port and the spelling
	// of an IPv6 address do not matter, for CONNECT neither. The host of a Pattern
	// must have no port. Clients choose the host that they name: a Pattern with a
	// host protects handlers that serve that host alone.
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
	// charged. The request is charged when it arrives, so that requests under way
	// count. The charge is given back after the answer if Charge reports false. A
	// hijacked connection counts as status 101. If Charge itself panics, the charge
	// stays, and the answer too. Nil charges all.
	//
	// Charge is asked only if it is certain which status the client was sent. It is
	// uncertain in these cases, in which the charge stays:
	//   - The handler panics, as with [http.ErrAbortHandler] when the client of an
	//     httputil.ReverseProxy stops reading.
	//   - The request's context is done before the handler returns: the client has
	//     hung up, or its time is over.
	//   - Writing the response fails.
	//   - The handler returns without having written a status or a body to its
	//     ResponseWriter. A handler that means 200 must write it. Adapters of some
	//     frameworks write the response elsewhere, or later; see the package's
	//     section on frameworks.
	//
	// So a client cannot get a charge back by aborting. It still chooses its request:
	// give back no status that it can provoke at will, such as the 4xx and 502 that
	// answer a malformed body, unless these requests are to be free.
	Charge func(status int) bool

	// ChargeUncertain is Charge for the answers of which Charge is not asked. Status
	// is the one that was written while the client was connected, or 0 if there was
	// none. Nil, the default, charges all.
	//
	// Clients cause such answers at will. A policy that gives them back limits only
	// clients that wait for their answers. A policy of which Charge wants the status
	// 401 can safely give back streams that end when their client leaves, by
	//
	//	func(status int) bool { return status == 0 || status == 401 }
	ChargeUncertain func(status int) bool

	// Shadow is whether the policy is only tried out: it decides, is charged for
	// what the other policies admit, and is reported to the observer, but never
	// denies a request and is never told to clients. A shadow whose functions panic
	// or cannot tell who is calling lets the request pass.
	Shadow bool
}

func (p Policy) apply(c *config) { c.policies = append(c.policies, p) }

// faults returns every fault of p, the policy of that number from 1, whose Pattern is
// matched with folded paths or not.
func (p *Policy) faults(number int, folded bool) (faults []error) {
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
	if _, err := newRoute(p.Pattern, folded); err != nil {
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
func validate(policies []Policy, folded bool) error {
	var faults []error
	if len(policies) == 0 {
		faults = append(faults, fmt.Errorf("httplimit: New needs a Policy: %w", sash.ErrInvalidOption))
	}
	owner := map[string]int{}
	for i := range policies {
		p := &policies[i]
		faults = append(faults, p.faults(i+1, folded)...)
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

// givesBack reports whether a charge of p may be given back after the answer.
func (p *policy) givesBack() bool { return p.Charge != nil || p.ChargeUncertain != nil }

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

// numberOf takes a key apart, as far as its begin is one that appendNumber makes.
// Identity is the digest of the identity if digest is true.
func numberOf(key string) (policy int, identity string, digest, ok bool) {
	var n uint64
	for i := 0; i < len(key) && i < binary.MaxVarintLen32; i++ {
		n |= uint64(key[i]&0x7f) << (7 * i)
		if key[i] < 0x80 {
			shortest := key[i] > 0 || i == 0
			return int(n >> 1), key[i+1:], n&1 != 0, shortest && n>>1 <= math.MaxInt32
		}
	}
	return 0, "", false, false
}
