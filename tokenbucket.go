package sash

import (
	"encoding/binary"
	"time"

	"github.com/seed-30da4c49/sash/internal/window"
)

// tokenBucket is the algorithm of TokenBucket: window.TokenBucket is its arithmetic. The state of a
// key is a window.Debt, which fits into one word under most limits.
type tokenBucket rule

// horizon says that a bucket knows how much was charged, but not when.
func (r *tokenBucket) horizon() horizon {
	return horizon{resolution: 1, looksBack: int64(r.bucket.ResetAfter(r.bucket.Cost(r.bucket.Burst)))}
}

func (r *tokenBucket) admits(s state, q query) bool {
	return r.bucket.Admits(r.bucket.Lack(s.debt(), q.at), q.needs())
}

// apply charges q. A bucket that was never charged is charged at the floor or later.
func (r *tokenBucket) apply(s state, q query, res result, m mode) (after state, o outcome, decided result) {
	d, at := s.debt(), q.at
	if d.Empty() {
		at = r.clampToFloor(at)
	}
	lack := r.bucket.Lack(d, q.at)
	if res == retry {
		res = resultOf(r.bucket.Admits(lack, q.needs()))
	}
	d = r.bucket.Charge(d, at, r.cost(q, res, lack))
	if m&tells != 0 {
		lack = r.bucket.Lack(d, q.at)
		o = outcome{remaining: r.bucket.Remaining(lack), resetAfter: r.bucket.ResetAfter(lack)}
		if res == denied { // it stays 0 if another limit denies q
			o.retryAfter = r.bucket.RetryAfter(lack, q.needs())
		}
	}
	return stateOfDebt(d), o, res
}

// cost returns what q is charged by a bucket with that lack, if res is its result. A denied attempt
// empties the bucket at most.
func (r *tokenBucket) cost(q query, res result, lack window.Amount) window.Amount {
	cost := r.bucket.Cost(max(q.n, 0))
	switch {
	case res == admitted:
		return cost
	case q.chargeDenied:
		if left := r.bucket.Cost(r.bucket.Burst).Minus(lack); left.Less(cost) {
			return left
		}
		return cost
	}
	return window.Amount{}
}

// charge returns the word after the charge, and the steps that the bucket then lacks. More than full
// means that the units are denied. Nothing is divided for that.
func (r *tokenBucket) charge(e *entry, word uint64, at, n int64) (next, lack, _ int64, res result) {
	now, ok := r.debts.steps(at)
	if !ok || word-1 >= maxSteps || n > r.Burst {
		return 0, 0, 0, retry // the word 0 must start at the floor; a greater one is locked, dead or multi
	}
	charged, steps := r.debts.charge(word, now, n)
	if steps > r.debts.full {
		if r.chargeDenied {
			return 0, 0, 0, retry
		}
		return int64(word), int64(steps), 0, denied // a denial that costs nothing writes nothing
	}
	// If another call has changed the word, this fails, and nothing has happened.
	if e != nil && !e.Word.CompareAndSwap(word, charged) {
		return 0, 0, 0, retry
	}
	return int64(charged), int64(steps), 0, admitted
}

func (r *tokenBucket) charged(word uint64, at, n int64) (next uint64, o outcome) {
	now, _ := r.debts.steps(at)
	next, lack := r.debts.charge(word, now, n)
	return next, outcome{remaining: r.debts.remaining(lack), resetAfter: r.debts.time(lack)}
}

func (r *tokenBucket) outcome(_, lack, _, n int64, res result) outcome {
	left := r.debts.lackOf(uint64(lack), n)
	o := outcome{remaining: r.debts.remaining(left), resetAfter: r.debts.time(left)}
	if res == denied {
		o.retryAfter = r.retryAfter(0, lack, 0, n, n)
	}
	return o
}

func (r *tokenBucket) retryAfter(_, lack, _, n, more int64) time.Duration {
	return r.debts.time(r.debts.lackOf(uint64(lack), n) + uint64(more)*r.debts.cost - r.debts.full)
}

