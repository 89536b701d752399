package main

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A clock is moved by those who call, so that on any machine a window holds about
// as many calls. It goes back, too, and knows between which instants a call was
// decided that read it in between.
type clock struct {
	*sash.ManualClock
	moving sync.Mutex
	high   atomic.Int64  // the latest instant shown yet, set before it is shown
	backs  atomic.Uint64 // twice as often as it went back; odd while it does
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
	to := c.Now() + int64(d)
	c.high.Store(max(c.high.Load(), to))
	c.Set(to)
}

// unknown is an instant that says nothing: the first there is.
const unknown = math.MinInt64

// A reading is what the clock showed before a call.
type reading struct {
	backs uint64
	at    int64
}

func (c *clock) read() reading { return reading{c.backs.Load(), c.Now()} }

// earliest returns an instant that the clock has not been before since r.
func (c *clock) earliest(r reading) int64 {
	if r.backs%2 != 0 || c.backs.Load() != r.backs {
		return unknown
	}
	return r.at
}
