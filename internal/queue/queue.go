// Package queue decides which of the calls that wait for keys has its turn, and which of them a
// change wakes.
//
// A [Waiter] is a call that waits. It has a [Place] at each of its keys. They are in the order in which
// the waiters came, but that those which yield more are behind. A place claims units of its key, which
// later waiters must leave. Most claims are of [Everything].
//
//   - A waiter has its turn unless an earlier one claims Everything of one of its keys. Only
//     then does it try to get what it waits for.
//   - Without its turn, a waiter claims Everything of the keys where it is behind an earlier one,
//     and nothing of its other keys.
//   - With its turn, a waiter that is denied claims what its owner says. That should be Everything
//     of the keys that deny it, so that later waiters do not overtake it there, and of its other
//     keys only what it cannot do without.
//
// So a waiter holds up no waiter that it does not compete with. The first of all waiters is behind
// none, so some waiter always has its turn, and none waits in a circle.
//
// Waiters that wait for the same keys may form a group. Only its first waiter, which leads it, may claim
// anything or have its turn. When it leaves, the next leads, and claims Everything of all keys until it
// begins. So when the first turns from one key to another, the others need not do so, too. Waiters of
// other groups that wait for both keys do, one after the other.
//
// Leave, Begin, End and Free wake only waiters that may have their turn now:
//   - If a claim shrinks, these are the later waiters of the key, up to the first of them that
//     claims Everything. If an earlier waiter claims Everything, there are none.
//   - If units of a key are free again, these are its waiters up to the first that claims
//     Everything.
//
// A waiter is woken for the keys that it waits for. While it tries, these are all of its keys. After
// that, they are the keys that it claims Everything of, or that its owner names. An owner should name as
// few as it can: a waiter that several keys deny need only hear of one of them, until that admits it.
//
// Change and ChangeAll tell all waiters of a key, or all there are, one after the other: a waiter is woken
// once the one before it has begun or left, if that was asleep. So however many sleep, they do not run
// all at once, and other goroutines do not wait for them.
//
// A call for a waiter costs O(log n) for each of its keys, where n waiters wait for that key. Each
// waiter that it wakes costs as much. Change costs O(n), and ChangeAll a step for each waiter that has been
// told of an earlier change, if others have not.
package queue

