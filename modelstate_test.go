package sash

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A model is a program that runs: a limiter, and what is known of the state that it must be in.
type model struct {
	*modelConfig
	result *modelResult
	rng    *rand.Rand // of the step

	l      *Limiter
	clock  Clock
	manual *ManualClock // nil if the clock is the bubble's
	shift  int64        // of the limiter's timeline, since a Restore

	table   *reference.Table
	own     map[string]bool // the keys with limits by SetLimits
	tracked map[string]bool // the keys that must have an entry
	order   map[string]int  // the order in which they got it; 0 if it is not known
	entered int             // the number of calls whose keys got one
	stats   Stats           // what it counts, but for Keys, Waiters and what waiting calls and a janitor add

	reservations []*modelReservation
	waits        []*modelWait // those that have not ended
	waited       bool         // whether any call has slept
	begun        int          // the number of calls that began to wait
	settled      int64        // the clock's reading when all that waited was last looked at
	saved        []*modelSnapshot
	mu           sync.Mutex    // guards seen and what of waits they write, while calls run
	seen, told   []observation // by the observer, and what it must have seen

	last Decision // the latest, whose numbers the next calls may ask for
}

// An observation is one call of an observer.
type observation struct {
	key string
	n   int64
	d   Decision
}

// A modelFailure is what a step panics with if an answer is wrong.
type modelFailure string

func (m *model) fail(format string, args ...any) {
	panic(modelFailure(fmt.Sprintf(format, args...)))
}

// did adds to the description of the steps.
func (m *model) did(format string, args ...any) {
	m.result.steps = append(m.result.steps, fmt.Sprintf(format, args...))
}

// runProgram runs a program in a bubble.
func runProgram(t *testing.T, p modelProgram) *modelResult {
	r := &modelResult{program: p, calls: map[string]int{}}
	synctest.Test(t, func(*testing.T) { newModel(r).run() })
	return r
}

func newModel(r *modelResult) *model {
	c := drawConfig(r.program.seed)
	r.features = c.features
	m := &model{modelConfig: c, result: r, own: map[string]bool{}, tracked: map[string]bool{}, order: map[string]int{}}
	m.clock = bubbleTime{}
	if !m.bubbleClock {
		m.manual = NewManualClock(m.start)
		m.clock = m.manual
	}
	m.l = Must(New(m.options()...))
	m.l.hasher = *modelHasher()
	m.did("%v, plans %v, charge denied: %v, keys: %d %s, janitor: %v, late: %v, bubble's clock: %v", m.limits, m.plans, m.chargeDenied, m.maxKeys, modelOverflows[m.overflow], m.interval, m.late, m.bubbleClock)
	m.table = reference.NewTable(m.models(m.limits))
	m.table.NameOf = nameInLimiter
	for _, name := range modelNames() {
		m.setLimits(name, nil)
	}
	return m
}

// bubbleTime is the clock of the bubble.
type bubbleTime struct{}

func (bubbleTime) Now() int64 { return time.Now().UnixNano() }

// run runs the steps, and then lets all calls that wait come to their end.
func (m *model) run() {
	defer m.end()
	steps := 20 + m.modelConfig.rng.IntN(40)
	for step := range steps {
		if m.result.program.leaves(step) {
			continue
		}
		m.result.ran = append(m.result.ran, step)
		m.rng = rand.New(rand.NewPCG(m.result.program.seed, uint64(step)+1))
		m.step()
	}
	m.drain()
}

// end ends the program. If it has failed, it makes that the result.
func (m *model) end() {
	failure := recover()
	for _, w := range m.waits {
		w.cancel()
	}
	m.l.Close()
	switch failure := failure.(type) {
	case nil:
	case modelFailure:
		m.result.failure = string(failure)
	default:
		m.result.failure = fmt.Sprintf("panic: %v", failure)
	}
}

// step makes a call that is drawn from modelCalls.
func (m *model) step() {
	total := 0
	for _, c := range modelCalls {
		total += c.weight
	}
	for i := m.rng.IntN(total); ; i = m.rng.IntN(total) {
		at := 0
		for i -= modelCalls[at].weight; i >= 0; i -= modelCalls[at].weight {
			at++
		}
		c := &modelCalls[at]
		if c.allowed == nil || c.allowed(m) {
			m.result.calls[c.name]++
			c.run(m)
			synctest.Wait()
			m.settle()
			m.check()
			return
		}
	}
}

