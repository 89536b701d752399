package sash

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// TestModel_Concurrent runs random programs of calls that several goroutines make at once, on one
// to three keys, so that they collide. The functions that the limiter calls in the middle of its
// steps, its clock among them, let other callers run.
//
// Time stands still while the callers of a phase run. So the order of their calls makes no
// difference to what is left at its end, and package reference knows that:
//
//   - Every field of what each key then answers is right: nothing that was charged is lost, and
//     nothing that was given back. The key is tracked, unless it is idle.
//   - No key was charged more than it had left, nor denied what it must have had left.
//   - Each answer is of a state that the key may have had.
//   - The observer has seen all that was charged, and nothing else.
//   - All calls return: those that wait once nothing makes them wait, or with their context.
//
// Some programs forget what was charged: by Reset, Restore, and under the Overflows that evict or
// share. There the end depends on the order. A key is then known to have admitted no more than its
// quota, as often as that was forgotten, and what it had been given back.
//
// SASH_MODEL_SEED and SASH_MODEL_PROGRAMS work as in [TestModel]. The calls follow from the seed, their
// order does not. To repeat a failure, run its seed many times, with -count.
//
// It does not reach these:
//   - Readings of the clock that differ while calls run. Races are tested with those by hand, as in
//     TestRace_LateReadingsAdmitNothingTwice.
//   - Limits that change in more than Count and Burst, under which the reference knows no sum, and
//     the Count of a token bucket: each change rounds what it lacks.
//   - What exactly Restore brings back while other calls run.
//   - Which calls that wait are admitted first. TestModel compares that.
//   - The steps between two atomic operations, but for the few at which a core happens to be lost.
//     The build tag yields reaches most of them, and TestSchedules_ reach all, in small cases.
func TestModel_Concurrent(t *testing.T) {
	programs := 500
	if race.Enabled || yielding {
		programs *= 2 // a fifth of it runs: it finds more there than elsewhere
	}
	runModel(t, programs, func(t *testing.T, p modelProgram) *modelResult {
		r := &modelResult{program: p, calls: map[string]int{}}
		defer mustReturn(p.seed)()
		synctest.Test(t, func(*testing.T) { newModelCrowd(r).run() })
		return r
	})
}

// mustReturn ends the tests if the program of that seed does not end within a minute. A call that
// spins keeps a bubble from ending. The caller must call stop.
func mustReturn(seed uint64) (stop func()) {
	timer := time.AfterFunc(time.Minute, func() { panic(fmt.Sprintf("seed %d: a call does not return", seed)) })
	return func() { timer.Stop() }
}

const (
	crowdKeys    = 3
	crowdCallers = 4
	crowdRaise   = 4 // how much greater a limit may become than it was at first
)

// A modelCrowd is a concurrent program that runs.
type modelCrowd struct {
	*modelConfig
	result  *modelResult
	names   []string
	forgets bool // whether calls make the limiter forget what was charged
	raise   int64

	l     *Limiter
	table *reference.Table
	own   [crowdKeys][]Limit // of SetLimits; nil for none. A key is changed by one caller of a phase

	open      []*crowdReservation // to be settled in a later phase
	waits     []*crowdWait        // the calls that have not returned
	seen      [crowdKeys]atomic.Int64
	callers   []*crowdCaller // of the phase
	forgotten atomic.Int64   // how often keys were, in this phase
}

// crowdSums are what happened to a key in a phase, in units.
type crowdSums struct {
	before, charged, back, spent int64
}

