package httplimit_test

import (
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A model is one random program: a Limiter under random policies and options, around a handler that
// does random things, in a server of net/http to which odd clients talk. All calls, fields and options
// stand in tables: modelCalls, policyFields, queueFields, modelOptions, handlerCalls.
//
// The model runs in a bubble of testing/synctest. It does one thing at a time, and waits until nothing
// moves any more. Then it compares what has happened with package reference:
//   - decisions, events, header fields and answers are the right ones, to the nanosecond;
//   - a response is charged as the handler knows it, and for what its client received at least;
//   - each key holds exactly what it was charged, so no client spends another one's quota;
//   - each request that waits is denied by a policy of its own, or by an earlier request that could go
//     first.
//
// All clocks show the time of the bubble.
//
// It does not reach: addresses behind proxies, routers and frameworks, WithMaxKeys, TLS, and a
// Transport, which have tests of their own. Requests are decided one after the other, but for those that
// wait in queues.
type model struct {
	seed         uint64
	skipped      map[int]bool // steps that are left out
	step         int
	reconfigured int      // the latest step that replaced the policies; 0: none
	log          []string // of the steps

	clock      sash.Clock
	limiter    *httplimit.Limiter
	store      *modelStore // nil: none
	middleware http.Handler
	server     *http.Server
	listener   *modelListener
	stopping   chan struct{}
	ended      chan struct{} // closed when the server has ended

	closed    bool // whether the limiter is
	policies  []*modelPolicy
	made      int // policies that there were
	exchanges []*exchange
	clients   []*modelClient
	random    *rand.Rand // of the step

	seen   atomic.Int64 // events that the second observer was told
	mu     sync.Mutex   // guards what follows
	events []httplimit.Event
	told   int64 // events so far
	order  int   // of moments

	table  *reference.Table
	keys   map[string]*knownKey
	names  []string // of keys, in the order in which they were seen
	prints map[string]uint64

	tally        modelTally
	limiterNames map[string]string // of keys: by which the limiter knows them

	// What the options are.
	chargesDenied, folds, withoutRateLimit, xRateLimit, resetTime, partition, observed bool
	ownLimits                                                                          []sash.Limit
	fingerprints, identities                                                           []httplimit.Outcome // nil: of none; empty: of all
	deniedBy, unidentifiedBy                                                           int
	crossed                                                                            *crossings
}

// A modelFailure is how a model fails.
type modelFailure string

func (m *model) failf(format string, args ...any) { panic(modelFailure(fmt.Sprintf(format, args...))) }

// modelSteps is how many steps a program has.
const modelSteps = 24

// moment returns the present moment.
func (m *model) moment() moment {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order++
	return moment{m.clock.Now(), m.order, time.Now().UnixNano()}
}

// observe is an observer of all events.
func (m *model) observe(e httplimit.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.events, m.told = append(m.events, e), m.told+1
	m.tally.countWait(&e)
}

// count is a second observer of all events.
func (m *model) count(e httplimit.Event) {
	m.seen.Add(1)
	m.tally.Observe(&e)
}

// randomOf returns the source of random numbers of a step, so that steps can be left out.
func (m *model) randomOf(step int) *rand.Rand { return rand.New(rand.NewPCG(m.seed, uint64(step))) }

// start makes the limiter and the server.
func (m *model) start() {
	m.random = m.randomOf(0)
	m.clock = sash.SystemClock()
	m.stopping, m.ended = make(chan struct{}), make(chan struct{})
	m.table = reference.NewTable([]reference.Limit{{Unlimited: true}})
	m.table.NameOf = func(key string) string { return m.limiterNames[key] }
	m.tally.charged, m.tally.waited = map[string]int64{}, map[string]int64{}
	m.keys, m.prints, m.limiterNames = map[string]*knownKey{}, map[string]uint64{}, map[string]string{}
	m.deniedBy, m.unidentifiedBy = http.StatusTooManyRequests, http.StatusBadRequest
	var options []httplimit.Option
	for _, o := range modelOptions {
		if given := o.choose(m, m.random); given != nil {
			options = append(options, given...)
			m.crossed.use("option " + o.name)
		}
	}
	for range 1 + m.random.IntN(4) {
		m.policies = append(m.policies, m.newPolicy())
	}
	if !m.chargesDenied && m.random.IntN(6) == 0 {
		m.policies = append(m.policies[:0], m.newSharedPolicies()...)
	}
	for _, p := range m.policies {
		options = append(options, p.Policy)
	}
	limiter, err := httplimit.New(options...)
	if err != nil {
		m.failf("New: %v", err)
	}
	m.limiter = limiter
	if err := m.tally.WatchPolicies(limiter); err != nil {
		m.failf("WatchPolicies: %v", err)
	}
	m.middleware = limiter.Middleware(http.HandlerFunc(m.handle))
	m.listener = newModelListener()
	m.server = &http.Server{Handler: http.HandlerFunc(m.around), ErrorLog: log.New(io.Discard, "", 0), Protocols: new(http.Protocols)}
	m.server.Protocols.SetHTTP1(true)
	m.server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		_ = m.server.Serve(m.listener)
		close(m.ended)
	}()
}

