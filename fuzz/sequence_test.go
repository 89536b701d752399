package fuzz

import (
	"math"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// mostSteps bounds a program: the reference is slow, and a fault that needs more
// than this needs no more than this from a later start.
const mostSteps = 300

// FuzzSequence runs a program of calls on a limiter and on the reference, and
// compares every answer.
func FuzzSequence(f *testing.F) {
	for _, s := range sequenceSeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		tape := &tape{program}
		m := newMachine(t, tape)
		for i := 0; i < mostSteps && !tape.ended() && !t.Failed(); i++ {
			m.step(tape)
		}
		if got := m.limiter.Len(); got != len(m.keys) {
			t.Errorf("Len() is %d, want %d", got, len(m.keys))
		}
	})
}

var names = [...]string{"", "a", "a key of some length, longer than a word"}

// A machine runs a program on a limiter and the reference at once.
type machine struct {
	t       *testing.T
	limit   sash.Limit
	model   reference.Limit
	clock   *sash.ManualClock
	limiter *sash.Limiter
	// keys are those the limiter is to track: charged, and neither evicted nor
	// reset since.
	keys map[string]*reference.Key
	// swept is the clock at the latest sweep that evicted a key. Before it the
	// clock does not go back: to forget a key is to forget the newest time that
	// it has seen, which the reference, never evicting, would remember.
	swept int64
	// retry and reset are the latest answers, for a program to advance by.
	retry, reset int64
}

func newMachine(t *testing.T, tape *tape) *machine {
	l, chargeDenied := tape.limit()
	w := int64(l.Window)
	start := tape.pick(0, -1, 1, w, w-1, -w, -w-1, math.MinInt64, math.MaxInt64, plus(math.MaxInt64, -w), plus(math.MinInt64, w))
	clock := sash.NewManualClock(start)
	t.Logf("%v, denied charged: %v, from %d", l, chargeDenied, start)
	return &machine{
		t: t, limit: l, clock: clock, swept: math.MinInt64,
		model:   model(l, chargeDenied),
		limiter: limiter(l, chargeDenied, clock),
		keys:    map[string]*reference.Key{},
	}
}

// The instructions of a program. Of a byte, the remainder by their number is the
// instruction, and the quotient the key.
const (
	take      = iota
	takeAgain // once more, so that random programs do it more often
	takeBytes
	allow
	allowBytes
	peek
	advance
	advanceAgain
	retreat
	forget
	sweep
	instructions
)

func (m *machine) step(tape *tape) {
	op := tape.byte()
	name := names[op/instructions%byte(len(names))]
	switch op % instructions {
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
		m.move(m.distance(tape))
	case retreat:
		m.move(-m.distance(tape))
	case forget:
		m.forget(name)
	case sweep:
		m.sweep()
	}
}

// cost reads what a call asks for: around the ends of what can be, and of what
// is left.
func (m *machine) cost(tape *tape, name string) int64 {
	left := m.key(name).Peek(m.clock.Now(), 0).Remaining
	return tape.pick(1, 1, 1, 2, 3, left, left, plus(left, 1), left/2, m.limit.Count, m.limit.Count/2,
		0, -1, math.MinInt64, math.MaxInt64, plus(m.limit.Count, 1), int64(tape.byte()))
}

// distance reads how far the clock moves: around the edges of windows and the
// ends of waits.
func (m *machine) distance(tape *tape) int64 {
	w := int64(m.limit.Window)
	in := m.clock.Now() % w // since the aligned window began
	if in < 0 {
		in += w
	}
	return tape.pick(1, w-in, w-in-1, w, w-1, plus(w, 1), plus(w, w), plus(w, w-1), w/2, w/3, w/256*int64(tape.byte()),
		m.retry, m.retry-1, m.reset, m.reset-1, in, plus(in, 1))
}

func (m *machine) move(d int64) {
	m.clock.Set(max(plus(m.clock.Now(), d), m.swept))
	m.t.Logf("at %d", m.clock.Now())
}

