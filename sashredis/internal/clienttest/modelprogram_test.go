package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// settings are what the options of a process say, as the model has to know it.
type settings struct {
	options    []string // the names of those that were given
	fallback   modelFallback
	prefix     string
	tag        func(name string) string
	plans      bool
	timeout    time.Duration
	leasing    bool
	leaseUnits int64
	leaseFor   time.Duration
	failures   int
	pause      time.Duration
	maxAhead   int
	clock      *sash.ManualClock
	own        []sash.Limit
	hooked     *atomic.Int64 // round trips that the hook knows of and, times 2^32, those that have ended; nil: no hook
}

type modelFallback struct {
	mode     string
	num, den int64
}

func (f modelFallback) shares() (bool, string) { return f.mode == "local", f.mode }

// of returns the shares of limits.
func (f modelFallback) of(limits []sash.Limit) []sash.Limit {
	limits = slices.Clone(limits)
	share := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return max(n*f.num/f.den, 1)
	}
	for i := range limits {
		limits[i].Count, limits[i].Burst = share(limits[i].Count), share(limits[i].Burst)
	}
	return limits
}

// modelOptions are all options of the package. Each returns one that is drawn at random, and tells s
// what it says.
var modelOptions = map[string]func(p *program, r *rand.Rand, s *settings) sashredis.Option{
	"WithFallback": func(_ *program, r *rand.Rand, s *settings) sashredis.Option {
		switch s.fallback.mode = []string{"deny", "admit", "local", "local"}[r.IntN(4)]; s.fallback.mode {
		case "deny":
			return sashredis.WithFallback(sashredis.FallbackDeny)
		case "admit":
			return sashredis.WithFallback(sashredis.FallbackAdmit)
		}
		s.fallback.den = 1 + r.Int64N(5)
		s.fallback.num = 1 + r.Int64N(s.fallback.den)
		return sashredis.WithFallback(sashredis.FallbackLocal(s.fallback.num, s.fallback.den))
	},
	"WithPrefix": func(_ *program, r *rand.Rand, s *settings) sashredis.Option {
		s.prefix = []string{"sash:", "other:"}[r.IntN(2)]
		return sashredis.WithPrefix(s.prefix)
	},
	"WithHashTag": func(p *program, _ *rand.Rand, s *settings) sashredis.Option {
		s.tag = func(name string) string { return name[:min(len(name), 1)] }
		return sashredis.WithHashTag(func(name string) string {
			p.mayPanic(name)
			return s.tag(name)
		})
	},
	"WithLimitsFor": func(p *program, _ *rand.Rand, s *settings) sashredis.Option {
		s.plans = true
		return sashredis.WithLimitsFor(func(name string) []sash.Limit {
			p.mayPanic(name)
			return p.plan(name)
		})
	},
	"WithTimeout": func(_ *program, r *rand.Rand, s *settings) sashredis.Option {
		s.timeout = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, time.Second}[r.IntN(3)]
		return sashredis.WithTimeout(s.timeout)
	},
	"WithMirror": func(p *program, r *rand.Rand, _ *settings) sashredis.Option {
		if p.clock != nil {
			return sashredis.WithMirror(0)
		}
		return sashredis.WithMirror([]int{0, 1, 9, 1000}[r.IntN(4)])
	},
	"WithLease": func(p *program, r *rand.Rand, s *settings) sashredis.Option {
		if p.clock != nil {
			return sashredis.WithTimeout(s.timeout)
		}
		s.leasing, s.leaseUnits = true, 2+r.Int64N(20)
		s.leaseFor = max(10*time.Millisecond, p.scale/4+time.Duration(r.Int64N(int64(p.scale)*2))).Truncate(time.Microsecond)
		return sashredis.WithLease(s.leaseUnits, s.leaseFor)
	},
	"WithBreaker": func(_ *program, r *rand.Rand, s *settings) sashredis.Option {
		s.failures, s.pause = 1+r.IntN(4), 5*time.Millisecond<<r.IntN(8)
		return sashredis.WithBreaker(s.failures, s.pause)
	},
	"WithMaxAhead": func(_ *program, _ *rand.Rand, s *settings) sashredis.Option {
		s.maxAhead = 1 << 20 // no key is as far ahead: see TestMaxAhead
		return sashredis.WithMaxAhead(s.maxAhead)
	},
	"WithRoundTripHook": func(p *program, _ *rand.Rand, s *settings) sashredis.Option {
		s.hooked = &atomic.Int64{}
		return sashredis.WithRoundTripHook(func(ctx context.Context, calls []context.Context) (context.Context, func(err error)) {
			_, bounded := ctx.Deadline()
			if !bounded || len(calls) == 0 || slices.Contains(calls, nil) {
				p.failf("the hook of a round trip gets %v and %v", ctx, calls)
			}
			s.hooked.Add(1)
			return context.WithValue(ctx, hooked{}, true), func(error) { s.hooked.Add(1 << 32) }
		})
	},
	"WithCallerClock": func(p *program, _ *rand.Rand, s *settings) sashredis.Option {
		if p.clock == nil {
			return sashredis.WithTimeout(s.timeout)
		}
		s.clock = p.clock
		return sashredis.WithCallerClock(p.clock)
	},
}

