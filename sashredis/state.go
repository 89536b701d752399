package sashredis

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A state is what a key was charged under one rule, as a script answers it. What is not of the
// rule's kind is zero.
type state struct {
	window.State // of a counter

	// Of a bucket: what it lacks at an instant, and what is leased of it until the lease ends.
	// Until then it does not lack less.
	window.Debt
	leased, leaseEnd int64
	number           int64 // of its last charge
	numbered         bool

	// Of a ring: the units that count, the tick of the answer, the units charged in it since,
	// and the tick of the newest units.
	used, tick, added, newest int64
	freed                     []freedAt
}

// freedAt tells in which tick the last of that many oldest units was charged.
type freedAt struct{ units, tick int64 }

// parse returns the state in a field of a script's answer at that instant.
func (r *rule) parse(field string, at int64) (s state, err error) {
	var buf [8]int64
	numbers, err := parseNumbers(buf[:0], field)
	if err != nil {
		return s, err
	}
	switch n := len(numbers); {
	case r.kind == counterKind && n == 3:
		s.State = window.State{Index: numbers[0], Prev: numbers[1], Curr: numbers[2]}
	case r.kind == bucketKind && n >= 4 && n <= 5:
		// The script counts in units of 1/Window in microseconds, in two limbs of 52 bits.
		hi, lo := uint64(numbers[0]), uint64(numbers[1])
		s.Debt = window.Debt{At: at, Lack: window.Amount{Hi: hi >> 12, Lo: hi<<52 | lo}.MulDiv(uint64(microsecond), 1)}
		if s.leased = numbers[2]; s.leased > 0 {
			s.leaseEnd = numbers[3] * microsecond
		}
		if s.numbered = n == 5; s.numbered {
			s.number = numbers[4]
		}
	case r.kind == ringKind && n >= 3 && n%2 == 1:
		s.used, s.tick, s.newest = numbers[0], numbers[1], numbers[2]
		for i := 3; i < n; i += 2 {
			s.freed = append(s.freed, freedAt{numbers[i], numbers[i+1]})
		}
	default:
		return s, fmt.Errorf("sashredis: the server answered %q as the state under %v: %w", field, r.Limit, ErrServer)
	}
	return s, nil
}

// charge charges units to s at the instant at which it was answered.
func (r *rule) charge(s *state, at, units int64) {
	if units == 0 {
		return
	}
	switch r.kind {
	case counterKind:
		s.Curr += units // the script has moved it to the window of that instant
	case bucketKind:
		s.Lack = s.Lack.Plus(r.bucket.Cost(units))
	case ringKind:
		s.added, s.newest = s.added+units, s.tick
	default:
		panic(unknownKind(r.kind))
	}
}

// An outcome is what follows from a state for a call.
type outcome struct {
	denied     bool
	remaining  int64
	retryAfter time.Duration
	resetAfter time.Duration
}

// decide returns what follows from s for n more units at an instant, which is that of the
// answer or later. If the call is admitted, its units have been charged to s already. ok is
// false if that cannot be told of a ring: it knows not all of its ticks.
func (r *rule) decide(s *state, at, n int64, admitted bool) (o outcome, ok bool) {
	switch r.kind {
	case counterKind:
		o = r.decideCounter(s, at, n, admitted)
	case bucketKind:
		o = r.decideBucket(s, at, n, admitted)
	case ringKind:
		return r.decideRing(s, at, n, admitted)
	default:
		panic(unknownKind(r.kind))
	}
	return o, true
}

func (r *rule) decideCounter(s *state, at, n int64, admitted bool) (o outcome) {
	index, elapsed := r.counter.Locate(at)
	p := r.counter.Advance(s.State, at, index, elapsed)
	o.remaining, o.resetAfter = r.counter.Remaining(p), r.counter.ResetAfter(p)
	if !admitted {
		o.retryAfter = r.counter.RetryAfter(p, n)
		o.denied = o.retryAfter > 0
	}
	return o
}

