package sash

import "github.com/seed-30da4c49/sash/internal/window"

// A limitSet is a set of the limits of a key. The bit 1<<i says whether the i-th is in it. A key has at most
// maxLimits of them, so the bits are enough. Adding one allocates nothing, so the caller may hold a lock.
type limitSet uint64

// of returns the limits in the set, which are of e, an entry in a table of rs.
func (set limitSet) of(rs *ruleset, e *entry) (limits []Limit) {
	if set == 0 {
		return nil
	}
	own := rs.of(e)
	for i := range own.rules {
		if set>>i&1 != 0 {
			limits = append(limits, own.rules[i].Limit)
		}
	}
	return limits
}

// crossings returns the limits of e that a charge of q crosses: at least that percentage of the limit is left
// before the charge, and less after it. e must be locked from word, so nothing else changes what is left.
func (rs *ruleset) crossings(e *entry, word uint64, q query, percent int64) (crossed limitSet) {
	if percent == 0 {
		return 0
	}
	own := rs.of(e)
	for i := range own.rules {
		r := &own.rules[i]
		if r.held && q.spent {
			continue // what was used past a reservation is not held
		}
		_, o, _ := r.algorithm.apply(rs.stateOf(e, word, i), query{at: q.at}, retry, tells)
		if crosses(&r.Limit, o.remaining, q.n, percent) {
			crossed |= 1 << i
		}
	}
	return crossed
}

// crosses reports whether a charge of n units leaves less than a percentage of l, and before is that or more. A
// charge takes exactly its units from what was left before, at one instant. Under a debt, 0 is left. A limit
// with a Count of 0 never has anything left, so no charge crosses it.
func crosses(l *Limit, before, n, percent int64) bool {
	near := window.Share(l.most(), percent)
	return near > 0 && before >= near && before-n < near
}