// A program is a world, its processes, and what they do.
type program struct {
	*world
	*rand.Rand
	seed      uint64
	scale     time.Duration // of the windows
	clock     *sash.ManualClock
	names     []string
	freed     *atomic.Bool // the memory in which names lie
	processes []*process
	held      []*held
	calls     sync.WaitGroup
	crossed   map[string]int // calls, and calls with options

	planMu sync.Mutex
	plans  map[string][]sash.Limit
	asked  int    // for the limits or the tag of that name
	panics string // the name for which functions of the user panic; "": none
}

// held is a reservation that a process holds.
type held struct {
	sashredis.Reservation
	by        *process
	key       string
	limits    []sash.Limit
	n, actual int64
	reserved  reference.Reservation
	used      reference.Reservation
	local     reference.Reservation
	ofStore   bool
	exact     bool
	ran       bool
	busy      bool
}

// left returns the units that are left over of h; below 0, those that were spent past it and are charged.
func (h *held) left() int64 {
	left := h.n - h.actual
	if left < 0 && !slices.ContainsFunc(h.limits, func(l sash.Limit) bool { return l.Algorithm != sash.Concurrency }) {
		return 0
	}
	return left
}

// sends reports whether h is settled in the store.
func (h *held) sends() bool { return h.ofStore && (h.left() != 0 || h.n > 0 && holds(h.limits)) }

type userPanic struct{ seed uint64 }

func (u userPanic) String() string {
	return fmt.Sprintf("a function of the user panics, in the program of seed %d", u.seed)
}

var wrongLimits = []sash.Limit{{Count: -1, Window: time.Second}}

// mayPanic panics at each second call for the name that is chosen.
func (p *program) mayPanic(name string) {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	if p.panics != "" && name == p.panics {
		if p.asked++; p.asked%2 == 0 {
			panic(userPanic{p.seed})
		}
	}
}

func (p *program) plan(name string) []sash.Limit {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	return p.plans[name]
}

// limitsOf returns the limits of a key, or wrongLimits.
func (p *process) limitsOf(name string) []sash.Limit {
	if p.plans {
		if limits := p.program.plan(name); len(limits) > 0 {
			return limits
		}
	}
	return p.own
}

func (p *process) tagOf(name string) string {
	if p.tag == nil {
		return ""
	}
	return "{" + p.tag(name) + "}"
}

// newProgram returns the program of a seed. It is to be made in a bubble.
func newProgram(seed uint64) *program {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &program{Rand: r, seed: seed, crossed: map[string]int{}, plans: map[string][]sash.Limit{}}
	p.world = &world{
		began: time.Now(), store: newScriptStore(), ppm: r.Int64N(391) - 195,
		base:   1_800_000_000_000_000_000 + r.Int64N(int64(24*time.Hour)),
		limits: map[string][]sash.Limit{}, keys: map[string]*keyState{},
		table: reference.NewTable([]reference.Limit{{Window: 1}}),
	}
	p.table.NameOf = func(key string) string { return p.key(key).known }
	p.scale = []time.Duration{20 * time.Millisecond, time.Second, time.Minute, time.Hour}[r.IntN(4)]
	if r.IntN(6) == 0 {
		p.clock = sash.NewManualClock(r.Int64N(int64(100 * 24 * time.Hour)))
	}
	arena := []byte(strings.Repeat("a request that is long, and a key is a short part of it; ", 1+20*r.IntN(2)))
	p.freed = &atomic.Bool{}
	runtime.AddCleanup(&arena[0], func(freed *atomic.Bool) { freed.Store(true) }, p.freed)
	for i := range 2 + r.IntN(3) {
		at := r.IntN(40)
		p.names = append(p.names, unsafe.String(&arena[at], 1+i))
		p.plans[p.names[i]] = p.newLimits(r)
	}
	own := p.newLimits(r)
	for i := range 1 + r.IntN(3) {
		p.processes = append(p.processes, p.newProcess(fmt.Sprintf("p%d", i+1), r, own))
	}
	return p
}