func (r *rule) decideBucket(s *state, at, n int64, admitted bool) (o outcome) {
	lack := r.lack(s, at)
	o.remaining, o.resetAfter = r.bucket.Remaining(lack), r.bucket.ResetAfter(lack)
	if !admitted {
		o.retryAfter = r.bucket.RetryAfter(lack, n)
		o.denied = o.retryAfter > 0
	}
	if s.leased == 0 || at >= s.leaseEnd {
		return o
	}
	// It lacks what is leased until the lease ends, at least.
	till, then := time.Duration(s.leaseEnd-at), r.lack(s, s.leaseEnd)
	o.resetAfter = window.Wait(uint64(till), uint64(r.bucket.ResetAfter(then)))
	if o.denied && o.retryAfter < window.Never && r.bucket.Cost(r.Burst-n).Less(r.bucket.Cost(s.leased)) {
		o.retryAfter = window.Wait(uint64(till), uint64(r.bucket.RetryAfter(then, n)))
	}
	return o
}

// lack returns what the bucket s lacks at an instant.
func (r *rule) lack(s *state, at int64) window.Amount {
	if s.leased == 0 || s.At >= s.leaseEnd {
		return r.bucket.Lack(s.Debt, at)
	}
	till := min(at, s.leaseEnd)
	lack := r.bucket.Lack(s.Debt, till)
	if least := r.bucket.Cost(s.leased); lack.Less(least) {
		lack = least
	}
	return r.bucket.Lack(window.Debt{At: till, Lack: lack}, at)
}

func (r *rule) decideRing(s *state, at, n int64, admitted bool) (o outcome, ok bool) {
	counting := r.counting(s, at)
	o.remaining = max(r.Count-counting, 0)
	if counting > 0 {
		o.resetAfter = r.ticks.Until(s.newest, at)
	}
	missing := s.used + s.added + n - r.Count // the units that must go before n fit
	switch {
	case admitted:
		return o, true
	case n < 0 || n > r.Count:
		o.denied, o.retryAfter = true, window.Never
		return o, true
	case missing <= 0:
		return o, true
	}
	tick, ok := s.freedAt(missing)
	if ok && r.ticks.Counts(tick, max(r.ticks.Of(at), s.tick)) {
		o.denied, o.retryAfter = true, r.ticks.Until(tick, at)
	}
	return o, ok
}

// freedAt returns the tick in which the last of that many oldest units was charged, and whether
// s knows it.
func (s *state) freedAt(units int64) (tick int64, ok bool) {
	if units > s.used {
		return s.tick, true // one that was added
	}
	for _, f := range s.freed {
		if f.units == units {
			return f.tick, true
		}
	}
	return 0, false
}

// counting returns how many units of the ring s count at an instant, or more if it does not know
// all ticks.
func (r *rule) counting(s *state, at int64) (units int64) {
	now := max(r.ticks.Of(at), s.tick)
	if !r.ticks.Counts(s.newest, now) {
		return 0
	}
	gone := int64(0)
	for _, f := range s.freed {
		if !r.ticks.Counts(f.tick, now) {
			gone = max(gone, f.units)
		}
	}
	return s.used - gone + s.added
}

// origin tells where a charge of s at the instant of its answer was recorded. Units of a lease
// have no number.
func (r *rule) origin(s *state, at int64, reserved bool) int64 {
	switch r.kind {
	case counterKind:
		return s.Index
	case ringKind:
		return s.tick
	case bucketKind:
		micros := at / microsecond
		switch {
		case !reserved:
			return 0
		case s.numbered:
			return max(s.number, micros) + 1
		}
		return micros + 1
	}
	panic(unknownKind(r.kind))
}

// periodEnd returns the instant at which the window or bucket ends in which a charge at the
// instant of the answer was recorded. A token bucket has none.
func (r *rule) periodEnd(s *state) int64 {
	switch r.kind {
	case counterKind:
		return r.counter.Begins(s.Index + 1)
	case ringKind:
		return (s.tick + 1) * r.ticks.Length
	case bucketKind:
		return math.MaxInt64
	}
	panic(unknownKind(r.kind))
}

