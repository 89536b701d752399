package tally

import (
	"slices"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Figures are all figures of a limiter at one moment. Slices are in the order of the policies.
type Figures struct {
	Decisions []Count
	Nears     []NearCount
	Others    []OtherCount
	Waits     []Wait
	Limits    []Limit  // in force
	Stats     []Stat   // of the keys; none if they are not in this process
	Reloads   *Reloads // nil: there was none
}

// A Count is a number of requests since the limiter is watched.
type Count struct {
	Policy string
	Limit  string // its text, or OtherLimit; empty if no limit decided
	Result Result
	N      int64
	*Units // nil: each request costs one
}

// Units are the units that requests cost.
type Units struct {
	Unit string // what they count, by the policy; may be empty
	Sum  int64
}

// A NearCount is a number of requests that left less of a limit than the Near of the policy, since the limiter
// is watched.
type NearCount struct {
	Policy string
	Limit  string // its text, or OtherLimit
	N      int64
}

// An OtherCount is a count of a policy since the limiter is watched.
type OtherCount struct {
	Other
	Policy string
	Of     string // if InUnits: what they count, by the policy; may be empty
	N      int64
}

// An Other is a counter that each policy has next to its decisions. Its Name consists of words
// with underscores, to which exporters add what their conventions ask for.
type Other struct {
	Name, Unit, Help string
	InUnits          bool // whether it counts what requests cost
}

// The counters next to the decisions, as indices of others.
const (
	refunds         = iota
	settlements     // not those to nothing, which are refunds
	storeErrors     // only if a store decides
	fullQueues      // only if requests may wait under the policy
	unseen          // only if responses may change charges of the policy
	refundedUnits   // only if requests may cost other than one unit
	surchargedUnits // likewise
	deniedClients   // only once one is known
	numOthers
)

var others = [numOthers]Other{
	refunds:         {"refunds", "request", "Charges that were given back after the answer.", false},
	settlements:     {"settlements", "request", "Charges that were changed to another cost after the answer.", false},
	storeErrors:     {"store_errors", "error", "Decisions that the store did not make.", false},
	fullQueues:      {"full_queues", "request", "Requests that were denied as there was no room in the queue of the policy.", false},
	unseen:          {"unseen_responses", "request", "Charges that stayed as the handler showed no response.", false},
	refundedUnits:   {"refunded_units", "unit", "Units that were given back after the answer, of whole charges and of parts.", true},
	surchargedUnits: {"surcharged_units", "unit", "Units that were charged after the answer, above the estimates.", true},
	deniedClients:   {"denied_clients", "client", "Clients that were denied for the first time in this process, as an estimate.", false},
}

// Others returns all counters that policies can have next to their decisions.
func Others() []Other { return others[:] }

// A Limit is a limit of a policy, other than [sash.Unlimited].
type Limit struct {
	Policy string
	Label  string // its text
	sash.Limit
}

// Read returns the figures, and none if nothing is watched yet. It first takes note of limits
// that have changed: decisions by a new limit until then were counted under [OtherLimit]. Figures
// are read one after the other while requests may run.
func (t *Tally) Read() (f Figures) {
	t.changes.Lock()
	defer t.changes.Unlock()
	if t.watched == nil {
		return f
	}
	if !t.table.Load().current(t.source.policies()) {
		t.update()
	}
	for _, p := range t.table.Load().policies {
		f.add(p, t.source.stored)
	}
	if t.source.stats != nil {
		f.Stats = statsOf(t.source.stats())
	}
	f.Reloads = t.reloads.read()
	return f
}

// current reports whether t has those policies with their limits.
func (t *table) current(policies []httplimit.Policy) bool {
	return slices.EqualFunc(t.policies, policies, func(p *policy, now httplimit.Policy) bool {
		return p.name == now.Name && p.traits == traitsOf(&now) && slices.Equal(p.limits, limitsOf(now))
	})
}

// add adds the figures of a policy. stored tells whether a store decides.
func (f *Figures) add(p *policy, stored bool) {
	for _, s := range p.own {
		f.addSeries(p, s, true)
	}
	f.addSeries(p, p.rest, false)
	f.addSeries(p, p.undecided, true)
	for i := range p.others {
		if n := p.other(i); n > 0 && !others[i].InUnits || p.begins(i, stored) {
			f.Others = append(f.Others, OtherCount{others[i], p.name, p.unitOf(i), n})
		}
	}
	f.addWaits(p)
	for i, l := range p.limits {
		if l != sash.Unlimited() && !slices.Contains(p.limits[:i], l) {
			f.Limits = append(f.Limits, Limit{p.name, l.String(), l})
		}
	}
}

// other returns the value of a counter next to the decisions.
func (p *policy) other(i int) int64 {
	switch n := p.others[i].Value(); {
	case i == deniedClients:
		return p.clients.number()
	case others[i].InUnits:
		return wrapped(n)
	default:
		return n
	}
}

// begins reports whether p has a counter next to the decisions from the start. stored tells whether a store
// decides.
func (p *policy) begins(i int, stored bool) bool {
	switch i {
	case storeErrors:
		return stored
	case fullQueues:
		return p.queued
	case unseen:
		return p.settled
	case refundedUnits, surchargedUnits:
		return p.measured
	case deniedClients: // 0 would say that none was denied, and events may not tell
		return false
	}
	return true
}

// unitOf returns the unit of costs if a counter next to the decisions is in units.
func (p *policy) unitOf(i int) string {
	if others[i].InUnits {
		return p.unit
	}
	return ""
}

// addSeries adds the counts of a series. If zeros is set, these include the counts that are 0
// so far: only a count that is there from the start shows its first increase.
func (f *Figures) addSeries(p *policy, s *series, zeros bool) {
	never := ShadowDenied
	if p.shadow {
		never = Denied
	}
	for i, requests := range s.counts {
		if requests == nil {
			continue
		}
		r, n := Result(i), requests.number()
		if n == 0 && (!zeros || r == never || r == Abandoned && !p.queued) {
			continue
		}
		c := Count{p.name, s.label, r, n, nil}
		if p.measured && s != p.undecided {
			c.Units = &Units{p.unit, requests.units()}
		}
		f.Decisions = append(f.Decisions, c)
	}
	if s.near == nil {
		return
	}
	if n := s.near.Value(); n > 0 || zeros && p.near {
		f.Nears = append(f.Nears, NearCount{p.name, s.label, n})
	}
}

// A Stat is one figure of [sash.Stats]. Its Name consists of words with underscores, to which
// exporters add what their conventions ask for.
type Stat struct {
	Name, Unit, Help string
	Counter          bool // else it is a gauge
	Value            float64
}

// stats describes the figures of sash.Stats. Value is set when they are read.
var stats = []struct {
	Stat
	of func(*sash.Stats) uint64
}{
	{Stat{Name: "keys", Unit: "key", Help: "Keys that are tracked."},
		func(s *sash.Stats) uint64 { return uint64(s.Keys) }},
	{Stat{Name: "waiting_calls", Unit: "call", Help: "Calls of Wait, WaitAll, WaitReserve and WaitLeaving that wait."},
		func(s *sash.Stats) uint64 { return uint64(s.Waiters) }},
	{Stat{Name: "evicted_keys", Unit: "key", Help: "Idle keys that were evicted.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Evicted }},
	{Stat{Name: "sweeps", Unit: "sweep", Help: "Complete sweeps for idle keys.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Sweeps }},
	{Stat{Name: "displaced_keys", Unit: "key", Help: "Keys that were evicted though not idle, as the table was full.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Displaced }},
	{Stat{Name: "refused_calls", Unit: "call", Help: "Calls that were denied as their key did not fit into the table.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Refused }},
	{Stat{Name: "shared_calls", Unit: "call", Help: "Calls that were decided by a quota that keys share, as the table was full.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Shared }},
	{Stat{Name: "invalid_calls", Unit: "call", Help: "Calls that were denied as WithLimitsFor returned wrong limits.", Counter: true},
		func(s *sash.Stats) uint64 { return s.Invalid }},
}

// Stats returns all figures of [sash.Stats], with the Value 0.
func Stats() []Stat { return statsOf(sash.Stats{}) }

func statsOf(s sash.Stats) (all []Stat) {
	for _, d := range stats {
		d.Value = float64(d.of(&s))
		all = append(all, d.Stat)
	}
	return all
}
