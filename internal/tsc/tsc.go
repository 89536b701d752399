// Package tsc tells the time by the processor's time-stamp counter. A reading takes less
// time than one of the operating system's clock, with which the counter is compared ten
// times a second.
//
// All clocks of this package count nanoseconds from the start of the process. They keep
// real time, also in a bubble of testing/synctest.
package tsc

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// A Clock translates readings of the time-stamp counter to nanoseconds. Its readings
// never run backwards, from any goroutine to any other. It is safe for concurrent use.
//
// A calibration holds the translation, for a span of the counter, a tenth of a second. So
// these are the bounds of what a counter that jumps or changes its rate can do, as when a
// hypervisor moves a running machine to another:
//   - No reading is ahead of the system's clock by more than a span and 1/maxDrift of it.
//   - The clock is misled until the counter has run for the rest of the span. After that it
//     follows the system's clock, or stands still until that has come up to it.
//   - Until then it is late by what the two clocks differ in, plus a span at most.
//   - Where the counter runs back within the span, so does the clock: by less than a span.
//
// A calibration without a span does not use the counter: the clock then follows the
// system's clock. That is so until two successive rates agree. One rate alone may have
// been measured across a suspension of the machine, during which the counter may run
// while the system's clock stands still.
//
// A reader that finds the calibration used up derives the next one from it, and
// publishes that by compare-and-swap. A reader that loses this race discards its own
// calibration, which has given no reading, and reads by the published one. No reader
// waits for another. A reader tries again only if another reader has published.
//
// Invariants:
//   - A published calibration never changes.
//   - Every reading by a calibration is in [begin.ns, end].
//   - A calibration replaces the one it was derived from, and begins at or above its end.
//
// Therefore no reading by a calibration is below a reading by an earlier one, whatever
// the two clocks did, and however long a reader took. A goroutine that knows of a
// reading loads the calibration of that reading or a later one. Under one calibration,
// readings rise with the counter or with the system's clock. The kernel vouches that the
// counter runs alike on all cores, and only a hypervisor can set it back.
type Clock struct {
	calibration atomic.Pointer[calibration]
	sources
}

// Unordered is a [Clock] that reads the counter without waiting for the instructions
// before the call, which takes half of the time. A reading may be late by the time for
// which the processor executes instructions ahead, up to some hundred nanoseconds. So
// under one calibration, it may be below a reading that another core took just before.
type Unordered Clock

// Unordered returns the same clock without the order between cores.
func (c *Clock) Unordered() *Unordered { return (*Unordered)(c) }

// Ordered returns the ordered form of c.
func (c *Unordered) Ordered() *Clock { return (*Clock)(c) }

// sources are the two clocks that a Clock compares. Neither is read before the
// instructions that precede the call are done.
type sources struct {
	ticks func() uint64 // the time-stamp counter
	ns    func() int64  // the system's clock
}

const (
	// calibrationSpan is the time for which a calibration with a span holds.
	calibrationSpan = 100 * time.Millisecond
	// uncalibratedSpan is the time for which a calibration without a span holds.
	uncalibratedSpan = 10 * time.Millisecond
	// maxSampleTicks is the highest number of ticks that a precise sample takes. Where
	// it takes longer, the reader has lost its core.
	maxSampleTicks = 1 << 12
	// A rate may differ from the one before by 1/maxDrift of it, and a calibration may
	// begin ahead of the system's clock by 1/maxDrift of calibrationSpan. Clocks that
	// are kept in step over a network are not corrected by as much.
	maxDrift = 1 << 8
	// maxTicks is the highest number of ticks a nanosecond that is believed. No processor has a
	// faster counter. It bounds the time that the ticks of a span can take, should two successive
	// rates agree that were measured across suspensions.
	maxTicks = 16
)

// A sample is a reading of the counter and of the system's clock at one time.
type sample struct {
	ticks uint64
	ns    int64
}

// noSample is later than any sample, so that fit takes no rate from it.
var noSample = sample{math.MaxUint64, math.MaxInt64}

// A calibration translates readings of the counter to nanoseconds. Without a span it
// translates readings of the system's clock to themselves, or to begin.ns if that is
// later.
type calibration struct {
	begin   sample
	rate    uint64  // nanoseconds a tick, times 2^32; without a span, as last measured
	span    uint64  // ticks for which it holds; 0: follow the system's clock until end
	end     int64   // the highest reading it gives
	sampled sample  // the last precise sample, from which the next rate is measured
	_       [8]byte // fills a cache line, so that no other object shares it
}

// newClock returns a Clock that compares s. Its calibration is used up from the start:
// the first reader derives the next one.
func newClock(s sources) *Clock {
	c := &Clock{sources: s}
	c.calibration.Store(&calibration{sampled: noSample})
	return c
}

// Now returns the nanoseconds since the start of the process. Instructions before it end first.
func (c *Clock) Now() int64 {
	cal := c.calibration.Load()
	if ticks := readOrdered(); cal.covers(ticks) {
		return cal.nsAt(ticks)
	}
	return c.renew()
}

// Now returns the nanoseconds since the start of the process. It does not wait for instructions before it.
func (c *Unordered) Now() int64 {
	cal := c.calibration.Load()
	if ticks := readUnordered(); cal.covers(ticks) {
		return cal.nsAt(ticks)
	}
	return (*Clock)(c).renew()
}

