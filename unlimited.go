package sash

import "math"

// unlimited is the algorithm of Unlimited, which keeps nothing.
type unlimited rule

func (r *unlimited) horizon() horizon {
	return horizon{resolution: 1, life: math.MaxInt64, dated: true}
}

func (r *unlimited) admits(_ state, q query) bool { return q.n >= 0 }

func (r *unlimited) apply(s state, q query, _ result, _ mode) (state, outcome, result) {
	if q.n < 0 {
		return s, outcome{remaining: math.MaxInt64, retryAfter: Never}, denied
	}
	return s, outcome{remaining: math.MaxInt64}, admitted
}

func (r *unlimited) try(*limitState, int64, int64, mode) result { return admitted }

func (r *unlimited) chargeTried(*limitState, int64, int64, mode) outcome {
	return outcome{remaining: math.MaxInt64}
}

func (r *unlimited) expired(state, int64) (since int64, ok bool) { return math.MinInt64, true }

func (r *unlimited) reserve(state, *lineage) int64 { return 0 }

func (r *unlimited) note(*lineage, state, state, int64, result) {}

func (r *unlimited) giveBack(s state, _ *lineage, _, _ int64) (after state, seen int64, emptied bool) {
	return s, 0, false
}

func (r *unlimited) history(state, int64) []charge { return nil }

func (r *unlimited) replay(s state, _ []charge) state { return s }

func (r *unlimited) appendState(b []byte, _ state) []byte { return b }

func (r *unlimited) readState(s state, _ *snapshotReader) state { return s }
