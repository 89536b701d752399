package sash

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash/internal/tsc"
)

// A Clock tells the time that a limiter decides by: nanoseconds since a fixed, arbitrary origin. It
// must be safe for concurrent use. A limiter cannot notice another unit: with a clock in
// milliseconds, a window lasts a million times as long as its Limit says. A Clock should not run
// backwards. Where it does, or where a reading is used late, a key stays at the newest time it has
// seen, so nothing is admitted twice. Under a [TokenBucket], the reading counts, with all that was
// charged since: that admits even less.
type Clock interface{ Now() int64 }

// SystemClock returns the monotonic clock of the operating system, which no change of
// the wall time moves. It is the default. A reading is never below one that happened
// before it, on whatever goroutine, with one exception below. It takes some tens of
// nanoseconds.
//
// On amd64, SystemClock reads the processor's time-stamp counter where Linux vouches for
// it. That is so where the clock source of the kernel is
//   - tsc, or
//   - kvm-clock or hyperv_clocksource_tsc_page, as in many virtual machines, if tsc is
//     available too, and the processor says that its counter is invariant.
//
// It compares the counter with the system's clock ten times a second:
//   - It stays within some microseconds of the system's clock.
//   - If the counter goes astray, it stands still until the system's clock has reached
//     it, for a tenth of a second at most, and follows that.
//   - A limiter on this clock omits the order between cores, which takes half of the time
//     of a reading. The limiter's readings may be late by less than a microsecond.
//
// A hypervisor that moves a running machine to another host may set the counter, or have
// it run at another rate. SystemClock then follows the system's clock again within a fifth
// of a second, or within 0.3 s if the counter then runs half as fast. Until then:
//   - Its readings are early by a tenth of a second at most.
//   - Or they are late: by the time for which the counter stood, and a tenth of a second in
//     addition, or a fifth if the counter then runs half as fast.
//   - If the counter was set back, a reading may be below an earlier one, by less than a
//     tenth of a second. A limiter admits nothing twice for that, as a key stays at the
//     newest time it has seen.
//
// An operator who distrusts the counter of a machine rules it out by SASH_CLOCK=system in the
// environment. That needs no other build, and works for programs that embed sash. It is read
// once, when the program first asks for the clock. Any other value but the empty one counts
// as system, too. A program rules the counter out by [WithClock], with a clock of its own.
//
// On all other processors, SystemClock reads the system's clock. On arm64, Linux keeps that
// by a counter that runs alike on all cores by the rules of the architecture, and programs
// read it without a system call, in virtual machines, too.
//
// SystemClock called in a bubble of testing/synctest returns a clock that follows the
// bubble's time, from 0 on. Called outside, it returns a clock that keeps real time in a
// bubble, too. So a limiter must be made in the bubble whose time it is to follow. A
// clock of a bubble must not be used outside it, where it shows the wall time.
func SystemClock() Clock {
	switch {
	case inBubble():
		return bubbleClock(1)
	case tsc.Usable():
		return tsc.Shared()
	}
	return systemClock{}
}

// unordered returns the clock that a limiter decides by when its option is clock.
func unordered(clock Clock) Clock {
	// A limiter tolerates late readings: a key stays at the newest time it has seen. So it does not pay
	// for the order between cores.
	if c, ok := clock.(*tsc.Clock); ok {
		return c.Unordered()
	}
	return clock
}

// ordered returns the clock that unordered made clock from.
func ordered(clock Clock) Clock {
	if c, ok := clock.(*tsc.Unordered); ok {
		return c.Ordered()
	}
	return clock
}

// A systemClock reads the system's clock. It keeps real time in a bubble, too.
type systemClock struct{}

func (systemClock) Now() int64 { return tsc.SystemNow() }

// A bubbleClock reads the time of the caller's bubble of testing/synctest, rounded down to a whole
// number of that resolution. It keeps no state, and so leaves nothing behind when the bubble ends.
type bubbleClock time.Duration

// bubbleStart is the time at which every bubble begins.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

func (c bubbleClock) Now() int64 {
	now := time.Since(bubbleStart)
	return int64(now - now%time.Duration(c))
}

// inBubble reports whether the caller is in a bubble of testing/synctest.
func inBubble() bool {
	// In a bubble, and only there, time.Now has no monotonic reading that Round could strip.
	now := time.Now()
	return now == now.Round(0)
}

// CoarseClock returns a clock that reads the system's clock once per resolution, and returns that
// reading from memory until the next, in about a nanosecond. It panics if resolution is not
// positive. A millisecond is a usual resolution; one of microseconds keeps a core busy.
//
// Its readings are late, never early, and never run backwards. They are late by up to resolution,
// plus the time for which the scheduler keeps the clock's goroutine waiting. On a machine with
// every core busy, that has been seen to reach 0.4 s. Use the clock where a window is much longer
// than that. A limiter on a late clock gives units back late.
//
// All callers of one resolution share one clock and one goroutine. The goroutine ends by
// itself after 16 ticks without a reading, and starts again with the next reading. A
// resolution takes a hundred bytes for the life of the process.
//
// CoarseClock called in a bubble of testing/synctest returns a clock that follows the
// bubble's time, in whole resolutions. That clock starts no goroutine, and shares nothing
// with those outside. Called outside, CoarseClock returns a clock that keeps real time in
// a bubble, too. A reading in a bubble never starts its goroutine: while that does not
// run, the reading is exact, and takes some tens of nanoseconds. As with [SystemClock],
// a clock of a bubble must not be used outside it.
func CoarseClock(resolution time.Duration) Clock {
	if resolution <= 0 {
		panic(fmt.Sprintf("sash: CoarseClock: resolution must be > 0, got %v", resolution))
	}
	if inBubble() {
		return bubbleClock(resolution)
	}
	c, _ := coarseClocks.LoadOrCompute(resolution, func() *coarseClock { return newCoarseClock(resolution) })
	return c
}

