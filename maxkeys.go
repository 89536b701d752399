package sash

import (
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A keyCap bounds the keys of a limiter.
//
// Invariant: used is at least the number of cells that are alive in the limiter's
// tables, but that one key may have two while it is carried over, and at most most.
// Who makes a cell enters first; who kills one leaves, once it is out of the table.
type keyCap struct {
	most      int64
	overflow  Overflow
	used      atomic.Int64
	gathering sync.Mutex // see enterAll
	seats     []atomic.Pointer[resident]
}

// A resident is a key with its cell, as it can be found by chance: it has one of
// the seats until the cell is dead. There are two for each key, so a random one is
// free, or taken, as likely as not, and neither takes long to find.
type resident struct {
	regime *regime
	key    key
	cell   *cell
}

func newKeyCap(most int, overflow Overflow) *keyCap {
	if most == 0 {
		return nil
	}
	return &keyCap{most: int64(most), overflow: overflow, seats: make([]atomic.Pointer[resident], 2*most)}
}

// empty returns a cap of the same keys, without any.
func (c *keyCap) empty() *keyCap {
	if c == nil {
		return nil
	}
	return newKeyCap(int(c.most), c.overflow)
}

// seat makes it possible to find c, which is that of k in g, by chance.
func (g *regime) seat(k key, c *cell) {
	if g.cap == nil {
		return
	}
	r := &resident{g, k, c}
	for {
		seat := &g.cap.seats[rand.IntN(len(g.cap.seats))]
		if taken := seat.Load(); taken.gone() && seat.CompareAndSwap(taken, r) {
			return
		}
	}
}

func (r *resident) gone() bool { return r == nil || r.cell.word.Load()&dead != 0 }

// vacate frees the seats of the dead, and with them what they keep in memory.
func (c *keyCap) vacate() {
	for i := range c.seats {
		if r := c.seats[i].Load(); r != nil && r.gone() {
			c.seats[i].CompareAndSwap(r, nil)
		}
	}
}

// leave gives back the room of so many keys of g.
func (g *regime) leave(keys int64) {
	if g.cap != nil {
		g.cap.used.Add(-keys)
	}
}

// enter takes room for a new key in g, and reports whether there is. To have it,
// none of the spared is evicted.
func (l *Limiter) enter(g *regime, spared []target) bool {
	for !g.cap.enter() {
		if !l.makeRoom(g, 1, spared) {
			return false
		}
	}
	return true
}

// enterAll is enter for so many new keys. It keeps the room that it has while it makes
// more, so other calls cannot take it in between. Calls that do this take turns, so
// none waits for room that another keeps.
func (l *Limiter) enterAll(g *regime, keys int64, spared []target) bool {
	if g.cap == nil || keys == 0 {
		return true
	}
	g.cap.gathering.Lock()
	defer g.cap.gathering.Unlock()
	for entered := range keys {
		if !l.enter(g, spared) {
			g.leave(entered)
			return false
		}
	}
	return true
}

// enter takes room for a key, if there is any.
func (c *keyCap) enter() bool {
	if c == nil {
		return true
	}
	for {
		used := c.used.Load()
		if used >= c.most {
			return false
		}
		if c.used.CompareAndSwap(used, used+1) {
			return true
		}
	}
}

// full reports whether so many new keys, or all of the spared, have no place in g.
func (l *Limiter) full(g *regime, keys int64, spared []target) bool {
	c := g.cap
	return c != nil && (max(keys, int64(len(spared))) > c.most || c.overflow != EvictLeastUsed && !l.makeRoom(g, keys, spared))
}

// fits reports whether so many new keys, of so many of one call, have a place now.
func (c *keyCap) fits(missing, keys int64) bool {
	return max(missing, keys) <= c.most && c.used.Load()+missing <= c.most
}

// makeRoom evicts keys, none of those spared, until so many new ones have a place,
// and reports whether they do. If not, under EvictLeastUsed, the caller has to look
// again: a spared key may have come into the last place meanwhile.
func (l *Limiter) makeRoom(g *regime, keys int64, spared []target) bool {
	c := g.cap
	for c.used.Load()+keys > c.most {
		idle, least := l.sample(g, spared)
		switch {
		case idle:
		case c.overflow != EvictLeastUsed:
			return false
		case least.resident == nil:
			runtime.Gosched() // all are spared, or being made
			return false
		case !least.cell.kill(least.word):
			runtime.Gosched() // it is being taken from
		default:
			least.regime.keys.remove(least.key, least.cell)
			least.regime.leave(1)
			least.seat.CompareAndSwap(least.resident, nil)
			l.displaced.Add(1)
			l.queues.nudge(least.key.name)
		}
	}
	return true
}

// A candidate is a resident with what is left to it, by the state of that word.
type candidate struct {
	*resident
	seat        *atomic.Pointer[resident]
	word        uint64
	left, count int64 // of Count
}

// sample looks at a few residents: those in neighbouring seats, from any on, as they
// sit at random. If it comes upon an idle one, it evicts that, as nobody can notice;
// else it returns the least used. Most find a few in 16 seats; but who sits behind empty
// ones is the likelier to be found, and leaves more of them, so some have to go far.
func (l *Limiter) sample(g *regime, spared []target) (idle bool, least candidate) {
	const enough = 8
	c, now := g.cap, g.at(l.clock.Now())
	first := rand.IntN(len(c.seats))
	for seen, looks := 0, 0; seen < enough && looks < min(64*enough, len(c.seats)); looks++ {
		seat := &c.seats[(first+looks)%len(c.seats)]
		r := seat.Load()
		if r.gone() || slices.ContainsFunc(spared, func(t target) bool { return t.key == r.key }) {
			continue
		}
		seen++
		if l.evict(r.regime, r.key, r.cell, now) {
			seat.CompareAndSwap(r, nil)
			return true, candidate{}
		}
		if one, alive := r.candidate(now); alive && (least.resident == nil || one.exceeds(least)) {
			least, least.seat = one, seat
		}
	}
	return false, least
}

func (r *resident) candidate(now int64) (c candidate, alive bool) {
	p := r.regime.policy
	word, alive := p.settled(r.cell)
	if !alive {
		return candidate{}, false
	}
	var d Decision
	_, alive = p.ask(r.cell, query{at: now}, &d)
	return candidate{resident: r, word: word, left: d.Remaining, count: d.Limit.Count}, alive
}

// exceeds reports whether a greater part of its Count is left to c than to o.
func (c candidate) exceeds(o candidate) bool {
	hi, lo := bits.Mul64(uint64(c.left), uint64(o.count))
	otherHi, otherLo := bits.Mul64(uint64(o.left), uint64(c.count))
	return hi > otherHi || hi == otherHi && lo > otherLo
}
