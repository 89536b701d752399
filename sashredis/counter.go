package sashredis

import (
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A counter is the algorithm of sash.SlidingCounter.
type counter struct{ window.Counter }

func (c counter) parse(numbers []int64, _ int64) (s state, ok bool) {
	if len(numbers) != 3 {
		return s, false
	}
	s.State = window.State{Index: numbers[0], Prev: numbers[1], Curr: numbers[2]}
	return s, true
}

func (c counter) charge(s state, units int64) state {
	s.Curr += units // the script has moved it to the window of that instant
	return s
}

func (c counter) decide(answered *state, charged, at, n int64) (outcome, bool) {
	s := answered.State
	s.Curr += charged // as charge does, without the rest of the state
	index, elapsed := c.Locate(at)
	p := c.Advance(s, at, index, elapsed)
	return outcome{c.Remaining(p), c.RetryAfter(p, n), c.ResetAfter(p)}, true
}

func (c counter) origin(s state, _ int64, _ op) int64 { return s.Index }

func (c counter) periodEnd(s state) int64 { return c.Begins(s.Index + 1) }

func (c counter) past(s state, at int64) []bridge.Charge {
	begin := c.Begins(s.Index)
	return []bridge.Charge{{At: begin - 1, Units: s.Prev}, {At: max(at, begin), Units: s.Curr}}
}
