package httplimit_test

import "github.com/seed-30da4c49/sash"

// hasNear reports for each limit of t whether the share Near of its policy is left at an instant. It returns
// nothing if the observer is told nothing.
func (m *model) hasNear(t *modelTake, at int64) (has []bool) {
	if t.Near == 0 || !m.observed || m.keys[t.key] == nil || isUnlimited(m.limitsOf(t)) {
		return nil // of a policy that is gone, nothing is charged any more
	}
	for i, l := range m.limitsOf(t) {
		most := l.Count
		if l.Algorithm == sash.TokenBucket {
			most = l.Burst
		}
		near := (most*int64(t.Near) + 99) / 100
		has = append(has, m.table.HasLeft(at, near, t.key, i))
	}
	return has
}

// crossedSince returns the limits of t that had that share before a charge, and do not have it any more.
func (m *model) crossedSince(t *modelTake, at int64, had []bool) (crossed []sash.Limit) {
	for i, has := range m.hasNear(t, at) {
		if had[i] && !has {
			crossed = append(crossed, m.limitsOf(t)[i])
		}
	}
	return crossed
}

// limitsOf returns the limits that the key of t has by now, without what carries its debts.
func (m *model) limitsOf(t *modelTake) []sash.Limit { return m.keys[t.key].take.limits }