// newPolicy returns a random policy.
func (m *model) newPolicy() *modelPolicy {
	p := new(modelPolicy)
	p.Name = "p" + strconv.Itoa(m.made)
	p.id = p.Name + "#" + strconv.Itoa(m.made)
	m.made++
	c := &policyChoice{p, m, m.random}
	for _, field := range policyFields {
		field.choose(c)
	}
	p.panicOnRequest()
	return p
}

// newSharedPolicies returns a fast policy that clients share and a slow one of each client, both with a
// Queue: what one client does there, others may have to wait for.
func (m *model) newSharedPolicies() []*modelPolicy {
	shared, own := m.newPolicy(), m.newPolicy()
	for i, p := range []*modelPolicy{shared, own} {
		*p = modelPolicy{id: p.id, Policy: httplimit.Policy{Name: p.Name, Queue: httplimit.Queue{Wait: time.Minute, Requests: 8}}}
		c := &policyChoice{p, m, m.random}
		modelKeys[[]int{2, 0}[i]].choose(c)
		p.Limits = []sash.Limit{pick(m.random, modelLimits[[]int{1, 5}[i]:][:3])}
		p.panicOnRequest()
	}
	return []*modelPolicy{shared, own}
}

// stop ends all that the model has begun, also if it has failed.
func (m *model) stop() {
	close(m.stopping)
	for _, c := range m.clients {
		c.Reset()
	}
	for _, x := range m.exchanges {
		if x.leave != nil {
			x.leave()
		}
	}
	if m.server != nil {
		_ = m.server.Close()
		<-m.ended
	}
	if m.limiter != nil {
		_ = m.limiter.Close()
	}
	time.Sleep(5 * time.Minute) // a request may wait whose client has gone unnoticed
	synctest.Wait()
}

// run runs the program. It returns how it fails, or an empty string.
func (m *model) run() (failure string) {
	defer m.stop()
	defer func() {
		if fault, ok := recover().(modelFailure); ok {
			failure = string(fault)
		} else if fault != "" {
			panic(fault)
		}
	}()
	m.start()
	for m.step = 1; m.step <= modelSteps; m.step++ {
		if m.skipped[m.step] {
			continue
		}
		m.random = m.randomOf(m.step)
		m.act()
		m.settle()
	}
	m.finish()
	return ""
}

// act makes one of modelCalls that is possible now.
func (m *model) act() {
	for range 20 {
		call := &modelCalls[m.random.IntN(len(modelCalls))]
		if what := call.do(m); what != "" {
			m.crossed.use("call " + call.name)
			m.log = append(m.log, fmt.Sprintf("%d at %v: %s: %s", m.step, time.Duration(m.clock.Now()), call.name, what))
			return
		}
	}
}

// runModel runs the program of a seed in a bubble.
func runModel(t *testing.T, seed uint64, skipped map[int]bool, crossed *crossings) (m *model, failure string) {
	m = &model{seed: seed, skipped: skipped, crossed: crossed}
	synctest.Test(t, func(*testing.T) { failure = m.run() })
	return m, failure
}

// shrink leaves steps out of a program as long as it fails.
func shrink(t *testing.T, seed uint64) (m *model, failure string) {
	skipped := map[int]bool{}
	m, failure = runModel(t, seed, nil, newCrossings())
	for step := modelSteps; step > 0; step-- {
		skipped[step] = true
		if shorter, same := runModel(t, seed, skipped, newCrossings()); same != "" {
			m, failure = shorter, same
		} else {
			delete(skipped, step)
		}
	}
	return m, failure
}