// try serves a bucket that need not start at the floor.
func (r *tokenBucket) try(s *limitState, at, n int64, _ mode) result {
	d := s.debt()
	if d.Empty() || r.chargeDenied {
		return retry
	}
	return resultOf(r.bucket.Admits(r.bucket.Lack(d, at), n))
}

func (r *tokenBucket) chargeTried(s *limitState, at, n int64, m mode) (o outcome) {
	before := s.debt()
	d := r.bucket.Charge(before, at, r.bucket.Cost(n))
	if m&stores != 0 {
		g := s.lineage.Load() // the lock guards it: number the charge, and note what was lacking before it
		g.charged()
		g.note(r.bucket.Lack(before, at))
		s.store(stateOfDebt(d))
	}
	if m&tells != 0 {
		lack := r.bucket.Lack(d, at)
		o = outcome{remaining: r.bucket.Remaining(lack), resetAfter: r.bucket.ResetAfter(lack)}
	}
	return o
}

func (r *tokenBucket) unpack(word uint64) state { return stateOfDebt(r.debts.unpack(r.bucket, word)) }

func (r *tokenBucket) pack(s state) (word uint64, fits bool) { return r.debts.pack(r.bucket, s.debt()) }

func (r *tokenBucket) packCharged(s state) (word uint64) {
	return r.debts.packCharged(r.bucket, s.debt())
}

func (r *tokenBucket) empty(word uint64) bool { return word&^locked == 0 }

func (r *tokenBucket) holds(at int64) bool {
	_, ok := r.debts.steps(at)
	return ok
}

func (r *tokenBucket) expired(s state, now int64) (since int64, ok bool) {
	return r.bucket.Expired(s.debt(), now)
}

func (r *tokenBucket) reserve(_ state, g *lineage) int64 {
	g.reserved()
	return g.charges
}

func (r *tokenBucket) note(g *lineage, before, after state, at int64, res result) {
	g.charged() // also of a state that it does not change: states of one root count alike
	if after == before {
		return
	}
	lack := r.bucket.Lack(before.debt(), at)
	if res == denied {
		// Nothing can be given back of what was charged before: had that been less, the attempt
		// might have been admitted.
		lack = window.Amount{}
	}
	g.note(lack)
}

// giveBack never empties a state: even a full bucket keeps its instant, so no floor is raised.
func (r *tokenBucket) giveBack(s state, g *lineage, number, units int64) (after state, seen int64, emptied bool) {
	back := g.settle(number, r.bucket.Cost(units))
	if d := s.debt(); !d.Empty() {
		s = stateOfDebt(r.bucket.GiveBack(d, back))
	}
	return s, 0, false
}

// history dates the charges now, at the latest.
func (r *tokenBucket) history(s state, now int64) []charge {
	if units := r.bucket.Units(r.bucket.Lack(s.debt(), now)); units > 0 {
		return []charge{{At: now, Units: units}}
	}
	return nil
}

func (r *tokenBucket) replay(_ state, past []charge) state {
	var d window.Debt
	for _, c := range past {
		if c.Units > 0 {
			d = r.bucket.Charge(d, c.At, r.bucket.Cost(c.Units))
		}
	}
	return stateOfDebt(d)
}

// inherit returns the state that follows from s, a state under from, and by how much more that
// bucket lacks: its steps may be larger.
func (r *tokenBucket) inherit(from *tokenBucket, s state, now int64) (after state, roundedUp window.Amount) {
	d := r.bucket.Inherit(from.bucket, s.debt(), now) // not in whole units, as a history is
	return stateOfDebt(d), r.bucket.Lack(d, now).Minus(from.bucket.Lack(s.debt(), now))
}

func (r *tokenBucket) appendState(b []byte, s state) []byte {
	d := s.debt()
	b = binary.AppendUvarint(b, d.Lack.Hi)
	b = binary.AppendUvarint(b, d.Lack.Lo)
	if !d.Empty() {
		b = binary.AppendVarint(b, d.At)
	}
	return b
}

func (r *tokenBucket) readState(_ state, from *snapshotReader) state {
	d := window.Debt{Lack: window.Amount{Hi: from.uint(), Lo: from.uint()}}
	if !d.Empty() {
		d.At = from.int()
	}
	return stateOfDebt(d)
}
