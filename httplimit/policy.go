package httplimit

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// internals are the functions of package sash that it does not export.
var internals = bridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock, sash.Decision, sash.Reservation]()

// A Policy defines which requests share a quota, and how large the quota is. It is an [Option] of [New].
// Name, Limits and Key are required.
type Policy struct {
	// Name identifies the policy in headers, problem details and events. It consists of at least one
	// character, all printable ASCII, and no other policy may have it.
	//
	// The quota of a policy with one limit bears this name. If there are several limits, each quota is
	// named by Name and the Window of its limit, as in "api-1m" and "api-1h", followed by -2 and so on
	// for limits with the same Window. The quota of a limit by [sash.AtOnce] is "api-at-once" then. These
	// names must be unique, too.
	Name string

	// Pattern selects the requests of the policy, in the syntax of [http.ServeMux], such as "POST
	// /login", "/api/" or "GET example.com/files/{name}". A policy is for the requests that a ServeMux
	// with this one pattern would serve or redirect. A request may match several policies; see
	// [Limiter.Middleware]. The default, empty, is every request. Methods are compared with their case,
	// so "post /login" matches no usual request. Nor does "POST/login", which is the path /login of a host
	// named POST.
	//
	// Paths are compared as in a ServeMux, which distinguishes /login from /LOGIN and /login/. If the
	// router behind the middleware serves them alike, give [WithPathFolding], or clients get past the
	// policy by another spelling. An empty path, which a CONNECT may have, is "/".
	//
	// Routers read some paths in different ways, so a policy is for every reading of a path:
	//   - With escapes, and with the characters that they stand for.
	//   - With "//", "." and "..", and cleaned of them as by [path.Clean]. So "/api/" and "/secret" are
	//     both for /api/../secret, which chi, gin and echo pass to the handler of /api/* as it is. An
	//     empty segment matches a wildcard, as it does in gin.
	//
	// Hosts are compared as names. Case, one trailing dot, the port and the spelling of an IPv6 address
	// do not matter, not for CONNECT either. The host of a Pattern must have no port. Clients choose the
	// host that they name, so a Pattern with a host protects only handlers that serve no other host.
	Pattern string

	// Limits are the limits of each identity under this policy, from 1 to 64. Clients are told of all but
	// [sash.Unlimited].
	//
	// A limit by [sash.AtOnce] bounds the requests that are under way. A request holds its Cost until its
	// handler has returned, panicked or ended its goroutine, whatever Charge and Settle say, and also if
	// the handler has hijacked the connection. The lease must outlast every handler, since nothing renews
	// it: after it, what a request holds is free while its handler still runs. A request that holds
	// units costs the memory of a charge that may change, even without Charge and Settle.
	Limits []sash.Limit

	// Plan names the plan of a request, such as a customer's plan. The limits that Plans has under that
	// name then replace Limits. The name "", and a name that Plans does not have, mean Limits: so a
	// mistake leaves no request unlimited. Nil, the default, means Limits for all requests.
	//
	// An identity has counts of its own under each plan. If its plan changes, it begins anew under the
	// other one; if the plan changes back, what it was charged before still counts. So do not let clients
	// choose their plan. To move a client to other limits with its counts, use [sash.Limiter.SetLimits],
	// or change the plan's limits by [Limiter.Reconfigure].
	//
	// Plan is called once for each request that Skip does not skip. It costs a look-up by the name.
	Plan func(*http.Request) string

	// Plans are the limits of each plan, by its name: any printable ASCII but "". Each has from 1 to 64
	// limits. Clients are told of the limits of their plan, under the names that they would have as
	// Limits. The name of the plan is not told.
	Plans map[string][]sash.Limit

	// Key tells which client makes a request. There is no default.
	Key KeyFunc

	// Cost returns how many units a request costs. The default, nil, is 1. A cost of 0 is charged
	// nothing. It is admitted, unless Settle has charged more than the limit, or Leave asks for more than is
	// there; behind others in a Queue, it waits like them. A negative cost is denied, and never admitted later.
	Cost func(*http.Request) int64

	// Leave returns how many units must remain after a request, under each limit of the policy. So classes
	// of requests share one count: requests in the background leave a part of it, and urgent ones, which
	// leave nothing, may use all. Nil, the default, leaves nothing, and so does a negative number.
	//
	// The units that are left are not charged, and Settle and Charge never look at them. A request is
	// denied for good if its cost and what it leaves are together more than the Count of a limit, or more
	// than the Burst of a [sash.TokenBucket]. One with a cost of 0 is admitted while what it must leave is
	// there. Clients are told of what a request like theirs may still use: the units above what it leaves.
	//
	// In a Queue, requests that leave less go first, and of equal ones those that came first. Under several
	// policies with a Queue, a request goes by the most units that it must leave under any of them. As long
	// as urgent requests take all there is, those in the background wait. They keep their places among the
	// Requests of the Queue, so an urgent request may find it full: give Requests room for both.
	//
	// With [WithStore], units remain for urgent requests of the whole fleet. The order in a Queue is the
	// order of the requests of one process.
	//
	// Leave is called once for each request that Skip does not skip, after Cost.
	Leave func(*http.Request) int64

	// Near tells the observer of [WithObserver] when little is left: less than that percentage of a limit, of
	// its Count or, of a [sash.TokenBucket], its Burst. A request crosses a limit if the share is there before
	// its charge, and not after it. Its [Event] has the limit in Event.Near. So each crossing is told once, and
	// not each request behind it. Each limit is crossed for itself, whichever has least left. The default, 0,
	// tells nothing. 100 tells the first charge of an idle identity.
	//
	// The crossing is found in the step that makes the charge. So of requests that run at once, exactly one
	// crosses. Their clock readings may differ by nanoseconds, and if a unit comes back just between two
	// readings, none of them may. In detail:
	//   - A request that is admitted crosses by its Cost, and the same in a Queue, once it is admitted.
	//   - Settle crosses if a request has cost more than its estimate: the event is then the one of Settled.
	//   - A denied request crosses nothing, and neither does one that costs nothing or gets units back. So
	//     what sash.WithChargeDenied charges for denials is not told, nor what is charged by [Limiter.Sash].
	//   - A request that another policy denies crosses nothing. If policies have different costs, or its
	//     client leaves while it waits, it is charged and given back. A request that comes in between finds
	//     the limit crossed, and is not told.
	//   - A shadow crosses like other policies, for its own counts.
	//   - Of an identity with limits of its own, the share is of these. A limit that is lowered is not crossed.
	//
	// Nothing is remembered of what was told. A limit is crossed again as soon as the share is there again: the
	// window has moved on, or units were given back. A client whose requests come about as fast as the limit
	// admits them may hover there, and cross once for each unit that comes back. An observer that must not
	// speak as often has a limiter of its own, as in the example of Near; a Log of package offenders has one.
	//
	// A request under a policy with Near costs about a third more, and as before if there is no observer. Near
	// does not work with [WithStore].
	Near int

	// Unit is the unit of Cost, sent to clients as "qu": "content-bytes", or any printable ASCII. The
	// default, empty, means requests, and no "qu" is sent, but for a limit by [sash.AtOnce]
	// "concurrent-requests".
	Unit string

	// Skip reports whether the policy does not apply to a request that matches Pattern. The request is
	// then not charged, and clients are told nothing of the policy. Nil skips none.
	Skip func(*http.Request) bool

	// Charge reports whether a request that was answered with that status stays charged. The request is
	// charged when it arrives, so that requests under way count. If Charge reports false after the
	// answer, the charge is given back. The status of a hijacked connection is 101. If Charge panics, the
	// charge stays, and the answer is unchanged. Nil, the default, keeps all charges.
	//
	// Charge is called only if it is certain which status the client was sent. It is uncertain in these
	// cases, in which the charge stays:
	//   - The handler panics, as with [http.ErrAbortHandler] when the client of an httputil.ReverseProxy
	//     stops reading.
	//   - The request's context is done before the handler returns: the client has hung up, or the time
	//     of the request is over.
	//   - Writing the response fails.
	//   - Reading the body of the request fails. The client sends a malformed body, or is too slow for
	//     the server's ReadTimeout, or sends more than an http.MaxBytesHandler around the middleware
	//     admits.
	//   - The handler returns without having written a status or a body, unless its ResponseWriter is one
	//     of package net/http, which then answers 200. Frameworks with writers of their own may write the
	//     response elsewhere, or later; see the package's section on frameworks. Behind such a writer, a
	//     handler that means 200 must write it. Otherwise a login that succeeds is charged like one that
	//     fails. Each such charge is reported as [Unseen].
	//
	// So a client cannot get a charge back by aborting. But it chooses its request: do not give back a
	// status that a client can provoke at will, unless such requests are to be free. Examples are the 4xx
	// that answer an invalid form, and the 503 of an http.TimeoutHandler behind the middleware if the
	// client sends its body slowly.
	Charge func(status int) bool

	// ChargeUncertain reports whether a request stays charged if Charge is not called since its answer is
	// uncertain. The status is the one written while the client was connected, or 0 if there was none.
	// Nil, the default, keeps all charges.
	//
	// Clients can cause uncertain answers at will. A policy that gives them back limits only clients that
	// wait for their answers. If Charge keeps only the status 401, it is safe to give back streams that
	// end when their client leaves, by
	//
	//	func(status int) bool { return status == 0 || status == 401 }
	ChargeUncertain func(status int) bool

	// Settle returns what a request has cost, in units, once it is answered. Cost is then an estimate,
	// which is charged when the request arrives. The difference is charged or given back afterwards, even
	// if that is more than is left. A negative result leaves the estimate, and so does a Settle that
	// panics. Nil, the default, leaves the estimate.
	//
	// [SettleBytes], [SettleHeader] and [SettleEstimate] return such functions. With any of them, the
	// handler of the request may say what it has cost, by [ChargeOf]; that goes before what the policy
	// says.
	//
	// Settle is not called if Charge or ChargeUncertain gives the charge back, or if the connection was
	// hijacked: then the estimate stays. If the response is uncertain, a request costs the greater of the
	// estimate and of what Settle returns for what was written. So a client that hangs up pays for what
	// it was sent.
	//
	// A client whose requests cost more than is left is denied until it has paid for them, for more than
	// a Window if need be. A token bucket carries such a debt by itself; the other algorithms forget it
	// after a Window. So under Settle each of them, but one by [sash.AtOnce], gets for each key a token bucket
	// of the same rate next to it, which holds twice its Count. As long as the clock does not go back, that
	// denies nothing but debts. Clients know it by the name of the limit. It is one more of the 64 limits of a
	// key, and costs the time and memory of one. Limits that a key was given by [sash.Limiter.SetLimits] or
	// [sash.WithLimitsFor], and limits of [sash.Limiter.Reconfigure], have none: let them be token
	// buckets, as in sash.PerHour(100).TokenBucket(100).
	Settle func(*Response) int64

	// Queue lets requests wait that the policy denies, instead of refusing them. The zero Queue, the
	// default, lets none wait. A shadow lets none wait, either.
	Queue Queue

	// Shadow marks a policy that is only tried out. It decides, is charged for the requests that the other
	// policies admit, and is reported to the observer. But it never denies a request, and clients are not
	// told of it. If its functions panic or cannot tell the identity, the request passes.
	Shadow bool
}

