package main

import (
	"cmp"
	"slices"
	"sync"

	"github.com/seed-30da4c49/sash"
)

// A charge is the units that one call charged to one key, at an instant between earliest
// and latest. These are instants of the key's time, which does not run backwards.
type charge struct {
	earliest, latest int64
	units            int64
	lowered          bool // whether lowered Counts were in force during the whole call
}

// An account records all charges of a key. It uses none of a limiter's arithmetic: it adds
// up the units that were certainly charged within a window.
type account struct {
	bounds []bound
	clock  *clock

	mu      sync.Mutex
	charges []charge
	due     int   // the number of charges at which the next audit is due
	seen    int64 // an instant that the key has seen in a call that has returned
}

const (
	chargesPerAudit = 128
	halved          = 2 // the divisor of lowered Counts
)

func newAccount(limits []sash.Limit, c *clock) *account {
	a := &account{clock: c, due: chargesPerAudit, seen: unknown}
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

// record records units that were charged at earliest or later. If an audit is due, it
// returns the first window found that holds too much.
func (a *account) record(earliest, units int64, lowered bool) *excess {
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
	found := a.firstExcess()
	a.prune()
	a.due = len(a.charges) + chargesPerAudit
	return found
}

// audit returns the first window found that holds too much, of all charges kept.
func (a *account) audit() *excess {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.firstExcess()
}

func (a *account) firstExcess() *excess {
	slices.SortFunc(a.charges, func(a, b charge) int { return cmp.Compare(a.latest, b.latest) })
	for _, b := range a.bounds {
		if found := b.excess(a.charges); found != nil {
			return found
		}
	}
	return nil
}

// prune drops the charges that cannot share a window with a later charge. The latest
// instant of a later charge is no earlier than the clock's latest.
func (a *account) prune() {
	high := a.clock.high.Load()
	a.charges = slices.DeleteFunc(a.charges, func(c charge) bool {
		return !slices.ContainsFunc(a.bounds, func(b bound) bool { return b.together(c.earliest, high) })
	})
}

// soFar returns the recorded charges, those of calls that have returned.
func (a *account) soFar() []charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.charges)
}

// A bound is the proven bound of a limit on the units in any span of ticks. That is Count;
// or, if sliding, for a counter, Count*(1+f) where the last charge lies the fraction f into
// its window.
type bound struct {
	limit      sash.Limit
	tick, span int64 // the length of a tick, and the number of ticks in a span
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

// together reports whether two instants lie within one span.
func (b bound) together(from, to int64) bool {
	return floorDiv(to, b.tick)-floorDiv(from, b.tick) < b.span
}

// held returns the units of the charges that certainly still count at that instant.
func (b bound) held(charges []charge, at int64) (units int64) {
	for _, c := range charges {
		if !b.sliding && b.together(c.earliest, at) {
			units += c.units
		}
	}
	return units
}

// max returns the units that a span may hold whose last charge was made between two
// instants.
func (b bound) max(earliest, latest int64, lowered bool) int64 {
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

// An excess is a window that held more units than its bound.
type excess struct {
	limit      sash.Limit
	from, to   int64
	units, max int64
}

// excess returns the first span found that certainly holds too much, or nil. The charges
// are in the order of their latest instants.
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
			if limit := b.max(last, c.latest, lowered); units > limit {
				return &excess{b.limit, first.earliest, c.latest, units, limit}
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
