package replay

import "github.com/seed-30da4c49/sash"

// A sweeper evicts idle clients from time to time, so that a long replay needs memory only for
// the others. It changes no answer. The number of events between two sweeps is the number of
// clients left by the first, so a sweep costs a constant time for each event.
type sweeper struct {
	limiters []*sash.Limiter
	in       int // events until the next sweep
}

// leastSweep is the least number of events between two sweeps.
const leastSweep = 1 << 14

// count counts events that were replayed.
func (s *sweeper) count(events int) {
	if s.in -= events; s.in > 0 {
		return
	}
	s.in = leastSweep
	for _, l := range s.limiters {
		l.Sweep()
		s.in = max(s.in, l.Len())
	}
}
