package sash

import (
	"github.com/seed-30da4c49/sash/internal/atomic"
)

// TakeAll takes from several keys at once. If all limits of all of keys admit n units, it
// charges n units to each key, else to none, at one instant.
//
// A key named twice counts once. The order of the keys changes no answer, except which of
// two equal limits the Decision names. An n of 0 asks and charges nothing. An n below 0 is
// denied with [Never], and so is an empty list.
//
// It costs about what the calls of Take would, and one more atomic store for each key. Up to
// 8 tracked keys, it allocates nothing. A denied call takes no lock. An admitted call locks
// the keys, or all but one, for the few nanoseconds in which it charges them, without waiting for a lock.
//
// If other calls interfere in each of its four or five rounds, the call locks the keys in one order
// for all callers, waits for each, and decides. So a stream of calls on the same keys does
// not starve it. It does this at once if it does not charge and two or more of its keys are
// not tracked, or if keys do not fit under [WithMaxKeys].
//
// Under WithMaxKeys, the bound should be many times the number of keys in all calls that
// run at one time: a call waits while others have taken all the room.
func (l *Limiter) TakeAll(keys []string, n int64) (d Decision) {
	g := l.current.Load()
	at := g.instant(l.clock.Now())
	var fast fastTargets
	if g.fast != fastNone {
		switch res := fast.gather(l, g, keys, at, n); {
		case res == admitted && fast.charge(g, at, n, &d):
			return d
		case res == denied && fast.deny(g, at, n, &d):
			return d
		}
	}
	var buf [8]target
	targets := l.targets(buf[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, g, &request{query: query{at: at, n: n, charge: n > 0, chargeDenied: l.chargeDenied}}, &d)
	l.observeAll(targets, n, d)
	return d
}

// PeekAll returns the decision that [Limiter.TakeAll] would return, as after the charge, by the
// state of all keys at one instant. It charges nothing and stores nothing. PeekAll(keys, 0) is the
// state of the keys as it is. An n below 0 and an empty list are denied, as by TakeAll.
//
// It costs about what the calls of [Limiter.Peek] would. Up to 8 tracked keys, it allocates
// nothing. It takes no lock, unless two or more of its keys are not tracked, keys do not
// fit under [WithMaxKeys], or other calls change the keys in each of its four or five rounds.
func (l *Limiter) PeekAll(keys []string, n int64) (d Decision) {
	g := l.current.Load()
	at := g.instant(l.clock.Now())
	var fast fastTargets
	switch fast.gather(l, g, keys, at, n) {
	case admitted:
		// Tell first. The answer counts if no word has changed by then: all were read at one instant.
		if fast.tell(g, at, n, &d); fast.validate() {
			return d
		}
	case denied:
		if fast.deny(g, at, n, &d) {
			return d
		}
	}
	var buf [8]target
	targets := l.targets(buf[:0], keys)
	if len(targets) == 0 {
		return l.noKeys()
	}
	l.takeAll(targets, g, &request{query: query{at: at, n: n, chargeDenied: l.chargeDenied}}, &d)
	return d
}

// fastTargets are the keys of a TakeAll or PeekAll on its fast path: up to 8 tracked keys. They are
// sorted by hash. So of two calls with the same keys, the one that locks the first key locks the others.
type fastTargets struct {
	all   [8]fastTarget
	count int
}

// A fastTarget is one of fastTargets.
type fastTarget struct {
	hash  uint64
	entry *entry
	word  uint64 // from which the entry was read and locked
	order int    // among the keys, as the caller gave them
}

// gather makes f the targets of keys, whose instant at is of g, and returns whether all of them admit n
// units. If it returns retry, the fast path does not serve them, as where a denied attempt is charged.
func (f *fastTargets) gather(l *Limiter, g *generation, keys []string, at, n int64) result {
	if n <= 0 || len(keys) == 0 || len(keys) > len(f.all) {
		return retry
	}
	res := admitted
	for i, name := range keys {
		k := l.key(name)
		t := fastTarget{hash: k.hash, entry: g.keys.load(k), order: i}
		if t.entry == nil {
			return retry
		}
		t.word = t.entry.Word.Load()
		switch g.ruleset.tryFast(t.entry, t.word, at, n, tells, nil, nil) {
		case retry:
			return retry
		case denied:
			res = denied
		}
		j := i
		for ; j > 0 && f.all[j-1].hash >= k.hash; j-- {
			if f.all[j-1].hash == k.hash {
				return retry // named twice, or another key of the same hash
			}
			f.all[j] = f.all[j-1]
		}
		f.all[j] = t
	}
	f.count = len(keys)
	return res
}

// charge charges n units, which all targets admit, and makes d the decision. If a word has changed since it was
// read, charge reports false, and has charged nothing.
//
// Each lock is taken from the word that was read. So while charge holds them all, the entries are as they were
// when they admitted the units. The last entry needs no lock if its word is all of its state: the swap of that
// word charges it, at an instant at which the others are locked.
func (f *fastTargets) charge(g *generation, at, n int64, d *Decision) bool {
	locks := f.count
	last := &f.all[locks-1]
	swaps := g.ruleset.kindOf(last.word) == kindWord
	if swaps {
		locks--
	}
	if !f.lock(locks) {
		return false
	}
	var left remainder
	if swaps {
		left.key = last.order
		next := g.ruleset.chargeTried(last.entry, last.word, at, n, stores, &left)
		if !last.entry.Word.CompareAndSwap(last.word, next) {
			f.unlock(locks)
			return false
		}
	}
	f.apply(locks, g, at, n, stores, &left)
	left.decision(d)
	return true
}

// lock locks the first count targets from the words from which they were read. If one has changed,
// it unlocks the others, and reports false.
func (f *fastTargets) lock(count int) bool {
	for i := range f.all[:count] {
		// Never wait while another entry is locked. A changed word means that another call came first.
		if t := &f.all[i]; !t.entry.tryLock(t.word) {
			f.unlock(i)
			return false
		}
	}
	return true
}

// unlock unlocks the first count targets, which are as they were read.
func (f *fastTargets) unlock(count int) {
	for _, t := range f.all[:count] {
		// The same word as before: nothing has changed, and readers in between may still
		// validate it.
		t.entry.Word.Store(t.word)
	}
}

// validate reports whether all that was read of the targets is of one instant: none of their
// words has changed since all of them were read.
func (f *fastTargets) validate() bool {
	for _, t := range f.all[:f.count] {
		if !t.entry.validate(t.word) {
			return false
		}
	}
	return true
}

// tell makes d the decision on n units, which all targets admit.
func (f *fastTargets) tell(g *generation, at, n int64, d *Decision) {
	var left remainder
	f.apply(f.count, g, at, n, 0, &left)
	left.decision(d)
}

// apply joins to left what n units, which all targets admit, leave of the first count targets. If m has stores, it
// charges and unlocks these, which must be locked.
func (f *fastTargets) apply(count int, g *generation, at, n int64, m mode, left *remainder) {
	for i := range f.all[:count] {
		t := &f.all[i]
		left.key = t.order
		// This unlocks one target before the next is charged. A call that reads several meets the lock of
		// the next, or a word that has changed when it validates.
		if next := g.ruleset.chargeTried(t.entry, t.word, at, n, m, left); m&stores != 0 {
			t.entry.Word.Store(next)
		}
	}
}

// deny makes d the decision on n units that a target denies, and reports whether it is of one instant.
func (f *fastTargets) deny(g *generation, at, n int64, d *Decision) bool {
	first := 0 // the order of the target that the limit of d is of
	for i := range f.all[:f.count] {
		t := &f.all[i]
		var one Decision
		g.ruleset.apply(t.entry, t.word, query{at: at, n: n}, denied, 0, &one, nil)
		if i == 0 {
			*d, first = one, t.order
		} else if d.join(&one, t.order < first) {
			first = t.order
		}
	}
	return f.validate()
}

// noKeys returns the decision on a call that names no key.
func (l *Limiter) noKeys() Decision {
	return Decision{Limit: l.current.Load().ruleset.rules[0].Limit, RetryAfter: Never}
}

// observeAll calls the observer with d, once for each target.
func (l *Limiter) observeAll(targets []target, n int64, d Decision) {
	if l.observer == nil || n == 0 {
		return
	}
	for i := range targets {
		l.observe(targets[i].key, n, d)
	}
}

// takeAll decides q for all targets, by one state of them all. It first tries to without waiting
// for a lock. If other calls prevent that, it locks all of them. q.at is an instant of g, or is
// still to be read if g is nil. On return, it is the instant that q is decided for.
func (l *Limiter) takeAll(targets []target, g *generation, q *request, d *Decision) {
	if c := l.current.Load().cap; c != nil {
		before := c.nextSeq()
		for i := range targets {
			targets[i].before = before
		}
	}
	g, done := l.tryTakeAll(targets, g, q, d)
	if !done {
		l.takeAllLocked(targets, g, q, d)
	}
	if !d.Allowed {
		l.removeUnused(targets)
	}
	for i := range targets {
		if targets[i].ruleset.fault != nil {
			l.countInvalid(targets[i].ruleset, q)
			break // a call counts once
		}
	}
}

// tryTakeAll is takeAll without waiting for a lock.
//
// If it charges, all that it has read is of one state at the instant at which it holds
// all the locks: each was taken from the word that was read. If it charges nothing, the
// instant is that at which it has read everything and nothing has changed yet.
//
// It reports false, and has charged nothing, if other calls interfere in each of its
// rounds; or if the answer depends on what it cannot lock: several keys without an entry,
// or any that does not fit into the table. On return, q.at is an instant of current.
func (l *Limiter) tryTakeAll(targets []target, g *generation, q *request, d *Decision) (current *generation, done bool) {
	// After the fast path of TakeAll, these are rounds two to five.
	for round := range optimisticRounds {
		atomic.Round("tryTakeAll", round+1)
		if current = l.current.Load(); current != g {
			g, q.at = current, current.instant(l.clock.Now())
		}
		absent, fit := l.placeAll(g, targets)
		if !fit {
			return g, false
		}
		res := l.readAll(g, targets, q.query)
		switch {
		case res == retry: // look up again
		case !q.stores(res) && absent > 1:
			return g, false // without locks, no instant is known at which all of them had no entry
		case !q.stores(res):
			// Build the answer first. It counts only if nothing has changed by then.
			l.applyAll(targets, q.query, res, 0, d)
			if l.validateAll(targets) {
				return g, true
			}
		case l.insertMissing(targets):
			q.at = g.instant(l.clock.Now()) // as in decide: charge no earlier than an eviction
		case !l.ensureHolds(g, targets, q.at):
		case ensureRoomForAll(g, targets, q.query, res) && tryLockAll(targets) && l.confirmFresh(g, targets):
			l.applyAll(targets, q.query, res, stores, d)
			return g, true
		}
	}
	return g, false
}

// takeAllLocked is takeAll under locks. It waits for each lock.
//
// It starts over
//   - once, if the call is admitted and lacks an entry that can take the charge;
//   - if a key has got an entry or room in between, or the bytes of its name have changed;
//   - if a log has no room for the charge, which then gets about twice the room;
//   - if the limits change, or lockOwn would have to call WithLimitsFor;
//   - if another call has replaced an entry by one that chargeable refuses;
//   - under WithMaxKeys, while other calls that run have taken all the room.
//
// If the current generation is not was, q.at is read again.
func (l *Limiter) takeAllLocked(targets []target, was *generation, q *request, d *Decision) {
	charging := false // set once the call is admitted, but entries are missing
	for round := 1; ; round++ {
		g := l.current.Load()
		if g.cap == nil {
			atomic.Round("takeAllLocked", round)
		} else {
			atomic.Round("takeAllLocked under a cap", round)
		}
		if g != was || charging { // the entry that a key had may have been evicted since
			q.at, was = g.instant(l.clock.Now()), g
		}
		l.placeAll(g, targets)
		if charging {
			loadWords(targets)
			l.ensureHolds(g, targets, q.at)
		}
		if !l.lockAll(g, targets, charging) {
			// The bytes of a name may have changed. Sort again, or the order of the locks would break.
			targets = reordered(targets)
			continue
		}
		// From here to the unlocks, nothing that the answer depends on can change.
		if q.upTo > 0 {
			q.fit(remainingOfAll(targets, q.at))
		}
		asked := q.query
		if anyPlaced(targets, placedNowhere) {
			asked.chargeDenied = false // a call is not charged for keys that do not fit
		}
		res, m := resultOf(admitAll(targets, asked)), mode(0)
		if asked.stores(res) {
			if !chargeable(targets, q.at) {
				unlockAbsent(g, targets)
				unlockAll(targets)
				charging = true
				continue
			}
			if markOutgrown(targets, asked, res) {
				unlockAbsent(g, targets)
				unlockAll(targets)
				enlargeMarked(g, targets)
				charging = true
				continue
			}
			m = stores
			growAll(targets, asked, res)
		}
		l.applyAll(targets, asked, res, m, d)
		// With stores, applyAll has unlocked the entries. The shards keep new entries out until here.
		unlockAbsent(g, targets)
		unlockAll(targets)
		l.countOverflow(g, targets, q.query)
		return
	}
}
