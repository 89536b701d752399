package fleet

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
)

var (
	fleetHistories = flag.Int("fleet", 0, "how many histories to check in each test; 0 for a few")
	firstSeed      = flag.Uint64("seed", 0, "of the first history; those after it have the next ones")
)

// asProcess is set in the environment of a process that is one of a fleet, to what it does.
const asProcess = "SASH_FLEET_PROCESS"

// processes are what a process may do, by reading plans and writing what comes of them.
var processes = map[string]func(in io.Reader, out io.Writer) error{"serves": serve, "holds": hold}

func TestMain(m *testing.M) {
	does := processes[os.Getenv(asProcess)]
	if does == nil {
		os.Exit(m.Run())
	}
	if err := does(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A link is to a process that serves.
type link struct {
	plans   *json.Encoder
	records *json.Decoder
}

// goroutines returns links to that many goroutines. They end with the test.
func goroutines(t *testing.T, n int) (links []link) {
	var running sync.WaitGroup
	t.Cleanup(running.Wait) // runs last
	for range n {
		in, plans := io.Pipe()
		records, out := io.Pipe()
		running.Go(func() { out.CloseWithError(serve(in, out)) })
		t.Cleanup(func() { plans.Close() })
		links = append(links, link{json.NewEncoder(plans), json.NewDecoder(records)})
	}
	return links
}

// programs returns links to that many processes that serve, which are killed at the end of the test.
func programs(t *testing.T, n int) (links []link) {
	for range n {
		l, _ := start(t, "serves")
		links = append(links, l)
	}
	return links
}

// start starts a process that does what is said. kill kills it, which the end of the test does, too.
func start(t *testing.T, does string) (l link, kill func() error) {
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(program.Environ(), asProcess+"="+does)
	program.Stderr = os.Stderr
	plans, err := program.StdinPipe()
	require.NoError(t, err)
	records, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		plans.Close()
		_ = program.Wait() // it may have been killed
	})
	return link{json.NewEncoder(plans), json.NewDecoder(records)}, program.Process.Kill
}

// record lets all processes carry out p, each with its number, and returns the history.
func (p plan) record(t *testing.T, links []link) *history {
	t.Helper()
	var ready bool
	for i, l := range links {
		p.Process = i
		require.NoError(t, l.plans.Encode(p))
	}
	for _, l := range links {
		require.NoError(t, l.records.Decode(&ready))
	}
	for _, l := range links {
		require.NoError(t, l.plans.Encode(true))
	}
	h := &history{limits: p.Limits}
	for _, l := range links {
		var r record
		require.NoError(t, l.records.Decode(&r))
		h.records = append(h.records, &r)
		h.operations = append(h.operations, r.Operations...)
		h.faults = append(h.faults, r.Faults...)
	}
	for _, o := range h.operations {
		if o.Err != "" || o.By == sashredis.ByFallback || o.By == sashredis.ByStore && len(o.Instants) == 0 {
			h.faults = append(h.faults, fmt.Sprintf("not decided by the store: %v", o))
		}
	}
	return h
}

// limitsOf returns a random limit of each algorithm, with a short window. The first four may be leased.
func limitsOf(random *rand.Rand, most int64) []sash.Limit {
	limit := func() sash.Limit {
		return sash.Per(1+random.Int64N(most), time.Duration(5000+random.IntN(45000))*time.Microsecond)
	}
	log, buckets, tokens, parts, held := limit(), limit(), limit(), limit(), limit()
	if random.IntN(2) == 0 { // any other window is most often of fewer parts
		parts.Window = max(parts.Window/(16*time.Microsecond), 1) * 16 * time.Microsecond
	}
	return []sash.Limit{
		limit().Counter(),
		buckets.Buckets(time.Duration(1+random.Int64N(int64(buckets.Window/time.Microsecond))) * time.Microsecond),
		tokens.TokenBucket(1 + random.Int64N(most)),
		parts.Parts(),
		log.Log(),
		sash.AtOnce(held.Count, held.Window),
	}
}

// newPlan returns the plan of that number.
func newPlan(addr string, seed uint64) plan {
	random := rand.New(rand.NewPCG(seed, 1))
	p := plan{
		Addr: addr, Prefix: fmt.Sprintf("%d/", seed), Seed: seed, Callers: 8, Calls: 10,
		Pause: time.Duration(1+random.IntN(8)) * time.Millisecond, Mirror: 64, Several: random.IntN(2) == 0,
	}
	limits := limitsOf(random, 50)
	random.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
	p.Limits = limits[:1+random.IntN(3)*random.IntN(2)]
	return p
}

// A tally counts what the histories contained. It shows whether they tested anything.
type tally struct {
	histories, operations, allowed, settled int
	store, mirror, lease, trips, combined   int64
	leased, returned                        int64
	processes                               int
}

