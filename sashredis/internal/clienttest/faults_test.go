package clienttest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

const (
	// brief is the time-out of round trips that are to be disturbed, and ample of those that
	// are to succeed on a machine under load.
	brief = 100 * time.Millisecond
	ample = 20 * time.Second
	// slack is for how much longer than documented a call may last on a machine under load. The
	// clients themselves wait for a minute.
	slack           = 8 * time.Second
	clientsPatience = time.Minute
	year            = 365 * 24 * time.Hour // of a window that does not end in a test
)

// An adapter makes a client and a Conn of it. Dial connects to the server, whatever its address is.
type adapter struct {
	name    string
	single  func(t testing.TB, dial dialFunc) (conn sashredis.Conn, closeClient func())
	cluster func(t testing.TB, addr string) (conn sashredis.Conn, closeClient func())
}

type dialFunc func(ctx context.Context) (net.Conn, error)

// dialer returns the function that dials addr.
func dialer(network, addr string) dialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

var adapters = []adapter{
	{"goredis", func(_ testing.TB, dial dialFunc) (sashredis.Conn, func()) {
		client := redis.NewClient(&redis.Options{
			Dialer:      func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			ReadTimeout: clientsPatience, WriteTimeout: clientsPatience,
		})
		return goredisconn.New(client), func() { client.Close() }
	}, func(_ testing.TB, addr string) (sashredis.Conn, func()) {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, ReadTimeout: clientsPatience, WriteTimeout: clientsPatience})
		return goredisconn.New(client), func() { client.Close() }
	}},
	{"rueidis", func(t testing.TB, dial dialFunc) (sashredis.Conn, func()) {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"server"}, ForceSingleClient: true, DisableCache: true, ConnWriteTimeout: clientsPatience,
			PipelineMultiplex: -1, // all calls share one connection, and its faults
			DialCtxFn:         func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) { return dial(ctx) },
		})
		require.NoError(t, err)
		return rueidisconn.New(client), client.Close
	}, func(t testing.TB, addr string) (sashredis.Conn, func()) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true, ConnWriteTimeout: clientsPatience})
		require.NoError(t, err)
		return rueidisconn.New(client), client.Close
	}},
}

// withEachAdapter runs a test with each adapter, both at once.
func withEachAdapter(t *testing.T, test func(t *testing.T, a adapter)) {
	leaveNothing(t)
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// leaveNothing checks at the end of the test, when all of its clients, servers and proxies are
// closed, that there are no more goroutines than at the beginning.
func leaveNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(ample); runtime.NumGoroutine() > before; runtime.Gosched() {
			if time.Now().After(deadline) {
				b := make([]byte, 1<<20)
				t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), b[:runtime.Stack(b, true)])
				return
			}
		}
	})
}

// The keys of a storm, and their limits. None of them admits less when time passes, and none but
// the last is ever full.
var (
	stormKeys   = []string{"counter", "log", "buckets", "bucket", "parts", "held", "several", "full"}
	stormLimits = map[string][]sash.Limit{
		"counter": {sash.Per(100_000, year).Counter()},
		"log":     {sash.Per(100_000, year).Log()},
		"buckets": {sash.Per(100_000, year).Buckets(24 * time.Hour)},
		"bucket":  {sash.Per(1000, year).TokenBucket(50_000)}, // one unit in 9 hours
		"parts":   {sash.Per(100_000, year).Parts()},
		"held":    {sash.AtOnce(100_000, year)},
		"several": {sash.Per(100_000, year).Counter(), sash.Per(200_000, year).Buckets(24 * time.Hour)},
		"full":    {sash.Per(25, year).Counter()},
	}
	// Under leases, the token bucket has none: what it leases flows back, instead of being given
	// back, if it comes late.
	leaseLimits = map[string][]sash.Limit{
		"bucket": append(stormLimits["bucket"], sash.Per(100_000, year).Log()),
	}
	leasableKeys = map[string]bool{"counter": true, "buckets": true, "parts": true, "several": true, "full": true}
)

