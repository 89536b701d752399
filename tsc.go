package sash

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// A tscClock reads the processor's time-stamp counter, which takes less time than
// asking the operating system, and compares it with the system's clock ten times a
// second. Its readings never run backwards.
//
// A line translates readings of the counter to nanoseconds. It holds for one span
// of the counter, so a counter that jumps, as after a pause of the whole machine,
// misleads it by no more than that. A line without a span follows the system's clock
// instead. It serves while no rate is known, or the counter cannot be trusted.
//
// A reader that finds the line used up draws the next one from it, and publishes
// that by compare-and-swap. A reader that loses this race discards its own line,
// which has given no reading, and reads by the line that won. No reader waits for
// another: one that has to try again was overtaken by one that has published.
//
// Invariants:
//   - A published line never changes, and every reading by it is in [ns, end].
//   - A line replaces the line it was drawn from, and begins at or above its end.
//
// So no reading by a line is below a reading by a line before it, whatever the two
// clocks did, and however long a reader took. A goroutine that knows of a reading
// loads the line of that reading or a later one. On one line, readings rise with the
// counter, which by the kernel's word runs alike on all cores, or with the system's
// clock.
type tscClock struct {
	line atomic.Pointer[line]
	tscSources
}

// An unorderedTSC is a tscClock whose readings may be late by the time for which the
// processor executes instructions ahead, up to some hundred nanoseconds. It does
// not wait for the instructions before it, and so takes half as long. On one line, a
// reading may be below one that another core took just before.
type unorderedTSC tscClock

// tscSources are the two clocks that a tscClock compares. Neither runs before the
// instructions that precede the call are done.
type tscSources struct {
	ticks func() uint64 // the time-stamp counter
	ns    func() int64  // the system's clock
}

const (
	span     = 100 * time.Millisecond // for which a line holds
	baseline = 10 * time.Millisecond  // for which a line without a span holds
	// sharp is for how many ticks at most a reading of both clocks may take: where it
	// is longer, the reader has lost its core.
	sharp = 1 << 12
	// astray is by what part of it the rate may change, and of a span a line be ahead:
	// clocks that are kept in step over a network are not corrected by as much.
	astray = 1 << 8
)

// A reading is what the counter and the system's clock said at one time.
type reading struct {
	ticks uint64
	ns    int64
}

// noReading is later than any reading, so that no rate is taken from it.
var noReading = reading{math.MaxUint64, math.MaxInt64}

// A line takes readings of the counter to nanoseconds. Without a span it takes
// readings of the system's clock to themselves, or to ns if that is later.
type line struct {
	reading         // where it begins
	rate    uint64  // nanoseconds a tick, times 2^32
	span    uint64  // ticks for which it holds
	end     int64   // the highest reading it gives
	drawn   reading // the last sharp look, from which the next rate is taken
	_       [8]byte // fills a cache line, so that no other object shares it
}

func newTSC(s tscSources) *tscClock {
	clock := &tscClock{tscSources: s}
	clock.line.Store(&line{drawn: noReading}) // used up: the first reader draws one
	return clock
}

// Now returns the nanoseconds since the process began.
func (c *tscClock) Now() int64 {
	l := c.line.Load()
	if now := tscInOrder(); l.covers(now) {
		return l.at(now)
	}
	return c.renew()
}

// Now returns the nanoseconds since the process began.
func (c *unorderedTSC) Now() int64 {
	l := c.line.Load()
	if now := tsc(); l.covers(now) {
		return l.at(now)
	}
	return (*tscClock)(c).renew()
}

// renew returns the time, and draws the next line if there is none that holds.
func (c *tscClock) renew() int64 {
	for {
		l := c.line.Load()
		if now, ok := l.read(c.tscSources); ok {
			return now // another reader has just drawn it, or it follows the system's clock
		}
		now, ok := c.look()
		next := l.next(now, ok)
		if c.line.CompareAndSwap(l, next) {
			return next.ns
		}
		// Another reader has published a line since l was loaded. That one may be far
		// ahead of next, so start over. It holds for a baseline at least: this happens
		// again only to a reader that was kept from its core for as long.
	}
}

