package replay

import "github.com/seed-30da4c49/sash"

// A sweeper evicts idle clients from time to time, so that a long replay needs memory only for
// the others. It changes no answer. Between two sweeps are as many events as the recording has had clients, whose
// names are kept anyway, and as the last sweep has left keys: a policy of a file may have more keys than the
// recording has clients. So a sweep costs a constant time for each event.
type sweeper struct {
	limiters []*sash.Limiter
	in       int // events until the next sweep
}

// leastSweep is the least number of events between two sweeps.
const leastSweep = 1 << 14

// count counts events that were replayed. So far the recording has had that many clients.
func (s *sweeper) count(events, clients int) {
	if s.in -= events; s.in > 0 {
		return
	}
	s.in = max(leastSweep, clients)
	for _, l := range s.limiters {
		l.Sweep()
		s.in = max(s.in, l.Len())
	}
}