// leased is the greatest lease of a storm.
const leased = 20

// An account is what is known of the units that the store has charged to a key.
type account struct {
	gate sync.RWMutex // held for writing by a Reset, for reading by other calls

	mu          sync.Mutex
	used        int64 // known to be charged, and not given back for all that is known
	most        int64 // all that may be charged, but for leases
	unsure      int64 // of most, what may be charged
	generations int   // how many times the key may have been reset
	open        bool  // a Reset may still come to pass, so used tells nothing
}

// charged notes that a call has charged n units or, if unsure, may have or will.
func (a *account) charged(n int64, unsure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most += n
	if unsure {
		a.unsure += n
	} else {
		a.used += n
	}
}

// leased notes that n units of a lease were used.
func (a *account) leased(n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used += n
}

// gaveBack notes that n units have been given back that were charged in that generation or, if
// unsure, may have been.
func (a *account) gaveBack(n int64, generation int, unsure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if generation != a.generations {
		return // nothing comes back after a reset
	}
	a.used -= n
	if !unsure {
		a.most -= n
	}
}

// reset notes that the key was reset or, if unsure, may have been or will be.
func (a *account) reset(unsure bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.generations++
	a.used = 0
	if unsure {
		a.open = true
		return
	}
	a.most = a.unsure // a call without an answer may still be on its way
}

// A storm is several callers of a limiter, and what is known of its charges.
type storm struct {
	*sashredis.Limiter
	t        *testing.T
	leases   bool
	timeout  time.Duration
	accounts map[string]*account

	calls, unsure, unavailable, refused atomic.Int64
	unitsOfLeases                       atomic.Int64  // used
	called                              chan struct{} // receives after a call, if there is room

	mu   sync.Mutex
	held []holding // reservations that are not settled
}

type holding struct {
	sashredis.Reservation
	key        string
	n          int64
	generation int
}

// limitsOf returns the limits of the keys of a storm.
func limitsOf(leases bool) sashredis.Option {
	return sashredis.WithLimitsFor(func(key string) []sash.Limit {
		if leases && leaseLimits[key] != nil {
			return leaseLimits[key]
		}
		return stormLimits[key]
	})
}

// newStorm returns a storm whose calls find the store by conn, and wait for it for timeout.
func newStorm(t *testing.T, conn sashredis.Conn, timeout time.Duration, leases bool, options ...sashredis.Option) *storm {
	s := &storm{t: t, timeout: timeout, leases: leases, accounts: map[string]*account{}, called: make(chan struct{}, 1)}
	for _, key := range stormKeys {
		s.accounts[key] = &account{}
	}
	options = append([]sashredis.Option{
		sashredis.WithFallback(sashredis.FallbackDeny), limitsOf(leases), sashredis.WithTimeout(timeout),
		sashredis.WithBreaker(1<<30, time.Millisecond), // calls go to the store, however many have failed
	}, options...)
	if leases {
		length := time.Second
		if timeout == ample {
			length = 20 * time.Millisecond // they end before they are used up
		}
		options = append(options, sashredis.WithLease(leased, length))
	}
	var err error
	s.Limiter, err = sashredis.New(conn, nil, options...)
	require.NoError(t, err)
	return s
}

// blow lets 8 goroutines call until disturb returns.
func (s *storm) blow(seed uint64, disturb func()) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	for i := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, i))
			for {
				select {
				case <-over:
					return
				default:
					s.call(rng)
					s.calls.Add(1)
					select {
					case s.called <- struct{}{}:
					default: // until has not looked yet
					}
				}
			}
		})
	}
	defer wg.Wait()
	defer close(over)
	disturb()
}

// until waits until so many calls have been made, and holds returns true, while the storm blows. It
// looks after each call.
func (s *storm) until(calls int, holds func() bool) {
	s.t.Helper()
	stuck := time.After(time.Minute)
	for s.calls.Load() < int64(calls) || !holds() {
		select {
		case <-s.called:
		case <-stuck:
			s.t.Fatalf("the test does not get on: %d calls, %d units by leases, %+v", s.calls.Load(), s.unitsOfLeases.Load(), s.Stats())
		}
	}
}

