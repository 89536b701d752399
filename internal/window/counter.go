package window

import (
	"math"
	"math/bits"
	"time"
)

// A Counter is the limit of Count units per Window nanoseconds, approximated by two
// counts: SlidingCounter. Count and Window must be at least 1.
//
// It is the approximation of Cloudflare's "How we built rate limiting capable of scaling
// to millions of domains" (2017), in exact integers. Time is cut into windows of length
// W. With e the time since the current window began, n more units are admitted iff
//
//	prev*(W-e) + (curr+n)*W <= Count*W
type Counter struct{ Count, Window int64 }

// A State is what a key has been charged: Curr units in the window of number Index, and
// Prev units in the window before it. Window i begins at instant i*W.
//
// Only a charge moves a State to a later window. So it stays at the newest time that a
// charge has seen. A State without units has seen nothing.
type State struct{ Index, Prev, Curr int64 }

// Empty reports whether s holds no units.
func (s State) Empty() bool { return s.Prev|s.Curr == 0 }

// Rotate returns s as it is in the later window of number index.
func (s State) Rotate(index int64) State {
	if index-1 == s.Index {
		return State{index, s.Curr, 0}
	}
	return State{Index: index}
}

// A Position is a State at an instant. It is as small as the compiler keeps in
// registers.
type Position struct {
	State
	// Offset is the time since the window of State began, in [0, W). If the clock was
	// read before that window, Offset is negative and tells by how much. The instant
	// then is the beginning of the window.
	Offset int64
}

// Elapsed returns the time since the window began, in [0, W).
func (p Position) Elapsed() int64 { return max(p.Offset, 0) }

// Lateness returns how much older the reading of the clock was than the window of the
// State, at most Never.
func (p Position) Lateness() uint64 { return uint64(-min(p.Offset, 0)) }

// Locate returns the number of the window in which t lies, and the time since that
// window began. It divides.
func (c Counter) Locate(t int64) (index, elapsed int64) { return Divide(t, c.Window) }

// Begins returns the instant at which the window of number index begins. That instant
// must fit into an int64, which it does unless the window is the first that has any.
func (c Counter) Begins(index int64) int64 { return index * c.Window }

// Within reports whether t lies in the window of number index, and how long after its
// beginning, which must fit into an int64.
func (c Counter) Within(index, t int64) (elapsed int64, ok bool) {
	begin := c.Begins(index)
	elapsed = t - begin
	return elapsed, t >= begin && uint64(elapsed) < uint64(c.Window)
}

// Advance returns the position of s at t, which lies in the window of number index,
// elapsed after its beginning. If s is newer than t, the position is at the beginning of
// the window of s.
func (c Counter) Advance(s State, t, index, elapsed int64) Position {
	switch {
	case index == s.Index:
		return Position{s, elapsed}
	case index > s.Index:
		return Position{s.Rotate(index), elapsed}
	}
	return Position{s, -int64(min(uint64(c.Begins(s.Index))-uint64(t), uint64(Never)))}
}

// Admits reports whether n more units fit into s, elapsed after its window began. n must
// be at least 0.
func (c Counter) Admits(s State, elapsed, n int64) bool {
	room := c.Count - s.Curr // below 0 if s holds more than Count
	if n > room {
		return false
	}
	if s.Prev == 0 {
		return true
	}
	room -= n
	// prev*(W-e) <= room*W, in 128 bits.
	hi, lo := bits.Mul64(uint64(s.Prev), uint64(c.Window)-uint64(elapsed))
	roomHi, roomLo := bits.Mul64(uint64(room), uint64(c.Window))
	return hi < roomHi || hi == roomHi && lo <= roomLo
}

// Remaining returns the greatest number of units that p admits.
func (c Counter) Remaining(p Position) int64 {
	room := c.Count - p.Curr
	if p.Prev == 0 || room <= 0 {
		return max(0, room)
	}
	hi, lo := bits.Mul64(uint64(p.Prev), uint64(c.Window)-uint64(p.Elapsed()))
	weighted, rest := bits.Div64(hi, lo, uint64(c.Window)) // Prev < 2^63, so it does not overflow
	if rest > 0 {
		weighted++
	}
	return max(0, room-int64(weighted))
}

// RetryAfter returns how long after the reading of p n units are admitted: 0 if p admits
// them, and Never if no position does. Otherwise that is in this window, while Prev
// fades; or in the next, where Curr has become Prev; or at the latest when the next
// window ends.
func (c Counter) RetryAfter(p Position, n int64) time.Duration {
	if n >= 0 && c.Admits(p.State, p.Elapsed(), n) {
		return 0
	}
	return c.RetryAfterDenial(p, n)
}

// RetryAfterDenial is RetryAfter of n units that p denies.
func (c Counter) RetryAfterDenial(p Position, n int64) time.Duration {
	if n < 0 || n > c.Count {
		return Never
	}
	size, elapsed := uint64(c.Window), uint64(p.Elapsed())
	if from := c.fadesTo(p.Prev, c.Count-p.Curr-n); from < size {
		return Wait(p.Lateness(), from-elapsed)
	}
	return Wait(p.Lateness(), size-elapsed+c.fadesTo(p.Curr, c.Count-n))
}

// fadesTo returns how long after the beginning of a window its prev weighs no more than
// room units. It is the whole window if that is so only when the window ends.
func (c Counter) fadesTo(prev, room int64) uint64 {
	switch {
	case room < 0:
		return uint64(c.Window)
	case room >= prev:
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(c.Window))
	left, _ := bits.Div64(hi, lo, uint64(prev)) // room < prev, so it does not overflow
	return uint64(c.Window) - left
}

// ResetAfter returns how long after the reading of p no unit of p counts any more.
func (c Counter) ResetAfter(p Position) time.Duration {
	size, elapsed := uint64(c.Window), uint64(p.Elapsed())
	switch {
	case p.Curr > 0:
		return Wait(p.Lateness(), size-elapsed+size)
	case p.Prev > 0:
		return Wait(p.Lateness(), size-elapsed)
	}
	return 0
}

// ResetAfterCharge is ResetAfter of a position with units in its window, elapsed after
// that began.
func (c Counter) ResetAfterCharge(elapsed int64) time.Duration {
	return Wait(0, 2*uint64(c.Window)-uint64(elapsed))
}

// Expired reports whether no unit of s counts at now, and since which instant. An empty
// State has been expired for ever.
func (c Counter) Expired(s State, now int64) (since int64, ok bool) {
	if s.Empty() {
		return math.MinInt64, true
	}
	counting := int64(2) // windows in which units count, from window Index on
	if s.Curr == 0 {     // all of Curr was given back
		counting = 1
	}
	// The indexes are subtracted: at the ends of time, Index+counting would overflow.
	if index, _ := c.Locate(now); index <= s.Index || uint64(index)-uint64(s.Index) < uint64(counting) {
		return 0, false
	}
	return c.Begins(s.Index + counting), true // at most now, so it fits
}