// read returns the time, and reports whether the line still holds.
func (l *line) read(s tscSources) (now int64, ok bool) {
	if l.span == 0 {
		now = s.ns()
		return max(now, l.ns), now < l.end
	}
	ticks := s.ticks()
	return l.at(ticks), l.covers(ticks)
}

// covers reports whether the line holds at a reading of the counter. It does not at
// one from before it began.
func (l *line) covers(ticks uint64) bool { return ticks-l.ticks < l.span }

// at returns the time at a reading of the counter that the line covers.
func (l *line) at(ticks uint64) int64 { return l.ns + int64((ticks-l.ticks)*l.rate>>32) }

// next returns the line that follows l, which is used up, from b on. It has no span
// if b is not sharp, no rate is known yet, or the counter has gone astray.
func (l *line) next(b reading, sharp bool) *line {
	begin := max(b.ns, l.end)
	next := &line{reading: reading{b.ticks, begin}, end: begin + int64(baseline), drawn: l.drawn}
	if !sharp {
		return next
	}
	next.drawn = b
	rate, ticks := through(l.drawn, b)
	if ticks == 0 || l.span > 0 && max(rate, l.rate)-min(rate, l.rate) > l.rate/astray {
		return next
	}
	// What this line begins ahead of the system's clock is made up for in its course.
	ahead := begin - b.ns
	if ahead > int64(span/astray) {
		return next
	}
	next.rate = rate - uint64(ahead)<<32/ticks
	next.span = ticks
	next.end = next.at(b.ticks + ticks)
	return next
}

// through returns the rate of a line through a and b, and the ticks of its span. Both
// are 0 if the counter does not run between them, or runs back.
func through(a, b reading) (rate, ticks uint64) {
	elapsed, ran := uint64(b.ns-a.ns), b.ticks-a.ticks
	if b.ns <= a.ns || b.ticks <= a.ticks || elapsed>>32 >= ran {
		return 0, 0
	}
	rate, _ = bits.Div64(elapsed>>32, elapsed<<32, ran)
	if rate == 0 || rate > uint64(span)<<32 { // not a tick in a span
		return 0, 0
	}
	return rate, uint64(span) << 32 / rate
}

// look reads both clocks at one time, as nearly as three attempts allow, and
// reports whether that is near enough.
func (s *tscSources) look() (r reading, ok bool) {
	width := uint64(math.MaxUint64)
	for range 3 {
		before, ns := s.ticks(), s.ns()
		if w := s.ticks() - before; w < width {
			width, r = w, reading{before + w/2, ns}
		}
	}
	return r, width <= sharp
}

// sinceStart returns the nanoseconds since the process began by the system's
// monotonic clock, in a bubble of testing/synctest too.
func sinceStart() int64 { return nanotime() - startNano }

var startNano = nanotime()

// The runtime keeps nanotime within reach for the many packages that use it.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// theTSC is the one clock of its kind, so that a process draws one line.
var theTSC = newTSC(tscSources{tscInOrder, sinceStart})

// tscVouched reports whether the kernel vouches for the counter.
var tscVouched = sync.OnceValue(vouched)

// unordered returns the clock that a limiter decides by when it is given clock. To a
// limiter a late reading does no harm: a key stays at the newest time it has seen.
func unordered(clock Clock) Clock {
	if c, ok := clock.(*tscClock); ok {
		return (*unorderedTSC)(c)
	}
	return clock
}

// ordered returns the clock of which unordered made clock.
func ordered(clock Clock) Clock {
	if c, ok := clock.(*unorderedTSC); ok {
		return (*tscClock)(c)
	}
	return clock
}