// notRun are parts of errors which say that a script has done nothing.
var notRun = []string{"OOM ", "TRYAGAIN ", "MOVED ", "ASK ", "CLUSTERDOWN "}

// outcome counts a call that ended with err, and reports whether it has no effect for certain,
// or may have had one.
func (s *storm) outcome(err error) (none, unsure bool) {
	switch {
	case err == nil:
		return false, false
	case errors.Is(err, sashredis.ErrUnavailable):
		s.unavailable.Add(1)
		return true, false
	}
	for _, part := range notRun {
		if strings.Contains(err.Error(), part) {
			s.refused.Add(1)
			return true, false
		}
	}
	s.unsure.Add(1)
	if s.timeout == ample {
		s.t.Logf("a call failed: %v", err)
	}
	return false, true
}

// call makes a random call.
func (s *storm) call(rng *rand.Rand) {
	key, n := stormKeys[rng.IntN(len(stormKeys))], 1+rng.Int64N(3)
	account := s.accounts[key]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bound := 2 * s.timeout // one for the round trip under way, and one for its own
	if s.timeout == brief && rng.IntN(10) == 0 {
		d := time.Duration(rng.IntN(20)) * time.Millisecond
		bound = min(bound, d)
		if rng.IntN(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, d)
			defer cancel()
		} else {
			defer time.AfterFunc(d, cancel).Stop()
		}
	}
	begin := time.Now()
	what := "Take"
	defer func() {
		if d := time.Since(begin); d > bound+slack {
			s.t.Errorf("%s took %v", what, d)
		}
	}()

	switch rng.IntN(12) {
	case 0:
		what = "TakeAll"
		s.takeAll(ctx, stormKeys[rng.IntN(3)], stormKeys[3+rng.IntN(2)], n)
	case 1, 2:
		what = "Reserve"
		s.reserve(ctx, key, n)
	case 3, 4:
		what = "Commit"
		s.settle(ctx, rng)
	case 5:
		if rng.IntN(4) == 0 && (!s.leases || !leasableKeys[key]) {
			what = "Reset"
			s.reset(ctx, key)
		}
	case 6:
		// It does not tell whether its units belong to a lease.
		if key != "full" && (!s.leases || !leasableKeys[key]) {
			what, bound = "Wait", time.Second
			s.wait(ctx, key, n, bound)
		}
	default:
		if s.leases {
			n = 1 // a call for more than is left may make a lease that ends give back less
		}
		account.gate.RLock()
		defer account.gate.RUnlock()
		d := s.Take(ctx, key, n)
		s.note(d, n, account)
	}
}

// note notes the outcome of a call that charges n units to accounts.
func (s *storm) note(d sashredis.Decision, n int64, accounts ...*account) (charged bool) {
	if d.By != sashredis.ByFallback {
		assert.NoError(s.t, d.Err)
	} else {
		assert.Error(s.t, d.Err)
		assert.False(s.t, d.Allowed)
		assert.Positive(s.t, d.RetryAfter)
	}
	none, unsure := s.outcome(d.Err)
	for _, a := range accounts {
		switch {
		case none || !unsure && !d.Allowed:
		case d.By == sashredis.ByLease:
			a.leased(n)
			s.unitsOfLeases.Add(n)
		default:
			a.charged(n, unsure)
		}
	}
	return d.Allowed
}

func (s *storm) takeAll(ctx context.Context, first, second string, n int64) {
	a, b := s.accounts[first], s.accounts[second]
	a.gate.RLock()
	defer a.gate.RUnlock()
	b.gate.RLock()
	defer b.gate.RUnlock()
	s.note(s.TakeAll(ctx, []string{first, second}, n), n, a, b)
}

func (s *storm) reserve(ctx context.Context, key string, n int64) {
	a := s.accounts[key]
	a.gate.RLock()
	defer a.gate.RUnlock()
	r, d := s.Reserve(ctx, key, n)
	if s.note(d, n, a) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held = append(s.held, holding{r, key, n, a.generations})
	}
}