import (
	"container/list"
	"context"
	"math"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// Queues are the waiters for all keys. The zero value has none. It must not be copied.
//
// The owner of a waiter calls Enter, and then Begin. If that reports that the waiter has its turn,
// the owner tries, and calls End if it was denied. Then it blocks until the waiter is woken or, if
// the waiter has had its turn, for as long as it was denied. It calls Begin again, and in the end
// Leave.
type Queues[K comparable] struct {
	waiters atomic.Int64 // while there are none, no other call needs the lock
	mu      sync.Mutex   // guards what follows, and all places
	came    int64        // number of waiters that there were

	demanding, undemanding crowd[K]

	counts map[any]int // number of places that claim Everything, by Bound.Of
	steps  int         // number of places that were passed in lines, which tests read

	// The waiters that have been told of all changes are in news[told], and those that have not in the
	// other list. Each list is in the order in which they are told.
	//
	// Invariant: If a waiter is to be told, telling is one that slept, has been woken for that, and has
	// neither begun nor left since. It passes the word on when it does.
	news    [2]list.List
	told    int
	telling *Waiter[K]
}

// A crowd is waiters that are behind each other.
type crowd[K comparable] struct {
	lines  map[K]*line[K]
	groups map[K]*list.List // the waiters of each Group, in the order in which they came
}

// A Waiter is a call that waits. Its owner sets the first five fields before Enter.
type Waiter[K comparable] struct {
	Places []Place[K] // each of another key
	// Yields and then Number order the waiters: one that yields more is behind all that yield less, as if
	// they had come earlier. With a Number of 0, Enter sets it. A waiter that replaces one that has left
	// keeps its Number.
	Yields, Number int64
	// Undemanding says that the waiter takes no units. It is behind Undemanding waiters alone, and no
	// others are behind it.
	Undemanding bool
	// Group is the same for waiters that wait for the same keys, and only for these. The zero Group is
	// none. With a Group, Yields and Number must be 0, and there must be no Bounds.
	Group K

	// Behind is the index of a place where the waiter is behind an earlier one, since the
	// latest Begin; [Nowhere] if it has its turn.
	Behind int
	// Full is the index of a place whose Bounds left no room in Begin or End. The waiter must leave.
	// It is Nowhere if there was room.
	Full int

	wake    chan struct{} // of capacity 1: a wake-up is kept until the waiter blocks
	crowd   *crowd[K]
	inGroup *list.Element // nil without a Group
	inNews  *list.Element
	newsAt  int         // the list of news that it is in
	awake   atomic.Bool // from Enter or Begin until the owner is about to block
}

// Nowhere stands for the index of no place.
const Nowhere = -1

// A Place is where a waiter stands in the line of one key.
type Place[K comparable] struct {
	Key K
	// Claim may be set before Enter if there are no Bounds. Begin, End and Leave change it.
	Claim Claim
	// Units are what the waiter takes of the key before any later waiter does. They are 0 if that is
	// not sure.
	Units int64
	// Bounds limit the number of places that claim Everything.
	Bounds []Bound
	// Claimed is how many units earlier waiters claimed at the latest Begin.
	Claimed int64

	waiter  *Waiter[K]
	trying  bool // whether Units may have been taken already
	hears   bool // whether units of the key that are free again wake the waiter
	inForce bool // whether a Begin has come since the From of the Claim
	node[K]
}

// A Claim is the units of a key that later waiters must leave, from an instant on. The zero Claim is
// of nothing.
type Claim struct {
	Units, From int64
	// Waits says that the waiter waits for the key, although it does not claim Everything.
	Waits bool
}

// Everything is the Units of a Claim that leaves no later waiter its turn, at any time.
const Everything = math.MaxInt64

// A Bound limits how many places that have the same Of claim Everything at a time, to Most.
type Bound struct {
	Of   any
	Most int
}

// Wake wakes w, or makes its next Block end at once.
func (w *Waiter[K]) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Woken returns the channel on which the wake-ups of w are received. Its owner is about to block.
func (w *Waiter[K]) Woken() <-chan struct{} {
	w.awake.Store(false)
	return w.wake
}

// Block blocks until w is woken, due is closed, or ctx ends. It returns the error of ctx.
func (w *Waiter[K]) Block(ctx context.Context, due <-chan struct{}) error {
	w.awake.Store(false)
	select {
	case <-due:
	case <-w.wake:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Has reports whether there is a waiter for key.
func (q *Queues[K]) Has(key K) (has bool) {
	q.each(key, func(*line[K]) { has = true })
	return has
}

// Claims reports whether a waiter claims units of key that would be before a new one which yields that
// much. Then a call must not take any before it has entered.
func (q *Queues[K]) Claims(key K, yields int64) (claims bool) {
	q.each(key, func(l *line[K]) {
		if l.root.whole().claims && !l.root.waiter.Undemanding {
			before, after := q.split(l.root, turn{yields, math.MaxInt64})
			claims = before.whole().claims
			l.root = q.merge(before, after)
		}
	})
	return claims
}

// Len returns the number of waiters.
func (q *Queues[K]) Len() int { return int(q.waiters.Load()) }

// Enter adds w to the lines of its keys, in one step. It is not woken for what happened before.
func (q *Queues[K]) Enter(w *Waiter[K]) { q.EnterBelow(w, math.MaxInt) }

// EnterBelow is Enter if there are fewer waiters than most. If not, it has no effect, and reports false.
func (q *Queues[K]) EnterBelow(w *Waiter[K], most int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.Len() >= most {
		return false
	}
	if q.counts == nil {
		q.counts = map[any]int{}
	}
	q.waiters.Add(1)
	q.came++
	if w.Number == 0 {
		w.Number = q.came
	}
	w.awake.Store(true)
	w.Behind, w.Full, w.wake = Nowhere, Nowhere, make(chan struct{}, 1)
	w.inNews, w.newsAt = q.news[q.told].PushBack(w), q.told
	w.crowd = &q.demanding
	if w.Undemanding {
		w.crowd = &q.undemanding
	}
	w.crowd.join(w)
	for i := range w.Places {
		p := &w.Places[i]
		p.waiter, p.line = w, w.crowd.line(p.Key)
		c := p.Claim
		p.Claim = Claim{}
		if !w.leads() {
			c = Claim{}
		}
		q.claim(p, c) // there are no Bounds, or c is of nothing
	}
	return true
}

// line returns the line of key, which it makes if there is none.
func (c *crowd[K]) line(key K) *line[K] {
	if c.lines == nil {
		c.lines = map[K]*line[K]{}
	}
	l := c.lines[key]
	if l == nil {
		l = new(line[K])
		c.lines[key] = l
	}
	return l
}

// join adds w to its group, if it has one.
func (c *crowd[K]) join(w *Waiter[K]) {
	var none K
	if w.Group == none {
		return
	}
	if c.groups == nil {
		c.groups = map[K]*list.List{}
	}
	if c.groups[w.Group] == nil {
		c.groups[w.Group] = list.New()
	}
	w.inGroup = c.groups[w.Group].PushBack(w)
}

// leads reports whether no earlier waiter waits for the same keys, as far as groups tell.
func (w *Waiter[K]) leads() bool { return w.inGroup == nil || w.inGroup.Prev() == nil }

// Leave takes w out of all lines. It must be there.
func (q *Queues[K]) Leave(w *Waiter[K]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiters.Add(-1)
	q.leaveGroup(w)
	for i := range w.Places {
		p := &w.Places[i]
		// Waiters are woken by this. They cannot look before w is gone, as mu is held.
		q.claim(p, Claim{})
		before, after := q.takeOut(p)
		if p.line.root = q.merge(before, after); p.line.root == nil {
			delete(w.crowd.lines, p.Key)
		}
	}
	q.news[w.newsAt].Remove(w.inNews)
	q.passOn(w)
}

// leaveGroup takes w out of its group. If it has led that, the next one leads. mu is held.
func (q *Queues[K]) leaveGroup(w *Waiter[K]) {
	if w.inGroup == nil {
		return
	}
	group, next, led := w.crowd.groups[w.Group], w.inGroup.Next(), w.leads()
	switch group.Remove(w.inGroup); {
	case next == nil && led:
		delete(w.crowd.groups, w.Group)
	case led:
		// It claims Everything, as when it came, before w has given up anything. So no later waiter
		// comes between the two.
		n := next.Value.(*Waiter[K])
		for i := range n.Places {
			q.claim(&n.Places[i], Claim{Units: Everything})
		}
		n.Wake()
	}
}

// Begin reports whether w has its turn at instant now. If it has, w tries: the owner must call End or
// Leave.
func (q *Queues[K]) Begin(w *Waiter[K], now int64) (turn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	// What w has not been told yet, it finds from here on. Pass the word on before w tries, which may
	// take as long as its owner likes.
	w.awake.Store(true)
	q.moveNews(w, q.told)
	q.passOn(w)
	if w.Behind = Nowhere; !w.leads() {
		w.Behind = 0 // the first of its group is before it everywhere
		return false
	}
	for i := range w.Places {
		p := &w.Places[i]
		q.change(p, func(before, _ *Place[K]) {
			q.enforce(before, now)
			p.Claimed = before.claimed()
		})
		if p.Claimed == Everything {
			w.Behind = i
		}
	}
	if w.Behind == Nowhere {
		// From here on its units may be taken, and anything that changes concerns it.
		for i := range w.Places {
			p := &w.Places[i]
			q.change(p, func(_, _ *Place[K]) { p.trying, p.hears = true, true })
		}
		return true
	}
	for i := range w.Places {
		p, c := &w.Places[i], Claim{}
		if p.Claimed == Everything {
			c.Units = Everything
		}
		if !q.claim(p, c) {
			w.Behind, w.Full = i, i
			return false
		}
	}
	return false
}

// End ends an attempt of w that was denied. It sets what w claims at each of its places.
func (q *Queues[K]) End(w *Waiter[K], claims []Claim) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range w.Places {
		p := &w.Places[i]
		if !q.claim(p, claims[i]) {
			w.Full = i
			return
		}
	}
}

// claim sets what p claims, and wakes the waiters that this concerns. The waiter does not try any
// more. claim reports false, and changes nothing, if the Bounds of p leave no room. mu is held.
func (q *Queues[K]) claim(p *Place[K], c Claim) bool {
	if had, has := p.Claim.Units == Everything, c.Units == Everything; had != has {
		if has && !q.hasRoom(p) {
			return false
		}
		q.count(p, has)
	}
	q.change(p, func(before, after *Place[K]) {
		shrinks := c.shrinks(p.Claim)
		p.Claim, p.trying, p.hears, p.inForce = c, false, c.Waits || c.Units == Everything, false
		// While an earlier waiter claims Everything, later ones have no turn, whatever p claims.
		if shrinks && before.whole().everything == 0 {
			after.wake(0)
		}
	})
	return true
}

// shrinks reports whether c leaves later waiters what old did not.
func (c Claim) shrinks(old Claim) bool {
	return c.Units < old.Units || old.Units > 0 && c.Units < Everything && c.From > old.From
}

// hasRoom reports whether the Bounds of p leave room for it to claim Everything. mu is held.
func (q *Queues[K]) hasRoom(p *Place[K]) bool {
	for _, b := range p.Bounds {
		if q.counts[b.Of] >= b.Most {
			return false
		}
	}
	return true
}

// count counts p among the places that claim Everything, or does so no more. mu is held.
func (q *Queues[K]) count(p *Place[K], claims bool) {
	n := -1
	if claims {
		n = 1
	}
	for _, b := range p.Bounds {
		if q.counts[b.Of] += n; q.counts[b.Of] == 0 {
			delete(q.counts, b.Of)
		}
	}
}

// Ahead returns the Units of the waiters before p that do not try: units that are sure to be taken
// before p gets any, unless waiters give up.
func (q *Queues[K]) Ahead(p *Place[K]) (units int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.change(p, func(before, _ *Place[K]) { units = before.whole().units })
	return units
}

// Free wakes the waiters that may go on once units of key are free again. Call it after that can be
// seen. by is the Number of a waiter that has given back what it had taken in its attempt. It is not
// woken, as it would try again for ever. 0 stands for no waiter.
func (q *Queues[K]) Free(key K, by int64) {
	q.each(key, func(l *line[K]) { l.root.wake(by) })
}

// Change tells all waiters for key, in their order, that something has changed that may concern them,
// such as other limits. Call it once that can be seen.
func (q *Queues[K]) Change(key K) {
	q.each(key, func(l *line[K]) {
		l.root.each(func(w *Waiter[K]) { q.moveNews(w, 1-q.told) })
		q.tellNext()
	})
}

// ChangeAll is Change for all keys.
func (q *Queues[K]) ChangeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.news[1-q.told].Len() == 0 {
		q.told = 1 - q.told // which moves them all
	}
	// Of an earlier change, some waiters have not been told yet. They come first.
	for e := q.news[q.told].Front(); e != nil; e = q.news[q.told].Front() {
		q.moveNews(e.Value.(*Waiter[K]), 1-q.told)
	}
	q.tellNext()
}

// tellNext wakes the next waiter that is to be told and sleeps, unless one that was woken for that has
// not begun yet. It also tells those before it, which are awake. mu is held.
func (q *Queues[K]) tellNext() {
	for e := q.news[1-q.told].Front(); e != nil && q.telling == nil; e = q.news[1-q.told].Front() {
		w := e.Value.(*Waiter[K])
		q.moveNews(w, q.told)
		// Do not wait for one that is awake: it may run code of its owner's caller, for as long as that
		// likes. It looks again before it sleeps, as the wake-up is kept.
		if !w.awake.Load() {
			q.telling = w
		}
		w.Wake()
	}
}

// passOn lets the next waiter be told, if w was the one that was woken for that. mu is held.
func (q *Queues[K]) passOn(w *Waiter[K]) {
	if q.telling == w {
		q.telling = nil
		q.tellNext()
	}
}

// moveNews makes w the last of a list of news, unless it is there. mu is held.
func (q *Queues[K]) moveNews(w *Waiter[K], to int) {
	if w.newsAt != to {
		q.news[w.newsAt].Remove(w.inNews)
		w.inNews, w.newsAt = q.news[to].PushBack(w), to
	}
}

// each calls f for the lines of key.
func (q *Queues[K]) each(key K, f func(l *line[K])) {
	// A waiter that is not counted yet looks at the key after it has entered, so it finds the
	// change.
	if q.waiters.Load() == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range []*crowd[K]{&q.demanding, &q.undemanding} {
		if l := c.lines[key]; l != nil {
			f(l)
		}
	}
}

// Size returns how many waiters there are, how many keys, groups and bounds they have, and how many steps
// were made in their lines. It is for tests.
func (q *Queues[K]) Size() (waiters, keys, steps int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys = len(q.counts)
	for _, c := range []*crowd[K]{&q.demanding, &q.undemanding} {
		keys += len(c.lines) + len(c.groups)
	}
	return q.Len(), keys, q.steps
}
