package main

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A clock is moved by the callers, so that on any machine a window holds about the same
// number of calls. It goes back, too. It records enough to bound the instant at which a
// call was decided that read it.
type clock struct {
	*sash.ManualClock
	moving sync.Mutex
	high   atomic.Int64  // the latest instant shown so far, stored before it is shown
	backs  atomic.Uint64 // incremented before and after each move back: odd during one
}

func newClock() *clock { return &clock{ManualClock: sash.NewManualClock(0)} }

// move moves the clock by d, which may be negative.
func (c *clock) move(d time.Duration) {
	c.moving.Lock()
	defer c.moving.Unlock()
	if d < 0 {
		c.backs.Add(1)
		defer c.backs.Add(1)
	}
	// high is raised before the clock shows the new instant. So a call that has read it
	// was decided no later than high as loaded after the call.
	to := c.Now() + int64(d)
	c.high.Store(max(c.high.Load(), to))
	c.Set(to)
}

// unknown stands for an instant that is not known. It is the earliest there is.
const unknown = math.MinInt64

// A reading is the state of the clock before a call.
type reading struct {
	backs uint64
	at    int64
}

func (c *clock) read() reading { return reading{c.backs.Load(), c.Now()} }

// earliest returns a lower bound on the clock's readings since r: unknown if the clock has
// gone back since.
func (c *clock) earliest(r reading) int64 {
	if r.backs%2 != 0 || c.backs.Load() != r.backs {
		return unknown
	}
	return r.at
}