var coarseClocks = xsync.NewMapOf[time.Duration, *coarseClock]()

// A coarseClock caches a reading of another clock, which its goroutine renews.
//
// Invariant: while reading is asleep, no goroutine renews it, and the next reader that is
// not foreign starts one. Otherwise exactly one does.
type coarseClock struct {
	reading atomic.Int64 // of the latest tick, or asleep
	read    atomic.Bool  // whether there was a reader since that tick
	mu      sync.Mutex   // held to pass from asleep to awake

	resolution time.Duration
	exact      Clock       // the clock whose readings are cached
	foreign    func() bool // reports whether the caller must not start the goroutine
}

const (
	// asleep is no reading of SystemClock: it lies 292 years before the process began.
	asleep = math.MinInt64
	// idleTicks is the number of ticks without a reader that end the goroutine.
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
		return c.wake()
	}
	// Tell the goroutine that the clock is in use. Write once a tick, not once a
	// reading, so that readers on several cores can share the cache line.
	if !c.read.Load() {
		c.read.Store(true)
	}
	return t
}

// wake returns the time, and starts the goroutine if none runs and the caller is not foreign.
func (c *coarseClock) wake() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Grab the lock and check again: of several readers that found the clock asleep,
	// only the first starts a goroutine.
	if t := c.reading.Load(); t != asleep {
		return t
	}
	t := c.exact.Now()
	// A goroutine started in a bubble would belong to it: it would tick by the bubble's
	// time, and keep the bubble from ending. So the clock stays asleep. The clock was
	// read under the lock: a reader that wakes it later publishes no earlier time than
	// t, so no goroutine that knows of t reads less.
	if c.foreign() {
		return t
	}
	c.reading.Store(t)
	go c.tick()
	return t
}

// tick renews the reading at each tick, until idleTicks in a row had no reader.
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
	// From here on the next reader may start another goroutine. This one must not write
	// to c any more. A reader that has just set read keeps that goroutine awake for one
	// tick longer, at most.
	c.reading.Store(asleep)
}

// after returns a channel that is closed once clock reads at or later, and a function
// that releases it earlier.
func after(clock Clock, at int64) (due <-chan struct{}, stop func()) {
	// Only a ManualClock tells when it is moved. The others are taken to run in real time: where one
	// runs slower, the channel is closed early.
	if manual, ok := clock.(interface {
		after(at int64) (<-chan struct{}, func())
	}); ok {
		return manual.after(at)
	}
	fired := make(chan struct{})
	timer := time.AfterFunc(time.Duration(at-clock.Now()), func() { close(fired) })
	return fired, func() { timer.Stop() }
}

// A ManualClock stands still until it is set or advanced. It is made for tests, and for
// replays of recorded traffic. It is safe for concurrent use.
type ManualClock struct {
	now    atomic.Int64
	mu     sync.Mutex
	timers map[chan struct{}]int64 // the time at which each is due; guarded by mu
}

// NewManualClock returns a clock that reads start nanoseconds, which may be negative.
func NewManualClock(start int64) *ManualClock {
	c := &ManualClock{}
	c.now.Store(start)
	return c
}

// Now returns the nanoseconds that the clock was last moved to.
func (c *ManualClock) Now() int64 { return c.now.Load() }

// Advance moves the clock on by d, or back if d is negative, and wakes the calls of
// [Limiter.Wait] whose time has come.
func (c *ManualClock) Advance(d time.Duration) {
	c.now.Add(int64(d))
	c.fire()
}

// Set moves the clock to ns nanoseconds, also back, and wakes the calls of
// [Limiter.Wait] whose time has come.
func (c *ManualClock) Set(ns int64) {
	c.now.Store(ns)
	c.fire()
}

// fire closes the channels of the timers that are due.
func (c *ManualClock) fire() {
	// The caller has moved the clock before. So a timer that is not in the map yet is fired by the call
	// of after that makes it.
	c.mu.Lock()
	defer c.mu.Unlock()
	for due, at := range c.timers {
		if at <= c.now.Load() {
			close(due)
			delete(c.timers, due)
		}
	}
}

// after is the function after for a ManualClock.
func (c *ManualClock) after(at int64) (<-chan struct{}, func()) {
	due := make(chan struct{})
	c.mu.Lock()
	if c.timers == nil {
		c.timers = map[chan struct{}]int64{}
	}
	c.timers[due] = at
	c.mu.Unlock()
	// The clock may have reached at before the timer was in the map, and then the one
	// that moved it has not seen the timer.
	c.fire()
	return due, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, due) // unless fire has
	}
}