// now returns the instant of the limiter's timeline.
func (m *model) now() int64 { return m.clock.Now() + m.shift }

// check checks all that can be seen between two calls.
func (m *model) check() {
	m.sync(nil)
	s := m.l.Stats()
	want := m.stats
	want.Keys, want.Waiters = len(m.tracked), m.waiting()
	if m.interval >= 0 {
		s.Sweeps, want.Sweeps = 0, 0
	}
	if m.waited { // attempts are repeated, and keys evicted while calls wait may come back
		s.Evicted, want.Evicted = 0, 0
		s.Refused, want.Refused = 0, 0
		s.Shared, want.Shared = 0, 0
	}
	if s != want {
		m.fail("Stats() is %+v, want %+v", s, want)
	}
	if !slices.Equal(m.seen, m.told) {
		m.fail("the observer has seen\n%+v, want\n%+v", m.seen, m.told)
	}
	m.seen, m.told = m.seen[:0], m.told[:0]
	m.goOn()
}

func (m *model) observe(key string, n int64, d Decision) {
	m.l.Peek(key, 1) // it may call the limiter
	m.mu.Lock()      // calls that wait may be admitted at the same time
	defer m.mu.Unlock()
	m.seen = append(m.seen, observation{key, n, d})
}

// sync finds out which keys were evicted, and checks that they were those to be evicted. The keys
// of a call are not.
func (m *model) sync(pinned []string) {
	now := m.now()
	for _, name := range modelNames() {
		_, e := m.l.lookup(m.l.key(name))
		switch tracked := m.tracked[name]; {
		case e != nil && !tracked:
			m.fail("%s is tracked, and nothing was charged to it", modelName(name))
		case e != nil || !tracked:
		case m.table.Idle(now, name):
			delete(m.tracked, name)
			m.stats.Evicted++
		default:
			m.displace(name, pinned)
		}
	}
	if got := m.l.Len(); got != len(m.tracked) {
		m.fail("Len() is %d, want %d", got, len(m.tracked))
	}
}

// displace notes that a key was evicted though it was not idle, and checks that no other key has
// more of its quota left, nor as much and came later.
func (m *model) displace(name string, pinned []string) {
	m.did("  %s was evicted", modelName(name))
	if pinned == nil || len(m.tracked) < m.maxKeys {
		m.fail("%s has gone, though it is not idle", modelName(name))
	}
	for other := range m.tracked {
		_, e := m.l.lookup(m.l.key(other))
		if e == nil || slices.Contains(pinned, other) {
			continue
		}
		if m.table.Idle(m.now(), other) {
			m.fail("%s was evicted, though %s is idle", modelName(name), modelName(other))
		}
		order := m.compareLeft(name, other)
		if order < 0 || order == 0 && m.order[other] > m.order[name] && m.order[name] > 0 {
			m.fail("%s was evicted, and %s has more left", modelName(name), modelName(other))
		}
	}
	m.forget(name)
	m.stats.Displaced++
}

// compareLeft compares the parts of their quotas that two keys have left.
func (m *model) compareLeft(a, b string) int {
	leftA, countA := m.left(a)
	leftB, countB := m.left(b)
	hiA, loA := bits.Mul64(leftA, countB)
	hiB, loB := bits.Mul64(leftB, countA)
	return cmp.Or(cmp.Compare(hiA, hiB), cmp.Compare(loA, loB))
}

func (m *model) left(name string) (left, count uint64) {
	a := m.table.Peek(m.now(), 0, name)
	l := m.limitsOf(name)[a.Deciding]
	if l.Count == 0 {
		return 1, 1
	}
	return uint64(a.Remaining), uint64(l.most())
}

// forget notes that a key is not tracked any more, and that what was charged to it is lost.
func (m *model) forget(name string) {
	delete(m.tracked, name)
	delete(m.order, name)
	m.table.Reset(name)
}

// track notes that the keys of a call have an entry.
func (m *model) track(names ...string) {
	m.entered++
	for _, name := range names {
		if !m.tracked[name] && m.charges(name) && !strings.HasPrefix(name, "shared ") {
			m.tracked[name], m.order[name] = true, m.entered
		}
	}
}

// limitsOf returns the limits of a key, or of a quota that keys share.
func (m *model) limitsOf(name string) []Limit {
	if limits, own := m.overrides(name); own {
		return limits
	}
	return m.limits
}