func newModelCrowd(r *modelResult) *modelCrowd {
	c := &modelConfig{rng: rand.New(rand.NewPCG(r.program.seed, 7)), interval: -1, maxWaiters: math.MaxInt}
	m := &modelCrowd{modelConfig: c, result: r, names: modelNames()[:crowdKeys]}
	c.limits = c.someLimits(1 + c.rng.IntN(2)*c.rng.IntN(3))
	for i := range c.limits {
		c.limits[i].Count = max(1, c.limits[i].Count)
		c.features = append(c.features, c.limits[i].Algorithm.String())
	}
	m.forgets = c.rng.IntN(5) == 0
	for _, o := range crowdOptions {
		if c.rng.IntN(5) < 2 && o.draw(m) {
			c.features = append(c.features, o.name)
		}
	}
	slices.Sort(c.features)
	r.features = slices.Compact(c.features)
	m.l = Must(New(m.options()...))
	m.l.hasher = *modelHasher()
	m.table = reference.NewTable(m.models(c.limits))
	m.follow(m.now())
	m.did("%v, plans %v, charge denied: %v, keys: %d %s, limits rise: %d, it forgets: %v",
		m.limits, m.plans, m.chargeDenied, m.maxKeys, modelOverflows[m.overflow], m.raise, m.forgets)
	return m
}

// crowdOptions are the options of a concurrent program. Not all of them go together.
var crowdOptions = []struct {
	name string
	draw func(m *modelCrowd) bool
}{
	{"WithObserver", func(m *modelCrowd) bool { m.observed = true; return true }},
	{"limits change", func(m *modelCrowd) bool { m.raise = crowdRaise; return true }},
	{"WithLimitsFor", func(m *modelCrowd) bool {
		m.plans = map[string][]Limit{m.names[0]: m.raised(m.rng), m.names[2]: m.raised(m.rng)}
		m.raise = crowdRaise
		return true
	}},
	{"WithMaxKeys", func(m *modelCrowd) bool {
		m.maxKeys, m.overflow = 1+m.rng.IntN(crowdKeys), DenyNew
		if m.forgets {
			m.overflow = []Overflow{EvictLeastUsed, DenyNew, ShareOverflow}[m.rng.IntN(3)]
		}
		return true
	}},
	{"WithMaxWaiters", func(m *modelCrowd) bool { m.maxWaiters = m.rng.IntN(4); return true }},
	{"WithChargeDenied", func(m *modelCrowd) bool { m.chargeDenied = m.forgets; return m.forgets }},
}

func (m *modelCrowd) options() []Option {
	options := []Option{WithLimits(m.limits...), WithClock(crowdClock{}), WithSweepInterval(-1)}
	if m.plans != nil {
		options = append(options, WithLimitsFor(m.planOf))
	}
	if m.observed {
		options = append(options, WithObserver(m.observe))
	}
	if m.maxKeys > 0 {
		options = append(options, WithMaxKeys(m.maxKeys, m.overflow))
	}
	if m.chargeDenied {
		options = append(options, WithChargeDenied())
	}
	if m.maxWaiters < math.MaxInt {
		options = append(options, WithMaxWaiters(m.maxWaiters))
	}
	return options
}

func (m *modelCrowd) planOf(name string) []Limit {
	letOthersRun()
	return m.plans[name]
}

func (m *modelCrowd) observe(name string, n int64, d Decision) {
	letOthersRun()
	if d.Allowed {
		m.seen[slices.Index(m.names, name)].Add(n)
	}
}

// raised returns the limits of the program with other Counts, or Bursts.
func (m *modelCrowd) raised(rng *rand.Rand) []Limit {
	limits := slices.Clone(m.limits)
	for i := range limits {
		if more := rng.Int64N(crowdRaise + 1); limits[i].Algorithm == TokenBucket {
			limits[i].Burst += more
		} else {
			limits[i].Count += more
		}
	}
	return limits
}

func (m *modelCrowd) now() int64 { return bubbleTime{}.Now() }

func (m *modelCrowd) models(limits []Limit) (models []reference.Limit) {
	for _, l := range limits {
		models = append(models, modelOf(l, m.chargeDenied))
	}
	return models
}

func (m *modelCrowd) fail(format string, args ...any) {
	panic(modelFailure(fmt.Sprintf(format, args...)))
}