// newLimits returns random limits of one key.
func (p *program) newLimits(r *rand.Rand) (limits []sash.Limit) {
	switch r.IntN(30) {
	case 0:
		return []sash.Limit{sash.Unlimited()}
	case 1:
		return []sash.Limit{{Window: p.scale}}
	}
	for range 1 + r.IntN(3)*r.IntN(2) {
		count := 1 + r.Int64N(20)
		switch r.IntN(8) {
		case 0:
			count = 1 + r.Int64N(1<<50)
		case 1, 2:
			count = 20 + r.Int64N(200)
		}
		window := (p.scale/2 + time.Duration(r.Int64N(int64(p.scale)))).Truncate(time.Microsecond)
		l := sash.Per(count, window)
		switch r.IntN(6) {
		case 0:
			l = l.Counter()
		case 1:
			l = l.Log()
		case 2:
			l = l.Buckets(window / time.Duration(1+r.IntN(12)) / time.Microsecond * time.Microsecond)
		case 3:
			l.Count = min(l.Count, 1<<30)
			l = l.TokenBucket(1 + r.Int64N(l.Count))
		case 4:
			l = l.Parts()
			if r.IntN(2) == 0 { // any other window is most often of fewer parts
				l.Window = max(window/(16*time.Microsecond), 1) * 16 * time.Microsecond
			}
		case 5:
			l = sash.AtOnce(count, window)
		}
		limits = append(limits, l)
	}
	return limits
}

// newProcess returns a process with random options.
func (p *program) newProcess(name string, r *rand.Rand, own []sash.Limit) *process {
	q := &process{world: p.world, program: p, name: name, known: map[string]knowledge{}, resets: map[string]turn{}, shares: reference.NewTable([]reference.Limit{{Window: 1}})}
	q.settings = settings{prefix: "sash:", timeout: 100 * time.Millisecond, failures: 5, pause: time.Second, own: own}
	q.weather, q.fates = weather{latency: time.Millisecond}, rand.New(rand.NewPCG(r.Uint64(), 2))
	given := []string{"WithFallback"}
	if p.clock != nil {
		given = append(given, "WithCallerClock")
	}
	for _, name := range []string{"WithPrefix", "WithHashTag", "WithLimitsFor", "WithTimeout", "WithMirror", "WithLease", "WithBreaker", "WithRoundTripHook"} {
		if r.IntN(2) == 0 || name == "WithMirror" && r.IntN(20) > 0 { // a mirror of the default size is large
			given = append(given, name)
		}
	}
	if p.seed%2 == 0 { // it changes nothing
		given = append(given, "WithMaxAhead")
	}
	var options []sashredis.Option
	for _, name := range given {
		options = append(options, modelOptions[name](p, r, &q.settings))
	}
	q.options = given
	q.Limiter = sashredis.Must(sashredis.New(q, own, options...))
	return q
}

// A step is a call or an event of a program. What it does is a function of its seed.
type step struct {
	verb string
	gap  time.Duration // until the next step
	join bool          // whether it waits for all calls that are under way
	seed uint64
}

// steps returns the steps of the program.
func (p *program) steps() (steps []step) {
	var verbs []string
	for _, name := range sortedKeys(modelCalls) {
		for range modelCalls[name].weight {
			verbs = append(verbs, name)
		}
	}
	for range 10 + p.IntN(25) {
		s := step{verb: verbs[p.IntN(len(verbs))], join: p.IntN(3) > 0, seed: p.Uint64()}
		switch p.IntN(4) {
		case 0:
			s.gap = time.Duration(p.Int64N(int64(p.scale) / 4))
		case 1:
			s.gap = time.Duration(p.Int64N(int64(50 * time.Millisecond)))
		case 2:
			s.gap = time.Duration(1 + p.IntN(3000))
		}
		steps = append(steps, s)
	}
	return steps
}

