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
// Invariant: used is the number of keys that have a cell in the limiter's tables, with
// those that enterAll has made room for, and at most most. A key takes its place and
// gives it up under the lock of its shard, in one step with its cell. So a call that
// holds that lock, and finds no cell, knows that no place is that key's.
type keyCap struct {
	most      int64
	overflow  Overflow
	used      atomic.Int64
	gathering sync.Mutex    // see enterAll
	joined    atomic.Uint64 // keys ever inserted: see resident
	seats     []atomic.Pointer[resident]
}

// A resident is a key with its cell, as it can be found by chance: it has one of
// the seats until the cell is dead. There are two for each key, so a random one is
// free, or taken, as likely as not, and neither takes long to find.
//
// Invariant: only a resident whose cell is dead loses its seat to another key. A
// resident whose cell is locked is replaced only by the goroutine that holds the lock.
type resident struct {
	regime *regime
	key    key
	cell   *cell
	joined uint64 // the order in which keys were inserted; another cell of the key keeps it
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
	r := &resident{g, k, c, g.cap.joined.Add(1)}
	for random := rand.NewPCG(k.hash, 0); ; { // half of the seats are free, so this ends soon
		seat := g.cap.draw(random)
		if taken := seat.Load(); taken.gone() && seat.CompareAndSwap(taken, r) {
			return
		}
	}
}

// reseat gives the seat of old to next, which replaces it as the cell of k in g. The
// caller must have locked old. The key keeps its order among the others.
func (g *regime) reseat(k key, old, next *cell) {
	if g.cap == nil {
		return
	}
	// seat took the first seat of this sequence that was free, so it is among the first
	// few, unless the goroutine that inserted old has not come to seat it yet.
	const tries = 64
	random := rand.NewPCG(k.hash, 0)
	for range tries {
		seat := g.cap.draw(random)
		if r := seat.Load(); r != nil && r.cell == old {
			seat.Store(&resident{g, k, next, r.joined}) // old is locked: no other goroutine stores here
			return
		}
	}
	g.seat(k, next)
}

// draw returns a random seat.
func (c *keyCap) draw(random *rand.PCG) *atomic.Pointer[resident] {
	i, _ := bits.Mul64(random.Uint64(), uint64(len(c.seats)))
	return &c.seats[i]
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

// kill makes c, the cell of k in g, dead if its word still is word, and takes it out of
// the table together with its place. It reports whether it has.
func (g *regime) kill(k key, c *cell, word uint64) (killed bool) {
	g.keys.update(k, func(found *cell) *cell {
		if killed = found == c && c.kill(word); !killed {
			return found
		}
		g.leave(1)
		return nil
	})
	return killed
}

// leave gives back the room of that number of keys of g.
func (g *regime) leave(keys int64) {
	if g.cap != nil {
		g.cap.used.Add(-keys)
	}
}

// enterAll takes room for a number of new keys in g, and displaces others if it must. It
// reports false, and has taken none, if the caller has to look again, as makeRoom says.
// It keeps the room that it has while it makes more, so other calls cannot take it in
// between. Calls that do this take turns, so none waits for room that another keeps.
func (l *Limiter) enterAll(g *regime, keys int64, spared []target) bool {
	g.cap.gathering.Lock()
	defer g.cap.gathering.Unlock()
	for entered := range keys {
		for !g.cap.enter() {
			if !l.makeRoom(g, 1, spared, true) {
				g.leave(entered)
				return false
			}
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
	return c != nil && (max(keys, int64(len(spared))) > c.most || !c.displaces() && !l.makeRoom(g, keys, spared, false))
}

// fullFor reports whether k has no place in g. It does not evict k to find one: another
// call may have made k in the meantime, and not yet charged it.
func (l *Limiter) fullFor(g *regime, k key) bool {
	self := [1]target{{key: k}}
	return l.full(g, 1, self[:])
}

// fits reports whether the missing keys of a call of that number of keys have places now.
func (c *keyCap) fits(missing, keys int64) bool {
	return max(missing, keys) <= c.most && c.used.Load()+missing <= c.most
}

// displaces reports whether a key that is not idle makes room for a new one.
func (c *keyCap) displaces() bool { return c != nil && c.overflow == EvictLeastUsed }

// makeRoom evicts keys, none of those spared, until so many new ones have a place,
// and reports whether they do. It evicts idle keys and, if displace is set, others.
// If it reports false although displace is set, the caller has to look again: a spared
// key may have come into the last place meanwhile.
func (l *Limiter) makeRoom(g *regime, keys int64, spared []target, displace bool) bool {
	c := g.cap
	for lost := 0; c.used.Load()+keys > c.most; {
		atomic.Round("makeRoom", lost+1)
		idle, least := l.sample(g, spared, displace)
		switch {
		case idle:
		case !displace:
			return false
		case least.resident == nil:
			runtime.Gosched() // all are spared, or being made
			return false
		case !least.die(lost >= optimisticRounds):
			lost++
			runtime.Gosched() // it is being taken from
		default:
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

const (
	sampleKeys  = 16  // residents in a sample, if any of them has quota left
	sampleSeats = 128 // seats that a sample inspects at most
)

// sample inspects seats drawn at random, or all of them if they are few, until it has
// found sampleKeys residents. It evicts the first that is idle, which changes no answer.
// If there is none and displace is set, it returns the candidate to be displaced, with
// a nil resident if it found none.
//
// While no candidate has any quota left, sample goes on, up to sampleSeats: so keys held
// at their limit stay even where they are most of the table. Seats are drawn independently.
// In rows of neighbours, the key behind a row of free seats would be found more often than
// others, and its eviction would make the row longer.
func (l *Limiter) sample(g *regime, spared []target, displace bool) (idle bool, least candidate) {
	c, now := g.cap, g.at(l.clock.Now())
	random, all, seen := rand.NewPCG(rand.Uint64(), 0), len(c.seats) <= sampleSeats, 0
	for i := range min(sampleSeats, len(c.seats)) {
		if !all && seen >= sampleKeys && (least.resident == nil || least.left > 0) {
			break
		}
		seat := c.draw(random)
		if all {
			seat = &c.seats[i]
		}
		r := seat.Load()
		if r.gone() || slices.ContainsFunc(spared, func(t target) bool { return t.key == r.key }) {
			continue
		}
		seen++
		if l.evict(r.regime, r.key, r.cell, now) {
			seat.CompareAndSwap(r, nil)
			return true, candidate{}
		}
		if !displace {
			continue
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

// die makes the cell of c dead, and reports whether it did: if nothing has been charged to
// the cell since it was sampled; or, if wait is set, whatever has, once it holds the lock.
// Where all keys are busy, one is charged before each sample is complete.
func (c *candidate) die(wait bool) bool {
	word := c.word
	if wait {
		var alive bool
		if word, alive = c.regime.policy.acquire(c.cell); !alive {
			return false
		}
		word |= locked
	}
	return c.regime.kill(c.key, c.cell, word)
}

// exceeds reports whether c is to be displaced rather than o: if a greater part of its
// Count is left to it, or of equals, if it was inserted later.
func (c candidate) exceeds(o candidate) bool {
	hi, lo := bits.Mul64(uint64(c.left), uint64(o.count))
	otherHi, otherLo := bits.Mul64(uint64(o.left), uint64(c.count))
	if hi == otherHi && lo == otherLo {
		return c.joined > o.joined
	}
	return hi > otherHi || hi == otherHi && lo > otherLo
}
