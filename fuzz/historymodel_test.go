package fuzz

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A serial is the state of the reference after some operations, one after the other.
type serial struct {
	table    *reference.Table
	reserved map[*operation][]reference.Reservation // that are not settled yet
	carries  bool                                   // whether keys are carried over to other cells
}

// model returns what h must be a history of: the reference, with its limits.
func model(h *history) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: partition,
		Init: func() []any {
			return []any{&serial{
				table:    table(h.limits, h.chargeDenied),
				reserved: map[*operation][]reference.Reservation{},
				carries:  h.carries(),
			}}
		},
		Step: func(state, input, output any) (next []any) {
			return state.(*serial).step(input.(*operation), output.(outcome))
		},
		Equal: func(a, b any) bool { return a.(*serial).equal(b.(*serial)) },
		DescribeOperation: func(input, _ any) string {
			return input.(*operation).String()
		},
		DescribeState: func(state any) string { return state.(*serial).String() },
	}
	return m.ToModel()
}

// operations returns ops as porcupine wants them.
func operations(ops []*operation) (all []porcupine.Operation) {
	for _, o := range ops {
		all = append(all, porcupine.Operation{ClientId: o.caller, Input: o, Output: o.outcome, Call: o.began, Return: o.ended})
	}
	return all
}

// partition returns the operations of each key, if none has to do with several.
func partition(history []porcupine.Operation) (parts [][]porcupine.Operation) {
	byKey := map[string][]porcupine.Operation{}
	for _, op := range history {
		o := op.Input.(*operation)
		if len(o.keys) != 1 || o.verb == reconfigures {
			return [][]porcupine.Operation{history}
		}
		byKey[o.keys[0]] = append(byKey[o.keys[0]], op)
	}
	return slices.Collect(maps.Values(byKey))
}

// step returns the states in which s may be after o, if that had that outcome.
func (s *serial) step(o *operation, out outcome) (next []any) {
	for _, at := range s.decidedBy(o) {
		if after := s.copy(); after.do(o, out, at) {
			next = append(next, after)
		}
	}
	return next
}

// decidedBy returns the readings of which one has decided o: the last, which an
// operation takes that has found its key gone. But where keys are carried over to
// other cells, and the clock is read for that, it may be any. An operation without
// readings is not decided by the time.
func (s *serial) decidedBy(o *operation) []int64 {
	last := len(o.readings) - 1
	switch {
	case last < 0:
		return []int64{math.MinInt64}
	case !s.carries:
		return o.readings[last:]
	}
	return slices.Compact(slices.Clone(o.readings))
}

// do does o at that reading, and reports whether its outcome is that.
func (s *serial) do(o *operation, out outcome, at int64) bool {
	switch o.verb {
	case takes, allows, takesAll:
		return s.answers(o, out, s.table.Take(at, o.units, o.keys...))
	case peeks:
		return s.answers(o, out, s.table.Peek(at, o.units, o.keys...))
	case reserves, reservesAll:
		all, answer := s.table.ReserveAll(at, o.units, o.keys...)
		s.reserved[o] = all
		return s.answers(o, out, answer)
	case settles:
		s.settle(o, at)
	case resets:
		if !out.tracked && s.table.Peek(o.until, 0, o.keys[0]).ResetAfter > 0 {
			return false
		}
		s.table.Reset(o.keys[0])
	case setsLimits:
		s.table.SetLimits(o.keys[0], models(o.limits, s.chargesDenied()))
	case reconfigures:
		s.table.Reconfigure(models(o.limits, s.chargesDenied()))
	}
	return true
}

func (s *serial) answers(o *operation, out outcome, a reference.Answer) bool {
	if o.verb == allows {
		return out.decision.Allowed == a.Allowed
	}
	decided := s.table.Limits(a.DecidingKey)[a.Deciding]
	return out.decision.Allowed == a.Allowed &&
		out.decision.Remaining == a.Remaining &&
		out.decision.RetryAfter == time.Duration(a.RetryAfter) &&
		out.decision.ResetAfter == time.Duration(a.ResetAfter) &&
		models([]sash.Limit{out.decision.Limit}, decided.ChargeDenied)[0] == decided
}

// settle settles what o does. What is given back, is so without a look at the clock:
// it comes back wherever the key itself could still tell.
func (s *serial) settle(o *operation, at int64) {
	all := slices.Clone(s.reserved[o.of])
	if o.units < o.of.units {
		at = math.MinInt64
	}
	s.table.Settle(at, all[o.which], o.units)
	for i, key := range o.of.keys {
		if key == o.keys[0] {
			all[i] = reference.Reservation{}
		}
	}
	s.reserved[o.of] = all
}

func (s *serial) chargesDenied() bool { return s.table.Limits("")[0].ChargeDenied }

func (s *serial) copy() *serial { return &serial{s.table.Copy(), maps.Clone(s.reserved), s.carries} }

func (s *serial) equal(o *serial) bool {
	return s.table.Equal(o.table) && maps.EqualFunc(s.reserved, o.reserved, func(a, b []reference.Reservation) bool {
		return slices.EqualFunc(a, b, reference.Reservation.Equal)
	})
}

// String tells what is left of each key to a call that comes at the newest time
// that it has seen.
func (s *serial) String() (text string) {
	for _, key := range historyKeys {
		text += fmt.Sprintf("%s: %+v\n", key, s.table.Copy().Peek(math.MinInt64, 0, key))
	}
	return text
}