// overrides returns the limits of its own that a key has.
func (m *model) overrides(name string) ([]Limit, bool) {
	if m.own[name] {
		return m.fromTable(name), true
	}
	if plan := m.plans[name]; plan != nil {
		if validate(plan) != nil {
			return []Limit{{Count: 0, Window: time.Second}}, true
		}
		return plan, true
	}
	return nil, false
}

// fromTable returns the limits that the reference has for the key.
func (m *model) fromTable(name string) (limits []Limit) {
	for _, r := range m.table.Limits(name) {
		limits = append(limits, limitOfModel(r))
	}
	return limits
}

// limitOfModel is the inverse of modelOf.
func limitOfModel(r reference.Limit) Limit {
	l := Limit{Count: r.Count, Window: time.Duration(r.Window), Precision: time.Duration(r.Precision), Burst: r.Burst}
	switch {
	case r.Held:
		l.Algorithm = Concurrency
	case r.Log:
		l.Algorithm = SlidingLog
	case r.Parts:
		l.Algorithm = SlidingParts
	case r.Precision > 0:
		l.Algorithm = SlidingBuckets
	case r.Burst > 0:
		l.Algorithm = TokenBucket
	}
	return l
}

func (m *model) models(limits []Limit) (models []reference.Limit) {
	for _, l := range limits {
		r := modelOf(l, m.chargeDenied)
		r.Unlimited = l == Unlimited()
		models = append(models, r)
	}
	return models
}

// wrong reports whether WithLimitsFor returns wrong limits for the key, which then count.
func (m *model) wrong(name string) bool { return !m.own[name] && validate(m.plans[name]) != nil }

// charges reports whether a call can be charged to the key.
func (m *model) charges(name string) bool {
	some, none, denied := false, false, false
	for _, l := range withoutUnlimited(m.limitsOf(name)) {
		none = none || l.Count == 0
		some = some || l.Count > 0 && l != Unlimited()
		denied = denied || l.Count > 0 && m.chargeDenied && l.Algorithm != Concurrency
	}
	return some && (!none || denied)
}

// spends reports whether what is spent past a reservation is charged to the key.
func (m *model) spends(name string) bool {
	return m.charges(name) && slices.ContainsFunc(m.limitsOf(name), func(l Limit) bool { return l.Algorithm != Concurrency })
}

// setLimits gives a key limits of its own in the reference, or takes them away.
func (m *model) setLimits(name string, limits []Limit) {
	m.own[name] = false
	if limits == nil {
		limits, _ = m.overrides(name)
	} else {
		m.own[name] = true
	}
	m.table.SetLimitsAt(m.now(), name, m.models(limits))
}

// A placing is where a call finds the state of its keys.
type placing struct {
	keys    []string        // each once
	names   []string        // under which the table has them
	refused map[string]bool // the keys that have no room
	shared  bool            // whether keys share a quota, as they have no room
	leave   int64           // units that the call must leave
}

// place returns where a call on these keys finds their states now.
func (m *model) place(keys []string, waits bool) (p placing) {
	missing, room := 0, 0
	for _, name := range keys {
		if slices.Contains(p.keys, name) {
			continue
		}
		p.keys = append(p.keys, name)
		if m.tracked[name] {
			room++
		} else if m.charges(name) {
			missing, room = missing+1, room+1
		}
	}
	p.names = p.keys
	if m.maxKeys == 0 || missing == 0 || m.fits(p.keys, missing, room, waits) {
		return p
	}
	p.names, p.refused = nil, map[string]bool{}
	for _, name := range p.keys {
		switch {
		case m.tracked[name] || !m.charges(name):
			p.names = append(p.names, name)
		case m.overflow == ShareOverflow:
			p.shared = true
			p.names = append(p.names, m.sharedName(name))
		default:
			p.refused[name] = true
		}
	}
	return p
}

// nameInLimiter is the name by which the limiter knows a key of the table: a shared entry has none.
func nameInLimiter(key string) string {
	if strings.HasPrefix(key, "shared ") {
		return ""
	}
	return key
}

// sharedName is the name under which the table has the quota that the key may share.
func (m *model) sharedName(name string) string {
	return fmt.Sprintf("shared %d", m.l.key(name).shard()-m.l.key("").shard())
}

// fits reports whether there is room for the missing ones of keys, if room keys of the call need it.
func (m *model) fits(keys []string, missing, room int, waits bool) bool {
	if max(missing, room) > m.maxKeys {
		return false
	}
	free := m.maxKeys - len(m.tracked)
	for name := range m.tracked {
		if !slices.Contains(keys, name) && (waits || !m.isWaitedFor(name)) && m.table.Idle(m.now(), name) {
			free++
		}
	}
	return m.overflow == EvictLeastUsed || free >= missing
}

