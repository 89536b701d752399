package replay

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/httplimit"
)

// An enforcement replays traffic under the policies of a file: httplimit decides each request, and settles
// it by its response, on a clock of the log.
type enforcement struct {
	*options
	describer *describer
	limiter   *httplimit.Limiter
	clock     *sash.ManualClock
	pending   pending[answer]
	sweeper   sweeper
	enforced  []*enforced
	byName    map[string]*enforced
	now       int64             // the time of the request that is decided
	outcomes  []httplimit.Event // of the request that is decided

	noRequest, noRoute, noPolicy, denied, unidentified int64
}

// An answer is the response to a request that was admitted, and the charges that it settles.
type answer struct {
	charges  *httplimit.Charges
	response httplimit.Response
}

// loadPolicies reads the file of -policy, if it is given, and sets what is to be read of the log for it.
func (o *options) loadPolicies() (err error) {
	if o.policy == "" {
		return nil
	}
	if o.file, err = withoutFunctions(o.policy); err != nil {
		return err
	}
	o.needs = needsOf(o.file)
	if o.needs.routed && o.routes == nil {
		return fmt.Errorf("-policy %s has the key route: a log does not tell which pattern of the server has served a request, "+
			"so name all of them by -route", o.policy)
	}
	if !o.needs.routed && o.routes != nil {
		return fmt.Errorf("-route is for the key route, which -policy %s does not have", o.policy)
	}
	// Each policy tells clients apart in its own way.
	o.Settings.Key, o.Settings.Fields, o.Settings.Lasting = traffic.Key{}, o.needs.fields, o.needs.lasting
	return nil
}

// withoutFunctions returns the policies of a file that names no function of a program.
func withoutFunctions(name string) (*policies.File, error) {
	file, err := policies.Load(name, nil)
	if err != nil && file != nil && len(file.Functions) > 0 {
		err = errors.Join(err, errors.New("functions that a program adds cannot be replayed, since a log does not tell what they return: "+
			"replay a copy of the file with what a log tells in their place"))
	}
	return file, err
}

// newEnforcement returns an enforcement of the file of -policy.
func (o *options) newEnforcement() (*enforcement, error) {
	e := &enforcement{options: o, describer: newDescriber(o.needs, o.routes), clock: sash.NewManualClock(0), byName: map[string]*enforced{}}
	e.pending.settle = func(a answer) { a.charges.Settle(a.response) }
	options := []httplimit.Option{
		httplimit.WithClock(e.clock), httplimit.WithSweepInterval(-1), httplimit.WithoutRateLimit(),
		httplimit.WithObserver(e.observe), httplimit.WithEventIdentities(),
	}
	for i := range o.file.Policies {
		of := &o.file.Policies[i]
		p := of.Policy
		p.Queue = httplimit.Queue{} // nothing waits in a log: see enforced.waits
		p.Shadow = p.Shadow && o.shadow
		options = append(options, p)
		one := newEnforced(of, p.Shadow)
		e.enforced = append(e.enforced, one)
		e.byName[p.Name] = one
	}
	limiter, err := httplimit.New(options...)
	if err != nil {
		return nil, err
	}
	e.limiter, e.sweeper.limiters = limiter, []*sash.Limiter{limiter.Sash()}
	return e, nil
}

// take replays events.
func (e *enforcement) take(on *traffic.Traffic, events []traffic.Event) error {
	for i := range events {
		if err := e.decide(&events[i]); err != nil {
			return err
		}
	}
	e.sweeper.count(len(events), len(on.Clients))
	return nil
}

// decide replays one event.
func (e *enforcement) decide(event *traffic.Event) error {
	r := e.describer.describe(event)
	switch {
	case r == nil:
		e.noRequest++
		return nil
	case e.describer.routes != nil && r.Pattern == "":
		e.noRoute++ // the middleware stands around the handlers of routes, and does not see it
		return nil
	}
	// What has ended by now is settled first, at its own instant, which sets the clock.
	e.pending.settleBy(event.At, e.clock)
	e.clock.Set(event.At)
	e.now, e.outcomes = event.At, e.outcomes[:0]
	v := e.limiter.Decide(nil, r)
	switch v.Outcome {
	case httplimit.Admitted:
		if len(e.outcomes) == 0 {
			e.noPolicy++
		}
		if v.Charges != nil {
			e.pending.add(event.At, event.Lasts(), answer{v.Charges, e.describer.response()})
		}
	case httplimit.Denied:
		e.denied++
		e.waits()
	case httplimit.Unidentified:
		e.unidentified++
	default:
		return fmt.Errorf("a policy has failed: a request was %v", v.Outcome)
	}
	return nil
}

// observe counts what httplimit reports.
func (e *enforcement) observe(event httplimit.Event) {
	p := e.byName[event.Policy]
	if event.Outcome == httplimit.GivenBack || event.Outcome == httplimit.Settled {
		p.settled(&event)
		return
	}
	e.outcomes = append(e.outcomes, event)
	p.decided(&event, e.now)
}

// waits counts a denied request that would have waited in the queues of its policies. All that deny it
// must have a queue, and the least wait of all its queues must be long enough. That is what httplimit
// decides about a request that finds room in the queue, and is not behind others.
func (e *enforcement) waits() {
	least := time.Duration(0)
	for i := range e.outcomes {
		if wait := e.queueOf(i); wait > 0 && (least == 0 || wait < least) {
			least = wait
		}
	}
	wait := time.Duration(0)
	var denying []*enforced
	for i := range e.outcomes {
		event := &e.outcomes[i]
		if event.Outcome != httplimit.Denied || event.Shadow {
			continue
		}
		until := event.Decision.RetryAfter
		if event.Decision.Limit.Algorithm == sash.Concurrency { // what others hold may be back at any time
			until = min(until, least)
		}
		if e.queueOf(i) == 0 || until > least {
			return
		}
		wait = max(wait, until)
		denying = append(denying, e.byName[event.Policy])
	}
	for _, p := range denying {
		p.waiting++
		p.waited += wait
		p.longest = max(p.longest, wait)
	}
}

// queueOf returns for how long the policy of an outcome lets requests wait.
func (e *enforcement) queueOf(outcome int) time.Duration {
	if e.outcomes[outcome].Shadow {
		return 0
	}
	return e.byName[e.outcomes[outcome].Policy].of.Queue.Wait
}

// end settles all that is still under way.
func (e *enforcement) end() { e.pending.settleBy(math.MaxInt64, e.clock) }

// shadows returns the names of the policies that are shadows in the file.
func (e *enforcement) shadows() string {
	var names []string
	for _, p := range e.enforced {
		if p.of.Shadow {
			names = append(names, p.of.Name)
		}
	}
	return strings.Join(names, ", ")
}

// routesOf returns a mux of patterns, of the flag -route.
func routesOf(patterns []string) (mux *http.ServeMux, err error) {
	defer func() {
		if fault := recover(); fault != nil { // ServeMux panics if a pattern is wrong
			err = fmt.Errorf("-route: %v", fault)
		}
	}()
	mux = http.NewServeMux()
	for _, p := range patterns {
		mux.Handle(p, route{})
	}
	return mux, nil
}

// A route is the handler of a pattern of -route. It is never called.
type route struct{}

func (route) ServeHTTP(http.ResponseWriter, *http.Request) {}
