package sashredis

import (
	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A ring is the algorithm of sash.SlidingLog, sash.SlidingBuckets, sash.SlidingParts and sash.Concurrency:
// the units of each tick. A tick is a microsecond of a log and where units are held, a bucket or a part. The
// scripts keep parts in another way, and answer alike for all.
type ring struct {
	window.Parts // of a Step of 0 for logs and buckets, whose ticks begin at the same instants for all keys
	count        int64
}

// ringOf returns the ring of a limit of one of these algorithms.
func ringOf(l sash.Limit) ring {
	size := int64(l.Window)
	switch l.Algorithm {
	case sash.SlidingBuckets:
		return ring{window.Parts{Ticks: window.Buckets(size, int64(l.Precision))}, l.Count}
	case sash.SlidingParts:
		p := window.PartsOf(size / microsecond) // a script knows no fractions of a microsecond
		p.Length, p.Step = p.Length*microsecond, p.Step*microsecond
		return ring{p, l.Count}
	}
	return ring{window.Parts{Ticks: window.Ticks{Length: microsecond, Life: size / microsecond}}, l.Count}
}

func (r ring) parse(numbers []int64, _ int64) (s state, ok bool) {
	if len(numbers) < 3 || len(numbers)%2 == 0 {
		return s, false
	}
	s.used, s.tick, s.newest = numbers[0], numbers[1], numbers[2]
	for i := 3; i < len(numbers); i += 2 {
		s.freed = append(s.freed, freedAt{numbers[i], numbers[i+1]})
	}
	return s, true
}

func (r ring) charge(s state, units int64) state {
	if units > 0 {
		s.added, s.newest = s.added+units, s.tick
	}
	return s
}

func (r ring) decide(answered *state, charged, at, n int64) (o outcome, known bool) {
	s := r.charge(*answered, charged)
	now, elapsed := r.Locate(at, s.shift)
	counting := r.counting(s, max(now, s.tick))
	o.remaining = max(r.count-counting, 0)
	if counting > 0 {
		o.resetAfter = r.UntilFrom(s.newest, now, elapsed)
	}
	missing := s.used + s.added + n - r.count // the units that must go before n fit
	switch {
	case n < 0 || n > r.count:
		o.retryAfter = window.Never
		return o, true
	case missing <= 0:
		return o, true
	}
	tick, known := s.freedAt(missing)
	if known && r.Counts(tick, max(now, s.tick)) {
		o.retryAfter = r.UntilFrom(tick, now, elapsed)
	}
	return o, known
}

// freedAt returns the tick in which the last of that many oldest units was charged, and whether
// s knows it.
func (s *state) freedAt(units int64) (tick int64, known bool) {
	if units > s.used {
		return s.tick, true // one that was added
	}
	for _, f := range s.freed {
		if f.units == units {
			return f.tick, true
		}
	}
	return 0, false
}

// counting returns how many units of s count in a tick, or more if s does not know all ticks.
func (r ring) counting(s state, now int64) (units int64) {
	if !r.Counts(s.newest, now) {
		return 0
	}
	gone := int64(0)
	for _, f := range s.freed {
		if !r.Counts(f.tick, now) {
			gone = max(gone, f.units)
		}
	}
	return s.used - gone + s.added
}

func (r ring) origin(s state, _ int64, _ op) int64 { return s.tick }

func (r ring) periodEnd(s state) int64 { return r.Begins(s.tick+1, s.shift) }

func (r ring) past(s state, at int64) []bridge.Charge {
	begin := r.Begins(s.newest, s.shift)
	last := begin + r.Length - microsecond // the clock shows whole microseconds
	return []bridge.Charge{{At: max(begin, min(at, last)), Units: s.used + s.added}}
}
