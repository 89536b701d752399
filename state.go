package sash

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A limitState is what a multi-limit entry holds under one rule. What is not of the
// rule's form is zero.
type limitState struct {
	words   [3]atomic.Int64 // a window.State or a window.Debt
	ring    atomic.Pointer[ring]
	lineage atomic.Pointer[lineage] // nil: no reservation was made from it; the lock of the entry guards what is in it
}

// load and store read and write the words.
func (s *limitState) load() (a, b, c int64) {
	return s.words[0].Load(), s.words[1].Load(), s.words[2].Load()
}

func (s *limitState) store(a, b, c int64) {
	s.words[0].Store(a)
	s.words[1].Store(b)
	s.words[2].Store(c)
}

// window returns the state of a windowForm.
func (s *limitState) window() (w window.State) {
	w.Index, w.Prev, w.Curr = s.load()
	return w
}

// storeWindow makes w the state of a windowForm.
func (s *limitState) storeWindow(w window.State) { s.store(w.Index, w.Prev, w.Curr) }

// storeCharged is storeWindow of a state that follows from that of s by a charge. It stores
// only what has changed: a store costs as much as a compare-and-swap, and most charges
// change Curr alone.
func (s *limitState) storeCharged(w window.State) {
	if s.words[0].Load() != w.Index {
		s.words[0].Store(w.Index)
		s.words[1].Store(w.Prev)
	}
	s.words[2].Store(w.Curr)
}

// debt returns the state of a debtForm.
func (s *limitState) debt() window.Debt {
	at, hi, lo := s.load()
	return window.Debt{At: at, Lack: window.Amount{Hi: uint64(hi), Lo: uint64(lo)}}
}

// storeDebt makes d the state of a debtForm.
func (s *limitState) storeDebt(d window.Debt) { s.store(d.At, int64(d.Lack.Hi), int64(d.Lack.Lo)) }

// admitsState reports whether r admits q by s.
func (r *rule) admitsState(s *limitState, q query) (ok bool) {
	switch r.form {
	case windowForm:
		p := r.position(s.window(), q.at) // admits, without a call
		ok = q.n >= 0 && r.counter.Admits(p.State, p.Elapsed(), q.n)
	case ringForm:
		v := s.ring.Load().view()
		_, ok = r.evaluateLog(&v, q)
	case debtForm:
		ok = r.admitsDebt(s.debt(), q)
	case noForm:
		ok = q.n >= 0
	default:
		panic(unknownForm(r.form))
	}
	return ok
}

// stateAdmitsFast reports whether r admits n units, n > 0, by s, and s has room for them and,
// if exact is set, can tell what they leave. If ok is false, the caller must take the slow
// path.
func (r *rule) stateAdmitsFast(s *limitState, at, n int64, exact bool) (admits, ok bool) {
	switch r.form {
	case windowForm:
		return r.windowAdmitsFast(s.window(), at, n)
	case ringForm:
		return r.ringAdmitsFast(s.ring.Load(), at, n, exact)
	case debtForm:
		d := s.debt()
		return r.admitsDebt(d, query{at: at, n: n}), !d.Empty() && !r.chargeDenied
	case noForm:
		return true, true
	default:
		panic(unknownForm(r.form))
	}
}

// applyStateFast joins to left, unless that is nil, what n units leave that stateAdmitsFast
// has admitted at that instant. If store is set, it charges them: the entry of s must have
// been locked from the word that s was read under.
func (r *rule) applyStateFast(s *limitState, at, n int64, store bool, left *remainder) {
	switch r.form {
	case windowForm:
		w := s.window()
		w.Curr += n
		if store {
			s.words[2].Store(w.Curr)
		}
		left.joinWindow(r, w, at)
	case ringForm:
		r.applyRingFast(s.ring.Load(), at, n, store, left)
	case debtForm:
		before := s.debt()
		d := r.bucket.Charge(before, at, r.bucket.Cost(n))
		if store {
			s.lineage.Load().charged()
			s.lineage.Load().note(r.bucket.Lack(before, at), true)
			s.storeDebt(d)
		}
		if left != nil {
			lack := r.bucket.Lack(d, at)
			left.join(r, r.bucket.Remaining(lack), r.bucket.ResetAfter(lack))
		}
	case noForm:
		if left != nil {
			left.join(r, math.MaxInt64, 0)
		}
	default:
		panic(unknownForm(r.form))
	}
}

