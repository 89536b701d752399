package sash

import "github.com/seed-30da4c49/sash/internal/bridge"

// takeAllOn is TakeAll on terms for each of keys, at the index of the key. No two keys may be the same, and
// there must be one. It also returns which limits the charge has crossed.
func (l *Limiter) takeAllOn(keys []string, terms []bridge.Terms, n int64) (d Decision, crossings []bridge.Crossing[Limit]) {
	if len(keys) == 1 && terms[0].Leave <= 0 {
		if d, crossings, ok := l.tryTakeOn(keys[0], terms[0].Near, n); ok {
			return d, crossings
		}
	}
	var buf [8]target
	targets := l.targetsOn(buf[:0], keys, terms)
	l.takeAll(targets, nil, &request{query: query{n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, &d)
	l.observeAll(targets, n, d)
	return d, crossingsOf(targets)
}

// tryTakeOn is takeAllOn of one key that has an entry for one limit, and need be left nothing. If ok is false,
// it had no effect.
func (l *Limiter) tryTakeOn(name string, near, n int64) (d Decision, crossings []bridge.Crossing[Limit], ok bool) {
	g, k := l.current.Load(), l.key(name)
	at := g.instant(l.clock.Now())
	e := g.keys.load(k)
	if e == nil || n <= 0 || g.fast == fastNone {
		return d, nil, false
	}
	// An entry of several limits would tell only what is left of the one that decides.
	word := e.Word.Load()
	if word&multi != 0 {
		return d, nil, false
	}
	switch g.ruleset.tryFast(e, word, at, n, stores|tells, &d, nil) {
	case retry:
		return d, nil, false
	case admitted:
		if near > 0 && crosses(&d.Limit, d.Remaining+n, n, near) {
			crossings = []bridge.Crossing[Limit]{{Limit: d.Limit}}
		}
	}
	return d, crossings, true
}

// reserveAllOn is ReserveAll on terms as for takeAllOn.
func (l *Limiter) reserveAllOn(keys []string, terms []bridge.Terms, n int64) ([]Reservation, Decision, []bridge.Crossing[Limit]) {
	targets := l.targetsOn(nil, keys, terms)
	reservations, d := l.reserveAll(targets, keys, n)
	return reservations, d, crossingsOf(targets)
}

// peekAllOn returns the decision that takeAllOn would return, as after the charge, and charges nothing.
func (l *Limiter) peekAllOn(keys []string, terms []bridge.Terms, n int64) (d Decision) {
	var buf [8]target
	targets := l.targetsOn(buf[:0], keys, terms)
	l.takeAll(targets, nil, &request{query: query{n: n, chargeDenied: l.chargeDenied}}, &d)
	return d
}

// targetsOn is targets of a call on those terms, or on none if terms is nil. A number of units to be left below 0 is 0.
func (l *Limiter) targetsOn(all []target, keys []string, terms []bridge.Terms) []target {
	all = l.targets(all, keys)
	if terms == nil {
		return all
	}
	for i := range all {
		of := &terms[all[i].order]
		all[i].leave, all[i].near = max(of.Leave, 0), uint8(of.Near)
	}
	return all
}

// crossingsOf returns the limits of the targets that the charge of a call has crossed.
func crossingsOf(targets []target) (crossings []bridge.Crossing[Limit]) {
	for i := range targets {
		t := &targets[i]
		for _, l := range t.crossed.of(t.ruleset, t.entry) {
			crossings = append(crossings, bridge.Crossing[Limit]{Key: t.order, Limit: l})
		}
	}
	return crossings
}
