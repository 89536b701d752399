package sash

import (
	"cmp"
	"runtime"
	"slices"
	"strings"
)

// TakeAll takes from several keys at once: it charges n units to each of keys if
// all limits of all of them admit that, else to none, at one instant. A key named
// twice counts once, and the order of the keys changes no answer but which of two
// equal limits the Decision names. An n of 0 asks and charges nothing; an n below 0
// is denied with [Never], and so is an empty list: no key has no quota.
//
// It costs what the calls of Take would, and a second compare-and-swap for each
// key; up to 8 tracked keys, it allocates nothing. A denied call takes no lock. An
// admitted one locks the keys, in one order for all callers and never waiting
// while it holds one, for the few nanoseconds in which it charges them.
func (l *Limiter) TakeAll(keys []string, n int64) (d Decision) {
	var few [8]target
	targets := l.targets(few[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, query{n: n, charge: n > 0, denied: l.chargeDenied}, &d)
	l.observe(targets, n, d)
	return d
}

// noKeys returns the decision on a call that names no key.
func (l *Limiter) noKeys() Decision {
	return Decision{Limit: l.now.Load().policy.rules[0].Limit, RetryAfter: Never}
}

// observe tells the observer of d, once for each target.
func (l *Limiter) observe(targets []target, n int64, d Decision) {
	if l.observer == nil || n == 0 {
		return
	}
	for i := range targets {
		l.observer(targets[i].name, n, d)
	}
}

// A target is one of the keys of a TakeAll or a ReserveAll.
type target struct {
	key
	reserve  bool      // whether its charge may be given back, which takes a compound,
	booked   []booking // and where it then was booked
	order    int       // in which it was given
	cell     *cell
	lodging  lodging
	word     uint64   // since which the cell was read
	policy   *policy  // of the table that the cell is in; of the key, if it has none
	standing standing // of the key, if it has no cell
}

// targets appends the keys to all, each once, in the order to lock them in.
func (l *Limiter) targets(all []target, keys []string) []target {
	for i, name := range keys {
		all = append(all, target{key: l.key(name), order: i})
	}
	slices.SortFunc(all, func(a, b target) int {
		return cmp.Or(a.compare(b.key), a.order-b.order)
	})
	return slices.CompactFunc(all, func(a, b target) bool { return a.key == b.key })
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.hash, o.hash), strings.Compare(k.name, o.name))
}

// takeAll answers q for all targets. What it reads of them is proven to have been
// so at one instant: that at which it holds the locks of all, taken from the words
// it has read; or, if it charges nothing, that at which it has read all and none
// has changed yet.
func (l *Limiter) takeAll(targets []target, q query, d *Decision) {
	for was := (*regime)(nil); ; {
		g := l.now.Load()
		if g != was {
			q.at, was = g.at(l.clock.Now()), g
		}
		allowed, alive := l.consult(g, targets, q)
		switch {
		case !alive:
		case !q.stores(allowed) || lodges(targets, none):
			l.answerAll(targets, q, allowed, false, d)
			if l.unchanged(g, targets) {
				l.count(g, targets, q)
				return
			}
		case l.insertMissing(targets):
			q.at = g.at(l.clock.Now()) // as in ask
		case !l.reservable(g, targets):
		case roomy(targets, q) && lockAll(targets):
			l.answerAll(targets, q, allowed, true, d)
			l.count(g, targets, q)
			return
		}
	}
}

// consult reads the targets' cells in g and reports whether all admit q; and
// whether all were alive, else they have to be read again.
func (l *Limiter) consult(g *regime, targets []target, q query) (allowed, alive bool) {
	l.lodge(g, targets)
	allowed = true
	for i := range targets {
		t := &targets[i]
		if t.lodging == none {
			allowed = allowed && q.n == 0
			continue
		}
		if t.cell == nil {
			allowed = t.policy.admits(t.policy.unseen, t.policy.unseen.word.Load(), q) && allowed
			continue
		}
		if t.word, alive = t.cell.current(); !alive {
			g.keys.remove(t.key, t.cell)
			return false, false
		}
		allowed = t.policy.admits(t.cell, t.word, q) && allowed
	}
	return allowed, true
}

// insertMissing gives a cell to each target that has none, and reports whether
// there was one.
func (l *Limiter) insertMissing(targets []target) (missing bool) {
	for i := range targets {
		if t := &targets[i]; t.cell == nil {
			l.insert(t.standing, t.key, targets)
			missing = true
		}
	}
	return missing
}

