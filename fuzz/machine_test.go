package fuzz

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

var names = [...]string{"", "a", "a key of some length, longer than a word"}

// A policy is the configuration of a limiter, and of its reservations.
type policy struct {
	limits       []sash.Limit
	own          []sash.Limit // limits of its own for the last of names; nil for none
	chargeDenied bool
	settles      bool // whether reservations are settled to other costs than theirs
	// givesBack is whether reservations are settled to lower costs, too. Then no denied
	// call is charged, and the clock does not go back: the limiter and the reference may
	// differ in the newest time of a key all of whose units were given back. The clock does not go back
	// either where units are held.
	givesBack bool
}

// A machine runs a program on a limiter and on the reference, and compares them.
type machine struct {
	t *testing.T
	policy
	clock    *sash.ManualClock
	limiter  *sash.Limiter
	table    *reference.Table
	reserved []*reservation
	// tracked are the keys that the limiter must track: those charged, and neither
	// evicted nor reset since.
	tracked map[string]bool
	// swept is the clock's reading at the latest sweep that evicted a key. The clock
	// does not go back before it. An evicted key loses the newest time that it has
	// seen, and the reference, which never evicts, remembers that time.
	swept int64
	// retry and reset are the waits of the latest answer. A program may advance by them.
	retry, reset int64
}

// A reservation is a reservation of the limiter, and the same one of the reference.
type reservation struct {
	ours   sash.Reservation
	theirs reference.Reservation
	key    string
	units  int64
	open   bool // whether it was admitted, and is not settled
}