func environment(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// TestModel runs random programs. SASH_MODEL_SEED runs one of them and logs its steps;
// SASH_MODEL_PROGRAMS sets how many run.
func TestModel(t *testing.T) {
	if seed := environment("SASH_MODEL_SEED", 0); seed > 0 {
		m, failure := runModel(t, uint64(seed), nil, newCrossings())
		t.Logf("%s\n%s", m.describe(), strings.Join(m.log, "\n"))
		if failure != "" {
			t.Error(failure)
		}
		return
	}
	programs := 1000
	if testing.Short() || race.Enabled {
		programs /= 3
	}
	programs = environment("SASH_MODEL_PROGRAMS", programs)
	var next, calls atomic.Int64
	all := newCrossings()
	t.Run("workers", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed <= int64(programs) && !t.Failed(); seed = next.Add(1) {
					crossed := newCrossings()
					m, failure := runModel(t, uint64(seed), nil, crossed)
					if failure != "" {
						m.report(t, failure)
					}
					calls.Add(int64(len(m.log)))
					all.add(crossed)
				}
			})
		}
	})
	t.Logf("%d programs, %d calls, %s", programs, calls.Load(), all)
}

// report reports how m has failed, and the shortest program that does.
func (m *model) report(t *testing.T, failure string) {
	if shorter, again := shrink(t, m.seed); again != "" {
		m, failure = shorter, again
	}
	t.Errorf("seed %d, step %d: %s\n%s\nthe last steps, without those that do not matter:\n%s\nrepeat it with SASH_MODEL_SEED=%d go test -run 'TestModel$' ./httplimit",
		m.seed, m.step, failure, m.describe(), strings.Join(m.log[max(0, len(m.log)-12):], "\n"), m.seed)
}

// describe tells the policies of m.
func (m *model) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "options: store %t, charges denied %t, folds %t, own limits %v\n", m.store != nil, m.chargesDenied, m.folds, m.ownLimits)
	for _, p := range m.policies {
		fmt.Fprintf(&b, "%s %q %v plan %t cost %t charge %t %t settle %q queue %+v shadow %t everyone %t\n", p.Name, p.Pattern, p.Limits,
			p.Plan != nil, p.Cost != nil, p.Charge != nil, p.ChargeUncertain != nil, p.settleName, p.Queue, p.Shadow, p.everyone)
	}
	return b.String()
}

// crossings are what programs have used together.
type crossings struct {
	mu    sync.Mutex
	used  map[string]bool
	pairs map[[2]string]bool
}

func newCrossings() *crossings {
	return &crossings{used: map[string]bool{}, pairs: map[[2]string]bool{}}
}

// use notes that the program uses something.
func (c *crossings) use(name string) { c.used[name] = true }

// add adds what another program has used.
func (c *crossings) add(o *crossings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for a := range o.used {
		c.used[a] = true
		for b := range o.used {
			if a < b {
				c.pairs[[2]string{a, b}] = true
			}
		}
	}
}

func (c *crossings) String() string {
	n := len(c.used)
	return fmt.Sprintf("%d calls, fields and options, %d of %d pairs of them", n, len(c.pairs), n*(n-1)/2)
}

// panicOnRequest lets the functions of p panic on requests that ask for it.
func (p *modelPolicy) panicOnRequest() {
	check := func(r *http.Request, function string) {
		switch {
		case r.Header.Get("X-Panic") != p.Name+" "+function:
		case p.Shadow, r.Context().Value(directly{}) != nil:
			panic(http.ErrAbortHandler) // which must not go through
		default:
			panic("a function of the model panics")
		}
	}
	key := p.Key
	if !p.everyone { // a function around Everyone is not Everyone
		p.Key = func(b []byte, r *http.Request) ([]byte, bool) { check(r, "Key"); return key(b, r) }
	}
	if cost := p.Cost; cost != nil {
		p.Cost = func(r *http.Request) int64 { check(r, "Cost"); return cost(r) }
	}
	if leave := p.Leave; leave != nil {
		p.Leave = func(r *http.Request) int64 { check(r, "Leave"); return leave(r) }
	}
	if skip := p.Skip; skip != nil {
		p.Skip = func(r *http.Request) bool { check(r, "Skip"); return skip(r) }
	}
	if plan := p.Plan; plan != nil {
		p.Plan = func(r *http.Request) string { check(r, "Plan"); return plan(r) }
	}
}