// A Queue lets requests wait that a [Policy] denies. A request waits until all its policies admit it, and
// then goes on as if it had come then.
//
// Requests of one identity are admitted in the order in which they came, and a new one does not overtake
// those that wait, unless it is to leave less by [Policy].Leave. If several policies have a Queue, a
// request waits only under those that deny it. It holds up others under a policy only as long as that
// denies it: when the policy admits it, and another one does not, others go first there. If the policy
// then denies it again, the request was overtaken, and may wait longer. So that it does not wait for ever,
// it is overtaken there once; after that, it holds up others there until faster policies admit it, too. A
// request is refused at once if
//
//   - a policy without a Queue denies it,
//   - its wait is sure to last longer than Wait, or than its context has left,
//   - or the queue is full.
//
// No wait for units that others hold, by [sash.AtOnce], is sure to last: each response that ends lets the
// next request go on.
//
// A request that is denied after it has waited is answered like any other denial. Under several policies
// with a Queue, it waits for the least Wait of them.
//
// A request that waits gives up when its context ends, which mostly means that the client has hung up.
// Its Outcome is Abandoned, and it is charged nothing. The server of net/http notices that an HTTP/1
// client has hung up once the request's body was read; a request with a body may wait, and be served,
// without its client. The time of waiting counts towards the WriteTimeout of an [http.Server]: after
// that, a request that has waited is charged, and its client gets no answer. So the timeout should be
// longer than Wait. [http.Server.Shutdown] waits for requests that wait, unless [Limiter.Close] ends
// their waiting. A [Limiter.Reconfigure] to policies without a Queue ends their waiting, too: each of
// them is then admitted or denied at once.
//
// A request that waits costs its goroutine, its connection, and about 2 kB. It learns at once of units
// that are given back after a response. It does not learn of units that come back by the methods of
// [Limiter.Sash], and tries again when it would have been admitted without them. If units are held that it
// needs, it tries again each second, since another process may have given them back to the store. Each time
// that it tries, the function of sash.WithObserver is called, and a store is asked. Between two times that
// it asks a store there is at least a millisecond.
type Queue struct {
	// Wait is for how long a request waits at most. With 0, the default, none waits.
	Wait time.Duration
	// Requests is how many requests wait at a time, at least 1, of all identities and plans together.
	Requests int
	// RequestsEach is how many requests of one identity wait at a time. With 0, the default, there is no
	// bound but Requests, so one client can fill the queue.
	RequestsEach int
	// RequestsPerClient is how many requests of one client wait at a time in a queue that clients share,
	// such as one of a policy for [Everyone]. A client is an identity under any other policy of the
	// request, with or without a Queue. Shadows do not count, and neither do policies whose Key is Everyone.
	// The default, 0, is half of Requests, rounded up. To set no bound, set it to Requests.
	//
	// If no other policy tells clients apart, one client can fill the queue. A policy by which all is
	// admitted tells them apart and costs no memory: its limit is [sash.Unlimited].
	RequestsPerClient int
}