// settle settles a reservation, to less than was reserved, to as much, or to more.
func (s *storm) settle(ctx context.Context, rng *rand.Rand) {
	s.mu.Lock()
	if len(s.held) == 0 {
		s.mu.Unlock()
		return
	}
	i := rng.IntN(len(s.held))
	h := s.held[i]
	s.held[i] = s.held[len(s.held)-1]
	s.held = s.held[:len(s.held)-1]
	s.mu.Unlock()

	a := s.accounts[h.key]
	a.gate.RLock()
	defer a.gate.RUnlock()
	actual := rng.Int64N(h.n + 1)
	if h.key != "full" && rng.IntN(3) == 0 {
		actual = h.n + 2
	}
	var err error
	if actual == 0 {
		err = h.Cancel(ctx)
	} else {
		err = h.Commit(ctx, actual)
	}
	none, unsure := s.outcome(err)
	switch {
	case none:
	case h.key == "held": // all of it is back, whatever was used
		a.gaveBack(h.n, h.generation, unsure)
	case actual > h.n:
		a.charged(actual-h.n, unsure)
	default:
		a.gaveBack(h.n-actual, h.generation, unsure)
	}
	if err == nil {
		assert.NoError(s.t, h.Cancel(ctx), "settling again does nothing")
	}
}

func (s *storm) reset(ctx context.Context, key string) {
	a := s.accounts[key]
	a.gate.Lock()
	defer a.gate.Unlock()
	if none, unsure := s.outcome(s.Reset(ctx, key)); !none {
		a.reset(unsure)
	}
}

func (s *storm) wait(ctx context.Context, key string, n int64, most time.Duration) {
	a := s.accounts[key]
	a.gate.RLock()
	defer a.gate.RUnlock()
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	if none, unsure := s.outcome(s.Wait(ctx, key, n)); !none {
		a.charged(n, unsure)
	}
}

// chargedTo returns what the store has charged to the keys of a storm, as conn finds it.
func chargedTo(t *testing.T, conn sashredis.Conn, leases bool, options ...sashredis.Option) func(key string) int64 {
	t.Helper()
	fresh, err := sashredis.New(conn, nil, append(options, sashredis.WithFallback(sashredis.FallbackDeny), limitsOf(leases),
		sashredis.WithMirror(0), sashredis.WithTimeout(ample))...)
	require.NoError(t, err)
	return func(key string) int64 {
		t.Helper()
		d := fresh.Peek(context.Background(), key, 0)
		require.NoError(t, d.Err)
		if d.Limit.Algorithm == sash.TokenBucket {
			return d.Limit.Burst - d.Remaining
		}
		return d.Limit.Count - d.Remaining
	}
}

// audit closes the limiter, and compares what the store has charged, as conn finds it, with what
// is known of that. Options are for the names of keys in the store.
func (s *storm) audit(conn sashredis.Conn, options ...sashredis.Option) {
	t := s.t
	t.Helper()
	_ = s.Close() // what could not be given back stays leased
	read := chargedTo(t, conn, s.leases, options...)
	var charged, most int64 // of keys with leases
	for _, key := range stormKeys {
		a, got := s.accounts[key], read(key)
		if !a.open {
			assert.LessOrEqual(t, a.used, got, "key %q: known to be used, charged", key)
		}
		if s.leases && leasableKeys[key] {
			charged, most = charged+got, most+a.most
			continue
		}
		assert.LessOrEqual(t, got, a.most, "key %q: charged, may be charged", key)
	}
	stats := s.Stats()
	if s.leases {
		// What was granted in a round trip without an answer is not known.
		assert.LessOrEqual(t, charged, most+stats.Leased-stats.Returned+leased*s.unsure.Load(), "charged, may be charged")
		assert.Positive(t, stats.Lease)
		if s.unsure.Load()+s.refused.Load() == 0 {
			// What is given back may be under way for a moment.
			eventually(s.t, "all is given back", func() bool { return s.Stats().Leased == s.Stats().Returned+s.unitsOfLeases.Load() })
			for _, key := range stormKeys {
				assert.Equal(t, s.accounts[key].used, read(key), "key %q: used, charged", key)
			}
		}
	}
	if a := s.accounts["full"]; !a.open { // else it may have been reset later than is known
		assert.LessOrEqual(t, a.used, stormLimits["full"][0].Count)
	}
	t.Logf("%d calls: %d unsure, %d refused, %d not sent; %d round trips, %d by the mirror, %d by leases",
		s.calls.Load(), s.unsure.Load(), s.refused.Load(), s.unavailable.Load(), stats.RoundTrips, stats.Mirror, stats.Lease)
}