// did adds to the description of the steps.
func (m *modelCrowd) did(format string, args ...any) {
	m.result.steps = append(m.result.steps, fmt.Sprintf(format, args...))
}

// run runs the phases, and then lets all calls that wait give up.
func (m *modelCrowd) run() {
	defer m.end()
	for phase := range 2 + m.rng.IntN(4) {
		if m.result.program.leaves(phase) {
			continue
		}
		m.result.ran = append(m.result.ran, phase)
		m.phase(rand.New(rand.NewPCG(m.result.program.seed, uint64(phase)+1)))
	}
	m.giveUp()
}

// end ends the program. If it has failed, it makes that the result.
func (m *modelCrowd) end() {
	if failure := recover(); failure != nil {
		m.tell()
		m.result.failure = fmt.Sprint(failure)
	}
	for _, w := range m.waits {
		w.cancel()
	}
}

// tell adds the calls of the phase to the description of the steps.
func (m *modelCrowd) tell() {
	for _, c := range m.callers {
		m.result.steps = append(m.result.steps, c.steps()...)
	}
}

// giveUp makes all calls that wait give up.
func (m *modelCrowd) giveUp() {
	for _, w := range m.waits {
		w.cancel()
	}
	synctest.Wait()
	m.collect()
	if len(m.waits) > 0 {
		m.fail("%s does not return, though its context has ended", m.waits[0])
	}
}

// phase lets callers run at one instant, and compares what is left. Then it lets time pass.
func (m *modelCrowd) phase(rng *rand.Rand) {
	var sums [crowdKeys]crowdSums
	if !m.forgets && rng.IntN(4) == 0 {
		m.burst(rng.IntN(crowdKeys))
	}
	for k := range sums {
		sums[k].before = m.left(k)
	}
	m.gather(rng)
	start := make(chan struct{})
	var running sync.WaitGroup
	for _, c := range m.callers {
		running.Go(func() { <-start; c.run() })
	}
	close(start)
	running.Wait()
	synctest.Wait() // for those that wait
	for _, c := range m.callers {
		for call, n := range c.calls {
			m.result.calls[crowdCalls[call].name] += n
		}
	}
	if os.Getenv("SASH_MODEL_SEED") != "" {
		m.tell()
	}
	m.account(&sums)
	if m.forgets {
		m.checkForgetful(&sums)
		m.startAnew()
		return
	}
	m.checkSums(&sums)
	m.check()
	m.pass(rng)
}

// burst charges a key at many instants, so that its logs have many records. Sweeps give back the
// room of those that have expired.
func (m *modelCrowd) burst(k int) {
	for range 40 {
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		m.collect()
		if at := m.now(); m.l.Allow(m.names[k]) {
			m.table.Charge(at, 1, m.names[k])
		}
		m.seen[k].Store(0)
	}
	time.Sleep(m.limits[0].Window)
	synctest.Wait()
	m.collect()
}

// gather makes the callers of a phase. It draws the calls that they may make, so that few kinds of
// calls meet often.
func (m *modelCrowd) gather(rng *rand.Rand) {
	var calls []int
	for i, call := range crowdCalls {
		if (call.when == nil || call.when(m)) && rng.IntN(4) == 0 {
			calls = append(calls, slices.Repeat([]int{i}, max(1, call.weight*rng.IntN(4)))...)
		}
	}
	keys := []int{1, 1, 2, 2, 3}[rng.IntN(5)]
	first := rng.IntN(crowdKeys)
	m.callers = nil
	for i := range crowdCallers {
		c := &crowdCaller{modelCrowd: m, rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), number: i, calls: make([]int, len(crowdCalls))}
		c.choice = append(slices.Clone(calls), rng.IntN(3))
		for k := range keys {
			c.keys = append(c.keys, (first+k)%crowdKeys)
		}
		for k := range c.least {
			c.least[k], c.most[k] = 1<<62, -1
		}
		m.callers = append(m.callers, c)
	}
	for i, r := range m.open { // some are settled by two callers at once
		m.callers[i%crowdCallers].open = append(m.callers[i%crowdCallers].open, r)
		if rng.IntN(3) == 0 {
			m.callers[(i+1)%crowdCallers].open = append(m.callers[(i+1)%crowdCallers].open, r)
		}
	}
	for _, w := range m.waits {
		c := m.callers[rng.IntN(crowdCallers)]
		c.waits = append(c.waits, w)
	}
	m.open = nil
}

