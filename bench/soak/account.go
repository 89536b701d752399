package main

import (
	"cmp"
	"slices"
	"sync"

	"github.com/seed-30da4c49/sash"
)

// A charge is what one key was charged by one call, at some instant from earliest
// to latest: those of the key's time, which does not run backwards.
type charge struct {
	earliest, latest int64
	units            int64
	lowered          bool // whether lowered Counts were in force all the while
}

// An account is of all that a key was admitted. It knows nothing of how a limiter
// counts: what it finds is found by adding up what certainly was within a window.
type account struct {
	bounds []bound
	clock  *clock

	mu      sync.Mutex
	charges []charge
	due     int   // how many charges to have before they are looked at
	seen    int64 // an instant that the key has seen in a call that has returned
}

const (
	fewCharges = 128
	halved     = 2 // what lowered Counts are divided by
)

func newAccount(limits []sash.Limit, c *clock) *account {
	a := &account{clock: c, due: fewCharges, seen: unknown}
	for _, l := range limits {
		a.bounds = append(a.bounds, boundsOf(l)...)
	}
	return a
}

// seenBy returns an instant that the key's time has reached.
func (a *account) seenBy() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen
}

// book books units that were charged no earlier than that, and returns the first
// window found that holds too much.
func (a *account) book(earliest, units int64, lowered bool) *excess {
	if earliest == unknown || units == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = max(a.seen, earliest)
	a.charges = append(a.charges, charge{earliest, a.clock.high.Load(), units, lowered})
	if len(a.charges) < a.due {
		return nil
	}
	found := a.look()
	a.forget()
	a.due = len(a.charges) + fewCharges
	return found
}

// audit looks at all that is not forgotten.
func (a *account) audit() *excess {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.look()
}

func (a *account) look() *excess {
	slices.SortFunc(a.charges, func(a, b charge) int { return cmp.Compare(a.latest, b.latest) })
	for _, b := range a.bounds {
		if found := b.excess(a.charges); found != nil {
			return found
		}
	}
	return nil
}

// forget drops what cannot be in one window with a charge to come, whose latest
// instant will be no earlier than the clock's.
func (a *account) forget() {
	high := a.clock.high.Load()
	a.charges = slices.DeleteFunc(a.charges, func(c charge) bool {
		return !slices.ContainsFunc(a.bounds, func(b bound) bool { return b.together(c.earliest, high) })
	})
}

// soFar returns the charges of calls that have returned.
func (a *account) soFar() []charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.charges)
}

// A bound says what of a limit's promise is held in any span of ticks: at most
// Count, or, sliding, of a counter, Count and as much of it again as the latest
// charge is far into its window.
type bound struct {
	limit      sash.Limit
	tick, span int64
	sliding    bool
}

func boundsOf(l sash.Limit) []bound {
	window, precision := int64(l.Window), int64(l.Precision)
	switch l.Algorithm {
	case sash.SlidingLog:
		return []bound{{l, 1, window, false}}
	case sash.SlidingBuckets:
		return []bound{{l, precision, (window + precision - 1) / precision, false}}
	}
	return []bound{{l, window, 1, false}, {l, 1, window, true}}
}

// together reports whether what happens at a and at b is within one span.
func (b bound) together(from, to int64) bool {
	return floorDiv(to, b.tick)-floorDiv(from, b.tick) < b.span
}

// held returns what of the charges certainly counts at an instant no later than that.
func (b bound) held(charges []charge, at int64) (units int64) {
	for _, c := range charges {
		if !b.sliding && b.together(c.earliest, at) {
			units += c.units
		}
	}
	return units
}

// most returns what a span may hold whose last charge was made between two instants.
func (b bound) most(earliest, latest int64, lowered bool) int64 {
	count := b.limit.Count
	if lowered {
		count /= halved
	}
	if b.sliding {
		window := int64(b.limit.Window)
		elapsed := window - 1
		if floorDiv(earliest, window) == floorDiv(latest, window) {
			elapsed = latest - floorDiv(latest, window)*window
		}
		count += count * elapsed / window
	}
	return count
}

// An excess is what a window held beyond what it may.
type excess struct {
	limit       sash.Limit
	from, to    int64
	units, most int64
}

// excess returns the first span found that certainly holds too much, nil for none,
// of charges in the order of their latest instants.
func (b bound) excess(charges []charge) *excess {
	for _, first := range charges {
		units, lowered, last := int64(0), true, first.earliest
		for _, c := range charges {
			if !b.together(first.earliest, c.latest) {
				break
			}
			if floorDiv(c.earliest, b.tick) < floorDiv(first.earliest, b.tick) {
				continue
			}
			units += c.units
			lowered, last = lowered && c.lowered, max(last, c.earliest)
			if most := b.most(last, c.latest, lowered); units > most {
				return &excess{b.limit, first.earliest, c.latest, units, most}
			}
		}
	}
	return nil
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
