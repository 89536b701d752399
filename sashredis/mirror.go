package sashredis

import (
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// A mirror keeps the latest state that the store has answered for each of the latest keys, to
// deny in-process what the store would deny.
//
// This is exact. Counts only grow between answers, but for the exceptions that WithMirror names.
// So a state of the past is a lower bound of the state now. What is used under it only declines
// with time. So if it denies a call at the latest time that the store's clock may show, then the
// store would deny it, too. Only a reading of the local clock from before the answer proves nothing.
// Units that are held may be given back at any time, so a limit of those denies nothing here.
//
// A key may be in any slot of one set. Readers load the slots. A writer holds the lock of the
// set, and replaces whole entries. A nil mirror keeps nothing.
type mirror struct{ sets []mirrorSet }

type mirrorSet struct {
	mu    sync.Mutex
	slots [8]atomic.Pointer[mirrored]
}

// A mirrored is what a mirror keeps of a key. But for seeding, it does not change.
type mirrored struct {
	name, suffix string
	hash         uint64
	// Without states: at that instant units were given back, other than held ones, or spent past a reservation,
	// or the key was reset. Then earlier states deny nothing any more.
	view
	charged int64     // units that the same answer has charged to it since
	before  *mirrored // without states: what the fallback goes on from; nil: nothing is known
	bytes   int       // that it takes

	seeding seeding // of the share of it that the fallback charges
}

// newMirror returns a mirror of that number of keys; nil for none.
func newMirror(keys int) *mirror {
	if keys == 0 {
		return nil
	}
	const slots = len(mirrorSet{}.slots)
	return &mirror{make([]mirrorSet, (keys+slots-1)/slots)}
}

func (m *mirror) set(t *target) (set *mirrorSet, hash uint64) {
	hash = maphash.String(hashSeed, t.name)
	index, _ := bits.Mul64(hash, uint64(len(m.sets))) // a division would take longer
	return &m.sets[index], hash
}

// find returns the slot of t and what is kept there. If t is not kept, e is nil, and slot is an empty one
// or nil.
func (set *mirrorSet) find(t *target, hash uint64) (slot *atomic.Pointer[mirrored], e *mirrored) {
	for i := range set.slots {
		switch e := set.slots[i].Load(); {
		case e == nil && slot == nil:
			slot = &set.slots[i] // the first, so that look-ups are short
		case e != nil && e.hash == hash && e.name == t.name && e.suffix == t.suffix:
			return &set.slots[i], e
		}
	}
	return slot, nil
}

// get returns the entry of t, or nil.
func (m *mirror) get(t *target) *mirrored {
	if m == nil {
		return nil
	}
	set, hash := m.set(t)
	_, e := set.find(t, hash)
	return e
}

// load returns what is known of t that may deny calls, or nil.
func (m *mirror) load(t *target) *mirrored {
	if e := m.get(t); e != nil && len(e.states) > 0 {
		return e
	}
	return nil
}

// past returns what e tells the fallback to go on from: its states, or what was known before; nil: nothing.
func (e *mirrored) past() *mirrored {
	if e == nil || len(e.states) > 0 {
		return e
	}
	return e.before
}

// keep keeps v, an answer to b, as the state of t before that many units were charged to it, unless
// something newer is kept.
func (m *mirror) keep(t target, v view, charged int64, b *batch) {
	const longest = 512 // bytes of a name: clients may choose names
	const most = 8      // ticks that a state knows: there may be one for each cost of a batch
	if len(t.name) > longest {
		return
	}
	v.token = "" // it refers to the whole reply
	knowsMore := func(s state) bool { return len(s.freed) > most }
	if len(b.targets) > 1 || slices.ContainsFunc(v.states, knowsMore) {
		v.states = slices.Clone(v.states) // they are a part of the states of all targets, and calls of b read them
		for i := range v.states {
			if s := &v.states[i]; knowsMore(*s) {
				s.freed = slices.Clone(s.freed[:most])
			}
		}
	}
	m.store(t, &mirrored{view: v, charged: charged})
}

// forget makes m forget what it has of t from before it was reset, which v tells, without states. A state from
// before is not kept later either, if an answer with it is on its way.
func (m *mirror) forget(t target, v view) { m.store(t, &mirrored{view: v}) }

// settle tells m that a charge of units of t was settled. v tells when, without states. left is how many were
// given back or, below 0, spent past them; where units are held, all were given back.
//
// If only held ones were, what m has of t from before is still a lower bound of what other limits count.
// Otherwise it denies nothing any more: it may be too much, or tell too short a wait. But the fallback goes on
// from it.
func (m *mirror) settle(t target, units, left int64, v view) {
	if m == nil {
		return
	}
	set, hash := m.set(&t)
	set.mu.Lock() // of two that are settled at a time, the second goes on from the first
	defer set.mu.Unlock()
	_, e := set.find(&t, hash)
	past, stillBound := e.past(), left == 0 || !t.spends
	after := &mirrored{view: v}
	switch known := past != nil && e.at < v.at; {
	case !known && stillBound:
		return
	case !known:
	case stillBound && past == e:
		after = past.settled(t.ruleset, units, 0)
	default:
		after.before = past.settled(t.ruleset, units, max(-left, 0))
		if after.size(t.name) > mirrorSetBytes {
			after.before = nil
		}
	}
	set.store(t, hash, after) // unless something newer has come
}

// settled returns e after a charge of units was settled. Units that were held are given back. Others still
// count, and what was spent past them counts from the instant of e on.
func (e *mirrored) settled(rs *ruleset, units, spent int64) *mirrored {
	v := e.view.with(rs, e.charged)
	for i := range v.states {
		if s, r := &v.states[i], &rs.rules[i]; r.held {
			// Which of the units have gone is not known. So these count until the newest would have gone.
			s.used, s.added, s.freed = max(s.used+s.added-units, 0), 0, nil
		} else {
			*s = r.charge(*s, spent)
		}
	}
	return &mirrored{view: v}
}

// mirrorSetBytes is what the keys of one set take at most: 512 bytes each, on the average.
const mirrorSetBytes = len(mirrorSet{}.slots) * 512

// size returns the bytes that e takes, with its name.
func (e *mirrored) size(name string) int {
	bytes := int(unsafe.Sizeof(*e)) + len(name)
	for i := range e.states {
		bytes += int(unsafe.Sizeof(e.states[i])) + cap(e.states[i].freed)*int(unsafe.Sizeof(freedAt{}))
	}
	if e.before != nil {
		bytes += e.before.size("")
	}
	return bytes
}

// store keeps e in the set of its key.
func (m *mirror) store(t target, e *mirrored) {
	if m == nil {
		return
	}
	set, hash := m.set(&t)
	set.mu.Lock()
	defer set.mu.Unlock()
	set.store(t, hash, e)
}

// store puts e into the slot of its key, or an empty one, or the one whose answer is the oldest. If
// the set then takes too many bytes, it drops the oldest of its other entries. If e alone does, it
// is not kept. The set must be locked.
func (set *mirrorSet) store(t target, hash uint64, e *mirrored) {
	e.suffix, e.hash, e.bytes = t.suffix, hash, e.size(t.name)
	if e.bytes > mirrorSetBytes {
		return
	}
	slot, old := set.find(&t, hash)
	switch {
	case old == nil:
		if slot == nil {
			slot, _ = set.oldest(nil)
		}
		e.name = strings.Clone(t.name) // the caller's may be a part of a long text, such as a request
	// At the same microsecond, what forgets is newer: that is safe in any order. What was sent after the
	// other had been received is newer, too, if the store's clock was set back.
	case old.at < e.at || old.at == e.at && len(old.states) > 0 || old.received < e.sent:
		e.name = old.name
	default:
		return
	}
	slot.Store(e)
	for {
		oldest, bytes := set.oldest(slot)
		if bytes <= mirrorSetBytes {
			return
		}
		oldest.Store(nil) // e fits alone, so there is another
	}
}

// oldest returns the slot with the oldest answer, except keep, and the bytes of all slots. The set must
// be locked.
func (set *mirrorSet) oldest(keep *atomic.Pointer[mirrored]) (oldest *atomic.Pointer[mirrored], bytes int) {
	for i := range set.slots {
		slot := &set.slots[i]
		e := slot.Load()
		if e == nil {
			continue
		}
		bytes += e.bytes
		if slot != keep && (oldest == nil || e.received < oldest.Load().received) {
			oldest = slot
		}
	}
	return oldest, bytes
}

// deny sets d to the denial of r, a call for targets, at a reading of the local clock, if that is certain,
// and returns for how long it is. If it is not, that is 0, and d is set to anything. All must be known: the
// wait is the longest of them. That of d also counts units that were held, as if none were given back.
func (m *mirror) deny(targets []target, r *request, now int64, d *Decision) (certain time.Duration) {
	var b basis
	for i := range targets {
		// An answer may have come since the reading. By an earlier instant than its own, a token bucket
		// lacks more than it ever did.
		if !m.basis(&targets[i], now, &b) || now < b.received || !b.decide(r.needs(i), &d.Decision) {
			return 0
		}
	}
	d.By = ByMirror
	return b.certain
}

// basis sets b to what decisions on t follow from at a reading of the local clock, and reports whether t is
// known. They are for the latest time that the store's clock may show. Their waits count from the
// earliest: so they are long enough.
func (m *mirror) basis(t *target, now int64, b *basis) (known bool) {
	e := m.load(t)
	if e == nil {
		return false
	}
	earliest, latest := e.clockBounds(now)
	b.view, b.ruleset, b.charged = &e.view, t.ruleset, e.charged
	b.now, b.early = latest, time.Duration(latest-earliest)
	return true
}
