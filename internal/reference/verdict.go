package reference

// A Verdict is whether a call is allowed, and the state of its keys after it. It tells whether an
// [Answer] is the right one by what each field means, in place of a search for the right one. So
// it takes a thirtieth of the time.
type Verdict struct {
	Allowed bool
	now, n  int64
	members []member
}

// Decide charges as [Table.Take] does, and returns the verdict.
func (t *Table) Decide(now, n int64, keys ...string) Verdict {
	members := t.members(keys)
	return verdict(members, now, n, decide(members, now, n))
}

// Consider returns the verdict of Decide, and charges nothing.
func (t *Table) Consider(now, n int64, keys ...string) Verdict {
	members := clones(t.members(keys))
	return Verdict{decide(members, now, n), now, n, members}
}

// Foresee returns the verdict on a call that charges nothing if it is denied, whatever the limits
// charge. It does not charge it either if it is admitted.
func (t *Table) Foresee(now, n int64, keys ...string) Verdict {
	members := clones(t.members(keys))
	allowed := admit(members, now, n)
	if allowed {
		chargeAll(members, now, n, true)
	}
	return Verdict{allowed, now, n, members}
}

// DecideReserve charges as [Table.ReserveAll] does, and returns the verdict.
func (t *Table) DecideReserve(now, n int64, keys ...string) ([]Reservation, Verdict) {
	all, members, allowed := t.reserveAll(now, n, keys)
	return all, verdict(members, now, n, allowed)
}

// verdict returns the verdict on a call with the state that members are in now.
func verdict(members []member, now, n int64, allowed bool) Verdict {
	return Verdict{allowed, now, n, clones(members)}
}

func clones(members []member) []member {
	for i, m := range members {
		members[i].Key = m.clone()
	}
	return members
}

// Confirms reports whether a is the answer to the call.
func (v Verdict) Confirms(a Answer) bool {
	return a.Allowed == v.Allowed && v.confirmsRemaining(a) && v.confirmsReset(a.ResetAfter) && v.confirmsRetry(a)
}

// confirmsRemaining reports whether each limit admits the units that remain, one of them no more,
// and, of an allowed call, the first such decides.
func (v Verdict) confirmsRemaining(a Answer) bool {
	decides := -1
	for i, m := range v.members {
		used := m.used(m.instant(v.now, 0))
		if a.Remaining < 0 || a.Remaining > m.limit.most() || a.Remaining > 0 && !m.fits(used, a.Remaining) {
			return false
		}
		if decides < 0 && (a.Remaining == m.limit.most() || !m.fits(used, a.Remaining+1)) {
			decides = i
		}
	}
	return decides >= 0 && (!v.Allowed || v.isDecided(a, decides))
}

// confirmsRetry reports whether the call is admitted after the wait, and not earlier, and whether
// the first limit with that wait decides.
func (v Verdict) confirmsRetry(a Answer) bool {
	if v.Allowed {
		return a.RetryAfter == 0
	}
	decides := -1
	for i, m := range v.members {
		never := m.never(v.n)
		if a.RetryAfter < Never && (never || !m.admits(m.instant(v.now, a.RetryAfter), v.n)) {
			return false
		}
		if decides < 0 && (never || !m.admits(m.instant(v.now, a.RetryAfter-1), v.n)) {
			decides = i
		}
	}
	return a.RetryAfter > 0 && decides >= 0 && v.isDecided(a, decides)
}

// confirmsReset reports whether the keys are idle after the wait, and not earlier.
func (v Verdict) confirmsReset(wait int64) bool {
	idleAt := func(d int64) bool {
		for _, m := range v.members {
			if !m.idle(m.instant(v.now, d)) {
				return false
			}
		}
		return true
	}
	return wait >= 0 && (wait == Never || idleAt(wait)) && (wait == 0 || !idleAt(wait-1))
}

// LeastWait returns how long the call has to wait at least, whatever units that are held are given back.
func (v Verdict) LeastWait() (least int64) {
	for _, m := range v.members {
		if !v.Allowed && (!m.limit.Held || m.never(v.n)) {
			least = max(least, m.retryAfter(v.now, v.n))
		}
	}
	return least
}

// AdmitsAfter reports whether the call, which is denied, is admitted after the wait, if nothing else
// is charged. After [Never], every call is.
func (v Verdict) AdmitsAfter(wait int64) bool {
	for _, m := range v.members {
		if wait < Never && !m.admits(m.instant(v.now, wait), v.n) {
			return false
		}
	}
	return true
}

func (v Verdict) isDecided(a Answer, index int) bool {
	m := v.members[index]
	return a.Deciding == m.index && a.DecidingKey == m.name
}

// Answer returns the answer that v confirms.
func (v Verdict) Answer() Answer { return combine(v.members, v.now, v.n, v.Allowed) }