// same checks an answer.
func (m *model) same(call string, got Decision, v reference.Verdict, p placing, n int64) {
	m.did("%s(%s, %d), leaving %d, at %d is %+v", call, modelKeys(p.keys), n, p.leave, m.now(), got)
	m.last = got
	if len(p.refused) > 0 {
		if want := m.refusal(v, p, n); got != want {
			m.fail("%s of keys without room is\n%+v, want\n%+v", call, got, want)
		}
		return
	}
	a := reference.Answer{Allowed: got.Allowed, Remaining: got.Remaining, RetryAfter: int64(got.RetryAfter), ResetAfter: int64(got.ResetAfter)}
	for _, name := range p.names {
		for i, l := range m.limitsOf(name) {
			if l != got.Limit {
				continue
			}
			if a.Deciding, a.DecidingKey = i, name; v.Confirms(a) {
				return
			}
		}
	}
	m.fail("%s(%s, %d), leaving %d, is\n%+v, want\n%+v", call, modelKeys(p.keys), n, p.leave, got, m.decision(v.Answer()))
}

// decision returns an answer of the reference as a Decision.
func (m *model) decision(a reference.Answer) Decision {
	return Decision{Allowed: a.Allowed, Limit: m.limitsOf(a.DecidingKey)[a.Deciding], Remaining: a.Remaining,
		RetryAfter: time.Duration(a.RetryAfter), ResetAfter: time.Duration(a.ResetAfter)}
}

// refusal returns the decision on a call if there is no room for some of its keys.
func (m *model) refusal(v reference.Verdict, p placing, n int64) (d Decision) {
	n = needed(n, p.leave)
	room := 0
	for _, name := range p.keys {
		if m.tracked[name] || m.charges(name) {
			room++
		}
	}
	for i, name := range p.keys {
		one := Decision{Allowed: n == 0 && v.Allowed, Limit: withoutUnlimited(m.limitsOf(name))[0]}
		switch {
		case !p.refused[name] && one.Allowed:
			one = m.decision(m.table.Peek(m.now(), n, name))
		case !p.refused[name]:
			one = m.decision(m.table.Refuse(m.now(), n, name))
		case n < 0 || m.exceeds(name, n) || n > 0 && room > m.maxKeys:
			one.RetryAfter = Never
		case n > 0:
			one.RetryAfter = m.l.current.Load().sweepInterval()
		}
		if i == 0 || d.Allowed && one.Remaining < d.Remaining || one.RetryAfter > d.RetryAfter {
			d.Limit = one.Limit
		}
		if i == 0 {
			d = one
			continue
		}
		d.Remaining = min(d.Remaining, one.Remaining)
		d.RetryAfter, d.ResetAfter = max(d.RetryAfter, one.RetryAfter), max(d.ResetAfter, one.ResetAfter)
	}
	return d
}

// needed returns how many units must be there for a call for n that leaves more.
func needed(n, leave int64) int64 {
	if n < 0 {
		return n
	}
	return plusSaturated(n, max(leave, 0))
}

// exceeds reports whether the key never admits n units.
func (m *model) exceeds(name string, n int64) bool {
	return slices.ContainsFunc(m.limitsOf(name), func(l Limit) bool { return n < 0 || n > l.most() })
}

// charged notes what a call for n units has done to the table, given whether it was allowed.
func (m *model) charged(p placing, n int64, allowed bool) {
	if n <= 0 {
		return
	}
	switch {
	case len(p.refused) > 0:
		m.stats.Refused++
	case p.shared:
		m.stats.Shared++
	}
	if slices.ContainsFunc(p.keys, func(name string) bool { return !m.tracked[name] && m.wrong(name) }) {
		m.stats.Invalid++
	}
	if len(p.refused) > 0 || !allowed && !m.chargeDenied {
		return
	}
	m.track(p.names...)
}

func modelKeys(keys []string) (names []string) {
	for _, name := range keys {
		names = append(names, modelName(name))
	}
	return names
}

// isErr checks that an error is the one wanted, or that there is none if want is nil.
func (m *model) isErr(call string, err, want error) {
	if want == nil && err != nil || !errors.Is(err, want) {
		m.fail("%s: the error is %v, want %v", call, err, want)
	}
}

// plusSaturated returns a+b, or what of it fits.
func plusSaturated(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