// recovers checks that calls succeed again.
func (s *storm) recovers() {
	s.t.Helper()
	account := s.accounts["counter"]
	eventually(s.t, "calls succeed", func() bool {
		d := s.Take(context.Background(), "counter", 1)
		s.note(d, 1, account)
		return d.Allowed
	})
}

// withAndWithoutLeases runs a test of storms with both adapters.
func withAndWithoutLeases(t *testing.T, test func(t *testing.T, a adapter, leases bool)) {
	withEachAdapter(t, func(t *testing.T, a adapter) {
		for _, leases := range []bool{false, true} {
			t.Run(fmt.Sprintf("leases=%v", leases), func(t *testing.T) { test(t, a, leases) })
		}
	})
}

func isScript(args []string) bool {
	return len(args) > 0 && (strings.EqualFold(args[0], "EVALSHA") || strings.EqualFold(args[0], "EVAL"))
}

// A proxy cuts and stalls connections at random requests, and delays them. Each call ends in
// time, and charges at most once.
func TestFaults_OnTheWay(t *testing.T) {
	for name, fault := range map[string]struct {
		faults  []redistest.Fault
		oneIn   int
		delays  bool
		breaker bool
		all     bool // also requests of handshakes
	}{
		"cut before": {faults: []redistest.Fault{redistest.CutBefore}, oneIn: 20},
		"cut after":  {faults: []redistest.Fault{redistest.CutAfter}, oneIn: 20},
		"stall":      {faults: []redistest.Fault{redistest.StallBefore, redistest.StallAfter}, oneIn: 50},
		"delay":      {delays: true, oneIn: 1 << 30},
		"everything": {faults: []redistest.Fault{redistest.CutBefore, redistest.CutAfter, redistest.StallBefore, redistest.StallAfter},
			oneIn: 20, delays: true, breaker: true, all: true},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutLeases(t, func(t *testing.T, a adapter, leases bool) {
				server := redistest.Start(t)
				proxy := redistest.StartProxy(t, server.Addr())
				conn, closeClient := a.single(t, dialer(proxy.Network(), proxy.Addr()))
				defer closeClient()
				var options []sashredis.Option
				if fault.breaker {
					options = append(options, sashredis.WithBreaker(3, 20*time.Millisecond))
				}
				s := newStorm(t, conn, brief, leases, options...)
				rng, delays := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(1, 3))
				var mu sync.Mutex
				var happened atomic.Int64
				s.blow(3, func() {
					proxy.OnRequest(func(args []string) redistest.Fault {
						mu.Lock()
						defer mu.Unlock()
						if rng.IntN(fault.oneIn) > 0 || !fault.all && !isScript(args) {
							return redistest.Forward
						}
						happened.Add(1)
						f := fault.faults[rng.IntN(len(fault.faults))]
						if f == redistest.StallBefore || f == redistest.StallAfter {
							time.AfterFunc(3*brief/2, proxy.Cut) // else the clients would wait for it
						}
						return f
					})
					for i := 1; ; i++ {
						if fault.delays {
							// Now and then, a round trip takes longer than its time-out.
							d := time.Duration(delays.Int64N(int64(brief / 20)))
							if delays.IntN(5) == 0 {
								d = brief * 2 / 3
							}
							proxy.SetDelay(d)
						}
						s.until(i*10, func() bool { return true })
						if i*10 >= steps(t, 150) && (happened.Load() >= 6 || fault.faults == nil) && (!leases || s.Stats().Lease > 0) {
							return
						}
					}
				})
				proxy.OnRequest(nil)
				proxy.SetDelay(0)
				proxy.Cut()
				s.recovers()
				direct, closeDirect := a.single(t, dialer(server.Network(), server.Addr()))
				defer closeDirect()
				s.audit(direct)
			})
		})
	}
}