// account adds what the callers have done to the table of the reference.
func (m *modelCrowd) account(sums *[crowdKeys]crowdSums) {
	now := m.now()
	for _, c := range m.callers {
		for _, charge := range c.charges {
			m.charge(now, charge, sums)
		}
		for k, n := range c.charged {
			sums[k].charged += n
			m.table.Charge(now, n, m.names[k]) // their sum, as they are of one instant
		}
		m.open = append(m.open, c.open...)
		m.waits = append(m.waits, c.begun...)
	}
	for _, w := range m.ended() {
		m.charge(now, w.crowdCharge, sums)
	}
	m.follow(now)
	settled := map[*crowdReservation]bool{}
	for _, c := range m.callers {
		for _, r := range c.settled {
			if !settled[r] {
				settled[r] = true
				sums[r.key].back += m.givesBack(r)
				sums[r.key].spent += max(0, r.actual-r.n)
				m.table.Settle(now, r.theirs, r.actual)
			}
		}
	}
	m.open = slices.DeleteFunc(m.open, func(r *crowdReservation) bool {
		known := settled[r] // or another caller had it as well
		settled[r] = true
		return known
	})
}

// givesBack returns how many units r gives back to its key, under any limit.
func (m *modelCrowd) givesBack(r *crowdReservation) int64 {
	if slices.ContainsFunc(m.table.Limits(m.names[r.key]), func(l reference.Limit) bool { return l.Held }) {
		return r.n
	}
	return max(0, r.n-r.actual)
}

// charge adds a charge to the table.
func (m *modelCrowd) charge(at int64, c crowdCharge, sums *[crowdKeys]crowdSums) {
	var names []string
	for _, k := range c.keys {
		sums[k].charged += c.n
		names = append(names, m.names[k])
	}
	for i, r := range m.table.Charge(at, c.n, names...) {
		if c.made != nil {
			c.made[i].theirs = r
		}
	}
}

// follow gives the keys in the table the limits that they have by now.
func (m *modelCrowd) follow(now int64) {
	m.table.ReconfigureAt(now, m.models(m.l.Limits()))
	for k, name := range m.names {
		limits := m.own[k]
		if limits == nil && m.l.current.Load().setup.limitsFor != nil {
			limits = m.plans[name]
		}
		m.table.SetLimitsAt(now, name, m.models(limits))
	}
}

// collect adds the charges of calls that have waited to the table, in the order of their times.
// Nothing else has happened meanwhile, so the key must have admitted each of them.
func (m *modelCrowd) collect() {
	var sums [crowdKeys]crowdSums
	ended := m.ended()
	// Of one instant, the calls may have been admitted in any order. The one that leaves most is admitted if it
	// is the first, and does not keep the others from it.
	slices.SortStableFunc(ended, func(a, b *crowdWait) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.leave, a.leave))
	})
	for _, w := range ended {
		if !m.forgets && !m.table.Leaving(w.leave).Consider(w.at, w.n, m.namesOf(w.keys)...).Allowed {
			m.fail("%s is admitted at %d", w, w.at)
		}
		m.charge(w.at, w.crowdCharge, &sums)
	}
	m.checkSeen(&sums)
}