// A review collects the faults of options.
type review struct {
	of     string // what is being reviewed, as faults begin
	faults []error
}

// fault records a fault, which wraps an error.
func (v *review) fault(wrapped error, format string, args ...any) {
	v.faults = append(v.faults, fmt.Errorf("httplimit: %s%s: %w", v.of, fmt.Sprintf(format, args...), wrapped))
}

// require records a fault unless so is true.
func (v *review) require(so bool, format string, args ...any) {
	if !so {
		v.fault(sash.ErrInvalidOption, format, args...)
	}
}

// limits records the faults of limits that belong to what is being reviewed, or to a plan of it.
func (v *review) limits(plan string, limits []sash.Limit) {
	for _, err := range internals.LimitFaults(limits) {
		v.faults = append(v.faults, fmt.Errorf("httplimit: %s%s%w", v.of, plan, err))
	}
}

// policy records each fault of p. number counts the policies from 1.
func (v *review) policy(p *Policy, number int, paths route.Paths) {
	v.of = "policy " + strconv.Itoa(number) + ": "
	if p.Name != "" {
		v.of = "policy " + strconv.Quote(p.Name) + ": "
	}
	v.require(p.Name != "", "Name must not be empty")
	v.require(fields.Printable(p.Name), "Name must be printable ASCII, got %q", p.Name)
	v.require(fields.Printable(p.Unit), "Unit must be printable ASCII, got %q", p.Unit)
	v.require(p.Key != nil, "Key must not be nil")
	err := route.Fault(p.Pattern, paths)
	v.require(err == nil, "Pattern: %v", err)
	if len(p.Limits) == 0 {
		v.fault(sash.ErrNoLimit, "Limits must not be empty")
	}
	v.require(0 <= p.Near && p.Near <= 100, "Near must be a percentage from 0 to 100, got %d", p.Near)
	q := &p.Queue
	sized := q.Requests != 0 || q.RequestsEach != 0 || q.RequestsPerClient != 0
	v.require(q.Wait >= 0, "Queue: Wait must not be negative, got %v", q.Wait)
	v.require(q.Wait <= 0 || q.Requests >= 1, "Queue: Requests must be at least 1 if there is a Wait, got %d", q.Requests)
	v.require(q.Wait != 0 || !sized, "Queue: Wait must be more than 0 if Requests, RequestsEach or RequestsPerClient is set")
	v.require(q.RequestsEach >= 0, "Queue: RequestsEach must not be negative, got %d", q.RequestsEach)
	v.require(q.RequestsPerClient >= 0, "Queue: RequestsPerClient must not be negative, got %d", q.RequestsPerClient)
	v.limits("", p.deciding(p.Limits))
	v.require(len(p.Plans) == 0 || p.Plan != nil, "Plan must not be nil if there are Plans")
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) {
		switch limits := p.Plans[plan]; {
		case plan == "":
			v.require(false, `Plans: the plan "" is Limits, and must not be among Plans`)
		case !fields.Printable(plan):
			v.require(false, "Plans: the name of a plan must be printable ASCII, got %q", plan)
		case len(limits) == 0:
			v.fault(sash.ErrNoLimit, "plan %q: its limits must not be empty", plan)
		default:
			v.limits(fmt.Sprintf("plan %q: ", plan), p.deciding(limits))
		}
	}
	v.of = ""
}

