package window

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// Parts is how SlidingParts keeps time. Window is cut into Life parts of Length nanoseconds: the largest
// number up to MaxParts that divides it. A unit that is charged in part i counts in parts i to
// i+Life-1. So what counts at t was charged in (t-W, t], and all of the last Life-1 parts counts.
//
// A shift moves the beginnings of the parts: under shift s, part i begins at instant i*Length - s*Step.
// So the units of keys with different shifts come back at different instants.
type Parts struct {
	Ticks
	Step int64 // of a shift: Length/Shifts, rounded down
}

const (
	MaxParts = 16
	Shifts   = 64 // the number of shifts, which are 0 and more
)

// PartsOf returns the parts of window.
func PartsOf(window int64) Parts {
	parts := int64(MaxParts)
	for window%parts != 0 {
		parts--
	}
	length := window / parts
	return Parts{Ticks{length, parts}, length / Shifts}
}

// ShiftOf returns the shift of the key of that name. It is the same in all processes.
func ShiftOf(name string) int64 { return int64(xxhash.Sum64String(name) % Shifts) }

// Locate returns the number of the part in which t lies, and the time since it began. It divides.
func (p Parts) Locate(t, shift int64) (part, elapsed int64) {
	part, elapsed = Divide(t, p.Length)
	return p.Shift(part, elapsed, shift)
}

// Shift returns what Locate returns under shift, given what it returns under a shift of 0.
func (p Parts) Shift(part, elapsed, shift int64) (shifted, since int64) {
	since = elapsed + shift*p.Step - p.Length // first less, as the sum may not fit
	if since < 0 {
		return part, since + p.Length
	}
	return part + 1, since
}

// Begins returns the first instant of a part, and Ends its last.
func (p Parts) Begins(part, shift int64) int64 {
	begin := part*p.Length - shift*p.Step
	if part < 0 && begin > 0 { // it lies before the first instant of an int64
		return math.MinInt64
	}
	return begin
}

func (p Parts) Ends(part, shift int64) int64 {
	end := part*p.Length - shift*p.Step + (p.Length - 1)
	if part > 0 && end < 0 { // it lies after the last instant
		return math.MaxInt64
	}
	return end
}