// ended takes the calls that have returned out of waits. It returns those that were admitted.
func (m *modelCrowd) ended() (admitted []*crowdWait) {
	m.waits = slices.DeleteFunc(m.waits, func(w *crowdWait) bool {
		if !w.done.Load() {
			return false
		}
		if w.err == nil {
			admitted = append(admitted, w)
			if len(w.made) > 0 {
				m.open = append(m.open, w.made...)
			}
		} else if why := m.wrongError(w); why != "" {
			m.fail("%s: the error is %v, but %s", w, w.err, why)
		}
		return true
	})
	return admitted
}

func (m *modelCrowd) namesOf(keys []int) (names []string) {
	for _, k := range keys {
		names = append(names, m.names[k])
	}
	return names
}

// String returns what happened in a phase, for a reader.
func (s crowdSums) String() string {
	return fmt.Sprintf("it had %d left, was charged %d, spent %d more than was reserved, and was given back %d", s.before, s.charged, s.spent, s.back)
}

// checkSums checks the answers of the phase by what happened in it.
func (m *modelCrowd) checkSums(sums *[crowdKeys]crowdSums) {
	m.checkSeen(sums)
	var least [crowdKeys]int64
	for k, s := range sums {
		least[k] = s.before - s.charged - s.spent - m.raise
		most := s.before + s.back + m.raise
		if s.charged > most {
			m.fail("k%d admits too much: %v", k, s)
		}
		for _, c := range m.callers {
			if c.least[k] < max(0, least[k]) && m.maxKeys == 0 || c.most[k] > most {
				m.fail("k%d is said to have %d to %d left: %v", k, c.least[k], c.most[k], s)
			}
		}
	}
	if m.maxKeys > 0 {
		return // a key that has no room is denied
	}
	for _, c := range m.callers {
		for _, d := range c.denied {
			if !slices.ContainsFunc(d.keys, func(k int) bool { return least[k] < d.n }) {
				m.fail("%d units of keys %v are denied: %v", d.n, d.keys, sums)
			}
		}
	}
}

// checkSeen checks that the observer has seen what was charged.
func (m *modelCrowd) checkSeen(sums *[crowdKeys]crowdSums) {
	for k := range m.seen {
		if seen := m.seen[k].Swap(0); m.observed && seen != sums[k].charged {
			m.fail("the observer has seen %d units admitted for k%d: %v", seen, k, sums[k])
		}
	}
}

// check checks what each key answers, and that no call waits for nothing.
func (m *modelCrowd) check() {
	now := m.now()
	for k, name := range m.names {
		if !m.tracked(k) && !m.table.Idle(now, name) {
			m.fail("k%d has gone, though it is not idle", k)
		}
		if !m.tracked(k) && m.maxKeys > 0 {
			continue // there may be no room for it
		}
		for _, n := range []int64{0, m.left(k) + 1} {
			if got := m.l.Peek(name, n); !m.confirms(got, now, n, name) {
				m.fail("Peek(k%d, %d) is %+v, want %+v", k, n, got, m.table.Peek(now, n, name))
			}
		}
	}
	if n := m.l.Stats().Waiters; n != len(m.waits) || n > m.maxWaiters {
		m.fail("Stats says that %d calls wait, of at most %d; %d have not returned", n, m.maxWaiters, len(m.waits))
	}
	if n := m.l.Len(); m.maxKeys > 0 && n > m.maxKeys {
		m.fail("%d keys are tracked, more than %d", n, m.maxKeys)
	}
	if m.maxKeys == 0 {
		m.checkWaiting()
	}
}

// tracked reports whether a key is tracked.
func (m *modelCrowd) tracked(k int) bool {
	_, e := m.l.lookup(m.l.key(m.names[k]))
	return e != nil
}

// left returns how many units are left to a key between two phases, as check has found. There may
// be no room for a key that is not tracked, which is idle.
func (m *modelCrowd) left(k int) int64 {
	if m.maxKeys == 0 || m.tracked(k) {
		return m.l.Peek(m.names[k], 0).Remaining
	}
	left := int64(math.MaxInt64)
	for _, l := range m.table.Limits(m.names[k]) {
		left = min(left, limitOfModel(l).most())
	}
	return left
}