func sortedKeys[V any](m map[string]V) (keys []string) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// run carries steps out, and then checks what is left.
func (p *program) run(steps []step) {
	for _, s := range steps {
		if p.failed() {
			break
		}
		if s.join {
			p.calls.Wait()
		}
		r := rand.New(rand.NewPCG(s.seed, 3))
		c := modelCalls[s.verb]
		if c.event {
			p.calls.Wait()
		}
		q := p.processes[r.IntN(len(p.processes))]
		p.crossed[s.verb]++
		for _, option := range q.options {
			p.crossed[s.verb+" × "+option]++
		}
		c.do(p, q.asItself(), r)
		time.Sleep(s.gap + 1) // until each call under way waits for something
	}
	p.calls.Wait()
	p.ends()
}

// ends lets all connections recover, and checks that they do, and that all that is charged is
// known to some call.
func (p *program) ends() {
	for _, q := range p.processes {
		q.mu.Lock()
		q.weather = weather{latency: min(time.Millisecond, q.timeout/4)}
		q.mu.Unlock()
		time.Sleep(4*q.timeout + q.pause) // also until a WaitReserve that has ended has given back
	}
	p.planMu.Lock()
	p.panics = ""
	p.planMu.Unlock()
	for _, q := range p.processes {
		q.recovers()
		q.closes()
		q.underway.Wait()
		q.totals()
	}
	p.world.audit()
	for _, q := range p.processes {
		q.shares, q.resets = nil, nil
	}
	p.planMu.Lock()
	p.plans = nil
	p.planMu.Unlock()
	p.names, p.held = nil, nil
	p.world.unsure, p.world.guesses, p.world.slots = nil, nil, nil // callers are gone
}

// background makes a call in a goroutine.
func (p *program) background(a *asked, call func()) {
	p.calls.Go(func() { p.guarded(a, call) })
}

// guarded makes a call, and reports whether it has not panicked. If it panics, that must be why a
// function of the user, or the Conn, has panicked.
func (p *program) guarded(a *asked, call func()) (ok bool) {
	defer func() {
		a.returned.Store(true)
		switch fault := recover(); fault {
		case nil:
			ok = true
		case userPanic{p.seed}, errPanic: // perhaps of the fallback, after it was sent
			p.mu.Lock()
			defer p.mu.Unlock()
			p.unsure = append(p.unsure, a)
		default:
			a.faultf("it panics: %v", fault)
		}
	}()
	call()
	return true
}

// An ownContext is the context of a call, and may be another request's once that has returned: then its values
// must not be read.
type ownContext struct {
	context.Context
	call *asked
}

func (c ownContext) Value(key any) any {
	if c.call.returned.Load() {
		c.call.faultf("the values of its context are read although it has returned")
	}
	if key == (calling{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// own returns ctx as the context of a alone.
func (a *asked) own(ctx context.Context) context.Context { return ownContext{ctx, a} }

// context returns the context of a call.
func (p *program) context(q *process, r *rand.Rand, bounded bool) (context.Context, context.CancelFunc) {
	ctx := context.Background()
	d := time.Duration(r.Int64N(int64(q.timeout) * 3 / 2))
	switch r.IntN(8) {
	case 0:
		return context.WithTimeout(ctx, d)
	case 1:
		ctx, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(d, cancel)
		return ctx, func() { timer.Stop(); cancel() }
	case 2:
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		return ctx, cancel
	}
	if bounded {
		return context.WithTimeout(ctx, time.Duration(r.Int64N(int64(p.scale))+int64(q.timeout)))
	}
	return ctx, func() {}
}

// recovers checks that a store that answers is in use.
func (q *process) recovers() {
	name := q.program.names[0]
	if limits := q.limitsOf(name); slices.Equal(limits, wrongLimits) {
		return
	}
	a := q.asItself().begins("Take", []string{name}, 1, true, false)
	d := q.Take(context.Background(), name, 1)
	a.checks(context.Background(), d)
	if d.By == sashredis.ByFallback {
		a.faultf("a store that answers is not in use: %v", d.Err)
	}
}
