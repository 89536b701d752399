package main

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"

	"github.com/seed-30da4c49/sash"
)

// A charge is the units that one call charged to one key, at an instant between earliest
// and latest. These are instants of the key's time, which does not run backwards.
type charge struct {
	earliest, latest int64
	units            int64
	lowered          uint64 // the number of the lowered limits in force during the whole call, or 0

	number int64 // of the charge, among the charges of its key as they were recorded
	begun  int64 // the number of charges that were recorded before the call began
}

// An account records all charges of a key. It uses none of a limiter's arithmetic: it adds
// up the units that were certainly charged within a window.
type account struct {
	bounds []bound
	clock  *clock

	mu      sync.Mutex
	charges []charge
	due     int // the number of charges at which the next audit is due
	past    past
}

// A past is what a key has seen in calls that have returned: an instant that its time has
// reached, and the number of charges that were recorded.
type past struct{ seen, charges int64 }

const chargesPerAudit = 128

// newAccount returns the account of a key whose limits are limits, and lowered from time to
// time.
func newAccount(limits, lowered []sash.Limit, c *clock) *account {
	a := &account{clock: c, due: chargesPerAudit, past: past{seen: unknown}}
	for i, l := range limits {
		a.bounds = append(a.bounds, boundsOf(l, lowered[i])...)
	}
	return a
}

// before returns the past of a call that is about to begin.
func (a *account) before() past {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.past
}

// record records units that were charged at earliest or later, by a call with that past. If an
// audit is due, it returns the first window found that holds too much.
func (a *account) record(p past, earliest, units int64, lowered uint64) *excess {
	earliest = max(earliest, p.seen)
	if earliest == unknown || units == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charges = append(a.charges, charge{earliest, a.clock.high.Load(), units, lowered, a.past.charges, p.charges})
	a.past = past{max(a.past.seen, earliest), a.past.charges + 1}
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

// soFar returns the recorded charges. Their calls have returned.
func (a *account) soFar() []charge {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.charges)
}

// A bound is the proven bound of a limit on the units in any span of ticks.
type bound struct {
	limit, lowered sash.Limit
	kind           boundKind
	tick, span     int64 // the length of a tick, and the number of ticks in a span
}

type boundKind int

const (
	// aligned is Count.
	aligned boundKind = iota
	// leased is Count, too, of units that no snapshot has.
	leased
	// sliding is Count*(1+f), where the last charge lies the fraction f into its window.
	sliding
	// flowing is Burst + Count*T/Window in an interval of length T.
	flowing
	// draining is flowing where Burst is lowered at the last charge. A token bucket keeps what
	// it lacks when Burst or Count change, so Burst bounds all that was charged before.
	draining
)

func boundsOf(l, lowered sash.Limit) []bound {
	window, precision := int64(l.Window), int64(l.Precision)
	switch l.Algorithm {
	case sash.SlidingCounter:
		return []bound{{l, lowered, aligned, window, 1}, {l, lowered, sliding, 1, window}}
	case sash.SlidingLog:
		return []bound{{l, lowered, aligned, 1, window}}
	case sash.Concurrency:
		return []bound{{l, lowered, leased, 1, window}}
	case sash.SlidingBuckets:
		return []bound{{l, lowered, aligned, precision, (window + precision - 1) / precision}}
	case sash.SlidingParts:
		return []bound{{l, lowered, aligned, 1, window - window/16}} // its windows are made of sixteen parts
	case sash.TokenBucket:
		// An interval of any length has a bound. While a bucket fills 16 times, one whose rate is
		// too high by a sixteenth admits Burst units too many.
		const fills = 16
		span := fills * (l.Burst*window/l.Count + 1)
		return []bound{{l, lowered, flowing, 1, span}, {l, lowered, draining, 1, span}}
	}
	panic("no bound is known for " + l.String())
}

// together reports whether two instants lie within one span.
func (b bound) together(from, to int64) bool {
	return floorDiv(to, b.tick)-floorDiv(from, b.tick) < b.span
}

// held returns the units of the charges that certainly still count at that instant, and that a snapshot has.
func (b bound) held(charges []charge, at int64) (units int64) {
	switch b.kind {
	case aligned:
		for _, c := range charges {
			if b.together(c.earliest, at) {
				units += c.units
			}
		}
	case flowing:
		for _, first := range charges {
			since := int64(0)
			for _, c := range charges {
				if c.earliest >= first.earliest {
					since += c.units
				}
			}
			units = max(units, since-flow(b.limit, at-first.earliest))
		}
	}
	return units
}

// flow returns the whole units that flow into a token bucket in that time.
func flow(l sash.Limit, time int64) int64 {
	hi, lo := bits.Mul64(uint64(l.Count), uint64(max(time, 0)))
	units, _ := bits.Div64(hi, lo, uint64(l.Window)) // which fits, as the times of a soak are short
	return int64(units)
}

// atOnce returns the most units that l admits at one instant.
func atOnce(l sash.Limit) int64 {
	if l.Algorithm == sash.TokenBucket {
		return l.Burst
	}
	return l.Count
}

// A stretch is charges that certainly lie between two instants.
type stretch struct {
	from, to int64
	last     int64 // an instant that the last of them is not before
	units    int64
	lowered  bool // whether lowered limits were in force at all of them
	same     bool // whether the same limits were
}

// max returns the units that s may hold.
func (b bound) max(s stretch) int64 {
	l := b.limit
	// If limits were lowered twice, they were raised in between. Then more flowed into a token
	// bucket, while no window forgot anything sooner.
	if s.lowered && (b.kind != flowing || s.same) {
		l = b.lowered
	}
	switch b.kind {
	case sliding:
		window := int64(l.Window)
		elapsed := window - 1
		if floorDiv(s.last, window) == floorDiv(s.to, window) {
			elapsed = s.to - floorDiv(s.to, window)*window
		}
		return l.Count + l.Count*elapsed/window
	case flowing:
		return l.Burst + flow(l, s.to-s.from)
	}
	return l.Count
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
	if b.kind == draining {
		return b.excessWhenLowered(charges)
	}
	for _, first := range charges {
		s := stretch{from: first.earliest, last: first.earliest, lowered: true, same: true}
		for _, c := range charges {
			if !b.together(first.earliest, c.latest) {
				break
			}
			if floorDiv(c.earliest, b.tick) < floorDiv(first.earliest, b.tick) {
				continue
			}
			s.units += c.units
			s.to, s.last = c.latest, max(s.last, c.earliest)
			s.lowered, s.same = s.lowered && c.lowered > 0, s.same && c.lowered == first.lowered
			if limit := b.max(s); s.units > limit {
				return &excess{b.limit, s.from, s.to, s.units, limit}
			}
		}
	}
	return nil
}

// excessWhenLowered is excess for draining. Of the charges before one under lowered limits, it
// takes those that were recorded before the call began, the latest first.
func (b bound) excessWhenLowered(charges []charge) *excess {
	back := slices.SortedFunc(slices.Values(charges), func(x, y charge) int { return cmp.Compare(y.earliest, x.earliest) })
	for _, last := range charges {
		if last.lowered == 0 {
			continue
		}
		units := last.units
		for _, c := range back {
			if !b.together(c.earliest, last.latest) {
				break
			}
			if c.number >= last.begun {
				continue
			}
			units += c.units
			if limit := b.lowered.Burst + flow(b.limit, last.latest-c.earliest); units > limit {
				return &excess{b.lowered, c.earliest, last.latest, units, limit}
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
