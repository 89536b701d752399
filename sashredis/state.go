package sashredis

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A state is what a key was charged under one rule, as a script answers it. An algorithm reads
// only its own part.
type state struct {
	window.State // of a counter

	// Of a bucket: its lack at an instant, and the leased units. Until leaseEnd, it lacks at least the
	// leased units.
	window.Debt
	leased, leaseEnd int64
	number           int64 // of its last charge, if numbered is set
	numbered         bool

	// Of a ring: the units that count, the tick of the answer, the units charged in it since,
	// and the tick of the newest units.
	used, tick, added, newest int64
	freed                     []freedAt
}

// freedAt tells in which tick the last of that many oldest units was charged.
type freedAt struct{ units, tick int64 }

// An outcome is the answer of one limit to a call.
type outcome struct {
	remaining  int64
	retryAfter time.Duration // 0: it admits the call
	resetAfter time.Duration
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
func (v *view) lease(units, end int64) {
	for i := range v.states {
		s := &v.states[i]
		if s.leaseEnd <= v.at {
			s.leased = 0 // of a lease that is over
		}
		s.leased, s.leaseEnd = s.leased+units, end*microsecond
	}
}

// with returns a copy of v with units charged under all rules of rs.
func (v *view) with(rs *ruleset, units int64) view {
	c := *v
	c.states = slices.Clone(v.states)
	for i, s := range c.states {
		c.states[i] = rs.rules[i].charge(s, units)
	}
	return c
}

// origins returns where a charge at the instant of v was recorded under each rule, as a script
// reads it. op is reserve, or take for units of a lease.
func (v *view) origins(rs *ruleset, op op) string {
	origins := make([]string, len(v.states))
	for i, s := range v.states {
		origins[i] = strconv.FormatInt(rs.rules[i].origin(s, v.at, op), 10)
	}
	return strings.Join(origins, " ")
}

// decide joins to d the decision for n units by v at an instant, once charged units are charged
// to it. If the call is admitted, its own are among these. ok is false if v does not know enough.
func (v *view) decide(rs *ruleset, at, charged, n int64, d *joined) (ok bool) {
	for i, s := range v.states {
		r := &rs.rules[i]
		o, known := r.decide(r.charge(s, charged), at, n)
		switch {
		case d.Allowed:
			o.retryAfter = 0 // that is of n units more
		case !known:
			return false
		}
		d.join(r.Limit, o)
	}
	return true
}

// forgetTicks bounds the ticks that v knows: there may be one for each cost of a batch.
func (v *view) forgetTicks() {
	const most = 8
	if !slices.ContainsFunc(v.states, func(s state) bool { return len(s.freed) > most }) {
		return
	}
	v.states = slices.Clone(v.states) // the calls of the batch read the others
	for i := range v.states {
		s := &v.states[i]
		s.freed = slices.Clone(s.freed[:min(len(s.freed), most)])
	}
}

// A joined is the decision of several limits. The zero value is denied and empty; set Allowed
// before the first join.
type joined struct {
	sash.Decision
	early time.Duration // by how much earlier it may be than the instant of the decision
}

// denied reports whether any of the limits denies.
func (d *joined) denied() bool { return d.RetryAfter > 0 }

// join joins the outcome under l. Of equal limits, the first decides.
func (d *joined) join(l sash.Limit, o outcome) {
	o.retryAfter, o.resetAfter = later(o.retryAfter, d.early), later(o.resetAfter, d.early)
	decides := o.remaining < d.Remaining
	if !d.Allowed {
		decides = o.retryAfter > d.RetryAfter
	}
	if first := d.Limit == (sash.Limit{}); first {
		d.Remaining, decides = o.remaining, true
	}
	if decides {
		d.Limit = l
	}
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
