package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A history is what several processes did.
type history struct {
	limits []sash.Limit
	operations
	records []*record
	faults  []string
}

type operations []*operation

// An id names an operation in its history.
type id struct{ process, number int }

// A state is the state of the reference after a sequence of operations. It is not changed.
type state struct {
	last     int64 // the instant of the latest operation, in microseconds
	table    *reference.Table
	reserved map[id]reference.Reservation
}

func (s *state) equal(o *state) bool {
	return s.last == o.last && s.table.Equal(o.table) && maps.EqualFunc(s.reserved, o.reserved, reference.Reservation.Equal)
}

// modelOf returns limits as the reference has them.
func modelOf(given ...sash.Limit) []reference.Limit {
	limits := make([]reference.Limit, len(given))
	for i, l := range given {
		limits[i] = reference.Limit{
			Log: l.Algorithm == sash.SlidingLog || l.Algorithm == sash.Concurrency, Held: l.Algorithm == sash.Concurrency, Parts: l.Algorithm == sash.SlidingParts, Micros: l.Algorithm == sash.SlidingParts,
			Precision: int64(l.Precision), Burst: l.Burst, Count: l.Count, Window: int64(l.Window),
		}
	}
	return limits
}

// step returns the states in which s may be after o.
func (s *state) step(o *operation) (next []any) {
	if o.By == sashredis.ByMirror {
		return s.mirrored(o)
	}
	for _, at := range o.Instants {
		if at < s.last {
			continue
		}
		after := &state{at, s.table.Copy(), s.reserved}
		if after.do(o) {
			next = append(next, after)
		}
	}
	return next
}

// mirrored returns the state after a denial in-process: the reference must deny the call, too,
// at an instant while it ran. What is used only declines with time, so if it ever does, it does
// at the first of these instants. How many units are left, and for how long the call is denied,
// the mirror tells by what it knows: it must not be nothing.
func (s *state) mirrored(o *operation) (next []any) {
	at := max(s.last, o.Began)
	if at > o.Ended || o.Decision.Allowed || o.Decision.RetryAfter <= 0 || o.Decision.Remaining < 0 {
		return nil
	}
	// Another call may give units back that are held. So a limit that holds units must not deny it.
	if o.leaving(o.under(s.table.Copy(), at*1000)).Consider(at*1000, o.needs(), o.Keys...).LeastWait() == 0 {
		return nil
	}
	return []any{&state{at, s.table, s.reserved}}
}

// needs returns the units that must be there to admit o, above those that must remain.
func (o *operation) needs() int64 {
	if o.Verb == takesTo {
		return 1
	}
	return o.Units
}

// under gives the keys of o the limits that it brings, at that time. Without, they have the limits of the plan.
func (o *operation) under(t *reference.Table, at int64) *reference.Table {
	for _, key := range o.Keys {
		t.SetLimitsAt(at, key, modelOf(o.Limits...))
	}
	return t
}

// leaving returns t for o, which must leave units.
func (o *operation) leaving(t *reference.Table) *reference.Table {
	if o.Leave == 0 {
		return t
	}
	return t.LeavingOf(map[string]int64{o.Keys[0]: o.Leave})
}

// do applies o to s at s.last, and reports whether the reference answers the same.
func (s *state) do(o *operation) bool {
	var a reference.Answer
	at := s.last * 1000
	o.under(s.table, at)
	switch o.Verb {
	case takes, takesAll, leaves:
		a = o.leaving(s.table).Take(at, o.Units, o.Keys...)
	case takesTo:
		if o.Taken < o.Units && o.Taken > 0 && s.table.Peek(at, o.Taken+1, o.Keys...).Allowed {
			return false // there was more
		}
		a = s.table.Take(at, max(o.Taken, 1), o.Keys...)
		if a.Allowed != (o.Taken > 0) {
			return false
		}
	case peeks, peeksAll:
		a = s.table.Peek(at, o.Units, o.Keys...)
	case reserves:
		var r reference.Reservation
		r, a = o.leaving(s.table).Reserve(at, o.Units, o.Keys[0])
		s.reserved = maps.Clone(s.reserved)
		s.reserved[id{o.Process, o.Number}] = r
	case settles:
		s.table.Settle(at, s.reserved[id{o.Process, o.Of}], o.Units)
		return true
	case resets:
		s.table.Reset(o.Keys[0])
		return true
	}
	decided := s.table.Limits(a.DecidingKey)[a.Deciding]
	d := o.Decision
	return d.Allowed == a.Allowed && d.Remaining == a.Remaining &&
		d.RetryAfter == time.Duration(a.RetryAfter) && d.ResetAfter == time.Duration(a.ResetAfter) &&
		modelOf(d.Limit)[0] == decided
}

// verdict returns whether h is linearizable.
func (h *history) verdict() porcupine.CheckResult {
	m := porcupine.NondeterministicModel{
		Init: func() []any {
			return []any{&state{table: reference.NewTable(modelOf(h.limits...)), reserved: map[id]reference.Reservation{}}}
		},
		Step:  func(s, input, _ any) []any { return s.(*state).step(input.(*operation)) },
		Equal: func(a, b any) bool { return a.(*state).equal(b.(*state)) },
	}
	return porcupine.CheckOperationsTimeout(m.ToModel(), h.porcupine(), time.Minute)
}

// porcupine returns the operations of h. Each has a part of the time in which it ran: that from
// the first to the last instant at which it may have been decided. Those instants lie in it, and
// the model takes none else. So this rules out nothing but what the model would.
func (h *history) porcupine() (all []porcupine.Operation) {
	for _, o := range h.operations {
		began, ended := o.Began, o.Ended
		if o.By != sashredis.ByMirror {
			began, ended = o.Instants[0], o.Instants[len(o.Instants)-1]
		}
		all = append(all, porcupine.Operation{ClientId: 1000*o.Process + o.Caller, Input: o, Call: began, Return: ended})
	}
	return all
}

// String returns the limits and the operations in the order in which they began.
func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, h.limits)
	for _, o := range slices.SortedFunc(slices.Values(h.operations), func(a, b *operation) int { return int(a.Began - b.Began) }) {
		fmt.Fprintln(&b, o)
	}
	return b.String()
}