// key returns the reference's state for name, which is not tracked by it.
func (m *machine) key(name string) *reference.Key {
	if k, ok := m.keys[name]; ok {
		return k
	}
	return reference.New(m.model)
}

// asked returns the reference's answer to a call that charges. A key is tracked
// from its first charge on.
func (m *machine) asked(name string, n int64) sash.Decision {
	k := m.key(name)
	a := k.Take(m.clock.Now(), n)
	if n > 0 && (a.Allowed || m.model.ChargeDenied) {
		m.keys[name] = k
	}
	m.retry, m.reset = a.RetryAfter, a.ResetAfter
	return decision(m.limit, a)
}

func (m *machine) take(name string, n int64, call func(string, int64) sash.Decision) {
	want, got := m.asked(name, n), call(name, n)
	m.same("Take", name, n, got, want)
	if !got.Allowed {
		m.admitsAt(name, n, got.RetryAfter)
	}
	m.freshAt(name, got.ResetAfter)
}

// takeBytes is Take from a slice that is used again.
func (m *machine) takeBytes(name string, n int64) sash.Decision {
	key := []byte(name)
	d := m.limiter.TakeBytes(key, n)
	clear(key)
	return d
}

func (m *machine) allow(name string, n int64, got bool) {
	if want := m.asked(name, n); got != want.Allowed {
		m.t.Errorf("Allow(%q, %d) is %v, want %+v", name, n, got, want)
	}
	m.peek(name, 0)
}

func (m *machine) peek(name string, n int64) {
	want := decision(m.limit, m.key(name).Peek(m.clock.Now(), n))
	m.same("Peek", name, n, m.limiter.Peek(name, n), want)
}

func (m *machine) same(call, name string, n int64, got, want sash.Decision) {
	m.t.Logf("%s(%q, %d) is %+v", call, name, n, got)
	if got != want {
		m.t.Errorf("%s(%q, %d) at %d is\n%+v, want\n%+v", call, name, n, m.clock.Now(), got, want)
	}
}

// admitsAt checks that n are denied up to wait from now, and admitted then.
func (m *machine) admitsAt(name string, n int64, wait time.Duration) {
	m.from(wait-1, func() {
		if m.limiter.Peek(name, n).Allowed {
			m.t.Errorf("%q: %d units are admitted before RetryAfter, %d", name, n, wait)
		}
	})
	m.from(wait, func() {
		if !m.limiter.Peek(name, n).Allowed {
			m.t.Errorf("%q: %d units are not admitted at RetryAfter, %d", name, n, wait)
		}
	})
}

// freshAt checks that after wait the key answers as one never seen, and not
// sooner: the last to come back is what it would still have to wait for.
func (m *machine) freshAt(name string, wait time.Duration) {
	m.from(wait-1, func() {
		if d := m.limiter.Peek(name, 0); d.ResetAfter != 1 {
			m.t.Errorf("%q: 1 ns before ResetAfter, %d, it is %+v", name, wait, d)
		}
	})
	m.from(wait, func() {
		if d, fresh := m.limiter.Peek(name, 0), m.limiter.Peek("never seen", 0); d != fresh {
			m.t.Errorf("%q: at ResetAfter, %d, it is %+v, want %+v", name, wait, d, fresh)
		}
	})
}

// from calls f with the clock d on, if it can be.
func (m *machine) from(d time.Duration, f func()) {
	now := m.clock.Now()
	if at := plus(now, int64(d)); d >= 0 && d < sash.Never-1 && at < math.MaxInt64 {
		m.clock.Set(at)
		f()
		m.clock.Set(now)
	}
}

func (m *machine) forget(name string) {
	_, tracked := m.keys[name]
	if got := m.limiter.Reset(name); got != tracked {
		m.t.Errorf("Reset(%q) is %v, want %v", name, got, tracked)
	}
	delete(m.keys, name)
}

// sweep checks that a sweep evicts exactly the keys that equal one never seen.
func (m *machine) sweep() {
	want, now := 0, m.clock.Now()
	for name, k := range m.keys {
		if k.Peek(now, 0).ResetAfter == 0 {
			delete(m.keys, name)
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
