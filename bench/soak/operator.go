package main

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
)

// An operator sweeps, reconfigures, saves and restores limiters while calls run.
type operator struct {
	rand     *rand.Rand
	subjects []*subject
	faults   *faults

	sweeps, changes, snapshots, restores atomic.Int64
}

const maxOverrides = 100 // keys of one subject with limits of their own

func (o *operator) run(ctx context.Context) {
	for ctx.Err() == nil {
		o.job(o.subjects[o.rand.IntN(len(o.subjects))])
		runtime.Gosched()
	}
}

func (o *operator) job(s *subject) {
	switch dice := o.rand.IntN(10); {
	case dice < 3:
		s.limiter.Sweep()
		o.sweeps.Add(1)
	case dice < 6:
		o.override(s)
	case dice < 8:
		o.reconfigure(s)
	default:
		o.restart(s)
	}
}

// override gives a key limits of its own, or removes the oldest override.
func (o *operator) override(s *subject) {
	o.changes.Add(1)
	if len(s.overrides) == maxOverrides || len(s.overrides) > 0 && o.rand.IntN(2) == 0 {
		o.succeed(s, "SetLimits", s.limiter.SetLimits(s.overrides[0]))
		s.overrides = s.overrides[1:]
		return
	}
	name := recurring(o.rand.IntN(recurringKeys))
	s.overrides = append(s.overrides, name)
	limits := []sash.Limit{sash.PerMinute(4 * s.cost).Log(), sash.PerSecond(2 * s.cost).Counter()}
	switch o.rand.IntN(3) {
	case 0:
		limits = []sash.Limit{sash.PerSecond(3 * s.cost).TokenBucket(2 * s.cost)}
	case 1:
		limits = append(limits, sash.Per(12345, time.Minute).TokenBucket(2*s.cost))
	}
	o.succeed(s, "SetLimits", s.limiter.SetLimits(name, limits...))
}

// reconfigure changes the limits. Of a subject with accounts it changes only the Counts and
// Bursts, and it records when the lowered ones are in force.
func (o *operator) reconfigure(s *subject) {
	o.changes.Add(1)
	switch {
	case len(s.others) > 0:
		s.turns++
		o.succeed(s, "Reconfigure", s.limiter.Reconfigure(s.others[s.turns%len(s.others)]...))
	case s.replace: // the limits must stay as in the snapshot
	case s.counts.Load()%2 == 1:
		o.succeed(s, "Reconfigure", s.limiter.Reconfigure(s.lowered()...))
		s.counts.Add(1) // after the change: even only while the lowered Counts are in force
	default:
		o.raise(s)
	}
}

// raise restores the plan's limits.
func (o *operator) raise(s *subject) {
	s.counts.Add(1) // before the change, as above
	o.succeed(s, "Reconfigure", s.limiter.Reconfigure(s.limits...))
}

// succeed adds a fault if err is not nil.
func (o *operator) succeed(s *subject, what string, err error) {
	if err != nil {
		o.faults.add(s, "%s: %v", what, err)
	}
}
