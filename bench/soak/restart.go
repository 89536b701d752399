package main

import (
	"bytes"
	"time"

	"github.com/seed-30da4c49/sash"
)

// restart takes a snapshot of s while calls run. It restores the snapshot into s itself, or
// into another limiter, which must hold all units charged.
func (o *operator) restart(s *subject) {
	switch {
	case s.replace:
		o.copy(s, s.limiter, s.limiter)
	case len(s.kept) > 0:
		o.restoreAside(s)
	}
}

// copy takes a snapshot of from and restores it into to.
func (o *operator) copy(s *subject, from, to limiter) {
	var b bytes.Buffer
	o.succeed(s, "Snapshot", from.Snapshot(&b))
	o.succeed(s, "Restore", to.Restore(&b))
	o.snapshots.Add(1)
	o.restores.Add(1)
}

// restoreAside restores a snapshot of s into a second limiter, and a snapshot of that one
// into a third. The second must hold all units that calls had charged to keys with accounts
// before the snapshot. In the third, keys must have no fewer units left than in the second,
// and no later reset.
func (o *operator) restoreAside(s *subject) {
	if s.counts.Load()%2 == 0 {
		o.raise(s) // the second limiter has the plan's limits
	}
	charged := make([][]charge, len(s.kept))
	for i, k := range s.kept {
		charged[i] = k.account.soFar()
	}
	begun := time.Now()
	second := s.build(s.plan, sash.NewManualClock(0))
	defer second.Close()
	o.copy(s, s.limiter, second)
	states := o.states(s, second)
	latest := s.clock.high.Load() + int64(time.Since(begun)+time.Millisecond) // on the second limiter's timeline
	for i, k := range s.kept {
		for _, b := range k.account.bounds {
			if held := b.held(charged[i], latest); held+states[i].Remaining > atOnce(b.limit) {
				o.faults.add(s, "restored, key %q under %v has %d units left, though at least %d are taken", k.name, b.limit, states[i].Remaining, held)
			}
		}
	}
	third := s.build(s.plan, sash.NewManualClock(0))
	defer third.Close()
	o.copy(s, second, third)
	for i, d := range o.states(s, third) {
		if d.Remaining < states[i].Remaining || d.ResetAfter > states[i].ResetAfter {
			o.faults.add(s, "restored again, key %q is at %+v, not %+v or later", s.kept[i].name, d, states[i])
		}
	}
}

// states returns the states of the keys with accounts.
func (o *operator) states(s *subject, l limiter) []sash.Decision {
	all := make([]sash.Decision, len(s.kept))
	for i, k := range s.kept {
		all[i] = l.Peek(k.name, 0)
		o.faults.checkState(s, all[i])
	}
	return all
}