// Whichever request of a series of calls is cut or stalled, before the server has it or after it
// has answered: the call fails, and has charged once what the server has run, and nothing else.
// The other calls go on as if nothing had happened.
func TestFaults_AtEveryRequest(t *testing.T) {
	withEachAdapter(t, func(t *testing.T, a adapter) {
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr())
		direct, closeDirect := a.single(t, dialer(server.Network(), server.Addr()))
		defer closeDirect()
		conn, closeClient := a.single(t, dialer(proxy.Network(), proxy.Addr()))
		defer closeClient()
		for fault, name := range map[redistest.Fault]string{
			redistest.CutBefore: "cut before", redistest.CutAfter: "cut after",
			redistest.StallBefore: "stall before", redistest.StallAfter: "stall after",
		} {
			for target, tries := 1, 0; ; {
				server.Command("SCRIPT", "FLUSH") // so that each script is sent twice at first
				server.Command("FLUSHALL")
				s := &series{want: map[string]int64{}, known: map[string]bool{}, target: target, fault: fault, proxy: proxy}
				proxy.OnRequest(s.onRequest)
				s.run(t, conn, brief/2*time.Duration(1+tries))
				proxy.OnRequest(nil)
				s.mu.Lock()
				sent := s.sent
				s.mu.Unlock()
				if (s.slow || sent >= target && s.failed != 1) && tries < 20 {
					tries++ // a slow machine
					continue
				}
				if sent < target {
					require.Greater(t, target, 15)
					break // it has been each of them
				}
				assert.False(t, s.slow, "%s, request %d", name, target)
				assert.Equal(t, 1, s.failed, "%s, request %d", name, target)
				charged := chargedTo(t, direct, false)
				for _, key := range stormKeys {
					assert.Equal(t, s.want[key], charged(key), "%s, request %d, key %q", name, target, key)
				}
				target, tries = target+1, 0
			}
		}
	})
}

// A series is calls. One of them fails.
type series struct {
	*sashredis.Limiter
	want   map[string]int64 // the units charged
	failed int              // calls
	slow   bool             // one of them failed before the request was disturbed

	proxy  *redistest.Proxy
	target int // the request that is disturbed
	fault  redistest.Fault

	mu    sync.Mutex
	sent  int             // requests
	known map[string]bool // scripts that the server knows
	ran   bool            // the request that was disturbed ran its script
}