// reservable reports whether the cells that are reserved from are compounds. If
// not, it sees to that, and the caller has to look again.
func (l *Limiter) reservable(g *regime, targets []target) bool {
	ready := true
	for i := range targets {
		switch t := &targets[i]; {
		case !t.reserve || t.lodging != own:
			t.booked = nil // it may have had a cell of its own before
		case t.word&several == 0:
			l.become(g, t.key, t.cell, g.policy, compoundCell)
			ready = false
		default: // now, not under the lock
			t.booked = make([]booking, len(t.cell.compound().parts))
		}
	}
	return ready
}

// unchanged reports whether what was read of all targets in g still is so. (It
// would miss two keys without a cell that were taken from and reset in turn.)
func (l *Limiter) unchanged(g *regime, targets []target) bool {
	for i := range targets {
		switch t := &targets[i]; {
		case t.cell != nil && !t.cell.unchanged(t.word):
			return false
		case t.cell == nil && !l.absent(t.standing, t.key):
			return false
		}
	}
	return true
}

// roomy reports whether all targets have room for what q charges. If not, it sees
// to that, and the caller has to look again.
func roomy(targets []target, q query) bool {
	for i := range targets {
		if t := &targets[i]; !t.policy.roomy(t.cell, t.word, q) {
			return false
		}
	}
	return true
}

// lockAll locks all targets, unless anything has happened to one of them.
func lockAll(targets []target) bool {
	for i := range targets {
		if t := &targets[i]; t.lodging != sharing && !t.cell.lock(t.word) {
			for _, held := range targets[:i] {
				if held.lodging != sharing {
					held.cell.word.Store(held.word)
				}
			}
			runtime.Gosched()
			return false
		}
	}
	return true
}

// answerAll makes d the decision on q, given whether all limits admit it. If store
// is set, it books what q costs and unlocks the targets, which must be locked.
func (l *Limiter) answerAll(targets []target, q query, admitted, store bool, d *Decision) {
	first := 0
	for i := range targets {
		t := &targets[i]
		if t.lodging == sharing {
			continue
		}
		one := l.answerOne(t, len(targets)-1, q, admitted, store)
		if i == 0 {
			*d, first = one, t.order
		} else if d.join(&one, t.order < first) {
			first = t.order
		}
	}
}

func (l *Limiter) answerOne(t *target, others int, q query, admitted, store bool) (d Decision) {
	c := t.cell
	switch {
	case t.lodging == none:
		return l.refused(t.standing, q, others, admitted)
	case c == nil:
		c = t.policy.unseen
		t.word = c.word.Load()
	}
	next := t.policy.answer(c, t.word, q, admitted, store, &d)
	if store {
		if t.booked != nil {
			c.compound().bookings(t.booked)
		}
		c.word.Store(next)
	}
	return d
}

// admits reports whether c, read since word, admits q.
func (p *policy) admits(c *cell, word uint64, q query) (ok bool) {
	if word&several != 0 {
		return c.compound().admits(q)
	}
	switch r := &p.rules[0]; p.kind {
	case counterCell:
		_, ok = r.judge(r.layout.unpack(word), q)
	case wideCell:
		_, ok = r.judge(c.wide().window(word), q)
	case logCell:
		v := c.log().ring.Load().view()
		_, ok = r.consult(&v, q)
	}
	return ok
}

// answer makes d the decision on q of c, read or locked since word, given whether
// all limits of all keys admit it. If store is set, it books what q costs, and
// returns the word that unlocks c.
func (p *policy) answer(c *cell, word uint64, q query, admitted, store bool, d *Decision) (next uint64) {
	if word&several != 0 {
		c.compound().answer(q, admitted, store, d)
		return newer(word)
	}
	r := &p.rules[0]
	if p.kind == logCell {
		r.answerRing(c.log().ring.Load(), q, admitted, store, d)
		return newer(word)
	}
	w := r.layout.unpack(word)
	if p.kind == wideCell {
		w = c.wide().window(word)
	}
	m, _ := r.judge(w, q)
	m.curr += r.cost(q, admitted, m.curr)
	r.counted(d, m, q, admitted)
	switch {
	case !store:
		return word
	case p.kind == wideCell:
		return c.wide().put(word, m.window)
	}
	return r.layout.pack(m.window)
}

// roomy is roomy of a compound, or of a log.
func (p *policy) roomy(c *cell, word uint64, q query) bool {
	if word&several != 0 {
		return c.compound().roomy(word, q)
	}
	return p.kind != logCell || p.rules[0].roomy(c.log(), word, q)
}