// renew is the slow path of Now. It returns the time, and publishes the next calibration
// if the current one is used up.
func (c *Clock) renew() int64 {
	for {
		cal := c.calibration.Load()
		// The caller found a calibration used up, but perhaps not this one: another
		// reader may have published it since. Or this one follows the system's clock,
		// and the counter never covers it.
		if now, ok := cal.read(c.sources); ok {
			return now
		}
		// cal is used up. Other readers may find the same and derive a calibration from
		// it, too, each from a sample of its own.
		now, precise := c.takeSample()
		next := cal.next(now, precise)
		// The swap publishes next only if no other reader has published since the load.
		// So the calibrations form a chain, and each begins at or above the end of the
		// one before. The swap is the linearization point of this reading: readings that
		// ended before it are cal.end at most, and readings that begin after it are
		// next.begin.ns at least.
		if c.calibration.CompareAndSwap(cal, next) {
			return next.begin.ns
		}
		// Another reader has won. Its calibration may have given readings far above
		// next, so next must give none. Start over. The published calibration holds for
		// uncalibratedSpan at least, so only a reader that was kept from its core for as
		// long comes here again.
	}
}

// read returns the time by cal, and reports whether cal still holds.
func (cal *calibration) read(s sources) (now int64, ok bool) {
	if cal.span == 0 {
		// The calibration before may have been ahead of the system's clock. Then stand
		// still until that has come up to its end.
		now = s.ns()
		return max(now, cal.begin.ns), now < cal.end
	}
	ticks := s.ticks()
	return cal.nsAt(ticks), cal.covers(ticks)
}

// covers reports whether cal holds at a reading of the counter. The difference wraps for
// a reading from before cal began, which cal does not cover.
func (cal *calibration) covers(ticks uint64) bool { return ticks-cal.begin.ticks < cal.span }

// nsAt returns the time at a reading of the counter that cal covers.
func (cal *calibration) nsAt(ticks uint64) int64 {
	return cal.begin.ns + int64((ticks-cal.begin.ticks)*cal.rate>>32)
}

// next returns the calibration that follows cal, which is used up, from now on. It has
// no span if
//   - the sample is not precise,
//   - no rate can be measured, or the one before is unknown,
//   - the rate has changed by more than maxDrift allows, or
//   - cal ended too far ahead of the system's clock.
func (cal *calibration) next(now sample, precise bool) *calibration {
	// Goroutines may have read up to cal.end. The next calibration begins no lower,
	// even where the system's clock has not come up to that yet.
	ns := max(now.ns, cal.end)
	next := &calibration{
		begin:   sample{now.ticks, ns},
		rate:    cal.rate,
		end:     ns + int64(uncalibratedSpan),
		sampled: cal.sampled,
	}
	// An imprecise sample is good enough to begin from, but not to measure by. The next
	// precise one is compared with the last precise one.
	if !precise {
		return next
	}
	rate, span := fit(cal.sampled, now)
	next.rate, next.sampled = rate, now
	// Two successive rates must agree. That fails while the rate before is 0, that is
	// unknown.
	if span == 0 || max(rate, cal.rate)-min(rate, cal.rate) > cal.rate/maxDrift {
		return next
	}
	ahead := ns - now.ns
	if ahead > int64(calibrationSpan/maxDrift) {
		return next
	}
	// Run slower, so that the lead over the system's clock is gone at the end of the
	// span.
	next.rate = rate - uint64(ahead)<<32/span
	next.span = span
	next.end = next.nsAt(now.ticks + span)
	return next
}

// fit returns the rate between the samples a and b, and the number of ticks that take
// calibrationSpan at that rate. Both are 0 if either clock stands still or runs back
// between a and b, or if there are more than maxTicks a nanosecond.
func fit(a, b sample) (rate, span uint64) {
	// A counter that ran back seems to have run for almost 2^64 ticks, too many for any time.
	elapsed, ran := uint64(b.ns-a.ns), b.ticks-a.ticks
	if b.ns <= a.ns || elapsed>>32 >= ran { // else Div64 overflows
		return 0, 0
	}
	rate, _ = bits.Div64(elapsed>>32, elapsed<<32, ran)
	if rate < 1<<32/maxTicks {
		return 0, 0
	}
	return rate, uint64(calibrationSpan) << 32 / rate
}

// takeSample reads both clocks, and reports whether it read them at one time, within
// maxSampleTicks. It keeps the narrowest of three attempts.
func (s *sources) takeSample() (narrowest sample, precise bool) {
	width := uint64(math.MaxUint64)
	for range 3 {
		// The system's clock was read somewhere between the two readings of the
		// counter. Take the middle: the error is half of the width at most.
		before, ns := s.ticks(), s.ns()
		if w := s.ticks() - before; w < width {
			width, narrowest = w, sample{before + w/2, ns}
		}
	}
	return narrowest, width <= maxSampleTicks
}

// SystemNow returns the nanoseconds since the start of the process by the system's
// monotonic clock. Unlike package time, it keeps real time in a bubble of
// testing/synctest, too.
func SystemNow() int64 { return nanotime() - startNano }

var startNano = nanotime()

// The runtime keeps nanotime within reach for the many packages that use it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// shared is the only Clock of a process, so that it is calibrated once.
var shared = newClock(sources{readOrdered, SystemNow})

// Shared returns the clock of this process. It keeps its promises only where [Usable]
// reports true: elsewhere the counters of two cores may differ.
func Shared() *Clock { return shared }