// A view is the state of a key under all its rules at an instant of the server's clock, in
// nanoseconds.
type view struct {
	at     int64
	states []state
	token  string // of its first reservation
}

// lease notes in v, which they are charged to already, that units are leased until end, in
// microseconds.
func (v *view) lease(rs *ruleset, units, end int64) {
	for i := range v.states {
		if s := &v.states[i]; rs.rules[i].kind == bucketKind {
			if s.leaseEnd <= v.at {
				s.leased = 0 // of a lease that is over
			}
			s.leased, s.leaseEnd = s.leased+units, end*microsecond
		}
	}
}

// with returns a copy of v with units charged under all rules of rs.
func (v *view) with(rs *ruleset, units int64) view {
	c := *v
	c.states = slices.Clone(v.states)
	for i := range c.states {
		rs.rules[i].charge(&c.states[i], c.at, units)
	}
	return c
}

// decide joins to d the decision for n units by v at an instant, once charged units are charged
// to it. If the call is admitted, its own are among these. ok is false if v does not know enough.
func (v *view) decide(rs *ruleset, at, charged, n int64, d *joined) (ok bool) {
	for i := range v.states {
		r, s := &rs.rules[i], v.states[i]
		r.charge(&s, v.at, charged)
		o, ok := r.decide(&s, at, n, d.Allowed)
		if !ok {
			return false
		}
		d.join(r.Limit, o)
	}
	return true
}

// forgetTicks bounds the ticks that v knows: there may be one for each cost of a batch.
func (v *view) forgetTicks() {
	const most = 8
	for i := range v.states {
		if len(v.states[i].freed) > most {
			v.states = slices.Clone(v.states) // the calls of the batch read the others
			for j := range v.states {
				v.states[j].freed = slices.Clone(v.states[j].freed[:min(len(v.states[j].freed), most)])
			}
			return
		}
	}
}

// A joined is the decision of several limits. The zero value is denied and empty; set Allowed
// before the first join.
type joined struct {
	sash.Decision
	some   bool          // whether a limit was joined
	denied bool          // whether one denies
	early  time.Duration // by how much earlier it may be than the instant of the decision
}

// join joins what follows under l. Of equal limits, the first decides.
func (d *joined) join(l sash.Limit, o outcome) {
	o.retryAfter, o.resetAfter = later(o.retryAfter, d.early), later(o.resetAfter, d.early)
	decides := o.remaining < d.Remaining
	if !d.Allowed {
		decides = o.retryAfter > d.RetryAfter
	}
	if !d.some {
		d.some, d.Remaining, decides = true, o.remaining, true
	}
	if decides {
		d.Limit = l
	}
	d.denied = d.denied || o.denied
	d.Remaining = min(d.Remaining, o.remaining)
	d.RetryAfter = max(d.RetryAfter, o.retryAfter)
	d.ResetAfter = max(d.ResetAfter, o.resetAfter)
}

// later returns a wait that begins earlier. No wait stays none.
func later(wait, early time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return window.Wait(uint64(wait), uint64(early))
}

// past returns the charges that s tells of at the instant of its answer, oldest first. A charge
// of which the instant is not known is dated as late as it may be.
func (r *rule) past(s *state, at int64) (past []bridge.Charge) {
	add := func(at, units int64) {
		if units > 0 {
			past = append(past, bridge.Charge{At: at, Units: units})
		}
	}
	switch r.kind {
	case counterKind:
		add(r.counter.Begins(s.Index)-1, s.Prev)
		add(max(at, r.counter.Begins(s.Index)), s.Curr)
	case bucketKind:
		add(at, r.bucket.Units(r.lack(s, at)))
	case ringKind:
		add(s.newest*r.ticks.Length, s.used+s.added)
	default:
		panic(unknownKind(r.kind))
	}
	return past
}