func (c *tally) add(h *history) {
	c.histories++
	c.operations += len(h.operations)
	c.processes = len(h.records)
	for _, o := range h.operations {
		if o.Decision.Allowed {
			c.allowed++
		}
		if o.Verb == settles {
			c.settled++
		}
	}
	for _, r := range h.records {
		s := r.Stats
		c.store, c.mirror, c.lease = c.store+s.Store, c.mirror+s.Mirror, c.lease+s.Lease
		c.trips, c.combined = c.trips+s.RoundTrips, c.combined+s.Combined
		c.leased, c.returned = c.leased+s.Leased, c.returned+s.Returned
	}
}

func (c *tally) String() string {
	return fmt.Sprintf("%d histories of %d operations by %d processes each: %d admitted, %d settled; decided by the store %d, the mirror %d, leases %d; "+
		"%d round trips, %d calls combined; %d units leased, %d returned",
		c.histories, c.operations, c.processes, c.allowed, c.settled, c.store, c.mirror, c.lease, c.trips, c.combined, c.leased, c.returned)
}

// count returns how many histories a test checks.
func count(few int) int {
	switch {
	case *fleetHistories > 0:
		return *fleetHistories
	case testing.Short(), race.Enabled: // which makes them slow
		return (few + 2) / 3
	}
	return few
}

// checkAll records that many histories and checks each while the next are recorded.
func checkAll(t *testing.T, links []link, n int, newPlan func(seed uint64) plan, check func(t *testing.T, h *history)) (c tally) {
	c.checkAll(t, links, n, newPlan, check)
	return c
}

// checkAll is the function of that name, and adds what the histories contained to c.
func (c *tally) checkAll(t *testing.T, links []link, n int, newPlan func(seed uint64) plan, check func(t *testing.T, h *history)) {
	var checks sync.WaitGroup
	defer checks.Wait()
	for i := 0; i < n && !t.Failed(); i++ {
		p := newPlan(*firstSeed + uint64(i))
		h := p.record(t, links)
		c.add(h)
		checks.Go(func() {
			if len(h.faults) > 0 {
				t.Errorf("seed %d, %v: %q", p.Seed, p.Limits, h.faults[:min(3, len(h.faults))])
			}
			if !t.Failed() {
				check(t, h)
			}
		})
	}
}

// linearizable fails the test if h is not linearizable.
func linearizable(t *testing.T, h *history) {
	if v := h.verdict(); v != porcupine.Ok {
		t.Errorf("%s, not linearizable:\n%v", v, h)
	}
}

// Processes that share a server answer as the exact rule does, whoever decides: the store, by
// itself or together with other calls, or the mirror.
func TestFleet_IsLinearizable(t *testing.T) {
	s := redistest.Start(t)
	c := checkAll(t, goroutines(t, 5), count(25), func(seed uint64) plan { return newPlan(s.Addr(), seed) }, linearizable)
	t.Log(&c)
	c.requireContention(t)
}

func TestFleet_OfProgramsIsLinearizable(t *testing.T) {
	s := redistest.Start(t)
	c := checkAll(t, programs(t, 4), count(15), func(seed uint64) plan { return newPlan(s.Addr(), 1000000+seed) }, linearizable)
	t.Log(&c)
	c.requireContention(t)
}

// Programs whose calls bring their limits answer as the exact rule does that has the limits of each call.
func TestFleet_OfCallsThatBringLimitsIsLinearizable(t *testing.T) {
	s := redistest.Start(t)
	links := programs(t, 8)
	c := checkAll(t, links, count(15), func(seed uint64) plan {
		p := newPlan(s.Addr(), 7000000+seed)
		p.Callers, p.Brings = 4, true
		return p
	}, linearizable)
	c.requireContention(t)
	c.checkAll(t, links, count(10), func(seed uint64) plan { // as in TestFleet_SettlesAsTheExactRule
		p := newPlan(s.Addr(), 8000000+seed)
		p.Callers, p.Brings, p.Mirror, p.Settles = 4, true, 0, true
		return p
	}, linearizable)
	t.Log(&c)
}

func (c *tally) requireContention(t *testing.T) {
	t.Helper()
	if t.Failed() {
		return
	}
	require.Greater(t, c.mirror, int64(c.operations/50), "the mirror denied nothing: this test has shown little")
	require.Greater(t, c.combined, int64(c.operations/50), "no calls were combined: this test has shown little")
	require.Greater(t, c.allowed, c.operations/10, "next to nothing was admitted: this test has shown little")
}

// Reservations settle and keys are reset as the exact rule says. The mirror may go on denying
// for a while after another process has given units back, so there is none.
func TestFleet_SettlesAsTheExactRule(t *testing.T) {
	s := redistest.Start(t)
	c := checkAll(t, goroutines(t, 4), count(20), func(seed uint64) plan {
		p := newPlan(s.Addr(), 2000000+seed)
		p.Mirror, p.Settles = 0, true
		return p
	}, linearizable)
	t.Log(&c)
	if !t.Failed() {
		require.Greater(t, c.settled, c.operations/50, "nothing was settled: this test has shown little")
	}
}