// applyState makes d, unless it is nil, the decision on q by s, given whether all limits
// admit it. If store is set, it charges q. Then the entry of s must be locked.
func (r *rule) applyState(s *limitState, q query, admitted, store bool, d *Decision) {
	switch r.form {
	case windowForm:
		if w := r.applyWindow(s.window(), q, admitted, d); store {
			s.storeCharged(w)
		}
	case ringForm:
		r.applyRing(s.ring.Load(), q, admitted, store, d)
	case debtForm:
		before := s.debt()
		after := r.applyDebt(before, q, admitted, d)
		if store {
			s.lineage.Load().charged()
		}
		if store && after != before {
			s.lineage.Load().note(r.bucket.Lack(before, q.at), admitted)
			s.storeDebt(after)
		}
	case noForm:
		r.unlimitedDecision(d, q, admitted)
	default:
		panic(unknownForm(r.form))
	}
}

// unlimitedDecision makes d, unless it is nil, the decision on q under Unlimited, given
// whether all limits admit it.
func (r *rule) unlimitedDecision(d *Decision, q query, admitted bool) {
	if d == nil {
		return
	}
	*d = Decision{Allowed: admitted, Limit: r.Limit, Remaining: math.MaxInt64}
	if q.n < 0 {
		d.RetryAfter = Never
	}
}

// needsGrowth reports whether s has no room for the charge of q under r.
func (s *limitState) needsGrowth(r *rule, q query) bool {
	switch r.form {
	case windowForm, debtForm, noForm:
		return false
	case ringForm:
		v := s.ring.Load().view()
		return r.needsGrowth(&v, q)
	}
	panic(unknownForm(r.form))
}

// shrunkRing returns a smaller ring for s, or nil if that of s is not far too large.
func (s *limitState) shrunkRing(r *rule) *ring {
	switch r.form {
	case windowForm, debtForm, noForm:
		return nil
	case ringForm:
		v := s.ring.Load().view()
		return v.shrunk(r.ticks.Life, r.Count)
	}
	panic(unknownForm(r.form))
}

// reserved makes the charge that s was charged last an open reservation. It returns what newest
// does.
func (s *limitState) reserved(r *rule) int64 {
	if r.form == debtForm {
		s.lineage.Load().reserved()
	}
	return s.newest(r)
}

// newest returns what an origin needs to know of the charge that s was charged last: the
// window or tick that it is in or, under a token bucket, its number in the lineage.
func (s *limitState) newest(r *rule) int64 {
	switch r.form {
	case windowForm:
		return s.words[0].Load()
	case ringForm:
		v := s.ring.Load().view()
		return v.tick(v.count - 1)
	case debtForm:
		return s.lineage.Load().charges
	case noForm:
		return 0
	}
	panic(unknownForm(r.form))
}

// giveBack takes units of the charge with that origin out of s, as far as they are still
// there. If that has emptied s, it returns the instant up to which the state has seen time.
// The entry of s must be locked.
func (s *limitState) giveBack(r *rule, number, units int64) (seen int64, emptied bool) {
	switch r.form {
	case windowForm:
		w := s.window()
		if w.Empty() {
			return 0, false
		}
		switch number {
		case w.Index:
			w.Curr -= min(units, w.Curr)
		case w.Index - 1:
			w.Prev -= min(units, w.Prev)
		}
		s.storeWindow(w)
		return r.beginningOf(w.Index), w.Empty()
	case ringForm:
		v := s.ring.Load().view()
		emptied = v.giveBack(number, units)
		return r.beginningOf(s.newest(r)), emptied
	case debtForm:
		back := s.lineage.Load().settle(number, r.bucket.Cost(units))
		if d := s.debt(); !d.Empty() {
			s.storeDebt(r.bucket.GiveBack(d, back))
		}
		return 0, false // it still knows when the bucket was full
	case noForm:
		return 0, false
	}
	panic(unknownForm(r.form))
}

