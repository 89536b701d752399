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
	// the tick of the newest units, and the shift of the key.
	used, tick, added, newest int64
	shift                     int64
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
// nanoseconds, as an answer tells it.
type view struct {
	at             int64
	sent, received int64 // readings of the local clock before and after the answer
	states         []state
	token          string // of its first reservation
}

// maxDrift is the inverse of how far a clock may be off another: 200 parts per million.
const maxDrift = 5000

// clockBounds returns what the store's clock shows at a reading of the local clock, at least and
// at most. The store read its clock between sent and received.
func (v *view) clockBounds(now int64) (earliest, latest int64) {
	drift := (now - v.sent) / maxDrift
	return v.at + (now - v.received) - drift, v.at + (now - v.sent) + drift + microsecond // at is rounded down
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

// A charge is where units were charged to a key, so that they can be given back.
type charge struct {
	target
	origins string // under each limit, as a script reads them; "": unknown
	token   string // with which they were charged
	end     string // of their lease; "": they are of none
}

// charge returns where op charged units to t at the instant of v. op is reserve, or take for a lease.
func (v *view) charge(t target, op op, end string) charge {
	origins := make([]string, len(v.states))
	for i, s := range v.states {
		origins[i] = strconv.FormatInt(t.rules[i].origin(s, v.at, op), 10)
	}
	return charge{t, strings.Join(origins, " "), v.token, end}
}

// A basis is what decisions on a key follow from: a view of it, and what has happened since.
type basis struct {
	*view
	*ruleset
	now     int64         // the instant of the decision, by the server's clock
	charged int64         // units charged since the view
	early   time.Duration // by how much earlier than now it may be

	// certain is the longest wait that decide has found, of all keys and limits that it has asked, whatever
	// units that are held are given back.
	certain time.Duration
}

// decide joins to d the decision for n units. If d is Allowed, the units are among the charged ones. If
// it is not, and b does not know the wait, ok is false. Waits count from the earliest instant that now
// may be. Of equal limits, the first decides.
func (b *basis) decide(n int64, d *sash.Decision) (ok bool) {
	for i := range b.states {
		r := &b.rules[i]
		o, known := r.decide(&b.states[i], b.charged, b.now, n)
		switch {
		case d.Allowed:
			o.retryAfter = 0 // it is of n units more
		case !known:
			return false
		}
		retryAfter, resetAfter := later(o.retryAfter, b.early), later(o.resetAfter, b.early)
		if !r.held || o.retryAfter == window.Never {
			b.certain = max(b.certain, retryAfter)
		}
		decides := o.remaining < d.Remaining
		if !d.Allowed {
			decides = retryAfter > d.RetryAfter
		}
		if d.Limit.Window == 0 { // it is the first
			d.Remaining, decides = o.remaining, true
		}
		if decides {
			d.Limit = r.Limit
		}
		d.Remaining = min(d.Remaining, o.remaining)
		d.RetryAfter = max(d.RetryAfter, retryAfter)
		d.ResetAfter = max(d.ResetAfter, resetAfter)
	}
	return true
}

// left returns the decision on no more units.
func (b *basis) left() sash.Decision {
	d := sash.Decision{Allowed: true}
	b.decide(0, &d)
	return d
}

// later returns a wait that begins earlier. No wait stays none.
func later(wait, early time.Duration) time.Duration {
	if wait == 0 {
		return 0
	}
	return window.Wait(uint64(wait), uint64(early))
}