func (s *series) onRequest(args []string) redistest.Fault {
	if !isScript(args) {
		return redistest.Forward
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent++
	runs := strings.EqualFold(args[0], "EVAL") || s.known[args[1]]
	s.known[args[1]] = true
	if s.sent != s.target {
		return redistest.Forward
	}
	switch s.fault {
	case redistest.CutAfter, redistest.StallAfter:
		s.ran = runs
	}
	return s.fault
}

// happened reports whether a call that ended with err had an effect. If it failed, the client
// gets a connection that is not stalled.
func (s *series) happened(err error) bool {
	if err == nil {
		return true
	}
	s.failed++
	s.mu.Lock()
	s.slow = s.slow || s.sent < s.target
	s.mu.Unlock()
	s.proxy.Cut()
	for deadline := time.Now().Add(ample); s.Peek(context.Background(), "log", 0).Err != nil && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ran
}

// run makes the calls, which wait for the store for timeout.
func (s *series) run(t *testing.T, conn sashredis.Conn, timeout time.Duration) {
	l, err := sashredis.New(conn, nil, limitsOf(false), sashredis.WithFallback(sashredis.FallbackDeny),
		sashredis.WithTimeout(timeout), sashredis.WithBreaker(1<<30, time.Millisecond))
	require.NoError(t, err)
	s.Limiter = l
	ctx := context.Background()
	charge := func(err error, n int64, keys ...string) {
		if s.happened(err) {
			for _, key := range keys {
				s.want[key] += n
			}
		}
	}
	charge(l.Take(ctx, "counter", 1).Err, 1, "counter")
	charge(l.Take(ctx, "log", 2).Err, 2, "log")
	charge(l.Take(ctx, "bucket", 10).Err, 10, "bucket")
	charge(l.TakeAll(ctx, []string{"counter", "several", "log"}, 3).Err, 3, "counter", "several", "log")
	for _, key := range []string{"buckets", "bucket"} {
		more, d := l.Reserve(ctx, key, 3)
		charge(d.Err, 3, key)
		less, d := l.Reserve(ctx, key, 5)
		charge(d.Err, 5, key)
		if d.Allowed {
			charge(less.Commit(ctx, 1), -4, key)
		}
		if more != (sashredis.Reservation{}) {
			charge(more.Commit(ctx, 4), 1, key)
		}
	}
	waiting, cancel := context.WithTimeout(ctx, ample)
	defer cancel()
	charge(l.Wait(waiting, "counter", 1), 1, "counter")
	charge(l.Take(ctx, "full", 1).Err, 1, "full")
	if s.happened(l.Reset(ctx, "full")) {
		s.want["full"] = 0
	}
	s.happened(l.Peek(ctx, "log", 0).Err)
}

// A server is stopped, paused, restarted with what it has on disk, or out of memory, over and
// over, or forgets its scripts.
func TestFaults_OfTheServer(t *testing.T) {
	for name, fault := range map[string]struct {
		args    []string
		timeout time.Duration
		disturb func(server *redistest.Server, s *storm)
		exact   bool // no outcome is unknown
	}{
		"SIGSTOP": {timeout: brief, disturb: func(server *redistest.Server, s *storm) {
			server.Pause()
			defer server.Resume()
			s.until(int(s.calls.Load())+20, func() bool { return true }) // each caller has timed out
		}},
		"CLIENT PAUSE": {timeout: brief, disturb: func(server *redistest.Server, _ *storm) {
			server.Command("CLIENT", "PAUSE", fmt.Sprint((3 * brief / 2).Milliseconds()), "ALL")
			server.Command("PING") // waits until that is over
		}},
		"restart": {args: []string{"--appendonly", "yes", "--appendfsync", "always"}, timeout: brief, disturb: func(server *redistest.Server, _ *storm) { server.Restart() }},
		"SCRIPT FLUSH": {timeout: ample, exact: true, disturb: func(server *redistest.Server, _ *storm) {
			server.Command("SCRIPT", "FLUSH")
		}},
		"OOM": {args: []string{"--maxmemory-policy", "noeviction"}, timeout: ample, exact: true, disturb: func(server *redistest.Server, s *storm) {
			before := s.refused.Load()
			server.Command("CONFIG", "SET", "maxmemory", "1")
			s.until(0, func() bool { return s.refused.Load() > before })
			server.Command("CONFIG", "SET", "maxmemory", "0")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withAndWithoutLeases(t, func(t *testing.T, a adapter, leases bool) {
				server := redistest.Start(t, fault.args...)
				conn, closeClient := a.single(t, dialer(server.Network(), server.Addr()))
				defer closeClient()
				s := newStorm(t, conn, fault.timeout, leases)
				s.blow(4, func() {
					for round := 1; round <= 2 || round <= steps(t, 200)/100; round++ {
						s.until(100*round, func() bool { return true })
						fault.disturb(server, s)
					}
					s.until(0, func() bool { return !leases || s.Stats().Lease > 0 && s.Stats().Returned > 0 })
				})
				s.recovers()
				s.audit(conn)
				if fault.exact {
					assert.Zero(t, s.unsure.Load())
				}
				assert.Equal(t, name == "OOM", s.refused.Load() > 0)
			})
		})
	}
}