// clonePolicies returns a copy of policies that shares no slice and no map with them.
func clonePolicies(policies []Policy) []Policy {
	policies = slices.Clone(policies)
	for i := range policies {
		p := &policies[i]
		p.Limits, p.Plans = slices.Clone(p.Limits), maps.Clone(p.Plans)
		for plan, limits := range p.Plans {
			p.Plans[plan] = slices.Clone(limits)
		}
	}
	return policies
}

// deciding returns the limits by which p decides, given the limits of the policy or of a plan.
func (p *Policy) deciding(limits []sash.Limit) []sash.Limit {
	if p.Settle == nil {
		return limits
	}
	return quota.WithCarriers(limits)
}

// A policy is a Policy in compiled form.
type policy struct {
	Policy
	plans       map[string]*policy // the policy under each of its plans
	number      int                // of the variant, which begins its keys
	storedName  string             // begins its keys in a store
	route       int                // index among the routes of the limiter
	settles     bool               // whether a charge may change after the response
	onTerms     bool               // whether it has a Cost, a Leave or a near
	everyone    bool               // whether its Key is Everyone, which tells no clients apart
	near        int64              // its Near, 0 if there is no observer to be told
	whole       *policy            // the policy with all its plans: itself, unless it is of one plan
	holds       bool               // whether its limits hold units until the response has ended
	pace        sash.Limit         // the limit with the longest Window, which orders policies
	quotas      []*quota.Quota
	policyField string // all quotas as in RateLimit-Policy, without pk
	chargeKey   any    // the chargeKey of its Name, which allocates once
}

