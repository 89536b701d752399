// Package tally counts decisions and their units by policy, limit and result, and reads the other
// figures of a limiter. The modules that export metrics share it: they differ in names and formats only.
package tally

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/count"
)

// A Tally counts the decisions of one limiter, which it watches. The zero Tally watches none
// yet, and counts nothing until it does. It is safe for concurrent use.
//
// To count takes one look-up of the policy by its name, one comparison for each limit of the
// policy, and one addition to a counter; another one if the request does not cost one unit, and two
// more if it has waited. It allocates nothing, but for the first client that a policy denies.
//
// Policies and limits come from the limiter. So what is counted has a bounded number of
// labels, whatever clients send: keys with limits of their own are counted under [OtherLimit].
type Tally struct {
	changes sync.Mutex // held while table, and what is watched, change
	watched any        // the limiter; nil: none yet
	source  source
	table   atomic.Pointer[table] // nil: nothing is watched yet
	reloads reloads
}

// A source reads the limiter that is watched.
type source struct {
	policies func() []httplimit.Policy
	stats    func() sash.Stats // nil: the keys are not in this process
	stored   bool              // whether a store decides
}

// A table has the counters of each policy by its name. It does not change once it is published.
type table struct {
	policies []*policy          // in the limiter's order
	byName   map[string]*policy // the same
}

// few is the number of policies that take less time to look through than a map.
const few = 8

// find returns the policy of that name, or nil.
func (t *table) find(name string) *policy {
	if len(t.policies) > few {
		return t.byName[name]
	}
	for _, p := range t.policies {
		if p.name == name { // mostly one string, or of another length: no bytes are compared
			return p
		}
	}
	return nil
}

// A policy has the counters of one policy. Of a limiter without policies, the name is empty.
type policy struct {
	traits
	name      string
	measured  bool         // whether requests may or might cost other than one unit
	limits    []sash.Limit // in force when the table was made
	own       []*series    // of the limits that are or were in force
	rest      *series      // of all other limits
	undecided *series      // of requests without a decision
	others    [numOthers]*count.Counter
	waits     *[numResults]waits // nil: it has not had a Queue; so not nil if queued
	clients   *clients           // that it has denied
}

// Traits are what tells which counts a policy can have.
type traits struct {
	unit    string // of costs
	shadow  bool
	costs   bool // whether requests may cost other than one unit
	queued  bool // whether requests may wait
	settled bool // whether responses may change charges
	near    bool // whether it tells when little is left
}

func traitsOf(p *httplimit.Policy) traits {
	return traits{
		unit:    p.Unit,
		shadow:  p.Shadow,
		costs:   p.Cost != nil || p.Settle != nil || p.Name == "", // calls of a sash.Limiter take any units
		queued:  p.Queue.Wait > 0 && !p.Shadow,
		settled: p.Charge != nil || p.ChargeUncertain != nil || p.Settle != nil,
		near:    p.Near > 0,
	}
}

// A series has the counters of one policy and limit, by result. Those are nil that a request
// under this limit, or without one, cannot have.
type series struct {
	limit  sash.Limit
	label  string
	counts [numResults]*requests
	near   *count.Counter // of requests that left less of the limit than the policy's Near; nil: of no limit
}

// maxOwn bounds the series of a policy, for limits of its plans and limits that were in force
// before a Reconfigure, too. A policy has at most 64 limits at a time, without its plans.
const maxOwn = 128

// OtherLimit labels limits that are not among the limits of the policy.
const OtherLimit = "other"

func newSeries(label string, results ...Result) *series {
	s := &series{label: label}
	for _, r := range results {
		s.counts[r] = new(requests)
	}
	return s
}

func newDecided(label string) *series {
	s := newSeries(label, Admitted, Denied, ShadowDenied, Withheld, Abandoned)
	s.near = new(count.Counter)
	return s
}

// WatchPolicies makes t count the decisions of l's policies.
func (t *Tally) WatchPolicies(l *httplimit.Limiter) error {
	if l == nil {
		return errNoLimiter
	}
	s := source{policies: l.Policies, stored: l.Store() != nil}
	if below := l.Sash(); below != nil {
		s.stats = below.Stats
	}
	return t.watch(l, s)
}

// WatchLimits makes t count the decisions of l, under a policy with an empty name.
func (t *Tally) WatchLimits(l *sash.Limiter) error {
	if l == nil {
		return errNoLimiter
	}
	return t.watch(l, source{
		policies: func() []httplimit.Policy { return []httplimit.Policy{{Limits: l.Limits()}} },
		stats:    l.Stats,
	})
}

var (
	errNoLimiter = errors.New("the limiter must not be nil")
	errTaken     = errors.New("these metrics are of another limiter already; make new ones for each limiter")
)

// watch begins to count the decisions of a limiter. It does nothing if t does already.
func (t *Tally) watch(limiter any, s source) error {
	t.changes.Lock()
	defer t.changes.Unlock()
	switch t.watched {
	case limiter:
		return nil
	case nil:
		t.watched, t.source = limiter, s
		t.update()
		return nil
	default:
		return errTaken
	}
}

