package sash

// concurrency is the algorithm of Concurrency. The state of a key is the ring of a slidingLog: the units
// of each charge, at the instant of the charge. They count for Window, the lease, unless they are given
// back before.
//
// What differs from a log is that holding is not using:
//   - When a reservation is settled, all its units are given back, whatever was used. So units may come
//     back at any time, and how long a denial lasts is only known at most. Both follow from rule.held.
//   - Nothing is ever charged but what an admitted call holds: no denied attempt, and nothing that was
//     spent past a reservation.
//   - A snapshot has none of the units, as their holders do not come back with it.
//
// Records that have given all their units back are dropped from the old end of the ring with the next
// charge, and everywhere when the ring is full. So a ring has room for about twice as many records as
// hold units.
type concurrency struct{ *slidingLog }

// apply is the log's, but that what is spent holds nothing, and that a certain query is told no wait which
// units that are given back may end.
func (r concurrency) apply(s state, q query, res result, m mode) (after state, o outcome, decided result) {
	if q.spent {
		return s, o, res
	}
	after, o, decided = r.slidingLog.apply(s, q, res, m)
	if q.certain {
		o.retryAfter = 0
	}
	return after, o, decided
}

func (r concurrency) needsRoom(s state, q query, res result) bool {
	return !q.spent && r.slidingLog.needsRoom(s, q, res)
}

// try leaves a denied attempt to the slow path if the other limits of the key charge it.
func (r concurrency) try(s *limitState, at, n int64, m mode) result {
	res := r.slidingLog.try(s, at, n, m)
	if res == denied && r.timeline.chargeDenied {
		return retry
	}
	return res
}

// appendState appends nothing, and readState reads nothing.
func (r concurrency) appendState(b []byte, _ state) []byte { return b }

func (r concurrency) readState(s state, _ *snapshotReader) state { return s }

// inherit returns the state that follows from s, a state under from, at that instant. It begins with own, the
// state of the key before its first charge.
func (r concurrency) inherit(from concurrency, own, s state, now int64) state {
	past, ended := from.history(s, now), 0
	if len(past) > 0 {
		now = max(now, past[len(past)-1].At) // the time of a key never runs backwards
	}
	for ended < len(past) && !from.ticks.Counts(past[ended].At, now) {
		ended++
	}
	if ended > 0 && r.Window > from.Window {
		// A longer lease does not begin again. So what has ended is dropped, and no later call, whose
		// reading may be earlier, comes before that.
		past = append(past[ended:], charge{At: now})
		r.raiseFloor(now)
	}
	return r.replay(own, past)
}
