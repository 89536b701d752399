package sash

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
)

// A Clock tells the time that a limiter decides by: nanoseconds since a fixed,
// arbitrary origin. It must be safe for concurrent use. It should not run
// backwards; where it does, or where a reading is used late, a key stays at
// the newest time it has seen, so nothing is admitted twice.
type Clock interface{ Now() int64 }

// SystemClock returns the monotonic clock of the operating system, which no change
// of the wall time moves. It is the default. A reading is never below one that
// happened before it, on whatever goroutine. It takes some tens of nanoseconds.
//
// On amd64, where the kernel keeps that clock by the processor's time-stamp counter,
// SystemClock reads the counter itself and compares it with the system's clock ten
// times a second. It stays within some microseconds of that clock. If the counter goes
// astray, it stands still until the system's clock has come up to it, in a tenth of a
// second at most, and follows that. A limiter on this clock omits the order between
// cores, which takes half of a reading: its readings may be late by less than a
// microsecond.
//
// SystemClock called in a bubble of testing/synctest returns a clock that follows
// the bubble's time, from 0 on. Called outside, it returns a clock that keeps real
// time in a bubble, too. So a limiter must be made in the bubble whose time it is to
// follow. A clock of a bubble must not be used outside it, where it shows the wall
// time.
func SystemClock() Clock {
	switch {
	case inBubble():
		return bubbleClock{}
	case tscVouched():
		return theTSC
	}
	return systemClock{}
}

// A systemClock reads the system's clock, in a bubble too.
type systemClock struct{}

func (systemClock) Now() int64 { return sinceStart() }

// A bubbleClock reads the time of the bubble of testing/synctest that it is read in.
type bubbleClock struct{}

// bubbleStart is the time at which every bubble begins.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

func (bubbleClock) Now() int64 { return int64(time.Since(bubbleStart)) }

// inBubble reports whether the caller is in a bubble of testing/synctest. There, and
// only there, the time has no monotonic reading for Round to strip.
func inBubble() bool {
	now := time.Now()
	return now == now.Round(0)
}

// CoarseClock returns a clock that reads the time once per resolution and
// answers from memory in between, in about a nanosecond.
//
// Its readings are late, never early, and never run backwards: late by up to
// resolution plus however long the scheduler keeps its one goroutine waiting,
// which on a machine with every core busy has been seen to reach 0.4 s. Use it
// where a window is much longer than that. A limiter on a late clock gives
// units back late.
//
// All callers of one resolution share one clock and one goroutine, which ends
// by itself once nobody has read the clock for 16 ticks, and starts again with
// the next reading. A millisecond is a usual resolution; one of microseconds
// keeps a core busy. What a resolution needs, a hundred bytes, is kept for the
// life of the process. It panics if resolution is not positive.
//
// CoarseClock called in a bubble of testing/synctest returns a clock that follows
// the bubble's time, in whole resolutions, and starts no goroutine. It shares
// nothing with the clocks outside. Called outside, it returns a clock that keeps
// real time in a bubble, too. A reading in a bubble never starts its goroutine: while
// that does not run, the reading is exact, and takes some tens of nanoseconds. As
// with [SystemClock], a clock of a bubble must not be used outside it.
func CoarseClock(resolution time.Duration) Clock {
	if resolution <= 0 {
		panic(fmt.Sprintf("sash: CoarseClock: resolution must be > 0, got %v", resolution))
	}
	if inBubble() {
		return coarseBubbleClock(resolution)
	}
	c, _ := coarseClocks.LoadOrCompute(resolution, func() *coarseClock {
		return newCoarseClock(resolution)
	})
	return c
}

var coarseClocks = xsync.NewMapOf[time.Duration, *coarseClock]()

// coarseClock is the cached time. Its invariant: while reading is asleep no
// goroutine keeps it, and the next reader that is not foreign starts one; else
// exactly one does.
type coarseClock struct {
	reading atomic.Int64 // the time of the latest tick, or asleep
	read    atomic.Bool  // whether anyone has looked since that tick
	wake    sync.Mutex   // held to pass from asleep to awake

	resolution time.Duration
	exact      Clock       // what it reads
	foreign    func() bool // whether the caller must not start the goroutine
}

const (
	// asleep is a reading that SystemClock does not give: 292 years ago.
	asleep = math.MinInt64
	// idleTicks is how many ticks without a reader end the goroutine.
	idleTicks = 16
)