func newMachine(t *testing.T, p policy, start int64) *machine {
	t.Logf("%+v, from %d", p, start)
	m := &machine{
		t: t, policy: p, clock: sash.NewManualClock(start), swept: math.MinInt64,
		table:   table(p.limits, p.chargeDenied),
		tracked: map[string]bool{},
	}
	m.limiter = limiter(p.limits, p.chargeDenied, m.clock)
	if p.own != nil {
		last := names[len(names)-1]
		m.table.SetLimits(last, models(p.own, p.chargeDenied))
		if err := m.limiter.SetLimits(last, p.own...); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// limitsOf returns the limits of a key.
func (m *machine) limitsOf(name string) []sash.Limit {
	if m.own != nil && name == names[len(names)-1] {
		return m.own
	}
	return m.limits
}

// limit returns the limit of the key that b selects.
func (m *machine) limit(name string, b byte) sash.Limit {
	limits := m.limitsOf(name)
	return limits[int(b)%len(limits)]
}

// The instructions of a program. A byte divided by the number of instructions gives the
// instruction as the remainder, and the key as the quotient.
const (
	take      = iota
	takeAgain // a second byte for take, so that random programs contain it more often
	takeBytes
	allow
	allowBytes
	peek
	advance
	advanceAgain
	retreat
	forget
	sweep
	takeLeaving
	takeUpTo
	sequenceInstructions // the number of instructions of FuzzSequence
)

const (
	takeAll = sequenceInstructions + iota
	takeAllAgain
	reserve
	reserveAll
	commit
	cancel
	policyInstructions // the number of instructions of FuzzPolicy
)

// run runs at most steps steps of a program, whose instructions are those below
// instructions.
func (m *machine) run(tape *tape, steps int, instructions byte) {
	for i := 0; i < steps && !tape.ended() && !m.t.Failed(); i++ {
		op := tape.byte()
		m.step(tape, op%instructions, names[op/instructions%byte(len(names))])
	}
	if got := m.limiter.Len(); got != len(m.tracked) {
		m.t.Errorf("Len() is %d, want %d", got, len(m.tracked))
	}
}

func (m *machine) step(tape *tape, instruction byte, name string) {
	switch instruction {
	case take, takeAgain:
		m.take(name, m.cost(tape, name), m.limiter.Take)
	case takeBytes:
		m.take(name, m.cost(tape, name), m.takeBytes)
	case allow:
		n := m.cost(tape, name)
		m.allow(name, n, m.limiter.AllowN(name, n))
	case allowBytes:
		if tape.byte()%2 == 0 {
			m.allow(name, 1, m.limiter.Allow(name))
		} else {
			m.allow(name, 1, m.limiter.AllowBytes([]byte(name)))
		}
	case peek:
		m.peek(name, m.cost(tape, name))
	case advance, advanceAgain:
		m.move(m.distance(tape, name))
	case retreat:
		m.move(-m.distance(tape, name))
	case forget:
		m.forget(name)
	case sweep:
		m.sweep()
	case takeLeaving:
		m.takeLeaving(name, m.cost(tape, name), m.cost(tape, name))
	case takeUpTo:
		m.takeUpTo(name, m.cost(tape, name))
	case takeAll, takeAllAgain:
		m.takeAll(tape.more(name), m.cost(tape, name))
	case reserve:
		m.reserve(name, m.cost(tape, name))
	case reserveAll:
		m.reserveAll(tape.more(name), m.cost(tape, name))
	case commit, cancel:
		m.settle(tape, instruction == cancel)
	}
}

// cost reads the cost of a call: numbers near the remaining units, near Count, and near
// the ends of int64.
func (m *machine) cost(tape *tape, name string) int64 {
	b := tape.byte()
	count := m.limit(name, b).Count
	left := m.table.Peek(m.clock.Now(), 0, name).Remaining
	return tape.pick(1, 1, 1, 2, 3, left, left, plus(left, 1), left/2, count, count/2,
		0, -1, math.MinInt64, math.MaxInt64, plus(count, 1), int64(b))
}

// distance reads how far the clock moves: to times near the edges of windows and buckets,
// and near the ends of waits.
func (m *machine) distance(tape *tape, name string) int64 {
	b := tape.byte()
	l := m.limit(name, b)
	w, p := int64(l.Window), grain(l)
	in, inBucket := since(m.clock.Now(), w), since(m.clock.Now(), p)
	return tape.pick(1, w-in, w-in-1, w, w-1, plus(w, 1), plus(w, w), plus(w, w-1), w/2, w/3, w/256*int64(b),
		m.retry, m.retry-1, m.reset, m.reset-1, in, plus(in, 1), p-inBucket, p-inBucket-1, plus(w, p), plus(w, -inBucket))
}

func (m *machine) move(d int64) {
	earliest := m.swept
	if m.givesBack || holds(m.limits) || holds(m.own) {
		earliest = m.clock.Now()
	}
	m.clock.Set(max(plus(m.clock.Now(), d), earliest))
	m.t.Logf("at %d", m.clock.Now())
}

// charged records the reference's answer to a call that charges. A key is tracked from
// its first charge on.
func (m *machine) charged(a reference.Answer, n int64, keys ...string) {
	for _, name := range keys {
		if n > 0 && (a.Allowed || m.chargeDenied) && charges(m.limitsOf(name), m.chargeDenied) {
			m.tracked[name] = true
		}
	}
	m.retry, m.reset = a.RetryAfter, a.ResetAfter
}

// answered checks the whole answer to a call that charges, and that its waits are exact.
func (m *machine) answered(call string, got sash.Decision, want reference.Answer, n int64, keys ...string) {
	m.charged(want, n, keys...)
	m.same(call, got, want, n, keys...)
	if !got.Allowed {
		m.admitsAt(n, got.RetryAfter, keys...)
	}
	m.freshAt(got.ResetAfter, keys...)
}

// same checks that the limiter answers as the reference does.
func (m *machine) same(call string, got sash.Decision, a reference.Answer, n int64, keys ...string) {
	want := sash.Decision{
		Allowed:    a.Allowed,
		Limit:      m.limitsOf(a.DecidingKey)[a.Deciding],
		Remaining:  a.Remaining,
		RetryAfter: time.Duration(a.RetryAfter),
		ResetAfter: time.Duration(a.ResetAfter),
	}
	m.t.Logf("%s(%q, %d) is %+v", call, keys, n, got)
	if got != want {
		m.t.Errorf("%s(%q, %d) at %d is\n%+v, want\n%+v", call, keys, n, m.clock.Now(), got, want)
	}
}

func (m *machine) take(name string, n int64, call func(string, int64) sash.Decision) {
	m.answered("Take", call(name, n), m.table.Take(m.clock.Now(), n, name), n, name)
}

// takeLeaving also checks that the wait in a denial is exact.
func (m *machine) takeLeaving(name string, n, leave int64) {
	got := m.limiter.TakeLeaving(name, n, leave)
	want := m.table.Leaving(leave).Take(m.clock.Now(), n, name)
	m.t.Logf("the next leaves %d", leave)
	m.charged(want, n, name)
	m.same("TakeLeaving", got, want, n, name)
	if !got.Allowed && n >= 0 {
		m.admitsAt(plus(n, max(leave, 0)), got.RetryAfter, name)
	}
	m.freshAt(got.ResetAfter, name)
}

// takeUpTo checks that as many units are taken as the reference has left.
func (m *machine) takeUpTo(name string, most int64) {
	taken, got := m.limiter.TakeUpTo(name, most)
	n, left := most, m.table.Peek(m.clock.Now(), 0, name).Remaining
	if most > 0 {
		n = max(1, min(most, left))
	}
	if want := max(0, min(most, left)); taken != want {
		m.t.Errorf("TakeUpTo(%q, %d) takes %d, want %d", name, most, taken, want)
	}
	m.answered("TakeUpTo", got, m.table.Take(m.clock.Now(), n, name), n, name)
}

// takeBytes calls TakeBytes with a slice, and then overwrites the slice.
func (m *machine) takeBytes(name string, n int64) sash.Decision {
	key := []byte(name)
	d := m.limiter.TakeBytes(key, n)
	clear(key)
	return d
}

func (m *machine) allow(name string, n int64, got bool) {
	want := m.table.Take(m.clock.Now(), n, name)
	m.charged(want, n, name)
	if got != want.Allowed {
		m.t.Errorf("Allow(%q, %d) is %v, want %+v", name, n, got, want)
	}
	m.peek(name, 0)
}

func (m *machine) peek(name string, n int64) {
	m.same("Peek", m.limiter.Peek(name, n), m.table.Peek(m.clock.Now(), n, name), n, name)
}

func (m *machine) takeAll(keys []string, n int64) {
	m.same("PeekAll", m.limiter.PeekAll(keys, n), m.table.Peek(m.clock.Now(), n, keys...), n, keys...)
	m.answered("TakeAll", m.limiter.TakeAll(keys, n), m.table.Take(m.clock.Now(), n, keys...), n, keys...)
}

func (m *machine) reserve(name string, n int64) {
	ours, got := m.limiter.Reserve(name, n)
	theirs, want := m.table.Reserve(m.clock.Now(), n, name)
	m.answered("Reserve", got, want, n, name)
	m.reserved = append(m.reserved, &reservation{ours, theirs, name, n, got.Allowed})
}

func (m *machine) reserveAll(keys []string, n int64) {
	ours, got := m.limiter.ReserveAll(keys, n)
	theirs, want := m.table.ReserveAll(m.clock.Now(), n, keys...)
	m.answered("ReserveAll", got, want, n, keys...)
	for i, name := range keys {
		if got.Allowed && slices.Index(keys, name) == i {
			m.reserved = append(m.reserved, &reservation{ours[i], theirs[i], name, n, true})
		}
	}
}

// settle settles one of the reservations made so far, which may be settled already.
func (m *machine) settle(tape *tape, cancels bool) {
	if len(m.reserved) == 0 {
		return
	}
	r := m.reserved[int(tape.byte())%len(m.reserved)]
	actual := int64(0)
	if cancels && m.givesBack {
		r.ours.Cancel()
	} else {
		actual = m.actual(tape, r)
		r.ours.Commit(actual)
	}
	m.table.Settle(m.clock.Now(), r.theirs, actual)
	m.t.Logf("settled %d units of %q to %d, for the first time: %v", r.units, r.key, actual, r.open)
	if r.open && actual > r.units && charges(m.limitsOf(r.key), m.chargeDenied) && spends(m.limitsOf(r.key)) {
		m.tracked[r.key] = true
	}
	r.open = false
	m.peek(r.key, 0)
}

// actual reads the actual cost to which a reservation is settled.
func (m *machine) actual(tape *tape, r *reservation) int64 {
	count := m.limit(r.key, tape.byte()).Count
	actual := min(maxUnits, tape.pick(r.units, 0, 1, r.units-1, r.units+1, r.units/2, 2*r.units, count, 3*count, -1))
	switch {
	case m.givesBack:
		return actual
	case m.settles:
		return max(actual, r.units)
	}
	return r.units
}

// admits reports whether the limiter admits n units of each of keys.
func (m *machine) admits(n int64, keys ...string) bool {
	for _, name := range keys {
		if !m.limiter.Peek(name, n).Allowed {
			return false
		}
	}
	return true
}

// admitsAt checks that n units are admitted after wait, and denied 1 ns before.
func (m *machine) admitsAt(n int64, wait time.Duration, keys ...string) {
	m.from(wait-1, func() {
		if m.admits(n, keys...) {
			m.t.Errorf("%q: %d units are admitted before RetryAfter, %d", keys, n, wait)
		}
	})
	m.from(wait, func() {
		if !m.admits(n, keys...) {
			m.t.Errorf("%q: %d units are not admitted at RetryAfter, %d", keys, n, wait)
		}
	})
}

// freshAt checks that after wait the keys answer like keys never seen, and that 1 ns
// before the last of them still has a ResetAfter of 1 ns.
func (m *machine) freshAt(wait time.Duration, keys ...string) {
	m.from(wait-1, func() {
		var left time.Duration
		for _, name := range keys {
			left = max(left, m.limiter.Peek(name, 0).ResetAfter)
		}
		if left != 1 {
			m.t.Errorf("%q: 1 ns before ResetAfter, %d, it is %d", keys, wait, left)
		}
	})
	m.from(wait, func() {
		for _, name := range keys {
			if d, want := m.limiter.Peek(name, 0), fresh(m.limitsOf(name)); d != want {
				m.t.Errorf("%q: at ResetAfter, %d, it is %+v, want %+v", name, wait, d, want)
			}
		}
	})
}

// from calls f with the clock advanced by d, if the clock can show that time.
func (m *machine) from(d time.Duration, f func()) {
	now := m.clock.Now()
	if at := plus(now, int64(d)); d >= 0 && d < sash.Never-1 && at < math.MaxInt64 {
		m.clock.Set(at)
		f()
		m.clock.Set(now)
	}
}

func (m *machine) forget(name string) {
	if got := m.limiter.Reset(name); got != m.tracked[name] {
		m.t.Errorf("Reset(%q) is %v, want %v", name, got, m.tracked[name])
	}
	m.table.Reset(name)
	delete(m.tracked, name)
}

// sweep checks that a sweep evicts exactly the idle keys.
func (m *machine) sweep() {
	want, now := 0, m.clock.Now()
	for name := range m.tracked {
		if m.table.Peek(now, 0, name).ResetAfter == 0 {
			delete(m.tracked, name)
			want++
		}
	}
	m.t.Logf("Sweep: %d", want)
	if got := m.limiter.Sweep(); got != want {
		m.t.Errorf("Sweep() at %d evicts %d, want %d", now, got, want)
	}
	if want > 0 {
		m.swept = max(m.swept, now)
	}
}