// confirms reports whether the reference gives that answer.
func (m *modelCrowd) confirms(d Decision, now, n int64, name string) bool {
	v := m.table.Consider(now, n, name)
	for i, l := range m.table.Limits(name) {
		if limitOfModel(l) == d.Limit && v.Confirms(reference.Answer{Allowed: d.Allowed, Remaining: d.Remaining,
			RetryAfter: int64(d.RetryAfter), ResetAfter: int64(d.ResetAfter), Deciding: i, DecidingKey: name}) {
			return true
		}
	}
	return false
}

// checkWaiting checks that something makes the calls wait that do. The first of those that wait
// for a key alone, and the first of all, wait for no other call.
func (m *modelCrowd) checkWaiting() {
	m.checkSomeDenied(m.waits)
	for k := range crowdKeys {
		of := slices.DeleteFunc(slices.Clone(m.waits), func(w *crowdWait) bool { return !slices.Contains(w.keys, k) })
		if !slices.ContainsFunc(of, func(w *crowdWait) bool { return len(w.keys) > 1 }) {
			m.checkSomeDenied(of)
		}
	}
}

func (m *modelCrowd) checkSomeDenied(waits []*crowdWait) {
	for _, w := range waits {
		if !m.table.Leaving(w.leave).Consider(m.now(), w.n, m.namesOf(w.keys)...).Allowed {
			return
		}
	}
	if len(waits) > 0 {
		m.fail("%s waits for nothing", waits[0])
	}
}

// pass lets time pass, in which calls that wait are admitted. Some keys become idle.
func (m *modelCrowd) pass(rng *rand.Rand) {
	m.callers = nil
	window := m.limits[rng.IntN(len(m.limits))].Window
	d := []time.Duration{0, 1, window / 3, window, 2*window + 1, 40 * window}[rng.IntN(6)]
	time.Sleep(d)
	synctest.Wait()
	m.did("%v pass", d)
	m.collect()
	if rng.IntN(3) == 0 {
		m.l.Sweep()
		for k, name := range m.names {
			waits := slices.ContainsFunc(m.waits, func(w *crowdWait) bool { return slices.Contains(w.keys, k) })
			if !waits && m.tracked(k) && m.table.Idle(m.now(), name) {
				m.fail("k%d is tracked, though it is idle", k)
			}
		}
	}
	m.check()
}

// checkForgetful checks that no key has admitted more than it had, as often as it was forgotten.
func (m *modelCrowd) checkForgetful(sums *[crowdKeys]crowdSums) {
	m.checkSeen(sums)
	for k, s := range sums {
		times := 1 + m.forgotten.Load() + int64(m.l.Stats().Displaced)
		if m.overflow == ShareOverflow && m.maxKeys > 0 {
			times *= 2 // the key's own quota, and the one that it shares
		}
		if quota := s.before + m.raise; s.charged-s.back > times*quota {
			m.fail("k%d admits too much, though it was forgotten only %d times: %v", k, times-1, s)
		}
	}
}

// startAnew lets all calls that wait give up, and makes the limiter one that was never used.
func (m *modelCrowd) startAnew() {
	m.giveUp()
	for k, name := range m.names {
		if m.l.SetLimits(name) != nil {
			m.fail("SetLimits of no limits returns an error")
		}
		m.own[k] = nil
		m.l.Reset(name)
	}
	if n := m.l.Len(); n > 0 {
		m.fail("%d keys are tracked once all were reset", n)
	}
	m.forgotten.Store(0)
	m.open, m.callers = nil, nil
	m.l = Must(New(m.options()...))
	m.l.hasher = *modelHasher()
	m.table = reference.NewTable(m.models(m.limits))
	m.follow(m.now())
}