// update publishes a table with the policies and limits that are in force now. What was
// counted stays: the new table has the counters of the old one. changes is held.
func (t *Tally) update() {
	old := t.table.Load()
	next := &table{byName: make(map[string]*policy)}
	for _, p := range t.source.policies() {
		var before *policy
		if old != nil {
			before = old.find(p.Name)
		}
		made := newPolicy(p, before)
		next.policies = append(next.policies, made)
		next.byName[p.Name] = made
	}
	t.table.Store(next)
}

// newPolicy returns the counters of p. If p was counted before, these are its counters from
// before, and the ones of limits that are new.
func newPolicy(p httplimit.Policy, before *policy) *policy {
	made := &policy{name: p.Name, clients: new(clients)}
	if before != nil {
		*made = *before // appending to own below is not seen by calls that use before
	} else {
		made.rest = newDecided(OtherLimit)
		made.undecided = newSeries("", Unidentified, Failed)
		for i := range made.others {
			made.others[i] = new(count.Counter)
		}
	}
	made.traits, made.limits = traitsOf(&p), limitsOf(p)
	made.measured = made.measured || made.costs
	if made.queued && made.waits == nil {
		made.waits = new([numResults]waits)
	}
	for _, l := range made.limits {
		if made.seriesOf(&l) == made.rest && len(made.own) < maxOwn {
			s := newDecided(l.String())
			s.limit = l
			made.own = append(made.own, s)
		}
	}
	return made
}

// limitsOf returns the limits of p and of its plans, in the order of their names.
func limitsOf(p httplimit.Policy) []sash.Limit {
	limits := slices.Clone(p.Limits)
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) {
		limits = append(limits, p.Plans[plan]...)
	}
	return limits
}

// seriesOf returns the series of a limit.
func (p *policy) seriesOf(l *sash.Limit) *series {
	for _, s := range p.own {
		if s.limit == *l {
			return s
		}
	}
	return p.rest
}

// Observe counts an event. It is for [httplimit.WithObserver].
func (t *Tally) Observe(e *httplimit.Event) {
	table := t.table.Load()
	if table == nil {
		return
	}
	p := table.find(e.Policy)
	if p == nil {
		if p = t.policyAdded(e.Policy); p == nil {
			return
		}
	}
	if e.Err != nil && e.Err != http.ErrServerClosed { // Close has refused it, and not a store
		p.others[storeErrors].Add(1)
	}
	if e.QueueFull {
		p.others[fullQueues].Add(1)
	}
	for i := range e.Near {
		p.seriesOf(&e.Near[i]).near.Add(1)
	}
	if r := resultOf(e); r != numResults {
		p.decided(r, &e.Decision, e.Cost)
		if e.Waited > 0 && p.queued {
			p.waits[r].add(e.Waited)
		}
		if e.Fingerprint != 0 && e.Outcome == httplimit.Denied {
			p.clients.add(e.Fingerprint)
		}
		return
	}
	switch e.Outcome {
	case httplimit.GivenBack:
		p.others[refunds].Add(1)
		p.settle(e.Estimate, 0)
	case httplimit.Settled:
		p.others[settlements].Add(1)
		p.settle(e.Estimate, e.Cost)
	case httplimit.Unseen:
		p.others[unseen].Add(1)
	case httplimit.Unidentified:
		p.undecided.counts[Unidentified].ones.Add(1)
	case httplimit.Failed:
		p.undecided.counts[Failed].ones.Add(1)
	}
}

// settle counts that a charge of some units was changed to the cost.
func (p *policy) settle(estimate, cost int64) {
	if more := counted(cost) - counted(estimate); more > 0 {
		p.others[surchargedUnits].Add(more)
	} else {
		p.others[refundedUnits].Add(-more)
	}
}

// policyAdded returns the policy of that name, which is not in the table, if a Reconfigure has
// added it since the table was made. Otherwise it returns nil: the policy is gone, and requests
// that it has charged are still being served.
func (t *Tally) policyAdded(name string) *policy {
	t.changes.Lock()
	defer t.changes.Unlock()
	if !t.table.Load().current(t.source.policies()) {
		t.update()
	}
	return t.table.Load().find(name)
}

// ObserveTake counts a decision on n units. It is for [sash.WithObserver].
func (t *Tally) ObserveTake(n int64, d *sash.Decision) {
	table := t.table.Load()
	if table == nil {
		return
	}
	p := table.find("") // nil if policies are watched, which have names
	switch {
	case p == nil:
	case d.Allowed:
		p.decided(Admitted, d, n)
	default:
		p.decided(Denied, d, n)
	}
}

// decided counts a decision with that result on a request of that cost, under the limit that decided.
func (p *policy) decided(r Result, d *sash.Decision, cost int64) {
	if n := p.seriesOf(&d.Limit).counts[r]; cost == 1 {
		n.ones.Add(1)
	} else {
		n.addOther(cost)
	}
}