// A stateView is the state of a key under one rule, as it was read. Unless its entry is
// locked, it may be torn. What is not of the rule's form is zero.
type stateView struct {
	window.State
	ringView
	debt window.Debt
}

// expired reports whether no unit of v counts at now, and since which instant.
func (v *stateView) expired(r *rule, now int64) (since int64, ok bool) {
	switch r.form {
	case windowForm:
		return r.counter.Expired(v.State, now)
	case ringForm:
		return r.ringExpired(&v.ringView, now)
	case debtForm:
		return r.bucket.Expired(v.debt, now)
	case noForm:
		return math.MinInt64, true
	}
	panic(unknownForm(r.form))
}

// history returns the charges that v knows of under r, oldest first. The newest is among
// them even if it was given back: it is the time that the key has seen.
func (r *rule) history(v stateView, now int64) (past []charge) {
	add := func(number, units int64, newest bool) {
		if units > 0 || newest {
			past = append(past, charge{r.latestInstant(number, now), units})
		}
	}
	switch r.form {
	case windowForm:
		if !v.State.Empty() {
			add(v.Index-1, v.Prev, false)
			add(v.Index, v.Curr, true)
		}
	case ringForm:
		for current, i := v.current(r.ticks.Life), 0; i < current.count; i++ {
			add(current.tick(i), int64(min(current.units(i), math.MaxInt64)), i == current.count-1)
		}
	case debtForm: // it does not know when they were charged: now at the latest
		if units := r.bucket.Units(r.bucket.Lack(v.debt, now)); units > 0 {
			past = append(past, charge{now, units})
		}
	case noForm:
	default:
		panic(unknownForm(r.form))
	}
	return past
}

// replay makes s, which is empty, the state that r is in after the charges of the past.
func (r *rule) replay(s *limitState, past []charge) {
	switch r.form {
	case windowForm:
		s.storeWindow(r.windowOf(past))
	case ringForm:
		s.ring.Store(r.ringOf(past))
	case debtForm:
		s.storeDebt(r.debtOf(past))
	case noForm:
	default:
		panic(unknownForm(r.form))
	}
}

// windowOf returns the state after the charges of the past. It may hold more than Count.
func (r *rule) windowOf(past []charge) (w window.State) {
	for i, c := range past {
		switch index, _ := r.counter.Locate(c.at); {
		case i == 0:
			w.Index = index
		case index != w.Index:
			w = w.Rotate(index)
		}
		w.Curr = window.Plus(w.Curr, c.units)
	}
	return w
}

// ringOf returns the ring of those charges of the past that count at its end; nil for
// none.
func (r *rule) ringOf(past []charge) *ring {
	if len(past) == 0 {
		return nil
	}
	newest := r.ticks.Of(past[len(past)-1].at)
	var records []record
	var total uint64
	for _, c := range past {
		tick := r.ticks.Of(c.at)
		if !r.ticks.Counts(tick, newest) {
			continue
		}
		if last := len(records) - 1; last < 0 || records[last].tick != tick {
			records = append(records, record{tick: tick})
		}
		total += uint64(c.units)
		records[len(records)-1].cumulative = total
	}
	return newRingOf(records)
}

// appendState appends v, the state under r, to a record of a snapshot.
func (r *rule) appendState(b []byte, v *stateView) []byte {
	switch r.form {
	case windowForm:
		return appendWindow(b, v.State)
	case ringForm:
		current := v.current(r.ticks.Life)
		return appendRecords(b, &current)
	case debtForm:
		return appendDebt(b, v.debt)
	case noForm:
		return b
	}
	panic(unknownForm(r.form))
}

// limitState reads the state under r into to, which is empty.
func (s *snapshotReader) limitState(r *rule, to *limitState) {
	switch r.form {
	case windowForm:
		to.storeWindow(s.window(r))
	case ringForm:
		to.ring.Store(s.ring(r))
	case debtForm:
		to.storeDebt(s.debt())
	case noForm:
	default:
		panic(unknownForm(r.form))
	}
}

// debtOf returns the debt after the charges of the past.
func (r *rule) debtOf(past []charge) (d window.Debt) {
	for _, c := range past {
		if c.units > 0 {
			d = r.bucket.Charge(d, c.at, r.bucket.Cost(c.units))
		}
	}
	return d
}