func newCoarseClock(resolution time.Duration) *coarseClock {
	c := &coarseClock{resolution: resolution, exact: systemClock{}, foreign: inBubble}
	c.reading.Store(asleep)
	return c
}

func (c *coarseClock) Now() int64 {
	t := c.reading.Load()
	if t == asleep {
		return c.rouse()
	}
	// Written once a tick, not once a reading: readers on several cores
	// otherwise only share the cache line.
	if !c.read.Load() {
		c.read.Store(true)
	}
	return t
}

// rouse returns the time, and starts the goroutine unless another reader just has.
func (c *coarseClock) rouse() int64 {
	c.wake.Lock()
	defer c.wake.Unlock()
	if t := c.reading.Load(); t != asleep {
		return t
	}
	t := c.exact.Now()
	// A goroutine started in a bubble would belong to it: it would tick by the
	// bubble's time, and keep the bubble from ending. So the clock stays asleep. The
	// lock is still held: a reader that wakes the clock reads a later time than t.
	if c.foreign() {
		return t
	}
	c.reading.Store(t)
	go c.tick()
	return t
}

func (c *coarseClock) tick() {
	ticker := time.NewTicker(c.resolution)
	defer ticker.Stop()
	for idle := 0; idle < idleTicks; idle++ {
		<-ticker.C
		c.reading.Store(c.exact.Now())
		if c.read.Swap(false) {
			idle = -1
		}
	}
	c.reading.Store(asleep)
}

// A coarseBubbleClock is a coarse clock of a bubble: the bubble's time, as of the
// last whole resolution. It keeps no state, so it has nothing to leave behind.
type coarseBubbleClock time.Duration

func (c coarseBubbleClock) Now() int64 {
	now := bubbleClock{}.Now()
	return now - now%int64(c)
}

// alarm returns a channel that is ready once clock shows at, and what stops that.
// Only a ManualClock tells when it is moved; the others are taken to run in real
// time, so that it may be early by as much as they do not.
func alarm(clock Clock, at int64) (due <-chan struct{}, stop func()) {
	if manual, ok := clock.(interface {
		alarm(at int64) (<-chan struct{}, func())
	}); ok {
		return manual.alarm(at)
	}
	rung := make(chan struct{})
	timer := time.AfterFunc(time.Duration(at-clock.Now()), func() { close(rung) })
	return rung, func() { timer.Stop() }
}

// A ManualClock stands still until it is told otherwise: for tests, and for
// replays of recorded traffic. It is safe for concurrent use.
type ManualClock struct {
	now     atomic.Int64
	pending atomic.Int64 // number of alarms, so that a clock without any need not lock
	mu      sync.Mutex
	alarms  map[chan struct{}]int64 // and when they are due
}

// NewManualClock returns a clock that reads start nanoseconds. Any start is
// allowed, negative ones included.
func NewManualClock(start int64) *ManualClock {
	c := &ManualClock{}
	c.now.Store(start)
	return c
}

// Now returns the reading set last.
func (c *ManualClock) Now() int64 { return c.now.Load() }

// Advance moves the clock on by d, or back if d is negative, and wakes the calls
// of [Limiter.Wait] whose time has come.
func (c *ManualClock) Advance(d time.Duration) {
	c.now.Add(int64(d))
	c.ring()
}

// Set sets the clock to ns nanoseconds, and wakes like Advance; it may go back.
func (c *ManualClock) Set(ns int64) {
	c.now.Store(ns)
	c.ring()
}

// ring rings the alarms that are due. One that is set at the same time either is
// seen here or sees the clock as it is now.
func (c *ManualClock) ring() {
	if c.pending.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for due, at := range c.alarms {
		if at <= c.now.Load() {
			close(due)
			delete(c.alarms, due)
			c.pending.Add(-1)
		}
	}
}

func (c *ManualClock) alarm(at int64) (<-chan struct{}, func()) {
	due := make(chan struct{})
	c.mu.Lock()
	if c.alarms == nil {
		c.alarms = map[chan struct{}]int64{}
	}
	c.alarms[due] = at
	c.pending.Add(1)
	c.mu.Unlock()
	c.ring()
	return due, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if _, set := c.alarms[due]; set {
			delete(c.alarms, due)
			c.pending.Add(-1)
		}
	}
}