// A chargeKey is the key in a context of the Charge under the policy of that name, if it has Settle.
type chargeKey string

// under returns p under the plan of r.
func (p *policy) under(r *http.Request) *policy {
	if p.Plan == nil {
		return p
	}
	return cmp.Or(p.plans[p.Plan(r)], p)
}

// known returns those of limits that clients know: all but the ones by which p carries debts.
func (p *policy) known(limits []sash.Limit) (known []sash.Limit) {
	for _, l := range limits {
		if p.knownAs(l) == l {
			known = append(known, l)
		}
	}
	return known
}

// knownAs returns the limit that clients know for l: of one by which p carries debts, the limit that forgets them.
func (p *policy) knownAs(l sash.Limit) sash.Limit {
	q, _ := p.quotaOf(l)
	return q.Limit
}

// queues reports whether a request that p denies may wait. A shadow denies none.
func (p *policy) queues() bool { return p.Queue.Wait > 0 && !p.Shadow }

// quotaOf returns the quota of a limit, and whether p has that limit. If not, it is one of the key's own.
func (p *policy) quotaOf(l sash.Limit) (q *quota.Quota, own bool) {
	for _, q := range p.quotas {
		if q.Limit == l {
			return q, true
		}
	}
	for _, q := range p.quotas { // a limit that carries debts has the quota of the one that forgets them
		if p.Settle != nil && quota.Carries(l, q.Limit) {
			return q, true
		}
	}
	return quota.New(l, p.Name, p.Unit), false
}
