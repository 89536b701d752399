package sash

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname
)

// A tscClock reads the processor's time-stamp counter, which takes half as long as
// asking the operating system, and asks that ten times a second to stay with it.
//
// Between two of these a reading lies on a line through what the system's clock
// said, as steep as it was between the last two. A line is followed for no longer
// than a span, so no more than that can go wrong with a counter that jumps, as
// after a pause of the whole machine; and one that no longer runs at its rate is
// followed no further. A new line never begins below the old one: what that was
// ahead is made up for in the course of the new one.
//
// Invariant: version is odd while the line is written, by who holds renewing, and
// else what is read between two readings of the same version is one line.
type tscClock struct {
	version           atomic.Uint64
	ticks, rate, span atomic.Uint64 // of the line; no span: there is none
	ns                atomic.Int64

	renewing sync.Mutex
	last     reading // at which the line was drawn, or is to be drawn from
}

const (
	span     = 100 * time.Millisecond // for which a line holds
	baseline = 10 * time.Millisecond  // between the first two readings, at least
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

// A line takes readings of the counter to nanoseconds.
type line struct {
	reading        // where it begins
	rate    uint64 // nanoseconds a tick, times 2^32
	span    uint64 // ticks for which it holds
}

// at returns the time at a reading of the counter, which must be within span.
func (l line) at(ticks uint64) int64 { return l.ns + int64((ticks-l.ticks)*l.rate>>32) }

// through returns the line through a and b, from b on; none if the counter does not
// run, or runs back.
func through(a, b reading) (l line, ok bool) {
	elapsed, ticks := uint64(b.ns-a.ns), b.ticks-a.ticks
	if b.ns <= a.ns || b.ticks <= a.ticks || elapsed>>32 >= ticks {
		return line{}, false
	}
	rate, _ := bits.Div64(elapsed>>32, elapsed<<32, ticks)
	if rate == 0 {
		return line{}, false
	}
	return line{b, rate, uint64(span) << 32 / rate}, true
}

// next returns the line that follows l, which was drawn at a, from b on; none if
// the counter has gone astray.
func (l line) next(a, b reading) (next line, ok bool) {
	next, ok = through(a, b)
	if !ok || max(next.rate, l.rate)-min(next.rate, l.rate) > l.rate/astray {
		return line{}, false
	}
	if b.ticks-l.ticks > 2*l.span {
		return next, true // nobody has followed l so far
	}
	ahead := max(l.at(b.ticks)-b.ns, 0)
	if ahead > int64(span/astray) {
		return line{}, false
	}
	next.ns += ahead
	next.rate -= uint64(ahead) << 32 / next.span
	return next, true
}

// Now returns the nanoseconds since the process began.
func (c *tscClock) Now() int64 {
	version, l := c.version.Load(), c.line()
	now := tsc()
	if now-l.ticks >= l.span || version&1 != 0 || c.version.Load() != version {
		return c.renew()
	}
	return l.at(now)
}

func (c *tscClock) line() line {
	return line{reading{c.ticks.Load(), c.ns.Load()}, c.rate.Load(), c.span.Load()}
}

// renew draws the next line, unless somebody else is at it, and returns the time.
func (c *tscClock) renew() int64 {
	if !c.renewing.TryLock() {
		return sinceStart()
	}
	defer c.renewing.Unlock()
	l := c.line()
	if ticks := tsc(); ticks-l.ticks < l.span { // somebody else has just drawn it
		return l.at(ticks)
	}
	now, ok := look()
	if !ok {
		return now.ns
	}
	switch {
	case l.span > 0:
		l, _ = l.next(c.last, now)
	case c.last == (reading{}): // the first there is
	case now.ns-c.last.ns < int64(baseline):
		return now.ns
	default:
		l, _ = through(c.last, now)
	}
	c.last = now
	c.draw(l)
	return max(now.ns, l.ns)
}

// draw makes l the line; one without a span sends every reader to renew.
func (c *tscClock) draw(l line) {
	c.version.Add(1)
	c.ticks.Store(l.ticks)
	c.ns.Store(l.ns)
	c.rate.Store(l.rate)
	c.span.Store(l.span)
	c.version.Add(1)
}

// look reads both clocks at one time, as nearly as three attempts allow, and
// reports whether that is near enough.
func look() (r reading, ok bool) {
	width := uint64(math.MaxUint64)
	for range 3 {
		before, ns := tsc(), sinceStart()
		if w := tsc() - before; w < width {
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
var theTSC tscClock

// tscVouched reports whether the kernel vouches for the counter.
var tscVouched = sync.OnceValue(vouched)
